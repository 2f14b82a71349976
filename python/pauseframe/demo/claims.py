"""What the TCP-Bolt paper claims about its fat tree, and the verdict on what was measured.

Stephens et al., "Practical DCB for improved data center networks", INFOCOM 2014, section V-B2, figures 11 and 12.
A claim is "reproduced" if the measured value lies in a band about the paper's (the paper gives rounded factors),
"shape only" if the order is the paper's but the size is not, else it "differs".

Slowdown is completion time over ideal completion time. Flows and queries that had not finished when the run ended count
with the time they had had: leaving them out would flatter the slowest transport.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import polars as pl

from pauseframe._text import format_number
from pauseframe.report import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pauseframe.report import RunData

    Tails = Mapping[str, dict[float, float]]

MEDIUM_EDGES = (64_000, 256_000, 1_000_000, 4_000_000, 16_000_000)
MEDIUM_NAMES = ("64–256 KB", "256 KB–1 MB", "1–4 MB", "4–16 MB")
RUNS = ("dctcp", "tcp_dcb", "tcp_bolt", "tcp_bolt_spray")


def judge(runs: Mapping[str, RunData]) -> list[Claim]:
    """The claims, for runs on the paper's fat tree by the name of their transport."""
    pooled = {name: query_tail(run, by_size=False) for name, run in runs.items()}
    by_size = {name: query_tail(run, by_size=True) for name, run in runs.items()}
    medium = {name: medium_tail(run) for name, run in runs.items()}
    return [
        _guarded(tcp_dcb_against_the_best, pooled, medium),
        _guarded(dctcp_medium_flows, medium),
        _guarded(tcp_dcb_incasts, by_size),
        _guarded(tcp_bolt_incasts, pooled),
    ]


def query_tail(run: RunData, *, by_size: bool) -> dict[float, float]:
    """p99.9 of the slowdown of queries, by response size or (key 0) of all together."""
    size = pl.col("response_bytes") if by_size else pl.lit(0)
    return _tail(run, run.queries.with_columns(size.alias("bin")), 0.999)


def medium_tail(run: RunData) -> dict[float, float]:
    """p99 of the slowdown of background flows of 64 KB to 16 MB, by bin of `MEDIUM_EDGES`."""
    size = pl.col("size_bytes")
    bins = pl.sum_horizontal([(size >= edge).cast(pl.Int64) for edge in MEDIUM_EDGES[1:]])
    is_medium = (size >= MEDIUM_EDGES[0]) & (size < MEDIUM_EDGES[-1]) & pl.col("query").is_null()
    return _tail(run, run.flows.filter(is_medium).with_columns(bins.alias("bin")), 0.99)


def _tail(run: RunData, frame: pl.LazyFrame, share: float) -> dict[float, float]:
    end = run.summary["sim_time_s"] * 1e6
    so_far = (end - pl.col("start_us")) / pl.col("ideal_fct_us")
    slowdown = pl.col("slowdown").fill_null(so_far)
    rows = frame.group_by("bin").agg(slowdown.quantile(share, "linear").alias("tail")).sort("bin").collect()
    return dict(rows.select("bin", "tail").iter_rows())


def tcp_dcb_against_the_best(pooled: Tails, medium: Tails) -> Claim:
    """B-M16: section V-B2."""
    short = pooled["tcp_dcb"][0] / min(tail[0] for tail in pooled.values())
    ratios = [medium["tcp_dcb"][key] / min(tail[key] for tail in medium.values()) for key in _shared_bins(medium)]
    mid = median(ratios)
    return Claim(
        id="B-M16",
        text="Without rate control, TCP over DCB is far behind the best for short incasts, and behind for medium flows",
        paper_value="about 20 times the best for short incasts, 2 times for medium flows (§V-B2)",
        measured=f"{_times(short)} for incasts, {_times(mid)} for medium flows",
        verdict=_verdict(short >= 8 and mid >= 1.5, short > 1 and mid > 1),
        why="p99.9 of the slowdown of all queries; median over four size bins from 64 KB to 16 MB of the p99 of the "
        "slowdown; each over that of the best transport. Band: at least 8 and 1.5.",
    )


def dctcp_medium_flows(medium: Tails) -> Claim:
    """B-M17: section V-B2, figure 11."""
    ratios = {key: medium["dctcp"][key] / medium["tcp_bolt"][key] for key in _shared_bins(medium)}
    large = sum(ratio >= 8 for ratio in ratios.values())
    is_reproduced = min(ratios.values()) >= 4 and large > len(ratios) / 2
    return Claim(
        id="B-M17",
        text="DCTCP alone completes medium flows much later than TCP-Bolt, at every size",
        paper_value="more than 10 times, p99 of the normalised completion time (§V-B2, figure 11)",
        measured=", ".join(f"{_times(ratio)} at {MEDIUM_NAMES[int(key)]}" for key, ratio in ratios.items()),
        verdict=_verdict(is_reproduced, min(ratios.values()) > 1),
        why="p99 of the slowdown of background flows, DCTCP over TCP-Bolt, by size. Band: at least 4 in every bin and "
        "8 in most. Here every packet of DCTCP can be marked, so it loses nothing. What is left is slow start: with a "
        "window of a BDP at the start its smallest bin falls from 12 to 1.9 times ideal (60 ms, one seed). "
        "Where SYNs, ACKs and retransmissions are dropped above the threshold, as RED does "
        "with what is not ECT, its time-outs bring 13, 7, 2.6 and 1.2 times (60 ms, one seed, initial RTO 10 ms). "
        "The paper does not say which its simulator did.",
    )


def tcp_dcb_incasts(by_size: Tails) -> Claim:
    """B-M22: section V-B2, left out of figure 12 for its size."""
    tails = by_size["tcp_dcb"]
    worst = all(tail[size] <= tails[size] for tail in by_size.values() for size in _shared_bins(by_size))
    return Claim(
        id="B-M22",
        text="Incasts over TCP-DCB take so long that the paper leaves them out of its figure",
        paper_value="more than 40 times ideal at every response size, p99.9 (§V-B2)",
        measured=", ".join(f"{_times(tail)} ideal at {size / 1000:g} KB" for size, tail in tails.items()),
        verdict=_verdict(min(tails.values()) > 20, worst),
        why="p99.9 of the slowdown of queries by response size. Band: above 20. Shape: the slowest of all transports.",
    )


def tcp_bolt_incasts(pooled: Tails) -> Claim:
    """B-M24: section V-B2, figure 12."""
    bolt = pooled["tcp_bolt"][0] / pooled["dctcp"][0]
    spray = pooled["tcp_bolt_spray"][0] / pooled["dctcp"][0]
    return Claim(
        id="B-M24",
        text="TCP-Bolt's full windows delay incasts against DCTCP's; packet spraying takes the difference away",
        paper_value="about 2 times DCTCP's p99.9; about equal with spraying (§V-B2, figure 12)",
        measured=f"{_times(bolt)}; {_times(spray)} with spraying",
        verdict=_verdict(1.4 <= bolt <= 3 and 0.8 <= spray <= 1.25, bolt > 1 and spray < bolt),
        why="p99.9 of the slowdown of all queries over DCTCP's. Band: 1.4 to 3, with spraying 0.8 to 1.25. "
        "Without spraying the order is the paper's; the factor moves with the seed and the length of the run (1.1 at "
        "150 ms, 1.4 at 60 ms). Why spraying does not close the gap here is open.",
    )


def _guarded(claim: Callable[..., Claim], *tails: Tails) -> Claim:
    """The claim, or "not measured" where a run or all its flows of a kind are missing."""
    if all(name in table and table[name] for table in tails for name in RUNS) and all(map(_shared_bins, tails)):
        return claim(*tails)
    doc = (claim.__doc__ or "").split(":", maxsplit=1)
    return Claim(doc[0], "", doc[1].strip(), "too few flows or queries", "not measured", "")


def _shared_bins(tails: Tails) -> list[float]:
    """Bins in which every transport has a value."""
    return sorted(set.intersection(*(set(table) for table in tails.values())))


def _verdict(is_reproduced: bool, has_shape: bool) -> str:
    return "reproduced" if is_reproduced else "shape only" if has_shape else "differs"


def _times(factor: float) -> str:
    return f"{format_number(factor, 2)}×"
