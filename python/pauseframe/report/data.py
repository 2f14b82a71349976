"""What a report is made from: the tables of one run, read lazily, and the statistics taken from them.

Everything that reaches a figure is aggregated here first, so that a run of a million flows gives a report of the
same size as one of a thousand.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pauseframe import RunError
from pauseframe.results import read_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.results import Run

BIN_EDGES = (10_000, 100_000, 1_000_000, 10_000_000)
BIN_NAMES = ("< 10 KB", "10–100 KB", "0.1–1 MB", "1–10 MB", "≥ 10 MB")
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CDF_POINTS = 400


@dataclass(frozen=True)
class RunData:
    """One run as the report sees it."""

    label: str
    status: str
    summary: dict[str, Any]
    scenario_toml: str
    flows: pl.LazyFrame
    queries: pl.LazyFrame
    ports: pl.LazyFrame
    series: pl.LazyFrame
    pause_tree: pl.LazyFrame | None = None
    """None in folders of a version that did not write it."""
    folder: Path | None = None
    """Where it was read from."""

    def check_unchanged(self) -> None:
        """Raises RunError if the folder has other results by now: what was read of it may be of both."""
        if self.folder is not None and read_manifest(self.folder)["summary"] != self.summary:
            raise RunError(f"{self.folder} was written anew while the report was being built: build it once more")


def from_folder(folder: Path) -> RunData:
    """Reads a results folder; FileNotFoundError if it is none, RunError if it is damaged."""
    manifest = read_manifest(folder)
    scenario = (folder / "scenario.resolved.toml").read_text(encoding="utf-8")
    flows, queries, ports, series = (
        pl.scan_parquet(folder / f"{name}.parquet") for name in ("flows", "queries", "ports", "series")
    )
    tree = folder / "pause_tree.parquet"
    pauses = pl.scan_parquet(tree) if tree.is_file() else None
    summary = manifest["summary"]
    return RunData(
        summary["name"], manifest["status"], summary, scenario, flows, queries, ports, series, pauses, folder
    )


def from_run(run: Run) -> RunData:
    """Takes a run from memory."""
    if run.folder is not None:
        return from_folder(run.folder)
    flows, queries, ports, series = (
        pl.DataFrame(table).lazy() for table in (run.flows, run.queries, run.ports, run.series)
    )
    pauses = pl.DataFrame(run.pause_tree).lazy()
    return RunData(
        run.summary["name"], run.status, run.summary, run.scenario_toml, flows, queries, ports, series, pauses
    )


def finished_flows(run: RunData) -> pl.DataFrame:
    """The finished flows: size (both directions), bin, fct_us, slowdown."""
    size = pl.col("size_bytes") + pl.col("reply_bytes")
    return (
        run.flows.filter(pl.col("fct_us").is_not_null())
        .select(size.alias("size"), "fct_us", "slowdown")
        .with_columns(_bin_of(pl.col("size")).alias("bin"))
        .collect()
    )


def percentiles_by(frame: pl.DataFrame, key: str) -> dict[Any, dict[str, float]]:
    """For each value of `key`: n, and p50, p95, p99, p999 of fct_us and (with the suffix _slowdown) slowdown."""
    statistics = [pl.len().alias("n")]
    for name, share in PERCENTILES.items():
        statistics.append(pl.col("fct_us").quantile(share, "linear").alias(name))
        statistics.append(pl.col("slowdown").quantile(share, "linear").alias(f"{name}_slowdown"))
    rows = frame.group_by(key).agg(statistics).sort(key).to_dicts()
    return {row.pop(key): row for row in rows}


def cdf(values: pl.Series, points: int = CDF_POINTS) -> tuple[list[float], list[float]]:
    """Values and the share of observations up to each, at most `points`, half of them beyond the median's tail."""
    ordered = values.sort()
    n = len(ordered)
    if n <= points:
        picked = list(range(n))
    else:
        even = (round(i * (n - 1) / (points // 2 - 1)) for i in range(points // 2))
        tail = (n - 1 - round(math.exp(i / (points // 2 - 1) * math.log(n / 2))) for i in range(points // 2))
        picked = sorted({*even, *tail, n - 1})
    return ordered.gather(picked).to_list(), [(index + 1) / n for index in picked]


def slowdown_by_size(frame: pl.DataFrame) -> pl.DataFrame:
    """Per bin of sizes a factor of four wide (from 1 KB): size (geometric mean), n, p50 and p99 of slowdown."""
    power = ((pl.col("size").cast(pl.Float64) / 1000).log(4.0)).floor().alias("power")
    return (
        frame.filter(pl.col("size") > 0)
        .group_by(power)
        .agg(
            pl.col("size").cast(pl.Float64).log().mean().exp().alias("size"),
            pl.len().alias("n"),
            pl.col("slowdown").quantile(0.5, "linear").alias("p50"),
            pl.col("slowdown").quantile(0.99, "linear").alias("p99"),
        )
        .sort("size")
    )


def finished_queries(run: RunData) -> pl.DataFrame:
    """The finished queries: response_bytes, fct_us, slowdown."""
    return run.queries.filter(pl.col("fct_us").is_not_null()).select("response_bytes", "fct_us", "slowdown").collect()


def busy_until(run: RunData, share: float = 0.995) -> float:
    """When this share of all bytes had been delivered, in seconds: the idle end of a run is not worth a figure."""
    end: float = run.summary["sim_time_s"] * 1e6
    ends = (
        run.flows.select(pl.col("finish_us").fill_null(end).alias("t"), pl.col("delivered_bytes").cast(pl.Float64))
        .sort("t")
        .with_columns(pl.col("delivered_bytes").cum_sum())
        .collect()
    )
    delivered: list[float] = ends["delivered_bytes"].to_list()
    times: list[float] = ends["t"].to_list()
    if not delivered or delivered[-1] <= 0:
        return end / 1e6
    return min(times[bisect_left(delivered, delivered[-1] * share)], end) / 1e6


def goodput(run: RunData, until: float, points: int = 200) -> tuple[list[float], list[float]]:
    """Delivered bits a second up to a time, each flow's bytes spread evenly over its life: (s, b/s).

    The bytes delivered up to t are a sum of ramps; their slope changes where a flow starts or ends, so a running sum
    over the sorted changes gives it at every instant, and differences over equal steps give the rate.
    """
    end = run.summary["sim_time_s"] * 1e6
    lives = (
        run.flows.select(
            pl.col("start_us"),
            pl.col("finish_us").fill_null(end).alias("end_us"),
            pl.col("delivered_bytes").cast(pl.Float64).alias("bytes"),
        )
        .filter((pl.col("end_us") > pl.col("start_us")) & (pl.col("bytes") > 0))
        .with_columns((pl.col("bytes") / (pl.col("end_us") - pl.col("start_us"))).alias("slope"))
        .collect()
    )
    if lives.is_empty() or until <= 0:
        return [], []
    changes = pl.concat(
        [
            lives.select(pl.col("start_us").alias("t"), pl.col("slope")),
            lives.select(pl.col("end_us").alias("t"), -pl.col("slope")),
        ]
    ).sort("t")
    ramps = changes.with_columns(pl.col("slope").cum_sum()).with_columns(
        ((pl.col("t").diff().fill_null(0.0)) * pl.col("slope").shift(1).fill_null(0.0)).cum_sum().alias("bytes")
    )
    step = until * 1e6 / points
    edges = pl.DataFrame({"t": [step * i for i in range(points + 1)]})
    at = edges.join_asof(ramps, on="t", strategy="backward", suffix="_change", coalesce=False)
    delivered = (pl.col("bytes") + pl.col("slope") * (pl.col("t") - pl.col("t_change"))).fill_null(0.0)
    amounts = at.select(delivered.diff().alias("d"))["d"].to_list()[1:]
    return [step * (i + 0.5) * 1e-6 for i in range(points)], [max(amount, 0.0) * 8e6 / step for amount in amounts]


def ports_by_number(run: RunData) -> pl.DataFrame:
    """One row a port, its priorities together: node, number, peer, tier and what the heat map shows."""
    drops = pl.sum_horizontal(pl.col("^drops_.*$").sum())
    span = max(run.summary["sim_time_s"] * 1e6, 1e-12)
    return (
        run.ports.with_columns(pl.col("port", "node", "peer", "tier").cast(pl.String))
        .group_by("port", maintain_order=True)
        .agg(
            pl.col("node", "peer", "tier").first(),
            pl.col("utilisation").sum().clip(0.0, 1.0),
            pl.col("backlog_max_bytes").max(),
            pl.col("ingress_max_bytes").max(),
            (pl.col("paused_us").max() / span).alias("paused"),
            pl.col("pauses_received").sum(),
            pl.col("ecn_marks").sum(),
            drops.alias("drops"),
        )
        .with_columns(pl.col("port").str.extract(r":(\d+)$").cast(pl.Int64).fill_null(0).alias("number"))
        .collect()
    )


def lines(
    run: RunData, metric: str, until: float, entities: int, points: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Time lines of the `entities` with the highest peaks, thinned to about `points`; peaks survive: (s, value)."""
    shown = (pl.col("metric").cast(pl.String) == metric) & (pl.col("time_us") <= until * 1e6)
    wanted = run.series.filter(shown)
    peaks = wanted.group_by("entity").agg(pl.col("value").max()).sort("value", "entity", descending=[True, False])
    top = peaks.head(entities).collect()["entity"].cast(pl.String).to_list()
    samples = (
        wanted.with_columns(pl.col("entity").cast(pl.String))
        .filter(pl.col("entity").is_in(top))
        .select("entity", "time_us", "value")
        .collect()
    )
    result = {}
    for entity in sorted(top, key=natural):
        line = samples.filter(pl.col("entity") == entity).sort("time_us")
        width = max(1, -(-len(line) // points))
        thin = line.group_by(pl.int_range(pl.len()) // width, maintain_order=True).agg(
            pl.col("time_us").first(), pl.col("value").max()
        )
        result[entity] = ((thin["time_us"] / 1e6).to_list(), thin["value"].to_list())
    return result


def metrics(run: RunData) -> dict[str, int]:
    """The metrics that were sampled, with how many entities each has."""
    rows = run.series.group_by(pl.col("metric").cast(pl.String)).agg(pl.col("entity").n_unique()).collect()
    return dict(sorted(rows.iter_rows()))


def natural(name: str) -> tuple[Any, ...]:
    """Sorts "edge2" before "edge10"."""
    groups = itertools.groupby(name, str.isdigit)
    return tuple((1, int("".join(part)), "") if digit else (0, 0, "".join(part)) for digit, part in groups)


def _bin_of(size: pl.Expr) -> pl.Expr:
    return pl.sum_horizontal([(size >= edge).cast(pl.Int64) for edge in BIN_EDGES])


def settings(run: RunData) -> dict[str, str]:
    """The resolved scenario as dotted paths and values."""
    import tomllib

    return dict(_flatten("", tomllib.loads(run.scenario_toml)))


def differing_settings(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """Keys in which the runs differ, with the value of each; names of the runs apart."""
    tables = [settings(run) for run in runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [(key, [table.get(key, "") for table in tables]) for key in keys if key != "name"]
    return [row for row in rows if len(set(row[1])) > 1]


def _flatten(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        parts = [_flatten(f"{path}.{key}".lstrip("."), item) for key, item in value.items()]
        return [pair for part in parts for pair in part]
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        named = [(item.get("name", index), item) for index, item in enumerate(value)]
        return [pair for name, item in named for pair in _flatten(f"{path}.{name}", item)]
    return [(path, str(value).lower() if isinstance(value, bool) else str(value))]
