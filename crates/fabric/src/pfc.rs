//! Priority flow control, IEEE 802.1Qbb: pause frames on the wire, pause timers. PAUSE of a whole link (IEEE 802.3
//! Annex 31B) is the same with one account, that of class 0, and frames that stop all classes.
//!
//! The receiver of a lossless class asks its upstream port to pause when its ingress account passes XOFF. The
//! pause frame waits for the frame in service on the reverse port, takes the link's time, and acts after the
//! reaction time; the frame that is in service then is finished. A pause lasts for its quanta (512 bit times
//! each) and is renewed at half of that while the account stays above XON; a frame with quanta 0 resumes.

use crate::cell::Cell;
use crate::event::Event;
use crate::packet::{Kind, NIL, Packet};
use crate::settings::Overhead;
use pauseframe_engine::EventQueue;
use pauseframe_transport::{Ecn, Flags, Stamps};
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};
use std::collections::VecDeque;

/// Bits in a quantum of pause time (IEEE 802.3 Annex 31B).
const QUANTUM_BITS: u64 = 512;

/// What a port knows of the pauses of one class that it must obey; touched by pauses only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseState {
    /// Paused until here, unless renewed or resumed.
    pub(crate) until: Time,
    /// Paused since.
    pub(crate) since: Time,
    /// A `PauseExpiry` is pending for this time.
    expiry_at: Option<Time>,
    pub(crate) pauses_received: u64,
    pub(crate) resumes_received: u64,
    pub(crate) total: Span,
    pub(crate) longest: Span,
}

/// What the other end of a lane knows of the pauses that it asks the lane for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asker {
    /// A `PauseRefresh` is pending.
    is_renewing: bool,
    /// Pause frames sent.
    pub(crate) pauses_sent: u64,
}

/// A pause frame that has arrived and waits for the reaction time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingPause {
    effect_at: Time,
    pub(crate) classes: u8,
    quanta: u16,
}

/// How long `quanta` last on a link of `rate`.
pub(crate) fn pause_time(rate: BitRate, quanta: u16) -> Span {
    rate.serialise(Bytes(QUANTUM_BITS / 8 * u64::from(quanta)))
}

impl Cell {
    /// Asks the port that sent by (`ingress`, `class`) to pause.
    #[cold]
    pub(crate) fn send_pause(&mut self, ingress: PortId, class: u8, now: Time, queue: &mut EventQueue) {
        let quanta = self.settings.pfc.as_ref().map_or(0, |pfc| pfc.quanta);
        let lane = self.lane_index(ingress, class);
        self.note_request(ingress, class, now);
        if !std::mem::replace(&mut self.accounts[lane].pause_sent, true) {
            self.add_to_paused(ingress, class);
        }
        self.send_pause_frame(ingress.reverse(), class, quanta, now, queue);
        if !std::mem::replace(&mut self.askers[lane].is_renewing, true) {
            let refresh_at = now + pause_time(self.ports[ingress].rate.rate(), quanta) / 2;
            queue.push(refresh_at, Event::PauseRefresh(lane as u32).code());
        }
    }

    /// Tells it to go on.
    #[cold]
    pub(crate) fn send_resume(&mut self, ingress: PortId, class: u8, now: Time, queue: &mut EventQueue) {
        let lane = self.lane_index(ingress, class);
        self.accounts[lane].pause_sent = false;
        self.take_from_paused(ingress, class);
        self.send_pause_frame(ingress.reverse(), class, 0, now, queue);
    }

    /// Renews a pause that is still wanted.
    pub(crate) fn on_pause_refresh(&mut self, lane: u32, now: Time, queue: &mut EventQueue) {
        self.askers[lane as usize].is_renewing = false;
        if self.accounts[lane as usize].pause_sent {
            let (port, class) = self.port_and_class(lane);
            self.send_pause(port, class, now, queue);
        }
    }

    fn send_pause_frame(&mut self, port: PortId, class: u8, quanta: u16, now: Time, queue: &mut EventQueue) {
        if self.is_down(port) {
            return;
        }
        let stopped = if self.hot.account_mask == 0 { u32::from(u8::MAX) } else { 1 << class };
        // A frame of this class that still waits says what is true now: no class waits behind more than one of each.
        let mut waiting = self.ports[port].control.head();
        while let Some(index) = waiting {
            let frame = &mut self.packets[index];
            if frame.seq == stopped {
                frame.len = quanta;
                return;
            }
            waiting = (frame.next != NIL).then_some(frame.next);
        }
        let frame = Packet {
            at: now,
            next: NIL,
            ingress: PortId::NONE,
            route: NIL,
            to: NIL,
            seq: stopped,
            ack: 0,
            len: quanta,
            window: 0,
            remaining: 0,
            options: NIL,
            stamps: Stamps::default(),
            size: Overhead::PAUSE_FRAME as u16,
            hop: 0,
            class: 0,
            ingress_class: 0,
            vlan: 0,
            ecn: Ecn::NotEct,
            flags: Flags::default(),
            kind: Kind::Pause,
        };
        let index = self.packets.add(frame);
        self.ports[port].control.push(&mut self.packets, index);
        self.kick(port, now, queue);
    }

    /// A pause frame that was sent by `port` has arrived: it is meant for the reverse port.
    #[cold]
    pub(crate) fn on_pause_frame(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        let Packet { seq, len, .. } = self.packets[index];
        self.packets.remove(index);
        let reaction = self.settings.pfc.as_ref().map_or(Span::ZERO, |pfc| pfc.reaction);
        let pause = PendingPause { effect_at: now + reaction, classes: seq as u8, quanta: len };
        let port = port.reverse();
        if reaction == Span::ZERO {
            self.apply_pause(port, pause, now, queue);
            return;
        }
        let waiting: &mut VecDeque<PendingPause> = &mut self.pending_pauses[port];
        waiting.push_back(pause);
        if waiting.len() == 1 {
            queue.push(pause.effect_at, Event::PauseEffect(port).code());
        }
    }

    /// The reaction time of the first pause frame at `port` is over.
    pub(crate) fn on_pause_effect(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        let pause = self.pending_pauses[port].pop_front().expect("a pause effect has a pause frame");
        if let Some(next) = self.pending_pauses[port].front() {
            queue.push(next.effect_at, Event::PauseEffect(port).code());
        }
        self.apply_pause(port, pause, now, queue);
    }

    fn apply_pause(&mut self, port: PortId, pause: PendingPause, now: Time, queue: &mut EventQueue) {
        let in_use = self.priorities.len() as u8;
        for class in (0..in_use).filter(|class| pause.classes & 1 << class != 0) {
            if pause.quanta == 0 {
                let lane = self.lane_index(port, class);
                self.pauses[lane].resumes_received += u64::from(class & self.hot.account_mask == class);
                self.end_pause(port, class, now);
            } else {
                let until = now + pause_time(self.ports[port].rate.rate(), pause.quanta);
                self.begin_pause(port, class, until, now, queue);
            }
        }
        self.kick(port, now, queue);
    }

    fn begin_pause(&mut self, port: PortId, class: u8, until: Time, now: Time, queue: &mut EventQueue) {
        let lane = self.lane_index(port, class);
        let bit = 1 << class;
        self.pauses[lane].pauses_received += u64::from(class & self.hot.account_mask == class);
        if self.watchdog_ignores(port, class, now, queue) {
            return;
        }
        let state = &mut self.pauses[lane];
        if self.ports[port].paused & bit == 0 {
            self.ports[port].paused |= bit;
            state.since = now;
            self.note_pause(lane, now);
        }
        let state = &mut self.pauses[lane];
        state.until = until;
        if state.expiry_at.is_none() {
            state.expiry_at = Some(until);
            queue.push(until, Event::PauseExpiry(lane as u32).code());
        }
    }

    /// The class may send again, if it might not, and unless a watchdog keeps it out of service.
    pub(crate) fn end_pause(&mut self, port: PortId, class: u8, now: Time) {
        let lane = self.lane_index(port, class);
        let bit = 1 << class;
        if self.ports[port].paused & bit != 0 && !self.in_storm(lane) {
            self.ports[port].paused &= !bit;
            self.note_resume(lane, now);
            let state = &mut self.pauses[lane];
            let length = now - state.since;
            state.total += length;
            state.longest = state.longest.max(length);
        }
    }

    /// The link of `port` has gone: no pause holds any longer, none is on its way, none waits to be sent.
    pub(crate) fn reset_pauses(&mut self, port: PortId, now: Time) {
        // What waits for the reaction time has its event pending; it will do nothing.
        for pause in &mut self.pending_pauses[port] {
            pause.classes = 0;
        }
        for class in 0..self.priorities.len() as u8 {
            self.forget_storm(self.lane_index(port, class));
            self.end_pause(port, class, now);
        }
        while let Some(index) = self.ports[port].control.pop(&self.packets) {
            self.packets.remove(index);
        }
    }

    /// A pause timer may have run out; if the pause was renewed meanwhile, look again later.
    pub(crate) fn on_pause_expiry(&mut self, lane: u32, now: Time, queue: &mut EventQueue) {
        let (port, class) = self.port_and_class(lane);
        let state = &mut self.pauses[lane as usize];
        state.expiry_at = None;
        if self.ports[port].paused & 1 << class == 0 {
            return;
        }
        if state.until > now {
            state.expiry_at = Some(state.until);
            queue.push(state.until, Event::PauseExpiry(lane).code());
            return;
        }
        self.end_pause(port, class, now);
        self.kick(port, now, queue);
    }

    /// The port and class of a lane index.
    pub(crate) fn port_and_class(&self, lane: u32) -> (PortId, u8) {
        (PortId(lane >> self.class_bits), (lane & ((1 << self.class_bits) - 1)) as u8)
    }

    /// Total time paused of a lane up to `now`, a pause that goes on included, and the longest pause.
    pub(crate) fn paused_time(&self, port: PortId, class: u8, now: Time) -> (Span, Span) {
        let state = &self.pauses[self.lane_index(port, class)];
        if self.ports[port].paused & 1 << class == 0 {
            return (state.total, state.longest);
        }
        let current = now.saturating_since(state.since);
        (state.total + current, state.longest.max(current))
    }
}
