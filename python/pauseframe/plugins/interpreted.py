"""Runs a plug-in class in the interpreter (`compile=False`), where breakpoints, prints and the debugger work."""

from __future__ import annotations

from ctypes import Structure, c_double, c_int64
from typing import TYPE_CHECKING, Any

from pauseframe.plugins.abi import FAILED, INIT_SIGNATURE, METHODS, NOT_A_NUMBER, OK, Method
from pauseframe.plugins.errors import remember
from pauseframe.plugins.records import _Whole, whole_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.plugins.classes import Description

VIEWS_MAX = 1 << 16
"""Maximum number of cached views of state blocks, since creating a view takes longer than a lookup."""


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

    made: dict[str, Any] = {"init": INIT_SIGNATURE(_init(description, state, view))}
    for name, function in description.functions.items():
        if name != "init":
            method = METHODS[description.kind][name]
            made[name] = method.signature(_callback(method, function, state, view))
    return made


def _state_type(description: Description) -> type[Structure]:
    def kind(name: str) -> Any:
        is_float, length = description.is_float(name), description.length(name)
        if length is None:
            return c_double if is_float else c_int64
        return c_double * length if is_float else whole_array(length)

    fields = {"__slots__": (), "_fields_": tuple((name, kind(name)) for name in description.fields)}
    return type(description.cls.__name__, (_Whole,), fields)


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


def _callback(
    method: Method, function: Callable[..., Any], state: type[Structure], view: Callable[..., Any]
) -> Callable[..., Any]:
    kinds = [kind if issubclass(kind, Structure) else None for _, kind in method.arguments]
    failure: Any = {"status": FAILED, "count": 0, "number": float("nan")}[method.returns]
    results: dict[str, Callable[[Any], Any]] = {"status": lambda _: OK, "count": _count, "number": _float}
    result = results[method.returns]

    def callback(block: int, *given: int) -> Any:
        try:
            arguments = [one if kind is None else view(kind, one) for one, kind in zip(given, kinds, strict=True)]
            return result(function(view(state, block), *arguments))
        except BaseException as error:  # noqa: BLE001 (no exception may pass through the simulator)
            remember(error)
            return failure

    return callback


def _count(value: Any) -> int:
    if value != value:  # noqa: PLR0124 (NaN)
        return NOT_A_NUMBER
    try:
        return int(value)
    except (TypeError, ValueError):
        raise TypeError(f"it returns {_kind(value)}: return a whole number") from None


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"it returns {_kind(value)}: return a number") from None


def _kind(value: Any) -> str:
    return "nothing" if value is None else "text" if isinstance(value, str) else f"a {type(value).__name__}"
