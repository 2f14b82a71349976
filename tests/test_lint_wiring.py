"""Files that disagree about cables: DEVICE_NEIGHBOR, LLDP of switches and hosts, and topology files (PF055, PF061)."""

import json
import shutil

import lint_fabrics
import lint_pairs
import pytest
from pauseframe.deploy import Settings, write_deployment
from pauseframe.devices.model import End
from pauseframe.fabric.topology import load_topology
from pauseframe.lint.engine import lint
from test_deploy import planned

LEAF0 = {  # the plan's cables of leaf0
    "Ethernet0": ("host0", "eth1"),
    "Ethernet4": ("host1", "eth1"),
    "Ethernet8": ("spine0", "Ethernet0"),
    "Ethernet12": ("spine1", "Ethernet0"),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    root = tmp_path_factory.mktemp("wiring")
    plan = planned(root / "source", "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2", "up_down", 1, 2)
    write_deployment(plan, root / "plan", Settings())
    return root / "plan"


@pytest.fixture
def plan(base, tmp_path):
    return shutil.copytree(base, tmp_path / "plan")


def neighbours(folder):
    tables = json.loads((folder / "config_db.json").read_text())
    return {port: (row["name"], row["port"]) for port, row in tables["DEVICE_NEIGHBOR"].items()}


def lldp(folder, cables):
    """Writes what LLDP shows, from (neighbour, its port) by port."""
    rows = [
        {"name": port, "chassis": [{"name": [{"value": far}]}], "port": [{"id": [{"type": "local", "value": at}]}]}
        for port, (far, at) in cables.items()
    ]
    (folder / "lldp.json").write_text(json.dumps({"lldp": [{"interface": rows}]}))


def swapped(cables, one, other):
    return cables | {one: cables[other], other: cables[one]}


def rows(root, code="PF055", **options):
    return sorted(
        f"{f.place.device} {f.place.key}: {f.message}" for f in lint([root], **options).findings if f.code == code
    )


def test_the_plan_has_these_cables(plan):
    assert neighbours(plan / "switches" / "leaf0") == LEAF0
    assert rows(plan) == []


@pytest.mark.parametrize("domain", ["", ".example.org"])
def test_lldp_that_agrees(plan, domain):
    for folder in (plan / "switches").iterdir():
        lldp(folder, {port: (f"{far}{domain}", at) for port, (far, at) in neighbours(folder).items()})
    assert lint([plan]).findings == []


def test_lldp_with_other_names_of_ports(plan):
    """A port that no file of its device has is no contradiction: LLDP may show a name that only the device knows."""
    leaf = plan / "switches" / "leaf0"
    lldp(leaf, {port: (far, "etp99") for port, (far, _) in LEAF0.items() if far.startswith("spine")})
    assert rows(plan) == []


def test_lldp_without_names(plan):
    """Cards that send LLDP themselves have an address as name; the host that DEVICE_NEIGHBOR names stays connected."""
    lldp(plan / "switches" / "leaf0", {"Ethernet0": ("02:00:5E:00:00:01", "02:00:5e:00:00:02")})
    report = lint([plan])
    assert report.findings == []
    assert End("host0", "eth1") in report.reading.fabric.peers()


@pytest.mark.parametrize("ports", [("Ethernet0", "Ethernet4"), ("Ethernet8", "Ethernet12")])
def test_lldp_of_a_leaf_with_two_cables_exchanged(plan, ports):
    lldp(plan / "switches" / "leaf0", swapped(LEAF0, *ports))
    found = rows(plan)
    assert [text.partition(":")[0] for text in found] == sorted(f"leaf0 {port}" for port in ports)
    assert all("leaf0/lldp.json" in text for text in found)


def test_lldp_of_spines_with_two_cables_exchanged(plan):
    for name in ("spine0", "spine1"):
        folder = plan / "switches" / name
        lldp(folder, swapped(neighbours(folder), "Ethernet0", "Ethernet4"))
    assert [text.partition(":")[0] for text in rows(plan)] == [
        f"leaf{i} {port}" for i in range(2) for port in ("Ethernet12", "Ethernet8")
    ]


def test_lldp_of_a_host_that_is_elsewhere(plan):
    lldp(plan / "hosts" / "host0", {"eth1": ("leaf1", "Ethernet4")})
    assert any(text.startswith("leaf0 Ethernet0: to host0:eth1") for text in rows(plan))


def test_lldp_of_two_switches_that_disagree(plan):
    for folder in (plan / "switches").iterdir():
        tables = json.loads((folder / "config_db.json").read_text())
        del tables["DEVICE_NEIGHBOR"]
        (folder / "config_db.json").write_text(json.dumps(tables))
    spine = plan / "switches" / "spine0"
    lldp(plan / "switches" / "leaf0", LEAF0)
    lldp(spine, {"Ethernet0": ("leaf1", "Ethernet8"), "Ethernet4": ("leaf0", "Ethernet8")})
    assert any("by" in text and "lldp.json" in text for text in rows(plan))


def test_a_topology_file_with_two_ports_exchanged(plan, tmp_path):
    links = [(*LEAF0["Ethernet12"], "Ethernet8"), (*LEAF0["Ethernet8"], "Ethernet12")]
    edges = [{"source": far, "source_port": at, "target": "leaf0", "target_port": port} for far, at, port in links]
    nodes = [{"id": name, "role": "switch"} for name in ("leaf0", "spine0", "spine1")]
    path = tmp_path / "cabling.json"
    path.write_text(json.dumps({"nodes": nodes, "edges": edges}))
    assert load_topology(path)
    assert len([text for text in rows(plan, topology=path) if "cabling.json" in text]) == 2


@pytest.mark.parametrize("device", ["leaf0", "leaf1"])
def test_one_port_of_a_host_in_two_rows(plan, device):
    """At one switch or at two."""
    path = plan / "switches" / device / "config_db.json"
    tables = json.loads(path.read_text())
    tables["DEVICE_NEIGHBOR"]["Ethernet4"] = {"name": "host0", "port": "eth1"}
    path.write_text(json.dumps(tables))
    assert rows(plan) == [f"leaf0 Ethernet0: to host0:eth1, and so is {device}:Ethernet4: a port has one cable"]


def test_a_row_that_names_its_own_port(plan):
    path = plan / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(path.read_text())
    tables["DEVICE_NEIGHBOR"]["Ethernet0"] = {"name": "leaf0", "port": "Ethernet0"}
    path.write_text(json.dumps(tables))
    assert "leaf0 Ethernet0: to this port itself" in rows(plan)


def test_static_rows_that_lead_to_another_host(plan):
    """DEVICE_NEIGHBOR with two hosts exchanged: the rows are still those of the plan."""
    path = plan / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(path.read_text())
    named = tables["DEVICE_NEIGHBOR"]
    named["Ethernet0"], named["Ethernet4"] = named["Ethernet4"], named["Ethernet0"]
    path.write_text(json.dumps(tables))
    found = rows(plan, "PF061")
    assert [text.partition(",")[0].partition(": ")[2] for text in found] == [
        "Ethernet0 leads to host1:eth1",
        "Ethernet4 leads to host0:eth1",
    ]


def test_both_tors_of_a_mux_cable_show_one_port_of_the_server(tmp_path):
    root = lint_fabrics.write(lint_pairs.dual_tor(), tmp_path)
    for name in ("tor1", "tor0"):
        lldp(root / name, neighbours(root / name))
    report = lint([root])
    assert (report.findings, len(report.reading.fabric.links)) == ([], 10)
