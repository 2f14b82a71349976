//! Types for time, time span, bytes, rate and priority.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A point in time, in picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

/// A time span in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// A rate in bits per second; never zero when it serialises packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BitRate(pub u64);

/// An IEEE 802.1p priority, 0 to 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Priority(u8);

impl Priority {
    /// Number of priorities of a port (IEEE 802.1Q: a three-bit code point).
    pub const COUNT: usize = 8;

    /// All priorities.
    pub const ALL: std::ops::RangeInclusive<Priority> = Priority(0)..=Priority(7);

    /// The priority with this code point, if below 8.
    pub const fn new(code_point: u8) -> Option<Priority> {
        if (code_point as usize) < Self::COUNT { Some(Priority(code_point)) } else { None }
    }

    /// The code point, 0 to 7.
    #[inline]
    pub fn code_point(self) -> u8 {
        self.0
    }

    /// The index in an array of the eight priorities.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

const PS_PER_S: u64 = 1_000_000_000_000;

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any event of a run.
    pub const MAX: Time = Time(u64::MAX);

    /// Seconds since the start, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// Microseconds since the start, for tables.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub fn saturating_since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This time plus `span`, or [`Time::MAX`] if the sum overflows.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// The empty time span.
    pub const ZERO: Span = Span(0);
    /// Longer than any run.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `n` nanoseconds.
    pub const fn from_ns(n: u64) -> Span {
        Span(n * 1_000)
    }
    /// A span of `n` microseconds.
    pub const fn from_us(n: u64) -> Span {
        Span(n * 1_000_000)
    }
    /// A span of `n` milliseconds.
    pub const fn from_ms(n: u64) -> Span {
        Span(n * 1_000_000_000)
    }
    /// A span of `n` seconds.
    pub const fn from_secs(n: u64) -> Span {
        Span(n * PS_PER_S)
    }
    /// A span of `s` seconds, to the nearest picosecond; negative values and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Span {
        Span((s * PS_PER_S as f64).round() as u64)
    }
    /// The span in seconds, for display and formulas.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// The span in microseconds, for tables.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// The sum of this span and `other`, or [`Span::MAX`] if the sum overflows.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
    /// This span times `n`, or [`Span::MAX`] if the product overflows.
    #[inline]
    #[must_use]
    pub fn saturating_mul(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

impl Bytes {
    /// The size zero.
    pub const ZERO: Bytes = Bytes(0);
    /// A size of `n` thousand bytes ("KB").
    pub const fn kb(n: u64) -> Bytes {
        Bytes(n * 1000)
    }
}

impl BitRate {
    /// A rate of `n` gigabits per second.
    pub const fn gbps(n: u64) -> BitRate {
        BitRate(n * 1_000_000_000)
    }

    /// The rate in gigabits per second, for display.
    pub fn as_gbps_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The serialisation time of `size`, rounded up to a picosecond: the only rounding rule of the simulator.
    /// [`Span::MAX`] if the time overflows.
    ///
    /// # Panics
    /// If the rate is zero; scenarios with such a link are rejected when they are loaded.
    pub fn serialise(self, size: Bytes) -> Span {
        assert!(self.0 > 0, "a link of rate zero cannot serialise");
        // The division of two words is a library call, and no frame needs it.
        if let Some(bit_ps) = size.0.checked_mul(8 * PS_PER_S) {
            return Span(bit_ps.div_ceil(self.0));
        }
        let bit_ps = u128::from(size.0) * 8 * u128::from(PS_PER_S);
        Span(u64::try_from(bit_ps.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// The number of whole bytes that this rate carries in `span` (bandwidth-delay product).
    pub fn bytes_in(self, span: Span) -> Bytes {
        Bytes((u128::from(self.0) * u128::from(span.0) / 8 / u128::from(PS_PER_S)) as u64)
    }
}

/// A rate prepared for the hot path: like [`BitRate::serialise`], but without a division if a byte takes a
/// whole number of picoseconds (10, 25, 40, 100, 400 Gb/s ...).
///
/// One word: the picoseconds per byte, or the rate with the highest bit set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineRate(u64);

/// Flag for a rate at which a byte takes a fractional number of picoseconds.
const INEXACT: u64 = 1 << 63;
/// Picoseconds per byte at a rate of 1 bit/s.
const BYTE_PS: u64 = 8 * PS_PER_S;

impl LineRate {
    /// Prepares `rate`. A rate of 2^63 bit/s or more counts as just below: a frame takes one picosecond at
    /// both.
    pub fn new(rate: BitRate) -> LineRate {
        let exact = rate.0 > 0 && BYTE_PS.is_multiple_of(rate.0);
        LineRate(if exact { BYTE_PS / rate.0 } else { INEXACT | rate.0.min(INEXACT - 1) })
    }

    /// Returns the same time as [`BitRate::serialise`].
    #[inline]
    pub fn serialise(self, size: u32) -> Span {
        if self.0 & INEXACT == 0 {
            Span(self.0 * u64::from(size))
        } else {
            self.rate().serialise(Bytes(u64::from(size)))
        }
    }

    /// The rate that this value was made from.
    pub fn rate(self) -> BitRate {
        BitRate(if self.0 & INEXACT == 0 { BYTE_PS / self.0 } else { self.0 ^ INEXACT })
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}
impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}
impl Sub for Time {
    type Output = Span;
    #[inline]
    fn sub(self, earlier: Time) -> Span {
        Span(self.0 - earlier.0)
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, n: u64) -> Span {
        Span(self.0 * n)
    }
}
impl Div<u64> for Span {
    type Output = Span;
    #[inline]
    fn div(self, n: u64) -> Span {
        Span(self.0 / n)
    }
}

macro_rules! additive {
    ($name:ident) => {
        impl Add for $name {
            type Output = $name;
            #[inline]
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }
        impl Sub for $name {
            type Output = $name;
            #[inline]
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }
        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }
        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: $name) {
                self.0 -= other.0;
            }
        }
    };
}
additive!(Span);
additive!(Bytes);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(
            f,
            self.0,
            &[(PS_PER_S, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns")],
            "ps",
        )
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")], "B")
    }
}
impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(PS_PER_S, "Tbps"), (1_000_000_000, "Gbps"), (1_000_000, "Mbps"), (1_000, "Kbps")];
        write_exact(f, self.0, &steps, "bps")
    }
}
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes `value` in its largest possible unit with all digits, so that parsing returns the same value.
fn write_exact(f: &mut fmt::Formatter<'_>, value: u64, steps: &[(u64, &str)], base: &str) -> fmt::Result {
    let Some(&(scale, unit)) = steps.iter().find(|(scale, _)| value >= *scale) else {
        return write!(f, "{value} {base}");
    };
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return write!(f, "{whole} {unit}");
    }
    let width = scale.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    write!(f, "{whole}.{} {unit}", digits.trim_end_matches('0'))
}
