//! Links with extra work per frame: cross-partition (`boundary.rs`), captured, erroneous or jittered, or with telemetry. One flag of the port, in a
//! cache line that a hop reads anyway, selects this path.

use super::PartitionPorts;
use super::damage::mark_damaged;
use super::own::{BorrowedNodePorts, PortToken};
use super::port::ExtraLinkWork;
use crate::context::Context;
use crate::frame::{PacketId, TelemetryId};
use pauseframe_units::Span;

impl PartitionPorts {
    /// Enables the slow path of captured and erroneous links.
    pub(crate) fn enable_slow_path(&mut self, ctx: &mut Context) {
        ctx.hot.slow_paths = true;
        self.ports.iter_mut().for_each(|port| port.extra = ExtraLinkWork::SlowPath);
    }
}

impl BorrowedNodePorts<'_> {
    /// Puts a frame on a link with extra work.
    #[inline(never)]
    pub(super) fn put_stamped_on_wire(&mut self, port: PortToken, index: PacketId, ctx: &mut Context) {
        if self.owner_node().is_switch()
            && let Some(telemetry) = ctx.packets.appendable_telemetry(index)
        {
            self.append_telemetry(port, index, telemetry, ctx);
        }
        let state = self.port_state_mut(port);
        if state.extra == ExtraLinkWork::SlowPath {
            self.put_by_slow_path(port, index, ctx);
        } else {
            state.begin_transmission(port.port_id(), index, state.delay, ctx);
        }
    }

    /// Appends the telemetry of the port to that of a frame.
    #[inline(always)]
    fn append_telemetry(&self, port: PortToken, index: PacketId, telemetry: TelemetryId, ctx: &mut Context) {
        if let Some(stamper) = ctx.plan.telemetry {
            let hop = self.port_telemetry(port, ctx.packets[index].class, stamper, ctx);
            ctx.packets.append_hop(telemetry, hop);
        }
    }

    /// Puts a frame on a link that is cross-partition, captured, erroneous or jittered.
    #[cold]
    #[inline(never)]
    fn put_by_slow_path(&mut self, port: PortToken, index: PacketId, ctx: &mut Context) {
        let slow_paths = ctx.hot.slow_paths;
        let delay = self.draw_jittered_delay(port, index, ctx);
        if self.is_cross_partition(port) {
            self.port_state_mut(port).begin_cross_partition(port.port_id(), index, delay, ctx);
        } else {
            self.port_state_mut(port).begin_transmission(port.port_id(), index, delay, ctx);
        }
        if slow_paths {
            self.capture_and_damage(port, index, delay, ctx);
        }
        if self.is_cross_partition(port) {
            self.send_to_partition(port, index, ctx);
        }
    }

    /// Captures a frame and damages it, if the link does so.
    fn capture_and_damage(&mut self, port: PortToken, index: PacketId, delay: Span, ctx: &mut Context) {
        self.capture_frame(port, index, ctx);
        let (packet, now) = (&ctx.packets[index], ctx.now());
        let (size, class) = (u32::from(packet.size), usize::from(packet.class));
        let tag =
            ctx.plan.priorities.get(class).map_or(0, |priority| ctx.settings.overhead.tag_size(*priority));
        let arrival = now + self.port_state(port).rate.serialise(size) + delay;
        if self.erroneous_link_mut(port).is_some_and(|wire| wire.draw_damage(size, tag, now..arrival)) {
            mark_damaged(index, ctx);
        }
    }
}
