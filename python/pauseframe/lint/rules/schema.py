"""PF00x: each row must be valid by itself."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import Place
from pauseframe.devices.sonic_fields import Check, Field, OneOf, Table
from pauseframe.devices.sonic_models import OMITTED
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.lint.finding import VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.lint.rules.constraints import YANG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb, Row


def _rows(reading: Reading) -> Iterator[tuple[str, ConfigDb, str, Table, str, Row]]:
    for device, database in reading.databases.items():
        for table, rows in database.tables.items():
            spec = TABLES.get(table)
            if spec is not None:
                for key, row in rows.items():
                    yield device, database, table, spec, key, row


@lru_cache(1 << 16)
def _parts(table: str, key: str) -> list[tuple[str, Field, str]] | None:
    """The parts of a key as (name, limits, text); None if no form has this number of parts."""
    texts = key.split("|")
    form = next((parts for parts in TABLES[table].keys if len(parts) == len(texts)), None)
    return None if form is None else [(name, field, text) for (name, field), text in zip(form, texts, strict=True)]


def _cells(spec: Table, row: Row) -> Iterator[tuple[str, Field, str]]:
    """The fields of a row as (field, limits, value); each entry of a map gives two, for its key and its value."""
    for name, value in row.items():
        if spec.entries is not None:
            (_, of_key), (_, of_value) = spec.entries
            yield name, of_key, name
            yield name, of_value, value
        elif name in spec.fields:
            yield name, spec.fields[name], value


def _items(limits: Field, text: str) -> list[str]:
    return [part for part in text.split(",") if part] if limits.many else [text]


@rule("PF001", "value", YANG)
def check_values(reading: Reading) -> Iterator[Finding]:
    """A value is out of range, not in its list of words, or missing although SONiC's models require it.

    SONiC's daemons read a row with such a value, log a line and ignore the row: the port keeps its previous setting. An
    image that validates (`config apply-patch`) rejects the whole change.

    No incident is known.
    """
    right: set[tuple[object, ...]] = set()
    for device, database, table, spec, key, row in _rows(reading):
        if "," in key and table in _LISTS_OF_PORTS and not database.bracketed:
            yield from _joined_ports(Place(device, table, key), row)
        # Most keys and rows stand at many switches, and a right one is right at all.
        if (table, key) not in right:
            wrong = list(_key_values(Place(device, table, key), spec))
            yield from wrong
            right |= set() if wrong else {(table, key)}
        if (whole := (table, *row.items())) not in right:
            wrong = list(_field_values(Place(device, table, key), spec, row))
            yield from wrong
            right |= set() if wrong else {whole}
        for name in (*spec.mandatory, "lanes") if table == "PORT" and _needs_lanes(database) else spec.mandatory:
            if name not in row and (table, name) in OMITTED:
                note = f"{shown(device)}: a row of {table} has no {name}, which the models demand and SONiC's own "
                note += f"sample {OMITTED[table, name]} omits too"
                reading.fabric.notes += [note] if note not in reading.fabric.notes else []
            elif name not in row:
                yield Finding(Place(device, table, key, name), f"{name} is missing: it is mandatory", f"add {name}")


def _key_values(place: Place, spec: Table) -> Iterator[Finding]:
    parts = _parts(place.table, place.key)
    if parts is None:
        form = "|".join(name for name, _ in spec.keys[0])
        yield Finding(place, f"the key is not of the form {form}")
    for name, limits, text in parts or ():
        wrong = limits.check(text) if limits.check and text not in limits.also else None
        if wrong:
            yield Finding(place, f"{name} in the key is {shown(text)!r}: it can be {wrong}")


def _field_values(place: Place, spec: Table, row: Row) -> Iterator[Finding]:
    for name, limits, text in _cells(spec, row):
        for item in _items(limits, text):
            wrong = limits.check(item) if limits.check else None
            if wrong and limits.check:
                has = f"is {shown(item)!r}" if item else "is empty"
                right = None if limits.many or name == text else _meant(limits.check, item)
                patch = () if right is None else (PatchOperation(place.table, place.key, name, right),)
                instead = "" if right is None else f'"{right}"'
                message = f"{shown(name)} {has}: it can be {wrong}"
                yield Finding(replace(place, field=name), message, instead, patch=patch)


def _joined_ports(place: Place, row: Row) -> Iterator[Finding]:
    """A warning for a key with several ports, and one row for each of them as the patch."""
    names, _, rest = place.key.partition("|")
    ports = names.split(",")
    if len(ports) > 1 and len(place.key.split("|")) < 4:
        keys = [f"{port}|{rest}" if rest else port for port in ports]
        rows = [(key, field, value) for key in keys for field, value in (row or {"": ""}).items()]
        yield Finding(
            place,
            f"the key has {len(ports)} ports: images with models reject it, and the daemons of some ignore it",
            "a row for each port",
            severity=Severity.warning,
            patch=(
                PatchOperation(place.table, place.key, "", None),
                *(PatchOperation(place.table, key, field, value) for key, field, value in rows),
            ),
        )


def _meant(check: Check, text: str) -> str | None:
    """The valid value that a text most probably means: without blanks, with its unit, or the most similar word."""
    bare = "".join(text.split())
    near = get_close_matches(bare.lower(), check.words, 1, 0.75) if isinstance(check, OneOf) else []
    found = [value for value in (bare, bare.rstrip(","), f"{bare}m", *near) if bare and value != text]
    return next((value for value in found if check(value) is None), None)


def _needs_lanes(database: ConfigDb) -> bool:
    """A file to be merged into a CONFIG_DB need not repeat the lanes; instance data of the models must."""
    meta = database.rows("DEVICE_METADATA").get("localhost", {})
    chassis = meta.get("switch_type") in {"voq", "chassis-packet", "fabric"} and "asic_name" not in meta
    return (
        database.form == "yang" and not chassis and meta.get("hwsku") not in {"msft_four_asic_vs", "msft_multi_asic_vs"}
    )


@rule("PF002", "reference", YANG, "https://github.com/sonic-net/sonic-buildimage/issues/11901", devices=VENDORS)
def check_references(reading: Reading) -> Iterator[Finding]:
    """A row names a port, profile, map or pool that does not exist.

    orchagent waits for the missing object for ever and only logs it; the setting of the row has no effect. In a
    fragment of a CONFIG_DB (without PORT) only references to tables of the fragment are checked. Of Cumulus Linux and
    EOS, the QoS profiles of interfaces and the route maps of BGP neighbours are checked.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        for path, what in switch.statements.dangling.items() if switch.statements is not None else ():
            kind, name, *rest = " ".join(path).split()
            yield Finding(Place(switch.name, kind, name, " ".join(rest)), f"no statement defines {shown(what)}")
    for device, database in reading.databases.items():
        yield from _undefined(device, database)
        for key in database.rows("QUEUE"):
            if key.count("|") == 3:
                yield from _local_voq(database, Place(device, "QUEUE", key))
        for table in _ROUTED:
            for key in database.rows(table):
                yield from _address_alone(database, Place(device, table, key))


def _undefined(device: str, database: ConfigDb) -> Iterator[Finding]:
    """One finding for each object that rows name and no table has."""
    there: set[tuple[int, str]] = set()
    lacking: dict[tuple[tuple[str, ...], str], list[Finding]] = {}
    for place, name, limits, item in _named(database):
        if (id(limits), item) not in there:
            found = list(_dangling(database, Place(device, *place), name, limits, item))
            lacking.setdefault((tuple(limits.refers), item), []).extend(found)
            there |= set() if found else {(id(limits), item)}
    for first, *others in filter(None, lacking.values()):
        yield first.joined(others)


def _named(database: ConfigDb) -> Iterator[tuple[tuple[str, ...], str, Field, str]]:
    """(table with key and perhaps field, name, limits, item) of all that keys and fields of a device name."""
    for table, rows in database.tables.items():
        spec = TABLES.get(table)
        if spec is None:
            continue
        in_keys = any(limits.refers for form in spec.keys for _, limits in form)
        in_rows = any(limits.refers for limits in spec.fields.values()) or spec.entries is not None
        for key, row in rows.items():
            for name, limits, text in (_parts(table, key) or ()) if in_keys else ():
                for item in text.split(",") if table in _LISTS_OF_PORTS else (text,):
                    yield (table, key), name, limits, item
            for name, limits, text in _cells(spec, row) if in_rows else ():
                for item in _items(limits, text) if limits.refers else ():
                    yield (table, key, name), name, limits, item


_LISTS_OF_PORTS = {"BUFFER_PG", "BUFFER_QUEUE", "QUEUE", "PORT_QOS_MAP"}
"""Tables whose keys older images write with several ports: "Ethernet0,Ethernet4|3-4"."""


def _dangling(database: ConfigDb, place: Place, name: str, limits: Field, item: str) -> Iterator[Finding]:
    known = [table for table in limits.refers if table in database.tables]
    if not limits.refers or item in limits.also or (not known and not database.whole):
        return
    if any(item in database.rows(table) for table in known):
        return
    names = [row for table in known for row in database.rows(table)]
    near = get_close_matches(item, names, 1)
    tables = " or ".join(limits.refers)
    hint = f"did you mean {shown(near[0])}?" if near else f"add it to {limits.refers[0]}, or name another"
    field = place.field or place.key
    patch: tuple[PatchOperation, ...] = ()
    if near and place.field and not limits.many and is_typo(item, near[0]):
        patch = (PatchOperation(place.table, place.key, place.field, near[0]),)
    what = shown(name) if name == field else f"{shown(name)} of {shown(field)}"
    yield Finding(place, f"{what}: {shown(item)!r} is not in {tables}", hint, patch=patch)


def is_typo(text: str, name: str) -> bool:
    """True if one character differs, and it is no digit: otherwise the row that is named may have been deleted."""
    changes = [code[1:] for code in SequenceMatcher(None, text, name).get_opcodes() if code[0] != "equal"]
    digits = any(letter.isdigit() for a, b, c, d in changes for letter in text[a:b] + name[c:d])
    return not digits and sum(max(b - a, d - c) for a, b, c, d in changes) <= 1


_ROUTED = ("VLAN_INTERFACE", "PORTCHANNEL_INTERFACE", "INTERFACE")
"""Tables of router interfaces: a row for the interface, and one for each of its addresses."""


def _address_alone(database: ConfigDb, place: Place) -> Iterator[Finding]:
    name, bar, _ = place.key.partition("|")
    if bar and name not in database.rows(place.table):
        # SONiC's own sample has such an address of a port channel, which its daemons never set.
        severity = Severity.error if place.table == "VLAN_INTERFACE" else Severity.warning
        message = f"there is no row {shown(name)} in {place.table}, which an address needs"
        patch = (PatchOperation(place.table, name, "", ""),)
        yield Finding(place, message, f'add "{shown(name)}": {{}} to {place.table}', severity=severity, patch=patch)


def _local_voq(database: ConfigDb, place: Place) -> Iterator[Finding]:
    meta = database.rows("DEVICE_METADATA").get("localhost", {})
    host, asic, port, _ = place.key.split("|")
    local = "asic_name" in meta and (host, asic) == (meta.get("hostname"), meta["asic_name"])
    if local and port not in database.rows("PORT"):
        yield Finding(place, f"a queue of this switch itself: {shown(port)!r} is not in PORT")


@rule("PF004", "unknown-field", YANG, severity=Severity.warning)
def check_fields(reading: Reading) -> Iterator[Finding]:
    """A field has a name that the table does not define: no daemon reads it.

    `wred_green_enabled` instead of `wred_green_enable` leaves a queue without marks, without any log message.

    No incident is known. PF030 shows the consequence of an unread field.
    """
    for device, _, table, spec, key, row in _rows(reading):
        if spec.entries is not None or row.keys() <= spec.fields.keys():
            continue
        for name in row.keys() - spec.fields.keys():
            near = _mistyped(name, spec.fields)
            if spec.open and not near:
                continue
            hint = f"did you mean {near}?" if near else "remove it, or check which SONiC release reads it"
            place = Place(device, table, key, name)
            patch: tuple[PatchOperation, ...] = ()
            if near:
                patch = (
                    PatchOperation(table, key, name, None),
                    PatchOperation(table, key, near, row.get(near, row[name])),
                )
            yield Finding(place, f"{table} has no field {shown(name)!r}", hint, patch=patch)


def _mistyped(name: str, fields: Iterable[str]) -> str | None:
    """The field that a misspelt name probably means, compared word by word.

    `green_ecn_min_threshold` does not mean `green_min_threshold`, because the extra word has a meaning.
    """
    words = name.split("_")

    def alike(field: str) -> bool:
        others = field.split("_")
        pairs = zip(words, others, strict=False)
        return len(words) == len(others) and all(a == b or get_close_matches(a, [b], 1, 0.7) for a, b in pairs)

    return next(iter(get_close_matches(name, [field for field in fields if alike(field)], 1, 0.8)), None)


@rule("PF005", "malformed", YANG)
def check_form(reading: Reading) -> Iterator[Finding]:
    """A table, row or line has the wrong form, or a key occurs twice.

    A table must be an object of rows, a row an object of fields, a field with one value no list, and each line of a
    text table a row.

    The rest of the file is checked without the malformed part.

    No incident is known.
    """
    for device, database in reading.databases.items():
        for table, key, message in database.malformed:
            yield Finding(Place(device, table, key), message)
    for source, message in reading.malformed:
        yield Finding(Place(source), message, source=source)
