//! What comes is brought near before its turn: in a large cell nearly everything that a hop touches lies in far memory.
//!
//! An event names its port, the port its first packet, the packet its way, and that the port it leaves by: each has to be read
//! before the next is known. So these steps are taken one after the other, each some events before the next, by when its own
//! has come. All of it is a guess: what happens meanwhile may change it, and no result depends on it. (docs/performance.md has what it
//! brings, and from which size on.)

use crate::cell::Cell;
use crate::event::Event;
use crate::packet::{Fifo, Kind, NIL};
use crate::plan::Plan;
use pauseframe_engine::EventQueue;
use pauseframe_units::PortId;

/// How many events before its turn each step is taken.
const STEPS: [usize; 4] = [24, 16, 9, 4];
/// So many events are kept in order.
pub(crate) const FORESIGHT: usize = STEPS[0] + 1;
/// Below so many ports, most of it is near anyway.
const PORTS_LEAST: usize = 4_096;
/// Bytes that come at once.
const LINE: usize = 64;

impl Plan {
    /// Whether a cell of this network is so large that looking ahead pays off.
    pub(crate) fn is_large(&self) -> bool {
        self.topology.port_count() >= PORTS_LEAST
    }
}

impl Cell {
    /// Takes the next step for each of four events that come.
    #[inline(always)]
    pub(crate) fn look_ahead(&self, queue: &EventQueue) {
        let event = |step: usize| queue.coming(STEPS[step]).map(Event::from_code);
        if let Some(event) = event(0) {
            self.bring_place(event);
        }
        if let Some(event) = event(1) {
            self.bring_packet(event);
        }
        if let Some(event) = event(2) {
            self.bring_next_place(event);
        }
        if let Some(Event::Arrive(port)) = event(3) {
            self.bring_tail(port);
        }
    }

    /// The port, host or connection end that it is about.
    #[inline(always)]
    fn bring_place(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                bring(self.ports.get(port));
                bring(self.lanes.get(self.lane_index(port, 0)));
            }
            Event::Arrive(port) => {
                bring(self.ports.get(port));
                if self.hot.accounted != 0 {
                    bring(self.accounts.get(self.lane_index(port, 0)));
                }
            }
            Event::HostReceive(host) | Event::HostSend(host) => bring(self.hosts.get(host as usize)),
            Event::Timer(address) => bring(self.slots.get(address as usize / 2)),
            _ => {}
        }
    }

    /// The first packet.
    #[inline(always)]
    fn bring_packet(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                let state = &self.ports[port];
                let lane = &self.lanes[self.lane_index(port, state.ready.checked_ilog2().unwrap_or(0) as u8)];
                self.bring_head(lane.queue);
                self.bring_last(state.in_flight);
                bring_all(self.hosts.get(state.from_host as usize));
            }
            Event::Arrive(port) => self.bring_head(self.ports[port].in_flight),
            Event::Timer(address) => self.bring_end(address),
            _ => {}
        }
    }

    /// Where that packet goes, and the one behind it.
    #[inline(always)]
    fn bring_next_place(&self, event: Event) {
        match event {
            Event::TxDone(port) => {
                let host = self.hosts.get(self.ports[port].from_host as usize);
                if let Some(slot) = host.and_then(crate::host::Host::first_in_line) {
                    bring_all(self.ends.get(slot as usize));
                }
            }
            Event::Arrive(port) => {
                let state = &self.ports[port];
                let Some(packet) = state.in_flight.head().map(|head| &self.packets[head]) else { return };
                bring(self.packets.at(packet.next));
                if state.to_switch == NIL {
                    bring_all(self.hosts.get(state.to_host as usize));
                    if packet.kind == Kind::Data {
                        self.bring_end(packet.to);
                    }
                } else if let Some(egress) = self.way_of(port) {
                    bring(self.ports.get(egress));
                    bring(self.lanes.get(self.lane_index(egress, packet.class)));
                }
            }
            _ => {}
        }
    }

    /// The last packet of the queue, or on the wire, where it goes.
    #[inline(always)]
    fn bring_tail(&self, port: PortId) {
        let Some(state) = self.way_of(port).and_then(|egress| self.ports.get(egress)) else { return };
        self.bring_last(state.in_flight);
        // It will wait behind others.
        if state.ready != 0
            && let Some(egress) = self.way_of(port)
        {
            let class = state.ready.ilog2() as u8;
            self.bring_last(self.lanes[self.lane_index(egress, class)].queue);
        }
    }

    /// The egress of the first packet on the wire from `port`, where packets know their path.
    #[inline(always)]
    fn way_of(&self, port: PortId) -> Option<PortId> {
        let state = &self.ports[port];
        let packet = &self.packets[state.in_flight.head()?];
        let knows = state.to_switch != NIL && !self.hot.look_up && packet.kind == Kind::Data;
        if knows { self.paths.known_port(packet.route, packet.hop) } else { None }
    }

    #[inline(always)]
    fn bring_head(&self, chain: Fifo) {
        if let Some(head) = chain.head() {
            bring(self.packets.at(head));
        }
    }

    #[inline(always)]
    fn bring_last(&self, chain: Fifo) {
        if let Some(tail) = chain.tail() {
            bring(self.packets.at(tail));
        }
    }

    #[inline(always)]
    fn bring_end(&self, address: u32) {
        let Some(slots) = self.slots.get(address as usize / 2) else { return };
        bring_all(self.ends.get(slots[address as usize % 2] as usize));
    }
}

/// All lines of it.
#[inline(always)]
fn bring_all<T>(place: Option<&T>) {
    let Some(place) = place else { return };
    let first = std::ptr::from_ref(place).cast::<u8>();
    for line in 0..size_of::<T>().div_ceil(LINE) {
        prefetch(first.wrapping_add(line * LINE));
    }
}

/// Its first line.
#[inline(always)]
fn bring<T>(place: Option<&T>) {
    if let Some(place) = place {
        prefetch(std::ptr::from_ref(place).cast());
    }
}

/// A hint to the processor, and nothing on one without such.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the only way to say it; docs/performance.md has the gain")
)]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
