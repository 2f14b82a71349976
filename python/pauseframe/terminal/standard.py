"""Standard input, output and error, any of which cron, a service manager or a shell (`<&-`) may have closed.

Python then has None in their place, and the system gives their numbers to the next files that are opened: what is
printed would go into a file of results.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def reopen_closed() -> None:
    """Opens the null device in place of closed standard output and error, and gives their numbers to no other file.

    `sys.stdin` stays None, so that a command which reads it can refuse.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            os.set_inheritable(opened, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def shows_errors_on_terminal() -> bool:
    """True if standard error is a terminal."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # the program has closed it
        return False


def write_note(text: str, end: str = "\n") -> None:
    """Writes to standard error; does nothing if nobody can read it, because a lost note must not end a run."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text + end)
            sys.stderr.flush()
