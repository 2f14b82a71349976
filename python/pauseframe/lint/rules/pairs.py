"""Rules PF083 to PF085: LACP at both ends, bonds of hosts, and two switches that act as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices import bgp
from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Place
from pauseframe.lint.finding import EVERY, VENDORS, Finding, PatchOperation, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.bundles import Bond, Channel, Mclag
    from pauseframe.devices.model import Fabric, Host, Switch, Vlan
    from pauseframe.devices.read import Reading

_SILENT = {True: "3 s", False: "90 s"}
"""Time after which LACP gives up a silent partner that sends fast or slowly (IEEE 802.1AX, 6.4.4)."""


def _channel(fabric: Fabric, end: End) -> Channel | None:
    switch = fabric.switches.get(end.device)
    return switch.channel_of(end.port) if switch else None


def _pairs(fabric: Fabric) -> Iterator[tuple[End, Channel, End, Channel]]:
    """The two channels of each bundle between switches: (device and channel, the channel), once for each pair."""
    seen = set()
    for link in fabric.links:
        here, there = _channel(fabric, link.a), _channel(fabric, link.b)
        if here is not None and there is not None:
            ends = End(link.a.device, here.name), End(link.b.device, there.name)
            if frozenset(ends) not in seen:
                seen.add(frozenset(ends))
                yield ends[0], here, ends[1], there


@rule(
    "PF083", "lacp-differs", "IEEE 802.1AX §6.4", "SONiC: PORTCHANNEL fast_rate, fallback (teammgrd)", devices=VENDORS
)
def check_lacp(reading: Reading) -> Iterator[Finding]:
    """The two ends of a port channel speak LACP in different ways.

    A static end forwards at once, while the other waits for LACPDUs that never come; of two passive ends neither
    begins. With `fallback` at one end a member forwards before the other end has bundled it. If one end asks for slow
    LACPDUs, it notices a link that fails silently after 90 s, the other after 3 s: until then its flows are lost.

    No incident is known.
    """
    fabric = reading.fabric
    for a, here, b, there in _pairs(fabric):
        places = Place(a.device, "PORTCHANNEL", a.port, "mode"), Place(b.device, "PORTCHANNEL", b.port, "mode")
        modes = here.mode, there.mode
        if (here.mode == "static") != (there.mode == "static"):
            message = f"{here.mode} here, {there.mode} at {shown(str(b))}: one end waits for LACPDUs"
            yield Finding(places[0], message.replace("active", "LACP"), "LACP at both ends", places[1])
        elif modes == ("passive", "passive"):
            yield Finding(
                places[0], f"passive here and at {shown(str(b))}: no end begins", "active at one end", places[1]
            )
        if here.fallback != there.fallback:
            yield _fallback(a if here.fallback else b, b if here.fallback else a)
        if here.fast is not None and there.fast is not None and here.fast != there.fast:
            slow, fast = (b, a) if here.fast else (a, b)
            yield Finding(
                Place(slow.device, "PORTCHANNEL", slow.port, "fast_rate"),
                f"a link that fails silently is noticed after {_SILENT[False]} here, after {_SILENT[True]} at "
                f"{shown(str(fast))}",
                '"fast_rate": "true"',
                Place(fast.device, "PORTCHANNEL", fast.port, "fast_rate"),
                severity=Severity.warning,
                patch=(PatchOperation("PORTCHANNEL", slow.port, "fast_rate", "true", slow.device),),
            )


def _fallback(own: End, far: End) -> Finding:
    return Finding(
        Place(own.device, "PORTCHANNEL", own.port, "fallback"),
        f"fallback is on here and off at {shown(str(far))}: a member forwards that the other end has not bundled",
        '"fallback": "false" between switches',
        Place(far.device, "PORTCHANNEL", far.port, "fallback"),
        severity=Severity.warning,
        patch=(PatchOperation("PORTCHANNEL", own.port, "fallback", "false", own.device),),
    )


@rule(
    "PF084",
    "bond-and-channel-differ",
    "IEEE 802.1AX §6.4",
    "Linux: Documentation/networking/bonding.rst",
    devices=EVERY,
)
def check_bonds(reading: Reading) -> Iterator[Finding]:
    """The bond of a host does not fit the ports of its switches.

    802.3ad needs a port channel with LACP at the other end, at one switch or at two that act as one (MCLAG, or one LACP
    system MAC); balance-xor needs a static channel. With active-backup, balance-tlb or balance-alb the switch must not
    bundle the ports: it waits for LACPDUs that never come, or sends frames to the port that the host does not use.

    No incident is known.
    """
    fabric, peers = reading.fabric, reading.fabric.peers()
    for host in fabric.hosts.values():
        bundled = {name for bond in host.bonds.values() for name in bond.members}
        for bond in host.bonds.values():
            far = {name: peers[End(host.name, name)] for name in bond.members if End(host.name, name) in peers}
            far = {name: end for name, end in far.items() if end.device in fabric.switches}
            yield from _bond(fabric, host, bond, far)
        for name in sorted(host.nics.keys() - bundled):
            end = peers.get(End(host.name, name))
            channel = _channel(fabric, end) if end is not None else None
            if host.forms and end is not None and channel is not None and not channel.fallback:
                yield Finding(
                    Place(host.name, "bond", name),
                    f"{shown(name)} is in no bond, {shown(str(end))} is in {shown(channel.name)}",
                    "a bond with mode 802.3ad, or no port channel",
                    Place(end.device, "PORTCHANNEL_MEMBER", f"{channel.name}|{end.port}"),
                )


def _bond(fabric: Fabric, host: Host, bond: Bond, far: dict[str, End]) -> Iterator[Finding]:
    place = Place(host.name, "bond", bond.name, "mode")
    bundles = bond.mode not in {"active-backup", "balance-tlb", "balance-alb"}
    systems = set()
    for name, end in far.items():
        switch, channel = fabric.switches[end.device], _channel(fabric, end)
        other = Place(end.device, "PORTCHANNEL_MEMBER", f"{channel.name}|{end.port}" if channel else end.port)
        where = f"{shown(name)} leads to {shown(str(end))}"
        if channel is None and bundles and switch.whole and switch.kind != "linux":
            message = f"{shown(bond.name)} is {bond.mode}, and {where}, which is in no port channel"
            yield Finding(place, message, "a port channel at the switch", other)
        elif channel is not None and not bundles:
            message = f"{shown(bond.name)} is {bond.mode}, and {where}, which is in {shown(channel.name)}"
            yield Finding(place, message, "mode 802.3ad, or no port channel at the switch", other)
        elif channel is not None and (bond.mode == "802.3ad") != (channel.mode != "static"):
            message = (
                f"{shown(bond.name)} is {bond.mode}, {shown(channel.name)} is {channel.mode.replace('active', 'LACP')}"
            )
            yield Finding(place, message, "LACP at both ends, or at neither", other)
        if channel is not None:
            systems.add(channel.mclag or f"{end.device} {channel.name}")
    if bundles and len(systems) > 1:
        listed = ", ".join(shown(str(end)) for end in far.values())
        message = f"{shown(bond.name)} leads to channels that do not act as one: {listed}"
        yield Finding(place, message, "one channel, or MCLAG of the two switches")


@rule("PF085", "mclag-differs", "SONiC: MCLAG_DOMAIN, MCLAG_INTERFACE", "IEEE 802.1AX §6.3.2 (system identifier)")
def check_mclag(reading: Reading) -> Iterator[Finding]:
    """Two switches that should act as one (MCLAG) do not agree.

    Their domain, addresses, peer link and channels must fit: a channel that is in the domain of one switch only splits
    its traffic, and the other switch returns frames over the peer link. The channels must be up and in the same VLANs
    at both, and both must have an address in the subnet of such a VLAN: a host sends half of its frames to each.
    The peer link carries lossless traffic once a member fails, so it must pause what the members pause.

    No incident is known.
    """
    fabric = reading.fabric
    by_address = {s.mclag.source: s for s in fabric.switches.values() if s.mclag is not None and s.mclag.source}
    for switch in fabric.switches.values():
        domain = switch.mclag
        if domain is None:
            continue
        place = Place(switch.name, "MCLAG_DOMAIN", domain.domain)
        if not domain.peer_link:
            yield Finding(
                place, "no peer_link: frames for a host with a failed member are lost", "the channel to the peer"
            )
        peer = by_address.get(domain.peer)
        if peer is not None and peer.mclag is not None:
            yield from _domains(place, domain, peer, peer.mclag)
            yield from _interfaces(switch, peer)
            yield from _unlike_peer(fabric, switch, peer)
            yield from _peer_link(fabric, switch, domain, peer)
        yield from _unpaused(switch, domain)


def _domains(place: Place, own: Mclag, peer: Switch, other: Mclag) -> Iterator[Finding]:
    there = Place(peer.name, "MCLAG_DOMAIN", other.domain)
    if own.domain != other.domain and place.device < peer.name:
        yield Finding(place, f"domain {shown(own.domain)} here, {shown(other.domain)} at {shown(peer.name)}", "", there)
    if other.peer != own.source:
        message = f"peer_ip of {shown(peer.name)} is {shown(other.peer)}, its peer here has {shown(own.source)}"
        patch = (PatchOperation("MCLAG_DOMAIN", other.domain, "peer_ip", own.source, peer.name),)
        yield Finding(there, message, f'"peer_ip": "{shown(own.source)}"', place, patch=patch)


def _interfaces(switch: Switch, peer: Switch) -> Iterator[Finding]:
    own, far = ({c.name: c for c in one.channels.values() if c.mclag} for one in (switch, peer))
    for name in sorted(own.keys() - far.keys()):
        domain = own[name].mclag.partition(" ")[0]
        patch = (PatchOperation("MCLAG_INTERFACE", f"{domain}|{name}", "if_type", "PortChannel", peer.name),)
        yield Finding(
            Place(peer.name, "MCLAG_INTERFACE", f"{domain}|{name}"),
            f"{shown(name)} is in the domain at {shown(switch.name)} and not here",
            "the same channels at both switches",
            Place(switch.name, "MCLAG_INTERFACE", f"{domain}|{name}"),
            patch=patch if name in peer.channels else (),
        )


def _unlike_peer(fabric: Fabric, switch: Switch, peer: Switch) -> Iterator[Finding]:
    """Channels of the domain that are down or in no VLAN at the peer, and its VLANs without a gateway.

    Rules PF057 to PF059 compare with the host at the channel, if it has files.
    """
    shared = [c for c in switch.channels.values() if c.mclag and c.name in peer.channels]
    of_hosts = {far for end, far in fabric.peers().items() if end.device in fabric.hosts and far.device == switch.name}
    silent = [c for c in shared if not any(End(switch.name, port) in of_hosts for port in c.members)]
    for channel in silent:
        if channel.up and not peer.channels[channel.name].up:
            yield Finding(
                Place(peer.name, "PORTCHANNEL", channel.name, "admin_status"),
                f"down here, up at {shown(switch.name)}",
                '"up", or "down" at both switches',
                Place(switch.name, "PORTCHANNEL", channel.name, "admin_status"),
                patch=(PatchOperation("PORTCHANNEL", channel.name, "admin_status", "up"),),
            )
    for vlan in switch.vlans.values():
        there = peer.vlans.get(vlan.id)
        for channel in silent:
            yield from _vlan_of_channel(switch, vlan, channel.name, peer, there)
        if any(channel.name in vlan.members for channel in shared):
            yield from _gateways(switch, peer, f"Vlan{vlan.id}")


def _vlan_of_channel(switch: Switch, vlan: Vlan, name: str, peer: Switch, there: Vlan | None) -> Iterator[Finding]:
    """A VLAN of a channel that the channel has not, or otherwise, at the peer."""
    mode, other = vlan.members.get(name), there.members.get(name) if there is not None else None
    if mode is None or mode == other or (other is not None and switch.name > peer.name):
        return
    key = f"Vlan{vlan.id}|{name}"
    yield Finding(
        Place(peer.name, "VLAN_MEMBER", key, "tagging_mode" if other else ""),
        f"{f'{other} here' if other else 'no member here'}, {mode} at {shown(switch.name)}",
        "the same at both switches",
        Place(switch.name, "VLAN_MEMBER", key, "tagging_mode"),
        patch=(PatchOperation("VLAN_MEMBER", key, "tagging_mode", mode),) if there is not None and not other else (),
    )


def _gateways(switch: Switch, peer: Switch, name: str) -> Iterator[Finding]:
    """Subnets of a VLAN in which the peer has no address."""
    pairs = [[(text, bgp.interface(text)) for text in one.addresses.get(name, ())] for one in (switch, peer)]
    networks = {own.network for _, own in pairs[1] if own is not None}
    for text, own in pairs[0]:
        if own is not None and own.network not in networks and not own.ip.is_link_local:
            yield Finding(
                Place(peer.name, "VLAN_INTERFACE", f"{name}|{text}"),
                f"no address in {own.network} here, {shown(switch.name)} has {text}: frames of hosts that arrive here "
                "have no gateway",
                "the same gateway at both switches",
                Place(switch.name, "VLAN_INTERFACE", f"{name}|{text}"),
                patch=(PatchOperation("VLAN_INTERFACE", f"{name}|{text}", "", ""),),
            )


def _members(switch: Switch, name: str) -> list[str]:
    return switch.channels[name].members if name in switch.channels else [name]


def _peer_link(fabric: Fabric, switch: Switch, domain: Mclag, peer: Switch) -> Iterator[Finding]:
    peers = fabric.peers()
    ends = [End(switch.name, port) for port in _members(switch, domain.peer_link)]
    wrong = [peers[end] for end in ends if end in peers and peers[end].device != peer.name]
    if wrong:
        place = Place(switch.name, "MCLAG_DOMAIN", domain.domain, "peer_link")
        message = f"{shown(domain.peer_link)} leads to {shown(str(wrong[0]))}, the peer is {shown(peer.name)}"
        yield Finding(place, message, "the channel to the peer")


def _unpaused(switch: Switch, domain: Mclag) -> Iterator[Finding]:
    """Ports of the peer link that do not pause what members of the domain's channels pause."""
    inside = [port for channel in switch.channels.values() if channel.mclag for port in channel.members]
    paused = {p for port in inside if port in switch.ports for p in switch.ports[port].lossless}
    for name in _members(switch, domain.peer_link):
        port = switch.ports.get(name)
        lacking = paused - port.lossless if port is not None and "PORT_QOS_MAP" in switch.tables else set()
        if lacking and port is not None:
            every = ",".join(map(str, sorted(paused | port.lossless)))
            yield Finding(
                Place(switch.name, "PORT_QOS_MAP", name, "pfc_enable"),
                f"the peer link does not pause {','.join(map(str, sorted(lacking)))}, which MCLAG members pause: "
                "once a member fails, lossless traffic is lost here",
                f'"pfc_enable": "{every}"',
                patch=(PatchOperation("PORT_QOS_MAP", name, "pfc_enable", every),),
            )
