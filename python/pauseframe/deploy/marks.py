"""The WRED profile of each queue: marks only where ECN-capable traffic runs, because WRED drops what it cannot mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pauseframe.deploy import quantities
from pauseframe.deploy.inventory import DeployError

if TYPE_CHECKING:
    from pauseframe.deploy.design import Design
    from pauseframe.devices.model import End


class Curve(NamedTuple):
    """A line of marking probability: from 0 at `low` to `percent` at `high` bytes, above it all packets."""

    low: int
    high: int
    percent: int


def marked(design: Design) -> list[int]:
    """The priorities that mark: those with a marker whose traffic is ECN-capable."""
    capable = {one.priority for one in design.classes if one.ecn}
    return sorted(n for n in capable if (design.setting(n, "marker") or {}).get("kind", "none") != "none")


def curve(design: Design, end: End, priority: int) -> Curve | None:
    """The curve of a queue, None if its port marks nothing; DeployError for a probability below WRED's percentages."""
    marker, port, speed = design.setting(priority, "marker"), design.names[end], design.speed(end)

    def bytes_of(key: str) -> int:
        return quantities.threshold(quantities.at_port(marker[key], port, speed), design.mtu)

    if marker["kind"] == "step":
        return Curve(bytes_of("k"), bytes_of("k"), 100)
    share = 100 * quantities.number(quantities.at_port(marker["p_max"], port, speed))
    if share == 0:
        return None
    if round(share) < 1:
        raise DeployError(
            f"switch.marker.p_max {share / 100:g} at {port}: WRED has whole percentages: set 0.01 or more, or 0"
        )
    if abs(share - round(share)) > 1e-9:
        note = f"switch.marker.p_max = {share / 100:g} is written as {round(share)} %: WRED has whole percentages"
        if note not in design.notes:
            design.notes.append(note)
    low, high = bytes_of("min"), bytes_of("max")
    return Curve(low, high, 100 if low == high else round(share))


def row(own: Curve) -> dict[str, str]:
    """The row of WRED_PROFILE."""
    found = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        found |= {
            f"{colour}_min_threshold": str(own.low),
            f"{colour}_max_threshold": str(own.high),
            f"{colour}_drop_probability": str(own.percent),
            f"wred_{colour}_enable": "true",
        }
    return found


class Profiles:
    """The WRED profiles of one switch, by curve; `PF_25000` is the first of its speed."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, str]] = {}
        self._names: dict[tuple[int, Curve], str] = {}

    def name(self, speed: int, own: Curve) -> str:
        """The profile of a curve at ports of a speed in Mb/s."""
        if (speed, own) not in self._names:
            count = sum(known == speed for known, _ in self._names)
            name = f"PF_{speed}" + (f"_{count + 1}" if count else "")
            self._names[speed, own], self.rows[name] = name, row(own)
        return self._names[speed, own]
