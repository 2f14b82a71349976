"""An order in which devices are changed so that no state in between can deadlock or lose frames, checked step by step.

First every switch gets its tables: nobody sends in the new VLANs yet. Then hosts, rack by rack, learn to receive;
last they begin to send, rack by rack. After each step the verifier looks at the rows that are there and at what can
be sent; the way back is the same list from its end.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pauseframe.deploy.plan import DeployError, Plan


@dataclass(frozen=True)
class Step:
    """Devices that are changed together, in any order among them."""

    kind: str
    """"switch", "receive" or "send"."""
    devices: tuple[str, ...]


def steps(plan: Plan) -> list[Step]:
    """The order."""
    racks: dict[str, list[str]] = {}
    for host in plan.hosts:
        racks.setdefault(host.switch, []).append(host.name)
    order = [Step("switch", (switch,)) for switch in plan.switches]
    order += [Step("receive", tuple(names)) for names in racks.values()]
    return order + [Step("send", tuple(names)) for names in racks.values()]


def check(plan: Plan, order: list[Step]) -> int:
    """Verifies the state after each step; how many were checked. DeployError names the first that is not safe."""
    ready: set[str] = set()
    receiving: set[str] = set()
    sending: set[str] = set()
    checked = 0
    for step in order:
        (ready if step.kind == "switch" else receiving if step.kind == "receive" else sending).update(step.devices)
        problem = _problem(plan, ready, receiving, sending)
        if problem:
            raise DeployError(f"after the step {step.kind} {', '.join(step.devices[:3])} the fabric {problem}")
        checked += 1
    return checked


def _problem(plan: Plan, ready: set[str], receiving: set[str], sending: set[str]) -> str | None:
    """What is wrong with a state: rows of some switches, hosts that receive and that send."""
    from pauseframe import FabricError

    if sending and len(ready) < len(plan.switches):
        return "sends before every switch has its rows"
    try:
        report = _verify(plan, ready, set(), set())
        if report["can_deadlock"]:
            return "can deadlock"
        if sending:
            report = _verify(plan, ready, receiving, sending)
    except FabricError as error:
        return f"cannot be followed: {error}"
    if not sending:
        return None
    lost = report["black_holes"]["count"] + report["loops"]["count"]
    return f"loses frames: {lost} routes" if lost else _unserved(plan, receiving, sending)


def _unserved(plan: Plan, receiving: set[str], sending: set[str]) -> str | None:
    """A pair of hosts that no VLAN serves."""
    targets = [host for host in plan.hosts if host.name in receiving]
    for source in (host for host in plan.hosts if host.name in sending):
        for target in targets:
            if source.name != target.name and not any(plan.uses(vlan, source, target) for vlan in plan.vlans):
                return f"has no route from {source.name} to {target.name}"
    return None


def _verify(plan: Plan, ready: set[str], receiving: set[str], sending: set[str]) -> dict[str, dict[str, int]]:
    """The verifier's report over the rows of some switches.

    For what some hosts send to others, or, if no host sends, for whatever any switch could send in a VLAN.
    """
    from pauseframe import _core

    switch_ids = {name: f"s{i}" for i, name in enumerate(plan.switches)}
    host_ids = {host.name: f"h{i}" for i, host in enumerate(plan.hosts)}
    nodes = [{"id": i, "kind": "switch"} for i in switch_ids.values()] + [
        {"id": i, "kind": "host"} for i in host_ids.values()
    ]
    edges = [
        {"source": host_ids[h.name], "source_port": "nic", "target": switch_ids[h.switch], "target_port": h.port}
        for h in plan.hosts
    ]
    edges += [
        {"source": switch_ids[a.device], "source_port": a.port, "target": switch_ids[b.device], "target_port": b.port}
        for a, b, _ in plan.links
    ]
    text = json.dumps({"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges})
    topology = _core.Topology.parse(text, "node-link")
    rows = [
        {"switch": switch_ids[switch], "vlan": vlan, "destination": host_ids[host], "port": port}
        for switch in plan.switches
        if switch in ready
        for vlan, host, port in plan.rows[switch]
    ]
    racks = {host.switch for host in plan.hosts if host.name in sending} if sending else set(plan.switches)
    targets = {host.name: host.switch for host in plan.hosts if not sending or host.name in receiving}
    pairs = sorted(
        {
            (vlan, switch_ids[a], switch_ids[targets[to]])
            for vlan, used in plan.used.items()
            for a, to in used
            if a in racks and to in targets
        }
    )
    value = {
        "rows": rows,
        "lanes": [{"vlan": vlan, "lane": lane} for vlan, lane in sorted(plan.vlans.items())],
        "rewrites": [],
        "senders": [{"vlan": vlan, "from": a, "to": b} for vlan, a, b in pairs],
    }
    with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
        file = Path(folder) / "tables.json"
        file.write_text(json.dumps(value), encoding="utf-8")
        report: dict[str, dict[str, int]] = _core.read_routes(str(file), topology).check()
        return report


def as_text(order: list[Step], checked: int, target: str, names: dict[str, str]) -> str:
    """ROLLOUT.md."""
    apply = {
        "sonic": "`config checkpoint before-pauseframe`, `config load -y config_db.json`, then `config load -y "
        "static-l2.json`; on an image without SONiC#2468 instead of that `docker cp fdb.json swss:/ && docker exec "
        "swss swssconfig /fdb.json`, with learning off as far as that image can. Spanning tree off in these VLANs",
        "linux": "`sh setup.sh` as root",
    }[target]
    lines = [
        "# Order of roll-out",
        "",
        f"After each of the {checked} steps the verifier found no deadlock and no lost frame. Devices of one step can "
        "be changed in any order. Back: the same list from its end.",
        "",
        f"- a switch: {apply}",
        "- receive: `sh setup.sh --receive` on each host",
        "- send: `sh setup.sh` on each host",
        "- back: `sh setup.sh --undo` on hosts and Linux switches; `config rollback before-pauseframe` on SONiC",
        "",
    ]
    lines += [
        f"{i}. {step.kind}: {', '.join(names[device] for device in step.devices)}" for i, step in enumerate(order, 1)
    ]
    return "\n".join(lines) + "\n"
