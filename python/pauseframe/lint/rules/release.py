"""Rule PF006: each row must be one that the models of a SONiC release know (`--sonic-release`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import Place
from pauseframe.devices.sonic_models import GENERATED, OMITTED, fault, referred, releases_with, tables
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.lint.finding import Finding, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb, Row
    from pauseframe.devices.sonic_models import Limits

_PLACEHOLDERS = {"NULL"}
"""The field that SONiC writes into a row without fields."""


@rule("PF006", "not-in-release", "SONiC YANG models by release: sonic-net/sonic-buildimage, src/sonic-yang-models")
def check_release(reading: Reading) -> Iterator[Finding]:
    """The models of the SONiC release that `--sonic-release` names do not allow a table, field or value.

    An image that validates (`config apply-patch`, `config replace`) rejects the change; the daemons of an older release
    ignore a field that they do not know. An unknown table is a *warning*, because `config load` accepts it. Names,
    enumerations, ranges, lengths, references and mandatory fields are checked; patterns and `must` are not
    (`--yang DIR`). What other rules find in every release is not repeated. A mandatory field that a sample of SONiC
    itself omits is a note.

    No incident is known.
    """
    release = reading.release
    if release is None:
        return
    for device, database in reading.databases.items():
        for name, rows in database.tables.items():
            model = tables(release).get(name)
            if model is None and not _generated(reading, Place(device, name), ""):
                yield from _unknown_table(Place(device, name), release)
            for key, row in rows.items() if model is not None else ():
                yield from _row(reading, database, Place(device, name, key), row)


def _generated(reading: Reading, place: Place, value: str) -> bool:
    """Notes what SONiC's own samples of the release have although its models do not allow it."""
    sample = GENERATED.get((reading.release or "", place.table, place.field, value))
    if sample is None:
        return False
    what = " ".join(part for part in (place.table, place.field, value) if part)
    note = f"{shown(place.device)}: the models of {reading.release} do not allow {what}, its own sample {sample} has it"
    if note not in reading.fabric.notes:
        reading.fabric.notes.append(note)
    return True


def _unknown_table(place: Place, release: str) -> Iterator[Finding]:
    others = releases_with(place.table)
    known = f"; those of {', '.join(others)} have" if others else ""
    yield Finding(
        place,
        f"the models of {release} have no table {shown(place.table)}{known}",
        "leave it out, or another image",
        severity=Severity.warning,
    )


def _row(reading: Reading, database: ConfigDb, place: Place, row: Row) -> Iterator[Finding]:
    release = reading.release or ""
    model = tables(release)[place.table]
    yield from _key(place, model, release, database)
    if "entries" in model:
        for name, text in row.items():
            for limits, value in zip(model["entries"], (name, text), strict=False):
                yield from _value(reading, database, replace(place, field=name), limits, value)
        return
    for name, text in row.items():
        limits = model["fields"].get(name)
        if limits is not None:
            yield from _value(reading, database, replace(place, field=name), limits, text)
        elif name not in _PLACEHOLDERS and not _found_anyway(place.table, name, None):
            others = releases_with(place.table, name)
            known = f"; {', '.join(others)} have it" if others else ""
            yield Finding(replace(place, field=name), f"{release} has no field {shown(name)} in {place.table}{known}")
    for name, limits in model["fields"].items():
        wanted = limits.get("mandatory") and (place.table, name) not in OMITTED  # which PF001 notes
        if wanted and name not in row and not _demanded_anyway(place.table, name):
            yield Finding(replace(place, field=name), f"{name} is missing: {release} demands it", f"add {name}")


def _key(place: Place, model: Limits, release: str, database: ConfigDb) -> Iterator[Finding]:
    texts = place.key.split("|")
    forms = [form for form in model["keys"] if len(form) == len(texts)]
    if place.table in TABLES:
        return  # PF001 and PF002
    if not forms:
        yield Finding(place, f"{release} has no key with {len(texts)} parts in {place.table}")
        return
    faults = [list(_key_faults(form, texts, database)) for form in forms]
    if all(faults):
        yield Finding(place, f"the key is none of {release}: {faults[0][0]}")


def _key_faults(form: list[Limits], texts: list[str], database: ConfigDb) -> Iterator[str]:
    for limits, text in zip(form, texts, strict=True):
        if (wrong := fault(limits, text)) or (wrong := _dangling(database, limits, text)):
            yield f"{shown(text)!r} is not {wrong}"


def _value(reading: Reading, database: ConfigDb, place: Place, limits: Limits, text: str) -> Iterator[Finding]:
    for item in text.split(",") if limits.get("many") else [text]:
        wrong = fault(limits, item)
        if not wrong and place.table not in TABLES:
            wrong = _dangling(database, limits, item)
        if wrong and not _found_anyway(place.table, place.field, item) and not _generated(reading, place, item):
            yield Finding(place, f"{shown(place.field)} is {shown(item)!r}: in {reading.release} it is {wrong}")


def _dangling(database: ConfigDb, limits: Limits, text: str) -> str:
    """What a reference should be, if its row is missing and the file is no fragment."""
    names = referred(limits)
    known = [name for name in names if name in database.tables]
    if not names or (not known and not database.whole):
        return ""
    found = any(text == key or text in key.split("|") for name in known for key in database.rows(name))
    return "" if found else f"a row of {' or '.join(names)}"


def _found_anyway(table: str, field: str, text: str | None) -> bool:
    """True if PF001 or PF004 reports the field or value, whatever the release."""
    spec = TABLES.get(table)
    if spec is None or spec.entries is not None:
        return spec is not None and text is not None and _wrong_entry(table, field, text)
    if text is None:
        return not spec.open and field not in spec.fields
    check = spec.fields[field].check if field in spec.fields else None
    return check is not None and check(text) is not None


def _wrong_entry(table: str, name: str, text: str) -> bool:
    entries = TABLES[table].entries
    checks = [limits.check for _, limits in entries] if entries is not None else []
    return any(check is not None and check(value) for check, value in zip(checks, (name, text), strict=True))


def _demanded_anyway(table: str, field: str) -> bool:
    return table in TABLES and field in TABLES[table].mandatory
