"""Compares the share of a flow over two full links with that of a Linux kernel, and prints a Markdown table.

Three switches in a line: one flow crosses both links between them, and one flow of a hop is on each. The hosts are
simulated, or namespaces of one kernel; the fabric is the same. Rates count from a fifth of the run on.

    python validation/linux/parking_lot.py [--seeds 3] [--kernel DIR] [--preset cubic]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import pauseframe as pf
import pauseframe.kernel
import polars as pl
import tomli_w

if TYPE_CHECKING:
    from pathlib import Path

RATES = (1, 10)
BUFFERS = ("100 KB", "1 MB")
STOP_MS = 1000
FLOWS = (("host0", "host4"), ("host1", "host2"), ("host3", "host5"))
"""Over both links, over the first, over the second."""
GAP_US = 1037
"""Between the starts of flows."""


def scenario(gbps: int, buffer: str, preset: str, seed: int, host: dict[str, Any]) -> dict[str, Any]:
    """The seed chooses which flow starts first."""
    starts = [10_000 + (number + seed) % len(FLOWS) * GAP_US for number in range(len(FLOWS))]
    flows = [{"src": src, "dst": dst, "start": f"{start} us"} for (src, dst), start in zip(FLOWS, starts, strict=True)]
    return {
        "name": "parking-lot",
        "seed": seed,
        "stop": {"time": f"{STOP_MS} ms"},
        "topology": {
            "kind": "line",
            "switches": 3,
            "hosts_per_switch": 2,
            "link": {"rate": f"{gbps} Gbps", "delay": "1 us"},
        },
        "host": host,
        "switch": {"buffer": buffer},
        "transport": {"preset": preset, "cache": "none"},
        "workload": [{"kind": "long_flows", "name": "long", "flows": flows}],
        "record": {"series": {"every": f"{STOP_MS // 5} ms", "ports": [], "flows": ["long"]}},
    }


def rates(kernel: Path | None, spec: dict[str, Any]) -> list[float]:
    """Mean goodput of each flow of `FLOWS`, Gb/s."""
    more: dict[str, Any] = {} if kernel is None else {"kernel": kernel}
    run = pf.run(tomli_w.dumps(spec), progress=False, **more)
    series = pl.DataFrame(run.series).filter(pl.col("metric") == "goodput_gbps")
    late = series.filter(pl.col("time_us") > STOP_MS * 200 + 1)
    means = dict(late.group_by(pl.col("entity").cast(pl.String)).agg(pl.col("value").mean()).iter_rows())
    # Flows are numbered by their starts.
    numbers = {
        src: number for number, src in pl.DataFrame(run.flows).select("flow", pl.col("src").cast(pl.String)).iter_rows()
    }
    return [means[f"flow {numbers[src]}"] for src, _ in FLOWS]


def main() -> None:
    """Prints one row for each rate, buffer and kind of hosts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kernel")
    parser.add_argument("--preset", default="cubic")
    arguments = parser.parse_args()
    kernel = pauseframe.kernel.find(arguments.kernel)
    sys.stdout.write(
        "| link | buffer | hosts | two-hop flow, Gb/s | by seed | one-hop flows |\n|---|---|---|---|---|---|\n"
    )
    kinds: tuple[tuple[str, Path | None, dict[str, Any]], ...] = (
        ("Linux", kernel, {"stack": "kernel"}),
        ("simulated", None, {}),
        ("simulated, TSO", None, {"tso": True, "gro": True}),
    )
    for gbps, buffer, (name, of_kernel, host) in product(RATES, BUFFERS, kinds):
        found = [
            rates(of_kernel, scenario(gbps, buffer, arguments.preset, seed, host))
            for seed in range(1, arguments.seeds + 1)
        ]
        far = [row[0] for row in found]
        near = statistics.median(rate for row in found for rate in row[1:])
        sys.stdout.write(
            f"| {gbps} Gb/s | {buffer} | {name} | {statistics.median(far):.3f} |"
            f" {' '.join(f'{rate:.3f}' for rate in far)} | {near:.2f} |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
