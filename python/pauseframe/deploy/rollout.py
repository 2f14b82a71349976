"""An order of changes to devices in which no intermediate state can deadlock or lose frames, verified step by step.

First every switch gets its tables, while no host sends in the new VLANs. Then the hosts, rack by rack, are configured
to receive in the new VLANs. Last the hosts begin to send, rack by rack. After each step the verifier checks the
installed rows and the possible traffic; the undo is the same list in reverse order.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe.deploy.commands import LINUX, RECEIVE, Commands, of_sonic, section
from pauseframe.deploy.plan import DeployError, Plan
from pauseframe.fabric.topology import topology_of
from pauseframe.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pauseframe._core import Topology
    from pauseframe.types import RouteReport

MOST_ROWS = 50_000_000
"""Maximum product of rows and steps for which every state is verified."""


@dataclass(frozen=True)
class Step:
    """Devices that are changed together, in any order among themselves."""

    kind: str
    """Kind of step: "switch", "receive" or "send"."""
    devices: tuple[str, ...]


def steps(plan: Plan) -> list[Step]:
    """The steps of the roll-out in their order."""
    racks: dict[str, list[str]] = {}
    for host in plan.hosts:
        racks.setdefault(host.switch, []).append(host.name)
    order = [Step("switch", (switch,)) for switch in plan.switches]
    order += [Step("receive", tuple(names)) for names in racks.values()]
    return order + [Step("send", tuple(names)) for names in racks.values()]


def check(plan: Plan, order: list[Step]) -> int:
    """Verifies the state after each step; returns the number of verified states. DeployError names an unsafe state.

    If the plan is so large that the verification of all states takes minutes, only the last state of each kind of step
    is verified. An earlier state has a subset of its rows and senders, hence no additional buffer dependency and no
    additional route.
    """
    rows = sum(map(len, plan.rows.values()))
    last = {step.kind: step for step in order}
    verifier, ready, receiving, sending = _Verifier(plan), set[str](), set[str](), set[str]()
    checked = 0
    for step in order:
        (ready if step.kind == "switch" else receiving if step.kind == "receive" else sending).update(step.devices)
        if sending and len(ready) < len(plan.switches):
            problem: str | None = "sends before every switch has its rows"
        elif rows * len(order) > MOST_ROWS and step is not last[step.kind]:
            continue
        else:
            problem = verifier.problem(ready, receiving, sending)
        if problem:
            raise DeployError(f"after the step {step.kind} {', '.join(step.devices[:3])} the fabric {problem}")
        checked += 1
    return checked


class _Verifier:
    """Runs the core's verifier on parts of a plan's rows.

    Hosts of one switch that have equal rows everywhere are one destination. The text of a state's rows and senders is
    joined from parts that are made only once.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._served = {pair for used in plan.used.values() for pair in used}
        self._home = {host.name: host.switch for host in plan.hosts}
        ways: dict[str, list[tuple[str, int, str]]] = {host.name: [] for host in plan.hosts}
        for switch, rows in plan.rows.items():
            for vlan, to, port in rows:
                ways[to].append((switch, vlan, "" if switch == self._home[to] else port))
        alike: dict[tuple[str, tuple[tuple[str, int, str], ...]], str] = {}
        first = {name: alike.setdefault((self._home[name], tuple(own)), name) for name, own in ways.items()}
        hosts = {host.name: f"h{i}" for i, host in enumerate(plan.hosts) if first[host.name] == host.name}
        switches = {name: f"s{i}" for i, name in enumerate(plan.switches)}
        self._topology = _topology(plan, switches, hosts)
        self._rows = {
            switch: [
                json.dumps({"switch": switches[switch], "vlan": vlan, "destination": hosts[to], "port": port})
                for vlan, to, port in rows
                if to in hosts
            ]
            for switch, rows in plan.rows.items()
        }
        self._pairs: dict[tuple[str, str], list[str]] = {}
        for vlan, a, b in sorted({(vlan, a, self._home[to]) for vlan, used in plan.used.items() for a, to in used}):
            text = json.dumps({"vlan": vlan, "from": switches[a], "to": switches[b]})
            self._pairs.setdefault((a, b), []).append(text)
        self._lanes = json.dumps([{"vlan": vlan, "lane": lane} for vlan, lane in sorted(plan.vlans.items())])
        self._safe: set[frozenset[str]] = set()
        """Sets of switches whose rows cannot deadlock, whichever hosts send."""

    def problem(self, ready: set[str], receiving: set[str], sending: set[str]) -> str | None:
        """The fault of a state (switches with rows, receiving hosts, sending hosts), or None if the state is safe."""
        from pauseframe._core import FabricError

        racks, targets = ({self._home[name] for name in names} for names in (sending, receiving))
        try:
            if frozenset(ready) not in self._safe:
                if self._verify(ready, self._pairs)["can_deadlock"]:
                    return "can deadlock"
                self._safe.add(frozenset(ready))
            if not sending:
                return None
            report = self._verify(ready, [(a, b) for a, b in self._pairs if a in racks and b in targets])
        except FabricError as error:
            return f"cannot be followed: {error}"
        lost = report["black_holes"]["count"] + report["loops"]["count"]
        return f"loses frames: {lost} routes" if lost else self._unserved(receiving, sending)

    def _unserved(self, receiving: set[str], sending: set[str]) -> str | None:
        """A pair of hosts that no VLAN serves, or None."""
        senders: dict[str, list[str]] = {}
        for name in sorted(sending):
            senders.setdefault(self._home[name], []).append(name)
        for target in sorted(receiving):
            for switch, names in senders.items():
                others = [name for name in names if name != target]
                same_plane = self._plan.planes[switch] == self._plan.planes[self._home[target]]
                if same_plane and others and (switch, target) not in self._served:
                    return f"has no route from {others[0]} to {target}"
        return None

    def _verify(self, ready: set[str], pairs: Iterable[tuple[str, str]]) -> RouteReport:
        """The verifier's report on the rows of some switches and on the traffic between pairs of hosts."""
        from pauseframe import _core

        rows = ",\n".join(text for switch in self._plan.switches if switch in ready for text in self._rows[switch])
        senders = ",\n".join(text for pair in pairs for text in self._pairs[pair])
        text = f'{{"rows":[{rows}],"lanes":{self._lanes},"rewrites":[],"senders":[{senders}]}}'
        with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
            file = write_text(Path(folder) / "tables.json", text)
            return _core.read_routes(str(file), self._topology).check()


def _topology(plan: Plan, switches: dict[str, str], hosts: dict[str, str]) -> Topology:
    """The plan's links with short names."""
    edges = [
        {"source": hosts[h.name], "source_port": "nic", "target": switches[h.switch], "target_port": h.port}
        for h in plan.hosts
        if h.name in hosts
    ]
    edges += [
        {"source": switches[a.device], "source_port": a.port, "target": switches[b.device], "target_port": b.port}
        for a, b, _ in plan.links
    ]
    return topology_of(switches.values(), hosts.values(), edges)


def commands_of(target: str, release: str, *, patched: bool = False) -> dict[str, Commands]:
    """The commands of each kind of step."""
    switch = LINUX
    if target == "sonic" and release == "next":
        switch = of_sonic("config_db.json", "static-l2.json", patched=patched)
    elif target == "sonic":
        loaded, undo = ("no-flooding.json", "fdb.json"), ("fdb-undo.json", "flooding-undo.json")
        switch = of_sonic("config_db.json", patched=patched, loaded=loaded, undo=undo)
    return {"switch": switch, "receive": RECEIVE, "send": LINUX}


_ABOUT = {
    "sonic": "Spanning tree must be off in the new VLANs. The way back sets learning and flooding to SONiC's defaults.",
    "linux": "The script keeps what it changes in /var/lib/pauseframe.",
    "receive": "The host gets its addresses and neighbours in the new VLANs, and sends nothing there.",
    "send": "The host gets its routes. `networkd/`, `netplan.yaml` and `sysctl.conf` have the same settings as files.",
}


def as_text(
    order: list[Step], checked: int, target: str, release: str, names: dict[str, str], *, patched: bool = False
) -> str:
    """The text of ROLLOUT.md."""
    lines = [
        "# Order of roll-out",
        "",
        f"{_verified(checked, order)} Devices of one step can be changed in any order.",
        "",
        "Copy the folder of a device (`switches/NAME`, `hosts/NAME`) to it, and run the commands there as root. A "
        "check that fails ends the roll-out. Back: the same list from its end.",
        "",
    ]
    for kind, own in commands_of(target, release, patched=patched).items():
        title = {"switch": "A switch", "receive": "Receive", "send": "Send"}[kind]
        lines += section(title, _ABOUT[target if kind == "switch" else kind], own)
    lines += ["## Steps", ""]
    lines += [
        f"{i}. {step.kind}: {', '.join(names[device] for device in step.devices)}" for i, step in enumerate(order, 1)
    ]
    return "\n".join(lines) + "\n"


def _verified(checked: int, order: list[Step]) -> str:
    if checked == len(order):
        return f"After each of the {checked} steps the verifier found no deadlock and no lost frame."
    return (
        f"The verifier found no deadlock and no lost frame in the state after the last step of each of the {checked} "
        f"kinds; the states after the other {len(order) - checked} steps have a part of its rows and senders."
    )
