"""The [routing] table of an imported scenario: the hash by which switches choose among equal next hops."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pauseframe.devices.model import End
from pauseframe.devices.tiers import levels

if TYPE_CHECKING:
    from pauseframe.devices.bundles import Hashing
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
    fields = scope.choose("ecmp_hash", [(ends[n], tuple(sorted(one.fields or PORTS))) for n, one in own.items()])
    if fields and not PORTS & {*fields}:
        table["hash_fields"] = "addresses"
    return table | _by_tier(scope)


def _by_tier(scope: Scope) -> dict[str, Any]:
    """Function, seeds and offsets: the value of most switches of a tier."""
    tier = levels([cable.nodes for cable in scope.cables], scope.known().values())
    tiers: dict[int, list[tuple[End, Hashing]]] = defaultdict(list)
    for name, node in scope.switches.items():
        tiers[tier.get(node, 0)].append((End(name, ""), scope.fabric.switches[name].hashing))
    rows = sorted(tiers.items())
    functions = [scope.choose(f"ecmp_hash_algorithm of tier {i}", [(e, h.algorithm) for e, h in r]) for i, r in rows]
    chosen = [scope.choose(f"ecmp_hash_seed of tier {i}", [(e, h.seed) for e, h in r]) or 0 for i, r in rows]
    rotated = [scope.choose(f"ecmp_hash_offset of tier {i}", [(e, h.offset) for e, h in r]) or 0 for i, r in rows]
    if len(set(functions)) > 1:
        # Hashes of different functions are independent; so are those of murmur3 with different seeds, which no CRC is.
        scope.account.assume(f"the tiers hash by {', '.join(map(str, functions))}; the simulator: murmur3, own seeds")
        return {"hash": "murmur3", "hash_seeds": "tier"}
    return {"hash": _function(scope, functions[0] or "CRC")} | _constants(scope, chosen, rotated)


def _function(scope: Scope, algorithm: str) -> str:
    if algorithm not in FUNCTIONS:
        scope.account.assume(f"the simulator has no hash {algorithm}: murmur3")
    return FUNCTIONS.get(algorithm, "murmur3")


def _constants(scope: Scope, chosen: list[int], rotated: list[int]) -> dict[str, Any]:
    same = len(set(chosen)) == 1
    if not same and chosen != list(TIERS[: len(chosen)]):
        scope.account.assume(f"seeds of tiers are {', '.join(map(str, TIERS))}; the files have {chosen}")
    found: dict[str, Any] = {"hash_seeds": "same" if same else "tier"}
    return found | ({"hash_offsets": rotated} if any(rotated) else {})
