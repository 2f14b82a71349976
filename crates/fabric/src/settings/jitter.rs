//! Random delays of what hosts send: they keep flows from locking in phase.

use super::Overhead;
use pauseframe_units::{BitRate, LineRate, Priority, Span};

/// How late what a host sends can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jitter {
    /// Everything that it sends, up to this much.
    Always(Span),
    /// What leaves right behind something else, while at least two flows are under way; docs/models/clocks.md has the amounts.
    Auto,
}

/// Automatic jitter of a wire spans so many frames of the MTU: fewer than eight where that takes longer than the time below. Fewer than three, or a part of
/// one, would leave some phases better off than others (docs/models/clocks.md).
const FRAMES: std::ops::RangeInclusive<u64> = 3..=8;
const WIRE_MAX: Span = Span::from_us(10);
/// Automatic jitter of the stack, before the NIC.
const STACK: Span = Span::from_us(1);

impl Jitter {
    /// No jitter.
    pub const NONE: Jitter = Jitter::Always(Span::ZERO);

    /// The most by which frames on a host's link of `rate` are late.
    pub(crate) fn in_flight_frames(self, rate: BitRate, mtu: u32, overhead: Overhead) -> Span {
        match self {
            Jitter::Always(most) => most,
            Jitter::Auto => {
                let frame = overhead.frame_size(mtu, Priority::default()) + overhead.gap;
                let frame = LineRate::new(rate).serialise(frame);
                frame * (WIRE_MAX.0 / frame.0).clamp(*FRAMES.start(), *FRAMES.end())
            }
        }
    }

    /// The most by which segments are late in the stack.
    pub(crate) fn in_stack(self) -> Span {
        match self {
            Jitter::Always(most) => most,
            Jitter::Auto => STACK,
        }
    }

    /// It is drawn only where flows contend.
    pub(crate) fn is_auto(self) -> bool {
        self == Jitter::Auto
    }
}
