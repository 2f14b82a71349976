"""Chance constraints: a setting keeps its constraints if a declared share of all seeds keeps them.

Each seed keeps the constraints or breaks one, so the number of broken seeds is binomial. A setting is accepted once its
held-out seeds show the share with 95 % confidence (Clopper and Pearson, 1934): 59 seeds without a broken one for a
share of 95 %, 93 with one, 124 with two, 153 with three. Because each count is a further chance to pass, 11 % of the
settings whose share is only just 95 % pass (computed for this sequence of looks); of those with 90 %, 0.3 %.
"""

from __future__ import annotations

from functools import cache
from math import comb

CONFIDENCE = 0.95
MAX_BROKEN = 3
"""Number of broken seeds above which a setting is given up."""
FIRST = 20
"""Number of seeds of a first look, after which bad settings are given up."""


def at_most(broken: int, seeds: int, chance: float) -> float:
    """The probability of at most `broken` broken seeds, each broken with the given chance.

    >>> round(at_most(0, 59, 0.05), 4)
    0.0485
    """
    return sum(comb(seeds, n) * chance**n * (1 - chance) ** (seeds - n) for n in range(broken + 1))


@cache
def seeds_needed(broken: int, share: float) -> int:
    """The number of seeds that shows the share if `broken` of them are broken.

    >>> [seeds_needed(broken, 0.95) for broken in (0, 1, 2, 3)], seeds_needed(0, 0.5)
    ([59, 93, 124, 153], 5)
    """
    seeds = broken + 1
    while at_most(broken, seeds, 1 - share) > 1 - CONFIDENCE:
        seeds += 1
    return seeds


def shown_share(broken: int, seeds: int) -> float:
    """The share of all seeds that keeps the constraints with 95 % confidence: the lower Clopper-Pearson bound.

    >>> round(shown_share(0, 60), 3), round(shown_share(2, 60), 3), shown_share(5, 5)
    (0.951, 0.899, 0.0)
    """
    low, high = 0.0, 1.0
    for _ in range(50 if broken < seeds else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(broken, seeds, 1 - middle) <= 1 - CONFIDENCE else (low, middle)
    return low


def is_hopeless(broken: int, seeds: int, share: float) -> bool:
    """True if so many broken seeds are unlikely (5 %) for a setting that keeps the share.

    >>> is_hopeless(2, 13, 0.95), is_hopeless(3, 13, 0.95)
    (False, True)
    """
    return broken > MAX_BROKEN or (broken > 0 and 1 - at_most(broken - 1, seeds, 1 - share) < 1 - CONFIDENCE)
