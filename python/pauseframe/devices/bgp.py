"""BGP of a switch: its sessions as its files configure them, and the addresses of its interfaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_interface, ip_network
from typing import TYPE_CHECKING, Literal

from pauseframe.devices.files import number_in, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

    from pauseframe.devices.sonic_db import ConfigDb, Row

    Interface = IPv4Interface | IPv6Interface
    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

LAST_AS = 2**32 - 1
ROUTED = ("INTERFACE", "PORTCHANNEL_INTERFACE", "VLAN_INTERFACE", "VLAN_SUB_INTERFACE")
"""SONiC's tables of interfaces to others; those of LOOPBACK_INTERFACE lead nowhere."""
LOOPBACK = "LOOPBACK_INTERFACE"
PATHS = 64
"""Most equal paths that SONiC's template configures (`maximum-paths 64`)."""
_ON = {"true": True, "false": False}


@dataclass(slots=True)
class Session:
    """A BGP session as one end configures it."""

    peer: str
    """Address of the other end; an interface for a session without addresses."""
    asn: int | Literal["internal", "external"] | None = None
    """AS of the other end."""
    own_asn: int | None = None
    """AS that this end uses in place of the switch's."""
    name: str = ""
    local: str = ""
    """Address of this end, if it is given."""
    up: bool = True
    hold: int | None = None
    """Hold time in seconds."""
    keepalive: int | None = None
    bfd: bool | None = None
    multihop: bool = False
    key: str = ""
    """Key of the row or name of the statement."""


@dataclass(slots=True)
class Bgp:
    """BGP of a switch in the default VRF."""

    asn: int | None = None
    off: bool = False
    """True if BGP is configured and shut down as a whole: none of its sessions is up."""
    sessions: list[Session] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    """Prefixes from which any peer may connect."""
    paths: int | None = None
    """Most equal paths of eBGP; None: unknown."""
    relaxed: bool | None = None
    """Whether paths over different ASes of one length are equal; None: unknown."""
    waits_for: str = ""
    """What SONiC's daemon waits for before it starts a session: a table and row; empty if all is there."""


def as_number(text: str | None) -> int | None:
    """The number of an AS, also in the form 65000.1 (RFC 5396); None for any other text."""
    high, dot, low = (text or "").partition(".")
    if not dot:
        return number_in(text, 1, LAST_AS)
    parts = number_in(high, 0, 65535), number_in(low, 0, 65535)
    return None if parts[0] is None or parts[1] is None else (parts[0] << 16) + parts[1]


@cache
def interface(text: str) -> Interface | None:
    """An address with its prefix length; None for any other text."""
    try:
        return ip_interface(text) if "/" in text else None
    except ValueError:
        return None


@cache
def address(text: str) -> Address | None:
    """An IP address; None for any other text."""
    try:
        return ip_address(text)
    except ValueError:
        return None


@cache
def network(text: str) -> Network | None:
    """An IP prefix; None for any other text."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def addresses_of(db: ConfigDb) -> dict[str, list[str]]:
    """The addresses of each interface of a CONFIG_DB in the default VRF, as written."""
    found: dict[str, list[str]] = {}
    for table in (*ROUTED, LOOPBACK):
        rows = db.rows(table)
        for key in rows:
            name, bar, text = key.partition("|")
            if bar and not _is_in_vrf(rows.get(name, {})):
                found.setdefault(name, []).append(text)
    return found


def _is_in_vrf(row: Row) -> bool:
    return row.get("vrf_name", "default") not in {"default", ""} or bool(row.get("vnet_name"))


def _only_in_vrfs(db: ConfigDb) -> set[str]:
    """The addresses that interfaces in other VRFs have, and none of the default VRF."""
    own: dict[bool, set[str]] = {True: set(), False: set()}
    for table in (*ROUTED, LOOPBACK):
        rows = db.rows(table)
        for key in rows:
            name, _, text = key.partition("|")
            own[_is_in_vrf(rows.get(name, {}))].add(text.partition("/")[0])
    return own[True] - own[False]


def bgp_of(db: ConfigDb) -> Bgp | None:
    """BGP of a CONFIG_DB; None if it is configured elsewhere, or not at all."""
    meta = db.rows("DEVICE_METADATA").get("localhost", {})
    everything = db.rows("BGP_GLOBALS").get("default", {})
    rows = db.rows("BGP_NEIGHBOR")
    asn = as_number(everything.get("local_asn")) or as_number(meta.get("bgp_asn"))
    split = meta.get("docker_routing_config_mode", "").startswith("split")
    if not rows and (asn is None or split):
        return None
    found = Bgp(asn, ranges=[part for row in db.rows("BGP_PEER_RANGE").values() for part in _listed(row, "ip_range")])
    found.ranges += [key.split("|")[-1] for key in db.rows("BGP_GLOBALS_LISTEN_PREFIX") if key.startswith("default|")]
    own = db.rows("BGP_GLOBALS_AF").get("default|ipv4_unicast", {})
    found.paths = whole_number(own.get("max_ebgp_paths")) or PATHS
    found.relaxed = _ON.get(everything.get("load_balance_mp_relax", ""), True)
    state = {"admin_status": meta.get("default_bgp_status", "up")}  # for rows without one: SONiC's instance.conf.j2
    groups, elsewhere = db.rows("BGP_PEER_GROUP"), _only_in_vrfs(db)
    for key, row in rows.items():
        vrf, bar, peer = key.rpartition("|")
        if vrf == "default" or (not bar and row.get("local_addr", "-") not in elsewhere):
            group = groups.get(f"default|{row.get('peer_group_name', '')}", {})
            found.sessions.append(_session(key, peer, {**state, **group, **row}))
    if meta.get("frr_mgmt_framework_config") != "true" and not split and rows and db.whole:
        found.waits_for = _waits_for(db, meta)
    return found


def _listed(row: Row, name: str) -> list[str]:
    return [part for part in row.get(name, "").split(",") if part]


def _waits_for(db: ConfigDb, meta: Mapping[str, str]) -> str:
    """What bgpcfgd waits for before it adds a peer (BGPPeerMgrBase of sonic-bgpcfgd)."""
    if as_number(meta.get("bgp_asn")) is None:
        return "DEVICE_METADATA localhost bgp_asn"
    first = [key.partition("|")[2] for key in db.rows(LOOPBACK) if key.startswith("Loopback0|")]
    if "bgp_router_id" not in meta and not any("." in text for text in first):
        return f"{LOOPBACK} Loopback0|ADDRESS/32"
    return ""


def _session(key: str, peer: str, row: Mapping[str, str]) -> Session:
    kinds: dict[str, Literal["internal", "external"]] = {"internal": "internal", "external": "external"}
    return Session(
        peer,
        as_number(row.get("asn")) or kinds.get(row.get("peer_type", "")),
        as_number(row.get("local_asn")),
        row.get("name", ""),
        row.get("local_addr", "").partition("/")[0],
        row.get("admin_status", "up") != "down",
        whole_number(row.get("holdtime")),
        whole_number(row.get("keepalive")),
        _ON.get(row.get("bfd", "")),
        row.get("ebgp_multihop") == "true",
        key,
    )
