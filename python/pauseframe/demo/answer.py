"""The demo's answer: one sentence, one chart and one table, from the demo's own runs over all seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.report import Answer, Bar
from pauseframe.report.data import conditions_of, is_unfinished
from pauseframe.results.causes import Conditions, other_causes
from pauseframe.results.percentiles import SHARES, TITLES, explanation, highest_sure, marked
from pauseframe.results.ranking import Outcome
from pauseframe.terminal.text import MISSING, format_count, format_number, format_times, format_us, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.report import RunData

NAMES = {
    "tcp": "TCP",
    "dctcp": "DCTCP",
    "tcp_dcb": "TCP over PFC",
    "tcp_bolt": "TCP-Bolt",
    "tcp_bolt_spray": "TCP-Bolt, sprayed",
}
HEADS = ("transport", "p50", "p99", "p99.9", "beside TCP", "background", "dropped", "timeouts", "pauses")
WIDE_ONLY = ("p50", "p99.9", "background", "timeouts", "pauses")
"""Columns that are hidden on a phone."""


@dataclass(frozen=True)
class Pooled:
    """The runs of one transport with all seeds."""

    name: str
    incasts: pl.Series
    """Completion times of finished incasts, in microseconds."""
    unfinished: int
    background: pl.Series
    """Slowdowns of finished background flows."""
    drops: int
    timeouts: int
    pauses: int
    conditions: Conditions
    background_unfinished: int = 0

    @property
    def outcome(self) -> Outcome:
        """What became of the incasts."""
        return Outcome(self.time("p99"), len(self.incasts), self.unfinished, "incast")

    def time(self, percentile: str) -> float | None:
        """A percentile of the incasts' completion times, in microseconds."""
        return _quantile(self.incasts, percentile)

    def time_text(self, percentile: str) -> str:
        """The percentile as text, with a mark if too few samples lie beyond it."""
        return marked(format_us(self.time(percentile)), len(self.incasts), SHARES[percentile])


def answer(runs: Mapping[str, Sequence[RunData]]) -> Answer:
    """The answer from the runs of all seeds by variant; TCP comes first."""
    pooled = {variant: _pooled(NAMES[variant], of_one) for variant, of_one in runs.items()}
    percentile = _shown([one.incasts for one in pooled.values()])
    of_background = _of_background(pooled)
    rows = [(one.name, _cells(one, pooled["tcp"], percentile, of_background)) for one in pooled.values()]
    return Answer(
        sentence=_sentence(pooled, percentile),
        chart=f"{TITLES[percentile]} of incast completion time",
        bars=_bars(list(pooled.values()), percentile),
        heads=[(head, head not in WIDE_ONLY) for head in HEADS],
        rows=rows,
        note=_note(pooled, rows),
        wide_note=f"Background: {TITLES[_of_background(pooled)]} of the slowdown of flows of 64 KB to 32 MB.",
    )


def _shown(samples: Sequence[pl.Series]) -> str:
    """The highest percentile, up to p99, that is sure in each of several samples."""
    return min(highest_sure(min(len(one) for one in samples)), "p99", key=lambda name: SHARES[name])


def _of_background(pooled: Mapping[str, Pooled]) -> str:
    """The percentile of background flows in the sentence and in the table; they are fewer than incasts, or more."""
    return _shown([one.background for one in pooled.values()])


def _pooled(name: str, runs: Sequence[RunData]) -> Pooled:
    incasts = pl.concat([run.queries.select("fct_us").collect() for run in runs])["fct_us"]
    flows = pl.concat(
        [
            run.flows.filter(pl.col("workload").cast(pl.String) == "background")
            .select("slowdown", is_unfinished().alias("unfinished"))
            .collect()
            for run in runs
        ]
    )
    return Pooled(
        name,
        incasts.drop_nulls(),
        incasts.null_count(),
        flows["slowdown"].drop_nulls(),
        sum(run.summary["drops"] for run in runs),
        sum(run.summary["timeouts"] for run in runs),
        sum(run.summary["pfc_pauses"] for run in runs),
        Conditions.together(name, [conditions_of(run) for run in runs]),
        int(flows["unfinished"].sum()),
    )


def _quantile(values: pl.Series, percentile: str) -> float | None:
    return None if values.is_empty() else float(values.quantile(SHARES[percentile], "linear"))  # type: ignore[arg-type]


def _sentence(pooled: Mapping[str, Pooled], percentile: str) -> str:
    """The sentence that compares TCP-Bolt with TCP, and with DCTCP, its strongest rival, whatever the outcome.

    Times are compared only if all incasts of these three finished.
    """
    tcp, dctcp, bolt = pooled["tcp"], pooled["dctcp"], pooled["tcp_bolt"]
    times = [one.time(percentile) for one in (tcp, dctcp, bolt)]
    if any(one.unfinished for one in (tcp, dctcp, bolt)) or None in times:
        return f"{', '.join(f'{one.name} {one.outcome.finished}' for one in (tcp, dctcp, bolt))}."
    of_tcp, of_dctcp, of_bolt = (time or 0.0 for time in times)
    lost = (
        "drops no packet"
        if bolt.drops == 0
        else f"drops {_whole(format_count(bolt.drops))} {plural('packet', bolt.drops)}"
    )
    of_background = _of_background(pooled)
    background = [_quantile(one.background, of_background) for one in (dctcp, bolt)]
    text = (
        f"TCP-Bolt finishes incasts {_times(of_tcp, of_bolt)} than TCP at {TITLES[percentile]} "
        f"({_whole(format_us(of_bolt))} against {_whole(format_us(of_tcp))}) and {lost}, where TCP drops "
        f"{_whole(format_count(tcp.drops))}"
    )
    left = [one for one in (dctcp, bolt) if one.background_unfinished]
    if left:
        counts = ", ".join(f"{one.name} left {format_count(one.background_unfinished)}" for one in left)
        return f"{text}; of the background flows {counts} unfinished."
    if None in background:
        return f"{text}."
    flows = _times(background[1] or 0.0, background[0] or 0.0)
    joined = "and" if flows.endswith("faster") == (of_dctcp < of_bolt) else "but"
    return (
        f"{text}; DCTCP finishes incasts {_times(of_bolt, of_dctcp)} than TCP-Bolt, {joined} background flows {flows} "
        f"at {TITLES[of_background]} of their slowdown."
    )


def _whole(value: str) -> str:
    """A number and its unit with a non-breaking space."""
    return value.replace(" ", "\u00a0")


def _times(base: float, other: float) -> str:
    """Compares the time `other` with the time `base`.

    >>> _times(6000, 800), _times(1.0, 2.0), _times(1.0, 1.001)
    ('7.5 times faster', '2 times slower', 'no faster and no slower')
    """
    ratio = base / other
    if 0.99 < ratio < 1.01:
        return "no faster and no slower"
    factor = max(ratio, 1 / ratio)
    return f"{format_times(factor)} times {'faster' if ratio > 1 else 'slower'}"


def _bars(pooled: Sequence[Pooled], percentile: str) -> list[Bar]:
    """Bars of the transports whose incasts all finished."""
    lengths = [0.0 if one.unfinished else one.time(percentile) or 0.0 for one in pooled]
    longest = max(lengths, default=0.0)
    return [
        Bar(
            one.name,
            length / longest if longest else 0.0,
            one.outcome.share_finished if one.unfinished else one.time_text(percentile),
            number,
        )
        for number, (one, length) in enumerate(zip(pooled, lengths, strict=True))
    ]


def _cells(one: Pooled, tcp: Pooled, percentile: str, of_background: str) -> list[tuple[str, str]]:
    mine, base = one.time(percentile), tcp.time(percentile)
    ratio, causes = "", ""
    if one is not tcp and mine and base:
        compared = not (one.unfinished or tcp.unfinished)
        ratio = _times(base, mine) if compared else MISSING
        causes = ", ".join(other_causes(tcp.conditions, one.conditions))
    background = _quantile(one.background, of_background)
    slowdown = marked(f"× {format_number(background)}", len(one.background), SHARES[of_background])
    left = f"{one.unfinished} unfinished" if one.unfinished else ""
    times = [(one.time_text(name), left) for name in ("p50", "p99", "p999")]
    counts = [(format_count(count), "") for count in (one.drops, one.timeouts, one.pauses)]
    return [*times, (ratio, causes), (slowdown if background is not None else MISSING, ""), *counts]


def _note(pooled: Mapping[str, Pooled], rows: Sequence[tuple[str, list[tuple[str, str]]]]) -> str:
    incasts, flows = ([len(getattr(one, name)) for one in pooled.values()] for name in ("incasts", "background"))
    text = (
        f"{_range(incasts)} incasts and {_range(flows)} background flows of each transport, all seeds together. "
        "p50, p99, p99.9: completion time of an incast, ten responses of 2, 4 or 8 KB."
    )
    return " ".join(part for part in (text, explanation(cell for _, row in rows for cell, _ in row)) if part)


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
