"""Rule PF064: addresses of interfaces, at switches and hosts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.devices import bgp
from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Place
from pauseframe.lint.finding import HOSTS, VENDORS, Finding, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pauseframe.devices.bgp import Address, Interface
    from pauseframe.devices.model import Fabric, Host, HostRoute, Switch
    from pauseframe.devices.read import Reading

    Owners = dict[Address, tuple[str, str]]


class _Own(NamedTuple):
    """An address of an interface."""

    device: str
    interface: str
    address: Interface

    @property
    def place(self) -> Place:
        return Place(self.device, _table(self.interface), f"{self.interface}|{self.address}")


def _table(interface: str) -> str:
    """The table of CONFIG_DB that has the addresses of an interface."""
    kinds = {"PortChannel": "PORTCHANNEL_INTERFACE", "Vlan": "VLAN_INTERFACE", "Loopback": "LOOPBACK_INTERFACE"}
    if "." in interface:
        return "VLAN_SUB_INTERFACE"
    return next((table for begin, table in kinds.items() if interface.startswith(begin)), "INTERFACE")


@rule("PF064", "address-conflict", "RFC 5227; SONiC: INTERFACE, PORTCHANNEL_INTERFACE, LOOPBACK_INTERFACE",
      devices=(*VENDORS, *HOSTS))  # fmt: skip
def check_addresses(reading: Reading) -> Iterator[Finding]:
    """Two devices have the same IP address or MAC address, or the two ends of a routed link have different subnets.

    Routing sessions over the link do not come up, or come up with the wrong device. The same holds if only one end has
    an address. A host must be in the subnet of its switch, with the same length of prefix, and its gateway must be the
    address of a device. A *warning*: two interfaces of a switch have overlapping subnets, so that one of them gets the
    traffic of both, or the subnet of a loopback interface has the loopback address of another switch.

    No incident is known.
    """
    fabric = reading.fabric
    switches = {switch.name: list(_addresses(switch)) for switch in fabric.switches.values()}
    owner: Owners = {}
    by_port: dict[End, list[Interface]] = defaultdict(list)
    for device, own in switches.items():
        for one in own:
            ip = one.address.ip
            first = owner.setdefault(ip, (device, one.interface))
            # Anycast gateways and the two leaves of a dual-homed rack share the address of a VLAN.
            if first != (device, one.interface) and not _is_vlan(one.interface) and not ip.is_link_local:
                yield Finding(one.place, f"{ip} is also the address of {shown(':'.join(first))}", "its address")
            by_port[End(device, one.interface)].append(one.address)
        yield from _overlaps(own)
    yield from _wide_loopbacks(one for own in switches.values() for one in own)
    for link in fabric.links:
        if link.a.device in switches and link.b.device in switches:
            yield from _subnets(fabric, (link.a, link.b), by_port)
    yield from _same_mac(reading)
    yield from _of_hosts(fabric, owner, by_port)


def _addresses(switch: Switch) -> Iterator[_Own]:
    for interface, texts in switch.addresses.items():
        for text in texts:
            if (address := bgp.interface(text)) is not None:
                yield _Own(switch.name, interface, address)


def _is_vlan(interface: str) -> bool:
    return interface.lower().startswith("vlan")


def _is_loopback(interface: str) -> bool:
    return interface.lower().startswith("lo")


def _overlaps(own: Iterable[_Own]) -> Iterator[Finding]:
    """Interfaces of one switch whose subnets overlap."""
    nets = [one for one in own if one.address.network.num_addresses > 1 and not one.address.ip.is_link_local]
    nets.sort(key=lambda one: (one.address.version, one.address.network.network_address, one.address.network.prefixlen))
    widest = nets[0] if nets else None
    for one in nets[1:]:
        if widest is None or one.address.network.network_address not in widest.address.network:
            widest = one
        elif widest.interface != one.interface and widest.address.ip != one.address.ip:
            message = f"{one.address} overlaps {widest.address} of {shown(widest.interface)}"
            yield Finding(one.place, message, "subnets that do not overlap", widest.place, severity=Severity.warning)


def _wide_loopbacks(every: Iterable[_Own]) -> Iterator[Finding]:
    """Loopback interfaces whose subnet has the loopback address of another switch."""
    loopbacks = [one for one in every if _is_loopback(one.interface)]
    for wide in loopbacks:
        if wide.address.network.num_addresses == 1 or wide.address.version == 6:
            continue
        inside = [one for one in loopbacks if one.device != wide.device and one.address.version == wide.address.version]
        inside = [one for one in inside if one.address.ip in wide.address.network]
        if inside:
            yield Finding(
                wide.place,
                f"the subnet {wide.address.network} has {inside[0].address.ip} of {shown(inside[0].device)}",
                f"{wide.address.ip}/32",
                inside[0].place,
                severity=Severity.warning,
            )


def _subnets(fabric: Fabric, link: tuple[End, End], by_port: dict[End, list[Interface]]) -> Iterator[Finding]:
    ends = [_routed_end(fabric, end) for end in link]
    for version in (4, 6):
        here, there = ([a for a in by_port.get(end, ()) if a.version == version] for end in ends)
        if here and there and not {a.network for a in here} & {a.network for a in there}:
            one, other = _own(ends[0], here[0]), _own(ends[1], there[0])
            yield Finding(
                one.place,
                f"{here[0]} here, {there[0]} at {shown(str(ends[1]))}: not one subnet",
                "addresses of one subnet at both ends",
                other.place,
            )
        elif version == 4 and bool(here) != bool(there) and (ends[0] == link[0]) == (ends[1] == link[1]):
            lacking, other = (ends[0], _own(ends[1], there[0])) if there else (ends[1], _own(ends[0], here[0]))
            if _lacks_address(fabric, lacking, by_port):
                yield Finding(
                    Place(lacking.device, _table(lacking.port), lacking.port),
                    f"no address here, {other.address} at {shown(f'{other.device}:{other.interface}')}",
                    f"an address in {other.address.network}",
                    other.place,
                )


def _own(end: End, address: Interface) -> _Own:
    return _Own(end.device, end.port, address)


def _lacks_address(fabric: Fabric, end: End, by_port: dict[End, list[Interface]]) -> bool:
    """Whether an end without an address needs one: a port outside of VLANs at a switch that has other routed ports."""
    switch = fabric.switches[end.device]
    channel = switch.channels.get(end.port)
    ports = {end.port, *(channel.members if channel else ())}
    inside = any(ports & vlan.members.keys() for vlan in switch.vlans.values())
    others = [port for port in by_port if port.device == end.device and not _is_vlan(port.port)]
    others = [port for port in others if not _is_loopback(port.port)]
    divided = any(port.port.startswith(f"{end.port}.") for port in others)
    return switch.whole and switch.kind == "sonic" and not inside and bool(others) and not divided


def _routed_end(fabric: Fabric, end: End) -> End:
    """The port channel of a member port, because the channel has the addresses."""
    switch = fabric.switches.get(end.device)
    channel = switch.channel_of(end.port) if switch else None
    return End(end.device, channel.name) if channel else end


def _same_mac(reading: Reading) -> Iterator[Finding]:
    owner: dict[str, str] = {}
    for device, database in reading.databases.items():
        mac = database.rows("DEVICE_METADATA").get("localhost", {}).get("mac", "").lower()
        if mac and owner.setdefault(mac, device) != device:
            place = Place(device, "DEVICE_METADATA", "localhost", "mac")
            yield Finding(place, f"{shown(mac)} is also the MAC address of {shown(owner[mac])}", "the device's own")


def _of_hosts(fabric: Fabric, switches: Owners, by_port: dict[End, list[Interface]]) -> Iterator[Finding]:
    """Addresses of hosts that another device has, or that are in another subnet than their switch; and gateways."""
    owner: Owners = {}
    for host in fabric.hosts.values():
        for interface, address in _of_host(host):
            first = owner.setdefault(address.ip, switches.get(address.ip, (host.name, interface)))
            if first[0] != host.name and address.network.num_addresses > 1 and not address.ip.is_link_local:
                message = f"{address.ip} is also the address of {shown(':'.join(first))}"
                yield Finding(Place(host.name, "address", f"{address} {interface}"), message, "its address")
    yield from _at_switches(fabric, by_port)
    # Gateways may be routers without files, unless those of other hosts are switches.
    routes = [(host, route) for host in fabric.hosts.values() for route in host.routes if route.gateway]
    if any(bgp.address(route.gateway) in switches for _, route in routes):
        for host, route in {(host.name, route.gateway): (host, route) for host, route in routes}.values():
            yield from _unknown_gateway(host, route, switches, owner)


def _at_switches(fabric: Fabric, by_port: dict[End, list[Interface]]) -> Iterator[Finding]:
    """Hosts that are in another subnet than their switch; an interface with several ports is judged at the first."""
    checked = set()
    for link in fabric.links:
        for end, far in link.ends():
            host, switch = fabric.hosts.get(end.device), fabric.switches.get(far.device)
            for interface, vlan, texts in _at_port(host, end.port) if host is not None and switch is not None else ():
                if (end.device, interface) not in checked and host is not None and switch is not None:
                    checked.add((end.device, interface))
                    yield from _at_switch(host, interface, texts, _gateways(switch, far.port, vlan, by_port))


def _of_host(host: Host) -> Iterator[tuple[str, Interface]]:
    for nic in host.nics.values():
        for name, texts in ((nic.name, nic.addresses), *((v.interface, v.addresses) for v in nic.vlans.values())):
            for text in texts:
                if (address := bgp.interface(text)) is not None:
                    yield name, address


def _at_port(host: Host, port: str) -> Iterator[tuple[str, int | None, list[str]]]:
    """(interface, VLAN or None for untagged frames, its addresses) of a wired port, or of the bond that has it."""
    nic = host.logical(port)
    if nic is not None:
        yield nic.name, None, nic.addresses
        for vlan in nic.vlans.values():
            yield vlan.interface, vlan.id, vlan.addresses


def _gateways(switch: Switch, port: str, vlan: int | None, by_port: dict[End, list[Interface]]) -> list[_Own]:
    """The addresses of a switch for what arrives at a port, untagged or in a VLAN."""
    names = [] if vlan is not None else [port]
    if vlan is not None:
        names = [f"Vlan{vlan}", f"vlan{vlan}"]
    else:
        names += [f"Vlan{v.id}" for v in switch.vlans.values() if v.members.get(port, "tagged") != "tagged"]
    return [_Own(switch.name, name, address) for name in names for address in by_port.get(End(switch.name, name), ())]


def _at_switch(host: Host, interface: str, texts: list[str], gateways: list[_Own]) -> Iterator[Finding]:
    """Addresses of an interface of a host that are in no subnet of its switch."""
    networks = {own.address.network for own in gateways}
    for text in texts:
        address = bgp.interface(text)
        if address is None or address.network.num_addresses == 1 or address.ip.is_link_local:
            continue
        alike = [own for own in gateways if own.address.version == address.version]
        if alike and address.network not in networks:
            far = alike[0]
            yield Finding(
                Place(host.name, "address", f"{text} {interface}"),
                f"{text} here, {far.address} at {shown(f'{far.device}:{far.interface}')}: not one subnet",
                f"an address of {far.address.network}, or another subnet at the switch",
                far.place,
            )


def _unknown_gateway(host: Host, route: HostRoute, switches: Owners, owner: Owners) -> Iterator[Finding]:
    """The gateway of a route that is the address of no device."""
    address = bgp.address(route.gateway)
    if address is None or address in switches or address in owner or address.is_link_local:
        return
    near = [own for own in switches if own.version == address.version and _reaches(host, route.interface, own)]
    yield Finding(
        Place(host.name, "route", f"{route.destination} {route.interface}", "via"),
        f"no device has the address of the gateway {address}",
        str(near[0]) if len(near) == 1 else "an address of its switch",
    )


def _reaches(host: Host, interface: str, address: Address) -> bool:
    own = (found for name, found in _of_host(host) if name == interface)
    return any(found.version == address.version and address in found.network for found in own)
