"""Loads of imports and of proofs send what the files of hosts tell, not RoCE into a fabric that has none."""

import json
import tomllib

import pauseframe as pf
import pytest
from pauseframe.deploy.plan import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.imports.fabric import import_fabric, switches
from pauseframe.imports.fabric.scope import scope_of
from pauseframe.imports.fabric.through import through
from pauseframe.imports.fabric.traffic import lossless_code_points
from pauseframe.lint import lint
from pauseframe.lint.prove import proof_of

FABRIC = """
name = "deployed"
stop = "50 ms"
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 4, link = { delay = "25 ns" } }
workload = { kind = "n_to_1", size = "200 KB" }
"""
CUBIC = f'{FABRIC}switch = {{ buffer = "100 KB" }}\ntransport = {{ preset = "cubic" }}\n'
DCTCP = f"""{FABRIC}
[switch]
buffer = {{ policy = "shared", size = "2 MB" }}
priority_of_dscp = [[10, 1]]
[switch.classes.marked]
priorities = [1]
marker = {{ kind = "step", k = "65 KB" }}
[transport]
preset = "dctcp"
dscp = 10
priority = 1
"""
BOTH = f"""{FABRIC}
[switch]
buffer = {{ policy = "shared", size = "16 MB" }}
[switch.classes.marked]
priorities = [1]
marker = {{ kind = "step", k = "65 KB" }}
[transports.storage]
preset = "roce_dcqcn"
dscp = 26
[transports.web]
preset = "dctcp"
dscp = 10
priority = 1
[[workload]]
kind = "n_to_1"
size = "200 KB"
transport = "storage"
[[workload]]
kind = "n_to_1"
size = "200 KB"
transport = "web"
""".replace(FABRIC.splitlines()[-1], "")


def deployed(text, folder):
    deploy_scenario(pf.Scenario.from_toml(text).resolve(), folder, Settings(), cable=None, inventory=[])
    return folder


@pytest.mark.parametrize("load", ["auto", "tcp", "incast", "all-to-all", "storage"])
def test_loads_send_what_the_files_tell(load, tmp_path):
    root = deployed(CUBIC, tmp_path / "fabric")
    found = import_fabric(read_fabric([root]), load=load)
    scenario = tomllib.loads(found.toml)
    assert scenario["transport"]["preset"] == "cubic"
    assert "transports" not in scenario
    assert load == "tcp" or f"load {load}: cubic in DSCP 0; --load chooses another" in found.scope.account.assumed
    pf.Scenario.from_toml(found.toml).resolve()
    roce = import_fabric(read_fabric([root]), load="roce")
    assert "load roce: roce_dcqcn in DSCP 0, though no queue of it is lossless" in roce.scope.account.assumed


def test_an_incast_has_one_flow_of_each_sender(tmp_path):
    """RoCE, if the sender's files have it; then its first class of TCP."""
    found = tomllib.loads(import_fabric(read_fabric([deployed(BOTH, tmp_path / "fabric")]), load="incast").toml)
    (work,) = found["workload"]
    assert (found["transport"]["preset"], len(work["flows"]), len({flow["dst"] for flow in work["flows"]})) == (
        "roce_dcqcn",
        7,
        1,
    )


def without_marks(tables):
    for key, row in tables["QUEUE"].items():
        if key.endswith("|1"):
            row.pop("wred_profile", None)


def late_marks(tables):
    for row in tables["WRED_PROFILE"].values():
        row |= {name: str(int(value) * 40) for name, value in row.items() if name.endswith("threshold")}


@pytest.mark.parametrize(("code", "change"), [("PF033", without_marks), ("PF031", late_marks)])
def test_a_proof_about_a_lossy_queue_sends_into_it(code, change, tmp_path):
    """RoCE in DSCP 0 showed no difference."""
    root = deployed(DCTCP, tmp_path / "fabric")
    file = root / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(file.read_text())
    change(tables)
    file.write_text(json.dumps(tables))
    report = lint([root])
    finding = next(one for one in report.findings if one.code == code)
    proof = proof_of(report, finding, tmp_path / "proof", {})
    scenario = tomllib.loads((tmp_path / "proof" / "as-is.toml").read_text())
    assert (scenario["transport"]["preset"], scenario["transport"]["dscp"]) == ("dctcp", 10)
    assert any(here.name == "ECN marks" and here.value != there.value for here, there in proof.rows), proof.why


@pytest.mark.parametrize(("text", "queue", "preset", "fits"), [
    (DCTCP, 1, "dctcp", True), (DCTCP, 5, "dctcp", False), (BOTH, 1, "dctcp", True), (BOTH, 3, None, True),
    (BOTH, 5, None, False), (CUBIC, 0, "cubic", True),
])  # fmt: skip
def test_a_load_knows_whether_hosts_send_into_its_queue(text, queue, preset, fits, tmp_path):
    """None is RoCE in the lossless queue."""
    fabric = read_fabric([deployed(text, tmp_path / "fabric")]).fabric
    scope, codes = scope_of(fabric), lossless_code_points(fabric)
    focus = next(end for end, _, _ in scope.ports() if end.device == "leaf0")
    classes = switches.classes_of(scope, codes[0] if codes else None)
    load = through(scope, focus, classes, 1500, queues=frozenset({queue}))
    assert (load.lossy and load.lossy["preset"], load.fits) == (preset, fits)
