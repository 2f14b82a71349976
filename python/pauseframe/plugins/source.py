"""Follows the source of a plug-in from its methods: fields that are wrong, and values that no seed decides.

The walk resolves names through imports, aliases, objects of modules, helper functions and their arguments. Statements
of a module that make a value which a method uses run once, as the plug-in loads; there a generator may have a seed.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.plugins.abi import METHODS, READS_TELEMETRY
from pauseframe.plugins.fields import Record, field_problem
from pauseframe.plugins.modules import is_own_file, is_trusted
from pauseframe.plugins.names import (
    SCOPES,
    UNKNOWN,
    FunctionNode,
    Imported,
    Nested,
    Scope,
    function_nodes,
    own_nodes,
    parameters,
    parsed,
    scope_of,
)
from pauseframe.plugins.unseeded import DYNAMIC, cure_of, is_seeded_generator, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.plugins.classes import Description

PARTS_MAX = 10_000
"""Elements of a container of a module that are looked at."""
PLAIN = (int, float, complex, str, bytes, bool, type(None))


@dataclass(frozen=True)
class _Place:
    """Where the walk is: the function's name for messages, its names, and how it is called."""

    label: str
    scope: Scope
    at_load: bool = False
    blamed: tuple[str, int, str] | None = None
    """File, line and text of the call, in functions of this package."""


@dataclass
class Reached:
    """What the methods of a plug-in use."""

    notes: list[str] = field(default_factory=list)
    """What could not be followed, with file and line."""
    parts: dict[str, str] = field(default_factory=dict)
    """Functions and plain values of modules, by module and name, as texts."""


def check_source(description: Description) -> Reached:
    """Raises InputError with file and line for a wrong field of `self` or of a record, or an unseeded value."""
    walk = _Walk()
    has_telemetry = bool(description.flags & READS_TELEMETRY)
    fields = {name: description.length(name) for name in description.fields}
    for method, function in description.functions.items():
        kinds = dict(METHODS[description.kind][method].arguments) if method != "init" else {}
        given: list[Any] = [Record(fields, is_self=True)]
        for kind in kinds.values():
            known = hasattr(kind, "_fields_")
            given.append(Record.of(kind, has_telemetry=has_telemetry) if known else UNKNOWN)
        label = f"{description.cls.__name__}.{method}"
        walk.function(function, given, {}, _Place(label, Scope("", function.__globals__)))
        walk.name(function.__globals__, description.cls.__name__, _Place(label, Scope("", function.__globals__)))
    return walk.reached


class _Walk:
    """Visits each function once for each kind of arguments."""

    def __init__(self) -> None:
        self.reached = Reached()
        self._seen: set[Any] = set()
        self._alive: list[Any] = []
        """Values whose identity is in `_seen`."""

    # --- functions

    def function(self, function: Any, given: list[Any], named: Mapping[str, Any], at: _Place) -> None:
        """Visits a function, which gets arguments by place and by name."""
        function = plain(function)
        if isinstance(function, types.MethodType):
            given, function = [function.__self__, *given], plain(function.__func__)
        if not isinstance(function, types.FunctionType):
            return
        code, cells = function.__code__, function.__closure__ or ()
        nodes = function_nodes(function)
        if not nodes and not function.__name__.startswith("__"):  # dataclasses make some
            self._note(at, None, f"the source of {function.__name__} cannot be found, so it is not checked")
        closed = {name: _content(cell) for name, cell in zip(code.co_freevars, cells, strict=True)}
        outer = Scope(code.co_filename, function.__globals__, closed)
        label = _user(at.label)
        is_method = function.__qualname__ == at.label
        label = at.label if is_method or not at.scope.file else f"{function.__name__}, called by {label}"
        for node in nodes:
            self._definition(node, function, outer, given, named, replace(at, label=label))

    def _definition(
        self,
        node: FunctionNode,
        function: types.FunctionType | None,
        outer: Scope,
        given: list[Any],
        named: Mapping[str, Any],
        at: _Place,
    ) -> None:
        names, values = parameters(node, function)
        values |= dict(zip(names, given, strict=False)) | {key: one for key, one in named.items() if key in values}
        key = (id(node), at.at_load, *map(_identity, values.values()))
        if key in self._seen:
            return
        self._seen.add(key)
        self._alive += [node, *values.values()]
        if function is not None:
            self.reached.parts[f"{outer.globals.get('__name__')}:{function.__qualname__}"] = ast.unparse(node)
        here = replace(at, scope=scope_of(node, outer.file, outer.globals, values, outer))
        for statement in node.body if isinstance(node.body, list) else [node.body]:
            self._nodes(statement, here)

    def _nodes(self, top: ast.AST, at: _Place) -> None:
        for node in (top, *([] if isinstance(top, SCOPES) else own_nodes(top))):
            if (problem := field_problem(node, at.scope) or self._unseeded(node, at)) is not None:
                raise InputError(self._message(problem, node, at))
            self._note_hidden(node, at)
            if isinstance(node, SCOPES):
                self._definition(node, None, at.scope, [], {}, at)
            elif isinstance(node, ast.Call):
                self._call(node, at)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._reference(node, at)

    def _call(self, node: ast.Call, at: _Place) -> None:
        function = at.scope.value(node.func)
        given = [UNKNOWN if isinstance(one, ast.Starred) else at.scope.value(one) for one in node.args]
        named = {one.arg: at.scope.value(one.value) for one in node.keywords if one.arg is not None}
        if isinstance(function, Nested):
            self._definition(function.node, None, function.scope, given, named, at)
            return
        inner = plain(function)
        if _is_own(inner):
            if any(isinstance(one, ast.Starred) for one in node.args):
                self._note(at, node, f"fields that {ast.unparse(node.func)} uses are not checked: it gets *arguments")
            if not isinstance(inner, type):
                self.function(function, given, named, at)
            return
        if getattr(inner, "__module__", None) == "pauseframe.plugins.classes":
            blamed = at.blamed or (at.scope.file, node.lineno, ast.unparse(node))
            self.function(function, given, named, replace(at, blamed=blamed))
            return
        text, hands_over = ast.unparse(node.func), any(isinstance(one, Record) for one in (*given, *named.values()))
        if getattr(inner, "__name__", None) in DYNAMIC and at.scope.value(node) is UNKNOWN:
            self._note(at, node, f"what {ast.unparse(node)} gives is known only in the run, so it is not checked")
        elif function is UNKNOWN and (isinstance(node.func, ast.Name) or hands_over):
            self._note(at, node, f"{text} is known only in the run, so what it does is not checked")
        elif function is not UNKNOWN and not (is_trusted(inner) or _is_of_own_module(inner)):
            self._note(at, node, f"{text} is of another package, so it is not checked")

    def _reference(self, node: ast.Name | ast.Attribute, at: _Place) -> None:
        value = at.scope.value(node)
        if isinstance(node, ast.Name) and at.scope.is_global(node.id):
            self.name(at.scope.globals, node.id, at)
        elif isinstance(node, ast.Attribute) and _is_own_module(base := at.scope.value(node.value)):
            self.name(vars(base), node.attr, at)
        for part in (value, *_parts(value)):
            if _is_own(plain(part)):
                self._object(part, at)

    def _object(self, value: Any, at: _Place) -> None:
        """A function, a class, or an object of a class, which may be called in any way."""
        inner = plain(value)
        if isinstance(inner, types.FunctionType | types.MethodType):
            self.function(value, [], {}, at)
            return
        cls = inner if isinstance(inner, type) else type(inner)
        for base in cls.__mro__ if cls not in self._seen else ():
            self._seen.add(base)
            for one in vars(base).values() if _is_own(base) else ():
                function = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
                if isinstance(plain(function), types.FunctionType):
                    self.function(function, [base] if isinstance(one, classmethod) else [], {}, at)

    # --- statements of modules, which run once

    def name(self, names: dict[str, Any], name: str, at: _Place) -> None:
        """Visits the statements of a module that make the value of a name."""
        key = (id(names), name)
        if key in self._seen:
            return
        self._seen.add(key)
        self._keep(names, name)
        file = names.get("__file__")
        tree = parsed(file, names) if isinstance(file, str) and is_own_file(file) else None
        here = replace(at, label=f"{name}, used by {_user(at.label)}", scope=Scope(file or "", names), at_load=True)
        for statement in _statements(tree.body if tree is not None else []):
            if isinstance(statement, ast.ImportFrom):
                self._imported(statement, name, here)
            elif isinstance(statement, ast.ClassDef):
                for one in statement.body if statement.name == name else ():
                    if not isinstance(one, SCOPES):
                        self._nodes(one, here)
            elif not isinstance(statement, SCOPES) and _mentions(statement, name):
                self._nodes(statement, here)

    def _imported(self, statement: ast.ImportFrom, name: str, at: _Place) -> None:
        for alias in statement.names:
            if name == (alias.asname or alias.name) or alias.name == "*":
                module = Imported(statement.module or "", statement.level, None).module(at.scope.globals)
                if _is_own_module(module):
                    self.name(vars(module), name if alias.name == "*" else alias.name, at)

    def _keep(self, names: Mapping[str, Any], name: str) -> None:
        if (text := _text(names.get(name, UNKNOWN))) is not None:
            self.reached.parts[f"{names.get('__name__')}:{name}"] = text

    # --- values that no seed decides

    def _unseeded(self, node: ast.AST, at: _Place) -> str | None:
        if at.blamed is not None:
            return None
        if at.at_load:
            return self._drawn_at_load(node, at)
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return None
        value = at.scope.value(node)
        for one in (value, *_parts(value)):
            if (cure := cure_of(one)) is not None:
                return f"{ast.unparse(node)} differs from run to run of one seed; {cure}"
        return None

    def _drawn_at_load(self, node: ast.AST, at: _Place) -> str | None:
        """A draw without a seed as the plug-in loads; of generators the statement that makes them is judged."""
        if not isinstance(node, ast.Call):
            return None
        function = at.scope.value(node.func)
        cure = cure_of(function)
        of_object = isinstance(node.func, ast.Attribute) and not isinstance(
            at.scope.value(node.func.value), types.ModuleType | type
        )
        has_seed = bool(node.args or node.keywords)
        if cure is None or of_object or is_seeded_generator(function, has_seed) or _seeds(at.scope):
            return None
        return f"{ast.unparse(node)} differs from run to run of one seed; give the generator a seed, or {cure}"

    # --- messages

    def _note_hidden(self, node: ast.AST, at: _Place) -> None:
        """Notes a record in a container, through which the walk does not follow it."""
        if isinstance(node, ast.Assign):
            self._alive.append(node.value)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set) and isinstance(getattr(node, "ctx", None), ast.Load):
            held = [one for one in node.elts if isinstance(at.scope.value(one), Record)]
            if held and not any(one is node for one in self._alive):
                self._note(
                    at, node, f"fields of {ast.unparse(held[0])} are not checked where {ast.unparse(node)} is used"
                )

    def _note(self, at: _Place, node: ast.AST | None, text: str) -> None:
        if at.blamed is None:
            place = f" ({at.scope.file}, line {node.lineno})" if isinstance(node, ast.expr) else ""
            note = f"{at.label}{place}: {text}"
            if note not in self.reached.notes:
                self.reached.notes.append(note)

    def _message(self, problem: str, node: ast.AST, at: _Place) -> str:
        file, line, prefix = at.blamed or (at.scope.file, getattr(node, "lineno", 0), "")
        return f"{at.label} ({file}, line {line}): {f'{prefix}: ' if prefix else ''}{problem}"


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those of conditions and of `try`, without what runs as a program only."""
    for one in body:
        if isinstance(one, ast.If):
            if "__name__" not in ast.unparse(one.test):
                yield from _statements([*one.body, *one.orelse])
        elif isinstance(one, ast.Try):
            handlers = [inner for handler in one.handlers for inner in handler.body]
            yield from _statements([*one.body, *handlers, *one.orelse, *one.finalbody])
        else:
            yield one


def _mentions(statement: ast.stmt, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in own_nodes(statement))


def _seeds(scope: Scope) -> bool:
    """True if the module seeds the generator of a package, as `np.random.seed(1)` does."""
    tree = parsed(scope.file, scope.globals) if scope.file else None
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and one.args] if tree is not None else []
    return any(isinstance(one.func, ast.Attribute) and one.func.attr == "seed" for one in calls)


def _is_own(value: Any) -> bool:
    """True for functions, classes and objects of classes that the user wrote."""
    if isinstance(value, types.MethodType):
        value = value.__func__
    if isinstance(value, types.FunctionType):
        return is_own_file(value.__code__.co_filename)
    if value is UNKNOWN or isinstance(value, Record | Nested | types.ModuleType):
        return False
    cls = value if isinstance(value, type) else type(value)
    functions = [one for one in vars(cls).values() if isinstance(one, types.FunctionType)]
    return any(is_own_file(one.__code__.co_filename) for one in functions)


def _is_of_own_module(value: Any) -> bool:
    """True for a class that another package made for a module of the user, such as a named tuple."""
    return isinstance(value, type) and _is_own_module(sys.modules.get(value.__module__))


def _user(label: str) -> str:
    """The method in the label of what it uses."""
    return re.split(", (?:called|used) by ", label)[-1]


def _is_own_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and is_own_file(getattr(value, "__file__", None))


def _parts(value: Any) -> list[Any]:
    """What a container of a module, or an object of a user's class, holds."""
    if isinstance(value, dict):
        return [*value.values()][:PARTS_MAX]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value][:PARTS_MAX]
    if not isinstance(value, type | types.ModuleType | types.FunctionType) and _is_own(value):
        return [*getattr(value, "__dict__", {}).values()]
    return []


def _identity(value: Any) -> Any:
    """The identity of an argument; inner functions and bound methods are new objects at each look."""
    if isinstance(value, types.MethodType):
        return id(value.__func__), id(value.__self__)
    return id(value.node) if isinstance(value, Nested) else id(value)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return UNKNOWN


def _text(value: Any) -> str | None:
    """A plain value as a text that another value does not have; None for other objects."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        parts = [_text(one) for one in value]
        return None if None in parts else f"{type(value).__name__}{parts}"
    if isinstance(value, dict):
        return _text([*value.items()])
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    return None
