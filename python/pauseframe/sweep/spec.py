"""The axes of a sweep: the `[sweep]` table of a scenario file, and its equivalents on the command line and in Python.

An axis is the path of a key with its values. Axes are crossed, except those in a `zip` list, which vary together;
`exclude` skips combinations; every combination runs once per seed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.files.reading import parse_toml
from pauseframe.scenario.plain import Settings, Value, leaves, to_plain, toml_value
from pauseframe.terminal.problems import failure, problem
from pauseframe.terminal.text import is_number, nearest

if TYPE_CHECKING:
    from pauseframe.types import Problem

Values = Sequence[Any] | Mapping[str, Any]
"""Values of an axis: a list, or `{"from": .., "to": .., "steps": ..}` with an optional `"scale": "log"`."""

SHARE = 5
"""A planned run takes the memory of five rows of a flow list."""
RANGE_KEYS = {"from", "to", "steps", "scale"}
TAKEN = {
    "seed": "seeds are given by seeds = 10, or a list of them",
    "workload": 'it is a column of the tables; vary a key of it, such as "workload.0.size"',
    "transport": 'it is a column of the tables; vary a key of it, such as "transport.preset"',
}


@dataclass
class Spec:
    """Axes, seeds, zipped axes and exclusions, checked without a scenario."""

    axes: dict[str, list[Value]] = field(default_factory=dict)
    seeds: int | list[int] | None = None
    zip: list[list[str]] = field(default_factory=list)
    exclude: list[Settings] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add_axis(self, path: str, values: Any) -> None:
        """Adds or replaces an axis, and records mistakes in it."""
        if path in TAKEN:
            return self.complain(path, "", "cannot be an axis", TAKEN[path])
        try:
            listed = _expand(values)
            labels = [label(value) for value in listed]
        except (ValueError, TypeError) as error:
            return self.complain(path, _shown(values), str(error), meant_rule(path))
        if not labels:
            return self.complain(path, "[]", "has no value")
        if twice := sorted(text for text, count in Counter(labels).items() if count > 1):
            return self.complain(path, twice[0], "is there twice: remove one")
        self.axes[path] = listed
        return None

    def complain(self, path: str, value: str, message: str, hint: str = "") -> None:
        """Records a mistake in the sweep itself."""
        self.problems.append(problem(f"sweep.{path}", value, message, hint))

    def seeds_from(self, first: int) -> list[int]:
        """The seeds; if only their number is given, they start at the scenario's seed."""
        if self.seeds is None:
            return [first]
        return list(range(first, first + self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def combinations(self) -> list[Settings]:
        """All combinations without the excluded ones; the first axis varies slowest."""
        groups = self._groups()
        rows = [
            [dict(zip(group, values, strict=True)) for values in zip(*(self.axes[path] for path in group), strict=True)]
            for group in groups
        ]
        merged = [{key: value for part in parts for key, value in part.items()} for parts in product(*rows)]
        ordered = [{path: row[path] for path in self.axes} for row in merged]
        return [row for row in ordered if not any(_matches(row, pattern) for pattern in self.exclude)]

    def twins(self, combinations: Sequence[Settings], scenarios: Sequence[str]) -> list[tuple[str, str, str]]:
        """Values of an axis that give the scenarios of an earlier one, whatever the other axes have: "1 ms", "0.001 s".

        `scenarios` are the resolved texts of `combinations`. Each entry is a path, a value and the earlier value.
        Zipped axes count as one.
        """
        labels = [{path: label(value) for path, value in row.items()} for row in combinations]
        found = []
        for group in self._groups():
            results: dict[tuple[str, ...], set[tuple[tuple[str, ...], str]]] = {}
            for row, scenario in zip(labels, scenarios, strict=True):
                others = tuple(text for path, text in row.items() if path not in group)
                results.setdefault(tuple(row[path] for path in group), set()).add((others, scenario))
            first: dict[frozenset[tuple[tuple[str, ...], str]], tuple[str, ...]] = {}
            for values, result in results.items():
                earlier = first.setdefault(frozenset(result), values)
                if earlier != values:
                    found.append((group[0], ", ".join(values), ", ".join(earlier)))
        return found

    def check(self) -> None:
        """Records mistakes in zip, exclude and seeds, after all axes are known."""
        for one, other in combinations(self.axes, 2):
            if overlap(one, other):
                self.complain(other, "", f"is the same key as the axis {one}, or a part of it: vary one of them")
        self._check_seeds()
        self._check_zip()
        self._check_runs()
        for number, pattern in enumerate(self.exclude):
            unknown = [path for path in pattern if path not in self.axes]
            if unknown or not pattern:
                self.complain(
                    f"exclude.{number}",
                    ", ".join(unknown),
                    f"names no axis; there are {self._names()}",
                    self._meant(unknown),
                )
            elif not all(self._has(path, wanted) for path, wanted in pattern.items()):
                self.complain(f"exclude.{number}", label(pattern), "no axis has this value")
        if not self.problems and not self.combinations():
            self.complain("exclude", "", "leaves nothing to run")

    def _groups(self) -> list[list[str]]:
        """Groups of axes that vary together; a single axis is a group of one."""
        groups = []
        for path in self.axes:
            zipped = next((group for group in self.zip if path in group), [path])
            if zipped not in groups:
                groups.append(zipped)
        return groups

    def _check_seeds(self) -> None:
        seeds = self.seeds
        if isinstance(seeds, list):
            right = all(type(seed) is int and seed >= 0 for seed in seeds) and 0 < len(set(seeds)) == len(seeds)
        else:
            right = seeds is None or (type(seeds) is int and seeds > 0)
        if not right:
            number = seeds.strip() if isinstance(seeds, str) else ""
            hint = f"write {number} without quotes" if number.isdecimal() else ""
            message = "must be the number of seeds, or a list of different ones from 0 on"
            self.complain("seeds", toml_value(seeds), message, hint)

    def _check_runs(self) -> None:
        """Refuses more runs than a plan can hold, before it lists them."""
        if self.problems:
            return
        seeds = len(self.seeds) if isinstance(self.seeds, list) else self.seeds or 1
        runs = seeds * math.prod(len(self.axes[group[0]]) for group in self._groups())
        limit = _core.limit("rows") // SHARE
        if runs > limit:
            option = f"pauseframe --limit rows={runs * SHARE} raises it"
            self.complain("seeds", "", f"the sweep has {runs} runs, more than the limit of {limit}", option)

    def _check_zip(self) -> None:
        if not isinstance(self.zip, list) or not all(isinstance(group, list) for group in self.zip):
            return self.complain("zip", str(self.zip), 'must be lists of axes: [["a.b", "c.d"]]')
        named = [path for group in self.zip for path in group]
        for path in sorted({path for path in named if path not in self.axes}):
            self.complain("zip", path, f"is no axis; there are {self._names()}", self._meant([path]))
        for path in sorted({path for path in named if named.count(path) > 1}):
            self.complain("zip", path, "is zipped twice")
        for group in self.zip:
            if len(group) < 2:
                self.complain("zip", str(group), "is alone: name two axes or more that vary together")
            lengths = {path: len(self.axes[path]) for path in group if path in self.axes}
            if len(set(lengths.values())) > 1:
                counts = ", ".join(f"{path} {count}" for path, count in lengths.items())
                self.complain("zip", "", f"axes that go together must have equally many values: {counts}")
        return None

    def _has(self, path: str, wanted: Any) -> bool:
        return any(_equal(value, wanted) for value in self.axes[path])

    def _meant(self, unknown: Sequence[str]) -> str:
        meant = [name for path in unknown for name in nearest(path, self.axes, 1)]
        return f"did you mean {' and '.join(meant)}?" if meant else ""

    def _names(self) -> str:
        return ", ".join(self.axes) or "none"


RULES = ("seeds", "zip", "exclude")
"""Keys of the table [sweep] that are no axes."""


def meant_rule(path: str) -> str:
    """A hint for a key of [sweep] that is almost a rule."""
    return "".join(f"did you mean {name}?" for name in nearest(path, RULES, 1))


def overlap(one: str, other: str) -> bool:
    """True if two paths are of one key, or of a key and a table that has it: one value would undo the other.

    >>> overlap("stop", "stop.time"), overlap("switch.buffer", "switch.buffer_size")
    (True, False)
    >>> overlap("workload.size", "workload.0.size"), overlap("workload.1.size", "workload.0.size")
    (True, False)
    """
    return covers(one, other) or covers(other, one)


def covers(table: str, path: str) -> bool:
    """True if `path` is of a key in `table`, or of the same key. The only element of a list needs no number."""
    table, path = (re.sub(r"\.0(?=\.)", "", text) for text in (table, path))
    return f"{path}.".startswith(f"{table}.")


def split_file(text: str, file_name: str, name: str = "sweep") -> tuple[str, Settings]:
    """The scenario without its table `name`, with unchanged line numbers for messages, and the table `name`.

    Raises ScenarioError if the text is not TOML.
    """
    try:
        document = parse_toml(text)
    except ValueError as error:
        _core.resolve(text, file_name=file_name)  # the core reports the mistake with its line
        raise failure([problem(file_name, "", str(error))]) from None
    if name not in document:
        return text, {}
    table = document.pop(name)
    if not isinstance(table, dict):
        raise failure([problem(name, str(table), "must be a table")])
    kept, inside = [], False
    for line in text.splitlines():
        if re.match(r"\s*\[\[?[^\[\],]+\]\]?\s*(#.*)?$", line):
            inside = re.match(rf"\s*\[\[?\s*[\"']?{name}[\"']?\s*[.\]]", line) is not None
        kept.append("" if inside else line)
    blanked = "\n".join(kept)
    if _loads(blanked) == document:
        return blanked, table
    import tomli_w  # needed for other forms: sweep.seeds = 10, or inline tables

    return tomli_w.dumps(document), table


def spec_from_table(table: Settings) -> Spec:
    """Reads the `[sweep]` table."""
    spec = Spec()
    for name, value in table.items():
        if name in RULES:
            set_rule(spec, name, value)
        else:
            # `transport.preset = [..]` without quotes is a table in a table.
            for path, values in leaves({name: value}, lambda value: bool(RANGE_KEYS & set(value))):
                spec.add_axis(path, values)
    return spec


def set_rule(spec: Spec, name: str, value: Any) -> None:
    """Sets `seeds`, `zip` or `exclude`."""
    value = to_plain(value)
    if name == "exclude":
        rules = value if isinstance(value, list) else None
        if rules is None or not all(isinstance(rule, Mapping) for rule in rules):
            return spec.complain(name, str(value), 'must be a list of tables: [{ "a.b" = 1 }]')
        spec.exclude = [dict(leaves(rule)) for rule in rules]
        return None
    setattr(spec, name, value)
    return None


def split_values(text: str) -> list[Any]:
    """The values of `--set PATH=V1,V2`: TOML or bare words, separated by commas outside of brackets and quotes.

    >>> split_values('dctcp,10 Gbps,0.5,[1, 2]')
    ['dctcp', '10 Gbps', 0.5, [1, 2]]
    >>> split_values('{ kind = "red", p = [[1, 2], [3]] }, "a,b"')
    [{'kind': 'red', 'p': [[1, 2], [3]]}, 'a,b']
    """
    parts, depth, quote, begin = [], 0, "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote and (quote == "'" or text[at - 1] != "\\") else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [_word(part.strip()) for part in [*parts, text[begin:]] if part.strip()]


def axis_values(text: str) -> Values:
    """What `--set PATH=TEXT` varies: a list of values, or a range, as `[sweep]` has them.

    >>> axis_values("0.2,0.8"), axis_values("{from=0.2,to=0.8,steps=3}")
    ([0.2, 0.8], {'from': 0.2, 'to': 0.8, 'steps': 3})
    """
    values = split_values(text)
    return values[0] if len(values) == 1 and is_range(values[0]) else values


def is_range(value: Any) -> bool:
    """True for a table that is meant as a range, whether or not it is complete."""
    return isinstance(value, Mapping) and {"from", "to"} <= set(value)


def _shown(value: Any) -> str:
    """`label` of a value, or what Python shows of one that a scenario cannot have."""
    try:
        return label(to_plain(value))
    except TypeError:
        return repr(value)


def label(value: Any) -> str:
    """The text of an axis value in names of folders and in tables.

    >>> label("dctcp"), label(0.5), label(True), label({"kind": "none"})
    ('dctcp', '0.5', 'true', '{ "kind" = "none" }')
    """
    return value if isinstance(value, str) else toml_value(value)


def _loads(text: str) -> dict[str, Any] | None:
    try:
        return parse_toml(text)
    except ValueError:
        return None


def _word(text: str) -> Any:
    table = _loads(f"value = {text}")
    return text if table is None or set(table) != {"value"} else table["value"]


def _expand(values: Any) -> list[Any]:
    values = to_plain(values)
    if isinstance(values, Mapping):
        return _range(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError("must be a list of values or { from = .., to = .., steps = .. }")
    return list(values)


def _range(table: Mapping[str, Any]) -> list[Any]:
    """The values of `{ from, to, steps }`, which are numbers or texts with the same unit."""
    if not set(table) <= RANGE_KEYS or not {"from", "to", "steps"} <= set(table):
        raise ValueError("a range has from, to, steps, and scale if it is not linear")
    steps, scale = table["steps"], table.get("scale", "linear")
    if type(steps) is not int or not 2 <= steps <= 100_000:
        raise ValueError("steps must be a whole number of at least 2")
    (first, unit), (last, other) = number_and_unit(table["from"]), number_and_unit(table["to"])
    if unit != other:
        raise ValueError("from and to must have the same unit")
    if scale not in ("linear", "log") or (scale == "log" and min(first, last) <= 0):
        raise ValueError('scale is "linear" or, between positive values, "log"')
    shares = [step / (steps - 1) for step in range(steps)]
    if scale == "log":
        numbers = [math.exp(math.log(first) + share * (math.log(last) - math.log(first))) for share in shares]
    else:
        numbers = [first + share * (last - first) for share in shares]
    tidy = [float(f"{number:.12g}") for number in numbers]  # rounding gives 0.3 instead of 0.30000000000000004
    whole = all(number.is_integer() for number in tidy)
    if unit:
        return [f"{int(number) if whole else number} {unit}" for number in tidy]
    if whole and type(table["from"]) is int and type(table["to"]) is int:
        return [int(number) for number in tidy]
    return tidy


def number_and_unit(value: Any) -> tuple[float, str]:
    """An end of a range: its number, and its unit if it is a text."""
    if type(value) in (int, float):
        return float(value), ""
    if (found := split_unit(value)) is None:
        raise ValueError("from and to are numbers, or texts such as '10 KB'")
    return found


def split_unit(value: Any) -> tuple[float, str] | None:
    """Splits a text such as "22.5 KB" into number and unit; None for any other value."""
    pattern = r"\s*(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-zµ/]+)\s*"
    found = re.fullmatch(pattern, value) if isinstance(value, str) else None
    return None if found is None or not is_number(found[1]) else (float(found[1]), found[2])


def _equal(value: Any, wanted: Any) -> bool:
    alternatives = wanted if isinstance(wanted, list) and not isinstance(value, list) else [wanted]
    return any(value == one for one in alternatives)


def _matches(row: Mapping[str, Any], pattern: Mapping[str, Any]) -> bool:
    return all(_equal(row[path], wanted) for path, wanted in pattern.items())
