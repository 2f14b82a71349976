#!/usr/bin/env python3
"""Makes the page of docs/gallery and its thumbnails from runs of the gallery's scenarios.

Run `make gallery`; tests/test_gallery.py compares the page. Each function draws one scenario and returns the numbers
that docs/gallery/page.md.in cites as {scenario.number}.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pauseframe as pf
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
SIZE = (3.2, 1.9)
"""Size of a thumbnail in inches."""
COLOURS = {"compute": "#3a78b5", "waiting": "#f0b429", "paused": "#d62728", "link": "#8a94a6", "switch": "#3a78b5"}
GBPS = 8e-3
"""Conversion factor from bytes per microsecond to Gb/s."""
Numbers = dict[str, Any]


def incast(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the end of each flow, by transport."""
    numbers: Numbers = {}
    for preset, flows in _by_preset(sweep.flows.collect()):
        ends = flows["fct_us"].sort() / 1000
        axes.step([0, *ends], range(len(ends) + 1), where="post", label=preset)
        numbers[f"{preset}_ms"] = ends[-1]
    for preset, rows in _by_preset(sweep.summaries):
        numbers |= {f"{preset}_{key}": rows[key][0] for key in ("drops", "pfc_pauses", "timeouts")}
    axes.set(xscale="log", xlabel="ms", ylabel="flows finished")
    axes.legend()
    return numbers


def storm(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the pauses of each port; the port that was paused first is at the bottom."""
    changes = pl.DataFrame(run.states).filter(pl.col("kind").is_in(["paused", "resumed"])).sort("time_us")
    ports: dict[str, list[tuple[float, float]]] = {}
    since: dict[str, float] = {}
    for time, kind, port in changes.select("time_us", "kind", "port").iter_rows():
        if kind == "paused":
            since.setdefault(port, time)
        elif port in since:
            ports.setdefault(port, []).append((since[port], time - since.pop(port)))
    end = run.summary["sim_time_s"] * 1e6
    for port, time in since.items():
        ports.setdefault(port, []).append((time, end - time))
    ordered = sorted(ports, key=lambda port: ports[port][0][0])
    for index, port in enumerate(ordered):
        axes.broken_barh(ports[port], (index - 0.4, 0.8), color=COLOURS["paused"])
    axes.set_yticks(range(len(ordered)), ordered)
    axes.set(xlabel="us, paused in red", xlim=(0, end))
    return {
        "ports": len(ordered),
        "first_us": ports[ordered[0]][0][0],
        "last_us": max(spans[0][0] for spans in ports.values()),
        "drops": run.summary["drops"],
    }


def deadlock(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the delivered bytes of every flow over time."""
    goodput = pl.DataFrame(run.series).filter(metric="goodput_gbps")
    for _, flow in goodput.group_by("entity", maintain_order=True):
        step = flow["time_us"].diff().fill_null(0)
        axes.plot(flow["time_us"], (flow["value"] * step / GBPS / 1e3).cum_sum(), linewidth=1)
    cycle = pl.DataFrame(run.deadlocks)
    since = _float(cycle["paused_since_us"].max())
    axes.axvline(since, color=COLOURS["paused"], linestyle="--", linewidth=1)
    axes.set(xlabel="us", ylabel="KB delivered, each flow", xlim=(0, 600))
    return {"since_us": since, "queues": len(cycle), "finished": run.summary["flows_finished"]}


def parking_lot(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the throughput of every sender."""
    rates = pl.DataFrame(run.flows)["delivered_bytes"] * GBPS / 50_000
    axes.bar([f"host{index}" for index in range(len(rates))], rates)
    axes.axhline(sum(rates) / len(rates), color=COLOURS["link"], linestyle="--", linewidth=1)
    axes.set(ylabel="Gb/s")
    return {f"host{index}": rate for index, rate in enumerate(rates)} | {"fair": sum(rates) / len(rates)}


def buildup(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the queue of the shared link over time."""
    numbers: Numbers = {}
    queue = sweep.series.filter(pl.col("metric") == "backlog_bytes").collect()
    for preset, rows in _by_preset(queue):
        axes.plot(rows["time_us"] / 1000, rows["value"] / 1000, linewidth=1, label=preset)
        settled = _float(rows.filter(pl.col("time_us") > 10_000)["value"].mean())
        numbers[f"{preset}_kb"] = settled / 1000
        numbers[f"{preset}_us"] = settled * GBPS / 10
    axes.set(xlabel="ms", ylabel="queue, KB")
    axes.legend()
    return numbers


def coexistence(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the throughput of both flows over time."""
    rates = _rates(axes, run, every=1000)
    return {name: _mean(rates.filter(workload=name), 100_000, 199_000) for name in ("dctcp", "cubic")}


def all_reduce(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the activities of every rank over time."""
    for row in pl.DataFrame(run.timeline).iter_rows(named=True):
        bar = [(row["start_us"] / 1000, (row["end_us"] - row["start_us"]) / 1000)]
        axes.broken_barh(bar, (row["rank"] + 0.1, 0.8), color=COLOURS[row["activity"]], rasterized=True)
    axes.set(xlabel="ms", ylabel="rank")
    job = pl.DataFrame(run.jobs).row(0, named=True)
    network = job["waiting_us"] + job["sending_us"]
    return {
        "ms": job["time_us"] / 1000,
        "slowdown": job["slowdown"],
        "drops": run.summary["drops"],
        "network": 100 * network / job["time_us"],
    }


def victim(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the throughput of the crowd and of the victim over time."""
    rates = _rates(axes, run, every=500).filter(workload="victim")
    return {
        "alone": _mean(rates, 1_000, 4_900),
        "crowded": _mean(rates, 6_000, 14_500),
        "drops": run.summary["drops"],
    }


def roce(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the throughput of both classes over time."""
    rates = _rates(axes, run, every=100).filter(workload="roce")
    return {
        "alone": _mean(rates, 1_000, 4_900),
        "least": rates.filter(pl.col("start_us") > 5_000)["gbps"][:-1].min(),
        "end": _mean(rates, 19_000, 19_900),
        "drops": run.summary["drops"],
    }


def dynamic_thresholds(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the queues of the three ports over time."""
    queues = pl.DataFrame(run.series).filter(metric="backlog_bytes")
    numbers: Numbers = {}
    for (port,), rows in queues.group_by("entity", maintain_order=True):
        axes.plot(rows["time_us"] / 1000, rows["value"] / 1000, label=str(port).partition("/")[0])
    for index, end in enumerate((990, 1990, 2990), start=1):
        at_end = queues.filter((pl.col("time_us") - end).abs() < 5)["value"].cast(float) / 1000
        numbers |= {f"queue{index}_kb": at_end.max(), f"held{index}_kb": at_end.sum()}
    axes.set(xlabel="ms", ylabel="queue, KB")
    axes.legend()
    return numbers


def failure(axes: Axes, run: pf.Run) -> Numbers:
    """Draws the throughput of all flows together over time."""
    rates = _rates(axes, run, every=200)
    spans = {
        "before": (5_000, 9_700),
        "outage": (11_000, 14_000),
        "rerouted": (25_000, 29_700),
        "after": (40_000, 49_700),
    }
    means = {name: _mean(rates, *span) for name, span in spans.items()}
    return means | {"lost": run.summary["drops_by_reason"]["link_down"]}


def storage(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the 90th percentile of read times by the number of servers."""
    numbers: Numbers = {}
    for preset, rows in _by_preset(sweep.queries.collect()):
        times = (
            rows.group_by("workload.fan_in")
            .agg(pl.col("fct_us").quantile(0.9, "linear") / 1000)
            .sort("workload.fan_in")
        )
        axes.plot(times["workload.fan_in"], times["fct_us"], "o-", markersize=3, label=preset)
        numbers |= {f"{preset}_{servers}": value for servers, value in times.iter_rows()}
    axes.set(yscale="log", xlabel="servers per read", ylabel="p90 of reads, ms")
    axes.legend()
    return numbers


def collisions(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest message by the queue pairs that it is split over."""
    numbers: Numbers = {}
    pairs = "transport.rdma_qps_per_connection"
    for (kind,), rows in _slowest(sweep, pairs).group_by("routing.kind", maintain_order=True):
        axes.plot(rows[pairs], rows["slowdown"], "o-", markersize=3, label=str(kind))
        numbers |= {f"{kind}_{count}": value for count, value in rows.select(pairs, "slowdown").iter_rows()}
    axes.set(xlabel="queue pairs of a message", ylabel="slowest, times ideal", ylim=(0, None))
    axes.legend()
    return numbers


def overtaking(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest message by the choice of switches, for two kinds of receivers."""
    numbers: Numbers = {}
    repeats = "transport.rdma_selective_repeat"
    for offset, (is_selective, name) in zip(
        (-0.2, 0.2), ((False, "go-back-N"), (True, "selective repeat")), strict=True
    ):
        rows = _slowest(sweep, repeats).filter(pl.col(repeats) == is_selective)
        places = [place + offset for place in range(rows.height)]
        axes.bar(places, rows["slowdown"], 0.4, label=name)
        axes.set_xticks(range(rows.height), rows["routing.kind"].cast(pl.String))
        numbers |= {f"{kind}_{name[0]}": value for kind, value in rows.select("routing.kind", "slowdown").iter_rows()}
    axes.set(yscale="log", ylabel="slowest, times ideal")
    axes.legend()
    return numbers


def polarization(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest flow by hash function and seeds of the tiers."""
    by = ["routing.hash", "routing.hash_seeds", "routing.hash_offsets"]
    rows = _slowest_of_runs(sweep.flows, by)
    return _bars(
        axes, {f"{name}_{seeds}{'' if offsets == '[]' else '_rotated'}": s for name, seeds, offsets, s in rows}
    )


def wcmp(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest flow by the weights of next hops, without and with other traffic behind the wide one."""
    by = ["workload.1.flows.0.size", "routing.weights"]
    rows = _slowest_of_runs(sweep.flows.filter(pl.col("workload") == "across"), by)
    return _bars(axes, {f"{weights}_{'alone' if other == '2 KB' else 'busy'}": s for other, weights, s in rows})


def resilient(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the share of flows between the racks that move when an uplink is lost."""
    by = ["routing.index", "routing.buckets"]
    in_rack = pl.col("src", "dst").cast(pl.String).is_in([f"host{number}" for number in range(40)])
    flows = sweep.flows.with_columns(in_rack).filter(pl.col("src") & ~pl.col("dst")).select(*by, "seed", "flow")
    rows = sweep.table("paths").filter(direction="forward", node="leaf0").join(flows, on=[*by, "seed", "flow"])
    ports = rows.group_by(*by, "seed", "flow").agg(moved=pl.col("port").n_unique() > 1)
    moved = ports.group_by(*by).agg(pl.col("moved").mean() * 100).sort("moved").collect().iter_rows()
    numbers = _bars(axes, {f"{index}_{buckets}": share for index, buckets, share in moved}, "flows that move, %")
    for index, buckets, slowest in _slowest_of_runs(sweep.flows, by):
        numbers[f"slowest_{index}_{buckets}"] = slowest
    again = sweep.summaries.group_by(*by).agg(pl.col("retransmits").mean())
    return numbers | {f"again_{index}_{buckets}": round(count) for index, buckets, count in again.iter_rows()}


def conweave(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest flow by the choice of switches, for receivers that keep order and others."""
    rows = _slowest_of_runs(sweep.flows, ["routing.kind", "transport.rdma_dp_ordering"])
    numbers = _bars(axes, {f"{kind}_{ordering}": slowest for kind, ordering, slowest in rows})
    axes.set(xscale="log")
    return numbers


def ars(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest flow by mode and age of samples."""
    numbers: Numbers = {}
    age = "routing.sampling_interval"
    runs = sweep.flows.group_by("routing.mode", age, "seed").agg(pl.col("slowdown").max())
    rows = runs.group_by("routing.mode", age).agg(pl.col("slowdown").mean()).collect()
    rows = rows.with_columns(us=pl.col(age).cast(pl.String).str.split(" ").list.first().cast(pl.Int64)).sort("us")
    for (mode,), of_mode in rows.sort("routing.mode", "us").group_by("routing.mode", maintain_order=True):
        axes.plot(of_mode["us"], of_mode["slowdown"], "o-", markersize=3, label=str(mode))
        numbers |= {f"{mode}_{us}": slowest for us, slowest in of_mode.select("us", "slowdown").iter_rows()}
    axes.set(xscale="log", xlabel="age of samples, us", ylabel="slowest, times ideal", ylim=(0, None))
    axes.legend()
    return numbers


def entropy(axes: Axes, sweep: pf.Sweep) -> Numbers:
    """Draws the slowest flow by the choice of entropy values, with a dead uplink that routes know or not."""
    rows = _slowest_of_runs(sweep.flows, ["routing.convergence", "transport.rdma_entropy"])
    names = {"0 s": "known", "100 ms": "unknown"}
    numbers = _bars(axes, {f"{choice}_{names[convergence]}": slowest for convergence, choice, slowest in rows})
    axes.set(xscale="log")
    return numbers


def _slowest_of_runs(flows: pl.LazyFrame, by: list[str]) -> list[tuple[Any, ...]]:
    """By the axes `by`: their values as text and the slowdown of the slowest flow of a run, mean of the seeds."""
    runs = flows.with_columns(pl.col(by).cast(pl.String)).group_by(*by, "seed").agg(pl.col("slowdown").max())
    return runs.group_by(by).agg(pl.col("slowdown").mean()).sort(by).collect().rows()


def _bars(axes: Axes, values: Numbers, label: str = "slowest, times ideal") -> Numbers:
    """Draws a bar for each value."""
    axes.barh([name.replace("_", " ") for name in values], list(values.values()), color=COLOURS["switch"])
    axes.invert_yaxis()
    axes.set(xlabel=label)
    return values


def _slowest(sweep: pf.Sweep, axis: str) -> pl.DataFrame:
    """By routing and `axis`: the slowdown of the slowest flow of a run, mean of the seeds."""
    by = ["routing.kind", axis]
    runs = sweep.flows.collect().group_by(*by, "seed", maintain_order=True).agg(pl.col("slowdown").max())
    return runs.group_by(*by, maintain_order=True).agg(pl.col("slowdown").mean())


DRAWN = (
    incast, storm, deadlock, parking_lot, buildup, coexistence,
    all_reduce, victim, roce, dynamic_thresholds, failure, storage,
    collisions, overtaking, polarization, wcmp, resilient, conweave, ars, entropy,
)  # fmt: skip
SCENARIOS: dict[str, Callable[[Axes, Any], Numbers]] = {one.__name__: one for one in DRAWN}


def _by_preset(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    groups = rows.group_by("transport.preset", maintain_order=True)
    return [(str(preset), group) for (preset,), group in groups]


def _rates(axes: Axes, run: pf.Run, every: int) -> pl.DataFrame:
    """Draws the throughput of each workload in intervals of `every` microseconds, and returns it."""
    starts = (pl.col("start_us") // every * every).alias("start_us")
    rates = (
        pl.DataFrame(run.throughput)
        .group_by("workload", starts, maintain_order=True)
        .agg(gbps=pl.col("received_bytes").sum() * GBPS / (pl.col("end_us").max() - pl.col("start_us").min()))
    )
    for (name,), rows in rates.group_by("workload", maintain_order=True):
        axes.plot(rows["start_us"] / 1000, rows["gbps"], linewidth=1, label=str(name))
    axes.set(xlabel="ms", ylabel="Gb/s", ylim=(0, None))
    axes.legend()
    return rates


def _mean(rates: pl.DataFrame, start: float, end: float) -> float:
    return _float(rates.filter(pl.col("start_us").is_between(start, end))["gbps"].mean())


def _float(value: Any) -> float:
    """A statistic of a numeric column, as a float."""
    return float(value)


def results(name: str, out: Path) -> Any:
    """The results of one scenario; those of a sweep if the scenario has axes."""
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    if "\n[sweep]\n" in text:
        return pf.sweep(FOLDER / f"{name}.toml", out=out / name, progress=False)
    return pf.run(FOLDER / f"{name}.toml", progress=False)


def page(numbers: dict[str, Numbers]) -> str:
    """The text of the page with the numbers of the runs."""

    def filled(mark: re.Match[str]) -> str:
        value = numbers[mark[1]][mark[2]]
        return f"{value:,}" if isinstance(value, int) or value >= 1000 else f"{value:.3g}"

    text = (FOLDER / "page.md.in").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\.(\w+)\}", filled, text)


def draw(folder: Path | None) -> dict[str, Numbers]:
    """Runs every scenario; saves its thumbnail in `folder`, if given, and returns its numbers."""
    numbers: dict[str, Numbers] = {}
    with tempfile.TemporaryDirectory() as out:
        for name, scenario in SCENARIOS.items():
            figure = Figure(figsize=SIZE, layout="constrained")
            axes = figure.subplots()
            numbers[name] = scenario(axes, results(name, Path(out)))
            if folder:
                _save(figure, axes, folder / f"{name}.svg")
    return numbers


def _save(figure: Figure, axes: Axes, path: Path) -> None:
    axes.tick_params(labelsize=6)
    axes.xaxis.label.set_fontsize(7)
    axes.yaxis.label.set_fontsize(7)
    if legend := axes.get_legend():
        legend.set_frame_on(False)
        for label in legend.get_texts():
            label.set_fontsize(6)
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    """Writes the page and its thumbnails."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "pauseframe"}):
        text = page(draw(FOLDER))
    (FOLDER / "README.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
