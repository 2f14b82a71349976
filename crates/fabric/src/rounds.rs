//! Rounds: what repeats inside the long operations of a workload, which the memory of steps ([`crate::memory`]) leaves out.

use pauseframe_units::{NodeId, Span, Time};
use std::collections::BTreeMap;

/// A collective operation of a workload: its communicator, and its number there.
pub type OperationId = (u32, i32);

/// How far all operations of each workload have come.
pub(crate) type Paces = Vec<BTreeMap<OperationId, OperationPace>>;

/// How far a rank has come in the longest operation of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationClock {
    /// The operation.
    pub operation: OperationId,
    /// Messages that the rank has received.
    pub arrived: u32,
    /// When the last one came.
    pub last: Time,
    /// Connections on which it receives.
    pub connections: u32,
    /// Messages of a round on each connection: what repeats.
    pub round: u32,
    /// Messages that a connection is still to send alike, up to a moment at which all stand still.
    pub room: u32,
    /// Messages that it is still to send in all.
    pub left: u32,
}

/// How far the connections of an operation have come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OperationPace {
    /// Messages that have arrived, over all connections, with the part that is under way.
    pub arrived: f64,
    /// Its connections.
    pub connections: u32,
    /// Messages of the connection with the fewest and with the most.
    pub extremes: [u32; 2],
    /// Messages that every connection is still to send alike.
    pub room: u32,
}

/// Messages that were left out on a connection, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkippedMessages {
    /// Number of the connection in its workload.
    pub connection: u32,
    /// The host that would have sent them.
    pub from: NodeId,
    /// Their bytes.
    pub bytes: u64,
}

/// A workload whose long operations consist of rounds: messages that follow each other in the same way on all connections, so that any
/// number of rounds can be left out at once.
pub trait Rounds {
    /// How far a rank has come in the longest operation under way that has rounds.
    fn operation_clock(&self) -> Option<OperationClock>;
    /// How far all operations have come; `None` if anything else is under way.
    fn operation_paces(&self, now: Time) -> Option<BTreeMap<OperationId, OperationPace>>;
    /// When the workload acts for another reason than a message.
    fn next_timer(&self) -> Option<Time>;
    /// Leaves out so many messages of each connection of these operations, which takes `by`.
    fn skip_messages(&mut self, messages: &BTreeMap<OperationId, u32>, by: Span) -> Vec<SkippedMessages>;
}
