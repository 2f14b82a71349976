"""Mistakes in scenarios that Python finds before the core, reported in the core's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe._text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pauseframe.types import Problem


def problem(path: str, value: str, message: str, hint: str = "") -> Problem:
    """An entry of `ScenarioError.problems`."""
    return {"path": path, "place": "", "value": value, "message": message, "hint": hint}


def failure(problems: Iterable[Problem]) -> _core.ScenarioError:
    """The ScenarioError that lists the given problems."""
    listed = list(problems)
    error = _core.ScenarioError(printable("\n".join(map(_line, listed))))
    error.problems = listed
    return error


def _line(problem: Problem) -> str:
    value = f" = {problem['value']}" if problem["value"] else ""
    hint = f"; {problem['hint']}" if problem["hint"] else ""
    place = f"{problem['place']}: " if problem["place"] else ""
    return f"{place}{problem['path']}{value}: {problem['message']}{hint}"
