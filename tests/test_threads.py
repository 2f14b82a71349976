"""How many threads a run takes: no more than pay off, unless it is told to; and the results are the same."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pauseframe as pf

# Two switches with hosts.
DUMBBELL = """
topology = { kind = "dumbbell", left = 2, right = 2, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "permutation", size = "100 KB" }]
"""


def _said(run: pf.Run) -> list[str]:
    return [warning for warning in run.summary["warnings"] if warning.startswith("threads:")]


def test_a_small_network_takes_one_thread_and_says_so() -> None:
    run = pf.run(DUMBBELL, threads=2)
    assert run.summary["threads"] == 1
    assert _said(run) == ["threads: 2 were asked for, 1 taken: no more pay off in a network of this size"]
    assert _said(pf.run(DUMBBELL)) == _said(pf.run(DUMBBELL, threads=1)) == [], "nobody asked for more"


def test_a_network_is_divided_all_the_same_where_that_is_wanted() -> None:
    one, two, most = pf.run(DUMBBELL), *(pf.run(DUMBBELL, threads=count, divide=True) for count in (2, 5))
    assert [run.summary["threads"] for run in (one, two, most)] == [1, 2, 2]
    assert len({run.summary["fingerprint"] for run in (one, two, most)}) == 1
    assert _said(two) == []
    assert "only 2 switches have hosts" in _said(most)[0]


def test_answers_at_the_exact_time_take_one_thread_and_say_what_would_take_more() -> None:
    ring = DUMBBELL.replace('"permutation"', '"application", pattern = "all_reduce", algorithm = "ring", ranks = 4')
    exact = pf.run(ring, threads=2, divide=True)
    assert exact.summary["threads"] == 1
    (said,) = _said(exact)
    # The smallest frame of 84 bytes at 10 Gb/s and a link of 1 us, but a microsecond at most.
    assert 'host.reaction = "1 us"' in said
    assert _said(pf.run(ring)) == []
    later = ring + '\nhost = { reaction = "1 us" }\n'
    one, two = (pf.run(later, threads=count, divide=True) for count in (1, 2))
    assert (two.summary["threads"], _said(two)) == (2, [])
    assert one.summary["fingerprint"] == two.summary["fingerprint"] != exact.summary["fingerprint"]


def test_an_interrupt_ends_all_threads_and_keeps_the_results(tmp_path: Path) -> None:
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(DUMBBELL.replace("100 KB", "10 TB"))
    command = [sys.executable, "-m", "pauseframe", "run", str(file), "--threads", "2", "--divide", "--json"]
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
