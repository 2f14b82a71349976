"""Rules PF03x: queues must mark, early enough, and without drops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import Place, Port, Switch, Wred
from pauseframe.lint.finding import EVERY, VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import best_effort_queues, group_of, lossless_queues, queue_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Host
    from pauseframe.devices.read import Reading


@rule(
    "PF030",
    "ecn-without-wred",
    "https://github.com/sonic-net/sonic-buildimage/issues/4545",
    "https://github.com/sonic-net/sonic-buildimage/issues/21891",
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
    row = None if profile else switch.looked_up(port)
    if profile is not None:
        pool = switch.pools.get(profile.pool)
        alpha, limit = profile.alpha, profile.static_th
    elif row is not None:
        pool = next((p for p in switch.pools.values() if p.direction != "egress" and "lossless" in p.name), None)
        # Some platforms ship a static limit in bytes where others ship the exponent of alpha.
        dynamic = -8 <= row.threshold <= 7
        alpha, limit = (2.0**row.threshold, None) if dynamic else (None, row.threshold)
    else:
        return None
    if limit is not None:
        return float(min(limit, pool.size) if pool and pool.size else limit)
    return pool.size * alpha / (1 + alpha) if pool and pool.size and alpha else None


def _pool_of(switch: Switch, port: Port, group: int) -> int | None:
    """Bytes of the pool of a group."""
    profile = switch.profiles.get(port.groups.get(group) or "")
    pool = None if profile is None else switch.pools.get(profile.pool)
    return None if pool is None else pool.size


@rule(
    "PF031",
    "marks-after-pause",
    "https://github.com/sonic-net/sonic-swss/pull/4718",
    "Choudhury and Hahne, ToN 1998 (dynamic threshold: alpha / (1 + alpha) of the pool)",
    severity=Severity.warning,
)
def check_threshold(reading: Reading) -> Iterator[Finding]:
    """The marking threshold lies above what the buffer lets one sender reach: PFC acts before ECN.

    A group may hold alpha / (1 + alpha) of its pool before it is paused. If marking begins above this limit, a single
    port is paused repeatedly and its senders never see a mark. A maximum above the whole pool is never reached either.

    Incident: sonic-swss#4718, where the thresholds of marking and dropping were equal.
    """
    seen: set[tuple[object, ...]] = set()
    for switch, port in reading.fabric.ports():
        for priority in sorted(port.lossless):
            queue = port.queues.get(queue_of(switch, port, priority))
            wred = switch.wred.get(queue.wred) if queue and queue.wred else None
            group = group_of(switch, port, priority)
            reach = _pause_at(switch, port, group)
            if wred is None or reach is None or wred.min_threshold is None or not wred.marks_green:
                continue
            key = (switch.name, wred.name, port.groups.get(group))
            pool = _pool_of(switch, port, group)
            if pool is not None and (wred.max_threshold or 0) > pool and wred.min_threshold < reach and key not in seen:
                seen.add(key)
                yield Finding(
                    Place(switch.name, "WRED_PROFILE", wred.name, "green_max_threshold"),
                    f"the maximum is {wred.max_threshold} B, the whole pool has {pool} B: marks never reach the "
                    "probability of the maximum",
                    f"below {reach:.0f}, where a group of {shown(port.name)} is paused",
                )
            if wred.min_threshold >= reach and key not in seen:
                seen.add(key)
                yield Finding(
                    Place(switch.name, "WRED_PROFILE", wred.name, "green_min_threshold"),
                    f"marks begin at {wred.min_threshold} B, a group of {shown(port.name)} is paused at {reach:.0f} B",
                    f"well below {reach:.0f}",
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
    """Hosts run DCTCP and a lossless queue marks nothing: DCTCP behaves as Reno, and PFC is its only brake.

    No incident is known.
    """
    hosts = reading.fabric.hosts.values()
    if not any("dctcp" in host.congestion_controls for host in hosts):
        return
    for switch, port in reading.fabric.ports():
        if switch.kind == "linux" or "QUEUE" not in switch.tables:
            continue
        for number in sorted(lossless_queues(switch, port)):
            queue = port.queues.get(number)
            wred = switch.wred.get(queue.wred) if queue and queue.wred else None
            if wred is None or not wred.marks_green:
                place = Place(switch.name, "QUEUE", f"{port.name}|{number}", "wred_profile")
                marking = [name for name, profile in switch.wred.items() if profile.marks_green]
                patch = (PatchOperation("QUEUE", place.key, place.field, marking[0]),) if len(marking) == 1 else ()
                yield Finding(
                    place,
                    "hosts run DCTCP, this queue marks nothing",
                    f'"{shown(marking[0])}"' if patch else "a wred_profile with ecn_all",
                    patch=patch,
                )


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
)
def check_traffic(reading: Reading) -> Iterator[Finding]:
    """A queue that marks also gets packets of hosts that ask for no ECN: it drops them where it marks others.

    Such traffic starves beside DCTCP, and even beside its like: in a simulation, two CUBIC flows through a queue that
    marks above 22.5 KB got 9.41 and 0.001 of 10 Gb/s. The rule needs the files of hosts: their TCP settings, routes,
    and the code points of their addresses. PF035 finds the queue of best-effort traffic without them.

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
            if number in best_effort_queues(switch, port) - lossless_queues(switch, port) and _is_step(wred):
                continue  # rule PF035
            yield Finding(
                Place(switch.name, "QUEUE", f"{port.name}|{number}", "wred_profile"),
                f"queue {number} marks, and drops {_KINDS[kind]} {value} of {len(names)} hosts without ECN, such as "
                f"{shown(min(names))}",
                "another queue for one of the two",
            )


_KINDS = {"dscp": "DSCP", "dot1p": "802.1p"}


def _without_ecn(host: Host) -> set[tuple[str, int]]:
    """The code points with which a host's TCP sends packets that are not ECN-capable; empty if no file says."""
    asks = host.sysctl.get("net.ipv4.tcp_ecn")
    if asks not in {"0", "2"}:
        return set()
    vlans = {vlan.interface: vlan for vlan in host.vlans()}
    routes = [route for form in host.forms.values() for route in form.routes] or host.routes
    capable = {(r.destination, r.table) for r in routes if r.ecn or r.congctl == "dctcp"}
    found = set()
    for route in host.routes:
        if route.congctl is None or (route.destination, route.table) in capable:
            continue
        vlan = vlans.get(route.interface)
        points = (vlan.egress.values() or (0,)) if vlan else (host.code_points.get(route.source, 0),)
        found |= {("dot1p" if vlan else "dscp", point) for point in points}
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
                named = [name for port in ports if (name := getattr(port.queues.get(number), field, None))]
                lacking = [port for port in ports if getattr(port.queues.get(number), field, None) is None]
                alone = len(lacking) == 1 and (len(named) > 1 or _everywhere_else(reading, switch, number, field))
                for port in lacking if alone and named else ():
                    name = "wred_profile" if field == "wred" else field
                    yield Finding(
                        Place(switch.name, "QUEUE", f"{port.name}|{number}", name),
                        f"lossless queue {number} has no {name}, {len(named)} other ports have {shown(named[0])} there",
                        f'"{shown(named[0])}"',
                        patch=(PatchOperation("QUEUE", f"{port.name}|{number}", name, named[0]),),
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
