//! Long look-ahead, for partitions whose state mostly misses the cache.

use crate::event::Event;
use crate::frame::{Carried, Content, Packet, PacketId};
use crate::partition::Partition;
use crate::wire::port::Port;
use pauseframe_engine::memory::prefetch_at;
use pauseframe_units::{Id, PortId};

/// How many events before its turn each step is taken.
const STEPS: [usize; 5] = [28, 21, 15, 9, 4];
/// So many events stand in line for that.
pub(crate) const LONG_LOOKAHEAD: usize = STEPS[0] + 1;

impl Partition {
    /// A step for each of five events.
    #[inline(always)]
    pub(crate) fn prefetch_long(&self) {
        let Some([port, packet, path, egress, last]) = self.ctx.queue.upcoming(STEPS) else { return };
        self.prefetch_owner(port);
        self.prefetch_packet(packet);
        self.prefetch_path_entry(path);
        if let Some((state, packet)) = self.arriving(egress) {
            self.prefetch_egress_or_endpoint(state, packet);
        }
        if let Some((state, packet)) = self.arriving(last)
            && !state.to.is_switch()
            && let Some(to) = packet.to()
        {
            self.endpoints.prefetch_oldest_segment(to);
        }
    }

    /// The port, host or connection end that it is about.
    #[inline(always)]
    fn prefetch_owner(&self, code: u64) {
        match Event::of_port(code) {
            Some(Event::TxDone(port)) => {
                self.prefetch_port(port);
                self.prefetch_slot(port, 0);
            }
            Some(Event::Arrive(port)) => {
                self.prefetch_port(port);
                let accounts = self.ports.ingress.accounts.as_slice();
                if !accounts.is_empty() {
                    prefetch_at(accounts, self.ctx.hot.slot(port, 0).index());
                }
            }
            _ => self.prefetch_other_owner(code),
        }
    }

    #[inline(never)]
    fn prefetch_other_owner(&self, code: u64) {
        match Event::from_code(code) {
            Event::HostReceive(host) | Event::HostSend(host) => self.endpoints.prefetch_host(host),
            Event::Timer(address) => self.endpoints.prefetch_index_entry(address),
            _ => {}
        }
    }

    /// The first packet on the wire, or of the highest class that waits, and its host.
    #[inline(always)]
    fn prefetch_packet(&self, code: u64) {
        match Event::of_port(code) {
            Some(Event::TxDone(port)) => {
                let Some(state) = self.ports.ports.get(port) else { return };
                let class = (state.ready | 1).ilog2() as u8;
                if let Some(slot) = self.ports.slots.get(self.ctx.hot.slot(port, class)) {
                    self.prefetch_packet_at(slot.queue.first());
                }
                if let Some(host) = state.from.host() {
                    self.endpoints.prefetch_host(host);
                }
            }
            Some(Event::Arrive(port)) => {
                if let Some(state) = self.ports.ports.get(port) {
                    self.prefetch_packet_at(state.in_flight.first());
                }
            }
            _ => self.prefetch_timer_endpoint(code),
        }
    }

    #[inline(never)]
    fn prefetch_timer_endpoint(&self, code: u64) {
        if let Event::Timer(address) = Event::from_code(code) {
            self.endpoints.prefetch_endpoint(address);
        }
    }

    /// Prefetches the packet's path entry.
    #[inline(always)]
    fn prefetch_path_entry(&self, code: u64) {
        match Event::of_port(code) {
            Some(Event::TxDone(port)) => {
                if let Some(host) = self.ports.ports.get(port).and_then(|state| state.from.host()) {
                    self.endpoints.prefetch_first_waiting(host);
                }
            }
            Some(Event::Arrive(port)) => {
                let Some((state, packet)) = self.first_in_flight(port) else { return };
                let Some(host) = state.to.host() else {
                    self.switching.paths.prefetch_line(packet.route, packet.hop);
                    return;
                };
                self.endpoints.prefetch_host(host);
                // What a host answers leaves by the other direction of the same link.
                self.prefetch_port(port.reverse());
                self.prefetch_slot(port.reverse(), packet.class);
                if let Content::Segment(Carried { to, .. }) = packet.content {
                    self.endpoints.prefetch_index_entry(to);
                }
            }
            _ => {}
        }
    }

    /// The port that it leaves by, or the connection end that it is for.
    #[inline(always)]
    fn prefetch_egress_or_endpoint(&self, state: &Port, packet: &Packet) {
        if !state.to.is_switch() {
            if let Content::Segment(Carried { to, .. }) = packet.content {
                self.endpoints.prefetch_endpoint(to);
            }
        } else if let Some(egress) = self.egress_of(packet) {
            self.prefetch_port(egress);
            self.prefetch_slot(egress, packet.class);
        }
    }

    #[inline(always)]
    fn prefetch_port(&self, port: PortId) {
        prefetch_at(self.ports.ports.as_slice(), port.index());
    }

    #[inline(always)]
    fn prefetch_slot(&self, port: PortId, class: u8) {
        prefetch_at(self.ports.slots.as_slice(), self.ctx.hot.slot(port, class).index());
    }

    #[inline(always)]
    fn prefetch_packet_at(&self, packet: PacketId) {
        if packet != PacketId::NONE {
            prefetch_at(self.ctx.packets.as_slice(), packet.index());
        }
    }

    /// The port that a frame is to arrive from, and the first packet on the wire there.
    #[inline(always)]
    fn arriving(&self, code: u64) -> Option<(&Port, &Packet)> {
        let Some(Event::Arrive(port)) = Event::of_port(code) else { return None };
        self.first_in_flight(port)
    }

    #[inline(always)]
    fn first_in_flight(&self, port: PortId) -> Option<(&Port, &Packet)> {
        let state = self.ports.ports.get(port)?;
        Some((state, self.ctx.packets.at(state.in_flight.first())?))
    }

    /// The port by which a packet leaves the switch that it comes to, where packets know their path.
    #[inline(always)]
    fn egress_of(&self, packet: &Packet) -> Option<PortId> {
        if self.ctx.hot.look_up { None } else { self.switching.paths.get_or_first(packet.route, packet.hop) }
    }
}
