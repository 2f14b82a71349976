"""Ports, channels, VLANs, gateways and buffers that carry nothing: at switches, hosts, and both leaves of a pair."""

import json
import shutil

import lint_collected
import lint_fabrics
import lint_pairs
import lint_vendors
import pauseframe as pf
import pytest
from pauseframe.deploy import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.examples import HOME
from pauseframe.lint.engine import lint
from pauseframe.lint.fix import fix

BOND = """
name = "bond"
stop = "20 ms"
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 2, ports_per_host = 2, \
link = { rate = "25 Gbps", delay = "25 ns" }, fabric_link = { rate = "100 Gbps", delay = "200 ns" } }
host = { port_choice = "802.3ad", miimon = "100 ms" }
transport = { preset = "roce_dcqcn" }
workload = { kind = "permutation", size = "1 MB" }
"""
CONFIG, UNDERLAY = "config_db.json", "underlay.json"


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    root = tmp_path_factory.mktemp("dead")
    texts = {"roce": (HOME / "roce" / "fabric.toml").read_text(), "bond": BOND}
    for name, text in texts.items():
        deploy_scenario(pf.Scenario.from_toml(text).resolve(), root / name, Settings())
    return root


def found(root, device, file, change):
    """(rule, place) of what is found after a change of a file of a switch."""
    path = root / "switches" / device / file
    tables = json.loads(path.read_text())
    change(tables)
    path.write_text(json.dumps(tables))
    return {(f.code, str(place)) for f in lint([root]).findings for place in f.places}


@pytest.fixture
def roce(bases, tmp_path):
    return shutil.copytree(bases / "roce", tmp_path / "roce")


@pytest.fixture
def bond(bases, tmp_path):
    return shutil.copytree(bases / "bond", tmp_path / "bond")


@pytest.mark.parametrize("profile", ["ingress_lossy_profile", "egress_lossy_profile"])
@pytest.mark.parametrize(("limit", "wrong"), [("0", True), ("500", True), ("1500000", False)])
def test_a_limit_below_one_packet(bond, profile, limit, wrong):
    def change(tables):
        tables["BUFFER_PROFILE"][profile] = {"pool": tables["BUFFER_PROFILE"][profile]["pool"], "size": "0"}
        tables["BUFFER_PROFILE"][profile]["static_th"] = limit

    place = ("PF029", f"leaf0 BUFFER_PROFILE {profile} static_th")
    assert (place in found(bond, "leaf0", CONFIG, change)) == wrong


def test_a_zero_profile_of_a_port_that_is_down(bond):
    """SONiC puts ports that are down on profiles of no bytes."""

    def change(tables):
        pool = tables["BUFFER_PROFILE"]["ingress_lossy_profile"]["pool"]
        tables["BUFFER_PROFILE"]["ingress_lossy_pg_zero_profile"] = {"pool": pool, "size": "0", "static_th": "0"}
        tables["PORT"]["Ethernet60"] = {"lanes": "60,61,62,63", "speed": "25000", "admin_status": "down"}
        tables["BUFFER_PG"]["Ethernet60|0"] = {"profile": "ingress_lossy_pg_zero_profile"}

    assert "PF029" not in {code for code, _ in found(bond, "leaf0", CONFIG, change)}


def test_a_port_that_is_down_at_a_host(roce):
    place = ("PF059", "leaf0 PORT Ethernet0 admin_status")
    got = found(roce, "leaf0", CONFIG, lambda tables: tables["PORT"]["Ethernet0"].update(admin_status="down"))
    assert got == {place}


def test_a_port_that_both_ends_shut_down(roce):
    script = roce / "hosts" / "host0" / "setup.sh"
    text = script.read_text()
    script.write_text(text.replace("ip link set dev eth1 mtu 4200 up", "ip link set dev eth1 mtu 4200 down"))
    assert {(f.code, str(f.place)) for f in lint([roce]).findings} == {("PF059", "host0 link eth1")}
    got = found(roce, "leaf0", CONFIG, lambda tables: tables["PORT"]["Ethernet0"].update(admin_status="down"))
    assert not any(code == "PF059" for code, _ in got)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], ""),
        (["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"], "no carrier when it was collected, up at leaf0:Ethernet0"),
        (["BROADCAST", "MULTICAST"], "down, up at leaf0:Ethernet0"),
        ([], ""),
    ],
)
def test_the_state_of_a_collected_interface(roce, tmp_path, flags, message):
    folder = lint_collected.collected(roce / "hosts" / "host0", tmp_path / "host0")
    rows = json.loads((folder / "ip-link.json").read_text())
    (folder / "ip-link.json").write_text(json.dumps([row | {"flags": flags} for row in rows]))
    shutil.rmtree(roce / "hosts" / "host0")
    shutil.copytree(folder, roce / "hosts" / "host0")
    assert [f.message for f in lint([roce]).findings if f.code == "PF059"] == ([message] if message else [])


CHANNEL = "Vlan1000|PortChannel1"
STATES = [
    (lambda t: t["PORTCHANNEL"]["PortChannel1"].update(admin_status="down"), "PF059",
     "PORTCHANNEL PortChannel1 admin_status"),
    (lambda t: t["VLAN_MEMBER"].pop(CHANNEL), "PF058", f"VLAN_MEMBER {CHANNEL}"),
    (lambda t: t["VLAN_MEMBER"][CHANNEL].update(tagging_mode="tagged"), "PF058", f"VLAN_MEMBER {CHANNEL} tagging_mode"),
]  # fmt: skip


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("change", "code", "place"), STATES)
def test_a_channel_to_a_host(bond, change, code, place, both):
    if both:
        found(bond, "leaf1", UNDERLAY, change)
    expected = {(code, f"{leaf} {place}") for leaf in ("leaf0", "leaf1")[: 1 + both]}
    assert found(bond, "leaf0", UNDERLAY, change) == expected


@pytest.mark.parametrize("leaf", ["leaf0", "leaf1"])
def test_a_gateway_at_one_of_two_leaves(bond, leaf):
    gateway = next(
        key for key in json.loads((bond / "switches" / leaf / UNDERLAY).read_text())["VLAN_INTERFACE"] if "/" in key
    )
    got = found(bond, leaf, UNDERLAY, lambda tables: tables["VLAN_INTERFACE"].pop(gateway))
    assert got == {("PF085", f"{leaf} VLAN_INTERFACE {gateway}")}
    assert fix(lint([bond])).after.findings == []


def test_rows_of_channels_have_the_channels_names(bond):
    got = found(bond, "leaf0", UNDERLAY, lambda tables: tables["VLAN_MEMBER"].pop("Vlan1000|PortChannel0"))
    assert got == {("PF057", "leaf1 VLAN_MEMBER Vlan1000|PortChannel0")}


@pytest.mark.parametrize("leaf", ["leaf0", "leaf1"])
@pytest.mark.parametrize("what", ["down", "no member", "tagged"])
def test_channels_of_a_pair_to_servers_without_files(tmp_path, leaf, what):
    devices = lint_pairs.mclag()
    for name in ("leaf0", "leaf1"):
        tables = devices[name]
        tables["VLAN"] = {"Vlan10": {"vlanid": "10"}}
        tables["VLAN_MEMBER"] = {f"Vlan10|PortChannel{n}": {"tagging_mode": "untagged"} for n in (1, 2, 3)}
        tables["VLAN_MEMBER"]["Vlan10|PortChannel100"] = {"tagging_mode": "tagged"}
    assert lint([lint_fabrics.write(devices, tmp_path / "right")]).findings == []
    if what == "down":
        devices[leaf]["PORTCHANNEL"]["PortChannel1"]["admin_status"] = "down"
    elif what == "tagged":
        devices[leaf]["VLAN_MEMBER"]["Vlan10|PortChannel1"]["tagging_mode"] = "tagged"
    else:
        del devices[leaf]["VLAN_MEMBER"]["Vlan10|PortChannel1"]
    report = lint([lint_fabrics.write(devices, tmp_path / "wrong")])
    assert {f.code for f in report.findings} == {"PF085"}
    assert what == "tagged" or fix(report).after.findings == []


@pytest.mark.parametrize("vendor", ["nvue", "eos"])
def test_a_port_of_another_vendor_that_is_down_at_a_host(tmp_path, vendor):
    mixed = lint_vendors.Mixed()
    if vendor == "nvue":
        device, port = "cumulus0", "swp1"
        mixed.set(device)["interface"][port]["link"]["state"] = {"down": {}}
    else:
        device, port = "arista0", "Ethernet1"
        mixed.replace(device, f"interface {port}\n", f"interface {port}\n   shutdown\n")
    mixed.write(tmp_path)
    host = tmp_path / "host0"
    host.mkdir()
    (host / "ip-link.json").write_text(json.dumps([{"ifname": "eth0", "link_type": "ether", "mtu": 9000}]))
    rows = [{"name": "eth0", "chassis": [{"name": [{"value": device}]}], "port": [{"id": [{"value": port}]}]}]
    (host / "lldp.json").write_text(json.dumps({"lldp": [{"interface": rows}]}))
    assert [f.place.device for f in lint([tmp_path]).findings if f.code == "PF059"] == [device]


@pytest.mark.parametrize(("value", "codes"), [("enable", {"PF043"}), ("disable", set()), ("on", {"PF001"})])
def test_the_big_red_switch(roce, value, codes):
    """It drops the traffic of all lossless queues; other words do nothing."""
    got = found(roce, "leaf0", CONFIG, lambda tables: tables["PFC_WD"]["GLOBAL"].update(BIG_RED_SWITCH=value))
    assert {code for code, _ in got} == codes
    assert value == "on" or fix(lint([roce])).after.findings == []


def test_a_vlan_that_is_down(roce):
    got = found(roce, "leaf0", UNDERLAY, lambda tables: tables["VLAN"]["Vlan1000"].update(admin_status="down"))
    assert got == {("PF059", "leaf0 VLAN Vlan1000 admin_status")}
    assert fix(lint([roce])).after.findings == []


@pytest.mark.parametrize("far", ["bridge", "host"])
def test_a_port_of_a_linux_bridge_that_is_down(tmp_path, far):
    def device(name, other, *, bridge, down):
        folder = tmp_path / name
        folder.mkdir()
        rows = [{"ifname": f"eth{n}", "link_type": "ether", "mtu": 9000, "flags": ["UP", "LOWER_UP"]} for n in range(2)]
        rows[0]["flags"] = [] if down is None else ["BROADCAST"] if down else ["UP", "LOWER_UP"]
        if bridge:
            for row in rows:
                row["linkinfo"] = {"info_slave_kind": "bridge", "info_slave_data": {}}
            rows.append({"ifname": "br0", "linkinfo": {"info_kind": "bridge", "info_data": {"vlan_filtering": 1}}})
        (folder / "ip-link.json").write_text(json.dumps(rows))
        lldp = [{"name": "eth0", "chassis": [{"name": [{"value": other}]}], "port": [{"id": [{"value": "eth0"}]}]}]
        (folder / "lldp.json").write_text(json.dumps({"lldp": [{"interface": lldp}]}))

    device("one", "two", bridge=True, down=True)
    device("two", "one", bridge=far == "bridge", down=False)
    assert [(f.code, str(f.place)) for f in lint([tmp_path]).findings] == [("PF059", "one link eth0 admin_status")]
