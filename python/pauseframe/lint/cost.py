"""What a run costs: packets lost, pauses, marks, who waits. The numbers that `lint --prove` sets side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.terminal.text import format_bytes, format_us, unfinished_flows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.results import Run
    from pauseframe.results.table import Table

DROPS = ("buffer_full", "headroom_exceeded", "not_ect", "headroom_pool", "codel", "ring_full", "link_down", "watchdog")


@dataclass(frozen=True)
class Measure:
    """A number of a run: its name, its text, and its value."""

    name: str
    text: str
    value: float


def measures(run: Run, scope: Scope) -> dict[str, Measure]:
    """The numbers of a run, under the devices' own names of ports."""
    summary = run.summary
    found = [
        Measure("packets lost", _lost(summary["drops_by_reason"]), summary["drops"]),
        _bytes_lost(run),
        _count("pauses", summary["pfc_pauses"]),
        _count("ECN marks", summary["ecn_marks"]),
        _count("storms", summary["watchdog_storms"]),
        _count("sent again", summary["retransmits"]),
        _count("timeouts", summary["timeouts"]),
        _count("datagrams lost", summary["datagrams_lost"]),
        _count("deadlocks", summary["deadlocks"]),
        _count("links down", sum(bool(cable.down) for cable in scope.cables)),
        _busiest(run, scope),
        Measure(
            "flows finished",
            f"{summary['flows_finished']} of {summary['flows_finished'] + unfinished_flows(summary)}",
            summary["flows_finished"],
        ),
        _waits(run, scope),
        _slowest(run, "slowest flow", ""),
        _slowest(run, "TCP waits", "TCP"),
    ]
    return {one.name: one for one in found}


def _count(name: str, value: int) -> Measure:
    return Measure(name, f"{value:,}", value)


def _lost(reasons: Mapping[str, object]) -> str:
    some = {name: count for name in DROPS if isinstance(count := reasons.get(name), int) and count}
    listed = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in some.items())
    return listed or "0"


def _columns(table: Table, *names: str) -> list[tuple[object, ...]]:
    return pl.DataFrame(table).select(names).rows()


def _bytes_lost(run: Run) -> Measure:
    """Bytes of the lost packets: their number times the mean size of the packets of the port and priority."""
    drops = [f"drops_{name}" for name in DROPS]
    total = 0.0
    for packets, size, *lost in _columns(run.ports, "tx_packets", "tx_bytes", *drops):
        count = sum(map(_number, lost))
        total += count * _number(size) / max(_number(packets), 1)
    return Measure("bytes lost", f"about {format_bytes(total)}" if total else "0", round(total))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _waits(run: Run, scope: Scope) -> Measure:
    """The port that is paused longest in all."""
    rows = _columns(run.ports, "port", "priority", "paused_us")
    port, priority, longest = max(rows, key=lambda row: _number(row[2]), default=("", 0, 0))
    if not _number(longest):
        return Measure("longest paused", "nobody", 0)
    return Measure(
        "longest paused",
        f"{own_name(scope, str(port))} priority {priority}: {format_us(_number(longest))}",
        _number(longest),
    )


def _busiest(run: Run, scope: Scope) -> Measure:
    """The link between two switches that carries most."""
    rows = _columns(run.ports, "port", "tier", "tx_bytes")
    carried: dict[str, float] = {}
    for port, tier, size in rows:
        if tier == "switch-switch":
            carried[str(port)] = carried.get(str(port), 0) + _number(size)
    if not carried:
        return Measure("busiest link", "none", 0)
    port, most = max(carried.items(), key=lambda item: item[1])
    return Measure("busiest link", f"{own_name(scope, port)}: {most / 1e6:,.1f} MB", most)


def own_name(scope: Scope, port: str) -> str:
    """The device's own name of a port of the scenario."""
    for cable in scope.cables:
        if port in cable.ports:
            end = cable.ends[cable.ports.index(port)]
            return f"{end.device}:{end.port}" if end.port else end.device
    return port


def _slowest(run: Run, name: str, workload: str) -> Measure:
    """The flow that takes longest, of all workloads or of one."""
    rows = [
        row for row in _columns(run.flows, "src", "dst", "start_us", "finish_us", "workload") if workload in str(row[4])
    ]
    last = run.summary["sim_time_s"] * 1e6
    times = [
        (_number(last if finish is None else finish) - _number(start), src, dst, finish)
        for src, dst, start, finish, _ in rows
    ]
    if not times:
        return Measure(name, "none", 0)
    time, src, dst, finish = max(times, key=lambda row: row[0])
    shown = format_us(time) if finish is not None else f"not finished after {format_us(time)}"
    return Measure(name, f"{src} to {dst}: {shown}", time)
