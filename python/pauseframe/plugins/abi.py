"""The C interface of `pauseframe_cc.h` as ctypes structures."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, Union, c_char_p, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64
from ctypes import c_void_p as pointer

ABI = 1
OK, FAILED = 1, 0
NEEDS_EXACT_ECN, PACES = 1, 2
NUMBER, COUNT, FLAG, TIME = range(4)
STATE_MAX, PARAMETERS_MAX = 65536, 32
NOT_A_NUMBER = -(2**63)
"""The integer that common processors give for NaN; the core treats this value as NaN."""

WINDOW_FIELDS = ("cwnd", "ssthresh", "pacing_rate", "mss")
ACK_FIELDS = ("acked", "ece", "snd_una", "snd_nxt", "now", "rtt", "srtt", "open")


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


SIGNATURES = {
    "init": CFUNCTYPE(c_int, pointer, pointer),
    "on_ack": CFUNCTYPE(c_int, pointer, pointer, pointer),
    "increase": CFUNCTYPE(c_int, pointer, pointer, pointer),
    "reduced": CFUNCTYPE(c_int64, pointer, pointer, c_int),
    "loss_after_ecn": CFUNCTYPE(c_int64, pointer, pointer),
    "forget_earned": CFUNCTYPE(c_int, pointer),
    "on_timeout": CFUNCTYPE(c_int, pointer),
    "on_restart": CFUNCTYPE(c_int, pointer, c_int64),
    "probe_after": CFUNCTYPE(c_int64, pointer),
    "alpha": CFUNCTYPE(c_double, pointer),
}
"""The functions of an algorithm in the order of the C structure."""


class Algorithm(Structure):
    """The C structure `pauseframe_cc`."""

    _fields_ = (
        ("abi", c_uint32),
        ("flags", c_uint32),
        ("name", c_char_p),
        ("doc", c_char_p),
        ("parameters", POINTER(Parameter)),
        ("parameter_count", c_uint64),
        ("state_size", c_uint64),
        *((name, pointer) for name in SIGNATURES),
    )


def address_of(structure: Algorithm) -> int:
    """The memory address of a structure."""
    return ctypes.addressof(structure)
