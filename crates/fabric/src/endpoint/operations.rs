//! Operations on one connection: several may be under way, and they complete in the order in which they were posted.
//!
//! Each end keeps the byte count at which an operation is complete there. What an end counts belongs to its oldest incomplete
//! operation, or between two operations to the last one.

use std::collections::VecDeque;

/// An operation that is not complete at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PendingStorageOperation {
    pub(super) flow: u32,
    /// Bytes of all operations up to this one.
    pub(super) end: u64,
    /// Bytes that have arrived at this end by then.
    pub(super) arrived: u64,
    /// Bytes of the reply that this end then sends.
    pub(super) reply: u64,
}

/// The operations under way at one end, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingStorageOperations {
    pending: VecDeque<PendingStorageOperation>,
    /// Bytes of all operations so far, and those of them that arrive at this end.
    posted: u64,
    arriving: u64,
}

impl PendingStorageOperations {
    /// Appends an operation that is complete after `bytes` more bytes, of which `arriving` arrive at this end.
    pub(super) fn push(&mut self, flow: u32, bytes: u64, arriving: u64, reply: u64) {
        self.posted += bytes;
        self.arriving += arriving;
        let (end, arrived) = (self.posted, self.arriving);
        self.pending.push_back(PendingStorageOperation { flow, end, arrived, reply });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The oldest operation.
    pub(super) fn oldest(&self) -> Option<PendingStorageOperation> {
        self.pending.front().copied()
    }

    /// Takes the oldest operation if it is complete with `bytes` bytes.
    pub(super) fn take_if_complete(&mut self, bytes: u64) -> Option<PendingStorageOperation> {
        self.oldest().filter(|operation| operation.end <= bytes)?;
        self.pending.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_complete_in_order() {
        let mut operations = PendingStorageOperations::default();
        operations.push(1, 10, 10, 0);
        operations.push(2, 0, 0, 7);
        operations.push(3, 5, 0, 0);
        assert_eq!(operations.take_if_complete(9), None);
        let complete: Vec<_> =
            std::iter::from_fn(|| operations.take_if_complete(14)).map(|one| one.flow).collect();
        assert_eq!(
            (complete, operations.oldest().map(|one| (one.end, one.arrived))),
            (vec![1, 2], Some((15, 10)))
        );
    }
}
