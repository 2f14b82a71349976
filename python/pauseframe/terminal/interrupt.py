"""Ctrl-C on the command line gives one line, exit code 130 and no traceback, at any moment.

This module is imported first, so that the guard also works while the package and its libraries load. The module uses
only built-in modules of the interpreter, because an import from a file before the guard would be unprotected. Programs
that import pauseframe keep their own signal handlers. A command that starts with Ctrl-C ignored (in the background of a
script, or under nohup) continues to ignore it.
"""

import _signal as signal  # type: ignore[import-not-found]  # the module `signal` is this one with enums around it
import os
import sys

TYPE_CHECKING = False  # the module `typing` would be loaded from a file
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

EXIT_CODE = 130
"""Exit code of an interrupted command: 128 plus the number of SIGINT, as in shells."""
PROGRAM = "pauseframe"


IS_COMMAND = os.path.basename(sys.argv[0] if sys.argv else "") in (PROGRAM, "-m")  # noqa: PTH119 (nothing loaded yet)
"""True if this process is the command or `python -m pauseframe`, whose name is "-m" during the module search."""
PROCESS = os.getpid()
"""The process that reacts to Ctrl-C; its forks do not."""
arrived = False
"""True after Ctrl-C: a later error is then probably a consequence of the interrupt, and its message is not shown."""


taken = [signal.SIGINT]
"""The signals that interrupt the command."""


def leave_at_once(_signal: int = 0, _frame: "FrameType | None" = None) -> "NoReturn":
    """Ends the process at once, before any work has begun or after all work is done."""
    try:
        os.write(2, b"interrupted\n")
    finally:  # also without a standard error
        os._exit(EXIT_CODE)


def guard_start() -> None:
    """From this call until a command begins, Ctrl-C ends the process at once."""
    _handle_by(leave_at_once)


def allow() -> None:
    """From this call on, Ctrl-C raises KeyboardInterrupt."""
    _handle_by(_raise)


def take_termination_alike() -> None:
    """From this call on SIGTERM (of `timeout`, Slurm, systemd) is as Ctrl-C: what was recorded is kept."""
    if IS_COMMAND and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        taken.append(signal.SIGTERM)
        allow()


def _raise(_signal: int, _frame: "FrameType | None") -> None:
    if os.getpid() != PROCESS:  # a new fork, whose stack is still that of this process
        return
    global arrived  # noqa: PLW0603 (a signal is one for the process)
    arrived = True
    raise KeyboardInterrupt


def ignore() -> None:
    """From this call on, Ctrl-C is ignored, because the process is about to end."""
    _handle_by(signal.SIG_IGN)


def _handle_by(handler: "Callable[[int, FrameType | None], Any] | int") -> None:
    for number in taken:
        if IS_COMMAND and signal.getsignal(number) != signal.SIG_IGN:
            try:
                signal.signal(number, handler)
            except ValueError:  # only the main thread may set handlers
                return


guard_start()
