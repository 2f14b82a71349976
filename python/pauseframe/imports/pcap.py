"""Turns captures into workloads: a list of flows that runs, laws of sizes and gaps, and the figures of Judd's §2.2.

Reads one frame at a time, so that memory depends on the number of flows and connections, not on the capture's size.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections import Counter
from dataclasses import dataclass, field
from heapq import merge
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import polars as pl

from pauseframe._core import InputError
from pauseframe.files.atomic import added_files
from pauseframe.imports.capture_file import frames, in_order
from pauseframe.imports.tcp_flows import Assembly
from pauseframe.report import figures, html
from pauseframe.terminal.text import counted, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pauseframe.imports.capture_file import Frame
    from pauseframe.imports.tcp_flows import Cut, Flow
    from pauseframe.report.figures import Figure

SWITCH = "switch"
"""Name of the switch of the scenario."""
LONGEST_NAME = 64
"""Characters of the name of a node."""
LAW_POINTS = 200
"""Points of a law in a file, and of a curve in a figure."""
SERVICES = 8
"""Largest number of services with a separate bar; the others share one."""
SCENARIO = """# The flows of a capture, which `pauseframe import pcap` has found, between hosts at one switch.
# Rates and delays are not in a capture: set those of your network.
name = "{name}"
stop = {{ time = "{stop} s", when_finished = true }}

[topology]
kind = "custom"
hosts = {hosts}
switches = ["switch"]
links = {links}
link = {{ rate = "10 Gbps", delay = "1 us" }}

[[workload]]
name = "capture"
kind = "flows"
file = "{flows}"
"""


@dataclass
class Imported:
    """What a capture has: its flows as a table, sorted by their starts, and what was skipped."""

    flows: pl.DataFrame
    frames: int
    notes: list[str] = field(default_factory=list)


def read_captures(
    files: Sequence[Path],
    cut: Cut = "push",
    idle_us: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """The flows of captures of the same time, such as one of each server.

    `cut` says what ends a flow (`tcp_flows.py`); `idle_us` also ends one after a pause of so many microseconds;
    `progress` is called with the bytes of each frame. Raises InputError for a file that is no capture, and for captures
    without a flow of TCP.
    """
    names: dict[bytes, str] = {}
    assembly = Assembly(cut, None if idle_us is None else round(idle_us * 1000))
    seen = 0
    first: int | None = None

    def merged() -> Iterator[Frame]:
        nonlocal seen, first
        for frame in merge(*(in_order(frames(file, names), file) for file in files), key=lambda frame: frame.time):
            seen += 1
            first = frame.time if first is None else first
            if progress is not None:
                progress(len(frame.data))
            yield frame

    table = _Columns()
    for flow in assembly.flows(merged()):
        table.add(flow)
    if not table.sizes:
        skipped = ", ".join(f"{count} {what}" for what, count in assembly.skipped.items())
        raise InputError(f"{files[0]}: no flow of TCP in {counted(seen, 'frame')} ({skipped or 'no data'})")
    return Imported(table.frame(names, first or 0), seen, _notes(assembly))


def host_name(text: str) -> str:
    """A name that a scenario accepts: letters, digits, `_`, `-` and `.`, at most LONGEST_NAME of them.

    >>> host_name("2001:0db8:0000:0000:0000:0000:0000:0002")
    '2001-0db8-0000-0000-0000-0000-0000-0002'
    """
    plain = "".join(letter if letter.isalnum() or letter in "_-." else "-" for letter in text)
    return plain.lstrip("-.")[:LONGEST_NAME] or "host"


class _Columns:
    """The columns of the flows, 36 bytes a flow; addresses stand once."""

    def __init__(self) -> None:
        self.addresses: dict[bytes, int] = {}
        self.ends = array("I"), array("I")
        self.services = array("I")
        self.sizes, self.starts, self.stops = array("q"), array("q"), array("q")

    def add(self, flow: Flow) -> None:
        """Appends a flow."""
        for column, address in zip(self.ends, (flow.src, flow.dst), strict=True):
            column.append(self.addresses.setdefault(address, len(self.addresses)))
        self.services.append(flow.service)
        self.sizes.append(flow.size)
        self.starts.append(flow.start)
        self.stops.append(flow.end)

    def frame(self, names: dict[bytes, str], first: int) -> pl.DataFrame:
        """The table, sorted by start; times count from `first`."""
        hosts = [host_name(names.get(address) or ip_address(address).exploded) for address in self.addresses]
        if len({*hosts, SWITCH}) <= len(hosts):
            hosts = [host_name(ip_address(address).exploded) for address in self.addresses]
        src, dst = (
            pl.Series(hosts, dtype=pl.String).gather(pl.Series(column, dtype=pl.UInt32)) for column in self.ends
        )
        start, end = ((pl.Series(column, dtype=pl.Int64) - first) / 1000 for column in (self.starts, self.stops))
        columns = {"src": src, "dst": dst, "size_bytes": pl.Series(self.sizes, dtype=pl.Int64)}
        columns |= {"start_us": start, "end_us": end, "service": pl.Series(self.services, dtype=pl.UInt32)}
        return pl.DataFrame(columns).sort("start_us", maintain_order=True)


def _notes(assembly: Assembly) -> list[str]:
    notes = [f"{counted(count, 'frame')} {what} skipped" for what, count in assembly.skipped.items()]
    if assembly.middles:
        notes.append(
            f"sides of connections that were open when the capture began: {assembly.middles}; their first flows may be "
            "longer"
        )
    return notes


def write(imported: Imported, folder: Path, name: str, *, replace: bool = True) -> None:
    """Writes `flows.csv`, `sizes.csv`, `gaps.csv`, `scenario.toml` and `figures.html` into the folder, or none of them.

    Without `replace`, raises InputError if one of them exists.
    """
    flows = imported.flows
    parts = [
        ("Flow sizes (Judd, Fig. 2)", _curve(*law(flows["size_bytes"]), "flows")),
        ("Bytes by flow size (Judd, Fig. 3)", _curve(*bytes_by_size(flows["size_bytes"]), "bytes")),
        ("Bytes by service (Judd, Fig. 4)", _bars(by_service(flows))),
    ]
    page = html.page(parts, title=f"Flows of {name}")
    with added_files(folder) as partial:
        flows.write_csv(partial / "flows.csv", float_precision=3)
        _write_law(partial / "sizes.csv", "bytes", flows["size_bytes"])
        _write_law(partial / "gaps.csv", "us", gaps(flows))
        (partial / "scenario.toml").write_text(_scenario(flows, name), encoding="utf-8")
        (partial / "figures.html").write_text(page, encoding="utf-8")
        taken = [folder / one.name for one in sorted(partial.iterdir()) if (folder / one.name).exists()]
        if taken and not replace:
            raise InputError(f"{taken[0]} exists: name another folder with --out, or overwrite it with --force")


def gaps(flows: pl.DataFrame) -> pl.Series:
    """Microseconds between the starts of two flows of a source, over all sources."""
    return flows.select(pl.col("start_us").diff().over("src").alias("gap")).to_series().drop_nulls()


def law(values: pl.Series) -> tuple[list[float], list[float]]:
    """A cumulative distribution: values in ascending order, and the share of samples up to each."""
    counted = values.alias("value").value_counts().sort("value")
    shares = counted["count"].cum_sum() / max(values.len(), 1)
    return _thinned(counted["value"].to_list(), shares.to_list())


def bytes_by_size(sizes: pl.Series) -> tuple[list[float], list[float]]:
    """For each flow size the share of all bytes in flows up to that size."""
    counted = sizes.alias("value").value_counts().sort("value")
    part = counted["value"] * counted["count"]
    return _thinned(counted["value"].to_list(), (part.cum_sum() / part.sum()).to_list())


def by_service(flows: pl.DataFrame) -> list[tuple[str, float]]:
    """The share of all bytes by the port of the service, the largest first."""
    sums = Counter(dict(flows.group_by("service").agg(pl.col("size_bytes").sum()).iter_rows()))
    total = sums.total()
    shown = [(f"port {port}", size / total) for port, size in sums.most_common(SERVICES)]
    rest = 1 - sum(share for _, share in shown)
    return [*shown, ("others", rest)] if len(sums) > SERVICES else shown


def _thinned(values: list[float], shares: list[float]) -> tuple[list[float], list[float]]:
    """At most so many points, at equal steps of the share; the last is always there."""
    if len(values) <= LAW_POINTS:
        return values, shares
    kept = dict.fromkeys(min(int(share * LAW_POINTS), LAW_POINTS) for share in shares)
    last = {int(share * LAW_POINTS): place for place, share in enumerate(shares)}
    places = sorted({last[step] for step in kept if step in last} | {0, len(values) - 1})
    return [values[place] for place in places], [shares[place] for place in places]


def _write_law(path: Path, head: str, values: pl.Series) -> None:
    """A law as `sizes = { kind = "cdf", source = ... }` reads it; equal samples are a step of the law."""
    rows: list[tuple[float, float]] = []
    for value, share in zip(*law(values), strict=True):
        below = rows[-1][1] if rows else 0.0
        if not rows or rows[-1][0] < value - 1:
            rows.append((max(value - 1, 0), below))
        rows.append((value, round(100 * share, 6)))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((head, "percent"))
        writer.writerows((f"{value:.10g}", f"{share:.10g}") for value, share in rows)


def _scenario(flows: pl.DataFrame, name: str) -> str:
    hosts = sorted({*flows["src"].unique(), *flows["dst"].unique()})
    links = [[host, "switch"] for host in hosts]
    longest = float(flows["end_us"].max() or 0) / 1e6  # type: ignore[arg-type]
    stop = max(round(2 * longest + 1, 3), 1)
    return SCENARIO.format(name=name, stop=stop, hosts=json.dumps(hosts), links=json.dumps(links), flows="flows.csv")


def _curve(x: list[float], y: list[float], what: str) -> Figure:
    trace = figures._line(0, what, figures.short(x), figures.short(y), "%{x:.4s}B: %{y:.1%}")
    return figures.plot(
        [trace],
        {"title": "flow size", "ticksuffix": "B", "type": "log"},
        {"range": [0, 1.02], "tickformat": ".0%", "title": f"share of {what}"},
    )


def _bars(shares: list[tuple[str, float]]) -> Figure:
    names = [name for name, _ in shares]
    trace: Any = figures._line(0, "bytes", names, figures.short([share for _, share in shares]), "%{y:.1%}")
    axis: Any = {"type": "category", "categoryorder": "array", "categoryarray": names, "title": "service"}
    return figures.plot(
        [trace | {"type": "bar"}], axis, {"range": [0, 1.02], "tickformat": ".0%", "title": "share of bytes"}
    )


def summary(imported: Imported) -> str:
    """The capture in a sentence."""
    flows = imported.flows
    total = format_bytes(int(flows["size_bytes"].sum()))
    hosts = len({*flows["src"].unique(), *flows["dst"].unique()})
    return (
        f"{counted(flows.height, 'flow')}, {total}, {counted(hosts, 'host')}, from {counted(imported.frames, 'frame')}"
    )
