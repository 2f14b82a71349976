//! Collective operations as NCCL makes them: channels that each pipeline the data through slices.
//!
//! Constants and algorithms follow NCCL 2.30.7 (`src/device`, `src/graph`). A slice is one message. A connection has
//! so many slices under way as its buffer holds (`NCCL_STEPS` 8, two steps a slice). The protocols LL and LL128 and
//! NVLS are not modelled; reductions take no time.

mod layout;
mod model;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use layout::Layout;
pub(crate) use plan::{Gate, Plan, vector_bytes};

use crate::algorithm::Kind;
use pauseframe_units::Span;

/// The pattern of messages of a collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Around a ring of all ranks.
    Ring,
    /// Up and down two binary trees over the servers, with a chain of GPUs in each.
    Tree,
    /// From each rank to each other.
    SendRecv,
}

impl Pattern {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Ring => "ring",
            Pattern::Tree => "tree",
            Pattern::SendRecv => "send_recv",
        }
    }
}

/// Settings of NCCL's collectives.
#[derive(Clone, PartialEq, Debug)]
pub struct Nccl {
    /// The algorithm of reductions to all ranks; `None`: as NCCL's model chooses.
    pub pattern: Option<Pattern>,
    /// Bytes of a slice; `None`: a message is the block of one step of a ring.
    pub slice: Option<u64>,
    /// Largest message of a send to another server (`NCCL_P2P_NET_CHUNKSIZE`), if that is less than a step of the buffer.
    pub p2p_chunk: u64,
    /// Slices under way on a connection.
    pub in_flight: u32,
    /// Channels; `None`: one for each GPU of the group in a server, and one for a group within a server.
    pub channels: Option<u32>,
    /// Payload that a GPU sends to its server and to the network, in bytes per second.
    pub rates: [f64; 2],
}

impl Default for Nccl {
    fn default() -> Self {
        Nccl {
            pattern: None,
            slice: Some(1 << 20),
            p2p_chunk: 128 << 10,
            in_flight: 4,
            channels: None,
            rates: [450e9, 50e9],
        }
    }
}

/// How messages of all libraries travel, beyond the protocol.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sending {
    /// Fixed cost of each message at its sender before it leaves.
    pub cost: Span,
    /// Data for another rail of another server go to the GPU of that rail in the own server, and leave by its NIC.
    pub pxn: bool,
}

impl Default for Sending {
    fn default() -> Self {
        Sending { cost: Span::ZERO, pxn: true }
    }
}

/// Whether NCCL has an operation; others are as in MPI.
pub fn has(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Allreduce
            | Kind::Allgather
            | Kind::ReduceScatter
            | Kind::Alltoall
            | Kind::Alltoallv
            | Kind::Bcast
            | Kind::Reduce
    )
}
