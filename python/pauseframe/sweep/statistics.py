"""Medians over seeds with distribution-free confidence intervals.

The interval lies between two order statistics. The number of values below the median is binomial (n, 1/2), which gives
the exact coverage (David and Nagaraja, "Order statistics", 2003, section 7.1). With five or fewer values no interval
reaches 95 %; the interval is then the range of the values, with its smaller coverage.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Estimate:
    """A median with its interval; no interval for a single value, or if values cannot vary."""

    n: int
    median: float
    low: float | None
    high: float | None
    coverage: float
    """A lower bound of the probability that the interval contains the true median."""


def estimate(values: Sequence[float], level: float = 0.95, *, varies: bool = True) -> Estimate:
    """The median of at least one value, and the narrowest interval of order statistics with this level.

    Values that are equal by construction (`varies=False`) count as one observation.

    >>> estimate([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    Estimate(n=6, median=3.5, low=1.0, high=9.0, coverage=0.96875)
    """
    ordered, n = sorted(values), len(values)
    median = statistics.median(ordered)
    if n == 1 or not varies:
        return Estimate(n, median, None, None, 0.0)
    rank = beyond = 1
    while rank < n // 2 and _coverage(n, more := beyond + comb(n, rank)) >= level:
        rank, beyond = rank + 1, more
    return Estimate(n, median, ordered[rank - 1], ordered[n - rank], _coverage(n, beyond))


def _coverage(n: int, beyond: int) -> float:
    """The coverage of an interval, if `beyond` of the 2^n ways put the median beyond each of its ends.

    The numbers are integers until their quotient: 2^1024 is no float.
    """
    return 1.0 - 2 * beyond / (1 << n)
