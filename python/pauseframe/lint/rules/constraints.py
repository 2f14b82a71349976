"""PF003: the values of a CONFIG_DB must not contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown, whole_number
from pauseframe.devices.model import DEFAULT_MTU, FASTEST_LANE, Place
from pauseframe.lint.finding import VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pauseframe.devices.model import Switch
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb

YANG = "SONiC YANG models: sonic-net/sonic-buildimage, src/sonic-yang-models"
RATES = {
    10,
    100,
    1000,
    2500,
    5000,
    10_000,
    20_000,
    25_000,
    40_000,
    50_000,
    100_000,
    200_000,
    400_000,
    800_000,
    1_600_000,
}
"""Mb/s of Ethernet (IEEE 802.3), and 20 Gb/s of some switches."""
SMALLEST = 1000
"""Bytes below which a threshold of WRED is less than one full packet, and probably in KB."""
LARGEST = 2**32 - 1
"""Bytes of the largest threshold of WRED (SAI: sai_uint32_t)."""
_INNER_ROLES = {"Int", "Inb", "Rec", "Dpc"}
"""Roles of ports that no cable leaves; they have other rates."""


@rule("PF003", "constraint", YANG, devices=VENDORS)
def check_constraints(reading: Reading) -> Iterator[Finding]:
    """Two values, each valid alone, contradict each other.

    Examples: a maximum below its minimum, a peak rate below the committed one, a watchdog with a detection time below
    its polling interval, a port untagged in two VLANs, more Mb/s than the lanes of a port carry, a range of queues
    that begins above its end. SONiC's models reject most such values; older images without validation handle each case
    differently. A *warning*: a speed that Ethernet does not have, a pool without a size, a lossless profile that pauses
    and resumes at one level, or a threshold of WRED below one packet or beyond the 32 bits of a chip's register.

    No incident is known.
    """
    for device, database in reading.databases.items():
        yield from _wred(device, database)
        yield from _schedulers(device, database)
        yield from _watchdogs(device, database)
        yield from _pools(device, database)
        yield from _modes(device, database)
        yield from _resumes(device, database)
        yield from _overlaps(device, database)
        yield from _tunnels(device, database)
        yield from _replay_buffers(device, database)
        yield from _directions(device, database)
        yield from _lanes(device, database)
        yield from _lane_speeds(device, database)
        yield from _vlans(device, database)
        yield from _domains(device, database)
        yield from _loads(device, database)
    for switch in reading.fabric.switches.values():
        if switch.statements is not None:
            yield from _other_vendors(switch)


def _further(device: str, table: str, rows: Iterable[str], what: str) -> Iterator[Finding]:
    """Rows of a table that may have one, after its first."""
    names = list(rows)
    for key in names[1:]:
        message = f"a switch has one {what}; {shown(names[0])} is here too"
        yield Finding(Place(device, table, key), message, "one of them")


def _domains(device: str, database: ConfigDb) -> Iterator[Finding]:
    """One MCLAG domain, whose session survives three lost keepalives."""
    rows = database.rows("MCLAG_DOMAIN")
    yield from _further(device, "MCLAG_DOMAIN", rows, "domain")
    for key, row in rows.items():
        alive, limit = _number(row, "keepalive_interval") or 1, _number(row, "session_timeout") or 30
        if 3 * alive > limit:
            patch = (PatchOperation("MCLAG_DOMAIN", key, "session_timeout", str(3 * alive)),)
            place = Place(device, "MCLAG_DOMAIN", key, "session_timeout")
            message = f"session_timeout {limit} s is below three keepalive intervals of {alive} s"
            yield Finding(place, message, f"at least {3 * alive}", patch=patch)


def _loads(device: str, database: ConfigDb) -> Iterator[Finding]:
    """One ARS profile, whose ranges of loads are not empty (SAI_ARS_PROFILE_ATTR_*_RANGE)."""
    rows = database.rows("ARS_PROFILE")
    yield from _further(device, "ARS_PROFILE", rows, "profile")
    for key, row in rows.items():
        for kind in ("past", "future", "current"):
            low, high = (_number(row, f"{kind}_load_{which}_value") for which in ("min", "max"))
            if low is not None and high is not None and high < low:
                place = Place(device, "ARS_PROFILE", key, f"{kind}_load_max_value")
                yield Finding(
                    place, f"the maximum of the {kind} load is {high}, below the minimum {low}", f"above {low}"
                )


def _directions(device: str, database: ConfigDb) -> Iterator[Finding]:
    """A priority group needs a profile of an ingress pool, a queue one of an egress pool."""
    pools, profiles = database.rows("BUFFER_POOL"), database.rows("BUFFER_PROFILE")
    for table, wanted in (("BUFFER_PG", "ingress"), ("BUFFER_QUEUE", "egress")):
        for key, row in database.rows(table).items():
            profile = profiles.get(row.get("profile", ""), {})
            kind = pools.get(profile.get("pool", ""), {}).get("type", wanted)
            if kind not in {wanted, "both"}:
                place = Place(device, table, key, "profile")
                message = f"profile {shown(row['profile'])} takes from an {shown(kind)} pool: it needs an {wanted} pool"
                yield Finding(place, message, f"a profile of an {wanted} pool")


def _lanes(device: str, database: ConfigDb) -> Iterator[Finding]:
    """A lane, an alias or an index may belong to only one port; a file with lanes has those of all its ports."""
    named = any("lanes" in row for row in database.rows("PORT").values()) and database.whole
    for key, row in database.rows("PORT").items():
        place, lanes = Place(device, "PORT", key, "lanes"), row.get("lanes", "" if named else None)
        if lanes is not None and not lanes.strip(" ,"):
            yield Finding(place, "no lanes: SONiC creates no such port", "the lanes of the platform's port_config.ini")
        elif lanes is not None and not all(lane.strip().isdecimal() for lane in lanes.split(",")):
            message = f"lanes {shown(lanes)} are no numbers: SONiC creates no such port"
            yield Finding(place, message, "the lanes of the platform's port_config.ini")
    for name in ("lanes", "alias"):
        owner: dict[str, str] = {}
        for key, row in database.rows("PORT").items():
            for item in filter(None, row.get(name, "").split(",")):
                if owner.setdefault(item, key) != key:
                    place = Place(device, "PORT", key, name)
                    message = f"{name} {shown(item)} also belongs to {shown(owner[item])}"
                    yield Finding(place, message, "the lanes and aliases of the platform's port_config.ini")


def _lane_speeds(device: str, database: ConfigDb) -> Iterator[Finding]:
    """A speed is a rate of Ethernet, and no lane is faster than those of 1.6 Tb/s (IEEE 802.3dj)."""
    for key, row in database.rows("PORT").items():
        if row.get("role") in _INNER_ROLES:
            continue
        speed, lanes = _number(row, "speed"), len([lane for lane in row.get("lanes", "").split(",") if lane])
        if speed is not None and lanes and speed > FASTEST_LANE * lanes:
            place = Place(device, "PORT", key, "speed")
            message = f"{speed} Mb/s over {counted(lanes, 'lane')}: a lane carries at most {FASTEST_LANE} Mb/s"
            yield Finding(place, message, "the lanes and speeds of the platform's port_config.ini")
        elif speed is not None and speed not in RATES and 0 < speed <= max(RATES):
            place = Place(device, "PORT", key, "speed")
            message = f"{speed} Mb/s is no rate of Ethernet"
            yield Finding(place, message, "a rate of the port's optics and cable", severity=Severity.warning)


def _number(row: Mapping[str, str], name: str) -> int | None:
    return whole_number(row.get(name))


def _thresholds(device: str, key: str, row: Mapping[str, str]) -> Iterator[Finding]:
    """The thresholds of a colour that WRED selects: SAI takes 0 for a missing one, and kilobytes are a mistake."""
    for colour in ("green", "yellow", "red"):
        names = f"{colour}_min_threshold", f"{colour}_max_threshold"
        for name in names if row.keys() & {*names} else ():
            place, value = Place(device, "WRED_PROFILE", key, name), _number(row, name)
            if row.get(f"wred_{colour}_enable") != "true":
                continue
            if name not in row:
                message = f"{name} is missing, and wred_{colour}_enable is true: SAI takes 0"
                yield Finding(place, message, f"{name} in bytes", severity=Severity.warning)
            elif value is not None and not SMALLEST <= value <= LARGEST:
                yield _unlikely(place, value)


def _other_vendors(switch: Switch) -> Iterator[Finding]:
    """The thresholds and times of a switch without CONFIG_DB."""
    for wred in switch.wred.values():
        low, high = wred.min_threshold, wred.max_threshold
        place = Place(switch.name, "WRED_PROFILE", wred.name, "green_min_threshold")
        if low is not None and high is not None and high < low:
            yield Finding(place, f"the maximum is {high}, below the minimum {low}", f"a maximum of at least {low}")
        wrong = [value for value in (low, high) if value is not None and not SMALLEST <= value <= LARGEST]
        if wrong and "green" in wred.enabled:
            yield _unlikely(place, wrong[0])
    for port in switch.ports.values():
        dog, poll = port.watchdog, switch.watchdog_poll
        if dog is not None and dog.poll is not None:
            poll = dog.poll
        times = (("detection_time", dog.detection), ("restoration_time", dog.restoration)) if dog else ()
        for name, time in times:
            if time and poll and time < poll:
                message = f"{name} is {time} ms, below the polling interval of {poll} ms: it cannot be kept"
                yield Finding(Place(switch.name, "PFC_WD", port.name, name), message, f"at least {poll} ms")


def _unlikely(place: Place, value: int) -> Finding:
    """The finding about a threshold of WRED that is no size of a queue."""
    what = "less than one full packet" if value < SMALLEST else "beyond the 32 bits of a chip's register"
    return Finding(
        place, f"{place.field} is {value} B, {what}", "a size in bytes, not in KB", severity=Severity.warning
    )


def _wred(device: str, database: ConfigDb) -> Iterator[Finding]:
    for key, row in database.rows("WRED_PROFILE").items():
        yield from _thresholds(device, key, row)
        for colour in ("green", "yellow", "red"):
            low, high = (_number(row, f"{colour}_{which}_threshold") for which in ("min", "max"))
            if high is not None and low is not None and high < low:
                place = Place(device, "WRED_PROFILE", key, f"{colour}_max_threshold")
                message = f"the maximum of {colour} is {high}, below the minimum {low}"
                patch = (PatchOperation(place.table, key, place.field, str(low)),)
                yield Finding(place, message, f"at least {low}", patch=patch)


def _schedulers(device: str, database: ConfigDb) -> Iterator[Finding]:
    for key, row in database.rows("SCHEDULER").items():
        cir, pir, cbs, pbs = (_number(row, name) for name in ("cir", "pir", "cbs", "pbs"))
        wrong = [
            ("pir", pir is not None and pir < (cir or 0), f"pir {pir} is below cir {cir}", cir),
            ("cbs", cbs is not None and not cir, "cbs needs a cir above 0", None),
            ("pbs", pbs is not None and not pir, "pbs needs a pir above 0", None),
            ("pbs", pbs is not None and pbs < (cbs or 0), f"pbs {pbs} is below cbs {cbs}", cbs),
        ]
        for name, is_wrong, message, least in wrong:
            if is_wrong:
                patch = (PatchOperation("SCHEDULER", key, name, None if least is None else str(least)),)
                instead = f"no {name}" if least is None else f"at least {least}"
                yield Finding(Place(device, "SCHEDULER", key, name), message, instead, patch=patch)


def _watchdogs(device: str, database: ConfigDb) -> Iterator[Finding]:
    rows = database.rows("PFC_WD")
    poll = _number(rows.get("GLOBAL", {}), "POLL_INTERVAL")
    for key, row in rows.items():
        place = Place(device, "PFC_WD", key)
        if key == "GLOBAL":
            for name in ("action", "detection_time", "restoration_time"):
                if name in row:
                    patch = (PatchOperation("PFC_WD", key, name, None),)
                    yield Finding(place, f"{name} belongs to a port, not to GLOBAL", "remove it", patch=patch)
            continue
        if "POLL_INTERVAL" in row:
            patch = (PatchOperation("PFC_WD", key, "POLL_INTERVAL", None),)
            yield Finding(place, "POLL_INTERVAL belongs to GLOBAL, not to a port", "remove it", patch=patch)
        for name in ("detection_time", "restoration_time"):
            time = _number(row, name)
            if poll is not None and time is not None and time < poll:
                message = f"{name} is {time} ms, below the POLL_INTERVAL of {poll} ms: it cannot be kept"
                yield Finding(
                    Place(device, "PFC_WD", key, name),
                    message,
                    f"at least {poll}",
                    patch=(PatchOperation("PFC_WD", key, name, str(poll)),),
                )


def _pools(device: str, database: ConfigDb) -> Iterator[Finding]:
    model = database.rows("DEVICE_METADATA").get("localhost", {}).get("buffer_model")
    sized = any("size" in row for row in database.rows("BUFFER_POOL").values())
    for key, row in database.rows("BUFFER_POOL").items():
        place = Place(device, "BUFFER_POOL", key, "percentage")
        if "percentage" in row and "size" in row:
            yield Finding(place, "percentage and size exclude each other", "keep one of them")
        elif "percentage" in row and model != "dynamic" and database.whole:
            yield Finding(place, "a percentage needs DEVICE_METADATA localhost buffer_model dynamic")
        elif "size" not in row and sized and model != "dynamic" and database.whole:
            message = "size is missing: only buffer_model dynamic computes it, and SAI creates no pool without"
            yield Finding(replace(place, field="size"), message, "the memory of the switch", severity=Severity.warning)
    limited = any(row.keys() & {"static_th", "dynamic_th"} for row in database.rows("BUFFER_PROFILE").values())
    for key, row in database.rows("BUFFER_PROFILE").items():
        if "static_th" in row and "dynamic_th" in row:
            mode = database.rows("BUFFER_POOL").get(row.get("pool", ""), {}).get("mode")
            wrong = {"static": "dynamic_th", "dynamic": "static_th"}.get(mode or "")
            patch = (PatchOperation("BUFFER_PROFILE", key, wrong, None),) if wrong else ()
            place = Place(device, "BUFFER_PROFILE", key, "static_th")
            instead = f"remove {wrong}: the pool is {mode}" if wrong else "keep one of them"
            yield Finding(place, "static_th and dynamic_th exclude each other", instead, patch=patch)
        elif limited and not row.keys() & {"static_th", "dynamic_th", "headroom_type"}:
            place = Place(device, "BUFFER_PROFILE", key, "dynamic_th")
            message = "neither dynamic_th nor static_th: the profile has no limit, and SAI creates none without"
            yield Finding(place, message, "the threshold of the platform's template", severity=Severity.warning)


def _modes(device: str, database: ConfigDb) -> Iterator[Finding]:
    """Profiles of an ingress pool in static mode have limits in bytes; shipped files have alphas in egress pools."""
    pools = database.rows("BUFFER_POOL")
    for key, row in database.rows("BUFFER_PROFILE").items():
        mode = pools.get(row.get("pool", ""), {}).get("mode")
        kind = pools.get(row.get("pool", ""), {}).get("type")
        if mode == "static" and kind != "egress" and "dynamic_th" in row and "static_th" not in row:
            place = Place(device, "BUFFER_PROFILE", key, "dynamic_th")
            message = f"dynamic_th, and pool {shown(row['pool'])} is in mode static: its limit is a number of bytes"
            yield Finding(place, message, "static_th, or mode dynamic", severity=Severity.warning)


def _resumes(device: str, database: ConfigDb) -> Iterator[Finding]:
    """A paused group resumes below its limit: at `xon`, or `xon_offset` below the limit (SAI buffer profile)."""
    pools = database.rows("BUFFER_POOL")
    for key, row in database.rows("BUFFER_PROFILE").items():
        offset, room = _number(row, "xon_offset"), _number(pools.get(row.get("pool", ""), {}), "size")
        for name, value in (("xon_offset", offset), ("xon", _number(row, "xon"))):
            if value is not None and room is not None and value >= room > 0:
                place = Place(device, "BUFFER_PROFILE", key, name)
                message = f"{name} {value} is not below the {room} bytes of pool {shown(row['pool'])}"
                yield Finding(place, message, "some frames: a paused group resumes that far below its limit")
        if (_number(row, "xoff") or 0) > 0 and not _number(row, "xon") and not _number(row, "xon_offset"):
            place = Place(device, "BUFFER_PROFILE", key, "xon_offset")
            message = "xoff without xon and xon_offset: the group pauses and resumes at one level, with each packet"
            yield Finding(place, message, "at least a frame", severity=Severity.warning)


def _overlaps(device: str, database: ConfigDb) -> Iterator[Finding]:
    """Two rows of one port must not have the same group or queue."""
    for table in ("BUFFER_PG", "BUFFER_QUEUE", "QUEUE"):
        owner: dict[tuple[str, int], str] = {}
        for key in database.rows(table):
            port, _, numbers = key.rpartition("|")
            first, _, last = numbers.partition("-")
            low = whole_number(first)
            high = whole_number(last.rpartition("-")[2]) if last else low
            if low is not None and high is not None and low > high:
                message = f"the range {numbers} begins above its end, so the row counts for nothing"
                yield Finding(Place(device, table, key), message, f"{high}-{low}")
            for number in range(low or 0, min(high, 15) + 1) if low is not None and high is not None else ():
                if owner.setdefault((port, number), key) != key:
                    message = f"{number} is also in the row {shown(owner[port, number])}: the last one read counts"
                    yield Finding(Place(device, table, key), message, "one row for each number")
                    break


def _tunnels(device: str, database: ConfigDb) -> Iterator[Finding]:
    for key, row in database.rows("TUNNEL").items():
        ends = [row[name] for name in ("src_ip", "dst_ip") if name in row]
        if len({":" in address for address in ends}) > 1:
            place = Place(device, "TUNNEL", key, "src_ip")
            yield Finding(place, f"{' and '.join(map(shown, ends))} are IPv4 and IPv6", "two addresses of one version")


def _replay_buffers(device: str, database: ConfigDb) -> Iterator[Finding]:
    """A replay buffer of link-layer retry holds at least one frame of the largest port MTU."""
    largest = max((_number(row, "mtu") or DEFAULT_MTU for row in database.rows("PORT").values()), default=0)
    for key, row in database.rows("LLR_PROFILE").items():
        size = _number(row, "max_outstanding_bytes")
        if size is not None and 0 < size < largest:
            place = Place(device, "LLR_PROFILE", key, "max_outstanding_bytes")
            yield Finding(
                place, f"{size} B may be outstanding, less than a frame of {largest} B", f"at least {largest}"
            )


def _vlans(device: str, database: ConfigDb) -> Iterator[Finding]:
    for key, row in database.rows("VLAN").items():
        number = row.get("vlanid")
        if number is not None and key.removeprefix("Vlan") != number:
            place = Place(device, "VLAN", key, "vlanid")
            yield Finding(
                place,
                f"vlanid is {shown(number)}, the name says {shown(key)}",
                patch=(PatchOperation("VLAN", key, "vlanid", key.removeprefix("Vlan")),),
            )
    yield from _members(device, database)
    sag = database.rows("SAG").get("GLOBAL", {})
    for key, row in database.rows("VLAN_INTERFACE").items():
        prefix, family = key.partition("|")[2], row.get("family")
        if family in {"IPv4", "IPv6"} and prefix and (":" in prefix) != (family == "IPv6"):
            yield Finding(Place(device, "VLAN_INTERFACE", key, "family"), f"family {family} of {shown(prefix)}")
        if row.get("static_anycast_gateway", "").lower() == "true" and "gateway_mac" not in sag:
            place = Place(device, "VLAN_INTERFACE", key, "static_anycast_gateway")
            yield Finding(place, "it needs SAG GLOBAL gateway_mac")


def _members(device: str, database: ConfigDb) -> Iterator[Finding]:
    yield from _channel_members(device, database)
    in_channel = {key.partition("|")[2] for key in database.rows("PORTCHANNEL_MEMBER")}
    in_channel |= {row.get("port", "") for row in database.rows("PORTCHANNEL_MEMBER").values()} - {""}
    mirrored = {row.get("dst_port") for row in database.rows("MIRROR_SESSION").values()}
    routed = {key for key in database.rows("INTERFACE") if "|" not in key}
    untagged: dict[str, str] = {}
    for key, row in database.rows("VLAN_MEMBER").items():
        vlan, _, port = key.partition("|")
        place = Place(device, "VLAN_MEMBER", key)
        for ports, what in (
            (in_channel, "a member of a port channel"),
            (mirrored, "where a mirror session sends to"),
            (routed, "a router interface"),
        ):
            if port in ports:
                yield Finding(place, f"{shown(port)} is {what}: it cannot be in a VLAN")
        if row.get("tagging_mode") == "untagged":
            if port in untagged:
                yield Finding(
                    place, f"{shown(port)} is untagged in {shown(untagged[port])} already", "tag it in one of them"
                )
            untagged.setdefault(port, vlan)


def _channel_members(device: str, database: ConfigDb) -> Iterator[Finding]:
    """A port is in at most one channel, and a member has no addresses."""
    channel_of: dict[str, str] = {}
    for key in database.rows("PORTCHANNEL_MEMBER"):
        channel, _, port = key.partition("|")
        place = Place(device, "PORTCHANNEL_MEMBER", key)
        if channel_of.setdefault(port, channel) != channel:
            message = f"{shown(port)} is a member of {shown(channel_of[port])} already"
            yield Finding(place, message, "remove it from one of the channels")
        if port in database.rows("INTERFACE") or any(k.startswith(f"{port}|") for k in database.rows("INTERFACE")):
            message = f"{shown(port)} is a router interface: it cannot be a member of {shown(channel)}"
            yield Finding(place, message, f"remove {shown(port)} from INTERFACE; addresses belong to the channel")
