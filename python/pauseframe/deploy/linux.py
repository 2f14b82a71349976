"""A plan for Linux switches: a bridge with VLAN filtering, static rows, no learning, no flooding, no spanning tree.

`setup.sh` makes it so; the JSON files beside it have what `ip -j`, `bridge -j` and `dcb -j` print when it is.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pauseframe.deploy.plan import Plan, Settings

BRIDGE = "br0"
Json = list[dict[str, object]]


def script(plan: Plan, switch: str, settings: Settings) -> str:
    """A shell script, safe to run twice; `--undo` removes the bridge."""
    ports = plan.ports(switch)
    macs = {host.name: host.mac for host in plan.hosts}
    lines = [
        _HEAD.format(
            bridge=BRIDGE,
            ports=" ".join(quote(port) for port in ports),
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
        lines.append(f"  ip link set dev {port} mtu {settings.port_mtu} master {BRIDGE} up")
        lines.append(f"  bridge link set dev {port} learning off flood off mcast_flood off bcast_flood off")
        lines += [f"  bridge vlan add vid {vlan} dev {port}" for vlan in sorted(plan.vlans)]
        lines.append(f"  pfc {port}")
    for vlan, host, port in plan.rows[switch]:
        lines.append(f"  bridge fdb replace {macs[host]} dev {quote(port)} vlan {vlan} master static")
    return "\n".join(lines) + "\n}\n" + _TAIL


_HEAD = """#!/bin/sh
# Written by `pauseframe deploy`. Read it, then run it as root; `setup.sh --undo` takes it back.
# Running it twice does no harm.
set -eu
bridge={bridge}

have() {{ ip link show dev "$1" >/dev/null 2>&1; }}

# Switch ports whose driver has no PFC (veth among them) say so and go on.
pfc() {{
  dcb pfc set dev "$1" prio-pfc {pfc} 2>/dev/null || echo "setup.sh: $1 has no PFC" >&2
}}

undo() {{
  for port in {ports}; do
    if have "$port"; then ip link set dev "$port" nomaster; fi
  done
  if have "$bridge"; then ip link delete dev "$bridge"; fi
}}
"""
_TAIL = """
case "${1:-}" in
  --undo) undo ;;
  '') setup ;;
  *) echo "usage: setup.sh [--undo]" >&2; exit 2 ;;
esac
"""


def expected(plan: Plan, switch: str, settings: Settings) -> dict[str, Json]:
    """What `ip -j -d link`, `bridge -j vlan`, `bridge -j fdb` and `dcb -j pfc` show then, in the parts that matter."""
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
        "bridge-vlan": [{"ifname": port, "vlans": [{"vlan": vlan} for vlan in sorted(plan.vlans)]} for port in ports],
        "bridge-fdb": [
            {"mac": macs[host], "ifname": port, "vlan": vlan, "master": BRIDGE, "state": "static", "flags": []}
            for vlan, host, port in plan.rows[switch]
        ],
    }
    return files | {f"dcb-pfc-{port}": pfc for port in ports}
