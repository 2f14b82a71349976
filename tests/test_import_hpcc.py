"""The import turns a config.txt of the HPCC simulator into a runnable scenario, with notes on the skipped parts."""

import json
from pathlib import Path

import pytest
from test_cli import cli

CONFIG = """ENABLE_QCN 1
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
SIMULATOR_STOP_TIME 2.1
CC_MODE {mode}
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
RP_TIMER 900
RATE_AI 50Mb/s
U_TARGET 0.98
L2_ACK_INTERVAL 1
LINK_DOWN 0 0 0
KMAX_MAP 2 25000000000 400 100000000000 1600
KMIN_MAP 2 25000000000 100 100000000000 400
PMAX_MAP 2 25000000000 0.2 100000000000 0.2
BUFFER_SIZE 32
NIC_TOTAL_PAUSE_TIME 0
"""
TOPOLOGY = "5 2 4\n3 4\n0 3 25Gbps 1us 0\n1 3 25Gbps 1us 0\n2 4 25Gbps 1us 0\n3 4 100Gbps 1us 0\n"
FLOWS = "2\n1 0 3 100 400000 2.0\n2 0 3 100 400000 2.0\n"
NOTES = {
    "dcqcn_hpcc": [],
    "hpcc": ["U_TARGET 0.98: 0.95 is used", "RATE_AI 50Mb/s: 10 Mb/s for each 25 Gb/s of the line rate is used"],
    "timely": ["RATE_AI 50Mb/s: 10 Mb/s for each 10 Gb/s of the line rate is used"],
}
DCQCN = """dcqcn_alpha_interval = "1 us"
dcqcn_rise_interval = "900 us"
dcqcn_additive_increase = "50 Mbps"
"""


@pytest.mark.parametrize(("mode", "control"), [("1", "dcqcn_hpcc"), ("3", "hpcc"), ("7", "timely")])
def test_a_config_runs(tmp_path: Path, mode: str, control: str) -> None:
    (tmp_path / "config.txt").write_text(CONFIG.format(mode=mode))
    (tmp_path / "topology.txt").write_text(TOPOLOGY)
    (tmp_path / "flow.txt").write_text(FLOWS)
    done = cli("import", "hpcc", "config.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notes = [*NOTES[control], "not used: NIC_TOTAL_PAUSE_TIME"]
    assert sorted(done.stderr.splitlines()) == sorted(f"note: {note}" for note in notes)
    text = (tmp_path / "config.toml").read_text()
    assert f'rdma_control = "{control}"' in text
    assert 'rdma_mtu = "1000 B"' in text
    assert 'rdma_nak_interval = "500 us"' in text
    assert (DCQCN in text) == (control == "dcqcn_hpcc")
    assert 'min = { "25 Gbps" = "100 KB", "100 Gbps" = "400 KB" }' in text
    assert 'max = { "25 Gbps" = "400 KB", "100 Gbps" = "1600 KB" }, p_max = 0.2' in text
    done = cli("run", "config.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows_finished"] == 2


def test_file_names_begin_at_the_folder_of_the_simulator(tmp_path: Path) -> None:
    folder = tmp_path / "mix"
    folder.mkdir()
    config = CONFIG.format(mode="3").replace("FILE ", "FILE mix/")
    (folder / "config.txt").write_text(config)
    (folder / "topology.txt").write_text(TOPOLOGY)
    (folder / "flow.txt").write_text(FLOWS)
    for config, cwd in (("mix/config.txt", tmp_path), ("config.txt", folder)):
        done = cli("import", "hpcc", config, "--force", cwd=cwd)
        assert done.returncode == 0, done.stderr
        text = (folder / "config.toml").read_text()
        assert 'path = "topology.txt"' in text
        assert 'file = "flow.txt"' in text


def test_a_rate_without_a_known_unit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.txt").write_text(CONFIG.format(mode="1").replace("50Mb/s", "50MB/s"))
    done = cli("import", "hpcc", "config.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "config.txt: RATE_AI 50MB/s is no rate in bits per second, such as 40Mb/s" in done.stderr


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.txt").write_text(CONFIG.format(mode="8"))
    done = cli("import", "hpcc", "config.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "CC_MODE 8 is not supported; supported are 1 (dcqcn_hpcc)" in done.stderr
