"""Rules PF057 and PF058: the two ends of a link must be in the same VLANs, tagged alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Place
from pauseframe.lint.finding import EVERY, Finding, PatchOperation, Severity, rule
from pauseframe.lint.rules.ends import host_links, switch_links

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Fabric, Host, Nic, Switch
    from pauseframe.devices.read import Reading


def _member_of(fabric: Fabric, end: End) -> End:
    """What rows of VLAN_MEMBER name: the port channel of a port, if it is in one."""
    switch = fabric.switches.get(end.device)
    channel = switch.channel_of(end.port) if switch is not None else None
    return end if channel is None else End(end.device, channel.name)


def _between(reading: Reading) -> Iterator[tuple[tuple[End, Switch], tuple[End, Switch]]]:
    """The two ends of each link between switches, or of each bundle of links."""
    seen = set()
    for link, one, _, two, _ in switch_links(reading):
        ends = _member_of(reading.fabric, link.a), _member_of(reading.fabric, link.b)
        if frozenset(ends) not in seen:
            seen.add(frozenset(ends))
            yield (ends[0], one), (ends[1], two)


def _hosts(reading: Reading) -> Iterator[tuple[Host, Nic, End, Switch]]:
    """Interfaces of hosts (of a bond the bond) and what they hang at: (host, interface, other end, switch)."""
    fabric, seen = reading.fabric, set()
    for link, _, _, end in host_links(reading):
        host, far = fabric.hosts[end.device], _member_of(fabric, link.b if link.a == end else link.a)
        nic = host.logical(end.port)
        if nic is not None and (host.name, nic.name, far) not in seen:
            seen.add((host.name, nic.name, far))
            yield host, nic, far, fabric.switches[far.device]


@rule("PF058", "tagging-differs", "IEEE 802.1Q §6.9, §8.8.2", severity=Severity.error, devices=EVERY)
def check_tagging(reading: Reading) -> Iterator[Finding]:
    """A VLAN is tagged at one end of a link between switches and untagged at the other, or untagged in two VLANs.

    An untagged frame has no 802.1p priority and enters the VLAN that is untagged at the other end: another VLAN, or
    none. If 802.1p selects the lossless priorities, the frame is lossy from there on. The same holds for a host: one
    with an address at the interface itself (or at its bond) sends untagged frames, which a port or port channel drops
    that is tagged in all its VLANs, and one that is no member and has no address.

    No incident is known.
    """
    for (a, one), (b, two) in _between(reading):
        if one.kind != two.kind or not {"VLAN_MEMBER"} <= one.tables & two.tables:
            continue
        modes = [
            {vlan.id: vlan.members[end.port] for vlan in switch.vlans.values() if end.port in vlan.members}
            for switch, end in ((one, a), (two, b))
        ]
        for vlan in sorted(set(modes[0]) & set(modes[1])):
            if (modes[0][vlan] == "tagged") != (modes[1][vlan] == "tagged"):
                message = f"{modes[0][vlan]} here, {modes[1][vlan]} at {shown(str(b))}"
                odd = a if modes[0][vlan] != "tagged" else b
                yield _tagging((a, b), (vlan, vlan), message, _member(odd, vlan, "tagged"))
        native = [{vlan for vlan, mode in of_end.items() if mode != "tagged"} for of_end in modes]
        only = [sorted(native[n] - set(modes[1 - n])) for n in (0, 1)]
        if only[0] and only[1]:
            message = f"untagged frames are in Vlan{only[0][0]} here, in Vlan{only[1][0]} at {shown(str(b))}"
            yield _tagging((a, b), (only[0][0], only[1][0]), message)
    yield from _host_untagged(reading)


def _host_untagged(reading: Reading) -> Iterator[Finding]:
    """Hosts that send untagged frames to a port without an untagged VLAN or address."""
    for host, nic, far, switch in _hosts(reading):
        table = "PORTCHANNEL_INTERFACE" if far.port in switch.channels else "INTERFACE"
        routed = any(key.partition("|")[0] == far.port for key in reading.rows(far.device, table))
        others = [mode for vlan in switch.vlans.values() for mode in vlan.members.values()]
        if not nic.addresses or routed or switch.kind != "sonic" or "untagged" not in others:
            continue
        modes = {vlan.id: vlan.members[far.port] for vlan in switch.vlans.values() if far.port in vlan.members}
        if "untagged" in modes.values():
            continue
        vlan = min(modes, default=min(v.id for v in switch.vlans.values() if "untagged" in v.members.values()))
        what = "port channel" if far.port in switch.channels else "port"
        yield Finding(
            Place(far.device, "VLAN_MEMBER", f"Vlan{vlan}|{far.port}", "tagging_mode" if modes else ""),
            f"{shown(f'{host.name}:{nic.name}')} has addresses without a VLAN, this {what} is "
            f"{'tagged in all' if modes else 'in none'}: its frames are dropped",
            '"untagged"',
            Place(host.name, "address", nic.name),
            patch=_member(far, vlan, "untagged") if len(modes) == 1 else (),
        )


def _tagging(
    ends: tuple[End, End], vlans: tuple[int, int], message: str, patch: tuple[PatchOperation, ...] = ()
) -> Finding:
    here, there = (
        Place(end.device, "VLAN_MEMBER", f"Vlan{vlan}|{end.port}", "tagging_mode")
        for end, vlan in zip(ends, vlans, strict=True)
    )
    return Finding(here, message, "tagged at both ends", there, patch=patch)


@rule("PF057", "vlan-at-one-end", "IEEE 802.1Q §8.6.2 (ingress filtering)", severity=Severity.warning, devices=EVERY)
def check_vlans(reading: Reading) -> Iterator[Finding]:
    """A VLAN is configured at one end only of a link between switches, or at a host and not at the port of its switch.

    The other end drops frames of that VLAN at its ingress. Port channels and bonds are judged as one.

    No incident is known.
    """
    yield from _host_vlans(reading)
    for ends in _between(reading):
        for (end, one), (far, two) in (ends, ends[::-1]):
            if "VLAN_MEMBER" in one.tables and two.whole and one.kind == two.kind:
                yield from _lacking(end, one, far, two)


def _lacking(end: End, one: Switch, far: End, two: Switch) -> Iterator[Finding]:
    """The VLANs of one end of which the other is no member."""
    for vlan in one.vlans.values():
        there, mode = two.vlans.get(vlan.id), vlan.members.get(end.port)
        if mode is None or (there is not None and far.port in there.members):
            continue
        if mode != "tagged" and any(v.members.get(far.port, "tagged") != "tagged" for v in two.vlans.values()):
            continue  # rule PF058 reports VLANs that differ
        yield Finding(
            Place(one.name, "VLAN_MEMBER", f"Vlan{vlan.id}|{end.port}"),
            f"{mode} here, {shown(str(far))} is no member of Vlan{vlan.id}",
            f"VLAN_MEMBER Vlan{vlan.id}|{shown(far.port)} there, or neither",
            Place(two.name, "VLAN_MEMBER", f"Vlan{vlan.id}|{far.port}"),
            patch=_member(far, vlan.id, mode) if there is not None and mode == "tagged" else (),
        )


def _host_vlans(reading: Reading) -> Iterator[Finding]:
    """VLANs of hosts of which the port of the switch is no member."""
    for host, nic, far, switch in _hosts(reading):
        known = switch.whole and any(vlan.members for vlan in switch.vlans.values())
        for vlan in nic.vlans.values() if known else ():
            there = switch.vlans.get(vlan.id)
            if there is None or far.port not in there.members:
                yield Finding(
                    Place(host.name, "vlan", vlan.interface, "id"),
                    f"VLAN {vlan.id} here, {shown(str(far))} is no member of it",
                    f"a VLAN of {shown(str(far))}",
                    Place(far.device, "VLAN_MEMBER", f"Vlan{vlan.id}|{far.port}"),
                    patch=_member(far, vlan.id, "tagged") if there is not None else (),
                )


def _member(end: End, vlan: int, mode: str) -> tuple[PatchOperation, ...]:
    return (PatchOperation("VLAN_MEMBER", f"Vlan{vlan}|{end.port}", "tagging_mode", mode, end.device),)
