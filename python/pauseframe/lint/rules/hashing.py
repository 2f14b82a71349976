"""Rules PF087 to PF089: the choice among equal paths."""

from __future__ import annotations

from collections import defaultdict
from math import gcd, lcm
from typing import TYPE_CHECKING

from pauseframe.devices.bundles import AFFINE
from pauseframe.devices.files import shown
from pauseframe.devices.model import Place
from pauseframe.devices.tiers import levels, uplinks
from pauseframe.lint.finding import Finding, PatchOperation, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.bundles import Hashing
    from pauseframe.devices.model import Fabric, Switch
    from pauseframe.devices.read import Reading

OTHER = ("CRC_CCITT", "CRC_32HI", "CRC_32LO")
"""Functions that a patch chooses: the first that the tier below does not have."""


@rule(
    "PF087",
    "polarized",
    "SONiC: dockers/docker-orchagent/switch.json.j2 (ecmp_hash_seed, ecmp_hash_offset)",
    "https://github.com/sonic-net/sonic-buildimage/pull/18912",
    severity=Severity.warning,
)
def check_polarization(reading: Reading) -> Iterator[Finding]:
    """A switch hashes as the switches below it do, so that it never uses some of its uplinks.

    With n1 uplinks below and n2 here, and the same hash modulo the number of uplinks, n2 / gcd(n1, n2) uplinks are
    used: one of eight with eight and eight. Another seed does not cure a CRC: it is affine, so that the seed adds a
    constant to every hash, and the powers of two in n1 and n2 stay aligned. SONiC therefore rotates the hash of
    LeafRouters by ten bits (`ecmp_hash_offset`). Seed and offset follow from the role (DEVICE_METADATA `type`), unless
    a switch.json for swssconfig sets them. Fabrics with static forwarding rows, and switches of different vendors, are
    exempt.

    Incident: T1 switches with one hot uplink, for which SONiC's images got offsets (sonic-buildimage#17505, #18912).
    """
    fabric = reading.fabric
    if any(switch.fdb for switch in fabric.switches.values()):
        return
    hops = _next_hops(fabric)
    tier = levels([(link.a.device, link.b.device) for link in fabric.links], fabric.switches)
    up = uplinks(hops, tier)
    for name in sorted(up):
        switch = fabric.switches[name]
        below = {one: residues for one in up if (residues := _residues(one, name, up, tier)) is not None}
        same = {one: r for one, r in below.items() if _is_same(fabric.switches[one], switch)}
        if same and len(same) == len(below) and (count := _equal_paths(name, hops, tier)) > 1:
            used = _used(switch, {one: (len(up[one]), r) for one, r in same.items()}, count, fabric)
            if used < count:
                yield _finding(switch, fabric.switches[next(iter(same))], used, count)


def _next_hops(fabric: Fabric) -> dict[str, list[str]]:
    """The switches at the far ends of each switch's links; a port channel is one next hop."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for link in fabric.links:
        for end, far in link.ends():
            switch = fabric.switches.get(end.device)
            port = switch.ports.get(end.port) if switch else None
            if switch is not None and far.device in fabric.switches and (port is None or port.up):
                channel = switch.channel_of(end.port)
                found[end.device][channel.name if channel else end.port] = far.device
    return {name: list(own.values()) for name, own in found.items()}


def _equal_paths(name: str, hops: dict[str, list[str]], tier: dict[str, int]) -> int:
    """How many uplinks of a switch lead to one switch with hosts by shortest paths, at most.

    Without the LLDP of all hosts a switch seems to be in a higher tier than it is; no path leads through it.
    """
    first: dict[str, frozenset[int]] = {name: frozenset()}
    todo: dict[str, set[int]] = defaultdict(set)
    for i, far in enumerate(hops.get(name, ())):
        todo[far].add(i)
    while todo:
        first |= {far: frozenset(found) for far, found in todo.items()}
        further: dict[str, set[int]] = defaultdict(set)
        for one, found in todo.items():
            for far in hops.get(one, ()):
                if far not in first:
                    further[far] |= found
        todo = further
    up = {i for i, far in enumerate(hops.get(name, ())) if tier.get(far, -1) > tier[name]}
    return max((len(found & up) for one, found in first.items() if one in tier and tier[one] == 0), default=0)


def _residues(below: str, name: str, up: dict[str, list[str]], tier: dict[str, int]) -> set[int] | None:
    """The uplinks of a lower switch that lead up to `name`; None if it has no choice, or none of them does."""
    if tier[below] >= tier[name] or len(up[below]) < 2:
        return None
    found = {i for i, far in enumerate(up[below]) if far == name or name in _above(far, up)}
    return found or None


def _above(name: str, up: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for far in up.get(todo.pop(), ()):
            if far not in found:
                found.add(far)
                todo.append(far)
    return found


def _is_same(below: Switch, switch: Switch) -> bool:
    """True if both hash the same fields by the same function and rotation, up to a constant."""
    a, b = below.hashing, switch.hashing
    vendors = {one.hwsku.partition("-")[0].lower() for one in (below, switch)} - {""}
    alike = (a.algorithm, a.fields, a.offset) == (b.algorithm, b.fields, b.offset)
    return alike and len(vendors) < 2 and (a.seed == b.seed or a.algorithm in AFFINE)


def _used(switch: Switch, below: dict[str, tuple[int, set[int]]], count: int, fabric: Fabric) -> int:
    """How many of `count` uplinks the hashes of flows from below reach."""
    used: set[int] = set()
    for name, (choices, residues) in below.items():
        if fabric.switches[name].hashing.seed == switch.hashing.seed:
            used |= {h % count for h in range(lcm(choices, count)) if h % choices in residues}
        else:
            aligned = _power_of_two(gcd(choices, count))
            used |= {h for h in range(count) if h % aligned in {r % aligned for r in residues}}
    return len(used)


def _power_of_two(number: int) -> int:
    return number & -number


def _finding(switch: Switch, below: Switch, used: int, count: int) -> Finding:
    own, has_row = switch.hashing, "SWITCH_HASH" in switch.tables
    place = Place(switch.name, "DEVICE_METADATA", "localhost", "type")
    if has_row:
        place = Place(switch.name, "SWITCH_HASH", "GLOBAL", "ecmp_hash_algorithm")
    other = next(name for name in OTHER if name != own.algorithm)
    return Finding(
        place,
        f"polarized: {used} of {count} uplinks used. The switches below hash alike: {_text(below.hashing)} in "
        f"{shown(below.role or 'the lower tier')}, {_text(own)} here",
        f'"{other}" in this tier' if has_row else "ecmp_hash_offset 10 in this tier, as SONiC gives it to LeafRouter",
        patch=(PatchOperation("SWITCH_HASH", "GLOBAL", "ecmp_hash_algorithm", other),) if has_row else (),
    )


def _text(hashing: Hashing) -> str:
    return f"{hashing.algorithm}, seed {hashing.seed}, offset {hashing.offset}"


@rule("PF088", "hash-without-ports", "IB specification A17 (RoCEv2): the UDP source port carries the entropy",
      "SONiC: SWITCH_HASH ecmp_hash", severity=Severity.warning)  # fmt: skip
def check_fields(reading: Reading) -> Iterator[Finding]:
    """The hash of equal paths leaves the source port out: all flows of two hosts take one path.

    Queue pairs of RoCEv2 differ in the UDP source port alone, since the destination port always is 4791. NICs spread
    them over 16,384 ports for that purpose.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        fields = switch.hashing.fields
        if fields is not None and "L4_SRC_PORT" not in fields:
            every = ",".join([*sorted(fields), "L4_SRC_PORT"])
            yield Finding(
                Place(switch.name, "SWITCH_HASH", "GLOBAL", "ecmp_hash"),
                f"the hash has {', '.join(sorted(fields))} and not L4_SRC_PORT",
                "L4_SRC_PORT as well",
                patch=(PatchOperation("SWITCH_HASH", "GLOBAL", "ecmp_hash", every),),
            )


@rule("PF089", "adaptive-routing", "SONiC: Adaptive Routing and Switching (ARS_PROFILE, ARS_OBJECT)",
      "SAI: inc/saiars.h", severity=Severity.warning)  # fmt: skip
def check_ars(reading: Reading) -> Iterator[Finding]:
    """Adaptive routing (ARS) reorders lossless traffic, or covers only a part of the equal paths.

    With `per_packet_quality` packets of a flow overtake one another. A RoCE receiver that does not place out of order
    answers with a NAK and the sender repeats everything from there; only NICs with out-of-order placement can take it.
    A profile in mode `interface` acts on the ports in ARS_INTERFACES; equal paths through other ports stay hashed.

    No incident is known.
    """
    fabric = reading.fabric
    tier = levels([(link.a.device, link.b.device) for link in fabric.links], fabric.switches)
    for name, database in reading.databases.items():
        switch = fabric.switches[name]
        lossless = any(port.lossless for port in switch.ports.values())
        for key, row in database.rows("ARS_OBJECT").items():
            if lossless and row.get("assign_mode") == "per_packet_quality":
                place = Place(name, "ARS_OBJECT", key, "assign_mode")
                patch = (PatchOperation("ARS_OBJECT", key, "assign_mode", "per_flowlet_quality"),)
                message = "packets of a flow overtake one another, and lossless traffic is here"
                yield Finding(place, message, '"per_flowlet_quality", or NICs that place out of order', patch=patch)
        profiles = database.rows("ARS_PROFILE").values()
        if any(row.get("ars_nhg_path_selector_mode", "interface") == "interface" for row in profiles):
            yield from _uncovered(fabric, switch, set(database.rows("ARS_INTERFACES")), tier)


def _uncovered(fabric: Fabric, switch: Switch, covered: set[str], tier: dict[str, int]) -> Iterator[Finding]:
    up = []
    for link in fabric.links:
        for end, far in link.ends():
            if end.device == switch.name and tier.get(far.device, -1) == tier.get(switch.name, 0) + 1:
                up.append(end.port)
    lacking = sorted(set(up) - covered)
    if not covered:
        yield Finding(Place(switch.name, "ARS_INTERFACES"), "the profile acts on no port", "a row for each uplink")
    elif lacking and set(up) & covered:
        yield Finding(
            Place(switch.name, "ARS_INTERFACES"),
            f"{len(lacking)} of {len(up)} uplinks are not in it: {', '.join(map(shown, lacking[:4]))}",
            "all uplinks, or none",
            patch=tuple(PatchOperation("ARS_INTERFACES", port, "", "") for port in lacking),
        )
