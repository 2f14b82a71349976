//! Random delays of what hosts send: they keep flows from locking in phase.

use super::FrameOverhead;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, wrong_sort};
use pauseframe_units::{BitRate, LineRate, Priority, Span};

/// Random delay of frames that a host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JitterSetting {
    /// Up to this much for every frame.
    Always(Span),
    /// Only for frames right behind another one, while at least two flows are active; docs/models/clocks.md has the amounts.
    Auto,
}

impl Setting for JitterSetting {
    fn shape() -> Shape {
        Shape::Any("\"auto\" or a time", vec![Shape::Pattern(r"^\s*auto\s*$"), Span::shape()])
    }
    fn read(item: &Item) -> Result<JitterSetting, Mistake> {
        match &item.value {
            Value::Text(text) if text.trim() == "auto" => Ok(JitterSetting::Auto),
            Value::Text(text) if !text.contains(|c: char| c.is_ascii_digit()) => {
                wrong_sort(item, "\"auto\" or a time such as \"5 us\"")
            }
            _ => Span::read(item).map(JitterSetting::Always),
        }
    }
    fn toml(&self) -> String {
        match self {
            JitterSetting::Auto => "\"auto\"".to_owned(),
            JitterSetting::Always(most) => most.toml(),
        }
    }
}

/// Range of automatic wire jitter, in full frames: eight, or fewer (at least three) if eight take longer than the limit below. Less would favour some
/// phases over others (docs/models/clocks.md).
const AUTO_JITTER_FRAMES: std::ops::RangeInclusive<u64> = 3..=8;
const MAX_AUTO_WIRE_JITTER: Span = Span::from_us(10);
/// Automatic jitter of the stack, before the NIC.
const AUTO_STACK_JITTER: Span = Span::from_us(1);

impl JitterSetting {
    /// No jitter.
    pub const NONE: JitterSetting = JitterSetting::Always(Span::ZERO);

    /// Maximum jitter of frames on a host's link of `rate`.
    pub(crate) fn max_wire_jitter(self, rate: BitRate, mtu: u32, overhead: FrameOverhead) -> Span {
        match self {
            JitterSetting::Always(most) => most,
            JitterSetting::Auto => {
                let frame = overhead.frame_size_of_ip_packet(mtu, Priority::default()) + overhead.gap;
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
            JitterSetting::Always(most) => most,
            JitterSetting::Auto => AUTO_STACK_JITTER,
        }
    }

    /// Whether it applies only while flows contend.
    pub(crate) fn is_automatic_jitter(self) -> bool {
        self == JitterSetting::Auto
    }
}
