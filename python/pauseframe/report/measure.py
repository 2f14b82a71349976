"""What answers at the top of a report of runs: the times of jobs, queries or flows, and what has no time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.report import data
from pauseframe.results.percentiles import ENOUGH_BEYOND, SHARES
from pauseframe.results.ranking import Outcome
from pauseframe.terminal.text import counted, unfinished_flows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.report.data import RunData

ENOUGH = ENOUGH_BEYOND / (1 - SHARES["p99"])
"""Number of times from which p99 answers; of fewer the slowest does, which is a fact and not an estimate."""


@dataclass(frozen=True)
class Measure:
    """The times that decide: of jobs, queries or flows, in microseconds."""

    what: str
    """One of what is timed: "job", "query", "flow"."""
    name: str
    """Name of the statistic, such as "slowest flow"."""
    times: list[pl.Series]
    """Times by run."""
    left: list[int]
    """Number of those without a time, by run."""

    @property
    def is_p99(self) -> bool:
        """True if p99 decides, False if the slowest does."""
        return self.name.startswith("p99")

    def outcome(self, run: int) -> Outcome:
        """The statistic of a run over what finished, and what did not."""
        times = self.times[run]
        share = SHARES["p99"] if self.is_p99 else 1.0
        value = None if times.is_empty() else float(times.quantile(share, "linear"))  # type: ignore[arg-type]
        return Outcome(value, len(times), self.left[run], self.what)

    def outcomes(self) -> list[Outcome]:
        """The outcomes of all runs."""
        return [self.outcome(run) for run in range(len(self.times))]

    def median(self, run: int) -> float | None:
        """The median of a run; None if nothing has a time."""
        times = self.times[run]
        return None if times.is_empty() else float(times.median())  # type: ignore[arg-type]


def measure_of(runs: Sequence[RunData]) -> Measure:
    """Jobs, else queries, else flows: the first that all runs have, and of which one finished in any run.

    If nothing finished in any run, the first that all runs have.
    """
    found = {
        what: [times(run) for run in runs]
        for what, times in (("job", _job_times), ("query", _query_times), ("flow", _flow_times))
    }
    shared = [what for what, times in found.items() if all(map(len, times))]
    timed = [what for what in shared if any(one.count() for one in found[what])]
    if not timed and any(one.count() for one in found["flow"]):
        return _measured("flow", found["flow"])
    what = next(iter([*timed, *shared, "flow"]))
    return _measured(what, found[what])


def other_work(run: RunData, what: str) -> str:
    """What a run left unfinished besides the `what` that its answer is about: "1 job and 12 flows", or ""."""
    left = {
        "job": 0 if run.jobs is None else _job_times(run).null_count(),
        "query": run.summary["queries_total"] - run.summary["queries_finished"],
        "flow": unfinished_flows(run.summary),
    }
    return " and ".join(counted(count, one) for one, count in left.items() if count and one != what)


def _measured(what: str, found: list[pl.Series]) -> Measure:
    times = [one.drop_nulls() for one in found]
    # Runs in which nothing finished do not turn the p99 of the others into their slowest.
    is_sure = min((len(one) for one in times if len(one)), default=0) >= ENOUGH
    return Measure(what, f"p99, {what}" if is_sure else f"slowest {what}", times, [one.null_count() for one in found])


def _job_times(run: RunData) -> pl.Series:
    empty = pl.Series("time_us", [], dtype=pl.Float64)
    return empty if run.jobs is None else run.jobs.select("time_us").collect()["time_us"]


def _query_times(run: RunData) -> pl.Series:
    return run.queries.select("fct_us").collect()["fct_us"]


def _flow_times(run: RunData) -> pl.Series:
    """Of flows that finish or should have finished, without those that never have a completion time."""
    timed = pl.col("fct_us").is_not_null() | data.is_unfinished()
    return run.flows.filter(timed).select("fct_us").collect()["fct_us"]
