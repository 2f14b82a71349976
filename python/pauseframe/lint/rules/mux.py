"""Rule PF086: the two ToRs of mux cables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices import bgp
from pauseframe.devices.files import shown
from pauseframe.devices.model import Place
from pauseframe.lint.finding import Finding, PatchOperation, rule
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.bgp import Address
    from pauseframe.devices.bundles import MuxCable
    from pauseframe.devices.model import Switch
    from pauseframe.devices.read import Reading

_OF_SERVER = ("server_ipv4", "server_ipv6", "soc_ipv4", "soc_ipv6")
"""Fields of MUX_CABLE with an address that one cable has alone, at both ToRs the same."""


@rule(
    "PF086",
    "mux-cable",
    "SONiC: MUX_CABLE, PEER_SWITCH, TUNNEL (dual ToR)",
    "https://github.com/sonic-net/SONiC/issues/950",
)
def check_mux(reading: Reading) -> Iterator[Finding]:
    """The two ToRs of mux cables do not fit together.

    The standby ToR sends what arrives for its servers through an IP-in-IP tunnel to its peer. For that it needs the
    peer's name and address (PEER_SWITCH), a tunnel, the subtype DualToR, and the same servers at the peer. With both
    ToRs set to `active` by hand both send to an active-standby cable, whose mux drops what one of them sends; with both
    set to `standby` neither sends. Each server hangs at one port of a ToR.

    No incident is known.
    """
    fabric = reading.fabric
    for switch in fabric.switches.values():
        database = reading.databases.get(switch.name)
        if not switch.mux or database is None or not switch.whole:
            continue
        if not switch.peer_switch:
            yield Finding(
                Place(switch.name, "PEER_SWITCH"), "mux cables, and no peer switch", "name and address of the other ToR"
            )
        if not any(row.get("tunnel_type") == "IPINIP" for row in database.rows("TUNNEL").values()):
            message = "mux cables, and no IPINIP tunnel: the standby ToR drops what arrives for its servers"
            yield Finding(Place(switch.name, "TUNNEL"), message, "MuxTunnel0 to the peer")
        subtype = database.rows("DEVICE_METADATA").get("localhost", {}).get("subtype")
        if subtype != "DualToR":
            yield Finding(
                Place(switch.name, "DEVICE_METADATA", "localhost", "subtype"),
                f"mux cables, and subtype is {shown(subtype or 'missing')}: linkmgrd does not start",
                '"subtype": "DualToR"',
                patch=(PatchOperation("DEVICE_METADATA", "localhost", "subtype", "DualToR"),),
            )
        for port in switch.mux:
            if port in database.rows("PORT") and database.rows("PORT")[port].get("mux_cable", "true") != "true":
                patch = (PatchOperation("PORT", port, "mux_cable", "true"),)
                yield Finding(
                    Place(switch.name, "PORT", port, "mux_cable"), "false at a mux cable", '"true"', patch=patch
                )
        yield from _servers_twice(reading, switch)
        yield from _tunnel_end(reading, switch)
        peer = fabric.switches.get(switch.peer_switch)
        if peer is not None and peer.whole:
            yield from _peer_address(reading, switch, peer)
            yield from _other_tor(reading, switch, peer)


def _servers_twice(reading: Reading, switch: Switch) -> Iterator[Finding]:
    """Addresses of servers that two cables have."""
    first: dict[tuple[str, str], str] = {}
    for port, row in sorted(reading.rows(switch.name, "MUX_CABLE").items()):
        for field in _OF_SERVER:
            known = first.setdefault((field, row[field]), port) if row.get(field) else port
            if known != port:
                yield Finding(
                    Place(switch.name, "MUX_CABLE", port, field),
                    f"{shown(row[field])} is also the server of {shown(known)}",
                    "the address of this server",
                    Place(switch.name, "MUX_CABLE", known, field),
                )


def _loopbacks(switch: Switch) -> set[Address]:
    texts = [text for name, own in switch.addresses.items() if name.lower().startswith("lo") for text in own]
    return {own.ip for own in map(bgp.interface, texts) if own is not None}


def _tunnels(reading: Reading, switch: Switch) -> Iterator[tuple[str, str, Address | None, Address | None]]:
    """IP-in-IP tunnels: (key, `dst_ip`, where it ends here, where that of the peer begins)."""
    for key, row in reading.rows(switch.name, "TUNNEL").items():
        if row.get("tunnel_type") == "IPINIP":
            here, there = (bgp.address(row.get(name, "")) for name in ("dst_ip", "src_ip"))
            yield key, row.get("dst_ip", ""), here, there


def _tunnel_end(reading: Reading, switch: Switch) -> Iterator[Finding]:
    """A tunnel ends at an address of the switch itself."""
    own = _loopbacks(switch)
    for key, text, here, _ in _tunnels(reading, switch):
        if own and here is not None and here not in own:
            known = next((str(one) for one in own if one.version == here.version), "")
            yield Finding(
                Place(switch.name, "TUNNEL", key, "dst_ip"),
                f"the tunnel ends at {shown(text)}, which no loopback interface of this switch has",
                f'"{known}"' if known else "the address of Loopback0",
                patch=(PatchOperation("TUNNEL", key, "dst_ip", known),) if known and len(own) == 1 else (),
            )


def _peer_address(reading: Reading, switch: Switch, peer: Switch) -> Iterator[Finding]:
    """The address of the peer is where the peer's tunnel ends."""
    text = reading.rows(switch.name, "PEER_SWITCH").get(peer.name, {}).get("address_ipv4", "")
    address = bgp.address(text)
    tunnels = [here for _, _, here, _ in _tunnels(reading, peer) if here is not None and here.version == 4]
    ends = tunnels or [one for one in _loopbacks(peer) if one.version == 4]
    if ends and address not in ends:
        right = str(ends[0]) if len(ends) == 1 else ""
        yield Finding(
            Place(switch.name, "PEER_SWITCH", peer.name, "address_ipv4"),
            f"{shown(text) or 'no address'} here, the tunnel of {shown(peer.name)} ends at {ends[0]}",
            f'"{right}"' if right else f"the address of {shown(peer.name)}",
            patch=(PatchOperation("PEER_SWITCH", peer.name, "address_ipv4", right),) if right else (),
        )
    for key, _, _, there in _tunnels(reading, switch):
        if ends and there is not None and there.version == 4 and there not in ends:
            yield Finding(
                Place(switch.name, "TUNNEL", key, "src_ip"),
                f"the tunnel takes packets of {there} alone, {shown(peer.name)} sends from {ends[0]}",
                f'"{ends[0]}"',
                patch=(PatchOperation("TUNNEL", key, "src_ip", str(ends[0])),) if len(ends) == 1 else (),
            )


def _other_tor(reading: Reading, switch: Switch, peer: Switch) -> Iterator[Finding]:
    if peer.peer_switch and peer.peer_switch != switch.name:
        message = f"the peer of {shown(peer.name)} is {shown(peer.peer_switch)}, and this switch names it as its peer"
        yield Finding(Place(peer.name, "PEER_SWITCH", peer.peer_switch), message, shown(switch.name))
    if not peer.mux:
        message = f"no mux cable here, {counted(len(switch.mux), 'cable')} at {shown(switch.name)}"
        yield Finding(Place(peer.name, "MUX_CABLE"), message, "the same servers at both ToRs")
        return
    by_server = {cable.server: cable for cable in peer.mux.values() if cable.server}
    for name, own in sorted(switch.mux.items()):
        far = by_server.get(own.server) if own.server else peer.mux.get(name)
        if far is None:
            message = f"no mux cable of {shown(own.server or name)} at the peer {shown(peer.name)}"
            yield Finding(Place(switch.name, "MUX_CABLE", name), message, "the same servers at both ToRs")
        elif switch.name < peer.name or switch.name != peer.peer_switch:
            yield from _cable(reading, switch, own, peer, far)


def _cable(reading: Reading, switch: Switch, own: MuxCable, peer: Switch, far: MuxCable) -> Iterator[Finding]:
    """Values in which the two rows of a cable do not fit; each pair of rows is judged once."""
    place, other = (Place(one.name, "MUX_CABLE", cable.port) for one, cable in ((switch, own), (peer, far)))
    if own.kind != far.kind:
        message = f"{own.kind} here, {far.kind} at {shown(peer.name)}"
        yield Finding(Place(*_row(place), "cable_type"), message, "", other)
    elif own.state == far.state and own.state in _HAND.get(own.kind, ()):
        effect = "the mux drops what one of them sends" if own.state == "active" else "neither sends to the server"
        yield Finding(
            Place(*_row(place), "state"),
            f"{own.state} here and at {shown(peer.name)}: {effect}",
            '"auto"',
            other,
            patch=(
                PatchOperation("MUX_CABLE", own.port, "state", "auto"),
                PatchOperation("MUX_CABLE", far.port, "state", "auto", peer.name),
            ),
        )
    rows = [reading.rows(one.device, one.table).get(one.key, {}) for one in (place, other)]
    for field in _OF_SERVER:
        here, there = (row.get(field) for row in rows)
        if here != there:
            message = f"{shown(here or 'none')} here, {shown(there or 'none')} at {shown(peer.name)}"
            yield Finding(Place(*_row(place), field), message, "the same at both ToRs", Place(*_row(other), field))


def _row(place: Place) -> tuple[str, str, str]:
    return place.device, place.table, place.key


_HAND = {"active-standby": ("active", "standby"), "active-active": ("standby",)}
"""States by hand that both ToRs must not have, by kind of cable."""
