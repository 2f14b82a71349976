"""Hosts with several ports: which of them a flow uses, by the bond, the switches' channels or the mux cable."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pauseframe.devices.files import shown
from pauseframe.devices.model import End

if TYPE_CHECKING:
    from pauseframe.devices.bundles import Bond
    from pauseframe.imports.fabric.scope import Scope

CHOICES = {
    "balance-rr": "balance-rr",
    "802.3ad": "802.3ad",
    "balance-xor": "xor",
    "active-backup": "active-backup",
    "balance-tlb": "least_loaded",
    "balance-alb": "least_loaded",
}
"""host.port_choice of each mode of a bond; of the others the simulator has none."""
POLICIES = ("layer2", "layer2+3", "layer3+4")


class Choice(NamedTuple):
    """The keys of [host] that one host would have; None where its files say nothing."""

    port_choice: str
    hash_policy: str | None = None
    miimon: str | None = None
    lacp_rate: str | None = None


def host_keys(scope: Scope) -> dict[str, Any]:
    """The keys of [host] about several ports; none if each host has one. One value holds for all hosts."""
    ends: dict[str, list[End]] = defaultdict(list)
    for end, node in scope.hosts.items():
        ends[node].append(end)
    several = {node: own for node, own in ends.items() if len(own) > 1}
    found = [(End(own[0].device, ""), _choice(scope, own)) for own in several.values()]
    chosen = {key: scope.choose(f"host.{key}", [(end, getattr(one, key)) for end, one in found if getattr(one, key)])
              for key in Choice._fields}  # fmt: skip
    if chosen["port_choice"] == "mux":
        chosen |= _mux_keys(scope, several)
    return {key: value for key, value in chosen.items() if value is not None}


def _mux_keys(scope: Scope, several: dict[str, list[End]]) -> dict[str, Any]:
    """The ToRs that are active at first; other hosts begin with their first port."""
    for node, own in several.items():
        if len(own) != 2 or len({scope.far(end).device for end in own}) != 2:
            scope.account.assume(f"{shown(node)} has no mux cable to two ToRs: all hosts use one port (active-backup)")
            return {"port_choice": "active-backup"}
    active = []
    for own in several.values():
        states = [_mux_state(scope, end) for end in own]
        if states[0] == "standby" or (states[1] == "active" and states[0] != "active"):
            active.append(scope.port_name(own[1]))
        elif not {"active", "standby"} & {*states}:
            scope.account.assume("no file tells which ToR of a mux cable is active (auto): that of the first port")
    return {"mux_active": active or None}


def _mux_state(scope: Scope, end: End) -> str:
    far = scope.far(end)
    switch = scope.fabric.switches.get(far.device)
    cable = switch.mux.get(far.port) if switch is not None else None
    return cable.state if cable is not None else ""


def offloads(scope: Scope) -> dict[str, bool]:
    """The keys host.tso and host.gro, if scripts of hosts turn them on or off."""
    nics = [(end, nic.offloads) for end in scope.hosts if (nic := scope.fabric.nic(end)) is not None]
    chosen = {n: scope.choose(f"host.{n}", [(end, own[n]) for end, own in nics if n in own]) for n in ("tso", "gro")}
    return {name: value for name, value in chosen.items() if value is not None}


def _choice(scope: Scope, ends: list[End]) -> Choice:
    host = scope.fabric.hosts.get(ends[0].device)
    ports = {end.port for end in ends}
    bond = next((bond for bond in host.bonds.values() if ports <= {*bond.members}), None) if host else None
    if bond is not None:
        return _of_bond(scope, ends[0].device, bond)
    far = [scope.far(end) for end in ends]
    switches = [scope.fabric.switches.get(end.device) for end in far]
    if any(switch is not None and end.port in switch.mux for switch, end in zip(switches, far, strict=True)):
        return _of_mux(scope, far)
    channels = [switch.channel_of(end.port) for switch, end in zip(switches, far, strict=True) if switch is not None]
    if channels and all(channel is not None and channel.mode != "static" for channel in channels):
        fast = all(channel is not None and channel.fast for channel in channels)
        return Choice("802.3ad", lacp_rate="fast" if fast else "slow")
    if channels and all(channel is not None for channel in channels):
        return Choice("xor")
    if host is not None:
        return Choice("rail")
    name = shown(ends[0].device)
    scope.account.assume(f"{name}: no file tells how it uses its {len(ends)} ports: a hash of the flow (802.3ad)")
    return Choice("802.3ad")


def _of_mux(scope: Scope, far: list[End]) -> Choice:
    switches = [(scope.fabric.switches.get(end.device), end.port) for end in far]
    kinds = {switch.mux[port].kind for switch, port in switches if switch is not None and port in switch.mux}
    if kinds != {"active-active"}:
        return Choice("mux")
    scope.account.assume("both ToRs of an active-active cable deliver: its host hashes flows over both ports")
    return Choice("xor")


def _of_bond(scope: Scope, device: str, bond: Bond) -> Choice:
    choice = CHOICES.get(bond.mode, "802.3ad")
    if bond.mode not in CHOICES:
        scope.account.differs(device, bond.name, "bond mode", bond.mode, choice)
    policy = bond.hash_policy
    if policy not in POLICIES:
        scope.account.differs(device, bond.name, "hash policy", policy, "layer3+4")
        policy = "layer3+4"
    # The driver sets 100 ms in these modes if nothing is set (bond_main.c).
    forced = 100 if bond.mode in {"802.3ad", "balance-tlb", "balance-alb"} else 0
    looks = f"{bond.miimon_ms or forced} ms"
    rate = ("fast" if bond.fast else "slow") if choice == "802.3ad" else None
    return Choice(choice, policy if choice in {"802.3ad", "xor"} else None, looks, rate)
