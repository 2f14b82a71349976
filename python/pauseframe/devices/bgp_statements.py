"""Reads BGP and addresses of Arista EOS and Cumulus Linux (NVUE), and what their statements name and nothing defines.

Sources: Arista, EOS User Manual, "Border Gateway Protocol"; NVIDIA, Cumulus Linux 5.x user guide, "Border Gateway
Protocol".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pauseframe.devices import bgp
from pauseframe.devices.bgp import Bgp, Session
from pauseframe.devices.files import number_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.devices.model import Switch
    from pauseframe.devices.statements import Statements, Words

EOS_PATHS = 1
"""Equal paths of eBGP that EOS uses if no statement sets `maximum-paths`."""
NVUE_PATHS = 64
_KINDS: dict[str, Literal["internal", "external"]] = {"internal": "internal", "external": "external"}
_ON = dict.fromkeys(("on", "enable", "enabled", "true"), True) | dict.fromkeys(("off", "disable", "disabled"), False)
_NEIGHBOR = re.compile(r"(no )?neighbor (\S+) (.+)")
_EOS_VALUES = {"remote-as": "asn", "local-as": "local_asn", "update-source": "local"}
_MAP = re.compile(r"route-map (\S+) (in|out)")


def eos_words(asn: str) -> dict[tuple[str, str], Words]:
    """The words of EOS for tables of BGP."""
    section, one = f"router bgp {asn}", "neighbor {}"
    return {
        ("DEVICE_METADATA", "bgp_asn"): (section, "", ""),
        ("BGP_NEIGHBOR", ""): (section, one, ""),
        ("BGP_NEIGHBOR", "asn"): (section, one, "remote-as"),
        ("BGP_NEIGHBOR", "admin_status"): (section, one, "shutdown"),
        ("BGP_NEIGHBOR", "local_addr"): (section, one, "update-source"),
        ("BGP_NEIGHBOR", "holdtime"): (section, one, "timers"),
        ("BGP_NEIGHBOR", "bfd"): (section, one, "bfd"),
        ("BGP_GLOBALS_AF", ""): (section, "maximum-paths", ""),
        ("BGP_GLOBALS", ""): (section, "bgp bestpath as-path multipath-relax", ""),
        ("BGP_GLOBALS", "admin_status"): (section, "shutdown", ""),
    }


EOS_ADDRESSES: dict[tuple[str, str], Words] = {
    (table, ""): ("interface", "{}", "ip address") for table in ("INTERFACE", "VLAN_INTERFACE", "LOOPBACK_INTERFACE")
}
_BGP = "vrf default router bgp"
NVUE_WORDS: dict[tuple[str, str], Words] = {
    **{(table, ""): ("interface", "{}", "ip address") for table, _ in EOS_ADDRESSES},
    ("DEVICE_METADATA", "bgp_asn"): ("router bgp", "autonomous-system", ""),
    ("BGP_NEIGHBOR", ""): (f"{_BGP} neighbor", "{}", ""),
    ("BGP_NEIGHBOR", "asn"): (f"{_BGP} neighbor", "{}", "remote-as"),
    ("BGP_NEIGHBOR", "admin_status"): (f"{_BGP} neighbor", "{}", "shutdown"),
    ("BGP_NEIGHBOR", "local_addr"): (f"{_BGP} neighbor", "{}", "update-source"),
    ("BGP_NEIGHBOR", "holdtime"): (f"{_BGP} neighbor", "{}", "timers hold"),
    ("BGP_NEIGHBOR", "bfd"): (f"{_BGP} neighbor", "{}", "bfd"),
    ("BGP_GLOBALS_AF", ""): (_BGP, "address-family ipv4-unicast", "multipaths ebgp"),
    ("BGP_GLOBALS", ""): (_BGP, "path-selection", "multipath aspath-ignore"),
    ("BGP_GLOBALS", "admin_status"): (_BGP, "enable", ""),
}


def of_eos(found: Statements, switch: Switch) -> None:
    """Adds the addresses and BGP of a running-configuration."""
    _eos_addresses(found, switch)
    section = next((name for name in found.names() if name.startswith("router bgp ")), "")
    if not section:
        return
    own = switch.bgp = Bgp(bgp.as_number(section.split()[-1]), paths=EOS_PATHS, relaxed=True)
    found.words = {**found.words, **eos_words(section.split()[-1])}
    rows: dict[str, dict[str, str]] = {"": {}}
    for name in found.names(section):
        if match := _NEIGHBOR.fullmatch(name):
            known = _eos_neighbour(found, section, match, rows.setdefault(match[2], {}))
        else:
            known = _eos_setting(name, own, rows[""])
        if known:
            found.get(section, name)
    for peer, row in rows.items():
        if bgp.address(peer) is not None:
            own.sessions.append(_session(peer, {**rows[""], **rows.get(row.get("group", ""), {}), **row}))
    for session in own.sessions:
        source = next(iter(switch.addresses.get(session.local, ())), "")
        session.local = source.partition("/")[0]
    _shut(own)


def _shut(own: Bgp) -> None:
    """Sessions are down where BGP is shut down as a whole."""
    for session in own.sessions:
        session.up = session.up and not own.off


def _eos_addresses(found: Statements, switch: Switch) -> None:
    """The addresses of interfaces outside of VRFs."""
    for section in found.names():
        names = found.names(section) if section.startswith("interface ") else []
        for name in names if not any(one.startswith("vrf ") for one in names) else ():
            text = name.removeprefix("ip address ").removeprefix("ipv6 address ").removesuffix(" secondary")
            if text == name or bgp.interface(text) is None:
                continue
            if "no switchport" not in names and section.startswith(("interface Ethernet", "interface Port-Channel")):
                found.remarks.append(f"{section} {name}: EOS ignores it without `no switchport`")
            else:
                found.get(section, name)
                switch.addresses.setdefault(section.split()[1], []).append(text)


def _eos_setting(name: str, own: Bgp, everywhere: dict[str, str]) -> bool:
    """Takes a statement about all neighbours; False for one that is not read."""
    if match := re.fullmatch(r"maximum-paths (\d{1,3})(?: ecmp \d{1,3})?", name):
        own.paths = int(match[1])
    elif name.removeprefix("no ") == "shutdown":
        own.off = not name.startswith("no ")
    elif name.removeprefix("no ") == "bgp bestpath as-path multipath-relax":
        own.relaxed = not name.startswith("no ")
    elif match := re.match(r"bgp listen range (\S+) ", name):
        own.ranges.append(match[1])
    elif match := re.fullmatch(r"timers bgp (\d{1,5}) (\d{1,5})(?: .*)?", name):
        everywhere.update(keepalive=match[1], hold=match[2])
    else:
        return False
    return True


def _eos_neighbour(found: Statements, section: str, match: re.Match[str], row: dict[str, str]) -> bool:
    """Takes a statement about a neighbour or a group of them; False for one that is not read."""
    text, words = match[3], match[3].split()
    if words[:2] == ["peer", "group"] or words[0] == "peer-group":
        row["group"] = words[-1] if len(words) > (2 if words[0] == "peer" else 1) else ""
        own = f"neighbor {row['group']} "
        if row["group"] and not any(name.startswith(own) for name in found.names(section)):
            found.dangling[section, match[0]] = f"peer group {row['group']}"
    elif words[0] in _EOS_VALUES and len(words) > 1:
        row[_EOS_VALUES[words[0]]] = words[1]
    elif words[0] == "timers" and len(words) >= 3:
        row |= {"keepalive": words[1], "hold": words[2]}
    elif words[0] in {"shutdown", "bfd", "ebgp-multihop"}:
        row[words[0]] = "off" if match[1] else "on"
    elif map_ := _MAP.fullmatch(text):
        if not any(one.startswith(f"route-map {map_[1]} ") for one in found.names()):
            found.dangling[section, match[0]] = f"route-map {map_[1]}"
    else:
        return False
    return True


def _session(peer: str, row: dict[str, str]) -> Session:
    return Session(
        peer,
        bgp.as_number(row.get("asn")) or _KINDS.get(row.get("asn", "")),
        bgp.as_number(row.get("local_asn")),
        local=row.get("local", ""),
        up=_ON.get(row.get("shutdown", "off"), False) is False,
        hold=number_in(row.get("hold"), 0, 65535),
        keepalive=number_in(row.get("keepalive"), 0, 65535),
        bfd=_ON.get(row.get("bfd", "")),
        multihop=_ON.get(row.get("ebgp-multihop", "off"), True),
        key=peer,
    )


def of_nvue(found: Statements, switch: Switch, expanded: Callable[[str], list[str]]) -> None:
    """Adds the addresses and BGP of NVUE's statements."""
    for key in found.names("interface"):
        if found.get("interface", key, "ip", "vrf") in {None, "default"}:
            texts = [text for text in found.names("interface", key, "ip", "address") if bgp.interface(text) is not None]
            for text in texts:
                found.take("interface", key, "ip", "address", text)
            switch.addresses |= {name: texts for name in expanded(key) if texts}
    base = ("vrf", "default", "router", "bgp")
    asn = found.get(*base, "autonomous-system") or found.get("router", "bgp", "autonomous-system")
    if not found.names(*base) and asn is None:
        return
    states = [found.word(_ON, *path, "enable") for path in (base, ("router", "bgp"))]
    own = switch.bgp = Bgp(bgp.as_number(asn), off=False in states)
    paths = found.number(1, 256, *base, "address-family", "ipv4-unicast", "multipaths", "ebgp")
    own.paths = paths or NVUE_PATHS
    own.relaxed = found.word(_ON, *base, "path-selection", "multipath", "aspath-ignore")
    groups = {name: _nvue_row(found, (*base, "peer-group", name)) for name in found.names(*base, "peer-group")}
    for key in found.names(*base, "neighbor"):
        row = _nvue_row(found, (*base, "neighbor", key))
        for peer in expanded(key):
            session = _session(peer, {**groups.get(row.get("group", ""), {}), **row})
            source = next(iter(switch.addresses.get(session.local, ())), session.local)
            session.local = source.partition("/")[0] if bgp.address(source.partition("/")[0]) is not None else ""
            own.sessions.append(session)
    _shut(own)


def _nvue_row(found: Statements, base: tuple[str, ...]) -> dict[str, str]:
    """The values of a neighbour or a group."""
    paths = {
        "asn": ("remote-as",),
        "group": ("peer-group",),
        "hold": ("timers", "hold"),
        "keepalive": ("timers", "keepalive"),
        "local": ("update-source",),
        "shutdown": ("shutdown",),
        "ebgp-multihop": ("multihop-ttl",),
    }
    row = {name: text for name, path in paths.items() if (text := found.get(*base, *path)) is not None}
    if found.has(*base, "bfd"):
        row["bfd"] = found.get(*base, "bfd", "enable") or found.get(*base, "bfd", "state") or "on"
    off = found.get(*base, "enable")
    if off is not None and _ON.get(off) is False:
        row["shutdown"] = "on"
    found.get(*base, "type")
    for family in found.names(*base, "address-family"):
        for way in ("inbound", "outbound"):
            path = (*base, "address-family", family, "policy", way, "route-map")
            name = found.get(*path)
            if name is not None and name not in found.names("router", "policy", "route-map"):
                found.dangling[path] = f"router policy route-map {name}"
    return row
