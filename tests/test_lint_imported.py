"""`lint --design` with a scenario that `import fabric` made: a fabric equals its own import, and a change is found."""

import json
import random
import tomllib

import lint_fabrics
import lint_kinds
import pauseframe as pf
import pytest
from lint_kinds import KINDS, Nowhere
from pauseframe.deploy import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.examples import HOME
from pauseframe.imports.fabric import import_fabric
from pauseframe.lint import engine, output
from pauseframe.lint.design import read_design
from pauseframe.lint.fix import fix
from test_fabrics import cli
from test_lint_kinds import FABRICS, made

BY_DAY = ("roce", "bundled-0")


def imported(root, folder, load="auto"):
    """The import of a fabric as a file."""
    path = folder / "imported.toml"
    path.write_text(import_fabric(read_fabric([root]), load=load).toml)
    return path


def compared(root, source):
    """The report of a comparison, and its differences as (place, message)."""
    report = engine.lint([root], design=read_design(source, [root], None))
    return report, [(str(f.place), f.message) for f in report.findings if f.code == "PF091"]


@pytest.mark.parametrize("name", BY_DAY)
@pytest.mark.parametrize("load", ["auto", "incast"])
def test_a_fabric_equals_its_own_import(tmp_path, name, load):
    root = made(name, tmp_path)
    assert compared(root, imported(root, tmp_path, load))[1] == []


@pytest.mark.night
@pytest.mark.parametrize("name", FABRICS)
def test_each_fabric_equals_its_own_import(tmp_path, name):
    root = made(name, tmp_path)
    assert compared(root, imported(root, tmp_path))[1] == []


def test_the_example_equals_its_own_import(tmp_path):
    """Four switches with faults, and a queue that no marks have at one switch (p_max 0)."""
    assert cli("example", "sonic", "--out", tmp_path / "sonic").returncode == 0
    root = tmp_path / "sonic" / "configs"
    source = tmp_path / "s.toml"
    assert cli("import", "fabric", root, "-o", source).returncode == 0
    alone, both = (cli("lint", root, *more) for more in ((), ("--design", source)))
    assert both.stdout.splitlines()[:-1] == alone.stdout.splitlines()[:-1]
    assert both.stdout.splitlines()[-1].startswith(alone.stdout.splitlines()[-1] + "; not compared, because the design")


def faulty(name, tmp_path, kinds):
    """What is found in a fabric with each fault, compared with the import of that fabric."""
    root = made(name, tmp_path)
    found = []
    for kind in kinds:
        try:
            with lint_kinds.changed(root, kind, random.Random(f"{name} {kind}")):
                found += [(kind, *one) for one in compared(root, imported(root, tmp_path))[1]]
        except Nowhere:
            continue
    return found


@pytest.mark.parametrize("name", BY_DAY)
def test_a_faulty_fabric_equals_its_own_import(tmp_path, name):
    assert faulty(name, tmp_path, random.Random(name).sample(sorted(KINDS), 8)) == []


@pytest.mark.night
@pytest.mark.parametrize("name", ["roce", "dctcp", "leaf-spine", "bundled-0", "clos-5"])
def test_each_faulty_fabric_equals_its_own_import(tmp_path, name):
    assert faulty(name, tmp_path, KINDS) == []


PROFILE = "pg_lossless_{speed}_{metres}m_profile"
CHANGES = {  # table, key, field and new value: place of the finding
    ("PORT", "Ethernet8", "speed", "50000"): "leaf1 PORT Ethernet8 speed",
    ("PORT", "Ethernet8", "mtu", "1500"): "leaf1 PORT Ethernet8 mtu",
    ("PORT", "Ethernet8", "admin_status", "down"): "leaf1 PORT Ethernet8",
    ("CABLE_LENGTH", "AZURE", "Ethernet8", "1m"): "leaf1 CABLE_LENGTH AZURE Ethernet8",
    ("CABLE_LENGTH", "AZURE", "Ethernet8", "999m"): "leaf1 CABLE_LENGTH AZURE Ethernet8",
    ("DEVICE_NEIGHBOR", "Ethernet8", "name", "spine1"): "leaf1 DEVICE_NEIGHBOR Ethernet8",
    ("DEVICE_NEIGHBOR", "Ethernet0", "name", "server9"): "leaf1 DEVICE_NEIGHBOR Ethernet0",
    ("PORT_QOS_MAP", "Ethernet8", "pfc_enable", "4"): "leaf1 PORT_QOS_MAP Ethernet8 pfc_enable",
    ("BUFFER_PROFILE", PROFILE, "xoff", "99999"): f"leaf1 BUFFER_PROFILE {PROFILE} xoff",
    ("BUFFER_PROFILE", PROFILE, "dynamic_th", "2"): f"leaf1 BUFFER_PROFILE {PROFILE} dynamic_th",
    ("BUFFER_PROFILE", PROFILE, "size", "77"): f"leaf1 BUFFER_PROFILE {PROFILE} size",
    ("BUFFER_POOL", "ingress_lossless_pool", "size", "9999999"): "leaf1 BUFFER_POOL ingress_lossless_pool size",
    ("BUFFER_POOL", "ingress_lossless_pool", "xoff", "9999999"): "leaf1 BUFFER_POOL ingress_lossless_pool xoff",
    ("WRED_PROFILE", "AZURE_LOSSLESS", "green_min_threshold", "77"): (
        "leaf1 WRED_PROFILE AZURE_LOSSLESS green_min_threshold"
    ),
    ("WRED_PROFILE", "AZURE_LOSSLESS", "wred_green_enable", "false"): (
        "leaf1 WRED_PROFILE AZURE_LOSSLESS wred_green_enable"
    ),
    ("QUEUE", "Ethernet8|3", "wred_profile", None): "leaf1 QUEUE Ethernet8|3 wred_profile",
    ("QUEUE", "Ethernet8|4", "scheduler", "scheduler.0"): "leaf1 QUEUE Ethernet8|4 scheduler",
    ("PFC_WD", "Ethernet8", "detection_time", "777"): "leaf1 PFC_WD Ethernet8",
    ("DSCP_TO_TC_MAP", "AZURE", "3", "1"): "leaf1 DSCP_TO_TC_MAP AZURE 3",
}


def set_value(root, table, key, field, value):
    """Changes one value of leaf1; returns the name of the row."""
    path = root / "leaf1" / "config_db.json"
    tables = json.loads(path.read_text())
    length = tables["CABLE_LENGTH"]["AZURE"]["Ethernet8"].removesuffix("m")
    key = key.format(speed=tables["PORT"]["Ethernet8"]["speed"], metres=length)
    if value is None:
        del tables[table][key][field]
    else:
        assert tables[table][key].get(field) != value
        tables[table][key][field] = value
    path.write_text(json.dumps(tables))
    return key


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: " ".join(map(str, change)))
def test_a_changed_value_is_found_at_its_place(tmp_path, change):
    root = lint_fabrics.write(lint_fabrics.clos(3, 2, 2, seed=4), tmp_path / "fabric")
    source = imported(root, tmp_path)
    key = set_value(root, *change)
    report, _ = compared(root, source)
    places = {str(place) for f in report.findings if f.code == "PF091" for place in f.places}
    assert CHANGES[change].replace(PROFILE, key) in places
    assert {place.split()[0] for place in places} == {"leaf1"}


def test_what_no_scenario_holds_is_not_judged_but_named(tmp_path):
    root = lint_fabrics.write(lint_fabrics.clos(3, 2, 2, seed=4), tmp_path / "fabric")
    source = imported(root, tmp_path)
    set_value(root, "BUFFER_PROFILE", PROFILE, "xon_offset", "2497")
    set_value(root, "DSCP_TO_TC_MAP", "AZURE", "63", "2")
    report, found = compared(root, source)
    assert found == []
    assert {"BUFFER_PROFILE xon_offset", "DSCPs other than 0, 3, 4, 48"} <= {*report.reading.design.uncompared}
    assert output.as_json(report)["uncompared"] == report.reading.design.uncompared
    assert "not compared, because the design does not say it: BUFFER_PG profile of" in output.summary(report)


def test_a_value_that_somebody_writes_into_the_scenario_is_a_difference(tmp_path):
    root = made("roce", tmp_path)
    source = imported(root, tmp_path)
    text = source.read_text()
    for old, new in (('detection = "200 ms"', 'detection = "400 ms"'), ("[0]\nalpha = 1.0", "[0]\nalpha = 4.0")):
        assert old in text
        text = text.replace(old, new, 1)
    source.write_text(text)
    places = " ".join(place for place, _ in compared(root, source)[1])
    assert "PFC_WD" in places
    assert "BUFFER_QUEUE" in places


def test_hosts_are_compared(tmp_path):
    root = made("dctcp", tmp_path)
    source = imported(root, tmp_path)
    for path in (root / "hosts" / "host0").rglob("*"):
        if path.is_file():
            path.write_text(path.read_text().replace("5ms", "77ms").replace("=0.005s", "=0.077s"))
    assert any(place.startswith("host0 route") for place, _ in compared(root, source)[1])


def test_switches_without_files_are_found(tmp_path):
    root = lint_fabrics.write(lint_fabrics.clos(3, 2, 2, seed=4), tmp_path / "fabric")
    source = imported(root, tmp_path)
    (root / "leaf2" / "config_db.json").unlink()
    messages = compared(root, source)[1]
    assert ("leaf2 config_db.json", "the design has this switch, no file does") in messages


def test_what_is_deployed_from_an_import_equals_it(tmp_path):
    """The deployment is compared file by file; the files of a port without marks (p_max 0) have no WRED for it."""
    root = lint_fabrics.write(lint_fabrics.clos(3, 2, 2, seed=4), tmp_path / "fabric")
    set_value(root, "QUEUE", "Ethernet8|3", "wred_profile", None)
    source = imported(root, tmp_path)
    assert 'p_max]\n"leaf0' in source.read_text()
    deploy_scenario(pf.Scenario.from_toml(source.read_text()).resolve(), tmp_path / "out", Settings())
    assert compared(tmp_path / "out", source)[1] == []
    tables = json.loads((tmp_path / "out" / "switches" / "leaf1" / "config_db.json").read_text())
    assert "wred_profile" not in tables["QUEUE"]["Ethernet8|3"]
    assert "wred_profile" in tables["QUEUE"]["Ethernet4|3"]


def test_a_deployment_equals_its_scenario_and_its_import(tmp_path):
    root = made("storage", tmp_path)
    assert compared(root, HOME / "storage" / "fabric.toml")[1] == []
    assert compared(root, imported(root, tmp_path))[1] == []


def test_the_head_names_what_the_scenario_has_otherwise(tmp_path):
    """Cables and neighbours that only one end has, and MTUs of hosts, are no longer left out in silence."""
    devices = lint_fabrics.clos(3, 2, 2, seed=4)
    devices["leaf1"]["CABLE_LENGTH"]["AZURE"]["Ethernet8"] = "1m"
    devices["spine1"]["DEVICE_NEIGHBOR"]["Ethernet0"]["name"] = "leaf2"
    found = import_fabric(read_fabric([lint_fabrics.write(devices, tmp_path / "fabric")]))
    odd = [str(one) for one in found.scope.account.odd]
    assert any(one.startswith("leaf1:Ethernet8 cable 1 m") for one in odd)
    assert any(one.startswith("spine1:Ethernet0 neighbour leaf2:") for one in odd)
    assert tomllib.loads(found.toml)["topology"]["kind"] == "custom"


NOT_RESTORED = {("PORT", "mtu"), ("QUEUE", "wred_profile"), ("WRED_PROFILE", "wred_green_enable")}
"""The scenario has the MTU of hosts, and marks without the name of their profile."""
RESTORED = [change for change in CHANGES if change[:1] + change[2:3] not in NOT_RESTORED]
ALSO = [
    ("PFC_WD", "GLOBAL", "POLL_INTERVAL", "100"),
    ("PFC_WD", "Ethernet8", "action", "forward"),
    ("SCHEDULER", "scheduler.1", "weight", "77"),
    ("SCHEDULER", "scheduler.1", "type", "STRICT"),
    ("TC_TO_QUEUE_MAP", "AZURE", "3", "5"),
    ("BUFFER_PROFILE", "egress_lossy_profile", "dynamic_th", "3"),
    ("DEVICE_NEIGHBOR", "Ethernet0", "port", "eth7"),
]


BY_NIGHT = [pytest.param(change, marks=pytest.mark.night) for change in RESTORED[1::2]]


@pytest.mark.parametrize("change", [*RESTORED[::2], *ALSO, *BY_NIGHT], ids=lambda change: " ".join(map(str, change)))
def test_a_patch_restores_the_value_of_an_import(tmp_path, change):
    root = lint_fabrics.write(lint_fabrics.clos(3, 2, 2, seed=4), tmp_path / "fabric")
    source = imported(root, tmp_path)
    before = read_fabric([root]).databases
    set_value(root, *change)
    report = engine.lint([root], design=read_design(source, [root], None), select=["PF091"])
    fixed = fix(report)
    assert fixed.patches.keys() == {"leaf1"}
    assert {name: own.tables for name, own in fixed.after.reading.databases.items()} == {
        name: own.tables for name, own in before.items()
    }


def test_a_queue_gets_back_the_profile_with_the_marks_of_the_design(tmp_path):
    """The marks of the other profile are right for the ports that have it."""
    root = made("roce", tmp_path)
    source = imported(root, tmp_path)
    path = root / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(path.read_text())
    tables["QUEUE"]["Ethernet16|3"]["wred_profile"] = "PF_25000"
    path.write_text(json.dumps(tables))
    report = engine.lint([root], design=read_design(source, [root], None), select=["PF091"])
    (step,) = fix(report).patches["leaf0"]
    assert (step["path"], step["value"]) == ("/QUEUE/Ethernet16|3/wred_profile", "PF_100000")
