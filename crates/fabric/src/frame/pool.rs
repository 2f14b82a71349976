//! The pool of all packets of a partition. It allocates only while it grows to the maximum number of packets in flight.

use super::telemetry::TelemetryPool;
use super::{BytesId, CompactSegment, FrameBytes, FrameKind, OptionsId, Packet, PacketId};
use pauseframe_engine::memory::{prefetch_first_line, push_to_arena};
use pauseframe_rdma::cc::hpcc::Telemetry;
use pauseframe_transport::{Segment, TcpOptions};
use pauseframe_units::Id;

/// A pool of packets and their variable options.
#[derive(Debug)]
pub(crate) struct PacketPool {
    packets: Vec<Packet>,
    /// Free indices; the last is used next. A separate list, so that upcoming ones can be prefetched.
    free: Vec<PacketId>,
    options: Vec<TcpOptions>,
    free_options: Vec<OptionsId>,
    pub(super) telemetries: TelemetryPool,
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
            telemetries: TelemetryPool::default(),
            bytes: Vec::new(),
            free_bytes: Vec::new(),
        }
    }

    /// Stores `packet` and returns its index.
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(index) = self.free.pop() {
            self[index] = packet;
            return index;
        }
        push_to_arena(&mut self.packets, packet);
        PacketId::from_index(self.packets.len() - 1)
    }

    /// Frees a packet and its options.
    #[inline]
    pub(crate) fn remove(&mut self, index: PacketId) {
        self.free.push(index);
        match self[index].content {
            FrameKind::Segment(CompactSegment { options, .. }) if options != OptionsId::NONE => {
                self.free_options.push(options);
            }
            FrameKind::Rdma(frame) => self.free_telemetry(frame.telemetry),
            FrameKind::Foreign { bytes, .. } => drop(self.take_bytes(bytes)),
            _ => {}
        }
    }

    /// Frees a packet whose options [`Self::export_packet`] has moved, without reading it (a likely cache miss).
    #[inline]
    pub(crate) fn remove_exported(&mut self, index: PacketId) {
        let parted =
            |content| !matches!(content, FrameKind::Segment(carried) if carried.options != OptionsId::NONE);
        debug_assert!(parted(self[index].content), "its options would be lost");
        self.free.push(index);
    }

    /// Replaces the content of a frame and frees what it carried.
    pub(crate) fn mark_damaged(&mut self, index: PacketId, content: FrameKind) {
        if let FrameKind::Segment(CompactSegment { options, .. }) = self[index].content {
            self.take_options(options);
        } else if let FrameKind::Foreign { bytes, .. } = self[index].content {
            self.take_bytes(bytes);
        } else if let FrameKind::Rdma(frame) = self[index].content {
            self.free_telemetry(frame.telemetry);
        }
        self[index].content = content;
    }

    /// The packet with an index, if the index is valid.
    #[inline]
    pub(crate) fn get(&self, index: PacketId) -> Option<&Packet> {
        self.packets.get(index.index())
    }

    /// All slots, free or not.
    #[inline(always)]
    pub(crate) fn all_slots(&self) -> &[Packet] {
        &self.packets
    }

    /// Prefetches the free slot that is used `ahead` insertions after the next one.
    #[inline(always)]
    pub(crate) fn prefetch_free_slot(&self, ahead: usize) {
        prefetch_first_line(
            self.free.len().checked_sub(ahead + 1).and_then(|place| self.get(self.free[place])),
        );
    }

    /// The packet behind this one in its FIFO.
    pub(crate) fn next_packet(&self, index: PacketId) -> Option<PacketId> {
        self[index].next.to_option()
    }

    /// Number of slots, free or not.
    pub(crate) fn slot_count(&self) -> usize {
        self.packets.len()
    }

    /// For each slot, whether it is free.
    ///
    /// # Panics
    /// If a slot was freed twice.
    pub(crate) fn free_slot_flags(&self) -> Vec<bool> {
        let mut is_free = vec![false; self.packets.len()];
        for index in &self.free {
            let twice = std::mem::replace(&mut is_free[index.index()], true);
            assert!(!twice, "the place of a packet was given back twice");
        }
        is_free
    }

    /// All packets in the pool, wherever they are in the network.
    pub(crate) fn live_packets(&self) -> impl Iterator<Item = &Packet> {
        let is_free = self.free_slot_flags();
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet)
    }

    /// Stores the variable options of a segment, if it has any.
    #[inline]
    pub(crate) fn add_options(&mut self, options: TcpOptions) -> OptionsId {
        if options == TcpOptions::None {
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

    /// Removes variable options that no other packet refers to.
    fn take_options(&mut self, options: OptionsId) -> TcpOptions {
        if options == OptionsId::NONE {
            return TcpOptions::None;
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

    /// Takes the bytes of a frame out of the pool.
    #[cold]
    fn take_bytes(&mut self, place: BytesId) -> FrameBytes {
        self.free_bytes.push(place);
        std::mem::take(&mut self.bytes[place.0 as usize])
    }

    /// Removes a frame of bytes from the pool.
    pub(crate) fn remove_bytes(&mut self, index: PacketId, bytes: BytesId) -> FrameBytes {
        self.free.push(index);
        self.take_bytes(bytes)
    }

    /// The bytes of a frame.
    pub(crate) fn bytes(&self, place: BytesId) -> &FrameBytes {
        &self.bytes[place.0 as usize]
    }

    /// Stores a packet of another pool with its options; the packet refers to them by their index in `options`.
    pub(crate) fn import_packet(
        &mut self,
        mut packet: Packet,
        options: &[TcpOptions],
        telemetries: &[Telemetry],
    ) -> PacketId {
        self.import_telemetry(&mut packet, telemetries);
        if let FrameKind::Segment(carried) = &mut packet.content
            && carried.options != OptionsId::NONE
        {
            carried.options = self.add_options(options[carried.options.0 as usize]);
        }
        self.insert(packet)
    }

    /// Copies a packet for another pool and moves its options to the end of `options`.
    pub(crate) fn export_packet(
        &mut self,
        index: PacketId,
        options: &mut Vec<TcpOptions>,
        telemetries: &mut Vec<Telemetry>,
    ) -> Packet {
        let mut copy = self[index];
        self.export_telemetry(index, &mut copy, telemetries);
        if let FrameKind::Segment(carried) = &mut copy.content
            && carried.options != OptionsId::NONE
        {
            let taken =
                self.take_options(std::mem::replace(&mut carried.options, OptionsId(options.len() as u32)));
            options.push(taken);
            if let FrameKind::Segment(stays) = &mut self[index].content {
                stays.options = OptionsId::NONE;
            }
        }
        copy
    }

    /// The segment that a packet carries.
    #[inline]
    pub(crate) fn unpack_segment(&self, carried: &CompactSegment) -> Segment {
        let options = if carried.options == OptionsId::NONE {
            TcpOptions::None
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

// A hop reads a packet six times, and a bounds check each time costs 5 % of all instructions (docs/performance.md). Indices never leave this crate,
// only `insert` creates them, and the pool never shrinks. Tests check all indices by assertions.
impl std::ops::Index<PacketId> for PacketPool {
    type Output = Packet;
    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot path; see above")]
    fn index(&self, index: PacketId) -> &Packet {
        debug_assert!(index.index() < self.packets.len());
        // SAFETY: `insert` returned `index`, and `packets` never shrinks.
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
