"""Finds the flows in the TCP connections of a capture.

A flow is what one side of a connection sends up to a segment with PUSH, as Judd has it (NSDI 2015, section 2.2), up to
the first byte that the other side sends next ("turn": a request and its response), or up to a pause or the end of the
connection. A kernel sets PUSH whenever it has sent all it has, so that one long transfer may have many.

Sizes follow the sequence numbers (RFC 9293 section 3.4): a segment that is captured twice, at two ports or because it
was sent again, counts once, and one that the capture missed counts too.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pauseframe.imports.capture_file import Frame

FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16
SEQUENCE = 0xFFFFFFFF
HEAD = {1: 12, 113: 14, 276: 0, 101: None, 228: None, 229: None, 0: None, 108: None}
"""Place of the EtherType by link type (tcpdump.org/linktypes.html); None without one."""
NULL_HEAD = {0: 4, 108: 4}
"""Bytes before the IP header of loopback links."""
VLANS = {0x8100, 0x88A8, 0x9100}
IPV4, IPV6, TCP, UDP = 0x0800, 0x86DD, 6, 17
HOP_BY_HOP, JUMBO = 0, 0xC2
"""The IPv6 header of options that each hop reads, and its option with the length of a jumbogram (RFC 2675)."""
SEGMENT = struct.Struct("!HHIIBB")
MOST_SIDES = 2_000_000
"""Sides of connections that are kept; above, the half that was silent for longest is closed."""


Cut = Literal["push", "turn", "connection"]
"""What ends a flow, besides a pause and the end of its connection."""


class Flow(NamedTuple):
    """A flow: addresses, the service's port, bytes, and nanoseconds of its start and of its last byte."""

    src: bytes
    dst: bytes
    service: int
    size: int
    start: int
    end: int


class Side:
    """One side of a connection: what it has sent, and the flow that it is sending."""

    __slots__ = ("ended", "last", "next", "service", "size", "start")

    def __init__(self, following: int, service: int, time: int) -> None:
        self.next, self.service, self.start, self.last = following, service, time, time
        self.size = 0
        self.ended = False


@dataclass
class Assembly:
    """The sides of all connections. `idle` ends a flow after so many nanoseconds; `skipped` counts other frames."""

    cut: Cut
    idle: int | None
    skipped: Counter[str] = field(default_factory=Counter)
    sides: dict[bytes, Side] = field(default_factory=dict)
    middles: int = 0
    """Sides that were under way when the capture began."""

    def flows(self, frames: Iterable[Frame]) -> Iterator[Flow]:
        """Yields each flow when it ends, and at the end of the capture those that have not."""
        for frame in frames:
            found = _segment(frame, self.skipped)
            if found is not None:
                yield from self._segment(frame.time, *found)
        for key, side in self.sides.items():
            yield from _ended(key, side)

    def _segment(
        self, time: int, key: bytes, ports: tuple[int, int], seq: int, flags: int, size: int
    ) -> Iterator[Flow]:
        side = self.sides.get(key)
        if flags & SYN:
            seq = (seq + 1) & SEQUENCE
            if side is None or side.ended or (side.next != seq and not side.size):
                # The first SYN goes to the service, its answer comes from there.
                side = self.sides[key] = Side(seq, ports[0] if flags & ACK else ports[1], time)
        if side is None:
            if not size:
                return
            yield from self._make_room()
            self.middles += 1
            side = self.sides[key] = Side(seq, min(ports), time)
        new = (seq + size - side.next) & SEQUENCE
        if 0 < new <= SEQUENCE // 2 and size:
            if self.idle is not None and time - side.last > self.idle:
                yield from _ended(key, side)
            side.start = side.start if side.size else time
            side.size += new
            side.next = (seq + size) & SEQUENCE
            side.last = time
            if self.cut == "push" and flags & PUSH:
                yield from _ended(key, side)
            elif self.cut == "turn" and (other := self.sides.get(opposite := _opposite(key))) is not None:
                yield from _ended(opposite, other)
        if flags & (FIN | RST) and new <= SEQUENCE // 2:
            yield from _ended(key, side)
            side.ended = True

    def _make_room(self) -> Iterator[Flow]:
        if len(self.sides) < MOST_SIDES:
            return
        oldest = sorted(self.sides, key=lambda key: self.sides[key].last)[: MOST_SIDES // 2]
        for key in oldest:
            yield from _ended(key, self.sides.pop(key))


def _opposite(key: bytes) -> bytes:
    """The key of the connection's other side."""
    half = (len(key) - 4) // 2
    return key[half : 2 * half] + key[:half] + key[-2:] + key[-4:-2]


def _ended(key: bytes, side: Side) -> Iterator[Flow]:
    """The flow of a side that ends here; its next one starts with its next byte."""
    if side.size:
        half = (len(key) - 4) // 2
        yield Flow(key[:half], key[half : 2 * half], side.service, side.size, side.start, side.last)
        side.size = 0


def _segment(frame: Frame, skipped: Counter[str]) -> tuple[bytes, tuple[int, int], int, int, int] | None:
    """Key, ports, sequence number, flags and payload of a TCP segment; None for any other frame, which is counted."""
    place = _ip(frame)
    data = frame.data
    if place is None or place >= len(data):
        skipped[f"of link type {frame.link}" if frame.link not in HEAD else "without IP"] += 1
        return None
    version = data[place] >> 4
    if version == 4 and len(data) >= place + 20:
        head, total = (data[place] & 15) * 4, data[place + 2] << 8 | data[place + 3]
        protocol, first, last = data[place + 9], place + 12, place + 20
        if (data[place + 6] & 0x1F) or data[place + 7]:
            skipped["fragments of IP packets"] += 1
            return None
    elif version == 6 and len(data) >= place + 40:
        head, protocol, total = _ipv6(data, place)
        first, last = place + 8, place + 40
    else:
        skipped["without IP"] += 1
        return None
    if protocol != TCP or len(data) < place + head + 14:
        reason = {UDP: "of UDP", TCP: "cut off before the end of TCP's header"}.get(protocol, "of other protocols")
        skipped[reason] += 1
        return None
    middle = (first + last) // 2
    if data[first:middle] == data[middle:last]:
        skipped["within a host"] += 1
        return None
    # A host that leaves segmentation to its NIC captures packets without a length: TSO, and BIG TCP above 64 KiB.
    total = total or frame.length - place
    src_port, dst_port, seq, _, offset, flags = SEGMENT.unpack_from(data, place + head)
    payload = max(total - head - (offset >> 4) * 4, 0)
    key = data[first:last] + data[place + head : place + head + 4]
    return key, (src_port, dst_port), seq, flags, payload


def _ipv6(data: bytes, place: int) -> tuple[int, int, int]:
    """Bytes before the next header, its protocol, and bytes in all; 0 if the packet does not say how many."""
    payload = data[place + 4] << 8 | data[place + 5]
    total = 40 + payload if payload else 0
    if data[place + 6] != HOP_BY_HOP or len(data) < place + 48:
        return 40, data[place + 6], total
    if not payload and data[place + 42] == JUMBO:
        total = 40 + int.from_bytes(data[place + 44 : place + 48])
    return 48 + 8 * data[place + 41], data[place + 40], total


def _ip(frame: Frame) -> int | None:
    """The place of the IP header; None without one."""
    link, data = frame.link, frame.data
    if link not in HEAD:
        return None
    place = HEAD[link]
    if place is None:
        return NULL_HEAD.get(link, 0)
    if link == 276:
        kind, place = int.from_bytes(data[0:2]), 18
        return place + 2 if kind in (IPV4, IPV6) else None
    kind = int.from_bytes(data[place : place + 2])
    while kind in VLANS:
        place += 4
        kind = int.from_bytes(data[place : place + 2])
    return place + 2 if kind in (IPV4, IPV6) else None
