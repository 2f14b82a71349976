"""The part of a fabric that a job uses: its pairs of hosts, and the links on shortest paths between them.

A run does not record paths unless `record.paths` is on. Without them a link may carry a job if it lies on a shortest
path between the switches of two hosts of the job that exchange bytes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from pauseframe.files.reading import parse_toml
from pauseframe.steps.links import servers_of, topology_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pauseframe.report.data import RunData

SHORTEST = ("ecmp", "spray", "letflow", "drill", "adaptive", "ars", "conweave")
"""Kinds of routing that keep to shortest paths."""
Pair = tuple[str, str]


class Link(NamedTuple):
    """A link in one direction."""

    port: str
    node: str
    peer: str
    rate: float
    """Bytes per microsecond."""
    delay: float
    """Microseconds."""


@dataclass(frozen=True)
class Fabric:
    """All links of a run, also those that carried nothing."""

    links: list[Link]
    hosts: frozenset[str]
    _reached: dict[str, dict[str, tuple[int, float]]] = field(default_factory=dict)

    @cached_property
    def leaving(self) -> dict[str, list[Link]]:
        """The links that leave each node."""
        found: dict[str, list[Link]] = defaultdict(list)
        for link in self.links:
            found[link.node].append(link)
        return found

    @cached_property
    def by_port(self) -> dict[str, Link]:
        """The link of each port."""
        return {link.port: link for link in self.links}

    @cached_property
    def _switches(self) -> dict[str, frozenset[str]]:
        return {host: frozenset(link.peer for link in self.leaving.get(host, [])) for host in self.hosts}

    def switches(self, host: str) -> frozenset[str]:
        """The switches that a host is linked to."""
        return self._switches.get(host, frozenset())

    def reached(self, start: str) -> dict[str, tuple[int, float]]:
        """Hops and delay of a shortest path from a switch to each other one."""
        if start not in self._reached:
            found = {start: (0, 0.0)}
            waiting = deque([start])
            while waiting:
                node = waiting.popleft()
                hops, delay = found[node]
                for link in self.leaving.get(node, []):
                    if link.peer not in found and link.peer not in self.hosts:
                        found[link.peer] = (hops + 1, delay + link.delay)
                        waiting.append(link.peer)
            self._reached[start] = found
        return self._reached[start]

    def delay(self, source: str, target: str) -> float:
        """Delay of the links between two hosts in microseconds; of several paths the shortest."""
        last = {link.peer: link.delay for link in self.leaving.get(target, [])}
        ways = [
            (self.reached(first.peer)[switch][0], first.delay + self.reached(first.peer)[switch][1] + last[switch])
            for first in self.leaving.get(source, [])
            for switch in last.keys() & self.reached(first.peer).keys()
        ]
        return min(ways)[1] if ways else 0.0

    def is_on_path(self, link: Link, pair: Pair) -> bool:
        """True if a link between switches lies on a shortest path between two switches."""
        source, target = pair
        there, before, behind = (self.reached(node) for node in (source, link.node, link.peer))
        if target not in there or source not in before or target not in behind:
            return False
        return before[source][0] + 1 + behind[target][0] == there[target][0]


def fabric_of(run: RunData) -> Fabric:
    """The fabric of a run's scenario; of its ports if the scenario cannot be resolved."""
    topology = topology_of(run)
    if topology is None:
        rows = (
            run.ports.select(pl.col("port", "node", "peer", "tier").cast(pl.String), "rate_bps")
            .unique("port")
            .collect()
        )
        links = [
            Link(port, node.partition(".")[0], peer.partition(".")[0], rate / 8e6, 0.0)
            for port, node, peer, _, rate in rows.rows()
        ]
        return Fabric(
            links, frozenset(link.node for link, row in zip(links, rows.rows(), strict=True) if row[3] == "host")
        )
    names = topology.port_names()
    links = []
    for number, (one, other, rate, delay) in enumerate(topology.links()):
        links.append(Link(names[2 * number], one, other, rate / 8e6, delay))
        links.append(Link(names[2 * number + 1], other, one, rate / 8e6, delay))
    return Fabric(links, frozenset(name for name, kind, _ in topology.nodes() if kind == "host"))


@dataclass(frozen=True)
class Traffic:
    """Bytes that hosts send to each other over the network, by pair of sender and receiver."""

    own: Mapping[Pair, float]
    """Those of the job."""
    others: Mapping[tuple[str, str, str], float]
    """Those of other workloads while the job runs: workload, sender, receiver."""


def traffic_of(run: RunData, job: str, start: float, finish: float) -> Traffic:
    """The bytes of a job, and those that others send while it runs, as if at constant rates."""
    inside = servers_of(run)
    whole = (pl.col("size_bytes") + pl.col("reply_bytes")).cast(pl.Float64)
    share = pl.when(whole > 0).then(pl.col("reply_bytes") / whole).otherwise(0.0)
    end = pl.col("finish_us").fill_null(run.summary["sim_time_s"] * 1e6)
    overlap = (pl.min_horizontal(end, pl.lit(finish)) - pl.max_horizontal("start_us", pl.lit(start))).clip(0.0)
    is_own = pl.col("workload") == job
    within = pl.when(is_own).then(1.0).otherwise((overlap / (end - pl.col("start_us"))).fill_nan(0.0).clip(0.0, 1.0))
    columns = run.flows.with_columns(pl.col("workload", "src", "dst").cast(pl.String)).select(
        "workload",
        "src",
        "dst",
        ((1.0 - share) * pl.col("delivered_bytes") * within).alias("there"),
        (share * pl.col("delivered_bytes") * within).alias("back"),
    )
    grouped = (
        columns.group_by("workload", "src", "dst").agg(pl.col("there", "back").sum()).sort("workload", "src", "dst")
    )
    own: dict[Pair, float] = defaultdict(float)
    others: dict[tuple[str, str, str], float] = defaultdict(float)
    for workload, source, target, there, back in grouped.collect().rows():
        if source in inside and inside[source] == inside.get(target):
            continue  # over a scale-up link
        for sender, receiver, size in ((source, target, there), (target, source, back)):
            if size > 0 and workload == job:
                own[sender, receiver] += size
            elif size > 0:
                others[workload, sender, receiver] += size
    return Traffic(own, others)


@dataclass(frozen=True)
class Network:
    """The links that a job may use, and what it sends over them."""

    fabric: Fabric
    traffic: Traffic
    is_shortest: bool
    recorded: frozenset[str] | None
    """Ports that carry data of the job, if the run recorded paths."""
    failed: frozenset[Pair]
    """Links between nodes that fail during the run."""

    @cached_property
    def hosts(self) -> set[str]:
        """Hosts that send or receive bytes of the job, storage included."""
        return {host for pair in self.traffic.own for host in pair}

    @cached_property
    def received(self) -> dict[str, float]:
        """Bytes of the job that each host receives."""
        return self._at_host(1)

    @cached_property
    def sent(self) -> dict[str, float]:
        """Bytes of the job that each host sends."""
        return self._at_host(0)

    def _at_host(self, end: int) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for pair, size in self.traffic.own.items():
            found[pair[end]] += size
        return found

    @cached_property
    def pairs(self) -> dict[Pair, float]:
        """Bytes of the job between switches of hosts; those of several equally short ways in equal parts."""
        return self.between_switches((source, target, size) for (source, target), size in self.traffic.own.items())

    def between_switches(self, flows: Iterable[tuple[str, str, float]]) -> dict[Pair, float]:
        """Bytes between the switches of senders and receivers."""
        found: dict[Pair, float] = defaultdict(float)
        for source, target, size in flows:
            ways = self._ways(source, target)
            for way in ways:
                found[way] += size / len(ways)
        return found

    @cached_property
    def _known_ways(self) -> dict[tuple[frozenset[str], frozenset[str]], list[Pair]]:
        return {}

    def _ways(self, source: str, target: str) -> list[Pair]:
        """The pairs of switches between which flows of two hosts travel; none if the hosts share a switch."""
        ends = self.fabric.switches(source), self.fabric.switches(target)
        if ends not in self._known_ways:
            ways = [
                (self.fabric.reached(one)[other][0], one, other)
                for one in sorted(ends[0])
                for other in sorted(ends[1] & self.fabric.reached(one).keys())
            ]
            shortest = min(ways, default=(0,))[0]
            self._known_ways[ends] = [(one, other) for hops, one, other in ways if hops == shortest and one != other]
        return self._known_ways[ends]

    def crossing(self, link: Link) -> list[Pair]:
        """The pairs of switches between which the job's bytes may take a link."""
        if self.recorded is not None and link.port not in self.recorded:
            return []
        if not self.is_shortest:
            return list(self.pairs)
        return [pair for pair in self.pairs if self.fabric.is_on_path(link, pair)]

    def equal(self, link: Link) -> list[Link]:
        """The links that ECMP takes for equal to one that the job may use, itself included.

        These are other next hops of its switch, or, if that has none, other links into the same switch.
        """
        pairs = self.crossing(link)
        if not self.is_shortest:
            pairs = [pair for pair in pairs if self.fabric.is_on_path(link, pair)]
        next_hops = [one for one in self.fabric.leaving[link.node] if self._is_alternative(one, pairs)]
        if len(next_hops) > 1:
            return next_hops
        return [one for one in self.fabric.links if one.peer == link.peer and self._is_alternative(one, pairs)]

    def _is_alternative(self, link: Link, pairs: list[Pair]) -> bool:
        if link.peer in self.fabric.hosts or link.node in self.fabric.hosts or (link.node, link.peer) in self.failed:
            return False
        return any(self.fabric.is_on_path(link, pair) for pair in pairs)


def network_of(run: RunData, job: str, start: float, finish: float) -> Network:
    """The network of a job that ran from `start` to `finish`, in microseconds."""
    document = parse_toml(run.scenario_toml)
    fabric = fabric_of(run)
    routing = document.get("routing") or {}
    kind = routing.get("kind", "ecmp") if isinstance(routing, dict) else "ecmp"
    traffic = traffic_of(run, job, start, finish)
    return Network(fabric, traffic, kind in SHORTEST, _recorded(run, job), _failed(fabric, document))


def _recorded(run: RunData, job: str) -> frozenset[str] | None:
    if run.paths is None:
        return None
    own = run.flows.filter(pl.col("workload").cast(pl.String) == job).select("flow")
    ports = run.paths.join(own, on="flow", how="semi").select(pl.col("port").cast(pl.String)).unique().collect()
    return frozenset(ports["port"].to_list()) if len(ports) else None


def _failed(fabric: Fabric, document: Mapping[str, object]) -> frozenset[Pair]:
    failures = document.get("failure") or []
    found: set[Pair] = set()
    for failure in failures if isinstance(failures, list) else []:
        if "link" in failure:
            one, other = failure["link"]
            found |= {(one, other), (other, one)}
        elif "port" in failure and (link := fabric.by_port.get(failure["port"])):
            found |= {(link.node, link.peer), (link.peer, link.node)}
        elif "node" in failure:
            found |= {pair for link in fabric.leaving[failure["node"]] for pair in _both(link)}
    return frozenset(found)


def _both(link: Link) -> tuple[Pair, Pair]:
    return (link.node, link.peer), (link.peer, link.node)
