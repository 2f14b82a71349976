"""The hottest links of a run, and the kinds of traffic on them.

A run does not record the paths of flows. At a link of a host the kinds are those of its flows; at a link between
switches those of all flows that leave their switch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.files.reading import parse_toml
from pauseframe.report.data import ports_by_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pauseframe._core import Topology
    from pauseframe.report.data import RunData

HOTTEST = 5


@dataclass(frozen=True)
class HotLink:
    """A port with much traffic; times in microseconds, sizes in bytes."""

    port: str
    peer: str
    utilisation: float
    backlog_max: int
    paused_us: float
    marks: int
    traffic: str
    """Kinds of traffic with their shares of the bytes, the largest first."""


def hottest(run: RunData, count: int = HOTTEST) -> list[HotLink]:
    """The links with the highest utilisation."""
    ports = ports_by_number(run).sort("utilisation", "port", descending=[True, False]).head(count)
    rows = ports.filter(pl.col("utilisation") > 0)
    if rows.is_empty():
        return []
    traffic = _traffic(run)
    span = max(run.summary["sim_time_s"] * 1e6, 0.0)
    return [
        HotLink(
            row["port"],
            row["peer"],
            row["utilisation"],
            row["backlog_max_bytes"],
            row["paused"] * span,
            row["ecn_marks"],
            _shares(traffic(row)),
        )
        for row in rows.iter_rows(named=True)
    ]


def _traffic(run: RunData) -> Callable[[Mapping[str, str]], dict[str, float]]:
    """A function from a row of ports to bytes by kind of traffic."""
    kind = kind_of_pairs(run)
    whole = (pl.col("size_bytes") + pl.col("reply_bytes")).cast(pl.Float64)
    back = pl.when(whole > 0).then(pl.col("reply_bytes") / whole).otherwise(0.0) * pl.col("delivered_bytes")
    columns = run.flows.select(
        pl.col("workload", "src", "dst").cast(pl.String), pl.col("delivered_bytes"), back.alias("back")
    )
    grouped = columns.group_by("workload", "src", "dst").agg(pl.col("delivered_bytes", "back").sum()).collect()
    sent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    received: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    across: dict[str, float] = defaultdict(float)
    access = _access(run)
    servers = servers_of(run)
    for workload, source, target, both, back in grouped.rows():
        if source in servers and servers[source] == servers.get(target):
            continue  # over a scale-up link
        name = kind(workload, source, target)
        for sender, receiver, size in ((source, target, both - back), (target, source, back)):
            sent[sender][name] += size
            received[receiver][name] += size
        if access.get(source) != access.get(target) or source not in access:
            across[name] += both

    def of(row: Mapping[str, str]) -> dict[str, float]:
        match row["tier"]:
            case "host":
                return sent[row["node"].partition(".")[0]]
            case "switch-host":
                return received[row["peer"].partition(".")[0]]
        return across

    return of


def servers_of(run: RunData) -> dict[str, int]:
    """The server of each host, whose flows within it use no port; empty without scale-up links."""
    if "[topology.scale_up]" not in run.scenario_toml:
        return {}
    size = int(parse_toml(run.scenario_toml)["topology"]["scale_up"]["gpus_per_server"])
    topology = topology_of(run)
    hosts = [name for name, kind, _ in topology.nodes() if kind == "host"] if topology else []
    return {name: number // size for number, name in enumerate(hosts)}


def topology_of(run: RunData) -> Topology | None:
    """The topology of a run's scenario; None if the scenario cannot be resolved any more."""
    from pauseframe._core import FabricError, InputError, ScenarioError, Topology
    from pauseframe.scenario.text import resolve_text, without_plugins

    try:
        resolved = resolve_text(without_plugins(run.scenario_toml), base_dir=str(run.folder or "."))
        return Topology.of_scenario(resolved)
    except (ScenarioError, FabricError, InputError, OSError):
        return None


def _access(run: RunData) -> dict[str, str]:
    """The switch of each host."""
    rows = run.ports.filter(pl.col("tier").cast(pl.String) == "host").select(pl.col("node", "peer").cast(pl.String))
    return dict(rows.unique().collect().rows())


def _shares(by_kind: Mapping[str, float]) -> str:
    whole = sum(by_kind.values())
    if not whole:
        return "acknowledgements"
    ordered = sorted(by_kind.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {size / whole:.0%}" if len(ordered) > 1 else name for name, size in ordered[:3])


def kind_of_pairs(run: RunData) -> Callable[[str, str, str], str]:
    """A function from workload, source and destination of a flow to its kind: "train DP", or the workload alone.

    Ranks of training are numbered (((stage * DP) + d) * CP + c) * TP + k, so a pair of ranks belongs to one kind of
    group. Storage has no rank.
    """
    sizes = parallelism(run.scenario_toml)
    ranks: dict[tuple[str, str], int] = {}
    if sizes and run.ranks is not None:
        columns = run.ranks.select(pl.col("job", "host").cast(pl.String), "rank").collect()
        ranks = {(job, host): rank for job, host, rank in columns.rows()}

    def kind(workload: str, source: str, target: str) -> str:
        a, b = ranks.get((workload, source)), ranks.get((workload, target))
        if workload not in sizes or (a is None and b is None):
            return workload
        if a is None or b is None:
            return f"{workload} checkpoints"
        return f"{workload} {group_of(a, b, sizes[workload])}"

    return kind


@dataclass(frozen=True)
class Parallelism:
    """Sizes of the groups of a job of training."""

    tp: int
    cp: int
    dp: int
    """Ranks with the same part of the model, also those that share sequences."""
    ep: int
    pp: int = 1
    """Stages; 1 if groups span all of them."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.tp * self.dp * self.pp

    def stage(self, rank: int) -> int:
        """The stage of a rank."""
        return rank // (self.tp * self.dp)

    def number(self, kind: str, rank: int) -> int:
        """The number of a rank's group of a kind, as in `collectives`."""
        place, tensor = divmod(rank, self.tp)
        stage, data = divmod(place, self.dp)
        match kind:
            case "TP":
                return place
            case "CP":
                return place // self.cp * self.tp + tensor
            case "DP":
                return stage * self.tp + tensor
            case "EP":
                return (stage * (self.dp // self.ep) + data // self.ep) * self.tp + tensor
            case "DP_EP":
                return (stage * self.ep + data % self.ep) * self.tp + tensor
        return 0  # all ranks

    def members(self, kind: str, number: int) -> list[int]:
        """The ranks of a group."""
        return [rank for rank in range(self.ranks) if self.number(kind, rank) == number]


def group_of(a: int, b: int, sizes: Parallelism) -> str:
    """The kind of group that two ranks communicate in."""
    if a // sizes.tp == b // sizes.tp:
        return "TP"
    stage = sizes.tp * sizes.dp
    if a // stage != b // stage:
        return "PP"
    if a % sizes.tp != b % sizes.tp:
        return "across"
    sequence = sizes.tp * sizes.cp
    if sizes.cp > 1 and a // sequence == b // sequence:
        return "CP or DP" if sizes.cp == sizes.dp else "CP"
    block = sizes.tp * sizes.ep
    if sizes.ep > 1 and a % stage // block == b % stage // block:
        return "EP or DP" if sizes.ep == sizes.dp else "EP"
    return "DP"


def parallelism(scenario_toml: str) -> dict[str, Parallelism]:
    """Sizes of groups by the name of the job, from the resolved scenario."""
    if 'kind = "training"' not in scenario_toml:
        return {}
    found = {}
    for workload in parse_toml(scenario_toml).get("workload", []):
        if workload.get("kind") == "training" and "tp" in workload and "gpus" in workload:
            tp, pp = max(int(workload["tp"]), 1), max(int(workload.get("pp", 1)), 1)
            pp = 1 if workload.get("as_simai") else pp
            dp = max(int(workload["gpus"]) // (tp * pp), 1)
            cp, ep = (max(int(workload.get(key, 1)), 1) for key in ("cp", "ep"))
            found[str(workload["name"])] = Parallelism(tp, cp, dp, ep, pp)
    return found
