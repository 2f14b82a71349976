"""Mistakes in scenarios that Python finds before the core, reported in the core's format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe.terminal.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def placed(problems: Iterable[Problem], text: str, file_name: str) -> list[Problem]:
    """The problems of a table that Python reads, such as [sweep], with the lines of their keys in the file `text`."""
    lines = dict(_keys(text))
    result = []
    for one in problems:
        parts = one["path"].split(".")
        known = (lines.get(".".join(parts[:count])) for count in range(len(parts), 0, -1))
        number = next((line for line in known if line is not None), None)
        result.append(one if one["place"] or number is None else one | {"place": f"{file_name}:{number}"})
    return result


def _keys(text: str) -> Iterator[tuple[str, int]]:
    """The dotted path and the line of every table and key that begins a line."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if head := re.match(r"\s*\[\[?([^\[\]]+)\]", line):
            table = _plain(head[1])
            yield table, number
        elif key := re.match(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=", line):
            yield f"{table}.{_plain(key[1])}".lstrip("."), number


def _plain(path: str) -> str:
    return re.sub(r"[\s\"']", "", path)


def _line(problem: Problem) -> str:
    value = f" = {problem['value']}" if problem["value"] else ""
    hint = f"; {problem['hint']}" if problem["hint"] else ""
    place = f"{problem['place']}: " if problem["place"] else ""
    return f"{place}{problem['path']}{value}: {problem['message']}{hint}"
