"""Turns errors into lines on stderr and exit codes, by one rule for every command.

| code | meaning |
|---|---|
| 0 | done |
| 1 | it could not be carried out, or what was checked is not right |
| 2 | what was asked for is wrong: a scenario, a name, an option, a file that is not there, a folder that is taken |
| 3 | the run has a deadlock |
| 130 | interrupted; what was recorded is kept |
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pauseframe._core import FabricError, InputError, RunError, ScenarioError
from pauseframe.cli._common import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NOT_DONE = 1
WRONG_INPUT = 2
DEADLOCK = 3
"""A run with a deadlock: its results are complete, but most of its duration may be standstill."""

INPUT_ERRORS = (ScenarioError, FabricError, InputError, FileNotFoundError, IsADirectoryError)
ERRORS = (*INPUT_ERRORS, RunError, OSError)
"""Errors that a command may raise; any other is a bug and shows its traceback."""


def exit_code_of(error: Exception) -> int:
    """2 for wrong input, 1 for all other errors."""
    return WRONG_INPUT if isinstance(error, INPUT_ERRORS) else NOT_DONE


def complain(error: Exception) -> None:
    """Lists every mistake of a scenario on stderr: path, value, message, hint, line. Other errors are one line."""
    if not isinstance(error, ScenarioError):
        # The system's number of an error helps nobody, so only its text is shown.
        text = re.sub(r" \(os error \d+\)", "", str(error))
        of_file = isinstance(error, OSError) and error.filename is not None and error.strerror
        say(f"error: {error.filename}: {error.strerror}" if of_file else f"error: {text}")  # type: ignore[attr-defined]
        return
    problems = getattr(error, "problems", [])
    if not problems:
        say(f"error: {error}")
    list_problems(problems)


@contextmanager
def wrong_values() -> Iterator[None]:
    """Reports a wrong value inside a block: a line on stderr, and the exit code of wrong input."""
    try:
        yield
    except ValueError as error:
        complain(error)
        raise typer.Exit(WRONG_INPUT) from None


LISTED = 20
"""Maximum number of listed problems, as in the core."""


def list_problems(problems: Iterable[Mapping[str, Any]]) -> None:
    """One line per entry of `ScenarioError.problems`; a long list ends with a line that counts the omitted entries."""
    found = list(problems)
    shown = found if len(found) <= LISTED + 1 else found[:LISTED]
    for problem in shown:
        place = problem.get("place") or (f"line {problem['line']}" if problem.get("line") else "")
        value = f" = {problem['value']}" if problem["value"] else ""
        head = ": ".join(part for part in (place, problem["path"] + value) if part)
        hint = f"; {problem['hint']}" if problem["hint"] else ""
        say(f"{head}: {problem['message']}{hint}")
    if len(shown) < len(found):
        say(f"{len(found) - len(shown)} further mistakes are not listed; --json lists all, where a command has it")
