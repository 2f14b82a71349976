//! What a switch remembers as a leaf, and what it has done.

use super::sink::SinkFlow;
use super::source::SourceFlow;
use crate::frame::PacketFifo;
use crate::frame::path_tag::LeafPath;
use crate::ids::SlotId;
use pauseframe_units::{PortId, Span, Time};
use std::collections::BTreeMap;

/// Flows that a leaf remembers before it forgets idle ones.
const FLOWS_MAX: usize = 4_096;

/// Idle time after which a leaf may forget a flow, as in `ConWeave`'s simulator.
const AGING: Span = Span::from_ms(2);

/// What a switch has done for `ConWeave`.
#[derive(Clone, Copy, Default, Debug)]
pub struct ConWeaveCounts {
    /// Packets that asked for a reply.
    pub probes: u64,
    /// Flows that left a path after a late reply.
    pub reroutes: u64,
    /// Flows that took another path after a gap, or because theirs was gone.
    pub moves: u64,
    /// Control frames sent.
    pub control_frames: u64,
    /// Packets held.
    pub held_packets: u64,
    /// The most bytes held at once.
    pub held_bytes_max: u64,
    /// The most packets of one flow held at once.
    pub hold_packets_max: u64,
    /// The most flows with held packets at once at one port.
    pub hold_queues_max: u64,
    /// The longest time that packets of a flow were held.
    pub hold_time_max: Span,
    /// Releases because the tail came.
    pub releases_by_tail: u64,
    /// Releases because the tail did not come in time.
    pub releases_by_timer: u64,
    /// Releases because a packet of the next epoch came.
    pub releases_by_epoch: u64,
    /// Packets that could not be held because the port already held those of as many flows as it can.
    pub overflows: u64,
    /// Packets passed on to the receiver after one that left the first leaf later.
    pub late_packets: u64,
}

/// State of a switch as a leaf.
#[derive(Debug, Default)]
pub(crate) struct ConWeaveState {
    /// By endpoint key of the receiver.
    pub(super) sources: BTreeMap<u32, SourceFlow>,
    pub(super) sinks: BTreeMap<u32, SinkFlow>,
    /// Until when a path is not chosen.
    pub(super) busy: BTreeMap<LeafPath, Time>,
    /// Bytes of lossy classes that are held, by the queue that they will join.
    pub(super) held_lossy: BTreeMap<SlotId, u64>,
    pub(super) held_bytes: u64,
    /// By port: flows with held packets.
    pub(super) hold_queues: BTreeMap<PortId, u32>,
    /// Control frames that ended at this switch.
    pub(crate) control_frames_received: u64,
    pub(crate) counts: ConWeaveCounts,
}

impl ConWeaveState {
    /// The packets that are held, with the port that they will leave by.
    pub(crate) fn held_fifos(&self) -> impl Iterator<Item = (PortId, PacketFifo)> {
        self.sinks.values().filter(|sink| sink.holds_packets()).map(|sink| (sink.held.port, sink.held.fifo))
    }

    /// For each flow with held packets, its port, when they go on at the latest, and its timer.
    pub(crate) fn holds_and_timers(&self) -> impl Iterator<Item = (PortId, Time, Option<Time>)> {
        let sinks = self.sinks.values().filter(|sink| sink.holds_packets());
        sinks.map(|sink| (sink.held.port, sink.held.until, sink.timer))
    }

    /// Falsifies the timers of held packets, for tests of the recount; false: nothing is held.
    #[cfg(test)]
    pub(crate) fn set_hold_timers(&mut self, timer: Option<Time>) -> bool {
        let holding = self.sinks.values_mut().filter(|sink| sink.holds_packets());
        holding.map(|sink| sink.timer = timer).count() > 0
    }

    /// Bytes of lossy classes that are held, by the queue that they will join.
    pub(crate) fn held_lossy_bytes(&self) -> impl Iterator<Item = (SlotId, u64)> {
        self.held_lossy.iter().map(|(slot, bytes)| (*slot, *bytes))
    }

    /// All held bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Forgets flows that have been idle, once it remembers many.
    pub(super) fn forget_idle_flows(&mut self, now: Time) {
        if self.sources.len() >= FLOWS_MAX {
            self.sources.retain(|_, flow| flow.last + AGING >= now);
        }
        if self.sinks.len() >= FLOWS_MAX {
            self.sinks.retain(|_, flow| flow.last + AGING >= now || flow.holds_packets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_flows_are_forgotten_once_there_are_many() {
        let now = Time::ZERO + AGING + Span(1);
        for (count, left) in [(FLOWS_MAX - 1, FLOWS_MAX - 1), (FLOWS_MAX, 1)] {
            let mut state = ConWeaveState::default();
            for key in 0..count as u32 {
                let mut sink = SinkFlow::new(PortId(1));
                // Only the first one was in use within the last 2 ms.
                sink.last = if key == 0 { Time(1) } else { Time::ZERO };
                state.sinks.insert(key, sink);
            }
            state.forget_idle_flows(now);
            assert_eq!(state.sinks.len(), left);
        }
    }
}
