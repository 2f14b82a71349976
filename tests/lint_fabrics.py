"""Generated fabrics for the linter: layer-3 Clos networks of SONiC switches, computed by this file.

This file chooses the numbers of groups and profiles itself instead of using `pauseframe.deploy`, so that linter tests
and deployment cannot share a mistake.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Tables = dict[str, dict[str, dict[str, str]]]
QUANTA = {10_000: 67, 25_000: 80, 40_000: 118, 50_000: 147, 100_000: 394, 200_000: 453, 400_000: 905}


def headroom(speed: int, cable: int, mtu: int = 9216) -> int:
    """A generous headroom in KiB: three frames, the cable in both directions, and the response time."""
    bytes_per_metre = speed * 1e6 / 8 / 1.98e8
    return (int(3.2 * mtu + 2 * cable * bytes_per_metre + QUANTA[speed] * 64 + 2048) // 1024 + 1) * 1024


def clos(leaves: int, spines: int, servers: int, *, seed: int = 1, lookup: bool = False) -> dict[str, Tables]:
    """CONFIG_DBs by device name. A leaf's ports lead first to `servers`, then one to each spine."""
    draw = random.Random(seed)
    up, down = draw.choice([(100_000, 25_000), (400_000, 100_000), (40_000, 10_000)])
    cable_up, cable_down = draw.choice([40, 100, 300]), draw.choice([5, 10])
    devices: dict[str, Tables] = {}
    for i in range(leaves):
        ports = {f"Ethernet{4 * p}": (down, cable_down, f"server{i}-{p}", "eth0") for p in range(servers)}
        for s in range(spines):
            ports[f"Ethernet{4 * (servers + s)}"] = (up, cable_up, f"spine{s}", f"Ethernet{4 * i}")
        devices[f"leaf{i}"] = switch(f"leaf{i}", ports, lookup=lookup)
    for s in range(spines):
        ports = {f"Ethernet{4 * i}": (up, cable_up, f"leaf{i}", f"Ethernet{4 * (servers + s)}") for i in range(leaves)}
        devices[f"spine{s}"] = switch(f"spine{s}", ports, lookup=lookup)
    return devices


def bundled(leaves: int, spines: int, servers: int, *, seed: int = 1) -> dict[str, Tables]:
    """A Clos network with two bundled links from each leaf to each spine, and addresses on the bundles."""
    devices = clos(leaves, 2 * spines, servers, seed=seed)
    for name in [name for name in devices if name.startswith("spine")]:
        del devices[name]
    up, cable = _of_uplink(devices["leaf0"], servers)
    for s in range(spines):
        ports = {
            f"Ethernet{4 * (2 * i + m)}": (up, cable, f"leaf{i}", f"Ethernet{4 * (servers + 2 * s + m)}")
            for i in range(leaves)
            for m in range(2)
        }
        devices[f"spine{s}"] = switch(f"spine{s}", ports, lookup=False)
    for i in range(leaves):
        for s in range(spines):
            network = 2 * (i * spines + s)
            for name, channel, first, far, last in (
                (f"leaf{i}", f"PortChannel{s + 1}", servers + 2 * s, f"spine{s}", network),
                (f"spine{s}", f"PortChannel{i + 1}", 2 * i, f"leaf{i}", network + 1),
            ):
                tables = devices[name]
                tables.setdefault("PORTCHANNEL", {})[channel] = {"admin_status": "up", "mtu": "9100", "min_links": "1"}
                rows = tables.setdefault("PORTCHANNEL_INTERFACE", {})
                rows[channel] = {}
                rows[f"{channel}|10.{last >> 16}.{last >> 8 & 255}.{last & 255}/31"] = {}
                for m in range(2):
                    port = f"Ethernet{4 * (first + m)}"
                    tables.setdefault("PORTCHANNEL_MEMBER", {})[f"{channel}|{port}"] = {}
                    tables["DEVICE_NEIGHBOR"][port]["name"] = far
                    if far.startswith("spine"):
                        tables["DEVICE_NEIGHBOR"][port]["port"] = f"Ethernet{4 * (2 * i + m)}"
    return devices


def _of_uplink(leaf: Tables, servers: int) -> tuple[int, int]:
    """Speed and cable length of a leaf's uplinks."""
    port = f"Ethernet{4 * servers}"
    return int(leaf["PORT"][port]["speed"]), int(leaf["CABLE_LENGTH"]["AZURE"][port].removesuffix("m"))


def switch(name: str, ports: dict[str, tuple[int, int, str, str]], *, lookup: bool) -> Tables:
    """CONFIG_DB of one switch; `ports` gives speed, cable length, neighbour and the neighbour's port."""
    same = {str(n): str(n) for n in range(8)}
    kinds = sorted({(speed, cable) for speed, cable, _, _ in ports.values()})
    profiles: dict[str, dict[str, str]] = {
        "ingress_lossy_profile": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
        "egress_lossless_profile": {"pool": "egress_lossless_pool", "size": "0", "static_th": "64000000"},
        "egress_lossy_profile": {"pool": "egress_lossy_pool", "size": "1664", "dynamic_th": "-1"},
    }
    groups: dict[str, dict[str, str]] = {f"{p}|0": {"profile": "ingress_lossy_profile"} for p in ports}
    total = 0
    if not lookup:
        for speed, cable in kinds:
            profiles[f"pg_lossless_{speed}_{cable}m_profile"] = {
                "pool": "ingress_lossless_pool",
                "size": "18432",
                "xon": "18432",
                "xon_offset": "2496",
                "xoff": str(headroom(speed, cable)),
                "dynamic_th": "0",
            }
        groups |= {f"{p}|3-4": {"profile": f"pg_lossless_{s}_{c}m_profile"} for p, (s, c, _, _) in ports.items()}
        total = sum(2 * headroom(s, c) for s, c, _, _ in ports.values())
    queues = {
        f"{p}|{r}": {"profile": f"egress_{k}_profile"}
        for p in ports
        for r, k in (("0-2", "lossy"), ("3-4", "lossless"), ("5-7", "lossy"))
    }
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": name, "hwsku": "Generic"}},
        "PORT": {
            p: {
                "speed": str(s),
                "mtu": "9100",
                "admin_status": "up",
                "fec": "rs",
                "lanes": ",".join(str(4 * i + n) for n in range(4)),
            }
            for i, (p, (s, _, _, _)) in enumerate(ports.items())
        },
        "DEVICE_NEIGHBOR": {p: {"name": n, "port": q} for p, (_, _, n, q) in ports.items()},
        "CABLE_LENGTH": {"AZURE": {p: f"{c}m" for p, (_, c, _, _) in ports.items()}},
        "BUFFER_POOL": {
            "ingress_lossless_pool": {
                "type": "ingress",
                "mode": "dynamic",
                "size": "48000000",
                "xoff": str(max(total, 2**20)),
            },
            "egress_lossless_pool": {"type": "egress", "mode": "static", "size": "64000000"},
            "egress_lossy_pool": {"type": "egress", "mode": "dynamic", "size": "40000000"},
        },
        "BUFFER_PROFILE": profiles,
        "BUFFER_PG": groups,
        "BUFFER_QUEUE": queues,
        "DSCP_TO_TC_MAP": {
            "AZURE": {str(d): {3: "3", 4: "4", 8: "0", 46: "5", 48: "6"}.get(d, "1") for d in range(64)}
        },
        "TC_TO_QUEUE_MAP": {"AZURE": dict(same)},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {n: n if n in {"3", "4"} else "0" for n in same}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": dict(same)},
        "PORT_QOS_MAP": {
            p: {
                "dscp_to_tc_map": "AZURE",
                "tc_to_queue_map": "AZURE",
                "tc_to_pg_map": "AZURE",
                "pfc_to_queue_map": "AZURE",
                "pfc_enable": "3,4",
                "pfcwd_sw_enable": "3,4",
            }
            for p in ports
        },
        "WRED_PROFILE": {
            "AZURE_LOSSLESS": {"ecn": "ecn_all"}
            | {
                k.format(c): v
                for c in ("green", "yellow", "red")
                for k, v in (
                    ("wred_{}_enable", "true"),
                    ("{}_min_threshold", "250000"),
                    ("{}_max_threshold", "2097152"),
                    ("{}_drop_probability", "5"),
                )
            }
        },
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}, "scheduler.1": {"type": "DWRR", "weight": "15"}},
        "QUEUE": {
            f"{p}|{q}": {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
            if q in {3, 4}
            else {"scheduler": "scheduler.0"}
            for p in ports
            for q in range(7)
        },
        "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}}
        | {p: {"action": "drop", "detection_time": "200", "restoration_time": "400"} for p in ports},
    }


def write(devices: dict[str, Tables], folder: Path) -> Path:
    """Writes a folder for each device."""
    for name, tables in devices.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config_db.json").write_text(json.dumps(tables))
    return folder
