"""The types of plain dicts that the simulator returns: summaries, progress, reports on routes.

At run time the values are dicts that JSON can represent; type checkers know their keys. Suffixes of keys are units:
`_s`, `_us`, `_ns` times, `_bps` bits per second, `_bytes` bytes. docs/reference describes the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from pauseframe._core import Routes, Topology

Status = Literal["complete", "deadlock", "interrupted", "failed", "running"]
"""The way in which a run ended, as in its manifest; "running" also after a process was killed."""


class CompletionTimes(TypedDict):
    """Completion times in microseconds; None without flows."""

    mean: float | None
    p50: float | None
    p99: float | None
    p999: float | None
    max: NotRequired[float | None]
    """The slowest; missing in older results."""


class Slowdowns(TypedDict):
    """Completion times divided by ideal completion times; None without flows."""

    p50: float | None
    p99: float | None


class DropsByReason(TypedDict):
    """Numbers of dropped or lost packets by reason."""

    buffer_full: int
    headroom_exceeded: int
    not_ect: int
    headroom_pool: int
    codel: int
    ring_full: int
    link_down: int
    corrupted: int
    watchdog: int


class RememberedSteps(TypedDict):
    """What the memory of steps did in a run (docs/models/memory-of-steps.md)."""

    bound: float
    only_checked: bool
    steps: int
    kinds: int
    not_kept: int
    replayed: int
    rounds: int
    replayed_hops: int
    replayed_share: float
    failed: int
    compared: int
    beyond_bound: int
    largest_difference: float | None
    compared_hops: list[int]
    compared_marks: list[int]
    compared_pauses: list[int]


class Summary(TypedDict):
    """The summary that `pauseframe run --json` prints (docs/reference/results.md)."""

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
    flows_long: NotRequired[int]
    """Number of flows without a size, which never finish; absent in results of old versions."""
    flows_stopped: NotRequired[int]
    """Number of UDP flows with a size that have ended, without a completion time; absent in results of old versions."""
    queries_total: int
    queries_finished: int
    drops: int
    drops_by_reason: DropsByReason
    syn_drops_not_ect: int
    trims: NotRequired[int]
    """Number of packets whose payload was cut off, which `drops` does not count; absent in results of old versions."""
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
    """Time at which the series reached its row limit, so that later samples are missing; None if complete."""
    datagrams_sent: int
    datagrams_lost: int
    fct_us: CompletionTimes
    slowdown: Slowdowns
    query_fct_us: CompletionTimes
    remembered: NotRequired[RememberedSteps | None]
    """What the memory of steps did; None without one, absent in results of old versions."""
    status: Status
    warnings: list[str]
    out: str | None


class Manifest(TypedDict):
    """`manifest.json` of a finished run's results folder; manifests in sweeps also have a seal."""

    program: str
    version: str
    name: str
    seed: int
    fingerprint: str
    status: Status
    plugins: NotRequired[list[PluginRecord]]
    """The congestion controls loaded for the run; absent without plug-ins."""
    summary: Summary
    key: NotRequired[str]
    """The digest of all inputs of the run."""
    given: NotRequired[list[str]]
    """The keys that the scenario file or `--set` gave; the others are defaults, or follow from these."""
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
    """A congestion control loaded for a run."""

    name: str
    """Name of the congestion control in scenarios: "mine:swift"."""
    file: str
    sha256: str
    source: str | None
    """Source text of a Python plug-in; None for a shared library."""


class SealedFile(TypedDict):
    """Size and digest of a file of a results folder."""

    bytes: int
    sha256: str


class RunProgress(TypedDict):
    """The progress that the core reports ten times per second; `stop_time_s` is None without a stop time."""

    sim_time_s: float
    stop_time_s: float | None
    wall_s: float
    events: int
    packet_hops: int
    flows_started: int
    flows_finished: int


class StageProgress(TypedDict):
    """The progress of a computation in stages: `done` of `of` steps (`of` is 0 if unknown)."""

    stage: str
    done: int
    of: int
    best: float | None
    """Mean detour of the best routes of a planner so far, relative to shortest paths."""


class RateStatistics(TypedDict):
    """Rates of flows in bits per second; None without flows."""

    mean: float | None
    min: float | None
    p1: float | None
    p50: float | None
    p99: float | None
    max: float | None


class Utilisation(TypedDict):
    """Utilisation of the links between switches; None without such links."""

    mean: float | None
    max: float | None


class Bound(TypedDict):
    """Bounds on the rate that the best routing could give every pair at once."""

    lower_bps: float
    upper_bps: float
    gap: float
    min_rate_over_upper: float


class FlowSummary(TypedDict):
    """The object that `pauseframe flow --json` prints (docs/reference/flow-level.md)."""

    name: str
    seed: int
    version: str
    demand: str
    flows_total: int
    flows_finished: int
    flows_long: int
    flows_stopped: NotRequired[int]
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
    """The headroom of a lossless class at equal links, term by term (IEEE 802.1Qbb Annex O)."""

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
    pipeline_ns: float
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
    """A mistake in a scenario: key, line, file, and remedy."""

    path: str
    place: str
    value: str
    message: str
    hint: str


class LinkRate(TypedDict):
    """A link rate, and the number of link directions that have it."""

    bps: int
    channels: int


class Bisection(TypedDict):
    """An upper bound of the bisection, from the best cut found."""

    at_most_bps: int
    per_host_rate: float
    hosts: int


class TopologyStatistics(TypedDict):
    """The object that `pauseframe topo show --json` prints; pairs of numbers are the smallest and the largest value."""

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
"""A route as the names of its egress ports ("leaf0:eth3"), starting at the sender."""


class Pairs(TypedDict):
    """A number of pairs of hosts, and the first of these pairs."""

    count: int
    examples: list[Pair]


class RoutesFound(TypedDict):
    """A number of routes, and the first of these routes."""

    count: int
    examples: list[Route]


class Buffer(TypedDict):
    """A buffer: the link from one node to another in one lane."""

    port: str
    to: str
    lane: int


class CycleArc(TypedDict):
    """An arc of a buffer cycle: packets in `held` wait for room in `wanted`, as `witness` shows."""

    held: Buffer
    wanted: Buffer
    witness: Route


class LaneViolation(TypedDict):
    """A VLAN whose packets change lane along their path."""

    vlan: int
    lanes: list[int]
    switches: list[str]


class SwitchRows(TypedDict):
    """The rows of a switch, one per VLAN and host."""

    switch: str
    rows: int


class RowsFound(TypedDict):
    """A number of switches, and the first of these switches."""

    count: int
    examples: list[SwitchRows]


class TableSizes(TypedDict):
    """Sizes of the tables."""

    largest: SwitchRows | None
    rows_mean: float
    budget: int | None
    over_budget: RowsFound


class Failure(TypedDict):
    """A failure, and the ordered pairs of hosts that lose all routes."""

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
    """The effects of every single failure, of a link between switches or of a switch."""

    links: Failures
    switches: Failures


class SeveralFailures(TypedDict):
    """Failures of several links at once: the worst one, and the number of ordered pairs of switches without a route."""

    tried: int
    harmless: int
    worst: tuple[str, int] | None


class Plane(TypedDict):
    """A plane of a fabric of several: counts of switches, ports of hosts, dependencies and cycles; its VLANs."""

    first_switch: str
    switches: int
    ports: int
    vlans: list[int]
    dependencies: int
    cyclic_components: int


class RouteReport(TypedDict):
    """The verifier's report (docs/reference/routing.md); `text` is the readable form, not written to files."""

    can_deadlock: bool
    switches: int
    hosts: int
    links: int
    vlans: int
    lanes: int
    planes: list[Plane]
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
    """Rows of the switch with the most rows: one per VLAN and host, or per VLAN and switch; {} without tables."""

    switch: str
    rows: int
    rows_by_switch: int
    vlans: int


class PlanOrder(TypedDict, total=False):
    """The request for a plan."""

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
"""A changed row: switch, destination, (VLAN, port) before, (VLAN, port) after."""


class PlannedUpdate(TypedDict):
    """Tables for a changed topology close to those in use, as the core plans them."""

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
    """Tables for a changed topology close to those in use (`pauseframe.fabric.routing.update_routes`)."""

    old: Routes
    """The tables before the update."""
    cut_off: list[str]
    """Hosts and switches without a path to the rest, after a failure; the new tables lack them."""


class Step(TypedDict):
    """A step of an update, with the reason why it is safe."""

    do: str
    file: NotRequired[str]
    vlans: list[int]
    safe: str


class UpdateSummary(TypedDict):
    """`update.json` of an update."""

    program: str
    steps: list[Step]
    cut_off: list[str]
    kept: list[int]
    renumbered: list[tuple[int | None, int | None]]
    moved_hosts: list[str]
    pairs_lost_before: int
    rows_added: int
    rows_removed: int
    rows_changed: int
    notes: list[str]


class DeploymentSummary(TypedDict):
    """`deploy.json` of a deployment: devices, counts, and notes."""

    program: str
    target: str
    hosts_run: str
    switches: int
    hosts: int
    vlans: dict[int, int]
    steps: int
    priorities: tuple[int, ...]
    settings: dict[str, object]
    notes: list[str]


class DeployedClass(TypedDict):
    """A class of traffic of a deployed scenario."""

    transport: str
    dscp: int
    priority: int
    lossless: bool
    ecn: bool


class UnwrittenKey(TypedDict):
    """A key of a scenario that no file of a device has."""

    key: str
    value: str
    why: str


class ScenarioDeployment(TypedDict):
    """`deploy.json` of a deployed scenario: devices, classes of traffic, notes, and keys that are not written."""

    program: str
    target: str
    settings: dict[str, str]
    cable: float | None
    scenario: str
    switches: int
    hosts: int
    classes: list[DeployedClass]
    notes: list[str]
    unwritten: list[UnwrittenKey]
