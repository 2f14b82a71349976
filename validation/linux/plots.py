"""Plots for docs/validation: the kernel in one colour, the simulator in another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from figures import Recording, steady, thin, within
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KERNEL, OURS = "#d95f02", "#1b6ca8"
REFERENCE = Path(__file__).parent / "recorded"
STEP_US = 10_000.0


def canvas(columns: int, rows: int = 1) -> tuple[Figure, Any]:
    """An empty figure that keeps text as text, so that files are small and reproducible."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pauseframe", "font.size": 7, "path.simplify": True})
    figure = Figure(figsize=(3.1 * columns, 2.1 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Writes the SVG file without a date."""
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Sets the titles of a plot and its axes."""
    axes.set_title(title, fontsize=7.5)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def legend(axes: Axes) -> None:
    """Adds a legend for kernel and simulator."""
    axes.plot([], [], color=KERNEL, label="Linux 6.1")
    axes.plot([], [], color=OURS, label="pauseframe")
    axes.legend(frameon=False, fontsize=6.5)


def over_time(
    axes: Axes, kernel: pl.DataFrame, ours: pl.DataFrame, metric: str, until_us: float, flow: int | None = None
) -> None:
    """Draws one line for the kernel and one for the simulator."""
    for lines, colour in ((kernel, KERNEL), (ours, OURS)):
        chosen = lines.filter((pl.col("metric") == metric) & (pl.col("t_us") <= until_us))
        if flow is not None:
            chosen = chosen.filter(pl.col("flow") == flow)
        axes.plot((chosen["t_us"] / 1e6).round(4), chosen["value"].round(3), color=colour, linewidth=0.8)


def cdf_of_queue(axes: Axes, scenario: str, ours: list[Recording]) -> None:
    """Distribution of the queue; the simulator's over all seeds."""
    kernel = pl.read_csv(REFERENCE / "queue_cdf.csv").filter(pl.col("scenario") == scenario)
    axes.plot(kernel["packets"], kernel["percent"], color=KERNEL, linewidth=1)
    values = pl.concat([within(run.lines, "queue", steady(scenario)) for run in ours])
    percents = range(101)
    axes.plot([values.quantile(percent / 100) or 0.0 for percent in percents], percents, color=OURS, linewidth=1)
    label(axes, scenario.removesuffix("_rtt600"), "queue, packets", "% of time at most")


def single(scenario: str, ours: Recording, kernel: pl.DataFrame, path: Path) -> None:
    """Group a: the window at the start and later, the queue, and the queue's distribution."""
    mine = thin(ours.lines, STEP_US)
    figure, axes = canvas(2, 2)
    over_time(axes[0], kernel, mine, "cwnd", 200_000)
    label(axes[0], "start", "s", "cwnd, segments")
    over_time(axes[1], kernel, mine, "cwnd", 5e6)
    label(axes[1], "window", "s", "cwnd, segments")
    over_time(axes[2], kernel, mine, "queue", 5e6)
    label(axes[2], "queue", "s", "queue, packets")
    cdf_of_queue(axes[3], scenario, [ours])
    legend(axes[3])
    save(figure, path)


def queues(scenarios: dict[str, list[Recording]], path: Path) -> None:
    """Group b: distributions of the queue."""
    figure, axes = canvas(3, 2)
    for one, (scenario, runs) in zip(axes, scenarios.items(), strict=True):
        cdf_of_queue(one, scenario, runs)
    legend(axes[0])
    save(figure, path)


def responses(scenarios: dict[str, list[Recording]], path: Path) -> None:
    """Group c: completion times of 20 KB responses."""
    figure, axes = canvas(len(scenarios))
    theirs = pl.read_csv(REFERENCE / "responses.csv")
    percents = [0.5 * step for step in range(199)]
    for one, (scenario, runs) in zip(axes, scenarios.items(), strict=True):
        kernel = theirs.filter(pl.col("scenario") == scenario)["completion_us"]
        ours = pl.concat([run.responses["completion_us"] for run in runs if run.responses is not None])
        for values, colour in ((kernel, KERNEL), (ours, OURS)):
            one.plot([(values.quantile(p / 100) or 0.0) / 1000 for p in percents], percents, color=colour, linewidth=1)
        label(one, scenario.removesuffix("_rtt600"), "20 KB response, ms", "% at most")
    legend(axes[-1])
    save(figure, path)


def rates(scenarios: dict[str, list[Recording]], kernel: pl.DataFrame, path: Path) -> None:
    """Groups d and e: goodput of each flow over time, first seed."""
    figure, axes = canvas(len(scenarios))
    for one, (scenario, runs) in zip(axes, scenarios.items(), strict=True):
        theirs = kernel.filter(pl.col("scenario") == scenario)
        mine = coarse(runs[0].lines)
        for flow in (1, 2):
            over_time(one, coarse(theirs), mine, "rate", 20e6, flow)
        label(one, scenario, "s", "goodput of each flow, Mb/s")
    legend(axes[0])
    save(figure, path)


def coarse(lines: pl.DataFrame) -> pl.DataFrame:
    """Mean rates over intervals of 200 ms."""
    keyed = lines.filter(pl.col("metric") == "rate").with_columns((pl.col("t_us") / 200_000).floor().alias("bin"))
    mean = keyed.group_by("metric", "flow", "bin").agg(pl.col("t_us").mean(), pl.col("value").mean())
    return mean.sort("flow", "t_us")


def incast(scenarios: dict[str, list[Recording]], path: Path) -> None:
    """Group f: completion times and timeouts by number of senders."""
    figure, axes = canvas(2, len(scenarios))
    theirs = pl.read_csv(REFERENCE / "incast.csv")
    for index, (scenario, runs) in enumerate(scenarios.items()):
        kernel = theirs.filter(pl.col("scenario") == scenario)
        ours = pl.concat([run.incast for run in runs if run.incast is not None])
        for rows, colour in ((kernel, KERNEL), (ours, OURS)):
            for (size,), cells in rows.group_by("bytes_each", maintain_order=True):
                mean = cells.group_by("senders", maintain_order=True).agg(
                    pl.col("completion_us").median() / 1000, (pl.col("timeouts") + pl.col("loss_probes")).mean()
                )
                style = {2000: "-", 8000: "--", 32000: "-.", 64000: ":"}[size]
                axes[2 * index].plot(mean["senders"], mean["completion_us"], style, color=colour, linewidth=1)
                axes[2 * index + 1].plot(mean["senders"], mean["timeouts"], style, color=colour, linewidth=1)
        axes[2 * index].set_yscale("log")
        rto = scenario.removeprefix("f_incast_cubic_")
        label(axes[2 * index], f"{rto}: 2 (—), 8 (- -), 32 (-·), 64 KB (··)", "senders", "median completion, ms")
        label(axes[2 * index + 1], rto, "senders", "timeouts and probes a round")
    legend(axes[1])
    save(figure, path)


def transfers(scenarios: dict[str, list[Recording]], path: Path) -> None:
    """Group g: completion times by flow size."""
    figure, axes = canvas(len(scenarios))
    theirs = pl.read_csv(REFERENCE / "fct.csv")
    for one, (scenario, runs) in zip(axes, scenarios.items(), strict=True):
        kernel = theirs.filter(pl.col("scenario") == scenario)
        ours = runs[0].fct
        if ours is not None:
            one.plot(kernel["bytes"], kernel["fct_us"], "o", color=KERNEL, markersize=4, fillstyle="none")
            one.plot(ours["bytes"], ours["fct_us"], ".-", color=OURS, markersize=3, linewidth=0.8)
        one.set_xscale("log")
        one.set_yscale("log")
        label(one, scenario, "bytes", "completion, us")
    legend(axes[0])
    save(figure, path)
