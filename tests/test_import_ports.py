"""`import fabric`: servers with several ports are one host, with the bond of their files or of their switches."""

import json
import tomllib

import lint_fabrics
import lint_pairs
import pytest
from pauseframe import run
from pauseframe.devices.read import read_fabric
from pauseframe.imports.fabric import import_fabric
from pauseframe.lint.engine import judge

PAIRS = [(f"leaf{leaf}", f"Ethernet{4 * port}") for port in range(2) for leaf in range(2)]


def dual_homed(folder):
    """Two leaves, two spines, and two servers with a port at each leaf."""
    devices = lint_fabrics.clos(2, 2, 2)
    for leaf in range(2):
        for port in range(2):
            row = {"name": f"server{port}", "port": f"eth{leaf}"}
            devices[f"leaf{leaf}"]["DEVICE_NEIGHBOR"][f"Ethernet{4 * port}"] = row
    return devices, folder


def scenario_of(devices, folder):
    found = import_fabric(read_fabric([lint_fabrics.write(devices, folder)]))
    return tomllib.loads(found.toml), found


def bundle(devices, **row):
    """A port channel at each leaf to each server."""
    for name, port in PAIRS:
        tables, channel = devices[name], f"PortChannel{int(port.removeprefix('Ethernet')) // 4 + 1}"
        tables.setdefault("PORTCHANNEL", {})[channel] = {"admin_status": "up", **row}
        tables.setdefault("PORTCHANNEL_MEMBER", {})[f"{channel}|{port}"] = {}


def test_ports_of_one_server_are_one_host(tmp_path):
    scenario, found = scenario_of(*dual_homed(tmp_path))
    assert scenario["topology"]["hosts"] == ["server0", "server1"]
    links = [link for link in scenario["topology"]["links"] if "server0" in link["ends"]]
    ports = sorted(link["ports"][link["ends"].index("server0")] for link in links)
    assert ports == ["eth0", "eth1"]
    assert scenario["host"]["port_choice"] == "802.3ad"
    assert any("server0: no file tells how it uses its 2 ports" in text for text in found.scope.account.assumed)
    used = {row["port"] for row in run(found.toml, progress=False).ports}
    assert {"server0:eth0", "server0:eth1"} & used


def test_channels_to_a_server_are_a_bond_with_their_rate(tmp_path):
    devices, folder = dual_homed(tmp_path)
    bundle(devices, fast_rate="true")
    host = scenario_of(devices, folder)[0]["host"]
    assert (host["port_choice"], host["lacp_rate"]) == ("802.3ad", "fast")


def test_mux_cables_are_active_standby(tmp_path):
    """Both ToRs name the same port of the server, as SONiC's DEVICE_NEIGHBOR does."""
    devices, folder = dual_homed(tmp_path)
    for name, port in PAIRS:
        devices[name]["DEVICE_NEIGHBOR"][port]["port"] = "eth0"
        devices[name].setdefault("MUX_CABLE", {})[port] = {"state": "auto", "server_ipv4": "192.168.0.2/32"}
    scenario, _ = scenario_of(devices, folder)
    assert scenario["topology"]["hosts"] == ["server0", "server1"]
    assert scenario["host"]["port_choice"] == "mux"
    legs = [link["ports"] for link in scenario["topology"]["links"] if "server1" in link["ends"]]
    assert sorted(port for ports in legs for port in ports if port.startswith("eth")) == ["eth0", "eth0.leaf1"]


BONDS = {
    "ip": {
        "ip-link.json": json.dumps(
            [
                {"ifname": "eth0", "link_type": "ether", "mtu": 9000, "master": "bond0"},
                {"ifname": "eth1", "link_type": "ether", "mtu": 9000, "master": "bond0"},
                {
                    "ifname": "bond0",
                    "link_type": "ether",
                    "linkinfo": {
                        "info_kind": "bond",
                        "info_data": {
                            "mode": "802.3ad",
                            "miimon": 50,
                            "xmit_hash_policy": "layer2+3",
                            "ad_lacp_rate": "fast",
                        },
                    },
                },
            ]
        )
    },
    "netplan": {
        "netplan.yaml": """network:
  version: 2
  ethernets: {eth0: {mtu: 9000}, eth1: {mtu: 9000}}
  bonds:
    bond0:
      interfaces: [eth0, eth1]
      parameters: {mode: 802.3ad, mii-monitor-interval: 50, transmit-hash-policy: layer2+3, lacp-rate: fast}
"""
    },
    "networkd": {
        "networkd/10-bond0.netdev": "[NetDev]\nName=bond0\nKind=bond\n[Bond]\nMode=802.3ad\n"
        "MIIMonitorSec=50ms\nTransmitHashPolicy=layer2+3\nLACPTransmitRate=fast\n",
        "networkd/20-eth0.network": "[Match]\nName=eth0\n[Network]\nBond=bond0\n",
        "networkd/20-eth1.network": "[Match]\nName=eth1\n[Network]\nBond=bond0\n",
    },
    "script": {
        "netplan.yaml": "network: {ethernets: {eth0: {mtu: 9000}, eth1: {mtu: 9000}}}\n",
        "setup.sh": "ip link add bond0 type bond mode 802.3ad miimon 50 xmit_hash_policy layer2+3 lacp_rate fast\n"
        "ip link set eth0 master bond0\nip link set dev eth1 master bond0\n",
    },
}


@pytest.mark.parametrize("form", BONDS)
def test_bonds_of_hosts_decide(tmp_path, form):
    devices, folder = dual_homed(tmp_path)
    lint_fabrics.write(devices, folder)
    for host in ("server0", "server1"):
        for name, text in BONDS[form].items():
            (folder / host / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / host / name).write_text(text)
    host = tomllib.loads(import_fabric(read_fabric([folder])).toml)["host"]
    assert {key: host[key] for key in ("port_choice", "hash_policy", "miimon", "lacp_rate")} == {
        "port_choice": "802.3ad",
        "hash_policy": "layer2+3",
        "miimon": "50 ms",
        "lacp_rate": "fast",
    }


def test_a_spine_without_files_is_a_switch_and_not_a_host(tmp_path):
    devices = lint_fabrics.clos(3, 2, 2)
    del devices["spine1"]
    scenario, found = scenario_of(devices, tmp_path)
    assert "spine1" in scenario["topology"]["switches"]
    assert any(text.startswith("spine1: no file of it") for text in found.scope.account.assumed)
    summary = run(found.toml, progress=False).summary
    assert summary["flows_finished"] == summary["flows_total"]


MUX = """<DeviceMiniGraph><DpgDec><DeviceDataPlaneInfo><PortChannelInterfaces><PortChannel><Name>PortChannel101</Name>
<AttachTo>Ethernet3/1;Ethernet4/1</AttachTo></PortChannel></PortChannelInterfaces></DeviceDataPlaneInfo></DpgDec>
<PngDec><DeviceInterfaceLinks>{links}</DeviceInterfaceLinks><Devices>{devices}</Devices></PngDec>
<DeviceInfos><DeviceInfo><EthernetInterfaces>{ports}</EthernetInterfaces></DeviceInfo></DeviceInfos>
<MetadataDeclaration><DeviceProperty><Name>UpperTOR</Name><Value>tor1</Value></DeviceProperty>
<DeviceProperty><Name>LowerTOR</Name><Value>tor2</Value></DeviceProperty></MetadataDeclaration>
<Hostname>tor1</Hostname><HwSku>Generic</HwSku></DeviceMiniGraph>
"""


def dual_tor_minigraph() -> str:
    def link(kind, *ends):
        names = ("StartDevice", "StartPort", "EndDevice", "EndPort")
        inner = "".join(f"<{name}>{text}</{name}>" for name, text in zip(names, ends, strict=True))
        return f"<DeviceLinkBase><ElementType>{kind}</ElementType>{inner}</DeviceLinkBase>"

    links = [link("DeviceInterfaceLink", f"server{i}", "eth0", "tor1", f"Ethernet{i}/1") for i in (1, 2)]
    links += [link("LogicalLink", f"tor1-server{i}-SC", "U", "tor1", f"Ethernet{i}/1") for i in (1, 2)]
    links += [link("DeviceInterfaceLink", "t1", f"Ethernet{i - 2}", "tor1", f"Ethernet{i}/1") for i in (3, 4)]
    kinds = {"tor1": "ToRRouter", "tor2": "ToRRouter", "t1": "LeafRouter", "server1": "Server", "server2": "Server"}
    devices = [f'<Device type="{kind}"><Hostname>{name}</Hostname></Device>' for name, kind in kinds.items()]
    ports = [f"<EthernetInterface><InterfaceName>Ethernet{i}/1</InterfaceName><Speed>{25_000 if i < 3 else 100_000}"
             "</Speed></EthernetInterface>" for i in range(1, 5)]  # fmt: skip
    return MUX.format(links="".join(links), devices="".join(devices), ports="".join(ports))


def test_a_minigraph_of_a_dual_tor_alone_is_a_fabric(tmp_path):
    file = tmp_path / "minigraph.xml"
    file.write_text(dual_tor_minigraph())
    found = import_fabric(read_fabric([file]))
    scenario = tomllib.loads(found.toml)
    assert set(scenario["topology"]["switches"]) == {"tor1", "tor2", "t1"}
    assert set(scenario["topology"]["hosts"]) == {"server1", "server2"}
    rates = {tuple(link["ends"]): link["rate"] for link in scenario["topology"]["links"]}
    assert rates["server1", "tor1"] == rates["server1", "tor2"] == "25000 Mbps"
    assert sum(link["ends"] == ["t1", "tor2"] for link in scenario["topology"]["links"]) == 2
    assert scenario["host"]["port_choice"] == "mux"
    assert "tor2: no file of it: cabled as tor1, its pair" in found.scope.account.assumed
    assert run(found.toml, progress=False).summary["flows_finished"] == 2


def test_the_hash_of_the_roles_is_that_of_the_scenario(tmp_path):
    """Without a role, seed or function in the files the hash stays ideal."""
    devices = lint_fabrics.clos(2, 2, 2)
    assert scenario_of(devices, tmp_path / "plain")[0]["routing"] == {"kind": "ecmp", "convergence": "0 s"}
    for name, tables in devices.items():
        tables["DEVICE_METADATA"]["localhost"]["type"] = "ToRRouter" if name.startswith("leaf") else "LeafRouter"
        tables["SWITCH_HASH"] = {"GLOBAL": {"ecmp_hash": "SRC_IP,DST_IP", "ecmp_hash_algorithm": "CRC_CCITT"}}
    scenario, found = scenario_of(devices, tmp_path / "roles")
    assert scenario["routing"] == {
        "kind": "ecmp",
        "hash": "crc_ccitt",
        "hash_fields": "addresses",
        "hash_seeds": "tier",
        "hash_offsets": [0, 10],
        "convergence": "0 s",
    }
    assert run(found.toml, progress=False).summary["drops"] == 0
    (tmp_path / "roles" / "leaf0" / "switch.json").write_text(
        json.dumps([{"SWITCH_TABLE:switch": {"ecmp_hash_seed": "7", "ecmp_hash_offset": "3"}, "OP": "SET"}])
    )
    reading = read_fabric([tmp_path / "roles"])
    assert (reading.fabric.switches["leaf0"].hashing.seed, reading.fabric.switches["leaf0"].hashing.offset) == (7, 3)
    assert {one.key for one in import_fabric(reading).scope.account.odd} >= {"ecmp_hash_offset of tier 0"}


def _tunnel_warnings(toml):
    from pauseframe._core import resolve

    return [text for text in resolve(toml).warnings if "tunnel" in text]


def test_a_tunnel_has_the_classes_of_its_map_and_the_proof_agrees_with_lint(tmp_path):
    """With the remap neither lint nor the scenario finds the circle; without it both do."""
    devices = lint_pairs.dual_tor()
    for name, state in (("tor0", "standby"), ("tor1", "active")):
        devices[name]["MUX_CABLE"]["Ethernet4"]["state"] = state
    scenario, found = scenario_of(devices, tmp_path / "mapped")
    assert scenario["host"]["port_choice"] == "mux"
    remap = {row["priority"]: row["outer"] for row in scenario["routing"]["tunnel_remap"]}
    assert (remap[3], remap[4]) == (1, 1)
    assert not any("deadlock" in text for text in _tunnel_warnings(found.toml))
    assert any("can drop packets" in text for text in _tunnel_warnings(found.toml))
    assert run(found.toml, progress=False).tunnels.num_rows > 0
    for name in ("tor0", "tor1"):
        del devices[name]["TUNNEL"]["MuxTunnel0"]["encap_tc_to_dscp_map"]
    scenario, found = scenario_of(devices, tmp_path / "plain")
    assert "tunnel_remap" not in scenario["routing"]
    assert any("tunnels between ToRs can deadlock" in text for text in _tunnel_warnings(found.toml))
    codes = {finding.code for finding in judge(read_fabric([tmp_path / "plain"])).findings}
    assert "PF065" in codes


def test_states_of_mux_cables_say_which_tor_is_active(tmp_path):
    devices = lint_pairs.dual_tor()
    for name, state in (("tor0", "standby"), ("tor1", "active")):
        devices[name]["MUX_CABLE"]["Ethernet4"]["state"] = state
    scenario, _ = scenario_of(devices, tmp_path)
    assert scenario["host"]["mux_active"] == ["server1:eth0.tor1"]


def test_times_of_mux_cables_are_those_of_most_tors(tmp_path):
    devices = lint_pairs.dual_tor()
    for name in ("tor0", "tor1"):
        devices[name]["MUX_LINKMGR"] = {"LINK_PROBER": {"interval_v4": "50", "negative_signal_count": "5"}}
    host = scenario_of(devices, tmp_path / "same")[0]["host"]
    assert (host["link_prober_interval"], host["negative_signal_count"]) == ("50 ms", 5)
    devices["tor1"]["MUX_LINKMGR"]["LINK_PROBER"] |= {"interval_v4": "99999", "suspend_timer": "500"}
    scenario, found = scenario_of(devices, tmp_path / "other")
    assert scenario["host"]["link_prober_interval"] == "50 ms"
    assert [str(odd) for odd in found.scope.account.odd if "interval_v4" in odd.key] == [
        "tor1 MUX_LINKMGR LINK_PROBER interval_v4 99999; the scenario has 50"
    ]
    assert "not held  MUX_LINKMGR suspend_timer" in found.toml


@pytest.mark.parametrize(("rows", "odd"), [({"3": "1", "4": "1"}, 0), ({"3": "3", "4": "1"}, 2)])
def test_buffers_of_a_tunnel_are_those_of_its_outer_class(tmp_path, rows, odd):
    devices = lint_pairs.dual_tor()
    for name in ("tor0", "tor1"):
        devices[name]["TC_TO_QUEUE_MAP"]["TUNNEL"] = devices[name]["TC_TO_PRIORITY_GROUP_MAP"]["TUNNEL"] = dict(rows)
        maps = {"encap_tc_to_queue_map": "TUNNEL", "decap_tc_to_pg_map": "TUNNEL"}
        devices[name]["TUNNEL"]["MuxTunnel0"] |= maps
    _, found = scenario_of(devices, tmp_path)
    assert sum(one.device == "tor0" and one.port == "TUNNEL MuxTunnel0" for one in found.scope.account.odd) == odd
    assert "mapped    TUNNEL encap_tc_to_queue_map" in found.toml


def test_active_active_cables_are_bonds(tmp_path):
    devices = lint_pairs.dual_tor()
    for name in ("tor0", "tor1"):
        for row in devices[name]["MUX_CABLE"].values():
            row["cable_type"] = "active-active"
    assert scenario_of(devices, tmp_path)[0]["host"]["port_choice"] == "xor"


def test_the_peer_links_of_mclag_are_those_of_the_scenario(tmp_path):
    scenario, found = scenario_of(lint_pairs.mclag(), tmp_path)
    assert scenario["routing"]["mlag"] is True
    between = [link for link in scenario["topology"]["links"] if set(link["ends"]) == {"leaf0", "leaf1"}]
    assert len(between) == 2
    result = run(found.toml, progress=False)
    across = [row for row in result.ports if {row["node"], row["peer"]} == {"leaf0", "leaf1"}]
    assert sum(row["tx_packets"] for row in across) == 0
