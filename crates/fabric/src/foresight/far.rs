//! A look at many events that come, where all that they touch is far.

use crate::event::Event;
use crate::frame::{Carried, Content, Packet, PacketId};
use crate::partition::Partition;
use crate::wire::port::Port;
use pauseframe_engine::memory::bring_at;
use pauseframe_units::{Id, PortId};

/// How many events before its turn each step is taken.
const STEPS: [usize; 5] = [28, 21, 15, 9, 4];
/// So many events stand in line for that.
pub(crate) const FAR: usize = STEPS[0] + 1;

impl Partition {
    /// A step for each of five events.
    #[inline(always)]
    pub(crate) fn look_far(&self) {
        let Some([place, packet, way, next_place, last]) = self.ctx.queue.coming(STEPS) else { return };
        self.bring_place(place);
        self.bring_packet(packet);
        self.bring_way(way);
        if let Some((state, packet)) = self.arriving(next_place) {
            self.bring_next_place(state, packet);
        }
        if let Some((state, packet)) = self.arriving(last)
            && !state.to.is_switch()
            && let Some(to) = packet.to()
        {
            self.endpoints.bring_first_in_flight(to);
        }
    }

    /// The port, host or connection end that it is about.
    #[inline(always)]
    fn bring_place(&self, code: u64) {
        match Event::of_port(code) {
            Some(Event::TxDone(port)) => {
                self.bring_port_at(port);
                self.bring_slot_at(port, 0);
            }
            Some(Event::Arrive(port)) => {
                self.bring_port_at(port);
                let accounts = self.ports.ingress.accounts.as_slice();
                if !accounts.is_empty() {
                    bring_at(accounts, self.ctx.hot.slot(port, 0).index());
                }
            }
            _ => self.bring_other_place(code),
        }
    }

    #[inline(never)]
    fn bring_other_place(&self, code: u64) {
        match Event::from_code(code) {
            Event::HostReceive(host) | Event::HostSend(host) => self.endpoints.bring_host(host),
            Event::Timer(address) => self.endpoints.bring_place(address),
            _ => {}
        }
    }

    /// The first packet on the wire, or of the highest class that waits, and its host.
    #[inline(always)]
    fn bring_packet(&self, code: u64) {
        match Event::of_port(code) {
            Some(Event::TxDone(port)) => {
                let Some(state) = self.ports.ports.get(port) else { return };
                let class = (state.ready | 1).ilog2() as u8;
                if let Some(slot) = self.ports.slots.get(self.ctx.hot.slot(port, class)) {
                    self.bring_packet_at(slot.queue.first());
                }
                if let Some(host) = state.from.host() {
                    self.endpoints.bring_host(host);
                }
            }
            Some(Event::Arrive(port)) => {
                if let Some(state) = self.ports.ports.get(port) {
                    self.bring_packet_at(state.in_flight.first());
                }
            }
            _ => self.bring_other_end(code),
        }
    }

    #[inline(never)]
    fn bring_other_end(&self, code: u64) {
        if let Event::Timer(address) = Event::from_code(code) {
            self.endpoints.bring_end(address);
        }
    }

    /// Where it is written where that packet goes.
    #[inline(always)]
    fn bring_way(&self, code: u64) {
        match Event::of_port(code) {
            Some(Event::TxDone(port)) => {
                if let Some(host) = self.ports.ports.get(port).and_then(|state| state.from.host()) {
                    self.endpoints.bring_first_in_line(host);
                }
            }
            Some(Event::Arrive(port)) => {
                let Some((state, packet)) = self.first_on_wire(port) else { return };
                let Some(host) = state.to.host() else {
                    self.switching.paths.bring(packet.route, packet.hop);
                    return;
                };
                self.endpoints.bring_host(host);
                // What a host answers leaves by the other direction of the same link.
                self.bring_port_at(port.reverse());
                self.bring_slot_at(port.reverse(), packet.class);
                if let Content::Segment(Carried { to, .. }) = packet.content {
                    self.endpoints.bring_place(to);
                }
            }
            _ => {}
        }
    }

    /// The port that it leaves by, or the connection end that it is for.
    #[inline(always)]
    fn bring_next_place(&self, state: &Port, packet: &Packet) {
        if !state.to.is_switch() {
            if let Content::Segment(Carried { to, .. }) = packet.content {
                self.endpoints.bring_end(to);
            }
        } else if let Some(egress) = self.way(packet) {
            self.bring_port_at(egress);
            self.bring_slot_at(egress, packet.class);
        }
    }

    #[inline(always)]
    fn bring_port_at(&self, port: PortId) {
        bring_at(self.ports.ports.as_slice(), port.index());
    }

    #[inline(always)]
    fn bring_slot_at(&self, port: PortId, class: u8) {
        bring_at(self.ports.slots.as_slice(), self.ctx.hot.slot(port, class).index());
    }

    #[inline(always)]
    fn bring_packet_at(&self, packet: PacketId) {
        if packet != PacketId::NONE {
            bring_at(self.ctx.packets.as_slice(), packet.index());
        }
    }

    /// The port that a frame is to arrive from, and the first packet on the wire there.
    #[inline(always)]
    fn arriving(&self, code: u64) -> Option<(&Port, &Packet)> {
        let Some(Event::Arrive(port)) = Event::of_port(code) else { return None };
        self.first_on_wire(port)
    }

    #[inline(always)]
    fn first_on_wire(&self, port: PortId) -> Option<(&Port, &Packet)> {
        let state = self.ports.ports.get(port)?;
        Some((state, self.ctx.packets.at(state.in_flight.first())?))
    }

    /// The port by which a packet leaves the switch that it comes to, where packets know their path.
    #[inline(always)]
    fn way(&self, packet: &Packet) -> Option<PortId> {
        if self.ctx.hot.look_up { None } else { self.switching.paths.guess(packet.route, packet.hop) }
    }
}
