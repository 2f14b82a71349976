"""Rules PF015 and PF018: queues of paused priorities drop nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import BufferProfile, Place, Port, Switch
from pauseframe.lint.finding import Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import group_of, held_alone, lossless_code_points, lossless_queues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.read import Reading


@rule("PF015", "lossless-queue-drops", "SONiC: egress_lossless_profile with static_th = pool size, or dynamic_th 7")
def check_queues(reading: Reading) -> Iterator[Finding]:
    """A queue of a paused priority has the egress profile of lossy queues, or none, or one below the headroom.

    The egress limit of a lossy profile is meant to drop packets. A lossless queue needs a profile whose limit is never
    reached, because its packets are accounted and paused at the ingress: what arrives after a pause has to fit.

    A *warning*: the egress pool is smaller than the pool of the paused groups, or the queue may hold less than half of
    that pool. Packets for one queue can fill the whole pool before their groups are paused. (Shipped limits are half of
    the pool where the memory has two halves.)

    No incident is known.
    """
    yield from _queues_without_row(reading)
    below = list(_queues_below_headroom(reading))
    yield from below
    known = {finding.place for finding in below}
    for switch in reading.fabric.switches.values():
        yield from (finding for finding in _queues_below_groups(switch) if finding.place not in known)
    for switch, port in reading.fabric.ports():
        lossless = lossless_queues(switch, port)
        lossy = {q.profile for n, q in port.queues.items() if n not in lossless and q.profile}
        for number in sorted(lossless & set(port.queues)):
            profile = switch.profiles.get(port.queues[number].profile or "")
            if profile is None or profile.name not in lossy or _never_drops(switch, profile):
                continue
            better = next((p.name for p in switch.profiles.values() if _never_drops(switch, p)), None)
            yield Finding(
                Place(switch.name, "BUFFER_QUEUE", f"{port.name}|{number}", "profile"),
                f"a lossless queue has the profile {shown(profile.name)} of lossy queues: it drops",
                f"profile {shown(better)}" if better else "a profile whose limit is the pool's size",
                patch=(PatchOperation("BUFFER_QUEUE", f"{port.name}|{number}", "profile", better),) if better else (),
            )


def _queues_below_headroom(reading: Reading) -> Iterator[Finding]:
    """Profiles and pools of lossless queues that hold less than the largest headroom of a group of their switch."""
    for switch in reading.fabric.switches.values():
        groups = {name for port in switch.ports.values() for name in port.groups.values() if name}
        headroom = max((switch.profiles[name].xoff for name in groups if name in switch.profiles), default=0)
        ports = [port for port in switch.ports.values() if port.up]
        names = {port.queues[n].profile for port in ports for n in lossless_queues(switch, port) & set(port.queues)}
        profiles = [profile for profile in switch.profiles.values() if profile.name in names]
        seen: set[tuple[str, str]] = set()
        for profile in profiles:
            pool = switch.pools.get(profile.pool)
            if pool is None or pool.direction == "ingress":
                continue
            limits = [("BUFFER_POOL", pool.name, "size", pool.size, "the memory of the switch")]
            if pool.mode == "static":
                limits.append(("BUFFER_PROFILE", profile.name, "static_th", profile.static_th, "the size of its pool"))
            for table, row, field, limit, cure in limits:
                if limit is not None and limit < headroom and (table, row) not in seen:
                    seen.add((table, row))
                    message = (
                        f"a lossless queue holds {limit} B, less than the headroom of a paused group ({headroom} B)"
                    )
                    yield Finding(Place(switch.name, table, row, field), message, cure)


def _queues_below_groups(switch: Switch) -> Iterator[Finding]:
    """Egress pools and limits of lossless queues that hold less than the pool of the paused groups."""
    ports = [port for port in switch.ports.values() if port.up]
    groups = {p.groups.get(group_of(switch, p, n)) for p in ports for n in p.lossless}
    pools = {profile.pool for name in groups if (profile := switch.profiles.get(name or "")) is not None}
    ingress = max((switch.pools[name].size or 0 for name in pools if name in switch.pools), default=0)
    lossless = {p.name: lossless_queues(switch, p) for p in ports}
    names = {p.queues[n].profile for p in ports for n in lossless[p.name] & set(p.queues)}
    names -= {q.profile for p in ports for n, q in p.queues.items() if n not in lossless[p.name]}
    seen: set[str] = set()
    for profile in (profile for profile in switch.profiles.values() if profile.name in names):
        pool, holds = switch.pools.get(profile.pool), held_alone(switch, profile)
        if pool is None or pool.direction != "egress" or not pool.size or not ingress:
            continue
        if pool.size < ingress and pool.name not in seen:
            seen.add(pool.name)
            place = Place(switch.name, "BUFFER_POOL", pool.name, "size")
            message = f"lossless queues share {pool.size} B, the paused groups {ingress} B: the queues drop first"
            yield Finding(place, message, f"at least {ingress}", severity=Severity.warning)
        elif holds is not None and 2 * holds < ingress:
            field = "static_th" if profile.static_th is not None else "dynamic_th"
            place, best = Place(switch.name, "BUFFER_PROFILE", profile.name, field), str(pool.size)
            value = best if field == "static_th" else "7"
            message = f"a lossless queue drops at {holds:.0f} B, the paused groups share {ingress} B"
            patch = (PatchOperation(place.table, place.key, field, value),)
            yield Finding(place, message, f'"{value}"', severity=Severity.warning, patch=patch)


def _queues_without_row(reading: Reading) -> Iterator[Finding]:
    """Queues of paused priorities without a row in BUFFER_QUEUE, if such queues of other ports have a row."""
    for switch in reading.fabric.switches.values():
        if "BUFFER_QUEUE" not in switch.tables or not switch.whole:
            continue
        queues = [(port.name, n, queue.profile) for port in switch.ports.values() for n, queue in port.queues.items()]
        bound = {number: (port, profile) for port, number, profile in queues if profile}
        for port in switch.ports.values():
            for number in sorted(lossless_queues(switch, port)) if port.up else ():
                queue = port.queues.get(number)
                if number in bound and (queue is None or queue.profile is None):
                    other, profile = bound[number]
                    yield Finding(
                        Place(switch.name, "BUFFER_QUEUE", f"{port.name}|{number}", "profile"),
                        f"lossless queue {number} has no profile, {shown(other)} has {shown(profile)}",
                        f"profile {shown(profile)}",
                        patch=(PatchOperation("BUFFER_QUEUE", f"{port.name}|{number}", "profile", profile),),
                    )


@rule(
    "PF018",
    "trimming",
    "SONiC: doc/packet-trimming/packet-trimming-hld.md",
    "SONiC YANG models: sonic-trimming, sonic-buffer-profile",
)
def check_trimming(reading: Reading) -> Iterator[Finding]:
    """Packet trimming is not set up, trims lossless traffic, or sends trimmed packets into a lossless queue.

    A profile with `packet_discard_action` trim cuts a packet without room to its header and forwards it.
    SWITCH_TRIMMING has the size, DSCP and queue of trimmed packets; without that row the packet is dropped. A lossless
    queue or group must never discard, so its profile must not trim. No pause slows down trimmed packets, so in a
    lossless queue they fill the buffer on which the headroom of lossless packets relies.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        trims = {name for name, profile in switch.profiles.items() if profile.trims}
        if trims and switch.whole:
            yield from _trimmed_size(switch, min(trims))
        seen: set[str] = set()
        for port in switch.ports.values():
            yield from _trims_lossless(switch, port, trims)
            for finding in _trims_into_lossless(switch, port) if trims else ():
                if finding.message not in seen:
                    seen.add(finding.message)
                    yield finding


def _trimmed_size(switch: Switch, profile: str) -> Iterator[Finding]:
    if switch.trimming is None or not switch.trimming.size:
        missing = "SWITCH_TRIMMING has no row GLOBAL" if switch.trimming is None else "it has no size"
        yield Finding(
            Place(switch.name, "SWITCH_TRIMMING", "GLOBAL", "size"),
            f"profile {shown(profile)} trims, and {missing}: packets are dropped",
            '"size", "dscp_value" and "queue_index" of a lossy queue',
        )


def _trims_lossless(switch: Switch, port: Port, trims: set[str]) -> Iterator[Finding]:
    groups = {group_of(switch, port, priority) for priority in port.lossless}
    bound = [("BUFFER_PG", port.group_rows.get(n, f"{port.name}|{n}"), port.groups.get(n)) for n in sorted(groups)]
    bound += [
        ("BUFFER_QUEUE", f"{port.name}|{n}", port.queues[n].profile)
        for n in sorted(lossless_queues(switch, port) & set(port.queues))
    ]
    for table, key, name in dict.fromkeys(bound):
        if name in trims:
            yield Finding(
                Place(switch.name, table, key, "profile"),
                f"{shown(name)} trims packets of a lossless priority",
                "packet_discard_action drop in this profile, or another profile",
                patch=(PatchOperation("BUFFER_PROFILE", name or "", "packet_discard_action", "drop"),),
            )


def _trims_into_lossless(switch: Switch, port: Port) -> Iterator[Finding]:
    set_up = switch.trimming
    if set_up is None or not port.lossless:
        return
    place, lossless = Place(switch.name, "SWITCH_TRIMMING", "GLOBAL", "queue_index"), lossless_queues(switch, port)
    if set_up.queue in lossless:
        yield Finding(place, f"trimmed packets go to queue {set_up.queue}, which is lossless", "a lossy queue")
    queues = switch.mapped("tc_to_queue", port.qos.tc_to_queue) or {}
    if set_up.queue is None and set_up.tc is not None and queues.get(set_up.tc) in lossless:
        message = f"trimmed packets get class {set_up.tc}, whose queue {queues[set_up.tc]} is lossless"
        yield Finding(replace(place, field="tc_value"), message, "a class of a lossy queue")
    points = lossless_code_points(switch, port, "dscp_to_tc")
    if set_up.dscp is not None and points and set_up.dscp in points:
        message = f"trimmed packets get DSCP {set_up.dscp}, which the next switch puts into a lossless class"
        yield Finding(replace(place, field="dscp_value"), message, "a DSCP of a lossy class")


def _never_drops(switch: Switch, profile: BufferProfile) -> bool:
    pool = switch.pools.get(profile.pool)
    if pool is None or pool.direction == "ingress":
        return False
    if profile.static_th is not None and pool.size:
        return profile.static_th >= pool.size
    return profile.dynamic_th == 7
