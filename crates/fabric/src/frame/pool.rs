//! The pool that holds all packets of a partition: nothing is allocated once it has grown to the largest number that were ever under
//! way together.

use super::telemetry::Telemetries;
use super::{BytesId, Carried, Content, FrameBytes, OptionsId, Packet, PacketId};
use pauseframe_engine::memory::{append, prefetch_line};
use pauseframe_rdma::cc::hpcc::Telemetry;
use pauseframe_transport::{Options, Segment};
use pauseframe_units::Id;

/// All packets and their variable options.
#[derive(Debug)]
pub(crate) struct PacketPool {
    packets: Vec<Packet>,
    /// Places that nobody has, the next to be taken last: a list of its own, so that those behind it are known.
    free: Vec<PacketId>,
    options: Vec<Options>,
    free_options: Vec<OptionsId>,
    pub(super) telemetries: Telemetries,
    bytes: Vec<FrameBytes>,
    free_bytes: Vec<BytesId>,
}

impl PacketPool {
    /// No packets.
    pub(crate) fn new() -> PacketPool {
        PacketPool {
            packets: Vec::new(),
            free: Vec::new(),
            options: Vec::new(),
            free_options: Vec::new(),
            telemetries: Telemetries::default(),
            bytes: Vec::new(),
            free_bytes: Vec::new(),
        }
    }

    /// Takes a place for `packet`.
    #[inline]
    pub(crate) fn add(&mut self, packet: Packet) -> PacketId {
        if let Some(index) = self.free.pop() {
            self[index] = packet;
            return index;
        }
        append(&mut self.packets, packet);
        PacketId::from_index(self.packets.len() - 1)
    }

    /// Gives the place back, with that of its options.
    #[inline]
    pub(crate) fn remove(&mut self, index: PacketId) {
        self.free.push(index);
        match self[index].content {
            Content::Segment(Carried { options, .. }) if options != OptionsId::NONE => {
                self.free_options.push(options);
            }
            Content::Rdma(_) => self.drop_telemetry(&self[index].content.clone()),
            Content::Foreign { bytes, .. } => drop(self.take_bytes(bytes)),
            _ => {}
        }
    }

    /// The same for a packet that has parted with its options ([`Self::part_with`]): it need not be looked at, and lies far.
    #[inline]
    pub(crate) fn remove_parted(&mut self, index: PacketId) {
        let parted =
            |content| !matches!(content, Content::Segment(carried) if carried.options != OptionsId::NONE);
        debug_assert!(parted(self[index].content), "its options would be lost");
        self.free.push(index);
    }

    /// The frame becomes another: what it carried is no more.
    pub(crate) fn mark_damaged(&mut self, index: PacketId, content: Content) {
        if let Content::Segment(Carried { options, .. }) = self[index].content {
            self.take_options(options);
        } else if let Content::Foreign { bytes, .. } = self[index].content {
            self.take_bytes(bytes);
        }
        self.drop_telemetry(&self[index].content.clone());
        self[index].content = content;
    }

    /// The place of a packet, if there is such.
    #[inline]
    pub(crate) fn at(&self, index: PacketId) -> Option<&Packet> {
        self.packets.get(index.index())
    }

    /// All places, free or not.
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[Packet] {
        &self.packets
    }

    /// Fetches the place that will be taken so many places after the next one.
    #[inline(always)]
    pub(crate) fn prefetch_free(&self, ahead: usize) {
        prefetch_line(self.free.len().checked_sub(ahead + 1).and_then(|place| self.at(self.free[place])));
    }

    /// The packet behind this one.
    pub(crate) fn behind(&self, index: PacketId) -> Option<PacketId> {
        self[index].next.known()
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
        for index in &self.free {
            let twice = std::mem::replace(&mut is_free[index.index()], true);
            assert!(!twice, "the place of a packet was given back twice");
        }
        is_free
    }

    /// Packets that have a place, wherever they are on their way.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Packet> {
        let is_free = self.free_places();
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet)
    }

    /// Stores the variable options of a segment, if it has any.
    #[inline]
    pub(crate) fn add_options(&mut self, options: Options) -> OptionsId {
        if options == Options::None {
            return OptionsId::NONE;
        }
        if let Some(place) = self.free_options.pop() {
            self.options[place.0 as usize] = options;
            place
        } else {
            self.options.push(options);
            OptionsId((self.options.len() - 1) as u32)
        }
    }

    /// Takes out variable options that nobody else names.
    fn take_options(&mut self, options: OptionsId) -> Options {
        if options == OptionsId::NONE {
            return Options::None;
        }
        self.free_options.push(options);
        self.options[options.0 as usize]
    }

    /// Stores the bytes of a frame.
    pub(crate) fn add_bytes(&mut self, bytes: FrameBytes) -> BytesId {
        if let Some(place) = self.free_bytes.pop() {
            self.bytes[place.0 as usize] = bytes;
            return place;
        }
        self.bytes.push(bytes);
        BytesId((self.bytes.len() - 1) as u32)
    }

    /// Takes out the bytes of a frame that is no more.
    #[cold]
    fn take_bytes(&mut self, place: BytesId) -> FrameBytes {
        self.free_bytes.push(place);
        std::mem::take(&mut self.bytes[place.0 as usize])
    }

    /// Takes a frame of bytes out of the pool.
    pub(crate) fn remove_bytes(&mut self, index: PacketId, bytes: BytesId) -> FrameBytes {
        self.free.push(index);
        self.take_bytes(bytes)
    }

    /// The bytes of a frame.
    pub(crate) fn bytes(&self, place: BytesId) -> &FrameBytes {
        &self.bytes[place.0 as usize]
    }

    /// Puts a copy of a packet from another pool in its place, with its options, which it names by their place among these.
    pub(crate) fn adopt(
        &mut self,
        mut packet: Packet,
        options: &[Options],
        telemetries: &[Telemetry],
    ) -> PacketId {
        self.adopt_telemetry(&mut packet, telemetries);
        if let Content::Segment(carried) = &mut packet.content
            && carried.options != OptionsId::NONE
        {
            carried.options = self.add_options(options[carried.options.0 as usize]);
        }
        self.add(packet)
    }

    /// A copy of a packet; its options, if it has any, are the copy's from now on and go to the end of these.
    pub(crate) fn part_with(
        &mut self,
        index: PacketId,
        options: &mut Vec<Options>,
        telemetries: &mut Vec<Telemetry>,
    ) -> Packet {
        let mut copy = self[index];
        self.part_with_telemetry(index, &mut copy, telemetries);
        if let Content::Segment(carried) = &mut copy.content
            && carried.options != OptionsId::NONE
        {
            let taken =
                self.take_options(std::mem::replace(&mut carried.options, OptionsId(options.len() as u32)));
            options.push(taken);
            if let Content::Segment(stays) = &mut self[index].content {
                stays.options = OptionsId::NONE;
            }
        }
        copy
    }

    /// The segment that a packet carries.
    #[inline]
    pub(crate) fn segment(&self, carried: &Carried) -> Segment {
        let options = if carried.options == OptionsId::NONE {
            Options::None
        } else {
            self.options[carried.options.0 as usize]
        };
        Segment {
            seq: carried.seq,
            ack: carried.ack,
            len: u32::from(carried.len),
            window: carried.window,
            flags: carried.flags,
            options,
            stamps: carried.stamps,
        }
    }
}

// A hop looks at a packet six times; checking the index each time costs 5 % of all instructions
// (docs/performance.md). An index never leaves this crate, comes from `add` alone, and the pool never shrinks; the
// assertions check it in every test.
impl std::ops::Index<PacketId> for PacketPool {
    type Output = Packet;
    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot path; see above")]
    fn index(&self, index: PacketId) -> &Packet {
        debug_assert!(index.index() < self.packets.len());
        // SAFETY: `index` is that of a packet which `add` has placed, and `packets` never gets shorter.
        unsafe { self.packets.get_unchecked(index.index()) }
    }
}

impl std::ops::IndexMut<PacketId> for PacketPool {
    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot path; see above")]
    fn index_mut(&mut self, index: PacketId) -> &mut Packet {
        debug_assert!(index.index() < self.packets.len());
        // SAFETY: as in `index`.
        unsafe { self.packets.get_unchecked_mut(index.index()) }
    }
}
