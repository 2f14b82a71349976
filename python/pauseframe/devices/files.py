"""Reads untrusted device files: limits size and nesting, executes nothing, and names the file in each error."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.terminal.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHARE = 16
"""Part of the limit of bytes for a file: 64 MiB by default. The CONFIG_DB of a large switch has about 1 MB."""
LONGEST_SHOWN = 80

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class DeviceFileError(ValueError):
    """A device file that cannot be read; the message gives file, place and reason."""


def read_text(path: Path) -> str:
    """Reads the text of a UTF-8 file."""
    try:
        data = read_bytes(path, share=SHARE)
    except InputError as error:
        raise DeviceFileError(shown(error)) from None
    if b"\0" in data:
        raise DeviceFileError(f"{shown(path)}: this is a binary file: give a text file (JSON, XML, INI)")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DeviceFileError(f"{shown(path)}: byte {error.start} is not UTF-8: save the file as UTF-8") from None


def parse_json(text: str, source: str, twice: list[str] | None = None) -> Json:
    """Parses JSON; DeviceFileError gives line and column. `twice` collects keys that occur twice in one object."""

    def object_of(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs) and twice is not None:
            twice.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return found

    try:
        value: Json = json.loads(text, object_pairs_hook=object_of)
    except RecursionError:
        raise DeviceFileError(f"{shown(source)}: nested deeper than any device file: not read") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        hint = "the file may be cut off" if error.pos >= len(text.rstrip()) - 1 else "not JSON from here on"
        raise DeviceFileError(f"{shown(source)}: {where}: {error.msg.lower()}: {hint}") from None
    except ValueError:  # Python's int() refuses numbers with too many digits
        message = "a number of thousands of digits: no device has such a value: not read"
        raise DeviceFileError(f"{shown(source)}: {message}") from None
    return value


def shown(text: object) -> str:
    """Text from a file in printable form: control characters are escaped, and the length is bounded."""
    plain = printable(str(text), breaks="")
    return plain if len(plain) <= LONGEST_SHOWN * 4 else plain[: LONGEST_SHOWN * 4] + "…"


def pointer(*parts: str) -> str:
    """The path of a value in a JSON document (RFC 6901)."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def as_rows(value: Json) -> Mapping[str, Json]:
    """The value itself if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The value itself if it is a JSON list, else an empty list."""
    return value if isinstance(value, list) else []


def as_text(value: Json) -> str:
    """A scalar as text, as in CONFIG_DB."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(as_text(item) for item in value)
    return "" if value is None else str(value)


def number_in(text: str | None, low: int, high: int) -> int | None:
    """A decimal integer within a range, or None."""
    value = whole_number(text)
    return value if value is not None and low <= value <= high else None


_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "": 1000.0}


def milliseconds(text: str) -> float | None:
    """A time with a unit, or in seconds, in milliseconds; None for any other text."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(us|ms|s|)", text)
    return float(found[1]) * _MS[found[2]] if found else None


def whole_number(text: str | None) -> int | None:
    """A decimal integer, or None."""
    if text is None or not text.isascii():
        return None
    if text.isdigit() and len(text) <= 20:
        return int(text)
    digits = text.removeprefix("-")
    return int(text) if digits.isdigit() and len(digits) <= 20 else None
