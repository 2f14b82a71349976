"""Rules PF066 to PF069: BGP between switches."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.devices import bgp
from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Place
from pauseframe.devices.tiers import levels
from pauseframe.lint.finding import VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pauseframe.devices.bgp import Address, Bgp, Session
    from pauseframe.devices.model import Fabric, Switch
    from pauseframe.devices.read import Reading

_TABLE = "BGP_NEIGHBOR"
SHORTEST = 3
"""Seconds of the shortest hold time that is not 0 (RFC 4271, section 4.2)."""


class _Known(NamedTuple):
    """A session of which the other end is known."""

    switch: Switch
    session: Session
    far: Switch
    back: Session | None
    """The session of the other end with this switch, if it has one."""
    here: str
    """The address or interface by which the other end knows this switch; empty if no file tells."""

    @property
    def place(self) -> Place:
        return Place(self.switch.name, _TABLE, self.session.key)

    @property
    def asn(self) -> int | None:
        """The AS of the other end by its own files."""
        return (self.back.own_asn if self.back is not None else None) or _bgp(self.far).asn


def _bgp(switch: Switch) -> Bgp:
    assert switch.bgp is not None
    return switch.bgp


def _is_loopback(interface: str) -> bool:
    return interface.lower().startswith("lo")


def _known(reading: Reading) -> list[_Known]:
    """The sessions of which the other end is a switch with BGP."""
    fabric, found = reading.fabric, []
    owners = _owners(fabric)
    peers = fabric.peers()
    tables = {s.name: {_plain(one.peer): one for one in s.bgp.sessions} for s in fabric.switches.values() if s.bgp}
    for name in tables:
        switch = fabric.switches[name]
        for session in _bgp(switch).sessions:
            address = bgp.address(session.peer)
            if address is None:
                end = peers.get(End(name, session.peer))
                owner, here = (end.device, end.port) if end is not None else ("", "")
            else:
                owner, here = owners.get(address) or "", _known_as(switch, session, address)
            if owner in tables and owner != name:
                found.append(_Known(switch, session, fabric.switches[owner], tables[owner].get(_plain(here)), here))
    return found


def _plain(text: str) -> str:
    """An address in its usual form; another text as it is."""
    address = bgp.address(text)
    return text if address is None else str(address)


def _owners(fabric: Fabric) -> dict[Address, str | None]:
    """The switch with each address; None for one at several."""
    found: dict[Address, str | None] = {}
    for switch in fabric.switches.values():
        for texts in switch.addresses.values():
            for text in texts:
                if (own := bgp.interface(text)) is not None:
                    found[own.ip] = switch.name if found.get(own.ip, switch.name) == switch.name else None
    return found


def _known_as(switch: Switch, session: Session, peer: Address) -> str:
    """The address by which the other end knows a switch: that of a loopback interface if the session starts there."""
    loopbacks = [text.partition("/")[0] for name, own in switch.addresses.items() if _is_loopback(name) for text in own]
    return session.local if session.local in loopbacks else _own_address(switch, peer) or session.local


def _own_address(switch: Switch, peer: Address) -> str:
    """The address of a switch in the smallest subnet with a peer, as routes choose it; empty if it has none."""
    texts = [text for name, own in switch.addresses.items() if not _is_loopback(name) for text in own]
    near = _around(peer, filter(None, map(bgp.interface, texts)))
    return next((str(own.ip) for own in near if own.ip != peer), "")


def _around(peer: Address, interfaces: Iterable[bgp.Interface]) -> list[bgp.Interface]:
    """The interfaces whose subnet has a peer, the longest prefix first."""
    near = [own for own in interfaces if own.version == peer.version and peer in own.network]
    return sorted(near, key=lambda own: -own.network.prefixlen)


@rule("PF066", "bgp-ends-differ", "RFC 4271 §6.2 (Bad Peer AS)", "SONiC: BGP_NEIGHBOR (bgpcfgd)", devices=VENDORS)
def check_ends(reading: Reading) -> Iterator[Finding]:
    """The two ends of a BGP session do not fit: another AS than the other end has, or no session at the other end.

    The session stays down, and the paths over that switch are missing: the others carry its traffic, or none does. A
    *warning*: one end is shut down (the session, or BGP of the switch as a whole), or a session has the name of another
    switch than its address.

    No incident is known.
    """
    known = _known(reading)
    yield from _numbers(known)
    yield from _off(known)
    usual = Counter(one.switch.name for one in known if one.session.name == one.far.name)
    for one in known:
        other = Place(one.far.name, _TABLE, one.back.key if one.back is not None else one.here)
        if _bgp(one.far).off or _bgp(one.switch).off:
            pass  # one finding for all sessions
        elif one.back is None and one.here and one.session.up and not _may_connect(one):
            yield _without_session(one, other)
        elif one.back is not None and one.session.up and not one.back.up:
            yield Finding(
                Place(other.device, _TABLE, other.key, "admin_status"),
                f"down here, up at {shown(one.switch.name)}",
                '"up", or "down" at both ends',
                one.place,
                severity=Severity.warning,
                patch=(PatchOperation(_TABLE, other.key, "admin_status", "up"),),
            )
        name = one.session.name
        right = {"", one.far.name, one.far.hostname}
        if name not in right and (name in reading.fabric.switches or usual[one.switch.name]):
            yield Finding(
                Place(one.switch.name, _TABLE, one.session.key, "name"),
                f"{shown(one.session.peer)} is an address of {shown(one.far.name)}, not of {shown(name)}",
                f'"{shown(one.far.name)}"',
                severity=Severity.warning,
                patch=(PatchOperation(_TABLE, one.session.key, "name", one.far.name),),
            )


def _off(known: list[_Known]) -> Iterator[Finding]:
    """Switches whose BGP is shut down, while others have sessions with them that are up."""
    waiting: dict[str, list[_Known]] = defaultdict(list)
    for one in known:
        if _bgp(one.far).off and one.session.up:
            waiting[one.far.name].append(one)
    for name, sessions in waiting.items():
        yield Finding(
            Place(name, "BGP_GLOBALS", "default", "admin_status"),
            f"BGP is shut down here, and {counted(len(sessions), 'session')} of other switches wait for it",
            "BGP at all switches",
            sessions[0].place,
            severity=Severity.warning,
        )


def _numbers(known: list[_Known]) -> Iterator[Finding]:
    """Sessions with another AS than the other end has; one finding if all that name a switch agree on another AS."""
    wrong: dict[str, list[_Known]] = defaultdict(list)
    right = set()
    for one in known:
        wanted = {"internal": _bgp(one.switch).asn, "external": None}.get(str(one.session.asn), one.session.asn)
        own = one.session.own_asn or _bgp(one.switch).asn
        if one.asn is None or own is None:
            continue
        if one.asn == own if one.session.asn == "external" else one.asn != wanted:
            wrong[one.far.name].append(one)
        else:
            right.add(one.far.name)
    for name, sessions in wrong.items():
        agreed = {one.session.asn for one in sessions}
        several = len({one.switch.name for one in sessions}) > 1 and isinstance(sessions[0].session.asn, int)
        if name not in right and several and len(agreed) == 1:
            first, asn = sessions[0], str(agreed.pop())
            yield Finding(
                Place(name, "DEVICE_METADATA", "localhost", "bgp_asn"),
                f"AS {first.asn} here, {counted(len(sessions), 'session')} of its neighbours have {asn}",
                f'"{asn}"',
                Place(first.switch.name, _TABLE, first.session.key, "asn"),
                patch=(PatchOperation("DEVICE_METADATA", "localhost", "bgp_asn", asn),),
            )
            continue
        for one in sessions:
            yield Finding(
                Place(one.switch.name, _TABLE, one.session.key, "asn"),
                f"{_said(one.session)} here, {shown(name)} has AS {one.asn}",
                f'"{one.asn}"',
                Place(name, "DEVICE_METADATA", "localhost", "bgp_asn"),
                patch=(PatchOperation(_TABLE, one.session.key, "asn", str(one.asn)),),
            )


def _said(session: Session) -> str:
    kinds = {"internal": "the own AS", "external": "another AS than its own", "None": "no AS"}
    return kinds.get(str(session.asn), f"AS {session.asn}")


def _may_connect(one: _Known) -> bool:
    """Whether the other end takes sessions from any address of a range that has this end."""
    address = bgp.address(one.here)
    ranges = (bgp.network(text) for text in _bgp(one.far).ranges)
    return address is not None and any(n is not None and n.version == address.version and address in n for n in ranges)


def _without_session(one: _Known, place: Place) -> Finding:
    row = {"asn": str(_bgp(one.switch).asn or ""), "name": one.switch.name, "local_addr": one.session.peer}
    row |= {"admin_status": "up"}
    if one.session.hold is not None and one.session.keepalive is not None:
        row |= {"holdtime": str(one.session.hold), "keepalive": str(one.session.keepalive)}
    whole = bgp.address(one.here) is not None and row["asn"]
    return Finding(
        place,
        f"no session here, {shown(one.switch.name)} has one with {shown(one.session.peer)}",
        f"a session with {shown(one.here)}, AS {row['asn']}" if whole else "a session, or none at both ends",
        one.place,
        patch=tuple(PatchOperation(_TABLE, one.here, name, value) for name, value in row.items()) if whole else (),
    )


@rule("PF067", "bgp-cannot-start", "RFC 4271 §8.1", "SONiC: bgpcfgd (BGPPeerMgrBase.add_peer)", devices=VENDORS)
def check_reachable(reading: Reading) -> Iterator[Finding]:
    """A BGP session cannot start: its address is in no subnet of the switch, or the switch lacks what BGP needs.

    The address may also be the switch's own, and `local_addr` must be an address of the switch in the subnet of the
    other end: SONiC waits for that interface without an error. It also waits for `bgp_asn` and an IPv4 address of
    Loopback0, the router ID. Sessions between loopbacks, over several hops or in one AS are left out.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        if switch.bgp is None:
            continue
        if switch.bgp.waits_for:
            table, key, *names = switch.bgp.waits_for.split()
            place = Place(switch.name, table, key, *names)
            yield Finding(place, "missing: SONiC starts no session without it", "the one of this switch")
        interfaces = [(name, own) for name, all_ in switch.addresses.items() for t in all_ if (own := bgp.interface(t))]
        found = {s.key: list(_unreachable(switch, s, interfaces)) for s in switch.bgp.sessions}
        # Where most sessions have no interface, the addresses are in other files.
        if sum(map(bool, found.values())) * 2 <= len(found):
            for findings in found.values():
                yield from findings


def _unreachable(switch: Switch, session: Session, interfaces: list[tuple[str, bgp.Interface]]) -> Iterator[Finding]:
    """The finding about a session whose addresses do not fit the interfaces of the switch."""
    peer, local = bgp.address(session.peer), bgp.address(session.local)
    if peer is None or peer.is_link_local:
        return
    place = Place(switch.name, _TABLE, session.key)
    owner = {own.ip: name for name, own in interfaces}
    near = [own for own in _around(peer, (own for _, own in interfaces)) if own.network.num_addresses > 1]
    if peer in owner:
        yield Finding(place, f"the switch's own address, of {shown(owner[peer])}", "the address of the other end")
    elif local is not None and local not in owner:
        usual = str(near[0].ip) if len(near) == 1 else ""
        yield Finding(
            Place(switch.name, _TABLE, session.key, "local_addr"),
            f"no interface has the address {local}",
            f'"{usual}"' if usual else "an address of this switch",
            patch=(PatchOperation(_TABLE, session.key, "local_addr", usual),) if usual else (),
        )
    elif session.multihop or _is_loopback(owner.get(local, "") if local is not None else ""):
        return
    elif not near and session.asn not in {"internal", switch.bgp.asn if switch.bgp else None, None}:
        yield Finding(
            place, "in no subnet of the switch: a session with another AS needs one", "the address of the other end"
        )
    elif near and local is not None and local not in {own.ip for own in near}:
        yield Finding(
            Place(switch.name, _TABLE, session.key, "local_addr"),
            f"{local} is an address of {shown(owner[local])}, and {peer} is in the subnet of "
            f"{shown(owner[near[0].ip])}",
            f'"{near[0].ip}"',
            patch=(PatchOperation(_TABLE, session.key, "local_addr", str(near[0].ip)),),
        )


@rule("PF068", "bgp-one-path", "RFC 7938 §6.1", "EOS: maximum-paths (1 by default)", severity=Severity.warning,
      devices=VENDORS)  # fmt: skip
def check_paths(reading: Reading) -> Iterator[Finding]:
    """A switch uses fewer equal paths than it has: `maximum-paths` is too small, or paths over other ASes do not count.

    The other links to the tier above carry nothing, and the used ones pause. Judged for the paths to switches with
    hosts over one switch between; a limit of SONiC is that of its template, 64, unless BGP_GLOBALS_AF has another.

    No incident is known.
    """
    fabric = reading.fabric
    near: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in _known(reading):
        if one.session.up and one.back is not None and one.back.up:
            near[one.switch.name][one.far.name].add(one.session.peer)
    edge = _with_hosts(fabric)
    for name, mine in near.items():
        own = _bgp(fabric.switches[name])
        ends = [theirs for far, theirs in near.items() if far in edge and far != name and far not in mine]
        between = max((mine.keys() & theirs.keys() for theirs in ends), key=len, default=set[str]())
        count = sum(len(mine[far]) for far in between)
        place = Place(name, "BGP_GLOBALS_AF", "default|ipv4_unicast", "max_ebgp_paths")
        if own.paths is not None and own.paths < count:
            yield Finding(
                place,
                f"at most {counted(own.paths, 'path')}, and {count} are equal, such as over "
                f"{shown(', '.join(sorted(between)[:2]))}",
                f"at least {count}",
                patch=(PatchOperation("BGP_GLOBALS_AF", place.key, place.field, str(count)),),
            )
        elif own.relaxed is False and len({_bgp(fabric.switches[far]).asn for far in between}) > 1:
            yield Finding(
                Place(name, "BGP_GLOBALS", "default", "load_balance_mp_relax"),
                f"paths over other ASes do not count as equal, and the {len(between)} next hops have several",
                '"true"',
                patch=(PatchOperation("BGP_GLOBALS", "default", "load_balance_mp_relax", "true"),),
            )


def _with_hosts(fabric: Fabric) -> set[str]:
    """The switches with hosts; where no file names hosts, those with a port that leads to no other switch."""
    tier = levels([(link.a.device, link.b.device) for link in fabric.links], fabric.switches)
    if found := {name for name, level in tier.items() if level == 0}:
        return found
    wired = {end for link in fabric.links for end in (link.a, link.b)}
    return {s.name for s, port in fabric.ports() if port.up and port.speed and End(s.name, port.name) not in wired}


@rule("PF069", "bgp-timers-differ", "RFC 4271 §4.2, §10; RFC 5882 §10", severity=Severity.warning, devices=VENDORS)
def check_timers(reading: Reading) -> Iterator[Finding]:
    """The ends of a BGP session have different hold times, BFD at one end only, or a hold time that BGP cannot keep.

    The smaller hold time holds for both, and 0 is none at all. With BFD at one end that end waits for a BFD session
    that never comes, and failures are noticed only after the hold time. A hold time must be 0 or at least 3 s, and
    above the keepalive time.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        for session in switch.bgp.sessions if switch.bgp is not None else ():
            hold, alive = session.hold, session.keepalive
            place = Place(switch.name, _TABLE, session.key, "holdtime")
            if hold and hold < SHORTEST:
                yield Finding(place, f"a hold time of {hold} s: BGP allows 0, and 3 s and more", "three keepalives")
            elif hold and alive is not None and alive >= hold:
                message = f"keepalives every {alive} s, and a session ends after {hold} s without one"
                yield Finding(place, message, f"three times the keepalive, or a keepalive of {max(1, hold // 3)}")
    seen = set()
    for one in _known(reading):
        if one.back is None or (one.far.name, one.back.key) in seen:
            continue
        seen.add((one.switch.name, one.session.key))
        ends = (one.switch, one.session), (one.far, one.back)
        for (switch, session), (far, back) in (ends, ends[::-1]):
            other = Place(far.name, _TABLE, back.key)
            if session.bfd and not back.bfd:
                yield Finding(
                    Place(far.name, _TABLE, back.key, "bfd"),
                    f"no BFD here, {shown(switch.name)} waits for it",
                    '"true" at both ends',
                    Place(switch.name, _TABLE, session.key),
                )
            if session.hold is not None and back.hold is not None and session.hold > back.hold:
                yield Finding(
                    Place(switch.name, _TABLE, session.key, "holdtime"),
                    f"hold time {session.hold} s here, {back.hold} s at {shown(far.name)}: "
                    + ("the smaller one holds" if back.hold else "neither end notices that the other is gone"),
                    "the same at both ends",
                    other,
                )
