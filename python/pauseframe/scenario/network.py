"""Hosts, switches, routing and QCN: `[host]`, `[switch]`, `[routing]`, `[qcn]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pauseframe._plain import Part


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


@dataclass(frozen=True)
class WireJitter(Part):
    """A host whose link is unsteady: frames take up to so much longer, in order."""

    host: str
    to_switch: str | None = None
    to_host: str | None = None


@dataclass(frozen=True, kw_only=True)
class Host(Part):
    """Hosts and their NICs."""

    mtu: str | None = None
    tx_delay: str | None = None
    tx_jitter: str | None = None
    wire_jitter: str | None = None
    wire_jitters: Sequence[WireJitter] | None = None
    wire_burst: str | None = None
    ticks_apart: bool | None = None
    rx_delay: str | None = None
    nic_buffer: str | None = None
    nic_queue: str | None = None
    tso: bool | None = None
    tso_size: str | None = None
    gro: bool | None = None
    gro_timeout: str | None = None
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
    queue_packets: int | None = None
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
