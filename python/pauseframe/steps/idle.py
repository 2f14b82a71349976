"""How fast the network of a job is when nothing else uses it: rates of NICs, delays of paths, places of ranks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.files.reading import parse_toml
from pauseframe.steps.links import group_of, parallelism, servers_of
from pauseframe.sweep.spec import split_unit
from pauseframe.tune.parameters import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.report.data import RunData
    from pauseframe.steps.links import Parallelism
    from pauseframe.steps.network import Network, Pair

STEP_US = 5.0
"""Microseconds of a step beside its bytes, the delay of links and `message_cost`: store and forward, the stack."""
SLICES = 2
"""Slices of a chunk of a ring in NCCL."""
STEPS = 2
"""Steps of NCCL's buffer in a slice: so many more messages of an exchange are under way."""


@dataclass(frozen=True)
class Collectives:
    """What `[workload.collectives]` sets for messages."""

    channels: int = 0
    """Channels of a group; 0: as many as it has GPUs in a server."""
    slice: float = math.inf
    """Bytes of a message of a ring."""
    chunk: float = math.inf
    """Bytes of a message of an exchange."""
    in_flight: int = 4
    """Messages under way on a connection."""
    cost_us: float = 0.0


@dataclass(frozen=True)
class Messages:
    """What determines the number and the bytes of messages between two ranks of a training job."""

    per_stage: int = 0
    """Micro-batches of all iterations; 0 if the job is not one of training."""
    chunks: int = 1
    """Virtual stages."""
    ring_passes: int = 0
    """Layers of a stage times micro-batches of all iterations, if context parallelism passes K and V around a ring."""
    checkpoints: int = 0
    iterations: int = 1
    schedule: str = ""

    @property
    def batches(self) -> int:
        """Micro-batches of an iteration."""
        return self.per_stage // self.iterations

    def between(self, sender: int, receiver: int, sizes: Parallelism) -> int:
        """Number of messages from one rank to another, by the rules of pipelines and rings; 0 if it is not known."""
        match group_of(sender, receiver, sizes):
            case "PP":
                return self._between_stages(sizes.stage(sender), sizes.stage(receiver), sizes.pp)
            case "CP" | "CP or DP":
                step = (receiver - sender) // sizes.tp % sizes.cp
                forward = sizes.cp - 1 if step == 1 else 0
                return self.ring_passes * (forward + (sizes.cp if step == sizes.cp - 1 else 0))
        return 0

    def _between_stages(self, source: int, target: int, stages: int) -> int:
        """Activations go to the next stage, and from the last to the first chunk by chunk; gradients go back."""
        hops = 0
        for one, other in ((source, target), (target, source)):
            hops += self.chunks if other == one + 1 else 0
            hops += self.chunks - 1 if (one, other) == (stages - 1, 0) else 0
        return hops * self.per_stage


@dataclass(frozen=True)
class Idle:
    """The network of a job without other traffic."""

    rate: float
    """Rate of the slowest NIC of the job's hosts, all ports together, in bytes per microsecond."""
    port_rate: float
    """The same of one port, which a single connection uses."""
    servers: Mapping[int, int]
    """The server of each rank."""
    overhead: float = 1.0
    """Bytes on the wire for each byte of a message, times what an oversubscribed fabric stretches them."""
    sizes: Parallelism | None = None
    delay: float = 0.0
    """Mean delay of the links between two hosts of the job."""
    farthest: float = 0.0
    """Largest delay."""
    collectives: Collectives = field(default_factory=Collectives)
    messages: Messages = field(default_factory=Messages)
    sent: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Bytes between ranks over the network."""
    delays: Mapping[tuple[int, int], float] = field(default_factory=dict)
    checkpoints_us: float = 0.0
    """Time of all checkpoints on the busiest NIC."""

    @property
    def byte_us(self) -> float:
        """Time of a byte on all ports of a NIC."""
        return self.overhead / self.rate

    @property
    def flow_us(self) -> float:
        """Time of a byte of one connection."""
        return self.overhead / self.port_rate

    @property
    def step_us(self) -> float:
        """Time of a step beside its bytes and the delay of links."""
        return STEP_US + self.collectives.cost_us

    def members(self, group: str, number: int) -> list[int]:
        """The ranks of a group."""
        return list(self._members(group, number))

    def _members(self, group: str, number: int) -> list[int]:
        if self.sizes is None:
            return list(self.servers)
        if (group, number) not in self._groups:
            self._groups[group, number] = self.sizes.members(group, number)
        return self._groups[group, number]

    @cached_property
    def _groups(self) -> dict[tuple[str, int], list[int]]:
        return {}

    @cached_property
    def _spreads(self) -> dict[tuple[str, int, int], tuple[int, int]]:
        return {}

    def spread(self, group: str, number: int, ranks: int) -> tuple[int, int]:
        """The ranks of a group in the server with the fewest, and the number of servers."""
        key = (group, number, ranks)
        if key not in self._spreads:
            members = self._members(group, number)
            counts = Counter(self.servers[rank] for rank in members if rank in self.servers)
            if group == "comm" and len(members) != ranks:  # a part of all ranks; which, is not recorded
                counts = Counter(dict.fromkeys(range(ranks), 1)) if len(counts) > 1 else counts
            self._spreads[key] = (min(counts.values(), default=1), len(counts))
        return self._spreads[key]

    def ring_us(self, block: float, steps: int, between: int) -> float:
        """Time of the steps of a ring with blocks of so many bytes, of which `between` lie between servers.

        A block goes around in chunks of two slices, one after the other, and the second slice hides in the way of the
        first.
        """
        piece = min(block, self.collectives.slice)
        way = self.step_us + self.delay * between / steps
        chunks = math.ceil(block / (SLICES * self.collectives.slice)) or 1
        # With fewer slices under way than a chunk has, each waits for the one before.
        alone = SLICES / min(self.collectives.in_flight, SLICES) if block > piece else 1.0
        return steps * max(block * self.flow_us, chunks * (piece * self.flow_us + way) * alone)

    def exchange_us(self, block: float, senders: int) -> float:
        """Time of an all-to-all in which the busiest rank receives a block from each of so many others."""
        chunk = min(self.collectives.chunk, max(block, 1.0))
        rounds = block / (chunk * self.collectives.in_flight * STEPS)
        wire = senders * block * self.byte_us
        return max(
            wire + self.step_us + self.farthest, rounds * (chunk * self.flow_us + self.step_us + 2 * self.farthest)
        )

    def message_us(self, sender: int, receiver: int, seen: int) -> float | None:
        """Time of a message from one rank to another; None if none of their bytes uses the network.

        `seen` is the number of messages that the receiver waited for, where the rules of training do not tell it.
        """
        size = self.sent.get((sender, receiver), 0.0)
        if not size or not self.rate:
            return None
        number = self.messages.between(sender, receiver, self.sizes) if self.sizes else 0
        return size / max(number or seen, 1) * self.flow_us + self.step_us + self.delays.get((sender, receiver), 0.0)


def idle_of(run: RunData, job: str, hosts: Mapping[int, str], network: Network) -> Idle:
    """Reads how fast the network of a job is from the scenario and the topology."""
    workloads = parse_toml(run.scenario_toml).get("workload", [])
    workload: Mapping[str, object] = next((one for one in workloads if one.get("name") == job), {})
    sizes = parallelism(run.scenario_toml).get(job)
    messages = _messages(workload, sizes)
    inside = servers_of(run)
    ranks = {host: rank for rank, host in hosts.items()}
    overhead = _overhead(run, network) * _stretch(network)
    rates = {host: [link.rate for link in network.fabric.leaving.get(host, [])] for host in network.hosts}
    delays = {pair: network.fabric.delay(*pair) for pair in network.traffic.own}
    between = {pair: (ranks[pair[0]], ranks[pair[1]]) for pair in delays if pair[0] in ranks and pair[1] in ranks}
    of_ranks = [delays[pair] for pair in between]
    return Idle(
        rate=min((sum(one) for host, one in rates.items() if one and host in ranks), default=0.0),
        port_rate=min((max(one) for host, one in rates.items() if one and host in ranks), default=0.0),
        servers={rank: inside.get(host, -1 - rank) for rank, host in hosts.items()},
        overhead=overhead,
        sizes=sizes,
        delay=fmean(of_ranks) if of_ranks else 0.0,
        farthest=max(of_ranks, default=0.0),
        collectives=_collectives(workload),
        messages=messages,
        sent={between[pair]: network.traffic.own[pair] for pair in between},
        delays={between[pair]: delays[pair] for pair in between},
        checkpoints_us=_checkpoints(network, ranks, rates, delays, overhead, messages.checkpoints),
    )


def quantity(value: object) -> float | None:
    """A size in bytes, a time in seconds or a rate in bits per second; None for other texts."""
    found = split_unit(str(value))
    return None if found is None or found[1] not in UNITS else found[0] * UNITS[found[1]]


def _collectives(workload: Mapping[str, object]) -> Collectives:
    found = workload.get("collectives")
    given = found if isinstance(found, dict) else {}
    cost = (quantity(given.get("message_cost", "0 s")) or 0.0) * 1e6
    return Collectives(
        int(given.get("channels", 0)),
        quantity(given.get("slice")) or math.inf,
        quantity(given.get("p2p_chunk")) or math.inf,
        max(int(given.get("in_flight", 4)), 1),
        cost,
    )


def _messages(workload: Mapping[str, object], sizes: Parallelism | None) -> Messages:
    def of(key: str, default: int = 1) -> int:
        value = workload.get(key)
        return value if isinstance(value, int) else default

    if sizes is None:
        return Messages()
    batches = of("iterations") * of("micro_batches")
    is_ring = sizes.cp > 1 and workload.get("cp_comm") == "p2p"
    checkpoint = workload.get("checkpoint")
    every = int(checkpoint.get("every", 1)) if isinstance(checkpoint, dict) else 0
    return Messages(
        batches,
        of("virtual_stages"),
        batches * of("layers", 0) // sizes.pp if is_ring else 0,
        of("iterations") // every if every else 0,
        of("iterations"),
        str(workload.get("schedule", "")),
    )


def _overhead(run: RunData, network: Network) -> float:
    """Bytes on the wire for each byte of a message: headers, preambles and gaps."""
    traffic = network.traffic
    payload = sum(network.sent.values()) + sum(
        size for (_, sender, _), size in traffic.others.items() if sender in network.hosts
    )
    names = pl.DataFrame({"node": sorted(network.hosts)}, schema={"node": pl.String})
    at_host = (
        run.ports.filter(pl.col("tier").cast(pl.String) == "host")
        .select(pl.col("node").cast(pl.String).str.split(".").list.first(), "utilisation", "rate_bps")
        .join(names.lazy(), on="node", how="semi")
        .select((pl.col("utilisation") * pl.col("rate_bps")).sum())
    )
    wire = float(at_host.collect().item() or 0.0) * run.summary["sim_time_s"] / 8
    return min(max(wire / payload, 1.0), 1.5) if payload else 1.0


def _stretch(network: Network) -> float:
    """How much longer the links out of a switch take for the job's bytes than the NICs of hosts; at least 1."""
    fabric = network.fabric
    busiest = max(
        (
            size / sum(link.rate for link in fabric.leaving[host])
            for host, size in network.sent.items()
            if fabric.leaving.get(host)
        ),
        default=0.0,
    )
    out: dict[str, float] = {}
    for (source, _), size in network.pairs.items():
        out[source] = out.get(source, 0.0) + size
    slowest = 0.0
    for switch, size in out.items():
        rate = sum(link.rate for link in fabric.leaving[switch] if network.crossing(link))
        slowest = max(slowest, size / rate if rate else 0.0)
    return max(slowest / busiest, 1.0) if busiest else 1.0


def _checkpoints(
    network: Network,
    ranks: Mapping[str, int],
    rates: Mapping[str, list[float]],
    delays: Mapping[Pair, float],
    overhead: float,
    count: int,
) -> float:
    """Time of all checkpoints: the bytes on the busiest NIC, of a writer or of storage."""
    at_nic: Counter[str] = Counter()
    farthest = 0.0
    for (sender, target), size in network.traffic.own.items():
        if sender in ranks and target not in ranks:
            at_nic[sender] += size  # type: ignore[assignment]
            at_nic[target] += size  # type: ignore[assignment]
            farthest = max(farthest, delays[sender, target])
    busiest = max((size / sum(rates[host]) for host, size in at_nic.items() if rates.get(host)), default=0.0)
    return busiest * overhead + count * (STEP_US + 2 * farthest)
