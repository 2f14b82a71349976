//! The frame in service: its remaining part, and the busy time of a port.

use super::PartitionPorts;
use super::counters::PacketsAndBytes;
use super::own::{BorrowedNodePorts, PortToken};
use super::port::Port;
use crate::context::Context;
use pauseframe_units::{Bytes, PortId, Span, Time};

/// The remaining part of the packet in service.
pub(crate) struct FrameInService {
    pub(crate) class: u8,
    pub(crate) left: Span,
    /// Remaining bytes, in proportion to `left`.
    pub(crate) bytes_left: f64,
}

impl Port {
    /// The remaining part at `now` of the packet in service. `None` without one: pause frames are not counted, and a frame cut off by a failure was
    /// handled by [`BorrowedNodePorts::abort_frame_in_service`].
    pub(crate) fn remaining_service(&self, ctx: &Context, now: Time) -> Option<FrameInService> {
        if self.busy_until <= now || self.is_link_down() {
            return None;
        }
        // The frame in service is the last on the wire.
        let packet = &ctx.packets[self.in_flight.tail()?];
        let (left, size) = (self.busy_until - now, u32::from(packet.size));
        let share = left.0 as f64 / self.rate.serialise(size + ctx.hot.gap).0 as f64;
        let in_service = || FrameInService { class: packet.class, left, bytes_left: share * f64::from(size) };
        packet.counts_as_transmission().then(in_service)
    }
}

impl BorrowedNodePorts<'_> {
    /// Aborts the frame in service when the link of `port` goes down.
    pub(super) fn abort_frame_in_service(&mut self, port: PortToken, ctx: &Context) {
        if let Some(FrameInService { class, left, .. }) =
            self.port_state(port).remaining_service(ctx, ctx.now())
        {
            self.rare_counters_mut(port.egress_token(class, &ctx.hot)).cut_off += left;
        }
    }
}

impl PartitionPorts {
    /// Time up to `now` in which `port` was sending packets of `class`, preambles and gaps included.
    pub(crate) fn busy_time(&self, port: PortId, class: u8, ctx: &Context, now: Time) -> Span {
        let PacketsAndBytes { packets, bytes } = self.sent_in_class(port, class, &ctx.hot);
        let wire_bytes = bytes + packets * u64::from(ctx.hot.gap);
        let begun = self.ports[port].rate.rate().serialise(Bytes(wire_bytes));
        let in_service =
            self.ports[port].remaining_service(ctx, now).filter(|service| service.class == class);
        // Each frame is rounded up to whole picoseconds; the sum is rounded only once.
        let ahead = in_service.map_or(Span::ZERO, |service| service.left)
            + self.counters.merged_counters(ctx.hot.slot(port, class)).cut_off;
        Span(begun.0.saturating_sub(ahead.0))
    }
}
