"""The linter: single rows, fragments, wiring, outputs, exit codes, and hostile files."""

import json
import random
import re
import shutil
from pathlib import Path

import lint_fabrics
import pytest
from pauseframe._core import limit
from pauseframe.devices.files import SHARE
from pauseframe.devices.read import DeviceFileError, read_fabric
from pauseframe.lint import lint, output
from pauseframe.lint.engine import rules
from pauseframe.lint.export import export
from pauseframe.lint.finding import rule
from pauseframe.lint.fix import fix
from pauseframe.lint.output import explain
from pauseframe.lint.yang import validate
from pauseframe.terminal.text import shows_colours
from test_fabrics import cli

DOCS = Path(__file__).parent.parent / "docs" / "rules"


def save(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def codes(path, **options):
    return [finding.code for finding in lint([path], **options).findings]


@pytest.fixture
def fabric(tmp_path):
    return lint_fabrics.write(lint_fabrics.clos(3, 2, 2), tmp_path / "fabric")


PORTS = {"Ethernet0": {"speed": "100000", "lanes": "1"}, "Ethernet4": {"speed": "100000", "lanes": "2"}}
POOL = {"pool": {"type": "ingress", "mode": "dynamic", "size": "1000000"}}
PROFILES = {name: {"pool": "pool", "size": "0"} for name in "pq"}


def old_list(*names):
    """A list of buffer profiles in the format of images before 202106."""
    return {"Ethernet0": {"profile_list": ",".join(f"[BUFFER_PROFILE|{name}]" for name in names)}}


ROWS = [  # Pairs of (tables, expected findings).
    ({"PORT": PORTS}, []),
    ({"PORT": {"Ethernet0": {"speed": "0"}}}, ["PF001"]),
    ({"PORT": {"Ethernet0": {"mtu": "9100"}}}, []),  # SONiC's own l2switch sample has no speed: a note
    ({"BUFFER_POOL": {"pool": {"type": "sideways", "mode": "dynamic"}}}, ["PF001"]),
    ({"BUFFER_POOL": {"pool": {"mode": "dynamic"}}}, ["PF001"]),
    ({"BUFFER_POOL": {"pool": POOL["pool"] | {"percentage": "50"}}}, ["PF003"]),
    ({"BUFFER_POOL": POOL, "BUFFER_PROFILE": {"p": {"pool": "pool", "size": "0", "dynamic_th": "8"}}}, ["PF001"]),
    ({"BUFFER_POOL": POOL, "BUFFER_PROFILE": {"p": {"pool": "pol", "size": "0", "dynamic_th": "7"}}}, ["PF002"]),
    ({"BUFFER_POOL": POOL, "BUFFER_PROFILE": {"p": {"pool": "pool", "dynamic_th": "-8"}}}, ["PF001"]),
    ({"BUFFER_POOL": POOL, "BUFFER_PROFILE": {"p": {"pool": "[BUFFER_POOL|pool]", "size": "0"}}}, []),
    ({"BUFFER_PROFILE": PROFILES, "BUFFER_PORT_INGRESS_PROFILE_LIST": old_list("p", "q")}, []),
    ({"BUFFER_PROFILE": PROFILES, "BUFFER_PORT_INGRESS_PROFILE_LIST": old_list("p", "r")}, ["PF002"]),
    ({"PORT": PORTS, "BUFFER_PROFILE": {"p": {"pool": "q", "size": "0"}}}, ["PF002"]),
    ({"BUFFER_PROFILE": {"p": {"pool": "q", "size": "0"}}}, []),  # A fragment: the pool may be in another file.
    ({"BUFFER_PG": {"Ethernet0|8": {"profile": "NULL"}}}, ["PF001"]),
    ({"BUFFER_PG": {"Ethernet0|3-4": {"profile": "NULL"}}, "PORT": PORTS}, []),
    ({"BUFFER_PG": {"Ethernet9|3": {"profile": "NULL"}}, "PORT": PORTS}, ["PF002"]),
    ({"BUFFER_QUEUE": {"Ethernet0|16": {}}, "PORT": PORTS}, ["PF001"]),
    ({"WRED_PROFILE": {"w": {"green_min_threshold": "9", "green_max_threshold": "8"}}}, ["PF003"]),
    ({"WRED_PROFILE": {"w": {"green_drop_probability": "101"}}}, ["PF001"]),
    ({"WRED_PROFILE": {"w": {"ecn": "ecn_green", "wred_green_enabled": "true"}}}, ["PF004", "PF030"]),
    ({"SCHEDULER": {"s": {"weight": "0"}}}, ["PF001"]),
    ({"PORT": {"Ethernet0": {"lanes": "1,2", "speed": "100000", "mtu": ["9100"]}}}, ["PF005"]),
    ({"PORT": {"Ethernet0": {"lanes": "1,2", "speed": "100000", "admin_status": ["up"]}}}, ["PF005"]),
    ({"PORT": {"Ethernet0": {"lanes": ["1", "2"], "speed": "100000"}}}, ["PF005"]),
    ({"BUFFER_POOL": {"pool": {"type": "ingress", "mode": "dynamic", "size": ["1000000"]}}}, ["PF005"]),
    ({"WRED_PROFILE": {"w": {"green_min_threshold": ["8"], "green_max_threshold": "9"}}}, ["PF005"]),
    ({"SCHEDULER": {"s": {"cir": "10", "pir": "9"}}}, ["PF003"]),
    ({"PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "400"}, "Ethernet0": {"detection_time": "300"}}}, ["PF003"]),
    ({"PFC_WD": {"Ethernet0": {"action": "shout"}}}, ["PF001"]),
    ({"DSCP_TO_TC_MAP": {"m": {"64": "1"}}}, ["PF001"]),
    ({"TC_TO_PRIORITY_GROUP_MAP": {"m": {"3": "8"}}}, ["PF001"]),
    ({"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4,"}}}, ["PF001"]),
    ({"PORT_QOS_MAP": {"global": {"dscp_to_tc_map": "m"}}, "DSCP_TO_TC_MAP": {"n": {}}}, ["PF002"]),
    ({"VLAN": {"Vlan1": {"vlanid": "1"}}}, ["PF001", "PF001"]),
    ({"VLAN": {"Vlan10": {"vlanid": "11"}}}, ["PF003"]),
    ({"VLAN": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan11|Ethernet0": {"tagging_mode": "tagged"}}}, ["PF002"]),
    ({"VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "somehow"}}}, ["PF001"]),
    ({"LOSSLESS_TRAFFIC_PATTERN": {"A": {"mtu": "1024"}}}, ["PF001"]),
    ({"CABLE_LENGTH": {"A": {"Ethernet0": "5 m"}}}, ["PF001"]),
    ({"BUFFER_POOL": [], "PORT": {"Ethernet0": "up"}}, ["PF005", "PF005"]),
    ({"SCHEDULER": {"s": {"type": "STRICT", "pir": "12500000000", "pbs": "8192"}}}, []),
    ({"SCHEDULER": {"s": {"cbs": "8192"}}}, ["PF003"]),
    ({"BUFFER_PG": {"Ethernet0,Ethernet4|3": {"profile": "NULL"}}, "PORT": PORTS}, ["PF001"]),
    ({"PORT_QOS_MAP": {"Ethernet0,Ethernet4": {"pfc_enable": ""}}, "PORT": PORTS}, ["PF001"]),
    ({"BUFFER_PG": {"Ethernet0|3-4": {"profile": "NULL"}, "Ethernet0|3": {"profile": "NULL"}}}, ["PF003"]),
    ({"QUEUE": {"Ethernet0|3-4": {}, "Ethernet0|5": {}, "Ethernet4|3": {}}}, []),
    ({"DEVICE_METADATA": {"localhost": {"buffer_model": "dynamic"}}}, []),
    ({"DEVICE_METADATA": {"localhost": {"buffer_model": "dinamic"}}}, ["PF001"]),
    ({"DEVICE_METADATA": {"localhost": {"bufer_model": "dynamic"}}}, ["PF004"]),
    (
        {
            "BUFFER_POOL": {"p": POOL["pool"] | {"mode": "static"}},
            "BUFFER_PROFILE": {"a": PROFILES["p"] | {"pool": "p", "dynamic_th": "0"}},
        },
        ["PF003"],
    ),
    (
        {
            "BUFFER_POOL": {"p": POOL["pool"] | {"mode": "static"}},
            "BUFFER_PROFILE": {"a": PROFILES["p"] | {"pool": "p", "static_th": "0"}},
        },
        [],
    ),
    ({"PORTCHANNEL": {"PortChannel1": {"lacp_key": "auto", "min_links": "1"}}}, []),
    ({"PORTCHANNEL": {"PortChannel1": {"lacp_key": "0", "minimum": "1"}}}, ["PF001", "PF004"]),
    ({"PORTCHANNEL": {"PortChannel1": {}}, "PORTCHANNEL_INTERFACE": {"PortChannel1|10.0.0.1/31": {}}}, ["PF002"]),
    ({"PORTCHANNEL": {"PortChannel1": {}}, "PORTCHANNEL_INTERFACE": {"PortChannel1": {"nat_zone": "4"}}}, ["PF001"]),
    (
        {
            "TUNNEL": {
                "t": {"tunnel_type": "IPINIP", "src_ip": "10.0.0.1", "dst_ip": "10.0.0.2", "dscp_mode": "uniform"}
            }
        },
        [],
    ),
    ({"TUNNEL": {"t": {"dscp_mode": "unified", "ecn_mode": "copy"}}}, ["PF001", "PF001"]),
    ({"TUNNEL": {"t": {"src_ip": "10.0.0.1", "dst_ip": "fc00::1"}}}, ["PF003"]),
    ({"TUNNEL": {"t": {"decap_dscp_to_tc_map": "x"}}, "DSCP_TO_TC_MAP": {"m": {}}}, ["PF002"]),
    (
        {"VXLAN_TUNNEL": {"v": {}}, "VXLAN_TUNNEL_MAP": {"v|m": {"vni": "0", "vlan": "Vlan9"}}, "VLAN": {"Vlan9": {}}},
        ["PF001"],
    ),
    ({"LLR_PROFILE": {"l": {"max_outstanding_frames": "64", "max_outstanding_bytes": "65536"}}, "PORT": PORTS}, []),
    ({"LLR_PROFILE": {"l": {"max_outstanding_frames": "64", "max_outstanding_bytes": "10"}}, "PORT": PORTS}, ["PF003"]),
    ({"LLR_PROFILE": {"l": {"max_outstanding_frames": "64", "replay_timer": "1"}}}, ["PF001", "PF004"]),
    ({"LLR_PORT": {"Ethernet9": {"llr_local": "on"}}, "PORT": PORTS}, ["PF001", "PF002"]),
    (
        {"WRED_PROFILE": {"w": {"ecn": "ecn_green", "wred_green_enable": "true", "green_drop_probability": "0"}}},
        ["PF030"],
    ),
    ({"WRED_PROFILE": {"w": {"ecn": "ecn_green", "wred_green_enable": "true", "green_drop_probability": "1"}}}, []),
]


@pytest.mark.parametrize(("egress", "found"), [(999_999, ["PF014"]), (1_000_000, [])])
def test_reserved_outside_of_the_pool(tmp_path, egress, found):
    """Pools of 400 kB and 600 kB of reserved bytes, as NVIDIA's switches count, in a memory of 1 MB or less."""
    pool = {"type": "ingress", "mode": "dynamic", "size": "200000"}
    tables = {
        "PORT": {"Ethernet0": {"speed": "100000"}},
        "BUFFER_POOL": {
            "lossless": pool,
            "lossy": pool,
            "egress": {"type": "egress", "mode": "dynamic", "size": str(egress)},
        },
        "BUFFER_PROFILE": {"p": {"pool": "lossless", "size": "300000"}},
        "BUFFER_PG": {"Ethernet0|3-4": {"profile": "p"}},
    }
    assert codes(save(tmp_path, "sw.json", tables)) == found


@pytest.mark.parametrize(("tables", "found"), ROWS, ids=str)
def test_rows(tmp_path, tables, found):
    assert codes(save(tmp_path, "sw.json", tables)) == found


def test_instance_data_of_the_models(tmp_path):
    """The format of SONiC's own tests: complete by definition, several in a file, each with a name."""

    def case(**pool):
        return {"sonic-buffer-pool:sonic-buffer-pool": {"sonic-buffer-pool:BUFFER_POOL": {"BUFFER_POOL_LIST": [pool]}}}

    path = save(
        tmp_path,
        "cases.json",
        {
            "right": case(name="p", type="ingress", mode="static", size="300"),
            "no_mode": case(name="p", type="ingress"),
            "no_name": case(type="ingress", mode="static"),
        },
    )
    found = [(f.place.device, f.code) for f in lint([path]).findings]
    assert found == [("no_mode", "PF001"), ("no_name", "PF005")]
    maps = {
        "sonic-dscp-tc-map:sonic-dscp-tc-map": {
            "sonic-dscp-tc-map:DSCP_TO_TC_MAP": {
                "DSCP_TO_TC_MAP_LIST": [
                    {"name": "m", "DSCP_TO_TC_MAP": [{"dscp": "64", "tc": "1"}, {"dscp": "3", "tc": "16"}]}
                ]
            }
        }
    }
    assert codes(save(tmp_path, "maps.json", maps)) == ["PF001", "PF001"]


def test_files_of_one_folder_are_one_device(tmp_path):
    save(tmp_path, "sw/config_db.json", {"DEVICE_METADATA": {"localhost": {"hostname": "real"}}, "PORT": PORTS})
    save(tmp_path, "sw/buffers.json", {"BUFFER_POOL": POOL, "BUFFER_PROFILE": {"p": {"pool": "pol", "size": "0"}}})
    report = lint([tmp_path])
    assert [(f.place.device, f.code) for f in report.findings] == [("real", "PF002")]
    assert report.reading.fabric.switches["real"].pools["pool"].size == 1_000_000


def test_unknown_tables_are_said(tmp_path):
    reading = read_fabric([save(tmp_path, "sw.json", {"PORT": PORTS, "FEATURE": {}, "NTP": {}})])
    assert any("FEATURE, NTP" in note for note in reading.fabric.notes)


@pytest.mark.parametrize("form", ["json0", "json"])
def test_wiring_by_lldp(tmp_path, form):
    """The two output formats of lldpctl, in which remote ports appear under their aliases."""
    save(tmp_path, "a/config_db.json", {"DEVICE_METADATA": {"localhost": {"hostname": "A"}}, "PORT": PORTS})
    far = {name: row | {"alias": f"etp{i}", "speed": "50000"} for i, (name, row) in enumerate(PORTS.items())}
    save(tmp_path, "b/config_db.json", {"DEVICE_METADATA": {"localhost": {"hostname": "B"}}, "PORT": far})
    lldp: dict[str, object]
    if form == "json0":
        lldp = {
            "lldp": [
                {
                    "interface": [
                        {
                            "name": "Ethernet0",
                            "chassis": [{"name": [{"value": "B"}]}],
                            "port": [{"id": [{"type": "local", "value": "etp1"}]}],
                        }
                    ]
                }
            ]
        }
    else:
        lldp = {
            "lldp": {
                "interface": [
                    {
                        "Ethernet0": {
                            "chassis": {"B": {"id": {"type": "mac", "value": "x"}}},
                            "port": {"id": {"type": "local", "value": "etp1"}},
                        }
                    }
                ]
            }
        }
    save(tmp_path, "a/lldp.json", lldp)
    report = lint([tmp_path])
    assert [str(link.a) + " " + str(link.b) for link in report.reading.fabric.links] == ["A:Ethernet0 B:Ethernet4"]
    assert [f.code for f in report.findings] == ["PF050"]


def test_wiring_by_minigraph_and_topology(tmp_path):
    for name in "AB":
        save(tmp_path, f"{name}.json", {"DEVICE_METADATA": {"localhost": {"hostname": name}}, "PORT": PORTS})
    graph = """<DeviceMiniGraph
    xmlns="Microsoft.Search.Autopilot.Evolution"><PngDec><DeviceInterfaceLinks><DeviceLinkBase>
    <EndDevice>B</EndDevice><EndPort>Ethernet4</EndPort><StartDevice>A</StartDevice><StartPort>Ethernet0</StartPort>
    </DeviceLinkBase></DeviceInterfaceLinks></PngDec></DeviceMiniGraph>"""
    save(tmp_path, "minigraph.xml", graph)
    assert [str(link.b) for link in read_fabric([tmp_path]).fabric.links] == ["B:Ethernet4"]
    (tmp_path / "minigraph.xml").unlink()
    edge = {"source": "A", "target": "B", "source_port": "Ethernet0", "target_port": "Ethernet4"}
    nodes = [{"id": name, "kind": "switch"} for name in "AB"]
    topology = save(tmp_path, "wiring/t.json", {"nodes": nodes, "edges": [edge]})
    reading = read_fabric([tmp_path / "A.json", tmp_path / "B.json"], topology=topology)
    assert [str(link.b) for link in reading.fabric.links] == ["B:Ethernet4"]


def fabric_of(tmp_path, *names):
    for name in names:
        save(tmp_path, f"{name}/config_db.json", {"DEVICE_METADATA": {"localhost": {"hostname": name}}, "PORT": PORTS})


def minigraph(folder, *links):
    ends = ("StartDevice", "StartPort", "EndDevice", "EndPort")
    rows = ["".join(f"<{end}>{word}</{end}>" for end, word in zip(ends, link.split(), strict=True)) for link in links]
    elements = "".join(f"<DeviceLinkBase>{row}</DeviceLinkBase>" for row in rows)
    save(folder, "minigraph.xml", f"<DeviceMiniGraph>{elements}</DeviceMiniGraph>")


@pytest.mark.parametrize(
    "links",
    [("A Ethernet0 B Ethernet0", "A Ethernet0 C Ethernet4"), ("B Ethernet0 A Ethernet0", "C Ethernet4 A Ethernet0")],
)
def test_a_port_that_a_minigraph_wires_twice_is_named(tmp_path, links):
    fabric_of(tmp_path, *"ABC")
    minigraph(tmp_path, *links)
    report = lint([tmp_path])
    assert [{link.a.device, link.b.device} for link in report.reading.fabric.links] == [{"A", "B"}]
    assert [(f.code, str(f.severity), str(f.place), f.message) for f in report.findings] == [
        ("PF055", "warning", "A Ethernet0", "wired to B:Ethernet0 and to C:Ethernet4: a port has one cable")
    ]
    assert "minigraph.xml:1:" in "".join(output.as_text(report))


def test_a_logical_link_of_a_mux_is_no_cable(tmp_path):
    """A dual-homed rack: the minigraph names the cable, and beside it the mux in the cable."""
    fabric_of(tmp_path, *"AB")
    minigraph(tmp_path, "A Ethernet0 B Ethernet0", "A Ethernet0 mux U")
    path = tmp_path / "minigraph.xml"
    before, mux = path.read_text().rsplit("<DeviceLinkBase>", 1)
    path.write_text(f"{before}<DeviceLinkBase><ElementType>LogicalLink</ElementType>{mux}")
    assert lint([tmp_path]).findings == []


def test_a_link_that_both_ends_name_has_no_finding(tmp_path):
    fabric_of(tmp_path, *"AB")
    minigraph(tmp_path, "A Ethernet0 B Ethernet0", "B Ethernet0 A Ethernet0", "A Ethernet0 B Ethernet0")
    report = lint([tmp_path])
    assert (len(report.reading.fabric.links), report.findings) == (1, [])


@pytest.mark.parametrize("linux", [False, True])
def test_a_port_with_two_neighbours_in_lldp_is_named(tmp_path, linux):
    fabric_of(tmp_path, *"ABC")
    rows = [
        {
            "name": "Ethernet0",
            "chassis": [{"name": [{"value": far}]}],
            "port": [{"id": [{"type": "local", "value": "etp0"}]}],
        }
        for far in "BC"
    ]
    save(tmp_path, "A/lldp.json", {"lldp": [{"interface": rows}]})
    if linux:
        (tmp_path / "A" / "config_db.json").unlink()
        save(tmp_path, "A/ip-link.json", [{"ifname": "Ethernet0"}])
    report = lint([tmp_path])
    assert [link.b.device for link in report.reading.fabric.links] == ["B"]
    found = [f.message for f in report.findings if f.code == "PF055" and f.source.endswith("lldp.json")]
    assert found == ["wired to B:etp0 and to C:etp0: a port has one cable"]


def test_lookup_table(tmp_path):
    save(
        tmp_path,
        "sw/config_db.json",
        {
            "PORT": {"Ethernet0": {"speed": "50000"}, "Ethernet4": {"speed": "50000"}},
            "CABLE_LENGTH": {"AZURE": {"Ethernet0": "40m", "Ethernet4": "35m"}},
            "PORT_QOS_MAP": {p: {"pfc_enable": "3", "pfcwd_sw_enable": "3"} for p in ("Ethernet0", "Ethernet4")},
        },
    )
    save(
        tmp_path,
        "sw/pg_profile_lookup.ini",
        "# speed cable size xon xoff threshold\n50000 5m 1248 2288 79872 -4\n50000 40m 1248 2288 39936 -4\nnonsense\n",
    )
    assert sorted(codes(tmp_path)) == ["PF005", "PF012", "PF016"]
    assert codes(tmp_path / "sw" / "pg_profile_lookup.ini", select=["PF012"]) == ["PF012"]


def test_shortest_paths_of_a_ring_can_deadlock(tmp_path):
    ring = {}
    for i in range(5):
        ports = {
            "Ethernet0": (100_000, 5, f"host{i}", "eth0"),
            "Ethernet4": (100_000, 5, f"r{(i + 1) % 5}", "Ethernet8"),
            "Ethernet8": (100_000, 5, f"r{(i - 1) % 5}", "Ethernet4"),
        }
        ring[f"r{i}"] = lint_fabrics.switch(f"r{i}", ports, lookup=False)
    found = lint([lint_fabrics.write(ring, tmp_path / "ring")]).findings
    assert [f.code for f in found] == ["PF060", "PF060"]
    assert "5 buffers wait for each other" in found[0].message
    ring["r0"]["PORT_QOS_MAP"]["Ethernet4"]["pfc_enable"] = ""
    ring["r1"]["PORT_QOS_MAP"]["Ethernet8"]["pfc_enable"] = ""
    assert "PF060" not in codes(lint_fabrics.write(ring, tmp_path / "line"))


def test_outputs_and_exit_codes(fabric):
    clean = cli("lint", fabric)
    assert (clean.returncode, "5 switches" in clean.stdout, "nothing wrong" in clean.stdout) == (0, True, True)
    path = fabric / "leaf0" / "config_db.json"
    tables = json.loads(path.read_text())
    tables["WRED_PROFILE"]["AZURE_LOSSLESS"]["wred_green_enable"] = "false"
    path.write_text(json.dumps(tables))
    text = cli("lint", fabric)
    assert (text.returncode, "leaf0 WRED_PROFILE AZURE_LOSSLESS wred_green_enable: error PF030" in text.stdout) == (
        1,
        True,
    )
    value = json.loads(cli("lint", fabric, "--json").stdout)
    assert [(f["code"], f["place"]["device"], f["place"]["file"]) for f in value["findings"]] == [
        ("PF030", "leaf0", str(path))
    ]
    sarif = json.loads(cli("lint", fabric, "--output-format", "sarif").stdout)
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == ["PF030"]
    assert cli("lint", fabric, "--output-format", "github").stdout.startswith("::error file=")
    assert cli("lint", fabric, "--ignore", "PF03").returncode == 0
    assert cli("lint", fabric, "--select", "PF03", "--ignore", "PF030").returncode == 0
    assert cli("lint", fabric, "--select", "PF030", "--ignore", "PF03").returncode == 1
    assert cli("lint", fabric, "--select", "XX").returncode == 2
    assert cli("lint", fabric / "nothing").returncode == 2
    assert cli("lint", "--explain", "PF999").returncode == 2
    assert "SONiC#480" in cli("lint", "--explain", "PF010").stdout


def test_fix_is_a_patch_that_ends_the_finding(fabric):
    path = fabric / "leaf0" / "config_db.json"
    before = path.read_text()
    tables = json.loads(before)
    tables["WRED_PROFILE"]["AZURE_LOSSLESS"] |= {"wred_green_enable": "false"}
    profile = next(p for p in tables["BUFFER_PROFILE"] if p.startswith("pg_lossless"))
    tables["BUFFER_PROFILE"][profile]["xoff"] = "1000"
    tables["PFC_WD"]["Ethernet0"] |= {"detection_time": "1000", "restoration_time": "200"}
    tables["PORT_QOS_MAP"]["Ethernet4"]["tc_to_pg_map"] = "AZUR"
    path.write_text(json.dumps(tables))
    broken = path.read_text()
    assert {"PF002", "PF010", "PF030", "PF040"} <= set(codes(fabric))
    done = cli("lint", fabric, "--fix", "--write", fabric.parent / "fixed")
    assert (done.returncode, path.read_text()) == (1, broken)
    for step in json.loads(done.stdout)["leaf0"]:
        table, key, field = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        assert step["op"] in {"add", "replace"}
        tables[table][key][field] = step["value"]
    path.write_text(json.dumps(tables))
    assert codes(fabric) == []
    assert json.loads((fabric.parent / "fixed" / "leaf0" / "config_db.json").read_text()) == tables
    assert codes(fabric.parent / "fixed") == []
    assert cli("lint", fabric, "--fix", "--write", fabric.parent / "fixed").returncode == 2  # it is not empty
    assert cli("lint", fabric, "--write", fabric.parent / "other").returncode == 2


@pytest.mark.parametrize("where", ["leaf0", "leaf1", "spine2"])
@pytest.mark.parametrize("point", ["3", "6"])
def test_a_map_that_contradicts_all_neighbours_is_one_finding_at_its_switch(tmp_path, where, point):
    devices = lint_fabrics.clos(3, 4, 2)
    table = next(t for t in ("DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP") if t in devices[where])
    (name,) = devices[where][table]
    devices[where][table][name][point] = "1" if point == "3" else "3"
    report = lint([lint_fabrics.write(devices, tmp_path)])
    (found,) = [finding for finding in report.findings if finding.code == "PF053"]
    assert (found.place.device, found.place.field) == (where, point)
    assert f"and to {3 if 'leaf' in where else 2} more neighbours" in found.message
    assert {operation.device for operation in found.patch} == {where}


def test_one_fault_is_one_finding_with_its_places(fabric):
    """A wrong profile of all leaves is one finding: short lines, with every port, file and line."""
    for path in fabric.glob("leaf*/config_db.json"):
        tables = json.loads(path.read_text())
        profile = next(name for name in tables["BUFFER_PROFILE"] if name.startswith("pg_lossless_100000"))
        tables["BUFFER_PROFILE"][profile]["xoff"] = "1000"
        path.write_text(json.dumps(tables, indent=1))
    report = lint([fabric])
    (finding,) = report.findings
    assert (finding.code, len(finding.places), {place.device for place in finding.places}) == (
        "PF010", 6, {"leaf0", "leaf1", "leaf2"}
    )  # fmt: skip
    lines = list(output.as_text(report))
    assert max(map(len, lines)) < 200 + len(str(fabric))
    assert "    also at: Ethernet12|3-4, leaf1 Ethernet8|3-4, leaf1 Ethernet12|3-4" in lines[2]
    (result,) = json.loads(output.dump(output.as_sarif(report)))["runs"][0]["results"]
    for place, location in zip(finding.places, result["locations"], strict=True):
        physical = location["physicalLocation"]
        text = Path(physical["artifactLocation"]["uri"]).read_text().splitlines()
        region = physical["region"]
        assert text[region["startLine"] - 1][region["startColumn"] - 1 :].startswith('"profile"')
        assert f"/{place.device}/" in physical["artifactLocation"]["uri"]
    assert ",line=" in next(output.as_github(report))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"PORT":\n {"Ethernet0":\n  {"speed": "0"}}}', 3),
        ('{"one":\n{"PORT":\n {"Ethernet0":\n  {"speed": "0"}}}}', 4),
        ('{"PORT|Ethernet0":\n {"speed": "0"}}', 2),
        ('{"PORT|Ethernet0":\n {"type": "hash",\n "value": {"speed": "0"}}}', 3),
        ('{"' + "9" * 5000 + '": {}, "PORT":\n {"Ethernet0":\n  {"speed": "0"}}}', 3),
        ('{"BUFFER_POOL":\n {"p":\n  {"mode": "dynamic"}}}', 2),  # the field is missing: the row
        ('{"PORT":\n {"Ethernet0": {"description": "{\\"speed\\": [1,",\n  "speed": "0"}}}', 3),
    ],
)
def test_findings_have_a_line(tmp_path, text, line):
    report = lint([save(tmp_path, "sw.json", text)])
    place = json.loads(output.dump(output.as_json(report)))["findings"][0]["place"]
    assert (place["line"], Path(place["file"]).name) == (line, "sw.json")


def test_colours_are_for_terminals_that_want_them(tmp_path, monkeypatch):
    report = lint([save(tmp_path, "sw.json", {"PORT": {"Ethernet0": {"speed": "0"}}})])
    assert not any("\x1b" in line for line in output.as_text(report))
    assert "\x1b[31m" in next(output.as_text(report, colour=True))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shows_colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours()


def test_files_of_a_device_that_nobody_reads_are_named(tmp_path):
    save(tmp_path, "sw/config_db.json", {"PORT": PORTS})
    save(tmp_path, "sw/acl.yaml", "x")
    save(tmp_path, "other/README.txt", "of no device")
    save(tmp_path, "host/ip-link.json", [{"ifname": "eth0"}])
    save(tmp_path, "host/tc.sh", "x")
    notes = read_fabric([tmp_path]).fabric.notes
    assert notes == ["no rule reads these files of devices: acl.yaml, tc.sh"]


HOSTILE = {
    "cut.json": ('{"PORT": {"Ethernet0": {"speed"', "line 1"),
    "binary.json": ("\0\1\2", "binary"),
    "deep.json": ("[" * 200_000, "nested deeper"),
    "digits.json": ('{"PORT": {"Ethernet0": {"speed": ' + "9" * 5000 + "}}}", "digits"),
    "bomb.xml": ('<!DOCTYPE a [<!ENTITY b "bbb"><!ENTITY c "&b;&b;">]><a>&c;</a>', "entities"),
    "file.xml": ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "entities"),
    "broken.xml": ("<a><b></a>", "not XML"),
    "empty.json": ("", "line 1"),
    "number.json": ("3", "none of what is read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_one_clear_sentence(tmp_path, name):
    text, message = HOSTILE[name]
    done = cli("lint", save(tmp_path, name, text))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_large_files_and_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(limit("bytes") // SHARE + 1)
    with pytest.raises(DeviceFileError, match="--limit bytes="):
        read_fabric([path])
    path.write_bytes(b'{"PORT": "\xff\xfe"}')
    with pytest.raises(DeviceFileError, match="UTF-8"):
        read_fabric([path])


def test_escapes_in_names_are_spelled_out(tmp_path):
    name = "\x1b[2J\x1b]0;owned\x07\u202e"
    tables = {"DEVICE_METADATA": {"localhost": {"hostname": name}}, "PORT": {name: {"speed": name}}, name: {}}
    path = save(tmp_path, "sw.json", tables)
    for form in ("text", "github", "json", "sarif"):
        done = cli("lint", path, "--output-format", form)
        assert done.returncode == 1
        assert not any(c in done.stdout + done.stderr for c in "\x1b\x07\u202e")


def test_links_out_of_a_folder_are_not_followed(tmp_path):
    outside = save(tmp_path, "outside.json", {"PORT": PORTS})
    save(tmp_path, "in/a.json", {"PORT": PORTS})
    (tmp_path / "in" / "b.json").symlink_to(outside)
    assert list(read_fabric([tmp_path / "in"]).databases) == ["a"]


def test_rows_to_a_port_that_nothing_describes_are_exported(tmp_path):
    """The port is in no PORT table, as in a truncated file, so the export assumes a rate of 10 Gb/s."""
    tables = {"VLAN": {"Vlan100": {"vlanid": "100"}}, "FDB": {"Vlan100|02:00:00:00:00:01": {"port": "Ethernet96"}}}
    qos = {"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}}}
    save(tmp_path, "in/config_db.json", {"PORT": PORTS} | tables | qos)
    assert export(read_fabric([tmp_path / "in"]), tmp_path / "back") == 1
    assert "Ethernet96" in (tmp_path / "back" / "topology.graphml").read_text()


def test_a_patch_bundles_a_link_as_its_other_end(tmp_path):
    devices = lint_fabrics.bundled(2, 2, 1)
    row, *_ = (key for key in devices["leaf0"]["PORTCHANNEL_MEMBER"] if key.startswith("PortChannel2|"))
    del devices["leaf0"]["PORTCHANNEL_MEMBER"][row]
    devices["leaf1"]["PORTCHANNEL"]["PortChannel1"]["admin_status"] = "down"
    report = lint([lint_fabrics.write(devices, tmp_path / "fabric")])
    assert {f.code for f in report.findings} == {"PF082"}
    fixed = fix(report)
    assert fixed.after.findings == []
    assert fixed.patches == {
        "leaf0": [{"op": "add", "path": f"/PORTCHANNEL_MEMBER/{row}", "value": {}}],
        "leaf1": [{"op": "replace", "path": "/PORTCHANNEL/PortChannel1/admin_status", "value": "up"}],
    }


@pytest.mark.parametrize("speed", ["half", "none"])
def test_the_speed_of_most_links_mends_the_odd_end(tmp_path, speed):
    devices = lint_fabrics.clos(4, 3, 1)
    row = devices["leaf1"]["PORT"]["Ethernet8"]
    right = row.pop("speed")
    row |= {"speed": str(int(right) // 2)} if speed == "half" else {}
    report = lint([lint_fabrics.write(devices, tmp_path)], select=["PF050"])
    (finding,) = report.findings
    assert finding.severity == ("error" if speed == "half" else "warning")
    op = "replace" if speed == "half" else "add"
    assert fix(report).patches == {"leaf1": [{"op": op, "path": "/PORT/Ethernet8/speed", "value": right}]}


def test_two_links_tell_no_majority_of_speeds(tmp_path):
    devices = lint_fabrics.clos(1, 1, 1)
    devices["leaf0"]["PORT"]["Ethernet4"]["speed"] = "1000"
    report = lint([lint_fabrics.write(devices, tmp_path)], select=["PF050"])
    assert [(finding.patch, "no majority" in finding.instead) for finding in report.findings] == [((), True)]


def test_the_row_that_all_others_contradict_is_mended(tmp_path):
    """leaf0's first uplink names the port of leaf1's, which agrees with its spine; spine0 still names leaf0."""
    devices = lint_fabrics.clos(2, 2, 1)
    rows = devices["leaf0"]["DEVICE_NEIGHBOR"]
    right, rows["Ethernet4"] = (
        rows["Ethernet4"],
        dict(devices["leaf0"]["DEVICE_NEIGHBOR"]["Ethernet8"], port="Ethernet4"),
    )
    assert devices["spine1"]["DEVICE_NEIGHBOR"]["Ethernet4"]["name"] == "leaf1"
    report = lint([lint_fabrics.write(devices, tmp_path)], select=["PF055"])
    assert [finding.place.device for finding in report.findings] == ["leaf0", "spine0"]
    fixed = fix(report)
    assert fixed.after.findings == []
    (steps,) = fixed.patches.values()
    assert {step["path"].rpartition("/")[2]: step["value"] for step in steps}.items() <= right.items()
    assert list(fixed.patches) == ["leaf0"]


def test_a_patch_that_causes_a_finding_is_left_out(tmp_path):
    """800 km of cable at one port: the profile that all ports share must not grow, a new one for this port fits."""
    devices = lint_fabrics.clos(3, 2, 2)
    tables = devices["leaf0"]
    tables["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "800000m"
    tables["WRED_PROFILE"]["AZURE_LOSSLESS"]["wred_green_enable"] = "false"
    shared = tables["BUFFER_PG"]["Ethernet0|3-4"]["profile"]
    report = lint([lint_fabrics.write(devices, tmp_path / "fabric")])
    assert any(step.field == "xoff" and step.key == shared for f in report.findings for step in f.patch)
    fixed = fix(report)
    assert (fixed.new, fixed.after.findings) == ([], [])
    paths = {step["path"] for step in fixed.patches["leaf0"]}
    assert "/WRED_PROFILE/AZURE_LOSSLESS/wred_green_enable" in paths
    assert not any(path.startswith(f"/BUFFER_PROFILE/{shared}") for path in paths)


def test_two_rules_with_one_code_are_an_error():
    def mine(reading):
        """Another rule."""
        yield from ()

    rules()
    with pytest.raises(ValueError, match=r"PF003 exists twice: .*constraints.check_constraints and .*mine"):
        rule("PF003", "mine", "nowhere")(mine)
    assert rules()["PF003"].name == "constraint"


def test_a_patch_adds_rows_and_tables(tmp_path):
    """A deleted row comes back, in a file that lacks even its table; other files of the device keep theirs."""
    tables = json.loads(json.dumps(LOSSLESS))
    del tables["BUFFER_PG"]["Ethernet4|3-4"]
    groups = {"BUFFER_PG": tables.pop("BUFFER_PG")}
    save(
        tmp_path, "in/sw/config_db.json", tables | {"VLAN_INTERFACE": {"Vlan9|10.0.0.1/24": {}}, "VLAN": {"Vlan9": {}}}
    )
    save(tmp_path, "in/sw/groups.json", groups)
    save(tmp_path, "in/sw/notes.txt", "not a device file")
    done = cli("lint", tmp_path / "in", "--fix", "--write", tmp_path / "out")
    profile = {"profile": "pg_lossless_100000_40m_profile"}
    assert json.loads(done.stdout) == {
        "sw": [
            {"op": "add", "path": "/BUFFER_PG/Ethernet4|3-4", "value": profile},
            {"op": "add", "path": "/VLAN_INTERFACE/Vlan9", "value": {}},
        ]
    }
    assert "Ethernet4|3-4" in json.loads((tmp_path / "out/sw/groups.json").read_text())["BUFFER_PG"]
    assert "BUFFER_PG" not in json.loads((tmp_path / "out/sw/config_db.json").read_text())
    assert (tmp_path / "out/sw/notes.txt").exists()
    assert codes(tmp_path / "out") == []


def test_a_patch_writes_references_as_the_image_does(tmp_path):
    """Images before 202106 write references in brackets."""
    tables = {"BUFFER_POOL": POOL, "BUFFER_PROFILE": {"p": {"pool": "[BUFFER_POOL|pol]", "size": "0"}}}
    path = save(tmp_path, "sw.json", tables)
    (step,) = json.loads(cli("lint", path, "--fix", "--write", tmp_path / "out").stdout)["sw"]
    assert step == {"op": "replace", "path": "/BUFFER_PROFILE/p/pool", "value": "[BUFFER_POOL|pool]"}
    assert codes(tmp_path / "out") == []


def test_a_copy_is_refused_where_it_would_lose_files(tmp_path):
    one, two = (save(tmp_path, f"{name}/sw.json", {"PORT": PORTS}) for name in "ab")
    inside = cli("lint", tmp_path / "a", "--fix", "--write", tmp_path / "a" / "fixed")
    assert (inside.returncode, "is copied" in inside.stderr) == (2, True)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["sw.json"]
    twice = cli("lint", one, two, "--fix", "--write", tmp_path / "fixed")
    assert (twice.returncode, "several paths are named sw.json" in twice.stderr) == (2, True)
    several = cli("lint", one, tmp_path / "b", "--fix", "--write", tmp_path / "fixed")
    assert several.returncode == 0
    assert {str(path.relative_to(tmp_path)) for path in (tmp_path / "fixed").rglob("*.json")} == {
        "fixed/sw.json",
        "fixed/b/sw.json",
    }


@pytest.mark.parametrize(("field", "found"), [("mtu@", True), ("mtu", False)])
def test_a_list_in_a_dump_ends_with_at(tmp_path, field, found):
    row = {"type": "hash", "value": {"lanes": "1,2", "speed": "100000", field: "9100"}}
    vlan = {"type": "hash", "value": {"vlanid": "5", "dhcp_servers@": "10.0.0.1,10.0.0.2"}}
    path = save(tmp_path, "dump.json", {"PORT|Ethernet0": row, "VLAN|Vlan5": vlan})
    messages = [finding.message for finding in lint([path]).findings if finding.code == "PF005"]
    assert messages == (['mtu is a list: SONiC keeps it as "mtu@", and nothing reads that'] if found else [])


def test_a_dump_of_the_database_is_not_rewritten(tmp_path):
    path = save(tmp_path, "dump.json", {"PORT|Ethernet0": PORTS["Ethernet0"] | {"admin_status": "UP"}})
    done = cli("lint", path, "--fix", "--write", tmp_path / "out")
    assert json.loads(done.stdout)["dump"] == [{"op": "replace", "path": "/PORT/Ethernet0/admin_status", "value": "up"}]
    assert "dump: not changed" in done.stderr
    assert (tmp_path / "out" / "dump.json").read_text() == path.read_text()


def test_every_rule_has_its_page():
    for code, known in rules().items():
        assert known.sources, code
        assert ("Incident: " in known.text) != ("No incident is known." in known.text), code
        assert (DOCS / f"{code}.md").read_text(encoding="utf-8") == explain(code), f"pauseframe lint --explain {code}"
    listed = (DOCS / "README.md").read_text(encoding="utf-8")
    assert all(f"[{code}]({code}.md)" in listed for code in rules())


LOSSLESS = {
    "DEVICE_METADATA": {"localhost": {"hostname": "sw"}},
    "PORT": PORTS,
    "CABLE_LENGTH": {"AZURE": dict.fromkeys(PORTS, "40m")},
    "BUFFER_POOL": {
        "in": {"type": "ingress", "mode": "dynamic", "size": "30000000"},
        "out": {"type": "egress", "mode": "dynamic", "size": "30000000"},
    },
    "BUFFER_PROFILE": {
        "pg_lossless_100000_40m_profile": {
            "pool": "in",
            "size": "400000",
            "xon": "18432",
            "xoff": "300000",
            "dynamic_th": "0",
        },
        "lossless": {"pool": "out", "size": "0", "dynamic_th": "7"},
        "lossy": {"pool": "out", "size": "0", "dynamic_th": "3"},
    },
    "BUFFER_PG": {f"{port}|3-4": {"profile": "pg_lossless_100000_40m_profile"} for port in PORTS},
    "BUFFER_QUEUE": {f"{p}|{q}": {"profile": n} for p in PORTS for q, n in (("0-2", "lossy"), ("3-4", "lossless"))},
    "PORT_QOS_MAP": {port: {"pfc_enable": "3,4"} for port in PORTS},
}


def lossless(tmp_path, **changes):
    """Findings of a lossless switch with changed rows: TABLE={key: row}; None deletes a row."""
    tables = json.loads(json.dumps(LOSSLESS))
    for table, rows in changes.items():
        for key, row in rows.items():
            tables.setdefault(table, {})
            if row is None:
                del tables[table][key]
            else:
                tables[table][key] = tables[table].get(key, {}) | row
    return lint([save(tmp_path, "sw.json", tables)]).findings


def test_a_deleted_row_of_a_lossless_group_is_found(tmp_path):
    assert lossless(tmp_path) == []
    found = lossless(tmp_path, BUFFER_PG={"Ethernet4|3-4": None})
    assert [(f.code, [p.key for p in f.places]) for f in found] == [("PF011", ["Ethernet4|3", "Ethernet4|4"])]
    assert "has no row in BUFFER_PG, as Ethernet0 has" in found[0].message
    found = lossless(tmp_path, BUFFER_QUEUE={"Ethernet4|3-4": None})
    assert {(f.code, f.place.key) for f in found} == {("PF015", "Ethernet4|3"), ("PF015", "Ethernet4|4")}


@pytest.mark.parametrize(
    "changes",
    [
        {"BUFFER_PROFILE": {"lossless": {"static_th": "1000"}}, "BUFFER_POOL": {"out": {"mode": "static"}}},
        {"BUFFER_POOL": {"out": {"size": "299999"}}},
    ],
    ids=["profile", "pool"],
)
def test_a_lossless_queue_holds_what_arrives_after_a_pause(tmp_path, changes):
    assert "PF015" in {finding.code for finding in lossless(tmp_path, **changes)}


def test_a_class_in_the_group_of_another_paused_priority_is_found(tmp_path):
    same = {str(number): str(number) for number in range(8)}
    maps = {"tc_to_pg_map": "m", "tc_to_queue_map": "m", "pfc_to_queue_map": "m"}
    tables = {
        "PORT_QOS_MAP": dict.fromkeys(PORTS, maps),
        "TC_TO_QUEUE_MAP": {"m": same},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"m": same},
    }
    assert lossless(tmp_path, **tables, TC_TO_PRIORITY_GROUP_MAP={"m": same}) == []
    found = lossless(tmp_path, **tables, TC_TO_PRIORITY_GROUP_MAP={"m": same | {"3": "4"}})
    assert [(f.code, f.place.field) for f in found] == [("PF020", "3")]
    assert "which pauses another priority" in found[0].message


@pytest.mark.parametrize(
    ("table", "key", "row", "found"),
    [
        ("CABLE_LENGTH", "AZURE", {"Ethernet0": "40m"}, ["PF013"]),
        ("BUFFER_POOL", "in", {"size": "200000"}, ["PF014"]),
        ("BUFFER_POOL", "in", {"size": "1000000"}, []),
    ],
)
def test_values_that_a_lossless_port_needs(tmp_path, table, key, row, found):
    tables = json.loads(json.dumps(LOSSLESS))
    tables[table][key] = row if table == "CABLE_LENGTH" else tables[table][key] | row
    report = lint([save(tmp_path, "sw.json", tables)])
    assert sorted({f.code for f in report.findings}) == found
    if table == "CABLE_LENGTH":
        assert fix(report).patches == {"sw": [{"op": "add", "path": "/CABLE_LENGTH/AZURE/Ethernet4", "value": "40m"}]}


def test_computed_headroom_needs_the_cable_length(tmp_path):
    dynamic = {f"{port}|3-4": {"profile": "NULL"} for port in PORTS}
    model = {"localhost": {"buffer_model": "dynamic"}}
    assert lossless(tmp_path, BUFFER_PG=dynamic, DEVICE_METADATA=model) == []
    cables = {"AZURE": None, "B": {"Ethernet0": "40m"}}
    found = lossless(tmp_path, BUFFER_PG=dynamic, DEVICE_METADATA=model, CABLE_LENGTH=cables)
    assert [(f.code, f.place.key) for f in found] == [("PF011", "Ethernet4|3-4")]


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ({}, {}, None),
        ({"fec": "rs"}, {"fec": "rs"}, None),
        ({"fec": "rs"}, {"fec": "fc"}, "error"),
        ({"fec": "rs"}, {}, "warning"),
        ({}, {"fec": "rs"}, "warning"),
        ({"fec": "auto"}, {}, None),
        ({"autoneg": "on"}, {}, "warning"),
        ({"autoneg": "on"}, {"autoneg": "off"}, "error"),
        ({"autoneg": "off"}, {}, None),
        ({"link_training": "on"}, {}, "warning"),
    ],
)
def test_both_ends_negotiate_alike(tmp_path, here, there, found):
    for name, row in (("A", here), ("B", there)):
        tables = {"DEVICE_METADATA": {"localhost": {"hostname": name}}, "PORT": {"Ethernet0": PORTS["Ethernet0"] | row}}
        save(tmp_path, f"{name}/config_db.json", tables)
    minigraph(tmp_path, "A Ethernet0 B Ethernet0")
    report = lint([tmp_path])
    assert [(f.code, str(f.severity)) for f in report.findings] == ([("PF056", found)] if found else [])
    assert fix(report).after.findings == ([] if found != "error" else report.findings)


@pytest.mark.parametrize(
    ("trims", "trimming", "messages"),
    [
        ("lossy", {"size": "128", "dscp_value": "48", "queue_index": "6"}, []),
        ("lossy", None, ["SWITCH_TRIMMING has no row GLOBAL: packets are dropped"]),
        ("lossy", {"dscp_value": "48", "queue_index": "6"}, ["it has no size: packets are dropped"]),
        ("lossy", {"size": "128", "queue_index": "3"}, ["trimmed packets go to queue 3, which is lossless"]),
        ("lossless", {"size": "128", "queue_index": "6"}, ["lossless trims packets of a lossless priority"]),
    ],
)
def test_trimming(tmp_path, trims, trimming, messages):
    changes = {"BUFFER_PROFILE": {trims: {"packet_discard_action": "trim"}}}
    found = lossless(tmp_path, **changes, **({"SWITCH_TRIMMING": {"GLOBAL": trimming}} if trimming else {}))
    assert [f.code for f in found] == ["PF018"] * len(messages)
    assert [f.message[-len(message) :] for f, message in zip(found, messages, strict=True)] == messages


def test_a_blank_number_is_no_number(tmp_path):
    wred = {"green_min_threshold": "", "green_max_threshold": "2097152"}
    found = lossless(tmp_path, WRED_PROFILE={"w": wred})
    assert [(f.code, f.message) for f in found] == [
        ("PF001", "green_min_threshold is empty: it can be a whole number from 0 to 18446744073709551615")
    ]


def test_a_hint_has_the_same_meaning(tmp_path):
    names = {"green_ecn_min_threshold": "1", "green_min_treshold": "1", "wred_green_enabled": "true"}
    found = {f.place.field: f.instead for f in lossless(tmp_path, WRED_PROFILE={"w": names}) if f.code == "PF004"}
    assert found == {
        "green_ecn_min_threshold": "remove it, or check which SONiC release reads it",
        "green_min_treshold": "did you mean green_min_threshold?",
        "wred_green_enabled": "did you mean wred_green_enable?",
    }


def test_a_key_that_stands_twice(tmp_path):
    file = tmp_path / "sw.json"
    text = json.dumps({"PORT": PORTS})
    file.write_text(text.replace('"PORT": {', '"PORT": {"Ethernet4": {"speed": "25000", "lanes": "2"}, '))
    found = lint([file]).findings
    assert [(f.code, f.message) for f in found] == [
        ("PF005", "Ethernet4 stands twice in one object: only the last counts")
    ]


MODEL = """module sonic-scheduler {
  yang-version 1.1; namespace "urn:test"; prefix s;
  import ietf-inet-types { prefix inet; }
  revision 2026-01-01;
  container sonic-scheduler {
  container SCHEDULER { list SCHEDULER_LIST {
    key "name"; leaf name { type string; }
    leaf weight { type uint8 { range "1..50"; } }
    leaf-list colours { type enumeration { enum red; enum green; } }
    leaf at { type inet:ipv4-address; }
    must "not(colours[text()='red']) or weight"; } } } }"""
"""Constructs of SONiC's models: a type of RFC 6991, a comma-separated list, a condition with text()."""


@pytest.fixture(params=["yanglint", "yangson"])
def validator(request, monkeypatch):
    if request.param == "yangson":
        pytest.importorskip("yangson")
        monkeypatch.setattr("pauseframe.lint.yang.shutil.which", lambda name: None)
    elif shutil.which("yanglint") is None:
        pytest.skip("yanglint (libyang-tools) is not installed")
    return request.param


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"weight": "40", "colours": "red,green", "at": "10.0.0.1"}, ""),
        ({"weight": "60"}, "60|weight"),
        ({"colours": "red,blue", "weight": "1"}, "blue|colours"),
        ({"colours": "red"}, "must|Must"),
        ({"at": "ten"}, "ten|at"),
    ],
)
def test_yang_models_of_the_operator(tmp_path, validator, row, wrong):
    save(tmp_path, "models/sonic-scheduler.yang", MODEL)
    path = save(tmp_path, "sw.json", {"SCHEDULER": {"s": row}})
    lines, failed = validate(tmp_path / "models", read_fabric([path]))
    assert failed == bool(wrong), lines
    if wrong:
        assert re.search(wrong, " ".join(lines)), lines
    else:
        assert lines == ["yang: sw: valid (sonic-scheduler)"]


def test_yang_on_the_command_line(tmp_path):
    path = save(tmp_path, "sw.json", {"SCHEDULER": {"s": {"weight": "40"}}})
    done = cli("lint", path, "--yang", tmp_path)
    assert done.returncode == 1
    assert re.search(r"sonic-\*\.yang|pauseframe\[yang\]", done.stderr)


def test_a_dump_of_the_database_is_its_tables(tmp_path):
    """The output of `sonic-db-dump`, and the form of SONiC's tests, which keep only its keys."""
    tables = {"PORT": {"Ethernet0": {"speed": "100000"}}, "BUFFER_PG": {"Ethernet0|3-4": {"profile": "nowhere"}}}
    rows = {f"{table}|{key}": row for table, keys in tables.items() for key, row in keys.items()}
    plain = lint([save(tmp_path, "tables.json", tables)])
    for name, dump in (
        ("keys", rows),
        ("dump", {key: {"type": "hash", "ttl": -1, "value": row} for key, row in rows.items()}),
    ):
        report = lint([save(tmp_path, f"{name}.json", dump)])
        assert [(f.code, f.place.key) for f in report.findings] == [(f.code, f.place.key) for f in plain.findings] != []


STRANGE: list[object] = [
    "",
    "-1",
    "0",
    "99999999999999999999",
    "3-4",
    "Ethernet0",
    "NULL",
    "\x00",
    "é",
    "1e9",
    None,
    [],
    {},
    ["x"],
    True,
    3.5,
]


def test_strange_values_never_raise(tmp_path):
    """Random changes to any field or row of a fabric cause findings, but no exception (seeded)."""
    base = lint_fabrics.clos(2, 1, 1)
    draw = random.Random(7)
    for number in range(150):
        devices = json.loads(json.dumps(base))
        for _ in range(4):
            tables = devices[draw.choice(sorted(devices))]
            rows = tables[draw.choice([t for t in tables if isinstance(tables[t], dict) and tables[t]])]
            key = draw.choice(sorted(rows))
            fields = rows[key]
            if isinstance(fields, dict) and fields and draw.random() < 0.8:
                fields[draw.choice(sorted(fields))] = draw.choice(STRANGE)
            else:
                rows[key] = draw.choice(STRANGE)
        folder = lint_fabrics.write(devices, tmp_path / str(number))
        report = lint([folder])
        list(output.as_text(report)), output.as_json(report), output.as_sarif(report), fix(report)


@pytest.mark.parametrize(("into", "found"), [("3", True), ("4", True), ("6", False), ("0", False)])
def test_notifications_do_not_belong_into_a_paused_priority(fabric, into, found):
    path = min(fabric.glob("*/config_db.json"))
    tables = json.loads(path.read_text())
    for row in tables["DSCP_TO_TC_MAP"].values():
        row["48"] = into
    path.write_text(json.dumps(tables))
    assert ("PF025" in codes(fabric)) == found


@pytest.mark.parametrize(
    ("into", "cnps", "data", "found"),
    [
        ("6", "DWRR", "DWRR", None),
        ("6", "STRICT", "STRICT", None),
        ("6", "DWRR", "STRICT", "scheduler"),
        ("1", "DWRR", "DWRR", "48"),
        ("3", "DWRR", "STRICT", None),
    ],
)
def test_notifications_do_not_wait_behind_data(fabric, into, cnps, data, found):
    path = min(fabric.glob("*/config_db.json"))
    tables = json.loads(path.read_text())
    for row in tables["DSCP_TO_TC_MAP"].values():
        row["48"] = into
    tables["SCHEDULER"] |= {"cnps": {"type": cnps, "weight": "1"}, "data": {"type": data, "weight": "1"}}
    for key, row in tables["QUEUE"].items():
        row["scheduler"] = {"6": "cnps", "3": "data"}.get(key.split("|")[1], row["scheduler"])
    path.write_text(json.dumps(tables))
    fields = {finding.place.field for finding in lint([fabric]).findings if finding.code == "PF026"}
    assert fields == ({found} if found else set())
