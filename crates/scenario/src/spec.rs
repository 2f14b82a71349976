//! A complete scenario: no options left open. Only [`crate::resolve`] makes one.
//!
//! These types say what every key of a scenario file means. The reader that fills them, with defaults and
//! where each came from, is in `resolve`; the same names stand in the file, the CLI and the Python classes.

mod application;
mod faults;
mod link_layer;
mod queries;
mod record;
mod routing;
mod switch;
mod topology;

pub use application::{ApplicationSource, ApplicationSpec, PatternName, PlacementName};
pub use faults::{CorruptionSpec, FailedSpec, FailureSpec, WatchdogActionName, WatchdogSpec};
pub use link_layer::{BurstSpec, QcnSpec, SlowReceiver, UdpSpec};
pub use queries::{GapsSpec, HotspotSpec, ScatterGatherSpec};
pub use record::{PacketsSpec, PauseTreeSpec, SeriesSpec, StatesSpec};
pub use routing::{
    ChoiceName, DemandEntry, Per, PlannedTables, RoutingEngineSpec, RoutingKind, RoutingSpec, TreePacking,
    VlanRoutingSpec,
};
pub use switch::{
    BufferSpec, ClassSpec, EtsGroupSpec, LengthSpec, MarkAt, MarkerSpec, NotEct, QueueName, SchedulerSpec,
};
pub use topology::{CustomLink, FabricFile, LinkSpec, TopologyKind, TopologySpec};

use crate::recovery::RecoverySpec;
use pauseframe_transport::CongestionControlConfig;
use pauseframe_units::{BitRate, Bytes, Span};
use serde::Serialize;

/// A run that can be repeated: the same scenario, seed and version give the same bytes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Scenario {
    /// Names the results.
    pub name: String,
    /// Master seed of all named random streams.
    pub seed: u64,
    /// When the run ends.
    pub stop: Stop,
    /// The graph.
    pub topology: TopologySpec,
    /// How packets find their way.
    pub routing: RoutingSpec,
    /// Hosts and their NICs.
    pub host: HostSpec,
    /// Switches.
    pub switch: SwitchSpec,
    /// Quantized congestion notification in switches and NICs; `None` where there is none.
    pub qcn: Option<QcnSpec>,
    /// `[transport]`: what workloads use that name no other.
    pub transport: TransportSpec,
    /// `[transports.NAME]`: further ones, by name.
    pub transports: Vec<(String, TransportSpec)>,
    /// `[[workload]]`, in the order of the file.
    pub workload: Vec<WorkloadSpec>,
    /// `[[failure]]`: what breaks, and when.
    pub failure: Vec<FailureSpec>,
    /// `[[corruption]]`: wires that damage frames.
    pub corruption: Vec<CorruptionSpec>,
    /// What is written down.
    pub record: RecordSpec,
}

impl Scenario {
    /// `[transport]` and `[transports.NAME]`, in the order of their indices.
    pub fn transport_specs(&self) -> impl Iterator<Item = &TransportSpec> {
        std::iter::once(&self.transport).chain(self.transports.iter().map(|(_, spec)| spec))
    }
}

/// `stop`: "50 ms", or a table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stop {
    /// Simulated time at which the run ends in any case.
    pub time: Option<Span>,
    /// End when all workloads are exhausted and their flows have finished (default true).
    pub when_finished: bool,
    /// End when a deadlock is found; `None`: unless there is a PFC watchdog to break it.
    pub on_deadlock: Option<bool>,
}

/// `[host]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostSpec {
    /// Largest IP packet: 576 to 9216 bytes.
    pub mtu: Bytes,
    /// Time a segment spends in the stack before the NIC has it.
    pub tx_delay: Span,
    /// Up to this much more, at random for each segment, in order: keeps flows from locking in phase.
    pub tx_jitter: Span,
    /// Up to this much later what a host has sent reaches its switch, at random, in order.
    pub wire_jitter: Span,
    /// Token bucket of the hosts' links; 0: they store and forward.
    pub wire_burst: Bytes,
    /// Hosts whose links are otherwise.
    pub wire_jitters: Vec<WireJitterSpec>,
    /// Each host's clock ticks (`rto_granularity`) at moments of its own, not all at once.
    pub ticks_apart: bool,
    /// Time from the last bit at the NIC to TCP.
    pub rx_delay: Span,
    /// Bytes that the stack and the NIC may hold; sockets wait for room.
    pub nic_buffer: Bytes,
    /// How the NIC queues.
    pub nic_queue: NicQueue,
    /// The NIC cuts super-packets of up to `tso_size` into frames.
    pub tso: bool,
    /// Data of the largest super-packet.
    pub tso_size: Bytes,
    /// Frames that come within `gro_timeout` are merged for TCP.
    pub gro: bool,
    /// How long a poll of the NIC gathers frames.
    pub gro_timeout: Span,
    /// What a packet costs on the wire beyond its IP size.
    pub wire_overhead: WireOverhead,
    /// Hosts that take frames out of a receive buffer of their own at a rate of their own.
    pub slow_receivers: Vec<SlowReceiver>,
    /// Names of hosts where nobody listens: they answer a SYN with RST.
    pub refusing: Vec<String>,
    /// Names of hosts that answer nothing.
    pub silent: Vec<String>,
}

/// `[[host.wire_jitters]]`: how unsteady the link of one host is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WireJitterSpec {
    /// Name of the host.
    pub host: String,
    /// Up to this much later what it sends reaches the switch.
    pub to_switch: Span,
    /// Up to this much later what the switch sends reaches it.
    pub to_host: Span,
}

/// How the NIC queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NicQueue {
    /// A queue for each destination, served round robin (virtual output queues).
    PerDestination,
    /// One queue.
    Fifo,
}

/// What a packet costs on the wire beyond its IP size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WireOverhead {
    /// Header 14, FCS 4, preamble and gap 20; at least 84. Buffers count header and FCS.
    Ethernet,
    /// The IP packet alone, on the wire and in buffers, as the papers' simulators do.
    None,
}

/// `[switch]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SwitchSpec {
    /// From the last bit in to the egress queue.
    pub latency: Span,
    /// Buffer policy and size.
    pub buffer: BufferSpec,
    /// ECN marking.
    pub marker: MarkerSpec,
    /// Priority flow control; `None` where no priority is lossless.
    pub pfc: Option<PfcSpec>,
    /// The real switch whose figures are the defaults, or "none".
    pub model: String,
    /// Order of service within a priority.
    pub queue: QueueName,
    /// Packets that a lossy queue holds at most; `None`: bytes alone count.
    pub queue_packets: Option<u32>,
    /// Which priority is served next.
    pub scheduler: SchedulerSpec,
    /// Pairs of DSCP and priority, for hosts and switches alike.
    pub priority_of_dscp: Vec<[u8; 2]>,
    /// `[switch.classes.NAME]`: what holds for some priorities instead.
    pub classes: Vec<(String, ClassSpec)>,
}

/// `[switch.pfc]` (IEEE 802.1Qbb). Accounting is by ingress (port, priority).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PfcSpec {
    /// The lossless priorities.
    pub priorities: Vec<u8>,
    /// PAUSE of whole links (IEEE 802.3 Annex 31B) instead: every priority is lossless.
    pub whole_link: bool,
    /// Pause above this many ingress bytes; `None`: what the buffer leaves after the headroom
    /// (`per_port`), or the dynamic threshold (`shared`).
    pub xoff: Option<Bytes>,
    /// Resume at or below this many; `None`: two frames of the MTU below `xoff`.
    pub xon: Option<Bytes>,
    /// Bytes reserved for what arrives after XOFF; `None`: computed for each link (802.1Qbb Annex O).
    pub headroom: Option<Bytes>,
    /// From the last bit of a pause frame to the transmitter being stopped.
    pub reaction: Span,
    /// Pause time asked for, in quanta of 512 bit times.
    pub quanta: u16,
    /// Takes queues that are paused for too long out of flow control.
    pub watchdog: Option<WatchdogSpec>,
}

/// `[transport]`: a preset's row with what the file changes in it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct TransportSpec {
    /// The row that the defaults came from.
    pub preset: String,
    /// The operating system's values below those of the row; `none` for the simulator's own.
    pub stack: String,
    /// Congestion control with its constants, a key each (`dctcp_g`).
    #[serde(serialize_with = "crate::resolve::serialize_congestion_control")]
    pub congestion_control: CongestionControlConfig,
    /// `"10 segments"`, `"bdp"` (at least one, rounded up to a segment), or a size.
    pub initial_window: InitialWindow,
    /// ECN use.
    pub ecn: EcnName,
    /// ECT on SYN and SYN-ACK too.
    pub ect_on_syn: bool,
    /// ECT on pure ACKs and retransmissions too.
    pub ect_on_ack: bool,
    /// Send in a lossless priority (the first of `switch.pfc.priorities`).
    pub lossless: bool,
    /// The 802.1p priority of all packets of this transport.
    pub priority: u8,
    /// Differentiated services code point of all its packets (RFC 2474).
    pub dscp: u8,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps option (MSS 1448 instead of 1460).
    pub timestamps: bool,
    /// Fast retransmit.
    pub fast_retransmit: bool,
    /// Duplicate ACKs for it.
    pub dup_thresh: u32,
    /// Limited transmit.
    pub limited_transmit: bool,
    /// Loss recovery beyond that.
    #[serde(flatten)]
    pub recovery: RecoverySpec,
    /// Three-way handshake for every flow.
    pub handshake: bool,
    /// RTO before the first sample.
    pub rto_initial: Span,
    /// Lower bound of the RTO.
    pub rto_min: Span,
    /// Upper bound.
    pub rto_max: Span,
    /// Timer granularity.
    pub rto_granularity: Span,
    /// How `rto_min` enters: `rfc`, `linux` or `freebsd`.
    pub rto_form: RtoFormName,
    /// Constant of the `freebsd` form.
    pub rto_slop: Span,
    /// Timers expire as on Linux's timer wheel.
    pub timer_wheel: bool,
    /// ACK at the latest after this many full segments.
    pub delayed_ack_segments: u32,
    /// ... or this time.
    pub delayed_ack_timeout: Span,
    /// Constant time-out, or Linux's adaptive one with ACKs of pushed data.
    pub delayed_ack_form: DelayedAckFormName,
    /// Linux: ACKs sent at once at the start and after a pause.
    pub quick_acks: u32,
    /// Linux: hold back SACKs beyond the third for a gap.
    pub sack_compression: bool,
    /// Receive window where it is fixed.
    pub receive_window: Bytes,
    /// What the receive window follows from.
    pub receive_buffer: ReceiveBufferName,
    /// First receive buffer of `linux` and `freebsd`.
    pub receive_buffer_initial: Bytes,
    /// Largest.
    pub receive_buffer_max: Bytes,
    /// Step of `freebsd`.
    pub receive_buffer_step: Bytes,
    /// Where the application's data wait.
    pub send_buffer: SendBufferName,
    /// First send buffer of `linux`.
    pub send_buffer_initial: Bytes,
    /// Largest.
    pub send_buffer_max: Bytes,
    /// Whether a last segment that is not full goes out.
    pub small_segments: SmallSegmentsName,
    /// A socket keeps no more in its host than it sends in a millisecond.
    pub small_queues: bool,
    /// Full segments that may wait above a gap; 0: no limit.
    pub reassembly_limit: u32,
    /// Report what came twice.
    pub dsack: bool,
    /// Rate at which the application reads; `None`: at once.
    pub read_rate: Option<BitRate>,
    /// Connections end with FIN.
    pub fin: bool,
    /// What the next connection to the same peer inherits.
    pub cache: CacheName,
    /// SYN retransmissions before giving up.
    pub syn_retries: u32,
    /// Consecutive time-outs before giving up.
    pub retries: u32,
}

/// ECN modes by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnName {
    /// Not negotiated.
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 8257.
    Dctcp,
}

/// RTO forms by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RtoFormName {
    /// RFC 6298.
    Rfc,
    /// srtt + max(`rto_min`, 4 rttvar).
    Linux,
    /// srtt + 4 rttvar + slop.
    Freebsd,
}

/// Forms of the delayed ACK by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayedAckFormName {
    /// Constant.
    Fixed,
    /// Linux.
    Linux,
}

/// Receive buffers by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveBufferName {
    /// `receive_window`.
    Fixed,
    /// Dynamic right-sizing.
    Linux,
    /// Steps of a fixed size.
    Freebsd,
}

/// How long an application takes for its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ReplyDelay {
    /// What `time` means.
    pub law: ReplyLaw,
    /// The constant, the largest, the mean, or the step.
    pub time: Span,
}

/// The law of a reply delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyLaw {
    /// Always the same.
    Constant,
    /// From zero to `time`, all as likely.
    Uniform,
    /// Exponential with mean `time`.
    Exponential,
    /// The first server at once, each further one `time` later.
    Staggered,
}

/// Where the application's data wait, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SendBufferName {
    /// Whatever it takes.
    Unlimited,
    /// Grows with the window.
    Linux,
}

/// What becomes of a last segment that is not full, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SmallSegmentsName {
    /// `TCP_NODELAY`.
    AtOnce,
    /// While another is not acknowledged it waits.
    Nagle,
    /// `TCP_CORK`.
    Cork,
}

/// Connection caches by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheName {
    /// Nothing is inherited.
    None,
    /// RTT.
    Linux,
    /// RTT and ssthresh.
    LinuxSsthresh,
    /// RTT, its deviation and ssthresh, averaged.
    Freebsd,
    /// The congestion window too.
    Cee,
}

/// The initial congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialWindow {
    /// This many segments.
    Segments(u32),
    /// Host link rate times the base RTT of the longest shortest path, rounded up to a segment.
    Bdp,
    /// This many bytes.
    Bytes(Bytes),
}

impl Serialize for InitialWindow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            InitialWindow::Segments(n) => serializer.collect_str(&format_args!("{n} segments")),
            InitialWindow::Bdp => serializer.serialize_str("bdp"),
            InitialWindow::Bytes(bytes) => bytes.serialize(serializer),
        }
    }
}

/// `[[workload]]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WorkloadSpec {
    /// Names it in the tables; unique. Default: its kind.
    pub name: String,
    /// Name of the transport: "default" is `[transport]`, "udp" none.
    pub transport: String,
    /// What it does.
    #[serde(flatten)]
    pub kind: WorkloadKind,
}

/// The workloads.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkloadKind {
    /// Flows as listed.
    Flows {
        /// From the file, or read from `file` (CSV or Parquet) at load.
        flows: Vec<FlowEntry>,
    },
    /// Every host sends to one other and receives from one other (a cyclic permutation, Sattolo 1986).
    Permutation {
        /// Bytes a flow.
        size: Bytes,
        /// When all begin.
        start: Span,
    },
    /// Several hosts to one at once.
    #[serde(rename = "n_to_1")]
    NToOne {
        /// How many senders (the first hosts that are not the receiver), at most hosts - 1.
        senders: u32,
        /// Name of the receiver.
        receiver: String,
        /// Bytes a flow.
        size: Bytes,
        /// When the first can begin.
        start: Span,
        /// Each begins at a random moment of this time after `start`.
        spread: Span,
    },
    /// Flows without an end of their own.
    LongFlows {
        /// Who, and from when to when.
        flows: Vec<LongFlowEntry>,
    },
    /// Partition-aggregate (bolt §IV-A3): each host asks `fan_in` random others for a response of equal size.
    Incast {
        /// Jobs a second and host, Poisson.
        rate: f64,
        /// Servers a job.
        fan_in: u32,
        /// Response sizes, drawn with equal probability for each job.
        response: Vec<Bytes>,
        /// Bytes of the request; 0: the responses start by themselves when the job does.
        request: Bytes,
        /// First possible start.
        start: Span,
        /// No new job from here on.
        stop: Span,
    },
    /// A client asks servers again and again, all at once, each time when the last response is in (repro).
    Requests {
        /// Host that asks.
        client: String,
        /// Hosts that answer.
        servers: Vec<String>,
        /// Bytes of a request.
        request: Bytes,
        /// Bytes of a response.
        response: Bytes,
        /// How many.
        count: u32,
        /// From a response to the next request.
        pause: Span,
        /// All on one connection; else each on its own.
        persistent: bool,
        /// When the first goes out.
        start: Span,
        /// How long before that kept connections are opened.
        connect_ahead: Span,
        /// From the request to one server to that to the next.
        spacing: Span,
        /// From a request to its response.
        reply_delay: ReplyDelay,
    },
    /// Single flows between random hosts.
    Background {
        /// Sizes.
        sizes: SizesSpec,
        /// How many, and when.
        arrivals: ArrivalsSpec,
        /// Share of the flows that stay in the sender's rack, 0 to 1; `None`: destination uniform over all
        /// other hosts.
        intra_rack: Option<f64>,
        /// Hosts that send and receive; `None`: all.
        hosts: Option<Vec<String>>,
        /// First possible start.
        start: Span,
        /// No new flow from here on.
        stop: Span,
    },
    /// Queries through two levels of aggregators (cee §III-C1).
    ScatterGather(ScatterGatherSpec),
    /// Several sources, one of which more would be too many, and a burst (cee Fig. 3).
    Hotspot(HotspotSpec),
    /// Datagrams without a transport.
    Udp(UdpSpec),
    /// Ranks that compute and send messages.
    Application(Box<ApplicationSpec>),
}

/// One row of a flow list.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowEntry {
    /// Sending host.
    pub src: String,
    /// Receiving host.
    pub dst: String,
    /// Bytes.
    pub size: Bytes,
    /// Earliest start.
    pub start: Span,
    /// What others name it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Flows that must have finished before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// From then, or from `start`, to the first byte.
    pub compute: Span,
}

/// One long flow.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LongFlowEntry {
    /// Sending host.
    pub src: String,
    /// Receiving host.
    pub dst: String,
    /// From when.
    pub start: Span,
    /// To when; `None`: to the end of the run.
    pub stop: Option<Span>,
}

/// Flow sizes.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SizesSpec {
    /// All alike.
    Fixed {
        /// Bytes.
        size: Bytes,
    },
    /// Uniform between the two, inclusive.
    Uniform {
        /// Smallest.
        min: Bytes,
        /// Largest.
        max: Bytes,
    },
    /// The logarithm is uniform.
    LogUniform {
        /// Smallest.
        min: Bytes,
        /// Largest.
        max: Bytes,
    },
    /// An empirical distribution, linear between its points: a built-in one (`web_search`, `data_mining`) by
    /// name, or a CDF file.
    Cdf {
        /// The built-in name or the path as written.
        source: String,
        /// (bytes, probability up to it), ascending, ending at 1.
        points: Vec<(f64, f64)>,
    },
}

/// When background flows start.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArrivalsSpec {
    /// Poisson, such that hosts send this share of their link rate on average, 0 to 1.
    Load {
        /// Offered load of a host link.
        load: f64,
    },
    /// Poisson with this many flows a second and host.
    Rate {
        /// Flows a second and host.
        per_host: f64,
    },
    /// Closed loop: every host keeps this many flows going and starts the next when one ends.
    Concurrency {
        /// Flows at once a host.
        per_host: u32,
    },
}

/// `[record]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RecordSpec {
    /// Row per flow.
    pub flows: bool,
    /// Row per port and priority.
    pub ports: bool,
    /// Time lines, or none.
    pub series: Option<SeriesSpec>,
    /// Packets, or none.
    pub packets: Option<PacketsSpec>,
    /// Who pauses whom, or nothing.
    pub pause_tree: Option<PauseTreeSpec>,
    /// The log that a run is played back from, or nothing.
    pub states: Option<StatesSpec>,
    /// Deadlocks are looked for when a class has been paused for this long.
    pub deadlock_after: Span,
}
