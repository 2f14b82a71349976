"""Runs one collective of all GPUs for each size, and computes algbw and busbw.

algbw is S / t. busbw is algbw times 2(n-1)/n for an all-reduce and (n-1)/n for the others, so that it compares with
the rate of the bottleneck for any number of GPUs n (nccl-tests, PERFORMANCE.md). S is the whole vector: what a GPU
sums, gathers in all, scatters in all, or sends to all GPUs, itself included. GB/s are 10^9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from pauseframe._core import InputError, ScenarioError, resolve
from pauseframe.files.reading import parse_toml
from pauseframe.scenario.text import read_scenario_file
from pauseframe.terminal.problems import failure, placed, problem
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pauseframe._core import Resolved
    from pauseframe.results import Run
    from pauseframe.types import Problem

Library = Literal["nccl", "mpi"]


class Collective(NamedTuple):
    """A collective: its name in a program, its sum, and whether a call counts the block of one rank."""

    call: str
    redop: str
    is_block: bool
    steps: int
    """Steps of a ring in units of n - 1."""


COLLECTIVES = {
    "all_reduce": Collective("allreduce", "sum", False, 2),
    "all_gather": Collective("allgather", "none", True, 1),
    "reduce_scatter": Collective("reduce_scatter", "sum", True, 1),
    "alltoall": Collective("alltoall", "none", True, 1),
}
ELEMENT = 4
"""Bytes of an element: float."""
ALIGNED = 16
"""nccl-tests rounds the block of a rank down to so many bytes (AllGatherGetCollByteCount in all_gather.cu)."""
DROPPED = ("workload", "record", "stop", "name", "sweep", "tune")
"""Tables of a scenario that the measurement replaces."""
JOB = "collective"
GENERATED = "busbw"
"""Name of the scenario that is made of the options; no message shows it."""
PLACEMENT = {"workload.0", "workload.0.hosts", "workload.0.ranks_per_host"}
"""Keys of the generated scenario whose mistakes are too many GPUs."""
OPTIONS = {"topology.link.rate": "--rate", "topology.hosts": "--gpus"}
"""Options that set a key of the generated scenario."""


def sizes_between(first: int, last: int, factor: int) -> list[int]:
    """Sizes from `first` to `last` in bytes, each `factor` times the one before."""
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


@dataclass(frozen=True)
class Row:
    """A line of the table; bandwidths in GB/s of 10^9 bytes."""

    size: int
    count: int
    redop: str
    time_us: float
    algbw: float
    busbw: float

    def record(self) -> dict[str, int | float | str]:
        """The row as CSV, JSON and Parquet have it."""
        return {
            "size_bytes": self.size,
            "count": self.count,
            "type": "float",
            "redop": self.redop,
            "time_us": self.time_us,
            "algbw_gb_per_s": self.algbw,
            "busbw_gb_per_s": self.busbw,
        }


@dataclass
class Bench:
    """A fabric on which a collective runs: the scenario without its workloads."""

    document: dict[str, object]
    base_dir: str
    overrides: Sequence[tuple[str, str]]
    gpus: int
    kept: Mapping[str, object]
    """Transport and collectives of the scenario's first workload."""
    hosts: list[str]
    """Host of each rank: hosts in the order of the topology, so that servers stay whole."""
    file: str = ""
    """Name of the scenario file; "" without one."""
    text: str = ""
    """Text of the scenario file."""

    def resolve(self, name: str, block: int, library: Library, iterations: int) -> Resolved:
        """The scenario of one size."""
        import tomli_w

        from pauseframe.scenario.text import resolve_text

        workload: dict[str, object] = {"kind": "application", "name": JOB, **self.kept}
        workload["program"] = program(COLLECTIVES[name].call, block, self.gpus, iterations)
        if self.hosts:
            workload["hosts"] = self.hosts[: self.gpus]
        settings = workload.pop("collectives", {})
        if library == "nccl" and isinstance(settings, dict):
            workload["collectives"] = settings | {"library": "nccl"}
        document = {"name": "busbw", "stop": {"when_finished": True}, **self.document, "workload": [workload]}
        text = tomli_w.dumps(document)
        try:
            return resolve_text(text, base_dir=self.base_dir, file_name=GENERATED, overrides=self.overrides)
        except ScenarioError as error:
            raise failure(placed(self._as_typed(error.problems), self.text, self.file)) from None

    def _as_typed(self, problems: Sequence[Problem]) -> list[Problem]:
        """Problems of the generated scenario as problems of what the user gave: options, or keys of the file."""
        found: list[Problem] = []
        for one in problems:
            is_generated = one["place"].startswith(f"{GENERATED}:")
            if one["place"] == "--set" and one["path"].startswith("workload") and one["message"] == "unknown key":
                found.append(one | {"message": "busbw has a workload of its own", "hint": "leave it out"})
            elif is_generated and one["path"] in PLACEMENT:
                hint = "lower --gpus, or give the topology more hosts"
                found.append(problem("--gpus", str(self.gpus), one["message"], hint))
            elif is_generated and not self.file and one["path"] in OPTIONS:
                found.append(one | {"path": OPTIONS[one["path"]], "place": ""})
            else:
                found.append(one | {"place": ""} if is_generated else one)
        return list({one["path"]: one for one in reversed(found)}.values())[::-1]


def program(call: str, block: int, ranks: int, iterations: int) -> str:
    """The text of a trace in which all ranks call a collective, in the format pmpi."""
    steps = f"comm 0 {ranks} all\n" + f"0 {call} 0 {block}\n" * iterations
    return "".join(f"rank {rank} of {ranks}\n{steps}end 0\n" for rank in range(ranks))


def bench(
    scenario: Path | None, *, gpus: int | None, rate: str | None, overrides: Sequence[tuple[str, str]] = ()
) -> Bench:
    """A fabric from a scenario file, or a switch with `gpus` NICs of `rate`.

    Raises InputError if neither is given, or the scenario has fewer hosts; ScenarioError for a mistake in it.
    """
    if scenario is None:
        if gpus is None:
            raise InputError("name a scenario, or give --gpus N and --rate RATE for a switch with N GPUs")
        link = {"rate": rate or "400 Gbps", "delay": "500 ns"}
        document: dict[str, object] = {
            "topology": {"kind": "star", "hosts": gpus, "link": link},
            "host": {"mtu": "4200 B"},
            "transport": {"preset": "roce_dcqcn"},
        }
        made = Bench(document, ".", overrides, gpus, {}, [])
        hosts_of(made)
        return made
    text, base_dir, _ = read_scenario_file(scenario)
    try:
        document = dict(parse_toml(text))
    except ValueError as error:
        resolve(text, file_name=str(scenario))  # the core reports the mistake with its line
        raise InputError(f"{scenario}: {error}") from None
    if rate is not None:
        raise InputError(f"--rate {rate}: {scenario} has the rates; {_how_to_set_rates(document)}")
    kept = _kept_of(document)
    for table in DROPPED:
        document.pop(table, None)
    names = hosts_of(Bench(document, base_dir, overrides, 2, {}, [], str(scenario), text))
    if gpus is not None and gpus > len(names):
        raise InputError(f"--gpus {gpus}: {scenario} has {counted(len(names), 'host')}")
    return Bench(document, base_dir, overrides, gpus or len(names), kept, names, str(scenario), text)


def _how_to_set_rates(document: Mapping[str, object]) -> str:
    """Where a scenario has the rates of its links."""
    topology = document.get("topology")
    kind = topology.get("kind") if isinstance(topology, dict) else None
    if kind == "file":
        return "change them in the file that topology.path names"
    if kind == "custom":
        return "change them in topology.links"
    return "change them with --set topology.link.rate=RATE"


def _kept_of(document: Mapping[str, object]) -> dict[str, object]:
    """What collectives depend on in the first workload."""
    workloads = document.get("workload")
    first = workloads[0] if isinstance(workloads, list) and workloads else workloads
    keys = ("transport", "collectives")
    return {key: first[key] for key in keys if key in first} if isinstance(first, dict) else {}


def hosts_of(fabric: Bench) -> list[str]:
    """The hosts of a scenario in the order of its topology."""
    from pauseframe._core import Topology

    probe = fabric.resolve("all_reduce", 1024, "nccl", 1)
    return [name for name, kind, _ in Topology.of_scenario(probe).nodes() if kind == "host"]


def aligned(collective: str, size: int, gpus: int) -> int:
    """The size in bytes that is simulated for `size`: whole elements, and the same blocks of 16 bytes for all GPUs."""
    if COLLECTIVES[collective].is_block:
        return size // gpus // ALIGNED * ALIGNED * gpus
    return size // ELEMENT * ELEMENT


def measure(
    fabric: Bench,
    collective: str,
    sizes: Sequence[int],
    *,
    library: Library = "nccl",
    iterations: int = 1,
    threads: int | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[Row]:
    """One row for each size, as soon as it is known. `warn` gets each warning of the runs once.

    Sizes of which a rank would have less than 16 bytes are left out, as nccl-tests prints 0 for them.
    """
    from pauseframe.run import run

    kind, said, done = COLLECTIVES[collective], set[str](), set[int]()
    for wanted in sizes:
        size = aligned(collective, wanted, fabric.gpus)
        if size == 0:
            warn(f"{wanted} B left out: a block of {fabric.gpus} GPUs would have less than {ALIGNED} bytes")
        if size == 0 or size in done:
            continue
        done.add(size)
        part = size // fabric.gpus if kind.is_block else size
        result = run(fabric.resolve(collective, part, library, iterations), threads=threads, progress=False)
        for warning in result.summary["warnings"]:
            if warning not in said:
                said.add(warning)
                warn(warning)
        if result.interrupted:
            return
        yield _row(kind, size, part, fabric.gpus, _time(result, iterations))


def _time(result: Run, iterations: int) -> float:
    """Mean time of a call in microseconds: from the last rank that begins to the last that ends."""
    (job,) = list(result.jobs)
    if job["time_us"] is None:
        cure = "; raise stop.time or leave it out" if "\ntime = " in result.scenario_toml else ""
        raise InputError(f"the collective did not finish: {job['waits_for'] or 'see the warnings'}{cure}")
    return float(job["time_us"]) / iterations


def _row(kind: Collective, size: int, part: int, gpus: int, time_us: float) -> Row:
    algbw = size / time_us / 1e3
    return Row(size, part // ELEMENT, kind.redop, time_us, algbw, algbw * kind.steps * (gpus - 1) / gpus)
