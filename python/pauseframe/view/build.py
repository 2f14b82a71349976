"""Writes the page of the player: one self-contained file with the runs as packed arrays."""

from __future__ import annotations

import base64
import json
import zlib
from array import array
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypedDict

import polars as pl

from pauseframe._core import InputError, __version__
from pauseframe.files.atomic import write_text
from pauseframe.report.html import UPLOT, asset
from pauseframe.view.layout import Graph, arrange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pauseframe.view.data import DeadlockedPorts, Fabric, Playback, Step

SCRIPTS = ("run.js", "causes.js", "fold.js", "map.js", "charts.js", "details.js", "find.js", "player.js")
RUNS_MAX = 2
TICKS = 2**32 - 1


def build_view(runs: Sequence[Playback], out: Path, *, report: str | None = None) -> Path:
    """Writes the player of one run, or of two side by side, to the file `out` and returns its path.

    `report` is the path of the run's report relative to `out`. Raises InputError for more than two runs.
    """
    return write_text(out, view_page(runs, report=report))


def view_page(runs: Sequence[Playback], *, report: str | None = None) -> str:
    """The page of the player as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    if not 1 <= len(runs) <= RUNS_MAX:
        raise InputError(f"the player shows one run or two side by side, not {len(runs)}")
    runs = _told_apart(runs)
    loader = PackageLoader("pauseframe.view")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    text = json.dumps([_page_data(run) for run in runs], separators=(",", ":"), allow_nan=False)
    html: str = environment.get_template("view.html.j2").render(
        title=" beside ".join(run.name for run in runs),
        version=__version__,
        runs=[run.name for run in runs],
        report=report,
        data=Markup(text.replace("<", "\\u003c")),
        uplot_css=Markup(asset(f"{UPLOT}.min.css")),
        scripts=Markup("\n".join([asset(f"{UPLOT}.min.js"), *map(_script, SCRIPTS)])),
    )
    return html


def _told_apart(runs: Sequence[Playback]) -> Sequence[Playback]:
    """Labels of two runs, with their folders if names and seeds are equal."""
    if len({run.name for run in runs}) == len(runs):
        return runs
    return [replace(run, name=f"{run.name} ({run.folder.resolve().name})") for run in runs]


def _script(name: str) -> str:
    return files("pauseframe.view").joinpath("templates", name).read_text(encoding="utf-8")


class PageData(TypedDict):
    """A run in the format of `run.js`; arrays of numbers are packed into texts."""

    name: str
    status: str
    warnings: list[str]
    end: float
    is_cut: bool
    """The log was full at `end`, and the run went on."""
    every: float
    nodes: list[str]
    hosts: str
    places: str
    pods: list[tuple[float, float, float, float]]
    links: str
    names_of_ports: list[str] | None
    """Names of all ports at their nodes, if some are not numbers."""
    rates: str
    slotPorts: str
    slotPriorities: str
    events: EventColumns
    flows: list[list[Any]]
    flowsTotal: int
    rates_of_flows: dict[int, tuple[list[float], list[float]]]
    paths: dict[int, list[Step]]
    deadlocks: list[DeadlockedPorts]


class EventColumns(TypedDict):
    """The packed log of states; times are multiples of 2^-32 of the run."""

    steps: str
    kinds: str
    slots: str
    values: str


def _names_of_ports(fabric: Fabric) -> list[str] | None:
    names = [name.rsplit(":", 1)[1] for name in fabric.port_names]
    return None if all(map(str.isdecimal, names)) else names


def _page_data(run: Playback) -> PageData:
    fabric = run.fabric
    layout = arrange(Graph(fabric.is_host, fabric.links))
    end_us = max(run.end_us, run.every_us)
    return {
        "name": run.name,
        "status": run.status,
        "warnings": run.summary["warnings"],
        "end": end_us,
        "is_cut": run.log_full_us is not None,
        "every": run.every_us,
        "nodes": fabric.names,
        "hosts": _packed("B", fabric.is_host),
        "places": _packed("f", (value for place in layout.places for value in place)),
        "pods": layout.pods,
        "links": _packed("I", (node for link in fabric.links for node in link)),
        "names_of_ports": _names_of_ports(fabric),
        "rates": _packed("f", (rate / 1e9 for rate in fabric.rates)),
        "slotPorts": _packed("I", (port for port, _ in run.slots)),
        "slotPriorities": _packed("B", (priority for _, priority in run.slots)),
        "events": _events(run.events, end_us),
        "flows": _flows(run),
        "flowsTotal": run.flows_total,
        "rates_of_flows": run.rates,
        "paths": run.paths,
        "deadlocks": run.deadlocks,
    }


def _events(events: pl.DataFrame, end_us: float) -> EventColumns:
    ticks = (pl.col("time_us") / end_us * TICKS).round().clip(0, TICKS).cast(pl.Int64)
    steps = (
        events.select(ticks.diff().fill_null(ticks.first()))["time_us"]
        if len(events)
        else pl.Series([], dtype=pl.Int64)
    )
    return {
        "steps": _packed("I", steps),
        "kinds": _packed("B", events["k"]),
        "slots": _packed("I", events["slot"]),
        "values": _packed("f", events["value"]),
    }


def _flows(run: Playback) -> list[list[Any]]:
    """Columns: flow, source, destination, bytes, start, finish, slowdown, marks, timeouts, status, workload, CNPs.

    The last two columns are the CNPs sent and received.
    """
    if run.flows.is_empty():
        return []
    number = {name: node for node, name in enumerate(run.fabric.names)}
    size = pl.when(pl.col("size_bytes") == 0).then("reply_bytes").otherwise("size_bytes")  # of a READ its response
    columns = ("start_us", "finish_us", "slowdown", "ce_packets", "timeouts", "status", "workload")
    notifications = ("cnps_sent", "cnps_received")
    rows = run.flows.select("flow", "src", "dst", size.alias("size_bytes"), *columns, *notifications).rows()
    return [[row[0], number[row[1]], number[row[2]], *row[3:]] for row in rows]


def _packed(code: str, values: Iterable[Any]) -> str:
    """Numbers as base64 of deflated little-endian bytes; codes of the module `array`: B, I, f."""
    numbers = array(code, values)
    if array("H", [1]).tobytes() != b"\1\0":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes(), 6)).decode("ascii")
