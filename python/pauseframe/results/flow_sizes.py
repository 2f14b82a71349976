"""The bins of flow sizes by which completion times and slowdowns are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

EDGES = (10_000, 100_000, 1_000_000, 10_000_000)
"""Bytes of both directions."""
NAMES = ("< 10 KB", "10–100 KB", "0.1–1 MB", "1–10 MB", "≥ 10 MB")


def size_bin(size: pl.Expr) -> pl.Expr:
    """The index in `NAMES` for a size in bytes.

    >>> import polars as pl
    >>> pl.select(size_bin(pl.Series([9_999, 10_000, 10**8]))).to_series().to_list()
    [0, 1, 4]
    """
    import polars as pl

    return pl.sum_horizontal([(size >= edge).cast(pl.Int64) for edge in EDGES])
