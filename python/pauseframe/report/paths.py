"""Paths of flows: what each flow used, and how flows share equal links."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pauseframe.report import figures
from pauseframe.terminal.text import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Axis, Figure, Trace

LISTED = 30
"""Queue pairs and connections in the table of paths: those with the most bytes."""
EXPECTED_COLOUR = 7
TICKS_MAX = 12
"""Up to this number each number of flows has a tick."""
NAMED = 3
"""So many ports at one distance from the receiver are named; of more the table has the number."""


@dataclass(frozen=True)
class PathsOfRun:
    """Paths in the report of a run."""

    label: str
    shares: int | None
    """Number of the figure of flows over equal links; None without shares."""
    note: str
    rows: list[list[str]]
    left_out: int
    """Queue pairs and connections that are not in the table."""


def of_run(run: RunData, add: Callable[[Figure], int]) -> PathsOfRun | None:
    """The paths of a run; None if they were not recorded."""
    if run.paths is None:
        return None
    groups = _groups(run)
    rows, left_out = _rows(run)
    shares = add(shares_figure(groups)) if groups else None
    return PathsOfRun(run.label, shares, _note(groups), rows, left_out)


def _groups(run: RunData) -> dict[tuple[str, int], list[int]]:
    """By switch and number of the group: the flows on each of its equal links."""
    if run.equal_links is None:
        return {}
    table = run.equal_links.group_by("node", "group", maintain_order=True).agg("flows").collect()
    return {(str(node), group): flows for node, group, flows in table.iter_rows()}


def binomial(count: int, links: int, flows: int) -> float:
    """Probability that an even hash puts `count` of `flows` on one of `links` equal links."""
    if links == 1:
        return float(count == flows)
    ways = math.lgamma(flows + 1) - math.lgamma(count + 1) - math.lgamma(flows - count + 1)
    return math.exp(ways - count * math.log(links) + (flows - count) * math.log1p(-1 / links))


def used_links(links: int, flows: int) -> float:
    """Links of `links` equal ones that an even hash uses on average for `flows` flows: n (1 - (1 - 1/n)^m)."""
    return links * (1.0 - (1.0 - 1.0 / links) ** flows)


def shares_figure(groups: dict[tuple[str, int], list[int]]) -> Figure:
    """Links by their number of flows, beside what an even hash gives on average: the sum of binomial distributions."""
    seen = Counter(flows for counts in groups.values() for flows in counts)
    most = max(seen)
    numbers = list(range(most + 1))
    expected = [
        sum(
            len(counts) * binomial(number, len(counts), sum(counts))
            for counts in groups.values()
            if number <= sum(counts)
        )
        for number in numbers
    ]
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": "this run",
            "x": numbers,
            "y": [seen[number] for number in numbers],
            "meta": {"run": 0},
            "hovertemplate": "%{y} links have %{x} flows",
        },
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "even hash (binomial)",
            "x": numbers,
            "y": figures.short(expected),
            "meta": {"run": EXPECTED_COLOUR},
            "hovertemplate": "%{y:.3~g} links with %{x} flows",
        },
    ]
    x_axis: Axis = {"title": "flows on a link (number)"}
    if most <= TICKS_MAX:
        x_axis["dtick"] = 1
    y_axis: Axis = {"title": "links (number)", "rangemode": "tozero"}
    return figures.plot(traces, x_axis, y_axis, {"showlegend": True})


def _note(groups: dict[tuple[str, int], list[int]]) -> str:
    """The group that uses the smallest share of the links that an even hash uses, in words."""
    if not groups:
        return "No flow keeps one of several equal links: there are none, or switches choose per packet or flowlet."
    (node, _), flows = min(groups.items(), key=lambda item: _used(item[1]) / used_links(len(item[1]), sum(item[1])))
    expected = used_links(len(flows), sum(flows))
    return (
        f"Most uneven: at {node} {format_count(sum(flows))} flows use {_used(flows)} of {len(flows)} equal links, "
        f"{expected:.3g} on average with an even hash; the fullest has {max(flows)} flows, "
        f"{sum(flows) / len(flows):.3g} on average."
    )


def _used(flows: Iterable[int]) -> int:
    return sum(count > 0 for count in flows)


def _rows(run: RunData) -> tuple[list[list[str]], int]:
    """A row for each queue pair with the most bytes, and the number of others."""
    assert run.paths is not None
    names = [pl.col("node", "port").cast(pl.String)]
    forward = run.paths.filter(pl.col("direction").cast(pl.String) == "forward").with_columns(names).collect()
    ends = run.flows.select("flow", pl.col("src", "dst").cast(pl.String)).collect()
    hosts = {flow: (src, dst) for flow, src, dst in ends.iter_rows()}
    peers = dict(run.ports.select(pl.col("port", "peer").cast(pl.String)).unique().collect().iter_rows())
    parts = forward.partition_by("flow", "queue_pair", maintain_order=True)
    # Every switch of a path carries all packets of a flow, so the first one has the most bytes that any has.
    parts.sort(key=lambda part: -part["bytes"].max())  # type: ignore[operator]
    return [_row(part, hosts, peers) for part in parts[:LISTED]], max(0, len(parts) - LISTED)


def _row(part: pl.DataFrame, hosts: dict[int, tuple[str, str]], peers: dict[str, str]) -> list[str]:
    ports = list(part.iter_rows(named=True))
    flow = ports[0]["flow"]
    src, dst = hosts.get(flow, ("", ""))
    # At the receiver's switch the order is what the receiver sees; without the ports table that switch is not known.
    last = [port for port in ports if peers.get(port["port"]) == dst] or ports
    return [
        f"{flow}.{ports[0]['queue_pair']}",
        f"{src} to {dst}",
        "; ".join(_choices(level) for level in _levels(ports, peers, dst)),
        format_count(sum(port["packets"] for port in last)),
        format_bytes(sum(port["bytes"] for port in last)),
        format_count(sum(port["marks"] for port in ports)),
        format_count(sum(port["moves"] for port in ports)),
        format_count(sum(port["late_packets"] for port in last)),
        format_count(max(port["reorder_depth"] for port in last)),
    ]


def _levels(ports: list[dict[str, Any]], peers: dict[str, str], dst: str) -> list[list[dict[str, Any]]]:
    """The ports by their number of links to the receiver, the first switch first; by switch if that is not known."""
    left, near, levels = ports, {dst}, []
    while reached := [port for port in left if peers.get(port["port"]) in near]:
        nodes = {port["node"] for port in reached}
        level = [port for port in left if port["node"] in nodes]
        left = [port for port in left if port["node"] not in nodes]
        near = nodes
        levels.append(level)
    others = [[port for port in left if port["node"] == node] for node in dict.fromkeys(port["node"] for port in left)]
    return others + levels[::-1]


def _choices(ports: list[dict[str, Any]]) -> str:
    """Ports of which each packet took one, with their shares of the packets."""
    every = sum(port["packets"] for port in ports)
    if len(ports) == 1:
        return str(ports[0]["port"])
    shares = [port["packets"] / every for port in ports]
    if len(ports) > NAMED:
        nodes = sorted({port["node"] for port in ports})
        where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} switches"
        return f"{len(ports)} ports of {where} ({min(shares):.0%} to {max(shares):.0%})"
    return ", ".join(f"{port['port']} ({share:.0%})" for port, share in zip(ports, shares, strict=True))
