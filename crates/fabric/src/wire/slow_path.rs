//! Wires on which more happens to a frame than that it arrives: it leaves the partition (`boundary.rs`), is captured, damaged, or late at random.
//! One bit of the port says so, which lies where a hop looks anyway.

use super::Ports;
use super::damage::damage;
use super::own::{NodePorts, OwnPort};
use crate::context::Context;
use crate::frame::PacketId;

impl Ports {
    /// Somebody looks at what goes on some wire, or it is bad.
    pub(crate) fn enable_slow_path(&mut self, ctx: &mut Context) {
        ctx.hot.slow_paths = true;
        self.ports.iter_mut().for_each(|port| port.slow_path = true);
    }
}

impl NodePorts<'_> {
    /// Puts a frame on a wire that is cut, looked at, bad or unsteady.
    #[cold]
    #[inline(never)]
    pub(super) fn put_on_wire_slow_path(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        let slow_paths = ctx.hot.slow_paths;
        if let Some(quantum) = ctx.plan.telemetry.filter(|_| self.node().is_switch()) {
            let hop = self.hop_telemetry(port, ctx.packets[index].class, quantum, ctx);
            ctx.packets.push_telemetry(index, hop);
        }
        let delay = self.jittered_delay(port, index, ctx);
        if self.is_cross_partition(port) {
            self.port_mut(port).serve_remote(port.id(), index, delay, ctx);
        } else {
            self.port_mut(port).serve(port.id(), index, delay, ctx);
        }
        if slow_paths {
            self.enable_slow_path(port, index, ctx);
        }
        if self.is_cross_partition(port) {
            self.send_to_partition(port, index, ctx);
        }
    }

    /// Who captures keeps a copy of a frame, and a bad wire may damage it.
    fn enable_slow_path(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        self.capture(port, index, ctx);
        let (size, now) = (u32::from(ctx.packets[index].size), ctx.now());
        if self.erroneous_link(port).is_some_and(|wire| wire.damages(size, now)) {
            damage(index, ctx);
        }
    }
}
