"""From a plan to files and back: the linter finds no fault, the routes are equal, and strange names are harmless."""

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.deploy import DeployError, Settings, read_plan, rollout, write_deployment
from pauseframe.deploy.inventory import read_inventory
from pauseframe.deploy.plan import NEWEST_RELEASE, SONIC_RELEASES
from pauseframe.deploy.sonic import config_db
from pauseframe.devices.files import DeviceFileError
from pauseframe.devices.read import read_fabric
from pauseframe.lint import lint
from pauseframe.lint.design import read_design
from pauseframe.lint.export import export
from pauseframe.lint.yang import validate
from test_fabrics import cli

PLANS = {
    "jellyfish": ("jellyfish:switches=12,network_ports=3,hosts_per_switch=2", "order_pair", 2, 4),
    "leaf-spine": ("leaf_spine:leaves=4,spines=2,hosts_per_leaf=2,rate=25 Gbps,fabric_rate=100 Gbps", "up_down", 1, 2),
    "trees": ("torus:lengths=3x3,hosts_per_switch=1", "edst", 2, None),
    "layers": ("torus:lengths=4x4,hosts_per_switch=1", "lash", 4, None),
}


def planned(folder, topology, engine="order_pair", lanes=2, vlans=4, first=100, json_tables=True):
    fabric = pf.load_topology(topology)
    routes = pf.plan_routes(fabric, engine, lanes=lanes, vlans=vlans, first_vlan=first)
    pf.write_plan(routes, fabric, folder, json_tables=json_tables)
    return folder


def test_a_plan_in_parquet_is_deployed_like_the_same_in_csv(tmp_path):
    fabric = pf.load_topology("jellyfish:switches=12,network_ports=3,hosts_per_switch=2")
    routes = pf.plan_routes(fabric, "order_pair", lanes=2, vlans=4, first_vlan=100)
    files = []
    for kind in ("csv", "parquet"):
        pf.write_plan(routes, fabric, tmp_path / kind, tables=kind)
        assert (tmp_path / kind / f"tables.{kind}").is_file()
        write_deployment(tmp_path / kind, tmp_path / f"out-{kind}", Settings(target="linux", priorities=(3, 4)))
        out = tmp_path / f"out-{kind}"
        files.append({str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()})
    assert files[0].keys() == files[1].keys()
    assert [
        name for name in files[0] if files[0][name].replace("csv", "") != files[1][name].replace("parquet", "")
    ] == []


def test_several_nics_of_a_host_are_refused(tmp_path):
    """Two scripts for one machine would both create pf100, and the second script would find the interface there."""
    wires = [("s0", "s1"), ("a", "s0"), ("a", "s1"), ("b", "s1")]
    nodes = [{"id": name, "kind": "switch" if name[0] == "s" else "host"} for name in ("s0", "s1", "a", "b")]
    edges = [{"source": source, "target": target} for source, target in wires]
    text = json.dumps({"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges})
    (tmp_path / "two.json").write_text(text)
    done = cli("route", "plan", tmp_path / "two.json", "--first-vlan", "100", "--out", tmp_path / "plan")
    assert done.returncode == 0, done.stderr
    with pytest.raises(DeployError, match=r"a and a\.eth2 are NICs of a: .* leave the host one link"):
        read_plan(tmp_path / "plan", Settings())


def way(routes, vlan, source, target):
    """The devices on a route."""
    return [port.rpartition(":")[0] for port in routes.route(vlan, source, target)]


@pytest.mark.parametrize("target", ["sonic", "linux"])
@pytest.mark.parametrize("name", PLANS)
def test_there_and_back(tmp_path, name, target):
    topology, engine, lanes, vlans = PLANS[name]
    plan = planned(tmp_path / "plan", topology, engine, lanes, vlans, json_tables=target == "sonic")
    settings = Settings(target=target, priorities=(3, 4, 5, 6))
    summary = write_deployment(plan, tmp_path / "out", settings)
    report = lint([tmp_path / "out"])
    assert [(str(f.place), f.message) for f in report.findings] == []
    assert len(report.reading.fabric.switches) == summary["switches"]
    assert len(report.reading.fabric.hosts) == summary["hosts"]
    export(report.reading, tmp_path / "back")
    done = cli("route", "check", tmp_path / "back" / "topology.graphml", tmp_path / "back" / "tables.json", "--json")
    checked = json.loads(done.stdout)
    assert (done.returncode, checked["can_deadlock"], checked["unreachable"]["count"]) == (0, False, 0)
    wanted = pf.read_routes(str(plan), pf.load_topology(plan / "topology.graphml"))
    back = pf.load_topology(tmp_path / "back" / "topology.graphml")
    found = pf.read_routes(str(tmp_path / "back" / "tables.json"), back)
    assert {vlan for vlan, _ in found.vlans} == {vlan for vlan, _ in wanted.vlans}
    deployed, compared = read_plan(plan, settings), 0
    for vlan in deployed.vlans:
        for a, b in itertools.permutations(deployed.hosts, 2):
            if deployed.uses(vlan, a, b):
                assert way(found, vlan, a.name, b.name) == way(wanted, vlan, a.name, b.name)
                compared += 1
    assert compared >= len(deployed.hosts) * (len(deployed.hosts) - 1)


@pytest.mark.parametrize("name", PLANS)
def test_switches_alone_cannot_deadlock(tmp_path, name):
    """Without the hosts' files, the senders of a VLAN are unknown; the rows are then safe for all senders."""
    topology, engine, lanes, vlans = PLANS[name]
    plan = planned(tmp_path / "plan", topology, engine, lanes, vlans)
    write_deployment(plan, tmp_path / "out", Settings(priorities=(3, 4, 5, 6)))
    assert [(f.code, f.message) for f in lint([tmp_path / "out" / "switches"]).findings] == []


def test_rows_that_nobody_may_use_are_left_out(tmp_path):
    """A VLAN that only one pair of switches may use has only the rows of their path, or of hosts of one switch."""
    folder = planned(tmp_path / "plan", "ring:switches=6,hosts_per_switch=1", "up_down", 1, 1)
    tables = json.loads((folder / "tables.json").read_text())
    tables["senders"] = [{"vlan": 100, "from": "s1", "to": "s4"}]
    (folder / "tables.json").write_text(json.dumps(tables))
    plan = read_plan(folder, Settings())
    routes = pf.read_routes(str(folder / "tables.json"), pf.load_topology(folder / "topology.graphml"))
    on_the_way = way(routes, 100, "host1", "host4")[1:]
    assert len(on_the_way) > 2
    home = {host.name: host.switch for host in plan.hosts}
    onward = {(switch, to) for switch, rows in plan.rows.items() for _, to, _ in rows if home[to] != switch}
    assert onward == {(switch, "host4") for switch in on_the_way if switch != home["host4"]}


def test_both_forms_of_static_rows_are_the_same(tmp_path):
    plan = planned(tmp_path / "plan", PLANS["jellyfish"][0])
    write_deployment(plan, tmp_path / "out", Settings())
    write_deployment(plan, tmp_path / "next", Settings(sonic_release="next"))
    assert lint([tmp_path / "next"]).findings == []
    for folder in (tmp_path / "out" / "switches").iterdir():
        new = json.loads((tmp_path / "next" / "switches" / folder.name / "static-l2.json").read_text())["FDB"]
        old = json.loads((folder / "fdb.json").read_text())
        as_new = {}
        for item in old:
            assert item["OP"] == "SET"
            (key, row), *_ = item.items()
            _, vlan, mac = key.split(":")
            as_new[f"{vlan}|{mac.replace('-', ':')}"] = {"port": row["port"]}
        assert as_new == new
    assert len(read_fabric([tmp_path / "out"]).fabric.switches[folder.name].fdb) == len(old)
    # Without the file that turns learning and flooding off, the linter reports the VLANs.
    (folder / "no-flooding.json").unlink()
    assert {(f.code, f.place.device) for f in lint([tmp_path / "out"]).findings} == {("PF062", folder.name)}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('unicast_miss_packet_action": "drop"', 'unicast_miss_packet_action": "forward"', "floods"),
        ('broadcast_miss_packet_action": "drop"', 'broadcast_miss_packet_action": "trap"', "floods"),
        ('"learn_mode": "disable"', '"learn_mode": "hardware"', "learns"),
    ],
)
def test_flooding_that_a_file_turns_on_is_one_finding(tmp_path, old, new, what):
    plan = planned(tmp_path / "plan", "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2", "up_down", 1, 2)
    write_deployment(plan, tmp_path / "out", Settings())
    path = tmp_path / "out" / "switches" / "leaf0" / "no-flooding.json"
    path.write_text(path.read_text().replace(old, new, 1))
    (finding,) = lint([tmp_path / "out"]).findings
    assert (finding.code, finding.message) == ("PF062", f"a VLAN with static rows {what} by the file for swssconfig")
    assert (finding.source, len(finding.places), finding.patch) == (str(path), 2, ())


PORT_MODEL = """module sonic-port { yang-version 1.1; namespace "urn:port"; prefix p;
  container sonic-port {
  container PORT { list PORT_LIST { key "name"; leaf name { type string; }
    leaf lanes { mandatory true; type string { length "1..128"; } } leaf speed { mandatory true; type uint32; }
    leaf mtu { type uint16; } leaf admin_status { type string; } } } } }"""
VLAN_MODEL = """module sonic-vlan { yang-version 1.1; namespace "urn:vlan"; prefix v;
  container sonic-vlan {
  container VLAN { list VLAN_LIST { key "name"; leaf name { type string; }
    leaf vlanid { type uint16; } leaf description { type string; } } } } }"""
METADATA_MODEL = """module sonic-device_metadata { yang-version 1.1; namespace "urn:metadata"; prefix m;
  container sonic-device_metadata { container DEVICE_METADATA { container localhost {
    leaf hostname { type string; } leaf bgp_asn { type string; } leaf type { type string; } } } } }"""
"""The constraints of SONiC's models that matter for this test: mandatory lanes, no mac_learning."""


def models(folder):
    """Folders with the YANG models of each release: PAUSEFRAME_SONIC_YANG/RELEASE if set, else models of this test.

    SONiC's models are not part of this repository. To test with them, copy src/sonic-yang-models/yang-models of a
    branch of sonic-buildimage into that folder, with the rendered templates of yang-templates.
    """
    home = os.environ.get("PAUSEFRAME_SONIC_YANG")
    if home:
        return {path.name: path for path in sorted(Path(home).iterdir()) if path.name in SONIC_RELEASES}
    for name, text in (
        ("sonic-port", PORT_MODEL),
        ("sonic-vlan", VLAN_MODEL),
        ("sonic-device_metadata", METADATA_MODEL),
    ):
        (folder / f"{name}.yang").write_text(text)
    return {NEWEST_RELEASE: folder}


@pytest.mark.skipif(shutil.which("yanglint") is None, reason="needs yanglint (Debian: libyang2-tools)")
def test_files_are_valid_under_the_models_of_the_release(tmp_path):
    plan = planned(tmp_path / "plan", PLANS["leaf-spine"][0], "up_down", 1, 2)
    (tmp_path / "models").mkdir()
    found = models(tmp_path / "models")
    assert found
    for release, folder in found.items():
        write_deployment(plan, tmp_path / release, Settings(sonic_release=release))
        lines, failed = validate(folder, read_fabric([tmp_path / release / "switches"]))
        assert not failed, lines
        assert len(lines) == 6, lines
        # None of the models accepts the form that is still under review.
        if release == list(found)[-1]:
            write_deployment(plan, tmp_path / "next", Settings(sonic_release="next"))
            lines, failed = validate(folder, read_fabric([tmp_path / "next" / "switches"]))
            assert failed
            assert any("mac_learning" in line for line in lines)


def test_lanes_come_from_the_inventory(tmp_path):
    plan = planned(tmp_path / "plan", "star:hosts=2", "up_down", 1, 1)
    switch = read_plan(plan, Settings()).switches[0]
    done = cli("deploy", plan, "-o", tmp_path / "none", "--json")
    assert any("lanes of switch ports are placeholders" in note for note in json.loads(done.stdout)["notes"])
    own = tmp_path / "collected" / switch / "config_db.json"
    own.parent.mkdir(parents=True)
    ports = {"Ethernet0": {"lanes": "65,66,67,68", "speed": "100000"}}
    own.write_text(json.dumps({"PORT": ports}))
    done = cli("deploy", plan, "-o", tmp_path / "out", "--inventory", own.parent.parent)
    assert done.returncode == 2
    assert f"ports without lanes: 1, such as {switch}:Ethernet4: add the config_db.json of each switch" in done.stderr
    (tmp_path / "own.csv").write_text(f'device,port,name,lanes\n{switch},eth2,Ethernet4,"69 70"\n')
    inventory = ["--inventory", own.parent.parent, "--inventory", tmp_path / "own.csv"]
    done = cli("deploy", plan, "-o", tmp_path / "out", *inventory)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "switches" / switch / "config_db.json").read_text())["PORT"]
    assert {name: row["lanes"] for name, row in rows.items()} == {"Ethernet0": "65,66,67,68", "Ethernet4": "69,70"}
    done = cli("deploy", plan, "-o", tmp_path / "no", "--sonic-release", "201911")
    assert done.returncode == 2
    assert "'201911' is not one of 202311" in done.stderr


def own_tables(folder, ports):
    """A config_db.json with the lanes of each switch's ports."""
    for device, names in ports.items():
        (folder / device).mkdir(parents=True, exist_ok=True)
        rows = {name: {"lanes": str(number)} for number, name in enumerate(names)}
        (folder / device / "config_db.json").write_text(json.dumps({"PORT": rows}))


def test_what_hosts_are_told(tmp_path):
    plan = planned(tmp_path / "plan", PLANS["jellyfish"][0])
    texts = {}
    for hosts in ("tcp_bolt", "dctcp_plus", "dctcp"):
        write_deployment(plan, tmp_path / hosts, Settings(hosts=hosts))
        own = tmp_path / hosts / "hosts" / "host0"
        texts[hosts] = (own / "setup.sh").read_text()
        assert subprocess.run(["sh", "-n", own / "setup.sh"], check=False).returncode == 0
        assert "net.ipv4.tcp_congestion_control = dctcp" in (own / "sysctl.conf").read_text()
    # 10 Gb/s x 240 us = 300,000 B, which are 34 segments of 8,960 B.
    assert "congctl dctcp features ecn rto_min 5ms initcwnd 34 quickack 1" in texts["tcp_bolt"]
    assert "initcwnd" not in texts["dctcp_plus"]
    assert "rto_min 5ms" in texts["dctcp_plus"]
    assert "rto_min 10ms" in texts["dctcp"]
    assert "tcp_slow_start_after_idle" in texts["tcp_bolt"]
    reading = read_fabric([tmp_path / "tcp_bolt"])
    host = reading.fabric.hosts["host0"]
    assert {vlan.id: set(vlan.egress.values()) for nic in host.nics.values() for vlan in nic.vlans.values()} == {
        100: {3},
        101: {4},
        102: {3},
        103: {4},
    }
    assert {(route.congctl, route.initcwnd, route.rto_min_ms, route.quickack) for route in host.routes} == {
        ("dctcp", 34, 5.0, True)
    }


@pytest.mark.parametrize("target", ["sonic", "linux"])
def test_hosts_with_roce(tmp_path, target):
    """Marks are a line by rate, CNPs have a strict queue, cards get registers, and routes no attributes of TCP."""
    plan = planned(tmp_path / "plan", PLANS["leaf-spine"][0], "up_down", 1, 2)
    write_deployment(plan, tmp_path / "out", Settings(target=target, hosts="roce_dcqcn"))
    assert [
        (f.code, str(f.place), f.message)
        for f in lint([tmp_path / "out"], design=read_design(plan, [tmp_path / "out"], None)).findings
    ] == []
    own = tmp_path / "out" / "hosts" / "host0"
    text = (own / "setup.sh").read_text()
    assert "roce_rp/rpg_time_reset=300" in text
    assert "RPG_TIME_RESET_P1" in (own / "mlxconfig.txt").read_text()
    assert "congctl" not in text
    assert "dctcp" not in text
    assert not (own / "sysctl.conf").exists()
    if target == "sonic":
        tables = json.loads((tmp_path / "out" / "switches" / "leaf0" / "config_db.json").read_text())
        assert tables["SCHEDULER"][tables["QUEUE"]["Ethernet0|6"]["scheduler"]] == {"type": "STRICT"}
        row = tables["WRED_PROFILE"]["PF_25000"]
        names = ("min_threshold", "max_threshold", "drop_probability")
        assert [row[f"green_{name}"] for name in names] == ["100000", "400000", "20"]
    with pytest.raises(DeployError, match="CNPs of RoCE"):
        write_deployment(plan, tmp_path / "no", Settings(hosts="roce_dcqcn", priorities=(6, 3)))


def test_inventory(tmp_path):
    plan = planned(tmp_path / "plan", "star:hosts=3", "up_down", 1, 1)
    file = tmp_path / "macs.csv"
    file.write_text(
        "device,mac,port,name\nhost0,AA:BB:CC:00:00:01,,ens1\nhost1,aa:bb:cc:00:00:02,,\nswitch0,,eth3,Ethernet48\n"
    )
    switch = read_plan(plan, Settings()).switches[0]
    file.write_text(file.read_text().replace("switch0", switch))
    own_tables(tmp_path / "own", {switch: ["Ethernet0", "Ethernet4", "Ethernet48"]})
    inventory = ["--inventory", file, "--inventory", tmp_path / "own", "--sonic-release", "next"]
    done = cli("deploy", plan, "-o", tmp_path / "out", *inventory, "--json")
    assert len(json.loads(done.stdout)["notes"]) == 1  # host2 has a placeholder address.
    rows = json.loads((tmp_path / "out" / "switches" / switch / "static-l2.json").read_text())["FDB"]
    assert {"Vlan100|aa:bb:cc:00:00:01", "Vlan100|aa:bb:cc:00:00:02", "Vlan100|02:00:00:00:00:03"} == set(rows)
    assert rows["Vlan100|02:00:00:00:00:03"]["port"] == "Ethernet48"
    assert "nic=ens1" in (tmp_path / "out" / "hosts" / "host0" / "setup.sh").read_text()
    for text, message in (
        ("name\nx\n", "column device"),
        ("device,mac\na,zz\n", "no MAC"),
        ("device,mac\na,00:11:22:33:44:55\nb,00:11:22:33:44:55\n", "twice"),
        ("device,name\nhost0,eth0;reboot\n", "no name"),
    ):
        file.write_text(text)
        done = cli("deploy", plan, "-o", tmp_path / "no", "--inventory", file)
        assert (done.returncode, message in done.stderr, (tmp_path / "no").exists()) == (2, True, False), text


def lldp(folder, device, neighbours):
    """The LLDP file of a device, from tuples (own port, neighbour, neighbour's port, its MAC address or None)."""
    interfaces = [
        {
            "name": port,
            "chassis": [{"id": [{"type": "mac", "value": "0e:00:00:00:00:01"}], "name": [{"value": far}]}],
            "port": [
                {
                    "id": [{"type": "mac", "value": mac} if mac else {"type": "local", "value": far_port}],
                    "descr": [{"value": far_port}],
                }
            ],
        }
        for port, far, far_port, mac in neighbours
    ]
    (folder / device).mkdir(parents=True)
    (folder / device / "lldp.json").write_text(json.dumps({"lldp": [{"interface": interfaces}]}))


def test_inventory_of_lldp(tmp_path):
    """LLDP of switches shows aliases; LLDP of a Linux host shows the MAC address of its cabled NIC, one of several."""
    plan = planned(tmp_path / "plan", "leaf_spine:leaves=2,spines=1,hosts_per_leaf=1", "up_down", 1, 1)
    deployed = read_plan(plan, Settings())
    a, b = (host.switch for host in deployed.hosts)
    spine = next(name for name in deployed.switches if name not in {a, b})
    one, other = (host.name for host in deployed.hosts)
    macs = ["aa:bb:cc:00:00:02", "aa:bb:cc:00:00:04"]
    folder = tmp_path / "lldp"
    lldp(
        folder, a, [("Ethernet48", spine, "etp1", None), ("Ethernet8", f"{one}.example.org", "ens3f1", macs[0].upper())]
    )
    lldp(folder, b, [("Ethernet52", spine, "etp2", None), ("Ethernet0", other, "my second port", macs[1])])
    lldp(folder, spine, [("Ethernet0", a, "etp13", None), ("Ethernet4", b, "etp14", None)])
    own_tables(
        folder, {a: ["Ethernet48", "Ethernet8"], b: ["Ethernet52", "Ethernet0"], spine: ["Ethernet0", "Ethernet4"]}
    )
    new = ["--sonic-release", "next"]
    done = cli("deploy", plan, "-o", tmp_path / "out", "--inventory", folder, *new, "--json")
    assert json.loads(done.stdout)["notes"] == []
    assert "nic=ens3f1\n" in (tmp_path / "out" / "hosts" / one / "setup.sh").read_text()
    assert "nic=eth1\n" in (tmp_path / "out" / "hosts" / other / "setup.sh").read_text()
    rows = {
        switch: json.loads((tmp_path / "out" / "switches" / switch / "static-l2.json").read_text())["FDB"]
        for switch in deployed.switches
    }
    assert rows == {
        a: {f"Vlan100|{macs[0]}": {"port": "Ethernet8"}, f"Vlan100|{macs[1]}": {"port": "Ethernet48"}},
        b: {f"Vlan100|{macs[0]}": {"port": "Ethernet52"}, f"Vlan100|{macs[1]}": {"port": "Ethernet0"}},
        spine: {f"Vlan100|{macs[0]}": {"port": "Ethernet0"}, f"Vlan100|{macs[1]}": {"port": "Ethernet4"}},
    }
    # A CSV file overrides names of the inventory; a planned link without LLDP data is reported.
    (tmp_path / "own.csv").write_text(f"device,mac,name\n{one},aa:bb:cc:00:00:99,bond0\n")
    shutil.rmtree(folder / b)
    shutil.rmtree(folder / spine)
    own_tables(folder, {b: ["Ethernet0", "Ethernet4"], spine: ["Ethernet0", "Ethernet4", "etp1"]})
    inventory = ["--inventory", folder, "--inventory", tmp_path / "own.csv", *new]
    done = cli("deploy", plan, "-o", tmp_path / "two", *inventory, "--json")
    notes = json.loads(done.stdout)["notes"]
    assert [("no cable for 2 links" in note, "placeholders for MAC addresses" in note) for note in notes] == [
        (True, False),
        (False, True),
    ]
    assert "nic=bond0\n" in (tmp_path / "two" / "hosts" / one / "setup.sh").read_text()
    assert "Vlan100|aa:bb:cc:00:00:99" in (tmp_path / "two" / "switches" / a / "static-l2.json").read_text()


def test_lldp_of_several_links_between_two_switches(tmp_path):
    nodes = [
        {"id": name, "kind": kind} for name, kind in (("a", "switch"), ("b", "switch"), ("h", "host"), ("g", "host"))
    ]
    edges = [{"source": x, "target": y} for x, y in (("h", "a"), ("g", "b"), ("a", "b"), ("a", "b"))]
    fabric = pf.Topology.parse(json.dumps({"nodes": nodes, "edges": edges}), "node-link")
    plan = tmp_path / "plan"
    pf.write_plan(pf.plan_routes(fabric, "up_down", lanes=1, vlans=1, first_vlan=100), fabric, plan, json_tables=True)
    folder = tmp_path / "lldp"
    lldp(folder, "a", [("Ethernet8", "b", "Ethernet4", None), ("Ethernet4", "b", "Ethernet8", None)])
    lldp(folder, "b", [("Ethernet4", "a", "Ethernet8", None), ("Ethernet8", "a", "Ethernet4", None)])
    own_tables(folder, {device: ["Ethernet0", "Ethernet4", "Ethernet8"] for device in ("a", "b")})
    found = read_plan(plan, Settings(), read_inventory([folder]))
    assert {(str(a), str(b)) for a, b, _ in found.links} == {
        ("a:Ethernet4", "b:Ethernet8"),
        ("a:Ethernet8", "b:Ethernet4"),
    }
    shutil.rmtree(folder)
    lldp(folder, "a", [("Ethernet8", "b", "etp2", None), ("Ethernet4", "b", "etp1", None)])
    lldp(folder, "b", [("Ethernet4", "a", "etp8", None), ("Ethernet8", "a", "etp4", None)])
    with pytest.raises(DeployError, match="name their ports in a CSV"):
        read_plan(plan, Settings(), read_inventory([folder]))


def test_a_default_plan_leaves_vlan_1(tmp_path):
    """Its VLANs are deployed from 100 on, with the rows and lanes of the plan."""
    shape = ("leaf_spine:leaves=2,spines=2,hosts_per_leaf=2", "up_down", 1, 2)
    plans = [read_plan(planned(tmp_path / str(first), *shape, first=first), Settings()) for first in (1, 100)]
    assert plans[0].vlans == plans[1].vlans == {100: 0, 101: 0}
    assert plans[0].rows == plans[1].rows
    assert plans[0].used == plans[1].used
    assert [note for note in plans[0].notes if "VLAN 1 to 2 of the plan are deployed as 100 to 101" in note]
    write_deployment(tmp_path / "1", tmp_path / "out", Settings())
    assert not lint([tmp_path / "out"]).findings


def test_only_lossless_queues_mark(tmp_path):
    """Queue 0 has traffic without ECN, which a marking queue drops."""
    plan = read_plan(planned(tmp_path / "plan", "star:hosts=3", "up_down", 1, 1), Settings(priorities=(3,)))
    queues = config_db(plan, plan.switches[0], Settings(priorities=(3,)))["QUEUE"]
    assert {key.partition("|")[2] for key, row in queues.items() if "wred_profile" in row} == {"3"}
    assert {key.partition("|")[2] for key, row in queues.items() if "scheduler" in row} == {"0", "3"}


def test_what_cannot_be_deployed(tmp_path):
    plan = planned(tmp_path / "plan", PLANS["jellyfish"][0])
    for folder, settings, message in (
        (plan, Settings(priorities=(3,)), "one for each lane"),
        (plan, Settings(buffer=100_000), "fewer lanes"),
        (tmp_path, Settings(), "route plan"),
    ):
        with pytest.raises((DeployError, DeviceFileError), match=message):
            write_deployment(folder, tmp_path / "out", settings)
        assert not (tmp_path / "out").exists()
    write_deployment(plan, tmp_path / "out", Settings())
    with pytest.raises(DeployError, match="has a deployment: name another folder"):
        write_deployment(plan, tmp_path / "out", Settings())
    write_deployment(plan, tmp_path / "out", Settings(), force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(DeployError, match="has files and is no deployment"):
        write_deployment(plan, tmp_path / "mine", Settings(), force=True)


@pytest.mark.parametrize("wrong", [{"vlan": 1.5}, {"vlan": {}}, {"destination": None}, {"port": [1]}, {"lane": "x"}])
def test_tables_that_somebody_edited(tmp_path, wrong):
    folder = planned(tmp_path / "plan", "star:hosts=3", "up_down", 1, 1)
    tables = json.loads((folder / "tables.json").read_text())
    tables["lanes" if "lane" in wrong else "rows"] += [{"switch": "s0", "vlan": 100, "destination": "host0"} | wrong]
    (folder / "tables.json").write_text(json.dumps(tables))
    done = cli("deploy", folder, "-o", tmp_path / "out")
    assert (done.returncode, "tables.json" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_an_unsafe_order_is_refused(tmp_path):
    plan = read_plan(planned(tmp_path / "plan", PLANS["jellyfish"][0]), Settings())
    order = rollout.steps(plan)
    assert rollout.check(plan, order) == len(order) == len(plan.switches) * 3
    with pytest.raises(DeployError, match="before every switch"):
        rollout.check(plan, [order[-1], *order[:-1]])
    plan.rows["s1"] = [(vlan, host, port) for vlan, host, port in plan.rows["s1"] if host != "host0"]
    with pytest.raises(DeployError, match="loses frames"):
        rollout.check(plan, order)


def test_rows_that_can_deadlock_are_refused(tmp_path):
    """A ring in which every frame goes clockwise: the deployment must refuse its rows even for switches."""
    fabric = pf.load_topology("ring:switches=5,hosts_per_switch=1")
    folder = planned(tmp_path / "plan", "ring:switches=5,hosts_per_switch=1", "up_down", 1, 1)
    plan = read_plan(folder, Settings())
    onward = {
        s: next(p for p, (far, _) in plan.ports(s).items() if far.device == f"s{(i + 1) % 5}")
        for i, s in enumerate(plan.switches)
    }
    home = {host.name: host.switch for host in plan.hosts}
    plan.rows = {
        s: [(vlan, host, port if home[host] == s else onward[s]) for vlan, host, port in _all(plan, s)]
        for s in plan.switches
    }
    plan.index()
    assert len(fabric.nodes()) == 10
    with pytest.raises(DeployError, match="can deadlock"):
        rollout.check(plan, rollout.steps(plan))


def _all(plan, switch):
    ports = {host.name: host.port for host in plan.hosts if host.switch == switch}
    return [(vlan, host.name, ports.get(host.name, "")) for vlan in plan.vlans for host in plan.hosts]


NASTY = ["a b", "$(touch pwned)", "`touch pwned`", "x;touch pwned", "quote'", 'double"', "-rf", "é"]


def nasty_plan(folder, names):
    """A star of switches and hosts with hostile names."""
    nodes = [{"id": name, "kind": "switch"} for name in names]
    nodes += [{"id": f"host {name}", "kind": "host"} for name in names]
    edges = [{"source": f"host {name}", "target": name} for name in names]
    edges += [{"source": names[0], "target": name} for name in names[1:]]
    fabric = pf.Topology.parse(json.dumps({"nodes": nodes, "edges": edges}), "node-link")
    pf.write_plan(pf.plan_routes(fabric, "up_down", lanes=1, vlans=1, first_vlan=100), fabric, folder, json_tables=True)
    return folder


@pytest.mark.parametrize("target", ["sonic", "linux"])
def test_names_are_never_executed_and_lead_nowhere(tmp_path, target):
    plan = nasty_plan(tmp_path / "plan", NASTY)
    write_deployment(plan, tmp_path / "deep" / "er" / "out", Settings(target=target))
    assert {p.name for p in tmp_path.iterdir()} == {"plan", "deep"}
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["out"]
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ip", "bridge", "dcb", "sysctl", "mlnx_qos"):
        (tools / name).write_text("#!/bin/sh\nexit 0\n")
        (tools / name).chmod(0o755)
    for name in ("cat", "grep", "mkdir", "mv", "rm", "sed", "tr"):
        (tools / name).symlink_to(shutil.which(name))
    work = tmp_path / "work"
    work.mkdir()
    for script in (tmp_path / "deep").rglob("setup.sh"):
        for arguments in ([], ["--undo"], ["--receive"]):
            text = script.read_text().replace("/var/lib/pauseframe", str(tmp_path / "state"))
            (tmp_path / "state").mkdir(exist_ok=True)
            run = subprocess.run(
                ["/bin/sh", "-c", text, "setup.sh", *arguments],
                cwd=work,
                env={"PATH": str(tools)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == (2 if arguments == ["--receive"] and "--receive" not in text else 0), run.stderr
    assert list(work.iterdir()) == []
    assert not list(tmp_path.rglob("pwned"))
    assert [f.code for f in lint([tmp_path / "deep"]).findings] == []


def fake_tools(folder: Path) -> Path:
    """Fake `ip` and other tools that record their arguments; `ip link show` lists the links that were added."""
    folder.mkdir()
    state = folder / "links"
    state.mkdir()
    (folder / "ip").write_text(f"""#!/bin/sh
case "$1 $2 $3" in
  "-o link show") echo "3: $5: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN mode DEFAULT"; exit ;;
  "link show dev") [ -e "{state}/$4" ]; exit ;;
esac
echo "ip $*" >> {folder}/log
case "$1 $2" in
  "link add") for last; do :; done; while [ "$1" != name ]; do shift; done; : > "{state}/$2" ;;
  "link delete") rm "{state}/$4" ;;
  "-batch -") sed 's/^/ip /' >> {folder}/log ;;
esac
""")
    (folder / "bridge").write_text(f"""#!/bin/sh
if [ "$1" = -batch ]; then sed 's/^/bridge /' >> {folder}/log; else echo "bridge $*" >> {folder}/log; fi
""")
    (folder / "dcb").write_text(f"""#!/bin/sh
if [ "$2" = show ]; then echo "prio-pfc 0:off 1:on 2:off"; else echo "dcb $*" >> {folder}/log; fi
""")
    (folder / "sysctl").write_text(f"""#!/bin/sh
case "$1" in -*) echo "sysctl $*" >> {folder}/log ;; *) echo "$1 = 7" ;; esac
""")
    for path in folder.glob("*"):
        if path.is_file():
            path.chmod(0o755)
    return folder


@pytest.mark.parametrize(("kind", "name"), [("hosts", "host0"), ("switches", "s0")])
def test_scripts_can_run_twice_and_take_all_back(tmp_path, kind, name):
    plan = planned(tmp_path / "plan", PLANS["jellyfish"][0])
    write_deployment(plan, tmp_path / "out", Settings(target="linux"))
    tools = fake_tools(tmp_path / "tools")
    environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    text = (tmp_path / "out" / kind / name / "setup.sh").read_text()
    text = text.replace("/var/lib/pauseframe", str(tmp_path / "state"))
    port = next((host.nic for host in read_plan(plan, Settings()).hosts if host.name == name), "swp1")
    (tools / "links" / port).touch()
    logs = []
    for arguments in ([], [], ["--undo"], ["--undo"]):
        (tools / "log").unlink(missing_ok=True)
        subprocess.run(["sh", "-c", text, "setup.sh", *arguments], env=environment, check=True, capture_output=True)
        logs.append((tools / "log").read_text().splitlines() if (tools / "log").exists() else [])
    added = [line for line in logs[0] if line.startswith("ip link add")]
    assert len(added) == (4 if kind == "hosts" else 1)
    assert [line for line in logs[0] if line not in added] == logs[1]
    assert [path.name for path in (tools / "links").iterdir()] == [port]
    assert f"dcb pfc set dev {port} prio-pfc 0:off 1:on 2:off" in logs[2]
    assert f"ip link set dev {port} mtu 1500 down" in logs[2]
    assert any(line.startswith("sysctl -q -p") for line in logs[2]) == (kind == "hosts")
    assert logs[3] == []  # A second undo finds no change to revert.
    assert list((tmp_path / "state").iterdir()) == []


def test_pfc_of_mlnx_qos_is_put_back(tmp_path):
    plan = planned(tmp_path / "plan", "star:hosts=3", "up_down", 1, 1)
    write_deployment(plan, tmp_path / "out", Settings(target="linux"))
    tools = fake_tools(tmp_path / "tools")
    (tools / "mlnx_qos").write_text(f"""#!/bin/sh
echo "mlnx_qos $*" >> {tools}/log
printf 'PFC configuration:\\n\\tpriority    0   1   2   3   4   5   6   7\\n'
printf '\\tenabled     0   0   1   0   0   0   0   0\\n'
""")
    (tools / "mlnx_qos").chmod(0o755)
    text = (tmp_path / "out" / "hosts" / "host0" / "setup.sh").read_text()
    text = text.replace("/var/lib/pauseframe", str(tmp_path / "state"))
    environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    for arguments in (["--receive"], ["--undo"]):
        subprocess.run(["sh", "-c", text, "setup.sh", *arguments], env=environment, check=True, capture_output=True)
    calls = [line for line in (tools / "log").read_text().splitlines() if "--pfc" in line]
    assert [line.split()[-1] for line in calls] == ["0,0,0,1,1,0,0,0", "0,0,1,0,0,0,0,0"]


@pytest.mark.skipif(shutil.which("netplan") is None, reason="netplan is not installed")
def test_netplan_takes_the_file(tmp_path):
    plan = planned(tmp_path / "plan", "star:hosts=3", "up_down", 1, 1)
    write_deployment(plan, tmp_path / "out", Settings())
    root = tmp_path / "root" / "etc" / "netplan"
    root.mkdir(parents=True)
    shutil.copy(tmp_path / "out" / "hosts" / "host0" / "netplan.yaml", root / "90.yaml")
    (root / "90.yaml").chmod(0o600)
    subprocess.run(["netplan", "generate", "--root-dir", tmp_path / "root"], check=True)
