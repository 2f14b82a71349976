//! Links with extra work per frame: cross-partition (`boundary.rs`), captured, erroneous or jittered, or with telemetry. One flag of the port, in a
//! cache line that a hop reads anyway, selects this path.

use super::Ports;
use super::damage::mark_frame_damaged;
use super::own::{NodePorts, OwnPort};
use super::port::ExtraWork;
use crate::context::Context;
use crate::frame::{PacketId, TelemetryId};

impl Ports {
    /// Enables the slow path of captured and erroneous links.
    pub(crate) fn enable_slow_path(&mut self, ctx: &mut Context) {
        ctx.hot.slow_paths = true;
        self.ports.iter_mut().for_each(|port| port.extra = ExtraWork::SlowPath);
    }
}

impl NodePorts<'_> {
    /// Puts a frame on a link with extra work.
    #[inline(never)]
    pub(super) fn put_on_wire_with_extra_work(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        if self.node().is_switch()
            && let Some(telemetry) = ctx.packets.growing_telemetry(index)
        {
            self.stamp_telemetry(port, index, telemetry, ctx);
        }
        let state = self.port_mut(port);
        if state.extra == ExtraWork::SlowPath {
            self.put_on_wire_slow_path(port, index, ctx);
        } else {
            state.begin_transmission(port.id(), index, state.delay, ctx);
        }
    }

    /// Appends the telemetry of the port to that of a frame.
    #[inline(always)]
    fn stamp_telemetry(&self, port: OwnPort, index: PacketId, telemetry: TelemetryId, ctx: &mut Context) {
        if let Some(stamper) = ctx.plan.telemetry {
            let hop = self.hop_telemetry(port, ctx.packets[index].class, stamper, ctx);
            ctx.packets.append_hop_telemetry(telemetry, hop);
        }
    }

    /// Puts a frame on a link that is cross-partition, captured, erroneous or jittered.
    #[cold]
    #[inline(never)]
    fn put_on_wire_slow_path(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        let slow_paths = ctx.hot.slow_paths;
        let delay = self.jittered_delay(port, index, ctx);
        if self.is_cross_partition(port) {
            self.port_mut(port).begin_remote_transmission(port.id(), index, delay, ctx);
        } else {
            self.port_mut(port).begin_transmission(port.id(), index, delay, ctx);
        }
        if slow_paths {
            self.capture_or_damage(port, index, ctx);
        }
        if self.is_cross_partition(port) {
            self.send_to_partition(port, index, ctx);
        }
    }

    /// Captures a frame and damages it, if the link does so.
    fn capture_or_damage(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        self.capture_frame(port, index, ctx);
        let (size, now) = (u32::from(ctx.packets[index].size), ctx.now());
        if self.erroneous_link(port).is_some_and(|wire| wire.draw_damage(size, now)) {
            mark_frame_damaged(index, ctx);
        }
    }
}
