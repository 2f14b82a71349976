"""Runs the simulator on a scenario of `scenarios/` and converts the run into the common form of `figures.py`."""

from __future__ import annotations

import random
import struct
import tempfile
import tomllib
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pauseframe as pf
import polars as pl
from figures import LINES, Recording

SCENARIOS = Path(__file__).parent / "scenarios"
PACKET, MSS = 1500, 1448
TICK_US = 1000
"""Timer tick of the kernel in microseconds (HZ 1000)."""
CAPTURED = ("b_long2_dctcp_rtt600", "b_long2_dctcp_rtt600_tso")
"""Scenarios that need a packet capture, because a figure depends on the order of packets at the receiver."""
SENDERS = (4, 8, 16, 32, 47)
SIZES = (2000, 8000, 32000, 64000)
ANSWERS_APART = {2000: "1 us", 8000: "1 us", 32000: "2 us", 64000: "2 us"}
"""Time between the answers of two servers in the held-out incasts, by size, from captures of the kernel's hosts.

The laboratory's servers are one program, and its virtual time moves on by 1 us whenever the program waits: once for an
answer, twice for one that exceeds the send buffer (of 32 KB most answers of the first round, and a part of the later).
"""
REPEATS = ("reply_timeouts", "reply_retransmits", "reply_loss_probes")
"""Columns with the servers' counters: in an incast, the kernel's runs count only the servers."""
METRICS = {
    "backlog_bytes": ("queue", 1 / PACKET),
    "cwnd_bytes": ("cwnd", 1 / MSS),
    "alpha": ("alpha", 1.0),
    "goodput_gbps": ("rate", 1000.0),
}


@cache
def held_out() -> dict[str, dict[str, Any]]:
    """The held-out scenarios by name: the file of each, and the keys that it changes."""
    return tomllib.loads(SCENARIOS.with_name("held_out.toml").read_text(encoding="utf-8"))


def source(scenario: str) -> tuple[Path, dict[str, Any]]:
    """The file of a scenario, and the keys that the scenario changes; both incasts of CUBIC share a file."""
    changes = dict(held_out().get(scenario, {"like": scenario}))
    name = str(changes.pop("like"))
    if name.startswith("f_incast_cubic_rto"):
        name, _, rto_min = name.partition("_rto")
        changes["transport.rto_min"] = rto_min.replace("ms", " ms")
    return SCENARIOS / f"{name}.toml", changes


def record(scenario: str, seed: int) -> Recording:
    """Records one run; group f has one run for each cell of senders and sizes."""
    if scenario[0] == "f":
        return incast(scenario, seed)
    path, changes = source(scenario)
    run, runs = captured(scenario, path, seed=seed, set=changes)
    flows = pl.DataFrame(run.flows)
    if scenario[0] == "g":
        return transfers(flows)
    counts = port_counts(run) | runs
    responses = flows.filter((pl.col("reply_bytes") > 0) & pl.col("fct_us").is_not_null())
    return Recording(
        lines=lines(pl.DataFrame(run.series), flows),
        responses=responses.select(completion_us="fct_us") if responses.height else None,
        counts=counts,
    )


def captured(scenario: str, path: Path, **arguments: Any) -> tuple[pf.Run, dict[str, float]]:
    """Runs a scenario file; of a captured scenario also the lengths of bursts at the receiver."""
    if scenario not in CAPTURED:
        return pf.run(path, progress=False, **arguments), {}
    arguments["set"] = arguments["set"] | {"record.packets": {"ports": ["s:0"]}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        run = pf.run(path, out=out, progress=False, **arguments)
        return run, lengths_of_runs(next(out.glob("*.pcapng")))


def transfers(flows: pl.DataFrame) -> Recording:
    """A recording of single transfers, by size."""
    fct = flows.select(pl.col("size_bytes").cast(pl.Int64).alias("bytes"), "fct_us")
    return Recording(lines=pl.DataFrame(schema=LINES), fct=fct)


def port_counts(run: pf.Run) -> dict[str, float]:
    """Drops and marked fraction at the bottleneck."""
    port = pl.DataFrame(run.ports).filter(pl.col("port") == "s:0").row(0, named=True)
    counts = {"drops total": float(port["drops_buffer_full"] + port["drops_not_ect"])}
    if port["ecn_marks"]:
        counts["marked fraction"] = port["ecn_marks"] / port["tx_packets"]
    return counts


def lengths_of_runs(path: Path) -> dict[str, float]:
    """Median and 95th percentile, over packets, of the burst length of full packets from one sender at the receiver."""
    senders: list[bytes] = []
    data, at = path.read_bytes(), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        # An enhanced packet block: 28 bytes, then Ethernet, then IPv4 with the source address at offset 12.
        if kind == 6 and struct.unpack_from("<I", data, at + 24)[0] > MSS:
            senders.append(data[at + 54 : at + 58])
        at += length
    late = pl.Series(senders[len(senders) // 5 :])
    of = pl.DataFrame({"sender": late, "run": late.rle_id()}).group_by("run").len()["len"]
    by_packet = of.repeat_by(of).explode()
    return {f"run {name}": float(by_packet.quantile(q) or 0) for name, q in (("p50", 0.5), ("p95", 0.95))}


def lines(series: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """The series in packets, segments and Mb/s; flows are numbered from 1 in the order of the file."""
    long = flows.filter(pl.col("size_bytes").is_null())["flow"].to_list()
    number = {f"flow {flow}": index + 1 for index, flow in enumerate(long)}
    parts = [
        series.filter(pl.col("metric") == metric).select(
            pl.lit(name).alias("metric"),
            pl.col("entity").cast(pl.String).replace_strict(number, default=0, return_dtype=pl.Int64).alias("flow"),
            pl.col("time_us").alias("t_us"),
            (pl.col("value") * scale).alias("value"),
        )
        for metric, (name, scale) in METRICS.items()
    ]
    return pl.concat(parts)


def incast(scenario: str, seed: int, senders: tuple[int, ...] = SENDERS, sizes: tuple[int, ...] = SIZES) -> Recording:
    """All cells of an incast scenario, whose name ends with the minimum RTO."""
    rows = [incast_cell(scenario, seed, count, size) for count, size in product(senders, sizes)]
    return Recording(lines=pl.DataFrame(schema=LINES), incast=pl.concat(rows))


def phase(seed: int, senders: int, size: int) -> int:
    """Microseconds from a tick to the start of the rounds; as in the kernel's runs, they start anywhere between two."""
    return random.Random(f"{seed} {senders} {size}").randrange(TICK_US)


def incast_cell(scenario: str, seed: int, senders: int, size: int) -> pl.DataFrame:
    """Ten rounds with one number of senders and one size."""
    path, of_scenario = source(scenario)
    changes = of_scenario | {
        "workload.0.servers": [f"h{number}" for number in range(1, senders + 1)],
        "workload.0.response": f"{size} B",
        "workload.0.start": f"{1_000_000 + phase(seed, senders, size)} us",
    }
    if scenario in held_out():
        changes["workload.0.spacing"] = ANSWERS_APART[size]
    run = pf.run(path, seed=seed, set=changes, progress=False)
    flows = pl.DataFrame(run.flows).group_by("query").agg(pl.col(*REPEATS).sum())
    rounds = pl.DataFrame(run.queries).select("query", "fct_us").join(flows, on="query").sort("query")
    return rounds.select(
        senders=pl.lit(senders),
        bytes_each=pl.lit(size),
        rep=pl.col("query").cast(pl.Int64),
        completion_us="fct_us",
        **{name.removeprefix("reply_"): pl.col(name).cast(pl.Int64) for name in REPEATS},
    )
