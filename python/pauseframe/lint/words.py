"""Finds the value of a place in a text file of a host: a script, netplan, networkd, registers, settings."""

from __future__ import annotations

import re

_NEAR = 25
"""Maximum number of lines from the line of a row to that of its field, in files with a field per line."""
_FIELDS = {
    ("dcb", "prio-pfc"): r"prio-pfc|--pfc",
    ("dcb", "trust"): r"trust|--trust",
    ("dcb", "dscp-prio"): r"dscp-prio|--dscp2prio",
    ("mlnx_qos", "prio-pfc"): r"mlnx_qos\b.*--pfc",
    ("mlnx_qos", "trust"): r"mlnx_qos\b.*--trust",
    ("mlnx_qos", "dscp-prio"): r"mlnx_qos\b.*--dscp2prio",
    ("link", "mtu"): r"mtu|MTUBytes",
    ("card", "traffic_class"): r"roce_tos=|traffic_class",
    ("vlan", "id"): r"id|Id",
}
"""Other words of files for the fields of findings."""


def offset_of(text: str, table: str, key: str, field: str) -> int | None:
    """The offset of the line that gives a value, or of the row's first word; None if the text has neither.

    Where a line has the row and the field, that line; else the first line with the field after one with the row; else,
    as in functions of a script, the first line with the field. Registers and settings have no field: their name with a
    value.
    """
    words = key.split()
    if table in {"card", "sysctl"} and field != "traffic_class":
        with_value = re.search(rf"(?<![\w.]){re.escape(key)}(?:_P\d+)?(?:\s*=\s*|[ \t]+)[\w'\"-]", text, re.IGNORECASE)
        return with_value.start() if with_value else _first(text, rf"(?<![\w.]){re.escape(key)}(?![\w.])")
    named = _FIELDS.get((table, field), re.escape(field)) if field else ""
    lines = [(match.start(), match[0]) for match in re.finditer(r".+", text)]
    rows = [number for number, (_, line) in enumerate(lines) if all(_has(line, re.escape(word)) for word in words)]
    fields = [number for number, (_, line) in enumerate(lines) if named and _has(line, named)]
    both = next((number for number in fields if number in set(rows)), None)
    after = next((n for row in rows for n in fields if row < n <= row + _NEAR), None)
    alone = fields[0] if fields and table in {"dcb", "mlnx_qos", "card"} else None
    number = next((one for one in (both, after, alone) if one is not None), None)
    if number is None and rows:
        number, named = rows[0], re.escape(words[0]) if words else ""
    if number is not None:
        found = re.search(_word(named), lines[number][1])
        return lines[number][0] + (found.start() if found else 0)
    return _first(text, _word(re.escape(words[0]))) if words else None


def _word(pattern: str) -> str:
    return rf"(?<![\w.])(?:{pattern})(?![\w.])" if not pattern.endswith("=") and "=" not in pattern else pattern


def _has(line: str, pattern: str) -> bool:
    return not line.lstrip().startswith("#") and re.search(_word(pattern), line) is not None


def _first(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    return found.start() if found else None
