"""Why a critical path is longer than on an idle fabric: late compute, a slow receiver, an ECMP collision, marks.

The evidence is what each run records: times of ranks, and the counters of the ports that the job's bytes may pass. A
port that leads to a host can be paused by that host alone. Links that ECMP takes for equal share load, so that one
with far more bytes than the others, and a queue, carries flows whose hashes collide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.steps.evidence import LEAST, Evidence, Finding, findings, own_findings
from pauseframe.steps.expected import Delayed, Excess, Recorded, excess_of
from pauseframe.steps.idle import idle_of
from pauseframe.steps.late import late_ranks
from pauseframe.steps.links import parallelism
from pauseframe.steps.network import network_of
from pauseframe.steps.path import Segment, critical_path
from pauseframe.steps.schedule import Schedule
from pauseframe.steps.tables import frame_of
from pauseframe.terminal.text import format_us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.report.data import RunData

UNSURE = 0.05
"""Relative error of the expected time of the network."""
UNEXPLAINED = 0.2
"""Smallest share of a job's time that the network may cost without evidence in the counters of ports."""


@dataclass(frozen=True)
class Cause:
    """A reason why a job takes longer."""

    kind: str
    """late compute, slow receiver, ECMP collision, marked flow, shared link, pause, or network."""
    text: str
    costs_us: float | None
    """Time by which the job would be shorter without it; None if it is not known."""


@dataclass(frozen=True)
class Explained:
    """A job's critical path in figures, with causes; times in microseconds."""

    job: str
    took_us: float
    compute_us: float
    network_us: float
    last: str
    """The rank at the end of the path, with its host."""
    path: list[Segment]
    causes: list[Cause]

    def lines(self) -> list[str]:
        """The path and its causes as sentences."""
        first = (
            f"critical path of {self.job}: {format_us(self.took_us)}, of which compute {format_us(self.compute_us)} "
            f"and network {format_us(self.network_us)}; it ends at {self.last}"
        )
        costs = [f" ({format_us(cause.costs_us)} longer)" if cause.costs_us else "" for cause in self.causes]
        causes = [f"{one.kind}{cost}: {one.text}" for one, cost in zip(self.causes, costs, strict=True)]
        return [first, *(causes or ["no cause found: it takes about as long as on an idle fabric"])]


def explain(run: RunData) -> list[Explained]:
    """The critical paths of all jobs that have a timeline and finished."""
    jobs, timeline = frame_of(run.jobs), frame_of(run.timeline)
    if jobs.is_empty() or timeline.is_empty():
        return []
    calls, ranks = frame_of(run.collectives), frame_of(run.ranks)
    found = []
    for job in jobs.filter(pl.col("time_us").is_not_null()).iter_rows(named=True):
        name = job["job"]
        mine = calls.filter(pl.col("job") == name) if not calls.is_empty() else None
        rows = timeline.filter(pl.col("job") == name)
        hosts = dict(ranks.filter(pl.col("job") == name).select("rank", "host").rows())
        if path := _explain(run, job, (rows, mine), hosts):
            found.append(path)
    return found


def _explain(
    run: RunData,
    job: Mapping[str, object],
    tables: tuple[pl.DataFrame, pl.DataFrame | None],
    hosts: Mapping[int, str],
) -> Explained | None:
    """The critical path of a job from its timeline and its calls; None if it has too many activities."""
    took, name, start = _number(job["time_us"]), str(job["job"]), _number(job["start_us"])
    used = network_of(run, name, start, start + took)
    schedule = Schedule(tables[0], idle_of(run, name, hosts, used))
    recorded = Recorded(*tables, critical_path(*tables, schedule))
    path = recorded.path
    if not path:
        return None
    compute = sum(part.took for part in path if part.kind == "compute")
    network = sum(part.took for part in path if part.kind == "network")
    causes = _late(run, name, recorded, hosts, took)
    if network > LEAST * took:
        excess = _excess(job, recorded, schedule, compute)
        if excess.longer > max(LEAST * took, UNSURE * excess.expected):
            seen = Evidence(run, name, used, schedule.idle.overhead, start, start + took)
            causes += _network(seen, excess, hosts)
    last = path[-1].rank
    return Explained(name, took, compute, network, f"rank {last} on {hosts.get(last, '?')}", path, causes)


def _excess(job: Mapping[str, object], recorded: Recorded, schedule: Schedule, compute: float) -> Excess:
    """Time that the network costs beyond an idle fabric."""
    if job["ideal_us"] is None:
        return excess_of(recorded, schedule)
    expected = max(_number(job["ideal_us"]) - compute, 0.0) * schedule.idle.overhead
    return Excess(_number(job["time_us"]) - compute - expected, expected, [])


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _late(run: RunData, job: str, recorded: Recorded, hosts: Mapping[int, str], took: float) -> list[Cause]:
    """Ranks whose computations on the path take longer than those of other ranks."""
    causes = []
    for late in late_ranks(recorded.rows, recorded.path, parallelism(run.scenario_toml).get(job)):
        if late.cost > LEAST * took:
            often = f", {late.times} times" if late.times > 1 else ""
            who = f"rank {late.rank} on {hosts.get(late.rank, '?')}"
            text = f"{who} computes {format_us(late.own)}, the median rank {format_us(late.usual)}{often}"
            causes.append(Cause("late compute", text, late.cost))
    return causes


def _network(seen: Evidence, excess: Excess, hosts: Mapping[int, str]) -> list[Cause]:
    """What the counters of the job's ports show, the costliest cause first."""
    for found in (findings(seen), own_findings(seen)):
        gains = gains_of(found, excess, hosts)
        if gains:
            ordered = sorted(gains, key=lambda one: (-gains[one], -one.lost_us))
            worth = [gains[one] if gains[one] > LEAST * seen.took else None for one in ordered]
            return [Cause(one.kind, one.text, cost) for one, cost in zip(ordered, worth, strict=True)]
    if excess.longer < UNEXPLAINED * seen.took:
        return []
    text = "the network took longer than on idle hardware, without a pause, a mark or an uneven uplink"
    return [Cause("network", text, excess.longer)]


def gains_of(found: Sequence[Finding], excess: Excess, hosts: Mapping[int, str]) -> dict[Finding, float]:
    """Time that a job gains without each finding that delays it, while the others stay.

    A part of the path is as slow as its worst place allows. Without that place the next worst decides.
    """
    gains: dict[Finding, float] = {}
    for part in excess.parts or [Delayed(excess.longer, frozenset(hosts))]:
        names = {hosts.get(place, "") if isinstance(place, int) else place for place in part.places}
        there = sorted((one for one in found if one.host in (None, *names)), key=lambda one: -one.lost_us)
        for one in there:
            gains.setdefault(one, 0.0)
        if there:
            next_worst = there[1].lost_us if len(there) > 1 else 0.0
            gains[there[0]] += part.longer * (1 - next_worst / there[0].lost_us)
    return gains
