//! The border of a cell: frames that leave it for a node of another one, and those that come.
//!
//! A frame that leaves is all that crosses: it is copied, with the time at which it arrives, into the pool of the other cell, and
//! makes the same `Arrive` event there as it would have made here. A wire that is cut costs a hop nothing: its chain of frames under
//! way is never empty, as the last frame that has left stays at its head, so no event is made here, and at the end of a window all
//! frames behind that one leave together.

use crate::cell::Cell;
use crate::event::Event;
use crate::packet::{Fifo, NIL, Packet, PacketPool};
use pauseframe_engine::EventQueue;
use pauseframe_transport::Options;
use pauseframe_units::{PortId, Time};

/// A frame that crosses from one cell to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// The port that sent it.
    port: PortId,
    packet: Packet,
    options: Options,
    /// It is in the file of captured packets.
    written: bool,
}

/// The wires of a cell that end in others.
#[derive(Debug, Default)]
pub(crate) struct Border {
    /// Each with the number of the cell where it ends.
    cut: Vec<(PortId, u16)>,
}

impl Border {
    pub(crate) fn is_cut(&self, port: PortId) -> bool {
        self.cut.iter().any(|(cut, _)| *cut == port)
    }

    /// Frames that have left and are still here, one for each wire.
    pub(crate) fn last_frames(&self) -> usize {
        self.cut.len()
    }
}

impl Cell {
    /// Cuts the wire from `port`, which ends in cell `to`.
    pub(crate) fn cut(&mut self, port: PortId, to: u16) {
        let stays = self.packets.add(Packet::gone());
        self.ports[port].in_flight.push(&mut self.packets, stays);
        self.border.cut.push((port, to));
    }

    /// Hands over what has been sent to other cells: by the number of the cell. The earliest arrival.
    pub(crate) fn leave(&mut self, outboxes: &mut [Vec<Crossing>]) -> Option<Time> {
        let mut first: Option<Time> = None;
        for &(port, to) in &self.border.cut {
            let chain = &mut self.ports[port].in_flight;
            let Some(mut last) = chain.head() else { continue };
            while let Some(next) = self.packets.behind(last) {
                let (packet, options) = self.packets.part_with(next);
                let written = self.capture.has_written(next);
                outboxes[usize::from(to)].push(Crossing { port, packet, options, written });
                first = Some(first.map_or(packet.at, |first| first.min(packet.at)));
                self.packets.remove(last);
                last = next;
            }
            *chain = Fifo::of(last);
        }
        first
    }

    /// Takes in what others have sent.
    pub(crate) fn take_in_crossings(
        &mut self,
        crossings: impl Iterator<Item = Crossing>,
        queue: &mut EventQueue,
    ) {
        for Crossing { port, mut packet, options, written } in crossings {
            packet.options = self.packets.add_options(options);
            let index = self.packets.add(packet);
            self.capture.set_written(index, written);
            if self.ports[port].in_flight.push(&mut self.packets, index) {
                queue.push(packet.at, Event::Arrive(port).code());
            }
        }
    }
}

impl PacketPool {
    /// A copy of a packet with its options, which are the copy's from now on.
    fn part_with(&mut self, index: u32) -> (Packet, Options) {
        let packet = self[index];
        let options = self.take_options(packet.options);
        self[index].options = NIL;
        (packet, options)
    }
}
