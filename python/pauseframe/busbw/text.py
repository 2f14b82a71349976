"""The lines that nccl-tests prints, and those of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.busbw.measure import Row
    from pauseframe.busbw.measured import Difference

NAMES = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
UNITS = ("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)")
WIDE = (10, 12, 8, 6, 6, 7, 6, 6)


def heading() -> list[str]:
    """The two lines above the rows, as in `writeResultHeader` of util.cu, without the in-place columns."""
    return [
        "# " + "  ".join(f"{word:>{width}}" for word, width in zip(words, WIDE, strict=True))
        for words in (NAMES, UNITS)
    ]


def number(value: float, width: int) -> str:
    """A number within `width` characters, with two, one or no decimals (`getFloatStr` in util.cu)."""
    texts = (f"{value:{width}.{digits}f}" for digits in (2, 1, 0))
    return next((text for text in texts if len(text) <= width), f"{value:{width}.1e}")


def line(row: Row) -> str:
    """A row as nccl-tests prints it."""
    first = f"{row.size:12d}  {row.count:12d}  {'float':>8}  {row.redop:>6}  {-1:6d}"
    return f"{first}  {number(row.time_us, 7)}  {number(row.algbw, 6)}  {number(row.busbw, 6)}"


def comparison(rows: Sequence[Difference]) -> list[str]:
    """A table of measured and simulated values."""
    head = [
        f"# {'size':>10}  {'measured':>10}  {'simulated':>10}  {'measured':>10}  {'simulated':>10}  {'difference':>10}",
        f"# {'(B)':>10}  {'(us)':>10}  {'(us)':>10}  {'busbw GB/s':>10}  {'busbw GB/s':>10}  {'of busbw':>10}",
    ]
    return head + [
        f"{row.size:12d}  {number(row.measured_us, 10)}  {number(row.simulated_us, 10)}  "
        f"{number(row.measured_busbw, 10)}  {number(row.simulated_busbw, 10)}  {_share(row.off):>10}"
        for row in rows
    ]


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{value:+.1%}"


def average(rows: Sequence[Row]) -> str:
    """The last line of nccl-tests: the mean over sizes."""
    return f"# {'Avg bus bandwidth':<20} : {sum(row.busbw for row in rows) / len(rows):g} "
