"""The C interface of `pauseframe_cc.h` as ctypes structures, and the methods of classes that follow from it."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, Union, c_char_p, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64
from ctypes import c_void_p as pointer
from dataclasses import dataclass
from typing import Any, Literal

from pauseframe.plugins.records import Ack, Delivery, Pair, PairAck, Window

ABI = 3
OK, FAILED = 1, 0
NEEDS_EXACT_ECN, PACES = 1, 2
RATE_CONTROL, READS_TELEMETRY, SETS_WINDOW = 4, 8, 16
NUMBER, COUNT, FLAG, TIME = range(4)
STATE_MAX, PARAMETERS_MAX = 65536, 32
NOT_A_NUMBER = -(2**63)
"""The integer that common processors give for NaN; the core treats this value as NaN."""

Kind = Literal["window", "rate"]
"""What an algorithm steers: the window of TCP connections, or the rate of queue pairs."""


class Value(Union):
    """The C union `pauseframe_value`."""

    _fields_ = (("number", c_double), ("integer", c_int64))


class Parameter(Structure):
    """The C structure `pauseframe_parameter`."""

    _fields_ = (
        ("key", c_char_p),
        ("doc", c_char_p),
        ("kind", c_int32),
        ("has_range", c_int32),
        ("value", Value),
        ("low", Value),
        ("high", Value),
    )


@dataclass(frozen=True)
class Method:
    """A method that the simulator calls: its arguments behind `self`, and what it returns."""

    arguments: tuple[tuple[str, Any], ...] = ()
    """Name and type: a structure, or a ctypes integer."""
    returns: Literal["status", "count", "number"] = "status"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arguments."""
        return ("self", *(name for name, _ in self.arguments))

    @property
    def signature(self) -> Any:
        """The type of the C function, which gets the state block first."""
        result: Any = {"status": c_int, "count": c_int64, "number": c_double}[self.returns]
        types = [pointer if issubclass(kind, Structure) else kind for _, kind in self.arguments]
        return CFUNCTYPE(result, pointer, *types)


INIT = Method((("constants", c_int64),))
"""`init` gets the constants, which classes have in `self`."""
METHODS: dict[Kind, dict[str, Method]] = {
    "window": {
        "on_ack": Method((("window", Window), ("ack", Ack))),
        "increase": Method((("window", Window), ("ack", Ack))),
        "reduced": Method((("window", Window), ("cause", c_int32)), "count"),
        "loss_after_ecn": Method((("window", Window),), "count"),
        "forget_earned": Method(),
        "on_timeout": Method(),
        "on_restart": Method((("idle", c_int64),)),
        "probe_after": Method((), "count"),
        "alpha": Method((), "number"),
        "on_delivery": Method((("window", Window), ("delivery", Delivery))),
        "on_timer": Method((("window", Window), ("now", c_int64))),
    },
    "rate": {
        "on_start": Method((("pair", Pair),)),
        "on_ack": Method((("pair", Pair), ("ack", PairAck))),
        "on_cnp": Method((("pair", Pair),)),
        "on_loss": Method((("pair", Pair),)),
        "on_timer": Method((("pair", Pair),)),
        "on_sent": Method((("pair", Pair), ("sent", c_int64))),
    },
}
"""The methods of each kind in the order of the C structure; `init(self)` comes before them."""
INIT_SIGNATURE = CFUNCTYPE(c_int, pointer, pointer)

_HEAD: tuple[tuple[str, Any], ...] = (
    ("abi", c_uint32),
    ("flags", c_uint32),
    ("name", c_char_p),
    ("doc", c_char_p),
    ("parameters", POINTER(Parameter)),
    ("parameter_count", c_uint64),
    ("state_size", c_uint64),
    ("init", pointer),
)


class Algorithm(Structure):
    """The C structure `pauseframe_cc`."""

    _fields_ = (*_HEAD, *((name, pointer) for name in METHODS["window"]))


class RateAlgorithm(Structure):
    """The C structure `pauseframe_rate_control`."""

    _fields_ = (*_HEAD, *((name, pointer) for name in METHODS["rate"]))


ALGORITHMS: dict[Kind, type[Structure]] = {"window": Algorithm, "rate": RateAlgorithm}


def address_of(structure: Structure) -> int:
    """The memory address of a structure."""
    return ctypes.addressof(structure)
