"""Rules PF08x: the members of a port channel must match, at both ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import DEFAULT_MTU, End, Place
from pauseframe.devices.wiring import is_port_of_switch
from pauseframe.lint.finding import VENDORS, Finding, PatchOperation, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pauseframe.devices.bundles import Channel
    from pauseframe.devices.model import Fabric, Port, Switch
    from pauseframe.devices.read import Reading

_ALIKE: dict[str, tuple[str, Callable[[Port], object]]] = {
    "speed": ("PORT", lambda port: port.speed),
    "fec": ("PORT", lambda port: port.fec),
    "pfc_enable": ("PORT_QOS_MAP", lambda port: ",".join(map(str, sorted(port.lossless)))),
    "dscp_to_tc_map": ("PORT_QOS_MAP", lambda port: port.qos.dscp_to_tc),
    "dot1p_to_tc_map": ("PORT_QOS_MAP", lambda port: port.qos.dot1p_to_tc),
    "tc_to_pg_map": ("PORT_QOS_MAP", lambda port: port.qos.tc_to_pg),
    "tc_to_queue_map": ("PORT_QOS_MAP", lambda port: port.qos.tc_to_queue),
    "pfc_to_queue_map": ("PORT_QOS_MAP", lambda port: port.qos.pfc_to_queue),
}
"""Properties that all members of a port channel must share: field, with its table and value."""


def _channels(reading: Reading) -> Iterator[tuple[Switch, Channel]]:
    for switch in reading.fabric.switches.values():
        for channel in switch.channels.values():
            yield switch, channel


@rule("PF080", "channel-members-differ", "IEEE 802.1AX §6.3, §6.4 (aggregation keys)", devices=VENDORS)
def check_members(reading: Reading) -> Iterator[Finding]:
    """The members of a port channel differ in speed, FEC, MTU, paused priorities or maps.

    LACP bundles links of one speed only; a member of another speed stays outside. A flow is hashed to any member, so a
    member that does not pause, or maps code points differently, loses packets of some flows only.

    No incident is known.
    """
    for switch, channel in _channels(reading):
        ports = [switch.ports[name] for name in channel.members if name in switch.ports]
        for field, (table, value) in _ALIKE.items():
            if table in switch.tables and len({value(port) for port in ports}) > 1:
                yield _odd_member(switch, channel, ports, table, field, value)
        if "PORT" in switch.tables:
            yield from _mtus(switch, channel, ports)


def _odd_member(
    switch: Switch, channel: Channel, ports: list[Port], table: str, field: str, value: Callable[[Port], object]
) -> Finding:
    usual, _ = Counter(map(value, ports)).most_common(1)[0]
    odd = next(port for port in ports if value(port) != usual)
    other = next(port for port in ports if value(port) == usual)
    has = f"has {field} {value(odd)}" if value(odd) else f"has no {field}"
    most = sum(value(port) == usual for port in ports) * 2 > len(ports) and (usual is not None or table == "PORT")
    right = None if usual is None else str(usual)
    return Finding(
        Place(switch.name, table, odd.name, field),
        f"{shown(odd.name)} of {shown(channel.name)} {has}, {shown(other.name)} has {usual or 'none'}",
        "the same for all members",
        Place(switch.name, table, other.name, field),
        patch=(PatchOperation(table, odd.name, field, right),) if most else (),
    )


def _mtus(switch: Switch, channel: Channel, ports: list[Port]) -> Iterator[Finding]:
    """The MTU of a member must equal that of its channel or, if the channel has none, that of the other members."""
    usual = channel.mtu or Counter(port.mtu or DEFAULT_MTU for port in ports).most_common(1)[0][0] if ports else None
    for port in ports:
        if usual is not None and (port.mtu or DEFAULT_MTU) != usual:
            whose = shown(channel.name) if channel.mtu else "the other members"
            yield Finding(
                Place(switch.name, "PORT", port.name, "mtu"),
                f"MTU {port.mtu or DEFAULT_MTU}, {whose} {'has' if channel.mtu else 'have'} {usual}",
                f'"{usual}"',
                patch=(PatchOperation("PORT", port.name, "mtu", str(usual)),),
            )


@rule(
    "PF081",
    "channel-too-small",
    "IEEE 802.1AX; SONiC: PORTCHANNEL min_links",
    severity=Severity.warning,
    devices=VENDORS,
)
def check_size(reading: Reading) -> Iterator[Finding]:
    """A port channel has no members, or fewer usable ones than `min_links`: it stays down.

    With exactly `min_links` members a channel goes down with the first failed link; the rule reports that only if other
    channels of the switch have spare members.

    No incident is known.
    """
    for switch, channel in _channels(reading):
        if not switch.whole:
            continue
        up = [name for name in channel.members if name not in switch.ports or switch.ports[name].up]
        place = Place(switch.name, "PORTCHANNEL", channel.name, "min_links")
        if not channel.members:
            message = f"{shown(channel.name)} has no member in PORTCHANNEL_MEMBER"
            yield Finding(place, message, "its members, or no such channel", severity=Severity.error)
        elif channel.min_links is not None and channel.min_links > len(up):
            message = f"min_links is {channel.min_links}, {len(up)} members can be up: the channel stays down"
            yield Finding(
                place,
                message,
                f"at most {len(up)}",
                severity=Severity.error,
                patch=(PatchOperation("PORTCHANNEL", channel.name, "min_links", str(len(up))),) if up else (),
            )


@rule("PF082", "channel-ends-differ", "IEEE 802.1AX §6.2 (link aggregation groups)", devices=VENDORS)
def check_ends(reading: Reading) -> Iterator[Finding]:
    """The two ends of a link disagree on the port channel that it belongs to.

    One end bundles the link and the other does not, or links of one channel lead to several channels or devices. LACP
    excludes such a link; a static channel sends frames into it that the other end drops or returns. Two switches that
    act as one (MCLAG) are exempt.

    No incident is known.
    """
    fabric = reading.fabric
    behind: dict[End, dict[End, End]] = defaultdict(dict)
    alone: list[tuple[End, End]] = []
    for link in fabric.links:
        if link.a.device not in fabric.switches or link.b.device not in fabric.switches:
            continue
        here, there = _channel_end(fabric, link.a), _channel_end(fabric, link.b)
        for end, own, far in ((link.a, here, there), (link.b, there, here)):
            if own is not None and far is not None:
                behind[own].setdefault(far, end)
        if (here is None) != (there is None) and _knows_channels(fabric, link.b if there is None else link.a):
            alone.append((link.a, link.b) if there is None else (link.b, link.a))
    for inside, outside in alone:
        channel = _channel_end(fabric, inside) or inside
        yield _outside(inside, outside, channel, [far for far in behind[channel] if far.device == outside.device])
    for own, channels in behind.items():
        if len(channels) > 1 and "MCLAG_DOMAIN" not in fabric.switches[own.device].tables:
            yield from _several(own, channels, fabric)
    yield from _states(fabric, behind)
    yield from _scattered(fabric)


def _is_host(fabric: Fabric, end: End) -> bool:
    known = "host" if end.device in fabric.hosts else fabric.roles.get(end.device)
    return known == "host" or (known is None and not is_port_of_switch(end.port))


def _scattered(fabric: Fabric) -> Iterator[Finding]:
    """Channels whose members lead to several hosts."""
    peers = fabric.peers()
    for switch in fabric.switches.values():
        for channel in switch.channels.values():
            far = {name: peers[End(switch.name, name)] for name in channel.members if End(switch.name, name) in peers}
            hosts = {
                end.device: name
                for name, end in far.items()
                if end.device not in fabric.switches and _is_host(fabric, end)
            }
            if len(hosts) > 1:
                listed = ", ".join(f"{shown(name)} to {shown(device)}" for device, name in sorted(hosts.items()))
                yield Finding(
                    Place(switch.name, "PORTCHANNEL_MEMBER", f"{channel.name}|{max(hosts.values())}"),
                    f"the members of {shown(channel.name)} lead to several hosts: {listed}",
                    "a channel for each host",
                )


def _outside(inside: End, outside: End, channel: End, others: list[End]) -> Finding:
    """A link in a channel at one end only; `others` are the channels to which the channel's other links lead."""
    key = f"{others[0].port}|{outside.port}" if len(others) == 1 else ""
    return Finding(
        Place(outside.device, "PORTCHANNEL_MEMBER", outside.port),
        f"in no channel here, {shown(str(inside))} is in {shown(channel.port)}",
        f"{shown(key)}, as the other links" if key else "a member at both ends, or at neither",
        Place(inside.device, "PORTCHANNEL_MEMBER", f"{channel.port}|{inside.port}"),
        patch=(PatchOperation("PORTCHANNEL_MEMBER", key, "", ""),) if key else (),
    )


def _knows_channels(fabric: Fabric, end: End) -> bool:
    """True if the files of a switch would show that a port is in a channel."""
    return fabric.switches[end.device].whole


def _channel_end(fabric: Fabric, end: End) -> End | None:
    channel = fabric.switches[end.device].channel_of(end.port)
    return End(end.device, channel.name) if channel else None


def _several(own: End, channels: dict[End, End], fabric: Fabric) -> Iterator[Finding]:
    far_mclag = all("MCLAG_DOMAIN" in fabric.switches[far.device].tables for far in channels)
    if far_mclag and len({far.device for far in channels}) == len(channels):
        return
    listed = ", ".join(f"{shown(end.port)} to {shown(str(far))}" for far, end in sorted(channels.items(), key=str))
    last = max(channels.items(), key=str)[1]
    yield Finding(
        Place(own.device, "PORTCHANNEL_MEMBER", f"{own.port}|{last.port}"),
        f"the members of {shown(own.port)} lead to several channels: {listed}",
        "one channel at the other end",
    )


def _states(fabric: Fabric, behind: dict[End, dict[End, End]]) -> Iterator[Finding]:
    """Faults of a channel as a whole: shut down, another MTU, or other VLANs at one end."""
    for own, channels in behind.items():
        if len(channels) != 1 or str(own) > str(next(iter(channels))):
            continue
        far = next(iter(channels))
        here, there = (fabric.switches[end.device].channels[end.port] for end in (own, far))
        mtu = max(here.mtu or DEFAULT_MTU, there.mtu or DEFAULT_MTU)
        for field, one, other, right in (
            ("admin_status", here.up, there.up, "up"),
            ("mtu", here.mtu, there.mtu, str(mtu)),
        ):
            if one != other:
                yield Finding(
                    Place(own.device, "PORTCHANNEL", own.port, field),
                    f"{field} differs from that of {shown(str(far))}",
                    f'"{right}" at both ends',
                    Place(far.device, "PORTCHANNEL", far.port, field),
                    patch=tuple(
                        PatchOperation("PORTCHANNEL", end.port, field, right, end.device) for end in (own, far)
                    ),
                )
        if here.min_links != there.min_links and len(here.members) == len(there.members):
            yield Finding(
                Place(own.device, "PORTCHANNEL", own.port, "min_links"),
                f"min_links {here.min_links} here, {there.min_links} at {shown(str(far))}: one end goes down first",
                "the same at both ends",
                Place(far.device, "PORTCHANNEL", far.port, "min_links"),
            )
