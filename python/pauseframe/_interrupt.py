"""Ctrl-C on the command line: one line, exit code 130, no traceback, at any moment.

Imported before anything else, so that it also holds while the package and its libraries are being loaded. Programs
that import pauseframe keep the handling of signals that they have.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

EXIT_CODE = 130
"""128 and the number of SIGINT, as shells have it."""
PROGRAM = "pauseframe"


def is_command() -> bool:
    """Whether this process is the command, or `python -m pauseframe`: while that is looked for, its name is "-m"."""
    return os.path.basename(sys.argv[0] if sys.argv else "") in (PROGRAM, "-m")  # noqa: PTH119 (nothing loaded yet)


def leave_at_once(_signal: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """Ends the process where it stands; for when nothing has begun or all is done."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_CODE)


def guard_start() -> None:
    """In the command: from here until `main` takes over, Ctrl-C ends the process at once."""
    if is_command() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave_at_once)


def allow() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore() -> None:
    """From here on the process is about to end by itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


guard_start()
