"""Mistakes in the table [sweep] of a file: each has its line and what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_fabrics import cli

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", size = "10 KB" }]
"""
IN_ITSELF = '; axes stand in [sweep] itself: write "transport.preset" = [...] there'
WRONG = {
    "a table of axes": (
        '[sweep.axes]\n"transport.preset" = ["dctcp"]',
        'sweep.axes.transport.preset = "dctcp": unknown key' + IN_ITSELF,
    ),
    "a table of another name": (
        '[sweep.vary]\n"transport.preset" = ["dctcp"]',
        'sweep.vary.transport.preset = "dctcp": unknown key' + IN_ITSELF,
    ),
    "a number as a text": ('[sweep]\nseeds = "2"', "ones from 0 on; write 2 without quotes"),
    "a misspelt number of seeds": ("[sweep]\nseedz = 2", "; did you mean seeds?"),
    "a misspelt rule": ("[sweep]\nexlude = [1]", "sweep.exlude = 1: unknown key; did you mean exclude?"),
    "a misspelt axis": ('[sweep]\n"transport.presett" = ["dctcp"]', 'unknown key; did you mean "preset"?'),
    "a wrong value": ('[sweep]\nworkload.size = ["1 KB", "x"]', 'sweep.workload.size = "x": "x" does not begin'),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_has_its_line_and_what_to_write(name: str, tmp_path: Path) -> None:
    table, message = WRONG[name]
    (tmp_path / "s.toml").write_text(f"{SCENARIO}{table}\n", encoding="utf-8")
    for command in ("sweep", "validate"):
        done = cli(command, "s.toml", cwd=tmp_path)
        assert done.returncode != 0
        assert done.stderr.startswith("s.toml:5: sweep.")
        assert message in done.stderr
        assert "^" in done.stderr


def test_an_axis_of_the_command_line_has_no_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f'{SCENARIO}[sweep]\n"transport.preset" = ["dctcp"]\n', encoding="utf-8")
    done = cli("sweep", "s.toml", "--set", "transport.preset=dctpc,cubic", cwd=tmp_path)
    assert done.stderr.startswith('sweep: transport.preset = "dctpc"')


def test_a_wrong_shard_is_named_before_the_plan(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO, encoding="utf-8")
    done = cli("sweep", "s.toml", "--shard", "3/2", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "--shard = 3/2: must be I/N, with I from 1 to N\n")


@pytest.mark.parametrize("keep_runs", [False, True])
def test_a_sweep_with_a_damaged_plan_goes_on(keep_runs: bool, tmp_path: Path) -> None:
    """As `report` advises; the runs are found by their keys."""
    (tmp_path / "s.toml").write_text(SCENARIO, encoding="utf-8")
    line = ("sweep", "s.toml", "--seeds", "2", "-o", "out", *(["--keep-runs"] if keep_runs else []))
    assert cli(*line, cwd=tmp_path).returncode == 0
    plan = tmp_path / "out" / "sweep.json"
    whole = plan.read_bytes()
    plan.write_bytes(whole[:50])
    assert "run the sweep again" in cli("report", "out", cwd=tmp_path).stderr
    again = cli(*line, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "sweep.json is damaged; it is replaced, and runs of this sweep are kept" in again.stderr
    assert "2 of 2 runs are there already" in again.stderr
    assert plan.read_bytes() == whole


def test_a_foreign_file_is_no_damaged_plan(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sweep.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "mine" / "letter.txt").write_text("mine", encoding="utf-8")
    done = cli("sweep", "s.toml", "--seeds", "2", "-o", "mine", cwd=tmp_path)
    assert (done.returncode, "exists and is not a sweep" in done.stderr) == (2, True)
