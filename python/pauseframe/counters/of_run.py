"""The counters that the devices of a simulated fabric would show, from the tables of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pauseframe.counters.model import Counted, Key
from pauseframe.files.reading import parse_toml
from pauseframe.results.folder import SCENARIO

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.counters.model import Kind
    from pauseframe.results.folder import ResultsFolder

DROPS = ("buffer_full", "headroom_exceeded", "not_ect", "headroom_pool", "codel", "link_down", "watchdog")
"""Drops that count at the port where a packet would have left."""


@dataclass
class Simulated:
    """Counters of a run, its wiring, and what its switches pause."""

    name: str
    counted: Counted
    hosts: set[str]
    links: list[tuple[tuple[str, str], tuple[str, str]]]
    """The ends of each link, as (node, port)."""
    lossless: set[int]
    """The priorities that switches pause."""
    flows: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Bytes of the flows from one host to another."""

    def ports_of(self, device: str) -> set[str]:
        """The ports of a node."""
        return {port for ends in self.links for node, port in ends if node == device}


def read_run(folder: Path) -> Simulated:
    """Reads a results folder. Raises InputError if it is none, or if it is damaged."""
    from pauseframe.results.folder import open_results

    results = open_results(folder)
    hosts, links = _wiring(results)
    run = Simulated(str(folder), Counted(), hosts, links, _lossless(results.scenario_toml))
    far = {a: b for link in links for a, b in (link, link[::-1])}
    rows = list(results.frame("ports").iter_rows(named=True))
    lost_pauses = {}
    for row in rows:
        node, port, number = _place(row)
        lost = int(row["pauses_sent"]) - int(row["pauses_received"])
        lost_pauses[(*far.get((node, port), ("", "")), number)] = max(lost, 0)
    for row in rows:
        _port(run, far, row, lost_pauses)
    _flows(run, results)
    return run


def _wiring(results: ResultsFolder) -> tuple[set[str], list[tuple[tuple[str, str], tuple[str, str]]]]:
    """The hosts of a run, and the ports at both ends of its links."""
    from pauseframe._core import ScenarioError, Topology
    from pauseframe.scenario.text import resolve_text, without_plugins

    file = str(results.path / SCENARIO)
    try:
        text = without_plugins(results.scenario_toml)
        topology = Topology.of_scenario(resolve_text(text, base_dir=str(results.path), file_name=file))
    except ScenarioError as error:
        results.damaged(SCENARIO, str(error).splitlines()[0].removeprefix(f"{file}:"))
    ports = [tuple(name.rsplit(":", 1)) for name in topology.port_names()]
    links = [((a[0], a[1]), (b[0], b[1])) for a, b in zip(ports[::2], ports[1::2], strict=True)]
    return {name for name, kind, _ in topology.nodes() if kind == "host"}, links


def _lossless(toml: str) -> set[int]:
    pfc = parse_toml(toml).get("switch", {}).get("pfc", False)
    return {int(one) for one in pfc.get("priorities", ())} if isinstance(pfc, dict) else set()


def _place(row: dict[str, Any]) -> tuple[str, str, int]:
    """Node, port and priority of a row of the table ports."""
    node, port = str(row["port"]).rsplit(":", 1)
    return node, port, int(row["priority"])


def _port(
    run: Simulated,
    far: dict[tuple[str, str], tuple[str, str]],
    row: dict[str, Any],
    lost_pauses: dict[tuple[str, str, int], int],
) -> None:
    """A row counts at its port, and at the port at the other end, which pauses it and receives its packets.

    `lost_pauses` has the number of pauses that left a port (node, port, priority) and did not arrive.
    """
    node, port, number = _place(row)
    drops = sum(int(row[f"drops_{name}"]) for name in DROPS)
    own: dict[Kind, int] = {
        "queue_packets": int(row["tx_packets"]),
        "queue_bytes": int(row["tx_bytes"]),
        "queue_drops": drops,
        "ecn_marks": int(row["ecn_marks"]),
        "trims": int(row["trims"]),
        "rx_drops": int(row["drops_ring_full"]),
        "queue_peak": int(row["backlog_max_bytes"]),
        # A switch counts every pause frame, also those that end a pause.
        "pfc_rx": int(row["pauses_received"]) + int(row["resumes_received"]),
        "pause_us": round(row["paused_us"]),
    }
    # Devices count damaged frames as errors of the link, not as packets; the table has pauses among them.
    packets = int(row["tx_packets"])
    damaged = min(max(int(row["drops_corrupted"]) - lost_pauses.get((node, port, number), 0), 0), packets)
    whole = (packets - damaged) / packets if packets else 0.0
    other: dict[Kind, int] = {
        "pfc_tx": int(row["pauses_sent"]) + int(row["resumes_received"]),
        "rx_packets": packets - damaged,
        "rx_bytes": round(int(row["tx_bytes"]) * whole),
        "shared_peak": int(row["ingress_max_bytes"]),
    }
    for (device, name), values in (((node, port), own), (far.get((node, port), ("", "")), other)):
        for kind, value in values.items() if device else ():
            run.counted.device(device).add(name, Key(kind, number), value, "")


def _flows(run: Simulated, results: ResultsFolder) -> None:
    """What the kernels of hosts count, and the bytes of the flows from each host.

    Kernels count neither packets nor timeouts of queue pairs, which the NIC handles.
    """
    kinds = _kinds(results.scenario_toml)
    for row in results.frame("flows").iter_rows(named=True):
        source, sink = str(row["src"]), str(row["dst"])
        kind = kinds.get(str(row["transport"]), "udp")
        forward, back = _bytes(row)
        run.flows[source, sink].append(forward)
        if back:
            run.flows[sink, source].append(back)
        for column in ("retransmits", "timeouts") if kind == "tcp" else ():
            of_reply = int(row[f"reply_{column}"])
            for host, count in ((source, int(row[column]) - of_reply), (sink, of_reply)):
                run.counted.device(host).add("", Key(column), count, "", more=True)
        if kind != "rdma":
            of_reply = round(int(row["ce_packets"]) * back / max(forward + back, 1))
            for host, count in ((sink, int(row["ce_packets"]) - of_reply), (source, of_reply)):
                run.counted.device(host).add("", Key("ce_received"), count, "", more=True)


def _bytes(row: dict[str, Any]) -> tuple[int, int]:
    """Delivered bytes of a flow from its source, and back to it: a reply follows its request."""
    delivered, size = int(row["delivered_bytes"]), row["size_bytes"]
    forward = delivered if size is None else min(delivered, int(size))
    return forward, delivered - forward


def _kinds(toml: str) -> dict[str, str]:
    """The kind of each transport of a resolved scenario: tcp, rdma or udp."""
    scenario = parse_toml(toml)
    return {"default": scenario["transport"]["kind"]} | {
        name: transport["kind"] for name, transport in scenario.get("transports", {}).items()
    }
