//! Counters of sent packets by class.
//!
//! The port counts all classes together, in a cache line that a hop reads anyway; slots count each class except the first, whose value is the
//! difference. So a packet of the first class, often the only one, touches no slot at an idle port.

use super::PartitionPorts;
use super::counters::PacketsAndBytes;
use super::own::{BorrowedNodePorts, PortToken};
use crate::hot::HotPathSettings;
use pauseframe_units::PortId;
use std::ops::Sub;

impl PartitionPorts {
    /// What `port` has sent in all classes, pause frames not counted.
    pub(crate) fn sent_by_port(&self, port: PortId) -> PacketsAndBytes {
        let state = &self.ports[port];
        PacketsAndBytes { packets: state.tx_packets, bytes: state.tx_bytes }
    }

    /// What `port` has sent in a class.
    pub(crate) fn sent_in_class(&self, port: PortId, class: u8, hot: &HotPathSettings) -> PacketsAndBytes {
        let of_class = |class: u8| self.slots[hot.slot(port, class)].sent;
        if class > 0 {
            return of_class(class);
        }
        (1..hot.slots_per_port()).map(of_class).fold(self.sent_by_port(port), Sub::sub)
    }
}

impl BorrowedNodePorts<'_> {
    /// Bytes that a port has sent or begun to send.
    pub(crate) fn bytes_sent(&self, port: PortToken) -> u64 {
        self.port_state(port).tx_bytes
    }

    /// Uncounts a packet that was dequeued from `class` but not sent.
    pub(crate) fn uncount_dequeued(&mut self, port: PortToken, class: u8, size: u32, hot: &HotPathSettings) {
        let state = self.port_state_mut(port);
        state.tx_packets -= 1;
        state.tx_bytes -= u64::from(size);
        if class > 0 {
            let slot = self.egress_queue_mut(port.egress_token(class, hot));
            slot.sent = slot.sent - PacketsAndBytes::of_packet(size);
        }
    }
}
