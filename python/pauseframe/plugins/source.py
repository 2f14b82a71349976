"""Checks the source of a method before it runs: fields that are wrong, and values that no seed decides."""

from __future__ import annotations

import ast
import inspect
import random
import textwrap
import time
from ctypes import Array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.plugins.records import TELEMETRY, WRITABLE
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UNSEEDED = {"random": "pf.uniform(window) or pf.uniform(pair)", "time": "ack.now, delivery.now or pair.now"}
"""Modules whose values differ from run to run, and what to use instead."""
NO_INTEGERS = {"float('nan')", "float('inf')", "math.nan", "math.inf", "np.nan", "np.inf"}
"""Constants that compiled code would turn into any integer; values that a method computes are checked as it runs."""
MODULES = {id(random): "random", id(time): "time"}


@dataclass(frozen=True)
class _Argument:
    """The fields of an argument of a method: numbers of elements of arrays, None for plain ones."""

    lengths: Mapping[str, int | None]
    is_self: bool


def check_source(
    method: str,
    function: Callable[..., Any],
    fields: Mapping[str, int | None],
    records: Mapping[str, Any],
    *,
    has_telemetry: bool,
) -> None:
    """Raises InputError with file and line for a wrong field of `self` or of a record, or an unseeded value.

    A field is wrong if it does not exist, if its index is out of range, if it is set and read-only, or if nothing fills
    it. `fields` are those of `self` with their numbers of elements; `records` are the structures that the method gets,
    by argument.
    """
    try:
        text, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(text)))
    except (OSError, TypeError, SyntaxError):
        return  # without source the compiler is the only judge
    known = {"self": _Argument(fields, is_self=True)} | {
        name: _Argument(_lengths(kind), is_self=False) for name, kind in records.items() if hasattr(kind, "_fields_")
    }
    own = _names_of(function, known)
    for node in ast.walk(tree):
        problem = (
            _field_problem(node, own)
            or _index_problem(node, own)
            or _use_problem(node, own, has_telemetry=has_telemetry)
            or _unseeded_problem(node, function)
        )
        if problem is not None:
            line = first + getattr(node, "lineno", 1) - 1
            raise InputError(f"{method} ({function.__code__.co_filename}, line {line}): {problem}")


def _lengths(kind: Any) -> dict[str, int | None]:
    return {name: own._length_ if issubclass(own, Array) else None for name, own in kind._fields_}


def _names_of(function: Callable[..., Any], known: Mapping[str, _Argument]) -> dict[str, _Argument]:
    """The fields by the names that the method gives its arguments."""
    names = list(inspect.signature(function).parameters)
    order = ["self", *(name for name in known if name != "self")]
    return {name: known[of] for name, of in zip(names, order, strict=False)}


def _field_of(node: ast.AST, known: Mapping[str, _Argument]) -> tuple[ast.Attribute, str, _Argument] | None:
    """The attribute, the name of its argument and what that is, for `argument.field`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
        return node, node.value.id, known[node.value.id]
    return None


def _field_problem(node: ast.AST, known: Mapping[str, _Argument]) -> str | None:
    field = _field_of(node, known)
    if field is None or field[0].attr in field[2].lengths:
        return None
    (node, of, argument), fields = field, [*field[2].lengths]
    meant = nearest(node.attr, fields, 1)
    hint = f"did you mean {meant[0]}?" if meant else f"it has {', '.join(fields) or 'no fields'}"
    if argument.is_self:
        hint += f"; state is declared in the class, as in {node.attr}: int = 0"
    return f"{of} has no field {node.attr}; {hint}"


def _index_problem(node: ast.AST, known: Mapping[str, _Argument]) -> str | None:
    """A constant index beyond an array; the running code checks others."""
    field = _field_of(node.value, known) if isinstance(node, ast.Subscript) else None
    if field is None or not isinstance(node, ast.Subscript):
        return None
    try:
        index = ast.literal_eval(node.slice)
    except ValueError:
        return None
    length = field[2].lengths.get(field[0].attr)
    if not isinstance(index, int) or length is None or -length <= index < length:
        return None
    return f"{ast.unparse(node)} is beyond the {length} elements"


def _use_problem(node: ast.AST, known: Mapping[str, _Argument], *, has_telemetry: bool) -> str | None:
    """A field of a record that is set and can only be read, or that nothing fills."""
    if isinstance(node, ast.Assign) and (value := ast.unparse(node.value).lstrip("-")) in NO_INTEGERS:
        into = [field for target in node.targets if (field := _field_of(target, known)) is not None]
        if any(not argument.is_self for *_, argument in into):
            return f"{ast.unparse(node.targets[0])} is a whole number, and {value} is none"
    is_set = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
    field = _field_of(node.value if isinstance(node, ast.Subscript) else node, known)
    if field is None or field[2].is_self or field[0].attr not in field[2].lengths:
        return None
    if is_set and field[0].attr not in WRITABLE:
        return f"{ast.unparse(field[0])} can only be read"
    if field[0].attr in TELEMETRY and not has_telemetry:
        return f"{ast.unparse(field[0])} is filled only with telemetry=True in rate_control"
    return None


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
