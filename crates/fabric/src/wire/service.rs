//! The frame in service: what is left of it, and for how long a port has been sending.

use super::Ports;
use super::counters::Amount;
use super::own::{NodePorts, OwnPort};
use super::port::Port;
use crate::context::Context;
use pauseframe_units::{Bytes, PortId, Span, Time};

/// What is still to be sent of a packet in service.
pub(crate) struct InService {
    pub(crate) class: u8,
    pub(crate) left: Span,
    /// That part of its bytes.
    pub(crate) bytes_left: f64,
}

impl Port {
    /// What is left at `now` of the packet in service: its class, and the time it takes. `None` if none is: of
    /// pause frames nobody counts the time, and what is cut off by a failure has been ([`NodePorts::cut_service`]).
    pub(crate) fn left_in_service(&self, ctx: &Context, now: Time) -> Option<InService> {
        if self.busy_until <= now || self.is_down() {
            return None;
        }
        // It has not arrived, and nothing has been sent after it.
        let packet = &ctx.packets[self.in_flight.tail()?];
        let (left, size) = (self.busy_until - now, u32::from(packet.size));
        let share = left.0 as f64 / self.rate.serialise(size + ctx.hot.gap).0 as f64;
        let in_service = || InService { class: packet.class, left, bytes_left: share * f64::from(size) };
        packet.is_counted().then(in_service)
    }
}

impl NodePorts<'_> {
    /// The link of `port` goes down: the frame in service is sent no further.
    pub(super) fn cut_service(&mut self, port: OwnPort, ctx: &Context) {
        if let Some(InService { class, left, .. }) = self.port(port).left_in_service(ctx, ctx.now()) {
            self.counters(port.slot(class, &ctx.hot)).cut_off += left;
        }
    }
}

impl Ports {
    /// Time up to `now` in which `port` was sending packets of `class`, preambles and gaps included.
    pub(crate) fn busy_time(&self, port: PortId, class: u8, ctx: &Context, now: Time) -> Span {
        let Amount { packets, bytes } = self.sent(port, class, &ctx.hot);
        let wire_bytes = bytes + packets * u64::from(ctx.hot.gap);
        let begun = self.ports[port].rate.rate().serialise(Bytes(wire_bytes));
        let in_service = self.ports[port].left_in_service(ctx, now).filter(|service| service.class == class);
        // A frame takes whole picoseconds, rounded up; their sum does so once.
        let ahead = in_service.map_or(Span::ZERO, |service| service.left)
            + self.counters.of(ctx.hot.slot(port, class)).cut_off;
        Span(begun.0.saturating_sub(ahead.0))
    }
}
