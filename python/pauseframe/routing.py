"""Deadlock-free routes: planned, checked, written, read.

>>> import pauseframe as pf
>>> fabric = pf.load_topology("jellyfish:switches=20,network_ports=6,hosts_per_switch=4")
>>> routes = pf.plan_routes(fabric, "order_pair", lanes=2, vlans=4)
>>> report = routes.check()
>>> report["can_deadlock"], report["unreachable"]["count"]
(False, 0)
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pauseframe import _core
from pauseframe._core import Routes, plan_routes, read_routes
from pauseframe.draw import draw

__all__ = ["Routes", "plan_routes", "read_routes", "write_plan"]

SUMMARY = "plan.json"


def write_plan(
    routes: Routes,
    topology: _core.Topology,
    folder: str | Path,
    *,
    about: dict[str, Any] | None = None,
    rows_budget: int | None = None,
    by_switch: bool = False,
    force: bool = False,
    progress: Any = None,
) -> dict[str, Any]:
    """Verifies the tables and writes them into a folder, which appears whole or not at all.

    The folder has `tables.csv` and `tables.json` (the same tables), `topology.graphml`, `topology.svg` and `plan.json`:
    what was asked for (`about`), the report of the verifier, and the rows that the switches need. Tables that can
    deadlock, circle, leave a pair out or do not fit `rows_budget` are not written: FabricError.
    """
    folder = Path(folder)
    if folder.exists() and not force and any(folder.iterdir()):
        raise _core.InputError(f"the folder {folder} is not empty: name another one, or replace the plan with --force")
    if folder.exists() and any(folder.iterdir()) and not (folder / SUMMARY).is_file():
        raise _core.InputError(
            f"the folder {folder} holds files but no {SUMMARY}: it is left as it is, name another one"
        )
    if rows_budget is not None:
        routes.fit(rows_budget, by_switch=by_switch)
    report = routes.check(progress=progress)
    if not report["clean"]:
        raise _core.FabricError(f"the tables were not written, since they are not right:\n{report['text']}")
    summary = {"program": "pauseframe", **(about or {}), "rows": routes.table_use(), "vlans": routes.vlans}
    summary["report"] = {key: value for key, value in report.items() if key != "text"}
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
    try:
        for kind in ("csv", "json"):
            (partial / f"tables.{kind}").write_text(routes.write(kind), encoding="utf-8")
        (partial / "topology.graphml").write_text(topology.write("graphml"), encoding="utf-8")
        draw(topology, partial / "topology.svg", title=str(summary.get("topology", "topology")))
        (partial / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        partial.chmod(0o755)
        _swap(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return summary


def _swap(new: Path, place: Path) -> None:
    """Puts a folder into its place; a folder that was there goes when the new one is there."""
    if not place.exists():
        new.rename(place)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".partial", dir=place.parent))
    place.rename(old)  # onto an empty folder, which POSIX allows
    try:
        new.rename(place)
    except OSError:
        old.rename(place)
        raise
    shutil.rmtree(old)
