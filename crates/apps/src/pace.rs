//! How far long operations of NCCL have come, for those who leave out rounds of them (`rank/rounds.rs`).

use crate::calls::OperationId;
use pauseframe_units::Time;

/// How far the connections of an operation have come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OperationPace {
    /// Slices that have arrived, over all connections, with the part that is under way as the time since the last one tells.
    pub arrived: f64,
    /// Its connections.
    pub connections: u32,
    /// Slices of the connection with the fewest and with the most.
    pub extremes: [u32; 2],
    /// Slices that every connection is still to send, alike.
    pub room: u32,
}

impl Default for OperationPace {
    fn default() -> OperationPace {
        OperationPace { arrived: 0.0, connections: 0, extremes: [u32::MAX, 0], room: u32::MAX }
    }
}

/// How far a rank has come in the longest operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationClock {
    /// The operation.
    pub operation: OperationId,
    /// Slices that the rank has received.
    pub arrived: u32,
    /// When the last one came.
    pub last: Time,
    /// Connections on which it receives.
    pub connections: u32,
    /// Slices of a round on each connection: what repeats.
    pub round: u32,
    /// Slices that its first connection is still to send alike, and to send in all.
    pub room: u32,
    /// See `room`.
    pub left: u32,
}

/// Messages of a connection that were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SkippedSlices {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) lane: u16,
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}
