"""Cables of NetBox: its table of cables and its import form as CSV, and its REST API as JSON.

Sources: netbox-community/netbox (Apache-2.0), netbox/dcim/tables/cables.py (columns of the table) and
dcim/forms/bulk_import.py (columns of the form), and the answers of /api/dcim/cables/.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from pauseframe.devices.files import DeviceFileError, as_list, as_rows, as_text, shown
from pauseframe.devices.wiring import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.files import Json

FORMS = (
    ("device_a", "termination_a", "device_b", "termination_b"),
    ("side_a_device", "side_a_name", "side_b_device", "side_b_name"),
)
"""Columns of the two ends in the table that NetBox exports, and in the form that it imports."""
READ = {"status", "length", "length_unit", "side_a_type", "side_b_type"}
"""Further columns that are read."""
METRES = {"m": 1.0, "km": 1000.0, "cm": 0.01, "ft": 0.3048, "in": 0.0254, "mi": 1609.344}
"""Metres of NetBox's units of length."""
MADE = {"", "connected"}
"""The states of a cable that is there; others are planned or taken out."""


def of_csv(text: str, source: str) -> list[Wire] | None:
    """The cables of a CSV file; None if it has not the columns of NetBox."""
    rows = csv.DictReader(text.splitlines())
    plain_names = [_plain(name) for name in rows.fieldnames or []]
    names = dict(zip(plain_names, rows.fieldnames or [], strict=True))
    form = next((form for form in FORMS if {*form} <= names.keys()), None)
    if form is None:
        return None
    if doubled := next((name for name in READ | {*form} if plain_names.count(name) > 1), None):
        raise DeviceFileError(f"{shown(source)}: the column {doubled} is there twice: keep one of them")
    found = []
    for row in rows:
        plain = {name: (row.get(column) or "").strip() for name, column in names.items()}
        ends = [plain[name] for name in form]
        # An end with a comma is several: a breakout cable, which has no single far end.
        if all(ends) and not any("," in end for end in ends) and _made(plain.get("status", "")) and _interfaces(plain):
            metres = _metres(plain.get("length", ""), plain.get("length_unit", ""))
            found.append(Wire(ends[0], ends[1], ends[2], ends[3], source, metres))
    return found


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _made(status: str) -> bool:
    return status.lower() in MADE


def _interfaces(row: Mapping[str, str]) -> bool:
    """True unless an end is a console or power port."""
    kinds = [row.get(f"side_{side}_type", "") for side in "ab"]
    return all(not kind or kind.endswith("interface") for kind in kinds)


def _metres(length: str, unit: str) -> float | None:
    """A length, as "5", "m" of the form or as "5 m" or "5 Meters" of the table."""
    number, _, own = length.partition(" ")
    short = {"meters": "m", "kilometers": "km", "centimeters": "cm", "feet": "ft", "inches": "in", "miles": "mi"}
    name = (unit or own).strip().lower()
    try:
        return float(number) * METRES[short.get(name, name)]
    except (ValueError, KeyError):
        return None


def of_json(value: Json, source: str) -> list[Wire] | None:
    """The cables of an answer of /api/dcim/cables/, or of its list; None for any other value."""
    rows = as_list(as_rows(value).get("results")) or as_list(value)
    cables = [as_rows(row) for row in rows]
    if not cables or not all(("a_terminations" in row or "termination_a" in row) for row in cables):
        return None
    return list(_wires(cables, source))


def _wires(cables: list[Mapping[str, Json]], source: str) -> Iterator[Wire]:
    for row in cables:
        ends = [_end(row, side) for side in "ab"]
        status = as_text(as_rows(row.get("status")).get("value") or "")
        if ends[0] is None or ends[1] is None or not _made(status):
            continue
        unit = row.get("length_unit")
        metres = _metres(as_text(row.get("length")), as_text(as_rows(unit).get("value") or unit))
        yield Wire(*ends[0], *ends[1], source, metres)


def _end(row: Mapping[str, Json], side: str) -> tuple[str, str] | None:
    """Device and interface of an end; None for several ends, and for what is no interface."""
    several = as_list(row.get(f"{side}_terminations"))
    one = as_rows(several[0]) if len(several) == 1 else {}
    kind = as_text(one.get("object_type") or row.get(f"termination_{side}_type") or "dcim.interface")
    found = as_rows(one.get("object") or row.get(f"termination_{side}"))
    device, name = as_text(as_rows(found.get("device")).get("name")), as_text(found.get("name"))
    return (device, name) if kind == "dcim.interface" and device and name and len(several) < 2 else None
