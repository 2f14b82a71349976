"""Compiles a plug-in class: Numba turns each method into a function of the C interface."""

from __future__ import annotations

import inspect
import re
import types
from functools import cache
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.plugins.abi import ACK_FIELDS, NOT_A_NUMBER, OK, WINDOW_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.plugins.classes import Description

MISSING = (
    "Numba is not installed, and compiles plug-ins: pip install 'pauseframe[plugins]'. Without it "
    "@congestion_control(..., compile=False) runs the class in the interpreter, three to seven times slower"
)


def functions_of(description: Description) -> dict[str, Any]:
    """A C function for each method, and for `init`. Raises InputError if Numba cannot compile a method."""
    try:
        import numba
    except ImportError:
        raise InputError(MISSING) from None
    _know_helpers()
    state = numba.from_dtype(_state_dtype(description))
    made = {"init": _init(description, state)}
    for name, function in description.functions.items():
        if name != "init":
            made[name] = _compiled(description, name, function, state)
    return made


def _state_dtype(description: Description) -> Any:
    import numpy as np

    def kind(name: str) -> tuple[Any, ...]:
        one = np.float64 if description.is_float(name) else np.int64
        length = description.length(name)
        return (name, one) if length is None else (name, one, (length,))

    return np.dtype([kind(name) for name in description.fields] or [("unused", np.int64)], align=True)


@cache
def _records() -> tuple[Any, Any]:
    import numba
    import numpy as np

    window = np.dtype([(name, np.int64) for name in WINDOW_FIELDS], align=True)
    ack = np.dtype([(name, np.int64) for name in ACK_FIELDS], align=True)
    return numba.from_dtype(window), numba.from_dtype(ack)


@cache
def _know_helpers() -> None:
    """Allows compiled code to call `pauseframe.slow_start`."""
    from numba.extending import overload

    from pauseframe.plugins.classes import slow_start

    bare = types.FunctionType(slow_start.__code__, slow_start.__globals__)  # Numba needs functions without annotations
    overload(slow_start)(lambda window, acked: bare)  # noqa: ARG005


def _compiled(description: Description, name: str, function: Callable[..., Any], state: Any) -> Any:
    import numba
    from numba import types as nb

    window, ack = _records()
    own = _jitted(function)
    block, at, of = nb.CPointer(state), nb.CPointer(window), nb.CPointer(ack)
    signatures = {
        "on_ack": nb.int32(block, at, of),
        "increase": nb.int32(block, at, of),
        "reduced": nb.int64(block, at, nb.int32),
        "loss_after_ecn": nb.int64(block, at),
        "forget_earned": nb.int32(block),
        "on_timeout": nb.int32(block),
        "on_restart": nb.int32(block, nb.int64),
        "probe_after": nb.int64(block),
        "alpha": nb.float64(block),
    }
    return _cfunc(description, name, signatures[name], _wrapper(name, own, numba.carray))


def _wrapper(name: str, own: Callable[..., Any], carray: Callable[..., Any]) -> Callable[..., Any]:
    """Converts pointers to records. A function that raises returns 0, as compiled functions of Numba do."""

    def with_ack(block: Any, window: Any, ack: Any) -> int:
        own(carray(block, 1)[0], carray(window, 1)[0], carray(ack, 1)[0])
        return OK

    def reduced(block: Any, window: Any, cause: int) -> int:
        value = own(carray(block, 1)[0], carray(window, 1)[0], cause)
        return int(value) if value == value else NOT_A_NUMBER  # noqa: PLR0124 (NaN)

    def loss_after_ecn(block: Any, window: Any) -> int:
        value = own(carray(block, 1)[0], carray(window, 1)[0])
        return int(value) if value == value else NOT_A_NUMBER  # noqa: PLR0124 (NaN)

    def notice(block: Any) -> int:
        own(carray(block, 1)[0])
        return OK

    def on_restart(block: Any, idle: int) -> int:
        own(carray(block, 1)[0], idle)
        return OK

    def value_of(block: Any) -> Any:
        return own(carray(block, 1)[0])

    kinds: dict[str, Callable[..., Any]] = {
        "on_ack": with_ack,
        "increase": with_ack,
        "reduced": reduced,
        "loss_after_ecn": loss_after_ecn,
        "on_restart": on_restart,
        "probe_after": value_of,
        "alpha": value_of,
    }
    return kinds.get(name, notice)


def _init(description: Description, state: Any) -> Any:
    """Sets the constants and the defaults of the state field by field, then calls the class's own `init`."""
    import numba
    import numpy as np
    from numba import types as nb

    kinds = [(name, np.float64 if description.is_float(name) else np.int64) for name in description.constants]
    constants = numba.from_dtype(np.dtype(kinds or [("unused", np.int64)], align=True))
    lines = [f"    this.{name} = given.{name}" for name in description.constants]
    for name, one in description.state.items():
        value = repr(float(one.default) if one.is_float else int(one.default))
        if one.length is None:
            lines.append(f"    this.{name} = {value}")
        else:
            lines.append(f"    for index in range({one.length}):\n        this.{name}[index] = {value}")
    names = {"carray": numba.carray}
    if (own := description.functions.get("init")) is not None:
        names["own"] = _jitted(own)
        lines.append("    own(this)")
    head = ["def init(block, constants):", "    this = carray(block, 1)[0]", "    given = carray(constants, 1)[0]"]
    exec("\n".join([*head, *lines, f"    return {OK}"]), names)
    signature = nb.int32(nb.CPointer(state), nb.CPointer(constants))
    return _cfunc(description, "init", signature, names["init"])


def _cfunc(description: Description, name: str, signature: Any, function: Callable[..., Any]) -> Any:
    import numba

    try:
        return numba.cfunc(signature)(function)
    except Exception as error:  # noqa: BLE001 (a field that `window` does not have is a KeyError, among others)
        raise InputError(
            f"Numba cannot compile {description.cls.__name__}.{name}: {type(error).__name__}: {_short(str(error))}. "
            "compile=False runs it in the interpreter"
        ) from None


def _short(message: str) -> str:
    """The lines of Numba's error message that concern the user's code."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", message)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("Failed in nopython", "During:", "<source", "^"))]
    return "; ".join(kept[:5])


def _jitted(function: Callable[..., Any], seen: dict[Any, Any] | None = None) -> Any:
    """The compiled function, together with the plain functions that it calls from its module."""
    import numba

    seen = {} if seen is None else seen
    if function in seen:
        return seen[function]
    names = set(function.__code__.co_names)
    called = {
        name: value
        for name, value in function.__globals__.items()
        if name in names and inspect.isfunction(value) and value.__module__.partition(".")[0] != "pauseframe"
    }
    seen[function] = function
    patched = {name: _jitted(value, seen) for name, value in called.items()}
    copy = types.FunctionType(
        function.__code__,
        function.__globals__ | patched,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    seen[function] = numba.njit(copy)
    return seen[function]
