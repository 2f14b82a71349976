"""What RoCE cards send: the DSCP and the ECN bits of data, and the DSCP of CNPs."""

import re
import shutil
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.deploy import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.examples import HOME
from pauseframe.lint.engine import lint
from pauseframe.lint.fix import fix
from pauseframe.lint.locate import Locator


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The deployment of the RoCE example: traffic class 106 (DSCP 26, ECT(0)), CNPs with DSCP 48."""
    root = tmp_path_factory.mktemp("cards") / "roce"
    deploy_scenario(pf.Scenario.from_toml((HOME / "roce/fabric.toml").read_text()).resolve(), root, Settings())
    return root


@pytest.fixture
def roce(healthy: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(healthy, tmp_path / "roce")


def edit(root: Path, pattern: str, value: str, hosts: str = "*") -> None:
    """Replaces a value in the files of hosts."""
    for path in root.glob(f"hosts/{hosts}/*.*"):
        path.write_text(re.sub(pattern, value, path.read_text()))


def found(root: Path) -> list[tuple[str, str, str, int]]:
    """(code, severity, table and key, number of devices) of each finding."""
    return [
        (f.code, str(f.severity), f"{f.place.table} {f.place.key}", len({p.device for p in f.places}))
        for f in lint([root]).findings
    ]


@pytest.mark.parametrize("octet", [138, 0, 192, 2])
def test_roce_in_a_lossy_class_is_an_error(roce: Path, octet: int) -> None:
    """One finding for the hosts of each leaf; no rule of the switches is at fault."""
    edit(roce, "roce_tos='106'", f"roce_tos='{octet}'")
    errors = [row for row in found(roce) if row[1] == "error"]
    assert errors == [("PF022", "error", "card RoCE", 4)] * 2


def test_the_traffic_class_that_was_collected_counts(roce: Path) -> None:
    for name in ("host0", "host1"):
        folder = roce / "hosts" / name
        shutil.rmtree(folder / "networkd")
        (folder / "ip-link.json").write_text('[{"ifname": "eth1", "link_type": "ether", "mtu": 4200}]')
        dcb = '[{"ifname": "eth1", "prio_pfc": [false, false, false, true, false, false, false, false]}]'
        (folder / "dcb-pfc-eth1.json").write_text(dcb)
        (folder / "roce.txt").write_text("/sys/class/infiniband/mlx5_0/tc/1/traffic_class Global tclass=138\n")
    codes = {f.code: f for f in lint([roce]).findings}
    assert {place.device for place in codes["PF022"].places} == {"host0", "host1"}


def test_roce_without_ecn_in_a_queue_with_marks(roce: Path) -> None:
    edit(roce, "roce_tos='106'", "roce_tos='104'")
    assert found(roce) == [("PF036", "warning", "card RoCE", 8)]
    for path in roce.glob("switches/*/config_db.json"):
        path.write_text(re.sub(r', *"wred_profile": *"[^"]*"|"wred_profile": *"[^"]*", *', "", path.read_text()))
    assert "PF036" not in {code for code, *_ in found(roce)}


def set_cnp(root: Path, dscp: int, hosts: str = "*") -> None:
    """Gives the cards of hosts another CNP_DSCP, in both of their files."""
    edit(root, r"cnp_dscp=\d+", f"cnp_dscp={dscp}", hosts)
    edit(root, r"(CNP_DSCP_P1 *)\d+", rf"\g<1>{dscp}", hosts)


@pytest.mark.parametrize(("dscp", "code"), [(0, "PF026"), (46, "PF026"), (26, "PF025")])
def test_cards_with_a_wrong_dscp_of_cnps_are_named(roce: Path, dscp: int, code: str) -> None:
    """The switches have a queue for DSCP 48, so their maps stay as they are."""
    set_cnp(roce, dscp)
    report = lint([roce])
    (finding,) = report.findings
    assert (finding.code, finding.place.key, len(finding.places)) == (code, "CNP_DSCP", 8)
    assert finding.instead.startswith("48")
    assert fix(report).patches == {}


def test_two_cards_of_eight_with_another_dscp_of_cnps(roce: Path) -> None:
    """Not only the value of most cards is judged."""
    set_cnp(roce, 0, "host[12]")
    assert ("PF026", "warning", "card CNP_DSCP", 2) in found(roce)


def test_no_patch_moves_best_effort_to_the_class_of_cnps(roce: Path) -> None:
    """Neither cards nor switches have a queue for CNPs: nothing is patched towards DSCP 0."""
    set_cnp(roce, 0)
    for path in roce.glob("switches/*/config_db.json"):
        path.write_text(re.sub(r'"48": *"6"', '"48": "0"', path.read_text()))
    report = lint([roce])
    findings = [f for f in report.findings if f.code == "PF026"]
    assert [(f.place.device, f.patch) for f in findings] == [("host0", ())]
    assert fix(report).patches == {}


def test_switches_without_a_queue_for_the_cnps_of_the_cards(roce: Path) -> None:
    """The cards have the usual DSCP, so the maps are wrong and get a patch."""
    for path in roce.glob("switches/*/config_db.json"):
        path.write_text(re.sub(r'"48": *"6"', '"48": "0"', path.read_text()))
    report = lint([roce])
    assert {f.place.table for f in report.findings} == {"DSCP_TO_TC_MAP"}
    assert fix(report).after.findings == []


@pytest.mark.parametrize(
    ("file", "old", "new", "message", "line"),
    [
        ("setup.sh", "--trust dscp", "--trust pcp", "pcp in mlnx_qos of setup.sh, dscp in setup.sh", "--trust pcp"),
        ("setup.sh", "clamp_tgt_rate=0", "clamp_tgt_rate=1", "0 in mlxconfig.txt, 1 in setup.sh", "CLAMP_TGT_RATE_P1"),
        ("mlxconfig.txt", "CLAMP_TGT_RATE_P1  ", "CLAMP_TGT_RATE_P1 1", "1 in mlxconfig.txt, 0 in setup", "_P1 1"),
        ("sysctl.conf", "tcp_sack = 1", "tcp_sack = 0", "0 in sysctl.conf, 1 in setup.sh", "tcp_sack = 0"),
        ("setup.sh", "tcp_sack=1", "tcp_sack=0", "1 in sysctl.conf, 0 in setup.sh", "tcp_sack = 1"),
        ("setup.sh", "mtu 4200", "mtu 4000", "in networkd", "mtu 4000"),
    ],
)
def test_files_that_differ_are_named_with_the_line(
    roce: Path, file: str, old: str, new: str, message: str, line: str
) -> None:
    """PF075 names the two files that have the value, and the line of the later one."""
    path = roce / "hosts/host5" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    report = lint([roce])
    (finding,) = (f for f in report.findings if f.code == "PF075")
    assert message in finding.message
    at = Locator(report.reading).find(finding.place, finding.source)
    assert line in Path(at.file).read_text().splitlines()[at.line - 1], at
