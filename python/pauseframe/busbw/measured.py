"""Output of nccl-tests, and its difference to simulated rows.

A line has the columns of its header: size, count, type, redop, root, then time, algbw, busbw and #wrong, out of place
and in place (`writeBenchmarkLinePreamble` and `writeBenchmarkLineBody` in util.cu). Older versions have no redop or no
root, so columns are found by the header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.busbw.measure import Row

PROGRAMS = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "alltoall",
}
"""Programs of nccl-tests, and the collectives here."""


@dataclass(frozen=True)
class Measured:
    """The out-of-place columns of a table of nccl-tests."""

    rows: dict[int, tuple[float, float]]
    """Time in microseconds and bus bandwidth in GB/s, by size in bytes."""
    gpus: int | None
    """Number of ranks, from the list of devices; None if the file has none."""
    collective: str | None
    """The collective, from the name of the program; None if the file does not have it."""


@dataclass(frozen=True)
class Difference:
    """A size with its measured and its simulated values; bandwidths in GB/s."""

    size: int
    measured_us: float
    simulated_us: float
    measured_busbw: float
    simulated_busbw: float

    @property
    def off(self) -> float:
        """Simulated over measured bus bandwidth, less 1."""
        return self.simulated_busbw / self.measured_busbw - 1 if self.measured_busbw else 0.0

    def record(self) -> dict[str, int | float]:
        """The row as CSV, JSON and Parquet have it."""
        return {
            "size_bytes": self.size,
            "measured_us": self.measured_us,
            "simulated_us": self.simulated_us,
            "measured_busbw_gb_per_s": self.measured_busbw,
            "simulated_busbw_gb_per_s": self.simulated_busbw,
            "difference": self.off,
        }


def read_measured(path: Path) -> Measured:
    """Reads the output of a program of nccl-tests. Raises InputError if it has no table."""
    try:
        text = read_bytes(path, share=16).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    columns: dict[str, int] = {}
    rows: dict[int, tuple[float, float]] = {}
    ranks: set[int] = set()
    collective = None
    for number, raw in enumerate(text.splitlines(), start=1):
        # mpirun and Slurm may put "[1,0]<stdout>:" or "0: " in front.
        line = re.sub(r"^\s*(\[[^\]]*\](<\w+>)?:?|[0-9]+:)\s*", "", raw)
        words = line.lstrip("# ").split()
        collective = collective or next((PROGRAMS[program] for program in PROGRAMS if program in line), None)
        if found := re.match(r"\s*#?\s*Rank\s+([0-9]+)\s", line):
            ranks.add(int(found[1]))
        if words[:2] == ["size", "count"]:
            columns = {word: words.index(word) for word in ("size", "time", "busbw") if word in words}
        elif columns and re.match(r"\s*[0-9]+\s+[0-9]+\s+\w", line):
            size, *values = _values(path, number, words, columns)
            if size:
                rows[int(size)] = (values[0], values[1])
    if not rows:
        raise InputError(
            f"{path} has no table of nccl-tests: it needs the line of headings (# size count type ...) and a line for "
            "each size"
        )
    return Measured(rows, len(ranks) or None, collective)


def _values(path: Path, number: int, words: list[str], columns: dict[str, int]) -> list[float]:
    try:
        return [float(words[columns[name]]) for name in ("size", "time", "busbw")]
    except (ValueError, IndexError, KeyError):
        raise InputError(f"{path}, line {number}: no size, time and busbw below the headings") from None


def compare(measured: Measured, rows: Sequence[Row]) -> list[Difference]:
    """The sizes that both have."""
    return [Difference(row.size, *_pair(measured.rows[row.size], row)) for row in rows if row.size in measured.rows]


def _pair(values: tuple[float, float], row: Row) -> tuple[float, float, float, float]:
    time_us, busbw = values
    return time_us, row.time_us, busbw, row.busbw
