//! A chain of packets, first in, first out: queues and links are chains through the packets themselves.

use super::{Packet, PacketId, PacketPool};

/// The first and the last of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: PacketId,
    tail: PacketId,
}

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo { head: PacketId::NONE, tail: PacketId::NONE };

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
    pub(crate) fn first(self) -> PacketId {
        self.head
    }

    /// The first packet.
    #[inline]
    pub(crate) fn head(self) -> Option<PacketId> {
        self.head.known()
    }

    /// The packets, first to last.
    pub(crate) fn iter(self, pool: &PacketPool) -> impl Iterator<Item = PacketId> {
        std::iter::successors(self.head(), |index| pool.behind(*index))
    }

    /// Appends a packet; true if the chain was empty.
    #[inline]
    pub(crate) fn push(&mut self, pool: &mut PacketPool, index: PacketId) -> bool {
        self.push_and_tell(pool, index, |_| {})
    }

    /// The same; the packet that it stands behind is told, if there is one.
    #[inline(always)]
    pub(crate) fn push_and_tell(
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

    /// Puts a packet before all others.
    pub(crate) fn push_front(&mut self, pool: &mut PacketPool, index: PacketId) {
        if self.is_empty() {
            self.tail = index;
        }
        pool[index].next = self.head;
        self.head = index;
    }

    /// Takes out `index`, which stands behind `before`, or first if that is none.
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

    /// Forgets the first packet; `next` is the one behind it.
    #[inline(always)]
    pub(crate) fn advance(&mut self, next: PacketId) {
        self.head = next;
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn pop(&mut self, pool: &PacketPool) -> Option<PacketId> {
        let index = self.head()?;
        self.head = pool[index].next;
        Some(index)
    }
}
