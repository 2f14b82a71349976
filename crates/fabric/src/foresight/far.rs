//! A look at many events that come, where all that they touch is far.

use crate::cell::Cell;
use crate::event::Event;
use crate::frame::{Carried, Content, Packet};
use crate::wire::port::Port;
use pauseframe_engine::memory::bring;
use pauseframe_units::PortId;

/// How many events before its turn each step is taken.
const STEPS: [usize; 5] = [28, 21, 15, 9, 4];
/// So many events stand in line for that.
pub(crate) const FAR: usize = STEPS[0] + 1;

impl Cell {
    /// A step for each of five events.
    #[inline(always)]
    pub(crate) fn look_far(&self) {
        let event = |step: usize| self.near.queue.coming(STEPS[step]).map(Event::from_code);
        if let Some(event) = event(0) {
            self.bring_place(event);
        }
        if let Some(event) = event(1) {
            self.bring_packet(event);
        }
        if let Some(event) = event(2) {
            self.bring_way(event);
        }
        if let Some(Event::Arrive(port)) = event(3)
            && let Some((state, packet)) = self.first_on_wire(port)
        {
            self.bring_next_place(state, packet);
        }
        if let Some(Event::Arrive(port)) = event(4) {
            self.bring_last(port);
        }
    }

    /// The port, host or connection end that it is about.
    #[inline(always)]
    fn bring_place(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                bring(self.ports.ports.get(port));
                bring(self.ports.slots.get(self.near.hot.slot(port, 0)));
            }
            Event::Arrive(port) => {
                bring(self.ports.ports.get(port));
                bring(self.ports.ingress.accounts.get(self.near.hot.slot(port, 0)));
            }
            Event::HostReceive(host) | Event::HostSend(host) => self.endpoints.bring_host(host),
            Event::Timer(address) => self.endpoints.bring_place(address),
            _ => {}
        }
    }

    /// The first packet on the wire, or of the highest class that waits.
    #[inline(always)]
    fn bring_first(&self, event: Event) {
        let (ports, packets) = (&self.ports, &self.near.packets);
        let first = match event {
            Event::TxDone(port) => {
                let class = ports.ports[port].ready.checked_ilog2().unwrap_or(0) as u8;
                ports.slots[self.near.hot.slot(port, class)].queue.head()
            }
            Event::Arrive(port) => ports.ports[port].in_flight.head(),
            _ => None,
        };
        bring(first.and_then(|first| packets.at(first)));
    }

    /// The same, and what it meets: the last packet on the wire that it goes to, and its host.
    #[inline(always)]
    fn bring_packet(&self, event: Event) {
        self.bring_first(event);
        match event {
            Event::TxDone(port) => {
                let tail = self.ports.ports[port].in_flight.tail();
                bring(tail.and_then(|tail| self.near.packets.at(tail)));
                if let Some(host) = self.ports.ports[port].from.host() {
                    self.endpoints.bring_host(host);
                }
            }
            Event::Timer(address) => self.endpoints.bring_end(address),
            _ => {}
        }
    }

    /// Where it is written where that packet goes.
    #[inline(always)]
    fn bring_way(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                if let Some(host) = self.ports.ports[port].from.host() {
                    self.endpoints.bring_first_in_line(host);
                }
            }
            Event::Arrive(port) => {
                let Some((state, packet)) = self.first_on_wire(port) else { return };
                let Some(host) = state.to.host() else {
                    self.switching.paths.bring(packet.route, packet.hop);
                    return;
                };
                self.endpoints.bring_host(host);
                self.bring_answer(port, packet);
                if let Content::Segment(Carried { to, .. }) = packet.content {
                    self.endpoints.bring_place(to);
                }
            }
            _ => {}
        }
    }

    /// What a host answers leaves by the other direction of the same link.
    #[inline(always)]
    fn bring_answer(&self, port: PortId, packet: &Packet) {
        bring(self.ports.ports.get(port.reverse()));
        bring(self.ports.slots.get(self.near.hot.slot(port.reverse(), packet.class)));
    }

    /// The port that it leaves by, or the connection end that it is for.
    #[inline(always)]
    fn bring_next_place(&self, state: &Port, packet: &Packet) {
        if !state.to.is_switch() {
            if let Content::Segment(Carried { to, .. }) = packet.content {
                self.endpoints.bring_end(to);
            }
        } else if let Some(egress) = self.way(packet) {
            bring(self.ports.ports.get(egress));
            bring(self.ports.slots.get(self.near.hot.slot(egress, packet.class)));
        }
    }

    /// The packet that it will stand behind, or what TCP knows of the packet that it acknowledges.
    #[inline(always)]
    fn bring_last(&self, port: PortId) {
        let Some((state, packet)) = self.first_on_wire(port) else { return };
        if !state.to.is_switch() {
            if let Some(to) = packet.to() {
                self.endpoints.bring_first_in_flight(to);
            }
        } else if let Some(egress) = self.way(packet) {
            self.bring_tail(egress);
        }
    }

    /// The last packet on the wire from `egress`, and of its queue if any waits.
    #[inline(always)]
    fn bring_tail(&self, egress: PortId) {
        let (packets, hot) = (&self.near.packets, &self.near.hot);
        let Some(state) = self.ports.ports.get(egress) else { return };
        bring(state.in_flight.tail().and_then(|tail| packets.at(tail)));
        if let Some(class) = state.ready.checked_ilog2() {
            let queue = self.ports.slots[hot.slot(egress, class as u8)].queue;
            bring(queue.tail().and_then(|tail| packets.at(tail)));
        }
    }

    /// The first packet on the wire from `port`.
    #[inline(always)]
    fn first_on_wire(&self, port: PortId) -> Option<(&Port, &Packet)> {
        let state = &self.ports.ports[port];
        Some((state, &self.near.packets[state.in_flight.head()?]))
    }

    /// The port by which a packet leaves the switch that it comes to, where packets know their path.
    #[inline(always)]
    fn way(&self, packet: &Packet) -> Option<PortId> {
        if self.near.hot.look_up { None } else { self.switching.paths.guess(packet.route, packet.hop) }
    }
}
