"""Number of threads of a run: at most the number that helps, unless the user forces it; the results are equal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.sweep.local import cores_of_quota
from test_cli import cli

# Two switches with hosts.
DUMBBELL = """
topology = { kind = "dumbbell", left = 2, right = 2, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "permutation", size = "100 KB" }]
"""


def _said(run: pf.Run) -> list[str]:
    return [warning for warning in run.summary["warnings"] if warning.startswith("threads:")]


def test_a_small_network_takes_one_thread_unless_more_are_requested() -> None:
    run = pf.run(DUMBBELL)
    assert (run.summary["threads"], _said(run)) == (1, [])
    assert run.summary["threads_reason"] == "auto: more would not help in a network of this size"
    run = pf.run(DUMBBELL, threads=2)
    assert (run.summary["threads"], _said(run)) == (2, [])


def test_the_choice_of_threads_is_said(tmp_path: Path) -> None:
    reason = pf.run(DUMBBELL, out=tmp_path / "auto", threads="auto").summary["threads_reason"]
    assert reason.startswith("auto: ")
    assert pf.load(tmp_path / "auto").summary["threads_reason"] == reason, "the manifest has it"
    assert pf.run(DUMBBELL, threads=2).summary["threads_reason"] == "as asked for"
    file = tmp_path / "dumbbell.toml"
    file.write_text(DUMBBELL)
    for arguments, line in (
        (["--threads", "auto"], f"threads: 1 ({reason})"),
        (["--threads", "1"], "threads: 1 (as asked for)"),
    ):
        done = cli("run", file, *arguments, "--out", tmp_path / "out", "--force", "-v")  # type: ignore[no-untyped-call]
        assert line in done.stdout.splitlines()
    for wrong in ("0", "many", "-1", "1.5"):
        done = cli("run", file, "--threads", wrong, "--out", tmp_path / "out")  # type: ignore[no-untyped-call]
        assert done.returncode == 2
        assert f"'{wrong}' must be a whole number from 1 on, or auto" in done.stderr
    with pytest.raises(ValueError, match="neither"):
        pf.run(DUMBBELL, threads=0)


def test_answers_without_a_reaction_time_keep_one_thread() -> None:
    """A completion that starts work at once leaves the other hosts no lookahead, so the run has one thread."""
    requests = """
    topology = { kind = "dumbbell", left = 2, right = 2, link = { rate = "10 Gbps", delay = "1 us" } }
    workload = [{ kind = "requests", client = "l0", server = "r0", response = "20 KB", count = 3 }]
    """
    at_once = {"host.reaction": "0 ns"}
    run = pf.run(requests, threads=2, set=at_once)
    reason = run.summary["threads_reason"]
    assert run.summary["threads"] == 1
    assert reason.startswith('flows or messages that depend on completions start at once; with host.reaction = "1 us"')
    assert _said(run) == [f"threads: 2 were asked for, 1 taken: {reason}"]
    unasked = pf.run(requests, set=at_once)
    assert (unasked.summary["threads_reason"], _said(unasked)) == (f"auto: {reason}", [])
    assert pf.run(requests, threads=2, set={"host.reaction": "1 us"}).summary["threads"] == 2


def test_runs_of_a_sweep_have_one_thread_unless_told_otherwise(tmp_path: Path) -> None:
    one = pf.sweep(DUMBBELL, out=tmp_path / "one").summaries
    assert (one["threads"][0], one["threads_reason"][0]) == (1, "as asked for")
    two = pf.sweep(DUMBBELL, out=tmp_path / "two", store=tmp_path / "store", threads=2)
    assert (two.summaries["threads"][0], two.summaries["threads_reason"][0]) == (2, "as asked for")


def test_the_quota_of_a_control_group_bounds_the_runs_of_a_sweep(tmp_path: Path) -> None:
    """Control groups, version 2 (cgroups(7)): quota and period in microseconds, of the group or an ancestor."""
    inner = tmp_path / "batch" / "job"
    inner.mkdir(parents=True)

    def cores(own: str, above: str = "max 100000") -> int | None:
        (inner / "cpu.max").write_text(own + "\n")
        (inner.parent / "cpu.max").write_text(above + "\n")
        return cores_of_quota("0::/batch/job\n", tmp_path)

    assert cores("max 100000") is None
    assert cores("250000 100000") == 2
    assert cores("50000 100000") == 1, "less than one core is one"
    assert cores("800000 100000", above="300000 100000") == 3
    assert cores_of_quota("5:cpu:/batch\n", tmp_path) is None
    assert cores_of_quota("0::/nowhere\n", tmp_path) is None


def test_a_thread_has_at_least_one_switch_with_hosts() -> None:
    one, two, most = pf.run(DUMBBELL), *(pf.run(DUMBBELL, threads=count) for count in (2, 5))
    assert [run.summary["threads"] for run in (one, two, most)] == [1, 2, 2]
    assert len({run.summary["fingerprint"] for run in (one, two, most)}) == 1
    assert _said(two) == []
    assert "only 2 switches have hosts" in _said(most)[0]


def test_answers_at_the_exact_time_take_one_thread_and_say_what_would_take_more() -> None:
    ring = DUMBBELL.replace('"permutation"', '"application", pattern = "all_reduce", algorithm = "ring", ranks = 4')
    exact = pf.run(ring, threads=2)
    assert exact.summary["threads"] == 1
    (said,) = _said(exact)
    # The smallest frame of 84 bytes at 10 Gb/s plus a link of 1 us, limited to one microsecond.
    assert 'host.reaction = "1 us"' in said
    assert _said(pf.run(ring)) == []
    later = ring + '\nhost = { reaction = "1 us" }\n'
    one, two = (pf.run(later, threads=count) for count in (1, 2))
    assert (two.summary["threads"], _said(two)) == (2, [])
    assert one.summary["fingerprint"] == two.summary["fingerprint"] != exact.summary["fingerprint"]


def test_an_interrupt_ends_all_threads_and_keeps_the_results(tmp_path: Path) -> None:
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(DUMBBELL.replace("100 KB", "10 TB"))
    command = [sys.executable, "-m", "pauseframe", "run", str(file), "--threads", "2", "--json"]
    command += ["--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (out / "manifest.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "kept" in stderr
    summary = json.loads(stdout)
    assert summary["status"] == "interrupted"
    assert summary["threads"] == 2
    assert pf.load(out).interrupted
