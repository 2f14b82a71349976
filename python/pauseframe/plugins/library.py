"""Shared libraries with congestion controls (`pauseframe_cc.h`)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from pauseframe._core import InputError

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = "pauseframe_congestion_control"
ALGORITHMS_MAX = 64


def algorithms_of(path: Path) -> list[int]:
    """Loads a library and returns the addresses of its algorithms.

    Raises InputError if the library has no algorithm.
    """
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise InputError(f"{path} cannot be loaded as a shared library: {error}") from None
    try:
        entry = getattr(library, ENTRY)
    except AttributeError:
        raise InputError(
            f"{path} defines no {ENTRY}(): a plug-in needs it, as the header pauseframe_cc.h says"
        ) from None
    entry.argtypes, entry.restype = [ctypes.c_uint32], ctypes.c_void_p
    found = []
    for index in range(ALGORITHMS_MAX):
        address = entry(index)
        if not address:
            break
        found.append(address)
    if not found:
        raise InputError(f"{path}: {ENTRY}(0) returned NULL, so the library has no algorithm")
    return found
