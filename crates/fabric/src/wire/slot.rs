//! One class of a port: its queue.

use super::counters::Amount;
use crate::frame::Fifo;
use pauseframe_units::Time;

/// One class of a port: its egress queue. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) queue: Fifo,
    /// What was sent in this class, unless it is the port's first (`sent.rs`).
    pub(super) sent: Amount,
    /// Bytes that wait, in a NIC those behind the queues of other destinations too.
    pub(crate) backlog: u64,
    pub(crate) backlog_max: u64,
    /// Packets in `queue`, where the marker counts packets.
    pub(crate) waiting: u32,
    /// Sum over packets of bytes times time, plus when they left and minus when they joined, modulo 2^128, in
    /// byte * ps: what [`Slot::backlog_time`] is made of.
    moments: u128,
}

impl Slot {
    /// Nothing waits, and nothing was sent.
    pub(crate) const IDLE: Slot =
        Slot { queue: Fifo::EMPTY, backlog: 0, backlog_max: 0, waiting: 0, sent: Amount::EMPTY, moments: 0 };

    /// A packet has begun to wait.
    #[inline(always)]
    pub(crate) fn join(&mut self, size: u64, now: Time) {
        self.backlog += size;
        self.backlog_max = self.backlog_max.max(self.backlog);
        self.moments = self.moments.wrapping_sub(u128::from(size) * u128::from(now.0));
    }

    /// A packet waits no longer; false if so much did not wait.
    #[inline(always)]
    #[must_use]
    pub(crate) fn leave(&mut self, size: u64, now: Time) -> bool {
        let (left, accounting_underflow) = self.backlog.overflowing_sub(size);
        self.backlog = left;
        self.moments = self.moments.wrapping_add(u128::from(size) * u128::from(now.0));
        !accounting_underflow
    }

    /// The backlog summed over time up to `now`, in byte * ps: that of the packets that still wait included.
    pub(crate) fn backlog_time(&self, now: Time) -> u128 {
        self.moments.wrapping_add(u128::from(self.backlog) * u128::from(now.0))
    }

    /// The largest backlog since this was asked last.
    pub(crate) fn take_peak(&mut self) -> u64 {
        std::mem::replace(&mut self.backlog_max, self.backlog)
    }
}
