"""`lint --sonic-release`: rows are checked against the tables, fields, words and ranges of a release's models."""

import json

import lint_fabrics
import pytest
from pauseframe.devices import sonic_models
from pauseframe.lint import lint
from test_fabrics import cli

BASE = {"DEVICE_METADATA": {"localhost": {"hostname": "sw"}}, "PORT": {"Ethernet0": {"speed": "100000", "lanes": "1"}}}


def found(tables, folder, release, code="PF006"):
    (folder / "config_db.json").write_text(json.dumps(BASE | tables))
    report = lint([folder], select=[code], release=release)
    return [(str(f.severity), f.place.table, f.place.field, f.message) for f in report.findings], report


def row(table, fields, key="x"):
    return {table: {key: fields}}


PROFILE = {"BUFFER_POOL": {"p": {"type": "ingress", "mode": "dynamic"}}} | row(
    "BUFFER_PROFILE", {"pool": "p", "size": "0", "dynamic_th": "0", "packet_discard_action": "trim"}
)
CASES = [
    # (tables, release, faulty (severity, table, field), release in which it is right)
    (PROFILE, "202405", ("error", "BUFFER_PROFILE", "packet_discard_action"), "202511"),
    (row("NTP", {"dhcp": "maybe"}, "global"), "202505", ("error", "NTP", "dhcp"), None),
    (row("SYSLOG_CONFIG", {"severity": "loud"}, "GLOBAL"), "master", ("error", "SYSLOG_CONFIG", "severity"), None),
    (row("LOGGER", {"LOGLEVEL": "INFO", "LOGOUTPUT": "SYSLOG", "colour": "red"}, "orchagent"), "master",
     ("error", "LOGGER", "colour"), None),
    (row("SFLOW", {"polling_interval": "9999"}, "global"), "202311", ("error", "SFLOW", "polling_interval"), None),
    (row("BGP_AGGREGATE_ADDRESS", {}, "10.0.0.0/8"), "202405", ("warning", "BGP_AGGREGATE_ADDRESS", ""), "202605"),
    (row("VLAN_SUB_INTERFACE", {"admin_status": "UP"}, "Ethernet0.10"), "202411",
     ("error", "VLAN_SUB_INTERFACE", "admin_status"), None),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "release", "fault", "right"), CASES, ids=lambda value: str(value)[:40])
def test_a_fault_of_a_release(tmp_path, tables, release, fault, right):
    findings, _ = found(tables, tmp_path, release)
    assert [finding[:3] for finding in findings] == [fault]
    if right is not None:
        assert right in findings[0][3]
        assert found(tables, tmp_path, right)[0] == []


def test_what_every_release_rejects_is_found_once(tmp_path):
    """PF001 and PF004 report it; PF006 does not repeat it."""
    tables = row("PFC_WD", {"action": "shout"}, "Ethernet0") | row("WRED_PROFILE", {"wred_green_enabled": "true"})
    assert found(tables, tmp_path, "master")[0] == []


def test_the_fields_that_sonics_own_samples_omit_are_notes(tmp_path):
    tables = {"PORT": {"Ethernet0": {"lanes": "1", "admin_status": "up"}}} | row("TC_TO_DSCP_MAP", {"3": "26"}, "AZURE")
    findings, report = found(tables, tmp_path, "202311", code="PF00")
    assert findings == []
    notes = " ".join(report.reading.fabric.notes)
    assert "l2switch.json" in notes
    assert "qos-arista7050cx3-dualtor.json" in notes


@pytest.mark.parametrize("release", sonic_models.RELEASES)
def test_a_fabric_without_faults_is_right_in_every_release(tmp_path, release):
    folder = lint_fabrics.write(lint_fabrics.bundled(2, 1, 2), tmp_path)
    assert lint([folder], select=["PF006"], release=release).findings == []
    assert len(sonic_models.commit(release)) == 40
    assert {"PORT", "BUFFER_PG", "QUEUE"} <= sonic_models.tables(release).keys()


def test_each_value_of_a_range_and_its_neighbours(tmp_path):
    limits = sonic_models.tables("master")["SFLOW"]["fields"]["polling_interval"]
    for low, high in limits["range"]:
        assert not sonic_models.fault(limits, str(low)), low
        assert not sonic_models.fault(limits, str(high)), high
    assert sonic_models.fault(limits, str(limits["range"][-1][1] + 1))


def test_command(tmp_path):
    (tmp_path / "config_db.json").write_text(json.dumps(BASE | PROFILE))
    done = cli("lint", tmp_path, "--sonic-release", "202405", "--select", "PF006")
    assert done.returncode == 1
    assert "202405 has no field packet_discard_action" in done.stdout
    assert "202505" in done.stdout
    assert cli("lint", tmp_path, "--sonic-release", "202405", "--select", "PF004", "-q").returncode == 0
    wrong = cli("lint", tmp_path, "--sonic-release", "201911")
    assert wrong.returncode == 2
    assert "202311" in wrong.stderr
