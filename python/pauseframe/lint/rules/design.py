"""Rule PF091: devices have what the plan or the scenario puts on them (`--design`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe.deploy.inventory import DeployError
from pauseframe.devices.files import shown
from pauseframe.devices.model import Place
from pauseframe.lint import imported
from pauseframe.lint.finding import EVERY, Finding, PatchOperation, rule
from pauseframe.lint.rules.hosts import facts_of
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.lint.design import Design

PATCH = "patch.json"
DATABASES = ("config_db.json", "underlay.json", "static-l2.json")
"""Files whose rows are compared, not their lines."""
PROSE = ("#", "was ")
"""Beginnings of lines that change nothing on a device: comments, and what check.sh expects before a patch."""


@rule("PF091", "differs-from-design", "pauseframe deploy: what it writes for the plan or scenario", devices=EVERY)
def check_design(reading: Reading) -> Iterator[Finding]:
    """A device has another value than the plan or scenario of `--design` puts on it.

    The design is deployed again and compared: rows of CONFIG_DB, and of a deployment's folder each line of each file
    but comments. Of files that were collected, the TCP settings, addresses and VLANs of hosts are compared, and rows
    that the design does not have are allowed.

    A scenario of `pauseframe import fabric` has the values of each port under the devices' names. The files are
    imported again, and each value that differs is found at its place. Places that the head of the scenario lists as
    not held keep the value listed there; the summary names what no scenario holds.

    No incident is known.
    """
    design = reading.design
    if design is None:
        return
    if design.imported:
        compared = imported.compare(reading, design.imported)
        design.uncompared = imported.uncompared(compared)
        yield from imported.differences(compared)
        return
    renamed = dict(_renamed(reading, design))
    for device, wanted in design.reading.databases.items():
        found = reading.databases.get(device)
        if device in renamed:
            place = Place(renamed[device], "DEVICE_METADATA", "localhost", "hostname")
            yield _differs(place, renamed[device].partition("#")[0], device)
        elif found is None:
            yield Finding(Place(device, "config_db.json"), "the design has this switch, no file does", "its files")
        else:
            yield from _rows(device, found, wanted, whole=design.root is not None)
    if design.root is None:
        yield from _hosts(reading, design)
    else:
        yield from _files(design)


def _renamed(reading: Reading, design: Design) -> Iterator[tuple[str, str]]:
    """(device, other name) of devices with a file of a deployment that names another device."""
    for name, database in reading.databases.items():
        path = Path(database.source)
        if design.root is None or not path.is_relative_to(design.root):
            continue
        kind, device, *_ = (*path.relative_to(design.root).parts, "", "")
        if kind == "switches" and device != name and device in design.reading.databases:
            hostname = design.reading.databases[device].rows("DEVICE_METADATA").get("localhost", {}).get("hostname")
            if hostname == device:
                yield device, name


def _rows(device: str, found: ConfigDb, wanted: ConfigDb, *, whole: bool) -> Iterator[Finding]:
    for table, rows in wanted.tables.items():
        for key, row in rows.items():
            own = found.rows(table).get(key)
            if own is None:
                change = tuple(PatchOperation(table, key, name, value) for name, value in row.items())
                yield Finding(Place(device, table, key), "the row is missing", "the row of the design", patch=change)
                continue
            for name in row.keys() | (own.keys() if whole else set()):
                here, there = own.get(name), row.get(name)
                if here != there:
                    yield _differs(Place(device, table, key, name), here, there)
    for table, rows in found.tables.items() if whole else ():
        for key in rows.keys() - wanted.rows(table).keys():
            change = (PatchOperation(table, key, "", None),)
            yield Finding(Place(device, table, key), "the design has no such row", "no row", patch=change)


def _differs(place: Place, here: str | None, there: str | None) -> Finding:
    def said(value: str | None) -> str:
        return "missing" if value is None else f'"{shown(value)}"'

    change = (PatchOperation(place.table, place.key, place.field, there),)
    return Finding(place, f"{said(here)}, the design has {said(there)}", said(there), patch=change)


def _hosts(reading: Reading, design: Design) -> Iterator[Finding]:
    """Values of collected hosts: of the tables that were gathered, and of kinds that both have."""
    hosts = design.reading.fabric.hosts
    if missing := sorted(hosts.keys() - reading.fabric.hosts.keys()):
        reading.fabric.notes.append(f"no files of {counted(len(missing), 'host')} of the design, such as {missing[0]}")
    for name, wanted in hosts.items():
        own = reading.fabric.hosts.get(name)
        if own is None:
            continue
        here, there = (
            facts_of(own),
            {key: value for form in wanted.forms.values() for key, value in facts_of(form).items()},
        )
        kinds, tables = {key[::2] for key in here}, own.gathered
        for (table, key, field), value in there.items():
            if ((table, field) in kinds or table in tables) and here.get((table, key, field)) != value:
                found = here.get((table, key, field), "missing")
                yield Finding(Place(name, table, key, field), f"{shown(found)}, the design has {shown(value)}", value)


def _files(design: Design) -> Iterator[Finding]:
    """Files of a deployment that differ from the design, by their first differing line."""
    root = design.root
    if root is None:
        raise DeployError("only a deployment has files to compare")
    for name, wanted in design.files.items():
        path = root / name
        _, device, rest = name.split("/", 2)
        if not path.is_file():
            yield Finding(Place(device, rest), "the file is missing", "the file of the design")
            continue
        here, text = path.read_text(encoding="utf-8", errors="replace"), wanted
        if path.suffix == ".json":
            here, text = _canonical(here), _canonical(wanted)
        if rest not in DATABASES and here != text and (line := _first_difference(here, text)) is not None:
            number, own, other = line
            yield Finding(
                Place(device, rest, f"line {number}"),
                f"{shown(own) or 'the end'}, the design has {shown(other) or 'the end'}",
                shown(other),
                source=str(path),
            )
    for path in sorted(root.glob("*/*/**/*")):
        if path.is_file() and str(path.relative_to(root)) not in design.files:
            yield from _further(design, path.relative_to(root).parts)


def _further(design: Design, parts: tuple[str, ...]) -> Iterator[Finding]:
    """A file that the design does not have: a patch must lead to the design, others should not be there."""
    kind, device, *rest = parts
    if kind not in {"switches", "hosts"} or not rest or design.root is None:
        return
    if rest == [PATCH]:
        yield from _patch(design, device, json.loads((design.root / kind / device / PATCH).read_text(encoding="utf-8")))
    else:
        yield Finding(Place(device, "/".join(rest)), "the design has no such file", "no file")


def _patch(design: Design, device: str, steps: list[dict[str, Any]]) -> Iterator[Finding]:
    tables: Mapping[str, Any] = design.reading.databases[device].tables
    for number, step in enumerate(steps):
        there: Any = tables
        for part in (one.replace("~1", "/").replace("~0", "~") for one in str(step.get("path", "")).split("/")[1:]):
            there = there.get(part) if isinstance(there, dict) else None
        if there != step.get("value") if step.get("op") != "remove" else there is not None:
            message = f"{shown(step)}, the design has {shown(there)}"
            yield Finding(Place(device, PATCH, f"step {number + 1}"), message, "the value of the design")


def _canonical(text: str) -> str:
    """JSON with a line for each value, so that only values count."""
    try:
        return json.dumps(json.loads(text), indent=1)
    except ValueError:
        return text


def _first_difference(here: str, there: str) -> tuple[int, str, str] | None:
    """The number and text of the first line that differs, and that of the design; None if only comments differ."""
    own = [(n, line) for n, line in enumerate(here.splitlines(), 1) if _counts(line)]
    other = [line for line in there.splitlines() if _counts(line)]
    for at in range(max(len(own), len(other))):
        number, line = own[at] if at < len(own) else (len(here.splitlines()), "")
        wanted = other[at] if at < len(other) else ""
        if line != wanted or at >= len(own) or at >= len(other):
            return number, line.strip(), wanted.strip()
    return None


def _counts(line: str) -> bool:
    return bool(line.strip()) and (not line.lstrip().startswith(PROSE) or line.startswith("#!"))
