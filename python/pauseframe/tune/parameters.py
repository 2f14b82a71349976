"""Parameters of a search: the keys that it sets, their ranges, and the values that it may try.

A range is searched in the unit that the file uses. Values are rounded to three significant digits, so that they are
easy to type, and settings that differ by less count as equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pauseframe.scenario.plain import to_plain
from pauseframe.sweep.spec import axis_values, label, number_and_unit, split_unit, split_values

if TYPE_CHECKING:
    from pauseframe.scenario.plain import Settings, Value

RANGE_KEYS = ("from", "to", "step", "scale")
DIGITS = 3
"""Number of significant digits of a value."""
WHOLE_UNITS = ("B", "segments", "packets")
"""Units with integer values."""
UNITS = {
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "ps": 1e-12,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "bps": 1.0,
    "Kbps": 1e3,
    "Mbps": 1e6,
    "Gbps": 1e9,
    "Tbps": 1e12,
}
"""Factors from each unit to bytes, seconds or bits per second."""


@dataclass(frozen=True)
class Parameter:
    """A key that the search sets: choices, or a range of numbers that share a unit."""

    path: str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    log: bool = False
    step: float | None = None
    whole: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def is_range(self) -> bool:
        """True if the parameter has a range rather than choices."""
        return not self.choices

    def value(self, number: float) -> Value:
        """The value of the key for a number, rounded and limited to the range."""
        inside = min(max(self._round(number), self.low), self.high)
        if self.whole:
            inside = min(max(round(inside), math.ceil(self.low)), math.floor(self.high))
        if self.unit in ("KiB", "MiB", "GiB"):  # sizes must be whole bytes
            return f"{round(inside * UNITS[self.unit])} B"
        shown = f"{inside:.12g}" if self.unit else ""
        return f"{shown} {self.unit}" if self.unit else int(inside) if self.whole else inside

    def _round(self, number: float) -> float:
        if self.step is not None:
            return float(f"{self.low + round((number - self.low) / self.step) * self.step:.12g}")
        if self.whole:
            return float(round(number))
        return float(f"{number:.{DIGITS}g}")

    def number(self, value: Any) -> float | None:
        """The number in a value, in this parameter's unit; None for other kinds of values."""
        if self.unit:
            found = split_unit(value)
            if found is None or not _same_kind(found[1], self.unit):
                return None
            scale = UNITS.get(found[1], 1.0) / UNITS.get(self.unit, 1.0)
            return found[0] * scale
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def from_base_unit(self, number: float) -> float:
        """Converts bytes, seconds or bits per second to this parameter's unit."""
        return number / UNITS.get(self.unit, 1.0)

    def position(self, number: float) -> float:
        """The position of a number in the range: 0 at its low end, 1 at its high end, on the parameter's scale."""
        if self.high == self.low:
            return 0.0
        if self.log:
            return math.log(number / self.low) / math.log(self.high / self.low)
        return (number - self.low) / (self.high - self.low)

    def at(self, position: float) -> float:
        """The number at a position from 0 to 1."""
        inside = min(max(position, 0.0), 1.0)
        if self.log:
            return float(self.low * (self.high / self.low) ** inside)
        return self.low + inside * (self.high - self.low)

    def narrowed(self, low: float | None = None, high: float | None = None) -> Parameter:
        """The parameter with tighter bounds in its own unit, rounded inwards."""
        least = self.low if low is None else max(self.low, _round_up(low))
        most = self.high if high is None else min(self.high, -_round_up(-high))
        return replace(self, low=least, high=most)


class Space:
    """The settings of a search as points of the unit cube."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = list(parameters)
        self._choices = {one.path: _in_order(one.choices) for one in parameters}
        self.categorical = [bool(one.choices) and _numbers(one.choices) is None for one in parameters]
        """True for parameters whose choices have no order."""

    @property
    def size(self) -> float:
        """Number of different settings; infinite with a range of real numbers."""
        return math.prod(_count(one) for one in self.parameters)

    def point(self, changes: Mapping[str, Any]) -> list[float] | None:
        """The point of a setting; None if a value is missing or has no place."""
        found = []
        for one in self.parameters:
            value = changes.get(one.path)
            if one.choices:
                order = self._choices[one.path]
                if value not in order:
                    return None
                found.append(order.index(value) / (len(order) - 1))
                continue
            number = one.number(value)
            if number is None or (one.log and number <= 0):
                return None
            found.append(one.position(number))
        return found

    def changes(self, point: Sequence[float]) -> Settings:
        """The setting nearest to a point."""
        return {one.path: self._value(one, share) for one, share in zip(self.parameters, point, strict=True)}

    def _value(self, one: Parameter, share: float) -> Value:
        if not one.choices:
            return one.value(one.at(share))
        order = self._choices[one.path]
        found: Value = order[round(min(max(share, 0.0), 1.0) * (len(order) - 1))]
        return found

    def spread(self, point: Sequence[float]) -> list[float]:
        """A uniform point of the cube as one of the space, with equal chances for all choices and whole numbers."""
        found = []
        for one, share in zip(self.parameters, point, strict=True):
            count = len(one.choices)
            found.append(min(int(share * count), count - 1) / (count - 1) if count else share)
        return found


def _numbers(choices: Sequence[Any]) -> list[float] | None:
    """The choices as numbers in one base unit; None if they are no numbers of one kind."""
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in choices):
        return [float(one) for one in choices]
    found = [split_unit(one) if isinstance(one, str) else None for one in choices]
    units = [None if one is None else one[1] for one in found]
    if any(unit is None or not _same_kind(unit, units[0] or "") for unit in units):
        return None
    return [one[0] * UNITS.get(one[1], 1.0) for one in found if one is not None]


def _in_order(choices: Sequence[Any]) -> list[Any]:
    numbers = _numbers(choices)
    return (
        list(choices) if numbers is None else [choices[n] for n in sorted(range(len(numbers)), key=numbers.__getitem__)]
    )


def _count(one: Parameter) -> float:
    if one.choices:
        return len(one.choices)
    if one.whole or one.step is not None:
        return int((one.high - one.low) / (one.step or 1.0) + 1e-9) + 1
    return math.inf


def read_parameter(path: str, value: Any) -> Parameter:
    """Parses a parameter. Raises ValueError with the expected form."""
    if isinstance(value, Mapping):
        return _range(path, value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError("must be a list of choices or { from = .., to = .. }")
    choices = tuple(to_plain(list(value)))
    if len(choices) < 2:
        raise ValueError("has fewer than two choices: set it with --set, or add choices")
    names = [label(choice) for choice in choices]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"lists {twice[0]} twice")
    return Parameter(path, choices=choices)


def parse_parameter(text: str) -> tuple[str, Any]:
    """Splits `--parameter PATH=FROM..TO[:log]`, `PATH={from=.., to=..}` or `PATH=V1,V2` into path and entry.

    >>> parse_parameter("switch.marker.k=10 KB..400 KB:log")
    ('switch.marker.k', {'from': '10 KB', 'to': '400 KB', 'scale': 'log'})
    """
    path, _, rest = (part.strip() for part in text.partition("="))
    first, dots, last = rest.partition("..")
    if not dots:
        return path, axis_values(rest)
    last, colon, scale = last.rpartition(":") if ":" in last else (last, "", "")
    ends = {"from": split_values(first)[0], "to": split_values(last)[0]}
    return path, ends | ({"scale": scale} if colon else {})


def quantity(values: Mapping[str, str], path: str) -> float | None:
    """A size or a time among the values of `pauseframe show`, in its base unit; None if it is automatic or no such."""
    found = split_unit(values.get(path, "").strip('"'))
    return None if found is None or found[1] not in UNITS else found[0] * UNITS[found[1]]


def _range(path: str, table: Mapping[str, Any]) -> Parameter:
    if unknown := [key for key in table if key not in RANGE_KEYS]:
        raise ValueError(f"unknown key {unknown[0]!r}: a range has from, to, and if needed scale and step")
    if not {"from", "to"} <= set(table):
        raise ValueError("a range needs from and to")
    (low, unit), (high, other) = number_and_unit(table["from"]), number_and_unit(table["to"])
    scale, step = table.get("scale", "linear"), table.get("step")
    if unit != other:
        raise ValueError(f"from is in {unit or 'no unit'} and to in {other or 'no unit'}: write both in one unit")
    if not low < high:
        raise ValueError("from must be below to")
    if scale not in ("linear", "log"):
        raise ValueError('scale is "linear" or "log"')
    if scale == "log" and low <= 0:
        raise ValueError("a log scale needs from above 0")
    if step is not None and (isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= high - low):
        raise ValueError("step must be a number above 0 that is no larger than the range")
    if step is not None and scale == "log":
        raise ValueError("step and a log scale exclude each other")
    bare = type(table["from"]) is int and type(table["to"]) is int
    whole = unit in WHOLE_UNITS or (not unit and bare and (step is None or float(step).is_integer()))
    return Parameter(path, low, high, unit, scale == "log", None if step is None else float(step), whole)


def _same_kind(one: str, other: str) -> bool:
    kinds = [("B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB"), ("ps", "ns", "us", "µs", "ms", "s", "min", "h")]
    return one == other or any(one in kind and other in kind for kind in kinds) or ("bps" in one and "bps" in other)


def _round_up(number: float) -> float:
    """Rounds up to three significant digits, never below the number."""
    if number == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(number))) - DIGITS + 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.12g}")
