"""A plan for SONiC switches: CONFIG_DB tables to merge, and static layer 2 in the form that the image supports.

`config_db.json` works on every image. On released images, `swssconfig` loads the FDB rows (`fdb.json`, SONiC#249) and
turns learning and flooding off (`no-flooding.json`: learn mode of ports, miss actions of the switch). The release
"next" has both in CONFIG_DB (`static-l2.json`), as proposed in July 2026 (SONiC#2468, sonic-swss#4780,
sonic-utilities#4713).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.deploy.hosts import ROCE_HOSTS
from pauseframe.deploy.plan import DeployError, Plan, Settings
from pauseframe.deploy.traffic import CONTROL
from pauseframe.devices.model import End
from pauseframe.devices.sonic import FLOODS
from pauseframe.devices.swssconfig import MISSES
from pauseframe.fabric.headroom import FRAME, annex_o

if TYPE_CHECKING:
    from collections.abc import Mapping

Tables = dict[str, dict[str, dict[str, str]]]
NAME = "PAUSEFRAME"
LOSSY, LOSSLESS, LOSSY_IN = "egress_lossy_profile", "egress_lossless_profile", "ingress_lossy_profile"
MARK_PER_GBPS = 2250
"""Marking threshold in bytes per Gb/s: 22.5 KB at 10 Gb/s (TCP-Bolt, INFOCOM 2014, section IV)."""
ROCE_PER_GBPS = 4000, 16000
"""Kmin and Kmax of DCQCN in bytes per Gb/s: 100 and 400 KB at 25 Gb/s, 20 % (scripts of Li et al., SIGCOMM 2019)."""
DETECTION_MS, RESTORATION_MS, POLL_MS = 200, 400, 200


def config_db(plan: Plan, switch: str, settings: Settings) -> Tables:
    """The tables of a switch without FDB rows."""
    tables: Tables = {}
    ports = plan.ports(switch)
    tables["PORT"] = {
        port: {
            "lanes": plan.lanes[End(switch, port)],
            "speed": str(speed),
            "mtu": str(settings.port_mtu),
            "admin_status": "up",
        }
        for port, (_, speed) in ports.items()
    }
    tables["DEVICE_NEIGHBOR"] = {port: {"name": far.device, "port": far.port} for port, (far, _) in ports.items()}
    tables["CABLE_LENGTH"] = {"AZURE": dict.fromkeys(ports, f"{settings.cable:.0f}m")}
    tables["LOSSLESS_TRAFFIC_PATTERN"] = {"AZURE": {"mtu": str(settings.mtu), "small_packet_percentage": "100"}}
    tables |= _maps(settings)
    tables["PORT_QOS_MAP"] = {port: _qos(settings) for port in ports}
    tables |= _buffers({port: speed for port, (_, speed) in ports.items()}, settings, switch)
    tables |= _queues({port: speed for port, (_, speed) in ports.items()}, settings)
    watchdog = {"action": "drop", "detection_time": str(DETECTION_MS), "restoration_time": str(RESTORATION_MS)}
    tables["PFC_WD"] = {"GLOBAL": {"POLL_INTERVAL": str(POLL_MS)}} | {port: dict(watchdog) for port in ports}
    tables["VLAN"], tables["VLAN_MEMBER"] = {}, {}
    for vlan, lane in plan.vlans_at(switch).items():
        about = f"pauseframe lane {lane}, priority {settings.priorities[lane]}"
        tables["VLAN"][f"Vlan{vlan}"] = {"vlanid": str(vlan), "description": about}
        for port in ports:
            tables["VLAN_MEMBER"][f"Vlan{vlan}|{port}"] = {"tagging_mode": "tagged"}
    return tables


def _maps(settings: Settings) -> Tables:
    same = {str(n): str(n) for n in range(8)}
    groups = {str(n): str(n) if n in settings.priorities else "0" for n in range(8)}
    return {
        "DOT1P_TO_TC_MAP": {NAME: dict(same)},
        "TC_TO_QUEUE_MAP": {NAME: dict(same)},
        "TC_TO_PRIORITY_GROUP_MAP": {NAME: groups},
        "MAP_PFC_PRIORITY_TO_QUEUE": {NAME: dict(same)},
    }


def _qos(settings: Settings) -> dict[str, str]:
    paused = ",".join(map(str, sorted(set(settings.priorities))))
    return {
        "dot1p_to_tc_map": NAME,
        "tc_to_queue_map": NAME,
        "tc_to_pg_map": NAME,
        "pfc_to_queue_map": NAME,
        "pfc_enable": paused,
        "pfcwd_sw_enable": paused,
    }


def profile_name(speed: int, settings: Settings) -> str:
    """Name of a buffer profile, as buffermgrd forms it."""
    return f"pg_lossless_{speed}_{settings.cable:.0f}m_profile"


def headroom_for(speed: int, settings: Settings) -> int:
    """Headroom in whole KiB, as bytes: 802.1Qbb Annex O with the slowest response that the standard allows."""
    classes = len(set(settings.priorities))
    behind = settings.port_mtu - settings.mtu
    need = annex_o(speed, settings.cable, max_frame=settings.mtu + FRAME, lossless=classes, behind=behind)
    return max(-(-need.total // 1024) * 1024, settings.tuned.headroom or 0)


def _buffers(speeds: Mapping[str, int], settings: Settings, switch: str) -> Tables:
    """A shared headroom pool without over-subscription: all groups may need all of their headroom at once."""
    classes = sorted(set(settings.priorities))
    frame = -(-(settings.port_mtu + FRAME) // 1024) * 1024
    headroom = sum(headroom_for(speed, settings) for speed in speeds.values()) * len(classes)
    reserved = frame * len(speeds) * len(classes)
    pool = settings.buffer - headroom
    if pool < 2 * reserved:
        need = headroom + 2 * reserved
        raise DeployError(
            f"switch {switch!r}: {len(speeds)} ports with {len(classes)} lossless classes need {need:,} B, --buffer is "
            f"{settings.buffer:,} B: fewer lanes, shorter cables, or a smaller --mtu"
        )
    profiles = {
        LOSSY_IN: {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
        LOSSLESS: {"pool": "egress_lossless_pool", "size": "0", "static_th": str(settings.buffer)},
        LOSSY: {"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3"},
    }
    for speed in sorted(set(speeds.values())):
        profiles[profile_name(speed, settings)] = {
            "pool": "ingress_lossless_pool",
            "size": str(frame),
            "xon": str(frame),
            "xon_offset": str(2 * frame),
            "xoff": str(headroom_for(speed, settings)),
            "dynamic_th": str(settings.tuned.alpha_exponent or 0),
        }
    groups = {
        f"{port}|{n}": {"profile": profile_name(speed, settings)} for port, speed in speeds.items() for n in classes
    }
    groups |= {f"{port}|0": {"profile": LOSSY_IN} for port in speeds}
    queues = {f"{port}|{n}": {"profile": LOSSLESS if n in classes else LOSSY} for port in speeds for n in range(8)}
    return {
        "BUFFER_POOL": {
            "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": str(pool), "xoff": str(headroom)},
            "egress_lossless_pool": {"type": "egress", "mode": "static", "size": str(settings.buffer)},
            "egress_lossy_pool": {"type": "egress", "mode": "dynamic", "size": str(pool // 2)},
        },
        "BUFFER_PROFILE": profiles,
        "BUFFER_PG": groups,
        "BUFFER_QUEUE": queues,
    }


def _queues(speeds: Mapping[str, int], settings: Settings) -> Tables:
    wred = {}
    for speed in sorted(set(speeds.values())):
        low, high, percent = _marks(speed, settings)
        wred[f"PF_{speed}"] = {"ecn": "ecn_all"}
        for colour in ("green", "yellow", "red"):
            wred[f"PF_{speed}"] |= {
                f"{colour}_min_threshold": str(low),
                f"{colour}_max_threshold": str(high),
                f"{colour}_drop_probability": str(percent),
                f"wred_{colour}_enable": "true",
            }
    # Queue 0 does not mark: it also has traffic without ECN, which a marking queue drops (Judd, NSDI 2015, §7.1).
    queues = {
        f"{port}|{n}": {"scheduler": "scheduler.pf"}
        | ({"wred_profile": f"PF_{speed}"} if n in settings.priorities else {})
        for port, speed in speeds.items()
        for n in sorted({0, *settings.priorities})
    }
    schedulers = {"scheduler.pf": {"type": "DWRR", "weight": "15"}}
    if settings.hosts == ROCE_HOSTS:
        schedulers["scheduler.cnp"] = {"type": "STRICT"}
        queues |= {f"{port}|{CONTROL[1]}": {"scheduler": "scheduler.cnp"} for port in speeds}
    return {"WRED_PROFILE": wred, "SCHEDULER": schedulers, "QUEUE": queues}


def _marks(speed: int, settings: Settings) -> tuple[int, int, int]:
    """Thresholds in bytes and percentage of a marker at a speed in Mb/s: a step for DCTCP, a line for DCQCN."""
    tuned, frames = settings.tuned, 2 * (settings.mtu + FRAME)
    if settings.hosts == ROCE_HOSTS:
        low, high, percent = max(ROCE_PER_GBPS[0] * speed // 1000, frames), ROCE_PER_GBPS[1] * speed // 1000, 20
        high = max(high, 4 * low)
    else:
        low = high = max(MARK_PER_GBPS * speed // 1000, frames)
        percent = 100
    low = tuned.mark_min or low
    return low, tuned.mark_max or max(high, low), percent if tuned.mark_percent is None else tuned.mark_percent


def static_layer2(plan: Plan, switch: str) -> Tables:
    """No learning and flooding in the VLANs of `config_db`, and the FDB rows, for images with SONiC#2468."""
    off = dict.fromkeys(("mac_learning", *FLOODS), "disabled")
    macs = {host.name: host.mac for host in plan.hosts}
    rows = {f"Vlan{vlan}|{macs[host]}": {"port": port} for vlan, host, port in plan.rows[switch]}
    vlans = {f"Vlan{vlan}": dict(off) for vlan in plan.vlans_at(switch)}
    return {"VLAN": vlans, "FDB": rows}


def no_flooding(plan: Plan, switch: str) -> list[dict[str, object]]:
    """Settings for `swssconfig`: ports of the plan do not learn, and the switch drops frames without a row.

    The miss actions belong to the switch, so they also apply to its other VLANs.
    """
    return _learning(plan, switch, "disable", "drop")


def flooding(plan: Plan, switch: str) -> list[dict[str, object]]:
    """The way back of `no_flooding`: SONiC's defaults."""
    return _learning(plan, switch, "hardware", "forward")


def _learning(plan: Plan, switch: str, learn: str, miss: str) -> list[dict[str, object]]:
    ports: list[dict[str, object]] = [
        {f"PORT_TABLE:{port}": {"learn_mode": learn}, "OP": "SET"} for port in plan.ports(switch)
    ]
    return [{"SWITCH_TABLE:switch": dict.fromkeys(MISSES, miss), "OP": "SET"}, *ports]


def swssconfig(plan: Plan, switch: str) -> list[dict[str, object]]:
    """The FDB rows for `swssconfig` of older images."""
    macs = {host.name: host.mac.replace(":", "-") for host in plan.hosts}
    return [
        {f"FDB_TABLE:Vlan{vlan}:{macs[host]}": {"port": port, "type": "static"}, "OP": "SET"}
        for vlan, host, port in plan.rows[switch]
    ]
