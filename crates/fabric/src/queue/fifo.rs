//! First in, first out with tail drop.

use super::Discipline;
use crate::frame::{PacketFifo as Chain, PacketId, PacketPool};

pub(super) struct Fifo;

impl Discipline for Fifo {
    const RANKED: bool = false;

    fn choose_next(_queue: &mut Chain, _packets: &mut PacketPool) {}

    fn evict_for(_queue: &mut Chain, _packets: &mut PacketPool, _newcomer: PacketId) -> Option<PacketId> {
        None
    }
}
