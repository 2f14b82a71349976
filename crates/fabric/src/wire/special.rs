//! Wires on which more happens to a frame than that it arrives: it leaves the cell (`border.rs`), is captured, damaged, or late at random.
//! One bit of the port says so, which lies where a hop looks anyway.

use super::Ports;
use super::damage::damage;
use super::own::{NodePorts, OwnPort};
use crate::frame::PacketId;
use crate::near::Near;

impl Ports {
    /// Somebody looks at what goes on some wire, or it is bad.
    pub(crate) fn tap(&mut self, near: &mut Near) {
        near.hot.tapped = true;
        self.ports.iter_mut().for_each(|port| port.special = true);
    }
}

impl NodePorts<'_> {
    /// Puts a frame on a wire that is cut, looked at, bad or unsteady.
    #[cold]
    #[inline(never)]
    pub(super) fn put_on_special_wire(&mut self, port: OwnPort, index: PacketId, near: &mut Near) {
        let tapped = near.hot.tapped;
        let delay = self.unsteady_delay(port, index, near);
        if self.leaves_cell(port) {
            self.port_mut(port).serve_beyond(port.id(), index, delay, near);
        } else {
            self.port_mut(port).serve(port.id(), index, delay, near);
        }
        if tapped {
            self.tap(port, index, near);
        }
        if self.leaves_cell(port) {
            self.hand_over(port, index, near);
        }
    }

    /// Who captures keeps a copy of a frame, and a bad wire may damage it.
    fn tap(&mut self, port: OwnPort, index: PacketId, near: &mut Near) {
        self.capture(port, index, near);
        let (size, now) = (u32::from(near.packets[index].size), near.now());
        if self.bad_wire(port).is_some_and(|wire| wire.damages(size, now)) {
            damage(index, near);
        }
    }
}
