"""The calibrated figures that support a transport preset (`calibration.json`, written by `make calibrate`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pauseframe import _core

STACK = "linux"
"""The stack that the calibration compared with a kernel."""


@dataclass(frozen=True)
class Evidence:
    """The calibration's scenarios that use the same transport."""

    kernel: str
    scenarios: dict[str, tuple[int, int]]
    """By scenario: number of figures inside their bands, and number of all figures."""

    @property
    def counts(self) -> tuple[int, int]:
        """Number of figures inside their bands, and number of all figures."""
        inside, figures = zip(*self.scenarios.values(), strict=True)
        return sum(inside), sum(figures)

    def __str__(self) -> str:
        inside, figures = self.counts
        return f"{self.kernel}: {inside} of {figures} figures"

    def record(self) -> dict[str, Any]:
        """The evidence as a record for --json."""
        inside, figures = self.counts
        rows = {name: {"inside": some, "figures": every} for name, (some, every) in self.scenarios.items()}
        return {"kernel": self.kernel, "inside": inside, "figures": figures, "scenarios": rows}


def evidence_for(preset: str, stack: str) -> Evidence | None:
    """The evidence for a preset on a stack, from scenarios of presets with equal values; None without evidence."""
    if stack != STACK:
        return None
    known = _calibration()
    same = {other for other in _core.preset_docs() if _values(other) == _values(preset)}
    rows = {
        name: (scenario["inside"], scenario["figures"])
        for name, scenario in known["scenarios"].items()
        if same.intersection(scenario["presets"])
    }
    return Evidence(known["kernel"], rows) if rows else None


def calibrated() -> Evidence:
    """The whole calibration, each scenario once."""
    known = _calibration()
    rows = {name: (one["inside"], one["figures"]) for name, one in known["scenarios"].items()}
    return Evidence(known["kernel"], rows)


@cache
def _calibration() -> dict[str, Any]:
    path = Path(__file__).parent.parent / "calibration.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def _values(preset: str) -> dict[str, str]:
    rows = _core.explain_transport(preset, STACK)
    return {row["key"]: row["value"] for row in rows if row["key"] != "preset"}
