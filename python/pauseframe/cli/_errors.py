"""What goes wrong, as lines on stderr and as an exit code: one rule for every command.

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
"""A run with a deadlock: its results are whole, but what they say of times is how long it stood."""

INPUT_ERRORS = (ScenarioError, FabricError, InputError, FileNotFoundError, IsADirectoryError, NotADirectoryError)
ERRORS = (*INPUT_ERRORS, RunError, OSError)
"""What a command may end with; anything else is a mistake of ours and shows its traceback."""


def exit_code_of(error: Exception) -> int:
    """2 for what the user can put right in what was asked for, 1 for the rest."""
    return WRONG_INPUT if isinstance(error, INPUT_ERRORS) else NOT_DONE


def complain(error: Exception) -> None:
    """Lists every mistake of a scenario on stderr: path, value, message, hint, line. Other errors are one line."""
    if not isinstance(error, ScenarioError):
        # What the system calls an error by number says nothing to people.
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
    """What refuses a value within was given a wrong one: a line on stderr, and the exit code of wrong input."""
    try:
        yield
    except ValueError as error:
        complain(error)
        raise typer.Exit(WRONG_INPUT) from None


LISTED = 20
"""Problems of a list that are shown; the core lists no more than this and one line for the rest."""


def list_problems(problems: Iterable[Mapping[str, Any]]) -> None:
    """A line for each entry of `ScenarioError.problems`; of a long list for the first, and one for the rest."""
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
