//! What is counted at ports and switches on events that are rare.

use crate::frame::Packet;
use crate::ids::SlotId;
use pauseframe_units::{IndexVec, Span};
use std::ops::{AddAssign, Sub};

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The egress queue (or the shared pool) had no room for a lossy packet.
    BufferFull,
    /// A lossless packet came after XOFF and the headroom was used up.
    HeadroomExceeded,
    /// A packet that is not ECN-capable met a queue above its marking threshold.
    NotEct,
    /// A lossless packet came after XOFF and the headroom that all (port, priority) of the switch share was used up.
    HeadroomPool,
}

impl DropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [DropReason; 4] =
        [DropReason::BufferFull, DropReason::HeadroomExceeded, DropReason::NotEct, DropReason::HeadroomPool];
}

/// Why a frame was lost although no buffer was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReason {
    /// Its link was or went down.
    LinkDown,
    /// It arrived damaged.
    Corrupted,
    /// The PFC watchdog emptied its queue.
    Watchdog,
}

impl LossReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [LossReason; 3] = [LossReason::LinkDown, LossReason::Corrupted, LossReason::Watchdog];
}

/// What is counted at a port and class beyond its [`Slot`](super::slot::Slot), on events that are rare.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) drops: [u64; DropReason::ALL.len()],
    /// Lost with a link, on a bad wire or to a watchdog.
    pub(crate) lost: [u64; LossReason::ALL.len()],
    pub(crate) ecn_marks: u64,
    /// Packets that lost their payload here.
    pub(crate) trims: u64,
    /// What failures have cut off frames in service.
    pub(crate) cut_off: Span,
    /// CNMs that the congestion point here has sent, and those that came to the NIC here.
    pub(crate) cnms_sent: u64,
    pub(crate) cnms_received: u64,
    /// Pause frames that asked this class to stop, as they went to the wire at the other end, which counts them.
    pub(crate) pauses_sent: u64,
}

impl Counters {
    /// With what another partition has counted: who receives counts some of what a port has lost.
    pub(crate) fn joined(mut self, other: &Counters) -> Counters {
        let add = |sum: &mut u64, more: &u64| *sum += more;
        self.drops.iter_mut().zip(&other.drops).for_each(|(sum, more)| add(sum, more));
        self.lost.iter_mut().zip(&other.lost).for_each(|(sum, more)| add(sum, more));
        self.ecn_marks += other.ecn_marks;
        self.trims += other.trims;
        self.cut_off += other.cut_off;
        self.cnms_sent += other.cnms_sent;
        self.cnms_received += other.cnms_received;
        self.pauses_sent += other.pauses_sent;
        self
    }
}

/// What the node at the other end counts of a port and class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// Lost on the wire.
    pub(super) lost: [u64; LossReason::ALL.len()],
    /// Pause frames that asked this class to stop, as they went to the wire.
    pub(super) pauses_sent: u64,
}

/// The counters of all slots: marks, which are common, and the rest, which takes no memory until there is any.
#[derive(Debug)]
pub(crate) struct AllCounters {
    marks: IndexVec<SlotId, u64>,
    rare: IndexVec<SlotId, Counters>,
    received: IndexVec<SlotId, Received>,
}

impl AllCounters {
    pub(super) fn new(slots: usize) -> AllCounters {
        AllCounters { marks: IndexVec::filled(0, slots), rare: IndexVec::new(), received: IndexVec::new() }
    }

    /// A packet has been marked.
    #[inline]
    pub(super) fn mark(&mut self, slot: SlotId) {
        self.marks[slot] += 1;
    }

    /// What is to be counted otherwise.
    #[cold]
    pub(super) fn rare(&mut self, slot: SlotId) -> &mut Counters {
        if self.rare.is_empty() {
            self.rare = IndexVec::filled(Counters::default(), self.marks.len());
        }
        &mut self.rare[slot]
    }

    /// What is to be counted at the other end.
    #[cold]
    pub(super) fn received(&mut self, slot: SlotId) -> &mut Received {
        if self.received.is_empty() {
            self.received = IndexVec::filled(Received::default(), self.marks.len());
        }
        &mut self.received[slot]
    }

    /// All that was counted, at both ends as far as they are here.
    pub(crate) fn of(&self, slot: SlotId) -> Counters {
        let Received { lost, pauses_sent } = self.received.get(slot).copied().unwrap_or_default();
        let there = Counters { ecn_marks: self.marks[slot], lost, pauses_sent, ..Counters::default() };
        self.rare.get(slot).map_or(there, |here| there.joined(here))
    }
}

/// What is counted of a switch, over all its queues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SwitchCounters {
    /// That wait now.
    pub(crate) bytes: u64,
    /// That waited at once, at most.
    pub(crate) most: u64,
    /// What came to the switch, or came to be there, and was dropped or lost in it.
    pub(crate) gone: Amount,
}

impl SwitchCounters {
    #[inline(always)]
    pub(crate) fn join(&mut self, size: u64) {
        self.bytes += size;
        self.most = self.most.max(self.bytes);
    }

    #[inline(always)]
    pub(crate) fn leave(&mut self, size: u64) {
        self.bytes = self.bytes.wrapping_sub(size);
    }
}

/// So many packets of flows, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Amount {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(super) const EMPTY: Amount = Amount { packets: 0, bytes: 0 };

    /// One packet of so many bytes.
    pub(super) fn packet(size: u32) -> Amount {
        Amount { packets: 1, bytes: u64::from(size) }
    }

    /// All of these.
    pub(crate) fn sum<'a>(packets: impl Iterator<Item = &'a Packet>) -> Amount {
        let mut sum = Amount::default();
        packets.for_each(|packet| sum += Amount::packet(u32::from(packet.size)));
        sum
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Amount) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

impl Sub for Amount {
    type Output = Amount;
    fn sub(self, less: Amount) -> Amount {
        Amount { packets: self.packets - less.packets, bytes: self.bytes - less.bytes }
    }
}
