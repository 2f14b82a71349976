"""Devices that share a hostname are read by the names of their files, and patches have no made-up names."""

import json
import shutil

import lint_vendors
import pauseframe as pf
import pytest
from pauseframe.deploy import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.examples import HOME
from pauseframe.lint.engine import judge, lint
from pauseframe.lint.fix import fix
from test_lint_routing import HOSTS, LEAF, clos, written

NAMES = {"leaf0", "leaf1", "spine0", "spine1"}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    root = tmp_path_factory.mktemp("names")
    text = (HOME / "roce" / "fabric.toml").read_text()
    deploy_scenario(pf.Scenario.from_toml(text).resolve(), root / "roce", Settings())
    return root / "roce"


@pytest.mark.parametrize(("device", "other"), [("leaf0", "leaf1"), ("leaf1", "leaf0"), ("spine1", "leaf0")])
def test_two_switches_with_one_hostname(base, tmp_path, device, other):
    """The files of each stay together, whichever is read first."""
    root = shutil.copytree(base, tmp_path / "roce")
    path = root / "switches" / device / "underlay.json"
    tables = json.loads(path.read_text())
    tables["DEVICE_METADATA"]["localhost"]["hostname"] = other
    path.write_text(json.dumps(tables))
    report = lint([root])
    assert report.reading.fabric.switches.keys() == NAMES
    assert [(f.code, str(f.place)) for f in report.findings] == [
        ("PF007", f"{device} DEVICE_METADATA localhost hostname")
    ]
    assert fix(report).patches[device][0]["value"] == device
    assert fix(report).after.findings == []


def test_two_folders_with_one_name(tmp_path):
    """Neither name tells the two apart: findings have a number, and values of patches the hostname."""
    devices = clos()
    written({name: devices[name] for name in devices if name != "leaf1"}, tmp_path / "a", HOSTS)
    devices["leaf1"]["DEVICE_METADATA"]["localhost"]["hostname"] = LEAF
    written({LEAF: devices["leaf1"]}, tmp_path / "b")
    report = judge(read_fabric([tmp_path]))
    assert f"{LEAF}#2" in report.reading.fabric.switches
    assert "PF007" in {f.code for f in report.findings}
    values = [o.value for f in report.findings for o in f.patch]
    values += [step.get("value") for steps in fix(report).patches.values() for step in steps]
    assert values
    assert not any("#" in str(value) for value in values)


def test_a_hostname_in_another_file_of_the_folder(tmp_path):
    """config_db.json has none, so that of the file beside it holds for both."""
    devices = clos()
    own = devices[LEAF]
    meta = own.pop("DEVICE_METADATA")
    written(devices, tmp_path, HOSTS)
    (tmp_path / LEAF / "more.json").write_text(json.dumps({"DEVICE_METADATA": {"localhost": {"hostname": "rack7"}}}))
    assert meta
    switches = read_fabric([tmp_path]).fabric.switches
    assert switches.keys() == (NAMES - {LEAF}) | {"rack7"}
    assert len(switches["rack7"].ports) == 3


@pytest.mark.parametrize("vendor", ["nvue", "eos"])
def test_two_switches_of_a_vendor_with_one_hostname(tmp_path, vendor):
    mixed = lint_vendors.Mixed()
    if vendor == "nvue":
        mixed.set("cumulus1")["system"]["hostname"] = "cumulus0"
    else:
        mixed.replace("arista0", "hostname arista0", "hostname arista1")
    device = "cumulus1" if vendor == "nvue" else "arista0"
    report = judge(read_fabric([mixed.write(tmp_path)]))
    assert report.reading.fabric.switches.keys() >= {"cumulus0", "cumulus1", "arista0", "arista1"}
    assert {(f.code, f.place.device) for f in report.findings} == {("PF007", device)}


@pytest.mark.parametrize("bridge", [False, True])
def test_two_linux_devices_with_one_hostname(tmp_path, bridge):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows = [{"ifname": f"eth{n}", "link_type": "ether", "mtu": 9000} for n in range(2)]
        if bridge:
            for row in rows:
                row["linkinfo"] = {"info_slave_kind": "bridge", "info_slave_data": {}}
            rows.append({"ifname": "br0", "linkinfo": {"info_kind": "bridge", "info_data": {"vlan_filtering": 1}}})
        (tmp_path / name / "ip-link.json").write_text(json.dumps(rows))
        (tmp_path / name / "hostname").write_text("a\n")
    report = lint([tmp_path])
    assert report.reading.fabric.hosts.keys() | report.reading.fabric.switches.keys() == {"a", "b"}
    assert [(f.code, f.place.device) for f in report.findings] == [("PF007", "b")]
