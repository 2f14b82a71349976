"""A plan for hosts: a shell script that can undo itself, systemd-networkd files, netplan, sysctls.

Each value carries its source. Every name from a file either goes through `shlex.quote` or is a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from pauseframe.deploy import dcqcn
from pauseframe.deploy.host_script import ROCE
from pauseframe.deploy.traffic import CONTROL, TrafficClass

if TYPE_CHECKING:
    from pauseframe.deploy.plan import Plan, PlannedHost, Settings

BASE_RTT_US = 240
"""Round-trip time of an idle fabric with the hosts' stacks, in microseconds (TCP-Bolt, INFOCOM 2014, section IV)."""
ROCE_HOSTS = "roce_dcqcn"
"""Hosts whose cards run RoCE with DCQCN; the VLAN interface gives packets their priority."""
ECT0 = 2
"""Traffic class of ECN-capable RoCE packets without a DSCP (RFC 3168)."""
STATE = "/var/lib/pauseframe"
"""Folder in which scripts save the state before the first script ran."""
KEEP = """\
have() { ip link show dev "$1" >/dev/null 2>&1; }

# keep NAME COMMAND...: what the command prints, once, for --undo.
keep() {
  name=$1
  shift
  if [ -e "$state/$name" ]; then return 0; fi
  mkdir -p "$state"
  "$@" > "$state/$name.new" || { rm "$state/$name.new"; return 1; }
  mv "$state/$name.new" "$state/$name"
}

# MTU of a link, and whether it is up.
link_keep() { keep "link.$1" ip -o link show dev "$1"; }

link_back() {
  [ -e "$state/link.$1" ] || return 0
  mtu=$(sed -n 's/.* mtu \\([0-9]*\\) .*/\\1/p' "$state/link.$1")
  if grep -q '[<,]UP[,>]' "$state/link.$1"; then up=up; else up=down; fi
  if have "$1" && [ -n "$mtu" ]; then ip link set dev "$1" mtu "$mtu" "$up"; fi
  rm "$state/link.$1"
}
"""
CHECK = """\
wrong() {
  echo "setup.sh: $*" >&2
  faults=1
}

# Whether the host is as expected. It changes nothing.
check() {
  faults=0
  if ! have "$nic"; then
    wrong "no interface $nic"
  elif ! ip -o link show dev "$nic" | grep -q "link/ether $mac"; then
    wrong "$nic has another MAC address than $mac"
  fi
CONTROL  for link in $links; do
    if have "$link" && [ ! -e "$state/link.$nic" ]; then wrong "$link is there already"; fi
  done
  return "$faults"
}
"""
DCTCP_CHECK = """\
  grep -qw dctcp /proc/sys/net/ipv4/tcp_available_congestion_control || modprobe tcp_dctcp 2>/dev/null ||
    wrong "the kernel has no congestion control dctcp"
"""


@dataclass(frozen=True)
class Value:
    """A setting with the sentence that gives its reason."""

    name: str
    value: str
    why: str


def sysctls(host: PlannedHost, settings: Settings) -> list[Value]:
    """Kernel settings of a host; none for RoCE, which does not use the kernel's TCP."""
    if settings.hosts == ROCE_HOSTS:
        return []
    window = max(4 * 2**20, 4 * bdp(host))
    values = [
        Value("net.ipv4.tcp_congestion_control", "dctcp", "RFC 8257: the sender reacts to the share of marks"),
        Value("net.ipv4.tcp_ecn", "1", "RFC 3168: ask for ECN and accept it; DCTCP needs it at both ends"),
        Value("net.ipv4.tcp_no_metrics_save", "1", "a window cached from a congested moment is not used again"),
        Value("net.ipv4.tcp_rmem", f"4096 131072 {window}", "the window can hold several bandwidth-delay products"),
        Value("net.ipv4.tcp_wmem", f"4096 65536 {window}", "so can the send buffer"),
    ]
    if settings.hosts == "tcp_bolt":
        why = "TCP-Bolt starts at line rate, after idle as well (INFOCOM 2014, section III)"
        values.append(Value("net.ipv4.tcp_slow_start_after_idle", "0", why))
    return values


def bdp(host: PlannedHost) -> int:
    """Bandwidth-delay product in bytes."""
    return host.speed * BASE_RTT_US // 8


def route_attributes(host: PlannedHost, settings: Settings) -> list[Value]:
    """Attributes of `ip route` (ip-route(8)); none for RoCE."""
    if settings.hosts == ROCE_HOSTS:
        return []
    values = [
        Value("congctl", "dctcp", "RFC 8257"),
        Value("features", "ecn", "ECN for these destinations, whatever tcp_ecn says"),
    ]
    if settings.hosts in {"tcp_bolt", "dctcp_plus"}:
        values.append(Value("rto_min", "5ms", "DCTCP+: 200 ms are a thousand round trips (Judd, NSDI 2015, section 6)"))
    if settings.hosts == "tcp_bolt":
        segments = max(10, -(-bdp(host) // (settings.mtu - 40)))
        values.append(Value("initcwnd", str(segments), "one bandwidth-delay product: no slow start (TCP-Bolt)"))
        values.append(Value("quickack", "1", "no delayed ACK: the first window is clocked at once"))
    if settings.hosts == "dctcp":
        values.append(Value("rto_min", "10ms", "RFC 8257 leaves it open; DCTCP, SIGCOMM 2010, section 4, uses 10 ms"))
    return _with_tuned(values, settings)


def _with_tuned(values: list[Value], settings: Settings) -> list[Value]:
    """The attributes with the values of `pauseframe tune` in place of the usual ones."""
    tuned, found = settings.tuned, {value.name: value for value in values}
    why = "found by pauseframe tune"
    if tuned.rto_min is not None:
        found["rto_min"] = Value("rto_min", tuned.rto_min, why)
    if tuned.initial_window is not None:
        found["initcwnd"] = Value("initcwnd", str(tuned.initial_window), why)
    if tuned.immediate_acks is not None:
        found.pop("quickack", None)
    if tuned.immediate_acks:
        found["quickack"] = Value("quickack", "1", f"{why}: an ACK for every segment")
    return list(found.values())


def registers(host: PlannedHost, settings: Settings) -> dict[str, int]:
    """The registers of DCQCN of the host's card, as NVIDIA ships them; empty if it runs TCP."""
    if settings.hosts != ROCE_HOSTS:
        return {}
    keys = {"rdma_control": "dcqcn_connectx", "rdma_cnp_interval": "4 us", "rdma_cnp_scope": "port"}
    cnp = {"rdma_cnp_priority": CONTROL[1], "rdma_cnp_dscp": CONTROL[0]}
    one = TrafficClass("hosts", "rdma", settings.priorities[0], 0, lossless=True, ecn=True, keys=keys | cnp)
    return dcqcn.registers(one, host.speed)[0]


def interface(vlan: int) -> str:
    """Name of the VLAN interface."""
    return f"pf{vlan}"


def script(plan: Plan, host: PlannedHost, settings: Settings) -> str:
    """A shell script that sets up missing parts; `--receive` sets up no routes, and `--undo` reverts all changes."""
    nic, vlans = quote(host.nic), plan.indexed_at(host.switch)
    out = [
        _HEAD.format(
            nic=nic,
            mac=host.mac,
            keep=KEEP,
            check=CHECK.replace("CONTROL", "" if settings.hosts == ROCE_HOSTS else DCTCP_CHECK),
            roce=ROCE if settings.hosts == ROCE_HOSTS else "registers_back() { :; }\n",
            registers=" ".join(f"{file}={value}" for file, value in dcqcn.files(registers(host, settings)).items()),
            tos=ECT0,
            state=STATE,
            keys=" ".join(v.name for v in sysctls(host, settings)),
            pfc=" ".join(f"{n}:{'on' if n in settings.priorities else 'off'}" for n in range(8)),
            mlnx=",".join("1" if n in settings.priorities else "0" for n in range(8)),
            links=" ".join(interface(vlan) for _, vlan in vlans),
        )
    ]
    out.append("receive() {")
    out.append('  link_keep "$nic"')
    out.append(f"  ip link set dev {nic} mtu {settings.mtu} up")
    out.append("  pfc")
    if settings.hosts == ROCE_HOSTS:
        out.append("  roce")
    for index, vlan in vlans:
        lane = plan.vlans[vlan]
        name, priority = interface(vlan), settings.priorities[lane]
        out.append(f"  # lane {lane}: frames of VLAN {vlan} carry 802.1p {priority}")
        out.append(f"  have {name} || ip link add link {nic} name {name} type vlan id {vlan}")
        out.append(f"  ip link set dev {name} type vlan egress-qos-map {' '.join(f'{n}:{priority}' for n in range(8))}")
        out.append(f"  ip link set dev {name} up")
        out.append(f"  ip address replace {host.address(index)}/16 dev {name} noprefixroute")
    out.append("  ip -batch - <<'NEIGHBOURS'")
    out += [
        f"neigh replace {other.address(index)} lladdr {other.mac} dev {interface(vlan)} nud permanent"
        for index, vlan in vlans
        for other in plan.heard(vlan, host)
    ]
    out += ["NEIGHBOURS", "}", "", "send() {"]
    out += ["  keep sysctl sysctl $keys"] if sysctls(host, settings) else []
    for value in sysctls(host, settings):
        out.append(f"  # {value.why}")
        out.append(f"  sysctl -q -w {value.name}={quote(value.value)}")
    attributes = route_attributes(host, settings)
    out += [f"  # {value.name}: {value.why}" for value in attributes]
    words = " ".join(f"{value.name} {value.value}" for value in attributes)
    for index, vlan in vlans:
        out.append(
            f"  ip route replace {network(index)} dev {interface(vlan)} src {host.address(index)} {words}".rstrip()
        )
    return "\n".join(out) + "\n}\n" + _TAIL


def network(index: int) -> str:
    """The addresses of the VLAN with this index."""
    return f"10.{index + 1}.0.0/16"


_HEAD = """#!/bin/sh
# Written by `pauseframe deploy`. Read it, then: setup.sh --check, setup.sh --receive, later setup.sh; setup.sh --undo
# takes it back.
# Running it twice does no harm.
set -eu
nic={nic}
state={state}
keys='{keys}'
links='{links}'
mac={mac}
registers='{registers}'
roce_tos={tos}

{keep}
{check}
# Priority flow control: mlnx_qos where NVIDIA's tools are, else dcb (iproute2). Both show what they can set again.
pfc() {{
  if command -v mlnx_qos >/dev/null 2>&1; then
    keep "pfc.$nic" pfc_of_mlnx 2>/dev/null && mlnx_qos -i "$nic" --pfc {mlnx} >/dev/null ||
      echo "setup.sh: $nic has no PFC" >&2
  else
    keep "pfc.$nic" dcb pfc show dev "$nic" prio-pfc 2>/dev/null && dcb pfc set dev "$nic" prio-pfc {pfc} ||
      echo "setup.sh: $nic has no PFC" >&2
  fi
}}

{roce}
pfc_of_mlnx() {{
  mlnx_qos -i "$nic" | sed -n 's/^[[:space:]]*enabled[[:space:]]*//p' | tr -s ' \t' ',' | sed 's/,$//'
}}

pfc_back() {{
  [ -s "$state/pfc.$nic" ] || return 0
  if command -v mlnx_qos >/dev/null 2>&1; then
    mlnx_qos -i "$nic" --pfc "$(cat "$state/pfc.$nic")" >/dev/null
  else
    dcb pfc set dev "$nic" $(cat "$state/pfc.$nic")
  fi
}}

undo() {{
  for link in $links; do
    if have "$link"; then ip link delete dev "$link"; fi
  done
  pfc_back
  registers_back
  if [ -e "$state/sysctl" ]; then sysctl -q -p "$state/sysctl"; fi
  link_back "$nic"
  rm -f "$state/sysctl" "$state/pfc.$nic"
}}
"""
_TAIL = """
case "${1:-}" in
  --check) check ;;
  --undo) undo ;;
  --receive) receive ;;
  '') receive; send ;;
  *) echo "usage: setup.sh [--check | --receive | --undo]" >&2; exit 2 ;;
esac
"""


def sysctl_file(host: PlannedHost, settings: Settings) -> str:
    """The file for /etc/sysctl.d."""
    return "".join(f"# {value.why}\n{value.name} = {value.value}\n" for value in sysctls(host, settings))


def networkd(plan: Plan, host: PlannedHost, settings: Settings) -> dict[str, str]:
    """Files for /etc/systemd/network (systemd.netdev(5), systemd.network(5)), which cannot express `features ecn`."""
    files = {}
    own = plan.indexed_at(host.switch)
    vlans = "".join(f"VLAN={interface(vlan)}\n" for _, vlan in own)
    files["40-pauseframe.network"] = (
        f"[Match]\nName={host.nic}\n\n[Link]\nMTUBytes={settings.mtu}\n\n[Network]\n{vlans}"
    )
    attributes = {value.name: value.value for value in route_attributes(host, settings)}
    for index, vlan in own:
        name, priority = interface(vlan), settings.priorities[plan.vlans[vlan]]
        maps = " ".join(f"{n}-{priority}" for n in range(8))
        files[f"41-{name}.netdev"] = f"[NetDev]\nName={name}\nKind=vlan\n\n[VLAN]\nId={vlan}\nEgressQOSMaps={maps}\n"
        text = [f"[Match]\nName={name}\n\n[Address]\nAddress={host.address(index)}/16\nAddPrefixRoute=no\n"]
        route = [
            f"[Route]\nDestination={network(index)}",
            f"PreferredSource={host.address(index)}",
        ]
        if "congctl" in attributes:
            route.append(f"TCPCongestionControlAlgorithm={attributes['congctl']}")
        if "rto_min" in attributes:
            route.append(f"TCPRetransmissionTimeoutSec={attributes['rto_min']}")
        if "initcwnd" in attributes:
            route.append(f"InitialCongestionWindow={attributes['initcwnd']}")
        if "quickack" in attributes:
            route.append("QuickAck=yes")
        text.append("\n".join(route) + "\n")
        text += [
            f"[Neighbor]\nAddress={other.address(index)}\nLinkLayerAddress={other.mac}\n"
            for other in plan.heard(vlan, host)
        ]
        files[f"42-{name}.network"] = "\n".join(text)
    return files


def netplan(plan: Plan, host: PlannedHost, settings: Settings) -> str:
    """The file for /etc/netplan: interfaces and addresses; setup.sh sets neighbours and TCP, which netplan cannot."""
    lines = ["network:", "  version: 2", "  ethernets:", f"    {host.nic}:", f"      mtu: {settings.mtu}", "  vlans:"]
    for index, vlan in plan.indexed_at(host.switch):
        lines += [
            f"    {interface(vlan)}:",
            f"      id: {vlan}",
            f"      link: {host.nic}",
            f"      addresses: [{host.address(index)}/16]",
        ]
    return "\n".join(lines) + "\n"
