//! The state of a port: its outgoing link, and which classes may send.
//!
//! Frames on a link arrive in order, so only the first has an event. A port stores until when it is busy, so it needs no "transmission done" event
//! unless more frames wait.

use crate::context::Context;
use crate::event::Event;
use crate::frame::{Packet, PacketFifo, PacketId};
use crate::ids::PackedNodeId;
use pauseframe_units::{LineRate, PortId, Span, Time};

/// Value of `peer_partition` for a link inside the partition.
pub(super) const LOCAL_PARTITION: u16 = u16::MAX;

/// What a link does for each frame beyond sending it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ExtraLinkWork {
    /// Nothing.
    None,
    /// It stamps telemetry.
    Telemetry,
    /// It is cross-partition, captured, erroneous or jittered, and may stamp telemetry.
    SlowPath,
}

/// The state of a port that every hop touches: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// The frame in service ends here.
    pub(crate) busy_until: Time,
    pub(super) tx_bytes: u64,
    /// Propagation delay to the other end.
    pub(crate) delay: Span,
    pub(crate) rate: LineRate,
    /// Frames on the link.
    pub(crate) in_flight: PacketFifo,
    /// Packets sent in all classes (`sent.rs`). Packets and bytes are not adjacent, because the compiler would then vectorise the additions with
    /// three times the instructions.
    pub(crate) tx_packets: u64,
    /// Sending and receiving node of the link.
    pub(crate) from: PackedNodeId,
    pub(crate) to: PackedNodeId,
    /// Classes with waiting packets, and classes that may not send: a bit each.
    pub(crate) ready: u8,
    pub(crate) paused: u8,
    /// A `TxDone` is pending for `busy_until`.
    pub(crate) tx_pending: bool,
    /// Pause frames wait for the frame in service (`BorrowedNodePorts::unsent_pauses_mut`).
    pub(crate) pauses_wait: bool,
    /// Extra work for each frame of the link.
    pub(super) extra: ExtraLinkWork,
    /// The partition where the link ends, or [`LOCAL_PARTITION`].
    pub(super) peer_partition: u16,
}

impl Port {
    /// Classes that could send now.
    #[inline(always)]
    pub(crate) fn eligible_classes(&self) -> u8 {
        self.ready & !self.paused
    }

    /// Counts a sent packet.
    #[inline(always)]
    pub(super) fn count_sent(&mut self, size: u32) {
        self.tx_packets += 1;
        self.tx_bytes += u64::from(size);
    }

    /// Whether anything could be sent now.
    #[inline(always)]
    pub(crate) fn has_eligible_frames(&self) -> bool {
        self.eligible_classes() != 0 || self.pauses_wait
    }

    /// Whether nothing is in service or waiting, so that a packet can be transmitted directly.
    #[inline(always)]
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.busy_until <= now
            && (self.ready | self.paused | u8::from(self.tx_pending) | u8::from(self.pauses_wait)) == 0
    }

    /// Whether the link is down: the port is busy forever.
    #[inline]
    pub(crate) fn is_link_down(&self) -> bool {
        self.busy_until == Time::MAX
    }

    /// Starts a transmission, which ends at `busy_until` and arrives `delay` later. Schedules the next one if more frames wait.
    #[inline(always)]
    pub(crate) fn begin_transmission(
        &mut self,
        port: PortId,
        index: PacketId,
        delay: Span,
        ctx: &mut Context,
    ) {
        self.begin_last_transmission(port, index, delay, ctx);
        self.schedule_next_transmission(port, ctx);
    }

    /// Schedules the next transmission for the end of the frame in service, if more frames wait.
    #[inline(always)]
    fn schedule_next_transmission(&mut self, port: PortId, ctx: &mut Context) {
        if self.has_eligible_frames() {
            self.tx_pending = true;
            ctx.schedule_event(self.busy_until, Event::TxDone(port));
        }
    }

    /// [`Self::begin_transmission`] if no other frame waits.
    #[inline(always)]
    pub(crate) fn begin_last_transmission(
        &mut self,
        port: PortId,
        index: PacketId,
        delay: Span,
        ctx: &mut Context,
    ) {
        let arrival = self.occupy_wire(index, delay, ctx);
        self.append_to_wire(port, index, arrival, ctx);
    }

    /// Appends a frame to those in flight. Only the first has an event; each stores the arrival time of the one behind it.
    #[inline(always)]
    pub(super) fn append_to_wire(&mut self, port: PortId, index: PacketId, arrival: Time, ctx: &mut Context) {
        if self.in_flight.push_back_with(&mut ctx.packets, index, |last| last.at = arrival) {
            ctx.schedule_arrival(arrival, port);
        }
    }

    /// [`Self::begin_transmission`] on a cross-partition link: only this frame is on the local wire, without an event.
    pub(super) fn begin_cross_partition(
        &mut self,
        port: PortId,
        index: PacketId,
        delay: Span,
        ctx: &mut Context,
    ) {
        self.occupy_wire(index, delay, ctx);
        let before = std::mem::replace(&mut self.in_flight, PacketFifo::EMPTY);
        self.in_flight.push_back(&mut ctx.packets, index);
        ctx.packets.remove_exported(before.head().expect("the last frame that left has stayed"));
        self.schedule_next_transmission(port, ctx);
    }

    /// Occupies the wire with a frame; returns its arrival time.
    #[inline(always)]
    fn occupy_wire(&mut self, index: PacketId, delay: Span, ctx: &mut Context) -> Time {
        let now = ctx.now();
        debug_assert!(self.busy_until <= now, "two frames on one wire");
        let packet = &mut ctx.packets[index];
        let over = now + self.rate.serialise(u32::from(packet.size) + ctx.hot.gap);
        let arrival = over + delay;
        packet.at = arrival;
        self.busy_until = over;
        arrival
    }

    /// Takes the first frame, which has arrived, off the wire and schedules the arrival of the next.
    #[inline(always)]
    pub(crate) fn take_arrived(&mut self, port: PortId, ctx: &mut Context) -> PacketId {
        let index = self.in_flight.head().expect("an arrival has a frame");
        let &Packet { next, at, .. } = &ctx.packets[index];
        self.in_flight.remove_head(next);
        if next != PacketId::NONE {
            ctx.schedule_arrival(at, port);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::BitRate;

    /// At the end of a frame the port is free: the next packet need not wait, and a choice by queue counts nothing in service.
    #[test]
    fn a_port_is_idle_from_the_end_of_its_frame() {
        let now = Time(1000);
        let idle = Port {
            busy_until: now,
            tx_bytes: 0,
            delay: Span::ZERO,
            rate: LineRate::new(BitRate::gbps(1)),
            in_flight: PacketFifo::EMPTY,
            tx_packets: 0,
            from: PackedNodeId::default(),
            to: PackedNodeId::default(),
            ready: 0,
            paused: 0,
            tx_pending: false,
            pauses_wait: false,
            extra: ExtraLinkWork::None,
            peer_partition: LOCAL_PARTITION,
        };
        assert_eq!([999, 1000, 1001].map(|at| idle.is_idle(Time(at))), [false, true, true]);
        for busy in [
            Port { ready: 1, ..idle },
            Port { paused: 1, ..idle },
            Port { tx_pending: true, ..idle },
            Port { pauses_wait: true, ..idle },
        ] {
            assert!(!busy.is_idle(now), "{busy:?}");
        }
    }
}
