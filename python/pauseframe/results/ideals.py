"""Ideal completion times of the sides of a comparison, to which their slowdowns refer.

The ideal time of a flow counts the headers and the handshake of its transport, and the links of its path. Two sides may
therefore have other ideal times for the same flows: of a small flow over TCP twice that of a queue pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pauseframe.results.flow_sizes import NAMES, size_bin
from pauseframe.terminal.text import format_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

Ideals: TypeAlias = dict[int, tuple[int, int, float]]
"""By bin of flow sizes: number of flows, their bytes, and the sum of their ideal times in microseconds."""
LEAST = 0.01
"""Difference from which ideal times are reported."""
SIDES = 8


def ideals_of(flows: pl.LazyFrame) -> Ideals:
    """The ideal times of the flows of a run; long flows and datagrams have none."""
    import polars as pl

    size = pl.col("size_bytes") + pl.col("reply_bytes")
    sums = (
        flows.filter(pl.col("ideal_fct_us") > 0)
        .group_by(size_bin(size).alias("bin"))
        .agg(pl.len(), size.sum().alias("bytes"), pl.col("ideal_fct_us").sum())
        .sort("bin")
        .collect()
    )
    return {index: (flows, total, ideal) for index, flows, total, ideal in sums.rows()}


def added(parts: Iterable[Ideals]) -> Ideals:
    """The ideal times of several runs together.

    >>> added([{0: (1, 10, 2.0)}, {0: (1, 20, 3.0), 4: (1, 10**7, 8e3)}])
    {0: (2, 30, 5.0), 4: (1, 10000000, 8000.0)}
    """
    result: Ideals = {}
    for part in parts:
        for index, (flows, total, ideal) in part.items():
            before = result.get(index, (0, 0, 0.0))
            result[index] = (before[0] + flows, before[1] + total, before[2] + ideal)
    return result


def ideal_caution(sides: Mapping[str, Ideals]) -> str:
    """A sentence for slowdowns of sides whose same flows have other ideal times, with the bin that differs most.

    The text is empty if they are alike, or if the sides have other flows.

    >>> ideal_caution({"dctcp": {0: (2, 2000, 16.1)}, "roce": {0: (2, 2000, 7.5)}}).partition(":")[2]
    ' for flows < 10 KB their mean is 8.05 us in dctcp, 3.75 us in roce. Headers, handshakes and paths count in it.'
    >>> ideal_caution({"dctcp": {0: (2, 2000, 16.1)}, "bolt": {0: (2, 2000, 16.2)}, "more": {0: (4, 4000, 7.5)}})
    ''
    """
    first = next(iter(sides.values()), {})
    widest, text = 1 + LEAST, ""
    for index, (flows, total, _) in first.items():
        means = {
            name: side[index][2] / flows for name, side in sides.items() if side.get(index, ())[:2] == (flows, total)
        }
        if (ratio := max(means.values()) / min(means.values())) >= widest:
            widest, shown = ratio, list(means.items())[:SIDES]
            listed = ", ".join(f"{format_us(mean)} in {name}" for name, mean in shown)
            text = (
                "A slowdown refers to the ideal times of its own side, which differ: for flows "
                f"{NAMES[index]} their mean is {listed}. Headers, handshakes and paths count in it."
            )
    return text
