"""The top of a report of runs: one sentence with the answer, one chart, one table; everything else is detail below."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.report import data, figures, sentences
from pauseframe.report.measure import measure_of
from pauseframe.report.page import Answer, Bar
from pauseframe.report.summary import ratio
from pauseframe.results.causes import other_causes
from pauseframe.results.percentiles import SHARES, explanation, marked
from pauseframe.terminal.text import MISSING, format_bytes, format_count, format_rate, format_us, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Figure
    from pauseframe.report.measure import Measure
    from pauseframe.results.causes import Conditions

HEADS = {
    "run": True,
    "finished": False,
    "median": False,
    "time": True,
    "throughput": False,
    "dropped": True,
    "trimmed": True,
    "timeouts": False,
    "pauses": True,
    "fullest switch": False,
}
"""Columns of the table, and whether a phone shows them; "time" gets the name of the measure."""
ALL_FLOWS = "times of all flows"
"""Title of the chart that shows the times of all flows of one run."""


def answer(runs: Sequence[RunData], add: Callable[[Figure], int]) -> Answer:
    """The answer of one run, or of several that are compared with the first; `add` adds a figure to the page."""
    measure = measure_of(runs)
    chart, figure = "", None
    bars: list[Bar] = []
    if len(runs) > 1:
        chart, bars = _bars(runs, measure)
    elif (drawn := _chart(runs[0], measure)) is not None:
        chart, figure = drawn[0], add(drawn[1])
    return Answer(
        sentence=sentences.of_one(runs[0], measure) if len(runs) == 1 else sentences.of_several(runs, measure),
        chart=chart,
        bars=bars,
        heads=_heads(runs, "run", measure.name),
        rows=[(run.label, _cells(runs, number, measure)) for number, run in enumerate(runs)],
        note=f"× n: so many times the value of {runs[0].label}." if len(runs) > 1 else "",
        figure=figure,
        wide_note=_wide_note(runs, measure),
    )


def of_scenarios(lead: str, groups: Mapping[str, Sequence[RunData]]) -> Answer:
    """The answer for runs of several scenarios: `groups` has the same contenders for each; the first is compared.

    The sentence begins with `lead`. Bars of one scenario have one scale.
    """
    measures = {title: measure_of(runs) for title, runs in groups.items()}
    bars: list[Bar] = []
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    colours: list[int] = []
    every = [run for runs in groups.values() for run in runs]
    for title, runs in groups.items():
        measure = measures[title]
        bars += [replace(bar, label=f"{title}: {bar.label}") for bar in _bars(runs, measure)[1]]
        cells = [_cells(runs, number, measure, trimmed=_has_trims(every)) for number in range(len(runs))]
        rows += [(f"{title}: {run.label}", of_run) for run, of_run in zip(runs, cells, strict=True)]
        colours += range(len(runs))
    names = " or ".join(sorted({measure.name for measure in measures.values()}))
    first = next(iter(groups.values()))[0].label
    note = (
        f"× n: so many times the value of {first}. Where nothing finished, bars show throughput; a run that left work "
        "unfinished beside one that finished has no bar."
    )
    sentence = " ".join([lead, *sentences.beside(measures, groups)])
    chart = f"{names}, each scenario on its own scale"
    return Answer(sentence, chart, bars, _heads(every, "scenario", names), rows, note, None, colours)


def _heads(runs: Sequence[RunData], first: str, time: str) -> list[tuple[str, bool]]:
    """The columns of the table; without trimmed packets that column is left out."""
    names = {"run": first, "time": time}
    return [(names.get(head, head), narrow) for head, narrow in HEADS.items() if head != "trimmed" or _has_trims(runs)]


def _has_trims(runs: Sequence[RunData]) -> bool:
    return any(map(data.trims, runs))


def _bars(runs: Sequence[RunData], measure: Measure) -> tuple[str, list[Bar]]:
    """The title and the bars of a chart: times of runs that finished everything; throughput if nothing finished."""
    outcomes = measure.outcomes()
    if any(outcome.done for outcome in outcomes):
        lengths = [outcome.value if outcome.is_ranked else None for outcome in outcomes]
        texts = [
            outcome.share_finished if outcome.left else format_us(value)
            for outcome, value in zip(outcomes, lengths, strict=True)
        ]
        title = measure.name
    else:
        lengths = [data.mean_throughput(run) for run in runs]
        texts = list(map(format_rate, lengths))
        title = "throughput of all flows together"
    longest = max((length or 0.0 for length in lengths), default=0.0)
    return title, [
        Bar(run.label, (length or 0.0) / longest if longest else 0.0, text, number)
        for number, (run, length, text) in enumerate(zip(runs, lengths, texts, strict=True))
    ]


def _chart(run: RunData, measure: Measure) -> tuple[str, Figure] | None:
    """Of one run the distribution of its times, or where they say nothing its throughput."""
    if measure.times[0].n_unique() > 1:
        title = ALL_FLOWS if measure.what == "flow" else f"times of all {plural(measure.what)}"
        return title, figures.cdf_figure([(0, run.label, measure.times[0])], measure.what)
    return next(iter(figures.throughput_figures([run])), None)


def _cells(
    runs: Sequence[RunData], number: int, measure: Measure, trimmed: bool | None = None
) -> list[tuple[str, str]]:
    """The cells of a run; `trimmed` includes the column of trimmed packets, by default if one of the runs has any."""
    run, said = runs[number], runs[number].summary
    outcomes = measure.outcomes()
    mine, first = outcomes[number], outcomes[0]
    is_compared = number and mine.value is not None
    causes = other_causes(_conditions(runs, 0, measure), _conditions(runs, number, measure)) if is_compared else []
    values, medians = [one.value for one in outcomes], [measure.median(other) for other in range(len(runs))]
    # Times of the finished part alone are not compared: that part excludes whatever took longest.
    times, of_median = ("", "") if mine.left or first.left else (ratio(values, number), ratio(medians, number))
    trims = [(format_count(data.trims(run)), "")] if (_has_trims(runs) if trimmed is None else trimmed) else []
    return [
        (f"{format_count(mine.done)} of {format_count(mine.every)}" if mine.left else format_count(mine.done), ""),
        (marked(format_us(medians[number]), mine.done, SHARES["p50"]), of_median),
        (format_us(mine.value), ", ".join([*([times] if times else []), *causes])),
        (format_rate(data.mean_throughput(run)), ""),
        (format_count(said["drops"]), ""),
        *trims,
        (format_count(said["timeouts"]), ""),
        (format_count(said["pfc_pauses"]), ""),
        (MISSING if (held := said.get("switch_held_max_bytes")) is None else format_bytes(held), ""),
    ]


def _conditions(runs: Sequence[RunData], number: int, measure: Measure) -> Conditions:
    """The conditions of a run, with what is unfinished of the things whose times are shown."""
    outcome = measure.outcome(number)
    return data.conditions_of(runs[number]).counting(outcome.what, outcome.every, outcome.left)


def _wide_note(runs: Sequence[RunData], measure: Measure) -> str:
    to_end = ", or until the end of a run that left flows unfinished" if any(map(data.waits_at_end, runs)) else ""
    parts = [
        f"Finished, median, {measure.name}: times of {plural(measure.what)}.",
        f"Throughput: of all flows together, the mean until 99.5 % of all bytes had come{to_end}.",
    ]
    medians = [
        marked(format_us(measure.median(run)), len(times), SHARES["p50"]) for run, times in enumerate(measure.times)
    ]
    return " ".join([*parts, *filter(None, [explanation(medians)])])
