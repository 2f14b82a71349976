//! A flow, as the workload asks for it and as the results report it.

use pauseframe_transport::Failure;
use pauseframe_units::{NodeId, Span, Time};

/// A connection that carries several flows of a workload, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its number in its workload.
    pub number: u32,
    /// This flow opens it. (One that finds it failed opens it too.)
    pub first: bool,
    /// It ends with this flow.
    pub last: bool,
}

/// What a workload asks the network to carry: one exchange, on a connection of its own or on one that is kept.
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
    /// When the source application writes, having opened the connection if it was not asked for earlier.
    pub start: Time,
    /// A long flow stops sending new data here.
    pub stop: Option<Time>,
    /// Index of the transport (its settings and priority) in the network.
    pub transport: u16,
    /// Index of the workload that asked, for the tables and for [`Workload::on_finished`].
    pub workload: u16,
    /// The query (partition-aggregate job) that this flow is a part of.
    pub query: Option<u32>,
    /// The connection that it shares with others of its workload; its flows must not overlap.
    pub kept: Option<Kept>,
}

/// Bytes for a kept connection, either way. The first between two hosts opens it; messages arrive in the order in which they
/// were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The number of the connection in its workload.
    pub connection: u32,
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// How many; at least one.
    pub bytes: u64,
    /// What the workload knows it by.
    pub token: u32,
    /// Whether the workload wants to know when all has been sent.
    pub notify: bool,
    /// Index of the transport, for the first of a connection.
    pub transport: u16,
}

/// How a flow stands.
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

/// What one end sent again, and on which occasion.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Repeats {
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Tail loss probes (RFC 8985 §7).
    pub loss_probes: u32,
}

/// What came of a flow: the row of the `flows` table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// What was asked for.
    pub spec: FlowSpec,
    /// How it ended.
    pub status: FlowStatus,
    /// When it ended (or the run did).
    pub end: Time,
    /// In-order bytes delivered to the receiving application (reply included).
    pub delivered: u64,
    /// Completion time of this flow alone in the idle network with an unlimited window.
    pub ideal: Span,
    /// Segments that were sent again, both directions.
    pub retransmits: u32,
    /// Retransmission timeouts, both directions.
    pub timeouts: u32,
    /// Tail loss probes (RFC 8985 §7), both directions.
    pub loss_probes: u32,
    /// Of these three, those of the end that replies.
    pub of_reply: Repeats,
    /// Window reductions taken back as needless, both directions.
    pub undone: u32,
    /// Data packets that arrived with CE.
    pub ce_packets: u64,
    /// What became of its datagrams; zeros for a connection.
    pub datagrams: Datagrams,
    /// What its queue pairs counted, both directions; zeros for other flows.
    pub rdma: RdmaCounts,
    /// When the SYN-ACK came to the source; `None` before that, and where nobody opened the connection for this flow.
    pub connected: Option<Time>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl FlowRecord {
    /// The record of a flow at its start; `ideal` is its completion time in an idle network.
    pub(crate) fn begun(spec: FlowSpec, ideal: Span, now: Time) -> FlowRecord {
        FlowRecord {
            spec,
            status: FlowStatus::Running,
            end: now,
            delivered: 0,
            ideal,
            retransmits: 0,
            timeouts: 0,
            loss_probes: 0,
            of_reply: Repeats::default(),
            undone: 0,
            ce_packets: 0,
            datagrams: Datagrams::default(),
            rdma: RdmaCounts::default(),
            connected: None,
            failure: None,
        }
    }
}

/// What queue pairs count beyond connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RdmaCounts {
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Packets sent again because of a NAK.
    pub repeats_by_nak: u64,
    /// Packets sent again because of a timeout.
    pub repeats_by_timeout: u64,
}

impl RdmaCounts {
    /// Counts what another count has.
    pub(crate) fn join(&mut self, other: &RdmaCounts) {
        self.cnps_sent += other.cnps_sent;
        self.cnps_received += other.cnps_received;
        self.repeats_by_nak += other.repeats_by_nak;
        self.repeats_by_timeout += other.repeats_by_timeout;
    }
}

/// Datagrams of a UDP flow, and their application bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Datagrams {
    /// Sent by the application.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Received by the application at the other end.
    pub delivered: u64,
    /// Dropped anywhere, at the sending host too.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

impl Datagrams {
    pub(crate) fn lose(&mut self, bytes: u32) {
        self.lost += 1;
        self.lost_bytes += u64::from(bytes);
    }

    /// Counts what another count has.
    pub(crate) fn join(&mut self, other: &Datagrams) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.lost_bytes += other.lost_bytes;
    }
}

/// A source of flows, pulled lazily so that a million flows need no list.
///
/// The traffic holds one pending time a workload: the next start. Flows come out in order of their start.
pub trait Workload: std::fmt::Debug + Send {
    /// The start of the next flow, if one is known. Asked again after `next_flow` and after `on_finished`.
    fn next_start(&self) -> Option<Time>;
    /// The next flow; called when the time is `next_start`.
    fn next_flow(&mut self) -> FlowSpec;
    /// Whether flows come at times that depend on no completion. Such a workload may learn of completions late (`on_finished`), and its
    /// networks can be divided among threads; any other answers a completion at once ([`Settings::reaction`](crate::Settings::reaction)).
    fn is_open_loop(&self) -> bool {
        false
    }
    /// A flow of this workload has ended, `now`: closed loops and multi-stage jobs start their next one.
    /// What both of its ends have counted is not in its record yet.
    fn on_finished(&mut self, _flow: &FlowRecord, _now: Time) {}
    /// The time is `next_start`: a workload of messages goes on, and makes sure that its next start is later.
    fn wake(&mut self, _now: Time) {}
    /// The next message to send; asked after every other call, until there is none.
    fn next_message(&mut self) -> Option<Message> {
        None
    }
    /// The application has learnt that the last byte of a message has reached its host.
    fn on_delivered(&mut self, _token: u32, _now: Time) {}
    /// The last byte of a message with `notify` has been sent; told with the acknowledgement that comes next.
    fn on_sent(&mut self, _token: u32, _now: Time) {}
    /// No further message will come: its connections end.
    fn is_over(&self) -> bool {
        false
    }
    /// What the workload has to tell when the run has ended, for those who know its type.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
    /// Jobs that are complete, handed over once (partition-aggregate); drained by the recorder.
    fn take_queries(&mut self) -> Vec<QueryRecord> {
        Vec::new()
    }
    /// Jobs under way when the run stopped, without a `finish`.
    fn unfinished_queries(&self) -> Vec<QueryRecord> {
        Vec::new()
    }
}

/// One partition-aggregate job: the row of the `queries` table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryRecord {
    /// Its number in its workload.
    pub query: u32,
    /// Index of the workload.
    pub workload: u16,
    /// The host that asked.
    pub aggregator: NodeId,
    /// How many servers it asked.
    pub fan_in: u32,
    /// Bytes that each server sent.
    pub response: u64,
    /// When it began.
    pub start: Time,
    /// When the last response was in; `None` if the run ended before.
    pub finish: Option<Time>,
    /// Completion time in the idle network: the slowest path and the aggregator's link, exactly.
    pub ideal: Span,
    /// Timeouts of its flows together: for the network to fill in.
    pub timeouts: u32,
}
