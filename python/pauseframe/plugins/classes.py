"""Reads and checks a class as a congestion control: constants, state and functions.

The state block of a connection has the constants first, then the state fields, eight bytes each. `self` gives access to
both, in compiled code and in the interpreter.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pauseframe._core import InputError
from pauseframe.plugins.abi import (
    COUNT,
    FLAG,
    METHODS,
    NEEDS_EXACT_ECN,
    NUMBER,
    PACES,
    PARAMETERS_MAX,
    RATE_CONTROL,
    READS_TELEMETRY,
    SETS_WINDOW,
    STATE_MAX,
    TIME,
    Kind,
)
from pauseframe.scenario.plain import native
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound=type)

MARK = "__pauseframe_congestion_control__"
"""The attribute of a decorated class that holds its description."""

ECN, LOSS = 0, 1
"""The cause of a window reduction: the last argument of `reduced`."""

PS_PER = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
MICROSECOND, SECOND = 10**6, 10**12
"""Picoseconds in a microsecond and in a second; `ack.now`, `ack.rtt` and `ack.srtt` are in picoseconds."""

REQUIRED: dict[Kind, tuple[str, ...]] = {"window": ("increase", "reduced"), "rate": ("on_ack",)}


@dataclass(frozen=True)
class Constant:
    """A value that scenarios can set."""

    value: Any
    doc: str
    low: Any = None
    high: Any = None

    @property
    def kind(self) -> int:
        """The type of the constant in the C interface, from the type of its default."""
        return {bool: FLAG, int: COUNT, float: NUMBER, str: TIME}[type(self.value)]

    def raw(self, value: Any) -> int | float:
        """A value in the format of the state block, with times in picoseconds."""
        return picoseconds(value) if self.kind == TIME else float(value) if self.kind == NUMBER else int(value)


@dataclass(frozen=True)
class StateField:
    """A field of a connection's state: an integer, a float, or an array of them."""

    default: int | float
    is_float: bool
    length: int | None = None


@dataclass(frozen=True)
class Description:
    """The description of a decorated class: its name, constants, state and methods."""

    name: str
    doc: str
    constants: dict[str, Constant]
    state: dict[str, StateField]
    functions: dict[str, Callable[..., Any]]
    flags: int
    compile: bool
    kind: Kind
    cls: type = field(compare=False)

    def is_float(self, name: str) -> bool:
        """True if a field of `self` is a floating-point number."""
        known = self.constants.get(name)
        return known.kind == NUMBER if known is not None else self.state[name].is_float

    def length(self, name: str) -> int | None:
        """Number of elements of a field of `self`; None if it is not an array."""
        return self.state[name].length if name in self.state else None

    def place(self, method: str) -> str:
        """File and line of a method."""
        code = self.functions[method].__code__ if method in self.functions else None
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else self.cls.__name__

    @property
    def fields(self) -> list[str]:
        """The fields of `self` in the order of the state block."""
        return [*self.constants, *self.state]

    @property
    def size(self) -> int:
        """Size of the state block in bytes."""
        return 8 * sum(self.length(name) or 1 for name in self.fields)


registered: dict[str, Description] = {}
"""Classes by the names of their algorithms in scenarios; shared libraries are not among them."""


def constant(default: Any, doc: str, *, range: tuple[Any, Any] | None = None) -> Any:
    """A constant of a congestion control, which becomes a key of scenarios: `gain` of "mine" is `transport.mine_gain`.

    The type of the default is the type of the constant: a float (0.5), a non-negative integer (2), a Boolean (False),
    or a time ("50 us", which `self` holds in picoseconds). `doc` describes the constant with unit and source. `range`
    has the smallest and the largest allowed value.
    """
    default = native(default)
    low, high = (None, None) if range is None else map(native, range)
    if type(default) not in (bool, int, float, str):
        raise TypeError(
            f"constant({default!r}): a constant is a number, a whole number, a flag, or a time such as '5 us'"
        )
    made = Constant(default, doc, low, high)
    for value in (default,) if range is None else (default, low, high):
        made.raw(value)
    return made


@overload
def congestion_control(name: C) -> C: ...
@overload
def congestion_control(
    name: str, *, exact_ecn: bool = False, paces: bool = False, compile: bool = True
) -> Callable[[C], C]: ...
def congestion_control(name: str | type, *, exact_ecn: bool = False, paces: bool = False, compile: bool = True) -> Any:
    """Makes a class a congestion control of TCP that scenarios can name, as "FILE:NAME".

    Annotated attributes with a default are the state of a connection (`last_cut: int = 0`, `rtts: float = [0.0] * 8`);
    attributes made by `constant` are keys of scenarios. Attributes and methods of base classes count. The methods are
    those of the C interface, `pauseframe_cc.h`. Required are `increase(self, window, ack)` and
    `reduced(self, window, cause)`; optional are `init(self)`, `on_ack(self, window, ack)`,
    `loss_after_ecn(self, window)`, `forget_earned(self)`, `on_timeout(self)`, `on_restart(self, idle)`,
    `probe_after(self)`, `alpha(self)` and `on_timer(self, window, now)`, which is called at the time that a method has
    put in `window.timer`. A class with `on_delivery(self, window, delivery)` sets the window at every
    ACK, in recovery and while the application leaves it unused too, and has neither `increase` nor `reduced`.

    `exact_ecn` requests the exact echo of marks (ecn = "dctcp"); `paces` enables pacing, for algorithms that set
    `window.pacing_rate`. Numba compiles the methods; with `compile=False` they run in the interpreter, three to seven
    times slower, where breakpoints and prints work, and where no time limit ends a method that does not return.
    """
    flags = (NEEDS_EXACT_ECN if exact_ecn else 0) | (PACES if paces else 0)
    if isinstance(name, type):
        return _marked(name, name.__name__, "window", flags, compile)
    return lambda cls: _marked(cls, name, "window", flags, compile)


@overload
def rate_control(name: C) -> C: ...
@overload
def rate_control(
    name: str, *, window: bool = False, telemetry: bool = False, compile: bool = True
) -> Callable[[C], C]: ...
def rate_control(name: str | type, *, window: bool = False, telemetry: bool = False, compile: bool = True) -> Any:
    """Makes a class a congestion control of queue pairs that scenarios can name, as rdma_control = "FILE:NAME".

    State and constants are as with `congestion_control`. Required is `on_ack(self, pair, ack)`; optional are
    `init(self)`, `on_start(self, pair)`, `on_cnp(self, pair)`, `on_loss(self, pair)`, `on_timer(self, pair)` and
    `on_sent(self, pair, sent)`. Each may set `pair.rate`, `pair.window` and `pair.timer`. A queue pair begins at its
    line rate without a window. CNPs are sent if the class has `on_cnp`.

    `window` declares that the class sets `pair.window`; `telemetry` makes switches stamp packets as for HPCC, so that
    `ack.hops` and its arrays are filled. `compile` is as with `congestion_control`.
    """
    flags = RATE_CONTROL | (SETS_WINDOW if window else 0) | (READS_TELEMETRY if telemetry else 0)
    if isinstance(name, type):
        return _marked(name, name.__name__, "rate", flags, compile)
    return lambda cls: _marked(cls, name, "rate", flags, compile)


def slow_start(window: Any, acked: int) -> Any:
    """Opens the window by the acknowledged bytes, up to ssthresh (RFC 5681 §3.1); returns the remaining bytes."""
    room = max(window.ssthresh - window.cwnd, 0)
    step = min(acked, room)
    window.cwnd += step
    return acked - step


def uniform(record: Any) -> Any:
    """A random number from 0 to below 1. `record` is the `window` or `pair` of the method; the seed of the run decides.

    Each call gives another number: it advances `record.random` (xorshift, Marsaglia 2003).
    """
    value = record.random
    value ^= (value << 13) & 0x7FFFFFFFFFFFFFFF
    value ^= value >> 7
    value ^= (value << 17) & 0x7FFFFFFFFFFFFFFF
    record.random = value
    return (value >> 10) / 9007199254740992.0


def picoseconds(text: str) -> int:
    """A time as a whole number of picoseconds.

    >>> picoseconds("1.5 us")
    1500000
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ps|ns|us|µs|ms|s)\s*", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is no time: write a number and a unit (ps, ns, us, ms, s), such as '50 us'")
    whole, _, rest = match[1].partition(".")
    unit = PS_PER[match[2]]
    return int(whole) * unit + (round(int(rest) * unit / 10 ** len(rest)) if rest else 0)


def _marked(cls: C, name: str, kind: Kind, flags: int, compile: bool) -> C:
    attributes = {key: value for base in reversed(cls.__mro__[:-1]) for key, value in vars(base).items()}
    constants = {key: value for key, value in attributes.items() if isinstance(value, Constant)}
    annotations = {key: text for base in reversed(cls.__mro__) for key, text in inspect.get_annotations(base).items()}
    state = {
        key: _state_field(cls, key, attributes.get(key, inspect.Parameter.empty), annotation)
        for key, annotation in annotations.items()
        if key not in constants
    }
    functions: dict[str, Callable[..., Any]] = {
        key: value for key, value in attributes.items() if inspect.isfunction(value)
    }
    _check_functions(cls, kind, functions)
    if len(constants) > PARAMETERS_MAX:
        raise InputError(f"{cls.__name__} has {len(constants)} constants; at most {PARAMETERS_MAX} are allowed")
    doc = (inspect.getdoc(cls) or "").strip().split("\n")[0] or name
    made = Description(name, doc, constants, state, functions, flags, compile, kind, cls)
    if made.size > STATE_MAX:
        raise InputError(f"{cls.__name__} has {made.size} bytes of state a connection; at most {STATE_MAX} are allowed")
    setattr(cls, MARK, made)
    return cls


def _state_field(cls: type, key: str, default: Any, annotation: Any) -> StateField:
    default = native(default)
    values = [native(one) for one in default] if isinstance(default, list | tuple) else [default]
    if default is inspect.Parameter.empty:
        raise InputError(f"{cls.__name__}.{key} has no default: write {key}: int = 0, or {key}: float = 0.0")
    if not values or any(type(value) not in (bool, int, float) for value in values):
        raise InputError(
            f"{cls.__name__}.{key} = {default!r}: state is a number, a whole number, a flag, or a list of them"
        )
    if len({*values}) > 1:
        raise InputError(f"{cls.__name__}.{key}: all elements must begin with the same value; set others in init(self)")
    is_float = type(values[0]) is float or annotation in (float, "float")
    return StateField(values[0], is_float, len(values) if isinstance(default, list | tuple) else None)


def _check_functions(cls: type, kind: Kind, functions: dict[str, Callable[..., Any]]) -> None:
    arguments = {"init": ("self",)} | {name: method.names for name, method in METHODS[kind].items()}
    for name, function in functions.items():
        if name not in arguments:
            meant = nearest(name, arguments, 1)
            hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(arguments)}"
            raise InputError(
                f"{cls.__name__}.{name}: the simulator calls no function of this name; {hint} "
                "(write other functions outside of the class)"
            )
        count = len(inspect.signature(function).parameters)
        if count != len(arguments[name]):
            raise InputError(
                f"{cls.__name__}.{name} takes {count} arguments; the simulator gives {len(arguments[name])}: "
                f"{name}({', '.join(arguments[name])})"
            )
    if kind == "window" and "on_delivery" in functions:
        needless = [name for name in ("increase", "reduced") if name in functions]
        if needless:
            raise InputError(
                f"{cls.__name__} has on_delivery, which sets the window at every ACK, so {needless[0]} would never be "
                "called: leave it out"
            )
        return
    for name in REQUIRED[kind]:
        if name not in functions:
            raise InputError(f"{cls.__name__} has no {name}({', '.join(arguments[name])}), which every algorithm needs")
