//! What a port has sent, by class.
//!
//! The port counts all of it, where a hop looks anyway, and its queues that of all classes but the first, which is what is left. So a
//! packet of the first class, often the only one, that meets an idle port touches no queue.

use super::Ports;
use super::counters::Amount;
use super::own::{NodePorts, OwnPort};
use crate::hot::Hot;
use pauseframe_units::PortId;
use std::ops::Sub;

impl Ports {
    /// What `port` has sent in all classes, pause frames not counted.
    pub(crate) fn sent_by(&self, port: PortId) -> Amount {
        let state = &self.ports[port];
        Amount { packets: state.tx_packets, bytes: state.tx_bytes }
    }

    /// What `port` has sent in a class.
    pub(crate) fn sent(&self, port: PortId, class: u8, hot: &Hot) -> Amount {
        let of_class = |class: u8| self.slots[hot.slot(port, class)].sent;
        if class > 0 {
            return of_class(class);
        }
        (1..hot.classes()).map(of_class).fold(self.sent_by(port), Sub::sub)
    }
}

impl NodePorts<'_> {
    /// What was taken from the queue of `class` was not sent.
    pub(crate) fn count_unsent(&mut self, port: OwnPort, class: u8, size: u32, hot: &Hot) {
        let state = self.port_mut(port);
        state.tx_packets -= 1;
        state.tx_bytes -= u64::from(size);
        if class > 0 {
            let slot = self.slot_mut(port.slot(class, hot));
            slot.sent = slot.sent - Amount::packet(size);
        }
    }
}
