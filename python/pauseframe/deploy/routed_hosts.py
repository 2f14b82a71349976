"""A scenario for hosts: a script that can undo itself, sysctls, networkd, and registers of RoCE cards.

Each TCP class has its own address: a socket bound to it takes the routes of the class (congestion control, ECN, RTO,
delayed ACK) and its code point. RoCE uses the first address.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from pauseframe.deploy import dcqcn, quantities, routed
from pauseframe.deploy.design import CONTROLS, uses_dcqcn
from pauseframe.deploy.host_script import HEAD, ROCE, TAIL
from pauseframe.deploy.hosts import KEEP, STATE, Value
from pauseframe.devices.model import PRIORITIES

if TYPE_CHECKING:
    from ipaddress import IPv4Address

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
    """The routes of a TCP class at a host."""

    of: TrafficClass
    address: IPv4Address
    table: int | None
    """Number of its routing table; None: the main one."""


def routes(design: Design, host: PlannedHost, addresses: Addresses) -> list[Route]:
    """The TCP classes of a host, in the order of the scenario."""
    own = [one for one in design.classes if one.kind == "tcp"]
    pairs = zip(own, addresses.hosts[host.name], strict=False)
    return [Route(one, address, FIRST_TABLE + at if at else None) for at, (one, address) in enumerate(pairs)]


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


def script(design: Design, host: PlannedHost, addresses: Addresses) -> str:
    """A shell script: `--check` changes nothing, `--undo` reverts all changes, running it twice does no harm."""
    own, subnet = routes(design, host, addresses), addresses.subnets[host.switch]
    points, values = code_points(design), sysctls(design)
    prefixes = list(dict.fromkeys(map(str, (subnet, addresses.everything))))
    controls = dict.fromkeys(CONTROLS[route.of.keys["congestion_control"]] for route in own)
    head = HEAD.format(
        nic=quote(host.nic), mac=host.mac, keep=KEEP, roce=ROCE, state=STATE,
        keys=" ".join(value.name for value in values),
        addresses=" ".join(f"{one}/{subnet.prefixlen}" for one in addresses.hosts[host.name]),
        prefixes=" ".join(prefixes), controls=" ".join(controls),
        tables=" ".join(f"{route.table}:{route.address}" for route in own if route.table), **_qos(design),
        registers=" ".join(f"{file}={value}" for file, value in dcqcn.files(registers(design, host)).items()),
        roce_tos=next((one.dscp << 2 | (ECT0 if one.ecn else 0) for one in design.classes if one.kind == "rdma"), ""),
    )  # fmt: skip
    nic = quote(host.nic)
    out = [head, "setup() {", '  link_keep "$nic"', f"  ip link set dev {nic} mtu {design.mtu} up"]
    if points:
        out.append("  qos")
    if design.notifications:
        out.append("  roce")
    out += [f"  {line}" for line in _offloads(design, nic)]
    out += ['  keep address ip -o -4 address show dev "$nic"', "  keep_routes"]
    out += [
        f"  ip address replace {one}/{subnet.prefixlen} dev {nic} noprefixroute" for one in addresses.hosts[host.name]
    ]
    if values:
        out.append("  keep sysctl sysctl $keys")
    for value in values:
        out += [f"  # {value.why}", f"  sysctl -q -w {value.name}={quote(value.value)}"]
    out += list(_routes(design, host, addresses))
    return "\n".join([*out, *_marks(own), "}", ""]) + TAIL


def _routes(design: Design, host: PlannedHost, addresses: Addresses) -> list[str]:
    subnet, nic = addresses.subnets[host.switch], quote(host.nic)
    gateway, own, out = addresses.gateway(host.switch), routes(design, host, addresses), []
    plain = [(None, addresses.hosts[host.name][0], "")] if not own else []
    found = [(r.table, r.address, " ".join(f"{v.name} {v.value}" for v in attributes(design, r.of))) for r in own]
    for route in own:
        out += [f"  # {route.of.path}: {value.name}: {value.why}" for value in attributes(design, route.of)]
    for table, address, words in plain or found:
        of_table = f" table {table}" if table else ""
        near = f"  ip route replace {subnet} dev {nic} src {address} {words}".rstrip()
        out.append(near + of_table)
        if addresses.everything != subnet:
            far = f"  ip route replace {addresses.everything} via {gateway} dev {nic} src {address} {words}".rstrip()
            out.append(far + of_table)
        if table:
            out.append(f"  ip rule del from {address} lookup {table} 2>/dev/null || true")
            out.append(f"  ip rule add from {address} lookup {table} priority {table}")
    return out


def _marks(own: list[Route]) -> list[str]:
    """Rules of nftables that give the packets of a class their code point; routes cannot."""
    rules = [f"    ip saddr {r.address} meta l4proto tcp ip dscp set {r.of.dscp}" for r in own if r.of.dscp]
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


def networkd(design: Design, host: PlannedHost, addresses: Addresses) -> str:
    """The file for /etc/systemd/network (systemd.network(5)), which cannot express `features ecn`."""
    subnet, gateway = addresses.subnets[host.switch], addresses.gateway(host.switch)
    parts = [f"[Match]\nName={host.nic}\n", f"[Link]\nMTUBytes={design.mtu}\n"]
    parts += [f"[Address]\nAddress={one}/{subnet.prefixlen}\nAddPrefixRoute=no\n" for one in addresses.hosts[host.name]]
    own: list[Route | None] = [*routes(design, host, addresses)]
    for route in own or [None]:
        table = f"Table={route.table}\n" if route and route.table else ""
        words = _of_networkd(attributes(design, route.of)) if route else ""
        source = f"PreferredSource={route.address if route else addresses.hosts[host.name][0]}\n"
        parts.append(f"[Route]\nDestination={subnet}\nScope=link\n{source}{table}{words}")
        if addresses.everything != subnet:
            parts.append(f"[Route]\nDestination={addresses.everything}\nGateway={gateway}\n{source}{table}{words}")
        if route and route.table:
            parts.append(f"[RoutingPolicyRule]\nFrom={route.address}\nTable={route.table}\nPriority={route.table}\n")
    return "\n".join(parts)


_NETWORKD = {
    "congctl": "TCPCongestionControlAlgorithm",
    "rto_min": "TCPRetransmissionTimeoutSec",
    "initcwnd": "InitialCongestionWindow",
}


def _of_networkd(values: list[Value]) -> str:
    lines = [f"{_NETWORKD[value.name]}={value.value}\n" for value in values if value.name in _NETWORKD]
    return "".join(lines) + ("QuickAck=yes\n" if any(value.name == "quickack" for value in values) else "")
