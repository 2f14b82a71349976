"""The table of long flows in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.report.summary import SummaryTable
from pauseframe.results.long_flows import COLUMNS, NOTE, cells, long_flows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.report.data import RunData
    from pauseframe.report.summary import Row


def long_flows_table(runs: Sequence[RunData]) -> SummaryTable | None:
    """The table of a report; None if no run has long flows."""
    found: list[tuple[int, Row]] = [
        (number, (f"{run.label}: {row['transport']}", [], [(text, "") for text in cells(row)]))
        for number, run in enumerate(runs)
        for row in long_flows(run.flows, run.summary["sim_time_s"] * 1e6).iter_rows(named=True)
    ]
    numbers, rows = [number for number, _ in found], [row for _, row in found]
    return SummaryTable([("long flows", len(COLUMNS))], list(COLUMNS), rows, numbers, NOTE) if rows else None


def row_of_all(run: RunData) -> dict[str, Any] | None:
    """The row of `long_flows` for all long flows of a run; None without any."""
    rows = long_flows(run.flows, run.summary["sim_time_s"] * 1e6).to_dicts()
    return rows[-1] if rows else None
