"""Computes the figures of one run, of the kernel or of the simulator, and defines the band of each figure.

The data of kernel and simulator are first converted into one form, `Recording`. The time windows are those of the
reference runs: from 1 s on, or, in group d, while both flows are active. Bands: 5 % for medians and means, 15 % for
tails and fractions, 50 % for counts (drops, timeouts, probes). Queues and windows are whole packets, so a difference of
one packet is always inside the band.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

LINES = {"metric": pl.String, "flow": pl.Int64, "t_us": pl.Float64, "value": pl.Float64}
FIRST_SECOND = 1e6
BOTH = (6e6, 15e6)
ALONE = (17e6, 20e6)
TEN_GBIT = 5
"""In group d, the runs at 10 Gb/s are this many times as short."""
LINK_MBPS = 1000.0 * 1448 / 1514


@dataclass(frozen=True)
class Recording:
    """One run: time series (queue in packets, cwnd in segments, alpha, rate in Mb/s) and counters."""

    lines: pl.DataFrame
    responses: pl.DataFrame | None = None
    """Column completion_us, one row for each response."""
    fct: pl.DataFrame | None = None
    """Columns bytes and fct_us."""
    incast: pl.DataFrame | None = None
    """Columns senders, bytes_each, rep, completion_us, timeouts, retransmits and loss_probes."""
    counts: dict[str, float] = field(default_factory=dict)
    """Drops, marked fraction of the whole run, and lengths of bursts at the receiver.

    A burst is a sequence of packets of one flow; half and 95 % of all packets arrive in bursts of at most these
    lengths.
    """


@dataclass(frozen=True)
class Band:
    """Allowed difference of a figure: the larger of a relative and an absolute tolerance."""

    relative: float
    absolute: float = 0.0

    def holds(self, ours: float, kernel: float) -> bool:
        """True if the simulator's value lies within the band around the kernel's."""
        return abs(ours - kernel) <= max(self.relative * abs(kernel), self.absolute) + 1e-9


MEDIAN, TAIL = 0.05, 0.15
COUNT, COUNT_A_ROUND = Band(0.5, 3.0), Band(0.5, 1.0)
SHARE = Band(0.05, 0.05)
QUARTERS = 4
SETTLED = 2
"""First round of an incast that counts as steady state; the first two rounds have separate figures."""


def band(figure: str) -> Band:
    """The band of a figure, chosen by the figure's name."""
    head = figure.split(" ", maxsplit=1)[0]
    if head in {"drops", "timeouts", "probes", "retransmits"}:
        return COUNT_A_ROUND if " x " in figure else COUNT
    if head == "share":
        return SHARE
    packets = 1.0 if head in {"queue", "cwnd", "run"} else 0.0
    tail = any(word in figure for word in ("p5", "p95", "p99", "max", "fraction", "joins")) and "p50" not in figure
    return Band(TAIL if tail else MEDIAN, packets)


def figures(scenario: str, run: Recording) -> dict[str, float]:
    """All figures of a run of this scenario, by name."""
    group = scenario[0]
    found: dict[str, float] = {}
    if group == "g" and run.fct is not None:
        return {f"fct {size} B": value for size, value in run.fct.select("bytes", "fct_us").iter_rows()}
    if group == "f" and run.incast is not None:
        return incast(run.incast)
    window = steady(scenario)
    found |= quantiles("queue", within(run.lines, "queue", window))
    if group == "a":
        found |= quantiles("cwnd", within(run.lines, "cwnd", window))
        found |= start(run.lines)
    if (alpha := within(run.lines, "alpha", window)).len() and group == "a":
        found |= {"alpha mean": _number(alpha.mean()), "alpha p95": _number(alpha.quantile(0.95))}
    found |= shares(run.lines, window)
    if group == "d":
        found |= {
            "queue p50 alone": _number(within(run.lines, "queue", scaled(scenario, ALONE)).quantile(0.5)),
            "joins ms": joins(scenario, run.lines),
        }
    if run.responses is not None:
        found |= quantiles("response", run.responses["completion_us"], ("p5", "p50", "p95", "p99"))
    return found | run.counts


def is_ten_gbit(scenario: str) -> bool:
    """True for the runs of group d at 10 Gb/s."""
    return scenario.startswith("d_converge_10g")


def scaled(scenario: str, window: tuple[float, float]) -> tuple[float, float]:
    """A time window of group d in this scenario."""
    low, high = window
    return (low / TEN_GBIT, high / TEN_GBIT) if is_ten_gbit(scenario) else window


def steady(scenario: str) -> tuple[float, float]:
    """The time window of the figures."""
    return scaled(scenario, BOTH) if scenario[0] == "d" else (FIRST_SECOND, float("inf"))


def within(lines: pl.DataFrame, metric: str, window: tuple[float, float]) -> pl.Series:
    """The values of a metric in a time window."""
    low, high = window
    return lines.filter((pl.col("metric") == metric) & pl.col("t_us").is_between(low, high))["value"]


def quantiles(what: str, values: pl.Series, names: tuple[str, ...] = ("p5", "p50", "p95")) -> dict[str, float]:
    """Quantiles (the nearest observed value) and the mean."""
    if not values.len():
        return {}
    of = {f"{what} {name}": _number(values.quantile(int(name[1:]) / 100)) for name in names}
    return of | {f"{what} mean": _number(values.mean())}


def start(lines: pl.DataFrame) -> dict[str, float]:
    """The window 5 ms and 50 ms after the start, and the largest window of slow start in the first 200 ms."""
    cwnd = lines.filter((pl.col("metric") == "cwnd") & (pl.col("t_us") < 210_000)).sort("t_us")
    found = {"cwnd max 200 ms": _number(cwnd["value"].max())}
    for ms in (5, 50):
        at = 10_000.0 + ms * 1000
        before, after = cwnd.filter(pl.col("t_us") <= at).tail(1), cwnd.filter(pl.col("t_us") > at).head(1)
        (t0, v0), (t1, v1) = before.select("t_us", "value").row(0), after.select("t_us", "value").row(0)
        found[f"cwnd at {ms} ms"] = v0 + (v1 - v0) * (at - t0) / (t1 - t0)
    return found


def shares(lines: pl.DataFrame, window: tuple[float, float]) -> dict[str, float]:
    """Goodput of all flows together, and the largest and smallest share relative to the fair share."""
    low, high = window
    rates = lines.filter((pl.col("metric") == "rate") & pl.col("t_us").is_between(low, high))
    mean = rates.group_by("flow").agg(pl.col("value").mean()).sort("flow")["value"]
    if not mean.len():
        return {}
    found = {"goodput Mb/s": _number(mean.sum())}
    if mean.len() > 1:
        fair = _number(mean.mean())
        found |= {"share largest": _number(mean.max()) / fair, "share smallest": _number(mean.min()) / fair}
    return found


def joins(scenario: str, lines: pl.DataFrame) -> float:
    """Milliseconds after its start until the second flow first holds 80 % of its fair half for 100 (10 Gb/s: 20) ms."""
    start, step, half = 5_000_000, 100_000, LINK_MBPS / 2
    if is_ten_gbit(scenario):
        start, step, half = start // TEN_GBIT, step // TEN_GBIT, 10 * half
    rates = lines.filter((pl.col("metric") == "rate") & (pl.col("flow") == 2) & (pl.col("t_us") > start)).sort("t_us")
    smooth = rates.group_by_dynamic(pl.col("t_us").cast(pl.Int64).alias("bin"), every=f"{step}i").agg(
        pl.col("value").mean()
    )
    there = smooth.filter(pl.col("value") >= 0.8 * half)
    return float("nan") if there.is_empty() else (there["bin"][0] - start) / 1000


def incast(rows: pl.DataFrame) -> dict[str, float]:
    """Incast figures by senders and size: completion times, and timeouts and retransmissions per round.

    The completion times are those of the first two rounds, and the median of all rounds.
    """
    found: dict[str, float] = {}
    for senders, size, rep, us in (
        rows.filter(pl.col("rep") < SETTLED).select("senders", "bytes_each", "rep", "completion_us").iter_rows()
    ):
        found[f"completion round {rep + 1} us {senders} x {size} B"] = us
    cells = rows.group_by("senders", "bytes_each", maintain_order=True).agg(
        pl.col("completion_us").median(), pl.col("timeouts", "loss_probes", "retransmits").mean()
    )
    for senders, size, us, timeouts, probes, retransmits in cells.iter_rows():
        where = f"{senders} x {size} B"
        found |= {
            f"completion p50 us {where}": us,
            f"timeouts {where}": timeouts,
            f"probes {where}": probes,
            f"retransmits {where}": retransmits,
        }
    return found


def noise(scenario: str, run: Recording) -> dict[str, tuple[float, float]]:
    """Spread of the figures between parts of one run: its quarters, or the rounds of an incast after the second."""
    parts: list[dict[str, float]] = []
    if run.incast is not None:
        settled = run.incast.filter(pl.col("rep") >= SETTLED)
        parts = [incast(settled.filter(pl.col("rep") == rep)) for rep in settled["rep"].unique().sort()]
    elif run.lines.height:
        low, high = steady(scenario)
        high = min(high, _number(run.lines["t_us"].max()))
        step = (high - low) / QUARTERS
        for part in range(QUARTERS):
            window = (low + part * step, low + (part + 1) * step)
            lines = ["queue", "cwnd"] if scenario[0] == "a" else ["queue"]
            found = {k: v for name in lines for k, v in quantiles(name, within(run.lines, name, window)).items()}
            parts.append(found | shares(run.lines, window))
    names = set().union(*parts) if parts else set()
    spans = {name: [part[name] for part in parts if name in part] for name in names}
    return {name: (min(values), max(values)) for name, values in spans.items()}


def thin(lines: pl.DataFrame, step_us: float, early_us: float = 200_000.0) -> pl.DataFrame:
    """Thins time series to the last value (of rates: the mean) every `step_us`; every ms in the first `early_us`."""
    bin_us = pl.when(pl.col("t_us") < early_us).then(1000.0).otherwise(step_us)
    keyed = lines.with_columns((pl.col("t_us") / bin_us).floor().alias("bin"), bin_us.alias("bin_us"))
    grouped = keyed.group_by("metric", "flow", "bin_us", "bin").agg(
        pl.when(pl.col("metric").first() == "rate")
        .then(pl.col("value").mean())
        .otherwise(pl.col("value").last())
        .first(),
        pl.col("t_us").last(),
    )
    return grouped.select(list(LINES)).sort("metric", "flow", "t_us")


def _number(value: object) -> float:
    return float("nan") if value is None else float(value)  # type: ignore[arg-type]
