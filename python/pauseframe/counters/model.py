"""Counters of devices in one form, whatever tool printed them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

Kind = Literal[
    "pfc_rx",
    "pfc_tx",
    "pause_us",
    "queue_packets",
    "queue_bytes",
    "queue_drops",
    "wred_drops",
    "ecn_marks",
    "trims",
    "rx_packets",
    "rx_bytes",
    "rx_drops",
    "headroom_peak",
    "shared_peak",
    "queue_peak",
    "pool_peak",
    "tx_packets",
    "tx_bytes",
    "ce_received",
    "retransmits",
    "timeouts",
    "segments",
    "no_ecn_sockets",
]
"""pfc_rx: pause frames that came in and stopped the port; pfc_tx: those that the device sent out of it. The `rx_` and
`queue_` kinds count one priority or queue; peaks are bytes. The last five are of a host."""
KINDS: tuple[Kind, ...] = get_args(Kind)
PEAKS = frozenset({"headroom_peak", "shared_peak", "queue_peak", "pool_peak"})


class Key(NamedTuple):
    """What is counted, and in which priority, queue or group; None if in all."""

    kind: Kind
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A counter, and the name that the device gives it."""

    count: int
    name: str


@dataclass(slots=True)
class Device:
    """The counters of a device by port; those of the whole device have the port ""."""

    name: str
    ports: dict[str, dict[Key, Value]] = field(default_factory=dict)
    missing: set[Kind] = field(default_factory=set)
    """Kinds that the device shows as N/A, or that its output leaves open."""
    tools: set[str] = field(default_factory=set)
    """The commands whose output was read."""

    def add(self, port: str, key: Key, count: int, name: str, *, more: bool = False) -> None:
        """Sets a counter; with `more` it is added to what is there."""
        own = self.ports.setdefault(port, {})
        own[key] = Value(count + (own[key].count if more and key in own else 0), name)

    def total(self, kind: Kind, number: int | None = None) -> int | None:
        """The sum over all ports, of one priority or queue or of all; None if nothing counts it."""
        found = [
            value.count
            for own in self.ports.values()
            for key, value in own.items()
            if key.kind == kind and number in {None, key.number}
        ]
        return sum(found) if found else None

    def numbers(self, *kinds: Kind) -> list[int]:
        """The priorities or queues that have a counter of the kinds above zero."""
        return sorted(
            {
                key.number
                for own in self.ports.values()
                for key, value in own.items()
                if key.kind in kinds and key.number is not None and value.count
            }
        )


@dataclass(slots=True)
class Counted:
    """Counters of a fabric, and notes about what was not read."""

    devices: dict[str, Device] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: int = 0

    def device(self, name: str) -> Device:
        """The device of a name, which is added if it is new."""
        return self.devices.setdefault(name, Device(name))


def since(now: Counted, before: Counted) -> Counted:
    """What was counted between two collections. A counter that fell was reset: it counts from there. Peaks stay."""
    found = Counted(notes=[*now.notes], files=now.files)
    for name, device in now.devices.items():
        own = found.device(name)
        own.missing, own.tools = device.missing, device.tools
        earlier = before.devices.get(name)
        if earlier is None:
            found.notes.append(f"{name}: not in the earlier collection: counted from its last reset")
        for port, values in device.ports.items():
            old = earlier.ports.get(port, {}) if earlier else {}
            for key, value in values.items():
                last = old[key].count if key in old and key.kind not in PEAKS else 0
                fell = value.count < last
                if fell:
                    found.notes.append(
                        f"{name}:{port} {value.name} fell from {last:,} to {value.count:,}: it was reset"
                    )
                own.add(port, key, value.count - (0 if fell else last), value.name)
    return found
