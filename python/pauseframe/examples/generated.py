"""The generated files of examples: flow lists, topologies, plans, and configurations with faults."""

from __future__ import annotations

import csv
import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pauseframe._core import Topology

Database = dict[str, dict[str, dict[str, str]]]
"""A CONFIG_DB: tables, rows, fields."""

FLOWS = 200
LANES = 4
"""SerDes lanes of a switch port of 100 Gb/s."""


def leaf_spine(leaves: int, hosts_per_leaf: int) -> Topology:
    """A leaf-spine fabric of two spines with links of 100 Gb/s."""
    import pauseframe as pf

    link = pf.Link("100 Gbps", "500 ns")
    family = pf.LeafSpine(leaves=leaves, spines=2, hosts_per_leaf=hosts_per_leaf, link=link)
    return pf.Topology.of_scenario(pf.Scenario(topology=family, workload=[pf.Permutation(size="1 MB")]).resolve())


def flows(folder: Path) -> None:
    """A fabric in GraphML, and a list of flows between its hosts: mostly small, some large, Poisson arrivals."""
    fabric = leaf_spine(4, 4)
    _write_topology(fabric, folder / "fabric.graphml")
    hosts, draw = [f"host{n}" for n in range(16)], random.Random(1)
    rows, start = [], 0.0
    for _ in range(FLOWS):
        start += draw.expovariate(1 / 5)
        size = draw.choice([2_000, 2_000, 2_000, 20_000, 20_000, 1_000_000])
        rows.append((*draw.sample(hosts, 2), size, f"{start:.3f}"))
    _write_csv(folder / "flows.csv", ("src", "dst", "size_bytes", "start_us"), rows)


def routes(folder: Path) -> None:
    """A fabric, the same with another leaf, the same without a link, and ports that fail together."""
    fabric = leaf_spine(4, 4)
    _write_topology(fabric, folder / "fabric.graphml")
    _write_topology(leaf_spine(5, 4), folder / "fabric-new.graphml")
    uplink = next(number for number, ends in enumerate(fabric.links()) if "spine" in ends[1])
    _write_topology(fabric.without([uplink]), folder / "fabric-without-the-link.graphml")
    uplinks = [port for ports in fabric.ports() for port in ports if port.startswith("leaf0:")][-2:]
    _write_csv(folder / "shared.csv", ("group", "port"), [("one cable duct", port) for port in uplinks])


def sonic(folder: Path) -> None:
    """Configurations of a fabric of four SONiC switches with a fault in each, and the MAC addresses of its hosts."""
    import pauseframe as pf
    from pauseframe.deploy import Settings, write_deployment
    from pauseframe.fabric.routing import write_plan

    fabric = leaf_spine(2, 2)
    _write_topology(fabric, folder / "fabric.graphml")
    _write_csv(
        folder / "macs.csv",
        ("device", "mac", "port", "name"),
        [(f"host{n}", f"00:11:22:33:44:{n + 1:02x}", "", "ens1f0") for n in range(4)],
    )
    with tempfile.TemporaryDirectory() as work:
        plan, lanes, written = (Path(work) / name for name in ("plan", "lanes.csv", "written"))
        write_plan(pf.plan_routes(fabric, lanes=2, vlans=8, first_vlan=100), fabric, plan)
        _write_csv(lanes, ("device", "mac", "port", "name", "lanes"), _lanes_of(fabric))
        settings = Settings(cable=10.0)
        write_deployment(plan, written, settings, inventory=[folder / "macs.csv", lanes])
        for switch in sorted((written / "switches").iterdir()):
            database = json.loads((switch / "config_db.json").read_text(encoding="utf-8"))
            FAULTS[switch.name](database)
            file = folder / "configs" / switch.name / "config_db.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(database, indent=4) + "\n", encoding="utf-8")


def _lanes_of(fabric: Topology) -> Iterable[tuple[str, ...]]:
    """Rows of an inventory that give each switch port its lanes."""
    ports: dict[str, int] = {}
    for end in (end for ends in fabric.ports() for end in ends):
        device, _, port = end.partition(":")
        if not device.startswith("host"):
            number = ports[device] = ports.get(device, -1) + 1
            first = LANES * number
            yield device, "", port, f"Ethernet{first}", " ".join(str(first + lane) for lane in range(LANES))


def _small_headroom(database: Database) -> None:
    """A profile of one port has a tenth of the headroom of the others (PF010)."""
    group = database["BUFFER_PG"][f"{next(iter(database['PORT']))}|3"]
    profile = database["BUFFER_PROFILE"][group["profile"]]
    group["profile"] = "pg_lossless_small"
    database["BUFFER_PROFILE"]["pg_lossless_small"] = profile | {"xoff": str(int(profile["xoff"]) // 10)}


def _lossy_group(database: Database) -> None:
    """Paused priority 3 of one port in the lossy group (PF011)."""
    port = next(iter(database["PORT"]))
    database["BUFFER_PG"][f"{port}|3"]["profile"] = "ingress_lossy_profile"


def _one_priority(database: Database) -> None:
    """One port pauses priority 4 alone; its neighbour pauses 3 and 4 (PF052)."""
    database["PORT_QOS_MAP"][next(iter(database["PORT"]))]["pfc_enable"] = "4"


def _no_marks(database: Database) -> None:
    """WRED is off for green packets, which are all (PF030), and no watchdog guards one port (PF041)."""
    for profile in database["WRED_PROFILE"].values():
        profile["wred_green_enable"] = "false"
    del database["PFC_WD"][next(iter(database["PORT"]))]


FAULTS = {"leaf0": _small_headroom, "leaf1": _lossy_group, "spine0": _one_priority, "spine1": _no_marks}
"""The faults that `sonic` puts into the configurations of the switches."""


def _write_topology(topology: Topology, file: Path) -> None:
    file.write_text(topology.write("graphml"), encoding="utf-8")


def _write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened, lineterminator="\n").writerows([header, *rows])
