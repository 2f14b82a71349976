//! Flows: requests of workloads, and records for the results.

use crate::rounds::Rounds;
use pauseframe_transport::ConnectionFailure;
use pauseframe_units::{NodeId, Span, Time};

/// A connection that carries several flows of a workload, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptConnection {
    /// Its number within its workload.
    pub number: u32,
    /// Whether this flow opens it. (A flow that finds it failed also opens it.)
    pub first: bool,
    /// Whether it closes with this flow.
    pub last: bool,
}

/// An operation on storage. Several may be under way on a kept connection, and they complete in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageOperation {
    /// The source reads `reply` bytes: a READ on a queue pair, otherwise a request of `size` bytes and its reply.
    Read,
    /// The source writes `size` bytes: on a queue pair until the last acknowledgement, otherwise until the reply.
    Write,
}

/// A flow that a workload requests: one exchange, on its own connection or on a kept one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// The host that opens the connection.
    pub source: NodeId,
    /// The host that accepts it.
    pub destination: NodeId,
    /// Bytes from source to destination; `u64::MAX` for a long flow that ends at `stop`.
    pub size: u64,
    /// Bytes back, sent once `size` bytes have arrived; 0 for a one-way flow. A request and its response.
    pub reply: u64,
    /// How long the destination's application takes from the last byte of the request to its reply.
    pub reply_delay: Span,
    /// When the source application opens the connection (unless it is open) and writes.
    pub start: Time,
    /// A long flow stops sending new data here.
    pub stop: Option<Time>,
    /// Index of the transport (its settings and priority) in the network.
    pub transport: u16,
    /// Index of its workload, for the tables and for [`Workload::on_flow_finished`].
    pub workload: u16,
    /// The query (partition-aggregate job) that this flow is a part of.
    pub query: Option<u32>,
    /// The kept connection that it shares with other flows of its workload, one at a time unless they are operations.
    pub kept: Option<KeptConnection>,
    /// An operation on storage.
    pub operation: Option<StorageOperation>,
}

impl FlowSpec {
    /// A one-way flow from the start of the run, on its own connection of transport 0, of workload 0.
    pub fn new(source: NodeId, destination: NodeId, size: u64) -> FlowSpec {
        FlowSpec {
            source,
            destination,
            size,
            reply: 0,
            reply_delay: Span::ZERO,
            start: Time::ZERO,
            stop: None,
            transport: 0,
            workload: 0,
            query: None,
            kept: None,
            operation: None,
        }
    }
}

/// A message on a kept connection, in either direction. The first one opens the connection; messages arrive in the order in which they were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApplicationMessage {
    /// The number of the connection in its workload.
    pub connection: u32,
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// Size in bytes; at least one.
    pub bytes: u64,
    /// Identifier that the workload chose.
    pub token: u32,
    /// Whether the workload is notified when the last byte has been sent.
    pub notify: bool,
    /// Index of the transport; used by the first message of a connection.
    pub transport: u16,
}

/// Status of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowStatus {
    /// The last byte (of the reply, if there is one) has reached its application.
    Finished,
    /// Under way when the run stopped.
    Running,
    /// A long flow that was stopped at its `stop` time.
    Stopped,
    /// Given up after the retry limit, or refused: see [`FlowRecord::failure`].
    Failed,
}

/// Retransmissions of one endpoint, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RetransmissionCounts {
    /// Retransmitted segments.
    pub retransmits: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Tail loss probes (RFC 8985 §7).
    pub loss_probes: u32,
}

/// Result of a flow: a row of the `flows` table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// The requested flow.
    pub spec: FlowSpec,
    /// How it ended.
    pub status: FlowStatus,
    /// When it ended (or the run did).
    pub end: Time,
    /// In-order bytes delivered to the receiving application (reply included).
    pub delivered: u64,
    /// Completion time of this flow alone in the idle network with an unlimited window.
    pub ideal: Span,
    /// Retransmitted segments, both directions.
    pub retransmits: u32,
    /// Retransmission timeouts, both directions.
    pub timeouts: u32,
    /// Tail loss probes (RFC 8985 §7), both directions.
    pub loss_probes: u32,
    /// The replying endpoint's part of these three counts.
    pub of_reply: RetransmissionCounts,
    /// Window reductions undone as spurious, both directions.
    pub undone: u32,
    /// Data packets that arrived with CE.
    pub ce_packets: u64,
    /// Datagram counts; zero for a connection.
    pub datagrams: DatagramCounts,
    /// Queue pair counts, both directions; zero for other flows.
    pub rdma: RdmaCounts,
    /// When the SYN-ACK arrived at the source; `None` before that, or if the flow uses an open connection.
    pub connected: Option<Time>,
    /// Why it failed, if it did.
    pub failure: Option<ConnectionFailure>,
}

impl FlowRecord {
    /// The record of a flow at its start; `ideal` is its completion time in an idle network.
    pub fn new(spec: FlowSpec, ideal: Span, now: Time) -> FlowRecord {
        FlowRecord {
            spec,
            status: FlowStatus::Running,
            end: now,
            delivered: 0,
            ideal,
            retransmits: 0,
            timeouts: 0,
            loss_probes: 0,
            of_reply: RetransmissionCounts::default(),
            undone: 0,
            ce_packets: 0,
            datagrams: DatagramCounts::default(),
            rdma: RdmaCounts::default(),
            connected: None,
            failure: None,
        }
    }
}

/// Counters that only queue pairs have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RdmaCounts {
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Packets retransmitted after a NAK, a trimmed packet, or a repeated request for a response.
    pub repeats_by_nak: u64,
    /// Packets retransmitted after a timeout.
    pub repeats_by_timeout: u64,
    /// Time without progress that ended with timeouts before the end of the flow.
    pub waited: Span,
    /// The window between acknowledgements, of senders that live for 10 ms at least.
    pub window: WindowTime,
}

/// The mean of a window over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WindowTime {
    /// Sum of bytes times nanoseconds; of each window at most a mebibyte counts.
    pub area: u64,
    /// The time that it covers.
    pub time: Span,
}

impl WindowTime {
    const MOST: u64 = 1 << 20;

    /// Adds a window of `bytes` that was in force for some time.
    pub(crate) fn add(&mut self, bytes: u64, time: Span) {
        self.area += bytes.min(WindowTime::MOST) * (time.0 / 1000);
        self.time += time;
    }

    /// Mean bytes; `None`: nothing was observed.
    pub fn mean(&self) -> Option<f64> {
        (self.time > Span::ZERO).then(|| self.area as f64 / (self.time.0 as f64 / 1000.0))
    }
}

impl RdmaCounts {
    /// Adds other counts.
    pub(crate) fn merge(&mut self, other: &RdmaCounts) {
        self.cnps_sent += other.cnps_sent;
        self.cnps_received += other.cnps_received;
        self.repeats_by_nak += other.repeats_by_nak;
        self.repeats_by_timeout += other.repeats_by_timeout;
        self.waited += other.waited;
        self.window.area += other.window.area;
        self.window.time += other.window.time;
    }
}

/// Datagrams of a UDP flow, and their application bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramCounts {
    /// Datagrams sent by the application.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams received by the application at the destination.
    pub delivered: u64,
    /// Datagrams dropped anywhere, including the sending host.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

impl DatagramCounts {
    pub(crate) fn count_lost(&mut self, bytes: u32) {
        self.lost += 1;
        self.lost_bytes += u64::from(bytes);
    }

    /// Adds other counts.
    pub(crate) fn merge(&mut self, other: &DatagramCounts) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.lost_bytes += other.lost_bytes;
    }
}

/// A source of flows, pulled lazily so that a million flows need no list.
///
/// The traffic keeps one pending time per workload: the next start. Flows are pulled in order of their start times.
pub trait Workload: std::fmt::Debug + Send {
    /// Start time of the next flow, if known. Called again after `next_flow` and `on_flow_finished`.
    fn next_start_time(&self) -> Option<Time>;
    /// The next flow; called at `next_start_time`.
    fn next_flow(&mut self) -> FlowSpec;
    /// Whether start times of flows do not depend on completions. Such a workload may learn of completions late (`on_flow_finished`), and its network
    /// can be divided among threads; any other workload reacts to a completion at once ([`Settings::reaction`](crate::Settings::reaction)).
    fn is_open_loop(&self) -> bool {
        false
    }
    /// A flow of this workload has ended at `now`; closed loops and multi-stage jobs start their next flow. The record does not yet contain all
    /// counters of its endpoints.
    fn on_flow_finished(&mut self, _flow: &FlowRecord, _now: Time) {}
    /// Called at `next_start_time` of a message workload, which must set a later next start.
    fn on_start_time(&mut self, _now: Time) {}
    /// The next message to send; called after every other call until it returns `None`.
    fn next_message(&mut self) -> Option<ApplicationMessage> {
        None
    }
    /// The last byte of a message has been delivered.
    fn on_message_delivered(&mut self, _token: u32, _now: Time) {}
    /// The last byte of a message with `notify` has been sent; reported at the next acknowledgement.
    fn on_message_sent(&mut self, _token: u32, _now: Time) {}
    /// Whether no further message will follow, so that its connections close.
    fn has_sent_all(&self) -> bool {
        false
    }
    /// The workload as `Any`, for results that need its type at the end of a run.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
    /// What repeats in its long operations, if it has any.
    fn rounds(&mut self) -> Option<&mut dyn Rounds> {
        None
    }
    /// Takes the completed jobs (partition-aggregate).
    fn take_completed_queries(&mut self) -> Vec<QueryRecord> {
        Vec::new()
    }
    /// Jobs still running when the run stopped, without a `finish`.
    fn unfinished_queries(&self) -> Vec<QueryRecord> {
        Vec::new()
    }
}

/// One partition-aggregate job: the row of the `queries` table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryRecord {
    /// Its number within its workload.
    pub query: u32,
    /// Index of the workload.
    pub workload: u16,
    /// The host that sent the requests.
    pub aggregator: NodeId,
    /// Number of servers that it queried.
    pub fan_in: u32,
    /// Bytes that each server sent.
    pub response: u64,
    /// Start time.
    pub start: Time,
    /// When the last response arrived; `None` if the run ended before.
    pub finish: Option<Time>,
    /// Completion time in the idle network, from the slowest path and the aggregator's link.
    pub ideal: Span,
    /// Sum of the timeouts of its flows; set by the network.
    pub timeouts: u32,
}
