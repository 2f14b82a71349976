"""Reads the frames of captures, a block at a time: pcap (libpcap) and pcapng (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import heapq
import struct
from typing import IO, TYPE_CHECKING, NamedTuple

from pauseframe._core import InputError
from pauseframe.files.kinds import refuse_other_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUFFER = 1 << 20
LARGEST = 1 << 28
"""Largest block that is read; a longer one is a damaged length."""
MAGIC = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000)} | {
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""Byte order and nanoseconds of a unit of time, by the first bytes of a pcap file."""
SECTION = b"\x0a\x0d\x0d\x0a"
INTERFACE, SIMPLE, NAMES, ENHANCED = 1, 3, 4, 6
IF_TSRESOL, IF_TSOFFSET = 9, 14
IPV4_NAME, IPV6_NAME = 1, 2


REORDERED = 10_000
"""Frames among which an earlier one may come late, as from several interfaces: so many are held to sort them."""


class Frame(NamedTuple):
    """A frame: nanoseconds since 1970 (or the start of a run), link type, captured bytes, and how many it had."""

    time: int
    link: int
    data: bytes
    length: int


class Link(NamedTuple):
    """An interface of a capture: its link type, and how its times count."""

    kind: int
    per_second: int
    offset: int


def frames(path: Path, names: dict[bytes, str]) -> Iterator[Frame]:
    """Yields the frames of a capture in the order of the file; fills `names` with the names of its addresses.

    Raises InputError with the place for a file that is no capture, or is damaged.
    """
    try:
        with path.open("rb", buffering=BUFFER) as file:
            magic = file.read(4)
            if magic in MAGIC:
                yield from _pcap(file, *MAGIC[magic], path)
            elif magic == SECTION:
                yield from _pcapng(file, names, path)
            else:
                refuse_other_kinds(path, "a capture (pcap or pcapng)")
                hint = (
                    "unpack it first"
                    if magic[:2] == b"\x1f\x8b" or magic == b"\x28\xb5\x2f\xfd"
                    else "give what `tcpdump -w` wrote"
                )
                raise InputError(f"{path}: neither a pcap nor a pcapng file: {hint}")
    except IsADirectoryError:
        refuse_other_kinds(path, "a capture (pcap or pcapng)")
        raise InputError(f"{path} is a folder: name the captures in it") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def in_order(frames: Iterator[Frame], path: Path) -> Iterator[Frame]:
    """The frames by their times; raises InputError if one comes later than among REORDERED frames."""
    waiting: list[tuple[int, int, Frame]] = []
    last = None
    for number, frame in enumerate(frames, 1):
        if last is not None and frame.time < last:
            hint = f"sort it first: reordercap {path.name} sorted.pcapng"
            raise InputError(f"{path}: frame {number} is earlier than frames long before it; {hint}")
        heapq.heappush(waiting, (frame.time, number, frame))
        if len(waiting) > REORDERED:
            last, _, first = heapq.heappop(waiting)
            yield first
    while waiting:
        yield heapq.heappop(waiting)[2]


def _exactly(file: IO[bytes], size: int, path: Path) -> bytes:
    if size > LARGEST:
        raise InputError(f"{path}: damaged at byte {file.tell()}: a block of {size} bytes")
    data = file.read(size)
    if len(data) < size:
        raise InputError(f"{path}: ends within a frame at byte {file.tell()}; it may be cut off: capinfos {path.name}")
    return data


def _pcap(file: IO[bytes], order: str, unit: int, path: Path) -> Iterator[Frame]:
    link = struct.unpack(order + "HHiIII", _exactly(file, 20, path))[5] & 0x0FFFFFFF
    head = struct.Struct(order + "IIII")
    while raw := file.read(16):
        if len(raw) < 16:
            raise InputError(f"{path}: ends within a frame at byte {file.tell()}; it may be cut off")
        seconds, fraction, captured, length = head.unpack(raw)
        yield Frame(seconds * 1_000_000_000 + fraction * unit, link, _exactly(file, captured, path), length)


def _pcapng(file: IO[bytes], names: dict[bytes, str], path: Path) -> Iterator[Frame]:
    order, links = "<", list[Link]()
    raw = SECTION + file.read(4)
    while raw:
        if len(raw) < 8:
            raise InputError(f"{path}: ends within a block at byte {file.tell()}; it may be cut off")
        if raw[:4] == SECTION:
            order, links = "<" if (magic := _exactly(file, 4, path)) == b"\x4d\x3c\x2b\x1a" else ">", []
            body = magic + _exactly(file, struct.unpack(order + "I", raw[4:])[0] - 12, path)
        kind, length = struct.unpack(order + "II", raw)
        if length < 12 or length % 4:
            raise InputError(f"{path}: damaged at byte {file.tell()}: a block of {length} bytes")
        if raw[:4] != SECTION:
            body = _exactly(file, length - 8, path)
            if kind == INTERFACE:
                links.append(_link(body, order))
            elif kind == NAMES:
                names |= _names(body, order)
            elif kind == ENHANCED:
                yield _enhanced(body, order, links, path)
            elif kind == SIMPLE:
                raise InputError(f"{path}: simple packet blocks have no times, so that flows have no starts")
        raw = file.read(8)


def _enhanced(body: bytes, order: str, links: list[Link], path: Path) -> Frame:
    interface, high, low, captured, length = struct.unpack_from(order + "IIIII", body)
    if interface >= len(links) or captured > len(body) - 24:
        raise InputError(f"{path}: damaged: a packet of interface {interface} with {captured} bytes")
    link = links[interface]
    time = ((high << 32 | low) * 1_000_000_000) // link.per_second + link.offset
    return Frame(time, link.kind, body[20 : 20 + captured], length)


def _link(body: bytes, order: str) -> Link:
    per_second, offset = 1_000_000, 0
    for code, value in _records(body[8:-4], order):
        if code == IF_TSRESOL and value:
            per_second = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == IF_TSOFFSET and len(value) == 8:
            offset = struct.unpack(order + "q", value)[0] * 1_000_000_000
    return Link(struct.unpack_from(order + "H", body)[0], per_second, offset)


def _names(body: bytes, order: str) -> dict[bytes, str]:
    sizes = {IPV4_NAME: 4, IPV6_NAME: 16}
    return {
        value[: sizes[code]]: value[sizes[code] :].split(b"\0")[0].decode(errors="replace")
        for code, value in _records(body[:-4], order)
        if code in sizes
    }


def _records(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Options of a block, or records of names: a code, a length, and so many bytes, padded to four."""
    place = 0
    while place + 4 <= len(data):
        code, length = struct.unpack_from(order + "HH", data, place)
        if code == 0:
            return
        yield code, data[place + 4 : place + 4 + length]
        place += 4 + (length + 3) // 4 * 4
