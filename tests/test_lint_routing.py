"""Addresses and BGP of switches and hosts: each fault of a small Clos network is found at its place, and only it."""

import copy
import json
from typing import Any

import lint_fabrics
import pytest
from pauseframe.devices import bgp
from pauseframe.devices.read import read_fabric
from pauseframe.lint.engine import judge, rules
from pauseframe.lint.fix import fix

CODES = ("PF001", "PF002", "PF004", "PF064", "PF066", "PF067", "PF068", "PF069")


def clos(leaves=2, spines=2):
    """CONFIG_DBs of leaves with a rack each and of spines, with eBGP over /31."""
    names = [f"leaf{n}" for n in range(leaves)] + [f"spine{n}" for n in range(spines)]
    found: dict[str, Any] = {
        name: {
            "DEVICE_METADATA": {"localhost": {"hostname": name, "bgp_asn": str(65000 + n), "type": "LeafRouter"}},
            "PORT": {}, "DEVICE_NEIGHBOR": {}, "INTERFACE": {}, "BGP_NEIGHBOR": {},
            "LOOPBACK_INTERFACE": {"Loopback0": {}, f"Loopback0|10.255.0.{n}/32": {}},
        }
        for n, name in enumerate(names)
    }  # fmt: skip
    for i in range(leaves):
        for s in range(spines):
            first = 2 * (i * spines + s)
            ends = ((f"leaf{i}", f"Ethernet{4 + 4 * s}", first), (f"spine{s}", f"Ethernet{4 * i}", first + 1))
            for (name, port, last), (far, far_port, other) in (ends, ends[::-1]):
                tables = found[name]
                tables["PORT"][port] = {"speed": "100000", "lanes": port[8:], "admin_status": "up", "mtu": "9100"}
                tables["DEVICE_NEIGHBOR"][port] = {"name": far, "port": far_port}
                tables["INTERFACE"] |= {port: {}, f"{port}|10.1.0.{last}/31": {}}
                asn = found[far]["DEVICE_METADATA"]["localhost"]["bgp_asn"]
                tables["BGP_NEIGHBOR"][f"10.1.0.{other}"] = {
                    "asn": asn, "name": far, "local_addr": f"10.1.0.{last}", "holdtime": "10", "keepalive": "3",
                }  # fmt: skip
        leaf = found[f"leaf{i}"]
        leaf["PORT"]["Ethernet0"] = {"speed": "25000", "lanes": "0", "admin_status": "up", "mtu": "9100"}
        leaf["DEVICE_NEIGHBOR"]["Ethernet0"] = {"name": f"host{i}", "port": "eth0"}
        leaf["VLAN"] = {"Vlan10": {"vlanid": "10"}}
        leaf["VLAN_MEMBER"] = {"Vlan10|Ethernet0": {"tagging_mode": "untagged"}}
        leaf["VLAN_INTERFACE"] = {"Vlan10": {}, f"Vlan10|10.2.{i}.1/28": {}}
    return found


def written(devices, root, hosts=()):
    for name, tables in devices.items():
        (root / name).mkdir(parents=True)
        (root / name / "config_db.json").write_text(json.dumps(tables))
    for name, address, gateway in hosts:
        (root / name / "networkd").mkdir(parents=True)
        text = f"[Match]\nName=eth0\n[Address]\nAddress={address}\n[Route]\nDestination=0.0.0.0/0\nGateway={gateway}\n"
        (root / name / "networkd" / "eth0.network").write_text(text)
    return root


HOSTS = (("host0", "10.2.0.2/28", "10.2.0.1"), ("host1", "10.2.1.2/28", "10.2.1.1"))


def judged(root):
    return judge(read_fabric([root]), [rules()[code] for code in CODES])


def found_in(report):
    return {(f.code, str(f.severity), str(f.place)) for f in report.findings}


def test_a_fabric_without_faults_is_clean(tmp_path):
    report = judged(written(clos(), tmp_path, HOSTS))
    assert [f"{f.place}: {f.message}" for f in report.findings] == []


def _set(device, table, key, **fields):
    def change(devices):
        devices[device][table].setdefault(key, {}).update(fields)

    return change


def _rename(device, table, key, new):
    def change(devices):
        rows = devices[device][table]
        rows[new] = rows.pop(key)

    return change


def _drop(device, table, key, field=""):
    def change(devices):
        rows = devices[device][table]
        del (rows[key] if field else rows)[field or key]

    return change


LEAF, PEER, ETH = "leaf0", "10.1.0.1", "Ethernet4"
OWN = f"{LEAF} BGP_NEIGHBOR {PEER}"
FAULTS = {  # what was changed: the findings (code, severity, place)
    "AS of the neighbour": (_set(LEAF, "BGP_NEIGHBOR", PEER, asn="65009"), [("PF066", "error", f"{OWN} asn")]),
    "own AS": (
        _set(LEAF, "DEVICE_METADATA", "localhost", bgp_asn="65009"),
        [("PF066", "error", f"{LEAF} DEVICE_METADATA localhost bgp_asn")],
    ),
    "no own AS": (
        _drop(LEAF, "DEVICE_METADATA", "localhost", "bgp_asn"),
        [("PF067", "error", f"{LEAF} DEVICE_METADATA localhost bgp_asn")],
    ),
    "no router ID": (
        _drop(LEAF, "LOOPBACK_INTERFACE", "Loopback0|10.255.0.0/32"),
        [("PF067", "error", f"{LEAF} LOOPBACK_INTERFACE Loopback0|ADDRESS/32")],
    ),
    "session at one end": (_drop(LEAF, "BGP_NEIGHBOR", PEER), [("PF066", "error", OWN)]),
    "session shut": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, admin_status="down"), [("PF066", "warning", f"{OWN} admin_status")]),
    "sessions down by default": (
        _set(LEAF, "DEVICE_METADATA", "localhost", default_bgp_status="down"),
        [("PF066", "warning", f"{LEAF} BGP_NEIGHBOR 10.1.0.{n} admin_status") for n in (1, 3)],
    ),
    "subnet of two uplinks": (
        _rename(LEAF, "INTERFACE", f"{ETH}|10.1.0.0/31", f"{ETH}|10.1.0.0/30"),
        [("PF064", "error", f"{LEAF} INTERFACE {ETH}|10.1.0.0/30"),
         ("PF064", "warning", f"{LEAF} INTERFACE Ethernet8|10.1.0.2/31")],
    ),
    "name of another": (_set(LEAF, "BGP_NEIGHBOR", PEER, name="spine1"), [("PF066", "warning", f"{OWN} name")]),
    "address in no subnet": (
        _rename(LEAF, "BGP_NEIGHBOR", PEER, "10.9.0.1"),
        [("PF066", "error", OWN), ("PF067", "error", f"{LEAF} BGP_NEIGHBOR 10.9.0.1")],
    ),
    "own address": (
        _rename(LEAF, "BGP_NEIGHBOR", PEER, "10.1.0.0"),
        [("PF066", "error", OWN), ("PF067", "error", f"{LEAF} BGP_NEIGHBOR 10.1.0.0")],
    ),
    "local address of nobody": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, local_addr="10.1.7.0"),
        [("PF067", "error", f"{OWN} local_addr")],
    ),
    "local address of another link": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, local_addr="10.1.0.2"),
        [("PF067", "error", f"{OWN} local_addr")],
    ),
    "hold time": (_set(LEAF, "BGP_NEIGHBOR", PEER, holdtime="180"), [("PF069", "warning", f"{OWN} holdtime")]),
    "no hold time at one end": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, holdtime="0"),
        [("PF069", "warning", "spine0 BGP_NEIGHBOR 10.1.0.0 holdtime")],
    ),
    "short hold time": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, holdtime="2"),
        [("PF069", "warning", f"{OWN} holdtime"), ("PF069", "warning", "spine0 BGP_NEIGHBOR 10.1.0.0 holdtime")],
    ),
    "keepalive above hold time": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, keepalive="10"), [("PF069", "warning", f"{OWN} holdtime")]),
    "BFD at one end": (
        _set("spine0", "BGP_NEIGHBOR", "10.1.0.0", bfd="true"), [("PF069", "warning", f"{OWN} bfd")]),
    "one path": (
        _set(LEAF, "BGP_GLOBALS_AF", "default|ipv4_unicast", max_ebgp_paths="1"),
        [("PF068", "warning", f"{LEAF} BGP_GLOBALS_AF default|ipv4_unicast max_ebgp_paths")],
    ),
    "no multipath over other ASes": (
        _set(LEAF, "BGP_GLOBALS", "default", local_asn="65000", load_balance_mp_relax="false"),
        [("PF068", "warning", f"{LEAF} BGP_GLOBALS default load_balance_mp_relax")],
    ),
    "AS that is no number": (
        _set(LEAF, "BGP_NEIGHBOR", PEER, asn="AS65002"),
        [("PF001", "error", f"{OWN} asn"), ("PF066", "error", f"{OWN} asn")],
    ),
    "field misspelt": (_set(LEAF, "BGP_NEIGHBOR", PEER, hold_time="10"), [("PF004", "warning", f"{OWN} hold_time")]),
    "route map that does not exist": (
        _set(LEAF, "BGP_NEIGHBOR_AF", f"default|{PEER}|ipv4_unicast", route_map_in="FROM_SPINE"),
        [("PF002", "error", f"{LEAF} BGP_NEIGHBOR_AF default|{PEER}|ipv4_unicast route_map_in")],
    ),
    "prefix set that does not exist": (
        _set(LEAF, "ROUTE_MAP", "IN|10", match_prefix_set="HOSTS"),
        [("PF002", "error", f"{LEAF} ROUTE_MAP IN|10 match_prefix_set")],
    ),
    "length of a prefix": (
        _rename(LEAF, "INTERFACE", f"{ETH}|10.1.0.0/31", f"{ETH}|10.1.0.0/32"),
        [("PF064", "error", f"{LEAF} INTERFACE {ETH}|10.1.0.0/32"), ("PF067", "error", OWN)],
    ),
    "address at one end": (
        _drop(LEAF, "INTERFACE", f"{ETH}|10.1.0.0/31"),
        [("PF064", "error", f"{LEAF} INTERFACE {ETH}"), ("PF067", "error", f"{OWN} local_addr")],
    ),
    "subnets that overlap": (
        _rename(LEAF, "VLAN_INTERFACE", "Vlan10|10.2.0.1/28", "Vlan10|10.1.0.30/27"),
        [("PF064", "warning", f"{LEAF} INTERFACE Ethernet4|10.1.0.0/31"),
         ("PF064", "warning", f"{LEAF} INTERFACE Ethernet8|10.1.0.2/31"),
         ("PF064", "error", "host0 address 10.2.0.2/28 eth0"),
         ("PF064", "error", "host0 route 0.0.0.0/0 eth0 via")],
    ),
    "wide loopback": (
        _rename(LEAF, "LOOPBACK_INTERFACE", "Loopback0|10.255.0.0/32", "Loopback0|10.255.0.0/24"),
        [("PF064", "warning", f"{LEAF} LOOPBACK_INTERFACE Loopback0|10.255.0.0/24")],
    ),
    "loopback of another": (
        _rename(LEAF, "LOOPBACK_INTERFACE", "Loopback0|10.255.0.0/32", "Loopback0|10.255.0.1/32"),
        [("PF064", "error", "leaf1 LOOPBACK_INTERFACE Loopback0|10.255.0.1/32")],
    ),
    "gateway with another prefix": (
        _rename(LEAF, "VLAN_INTERFACE", "Vlan10|10.2.0.1/28", "Vlan10|10.2.0.1/30"),
        [("PF064", "error", "host0 address 10.2.0.2/28 eth0")],
    ),
    "gateway gone": (
        _drop(LEAF, "VLAN_INTERFACE", "Vlan10|10.2.0.1/28"), [("PF064", "error", "host0 route 0.0.0.0/0 eth0 via")]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_at_its_place(tmp_path, name):
    change, wanted = FAULTS[name]
    devices = clos()
    for table in ("BGP_GLOBALS_AF", "BGP_GLOBALS", "BGP_NEIGHBOR_AF", "ROUTE_MAP"):
        devices[LEAF][table] = {}
    change(devices)
    devices[LEAF] = {table: rows for table, rows in devices[LEAF].items() if rows}
    assert found_in(judged(written(devices, tmp_path, HOSTS))) == set(wanted)


@pytest.mark.parametrize(
    "name",
    [
        "AS of the neighbour",
        "own AS",
        "session at one end",
        "session shut",
        "name of another",
        "one path",
        "local address of nobody",
        "local address of another link",
        "AS that is no number",
    ],
)
def test_patches_lead_back(tmp_path, name):
    devices = clos()
    devices[LEAF] |= {"BGP_GLOBALS_AF": {"default|ipv4_unicast": {"max_ebgp_paths": "2"}}}
    wanted = copy.deepcopy(devices[LEAF])
    FAULTS[name][0](devices)
    fixed = fix(judged(written(devices, tmp_path, HOSTS)))
    assert fixed.after.findings == []
    now = fixed.after.reading.databases[LEAF].tables
    for row in now["BGP_NEIGHBOR"].values():
        row.pop("admin_status", None)
    assert now == wanted


HOSTS_WITH_FAULTS = {
    "address of another host": (("host1", "10.2.0.2/28", "10.2.1.1"), {"address 10.2.0.2/28 eth0"}),
    "length of a prefix": (("host1", "10.2.1.2/24", "10.2.1.1"), {"address 10.2.1.2/24 eth0"}),
    "gateway that nobody is": (("host1", "10.2.1.2/28", "10.2.1.9"), {"route 0.0.0.0/0 eth0 via"}),
}


@pytest.mark.parametrize("name", HOSTS_WITH_FAULTS)
def test_a_host_outside_of_its_subnet(tmp_path, name):
    host, wanted = HOSTS_WITH_FAULTS[name]
    report = judged(written(clos(), tmp_path, (HOSTS[0], host)))
    assert found_in(report) == {("PF064", "error", f"host1 {place}") for place in wanted}


def _both(devices, change):
    for name, peer in ((LEAF, PEER), ("spine0", "10.1.0.0")):
        change(devices[name], peer)


def _sessions_of_loopbacks(devices):
    for name, far, asn, peer, own in ((LEAF, "spine0", "65002", 2, 0), ("spine0", LEAF, "65000", 0, 2)):
        row = {"asn": asn, "name": far, "local_addr": f"10.255.0.{own}"}
        devices[name]["BGP_NEIGHBOR"][f"10.255.0.{peer}"] = row


def _neighbours_from_a_range(devices):
    del devices["spine0"]["BGP_NEIGHBOR"]["10.1.0.0"]
    devices["spine0"]["BGP_PEER_RANGE"] = {"LEAVES": {"name": "LEAVES", "ip_range": ["10.1.0.0/24"]}}


def _router_without_files(devices):
    spine = devices["spine0"]
    spine["PORT"]["Ethernet100"] = {"speed": "100000", "lanes": "100", "admin_status": "up"}
    spine["INTERFACE"] |= {"Ethernet100": {}, "Ethernet100|192.0.2.0/31": {}}
    spine["BGP_NEIGHBOR"]["192.0.2.1"] = {"asn": "64999", "name": "edge", "local_addr": "192.0.2.0"}


def _addresses_in_other_files(devices):
    for table in ("INTERFACE", "VLAN_INTERFACE"):
        del devices[LEAF][table], devices["leaf1"][table]
    for spine in ("spine0", "spine1"):
        del devices[spine]["INTERFACE"]


HARMLESS = {
    "other timers at both ends": lambda d: _both(d, lambda t, peer: t["BGP_NEIGHBOR"][peer].update(holdtime="9")),
    "BFD at both ends": lambda d: _both(d, lambda t, peer: t["BGP_NEIGHBOR"][peer].update(bfd="true")),
    "a session down at both ends": lambda d: _both(d, lambda t, p: t["BGP_NEIGHBOR"][p].update(admin_status="down")),
    "sessions between loopbacks": _sessions_of_loopbacks,
    "neighbours from a range": _neighbours_from_a_range,
    "a router without files": _router_without_files,
    "addresses in other files": _addresses_in_other_files,
    "routing in other files": lambda d: (
        d[LEAF]["DEVICE_METADATA"]["localhost"].update(docker_routing_config_mode="split"),
        d[LEAF].pop("BGP_NEIGHBOR")),
    "one AS for all spines": lambda d: [
        d["spine1"]["DEVICE_METADATA"]["localhost"].update(bgp_asn="65002"),
        *(d[f"leaf{i}"]["BGP_NEIGHBOR"][f"10.1.0.{4 * i + 3}"].update(asn="65002") for i in range(2))],
    "an address of another VRF": lambda d: d[LEAF]["INTERFACE"].update(
        {"Ethernet12": {"vrf_name": "Vrf1"}, "Ethernet12|10.1.0.0/31": {}}),
    "addresses of IPv6": lambda d: (
        d[LEAF]["INTERFACE"].update({f"{ETH}|fc00::1/126": {}}),
        d["spine0"]["INTERFACE"].update({"Ethernet0|fc00::2/126": {}})),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change(tmp_path, name):
    devices = clos()
    HARMLESS[name](devices)
    devices[LEAF]["PORT"]["Ethernet12"] = {"speed": "100000", "lanes": "12", "admin_status": "up"}
    devices[LEAF]["VRF"] = {"Vrf1": {}}
    hosts = () if name == "addresses in other files" else HOSTS
    report = judged(written(devices, tmp_path, hosts))
    assert [f"{f.code} {f.place}: {f.message}" for f in report.findings] == []


def test_a_port_channel_with_addresses_at_one_end(tmp_path):
    devices = lint_fabrics.bundled(2, 2, 1)
    rows = devices["leaf0"]["PORTCHANNEL_INTERFACE"]
    del rows[next(key for key in rows if key.startswith("PortChannel1|"))]
    report = judged(lint_fabrics.write(devices, tmp_path))
    assert found_in(report) == {("PF064", "error", "leaf0 PORTCHANNEL_INTERFACE PortChannel1")}


def test_two_hosts_with_one_hostname(tmp_path):
    written(clos(), tmp_path, HOSTS)
    (tmp_path / "host1" / "hostname").write_text("host0\n")
    reading = read_fabric([tmp_path])
    assert reading.fabric.hosts.keys() == {"host0", "host1"}
    assert any("is also that of" in note and "read as host1" in note for note in reading.fabric.notes)


def test_numbers_of_an_as():
    assert [bgp.as_number(text) for text in ("65000", "1.10", "0", "4294967296", "AS1", "1.70000", None)] == [
        65000, 65546, None, None, None, None, None,
    ]  # fmt: skip
