"""Compares the NIC queues of simulated hosts with the queueing disciplines of Linux, and prints a Markdown table.

A host sends one bulk flow to a second host and answers requests of a third: 1 KB each, 100 us after the last one. The
figure is the time from request to answer, and its excess over the same run without the bulk flow. Hosts are three
namespaces of a kernel, or simulated; the fabric is the same star of links with 1 us. Bulk flows send single segments or
super-packets (`gso_max_segs`, `host.tso`).

    python validation/linux/nic_queues.py [--seeds 3] [--kernel DIR] [--interrupt-delay "10 us"]
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

RATES = (1, 10)
STOP_MS = {1: 300, 10: 60}
SKIP_US = 10_000
"""Answers count from here on. Slow start of the bulk flow is over; flows begin at 2 ms, after `ip link` has run."""
DISCIPLINES = ("pfifo_fast", "fq_codel", "fq")
QUEUES = ("fifo", "per_destination", "per_flow")
SINGLE = "ip link set dev eth0 gso_max_segs 1"


class Waits(NamedTuple):
    """Times of answers behind a bulk flow beyond the median without it, in us, and the rate of the bulk flow."""

    p50: float
    p99: float
    bulk_gbps: float


def scenario(gbps: int, seed: int, *, bulk: bool, host: dict[str, Any]) -> dict[str, Any]:
    """Answers of host0 to host1, with or without a bulk flow to host2."""
    flow = {"kind": "long_flows", "name": "bulk", "flows": [{"src": "host0", "dst": "host2", "start": "2 ms"}]}
    rpc = {
        "name": "rpc",
        "kind": "requests",
        "client": "host1",
        "server": "host0",
        "request": "200 B",
        "response": "1 KB",
        "count": 10_000,
        "pause": "100 us",
        "persistent": True,
        "start": "2 ms",
    }
    return {
        "name": "nic-queues",
        "seed": seed,
        "stop": {"time": f"{STOP_MS[gbps]} ms"},
        "topology": {"kind": "star", "hosts": 3, "link": {"rate": f"{gbps} Gbps", "delay": "1 us"}},
        "host": host,
        "transport": {"preset": "cubic", "small_segments": "at_once"},
        "workload": [*([flow] if bulk else []), rpc],
    }


def times(kernel: Path | None, gbps: int, *, tso: bool, **settings: Any) -> tuple[list[float], float]:
    """The times of all answers after slow start, and the goodput of the bulk flow."""
    programs = [] if tso or kernel is None else [(f"host{number}", SINGLE) for number in range(3)]
    more: dict[str, Any] = {} if kernel is None else {"kernel": kernel, "programs": programs}
    run = pf.run(tomli_w.dumps(scenario(gbps, **settings)), progress=False, **more)
    flows = pl.DataFrame(run.flows).with_columns(pl.col("workload").cast(pl.String))
    rpc = flows.filter((pl.col("workload") == "rpc") & (pl.col("start_us") > SKIP_US))
    long = flows.filter(pl.col("workload") == "bulk")["delivered_bytes"].sum()
    return rpc["fct_us"].drop_nulls().to_list(), float(long) * 8 / STOP_MS[gbps] / 1e6


def waits(kernel: Path | None, gbps: int, host: dict[str, Any], *, tso: bool, seeds: int) -> Waits:
    """Medians over the seeds."""
    rows = []
    for seed in range(1, seeds + 1):
        alone, _ = times(kernel, gbps, tso=tso, seed=seed, bulk=False, host=host)
        beside, bulk = times(kernel, gbps, tso=tso, seed=seed, bulk=True, host=host)
        base = statistics.median(alone)
        tail = statistics.quantiles(beside, n=100)[98]
        rows.append((statistics.median(beside) - base, tail - base, bulk))
    return Waits(*(statistics.median(column) for column in zip(*rows, strict=True)))


def main() -> None:
    """Prints one row for each rate, kind of batch and queue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kernel")
    parser.add_argument("--interrupt-delay", default="10 us", help="of kernel hosts")
    arguments = parser.parse_args()
    kernel = pauseframe.kernel.find(arguments.kernel)
    sys.stdout.write(
        "| link | batches | queue | wait p50, us | wait p99, us | bulk, Gb/s |\n|---|---|---|---|---|---|\n"
    )
    for gbps, tso in product(RATES, (False, True)):
        cases: list[tuple[str, Path | None, dict[str, Any]]] = [
            *(
                (
                    f"Linux, {name}",
                    kernel,
                    {"stack": "kernel", "qdisc": name, "interrupt_delay": arguments.interrupt_delay},
                )
                for name in DISCIPLINES
            ),
            *((f"pauseframe, {name}", None, {"nic_queue": name, "tso": tso}) for name in QUEUES),
        ]
        for name, of_kernel, host in cases:
            found = waits(of_kernel, gbps, host, tso=tso, seeds=arguments.seeds)
            batches = "super-packets" if tso else "single segments"
            sys.stdout.write(
                f"| {gbps} Gb/s | {batches} | {name} | {found.p50:.1f} | {found.p99:.1f} | {found.bulk_gbps:.3g} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
