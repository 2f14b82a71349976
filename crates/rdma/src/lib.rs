//! Sans-IO `RoCEv2`: a queue pair of type RC and its congestion controls (docs/models/rdma.md).
//!
//! Packets enter a [`QueuePair`] by `on_packet`, time by `on_timeout`, and its output leaves by `poll_transmit`; it
//! knows no links, switches or event queues.

mod any_order;
pub mod cc;
mod invariants;
mod packet;
mod queue_pair;
mod receiver;
mod sender;

pub use any_order::DpOrdering;
pub use packet::{NamedPsn, Opcode, Packet, Syndrome, WIRE_OVERHEAD, rnr_delay};
pub use queue_pair::{
    CnpScope, IdleState, NotificationPoint, QueuePair, QueuePairSettings, RetransmissionTimer, SideWindow,
    Stats, WindowKind,
};
pub use receiver::{CnpLimiter, UNORDERED_ACK_BYTES};
pub use sender::{EntropyChoice, Failure};
