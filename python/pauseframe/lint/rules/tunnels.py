"""Rule PF065: the tunnel between two ToRs of mux cables must not bounce traffic into the class that it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices.files import number_in, shown, whole_number
from pauseframe.devices.model import End, Place
from pauseframe.devices.tunnels import buffer_maps, outer_dscp, tunnel_of, uplinks_of
from pauseframe.lint.circle import circle
from pauseframe.lint.finding import Finding, PatchOperation, rule
from pauseframe.lint.subject import group_of, queue_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import Fabric, Port, Switch
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb


@rule("PF065", "tunnel-bounces-in-class", "https://github.com/sonic-net/SONiC/issues/950",
      "SONiC: DSCP remapping for tunnel traffic (encap_tc_to_dscp_map, decap_dscp_to_tc_map)",
      "RFC 6040")  # fmt: skip
def check_tunnels(reading: Reading) -> Iterator[Finding]:
    """What the standby ToR of a mux cable sends back up uses the buffers of the class in which it came down.

    Traffic for a server whose cable is active at the other ToR goes down to the standby ToR, turns, and goes up and
    down again. In one paused class four buffers wait for each other as soon as both ToRs bounce: T1 to ToR A, A to T1,
    T1 to ToR B, B to T1. Up-down routing does not have this turn, so no proof for it covers it. SONiC's cure gives the
    outer header another DSCP, class and group (`encap_tc_to_dscp_map`), and takes the inner class back at the end of
    the tunnel (`decap_dscp_to_tc_map`). If the T1 pauses the outer class, the packet must leave in the queue that these
    pauses stop (`encap_tc_to_queue_map`); elsewhere it goes on, and the T1 drops it.

    Incident: PFC deadlock of dual-ToR racks (SONiC#950).
    """
    fabric = reading.fabric
    for name, database in reading.databases.items():
        switch = fabric.switches[name]
        tunnel = tunnel_of(database) if switch.mux else None
        if tunnel is None:
            continue
        key, row, remap = tunnel
        for own, up, far in uplinks_of(fabric, switch):
            bounced = [tc for tc in _bounced(switch, up, remap) if _stays(fabric, switch, up, far, tc, remap)]
            if bounced:
                yield _finding(reading, (switch, own, up, far), (key, row, remap is not None), bounced[0])
                break
            yield from _unstopped(fabric, (switch, own, up, far), (key, row, remap), database)


def _unstopped(
    fabric: Fabric,
    at: tuple[Switch, End, Port, End],
    tunnel: tuple[str, Mapping[str, str], Mapping[str, str] | None],
    database: ConfigDb,
) -> Iterator[Finding]:
    """Lossless classes that enter the tunnel in a queue which the pauses of their outer class do not stop."""
    (switch, _, up, far), (key, row, remap) = at, tunnel
    there, port = fabric.switches.get(far.device), fabric.port(far)
    points = switch.mapped("dscp_to_tc", up.qos.dscp_to_tc) if up.qos.dscp_to_tc else None
    queues = dict(buffer_maps(database, row)).get("encap_tc_to_queue_map")
    usual = switch.mapped("tc_to_queue", up.qos.tc_to_queue) or {}
    for tc in _bounced(switch, up, remap) if there is not None and port is not None else ():
        _, outer = outer_dscp(points, remap, tc)
        group = _group(there, port, outer) if there is not None and port is not None and outer is not None else None
        paused = [p for p in port.lossless if group_of(there, port, p) == group] if there and port else []
        queue = usual.get(tc) if queues is None else whole_number(queues.get(str(tc)))
        if paused and queue is not None and queue not in {queue_of(switch, up, p) for p in paused}:
            yield Finding(
                Place(switch.name, "TUNNEL", key, "encap_tc_to_queue_map"),
                f"class {tc} enters the tunnel in queue {queue}; {shown(str(far))} pauses its outer class as priority "
                f"{paused[0]}, which does not stop that queue",
                f"a TC_TO_QUEUE_MAP with {tc} to {queue_of(switch, up, paused[0])}",
                Place(far.device, "PORT_QOS_MAP", far.port, "pfc_enable"),
            )


def _bounced(switch: Switch, up: Port, remap: Mapping[str, str] | None) -> list[int]:
    """The lossless classes that can bounce: not those that only outer headers have."""
    points = switch.mapped("dscp_to_tc", up.qos.dscp_to_tc) if up.qos.dscp_to_tc else None
    outer = {(points or {}).get(number_in(dscp, 0, 63) or 0): tc for tc, dscp in (remap or {}).items()}
    return sorted(tc for tc in _lossless_classes(switch, up) if outer.get(tc, str(tc)) == str(tc))


def _lossless_classes(switch: Switch, port: Port) -> set[int]:
    groups = {group_of(switch, port, priority) for priority in port.lossless}
    return {tc for tc, group in (switch.mapped("tc_to_pg", port.qos.tc_to_pg) or {}).items() if group in groups}


def _stays(fabric: Fabric, switch: Switch, up: Port, far: End, tc: int, remap: Mapping[str, str] | None) -> bool:
    """True if the outer header puts a bounced packet into the group in which the T1 held it on its way down."""
    points = switch.mapped("dscp_to_tc", up.qos.dscp_to_tc) if up.qos.dscp_to_tc else None
    inner, outer = outer_dscp(points, remap, tc)
    if inner is None or outer is None:
        return remap is None
    there = fabric.switches.get(far.device)
    port = there.ports.get(far.port) if there is not None else None
    judge, at = (there, port) if there is not None and port is not None and port.qos.dscp_to_tc else (switch, up)
    return _group(judge, at, inner) == _group(judge, at, outer)


def _group(switch: Switch, port: Port, dscp: int) -> int:
    points = switch.mapped("dscp_to_tc", port.qos.dscp_to_tc) if port.qos.dscp_to_tc else {}
    return (switch.mapped("tc_to_pg", port.qos.tc_to_pg) or {}).get((points or {}).get(dscp, 0), 0)


def _finding(
    reading: Reading, at: tuple[Switch, End, Port, End], tunnel: tuple[str, Mapping[str, str], bool], tc: int
) -> Finding:
    (switch, own, port, far), (key, row, has_map) = at, tunnel
    peer = switch.peer_switch or "its peer"
    hops = [(switch.name, own.port), (far.device, "to the peer"), (peer, own.port), (far.device, far.port)]
    maps = list(reading.rows(switch.name, "TC_TO_DSCP_MAP"))
    patch = (PatchOperation("TUNNEL", key, "encap_tc_to_dscp_map", maps[0]),) if len(maps) == 1 and not has_map else ()
    why = "leaves" if has_map else "is missing: the outer header has the inner DSCP, which leaves"
    return Finding(
        Place(switch.name, "TUNNEL", key, "encap_tc_to_dscp_map"),
        f"{shown(row.get('encap_tc_to_dscp_map', 'encap_tc_to_dscp_map'))} {why} class {tc} in its own buffers: "
        f"{shown(switch.name)}, {shown(far.device)} and {shown(peer)} wait for each other once both ToRs bounce",
        "a TC_TO_DSCP_MAP into a class and group that only the tunnel uses, and decap_dscp_to_tc_map at its end",
        patch=patch,
        circle=circle(hops, port.speed or 10_000),
    )
