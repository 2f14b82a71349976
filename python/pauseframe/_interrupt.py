"""Ctrl-C on the command line: one line, exit code 130, no traceback, at any moment.

This module is imported first, so that it also works while the package and its libraries load. It uses only built-in
modules, because Ctrl-C during any other import would be unguarded. Programs that import pauseframe keep their own
signal handlers. A command started with Ctrl-C ignored (in the background of a script, by nohup) keeps ignoring it.
"""

import _signal as signal  # type: ignore[import-not-found]  # the module `signal` is this one with enums around it
import os
import sys

TYPE_CHECKING = False  # `typing` is loaded from a file
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

EXIT_CODE = 130
"""128 plus the number of SIGINT, as shells do."""
PROGRAM = "pauseframe"


IS_COMMAND = os.path.basename(sys.argv[0] if sys.argv else "") in (PROGRAM, "-m")  # noqa: PTH119 (nothing loaded yet)
"""Whether this process is the command or `python -m pauseframe`; while Python searches for the module, its name is
"-m".
"""
arrived = False
"""Whether Ctrl-C was pressed: then it has most likely caused the current error."""


def leave_at_once(_signal: int = 0, _frame: "FrameType | None" = None) -> "NoReturn":
    """Ends the process immediately, before any work has begun or after all is done."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_CODE)


def guard_start() -> None:
    """From now until a command begins, Ctrl-C ends the process at once."""
    _handle_by(leave_at_once)


def allow() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt."""
    _handle_by(_raise)


def _raise(_signal: int, _frame: "FrameType | None") -> "NoReturn":
    global arrived  # noqa: PLW0603 (a signal is one for the process)
    arrived = True
    raise KeyboardInterrupt


def ignore() -> None:
    """From now on the process ends by itself."""
    _handle_by(signal.SIG_IGN)


def _handle_by(handler: "Callable[[int, FrameType | None], Any] | int") -> None:
    if IS_COMMAND and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        try:
            signal.signal(signal.SIGINT, handler)
        except ValueError:  # another thread than the main one, which has no say
            return


guard_start()
