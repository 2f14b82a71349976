//! Frames that leave a cell, and those that come: see `border.rs`.

use super::Ports;
use super::border::Crossing;
use crate::event::Event;
use crate::frame::{Content, Fifo, Packet};
use crate::near::Near;
use pauseframe_engine::memory::bring;
use pauseframe_units::{PortId, Time};

/// How many wires or frames before its turn each step is taken.
const AHEAD: [usize; 2] = [24, 12];

impl Ports {
    /// Cuts the wire from `port`, which ends in cell `to`.
    pub(crate) fn cut(&mut self, port: PortId, to: u16, near: &mut Near) {
        let stays = near.packets.add(Packet::new(Content::Lost, 64, 0));
        self.ports[port].in_flight.push(&mut near.packets, stays);
        self.border.cut.push((port, to));
    }

    /// Hands over what has been sent to other cells: by the number of the cell. The earliest arrival.
    pub(crate) fn leave(&mut self, outboxes: &mut [Vec<Crossing>], near: &mut Near) -> Option<Time> {
        let mut first: Option<Time> = None;
        for (turn, &(port, to)) in self.border.cut.iter().enumerate() {
            self.bring_leaving(turn, near);
            let chain = &mut self.ports[port].in_flight;
            let Some((mut last, _)) = chain.ends() else { continue };
            while let Some(next) = near.packets.behind(last) {
                let (packet, options) = near.packets.part_with(next);
                let written = self.capture.has_written(next);
                outboxes[usize::from(to)].push(Crossing { port, packet, options, written });
                first = Some(first.map_or(packet.at, |first| first.min(packet.at)));
                near.packets.remove(last);
                last = next;
            }
            *chain = Fifo::of(last);
        }
        first
    }

    /// Takes in what others have sent, and empties the box that it came in.
    pub(crate) fn take_in(&mut self, inbox: &mut Vec<Crossing>, near: &mut Near) {
        for turn in 0..inbox.len() {
            self.bring_coming(inbox, turn, near);
            let Crossing { port, packet, options, written } = inbox[turn];
            let index = near.packets.adopt(packet, options);
            self.capture.set_written(index, written);
            if self.ports[port].in_flight.push(&mut near.packets, index) {
                near.schedule(packet.at, Event::Arrive(port));
            }
        }
        inbox.clear();
    }

    /// Brings near what the cut wires behind the one whose turn it is will need: the wire, then the frame that stays on it and the last one.
    #[inline(always)]
    fn bring_leaving(&self, turn: usize, near: &Near) {
        let wire = |ahead: usize| self.ports.get(self.border.cut.get(turn + ahead)?.0);
        bring(wire(AHEAD[0]));
        if let Some((stays, last)) = wire(AHEAD[1]).and_then(|wire| wire.in_flight.ends()) {
            bring(near.packets.at(stays));
            bring(near.packets.at(last));
        }
    }

    /// The same for the frames that come: the wire, then what is last on it.
    #[inline(always)]
    fn bring_coming(&self, inbox: &[Crossing], turn: usize, near: &Near) {
        bring(inbox.get(turn + AHEAD[0]).and_then(|crossing| self.ports.get(crossing.port)));
        let chain = |ahead: usize| Some(self.ports[inbox.get(turn + ahead)?.port].in_flight);
        bring(chain(AHEAD[1]).and_then(|chain| near.packets.at(chain.tail()?)));
    }
}
