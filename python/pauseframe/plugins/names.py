"""What the names and expressions of a plug-in's source refer to, without running it."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import linecache
import textwrap
import types
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda _: "UNKNOWN"})()
"""The value of an expression that only a run decides."""
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, eq=False)
class Nested:
    """A function inside of another one."""

    node: FunctionNode
    scope: Scope


@dataclass(eq=False)
class Scope:
    """The names of a function, or of a module."""

    file: str
    globals: dict[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    """Values of parameters and of variables of enclosing functions."""
    bindings: Mapping[str, list[Any]] = field(default_factory=dict)
    """What is assigned to each local name: expressions, imports, inner functions, or UNKNOWN."""
    parent: Scope | None = None
    _open: set[str] = field(default_factory=set)

    def value(self, node: ast.AST | None) -> Any:
        """What an expression refers to."""
        match node:
            case ast.Name():
                found = self.named(node.id)
            case ast.Attribute():
                found = attribute(self.value(node.value), node.attr)
            case ast.Subscript():
                found = _element(self.value(node.value), node.slice)
            case ast.NamedExpr():
                found = self.value(node.value)
            case ast.IfExp():
                found = _common([self.value(node.body), self.value(node.orelse)])
            case ast.BoolOp():
                found = _common([self.value(one) for one in node.values])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                found = Nested(node, self)
            case ast.Call():
                found = self._result(node)
            case _:
                found = UNKNOWN
        return found

    def named(self, name: str) -> Any:
        """What a name refers to."""
        if name in self.bindings:
            if name in self._open:
                return UNKNOWN
            self._open.add(name)
            found = [self._bound(one) for one in self.bindings[name]]
            self._open.discard(name)
            return _common([*found, *([self.given[name]] if name in self.given else [])])
        if name in self.given:
            return self.given[name]
        if self.parent is not None:
            return self.parent.named(name)
        return self.globals.get(name, getattr(builtins, name, UNKNOWN))

    def is_global(self, name: str) -> bool:
        """True if a name is one of the module."""
        if name in self.bindings or name in self.given:
            return False
        return self.parent.is_global(name) if self.parent is not None else name in self.globals

    def _bound(self, one: Any) -> Any:
        if isinstance(one, Imported):
            return one.module(self.globals)
        if isinstance(one, Nested):
            return one
        return self.value(one) if isinstance(one, ast.AST) else UNKNOWN

    def _result(self, node: ast.Call) -> Any:
        """What a call returns, if that is an object by its name."""
        function = self.value(node.func)
        texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if function in (builtins.__import__, importlib.import_module) and texts:
            return Imported(texts[0], 0, None).module(self.globals)
        if function is getattr and len(node.args) >= 2 and texts:
            return attribute(self.value(node.args[0]), texts[0])
        if getattr(function, "__name__", "") == "partial" and node.args:
            return self.value(node.args[0])
        return UNKNOWN


@dataclass(frozen=True)
class Imported:
    """A module, or a name of a module, that an import statement binds."""

    name: str
    level: int
    member: str | None

    def module(self, names: Mapping[str, Any]) -> Any:
        """The imported object; UNKNOWN if it cannot be imported."""
        try:
            package = names.get("__package__") or ""
            found = importlib.import_module("." * self.level + self.name, package)
            return found if self.member is None else _member(found, self.member)
        except (Exception, SystemExit):  # noqa: BLE001 (its code may raise anything, and the run meets it again)
            return UNKNOWN


def attribute(base: Any, name: str) -> Any:
    """An attribute of a module, a class or an object, without calling a property."""
    if base is UNKNOWN or isinstance(base, Nested):
        return UNKNOWN
    if isinstance(base, types.ModuleType):
        return _member(base, name)
    static = inspect.getattr_static(base, name, UNKNOWN)
    if static is UNKNOWN:
        return UNKNOWN
    if isinstance(static, property):
        return UNKNOWN if static.fget is None else static.fget
    try:
        return getattr(base, name)
    except Exception:  # noqa: BLE001 (a descriptor may raise anything)
        return UNKNOWN


def function_nodes(function: types.FunctionType) -> list[FunctionNode]:
    """The definition of a function with its lines in the file; several if lambdas share a line; none without source."""
    code = function.__code__
    tree = parsed(code.co_filename, function.__globals__)
    if tree is None:
        tree = _alone(function)
    if tree is None:
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, SCOPES) and _first_line(node) == code.co_firstlineno]
    is_lambda = code.co_name == "<lambda>"
    return [node for node in found if isinstance(node, ast.Lambda) is is_lambda]


def parsed(file: str, names: Mapping[str, Any]) -> ast.Module | None:
    """The syntax tree of a file or of a cell of a notebook; None without source."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, dict(names)))
    return _tree(text) if text else None


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _alone(function: types.FunctionType) -> ast.Module | None:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    return ast.increment_lineno(tree, max(first, 1) - 1)


def _first_line(node: FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(one.lineno for one in decorators)])


def own_nodes(node: ast.AST, stop: tuple[type[ast.AST], ...] = SCOPES) -> Iterator[ast.AST]:
    """The nodes below a node, without those of inner functions, outer expressions before their parts."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, stop):
            yield from own_nodes(child, stop)


def scope_of(
    node: FunctionNode, file: str, names: dict[str, Any], given: Mapping[str, Any], parent: Scope | None
) -> Scope:
    """The names of a function whose parameters have the given values."""
    bindings: dict[str, list[Any]] = {}
    scope = Scope(file, names, given, bindings, parent)
    for name, value in bound_names(ast.Module(node.body if isinstance(node.body, list) else [], [])):
        bindings.setdefault(name, []).append(Nested(value, scope) if isinstance(value, SCOPES) else value)
    if not isinstance(node.body, list):
        for one in own_nodes(ast.Expr(node.body)):
            if isinstance(one, ast.NamedExpr):
                bindings.setdefault(one.target.id, []).append(one.value)
    return scope


def bound_names(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The names that statements bind, each with an expression, an import, a definition, or UNKNOWN."""
    for one in own_nodes(node, (*SCOPES, ast.ClassDef)):
        match one:
            case ast.Assign():
                for target in one.targets:
                    yield from _targets(target, one.value)
            case ast.AnnAssign() | ast.NamedExpr():
                yield from _targets(one.target, one.value)
            case ast.AugAssign() | ast.For() | ast.AsyncFor() | ast.comprehension():
                yield from _targets(one.target, None)
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from _targets(target, None)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield one.name, one
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, UNKNOWN
            case ast.Import() | ast.ImportFrom():
                yield from _imports(one)


def _imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Imported]]:
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, Imported(statement.module or "", statement.level, alias.name)
        else:
            top = alias.name.partition(".")[0]
            yield alias.asname or top, Imported(alias.name if alias.asname else top, 0, None)


def _targets(target: ast.AST, value: ast.AST | None) -> Iterator[tuple[str, Any]]:
    if isinstance(target, ast.Name):
        yield target.id, UNKNOWN if value is None else value
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        same = len(parts) == len(target.elts) and not any(isinstance(one, ast.Starred) for one in target.elts)
        for number, one in enumerate(target.elts):
            yield from _targets(one, parts[number] if same else None)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None)


def _common(values: list[Any]) -> Any:
    first = values[0] if values else UNKNOWN
    return first if all(one is first for one in values) else UNKNOWN


def _element(base: Any, index: ast.AST) -> Any:
    if not isinstance(base, dict | list | tuple):
        return UNKNOWN
    try:
        return base[ast.literal_eval(index)]
    except (ValueError, KeyError, IndexError, TypeError):
        return UNKNOWN


def _member(module: types.ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        pass
    try:
        return importlib.import_module(f"{module.__name__}.{name}")
    except (Exception, SystemExit):  # noqa: BLE001 (its code may raise anything, and the run meets it again)
        return UNKNOWN


def parameters(node: FunctionNode, function: Callable[..., Any] | None) -> tuple[list[str], dict[str, Any]]:
    """The positional parameters of a definition, and the values of defaults."""
    names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    defaults: dict[str, Any] = {}
    if isinstance(function, types.FunctionType):
        values = function.__defaults__ or ()
        defaults = dict(zip(names[len(names) - len(values) :], values, strict=True)) if values else {}
        defaults |= function.__kwdefaults__ or {}
    everything = [*names, *(one.arg for one in node.args.kwonlyargs)]
    everything += [one.arg for one in (node.args.vararg, node.args.kwarg) if one is not None]
    return names, dict.fromkeys(everything, UNKNOWN) | defaults
