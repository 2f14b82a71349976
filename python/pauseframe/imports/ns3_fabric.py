"""The keys of the HPCC simulator and its forks about hosts, switches, routes and faults."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe.imports.ns3_transport import payload
from pauseframe.scenario.plain import decimal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe import _core
    from pauseframe.imports.config_file import Config

BALANCERS = {
    "0": ("ecmp", "ECMP by a hash of the flow"),
    "2": ("drill", "DRILL: the least loaded of two random ports and the last one, for each packet"),
    "6": ("letflow", "LetFlow: a random port after a gap of 100 us"),
}
"""Routing and its description by LB_MODE of ConWeave's simulator."""
NOT_SIMULATED = {"3": "CONGA"}

CONWEAVE = {
    "CONWEAVE_REPLY_TIMEOUT_EXTRA": ("reply_slack", "4"),
    "CONWEAVE_PATH_PAUSE_TIME": ("path_busy", "8"),
    "CONWEAVE_TX_EXPIRY_TIME": ("epoch_idle", "300"),
    "CONWEAVE_EXTRA_VOQ_FLUSH_TIME": ("tail_slack", "8"),
    "CONWEAVE_DEFAULT_VOQ_WAITING_TIME": ("blind_wait", "200"),
}
"""Times of ConWeave in microseconds: the key of [routing], and the default of conweave-routing.cc."""


@dataclass(frozen=True)
class Fabric:
    """The part of a topology file that a config refers to: names and kinds of nodes, ends and rates of links."""

    nodes: list[tuple[str, str]]
    links: list[tuple[str, str, int]]

    @property
    def switch_rates(self) -> set[int]:
        """Rates of links at switches, in bits per second."""
        kinds = dict(self.nodes)
        return {rate for a, b, rate in self.links if "switch" in (kinds[a], kinds[b])}

    @property
    def has_several_ports(self) -> bool:
        """Whether some host has several links."""
        counts = Counter(end for a, b, _ in self.links for end in (a, b))
        return any(kind == "host" and counts[name] > 1 for name, kind in self.nodes)

    @property
    def has_equal_paths(self) -> bool:
        """Whether some switch with hosts reaches another one by several shortest paths."""
        kinds = dict(self.nodes)
        neighbours: dict[str, list[str]] = {name: [] for name, kind in self.nodes if kind == "switch"}
        leaves = set()
        for a, b, _ in self.links:
            for here, there in ((a, b), (b, a)):
                if kinds[here] == "switch" and kinds[there] == "switch":
                    neighbours[here].append(there)
                elif kinds[here] == "switch":
                    leaves.add(here)
        # No path leads back to its begin, so that has one.
        return any(max(paths[leaf] for leaf in leaves) > 1 for paths in (_paths(leaf, neighbours) for leaf in leaves))


def _paths(begin: str, neighbours: dict[str, list[str]]) -> Counter[str]:
    """The number of shortest paths from a switch to each other one."""
    paths, ring = Counter({begin: 1}), Counter({begin: 1})
    while ring:
        further: Counter[str] = Counter()
        for here, count in ring.items():
            for there in neighbours[here]:
                if there not in paths:
                    further[there] += count
        paths.update(further)
        ring = further
    return paths


def hosts(config: Config, fabric: Fabric) -> list[str]:
    """The table [host]."""
    # GetNicIdxOfQp hashes addresses and ports once for each queue pair; RedistributeQp moves it when a link goes down.
    ports = ['port_choice = "xor"', 'miimon = "1 us" # the simulator moves queue pairs at once']
    return [
        "",
        "[host] # as in the simulator: no Ethernet headers and gaps, queue pairs take turns",
        f'mtu = "{max(1500, payload(config) + 102)} B"',
        'wire_overhead = "none"',
        'nic_queue = "per_destination"',
        *(ports if fabric.has_several_ports else []),
    ]


def routing(config: Config, fabric: Fabric) -> list[str]:
    """The table [routing]."""
    mode = config.one("LB_MODE", "0")
    at_once = 'convergence = "0 s" # the simulator changes its routes at once'
    if mode == "9" and not fabric.has_equal_paths:
        config.used(
            "LB_MODE", "ConWeave has no choice here, since no two leaf switches have several shortest paths: ecmp"
        )
        for key in config.entries:
            if key.startswith("CONWEAVE_"):
                config.idle(key, "ConWeave has no choice here")
        return ["", "[routing]", 'kind = "ecmp"', at_once]
    if mode == "9":
        config.used("LB_MODE", "ConWeave")
        return ["", "[routing]", 'kind = "conweave"', at_once, *_conweave(config)]
    kind, about = BALANCERS.get(mode, BALANCERS["0"])
    if "LB_MODE" in config.entries:
        if mode in BALANCERS:
            config.used("LB_MODE", about)
        else:
            name = NOT_SIMULATED.get(mode, "this load balancer")
            known = ", ".join(f"{number} ({kind})" for number, (kind, _) in BALANCERS.items()) + ", 9 (conweave)"
            config.refuse("LB_MODE", f"{mode}: {name} is not simulated; supported are {known}")
    for key in config.entries:
        if key.startswith("CONWEAVE_"):
            config.idle(key, "a key of ConWeave (LB_MODE 9)")
    return ["", "[routing]", f'kind = "{kind}"', at_once]


def _conweave(config: Config) -> Iterator[str]:
    """The times of ConWeave."""
    for key, (name, default) in CONWEAVE.items():
        time = config.whole(key, default)
        if key in config.entries:
            config.used(key, f"routing.{name} = {time} us")
        yield f'{name} = "{time} us"'


def switches(config: Config, fabric: Fabric) -> list[str]:
    """The table [switch]: buffer, marks and PFC."""
    size = config.number("BUFFER_SIZE", "16")
    if size <= 0:
        raise config.error("BUFFER_SIZE", f"{config.one('BUFFER_SIZE')}: give a size in MiB above 0")
    if "BUFFER_SIZE" in config.entries:
        config.used("BUFFER_SIZE", f"switches share {size:g} MiB; a port may take 1/8 of the free buffer")
    lines = [
        "",
        "[switch]",
        f'buffer = {{ policy = "shared", size = "{decimal(size)} MiB", alpha = 0.125 }}',
        f"marker = {_marker(config, fabric)}",
    ]
    if "ENABLE_PFC" in config.entries:
        on = config.one("ENABLE_PFC") != "0"
        config.used("ENABLE_PFC", "PFC is on" if on else "PFC is off (switch.pfc), and no class is lossless")
        lines += [] if on else ["pfc = false"]
    return lines


def _marker(config: Config, fabric: Fabric) -> str:
    """RED with thresholds (kB) and a probability for each link rate in use."""
    if config.one("ENABLE_QCN", "1") == "0":
        config.used("ENABLE_QCN", "switches mark nothing")
        for key in {"KMIN_MAP", "KMAX_MAP", "PMAX_MAP"} & config.entries.keys():
            config.idle(key, "ENABLE_QCN 0 turns marks off")
        return '"none"'
    if "ENABLE_QCN" in config.entries:
        config.used("ENABLE_QCN", "switches mark by the maps of KMIN, KMAX and PMAX")
    tables = {}
    for key, unit in (("KMIN_MAP", '"{} KB"'), ("KMAX_MAP", '"{} KB"'), ("PMAX_MAP", "{}")):
        values = config.by_rate(key)
        if missing := sorted(fabric.switch_rates - values.keys()):
            raise config.error(key, f"has no value for {missing[0]}, the rate of a link in bit/s: add a pair for it")
        if key == "PMAX_MAP" and (wrong := next((p for p in values.values() if not 0 <= p <= 1), None)) is not None:
            raise config.error(key, f"has the probability {wrong:g}; it is 0 to 1")
        rows = [
            f'"{decimal(rate / 1e9)} Gbps" = {unit.format(decimal(values[rate]))}'
            for rate in sorted(fabric.switch_rates)
        ]
        tables[key] = f"{{ {', '.join(rows)} }}"
        config.used(
            key, f"RED for ports of {', '.join(f'{rate / 1e9:g} Gb/s' for rate in sorted(fabric.switch_rates))}"
        )
    return (
        f'{{ kind = "red", min = {tables["KMIN_MAP"]}, max = {tables["KMAX_MAP"]}, '
        f'p_max = {tables["PMAX_MAP"]}, w_q = 1.0, at = "dequeue", not_ect = "queue" }}'
    )


def faults(config: Config, fabric: Fabric, topology: _core.Topology) -> list[str]:
    """The tables [[failure]] and [[corruption]]."""
    lines = []
    entry = config.entries.get("LINK_DOWN")
    if entry is not None:
        lines += _link_down(config, entry.words, fabric)
    ratio = config.number("ERROR_RATE_PER_LINK", "0")
    if not 0 <= ratio <= 1:
        raise config.error("ERROR_RATE_PER_LINK", f"{config.one('ERROR_RATE_PER_LINK')} is not from 0 to 1")
    if "ERROR_RATE_PER_LINK" in config.entries:
        config.used(
            "ERROR_RATE_PER_LINK", f"corruption of {ratio:g} of all frames" if ratio else "no link damages frames"
        )
    if ratio:
        lines += _corruption(['"*:*"'], ratio)
        # The last column of the topology file, if above 0, precedes the rate for all links.
        for ports, own in _own_errors(topology):
            lines += _corruption(ports, own)
    return lines


def _corruption(ports: list[str], ratio: float) -> list[str]:
    return ["", "[[corruption]]", f"ports = [{', '.join(ports)}]", f"fer = {ratio:.12g}"]


def _own_errors(topology: _core.Topology) -> Iterator[tuple[list[str], float]]:
    """Links with their own error rate: the names of their ports, and the rate."""
    counts: dict[str, int] = {}
    for edge in json.loads(topology.write("node-link"))["edges"]:
        ports = []
        for node in (edge["source"], edge["target"]):
            ports.append(json.dumps(f"{node}:{counts.get(node, 0)}"))
            counts[node] = counts.get(node, 0) + 1
        if error := float(edge.get("frame_error", 0)):
            yield ports, error


def _link_down(config: Config, words: list[str], fabric: Fabric) -> list[str]:
    if len(words) < 3 or not all(re.fullmatch(r"-?[0-9]{1,15}", word) for word in words[:3]):
        raise config.error("LINK_DOWN", f"{' '.join(words)}: expected a time in us and two node ids")
    after, *ends = map(int, words[:3])
    if after == 0:
        config.used("LINK_DOWN", "no link goes down")
        return []
    if any(not 0 <= end < len(fabric.nodes) for end in ends):
        raise config.error("LINK_DOWN", f"{' '.join(words)}: the topology has the nodes 0 to {len(fabric.nodes) - 1}")
    names = [fabric.nodes[end][0] for end in ends]
    if not any({a, b} == set(names) for a, b, _ in fabric.links):
        raise config.error(
            "LINK_DOWN", f"{' '.join(words)}: the topology has no link between {names[0]} and {names[1]}"
        )
    start = config.number("FLOWGEN_START_TIME", "2")
    down = f"{start + after * 1e-6:.12g} s"
    config.used("LINK_DOWN", f"a failure at {down}: {start:g} s and {after} us")
    return ["", "[[failure]]", f"link = {json.dumps(names)}", f'down = "{down}"']
