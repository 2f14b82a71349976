"""The [routing] table of an imported scenario: the hash by which switches choose among equal next hops."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pauseframe.devices.model import End
from pauseframe.devices.tiers import levels

if TYPE_CHECKING:
    from pauseframe.imports.fabric.scope import Scope

FUNCTIONS = {
    "CRC": "crc32",
    "CRC_32LO": "crc32_lo",
    "CRC_32HI": "crc32_hi",
    "CRC_CCITT": "crc_ccitt",
    "XOR": "xor",
}
"""routing.hash of each SAI_HASH_ALGORITHM; of the others the simulator has none."""
PORTS = frozenset({"L4_SRC_PORT", "L4_DST_PORT"})
TIERS = (0, 10, 25, 40, 50)
"""Seeds of routing.hash_seeds = "tier"."""


def routing_of(scope: Scope) -> dict[str, Any]:
    """The keys of [routing]: the files' hash if they give one or the switches' roles, else an ideal hash."""
    table: dict[str, Any] = {"kind": "ecmp"}
    own = {name: scope.fabric.switches[name].hashing for name in scope.switches}
    if not any(one.known for one in own.values()):
        return table
    ends = {name: End(name, "") for name in own}
    function = scope.choose("ecmp_hash_algorithm", [(ends[n], one.algorithm) for n, one in own.items()]) or "CRC"
    table["hash"] = FUNCTIONS.get(function, "murmur3")
    if function not in FUNCTIONS:
        scope.account.assume(f"the simulator has no hash {function}: murmur3")
    fields = scope.choose("ecmp_hash", [(ends[n], tuple(sorted(one.fields or PORTS))) for n, one in own.items()])
    if fields and not PORTS & {*fields}:
        table["hash_fields"] = "addresses"
    return table | _by_tier(scope)


def _by_tier(scope: Scope) -> dict[str, Any]:
    """Seeds and offsets: the value of most switches of a tier."""
    tier = levels([cable.nodes for cable in scope.cables], scope.known().values())
    seeds: dict[int, list[tuple[End, int]]] = defaultdict(list)
    offsets: dict[int, list[tuple[End, int]]] = defaultdict(list)
    for name, node in scope.switches.items():
        hashing = scope.fabric.switches[name].hashing
        seeds[tier.get(node, 0)].append((End(name, ""), hashing.seed))
        offsets[tier.get(node, 0)].append((End(name, ""), hashing.offset))
    chosen = [scope.choose(f"ecmp_hash_seed of tier {level}", seeds[level]) or 0 for level in sorted(seeds)]
    rotated = [scope.choose(f"ecmp_hash_offset of tier {level}", offsets[level]) or 0 for level in sorted(offsets)]
    same = len(set(chosen)) == 1
    if not same and chosen != list(TIERS[: len(chosen)]):
        scope.account.assume(f"seeds of tiers are {', '.join(map(str, TIERS))}; the files have {chosen}")
    found: dict[str, Any] = {"hash_seeds": "same" if same else "tier"}
    return found | ({"hash_offsets": rotated} if any(rotated) else {})
