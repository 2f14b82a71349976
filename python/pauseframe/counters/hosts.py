"""Reads what hosts print about counters: `ethtool -S` of mlx5, `nstat` and `ss -toi`.

Sources of the names: Linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst;
net/ipv4/proc.c (names of nstat); iproute2 misc/ss.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pauseframe.counters.model import Key
from pauseframe.devices.files import as_rows, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.counters.model import Device, Kind
    from pauseframe.devices.files import Json

OF_PRIORITY: dict[str, Kind] = {
    "rx_prio{}_pause": "pfc_rx",
    "tx_prio{}_pause": "pfc_tx",
    "rx_prio{}_pause_duration": "pause_us",
    "tx_prio{}_packets": "queue_packets",
    "tx_prio{}_bytes": "queue_bytes",
    "rx_prio{}_packets": "rx_packets",
    "rx_prio{}_bytes": "rx_bytes",
    "rx_prio{}_discards": "rx_drops",
}
"""Counters of mlx5 by priority; rx_prio{}_pause_duration is in microseconds."""
OF_PORT: dict[str, Kind] = {
    "tx_packets_phy": "tx_packets",
    "tx_bytes_phy": "tx_bytes",
    "rx_discards_phy": "rx_drops",
    "rx_ecn_mark": "ce_received",
}
NSTAT: dict[str, Kind] = {
    "TcpRetransSegs": "retransmits",
    "TcpExtTCPTimeouts": "timeouts",
    "TcpOutSegs": "segments",
    "IpExtInCEPkts": "ce_received",
}
_STATISTIC = re.compile(r"\s+([A-Za-z0-9_.\[\]]+):\s+(\d+)")
_NSTAT = re.compile(r"([A-Z][A-Za-z0-9]+)\s+(\d+)\s+[\d.]+")
_PRIORITY = re.compile(r"([rt]x)_prio(\d)_([a-z_]+)")
_CONTROLS = {"dctcp"}
"""Congestion controls that need ECN (RFC 8257)."""
_OPTIONS = {"ts", "sack", "ecn", "ecnseen", "fastopen"}
"""Options of a connection, which ss prints before the congestion control with -o, -e or -b (tcp_stats_print)."""


def read_text(lines: Sequence[str], device: Device, interface: str) -> bool:
    """Reads the output of ethtool, nstat or ss into a device; True if it was one of them."""
    if any(line.strip() == "NIC statistics:" for line in lines):
        _ethtool(lines, device, interface)
        return True
    if any(line.startswith("#kernel") for line in lines):
        for found in filter(None, map(_NSTAT.match, lines)):
            _statistic(device, found[1], int(found[2]))
        return True
    if any(line.split()[:3] == ["State", "Recv-Q", "Send-Q"] for line in lines):
        _sockets(lines, device)
        return True
    return False


def read_json(value: Json, device: Device) -> bool:
    """Reads `nstat -j`; True if the value is that."""
    kernel = as_rows(as_rows(value).get("kernel"))
    for name, number in kernel.items():
        if (text := as_text(number)).isdecimal():
            _statistic(device, name, int(text))
    return bool(kernel)


def _statistic(device: Device, name: str, number: int) -> None:
    device.tools.add("nstat")
    if name in NSTAT:
        device.add("", Key(NSTAT[name]), number, name)


def _ethtool(lines: Sequence[str], device: Device, interface: str) -> None:
    device.tools.add("ethtool -S")
    for found in filter(None, map(_STATISTIC.match, lines)):
        name, number = found[1], int(found[2])
        of_priority = _PRIORITY.fullmatch(name)
        kind = OF_PRIORITY.get(f"{of_priority[1]}_prio{{}}_{of_priority[3]}") if of_priority else None
        if of_priority and kind:
            device.add(interface, Key(kind, int(of_priority[2])), number, name)
        elif name in OF_PORT:
            device.add(interface, Key(OF_PORT[name]), number, name)


def _sockets(lines: Sequence[str], device: Device) -> None:
    """Sums over sockets: a socket has a line of its state, and an indented line of its details."""
    device.tools.add("ss -ti")
    sockets = [line.split() for line in lines if line.startswith((" ", "\t"))]
    shows_options = any(_OPTIONS & {*words} for words in sockets)
    for words in sockets:
        retrans = next((word.rpartition("/")[2] for word in words if word.startswith("retrans:")), "")
        marked = next((word.partition(":")[2] for word in words if word.startswith("delivered_ce:")), "")
        if retrans.isdecimal():
            device.add("", Key("retransmits"), int(retrans), "retrans", more=True)
        if marked.isdecimal():
            device.add("", Key("ce_received"), int(marked), "delivered_ce", more=True)
        control = next(iter(_CONTROLS & {*words}), "")
        if control and shows_options and "ecn" not in words:
            device.add("", Key("no_ecn_sockets"), 1, f"{control} without ecn", more=True)
        elif control and not shows_options and not marked.strip("0"):
            # Only a socket that negotiated ECN counts marks.
            device.missing.add("no_ecn_sockets")
