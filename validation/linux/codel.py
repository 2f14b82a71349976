"""Compares CoDel and FQ-CoDel of simulated hosts with the kernel's, and prints a Markdown table.

A host sends bulk flows to a second host and answers requests of a third: 1 KB each, 10 ms after the last one. Links
have 1 ms. In the kernel a token bucket (`tbf`) in front of a link of 1 Gb/s is the bottleneck, with the discipline
behind it, as the ring of the card would hide most of the queue; in the simulator it is the link itself.

    python validation/linux/codel.py [--seeds 3] [--kernel DIR]

Figures are medians over the seeds; retransmissions also have their range, answers their number in all runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pauseframe as pf
import pauseframe.kernel
import polars as pl
import tomli_w

if TYPE_CHECKING:
    from pathlib import Path

BURST = 1600
SKIP_US = 1e6
SINGLE = "ip link set dev eth0 gso_max_segs 1"


class Case(NamedTuple):
    """Bulk flows, rate of the bottleneck, seconds, and the transport."""

    flows: int
    mbps: int
    seconds: int
    transport: dict[str, Any]


CASES = (
    Case(60, 100, 4, {"preset": "cubic"}),
    Case(60, 100, 4, {"preset": "cubic", "ecn": "classic"}),
    Case(16, 50, 6, {"preset": "cubic"}),
    Case(20, 20, 10, {"preset": "newreno"}),
)


class Found(NamedTuple):
    """What one run shows."""

    goodput_mbps: float
    fairness: float
    retransmits: int
    answers: list[float]


def scenario(case: Case, mbps: int, seed: int, host: dict[str, Any]) -> str:
    """Bulk flows of host0 to host1, and its answers to host2."""
    bulk = [{"src": "host0", "dst": "host1", "start": "50 ms"} for _ in range(case.flows)]
    rpc = {
        "name": "rpc",
        "kind": "requests",
        "client": "host2",
        "server": "host0",
        "request": "200 B",
        "response": "1 KB",
        "count": 100_000,
        "pause": "10 ms",
        "persistent": True,
        "start": "50 ms",
    }
    return tomli_w.dumps(
        {
            "name": "codel",
            "seed": seed,
            "stop": {"time": f"{case.seconds} s"},
            "topology": {"kind": "star", "hosts": 3, "link": {"rate": f"{mbps} Mbps", "delay": "1 ms"}},
            "switch": {"buffer": "2 MB", "marker": "none"},
            "host": host,
            "transport": case.transport,
            "workload": [{"kind": "long_flows", "name": "bulk", "flows": bulk}, rpc],
        }
    )


def run(case: Case, queue: str, seed: int, kernel: Path | None) -> Found:
    """A run in the kernel, or of the simulator."""
    if kernel is None:
        done = pf.run(scenario(case, case.mbps, seed, {"nic_queue": queue, "tso": False}), progress=False)
    else:
        bucket = f"tc qdisc replace dev eth0 root handle 1: tbf rate {case.mbps}mbit burst {BURST} limit 10000000"
        shape = f"sh -c '{SINGLE}; {bucket} && tc qdisc add dev eth0 parent 1:1 handle 10: {queue}'"
        programs = [("host0", shape), ("host1", SINGLE), ("host2", SINGLE)]
        text = scenario(case, 1000, seed, {"stack": "kernel"})
        done = pf.run(text, progress=False, kernel=kernel, programs=programs)
    flows = pl.DataFrame(done.flows).with_columns(pl.col("workload").cast(pl.String))
    bulk = flows.filter(pl.col("workload") == "bulk")
    sent = bulk["delivered_bytes"].cast(pl.Float64)
    rpc = flows.filter((pl.col("workload") == "rpc") & (pl.col("start_us") > SKIP_US))
    return Found(
        float(sent.sum()) * 8 / (case.seconds - 0.05) / 1e6,
        float(sent.sum()) ** 2 / (len(sent) * float((sent * sent).sum())),
        int(bulk["retransmits"].sum()),
        (rpc["fct_us"].drop_nulls() / 1e3).to_list(),
    )


def main() -> None:
    """Prints two rows for each case and discipline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kernel")
    arguments = parser.parse_args()
    kernel = pauseframe.kernel.find(arguments.kernel)
    sys.stdout.write(
        "| bottleneck | transport | discipline | | goodput, Mb/s | least fairness | retransmits "
        "| answer p50, ms | p99, ms (answers) |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    for case, queue in product(CASES, ("codel", "fq_codel")):
        for name, where in (("Linux", kernel), ("pauseframe", None)):
            runs = [run(case, queue, seed, where) for seed in range(1, arguments.seeds + 1)]
            tails = [statistics.quantiles(one.answers, n=100) for one in runs]
            p50, p99 = (statistics.median(tail[at] for tail in tails) for at in (49, 98))
            again = sorted(one.retransmits for one in runs)
            transport = " ".join(case.transport.values()).replace(" classic", ", ECN")
            sys.stdout.write(
                f"| {case.flows} flows, {case.mbps} Mb/s | {transport} | {queue} | {name} "
                f"| {statistics.median(one.goodput_mbps for one in runs):.1f} "
                f"| {min(one.fairness for one in runs):.3f} "
                f"| {statistics.median(again):.0f} ({again[0]} to {again[-1]}) "
                f"| {p50:.1f} | {p99:.1f} ({sum(len(one.answers) for one in runs)}) |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
