"""Fabrics of several planes: one plan with VLANs of each plane, from the command to runs and files of devices."""

import re
from collections import defaultdict
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.deploy import DeployError, Settings, write_deployment
from pauseframe.fabric.routing import tree_ports, update_routes
from pauseframe.lint import lint

FABRIC = "leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,planes=2"
RUN = """
stop = "40 ms"
topology = { kind = "leaf_spine", leaves = 3, spines = 2, hosts_per_leaf = 2, planes = 2 }
host = { miimon = "500 us", port_choice = "rail" }
transport.preset = "roce_dcqcn"
[[workload]]
kind = "permutation"
size = "2 MB"
[[workload]]
kind = "permutation"
size = "2 MB"
[[failure]]
port = "host0:1"
down = "50 us"
"""


@pytest.fixture(name="plan")
def _plan(tmp_path: Path) -> Path:
    fabric = pf.load_topology(FABRIC).with_single_ports()
    routes = pf.plan_routes(fabric, "up_down", vlans=3, first_vlan=100)
    pf.write_plan(routes, fabric, tmp_path / "plan")
    return tmp_path / "plan"


def test_a_plan_is_proved_for_each_plane_and_read_back(plan: Path) -> None:
    fabric = pf.load_topology(plan / "topology.graphml").with_single_ports()
    report = pf.read_routes(str(plan), fabric).check()
    assert report["clean"]
    assert [plane["vlans"] for plane in report["planes"]] == [[100, 101, 102], [103, 104, 105]]
    assert [plane["ports"] for plane in report["planes"]] == [6, 6]
    assert "plane 1: 5 switches from leaf0-p1 on, 6 ports of hosts, VLANs 103 to 105: cannot deadlock" in report["text"]


@pytest.mark.parametrize("routing", ['kind = "plan"\npath = "plan"', 'kind = "up_down"\nvlans = 3'])
def test_flows_stay_in_the_vlans_of_their_plane(plan: Path, routing: str) -> None:
    """After the loss of a port its flows move to the VLANs of the other plane; nothing is dropped by a switch."""
    scenario = plan.parent / "run.toml"
    scenario.write_text(RUN + f"[routing]\n{routing}\n")
    run = pf.run(scenario, progress=False)
    assert run.summary["flows_finished"] == 12
    sent: dict[str, int] = defaultdict(int)
    for row in run.ports:
        sent[row["port"].partition(":")[2] if row["port"].startswith("host1") else row["port"]] += row["tx_bytes"]
    assert min(sent["0"], sent["1"]) > 1_000_000
    assert sent["host0:1"] < 1_000_000
    lost = sum(row["drops_buffer_full"] + row["drops_headroom_exceeded"] for row in run.ports)
    assert lost == 0


def test_an_update_leaves_the_other_plane_alone(plan: Path) -> None:
    fabric = pf.load_topology(plan / "topology.graphml").with_single_ports()
    inner = [n for n, (a, b, *_) in enumerate(fabric.links()) if a.endswith("-p1") and b.endswith("-p1")]
    update = update_routes(pf.read_routes(str(plan), fabric), fabric.without(inner[:1]), failed=True)
    assert update["mixes"]
    assert update["kept"] == [100, 101, 102]
    assert update["routes"].check()["clean"]


@pytest.mark.parametrize("target", ["sonic", "linux"])
def test_devices_get_the_vlans_of_their_plane(plan: Path, tmp_path: Path, target: str) -> None:
    out = tmp_path / target
    write_deployment(plan, out, Settings(target=target))
    report = lint([out])
    assert [str(finding) for finding in report.findings if finding.severity == "error"] == []
    links = {}
    for folder in (out / "hosts").iterdir():
        text = (folder / "setup.sh").read_text()
        links[folder.name] = re.findall(r"^(?:nic|links)=(.*)$", text, re.MULTILINE)
    assert links["host3"] == ["eth1", "'pf100 pf101 pf102'"]
    assert links["host3.eth2"] == ["eth2", "'pf103 pf104 pf105'"]
    files = (out / "switches" / "leaf0-p1").glob("*.json" if target == "sonic" else "setup.sh")
    text = "".join(path.read_text() for path in files)
    assert set(re.findall(r"Vlan(\d+)|vid (\d+) dev", text)) == {
        (vlan, "") if target == "sonic" else ("", vlan) for vlan in ("103", "104", "105")
    }


def test_a_detached_part_of_equal_size_is_no_plane(plan: Path, tmp_path: Path) -> None:
    """The hosts of planes have a port in each; with other hosts in each part, lint names the parts."""
    out = tmp_path / "out"
    write_deployment(plan, out, Settings())
    report = lint([out])
    assert report.findings == []
    assert "2 planes of 6 ports, without a link between them" in report.reading.fabric.notes
    for file in [path for path in out.rglob("*") if path.is_file()]:
        file.write_text(re.sub(r"host(\d)\.eth2", r"other\1", file.read_text()))
    for folder in (out / "hosts").glob("*.eth2"):
        folder.rename(folder.with_name(f"other{folder.name[4]}"))
    messages = [finding.message for finding in lint([out]).findings if finding.code == "PF061"]
    assert messages == [
        "2 parts without a link between them: 5 switches from leaf0-p0 on with 6 ports of hosts; "
        "5 switches from leaf0-p1 on with 6 ports of hosts"
    ]


def test_two_ports_of_a_host_in_one_plane_are_refused(tmp_path: Path) -> None:
    fabric = pf.load_topology(
        FABRIC.replace("leaves=3", "leaves=4").replace("planes", "ports_per_host")
    ).with_single_ports()
    pf.write_plan(pf.plan_routes(fabric, "up_down", vlans=3, first_vlan=100), fabric, tmp_path / "plan")
    with pytest.raises(DeployError, match=r"host0 and host0\.eth2 are NICs of host0: both have VLAN 100"):
        write_deployment(tmp_path / "plan", tmp_path / "out", Settings())


def test_a_drawing_has_the_routes_of_the_plane(plan: Path) -> None:
    """The tree to a host's second port comes from second ports, and stays in their plane."""
    fabric = pf.load_topology(plan / "topology.graphml").with_single_ports()
    routes = pf.read_routes(str(plan), fabric)
    ports = tree_ports(routes, fabric, 103, "host0.eth2")
    assert {f"host{number}:eth2" for number in range(1, 6)} <= set(ports)
    assert not [port for port in ports if "-p0" in port or (port.endswith(":eth1") and port.startswith("host"))]
    assert {port.partition(":")[0] for port in ports} >= {"leaf0-p1", "leaf1-p1", "leaf2-p1"}
    assert not [port for port in ports if port.startswith("host0")]
    first = tree_ports(routes, fabric, 100, "host0")
    assert {f"host{number}:eth1" for number in range(1, 6)} <= set(first)
    assert not [port for port in first if "-p1" in port]


def test_a_drawing_has_the_second_ports_of_other_hosts() -> None:
    fabric = pf.load_topology("leaf_spine:leaves=4,spines=2,hosts_per_leaf=2,ports_per_host=2").with_single_ports()
    ports = set(tree_ports(pf.plan_routes(fabric, "up_down", vlans=1), fabric, 1, "host0.eth2"))
    assert {f"host{host}:eth{port}" for host in range(1, 8) for port in (1, 2)} <= ports
    assert not [port for port in ports if port.startswith("host0:")]
    with pytest.raises(pf.FabricError, match='"leaf1" is not a host'):
        tree_ports(pf.plan_routes(fabric, "up_down", vlans=1), fabric, 1, "leaf1")
