"""Counts the figures that support each transport preset, for a file of the package that `pauseframe presets` reads."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verdict import Row

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "python" / "pauseframe" / "calibration.json"
KERNEL = "Linux 6.1.192"


def presets_of(scenario: str) -> list[str]:
    """The presets of the transports in a scenario; both incasts share a file."""
    path = HERE / "scenarios" / f"{scenario}.toml"
    if not path.exists():
        path = path.with_stem(scenario.rpartition("_")[0])
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    transports = [table.get("transport", {}), *table.get("transports", {}).values()]
    return sorted({transport["preset"] for transport in transports if "preset" in transport})


def evidence(rows: list[Row]) -> dict[str, Any]:
    """For each scenario: its presets, its number of figures, and how many are inside all or the reference band."""
    scenarios = {}
    for scenario in dict.fromkeys(row.scenario for row in rows):
        mine = [row for row in rows if row.scenario == scenario]
        scenarios[scenario] = {
            "presets": presets_of(scenario),
            "figures": len(mine),
            "inside": sum(row.standing == "inside" for row in mine),
            "inside_reference": sum(row.is_inside_reference for row in mine),
        }
    return {"kernel": KERNEL, "stack": "linux", "scenarios": scenarios}


def write(rows: list[Row]) -> None:
    """Writes the file `calibration.json` of the package."""
    PACKAGE.write_text(json.dumps(evidence(rows), indent=1) + "\n", encoding="utf-8")
