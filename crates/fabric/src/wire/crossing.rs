//! Frames that leave a cell, and those that come: see `border.rs`.

use super::Ports;
use super::border::Crossing;
use crate::event::Event;
use crate::frame::{Content, Fifo, Packet};
use crate::near::Near;
use pauseframe_units::{PortId, Time};

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
        for &(port, to) in &self.border.cut {
            let chain = &mut self.ports[port].in_flight;
            let Some(mut last) = chain.head() else { continue };
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

    /// Takes in what others have sent.
    pub(crate) fn take_in(&mut self, crossings: impl Iterator<Item = Crossing>, near: &mut Near) {
        for Crossing { port, packet, options, written } in crossings {
            let index = near.packets.adopt(packet, options);
            self.capture.set_written(index, written);
            if self.ports[port].in_flight.push(&mut near.packets, index) {
                near.schedule(packet.at, Event::Arrive(port));
            }
        }
    }
}
