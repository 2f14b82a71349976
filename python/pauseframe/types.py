"""The types of what the simulator gives as plain dicts: summaries, progress, reports on routes.

At run time these are dicts, so that they can be written as JSON as they are; a type checker knows their keys. Units
stand in the names: `_s`, `_us`, `_ns` are times, `_bps` bits per second, `_bytes` bytes. docs/reference describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from pauseframe._core import Routes, Topology

Status = Literal["complete", "deadlock", "interrupted", "running"]
"""How a run ended, as its manifest says it."""


class CompletionTimes(TypedDict):
    """Of completion times, in microseconds; None over no flows."""

    mean: float | None
    p50: float | None
    p99: float | None
    p999: float | None


class Slowdowns(TypedDict):
    """Of completion times over ideal ones; None over no flows."""

    p50: float | None
    p99: float | None


class DropsByReason(TypedDict):
    """Packets dropped or lost."""

    buffer_full: int
    headroom_exceeded: int
    not_ect: int
    headroom_pool: int
    link_down: int
    corrupted: int
    watchdog: int


class Summary(TypedDict):
    """What `pauseframe run --json` prints (docs/reference/results.md)."""

    name: str
    seed: int
    version: str
    fingerprint: str
    sim_time_s: float
    wall_s: float
    threads: int
    threads_reason: str
    events: int
    packet_hops: int
    packet_hops_per_s: float
    peak_rss_bytes: int | None
    flows_total: int
    flows_finished: int
    flows_failed: int
    queries_total: int
    queries_finished: int
    drops: int
    drops_by_reason: DropsByReason
    syn_drops_not_ect: int
    ecn_marks: int
    pfc_pauses: int
    watchdog_storms: int
    deadlocks: int
    retransmits: int
    timeouts: int
    cnms: int
    fullest_switch: str | None
    switch_held_max_bytes: int
    nic_queue: str
    series_full_at_s: float | None
    """When the series met its row limit: later samples are missing."""
    datagrams_sent: int
    datagrams_lost: int
    fct_us: CompletionTimes
    slowdown: Slowdowns
    query_fct_us: CompletionTimes
    status: Status
    warnings: list[str]
    out: str | None


class Manifest(TypedDict):
    """`manifest.json` of a results folder whose run came to its end; those of sweeps are sealed."""

    program: str
    version: str
    name: str
    seed: int
    fingerprint: str
    status: Status
    plugins: NotRequired[list[PluginRecord]]
    """The congestion controls that were loaded for the run; left out where there are none."""
    summary: Summary
    key: NotRequired[str]
    files: NotRequired[dict[str, SealedFile]]
    seal: NotRequired[str]


class FlowLevelManifest(TypedDict):
    """`manifest.json` of a run at flow level, as far as readers of its tables need it."""

    program: str
    kind: Literal["flow_level"]
    version: str
    status: Status
    files: NotRequired[dict[str, SealedFile]]


class PluginRecord(TypedDict):
    """A congestion control that was loaded for a run."""

    name: str
    """As scenarios name it: "mine:swift"."""
    file: str
    sha256: str
    source: str | None
    """The text of a Python file; None for a shared library."""


class SealedFile(TypedDict):
    """Size and digest of a file of a results folder."""

    bytes: int
    sha256: str


class RunProgress(TypedDict):
    """What the core tells ten times a second while it runs a scenario; `stop_time_s` is None without a stop time."""

    sim_time_s: float
    stop_time_s: float | None
    wall_s: float
    events: int
    packet_hops: int
    flows_started: int
    flows_finished: int


class StageProgress(TypedDict):
    """What a computation in stages tells: `done` of `of`, or of nobody knows how many (0)."""

    stage: str
    done: int
    of: int
    best: float | None
    """Of a planner: the mean detour of the best routes so far, as a part of the shortest."""


class RateStatistics(TypedDict):
    """Of the rates of flows, bits per second; None over no flows."""

    mean: float | None
    min: float | None
    p1: float | None
    p50: float | None
    p99: float | None
    max: float | None


class Utilisation(TypedDict):
    """Of the links between switches; None where there are none."""

    mean: float | None
    max: float | None


class Bound(TypedDict):
    """What any routing could give every pair at once."""

    lower_bps: float
    upper_bps: float
    gap: float
    min_rate_over_upper: float


class FlowSummary(TypedDict):
    """What `pauseframe flow --json` prints (docs/reference/flow-level.md)."""

    name: str
    seed: int
    version: str
    demand: str
    flows_total: int
    flows_finished: int
    throughput_bps: float
    rate_bps: RateStatistics
    fct_us: CompletionTimes
    slowdown: Slowdowns
    hops_mean: float
    fabric_utilisation: Utilisation
    bound: Bound | None
    sim_time_s: float
    wall_s: float
    peak_rss_bytes: int | None
    status: Status
    warnings: list[str]
    out: str | None


class SteadyRates(TypedDict):
    """Max-min fair rates of a static demand."""

    seed: int
    flows: int
    throughput_bps: float
    rate_bps: RateStatistics
    hops_mean: float
    bound_bps: tuple[float, float] | None


class HeadroomRow(TypedDict):
    """The headroom of a lossless class at links that are alike, term by term (IEEE 802.1Qbb Annex O)."""

    port: str
    ports: int
    priority: int
    rate_bps: int
    rate_back_bps: int
    frame_ahead_ns: float
    pause_frames_ns: float
    delay_back_ns: float
    reaction_ns: float
    last_frame_ns: float
    delay_ns: float
    jitter_back_ns: float
    jitter_ns: float
    arriving_bytes: int
    crossing_bytes: int
    needed_bytes: int
    given_bytes: int
    pool_bytes: int
    pool_suffices_for: int
    xoff_bytes: int
    xon_bytes: int


class Problem(TypedDict):
    """A mistake in a scenario: at which key, in which line of which file, and what to do about it."""

    path: str
    place: str
    value: str
    message: str
    hint: str


class LinkRate(TypedDict):
    """How many directions of links have a rate."""

    bps: int
    channels: int


class Bisection(TypedDict):
    """An upper bound of the bisection, by the best cut that was found."""

    at_most_bps: int
    per_host_rate: float
    hosts: int


class TopologyStatistics(TypedDict):
    """What `pauseframe topo show --json` prints; pairs are the smallest and the largest."""

    hosts: int
    switches: int
    fabric_links: int
    host_links: int
    rates: list[LinkRate]
    switch_ports: tuple[int, int] | None
    hosts_per_switch: tuple[int, int] | None
    diameter: int | None
    distance_mean: float | None
    bisection: Bisection | None
    problems: list[str]


Pair = TypedDict("Pair", {"from": str, "to": str})
"""A sending and a receiving host."""

Route = TypedDict("Route", {"from": str, "to": str, "vlan": int, "ports": list[str]})
"""A route, by the names of its egress ports ("leaf0:eth3"), the sender's first."""


class Pairs(TypedDict):
    """How many pairs of hosts, and the first of them."""

    count: int
    examples: list[Pair]


class RoutesFound(TypedDict):
    """How many routes, and the first of them."""

    count: int
    examples: list[Route]


class Buffer(TypedDict):
    """What one switch sends to another in one lane."""

    port: str
    to: str
    lane: int


class CycleArc(TypedDict):
    """Packets in `held` wait for room in `wanted`, as `witness` shows."""

    held: Buffer
    wanted: Buffer
    witness: Route


class LaneViolation(TypedDict):
    """A VLAN whose packets change lane on their way."""

    vlan: int
    lanes: list[int]
    switches: list[str]


class SwitchRows(TypedDict):
    """The rows of a switch, one per VLAN and host."""

    switch: str
    rows: int


class RowsFound(TypedDict):
    """How many switches, and the first of them."""

    count: int
    examples: list[SwitchRows]


class TableSizes(TypedDict):
    """How large the tables are."""

    largest: SwitchRows | None
    rows_mean: float
    budget: int | None
    over_budget: RowsFound


class Failure(TypedDict):
    """What fails, and the ordered pairs of hosts that lose all routes."""

    what: str
    pairs_lost: int
    example: Pair


class Failures(TypedDict):
    """All failures of one kind, one at a time."""

    tried: int
    harmless: int
    pairs_lost: int
    worst: list[Failure]


class WhatIf(TypedDict):
    """Every single failure, of links between switches and of switches."""

    links: Failures
    switches: Failures


class SeveralFailures(TypedDict):
    """Failures of several links at once: what the worst is, and how many ordered pairs of switches it costs."""

    tried: int
    harmless: int
    worst: tuple[str, int] | None


class RouteReport(TypedDict):
    """The verifier's report (docs/reference/routing.md); `text` is for people and not in files."""

    can_deadlock: bool
    switches: int
    hosts: int
    links: int
    vlans: int
    lanes: int
    dependencies: int
    cyclic_components: list[int]
    shortest_cycle: list[CycleArc]
    delivered: int
    loops: RoutesFound
    black_holes: RoutesFound
    unreachable: Pairs
    lane_violations: list[LaneViolation]
    tables: TableSizes
    what_if: WhatIf | None
    clean: bool
    text: NotRequired[str]


class TableUse(TypedDict, total=False):
    """The rows of the switch that has the most: one per VLAN and host, or per VLAN and switch; {} without tables."""

    switch: str
    rows: int
    rows_by_switch: int
    vlans: int


class PlanOrder(TypedDict, total=False):
    """What was asked for when a plan was made."""

    topology: str
    engine: str
    lanes: int | None
    seed: int
    effort: str | None
    budget_s: float | None


class PlanSummary(PlanOrder):
    """`plan.json` of a plan."""

    program: str
    steps: int | None
    rows: TableUse
    vlans: list[tuple[int, int]]
    notes: list[str]
    report: RouteReport


RowChange = tuple[str, str, tuple[int, str] | None, tuple[int, str] | None]
"""Switch, destination, and VLAN and port before and after."""


class PlannedUpdate(TypedDict):
    """Tables for another topology near those in use, as the core plans them."""

    topology: Topology
    routes: Routes
    mixes: bool
    kept: list[int]
    renumbered: list[tuple[int | None, int | None]]
    moved_hosts: list[str]
    lost_before: int
    changes: list[RowChange]
    before: Routes
    during: Routes
    after: Routes
    union: Topology


class Update(PlannedUpdate):
    """Tables for another topology near those in use (`pauseframe.routing.update_routes`)."""

    old: Routes
    """Those in use."""


class Step(TypedDict):
    """A step of an update, and why it is safe."""

    do: str
    file: NotRequired[str]
    vlans: list[int]
    safe: str


class UpdateSummary(TypedDict):
    """`update.json` of an update."""

    program: str
    steps: list[Step]
    kept: list[int]
    renumbered: list[tuple[int | None, int | None]]
    moved_hosts: list[str]
    pairs_lost_before: int
    rows_added: int
    rows_removed: int
    rows_changed: int
    notes: list[str]


class DeploymentSummary(TypedDict):
    """`deploy.json` of a deployment: for which devices, how much of each, and what its reader should know."""

    program: str
    target: str
    hosts_run: str
    switches: int
    hosts: int
    vlans: dict[int, int]
    steps: int
    priorities: tuple[int, ...]
    notes: list[str]
