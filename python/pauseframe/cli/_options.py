"""Commands that parse options without pydantic.

Typer builds a pydantic adapter for the value of every option, which takes longer than a small run (importing pydantic
alone takes 70 ms). Texts, paths, numbers and missing values need no adapter. All other values, and all wrong ones, go
to Typer's adapter, so messages stay the same. Versions of Typer without `get_runtime_param` are used unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

NOT_PLAIN = object()
"""Marks a value that Typer's adapter must convert."""


class PlainCommand(TyperCommand):
    """A command that converts plain options without an adapter."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments of the command."""
        return _read_plainly(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group that converts the plain options before the command without an adapter."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments of the group."""
        return _read_plainly(super().get_params(ctx))


class SubGroup(TyperGroup):
    """The commands of a group such as `export`; what is none of them is answered with their names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As Click does, with the names of the commands and what was meant."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from pauseframe.terminal.text import none_of

            known = self.list_commands(ctx)
            is_path = os.path.exists(args[0])  # noqa: PTH110 (quicker)
            hint = f"; the command comes first: {ctx.command_path} {known[0]} {args[0]}" if is_path else ""
            ctx.fail(f"{none_of(args[0], known)}{hint}")
        return super().resolve_command(ctx, args)


class PlainTyper(typer.Typer):
    """A Typer application whose groups and commands convert plain options without an adapter."""

    def group(self, name: str, help: str) -> PlainTyper:
        """Adds a group of commands to the application."""
        group = PlainTyper(cls=SubGroup, no_args_is_help=True, rich_markup_mode=None, help=help)
        self.add_typer(group, name=name)
        return group

    def command(self, name: str | None = None, **keys: Any) -> Callable[[Any], Any]:
        """Adds a command to the application."""
        return super().command(name, **({"cls": PlainCommand} | keys))


class _Reader:
    """Replaces Typer's adapter of one option."""

    def __init__(self, adapter: Callable[[], Any], descriptor: Any) -> None:
        self._adapter = adapter
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Converts the value of an option to the type that its command takes."""
        plain = _plain(value, param, self._descriptor)
        if plain is NOT_PLAIN and (wrong := _wrong_number(value, self._descriptor)):
            raise typer.BadParameter(wrong, param=param, ctx=ctx)
        return self._adapter().coerce(value, param=param, ctx=ctx) if plain is NOT_PLAIN else plain


def _read_plainly(params: list[Any]) -> list[Any]:
    for param in params:
        if not hasattr(param, "get_runtime_param") or "get_runtime_param" in vars(param):
            continue
        reader = _Reader(param.get_runtime_param, param.type_descriptor)
        param.get_runtime_param = lambda reader=reader: reader
    return params


def _plain(value: Any, param: Any, descriptor: Any) -> Any:
    several = param.multiple or param.nargs == -1
    if value is None:
        return () if several else None
    annotation = descriptor.annotation
    if not several:
        return _one(value, annotation, descriptor.parameter_info)
    if get_origin(annotation) is not list or isinstance(value, str):
        return NOT_PLAIN
    items = [_one(item, get_args(annotation)[0], descriptor.parameter_info) for item in value]
    return NOT_PLAIN if any(item is NOT_PLAIN for item in items) else items


def _one(value: Any, annotation: Any, info: Any) -> Any:
    is_own = isinstance(annotation, type) and isinstance(value, annotation) and info.parser is None
    if is_own or (get_origin(annotation) is Literal and value in get_args(annotation)):
        return value  # the value is a default, a text, or one of the words that the option takes
    read = info.parser or READERS.get(annotation)
    if read is None or not isinstance(value, str):
        return NOT_PLAIN
    try:
        plain = read(value)
        within = (info.min is None or plain >= info.min) and (info.max is None or plain <= info.max)
    except Exception:  # noqa: BLE001 (Typer says what is wrong)
        return NOT_PLAIN
    return plain if within else NOT_PLAIN


def _wrong_number(value: Any, descriptor: Any) -> str:
    """What is wrong with a text where the option takes a number, or ""."""
    read, info = READERS.get(descriptor.annotation), descriptor.parameter_info
    if read not in (int, float) or not isinstance(value, str) or info.parser is not None:
        return ""
    lower = "" if info.min is None else f" from {info.min:,}"
    upper = "" if info.max is None else f" {'up to' if info.min is None else 'to'} {info.max:,}"
    wanted = f"{'a whole number' if read is int else 'a number'}{lower}{upper or (' on' if lower else '')}"
    return f"{value!r} is not {wanted}"


def _path(text: str) -> Path:
    if os.path.exists(text) and not os.access(text, os.R_OK):  # noqa: PTH110 (quicker)
        raise PermissionError(text)
    return Path(text)


READERS: dict[Any, Callable[[str], Any]] = {Path: _path, int: int, float: float}
