"""Compiles a plug-in class: Numba turns each method into a function of the C interface."""

from __future__ import annotations

import inspect
import re
import types
from contextlib import contextmanager
from ctypes import Array, Structure, c_int32, c_int64
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pauseframe._core import InputError
from pauseframe.plugins.abi import METHODS, NOT_A_NUMBER, OK, Method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pauseframe.plugins.classes import Description

MISSING = (
    "Numba is not installed, and compiles plug-ins: pip install 'pauseframe[plugins]'. Without it "
    "compile=False in its decorator runs the class in the interpreter, three to seven times slower"
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
def _record(kind: type[Structure]) -> Any:
    """The Numba type of a structure of integers and arrays of integers."""
    import numba
    import numpy as np

    def field(name: str, own: Any) -> tuple[Any, ...]:
        return (name, np.int64, (own._length_,)) if issubclass(own, Array) else (name, np.int64)

    declared: Any = kind._fields_
    return numba.from_dtype(np.dtype([field(name, own) for name, own in declared], align=True))


@cache
def _know_helpers() -> None:
    """Allows compiled code to call `pauseframe.slow_start` and `pauseframe.uniform`."""
    from numba.extending import overload

    from pauseframe.plugins.classes import slow_start, uniform

    def bare(function: Callable[..., Any]) -> Callable[..., Any]:
        """Numba needs functions without annotations."""
        return types.FunctionType(function.__code__, function.__globals__)

    first, second = bare(slow_start), bare(uniform)
    overload(slow_start)(lambda window, acked: first)  # noqa: ARG005
    overload(uniform)(lambda record: second)  # noqa: ARG005


def _compiled(description: Description, name: str, function: Callable[..., Any], state: Any) -> Any:
    from numba import types as nb

    method = METHODS[description.kind][name]
    scalars = {c_int32: nb.int32, c_int64: nb.int64}
    result = {"status": nb.int32, "count": nb.int64, "number": nb.float64}[method.returns]
    given = [scalars[kind] if kind in scalars else nb.CPointer(_record(kind)) for _, kind in method.arguments]
    return _cfunc(description, name, result(nb.CPointer(state), *given), _wrapper(method, _jitted(function)))


def _wrapper(method: Method, own: Callable[..., Any]) -> Callable[..., Any]:
    """Converts pointers to records. A function that raises returns 0, as compiled functions of Numba do."""
    import numba

    names = {"own": own, "carray": numba.carray}
    views = ["carray(block, 1)[0]"]
    for name, kind in method.arguments:
        views.append(f"carray({name}, 1)[0]" if issubclass(kind, Structure) else name)
    call = f"own({', '.join(views)})"
    body = {
        "status": [call, f"return {OK}"],
        "count": [f"value = {call}", f"return int(value) if value == value else {NOT_A_NUMBER}"],
        "number": [f"return {call}"],
    }[method.returns]
    head = f"def call({', '.join(['block', *(name for name, _ in method.arguments)])}):"
    exec("\n".join([head, *(f"    {line}" for line in body)]), names)
    return cast("Callable[..., Any]", names["call"])


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
        with _defined_conversions():
            return numba.cfunc(signature)(function)
    except Exception as error:  # noqa: BLE001 (a field that `window` does not have is a KeyError, among others)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        method = f"{description.cls.__name__}.{name}"
        if (wrong := _wrong_result(plain)) is not None:
            raise InputError(f"{method} ({description.place(name)}) {wrong}") from None
        raise InputError(
            f"Numba cannot compile {method} ({_line_of(plain, description.place(name))}): "
            f"{type(error).__name__}: {_short(plain)}. compile=False runs it in the interpreter"
        ) from None


@contextmanager
def _defined_conversions() -> Iterator[None]:
    """Makes NaN and numbers beyond 64 bits the smallest integer where compiled code needs a whole number.

    LLVM leaves such a conversion undefined, and drops an assignment whose value it knows at compile time.
    """
    from llvmlite import ir
    from numba.core.compiler_lock import global_compiler_lock

    def defined(convert: Callable[..., Any], is_signed: bool) -> Callable[..., Any]:
        def converted(builder: Any, value: Any, kind: Any, name: str = "") -> Any:
            bits = kind.width
            low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if is_signed else (0.0, 2.0**bits)
            inside = builder.and_(
                builder.fcmp_ordered(">=", value, ir.Constant(value.type, low)),
                builder.fcmp_ordered("<", value, ir.Constant(value.type, high)),
            )
            return builder.select(inside, convert(builder, value, kind), ir.Constant(kind, -(2 ** (bits - 1))), name)

        return converted

    builder: Any = ir.IRBuilder
    signed, unsigned = builder.fptosi, builder.fptoui
    with global_compiler_lock:
        builder.fptosi, builder.fptoui = defined(signed, is_signed=True), defined(unsigned, is_signed=False)
        try:
            yield
        finally:
            builder.fptosi, builder.fptoui = signed, unsigned


def _wrong_result(message: str) -> str | None:
    """What is wrong with a method whose result is no number; None if that is not what the message is about."""
    found = re.search(r"^\s*>{3} int\((.*)\)\s*$", message, re.MULTILINE)
    if found is None:
        return None
    kind = "nothing" if found[1] == "none" else "nothing on some paths" if "none" in found[1].lower() else found[1]
    kind = re.sub(r"^(Literal\[str\]\(.*\)|unicode_type)$", "text", kind)
    return f"returns {kind}: return a whole number"


def _line_of(message: str, place: str) -> str:
    """File and line that Numba blames, in the file of `place`; else `place`, where the method begins."""
    file = place.rpartition(":")[0]
    blamed = [
        line for name, line in re.findall(r'File "([^"]+)", line (\d+)', message) if Path(name).name == Path(file).name
    ]
    return f"{file}:{blamed[-1]}" if blamed else place


def _short(plain: str) -> str:
    """The lines of Numba's error message that concern the user's code."""
    if found := re.search(r"No implementation of function .*\n\s*\n?\s*>{3} (.*)", plain):
        return f"there is no {found[1]}"
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
    seen[function] = numba.njit(copy, boundscheck=True)
    return seen[function]
