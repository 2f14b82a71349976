//! The border of a cell: frames that leave it for a node of another one, and those that come.
//!
//! A frame that leaves is all that crosses: it is copied, with the time at which it arrives, into the pool of the other cell, and
//! makes the same `Arrive` event there as it would have made here. A wire that is cut costs a hop nothing: its chain of frames under
//! way is never empty, as the last frame that has left stays at its head, so no event is made here, and at the end of a window all
//! frames behind that one leave together.

use crate::frame::Packet;
use pauseframe_transport::Options;
use pauseframe_units::PortId;

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

/// The wires of a cell that end in others.
#[derive(Debug, Default)]
pub(crate) struct Border {
    /// Each with the number of the cell where it ends.
    pub(super) cut: Vec<(PortId, u16)>,
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
