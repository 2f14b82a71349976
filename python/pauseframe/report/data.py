"""The tables of one run, read lazily, and the statistics of a report.

Everything that reaches a figure is aggregated here first, so that a run of a million flows gives a report of the
same size as one of a thousand.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import polars as pl

from pauseframe._core import RunError
from pauseframe.files.reading import parse_toml
from pauseframe.results.causes import Conditions
from pauseframe.results.flow_sizes import size_bin
from pauseframe.results.folder import open_results
from pauseframe.results.percentiles import SHARES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.results import Run
    from pauseframe.types import Summary

PERCENTILES = {name: SHARES[name] for name in ("p50", "p95", "p99", "p999")}
CDF_POINTS = 400
THROUGHPUT_POINTS = 200
SHORTEST_INTERVAL = 20e-6
POINTS_OF_SHORT_LINES = 600
"""Points that a grouped line has at least."""
LONGEST_ENTRY = 2000
"""Maximum length of an entry in a displayed scenario, in characters; lists of flows are longer."""
ENTRY = re.compile(r"^\S+ = \[\n(?:[ \t].*\n)*\]$|^.+$", re.MULTILINE)
"""An entry of a resolved scenario: a list with one indented line per item, or any single line."""


@dataclass(frozen=True)
class RunData:
    """The data of one run in the form that the report needs."""

    label: str
    status: str
    summary: Summary
    scenario_toml: str
    folder: Path | None
    """The results folder of the run, or None."""
    flows: pl.LazyFrame
    queries: pl.LazyFrame
    ports: pl.LazyFrame
    series: pl.LazyFrame
    throughput: pl.LazyFrame | None = None
    pause_tree: pl.LazyFrame | None = None
    deadlocks: pl.LazyFrame | None = None
    jobs: pl.LazyFrame | None = None
    ranks: pl.LazyFrame | None = None
    timeline: pl.LazyFrame | None = None
    collectives: pl.LazyFrame | None = None
    paths: pl.LazyFrame | None = None
    equal_links: pl.LazyFrame | None = None
    """These tables are None if the folder does not have them."""
    given: list[str] | None = None
    """Keys that the scenario file or `--set` gave; None if they are not known."""

    def check_unchanged(self) -> None:
        """Raises RunError if the folder's results have changed, because the data may then mix two runs."""
        if self.folder is not None and open_results(self.folder).summary != self.summary:
            raise RunError(f"{self.folder} was overwritten while the report was being built: build the report again")


TABLES = ("flows", "queries", "ports", "series")
LATER_TABLES = (
    "throughput",
    "pause_tree",
    "deadlocks",
    "jobs",
    "ranks",
    "timeline",
    "collectives",
    "paths",
    "equal_links",
)


def from_folder(folder: Path) -> RunData:
    """Reads a results folder; FileNotFoundError if it is not one, DamagedResultsError if a file is damaged."""
    results = open_results(folder)
    tables = {name: results.scan(name) for name in TABLES}
    tables |= {name: results.scan(name) for name in LATER_TABLES if results.has_table(name)}
    summary, status = results.summary, results.manifest["status"]
    given = results.manifest.get("given")
    return RunData(summary["name"], status, summary, results.scenario_toml, folder, **tables, given=given)


def from_run(run: Run) -> RunData:
    """The data of a run in memory."""
    if run.folder is not None:
        return from_folder(run.folder)
    known = [name for name in (*TABLES, *LATER_TABLES) if hasattr(run, name)]
    tables = {name: pl.DataFrame(getattr(run, name)).lazy() for name in known}
    return RunData(run.summary["name"], run.status, run.summary, run.scenario_toml, None, **tables, given=run.given)


def conditions_of(run: RunData) -> Conditions:
    """The conditions of this run that affect a comparison of completion times."""
    return Conditions.of(run.label, run.summary, run.scenario_toml)


def completed_flows(run: RunData) -> int:
    """Number of flows with a completion time; connections of applications have none."""
    return int(run.flows.select(pl.col("fct_us").count()).collect().item())


def flow_sum(run: RunData, column: str) -> int:
    """The sum of a column over all flows; 0 in results without the column."""
    if column not in run.flows.collect_schema().names():
        return 0
    return int(run.flows.select(pl.col(column).sum()).collect().item() or 0)


def trims(run: RunData) -> int:
    """Number of packets whose payload switches cut off."""
    return run.summary.get("trims", 0)


def finished_flows(run: RunData) -> pl.DataFrame:
    """The finished flows, with columns size (both directions), bin, fct_us, slowdown."""
    size = pl.col("size_bytes") + pl.col("reply_bytes")
    return (
        run.flows.filter(pl.col("fct_us").is_not_null())
        .select(size.alias("size"), "fct_us", "slowdown")
        .with_columns(size_bin(pl.col("size")).alias("bin"))
        .collect()
    )


def unfinished_by(table: pl.LazyFrame, key: pl.Expr) -> dict[Any, int]:
    """For each value of `key`, the number of rows without a completion time, which percentiles exclude."""
    left = table.filter(pl.col("fct_us").is_null()).group_by(key.alias("key")).len().collect()
    return {value: count for value, count in left.rows() if value is not None}


def is_unfinished() -> pl.Expr:
    """True for flows that have a size and did not end.

    Connections of applications finish without a completion time, and UDP flows stop.
    """
    has_ended = pl.col("status").cast(pl.String).is_in(["finished", "stopped"])
    return pl.col("size_bytes").is_not_null() & ~has_ended


def stopped_flows(run: RunData) -> int:
    """Number of flows that have a size and stopped: UDP flows, which have no completion time."""
    is_stopped = pl.col("size_bytes").is_not_null() & (pl.col("status").cast(pl.String) == "stopped")
    return int(run.flows.select(is_stopped.sum()).collect().item())


def unfinished_flows(run: RunData) -> dict[int, int]:
    """Number of unfinished flows by size bin."""
    return unfinished_by(run.flows.filter(is_unfinished()), size_bin(pl.col("size_bytes") + pl.col("reply_bytes")))


def percentiles_by(frame: pl.DataFrame, key: str) -> dict[Any, dict[str, float]]:
    """For each value of `key`: n, and p50, p95, p99, p999 of fct_us and (with the suffix _slowdown) slowdown."""
    statistics = [pl.len().alias("n")]
    for name, share in PERCENTILES.items():
        statistics.append(pl.col("fct_us").quantile(share, "linear").alias(name))
        statistics.append(pl.col("slowdown").quantile(share, "linear").alias(f"{name}_slowdown"))
    rows = frame.group_by(key).agg(statistics).sort(key).to_dicts()
    return {row.pop(key): row for row in rows}


def cdf(values: pl.Series, points: int = CDF_POINTS) -> tuple[list[float], list[float]]:
    """Values and the share of observations up to each, at most `points`, half of them beyond the median."""
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
    """For each size bin (a factor of four, from 1 KB): size (geometric mean), n, p50 and p99 of slowdown."""
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
    """The finished queries, with columns response_bytes, fct_us, slowdown."""
    return run.queries.filter(pl.col("fct_us").is_not_null()).select("response_bytes", "fct_us", "slowdown").collect()


def busy_until(run: RunData, share: float = 0.995) -> float:
    """Time in seconds at which the given share of all bytes has arrived; figures do not show the idle end of a run.

    While flows wait, as in a deadlock or for a timer, the network is not idle: figures must show such an end.
    """
    end: float = run.summary["sim_time_s"]
    if waits_at_end(run):
        return end
    steps = received(run)
    if steps.is_empty():
        return _last_finish(run, end)
    sums: list[float] = steps["bytes"].cum_sum().to_list()
    if sums[-1] <= 0:
        return end
    ends: list[float] = steps["end"].to_list()
    return min(ends[bisect_left(sums, sums[-1] * share)], end)


def waits_at_end(run: RunData) -> bool:
    """True if a flow, long ones included, or a deadlock still had something to send when the run ended."""
    if run.summary.get("deadlocks"):
        return True
    has_ended = pl.col("status").cast(pl.String).is_in(["finished", "stopped"])
    return bool(run.flows.select((~has_ended).any()).collect().item())


def _last_finish(run: RunData, end: float) -> float:
    """Time when the last flow finished, for runs that did not record the arrival of bytes."""
    last: float | None = run.flows.select(pl.col("finish_us").max()).collect().item()
    return end if last is None else min(last / 1e6, end)


def received(run: RunData) -> pl.DataFrame:
    """Bytes received by all hosts together: start and end of each interval in seconds, bytes."""
    if run.throughput is None:
        return pl.DataFrame(schema={"start": pl.Float64, "end": pl.Float64, "bytes": pl.Float64})
    return (
        run.throughput.group_by("start_us")
        .agg(pl.col("end_us").first(), pl.col("received_bytes").sum().cast(pl.Float64).alias("bytes"))
        .sort("start_us")
        .select((pl.col("start_us") / 1e6).alias("start"), (pl.col("end_us") / 1e6).alias("end"), "bytes")
        .collect()
    )


def throughput(run: RunData, until: float) -> tuple[list[float], list[float]]:
    """Received bits per second until a given time: (s, b/s).

    Each value holds until the next time, and the last value closes the line.

    Each value is a mean: of neighbouring intervals that are together a two-hundredth of the time with bytes and 20 us
    long, so that a single packet too many in an interval is negligible.
    """
    steps = received(run).filter(pl.col("start") < until)
    if steps.is_empty():
        return [], []
    active = min(until, float(steps["end"][-1]))  # a stall after it needs no intervals
    least = max(active / THROUGHPUT_POINTS, min(SHORTEST_INTERVAL, active / 10))
    width = max(1, math.ceil(least / (steps["end"][0] - steps["start"][0]) - 1e-9))
    # An incomplete last group is merged with the group before it, since one packet in it would look like a peak.
    last = max(len(steps) // width - 1, 0)
    number = pl.min_horizontal(pl.int_range(pl.len()) // width, pl.lit(last))
    wide = steps.group_by(number.alias("number"), maintain_order=True).agg(
        pl.col("start").first(), pl.col("end").last(), pl.col("bytes").sum()
    )
    rates = (wide["bytes"] * 8 / (wide["end"] - wide["start"])).to_list()
    last_end, end = float(wide["end"][-1]), min(until, run.summary["sim_time_s"])
    if waits_at_end(run) and last_end < end:  # the table ends with the last byte
        return [*wide["start"].to_list(), last_end, end], [*rates, 0.0, 0.0]
    return [*wide["start"].to_list(), last_end], [*rates, rates[-1]]


def mean_throughput(run: RunData) -> float:
    """Mean over the busy part of the run in bits per second: one late flow would lower the mean over the whole run."""
    until = busy_until(run)
    steps = received(run).filter(pl.col("start") < until)
    return 0.0 if steps.is_empty() else float(steps["bytes"].sum()) * 8 / until


def ports_by_number(run: RunData) -> pl.DataFrame:
    """One row per port with all priorities: node, number, peer, tier and the values of the heat map."""
    drops = pl.sum_horizontal(pl.col("^drops_.*$").sum())
    has_trims = "trims" in run.ports.collect_schema().names()
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
            (pl.col("trims").sum() if has_trims else pl.lit(0)).alias("trims"),
        )
        .with_columns(pl.col("port").str.extract(r":(\d+)$").cast(pl.Int64).fill_null(0).alias("number"))
        .collect()
    )


def highest(runs: Sequence[RunData], metric: str, count: int, pattern: str | None = None) -> list[str]:
    """The entities with the highest peaks in any run, among names that match the glob `pattern`.

    Returns at most `count` ports or flows; a port includes all its priorities, because runs may use different ones.
    """
    peaks = pl.concat(
        [
            run.series.filter(pl.col("metric").cast(pl.String) == metric)
            .group_by(pl.col("entity").cast(pl.String))
            .agg(pl.col("value").max())
            .collect()
            for run in runs
        ]
    )
    peaks = peaks.group_by("entity").agg(pl.col("value").max()).sort("value", "entity", descending=[True, False])
    of_one: dict[str, list[str]] = {}
    for name in peaks["entity"].to_list():
        if pattern is None or fnmatchcase(name, pattern) or fnmatchcase(whose(name), pattern):
            of_one.setdefault(whose(name), []).append(name)
    return [name for names in list(of_one.values())[:count] for name in names]


def whose(entity: str) -> str:
    """The port of an entity such as "leaf0:3/p3", or the entity itself for a flow."""
    return entity.partition("/")[0]


@dataclass(frozen=True)
class Line:
    """The samples of a port or flow; of groups of `per` samples their mean, minimum and maximum."""

    times: list[float]
    """In seconds; of a group its first."""
    parts: list[pl.Series]
    """The samples; with `per` > 1 the means, the minima and the maxima."""
    per: int
    count: int
    """Number of samples."""

    @property
    def peak(self) -> float:
        """The highest sample."""
        return float(self.parts[-1].max() or 0.0)  # type: ignore[arg-type]

    def grid(self) -> Grid:
        """The times as `first` and `step` if they are evenly spaced, else all `times`."""
        first = self.times[0]
        step = self.times[1] - first if len(self.times) > 1 else 0.0
        even = (abs(time - first - number * step) < 1e-3 * step for number, time in enumerate(self.times))
        return {"first": first, "step": step} if len(self.times) == 1 or all(even) else {"times": self.times}


class Grid(TypedDict, total=False):
    """Times of samples, in seconds."""

    first: float
    step: float
    times: list[float]


def _samples(run: RunData, metric: str, entities: Sequence[str]) -> pl.LazyFrame:
    return (
        run.series.filter(pl.col("metric").cast(pl.String) == metric)
        .with_columns(pl.col("entity").cast(pl.String))
        .filter(pl.col("entity").is_in(list(entities)) & pl.col("value").is_not_null())
    )


def sample_count(run: RunData, metric: str, entities: Sequence[str]) -> int:
    """Number of samples of a metric of these entities."""
    return int(_samples(run, metric, entities).select(pl.len()).collect().item())


def lines(run: RunData, metric: str, entities: Sequence[str], per: int) -> dict[str, Line]:
    """Time series of the `entities` in this run, in groups of `per` samples, or fewer where a line is short."""
    samples = _samples(run, metric, entities).select("entity", "time_us", "value").collect()
    parts = samples.partition_by("entity", as_dict=True)
    return {one: _line(parts[one,].sort("time_us"), per) for one in entities if (one,) in parts}


def _line(samples: pl.DataFrame, per: int) -> Line:
    width = max(1, min(per, len(samples) // POINTS_OF_SHORT_LINES))
    time, value = pl.col("time_us") / 1e6, pl.col("value")
    if width == 1:
        return Line(samples.select(time).to_series().to_list(), [samples["value"]], 1, len(samples))
    groups = samples.group_by(pl.int_range(pl.len()) // width, maintain_order=True).agg(
        time.first(), value.mean().alias("mean"), value.min().alias("low"), value.max().alias("high")
    )
    return Line(groups["time_us"].to_list(), [groups["mean"], groups["low"], groups["high"]], width, len(samples))


def metrics(run: RunData) -> dict[str, int]:
    """The sampled metrics, with the number of entities of each."""
    rows = run.series.group_by(pl.col("metric").cast(pl.String)).agg(pl.col("entity").n_unique()).collect()
    return dict(sorted(rows.iter_rows()))


def natural(name: str) -> tuple[Any, ...]:
    """Sort key that puts "edge2" before "edge10"."""
    groups = itertools.groupby(name, str.isdigit)
    return tuple((1, int("".join(part)), "") if digit else (0, 0, "".join(part)) for digit, part in groups)


def shortened(scenario_toml: str) -> str:
    """The scenario with long lists shortened to key, length and digest."""
    return ENTRY.sub(lambda entry: _short_entry(entry[0]), scenario_toml)


def _short_entry(entry: str) -> str:
    if len(entry) <= LONGEST_ENTRY:
        return entry
    digest = hashlib.sha256(entry.encode()).hexdigest()[:16]
    key = entry.partition(" = ")[0]
    count = entry.count("\n") - 1 if "\n" in entry else entry.count("{") or entry.count(",") + 1
    return f'{key} = "a list of {count}, in scenario.resolved.toml; SHA-256 {digest}..."'


def settings(scenario_toml: str) -> dict[str, str]:
    """The resolved scenario as dotted paths and values."""
    return dict(_flatten("", parse_toml(shortened(scenario_toml))))


def differing(scenarios: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Keys that differ between resolved scenarios, with the value of each; names of the runs are excluded."""
    tables = [settings(toml) for toml in scenarios]
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [(key, [table.get(key, "") for table in tables]) for key in keys if key != "name"]
    return [row for row in rows if len(set(row[1])) > 1]


Rows: TypeAlias = list[tuple[str, list[str]]]
"""Keys, each with its value in each run."""


def split_by_origin(runs: Sequence[RunData]) -> tuple[Rows, Rows]:
    """The keys that differ between runs: those that somebody set in one of them, and all others.

    If a run does not know which keys were set, all count as set.
    """
    rows = differing([run.scenario_toml for run in runs])
    if any(run.given is None for run in runs):
        return rows, []
    given = {_by_name(run.scenario_toml, key) for run in runs for key in run.given or ()}
    return [row for row in rows if row[0] in given], [row for row in rows if row[0] not in given]


def _by_name(scenario_toml: str, key: str) -> str:
    """A key with the names of list items, as `settings` has it: "workload.incast.size" for "workload.0.size"."""
    at: Any = parse_toml(scenario_toml)
    parts = []
    for part in key.split("."):
        at = at[int(part)] if isinstance(at, list) and part.isdigit() and int(part) < len(at) else _entry(at, part)
        parts.append(str(at["name"]) if part.isdigit() and isinstance(at, dict) and "name" in at else part)
    return ".".join(parts)


def _entry(table: Any, name: str) -> Any:
    return table.get(name) if isinstance(table, dict) else None


def _flatten(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        parts = [_flatten(f"{path}.{key}".lstrip("."), item) for key, item in value.items()]
        return [pair for part in parts for pair in part]
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        named = [(item.get("name", index), item) for index, item in enumerate(value)]
        return [pair for name, item in named for pair in _flatten(f"{path}.{name}", item)]
    return [(path, str(value).lower() if isinstance(value, bool) else str(value))]
