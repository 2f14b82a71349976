"""Links that act as one: port channels, bonds of hosts, MCLAG and dual ToR; and the hash that spreads flows over them.

Times are seconds, unless a name says otherwise. None means that no file gives the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

BondMode = Literal["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"]
"""Modes of the Linux bonding driver (Documentation/networking/bonding.rst)."""
LacpMode = Literal["active", "passive", "static"]


@dataclass(slots=True)
class Channel:
    """A port channel (IEEE 802.1AX): its members, and the minimum number of members that are up."""

    name: str
    members: list[str] = field(default_factory=list)
    mtu: int | None = None
    min_links: int | None = None
    up: bool = True
    mode: LacpMode = "active"
    """How the channel speaks LACP; "static": it does not. SONiC's channels are active."""
    fast: bool | None = None
    """True if the partner sends LACPDUs every second, False if every 30 s; SONiC and Linux default to slow."""
    fallback: bool = False
    """True if a member forwards although no LACPDU arrives."""
    mclag: str = ""
    """Identifier that the channel shares with that of an MCLAG peer, or empty."""


@dataclass(slots=True)
class Bond:
    """A bond of a host's interfaces (Linux bonding)."""

    name: str
    mode: BondMode = "balance-rr"
    members: list[str] = field(default_factory=list)
    miimon_ms: int | None = None
    """Interval of the look at the carrier; 0 or None: never, but 100 ms with 802.3ad."""
    hash_policy: str = "layer2"
    fast: bool = False
    """True if the partner sends LACPDUs every second."""


@dataclass(slots=True)
class Mclag:
    """The MCLAG domain of a switch: two switches that speak LACP as one."""

    domain: str
    source: str = ""
    peer: str = ""
    """IP addresses of this switch and of its peer in their session."""
    peer_link: str = ""
    """The port or channel that leads to the peer."""
    keepalive: int | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class MuxCable:
    """A port whose server hangs at two ToRs (SONiC dual ToR)."""

    port: str
    kind: str = "active-standby"
    state: str = "auto"
    server: str = ""
    """IPv4 prefix of the server."""


SEEDS = (
    ("ToRRouter", 0, 0),
    ("LeafRouter", 10, 10),
    ("SpineRouter", 25, 0),
    ("LowerRegionalHub", 60, 0),
    ("FabricRegionalHub", 70, 0),
    ("UpperRegionalHub", 80, 0),
)
"""Seed and offset of the ECMP hash by a word in the role: sonic-buildimage, dockers/docker-orchagent/switch.json.j2.

The first word counts: FabricSpineRouter and UpperSpineRouter get 25, because their lines stand below SpineRouter.
"""
AFFINE = frozenset({"CRC", "CRC_32LO", "CRC_32HI", "CRC_CCITT", "CRC_XOR", "XOR"})
"""Functions in which a seed only adds a constant to all hashes of keys of one length (XOR)."""


@dataclass(frozen=True, slots=True)
class Hashing:
    """How a switch chooses among equal next hops."""

    algorithm: str = "CRC"
    """SAI's name; CRC is SAI's default."""
    fields: frozenset[str] | None = None
    seed: int = 0
    offset: int = 0
    """Bits by which the hash is rotated before the choice."""
    known: bool = False
    """True if a file of the device gives role, seed, offset or function."""


def seed_of_role(role: str) -> tuple[int, int]:
    """Seed and offset that SONiC gives a role (DEVICE_METADATA localhost type).

    >>> seed_of_role("LeafRouter"), seed_of_role("BackEndToRRouter"), seed_of_role("")
    ((10, 10), (0, 0), (0, 0))
    """
    return next(((seed, offset) for word, seed, offset in SEEDS if word in role), (0, 0))
