"""Reads what SONiC prints about counters: pfcstat, queuestat, wredstat, watermarkstat and portstat.

Source of the forms: sonic-net/sonic-utilities, scripts/pfcstat, queuestat, wredstat, watermarkstat and portstat.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pauseframe.counters.model import Key
from pauseframe.devices.files import as_list, as_rows, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pauseframe.counters.model import Device, Kind
    from pauseframe.devices.files import Json

_RULE = re.compile(r"\s*-+(\s+-+)+\s*")
QUEUE_COLUMNS: dict[str, Kind] = {
    "Counter/pkts": "queue_packets",
    "Counter/bytes": "queue_bytes",
    "Drop/pkts": "queue_drops",
    "Trim/pkts": "trims",
    "WredDrp/pkts": "wred_drops",
    "EcnMarked/pkts": "ecn_marks",
}
"""Columns of `show queue counters` and `show queue wredcounters`."""
QUEUE_FIELDS = {"totalpacket": "Counter/pkts", "totalbytes": "Counter/bytes", "droppacket": "Drop/pkts"}
"""Fields of `show queue counters --json` by column; newer images use the columns' names."""
PEAKS: dict[str, tuple[Kind, str]] = {
    "Ingress headroom per PG": ("headroom_peak", "headroom"),
    "Ingress shared pool occupancy per PG": ("shared_peak", "shared"),
    "Egress shared pool occupancy per unicast queue": ("queue_peak", "shared"),
    "Egress shared pool occupancy per all queues": ("queue_peak", "shared"),
}
"""Titles of watermarkstat, without those of multicast queues and pools."""
POOLS = ("Shared pool maximum occupancy", "Headroom pool maximum occupancy")
FILES = {"headroom": "Ingress headroom per PG", "shared": "Ingress shared pool occupancy per PG"}
"""Words in the name of a JSON file of watermarks that tell which it has: the JSON itself does not."""


def tables(lines: Sequence[str]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """The tables of a text: the line above, the column heads, and the cells of each row."""
    for number, line in enumerate(lines):
        if number and _RULE.fullmatch(line):
            spans = [(m.start(), m.end()) for m in re.finditer("-+", line)]
            cells = [_cells(row, spans) for row in _rows(lines[number + 1 :])]
            title = next((text for text in reversed(lines[: number - 1]) if text.strip()), "")
            yield title.strip(), _cells(lines[number - 1], spans), cells


def _rows(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip() or _RULE.fullmatch(line):
            return
        yield line


def _cells(line: str, spans: list[tuple[int, int]]) -> list[str]:
    """The cells of a line. A column reaches from the end of the one before, because values may be wider than heads."""
    starts = [0, *(end for _, end in spans[:-1])]
    ends = [*(end for _, end in spans[:-1]), len(line)]
    return [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]


def count(text: str) -> int | None:
    """A number with commas between thousands; None for N/A."""
    plain = text.replace(",", "")
    return int(plain) if plain.isdecimal() else None


def read_text(lines: Sequence[str], device: Device) -> bool:
    """Reads the tables of a text into a device; True if one of them was of counters."""
    found = False
    for title, heads, rows in tables(lines):
        first = heads[0].lower()
        if first in {"port rx", "port tx"}:
            _pfc(device, heads, rows, "pfc_rx" if first == "port rx" else "pfc_tx")
        elif len(heads) > 2 and heads[1] in {"TxQ", "Voq"}:
            _queues(device, heads, rows)
        elif first == "port" and title.partition(":")[0] in PEAKS:
            _peaks(device, title.partition(":")[0], heads, rows)
        elif first == "pool" and title.partition(":")[0] in POOLS:
            for name, number in rows:
                if (value := count(number)) is not None:
                    device.add(name, Key("pool_peak"), value, "Bytes")
            device.tools.add("watermarkstat")
        elif first == "iface" and "TX_OK" in heads:
            _interfaces(device, heads, rows)
        else:
            continue
        found = True
    return found


def _pfc(device: Device, heads: list[str], rows: list[list[str]], kind: Kind) -> None:
    device.tools.add("pfcstat")
    for port, *cells in rows:
        for head, text in zip(heads[1:], cells, strict=True):
            value = count(text)
            if value is None:
                device.missing.add(kind)
            else:
                device.add(port, Key(kind, int(head[3:])), value, f"{head} {'Rx' if kind == 'pfc_rx' else 'Tx'}")


def _queues(device: Device, heads: list[str], rows: list[list[str]]) -> None:
    device.tools.add("queuestat")
    for port, queue, *cells in rows:
        _queue(device, port, queue, dict(zip(heads[2:], cells, strict=True)))


def _queue(device: Device, port: str, queue: str, cells: dict[str, str]) -> None:
    """The counters of a queue; those of multicast are left out."""
    kind, number = queue.rstrip("0123456789"), queue.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if kind == "MC" or not number.isdecimal():
        return
    for head, of_queue in QUEUE_COLUMNS.items():
        if head in cells:
            value = count(cells[head])
            if value is None:
                device.missing.add(of_queue)
            else:
                device.add(port, Key(of_queue, int(number)), value, f"{queue} {head}")


def _peaks(device: Device, title: str, heads: list[str], rows: list[list[str]]) -> None:
    device.tools.add("watermarkstat")
    kind, word = PEAKS[title]
    for port, *cells in rows:
        for head, text in zip(heads[1:], cells, strict=True):
            number = head.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            if (value := count(text)) is not None and number.isdecimal():
                device.add(port, Key(kind, int(number)), value, f"{head} {word}")


def _interfaces(device: Device, heads: list[str], rows: list[list[str]]) -> None:
    device.tools.add("portstat")
    columns: dict[str, Kind] = {"TX_OK": "tx_packets", "RX_DRP": "rx_drops"}
    for port, *cells in rows:
        for head, text in zip(heads[1:], cells, strict=True):
            if head in columns and (value := count(text)) is not None:
                device.add(port, Key(columns[head]), value, head)


def read_json(value: Json, name: str, device: Device) -> bool:
    """Reads `show queue counters --json` or a watermark as JSON; True if the value is one of them.

    `name` is the file's: a watermark of groups does not tell whether it is of the headroom or of the shared pool.
    """
    rows = [as_rows(row) for row in as_list(value)]
    if rows and all("Port" in row for row in rows):
        return _json_peaks(device, [{head: as_text(cell) for head, cell in row.items()} for row in rows], name)
    if rows and all(len(row) == 1 and count(as_text(next(iter(row.values())))) is not None for row in rows):
        for row in rows:
            for pool, number in row.items():
                device.add(pool, Key("pool_peak"), count(as_text(number)) or 0, "Bytes")
        return True
    found = False
    for port, queues in as_rows(value).items():
        for queue, cells in as_rows(queues).items():
            own = {QUEUE_FIELDS.get(key, key): as_text(cell) for key, cell in as_rows(cells).items()}
            if own.keys() & QUEUE_COLUMNS.keys():
                _queue(device, port, queue, own)
                found = True
    if found:
        device.tools.add("queuestat")
    return found


def _json_peaks(device: Device, rows: list[dict[str, str]], name: str) -> bool:
    heads = ["Port", *(head for head in rows[0] if head != "Port")]
    title = "Egress shared pool occupancy per unicast queue"
    if heads[1:] and heads[1].startswith("PG"):
        title = next((one for word, one in FILES.items() if word in name.lower()), "")
    if not title:
        return False
    _peaks(device, title, heads, [[row.get(head, "") for head in heads] for row in rows])
    return True
