"""Hosts with several ports: bonds and port channels, pairs of MCLAG, or an address for each port; there and back."""

import json
import shutil
import subprocess
import tomllib

import pauseframe as pf
import pytest
from pauseframe.deploy import DeployError, Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.deploy.write import MARK
from pauseframe.devices.read import read_fabric
from pauseframe.imports.fabric import import_fabric
from pauseframe.lint.design import read_design
from pauseframe.lint.engine import lint
from pauseframe.lint.yang import validate
from pauseframe.scenario.text import resolve_text
from test_deploy import models

LEAVES = 'kind = "leaf_spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\nports_per_host = 2'
STAR = 'kind = "star"\nhosts = 2\nports_per_host = 2'
PLANES = 'kind = "leaf_spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\nplanes = 2'
TEXT = """
name = "ports"
stop = "20 ms"

[topology]
{topology}
link = {{ rate = "100 Gbps", delay = "25 ns" }}

[host]
port_choice = "{choice}"
{keys}

[switch]
buffer = {{ policy = "shared", size = "16 MB" }}
priority_of_dscp = [[0, 0], [10, 1], [26, 3], [48, 6]]
pfc = {{ priorities = [3], watchdog = {{}} }}

[transports.roce]
preset = "roce_dcqcn"
dscp = 26

[transports.fast]
preset = "dctcp_plus"
dscp = 10
rto_min = "5 ms"

[[workload]]
kind = "permutation"
transport = "roce"
size = "1 MB"

[[workload]]
kind = "permutation"
name = "fast"
transport = "fast"
size = "1 MB"
"""
CASES = {
    "rail": (LEAVES, "rail", ""),
    "rail at one switch": (STAR, "rail", ""),
    "planes": (PLANES, "rail", ""),
    "pair of MCLAG": (LEAVES, "802.3ad", 'miimon = "50 ms"\nlacp_rate = "fast"\nhash_policy = "layer2+3"'),
    "port channel": (STAR, "802.3ad", ""),
    "active-backup": (STAR, "active-backup", 'miimon = "20 ms"'),
    "balance-tlb": (STAR, "least_loaded", ""),
}


def deployed(case, out):
    topology, choice, keys = case
    text = TEXT.format(topology=topology, choice=choice, keys=keys)
    return text, deploy_scenario(pf.Scenario.from_toml(text).resolve(), out, Settings())


@pytest.mark.parametrize("name", CASES)
def test_lint_finds_nothing_and_the_choice_of_ports_comes_back(tmp_path, name):
    text, summary = deployed(CASES[name], tmp_path / "out")
    listed = {row["key"] for row in summary["unwritten"] if row["key"].startswith("host")}
    assert listed == ({"host.port_choice"} if CASES[name][1] == "least_loaded" else set())
    reading = read_fabric([tmp_path / "out"])
    assert [str(f) for f in lint([tmp_path / "out"], release="202605").findings] == []
    wanted = tomllib.loads(pf.Scenario.from_toml(text).resolve().toml)["host"]
    found = import_fabric(reading)
    assert found.scope.account.odd == []
    back = tomllib.loads(pf.Scenario.from_toml(found.toml).resolve().toml)["host"]
    keys = {"port_choice"} | ({"hash_policy", "lacp_rate", "miimon"} if wanted["port_choice"] == "802.3ad" else set())
    assert {key: back[key] for key in keys} == {key: wanted[key] for key in keys}
    for host in (tmp_path / "out" / "hosts").iterdir():
        assert subprocess.run(["sh", "-n", host / "setup.sh"], check=False).returncode == 0


PEERED = f"{LEAVES}\npeer_links = 1"
ONE = 'kind = "star"\nhosts = 2'


def written(topology, choice, out, **overrides):
    """The files of devices, and the keys that the deployment lists as unwritten."""
    text = TEXT.format(topology=topology, choice=choice, keys="")
    resolved = resolve_text(text, overrides=[(key.replace("_of_", "."), value) for key, value in overrides.items()])
    summary = deploy_scenario(resolved, out, Settings())
    files = {p: p.read_text() for p in out.rglob("*") if p.is_file() and p.parent != out}
    return {str(p.relative_to(out)): text for p, text in files.items()}, {row["key"] for row in summary["unwritten"]}


@pytest.mark.parametrize(
    ("topology", "choice"),
    [(LEAVES, "802.3ad"), (LEAVES, "rail"), (STAR, "active-backup"), (STAR, "least_loaded"), (ONE, "802.3ad")],
)
@pytest.mark.parametrize(
    ("key", "value"), [("hash_policy", '"layer2"'), ("miimon", '"70 ms"'), ("lacp_rate", '"fast"')]
)
def test_a_key_of_bonds_is_listed_as_unwritten_where_it_changes_no_file(tmp_path, topology, choice, key, value):
    before, _ = written(topology, choice, tmp_path / "before")
    after, unwritten = written(topology, choice, tmp_path / "after", **{f"host_of_{key}": value})
    assert (after == before) == (f"host.{key}" in unwritten)


def test_a_choice_of_ports_is_no_bond_where_hosts_have_one_port(tmp_path):
    _, unwritten = written(ONE, "least_loaded", tmp_path / "out")
    assert "host.port_choice" in unwritten
    summary = json.loads((tmp_path / "out" / MARK).read_text())
    assert [row["why"] for row in summary["unwritten"] if row["key"] == "host.port_choice"] == [
        "no host has several ports, so none has a bond"
    ]


def test_mlag_is_listed_as_unwritten_only_where_files_differ_from_it(tmp_path):
    files, unwritten = written(PEERED, "802.3ad", tmp_path / "on", routing_of_mlag="true")
    assert "MCLAG_DOMAIN" in files["switches/leaf0/underlay.json"]
    assert "routing.mlag" not in unwritten
    files, unwritten = written(PEERED, "802.3ad", tmp_path / "off", routing_of_mlag="false")
    assert "MCLAG_DOMAIN" in files["switches/leaf0/underlay.json"]
    assert "routing.mlag" in unwritten


def test_a_mux_cable_is_refused_for_itself_and_not_for_lacp(tmp_path):
    with pytest.raises(DeployError, match="deploy writes no mux cables") as refused:
        written(LEAVES, "mux", tmp_path / "out")
    assert "LACP" not in str(refused.value)
    with pytest.raises(DeployError, match="speak LACP"):
        written(STAR, "xor", tmp_path / "other")


def test_each_port_or_bond_has_an_address_for_each_class(tmp_path):
    """The first address uses the main table, each other one its own, so that a socket stays at its port."""
    deployed(CASES["rail"], tmp_path / "rail")
    host = read_fabric([tmp_path / "rail"]).fabric.hosts["host0"]
    assert {nic.name: len(nic.addresses) for nic in host.nics.values()} == {"eth1": 1, "eth2": 1}
    assert {(route.interface, route.table) for route in host.routes} == {("eth1", None), ("eth2", 101)}
    deployed(CASES["pair of MCLAG"], tmp_path / "pair")
    host = read_fabric([tmp_path / "pair"]).fabric.hosts["host0"]
    (bond,) = host.bonds.values()
    assert (bond.mode, bond.members, bond.miimon_ms, bond.hash_policy) == ("802.3ad", ["eth1", "eth2"], 50, "layer2+3")
    assert {route.interface for route in host.routes} == {"bond0"}


def test_a_pair_has_one_subnet_one_domain_and_a_peer_link_that_bridges(tmp_path):
    _, summary = deployed(CASES["pair of MCLAG"], tmp_path / "out")
    assert any("peer links, which the scenario does not have" in note for note in summary["notes"])
    one, other = (
        json.loads((tmp_path / "out" / "switches" / name / "underlay.json").read_text()) for name in ("leaf0", "leaf1")
    )
    assert one["VLAN_INTERFACE"] == other["VLAN_INTERFACE"]
    assert one["MCLAG_INTERFACE"] == other["MCLAG_INTERFACE"] != {}
    (here,), (there,) = one["MCLAG_DOMAIN"].values(), other["MCLAG_DOMAIN"].values()
    assert (here["source_ip"], here["peer_ip"]) == (there["peer_ip"], there["source_ip"])
    (member,) = (key for key in one["PORTCHANNEL_MEMBER"] if key.startswith(here["peer_link"]))
    assert member.partition("|")[2] not in one["INTERFACE"]


@pytest.mark.parametrize(
    ("topology", "choice", "message"),
    [
        (LEAVES, "active-backup", "needs one switch; set host.port_choice"),
        (LEAVES.replace("leaves = 2", "leaves = 3").replace("ports_per_host = 2", "ports_per_host = 3"), "802.3ad",
         "one switch, or two as a pair of MCLAG"),
        (PLANES, "802.3ad", "have no path to each other"),
        (STAR, "xor", "speak LACP"),
    ],
)  # fmt: skip
def test_what_switches_cannot_follow_is_refused(tmp_path, topology, choice, message):
    with pytest.raises(DeployError, match=message):
        deployed((topology, choice, ""), tmp_path / "out")


@pytest.mark.parametrize("name", ["pair of MCLAG", "rail"])
def test_lint_design_finds_a_change_of_a_port_or_bond(tmp_path, name):
    text, _ = deployed(CASES[name], tmp_path / "out")
    (tmp_path / "ports.toml").write_text(text)
    design = read_design(tmp_path / "ports.toml", [tmp_path / "out"], None)
    assert lint([tmp_path / "out"], design=design).findings == []
    script = tmp_path / "out" / "hosts" / "host0" / "setup.sh"
    before = script.read_text()
    for old, new in (("layer2+3", "layer2"), ("port eth2", "port eth1")) if name != "rail" else (("eth2", "eth3"),):
        assert old in before
        script.write_text(before.replace(old, new, 1))
        assert {f.code for f in lint([tmp_path / "out"], design=design).findings} >= {"PF091"}


@pytest.mark.skipif(shutil.which("yanglint") is None, reason="needs yanglint (Debian: libyang2-tools)")
@pytest.mark.parametrize("name", ["pair of MCLAG", "port channel", "planes"])
def test_files_are_valid_under_the_models_of_the_release(tmp_path, name):
    (tmp_path / "models").mkdir()
    topology, choice, keys = CASES[name]
    resolved = pf.Scenario.from_toml(TEXT.format(topology=topology, choice=choice, keys=keys)).resolve()
    for release, folder in models(tmp_path / "models").items():
        deploy_scenario(resolved, tmp_path / release, Settings(sonic_release=release))
        lines, failed = validate(folder, read_fabric([tmp_path / release / "switches"]))
        assert not failed, lines
