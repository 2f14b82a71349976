"""Functions of the core that take a topology, which say what they need instead of raising a bare TypeError."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from pauseframe import _core
from pauseframe.fabric.parts import naming_cut_off

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def needs_topology(value: object) -> None:
    """Raises TypeError with the remedy for a value that is no `Topology`."""
    if isinstance(value, _core.Topology):
        return
    remedy = f"pauseframe.load_topology({str(value)!r})" if isinstance(value, str) or hasattr(value, "suffix") else None
    if hasattr(value, "is_multigraph"):
        remedy = "pauseframe.from_networkx(GRAPH)"
    said = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
    raise TypeError(
        f"topology = {said}: a Topology is needed; {remedy or 'pauseframe.load_topology(FILE or FAMILY)'} makes one"
    )


def takes_topology(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose first argument must be a `Topology`."""

    @wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        if args or "topology" in named:
            needs_topology(args[0] if args else named["topology"])
        return function(*args, **named)

    return checked


def names_cut_off(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose first argument is a `Topology`, with errors that name hosts without a path."""

    @wraps(function)
    def planned(*args: P.args, **named: P.kwargs) -> R:
        topology = cast("_core.Topology", args[0] if args else named["topology"])
        with naming_cut_off(topology):
            return function(*args, **named)

    return planned


flow_rates = takes_topology(_core.flow_rates)
plan_routes = takes_topology(names_cut_off(_core.plan_routes))
