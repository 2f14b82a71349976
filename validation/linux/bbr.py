"""Compares BBR of simulated hosts with `tcp_bbr` of Linux, and prints a Markdown table.

One or two flows share a bottleneck, with a buffer of half or of four bandwidth-delay products. Hosts are namespaces of
one kernel, or simulated with segmentation offload; the fabric is the same. A figure is inside if the medians over the
seeds differ by at most 5 % (goodput, mean queue) or 15 % (smallest share, largest queue), or 50 % or 3 (packets
dropped), or the queues by a packet for each flow; in range if the seeds of either side span the difference.

    python validation/linux/bbr.py [--seeds 3] [--kernel DIR] [--cell slow-2-deep ...]
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

PACKET = 1518
BATCH = "ip link set dev eth0 gso_max_segs 44"
"""As large as the batches of simulated hosts."""


class Network(NamedTuple):
    """A bottleneck: rates of it and of hosts, its delay, length of a run and its part that does not count."""

    rate: str
    host_rate: str
    delay: str
    product_bytes: int
    stop_ms: int
    skip_ms: int


NETWORKS = {
    "slow": Network("10 Mbps", "100 Mbps", "19.9 ms", 50_000, 30_000, 5_000),
    "fast": Network("10 Gbps", "40 Gbps", "48 us", 125_000, 200, 50),
}
BUFFERS = {"shallow": 0.5, "deep": 4.0}
HOSTS: dict[str, dict[str, Any]] = {
    "Linux": {"stack": "kernel", "interrupt_delay": "0 s"},
    "pauseframe": {"tso": True, "gro": True, "gro_timeout": "1 ns"},
}
"""Each frame interrupts, so receivers merge nothing."""
FIGURES = {
    "goodput, Mb/s": (0.05, 0.0),
    "smallest share": (0.15, 0.0),
    "mean queue, packets": (0.05, 1.0),
    "largest queue, packets": (0.15, 1.0),
    "drops, 1/s": (0.5, 3.0),
}
"""Relative and absolute bands; absolute ones count for each flow."""


def scenario(network: Network, flows: int, buffer: float, seed: int, host: dict[str, Any]) -> dict[str, Any]:
    """`flows` long flows from as many hosts; the second starts 200 round trips later."""
    senders = [f"h{number}" for number in range(1, flows + 1)]
    gap_us = 20_000 if network.stop_ms < 1000 else 2_000_000
    edge = {"rate": network.host_rate, "delay": "1 us"}
    return {
        "name": "bbr",
        "seed": seed,
        "stop": {"time": f"{network.stop_ms} ms"},
        "topology": {
            "kind": "custom",
            "hosts": [*senders, "r"],
            "switches": ["s"],
            "link": {"rate": network.rate, "delay": network.delay},
            "links": [["s", "r"], *({"ends": ["s", sender], **edge} for sender in senders)],
        },
        "host": host,
        "switch": {"buffer": f"{int(network.product_bytes * buffer)} B", "marker": "none"},
        "transport": {"preset": "bbr", "cache": "none", "small_segments": "at_once"},
        "workload": [
            {
                "kind": "long_flows",
                "name": "long",
                "flows": [
                    {"src": sender, "dst": "r", "start": f"{1000 + number * gap_us} us"}
                    for number, sender in enumerate(senders)
                ],
            }
        ],
        "record": {"series": {"every": f"{network.stop_ms / 1000} ms", "ports": ["s:0"], "flows": ["long"]}},
    }


def figures(network: Network, spec: dict[str, Any], kernel: Path | None) -> list[float]:
    """One run, in the order of `FIGURES`."""
    programs = [(host, BATCH) for host in spec["topology"]["hosts"]]
    more: dict[str, Any] = {} if kernel is None else {"kernel": kernel, "programs": programs}
    run = pf.run(tomli_w.dumps(spec), progress=False, **more)
    series = pl.DataFrame(run.series).with_columns(pl.col("metric", "entity").cast(pl.String))
    late = series.filter(pl.col("time_us") > network.skip_ms * 1000)
    goodput = late.filter(pl.col("metric") == "goodput_gbps").group_by("entity").agg(pl.col("value").mean())["value"]
    queue = late.filter(pl.col("metric") == "backlog_bytes")["value"] / PACKET
    drops = float(pl.DataFrame(run.ports)["drops_buffer_full"].sum()) / network.stop_ms * 1000
    rates, waiting = goodput.to_list(), queue.to_list()
    mean = statistics.fmean(waiting)
    return [sum(rates) * 1000, min(rates) / statistics.fmean(rates), mean, max(waiting), drops]


def verdict(theirs: list[float], ours: list[float], band: tuple[float, float], flows: int) -> str:
    """Inside, in range or outside."""
    reference, mine = statistics.median(theirs), statistics.median(ours)
    if abs(mine - reference) <= max(band[0] * abs(reference), band[1] * flows):
        return "inside"
    overlap = min(theirs) <= max(ours) and min(ours) <= max(theirs)
    return "in range" if overlap else "outside"


def spread(values: list[float]) -> str:
    """The median, and the range of the seeds."""
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def main() -> None:
    """Prints one row for each network, number of flows, buffer and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kernel")
    parser.add_argument("--cell", action="append", help="only these: NETWORK-FLOWS-BUFFER")
    arguments = parser.parse_args()
    kernel = pauseframe.kernel.find(arguments.kernel)
    sys.stdout.write(
        "| bottleneck | flows | buffer | figure | Linux 6.12 | pauseframe | result |\n|---|---|---|---|---|---|---|\n"
    )
    for name, flows, buffer in product(NETWORKS, (1, 2), BUFFERS):
        if arguments.cell and f"{name}-{flows}-{buffer}" not in arguments.cell:
            continue
        network = NETWORKS[name]
        found = {
            side: [
                figures(
                    network, scenario(network, flows, BUFFERS[buffer], seed, host), kernel if side == "Linux" else None
                )
                for seed in range(1, arguments.seeds + 1)
            ]
            for side, host in HOSTS.items()
        }
        for index, (figure, band) in enumerate(FIGURES.items()):
            theirs, ours = ([row[index] for row in found[side]] for side in HOSTS)
            if figure == "smallest share" and flows == 1:
                continue
            sys.stdout.write(
                f"| {network.rate} | {flows} | {buffer} | {figure} | {spread(theirs)} | {spread(ours)} |"
                f" {verdict(theirs, ours, band, flows)} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
