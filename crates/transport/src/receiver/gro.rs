//! Receive offload (GRO): frames of a connection that come in one poll of the NIC reach TCP as one segment.
//!
//! The first data begin a poll, which ends `gro` later (interrupt moderation, or `gro_flush_timeout`); what comes until then and continues the
//! data is merged, up to 64 KB, by the rules of Linux 6.1 (`inet_gro_receive`, `tcp_gro_receive`): the IP header's ECN field, the other flags, the ACK
//! field and the options must be the same. CWR begins a new one; a short frame, PSH and FIN end one. TCP acknowledges merged segments, so ACKs
//! are fewer, and each stands for more. What cannot be merged ends what is held, goes before no data of its connection, and is held itself if it has data
//! in full frames. A poll is a connection's own here, where a NIC polls all of a queue at once; its budget (64 frames) is never the limit for one connection.

use crate::config::Config;
use crate::mechanisms::Mechanism;
use crate::segment::{Ecn, Flags, Segment};
use pauseframe_units::{Span, Time};

/// `GRO_LEGACY_MAX_SIZE`: no merged packet is larger, headers included.
const MAX_SIZE: u32 = 65_536;
/// IPv4 and TCP with timestamps.
const HEADERS: u32 = 52;

/// What ends a merge as its last frame.
const LAST: Flags = Flags(Flags::PSH.0 | Flags::FIN.0);

/// What a frame does to what is held.
pub(crate) enum Taken {
    /// It is held, and nothing is due.
    Held,
    /// What was held goes up, this frame included or now in its place.
    Due(Merged),
    /// What was held goes up, and after it this frame by itself.
    Passed(Option<Merged>),
}

/// Frames merged into one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merged {
    pub(crate) segment: Segment,
    pub(crate) codepoint: Ecn,
    pub(crate) frames: u32,
}

/// The frames of the present poll.
#[derive(Clone, Debug)]
pub(crate) struct Gro {
    held: Option<Merged>,
    /// Length of the first of them (`gso_size`): the peer's segments are that large.
    frame: u32,
    /// When the poll ends.
    pub(super) ends: Time,
    poll: Span,
    rules: Rules,
}

/// What keeps frames apart that continue each other.
#[derive(Clone, Copy, Debug)]
struct Rules {
    ce: bool,
    /// Flags that end a merge with the frame that has them.
    last: Flags,
}

impl Rules {
    fn new(config: &Config) -> Rules {
        let last = if config.has(Mechanism::GroPush) { LAST } else { Flags::FIN };
        Rules { ce: config.has(Mechanism::GroCe), last }
    }
}

impl Gro {
    /// The state that `config` needs.
    pub(super) fn new(config: &Config) -> Option<Box<Gro>> {
        let poll = config.offload.gro;
        let rules = Rules::new(config);
        (poll > Span::ZERO).then(|| Box::new(Gro { held: None, frame: 0, ends: Time::MAX, poll, rules }))
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> u64 {
        self.held.map_or(0, |held| u64::from(held.segment.len))
    }

    /// What the segment that TCP takes in, of `len` bytes, tells of the size of the peer's.
    pub(super) fn frame_of(&self, len: u32) -> u32 {
        if self.frame == 0 { len } else { len.min(self.frame) }
    }

    /// A frame comes.
    pub(super) fn take(&mut self, segment: &Segment, codepoint: Ecn, now: Time) -> Taken {
        if segment.len == 0 || segment.flags.0 & Flags::CONTROL.without(Flags::FIN).0 != 0 {
            return Taken::Passed(self.release());
        }
        let new = Merged { segment: *segment, codepoint, frames: 1 };
        let Some(held) = self.held.as_mut().filter(|held| held.is_continued_by(&new, self.frame, self.rules))
        else {
            let before = self.release();
            if segment.flags.0 & self.rules.last.0 != 0 {
                return Taken::Passed(before);
            }
            (self.held, self.frame, self.ends) = (Some(new), segment.len, now.saturating_add(self.poll));
            return before.map_or(Taken::Held, Taken::Due);
        };
        held.segment.len += segment.len;
        held.segment.flags = held.segment.flags.with(Flags(segment.flags.0 & LAST.0));
        held.frames += 1;
        if segment.len < self.frame || segment.flags.0 & self.rules.last.0 != 0 {
            return self.release().map_or(Taken::Held, Taken::Due);
        }
        Taken::Held
    }

    /// The poll ends, or must.
    pub(super) fn release(&mut self) -> Option<Merged> {
        self.ends = Time::MAX;
        self.held.take()
    }
}

impl Merged {
    /// Whether the frame `next` continues this, in a poll whose frames have `frame` bytes.
    fn is_continued_by(&self, next: &Merged, frame: u32, rules: Rules) -> bool {
        let (held, segment) = (&self.segment, &next.segment);
        let other = |flags: Flags| flags.without(LAST).without(Flags::CWR);
        segment.seq == held.seq.wrapping_add(held.len)
            && segment.len <= frame
            && held.len + segment.len + HEADERS < MAX_SIZE
            && (next.codepoint == self.codepoint || !rules.ce)
            && !segment.flags.has(Flags::CWR)
            && other(segment.flags) == other(held.flags)
            && segment.ack == held.ack
            && segment.options == held.options
            && segment.stamps == held.stamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gro() -> Gro {
        let rules = Rules { ce: true, last: LAST };
        Gro { held: None, frame: 0, ends: Time::MAX, poll: Span::from_us(10), rules }
    }

    fn frame(seq: u32, len: u32, flags: Flags) -> Segment {
        Segment { seq, len, ack: 1, flags: Flags::ACK.with(flags), ..Segment::default() }
    }

    fn lengths(frames: &[(Segment, Ecn)]) -> Vec<u32> {
        let mut gro = gro();
        let mut up = Vec::new();
        for (segment, codepoint) in frames {
            match gro.take(segment, *codepoint, Time::ZERO) {
                Taken::Held => {}
                Taken::Due(merged) => up.push(merged.segment.len),
                Taken::Passed(merged) => {
                    up.extend(merged.map(|merged| merged.segment.len));
                    up.push(segment.len);
                }
            }
        }
        up.extend(gro.release().map(|merged| merged.segment.len));
        up
    }

    #[test]
    fn a_poll_merges_what_continues_the_data() {
        let none = Flags(0);
        let plain = |seq| (frame(seq, 1000, none), Ecn::Ect0);
        assert_eq!(lengths(&[plain(0), plain(1000), plain(2000)]), [3000]);
        // A gap; CE; a short frame; PSH; CWR; a pure ACK; a larger frame.
        assert_eq!(lengths(&[plain(0), plain(2000), plain(3000)]), [1000, 2000]);
        assert_eq!(lengths(&[plain(0), (frame(1000, 1000, none), Ecn::Ce), plain(2000)]), [1000, 1000, 1000]);
        assert_eq!(lengths(&[plain(0), (frame(1000, 10, none), Ecn::Ect0), plain(1010)]), [1010, 1000]);
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 1000, Flags::PSH), Ecn::Ect0), plain(2000)]),
            [2000, 1000]
        );
        assert_eq!(
            lengths(&[plain(0), (frame(1000, 1000, Flags::CWR), Ecn::Ect0), plain(2000)]),
            [1000, 2000]
        );
        assert_eq!(lengths(&[plain(0), (frame(1000, 0, none), Ecn::Ect0), plain(1000)]), [1000, 0, 1000]);
        assert_eq!(lengths(&[plain(0), (frame(1000, 1001, none), Ecn::Ect0)]), [1000, 1001]);
    }

    #[test]
    fn a_merged_packet_stays_below_64_kib() {
        let frames: Vec<_> = (0..100).map(|n| (frame(n * 1448, 1448, Flags(0)), Ecn::NotEct)).collect();
        assert_eq!(lengths(&frames)[0], 45 * 1448);
    }
}
