"""Rules PF03x: queues must mark, early enough, and without drops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.devices.files import shown
from pauseframe.devices.model import QOS_MAPS, Place, Port, Switch, Wred
from pauseframe.lint.finding import EVERY, HOSTS, SONIC, VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.lint.rules.ends import host_links
from pauseframe.lint.subject import NO_ALPHA, best_effort_queues, group_of, held_alone, lossless_queues, queue_of, share
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Host, HostRoute
    from pauseframe.devices.read import Reading


@rule(
    "PF030",
    "ecn-without-wred",
    "https://github.com/sonic-net/sonic-buildimage/issues/4545",
    "https://github.com/sonic-net/sonic-buildimage/issues/21891",
    devices=VENDORS,
)
def check_enabled(reading: Reading) -> Iterator[Finding]:
    """A WRED profile requests ECN marks, but WRED is off for that colour: nothing is marked.

    `ecn` defines what happens to packets that WRED selects, and `wred_green_enable` lets it select green ones; its
    default is false. DCTCP then sees no congestion and fills the buffer until PFC stops it. A probability of 0 does the
    same up to the maximum threshold (a *warning*).

    Incident: sonic-buildimage#4545 and #21891: ECN was configured and nothing was marked.
    """
    for switch in reading.fabric.switches.values():
        for profile in switch.wred.values():
            wanted = ("green", "yellow", "red") if profile.ecn == "ecn_all" else profile.ecn.split("_")[1:]
            for colour in (colour for colour in wanted if colour in {"green", "yellow", "red"}):
                if colour not in profile.enabled:
                    field = f"wred_{colour}_enable"
                    yield Finding(
                        Place(switch.name, "WRED_PROFILE", profile.name, field),
                        f"ecn is {profile.ecn} and {field} is not true: no {colour} packet is marked",
                        f'"{field}": "true"',
                        severity=Severity.error if colour == "green" else Severity.warning,
                        patch=(PatchOperation("WRED_PROFILE", profile.name, field, "true"),),
                    )
            if profile.marks_green and "green" in profile.enabled and profile.drop_probability == 0:
                place = Place(switch.name, "WRED_PROFILE", profile.name, "green_drop_probability")
                yield Finding(
                    place,
                    "the probability is 0: no green packet is marked between the thresholds",
                    '"5", as in SONiC\'s template',
                    severity=Severity.warning,
                    patch=(PatchOperation(place.table, place.key, place.field, "5"),),
                )


def _pause_at(switch: Switch, port: Port, group: int) -> float | None:
    """Bytes at which a single group is paused: alpha / (1 + alpha) of the pool, or the static limit."""
    profile = switch.profiles.get(port.groups.get(group) or "")
    if profile is not None:
        return held_alone(switch, profile)
    row = switch.looked_up(port)
    pool = next((p for p in switch.pools.values() if p.direction != "egress" and "lossless" in p.name), None)
    if row is None:
        return None
    # Some platforms ship a static limit in bytes where others ship the exponent of alpha.
    if -8 <= row.threshold <= 7:
        return share(pool, 2.0**row.threshold)
    return float(min(row.threshold, pool.size) if pool and pool.size else row.threshold)


def _pool_of(switch: Switch, name: str | None) -> int | None:
    """Bytes of the pool of a profile."""
    profile = switch.profiles.get(name or "")
    pool = None if profile is None else switch.pools.get(profile.pool)
    return None if pool is None else pool.size


class _Limit(NamedTuple):
    """What a marking queue can hold: bytes, those of the whole pool, and what happens there."""

    wred: Wred
    reach: float
    pool: int | None
    what: str
    profile: str | None


def _limits(switch: Switch, port: Port) -> Iterator[_Limit]:
    """The limits of the queues that mark: lossless ones are paused by their group, others drop."""
    groups = {queue_of(switch, port, priority): group_of(switch, port, priority) for priority in sorted(port.lossless)}
    for number, queue in port.queues.items():
        wred = switch.wred.get(queue.wred or "")
        if wred is None or wred.min_threshold is None or not wred.marks_green:
            continue
        if number in groups:
            group, name = groups[number], port.groups.get(groups[number])
            reach, what = _pause_at(switch, port, group), f"a group of {shown(port.name)} is paused"
        else:
            name, profile = queue.profile, switch.profiles.get(queue.profile or "")
            empty = profile is None or profile.dynamic_th == NO_ALPHA or not port.up
            reach = None if profile is None or empty else held_alone(switch, profile)
            what = f"queue {number} of {shown(port.name)} drops"
        if reach is not None:
            yield _Limit(wred, reach, _pool_of(switch, name), what, name)


@rule(
    "PF031",
    "marks-after-pause",
    "https://github.com/sonic-net/sonic-swss/pull/4718",
    "Choudhury and Hahne, ToN 1998 (dynamic threshold: alpha / (1 + alpha) of the pool)",
    severity=Severity.warning,
)
def check_threshold(reading: Reading) -> Iterator[Finding]:
    """The marking threshold lies above what the buffer lets one sender reach: PFC or drops act before ECN.

    A group may hold alpha / (1 + alpha) of its pool before it is paused, and a lossy queue as much of the egress pool
    before it drops. If marking begins above this limit, a single port is paused or loses packets repeatedly, and its
    senders never see a mark. A maximum above the whole pool is never reached either.

    Incident: sonic-swss#4718, where the thresholds of marking and dropping were equal.
    """
    seen: set[tuple[object, ...]] = set()
    for switch, port in reading.fabric.ports():
        for wred, reach, pool, what, profile in _limits(switch, port):
            key = (switch.name, wred.name, profile)
            low, high = wred.min_threshold or 0, wred.max_threshold or 0
            late = low >= reach
            if key in seen or not (late or (pool is not None and high > pool)):
                continue
            seen.add(key)
            place = Place(switch.name, "WRED_PROFILE", wred.name, f"green_{'min' if late else 'max'}_threshold")
            if late:
                yield Finding(place, f"marks begin at {low} B, {what} at {reach:.0f} B", f"well below {reach:.0f}")
            else:
                yield Finding(
                    place,
                    f"the maximum is {high} B, the whole pool has {pool} B: marks never reach the probability of the "
                    "maximum",
                    f"below {reach:.0f}, where {what}",
                )


@rule(
    "PF032",
    "drops-in-a-lossless-queue",
    "https://github.com/sonic-net/sonic-swss/pull/4718",
    "Judd, Attaining the Promise and Avoiding the Pitfalls of TCP in the Datacenter, NSDI 2015, §7.1",
    devices=VENDORS,
)
def check_drops(reading: Reading) -> Iterator[Finding]:
    """WRED is on but does not mark: in a lossless queue it drops.

    A profile with `wred_green_enable` true and `ecn` none drops green packets above its minimum, so traffic is lost
    despite the pauses.

    Incident: sonic-swss#4718, where the thresholds of marking and dropping were equal; and Judd's data centre, where
    packets that could not be marked were dropped (NSDI 2015, §7.1).
    """
    seen: set[tuple[str, str]] = set()
    for switch, port in reading.fabric.ports():
        for number in sorted(lossless_queues(switch, port) & set(port.queues)):
            wred = switch.wred.get(port.queues[number].wred or "")
            if wred is None or "green" not in wred.enabled or wred.marks_green or (switch.name, wred.name) in seen:
                continue
            seen.add((switch.name, wred.name))
            yield Finding(
                Place(switch.name, "WRED_PROFILE", wred.name, "ecn"),
                f"WRED without marks on the lossless queue {shown(port.name)}|{number} drops its packets",
                '"ecn": "ecn_all", or no wred_profile there',
                patch=(PatchOperation("WRED_PROFILE", wred.name, "ecn", "ecn_all"),),
            )


@rule(
    "PF033",
    "no-marks-for-dctcp",
    "RFC 8257",
    "Alizadeh et al., Data Center TCP, SIGCOMM 2010, §3.1",
    severity=Severity.warning,
    devices=EVERY,
)
def check_dctcp(reading: Reading) -> Iterator[Finding]:
    """Hosts run DCTCP and its queue marks nothing: DCTCP behaves as Reno, and PFC or drops are its only brake.

    Judged are lossless queues, and the queues of the code points of routes with DCTCP, if files of hosts give them. A
    host without a rule for its DSCP sends DSCP 0 where its packet rules were collected (`nft.json`), or where other
    hosts have such rules. If no host has one, applications may set the DSCP, and a note names the hosts.

    No incident is known.
    """
    hosts = reading.fabric.hosts.values()
    yield from _without_rule(reading)
    points = {point for host in hosts for route in host.routes if route.congctl == "dctcp"
              for point in _known_points(host, route)}  # fmt: skip
    any_host = any("dctcp" in host.congestion_controls for host in hosts)
    for switch, port in reading.fabric.ports() if any_host else ():
        if switch.kind == "linux" or "QUEUE" not in switch.tables:
            continue
        lossless = lossless_queues(switch, port)
        numbers = dict.fromkeys(lossless) | {
            n: point for point in sorted(points) if (n := _queue_of_point(switch, port, *point)) is not None
        }
        for number, point in sorted(numbers.items()):
            if not _marks(switch, port, number):
                yield _unmarked_queue(switch, port, number, None if number in lossless else point)


def _unmarked_queue(switch: Switch, port: Port, number: int, point: tuple[str, int] | None) -> Finding:
    """The finding about a queue of DCTCP without marks: its map, its WRED profile, or its row is at fault."""
    queue = port.queues.get(number)
    wred = switch.wred.get(queue.wred or "") if queue else None
    at_queue = [(p.speed, q.wred) for p in switch.ports.values() if (q := p.queues.get(number)) and q.wred]
    marking = {name for name, profile in switch.wred.items() if profile.marks_green}
    if point is not None and not at_queue and any(q.wred in marking for q in port.queues.values()):
        kind, value = point
        return Finding(
            Place(switch.name, QOS_MAPS[f"{kind}_to_tc"], getattr(port.qos, f"{kind}_to_tc"), str(value)),
            f"hosts run DCTCP with {_KINDS[kind]} {value}, whose queue {number} marks nothing",
            "a class whose queue marks",
        )
    if wred is not None and point is not None:
        place = Place(switch.name, "WRED_PROFILE", wred.name, "ecn")
        marks = (PatchOperation("WRED_PROFILE", wred.name, "ecn", "ecn_all"),)
        return Finding(place, f"hosts run DCTCP, queue {number} marks nothing", '"ecn_all"', patch=marks)
    place = Place(switch.name, "QUEUE", f"{port.name}|{number}", "wred_profile")
    usual = {name for speed, name in at_queue if speed == port.speed and name in marking}
    known = sorted(usual if usual else marking)
    patch = (PatchOperation("QUEUE", place.key, place.field, known[0]),) if len(known) == 1 else ()
    instead = f'"{shown(known[0])}"' if patch else "a wred_profile with ecn_all"
    return Finding(place, "hosts run DCTCP, this queue marks nothing", instead, patch=patch)


def _known_points(host: Host, route: HostRoute) -> set[tuple[str, int]]:
    """The code points of a route, if the host's files have rules for DSCPs or the route leads into a VLAN."""
    points = _points_of(host, route)
    return points if route.source in host.code_points or all(kind == "dot1p" for kind, _ in points) else set()


def _without_rule(reading: Reading) -> Iterator[Finding]:
    """Hosts that run DCTCP without a rule for its DSCP, at ports whose queue of DSCP 0 marks nothing."""
    hosts = reading.fabric.hosts.values()
    usual = Counter(point for host in hosts for point in host.code_points.values())
    unknown, judged = set(), set()
    for link, nic, port, end in host_links(reading):
        host, far = reading.fabric.hosts[end.device], link.b if link.a == end else link.a
        switch = reading.fabric.switches[far.device]
        names = {nic.name, (host.logical(end.port) or nic).name}
        for route in host.routes:
            bare = route.congctl == "dctcp" and route.interface in names and route.source not in host.code_points
            number = _queue_of_point(switch, port, "dscp", 0) if bare else None
            if number is None or number in lossless_queues(switch, port) or _marks(switch, port, number):
                continue
            if not usual and "nft" not in host.gathered:
                unknown.update([host.name] if any(_marks(switch, port, n) for n in port.queues) else [])
            elif (host.name, route.source) not in judged:
                judged.add((host.name, route.source))
                most = f", other hosts send DSCP {min(usual, key=lambda p: (-usual[p], p))}" if usual else ""
                yield Finding(
                    Place(host.name, "nft", route.source or route.interface, "dscp"),
                    f"DCTCP without a rule for its DSCP: queue {number} of {shown(str(far))}, that of DSCP 0, marks "
                    f"nothing{most}",
                    "a DSCP whose queue marks",
                )
    if unknown:
        reading.fabric.notes.append(
            f"no file gives the DSCP of DCTCP at {counted(len(unknown), 'host')} such as {shown(min(unknown))}: by "
            "default it is 0, whose queue marks nothing (PF033 judges known ones)"
        )


def _points_of(host: Host, route: HostRoute) -> set[tuple[str, int]]:
    """The kind and value of the code points with which a host sends by a route."""
    vlan = next((vlan for vlan in host.vlans() if vlan.interface == route.interface), None)
    if vlan is not None:
        return {("dot1p", point) for point in vlan.egress.values() or (0,)}
    return {("dscp", host.code_points.get(route.source, 0))}


@rule(
    "PF035",
    "step-drops-best-effort",
    "Judd, Attaining the Promise and Avoiding the Pitfalls of TCP in the Datacenter, NSDI 2015, §7.1",
    "RFC 3168 §7 (packets that are not ECN-capable are dropped where others are marked)",
    severity=Severity.warning,
    devices=VENDORS,
)
def check_step(reading: Reading) -> Iterator[Finding]:
    """The queue of best-effort traffic (DSCP 0, 802.1p 0) marks every packet above one threshold, as DCTCP wants it.

    Above the threshold, packets that are not ECN-capable are dropped: all SYNs of hosts without ECN, and all data of
    CUBIC flows, which starve beside DCTCP. Fabrics whose hosts all use ECN (`net.ipv4.tcp_ecn` 1) are exempt.

    Incident: Judd's data centre (NSDI 2015, §7.1), where packets without ECN were dropped at queues that marked the
    others, and such hosts starved.
    """
    hosts = reading.fabric.hosts.values()
    if hosts and all(host.sysctl.get("net.ipv4.tcp_ecn") == "1" for host in hosts):
        return
    for switch, port in reading.fabric.ports():
        for number in sorted(best_effort_queues(switch, port) - lossless_queues(switch, port)):
            queue = port.queues.get(number)
            wred = switch.wred.get(queue.wred) if queue and queue.wred else None
            if wred is not None and wred.marks_green and "green" in wred.enabled and _is_step(wred):
                place = Place(switch.name, "QUEUE", f"{port.name}|{number}", "wred_profile")
                yield Finding(
                    place,
                    f"best effort uses queue {number}, which drops packets without ECN above {wred.min_threshold} B "
                    f"({shown(wred.name)})",
                    "no wred_profile, or another queue for traffic that is ECN-capable",
                    patch=(PatchOperation("QUEUE", place.key, place.field, None),),
                )


@rule(
    "PF036",
    "marks-traffic-without-ecn",
    "Judd, Attaining the Promise and Avoiding the Pitfalls of TCP in the Datacenter, NSDI 2015, §7.1",
    "RFC 3168 §7 (packets that are not ECN-capable are dropped where others are marked)",
    severity=Severity.warning,
    devices=(*SONIC, *HOSTS),
)
def check_traffic(reading: Reading) -> Iterator[Finding]:
    """A queue that marks also gets packets of hosts that ask for no ECN: it drops them where it marks others.

    Such traffic starves beside DCTCP, and even beside its like: in a simulation, two CUBIC flows through a queue that
    marks above 22.5 KB got 9.41 and 0.001 of 10 Gb/s. The rule needs the files of hosts: their TCP settings, routes,
    the code points of their addresses, and the traffic class of RoCE packets, whose two lower bits are 0 without ECN.
    PF035 finds the queue of best-effort traffic without them.

    Incident: Judd's data centre (NSDI 2015, §7.1), where packets without ECN were dropped at queues that marked the
    others, and such hosts starved.
    """
    senders: dict[tuple[str, int], set[str]] = {}
    for host in reading.fabric.hosts.values():
        for point in _without_ecn(host):
            senders.setdefault(point, set()).add(host.name)
    for switch, port in reading.fabric.ports():
        for (kind, value), names in sorted(senders.items()):
            number = _queue_of_point(switch, port, kind, value)
            queue = port.queues.get(number) if number is not None else None
            wred = switch.wred.get(queue.wred or "") if queue else None
            if wred is None or not wred.marks_green or "green" not in wred.enabled:
                continue
            if _is_step(wred) and number in best_effort_queues(switch, port) - lossless_queues(switch, port):
                continue  # rule PF035
            yield Finding(
                Place(switch.name, "QUEUE", f"{port.name}|{number}", "wred_profile"),
                f"queue {number} marks, and drops {_KINDS[kind]} {value} of {len(names)} hosts without ECN, such as "
                f"{shown(min(names))}",
                "another queue for one of the two",
            )

    yield from _cards_without_ecn(reading)


def _cards_without_ecn(reading: Reading) -> Iterator[Finding]:
    """Hosts whose RoCE packets are not ECN-capable, and get into queues that mark."""
    for host in reading.fabric.hosts.values():
        octet = host.roce_traffic_class
        if octet is None or octet & 3:
            continue
        dscp = octet >> 2
        queues = ((s, p, _queue_of_point(s, p, "dscp", dscp)) for s, p in reading.fabric.ports())
        marking = next((n for s, p, n in queues if n is not None and _marks(s, p, n)), None)
        if marking is not None:
            yield Finding(
                Place(host.name, "card", "RoCE", "traffic_class"),
                f"RoCE packets have traffic class {octet}: not ECN-capable, and queue {marking} of DSCP {dscp} marks: "
                "it drops them",
                f"{octet | 2}: ECT(0)",
            )


_KINDS = {"dscp": "DSCP", "dot1p": "802.1p"}


def _without_ecn(host: Host) -> set[tuple[str, int]]:
    """The code points with which a host's TCP sends packets that are not ECN-capable; empty if no file says."""
    asks = host.sysctl.get("net.ipv4.tcp_ecn")
    if asks not in {"0", "2"}:
        return set()
    routes = [route for form in host.forms.values() for route in form.routes] or host.routes
    capable = {(r.destination, r.table) for r in routes if r.ecn or r.congctl == "dctcp"}
    found = set()
    for route in host.routes:
        if route.congctl is not None and (route.destination, route.table) not in capable:
            found |= _points_of(host, route)
    return found


def _queue_of_point(switch: Switch, port: Port, kind: str, value: int) -> int | None:
    """The queue of a code point; None if the port has no map for it."""
    name = port.qos.dscp_to_tc if kind == "dscp" else port.qos.dot1p_to_tc
    points = switch.mapped(f"{kind}_to_tc", name) if name else None
    if points is None:
        return None
    return (switch.mapped("tc_to_queue", port.qos.tc_to_queue) or {}).get(points.get(value, 0), 0)


def _is_step(wred: Wred) -> bool:
    return wred.min_threshold is not None and wred.min_threshold == wred.max_threshold and wred.drop_probability == 100


@rule("PF034", "queue-not-set-up", "SONiC: QUEUE (wred_profile, scheduler)", severity=Severity.warning, devices=VENDORS)
def check_set_up(reading: Reading) -> Iterator[Finding]:
    """A lossless queue has no WRED profile or no scheduler, although the same queue of other ports has one.

    Without a WRED profile only this port does not mark, so PFC acts where ECN should; the same holds for a switch that
    marks nowhere among switches that do. Without a scheduler the queue has
    the hardware's default share.

    No incident is known. PF030 has incidents of missing marks.
    """
    for switch in reading.fabric.switches.values():
        if switch.kind == "linux" or "QUEUE" not in switch.tables:
            continue
        ports = [port for port in switch.ports.values() if port.lossless and port.up]
        for number in sorted({n for port in ports for n in lossless_queues(switch, port)}):
            for field in ("wred", "scheduler"):
                have = [(p.speed, name) for p in ports if (name := getattr(p.queues.get(number), field, None))]
                named = [name for _, name in have]
                lacking = [port for port in ports if getattr(port.queues.get(number), field, None) is None]
                alone = len(lacking) == 1 and (len(named) > 1 or _everywhere_else(reading, switch, number, field))
                for port in lacking if alone and named else ():
                    alike = [one for speed, one in have if speed == port.speed] or named
                    name = "wred_profile" if field == "wred" else field
                    yield Finding(
                        Place(switch.name, "QUEUE", f"{port.name}|{number}", name),
                        f"lossless queue {number} has no {name}, {len(alike)} other ports have {shown(alike[0])} there",
                        f'"{shown(alike[0])}"',
                        patch=(PatchOperation("QUEUE", f"{port.name}|{number}", name, alike[0]),),
                    )
    yield from _unmarked(reading)


def _everywhere_else(reading: Reading, own: Switch, number: int, field: str) -> bool:
    """Whether all lossless ports of the other switches, and at least two, have a WRED profile or scheduler there."""
    found = [
        getattr(port.queues.get(number), field, None)
        for switch, port in reading.fabric.ports()
        if switch is not own and port.up and "QUEUE" in switch.tables and number in lossless_queues(switch, port)
    ]
    return len(found) > 1 and None not in found


def _unmarked(reading: Reading) -> Iterator[Finding]:
    """Switches that mark in no lossless queue, although most others of the fabric do in each."""
    first: dict[str, tuple[Port, int]] = {}
    marking = 0
    for switch in reading.fabric.switches.values():
        if "QUEUE" not in switch.tables or switch.kind == "linux":
            continue
        queues = [(p, n) for p in switch.ports.values() if p.up for n in sorted(lossless_queues(switch, p))]
        marks = [_marks(switch, port, number) for port, number in queues]
        marking += bool(marks) and all(marks)
        if marks and not any(marks):
            first[switch.name] = queues[0]
    for name, (port, number) in first.items() if marking > len(first) else ():
        yield Finding(
            Place(name, "QUEUE", f"{port.name}|{number}", "wred_profile"),
            f"no lossless queue of this switch marks, {marking} other switches mark",
            "marks as at the other switches",
        )


def _marks(switch: Switch, port: Port, number: int) -> bool:
    queue = port.queues.get(number)
    wred = switch.wred.get(queue.wred) if queue is not None and queue.wred else None
    return wred is not None and wred.marks_green
