"""Ours against the kernel's, row by row.

A reference run is one draw: where chance enters (jitter) ours are several seeds, and a kernel's figure between their
extremes is `in range` even if the median of the seeds is outside the band. Rows known to be outside stand with their
reasons in `known.toml`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from statistics import median
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
    kernel: float
    ours: float
    low: float
    high: float
    noise: tuple[float | None, float | None] = (None, None)
    """Between the parts of the kernel's own run."""

    @property
    def is_a_draw(self) -> bool:
        """One event of the kernel's run, which chance decides: no median, mean or count over many."""
        return self.figure.startswith(("completion round", "share"))

    @property
    def standing(self) -> Standing:
        """Where ours lies."""
        if band(self.figure).holds(self.ours, self.kernel):
            return "inside"
        return "in range" if self.low <= self.kernel <= self.high else "outside"


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


def compare(scenario: str, kernel: dict[str, float], seeds: list[dict[str, float]]) -> list[Row]:
    """A row for each of the kernel's figures that every run of ours has."""
    rows = []
    noise = kernel_noise()
    for figure, value in kernel.items():
        ours = [found.get(figure, 0.0) for found in seeds]
        own = noise.get((scenario, figure), (None, None))
        rows.append(Row(scenario, figure, value, median(ours), min(ours), max(ours), own))
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
