//! A packet on its way, one cache line, and the pool that holds all of them.
//!
//! Queues and links chain packets through `next`; nothing is allocated once the pool has grown to the largest
//! number of packets that were ever under way together.

use pauseframe_transport::{Ecn, Flags, Options, Segment, Stamps};
use pauseframe_units::{PortId, Time};

/// No packet, no path, no options.
pub(crate) const NIL: u32 = u32::MAX;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A TCP segment in an IP packet.
    Data,
    /// A PFC pause frame (IEEE 802.1Qbb): `seq` holds the class-enable vector, `len` the quanta.
    Pause,
    /// A UDP datagram of `len` bytes in an IP packet.
    Datagram,
    /// A congestion notification message (IEEE 802.1Qau): `seq` holds the quantised feedback and above it the class of
    /// the sampled frame, `ack` and `window` `Q_off` and `Q_delta`, `remaining` the port of the congestion point.
    Cnm,
    /// A frame that was damaged on the wire: discarded where it arrives.
    Corrupted,
    /// A frame whose link went down: it never arrives, but keeps its place on the link.
    Lost,
}

/// A frame. Aligned, so that none lies across two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// On a link: when the last bit arrives. In a queue: when it joined.
    pub(crate) at: Time,
    /// The packet behind this one.
    pub(crate) next: u32,
    /// The port whose frame this was when it came into the switch that holds it: PFC accounts by it.
    pub(crate) ingress: PortId,
    /// Offset of its path, or the destination node where switches look up the next hop.
    pub(crate) route: u32,
    /// Flow * 2 + the side (0 or 1) that it is addressed to.
    pub(crate) to: u32,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u32,
    /// What its flow had left when it was sent, bytes: its rank in a pFabric queue.
    pub(crate) remaining: u32,
    /// Where its variable options are, or NIL.
    pub(crate) options: u32,
    pub(crate) stamps: Stamps,
    /// Application bytes; a pause frame's quanta.
    pub(crate) len: u16,
    /// Bytes that it occupies in buffers: the frame without preamble and gap.
    pub(crate) size: u16,
    /// Where in its path the port stands that it takes next.
    pub(crate) hop: u8,
    /// Index of its priority among the priorities in use.
    pub(crate) class: u8,
    /// The class in which it came into the switch that holds it: another one only where tables change the lane.
    pub(crate) ingress_class: u8,
    /// Position of its VLAN in the tables, where packets have one.
    pub(crate) vlan: u16,
    pub(crate) ecn: Ecn,
    pub(crate) flags: Flags,
    pub(crate) kind: Kind,
}

/// All packets and their variable options.
#[derive(Debug)]
pub(crate) struct PacketPool {
    packets: Vec<Packet>,
    /// First of the chain of free places.
    free: u32,
    options: Vec<Options>,
    free_options: Vec<u32>,
}

impl PacketPool {
    /// No packets.
    pub(crate) fn new() -> PacketPool {
        PacketPool { packets: Vec::new(), free: NIL, options: Vec::new(), free_options: Vec::new() }
    }

    /// Takes a place for `packet`.
    #[inline]
    pub(crate) fn add(&mut self, packet: Packet) -> u32 {
        let index = self.free;
        if let Some(place) = self.packets.get_mut(index as usize) {
            self.free = place.next;
            *place = packet;
            return index;
        }
        self.packets.push(packet);
        (self.packets.len() - 1) as u32
    }

    /// Gives the place back, with that of its options.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        let free = std::mem::replace(&mut self.free, index);
        let packet = &mut self[index];
        packet.next = free;
        if packet.options != NIL {
            let options = packet.options;
            self.free_options.push(options);
        }
    }

    /// The place of a packet, if there is such.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&Packet> {
        self.packets.get(index as usize)
    }

    /// The packet behind this one.
    pub(crate) fn behind(&self, index: u32) -> Option<u32> {
        let next = self[index].next;
        (next != NIL).then_some(next)
    }

    /// The packets of a chain, first to last.
    pub(crate) fn chain(&self, fifo: Fifo) -> impl Iterator<Item = u32> {
        std::iter::successors(fifo.head(), |index| self.behind(*index))
    }

    /// Places, free or not.
    pub(crate) fn places(&self) -> usize {
        self.packets.len()
    }

    /// By place: nobody has it.
    ///
    /// # Panics
    /// If a place was given back twice.
    pub(crate) fn free_places(&self) -> Vec<bool> {
        let mut is_free = vec![false; self.packets.len()];
        let mut next = self.free;
        while let Some(packet) = self.packets.get(next as usize) {
            let twice = std::mem::replace(&mut is_free[next as usize], true);
            assert!(!twice, "the place of a packet was given back twice");
            next = packet.next;
        }
        is_free
    }

    /// Packets that have a place, wherever they are on their way.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Packet> {
        let is_free = self.free_places();
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet)
    }

    /// Stores the variable options of a segment; NIL for none.
    #[inline]
    pub(crate) fn add_options(&mut self, options: Options) -> u32 {
        if options == Options::None {
            return NIL;
        }
        if let Some(index) = self.free_options.pop() {
            self.options[index as usize] = options;
            index
        } else {
            self.options.push(options);
            (self.options.len() - 1) as u32
        }
    }

    /// Takes out variable options that nobody else names.
    pub(crate) fn take_options(&mut self, options: u32) -> Options {
        if options == NIL {
            return Options::None;
        }
        self.free_options.push(options);
        self.options[options as usize]
    }

    /// The segment that a packet carries.
    #[inline]
    pub(crate) fn segment(&self, packet: &Packet) -> Segment {
        let options =
            if packet.options == NIL { Options::None } else { self.options[packet.options as usize] };
        Segment {
            seq: packet.seq,
            ack: packet.ack,
            len: u32::from(packet.len),
            window: packet.window,
            flags: packet.flags,
            options,
            stamps: packet.stamps,
        }
    }
}

// A hop looks at a packet six times; checking the index each time costs 5 % of all instructions
// (docs/performance.md). An index never leaves this crate, comes from `add` alone, and the pool never shrinks; the
// assertions check it in every test.
impl std::ops::Index<u32> for PacketPool {
    type Output = Packet;
    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot path; see above")]
    fn index(&self, index: u32) -> &Packet {
        debug_assert!((index as usize) < self.packets.len());
        // SAFETY: `index` is that of a packet which `add` has placed, and `packets` never gets shorter.
        unsafe { self.packets.get_unchecked(index as usize) }
    }
}

impl std::ops::IndexMut<u32> for PacketPool {
    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot path; see above")]
    fn index_mut(&mut self, index: u32) -> &mut Packet {
        debug_assert!((index as usize) < self.packets.len());
        // SAFETY: as in `index`.
        unsafe { self.packets.get_unchecked_mut(index as usize) }
    }
}

/// A chain of packets, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo { head: NIL, tail: NIL };

    /// Of one packet.
    pub(crate) fn of(index: u32) -> Fifo {
        Fifo { head: index, tail: index }
    }

    /// The last packet, if there is one.
    pub(crate) fn tail(self) -> Option<u32> {
        (self.head != NIL).then_some(self.tail)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NIL
    }

    /// The first packet.
    #[inline]
    pub(crate) fn head(self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// Appends a packet; true if the chain was empty.
    #[inline]
    pub(crate) fn push(&mut self, pool: &mut PacketPool, index: u32) -> bool {
        pool[index].next = NIL;
        let was_empty = self.head == NIL;
        if was_empty {
            self.head = index;
        } else {
            pool[self.tail].next = index;
        }
        self.tail = index;
        was_empty
    }

    /// Puts a packet before all others.
    pub(crate) fn push_front(&mut self, pool: &mut PacketPool, index: u32) {
        if self.head == NIL {
            self.tail = index;
        }
        pool[index].next = self.head;
        self.head = index;
    }

    /// Takes out `index`, which stands behind `before`, or first if that is NIL.
    pub(crate) fn unlink(&mut self, pool: &mut PacketPool, before: u32, index: u32) {
        let next = pool[index].next;
        if before == NIL {
            self.head = next;
        } else {
            pool[before].next = next;
        }
        if next == NIL {
            self.tail = before;
        }
    }

    /// Forgets the first packet; `next` is the one behind it.
    #[inline(always)]
    pub(crate) fn advance(&mut self, next: u32) {
        self.head = next;
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn pop(&mut self, pool: &PacketPool) -> Option<u32> {
        let index = self.head()?;
        self.head = pool[index].next;
        Some(index)
    }
}

impl Packet {
    /// A frame that is on its way to nobody.
    pub(crate) fn gone() -> Packet {
        Packet { to: NIL, kind: Kind::Lost, ..Packet::blank() }
    }

    /// An empty segment of flow 0 that is nowhere.
    pub(crate) fn blank() -> Packet {
        Packet {
            at: Time::ZERO,
            next: NIL,
            ingress: PortId::NONE,
            route: NIL,
            to: 0,
            seq: 0,
            ack: 0,
            len: 0,
            window: 0,
            remaining: 0,
            options: NIL,
            stamps: Stamps::default(),
            size: 64,
            hop: 0,
            class: 0,
            ingress_class: 0,
            vlan: 0,
            ecn: Ecn::NotEct,
            flags: Flags::default(),
            kind: Kind::Data,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_packet_fits_a_cache_line() {
        assert_eq!(size_of::<super::Packet>(), 64);
    }
}
