"""The line of a file that a mistake is on, with carets under the value or the key."""

from __future__ import annotations

import re
from pathlib import Path

LARGEST = 1_000_000
"""Bytes of a file from which no line is shown: generated lists of flows."""
WIDTH = 100
"""Columns of a line that are shown around the value."""


def excerpt(place: str, path: str, value: str, message: str) -> list[str]:
    """Two lines for a mistake in `place`, FILE:LINE, at the key `path`; none if the file cannot be shown."""
    found = re.fullmatch(r"(.+):(\d+)", place)
    lines = _lines(found[1]) if found else ()
    number = int(found[2]) if found else 0
    if not 1 <= number <= len(lines):
        return []
    line = lines[number - 1].replace("\t", " ")
    begin, end = _span(line, path, "" if message.startswith("unknown key") else value)
    if begin == end:
        return []
    first = max(0, min(begin - WIDTH // 3, len(line) - WIDTH))
    shown = line[first : first + WIDTH].rstrip()
    margin = " " * len(str(number))
    carets = "^" * max(1, _columns(line[begin : min(end, first + WIDTH)]))
    return [f"  {number} | {shown}", f"  {margin} | {' ' * _columns(line[first:begin])}{carets}"]


def _lines(name: str) -> tuple[str, ...]:
    """The lines of a file; none for what is no text file of moderate size."""
    file = Path(name)
    try:
        if not file.is_file() or file.stat().st_size > LARGEST:
            return ()
        return tuple(file.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return ()


def _span(line: str, path: str, value: str) -> tuple[int, int]:
    """Where the value, or else the key, or else the whole text stands in a line."""
    parts = [part for part in re.findall(r'"[^"]*"|[^.]+', path) if not part.isdigit()]
    key = re.escape(parts[-1].strip('"')) if parts else ""
    # Paths of [tune.parameters] are one key in quotes: "switch.marker.k".
    at = re.search(rf"([\"'])(?:[\w-]+\.)*{key}\1(?=\s*[=.\]])", line) if key else None
    at = at or (re.search(rf"(?<![\w-]){key}(?=\s*[=.\]])", line) if key else None)
    if value:
        place = line.find(value, at.end() if at else 0)
        if place >= 0:
            return place, place + len(value)
        given = (
            re.compile(r"\s*=\s*(\"[^\"]*\"|'[^']*'|\{[^}]*\}|\[[^\]]*\]|[^,}\]#]+)").match(line, at.end())
            if at
            else None
        )
        if given:
            return given.start(1), given.start(1) + len(given[1].rstrip())
    if at:
        return at.start(), at.end()
    text = line.partition("#")[0].rstrip()
    return len(text) - len(text.lstrip()), len(text)


def _columns(text: str) -> int:
    """Columns of a text in a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
