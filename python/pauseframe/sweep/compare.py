"""Compares runs and sweeps: medians over seeds, and differences between runs of the same seed.

Runs of one seed draw the same flows (common random numbers). Differences are therefore taken seed by seed, which
excludes the variation that both runs share. Every other variant is compared with the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.results import flow_sizes
from pauseframe.results.causes import Conditions, brief_causes, lossless_caution
from pauseframe.results.folder import FINISHED, ResultsFolder, open_results
from pauseframe.results.ideals import Ideals, added, ideal_caution, ideals_of
from pauseframe.results.percentiles import is_unsure, share_of
from pauseframe.results.ranking import Outcome
from pauseframe.sweep.results import MANIFEST, flat, load_sweep
from pauseframe.sweep.spec import label
from pauseframe.sweep.statistics import Estimate, estimate
from pauseframe.terminal.text import none_of, unfinished_flows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from pauseframe.scenario.plain import Settings
    from pauseframe.sweep.plan import PlannedRow
    from pauseframe.sweep.results import Sweep
    from pauseframe.types import Summary

SIZES = {
    f"fct_us.p99.{size}": name
    for size, name in zip(
        ("to_10KB", "10KB_100KB", "100KB_1MB", "1MB_10MB", "from_10MB"), flow_sizes.NAMES, strict=True
    )
}
"""Metrics of flows by size, with the bytes of both directions."""
METRICS = {
    "unfinished": "flows unfinished",
    "fct_us.mean": "FCT, mean",
    "fct_us.p50": "FCT, p50",
    "fct_us.p99": "FCT, p99",
    "fct_us.p999": "FCT, p99.9",
    "fct_us.max": "FCT, slowest flow",
    **{name: f"FCT, p99, flows of {size}" for name, size in SIZES.items()},
    "slowdown.p50": "slowdown, p50",
    "slowdown.p99": "slowdown, p99",
    "query_fct_us.p50": "queries, p50",
    "query_fct_us.p99": "queries, p99",
    "query_fct_us.p999": "queries, p99.9",
    "query_fct_us.max": "queries, slowest",
    "long_goodput_bps": "goodput of long flows",
    "long_fairness": "fairness of long flows (Jain's index, without UDP)",
    "jobs_unfinished": "jobs unfinished",
    "job_time_us": "time of a job, mean",
    "job_iteration_us": "training iteration, mean",
    "job_exposed_us": "communication that training waits for",
    "job_bubble_us": "bubble of the pipeline",
    "drops": "drops",
    "trims": "packets trimmed",
    "retransmits": "packets sent again",
    "timeouts": "timeouts",
    "ecn_marks": "packets marked CE",
    "pfc_pauses": "pause frames",
    "switch_held_max_bytes": "most that a switch held",
}
LONG = ("long_goodput_bps", "long_fairness")
"""Metrics of long flows, which are also known by transport: `long_goodput_bps.TRANSPORT`. More is better."""
JOB_TIMES = {
    "job_time_us": ("time_us",),
    "job_iteration_us": ("iteration_us",),
    "job_exposed_us": (
        *("exposed_tp_us", "exposed_cp_us", "exposed_dp_us", "exposed_ep_us", "exposed_pp_us"),
        "exposed_checkpoint_us",
    ),
    "job_bubble_us": ("bubble_us",),
}
"""Metrics of applications, with the columns of the table `jobs` that they add up."""
WHAT = {"query_fct_us": "query", **dict.fromkeys(JOB_TIMES, "job")}
"""What a group of metrics times, if not flows."""
ENVIRONMENT = {
    *("clocks", "remember", "topology", "routing", "host", "switch", "qcn"),
    *("failure", "corruption", "pause_storm", "stop"),
}
"""Tables of a scenario that variants of a transport or workload are expected to share."""
SOURCE = "results"
"""Name that replaces an axis when several folders are compared."""
VOLATILE = {"wall_s", "threads", "threads_reason", "packet_hops_per_s", "peak_rss_bytes", "seed"}


@dataclass(frozen=True)
class Observation:
    """One run of a comparison: its variant and setting, and its metrics."""

    source: str
    axes: Settings
    seed: int
    values: dict[str, float]
    fingerprint: str
    """Fingerprint of the run: equal for two seeds if the seed has no effect."""
    conditions: Conditions
    """Conditions that may cause a difference besides the settings."""
    scenario_toml: str
    samples: dict[str, int]
    """Number of samples by group of the summary (`fct_us`), or by metric of one flow size."""
    left: dict[str, int]
    """Number of unfinished flows of one size or of unfinished queries, by the same names; of others, of all flows."""
    ideals: Ideals

    def samples_of(self, metric: str) -> int | None:
        """Number of samples of a percentile; None if the metric is not a percentile."""
        if share_of(metric) is None:
            return None
        return self.samples.get(metric, self.samples.get(metric.partition(".")[0]))

    def conditions_for(self, metric: str) -> Conditions:
        """The conditions, with the number of what the metric measures: flows, flows of one size, queries or jobs."""
        group, every = metric.partition(".")[0], self.conditions.unfinished
        left = self.left.get(metric, self.left.get(group, 0 if metric in SIZES else every))
        done = self.samples.get(metric, self.samples.get(group, 0))
        return self.conditions.counting(WHAT.get(group, "flow"), done + left, left)


@dataclass(frozen=True)
class Cell:
    """A metric of one variant under one setting of the other axes, over its seeds."""

    metric: str
    setting: tuple[str, ...]
    """Labels of the other axes' values."""
    variant: str
    value: Estimate
    difference: Estimate | None
    """Difference from the first variant, over the common seeds."""
    ratio: Estimate | None
    """Ratio to the first variant; None if the first variant's value is zero for a seed."""
    seedless: bool = False
    """True if all runs are equal for every seed, so that an interval makes no sense."""
    samples: int | None = None
    """Samples of a percentile in the seed with the fewest: `value` is the median of one percentile per seed."""
    unfinished: int = 0
    """Number of flows or queries without a completion time, over all seeds; 0 if the metric is not a time."""
    causes: list[str] = field(default_factory=list)
    """Causes of the difference other than the variant."""
    by_seed: dict[int, float] = field(default_factory=dict)
    """The values of the seeds behind `value`."""
    first_seeds: tuple[int, ...] = ()
    """Seeds of the first variant under the same setting; `difference` is over those that are also in `seeds`."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds behind `value`."""
        return tuple(self.by_seed)

    def beside(self, base: Cell, level: float) -> tuple[Estimate | None, Estimate | None]:
        """Difference from and ratio to the cell `base`, over the common seeds.

        Both are None without a common seed; the ratio is None if a value of `base` is zero.
        """
        pairs = [(one, base.by_seed[seed]) for seed, one in self.by_seed.items() if seed in base.by_seed]
        if not pairs:
            return None, None
        varies = not (self.seedless and base.seedless)
        difference = estimate([one - other for one, other in pairs], level, varies=varies)
        if any(other == 0 for _, other in pairs):
            return difference, None
        return difference, estimate([one / other for one, other in pairs], level, varies=varies)

    @property
    def is_unsure(self) -> bool:
        """True if the metric is a percentile with too few samples beyond it."""
        share = share_of(self.metric)
        return share is not None and self.samples is not None and is_unsure(self.samples, share)


@dataclass(frozen=True)
class Comparison:
    """All cells of a comparison and their arrangement."""

    by: str
    """The axis whose values are the variants, or `SOURCE`."""
    variants: list[str]
    axes: dict[str, list[str]]
    """The other axes with the labels of their values."""
    metrics: list[str]
    cells: list[Cell]
    runs: int
    missing: list[str]
    """For each sweep with unfinished runs, a text that counts them."""
    cut_short: int
    """Number of runs with unfinished flows, which make FCTs look better."""
    syns_dropped: int
    """Number of SYNs in all runs that markers dropped because SYNs are not ECN-capable."""
    level: float
    folders: list[Path]
    conditions: list[Conditions]
    """The conditions of all runs of each variant."""
    effective: list[tuple[str, list[str]]]
    """Settings of the network, of hosts and of clocks that differ besides the axes, with the value of each variant."""
    ideals: dict[str, Ideals]
    """The ideal times of all runs of each variant."""
    outcomes: dict[tuple[str, tuple[str, ...], str], Outcome]
    """By metric, setting and variant the median, and what all its runs finished of the flows, queries or jobs timed."""

    def cell(self, metric: str, setting: tuple[str, ...], variant: str) -> Cell | None:
        """The cell of this metric, setting and variant, or None if it has no runs."""
        found: Cell | None = self._index.get((metric, setting, variant))
        return found

    @property
    def settings(self) -> list[tuple[str, ...]]:
        """The settings of the other axes that have runs, in order."""
        return list(dict.fromkeys(cell.setting for cell in self.cells))

    @property
    def same_memory(self) -> dict[str, bool]:
        """For each variant, True if its switches have the same memory as those of the first variant."""
        alike = (not lossless_caution([self.conditions[0], other]) for other in self.conditions)
        return dict(zip(self.variants, alike, strict=True))

    def __post_init__(self) -> None:
        index = {(cell.metric, cell.setting, cell.variant): cell for cell in self.cells}
        object.__setattr__(self, "_index", index)

    _index: Any = None


def compare(
    folders: Sequence[str | Path],
    *,
    by: str | None = None,
    metrics: Sequence[str] | None = None,
    level: float = 0.95,
) -> Comparison:
    """Compares results folders and sweeps.

    Several folders are compared with one another; within one sweep, the values of the axis `by` (default: its first).
    `metrics` are entries of the summary (`fct_us.p99`), "unfinished", or times of applications (`job_iteration_us`).
    Raises FileNotFoundError if a folder has no results, InputError (a RunError) if they cannot be compared.
    """
    readings = [_read(Path(folder)) for folder in folders]
    missing = [text for _, text in readings if text]
    observations = _named([one for reading, _ in readings for one in reading], folders)
    if not observations:
        raise InputError("; ".join(["no finished run to compare", *missing]))
    axes = list(observations[0].axes)
    for one in observations:
        if set(one.axes) != set(axes):
            raise InputError(_other_axes(observations[0], one))
    several = len({one.source for one in observations}) > 1
    by = by or (SOURCE if several or not axes else axes[0])
    if by not in (SOURCE, *axes):
        why = none_of(by, axes) if axes else "runs that are no sweep have none; leave --by out"
        raise InputError(f"--by {by} is no axis: {why}")
    rest = [axis for axis in [*([SOURCE] if several else []), *axes] if axis != by]
    names = _metrics(observations, metrics)
    table = _table(observations, by, rest)
    variants = list(dict.fromkeys(variant for variant, _ in table))
    settings = list(dict.fromkeys(setting for _, setting in table))
    cells = [
        cell
        for name in names
        for setting in settings
        for variant in variants
        if (cell := _cell(name, setting, variant, variants[0], table, level)) is not None
    ]
    cut = sum(one.values["unfinished"] > 0 for one in observations)
    syns = sum(int(one.values.get("syn_drops_not_ect", 0)) for one in observations)
    labels = {axis: list(dict.fromkeys(setting[i] for setting in settings)) for i, axis in enumerate(rest)}
    return Comparison(
        by,
        variants,
        labels,
        names,
        cells,
        len(observations),
        missing,
        cut,
        syns,
        level,
        [Path(f) for f in folders],
        [_conditions(table, variant) for variant in variants],
        _effective(table, variants, axes),
        {variant: added(one.ideals for one in _runs_of(table, variant)) for variant in variants},
        _outcomes(names, table, cells),
    )


def _outcomes(
    names: Sequence[str], table: Table, cells: Sequence[Cell]
) -> dict[tuple[str, tuple[str, ...], str], Outcome]:
    """The outcome of each metric, setting and variant with runs, also where no run has a value."""
    medians = {(cell.metric, cell.setting, cell.variant): cell.value.median for cell in cells}
    result = {}
    for name in names:
        for (variant, setting), runs in table.items():
            key = name, setting, variant
            timed = Conditions.together(variant, [one.conditions_for(name) for one in runs.values()])
            left = timed.unfinished if is_time(name) else 0
            result[key] = Outcome(medians.get(key), timed.flows - timed.unfinished, left, timed.what)
    return result


def is_time(metric: str) -> bool:
    """True if a metric is a time of flows, queries or jobs that finished."""
    return metric.startswith(("fct_us", "slowdown", "query_fct_us", "job_"))


def _effective(table: Table, variants: list[str], axes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Settings of hosts, switches and clocks that differ between the first runs of the variants, without the axes."""
    from pauseframe.report.data import differing

    first = {variant: next(iter(seeds.values())) for (variant, _), seeds in reversed(table.items())}
    rows = differing([first[variant].scenario_toml for variant in variants])
    return [
        (key, values)
        for key, values in rows
        if key.partition(".")[0] in ENVIRONMENT and not any(f"{key}.".startswith(f"{axis}.") for axis in axes)
    ]


def _conditions(table: Table, variant: str) -> Conditions:
    return Conditions.together(variant, [one.conditions for one in _runs_of(table, variant)])


def _runs_of(table: Table, variant: str) -> list[Observation]:
    return [one for (name, _), seeds in table.items() if name == variant for one in seeds.values()]


def long_table(comparison: Comparison) -> list[Settings]:
    """One row per cell, for CSV."""
    rows = []
    for cell in comparison.cells:
        row: Settings = {"metric": cell.metric, **dict(zip(comparison.axes, cell.setting, strict=True))}
        row |= {comparison.by: cell.variant, "baseline": comparison.variants[0]}
        row["same_memory"] = comparison.same_memory[cell.variant]
        row["other_causes"] = "; ".join(cell.causes)
        row |= {"samples": cell.samples, "unsure": cell.is_unsure, "unfinished": cell.unfinished}
        for prefix, one in (("", cell.value), ("difference_", cell.difference), ("ratio_", cell.ratio)):
            for part in ("n", "median", "low", "high", "coverage"):
                row[prefix + part] = None if one is None else getattr(one, part)
        rows.append(row)
    return rows


def _read(folder: Path) -> tuple[list[Observation], str]:
    """The finished runs of a folder, and a text about those of a sweep that are missing."""
    if not (folder / MANIFEST).is_file():
        results = open_results(folder)
        if results.manifest["status"] not in FINISHED:
            raise InputError(f"{folder}: the run is {results.manifest['status']}; only complete runs can be compared")
        return [_of_folder(folder, {}, results)], ""
    sweep = load_sweep(folder)
    return [_of_row(sweep, row) for row in sweep.finished], sweep.missing


def _of_row(sweep: Sweep, row: PlannedRow) -> Observation:
    axes = {axis: row["axes"][axis] for axis in sweep.axes}
    if row["key"] not in sweep.batches.runs:
        return _of_folder(sweep.folder, axes, open_results(sweep.folder / row["path"]))
    run = sweep.load(row)
    jobs = run.jobs.to_polars().lazy() if len(run.jobs) else None
    return _observation(sweep.folder, axes, run.summary, run.scenario_toml, run.flows.to_polars().lazy(), jobs)


def _of_folder(source: Path, axes: Settings, results: ResultsFolder) -> Observation:
    flows, jobs = (results.scan(name) if results.has_table(name) else None for name in ("flows", "jobs"))
    return _observation(source, axes, results.summary, results.scenario_toml, flows, jobs)


def _observation(
    source: Path,
    axes: Settings,
    summary: Summary,
    scenario_toml: str,
    flows: pl.LazyFrame | None,
    jobs: pl.LazyFrame | None,
) -> Observation:
    by_size, left, finished = ({}, {}, summary["flows_finished"]) if flows is None else _by_size(flows)
    samples = {"fct_us": finished, "slowdown": finished, "query_fct_us": summary["queries_finished"]}
    values = _values(summary) | {name: p99 for name, (p99, _) in by_size.items()}
    of_jobs, done_jobs = ({}, 0) if jobs is None else _of_jobs(jobs)
    values |= of_jobs
    samples |= dict.fromkeys(JOB_TIMES, done_jobs)
    left |= dict.fromkeys(JOB_TIMES, int(of_jobs.get("jobs_unfinished", 0)))
    if flows is not None and summary.get("flows_long", 1):
        values |= _of_long_flows(flows, summary["sim_time_s"] * 1e6)
    return Observation(
        str(source),
        axes,
        summary["seed"],
        values,
        summary["fingerprint"],
        Conditions.of(summary["name"], summary, scenario_toml),
        scenario_toml,
        samples | {name: count for name, (_, count) in by_size.items()},
        left | {"query_fct_us": summary["queries_total"] - summary["queries_finished"]},
        {} if flows is None else ideals_of(flows),
    )


def _values(summary: Summary) -> dict[str, float]:
    numbers = {
        key: value
        for key, value in flat(summary).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return numbers | {"unfinished": unfinished_flows(summary)}


def _of_jobs(jobs: pl.LazyFrame) -> tuple[dict[str, float], int]:
    """Mean times of the jobs, and how many finished.

    Of unfinished ones only the number, because a mean without them would be too short.
    """
    table = jobs.collect()
    left = table["time_us"].null_count()
    values: dict[str, float] = {"jobs_unfinished": left}
    if left == 0:
        for name, columns in JOB_TIMES.items():
            means = [table[column].mean() for column in columns if column in table.columns]
            known = [mean for mean in means if isinstance(mean, float)]
            values |= {name: sum(known)} if known else {}
    return values, len(table) - left


def _of_long_flows(flows: pl.LazyFrame, end_us: float) -> dict[str, float]:
    """Goodput and fairness of the long flows together and, if several transports have some, of each of these."""
    from pauseframe.results.long_flows import long_flows

    rows = long_flows(flows, end_us).to_dicts()
    named = {"" if row is rows[-1] else f".{row['transport']}": row for row in rows}
    values = {f"long_{name}{end}": row[name] for end, row in named.items() for name in ("goodput_bps", "fairness")}
    return {name: value for name, value in values.items() if value is not None}


def _by_size(flows: pl.LazyFrame) -> tuple[dict[str, tuple[float, int]], dict[str, int], int]:
    """The p99 of completion times by bin of flow sizes, with the number of samples; empty for a single bin.

    Also the number of unfinished flows by bin, and the number of samples of all.
    """
    import polars as pl

    from pauseframe.report.data import is_unfinished, unfinished_by

    size = flow_sizes.size_bin(pl.col("size_bytes") + pl.col("reply_bytes")).alias("bin")
    done = flows.filter(pl.col("fct_us").is_not_null())
    p99 = pl.col("fct_us").quantile(0.99, "linear")
    bins = done.group_by(size).agg(p99, pl.len().alias("n")).sort("bin").collect().rows()
    names = list(SIZES)
    by_size = {names[index]: (value, count) for index, value, count in bins} if len(bins) > 1 else {}
    left = {names[index]: count for index, count in unfinished_by(flows.filter(is_unfinished()), size).items()}
    return by_size, left, sum(count for _, _, count in bins)


def _other_axes(first: Observation, other: Observation) -> str:
    """A message about two folders of which one varies what the other does not."""
    alone = next((one for one in (first, other) if not one.axes), None)
    if alone is not None:
        sweep = other if alone is first else first
        return (
            f"{alone.source} is a single run, and {sweep.source} a sweep over {', '.join(sweep.axes)}: compare runs "
            "with runs, and sweeps with sweeps of the same keys"
        )
    return (
        f"{first.source} varies {', '.join(first.axes)}, and {other.source} {', '.join(other.axes)}: only sweeps of "
        "the same keys can be compared"
    )


def _named(observations: list[Observation], folders: Sequence[str | Path]) -> list[Observation]:
    """Names of folders: the last part of the path, or the whole path if that is ambiguous.

    Folders NAME-SEED of one scenario form one variant: NAME.
    """
    short = {str(Path(folder)): Path(folder).name or str(folder) for folder in folders}
    if len(set(short.values())) < len(short):
        short = {folder: folder for folder in short}
    stems = [short[one.source].removesuffix(f"-{one.seed}") for one in observations]
    single = all(not one.axes for one in observations)
    if single and len({(stem, one.seed) for stem, one in zip(stems, observations, strict=True)}) == len(observations):
        names = stems
    else:
        names = [short[one.source] for one in observations]
    return [replace(one, source=name) for name, one in zip(names, observations, strict=True)]


def _metrics(observations: Iterable[Observation], wanted: Sequence[str] | None) -> list[str]:
    known = sorted({name for one in observations for name in one.values} - VOLATILE)
    if wanted is None:
        parts = [name for name in known if name not in METRICS and name.startswith(LONG)]
        shown = [[name, *(part for part in parts if part.startswith(f"{name}."))] for name in METRICS]
        return [name for names in shown for name in names if any(one.values.get(name) for one in observations)]
    for name in wanted:
        if name not in known:
            raise InputError(f"metric {none_of(name, known)}")
    return list(wanted)


Table = dict[tuple[str, tuple[str, ...]], dict[int, Observation]]


def _table(observations: Iterable[Observation], by: str, rest: Sequence[str]) -> Table:
    """Runs by variant and setting, and by seed."""
    table: Table = {}
    for one in observations:
        place = {axis: label(value) for axis, value in one.axes.items()} | {SOURCE: one.source}
        seeds = table.setdefault((place[by], tuple(place[axis] for axis in rest)), {})
        if one.seed in seeds:
            raise InputError(f"{one.source} and another folder have the same run, seed {one.seed}, twice")
        seeds[one.seed] = one
    return table


def _cell(
    metric: str, setting: tuple[str, ...], variant: str, baseline: str, table: Table, level: float
) -> Cell | None:
    runs = table.get((variant, setting), {})
    mine = _by_seed(metric, runs)
    if not mine:
        return None
    others = {} if variant == baseline else table.get((baseline, setting), {})
    base = _by_seed(metric, others)
    seedless = _is_seedless(runs)
    value = estimate(list(mine.values()), level, varies=not seedless)
    conditions = Conditions.together(variant, [one.conditions_for(metric) for one in runs.values()])
    counts = [count for one in runs.values() if (count := one.samples_of(metric)) is not None]
    samples = min(counts, default=None)
    left = conditions.unfinished if is_time(metric) else 0
    cell = Cell(metric, setting, variant, value, None, None, seedless, samples, left, [], mine, tuple(base))
    if not base:
        return cell
    of_first = replace(cell, variant=baseline, seedless=_is_seedless(others), by_seed=base)
    difference, ratio = cell.beside(of_first, level)
    if difference is None:
        return cell
    first = Conditions.together(baseline, [one.conditions_for(metric) for one in others.values()])
    causes = brief_causes(first, conditions) if is_time(metric) else []
    if metric.startswith("slowdown"):
        sides = {
            name: added(side[seed].ideals for seed in mine if seed in base)
            for name, side in ((baseline, others), (variant, runs))
        }
        causes += ["ideal times differ"] if ideal_caution(sides) else []
    return replace(cell, difference=difference, ratio=ratio, causes=causes)


def _is_seedless(runs: dict[int, Observation]) -> bool:
    """True if several seeds gave equal runs."""
    return len(runs) > 1 and len({one.fingerprint for one in runs.values()}) == 1


def _by_seed(metric: str, runs: dict[int, Observation]) -> dict[int, float]:
    return {seed: one.values[metric] for seed, one in sorted(runs.items()) if metric in one.values}
