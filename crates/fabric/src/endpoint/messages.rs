//! Messages on kept connections: an application appends bytes to those before, either way, and is told where it is when they are
//! there.
//!
//! Each end keeps after how many bytes the messages end that it waits for: its application learns of one when the last byte is in order;
//! the sender, if it asks, with the first acknowledgement or timer after the last byte was sent (its own would come late, where ACKs are
//! delayed).

use std::collections::VecDeque;

/// After how many bytes messages end, either way, at one connection end, with their tokens.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    /// Of those that come, and the bytes awaited so far.
    incoming: VecDeque<(u64, u32)>,
    awaited: u64,
    /// Of those that go: the ones whose sender wants to know that they have gone.
    outgoing: VecDeque<(u64, u32)>,
    /// Bytes of all that were written.
    appended: u64,
}

/// Takes the messages that end at or before `offset`; the end of the next.
fn passed(line: &mut VecDeque<(u64, u32)>, offset: u64, mut tell: impl FnMut(u32)) -> u64 {
    while let Some(&(_, token)) = line.front().filter(|(end, _)| *end <= offset) {
        line.pop_front();
        tell(token);
    }
    line.front().map_or(u64::MAX, |&(end, _)| end)
}

impl Boundaries {
    /// A message of so many bytes is written, with a token if the application wants to know when it has gone. The number of bytes sent
    /// at which there is something to tell, if that is new.
    pub(super) fn write(&mut self, bytes: u64, token: Option<u32>) -> Option<u64> {
        self.appended += bytes;
        self.outgoing.push_back((self.appended, token?));
        self.outgoing.front().map(|&(end, _)| end)
    }

    /// A message of so many bytes is awaited. The number of bytes delivered at which there is something to tell.
    pub(super) fn wait_for(&mut self, bytes: u64, token: u32) -> u64 {
        self.awaited += bytes;
        self.incoming.push_back((self.awaited, token));
        self.incoming.front().map_or(u64::MAX, |&(end, _)| end)
    }

    /// So many bytes are delivered: tells of the messages that are whole, and gives the number for the next one.
    pub(super) fn on_delivered(&mut self, delivered: u64, tell: impl FnMut(u32)) -> u64 {
        passed(&mut self.incoming, delivered, tell)
    }

    /// The same of bytes that have been sent.
    pub(super) fn on_sent(&mut self, sent: u64, tell: impl FnMut(u32)) -> u64 {
        passed(&mut self.outgoing, sent, tell)
    }
}
