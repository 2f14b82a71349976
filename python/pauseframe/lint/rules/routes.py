"""Rules PF06x: the fabric must not deadlock, and every frame must arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Fabric, Place, Switch, Vlan
from pauseframe.devices.sonic import FLOODS
from pauseframe.lint.circle import circle
from pauseframe.lint.finding import BRIDGES, SWITCHES, Finding, PatchOperation, Severity, rule
from pauseframe.lint.forwarding import Forwarding, coupled, lanes_of, senders_of
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.read import Reading
    from pauseframe.types import CycleArc


@rule(
    "PF060",
    "deadlock",
    "Dally and Seitz, IEEE Trans. Computers 1987",
    "https://github.com/sonic-net/SONiC/issues/950",
    "Stephens et al., Practical DCB for Improved Data Center Networks, INFOCOM 2014, Fig. 2",
    devices=SWITCHES,
)
def check_deadlock(reading: Reading) -> Iterator[Finding]:
    """Buffers of a paused priority wait for each other in a cycle: once they are full, nothing moves.

    Static forwarding rows define the routes; otherwise shortest paths (ECMP, as BGP installs them) over the links that
    pause the priority are assumed. A VLAN's priority is the one that hosts send in it (`egress-qos-map`), else that of
    its description ("priority 3"), else every paused one. Priorities that share a buffer group form one lane.

    Incident: the ring of three switches of the TCP-Bolt paper; and bounced traffic of dual-homed racks, which leaves a
    switch by the links of its arrival and needs separate priorities (SONiC#950).
    """
    fabric = reading.fabric
    lossless = sorted({p for _, port in fabric.ports() for p in port.lossless})
    if not lossless or not fabric.links:
        return
    if any(switch.fdb for switch in fabric.switches.values()):
        yield from _static(fabric, lossless)
    else:
        for priority in lossless:
            yield from _shortest(fabric, priority)


def _static(fabric: Fabric, lossless: list[int]) -> Iterator[Finding]:
    from pauseframe._core import FabricError

    priorities, known = lanes_of(fabric)
    lane = coupled(fabric.switches.values(), lossless)
    lanes = {vlan: {lane[p] for p in used if p in lane} for vlan, used in priorities.items()}
    forwarding = Forwarding.of(fabric)
    lanes = {vlan: used for vlan, used in lanes.items() if used and vlan in forwarding.rows}
    if not lanes or forwarding.outside:
        return
    try:
        checked = forwarding.check(lanes, senders_of(fabric, forwarding))
    except FabricError:
        return  # rule PF061 reports the fault
    if checked.report["can_deadlock"]:
        arcs = checked.report["shortest_cycle"]
        number = arcs[0]["held"]["lane"]
        of_lane = [str(p) for p, found in lane.items() if found == number]
        doubt = "" if known else "; which VLAN has which priority no file says, so each was taken to have all"
        yield _circle_finding(forwarding, arcs, ", ".join(of_lane), checked.vlan_of, doubt, fabric)


def _circle_finding(
    forwarding: Forwarding,
    arcs: list[CycleArc],
    priority: str,
    vlan_of: dict[int, int],
    doubt: str,
    fabric: Fabric,
) -> Finding:
    hops = [forwarding.name(arc["held"]["port"]) for arc in arcs]
    waits = []
    for arc, hop in zip(arcs, hops, strict=True):
        route = arc["witness"]
        vlan = vlan_of.get(route["vlan"], route["vlan"])
        witness = f"{forwarding.who(route['from'])} to {forwarding.who(route['to'])} in VLAN {vlan}"
        waits.append(f"{':'.join(hop)} ({witness})")
    port = fabric.port(End(*hops[0]))
    return Finding(
        Place(hops[0][0], "FDB", hops[0][1]),
        f"priority {priority}: {len(hops)} buffers wait for each other: " + " → ".join(map(shown, waits)) + doubt,
        "routes of `pauseframe route plan`, or other priorities for some of these VLANs",
        circle=circle(hops, (port.speed if port else None) or 10_000),
    )


def _shortest(fabric: Fabric, priority: int) -> Iterator[Finding]:
    from pauseframe import _core
    from pauseframe._core import FabricError

    sub = _lossless_part(fabric, priority)
    if not sub.edges or not sub.hosts:
        return
    try:
        arcs = _core.shortest_path_cycle(sub.topology())
    except FabricError as error:
        fabric.notes.append(f"deadlock of priority {priority} under shortest paths was not decided: {error}")
        return
    if arcs:
        hops = [sub.name(held) for held, _, _, _ in arcs]
        port = fabric.port(End(*hops[0]))
        listed = " → ".join(shown(":".join(hop)) for hop in hops)
        yield Finding(
            Place(hops[0][0], "PORT_QOS_MAP", hops[0][1]),
            f"priority {priority}: with shortest paths {len(hops)} buffers wait for each other: {listed}",
            "routes of `pauseframe route plan`, or PFC on fewer links",
            circle=circle(hops, (port.speed if port else None) or 10_000),
        )


def _lossless_part(fabric: Fabric, priority: int) -> Forwarding:
    """Links that pause a priority at both ends, and one host per switch that has ports for hosts."""
    peers = fabric.peers()
    edges, inner = [], set()
    for link in fabric.links:
        ports = [fabric.port(end) for end in (link.a, link.b)]
        if all(port is not None for port in ports):
            inner |= {link.a, link.b}
            if all(port is not None and priority in port.lossless and port.up for port in ports):
                edges.append((link.a, link.b))
    used = {end.device for edge in edges for end in edge}
    hosts: dict[str, End] = {}
    for switch, port in fabric.ports():
        end = End(switch.name, port.name)
        outside = end not in inner and (end in peers or priority in port.lossless) and port.up
        if switch.name in used and outside and not _to_switch(fabric, peers.get(end)):
            hosts.setdefault(switch.name, end)
    rates = {End(s.name, p.name): p.speed or 10_000 for s, p in fabric.ports()}
    numbered = [(end, f"edge {i}") for i, end in enumerate(hosts.values())]
    return Forwarding(sorted(used), numbered, edges, rates)


def _to_switch(fabric: Fabric, far: End | None) -> bool:
    return far is not None and far.device in fabric.switches


@rule("PF061", "lost-frames", "IEEE 802.1Q §8.8; SONiC#249 (static FDB)", devices=BRIDGES)
def check_delivery(reading: Reading) -> Iterator[Finding]:
    """Static forwarding rows loop, end, leave the VLAN, lead to another host, or leave hosts without a route.

    A frame that loops at layer 2 never expires; with PFC it holds its buffers. A frame without a row is flooded, or
    dropped if flooding is off.

    No incident is known.
    """
    from pauseframe._core import FabricError

    fabric = reading.fabric
    yield from _not_members(fabric)
    yield from _without_row(fabric)
    yield from _to_another_host(fabric)
    if not any(switch.fdb for switch in fabric.switches.values()):
        return
    forwarding = Forwarding.of(fabric)
    if forwarding.outside:
        listed = ", ".join(map(shown, forwarding.outside[:4]))
        fabric.notes.append(
            f"static rows lead to {listed}, whose files are not here: routes and deadlock are not decided"
        )
        return
    if not forwarding.hosts:
        return
    everything = Place("fabric", "FDB")
    try:
        senders = senders_of(fabric, forwarding)
        checked = forwarding.check({vlan: {0} for vlan in forwarding.rows}, senders)
    except FabricError as error:
        yield Finding(everything, f"the forwarding rows cannot be followed: {shown(error)}")
        return
    peers = fabric.peers()
    for vlan, switch_name, mac, port in checked.dangling[:10]:
        linked = End(switch_name, port) in peers
        why = (
            f"no switch has a row to {shown(mac)} at its own port"
            if linked
            else f"{shown(port)} has no known other end"
        )
        yield Finding(
            Place(switch_name, "FDB", f"Vlan{vlan}|{mac}", "port"),
            f"{why}: where {shown(mac)} goes from here no file says",
        )
    report = checked.report
    unreachable = report["unreachable"]
    ports = [plane["ports"] for plane in report["planes"]]
    if len(ports) > 1 and unreachable["count"] == sum(ports) ** 2 - sum(count**2 for count in ports):
        if _are_planes(fabric):
            fabric.notes.append(f"{len(ports)} planes of {ports[0]} ports, without a link between them")
        else:
            parts = (
                f"{counted(part['switches'], 'switch')} from {shown(forwarding.who(part['first_switch']))} on with "
                f"{counted(part['ports'], 'port')} of hosts"
                for part in report["planes"]
            )
            yield Finding(
                everything,
                f"{len(ports)} parts without a link between them: {'; '.join(parts)}",
                "a link between them; of planes, each host has a port in each",
            )
        unreachable = {"count": 0, "examples": []}
    for kind, what, of_one, found in (
        ("loops", "circle", "circles", report["loops"]),
        ("black_holes", "end", "ends", report["black_holes"]),
        ("unreachable", "have no route", "has no route", unreachable),
    ):
        # If the senders are unknown, a route that ends is harmless if another VLAN connects the pair.
        if found["count"] and (kind != "black_holes" or set(senders) >= set(forwarding.rows)):
            examples = "; ".join(_example(forwarding, item, checked.vlan_of) for item in found["examples"][:2])
            place = _first_place(forwarding, found["examples"], everything)
            end = _end_of(fabric, forwarding, found["examples"]) if kind == "black_holes" else None
            yield Finding(
                end or place,
                f"{counted(found['count'], 'route')} {what if found['count'] > 1 else of_one}"
                f"{f', the first at {shown(end.device)}, which has no row for it' if end else ''}: {examples}",
                "routes of `pauseframe route plan`",
            )


def _are_planes(fabric: Fabric) -> bool:
    """True if the same hosts have ports in each part of the fabric. A further port is a host "NAME.PORT" in plans."""
    part_of = {name: name for name in fabric.switches}

    def part(name: str) -> str:
        while part_of[name] != name:
            name = part_of[name]
        return name

    for link in fabric.links:
        if link.a.device in part_of and link.b.device in part_of:
            part_of[part(link.a.device)] = part(link.b.device)
    hosts: dict[str, set[str]] = {part(name): set() for name in part_of}
    outside = {end.device for link in fabric.links for end, _ in link.ends()} - part_of.keys()
    for link in fabric.links:
        for end, far in link.ends():
            if far.device in part_of and end.device not in part_of:
                name, _, port = end.device.rpartition(".")
                hosts[part(far.device)].add(name if port and name in outside else end.device)
    first, *others = hosts.values()
    return bool(first) and all(other == first for other in others)


def _without_row(fabric: Fabric) -> Iterator[Finding]:
    """Hosts in VLANs with static rows to which their own switch has no row: frames for them end there."""
    planned = {row.vlan for switch in fabric.switches.values() for row in switch.fdb}
    for link in fabric.links:
        for end, far in link.ends():
            nic, switch = fabric.nic(end), fabric.switches.get(far.device)
            vlans = set(nic.vlans) & planned if nic is not None else set()
            if switch is None or not vlans:
                continue
            channel = switch.channel_of(far.port)
            ports = {far.port, channel.name if channel else far.port}
            if not any(row.vlan in vlans and row.port in ports for row in switch.fdb):
                yield Finding(
                    Place(switch.name, "FDB"),
                    f"no row leads to {shown(end.device)} at {shown(far.port)}, though other switches have static rows "
                    f"in its VLANs",
                    "the rows of the plan",
                )


def _to_another_host(fabric: Fabric) -> Iterator[Finding]:
    """Rows for the MAC address of one host whose port leads to another: the frames end there."""
    owners = _owners(fabric)
    peers = fabric.peers()
    for switch in fabric.switches.values():
        found: dict[tuple[str, str], list[int]] = {}
        for row in switch.fdb:
            far, owner = peers.get(End(switch.name, _member(switch, row.port))), owners.get((row.vlan, row.mac))
            if far is not None and far.device in fabric.hosts and owner not in {None, far.device}:
                found.setdefault((row.mac, row.port), []).append(row.vlan)
        for (mac, port), vlans in found.items():
            far, owner = peers[End(switch.name, _member(switch, port))], owners[vlans[0], mac]
            yield Finding(
                Place(switch.name, "FDB", f"Vlan{vlans[0]}|{mac}", "port"),
                f"{shown(port)} leads to {shown(str(far))}, and {shown(mac)} is the address of {shown(owner or '')}"
                f"{f', in {len(vlans)} VLANs' * (len(vlans) > 1)}",
                "the row's port, or the cable",
            )


def _member(switch: Switch, port: str) -> str:
    """The port, or the first member of a channel: all lead to one device."""
    channel = switch.channels.get(port)
    return channel.members[0] if channel is not None and channel.members else port


def _owners(fabric: Fabric) -> dict[tuple[int, str], str | None]:
    """The host with each (VLAN, MAC address), by its own files or the static neighbours of others; None if several."""
    at = {
        (vlan.id, text.partition("/")[0]): host.name
        for host in fabric.hosts.values()
        for vlan in host.vlans()
        for text in vlan.addresses
    }
    found: dict[tuple[int, str], str | None] = {}
    for host in fabric.hosts.values():
        for nic in host.nics.values():
            for vlan in nic.vlans.values():
                pairs = [(at.get((vlan.id, address)), mac) for address, mac in vlan.neighbours.items()]
                for name, mac in [*pairs, (host.name, nic.mac)]:
                    if name is not None and mac:
                        key = vlan.id, mac
                        found[key] = name if found.get(key, name) == name else None
    return found


def _not_members(fabric: Fabric) -> Iterator[Finding]:
    """Rows whose port is not a member of their VLAN."""
    for switch in fabric.switches.values():
        for row in switch.fdb:
            vlan = switch.vlans.get(row.vlan)
            if vlan is None or row.port not in vlan.members:
                yield Finding(
                    Place(switch.name, "FDB", f"Vlan{row.vlan}|{row.mac}", "port"),
                    f"{shown(row.port)} is no member of Vlan{row.vlan}: the frame is dropped there",
                    f'VLAN_MEMBER "Vlan{row.vlan}|{shown(row.port)}"',
                    patch=(PatchOperation("VLAN_MEMBER", f"Vlan{row.vlan}|{row.port}", "tagging_mode", "tagged"),)
                    if vlan is not None
                    else (),
                )


@rule(
    "PF063",
    "static-rows-disagree",
    "SONiC#249 (static FDB); https://github.com/sonic-net/SONiC/pull/2468",
    devices=BRIDGES,
)
def check_static_rows(reading: Reading) -> Iterator[Finding]:
    """The file for `swssconfig` and the table FDB of a switch have different rows, or one has two for an address.

    The image and the last loaded file determine which of the two is in force; a restart can change that. Of two rows of
    one file the last one counts.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        yield from _two_rows(switch)
        database = reading.databases.get(switch.name)
        if not switch.loaded_fdb or database is None or not database.rows("FDB"):
            continue
        loaded = {f"Vlan{row.vlan}|{row.mac}": row.port for row in switch.loaded_fdb}
        table = {key.lower().replace("vlan", "Vlan"): row.get("port", "") for key, row in database.rows("FDB").items()}
        for key in sorted(set(loaded) | set(table)):
            here, there = table.get(key), loaded.get(key)
            if here != there:
                has = [f"port {shown(port)}" if port else "no row" for port in (here, there)]
                yield Finding(
                    Place(switch.name, "FDB", key, "port"),
                    f"{has[0]} in the table FDB, {has[1]} in the file for swssconfig",
                    "the rows of one plan in both, or one of the files only",
                )


def _two_rows(switch: Switch) -> Iterator[Finding]:
    """Addresses with rows to two ports in one file."""
    ports: dict[tuple[int, str], list[str]] = {}
    for row in switch.loaded_fdb or switch.fdb:
        ports.setdefault((row.vlan, row.mac), []).append(row.port)
    for (vlan, mac), found in ports.items():
        if len(set(found)) > 1:
            yield Finding(
                Place(switch.name, "FDB", f"Vlan{vlan}|{mac}", "port"),
                f"rows to {' and to '.join(map(shown, found))}: the last one counts",
                "the row of the plan alone",
            )


def _example(forwarding: Forwarding, item: Any, vlan_of: dict[int, int]) -> str:
    if not isinstance(item, dict):
        return shown(item)
    parts = []
    for key, value in item.items():
        if key == "vlan":
            parts.append(f"VLAN {vlan_of.get(value, value)}")
        elif isinstance(value, str):
            parts.append(f"{key} {shown(':'.join(forwarding.name(value)) if ':' in value else forwarding.who(value))}")
        elif isinstance(value, list):
            parts.append(" → ".join(shown(forwarding.who(str(v).partition(":")[0])) for v in value[:6]))
    return ", ".join(parts)


def _end_of(fabric: Fabric, forwarding: Forwarding, examples: list[Any]) -> Place | None:
    """The switch behind the last hop of the first route, if a link leads to one."""
    hops = next(
        (value for item in examples if isinstance(item, dict) for value in item.values() if isinstance(value, list)), []
    )
    far = fabric.peers().get(End(*forwarding.name(str(hops[-1])))) if hops else None
    return Place(far.device, "FDB") if far is not None and far.device in fabric.switches else None


def _first_place(forwarding: Forwarding, examples: list[Any], otherwise: Place) -> Place:
    for item in examples:
        for value in item.values() if isinstance(item, dict) else ():
            names = value if isinstance(value, list) else [value]
            for name in names:
                device = forwarding.who(str(name).partition(":")[0])
                if device in forwarding.switches:
                    return Place(device, "FDB")
    return otherwise


@rule("PF062", "floods-in-a-plan", "https://github.com/sonic-net/SONiC/pull/2468", "bridge(8)", devices=BRIDGES)
def check_flooding(reading: Reading) -> Iterator[Finding]:
    """A VLAN with static rows learns, floods, or has spanning tree on; or nothing turns one of these off.

    A flooded frame uses every link, including those that the proof of deadlock freedom excludes; a learned row replaces
    a planned one; spanning tree blocks links of the plan. `no-flooding.json` of `pauseframe deploy` turns both off.

    No incident is known. The proof that a plan is deadlock-free holds only for the plan's own rows.
    """
    for switch in reading.fabric.switches.values():
        planned = {row.vlan for row in switch.fdb}
        for number in sorted(planned & set(switch.vlans)):
            vlan = switch.vlans[number]
            name = f"Vlan{number}"
            if vlan.stp:
                yield Finding(
                    Place(switch.name, "STP_VLAN", name, "enabled"),
                    "spanning tree is on in a VLAN with static rows",
                    '"enabled": "false"',
                    patch=(PatchOperation("STP_VLAN", name, "enabled", "false"),),
                )
            row = reading.rows(switch.name, "VLAN").get(name, {})
            for on, fields in ((vlan.learning, ("mac_learning",)), (vlan.flood, FLOODS)):
                if on:
                    verb = "learns" if fields[0] == "mac_learning" else "floods"
                    set_here = any(field in row for field in fields)
                    yield Finding(
                        Place(switch.name, "VLAN", name, fields[0]),
                        f"a VLAN with static rows {verb}" + (" by the file for swssconfig" if vlan.loaded else ""),
                        "no-flooding.json as `pauseframe deploy` writes it"
                        if vlan.loaded
                        else f'"{fields[0]}": "disabled"',
                        source="" if set_here else vlan.loaded,
                        patch=tuple(PatchOperation("VLAN", name, f, "disabled") for f in fields if set_here),
                    )
            yield from _left_on(switch, vlan)


def _left_on(switch: Switch, vlan: Vlan) -> Iterator[Finding]:
    """Learning and flooding that nothing turns off: both are on by default. Without the other half, a file may lack."""
    name = f"Vlan{vlan.id}"
    if vlan.learning is None and vlan.flood is None and not vlan.unset:
        yield Finding(
            Place(switch.name, "VLAN", name, "mac_learning"),
            "a VLAN has static rows, and nothing turns learning and flooding off",
            '"mac_learning": "disabled", "unknown_unicast_flood": "disabled" and so on',
            severity=Severity.warning,
        )
        return
    ports = f" at {shown(', '.join(vlan.unset))}" if vlan.unset else ""
    for value, field, what in (
        (vlan.learning, "mac_learning", f"learning{ports}"),
        (vlan.flood, FLOODS[0], "flooding"),
    ):
        if value is None:
            yield Finding(
                Place(switch.name, "VLAN", name, field),
                f"a VLAN has static rows, and nothing turns {what} off",
                "no-flooding.json as `pauseframe deploy` writes it" if vlan.loaded else f'"{field}": "disabled"',
                source=vlan.loaded,
            )
