"""Pages of `pauseframe reproduce`: one for each paper, and an overview.

The pages are static HTML that works offline.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pauseframe._core import RunError, __version__
from pauseframe._files import write_text
from pauseframe._text import format_number
from pauseframe.report.build import _environment
from pauseframe.report.plotly import script_json
from pauseframe.reproduce import expected, plots, scan
from pauseframe.reproduce.judge import VERDICTS, interval, median
from pauseframe.reproduce.page import ClaimPage, ExperimentPage, PartPage, ScanRow
from pauseframe.reproduce.spec import flat_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.report.figures import Figure
    from pauseframe.reproduce.judge import Judgement, Measured
    from pauseframe.reproduce.run import Outcome
    from pauseframe.reproduce.spec import Experiment, Settings, Size

SIZES: tuple[Size, ...] = ("full", "quick")


def build_pages(outcomes: Sequence[Outcome], out: Path) -> Path:
    """Writes `PAPER.html` for each paper and `index.html`; returns the path of `index.html`."""
    papers = {outcome.experiment.key: outcome.experiment.paper for outcome in outcomes}
    of_paper = {key: [outcome for outcome in outcomes if outcome.experiment.key == key] for key in papers}
    for key, paper in papers.items():
        mine = of_paper[key]
        _write(out / f"{key}.html", "paper.html.j2", mine, paper=paper, title=paper.title)
    overview = [(key, paper, _counts(of_paper[key]), len(of_paper[key])) for key, paper in papers.items()]
    return _write(
        out / "index.html", "overview.html.j2", outcomes, overview=overview, title="Seven papers, claim by claim"
    )


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
    items: list[Figure] = []
    experiments = [_experiment(outcome, items) for outcome in outcomes]
    html = (
        _environment()
        .get_template(template)
        .render(
            version=__version__,
            experiments=experiments,
            counts=_counts(outcomes),
            verdicts=VERDICTS,
            figures=script_json(items),
            **context,
        )
    )
    return write_text(path, html)


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    verdicts = [judgement.verdict for outcome in outcomes for judgement in outcome.judgements]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def _experiment(outcome: Outcome, items: list[Figure]) -> ExperimentPage:
    experiment = outcome.experiment
    known = expected.read(experiment.source.parents[1])
    drawn = []
    for plot in experiment.spec.plots:
        items.append(plots.figure(experiment, plot, outcome.points))
        drawn.append((plot.title or experiment.title, len(items) - 1, plots.counts(plot, outcome.points)))
    return ExperimentPage(
        id=experiment.id,
        anchor=experiment.name,
        paper=experiment.key,
        revision=experiment.spec.revision,
        title=experiment.title,
        figure=experiment.spec.figure,
        text=experiment.spec.text,
        size=outcome.size,
        seeds=_seeds(outcome.seeds),
        first_seed=outcome.seeds[0],
        seed_count=len(outcome.seeds),
        other_seeds="" if outcome.seeds == _own_seeds(outcome) else _seeds(_own_seeds(outcome)),
        changes=", ".join(f"{key} = {value}" for key, value in outcome.changes.items()),
        scenario=experiment.spec.scenario or experiment.spec.function,
        settings=flat_settings(experiment, outcome.size),
        plots=drawn,
        claims=[_claim(judgement, known, outcome) for judgement in outcome.judgements],
        scan=[_scanned(row, experiment.spec.present) for row in outcome.scan],
        scan_axes=", ".join(outcome.scan[0]["axes"]) if outcome.scan else "",
        scan_state=scan_state(experiment, outcome.scan),
        failures=outcome.failures,
    )


def _scanned(row: scan.Row, present: Settings) -> ScanRow:
    def shown(value: Any) -> str:
        return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)

    axes = ", ".join(map(shown, row["axes"].values()))
    return ScanRow(axes, row["axes"] == present, row["stage"], row["counts"], row["parts"])


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


def _own_seeds(outcome: Outcome) -> list[int]:
    return list(range(1, 1 + outcome.experiment.size(outcome.size).seeds))


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def _claim(judgement: Judgement, known: expected.Verdicts, outcome: Outcome) -> ClaimPage:
    right, seeds = judgement.holds_in
    claim = judgement.claim
    return ClaimPage(
        id=claim.id,
        text=claim.text,
        claimed=claim.claimed,
        quote=claim.quote,
        why=outcome.told[claim.id],
        verdict=judgement.verdict,
        known={size: text for size in SIZES if (text := expected.stability(known, claim.id, size))},
        holds_in=f"{right} of {seeds} seeds" if seeds > 1 else "",
        parts=[_part(part) for part in judgement.parts],
    )


def _part(measured: Measured) -> PartPage:
    part = measured.part
    middle = median(measured.values)
    bounds = interval(measured.values) if measured.values else None
    value = "-" if middle is None else format_number(middle, 3)
    if bounds:
        value += f" ({format_number(bounds[0], 3)} to {format_number(bounds[1], 3)})"
    return PartPage(
        name=part.title,
        value=value,
        band=part.band_text,
        shape="" if part.theirs is None else " to ".join(format_number(end, 3) for end in part.shape),
        held=f"{measured.held} of {len(measured.values)}",
        at_edge=measured.at_edge,
        samples=measured.samples,
        verdict=measured.verdict,
        note=measured.note,
        instead=part.instead,
    )
