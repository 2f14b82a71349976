//! What comes is brought near before its turn: in a large cell nearly everything that a hop touches lies in far memory.
//!
//! An event names its port, the port its first packet, the packet its way, and that the port it leaves by: each has to be read
//! before the next is known. So these steps are taken one after the other, each some events before the next, by when its own
//! has come. All of it is a guess: what happens meanwhile may change it, and no result depends on it. (docs/performance.md has what it
//! brings, and from which size on.)

use crate::cell::Cell;
use crate::event::Event;
use crate::frame::{Carried, Content};
use crate::near::Near;
use crate::switching::Switching;
use crate::wire::Ports;
use pauseframe_engine::memory::bring;
use pauseframe_units::PortId;

/// How many events before its turn each step is taken.
const STEPS: [usize; 5] = [28, 21, 15, 9, 4];
/// So many events are kept in order.
pub(crate) const FORESIGHT: usize = STEPS[0] + 1;
impl Cell {
    /// Takes the next step for each of five events that come.
    #[inline(always)]
    pub(crate) fn look_ahead(&self) {
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
        if let Some(event) = event(3) {
            self.bring_next_place(event);
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

    /// The first packet.
    #[inline(always)]
    fn bring_packet(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                self.ports.bring_queue(port, &self.near);
                if let Some(host) = self.ports.ports[port].from.host() {
                    self.endpoints.bring_host(host);
                }
            }
            Event::Arrive(port) => {
                let head = self.ports.ports[port].in_flight.head();
                bring(head.and_then(|head| self.near.packets.at(head)));
            }
            Event::Timer(address) => self.endpoints.bring_end(address),
            _ => {}
        }
    }

    /// Where it is written where that packet goes; and the packet behind it.
    #[inline(always)]
    fn bring_way(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                if let Some(host) = self.ports.ports[port].from.host() {
                    self.endpoints.bring_first_in_line(host);
                }
            }
            Event::Arrive(port) => {
                let state = &self.ports.ports[port];
                let Some(packet) = state.in_flight.head().map(|head| &self.near.packets[head]) else {
                    return;
                };
                bring(self.near.packets.at(packet.next));
                let Some(host) = state.to.host() else {
                    bring(self.switching.paths.place(packet.route, packet.hop));
                    return;
                };
                // What a host answers leaves by the other direction of the same link.
                self.endpoints.bring_host(host);
                bring(self.ports.ports.get(port.reverse()));
                bring(self.ports.slots.get(self.near.hot.slot(port.reverse(), packet.class)));
                if let Content::Segment(Carried { to, .. }) = packet.content {
                    self.endpoints.bring_place(to);
                }
            }
            _ => {}
        }
    }

    /// The port that it leaves by, or the connection end that it is for.
    #[inline(always)]
    fn bring_next_place(&self, event: Event) {
        let Event::Arrive(port) = event else { return };
        let state = &self.ports.ports[port];
        let Some(packet) = state.in_flight.head().map(|head| &self.near.packets[head]) else { return };
        if !state.to.is_switch() {
            if let Content::Segment(Carried { to, .. }) = packet.content {
                self.endpoints.bring_end(to);
            }
        } else if let Some(egress) = self.ports.way_of_first(port, &self.switching, &self.near) {
            bring(self.ports.ports.get(egress));
            bring(self.ports.slots.get(self.near.hot.slot(egress, packet.class)));
        }
    }

    /// The packet that it will stand behind, or what TCP knows of the packet that it acknowledges.
    #[inline(always)]
    fn bring_last(&self, port: PortId) {
        let state = &self.ports.ports[port];
        if state.to.is_switch() {
            self.ports.bring_tail(port, &self.switching, &self.near);
        } else if let Some(to) = state.in_flight.head().and_then(|head| self.near.packets[head].to()) {
            self.endpoints.bring_first_in_flight(to);
        }
    }
}

impl Ports {
    /// The first packet of the highest class that waits at `port`, and the last one on its wire.
    #[inline(always)]
    fn bring_queue(&self, port: PortId, near: &Near) {
        let state = &self.ports[port];
        let slot = near.hot.slot(port, state.ready.checked_ilog2().unwrap_or(0) as u8);
        bring(self.slots[slot].queue.head().and_then(|head| near.packets.at(head)));
        bring(state.in_flight.tail().and_then(|tail| near.packets.at(tail)));
    }

    /// The last packet on the wire, and of the queue if any waits, where the first packet on the wire from `port` goes.
    #[inline(always)]
    fn bring_tail(&self, port: PortId, switching: &Switching, near: &Near) {
        let Some(egress) = self.way_of_first(port, switching, near) else { return };
        let Some(state) = self.ports.get(egress) else { return };
        bring(state.in_flight.tail().and_then(|tail| near.packets.at(tail)));
        if let Some(class) = state.ready.checked_ilog2() {
            let queue = self.slots[near.hot.slot(egress, class as u8)].queue;
            bring(queue.tail().and_then(|tail| near.packets.at(tail)));
        }
    }

    /// The egress of the first packet on the wire from `port`, where packets know their path.
    #[inline(always)]
    fn way_of_first(&self, port: PortId, switching: &Switching, near: &Near) -> Option<PortId> {
        let state = &self.ports[port];
        let packet = &near.packets[state.in_flight.head()?];
        let knows = state.to.is_switch() && !near.hot.look_up && packet.is_data();
        if knows { switching.paths.place(packet.route, packet.hop).copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use crate::common::*;
    use pauseframe_units::{Span, Time};

    /// Small networks do without it, and so would all tests: here one has it all the same.
    #[test]
    fn who_looks_ahead_sees_the_same_happen() {
        let links = ["a", "b", "c", "d"].map(|name| (name, link(10, Span::from_us(1))));
        let topology = star_of(&links);
        let pairs = [("a", "d"), ("b", "d"), ("c", "d"), ("d", "a"), ("b", "a")];
        let flows = pairs.map(|(from, to)| flow(&topology, from, to, 2_000_000));
        for settings in [settings(dctcp(14_600)), lossless(config(), 100_000)] {
            let (_, plain) = run(&topology, &settings, &flows);
            let mut network = build(&topology, &settings, &flows);
            network.last_cell().near.hot.is_large = true;
            let ahead = proceed(&mut network, Time::MAX);
            assert!(plain.events > 10_000, "{} events", plain.events);
            assert_eq!(
                (plain.fingerprint, plain.events, plain.now),
                (ahead.fingerprint, ahead.events, ahead.now)
            );
        }
    }
}
