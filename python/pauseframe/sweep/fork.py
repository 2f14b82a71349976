"""A worker that is a fork of this process, which has already loaded the package.

A new interpreter takes 50 ms of CPU time to load the package, longer than 20 short runs. Only the command line forks,
and only while it has a single thread, because a fork would inherit locks of other threads and the memory of a user's
program.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from pauseframe.terminal import interrupt


def can_fork() -> bool:
    """True if this process is the command line and has a single thread (proc(5))."""
    if not interrupt.IS_COMMAND:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 (names only)
    except OSError:
        return False


class Fork:
    """The part of `subprocess.Popen` that a sweep uses."""

    def __init__(self) -> None:
        (tasks, told), (heard, answers) = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(tasks, answers)
        os.close(tasks)
        os.close(answers)
        self.stdin = open(told, "wb")  # noqa: PTH123, SIM115 (as in Popen)
        self.stdout = open(heard, "rb")  # noqa: PTH123, SIM115
        self._code: int | None = None

    def wait(self) -> int:
        """Exit code of the fork, or the negative number of the signal that ended it."""
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> None:
        """Kills the fork."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _serve(tasks: int, answers: int) -> NoReturn:
    """The main function of the fork; it never returns to the caller."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the sweep reacts to Ctrl-C, and ends its workers
        os.setpgid(0, 0)
        os.dup2(tasks, 0)
        os.dup2(answers, 1)
        # Also closes the pipes of other workers: each worker ends when no process can send it tasks.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        from pauseframe.sweep.worker import serve

        serve()
    except BaseException:  # noqa: BLE001 (nothing may go up into the code of the sweep)
        sys.excepthook(*sys.exc_info())
    os._exit(1)
