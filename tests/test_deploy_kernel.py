"""The Linux target on the real kernel's bridges: every pair's frame takes the plan's way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.deploy import Settings, read_plan, write_deployment
from test_deploy import planned, way

NAMESPACES = ["unshare", "-rnm"]


def unavailable() -> str | None:
    """Why bridges cannot be made here."""
    if any(shutil.which(name) is None for name in ("unshare", "ip", "bridge")):
        return "unshare, ip and bridge (util-linux, iproute2) are not here"
    bridge, pair = "ip link add name br7 type bridge", "ip link add name ve1 type veth peer name ve2"
    probe = f"mount -t tmpfs tmpfs /run && ip netns add a && {bridge} && {pair}"
    done = subprocess.run([*NAMESPACES, "sh", "-c", probe], capture_output=True, text=True, check=False)
    return f"no bridges in namespaces: {done.stderr.strip()}" if done.returncode else None


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """The deployment, its plan, and what the kernel did with it."""
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("kernel")
    folder = planned(root / "plan", "jellyfish:switches=5,network_ports=3,hosts_per_switch=1", vlans=2)
    settings = Settings(target="linux")
    write_deployment(folder, root / "out", settings)
    plan = read_plan(folder, settings)
    links = [[a.device, a.port, b.device, b.port] for a, b, _ in plan.links]
    links += [[host.switch, host.port, host.name, host.nic] for host in plan.hosts]
    about = {
        "links": links,
        "hosts": {host.name: [host.nic, host.mac] for host in plan.hosts},
        "switches": {switch: switch for switch in plan.switches},
        "vlans": sorted(plan.vlans),
        "pairs": {
            v: [[a.name, b.name] for a in plan.hosts for b in plan.hosts if plan.uses(v, a, b)] for v in plan.vlans
        },
    }
    (root / "about.json").write_text(json.dumps(about))
    script = Path(__file__).parent / "kernel_fabric.py"
    done = subprocess.run(
        [*NAMESPACES, sys.executable, script, root / "out", root / "about.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, plan, json.loads(done.stdout)


def test_every_pair_takes_the_plans_way(kernel):
    folder, plan, found = kernel
    routes = pf.read_routes(str(folder), pf.load_topology(folder / "topology.graphml"))
    vlans = sorted(plan.vlans) if found["mode"] == "vlan" else [min(plan.vlans)]
    pairs = [(v, a, b) for v in vlans for a in plan.hosts for b in plan.hosts if plan.uses(v, a, b)]
    assert set(found["paths"]) == {f"{v} {a.name} {b.name}" for v, a, b in pairs}
    assert len(pairs) > 10
    for key, switches in found["paths"].items():
        vlan, source, target = key.split()
        assert switches == sorted(way(routes, int(vlan), source, target)[1:]), key


def test_the_kernel_has_the_rows(kernel):
    _, plan, found = kernel
    macs = {host.name: host.mac for host in plan.hosts}
    first = min(plan.vlans)
    for switch, rows in plan.rows.items():
        static = {(r.get("vlan"), r["mac"], r["ifname"]) for r in found["fdb"][switch] if r.get("state") == "static"}
        wanted = {(vlan, macs[host], port) for vlan, host, port in rows}
        if found["mode"] == "plain":
            wanted = {(None, mac, port) for vlan, mac, port in wanted if vlan == first}
        assert static == wanted


def test_vlan_filtering(kernel):
    if kernel[2]["mode"] == "plain":
        pytest.skip("this kernel has no CONFIG_BRIDGE_VLAN_FILTERING: the rows of one VLAN were run on plain bridges")
    assert {key.split()[0] for key in kernel[2]["paths"]} == {str(vlan) for vlan in kernel[1].vlans}
