"""Compares shares of long flows into one port, with default hosts and clocks, with those of the Linux kernel.

    python validation/linux/fairness.py [--seeds 10] [--modes d] [--host KEYS]

KEYS are lines of `[host]`, such as 'wire_jitters = [{host = "*", to_switch = "10 us"}]'. `recorded/shares.csv` holds
runs of 3 s on Linux 6.1 in virtual time: N hosts send one flow each over one switch to one 1 Gb/s port; shares count
from 0.5 s on. Modes: a without noise; b with rates that differ by some 82.6 ppm; d with 10 us of uniform
jitter, in order, behind the NIC's queue; f with 37 us; c and e (c plus b) with "1 us", which the laboratory's tc
rounded down to none, as it has whole microseconds; j with 1 us, set without tc (seed: ten times the pattern of starts
plus the seed of the jitter). A cell is compared with the kernel's median over c, d and e. A run is locked if a flow has
less than a tenth of its fair share. A cell agrees if both sides are locked or neither is, and the medians of
the smallest share differ by at most 15 percentage points of the fair share.
"""

import argparse
import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pauseframe as pf
import polars as pl

HERE = Path(__file__).parent
NOISY = "cde"
LOCKED = 10.0
APART = 15.0
SKIP_US = 500_000


class Cell(NamedTuple):
    """One setting of the kernel's runs."""

    flows: int
    control: str
    buffer_packets: int
    rtt_us: int


def kernel(modes: str = NOISY) -> dict[Cell, list[float]]:
    """The smallest share of each kernel run in these modes, in percent of the fair share."""
    cells: dict[Cell, list[float]] = defaultdict(list)
    with (HERE / "recorded" / "shares.csv").open() as file:
        for row in csv.DictReader(file):
            cell = Cell(int(row["flows"]), row["cc"], int(row["buffer_packets"]), int(row["rtt_us"]))
            if row["mode"] in modes:
                cells[cell].append(float(row["least_of_fair_pct"]))
    return cells


def scenario(cell: Cell, seed: int, host: str = "") -> str:
    """The scenario of a cell; the seed draws the order in which the hosts start."""
    order = range(cell.flows) if seed % 2 else range(cell.flows - 1, -1, -1)
    gap = {1: 1037, 2: 1411}.get(seed, 700 + 97 * seed)
    flows = ",\n".join(
        f'{{ src = "host{flow}", dst = "host{cell.flows}", start = "{10_000 + turn * gap} us" }}'
        for turn, flow in enumerate(order)
    )
    marker = '{ kind = "step", k = "20 packets" }' if cell.control == "dctcp" else '"none"'
    preset = "newreno" if cell.control == "reno" else cell.control
    return f"""
name = "shares"
seed = {seed}
stop = {{ time = "3 s", when_finished = false }}
[topology]
kind = "star"
hosts = {cell.flows + 1}
link = {{ rate = "1 Gbps", delay = "{cell.rtt_us / 4} us" }}
[host]
{host}
[switch]
buffer = "{cell.buffer_packets * 1518} B"
marker = {marker}
[transport]
stack = "linux"
preset = "{preset}"
cache = "none"
[[workload]]
kind = "long_flows"
name = "long"
flows = [{flows}]
[record.series]
every = "100 ms"
ports = []
flows = ["long"]
"""


def least_share(text: str) -> float:
    """The smallest share in percent of the fair share."""
    series = pl.DataFrame(pf.run(text, progress=False).series)
    counted = series.filter((pl.col("metric") == "goodput_gbps") & (pl.col("time_us") > SKIP_US + 1))
    shares: list[float] = counted.group_by("entity").agg(pl.col("value").mean())["value"].to_list()
    return 100 * min(shares) * len(shares) / sum(shares)


def main() -> None:
    """Prints a line for each cell, and fails if any cell disagrees with the kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="runs of each cell")
    parser.add_argument("--modes", default=NOISY, help="modes of the kernel's runs")
    parser.add_argument("--host", default="", help="lines for [host]")
    options = parser.parse_args()
    apart = 0
    cells = kernel(options.modes)
    for cell, of_kernel in sorted(cells.items()):
        ours = [least_share(scenario(cell, seed, options.host)) for seed in range(1, options.seeds + 1)]
        theirs, own = statistics.median(of_kernel), statistics.median(ours)
        locked = any(share < LOCKED for share in ours) != any(share < LOCKED for share in of_kernel)
        agrees = not locked and abs(own - theirs) <= APART
        apart += not agrees
        runs = " ".join(f"{share:.0f}" for share in ours)
        line = f"{cell.flows} {cell.control:5} {cell.buffer_packets:3} packets {cell.rtt_us:3} us"
        verdict = "agrees" if agrees else "locked" if locked else "apart"
        sys.stdout.write(
            f"{line}: kernel {theirs:.0f} ({min(of_kernel):.0f} to {max(of_kernel):.0f}), ours {runs}: {verdict}\n"
        )
    sys.stdout.write(f"{apart} of {len(cells)} cells do not agree\n")
    sys.exit(apart > 0)


if __name__ == "__main__":
    main()
