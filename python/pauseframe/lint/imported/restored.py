"""The value of an imported scenario in the words of CONFIG_DB, where a patch can set it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pauseframe.deploy import quantities
from pauseframe.devices.files import number_in, whole_number
from pauseframe.devices.model import End, Place
from pauseframe.fabric.headroom import LIGHT
from pauseframe.lint.finding import PatchOperation
from pauseframe.lint.imported.facts import BUFFER, LINK, Fact, size
from pauseframe.lint.imported.places import point_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.devices.model import Port, Switch
    from pauseframe.lint.imported.facts import Comparison

Patch = tuple[PatchOperation, ...]
DOGS = ("action", "detection_time", "restoration_time")
"""Fields of a port in the order of the value of its watchdog; the polling interval follows."""


def of_fact(of: Comparison, fact: Fact, place: Place, here: Any, there: Any) -> Patch:
    """The patch for what a port or switch has itself."""
    if fact.key == LINK:
        return neighbour(of, place, there)
    if fact.key == BUFFER:
        return _pool(of, place, here, there)
    if fact.key.startswith("queue ") and (bound := _binding(of, fact)):
        return bound
    if fact.key in {"sends", "obeys"}:
        return _pauses(of, fact, place)
    convert = FIELDS.get((place.table, place.field))
    if place.table == "CABLE_LENGTH" and place.field and fact.key == "delay":
        convert = _metres
    try:
        value = None if convert is None else convert(quantities.number(there))
    except (ValueError, TypeError):
        return ()
    return () if value is None else (PatchOperation(place.table, place.key, place.field, value),)


def of_one_value(of: Comparison, place: Place, key: str, port: str, value: str, wanted: str) -> Patch:
    """The patch for what all devices and ports have alike in the scenario."""
    switch = of.reading.fabric.switches.get(place.device)
    own = None if switch is None else switch.ports.get(port)
    if switch is None or own is None:
        return ()
    found: Patch = ()
    if key.startswith("watchdog"):
        found = _watchdog(own, value, wanted)
    elif key.startswith("weights"):
        found = _weights(switch, own, value, wanted)
    elif key.startswith("alpha of queue "):
        found = _alpha(switch, own, int(key.rsplit(maxsplit=1)[-1]), wanted)
    elif key.startswith("queue of "):
        found = _map(switch, own, point_of(of, key), wanted)
    elif key.startswith("reserved"):
        found = _reserved(switch, place, value, wanted)
    return found


def neighbour(of: Comparison, place: Place, there: Any) -> Patch:
    """The other end of a link by the devices' own names."""
    if place.table != "DEVICE_NEIGHBOR" or not isinstance(there, str):
        return ()
    node, colon, port = there.partition(":")
    end = of.ends.get(there, End(of.devices.get(node, node), port))
    fields = (("name", end.device), ("port", end.port))
    return tuple(PatchOperation(place.table, place.key, name, text) for name, text in fields) if colon else ()


def _pool(of: Comparison, place: Place, here: Any, there: Any) -> Patch:
    """The size of a pool: the buffer of the scenario has the groups' headroom besides, which stays."""
    pool = of.reading.fabric.switches[place.device].pools.get(place.key)
    more = size(there) - size(here)
    if pool is None or pool.size is None or more != int(more) or pool.size + more <= 0:
        return ()
    return (PatchOperation(place.table, place.key, place.field, str(pool.size + int(more))),)


def _pauses(of: Comparison, fact: Fact, place: Place) -> Patch:
    """The paused priorities of a port that sends and obeys pauses in the design."""
    design = of.facts[0]
    usual = design.get(Fact(fact.node, "sends")) is True and design.get(Fact(fact.node, "obeys")) == "lossless"
    paused = ",".join(map(str, (of.design["switch"].get("pfc") or {}).get("priorities", [])))
    known = usual and paused and place.field == "pfc_enable" and place.key in of.reading.rows(place.device, place.table)
    return (PatchOperation(place.table, place.key, place.field, paused),) if known else ()


def _binding(of: Comparison, fact: Fact) -> Patch:
    """The profile with the marks of the design, if the switch has one and a queue has another."""
    end, number = of.ends.get(fact.node), fact.key.split()[1]
    port = None if end is None else of.reading.fabric.port(end)
    queue = None if port is None else port.queues.get(int(number))
    if end is None or port is None or queue is None or queue.wred is None:
        return ()
    wanted = [of.facts[0].get(Fact(fact.node, f"queue {number} {mark}")) for mark in ("min", "max", "p_max")]
    if None in wanted:
        return ()
    low, high, share = (size(value) for value in wanted)
    marks = of.reading.fabric.switches[end.device].wred.values()
    fits = [
        one.name
        for one in marks
        if one.marks_green and "green" in one.enabled
        and (one.min_threshold, one.max_threshold, one.drop_probability) == (low, high, round(100 * share))
    ]  # fmt: skip
    if len(fits) != 1 or fits[0] == queue.wred:
        return ()
    return (PatchOperation("QUEUE", f"{port.name}|{number}", "wred_profile", fits[0]),)


def _watchdog(port: Port, value: str, wanted: str) -> Patch:
    here, there = value.split(","), wanted.split(",")
    if len(here) != len(DOGS) + 1 or len(there) != len(here):
        return ()
    rows = [("PFC_WD", port.name, field) for field in DOGS] + [("PFC_WD", "GLOBAL", "POLL_INTERVAL")]
    changes = [(row, b) for row, a, b in zip(rows, here, there, strict=True) if a != b]
    known = all(text.isdecimal() or row[2] == "action" for row, text in changes)
    return tuple(PatchOperation(*row, text) for row, text in changes) if known else ()


def _weights(switch: Switch, port: Port, value: str, wanted: str) -> Patch:
    """Another scheduler for a queue if the switch has the right one, else another weight for its scheduler."""
    found: dict[PatchOperation, None] = {}
    for number, (here, text) in enumerate(zip(value.split(","), wanted.split(","), strict=False)):
        weight, queue = number_in(text, 0, 100), port.queues.get(number)
        scheduler = switch.schedulers.get(queue.scheduler or "") if queue is not None else None
        if here == text or weight is None:
            continue
        right = [
            one.name
            for one in switch.schedulers.values()
            if (one.kind == "STRICT" if weight == 0 else one.kind != "STRICT" and one.weight == weight)
        ]
        if right:
            found[PatchOperation("QUEUE", f"{port.name}|{number}", "scheduler", right[0])] = None
        elif scheduler is not None and weight == 0:
            found[PatchOperation("SCHEDULER", scheduler.name, "type", "STRICT")] = None
        elif scheduler is not None:
            kind = "DWRR" if scheduler.kind == "STRICT" else scheduler.kind
            found[PatchOperation("SCHEDULER", scheduler.name, "type", kind)] = None
            found[PatchOperation("SCHEDULER", scheduler.name, "weight", text)] = None
    return tuple(found)


def _alpha(switch: Switch, port: Port, number: int, wanted: str) -> Patch:
    """Another profile for a queue if the pool has the right one, else another exponent for its profile."""
    queue = port.queues.get(number)
    profile = switch.profiles.get(queue.profile or "") if queue is not None else None
    text = exponent(float(wanted)) if _is_number(wanted) else None
    if queue is None or profile is None or text is None:
        return ()
    alike = (one for one in switch.profiles.values() if one.pool == profile.pool and one.size == profile.size)
    right = [one.name for one in alike if one.dynamic_th == int(text) and one is not profile]
    key = f"{port.name}|{number}"
    if right:
        return (PatchOperation("BUFFER_QUEUE", key, "profile", right[0]),)
    return (PatchOperation("BUFFER_PROFILE", profile.name, "dynamic_th", text),)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _map(switch: Switch, port: Port, point: int, wanted: str) -> Patch:
    """Another class for a code point if one leads to the queue, else another queue for its class."""
    queue, points = whole_number(wanted), switch.mapped("dscp_to_tc", port.qos.dscp_to_tc)
    queues = switch.mapped("tc_to_queue", port.qos.tc_to_queue)
    if queue is None or not port.qos.dscp_to_tc or points is None or queues is None:
        return ()
    if classes := sorted((tc != queue, tc) for tc, to in queues.items() if to == queue):
        return (PatchOperation("DSCP_TO_TC_MAP", port.qos.dscp_to_tc, str(point), str(classes[0][1])),)
    if port.qos.tc_to_queue and point in points:
        return (PatchOperation("TC_TO_QUEUE_MAP", port.qos.tc_to_queue, str(points[point]), wanted),)
    return ()


def _reserved(switch: Switch, place: Place, value: str, wanted: str) -> Patch:
    """The size of a profile that has room for its headroom, or none in it."""
    profile, here, there = switch.profiles.get(place.key), whole_number(value), whole_number(wanted)
    if place.table != "BUFFER_PROFILE" or profile is None or here is None or there is None:
        return ()
    fits = profile.size - here in {0, profile.xoff} and (profile.size - here == profile.xoff or here < profile.xoff)
    return (PatchOperation(place.table, place.key, "size", str(profile.size - here + there)),) if fits else ()


def _whole(factor: float) -> Callable[[float], str | None]:
    """Converts a number by a factor to a whole one; None if it is none."""

    def text(value: float) -> str | None:
        scaled = value * factor
        return str(round(scaled)) if math.isclose(scaled, round(scaled), rel_tol=1e-9) else None

    return text


def exponent(alpha: float) -> str | None:
    """The exponent of an alpha in SONiC's range."""
    found = math.log2(alpha) if alpha > 0 else math.inf
    return str(round(found)) if found in range(-8, 8) else None


def _metres(delay: float) -> str | None:
    length = round(delay * LIGHT)
    return f"{length}m" if math.isclose(delay_of(length), delay, rel_tol=1e-9) else None


def delay_of(metres: float) -> float:
    """The delay of a cable in seconds."""
    return max(1, round(metres * 1e9 / LIGHT)) / 1e9


FIELDS: dict[tuple[str, str], Callable[[float], str | None]] = {
    ("PORT", "speed"): _whole(1e-6),
    ("PORT", "mtu"): _whole(1),
    ("BUFFER_PROFILE", "xoff"): _whole(1),
    ("BUFFER_PROFILE", "static_th"): _whole(1),
    ("BUFFER_PROFILE", "dynamic_th"): exponent,
    ("BUFFER_POOL", "xoff"): _whole(1),
    ("WRED_PROFILE", "green_min_threshold"): _whole(1),
    ("WRED_PROFILE", "green_max_threshold"): _whole(1),
    ("WRED_PROFILE", "green_drop_probability"): _whole(100),
}
"""How the value of a scenario is written into a field of CONFIG_DB."""
