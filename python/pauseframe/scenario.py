"""A scenario as Python objects: the keys of a scenario file under the same names.

Every class is a frozen dataclass and stands for one table of the file; `pauseframe options` prints what each key
means. Quantities are texts with their unit ("10 Gbps", "240 us", "225 KB"). What is left at None gets its default
from the core, which alone validates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pauseframe import _core
from pauseframe._plain import Part, part_from_plain, to_plain, toml_value

if TYPE_CHECKING:
    from rich.table import Table

# --- topology -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link(Part):
    """Rate and one-way delay of a link, both directions: `Link("10 Gbps", "1 us")`."""

    rate: str | None = None
    delay: str | None = None


@dataclass(frozen=True)
class _Topology(Part):
    """What every topology has. `fabric_link` is for links between switches; without it they are like `link`."""

    link: Link | None = field(default=None, kw_only=True)
    fabric_link: Link | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class FatTree(_Topology):
    """Three-tier fat tree of `k`-port switches: k^3/4 hosts."""

    _tag: ClassVar = ("kind", "fat_tree")
    k: int


@dataclass(frozen=True)
class Xgft(_Topology):
    """XGFT(h; m_1..m_h; w_1..w_h): children and parents of a node at each level, from the hosts up."""

    _tag: ClassVar = ("kind", "xgft")
    m: Sequence[int]
    w: Sequence[int]
    external: int | None = None


@dataclass(frozen=True)
class LeafSpine(_Topology):
    """Every leaf linked to every spine."""

    _tag: ClassVar = ("kind", "leaf_spine")
    leaves: int
    spines: int
    hosts_per_leaf: int


@dataclass(frozen=True)
class Dumbbell(_Topology):
    """Two switches and the link between them."""

    _tag: ClassVar = ("kind", "dumbbell")
    left: int
    right: int


@dataclass(frozen=True)
class Star(_Topology):
    """One switch."""

    _tag: ClassVar = ("kind", "star")
    hosts: int


@dataclass(frozen=True)
class Line(_Topology):
    """Switches in a line."""

    _tag: ClassVar = ("kind", "line")
    switches: int
    hosts_per_switch: int


@dataclass(frozen=True)
class Ring(_Topology):
    """Switches in a ring, at least three."""

    _tag: ClassVar = ("kind", "ring")
    switches: int
    hosts_per_switch: int


@dataclass(frozen=True)
class Jellyfish(_Topology):
    """A random regular graph: each switch has `network_ports` links to others."""

    _tag: ClassVar = ("kind", "jellyfish")
    switches: int
    network_ports: int
    hosts_per_switch: int
    seed: int | None = None


@dataclass(frozen=True)
class Torus(_Topology):
    """Switches on a grid that closes on itself, `lengths[i]` along dimension i."""

    _tag: ClassVar = ("kind", "torus")
    lengths: Sequence[int]
    hosts_per_switch: int


@dataclass(frozen=True)
class Dragonfly(_Topology):
    """p hosts at each switch, a switches in each of g groups, h links of a switch to other groups."""

    _tag: ClassVar = ("kind", "dragonfly")
    p: int
    a: int
    h: int
    g: int


@dataclass(frozen=True)
class File(_Topology):
    """A graph from a file of another tool; links without rate or delay get those of `link`.

    Instead of a `path` the `text` of such a file can be given with its `format`; see `from_networkx`.
    """

    _tag: ClassVar = ("kind", "file")
    path: str | None = None
    format: str | None = None
    digest: str | None = None
    text: str | None = None

    @classmethod
    def from_networkx(cls, graph: Any, *, link: Link | None = None) -> File:
        """A NetworkX graph: nodes with `kind` ("host" or "switch"); edges without `rate` and `delay` are like `link`.

        docs/models/routing.md lists the attributes that are understood; others are ignored.
        """
        edges = [{"source": a, "target": b} | data for a, b, data in graph.edges(data=True)]
        nodes = [{"id": node} | data for node, data in graph.nodes(data=True)]
        document = {"directed": graph.is_directed(), "nodes": nodes, "edges": edges}
        return cls(text=json.dumps(document, default=str), format="node-link", link=link)


@dataclass(frozen=True)
class CustomLink(Part):
    """A link of a `Custom` topology that differs from the others in rate or delay."""

    ends: Sequence[str]
    rate: str | None = None
    delay: str | None = None
    rate_back: str | None = None
    delay_back: str | None = None


@dataclass(frozen=True)
class Custom(_Topology):
    """Nodes and links by name; a link is a pair of names or a `CustomLink`."""

    _tag: ClassVar = ("kind", "custom")
    hosts: Sequence[str]
    switches: Sequence[str]
    links: Sequence[CustomLink | Sequence[str]]


# --- the network ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Demand(Part):
    """What one host sends another on average."""

    src: str
    dst: str
    rate: str


@dataclass(frozen=True)
class Routing(Part):
    """How packets find their way.

    `Routing("ecmp")` and `Routing("spray")` choose a next hop among the shortest. The other kinds have forwarding
    tables with VLANs and lanes: `Routing("order_pair", lanes=2, vlans=16)`, `Routing("plan", path="tables.csv")`; each
    kind has some of the keys, as `pauseframe options` says.
    """

    kind: str | None = None
    lanes: int | None = field(default=None, kw_only=True)
    vlans: int | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    root: str | None = field(default=None, kw_only=True)
    trees_per_lane: int | None = field(default=None, kw_only=True)
    packing: str | None = field(default=None, kw_only=True)
    sampled_vlans: int | None = field(default=None, kw_only=True)
    sample_percent: int | None = field(default=None, kw_only=True)
    path: str | None = field(default=None, kw_only=True)
    format: str | None = field(default=None, kw_only=True)
    digest: str | None = field(default=None, kw_only=True)
    text: str | None = field(default=None, kw_only=True)
    choice: str | None = field(default=None, kw_only=True)
    per: str | None = field(default=None, kw_only=True)
    slack: int | None = field(default=None, kw_only=True)
    demand: Sequence[Demand] | None = field(default=None, kw_only=True)
    convergence: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class SlowReceiver(Part):
    """A host that takes frames out of its receive buffer at `rate`."""

    host: str
    rate: str
    buffer: str | None = None


@dataclass(frozen=True, kw_only=True)
class Host(Part):
    """Hosts and their NICs."""

    mtu: str | None = None
    tx_delay: str | None = None
    tx_jitter: str | None = None
    wire_jitter: str | None = None
    ticks_apart: bool | None = None
    rx_delay: str | None = None
    nic_buffer: str | None = None
    nic_queue: str | None = None
    wire_overhead: str | None = None
    slow_receivers: Sequence[SlowReceiver] | None = None
    refusing: Sequence[str] | None = None
    silent: Sequence[str] | None = None


@dataclass(frozen=True)
class PerPort(Part):
    """Each port owns `size` bytes."""

    _tag: ClassVar = ("policy", "per_port")
    size: str | None = None


@dataclass(frozen=True)
class Shared(Part):
    """One pool for the switch, shared by dynamic thresholds."""

    _tag: ClassVar = ("policy", "shared")
    size: str | None = None
    alpha: float | None = None
    reserved: str | None = None
    egress_pool: str | None = None


@dataclass(frozen=True)
class IdealOutputQueued(Part):
    """Each input owns `size` bytes, and an egress queue may hold what all inputs hold."""

    _tag: ClassVar = ("policy", "ideal_output_queued")
    size: str | None = None


@dataclass(frozen=True)
class NoMarker(Part):
    """No ECN marking."""

    _tag: ClassVar = ("kind", "none")


@dataclass(frozen=True)
class Step(Part):
    """CE when the backlog exceeds `k` ("30 KB", "20 packets") on "enqueue" or "dequeue"; others "drop" or "queue"."""

    _tag: ClassVar = ("kind", "step")
    k: str | None = None
    at: str | None = None
    not_ect: str | None = None


@dataclass(frozen=True, kw_only=True)
class Red(Part):
    """Random Early Detection: CE with a probability that grows with the average backlog."""

    _tag: ClassVar = ("kind", "red")
    min: str | None = None
    max: str | None = None
    w_q: float | None = None
    p_max: float | None = None
    gentle: bool | None = None
    average_packet: str | None = None
    not_ect: str | None = None


@dataclass(frozen=True)
class Strict(Part):
    """The highest priority goes first."""

    _tag: ClassVar = ("kind", "strict")


@dataclass(frozen=True)
class EtsGroup(Part):
    """A bandwidth group: priorities and their share in percent."""

    priorities: Sequence[int]
    share: int


@dataclass(frozen=True)
class Ets(Part):
    """Enhanced transmission selection: the groups share what the priorities in no group leave."""

    _tag: ClassVar = ("kind", "ets")
    groups: Sequence[EtsGroup] | None = None


@dataclass(frozen=True)
class SwitchClass(Part):
    """What holds for some priorities instead: their queue, marker, and part of a shared buffer."""

    priorities: Sequence[int]
    marker: Step | Red | NoMarker | str | None = None
    queue: str | None = None
    alpha: float | None = None
    reserved: str | None = None


@dataclass(frozen=True, kw_only=True)
class Watchdog(Part):
    """A PFC watchdog: a queue that is paused for too long is taken out of flow control ("drop" or "forward")."""

    detection: str | None = None
    action: str | None = None
    restoration: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pfc(Part):
    """Priority flow control (IEEE 802.1Qbb), or PAUSE of whole links (IEEE 802.3 Annex 31B)."""

    priorities: Sequence[int] | None = None
    whole_link: bool | None = None
    xoff: str | None = None
    xon: str | None = None
    headroom: str | None = None
    reaction: str | None = None
    quanta: int | None = None
    watchdog: Watchdog | bool | None = None


@dataclass(frozen=True, kw_only=True)
class Switch(Part):
    """Switches. `buffer="225 KB"` is a buffer per port, `pfc=True` PFC with its defaults."""

    latency: str | None = None
    buffer: PerPort | Shared | IdealOutputQueued | str | None = None
    marker: Step | Red | NoMarker | str | None = None
    pfc: Pfc | bool | None = None
    model: str | None = None
    queue: str | None = None
    scheduler: Ets | Strict | str | None = None
    priority_of_dscp: Sequence[Sequence[int]] | None = None
    classes: Mapping[str, SwitchClass] | None = None


@dataclass(frozen=True, kw_only=True)
class Qcn(Part):
    """Quantized congestion notification (IEEE 802.1Qau): `Qcn(preset="qcn66")`, or "qcn66" for short."""

    preset: str | None = None
    priorities: Sequence[int] | None = None
    cnm_priority: int | None = None
    q_eq: str | None = None
    w: float | None = None
    sample: str | None = None
    jitter: float | None = None
    g_d: float | None = None
    min_decrease: float | None = None
    fast_recovery: int | None = None
    active_increase: str | None = None
    hyper_active_increase: str | None = None
    byte_counter: str | None = None
    timer: str | None = None
    extra_fast_recovery: bool | None = None
    min_rate: str | None = None


@cache
def _constants() -> frozenset[str]:
    """The constants of all congestion controls, which exist under a choice of one."""
    rows = [row for row in _core.options() if row["when"].startswith("transport.congestion_control = ")]
    return frozenset(row["path"].removeprefix("transport.") for row in rows)


@dataclass(frozen=True, kw_only=True)
class Transport(Part):
    """A preset's row (`pauseframe presets`) with what is changed in it.

    `constants` are those of congestion controls, in the file keys of the table like the others:
    `constants={"cubic_hystart": False}`. Which there are, the core says (`pauseframe options transport`).
    """

    stack: str | None = None
    preset: str | None = None
    congestion_control: str | None = None
    initial_window: str | None = None
    ecn: str | None = None
    ect_on_syn: bool | None = None
    ect_on_ack: bool | None = None
    lossless: bool | None = None
    priority: int | None = None
    dscp: int | None = None
    sack: bool | None = None
    timestamps: bool | None = None
    fast_retransmit: bool | None = None
    dup_thresh: int | None = None
    limited_transmit: bool | None = None
    rack: bool | None = None
    tlp: bool | None = None
    recovery_slack: str | None = None
    prr: bool | None = None
    undo: bool | None = None
    frto: bool | None = None
    ecn_hides_loss: bool | None = None
    window_validation: bool | None = None
    rto_growth: str | None = None
    idle_restart: str | None = None
    pacing: bool | None = None
    pacing_slow_start: int | None = None
    pacing_avoidance: int | None = None
    pacing_burst: int | None = None
    handshake: bool | None = None
    rto_initial: str | None = None
    rto_min: str | None = None
    rto_max: str | None = None
    rto_granularity: str | None = None
    rto_form: str | None = None
    rto_slop: str | None = None
    timer_wheel: bool | None = None
    delayed_ack_form: str | None = None
    quick_acks: int | None = None
    sack_compression: bool | None = None
    delayed_ack_segments: int | None = None
    delayed_ack_timeout: str | None = None
    receive_window: str | None = None
    receive_buffer: str | None = None
    receive_buffer_initial: str | None = None
    receive_buffer_max: str | None = None
    receive_buffer_step: str | None = None
    reassembly_limit: int | None = None
    dsack: bool | None = None
    read_rate: str | None = None
    fin: bool | None = None
    cache: str | None = None
    syn_retries: int | None = None
    retries: int | None = None
    constants: Mapping[str, float | bool | str] | None = field(default=None, metadata={"keys": _constants})


# --- workloads ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed(Part):
    """Flows of one size."""

    _tag: ClassVar = ("kind", "fixed")
    size: str


@dataclass(frozen=True)
class Uniform(Part):
    """Sizes uniform between the two, inclusive."""

    _tag: ClassVar = ("kind", "uniform")
    min: str
    max: str


@dataclass(frozen=True)
class LogUniform(Part):
    """Sizes whose logarithm is uniform between the two."""

    _tag: ClassVar = ("kind", "log_uniform")
    min: str
    max: str


@dataclass(frozen=True)
class Cdf(Part):
    """An empirical distribution: built in ("web_search", "data_mining") or a CDF file, beside the scenario."""

    _tag: ClassVar = ("kind", "cdf")
    source: str | None = None
    points: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Load(Part):
    """Poisson arrivals such that hosts send this share of their link rate on average."""

    _tag: ClassVar = ("kind", "load")
    load: float


@dataclass(frozen=True)
class Rate(Part):
    """Poisson arrivals, this many flows a second and host."""

    _tag: ClassVar = ("kind", "rate")
    per_host: float


@dataclass(frozen=True)
class Concurrency(Part):
    """Closed loop: every host keeps this many flows going."""

    _tag: ClassVar = ("kind", "concurrency")
    per_host: int


@dataclass(frozen=True)
class _Workload(Part):
    """What every workload has: a name for the tables, and the name of its transport in `transports`."""

    name: str | None = field(default=None, kw_only=True)
    transport: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Flow(Part):
    """One flow of a list."""

    src: str
    dst: str
    size: str
    start: str | None = None


@dataclass(frozen=True)
class Flows(_Workload):
    """Flows as listed, or read from `file` (CSV or Parquet)."""

    _tag: ClassVar = ("kind", "flows")
    flows: Sequence[Flow] | None = None
    file: str | None = None


@dataclass(frozen=True, kw_only=True)
class Permutation(_Workload):
    """Every host sends to one other and receives from one other."""

    _tag: ClassVar = ("kind", "permutation")
    size: str
    start: str | None = None


@dataclass(frozen=True, kw_only=True)
class NToOne(_Workload):
    """Several hosts send to one, at once or `spread`; by default all others to the first."""

    _tag: ClassVar = ("kind", "n_to_1")
    size: str
    senders: int | None = None
    receiver: str | None = None
    start: str | None = None
    spread: str | None = None


@dataclass(frozen=True)
class LongFlow(Part):
    """A flow without an end of its own."""

    src: str
    dst: str
    start: str | None = None
    stop: str | None = None


@dataclass(frozen=True)
class LongFlows(_Workload):
    """Flows that send all the time between their start and stop."""

    _tag: ClassVar = ("kind", "long_flows")
    flows: Sequence[LongFlow]


@dataclass(frozen=True, kw_only=True)
class Incast(_Workload):
    """Partition-aggregate: each host asks `fan_in` random others, `rate` times a second."""

    _tag: ClassVar = ("kind", "incast")
    rate: float | None = None
    fan_in: int | None = None
    response: Sequence[str] | None = None
    request: str | None = None
    start: str | None = None
    stop: str | None = None


@dataclass(frozen=True, kw_only=True)
class Requests(_Workload):
    """A client that asks a server again and again, one request at a time; or all `servers` at once, in rounds."""

    _tag: ClassVar = ("kind", "requests")
    client: str
    server: str | None = None
    servers: Sequence[str] | None = None
    request: str | None = None
    response: str | None = None
    count: int | None = None
    pause: str | None = None
    persistent: bool | None = None
    start: str | None = None


@dataclass(frozen=True, kw_only=True)
class Background(_Workload):
    """Single flows between random hosts."""

    _tag: ClassVar = ("kind", "background")
    sizes: Fixed | Uniform | LogUniform | Cdf | str
    arrivals: Load | Rate | Concurrency
    intra_rack: float | None = None
    hosts: Sequence[str] | None = None
    start: str | None = None
    stop: str | None = None


@dataclass(frozen=True, kw_only=True)
class Exponential(Part):
    """Times between events with this mean, exponential: a Poisson process."""

    _tag: ClassVar = ("kind", "exponential")
    mean: str


@dataclass(frozen=True, kw_only=True)
class LogNormal(Part):
    """Times between events with this mean; `sigma` is the standard deviation of their logarithm."""

    _tag: ClassVar = ("kind", "log_normal")
    mean: str
    sigma: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScatterGather(_Workload):
    """Queries: an aggregator asks one host of each rack, which asks all servers of its rack and then answers."""

    _tag: ClassVar = ("kind", "scatter_gather")
    aggregators: Sequence[str]
    servers: Sequence[str] | None = None
    gaps: Exponential | LogNormal | None = None
    request: str | None = None
    response: str | None = None
    start: str | None = None
    stop: str | None = None


@dataclass(frozen=True, kw_only=True)
class Hotspot(_Workload):
    """Sources with a connection each to one receiver: a load that it can take, and a burst that it can not."""

    _tag: ClassVar = ("kind", "hotspot")
    senders: int | None = None
    receiver: str | None = None
    load: float | None = None
    message: str | None = None
    overload: float | None = None
    burst_start: str | None = None
    burst: str | None = None
    start: str | None = None
    stop: str | None = None


@dataclass(frozen=True, kw_only=True)
class Burst(Part):
    """Random on and off: bursts of these sizes, and pauses of this mean between them."""

    sizes: Fixed | Uniform | LogUniform | Cdf | str
    idle: str


@dataclass(frozen=True, kw_only=True)
class Udp(Part):
    """Datagrams without a transport: each source sends at `rate`, all the time or in bursts."""

    _tag: ClassVar = ("kind", "udp")
    name: str | None = None
    rate: str
    sources: Sequence[str] | None = None
    destinations: Sequence[str] | None = None
    datagram: str | None = None
    priority: int | None = None
    burst: Burst | bool | None = None
    size: str | None = None
    start: str | None = None
    stop: str | None = None


# --- what goes wrong ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Failure(Part):
    """The links between two nodes, the link at a `port`, or a whole `node`, from `down` to `up`."""

    link: Sequence[str] | None = None
    port: str | None = None
    node: str | None = None
    down: str
    up: str | None = None


@dataclass(frozen=True, kw_only=True)
class Corruption(Part):
    """Damage to what these ports send: a bit error ratio `ber` or a frame error ratio `fer`."""

    ports: Sequence[str]
    ber: float | None = None
    fer: float | None = None


# --- what is recorded -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Series(Part):
    """Time lines: globs over port names and over names of workloads."""

    every: str | None = None
    ports: Sequence[str] | None = None
    flows: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Packets(Part):
    """A pcapng file of what passes these ports."""

    ports: Sequence[str] | None = None
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class PauseTree(Part):
    """Every pause with what caused it, up to `limit` of them."""

    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Record(Part):
    """What is written down."""

    flows: bool | None = None
    ports: bool | None = None
    series: Series | bool | None = None
    packets: Packets | bool | None = None
    pause_tree: PauseTree | bool | None = None
    deadlock_after: str | None = None


@dataclass(frozen=True)
class Stop(Part):
    """When the run ends: at `time` in any case, and earlier when all is done unless `when_finished` is false."""

    time: str | None = None
    when_finished: bool | None = None
    on_deadlock: bool | None = None


Topology = FatTree | Xgft | LeafSpine | Dumbbell | Star | Line | Ring | Jellyfish | Torus | Dragonfly | File | Custom
Workload = Flows | Permutation | NToOne | LongFlows | Incast | Requests | Background | ScatterGather | Hotspot | Udp


@dataclass(frozen=True, kw_only=True)
class Scenario(Part):
    """A scenario, to be given to `pauseframe.run`.

    >>> import pauseframe as pf
    >>> scenario = pf.Scenario(
    ...     topology=pf.Star(3, link=pf.Link("10 Gbps", "1 us")),
    ...     transport=pf.Transport(preset="dctcp"),
    ...     workload=[pf.NToOne(senders=2, size="1 MB")],
    ... )
    >>> pf.Scenario.from_toml(scenario.to_toml()) == scenario
    True
    """

    name: str | None = None
    seed: int | None = None
    stop: str | Stop | None = None
    topology: Topology
    routing: Routing | None = None
    host: Host | None = None
    switch: Switch | None = None
    qcn: Qcn | str | bool | None = None
    transport: Transport | None = None
    transports: Mapping[str, Transport] | None = None
    workload: Sequence[Workload] = ()
    failure: Sequence[Failure] | None = None
    corruption: Sequence[Corruption] | None = None
    record: Record | None = None
    base_dir: str = field(default=".", compare=False, repr=False, metadata={"plain": False})
    """Where files named in the scenario are looked for."""

    def to_toml(self) -> str:
        """The scenario as a file; keys that are None do not appear."""
        import tomli_w

        return tomli_w.dumps(to_plain(self))

    @classmethod
    def from_toml(cls, text: str, *, base_dir: str = ".") -> Scenario:
        """Reads the text of a scenario file. Raises ScenarioError with every mistake in it."""
        return cls._read(text, base_dir, "scenario")

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Reads a scenario file. Raises ScenarioError with every mistake in it, OSError if it cannot be read."""
        return cls._read(*read_scenario_file(path))

    @classmethod
    def _read(cls, text: str, base_dir: str, file_name: str) -> Scenario:
        import tomllib
        from dataclasses import replace

        _core.resolve(text, base_dir=base_dir, file_name=file_name)
        return replace(part_from_plain(cls, tomllib.loads(text)), base_dir=base_dir)

    def resolve(self, *, seed: int | None = None, set: Mapping[str, Any] | None = None) -> _core.Resolved:
        """Fills in every default. Raises ScenarioError with every mistake."""
        return _core.resolve(self.to_toml(), base_dir=self.base_dir, overrides=overrides(set), seed=seed)

    def show(self, *, seed: int | None = None, set: Mapping[str, Any] | None = None) -> Table:
        """Every key with its value and where that comes from, as a table that a terminal and Jupyter display."""
        from pauseframe._text import explain_table

        return explain_table(self.resolve(seed=seed, set=set))


def overrides(set: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """`set={"switch.pfc.xoff": "96 KB"}` as the core takes it: paths and TOML values."""
    return [(path, toml_value(value)) for path, value in (set or {}).items()]


def read_scenario_file(path: str | Path) -> tuple[str, str, str]:
    """Text, folder and name of a scenario file; ScenarioError if it is not text."""
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8"), str(path.parent), str(path)
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text (byte {error.start}): is this a scenario file?"
        problem = {"path": str(path), "value": "", "message": message, "hint": ""}
        wrong = _core.ScenarioError(f"{path}: {message}")
        wrong.problems = [problem]
        raise wrong from None
