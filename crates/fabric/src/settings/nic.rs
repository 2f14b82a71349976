//! Queues and ports of NICs.

use crate::queue::QueueDiscipline;
use pauseframe_schema::choices;
use pauseframe_units::Span;

choices! {
    /// How the NIC queues
    pub enum NicQueue {
        /// A queue for each connection, queue pair and datagram source, served round robin, as under fq or on a card with a queue for each CPU
        PerFlow = "per_flow",
        /// A queue for each destination, served round robin (virtual output queues)
        PerDestination = "per_destination",
        /// One queue
        Fifo = "fifo",
        /// One queue with CoDel, with Linux's defaults; sockets have shares as with a queue for each flow
        Codel = "codel",
        /// FQ-CoDel, with Linux's defaults; sockets have shares as with a queue for each flow
        FqCodel = "fq_codel",
    }
}

impl NicQueue {
    /// Whether each flow may hold its own share of the buffer; otherwise all flows share it.
    pub fn has_flow_shares(self) -> bool {
        matches!(self, NicQueue::PerFlow | NicQueue::Codel | NicQueue::FqCodel)
    }

    /// The discipline in front of the ring, if it has a state.
    pub(crate) fn discipline(self) -> Option<QueueDiscipline> {
        match self {
            NicQueue::Codel => Some(QueueDiscipline::Codel),
            NicQueue::FqCodel => Some(QueueDiscipline::FqCodel),
            NicQueue::PerFlow | NicQueue::PerDestination | NicQueue::Fifo => None,
        }
    }
}

choices! {
    /// How a host with several ports chooses one for a flow
    pub enum PortChoice {
        /// By the hash policy among the ports that are up; LACP finds dead ones
        Lacp = "802.3ad",
        /// By the hash policy among the ports that are up, without LACP
        Xor = "xor",
        /// All flows on one port, until it fails
        ActiveBackup = "active-backup",
        /// Queue pairs take turns, whatever their addresses (RoCE LAG of mlx5); other flows as with xor
        QueueAffinity = "queue_affinity",
        /// The port with the fewest open flows for its rate, when a flow begins
        LeastLoaded = "least_loaded",
        /// Flows take turns, and reach the port of the same number: each port has its own address
        Rail = "rail",
        /// Packets take turns, whatever their flow (mode 0): they arrive out of order
        RoundRobin = "balance-rr",
        /// All flows on the port of the active ToR (a mux cable, SONiC dual-ToR); the standby ToR sends what comes for the host to the active one through a tunnel
        Mux = "mux",
    }
}

choices! {
    /// The fields that choose a flow's port
    pub enum HashPolicy {
        /// MAC addresses: a pair of hosts always uses one port
        Layer2 = "layer2",
        /// MAC and IP addresses
        Layer23 = "layer2+3",
        /// IP addresses and ports of TCP or UDP
        Layer34 = "layer3+4",
    }
}

/// The ports of hosts that have several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPortSettings {
    /// How a flow gets its port.
    pub choice: PortChoice,
    /// The fields of the choice by hash.
    pub hash: HashPolicy,
    /// Interval at which a host looks at the carrier of its ports (`miimon`); zero: never.
    pub carrier: Span,
    /// Interval of LACPDUs; zero: none are sent.
    pub lacp: Span,
    /// Packets that go to a port in turn, with [`PortChoice::RoundRobin`].
    pub packets_per_slave: u32,
}

impl HostPortSettings {
    /// LACP with its slow timer and Linux's carrier monitoring; hash of addresses and ports.
    pub const DEFAULT: HostPortSettings = HostPortSettings {
        choice: PortChoice::Lacp,
        hash: HashPolicy::Layer34,
        carrier: Span::from_ms(100),
        lacp: Span::from_secs(30),
        packets_per_slave: 1,
    };
}
