//! The order in which a queue sends, and which packet it gives up.

/// The order of service within a class at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueDiscipline {
    /// First in, first out; what finds no room is dropped.
    Fifo,
    /// pFabric: the flow with the least left goes first, the packet with the most left is dropped.
    Pfabric,
}
