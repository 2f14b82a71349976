"""The markers of an imported scenario: a class for each queue, with the WRED profile of each port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe.devices.model import PRIORITIES

if TYPE_CHECKING:
    from pauseframe.devices.model import End, Port, Switch
    from pauseframe.imports.fabric.scope import Scope

NEVER = "4 GB"
"""A threshold that no queue reaches: the simulator's largest."""


@dataclass(frozen=True)
class Curve:
    """Thresholds and probability of marks at a port, and the profile that has them."""

    low: str
    high: str
    probability: float
    profile: str


OFF = Curve(NEVER, NEVER, 0.0, "no marks")


def curves_of(scope: Scope) -> dict[int, dict[End, Curve]]:
    """The curve of each port by queue; queues that no port marks are left out."""
    found: dict[int, dict[End, Curve]] = {}
    for number in PRIORITIES:
        curves = {end: _curve(scope, end, switch, port, number) for end, switch, port in scope.ports()}
        if any(curve != OFF for curve in curves.values()):
            found[number] = curves
    return found


def _curve(scope: Scope, end: End, switch: Switch, port: Port, number: int) -> Curve:
    queue = port.queues.get(number)
    wred = switch.wred.get(queue.wred or "") if queue else None
    if wred is None or "green" not in wred.enabled:
        return OFF
    if not wred.marks_green:
        key = f"queue {number} WRED_PROFILE {wred.name}"
        scope.account.differs(end.device, end.port, key, "drops and does not mark", "no marks and no early drops")
        return OFF
    rate = scope.by_end[end].speed
    low = _bytes(wred.min_threshold, wred.min_us, rate) or 0
    top = _bytes(wred.max_threshold, wred.max_us, rate)
    high = max(low if top is None else top, low, 1)
    return Curve(f"{low} B", f"{high} B", wred.drop_probability / 100, wred.name)


def _bytes(threshold: int | None, microseconds: float | None, rate: int) -> int | None:
    """A threshold in bytes; one in time is what the link sends in it, with its rate in Mb/s."""
    return threshold if microseconds is None else round(microseconds * rate / 8)
