"""The [switch] table of an imported scenario: PFC, buffer, scheduler and watchdog.

`Scope.choose` takes the value of the focus or of most ports. Ports and switches with other thresholds, headroom, memory
or without a watchdog have their own rows (`own.py`). Of scheduler and watchdog times the simulator has one value, and
the account lists all other places.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pauseframe.devices.model import CNP_DSCP, DEFAULT_MTU, PRIORITIES, End
from pauseframe.fabric.headroom import FRAME, annex_o
from pauseframe.imports.fabric.marks import curves_of
from pauseframe.imports.fabric.traffic import BEST_EFFORT, CNP_PRIORITY, CodePoint, marked_code_points, treatment
from pauseframe.lint.subject import group_of, lossless_queues, queue_of

if TYPE_CHECKING:
    from pauseframe.devices.model import BufferProfile, Pool, Port, Switch
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.traffic import Treatment

SHARED_BUFFER = "a shared buffer"
"""What a scenario has in place of static limits of lossy queues that it cannot hold."""
POOL = 16_000_000
"""Bytes of the pool of a switch for which no file gives them."""
MTUS = 576, 9216
"""Limits of host.mtu in bytes; a host with another one has a line in the head of the scenario."""
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
    cnp_dscp: int = CNP_DSCP

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
    cnp = scope.fabric.cnp_dscp
    best = queue(BEST_EFFORT if by_dscp else CodePoint("dot1p", 0), "best effort")
    notified = queue(CodePoint("dscp", cnp) if by_dscp else CodePoint("dot1p", CNP_PRIORITY), "CNPs")
    data = best if code is None else code.value if code.kind == "priority" else queue(code, str(code))
    if not any(_maps(p) for _, _, p in ports):
        best, notified = next((n for n in PRIORITIES if n not in paused), 0), max(PRIORITIES)
    if not by_dscp or not any(p.qos.dscp_to_tc for _, _, p in ports):
        return Classes(data, best, notified, paused, code, cnp_dscp=cnp)
    of_dscp = {0: best} | {point: queue(CodePoint("dscp", point), f"DSCP {point}") for point in _sent(scope)}
    of_dscp |= {} if code is None else {cnp: notified, code.value: data}
    return Classes(data, best, notified, paused, code, sorted(of_dscp.items()), cnp)


def _sent(scope: Scope) -> list[int]:
    """The DSCPs that hosts set; if no file tells, those that lead into queues with marks."""
    hosts = scope.fabric.hosts.values()
    own = {point for host in hosts for point in (host.roce_dscp, *host.code_points.values()) if point is not None}
    if any(host.registers for host in hosts):
        own.add(scope.fabric.cnp_dscp)
    return sorted(own if hosts else marked_code_points(scope.fabric))


def _maps(port: Port) -> bool:
    return port.qos.dscp_to_tc is not None or port.qos.dot1p_to_tc is not None


def mtu_of(scope: Scope) -> int:
    """MTU of the hosts in bytes: the largest that a file gives to a host, else what the switches let through."""
    nics = [(end, nic.mtu) for end in scope.hosts if (nic := scope.fabric.nic(end)) and nic.mtu]
    if nics:
        mtu = min(max(MTUS[0], *(size for _, size in nics)), MTUS[1])
        for end, size in nics:
            if size != mtu:
                scope.account.differs(end.device, end.port, "mtu", str(size), str(mtu))
    else:
        scope.account.assume("no file gives the MTU of a host: that of the switches' lossless traffic or ports")
        sizes = [(e, s.lossless_mtu or min(p.mtu or DEFAULT_MTU, LARGEST_HOST_MTU)) for e, s, p in scope.ports()]
        mtu = max(scope.choose("mtu of hosts", sizes, focused=False) or 0, MTUS[0])
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


def pfc_of(scope: Scope, classes: Classes) -> dict[str, Any]:
    """The table switch.pfc, without its ports."""
    table: dict[str, Any] = {"priorities": list(classes.paused)}
    rows = [(e, s, p, data_of(s, p, classes)) for e, s, p in scope.ports()]
    lossless = [(e, s, p, found) for e, s, p, found in rows if found.lossless]
    limits = [(e, one.static_th) for e, s, p, found in lossless if (one := profile_of(s, p, found)) and one.static_th]
    if (xoff := scope.choose("static_th", limits, noted=False)) is not None:
        table["xoff"] = f"{xoff} B"
    pools = _by_device([(e, pool.xoff) for e, _, _, pool in pools_of(scope, classes)])
    shared = scope.choose("shared headroom", pools, noted=False)
    if shared:
        table["headroom_pool"] = {"size": f"{shared} B"}
        for end, size in pools:
            if not size:  # other sizes are in [[switch.override]]
                scope.account.differs(end.device, "", "shared headroom", "none", f"{shared}")
    if (dog := _watchdog(scope, classes)) is not None:
        table["watchdog"] = dog
    return table


def data_of(switch: Switch, port: Port, classes: Classes) -> Treatment:
    """How a port treats the lossless traffic."""
    return treatment(switch, port, classes.code or BEST_EFFORT)


def pools_of(scope: Scope, classes: Classes) -> list[tuple[End, Switch, Port, Pool]]:
    """The ingress pool of the lossless group of each port."""
    found = []
    for end, switch, port in scope.ports():
        profile = profile_of(switch, port, data_of(switch, port, classes))
        groups = [switch.profiles.get(port.groups.get(group_of(switch, port, p)) or "") for p in sorted(port.lossless)]
        names = [one.pool for one in (profile, *groups) if one is not None and one.xoff]
        pool = switch.pools.get(names[0]) if names else _ingress(switch)
        if pool is not None and pool.size:
            found.append((end, switch, port, pool))
    return found


def _by_device(rows: list[tuple[End, int]]) -> list[tuple[End, int]]:
    """One row for each device, which has one value for all ports."""
    return [(End(device, ""), value) for device, value in {end.device: value for end, value in rows}.items()]


def pool_of(scope: Scope, device: str, classes: Classes) -> int:
    """Bytes of the ingress pool of a switch."""
    found = {end.device: pool.size for end, _, _, pool in pools_of(scope, classes)}
    return found.get(device) or POOL


def _ingress(switch: Switch) -> Pool | None:
    return next((pool for pool in switch.pools.values() if pool.direction != "egress"), None)


def reserved_of(scope: Scope, classes: Classes) -> int:
    """Reserved bytes of a lossless group besides its headroom."""
    rows = []
    for end, switch, port in scope.ports():
        profile = profile_of(switch, port, data_of(switch, port, classes))
        if profile is not None and profile.has_headroom:
            rows.append((end, profile.size - profile.xoff if profile.size >= profile.xoff else profile.size))
    return scope.choose("reserved bytes", rows) or 0


def alpha_of(scope: Scope, classes: Classes) -> float | None:
    """Dynamic threshold of the lossless groups."""
    rows = []
    for end, switch, port in scope.ports():
        profile = profile_of(switch, port, data_of(switch, port, classes))
        if profile is not None and profile.alpha is not None:
            rows.append((end, profile.alpha))
    return scope.choose("alpha", rows, noted=False)


def lossy_queues(scope: Scope, classes: Classes) -> list[int]:
    """The lossy queues for which a scenario has a class: those of its code points, and those with marks."""
    used = {classes.data, classes.best_effort, *(queue for _, queue in classes.of_dscp), *curves_of(scope)}
    return sorted(used - {*classes.paused})


def _queue_profiles(scope: Scope, queue: int) -> list[tuple[End, BufferProfile | None]]:
    """The egress profile of a queue at each port of the switches that have such profiles; None at a port without."""
    found = []
    for end, switch, port in scope.ports():
        if any(one.profile for other in switch.ports.values() for one in other.queues.values()):
            own = port.queues.get(queue)
            found.append((end, switch.profiles.get(own.profile or "") if own else None))
    return found


def lossy_alpha_of(scope: Scope, queue: int) -> float | None:
    """Dynamic threshold of a lossy queue, from its egress profile."""
    rows = [(end, None if one is None else one.alpha) for end, one in _queue_profiles(scope, queue)]
    chosen = scope.choose("alpha of queues", [(end, alpha) for end, alpha in rows if alpha is not None], noted=False)
    if chosen is not None:
        scope.hold(f"alpha of queue {queue}", rows, chosen)
    return chosen


def port_buffer_of(scope: Scope, classes: Classes, mtu: int) -> int | None:
    """Bytes of each lossy queue, if all have static limits: a buffer for each port. None for a shared buffer.

    The simulator has one size for all queues, and beside a shared buffer no static limit of a queue: other limits are
    listed. The pool must hold the limits of all ports, and the size a paused group with its limit and headroom.
    """
    found = {queue: _queue_profiles(scope, queue) for queue in lossy_queues(scope, classes)}
    limits = {q: [(end, one and one.static_th) for end, one in rows] for q, rows in found.items()}
    main = next((limits[queue] for queue in (classes.data, classes.best_effort) if queue in limits), [])
    size = scope.choose("limit of queues", [(end, limit) for end, limit in main if limit], noted=False)
    whole = not any(one is not None and not one.static_th for rows in found.values() for _, one in rows)
    if size is not None and whole and _holds_all(scope, classes, size) and _largest_group(scope, classes, mtu) <= size:
        for queue, rows in limits.items():
            scope.hold(f"limit of queue {queue}", rows, size)
        return size
    for queue, rows in limits.items():
        if any(limit for _, limit in rows):
            own = [(end, str(limit)) for end, limit in rows if limit]
            scope.hold(f"limit of queue {queue}", own, SHARED_BUFFER)
    return None


def _holds_all(scope: Scope, classes: Classes, size: int) -> bool:
    """True if the pool of each switch can hold a full queue of each port at once."""
    ports = Counter(end.device for end, _, _ in scope.ports())
    return all(pool_of(scope, device, classes) >= size * count for device, count in ports.items())


def _largest_group(scope: Scope, classes: Classes, mtu: int) -> int:
    """Most bytes that a paused group may hold with a static limit and its headroom; all of them for a dynamic one."""
    largest = 0
    for end, switch, port in scope.ports() if classes.paused else ():
        found = data_of(switch, port, classes)
        profile = profile_of(switch, port, found) if found.lossless else None
        if profile is not None and not profile.static_th:
            return sys.maxsize
        if profile is not None and profile.static_th:
            own = headroom_of(switch, port, found.group)
            if own is None:
                cable = scope.by_end[end]
                own = annex_o(cable.speed, cable.metres, max_frame=mtu + FRAME, lossless=len(classes.paused)).total
            largest = max(largest, profile.static_th + own)
    return largest


def watchdog_at(switch: Switch, port: Port, classes: Classes) -> tuple[str, int, int | None, int] | None:
    """Action, and detection, restoration and poll in ms, of the watchdog of the lossless traffic; None without one."""
    guarded = port.qos.watchdog
    if guarded is None:  # SONiC before 202205 has no pfcwd_sw_enable; since then a port without it is not watched
        known = any(other.qos.watchdog is not None for other in switch.ports.values())
        guarded = frozenset() if known else port.lossless
    dog = port.watchdog if classes.data in {queue_of(switch, port, one) for one in guarded} else None
    if dog is None or not dog.detection:
        return None
    return dog.action or "drop", dog.detection, dog.restoration, dog.poll or switch.watchdog_poll or 0


def _watchdog(scope: Scope, classes: Classes) -> dict[str, Any] | None:
    """The watchdog of most ports that have one, or None."""
    rows = [(e, own) for e, s, p in scope.ports() if p.lossless and (own := watchdog_at(s, p, classes)) is not None]
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
