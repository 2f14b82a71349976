"""Linux devices: the linter reads the output of ip, bridge, dcb and sysctl, and finds its faults."""

import json
import re
import shutil
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.deploy import Settings, write_deployment
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices import linux
from pauseframe.devices.read import DeviceFileError, read_fabric
from pauseframe.examples import HOME
from pauseframe.lint import lint
from test_deploy import planned


def vlan(name, under, number, priority):
    data = {"protocol": "802.1Q", "id": number, "flags": ["REORDER_HDR"], "egress_qos": [{"from": 0, "to": priority}]}
    return {"ifname": name, "link": under, "link_type": "ether", "linkinfo": {"info_kind": "vlan", "info_data": data}}


def host(folder, *, ecn="1", priority=3, dscp=26, pfc=3, rto=5, mtu=9000):
    """A folder in the form of collect.sh."""
    folder.mkdir()
    files = {
        "ip-link.json": [
            {"ifname": "lo", "link_type": "loopback", "mtu": 65536},
            {"ifname": "eth0", "link_type": "ether", "mtu": mtu, "address": "02:00:00:00:00:01"},
            vlan("v100", "eth0", 100, priority),
        ],
        "ip-addr.json": [{"ifname": "v100", "addr_info": [{"family": "inet", "local": "10.1.0.1", "prefixlen": 16}]}],
        "ip-neigh.json": [{"dst": "10.1.0.2", "dev": "v100", "lladdr": "02:00:00:00:00:02", "state": ["PERMANENT"]}],
        "ip-route.json": [
            {"dst": "10.1.0.0/16", "dev": "v100", "metrics": [{"initcwnd": 34, "ecn": None, "congestion": "dctcp"} | (
                {"rto_min": rto} if rto else {})]},
        ],
        "dcb-pfc-eth0.json": {"pfc_cap": 8, "prio_pfc": [n == pfc for n in range(8)]},
        "dcb-app-eth0.json": {"dscp_prio": [[dscp, pfc]]},
        "lldp.json": {"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "leaf"}]}],
                                               "port": [{"id": [{"type": "ifname", "value": "Ethernet0"}]}]}]}]},
    }  # fmt: skip
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "sysctl.txt").write_text(f"net.ipv4.tcp_ecn = {ecn}\nnet.ipv4.tcp_rmem = 4096\t131072\t33554432\n")
    return folder


def leaf(folder, *, pfc="3", dscp="26"):
    folder.mkdir()
    same = {str(n): str(n) for n in range(8)}
    tables = {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf"}},
        "PORT": {"Ethernet0": {"speed": "100000", "mtu": "9100"}},
        "DSCP_TO_TC_MAP": {"m": {"0": "0", dscp: "3"}},
        "DOT1P_TO_TC_MAP": {"m": same},
        "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "m", "dot1p_to_tc_map": "m", "pfc_enable": pfc}},
    }
    (folder / "config_db.json").write_text(json.dumps(tables))


FAULTS = [
    ({}, {}, set()),
    ({"ecn": "0"}, {}, {"PF070"}),
    ({"rto": None}, {}, {"PF071"}),
    ({"rto": 200}, {}, {"PF071"}),
    ({"dscp": 24}, {}, {"PF022"}),
    ({}, {"dscp": "3"}, {"PF022"}),
    ({"pfc": 4}, {}, {"PF052"}),
    ({}, {"pfc": ""}, {"PF052"}),
    ({"mtu": 9216}, {}, {"PF051"}),
]


@pytest.mark.parametrize(("of_host", "of_leaf", "found"), FAULTS, ids=str)
def test_hosts_and_their_switch(tmp_path, of_host, of_leaf, found):
    (tmp_path / "all").mkdir()
    host(tmp_path / "all" / "h0", **of_host)
    leaf(tmp_path / "all" / "leaf", **of_leaf)
    report = lint([tmp_path / "all"])
    assert [str(link.b) for link in report.reading.fabric.links] == ["leaf:Ethernet0"]
    codes = {finding.code for finding in report.findings}
    assert found <= codes
    assert codes <= found | {"PF011"}  # rules about missing groups are not tested here


def test_what_is_read_of_a_host(tmp_path):
    fabric = read_fabric([host(tmp_path / "h0")]).fabric
    nic = fabric.hosts["h0"].nics["eth0"]
    assert (nic.mtu, nic.pfc, nic.dscp_to_priority, nic.trust) == (9000, frozenset({3}), {26: 3}, "dscp")
    own = nic.vlans[100]
    assert (own.egress, own.addresses, own.neighbours) == ({0: 3}, ["10.1.0.1/16"], {"10.1.0.2": "02:00:00:00:00:02"})
    route = fabric.hosts["h0"].routes[0]
    assert (route.congctl, route.initcwnd, route.rto_min_ms, route.ecn) == ("dctcp", 34, 5.0, True)


def test_faults_in_a_deployed_linux_fabric(tmp_path):
    plan = planned(tmp_path / "plan", "jellyfish:switches=6,network_ports=3,hosts_per_switch=1", vlans=2)
    write_deployment(plan, tmp_path / "out", Settings(target="linux"))
    switch = tmp_path / "out" / "switches" / "s1"
    cases = [
        ("ip-link.json", '"flood": false', '"flood": true', {"PF062"}),
        ("dcb-pfc-swp2.json", "true", "false", {"PF052"}),
        ("bridge-fdb.json", '"vlan": 100', '"vlan": 99', {"PF061"}),
    ]
    for name, old, new, codes in cases:
        before = (switch / name).read_text()
        (switch / name).write_text(before.replace(old, new))
        assert codes <= {finding.code for finding in lint([tmp_path / "out"]).findings}, name
        (switch / name).write_text(before)
    network = tmp_path / "out" / "hosts" / "host0" / "networkd" / "41-pf100.netdev"
    before = network.read_text()
    network.write_text(before.replace("0-3", "0-5"))
    found = {(f.code, f.place.device) for f in lint([tmp_path / "out"]).findings}
    assert found == {("PF073", "host0"), ("PF075", "host0")}


@pytest.mark.parametrize(("rto", "found"), [(5, 5.0), ("7ms", 7.0), (False, None), (10**400, None), ([], None)])
def test_timers_of_routes(tmp_path, rto, found):
    """A value that is not a time is ignored, whatever its type."""
    folder = tmp_path / "h"
    host(folder)
    rows = [{"dst": "10.1.0.0/16", "dev": "v100", "metrics": [{"congestion": "dctcp", "rto_min": rto}]}]
    (folder / "ip-route.json").write_text(json.dumps(rows))
    assert [route.rto_min_ms for route in read_fabric([folder]).fabric.hosts["h"].routes] == [found]


ONE_VALUE = [  # Pairs of (file, regular expression, replacement, places of the findings).
    ("netplan.yaml", r"mtu: 9000", "mtu: 9600", {"PF075 host0 link eth1 mtu"}),
    ("netplan.yaml", r"id: 101", "id: 4000", {"PF075 host0 vlan pf101 id"}),
    ("netplan.yaml", r"10\.1\.0\.1/16", "10.1.0.9/16", {
        "PF075 host0 address 10.1.0.1/16 pf100", "PF075 host0 address 10.1.0.9/16 pf100"}),
    ("setup.sh", r"mtu 9000 up", "mtu 9600 up", {"PF075 host0 link eth1 mtu"}),
    ("setup.sh", r" id 100\b", " id 4000", {"PF075 host0 vlan pf100 id"}),
    ("setup.sh", r"egress-qos-map 0:3", "egress-qos-map 0:5", {"PF075 host0 vlan pf100 egress-qos-map"}),
    ("setup.sh", r"neigh replace 10\.1\.0\.2 .*\n", "", {"PF075 host0 neighbour 10.1.0.2 pf100"}),
    ("setup.sh", r"02:00:00:00:00:02", "02:00:00:00:00:12", {"PF075 host0 neighbour 10.1.0.2 pf100"}),
    ("setup.sh", r"rto_min 5ms", "rto_min 50ms", {"PF075 host0 route 10.1.0.0/16 pf100 rto_min"}),
    ("setup.sh", r"congctl dctcp", "congctl cubic", {"PF075 host0 route 10.1.0.0/16 pf100 congctl"}),
    ("setup.sh", r"tcp_ecn=1", "tcp_ecn=0", {"PF075 host0 sysctl net.ipv4.tcp_ecn value"}),
    ("setup.sh", r"3:on", "3:off", {"PF052 host0 dcb eth1", "PF075 host0 mlnx_qos eth1 prio-pfc"}),
    ("setup.sh", r"--pfc 0,0,0,1", "--pfc 0,0,0,0", {"PF075 host0 mlnx_qos eth1 prio-pfc"}),
    ("setup.sh", r" rto_min 5ms", "", {"PF075 host0 route 10.1.0.0/16 pf100 rto_min"}),
    ("sysctl.conf", r"(tcp_ecn ?=) ?1", r"\1 2", {"PF075 host0 sysctl net.ipv4.tcp_ecn value"}),
    ("networkd/40-pauseframe.network", r"MTUBytes=9000", "MTUBytes=1500", {
        "PF075 host0 link eth1 mtu"}),
]  # fmt: skip


COLLECT = (Path(linux.__file__).parent / "collect.sh").read_text()


def test_what_collect_writes_is_read():
    files = set(re.findall(r'"\$out/([\w.-]+)"', COLLECT)) | set(re.findall(r"into ([a-z]+[.][a-z]+)", COLLECT))
    files |= {f"dcb-{kind}-eth0.json" for kind in re.findall(r"for kind in ([\w ]+);", COLLECT)[0].split()}
    files |= {"ethtool-eth0.txt"}
    assert len(files) > 12
    assert [name for name in files if not linux.is_read(Path("host0") / name)] == []


@pytest.mark.parametrize("name", ["dctcp", "storage"])
def test_collect_gathers_each_sysctl_that_deploy_writes(tmp_path, name):
    text = (HOME / name / "fabric.toml").read_text()
    deploy_scenario(pf.Scenario.from_toml(text).resolve(), tmp_path / "out", Settings())
    written = re.findall(r"^net\.ipv4\.tcp_(\w+)", (tmp_path / "out/hosts/host0/sysctl.conf").read_text(), re.MULTILINE)
    keys = re.findall(r"for key in ([\w \\\n]+);", COLLECT)[0].split()
    assert written
    assert set(written) <= set(keys)


NFT = """{"nftables": [{"metainfo": {"version": "1.1.0"}}, {"rule": {"family": "inet", "table": "pauseframe", "expr": [
 {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": %s}},
 {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}},
 {"mangle": {"key": {"payload": {"protocol": "ip", "field": "dscp"}}, "value": %s}}]}}]}"""


@pytest.mark.parametrize(
    ("source", "value", "found"),
    [
        ('"10.1.0.1"', "8", {"10.1.0.1": 8}),
        ('"10.1.0.1"', '"cs1"', {"10.1.0.1": 8}),
        ('"10.1.0.1"', '"af31"', {"10.1.0.1": 26}),
        ('{"set": ["10.1.0.1", "10.1.0.2"]}', '"ef"', {"10.1.0.1": 46, "10.1.0.2": 46}),
        ('{"prefix": {"addr": "10.1.0.0", "len": 16}}', "8", {}),
        ('"10.1.0.1"', "64", {}),
    ],
)
def test_code_points_of_nftables(tmp_path, source, value, found):
    folder = host(tmp_path / "h0")
    (folder / "nft.json").write_text(NFT % (source, value))
    assert read_fabric([folder]).fabric.hosts["h0"].code_points == found


def test_speed_rules_registers_and_offloads_of_a_collected_host(tmp_path):
    (tmp_path / "all").mkdir()
    folder = host(tmp_path / "all" / "h0")
    leaf(tmp_path / "all" / "leaf")
    (folder / "speed.txt").write_text("eth0 25000\nlo -1\n")
    (folder / "ip-rule.json").write_text(
        '[{"priority": 0, "src": "all", "table": "local"}, {"src": "10.1.0.1", "table": "101"}]'
    )
    (folder / "roce.txt").write_text(
        "/sys/class/net/eth0/ecn/roce_rp/rpg_ai_rate 5\n"
        "/sys/class/net/eth0/device/infiniband/mlx5_0/tc/1/traffic_class Global tclass=106\n"
    )
    (folder / "ethtool-eth0.txt").write_text("Features for eth0:\ntcp-segmentation-offload: off [fixed]\n")
    report = lint([tmp_path / "all"])
    own = report.reading.fabric.hosts["h0"]
    assert (own.rules, own.registers, own.roce_dscp) == ({"10.1.0.1": 101}, {"RPG_AI_RATE": 5}, 26)
    assert own.nics["eth0"].offloads == {"tso": False}
    assert [(str(f.place), f.message) for f in report.findings if f.code == "PF050"] == [
        ("h0 link eth0", "25000 Mb/s here, 100000 at the switch")
    ]


@pytest.fixture(scope="module")
def rollout(tmp_path_factory):
    root = tmp_path_factory.mktemp("rollout")
    plan = planned(root / "plan", "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2", "up_down", 1, 2)
    write_deployment(plan, root / "out", Settings(hosts="dctcp_plus"))
    assert lint([root / "out"]).findings == []
    return root / "out"


@pytest.mark.parametrize(("name", "old", "new", "found"), ONE_VALUE, ids=[f"{one[0]}-{one[1]}" for one in ONE_VALUE])
def test_each_value_of_a_deployed_host(rollout, name, old, new, found):
    path = rollout / "hosts" / "host0" / name
    before = path.read_text()
    after = re.sub(old, new, before, count=1)
    assert after != before
    path.write_text(after)
    report = lint([rollout])
    path.write_text(before)
    got = {f"{f.code} {place}" for f in report.findings for place in f.places}
    assert found <= got
    assert {text.split()[0] for text in got} <= {text.split()[0] for text in found} | {"PF051", "PF073", "PF074"}


@pytest.mark.parametrize(
    ("keep", "found"), [("netplan.yaml", {"PF051", "PF073", "PF074"}), ("setup.sh", {"PF051"}), ("networkd", {"PF051"})]
)
def test_a_host_by_one_of_its_files(rollout, tmp_path, keep, found):
    """The file that is left describes the host: its MTU is too large, and netplan has no maps or neighbours."""
    shutil.copytree(rollout, tmp_path / "out")
    for host0 in (tmp_path / "out" / "hosts").iterdir():
        kept = [host0 / keep, *(host0 / keep).glob("*")] + ([host0 / "netplan.yaml"] if keep == "setup.sh" else [])
        for file in [path for path in host0.rglob("*") if path.is_file() and path not in kept]:
            file.unlink()
        if keep != "networkd":
            (host0 / "networkd").rmdir()
        for file in (path for path in kept if path.is_file()):
            file.write_text(re.sub(r"(mtu:? |MTUBytes=)9000", r"\g<1>9600", file.read_text()))
    report = lint([tmp_path / "out"])
    assert len(report.reading.fabric.hosts) == 4
    assert {finding.code for finding in report.findings} == found


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("a: [", False),
        ("{" * 5000, False),
        ("x: " + "9" * 5000, False),
        ("&a [*a]", True),
        ("network: 3", True),
        ("network: {vlans: [1], ethernets: {eth0: 3}}", True),
    ],
    ids=range(6),
)
def test_hostile_netplan_files(tmp_path, text, valid):
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "netplan.yaml").write_text(text)
    if valid:
        assert lint([tmp_path]).findings == []
    else:
        with pytest.raises(DeviceFileError, match="not YAML"):
            lint([tmp_path])


def test_a_script_that_is_not_ours_is_read_as_far_as_it_is_literal(tmp_path):
    folder = host(tmp_path / "h0")
    (folder / "setup.sh").write_text(
        "ip link set dev eth0 mtu\nip\nip link\nneigh\necho 'ip\nip link set dev eth0 mtu $mtu\n"
    )
    assert "PF075" not in {finding.code for finding in lint([tmp_path]).findings}
    (folder / "setup.sh").write_text("n=eth0\nip link set dev $n mtu 1500\n")
    assert [str(f.place) for f in lint([tmp_path]).findings if f.code == "PF075"] == ["h0 link eth0 mtu"]
