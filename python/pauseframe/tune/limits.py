"""Constraints checked before a run: lossless safety, and buffer sizes.

A setting that violates a constraint is rejected without a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe.fabric.headroom import FRAME, annex_o
from pauseframe.terminal.text import format_bytes
from pauseframe.tune.formulas import most_ports
from pauseframe.tune.parameters import quantity

if TYPE_CHECKING:
    from pauseframe.tune.spec import Spec
    from pauseframe.types import HeadroomRow


def refusal(resolved: _core.Resolved, spec: Spec) -> str:
    """The reason why a setting is refused; empty if it may run."""
    rows = resolved.headroom()
    return (
        _short_headroom(rows)
        or _deadlock(resolved, rows, spec)
        or _short_for_cable(resolved, rows, spec)
        or _too_large(resolved, rows, spec)
    )


def _short_headroom(rows: list[HeadroomRow]) -> str:
    for row in rows:
        if row["pool_bytes"]:
            if row["pool_suffices_for"] < row["ports"]:
                return (
                    f"headroom: the pool of {format_bytes(row['pool_bytes'])} suffices for {row['pool_suffices_for']} "
                    f"ports such as {row['port']}, and there are {row['ports']}"
                )
        elif row["given_bytes"] < row["needed_bytes"]:
            return (
                f"headroom: {row['port']} has {format_bytes(row['given_bytes'])} and its link needs "
                f"{format_bytes(row['needed_bytes'])}"
            )
    return ""


def _deadlock(resolved: _core.Resolved, rows: list[HeadroomRow], spec: Spec) -> str:
    if not rows or spec.may_deadlock:
        return ""
    return next((f"deadlock: {warning}" for warning in resolved.warnings if "deadlock" in warning), "")


def _short_for_cable(resolved: _core.Resolved, rows: list[HeadroomRow], spec: Spec) -> str:
    """The fault that the headroom is too small for longer cables than those of the scenario."""
    from pauseframe.fabric.calculator import parse_length

    if not spec.cable:
        return ""
    metres = parse_length(spec.cable.replace(" m", "m"))
    frame = _mtu(resolved) + FRAME
    classes = len({row["priority"] for row in rows})
    for row in rows:
        need = annex_o(round(row["rate_bps"] / 1e6), metres, max_frame=frame, lossless=classes).total
        if not row["pool_bytes"] and row["given_bytes"] < need:
            return (
                f"headroom: {row['port']} has {format_bytes(row['given_bytes'])}, and {spec.cable} at "
                f"{row['rate_bps'] / 1e9:g} Gb/s need {format_bytes(need)}"
            )
    return ""


def _too_large(resolved: _core.Resolved, rows: list[HeadroomRow], spec: Spec) -> str:
    """The fault that the buffers exceed the packet memory of the switches."""
    from pauseframe.fabric.calculator import parse_size

    if not spec.buffer:
        return ""
    have, need = parse_size(spec.buffer), _memory(resolved, rows)
    if need > have:
        return f"buffer: a switch needs {format_bytes(need)} of packet memory, and has {spec.buffer}"
    return ""


def _memory(resolved: _core.Resolved, rows: list[HeadroomRow]) -> float:
    """Packet memory of the switch with the most ports: the shared buffer, else the sum over its ports."""
    values = {path: value for path, value, _ in resolved.explain()}
    size = quantity(values, "switch.buffer.size") or 0.0
    if values["switch.buffer.policy"] == '"shared"':
        return size
    lossless = len({row["priority"] for row in rows})
    return most_ports(_core.Topology.of_scenario(resolved)) * size * max(1, lossless)


def _mtu(resolved: _core.Resolved) -> int:
    values = {path: value for path, value, _ in resolved.explain()}
    return round(quantity(values, "host.mtu") or 1500.0)
