"""Trimmed packets: switches cut their payload off, so they are losses that no count of drops includes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def may_trim(scenario_toml: str) -> bool:
    """True if a queue of the resolved scenario trims."""
    return 'queue = "trim"' in scenario_toml


def trims_of(ports: pl.LazyFrame) -> int:
    """The sum of the column `trims` of a table of ports; 0 in results of versions without trimming."""
    import polars as pl

    if "trims" not in ports.collect_schema().names():
        return 0
    return int(ports.select(pl.col("trims").sum()).collect().item() or 0)
