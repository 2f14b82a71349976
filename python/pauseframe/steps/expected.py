"""How long the collectives of a critical path would take on an idle fabric.

A call takes at least as long as the fastest of the same kind, group and size in the run, or as its bytes take on the
NICs of a server: the larger part of S * 2(n-1)/n (all-reduce) or S * (n-1)/n has to pass them. A call inside of a
server uses no frames, so what it takes is expected.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from pauseframe.files.reading import parse_toml
from pauseframe.steps.links import parallelism

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.report.data import RunData
    from pauseframe.steps.path import Segment

STEP_US = 5.0
"""Microseconds for each step of a ring beside its bytes: latency of a path, store and forward, the stack."""


class Places(NamedTuple):
    """Where the ranks of a job are."""

    per_server: int
    """GPUs of a server; 1 without scale-up links."""
    tp: int
    rate: float
    """Rate of the NICs of a GPU in bytes per microsecond."""


def places_of(run: RunData, job: str, hosts: set[str]) -> Places:
    """Reads the servers of the scenario and the rates of NICs."""
    document = parse_toml(run.scenario_toml)
    scale_up = (document.get("topology") or {}).get("scale_up") or {}
    sizes = parallelism(run.scenario_toml).get(job)
    nics = (
        run.ports.filter(pl.col("tier").cast(pl.String) == "host")
        .select(pl.col("port", "node").cast(pl.String), "rate_bps")
        .unique("port")
        .collect()
    )
    rates: dict[str, float] = {}
    for _, node, rate in nics.rows():
        host = node.partition(".")[0]
        if host in hosts:
            rates[host] = rates.get(host, 0.0) + rate / 8e6
    return Places(
        int(scale_up.get("gpus_per_server", 1)), sizes.tp if sizes else 1, median(rates.values()) if rates else 0.0
    )


def least_us(call: Mapping[str, object], places: Places, overhead: float) -> float | None:
    """Time of a call on idle NICs in microseconds; None if it stays inside of a server, or the rate is not known."""
    ranks, size = int(str(call["ranks"])), float(str(call["bytes"]))
    group = call["group"]
    stride = 1 if group in ("TP", "all", "", "comm") else places.tp
    per_server = max(min(places.per_server // stride, ranks), 1)
    if ranks <= per_server or not places.rate:
        return None
    if call["kind"] in ("alltoall", "alltoallv"):
        wire, steps = size * (ranks - per_server) / ranks, 1
    else:
        rounds = 2 if call["kind"] == "allreduce" else 1
        wire, steps = rounds * size * (ranks - 1) / ranks / per_server, rounds * (ranks - 1)
    return wire / places.rate * overhead + steps * STEP_US


def longer_us(path: Sequence[Segment], calls: pl.DataFrame, places: Places, overhead: float) -> float:
    """Time by which the collectives of a path take longer than on an idle fabric, in microseconds."""
    took = pl.col("end_us") - pl.col("ready_us")
    fastest = {
        tuple(key): best
        for *key, best in calls.drop_nulls("end_us").group_by("kind", "group", "ranks", "bytes").agg(took.min()).rows()
    }
    excess = 0.0
    for part in path:
        if part.call < 0:
            continue
        call = calls.row(part.call, named=True)
        least = least_us(call, places, overhead)
        if least is not None:
            best = fastest[call["kind"], call["group"], call["ranks"], call["bytes"]]
            excess += max(part.took - min(best, least), 0.0)
    return excess
