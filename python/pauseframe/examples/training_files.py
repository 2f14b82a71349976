"""The generated files of the example of training: rails, a step, and the inputs of SimAI and ASTRA-sim."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SERVERS, GPUS = 4, 8
"""Servers of the example of training, and GPUs of each."""
SPINES = 4
HIDDEN, SEQUENCE, LAYERS = 2048, 1024, 4


def training(folder: Path) -> None:
    """A step of 32 GPUs on rails, as a scenario's files and as the inputs of SimAI; a sum for ASTRA-sim."""
    rails = [f"rail{gpu}" for gpu in range(GPUS)]
    spines = [f"spine{number}" for number in range(SPINES)]
    hosts = [f"gpu{number}" for number in range(SERVERS * GPUS)]
    wires = [(host, rails[number % GPUS]) for number, host in enumerate(hosts)]
    wires += [(rail, spine) for rail in rails for spine in spines]
    nodes = [{"id": name, "kind": "host"} for name in hosts] + [
        {"id": name, "kind": "switch"} for name in rails + spines
    ]
    edges = [
        {"source": a, "target": b, "from": a, "link": number, "rate": "400 Gbps", "delay": "500 ns"}
        for number, (a, b) in enumerate(wires)
    ]
    graph = {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges}
    (folder / "rails.json").write_text(json.dumps(graph, indent=1) + "\n", encoding="utf-8")
    (folder / "gpus.txt").write_text("\n".join([*hosts, ""]), encoding="utf-8")
    (folder / "step.txt").write_text(_step(), encoding="utf-8")
    (folder / "simai").mkdir()
    (folder / "simai" / "step.txt").write_text(_step(), encoding="utf-8")
    (folder / "simai" / "rails.txt").write_text(_simai_topology(hosts, rails, spines, wires), encoding="utf-8")
    _astra(folder / "astra")


def _step() -> str:
    """The workload text of a dense model with tensor parallelism in servers (the size rules of AICB's generator)."""
    activation = 2 * SEQUENCE * HIDDEN
    parameters = LAYERS * 12 * HIDDEN**2 // GPUS
    time = 24 * SEQUENCE * HIDDEN**2 // GPUS // 2 // 400_000  # ns at 400 Tflop/s, half a layer
    column = f"-1 {time} ALLGATHER {activation} {time} REDUCESCATTER {activation} {time} NONE 0 100"
    row = f"-1 {time} REDUCESCATTER {activation} {time} ALLGATHER {activation} {time} NONE 0 100"
    lines = [
        f"grad_gather -1 1 NONE 0 1 NONE 0 1 ALLGATHER {2 * parameters} 100",
        f"grad_param_comm -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER {4 * parameters} 100",
        f"embedding_layer -1 20000 ALLREDUCE {activation} 1 NONE 0 1 NONE 0 100",
    ]
    for _ in range(LAYERS):
        lines += [
            f"{part}_{name} {rule}"
            for part in ("attention", "mlp")
            for name, rule in (("column", column), ("row", row))
        ]
    lines.append(f"cross_entropy -1 1 ALLREDUCE {4 * SEQUENCE} 1 NONE 0 1 NONE 0 100")
    keys = f"model_parallel_NPU_group: {GPUS} ep: 1 pp: 1 vpp: {LAYERS} ga: 1 all_gpus: {SERVERS * GPUS}"
    head = f"HYBRID_TRANSFORMER_FWD_IN_BCKWD {keys} checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0"
    return "\n".join([head, str(len(lines)), *lines, ""])


def _simai_topology(hosts: list[str], rails: list[str], spines: list[str], wires: list[tuple[str, str]]) -> str:
    """The same fabric as a topology text of SimAI, with an NVSwitch for each server."""
    names = [*hosts, *(f"nvswitch{server}" for server in range(SERVERS)), *rails, *spines]
    number = {name: position for position, name in enumerate(names)}
    links = [f"{gpu} {len(hosts) + gpu // GPUS} 3600Gbps 0.000025ms 0" for gpu in range(len(hosts))]
    links += [f"{number[a]} {number[b]} 400Gbps 0.0005ms 0" for a, b in wires]
    switches = " ".join(str(position) for position in range(len(hosts), len(names)))
    counts = f"{len(names)} {GPUS} {SERVERS} {len(rails) + len(spines)} {len(links)} H100"
    return "\n".join([counts, switches, *links, ""])


def _astra(folder: Path) -> None:
    """A computation and an all-reduce of 2 servers of 4 GPUs, as Chakra traces, and ASTRA-sim's other files."""
    (folder / "traces").mkdir(parents=True)
    for rank in range(8):
        compute = _node(1, "forward", 4, duration=500)
        reduce = _node(2, "gradients", 7, after=[1], comm_type=0, comm_size=1 << 24)
        trace = b"".join(_message(part) for part in (_field(1, b"0.0.4"), compute, reduce))
        (folder / "traces" / f"step.{rank}.et").write_bytes(trace)
    words = ["ring", "ring"]
    system: dict[str, object] = {
        f"{name}-implementation": words for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    }
    system |= {"scheduling-policy": "LIFO", "preferred-dataset-splits": 4, "endpoint-delay": 1000}
    network = "topology: [ Switch, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 400, 50 ]\nlatency: [ 900, 500 ]\n"
    (folder / "system.json").write_text(json.dumps(system, indent=1) + "\n", encoding="utf-8")
    (folder / "network.yml").write_text(network, encoding="utf-8")
    (folder / "logical.json").write_text('{"logical-dims": ["4", "2"]}\n', encoding="utf-8")


def _node(number: int, name: str, kind: int, *, after: Sequence[int] = (), duration: int = 0, **sizes: int) -> bytes:
    """A node of a Chakra trace (et_def.proto of mlcommons/chakra): type 4 computes, 7 is a collective."""
    parts = [_field(1, number), _field(2, name.encode()), _field(3, kind), *(_field(5, one) for one in after)]
    parts += [_field(7, duration)] if duration else []
    parts += [_field(10, _field(1, key.encode()) + _field(9, size)) for key, size in sizes.items()]
    return b"".join(parts)


def _message(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message: a whole number, or bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _message(value)


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])
