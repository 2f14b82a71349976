"""The tunnel between two ToRs of mux cables, and the code points of its outer header."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import End, Fabric, Port, Switch
    from pauseframe.devices.sonic_db import ConfigDb


def tunnel_of(database: ConfigDb) -> tuple[str, Mapping[str, str], Mapping[str, str] | None] | None:
    """Name and row of the IPINIP tunnel, and its map from classes to outer DSCPs; None without a tunnel."""
    tunnels = {k: r for k, r in database.rows("TUNNEL").items() if r.get("tunnel_type", "IPINIP") == "IPINIP"}
    if not tunnels:
        return None
    key, row = next(iter(tunnels.items()))
    return key, row, database.rows("TC_TO_DSCP_MAP").get(row.get("encap_tc_to_dscp_map", ""))


BUFFER_MAPS = {"encap_tc_to_queue_map": "TC_TO_QUEUE_MAP", "decap_tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP"}
"""Fields of TUNNEL with the queue of what enters the tunnel and the group of what leaves it, by class; their tables."""


def buffer_maps(database: ConfigDb, row: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The maps from classes to queues and groups that a tunnel names."""
    for field, table in BUFFER_MAPS.items():
        if (found := database.rows(table).get(row.get(field, ""))) is not None:
            yield field, found


def uplinks_of(fabric: Fabric, switch: Switch) -> Iterator[tuple[End, Port, End]]:
    """Ports to devices that are no servers: own end, port, far end."""
    for link in fabric.links:
        for own, far in link.ends():
            port = switch.ports.get(own.port)
            server = far.device in fabric.hosts or fabric.roles.get(far.device) == "host"
            if own.device == switch.name and port is not None and own.port not in switch.mux and not server:
                yield own, port, far


def outer_dscp(
    points: Mapping[int, int] | None, remap: Mapping[str, str] | None, traffic_class: int
) -> tuple[int | None, int | None]:
    """The first DSCP of a class, and that of its outer header; None where no map has it."""
    inner = next((dscp for dscp, to in (points or {}).items() if to == traffic_class), None)
    text = remap.get(str(traffic_class)) if remap is not None else None
    return inner, int(text) if text is not None and text.isdecimal() else inner
