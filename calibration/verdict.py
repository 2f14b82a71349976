"""Ours against the kernel's, row by row.

A run is one draw: where chance enters (jitter) ours are several seeds, and so are the kernel's where the laboratory
made more runs (`linux/seeds.csv`); medians are compared. Outside the band but between the extremes of the other side
is `in range`. Rows known to be outside stand with their reasons in `known.toml`.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

import polars as pl
from figures import band

HERE = Path(__file__).parent
Standing = Literal["inside", "in range", "outside"]


@dataclass(frozen=True)
class Row:
    """One figure of one scenario."""

    scenario: str
    figure: str
    reference: float
    """Of the kernel's reference run."""
    ours: float
    low: float
    high: float
    noise: tuple[float | None, float | None] = (None, None)
    """Between the parts of the kernel's reference run."""
    others: tuple[float, ...] = ()
    """Of the kernel's runs with other seeds."""

    @property
    def kernel(self) -> float:
        """The median of the kernel's runs."""
        return median((self.reference, *self.others))

    @property
    def spread(self) -> tuple[float | None, float | None]:
        """The range over the kernel's runs; with one run, over its parts."""
        return (min(self.reference, *self.others), max(self.reference, *self.others)) if self.others else self.noise

    @property
    def is_a_draw(self) -> bool:
        """One event of the kernel's run, which chance decides: no median, mean or count over many."""
        return self.figure.startswith(("completion round", "share"))

    @property
    def standing(self) -> Standing:
        """Where ours lies."""
        if band(self.figure).holds(self.ours, self.kernel):
            return "inside"
        least, most = self.spread if self.others else (math.inf, -math.inf)
        is_common = least is not None and most is not None and least <= self.ours <= most
        return "in range" if is_common or self.low <= self.kernel <= self.high else "outside"

    @property
    def kernel_inside_itself(self) -> float | None:
        """How often, over all ways to halve them, the median of half of the runs lies in the other half's band.

        None if it was run once.
        """
        runs = (self.reference, *self.others)
        if len(runs) < 2:
            return None
        verdicts = []
        for chosen in combinations(range(len(runs)), len(runs) // 2):
            one = median(runs[index] for index in chosen)
            other = median(run for index, run in enumerate(runs) if index not in chosen)
            verdicts.append(band(self.figure).holds(one, other))
        return fmean(verdicts)

    @property
    def is_inside_reference(self) -> bool:
        """Whether ours lies within the band around the reference run alone."""
        return band(self.figure).holds(self.ours, self.reference)


def reference() -> dict[str, dict[str, float]]:
    """The kernel's figures by scenario."""
    rows = pl.read_csv(HERE / "linux" / "figures.csv")
    found: dict[str, dict[str, float]] = {}
    for scenario, figure, value in rows.select("scenario", "figure", "kernel").iter_rows():
        found.setdefault(scenario, {})[figure] = value
    return found


def kernel_noise() -> dict[tuple[str, str], tuple[float | None, float | None]]:
    """The kernel's own spread by scenario and figure."""
    rows = pl.read_csv(HERE / "linux" / "figures.csv").select("scenario", "figure", "low", "high")
    return {(scenario, figure): (low, high) for scenario, figure, low, high in rows.iter_rows()}


def kernel_seeds() -> dict[tuple[str, str], tuple[float, ...]]:
    """The figures of the kernel's runs with other seeds, by scenario and figure."""
    rows = pl.read_csv(HERE / "linux" / "seeds.csv")
    found: dict[tuple[str, str], list[float]] = {}
    for scenario, figure, value in rows.select("scenario", "figure", "kernel").iter_rows():
        found.setdefault((scenario, figure), []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def compare(scenario: str, kernel: dict[str, float], seeds: list[dict[str, float]]) -> list[Row]:
    """A row for each of the kernel's figures that every run of ours has."""
    rows = []
    noise, others = kernel_noise(), kernel_seeds()
    for figure, value in kernel.items():
        ours = [found.get(figure, 0.0) for found in seeds]
        own = noise.get((scenario, figure), (None, None))
        more = others.get((scenario, figure), ())
        rows.append(Row(scenario, figure, value, median(ours), min(ours), max(ours), own, more))
    return rows


def known() -> list[dict[str, Any]]:
    """Rows that are known to be outside: scenario, figures, reason."""
    rows: list[dict[str, Any]] = tomllib.loads((HERE / "known.toml").read_text())["outside"]
    return rows


def reason(row: Row, reasons: list[dict[str, Any]]) -> str | None:
    """Why this row is outside, if that is known."""
    for entry in reasons:
        if entry["scenario"] == row.scenario and row.figure in entry["figures"]:
            return str(entry["reason"])
    return None
