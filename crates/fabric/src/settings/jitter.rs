//! Random delays of what hosts send: they keep flows from locking in phase.

use super::Overhead;
use pauseframe_units::{BitRate, LineRate, Priority, Span};

/// Random delay of frames that a host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jitter {
    /// Up to this much for every frame.
    Always(Span),
    /// Only for frames right behind another one, while at least two flows are active; docs/models/clocks.md has the amounts.
    Auto,
}

/// Range of automatic wire jitter, in full frames: eight, or fewer (at least three) if eight take longer than the limit below. Less would favour some
/// phases over others (docs/models/clocks.md).
const AUTO_JITTER_FRAMES: std::ops::RangeInclusive<u64> = 3..=8;
const MAX_AUTO_WIRE_JITTER: Span = Span::from_us(10);
/// Automatic jitter of the stack, before the NIC.
const AUTO_STACK_JITTER: Span = Span::from_us(1);

impl Jitter {
    /// No jitter.
    pub const NONE: Jitter = Jitter::Always(Span::ZERO);

    /// Maximum jitter of frames on a host's link of `rate`.
    pub(crate) fn max_wire_jitter(self, rate: BitRate, mtu: u32, overhead: Overhead) -> Span {
        match self {
            Jitter::Always(most) => most,
            Jitter::Auto => {
                let frame = overhead.frame_size(mtu, Priority::default()) + overhead.gap;
                let frame = LineRate::new(rate).serialise(frame);
                frame
                    * (MAX_AUTO_WIRE_JITTER.0 / frame.0)
                        .clamp(*AUTO_JITTER_FRAMES.start(), *AUTO_JITTER_FRAMES.end())
            }
        }
    }

    /// Maximum jitter of segments in the stack.
    pub(crate) fn max_stack_jitter(self) -> Span {
        match self {
            Jitter::Always(most) => most,
            Jitter::Auto => AUTO_STACK_JITTER,
        }
    }

    /// Whether it applies only while flows contend.
    pub(crate) fn is_auto(self) -> bool {
        self == Jitter::Auto
    }
}
