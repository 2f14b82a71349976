"""The load of a proof: traffic in and out of one port, with enough bytes to fill the buffer of its switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pauseframe.fabric.headroom import annex_o
from pauseframe.imports.fabric import loads, switches, transports
from pauseframe.imports.fabric.loads import Flow, Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.devices.model import End
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes

Kind = Literal["burst", "controlled", "mixed", "across", "tcp", "storm", "spread"]
"""RoCE without congestion control, RoCE with DCQCN, the same beside TCP, RoCE between the device of the port and all
others, TCP alone, a host that keeps pausing, or many short flows between all hosts. Without a lossless queue, and for
findings about a lossy one, hosts send what their files tell in place of RoCE."""
Keys = dict[str, Any]
MOST_SENDERS = 8
LEAST, MOST = 2_000_000, 160_000_000
"""Limits of the bytes of a flow."""

MOST_HOSTS, QUEUE_PAIRS, SHORT = 64, 32, 50_000
"""Of many short flows: hosts, flows from each, and their bytes. What they put on a link shows how paths are chosen."""
RATE, DATAGRAM = "500 Mbps", "1400 B"
"""Of a sender to a host that pauses: enough to fill the buffer before the watchdog acts."""


@dataclass(frozen=True)
class Through:
    """Which nodes send to which: `into` enters the switch by the port, `out` leaves by it."""

    into: list[Flow]
    out: list[Flow]
    node: str
    """The node behind the port."""
    home: frozenset[str] = frozenset()
    """The device of the port, or the devices with hosts at both of its ends if it has none."""
    stop: str = "200 ms"
    """Time limit: several times what the flows take without a loss."""
    slow: tuple[tuple[str, int], ...] = ()
    """Nodes that read slowly, with their rate in Mb/s: one sender alone fills no queue, pauses from behind do."""
    gap: tuple[int, int] | None = None
    """For a storm: its length and the pause between two storms, in ms."""
    lossy: Keys | None = None
    """What hosts send in place of RoCE: no queue is lossless, or the load is about another queue."""
    fits: bool = True
    """False if no host sends into the queues that the load is about."""

    def load(self, kind: Kind) -> Callable[[Scope, Classes], Load]:
        """The load of a kind, for `build`."""
        return {
            "burst": self._burst,
            "controlled": self._controlled,
            "mixed": self._mixed,
            "across": self._across,
            "tcp": self._tcp,
            "storm": self._storm,
            "spread": self._spread,
        }[kind]

    def _burst(self, _: Scope, classes: Classes) -> Load:
        own = self.lossy or transports.roce(classes, control="none")
        return Load({"default": own}, self._both(), "2 s" if self.lossy else self.stop, slow=self._slow())

    def _sent(self, classes: Classes) -> dict[str, Keys]:
        return {"default": self.lossy or transports.roce(classes)}

    def _controlled(self, _: Scope, classes: Classes) -> Load:
        return Load(self._sent(classes), self._both(), "2 s", slow=self._slow())

    def _mixed(self, _: Scope, classes: Classes) -> Load:
        beside = loads.flows("TCP", "tcp", [(a, b, LEAST) for a, b, _ in (*self.into, *self.out)])
        tcp = {"preset": "cubic", **transports.best_effort(classes)}
        return Load({**self._sent(classes), "tcp": tcp}, [*self._both(), beside], "2 s", slow=self._slow())

    def _across(self, scope: Scope, classes: Classes) -> Load:
        """Hosts behind the device and its neighbours exchange flows with hosts elsewhere, by all equal paths."""
        home = {node for end, node in scope.hosts.items() if scope.far(end).device in self.home}
        away = [node for node in scope.host_nodes() if node not in home]
        pairs = [(one, other, LEAST) for one in sorted(home)[:MOST_SENDERS] for other in away[:MOST_SENDERS]]
        both = [*pairs, *((b, a, size) for a, b, size in pairs)]
        return Load(self._sent(classes), [loads.flows("across", "default", both)], "2 s")

    def _both(self) -> list[dict[str, Any]]:
        ways = ("into the port", self.into), ("out of the port", self.out)
        return [loads.flows(name, "default", pairs) for name, pairs in ways if pairs]

    def _slow(self) -> list[dict[str, Any]]:
        return [{"host": node, "rate": f"{rate} Mbps"} for node, rate in self.slow]

    def _tcp(self, scope: Scope, classes: Classes) -> Load:
        """All nodes to one, and all to the node behind the port."""
        nodes = [self.node, *(node for node in scope.host_nodes() if node != self.node)][: MOST_SENDERS + 1]
        sinks = self.into[0][1], self.node
        found = loads.tcp_flows(
            scope, classes, [(one, sink, LEAST * 4) for sink in sinks for one in nodes if one != sink]
        )
        found.stop = "5 s"
        return found

    def _storm(self, _: Scope, classes: Classes) -> Load:
        """A node that pauses its switch for ever, or on and off; other nodes send to it and past it."""
        long, short = self.gap or (1500, 0)
        starts = range(0, 3 * (long + short), long + short) if short else [0]
        storms = [
            {"senders": [self.node], "priorities": [classes.data], "start": f"{at} ms", "stop": f"{at + long} ms"}
            for at in starts
        ]
        steady: dict[str, Any] = {"kind": "udp", "rate": RATE, "priority": classes.data, "datagram": DATAGRAM}
        senders = [a for a, _, _ in self.out[:2]]
        past = next((b for _, b, _ in self.into if b not in senders), None)
        to = [self.node, *([past] if past else [])]
        work = [{**steady, "name": f"to {node}", "sources": senders, "destinations": [node]} for node in to]
        stop = (starts[-1] if short else 0) + long + max(short, 500)
        return Load({}, work, f"{stop} ms", storms)

    def _spread(self, scope: Scope, classes: Classes) -> Load:
        hosts = loads.rack_by_rack(scope)
        few = hosts[:: -(-len(hosts) // MOST_HOSTS)]
        pairs = [(a, b, SHORT) for a, b, _ in loads.half_across(few) for _ in range(QUEUE_PAIRS)]
        return Load(self._sent(classes), [loads.flows("spread", "default", pairs)], "2 s")


def through(
    scope: Scope,
    focus: End,
    classes: Classes,
    mtu: int,
    gap: tuple[int, int] | None = None,
    *,
    alone: bool = False,
    queues: frozenset[int] = frozenset(),
) -> Through:
    """The load through a port. Other senders are those whose links need no more headroom than that of the port.

    `alone`: no other host sends, and a slow receiver makes the queue. `queues`: those that the load is about.
    """
    need: dict[str, int] = {}
    for end, node in scope.hosts.items():
        cable = scope.by_end[end]
        if not cable.down or end == scope.far(focus):
            total = annex_o(cable.speed, cable.metres, max_frame=mtu).total
            need[node] = max(total, need.get(node, 0))
    node = _node_behind(scope, focus, need)
    others = sorted((one for one in need if one != node), key=lambda one: (_speed(scope, one), need[one], one))
    near = [one for one in others if need[one] <= need.get(node, 0)] or others
    receiver = others[0]
    beside = [] if alone else [one for one in near if one != receiver][: MOST_SENDERS - 1]
    senders = [node, *beside]
    pool = switches.pool_of(scope, focus.device, classes)
    flows, slow = [], []
    for sources, sink in ((senders, receiver), (near[:MOST_SENDERS], node)):
        rates = sum(_speed(scope, one) for one in sources), _speed(scope, sink)
        if rates[0] <= rates[1]:
            rates = rates[0], rates[0] // 2
            slow.append((sink, rates[1]))
        flows.append([(one, sink, _size(pool, len(sources), *rates)) for one in sources])
    longest = max(sum(size for _, _, size in some) * 8e-6 / _rate(scope, some, slow) for some in flows if some)
    home = frozenset({scope.far(end).device for end, name in scope.hosts.items() if name == node})
    time = f"{max(20, 4 * longest * 1e3):.0f} ms"
    lossy, fits = _lossy(scope, classes, queues)
    return Through(flows[0], flows[1], node, home, time, tuple(slow), gap, lossy, fits)


def _lossy(scope: Scope, classes: Classes, queues: frozenset[int]) -> tuple[Keys | None, bool]:
    """What hosts send in a lossy fabric or a lossy queue of these, None for RoCE; and whether it gets into these."""
    if classes.lossless and (classes.data in queues or not queues):
        return None, True
    sent = transports.lossy_of(scope, classes)
    found = next((own for queue, own in sent.items() if queue in queues), None)
    if found is None and not classes.lossless:
        return next(iter(sent.values()), None), not queues
    return found, found is not None


def _rate(scope: Scope, flows: list[Flow], slow: list[tuple[str, int]]) -> int:
    """Mb/s at which flows to one node arrive."""
    sink = flows[0][1]
    return dict(slow).get(sink, _speed(scope, sink))


def _speed(scope: Scope, node: str) -> int:
    return next(scope.by_end[end].speed for end, name in scope.hosts.items() if name == node)


def _node_behind(scope: Scope, focus: End, need: dict[str, int]) -> str:
    """The host at the far end of a port, else a host of the switch at the far end, else of the device itself."""
    far = scope.far(focus)
    if far in scope.hosts:
        return scope.hosts[far]
    for device in (far.device, focus.device):
        for end, node in scope.hosts.items():
            if scope.far(end).device == device and node in need:
                return node
    return next(iter(need))


def _size(pool: int, senders: int, rate: int, drained: int) -> int:
    """Bytes of each flow that make a queue of 1.5 times the pool, so that every limit below it is reached."""
    return int(min(max(1.5 * pool / (senders * (1 - drained / rate)), LEAST), MOST))
