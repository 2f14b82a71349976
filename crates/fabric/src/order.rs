//! Messages between the traffic and hosts: orders in one direction, reports in the other, each with its time.
//!
//! The traffic (`traffic/`) runs the applications of all hosts, outside the partitions. It sends orders to hosts, and hosts report events. The delay
//! between a report and the traffic's reaction depends only on settings and topology, so results do not depend on partitions.

use crate::flow::{DatagramCounts, FlowSpec, RdmaCounts, StorageOperation};
use crate::vlan::PickedVlanAndClass;
use pauseframe_transport::{ConnectionFailure, MappingsOnTheWire};
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::sync::Arc;

/// An action of the application at one endpoint, addressed to flow * 2 + side with the flow that opened the connection.
#[derive(Debug)]
pub(crate) enum EndpointOrder {
    /// Opens the endpoint of a connection, a queue pair or a flow of datagrams.
    Open(Box<EndpointOpeningParameters>),
    /// The next exchange on a kept connection.
    Continue(EndpointExchange),
    /// An exchange on a kept connection is over.
    EndExchange,
    /// Writes a message; with a token if the application wants a notification. `written`: the bytes were written with the opening.
    Write { bytes: u64, token: Option<u32>, written: bool },
    /// Expects a message.
    Await { bytes: u64, token: u32 },
    /// Closes: nothing more to send or to expect.
    Close,
    /// Stops a long flow with unsent data.
    Stop,
    /// Frees the endpoint: nothing is in flight at either end.
    Free,
    /// Tells the sink how many datagrams to expect.
    AwaitDatagrams(u64),
}

/// Parameters of a new endpoint.
#[derive(Debug)]
pub(crate) struct EndpointOpeningParameters {
    pub(crate) spec: FlowSpec,
    /// The nodes of the ports that its packets leave and reach: hosts, or their further ports.
    pub(crate) ports: [NodeId; 2],
    pub(crate) route: u32,
    pub(crate) picked: PickedVlanAndClass,
    /// The ways that its packets take in turn; empty if all take the one above.
    pub(crate) ways: Vec<PacketWay>,
    pub(crate) exchange: EndpointExchange,
    pub(crate) multipath: MultipathRole,
    /// Links on a shortest path, for a control whose target delay follows from it; otherwise 0.
    pub(crate) links: u32,
}

/// What an endpoint is to MPTCP.
#[derive(Clone, Debug)]
pub(crate) enum MultipathRole {
    /// Nothing.
    None,
    /// The connection, whose subflows have flow numbers from `first_part` on. Mappings by subflow and sending side.
    Connection { first_part: u32, mappings: Arc<[[Arc<MappingsOnTheWire>; 2]]> },
    /// A subflow of the connection of a flow.
    Subflow { of: u32, is_first: bool },
}

/// An order with its time, host and endpoint key.
#[derive(Debug)]
pub(crate) struct TimedEndpointOrder {
    pub(crate) at: Time,
    pub(crate) host: NodeId,
    pub(crate) endpoint_key: u32,
    pub(crate) order: EndpointOrder,
}

/// One of the ways that packets of an endpoint take in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketWay {
    /// The nodes of the ports that a packet leaves and reaches.
    pub(crate) ports: [NodeId; 2],
    pub(crate) route: u32,
}

/// New ports and a new path of an endpoint.
#[derive(Debug)]
pub(crate) struct EndpointReroute {
    /// The node of the port by which it sends until now.
    pub(crate) holder: NodeId,
    pub(crate) endpoint_key: u32,
    /// The nodes of the ports that its packets leave and reach from now on.
    pub(crate) ports: [NodeId; 2],
    pub(crate) route: u32,
    /// The ways that its packets take in turn; empty if all take the one above.
    pub(crate) ways: Vec<PacketWay>,
    /// Its VLAN, if that changes.
    pub(crate) picked: Option<PickedVlanAndClass>,
}

/// Updates for all partitions before the next window.
#[derive(Debug, Default)]
pub(crate) struct PartitionUpdate {
    /// New paths and their rows.
    pub(crate) rows: Vec<(u32, Vec<PortId>)>,
    /// By flow, with QCN: its hosts, source first.
    pub(crate) hosts: Vec<[NodeId; 2]>,
    /// The same by queue pair of flows with several.
    pub(crate) hosts_of_parts: Vec<[NodeId; 2]>,
}

/// One exchange at one endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointExchange {
    pub(crate) flow: u32,
    /// Bytes that the application writes immediately.
    pub(crate) writes: u64,
    /// Bytes that the application expects; `u64::MAX`: none.
    pub(crate) expects: u64,
    /// Bytes of the reply sent after that; 0: no reply.
    pub(crate) reply: u64,
    /// Time from the last expected byte to the reply.
    pub(crate) reply_delay: Span,
    /// It may be one of several under way.
    pub(crate) operation: Option<StorageOperation>,
}

/// An event at one endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointReport {
    pub(crate) at: Time,
    /// Flow * 2 + side, by the flow that opened the connection.
    pub(crate) endpoint_key: u32,
    pub(crate) event: EndpointEvent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EndpointEvent {
    /// All expected bytes have arrived, and no reply is due.
    Complete,
    /// The connection has failed.
    Failed(ConnectionFailure),
    /// The endpoint is closed and has nothing in flight.
    Drained,
    /// The last byte of a message has arrived.
    Delivered(u32),
    /// The last byte of a message has been sent.
    Sent(u32),
    /// Counters of a flow since the last report.
    Counted(EndpointCounters),
    /// A datagram with this many bytes was lost.
    Lost(u32),
    /// A datagram source has finished; this many datagrams have left it or will.
    DatagramsOver(u64),
    /// All expected datagrams have arrived; the time of the last one.
    DatagramsReceived(Time),
}

/// Counters of one endpoint for its flow.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct EndpointCounters {
    pub(crate) flow: u32,
    /// Whether it is the destination's endpoint.
    pub(crate) replies: bool,
    pub(crate) delivered: u64,
    pub(crate) retransmits: u32,
    pub(crate) timeouts: u32,
    pub(crate) ce_packets: u64,
    pub(crate) loss_probes: u32,
    pub(crate) undone: u32,
    /// When the SYN-ACK came.
    pub(crate) connected: Option<Time>,
    pub(crate) datagrams: DatagramCounts,
    pub(crate) rdma: RdmaCounts,
}

impl EndpointCounters {
    /// Adds what a subflow has counted to the counters of its connection, which counts delivered bytes itself.
    pub(crate) fn add_counts(&mut self, of_subflow: &EndpointCounters) {
        self.retransmits += of_subflow.retransmits;
        self.timeouts += of_subflow.timeouts;
        self.ce_packets += of_subflow.ce_packets;
        self.loss_probes += of_subflow.loss_probes;
        self.undone += of_subflow.undone;
        self.connected = self.connected.or(of_subflow.connected);
    }
}
