//! Prefetching many events ahead, for partitions whose state mostly misses the cache.

use crate::event::Event;
use crate::frame::{Packet, PacketId};
use crate::partition::Partition;
use crate::wire::port::Port;
use pauseframe_engine::memory::prefetch_element;
use pauseframe_units::{Id, PortId};

/// How many events ahead each step runs.
const LONG_STEP_DISTANCES: [usize; 5] = [28, 21, 15, 9, 4];
/// Length of the lookahead buffer that the steps need.
pub(crate) const LONG_LOOKAHEAD: usize = LONG_STEP_DISTANCES[0] + 1;

impl Partition {
    /// Runs one prefetch step for each of five upcoming events.
    #[inline(always)]
    pub(crate) fn prefetch_long(&self) {
        let Some([port, packet, path, egress, last]) = self.ctx.queue.upcoming_codes(LONG_STEP_DISTANCES)
        else {
            return;
        };
        self.prefetch_event_owner(port);
        self.prefetch_event_packet(packet);
        self.prefetch_path_entry(path);
        if let Some((state, packet)) = self.arriving_port_and_packet(egress) {
            self.prefetch_packet_target(state, packet);
        }
        if let Some((state, packet)) = self.arriving_port_and_packet(last)
            && !state.to.is_switch()
            && let Some(to) = packet.destination_endpoint_key()
        {
            self.endpoints.prefetch_oldest_packet(to);
        }
    }

    /// Prefetches the port, host or endpoint of an event.
    #[inline(always)]
    fn prefetch_event_owner(&self, code: u64) {
        match Event::decode_port_event(code) {
            Some(Event::TxDone(port)) => {
                self.prefetch_port(port);
                self.prefetch_egress_queue(port, 0);
            }
            Some(Event::Arrive(port)) => {
                self.prefetch_port(port);
                let accounts = self.ports.ingress.accounts.as_slice();
                if !accounts.is_empty() {
                    prefetch_element(accounts, self.ctx.hot.slot(port, 0).index());
                }
            }
            _ => self.prefetch_infrequent_owner(code),
        }
    }

    #[inline(never)]
    fn prefetch_infrequent_owner(&self, code: u64) {
        match Event::decode(code) {
            Event::HostReceive(host) | Event::HostSend(host) => self.endpoints.prefetch_host(host),
            Event::Timer(endpoint_key) => {
                self.endpoints.prefetch_endpoint_index(endpoint_key);
            }
            _ => {}
        }
    }

    /// Prefetches the first packet on the wire, or of the highest waiting class, and its host.
    #[inline(always)]
    fn prefetch_event_packet(&self, code: u64) {
        match Event::decode_port_event(code) {
            Some(Event::TxDone(port)) => {
                let Some(state) = self.ports.ports.get(port) else { return };
                let class = (state.ready | 1).ilog2() as u8;
                if let Some(slot) = self.ports.slots.get(self.ctx.hot.slot(port, class)) {
                    self.prefetch_packet(slot.queue.head_or_none());
                }
                if let Some(host) = state.from.as_host() {
                    self.endpoints.prefetch_host(host);
                }
            }
            Some(Event::Arrive(port)) => {
                if let Some(state) = self.ports.ports.get(port) {
                    self.prefetch_packet(state.in_flight.head_or_none());
                }
            }
            _ => self.prefetch_timer_endpoint(code),
        }
    }

    #[inline(never)]
    fn prefetch_timer_endpoint(&self, code: u64) {
        if let Event::Timer(endpoint_key) = Event::decode(code) {
            self.endpoints.prefetch_endpoint(endpoint_key);
        }
    }

    /// Prefetches the packet's path entry.
    #[inline(always)]
    fn prefetch_path_entry(&self, code: u64) {
        match Event::decode_port_event(code) {
            Some(Event::TxDone(port)) => {
                if let Some(host) = self.ports.ports.get(port).and_then(|state| state.from.as_host()) {
                    self.endpoints.prefetch_first_blocked(host);
                }
            }
            Some(Event::Arrive(port)) => {
                let Some((state, packet)) = self.port_and_frame(port) else { return };
                let Some(host) = state.to.as_host() else {
                    self.switching.paths.prefetch_hop(packet.route, packet.hop);
                    return;
                };
                self.endpoints.prefetch_host(host);
                // The answer of a host leaves by the reverse direction of the same link.
                self.prefetch_port(port.reverse());
                self.prefetch_egress_queue(port.reverse(), packet.class);
                if let Some(to) = packet.destination_endpoint_key() {
                    self.endpoints.prefetch_endpoint_index(to);
                }
            }
            _ => {}
        }
    }

    /// Prefetches the egress port of a packet, or its destination endpoint.
    #[inline(always)]
    fn prefetch_packet_target(&self, state: &Port, packet: &Packet) {
        self.ctx.packets.prefetch_telemetry(packet, !state.to.is_switch());
        if !state.to.is_switch() {
            if let Some(to) = packet.destination_endpoint_key() {
                self.endpoints.prefetch_endpoint(to);
            }
        } else if let Some(egress) = self.egress_port(packet) {
            self.prefetch_port(egress);
            self.prefetch_egress_queue(egress, packet.class);
        }
    }

    #[inline(always)]
    fn prefetch_port(&self, port: PortId) {
        prefetch_element(self.ports.ports.as_slice(), port.index());
    }

    #[inline(always)]
    fn prefetch_egress_queue(&self, port: PortId, class: u8) {
        prefetch_element(self.ports.slots.as_slice(), self.ctx.hot.slot(port, class).index());
    }

    #[inline(always)]
    fn prefetch_packet(&self, packet: PacketId) {
        if packet != PacketId::NONE {
            prefetch_element(self.ctx.packets.entries(), packet.index());
        }
    }

    /// The port from which a frame arrives, and the first packet on its wire.
    #[inline(always)]
    fn arriving_port_and_packet(&self, code: u64) -> Option<(&Port, &Packet)> {
        let Some(Event::Arrive(port)) = Event::decode_port_event(code) else { return None };
        self.port_and_frame(port)
    }

    #[inline(always)]
    fn port_and_frame(&self, port: PortId) -> Option<(&Port, &Packet)> {
        let state = self.ports.ports.get(port)?;
        Some((state, self.ctx.packets.get(state.in_flight.head_or_none())?))
    }

    /// The egress port of a packet at its next switch, if packets carry their path.
    #[inline(always)]
    fn egress_port(&self, packet: &Packet) -> Option<PortId> {
        if self.ctx.hot.look_up {
            None
        } else {
            self.switching.paths.port_at_or_first(packet.route, packet.hop)
        }
    }
}
