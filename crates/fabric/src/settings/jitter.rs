//! Random delays of what hosts send: they keep flows from locking in phase.

use super::Overhead;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, wrong_sort};
use pauseframe_units::{BitRate, LineRate, Priority, Span};

/// Random delay of frames that a host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jitter {
    /// Up to this much for every frame.
    Always(Span),
    /// Only for frames right behind another one, while at least two flows are active; docs/models/clocks.md has the amounts.
    Auto,
}

impl Setting for Jitter {
    fn shape() -> Shape {
        Shape::Any("\"auto\" or a time", vec![Shape::Pattern(r"^\s*auto\s*$"), Span::shape()])
    }
    fn read(item: &Item) -> Result<Jitter, Mistake> {
        match &item.value {
            Value::Text(text) if text.trim() == "auto" => Ok(Jitter::Auto),
            Value::Text(text) if !text.contains(|c: char| c.is_ascii_digit()) => {
                wrong_sort(item, "\"auto\" or a time such as \"5 us\"")
            }
            _ => Span::read(item).map(Jitter::Always),
        }
    }
    fn toml(&self) -> String {
        match self {
            Jitter::Auto => "\"auto\"".to_owned(),
            Jitter::Always(most) => most.toml(),
        }
    }
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
