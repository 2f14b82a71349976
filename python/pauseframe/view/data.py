"""The data of the player: topology, log of states, flows and deadlocks of a run as numbers.

A port has the number of its link times two, plus the index of its end. A slot is a port and priority in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import polars as pl

from pauseframe._core import InputError
from pauseframe.files.reading import parse_toml
from pauseframe.results.folder import SCENARIO, ResultsFolder, open_results

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pauseframe.types import Summary

KINDS = ("backlog", "load", "marks", "drops", "asked", "paused", "resumed", "cnps_sent", "cnps_received")
"""Kinds of events in the order of their numbers in the page."""
OF_INTERVALS = ("backlog", "load", "marks", "drops", "cnps_sent", "cnps_received")
FLOWS_SHOWN = 5000


@dataclass(frozen=True)
class Fabric:
    """Nodes, links and ports of a run by number."""

    names: list[str]
    is_host: list[bool]
    links: list[tuple[int, int]]
    rates: list[int]
    """Rate of each port in bits per second, by number: two for each link."""

    port_names: list[str]
    """Names of ports by number: "leaf0:3", or "leaf0:Ethernet8" where the topology names them."""

    def owner(self, port: int) -> int:
        """The node that owns the port."""
        return self.links[port // 2][port % 2]

    def peer(self, port: int) -> int:
        """The node at the other end of the port's link."""
        return self.links[port // 2][1 - port % 2]


class DeadlockedPorts(TypedDict):
    """A deadlock in the format of the page."""

    found_us: float
    since_us: float
    """Time at which the last queue of the deadlock was paused, in microseconds."""
    ports: list[int]
    """Ports of the cycle: each waits for the next, the last for the first."""
    priority: int
    victims: int
    flows: list[int]


Step = tuple[int, int, int, int, int, int]
"""A port of a flow's way: direction (0 forward, 1 back), port, and the packets there: all, marked, moved, late."""


@dataclass(frozen=True)
class Playback:
    """One run, ready for the player."""

    name: str
    summary: Summary
    status: str
    every_us: float
    fabric: Fabric
    events: pl.DataFrame
    """Events with columns time_us, kind (index in KINDS), slot, value, sorted by time.

    For the kind `asked`, the value is the port of the queue that caused the pause, or -1.
    """
    slots: list[tuple[int, int]]
    """Port and priority of each slot."""
    flows: pl.DataFrame
    flows_total: int
    rates: dict[int, tuple[list[float], list[float]]]
    """Rates of queue pairs by flow, if the series has them: times in microseconds, Gb/s."""
    paths: dict[int, list[Step]]
    """By flow the ports of switches that it used, if the run recorded paths."""
    deadlocks: list[DeadlockedPorts]
    folder: Path
    log_full_us: float | None
    """When the log of states was full, if it was: nothing is known of what came later."""

    @property
    def end_us(self) -> float:
        """Duration of the run in microseconds, or of its log if that was full."""
        return float(self.summary["sim_time_s"]) * 1e6 if self.log_full_us is None else self.log_full_us


def from_folder(folder: Path) -> Playback:
    """Reads a results folder.

    Raises FileNotFoundError if the folder has no results, InputError if the run has no log of states, and
    DamagedResultsError if a file is damaged.
    """
    results = open_results(folder)
    if not results.has_table("states"):
        raise InputError(
            f"{folder} has no log to play back: run the scenario with record = {{ states = true }}, or with "
            "--set record.states=true"
        )
    fabric = _fabric(results)
    number = {name: port for port, name in enumerate(fabric.port_names)}
    every_us = _every_us(results)
    states = _states(results, number)
    events, slots = _events(states, number, every_us)
    flows, total = flows_of(results)
    if total:
        for column in ("src", "dst"):
            _check_names(results, "flows", "a host", flows[column], fabric.names)
    summary = results.summary
    is_full = any(warning.startswith("record.states.limit:") for warning in summary["warnings"])
    return Playback(
        f"{summary['name']}, seed {summary['seed']}",
        summary,
        results.manifest["status"],
        every_us,
        fabric,
        events,
        slots,
        flows,
        total,
        _rates(results, flows),
        _paths(results, flows, number),
        _deadlocks(results, number),
        folder,
        float(states.select(pl.col("time_us").max()).item()) if is_full else None,
    )


def has_log(folder: Path) -> bool:
    """True if the run of a results folder has a log of states."""
    return open_results(folder).has_table("states")


def _fabric(results: ResultsFolder) -> Fabric:
    from pauseframe._core import ScenarioError, Topology
    from pauseframe.fabric.topology import back_channels
    from pauseframe.scenario.text import resolve_text, without_plugins

    file = str(results.path / SCENARIO)
    try:
        resolved = resolve_text(without_plugins(results.scenario_toml), base_dir=str(results.path), file_name=file)
    except ScenarioError as error:
        results.damaged(SCENARIO, str(error).splitlines()[0].removeprefix(f"{file}:"))
    topology = Topology.of_scenario(resolved)
    nodes, links = topology.nodes(), topology.links()
    number = {name: node for node, (name, _, _) in enumerate(nodes)}
    back = back_channels(topology)
    rates = [(rate, back[link][0] if link in back else rate) for link, (_, _, rate, _) in enumerate(links)]
    return Fabric(
        [name for name, _, _ in nodes],
        [kind == "host" for _, kind, _ in nodes],
        [(number[a], number[b]) for a, b, _, _ in links],
        [rate for pair in rates for rate in pair],
        topology.port_names(),
    )


def _every_us(results: ResultsFolder) -> float:
    """Sampling interval of the log in microseconds; resolved scenarios write times as a number and a unit."""
    states = parse_toml(results.scenario_toml).get("record", {}).get("states")
    value, _, unit = str(states.get("every") if isinstance(states, dict) else "").partition(" ")
    units = {"ps": 1e-6, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    if not value or unit not in units:
        results.damaged(SCENARIO, "it does not say how often states were recorded")
    return float(value) * units[unit]


def _events(
    states: pl.DataFrame, number: dict[str, int], every_us: float
) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
    """The log of states with numbers instead of names.

    The value of an interval is moved to the start of the interval, because the page shows the current state.
    """
    ports = pl.DataFrame({"port": list(number), "p": list(number.values())}, schema={"port": pl.String, "p": pl.Int32})
    causes = ports.rename({"port": "because_of", "p": "cause"})
    kinds = pl.DataFrame({"kind": KINDS, "k": range(len(KINDS))}, schema={"kind": pl.String, "k": pl.UInt8})
    last = (pl.col("time_us") / every_us - 1e-6).ceil() * every_us - every_us
    rows = (
        states.with_columns(pl.col("kind", "port", "because_of").cast(pl.String))
        .join(ports, on="port", how="left", maintain_order="left")
        .join(causes, on="because_of", how="left", maintain_order="left")
        .join(kinds, on="kind", how="left", maintain_order="left")
        .with_columns(pl.when(pl.col("kind").is_in(OF_INTERVALS)).then(last).otherwise("time_us").alias("time_us"))
        .sort("time_us", maintain_order=True)
    )
    slots = rows.select("p", "priority").unique().sort("p", "priority").with_row_index("slot")
    rows = rows.join(slots, on=["p", "priority"], how="left", maintain_order="left")
    value = pl.when(pl.col("kind") == "asked").then(pl.col("cause").fill_null(-1)).otherwise("value")
    events = rows.select("time_us", "k", "slot", value.fill_null(0.0).cast(pl.Float32).alias("value"))
    return events, slots.select("p", "priority").rows()


def _states(results: ResultsFolder, number: dict[str, int]) -> pl.DataFrame:
    """The log of states, with the kinds and ports that the page knows."""
    states = results.frame("states")
    _check_names(results, "states", "a port", states["port"].cast(pl.String), number)
    if unknown := set(states["kind"].cast(pl.String).unique()) - set(KINDS):
        results.damaged("states.parquet", f"it has a state {min(map(str, unknown))!r}, which no run writes")
    return states


def _check_names(results: ResultsFolder, table: str, what: str, names: pl.Series, known: Iterable[str]) -> None:
    if unknown := set(names.unique()) - set(known):
        name = min(map(str, unknown))
        results.damaged(f"{table}.parquet", f"it has {what} {name!r}, which the topology does not have")


def flows_of(results: ResultsFolder) -> tuple[pl.DataFrame, int]:
    """The flows to show (the slowest, if there are too many), and the total number of flows."""
    if not results.has_table("flows"):
        return pl.DataFrame(), 0
    flows = results.frame("flows").with_columns(pl.col("src", "dst", "workload", "status").cast(pl.String))
    shown = flows.sort("slowdown", descending=True, nulls_last=False).head(FLOWS_SHOWN).sort("flow")
    return shown, len(flows)


def _rates(results: ResultsFolder, flows: pl.DataFrame) -> dict[int, tuple[list[float], list[float]]]:
    if not results.has_table("series") or flows.is_empty():
        return {}
    series = results.frame("series").with_columns(pl.col("metric", "entity").cast(pl.String))
    rates = series.filter(pl.col("metric") == "rdma_rate_gbps").with_columns(
        pl.col("entity").str.strip_prefix("flow ").cast(pl.UInt32).alias("flow")
    )
    shown = rates.join(flows.select("flow"), on="flow", how="semi", maintain_order="left")
    return {
        flow: (own["time_us"].to_list(), own["value"].to_list())
        for (flow,), own in shown.group_by("flow", maintain_order=True)
    }


def _paths(results: ResultsFolder, flows: pl.DataFrame, number: dict[str, int]) -> dict[int, list[Step]]:
    """The ports of each flow that is shown, of all its queue pairs together."""
    if not results.has_table("paths") or flows.is_empty():
        return {}
    paths = results.frame("paths").with_columns(pl.col("port", "direction").cast(pl.String))
    _check_names(results, "paths", "a port", paths["port"], number)
    counts = ("packets", "marks", "moves", "late_packets")
    shown = (
        paths.join(flows.select("flow"), on="flow", how="semi", maintain_order="left")
        .group_by("flow", "direction", "port", maintain_order=True)
        .agg(pl.col(*counts).sum())
    )
    found: dict[int, list[Step]] = {}
    for flow, direction, port, *numbers in shown.select("flow", "direction", "port", *counts).rows():
        packets, marks, moves, late = numbers
        found.setdefault(flow, []).append((int(direction != "forward"), number[port], packets, marks, moves, late))
    return found


def _deadlocks(results: ResultsFolder, number: dict[str, int]) -> list[DeadlockedPorts]:
    if not results.has_table("deadlocks"):
        return []
    table = results.frame("deadlocks").with_columns(pl.col("port").cast(pl.String))
    _check_names(results, "deadlocks", "a port", table["port"], number)
    found: list[DeadlockedPorts] = []
    for _, queues in table.group_by("deadlock", maintain_order=True):
        found.append(
            {
                "found_us": queues["found_us"][0],
                "since_us": max(queues["paused_since_us"].to_list()),
                "ports": [number[port] for port in queues["port"]],
                "priority": queues["priority"][0],
                "victims": queues["victims"][0],
                "flows": sorted({flow for flows in queues["flows"] for flow in flows}),
            }
        )
    return found
