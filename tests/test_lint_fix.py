"""`lint --fix` mends one fault at a time, and leaves nothing of changes that did not help."""

import json
import shutil
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.deploy import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.examples import HOME
from pauseframe.lint.engine import Report, lint
from pauseframe.lint.fix import Fix, fix

LEAF = "switches/leaf0/config_db.json"
UPLINK, OTHER = "Ethernet16", "Ethernet20"


@pytest.fixture(scope="module")
def roce(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The deployment of the RoCE example: two leaves of the same kind, two spines."""
    root = tmp_path_factory.mktemp("fix") / "roce"
    text = (HOME / "roce/fabric.toml").read_text()
    deploy_scenario(pf.Scenario.from_toml(text).resolve(), root, Settings())
    return root


@pytest.fixture(scope="module")
def alone(roce: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One switch of it, without any that it could be compared with."""
    root = tmp_path_factory.mktemp("alone") / "roce"
    shutil.copytree(roce / "switches/leaf0", root / "switches/leaf0")
    return root


def mended(root: Path, table: str, key: str, field: str, value: str | None) -> tuple[Report, Fix]:
    """The report on files with another value, and what `fix` makes of it; None removes the field."""
    path = root / LEAF
    before = path.read_text()
    tables = json.loads(before)
    row = tables[table][key]
    if value is None:
        del row[field]
    else:
        row[field] = value
    path.write_text(json.dumps(tables))
    try:
        report = lint([root])
        return report, fix(report)
    finally:
        path.write_text(before)


VALUES = [
    *(("TC_TO_QUEUE_MAP", "PAUSEFRAME", "3", value) for value in ("4", "0", "1", "9", None)),
    *(("MAP_PFC_PRIORITY_TO_QUEUE", "PAUSEFRAME", "3", value) for value in ("0", "1", "4", "9", None)),
    *(("TC_TO_PRIORITY_GROUP_MAP", "PAUSEFRAME", "3", value) for value in ("0", "4")),
    ("BUFFER_PG", f"{UPLINK}|0", "profile", "pg_lossless_100000_40m_profile"),
    ("BUFFER_PG", f"{UPLINK}|3", "profile", "pg_lossless_25000_5m_profile"),
    *(("PORT_QOS_MAP", UPLINK, "pfc_enable", value) for value in ("3,4", "4", "0")),
    ("PORT_QOS_MAP", "Ethernet4", "pfc_enable", "4"),
    *(("CABLE_LENGTH", "AZURE", UPLINK, value) for value in ("0m", "300m", "2m")),
    *(("PORT", UPLINK, "speed", value) for value in ("40000", None)),
    ("PORT", UPLINK, "mtu", None),
    ("LOSSLESS_TRAFFIC_PATTERN", "AZURE", "mtu", "1400"),
    ("WRED_PROFILE", "PF_25000", "green_max_threshold", "0"),
    *(("BUFFER_PROFILE", "pg_lossless_100000_40m_profile", "xoff", value) for value in ("14336", "129024", "43009")),
    ("BUFFER_PROFILE", "pg_lossless_25000_5m_profile", "size", "0"),
]


@pytest.mark.parametrize("change", VALUES, ids=lambda change: " ".join(map(str, change)))
def test_one_mistyped_value_is_restored(roce: Path, change: tuple[str, str, str, str | None]) -> None:
    """Similar devices and ports agree on the right value: exactly that one changes."""
    right = lint([roce]).reading.databases["leaf0"].tables
    report, fixed = mended(roce, *change)
    assert report.findings
    assert (fixed.after.findings, fixed.new, fixed.mended) == ([], [], len(report.findings))
    assert list(fixed.patches) == ["leaf0"]
    assert fixed.after.reading.databases["leaf0"].tables == right


@pytest.mark.parametrize(
    ("table", "value"), [(t, v) for t in ("TC_TO_QUEUE_MAP", "MAP_PFC_PRIORITY_TO_QUEUE") for v in ("0", "1", "4", "9")]
)
def test_the_lossless_class_stays_lossless_at_a_lone_switch(alone: Path, table: str, value: str) -> None:
    """Nothing to compare with: the class with the number of the paused priority is its class."""
    report, fixed = mended(alone, table, "PAUSEFRAME", "3", value)
    assert "PF023" in {finding.code for finding in report.findings}
    assert fixed.after.findings == []
    (step,) = fixed.patches["leaf0"]
    assert (step["path"], step["value"]) == (f"/{table}/PAUSEFRAME/3", "3")


def test_a_group_of_best_effort_gets_no_pause(roce: Path) -> None:
    """Headroom at every group 0 of the uplinks: their peers do not pause priority 0, so neither do they."""
    path = roce / LEAF
    before = path.read_text()
    tables = json.loads(before)
    for port in (UPLINK, OTHER):
        tables["BUFFER_PG"][f"{port}|0"]["profile"] = "pg_lossless_100000_40m_profile"
    path.write_text(json.dumps(tables))
    try:
        fixed = fix(lint([roce]))
    finally:
        path.write_text(before)
    assert fixed.after.findings == []
    assert {step["path"] for step in fixed.patches["leaf0"]} == {f"/BUFFER_PG/{p}|0/profile" for p in (UPLINK, OTHER)}


def test_changes_that_another_one_made_unnecessary_are_left_out(roce: Path) -> None:
    """Two values of one device: each is restored, and nothing else changes."""
    path = roce / LEAF
    before = path.read_text()
    tables = json.loads(before)
    tables["TC_TO_QUEUE_MAP"]["PAUSEFRAME"]["3"] = "4"
    tables["PORT_QOS_MAP"]["Ethernet4"]["pfc_enable"] = "4"
    path.write_text(json.dumps(tables))
    try:
        fixed = fix(lint([roce]))
    finally:
        path.write_text(before)
    assert fixed.after.findings == []
    assert {step["path"] for step in fixed.patches["leaf0"]} == {
        "/TC_TO_QUEUE_MAP/PAUSEFRAME/3",
        "/PORT_QOS_MAP/Ethernet4/pfc_enable",
    }


ONE_FAULT = [
    ("PFC_WD", "Ethernet4", "restoration_time", "300", ["PF090"]),
    ("BUFFER_PROFILE", "egress_lossless_profile", "static_th", "20000", ["PF015"]),
    ("BUFFER_POOL", "ingress_lossless_pool", "size", "0", ["PF014"]),
    ("QUEUE", "Ethernet8|3", "wred_profile", None, ["PF034"]),
    ("DSCP_TO_TC_MAP", "PAUSEFRAME", "26", "4", ["PF021", "PF022", "PF053"]),
]


@pytest.mark.parametrize("change", ONE_FAULT, ids=lambda change: " ".join(map(str, change[:4])))
def test_one_fault_has_one_finding_of_a_rule(roce: Path, change: tuple[str, str, str, str | None, list[str]]) -> None:
    report, fixed = mended(roce, *change[:4])
    assert sorted(finding.code for finding in report.findings) == change[4]
    assert fixed.after.findings == []


def test_all_rows_that_name_a_missing_object_are_one_finding(roce: Path) -> None:
    path = roce / "switches/leaf0/underlay.json"
    before = path.read_text()
    tables = json.loads(before)
    del tables["VLAN"]["Vlan1000"]
    path.write_text(json.dumps(tables))
    try:
        report = lint([roce])
    finally:
        path.write_text(before)
    (finding,) = report.findings
    assert (finding.code, len(finding.places)) == ("PF002", 6)


def test_a_queue_is_set_up_as_those_of_its_speed(roce: Path) -> None:
    """Most ports of the leaf are slower than its uplinks: each kind has its own marks."""
    report, _ = mended(roce, "QUEUE", "Ethernet8|3", "wred_profile", None)
    assert [finding.instead for finding in report.findings] == ['"PF_25000"']
