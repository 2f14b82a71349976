"""Why a critical path is longer than on an idle fabric: late compute, a slow receiver, an ECMP collision, marks.

The evidence is what each run records: times of ranks, and the counters of ports. A port that leads to a host can be
paused by that host alone. Uplinks of one switch share load by ECMP, so that one with far more bytes than its
siblings, and a queue, carries flows whose hashes collide.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from pauseframe.files.reading import parse_toml
from pauseframe.steps.expected import longer_us, places_of
from pauseframe.steps.links import servers_of
from pauseframe.steps.path import Segment, critical_path
from pauseframe.steps.tables import frame_of
from pauseframe.terminal.text import counted, format_bytes, format_count, format_times, format_us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.report.data import RunData

LATE = 1.05
"""Ratio of a computation to the median of the other ranks above which it is late."""
UNEVEN = 1.4
"""Ratio of an uplink's bytes to the mean of its siblings above which flows collide on it."""
LEAST = 0.02
"""Smallest share of a job's time that is worth a cause."""
UNEXPLAINED = 0.2
"""Smallest share of a job's time that the network may cost without evidence in the counters of ports."""


@dataclass(frozen=True)
class Cause:
    """A reason why a job takes longer."""

    kind: str
    """late compute, slow receiver, ECMP collision, marked flow, pause, or network."""
    text: str
    costs_us: float | None
    """Time by which the job would be shorter without it; None if it is not known."""


@dataclass(frozen=True)
class Evidence:
    """What a run recorded about the network of a job."""

    run: RunData
    ports: pl.DataFrame
    flows: pl.DataFrame
    """The job's connections."""
    hosts: set[str]
    """The job's hosts."""

    @property
    def span_us(self) -> float:
        """Length of the run."""
        return self.run.summary["sim_time_s"] * 1e6


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
        path = critical_path(rows, mine)
        if path:
            hosts = dict(ranks.filter(pl.col("job") == name).select("rank", "host").rows())
            found.append(_explain(run, job, Recorded(rows, mine, path), hosts))
    return found


class Recorded(NamedTuple):
    """What a run recorded about a job: timeline, calls of collectives, and the path through both."""

    rows: pl.DataFrame
    calls: pl.DataFrame | None
    path: list[Segment]


def _explain(run: RunData, job: Mapping[str, object], recorded: Recorded, hosts: Mapping[int, str]) -> Explained:
    rows, path = recorded.rows, recorded.path
    took = _number(job["time_us"])
    compute = sum(part.took for part in path if part.kind == "compute")
    network = sum(part.took for part in path if part.kind == "network")
    causes = _late(rows, path, hosts, took)
    name = str(job["job"])
    longer = _longer(run, job, recorded, hosts, compute)
    if longer is None or longer > LEAST * took:
        causes += _network(run, name, set(hosts.values()), longer, took)
    last = path[-1].rank
    return Explained(name, took, compute, network, f"rank {last} on {hosts.get(last, '?')}", path, causes)


def _longer(
    run: RunData, job: Mapping[str, object], recorded: Recorded, hosts: Mapping[int, str], compute: float
) -> float | None:
    """Time that the network costs beyond an idle fabric; None if the run has neither an ideal time nor calls."""
    places = places_of(run, str(job["job"]), set(hosts.values()))
    overhead = _overhead(run, hosts)
    if job["ideal_us"] is not None:
        return _number(job["time_us"]) - compute - max(_number(job["ideal_us"]) - compute, 0.0) * overhead
    if recorded.calls is None or recorded.calls.is_empty():
        return None
    return longer_us(recorded.path, recorded.calls, places, overhead)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _overhead(run: RunData, hosts: Mapping[int, str]) -> float:
    """Bytes on the wire for each byte of a message: headers, preambles and gaps, without messages inside of servers."""
    inside = servers_of(run)
    servers = {host: inside.get(host, -1 - rank) for rank, host in hosts.items()}
    pairs = run.flows.group_by(pl.col("src", "dst").cast(pl.String)).agg(pl.col("delivered_bytes").sum()).collect()
    payload = sum(
        size
        for source, target, size in pairs.rows()
        if source in servers and (target not in servers or servers[source] != servers[target])
    )
    names = pl.DataFrame({"node": list(servers)})
    at_host = (
        run.ports.filter(pl.col("tier").cast(pl.String) == "host")
        .select(pl.col("node").cast(pl.String).str.split(".").list.first(), "utilisation", "rate_bps")
        .join(names.lazy(), on="node", how="semi")
        .select((pl.col("utilisation") * pl.col("rate_bps")).sum())
    )
    wire = float(at_host.collect().item() or 0.0) * run.summary["sim_time_s"] / 8
    return min(max(wire / payload, 1.0), 1.5) if payload else 1.0


def _late(rows: pl.DataFrame, path: Sequence[Segment], hosts: Mapping[int, str], took: float) -> list[Cause]:
    """Computations of the path that take longer than the same one of other ranks."""
    times: dict[int, list[float]] = defaultdict(list)
    computed = rows.filter(pl.col("activity") == "compute").sort("rank", "start_us")
    counts: dict[int, int] = defaultdict(int)
    for rank, start, end in computed.select("rank", "start_us", "end_us").iter_rows():
        times[counts[rank]].append(end - start)
        counts[rank] += 1
    longer: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for part in path:
        usual = median(times[part.number]) if part.kind == "compute" and len(times[part.number]) > 2 else 0.0
        if usual and part.took > LATE * usual:
            longer[part.rank].append((part.took, usual))
    causes = []
    for rank, found in longer.items():
        cost = sum(own - usual for own, usual in found)
        own, usual = max(found, key=lambda pair: pair[0] - pair[1])
        if cost > LEAST * took:
            often = f", {len(found)} times" if len(found) > 1 else ""
            who = f"rank {rank} on {hosts.get(rank, '?')}"
            text = f"{who} computes {format_us(own)}, the median rank {format_us(usual)}{often}"
            causes.append(Cause("late compute", text, cost))
    return sorted(causes, key=lambda cause: -(cause.costs_us or 0.0))


def _network(run: RunData, job: str, hosts: set[str], longer: float | None, took: float) -> list[Cause]:
    """The strongest cause that the counters of ports show; the hottest queue if none does."""
    flows = frame_of(run.flows.filter(pl.col("workload").cast(pl.String) == job))
    seen = Evidence(run, frame_of(run.ports), flows, hosts)
    for search in (_slow_receiver, _collision, _marked, _paused):
        if (text := search(seen)) is not None:
            return [Cause(NAMES[search.__name__], text, longer)]
    if longer is None or longer < UNEXPLAINED * took:
        return []
    text = "the network took longer than on idle hardware, without a pause, a mark or an uneven uplink"
    return [Cause("network", text, longer)]


NAMES = {
    "_slow_receiver": "slow receiver",
    "_collision": "ECMP collision",
    "_marked": "marked flow",
    "_paused": "pause",
}


def _slow_receiver(seen: Evidence) -> str | None:
    """A host of the job that paused its switch."""
    leads_to_job = (pl.col("tier") == "switch-host") & pl.col("peer").is_in(sorted(seen.hosts))
    is_long = pl.col("paused_us") > LEAST * seen.span_us
    slow = seen.ports.filter(leads_to_job & is_long).sort("paused_us", descending=True)
    if slow.is_empty():
        return _slow_by_setting(seen)
    row = slow.row(0, named=True)
    return (
        f"{row['peer']} paused {row['port']} for {format_us(row['paused_us'])} in "
        f"{counted(row['pauses_received'], 'pause')}; a port that leads to a host is paused by that host alone"
    )


def _slow_by_setting(seen: Evidence) -> str | None:
    """A host of the job that reads slowly by the scenario, with messages too short to fill its buffer."""
    slow = (parse_toml(seen.run.scenario_toml).get("host") or {}).get("slow_receivers") or []
    mine = [one for one in slow if isinstance(one, dict) and one.get("host") in seen.hosts]
    if not mine:
        return None
    return f"{mine[0]['host']} reads at {mine[0].get('rate')} (host.slow_receivers), without a pause of its switch"


def uplinks(ports: pl.DataFrame) -> dict[str, list[tuple[str, int]]]:
    """The ports of each switch that lead up, with their bytes: from switches with hosts, and from those above them."""
    access = set(ports.filter(pl.col("tier") == "switch-host")["node"].to_list())
    between = (
        ports.filter(pl.col("tier") == "switch-switch").group_by("port", "node", "peer").agg(pl.col("tx_bytes").sum())
    )
    above = {peer for node, peer in between.select("node", "peer").rows() if node in access} - access
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for port, node, peer, size in between.sort("port").select("port", "node", "peer", "tx_bytes").rows():
        goes_up = peer not in access and (node in access or (node in above and peer not in above))
        if goes_up:
            found[node].append((port, size))
    return found


def _collision(seen: Evidence) -> str | None:
    """An uplink with far more bytes than its siblings, and a queue with marks or drops."""
    queues = {
        port: (marks, backlog)
        for port, marks, backlog in seen.ports.group_by("port")
        .agg(pl.col("ecn_marks").sum(), pl.col("backlog_max_bytes").max())
        .rows()
    }
    worst: tuple[float, str, str, int, float] | None = None
    for switch, found in uplinks(seen.ports).items():
        mean = sum(size for _, size in found) / len(found)
        port, size = max(found, key=lambda pair: pair[1])
        marks, backlog = queues[port]
        if len(found) < 2 or size < UNEVEN * mean or not (marks or backlog > _bytes_at_once(seen.ports)):
            continue
        if worst is None or size > worst[3]:
            worst = (size / mean, port, switch, size, len(found))
    if worst is None:
        return None
    ratio, port, switch, size, count = worst
    marks, backlog = queues[port]
    marked = _names(seen.flows)
    who = f"; marked: {marked}" if marked else ""
    return (
        f"{port} carries {format_bytes(size)}, {format_times(ratio)} times the mean of the {count} uplinks of "
        f"{switch}; its queue reached {format_bytes(backlog)}, with {counted(marks, 'mark')}{who}"
    )


def _bytes_at_once(ports: pl.DataFrame) -> float:
    """A queue that a burst of one sender leaves: a tenth of the longest of all."""
    return 0.1 * float(ports.select(pl.col("backlog_max_bytes").max()).item() or 0)


def _names(flows: pl.DataFrame, count: int = 3) -> str:
    """The flows of a job with most marks."""
    marked = flows.filter(pl.col("ce_packets") > 0).sort("ce_packets", descending=True).head(count)
    return ", ".join(f"{source} → {target}" for source, target in marked.select("src", "dst").rows())


def _marked(seen: Evidence) -> str | None:
    """The flow of the job that was marked most, and the queue where marks arose."""
    marked = seen.flows.filter(pl.col("ce_packets") > 0).sort("ce_packets", descending=True)
    if marked.is_empty():
        return None
    row = marked.row(0, named=True)
    towards = seen.ports.filter((pl.col("peer") == row["dst"]) & (pl.col("tier") == "switch-host"))
    places = (towards if towards["ecn_marks"].sum() else seen.ports).sort("ecn_marks", descending=True)
    place = places.row(0, named=True)
    others = frame_of(
        seen.run.flows.filter(
            (pl.col("dst").cast(pl.String) == row["dst"]) & (pl.col("workload").cast(pl.String) != row["workload"])
        ).select(pl.col("workload"), pl.col("src"))
    )
    beside = ", ".join(f"{name} from {source}" for name, source in others.unique(maintain_order=True).head(2).rows())
    return (
        f"{row['src']} → {row['dst']}: {counted(row['ce_packets'], 'packet')} marked, "
        f"{counted(row['cnps_received'], 'CNP')}; {place['port']} marked "
        f"{format_count(place['ecn_marks'])}, its queue reached {format_bytes(place['backlog_max_bytes'])}"
        + (f"; it also carries {beside}" if beside else "")
    )


def _paused(seen: Evidence) -> str | None:
    """The port that was paused longest."""
    paused = seen.ports.filter(pl.col("paused_us") > LEAST * seen.span_us).sort("paused_us", descending=True)
    if paused.is_empty():
        return None
    row = paused.row(0, named=True)
    pauses = counted(row["pauses_received"], "pause")
    return f"{row['peer']} paused {row['port']} for {format_us(row['paused_us'])} ({pauses})"
