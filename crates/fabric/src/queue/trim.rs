//! First in, first out; of what finds no room, packets of queue pairs that can be trimmed lose their payload (`switching/trimming.rs`).

use super::Discipline;
use crate::frame::{PacketFifo as Chain, PacketId, PacketPool};

pub(super) struct Trim;

impl Discipline for Trim {
    const RANKED: bool = false;
    const TRIMS: bool = true;

    fn choose_next(_queue: &mut Chain, _packets: &mut PacketPool) {}

    fn evict_for(_queue: &mut Chain, _packets: &mut PacketPool, _newcomer: PacketId) -> Option<PacketId> {
        None
    }
}
