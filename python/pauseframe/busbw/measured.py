"""Output of nccl-tests, and its difference to simulated rows.

A line has the columns of its header: size, count, type, redop, root, then time, algbw, busbw and #wrong, out of place
and in place (`writeBenchmarkLinePreamble` and `writeBenchmarkLineBody` in util.cu). Older versions have no redop or no
root, so columns are found by the header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.busbw.measure import aligned
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
    tables = _tables(path, text)
    if not tables:
        raise InputError(
            f"{path} has no table of nccl-tests: it needs the line of headings (# size count type ...) and a line for "
            "each size"
        )
    program = _chosen(path, list(dict.fromkeys(table.program for table in tables)), collective)
    table, *others = [table for table in tables if table.program == program]
    if others:
        lines = ", ".join(str(one.line) for one in [table, *others])
        raise InputError(
            f"{path} has {1 + len(others)} tables of {program or 'one program'} (lines {lines}): keep one of them"
        )
    return Measured(table.rows, len(table.ranks) or None, PROGRAMS.get(program))


@dataclass
class _Table:
    """One run of a program, as far as it has been read."""

    program: str = ""
    ranks: set[int] = field(default_factory=set)
    rows: dict[int, tuple[float, float]] = field(default_factory=dict)
    line: int = 0
    """The line of its headings."""


def _tables(path: Path, text: str) -> list[_Table]:
    """The tables of all runs in a file. The lines above a table belong to it."""
    tables = [_Table()]
    columns: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        # mpirun and Slurm may put "[1,0]<stdout>:" or "0: " in front.
        line = re.sub(r"^\s*(\[[^\]]*\](<\w+>)?:?|[0-9]+:)\s*", "", raw)
        words = line.lstrip("# ").split()
        program = _PROGRAM.search(line)
        rank = re.match(r"\s*#?\s*Rank\s+([0-9]+)\s", line)
        is_heading = words[:2] == ["size", "count"]
        if tables[-1].rows and (program or rank or is_heading):
            before = tables[-1]
            tables.append(_Table(before.program, set() if rank or program else before.ranks))
            columns = {}
        table = tables[-1]
        if program:
            table.program = program[1]
        if rank:
            table.ranks.add(int(rank[1]))
        if is_heading:
            table.line = number
            columns = {word: words.index(word) for word in ("size", "time", "busbw") if word in words}
        elif columns and re.match(r"\s*[0-9]+\s+[0-9]+\s+\w", line):
            size, *values = _values(path, number, words, columns)
            if int(size) in table.rows:
                raise InputError(f"{path}, line {number}: {int(size)} B are in the table already: keep one cycle")
            if size:
                table.rows[int(size)] = (values[0], values[1])
    return [table for table in tables if table.rows]


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


def compare(measured: Measured, rows: Sequence[Row], collective: str, gpus: int) -> list[Difference]:
    """The sizes that both have; a simulated size is rounded down to whole elements and blocks."""
    simulated = {row.size: row for row in rows}
    pairs = [(size, simulated.get(aligned(collective, size, gpus))) for size in sorted(measured.rows)]
    return [Difference(size, *_pair(measured.rows[size], row)) for size, row in pairs if row is not None]


def _pair(values: tuple[float, float], row: Row) -> tuple[float, float, float, float]:
    time_us, busbw = values
    return time_us, row.time_us, busbw, row.busbw
