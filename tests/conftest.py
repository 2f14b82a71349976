"""Shared fixtures: synthetic results folders, and a small scenario that the real core runs quickly."""

import signal
from pathlib import Path

import pytest
import synthetic

SCENARIO = """
name = "small"
clocks = "ideal"
stop = "50 ms"

[topology]
kind = "star"
hosts = 4
link = { rate = "10 Gbps", delay = "1 us" }

[transport]
preset = "dctcp"

[[workload]]
name = "many"
kind = "n_to_1"
senders = 3
size = "200 KB"

[[workload]]
name = "jobs"
kind = "incast"
rate = 500.0
fan_in = 2
stop = "10 ms"
"""


@pytest.fixture(autouse=True)
def _ctrl_c_is_not_ignored() -> None:
    """Restores Ctrl-C: a shell ignores Ctrl-C in background jobs, and all children of the tests would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results folders with synthetic tables, made without a simulation."""
    root = tmp_path_factory.mktemp("synthetic")
    make, write = synthetic.make_frames, synthetic.write_folder
    return {
        "dctcp": write(root / "dctcp", make(slow=9.0), name="dctcp"),
        "tcp_dcb": write(root / "tcp_dcb", make(slow=12.0, lossless=True), name="tcp_dcb", preset="tcp_dcb"),
        "tcp_bolt": write(root / "tcp_bolt", make(slow=1.0, lossless=True, samples=900), name="tcp_bolt"),
        "cut": write(
            root / "cut", make(), name="cut", status="interrupted", warnings=["the headroom of edge0:1 is <small>"]
        ),
        "empty": write(root / "empty", make(flows=0, queries=0, ports=False), name="empty"),
        "one": write(root / "one", make(flows=1, queries=0), name="one"),
    }
