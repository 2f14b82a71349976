"""The rule by which runs are ranked by completion times: only runs that finished everything, or nearly so, have a rank.

Times of the finished part exclude whatever took longest, so a run that left work unfinished would look faster than it
is. Reports, sweeps and `cc check` therefore do not rank it, and name what it left.
"""

from __future__ import annotations

from dataclasses import dataclass

from pauseframe.terminal.text import format_count, plural

SAME = 1.01
"""Ratio of two times up to which they count as equal."""


FEW = 0.001
"""Share of unfinished work that leaves a p99 nearly what it is: a tenth of what lies beyond it."""


@dataclass(frozen=True)
class Outcome:
    """A statistic of the times of a run or variant, and the work behind it."""

    value: float | None
    """The statistic over what finished; None if nothing has a time."""
    done: int
    left: int
    """Number of flows, queries or jobs that finished, and that did not."""
    what: str
    """One of what is counted: "flow", "query" or "job"."""

    @property
    def is_ranked(self) -> bool:
        """True if everything finished and has a time, but for a few of thousands."""
        return self.value is not None and self.left <= FEW * self.every

    @property
    def every(self) -> int:
        """The number of all that should finish."""
        return self.done + self.left

    @property
    def finished(self) -> str:
        """How many finished, for a sentence: "finished 3 of 8 flows".

        >>> Outcome(None, 0, 16, "flow").finished, Outcome(2.0, 3, 5, "flow").finished
        ('finished none of 16 flows', 'finished 3 of 8 flows')
        >>> Outcome(None, 0, 1, "job").finished, Outcome(None, 0, 0, "query").finished
        ('did not finish its job', 'has no times of queries')
        """
        if not self.every:
            return f"has no times of {plural(self.what)}"
        if self.every == 1:
            return f"{'did not finish' if self.left else 'finished'} its {self.what}"
        things = f"{format_count(self.every)} {plural(self.what)}"
        part = "all" if not self.left else f"{format_count(self.done) if self.done else 'none'} of"
        return f"finished {part} {things}"

    @property
    def share_finished(self) -> str:
        """How many finished, in place of a bar: "3 of 8 finished"."""
        return f"{format_count(self.done)} of {format_count(self.every)} finished"

    @property
    def unfinished(self) -> str:
        """How many are unfinished, for a sentence: "5 of 8 flows"; "none" if everything finished."""
        if not self.left:
            return "none"
        return f"{format_count(self.left)} of {format_count(self.every)} {plural(self.what, self.every)}"
