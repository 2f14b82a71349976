"""Reads and checks experiments: the files of `experiments/PAPER/`.

`paper.toml` has the citation, the parameters with their origin, and our deviations; every other TOML file with a
`[metrics]` or `[[claims]]` table is an experiment. The classes in this file correspond to the tables of these TOML
files, key by key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError

from pauseframe._core import InputError
from pauseframe.files.reading import parse_toml, read_text
from pauseframe.reproduce import checks, scan
from pauseframe.reproduce.mistakes import problems_of
from pauseframe.reproduce.parts import Part
from pauseframe.reproduce.points import Model
from pauseframe.results.places import EXPERIMENTS
from pauseframe.terminal.problems import failure, problem
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.types import Problem

M = TypeVar("M", bound=Model)
Size = Literal["quick", "full"]
SEEDS = 5
"""Minimum number of seeds of a verdict."""
Settings = dict[str, JsonValue]
"""Values by the path of a scenario's key."""


class Parameter(Model):
    """A parameter of all experiments of a paper."""

    name: str
    value: str
    origin: str
    keys: list[str] = []
    """Scenario keys that the parameter explains (`transports.NAME.*` as `transport.*`), which a test checks."""


class Deviation(Model):
    """A deviation from the paper."""

    what: str
    why: str


class LeftOut(Model):
    """A claim that is not judged."""

    id: str
    why: str


class Open(Model):
    """`[[search]]`: a key that the paper leaves open, with the range in which a search looks (`search.py`)."""

    key: str
    experiments: Annotated[list[str], Field(min_length=1)]
    """Names of the experiments that the key reaches."""
    values: Annotated[list[JsonValue], Field(min_length=1, max_length=12)]
    """The plausible values besides the present one."""
    also: dict[str, JsonValue] = {}
    """Keys that go along with each of them, because a testbed has them together."""
    why: str
    """The reason for the range, with what the paper says."""


class Paper(Model):
    """`paper.toml`: a paper and the common data of its experiments."""

    title: str
    citation: str
    doi: str = ""
    parameter: list[Parameter] = []
    deviation: list[Deviation] = []
    search: list[Open] = []
    left_out: list[LeftOut] = []


TAKE = r"^(value|mean|geometric_mean|median|min|max|sum|std|cov|p\d{1,2}(\.\d+)?)$"
Take = Annotated[str, Field(pattern=TAKE)]
PERCENTILE_IN_SQL = re.compile(r"QUANTILE", re.I)


def _counted(sql: str) -> str:
    if PERCENTILE_IN_SQL.search(sql):
        raise ValueError("select the samples and say `take = 'p99'`: then they are counted")
    return sql


class Metric(Model):
    """A metric: one number per run, or one for each combination of keys."""

    sql: Annotated[str, AfterValidator(_counted)]
    """A query over flows, queries, ports, series, summary of one run; the column `value` is the number, all other
    columns are keys.
    """
    take: Take | dict[Size, Take] = "value"
    """Reduction of values with the same keys; given by size if a reduced run has too few samples."""
    label: str = ""
    unit: str = ""

    def taken(self, size: Size) -> str:
        """The reduction of the metric at the given size."""
        return self.take if isinstance(self.take, str) else self.take[size]

    def title(self, size: Size) -> str:
        """The label of the metric, with the reduction if that depends on the size."""
        return self.label if isinstance(self.take, str) else f"{self.taken(size)} of {self.label}"


def _with_parts(table: Any) -> Any:
    """Moves the keys of a single part into the list of parts of its claim."""
    if not isinstance(table, dict):
        return table
    inline = {key: value for key, value in table.items() if key not in Claim.model_fields}
    own = {key: value for key, value in table.items() if key in Claim.model_fields}
    return own | {"parts": [*own.get("parts", []), inline]} if inline else own


class Claim(Model):
    """`[[claims]]`: a claim of the paper, as one or several bands that must all hold."""

    id: str
    text: str = ""
    claimed: str = ""
    cannot_judge: str = ""
    """The reason why no run can judge the claim, whatever its number is."""
    quote: str = ""
    """A short quotation from the paper, with the section."""
    why: str = ""
    """The reason for a deviation: the mechanism, with evidence. `why.py` replaces names of results by numbers."""
    typed: list[str] = []
    """Numbers in the text `why` that are not results: numbers of the paper, settings, and arithmetic."""
    parts: Annotated[list[Part], Field(min_length=1)]


class Plot(Model):
    """`[[plots]]`: a figure of one metric (`plots.py`)."""

    metric: str
    title: str = ""
    kind: Literal["bars", "line", "time", "cdf"] = "bars"
    over: str = ""
    """The variant by whose values the others are divided, for example for a speed-up."""
    x: str = ""
    x_label: str | None = None
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    categories: bool = False
    single: bool = False
    """True to use only the first seed, because a time series of one flow has no median."""
    scale: float = 1.0
    order: list[str] = []
    variants: list[str] = []
    at: Settings = {}
    theirs: dict[str, list[list[float | str]]] = {}


class Reduced(Model):
    """`quick` and `full`: the settings that a size changes in the experiment."""

    seeds: Annotated[int, Field(ge=1)] = SEEDS
    set: Settings = {}
    axes: dict[str, list[JsonValue]] = {}


class Stage(Model):
    """`[[stages]]`: a round of successive halving; the best settings advance to the next."""

    seeds: Annotated[int, Field(ge=1)]
    keep: Annotated[int, Field(ge=1)] = 1
    set: Settings = {}
    take: Size = "quick"
    """The size whose percentiles the stage uses."""


class Figure(Model):
    """A file of an experiment."""

    title: str = ""
    figure: str = ""
    revision: int = 1
    text: str = ""
    scenario: str = ""
    function: str = ""
    """`module:function` that measures without packet runs, for flow-level experiments."""
    scores: list[str] = []
    """The experiments whose claims a joint scan judges at every point of its axes (`scan.py`)."""
    stages: list[Stage] = []
    """Stages that narrow a joint scan to its best settings; they run only at the papers' size."""
    present: Settings = {}
    """The paper's current setting on the axes of the scan."""
    also: list[str] = []
    """Additional names of an experiment that makes several figures."""
    set: Settings = {}
    variants: dict[str, Settings] = {"run": {}}
    axes: dict[str, list[JsonValue]] = {}
    quick: Reduced = Reduced()
    full: Reduced = Reduced()
    metrics: dict[str, Metric] = {}
    claims: list[Annotated[Claim, BeforeValidator(_with_parts)]] = []
    plots: list[Plot] = []


@dataclass(frozen=True)
class Experiment:
    """One figure, table or statement of a paper."""

    paper: Paper
    source: Path
    """The file of the experiment; its folder has the paper's name."""
    spec: Figure
    scored: Sequence[Figure] = ()
    """Experiments that a joint scan scores."""

    @property
    def key(self) -> str:
        """Key of the experiment's paper, such as `bolt`."""
        return self.source.parent.name

    @property
    def name(self) -> str:
        """Name of the experiment, such as `fig12`."""
        return self.source.stem

    @property
    def id(self) -> str:
        """Paper and name of the experiment, such as `bolt/fig12`."""
        return f"{self.key}/{self.name}"

    @property
    def title(self) -> str:
        """Title of the experiment, or its name."""
        return self.spec.title or self.name

    @property
    def scenario(self) -> Path:
        """The scenario file of all runs of the experiment."""
        return self.source.parent / self.spec.scenario

    @property
    def known_scan(self) -> Path:
        """The file with the recorded results of a joint scan."""
        return self.source.with_suffix(".json")

    def size(self, size: Size) -> Reduced:
        """The settings that a size changes."""
        return self.spec.quick if size == "quick" else self.spec.full

    @property
    def has_one_size(self) -> bool:
        """True if the reduced size equals the papers' size: the same runs and the same reductions."""
        by_size = any(isinstance(metric.take, dict) for metric in self.spec.metrics.values())
        return self.spec.quick == self.spec.full and self.runs_a_scenario and not by_size

    @property
    def runs_a_scenario(self) -> bool:
        """True if the experiment runs one scenario with variants and axes, without a function or a joint scan."""
        return not (self.spec.function or self.spec.stages)

    def settings_of(self, variant: str, size: Size) -> Settings:
        """The changes to the scenario; a variant overrides the size, and the size overrides the experiment."""
        return self.spec.set | self.size(size).set | self.spec.variants[variant]

    def axes_of(self, size: Size) -> dict[str, list[JsonValue]]:
        """Values of the axes by path; a size may have fewer values than the experiment."""
        return self.spec.axes | self.size(size).axes


def find_experiments(folder: Path | None = None) -> list[Experiment]:
    """All experiments of a folder, or of the package, sorted by paper and name.

    Raises ScenarioError with every mistake in every file, InputError without an experiment.
    """
    root = folder or EXPERIMENTS
    found: list[Experiment] = []
    wrong: list[Problem] = []
    for about in sorted(root.glob("*/paper.toml")):
        paper = _read(Paper, about, wrong)
        for path in sorted(about.parent.glob("*.toml")):
            if path != about and _is_experiment(path, wrong):
                spec = _read(Figure, path, wrong)
                if spec is not None and paper is not None:
                    found.append(Experiment(paper, path, spec))
                    wrong += [entry | {"place": str(path)} for entry in checks.contradictions(found[-1])]
    found = [_scanning(one, found, wrong) for one in found]
    wrong += checks.unsearchable(found)
    if wrong:
        raise failure(wrong)
    if not found:
        raise InputError(f"{root} has no experiments (PAPER/paper.toml, PAPER/NAME.toml)")
    return found


def _scanning(experiment: Experiment, others: list[Experiment], wrong: list[Problem]) -> Experiment:
    """A joint scan with the data of the experiments that it scores."""
    beside = {one.name: one.spec for one in others if one.key == experiment.key}
    for index, name in enumerate(experiment.spec.scores):
        wrong += [
            entry | {"place": str(experiment.source)} for entry in checks.unknown(f"scores.{index}", name, beside)
        ]
    scored = [beside[name] for name in experiment.spec.scores if name in beside]
    if not scored:
        return experiment
    return replace(experiment, spec=scan.with_scored(experiment.spec, scored), scored=scored)


def select(experiments: list[Experiment], wanted: str) -> list[Experiment]:
    """The experiments of a paper (`bolt`), one experiment (`bolt/fig12`), the one of a claim (`B-M22`), or `all`."""
    chosen = [
        one
        for one in experiments
        if wanted in {"all", one.key, one.id}
        or wanted in {f"{one.key}/{name}" for name in one.spec.also} | {claim.id for claim in one.spec.claims}
    ]
    if not chosen:
        names = sorted({one.key for one in experiments} | {one.id for one in experiments})
        claims = [claim.id for one in experiments for claim in one.spec.claims]
        meant = nearest(wanted, [*names, *claims])
        hint = f"did you mean {' or '.join(meant)}? " if meant else ""
        raise InputError(
            f"{wanted!r} is no paper, experiment or claim; {hint}pauseframe reproduce --list names all of them"
        )
    return chosen


def flat_settings(experiment: Experiment, size: Size) -> list[tuple[str, str]]:
    """(key, value) pairs of all changes to the scenario, listed by variant if values differ."""
    rows = [(key, str(value)) for key, value in (experiment.spec.set | experiment.size(size).set).items()]
    rows += [(key, ", ".join(map(str, values))) for key, values in experiment.axes_of(size).items()]
    for variant, settings in experiment.spec.variants.items():
        changed = ", ".join(f"{key} = {value}" for key, value in settings.items())
        rows.append((variant, changed or "as the scenario says"))
    return rows


def _table(path: Path, wrong: list[Problem]) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path))
    except (ValueError, InputError) as error:
        wrong.append(problem("", "", str(error)) | {"place": str(path)})
        return {}


def _is_experiment(path: Path, wrong: list[Problem]) -> bool:
    table = _table(path, wrong)
    return not {"metrics", "claims", "scores"}.isdisjoint(table)


def _read(model: type[M], path: Path, wrong: list[Problem]) -> M | None:
    try:
        return model.model_validate(_table(path, wrong))
    except ValidationError as error:
        wrong += [entry | {"place": str(path)} for entry in problems_of(error, model)]
        return None
