"""`pauseframe headroom`: the result, its terms, and its rank among the values that platforms ship."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pauseframe.fabric.headroom import FRAME, Term, annex_o, mellanox
from pauseframe.files.atomic import write_text
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.report.figures import Axis, Figure, Trace

SHIPPED = "shipped_headroom.csv"
BARS = 24
"""Bars of the histogram."""
_RATES = (
    dict.fromkeys(("", "m", "mb", "mbps", "mbit"), 1)
    | dict.fromkeys(("g", "gb", "gbps", "gbit"), 1000)
    | dict.fromkeys(("t", "tbps"), 10**6)
)
"""Factor from each unit of rate to Mb/s."""
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class Shipped:
    """Headroom of shipped `pg_profile_lookup.ini` files for one speed and cable: bytes, ascending."""

    speed: int
    cable: str
    values: tuple[int, ...]

    def below(self, value: int) -> int:
        """The number of shipped values that are smaller than `value`."""
        return sum(known < value for known in self.values)


@dataclass(frozen=True)
class Result:
    """The headroom of a link, its terms and the values that platforms ship for this link."""

    vendor: str
    speed: int
    cable: float
    mtu: int
    lossless_mtu: int
    terms: tuple[Term, ...]
    headroom: int
    xon: int | None
    size: int | None
    occupancy: float | None
    shipped: Shipped | None


def parse_rate(text: str, place: str = "") -> int:
    """Parses a rate such as "100G", "25000M" or "100 Gbps" into Mb/s; `place` begins the message about a mistake."""
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)\s*", text)
    unit = found[2].lower() if found else "?"
    if found is None or unit not in _RATES or not unit:
        raise ValueError(f"{place}{text!r} is not a rate: write 100G, 25000M or 100 Gbps")
    if "B" in found[2] and not found[2].endswith("BPS"):  # GB, GBps; but 100 GBPS is only loud
        bits = f"{float(found[1]) * 8:g}{found[2][0].upper()}"
        raise ValueError(f"{place}{text!r}: rates are in bits per second, and a capital B counts bytes; write {bits}")
    speed = float(found[1]) * _RATES[unit]
    if speed != int(speed) or not 1 <= speed <= 1_600_000:
        raise ValueError(f"{place}{text!r}: rates are whole Mb/s, to 1.6T")
    return int(speed)


def parse_length(text: str, place: str = "") -> float:
    """Parses a length such as "40m" into metres; `place` is as for `parse_rate`."""
    found = re.fullmatch(r"\s*([0-9]{1,7}(?:\.[0-9]{1,3})?)\s*(m|km)\s*", text)
    if found is None:
        raise ValueError(f"{place}{text!r} is not a length: write 40m or 10km")
    return float(found[1]) * (1000 if found[2] == "km" else 1)


def parse_size(text: str, place: str = "") -> int:
    """Parses a size such as "32 MB" into bytes (1 KB is 1000 B, 1 KiB 1024 B); `place` is as for `parse_rate`."""
    found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].lower() not in _SIZES or not found[2]:
        raise ValueError(f'{place}{text!r} is not a size: write "32 MB" or "32 MiB"')
    return int(float(found[1]) * _SIZES[found[2].lower()])


def calculate(
    speed: int,
    cable: float,
    *,
    mtu: int = 9100,
    lossless_mtu: int | None = None,
    vendor: str = "general",
    classes: int = 1,
    **of_mellanox: Any,
) -> Result:
    """Headroom of one lossless class of a link. `speed` in Mb/s, `cable` in metres, sizes in bytes.

    `of_mellanox` are further arguments of `mellanox`. Raises ValueError for links that the formula does not cover.
    """
    if lossless_mtu is not None and lossless_mtu > mtu:
        raise ValueError(f"a lossless packet of {lossless_mtu} B does not fit the port's MTU of {mtu} B")
    shipped = shipped_for(speed, cable)
    if vendor == "mellanox":
        packet = lossless_mtu or min(1024, mtu)
        own = mellanox(speed, cable, port_mtu=mtu, lossless_mtu=packet, **of_mellanox)
        values = (own.terms, own.xoff, own.xon, own.size, own.occupancy)
        return Result(vendor, speed, cable, mtu, packet, *values, shipped)
    packet = lossless_mtu or mtu
    general = annex_o(speed, cable, max_frame=packet + FRAME, lossless=classes, behind=max(0, mtu - packet))
    return Result(vendor, speed, cable, mtu, packet, general.terms, general.total, None, None, None, shipped)


def shipped_for(speed: int, cable: float) -> Shipped | None:
    """Values that platforms ship for this speed and the nearest cable length (by ratio)."""
    by_length: dict[float, list[int]] = {}
    text = files("pauseframe.fabric").joinpath(SHIPPED).read_text(encoding="ascii")
    for row in csv.DictReader(text.splitlines()):
        if int(row["speed_mbps"]) == speed:
            by_length.setdefault(float(row["cable"].removesuffix("m")), []).append(int(row["xoff_b"]))
    if not by_length:
        return None
    nearest = min(by_length, key=lambda length: max(length, cable or 0.1) / max(min(length, cable), 0.1))
    return Shipped(speed, f"{nearest:g}m", tuple(sorted(by_length[nearest])))


def as_json(result: Result) -> str:
    """The headroom of a link as JSON."""
    return json.dumps(asdict(result))


def as_text(result: Result) -> str:
    """The result as text for the terminal."""
    rate = f"{result.speed / 1000:g} Gb/s"
    lines = [f"{rate} over {result.cable:g} m, MTU {result.mtu}, lossless packets of {result.lossless_mtu} B", ""]
    lines += [f"  {term.bytes:>12,.1f} B  {term.name:15} {term.why}" for term in result.terms]
    if result.occupancy is not None:
        lines.append(f"  all but the last × {result.occupancy:.4g} cells' occupancy; rounded up to KiB")
    else:
        lines.append("  preambles and gaps, which do not reach the buffer, taken off; rounded up")
    lines += ["", f"headroom (xoff)  {result.headroom:,} B"]
    if result.xon is not None:
        lines.append(f"xon, size        {result.xon:,} B, {result.size:,} B")
    known = result.shipped
    if known is not None:
        below = known.below(result.headroom)
        nearest = "" if known.cable == f"{result.cable:g}m" else f", the nearest length to {result.cable:g}m in them"
        lines += [
            "",
            f"shipped for {rate} and {known.cable}{nearest}: {known.values[0]:,} to {known.values[-1]:,} B in "
            f"{counted(len(known.values), 'table')}, of which {below} have less",
        ]
    return "\n".join(lines)


def draw(result: Result, path: Path) -> None:
    """Draws the result among the shipped values into an .html (interactive) or .svg file; else ValueError."""
    if path.suffix not in {".html", ".svg"}:
        raise ValueError(f"{path}: name a .svg or .html file")
    if result.shipped is None:
        raise ValueError(f"no platform ships a value for {result.speed} Mb/s: nothing to draw it among")
    title = (
        f"Headroom for {result.speed / 1000:g} Gb/s: {result.shipped.cable} in shipped tables, {result.cable:g} m here"
    )
    if path.suffix == ".svg":
        write_text(path, _svg(result, result.shipped, title))
        return
    from pauseframe.report.html import page

    write_text(path, page([("", _histogram(result.headroom, result.shipped))], title=title))


def _histogram(headroom: int, shipped: Shipped) -> Figure:
    """Bars of the number of shipped tables by their headroom, and a line at the result."""
    from pauseframe.report.figures import plot

    low = min(shipped.values[0], headroom)
    width = max((max(shipped.values[-1], headroom) - low) / BARS, 1)
    counts = Counter(int((value - low) / width) for value in shipped.values)
    bars: Trace = {
        "type": "bar",
        "name": "shipped",
        "x": [low + (place + 0.5) * width for place in counts],
        "y": list(counts.values()),
        "width": width,
        "meta": {"run": 0},
        "hovertemplate": "%{y} tables around %{x:.4s}B",
    }
    line = {"yref": "paper", "x0": headroom, "x1": headroom, "y0": 0, "y1": 1, "line": {"width": 2}}
    x_axis: Axis = {
        "title": f"headroom (bytes); the line: {headroom:,} B",
        "ticksuffix": "B",
        "range": [low - width, low + (BARS + 1) * width],
    }
    return plot([bars], x_axis, {"rangemode": "tozero", "title": "tables"}, {"shapes": [line]}, 420)


def _svg(result: Result, shipped: Shipped, title: str) -> str:
    """A figure with each shipped value as a tick on a line, and the result as a longer tick."""
    most = max(shipped.values[-1], result.headroom) * 1.05
    width, left, axis = 800, 40, 90

    def at(value: float) -> float:
        return left + value / most * (width - 2 * left)

    ticks = "".join(
        f'<line x1="{at(v):.1f}" x2="{at(v):.1f}" y1="70" y2="{axis}" stroke="#1f77b4"/>' for v in shipped.values
    )
    labels = "".join(
        f'<text x="{at(v):.1f}" y="{axis + 18}" text-anchor="middle">{v:,}</text>'
        for v in (shipped.values[0], shipped.values[-1])
    )
    mine = at(result.headroom)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 130" font-family="sans-serif" font-size="12">'
        f'<text x="{left}" y="18" font-size="14">{title}, bytes</text>'
        f'<line x1="{left}" x2="{width - left}" y1="{axis}" y2="{axis}" stroke="black"/>{ticks}{labels}'
        f'<line x1="{mine:.1f}" x2="{mine:.1f}" y1="45" y2="{axis}" stroke="#d62728" stroke-width="2"/>'
        f'<text x="{mine:.1f}" y="40" text-anchor="middle" fill="#d62728">{result.headroom:,}</text></svg>\n'
    )
