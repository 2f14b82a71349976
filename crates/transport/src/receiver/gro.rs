//! Receive offload (GRO): frames of a connection that come in one poll of the NIC reach TCP as one segment.
//!
//! The first data segment starts a poll, which ends `gro` later (`gro_flush_timeout`). SYNs, pure ACKs, PSH and FIN do not wait. Segments that
//! arrive until then and continue the data are merged, up to 64 KB, by the rules of Linux 6.1 (`inet_gro_receive`, `tcp_gro_receive`): the IP header's ECN field, the other
//! flags, the ACK field and the options must be the same. CWR starts a new merged segment; a short frame, PSH or FIN ends one. TCP acknowledges
//! merged segments, so fewer ACKs cover more data each. A frame that cannot be merged flushes the held segment first, so order is kept, and is itself
//! held if it has a full frame of data. Each connection has its own poll here, whereas a NIC polls a whole queue; its budget (64 frames) never limits
//! one connection.

use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::segment::{EcnCodepoint, Segment, TcpFlags};
use pauseframe_units::{Span, Time};

/// `GRO_LEGACY_MAX_SIZE`: no merged packet is larger, headers included.
const MAX_GRO_BYTES: u32 = 65_536;
/// IPv4 and TCP with timestamps.
const IPV4_TCP_HEADER_BYTES: u32 = 52;

/// Flags of a frame that ends a merged segment.
const MERGE_ENDING_FLAGS: TcpFlags = TcpFlags(TcpFlags::PSH.0 | TcpFlags::FIN.0);

/// Result of passing a frame to GRO.
pub(crate) enum GroResult {
    /// The frame is held; nothing is passed up.
    Held,
    /// The held segment is passed up; this frame is part of it or is held next.
    Due(MergedSegment),
    /// The held segment is passed up, then this frame on its own.
    Passed(Option<MergedSegment>),
}

/// What a frame does to the packet that GRO is merging, in a machine that forwards it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForwardedFrame {
    /// It joins the merged packet, or begins one if none is held.
    Joins,
    /// It joins and ends the merged packet.
    Ends,
    /// The merged packet ends before it; it begins the next.
    BeginsNext,
    /// The merged packet ends before it, if one is held; it travels alone.
    Alone,
}

/// GRO of one connection in a machine that forwards its frames, in one direction: the rules of a receiving host.
#[derive(Clone, Debug)]
pub struct ForwardingGro(GroState);

impl ForwardingGro {
    /// Holds nothing. Who polls the NIC ends the poll by forgetting this.
    pub fn new() -> ForwardingGro {
        let rules = GroMergeRules { ce: true, last: MERGE_ENDING_FLAGS };
        ForwardingGro(GroState { held: None, frame: 0, ends: Time::MAX, poll: Span::ZERO, rules })
    }

    /// Processes the next frame.
    pub fn add_frame(&mut self, segment: &Segment, codepoint: EcnCodepoint) -> ForwardedFrame {
        let before = self.0.held.map_or(0, |held| held.frames);
        match self.0.receive(segment, codepoint, Time::ZERO) {
            GroResult::Held => ForwardedFrame::Joins,
            GroResult::Due(merged) if merged.frames > before => ForwardedFrame::Ends,
            GroResult::Due(_) => ForwardedFrame::BeginsNext,
            GroResult::Passed(_) => ForwardedFrame::Alone,
        }
    }
}

impl Default for ForwardingGro {
    fn default() -> ForwardingGro {
        ForwardingGro::new()
    }
}

/// Frames merged into one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MergedSegment {
    pub(crate) segment: Segment,
    pub(crate) codepoint: EcnCodepoint,
    pub(crate) frames: u32,
}

/// GRO state of the current poll.
#[derive(Clone, Debug)]
pub(crate) struct GroState {
    held: Option<MergedSegment>,
    /// Length of its first frame (`gso_size`), the peer's segment size.
    frame: u32,
    /// When the poll ends.
    pub(super) ends: Time,
    poll: Span,
    rules: GroMergeRules,
}

/// Rules that prevent merging of contiguous frames.
#[derive(Clone, Copy, Debug)]
struct GroMergeRules {
    ce: bool,
    /// Flags that end a merge with the frame that has them.
    last: TcpFlags,
}

impl GroMergeRules {
    fn new(config: &TcpConfig) -> GroMergeRules {
        let last = if config.is_enabled(Mechanism::GroPush) { MERGE_ENDING_FLAGS } else { TcpFlags::FIN };
        GroMergeRules { ce: config.is_enabled(Mechanism::GroCe), last }
    }
}

impl GroState {
    /// The state that `config` needs.
    pub(super) fn new(config: &TcpConfig) -> Option<Box<GroState>> {
        let poll = config.offload.gro;
        let rules = GroMergeRules::new(config);
        (poll > Span::ZERO).then(|| Box::new(GroState { held: None, frame: 0, ends: Time::MAX, poll, rules }))
    }

    pub(super) fn held_segment(&self) -> Option<&Segment> {
        self.held.as_ref().map(|held| &held.segment)
    }

    /// The peer's segment size, as shown by a received segment of `len` bytes.
    pub(super) fn infer_segment_size(&self, len: u32) -> u32 {
        if self.frame == 0 { len } else { len.min(self.frame) }
    }

    /// Processes a frame.
    pub(super) fn receive(&mut self, segment: &Segment, codepoint: EcnCodepoint, now: Time) -> GroResult {
        if segment.len == 0 || segment.flags.0 & TcpFlags::CONTROL_FLAGS.without(TcpFlags::FIN).0 != 0 {
            return GroResult::Passed(self.flush());
        }
        let new = MergedSegment { segment: *segment, codepoint, frames: 1 };
        let Some(held) = self.held.as_mut().filter(|held| held.can_merge(&new, self.frame, self.rules))
        else {
            let before = self.flush();
            if segment.flags.0 & self.rules.last.0 != 0 {
                return GroResult::Passed(before);
            }
            (self.held, self.frame, self.ends) = (Some(new), segment.len, now.saturating_add(self.poll));
            return before.map_or(GroResult::Held, GroResult::Due);
        };
        held.segment.len += segment.len;
        held.segment.flags = held.segment.flags.with(TcpFlags(segment.flags.0 & MERGE_ENDING_FLAGS.0));
        held.frames += 1;
        if segment.len < self.frame || segment.flags.0 & self.rules.last.0 != 0 {
            return self.flush().map_or(GroResult::Held, GroResult::Due);
        }
        GroResult::Held
    }

    /// Ends the poll and returns the held segment.
    pub(super) fn flush(&mut self) -> Option<MergedSegment> {
        self.ends = Time::MAX;
        self.held.take()
    }
}

impl MergedSegment {
    /// Whether the frame `next` continues this, in a poll whose frames have `frame` bytes.
    fn can_merge(&self, next: &MergedSegment, frame: u32, rules: GroMergeRules) -> bool {
        let (held, segment) = (&self.segment, &next.segment);
        let other = |flags: TcpFlags| flags.without(MERGE_ENDING_FLAGS).without(TcpFlags::CWR);
        segment.seq == held.seq.wrapping_add(held.len)
            && segment.len <= frame
            && held.len + segment.len + IPV4_TCP_HEADER_BYTES < MAX_GRO_BYTES
            && (next.codepoint == self.codepoint || !rules.ce)
            && !segment.flags.contains(TcpFlags::CWR)
            && other(segment.flags) == other(held.flags)
            && segment.ack == held.ack
            && segment.options == held.options
            && segment.stamps == held.stamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gro() -> GroState {
        let rules = GroMergeRules { ce: true, last: MERGE_ENDING_FLAGS };
        GroState { held: None, frame: 0, ends: Time::MAX, poll: Span::from_us(10), rules }
    }

    fn frame(seq: u32, len: u32, flags: TcpFlags) -> Segment {
        Segment { seq, len, ack: 1, flags: TcpFlags::ACK.with(flags), ..Segment::default() }
    }

    fn lengths(frames: &[(Segment, EcnCodepoint)]) -> Vec<u32> {
        let mut gro = gro();
        let mut up = Vec::new();
        for (segment, codepoint) in frames {
            match gro.receive(segment, *codepoint, Time::ZERO) {
                GroResult::Held => {}
                GroResult::Due(merged) => up.push(merged.segment.len),
                GroResult::Passed(merged) => {
                    up.extend(merged.map(|merged| merged.segment.len));
                    up.push(segment.len);
                }
            }
        }
        up.extend(gro.flush().map(|merged| merged.segment.len));
        up
    }

    #[test]
    fn a_poll_merges_what_continues_the_data() {
        let none = TcpFlags(0);
        let plain = |seq| (frame(seq, 1000, none), EcnCodepoint::Ect0);
        assert_eq!(lengths(&[plain(0), plain(1000), plain(2000)]), [3000]);
        // A gap; CE; a short frame; PSH; CWR; a pure ACK; a larger frame.
        assert_eq!(lengths(&[plain(0), plain(2000), plain(3000)]), [1000, 2000]);
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 1000, none), EcnCodepoint::Ce), plain(2000)]),
            [1000, 1000, 1000]
        );
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 10, none), EcnCodepoint::Ect0), plain(1010)]),
            [1010, 1000]
        );
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 1000, TcpFlags::PSH), EcnCodepoint::Ect0), plain(2000)]),
            [2000, 1000]
        );
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 1000, TcpFlags::CWR), EcnCodepoint::Ect0), plain(2000)]),
            [1000, 2000]
        );
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 0, none), EcnCodepoint::Ect0), plain(1000)]),
            [1000, 0, 1000]
        );
        assert_eq!(lengths(&[plain(0), (frame(1000, 1001, none), EcnCodepoint::Ect0)]), [1000, 1001]);
    }

    /// Before the first frame nothing is known of the peer's segments; then a merged packet counts as one of its frames.
    #[test]
    fn a_merged_packet_shows_the_size_of_its_first_frame() {
        let mut gro = gro();
        assert_eq!(gro.infer_segment_size(3000), 3000);
        gro.receive(&frame(0, 1000, TcpFlags(0)), EcnCodepoint::NotEct, Time::ZERO);
        assert_eq!([3000, 1000, 10].map(|len| gro.infer_segment_size(len)), [1000, 1000, 10]);
    }

    #[test]
    fn a_machine_that_forwards_merges_by_the_same_rules() {
        use ForwardedFrame::{Alone, BeginsNext, Ends, Joins};
        let none = TcpFlags(0);
        let mut gro = ForwardingGro::new();
        let mut add = |seq, len, flags| gro.add_frame(&frame(seq, len, flags), EcnCodepoint::Ect0);
        assert_eq!([add(0, 1000, none), add(1000, 1000, none), add(2000, 10, none)], [Joins, Joins, Ends]);
        assert_eq!([add(2010, 1000, none), add(9000, 1000, none)], [Joins, BeginsNext]);
        assert_eq!([add(10_000, 1000, TcpFlags::PSH), add(11_000, 0, none)], [Ends, Alone]);
    }

    #[test]
    fn a_merged_packet_stays_below_64_kib() {
        let frames: Vec<_> =
            (0..100).map(|n| (frame(n * 1448, 1448, TcpFlags(0)), EcnCodepoint::NotEct)).collect();
        assert_eq!(lengths(&frames)[0], 45 * 1448);
    }
}
