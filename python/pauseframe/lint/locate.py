"""File, line and column of the place of a finding. Files are read again only for places that have findings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe.lint.words import offset_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Place
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[\[\]{},]')
_DEEPEST = 6
"""Maximum length of a path: case, module, table, list, row, field."""
_OF_HOSTS = {
    "dcb": ("dcb-*.json", "setup.sh"),
    "sysctl": ("sysctl.*", "setup.sh"),
    "card": ("mlxconfig.txt", "roce.txt", "setup.sh"),
    "link": ("ip-link.json", "networkd/*.network"),
    "vlan": ("ip-link.json", "networkd/*.netdev"),
    "route": ("ip-route.json", "networkd/*.network"),
    "neighbour": ("ip-neigh.json", "networkd/*.network"),
    "VLAN_MEMBER": ("bridge-vlan.json",),
    "FDB": ("bridge-fdb.json",),
}
"""Files of a Linux device by the table of a place."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file. `line` and `column` count from 1; 0 if unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Locator:
    """Finds places in the files of a reading."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._texts: dict[str, str] = {}
        self._paths: dict[str, dict[tuple[str, ...], int]] = {}

    def find(self, place: Place, source: str) -> Location:
        """The location of a place; `source` is its file or the folder of its device, empty if the device has one."""
        database = self._reading.databases.get(place.device)
        if database is not None and source in {"", database.source}:
            return self._in_database(database, place)
        switch = self._reading.fabric.switches.get(place.device)
        if switch is not None and switch.statements is not None and not source:
            return Location(switch.source, line := switch.statements.line_of(place), 1 if line else 0)
        host = self._reading.fabric.hosts.get(place.device) or self._reading.fabric.switches.get(place.device)
        source = source or (host.source if host else "")
        files = list(_files(Path(source), place.table)) if source else []
        for file in files if place.key or place.field else ():
            if (at := offset_of(self._text(str(file)), place.table, place.key, place.field)) is not None:
                return self._at(str(file), at)
        return Location(str(files[0]) if len(files) == 1 else source)

    def _in_database(self, database: ConfigDb, place: Place) -> Location:
        """The deepest part of a place that a file has; the last file of a device counts, as on the device."""
        best, where = 0, (database.source, -1)
        for file in (*reversed(database.joined), database.source):
            depth, at = self._deepest(file, database, place)
            if depth > best:
                best, where = depth, (file, at)
        return Location(database.source) if not best else self._at(*where)

    def _deepest(self, file: str, database: ConfigDb, place: Place) -> tuple[int, int]:
        known = self._positions(file)
        if database.form == "yang":
            found = (at for path, at in known.items() if path[-1].rpartition(":")[2] == place.table)
            return next(((1, at) for at in found), (0, -1))
        case = (database.case,) if database.case else ()
        row = (place.table, place.key) if database.form == "tables" else (f"{place.table}|{place.key}",)
        paths = [(*row, "value", place.field), (*row, place.field), row, row[:1]]
        return next(((4 - i, known[case + path]) for i, path in enumerate(paths) if case + path in known), (0, -1))

    def _positions(self, file: str) -> dict[tuple[str, ...], int]:
        if file not in self._paths:
            self._paths[file] = positions(self._text(file))
        return self._paths[file]

    def _text(self, file: str) -> str:
        if file not in self._texts:
            path = Path(file)
            self._texts[file] = path.read_text(encoding="utf-8-sig", errors="replace") if path.is_file() else ""
        return self._texts[file]

    def _at(self, file: str, offset: int) -> Location:
        before = self._text(file)[:offset]
        return Location(file, before.count("\n") + 1, offset - before.rfind("\n"))


def _files(source: Path, table: str) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    for pattern in _OF_HOSTS.get(table, ("*.json",)):
        yield from sorted(source.glob(pattern))


def positions(text: str) -> dict[tuple[str, ...], int]:
    """The offset of each key of a JSON text, by the path of keys and list indices that leads to it."""
    found: dict[tuple[str, ...], int] = {}
    path: list[str] = []
    items: list[int] = []
    for token in _TOKEN.finditer(text):
        name, is_key = token.groups()
        mark = token[0]
        if is_key and path:
            path[-1] = json.loads(name, strict=False)
            if len(path) <= _DEEPEST:
                found.setdefault(tuple(path), token.start())
        elif mark in "[{":
            path.append("0")
            items.append(0)
        elif mark in "]}" and path:
            path.pop()
            items.pop()
        elif mark == "," and path:
            items[-1] += 1
            path[-1] = str(items[-1])
    return found
