"""Rules PF07x: hosts must send the traffic that the fabric is configured for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pauseframe.devices.host_files import NETPLAN, NVIDIA, SCRIPT
from pauseframe.devices.linux import COLLECTED
from pauseframe.devices.model import Place
from pauseframe.lint.finding import HOSTS, Finding, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Host, Nic
    from pauseframe.devices.read import Reading

Facts = dict[tuple[str, str, str], str]
"""Values by (table, key, field)."""
_NO_FIELDS = {"networkd": ("features", "trust"), NETPLAN: ("egress-qos-map", "trust"), NVIDIA: ("dscp-prio",),
              SCRIPT: ("trust",)}  # fmt: skip
"""Fields that a form cannot express, of rows that it has."""
DCTCP_RTO_MIN_MS = 200.0
"""Linux's default minimum RTO in milliseconds, without `rto_min` on the route."""


@rule("PF070", "dctcp-without-ecn", "RFC 8257 §3; Linux Documentation/networking/dctcp.rst", devices=HOSTS)
def check_ecn(reading: Reading) -> Iterator[Finding]:
    """A host uses DCTCP and does not ask for ECN: its packets are not ECN-capable.

    A marking queue drops packets that it cannot mark, so such a host starves beside others. Linux needs
    `net.ipv4.tcp_ecn` 1, or `features ecn` on the route.

    Incident: Judd's data centre (NSDI 2015, §7.1), where packets without ECN were dropped at queues that marked the
    others, and such hosts starved.
    """
    for host in reading.fabric.hosts.values():
        if "dctcp" in host.congestion_controls and host.sysctl.get("net.ipv4.tcp_ecn") == "0":
            yield Finding(
                Place(host.name, "sysctl", "net.ipv4.tcp_ecn"),
                "tcp_ecn is 0 and DCTCP is in use",
                "net.ipv4.tcp_ecn = 1",
            )


@rule("PF071", "rto-min", "Judd, NSDI 2015, §6; ip-route(8) rto_min", severity=Severity.warning, devices=HOSTS)
def check_rto(reading: Reading) -> Iterator[Finding]:
    """A route uses DCTCP with the Linux minimum of the retransmission timer, 200 ms.

    In a fabric with round trips of microseconds a timeout of 200 ms is very long. The paper of DCTCP+ sets 5 ms by
    `rto_min` of the route.

    Incident: Judd's data centre (NSDI 2015, §6): a timeout of 200 ms is a thousand round trips.
    """
    for host in reading.fabric.hosts.values():
        for route in host.routes:
            if route.congctl == "dctcp" and (route.rto_min_ms is None or route.rto_min_ms >= DCTCP_RTO_MIN_MS):
                have = "none, so 200 ms" if route.rto_min_ms is None else f"{route.rto_min_ms:g} ms"
                yield Finding(
                    Place(host.name, "route", route.destination, "rto_min"), f"rto_min is {have}", "rto_min 5ms"
                )


@rule("PF072", "dscp-not-trusted", "mlnx_qos --trust dscp; dcb-app(8)", severity=Severity.warning, devices=HOSTS)
def check_trust(reading: Reading) -> Iterator[Finding]:
    """A NIC pauses a priority and trusts 802.1p, but none of its VLANs carries that priority.

    All frames of such a NIC have priority 0.

    No incident is known.
    """
    for host in reading.fabric.hosts.values():
        for nic in host.nics.values():
            if not nic.pfc or nic.trust != "pcp":
                continue
            carried = {point for vlan in nic.vlans.values() for point in vlan.egress.values()}
            if not carried & nic.pfc:
                yield Finding(
                    Place(host.name, "dcb", nic.name, "trust"),
                    "trust is pcp and no VLAN interface has an egress map to a paused priority",
                    "trust dscp, or `egress-qos-map` of the VLAN interfaces",
                )


@rule("PF073", "vlan-without-priority", "ip-link(8) egress-qos-map; IEEE 802.1Q §6.9", devices=HOSTS)
def check_egress(reading: Reading) -> Iterator[Finding]:
    """Frames of a lane's VLAN leave the host with another priority than the switches expect in that VLAN.

    Without an `egress-qos-map` a Linux VLAN interface sends 802.1p 0: into the lossy class, or, worse, into a lane
    whose routes form cycles with those of the VLAN. The expected priority is that of the VLAN's description ("priority
    3"), else the one that most hosts send.

    No incident is known.
    """
    expected = _expected(reading)
    for host in reading.fabric.hosts.values():
        for nic in host.nics.values():
            for own in nic.vlans.values():
                wanted = expected.get(own.id)
                points = set(own.egress.values()) or {0}
                if wanted and not points <= wanted:
                    yield Finding(
                        Place(host.name, "vlan", own.interface, "egress-qos-map"),
                        f"VLAN {own.id} sends priority {', '.join(map(str, sorted(points)))}, its lane is "
                        f"{', '.join(map(str, sorted(wanted)))}",
                        f"egress-qos-map 0:{min(wanted)}",
                    )


def _expected(reading: Reading) -> dict[int, set[int]]:
    """Priorities of VLANs, from their descriptions or else from most hosts."""
    expected: dict[int, set[int]] = {}
    for switch in reading.fabric.switches.values():
        for vlan in switch.vlans.values():
            if vlan.priority is not None:
                expected.setdefault(vlan.id, set()).add(vlan.priority)
    sent: dict[int, Counter[int]] = {}
    for host in reading.fabric.hosts.values():
        for own in host.vlans():
            sent.setdefault(own.id, Counter()).update(set(own.egress.values()) or {0})
    for number, counts in sent.items():
        (most, times), *others = counts.most_common()
        if number not in expected and others and times > 2 * others[0][1]:
            expected[number] = {most}
    return expected


@rule("PF074", "neighbour-missing", "SONiC#2468; bridge(8) flood off", devices=HOSTS)
def check_neighbours(reading: Reading) -> Iterator[Finding]:
    """VLANs do not flood, and a host has no static neighbour for another host in any of them: ARP never gets an answer.

    One VLAN is enough for a pair of hosts: a plan need not serve every pair in every VLAN.

    No incident is known.
    """
    quiet = {v.id for s in reading.fabric.switches.values() for v in s.vlans.values() if v.flood is False}
    owner: dict[tuple[int, str], str] = {}
    for host in reading.fabric.hosts.values():
        for vlan in host.vlans():
            owner |= {(vlan.id, address.partition("/")[0]): host.name for address in vlan.addresses}
    for host in reading.fabric.hosts.values():
        own = [vlan for vlan in host.vlans() if vlan.id in quiet]
        known = {owner.get((vlan.id, address)) for vlan in own for address in vlan.neighbours}
        shared = {name for (number, _), name in owner.items() if number in {vlan.id for vlan in own}}
        missing = sorted(shared - known - {host.name})
        if missing:
            yield Finding(
                Place(host.name, "neighbour", own[0].interface),
                f"nothing is flooded and there is no neighbour for {len(missing)} hosts, such as {missing[0]}",
                f"ip neigh replace ADDRESS lladdr MAC dev {own[0].interface} nud permanent",
            )


@rule("PF075", "host-files-differ", "systemd.network(5); netplan(5); ip(8)", devices=HOSTS)
def check_forms(reading: Reading) -> Iterator[Finding]:
    """The files of one host disagree: networkd, netplan, a script, registers of its card, or what was collected.

    What holds depends on the file that is installed last. Only values that two files both can have are compared.

    No incident is known.
    """
    for host in reading.fabric.hosts.values():
        yield from differing_forms(host)


def differing_forms(host: Host) -> Iterator[Finding]:
    """The values in which the files of a host differ."""
    names = [*host.forms]
    facts = {name: facts_of(form) for name, form in host.forms.items()}
    for number, other in enumerate(names):
        done: set[tuple[str, str, str]] = set()
        for first in names[:number]:
            both = set(_comparable(facts[first], facts[other], {first, other})) - done
            done |= both
            for table, key, field in sorted(both):
                here, there = (facts[name].get((table, key, field), "missing") for name in (other, first))
                if here != there:
                    yield Finding(
                        Place(host.name, "mlnx_qos" if other == NVIDIA else table, key, field),
                        f"{here} in {other}, {there} in {first}",
                        "the same in all files of the host",
                        source=host.forms[other].source,
                    )


def _comparable(one: Facts, other: Facts, forms: set[str]) -> Iterator[tuple[str, str, str]]:
    """The values that both files can have: of a kind that both have, or of a row that both have."""
    kinds = {key[::2] for key in one} & {key[::2] for key in other}
    rows = {key[:2] for key in one} & {key[:2] for key in other}
    unknown = {field for form in forms for field in _NO_FIELDS.get(form, ())}
    both = _with_addresses(one) & _with_addresses(other)
    for key in one | other:
        if COLLECTED in forms and key[0] == "address" and key[1].split()[-1] not in both:
            continue  # an interface that the other file leaves alone, such as that of management
        if key[::2] in kinds or (key[:2] in rows and key[2] not in unknown):
            yield key


def _with_addresses(facts: Facts) -> set[str]:
    """The interfaces to which a file gives addresses."""
    return {key.split()[-1] for table, key, _ in facts if table == "address"}


def facts_of(host: Host) -> Facts:
    """The values of a host by (table, key, field)."""
    found: Facts = {}
    for nic in host.nics.values():
        found |= dict(_of_nic(nic))
        for vlan in nic.vlans.values():
            found["vlan", vlan.interface, "id"] = str(vlan.id)
            found["vlan", vlan.interface, "link"] = nic.name
            if vlan.egress:
                found["vlan", vlan.interface, "egress-qos-map"] = _listed(vlan.egress)
            found |= {("address", f"{address} {vlan.interface}", ""): "set" for address in vlan.addresses}
            found |= {("neighbour", f"{address} {vlan.interface}", ""): mac for address, mac in vlan.neighbours.items()}
    for bond in host.bonds.values():
        of_bond = {"mode": bond.mode, "miimon": bond.miimon_ms, "xmit_hash_policy": bond.hash_policy}
        of_bond |= {"lacp_rate": ("fast" if bond.fast else "slow") if bond.mode == "802.3ad" else None}
        of_bond |= {"members": " ".join(sorted(bond.members)) or None}
        found |= {("bond", bond.name, name): str(value) for name, value in of_bond.items() if value is not None}
    for route in host.routes:
        values = {"congctl": route.congctl, "rto_min": route.rto_min_ms, "initcwnd": route.initcwnd}
        values |= {"quickack": "1" if route.quickack else None, "features": "ecn" if route.ecn else None}
        values |= {"src": route.source or None, "via": route.gateway or None}
        key = f"{route.destination} {route.interface}" + (f" table {route.table}" if route.table else "")
        found |= {("route", key, name): str(value) for name, value in values.items() if value is not None}
    found |= {("card", name, "register"): str(value) for name, value in host.registers.items()}
    found |= {("nft", address, "dscp"): str(point) for address, point in host.code_points.items()}
    found |= {("rule", f"from {address}", "lookup"): str(table) for address, table in host.rules.items()}
    if host.roce_traffic_class is not None:
        found["card", "RoCE", "traffic_class"] = str(host.roce_traffic_class)
    return found | {("sysctl", name, "value"): " ".join(value.split()) for name, value in host.sysctl.items()}


def _of_nic(nic: Nic) -> Iterator[tuple[tuple[str, str, str], str]]:
    if nic.mtu is not None:
        yield ("link", nic.name, "mtu"), str(nic.mtu)
    if nic.pfc is not None:
        yield ("dcb", nic.name, "prio-pfc"), ",".join(map(str, sorted(nic.pfc)))
    if nic.dscp_to_priority:
        yield ("dcb", nic.name, "dscp-prio"), _listed(nic.dscp_to_priority)
    if nic.trust is not None and (nic.ets or nic.dscp_to_priority):
        yield ("dcb", nic.name, "trust"), nic.trust
    yield from ((("dcb", nic.name, name), value) for name, value in nic.ets.items())
    yield from ((("offload", nic.name, name), "on" if on else "off") for name, on in nic.offloads.items())
    yield from ((("address", f"{address} {nic.name}", "of the NIC"), "set") for address in nic.addresses)


def _listed(pairs: dict[int, int]) -> str:
    return " ".join(f"{one}:{other}" for one, other in sorted(pairs.items()))
