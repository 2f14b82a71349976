"""Base classes of the generated classes in `tables`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pauseframe import _core
from pauseframe.scenario.plain import Part

if TYPE_CHECKING:
    from pauseframe.scenario.tables import Link


@cache
def _constants() -> frozenset[str]:
    """The keys that are constants of congestion controls."""
    rows = [row for row in _core.options() if "transport.congestion_control = " in row["when"]]
    return frozenset(row["path"].removeprefix("transport.") for row in rows)


@dataclass(frozen=True, kw_only=True)
class Constants(Part):
    """A table with `constants`, additional keys that are written into the same table of the file.

    Example: `constants={"cubic_hystart": False}`. `pauseframe options transport` lists all constants.
    """

    constants: Mapping[str, float | bool | str] | None = field(default=None, metadata={"keys": _constants})


class FromNetworkx(Part):
    """A topology made from a NetworkX graph."""

    @classmethod
    def from_networkx(cls, graph: Any, *, link: Link | None = None) -> Self:
        """Makes a topology from a NetworkX graph.

        Nodes have `kind` ("host" or "switch"); edges without `rate` and `delay` use `link`.

        docs/models/routing.md lists the supported attributes; others are ignored.
        """
        edges = [{"source": a, "target": b} | data for a, b, data in graph.edges(data=True)]
        nodes = [{"id": node} | data for node, data in graph.nodes(data=True)]
        document = {"directed": graph.is_directed(), "nodes": nodes, "edges": edges}
        text = json.dumps(document, default=str)
        return cls(text=text, format="node-link", link=link)  # type: ignore[call-arg]
