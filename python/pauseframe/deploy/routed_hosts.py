"""A scenario for hosts: a script that can undo itself, sysctls, networkd, and registers of RoCE cards.

Each TCP class has its own address: a socket bound to it takes the routes of the class (congestion control, ECN, RTO,
delayed ACK) and its code point. RoCE uses the first address.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from pauseframe.deploy import dcqcn, quantities, routed
from pauseframe.deploy.design import CONTROLS, uses_dcqcn
from pauseframe.deploy.host_script import HEAD, PORTS, ROCE, TAIL
from pauseframe.deploy.hosts import KEEP, STATE, Value
from pauseframe.devices.model import PRIORITIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from pauseframe.deploy.bonds import Machine
    from pauseframe.deploy.design import Design
    from pauseframe.deploy.plan import PlannedHost
    from pauseframe.deploy.traffic import TrafficClass
    from pauseframe.deploy.underlay import Addresses

FIRST_TABLE = 100
"""Number of the routing table of the first TCP class; the second has the next, the first uses the main table."""
LINUX_RTO_MS, LINUX_WINDOW = 200, "10 segments"
"""Linux's minimum RTO and initial window, which routes need not set."""
ECT0 = 2
"""ECN field of an ECN-capable packet (RFC 3168); part of RoCE's traffic class."""
SWITCHES: dict[str, tuple[str, dict[Any, str]]] = {
    "sack": ("net.ipv4.tcp_sack", {True: "1", False: "0"}),
    "dsack": ("net.ipv4.tcp_dsack", {True: "1", False: "0"}),
    "timestamps": ("net.ipv4.tcp_timestamps", {True: "1", False: "0"}),
    "rack": ("net.ipv4.tcp_recovery", {True: "1", False: "0"}),
    "tlp": ("net.ipv4.tcp_early_retrans", {True: "3", False: "0"}),
    "frto": ("net.ipv4.tcp_frto", {True: "2", False: "0"}),
    "idle_restart": ("net.ipv4.tcp_slow_start_after_idle", {"off": "0", "rfc5681": "1", "linux": "1"}),
    "cache": ("net.ipv4.tcp_no_metrics_save", {"none": "1", "linux": "0", "linux_ssthresh": "0"}),
}
"""Sysctl of each key of TCP, and its value by that of the key."""
NUMBERS = {
    "dup_thresh": "net.ipv4.tcp_reordering",
    "syn_retries": "net.ipv4.tcp_syn_retries",
    "retries": "net.ipv4.tcp_retries2",
}
SYSCTL_KEYS = (*SWITCHES, *NUMBERS)
BUFFER_KEYS = tuple(f"{side}_buffer{part}" for side in ("receive", "send") for part in ("", "_initial", "_max"))


class Route(NamedTuple):
    """The routes of an address, which is one of a TCP class at an interface of a host."""

    of: TrafficClass | None
    """None: the host has no TCP class."""
    face: PlannedHost
    address: IPv4Address
    table: int | None
    """Number of its routing table; None: the main one, for the first address."""


def routes(design: Design, machine: Machine, addresses: Addresses) -> list[Route]:
    """The addresses of a host, by interface and class in the order of the scenario."""
    classes: list[TrafficClass | None] = [one for one in design.classes if one.kind == "tcp"]
    found: list[Route] = []
    for face in machine.faces:
        for one, address in zip(classes or [None], addresses.hosts[face.name, face.nic], strict=False):
            found.append(Route(one, face, address, FIRST_TABLE + len(found) if found else None))
    return found


def attributes(design: Design, one: TrafficClass) -> list[Value]:
    """Attributes of `ip route` (ip-route(8)) for a TCP class."""
    keys, found = one.keys, [Value("congctl", CONTROLS[one.keys["congestion_control"]], f"{one.path}")]
    if keys["ecn"] != "off":
        found.append(Value("features", "ecn", "ECN for these destinations, whatever tcp_ecn says"))
    milliseconds = quantities.number(keys["rto_min"]) * 1e3
    if milliseconds != LINUX_RTO_MS:
        written = max(1, round(milliseconds))
        if abs(written - milliseconds) > 1e-9:
            _note(design, f"{one.path}.rto_min = {milliseconds:g} ms is written as {written} ms: routes have whole ms")
        found.append(Value("rto_min", f"{written}ms", f"{one.path}.rto_min"))
    if keys["initial_window"] != LINUX_WINDOW:
        found.append(Value("initcwnd", str(_segments(design, keys["initial_window"])), f"{one.path}.initial_window"))
    if keys["delayed_ack_segments"] == 1:
        found.append(Value("quickack", "1", f"{one.path}.delayed_ack_segments: an ACK for every segment"))
    return found


def _segments(design: Design, window: str) -> int:
    segment = design.mtu - 40
    if window == "bdp":
        return max(1, -int(-design.bdp // segment))
    number, _, unit = window.partition(" ")
    return round(float(number)) if unit.startswith("segment") else max(1, round(quantities.number(window) / segment))


def sysctls(design: Design) -> list[Value]:
    """Kernel settings of a host. Keys of which classes differ have the value of the first class, with a note."""
    own = [one for one in design.classes if one.kind == "tcp"]
    if not own:
        return []
    first = own[0]
    ecn = "1" if all(one.ecn for one in own) else "2"
    why = "RFC 3168: 1 asks for ECN, 2 accepts it; routes of ECN classes ask by `features ecn`"
    found = [
        Value("net.ipv4.tcp_congestion_control", CONTROLS[first.keys["congestion_control"]], first.path),
        Value("net.ipv4.tcp_ecn", ecn, why),
    ]
    for key, (name, values) in SWITCHES.items():
        if first.keys[key] in values:
            found.append(Value(name, values[first.keys[key]], f"{first.path}.{key}"))
    found += [Value(name, str(first.keys[key]), f"{first.path}.{key}") for key, name in NUMBERS.items()]
    for side, name, least in (("receive", "net.ipv4.tcp_rmem", 4096), ("send", "net.ipv4.tcp_wmem", 4096)):
        if first.keys[f"{side}_buffer"] == "linux":
            start, most = (quantities.whole(first.keys[f"{side}_buffer_{part}"]) for part in ("initial", "max"))
            found.append(Value(name, f"{least} {start} {most}", f"{first.path}.{side}_buffer"))
    for one in own[1:]:
        differing = [key for key in (*SYSCTL_KEYS, *BUFFER_KEYS) if one.keys.get(key) != first.keys.get(key)]
        for key in differing:
            _note(design, f"{one.path}.{key} differs from {first.path}: a host has one value, that of {first.path}")
    return found


def _note(design: Design, text: str) -> None:
    if text not in design.notes:
        design.notes.append(text)


def code_points(design: Design) -> dict[int, int]:
    """The priority of each code point that a NIC queues by DSCP, but those of best effort."""
    found = {one.dscp: one.priority for one in design.classes}
    if design.notifications:
        found |= dict([design.notifications])
    return {dscp: priority for dscp, priority in sorted(found.items()) if dscp}


def registers(design: Design, host: PlannedHost) -> dcqcn.Registers:
    """The registers of the host's card; empty without DCQCN. Of several transports, the first one's."""
    own = [one for one in design.classes if uses_dcqcn(one)]
    if not own:
        return {}
    found, notes = dcqcn.registers(own[0], host.speed)
    for note in notes:
        _note(design, note)
    for other in own[1:]:
        if dcqcn.registers(other, host.speed)[0] != found:
            _note(design, f"{other.path}: its DCQCN differs from {own[0].path}; a card has one, that of {own[0].path}")
    return found


def script(design: Design, machine: Machine, addresses: Addresses) -> str:
    """A shell script: `--check` changes nothing, `--undo` reverts all changes, running it twice does no harm."""
    own = routes(design, machine, addresses)
    values, several = sysctls(design), len(machine.ports) > 1
    controls = dict.fromkeys(CONTROLS[route.of.keys["congestion_control"]] for route in own if route.of)
    head = HEAD.format(
        nic=quote(machine.ports[0].nic), keep=KEEP, roce=ROCE, state=STATE,
        keys=" ".join(value.name for value in values), controls=" ".join(controls), **_qos(design),
        **_variables(design, machine.ports[0], own, addresses),
        ports=_cases(design, machine, own, addresses) if several else "",
        roce_tos=next((one.dscp << 2 | (ECT0 if one.ecn else 0) for one in design.classes if one.kind == "rdma"), ""),
    )  # fmt: skip
    out = [head, "setup() {"]
    for port in machine.ports:
        out += [f"  port {quote(port.nic)}"] if several else []
        out += _port(design, quote(port.nic))
    for face in machine.faces:
        out += _bond(machine, face, design.mtu) if machine.bond else []
        out += [f"  port {quote(face.nic)}"] if several else []
        out += ['  keep address ip -o -4 address show dev "$nic"', "  keep_routes"]
        length = addresses.subnets[face.switch].prefixlen
        out += [f"  ip address replace {one.address}/{length} dev {quote(face.nic)} noprefixroute"
                for one in own if one.face is face]  # fmt: skip
    if values:
        out.append("  keep sysctl sysctl $keys")
    for value in values:
        out += [f"  # {value.why}", f"  sysctl -q -w {value.name}={quote(value.value)}"]
    out += list(_routes(design, own, addresses))
    return "\n".join([*out, *_marks(own), "}", ""]) + TAIL.format(each="each " if several else "")


def _variables(design: Design, face: PlannedHost, own: list[Route], addresses: Addresses) -> dict[str, str]:
    """The variables of the script that differ between the interfaces of a host."""
    here = [route for route in own if route.face == face]
    subnet = addresses.subnets[face.switch]
    main = any(route.table is None for route in here)
    prefixes = list(dict.fromkeys(map(str, (subnet, addresses.everything)))) if main else []
    is_port = face.nic in {port.nic for port in design.machines[face.name]}
    files = dcqcn.files(registers(design, face)) if is_port else {}
    return {
        "mac": face.mac if is_port else "",
        "addresses": " ".join(f"{route.address}/{subnet.prefixlen}" for route in here),
        "prefixes": " ".join(prefixes),
        "tables": " ".join(f"{route.table}:{route.address}" for route in here if route.table),
        "registers": " ".join(f"{file}={value}" for file, value in files.items()),
    }


def _cases(design: Design, machine: Machine, own: list[Route], addresses: Addresses) -> str:
    """The values of each interface of a host with several; a bond comes before its ports."""
    every = list({one.nic: one for one in (*machine.faces, *machine.ports)}.values())
    cases = []
    for one in every:
        values = _variables(design, one, own, addresses).items()
        cases.append(
            "\n".join([f"    {quote(one.nic)})", *(f"      {key}='{value}'" for key, value in values), "      ;;"])
        )
    return PORTS.format(state=STATE, cases="\n".join(cases), order=" ".join(quote(one.nic) for one in every))


def _port(design: Design, nic: str) -> list[str]:
    out = ['  link_keep "$nic"', f"  ip link set dev {nic} mtu {design.mtu} up"]
    out += ["  qos"] if code_points(design) else []
    out += ["  roce"] if design.notifications else []
    return out + [f"  {line}" for line in _offloads(design, nic)]


def _bond(machine: Machine, face: PlannedHost, mtu: int) -> list[str]:
    options = " ".join(f"{key} {value}" for key, value in machine.bond.options.items()) if machine.bond else ""
    out = [f"  port {face.nic}", f"  if ! have {face.nic}; then", '    mkdir -p "$state"', '    : > "$state/bond"']
    out += [f"    ip link add name {face.nic} type bond {options}", "  fi"]
    for port in machine.ports:
        out += [f"  port {quote(port.nic)}", f"  join {face.nic}"]
    return [*out, f"  ip link set dev {face.nic} mtu {mtu} up"]


def _routes(design: Design, own: list[Route], addresses: Addresses) -> Iterator[str]:
    for one in {route.of.path: route.of for route in own if route.of}.values():
        yield from (f"  # {one.path}: {value.name}: {value.why}" for value in attributes(design, one))
    for of, face, address, table in own:
        words = " ".join(f"{v.name} {v.value}" for v in attributes(design, of)) if of else ""
        subnet, gateway = addresses.subnets[face.switch], addresses.gateway(face.switch)
        of_table, nic = f" table {table}" if table else "", quote(face.nic)
        yield f"  ip route replace {subnet} dev {nic} src {address} {words}".rstrip() + of_table
        if addresses.everything != subnet:
            yield (
                f"  ip route replace {addresses.everything} via {gateway} dev {nic} src {address} {words}".rstrip()
                + of_table
            )
        if table:
            yield f"  ip rule del from {address} lookup {table} 2>/dev/null || true"
            yield f"  ip rule add from {address} lookup {table} priority {table}"


def _marks(own: list[Route]) -> list[str]:
    """Rules of nftables that give the packets of a class their code point; routes cannot."""
    rules = [f"    ip saddr {r.address} meta l4proto tcp ip dscp set {r.of.dscp}" for r in own if r.of and r.of.dscp]
    if not rules:
        return []
    chain = "  chain output { type filter hook postrouting priority mangle; policy accept;"
    clean = ["table inet pauseframe", "delete table inet pauseframe"]
    return ["  nft -f - <<'MARKS'", *clean, "table inet pauseframe {", chain, *rules, "  }", "}", "MARKS"]


def _offloads(design: Design, nic: str) -> list[str]:
    """TSO and GRO if the scenario has them; that the simulator has none by default is no advice for a NIC."""
    given = [key for key in ("tso", "gro") if design.scenario["host"][key]]
    if not given:
        return []
    words = " ".join(f"{key} on" for key in given)
    return [f"keep offload offload_of {nic} {' '.join(given)}", f"ethtool -K {nic} {words}"]


def _qos(design: Design) -> dict[str, str]:
    """Words of `mlnx_qos` and `dcb` for trust, PFC and bandwidth by priority."""
    shares = routed.weights(design)
    left = {n: shares[n] for n in PRIORITIES}
    kinds = ["ets" if left[n] else "strict" for n in PRIORITIES]
    return {
        "mlnx": ",".join("1" if n in design.lossless else "0" for n in PRIORITIES),
        "pfc": " ".join(f"{n}:{'on' if n in design.lossless else 'off'}" for n in PRIORITIES),
        "tsa": ",".join(kinds),
        "tcbw": ",".join(str(left[n]) for n in PRIORITIES),
        "dcb_tsa": " ".join(f"{n}:{kinds[n]}" for n in PRIORITIES),
        "dcb_bw": " ".join(f"{n}:{left[n]}" for n in PRIORITIES),
        "same": " ".join(f"{n}:{n}" for n in PRIORITIES),
        "app": " ".join(f"{dscp}:{priority}" for dscp, priority in code_points(design).items()),
    }


def sysctl_file(design: Design) -> str:
    """The file for /etc/sysctl.d."""
    return "".join(f"# {value.why}\n{value.name} = {value.value}\n" for value in sysctls(design))


def networkd(design: Design, machine: Machine, addresses: Addresses) -> dict[str, str]:
    """Files for /etc/systemd/network (systemd.network(5)), which cannot express `features ecn`."""
    own, several = routes(design, machine, addresses), len(machine.ports) > 1
    found = {}
    for face in machine.faces:
        parts = [f"[Match]\nName={face.nic}\n", f"[Link]\nMTUBytes={design.mtu}\n"]
        parts += _networkd_routes(design, [route for route in own if route.face is face], addresses)
        found[f"40-pauseframe-{face.nic}.network" if several else "40-pauseframe.network"] = "\n".join(parts)
    if machine.bond is not None:
        name = machine.faces[0].nic
        found[f"39-pauseframe-{name}.netdev"] = f"[NetDev]\nName={name}\nKind=bond\n\n{machine.bond.networkd}"
        for port in machine.ports:
            text = f"[Match]\nName={port.nic}\n\n[Link]\nMTUBytes={design.mtu}\n\n[Network]\nBond={name}\n"
            found[f"40-pauseframe-{port.nic}.network"] = text
    return found


def _networkd_routes(design: Design, own: list[Route], addresses: Addresses) -> Iterator[str]:
    """The addresses of an interface, and their routes and rules."""
    subnet, gateway = addresses.subnets[own[0].face.switch], addresses.gateway(own[0].face.switch)
    yield from (f"[Address]\nAddress={one.address}/{subnet.prefixlen}\nAddPrefixRoute=no\n" for one in own)
    for route in own:
        table = f"Table={route.table}\n" if route.table else ""
        words = _of_networkd(attributes(design, route.of)) if route.of else ""
        source = f"PreferredSource={route.address}\n"
        yield f"[Route]\nDestination={subnet}\nScope=link\n{source}{table}{words}"
        if addresses.everything != subnet:
            yield f"[Route]\nDestination={addresses.everything}\nGateway={gateway}\n{source}{table}{words}"
        if route.table:
            yield f"[RoutingPolicyRule]\nFrom={route.address}\nTable={route.table}\nPriority={route.table}\n"


_NETWORKD = {
    "congctl": "TCPCongestionControlAlgorithm",
    "rto_min": "TCPRetransmissionTimeoutSec",
    "initcwnd": "InitialCongestionWindow",
}


def _of_networkd(values: list[Value]) -> str:
    lines = [f"{_NETWORKD[value.name]}={value.value}\n" for value in values if value.name in _NETWORKD]
    return "".join(lines) + ("QuickAck=yes\n" if any(value.name == "quickack" for value in values) else "")
