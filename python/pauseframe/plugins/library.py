"""Shared libraries with congestion controls (`pauseframe_cc.h`)."""

from __future__ import annotations

import ctypes
from itertools import takewhile
from typing import TYPE_CHECKING

from pauseframe._core import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ENTRIES = ("pauseframe_congestion_control", "pauseframe_rate_controls")
ALGORITHMS_MAX = 64


def algorithms_of(path: Path, before: Sequence[Path] = ()) -> list[int]:
    """Loads a library, after the libraries `before` that it links, and returns the addresses of its algorithms.

    Raises InputError if the library has no algorithm.
    """
    try:
        for one in before:
            ctypes.CDLL(str(one.resolve()))
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise InputError(f"{path} cannot be loaded as a shared library: {error}") from None
    entries = [entry for name in ENTRIES if (entry := getattr(library, name, None)) is not None]
    if not entries:
        raise InputError(
            f"{path} defines neither {ENTRIES[0]}() nor {ENTRIES[1]}(): a plug-in needs one of them, as the header "
            "pauseframe_cc.h says"
        )
    found = []
    for entry in entries:
        entry.argtypes, entry.restype = [ctypes.c_uint32], ctypes.c_void_p
        found += list(takewhile(bool, map(entry, range(ALGORITHMS_MAX))))
    if not found:
        raise InputError(f"{path}: {entries[0].__name__}(0) returned NULL, so the library has no algorithm")
    return found
