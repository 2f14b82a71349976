"""Intervals of medians against their definition, for all sizes of a sweep; the test kills the mutants of the module."""

from __future__ import annotations

import ast
import itertools
import statistics
import sys
from types import ModuleType

import code_mutants
import pytest
from pauseframe.sweep import statistics as ours

EQUIVALENT = ["rank < n // 2 -> rank <= n // 2"]
"""Beyond the middle no interval covers anything, so that the loop ends there as well."""


def exact(n: int, rank: int) -> float:
    """Share of the 2^n ways in which values lie below or above the median that the interval covers."""
    below = [sum(way) for way in itertools.product((0, 1), repeat=n)]
    return sum(rank <= count <= n - rank for count in below) / len(below)


def check(module: ModuleType) -> None:
    """Compares a module with the definition: the narrowest interval of order statistics with the level."""
    for n in range(2, 13):
        values = [float(number * number) for number in range(n, 0, -1)]
        ordered = sorted(values)
        for level in (0.5, 0.8, 0.95, 0.99):
            found = module.estimate(values, level)
            ranks = [rank for rank in range(1, n // 2 + 1) if exact(n, rank) >= level]
            rank = max(ranks, default=1)
            assert (found.n, hash(found)) == (n, hash(found))  # frozen
            assert found.median == statistics.median(values)
            assert (found.low, found.high) == (ordered[rank - 1], ordered[n - rank])
            assert found.coverage == pytest.approx(exact(n, rank), abs=1e-12)
        default = module.estimate(values)
        assert default == module.estimate(values, 0.95)
        assert module.estimate(values, varies=False) == module.Estimate(n, default.median, None, None, 0.0)
    assert module.estimate([3.0, 9.0, 27.0, 81.0], 0.625).coverage == 0.875
    assert module.estimate([1.0, 2.0, 3.0, 4.0], exact(4, 2)).low == 2.0  # a level that is met exactly
    assert module.estimate([7.0]) == module.Estimate(1, 7.0, None, None, 0.0)


def test_intervals_follow_the_definition() -> None:
    check(ours)


def test_intervals_of_thousands_of_seeds() -> None:
    """The normal approximation of the binomial distribution gives the rank; 2^1024 is no float."""
    n = 4000
    found = ours.estimate([float(number) for number in range(1, n + 1)])
    assert found.low == pytest.approx(n / 2 - 1.96 * n**0.5 / 2, abs=1)
    assert found.coverage == pytest.approx(0.95, abs=0.002)


def test_every_mutant_of_the_module_is_killed() -> None:
    source = (code_mutants.PACKAGE / "sweep/statistics.py").read_text(encoding="utf-8")
    survivors = []
    for number in range(len(code_mutants.places(ast.parse(source)))):
        text, what = code_mutants.mutate(source, number)
        module = ModuleType("pauseframe.sweep.statistics")
        try:
            sys.modules[module.__name__], kept = module, sys.modules[module.__name__]
            exec(compile(text, "mutant", "exec"), module.__dict__)
            check(module)
        except Exception:  # noqa: BLE001 (killed, whatever the mutant ends in)
            continue
        finally:
            sys.modules[module.__name__] = kept
        survivors.append(what.partition(": ")[2])
    assert survivors == EQUIVALENT
