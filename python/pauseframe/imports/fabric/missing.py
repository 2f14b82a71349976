"""Switches whose files are not there: those that others name as neighbours, and the other ToR of a mux cable."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Link
from pauseframe.devices.wiring import is_port_of_switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.imports.fabric.scope import Scope


def links_of_peers(scope: Scope) -> Iterator[Link]:
    """The links of the other ToR of a pair with mux cables, if no file has them: those of the known one again.

    SONiC: both ToRs of a pair are cabled alike; a server hangs at the same port of both.
    """
    fabric = scope.fabric
    wired = {end.device for link in fabric.links for end in (link.a, link.b)}
    for name in scope.switches:
        switch = fabric.switches[name]
        peer = switch.peer_switch
        if not switch.mux or not peer or peer in wired or peer in fabric.switches:
            continue
        scope.twins[peer] = name
        scope.account.assume(f"{shown(peer)}: no file of it: cabled as {shown(name)}, its pair")
        for link in fabric.links:
            for end, far in link.ends():
                if end.device == name:
                    yield Link(End(peer, end.port), End(far.device, f"{far.port}.{peer}"), link.metres)


def switches_of(scope: Scope, links: list[Link]) -> list[str]:
    """The devices at links of known switches that forward, though no file of them is there."""
    ends: dict[str, list[tuple[End, End]]] = defaultdict(list)
    peers = {scope.fabric.switches[name].peer_switch for name in scope.switches}
    for link in links:
        near = {link.a.device, link.b.device} & (scope.switches.keys() | peers)
        for end, far in link.ends() if near else ():
            if end.device not in scope.switches:
                ends[end.device].append((end, far))
    found = []
    for name, own in sorted(ends.items()):
        at = {far.device for _, far in own}
        if name in scope.fabric.hosts or scope.fabric.roles.get(name) == "host":
            continue
        told = scope.fabric.roles.get(name) == "switch"
        if name in peers:
            found.append(name)
        elif (told or all(is_port_of_switch(end.port) for end, _ in own)) and len(at) > 1:
            found.append(name)
            scope.account.assume(f"{shown(name)}: no file of it: a switch, because {len(at)} switches are wired to it")
        elif told:
            scope.account.assume(f"{shown(name)}: a switch without files, wired to one switch: stands as a host")
    return found
