"""Who sends what to whom, and when: `[[workload]]`, told apart by `kind`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pauseframe._plain import Part


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
    """One flow of a list; it can wait for others, by their `id`, and for `compute` after them."""

    src: str
    dst: str
    size: str
    start: str | None = None
    id: str | None = None
    after: Sequence[str] | None = None
    compute: str | None = None


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
    connect_ahead: str | None = None
    spacing: str | None = None
    reply_delay: str | None = None
    reply_law: str | None = None


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
    """Sources with a connection each to one receiver: a load that it can take, and a burst that is too much for it."""

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


@dataclass(frozen=True, kw_only=True)
class Application(_Workload):
    """Ranks that compute and send messages: from a trace, a pattern, or programs written with `pauseframe.Program`."""

    _tag: ClassVar = ("kind", "application")
    trace: str | None = None
    packed: str | None = None
    program: str | None = None
    format: str | None = None
    flops: float | None = None
    digest: str | None = None
    pattern: str | None = None
    ranks: int | None = None
    size: str | None = None
    compute: str | None = None
    iterations: int | None = None
    algorithm: str | None = None
    grid: Sequence[int] | None = None
    compute_scale: float | None = None
    eager_limit: str | None = None
    envelope: str | None = None
    algorithms: Sequence[str] | None = None
    placement: str | None = None
    hosts: Sequence[str] | None = None
    hosts_file: str | None = None
    ranks_per_host: int | None = None
    start: str | None = None
    alone: bool | None = None
    timeline: bool | None = None


Workload = (
    Flows
    | Permutation
    | NToOne
    | LongFlows
    | Incast
    | Requests
    | Background
    | ScatterGather
    | Hotspot
    | Udp
    | Application
)
