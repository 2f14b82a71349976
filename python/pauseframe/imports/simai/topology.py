"""SimAI's topology text, whose first line has six words.

Source: `SetupNetwork` in ns3/common.h and gen_Topo_Template.py of aliyun/SimAI. GPUs come first, then NVSwitches, then
switches: those of GPUs (ASW) and those above (PSW). The NVSwitches become `topology.scale_up`, because NVLink carries
no Ethernet frames; all other links are kept with rate, delay and error rate.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.imports.fates import Fate
from pauseframe.imports.ns3_fabric import Fabric

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.imports.fates import State

FORM = "nodes gpus_per_server nvswitches switches links gpu_type"
RATES = {"A100": 2400, "H800": 1600, "H100": 3600}
"""NVLink payload rate of a GPU in Gb/s and direction, to compare the file's rate with."""


@dataclass(frozen=True)
class Wire:
    """A link of the file: its ends, rate in bits per second, delay in picoseconds, and the edge as node-link JSON."""

    ends: tuple[int, int]
    rate: int
    delay: int
    edge: dict[str, object]


class SimaiTopology:
    """A topology of SimAI: GPUs, the NVLinks inside of servers, and the Ethernet between them."""

    def __init__(self, path: Path) -> None:
        """Reads the file `path`. Raises InputError with the line of a mistake."""
        self.path = path
        words = _first_line(path)
        self.gpus_per_server, self.nvswitches, self.gpu_type = int(words[1]), int(words[2]), words[5]
        read = _core.Topology.read(str(path), format="hpcc")
        self.notes = [note for note in read.notes if "NVSwitch" not in note]
        nodes = read.nodes()
        self._numbers = {name: number for number, (name, _, _) in enumerate(nodes)}
        self._hosts = [kind == "host" for _, kind, _ in nodes]
        listed = json.loads(read.write("node-link"))["edges"]
        self._wires = [
            Wire((self._numbers[a], self._numbers[b]), rate, round(delay * 1e6), edge)
            for (a, b, rate, delay), edge in zip(read.links(), listed, strict=True)
        ]
        self._check_count(int(words[4]))
        self._scale_up = {number for name, number in self._numbers.items() if name.startswith("nvswitch")}
        self._check()

    def _check_count(self, declared: int) -> None:
        if declared != len(self._wires):
            raise InputError(
                f"{self.path}, line 1: it declares {declared} links, and the file has {len(self._wires)}: it may be "
                "cut off"
            )

    def _check(self) -> None:
        gpus = sum(self._hosts)
        if gpus == 0:
            raise InputError(f"{self.path}: it has no GPU: all nodes are listed as switches in line 2")
        if not all(self._hosts[:gpus]):
            raise InputError(f"{self.path}: GPUs must have the ids 0 to {gpus - 1}, as SimAI counts ranks")
        if self.gpus_per_server < 1 or gpus % self.gpus_per_server:
            raise InputError(
                f"{self.path}, line 1: {gpus} GPUs are no whole number of servers of {self.gpus_per_server}"
            )
        if self.nvswitches:
            self._check_servers()

    def _check_servers(self) -> None:
        """Each server must have NVSwitches that all its GPUs, and no others, are wired to."""
        switches: dict[int, set[int]] = {gpu: set() for gpu in range(self.gpus)}
        for wire in self.nvlinks:
            gpu, switch = sorted(wire.ends)
            if gpu >= self.gpus:
                raise InputError(f"{self.path}: NVSwitch {switch} is wired to node {gpu}, which is no GPU")
            switches[gpu].add(switch)
        taken: set[int] = set()
        for first in range(0, self.gpus, self.gpus_per_server):
            server = [switches[gpu] for gpu in range(first, first + self.gpus_per_server)]
            if any(one != server[0] for one in server) or not server[0] or server[0] & taken:
                raise InputError(
                    f"{self.path}: GPUs {first} to {first + self.gpus_per_server - 1} are one server by line 1, but "
                    "their NVLinks lead to other NVSwitches; wire them as gen_Topo_Template.py does"
                )
            taken |= server[0]
        if len({(wire.rate, wire.delay) for wire in self.nvlinks}) > 1:
            raise InputError(f"{self.path}: NVLinks have several rates or delays; topology.scale_up has one of each")

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return sum(self._hosts)

    @cached_property
    def nvlinks(self) -> list[Wire]:
        """Links to NVSwitches."""
        return [wire for wire in self._wires if self._scale_up & set(wire.ends)]

    @cached_property
    def links(self) -> list[Wire]:
        """Links of the Ethernet."""
        return [wire for wire in self._wires if not self._scale_up & set(wire.ends)]

    @cached_property
    def names(self) -> list[str]:
        """Names of all nodes by SimAI's id: gpu0, nvswitch32, asw36, psw44."""
        access = {end for wire in self.links if self._hosts[min(wire.ends)] for end in wire.ends}
        return [
            f"gpu{number}"
            if is_host
            else f"nvswitch{number}"
            if number in self._scale_up
            else f"{'asw' if number in access else 'psw'}{number}"
            for number, is_host in enumerate(self._hosts)
        ]

    def node_link(self) -> str:
        """The Ethernet as node-link JSON, with the names of `names`."""
        nodes = [
            {"id": name, "kind": "host" if self._hosts[number] else "switch"}
            for number, name in enumerate(self.names)
            if number not in self._scale_up
        ]
        edges = []
        for number, wire in enumerate(self.links):
            a, b = (self.names[end] for end in wire.ends)
            edges.append(wire.edge | {"source": a, "target": b, "from": a, "link": number, "key": number})
        graph = {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges}
        return json.dumps(graph, indent=1) + "\n"

    def fabric(self) -> Fabric:
        """The nodes by SimAI's ids and the links of the Ethernet, for the keys of SimAI.conf."""
        nodes = [(name, "host" if self._hosts[number] else "switch") for number, name in enumerate(self.names)]
        return Fabric(nodes, [(self.names[w.ends[0]], self.names[w.ends[1]], w.rate) for w in self.links])

    def scale_up(self) -> list[str]:
        """The table [topology.scale_up]; empty without NVSwitches."""
        if not self.has_servers:
            return []
        rate, delay = self._nvlink()
        return [
            "",
            "[topology.scale_up] # NVLink: no frames, no pauses; GPUs of a server share it max-min fairly",
            f"gpus_per_server = {self.gpus_per_server}",
            f'rate = "{rate / 1e9:.12g} Gbps"',
            f'latency = "{2 * delay / 1000:.12g} ns" # GPU, NVSwitch, GPU',
        ]

    @property
    def has_servers(self) -> bool:
        """Whether NVLinks join several GPUs."""
        return self.nvswitches > 0 and self.gpus_per_server > 1

    def _nvlink(self) -> tuple[int, int]:
        """Rate of a GPU in bits per second, and delay of one NVLink in picoseconds."""
        per_gpu = len(self.nvlinks) // self.gpus
        return per_gpu * self.nvlinks[0].rate, self.nvlinks[0].delay

    def fates(self) -> list[Fate]:
        """What became of each word of line 1, and of the links."""
        servers = self.gpus // self.gpus_per_server
        rows: list[tuple[str, object, State, str]] = [
            (
                "nodes",
                len(self._hosts),
                "used",
                f"{self.gpus} GPUs are hosts gpu0 to gpu{self.gpus - 1}, in this order",
            ),
            ("switches", len(self._hosts) - self.gpus - self.nvswitches, "used", "asw: switches of GPUs; psw: above"),
            ("links", len(self._wires), "used", "rates, delays and error rates in fabric.json"),
        ]
        if self.has_servers:
            rate, delay = self._nvlink()
            rows += [
                ("gpus_per_server", self.gpus_per_server, "used", f"topology.scale_up: {servers} servers"),
                (
                    "nvswitches",
                    self.nvswitches,
                    "mapped",
                    f"topology.scale_up, {rate / 1e9:g} Gb/s a GPU and {2 * delay / 1000:g} ns: max-min shares, not "
                    "packets of 9,000 B",
                ),
                ("gpu_type", self.gpu_type, "no effect", self._of_type(rate)),
            ]
            if any("frame_error" in wire.edge for wire in self.nvlinks):
                rows.append(("error rate of NVLinks", "", "no effect", "topology.scale_up loses nothing"))
        else:
            alone = "a server has one GPU, and NVLinks join none"
            why = alone if self.nvswitches else "without NVSwitches, GPUs reach each other over the switches"
            rows += [
                ("gpus_per_server", self.gpus_per_server, "no effect", why),
                ("gpu_type", self.gpu_type, "no effect", "it chooses SimAI's rings inside a server"),
            ]
        return [Fate(self.path.name, key, str(value), state, how) for key, value, state, how in rows]

    def _of_type(self, rate: int) -> str:
        known = RATES.get(self.gpu_type)
        if known is None or known * 1e9 == rate:
            return "the NVLinks of the file have the rate"
        return f"the NVLinks of the file have {rate / 1e9:g} Gb/s; an {self.gpu_type} has {known:,} Gb/s"


def _first_line(path: Path) -> list[str]:
    """The six words of line 1. Raises InputError if the file has another form."""
    try:
        text = read_bytes(path, share=16).decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text") from None
    words = text.lstrip("\ufeff").partition("\n")[0].split("#")[0].split()
    if len(words) in (3, 4) and all(word.isdecimal() for word in words):
        raise InputError(
            f"{path}, line 1: {len(words)} words: a topology of the HPCC simulator, without NVSwitches: "
            "pauseframe import hpcc CONFIG --topology FILE takes it"
        )
    if len(words) != 6 or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words[:5]):
        raise InputError(f"{path}, line 1: a topology of SimAI begins with six words: {FORM}")
    return words
