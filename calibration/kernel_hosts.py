"""Runs the reference scenarios through pauseframe's fabric with hosts that have a Linux kernel.

Same kernel, other network: a difference to the laboratory is one of the fabric. Figures are kept in `linux/hosts.csv`,
so a comparison needs no kernel. As in the laboratory, hosts send single packets, not batches (GSO), but for the
scenarios that end in `tso`.

    python calibration/kernel_hosts.py [--seeds N] [--kernel DIR] SCENARIO ...
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import ours
import pauseframe as pf
import pauseframe.kernel
import polars as pl
from figures import LINES, Recording, figures
from verdict import compare, reference

KEPT = Path(__file__).parent / "linux" / "hosts.csv"
HEADER = ("scenario", "figure", "seed", "hosts", "kernel")
KERNEL: dict[str, Any] = {
    "host.stack": "kernel",
    "host.sysctl": ["net.ipv4.tcp_no_metrics_save = 1"],
}
SETTINGS: dict[str, dict[str, Any]] = {
    "bigrmem": {"host.sysctl": [*KERNEL["host.sysctl"], "net.ipv4.tcp_rmem = 4096 4194304 6291456"]},
    "noautotune": {"host.sysctl": [*KERNEL["host.sysctl"], "net.ipv4.tcp_moderate_rcvbuf = 0"]},
    "quickack": {"host.route": "quickack 1"},
    "tso": {"host.tso": False, "host.gro": False, "host.interrupt_delay": "10 us"},
}
"""What a scenario sets in the kernel, by the last part of its name."""
SINGLE = "ip link set dev eth0 gso_max_segs 1"
"""Sends single packets: with batches of 44 at 10 Gb/s a single DCTCP flow gets 909 instead of 986 Mb/s."""
SINK = "r"
"""The host that receives."""


def record(scenario: str, seed: int, kernel: Path) -> Recording:
    """Records one run, as `ours.record` does for simulated hosts."""
    if scenario[0] == "f":
        return incast(scenario, seed, kernel)
    path = ours.SCENARIOS / f"{scenario}.toml"
    changes = KERNEL | SETTINGS.get(scenario.rpartition("_")[2], {}) | {"seed": seed}
    if scenario[0] != "g":
        every = "250 us" if scenario[0] == "a" else "1 ms"
        changes |= {"record.kernel": {"every": every}, "record.series.flows": []}
    hosts = tomllib.loads(path.read_text(encoding="utf-8"))["topology"]["hosts"]
    programs = [] if scenario.endswith("_tso") else [(host, SINGLE) for host in hosts]
    run = pf.run(path, set=changes, kernel=kernel, programs=programs, progress=False)
    flows = pl.DataFrame(run.flows)
    if scenario[0] == "g":
        return ours.transfers(flows)
    responses = flows.filter((pl.col("reply_bytes") > 0) & pl.col("fct_us").is_not_null())
    queue = ours.lines(pl.DataFrame(run.series), flows)
    return Recording(
        lines=pl.concat([queue, of_sockets(pl.DataFrame(run.kernel_sockets), flows)]),
        responses=responses.select(completion_us="fct_us") if responses.height else None,
        counts=ours.port_counts(run),
    )


def of_sockets(sockets: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Windows and alpha of the senders, and rates at the receiver, of the long flows in the order of the file."""
    long = flows.filter(pl.col("size_bytes").is_null())["flow"].to_list()
    number = {flow: index + 1 for index, flow in enumerate(long)}
    mine = sockets.filter(pl.col("flow").is_in(long)).with_columns(
        pl.col("flow").replace_strict(number, return_dtype=pl.Int64).alias("number"),
        pl.col("node").cast(pl.String),
    )
    senders, receivers = mine.filter(pl.col("node") != SINK), mine.filter(pl.col("node") == SINK)
    bits = pl.col("received_bytes").diff().over("number") * 8
    span = pl.col("time_us").diff().over("number")
    parts = [
        (senders, "cwnd", pl.col("cwnd_segments").cast(pl.Float64)),
        (senders, "alpha", pl.col("alpha")),
        (receivers.sort("number", "time_us"), "rate", bits / span),
    ]
    return pl.concat(
        frame.select(
            pl.lit(name).alias("metric"), pl.col("number").alias("flow"), pl.col("time_us").alias("t_us"), value=value
        ).drop_nulls()
        for frame, name, value in parts
    )


def incast(scenario: str, seed: int, kernel: Path) -> Recording:
    """All cells of an incast; timeouts, retransmissions and probes are those of the servers, from their counters."""
    rto_min = scenario.removeprefix("f_incast_cubic_rto")
    rows = [incast_cell(rto_min, seed, count, size, kernel) for count, size in product(ours.SENDERS, ours.SIZES)]
    return Recording(lines=pl.DataFrame(schema=LINES), incast=pl.concat(rows))


def incast_cell(rto_min: str, seed: int, senders: int, size: int, kernel: Path) -> pl.DataFrame:
    """Ten rounds with one number of senders and one size; counters are shared equally among the rounds."""
    changes = KERNEL | {
        "seed": seed,
        "workload.0.servers": [f"h{number}" for number in range(1, senders + 1)],
        "workload.0.response": f"{size} B",
        "workload.0.start": f"{1_000_000 + seed * 137 % ours.TICK_US} us",
        "host.kernel_hosts": ["r", *(f"h{number}" for number in range(1, senders + 1))],
        "host.route": f"rto_min {rto_min}",
        "record.kernel": {"every": "10 ms"},
        "stop": {"time": "20 s", "when_finished": True},
    }
    programs = [(host, SINGLE) for host in changes["host.kernel_hosts"]]
    path = ours.SCENARIOS / "f_incast_cubic.toml"
    run = pf.run(path, set=changes, kernel=kernel, programs=programs, progress=False)
    last = pl.DataFrame(run.kernel_counters).filter(pl.col("node").cast(pl.String) != SINK)
    last = last.group_by("node", "counter").agg(pl.col("value").last()).group_by("counter").agg(pl.col("value").sum())
    total = dict(last.select(pl.col("counter").cast(pl.String), "value").iter_rows())
    rounds = pl.DataFrame(run.queries).select("query", "fct_us").sort("query")
    count = rounds.height
    return rounds.select(
        senders=pl.lit(senders),
        bytes_each=pl.lit(size),
        rep=pl.col("query").cast(pl.Int64),
        completion_us="fct_us",
        timeouts=pl.lit(total.get("TcpExtTCPTimeouts", 0) / count),
        retransmits=pl.lit(total.get("TcpRetransSegs", 0) / count),
        loss_probes=pl.lit(total.get("TcpExtTCPLossProbes", 0) / count),
    )


def main() -> None:
    """Runs scenarios and keeps their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--kernel")
    arguments = parser.parse_args()
    kernel = pauseframe.kernel.find(arguments.kernel)
    version = kernel.name.split("-")[0]
    laboratory = reference()
    for scenario in arguments.scenarios:
        seeds = range(1, 2 if scenario[0] in "ag" else arguments.seeds + 1)
        runs = {seed: figures(scenario, record(scenario, seed, kernel)) for seed in seeds}
        keep(scenario, runs, version)
        for row in compare(scenario, laboratory[scenario], list(runs.values())):
            sys.stdout.write(f"{scenario}\t{row.figure}\t{row.kernel:.5g}\t{row.ours:.5g}\t{row.standing}\n")
        sys.stdout.flush()


def keep(scenario: str, runs: dict[int, dict[str, float]], version: str) -> None:
    """Replaces the kept figures of a scenario."""
    before = []
    if KEPT.exists():
        with KEPT.open(encoding="utf-8", newline="") as file:
            before = list(csv.reader(file))[1:]
    others = [row for row in before if row[0] != scenario]
    mine = [
        [scenario, figure, str(seed), f"{value:.8g}", version]
        for seed, found in runs.items()
        for figure, value in found.items()
    ]
    with KEPT.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *sorted([*others, *mine])])


if __name__ == "__main__":
    main()
