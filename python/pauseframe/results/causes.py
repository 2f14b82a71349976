"""Causes other than the varied settings that may explain the difference between two runs.

`compare`, reports and the demo write these causes into the cell that shows the difference, so that nobody quotes a
number that has another cause: unfinished flows, SYNs that a marker dropped, unequal memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pauseframe.terminal.text import buffers, counted, format_bytes, format_count, plural, unfinished_flows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.types import Summary


@dataclass(frozen=True)
class Conditions:
    """Conditions of a run, or of the runs of one variant, that affect a comparison of completion times."""

    label: str
    flows: int
    unfinished: int
    syns_dropped: int
    """Number of SYNs that markers dropped because SYNs are not ECN-capable."""
    lossless: bool
    buffer: str
    """Policy and size of the switch buffers."""
    held: float | None
    """Peak occupancy of the fullest switch in bytes; None in results of old versions."""
    what: str = "flow"
    """What `flows` and `unfinished` count: flows, or the queries or jobs whose times are compared."""

    def counting(self, what: str, every: int, unfinished: int) -> Conditions:
        """The same conditions with the number of other items: their times depend on those, not on all flows."""
        return replace(self, what=what, flows=every, unfinished=unfinished)

    @classmethod
    def of(cls, label: str, summary: Summary, scenario_toml: str) -> Conditions:
        """The conditions of one run."""
        left = unfinished_flows(summary)
        dropped, held = summary.get("syn_drops_not_ect", 0), summary.get("switch_held_max_bytes")
        return cls(label, summary["flows_finished"] + left, left, dropped, *buffers(scenario_toml), held)

    @classmethod
    def together(cls, label: str, runs: Sequence[Conditions]) -> Conditions:
        """Combines the conditions of all runs of one variant."""
        held = [run.held for run in runs if run.held is not None]
        return cls(
            label,
            sum(run.flows for run in runs),
            sum(run.unfinished for run in runs),
            sum(run.syns_dropped for run in runs),
            any(run.lossless for run in runs),
            " and ".join(dict.fromkeys(run.buffer for run in runs)),
            max(held, default=None),
            runs[0].what if runs else "flow",
        )


def other_causes(first: Conditions, other: Conditions) -> list[str]:
    """Short texts for the cell that compares `other` with `first`; empty if nothing else differs.

    >>> lossy = Conditions("dctcp", 18, 16, 0, False, "per_port of 225 KB", 2e5)
    >>> bolt = Conditions("bolt", 18, 0, 3, True, "per_port of 225 KB", 2.3e6)
    >>> other_causes(lossy, bolt)
    ['16 of 18 flows unfinished in dctcp', '3 SYNs dropped by the marker', 'memory differs: 2.3 MB, dctcp 200 KB']
    >>> brief_causes(lossy, bolt)
    ['flows unfinished', 'SYNs dropped', 'memory differs']
    >>> brief_causes(lossy.counting("query", 5, 2), bolt.counting("query", 5, 0))[0]
    'queries unfinished'
    """
    causes = [unfinished(other.unfinished, other.flows, other.what)] if other.unfinished else []
    if first.unfinished:
        causes.append(f"{unfinished(first.unfinished, first.flows, first.what)} in {first.label}")
    if other.syns_dropped:
        causes.append(_syns(other.syns_dropped))
    if first.syns_dropped:
        causes.append(f"{_syns(first.syns_dropped)} in {first.label}")
    if lossless_caution([first, other]):
        causes.append(f"memory differs: {format_bytes(other.held)}, {first.label} {format_bytes(first.held)}")
    return causes


def brief_causes(first: Conditions, other: Conditions) -> list[str]:
    """Like `other_causes`, without numbers, for tables whose notes state the numbers."""
    causes = {
        f"{plural(other.what)} unfinished": first.unfinished or other.unfinished,
        "SYNs dropped": first.syns_dropped or other.syns_dropped,
        "memory differs": lossless_caution([first, other]),
    }
    return [text for text, holds in causes.items() if holds]


def lossless_caution(runs: Sequence[Conditions]) -> str:
    """A caution about unequal memory for comparisons of lossless with lossy runs.

    The text is empty if all runs have one pool of equal size for each switch.

    >>> lossy = Conditions("dctcp", 18, 0, 0, False, "per_port of 225 KB", 2e5)
    >>> bolt = Conditions("bolt", 18, 0, 0, True, "per_port of 225 KB", 2.3e6)
    >>> lossless_caution([lossy, bolt]).splitlines()[0]
    'Not the same memory: the fullest switch held 200 KB in dctcp (lossy), 2.3 MB in bolt (lossless).'
    >>> from dataclasses import replace
    >>> lossless_caution([replace(run, buffer="shared of 9 MB") for run in (lossy, bolt)])
    ''
    """
    if len({run.lossless for run in runs}) < 2:
        return ""
    kinds = {run.buffer for run in runs}
    if len(kinds) == 1 and next(iter(kinds)).startswith("shared"):
        return ""
    held = ", ".join(
        f"{format_bytes(run.held)} in {run.label} ({'lossless' if run.lossless else 'lossy'})" for run in runs[:8]
    )
    return (
        f"Not the same memory: the fullest switch held {held}.\n"
        "A per_port buffer is counted per egress where traffic is lossy and per ingress where it is lossless. Part of "
        "what differs may be memory, not the protocol: give lossy runs as much, or both a shared buffer of one size, "
        'as in switch.buffer = { policy = "shared", size = "9 MB" }.'
    )


def unfinished(count: int, every: int, what: str = "flow") -> str:
    """A text with the number of flows, or of other items, that have no completion time."""
    return f"{format_count(count)} of {format_count(every)} {plural(what, every)} unfinished"


def _syns(count: int) -> str:
    return f"{counted(count, 'SYN')} dropped by the marker"
