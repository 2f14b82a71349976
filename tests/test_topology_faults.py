"""Faults of topology files have one message in every command; settings without an effect are warned of."""

from pathlib import Path

import pauseframe as pf
import pytest
from test_fabrics import cli

HOST_TO_HOST = "5 2 5\n3 4\n" + "".join(f"{ends} 100Gbps 0.001ms 0\n" for ends in ("0 3", "1 3", "2 4", "3 4", "0 1"))
NVSWITCH = "5 2 1 2 4 H100\n2 3 4\n0 2 2880Gbps 25ns 0\n1 2 2880Gbps 25ns 0\n0 3 400Gbps 1us 0\n1 4 400Gbps 1us 0\n"
FLOW = 'workload = [{ kind = "flows", flows = [{ src = "0", dst = "2", size = "10 KB" }] }]\n'
STAR = 'topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }\n'
N_TO_1 = 'transport = { preset = "roce_dcqcn" }\nworkload = [{ kind = "n_to_1", size = "100 KB" }]\n'
OUTSIDE = """name: outside
topology:
  nodes:
    l1: { kind: sonic-vs }
    c1: { kind: linux }
links:
  - endpoints: ["l1:eth1", "c1:eth1"]
"""
TWICE = """topology:
  nodes:
    leaf1: { kind: sonic-vs }
    spine1: { kind: sonic-vs }
    spine2: { kind: sonic-vs }
  links:
    - endpoints: ["leaf1:Ethernet0", "spine1:Ethernet0"]
    - endpoints: ["leaf1:Ethernet0", "spine2:Ethernet0"]
"""


def _scenario(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    scenario = folder / "scenario.toml"
    scenario.write_text(f'topology = {{ kind = "file", path = "{name}" }}\n{FLOW}')
    return scenario


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("wired.txt", HOST_TO_HOST, 'host "0" has 2 links (to "3", "1"), one of them to a host'),
        ("outside.clab.yml", OUTSIDE, "links belongs below topology"),
        ("twice.clab.yml", TWICE, 'interface "leaf1:Ethernet0" is on two links, to "spine1" and to "spine2"'),
        ("servers.txt", NVSWITCH, '1 NVSwitch, such as "nvswitch2"'),
    ],
)
def test_a_fault_has_one_message(tmp_path: Path, name: str, text: str, message: str) -> None:
    scenario = _scenario(tmp_path, name, text)
    with pytest.raises(pf.ScenarioError) as refused:
        pf.run(scenario)
    assert message in str(refused.value)
    with pytest.raises(pf.FabricError) as planned:
        pf.load_topology(tmp_path / name).with_single_ports()
    assert message in str(planned.value)


def test_commands_show_the_message_of_a_fault(tmp_path: Path) -> None:
    (tmp_path / "wired.txt").write_text(HOST_TO_HOST)
    (tmp_path / "twice.clab.yml").write_text(TWICE)
    shown = cli("topo", "show", "wired.txt", cwd=tmp_path)
    assert shown.returncode == 1
    assert 'host "0" has 2 links (to "3", "1")' in shown.stderr.replace("\n", " ")
    (tmp_path / "config_db.json").write_text('{"DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}}}')
    lint = cli("lint", "config_db.json", "--topology", "twice.clab.yml", cwd=tmp_path)
    assert lint.returncode == 2
    assert 'interface "leaf1:Ethernet0" is on two links' in lint.stderr.replace("\n", " ")


def test_a_graph_without_hosts_is_a_problem() -> None:
    text = "<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/></graph></graphml>"
    (problem,) = pf.Topology.parse(text, "graphml").statistics()["problems"]
    assert problem.startswith("none of the 2 nodes is a host")


def test_error_rates_of_a_topology_file_damage_frames(tmp_path: Path) -> None:
    text = "3 1 2\n2\n0 2 10Gbps 1us 0.2\n1 2 10Gbps 1us 0\n"
    scenario = _scenario(tmp_path, "lossy.txt", text)
    toml = scenario.read_text().replace('"2"', '"1"').replace("10 KB", "1 MB")
    scenario.write_text(toml)
    run = pf.run(scenario)
    assert run.summary["warnings"] == []
    assert run.summary["drops_by_reason"]["corrupted"] > 50
    # A row of [[corruption]] replaces the rate of the file.
    scenario.write_text(toml + 'corruption = [{ ports = ["*:*"], fer = 0.0 }]\n')
    assert pf.run(scenario).summary["drops_by_reason"]["corrupted"] == 0


def _warnings(text: str) -> list[str]:
    return [warning for warning in pf.run(text).summary["warnings"] if "jitter" not in warning]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'host = { slow_receivers = [{ host = "host0", rate = "100 Gbps" }] }\n' + STAR + N_TO_1,
            "host.slow_receivers.0.rate: 100 Gbps is not below the rate of the link to host0 (10 Gbps)",
        ),
        (
            'stop = { time = "10 ms", when_finished = true }\nswitch = { pfc = { priorities = [3, 4] } }\n'
            'pause_storm = [{ senders = ["host0"], priorities = [4], start = "0 s", stop = "5 ms" }]\n' + STAR + N_TO_1,
            "pause_storm.0: nothing is sent in priority 4",
        ),
        (
            'stop = { time = "10 ms", when_finished = true }\n'
            'pause_storm = [{ senders = ["host3"], start = "0 s", stop = "1 ms" }]\n'
            'transport = { preset = "roce_dcqcn" }\n'
            'workload = [{ kind = "flows", flows = [{ src = "host0", dst = "host1", size = "10 KB" }] }]\n'
            + STAR.replace("hosts = 3", "hosts = 4"),
            "pause_storm.0: nothing was sent over the ports that it paused",
        ),
        (
            'stop = { time = "1 s", when_finished = true }\n'
            + STAR.replace("1 us", "10 s")
            + 'workload = [{ kind = "n_to_1", size = "100 KB" }]\n',
            "has a delay of 10 s, and the run ends at 1 s (stop.time)",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of(text: str, expected: str) -> None:
    warnings = _warnings(text)
    assert [expected in warning for warning in warnings] == [True], warnings


def test_a_storm_that_stops_traffic_is_not_warned_of() -> None:
    storm = 'pause_storm = [{ senders = ["host0"], start = "0 s", stop = "1 ms" }]\n'
    stop = 'stop = { time = "10 ms", when_finished = true }\n'
    assert not [text for text in _warnings(stop + storm + STAR + N_TO_1) if "storm" in text]


def test_a_slow_receiver_finishes_the_frame_in_service_as_fast_as_its_link() -> None:
    """A frame takes 2.4 s at 5 Kb/s; after the stop its rest takes microseconds, and 100 KB below a millisecond."""
    text = """
    stop = { time = "60 s", when_finished = true }
    topology = { kind = "star", hosts = 2, link = { rate = "1 Gbps", delay = "1 us" } }
    host = { slow_receivers = [{ host = "host0", rate = "5 Kbps", buffer = "512 KB", stop = "900 ms" }] }
    transport = { preset = "tcp_bolt" }
    workload = [{ kind = "flows", flows = [{ src = "host1", dst = "host0", size = "100 KB" }] }]
    """
    (row,) = pf.run(text).flows.rows()
    assert 900_000 < row["fct_us"] < 901_000
