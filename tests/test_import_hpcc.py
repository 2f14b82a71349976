"""A config of the HPCC simulator or a fork becomes a scenario: each key is used, has no effect, or is refused."""

import json
import tomllib
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.imports.hpcc import KNOWN, Imported, read_config
from pauseframe.run import resolve
from test_fabrics import cli

CONFIG = """ENABLE_QCN 1 {0: disable, 1: enable}
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
SIMULATOR_STOP_TIME 2.1
CC_MODE {mode}
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
RP_TIMER 900
RATE_AI {additive}
L2_ACK_INTERVAL 1
LINK_DOWN 0 0 0
KMAX_MAP 3 25000000000 400 50000000000 800 100000000000 1600
KMIN_MAP 3 25000000000 100 50000000000 200 100000000000 400 # kB
PMAX_MAP 3 25000000000 0.2 50000000000 0.2 100000000000 0.8
BUFFER_SIZE 32
NIC_TOTAL_PAUSE_TIME 0
"""
TOPOLOGY = "5 2 4\n3 4\n0 3 25Gbps 1us 0\n1 3 25Gbps 1us 0\n2 4 25Gbps 1us 0\n3 4 100Gbps 1us 0.001\n"
FLOWS = "2\n1 0 3 100 400000 2.0\n2 0 3 100 400000 2.0\n"
MODES = {
    "1": ("dcqcn_hpcc", "50Mb/s"),
    "3": ("hpcc", "10Mb/s"),
    "7": ("timely", "25Mbps"),
    "8": ("dctcp", "5Mb/s"),
    "12": ("none", "5Mb/s"),
}
DCQCN = """dcqcn_alpha_interval = "1 us"
dcqcn_rise_interval = "900 us"
dcqcn_additive_increase = "50 Mbps"
"""


def _config(mode: str = "1", additive: str = "50Mb/s", more: str = "") -> str:
    return CONFIG.replace("{mode}", mode).replace("{additive}", additive) + more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "topology.txt").write_text(TOPOLOGY)
    (tmp_path / "flow.txt").write_text(FLOWS)
    return tmp_path


def _read(folder: Path, text: str, **options: object) -> Imported:
    (folder / "config.txt").write_text(text)
    return read_config(folder / "config.txt", **options)  # type: ignore[arg-type]


def _refused(folder: Path, text: str, **options: object) -> str:
    with pytest.raises(pf.InputError) as error:
        _read(folder, text, **options)
    return str(error.value)


@pytest.mark.parametrize("mode", MODES)
def test_a_config_runs(folder: Path, mode: str) -> None:
    control, additive = MODES[mode]
    imported = _read(folder, _config(mode, additive))
    assert len(imported.notes) == len(_config().splitlines())
    assert f"NIC_TOTAL_PAUSE_TIME 0: no effect: {'the simulator reads it and does not use it'}" in imported.notes
    text = imported.toml
    assert all(f"#   {note}" in text.splitlines() for note in imported.notes)
    assert (f'rdma_control = "{control}"' in text) == (mode != "8")
    assert (DCQCN in text) == (mode == "1")
    assert 'min = { "25 Gbps" = "100 KB", "100 Gbps" = "400 KB" }' in text
    assert 'p_max = { "25 Gbps" = 0.2, "100 Gbps" = 0.8 }' in text
    (folder / "config.toml").write_text(text)
    assert pf.run(folder / "config.toml").summary["flows_finished"] == 2


def test_the_command_writes_the_scenario_and_prints_each_key(folder: Path) -> None:
    mix = folder / "mix"
    mix.mkdir()
    for name in ("topology.txt", "flow.txt"):
        (folder / name).rename(mix / name)
    # As in the simulator, names begin one folder above the config; lines may end with CR LF, behind a byte order mark.
    config = _config().replace("FILE ", "FILE mix/").replace("\n", "\r\n")
    (mix / "config.txt").write_bytes(b"\xef\xbb\xbf" + config.encode())
    done = cli("import", "hpcc", "mix/config.txt", "--out", "here.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    text = (folder / "here.toml").read_text()
    assert 'path = "mix/topology.txt"' in text
    assert 'file = "mix/flow.txt"' in text
    assert "CC_MODE 1: used: preset roce_dcqcn" in done.stderr
    again = cli("import", "hpcc", "mix/config.txt", "--out", "here.toml", cwd=folder)
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_faults_of_links_become_failures_and_corruption(folder: Path) -> None:
    more = "ERROR_RATE_PER_LINK 0.01\nRANDOM_SEED 7\n"
    scenario = tomllib.loads(_read(folder, _config(more=more).replace("DOWN 0 0 0", "DOWN 20000 3 4")).toml)
    assert scenario["failure"] == [{"link": ["3", "4"], "down": "2.02 s"}]
    assert scenario["seed"] == 7
    # The link with an error rate in the topology file keeps it.
    corruption = [{"ports": ["*:*"], "fer": 0.01}, {"ports": ["3:2", "4:1"], "fer": 0.001}]
    assert scenario["corruption"] == corruption
    wrong = _refused(folder, _config().replace("DOWN 0 0 0", "DOWN 20000 2 3"))
    assert wrong.endswith("config.txt, line 12: LINK_DOWN 20000 2 3: the topology has no link between 2 and 3")


def test_switches_without_pfc_and_without_marks(folder: Path) -> None:
    text = _config(more="ENABLE_PFC 0\n").replace("ENABLE_QCN 1", "ENABLE_QCN 0")
    scenario = tomllib.loads(_read(folder, text).toml)
    assert (scenario["switch"]["pfc"], scenario["switch"]["marker"]) == (False, "none")
    assert scenario["transport"]["lossless"] is False


STOCK = """ALPHA_RESUME_INTERVAL {alpha}
RATE_DECREASE_INTERVAL {cut}
CLAMP_TARGET_RATE 0
EWMA_GAIN {gain}
FAST_RECOVERY_TIMES 1
RATE_HAI {hyper}Mb/s
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 615Mb/s
L2_BACK_TO_ZERO 0
HAS_WIN {window}
VAR_WIN {window}
GLOBAL_T 1
FAST_REACT {fast}
U_TARGET 0.98
MI_THRESH 0
MULTI_RATE 0
SAMPLE_FEEDBACK 0
RATE_BOUND 1
ACK_HIGH_PRIO {high}
"""
"""What the script of the HPCC simulator writes for each control, beside the keys of CONFIG."""
CHANGED: dict[str, dict[str, object]] = {
    "1": {"dcqcn_additive_increase": "10 Mbps", "dcqcn_hyper_increase": "100 Mbps", "dcqcn_minimum_rate": "1 Gbps"},
    "3": {"rdma_additive_increase": "20 Mbps", "rdma_minimum_rate": "1 Gbps", "hpcc_utilisation": 0.98},
    "7": {
        "rdma_additive_increase": "50 Mbps",
        "rdma_hyper_increase": "250 Mbps",
        "rdma_minimum_rate": "1 Gbps",
        "rdma_ack_as_cnp": True,
    },
    "8": {"dctcp_g": 0.0625},
}


@pytest.mark.parametrize("mode", CHANGED)
@pytest.mark.parametrize("window", [0, 1])
def test_the_simulators_own_configs_are_followed(folder: Path, mode: str, window: int) -> None:
    if (mode, window) in {("3", 0), ("8", 0)}:
        return  # the script gives HPCC and DCTCP a window
    add, hyper = {"1": (10, 100), "3": (20, 20), "7": (50, 250), "8": (10, 10)}[mode]
    high, gain = int(mode == "7" or (mode == "1" and not window)), 0.0625 if mode == "8" else 0.00390625
    stock = STOCK.format(alpha=50, cut=50, gain=gain, hyper=hyper, window=window, fast=int(mode == "3"), high=high)
    kept = "\n".join(
        line for line in _config(mode, f"{add}Mb/s").splitlines() if not line.startswith(("ALPHA", "RATE_DEC"))
    )
    imported = _read(folder, f"{kept}\n{stock}")
    text = tomllib.loads(imported.toml)["transport"]
    (folder / "config.toml").write_text(imported.toml)
    resolved = resolve(folder / "config.toml")
    transport = tomllib.loads(resolved.toml)["transport"]
    changed = CHANGED[mode] | ({"rdma_ack_as_cnp": True} if high else {})
    assert changed.items() <= transport.items()
    assert text.get("rdma_window", "none") == ("by_rate" if window and mode in "17" else "none")
    assert not any("changes nothing" in warning for warning in resolved.warnings)


def test_irn_has_both_of_its_timeouts(folder: Path) -> None:
    (folder / "config.toml").write_text(_read(folder, _config(more="ENABLE_IRN 1\nENABLE_PFC 0\n")).toml)
    transport = tomllib.loads(resolve(folder / "config.toml").toml)["transport"]
    assert (transport["rdma_timeout"], transport["rdma_timeout_low"]) == ("320 us", "100 us")
    assert (transport["rdma_timer"], transport["rdma_selective_repeat"]) == ("ibta", True)


@pytest.mark.parametrize(("mode", "kind"), [(0, "ecmp"), (2, "drill"), (6, "letflow")])
def test_load_balancers_are_followed(folder: Path, mode: int, kind: str) -> None:
    imported = _read(folder, _config(more=f"LB_MODE {mode}\n"))
    (folder / "config.toml").write_text(imported.toml)
    routing = tomllib.loads(resolve(folder / "config.toml").toml)["routing"]
    assert routing["kind"] == kind
    if kind == "letflow":
        assert routing["flowlet_gap"] == "100 us"  # as in the simulator


@pytest.mark.parametrize(("spines", "kind"), [(1, "ecmp"), (2, "conweave")])
def test_conweave_without_a_choice_is_ecmp(folder: Path, spines: int, kind: str) -> None:
    switches = [3, 4, *range(5, 5 + spines)]
    links = [(0, 3), (1, 3), (2, 4), *((leaf, spine) for leaf in (3, 4) for spine in switches[2:])]
    lines = [f"{3 + len(switches)} {len(switches)} {len(links)}", " ".join(map(str, switches))]
    lines += [f"{a} {b} 100Gbps 1000ns 0" for a, b in links]
    (folder / "topology.txt").write_text("\n".join(lines) + "\n")
    imported = _read(folder, _config(more="LB_MODE 9\nCONWEAVE_TX_EXPIRY_TIME 300\n"))
    assert any(note.startswith("CONWEAVE_TX_EXPIRY_TIME 300: ") for note in imported.notes)
    (folder / "config.toml").write_text(imported.toml)
    routing = tomllib.loads(resolve(folder / "config.toml").toml)["routing"]
    assert routing["kind"] == kind
    assert any("no two leaf switches" in note for note in imported.notes) == (kind == "ecmp")


@pytest.mark.parametrize(
    ("more", "mode", "message"),
    [
        ("LB_MODE 3\n", "1", "LB_MODE 3: CONGA is not simulated"),
        ("L2_BACK_TO_ZERO 1\n", "1", "L2_BACK_TO_ZERO 1: lost packets are sent again from the gap on"),
        ("ACK_HIGH_PRIO 1\n", "8", "ACK_HIGH_PRIO 1: TCP's acknowledgements have its own priority"),
        ("RATE_BOUND 0\n", "7", "RATE_BOUND 0: rates always bound the sender"),
        ("GLOBAL_T 0\n", "3", "GLOBAL_T 0: the longest path sets the round trip"),
        ("CC_MOD 1\n", "1", "CC_MOD 1: this key is not known"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(folder: Path, more: str, mode: str, message: str) -> None:
    text = _config(mode, MODES[mode][1], more)
    refused = _refused(folder, text)
    line, key = len(text.splitlines()), more.split(maxsplit=1)[0]
    assert f"config.txt, line {line}: {message}" in refused
    assert refused.endswith(f"change these keys, or leave them out knowingly: --without {key}")
    assert f"left out, as --without asks: {more.strip()}" in _read(folder, text, without=[key]).notes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("50Mb/s", "50MB/s", "line 10: RATE_AI 50MB/s is no rate in bits per second, such as 40Mb/s"),
        ("KMAX_MAP 3 25", "KMAX_MAP {number of rates} # 25", "line 13: KMAX_MAP has no value"),
        ("KMAX_MAP 3", "KMAX_MAP 9", "line 13: KMAX_MAP is a count, then so many pairs"),
        ("KMIN_MAP 3", "KMIN_MAP many", "line 14: KMIN_MAP many is no number"),
        (" 100000000000 0.8", " 1000 0.8", "line 15: PMAX_MAP has no value for 100000000000, the rate of a link"),
        ("BUFFER_SIZE 32", "BUFFER_SIZE inf", "line 16: BUFFER_SIZE inf is no number"),
        ("CC_MODE 1", "CC_MODE 10", "line 6: CC_MODE 10 (HPCC-PINT) is not simulated; supported are 1 (dcqcn_hpcc), 3"),
        ("BUFFER_SIZE 32", "CC_MODE 3", "line 16: CC_MODE has another value in line 6"),
        ("FILE topology", "FILE /etc/other", "line 3: TOPOLOGY_FILE /etc/other.txt: no such file beside the config"),
    ],
)
def test_damaged_lines_are_named(folder: Path, old: str, new: str, message: str) -> None:
    assert f"config.txt, {message}" in _refused(folder, _config().replace(old, new))


def test_bytes_that_are_no_text_are_named_with_their_line(folder: Path) -> None:
    (folder / "config.txt").write_bytes(b"CC_MODE 1\nRATE_AI \xff\n")
    with pytest.raises(pf.InputError) as error:
        read_config(folder / "config.txt")
    assert str(error.value).endswith("config.txt, line 2: this is not UTF-8 text (byte 0xff)")


def test_topologies_of_forks(folder: Path) -> None:
    (folder / "power.txt").write_text(TOPOLOGY.replace("5 2 4", "5 2 2 4").replace("25Gbps", "25000000000.0"))
    (folder / "flow.txt").write_text("2\n1 0 3 400000 2.0\n2 0 3 400000 2.0\n")
    imported = _read(folder, _config(), topology=folder / "power.txt")
    assert 'path = "power.txt"' in imported.toml
    (folder / "config.toml").write_text(imported.toml)
    assert pf.run(folder / "config.toml").summary["flows_finished"] == 2
    (folder / "two.txt").write_text("3 1 3\n2\n0 2 25Gbps 1us 0\n1 2 25Gbps 1us 0\n0 2 25Gbps 1us 0\n")
    two = _read(folder, _config(), topology=folder / "two.txt")
    assert 'port_choice = "xor"' in two.toml
    (folder / "flow.txt").write_text("2\n0 1 3 400000 2.0\n1 0 3 400000 2.0\n")
    (folder / "two.toml").write_text(two.toml)
    run = pf.run(folder / "two.toml")
    assert run.summary["flows_finished"] == 2
    assert {"0:0", "0:1"} & set(run.ports.to_polars()["port"].cast(str))
    servers = "5 2 1 2 4 H100\n2 3 4\n0 2 2880Gbps 25ns 0\n1 2 2880Gbps 25ns 0\n0 3 25Gbps 1us 0\n1 4 25Gbps 1us 0\n"
    (folder / "servers.txt").write_text(servers)
    with pytest.raises(pf.FabricError, match='1 NVSwitch, such as "nvswitch2"'):
        _read(folder, _config(), topology=folder / "servers.txt")


def test_every_known_key_has_a_fate(folder: Path) -> None:
    """No key of the simulators is "not known", and none is dropped without a word."""
    given = {line.split()[0] for line in _config().splitlines()}
    more = "".join(f"{key} 1\n" for key in sorted(KNOWN - given))
    refused = _refused(folder, _config(more=more.replace("LINK_DOWN 1", "LINK_DOWN 1 3 4")))
    assert "not known" not in refused
    keys = {part for part in refused.split("--without ")[1:] for part in part.split()[:1]}
    notes = _read(folder, _config(more=more), without=sorted(keys)).notes
    assert {note.split()[0] for note in notes if not note.startswith("left out")} == (KNOWN | given) - keys
    assert json.dumps(notes)
