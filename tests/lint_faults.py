"""Single faults for generated fabrics: each fault changes one thing, and lists the rules that may report it."""

from __future__ import annotations

import random
from collections.abc import Callable

from lint_fabrics import Tables

Devices = dict[str, Tables]
Fault = Callable[[Devices, random.Random], tuple[str, set[str]]]
"""Function that changes a fabric; returns (description of the change, codes of the rules that may report it)."""


def _switch(devices: Devices, draw: random.Random) -> tuple[str, Tables]:
    name = draw.choice(sorted(devices))
    return name, devices[name]


def _port(devices: Devices, draw: random.Random) -> tuple[str, Tables, str]:
    name, tables = _switch(devices, draw)
    return name, tables, draw.choice(sorted(tables["PORT"]))


def _inner(devices: Devices, draw: random.Random) -> tuple[str, Tables, str]:
    """Draws a port that leads to another switch."""
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
    return f"{name} rows of a host", {"PF061", "PF063"}


def wrong_row(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    for _ in range(1000):
        name, tables = _switch(devices, draw)
        key = draw.choice(sorted(tables["FDB"]))
        port = tables["FDB"][key]["port"]
        far = tables["DEVICE_NEIGHBOR"][port]
        if far["name"] in devices and key in devices[far["name"]]["FDB"]:
            devices[far["name"]]["FDB"][key]["port"] = far["port"]
            return f"{name} {key} bounces", {"PF061", "PF060", "PF063"}
    raise AssertionError("no row between switches")


LAYER2_FAULTS: list[Fault] = [flooding, spanning_tree, member, lost_row, wrong_row]


def _set(table: str, field: str, values: tuple[str, ...], codes: set[str], *, inner: bool = False) -> Fault:
    """A fault that sets a field of a port's row to another value."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables, port = (_inner if inner else _port)(devices, draw)
        now = tables[table][port].get(field)
        tables[table][port][field] = draw.choice([value for value in values if value != now])
        return f"{name} {table} {port} {field} {tables[table][port][field]}", codes

    return fault


def _unset(table: str, field: str, codes: set[str]) -> Fault:
    """A fault that removes a field from a port's row."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        for _ in range(1000):
            name, tables, port = _port(devices, draw)
            row = tables[table].get(port, {})
            names = ("dscp_to_tc_map", "dot1p_to_tc_map") if field == "CODE_POINTS" else (field,)
            if there := [one for one in names if one in row]:
                del row[there[0]]
                return f"{name} {table} {port} without {there[0]}", codes
        raise AssertionError(field)

    return fault


def _delete(table: str, codes: set[str], *, of_port: bool = False) -> Fault:
    """A fault that deletes a row: any row, or the row of a port's lossless priority."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables, port = _port(devices, draw)
        keys = [key for key in tables[table] if not of_port or key == port or key.startswith(f"{port}|3")]
        key = draw.choice(sorted(keys))
        del tables[table][key]
        return f"{name} {table} {key} deleted", codes

    return fault


def _entry(table: str, key: str, wrong: str | None, codes: set[str]) -> Fault:
    """A fault that changes or deletes an entry of a map."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        for _ in range(1000):
            name, tables = _switch(devices, draw)
            rows = tables.get(table, {})
            row = next((row for row in rows.values() if row.get(key) not in {None, wrong}), None)
            if row is not None:
                if wrong is None:
                    del row[key]
                else:
                    row[key] = wrong
                return f"{name} {table} {key} {wrong}", codes
            if table in {"DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP"}:
                return _entry(next(t for t in ("DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP") if t in tables), key, wrong, codes)(
                    devices, draw
                )
        raise AssertionError(table)

    return fault


def _profile(field: str, value: str, codes: set[str], *, begin: str = "pg_lossless") -> Fault:
    """A fault that sets a field of a buffer profile to another value."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables = _switch(devices, draw)
        key = draw.choice([key for key in tables["BUFFER_PROFILE"] if key.startswith(begin)])
        tables["BUFFER_PROFILE"][key][field] = value
        return f"{name} {key} {field} {value}", codes

    return fault


def _wred(changes: dict[str, str], codes: set[str]) -> Fault:
    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables = _switch(devices, draw)
        key = draw.choice(sorted(tables["WRED_PROFILE"]))
        tables["WRED_PROFILE"][key] |= changes
        return f"{name} {key} {changes}", codes

    return fault


def queue_field(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    key = draw.choice([key for key in tables["QUEUE"] if key.startswith(f"{port}|3")])
    field = draw.choice(["wred_profile", "scheduler"])
    del tables["QUEUE"][key][field]
    return f"{name} QUEUE {key} without {field}", {"PF034", "PF090"}


def trims_lossless(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    lossless = next(key for key in tables["BUFFER_PROFILE"] if "lossless" in key)
    tables["BUFFER_PROFILE"][lossless]["packet_discard_action"] = "trim"
    tables["SWITCH_TRIMMING"] = {"GLOBAL": {"size": "128", "dscp_value": "48", "queue_index": "6"}}
    return f"{name} {lossless} trims", {"PF018"}


def trims_into_lossless(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    lossy = next(key for key in tables["BUFFER_PROFILE"] if "lossy" in key)
    tables["BUFFER_PROFILE"][lossy]["packet_discard_action"] = "trim"
    tables["SWITCH_TRIMMING"] = {"GLOBAL": {"size": "128", "dscp_value": "48", "queue_index": draw.choice(["3", "4"])}}
    return f"{name} trims into a lossless queue", {"PF018"}


def trims_without_size(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    lossy = next(key for key in tables["BUFFER_PROFILE"] if "lossy" in key)
    tables["BUFFER_PROFILE"][lossy]["packet_discard_action"] = "trim"
    return f"{name} {lossy} trims without SWITCH_TRIMMING", {"PF018"}


def wrong_direction(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    table, profile = draw.choice(
        [
            ("BUFFER_PG", next(key for key in tables["BUFFER_PROFILE"] if key.startswith("egress_lossless"))),
            ("BUFFER_QUEUE", "ingress_lossy_profile"),
        ]
        if "ingress_lossy_profile" in tables["BUFFER_PROFILE"]
        else [("BUFFER_QUEUE", next(key for key in tables["BUFFER_PROFILE"] if key.startswith("pg_lossless")))]
    )
    key = draw.choice([key for key in tables[table] if key.startswith(f"{port}|3")])
    tables[table][key]["profile"] = profile
    return f"{name} {table} {key} {profile}", {"PF003"}


def twice(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    one, other = draw.sample(sorted(tables["PORT"]), 2)
    tables["PORT"][one]["lanes"] = tables["PORT"][other].setdefault("lanes", "77")
    return f"{name} {one} has the lanes of {other}", {"PF003"}


def no_neighbour(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    del tables["DEVICE_NEIGHBOR"][port]
    return f"{name} DEVICE_NEIGHBOR {port} deleted", {"PF055"}


def no_cable(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    del tables["CABLE_LENGTH"]["AZURE"][port]
    return f"{name} CABLE_LENGTH {port} deleted", {"PF054", "PF011"}


def blank(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    wred = next(iter(tables["WRED_PROFILE"]))
    table, key, field = draw.choice(
        [
            ("WRED_PROFILE", wred, "green_min_threshold"),
            ("PORT", port, "mtu"),
            ("BUFFER_POOL", "ingress_lossless_pool", "xoff"),
            ("PFC_WD", port, "detection_time"),
        ]
    )
    tables[table][key][field] = ""
    return f"{name} {table} {key} {field} empty", {"PF001"}


def ends_swapped(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    """Swaps the buffer rows of two ports of different kinds."""
    for _ in range(1000):
        name, tables = _switch(devices, draw)
        one, other = draw.sample(sorted(tables["PORT"]), 2)
        keys = [next(key for key in tables["BUFFER_PG"] if key.startswith(f"{port}|3")) for port in (one, other)]
        rows = [tables["BUFFER_PG"][key]["profile"] for key in keys]
        if rows[0] != rows[1]:
            tables["BUFFER_PG"][keys[0]]["profile"], tables["BUFFER_PG"][keys[1]]["profile"] = rows[1], rows[0]
            return f"{name} groups of {one} and {other} swapped", {"PF013"}
    return small_headroom(devices, draw)


def pool_field(field: str, value: str, codes: set[str]) -> Fault:
    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables = _switch(devices, draw)
        tables["BUFFER_POOL"]["ingress_lossless_pool"][field] = value
        return f"{name} ingress_lossless_pool {field} {value}", codes

    return fault


def overlap(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    rows = tables[draw.choice(["BUFFER_PG", "BUFFER_QUEUE"])]
    key = next(key for key in rows if key.startswith(f"{port}|3"))
    rows[f"{port}|{'3' if key.endswith('3-4') else '3-4'}"] = dict(rows[key])
    return f"{name} {port} two rows with 3", {"PF003"}


def fec_at_one_end(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    if tables["PORT"][port].pop("fec", None) is None:
        tables["PORT"][port]["fec"] = "rs"
    return f"{name} {port} fec at one end", {"PF056"}


def joined_key(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    rows = tables["BUFFER_PG"]
    one, other = draw.sample([key for key in sorted(rows) if key.partition("|")[2].startswith("3")], 2)
    row = rows.pop(one)
    del rows[other]
    joined = f"{one.partition('|')[0]},{other}"
    rows[joined] = row
    return f"{name} {joined}", {"PF001"}


def buffer_model(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = tables.setdefault("DEVICE_METADATA", {}).setdefault("localhost", {})
    row["buffer_model"] = draw.choice(["traditonal", "Dynamic", ""])
    return f"{name} buffer_model", {"PF001"}


def no_unit(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    tables["CABLE_LENGTH"]["AZURE"][port] = draw.choice(["5", "5 m", "m"])
    return f"{name} {port} cable without unit", {"PF001"}


def no_length(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _port(devices, draw)
    del tables["CABLE_LENGTH"]["AZURE"][port]
    return f"{name} CABLE_LENGTH {port} deleted", {"PF013", "PF054", "PF011"}


def other_vlanid(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, vlan = _planned_vlan(devices, draw)
    tables["VLAN"][vlan]["vlanid"] = "4000"
    return f"{name} {vlan} vlanid", {"PF003"}


def lost_vlan(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, vlan = _planned_vlan(devices, draw)
    del tables["VLAN"][vlan]
    return f"{name} {vlan} deleted", {"PF002", "PF061"}


LAYER2_FAULTS += [other_vlanid, lost_vlan]
MORE_FAULTS: list[Fault] = [
    _wred({"green_drop_probability": "0"}, {"PF030"}),
    pool_field("mode", "static", {"PF003"}),
    pool_field("size", "20000", {"PF014"}),
    pool_field("type", "egress", {"PF003"}),
    _set("PORT", "autoneg", ("on",), {"PF056"}, inner=True),
    overlap,
    fec_at_one_end,
    joined_key,
    buffer_model,
    no_unit,
    no_length,
    _delete("BUFFER_PG", {"PF011"}, of_port=True),
    _delete("BUFFER_QUEUE", {"PF015"}, of_port=True),
    _delete("QUEUE", {"PF034", "PF090"}, of_port=True),
    _delete("PORT_QOS_MAP", {"PF052", "PF017"}, of_port=True),
    _delete("PORT", {"PF002"}, of_port=True),
    _delete("BUFFER_POOL", {"PF002"}),
    _delete("BUFFER_PROFILE", {"PF002"}),
    _delete("WRED_PROFILE", {"PF002"}),
    _delete("SCHEDULER", {"PF002"}),
    _delete("TC_TO_QUEUE_MAP", {"PF002"}),
    _delete("MAP_PFC_PRIORITY_TO_QUEUE", {"PF002"}),
    _unset("PORT_QOS_MAP", "tc_to_pg_map", {"PF024"}),
    _unset("PORT_QOS_MAP", "tc_to_queue_map", {"PF024"}),
    _unset("PORT_QOS_MAP", "pfc_to_queue_map", {"PF024"}),
    _unset("PORT_QOS_MAP", "CODE_POINTS", {"PF024"}),
    _unset("PORT_QOS_MAP", "pfc_enable", {"PF052", "PF017"}),
    _unset("PORT", "speed", {"PF001"}),
    _unset("PFC_WD", "restoration_time", {"PF090", "PF041"}),
    _entry("TC_TO_PRIORITY_GROUP_MAP", "3", None, {"PF024"}),
    _entry("TC_TO_QUEUE_MAP", "3", None, {"PF024", "PF021"}),
    _entry("TC_TO_QUEUE_MAP", "3", "1", {"PF021", "PF023", "PF020"}),
    _entry("MAP_PFC_PRIORITY_TO_QUEUE", "3", None, {"PF024"}),
    _entry("MAP_PFC_PRIORITY_TO_QUEUE", "3", "1", {"PF020", "PF021", "PF023"}),
    _entry("DSCP_TO_TC_MAP", "4", None, {"PF053", "PF021"}),
    _entry("DSCP_TO_TC_MAP", "3", "12", {"PF053", "PF021"}),
    _profile("size", "", {"PF001"}),
    _profile("xoff", "-1", {"PF001"}),
    _profile("dynamic_th", "9", {"PF001"}),
    _profile("pool", "egress_lossy_pool", {"PF003"}),
    _profile("pool", "nothing", {"PF002"}),
    _wred({"green_min_threshold": "3000000", "green_max_threshold": "2000000"}, {"PF003"}),
    _wred({"wred_green_enable": "yes"}, {"PF001"}),
    _wred({"ecn": "ecn_red"}, {"PF030", "PF032"}),
    _set("PORT", "admin_status", ("down",), {"PF059"}, inner=True),
    _set("PORT", "fec", ("fc",), {"PF056", "PF090"}, inner=True),
    _set("PORT", "mtu", ("1500", "4096", "9000"), {"PF051"}, inner=True),
    _set("PORT", "speed", ("1000", "200000"), {"PF050"}, inner=True),
    _set("PORT_QOS_MAP", "pfc_enable", ("3", "2,3,4", "0"), {"PF052", "PF017", "PF011"}, inner=True),
    _set("PORT_QOS_MAP", "pfc_enable", ("3;4", "8", "3,,4"), {"PF001"}),
    _set("PORT_QOS_MAP", "tc_to_queue_map", ("AZURE2",), {"PF002"}),
    _set("PFC_WD", "action", ("drop ", "none"), {"PF001"}),
    _set("PFC_WD", "restoration_time", ("100", "150"), {"PF003", "PF040"}),
    _set("PFC_WD", "detection_time", ("", "fast"), {"PF001"}),
    _delete("PFC_WD", {"PF041"}, of_port=True),
    queue_field,
    trims_lossless,
    trims_into_lossless,
    trims_without_size,
    wrong_direction,
    twice,
    no_neighbour,
    no_cable,
    blank,
    ends_swapped,
]


def untagged_end(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, port = _inner(devices, draw)
    vlan = draw.choice(sorted(tables["VLAN"]))
    tables["VLAN_MEMBER"][f"{vlan}|{port}"]["tagging_mode"] = "untagged"
    return f"{name} {vlan}|{port} untagged", {"PF058"}


def other_static_row(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    key = draw.choice(sorted(tables["FDB"]))
    others = [port for port in sorted(tables["PORT"]) if port != tables["FDB"][key]["port"]]
    tables["FDB"][key]["port"] = draw.choice(others)
    return f"{name} FDB {key} differs from fdb.json", {"PF063"}


LAYER2_FAULTS += [untagged_end, other_static_row]


def _member(devices: Devices, draw: random.Random) -> tuple[str, Tables, str, str]:
    name, tables = _switch(devices, draw)
    key = draw.choice(sorted(tables["PORTCHANNEL_MEMBER"]))
    channel, _, port = key.partition("|")
    return name, tables, channel, port


def _of_member(table: str, field: str, value: str | None, codes: set[str]) -> Fault:
    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables, channel, port = _member(devices, draw)
        if value is None:
            tables[table][port].pop(field, None)
        else:
            tables[table][port][field] = value
        return f"{name} {channel} {port} {field} {value}", codes

    return fault


def _of_channel(field: str, values: tuple[str, ...], codes: set[str]) -> Fault:
    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name, tables, channel, _ = _member(devices, draw)
        tables["PORTCHANNEL"][channel][field] = draw.choice(values)
        return f"{name} {channel} {field} {tables['PORTCHANNEL'][channel][field]}", codes

    return fault


def no_member(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, channel, port = _member(devices, draw)
    del tables["PORTCHANNEL_MEMBER"][f"{channel}|{port}"]
    return f"{name} {channel} {port} no member", {"PF082"}


def no_members(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, channel, _ = _member(devices, draw)
    for key in [key for key in tables["PORTCHANNEL_MEMBER"] if key.startswith(f"{channel}|")]:
        del tables["PORTCHANNEL_MEMBER"][key]
    return f"{name} {channel} without members", {"PF081"}


def two_channels(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, channel, port = _member(devices, draw)
    other = draw.choice([key for key in sorted(tables["PORTCHANNEL"]) if key != channel])
    tables["PORTCHANNEL_MEMBER"][f"{other}|{port}"] = {}
    return f"{name} {port} in {channel} and {other}", {"PF003"}


def crossed_members(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, channel, port = _member(devices, draw)
    rows = tables["PORTCHANNEL_MEMBER"]
    other = draw.choice([key for key in sorted(rows) if not key.startswith(f"{channel}|")])
    second, far = other.split("|")
    del rows[f"{channel}|{port}"], rows[other]
    rows[f"{channel}|{far}"], rows[f"{second}|{port}"] = {}, {}
    return f"{name} {port} and {far} swapped", {"PF082"}


def lost_channel(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, channel, _ = _member(devices, draw)
    del tables["PORTCHANNEL"][channel]
    return f"{name} {channel} deleted", {"PF002"}


def unknown_member(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, channel, port = _member(devices, draw)
    rows = tables["PORTCHANNEL_MEMBER"]
    del rows[f"{channel}|{port}"]
    rows[f"{channel}|Ethernet999"] = {}
    return f"{name} {channel} Ethernet999", {"PF002"}


def member_in_vlan(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, _, port = _member(devices, draw)
    tables["VLAN"], tables["VLAN_MEMBER"] = (
        {"Vlan100": {"vlanid": "100"}},
        {f"Vlan100|{port}": {"tagging_mode": "tagged"}},
    )
    return f"{name} member {port} in a VLAN", {"PF003"}


def routed_member(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables, _, port = _member(devices, draw)
    tables["INTERFACE"] = {port: {}, f"{port}|192.0.2.1/31": {}}
    return f"{name} member {port} with an address", {"PF003"}


def _address_row(tables: Tables, draw: random.Random) -> str:
    return draw.choice([key for key in sorted(tables["PORTCHANNEL_INTERFACE"]) if "|" in key])


def same_address(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    one, other = draw.sample(sorted(devices), 2)
    row, far = _address_row(devices[one], draw), _address_row(devices[other], draw)
    del devices[one]["PORTCHANNEL_INTERFACE"][row]
    devices[one]["PORTCHANNEL_INTERFACE"][f"{row.partition('|')[0]}|{far.partition('|')[2]}"] = {}
    return f"{one} {row} has an address of {other}", {"PF064"}


def other_subnet(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = _address_row(tables, draw)
    del tables["PORTCHANNEL_INTERFACE"][row]
    tables["PORTCHANNEL_INTERFACE"][
        f"{row.partition('|')[0]}|172.16.{draw.randrange(256)}.{draw.randrange(256)}/31"
    ] = {}
    return f"{name} {row} another subnet", {"PF064"}


def bad_address(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name, tables = _switch(devices, draw)
    row = _address_row(tables, draw)
    tables["PORTCHANNEL_INTERFACE"][f"{row.partition('|')[0]}|10.0.0.300/31"] = {}
    return f"{name} {row} no address", {"PF001"}


CHANNEL_FAULTS: list[Fault] = [
    _of_member("PORT", "speed", "1000", {"PF080"}),
    _of_member("PORT", "mtu", "1500", {"PF080"}),
    _of_member("PORT", "fec", "none", {"PF080"}),
    _of_member("PORT_QOS_MAP", "pfc_enable", "3", {"PF080"}),
    _of_member("PORT_QOS_MAP", "dscp_to_tc_map", None, {"PF080", "PF024"}),
    _of_member("PORT_QOS_MAP", "tc_to_queue_map", None, {"PF080", "PF024"}),
    _of_channel("mtu", ("1500", "9000"), {"PF080", "PF082"}),
    _of_channel("mtu", ("", "jumbo"), {"PF001"}),
    _of_channel("min_links", ("3", "8"), {"PF081"}),
    _of_channel("min_links", ("2",), {"PF082"}),
    _of_channel("min_links", ("0", "x"), {"PF001"}),
    _of_channel("admin_status", ("down",), {"PF082"}),
    _of_channel("fast_rate", ("true",), {"PF083"}),
    _of_channel("fallback", ("true",), {"PF083"}),
    no_member,
    no_members,
    two_channels,
    crossed_members,
    lost_channel,
    unknown_member,
    member_in_vlan,
    routed_member,
    same_address,
    other_subnet,
    bad_address,
]
