//! An intrusive FIFO of packets: queues and links chain packets by the `next` field of each.

use super::{Packet, PacketId, PacketPool};

/// Head and tail of a FIFO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketFifo {
    head: PacketId,
    tail: PacketId,
}

impl PacketFifo {
    pub(crate) const EMPTY: PacketFifo = PacketFifo { head: PacketId::NONE, tail: PacketId::NONE };

    /// The last packet, if there is one.
    #[inline]
    pub(crate) fn tail(self) -> Option<PacketId> {
        (self.head != PacketId::NONE).then_some(self.tail)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == PacketId::NONE
    }

    /// The first packet, or [`PacketId::NONE`].
    #[inline(always)]
    pub(crate) fn head_or_none(self) -> PacketId {
        self.head
    }

    /// The first packet.
    #[inline]
    pub(crate) fn head(self) -> Option<PacketId> {
        self.head.to_option()
    }

    /// The packets, first to last.
    pub(crate) fn iter(self, pool: &PacketPool) -> impl Iterator<Item = PacketId> {
        std::iter::successors(self.head(), |index| pool.next_in_fifo(*index))
    }

    /// Appends a packet; true if the FIFO was empty.
    #[inline]
    pub(crate) fn push_back(&mut self, pool: &mut PacketPool, index: PacketId) -> bool {
        self.push_back_with(pool, index, |_| {})
    }

    /// Appends a packet and passes the previous tail, if there is one, to `tell`.
    #[inline(always)]
    pub(crate) fn push_back_with(
        &mut self,
        pool: &mut PacketPool,
        index: PacketId,
        tell: impl FnOnce(&mut Packet),
    ) -> bool {
        pool[index].next = PacketId::NONE;
        let was_empty = self.is_empty();
        if was_empty {
            self.head = index;
        } else {
            let last = &mut pool[self.tail];
            last.next = index;
            tell(last);
        }
        self.tail = index;
        was_empty
    }

    /// Inserts a packet at the head.
    pub(crate) fn push_front(&mut self, pool: &mut PacketPool, index: PacketId) {
        if self.is_empty() {
            self.tail = index;
        }
        pool[index].next = self.head;
        self.head = index;
    }

    /// Removes `index`, whose predecessor is `before` (none if it is the head).
    pub(crate) fn unlink(&mut self, pool: &mut PacketPool, before: PacketId, index: PacketId) {
        let next = pool[index].next;
        if before == PacketId::NONE {
            self.head = next;
        } else {
            pool[before].next = next;
        }
        if next == PacketId::NONE {
            self.tail = before;
        }
    }

    /// Removes the last packet, `tail`; takes time linear in the FIFO.
    pub(crate) fn remove_tail(&mut self, pool: &mut PacketPool, tail: PacketId) {
        let before = self.iter(pool).take_while(|index| *index != tail).last().unwrap_or(PacketId::NONE);
        self.unlink(pool, before, tail);
    }

    /// Drops the head; `next` is the packet behind it.
    #[inline(always)]
    pub(crate) fn remove_head(&mut self, next: PacketId) {
        self.head = next;
    }

    /// Removes and returns the first packet.
    #[inline]
    pub(crate) fn pop_front(&mut self, pool: &PacketPool) -> Option<PacketId> {
        let index = self.head()?;
        self.head = pool[index].next;
        Some(index)
    }
}
