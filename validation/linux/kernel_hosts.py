"""Runs the reference scenarios through pauseframe's fabric with hosts that have a Linux kernel.

Same kernel, other network: a difference to the laboratory is one of the fabric. Figures are kept in
`recorded/hosts.csv`, so a comparison needs no kernel, and a run that is kept is not repeated. As in the laboratory,
hosts send single packets, not batches (GSO), but for the scenarios that end in `tso`, with batches of 44.

    python validation/linux/kernel_hosts.py [--seeds N] [--kernel DIR] SCENARIO ...
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from itertools import product
from typing import TYPE_CHECKING, Any

import ours
import pauseframe as pf
import pauseframe.kernel
import polars as pl
from figures import LINES, Recording, figures
from verdict import KEPT, compare, kept_rows, kept_runs, reference

if TYPE_CHECKING:
    from pathlib import Path

HEADER = ("scenario", "figure", "seed", "hosts", "kernel")
SETTINGS: dict[str, dict[str, Any]] = {
    # In the laboratory too, the largest buffer decides the scale of windows.
    "noautotune": {"host.sysctl": ["net.ipv4.tcp_rmem = 4096 131072 6291456"]},
    "tso": {"host.tso": False, "host.gro": False},
}
"""What a scenario sets beyond its file, by the last part of its name."""
BATCHES = {True: "ip link set dev eth0 gso_max_segs 44", False: "ip link set dev eth0 gso_max_segs 1"}
"""Segments of a batch, with and without TSO: with the default (45), one DCTCP flow gets 909 instead of 986 Mb/s."""
COUNTERS = {
    "TcpExtTCPTimeouts": "timeouts",
    "TcpRetransSegs": "retransmits",
    "TcpExtTCPLossProbes": "loss_probes",
}
"""Counters of the servers in an incast, and the names of their columns."""
EVERY_US = {"5ms": 2000, "200ms": 5000}
"""Interval of their samples by minimum RTO: a round gets what is counted until the sample nearest to its end."""
START_US = 104_000
"""Tick at which the rounds of an incast start: earlier than in the laboratory (1 s), because samples cost time."""
SINK = "r"
"""The host that receives."""


def record(scenario: str, seed: int, kernel: Path) -> Recording:
    """Records one run, as `ours.record` does for simulated hosts."""
    if scenario[0] == "f":
        return incast(scenario, seed, kernel)
    path = ours.SCENARIOS / f"{scenario}.toml"
    spec = tomllib.loads(path.read_text(encoding="utf-8"))
    changes = of_kernel(spec, seed) | SETTINGS.get(scenario.rpartition("_")[2], {})
    if scenario[0] != "g":
        every = "250 us" if scenario[0] == "a" else "1 ms"
        changes |= {"record.kernel": {"every": every}, "record.series.flows": []}
    programs = [(host, BATCHES[scenario.endswith("_tso")]) for host in spec["topology"]["hosts"]]
    run, runs = ours.captured(scenario, path, set=changes, kernel=kernel, programs=programs)
    flows = pl.DataFrame(run.flows)
    if scenario[0] == "g":
        return ours.transfers(flows)
    responses = flows.filter((pl.col("reply_bytes") > 0) & pl.col("fct_us").is_not_null())
    queue = ours.lines(pl.DataFrame(run.series), flows)
    return Recording(
        lines=pl.concat([queue, of_sockets(pl.DataFrame(run.kernel_sockets), flows)]),
        responses=responses.select(completion_us="fct_us") if responses.height else None,
        counts=ours.port_counts(run) | runs,
    )


def of_kernel(spec: dict[str, Any], seed: int) -> dict[str, Any]:
    """Hosts with a kernel; the laboratory's sockets have TCP_NODELAY."""
    transports = ["transport", *(f"transports.{name}" for name in spec.get("transports", {}))]
    own = {"host.stack": "kernel", "host.interrupt_delay": "0 s", "seed": seed}
    return own | {f"{name}.small_segments": "at_once" for name in transports}


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
    """All cells of an incast."""
    rto_min = scenario.removeprefix("f_incast_cubic_rto")
    rows = [incast_cell(rto_min, seed, count, size, kernel) for count, size in product(ours.SENDERS, ours.SIZES)]
    return Recording(lines=pl.DataFrame(schema=LINES), incast=pl.concat(rows))


def incast_cell(rto_min: str, seed: int, senders: int, size: int, kernel: Path) -> pl.DataFrame:
    """Ten rounds with one number of senders and one size."""
    path = ours.SCENARIOS / "f_incast_cubic.toml"
    changes = of_kernel(tomllib.loads(path.read_text(encoding="utf-8")), seed) | {
        "workload.0.servers": [f"h{number}" for number in range(1, senders + 1)],
        "workload.0.response": f"{size} B",
        "workload.0.start": f"{START_US + ours.phase(seed, senders, size)} us",
        "host.kernel_hosts": ["r", *(f"h{number}" for number in range(1, senders + 1))],
        "transport.rto_min": rto_min.replace("ms", " ms"),
        "record.kernel": {"every": f"{EVERY_US[rto_min]} us"},
        "stop": {"time": "20 s", "when_finished": True},
    }
    programs = [(host, BATCHES[False]) for host in changes["host.kernel_hosts"]]
    run = pf.run(path, set=changes, kernel=kernel, programs=programs, progress=False)
    rounds = pl.DataFrame(run.queries).select("query", "start_us", "finish_us", "fct_us").sort("start_us")
    return (
        rounds.join(of_rounds(pl.DataFrame(run.kernel_counters), rounds, EVERY_US[rto_min] / 2), on="query", how="left")
        .sort("query")
        .select(
            pl.lit(senders).alias("senders"),
            pl.lit(size).alias("bytes_each"),
            pl.col("query").cast(pl.Int64).alias("rep"),
            pl.col("fct_us").alias("completion_us"),
            *(pl.col(counter).fill_null(0).alias(name) for counter, name in COUNTERS.items()),
        )
    )


def of_rounds(counters: pl.DataFrame, rounds: pl.DataFrame, late: float) -> pl.DataFrame:
    """What the servers counted until each round was complete, or `late` microseconds later at most.

    The laboratory ignores the probes of the pause after it.
    """
    steps = (
        counters.with_columns(pl.col("node", "counter").cast(pl.String))
        .filter((pl.col("node") != SINK) & pl.col("counter").is_in(list(COUNTERS)))
        .sort("time_us")
        .with_columns(pl.col("value").cast(pl.Int64))
        .with_columns(step=pl.col("value").diff().over("node", "counter").fill_null(pl.col("value")))
        .join_asof(rounds, left_on="time_us", right_on="start_us")
        .filter(pl.col("time_us") < pl.col("finish_us") + late)
    )
    empty = pl.DataFrame(schema=dict.fromkeys(COUNTERS, pl.Int64))
    sums = steps.pivot("counter", index="query", values="step", aggregate_function="sum")
    return pl.concat([sums, empty], how="diagonal")


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
        for seed in range(1, 2 if scenario[0] in "ag" else arguments.seeds + 1):
            if not is_kept(scenario, seed, version):
                keep(scenario, seed, figures(scenario, record(scenario, seed, kernel)), version)
        runs = [found for _, found in kept_runs(scenario).values()]
        for row in compare(scenario, laboratory[scenario], runs):
            sys.stdout.write(f"{scenario}\t{row.figure}\t{row.kernel:.5g}\t{row.ours:.5g}\t{row.standing}\n")
        sys.stdout.flush()


def is_kept(scenario: str, seed: int, version: str) -> bool:
    """Whether the figures of a run with this kernel are kept."""
    return kept_runs(scenario).get(seed, ("", {}))[0] == version


def keep(scenario: str, seed: int, found: dict[str, float], version: str) -> None:
    """Keeps the figures of a run, instead of those with this seed or with another kernel."""
    others = [row for row in kept_rows() if row[0] != scenario or (row[2] != str(seed) and row[4] == version)]
    mine = [[scenario, figure, str(seed), f"{value:.8g}", version] for figure, value in found.items()]
    with KEPT.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *sorted([*others, *mine])])


if __name__ == "__main__":
    main()
