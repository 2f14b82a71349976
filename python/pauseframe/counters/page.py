"""The page of counters: remarks, the spread over equal links, and each counter beside the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.counters.model import KINDS, PEAKS
from pauseframe.report.data import natural
from pauseframe.report.html import render
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.counters.expected import Expected
    from pauseframe.counters.judge import Verdict
    from pauseframe.counters.model import Counted, Device

MANY = 10_000
"""Flows from which on the spread counts as even."""
MOST_PORTS = 3
"""Maximum number of ports of a remark that the table names."""


def sentence(verdict: Verdict, read: Counted, expected: Expected) -> str:
    """The result in one sentence."""
    faults = sum(one.level == "fault" for one in verdict.remarks)
    hints = len(verdict.remarks) - faults
    found = f"{counted(faults, 'fault')}, {counted(hints, 'hint')}" if verdict.remarks else "nothing unexpected"
    if not verdict.remarks and not (expected.run or expected.fabric):
        found = "no losses or uneven paths; pauses and classes were compared with nothing"
    return f"{counted(len(read.devices), 'device')}, {counted(read.files, 'file')}: {found}"


def remark_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """Rows of remarks: level, device, ports, counter, counted, simulated, meaning."""
    rows: list[tuple[str, ...]] = []
    for one in verdict.remarks:
        more = len(one.ports) - MOST_PORTS
        ports = ", ".join(one.ports[:MOST_PORTS]) + (f" and {more} more" if more > 0 else "")
        rows.append((one.level, one.device, ports, one.counter, f"{one.counted:,}", one.simulated, one.text))
    return rows


def spread_rows(verdict: Verdict, expected: Expected) -> list[tuple[str, ...]]:
    """Rows of the spread over equal links: device, links, used, busiest, like a hash of how many flows, in the run."""
    rows: list[tuple[str, ...]] = []
    for one in verdict.spreads:
        port, ratio = one.busiest
        like = "fair" if one.like_flows > MANY else f"{one.like_flows:,.0f}"
        of_run = expected.spread(one)
        simulated = f"{of_run.used} used, busiest {of_run.busiest[1]:.2f}" if of_run is not None else ""
        flows = "" if one.flows is None else f"{one.flows:,}"
        rows.append((one.device, str(len(one.counts)), str(one.used), f"{port} {ratio:.2f}", like, flows, simulated))
    return rows


def counter_rows(device: Device, expected: Expected) -> Iterator[tuple[str, str, str, str, str]]:
    """Counters above zero beside the run: port, name, count, per million packets of the class, that of the run."""
    for port in sorted(device.ports, key=natural):
        own = device.ports[port]
        for key in sorted(own, key=lambda key: (key.number is None, key.number or 0, KINDS.index(key.kind))):
            value = own[key]
            if value.count:
                here = _rate(device.ports[port], key.kind, key.number, value.count)
                run = expected.run.counted.devices.get(device.name) if expected.run is not None else None
                there = ""
                if run is not None and key in run.ports.get(port, {}):
                    simulated = run.ports[port][key].count
                    there = f"{simulated:,}"
                    rate = _rate(run.ports[port], key.kind, key.number, simulated)
                    there += f" ({rate})" if rate else ""
                yield port, value.name, f"{value.count:,}", here, there


def _rate(own: dict[Any, Any], kind: str, number: int | None, count: int) -> str:
    """A counter per million packets of its queue, for pauses, marks and losses."""
    packets = [value.count for key, value in own.items() if key.kind == "queue_packets" and key.number == number]
    if kind in {"queue_packets", "queue_bytes", "rx_bytes", "rx_packets", *PEAKS} or not sum(packets):
        return ""
    return f"{count * 1e6 / sum(packets):,.0f} per million"


def page(verdict: Verdict, counted: Counted, expected: Expected, title: str) -> str:
    """The page as HTML: one file that needs no network."""
    devices = [
        (name, ", ".join(sorted(device.tools)), list(counter_rows(device, expected)))
        for name, device in sorted(counted.devices.items(), key=lambda item: natural(item[0]))
    ]
    return render(
        "counters.html.j2",
        [],
        title=title,
        sentence=sentence(verdict, counted, expected),
        source=expected.source,
        remarks=remark_rows(verdict),
        spreads=spread_rows(verdict, expected),
        devices=devices,
        notes=verdict.notes,
    )
