"""Hosts with several ports: a bond with port channels at their switches, or an address for each port.

Two switches with one bond are a pair of MCLAG (SONiC), whose session runs between their loopbacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pauseframe.deploy import quantities
from pauseframe.deploy.inventory import DeployError
from pauseframe.deploy.plan import joined_switches
from pauseframe.devices.files import shown
from pauseframe.devices.model import End

if TYPE_CHECKING:
    from ipaddress import IPv4Address

    from pauseframe.deploy.design import Design
    from pauseframe.deploy.inventory import Inventory
    from pauseframe.deploy.memory import Rows
    from pauseframe.deploy.plan import Plan, PlannedHost

NAME = "bond0"
MODES = {
    "802.3ad": "802.3ad",
    "queue_affinity": "802.3ad",
    "active-backup": "active-backup",
    "least_loaded": "balance-tlb",
}
"""Mode of the Linux driver by host.port_choice; `rail` has no bond."""
PEER, PEER_PORT = "PortChannel0", "peer"
"""The channel of the peer link, and the name of its port in inventory.csv if the scenario has no such link."""
KEEPALIVE_S, TIMEOUT_S = 1, 30
"""MCLAG's default times (sonic-mclag.yang)."""
Channels = dict[str, list[str]]
"""The ports of each port channel."""


@dataclass(frozen=True)
class Bond:
    """The bonds of a scenario's hosts, which are alike (Documentation/networking/bonding.rst)."""

    mode: str
    policy: str
    miimon: int
    """ms"""
    fast: bool

    @property
    def lacp(self) -> bool:
        """True if the switches bundle the ports as well."""
        return self.mode == "802.3ad"

    @property
    def options(self) -> dict[str, str]:
        """Options of `ip link add type bond` (ip-link(8))."""
        found = {"mode": self.mode, "miimon": str(self.miimon)}
        return found | ({"xmit_hash_policy": self.policy, "lacp_rate": self._rate} if self.lacp else {})

    @property
    def networkd(self) -> str:
        """The section of a .netdev file (systemd.netdev(5))."""
        own = f"[Bond]\nMode={self.mode}\nMIIMonitorSec={self.miimon}ms\n"
        return own + (f"TransmitHashPolicy={self.policy}\nLACPTransmitRate={self._rate}\n" if self.lacp else "")

    @property
    def _rate(self) -> str:
        return "fast" if self.fast else "slow"


def of(design: Design) -> Bond | None:
    """The bond of hosts with several ports; None if no host has several, or each port has its own address.

    Raises DeployError for a choice of ports that the switches cannot follow.
    """
    several = {name: ports for name, ports in design.machines.items() if len(ports) > 1}
    own = design.scenario["host"]
    choice = own["port_choice"]
    if not several or choice == "rail":
        return None
    if choice not in MODES:
        lacp = "it needs a static port channel, and port channels of SONiC speak LACP"
        why = "deploy writes no mux cables" if choice == "mux" else lacp
        raise DeployError(
            f'host.port_choice {choice}: {why}; set "802.3ad" for a bond, or "rail" for an address of each port'
        )
    bond = Bond(
        MODES[choice], own["hash_policy"], round(1e3 * quantities.number(own["miimon"])), own["lacp_rate"] == "fast"
    )
    for name, ports in several.items():
        at = list(dict.fromkeys(port.switch for port in ports))
        if len(at) > 2 or (len(at) == 2 and not bond.lacp):
            listed = ", ".join(map(shown, at))
            raise DeployError(
                f"{shown(name)} has ports at {listed}: a bond of mode {bond.mode} needs one switch"
                + (", or two as a pair of MCLAG" if bond.lacp else "")
                + '; set host.port_choice = "rail" for an address of each port'
            )
    return bond


@dataclass(frozen=True)
class Machine:
    """A host: its ports in the order of its links, and its interfaces with addresses, ports or a bond of them."""

    name: str
    ports: tuple[PlannedHost, ...]
    faces: tuple[PlannedHost, ...]
    bond: Bond | None = None


def machines(design: Design) -> list[Machine]:
    """The hosts of a design. A bond is at its first switch."""
    bond, found = of(design), []
    for name, ports in design.machines.items():
        if bond is not None and len(ports) > 1:
            found.append(Machine(name, tuple(ports), (replace(ports[0], nic=NAME),), bond))
        else:
            found.append(Machine(name, tuple(ports), tuple(ports)))
    return found


def pairs(design: Design) -> dict[str, str]:
    """The MCLAG peer of each switch that has one. Raises DeployError unless the switches of the hosts form pairs."""
    found: dict[str, str] = {}
    for name, ports in design.machines.items() if of(design) is not None else ():
        at = list(dict.fromkeys(port.switch for port in ports))
        for one, other in (at, at[::-1]) if len(at) == 2 else ():
            if found.setdefault(one, other) != other:
                raise DeployError(
                    f"{shown(one)} would be a pair of MCLAG with {shown(found[one])} and, for {shown(name)}, with "
                    f'{shown(other)}: wire hosts to pairs, or set host.port_choice = "rail"'
                )
    part = joined_switches(design.plan) if found else {}
    for one, other in found.items():
        if part[one] != part[other]:
            raise DeployError(
                f"{shown(one)} and {shown(other)} have no path to each other, so they cannot be a pair of MCLAG: set "
                'host.port_choice = "rail" for an address of each port'
            )
    return found


def add_peer_links(design: Design, known: Inventory) -> None:
    """Adds a link between the switches of each pair that has none: on the ports that LLDP shows, else on free ones."""
    plan, added = design.plan, []
    for one, other in pairs(design).items():
        order = [one, other]
        if plan.switches.index(one) > plan.switches.index(other) or _between(plan, {one, other}):
            continue
        seen = known.links(one, other)
        given = [known.ports.get((name, PEER_PORT), "") for name in order]
        guessed = [f"Ethernet{4 * sum(name in _devices(link) for link in _cables(plan))}" for name in order]
        free = [have or guess for have, guess in zip(given, guessed, strict=True)]
        for ports in [link[:2] for link in seen] or [(free[0], free[1])]:
            speed = max(link[2] for link in _cables(plan) if one in _devices(link))
            plan.links.append((End(one, ports[0]), End(other, ports[1]), speed))
            plan.port_names |= {(name, PEER_PORT): port for name, port in zip(order, ports, strict=True)}
        added.append(f"{one} - {other}")
    if added:
        design.notes.append(
            f"pairs of MCLAG need peer links, which the scenario does not have: cable {len(added)}, such as "
            f"{shown(added[0])}; they carry frames for hosts with a failed port"
        )


def _cables(plan: Plan) -> list[tuple[End, End, int]]:
    return [*plan.links, *((End(h.name, h.nic), End(h.switch, h.port), h.speed) for h in plan.hosts)]


def _devices(link: tuple[End, End, int]) -> set[str]:
    return {link[0].device, link[1].device}


def _between(plan: Plan, pair: set[str]) -> list[tuple[End, End, int]]:
    return [link for link in plan.links if _devices(link) == pair]


def peer_ports(design: Design) -> list[End]:
    """The ports of all peer links: they bridge, while all other links of switches route."""
    own = {frozenset(pair) for pair in pairs(design).items()}
    return [end for link in design.plan.links if _devices(link) in own for end in link[:2]]


def channels(design: Design, switch: str) -> Channels:
    """The port channels of a switch; both switches of a pair give a host the same name."""
    bond = of(design)
    if bond is None or not bond.lacp:
        return {}
    at = {switch, pairs(design).get(switch, switch)}
    bonded = [ports for ports in design.machines.values() if len(ports) > 1 and at & {port.switch for port in ports}]
    every = {f"PortChannel{n}": [p.port for p in ports if p.switch == switch] for n, ports in enumerate(bonded, 1)}
    return {name: ports for name, ports in every.items() if ports}


def tables(design: Design, switch: str, loopbacks: dict[str, IPv4Address]) -> dict[str, Rows]:
    """PORTCHANNEL, its members, and MCLAG of a switch."""
    own, bond = channels(design, switch), of(design)
    if not own or bond is None:
        return {}
    row = {"admin_status": "up", "mtu": str(design.settings.port_mtu), "fast_rate": str(bond.fast).lower()}
    found: dict[str, Rows] = {
        "PORTCHANNEL": {name: dict(row) for name in own},
        "PORTCHANNEL_MEMBER": {f"{name}|{port}": {} for name, ports in own.items() for port in ports},
    }
    peer = pairs(design).get(switch)
    if peer is not None:
        found["PORTCHANNEL"][PEER] = dict(row)
        found["PORTCHANNEL_MEMBER"] |= {f"{PEER}|{end.port}": {} for end in peer_ports(design) if end.device == switch}
        number = str(1 + design.plan.switches.index(min(switch, peer, key=design.plan.switches.index)))
        addresses = {"source_ip": str(loopbacks[switch]), "peer_ip": str(loopbacks[peer])}
        times = {"keepalive_interval": str(KEEPALIVE_S), "session_timeout": str(TIMEOUT_S)}
        found["MCLAG_DOMAIN"] = {number: {**addresses, **times, "peer_link": PEER}}
        found["MCLAG_INTERFACE"] = {f"{number}|{name}": {"if_type": "PortChannel"} for name in own}
    return found
