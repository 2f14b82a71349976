"""Pages of `pauseframe reproduce`: one for each paper, and an overview.

The pages are static HTML that works offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pauseframe._core import RunError
from pauseframe.files.atomic import write_text
from pauseframe.report.figures import Figures
from pauseframe.report.html import render
from pauseframe.reproduce import expected, plots, scan
from pauseframe.reproduce.judge import VERDICTS
from pauseframe.reproduce.spec import SEEDS, flat_settings
from pauseframe.terminal.text import counted, format_number, plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.reproduce.run import Outcome
    from pauseframe.reproduce.spec import Experiment, Size

SIZES: tuple[Size, ...] = ("full", "quick")


@dataclass(frozen=True)
class Shown:
    """An experiment in a template: its outcome, plots and recorded verdicts."""

    outcome: Outcome
    plots: list[tuple[str, int, str]]
    """Title, figure number and caption of each plot."""
    seeds: str
    other_seeds: str
    """The seeds of the recorded verdicts, if they differ from those of this run."""
    known: dict[str, dict[Size, str]]
    """The recorded results by claim and size of the runs."""


COUNTS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven")
"""Numbers of papers in words."""


def build_pages(outcomes: Sequence[Outcome], out: Path) -> Path:
    """Writes `PAPER.html` for each paper and `index.html`; returns the path of `index.html`."""
    papers = {outcome.experiment.key: outcome.experiment.paper for outcome in outcomes}
    of_paper = {key: [outcome for outcome in outcomes if outcome.experiment.key == key] for key in papers}
    for key, paper in papers.items():
        mine = of_paper[key]
        _write(out / f"{key}.html", "paper.html.j2", mine, paper=paper, title=paper.title)
    count = COUNTS[len(papers)] if len(papers) < len(COUNTS) else str(len(papers))
    title = f"{count} {plural('paper', len(papers))}, claim by claim"
    overview = [(key, paper, _counts(of_paper[key]), len(of_paper[key])) for key, paper in papers.items()]
    changes = {key: value for outcome in outcomes for key, value in outcome.changes.items()}
    others = {"changes": changes, "other_seeds": _other_seeds(outcomes), "few": provisional(outcomes)}
    return _write(out / "index.html", "overview.html.j2", outcomes, overview=overview, title=title, **others)


def provisional(outcomes: Sequence[Outcome]) -> str:
    """A sentence about outcomes with fewer seeds than a verdict needs; empty without any."""
    few = [outcome for outcome in outcomes if outcome.is_provisional]
    if not few:
        return ""
    seeds = counted(min(len(outcome.seeds) for outcome in few), "seed")
    whose = "Verdicts" if len(few) == len(outcomes) else f"Verdicts of {', '.join(one.experiment.id for one in few)}"
    return f"{whose} are provisional: {seeds}, fewer than the {SEEDS} that a verdict needs."


def save_plots(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Saves every plot as `PAPER-NAME-1.pdf` and `.svg`. Raises RunError without matplotlib."""
    if find_spec("matplotlib") is None:
        raise RunError("--pdf needs matplotlib: pip install 'pauseframe[paper]'")
    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        experiment = outcome.experiment
        for index, plot in enumerate(experiment.spec.plots, start=1):
            drawn = plots.figure(experiment, plot, outcome.points)
            for ending in ("pdf", "svg"):
                path = folder / f"{experiment.key}-{experiment.name}-{index}.{ending}"
                plots.save(drawn, plot.title or experiment.title, path)


def _write(path: Path, template: str, outcomes: Sequence[Outcome], **context: Any) -> Path:
    figures = Figures()
    experiments = [_shown(outcome, figures) for outcome in outcomes]
    functions = {
        "number": format_number,
        "scan_state": scan_state,
        "settings": flat_settings,
        "provisional": provisional,
    }
    counts = _counts(outcomes)
    return write_text(path, render(template, figures, experiments=experiments, counts=counts, **functions, **context))


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    verdicts = [judgement.verdict for outcome in outcomes for judgement in outcome.judgements]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def _shown(outcome: Outcome, figures: Figures) -> Shown:
    experiment = outcome.experiment
    known = expected.read(experiment.source.parents[1])
    drawn = []
    for plot in experiment.spec.plots:
        number = figures.add(plots.figure(experiment, plot, outcome.points))
        drawn.append((plot.title or experiment.title, number, plots.counts(plot, outcome.points)))
    recorded = {
        claim.id: {size: text for size in SIZES if (text := expected.stability(known, claim.id, size))}
        for claim in experiment.spec.claims
    }
    return Shown(outcome, drawn, _seeds(outcome.seeds), _known_seeds(outcome), recorded)


def _known_seeds(outcome: Outcome) -> str:
    """The seeds of the recorded verdicts; empty if the outcome has the same."""
    own = list(range(1, 1 + outcome.experiment.size(outcome.size).seeds))
    return "" if outcome.seeds == own else _seeds(own)


def _other_seeds(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """Experiments with other seeds than those of the recorded verdicts: their names, their seeds, the recorded ones."""
    groups = dict[tuple[str, str], list[str]]()
    for outcome in outcomes:
        if known := _known_seeds(outcome):
            groups.setdefault((_seeds(outcome.seeds), known), []).append(outcome.experiment.id)
    return [(", ".join(ids), *seeds) for seeds, ids in groups.items()]


def scan_state(experiment: Experiment, rows: Sequence[scan.Row]) -> str:
    """The progress of a joint scan; empty for other experiments."""
    stages = experiment.spec.stages
    if not stages:
        return ""
    reached = max((row["stage"] for row in rows), default=0)
    if reached == 0:
        return "The scan was not run yet."
    ended = "finished" if reached == len(stages) else "unfinished: it settles nothing yet"
    return f"Stage {reached} of {len(stages)}, {ended}."


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
