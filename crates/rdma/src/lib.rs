//! Sans-IO `RoCEv2`: a queue pair of type RC and its congestion controls (docs/models/rdma.md).
//!
//! Packets go into a [`QueuePair`] by `on_packet`, time by `on_timeout`, and what it sends comes out by `poll_transmit`; nothing here
//! knows of links, switches or event queues.

pub mod cc;
mod packet;
mod queue_pair;
mod receiver;
mod sender;

pub use packet::{NamedPsn, Opcode, Packet, Syndrome, WIRE_OVERHEAD, rnr_delay};
pub use queue_pair::{QueuePair, QueuePairSettings, Stats};
pub use receiver::NotificationPoint;
pub use sender::Failure;
