"""What an experiment is: the files of `experiments/PAPER/`, checked.

`paper.toml` has the citation, the parameters with the origin of each, and our deviations; every other TOML file with a
`[metrics]` table is an experiment.
"""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pauseframe import InputError
from pauseframe._text import none_of

Size = Literal["quick", "full"]
KINDS = ("order", "within", "factor", "share", "zero", "crossover", "monotone")
EXPERIMENT_KEYS = {
    "title", "figure", "revision", "text", "scenario", "set", "variants", "axes", "quick", "full",
    "metrics", "claims", "plots", "function", "also",
}  # fmt: skip
CLAIM_KEYS = {"id", "text", "claimed", "why", "parts"}
PART_KEYS = {
    "kind", "metric", "variant", "at", "of", "over", "low", "high", "shape_low", "shape_high", "order", "slack",
    "across", "along", "direction", "least", "factor", "name", "only",
}  # fmt: skip


@dataclass(frozen=True)
class Paper:
    """A paper and what its experiments have in common."""

    key: str
    """Name of its folder."""
    folder: Path
    title: str
    citation: str
    doi: str
    parameters: list[dict[str, Any]]
    """name, value, origin: one set for all experiments of the paper."""
    deviations: list[dict[str, str]]
    """what, why: where we do otherwise than the paper says."""


@dataclass(frozen=True)
class Metric:
    """A number, or one for each key, of a run."""

    name: str
    sql: str
    """Over flows, queries, ports, series, summary of one run; its column `value`, all other columns being keys."""
    label: str
    unit: str


@dataclass(frozen=True)
class Claim:
    """What the paper says, as one or several bands that all must hold."""

    id: str
    text: str
    claimed: str
    why: str
    """Why it differs, if it does: the mechanism, with the evidence."""
    parts: list[dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """One figure, table or statement of a paper."""

    paper: Paper
    name: str
    title: str
    figure: str
    revision: int
    text: str
    scenario: Path | None
    settings: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    axes: dict[str, list[Any]]
    sizes: dict[str, dict[str, Any]]
    metrics: dict[str, Metric]
    claims: list[Claim]
    plots: list[dict[str, Any]]
    function: str = ""
    """`module:function` that measures by itself instead of packet runs, for flow-level experiments."""
    source: Path = field(default_factory=Path)
    also: tuple[str, ...] = ()
    """Other names, where one experiment makes several figures."""

    @property
    def id(self) -> str:
        """`bolt/fig12`."""
        return f"{self.paper.key}/{self.name}"

    def seeds(self, size: Size) -> int:
        """How many seeds a size takes."""
        return int(self.sizes[size].get("seeds", 1))

    def settings_of(self, variant: str, size: Size) -> dict[str, Any]:
        """What is changed in the scenario; the variant goes before the size, the size before the experiment."""
        sized: dict[str, Any] = self.sizes[size].get("set", {})
        return self.settings | sized | self.variants[variant]

    def axes_of(self, size: Size) -> dict[str, list[Any]]:
        """Values by path; a size may have fewer than the experiment."""
        sized: dict[str, list[Any]] = self.sizes[size].get("axes", {})
        return self.axes | sized


def experiments_folder() -> Path:
    """`experiments` here, or that of the checkout that this package runs from. Raises InputError if there is none."""
    for folder in (Path("experiments"), Path(__file__).parents[3] / "experiments"):
        if folder.is_dir():
            return folder
    raise InputError("there is no folder `experiments` here: run from a checkout, or name one with --experiments")


def find_experiments(folder: Path | None = None) -> list[Experiment]:
    """All experiments, by paper and name. Raises InputError with the file and what is wrong in it."""
    root = folder or experiments_folder()
    found = []
    for about in sorted(root.glob("*/paper.toml")):
        paper = _paper(about)
        for path in sorted(about.parent.glob("*.toml")):
            table = _read(path)
            if path != about and ("metrics" in table or "claims" in table):
                found.append(_experiment(paper, path, table))
    if not found:
        raise InputError(f"{root} has no experiments (PAPER/paper.toml, PAPER/NAME.toml)")
    return found


def select(experiments: list[Experiment], wanted: str) -> list[Experiment]:
    """Those of a paper (`bolt`), one (`bolt/fig12`), the one that has a claim (`B-M22`), or `all`."""
    chosen = [
        one
        for one in experiments
        if wanted in {"all", one.paper.key, one.id}
        or wanted in {f"{one.paper.key}/{name}" for name in one.also} | {claim.id for claim in one.claims}
    ]
    if not chosen:
        names = sorted({one.paper.key for one in experiments} | {one.id for one in experiments})
        raise InputError(f"there is no such experiment: {none_of(wanted, names)}")
    return chosen


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from error


def _paper(path: Path) -> Paper:
    table = _read(path)
    try:
        return Paper(
            path.parent.name,
            path.parent,
            table["title"],
            table["citation"],
            table.get("doi", ""),
            table.get("parameter", []),
            table.get("deviation", []),
        )
    except KeyError as error:
        raise InputError(f"{path}: {error} is missing") from error


def _experiment(paper: Paper, path: Path, table: dict[str, Any]) -> Experiment:
    _only(path, "", table, EXPERIMENT_KEYS)
    metrics = {
        name: Metric(name, entry["sql"], entry.get("label", name), entry.get("unit", ""))
        for name, entry in table.get("metrics", {}).items()
    }
    variants = table.get("variants", {"run": {}})
    experiment = Experiment(
        paper=paper,
        name=path.stem,
        title=table.get("title", path.stem),
        figure=table.get("figure", ""),
        revision=table.get("revision", 1),
        text=table.get("text", ""),
        scenario=path.parent / table["scenario"] if "scenario" in table else None,
        settings=table.get("set", {}),
        variants=variants,
        axes=table.get("axes", {}),
        sizes={"quick": table.get("quick", {}), "full": table.get("full", {})},
        metrics=metrics,
        claims=[_claim(path, entry, metrics, variants) for entry in table.get("claims", [])],
        plots=table.get("plots", []),
        function=table.get("function", ""),
        source=path,
        also=tuple(table.get("also", [])),
    )
    if (experiment.scenario is None) == (not experiment.function):
        raise InputError(f"{path}: name either a scenario file or a function")
    if experiment.scenario is not None and not experiment.scenario.is_file():
        raise InputError(f"{path}: scenario {experiment.scenario} does not exist")
    return experiment


def _claim(path: Path, entry: dict[str, Any], metrics: dict[str, Metric], variants: dict[str, Any]) -> Claim:
    where = f"claim {entry.get('id', '?')}"
    inline = {key: value for key, value in entry.items() if key not in CLAIM_KEYS}
    parts = entry.get("parts", []) + ([inline] if inline else [])
    if not parts:
        raise InputError(f"{path}: {where} says nothing to judge")
    for part in parts:
        _only(path, where, part, PART_KEYS)
        if part.get("kind") not in KINDS:
            raise InputError(f"{path}: {where}: kind must be one of {', '.join(KINDS)}")
        if metrics and part.get("metric") not in metrics:
            raise InputError(f"{path}: {where}: metric must be one of {', '.join(metrics)}")
        named = [part.get(key) for key in ("variant", "of", "over")] + part.get("order", [])
        for name in itertools.chain.from_iterable(one if isinstance(one, list) else [one] for one in named):
            label = name.get("variant") if isinstance(name, dict) else name
            if label is not None and label != "best" and metrics and label not in variants:
                raise InputError(f"{path}: {where}: there is no variant {label}; there are {', '.join(variants)}")
    return Claim(entry["id"], entry.get("text", ""), entry.get("claimed", ""), entry.get("why", ""), parts)


def _only(path: Path, where: str, table: dict[str, Any], allowed: set[str]) -> None:
    if unknown := sorted(set(table) - allowed):
        raise InputError(f"{path}: {where + ': ' if where else ''}unknown key {', '.join(unknown)}")


def flat_settings(experiment: Experiment, size: Size) -> list[tuple[str, str]]:
    """(key, value) of everything that the experiment changes in its scenario, by variant where it differs."""
    rows = [(key, str(value)) for key, value in (experiment.settings | experiment.sizes[size].get("set", {})).items()]
    rows += [(key, ", ".join(map(str, values))) for key, values in experiment.axes_of(size).items()]
    for variant, settings in experiment.variants.items():
        rows.append(
            (variant, ", ".join(f"{key} = {value}" for key, value in settings.items()) or "as the scenario says")
        )
    return rows
