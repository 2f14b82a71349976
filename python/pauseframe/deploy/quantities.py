"""Values of a resolved scenario as numbers: bytes, seconds, Mb/s; and values that differ by port."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from pauseframe.fabric.headroom import FRAME
from pauseframe.sweep.spec import split_unit
from pauseframe.tune.parameters import UNITS


def number(value: Any) -> float:
    """A plain number, or a text with a unit in the base unit: bytes, seconds, bit/s. ValueError for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = split_unit(value)
    if found is None or found[1] not in UNITS:
        raise ValueError(f"{value!r} is no quantity")
    return found[0] * UNITS[found[1]]


def whole(value: Any) -> int:
    """A number, rounded."""
    return round(number(value))


def threshold(value: Any, mtu: int) -> int:
    """A queue length in bytes; "20 packets" are frames of the MTU."""
    found = split_unit(value)
    if found is not None and found[1].startswith("packet"):
        return round(found[0] * (mtu + FRAME))
    return whole(value)


def at_port(value: Any, port: str, speed: int) -> Any:
    """The value at a port (NODE:NUMBER in the scenario) with a speed in Mb/s; a name precedes a rate precedes "*".

    The first row of the most specific kind counts, as in the simulator (crates/fabric/src/marker/by_port.rs).
    """
    if not isinstance(value, Mapping):
        return value
    ranked = [(_rank(str(key), port, speed), own) for key, own in value.items()]
    best = max(rank for rank, _ in ranked)
    if best == 0:
        raise ValueError(f"no row of {value} is for port {port}")
    return next(own for rank, own in ranked if rank == best)


def _rank(selector: str, port: str, speed: int) -> int:
    if selector == "*":
        return 1
    found = split_unit(selector)
    if found is not None and found[1] in UNITS:
        return 2 if round(found[0] * UNITS[found[1]] / 1e6) == speed else 0
    return 3 if fnmatch.fnmatchcase(port, selector) else 0
