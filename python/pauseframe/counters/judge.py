"""Judges counters: pauses that nobody expects, ECN and PFC, classes that should be empty, losses, uneven paths.

What is expected comes from a run, from the devices' configuration, or from both. Counters cover hours and a run covers
milliseconds, so that numbers are compared per million packets of their class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pauseframe.counters.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.counters.expected import Expected
    from pauseframe.counters.model import Counted, Device, Kind

Level = Literal["fault", "hint"]
FACTOR = 4
"""Ratios to the run that differ by more are hints."""
SMALL = 0.01
"""Probability below which unevenness is a fault."""
FULL = 0.9
"""Share of the headroom that is a hint."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a counter shows."""

    level: Level
    kind: str
    device: str
    ports: tuple[str, ...]
    counter: str
    """The device's own name of the counter."""
    counted: int
    text: str
    simulated: str = ""


@dataclass
class Verdict:
    """The remarks about a fabric's counters, the worst first, and the spread over equal links."""

    remarks: list[Remark] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def judge(counted: Counted, expected: Expected, *, flows: int | None = None) -> Verdict:
    """Judges counters. `flows` is the number of equal flows that each switch hashes, for uneven paths."""
    found = Verdict(notes=[*counted.notes])
    for device in counted.devices.values():
        found.remarks += [
            *_foreign_pauses(device, expected),
            *_pauses_of_hosts(device, expected),
            *_marks(device, expected, found.notes),
            *_empty(device, expected),
            *_losses(device, expected),
            *_headroom(device, expected),
            *_sockets(device, expected, found.notes),
        ]
        found.spreads += _spreads(device, expected, flows)
    found.remarks += [remark for spread in found.spreads for remark in _uneven(spread, expected)]
    found.remarks.sort(key=lambda one: (one.level, one.device, one.kind, one.counter))
    unknown = sorted(counted.devices.keys() - expected.devices) if expected.devices else []
    if unknown:
        found.notes.append(f"{', '.join(unknown)}: not in {expected.source}: judged by the counters alone")
    return found


def _ports_with(device: Device, kind: Kind, number: int) -> Iterator[tuple[str, int, str]]:
    """The ports with a counter above zero: port, count, the counter's name."""
    for port, own in device.ports.items():
        for key, value in own.items():
            if key.kind == kind and key.number == number and value.count:
                yield port, value.count, value.name


def _foreign_pauses(device: Device, expected: Expected) -> Iterator[Remark]:
    """Pauses of priorities that are not lossless at their port, and pauses where the run has none."""
    for kind in ("pfc_rx", "pfc_tx"):
        for number in device.numbers(kind):
            rows = list(_ports_with(device, kind, number))
            foreign = [row for row in rows if expected.is_lossy(device.name, row[0], number)]
            if foreign:
                text = (
                    f"priority {number} is not lossless here, by {expected.source}: a device pauses a class of its own"
                )
                yield _remark("fault", "foreign pauses", device, foreign, text)
            new = [
                row for row in rows if row not in foreign and expected.simulated(device.name, row[0], kind, number) == 0
            ]
            if new:
                yield _remark("hint", "new pauses", device, new, "the run has no pause here", "0")


def _remark(
    level: Level, kind: str, device: Device, rows: list[tuple[str, int, str]], text: str, simulated: str = ""
) -> Remark:
    ports = tuple(port for port, _, _ in sorted(rows, key=lambda row: -row[1]) if port)
    return Remark(level, kind, device.name, ports, rows[0][2], sum(count for _, count, _ in rows), text, simulated)


def _pauses_of_hosts(device: Device, expected: Expected) -> Iterator[Remark]:
    """Hosts that pause their switch: they read too slowly, or their NIC waits for memory or PCIe."""
    own = device.name in expected.hosts or "ethtool -S" in device.tools
    for number in device.numbers("pfc_tx") if own else ():
        rows = [
            row for row in _ports_with(device, "pfc_tx", number) if not expected.is_lossy(device.name, row[0], number)
        ]
        simulated = expected.total(device.name, "pfc_tx", number)
        if rows and not simulated:
            text = "the host pauses its switch: it receives more than it reads"
            yield _remark("hint", "slow host", device, rows, text, "" if simulated is None else "0")
    for number in device.numbers("pfc_rx") if not own else ():
        rows = [
            row
            for row in _ports_with(device, "pfc_rx", number)
            if expected.leads_to_host(device.name, row[0])
            and not expected.simulated(device.name, row[0], "pfc_rx", number)
            and not expected.is_lossy(device.name, row[0], number)
        ]
        if rows:
            yield _remark(
                "hint", "slow host", device, rows, "hosts pause this switch: they receive more than they read"
            )


def _marks(device: Device, expected: Expected, notes: list[str]) -> Iterator[Remark]:
    """Whether ECN acts before PFC: a switch that pauses a class should mark it first."""
    for number in device.numbers("pfc_tx") if device.name not in expected.hosts else ():
        rows = list(_ports_with(device, "pfc_tx", number))
        marks = device.total("ecn_marks", number)
        if marks is None:
            why = "N/A" if "ecn_marks" in device.missing else "not collected: show queue wredcounters"
            if "ethtool -S" not in device.tools:
                notes.append(f"{device.name}: pauses in priority {number}, and EcnMarked/pkts is {why}")
            continue
        pauses = sum(count for _, count, _ in rows)
        of_run = expected.total(device.name, "pfc_tx", number), expected.total(device.name, "ecn_marks", number)
        simulated = f"{of_run[1]:,} marks, {of_run[0]:,} pauses" if None not in of_run else ""
        if marks == 0:
            text = f"pauses and no mark in queue {number}: PFC fires before ECN"
            yield _remark("fault", "no marks", device, rows, text, simulated)
        elif of_run[0] and of_run[1] and marks * of_run[0] * FACTOR < pauses * of_run[1]:
            text = f"{marks:,} marks for {pauses:,} pauses: fewer marks a pause than in the run"
            yield _remark("hint", "few marks", device, rows, text, simulated)


def _empty(device: Device, expected: Expected) -> Iterator[Remark]:
    """Queues that carry packets, and none in the run."""
    if device.name not in expected.devices or not expected.run:
        return
    for number in device.numbers("queue_packets"):
        if not expected.used(number):
            rows = list(_ports_with(device, "queue_packets", number))
            yield _remark("hint", "class in use", device, rows, f"the run sends nothing in class {number}", "0")


def _losses(device: Device, expected: Expected) -> Iterator[Remark]:
    """Drops in lossless classes, and of NICs."""
    kinds: tuple[Kind, ...] = ("queue_drops", "wred_drops")
    for kind in kinds:
        for number in device.numbers(kind):
            rows = [
                row for row in _ports_with(device, kind, number) if expected.is_lossless(device.name, row[0], number)
            ]
            if rows:
                yield _remark("fault", "lost", device, rows, f"lossless packets of queue {number} were dropped")
    for port, own in device.ports.items():
        for key, value in own.items():
            if key.kind == "rx_drops" and value.count and "ethtool -S" in device.tools:
                text = "the NIC dropped what it received: too few buffers or descriptors"
                yield Remark("hint", "lost", device.name, (port,) if port else (), value.name, value.count, text)


def _headroom(device: Device, expected: Expected) -> Iterator[Remark]:
    """Peaks of the headroom beside what is configured."""
    for port, own in device.ports.items():
        for key, value in own.items():
            size = expected.headroom(device.name, port, key.number) if key.kind == "headroom_peak" else None
            if size and value.count > FULL * size:
                text = f"{value.count / size:.0%} of the headroom of {size:,} B was used"
                yield Remark("hint", "headroom", device.name, (port,), value.name, value.count, text)


def _sockets(device: Device, expected: Expected, notes: list[str]) -> Iterator[Remark]:
    if "no_ecn_sockets" in device.missing:
        notes.append(
            f"{device.name}: ss shows no options of connections of DCTCP, so nothing tells whether they negotiated "
            "ECN: collect `ss -toi`"
        )
    own = device.ports.get("", {})
    for key, value in own.items():
        if key.kind == "no_ecn_sockets" and value.count:
            text = f"{value.count:,} connections of DCTCP did not negotiate ECN: they run as Reno"
            yield Remark("fault", "no ECN", device.name, (), value.name, value.count, text)
        elif key.kind == "timeouts" and value.count and expected.total(device.name, "timeouts") == 0:
            text = "retransmission timeouts, and none in the run"
            yield Remark("hint", "timeouts", device.name, (), value.name, value.count, text, "0")


def _spreads(device: Device, expected: Expected, flows: int | None) -> list[Spread]:
    """The traffic over each group of equal links of a switch."""
    found = []
    for group in expected.groups(device.name):
        if not device.ports.keys() >= {*group}:
            continue
        counts: dict[str, int] = {}
        what = ""
        for kind in ("tx_bytes", "queue_bytes", "queue_packets", "tx_packets"):
            counts = {
                port: sum(value.count for key, value in device.ports.get(port, {}).items() if key.kind == kind)
                for port in group
            }
            what = "bytes" if kind.endswith("bytes") else "packets"
            if any(counts.values()):
                break
        if any(counts.values()):
            found.append(Spread(device.name, counts, what, flows or expected.flows_through(device.name)))
    return found


def _uneven(spread: Spread, expected: Expected) -> Iterator[Remark]:
    port, ratio = spread.busiest
    of_run = expected.spread(spread)
    simulated = f"{of_run.used} of {len(of_run.counts)} used, busiest {of_run.busiest[1]:.2f}" if of_run else ""
    count, links = spread.counts[port], len(spread.counts)
    many = spread.flows is None or spread.flows >= 4 * links
    if spread.used < links and many:
        text = f"polarized: {spread.used} of {links} equal links used"
        ports = tuple(sorted(name for name, own in spread.counts.items() if own == 0)) or (port,)
        yield Remark("fault", "uneven paths", spread.device, ports, spread.what, count, text, simulated)
    elif spread.flows is not None and (chance := spread.chance(spread.flows)) < SMALL:
        text = (
            f"{ratio:.2f} times a fair part: a hash of {spread.flows:,} equal flows does this with chance {chance:.1g}"
        )
        yield Remark("fault", "uneven paths", spread.device, (port,), spread.what, count, text, simulated)
