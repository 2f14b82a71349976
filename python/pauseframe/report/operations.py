"""The table of operations on storage in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.report.summary import SummaryTable
from pauseframe.results.operations import COLUMNS, cells, operations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.report.data import RunData
    from pauseframe.report.summary import Row


def operations_table(runs: Sequence[RunData]) -> SummaryTable | None:
    """The table of a report; None if no run has operations."""
    found: list[tuple[int, Row]] = [
        (number, (f"{run.label}: {row['workload']}, {row['operation']}", [], [(text, "") for text in cells(row)]))
        for number, run in enumerate(runs)
        for row in operations(run.flows).iter_rows(named=True)
    ]
    numbers, rows = [number for number, _ in found], [row for _, row in found]
    return SummaryTable([("operations", 3), ("latency", 4)], list(COLUMNS), rows, numbers) if rows else None
