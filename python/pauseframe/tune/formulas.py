"""Values of parameters from closed forms, which start the search or bound it.

Each formula states its source. Rates are in bits per second, times in seconds, sizes in bytes.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe.fabric.headroom import annex_o
from pauseframe.tune.parameters import quantity

if TYPE_CHECKING:
    from collections.abc import Callable

ETHERNET = 38
"""Bytes of a frame on the wire besides its IP packet: header, FCS, preamble and gap."""
ACK_FRAME = 84
"""Bytes of a pure ACK on the wire: the smallest frame with preamble and gap."""
SIZE_KEYS = ("switch.marker.k", "switch.marker.min", "switch.marker.max")


@dataclass(frozen=True)
class Suggestion:
    """A value for a parameter in base units (bytes, seconds, or a plain number), and its reason."""

    path: str
    value: float
    role: str
    """"start", or a bound that holds for all settings: "at_least", "at_most"."""
    formula: str
    source: str


@dataclass(frozen=True)
class Facts:
    """Quantities of a scenario for the formulas."""

    values: dict[str, str]
    """Every key of the scenario with its value, in the format of `pauseframe show`."""
    rate: float
    """Rate of the slowest host link in bits per second."""
    base_rtt: float
    """Time of a full frame and its ACK over the longest shortest path in the idle network, in seconds."""
    needed_headroom: float
    """The largest headroom of a link in bytes; 0 without lossless classes."""
    given_headroom: float
    headroom_ports: int
    """Largest number of ports of a switch."""
    fan_in: int
    """Largest number of senders that a workload lets answer one host at once; 0 without such a workload."""
    mtu: float

    @property
    def bdp(self) -> float:
        """Bandwidth-delay product in bytes."""
        return self.rate * self.base_rtt / 8

    def size(self, path: str) -> float | None:
        """A size or a time of the scenario in its base unit; None if it is automatic or has no unit."""
        return quantity(self.values, path)

    def number(self, path: str) -> float | None:
        """A plain number of the scenario."""
        try:
            return float(self.values.get(path, ""))
        except ValueError:
            return None


def facts_of(resolved: _core.Resolved) -> Facts:
    """Computes the quantities of a resolved scenario."""
    values = {path: value for path, value, _ in resolved.explain()}
    topology = _core.Topology.of_scenario(resolved)
    links = topology.links()
    hosts = {name for name, kind, _ in topology.nodes() if kind == "host"}
    rows = resolved.headroom()
    fan_in = [
        int(value)
        for path, value in values.items()
        if re.fullmatch(r"workload\.\d+\.(senders|servers|fan_in)", path) and value.isdigit()
    ]
    mtu = quantity(values, "host.mtu") or 1500.0
    return Facts(
        values,
        min((float(rate) for one, other, rate, _ in links if {one, other} & hosts), default=1e10),
        _base_rtt(links, hosts, mtu, values),
        max((float(row["needed_bytes"]) for row in rows), default=0.0),
        min((float(row["given_bytes"]) for row in rows), default=0.0),
        most_ports(topology),
        max(fan_in, default=0),
        mtu,
    )


def most_ports(topology: _core.Topology) -> int:
    """The number of ports of the switch that has the most."""
    switches = {name for name, kind, _ in topology.nodes() if kind == "switch"}
    ports = Counter(end for one, other, _, _ in topology.links() for end in (one, other) if end in switches)
    return max(ports.values(), default=0)


def _base_rtt(links: list[tuple[str, str, int, float]], hosts: set[str], mtu: float, values: dict[str, str]) -> float:
    """Time for a full frame and its ACK, stored and forwarded over the longest of the shortest paths."""
    beside: dict[str, list[tuple[str, float]]] = {}
    for one, other, rate, delay_us in links:
        cost = 2 * delay_us * 1e-6 + (mtu + ETHERNET + ACK_FRAME) * 8 / rate
        beside.setdefault(one, []).append((other, cost))
        beside.setdefault(other, []).append((one, cost))
    longest = max((_farthest(beside, host, hosts) for host in sorted(hosts)[:16]), default=0.0)
    return longest + 2 * sum(quantity(values, f"host.{side}_delay") or 0.0 for side in ("tx", "rx"))


def _farthest(beside: dict[str, list[tuple[str, float]]], start: str, hosts: set[str]) -> float:
    costs, waiting = {start: 0.0}, deque([start])
    while waiting:
        at = waiting.popleft()
        for other, cost in beside.get(at, []):
            if other not in costs:
                costs[other] = costs[at] + cost
                waiting.append(other)
    return max((cost for name, cost in costs.items() if name in hosts), default=0.0)


def suggestions(facts: Facts, path: str, cable: float | None = None) -> list[Suggestion]:
    """Suggested values for a key, empty for most keys. The headroom must suffice for `cable` in metres."""
    known: dict[str, Callable[[Facts, str], list[Suggestion]]] = {
        **dict.fromkeys(SIZE_KEYS, _threshold),
        "switch.pfc.headroom": lambda facts, path: _headroom(facts, path, cable),
        "switch.pfc.headroom_pool.size": _pool,
        "switch.pfc.xoff": _xoff,
        "switch.buffer.alpha": _alpha,
        "transport.rto_min": _rto,
        "transport.initial_window": _window,
        "transport.rdma_cnp_interval": _cnp_interval,
        "transport.dcqcn_rise_interval": _rise_interval,
        "transport.dcqcn_additive_increase": _additive_increase,
    }
    # Keys of a named transport have the formulas of the key in [transport].
    found = known.get(re.sub(r"^transports\.[^.]+\.", "transport.", path))
    return found(facts, path) if found else []


def _threshold(facts: Facts, path: str) -> list[Suggestion]:
    us, gbps = facts.base_rtt * 1e6, facts.rate / 1e9
    return [
        Suggestion(
            path,
            facts.bdp / 7,
            "start",
            f"K > C x RTT / 7, with C = {gbps:g} Gb/s and a base RTT of {us:.3g} us",
            "DCTCP (SIGCOMM 2010), equation 13",
        ),
        Suggestion(
            path,
            2250 * gbps,
            "start",
            f"22.5 KB at 10 Gb/s, in proportion to the rate of {gbps:g} Gb/s",
            "TCP-Bolt (INFOCOM 2014), section IV",
        ),
    ]


def _headroom(facts: Facts, path: str, cable: float | None) -> list[Suggestion]:
    need, formula = facts.needed_headroom, "the most that a link of this fabric needs"
    if cable is not None:
        frame = round(facts.mtu) + 22
        found = annex_o(round(facts.rate / 1e6), cable, max_frame=frame).total
        if found > need:
            need, formula = float(found), f"{cable:g} m at {facts.rate / 1e9:g} Gb/s, the slowest peer that is allowed"
    source = "IEEE 802.1Qbb Annex O"
    return [Suggestion(path, need, role, formula, source) for role in ("at_least", "start")] if need else []


def _pool(facts: Facts, path: str) -> list[Suggestion]:
    need = facts.needed_headroom * facts.headroom_ports
    formula = f"{facts.headroom_ports} ports of the largest switch, all paused at once"
    return (
        [Suggestion(path, need, role, formula, "IEEE 802.1Qbb Annex O") for role in ("at_least", "start")]
        if need
        else []
    )


def _xoff(facts: Facts, path: str) -> list[Suggestion]:
    size = facts.size("switch.buffer.size")
    if size is None or not facts.needed_headroom or facts.values.get("switch.buffer.policy") != '"per_port"':
        return []
    room = size - facts.given_headroom
    formula = f"the {size:g} B of an ingress less its headroom of {facts.given_headroom:g} B"
    return [Suggestion(path, room, role, formula, "IEEE 802.1Qbb Annex O") for role in ("at_most", "start")]


def _alpha(facts: Facts, path: str) -> list[Suggestion]:
    size, mark = facts.size("switch.buffer.size"), facts.size("switch.marker.k")
    if size is None or mark is None or not facts.given_headroom:
        return []
    shared = size - facts.given_headroom * facts.headroom_ports
    filled = facts.headroom_ports * mark
    if shared <= filled:
        return []
    return [
        Suggestion(
            path,
            filled / (shared - filled),
            "start",
            f"K < alpha x B / (n x (1 + alpha)): {facts.headroom_ports} queues at K = {mark:g} B do not pause an input "
            f"of a pool of {shared:.4g} B",
            "DCQCN (SIGCOMM 2015), section 4, ECN before PFC",
        )
    ]


def _rto(facts: Facts, path: str) -> list[Suggestion]:
    size = facts.size("switch.buffer.size")
    if size is None:
        return []
    alpha = facts.number("switch.buffer.alpha")
    queue = size if alpha is None else size * alpha / (1 + alpha)
    full = f"a full queue of {queue / 1e3:.4g} KB at {facts.rate / 1e9:g} Gb/s"
    formula = f"base RTT of {facts.base_rtt * 1e6:.3g} us and {full}"
    return [
        Suggestion(path, facts.base_rtt + queue * 8 / facts.rate, "start", formula, "no timeout while a packet waits")
    ]


DCQCN = "DCQCN (SIGCOMM 2015), section 5"
CONNECTX = "NVIDIA ConnectX: DCQCN CC parameters"


def _cnp_interval(_facts: Facts, path: str) -> list[Suggestion]:
    return [
        Suggestion(path, 50e-6, "start", "50 us", DCQCN),
        Suggestion(path, 4e-6, "start", "4 us: MIN_TIME_BETWEEN_CNPS", CONNECTX),
    ]


def _rise_interval(_facts: Facts, path: str) -> list[Suggestion]:
    return [
        Suggestion(path, 55e-6, "start", "55 us", DCQCN),
        Suggestion(path, 300e-6, "start", "300 us: RPG_TIME_RESET", CONNECTX),
    ]


def _additive_increase(facts: Facts, path: str) -> list[Suggestion]:
    gbps = facts.rate / 1e9
    return [
        Suggestion(path, facts.rate / 1000, "start", f"40 Mb/s at 40 Gb/s, in proportion to {gbps:g} Gb/s", DCQCN),
        Suggestion(path, 5e6, "start", "5 Mb/s: RPG_AI_RATE", CONNECTX),
    ]


def _window(facts: Facts, path: str) -> list[Suggestion]:
    found = [
        Suggestion(
            path,
            facts.bdp,
            "start",
            f"C x RTT = {facts.bdp:.4g} B: no slow start",
            "TCP-Bolt (INFOCOM 2014), section III",
        )
    ]
    size = facts.size("switch.buffer.size")
    if facts.fan_in > 1 and size is not None:
        each = (facts.bdp + size) / facts.fan_in
        formula = f"the first windows of {facts.fan_in} senders fit in C x RTT and {size / 1e3:.4g} KB of buffer"
        found.append(Suggestion(path, each, "start", formula, "no loss in the first round trip"))
    return found
