"""The specification of a search: the `[tune]` table of a file, or its command-line and Python equivalents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import combinations, permutations
from math import isfinite
from typing import TYPE_CHECKING, Any

from pauseframe.scenario.plain import leaves, to_plain
from pauseframe.sweep.spec import overlap
from pauseframe.terminal.problems import problem
from pauseframe.terminal.text import is_number, nearest
from pauseframe.tune.metrics import Metric, parse_metric
from pauseframe.tune.parameters import Parameter, read_parameter

if TYPE_CHECKING:
    from pauseframe.scenario.plain import Settings
    from pauseframe.types import Problem

COUNTS = {
    "trials": (60, 1),
    "seeds": (3, 1),
    "check_seeds": (10, 0),
    "held_out": (60, 2),
    "finalists": (4, 1),
    "at_once": (4, 1),
    "search_seed": (1, 0),
}
"""Keys with integer values: default, and smallest allowed value."""
KEYS = (
    *COUNTS,
    *("constraint_share", "sensitivity"),
    *("parameters", "objectives", "constraints", "scenarios", "references"),
)
CLOSE_WORD = 0.75
"""Similarity (difflib) from which on a word below a metric is a misspelt bound."""
GONE = dict.fromkeys(("sampler", "halving", "first_stop"), "the search has no such choice any more: leave it out") | {
    direction: f'write objectives = [{{ {direction} = "fct_us.p99" }}]' for direction in ("minimize", "maximize")
}

PARAMETERS = (
    'add a line [tune.parameters] to the file, and "switch.marker.k" = { from = "10 KB", to = "90 KB" } under it'
)
OBJECTIVES = 'add objectives = [{ minimize = "fct_us.p99" }] under [tune]'


@dataclass(frozen=True)
class Objective:
    """A metric to optimise, and the direction."""

    metric: Metric
    maximize: bool = False

    @property
    def sign(self) -> float:
        """Sign of the objective: 1 to minimise, -1 to maximise."""
        return -1.0 if self.maximize else 1.0


@dataclass(frozen=True)
class Limit:
    """A constraint on a metric of a run."""

    metric: Metric
    bound: float
    at_least: bool = False

    @property
    def text(self) -> str:
        """The constraint as text."""
        return f"{self.metric.text} {'>=' if self.at_least else '<='} {self.bound:g}"

    def violation(self, value: float) -> float:
        """Relative amount by which a value exceeds the bound; 0 or less if the bound holds."""
        excess = self.bound - value if self.at_least else value - self.bound
        return excess / max(abs(self.bound), 1.0)


@dataclass(frozen=True)
class Situation:
    """A situation, such as a load or a failure, in which a setting must be good."""

    name: str
    changes: Settings


@dataclass(frozen=True)
class Reference:
    """A setting to compare with, such as the vendor's or a paper's."""

    name: str
    changes: Settings
    source: str = ""


@dataclass
class Spec:
    """The specification of a search, checked without its scenario."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    objectives: list[Objective] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    situations: list[Situation] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    trials: int = 60
    """Number of settings that the search tries."""
    seeds: int = 3
    """Number of seeds of the search, starting with the scenario's own seed."""
    check_seeds: int = 10
    """Number of further seeds, which serve to choose among the finalists."""
    held_out: int = 60
    """Number of further seeds for the answer.

    The default is the smallest multiple of ten for which 18 of 20 new seeds lie in the range of the values with a
    probability of 95 %.
    """
    finalists: int = 4
    at_once: int = 4
    """Number of settings that are evaluated in parallel; the search depends on this number, not on the cores."""
    search_seed: int = 1
    constraint_share: float = 0.95
    """Share of all seeds that must keep the constraints."""
    sensitivity: float = 0.05
    """Largest tolerated loss of an objective at the ends of a parameter's range; 0 skips the sensitivity analysis."""
    buffer: str = ""
    """Packet memory of the switches; empty for no limit."""
    cable: str = ""
    """Cable length for the headroom; empty for the scenario's cable length."""
    may_deadlock: bool = False
    problems: list[Problem] = field(default_factory=list)

    def complain(self, path: str, value: Any, message: str, hint: str = "") -> None:
        """Records a mistake in the search itself."""
        self.problems.append(problem(f"tune.{path}" if path else "tune", str(value), message, hint))

    @property
    def metrics(self) -> list[Metric]:
        """Every metric that the search needs, once."""
        found = [one.metric for one in self.objectives] + [one.metric for one in self.limits]
        return list({metric.text: metric for metric in found}.values())

    def check(self) -> None:
        """Records missing parts, after all parts are known."""
        for one, other in combinations(self.parameters, 2):
            if overlap(one, other):
                message = f"is the same key as the parameter {one}, or a part of it"
                self.complain(f"parameters.{other}", "", message, "tune one of them")
        if "seed" in self.parameters:
            self.complain("parameters.seed", "", "cannot be tuned", "the search draws seeds: seeds, held_out")
        if not self.parameters and not self.problems:
            self.complain("parameters", "", "names no key to tune", PARAMETERS)
        if not self.objectives and not self.problems:
            self.complain("objectives", "", "names no metric", OBJECTIVES)
        self._check_contradictions()

    def _check_contradictions(self) -> None:
        """Records pairs of bounds that no value keeps."""
        for low, high in permutations(self.limits, 2):
            is_pair = low.at_least and not high.at_least and low.metric.quantity == high.metric.quantity
            if is_pair and low.bound > high.bound:
                self.complain("constraints", f"{low.text}, {high.text}", "no value keeps both bounds", "change one")

    def as_table(self) -> dict[str, Any]:
        """The specification in the form that the folder stores."""
        return {
            **{name: getattr(self, name) for name in COUNTS},
            **{name: getattr(self, name) for name in ("constraint_share", "sensitivity")},
            **{name: getattr(self, name) for name in ("buffer", "cable", "may_deadlock")},
            "parameters": {path: vars(one) | {"choices": list(one.choices)} for path, one in self.parameters.items()},
            "objectives": [{"metric": one.metric.text, "maximize": one.maximize} for one in self.objectives],
            "constraints": [one.text for one in self.limits],
            "scenarios": [{"name": one.name, "set": one.changes} for one in self.situations],
            "references": [vars(one) for one in self.references],
        }


def spec_from_table(table: Mapping[str, Any]) -> Spec:
    """Reads the `[tune]` table and records its mistakes."""
    spec = Spec()
    readers = {
        "parameters": add_parameters,
        "objectives": _add_objectives,
        "constraints": add_constraints,
        "scenarios": _add_situations,
        "references": _add_references,
    }
    for name, value in table.items():
        if name in readers:
            readers[name](spec, value)
        else:
            set_value(spec, name, value)
    return spec


def set_value(spec: Spec, name: str, value: Any) -> None:
    """Sets a key with a number or a word."""
    value = 0.0 if name == "sensitivity" and value is False else value
    rule = _rule(name, value)
    if rule is None:
        spec.complain(name, "", "unknown key", GONE.get(name) or _meant(name, KEYS))
    elif not rule[0]:
        spec.complain(name, value, rule[1])
    else:
        setattr(spec, name, value)


def _rule(name: str, value: Any) -> tuple[bool, str] | None:
    """Checks a key's value: (True if valid, expected form); None for an unknown key."""
    if name in COUNTS:
        least = COUNTS[name][1]
        return type(value) is int and value >= least, f"must be a whole number of at least {least}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    rules = {
        "constraint_share": (number and 0.5 <= value <= 0.99, "must be a share from 0.5 to 0.99, such as 0.95"),
        "sensitivity": (number and 0 <= value < 1, "must be a share from 0 to 1 such as 0.05, or false"),
    }
    return rules.get(name)


def add_parameters(spec: Spec, table: Any) -> None:
    """Adds parameters by the paths of their keys; `switch.marker.k = ..` without quotes is a table in a table."""
    if not isinstance(table, Mapping):
        return spec.complain("parameters", table, "must be a table of keys")
    for path, value in leaves(table, lambda value: not (value and all(map(_is_table_or_list, value.values())))):
        try:
            spec.parameters[path] = read_parameter(path, value)
        except ValueError as error:
            spec.complain(f"parameters.{path}", "" if isinstance(value, Mapping | list) else value, str(error))
    return None


def add_objective(spec: Spec, text: Any, *, maximize: bool) -> None:
    """Adds an objective by the text of its metric."""
    metric = _metric(spec, "objectives", text)
    if metric is None:
        return
    earlier = next((one for one in spec.objectives if one.metric.quantity == metric.quantity), None)
    if earlier is not None:
        message = "is an objective twice" if earlier.maximize == maximize else "is both minimized and maximized"
        spec.complain("objectives", text, message, "keep one")
    else:
        spec.objectives.append(Objective(metric, maximize))


def add_constraints(spec: Spec, table: Any) -> None:
    """Adds constraints: metrics with bounds, `buffer`, `cable`, `deadlock_risk`."""
    if not isinstance(table, Mapping):
        return spec.complain("constraints", table, 'must be a table: { drops = 0, buffer = "16 MB", cable = "40 m" }')
    # `fct_us.p99 = 2000` without quotes is a table in a table.
    for name, value in leaves(table, lambda value: bool(set(value) & {"at_most", "at_least"})):
        if name in ("buffer", "cable"):
            _add_static(spec, name, value)
        elif name == "deadlock_risk":
            if type(value) is not bool:
                spec.complain("constraints.deadlock_risk", value, "must be true (allowed) or false")
            spec.may_deadlock = value is True
        else:
            _add_limit(spec, name, value)
    return None


def parse_constraint(text: str) -> dict[str, Any]:
    """The entry for a constraint such as 'drops <= 0' or 'buffer=16 MB'. Raises ValueError.

    >>> parse_constraint("fct_us.p99 <= 2000"), parse_constraint("cable=40 m")
    ({'fct_us.p99': {'at_most': 2000.0}}, {'cable': '40 m'})
    """
    for sign, word in (("<=", "at_most"), (">=", "at_least")):
        # The last operator belongs to the bound, because a filter may contain others.
        name, found, bound = text.rpartition(sign)
        if found and is_number(bound):
            return {name.strip(): {word: float(bound)}}
    name, equals, value = (part.strip() for part in text.partition("="))
    if equals and name in ("buffer", "cable"):
        return {name: value}
    raise ValueError("write METRIC<=NUMBER, METRIC>=NUMBER, buffer=SIZE or cable=LENGTH")


def _add_static(spec: Spec, name: str, value: Any) -> None:
    from pauseframe.fabric.calculator import parse_length, parse_size

    try:
        (parse_size if name == "buffer" else parse_length)(str(value).replace(" m", "m"))
    except ValueError as error:
        return spec.complain(f"constraints.{name}", value, str(error))
    setattr(spec, name, str(value))
    return None


def _add_limit(spec: Spec, name: str, value: Any) -> None:
    place = f"constraints.{name}"
    before, _, last = name.rpartition(".")
    if before and get_close_matches(last, ("at_most", "at_least"), 1, CLOSE_WORD):
        return spec.complain(f"constraints.{before}", last, "unknown key", "a bound is at_most or at_least")
    metric = _metric(spec, "constraints", name)
    if metric is None:
        return None
    bounds = value if isinstance(value, Mapping) else {"at_most": value}
    for word, bound in bounds.items():
        if word not in ("at_most", "at_least"):
            spec.complain(place, word, "unknown key", "a bound is at_most or at_least")
        elif isinstance(bound, bool) or not isinstance(bound, int | float):
            spec.complain(place, bound, f"{word} must be a number in the metric's own unit")
        elif not isfinite(bound):
            spec.complain(place, bound, f"{word} must be finite: leave a bound out that should not act")
        else:
            spec.limits.append(Limit(metric, float(bound), word == "at_least"))
    return None


def _add_objectives(spec: Spec, entries: Any) -> None:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return spec.complain("objectives", entries, 'must be a list of tables: [{ minimize = "fct_us.p99" }]')
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or len(entry) != 1 or set(entry) - {"minimize", "maximize"}:
            spec.complain(f"objectives.{number}", "", 'must be { minimize = "METRIC" } or { maximize = "METRIC" }')
            continue
        ((word, text),) = entry.items()
        add_objective(spec, text, maximize=word == "maximize")
    return None


def _add_situations(spec: Spec, entries: Any) -> None:
    for name, changes, _ in _named(spec, "scenarios", entries, ("name", "set")):
        spec.situations.append(Situation(name, changes))


def _add_references(spec: Spec, entries: Any) -> None:
    for name, changes, source in _named(spec, "references", entries, ("name", "set", "source")):
        if name == "default":
            spec.complain("references", name, "is the scenario as it stands", "choose another name")
        else:
            spec.references.append(Reference(name, changes, source))


def _named(spec: Spec, what: str, entries: Any, keys: Sequence[str]) -> list[tuple[str, Settings, str]]:
    """The valid entries of a table of named changes."""
    found: list[tuple[str, Settings, str]] = []
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        spec.complain(what, entries, f"must be a list of tables: [[tune.{what}]]")
        return found
    for number, entry in enumerate(entries):
        place = f"{what}.{number}"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"]:
            spec.complain(place, "", "must be a table with a name, and set = { .. }")
            continue
        if unknown := [key for key in entry if key not in keys]:
            spec.complain(f"{place}.{unknown[0]}", "", "unknown key", _meant(unknown[0], keys))
            continue
        if entry["name"] in [name for name, _, _ in found]:
            spec.complain(place, entry["name"], "is there twice")
            continue
        changes = entry.get("set", {})
        if not isinstance(changes, Mapping):
            spec.complain(f"{place}.set", changes, 'must be a table of keys: { "transport.preset" = "dctcp" }')
            continue
        # `switch.marker.k = ..` without quotes is a table in a table, but a table with a `kind` is a value.
        pairs = leaves(changes, lambda value: "kind" in value)
        found.append((entry["name"], {path: to_plain(value) for path, value in pairs}, str(entry.get("source", ""))))
    return found


def _metric(spec: Spec, place: str, text: Any) -> Metric | None:
    if not isinstance(text, str):
        spec.complain(place, text, 'must be the name of a metric such as "fct_us.p99"')
        return None
    try:
        return parse_metric(text)
    except ValueError as error:
        spec.complain(place, text, str(error))
        return None


def _is_table_or_list(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _meant(wrong: Any, known: Sequence[str]) -> str:
    meant = nearest(str(wrong), known, 1)
    return f"did you mean {meant[0]}?" if meant else f"known: {', '.join(known)}"
