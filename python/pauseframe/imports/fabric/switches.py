"""The [switch] table of an imported scenario: PFC, buffer, scheduler and watchdog.

The simulator has one value of each for all switches, but for `switch.pfc.ports` and the markers. `Scope.choose` takes
the value of the focus or of most ports, and the account lists all other places.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pauseframe.devices.model import DEFAULT_MTU, PRIORITIES, End
from pauseframe.headroom import FRAME, annex_o
from pauseframe.imports.fabric.traffic import BEST_EFFORT, CNP_DSCP, CNP_PRIORITY, CodePoint, treatment
from pauseframe.lint.subject import group_of, lossless_queues, queue_of

if TYPE_CHECKING:
    from pauseframe.devices.model import BufferProfile, Pool, Port, Switch
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.traffic import Treatment

POOL = 16_000_000
"""Bytes of the pool of a switch for which no file gives them."""
LARGEST_HOST_MTU = 9000
"""MTU in bytes of a host of which no file is there, at most: the MTU of a switch port has room for tunnels."""


@dataclass
class Classes:
    """The priorities of the scenario, which are the queues of the devices."""

    data: int
    """Priority of the lossless traffic."""
    best_effort: int
    notifications: int
    """Priority of congestion notification packets."""
    paused: tuple[int, ...]
    code: CodePoint | None
    of_dscp: list[tuple[int, int]] = field(default_factory=list)

    @property
    def lossless(self) -> bool:
        """True if the lossless traffic gets into a paused priority."""
        return self.data in self.paused


def classes_of(scope: Scope, code: CodePoint | None) -> Classes:
    """The priorities of the classes of traffic."""
    ports = list(scope.ports())
    paused = scope.choose("paused queues", ((e, tuple(sorted(lossless_queues(s, p)))) for e, s, p in ports)) or ()

    def queue(one: CodePoint, name: str) -> int:
        chosen = scope.choose(f"queue of {name}", ((e, treatment(s, p, one).queue) for e, s, p in ports if _maps(p)))
        return chosen or 0

    by_dscp = code is None or code.kind == "dscp"
    best = queue(BEST_EFFORT if by_dscp else CodePoint("dot1p", 0), "best effort")
    notified = queue(CodePoint("dscp", CNP_DSCP) if by_dscp else CodePoint("dot1p", CNP_PRIORITY), "CNPs")
    data = best if code is None else code.value if code.kind == "priority" else queue(code, str(code))
    if not any(_maps(p) for _, _, p in ports):
        best, notified = next((n for n in PRIORITIES if n not in paused), 0), max(PRIORITIES)
    if code is None or code.kind != "dscp":
        return Classes(data, best, notified, paused, code)
    return Classes(data, best, notified, paused, code, sorted({0: best, CNP_DSCP: notified, code.value: data}.items()))


def _maps(port: Port) -> bool:
    return port.qos.dscp_to_tc is not None or port.qos.dot1p_to_tc is not None


def mtu_of(scope: Scope) -> int:
    """MTU of the hosts in bytes: the largest that a file gives to a host, else what the switches let through."""
    own = [nic.mtu for end in scope.hosts if (nic := scope.fabric.nic(end)) and nic.mtu]
    if own:
        mtu = max(own)
    else:
        scope.account.assume("no file gives the MTU of a host: that of the switches' lossless traffic or ports")
        sizes = (s.lossless_mtu or min(p.mtu or DEFAULT_MTU, LARGEST_HOST_MTU) for _, s, p in scope.ports())
        mtu = max(Counter(sizes).most_common(1)[0][0], 576)
    for end, _, port in scope.ports():
        if port.mtu is not None and port.mtu < mtu:
            scope.account.differs(end.device, end.port, "mtu", f"{port.mtu} B", f"no limit: frames of {mtu} B pass")
    return mtu


def profile_of(switch: Switch, port: Port, found: Treatment) -> BufferProfile | None:
    """The buffer profile of a group."""
    return switch.profiles.get(port.groups.get(found.group) or "")


def headroom_of(switch: Switch, port: Port, group: int) -> int | None:
    """Headroom of a group in bytes; None if the device computes it.

    Without shared headroom a group has only what its profile reserves.
    """
    have, _ = switch.headroom_of(port, group)
    profile = switch.profiles.get(port.groups.get(group) or "")
    pool = switch.pools.get(profile.pool) if profile is not None else None
    if have is not None and profile is not None and pool is not None and pool.xoff == 0:
        return min(have, profile.size)
    return have


def pfc_of(scope: Scope, classes: Classes, mtu: int) -> dict[str, Any]:
    """The table switch.pfc, without its ports."""
    table: dict[str, Any] = {"priorities": list(classes.paused)}
    rows = [(e, s, p, _data(s, p, classes)) for e, s, p in scope.ports()]
    lossless = [(e, s, p, found) for e, s, p, found in rows if found.lossless]
    headroom = _headroom(scope, lossless, mtu, len(classes.paused))
    if headroom is not None:
        table["headroom"] = f"{headroom} B"
    limits = [(e, one.static_th) for e, s, p, found in lossless if (one := profile_of(s, p, found)) and one.static_th]
    if (xoff := scope.choose("static_th", limits)) is not None:
        table["xoff"] = f"{xoff} B"
    shared = scope.choose("shared headroom", _by_device([(e, pool.xoff) for e, _, _, pool in _pools(scope, classes)]))
    if shared:
        table["headroom_pool"] = {"size": f"{shared} B"}
    if (dog := _watchdog(scope, classes)) is not None:
        table["watchdog"] = dog
    return table


def _data(switch: Switch, port: Port, classes: Classes) -> Treatment:
    return treatment(switch, port, classes.code or BEST_EFFORT)


def _headroom(scope: Scope, rows: list[tuple[End, Switch, Port, Treatment]], mtu: int, paused: int) -> int | None:
    """The headroom of the focus; without one, None: the simulator gives each link what it needs.

    A single value for links of several speeds and lengths would lose packets at the longest and fastest of them.
    """
    have = {e: headroom_of(s, p, found.group) for e, s, p, found in rows}
    if scope.own_headroom and scope.focus is not None and have.get(scope.focus) is not None:
        return scope.choose("headroom", [(e, value) for e, value in have.items() if value is not None])
    for end, switch, port in scope.ports():
        cable = scope.by_end[end]
        need = annex_o(cable.speed, cable.metres, max_frame=mtu + FRAME, lossless=paused).total
        for group in sorted({group_of(switch, port, priority) for priority in port.lossless}):
            value = headroom_of(switch, port, group)
            if value is not None and value < need:
                key, instead = f"headroom of group {group}", f"{need} B, what the link needs"
                scope.account.differs(end.device, end.port, key, f"{value} B", instead)
    return None


def _pools(scope: Scope, classes: Classes) -> list[tuple[End, Switch, Port, Pool]]:
    """The ingress pool of the lossless group of each port."""
    found = []
    for end, switch, port in scope.ports():
        profile = profile_of(switch, port, _data(switch, port, classes))
        groups = [switch.profiles.get(port.groups.get(group_of(switch, port, p)) or "") for p in sorted(port.lossless)]
        names = [one.pool for one in (profile, *groups) if one is not None and one.xoff]
        pool = switch.pools.get(names[0]) if names else _ingress(switch)
        if pool is not None and pool.size:
            found.append((end, switch, port, pool))
    return found


def _by_device(rows: list[tuple[End, int]]) -> list[tuple[End, int]]:
    """One row for each device, which has one value for all ports."""
    return [(End(device, ""), value) for device, value in {end.device: value for end, value in rows}.items()]


def _ingress(switch: Switch) -> Pool | None:
    return next((pool for pool in switch.pools.values() if pool.direction != "egress"), None)


def pool_of(scope: Scope, classes: Classes) -> int:
    """Bytes of the ingress pool of a switch."""
    size = scope.choose(
        "size of the ingress pool", _by_device([(e, o.size or 0) for e, _, _, o in _pools(scope, classes)])
    )
    if not size:
        scope.account.assume(f"no file gives the size of a pool: {POOL // 10**6} MB are shared")
    return size or POOL


def buffer_of(scope: Scope, classes: Classes, pfc: dict[str, Any], mtu: int) -> dict[str, Any]:
    """The table switch.buffer: the pool, and the headroom and reserved bytes that SONiC keeps beside it."""
    memory = _memory(scope, classes)
    if len(set(memory.values())) == 1:
        return {"policy": "shared", "size": f"{next(iter(memory.values()))} B"}
    return {"policy": "shared", "size": f"{pool_of(scope, classes) + _beside(scope, classes, pfc, mtu)} B"}


def _memory(scope: Scope, classes: Classes) -> dict[str, int]:
    """Packet memory of each switch whose files give it: pool, headroom of all groups, and reserved bytes."""
    found, own = Counter[str](), {end.device: pool for end, _, _, pool in _pools(scope, classes)}
    reserved = reserved_of(scope, classes)
    for end, switch, port in scope.ports():
        pool, group = own.get(end.device), _data(switch, port, classes).group
        if pool is None or pool.size is None:
            return {}
        headroom = 0 if pool.xoff or not classes.lossless else headroom_of(switch, port, group)
        if headroom is None:
            return {}
        found[end.device] += headroom * len(classes.paused) + reserved
    return {name: (pool.size or 0) + pool.xoff + found[name] for name, pool in own.items()}


def _beside(scope: Scope, classes: Classes, pfc: dict[str, Any], mtu: int) -> int:
    """Bytes of headroom and reserved buffer of the switch that has most."""
    if "headroom_pool" in pfc:
        headroom = {name: _bytes(pfc["headroom_pool"]["size"]) for name in scope.switches}
    else:
        headroom = Counter[str]()
        for end, _, _ in scope.ports():
            cable = scope.by_end[end]
            need = annex_o(cable.speed, cable.metres, max_frame=mtu + FRAME, lossless=len(classes.paused)).total
            own = _bytes(pfc["headroom"]) if "headroom" in pfc else need
            headroom[end.device] += own * len(classes.paused)
    ports = Counter(end.device for end, _, _ in scope.ports())
    reserved = reserved_of(scope, classes)
    return max((headroom.get(name, 0) + ports[name] * reserved for name in scope.switches), default=0)


def _bytes(text: str) -> int:
    return int(text.removesuffix(" B"))


def reserved_of(scope: Scope, classes: Classes) -> int:
    """Reserved bytes of a lossless group besides its headroom."""
    rows = []
    for end, switch, port in scope.ports():
        profile = profile_of(switch, port, _data(switch, port, classes))
        if profile is not None and profile.has_headroom:
            rows.append((end, profile.size - profile.xoff if profile.size >= profile.xoff else profile.size))
    return scope.choose("reserved bytes", rows) or 0


def alpha_of(scope: Scope, classes: Classes) -> float | None:
    """Dynamic threshold of the lossless groups."""
    rows = []
    for end, switch, port in scope.ports():
        profile = profile_of(switch, port, _data(switch, port, classes))
        if profile is not None and profile.alpha is not None:
            rows.append((end, profile.alpha))
    return scope.choose("alpha", rows)


def lossy_alpha_of(scope: Scope, queue: int) -> float | None:
    """Dynamic threshold of a lossy queue, from its egress profile."""
    rows = []
    for end, switch, port in scope.ports():
        own = port.queues.get(queue)
        profile = switch.profiles.get(own.profile or "") if own else None
        if profile is not None and profile.alpha is not None:
            rows.append((end, profile.alpha))
    return scope.choose(f"alpha of queue {queue}", rows)


def _watchdog(scope: Scope, classes: Classes) -> dict[str, Any] | None:
    """The watchdog of the lossless traffic, or None."""
    rows = []
    for end, switch, port in scope.ports():
        guarded = port.lossless if port.qos.watchdog is None else port.qos.watchdog
        dog = port.watchdog if classes.data in {queue_of(switch, port, one) for one in guarded} else None
        if port.lossless:
            own = (dog.action or "drop", dog.detection, dog.restoration) if dog and dog.detection else None
            rows.append((end, own and (*own, switch.watchdog_poll or 0)))
    chosen = scope.choose("watchdog (action, detection, restoration, poll)", rows)
    if chosen is None:
        return None
    action, detection, restoration, poll = chosen
    table = {"action": action, "detection": f"{detection} ms", "poll": f"{poll} ms"}
    return table | ({"restoration": f"{restoration} ms"} if restoration else {})


def scheduler_of(scope: Scope) -> dict[str, Any] | None:
    """The table switch.scheduler; None if no file gives one. A queue without a scheduler has weight 1."""
    rows = []
    for end, switch, port in scope.ports():
        if any(queue.scheduler for queue in port.queues.values()):
            rows.append((end, tuple(_weight(switch, port, number) for number in PRIORITIES)))
    chosen = scope.choose("weights of queues 0 to 7 (0: strict)", rows)
    if chosen is None:
        return None
    weighted = {number: weight for number, weight in enumerate(chosen) if weight}
    if not weighted:
        return {"kind": "strict"}
    return {"kind": "ets", "groups": [{"priorities": [n], "share": s} for n, s in _shares_of(weighted).items()]}


def _weight(switch: Switch, port: Port, number: int) -> int:
    queue = port.queues.get(number)
    scheduler = switch.schedulers.get(queue.scheduler or "") if queue else None
    if scheduler is None:
        return 1
    return 0 if scheduler.kind == "STRICT" else max(1, scheduler.weight)


def _shares_of(weights: dict[int, int]) -> dict[int, int]:
    """Percentages that add up to 100, at least 1 each.

    >>> _shares_of({0: 1, 1: 1, 2: 1})
    {0: 34, 1: 33, 2: 33}
    """
    total = sum(weights.values())
    shares = {number: max(1, 100 * weight // total) for number, weight in weights.items()}
    order = sorted(weights, key=lambda number: (-(100 * weights[number] % total), number))
    while (left := 100 - sum(shares.values())) != 0:
        for number in order[: abs(left)] if left > 0 else [max(shares, key=lambda n: shares[n])]:
            shares[number] += 1 if left > 0 else -1
    return shares
