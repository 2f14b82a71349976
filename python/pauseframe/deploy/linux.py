"""A plan for Linux switches: a bridge with VLAN filtering and static rows, no learning, flooding or spanning tree.

`setup.sh` sets up the bridge; the JSON files beside it hold the expected output of `ip -j`, `bridge -j` and `dcb -j`.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from pauseframe.deploy.hosts import KEEP, STATE

if TYPE_CHECKING:
    from pauseframe.deploy.plan import Plan, Settings

BRIDGE = "pfbr0"
"""A name that no bridge of the operator has, because --undo deletes this bridge."""
Json = list[dict[str, object]]


def script(plan: Plan, switch: str, settings: Settings) -> str:
    """A shell script that is safe to run twice; `--undo` removes the bridge."""
    ports = plan.ports(switch)
    macs = {host.name: host.mac for host in plan.hosts}
    lines = [
        _HEAD.format(
            bridge=BRIDGE,
            ports=" ".join(ports),
            state=STATE,
            keep=KEEP,
            pfc=" ".join(f"{n}:{'on' if n in settings.priorities else 'off'}" for n in range(8)),
        )
    ]
    lines.append("setup() {")
    lines.append(
        f"  have {BRIDGE} || ip link add name {BRIDGE} type bridge vlan_filtering 1 stp_state 0 vlan_default_pvid 0"
    )
    lines.append(f"  ip link set dev {BRIDGE} type bridge vlan_filtering 1 stp_state 0 vlan_default_pvid 0")
    lines.append(f"  ip link set dev {BRIDGE} mtu {settings.port_mtu} up")
    for port in map(quote, ports):
        lines.append(f"  link_keep {port}")
        lines.append(f"  ip link set dev {port} mtu {settings.port_mtu} master {BRIDGE} up")
        lines.append(f"  bridge link set dev {port} learning off flood off mcast_flood off bcast_flood off")
        lines.append(f"  pfc {port}")
    lines.append("  bridge -batch - <<'ROWS'")
    lines += [f"vlan add vid {vlan} dev {port}" for port in ports for vlan in plan.vlans_at(switch)]
    lines += [
        f"fdb replace {macs[host]} dev {port} vlan {vlan} master static" for vlan, host, port in plan.rows[switch]
    ]
    return "\n".join(lines) + "\nROWS\n}\n" + _TAIL


_HEAD = """#!/bin/sh
# Written by `pauseframe deploy`. Read it, then as root: setup.sh --check, setup.sh; setup.sh --undo takes it back.
# Running it twice does no harm.
set -eu
bridge={bridge}

state={state}
ports='{ports}'

{keep}
# Whether the switch is as expected. It changes nothing.
check() {{
  faults=0
  for port in $ports; do
    if ! have "$port"; then
      echo "setup.sh: no port $port" >&2
      faults=1
    elif ip -o link show dev "$port" | grep " master " | grep -qv " master $bridge "; then
      echo "setup.sh: port $port belongs to another bridge" >&2
      faults=1
    fi
  done
  if have "$bridge" && ! ls "$state"/link.* >/dev/null 2>&1; then
    echo "setup.sh: $bridge is there already" >&2
    faults=1
  fi
  return "$faults"
}}

# Ports whose driver has no PFC, such as veth, get a message. `dcb pfc set` accepts what `dcb pfc show` prints.
pfc() {{
  keep "pfc.$1" dcb pfc show dev "$1" prio-pfc 2>/dev/null && dcb pfc set dev "$1" prio-pfc {pfc} ||
    echo "setup.sh: $1 has no PFC" >&2
}}

undo() {{
  if have "$bridge"; then ip link delete dev "$bridge"; fi
  for port in $ports; do
    if [ -s "$state/pfc.$port" ]; then dcb pfc set dev "$port" $(cat "$state/pfc.$port"); fi
    link_back "$port"
    rm -f "$state/pfc.$port"
  done
}}
"""
_TAIL = """
case "${1:-}" in
  --check) check ;;
  --undo) undo ;;
  '') setup ;;
  *) echo "usage: setup.sh [--check | --undo]" >&2; exit 2 ;;
esac
"""


def expected(plan: Plan, switch: str, settings: Settings) -> dict[str, Json]:
    """Relevant parts of the expected output of `ip -j -d link`, `bridge -j vlan`, `bridge -j fdb`, `dcb -j pfc`."""
    macs = {host.name: host.mac for host in plan.hosts}
    ports = plan.ports(switch)
    bridge = {
        "ifname": BRIDGE,
        "mtu": settings.port_mtu,
        "linkinfo": {"info_kind": "bridge", "info_data": {"vlan_filtering": 1, "stp_state": 0}},
    }
    slaves = [
        {
            "ifname": port,
            "mtu": settings.port_mtu,
            "master": BRIDGE,
            "linkinfo": {
                "info_slave_kind": "bridge",
                "info_slave_data": {"learning": False, "flood": False, "mcast_flood": False, "bcast_flood": False},
            },
        }
        for port in ports
    ]
    pfc: Json = [{"pfc_cap": 8, "prio_pfc": [n in settings.priorities for n in range(8)]}]
    files: dict[str, Json] = {
        "ip-link": [bridge, *slaves],
        "bridge-vlan": [
            {"ifname": port, "vlans": [{"vlan": vlan} for vlan in plan.vlans_at(switch)]} for port in ports
        ],
        "bridge-fdb": [
            {"mac": macs[host], "ifname": port, "vlan": vlan, "master": BRIDGE, "state": "static", "flags": []}
            for vlan, host, port in plan.rows[switch]
        ],
    }
    return files | {f"dcb-pfc-{port}": pfc for port in ports}
