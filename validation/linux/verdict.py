"""Compares the simulator's figures with those of the kernel, row by row.

A run is one random draw. Where chance matters (jitter), the simulator runs with several seeds, and so does the kernel
where the laboratory made more runs (`recorded/seeds.csv`); the comparison uses medians. A row outside its band but
between the extremes of the other side is `in range`. `known.toml` lists the rows that are known to be outside, with
reasons.
"""

from __future__ import annotations

import csv
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
HELD_OUT = HERE / "recorded" / "held_out.csv"
KEPT = HERE / "recorded" / "hosts.csv"
Standing = Literal["inside", "in range", "outside"]


@dataclass(frozen=True)
class Row:
    """One figure of one scenario."""

    scenario: str
    figure: str
    reference: float
    """Value of the kernel's reference run."""
    ours: float
    low: float
    high: float
    noise: tuple[float | None, float | None] = (None, None)
    """Smallest and largest value between parts of the kernel's reference run."""
    others: tuple[float, ...] = ()
    """Values of the kernel's runs with other seeds."""

    @property
    def kernel(self) -> float:
        """The median of the kernel's runs."""
        return median((self.reference, *self.others))

    @property
    def spread(self) -> tuple[float | None, float | None]:
        """Smallest and largest value of the kernel's runs or, with a single run, of the parts of that run."""
        return (min(self.reference, *self.others), max(self.reference, *self.others)) if self.others else self.noise

    @property
    def is_a_draw(self) -> bool:
        """True for a single random event of the kernel's run, as opposed to a median, mean or count over many."""
        return self.figure.startswith(("completion round", "share"))

    @property
    def measures_spacing(self) -> bool:
        """True for the completion of an incast, which depends on the time between the answers of the servers."""
        return self.scenario.startswith("f_") and self.figure.startswith("completion")

    @property
    def standing(self) -> Standing:
        """Position of the simulator's value: inside the band, in range, or outside."""
        if band(self.figure).holds(self.ours, self.kernel):
            return "inside"
        least, most = self.spread if self.others else (math.inf, -math.inf)
        is_common = least is not None and most is not None and least <= self.ours <= most
        return "in range" if is_common or self.low <= self.kernel <= self.high else "outside"

    @property
    def kernel_inside_itself(self) -> float | None:
        """Share of splits in which the median of one half of the kernel's runs lies in the other half's band.

        The share is taken over all splits of the runs into two halves; None for a single run.
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
        """True if the simulator's value lies within the band around the reference run alone."""
        return band(self.figure).holds(self.ours, self.reference)


def reference() -> dict[str, dict[str, float]]:
    """The kernel's figures by scenario."""
    return by_scenario(pl.read_csv(HERE / "recorded" / "figures.csv"))


def held_out() -> dict[str, dict[str, float]]:
    """The kernel's figures of the held-out scenarios; the reference run of each is its first seed."""
    return by_scenario(pl.read_csv(HELD_OUT).filter(pl.col("figure").is_first_distinct().over("scenario")))


def by_scenario(rows: pl.DataFrame) -> dict[str, dict[str, float]]:
    """The figures of a table with one run of each scenario."""
    found: dict[str, dict[str, float]] = {}
    for scenario, figure, value in rows.select("scenario", "figure", "kernel").iter_rows():
        found.setdefault(scenario, {})[figure] = value
    return found


def kernel_noise() -> dict[tuple[str, str], tuple[float | None, float | None]]:
    """The spread of the kernel by scenario and figure."""
    rows = pl.read_csv(HERE / "recorded" / "figures.csv").select("scenario", "figure", "low", "high")
    return {(scenario, figure): (low, high) for scenario, figure, low, high in rows.iter_rows()}


def kernel_seeds() -> dict[tuple[str, str], tuple[float, ...]]:
    """The figures of the kernel's runs with other seeds, by scenario and figure."""
    held = pl.read_csv(HELD_OUT).filter(~pl.col("figure").is_first_distinct().over("scenario"))
    rows = pl.concat([pl.read_csv(HERE / "recorded" / "seeds.csv"), held])
    found: dict[tuple[str, str], list[float]] = {}
    for scenario, figure, value in rows.select("scenario", "figure", "kernel").iter_rows():
        found.setdefault((scenario, figure), []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def kept_rows() -> list[list[str]]:
    """The rows of `hosts.csv`: scenario, figure, seed, value and version of the kernel."""
    with KEPT.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def kept_runs(scenario: str) -> dict[int, tuple[str, dict[str, float]]]:
    """The runs of a scenario with hosts that have a kernel, by seed: its version, and the figures."""
    found: dict[int, tuple[str, dict[str, float]]] = {}
    for name, figure, seed, value, version in kept_rows():
        if name == scenario:
            found.setdefault(int(seed), (version, {}))[1][figure] = float(value)
    return found


def kernel_hosts() -> list[Row]:
    """The rows of hosts with a Linux kernel in pauseframe's fabric, as `kernel_hosts.py` has kept them."""
    rows = []
    for name, figures in reference().items():
        if seeds := [found for _, found in kept_runs(name).values()]:
            rows += compare(name, {key: value for key, value in figures.items() if key in seeds[0]}, seeds)
    return rows


def compare(scenario: str, kernel: dict[str, float], seeds: list[dict[str, float]]) -> list[Row]:
    """Makes a row for each of the kernel's figures that every run of the simulator has."""
    rows = []
    noise, others = kernel_noise(), kernel_seeds()
    for figure, value in kernel.items():
        ours = [found.get(figure, 0.0) for found in seeds]
        own = noise.get((scenario, figure), (None, None))
        more = others.get((scenario, figure), ())
        rows.append(Row(scenario, figure, value, median(ours), min(ours), max(ours), own, more))
    return rows


def known() -> list[dict[str, Any]]:
    """Rows that are known to be outside their band: scenario, figures, reason."""
    rows: list[dict[str, Any]] = tomllib.loads((HERE / "known.toml").read_text()).get("outside", [])
    return rows


def reason(row: Row, reasons: list[dict[str, Any]]) -> str | None:
    """The known reason why this row is outside, or None."""
    for entry in reasons:
        if entry["scenario"] == row.scenario and row.figure in entry["figures"]:
            return str(entry["reason"])
    return None
