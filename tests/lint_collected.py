"""The files that `collect.sh` gathers of a host on which a `setup.sh` ran: in the words of ip, dcb, nft and ethtool.

The output of these commands is that of iproute2 6.12, nftables 1.1 and ethtool 6.11.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pauseframe.devices.host_state import ETS
from pauseframe.devices.read import read_fabric

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.devices.model import Host, HostVlan, Nic

LONG = {"tso": "tcp-segmentation-offload", "gro": "generic-receive-offload"}


def collected(deployed: Path, folder: Path) -> Path:
    """Writes the folder of a host."""
    (host,) = read_fabric([deployed]).fabric.hosts.values()
    for route in host.routes:
        route.ecn = route.congctl == "dctcp"  # networkd, which is read first, cannot say so
    files: dict[str, Any] = {
        "ip-link.json": [row for nic in host.nics.values() for row in _links(host, nic)],
        "ip-addr.json": [
            row for nic in host.nics.values() for row in (_addresses(nic), *map(_addresses, nic.vlans.values()))
        ],
        "ip-neigh.json": [
            {"dst": ip, "dev": vlan.interface, "lladdr": mac, "state": ["PERMANENT"]}
            for vlan in host.vlans()
            for ip, mac in vlan.neighbours.items()
        ],
        "ip-route.json": list(_routes(host)),
        "ip-rule.json": [{"priority": 0, "src": "all", "table": "local"}]
        + [{"priority": table, "src": source, "table": str(table)} for source, table in host.rules.items()],
        "nft.json": {"nftables": [{"metainfo": {"json_schema_version": 1}}, *_marks(host)]},
    }
    texts = {
        "hostname": f"{deployed.name}\n",
        "sysctl.txt": "".join(f"{name} = {value}\n" for name, value in host.sysctl.items()),
        "roce.txt": "".join(f"/sys/class/net/eth1/ecn/roce_rp/{k.lower()} {v}\n" for k, v in host.registers.items()),
    }
    for nic in host.nics.values():
        for name, value in _dcb(nic).items():
            files[f"dcb-{name}-{nic.name}.json"] = value
        lines = [f"{LONG[name]}: {'on' if on else 'off'}\n" for name, on in nic.offloads.items()]
        texts |= {f"ethtool-{nic.name}.txt": "".join(lines)} if lines else {}
    folder.mkdir(parents=True)
    texts |= {name: json.dumps(value) for name, value in files.items()}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def _links(host: Host, nic: Nic) -> list[dict[str, Any]]:
    own: dict[str, Any] = {"ifname": nic.name, "link_type": "ether", "mtu": nic.mtu}
    own["master"] = next((bond.name for bond in host.bonds.values() if nic.name in bond.members), "")
    if (bond := host.bonds.get(nic.name)) is not None:
        about: dict[str, Any] = {"mode": bond.mode, "miimon": bond.miimon_ms, "xmit_hash_policy": bond.hash_policy}
        about |= {"ad_lacp_rate": "fast" if bond.fast else "slow"} if bond.mode == "802.3ad" else {}
        own["linkinfo"] = {"info_kind": "bond", "info_data": about}
    found: list[dict[str, Any]] = [own]
    for vlan in nic.vlans.values():
        maps = [{"from": one, "to": other} for one, other in vlan.egress.items()]
        about = {"info_kind": "vlan", "info_data": {"id": vlan.id, "egress_qos": maps}}
        found.append({"ifname": vlan.interface, "link": nic.name, "linkinfo": about})
    return found


def _addresses(of: Nic | HostVlan) -> dict[str, Any]:
    pairs = [address.split("/") for address in of.addresses]
    rows = [{"family": "inet", "local": one, "prefixlen": int(length)} for one, length in pairs]
    return {"ifname": getattr(of, "interface", getattr(of, "name", "")), "addr_info": rows}


def _routes(host: Host):
    for route in host.routes:
        metrics = {"congestion": route.congctl, "initcwnd": route.initcwnd, "rto_min": route.rto_min_ms}
        metrics |= {"quickack": 1 if route.quickack else None}
        own = {key: value for key, value in metrics.items() if value is not None} | ({"ecn": None} if route.ecn else {})
        row = {"dst": route.destination, "dev": route.interface, "prefsrc": route.source, "metrics": [own]}
        row |= {"gateway": route.gateway} if route.gateway else {}
        yield row | ({"table": str(route.table)} if route.table else {})


def _marks(host: Host):
    for address, point in host.code_points.items():
        match = {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": address}
        change = {"key": {"payload": {"protocol": "ip", "field": "dscp"}}, "value": point}
        yield {"rule": {"family": "inet", "table": "pauseframe", "expr": [{"match": match}, {"mangle": change}]}}


def _dcb(nic: Nic) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if nic.pfc is not None:
        found["pfc"] = {"pfc_cap": 8, "prio_pfc": [n in nic.pfc for n in range(8)]}
    if nic.dscp_to_priority:
        found["app"] = {"dscp_prio": [list(pair) for pair in nic.dscp_to_priority.items()]}
    if nic.ets:
        lists = {name: [word.partition(":")[2] for word in nic.ets[name].split()] for name in ETS}
        found["ets"] = {
            name.replace("-", "_"): [int(one) if one.isdecimal() else one for one in own] for name, own in lists.items()
        }
    return found
