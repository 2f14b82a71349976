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
RP_TIMER 900
L2_ACK_INTERVAL 1
LINK_DOWN 0 0 0
KMAX_MAP 2 25000000000 400 100000000000 1600
KMIN_MAP 2 25000000000 100 100000000000 400
PMAX_MAP 2 25000000000 0.2 100000000000 0.2
BUFFER_SIZE 32
NIC_TOTAL_PAUSE_TIME 0
"""
TOPOLOGY = "4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 3 100Gbps 1us 0\n"
FLOWS = "2\n1 0 3 100 400000 2.0\n2 0 3 100 400000 2.0\n"


@pytest.mark.parametrize(("mode", "control"), [("1", "dcqcn_hpcc"), ("3", "hpcc"), ("7", "timely")])
def test_a_config_runs(tmp_path: Path, mode: str, control: str) -> None:
    (tmp_path / "config.txt").write_text(CONFIG.format(mode=mode))
    (tmp_path / "topology.txt").write_text(TOPOLOGY)
    (tmp_path / "flow.txt").write_text(FLOWS)
    done = cli("import", "hpcc", "config.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for note in (
        "RP_TIMER 900: 300 is used",
        "fastest rate",
        "PACKET_PAYLOAD_SIZE 1000",
        "not used: NIC_TOTAL_PAUSE_TIME",
    ):
        assert note in done.stderr
    text = (tmp_path / "config.toml").read_text()
    assert f'rdma_control = "{control}"' in text
    assert 'min = "400 KB", max = "1600 KB", p_max = 0.2' in text
    done = cli("run", "config.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows_finished"] == 2


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.txt").write_text(CONFIG.format(mode="8"))
    done = cli("import", "hpcc", "config.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "CC_MODE 8 is not supported; supported are 1 (dcqcn_hpcc)" in done.stderr
