"""Checks the source of a method before it runs: fields that do not exist, and values that no seed decides."""

from __future__ import annotations

import ast
import inspect
import random
import textwrap
import time
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UNSEEDED = {"random": "pf.uniform(window) or pf.uniform(pair)", "time": "ack.now, delivery.now or pair.now"}
"""Modules whose values differ from run to run, and what to use instead."""
MODULES = {id(random): "random", id(time): "time"}


def check_source(method: str, function: Callable[..., Any], fields: Sequence[str], records: Mapping[str, Any]) -> None:
    """Raises InputError with file and line if a method names a field that does not exist, or draws an unseeded value.

    `fields` are those of `self`; `records` are the structures that the method gets, by argument.
    """
    try:
        text, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(text)))
    except (OSError, TypeError, SyntaxError):
        return  # without source the compiler is the only judge
    known = {"self": [*fields]} | {
        name: [field for field, *_ in kind._fields_] for name, kind in records.items() if hasattr(kind, "_fields_")
    }
    own = _names_of(function, known)
    for node in ast.walk(tree):
        problem = _field_problem(node, own) or _unseeded_problem(node, function)
        if problem is not None:
            line = first + getattr(node, "lineno", 1) - 1
            raise InputError(f"{method} ({function.__code__.co_filename}, line {line}): {problem}")


def _names_of(function: Callable[..., Any], known: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The fields by the names that the method gives its arguments."""
    names = list(inspect.signature(function).parameters)
    order = ["self", *(name for name in known if name != "self")]
    return {name: known[of] for name, of in zip(names, order, strict=False)}


def _field_problem(node: ast.AST, known: Mapping[str, list[str]]) -> str | None:
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known):
        return None
    of, fields = node.value.id, known[node.value.id]
    if node.attr in fields:
        return None
    meant = nearest(node.attr, fields, 1)
    hint = f"did you mean {meant[0]}?" if meant else f"it has {', '.join(fields) or 'no fields'}"
    if next(iter(known)) == of:
        hint += f"; state is declared in the class, as in {node.attr}: int = 0"
    return f"{of} has no field {node.attr}; {hint}"


def _unseeded_problem(node: ast.AST, function: Callable[..., Any]) -> str | None:
    if not isinstance(node, ast.Attribute):
        return None
    path = ast.unparse(node)
    root, *rest = path.split(".")
    value = function.__globals__.get(root)
    name = MODULES.get(id(value))
    if name is None and getattr(value, "__name__", "") == "numpy" and rest[:1] == ["random"]:
        name = "random"
    if name is None:
        return None
    return f"{path} differs from run to run of one seed; use {UNSEEDED[name]}"
