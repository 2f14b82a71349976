#!/usr/bin/env python3
"""Fills in the table of docs/models/memory-of-steps.md: what replays of repeated steps save, and how far they are off.

Run `make remembered` (a minute). The scenario is that of the page; all numbers of the table are the same on every
machine. tests/test_remember.py compares a row.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pauseframe as pf

PAGE = Path(__file__).parents[1] / "docs" / "models" / "memory-of-steps.md"
TABLE = re.compile(r"(?<=<!-- make remembered -->\n)(?:\|.*\n)+")
HEADS = (
    "step",
    "bound",
    "steps replayed",
    "rounds left out",
    "packet hops replayed",
    "events",
    "iteration, full",
    "with replays",
)


class Row(NamedTuple):
    """A variant of the page's scenario, and the bound of its replays."""

    name: str
    bound: float
    settings: dict[str, Any]


SMALL = {"workload.micro_batches": 4, "workload.hidden": 1024}
REAL = {"clocks": "real"}
ROWS = (
    Row("`experts.toml`", 0.001, {}),
    Row("4 micro-batches, `hidden = 1024`", 0.001, SMALL),
    Row("the same with real clocks", 0.001, SMALL | REAL),
    Row("the same with real clocks", 0.01, SMALL | REAL),
    Row("the same with real clocks and 12 layers", 0.01, SMALL | REAL | {"workload.layers": 12}),
    Row(
        "`ep = 1`, 200 million parameters a layer: a ring of gradients and one of parameters",
        0.001,
        {"workload.ep": 1, "workload.experts": 0, "workload.top_k": 1, "workload.parameters": 200_000_000},
    ),
)


def scenario() -> str:
    """The scenario of the page."""
    found = re.search(r"^```toml\n(# experts\.toml.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    if found is None:
        raise ValueError(f"{PAGE} has no experts.toml")
    return found[1]


def cells(row: Row) -> tuple[str, ...]:
    """The cells of a row: a full run, and one with replays."""
    modes = ("off", "bound")
    changes = [row.settings | {"remember.steps": mode, "remember.bound": row.bound} for mode in modes]
    full, run = (pf.run(scenario(), set=change, progress=False) for change in changes)
    remembered = run.summary["remembered"]
    if remembered is None:
        raise ValueError(f"{row.name}: the run remembered nothing")
    times = [float(one.jobs.to_polars()["time_us"][0]) / 1000 for one in (full, run)]
    return (
        row.name,
        f"{row.bound * 100:g} %",
        f"{remembered['replayed']} of {remembered['steps']}",
        f"{remembered['rounds']}",
        f"{remembered['replayed_share'] * 100:.0f} %",
        f"{run.summary['events'] / full.summary['events'] * 100:.0f} %",
        *(f"{time:.4f} ms" for time in times),
    )


def line(texts: tuple[str, ...]) -> str:
    """A row of the table."""
    return f"| {' | '.join(texts)} |\n"


def main() -> int:
    """Writes the table."""
    head = line(HEADS) + line(("---", *["--:"] * (len(HEADS) - 1)))
    table = head + "".join(line(cells(row)) for row in ROWS)
    text, count = TABLE.subn(lambda _: table, PAGE.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{PAGE}: no table below <!-- make remembered -->")
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
