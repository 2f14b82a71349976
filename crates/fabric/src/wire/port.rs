//! The state of a port: the wire that leaves it, and which of its classes may send.
//!
//! Frames on a link arrive in order, so only the first has an event; an idle port needs no "transmission done", it remembers until when it
//! is busy.

use crate::context::Context;
use crate::event::Event;
use crate::frame::{Fifo, Packet, PacketId};
use crate::ids::Owner;
use pauseframe_units::{LineRate, PortId, Span, Time};

/// The wire ends in the same partition.
pub(super) const LOCAL: u16 = u16::MAX;

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
    pub(crate) in_flight: Fifo,
    /// Packets sent, and their bytes, in all classes (`sent.rs`). They are not side by side: the compiler would add to both as to a
    /// vector, which takes three times the instructions.
    pub(crate) tx_packets: u64,
    /// Whose this is, and who is at the other end.
    pub(crate) from: Owner,
    pub(crate) to: Owner,
    /// Classes with waiting packets, and classes that may not send: a bit each.
    pub(crate) ready: u8,
    pub(crate) paused: u8,
    /// A `TxDone` is pending for `busy_until`.
    pub(crate) tx_pending: bool,
    /// A `TxDone` is pending for when a packet is through the forwarding latency.
    pub(crate) in_pipeline: bool,
    /// Pause frames wait for the frame in service (`Ports::waiting_pauses`).
    pub(crate) pauses_wait: bool,
    /// Its wire is cut, looked at, bad or unsteady.
    pub(super) slow_path: bool,
    /// The partition where it ends, or [`LOCAL`].
    pub(super) remote: u16,
}

impl Port {
    /// Classes that could send now.
    #[inline(always)]
    pub(crate) fn eligible(&self) -> u8 {
        self.ready & !self.paused
    }

    /// A packet is sent, of whatever class.
    #[inline(always)]
    pub(super) fn count_sent(&mut self, size: u32) {
        self.tx_packets += 1;
        self.tx_bytes += u64::from(size);
    }

    /// Whether anything could be sent now.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        self.eligible() != 0 || self.pauses_wait
    }

    /// Nothing is in service or waiting to be sent: a packet can go straight to the wire.
    #[inline(always)]
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.busy_until <= now
            && (self.ready | self.paused | u8::from(self.tx_pending) | u8::from(self.pauses_wait)) == 0
    }

    /// The link is down: the port is busy for ever.
    #[inline]
    pub(crate) fn is_down(&self) -> bool {
        self.busy_until == Time::MAX
    }

    /// The frame in service: it is over at `busy_until` and reaches the other end `delay` later. If more waits, it is sent then.
    #[inline(always)]
    pub(crate) fn serve(&mut self, port: PortId, index: PacketId, delay: Span, ctx: &mut Context) {
        self.serve_last(port, index, delay, ctx);
        self.expect_next(port, ctx);
    }

    /// If more waits, it is sent when the frame in service is over.
    #[inline(always)]
    fn expect_next(&mut self, port: PortId, ctx: &mut Context) {
        if self.has_work() {
            self.tx_pending = true;
            ctx.schedule(self.busy_until, Event::TxDone(port));
        }
    }

    /// The same where nothing waits behind it.
    #[inline(always)]
    pub(crate) fn serve_last(&mut self, port: PortId, index: PacketId, delay: Span, ctx: &mut Context) {
        let arrival = self.occupy(index, delay, ctx);
        self.follow(port, index, arrival, ctx);
    }

    /// A frame follows those on the wire: the first has an event, each tells when the one behind it arrives.
    #[inline(always)]
    pub(super) fn follow(&mut self, port: PortId, index: PacketId, arrival: Time, ctx: &mut Context) {
        if self.in_flight.push_and_tell(&mut ctx.packets, index, |last| last.at = arrival) {
            ctx.schedule_arrival(arrival, port);
        }
    }

    /// The same on a wire that ends in another partition: the frame is alone on it here, and makes no event.
    pub(super) fn serve_remote(&mut self, port: PortId, index: PacketId, delay: Span, ctx: &mut Context) {
        self.occupy(index, delay, ctx);
        let before = std::mem::replace(&mut self.in_flight, Fifo::EMPTY);
        self.in_flight.push(&mut ctx.packets, index);
        ctx.packets.remove_parted(before.head().expect("the last frame that left has stayed"));
        self.expect_next(port, ctx);
    }

    /// Begins to send a frame; when it arrives.
    #[inline(always)]
    fn occupy(&mut self, index: PacketId, delay: Span, ctx: &mut Context) -> Time {
        let now = ctx.now();
        debug_assert!(self.busy_until <= now, "two frames on one wire");
        let packet = &mut ctx.packets[index];
        let over = now + self.rate.serialise(u32::from(packet.size) + ctx.hot.gap);
        let arrival = over + delay;
        packet.at = arrival;
        self.busy_until = over;
        arrival
    }

    /// Takes the first frame off the wire, where it has arrived whole; the next one will.
    #[inline(always)]
    pub(crate) fn take_arrived(&mut self, port: PortId, ctx: &mut Context) -> PacketId {
        let index = self.in_flight.head().expect("an arrival has a frame");
        let &Packet { next, at, .. } = &ctx.packets[index];
        self.in_flight.advance(next);
        if next != PacketId::NONE {
            ctx.schedule_arrival(at, port);
        }
        index
    }
}
