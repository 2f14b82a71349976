//! Messages on kept connections. Applications append messages in either direction and are notified when one has been delivered.
//!
//! Each endpoint keeps the byte offsets at which expected messages end, and notifies its application when the last byte has arrived in order. A
//! sender that asks is notified at the first acknowledgement or timer after it sent the last byte; with delayed ACKs the message's own ACK would come
//! late.

use super::operations::PendingStorageOperations;
use std::collections::VecDeque;

/// End offsets and tokens of the messages of one endpoint, in both directions.
#[derive(Debug, Default)]
pub(crate) struct MessageBoundaries {
    /// Expected messages, and the sum of their bytes.
    incoming: VecDeque<(u64, u32)>,
    awaited: u64,
    /// Sent messages whose sender wants a notification.
    outgoing: VecDeque<(u64, u32)>,
    /// Bytes of all messages written.
    appended: u64,
    /// Operations instead of messages.
    pub(super) operations: PendingStorageOperations,
}

/// Removes the messages that end at or before `offset` and reports their tokens; returns the end of the next message.
fn pop_completed(line: &mut VecDeque<(u64, u32)>, offset: u64, mut tell: impl FnMut(u32)) -> u64 {
    while let Some(&(_, token)) = line.front().filter(|(end, _)| *end <= offset) {
        line.pop_front();
        tell(token);
    }
    line.front().map_or(u64::MAX, |&(end, _)| end)
}

impl MessageBoundaries {
    /// Appends a message of `bytes` bytes, with a token if the application wants a notification. Returns the sent bytes at which the next
    /// notification is due, if that changed.
    pub(super) fn append_outgoing(&mut self, bytes: u64, token: Option<u32>) -> Option<u64> {
        self.appended += bytes;
        self.outgoing.push_back((self.appended, token?));
        self.outgoing.front().map(|&(end, _)| end)
    }

    /// Expects a message of `bytes` bytes. Returns the delivered bytes at which the next notification is due.
    pub(super) fn append_expected(&mut self, bytes: u64, token: u32) -> u64 {
        self.awaited += bytes;
        self.incoming.push_back((self.awaited, token));
        self.incoming.front().map_or(u64::MAX, |&(end, _)| end)
    }

    /// Reports the messages that are complete with `delivered` bytes; returns the byte count at which the next one is.
    pub(super) fn report_delivered(&mut self, delivered: u64, tell: impl FnMut(u32)) -> u64 {
        pop_completed(&mut self.incoming, delivered, tell)
    }

    /// Like `report_delivered`, for sent bytes.
    pub(super) fn report_sent(&mut self, sent: u64, tell: impl FnMut(u32)) -> u64 {
        pop_completed(&mut self.outgoing, sent, tell)
    }
}
