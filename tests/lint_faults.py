"""Single faults for generated fabrics: each changes one thing, and says which rules may name it."""

from __future__ import annotations

import random
from collections.abc import Callable

from lint_fabrics import Tables

Devices = dict[str, Tables]
Fault = Callable[[Devices, random.Random], tuple[str, set[str]]]
"""Changes a fabric; (what was changed, codes of the rules that are right about it)."""


def _switch(devices: Devices, draw: random.Random) -> tuple[str, Tables]:
    name = draw.choice(sorted(devices))
    return name, devices[name]


def _port(devices: Devices, draw: random.Random) -> tuple[str, Tables, str]:
    name, tables = _switch(devices, draw)
    return name, tables, draw.choice(sorted(tables["PORT"]))


def _inner(devices: Devices, draw: random.Random) -> tuple[str, Tables, str]:
    """A port with a switch at its other end."""
    for _ in range(1000):
        name, tables, port = _port(devices, draw)
        if tables["DEVICE_NEIGHBOR"][port]["name"] in devices:
            return name, tables, port
    raise AssertionError("no link between switches")


def small_headroom(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    profile = draw.choice([p for p in tables["BUFFER_PROFILE"] if p.startswith("pg_lossless")])
    tables["BUFFER_PROFILE"][profile]["xoff"] = str(draw.choice([1, 1000, 3000]))
    return f"{name} {profile} xoff", {"PF010"}


def no_headroom(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    profile = draw.choice([p for p in tables["BUFFER_PROFILE"] if p.startswith("pg_lossless")])
    tables["BUFFER_PROFILE"][profile]["xoff"] = "0"
    return f"{name} {profile} xoff 0", {"PF011"}


def lossy_profile(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    key = next(k for k in tables["BUFFER_PG"] if k.startswith(f"{port}|3"))
    tables["BUFFER_PG"][key]["profile"] = "ingress_lossy_profile"
    return f"{name} {key}", {"PF011"}


def no_group(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    for key in [k for k in tables["BUFFER_PG"] if k.startswith(f"{port}|") and not k.endswith("|0")]:
        del tables["BUFFER_PG"][key]
    tables["CABLE_LENGTH"]["AZURE"][port] = "0m"
    return f"{name} {port} without group", {"PF011"}


def long_cable(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    tables["CABLE_LENGTH"]["AZURE"][port] = "20000m"
    return f"{name} {port} 20 km", {"PF010"}


def other_cable(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    tables["CABLE_LENGTH"]["AZURE"][port] = "7m"
    return f"{name} {port} 7m", {"PF054"}


def falling_headroom(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    profile = draw.choice([p for p in tables["BUFFER_PROFILE"] if p.startswith("pg_lossless")])
    shorter = dict(tables["BUFFER_PROFILE"][profile])
    shorter["xoff"] = str(int(shorter["xoff"]) + 4096)
    speed = profile.split("_")[2]
    tables["BUFFER_PROFILE"][f"pg_lossless_{speed}_1m_profile"] = shorter
    return f"{name} {profile} below 1m", {"PF012"}


def foreign_profile(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    key = next(k for k in tables["BUFFER_PG"] if k.startswith(f"{port}|3"))
    right = tables["BUFFER_PG"][key]["profile"]
    tables["BUFFER_PROFILE"]["pg_lossless_10000_3m_profile"] = dict(tables["BUFFER_PROFILE"][right])
    tables["BUFFER_PG"][key]["profile"] = "pg_lossless_10000_3m_profile"
    return f"{name} {key} 10000_3m", {"PF013"}


def small_pool(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    tables["BUFFER_POOL"]["ingress_lossless_pool"]["xoff"] = "4096"
    return f"{name} pool xoff", {"PF014"}


def large_reserve(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    profile = draw.choice([p for p in tables["BUFFER_PROFILE"] if p.startswith("pg_lossless")])
    tables["BUFFER_PROFILE"][profile]["size"] = "50000000"
    return f"{name} {profile} size", {"PF014"}


def lossy_queue(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    key = next(k for k in tables["BUFFER_QUEUE"] if k.startswith(f"{port}|3"))
    tables["BUFFER_QUEUE"][key]["profile"] = "egress_lossy_profile"
    return f"{name} {key}", {"PF015"}


def pause_off(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    tables["PORT_QOS_MAP"][port]["pfc_enable"] = draw.choice(["3", "4", ""])
    return f"{name} {port} pfc", {"PF052", "PF017"}


def group_map(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = draw.choice(sorted(tables["TC_TO_PRIORITY_GROUP_MAP"]))
    tables["TC_TO_PRIORITY_GROUP_MAP"][row]["3"] = "0"
    return f"{name} tc 3 to group 0", {"PF020"}


def intruder(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = draw.choice(sorted(tables["TC_TO_PRIORITY_GROUP_MAP"]))
    tables["TC_TO_PRIORITY_GROUP_MAP"][row]["1"] = "3"
    return f"{name} tc 1 to group 3", {"PF023"}


def code_points(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    table = next(t for t in ("DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP") if t in tables)
    row = draw.choice(sorted(tables[table]))
    tables[table][row]["3"] = "1"
    return f"{name} {table} 3", {"PF021", "PF053"}


def another_code_point(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    table = next(t for t in ("DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP") if t in tables)
    row = draw.choice(sorted(tables[table]))
    tables[table][row]["6"] = "3"
    return f"{name} {table} 6", {"PF053"}


def wred_off(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = draw.choice(sorted(tables["WRED_PROFILE"]))
    if draw.random() < 0.5:
        del tables["WRED_PROFILE"][row]["wred_green_enable"]
    else:
        tables["WRED_PROFILE"][row]["wred_green_enable"] = "false"
    return f"{name} {row} wred_green_enable", {"PF030"}


def late_mark(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = draw.choice(sorted(tables["WRED_PROFILE"]))
    tables["WRED_PROFILE"][row] |= {"green_min_threshold": "60000000", "green_max_threshold": "60000000"}
    return f"{name} {row} min", {"PF031"}


def dropping(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = draw.choice(sorted(tables["WRED_PROFILE"]))
    tables["WRED_PROFILE"][row]["ecn"] = "ecn_none"
    return f"{name} {row} ecn_none", {"PF032"}


def short_restoration(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    tables["PFC_WD"][port] |= {"detection_time": "1000", "restoration_time": "300"}
    return f"{name} {port} restoration", {"PF040"}


def no_watchdog(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    if draw.random() < 0.5:
        del tables["PFC_WD"][port]
    else:
        tables["PORT_QOS_MAP"][port]["pfcwd_sw_enable"] = "4"
    return f"{name} {port} watchdog", {"PF041"}


def fast_detection(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    tables["PFC_WD"][port]["detection_time"] = draw.choice(["50", "150", "9000"])
    return f"{name} {port} detection", {"PF001", "PF003"}


def speed(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    now = int(tables["PORT"][port]["speed"])
    tables["PORT"][port]["speed"] = str(now // 2)
    return f"{name} {port} speed", {"PF050"}


def mtu(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    tables["PORT"][port]["mtu"] = "1500"
    return f"{name} {port} mtu", {"PF051"}


def fec(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    tables["PORT"][port]["fec"] = "none"
    far = tables["DEVICE_NEIGHBOR"][port]
    devices[far["name"]]["PORT"][far["port"]]["fec"] = "rs"
    return f"{name} {port} fec", {"PF056"}


def wiring(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    others = [p for p in tables["DEVICE_NEIGHBOR"] if p != port and tables["DEVICE_NEIGHBOR"][p]["name"] in devices]
    rows = tables["DEVICE_NEIGHBOR"]
    if others:
        other = draw.choice(others)
        rows[port], rows[other] = rows[other], rows[port]
    else:
        rows[port] = {"name": rows[port]["name"], "port": "Ethernet9999"}
    return f"{name} {port} neighbour", {"PF055"}


def reference(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    which = draw.randrange(3)
    if which == 0:
        key = next(k for k in tables["BUFFER_PG"] if k.startswith(f"{port}|3"))
        tables["BUFFER_PG"][key]["profile"] += "x"
    elif which == 1:
        tables["PORT_QOS_MAP"][port]["tc_to_pg_map"] = "nothing"
    else:
        key = next(k for k in tables["QUEUE"] if k.startswith(f"{port}|3"))
        tables["QUEUE"][key]["wred_profile"] = "nothing"
    return f"{name} {port} reference", {"PF002"}


def field_name(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = tables["WRED_PROFILE"][draw.choice(sorted(tables["WRED_PROFILE"]))]
    row["green_min_treshold"] = row.pop("green_min_threshold")
    return f"{name} WRED field name", {"PF004"}


def value(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    table, key, field, wrong = draw.choice(
        [
            ("PORT", port, "speed", "100G"),
            ("PORT", port, "mtu", "9999"),
            ("PORT_QOS_MAP", port, "pfc_enable", "3-4"),
            ("PFC_WD", port, "action", "discard"),
            ("BUFFER_POOL", "ingress_lossless_pool", "mode", "shared"),
        ]
    )
    tables[table][key][field] = wrong
    return f"{name} {table} {key} {field}", {"PF001"}


FAULTS: list[Fault] = [
    small_headroom,
    no_headroom,
    lossy_profile,
    no_group,
    long_cable,
    other_cable,
    falling_headroom,
    foreign_profile,
    small_pool,
    large_reserve,
    lossy_queue,
    pause_off,
    group_map,
    intruder,
    code_points,
    another_code_point,
    wred_off,
    late_mark,
    dropping,
    short_restoration,
    no_watchdog,
    fast_detection,
    speed,
    mtu,
    fec,
    wiring,
    reference,
    field_name,
    value,
]


def _planned_vlan(devices: Devices, draw: random.Random) -> tuple[str, Tables, str]:
    name, tables = _switch(devices, draw)
    return name, tables, draw.choice(sorted(tables["VLAN"]))


def flooding(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, vlan = _planned_vlan(devices, draw)
    tables["VLAN"][vlan][draw.choice(["mac_learning", "unknown_unicast_flood", "broadcast_flood"])] = "enabled"
    return f"{name} {vlan} floods", {"PF062"}


def spanning_tree(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, vlan = _planned_vlan(devices, draw)
    tables["STP_VLAN"] = {vlan: {"enabled": "true", "vlanid": vlan.removeprefix("Vlan")}}
    return f"{name} {vlan} STP", {"PF062"}


def member(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    vlan = draw.choice(sorted(tables["VLAN"]))
    del tables["VLAN_MEMBER"][f"{vlan}|{port}"]
    return f"{name} {vlan}|{port} no member", {"PF057", "PF061"}


def lost_row(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    macs: dict[str, list[str]] = {}
    for key in tables["FDB"]:
        macs.setdefault(key.partition("|")[2], []).append(key)
    for key in macs[draw.choice(sorted(macs))]:
        del tables["FDB"][key]
    return f"{name} rows of a host", {"PF061"}


def wrong_row(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    for _ in range(1000):
        name, tables = _switch(devices, draw)
        key = draw.choice(sorted(tables["FDB"]))
        port = tables["FDB"][key]["port"]
        far = tables["DEVICE_NEIGHBOR"][port]
        if far["name"] in devices and key in devices[far["name"]]["FDB"]:
            devices[far["name"]]["FDB"][key]["port"] = far["port"]
            return f"{name} {key} bounces", {"PF061", "PF060"}
    raise AssertionError("no row between switches")


LAYER2_FAULTS: list[Fault] = [flooding, spanning_tree, member, lost_row, wrong_row]
