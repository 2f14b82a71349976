"""Ctrl-C on the command line: one line, exit code 130, no traceback, at any moment.

Imported before anything else, so that it also holds while the package and its libraries are being loaded. Programs
that import pauseframe keep the handling of signals that they have, and a command that was started with Ctrl-C ignored
(in the background of a script, by nohup) goes on ignoring it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
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
    if is_command():
        _handle_by(leave_at_once)


def allow() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt."""
    _handle_by(signal.default_int_handler)


def ignore() -> None:
    """From here on the process is about to end by itself."""
    _handle_by(signal.SIG_IGN)


def _handle_by(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> None:
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if not is_ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


guard_start()
