"""Pages of `pauseframe reproduce`: one a paper, and an overview of all. Static HTML that needs no network."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pauseframe import RunError, __version__
from pauseframe._files import write_text
from pauseframe._text import format_number
from pauseframe.report.build import _environment, _plotly_js, _script_json
from pauseframe.reproduce import expected, plots
from pauseframe.reproduce.judge import VERDICTS, interval, median
from pauseframe.reproduce.spec import flat_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.report.figures import Figure
    from pauseframe.reproduce.judge import Judgement, Measured
    from pauseframe.reproduce.run import Outcome


def build_pages(outcomes: Sequence[Outcome], out: Path) -> Path:
    """Writes `PAPER.html` for each paper and `index.html`, and returns the path of the latter."""
    papers = list({outcome.experiment.paper.key: outcome.experiment.paper for outcome in outcomes}.values())
    for paper in papers:
        mine = [outcome for outcome in outcomes if outcome.experiment.paper is paper]
        _write(out / f"{paper.key}.html", "paper.html.j2", mine, paper=paper, title=paper.title)
    rows = [(paper, [outcome for outcome in outcomes if outcome.experiment.paper is paper]) for paper in papers]
    overview = [(paper, _counts(mine), len(mine)) for paper, mine in rows]
    return _write(
        out / "index.html", "overview.html.j2", outcomes, overview=overview, title="Four papers, claim by claim"
    )


def save_plots(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Every plot as `PAPER-NAME-1.pdf` and `.svg`. Raises RunError without matplotlib."""
    if find_spec("matplotlib") is None:
        raise RunError("--pdf needs matplotlib: pip install 'pauseframe[paper]'")
    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        experiment = outcome.experiment
        for index, plot in enumerate(experiment.plots, start=1):
            drawn = plots.figure(experiment, plot, outcome.points)
            for ending in ("pdf", "svg"):
                path = folder / f"{experiment.paper.key}-{experiment.name}-{index}.{ending}"
                plots.save(drawn, plot.get("title", experiment.title), path)


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
            figures=_script_json(items),
            plotly_js=_plotly_js(),
            **context,
        )
    )
    return write_text(path, html)


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    verdicts = [judgement.verdict for outcome in outcomes for judgement in outcome.judgements]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def _experiment(outcome: Outcome, items: list[Figure]) -> dict[str, Any]:
    experiment = outcome.experiment
    known = expected.read(experiment.paper.folder.parent) if outcome.size == "quick" else {}
    drawn = []
    for plot in experiment.plots:
        items.append(plots.figure(experiment, plot, outcome.points))
        drawn.append((plot.get("title", experiment.title), len(items) - 1))
    return {
        "id": experiment.id,
        "anchor": experiment.name,
        "paper": experiment.paper.key,
        "revision": experiment.revision,
        "title": experiment.title,
        "figure": experiment.figure,
        "text": experiment.text,
        "size": outcome.size,
        "seeds": experiment.seeds(outcome.size),
        "scenario": experiment.scenario.name if experiment.scenario else experiment.function,
        "settings": flat_settings(experiment, outcome.size),
        "plots": drawn,
        "claims": [_claim(judgement, known) for judgement in outcome.judgements],
        "failures": outcome.failures,
    }


def _claim(judgement: Judgement, known: expected.Known) -> dict[str, Any]:
    right, seeds = judgement.holds_in
    return {
        "id": judgement.claim.id,
        "text": judgement.claim.text,
        "claimed": judgement.claim.claimed,
        "why": judgement.claim.why,
        "verdict": judgement.verdict,
        "stability": expected.stability(known, judgement.claim.id),
        "holds_in": f"{right} of {seeds} seeds" if seeds > 1 else "",
        "parts": [_part(part) for part in judgement.parts],
    }


def _part(measured: Measured) -> dict[str, str]:
    part = measured.part
    middle = median(measured.values)
    bounds = interval(measured.values) if measured.values else None
    value = measured.note if middle is None else format_number(middle, 3)
    if bounds:
        value += f" ({format_number(bounds[0], 3)} to {format_number(bounds[1], 3)})"
    return {"name": part_name(part), "value": value, "band": band_text(part), "verdict": measured.verdict}


def part_name(part: dict[str, Any]) -> str:
    """What a part measures, in words."""
    if "name" in part:
        return str(part["name"])
    who = [_variant_name(part[key]) for key in ("variant", "of", "over") if key in part]
    return f"{part['metric']}: {' / '.join(who) or ' < '.join(map(str, part.get('order', [])))}"


def _variant_name(who: Any) -> str:
    if isinstance(who, list):
        return ", ".join(map(_variant_name, who))
    return who if isinstance(who, str) else str(who.get("variant", ""))


def band_text(part: dict[str, Any]) -> str:
    """The band of a part: "0.8 to 1.25", "at least 4"."""
    low, high = part.get("low"), part.get("high")
    if part["kind"] == "zero":
        return "0"
    if part["kind"] in ("share", "monotone"):
        return f"at least {part.get('least', 1)}"
    if part["kind"] == "order":
        return "in this order" + (f", within {part['slack']:.0%}" if part.get("slack") else "")
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"
