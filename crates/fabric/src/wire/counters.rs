//! Counters of ports and switches for rare events.

use crate::frame::Packet;
use crate::ids::SlotId;
use pauseframe_units::{IndexVec, Span, Time};
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
    /// CoDel dropped it: packets of its queue had waited too long.
    Codel,
    /// The receive ring of a Linux machine that switches was full.
    RingFull,
}

impl DropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [DropReason; 6] = [
        DropReason::BufferFull,
        DropReason::HeadroomExceeded,
        DropReason::NotEct,
        DropReason::HeadroomPool,
        DropReason::Codel,
        DropReason::RingFull,
    ];
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

/// Counters of a port and class for rare events; frequent ones are in its [`Slot`](super::slot::Slot).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueCounters {
    pub(crate) drops: [u64; DropReason::ALL.len()],
    /// Packets lost to link failures, wire errors or the watchdog, by [`LossReason`].
    pub(crate) lost: [u64; LossReason::ALL.len()],
    pub(crate) ecn_marks: u64,
    /// Packets whose payload was cut off here.
    pub(crate) trims: u64,
    /// Longest time that a packet waited which left by CoDel.
    pub(crate) sojourn_max: Span,
    /// Flows that FQ-CoDel put before the others because they had nothing to send.
    pub(crate) new_flows: u64,
    /// Transmission time cut off by link failures.
    pub(crate) cut_off: Span,
    /// CNMs sent by the congestion point here.
    pub(crate) cnms_sent: u64,
    /// CNMs that arrived at the NIC here.
    pub(crate) cnms_received: u64,
    /// Pause frames for this class that the peer has transmitted; the peer counts them.
    pub(crate) pauses_sent: u64,
}

impl QueueCounters {
    /// Adds the counts of another partition: a receiver counts some losses of the sending port.
    pub(crate) fn merge(mut self, other: &QueueCounters) -> QueueCounters {
        let add = |sum: &mut u64, more: &u64| *sum += more;
        self.drops.iter_mut().zip(&other.drops).for_each(|(sum, more)| add(sum, more));
        self.lost.iter_mut().zip(&other.lost).for_each(|(sum, more)| add(sum, more));
        self.ecn_marks += other.ecn_marks;
        self.trims += other.trims;
        self.sojourn_max = self.sojourn_max.max(other.sojourn_max);
        self.new_flows += other.new_flows;
        self.cut_off += other.cut_off;
        self.cnms_sent += other.cnms_sent;
        self.cnms_received += other.cnms_received;
        self.pauses_sent += other.pauses_sent;
        self
    }
}

/// Counters of a port and class that the peer keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueCountersKeptForPeer {
    /// Frames lost on the wire, by [`LossReason`].
    pub(super) lost: [u64; LossReason::ALL.len()],
    /// Pause frames transmitted to stop this class.
    pub(super) pauses_sent: u64,
}

/// Marks of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    count: u64,
    /// When the last packet was marked.
    last: Time,
}

/// The counters of all slots. Marks are frequent and have their own array; the others take no memory until first used.
#[derive(Debug)]
pub(crate) struct QueueCounterTable {
    marks: IndexVec<SlotId, Marks>,
    rare: IndexVec<SlotId, QueueCounters>,
    received: IndexVec<SlotId, QueueCountersKeptForPeer>,
}

impl QueueCounterTable {
    pub(super) fn new(slots: usize) -> QueueCounterTable {
        QueueCounterTable {
            marks: IndexVec::filled(Marks::default(), slots),
            rare: IndexVec::new(),
            received: IndexVec::new(),
        }
    }

    /// A packet has been marked.
    #[inline]
    pub(super) fn count_marked(&mut self, slot: SlotId, now: Time) {
        let marks = &mut self.marks[slot];
        *marks = Marks { count: marks.count + 1, last: now };
    }

    /// Takes the mark back of a packet that joined a slot at `joined`, if it was marked then: it has lost its place.
    pub(super) fn take_mark_back(&mut self, slot: SlotId, joined: Time) -> bool {
        let marks = &mut self.marks[slot];
        let was_marked = marks.count > 0 && marks.last == joined;
        marks.count -= u64::from(was_marked);
        was_marked
    }

    /// The rare counters of a slot.
    #[cold]
    pub(super) fn rare_counters(&mut self, slot: SlotId) -> &mut QueueCounters {
        if self.rare.is_empty() {
            self.rare = IndexVec::filled(QueueCounters::default(), self.marks.len());
        }
        &mut self.rare[slot]
    }

    /// The counters of a slot that the peer keeps.
    #[cold]
    pub(super) fn counters_for_peer(&mut self, slot: SlotId) -> &mut QueueCountersKeptForPeer {
        if self.received.is_empty() {
            self.received = IndexVec::filled(QueueCountersKeptForPeer::default(), self.marks.len());
        }
        &mut self.received[slot]
    }

    /// All counters of a slot, of both ends if both are in this partition.
    pub(crate) fn merged_counters(&self, slot: SlotId) -> QueueCounters {
        let QueueCountersKeptForPeer { lost, pauses_sent } =
            self.received.get(slot).copied().unwrap_or_default();
        let there = QueueCounters {
            ecn_marks: self.marks[slot].count,
            lost,
            pauses_sent,
            ..QueueCounters::default()
        };
        self.rare.get(slot).map_or(there, |here| there.merge(here))
    }
}

/// Counters of a switch over all its queues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SwitchCounters {
    /// Bytes queued now.
    pub(crate) bytes: u64,
    /// Maximum of `bytes`.
    pub(crate) most: u64,
    /// Packets dropped or lost in the switch.
    pub(crate) discarded: PacketsAndBytes,
}

impl SwitchCounters {
    #[inline(always)]
    pub(crate) fn add_queued(&mut self, size: u64) {
        self.bytes += size;
        self.most = self.most.max(self.bytes);
    }

    #[inline(always)]
    pub(crate) fn remove_queued(&mut self, size: u64) {
        self.bytes = self.bytes.wrapping_sub(size);
    }
}

/// A number of flow packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PacketsAndBytes {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl PacketsAndBytes {
    pub(super) const EMPTY: PacketsAndBytes = PacketsAndBytes { packets: 0, bytes: 0 };

    /// One packet of `size` bytes.
    pub(super) fn of_packet(size: u32) -> PacketsAndBytes {
        PacketsAndBytes { packets: 1, bytes: u64::from(size) }
    }

    /// The sum over packets.
    pub(crate) fn sum_of_packets<'a>(packets: impl Iterator<Item = &'a Packet>) -> PacketsAndBytes {
        let mut sum = PacketsAndBytes::default();
        packets.for_each(|packet| sum += PacketsAndBytes::of_packet(u32::from(packet.size)));
        sum
    }
}

impl AddAssign for PacketsAndBytes {
    fn add_assign(&mut self, more: PacketsAndBytes) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

impl Sub for PacketsAndBytes {
    type Output = PacketsAndBytes;
    fn sub(self, less: PacketsAndBytes) -> PacketsAndBytes {
        PacketsAndBytes { packets: self.packets - less.packets, bytes: self.bytes - less.bytes }
    }
}
