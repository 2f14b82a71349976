//! Quantities as people write them: "10 Gbps", "1.5 us", "96 KB". A bare number is an error.

use crate::{BitRate, Bytes, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Why a text is not a quantity; the message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for ParseError {}

/// Names of units and how many of the smallest they are.
pub type Units = &'static [(&'static str, u64)];

/// Times.
pub const SPAN_UNITS: Units = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];
/// Sizes.
pub const BYTES_UNITS: Units = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
/// Rates.
pub const RATE_UNITS: Units =
    &[("bps", 1), ("Kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];

impl FromStr for Span {
    type Err = ParseError;
    /// "240 us", "1.5ms", "0 s"; at most 213 days, whole picoseconds.
    fn from_str(text: &str) -> Result<Span, ParseError> {
        parse(text, SPAN_UNITS, "a time such as \"240 us\"").map(Span)
    }
}
impl FromStr for Bytes {
    type Err = ParseError;
    /// "1460 B", "225 KB" (thousands), "9 MiB" (1024 each).
    fn from_str(text: &str) -> Result<Bytes, ParseError> {
        parse(text, BYTES_UNITS, "a size such as \"96 KB\"").map(Bytes)
    }
}
impl FromStr for BitRate {
    type Err = ParseError;
    /// "10 Gbps", "2.5 Gbps", "100 Mbps".
    fn from_str(text: &str) -> Result<BitRate, ParseError> {
        parse(text, RATE_UNITS, "a rate such as \"10 Gbps\"").map(BitRate)
    }
}

fn parse(text: &str, units: Units, example: &str) -> Result<u64, ParseError> {
    let fail = |why: String| Err(ParseError { message: format!("{why}; expected {example}") });
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    if number.is_empty() {
        return fail(format!("{text:?} does not begin with a number (negative values are not allowed)"));
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let known = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return fail(if unit.is_empty() {
            format!("{text:?} has no unit (one of {known})")
        } else {
            format!("{text:?} has the unknown unit {unit:?} (one of {known})")
        });
    };
    match decimal(number, scale) {
        Decimal::Exact(value) => Ok(value),
        Decimal::TooLarge => fail(format!("{text:?} is too large")),
        Decimal::TooFine => fail(format!("{text:?} is finer than the smallest unit, one {}", units[0].0)),
        Decimal::Malformed => fail(format!("{number:?} is not a number")),
    }
}

enum Decimal {
    Exact(u64),
    TooLarge,
    TooFine,
    Malformed,
}

/// `number` times `scale` in exact integer arithmetic: no value is rounded on its way in.
fn decimal(number: &str, scale: u64) -> Decimal {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || fraction.contains('.') {
        return Decimal::Malformed;
    }
    let Ok(whole) = whole.parse::<u128>() else { return Decimal::TooLarge };
    if fraction.len() > 18 {
        return Decimal::TooFine;
    }
    let tens = 10u128.pow(fraction.len() as u32);
    let rest = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().unwrap_or(0) };
    let Some(scaled) = whole.checked_mul(tens).and_then(|w| (w + rest).checked_mul(u128::from(scale))) else {
        return Decimal::TooLarge;
    };
    if scaled % tens != 0 {
        return Decimal::TooFine;
    }
    u64::try_from(scaled / tens).map_or(Decimal::TooLarge, Decimal::Exact)
}

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
as_text!(Span, Bytes, BitRate);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_units_of_the_field() {
        assert_eq!("240 us".parse(), Ok(Span::from_us(240)));
        assert_eq!("1.5us".parse(), Ok(Span::from_ns(1500)));
        assert_eq!("96 KB".parse(), Ok(Bytes(96_000)));
        assert_eq!("22.5 KB".parse(), Ok(Bytes(22_500)));
        assert_eq!("1 KiB".parse(), Ok(Bytes(1024)));
        assert_eq!("2.5 Gbps".parse(), Ok(BitRate(2_500_000_000)));
    }

    #[test]
    fn refuses_what_could_be_misread() {
        for bad in ["10", "-3 us", "", "us", "1.2.3 us", "1,5 us", "1e3 us", "0.0001 ps", ".5 us"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?} was accepted");
        }
        assert!("96 kb".parse::<Bytes>().is_err());
        assert!("99999999999999999999999 GB".parse::<Bytes>().is_err());
        assert!("1.5 B".parse::<Bytes>().is_err());
        let message = "96".parse::<Bytes>().unwrap_err().to_string();
        assert!(message.contains("no unit") && message.contains("96 KB"), "{message}");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_equal(value: u64) {
            prop_assert_eq!(Span(value).to_string().parse(), Ok(Span(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(BitRate(value).to_string().parse(), Ok(BitRate(value)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,24}") {
            let _ = text.parse::<Span>();
            let _ = text.parse::<Bytes>();
        }

        #[test]
        fn the_prepared_rate_serialises_alike(rate in 1u64..500_000_000_000, size in 1u32..10_000) {
            let exact = BitRate(rate).serialise(Bytes(u64::from(size)));
            let line = crate::LineRate::new(BitRate(rate));
            prop_assert_eq!(line.serialise(size), exact);
            prop_assert_eq!(line.rate(), BitRate(rate));
        }
    }
}
