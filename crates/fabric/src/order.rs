//! What crosses between hosts and the traffic: orders one way, reports the other, each with its time.
//!
//! The applications of all hosts are one (`traffic.rs`), beside the partitions: a host is told what its application does, and tells what has
//! come. When the traffic acts on a report is a constant of the settings and the topology (`traffic.rs`), so a run is the same however
//! the hosts are divided among partitions.

use crate::flow::{Datagrams, FlowSpec, RdmaCounts};
use crate::vlan::Picked;
use pauseframe_transport::Failure;
use pauseframe_units::{NodeId, PortId, Span, Time};

/// What the application at one end of a flow does; addressed to flow * 2 + side, by the flow that opened the connection.
#[derive(Debug)]
pub(crate) enum Order {
    /// Opens the connection, or accepts it.
    Open(Box<Opening>),
    /// The next exchange on a kept connection.
    Continue(Exchange),
    /// An exchange on a kept connection is over.
    EndExchange,
    /// Writes a message; with its token if the application wants to know when it has gone. `written`: the bytes of the first message
    /// are written already.
    Write { bytes: u64, token: Option<u32>, written: bool },
    /// Waits for a message.
    Await { bytes: u64, token: u32 },
    /// Has nothing more to send or to wait for.
    Close,
    /// The same of a long flow, whose data are not all sent.
    Stop,
    /// Nothing is on its way any more at either end.
    Free,
    /// Begins to send datagrams, or to receive them.
    OpenDatagrams(Box<Opening>),
    /// So many datagrams are received or will be.
    AwaitDatagrams(u64),
    /// They are over, and none is under way.
    FreeDatagrams,
}

/// What an end needs to know.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) spec: FlowSpec,
    pub(crate) route: u32,
    pub(crate) picked: Picked,
    pub(crate) exchange: Exchange,
}

/// An order and whom it is for.
#[derive(Debug)]
pub(crate) struct Addressed {
    pub(crate) at: Time,
    pub(crate) host: NodeId,
    pub(crate) address: u32,
    pub(crate) order: Order,
}

/// What all partitions have to know before the next window.
#[derive(Debug, Default)]
pub(crate) struct SharedUpdate {
    /// New paths, and the rows that they have.
    pub(crate) rows: Vec<(u32, Vec<PortId>)>,
    /// By flow, with QCN: its hosts, source first.
    pub(crate) hosts: Vec<[NodeId; 2]>,
    /// From each time on flows contend, or do not (`contention.rs`).
    pub(crate) contention: Vec<(Time, bool)>,
}

/// One exchange at one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) flow: u32,
    /// Bytes that are written at once.
    pub(crate) writes: u64,
    /// Bytes that the application waits for; `u64::MAX`: none.
    pub(crate) expects: u64,
    /// What it answers then, and how long it takes to; 0: nothing.
    pub(crate) reply: u64,
    pub(crate) reply_delay: Span,
}

/// What has happened at one end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) at: Time,
    /// Flow * 2 + side, by the flow that opened the connection.
    pub(crate) address: u32,
    pub(crate) event: EndpointEvent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EndpointEvent {
    /// All bytes that this end waited for are in, and it has nothing to answer.
    Complete,
    /// The connection is given up.
    Failed(Failure),
    /// The end was told to close, and nothing of it is under way.
    Drained,
    /// The last byte of a message is in.
    Delivered(u32),
    /// The last byte of a message has been sent.
    Sent(u32),
    /// What an end has counted for a flow since it told so last.
    Counted(EndpointCounters),
    /// A datagram with so many bytes was lost on its way.
    Lost(u32),
    /// A source of datagrams sends no more; so many have left it or will.
    DatagramsOver(u64),
    /// All datagrams that are awaited were received, the last one then.
    DatagramsReceived(Time),
}

/// What one end counts for its flow.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct EndpointCounters {
    pub(crate) flow: u32,
    /// It is the end that the flow leads to.
    pub(crate) replies: bool,
    pub(crate) delivered: u64,
    pub(crate) retransmits: u32,
    pub(crate) timeouts: u32,
    pub(crate) ce_packets: u64,
    pub(crate) loss_probes: u32,
    pub(crate) undone: u32,
    /// When the SYN-ACK came.
    pub(crate) connected: Option<Time>,
    pub(crate) datagrams: Datagrams,
    pub(crate) rdma: RdmaCounts,
}
