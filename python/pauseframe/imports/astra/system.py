"""The system file of ASTRA-sim (JSON): algorithms of collectives, cost of a message, and the model of a GPU.

Source: `Sys::initialize_sys` in Sys.cc and CollectiveImplLookup.cc of astra-sim 518bd51.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.imports.fates import Fate
from pauseframe.scenario.plain import decimal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pauseframe.imports.fates import State

OPERATIONS = {
    "all-reduce": "allreduce",
    "reduce-scatter": "reduce_scatter",
    "all-gather": "allgather",
    "all-to-all": "alltoall",
}
"""Operations of ASTRA-sim, and the names that `algorithms` has for them."""
ALGORITHMS = {
    ("all-reduce", "ring"): "ring",
    ("all-reduce", "halvingDoubling"): "rabenseifner",
    ("reduce-scatter", "ring"): "pairwise",
    ("reduce-scatter", "direct"): "pairwise",
    ("reduce-scatter", "halvingDoubling"): "recursive_halving",
    ("all-gather", "ring"): "ring",
    ("all-gather", "halvingDoubling"): "recursive_doubling",
    ("all-to-all", "ring"): "pairwise",
    ("all-to-all", "direct"): "direct",
}
"""Algorithm by operation and implementation, for one dimension."""
ALIKE = {
    ("reduce-scatter", "ring"): "as many messages of the same size as a ring has, but between all pairs",
    ("reduce-scatter", "direct"): "the same messages, one after the other",
    ("all-to-all", "ring"): "each message goes straight to its receiver, where a ring hands it on",
}
"""Why an algorithm is not the same."""
KNOWN = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
REFUSED_ROOFLINE = (
    "compute nodes take their duration_micros here, not num_ops over peak-perf: set it to 0, or write the times "
    "into the trace"
)
FIXED: dict[str, tuple[State, str]] = {
    "scheduling-policy": ("mapped", "an operation starts when its data dependencies and its unit allow, in file order"),
    "preferred-dataset-splits": ("mapped", "a collective is not cut into chunks; with NCCL's, slices overlap"),
    "active-chunks-per-dimension": ("mapped", "collectives that are ready run at the same time"),
    "local-reduction-delay": ("no effect", "reductions take no time"),
    "local-mem-bw": ("no effect", "memory nodes take their duration_micros; reductions take no time"),
    "peak-perf": ("no effect", "compute nodes take their duration_micros"),
    "collective-optimization": ("no effect", "it orders the dimensions of a collective"),
    "trace-enabled": ("no effect", "ASTRA-sim's own output"),
    "track-local-mem": ("no effect", "ASTRA-sim's own output"),
    "local-mem-trace-filename": ("no effect", "ASTRA-sim's own output"),
    "boost-mode": ("no effect", "ASTRA-sim does not read it"),
    "L": ("no effect", "the memory bus inside of a GPU"),
    "o": ("no effect", "the memory bus inside of a GPU"),
    "g": ("no effect", "the memory bus inside of a GPU"),
    "G": ("no effect", "the memory bus inside of a GPU"),
    "model-shared-bus": ("no effect", "the memory bus inside of a GPU"),
    "replay-only": ("used", "compute nodes take their duration_micros in any case"),
}
"""Keys whose value changes nothing more."""


@dataclass
class System:
    """What a system file gives to a workload, and what became of each key."""

    entries: list[str] = field(default_factory=list)
    """Lines of [[workload]]."""
    fates: list[Fate] = field(default_factory=list)


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object of a JSON file. Raises InputError if it is none; `what` says what should be there."""
    twice: list[str] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(repeated(key for key, _ in pairs))
        return dict(pairs)

    try:
        found = json.loads(read_bytes(path, share=16), object_pairs_hook=object_of)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: {what} should be an object, such as {{...}}")
    if twice:
        raise InputError(f"{path}: {twice[0]} is there twice: keep one of them")
    return found


def repeated(keys: Iterable[str]) -> list[str]:
    """Keys that occur more than once, of which readers of JSON and YAML keep the last."""
    return [key for key, count in Counter(keys).items() if count > 1]


def read_system(path: Path, *, nccl: bool, without: Sequence[str]) -> System:
    """Reads a system file. `nccl` chooses NCCL's collectives, which know GPUs of a server.

    Raises InputError with all keys that cannot be followed; `without` leaves keys out.
    """
    table = read_json(path, "a system of ASTRA-sim")
    if not table.keys() & (FIXED.keys() | {f"{name}-implementation" for name in OPERATIONS}):
        raise InputError(f"{path} is no system of ASTRA-sim: it has none of its keys, such as scheduling-policy")
    if unknown := next((key for key in without if key not in table), None):
        raise InputError(f"--without {unknown}: {path} has no such key")
    system, refusals = System(), []
    for key in without:
        system.fates.append(_fate(path, key, table.pop(key), "no effect", "left out, as --without asks"))
    for key, value in table.items():
        why = _refusal(key, value)
        if why:
            refusals.append((key, f"{path}: {key} {_text(value)}: {why}"))
        elif key == "roofline-enabled":
            system.fates.append(_fate(path, key, value, "used", "compute nodes take their duration_micros"))
        elif key in FIXED:
            system.fates.append(_fate(path, key, value, *FIXED[key]))
    if refusals:
        keys = " ".join(f"--without {key}" for key, _ in refusals)
        rows = [text for _, text in refusals]
        raise InputError("\n".join([*rows, f"change these keys, or leave them out knowingly: {keys}"]))
    _collectives(path, table, system, nccl)
    return system


def _refusal(key: str, value: Any) -> str:
    """Why a key cannot be followed; nothing if it can."""
    if key.removesuffix("-implementation-custom") in OPERATIONS and key.endswith("-custom"):
        return "a custom collective is a trace of sends and receives: name its files with --workload to run it"
    name = key.removesuffix("-implementation")
    if name in OPERATIONS and key != name:
        words = value if isinstance(value, list) else []
        known = [isinstance(word, str) and _word(word) in KNOWN for word in words]
        return "" if words and all(known) else f"give a list of {', '.join(KNOWN)}, one for each dimension"
    if key == "roofline-enabled":
        return REFUSED_ROOFLINE if value else ""
    if key == "endpoint-delay":
        is_delay = isinstance(value, (int, float)) and 0 <= value < 1e9
        return "" if is_delay else "give a time in ns from 0 on"
    return "" if key in FIXED else "this key is not known"


def _word(implementation: str) -> str:
    """The algorithm of a word: `oneRing` and `ring` differ in chunks only; `direct4` limits messages under way."""
    word = re.sub(r"[0-9]+$", "", implementation).removeprefix("one")
    return word[:1].lower() + word[1:]


def _collectives(path: Path, table: dict[str, Any], system: System, nccl: bool) -> None:
    """The keys about collectives: algorithms by operation, and the cost of a message."""
    algorithms: list[str] = []
    trees = []
    for name, operation in OPERATIONS.items():
        key = f"{name}-implementation"
        if key not in table:
            continue
        words = [_word(word) for word in table[key]]
        if nccl:
            tree = name == "all-reduce" and "doubleBinaryTree" in words
            trees += [tree] if name == "all-reduce" else []
            how = (
                f"NCCL's {'double binary tree' if tree else 'rings' if name != 'all-to-all' else 'sends'} over servers"
            )
            system.fates.append(_fate(path, key, table[key], "mapped", how))
            continue
        state, how, algorithm = _algorithm(name, words)
        algorithms += [f"{operation} = {algorithm}"] if algorithm else []
        system.fates.append(_fate(path, key, table[key], state, how))
    entries = [f'library = "{"nccl" if nccl else "mpi"}"']
    entries += [f'algorithm = "{"tree" if trees[0] else "ring"}"'] if trees else []
    if delay := table.get("endpoint-delay"):
        entries.append(f'message_cost = "{decimal(delay)} ns"')
    if "endpoint-delay" in table:
        system.fates.append(_fate(path, "endpoint-delay", delay, "used", "ns: collectives.message_cost"))
    if nccl or delay:
        system.entries.append(f"collectives = {{ {', '.join(entries)} }}")
    if algorithms:
        system.entries.append(f"algorithms = {json.dumps(algorithms)}")


def _algorithm(name: str, words: list[str]) -> tuple[State, str, str | None]:
    """State, reason and algorithm of an operation on a network without servers."""
    if len(set(words)) > 1:
        return "mapped", "several dimensions: one algorithm over all ranks, chosen by size", None
    algorithm = ALGORITHMS.get((name, words[0]))
    if algorithm is None:
        return (
            "mapped",
            f"{words[0]} has no such algorithm here: it is chosen by size (docs/models/applications.md)",
            None,
        )
    if len(words) > 1:
        return "mapped", f"{algorithm} over all ranks, not dimension by dimension", algorithm
    alike = ALIKE.get((name, words[0]))
    return ("mapped", f"{algorithm}: {alike}", algorithm) if alike else ("used", algorithm, algorithm)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _fate(path: Path, key: str, value: Any, state: State, how: str) -> Fate:
    return Fate(path.name, key, _text(value), state, how)
