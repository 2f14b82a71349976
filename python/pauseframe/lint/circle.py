"""The smallest scenario in which buffers that wait for each other deadlock, under the names of their switches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe.scenario.document import Scenario
from pauseframe.scenario.tables import Custom, Flow, Flows, Link, NoMarker, Pfc, Routing, Switch, Transport

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES = "circle-tables.csv"


@dataclass(frozen=True, slots=True)
class Circle:
    """A scenario (TOML), and the forwarding tables that it names as `circle-tables.csv`."""

    scenario: str
    tables: str


def circle(hops: Sequence[tuple[str, str]], speed: int) -> Circle:
    """A ring of the switches whose buffers wait for each other; each flow crosses two links of the ring.

    `hops` lists (switch, its egress port) in the order of waiting; `speed` is in Mb/s.
    """
    count = max(len(hops), 3)
    names = _names(hops, count)
    hosts = [f"host-{name}" for name in names]
    links = [*zip(hosts, names, strict=True), *((name, names[(i + 1) % count]) for i, name in enumerate(names))]
    # Ports have the order of the links: eth1 leads to the switch's host, the next two ports to the ring.
    onward = ["eth2", *["eth3"] * (count - 1)]
    rows = [
        f"{name},1,{hosts[to]},{'eth1' if at == to else onward[at]}"
        for to in range(count)
        for at, name in enumerate(names)
    ]
    about = "\n".join(
        f"# {name}: egress {_plain(hop[1])} waits for {names[(at + 1) % count]}"
        for at, (name, hop) in enumerate(zip(names, hops, strict=False))
    )
    scenario = Scenario(
        name="circle",
        stop="20 ms",
        transport=Transport(preset="tcp_bolt", initial_window="4 MB", receive_window="8 MB"),
        switch=Switch(buffer="100 KB", marker=NoMarker(), pfc=Pfc(xoff="40 KB")),
        routing=Routing("plan", path=TABLES),
        topology=Custom(hosts, names, links, link=Link(f"{speed} Mbps", "500 ns")),
        workload=[Flows([Flow(hosts[i], hosts[(i + 2) % count], "6 MB") for i in range(count)])],
    )
    tables = "\n".join(["vlan,lane", "1,0", "", "switch,vlan,destination,port", *rows, ""])
    return Circle(f"{scenario.to_toml()}\n{about}\n", tables)


def _names(hops: Sequence[tuple[str, str]], count: int) -> list[str]:
    """A name for each switch of the ring; a switch that occurs twice also has its port."""
    devices = [device for device, _ in hops]
    plain = [
        re.sub(r"[^\w.-]", "_", hop[0] if devices.count(hop[0]) == 1 else ".".join(hop), flags=re.A) for hop in hops
    ]
    names = [f"n{name}" if name[:1] in {"-", ".", ""} else name for name in plain]
    return [name if names.index(name) == at else f"{name}.{at}" for at, name in enumerate(names)] + [
        f"further{at}" for at in range(len(hops), count)
    ]


def _plain(text: str) -> str:
    return re.sub(r"[^\w.:|#/@ -]", "?", text)
