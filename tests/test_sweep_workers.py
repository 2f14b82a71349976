"""Worker processes whose sweep is killed or interrupted: they leave without a traceback."""

import os
import subprocess
import sys

import pytest

# Both answer that they are ready, after the reader of the answers has gone.
SPAWNED = """
import os, subprocess, sys
read, write = os.pipe()
os.close(read)
command = [sys.executable, "-m", "pauseframe.sweep.worker"]
sys.exit(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=write).wait())
"""
FORKED = """
import os, sys, time
from pauseframe.sweep.fork import Fork
fork = os.fork
os.fork = lambda: fork() or time.sleep(0.3) or 0
one = Fork()
one.stdout.close()
sys.exit(one.wait())
"""
INTERRUPTED_FORK = """
import os, signal
from pauseframe.sweep.fork import Fork
from pauseframe.terminal import interrupt
interrupt.IS_COMMAND = True
interrupt.allow()
forks = [Fork() for _ in range(3)]
for one in forks:
    os.kill(one.pid, signal.SIGINT)
for one in forks:
    assert b"ready" in one.stdout.readline()
    one.kill()
"""


@pytest.mark.parametrize("program", [SPAWNED, FORKED], ids=["spawned", "forked"])
def test_a_worker_whose_answers_nobody_reads_leaves_silently(program: str) -> None:
    """As after SIGTERM or SIGHUP to the sweep while a worker answers."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_ctrl_c_during_a_fork_leaves_its_worker_alone() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_FORK], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_worker_leaves_out_a_task_that_was_sent_in_part() -> None:
    """A whole task before it is computed."""
    read, write = os.pipe()
    os.write(write, b'{"seed": 1}\n{"seed": ')
    os.close(write)
    program = (
        "import os; from queue import SimpleQueue; from pauseframe.sweep import worker\n"
        "told = SimpleQueue(); os._exit = lambda code: None; worker._read(told); assert told.qsize() == 1"
    )
    subprocess.run([sys.executable, "-c", program], stdin=read, check=True)
    os.close(read)
