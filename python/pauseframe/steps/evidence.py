"""What the counters of a run say about the network of a job: slow hosts, uneven links, marks, and shared links.

Only ports count that the job's bytes may pass. Each finding has an estimate of the time that the job loses there,
which orders findings and drops those that cannot matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from pauseframe.files.reading import parse_toml
from pauseframe.steps.idle import quantity
from pauseframe.steps.tables import frame_of
from pauseframe.terminal.text import counted, format_bytes, format_count, format_times, format_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.report.data import RunData
    from pauseframe.steps.network import Link, Network

UNEVEN = 1.4
"""Ratio of a link's bytes to those of an even division above which flows collide on it."""
LEAST = 0.02
"""Smallest share of a job's time that is worth a cause."""


class Finding(NamedTuple):
    """A place where a job loses time."""

    kind: str
    text: str
    lost_us: float
    culprit: str
    """What to take away: places with the same culprit are one cause."""
    host: str | None = None
    """The host at whose link the place is; None between switches."""


class Port(NamedTuple):
    """Counters of a port, all priorities together."""

    link: Link
    size: float
    marks: int
    backlog: int
    paused: float
    pauses: int


@dataclass(frozen=True)
class Evidence:
    """What a run recorded about the network of a job."""

    run: RunData
    job: str
    network: Network
    overhead: float
    start: float
    finish: float

    @property
    def took(self) -> float:
        """Time of the job in microseconds."""
        return self.finish - self.start

    @cached_property
    def ports(self) -> list[Port]:
        """The ports with traffic, the fullest queue first."""
        columns = run_ports(self.run)
        links = self.network.fabric.by_port
        return [Port(links[row[0]], *row[1:]) for row in columns.rows() if row[0] in links]

    @cached_property
    def flows(self) -> pl.DataFrame:
        """The job's connections with marks, those with most first."""
        own = self.run.flows.filter(pl.col("workload").cast(pl.String) == self.job)
        return frame_of(own.filter(pl.col("ce_packets") > 0)).sort("ce_packets", descending=True)

    @property
    def reacts(self) -> bool:
        """False if the job's senders do not slow down for marks: queue pairs that receive no CNP."""
        transport = parse_toml(self.run.scenario_toml).get("transport")
        is_rdma = isinstance(transport, dict) and transport.get("kind") == "rdma"
        by_ack = isinstance(transport, dict) and transport.get("rdma_ack_as_cnp") is True
        return not is_rdma or by_ack or bool(self.flows["cnps_received"].sum())

    @cached_property
    def longest_queue(self) -> int:
        """The largest backlog of all ports."""
        return max((port.backlog for port in self.ports), default=0)

    @cached_property
    def largest(self) -> list[tuple[str, str, float]]:
        """The largest connection between each two hosts, in both directions."""
        columns = self.run.flows.select(pl.col("src", "dst").cast(pl.String), "size_bytes", "reply_bytes")
        rows = columns.group_by("src", "dst").agg(pl.all().max()).collect().rows()
        return [
            flow for one, other, size, reply in rows for flow in ((one, other, size), (other, one, reply)) if flow[2]
        ]

    def at_hosts(self) -> Iterator[Port]:
        """Ports that lead to hosts of the job."""
        received = self.network.received
        return (
            port
            for port in self.ports
            if port.link.peer in received and port.link.node not in self.network.fabric.hosts
        )

    def between(self) -> Iterator[Port]:
        """Ports between switches that the job's bytes may take."""
        hosts = self.network.fabric.hosts
        for port in self.ports:
            if port.link.node not in hosts and port.link.peer not in hosts and self.network.crossing(port.link):
                yield port

    def wire_us(self, size: float, rate: float) -> float:
        """Time of bytes of messages on a link."""
        return size * self.overhead / rate


def run_ports(run: RunData) -> pl.DataFrame:
    """The counters of all ports, the longest queue first."""
    return (
        run.ports.group_by(pl.col("port").cast(pl.String))
        .agg(
            pl.col("tx_bytes").sum(),
            pl.col("ecn_marks").sum(),
            pl.col("backlog_max_bytes").max(),
            pl.col("paused_us").max(),
            pl.col("pauses_received").sum(),
        )
        .sort("backlog_max_bytes", "port", descending=[True, False])
        .collect()
    )


def findings(seen: Evidence) -> list[Finding]:
    """The worst place of each culprit, the costliest first."""
    worst: dict[str, Finding] = {}
    for one in [*_slow_receivers(seen), *_collisions(seen), *_shared(seen)]:
        before = worst.get(one.culprit)
        if one.lost_us > LEAST * seen.took and (before is None or one.lost_us > before.lost_us):
            worst[one.culprit] = one
    return sorted(worst.values(), key=lambda one: -one.lost_us)


def own_findings(seen: Evidence) -> list[Finding]:
    """Where the job's own bytes are marked most, or paused longest, if nothing else delays it."""
    return [*_own_marks(seen), *_paused(seen)][:1]


def _slow_receivers(seen: Evidence) -> Iterator[Finding]:
    """Hosts of the job that pause their switch, or that read slowly by the scenario."""
    slow = _settings_of_slow_receivers(seen)
    for port in seen.at_hosts():
        host, rate = port.link.peer, port.link.rate
        setting = slow.pop(host, None)
        lost = port.paused
        if setting is not None:
            lost = _lost_at_receiver(seen, host, rate, setting)
        if port.paused > LEAST * seen.took:
            yield Finding(
                "slow receiver",
                f"{host} paused {port.link.port} for {format_us(port.paused)} in {counted(port.pauses, 'pause')}; "
                "a port that leads to a host is paused by that host alone",
                lost,
                host,
                host,
            )
        elif setting is not None:
            text = f"{host} reads at {setting['rate']} (host.slow_receivers), without a pause of its switch"
            yield Finding("slow receiver", text, lost, host, host)


def _settings_of_slow_receivers(seen: Evidence) -> dict[str, dict[str, str]]:
    slow = (parse_toml(seen.run.scenario_toml).get("host") or {}).get("slow_receivers") or []
    return {one["host"]: one for one in slow if isinstance(one, dict) and "rate" in one}


def _lost_at_receiver(seen: Evidence, host: str, rate: float, setting: dict[str, str]) -> float:
    """Time by which a host takes longer for the job's bytes than its link, while it is slow."""
    slow = (quantity(setting["rate"]) or math.inf) / 8e6
    if slow >= rate:
        return 0.0
    stop = quantity(setting["stop"]) if "stop" in setting else None
    until = seen.finish if stop is None else stop * 1e6
    size = seen.network.received[host]
    return min(seen.wire_us(size, slow) - seen.wire_us(size, rate), max(until - seen.start, 0.0))


def _collisions(seen: Evidence) -> Iterator[Finding]:
    """Links with far more bytes than others that ECMP takes for equal, and a queue."""
    sizes = {port.link.port: port.size for port in seen.ports}
    for port in seen.between():
        if not (port.marks or port.backlog > 0.1 * seen.longest_queue) or not _marks_the_job(seen, port):
            continue
        equal = seen.network.equal(port.link)
        whole = sum(sizes.get(link.port, 0.0) for link in equal)
        if len(equal) < 2 or port.size < UNEVEN * whole / len(equal):
            continue
        fair = max(whole / len(equal), _largest_flow(seen, port.link) * seen.overhead)
        if port.size >= UNEVEN * fair and port.size == max(sizes.get(link.port, 0.0) for link in equal):
            lost = min(port.size - fair, _own_bytes(seen, port.link) * seen.overhead) / port.link.rate
            yield Finding("ECMP collision", _collision(seen, port, equal, whole), lost, "hashes")


def _collision(seen: Evidence, port: Port, equal: list[Link], whole: float) -> str:
    link = port.link
    same_switch = all(one.node == link.node for one in equal)
    group = f"{len(equal)} uplinks of {link.node}" if same_switch else f"{len(equal)} links into {link.peer}"
    marked = ", ".join(f"{source} → {target}" for source, target in seen.flows.select("src", "dst").head(3).rows())
    return (
        f"{link.port} carries {format_bytes(port.size)}, {format_times(port.size / (whole / len(equal)))} times the "
        f"mean of the {group}; its queue reached {format_bytes(port.backlog)}, with {counted(port.marks, 'mark')}"
        + (f"; marked: {marked}" if marked else "")
    )


def _marks_the_job(seen: Evidence, port: Port) -> bool:
    """False if a port marks packets, and none of the job's packets that may take it is marked."""
    if not port.marks:
        return True
    pairs = set(seen.network.crossing(port.link))
    flows = seen.flows.select("src", "dst").rows()
    ways = seen.network.between_switches([*((a, b, 1.0) for a, b in flows), *((b, a, 1.0) for a, b in flows)])
    return any(way in pairs for way in ways)


def _largest_flow(seen: Evidence, link: Link) -> float:
    """Bytes of the largest connection that may take a link: one connection stays on one link."""
    transport = parse_toml(seen.run.scenario_toml).get("transport")
    split = int(transport.get("rdma_qps_per_connection", 1)) if isinstance(transport, dict) else 1
    largest = 0.0
    for source, target, size in sorted(seen.largest, key=lambda flow: -flow[2]):
        ways = seen.network.between_switches([(source, target, size)])
        if any(seen.network.fabric.is_on_path(link, way) for way in ways):
            largest = size
            break
    return largest / max(split, 1)


def _own_bytes(seen: Evidence, link: Link) -> float:
    """Bytes of the job between switches whose paths may take a link."""
    return sum(seen.network.pairs[pair] for pair in seen.network.crossing(link))


def _shared(seen: Evidence) -> Iterator[Finding]:
    """Links of the job that also carry bytes of other workloads while it runs."""
    for port in seen.ports:
        link = port.link
        if link.peer in seen.network.received and link.node not in seen.network.fabric.hosts:
            yield from _shared_at_host(seen, port, link.peer, 2, seen.network.received[link.peer])
        elif link.node in seen.network.sent:
            yield from _shared_at_host(seen, port, link.node, 1, seen.network.sent[link.node])
    yield from _shared_between(seen)


def _shared_at_host(seen: Evidence, port: Port, host: str, end: int, own: float) -> Iterator[Finding]:
    """`end` is the place of the host in the keys of other traffic: 1 as a sender, 2 as a receiver."""
    others = {flow: size for flow, size in seen.network.traffic.others.items() if flow[end] == host}
    if not others:
        return
    count = len(seen.network.fabric.leaving[host])
    lost = seen.wire_us(min(sum(others.values()), own) / count, port.link.rate)
    towards = "from" if end == 2 else "to"
    most = sorted(others, key=lambda flow: (-others[flow], flow))[:2]
    beside = ", ".join(f"{flow[0]} {towards} {flow[3 - end]}" for flow in most)
    marked = _marked(seen, port) if end == 2 else None
    if marked:
        yield Finding("marked flow", f"{marked}; it also carries {beside}", lost, most[0][0], host)
    else:
        queue = f", its queue reached {format_bytes(port.backlog)}" if end == 2 else ""
        yield Finding("shared link", f"{port.link.port} also carries {beside}{queue}", lost, most[0][0], host)


def _shared_between(seen: Evidence) -> Iterator[Finding]:
    """Links between switches that mark the job, and that carry more than the job's part of them."""
    for port in seen.between():
        if not port.marks or not _marks_the_job(seen, port):
            continue
        equal = seen.network.equal(port.link)
        own = _own_bytes(seen, port.link) / max(len(equal), 1) * seen.overhead
        others = seen.network.traffic.others
        crossing = [
            flow
            for flow in sorted(others, key=lambda flow: (-others[flow], flow))
            if any(
                seen.network.fabric.is_on_path(port.link, way)
                for way in seen.network.between_switches([(flow[1], flow[2], 1.0)])
            )
        ]
        if crossing and (marked := _marked(seen, port)):
            beside = ", ".join(f"{name} from {source}" for name, source, _ in crossing[:2])
            lost = min(max(port.size - own, 0.0), own) / port.link.rate
            yield Finding("marked flow", f"{marked}; it may also carry {beside}", lost, crossing[0][0])


def _marked(seen: Evidence, port: Port) -> str | None:
    """The flow of the job with most marks that ends at a port's host, or may take a port between switches."""
    if not port.marks:
        return None
    host = port.link.peer
    for row in seen.flows.iter_rows(named=True):
        one, other = row["src"], row["dst"]
        for source, target in ((one, other), (other, one)):
            if (source, target) in seen.network.traffic.own and _may_take(seen, port.link, source, target, host):
                return (
                    f"{source} → {target}: {counted(row['ce_packets'], 'packet')} marked, "
                    f"{counted(row['cnps_received'], 'CNP')}; {port.link.port} marked {format_count(port.marks)}, "
                    f"its queue reached {format_bytes(port.backlog)}"
                )
    return None


def _may_take(seen: Evidence, link: Link, source: str, target: str, host: str) -> bool:
    if host in seen.network.fabric.hosts:
        return target == host
    ways = seen.network.between_switches([(source, target, 1.0)])
    return any(seen.network.fabric.is_on_path(link, way) for way in ways)


def _own_marks(seen: Evidence) -> Iterator[Finding]:
    """The port of the job that marked most, where senders slow down for marks."""
    if not seen.reacts:
        return
    for port in sorted([*seen.at_hosts(), *seen.between()], key=lambda port: -port.marks):
        if text := _marked(seen, port):
            yield Finding("marked flow", text, seen.took, seen.job)
            return


def _paused(seen: Evidence) -> Iterator[Finding]:
    """The port of the job that was paused longest."""
    sending = (port for port in seen.ports if port.link.node in seen.network.sent)
    ports = sorted([*seen.between(), *sending], key=lambda port: -port.paused)
    for port in ports[:1]:
        if port.paused > LEAST * seen.took:
            pauses = counted(port.pauses, "pause")
            text = f"{port.link.peer} paused {port.link.port} for {format_us(port.paused)} ({pauses})"
            yield Finding("pause", text, port.paused, port.link.peer)
