"""Rules PF01x: buffers must hold the packets that arrive after a pause."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import DEFAULT_MTU, BufferProfile, End, Fabric, Place, Port, Switch
from pauseframe.fabric.headroom import FRAME, AnnexO, annex_o
from pauseframe.lint.finding import SONIC, VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import NO_ALPHA, group_of, lossless_mtus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import Pool
    from pauseframe.devices.read import Reading

_PROFILE_NAME = re.compile(r"pg_lossless_([0-9]+)_([0-9]+)m(?:_.*)?_profile")
_IN_DOUBT = 1024
"""Default size of a lossless packet in bytes: the value that SONiC renders into LOSSLESS_TRAFFIC_PATTERN."""


def _groups(fabric: Fabric) -> Iterator[tuple[Switch, Port, int, int]]:
    """Every lossless priority as (switch, port, paused priority, priority group)."""
    for switch, port in fabric.ports():
        for priority in sorted(port.lossless):
            yield switch, port, priority, group_of(switch, port, priority)


def _place(switch: Switch, port: Port, group: int) -> Place:
    return Place(switch.name, "BUFFER_PG", port.group_rows.get(group, f"{port.name}|{group}"), "profile")


def _terms(need: AnnexO) -> str:
    total = " + ".join(f"{term.name} {term.bytes:.0f}" for term in need.terms)
    gaps = sum(term.bytes for term in need.terms) - need.total
    return f"{total} - preambles and gaps {gaps:.0f}" if gaps >= 1 else total


@rule(
    "PF010",
    "headroom-too-small",
    "IEEE 802.1Qbb Annex O; IEEE 802.3 31B.3.7",
    "https://github.com/sonic-net/sonic-buildimage/issues/11901",
    "https://github.com/sonic-net/SONiC/issues/480",
    devices=VENDORS,
)
def check_headroom(reading: Reading) -> Iterator[Finding]:
    """The headroom of a lossless group is smaller than what its link delivers after the pause: packets are lost.

    An *error* is headroom too small even for a peer that reacts at once, with the known size of lossless packets (of
    LOSSLESS_TRAFFIC_PATTERN or of the hosts; else 1024 bytes, SONiC's default). A *warning* is headroom that suffices
    for a peer that reacts at once, but not for a peer that takes all the time that IEEE 802.3 allows; the rule warns
    only if the size of lossless packets is known.

    Incident: the peers of a new generation of switches reacted more slowly than the tables assumed, and lossless
    packets were dropped until the tables grew (sonic-buildimage#11901). Headroom 0 with PFC loses a full cable of
    packets at each pause (SONiC#480).
    """
    peers = reading.fabric.peers()
    known = lossless_mtus(reading.fabric)
    by_shape: dict[tuple[object, ...], AnnexO] = {}
    seen: set[tuple[str, str, int]] = set()
    for switch, port, _, group in _groups(reading.fabric):
        have, where = switch.headroom_of(port, group)
        if not have or port.speed is None or (switch.name, port.name, group) in seen:
            continue
        seen.add((switch.name, port.name, group))
        cable = port.cable
        if cable is None:
            other = next((e for e in peers if (e.device, e.port) == (switch.name, port.name)), None)
            far = reading.fabric.port(peers[other]) if other else None
            cable = far.cable if far and far.cable is not None else 0.0
        mtu = switch.lossless_mtu or known.get(switch.name)
        behind = max(0, (port.mtu or DEFAULT_MTU) - (mtu or _IN_DOUBT))
        for reaction, severity in ((False, Severity.error), (True, Severity.warning)):
            if reaction and mtu is None:
                continue
            shape = (port.speed, cable, mtu, reaction, len(port.lossless), behind)
            if shape not in by_shape:
                frame = (mtu or _IN_DOUBT) + FRAME
                wait = behind if reaction else 0
                lossless = len(port.lossless) if reaction else 1
                by_shape[shape] = annex_o(
                    port.speed, cable, max_frame=frame, reaction=reaction, lossless=lossless, behind=wait
                )
            need = by_shape[shape]
            if have < need.total:
                why = "a peer that takes the time of 802.3" if reaction else "any peer"
                message = (
                    f"headroom is {have} B ({shown(where)}), {port.speed / 1000:g} Gb/s over {cable:g} m needs "
                    f"{need.total} B for {why}"
                )
                frame = (mtu or _IN_DOUBT) + FRAME
                safe = annex_o(port.speed, cable, max_frame=frame, lossless=len(port.lossless), behind=behind).total
                instead = f"xoff of at least {safe}, for the slowest legal peer"
                patch = _bigger(switch, port, group, safe)
                yield Finding(
                    _place(switch, port, group),
                    message,
                    instead,
                    detail=f"{mtu or _IN_DOUBT} B packets: {_terms(need)}",
                    severity=severity,
                    patch=patch,
                )
                break


def _bigger(switch: Switch, port: Port, group: int, total: int) -> tuple[PatchOperation, ...]:
    """Raises xoff of the profile, and the reserved size if that contains xoff (without a shared headroom pool)."""
    profile = switch.profiles.get(port.groups.get(group) or "")
    if profile is None:
        return ()
    wanted = -(-total // 1024) * 1024
    if not _fits(switch, profile, wanted):
        return ()
    patch: tuple[PatchOperation, ...] = (PatchOperation("BUFFER_PROFILE", profile.name, "xoff", str(wanted)),)
    pool = switch.pools.get(profile.pool)
    if profile.size >= profile.xoff > 0 and pool is not None and pool.xoff == 0:
        size = str(profile.size + wanted - profile.xoff)
        patch += (PatchOperation("BUFFER_PROFILE", profile.name, "size", size),)
    return patch


def _fits(switch: Switch, profile: BufferProfile, headroom: int) -> bool:
    """False if the pool of a profile is known to be smaller than a headroom."""
    pool = switch.pools.get(profile.pool)
    return pool is None or pool.size is None or headroom <= pool.size


@rule(
    "PF011",
    "no-headroom",
    "https://github.com/sonic-net/SONiC/issues/480",
    "SONiC: buffermgrd, pg_profile_lookup.ini",
    devices=SONIC,
)
def check_missing_headroom(reading: Reading) -> Iterator[Finding]:
    """PFC is on for a priority whose group has no headroom at all.

    The group is bound to a lossy profile, or `xoff` is 0, or nothing creates its profile: buffermgrd creates none for a
    port without a row in CABLE_LENGTH, or with "0m", nor for a row with "NULL" unless `buffer_model` is dynamic. The
    switch then pauses too late or never, and packets that the hosts consider safe are lost.

    Incident: SONiC#480, where PFC was on and headroom was 0.
    """
    for switch, port, _, group in _groups(reading.fabric):
        if switch.kind != "sonic":
            continue
        message = _lacking(switch, port, group)
        if message:
            name = _some_lossless_profile(switch, port)
            patch: tuple[PatchOperation, ...] = ()
            shares = [other for other, key in port.group_rows.items() if key == port.group_rows.get(group, "")]
            if name and set(shares) <= {group_of(switch, port, own) for own in port.lossless}:
                patch = (PatchOperation("BUFFER_PG", _place(switch, port, group).key, "profile", name),)
            yield Finding(
                _place(switch, port, group),
                f"a paused priority has no headroom: {message}",
                f"bind it to {shown(name)}" if name else "bind it to a profile with xoff",
                patch=patch,
            )


def _lacking(switch: Switch, port: Port, group: int) -> str | None:
    if group in port.groups:
        name = port.groups[group]
        if name is None:
            return _not_computed(switch, port)
        profile = switch.profiles.get(name)
        if profile is None or profile.has_headroom:
            return None
        return f"its group has profile {shown(name)} with xoff 0"
    if not (switch.whole and {"BUFFER_PG", "CABLE_LENGTH"} & switch.tables) or not port.up:
        return None
    if (other := _bound(switch, group)) is not None:
        return f"its group has no row in BUFFER_PG, as {shown(other)} has"
    return _not_made(port)


def _not_computed(switch: Switch, port: Port) -> str | None:
    """Why a row without a profile gets none."""
    if not port.up:
        return None
    if port.cable is None and _has_cables(switch):
        return "it is computed from the cable length, which is missing"
    if switch.whole and switch.model != "dynamic":
        return "its row has no profile, and only buffer_model dynamic makes one"
    return None


def _has_cables(switch: Switch) -> bool:
    """True if the switch has lengths of cables, so that a missing one is an omission."""
    return switch.whole and any(port.cable is not None for port in switch.ports.values())


def _not_made(port: Port) -> str | None:
    """The reason why buffermgrd creates no profile for a group without a row, or None."""
    if port.cable is None:
        return "its group has no profile, and without a cable length none is made for it"
    return "its group has no profile, and for a cable of 0m none is made" if port.cable == 0 else None


def _bound(switch: Switch, group: int) -> str | None:
    """A port with a row that gives this group headroom; then buffermgrd creates no profile where a row is missing."""
    for port in switch.ports.values():
        name = port.groups.get(group)
        profile = switch.profiles.get(name) if name else None
        if group in port.groups and (name is None or (profile is not None and profile.has_headroom)):
            return port.name
    return None


def _some_lossless_profile(switch: Switch, port: Port) -> str | None:
    """A profile with headroom used by the port's other groups or by similar ports."""
    for other in (port, *switch.ports.values()):
        if (other.speed, other.cable) == (port.speed, port.cable):
            for name in other.groups.values():
                profile = switch.profiles.get(name) if name else None
                if profile and profile.has_headroom:
                    return profile.name
    return None


@rule(
    "PF012",
    "headroom-falls-with-length",
    "pg_profile_lookup.ini of a shipped platform (50 Gb/s: 79872 B at 5 m, 39936 B at 40 m)",
    severity=Severity.warning,
)
def check_monotone(reading: Reading) -> Iterator[Finding]:
    """A longer cable of the same speed has less headroom than a shorter one: one of the two rows is wrong.

    Each metre adds bytes in flight in both directions.

    Incident: a `pg_profile_lookup.ini` in SONiC's own tree gives 50 Gb/s 79,872 bytes at 5 m and 39,936 at 40 m; nobody
    notices until the longer cable is congested.
    """
    judged: set[int] = set()
    for switch in reading.fabric.switches.values():
        rows = [(row.speed, row.metres, row.xoff, f"{row.speed} {row.cable}") for row in switch.lookup]
        if id(switch.lookup) not in judged:
            judged.add(id(switch.lookup))
            yield from _falls(rows, Place(switch.name, "pg_profile_lookup.ini"), switch.lookup_source)
        named = []
        for profile in switch.profiles.values():
            found = _PROFILE_NAME.fullmatch(profile.name)
            if found and profile.xoff:
                named.append((int(found[1]), float(found[2]), profile.xoff, profile.name))
        yield from _falls(named, Place(switch.name, "BUFFER_PROFILE"), "")


def _falls(rows: list[tuple[int, float, int, str]], place: Place, source: str) -> Iterator[Finding]:
    by_speed: dict[int, list[tuple[float, int, str]]] = defaultdict(list)
    for speed, metres, xoff, name in rows:
        by_speed[speed].append((metres, xoff, name))
    for of_speed in by_speed.values():
        most = (0.0, 0, "")
        for metres, xoff, name in sorted(of_speed):
            if xoff < most[1] and metres > most[0]:
                message = f"{xoff} B of headroom, less than the {most[1]} B of the shorter {shown(most[2])}"
                of_profile = place.table == "BUFFER_PROFILE"
                patch = (PatchOperation(place.table, name, "xoff", str(most[1])),) if of_profile else ()
                yield Finding(
                    Place(place.device, place.table, name, "xoff"),
                    message,
                    f"at least {most[1]}",
                    source=source,
                    patch=patch,
                )
            most = max(most, (metres, xoff, name), key=lambda row: row[1])


@rule(
    "PF013",
    "profile-of-another-link",
    "https://github.com/sonic-net/sonic-mgmt/issues/13478",
    severity=Severity.warning,
)
def check_mixed(reading: Reading) -> Iterator[Finding]:
    """A port uses a profile that was made for another speed or cable, or ports of several kinds share one profile.

    `pg_lossless_25000_5m_profile` on a 100 Gb/s port over 40 m loses packets; a profile for a faster port or longer
    cable wastes the pool. Without a cable length nobody can tell which profile a port needs.

    Incident: sonic-mgmt#13478, where several cables and speeds shared one profile.
    """
    for switch in reading.fabric.switches.values():
        shapes: dict[str, dict[tuple[int, float], str]] = defaultdict(dict)
        for port in switch.ports.values():
            judged: set[str] = set()
            paused = {group_of(switch, port, priority) for priority in port.lossless}
            for group, name in port.groups.items():
                profile = switch.profiles.get(name) if name else None
                if profile is None or not profile.has_headroom or profile.computed:
                    continue
                if port.group_rows[group] not in judged:
                    judged.add(port.group_rows[group])
                    yield from _misnamed(reading, switch, port, group)
                    if port.cable is None and group in paused and _has_cables(switch) and port.up:
                        yield _no_length(reading, switch, port, profile)
                if port.speed is not None and port.cable is not None:
                    shapes[profile.name].setdefault((port.speed, port.cable), port.name)
        for name, kinds in shapes.items():
            if len(kinds) > 1 and not _PROFILE_NAME.fullmatch(name):
                listed = ", ".join(
                    f"{shown(p)} ({s / 1000:g} Gb/s, {c:g} m)" for (s, c), p in sorted(kinds.items())[:4]
                )
                yield Finding(
                    Place(switch.name, "BUFFER_PROFILE", name),
                    f"one headroom for {len(kinds)} kinds of links: {listed}",
                    "a profile for each kind",
                )


def _no_length(reading: Reading, switch: Switch, port: Port, profile: BufferProfile) -> Finding:
    found = _PROFILE_NAME.fullmatch(profile.name)
    rows = reading.rows(switch.name, "CABLE_LENGTH")
    patch = (PatchOperation("CABLE_LENGTH", min(rows), port.name, f"{found[2]}m"),) if found and len(rows) == 1 else ()
    return Finding(
        Place(switch.name, "CABLE_LENGTH", port.name),
        f"a port that pauses has no cable length, and {shown(profile.name)} is for one",
        f"{found[2]}m, if that is its length" if found else "its length",
        patch=patch,
    )


def _misnamed(reading: Reading, switch: Switch, port: Port, group: int) -> Iterator[Finding]:
    key, name = port.group_rows[group], port.groups[group] or ""
    found = _PROFILE_NAME.fullmatch(name)
    if not found:
        return
    speed, cable = int(found[1]), float(found[2])
    wrong = []
    if port.speed is not None and port.speed != speed:
        wrong.append(f"{port.speed} Mb/s")
    if port.cable is not None and port.cable != cable:
        wrong.append(f"{port.cable:g} m")
    if wrong and port.cable == 0:
        yield Finding(
            Place(switch.name, "BUFFER_PG", key, "profile"),
            f"{shown(name)} is for {speed} Mb/s and {cable:g} m, the port has {' and '.join(wrong)}",
            "the length of the cable in CABLE_LENGTH",
        )
    elif wrong:
        right = f"pg_lossless_{port.speed or speed}_{port.cable if port.cable is not None else cable:g}m_profile"
        exists = right in switch.profiles
        made = () if exists or _in_doubt(reading, switch, port) else _made(reading, switch, port, (name, right))
        bound = (PatchOperation("BUFFER_PG", key, "profile", right),) if exists or made else ()
        yield Finding(
            Place(switch.name, "BUFFER_PG", key, "profile"),
            f"{shown(name)} is for {speed} Mb/s and {cable:g} m, the port has {' and '.join(wrong)}",
            f"profile {right}" + ("" if exists else ", which is to be made"),
            patch=(*made, *bound),
        )


def _in_doubt(reading: Reading, switch: Switch, port: Port) -> bool:
    """True if the port at the other end has another speed or cable length, so that either may be wrong."""
    far = reading.fabric.peers().get(End(switch.name, port.name))
    other = None if far is None else reading.fabric.port(far)
    return other is not None and (other.speed != port.speed or other.cable != port.cable)


def _made(reading: Reading, switch: Switch, port: Port, names: tuple[str, str]) -> tuple[PatchOperation, ...]:
    """A profile for the speed and cable of a port: a copy of another one with at least the headroom of Annex O."""
    name, right = names
    profile, mtu = switch.profiles[name], switch.lossless_mtu or _IN_DOUBT
    behind = max(0, (port.mtu or DEFAULT_MTU) - mtu)
    need = annex_o(
        port.speed or 0, port.cable or 0.0, max_frame=mtu + FRAME, lossless=len(port.lossless), behind=behind
    )
    row = dict(reading.rows(switch.name, "BUFFER_PROFILE").get(name, {}))
    xoff = max(profile.xoff, -(-need.total // 1024) * 1024)
    if not row or not _fits(switch, profile, xoff):
        return ()
    row["xoff"] = str(xoff)
    if profile.size >= profile.xoff > 0:
        row["size"] = str(profile.size + xoff - profile.xoff)
    return tuple(PatchOperation("BUFFER_PROFILE", right, field, value) for field, value in row.items())


@rule(
    "PF014",
    "pool-overbooked",
    "https://github.com/sonic-net/SONiC/blob/master/doc/qos/dynamically-headroom-calculation.md (shared headroom pool)",
    severity=Severity.warning,
)
def check_pools(reading: Reading) -> Iterator[Finding]:
    """A pool has less than its groups or queues are promised.

    An *error*: the pool or its headroom pool is smaller than the headroom of one of its groups, or it has no bytes and
    groups or queues use it. A *warning*: the reserved bytes of all groups or queues exceed the pool; the driver rejects
    the last ports that come up, or takes the bytes from elsewhere. Also a *warning*: the ingress pools and the egress
    pools, which share one memory, differ more than a hundredfold, so that one has another unit.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        yield from _once(_of_pools(switch))


def _of_pools(switch: Switch) -> Iterator[Finding]:
    reserved: dict[str, int] = defaultdict(int)
    largest: dict[str, BufferProfile] = {}
    for port in switch.ports.values():
        names = [*port.groups.values(), *(queue.profile for queue in port.queues.values())]
        for profile in (switch.profiles.get(name) for name in names if name):
            if profile is not None:
                reserved[profile.pool] += profile.size
                if profile.xoff >= largest.get(profile.pool, profile).xoff:
                    largest[profile.pool] = profile
    for name, pool in switch.pools.items():
        place = Place(switch.name, "BUFFER_POOL", name, "size")
        headroom = max(pool.xoff, largest[name].xoff if name in largest else 0)
        if pool.size is not None and pool.size < headroom:
            message = f"the pool has {pool.size} B, less than its headroom of {headroom} B"
            yield Finding(place, message, "the memory of the switch without headroom", severity=Severity.error)
        if pool.size and reserved[name] > pool.size and not _reserved_outside(switch, pool, reserved):
            yield Finding(
                place,
                f"{reserved[name]} B are reserved in a pool of {pool.size} B",
                "a larger pool, or smaller `size` in its profiles",
            )
        most = largest.get(name)
        if pool.xoff and most and most.xoff > pool.xoff:
            yield Finding(
                Place(switch.name, "BUFFER_POOL", name, "xoff"),
                f"the shared headroom is {pool.xoff} B, one group of {shown(most.name)} may need {most.xoff} B",
                f"at least {most.xoff}",
                severity=Severity.error,
                patch=(PatchOperation("BUFFER_POOL", name, "xoff", str(most.xoff)),)
                if _fits(switch, most, most.xoff)
                else (),
            )
    yield from _without_bytes(switch)
    yield from _of_another_memory(switch)


def _once(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The first finding at each place: a pool of no bytes is also smaller than its headroom."""
    seen: set[Place] = set()
    for finding in findings:
        if finding.place not in seen:
            seen.add(finding.place)
            yield finding


_MOST_APART = 100
"""Largest ratio of the pools of both directions without a warning; shipped configurations have up to 4.3."""


def _of_another_memory(switch: Switch) -> Iterator[Finding]:
    """The largest pool, if it has many times the bytes of the largest one of the other direction."""
    sizes = {side: max(((p.size or 0, p.name) for p in switch.pools.values() if p.direction == side), default=(0, ""))
             for side in ("ingress", "egress")}  # fmt: skip
    (least, _), (most, name) = sorted(sizes.values())
    if 0 < least * _MOST_APART < most:
        message = f"the pool has {most} B, the largest pool of the other direction {least} B of the same memory"
        yield Finding(Place(switch.name, "BUFFER_POOL", name, "size"), message, "the memory of the switch in bytes")


def _without_bytes(switch: Switch) -> Iterator[Finding]:
    """Pools of no bytes with profiles that should hold packets; SONiC's zero profiles should not."""
    ports = [port for port in switch.ports.values() if port.up]
    names = {name for p in ports for name in (*p.groups.values(), *(queue.profile for queue in p.queues.values()))}
    seen: set[str] = set()
    for profile in (profile for profile in switch.profiles.values() if profile.name in names and not profile.xoff):
        pool = switch.pools.get(profile.pool)
        holds = profile.static_th > 0 if profile.static_th is not None else (profile.dynamic_th or 0) > NO_ALPHA
        if pool is not None and pool.size == 0 and not pool.xoff and holds and pool.name not in seen:
            seen.add(pool.name)
            place = Place(switch.name, "BUFFER_POOL", pool.name, "size")
            message = f"the pool has no bytes, and {shown(profile.name)} uses it: its packets are dropped"
            yield Finding(place, message, "the memory of the switch", severity=Severity.error)


def _reserved_outside(switch: Switch, pool: Pool, reserved: Mapping[str, int]) -> bool:
    """True if the memory, estimated by the largest pool of the other direction, holds all pools and reserved bytes."""
    same = [other for other in switch.pools.values() if other.direction == pool.direction]
    memory = max((other.size or 0 for other in switch.pools.values() if other not in same), default=0)
    return sum((other.size or 0) + reserved[other.name] for other in same) <= memory


@rule("PF016", "no-lookup-row", "SONiC: buffermgrd, pg_profile_lookup.ini")
def check_lookup(reading: Reading) -> Iterator[Finding]:
    """`pg_profile_lookup.ini` has no row for the speed and cable length of a port that pauses.

    buffermgrd looks up exactly this pair of speed and length; a cable of 35 m does not get the row of 40 m. The group
    gets no profile and no headroom.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        if not switch.lookup or switch.model == "dynamic":
            continue
        for port in switch.ports.values():
            groups = {group_of(switch, port, priority) for priority in port.lossless}
            unknown = port.speed is None or port.cable is None
            if unknown or not groups or groups <= set(port.groups) or switch.looked_up(port):
                continue
            have = sorted({row.cable for row in switch.lookup if row.speed == port.speed}, key=len)
            instead = f"one of {', '.join(have)}" if have else f"a row for {port.speed} Mb/s"
            yield Finding(
                Place(switch.name, "CABLE_LENGTH", port.name),
                f"no row for {port.speed} Mb/s and {port.cable:g}m in {shown(switch.lookup_source)}",
                instead,
            )


@rule("PF017", "headroom-without-pause", "https://github.com/sonic-net/SONiC/issues/480", severity=Severity.warning)
def check_unused(reading: Reading) -> Iterator[Finding]:
    """A group has headroom, and no paused priority of the port uses it.

    Either `pfc_enable` lacks the priority, and supposedly lossless traffic is dropped, or memory is wasted.

    No incident is known.
    """
    for switch, port in reading.fabric.ports():
        if switch.kind != "sonic" or "PORT_QOS_MAP" not in switch.tables:
            continue
        used = {group_of(switch, port, priority) for priority in port.lossless}
        for group in sorted(set(port.groups) - used):
            profile = switch.profiles.get(port.groups[group] or "")
            if profile and profile.has_headroom:
                instead, patch = _paused_or_lossy(reading, switch, port, group)
                yield Finding(
                    _place(switch, port, group),
                    f"group {group} has headroom, priority {group} is not paused",
                    instead,
                    patch=patch,
                )


def _paused_or_lossy(
    reading: Reading, switch: Switch, port: Port, group: int
) -> tuple[str, tuple[PatchOperation, ...]]:
    """Pause the priority of a group, or, if the other end does not, the profile of this group at other ports."""
    paused = ",".join(map(str, sorted(port.lossless | {group})))
    far = reading.fabric.peers().get(End(switch.name, port.name))
    there, nic = (None, None) if far is None else (reading.fabric.port(far), reading.fabric.nic(far))
    pauses = there.lossless if there is not None else None if nic is None else nic.pfc
    lossy = Counter(
        name
        for own in switch.ports.values()
        if (name := own.groups.get(group)) and name in switch.profiles and not switch.profiles[name].has_headroom
    )
    if pauses is None or group in pauses or not lossy:
        patch = (PatchOperation("PORT_QOS_MAP", port.name, "pfc_enable", paused),)
        wanted = port.qos.key == port.name and (pauses is None or group in pauses)
        return f'pfc_enable "{paused}"', patch if wanted else ()
    place, usual = _place(switch, port, group), lossy.most_common(1)[0][0]
    return f"profile {shown(usual)}", (PatchOperation(place.table, place.key, place.field, usual),)
