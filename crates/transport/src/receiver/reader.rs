//! An application that reads at a limited rate, a segment at a time, so that windows close (RFC 9293 §3.8.6).

use pauseframe_units::{BitRate, Bytes, Time};

/// The reader and what waits for it.
#[derive(Clone, Debug)]
pub(crate) struct PacedApplicationReader {
    rate: BitRate,
    chunk: u64,
    /// Unread in-order bytes.
    pub(super) unread: u64,
    /// Bytes of the current read.
    taking: u64,
    /// When the current read ends; [`Time::MAX`]: nothing waits.
    pub(super) next: Time,
}

impl PacedApplicationReader {
    /// Reads `chunk` bytes at a time.
    pub(super) fn new(rate: BitRate, chunk: u32) -> PacedApplicationReader {
        PacedApplicationReader { rate, chunk: u64::from(chunk), unread: 0, taking: 0, next: Time::MAX }
    }

    /// Adds unread bytes.
    pub(super) fn add_unread(&mut self, bytes: u64, now: Time) {
        self.unread += bytes;
        if self.next == Time::MAX {
            self.schedule_read(now);
        }
    }

    fn schedule_read(&mut self, now: Time) {
        self.taking = self.unread.min(self.chunk);
        let takes = self.rate.serialise(Bytes(self.taking));
        self.next = if self.taking == 0 { Time::MAX } else { now.saturating_add(takes) };
    }

    /// Performs the due read; true if one was due.
    pub(super) fn read_if_due(&mut self, now: Time) -> bool {
        let before = self.unread;
        while self.next <= now {
            let at = self.next;
            self.unread -= self.taking;
            self.schedule_read(at);
        }
        self.unread < before
    }
}
