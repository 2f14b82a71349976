//! The pool of all packets of a partition. It allocates only while it grows to the maximum number of packets in flight.

use super::path_tag::PathTag;
use super::telemetry::PacketTelemetryPool;
use super::{CompactTcpSegment, FrameBytes, FrameBytesId, FrameContent, Packet, PacketId, TcpOptionsId};
use pauseframe_engine::memory::prefetch_first_line;
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
    free_options: Vec<TcpOptionsId>,
    pub(super) telemetries: PacketTelemetryPool,
    bytes: Vec<FrameBytes>,
    /// By index of a packet, if leaves measure their paths.
    pub(super) path_tags: Vec<PathTag>,
    free_bytes: Vec<FrameBytesId>,
}

impl PacketPool {
    /// No packets.
    pub(crate) fn new() -> PacketPool {
        PacketPool {
            packets: Vec::new(),
            free: Vec::new(),
            options: Vec::new(),
            free_options: Vec::new(),
            telemetries: PacketTelemetryPool::default(),
            bytes: Vec::new(),
            path_tags: Vec::new(),
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
        self.packets.push(packet);
        PacketId::from_index(self.packets.len() - 1)
    }

    /// Frees a packet and its options.
    #[inline]
    pub(crate) fn remove(&mut self, index: PacketId) {
        self.free.push(index);
        match self[index].content {
            FrameContent::Segment(CompactTcpSegment { options, .. }) if options != TcpOptionsId::NONE => {
                self.free_options.push(options);
            }
            FrameContent::Rdma(frame) => self.free_telemetry(frame.telemetry),
            FrameContent::Foreign { bytes, .. } => drop(self.take_frame_bytes(bytes)),
            _ => {}
        }
    }

    /// Frees a packet whose options [`Self::export_packet`] has moved, without reading it (a likely cache miss).
    #[inline]
    pub(crate) fn remove_exported(&mut self, index: PacketId) {
        let parted = |content| !matches!(content, FrameContent::Segment(carried) if carried.options != TcpOptionsId::NONE);
        debug_assert!(parted(self[index].content), "its options would be lost");
        self.free.push(index);
    }

    /// Replaces the content of a frame and frees what it carried.
    pub(crate) fn replace_content(&mut self, index: PacketId, content: FrameContent) {
        if let FrameContent::Segment(CompactTcpSegment { options, .. }) = self[index].content {
            self.take_tcp_options(options);
        } else if let FrameContent::Foreign { bytes, .. } = self[index].content {
            self.take_frame_bytes(bytes);
        } else if let FrameContent::Rdma(frame) = self[index].content {
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
    pub(crate) fn entries(&self) -> &[Packet] {
        &self.packets
    }

    /// Prefetches the free slot that is used `ahead` insertions after the next one.
    #[inline(always)]
    pub(crate) fn prefetch_free_entry(&self, ahead: usize) {
        prefetch_first_line(
            self.free.len().checked_sub(ahead + 1).and_then(|place| self.get(self.free[place])),
        );
    }

    /// The packet behind this one in its FIFO.
    pub(crate) fn next_in_fifo(&self, index: PacketId) -> Option<PacketId> {
        self[index].next.to_option()
    }

    /// Number of slots, free or not.
    pub(crate) fn entry_count(&self) -> usize {
        self.packets.len()
    }

    /// For each slot, whether it is free.
    ///
    /// # Panics
    /// If a slot was freed twice.
    pub(crate) fn free_flags(&self) -> Vec<bool> {
        let mut is_free = vec![false; self.packets.len()];
        for index in &self.free {
            let twice = std::mem::replace(&mut is_free[index.index()], true);
            assert!(!twice, "the place of a packet was given back twice");
        }
        is_free
    }

    /// All packets in the pool, wherever they are in the network.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        let is_free = self.free_flags();
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet)
    }

    /// The same, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet> {
        let is_free = self.free_flags();
        self.packets.iter_mut().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet)
    }

    /// Stores the variable options of a segment, if it has any.
    #[inline]
    pub(crate) fn add_tcp_options(&mut self, options: TcpOptions) -> TcpOptionsId {
        if options == TcpOptions::None {
            return TcpOptionsId::NONE;
        }
        if let Some(place) = self.free_options.pop() {
            self.options[place.0 as usize] = options;
            place
        } else {
            self.options.push(options);
            TcpOptionsId((self.options.len() - 1) as u32)
        }
    }

    /// Removes variable options that no other packet refers to.
    fn take_tcp_options(&mut self, options: TcpOptionsId) -> TcpOptions {
        if options == TcpOptionsId::NONE {
            return TcpOptions::None;
        }
        self.free_options.push(options);
        self.options[options.0 as usize]
    }

    /// Stores the bytes of a frame.
    pub(crate) fn add_frame_bytes(&mut self, bytes: FrameBytes) -> FrameBytesId {
        if let Some(place) = self.free_bytes.pop() {
            self.bytes[place.0 as usize] = bytes;
            return place;
        }
        self.bytes.push(bytes);
        FrameBytesId((self.bytes.len() - 1) as u32)
    }

    /// Takes the bytes of a frame out of the pool.
    #[cold]
    fn take_frame_bytes(&mut self, place: FrameBytesId) -> FrameBytes {
        self.free_bytes.push(place);
        std::mem::take(&mut self.bytes[place.0 as usize])
    }

    /// Removes a frame of bytes from the pool.
    pub(crate) fn remove_frame(&mut self, index: PacketId, bytes: FrameBytesId) -> FrameBytes {
        self.free.push(index);
        self.take_frame_bytes(bytes)
    }

    /// The bytes of a frame.
    pub(crate) fn frame_bytes(&self, place: FrameBytesId) -> &FrameBytes {
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
        if let FrameContent::Segment(carried) = &mut packet.content
            && carried.options != TcpOptionsId::NONE
        {
            carried.options = self.add_tcp_options(options[carried.options.0 as usize]);
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
        if let FrameContent::Segment(carried) = &mut copy.content
            && carried.options != TcpOptionsId::NONE
        {
            let taken = self.take_tcp_options(std::mem::replace(
                &mut carried.options,
                TcpOptionsId(options.len() as u32),
            ));
            options.push(taken);
            if let FrameContent::Segment(stays) = &mut self[index].content {
                stays.options = TcpOptionsId::NONE;
            }
        }
        copy
    }

    /// The segment that a packet carries.
    #[inline]
    pub(crate) fn unpack_segment(&self, carried: &CompactTcpSegment) -> Segment {
        let options = if carried.options == TcpOptionsId::NONE {
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
