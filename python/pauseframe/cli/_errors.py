"""Errors as lines on stderr and as an exit code: one rule for every command.

| code | meaning |
|---|---|
| 0 | done |
| 1 | the command failed, or a check found a fault |
| 2 | wrong input: a scenario, a name, an option, a missing file, an output folder that already exists |
| 3 | the run has a deadlock |
| 130 | interrupted; the results so far are kept |
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pauseframe._core import FabricError, InputError, RunError, ScenarioError
from pauseframe.cli._common import say
from pauseframe.cli._excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NOT_DONE = 1
WRONG_INPUT = 2
DEADLOCK = 3
"""Exit code of a run with a deadlock: its results are complete, but its times include the standstill."""

INPUT_ERRORS = (
    ScenarioError,
    FabricError,
    InputError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
)
ERRORS = (*INPUT_ERRORS, RunError, OSError, MemoryError)
"""Errors that a command may end with; any other exception is a bug and shows its traceback."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a full disk; those without a file's name are of standard output, because files/atomic.py adds names."""


def exit_code_of(error: Exception) -> int:
    """Exit code 2 for errors that the user can correct in the input, 1 for all others."""
    return WRONG_INPUT if isinstance(error, INPUT_ERRORS) else NOT_DONE


def complain(error: Exception) -> None:
    """Lists every mistake of a scenario on stderr: path, value, message, hint, line. Other errors are one line."""
    if isinstance(error, MemoryError):
        say("error: out of memory")
        return
    if isinstance(error, OSError) and error.filename is None and error.errno in FULL:
        say(f"error: standard output cannot be written: {error.strerror or error}; results in files are kept")
        return
    if not isinstance(error, ScenarioError):
        # The system's error number does not help people, so the text drops it.
        text = re.sub(r" \(os error \d+\)|^\[Errno \d+\] ", "", str(error))
        of_file = isinstance(error, OSError) and error.filename is not None and error.strerror
        say(f"error: {error.filename}: {error.strerror}" if of_file else f"error: {text}")  # type: ignore[attr-defined]
        return
    problems = getattr(error, "problems", [])
    if not problems:
        say(f"error: {error}")
    list_problems(problems)


@contextmanager
def wrong_values() -> Iterator[None]:
    """Turns errors about a value into a line on stderr, and ends with the exit code of wrong input."""
    try:
        yield
    except ValueError as error:
        complain(error)
        raise typer.Exit(WRONG_INPUT) from None


LISTED = 20
"""Maximum number of listed problems; the core also stops there and adds one line for the rest."""


def list_problems(problems: Iterable[Mapping[str, Any]]) -> None:
    """Prints each entry of `ScenarioError.problems` and its line in the file, up to a limit; one line for the rest."""
    found = list(problems)
    shown = found if len(found) <= LISTED + 1 else found[:LISTED]
    quoted: list[list[str]] = []
    for problem in shown:
        place = problem.get("place") or (f"line {problem['line']}" if problem.get("line") else "")
        value = f" = {problem['value']}" if problem["value"] else ""
        head = ": ".join(part for part in (place, problem["path"] + value) if part)
        hint = f"; {problem['hint']}" if problem["hint"] else ""
        say(f"{head}: {problem['message']}{hint}")
        lines = excerpt(place, problem["path"], problem["value"], problem["message"])
        if lines and lines not in quoted:
            quoted.append(lines)
            say("\n".join(lines))
    if len(shown) < len(found):
        say(f"{len(found) - len(shown)} further mistakes are not listed; --json lists all, where a command has it")
