//! First in, first out: what finds no room is dropped.

use super::Discipline;
use crate::frame::{Fifo as Chain, Packet, PacketId, PacketPool};

pub(super) struct Fifo;

impl Discipline for Fifo {
    const RANKED: bool = false;

    fn bring_forward(_queue: &mut Chain, _packets: &mut PacketPool, _may_go: impl Fn(&Packet) -> bool) {}

    fn take_victim(_queue: &mut Chain, _packets: &mut PacketPool, _newcomer: PacketId) -> Option<PacketId> {
        None
    }
}
