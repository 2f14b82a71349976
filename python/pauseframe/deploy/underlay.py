"""Addresses and routing of a fabric: eBGP between routed ports, and a VLAN with a gateway for the hosts of a switch.

Each switch has its own private AS (RFC 7938, section 5.2, gives the spines of a tier one; with an AS for each switch
the shortest AS path is the shortest path in every topology). SONiC's template turns `multipath-relax` on and advertises
the subnets of VLAN interfaces and Loopback0, so that equal shortest paths are used alike, as `routing.kind = ecmp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from pauseframe.deploy import bonds
from pauseframe.deploy.inventory import DeployError

if TYPE_CHECKING:
    from pauseframe.deploy.design import Design
    from pauseframe.deploy.memory import Rows
    from pauseframe.deploy.plan import PlannedHost

FIRST_AS = 4_200_000_000
"""The first private AS of four bytes (RFC 6996)."""
VLAN = 1000
HOSTS, LINKS, LOOPBACKS = (IPv4Network(text) for text in ("10.0.0.0/9", "10.128.0.0/10", "10.255.0.0/16"))
"""Addresses of hosts, of links between switches, and of the switches themselves (RFC 1918)."""
HOLD_S, KEEP_S = 10, 3
"""Timers of BGP as SONiC's minigraph sets them."""


@dataclass
class Addresses:
    """The addresses of a design."""

    subnets: dict[str, IPv4Network]
    """Subnet of the hosts of each switch."""
    hosts: dict[tuple[str, str], list[IPv4Address]]
    """The addresses of each interface (host, name): one for each TCP class, at least one."""

    @property
    def everything(self) -> IPv4Network:
        """The smallest prefix that has all hosts."""
        found = next(iter(self.subnets.values()))
        while not all(one.subnet_of(found) for one in self.subnets.values()):
            found = found.supernet()
        return found

    def gateway(self, switch: str) -> IPv4Address:
        """The switch in the subnet of its hosts."""
        return self.subnets[switch][1]


def addresses(design: Design) -> Addresses:
    """The addresses of all hosts. Raises DeployError if there are more than the prefix has."""
    classes = max(1, sum(one.kind == "tcp" for one in design.classes))
    racks: dict[str, list[PlannedHost]] = {}
    peers = bonds.pairs(design)
    for host in (face for machine in bonds.machines(design) for face in machine.faces):
        first = min(host.switch, peers.get(host.switch, host.switch), key=design.plan.switches.index)
        racks.setdefault(first, []).append(host)
    wanted = 3 + classes * max(map(len, racks.values()))
    subnets = HOSTS.subnets(new_prefix=32 - (wanted - 1).bit_length())
    found = Addresses({}, {})
    for switch in (name for name in design.plan.switches if name in racks):
        subnet = next(subnets, None)
        if subnet is None or len(design.plan.links) > LINKS.num_addresses // 2:
            raise DeployError(f"{len(design.plan.hosts)} hosts or {len(design.plan.links)} links: too many for 10/8")
        found.subnets[switch] = subnet
        own = racks[switch]
        for at, host in enumerate(own):
            found.hosts[host.name, host.nic] = [subnet[2 + at + len(own) * one] for one in range(classes)]
    for one, other in peers.items():
        if one in found.subnets:
            found.subnets.setdefault(other, found.subnets[one])
    return found


def tables(design: Design, switch: str) -> dict[str, Rows]:
    """DEVICE_METADATA, interfaces, VLAN and BGP sessions of a switch."""
    number = {name: n for n, name in enumerate(design.plan.switches)}
    own, loopback = FIRST_AS + number[switch], f"Loopback0|{LOOPBACKS[number[switch]]}/32"
    subnet = addresses(design).subnets.get(switch)
    found: dict[str, Rows] = {
        "DEVICE_METADATA": {
            "localhost": {
                "hostname": switch,
                "bgp_asn": str(own),
                "type": "LeafRouter" if subnet is None else "ToRRouter",
            }
        },
        "LOOPBACK_INTERFACE": {"Loopback0": {}, loopback: {}},
        "INTERFACE": {},
        "BGP_NEIGHBOR": {},
    }
    bridged = {*bonds.peer_ports(design)}
    for at, (a, b, _) in enumerate(design.plan.links):
        for side, (end, far) in enumerate(((a, b), (b, a))):
            if end.device == switch and end not in bridged:
                local, remote = LINKS[2 * at + side], LINKS[2 * at + 1 - side]
                found["INTERFACE"] |= {end.port: {}, f"{end.port}|{local}/31": {}}
                found["BGP_NEIGHBOR"][str(remote)] = _session(far.device, FIRST_AS + number[far.device], local)
    if subnet is not None:
        bundled = bonds.channels(design, switch)
        inside = {port for ports in bundled.values() for port in ports}
        ports = [host.port for host in design.plan.hosts if host.switch == switch and host.port not in inside]
        found["VLAN"] = {f"Vlan{VLAN}": {"vlanid": str(VLAN)}}
        found["VLAN_MEMBER"] = {f"Vlan{VLAN}|{port}": {"tagging_mode": "untagged"} for port in (*bundled, *ports)}
        found["VLAN_INTERFACE"] = {f"Vlan{VLAN}": {}, f"Vlan{VLAN}|{subnet[1]}/{subnet.prefixlen}": {}}
        if bridged & {*design.ends(switch)}:
            found["VLAN_MEMBER"][f"Vlan{VLAN}|{bonds.PEER}"] = {"tagging_mode": "tagged"}
        found |= bonds.tables(design, switch, {name: LOOPBACKS[n] for name, n in number.items()})
    return {name: rows for name, rows in found.items() if rows}


def _session(name: str, asn: int, local: IPv4Address) -> dict[str, str]:
    timers = {"holdtime": str(HOLD_S), "keepalive": str(KEEP_S)}
    return {"name": name, "asn": str(asn), "local_addr": str(local), "admin_status": "up", **timers}
