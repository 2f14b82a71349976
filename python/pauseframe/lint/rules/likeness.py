"""Rule PF090: no device or port may differ from all similar ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import QOS_MAPS, Place
from pauseframe.lint.finding import HOSTS, SONIC, Finding, PatchOperation, Severity, rule
from pauseframe.lint.rules.hosts import differing_forms, facts_of
from pauseframe.lint.usual import ITS_OWN, OF_PORTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pauseframe.devices.model import Port, Switch
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb

MOST_ODD = 1
"""Maximum number of differing devices or ports: if two agree, the difference may be intended."""
MOST_FIELDS = 2
"""Maximum number of fields in which an edited port differs from the others."""
FEWEST = 4
"""Minimum number of similar devices or ports, including the differing one."""
_NAMED = (
    "BUFFER_PROFILE",
    "BUFFER_POOL",
    "WRED_PROFILE",
    "SCHEDULER",
    *QOS_MAPS.values(),
    "LOSSLESS_TRAFFIC_PATTERN",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "SWITCH_TRIMMING",
    "SWITCH_HASH",
    "VLAN",
)
"""Tables whose rows should agree between similar switches."""
_FIXED = {"SCHEDULER", "WRED_PROFILE", "BUFFER_PROFILE", "BUFFER_POOL"}
"""Tables in which a field that one row has alone changes what the row does."""
_OF_HOSTS = {"sysctl", "route", "card", "link", "dcb", "offload", "nft", "bond", "rule"}
"""Values of hosts that have no addresses, by the tables of `facts_of`."""
_BY_KEY = {"sysctl", "card"}
"""Those whose rows have a name; of others, the values of all rows are compared."""
_OF_DOGS = {"action", "detection_time", "restoration_time"}
FEWEST_SWITCHES = 3
"""Minimum number of switches with ports whose queues are compared in the whole fabric."""


@rule("PF090", "unlike-its-like", "https://github.com/sonic-net/SONiC/wiki (configurations come from templates)",
      severity=Severity.warning, devices=(*SONIC, *HOSTS))  # fmt: skip
def check_likeness(reading: Reading) -> Iterator[Finding]:
    """One switch, port or host has another value than all similar ones: a typing mistake, or an incomplete change.

    Switches are similar if model, role and the speeds of their ports are equal; ports, if they are on one switch, have
    one speed and cable, and lead to the same kind of device; hosts, if they have as many ports, VLANs and routes. At
    least four similar devices or ports must exist, and exactly one of them must differ, or lack a row for a group or
    queue that the others have. Of hosts, addresses and names are not compared. The profiles of
    a queue are also compared among all ports of the fabric with one speed that lead to switches, or that do not, and
    the times of the watchdog among all ports.

    No incident is known.
    """
    seen: dict[Place, Finding] = {}
    for finding in _unlike(reading):
        seen.setdefault(finding.place, finding)
    yield from seen.values()


def _unlike(reading: Reading) -> Iterator[Finding]:
    """The differing values; one that differs from several groups is found several times."""
    yield from _among_switches(reading)
    yield from _among_hosts(reading)
    yield from _among_all_ports(reading)
    for name, database in reading.databases.items():
        switch = reading.fabric.switches[name]
        for ports in _kinds_of_ports(switch, reading).values():
            found = list(_among_ports(switch, database, ports)) if len(ports) >= FEWEST else []
            changed = Counter(finding.place.key.partition("|")[0] for finding in found)
            # A port with several differing fields has another role, which no table states.
            yield from (finding for finding in found if changed[finding.place.key.partition("|")[0]] <= MOST_FIELDS)


def _among_switches(reading: Reading) -> Iterator[Finding]:
    kinds: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name, database in reading.databases.items():
        switch = reading.fabric.switches[name]
        meta = database.rows("DEVICE_METADATA").get("localhost", {})
        speeds = tuple(sorted(Counter((p.speed, p.cable) for p in switch.ports.values()).items(), key=str))
        if database.whole and not database.case:
            kinds[switch.hwsku, meta.get("type"), switch.model, speeds].append(name)
    for names in kinds.values():
        for table in _NAMED if len(names) >= FEWEST else ():
            rows = {
                name: reading.databases[name].rows(table) for name in names if table in reading.databases[name].tables
            }
            for key in sorted({key for of_one in rows.values() for key in of_one}):
                of_key = {name: dict(of_one[key]) for name, of_one in rows.items() if key in of_one}
                for name, field, value, usual in _odd(of_key, added=table in _FIXED):
                    yield _finding(Place(name, table, key, field), value, usual, f"{len(of_key) - 1} switches like it")


def _among_hosts(reading: Reading) -> Iterator[Finding]:
    """TCP settings, routes, registers and queues of hosts; a host whose own files differ has findings of PF075."""
    kinds: dict[tuple[object, ...], dict[str, dict[str, str]]] = defaultdict(dict)
    for host in reading.fabric.hosts.values():
        values: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (table, key, field), value in facts_of(host).items():
            if table in _OF_HOSTS and field not in {"src", "via"}:
                values[table, key if table in _BY_KEY else field].append(value)
        if next(differing_forms(host), None) is not None:
            continue
        shape = len(host.nics), len(host.vlans()), len(host.routes), tuple(sorted(host.forms)), host.gathered
        kinds[shape][host.name] = {
            f"{table} {name}": ", ".join(sorted(found)) for (table, name), found in values.items()
        }
    for rows in kinds.values():
        for name, fact, own, usual in _odd(rows):
            table, _, field = fact.partition(" ")
            odd = _finding(Place(name, table, "", field), own, usual, f"{len(rows) - 1} hosts like it")
            yield replace(odd, patch=())


def _among_all_ports(reading: Reading) -> Iterator[Finding]:
    """Ports of one switch that have another profile or time than the ports like them at all other switches."""
    count: dict[tuple[object, str], Counter[str]] = defaultdict(Counter)
    by_switch: dict[tuple[object, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in reading.databases:
        for kind, field, _, value in _of_all_ports(reading, name):
            count[kind, field][value] += 1
            by_switch[kind, field][name].add(value)
    usual = {kind: counter.most_common(1)[0] for kind, counter in count.items()}
    odd = {kind: [name for name, own in by_switch[kind].items() if own != {usual[kind][0]}] for kind in count}
    known = {kind: len(by_switch[kind]) >= FEWEST_SWITCHES and usual[kind][1] >= FEWEST - 1 for kind in count}
    alone = {names[0] for kind, names in odd.items() if len(names) == 1 and known[kind]}
    for name in sorted(alone):
        switch = reading.fabric.switches[name]
        for kind, field, (table, key), value in _of_all_ports(reading, name):
            most, often = usual[kind, field]
            own = table == "PFC_WD" or most in switch.wred or most in switch.schedulers
            if own and value != most and known[kind, field] and odd[kind, field] == [name]:
                yield _finding(Place(name, table, key, field), value, most, f"{often} ports like it")


def _of_all_ports(reading: Reading, name: str) -> Iterator[tuple[object, str, tuple[str, str], str]]:
    """(kind of port, field, its table and key, value): profiles of queues by speed and far end, and the watchdog."""
    switch = reading.fabric.switches[name]
    dogs = reading.rows(name, "PFC_WD")
    for (speed, _, to_switch, _), ports in _kinds_of_ports(switch, reading).items():
        for port in ports if speed and to_switch is not None else ():
            for number, queue in port.queues.items():
                kind, place = (speed, to_switch, number), ("QUEUE", f"{port.name}|{number}")
                if queue.wred is not None:
                    yield kind, "wred_profile", place, queue.wred
                if queue.scheduler is not None:
                    yield kind, "scheduler", place, queue.scheduler
            for field, value in dogs.get(port.name, {}).items():
                if field in _OF_DOGS:
                    yield None, field, ("PFC_WD", port.name), value


def _kinds_of_ports(
    switch: Switch, reading: Reading
) -> dict[tuple[int | None, float | None, bool | None, bool], list[Port]]:
    """Ports grouped by speed, cable length, and whether a switch is known at the other end."""
    kinds: dict[tuple[int | None, float | None, bool | None, bool], list[Port]] = defaultdict(list)
    for port in switch.ports.values():
        far = switch.neighbours.get(port.name)
        to_switch = None if far is None else far[0] in reading.fabric.switches
        kinds[port.speed, port.cable, to_switch, switch.channel_of(port.name) is None].append(port)
    return kinds


def _among_ports(switch: Switch, database: ConfigDb, ports: Sequence[Port]) -> Iterator[Finding]:
    names = {port.name for port in ports}
    for table in OF_PORTS:
        by_part: dict[str, dict[str, tuple[str, dict[str, str]]]] = defaultdict(dict)
        for key, row in database.rows(table).items():
            port, _, part = key.partition("|")
            if port in names:
                by_part[part][port] = key, dict(row)
        for part, of_part in by_part.items():
            if part and len(names) >= FEWEST and len(of_part) == len(names) - MOST_ODD:
                yield _without_row(Place(switch.name, table, f"{min(names - of_part.keys())}|{part}"), of_part)
            rows = {port: row for port, (_, row) in of_part.items()}
            for port, field, value, usual in _odd(rows):
                place = Place(switch.name, table, of_part[port][0], field)
                yield _finding(place, value, usual, f"{len(rows) - 1} ports like it")


def _without_row(place: Place, others: Mapping[str, tuple[str, Mapping[str, str]]]) -> Finding:
    """The finding about a port without a row that all ports like it have."""
    rows = [dict(row) for _, row in others.values()]
    patch = tuple(PatchOperation(place.table, place.key, name, value) for name, value in rows[0].items())
    known = all(row == rows[0] for row in rows)
    return Finding(
        place,
        f"the row is missing, {len(rows)} ports like it have one",
        ", ".join(f'"{shown(name)}": "{shown(value)}"' for name, value in rows[0].items()) if known else "",
        patch=patch if known else (),
    )


def _odd(
    rows: Mapping[str, Mapping[str, str]], *, added: bool = False
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """(device or port, field, its value, the others' value) of fields in which exactly one differs.

    With `added` also a field that only one has.
    """
    if len(rows) < FEWEST:
        return
    for field in sorted({field for row in rows.values() for field in row} - ITS_OWN):
        values = Counter(row.get(field) for row in rows.values())
        usual, count = values.most_common(1)[0]
        if count == len(rows) - MOST_ODD and (usual is not None or added):
            who = next(name for name, row in rows.items() if row.get(field) != usual)
            yield who, field, rows[who].get(field), usual


def _finding(place: Place, value: str | None, usual: str | None, others: str) -> Finding:
    here = "is missing" if value is None else f"is {shown(value) or 'empty'}"
    there = "do not have it" if usual is None else f"have {shown(usual)}"
    return Finding(
        place,
        f"{shown(place.field)} {here}, {others} {there}",
        "remove it" if usual is None else f'"{shown(usual)}"',
        patch=(PatchOperation(place.table, place.key, place.field, usual),),
    )
