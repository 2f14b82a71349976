"""Converts pydantic's errors about a table to the format of the core's messages about scenarios.

Reports all errors at once, each with the path of its key and the nearest existing key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from pauseframe.terminal.problems import problem
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

    from pauseframe.types import Problem

Step = str | int


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Every error with the path of its key."""
    return [_problem(detail, model) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails, model: type[BaseModel]) -> Problem:
    path, table = _walk(detail["loc"], model)
    given, context = detail["input"], detail.get("ctx", {})
    if detail["type"] == "extra_forbidden":
        return _hinted(path, "unknown key", str(detail["loc"][-1]), table.model_fields)
    if detail["type"] == "missing":
        return problem(path, "", "is missing")
    if detail["type"] in ("union_tag_invalid", "literal_error"):
        key = str(context.get("discriminator", "")).strip("'")
        wrong = str(given.get(key) if isinstance(given, dict) else given)
        allowed = [name.strip(" '") for name in str(context.get("expected_tags") or context["expected"]).split(",")]
        allowed = [name for one in allowed for name in one.replace("' or '", " ").split()]
        place = f"{path}.{key}" if key else path
        return _hinted(place, f"must be one of {', '.join(allowed)}", wrong, allowed, wrong)
    if detail["type"] == "union_tag_not_found":
        return problem(f"{path}.kind", "", "is missing")
    message = detail["msg"].replace("Input should", "should").replace("dictionary", "table")
    return problem(path, "" if isinstance(given, dict) else str(given), message)


def _hinted(path: str, message: str, wrong: str, known: Iterator[str] | Any, value: str = "") -> Problem:
    meant = nearest(wrong, known)
    return problem(path, value, message, f"did you mean {' or '.join(meant)}?" if meant else "")


def _walk(location: Sequence[Step], model: type[BaseModel]) -> tuple[str, type[BaseModel]]:
    """The path of a key without the names of alternatives that pydantic inserts, and the table that contains it."""
    path, table, inside = [], model, [model]
    for step in location:
        if isinstance(step, int):
            path.append(str(step))
        elif chosen := [one for one in inside if one is not table and step in (one.__name__, _tag(one))]:
            table = chosen[0]
            inside = [table]
        else:
            if len(inside) == 1:
                table = inside[0]
            path.append(step)
            field = table.model_fields.get(step)
            inside = list(_tables(field.annotation)) if field is not None else inside
    return ".".join(path), table


def _tag(model: type[BaseModel]) -> str | None:
    kind = model.model_fields.get("kind")
    tags = get_args(kind.annotation) if kind is not None else ()
    return str(tags[0]) if len(tags) == 1 else None


def _tables(annotation: Any) -> Iterator[type[BaseModel]]:
    """The tables that a field may contain."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _tables(one)
