"""Single values of deployed fabrics whose change was silent: each is found, by the right rule at the right place."""

import json
import re
import shutil

import lint_collected
import lint_vendors
import pauseframe as pf
import pytest
from pauseframe.deploy import Settings, write_deployment
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.examples import HOME
from pauseframe.lint.engine import lint
from pauseframe.lint.fix import fix
from test_deploy import planned


@pytest.fixture(scope="module")
def fabrics(tmp_path_factory):
    """Deployments of two examples and a plan, and a mixed fabric of other vendors."""
    root = tmp_path_factory.mktemp("siblings")
    for name in ("roce", "dctcp"):
        text = (HOME / name / "fabric.toml").read_text()
        deploy_scenario(pf.Scenario.from_toml(text).resolve(), root / name, Settings())
    plan = planned(root / "source", "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2", "up_down", 1, 2)
    write_deployment(plan, root / "plan", Settings())
    (root / "vendors").mkdir()
    lint_vendors.Mixed().write(root / "vendors")
    return root


def found(root):
    return {(f.code, str(place)) for f in lint([root]).findings for place in f.places}


def changed(path, text, root):
    """What is found after a change, which is taken back."""
    before = path.read_text()
    assert text != before
    path.write_text(text)
    try:
        return found(root)
    finally:
        path.write_text(before)


LEAF = "switches/leaf0/config_db.json"
UNDERLAY = "switches/leaf0/underlay.json"
VALUES = [  # fabric, file, table, key, field, value (None deletes; without a field the row), code and place
    ("roce", LEAF, "BUFFER_POOL", "egress_lossless_pool", "size", "8000000", "PF015"),
    ("roce", LEAF, "BUFFER_PROFILE", "egress_lossless_profile", "static_th", "7000000", "PF015"),
    ("roce", LEAF, "BUFFER_POOL", "egress_lossy_pool", "size", "0", "PF014"),
    ("dctcp", LEAF, "BUFFER_POOL", "egress_lossy_pool", "size", "12000000000", "PF014"),
    ("roce", LEAF, "BUFFER_POOL", "egress_lossless_pool", "size", None, "PF003"),
    ("roce", LEAF, "LOSSLESS_TRAFFIC_PATTERN", "AZURE", "mtu", "2100", "PF051"),
    ("plan", LEAF, "LOSSLESS_TRAFFIC_PATTERN", "AZURE", "mtu", "8999", "PF051"),
    ("roce", LEAF, "TC_TO_QUEUE_MAP", "PAUSEFRAME", "0", None, "PF024"),
    ("dctcp", LEAF, "TC_TO_QUEUE_MAP", "PAUSEFRAME", "6", None, "PF024"),
    ("plan", LEAF, "SCHEDULER", "scheduler.pf", "type", "STRICT", "PF027 leaf0 QUEUE Ethernet0|3 scheduler"),
    ("roce", LEAF, "PFC_WD", "Ethernet0", "action", "alert", "PF041"),
    ("roce", LEAF, "PFC_WD", "Ethernet0", "restoration_time", None, "PF041"),
    ("dctcp", LEAF, "WRED_PROFILE", "PF_10000", "ecn", None, "PF033"),
    ("dctcp", LEAF, "QUEUE", "Ethernet16|1", "wred_profile", None, "PF033"),
    ("dctcp", LEAF, "DSCP_TO_TC_MAP", "PAUSEFRAME", "10", "2", "PF033"),
    ("dctcp", LEAF, "WRED_PROFILE", "PF_10000", "green_max_threshold", "90000000", "PF031"),
    ("roce", LEAF, "WRED_PROFILE", "PF_25000", "green_min_threshold", "0", "PF003"),
    ("roce", LEAF, "WRED_PROFILE", "PF_25000", "red_max_threshold", "400000000000", "PF003"),
    ("roce", LEAF, "PORT", "Ethernet16", "admin_status", None, "PF059"),
    ("roce", LEAF, "DEVICE_NEIGHBOR", "Ethernet0", "name", "host0x", "PF055"),
    ("roce", LEAF, "DEVICE_NEIGHBOR", "Ethernet0", "port", "eth1x", "PF055"),
    ("dctcp", LEAF, "QUEUE", "Ethernet0|6", "", None, "PF090"),
    ("dctcp", LEAF, "BUFFER_PG", "Ethernet0|0", "", None, "PF090"),
    ("dctcp", UNDERLAY, "VLAN_MEMBER", "Vlan1000|Ethernet0", "tagging_mode", "tagged", "PF058"),
    ("roce", LEAF, "SCHEDULER", "scheduler.w50", "pir", "125000000", "PF028"),
    ("roce", LEAF, "QUEUE", "Ethernet16|3", "wred_profile", "PF_25000", "PF090"),
    ("roce", LEAF, "PFC_WD", "Ethernet16", "action", "forward", "PF090"),
    ("dctcp", LEAF, "PORT_QOS_MAP", "Ethernet16", "", None, "PF024"),
    ("dctcp", UNDERLAY, "VLAN_MEMBER", "Vlan1000|Ethernet0", "", None, "PF058"),
]


@pytest.mark.parametrize("case", VALUES, ids=lambda case: " ".join(map(str, case)))
def test_a_value_of_a_switch(fabrics, case):
    fabric, file, table, key, field, value, wanted = case
    path = fabrics / fabric / file
    tables = json.loads(path.read_text())
    if value is not None:
        tables[table][key][field] = value
    else:
        del (tables[table][key] if field else tables[table])[field or key]
    code, _, place = wanted.partition(" ")
    place = place or " ".join(part for part in ("leaf0", table, key, field) if part)
    assert (code, place) in changed(path, json.dumps(tables), fabrics / fabric)


HARMLESS = [  # fabric, table, key, field, value, and why no rule may find the change
    ("roce", "BUFFER_POOL", "egress_lossless_pool", "mode", "dynamic", "each profile names its own kind of limit"),
    ("roce", "BUFFER_POOL", "egress_lossy_pool", "type", "both", "SAI has such pools, and chassis ship them"),
    ("roce", "BUFFER_PROFILE", "egress_lossless_profile", "static_th", "99000000", "a limit above the pool is none"),
    ("roce", "BUFFER_PROFILE", "egress_lossless_profile", "static_th", "8000000", "shipped for memories of two halves"),
    ("roce", "BUFFER_PROFILE", "ingress_lossy_profile", "dynamic_th", "1", "the share of lossy traffic is a choice"),
    ("roce", "LOSSLESS_TRAFFIC_PATTERN", "AZURE", "small_packet_percentage", "50", "SONiC ships 50 and 100"),
    ("roce", "MAP_PFC_PRIORITY_TO_QUEUE", "PAUSEFRAME", "1", "2", "priority 1 is not paused"),
    ("roce", "TC_TO_QUEUE_MAP", "PAUSEFRAME", "1", "2", "no code point has class 1"),
    ("roce", "SCHEDULER", "scheduler.w50", "weight", "25", "queues with one scheduler have equal shares"),
    ("roce", "WRED_PROFILE", "PF_25000", "red_drop_probability", "0", "nothing colours packets red"),
    ("roce", "WRED_PROFILE", "PF_25000", "green_max_threshold", "300000", "the steepness of marking is a choice"),
    ("roce", "SCHEDULER", "scheduler.strict", "pir", "125000000", "CNPs may be limited, nobody is paused"),
    ("dctcp", "CABLE_LENGTH", "AZURE", "Ethernet0", "10m", "nothing is paused, and headroom alone needs lengths"),
]  # fmt: skip


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: " ".join(map(str, case[:-1])))
def test_a_harmless_value(fabrics, case):
    fabric, table, key, field, value, _ = case
    path = fabrics / fabric / LEAF
    tables = json.loads(path.read_text())
    tables[table][key][field] = value
    assert changed(path, json.dumps(tables), fabrics / fabric) == set()


def test_a_class_beyond_the_maps(fabrics):
    """SONiC's models allow classes up to 15; no map of queues has them."""
    path = fabrics / "roce" / LEAF
    text = path.read_text().replace('"48": "6"', '"48": "8"')
    assert ("PF024", "leaf0 TC_TO_QUEUE_MAP PAUSEFRAME 8") in changed(path, text, fabrics / "roce")


def test_marks_that_a_lossy_queue_never_reaches(fabrics):
    path = fabrics / "dctcp" / LEAF
    text = re.sub('"(green_m.._threshold)": "90000"', r'"\1": "9000000"', path.read_text())
    place = ("PF031", "leaf0 WRED_PROFILE PF_10000 green_min_threshold")
    assert place in changed(path, text, fabrics / "dctcp")


HOSTS = [
    ("dctcp", "sysctl.conf", "tcp_ecn = 2", "tcp_ecn = 1", "sysctl net.ipv4.tcp_ecn"),
    ("dctcp", "sysctl.conf", "tcp_sack = 1", "tcp_sack = 0", "sysctl net.ipv4.tcp_sack"),
    ("dctcp", "sysctl.conf", "tcp_congestion_control = dctcp", "tcp_congestion_control = cubic",
     "sysctl net.ipv4.tcp_congestion_control"),
    ("dctcp", "networkd/40-pauseframe.network", "QuickAck=yes", "QuickAck=no", "route quickack"),
    ("dctcp", "networkd/40-pauseframe.network", "MTUBytes=9000", "MTUBytes=4500", "link mtu"),
    ("roce", "mlxconfig.txt", "RPG_AI_RATE_P1                               5", "RPG_AI_RATE_P1   50",
     "card RPG_AI_RATE"),
]  # fmt: skip


@pytest.mark.parametrize("case", HOSTS, ids=lambda case: " ".join(case[:3]))
def test_a_value_of_one_host_alone(fabrics, tmp_path, case):
    """Hosts have one form each, so that only other hosts tell."""
    fabric, file, old, new, place = case
    root = shutil.copytree(fabrics / fabric, tmp_path / fabric)
    for host in (root / "hosts").iterdir():
        (host / "setup.sh").unlink(missing_ok=True)
    assert found(root) == set()
    path = root / "hosts" / "host0" / file
    assert ("PF090", f"host0 {place}") in changed(path, path.read_text().replace(old, new), root)


def test_trust_of_mlnx_qos_alone(fabrics):
    """A host with NVIDIA's tools takes the other of the two lines of its script."""
    path = fabrics / "roce" / "hosts" / "host0" / "setup.sh"
    text = path.read_text().replace("--trust dscp", "--trust pcp")
    assert changed(path, text, fabrics / "roce") == {("PF075", "host0 mlnx_qos eth1 trust")}


def test_a_vlan_of_a_host_that_its_switch_lacks(fabrics, tmp_path):
    root = shutil.copytree(fabrics / "plan", tmp_path / "plan")
    for name in ("setup.sh", "netplan.yaml"):
        (root / "hosts" / "host0" / name).unlink()
    path = root / "hosts" / "host0" / "networkd" / "41-pf100.netdev"
    assert ("PF057", "host0 vlan pf100 id") in changed(path, path.read_text().replace("Id=100", "Id=200"), root)


DEVICES = [
    ("arista0/running-config", "minimum-threshold 150 kbytes maximum-threshold 1500 kbytes",
     "minimum-threshold 1500 kbytes maximum-threshold 150 kbytes", "PF003", ""),
    ("arista0/running-config", "maximum-threshold 1500 kbytes", "maximum-threshold 5000 mbytes", "PF003", ""),
    ("arista0/running-config", "polling-interval 0.10", "polling-interval 1.00", "PF003", ""),
    ("arista0/running-config", "max-mark-probability 100", "max-mark-probability 0", "PF030", ""),
    ("cumulus0/startup.yaml", "min-threshold: 150000", "min-threshold: 0", "PF003", ""),
    ("cumulus0/startup.yaml", "max-threshold: 1500000", "max-threshold: 150000000000", "PF003", ""),
    ("cumulus0/startup.yaml", "probability: 100", "probability: 0", "PF030", ""),
    ("arista0/running-config", "default timeout 0.30", "default timeout 0.00", "", "default timeout 0.00"),
    ("arista0/running-config", "qos map dscp 6 7 to", "qos map dscp 6 70 to", "", "qos map dscp 6 70 to"),
    ("arista0/running-config", "   service-profile ROCE\n",
     "   service-profile ROCE\n   priority-flow-control pause watchdog port timer timeout 0.30 polling-interval auto "
     "recovery-time 0.60\n", "", "interface Ethernet1: polling-interval auto"),
    ("arista0/running-config", "qos trust dscp", "qos trust cos", "PF053", ""),
    ("cumulus0/startup.yaml", "trust: l3", "trust: l2", "PF053", ""),
    ("arista0/running-config", "   uc-tx-queue 3\n", "   uc-tx-queue 3\n      shape rate 1000000 kbps\n", "PF028", ""),
    ("arista0/running-config", "   uc-tx-queue 3\n", "   uc-tx-queue 3\n      shape rate 50 percent\n", "",
     "shape rate 50 percent"),
    ("arista0/running-config", "   uc-tx-queue 0\n", "   uc-tx-queue 0\n      shape rate 1000000 kbps\n", "", ""),
]  # fmt: skip


@pytest.mark.parametrize("case", DEVICES, ids=lambda case: case[2][:60])
def test_a_value_of_another_vendor(fabrics, case):
    """A finding, or a note where the value cannot be used."""
    file, old, new, code, note = case
    path, root = fabrics / "vendors" / file, fabrics / "vendors"
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new, 1))
    try:
        report = lint([root])
    finally:
        path.write_text(before)
    assert {f.code for f in report.findings} == ({code} if code else set())
    assert not note or any(note in one for one in report.reading.fabric.notes)


def test_patches_of_these_findings(fabrics):
    """Each patch ends its finding and causes none."""
    path = fabrics / "dctcp" / LEAF
    before = path.read_text()
    tables = json.loads(before)
    del tables["QUEUE"]["Ethernet16|1"]["wred_profile"], tables["QUEUE"]["Ethernet0|6"]
    del tables["PORT"]["Ethernet16"]["admin_status"]
    tables["DEVICE_NEIGHBOR"]["Ethernet0"]["name"] = "host0x"
    path.write_text(json.dumps(tables))
    try:
        report = lint([fabrics / "dctcp"])
        done = fix(report)
    finally:
        path.write_text(before)
    assert {f.code for f in report.findings} >= {"PF033", "PF055", "PF059", "PF090"}
    assert (done.after.findings, done.new) == ([], [])


def without_rules(root, hosts):
    """Takes the DSCP of DCTCP out of the scripts of some hosts."""
    for name in hosts:
        path = root / "hosts" / name / "setup.sh"
        text = re.sub(r"(?ms)^[^\n]*nft -f - <<.*?^MARKS\n", "", path.read_text())
        assert text != path.read_text()
        path.write_text(text)


def test_hosts_without_a_rule_for_the_dscp_of_dctcp(fabrics, tmp_path):
    """Two of the hosts: too many to be unlike their like."""
    root = shutil.copytree(fabrics / "dctcp", tmp_path / "dctcp")
    without_rules(root, ("host0", "host5"))
    assert {(code, place.split()[0]) for code, place in found(root)} == {("PF033", "host0"), ("PF033", "host5")}


def test_no_host_has_a_rule_for_the_dscp_of_dctcp(fabrics, tmp_path):
    """Applications may set it, so this is a note; but collected packet rules show that nothing else sets it."""
    root = shutil.copytree(fabrics / "dctcp", tmp_path / "dctcp")
    without_rules(root, [path.name for path in (root / "hosts").iterdir()])
    report = lint([root])
    assert report.findings == []
    assert any("no file gives the DSCP of DCTCP at 8 hosts" in note for note in report.reading.fabric.notes)
    folder = lint_collected.collected(root / "hosts" / "host0", tmp_path / "host0")
    shutil.rmtree(root / "hosts" / "host0")
    shutil.copytree(folder, root / "hosts" / "host0")
    assert {(code, place.split()[0]) for code, place in found(root)} >= {("PF033", "host0")}


def test_the_dscp_of_dctcp_where_its_queue_marks(fabrics, tmp_path):
    """Without a rule the packets are in the queue of DSCP 0; here that one marks, too."""
    root = shutil.copytree(fabrics / "dctcp", tmp_path / "dctcp")
    without_rules(root, ("host0", "host5"))
    for path in root.glob("switches/*/config_db.json"):
        tables = json.loads(path.read_text())
        tables["DSCP_TO_TC_MAP"]["PAUSEFRAME"]["0"] = "1"
        path.write_text(json.dumps(tables))
    assert not any(code == "PF033" for code, _ in found(root))
