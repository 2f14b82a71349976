"""The workload text of SimAI and AICB: what becomes of the words of its header, and of its lines.

The core reads the file itself (`workload.kind = "training"`). This reader looks at the same words to say what each one
does, and finds lines that SimAI would read differently than they look. Source: `Workload::initialize_workload` in
Workload.cc of aliyun/SimAI.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.imports.fates import Fate
from pauseframe.terminal.text import none_of

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.imports.fates import State

POLICIES = {
    "MICRO": "the collectives of all lines, one after the other; SimAI runs the first line only",
    "HYBRID_TRANSFORMER": "forward, then backward, line by line",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": "forward, then backward, line by line",
}
"""Policies that `workload.kind = "training"` runs."""
OTHERS = (
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED",
    "HYBRID_CUSTOMIZED",
    "DISTRIBUTED_INFERENCE",
)
"""Policies of SimAI that AICB does not write."""
FIELDS = 12
COMMUNICATION = (3, 6, 9)
"""Fields of a line with a collective's name."""
OPERATION = r"NONE|BROADCAST|(ALLREDUCE|ALLGATHER|REDUCESCATTER|ALLTOALL)(_EP|_DP_EP)?"
FORWARD_LEAST = 4096
"""Bytes to which SimAI raises a smaller forward collective."""


@dataclass
class SimaiWorkload:
    """The header of a workload text, and the counts of its lines that matter for notes."""

    path: Path
    policy: str
    header: dict[str, list[str]]
    lines: int = 0
    words: Counter[str] = field(default_factory=Counter)
    """Names of collectives, by the number of fields that have them."""
    small: int = 0
    """Forward collectives below 4,096 bytes."""
    trailing: str = ""
    """Text after the last field of the last line."""

    @property
    def gpus(self) -> int | None:
        """Number of GPUs by the header; None if it lacks `all_gpus`."""
        return _whole(self.header["all_gpus:"][0]) if "all_gpus:" in self.header else None


def read_workload(path: Path) -> SimaiWorkload:
    """Reads the words of a workload text. Raises InputError with the line of a mistake."""
    try:
        text = read_bytes(path, share=16).decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text") from None
    rows = text.lstrip("\ufeff").splitlines()
    words = rows[0].split() if rows else []
    policy = words[0] if words else ""
    if policy in OTHERS:
        known = ", ".join(POLICIES)
        raise InputError(f"{path}, line 1: policy {policy} is not simulated; supported are {known}, which AICB writes")
    if policy not in POLICIES:
        hint = " (busbw.yaml belongs to SimAI's analytical mode)" if path.suffix in {".yaml", ".yml"} else ""
        raise InputError(f"{path}, line 1: a workload of SimAI begins with a policy, such as {list(POLICIES)[2]}{hint}")
    workload = SimaiWorkload(path, policy, _header(words[1:]))
    keys = [*KEYS, *CHECKPOINTS]
    if policy != "MICRO" and (unknown := next((key for key in workload.header if key not in keys), None)):
        raise InputError(f"{path}, line 1: {none_of(unknown, keys)}")
    _read_lines(workload, rows)
    return workload


def _header(words: list[str]) -> dict[str, list[str]]:
    """The keys of the header, each with the words up to the next key."""
    header: dict[str, list[str]] = {}
    key = ""
    for word in words:
        if word.endswith(":") or word == "pp_comm":
            key = word if word.endswith(":") else f"{word}:"
            header[key] = []
        elif key:
            header[key].append(word)
        else:
            header[word] = []
    return header


def _read_lines(workload: SimaiWorkload, rows: list[str]) -> None:
    path = workload.path
    count = _whole(rows[1].strip()) if len(rows) > 1 else None
    if count is None:
        raise InputError(f"{path}, line 2: the number of layer lines should stand here")
    layers = [(number, row.split()) for number, row in enumerate(rows[2:], start=3) if row.strip()]
    if len(layers) < count:
        raise InputError(f"{path}, line 2: it says {count} layer lines, and the file has {len(layers)}")
    workload.lines = count
    for number, fields in layers[:count]:
        is_last = number == layers[count - 1][0]
        if len(fields) != FIELDS and not (is_last and len(fields) > FIELDS):
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields, where a layer has {FIELDS}; SimAI reads on in the next "
                "line without an error"
            )
        operations = [fields[at] for at in COMMUNICATION]
        if wrong := [name for name in operations if not re.fullmatch(OPERATION, name)]:
            raise InputError(
                f"{path}, line {number}: {wrong[0]} is no collective: give NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER "
                "or ALLTOALL, each bare or with _EP or _DP_EP"
            )
        workload.words.update(operations)
        size = _whole(fields[4]) or 0
        workload.small += fields[3] != "NONE" and 0 < size < FORWARD_LEAST
        if is_last and len(fields) > FIELDS:
            workload.trailing = " ".join(fields[FIELDS:])
    if len(layers) > count:
        workload.trailing = f"{workload.trailing} and {len(layers) - count} lines".removeprefix(" and ")


def _whole(word: str) -> int | None:
    return int(word) if re.fullmatch(r"[0-9]{1,12}", word) else None


def fates(workload: SimaiWorkload, gpus: int, *, as_simai: bool) -> list[Fate]:
    """What became of each word of the header, and of lines that are not what they look like."""
    name = workload.path.name
    state: State = "mapped" if workload.policy == "MICRO" else "used"
    result = [Fate(name, "policy", workload.policy, state, POLICIES[workload.policy])]
    for key, values in workload.header.items():
        state, how = _of_key(workload, key, values)
        result.append(Fate(name, key.rstrip(":"), " ".join(values), state, how))
    if "all_gpus:" not in workload.header:
        result.append(Fate(name, "all_gpus", "", "assumed", f"all {gpus} GPUs of the topology"))
    if "model_parallel_NPU_group:" not in workload.header and workload.policy != "MICRO":
        result.append(Fate(name, "model_parallel_NPU_group", "", "assumed", "one group of all GPUs, as SimAI does"))
    return [*result, *_of_lines(workload, as_simai)]


KEYS: dict[str, tuple[State, str]] = {
    "model_parallel_NPU_group:": ("used", "workload.tp"),
    "ep:": ("used", "workload.ep"),
    "pp:": ("used", "workload.pp"),
    "ga:": ("used", "workload.micro_batches"),
    "all_gpus:": ("used", "workload.gpus"),
    "vpp:": ("no effect", "AICB writes the number of layers here: set workload.virtual_stages to interleave stages"),
    "pp_comm:": ("used", "bytes between pipeline stages: messages here, a formula behind the run in SimAI"),
    "expert_parallel_npu_group:": (
        "no effect",
        "SimAI does not read this key; ep is the number of expert-parallel GPUs",
    ),
}
"""What becomes of the keys of a header."""
CHECKPOINTS = ("checkpoints:", "checkpoint_initiates:")
"""Keys of a header with a count, then so many layers."""


def _of_key(workload: SimaiWorkload, key: str, values: list[str]) -> tuple[State, str]:
    if workload.policy == "MICRO":
        return "no effect", "SimAI reads it for the policies of transformers only"
    number = _whole(values[0]) if values else None
    if key in CHECKPOINTS:
        return _of_checkpoints(number)
    if key == "model_parallel_NPU_group:" and number == 0:
        return "mapped", "0 means all GPUs: workload.tp"
    return KEYS[key]


def _of_checkpoints(count: int | None) -> tuple[State, str]:
    if not count:
        return "used", "no layer is computed again"
    if count == 1:
        return "used", "the layer from which the forward pass is computed again"
    return "mapped", f"all {count} layers; SimAI reads the first one {count} times"


def _of_lines(workload: SimaiWorkload, as_simai: bool) -> list[Fate]:
    name = workload.path.name
    rows = [Fate(name, "layer lines", str(workload.lines), "used", "workload.file: the core reads them unchanged")]
    rows.append(Fate(name, "update_ns", "the last field", "no effect", "SimAI does not spend it"))
    if count := workload.words["BROADCAST"]:
        rows.append(Fate(name, "BROADCAST", f"{count} times", "no effect", "SimAI makes it NONE without a message"))
    if workload.small:
        kept = "they keep their size; SimAI raises each to 4,096 B, as workload.as_simai = true does"
        state: State
        state, how = ("used", "raised to 4,096 B each, as in SimAI") if as_simai else ("mapped", kept)
        rows.append(Fate(name, "forward collectives below 4,096 B", f"{workload.small} times", state, how))
    if workload.trailing:
        rows.append(Fate(name, "text after the last field", workload.trailing[:40], "no effect", "SimAI ignores it"))
    return rows
