//! One class of a port: its queue.

use super::counters::PacketsAndBytes;
use crate::frame::PacketFifo;
use pauseframe_units::Time;

/// One class of a port: its egress queue. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct EgressQueue {
    pub(crate) queue: PacketFifo,
    /// What was sent in this class, unless it is the port's first (`sent.rs`).
    pub(super) sent: PacketsAndBytes,
    /// Waiting bytes; in a NIC including those in destination queues.
    pub(crate) backlog: u64,
    pub(crate) backlog_max: u64,
    /// Packets in `queue`, where the marker counts packets.
    pub(crate) waiting: u32,
    /// Sum over packets of bytes times time, plus when they left and minus when they joined, modulo 2^128, in
    /// byte * ps: what [`EgressQueue::backlog_integral`] is made of.
    backlog_moments: u128,
}

impl EgressQueue {
    /// An empty slot that has sent nothing.
    pub(crate) const IDLE: EgressQueue = EgressQueue {
        queue: PacketFifo::EMPTY,
        backlog: 0,
        backlog_max: 0,
        waiting: 0,
        sent: PacketsAndBytes::EMPTY,
        backlog_moments: 0,
    };

    /// Adds a packet to the backlog.
    #[inline(always)]
    pub(crate) fn add_to_backlog(&mut self, size: u64, now: Time) {
        self.backlog += size;
        self.backlog_max = self.backlog_max.max(self.backlog);
        self.backlog_moments = self.backlog_moments.wrapping_sub(u128::from(size) * u128::from(now.0));
    }

    /// Removes a packet from the backlog; false if the backlog would underflow.
    #[inline(always)]
    #[must_use]
    pub(crate) fn remove_from_backlog(&mut self, size: u64, now: Time) -> bool {
        let (left, accounting_underflow) = self.backlog.overflowing_sub(size);
        self.backlog = left;
        self.backlog_moments = self.backlog_moments.wrapping_add(u128::from(size) * u128::from(now.0));
        !accounting_underflow
    }

    /// Integral of the backlog over time up to `now`, in byte * ps, including packets that still wait.
    pub(crate) fn backlog_integral(&self, now: Time) -> u128 {
        self.backlog_moments.wrapping_add(u128::from(self.backlog) * u128::from(now.0))
    }

    /// Takes the maximum backlog since the last call.
    pub(crate) fn take_backlog_peak(&mut self) -> u64 {
        std::mem::replace(&mut self.backlog_max, self.backlog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peak_begins_with_the_backlog_of_the_last_one() {
        let mut queue = EgressQueue::IDLE;
        queue.add_to_backlog(1000, Time(1));
        queue.add_to_backlog(2000, Time(2));
        assert!(queue.remove_from_backlog(1000, Time(3)));
        assert_eq!([queue.take_backlog_peak(), queue.take_backlog_peak()], [3000, 2000]);
        assert!(queue.remove_from_backlog(2000, Time(4)));
        assert_eq!([queue.take_backlog_peak(), queue.take_backlog_peak()], [2000, 0]);
    }
}
