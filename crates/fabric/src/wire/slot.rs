//! One class of a port: its queue, and what it has sent.

use crate::frame::Fifo;
use pauseframe_units::Time;

/// One class of a port: its egress queue, and what it has sent. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) queue: Fifo,
    /// Packets sent. Their bytes are not beside them: the compiler would add to both as to a vector, which takes three times the
    /// instructions.
    pub(crate) tx_packets: u64,
    /// Bytes that wait, in a NIC those behind the queues of other destinations too.
    pub(crate) backlog: u64,
    pub(crate) backlog_max: u64,
    /// Packets in `queue`, where the marker counts packets.
    pub(crate) waiting: u32,
    pub(crate) tx_bytes: u64,
    /// Sum over packets of bytes times time, plus when they left and minus when they joined, modulo 2^128, in
    /// byte * ps: what [`Slot::backlog_time`] is made of.
    moments: u128,
}

impl Slot {
    /// Nothing waits, and nothing was sent.
    pub(crate) const IDLE: Slot = Slot {
        queue: Fifo::EMPTY,
        backlog: 0,
        backlog_max: 0,
        waiting: 0,
        tx_packets: 0,
        tx_bytes: 0,
        moments: 0,
    };

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
        let (left, overdrawn) = self.backlog.overflowing_sub(size);
        self.backlog = left;
        self.moments = self.moments.wrapping_add(u128::from(size) * u128::from(now.0));
        !overdrawn
    }

    /// The backlog summed over time up to `now`, in byte * ps: that of the packets that still wait included.
    pub(crate) fn backlog_time(&self, now: Time) -> u128 {
        self.moments.wrapping_add(u128::from(self.backlog) * u128::from(now.0))
    }

    /// The largest backlog since this was asked last.
    pub(crate) fn take_peak(&mut self) -> u64 {
        std::mem::replace(&mut self.backlog_max, self.backlog)
    }

    #[inline(always)]
    pub(crate) fn count_sent(&mut self, size: u32) {
        self.tx_packets += 1;
        self.tx_bytes += u64::from(size);
    }
}
