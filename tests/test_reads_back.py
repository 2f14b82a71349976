"""Everything written reads back: each resolved scenario resolves to itself, and each folder of results loads.

`DRAWS=1000 pytest tests/test_reads_back.py` tries more scenarios of the swarm: `make night`.
"""

from __future__ import annotations

import os
import random
import tomllib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import swarm
from pauseframe import _core
from test_damaged_results import call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DRAWS = int(os.environ.get("DRAWS", "20"))
FOLDERS = max(3, DRAWS // 10)
TRIED = 8 if DRAWS < 100 else None
"""Values of each key: all by night."""
BASES = (
    """
stop = { time = "20 ms", when_finished = true }
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = { policy = "shared", size = "2 MB" }, pfc = { headroom_pool = {}, watchdog = {} } }
transport = { preset = "tcp_bolt" }
workload = [{ kind = "n_to_1", size = "64 KB" }]
""",
    """
stop = { time = "20 ms", when_finished = true }
topology = { kind = "star", hosts = 4, link = { rate = "100 Gbps", delay = "1 us" } }
switch = { buffer = { policy = "shared", size = "20 MB" }, pfc = {}, marker = { kind = "red" } }
transport = { preset = "roce_hpcc", rdma_timer = "ibta" }
qcn = {}
record = { states = true, series = true, pause_tree = true }
[[workload]]
kind = "application"
pattern = "stencil"
ranks = 4
size = "1 KB"
[[workload]]
kind = "n_to_1"
size = "64 KB"
""",
)
TEXTS = (
    *("", "0 B", "1 KB", "200 KB", "2 us", "10 ms", "1 Mbps", "10 Gbps", "25%", "auto", "none", "fixed", "by_rate"),
    *("paper", "shared", "per_port", "red", "step", "bdp", "10 segments", "dctcp", "cubic", "rdma", "spray", "host1"),
)
VALUES = ["0", "1", "2", "3", "0.5", "0.02", "1.5", "7", "100", "4096", "true", "false", "{}", "[]", "[3]", "[3, 4]"]
VALUES += [f'"{text}"' for text in TEXTS]


def reads_back(text: str, overrides: list[tuple[str, str]]) -> bool:
    """Checks the scenario, if it is one: its resolved text resolves to the same text."""
    try:
        first = _core.resolve(text, overrides=overrides)
    except _core.ScenarioError:
        return False
    try:
        again = _core.resolve(first.toml)
    except _core.ScenarioError as error:
        raise AssertionError(f"{overrides}\n{error}\n{first.toml}\n{text}") from None
    assert again.toml == first.toml, f"{overrides}\n{text}"
    return True


@pytest.mark.parametrize("base", BASES)
def test_every_key_with_every_value(base: str) -> None:
    assert reads_back(base, [])
    paths = {row["path"].replace("[]", ".0").replace("NAME", "other") for row in _core.options()}
    accepted: Counter[str] = Counter()
    for path in sorted(paths):
        values = [value for value in VALUES if not _is_large(path, value)]
        tried = values if TRIED is None else random.Random(path).sample(values, TRIED)
        accepted[path] = sum(reads_back(base, [(path, value)]) for value in tried)
    assert len(+accepted) > (100 if TRIED is None else 50)
    assert reads_back(base, [("switch.pfc.headroom_pool.size", '"200 KB"')])


def _is_large(path: str, value: str) -> bool:
    """Topologies that take seconds each."""
    return path.startswith("topology") and value in {"100", "4096"}


def drawn() -> Iterator[swarm.Drawn]:
    for seed in range(DRAWS):
        if (found := swarm.scenario_of(seed)) is not None:
            yield found


def test_every_draw_of_the_swarm() -> None:
    paths = [row["path"].replace("[]", ".0") for row in _core.options()]
    accepted = 0
    for number, one in enumerate(drawn()):
        assert reads_back(one.text, [])
        draw = random.Random(number)
        for _ in range(50):
            accepted += reads_back(one.text, [(draw.choice(paths), draw.choice(VALUES))])
    assert accepted > DRAWS / 2, "most draws have no place for a key, so some must"


def test_folders_of_results_load(tmp_path: Path) -> None:
    tried = 0
    pool = (
        BASES[0].replace("headroom_pool = {}", 'headroom_pool = { size = "200 KB" }') + "record = { states = true }\n"
    )
    for number, text in enumerate([pool, *(swarm.recorded(one.table) for one in drawn())]):
        if tried > FOLDERS:
            break
        out = tmp_path / str(number)
        resolved = _core.resolve(text)
        if "kernel" in tomllib.loads(resolved.toml)["host"].get("stack", ""):
            continue
        _core.run(resolved, out=str(out), threads=1)
        tried += 1
        assert (out / "scenario.resolved.toml").read_text() == resolved.toml
        for line in ("report", "view", "compare", "export perfetto", "export csv", "export arrow"):
            code, err = call([*line.split(), str(out)])
            assert code == 0, f"{line}: {err}\n{text}"
        code, err = call(["validate", str(out / "scenario.resolved.toml")])
        assert code == 0, err
