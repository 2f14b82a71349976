"""The tiers of a fabric: how far each switch is from the hosts, and the next hops that lead up."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def levels(links: Iterable[tuple[str, str]], switches: Iterable[str]) -> dict[str, int]:
    """The tier of each switch: 0 with a host, else one more than the lowest neighbour. Switches without a path: none.

    >>> levels([("a", "leaf"), ("leaf", "spine"), ("spine", "core")], ["leaf", "spine", "core"])
    {'leaf': 0, 'spine': 1, 'core': 2}
    """
    known = set(switches)
    near: dict[str, set[str]] = defaultdict(set)
    for a, b in links:
        near[a].add(b)
        near[b].add(a)
    found = {name: 0 for name in sorted(known) if near[name] - known}
    todo = list(found)
    while todo:
        name = todo.pop(0)
        for far in sorted(near[name] & known - found.keys()):
            found[far] = found[name] + 1
            todo.append(far)
    return found


def uplinks(next_hops: Mapping[str, list[str]], tier: Mapping[str, int]) -> dict[str, list[str]]:
    """Of each switch the next hops in the tier above, in order; one with several links or channels stands as often."""
    up: dict[str, list[str]] = {}
    for name, far in next_hops.items():
        if name in tier:
            up[name] = [one for one in far if tier.get(one, -1) == tier[name] + 1]
    return up
