"""Objects whose values differ between two runs of one seed: random numbers, clocks, identities."""

from __future__ import annotations

import functools
import random
import types
from typing import Any

RANDOM = "use pf.uniform(window) or pf.uniform(pair)"
CLOCK = "use ack.now, delivery.now or pair.now"
OTHER = "take the value from the scenario, as a constant"
MODULES = {"random": RANDOM, "_random": RANDOM, "secrets": RANDOM, "numpy.random": RANDOM, "time": CLOCK}
"""Modules of which every function counts, and what to use instead."""
FUNCTIONS = {
    "datetime": (CLOCK, {"now", "utcnow", "today"}),
    "posix": (RANDOM, {"urandom", "getrandom"}),
    "nt": (RANDOM, {"urandom"}),
    "uuid": (RANDOM, {"uuid1", "uuid4"}),
    "statistics": (RANDOM, {"samples"}),
    "builtins": (OTHER, {"id", "input"}),
}
"""Functions of other modules."""
PROCESS = {"posix": {"getpid", "getppid", "times", "getloadavg"}, "_thread": {"get_ident", "get_native_id"}}
SEEDED = {"Random", "default_rng", "RandomState", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
"""Generators that give the same numbers in each run if they are made with a seed."""
DYNAMIC = {"eval", "exec", "globals", "locals", "vars", "__import__", "import_module", "getattr"}
"""Functions that can reach anything by a text."""


def cure_of(value: Any) -> str | None:
    """What to use instead of an object that no seed decides; None for any other object."""
    value = plain(value)
    if isinstance(value, types.ModuleType):
        return _of_module(value.__name__)
    owner = getattr(value, "__self__", None) if callable(value) and not isinstance(value, type) else value
    if isinstance(owner, random.Random) or (owner is not None and _is_numpy_generator(owner)):
        return RANDOM
    module, name = _module(value), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if found := _of_module(module):
        return found if callable(value) else None
    cure, names = FUNCTIONS.get(module, ("", set()))
    if name in names and not isinstance(value, type):
        return cure
    return OTHER if name in PROCESS.get(module, ()) else None


def plain(value: Any) -> Any:
    """The function behind a partial, a wrapper or a function that Numba compiles."""
    for _ in range(10):
        inner = value.func if isinstance(value, functools.partial) else None
        if inner is None and not isinstance(value, type | types.ModuleType):
            held = getattr(value, "__dict__", None)
            held = held if isinstance(held, dict) else {}
            inner = held.get("py_func", held.get("__wrapped__"))
        if inner is None:
            return value
        value = inner
    return value


def is_seeded_generator(value: Any, has_seed: bool) -> bool:
    """True for the maker of a generator that gets a seed."""
    return has_seed and getattr(value, "__name__", "") in SEEDED


def _of_module(name: str) -> str | None:
    return next((cure for of, cure in MODULES.items() if name == of or name.startswith(f"{of}.")), None)


def _module(value: Any) -> Any:
    owner = getattr(value, "__self__", None)
    if isinstance(owner, type):  # a method of a class, such as datetime.now
        return owner.__module__
    if isinstance(owner, types.ModuleType):
        return owner.__name__
    return getattr(value, "__module__", None)


def _is_numpy_generator(value: Any) -> bool:
    kind = type(value)
    return kind is not type and kind.__module__.startswith("numpy.random")
