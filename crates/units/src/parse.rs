//! Parses quantities with units: "10 Gbps", "1.5 us", "96 KB". A number without a unit is an error.
//!
//! A suggestion never has another magnitude than the user's text: if a unit is ambiguous or missing, the hint
//! lists the value of each reading.

use crate::{BitRate, Bytes, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Reason why a text is not a quantity; the message contains the allowed forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    message: String,
    hint: String,
}

impl ParseError {
    /// The mistake and the allowed forms of the text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A text to suggest instead, or "".
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}
impl std::error::Error for ParseError {}

/// Names of units, with their size in multiples of the smallest unit.
pub type Units = &'static [(&'static str, u64)];

/// Units of time.
pub const SPAN_UNITS: Units = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];
/// Units of size.
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
/// Units of rate.
pub const RATE_UNITS: Units =
    &[("bps", 1), ("Kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];

/// A type of quantity, with its units.
pub trait Quantity: fmt::Display + FromStr<Err = ParseError> {
    /// A description with an example: "a time such as \"240 us\"".
    const EXAMPLE: &'static str;
    /// The units of this quantity.
    const UNITS: Units;
    /// The likely unit of a number without a unit: "seconds".
    const BASE_UNIT: &'static str;
    /// Size of the base unit in multiples of the smallest unit.
    const BASE: u64;
    /// Unit names of other programs, with the unit here, the factor and a hint.
    const FOREIGN: &'static [Foreign];

    /// The quantity of `value` smallest units.
    fn of_smallest(value: u64) -> Self;

    /// The text to suggest for a number without a unit.
    fn of_base_unit(number: f64) -> String {
        let units = Self::UNITS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        // Nobody has links of some bits per second.
        if (0.1..=4000.0).contains(&number) && Self::UNITS.contains(&("Gbps", 1_000_000_000)) {
            return format!("if {number} is in Gb/s, write \"{number} Gbps\"; units are {units}");
        }
        match exact::<Self>(number, Self::BASE) {
            Some(value) => {
                format!("if {number} is in {}, write \"{value}\"; units are {units}", Self::BASE_UNIT)
            }
            None => format!("write the number with its unit in quotes; units are {units}"),
        }
    }
}

/// A unit name of another program; `any_case` tells whether its letter case is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    name: &'static str,
    any_case: bool,
    /// The equivalent unit here, and its number per foreign unit.
    means: Option<(&'static str, u64)>,
    note: &'static str,
}

const fn exactly(name: &'static str, unit: &'static str, times: u64, note: &'static str) -> Foreign {
    Foreign { name, any_case: false, means: Some((unit, times)), note }
}

const fn like(name: &'static str, unit: &'static str) -> Foreign {
    Foreign { name, any_case: true, means: Some((unit, 1)), note: "" }
}

const fn ambiguous(name: &'static str, note: &'static str) -> Foreign {
    Foreign { name, any_case: false, means: None, note }
}

/// Multiplies `number` by `scale`, if the result is a whole number of the smallest unit.
fn exact<T: Quantity>(number: f64, scale: u64) -> Option<T> {
    let value = number * scale as f64;
    let whole = value.round();
    let fits = (0.0..1e18).contains(&value) && (value - whole).abs() <= 1e-9 * value.max(1.0);
    fits.then(|| T::of_smallest(whole as u64))
}

const BYTES_PER_SECOND: &str = "a capital B counts bytes";
const SAY_WHICH_RATE: &str =
    "all capitals may mean bits or bytes: write Gbps for bits, and 8 times the number for bytes";
const SAY_WHICH_SIZE: &str =
    "a small b counts bits and sizes are in bytes: write B for bytes, or divide bits by 8";

impl Quantity for Span {
    const EXAMPLE: &'static str = "a time such as \"240 us\"";
    const UNITS: Units = SPAN_UNITS;
    const BASE_UNIT: &'static str = "seconds";
    const BASE: u64 = 1_000_000_000_000;
    const FOREIGN: &'static [Foreign] = &[
        like("\u{b5}s", "us"),
        like("\u{3bc}s", "us"),
        like("usec", "us"),
        like("usecs", "us"),
        like("microsecond", "us"),
        like("microseconds", "us"),
        like("nsec", "ns"),
        like("nanoseconds", "ns"),
        like("psec", "ps"),
        like("msec", "ms"),
        like("msecs", "ms"),
        like("millisecond", "ms"),
        like("milliseconds", "ms"),
        like("sec", "s"),
        like("secs", "s"),
        like("second", "s"),
        like("seconds", "s"),
        like("minute", "min"),
        like("minutes", "min"),
        like("hour", "h"),
        like("hours", "h"),
        ambiguous("m", "m may mean minutes or milliseconds: write min or ms"),
        ambiguous("M", "write min for minutes, ms for milliseconds"),
    ];
    fn of_smallest(value: u64) -> Span {
        Span(value)
    }
}

impl Quantity for Bytes {
    const EXAMPLE: &'static str = "a size such as \"96 KB\"";
    const UNITS: Units = BYTES_UNITS;
    const BASE_UNIT: &'static str = "bytes";
    const BASE: u64 = 1;
    const FOREIGN: &'static [Foreign] = &[
        exactly("kB", "KB", 1, ""),
        like("byte", "B"),
        like("bytes", "B"),
        like("octets", "B"),
        like("kbyte", "KB"),
        like("kbytes", "KB"),
        like("mbyte", "MB"),
        like("mbytes", "MB"),
        like("gbyte", "GB"),
        like("gbytes", "GB"),
        ambiguous("b", SAY_WHICH_SIZE),
        ambiguous("kb", SAY_WHICH_SIZE),
        ambiguous("Kb", SAY_WHICH_SIZE),
        ambiguous("mb", SAY_WHICH_SIZE),
        ambiguous("Mb", SAY_WHICH_SIZE),
        ambiguous("gb", SAY_WHICH_SIZE),
        ambiguous("Gb", SAY_WHICH_SIZE),
        like("kib", "KiB"),
        like("mib", "MiB"),
        like("gib", "GiB"),
        ambiguous("k", "write KB for 1,000 bytes, KiB for 1,024"),
        ambiguous("K", "write KB for 1,000 bytes, KiB for 1,024"),
        ambiguous("m", "write MB for 1,000,000 bytes, MiB for 1,048,576"),
        ambiguous("M", "write MB for 1,000,000 bytes, MiB for 1,048,576"),
        ambiguous("g", "write GB for 1,000,000,000 bytes, GiB for 1,073,741,824"),
        ambiguous("G", "write GB for 1,000,000,000 bytes, GiB for 1,073,741,824"),
        ambiguous("packets", "sizes are in bytes: multiply by the bytes of a packet"),
        ambiguous("pkts", "sizes are in bytes: multiply by the bytes of a packet"),
        ambiguous("segments", "sizes are in bytes: multiply by the bytes of a segment"),
        ambiguous("MSS", "sizes are in bytes: multiply by the bytes of a segment"),
        ambiguous("cells", "sizes are in bytes: multiply by the bytes of a cell"),
    ];
    fn of_smallest(value: u64) -> Bytes {
        Bytes(value)
    }
}

impl Quantity for BitRate {
    const EXAMPLE: &'static str = "a rate such as \"10 Gbps\"";
    const UNITS: Units = RATE_UNITS;
    const BASE_UNIT: &'static str = "bits per second";
    const BASE: u64 = 1;
    const FOREIGN: &'static [Foreign] = &[
        exactly("Bps", "bps", 8, BYTES_PER_SECOND),
        exactly("KBps", "Kbps", 8, BYTES_PER_SECOND),
        exactly("kBps", "Kbps", 8, BYTES_PER_SECOND),
        exactly("MBps", "Mbps", 8, BYTES_PER_SECOND),
        exactly("GBps", "Gbps", 8, BYTES_PER_SECOND),
        exactly("TBps", "Tbps", 8, BYTES_PER_SECOND),
        exactly("B/s", "bps", 8, BYTES_PER_SECOND),
        exactly("KB/s", "Kbps", 8, BYTES_PER_SECOND),
        exactly("kB/s", "Kbps", 8, BYTES_PER_SECOND),
        exactly("MB/s", "Mbps", 8, BYTES_PER_SECOND),
        exactly("GB/s", "Gbps", 8, BYTES_PER_SECOND),
        exactly("TB/s", "Tbps", 8, BYTES_PER_SECOND),
        ambiguous("KBPS", SAY_WHICH_RATE),
        ambiguous("MBPS", SAY_WHICH_RATE),
        ambiguous("GBPS", SAY_WHICH_RATE),
        ambiguous("TBPS", SAY_WHICH_RATE),
        exactly("b/s", "bps", 1, ""),
        exactly("kb/s", "Kbps", 1, ""),
        exactly("Kb/s", "Kbps", 1, ""),
        exactly("Mb/s", "Mbps", 1, ""),
        exactly("Gb/s", "Gbps", 1, ""),
        exactly("Tb/s", "Tbps", 1, ""),
        exactly("kbps", "Kbps", 1, ""),
        exactly("mbps", "Mbps", 1, ""),
        exactly("gbps", "Gbps", 1, ""),
        exactly("tbps", "Tbps", 1, ""),
        like("kbit/s", "Kbps"),
        like("mbit/s", "Mbps"),
        like("gbit/s", "Gbps"),
        like("tbit/s", "Tbps"),
        like("mbit", "Mbps"),
        like("gbit", "Gbps"),
        like("gbits", "Gbps"),
        like("gigabit", "Gbps"),
        like("gbe", "Gbps"),
        exactly("G", "Gbps", 1, ""),
        exactly("Gb", "Gbps", 1, ""),
        ambiguous(
            "GB",
            "a rate has bits per second: for bytes per second write 8 times the number with Gbps",
        ),
        ambiguous(
            "MB",
            "a rate has bits per second: for bytes per second write 8 times the number with Mbps",
        ),
    ];
    fn of_smallest(value: u64) -> BitRate {
        BitRate(value)
    }
}

macro_rules! from_text {
    ($($name:ident),*) => {$(
        impl FromStr for $name {
            type Err = ParseError;
            /// Parses "240 us", "1.5ms", "225 KB" (units of 1000), "9 MiB" (units of 1024) or "2.5 Gbps" to a
            /// whole number of the smallest unit.
            fn from_str(text: &str) -> Result<$name, ParseError> {
                parse::<$name>(text).map($name)
            }
        }
    )*};
}
from_text!(Span, Bytes, BitRate);

/// The text to suggest for a text whose unit is unknown, or "".
fn correction<T: Quantity>(number: &str, unit: &str) -> String {
    let same = |foreign: &&Foreign| {
        if foreign.any_case {
            foreign.name.to_lowercase() == unit.to_lowercase()
        } else {
            foreign.name == unit
        }
    };
    let known = |units: Units| units.iter().any(|(name, _)| *name == unit);
    let of_others = [(SPAN_UNITS, "a time"), (BYTES_UNITS, "a size"), (RATE_UNITS, "a rate")];
    if let Some(foreign) = T::FOREIGN.iter().find(same) {
        let Some((name, times)) = foreign.means else { return foreign.note.to_owned() };
        let scale = T::UNITS.iter().find(|(known, _)| *known == name).map_or(1, |(_, scale)| *scale);
        let value = match decimal(number, scale * times) {
            Decimal::Exact(value) => T::of_smallest(value),
            _ => return String::new(),
        };
        let note = if foreign.note.is_empty() { String::new() } else { format!("{}: ", foreign.note) };
        return format!("{note}write \"{value}\"");
    }
    if let Some((_, what)) = of_others.into_iter().find(|(units, _)| known(units)) {
        return format!("{unit} is the unit of {what}");
    }
    // In "1e-6 s" the parser finds the exponent where the unit should be.
    let (exponent, name) = unit.split_at(unit.find(|c: char| c.is_whitespace()).unwrap_or(unit.len()));
    let scale = T::UNITS.iter().find(|(known, _)| *known == name.trim()).map(|(_, scale)| *scale);
    let value = format!("{number}{exponent}").parse::<f64>().ok();
    match value.zip(scale).and_then(|(value, scale)| exact::<T>(value, scale)) {
        Some(value) => format!("exponents are not read: write \"{value}\""),
        None if unit.starts_with(',') => "write a decimal point, and no separators of thousands".to_owned(),
        None => by_case::<T>(number, unit),
    }
}

/// Suggests the unit that differs only in letter case, if there is one.
fn by_case<T: Quantity>(number: &str, unit: &str) -> String {
    let same: Vec<&str> =
        T::UNITS.iter().map(|(name, _)| *name).filter(|name| name.eq_ignore_ascii_case(unit)).collect();
    match same[..] {
        [one] => format!("write \"{number} {one}\""),
        _ => String::new(),
    }
}

fn parse<T: Quantity>(text: &str) -> Result<u64, ParseError> {
    let units = T::UNITS;
    let fail_with = |why: String, hint: String| {
        Err(ParseError { message: format!("{why}; expected {}", T::EXAMPLE), hint })
    };
    let fail = |why: String| fail_with(why, String::new());
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    if number.is_empty() {
        let hint = if text.starts_with('-') { "it cannot be negative" } else { "" };
        return fail_with(format!("{text:?} does not begin with a number"), hint.to_owned());
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let known = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return if unit.is_empty() {
            let hint = number.parse().map_or(String::new(), T::of_base_unit);
            fail_with(format!("{text:?} has no unit"), hint)
        } else {
            fail_with(
                format!("{text:?} has the unknown unit {unit:?} (one of {known})"),
                correction::<T>(number, unit),
            )
        };
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

/// Multiplies `number` by `scale` in exact integer arithmetic, so that parsing never rounds a value.
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

    fn hint<T: Quantity + std::fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().hint().to_owned()
    }

    #[test]
    fn units_of_others_are_answered_with_the_same_magnitude() {
        assert_eq!(hint::<BitRate>("10 GBps"), "a capital B counts bytes: write \"80 Gbps\"");
        assert_eq!(hint::<BitRate>("1.25 MB/s"), "a capital B counts bytes: write \"10 Mbps\"");
        assert_eq!(hint::<BitRate>("10 Gbit/s"), "write \"10 Gbps\"");
        assert_eq!(hint::<BitRate>("10G"), "write \"10 Gbps\"");
        assert!(hint::<BitRate>("10 GBPS").contains("8 times"));
        assert_eq!(hint::<Span>("10 \u{b5}s"), "write \"10 us\"");
        assert_eq!(hint::<Span>("1e-6 s"), "exponents are not read: write \"1 us\"");
        assert_eq!(hint::<Span>("10 Gbps"), "Gbps is the unit of a rate");
        assert_eq!(hint::<Span>("3 m"), "m may mean minutes or milliseconds: write min or ms");
        assert_eq!(hint::<Span>("3 MS"), "write \"3 ms\"");
        assert_eq!(hint::<Span>("1,5 us"), "write a decimal point, and no separators of thousands");
        assert_eq!(hint::<Bytes>("96 kB"), "write \"96 KB\"");
        assert!(hint::<Bytes>("96 kb").contains("bits"));
        assert!(hint::<Bytes>("100 packets").contains("bytes of a packet"));
        assert_eq!(
            hint::<Span>("5"),
            "if 5 is in seconds, write \"5 s\"; units are ps, ns, us, ms, s, min, h"
        );
        assert!(Span::of_base_unit(1e-6).contains("write \"1 us\""));
        assert!(BitRate::of_base_unit(1e10).contains("write \"10 Gbps\""));
        assert_eq!(
            hint::<BitRate>("400"),
            "if 400 is in Gb/s, write \"400 Gbps\"; units are bps, Kbps, Mbps, Gbps, Tbps"
        );
        assert!(!Span::of_base_unit(1e-15).contains("write \"0"));
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
        assert!(message.contains("no unit") && message.contains("write \"96 B\""), "{message}");
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
