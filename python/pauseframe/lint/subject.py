"""Lookups that several rules share: group, queue and classes of a paused priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pauseframe.devices.model import BufferProfile, Fabric, Pool, Port, Switch

NO_ALPHA = -8
"""Exponent of alpha of SONiC's zero profiles, for ports that hold nothing."""


def group_of(switch: Switch, port: Port, priority: int) -> int:
    """The priority group that pauses a priority: by `pfc_to_pg_map`, else the group with the same number."""
    found = switch.mapped("pfc_to_pg", port.qos.pfc_to_pg)
    return (found or {}).get(priority, priority)


def queue_of(switch: Switch, port: Port, priority: int) -> int:
    """The queue that stops when the peer pauses a priority: by `pfc_to_queue_map`, else the one of the same number."""
    found = switch.mapped("pfc_to_queue", port.qos.pfc_to_queue)
    return (found or {}).get(priority, priority)


def lossless_queues(switch: Switch, port: Port) -> set[int]:
    """The queues of the paused priorities of a port."""
    return {queue_of(switch, port, priority) for priority in port.lossless}


def classes_of(switch: Switch, port: Port, priority: int) -> set[int] | None:
    """Traffic classes that leave through the queue of a priority; None if the map is unknown."""
    found = switch.mapped("tc_to_queue", port.qos.tc_to_queue)
    own = queue_of(switch, port, priority)
    return None if found is None else {tc for tc, queue in found.items() if queue == own}


def best_effort_queues(switch: Switch, port: Port) -> set[int]:
    """The queues of DSCP 0 and 802.1p 0, by the maps that the port has; queue 0 if it has none."""
    points = {
        (switch.mapped(kind, name) or {}).get(0, 0)
        for kind in ("dscp_to_tc", "dot1p_to_tc")
        if (name := getattr(port.qos, kind))
    }
    queues = switch.mapped("tc_to_queue", port.qos.tc_to_queue) or {}
    return {queues.get(point, 0) for point in points or {0}}


def lossless_code_points(switch: Switch, port: Port, kind: str) -> frozenset[int] | None:
    """DSCP (`dscp_to_tc`) or 802.1p (`dot1p_to_tc`) values that map to a paused priority; None if unknown."""
    name = getattr(port.qos, kind)
    found = switch.mapped(kind, name) if name else None
    if found is None:
        return None
    classes: set[int] = set()
    for priority in port.lossless:
        classes |= classes_of(switch, port, priority) or set()
    return frozenset(code for code, tc in found.items() if tc in classes)


def lossless_mtus(fabric: Fabric) -> dict[str, int]:
    """The largest lossless packet at each switch, if the lossless hosts are known: the MTU of these hosts."""
    sizes = [nic.mtu for host in fabric.hosts.values() for nic in host.nics.values() if nic.pfc and nic.mtu]
    return dict.fromkeys(fabric.switches, max(sizes)) if sizes else {}


def share(pool: Pool | None, alpha: float) -> float | None:
    """Bytes of a pool that a single group or queue may hold: alpha / (1 + alpha) of it."""
    return pool.size * alpha / (1 + alpha) if pool and pool.size else None


def held_alone(switch: Switch, profile: BufferProfile) -> float | None:
    """Bytes that a single group or queue of a profile may hold, by its static limit or alpha; None if unknown."""
    pool = switch.pools.get(profile.pool)
    if profile.static_th is not None:
        return float(min(profile.static_th, pool.size) if pool and pool.size else profile.static_th)
    return None if profile.alpha is None else share(pool, profile.alpha)
