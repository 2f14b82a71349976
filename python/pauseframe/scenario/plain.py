"""Conversion between dataclasses and the plain values of a TOML document.

A part of a scenario is a frozen dataclass. Fields that are None are left out, so that the core fills in the default. A
part with a `_tag` such as ("kind", "fat_tree") is distinguished from its alternatives by that key. A field with
`metadata={"keys": function}` maps further keys of the same table, which the function lists. This module checks only the
names of keys; the core alone validates values.

`native` is the one place that knows values of other libraries, by their methods: none of these is imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

P = TypeVar("P", bound="Part")
Value = bool | int | float | str | list["Value"] | dict[str, "Value"] | None
"""A value of a scenario key, as in TOML and JSON; None means not set."""
Settings = dict[str, Value]
"""Values of scenario keys, by the path of the key."""


@dataclass(frozen=True)
class Part:
    """Base class of dataclasses for the tables of a scenario file."""

    _tag: ClassVar[tuple[str, str] | None] = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _freeze(getattr(self, field.name)))


PLAIN = (str, int, float, bool, NoneType, dict, list, tuple)
"""Types that `native` leaves alone; subclasses (`numpy.float64` is one of float) are converted."""


def native(value: Any) -> Any:
    """Converts scalars, arrays, series and data frames of other libraries, and paths, to plain Python values.

    A frame becomes a list of tables, whose columns are those of a file of flows, or scenario keys. Other values are
    returned as they are. The elements of lists and tables are not converted.
    """
    if type(value) in PLAIN or isinstance(value, Part | type):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if (rows := _frame_rows(value)) is not None:
        return [_flow_row(row) for row in rows]
    for method in ("tolist", "to_list", "to_pylist", "as_py"):  # numpy and pandas, polars, Arrow
        if callable(convert := getattr(value, method, None)):
            plain = convert()
            return float(plain) if type(plain) is type(value) else plain  # a numpy.longdouble has no plain number
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | list | tuple):
        return list(value)
    return value


def _flow_row(row: dict[str, Any]) -> dict[str, Any]:
    """The scenario keys of a row; ValueError names two columns of one key."""
    keys: dict[str, Any] = {}
    of_key: dict[str, str] = {}
    for name, cell in row.items():
        if cell is None:
            continue
        key, value = _cell(name, cell)
        if key in keys:
            raise ValueError(f"the columns {of_key[key]} and {name} of the frame are both the key {key}: drop one")
        keys[key], of_key[key] = value, name
    return keys


def _refuse_doubles(columns: Sequence[Any]) -> None:
    """Raises ValueError for a frame that has a column twice, of which a dict keeps the last."""
    for name in columns:
        if (count := list(columns).count(name)) > 1:
            raise ValueError(f"the frame has the column {name} {count} times: drop all but one")


def _frame_rows(value: Any) -> list[dict[str, Any]] | None:
    """The rows of a data frame or table of polars, pandas, Arrow, or what exports Arrow; None for other values."""
    if hasattr(value, "collect_schema") and hasattr(value, "collect"):
        value = value.collect()
    rows: list[dict[str, Any]]
    if hasattr(value, "to_dicts"):
        rows = value.to_dicts()
    elif hasattr(value, "iloc") and hasattr(value, "columns"):
        _refuse_doubles(value.columns)
        known = value.notna()  # columns of whole numbers with gaps are floats in pandas, unless converted
        rows = value.convert_dtypes().astype(object).where(known, None).to_dict(orient="records")
    elif hasattr(value, "to_pylist") and hasattr(value, "column_names"):
        _refuse_doubles(value.column_names)
        rows = value.to_pylist()
    elif hasattr(value, "__arrow_c_stream__") and not any(hasattr(value, name) for name in ("to_list", "to_pylist")):
        import polars as pl

        rows = pl.DataFrame(value).to_dicts()
    else:
        return None
    return rows


def to_plain(value: Any) -> Any:
    """Converts dataclasses to dicts and tuples to lists, without None and fields marked `metadata={"plain": False}`.

    Values of other libraries become plain values.
    """
    value = native(value)
    if isinstance(value, Part):
        tag = [value._tag] if value._tag else []
        kept = [f.name for f in fields(value) if f.metadata.get("plain", True)]
        pairs = [(name, getattr(value, name)) for name in kept]
        plain = dict(tag) | {name: to_plain(item) for name, item in pairs if item is not None}
        for f in fields(value):
            if "keys" in f.metadata:
                plain |= plain.pop(f.name, {})
        return plain
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def part_from_plain(part: type[P], table: Mapping[str, Any], path: str = "") -> P:
    """Builds the dataclass `part` from a dict of plain values; ValueError names a key that the class does not have."""
    known = {f.name for f in fields(part) if f.metadata.get("plain", True)}
    tag = part._tag[0] if part._tag else None
    for f in fields(part):
        if "keys" in f.metadata and (own := {key: table[key] for key in table if key in f.metadata["keys"]()}):
            table = {key: value for key, value in table.items() if key not in own} | {f.name: own}
    if unknown := [key for key in table if key not in known and key != tag]:
        raise ValueError(f"{path or part.__name__}: unknown key {unknown[0]!r}")
    hints = get_type_hints(part)
    values = {
        key: _from_plain(hints[key], value, f"{path}.{key}".lstrip(".")) for key, value in table.items() if key != tag
    }
    return part(**values)


def leaves(
    table: Mapping[str, Any], is_leaf: Callable[[Mapping[str, Any]], bool] = lambda _: False, prefix: str = ""
) -> list[tuple[str, Any]]:
    """The values of nested tables by dotted path; `is_leaf` is true for a table that is a value.

    >>> leaves({"switch": {"marker": {"k": "10 KB"}}, "seeds": 2})
    [('switch.marker.k', '10 KB'), ('seeds', 2)]
    """
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        inner = isinstance(value, Mapping) and not is_leaf(value)
        found += leaves(value, is_leaf, f"{prefix}{key}.") if inner else [(f"{prefix}{key}", value)]
    return found


def toml_value(value: Any) -> str:
    """A value in TOML syntax, on one line.

    >>> toml_value(["1 KB", 2, True])
    '["1 KB", 2, true]'
    """
    value = to_plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, dict):
        pairs = [f"{_toml_string(key)} = {toml_value(item)}" for key, item in value.items()]
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, int | float):
        return (int if isinstance(value, int) else float).__repr__(value)  # that of an IntEnum has its name
    if isinstance(value, date | time):  # TOML has them; the core names the key that has one
        return value.isoformat()
    remedy = "leave its key out"
    if value is not None:
        remedy = 'write a number, a flag, a text such as "10 us", a list or a table of them'
    raise TypeError(f"a scenario has no value of type {type(value).__name__}: {value!r}; {remedy}")


def decimal(value: float) -> str:
    """A number without an exponent, which no unit of a scenario may follow.

    >>> decimal(1_000_000.0), decimal(1e-05), decimal(2.50)
    ('1000000', '0.00001', '2.5')
    """
    return format(Decimal(f"{value:.12g}"), "f")


def _toml_string(text: str) -> str:
    """A string in TOML syntax: JSON's string syntax, with DEL escaped, as TOML requires."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _from_plain(hint: Any, value: Any, path: str) -> Any:
    choices = [choice for choice in (get_args(hint) or (hint,)) if choice is not NoneType]
    if get_origin(hint) in (Sequence, Mapping):
        choices = [hint]
    if isinstance(value, Mapping):
        parts = [choice for choice in choices if isinstance(choice, type) and is_dataclass(choice)]
        if parts:
            return part_from_plain(_choose(parts, value, path), value, path)
        if get_origin(choices[0]) is Sequence:  # a list with a single workload may be given without the list
            return (_from_plain(get_args(choices[0])[0], value, path),)
        items = next(get_args(choice)[1] for choice in choices if get_origin(choice) is Mapping)
        return {key: _from_plain(items, item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        items = next((get_args(choice)[0] for choice in choices if get_origin(choice) is Sequence), object)
        return tuple(_from_plain(items, item, f"{path}[{index}]") for index, item in enumerate(value))
    return value


def _choose(parts: list[Any], table: Mapping[str, Any], path: str) -> type[Part]:
    """The alternative that the table's tag names; without a tag, the first class with all keys, as in the core."""
    named = [part for part in parts if part._tag is None or table.get(part._tag[0], part._tag[1]) == part._tag[1]]
    for part in named:
        if set(table) <= {f.name for f in fields(part)} | set(part._tag[:1] if part._tag else ()):
            return part  # type: ignore[no-any-return]
    if named:
        return named[0]  # type: ignore[no-any-return]
    key = parts[0]._tag[0]
    allowed = ", ".join(part._tag[1] for part in parts)
    raise ValueError(f"{path}.{key}: {table.get(key)!r} is not one of {allowed}")


UNITS = {"size_bytes": ("size", "B"), "start_us": ("start", "us"), "compute_us": ("compute", "us")}
"""Columns of a file of flows whose names include a unit, and the corresponding scenario keys with their units."""
NAMES = ("src", "dst", "id")
"""Columns of names, which may be whole numbers, as in a file."""


def _cell(name: str, value: Any) -> tuple[str, Any]:
    value = native(value)
    if isinstance(value, bytes | bytearray):
        raise ValueError(f"the column {name} of the frame has bytes ({value[:20]!r}): decode them to text")
    if name in UNITS:
        key, unit = UNITS[name]
        if unit == "us" and isinstance(value, timedelta):
            # pandas counts nanoseconds, too.
            value = value / timedelta(microseconds=1) + getattr(value, "nanoseconds", 0) / 1000
        number = _plain_number(value, unit) if isinstance(value, float) else value
        return key, f"{number} {unit}"
    if name in NAMES and type(value) is int:
        return name, str(value)
    if name == "after" and isinstance(value, str | int):
        return name, str(value).split()
    if name == "after" and isinstance(value, list):
        return name, [str(item) if type(item) is int else item for item in value]
    return name, value


def _plain_number(value: float, unit: str) -> str:
    """A number without an exponent, which may not precede a unit; microseconds to the picosecond, as from a file."""
    if unit == "us" and isfinite(value):
        return format(Decimal(value * 1e6).to_integral_value(ROUND_HALF_UP).scaleb(-6).normalize(), "f")
    return format(Decimal(repr(value)), "f")


def _freeze(value: Any) -> Any:
    value = native(value)
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
