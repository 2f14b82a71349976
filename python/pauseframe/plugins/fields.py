"""Uses of fields in a plug-in's source that are wrong: unknown, read-only, never filled, or beyond an array."""

from __future__ import annotations

import ast
from ctypes import Array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pauseframe.plugins.records import TELEMETRY
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.plugins.names import Scope

NO_INTEGERS = {"float('nan')", "float('inf')", "math.nan", "math.inf", "np.nan", "np.inf"}
"""Constants that compiled code would turn into any integer; values that a method computes are checked as it runs."""


@dataclass(frozen=True, eq=False)
class Record:
    """An argument of a method: its fields with the numbers of elements of arrays, None for plain ones."""

    lengths: Mapping[str, int | None]
    is_self: bool
    writable: frozenset[str] = frozenset()
    has_telemetry: bool = False

    @classmethod
    def of(cls, kind: Any, *, has_telemetry: bool) -> Record:
        """The fields of a structure."""
        lengths = {name: own._length_ if issubclass(own, Array) else None for name, own in kind._fields_}
        return cls(lengths, is_self=False, writable=kind.writable, has_telemetry=has_telemetry)


def field_problem(node: ast.AST, scope: Scope) -> str | None:
    """What is wrong with the field that a node names; None if nothing is, or if it names none."""
    return _unknown(node, scope) or _beyond(node, scope) or _misused(node, scope)


def _field_of(node: ast.AST, scope: Scope) -> tuple[ast.Attribute, Record] | None:
    """The attribute and its record, for `argument.field`."""
    if isinstance(node, ast.Attribute) and isinstance(record := scope.value(node.value), Record):
        return node, record
    return None


def _unknown(node: ast.AST, scope: Scope) -> str | None:
    field = _field_of(node, scope)
    if field is None or field[0].attr in field[1].lengths:
        return None
    (node, record), fields = field, [*field[1].lengths]
    meant = nearest(node.attr, fields, 1)
    hint = f"did you mean {meant[0]}?" if meant else f"it has {', '.join(fields) or 'no fields'}"
    if record.is_self:
        hint += f"; state is declared in the class, as in {node.attr}: int = 0"
    return f"{ast.unparse(node.value)} has no field {node.attr}; {hint}"


def _beyond(node: ast.AST, scope: Scope) -> str | None:
    """A constant index beyond an array; the running code checks others."""
    field = _field_of(node.value, scope) if isinstance(node, ast.Subscript) else None
    if field is None or not isinstance(node, ast.Subscript):
        return None
    try:
        index = ast.literal_eval(node.slice)
    except ValueError:
        return None
    length = field[1].lengths.get(field[0].attr)
    if not isinstance(index, int) or length is None or -length <= index < length:
        return None
    return f"{ast.unparse(node)} is beyond the {length} elements"


def _misused(node: ast.AST, scope: Scope) -> str | None:
    """A field of a record that is set and can only be read, or that nothing fills."""
    if isinstance(node, ast.Assign) and (value := ast.unparse(node.value).lstrip("-")) in NO_INTEGERS:
        into = [field for target in node.targets if (field := _field_of(target, scope)) is not None]
        if any(not record.is_self for _, record in into):
            return f"{ast.unparse(node.targets[0])} is a whole number, and {value} is none"
    is_set = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
    field = _field_of(node.value if isinstance(node, ast.Subscript) else node, scope)
    if field is None or field[1].is_self or field[0].attr not in field[1].lengths:
        return None
    if is_set and field[0].attr not in field[1].writable:
        return f"{ast.unparse(field[0])} can only be read"
    if field[0].attr in TELEMETRY and not field[1].has_telemetry:
        return f"{ast.unparse(field[0])} is filled only with telemetry=True in rate_control"
    return None
