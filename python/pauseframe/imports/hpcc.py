"""Converts a `config.txt` of the HPCC simulator (Li et al., SIGCOMM 2019) and its forks to a scenario.

A line is a key and its values. Settings that a scenario cannot express become notes, so that nobody assumes equal runs.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe._core import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROLS = {"1": "dcqcn_hpcc", "3": "hpcc", "7": "timely"}
"""Congestion control by CC_MODE."""
SILENT = {
    "ENABLE_QCN",
    "USE_DYNAMIC_PFC_THRESHOLD",
    "TRACE_FILE",
    "TRACE_OUTPUT_FILE",
    "FCT_OUTPUT_FILE",
    "PFC_OUTPUT_FILE",
    "ENABLE_TRACE",
    "QLEN_MON_FILE",
    "QLEN_MON_START",
    "QLEN_MON_END",
    "MULTI_RATE",
    "SAMPLE_FEEDBACK",
    "PINT_LOG_BASE",
    "PINT_PROB",
    "INT_MULTI",
    "RATE_BOUND",
    "GLOBAL_T",
    "VAR_WIN",
    "FAST_REACT",
    "L2_CHUNK_SIZE",
    "L2_BACK_TO_ZERO",
    "DCTCP_RATE_AI",
    "ACK_HIGH_PRIO",
}
"""Keys about output files, and keys whose value has no effect here."""
USED = {
    "TOPOLOGY_FILE",
    "FLOW_FILE",
    "CC_MODE",
    "PACKET_PAYLOAD_SIZE",
    "L2_ACK_INTERVAL",
    "KMAX_MAP",
    "KMIN_MAP",
    "PMAX_MAP",
    "BUFFER_SIZE",
    "SIMULATOR_STOP_TIME",
    "MI_THRESH",
    "ERROR_RATE_PER_LINK",
    "LINK_DOWN",
    "HAS_WIN",
}
DCQCN = {
    "ALPHA_RESUME_INTERVAL": 'dcqcn_alpha_interval = "{} us"',
    "RP_TIMER": 'dcqcn_rise_interval = "{} us"',
    "EWMA_GAIN": "dcqcn_gain = {}",
    "FAST_RECOVERY_TIMES": "dcqcn_recovery_steps = {}",
    "RATE_AI": 'dcqcn_additive_increase = "{}"',
    "RATE_HAI": 'dcqcn_hyper_increase = "{}"',
    "MIN_RATE": 'dcqcn_minimum_rate = "{}"',
}
"""Constants of DCQCN, with the lines for them."""
FIXED: dict[str, dict[str, float]] = {
    "dcqcn_hpcc": {"RATE_DECREASE_INTERVAL": 4, "CLAMP_TARGET_RATE": 0},
    "hpcc": {"U_TARGET": 0.95},
    "timely": {},
}
"""Constants without a key, as the scripts of the HPCC simulator set them."""
BY_LINE_RATE = {
    "hpcc": {"RATE_AI": "10 Mb/s for each 25 Gb/s", "MIN_RATE": "1/100"},
    "timely": {"RATE_AI": "10 Mb/s for each 10 Gb/s", "RATE_HAI": "50 Mb/s for each 10 Gb/s", "MIN_RATE": "1/100"},
}
"""Constants that follow from the line rate here, as in the scripts of the HPCC simulator."""


@dataclass(frozen=True)
class Imported:
    """A scenario as TOML, and notes on the parts that it leaves out."""

    toml: str
    notes: list[str]


def read_config(path: Path) -> Imported:
    """The scenario of a `config.txt`, for a file beside it.

    Raises:
        InputError: a key is missing, or the congestion control is not supported.

    """
    values = _values(path)
    if not values.keys() & USED:
        raise InputError(f"{path} is no config.txt of the HPCC simulator: it has none of its keys, such as CC_MODE")
    mode = _one(path, values, "CC_MODE")
    if mode not in CONTROLS:
        known = ", ".join(f"{number} ({name})" for number, name in CONTROLS.items())
        raise InputError(f"{path}: CC_MODE {mode} is not supported; supported are {known}")
    notes = list(_notes(values, CONTROLS[mode]))
    payload = int(_one(path, values, "PACKET_PAYLOAD_SIZE", "1000"))
    mtu = next((size for size in (256, 512, 1000, 1024, 2048, 4096) if size >= payload), 4096)
    if mtu != payload:
        notes.append(f"PACKET_PAYLOAD_SIZE {payload}: packets have {mtu} bytes of payload, a path MTU of RoCEv2")
    text = json.dumps
    lines = [
        f"# From {path.name} of the HPCC simulator; `pauseframe import hpcc` lists the skipped parts.",
        f"name = {text(path.stem)}",
        f'stop = {{ time = "{_one(path, values, "SIMULATOR_STOP_TIME", "4")} s", when_finished = true }}',
        'clocks = "ideal"',
        "",
        "[topology]",
        'kind = "file"',
        f"path = {text(_file(path, values, 'TOPOLOGY_FILE'))}",
        'format = "hpcc"',
        "",
        "[host] # as in the simulator: no Ethernet headers and gaps, queue pairs take turns",
        f'mtu = "{max(1500, mtu + 102)} B"',
        'wire_overhead = "none"',
        'nic_queue = "per_destination"',
        "",
        "[switch]",
        f'buffer = {{ policy = "shared", size = "{_one(path, values, "BUFFER_SIZE", "16")} MiB", alpha = 0.125 }}',
        f"marker = {_marker(path, values)}",
        "",
        "[transport]",
        'preset = "roce_dcqcn"' if mode == "1" else f'preset = "roce_{CONTROLS[mode]}"',
        f"rdma_control = {text(CONTROLS[mode])}",
        f'rdma_mtu = "{mtu} B"',
        f"rdma_ack_every = {max(1, int(_one(path, values, 'L2_ACK_INTERVAL', '1')))}",
        'rdma_nak_interval = "500 us"',
        "rdma_slow_restart = false",
        'rdma_timer = "ibta" # the simulator has no timer; this one is long',
        'rdma_cnp_interval = "0 s" # every marked packet is answered',
    ]
    if mode == "3":
        lines.append(f"hpcc_max_stage = {_one(path, values, 'MI_THRESH', '0')}")
    elif mode == "1":
        lines += [line.format(_constant(path, key, values[key][0])) for key, line in DCQCN.items() if values.get(key)]
    flows = text(_file(path, values, "FLOW_FILE"))
    lines += ["", "[[workload]]", 'kind = "flows"', f"file = {flows}", ""]
    return Imported("\n".join(lines), notes)


def _values(path: Path) -> dict[str, list[str]]:
    lines = (line.split("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines())
    return {words[0]: words[1:] for words in lines if words}


def _one(path: Path, values: dict[str, list[str]], key: str, default: str | None = None) -> str:
    found = values.get(key)
    if found:
        return found[0]
    if default is None:
        raise InputError(f"{path}: {key} is missing")
    return default


def _file(path: Path, values: dict[str, list[str]], key: str) -> str:
    """The name of a file for a scenario beside `path`: the simulator's names begin at the folder that it runs in."""
    name = _one(path, values, key)
    for folder in (path.parent, path.parent / os.pardir, Path.cwd()):
        if (folder / name).is_file():
            return os.path.relpath(folder / name, path.parent)
    return name


def _constant(path: Path, key: str, value: str) -> str:
    """A constant of DCQCN in the notation of scenarios: rates of ns-3 are `40Mb/s` or `40Mbps`."""
    if "RATE" not in key:
        return value
    rate = re.fullmatch(r"([0-9.]+)([kKMG]?)(?:bps|b/s)", value)
    if rate is None:
        raise InputError(f"{path}: {key} {value} is no rate in bits per second, such as 40Mb/s")
    return f"{rate[1]} {rate[2].upper()}bps"


def _by_rate(path: Path, values: dict[str, list[str]], key: str) -> dict[int, str]:
    """The entries of a map (`KMAX_MAP count rate value rate value ...`) by link rate in bits per second."""
    words = values.get(key, [])[1:]
    pairs = dict(zip(map(int, words[::2]), words[1::2], strict=False))
    if not pairs:
        raise InputError(f"{path}: {key} is missing or has no entry")
    return pairs


def _marker(path: Path, values: dict[str, list[str]]) -> str:
    """RED with a threshold for each link rate (values in kB)."""

    def sizes(key: str) -> str:
        pairs = _by_rate(path, values, key)
        entries = (f'"{rate / 1e9:g} Gbps" = "{size} KB"' for rate, size in pairs.items())
        return f"{{ {', '.join(entries)} }}"

    shares = _by_rate(path, values, "PMAX_MAP")
    return (
        f'{{ kind = "red", min = {sizes("KMIN_MAP")}, max = {sizes("KMAX_MAP")}, '
        f'p_max = {float(shares[max(shares)])}, w_q = 1.0, at = "dequeue", not_ect = "queue" }}'
    )


def _notes(values: dict[str, list[str]], control: str) -> Iterator[str]:
    if values.get("ERROR_RATE_PER_LINK", ["0"])[0] not in ("0", "0.0", "0.0000"):
        yield "ERROR_RATE_PER_LINK: links lose no packets; add a [[corruption]] table"
    if any(word != "0" for word in values.get("LINK_DOWN", [])):
        yield "LINK_DOWN: no link goes down; add a [[failure]] table"
    if len(set(values.get("PMAX_MAP", [])[2::2])) > 1:
        yield "PMAX_MAP: all ports have the value of the fastest rate"
    if values.get("HAS_WIN", ["0"])[0] != "0" and control != "hpcc":
        yield f"HAS_WIN: {control} has no window here"
    for key, fixed in FIXED[control].items():
        given = values.get(key)
        if given and float(given[0]) != fixed:
            yield f"{key} {given[0]}: {fixed} is used"
    for key, rule in BY_LINE_RATE.get(control, {}).items():
        if values.get(key):
            yield f"{key} {values[key][0]}: {rule} of the line rate is used"
    known = SILENT | USED | DCQCN.keys() | {key for keys in FIXED.values() for key in keys}
    unused = sorted(key for key in values if key not in known)
    if unused:
        yield f"not used: {', '.join(unused)}"
