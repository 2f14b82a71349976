"""`--export DIR`: the forwarding rows of devices as tables for `pauseframe route check`.

The tables use the devices' own names and ports.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pauseframe.devices.model import End
from pauseframe.fabric.topology import topology_of
from pauseframe.files.atomic import has_text, whole_folder
from pauseframe.lint.forwarding import Forwarding, coupled, edge, lanes_of, senders_of

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.devices.read import Reading


def export(reading: Reading, folder: Path) -> int:
    """Writes topology.graphml and tables.json. Returns the number of rows.

    A host has the name of the neighbour at its port, or else its MAC address. A VLAN's lane follows from its paused
    priority; VLANs without a paused priority are left out. Raises ValueError if no device has rows or the folder is not
    empty.
    """
    fabric = reading.fabric
    forwarding = Forwarding.of(fabric)
    if not forwarding.hosts:
        raise ValueError("no static forwarding rows to export")
    lane = coupled(fabric.switches.values(), sorted({p for _, port in fabric.ports() for p in port.lossless}))
    priorities, _ = lanes_of(fabric)
    lanes = {vlan: {lane[p] for p in used if p in lane} for vlan, used in priorities.items()}
    lanes = {vlan: used for vlan, used in lanes.items() if len(used) == 1 and vlan in forwarding.rows}
    peers = fabric.peers()
    at_port: dict[End, int] = {}
    for end, _ in forwarding.hosts:
        at_port[end] = at_port.get(end, 0) + 1
    names = {mac: peers[end].device if end in peers and at_port[end] == 1 else mac for end, mac in forwarding.hosts}
    edges = []
    for end, mac in forwarding.hosts:
        port = end.port if at_port[end] == 1 else f"{end.port} {mac}"
        edges.append(edge(names[mac], "nic", end.device, port, forwarding.rates.get(end)))
    edges += [edge(a.device, a.port, b.device, b.port, forwarding.rates.get(a)) for a, b in forwarding.edges]
    homes = {mac: end for end, mac in forwarding.hosts}
    rows = [
        {
            "switch": switch,
            "vlan": vlan,
            "destination": names[mac],
            "port": f"{port} {mac}" if homes[mac] == End(switch, port) and at_port[homes[mac]] > 1 else port,
        }
        for vlan in sorted(lanes)
        for switch, mac, port in forwarding.rows[vlan]
        if mac in names
    ]
    senders = senders_of(fabric, forwarding)
    tables = {
        "rows": rows,
        "lanes": [{"vlan": vlan, "lane": min(used)} for vlan, used in sorted(lanes.items())],
        "rewrites": [],
        "senders": [
            {"vlan": vlan, "from": a, "to": b} for vlan in sorted(lanes) for a, b in sorted(senders.get(vlan, ()))
        ],
    }
    _write(
        folder,
        {
            "topology.graphml": topology_of(forwarding.switches, names.values(), edges).write("graphml"),
            "tables.json": json.dumps(tables, indent=1) + "\n",
        },
    )
    return len(rows)


def _write(folder: Path, files: dict[str, str]) -> None:
    """Writes the files into a new folder, unless it has just these."""
    if folder.exists() and any(folder.iterdir()):
        if all(has_text(folder / name, text) for name, text in files.items()):
            return
        raise ValueError(f"{folder} is not empty: name another folder")
    with whole_folder(folder) as partial:
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8")
