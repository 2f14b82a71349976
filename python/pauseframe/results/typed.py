"""Checks JSON against the `TypedDict` that describes it."""

from __future__ import annotations

import typing
from functools import cache
from types import UnionType
from typing import Any

from pauseframe import _core

_NAMES = {"Routes": _core.Routes, "Topology": _core.Topology}
"""Names that `pauseframe.types` imports for type checkers only."""


def flaws(value: object, hint: Any, path: str = "", *, closed: bool = True) -> list[str]:
    """Differences of `value` from the type `hint`; with `closed`, unknown keys (of a later version) count too."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if typing.is_typeddict(hint):
        return _flaws_of_keys(value, hint, path, closed)
    if origin in {typing.Union, UnionType}:
        found = [flaws(value, one, path, closed=closed) for one in arguments]
        return [] if [] in found else found[0]
    if origin is typing.Literal:
        return [] if value in arguments else [f"{path}: {_short(value)} is not one of {', '.join(map(str, arguments))}"]
    wanted: Any = (float, int) if hint is float else (list, tuple) if origin is tuple else origin or hint
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        return [f"{path}: {_short(value)} is not of type {getattr(hint, '__name__', hint)}"]
    parts: list[tuple[object, Any]] = []
    if isinstance(value, dict):
        parts = [(item, arguments[1]) for item in value.values()]
    elif isinstance(value, list | tuple):
        kinds = arguments if origin is tuple else [arguments[0]] * len(value)
        if len(kinds) != len(value):
            return [f"{path}: {_short(value)} does not have {len(kinds)} items"]
        parts = list(zip(value, kinds, strict=True))
    return [flaw for item, one in parts for flaw in flaws(item, one, f"{path}[]", closed=closed)]


def _flaws_of_keys(value: object, hint: Any, path: str, closed: bool) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {_short(value)} is not an object"]
    known, required = _keys(hint)
    lacking = [f"{path}: lacks {key}" for key in sorted(required - set(value))]
    extra = [f"{path}: {key} is not known" for key in sorted(map(str, set(value) - set(known)))] if closed else []
    inner = [
        flaw
        for key, item in value.items()
        if key in known
        for flaw in flaws(item, known[key], f"{path}.{key}", closed=closed)
    ]
    return lacking + extra + inner


@cache
def _keys(hint: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The type of each key, and the set of required keys."""
    known = typing.get_type_hints(hint, localns=_NAMES)
    marked = typing.get_type_hints(hint, localns=_NAMES, include_extras=True)
    optional = {key for key, one in marked.items() if typing.get_origin(one) is typing.NotRequired}
    return known, frozenset(hint.__required_keys__ - optional)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
