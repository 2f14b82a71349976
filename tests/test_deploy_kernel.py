"""The Linux target on a real kernel: bridges with VLAN filtering and hosts with their TCP, in a QEMU guest.

The scripts run in the order of the roll-out, twice, and are then undone. Every pair of hosts opens a TCP connection in
every VLAN that the plan assigns to the pair, and the test records the frames at every port.
"""

import json
import re
import shutil
from pathlib import Path

import kernel_guest
import pauseframe as pf
import pytest
from pauseframe import devices
from pauseframe.deploy import Settings, hosts, read_plan, routed_hosts, underlay, write_deployment
from pauseframe.deploy.design import read_design
from pauseframe.deploy.inventory import Inventory
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.examples import HOME
from pauseframe.lint import lint
from pauseframe.lint.export import export
from test_deploy import planned, way
from test_rollout import sections, steps

SETTINGS, SONIC = Settings(target="linux"), Settings()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """The plan's folder, the plan, the results of the guest, and the folder of its collected files."""
    reason = kernel_guest.unavailable()
    if reason:
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("kernel")
    folder = planned(root / "plan", "jellyfish:switches=5,network_ports=2,hosts_per_switch=1", vlans=2)
    work, out = root / "work", root / "found"
    work.mkdir()
    out.mkdir()
    write_deployment(folder, work / "out", SETTINGS)
    plan = read_plan(folder, SETTINGS)
    of_scenario = {"routed": routed(work / "scenario")}
    (work / "about.json").write_text(json.dumps(about(plan, (work / "out" / "ROLLOUT.md").read_text()) | of_scenario))
    here = Path(__file__).parent
    shutil.copy(here / "kernel_fabric.py", work)
    shutil.copy(Path(devices.__file__).parent / "collect.sh", work)
    kernel_guest.boot(work, "kernel_fabric.py", out)
    return folder, plan, json.loads((out / "found.json").read_text()), out, work / "out"


def routed(out):
    """Deploys the example of DCTCP beside TCP; returns what the guest needs of its first host."""
    scenario = pf.Scenario.from_toml((HOME / "dctcp" / "fabric.toml").read_text()).resolve()
    deploy_scenario(scenario, out, SONIC)
    design = read_design(scenario, SONIC, Inventory(), None)
    addresses, host = underlay.addresses(design), design.plan.hosts[0]
    return {
        "nic": host.nic,
        "mac": host.mac,
        "folder": f"hosts/{host.name}",
        "addresses": list(map(str, addresses.hosts[host.name, host.nic])),
        "other": str(addresses.hosts["host7", host.nic][0]),
        "keys": [value.name for value in routed_hosts.sysctls(design)],
    }


def about(plan, rollout_text):
    links = [[a.device, a.port, b.device, b.port] for a, b, _ in plan.links]
    links += [[host.switch, host.port, host.name, host.nic] for host in plan.hosts]
    own = {name: f"switches/{name}" for name in plan.switches} | {h.name: f"hosts/{h.name}" for h in plan.hosts}
    found = sections(rollout_text)
    titles = {"switch": "A switch", "receive": "Receive", "send": "Send"}
    commands = {k: {p: found[title, p] for p in ("Check", "Then", "Back")} for k, title in titles.items()}
    vlans = sorted(plan.vlans)
    return {
        "links": links,
        "devices": own,
        "switches": plan.switches,
        "order": steps(rollout_text),
        "commands": commands,
        "addresses": {str(v): {h.name: h.address(i) for h in plan.hosts} for i, v in enumerate(vlans)},
        "macs": {host.name: [host.nic, host.mac] for host in plan.hosts},
        "pairs": [
            [str(v), a.name, b.name] for v in vlans for a in plan.hosts for b in plan.hosts if plan.uses(v, a, b)
        ],
        "keys": [value.name for value in hosts.sysctls(plan.hosts[0], SETTINGS)],
    }


def test_every_pair_takes_the_plans_way(kernel):
    folder, plan, found, _, _ = kernel
    routes = pf.read_routes(str(folder), pf.load_topology(folder / "topology.graphml"))
    far = {(a, port): end.device for a in plan.switches for port, (end, _) in plan.ports(a).items()}
    at = {h.name: [h.address(i) for i in range(len(plan.vlans))] for h in plan.hosts}
    compared = 0
    for index, vlan in enumerate(sorted(plan.vlans)):
        for a in plan.hosts:
            for b in plan.hosts:
                if not plan.uses(vlan, a, b):
                    continue
                ends = [at[a.name][index], at[b.name][index]]
                rows = [row for row in found["ways"] if row[5:] == ends]
                devices_on = way(routes, vlan, a.name, b.name)[1:]
                hops = set(zip(devices_on, [*devices_on[1:], b.name], strict=True))
                assert {(d, far[d, port]) for d, port, *_ in rows if d in plan.switches} == hops
                assert {d for d, *_ in rows if d not in plan.switches} == {b.name}
                priority = SETTINGS.priorities[plan.vlans[vlan]]
                assert {tuple(row[2:4]) for row in rows} == {(vlan, priority)}
                assert 2 in {row[4] for row in rows}, "ECT(0) on no packet: ECN was not negotiated"
                compared += 1
    assert compared >= 20
    assert {row[2] for row in found["ways"]} == set(plan.vlans)


def test_twice_is_once_and_undo_is_never(kernel):
    found = kernel[2]
    for device, state in found["before"].items():
        assert found["done"][device] != state
        assert found["again"][device] == found["done"][device]
        assert found["undone"][device] == state, device


def test_a_host_of_a_scenario(kernel):
    """Twice is once, undo restores, and each class's address has the routes of its class."""
    found = kernel[2]["routed"]
    assert found["done"] != found["before"]
    assert found["again"] == found["done"]
    assert found["undone"] == found["before"]
    dctcp, cubic = found["routes"]
    for words in ("congctl dctcp", "features ecn", "rto_min lock 5ms", "quickack 1", "via 10.0.0.1"):
        assert words in dctcp, words
    assert "table 101" in cubic
    assert "congctl cubic" in cubic
    assert "ecn" not in cubic


def test_what_the_host_reads_back(kernel):
    _, plan, found, _, _ = kernel
    reads = found["reads"]
    for words in (
        "congctl dctcp",
        "initcwnd 34",
        "quickack 1",
        "features ecn",
        "rto_min lock 5ms",
        f"dev pf{min(plan.vlans)}",
    ):
        assert words in reads["route"], words
    for words in ("dctcp", "ecn", "cwnd:34"):
        assert re.search(rf"\b{words}\b", reads["ss"]), words
    lines = dict(line.split(" = ") for line in reads["sysctl"].splitlines())
    for value in hosts.sysctls(plan.hosts[0], SETTINGS):
        assert lines[value.name].split() == value.value.split()


def test_what_is_collected_there_is_the_plan(kernel, tmp_path):
    """The linter finds no fault in the files that collect.sh gathers, and reads the same routes.

    The test adds PFC, which veth lacks.
    """
    folder, plan, _, collected, deployed = kernel
    for kind, names in (("switches", plan.switches), ("hosts", [host.name for host in plan.hosts])):
        for name in names:
            shutil.copytree(collected / kind / name, tmp_path / "in" / name)
            for file in (deployed / kind / name).glob("*.json"):
                if file.name.startswith(("dcb-pfc", "lldp")):
                    shutil.copy(file, tmp_path / "in" / name)
    report = lint([tmp_path / "in"])
    assert [(f.code, str(f.place), f.message) for f in report.findings] == []
    assert set(report.reading.fabric.switches) == set(plan.switches)
    for host in report.reading.fabric.hosts.values():
        ours = [route for route in host.routes if route.congctl]
        assert len(ours) == len(plan.vlans)
        assert {(r.congctl, r.initcwnd, r.rto_min_ms, r.quickack, r.ecn) for r in ours} == {
            ("dctcp", 34, 5.0, True, True)
        }
    export(report.reading, tmp_path / "back")
    back = pf.read_routes(
        str(tmp_path / "back" / "tables.json"), pf.load_topology(tmp_path / "back" / "topology.graphml")
    )
    wanted = pf.read_routes(str(folder), pf.load_topology(folder / "topology.graphml"))
    assert not back.check()["can_deadlock"]
    for vlan in plan.vlans:
        for a in plan.hosts:
            for b in plan.hosts:
                if plan.uses(vlan, a, b):
                    assert way(back, vlan, a.name, b.name) == way(wanted, vlan, a.name, b.name)
