"""From a scenario to files and back: classes, marks, buffers, hosts, cards, and the keys that no file has."""

import json
import os
import shutil
import subprocess
import tomllib

import pauseframe as pf
import pytest
from pauseframe.deploy import DeployError, Settings, dcqcn
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.examples import HOME
from pauseframe.imports.fabric import import_fabric
from pauseframe.imports.mlxconfig import read_dump
from pauseframe.lint import lint
from pauseframe.lint.yang import validate
from test_deploy import fake_tools, models
from test_fabrics import cli

FABRICS = ("roce", "dctcp", "storage")


def text_of(name):
    return (HOME / name / "fabric.toml").read_text(encoding="utf-8")


def deployed(text, out, *, changes=None, **options):
    return deploy_scenario(pf.Scenario.from_toml(text).resolve(set=changes), out, Settings(), **options)


def files_of(out):
    """The files of devices, and their order."""
    return {
        str(path.relative_to(out)): path.read_text()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in {"deploy.json", "scenario.resolved.toml"}
    }


def tables_of(out, switch):
    return json.loads((out / "switches" / switch / "config_db.json").read_text())


ROCE_STORAGE = (
    text_of("storage")
    .replace('preset = "dctcp"', 'preset = "roce_dcqcn"')
    .replace("[[0, 0], [26, 3]]", "[[0, 0], [26, 3], [48, 6]]")
)


@pytest.mark.parametrize("name", [*FABRICS, "storage by RoCE"])
def test_there_and_back(tmp_path, name):
    """The imported scenario has the values of the deployed one; lint finds nothing."""
    text = ROCE_STORAGE if name == "storage by RoCE" else text_of(name)
    deployed(text, tmp_path / "out")
    report = lint([tmp_path / "out"], release="202605")
    assert [(f.code, str(f.place), f.message) for f in report.findings] == []
    assert not [note for note in report.reading.fabric.notes if note.startswith("no rule reads")]
    wanted = tomllib.loads(pf.Scenario.from_toml(text).resolve().toml)
    found = import_fabric(read_fabric([tmp_path / "out"]))
    assert found.scope.account.odd == []
    back = tomllib.loads(pf.Scenario.from_toml(found.toml).resolve().toml)
    assert back["host"]["mtu"] == wanted["host"]["mtu"]
    assert back["routing"]["kind"] == "ecmp"
    for key in ("policy", "size", "alpha", "reserved"):
        assert back["switch"]["buffer"][key] == wanted["switch"]["buffer"][key], key
    assert _shares(back) == _shares(wanted)
    assert dict(back["switch"]["priority_of_dscp"]) == dict(wanted["switch"]["priority_of_dscp"])
    assert _transports(back) == _transports(wanted)
    if wanted["switch"]["pfc"]:
        for key in ("priorities", "watchdog", "headroom_pool"):
            assert back["switch"]["pfc"][key] == wanted["switch"]["pfc"][key], key
    else:
        assert not back["switch"]["pfc"]
    _same_links(wanted, back)
    _same_marks(name, wanted, back)


def _transports(scenario):
    """The transports that workloads use, by code point: all keys but those that no file has.

    Nagle's algorithm is an application's choice: storage turns it off, and no file says which application runs.
    """
    tables = {"default": scenario["transport"]} | scenario.get("transports", {})
    used = {work["transport"] for work in scenario["workload"]}
    other = {"preset", "rdma_mtu", "tcp", "small_segments"}
    return {
        tables[name]["dscp"]: {key: value for key, value in tables[name].items() if key not in other} for name in used
    }


def _shares(scenario):
    groups = scenario["switch"]["scheduler"].get("groups", [])
    return {priority: group["share"] for group in groups for priority in group["priorities"]}


def _same_links(wanted, back):
    """Rates are equal; delays are whole metres of cable, which are 5 ns."""
    hosts = {"25 ns": "25 ns", "200 ns": "202 ns"}
    rates = {"host": wanted["topology"]["link"], "leaf": wanted["topology"]["fabric_link"]}
    for link in back["topology"]["links"]:
        own = rates["host" if any(end.startswith("host") for end in link["ends"]) else "leaf"]
        assert (link["rate"], link["delay"]) == (own["rate"], hosts[own["delay"]])


def _same_marks(name, wanted, back):
    """Each port has the thresholds of its rate, on the queues with ECN-capable traffic alone."""
    queues = {
        n
        for own in back["switch"]["classes"].values()
        if own.get("marker", {}).get("kind") == "red"
        for n in own["priorities"]
    }
    assert queues == {1 if name == "dctcp" else 3}
    own = next(own for own in back["switch"]["classes"].values() if set(own["priorities"]) == queues)["marker"]
    rates = {
        end: link["rate"]
        for link in back["topology"]["links"]
        for end in map(":".join, zip(link["ends"], link["ports"], strict=True))
    }
    theirs = next(
        (c["marker"] for c in wanted["switch"].get("classes", {}).values() if set(c["priorities"]) == queues),
        wanted["switch"]["marker"],
    )
    for key, other in (("min", "min"), ("max", "max")):
        values = theirs[other] if theirs["kind"] == "red" else theirs["k"]
        marked = {end: size for end, size in own[key].items() if end != "*"}
        assert marked
        for end, size in marked.items():
            assert size == values[rates[end]], (end, key)


SMALL = """
name = "small"
stop = { time = "1 ms" }
topology = { kind = "star", hosts = 2, link = { rate = "25 Gbps", delay = "25 ns" } }

[routing]
kind = "ecmp"
hash = "crc32"
hash_fields = "addresses"

[host]
mtu = "4200 B"
tso = true
gro = false
tx_delay = "1 us"

[switch]
latency = "1 us"
priority_of_dscp = [[0, 0], [10, 1], [26, 3], [48, 6]]
buffer = { policy = "shared", size = "16 MB", alpha = 2.0, egress_pool = "8 MB" }

[switch.classes.data]
priorities = [1, 3]
alpha = 0.5
reserved = "4 KB"
marker = { kind = "red", min = "100 KB", max = "400 KB", p_max = 0.2, w_q = 0.5 }

[switch.pfc]
priorities = [3]
headroom = "100 KB"
xoff = "1 MB"
xon = "900 KB"
quanta = 1000
watchdog = { action = "drop", detection = "300 ms", restoration = "400 ms", poll = "200 ms" }

[switch.scheduler]
kind = "ets"
groups = [{ priorities = [0], share = 40 }, { priorities = [1], share = 30 }, { priorities = [3], share = 30 }]

[transports.roce]
preset = "roce_dcqcn"
dscp = 26
rdma_control = "dcqcn_connectx"
rdma_mtu = "2048 B"
rdma_cnp_interval = "8 us"
dcqcn_rise_interval = "200 us"
dcqcn_byte_counter = "1 MB"

[transports.fast]
preset = "dctcp"
dscp = 10
rto_min = "5 ms"
initial_window = "20 segments"
delayed_ack_segments = 1
sack = true
receive_buffer_max = "8 MB"
dctcp_g = 0.125

[transports.idle]
preset = "cubic"

[[workload]]
kind = "n_to_1"
transport = "roce"
senders = 1
size = "1 KB"

[[workload]]
kind = "n_to_1"
name = "fast"
transport = "fast"
senders = 1
size = "1 KB"
"""


def test_hosts_and_cards_come_back(tmp_path):
    """Offloads, sysctls, routes and registers that are not the defaults; only keys that no file has are lost."""
    summary = deployed(SMALL, tmp_path / "out")
    wanted = tomllib.loads(pf.Scenario.from_toml(SMALL).resolve().toml)
    found = import_fabric(read_fabric([tmp_path / "out"]))
    assert "load auto: RoCE, because files give registers of cards" in found.scope.account.assumed
    assert "load auto: roce_dcqcn in DSCP 26, dctcp in DSCP 10; --load chooses another" in found.scope.account.assumed
    back = tomllib.loads(pf.Scenario.from_toml(found.toml).resolve().toml)
    assert back["host"]["tso"] is True
    lost = {row["key"].rpartition(".")[2] for row in summary["unwritten"]}
    here, there = _transports(back), _transports(wanted)
    for dscp, keys in there.items():
        assert {key: here[dscp][key] for key in keys if key not in lost} == {
            key: value for key, value in keys.items() if key not in lost
        }


OTHER = {
    "topology.link.rate": "100 Gbps",
    "topology.link.delay": "30 ns",
    "topology.hosts": 3,
    "host.mtu": "9000 B",
    "host.tso": False,
    "switch.priority_of_dscp": [[0, 0], [10, 1], [12, 1], [26, 3], [48, 6]],
    "switch.buffer.size": "20 MB",
    "switch.buffer.alpha": 4.0,
    "switch.buffer.egress_pool": "7 MB",
    "switch.classes.data.priorities": [3],
    "switch.classes.data.alpha": 0.25,
    "switch.classes.data.reserved": "8 KB",
    "switch.classes.data.marker.min": "120 KB",
    "switch.classes.data.marker.max": "420 KB",
    "switch.classes.data.marker.p_max": 0.3,
    "switch.pfc.headroom": "120 KB",
    "switch.pfc.xoff": "2 MB",
    "switch.pfc.xon": "950 KB",
    "switch.pfc.watchdog.action": "forward",
    "switch.pfc.watchdog.detection": "350 ms",
    "switch.pfc.watchdog.restoration": "500 ms",
    "switch.pfc.watchdog.poll": "150 ms",
    "switch.scheduler.groups": [{"priorities": [0], "share": 50}, {"priorities": [1, 3], "share": 50}],
    "transports.roce.rdma_control": "dcqcn_hpcc",
    "transports.roce.rdma_cnp_interval": "9 us",
    "transports.roce.dcqcn_rise_interval": "250 us",
    "transports.fast.preset": "dctcp_plus",
    "transports.fast.rto_min": "6 ms",
    "transports.fast.initial_window": "bdp",
    "transports.fast.delayed_ack_segments": 2,
    "transports.fast.sack": False,
    "transports.fast.receive_buffer_max": "9 MB",
}
"""Another value for each key of SMALL that is written."""
FIXED = {
    "switch.buffer.policy",
    "switch.classes.data.marker.kind",
    "switch.pfc.priorities",
    "switch.scheduler.kind",
    "topology.kind",
    "routing.kind",
    "transports.roce.preset",
    "transports.roce.dscp",
    "transports.fast.dscp",
    "transports.fast.preset",
}
"""Written keys whose other values need further keys: other tests have them."""


def test_each_key_of_a_scenario_is_written_or_listed(tmp_path):
    """None is silent: a key that is not listed changes the files, and a listed one does not."""
    summary = deployed(SMALL, tmp_path / "out")
    before = files_of(tmp_path / "out")
    listed = {row["key"] for row in summary["unwritten"]}
    resolved = pf.Scenario.from_toml(SMALL).resolve()
    given = [path for path, _, origin in resolved.explain() if origin == "file"]
    assert len(given) > 50
    silent = [path for path in given if path not in OTHER and path not in FIXED and not _covers(listed, path)]
    assert [path for path in silent if not path.startswith("switch.scheduler.groups")] == []
    assert not [path for path in OTHER if _covers(listed, path)]
    for number, (path, value) in enumerate(OTHER.items()):
        if path in FIXED:
            continue
        deployed(SMALL, tmp_path / str(number), changes={path: value})
        assert files_of(tmp_path / str(number)) != before, path
    assert {"workload", "name", "stop", "host.tx_delay", "switch.latency", "switch.pfc.quanta"} <= listed
    assert {"transports.idle", "transports.fast.dctcp_g", "transports.roce.dcqcn_byte_counter"} <= listed


def _covers(listed, path):
    parts = path.split(".")
    return any(".".join(parts[:n]) in listed for n in range(1, len(parts) + 1))


ROUTING = 'kind = "ecmp"\nhash = "crc32"\nhash_fields = "addresses"'
AIMD = 'preset = "cubic"\ncongestion_control = "aimd"'
PRESET = 'preset = "dctcp"'
SHARED = """
topology = { kind = "star", hosts = 2 }
[switch]
marker = { kind = "step", k = "90 KB" }
[transports.a]
preset = "dctcp"
[transports.b]
preset = "cubic"
[[workload]]
kind = "n_to_1"
transport = "a"
senders = 1
size = "1 KB"
[[workload]]
kind = "n_to_1"
name = "b"
transport = "b"
senders = 1
size = "1 KB"
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SHARED, r"transports.a and transports.b share priority 0, which marks, and transports.b is not ECN-capable"),
        (SMALL.replace(ROUTING, 'kind = "up_down"'), "route plan .* --engine up_down"),
        (SMALL.replace("quanta = 1000", "whole_link = true"), "whole_link"),
        (SMALL.replace('headroom = "100 KB"', 'headroom = "5 KB"'), "5,000 B, and switch:0 needs .*: packets"),
        (SMALL.replace(PRESET, AIMD).replace("dctcp_g = 0.125", ""), "Linux has no aimd"),
        (SMALL.replace(PRESET, PRESET + "\nsubflows = 2"), "writes nothing for MPTCP"),
        (SMALL.replace("p_max = 0.2", "p_max = 0.001"), "whole percentages"),
    ],
)  # fmt: skip
def test_what_devices_cannot_run_is_refused(tmp_path, text, message):
    with pytest.raises(DeployError, match=message):
        deployed(text, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cables_that_the_buffer_does_not_hold_are_refused(tmp_path):
    with pytest.raises(
        DeployError, match=r"headroom and reserved bytes of leaf0 need .*: a larger buffer, shorter cab"
    ):
        deployed(text_of("roce"), tmp_path / "out", cable=60_000.0)


def test_only_ecn_capable_traffic_is_marked(tmp_path):
    """RoCE's queue marks, that of CUBIC does not, although the scenario has one marker for all."""
    text = text_of("roce").replace(
        "[switch.classes.roce]\npriorities = [3]\n\n[switch.classes.roce.marker]", "[switch.marker]"
    )
    summary = deployed(text, tmp_path / "out")
    for switch in (tmp_path / "out" / "switches").iterdir():
        queues = tables_of(tmp_path / "out", switch.name)["QUEUE"]
        assert {key.partition("|")[2] for key, row in queues.items() if "wred_profile" in row} == {"3"}
    assert "switch.marker of priority 0" in {row["key"] for row in summary["unwritten"]}


@pytest.mark.parametrize(("low", "code"), [("90000", "PF035"), ("45000", "PF036")])
def test_a_queue_that_marks_traffic_without_ecn_is_found(tmp_path, low, code):
    """Somebody lets the queue of best effort mark as well: by a step, or by a line of probability."""
    deployed(text_of("dctcp"), tmp_path / "out")
    path = tmp_path / "out" / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(path.read_text())
    tables["WRED_PROFILE"]["EXTRA"] = dict(tables["WRED_PROFILE"]["PF_10000"]) | {"green_min_threshold": low}
    tables["QUEUE"]["Ethernet0|0"]["wred_profile"] = "EXTRA"
    path.write_text(json.dumps(tables))
    found = [f for f in lint([tmp_path / "out"]).findings if f.code in {"PF035", "PF036"}]
    assert [(f.code, str(f.place)) for f in found] == [(code, "leaf0 QUEUE Ethernet0|0 wred_profile")]


def test_a_buffer_of_each_port_becomes_static_limits(tmp_path):
    text = SMALL.replace('{ policy = "shared", size = "16 MB", alpha = 2.0, egress_pool = "8 MB" }', '"2 MB"')
    text = text.replace('alpha = 0.5\nreserved = "4 KB"\n', "").replace('xoff = "1 MB"\nxon = "900 KB"\n', "")
    deployed(text, tmp_path / "out")
    tables = tables_of(tmp_path / "out", "switch")
    assert tables["BUFFER_POOL"]["ingress_lossless_pool"]["mode"] == "static"
    profile = tables["BUFFER_PROFILE"]["pg_lossless_25000_5m_profile"]
    assert int(profile["static_th"]) == 2_000_000 - 100_000
    assert tables["BUFFER_PROFILE"]["egress_lossy_profile"]["static_th"] == "2000000"
    assert lint([tmp_path / "out"]).findings == []


@pytest.mark.parametrize("control", ["dcqcn_connectx", "dcqcn_cx5_measured", "dcqcn_hpcc", "dcqcn_paper"])
def test_constants_are_those_of_the_simulator(tmp_path, control):
    """A run whose keys name all constants is the run of the control; the registers read back as the same keys."""
    text = """
    topology = { kind = "star", hosts = 5, link = { rate = "50 Gbps", delay = "1 us" } }
    switch.buffer = { policy = "shared", size = "8 MB" }
    switch.marker = { kind = "red", min = "50 KB", max = "200 KB", p_max = 0.2 }
    transport = { preset = "roce_dcqcn" }
    workload = [{ kind = "n_to_1", senders = 4, size = "500 KB" }]
    """
    own = {
        f"transport.dcqcn_{key}": value for key, value in dcqcn.constants(control, 50_000).items() if value is not None
    }
    runs = [
        pf.run(pf.Scenario.from_toml(text).to_toml(), set={"transport.rdma_control": control} | more, progress=False)
        for more in ({}, own)
    ]
    assert runs[0].summary["fingerprint"] == runs[1].summary["fingerprint"]
    deployed(text, tmp_path / "out", changes={"transport.rdma_control": control})
    back = read_dump(tmp_path / "out" / "hosts" / "host0" / "mlxconfig.txt")
    keys = tomllib.loads(back.toml)["transport"]
    inexact = {"dcqcn_initial_alpha"}  # 1023 of 1024 is the largest
    for key, value in dcqcn.constants(control, 50_000).items():
        if f"dcqcn_{key}" in keys and f"dcqcn_{key}" not in inexact and value is not None:
            assert keys[f"dcqcn_{key}"] == value, key


def test_commands(tmp_path):
    file = tmp_path / "fabric.toml"
    file.write_text(text_of("dctcp"))
    done = cli("deploy", file, "-o", tmp_path / "out", "--set", "transports.dctcp.rto_min=9 ms", "--cable", "30m")
    assert done.returncode == 0, done.stderr
    assert "not written: workload: it describes the run, not the devices" in done.stdout
    assert "class: transports.dctcp: DSCP 10, priority 1, lossy, ECN-capable" in done.stdout
    assert "rto_min 9ms" in (tmp_path / "out" / "hosts" / "host0" / "setup.sh").read_text()
    lengths = tables_of(tmp_path / "out", "leaf0")["CABLE_LENGTH"]["AZURE"]
    assert set(lengths.values()) == {"30m"}
    assert cli("lint", tmp_path / "out").returncode == 0
    for option in (
        ["--mtu", "9000"],
        ["--hosts", "dctcp"],
        ["--priorities", "3"],
        ["--buffer", "1 MB"],
        ["--target", "linux"],
    ):
        done = cli("deploy", file, "-o", tmp_path / "no", *option)
        assert (done.returncode, (tmp_path / "no").exists()) == (2, False), done.stderr
        assert option[0] in done.stderr


def test_the_inventory_of_a_deployment_gives_the_same_files(tmp_path):
    macs = tmp_path / "macs.csv"
    macs.write_text("device,mac,port,name\nhost0,aa:bb:cc:00:00:01,,ens1\nleaf0,,eth1,Ethernet96\n")
    lanes = tmp_path / "lanes"
    names = {"leaf0": ["Ethernet96", *(f"Ethernet{4 * n}" for n in range(1, 6))]}
    names |= {"leaf1": [f"Ethernet{4 * n}" for n in range(6)], "spine0": ["Ethernet0", "Ethernet4"]}
    names["spine1"] = names["spine0"]
    for device, ports in names.items():
        (lanes / device).mkdir(parents=True)
        rows = {port: {"lanes": str(number)} for number, port in enumerate(ports)}
        (lanes / device / "config_db.json").write_text(json.dumps({"PORT": rows}))
    deployed(text_of("roce"), tmp_path / "out", inventory=[macs, lanes])
    assert "nic=ens1\nmac='aa:bb:cc:00:00:01'" in (tmp_path / "out" / "hosts" / "host0" / "setup.sh").read_text()
    deployed(text_of("roce"), tmp_path / "again", inventory=[tmp_path / "out" / "inventory.csv"])
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")


@pytest.mark.skipif(shutil.which("yanglint") is None, reason="needs yanglint (Debian: libyang2-tools)")
@pytest.mark.parametrize("name", FABRICS)
def test_files_are_valid_under_the_models_of_the_release(tmp_path, name):
    """With PAUSEFRAME_SONIC_YANG under SONiC's own models, else under those of test_deploy."""
    (tmp_path / "models").mkdir()
    found = models(tmp_path / "models")
    assert found
    for release, folder in found.items():
        resolved = pf.Scenario.from_toml(text_of(name)).resolve()
        deploy_scenario(resolved, tmp_path / release, Settings(sonic_release=release))
        lines, failed = validate(folder, read_fabric([tmp_path / release / "switches"]))
        assert not failed, lines
        assert len(lines) == 4, lines


MLNX = """DCBX mode: OS controlled
Priority trust state: pcp
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   1   0   0   0   0   0
\tbuffer      0   0   1   0   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: ets, bw: 60%
\t priority:  0
tc: 1 ratelimit: unlimited, tsa: ets, bw: 40%
\t priority:  1
tc: 2 ratelimit: unlimited, tsa: strict
\t priority:  2
"""
"""What `mlnx_qos -i NIC` prints, with three classes."""


@pytest.mark.parametrize("tool", ["mlnx_qos", "dcb"])
def test_qos_of_a_card_is_put_back(tmp_path, tool):
    """Trust, PFC and shares of the NIC are as before after --undo; running the script twice keeps the first state."""
    deployed(text_of("roce"), tmp_path / "out")
    tools = fake_tools(tmp_path / "tools")
    if tool == "mlnx_qos":
        (tools / "text").write_text(MLNX)
        show = f"if [ $# = 2 ]; then cat {tools}/text; exit; fi"
    else:
        cases = "prio-pfc) echo prio-pfc 2:on ;; tc-tsa) echo tc-tsa 0:ets ;; tc-bw) echo tc-bw 0:9 ;; "
        cases += "prio-tc) echo prio-tc 0:0 ;; dscp-prio) echo dscp-prio 8:1 ;;"
        show = f'if [ $2 = show ]; then case "$5" in {cases} esac; exit; fi'
    (tools / tool).write_text(f'#!/bin/sh\n{show}\necho "{tool} $*" >> {tools}/log\n')
    (tools / tool).chmod(0o755)
    text = (tmp_path / "out" / "hosts" / "host0" / "setup.sh").read_text()
    text = text.replace("/var/lib/pauseframe", str(tmp_path / "s"))
    environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    calls = []
    for arguments in ([], [], ["--undo"], ["--undo"]):
        (tools / "log").unlink(missing_ok=True)
        subprocess.run(["sh", "-c", text, "setup.sh", *arguments], env=environment, check=True, capture_output=True)
        log = (tools / "log").read_text().splitlines() if (tools / "log").exists() else []
        calls.append([line for line in log if line.startswith(tool)])
    assert calls[0] == calls[1]
    assert calls[3] == []
    assert list((tmp_path / "s").iterdir()) == []
    if tool == "mlnx_qos":
        assert calls[0] == [
            "mlnx_qos -i eth1 --trust dscp --pfc 0,0,0,1,0,0,0,0 --prio_tc 0,1,2,3,4,5,6,7 "
            "--tsa ets,strict,strict,ets,strict,strict,strict,strict --tcbw 50,0,0,50,0,0,0,0"
        ]
        assert calls[2] == ["mlnx_qos -i eth1 --trust pcp --pfc 0,0,1,0,0,0,0,0 --tsa ets,ets,strict --tcbw 60,40,0"]
    else:
        assert "dcb app replace dev eth1 dscp-prio 26:3 48:6" in calls[0]
        assert calls[2] == [
            "dcb pfc set dev eth1 prio-pfc 2:on",
            "dcb ets set dev eth1 tc-tsa 0:ets tc-bw 0:9",
            "dcb ets set dev eth1 prio-tc 0:0",
            "dcb app flush dev eth1 dscp-prio",
            "dcb app replace dev eth1 dscp-prio 8:1",
        ]


GPUS = """
[topology]
kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "25 ns" }
scale_up = { gpus_per_server = 2, gpu = "H100" }

[routing]
kind = "ars"

[transport]
preset = "roce_dcqcn"

[[workload]]
kind = "permutation"
size = "1 MB"
"""


def test_links_within_servers_and_port_quality_are_listed(tmp_path):
    listed = {row["key"] for row in deployed(GPUS, tmp_path / "out")["unwritten"]}
    assert {"topology.scale_up.gpus_per_server", "topology.scale_up.gpu", "routing.kind"} <= listed


OVERRIDE = """
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
link = { rate = "100 Gbps", delay = "25 ns" }

[switch]
buffer = { policy = "shared", size = "16 MB" }

[[switch.override]]
switches = ["spine*"]
buffer = "32 MB"

[transport]
preset = "roce_dcqcn"

[[workload]]
kind = "permutation"
size = "1 MB"
"""


def test_a_switch_of_its_own_buffer_keeps_it(tmp_path):
    summary = deployed(OVERRIDE, tmp_path / "out")
    assert not _covers({row["key"] for row in summary["unwritten"]}, "switch.override")
    sizes = {
        name: int(tables_of(tmp_path / "out", name)["BUFFER_POOL"]["egress_lossless_pool"]["size"])
        for name in ("leaf0", "spine1")
    }
    assert sizes == {"leaf0": 16_000_000, "spine1": 32_000_000}
