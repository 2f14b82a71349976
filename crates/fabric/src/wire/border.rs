//! The border of a cell: frames that leave it for a node of another one, and those that come.
//!
//! A frame that leaves is all that crosses: as it goes on a wire that is cut it is copied, with the time at which it arrives, and at the
//! end of the window it makes the same `Arrive` event in the other cell as it would have made here. The copy that stays is the only frame
//! on the wire here: it says what is in service. A wire that is not cut costs a hop nothing.

use crate::frame::Packet;
use pauseframe_transport::Options;
use pauseframe_units::{PortId, Time};

/// A frame that crosses from one cell to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// The port that sent it.
    pub(super) port: PortId,
    pub(super) packet: Packet,
    pub(super) options: Options,
    /// It is in the file of captured packets.
    pub(super) written: bool,
}

/// What goes to other cells.
#[derive(Debug, Default)]
pub(crate) struct Border {
    /// Wires that end in others.
    pub(super) cut: usize,
    /// By cell: what has left for it in this window.
    outboxes: Vec<Vec<Crossing>>,
    /// The first arrival of what has left.
    first: Option<Time>,
}

impl Border {
    /// There are so many cells.
    pub(crate) fn open(&mut self, cells: usize) {
        self.outboxes.resize_with(cells, Vec::new);
    }

    /// A frame leaves for a cell.
    pub(super) fn send(&mut self, to: u16, crossing: Crossing) {
        let at = crossing.packet.at;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.outboxes[usize::from(to)].push(crossing);
    }

    /// What has left for a cell, to be changed for an empty box.
    pub(crate) fn outbox(&mut self, to: usize) -> &mut Vec<Crossing> {
        &mut self.outboxes[to]
    }

    /// When the first of what has left arrives; it is on its way now.
    pub(crate) fn take_first(&mut self) -> Option<Time> {
        self.first.take()
    }

    /// Copies of frames that have left, one for each wire.
    pub(crate) fn last_frames(&self) -> usize {
        self.cut
    }
}
