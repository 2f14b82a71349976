"""The families of topologies: `[topology]`, told apart by `kind`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pauseframe._plain import Part


@dataclass(frozen=True)
class Link(Part):
    """Rate and one-way delay of a link, both directions: `Link("10 Gbps", "1 us")`."""

    rate: str | None = None
    delay: str | None = None


@dataclass(frozen=True)
class _Topology(Part):
    """What every topology has. `fabric_link` is for links between switches; without it they are like `link`."""

    link: Link | None = field(default=None, kw_only=True)
    fabric_link: Link | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class FatTree(_Topology):
    """Three-tier fat tree of `k`-port switches: k^3/4 hosts."""

    _tag: ClassVar = ("kind", "fat_tree")
    k: int


@dataclass(frozen=True)
class Xgft(_Topology):
    """XGFT(h; m_1..m_h; w_1..w_h): children and parents of a node at each level, from the hosts up."""

    _tag: ClassVar = ("kind", "xgft")
    m: Sequence[int]
    w: Sequence[int]
    external: int | None = None


@dataclass(frozen=True)
class LeafSpine(_Topology):
    """Every leaf linked to every spine."""

    _tag: ClassVar = ("kind", "leaf_spine")
    leaves: int
    spines: int
    hosts_per_leaf: int


@dataclass(frozen=True)
class Dumbbell(_Topology):
    """Two switches and the link between them."""

    _tag: ClassVar = ("kind", "dumbbell")
    left: int
    right: int


@dataclass(frozen=True)
class Star(_Topology):
    """One switch."""

    _tag: ClassVar = ("kind", "star")
    hosts: int


@dataclass(frozen=True)
class Line(_Topology):
    """Switches in a line."""

    _tag: ClassVar = ("kind", "line")
    switches: int
    hosts_per_switch: int


@dataclass(frozen=True)
class Ring(_Topology):
    """Switches in a ring, at least three."""

    _tag: ClassVar = ("kind", "ring")
    switches: int
    hosts_per_switch: int


@dataclass(frozen=True)
class Jellyfish(_Topology):
    """A random regular graph: each switch has `network_ports` links to others."""

    _tag: ClassVar = ("kind", "jellyfish")
    switches: int
    network_ports: int
    hosts_per_switch: int
    seed: int | None = None


@dataclass(frozen=True)
class Torus(_Topology):
    """Switches on a grid that closes on itself, `lengths[i]` along dimension i."""

    _tag: ClassVar = ("kind", "torus")
    lengths: Sequence[int]
    hosts_per_switch: int


@dataclass(frozen=True)
class Dragonfly(_Topology):
    """p hosts at each switch, a switches in each of g groups, h links of a switch to other groups."""

    _tag: ClassVar = ("kind", "dragonfly")
    p: int
    a: int
    h: int
    g: int


@dataclass(frozen=True)
class File(_Topology):
    """A graph from a file of another tool; links without rate or delay get those of `link`.

    Instead of a `path` the `text` of such a file can be given with its `format`; see `from_networkx`.
    """

    _tag: ClassVar = ("kind", "file")
    path: str | None = None
    format: str | None = None
    digest: str | None = None
    text: str | None = None

    @classmethod
    def from_networkx(cls, graph: Any, *, link: Link | None = None) -> File:
        """A NetworkX graph: nodes with `kind` ("host" or "switch"); edges without `rate` and `delay` are like `link`.

        docs/models/routing.md lists the attributes that are understood; others are ignored.
        """
        edges = [{"source": a, "target": b} | data for a, b, data in graph.edges(data=True)]
        nodes = [{"id": node} | data for node, data in graph.nodes(data=True)]
        document = {"directed": graph.is_directed(), "nodes": nodes, "edges": edges}
        return cls(text=json.dumps(document, default=str), format="node-link", link=link)


@dataclass(frozen=True)
class CustomLink(Part):
    """A link of a `Custom` topology that differs from the others in rate or delay."""

    ends: Sequence[str]
    rate: str | None = None
    delay: str | None = None
    rate_back: str | None = None
    delay_back: str | None = None


@dataclass(frozen=True)
class Custom(_Topology):
    """Nodes and links by name; a link is a pair of names or a `CustomLink`."""

    _tag: ClassVar = ("kind", "custom")
    hosts: Sequence[str]
    switches: Sequence[str]
    links: Sequence[CustomLink | Sequence[str]]


Topology = FatTree | Xgft | LeafSpine | Dumbbell | Star | Line | Ring | Jellyfish | Torus | Dragonfly | File | Custom
