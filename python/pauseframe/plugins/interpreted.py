"""Runs a plug-in class in the interpreter (`compile=False`), where breakpoints, prints and the debugger work."""

from __future__ import annotations

from ctypes import Structure, c_double, c_int64
from typing import TYPE_CHECKING, Any

from pauseframe.plugins.abi import ACK_FIELDS, FAILED, NOT_A_NUMBER, OK, SIGNATURES, WINDOW_FIELDS
from pauseframe.plugins.errors import remember

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.plugins.classes import Description

VIEWS_MAX = 1 << 16
"""Maximum number of cached views of state blocks, since creating a view takes longer than a lookup."""


class _Whole(Structure):
    """A structure whose integer fields also accept floats and truncate them, as compiled code does."""

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except TypeError:
            super().__setattr__(name, int(value))


class Window(_Whole):
    """The C structure `pauseframe_window`."""

    _fields_ = tuple((name, c_int64) for name in WINDOW_FIELDS)


class Ack(Structure):
    """The C structure `pauseframe_ack`."""

    _fields_ = tuple((name, c_int64) for name in ACK_FIELDS)


def functions_of(description: Description) -> dict[str, Any]:
    """A C function for each method, and for `init`."""
    state = _state_type(description)
    views: dict[int, Any] = {}

    def view(kind: type[Structure], address: int) -> Any:
        found = views.get(address)
        if type(found) is not kind:
            if len(views) > VIEWS_MAX:
                views.clear()
            found = views[address] = kind.from_address(address)
        return found

    own = description.functions
    made: dict[str, Any] = {"init": SIGNATURES["init"](_init(description, state, view))}
    for name, function in own.items():
        if name != "init":
            made[name] = SIGNATURES[name](_callback(name, function, state, view))
    return made


def _state_type(description: Description) -> type[Structure]:
    def kind(name: str) -> Any:
        one = c_double if description.is_float(name) else c_int64
        length = description.length(name)
        return one if length is None else one * length

    return type(
        description.cls.__name__, (_Whole,), {"_fields_": tuple((name, kind(name)) for name in description.fields)}
    )


def _init(description: Description, state: type[Structure], view: Callable[..., Any]) -> Callable[..., int]:
    numbers = [description.is_float(name) for name in description.constants]
    own = description.functions.get("init")

    def init(block: int, constants: int) -> int:
        try:
            this = view(state, block)
            for index, (name, is_number) in enumerate(zip(description.constants, numbers, strict=True)):
                value = (c_double if is_number else c_int64).from_address(constants + 8 * index).value
                setattr(this, name, value)
            for name, one in description.state.items():
                setattr(
                    this,
                    name,
                    one.default if one.length is None else (type(getattr(this, name)))(*[one.default] * one.length),
                )
            if own is not None:
                own(this)
        except BaseException as error:  # noqa: BLE001 (no exception may pass through the simulator)
            remember(error)
            return FAILED
        return OK

    return init


def _callback(  # noqa: C901 (a small function for each signature)
    name: str, function: Callable[..., Any], state: type[Structure], view: Callable[..., Any]
) -> Callable[..., Any]:
    def with_ack(block: int, window: int, ack: int) -> int:
        try:
            function(view(state, block), view(Window, window), view(Ack, ack))
        except BaseException as error:  # noqa: BLE001
            remember(error)
            return FAILED
        return OK

    def with_window(block: int, window: int, *more: int) -> int:
        try:
            value = function(view(state, block), view(Window, window), *more)
            return NOT_A_NUMBER if value != value else int(value)  # noqa: PLR0124 (NaN)
        except BaseException as error:  # noqa: BLE001
            remember(error)
            return 0

    def notice(block: int, *more: int) -> int:
        try:
            function(view(state, block), *more)
        except BaseException as error:  # noqa: BLE001
            remember(error)
            return FAILED
        return OK

    def count(block: int) -> int:
        try:
            return int(function(view(state, block)))
        except BaseException as error:  # noqa: BLE001
            remember(error)
            return 0

    def number(block: int) -> float:
        try:
            return float(function(view(state, block)))
        except BaseException as error:  # noqa: BLE001
            remember(error)
            return float("nan")

    kinds: dict[str, Callable[..., Any]] = {
        "on_ack": with_ack,
        "increase": with_ack,
        "reduced": with_window,
        "loss_after_ecn": with_window,
        "probe_after": count,
        "alpha": number,
    }
    return kinds.get(name, notice)
