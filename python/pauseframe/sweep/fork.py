"""A worker as a fork of this process, which has loaded all that a worker needs.

A new interpreter takes 50 ms of CPU to load the package, longer than 20 short runs. Only the command forks, and only
while it has a single thread: a fork would keep the locks of other threads, and all that a user's program has in memory.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from pauseframe import _interrupt


def can_fork() -> bool:
    """Whether this process is the command and has a single thread, by proc(5)."""
    if not _interrupt.IS_COMMAND:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 (names only)
    except OSError:
        return False


class Fork:
    """What a sweep uses of `subprocess.Popen`."""

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
        """Its exit code; the number of the signal that ended it, less than zero."""
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> None:
        """Ends it."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _serve(tasks: int, answers: int) -> NoReturn:
    """The life of the fork: it never returns to the code that made it."""
    try:
        os.setpgid(0, 0)  # Ctrl-C on the terminal is for the sweep alone
        os.dup2(tasks, 0)
        os.dup2(answers, 1)
        # The pipes of other workers too: each ends when nobody can tell it tasks any more.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        from pauseframe.sweep.worker import serve

        serve()
    except BaseException:  # noqa: BLE001 (nothing may go up into the code of the sweep)
        sys.excepthook(*sys.exc_info())
    os._exit(1)
