"""Output of nccl-tests, and its difference to simulated rows.

A line has the columns of its header: size, count, type, redop, root, then time, algbw, busbw and #wrong, out of place
and in place (`writeBenchmarkLinePreamble` and `writeBenchmarkLineBody` in util.cu). Older versions have no redop or no
root, so columns are found by the header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
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
_PROGRAM = re.compile(r"(?<![a-z_])([a-z]+(?:_[a-z]+)*_perf)(?![a-z])")


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
    def off(self) -> float | None:
        """Simulated over measured bus bandwidth, less 1; None if the measured one is 0, as of one rank."""
        return self.simulated_busbw / self.measured_busbw - 1 if self.measured_busbw else None

    def record(self) -> dict[str, int | float | None]:
        """The row as CSV, JSON and Parquet have it."""
        return {
            "size_bytes": self.size,
            "measured_us": self.measured_us,
            "simulated_us": self.simulated_us,
            "measured_busbw_gb_per_s": self.measured_busbw,
            "simulated_busbw_gb_per_s": self.simulated_busbw,
            "difference": self.off,
        }


def read_measured(path: Path, collective: str | None = None) -> Measured:
    """Reads the output of programs of nccl-tests: the table of a collective, or the only one.

    Raises InputError if it has no table, tables of several programs to choose from, or of none that is simulated.
    """
    try:
        text = read_bytes(path, share=16).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    columns: dict[str, int] = {}
    program = ""
    tables: dict[str, dict[int, tuple[float, float]]] = {}
    ranks: set[int] = set()
    for number, raw in enumerate(text.splitlines(), start=1):
        # mpirun and Slurm may put "[1,0]<stdout>:" or "0: " in front.
        line = re.sub(r"^\s*(\[[^\]]*\](<\w+>)?:?|[0-9]+:)\s*", "", raw)
        words = line.lstrip("# ").split()
        if (found := _PROGRAM.search(line)) and found[1] != program:
            program, columns = found[1], {}
        if found := re.match(r"\s*#?\s*Rank\s+([0-9]+)\s", line):
            ranks.add(int(found[1]))
        if words[:2] == ["size", "count"]:
            columns = {word: words.index(word) for word in ("size", "time", "busbw") if word in words}
        elif columns and re.match(r"\s*[0-9]+\s+[0-9]+\s+\w", line):
            size, *values = _values(path, number, words, columns)
            if size:
                tables.setdefault(program, {})[int(size)] = (values[0], values[1])
    if not tables:
        raise InputError(
            f"{path} has no table of nccl-tests: it needs the line of headings (# size count type ...) and a line for "
            "each size"
        )
    program = _chosen(path, list(tables), collective)
    return Measured(tables[program], len(ranks) or None, PROGRAMS.get(program))


def _chosen(path: Path, programs: list[str], collective: str | None) -> str:
    """The program whose table is compared; "" if the file names none."""
    wanted = [program for program in programs if PROGRAMS.get(program) == collective]
    if collective and wanted:
        return wanted[0]
    if len(programs) == 1 and programs[0] in {"", *PROGRAMS}:
        return programs[0]
    found = ", ".join(program or "a program without a name" for program in programs)
    if known := [PROGRAMS[program] for program in programs if program in PROGRAMS]:
        raise InputError(f"{path} has tables of {found}: choose one with --collective {' or '.join(known)}")
    raise InputError(f"{path} has the table of {found}: give one of {', '.join(PROGRAMS)}")


def _values(path: Path, number: int, words: list[str], columns: dict[str, int]) -> list[float]:
    try:
        values = [float(words[columns[name]]) for name in ("size", "time", "busbw")]
    except (ValueError, IndexError, KeyError):
        values = []
    if not values or not all(map(isfinite, values)):
        raise InputError(f"{path}, line {number}: no size, time and busbw below the headings")
    return values


def compare(measured: Measured, rows: Sequence[Row]) -> list[Difference]:
    """The sizes that both have."""
    return [Difference(row.size, *_pair(measured.rows[row.size], row)) for row in rows if row.size in measured.rows]


def _pair(values: tuple[float, float], row: Row) -> tuple[float, float, float, float]:
    time_us, busbw = values
    return time_us, row.time_us, busbw, row.busbw
