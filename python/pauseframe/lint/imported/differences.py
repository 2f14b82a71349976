"""Compares a fabric with a scenario that was imported from it: the fabric is imported again, place by place."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Place
from pauseframe.imports.fabric.scenario import NOT_HELD
from pauseframe.imports.fabric.switches import SHARED_BUFFER
from pauseframe.lint.finding import Finding, PatchOperation
from pauseframe.lint.imported import restored
from pauseframe.lint.imported.facts import BUFFER, LINK, POOL, Fact, plain, size
from pauseframe.lint.imported.places import place_of, point_of, spot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import Port
    from pauseframe.lint.imported.facts import Comparison, Toml

RULES = ("headroom", "xoff", "alpha", "watchdog")
"""What a port has that pauses lossless traffic."""
PATHS = {
    "paused queues": "switch.pfc.priorities",
    "watchdog": "switch.pfc.watchdog",
    "weights": "switch.scheduler",
    "mtu of hosts": "host.mtu",
}
"""The key of the scenario with the one value of what devices and ports have, by the begin of its name."""


def differences(of: Comparison) -> Iterator[Finding]:
    """The places that have another value than the scenario."""
    gone = _gone(of)
    for node in sorted(gone):
        yield Finding(Place(node, "config_db.json"), "the design has this switch, no file does", "its files")
    design, today = of.facts
    moved = {fact.node for fact in design.keys() ^ today.keys() if fact.key == LINK}
    for fact in sorted(design.keys() | today.keys()):
        here, there = today.get(fact), design.get(fact)
        if (
            (fact.node in moved and fact.key != LINK)
            or fact.node.partition(":")[0] in gone
            or plain(here) == plain(there)
            or (fact.key == BUFFER and None in {here, there})  # the limits of queues differ
            or _is_derived(of, fact)
            or _follows(of, fact, design, today)
        ):
            continue
        if not _is_far(of, fact, here, there) and (place := place_of(of, fact)) is not None:
            patch = restored.of_fact(of, fact, place, here, there)
            yield Finding(place, _text(fact.key, here, there), "" if there is None else shown(there), patch=patch)
    yield from _downs(of)
    for key in of.now.scope.account.values:
        yield from _one_value(of, key)
    yield from _odd(of)
    yield from _mtu(of)


def _gone(of: Comparison) -> set[str]:
    """The switches of the scenario of which no file is there, but those that had none when it was imported."""
    scope = of.now.scope
    without = {node for name, node in scope.assumed.items() if f"{shown(name)}: no file of it" not in of.text}
    return {node for node in of.design["topology"]["switches"] if node not in scope.known().values()} | without


def _is_derived(of: Comparison, fact: Fact) -> bool:
    """True for the memory of a switch of another vendor: no statement has it, it follows from its ports."""
    switch = of.reading.fabric.switches.get(of.devices.get(fact.node, fact.node))
    return fact.key in {BUFFER, POOL} and switch is not None and switch.statements is not None


def _text(key: str, here: Any, there: Any) -> str:
    def said(value: Any) -> str:
        return "missing" if value is None else shown(value)

    return f"{key} {said(here)}, the design has {said(there)}"


def _follows(of: Comparison, fact: Fact, design: Mapping[Fact, Any], today: Mapping[Fact, Any]) -> bool:
    """Whether a difference only follows from another, which has its own finding."""
    if fact.key in RULES:
        return any(today.get(Fact(fact.node, key)) != design.get(Fact(fact.node, key)) for key in ("sends", "obeys"))
    if fact.key == BUFFER:
        return _is_sum(of, fact.node, design, today)
    if fact.key.startswith("transport "):
        name, _, key = fact.key.rpartition(" ")
        whole = Fact(fact.node, f"{name} preset")
        alone = (whole in design) != (whole in today)
        return of.devices.get(fact.node) not in of.reading.fabric.hosts or (alone and key != "preset")
    return False


def _is_far(of: Comparison, fact: Fact, here: Any, there: Any) -> bool:
    """Whether a value of a link differs because of its other end alone."""
    end = of.ends.get(fact.node)
    if end is None or fact.key not in {"rate", "delay", "mtu"}:
        return False
    ports = [of.reading.fabric.port(at) for at in (end, of.now.scope.far(end))]
    if fact.key == "mtu":
        return here is not None and not (ports[0] is not None and _near(ports[0].mtu, here))
    own, far = (None if port is None else _of_link(port, fact.key) for port in ports)
    return far is not None and _near(own, there) and not _near(far, there)


def _of_link(port: Port, key: str) -> float | None:
    """The rate or delay of a link by one of its ends."""
    if key == "rate":
        return None if port.speed is None else port.speed * 1e6
    return None if port.cable is None else restored.delay_of(port.cable)


def _near(value: float | None, there: Any) -> bool:
    return value is not None and math.isclose(value, size(there), rel_tol=1e-9)


def _is_sum(of: Comparison, node: str, design: Mapping[Fact, Any], today: Mapping[Fact, Any]) -> bool:
    """Whether the buffer of a switch, which is its pool and what groups have besides, differs by these groups alone."""
    ports = {fact.node for fact in today if fact.node.startswith(f"{node}:")}
    keys = [Fact(port, key) for port in ports for key in ("sends", "headroom")]
    changed = [fact for fact in keys if plain(today.get(fact)) != plain(design.get(fact))]
    reserved = [_given(of, one, "reserved bytes") for one in (of.today, of.design)]
    if any(fact.key == "sends" for fact in changed) or reserved[0] != reserved[1]:
        return True
    added = sum(size(today.get(fact)) - size(design.get(fact)) for fact in changed)
    more = size(today.get(Fact(node, BUFFER))) - size(design.get(Fact(node, BUFFER)))
    return bool(changed) and more == added * len(of.now.classes.paused)


def _downs(of: Comparison) -> Iterator[Finding]:
    """Links that are down now and were not, and the reverse."""
    before = {row["port"] for row in of.design.get("failure", []) if "port" in row}
    for cable in of.now.scope.cables:
        known = bool(before & {*cable.ports})
        if bool(cable.down) != known and not _has_other_rate(of, cable.ports):
            here = [end for end in cable.ends if end.device in of.reading.fabric.switches]
            first = next((end for end in here if cable.down.startswith(str(end))), here[0] if here else cable.ends[0])
            message = f"{shown(cable.down)}, the design has the link up" if cable.down else "up, the design has it down"
            other = cable.ends[first == cable.ends[0]]
            far = Place(other.device, "PORT", other.port) if other in here else None
            patch = _status(of, [end for end in here if end == first or cable.down], "up" if cable.down else "down")
            place = Place(first.device, "PORT", first.port)
            yield Finding(place, message, "as in the design", other=far, patch=patch)


def _status(of: Comparison, ends: list[End], status: str) -> tuple[PatchOperation, ...]:
    """Sets the ports that are shut down to "up", or those that are not to "down"."""
    rows = ((end, of.reading.rows(end.device, "PORT").get(end.port)) for end in ends)
    return tuple(
        PatchOperation("PORT", end.port, "admin_status", status, end.device)
        for end, row in rows
        if row is not None and (row.get("admin_status") == "down") == (status == "up")
    )


def _has_other_rate(of: Comparison, ports: tuple[str, str]) -> bool:
    """Whether a link is down because of a speed, which has its own finding."""
    design, today = of.facts
    rates = (Fact(port, "rate") for port in ports)
    return any(plain(today.get(fact)) != plain(design.get(fact)) for fact in rates)


def _one_value(of: Comparison, key: str) -> Iterator[Finding]:
    """Places with another value of what the scenario has one value of, but those that its head lists."""
    account = of.now.scope.account
    listed = _listed(of, key)
    there, same = _given(of, of.design, key), _given(of, of.design, key) == _given(of, of.today, key)
    if there is None and not same:  # the scenario has no such key, such as that of a hash
        return
    common = next(iter(listed.values()), ("", account.chosen[key] if same else None))[1]
    if common == account.chosen[key] and not same:
        common = None
    for (device, port), value in account.values[key].items():
        wanted = listed[device, port][0] if (device, port) in listed else common
        if value != wanted and (wanted is not None or account.chosen[key] in {value, SHARED_BUFFER}):
            text = there if wanted is None else wanted
            place = spot(of, device, port, key)
            patch = restored.of_one_value(of, place, key, port, value, str(text))
            yield Finding(place, _text(key, value, text), shown(text), patch=patch)


def _given(of: Comparison, scenario: Toml, key: str) -> Any:
    """The value of a scenario for what devices and ports have."""
    if key.startswith("queue of "):
        return dict(_at(scenario, "switch.priority_of_dscp") or []).get(point_of(of, key))
    if key.startswith("limit of queue"):
        buffer = _at(scenario, "switch.buffer") or {}
        return buffer.get("size") if buffer.get("policy") == "per_port" else None
    classes = _at(scenario, "switch.classes") or {}
    if key.startswith("alpha of queue "):
        return classes.get(key.removeprefix("alpha of ").replace(" ", ""), {}).get("alpha")
    if key.startswith("reserved"):
        return ", ".join(sorted({own["reserved"] for own in classes.values() if "reserved" in own})) or "0 B"
    if key.startswith("ecmp_hash"):
        hashes = {name: value for name, value in scenario.get("routing", {}).items() if name.startswith("hash")}
        return shown(hashes) if hashes else None
    return _at(scenario, next((path for begin, path in PATHS.items() if key.startswith(begin)), key))


def _at(scenario: Toml, path: str) -> Any:
    value: Any = scenario
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _listed(of: Comparison, key: str) -> dict[tuple[str, str], tuple[str, str]]:
    """The places that the head of the scenario lists, with their value and that of the scenario."""
    lines = sorted(line.removeprefix(f"# {NOT_HELD}  ") for line in of.text.splitlines() if line.startswith("# "))
    found = {}
    for device, port in of.now.scope.account.values[key]:
        begin = shown(f"{device}:{port} {key} " if port else f"{device} {key} ")
        at = bisect_left(lines, begin)
        if at < len(lines) and lines[at].startswith(begin):
            value, _, instead = lines[at].removeprefix(begin).partition("; the scenario has ")
            found[device, port] = value, instead
    return found


def _odd(of: Comparison) -> Iterator[Finding]:
    """Further places whose value the scenario does not have, and whose line is not in its head."""
    account = of.now.scope.account
    for odd in sorted(account.odd):
        known = odd.key in account.values or f"# {NOT_HELD}  {odd}" in of.text
        if not known and not (odd.key == "cable" and _is_as_designed(of, End(odd.device, odd.port), odd.value)):
            place, length = spot(of, odd.device, odd.port, odd.key), odd.instead.removesuffix(" m")
            known = odd.key == "cable" and length.isdecimal()
            patch = restored.neighbour(of, place, odd.instead) if odd.key.startswith("neighbour") else ()
            if known:
                patch = (PatchOperation(place.table, place.key, place.field, f"{length}m"),)
            yield Finding(place, _text(odd.key, odd.value, odd.instead), odd.instead, patch=patch)


def _is_as_designed(of: Comparison, end: End, length: str) -> bool:
    """Whether the shorter end of a link is the one that the scenario has."""
    fact = Fact(of.now.scope.port_name(end), "delay")
    return _near(restored.delay_of(float(length.removesuffix(" m"))), of.facts[0].get(fact))


def _mtu(of: Comparison) -> Iterator[Finding]:
    """The NICs with another MTU than the scenario has for all hosts, if their files tell."""
    here, there = (one.get("host", {}).get("mtu") for one in (of.today, of.design))
    for end in of.now.scope.hosts if there is not None and plain(here) != plain(there) else ():
        nic = of.reading.fabric.nic(end)
        if nic is not None and nic.mtu == size(here):
            yield Finding(Place(end.device, "mtu", nic.name), _text("mtu", here, there), shown(there))
