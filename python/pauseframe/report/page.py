"""The data for the report's template: figures by their numbers in the page, numbers as texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

    from pauseframe.report.applications import Section
    from pauseframe.report.paths import PathsOfRun
    from pauseframe.report.summary import SummaryTable

    Named = list[tuple[str, int]]
    """Headings, each with the number of a figure."""

    PercentileRow = tuple[int, str, str, list[tuple[str, str]]]
    """Number and label of a run, its finished and total flows, and each percentile with its ratio to the first run."""


@dataclass(frozen=True)
class Bar:
    """A bar of the chart at the top of a report."""

    label: str
    share: float
    """Length relative to the longest bar, 0 to 1."""
    text: str
    run: int
    """Number of the run whose colour the bar has."""


@dataclass(frozen=True)
class Answer:
    """The top of a report: one sentence, one chart, one table."""

    sentence: str
    chart: str
    """Title of the chart at the top of a report."""
    bars: list[Bar]
    heads: list[tuple[str, bool]]
    """Column heads, and whether a phone shows the column."""
    rows: list[tuple[str, list[tuple[str, str]]]]
    """For each row: the first cell, then (text, other causes of the difference) for each further cell."""
    note: str
    figure: int | None = None
    """Number of the figure that is the chart, in place of bars."""
    colours: list[int] | None = None
    """Number of the run whose colour each row has; None: the rows are the runs."""
    wide_note: str = ""
    """The part of the note about columns that a phone does not show."""

    def as_records(self) -> list[dict[str, str]]:
        """The rows by column heads, for --json."""
        names = [head for head, _ in self.heads]
        return [
            dict(zip(names, [first, *(f"{text} ({small})" if small else text for text, small in cells)], strict=True))
            for first, cells in self.rows
        ]


@dataclass(frozen=True)
class Player:
    """The page of a player, embedded in a report."""

    title: str
    html: str


@dataclass(frozen=True)
class RunHeader:
    """Notes about a run, shown beside its results."""

    label: str
    status: str
    seed: int
    version: str
    fingerprint: str
    sim_time: str
    wall: str
    speed: str
    warnings: list[str]
    """Those of this run alone."""
    nic_queue: str
    series_end: str
    """Time at which the series reached its row limit; empty if the series is complete."""
    circles: list[list[str]]
    """The queues of each deadlock."""
    toml: str


@dataclass(frozen=True)
class SizeBin:
    """Completion times of the flows in a size bin."""

    name: str
    cdf: int | None
    """None if no run has two flows."""
    rows: list[PercentileRow]


@dataclass(frozen=True)
class Queries:
    """Completion times of queries, by the size of their responses."""

    figures: Named
    sizes: list[tuple[str, list[PercentileRow]]]


@dataclass(frozen=True)
class GroupPage:
    """Runs that are compared with one another."""

    id: str
    title: str
    text: str
    answer: Answer
    runs: list[RunHeader]
    players: list[tuple[str, str]]
    """Labels of runs, and links to their players."""
    players_by_run: str
    """The links as JSON, by the number of the run."""
    given: list[tuple[str, list[str]]]
    """Keys that somebody set and that differ between the runs, with the value of each."""
    differing: list[tuple[str, list[str]]]
    """Other keys that differ."""
    ideals: str
    """A sentence about ideal times that differ, for slowdowns."""
    warnings: list[tuple[str, list[str]]]
    """Warnings of several runs, with the labels of these."""
    caution: str
    summaries: list[SummaryTable]
    marks: str
    """Explanation of the mark for unsure percentiles; empty if no percentile is marked."""
    bins: list[SizeBin]
    percentiles: Named
    slowdown: Named
    queries: Queries | None
    applications: Section | None
    throughput: Named | None
    """None if the answer's chart shows it."""
    lines: list[tuple[str, str, Named]]
    """Title and note of a sampled metric, and its figures."""
    pauses: list[tuple[str, int, int]]
    """For each run: figures of the depth of pauses over time and of the tree of pauses."""
    paths: list[PathsOfRun]
    drops: int | None
    trimmed: bool
    """True if a run trimmed packets, which the figure of drops then includes."""
    timeouts: int | None
    retransmits: int | None
    heat: Markup | None
    busiest: list[tuple[str, list[list[str]]]]
    """For each run: its busiest ports, with a text per column."""
