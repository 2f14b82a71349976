"""Generated fabrics with pairs of switches (MCLAG, dual ToR) and with three tiers; and single faults in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lint_fabrics

if TYPE_CHECKING:
    import random

    from lint_fabrics import Tables
    from lint_faults import Devices, Fault

UP, DOWN = 100_000, 25_000


def _switch(name: str, links: list[tuple[int, str, str]]) -> Tables:
    """A switch with a port for each (speed, neighbour, the neighbour's port)."""
    ports = {f"Ethernet{4 * i}": (speed, 10, far, port) for i, (speed, far, port) in enumerate(links)}
    return lint_fabrics.switch(name, ports, lookup=False)


def mclag(servers: int = 3) -> Devices:
    """Two leaves that act as one, with two peer links, two spines, and servers at both leaves."""
    devices: Devices = {}
    for i in range(2):
        peer = [(UP, f"leaf{1 - i}", f"Ethernet{4 * (servers + n)}") for n in range(2)]
        up = [(UP, f"spine{s}", f"Ethernet{4 * i}") for s in range(2)]
        leaf = devices[f"leaf{i}"] = _switch(
            f"leaf{i}", [*((DOWN, f"server{n}", f"eth{i}") for n in range(servers)), *peer, *up]
        )
        channels = {f"PortChannel{n + 1}": [f"Ethernet{4 * n}"] for n in range(servers)}
        channels["PortChannel100"] = [f"Ethernet{4 * (servers + n)}" for n in range(2)]
        leaf["PORTCHANNEL"] = {name: {"admin_status": "up", "mtu": "9100"} for name in channels}
        leaf["PORTCHANNEL_MEMBER"] = {f"{name}|{port}": {} for name, own in channels.items() for port in own}
        leaf["MCLAG_DOMAIN"] = {
            "1": {"source_ip": f"10.0.0.{i + 1}", "peer_ip": f"10.0.0.{2 - i}", "peer_link": "PortChannel100",
                  "keepalive_interval": "1", "session_timeout": "30"}
        }  # fmt: skip
        leaf["MCLAG_INTERFACE"] = {f"1|PortChannel{n + 1}": {"if_type": "PortChannel"} for n in range(servers)}
    for s in range(2):
        links = [(UP, f"leaf{i}", f"Ethernet{4 * (servers + 2 + s)}") for i in range(2)]
        devices[f"spine{s}"] = _switch(f"spine{s}", links)
    return devices


def dual_tor(servers: int = 3) -> Devices:
    """Two ToRs with mux cables to all servers, two T1s, and a tunnel whose outer header has another class."""
    devices: Devices = {}
    for i in range(2):
        links = [(DOWN, f"server{n}", "eth0") for n in range(servers)]
        links += [(UP, f"t1-{s}", f"Ethernet{4 * i}") for s in range(2)]
        tor = devices[f"tor{i}"] = _switch(f"tor{i}", links)
        tor["DEVICE_METADATA"]["localhost"] |= {"type": "ToRRouter", "subtype": "DualToR"}
        tor["PEER_SWITCH"] = {f"tor{1 - i}": {"address_ipv4": f"10.1.0.{2 - i}"}}
        tor["TC_TO_DSCP_MAP"] = {"AZURE_TUNNEL": {str(tc): "1" if tc in {3, 4} else str(tc) for tc in range(8)}}
        tor["TUNNEL"] = {
            "MuxTunnel0": {"tunnel_type": "IPINIP", "dst_ip": f"10.1.0.{i + 1}", "dscp_mode": "pipe",
                           "encap_tc_to_dscp_map": "AZURE_TUNNEL", "decap_dscp_to_tc_map": "AZURE"}
        }  # fmt: skip
        tor["MUX_CABLE"] = {}
        for n in range(servers):
            tor["MUX_CABLE"][f"Ethernet{4 * n}"] = {"state": "auto", "server_ipv4": f"192.168.0.{n + 2}/32"}
            tor["PORT"][f"Ethernet{4 * n}"]["mux_cable"] = "true"
    for s in range(2):
        links = [(UP, f"tor{i}", f"Ethernet{4 * (servers + s)}") for i in range(2)]
        devices[f"t1-{s}"] = _switch(f"t1-{s}", links)
        devices[f"t1-{s}"]["DEVICE_METADATA"]["localhost"]["type"] = "LeafRouter"
    return devices


def pods(count: int = 2, tors: int = 4, leaves: int = 4, spines: int = 4) -> Devices:
    """Three tiers: each pod has ToRs with an uplink to each leaf; each leaf has `spines` uplinks to one plane.

    The hash is SONiC's: seed and offset by role.
    """
    devices: Devices = {}
    for p in range(count):
        for t in range(tors):
            links = [(DOWN, f"server{p}-{t}", "eth0")]
            links += [(UP, f"leaf{p}-{v}", f"Ethernet{4 * t}") for v in range(leaves)]
            devices[f"tor{p}-{t}"] = _switch(f"tor{p}-{t}", links)
        for v in range(leaves):
            links = [(UP, f"tor{p}-{t}", f"Ethernet{4 * (v + 1)}") for t in range(tors)]
            links += [(UP, f"spine{v}-{s}", f"Ethernet{4 * p}") for s in range(spines)]
            devices[f"leaf{p}-{v}"] = _switch(f"leaf{p}-{v}", links)
    for v in range(leaves):
        for s in range(spines):
            links = [(UP, f"leaf{p}-{v}", f"Ethernet{4 * (tors + s)}") for p in range(count)]
            devices[f"spine{v}-{s}"] = _switch(f"spine{v}-{s}", links)
    roles = {"tor": "ToRRouter", "leaf": "LeafRouter", "spine": "SpineRouter"}
    for name, tables in devices.items():
        tables["DEVICE_METADATA"]["localhost"]["type"] = next(
            role for kind, role in roles.items() if name.startswith(kind)
        )
        tables["SWITCH_HASH"] = {"GLOBAL": {"ecmp_hash": "IP_PROTOCOL,SRC_IP,DST_IP,L4_SRC_PORT,L4_DST_PORT",
                                            "ecmp_hash_algorithm": "CRC"}}  # fmt: skip
    return devices


def adaptive() -> Devices:
    """A leaf-spine fabric with adaptive routing on the uplinks of the leaves."""
    devices = lint_fabrics.clos(4, 2, 2)
    for name, tables in devices.items():
        if name.startswith("leaf"):
            tables["ARS_PROFILE"] = {
                "ars": {
                    "algorithm": "ewma",
                    "ars_nhg_path_selector_mode": "interface",
                    "default_ars_object": "flowlets",
                    "sampling_interval": "16",
                    "past_load_min_value": "0",
                    "past_load_max_value": "100",
                }
            }
            tables["ARS_OBJECT"] = {"flowlets": {"assign_mode": "per_flowlet_quality", "flowlet_idle_time": "256"}}
            tables["ARS_INTERFACES"] = {port: {} for port in ("Ethernet8", "Ethernet12")}
    return devices


def _set(names: str, table: str, key: str, field: str, values: tuple[str, ...], codes: set[str]) -> Fault:
    """A fault that sets a field of a row; `key` "*" is any row, and an empty value removes the field."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name = draw.choice([one for one in sorted(devices) if one.startswith(names)])
        rows = devices[name][table]
        own = draw.choice(sorted(rows)) if key == "*" else key
        value = draw.choice(values)
        if value:
            rows[own][field] = value
        else:
            rows[own].pop(field, None)
        return f"{name} {table} {own} {field} {value}", codes

    return fault


def _drop(names: str, table: str, codes: set[str]) -> Fault:
    """A fault that removes a row."""

    def fault(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
        name = draw.choice([one for one in sorted(devices) if one.startswith(names)])
        key = draw.choice(sorted(devices[name][table]))
        del devices[name][table][key]
        return f"{name} {table} {key} removed", codes

    return fault


def servers_in_one_channel(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name = draw.choice(["leaf0", "leaf1"])
    rows = devices[name]["PORTCHANNEL_MEMBER"]
    del rows["PortChannel2|Ethernet4"]
    rows["PortChannel1|Ethernet4"] = {}
    return f"{name} two servers in PortChannel1", {"PF082"}


def unpaused_peer_link(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    for name in ("leaf0", "leaf1"):
        for port in ("Ethernet12", "Ethernet16"):
            devices[name]["PORT_QOS_MAP"][port]["pfc_enable"] = "4"
    return "peer link without priority 3", {"PF085"}


def both_active(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    port = draw.choice(sorted(devices["tor0"]["MUX_CABLE"]))
    for name in ("tor0", "tor1"):
        devices[name]["MUX_CABLE"][port]["state"] = "active"
    return f"{port} active at both", {"PF086"}


def roles_alike(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    """The leaves have the role of the ToRs below them, and so their seed and offset."""
    for name, tables in devices.items():
        if name.startswith("leaf"):
            tables["DEVICE_METADATA"]["localhost"]["type"] = draw.choice(["ToRRouter", "BackEndToRRouter"])
    return "leaves are ToRs", {"PF087"}


def both_standby(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    port = draw.choice(sorted(devices["tor0"]["MUX_CABLE"]))
    for name in ("tor0", "tor1"):
        devices[name]["MUX_CABLE"][port]["state"] = "standby"
    return f"{port} standby at both", {"PF086"}


def no_mux_table(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    name = draw.choice(["tor0", "tor1"])
    del devices[name]["MUX_CABLE"]
    return f"{name} without MUX_CABLE", {"PF086"}


def server_twice(devices: Devices, draw: random.Random) -> tuple[str, set[str]]:
    """At both ToRs, so that each address is at the peer too."""
    for name in ("tor0", "tor1"):
        devices[name]["MUX_CABLE"]["Ethernet0"]["server_ipv4"] = "192.168.0.3/32"
    return "one server twice", {"PF086"}


MCLAG_FAULTS: list[Fault] = [
    _set("leaf", "MCLAG_DOMAIN", "1", "peer_ip", ("10.9.9.9",), {"PF085"}),
    _set("leaf", "MCLAG_DOMAIN", "1", "peer_ip", ("10.0.0", "x"), {"PF001"}),
    _set("leaf", "MCLAG_DOMAIN", "1", "peer_link", ("",), {"PF085"}),
    _set("leaf", "MCLAG_DOMAIN", "1", "peer_link", ("PortChannel77",), {"PF002"}),
    _set("leaf", "MCLAG_DOMAIN", "1", "peer_link", ("Ethernet20", "Ethernet24"), {"PF085"}),
    _set("leaf", "MCLAG_DOMAIN", "1", "session_timeout", ("2",), {"PF003"}),
    _set("leaf", "MCLAG_DOMAIN", "1", "keepalive_interval", ("0", "90"), {"PF001"}),
    _set("leaf", "PORTCHANNEL", "PortChannel100", "fast_rate", ("true",), {"PF083"}),
    _set("leaf", "PORTCHANNEL", "PortChannel100", "fallback", ("true",), {"PF083"}),
    _set("leaf", "PORTCHANNEL", "PortChannel100", "fallback", ("yes",), {"PF001"}),
    _drop("leaf", "MCLAG_INTERFACE", {"PF085"}),
    servers_in_one_channel,
    unpaused_peer_link,
]
MUX_FAULTS: list[Fault] = [
    _set("tor", "MUX_CABLE", "*", "state", ("standbye",), {"PF001"}),
    _set("tor", "MUX_CABLE", "*", "cable_type", ("active-active",), {"PF086"}),
    _set("tor", "MUX_CABLE", "*", "server_ipv4", ("192.168.0.99/32",), {"PF086"}),
    _set("tor", "MUX_CABLE", "*", "server_ipv4", ("192.168.0.9",), {"PF001"}),
    _set("tor", "DEVICE_METADATA", "localhost", "subtype", ("", "SmartSwitch"), {"PF086"}),
    _set("tor", "TUNNEL", "MuxTunnel0", "encap_tc_to_dscp_map", ("",), {"PF065"}),
    *(
        _set("tor", "TUNNEL", "MuxTunnel0", field, ("AZURE_TUNEL",), {"PF002"})
        for field in ("encap_tc_to_dscp_map", "encap_tc_to_queue_map", "decap_tc_to_pg_map", "decap_dscp_to_tc_map")
    ),
    _set("tor", "TC_TO_DSCP_MAP", "AZURE_TUNNEL", "3", ("3",), {"PF065"}),
    _set("tor", "TC_TO_DSCP_MAP", "AZURE_TUNNEL", "4", ("4",), {"PF065"}),
    _drop("tor", "PEER_SWITCH", {"PF086"}),
    _drop("tor", "MUX_CABLE", {"PF086"}),
    _drop("tor", "TUNNEL", {"PF086"}),
    both_active,
    both_standby,
    no_mux_table,
    server_twice,
    _set("tor", "MUX_CABLE", "*", "server_ipv6", ("fc02::99/128",), {"PF086"}),
    *(_set(f"tor{i}", "PEER_SWITCH", f"tor{1 - i}", "address_ipv4", ("10.1.0.99", ""), {"PF086"}) for i in range(2)),
    _set("tor", "TUNNEL", "MuxTunnel0", "src_ip", ("10.1.0.99",), {"PF086"}),
    _set("tor", "TUNNEL", "MuxTunnel0", "dst_ip", ("10.1.0.99",), {"PF086"}),
]
HASH_FAULTS: list[Fault] = [
    roles_alike,
    _set("spine", "SWITCH_HASH", "GLOBAL", "ecmp_hash_algorithm", ("CRC32", "crc"), {"PF001"}),
    _set("tor", "SWITCH_HASH", "GLOBAL", "ecmp_hash", ("SRC_IP,DST_IP",), {"PF088"}),
    _set("leaf", "SWITCH_HASH", "GLOBAL", "ecmp_hash", ("SRC_IP,SPORT",), {"PF001"}),
    _set("tor", "SWITCH_HASH", "GLOBAL", "ecmp_hash_algorithm", ("XOR",), {"PF090"}),
]
ARS_FAULTS: list[Fault] = [
    _set("leaf", "ARS_OBJECT", "flowlets", "assign_mode", ("per_packet_quality",), {"PF089"}),
    _set("leaf", "ARS_OBJECT", "flowlets", "assign_mode", ("per_flowlet",), {"PF001"}),
    _set("leaf", "ARS_OBJECT", "flowlets", "flowlet_idle_time", ("1", "4000"), {"PF001"}),
    _set("leaf", "ARS_PROFILE", "ars", "past_load_min_value", ("200",), {"PF003"}),
    _set("leaf", "ARS_PROFILE", "ars", "default_ars_object", ("flowlet",), {"PF002"}),
    _drop("leaf", "ARS_INTERFACES", {"PF089"}),
]
