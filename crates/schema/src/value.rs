//! The types of keys: how each is read from TOML, named, and written.

use crate::document::{Item, Value};
use crate::shape::Shape;
use crate::terms;
use pauseframe_units::parse::{BYTES_UNITS, Quantity, RATE_UNITS, SPAN_UNITS};
use pauseframe_units::{BitRate, Bytes, Priority, Span};

/// Why a value was rejected.
#[derive(Debug)]
pub struct Mistake {
    /// The problem and the valid values.
    pub message: String,
    /// The remedy, or "".
    pub hint: String,
}

/// A type that the value of a key can have.
pub trait Setting: Sized {
    /// The form of the type.
    fn shape() -> Shape;
    /// The name of the type in the reference: "size", "time", "one of ecmp, spray".
    fn type_name() -> String {
        Self::shape().name()
    }
    /// Reads a value.
    ///
    /// # Errors
    /// Why the item is not such a value.
    fn read(item: &Item) -> Result<Self, Mistake>;
    /// Writes the value as TOML on one line.
    fn toml(&self) -> String;
    /// The value as a number, if it is a number without a unit.
    fn number(&self) -> Option<f64> {
        None
    }
    /// Writes it for readers: as TOML without quotes.
    fn plain(&self) -> String {
        self.toml().trim_matches('"').to_owned()
    }
}

/// A type with a few named values, declared by [`choices!`](crate::choices).
pub trait Choice: Copy + PartialEq + 'static {
    /// The names of the values in documents.
    const NAMES: &'static [(&'static str, Self)];

    /// The name of this value.
    fn name(&self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| *name)
    }
}

impl<C: Choice> Setting for C {
    fn shape() -> Shape {
        Shape::OneOf(C::NAMES.iter().map(|(name, _)| *name).collect())
    }
    fn read(item: &Item) -> Result<C, Mistake> {
        choose(item, C::NAMES)
    }
    fn toml(&self) -> String {
        quoted(self.name())
    }
}

/// The names of a registry, for messages.
pub fn names<R>(registry: &[(&'static str, R)]) -> String {
    registry.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Looks up `item` in a registry of names.
///
/// # Errors
/// The text is none of the names.
pub fn choose<R: Copy>(item: &Item, registry: &[(&'static str, R)]) -> Result<R, Mistake> {
    let mistake = |hint| {
        let message = format!("{} is not one of {}", item.show(), names(registry));
        Mistake { message, hint }
    };
    let Value::Text(text) = &item.value else { return Err(mistake(String::new())) };
    let found = registry.iter().find(|(name, _)| name == text).map(|(_, value)| *value);
    found.ok_or_else(|| mistake(did_you_mean(text, registry.iter().map(|(name, _)| *name))))
}

/// A suggestion among `known`, as a question: the nearest, or the shortest that contains the word ("bolt"); "" if there
/// is none.
///
/// A term of the field with another meaning than its nearest name gets an explanation instead.
pub fn did_you_mean<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    if let Some(hint) = terms::hint(word, &known.clone().collect::<Vec<_>>()) {
        return hint;
    }
    let near = misspelt(word, known.clone());
    if !near.is_empty() || word.len() < 3 {
        return near;
    }
    let lower = word.to_lowercase();
    let around = known.filter(|name| name.to_lowercase().contains(&lower)).min_by_key(|name| name.len());
    around.map_or_else(String::new, |name| format!("did you mean {name:?}?"))
}

/// The nearest of `known` as a question, or "" if none is near. A part of the word that only one name has (`nscc` of
/// `roce_nscc`) weighs more than a few equal letters.
pub fn misspelt<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> String {
    // Maximum length of a misspelling: computing the distance costs the product of the lengths.
    if word.len() > 64 {
        return String::new();
    }
    let lower = word.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&lower, &name.to_lowercase());
    let known: Vec<&str> = known.collect();
    let nearest = known.iter().map(|name| (distance(name), *name)).min();
    let is_slip = nearest.is_some_and(|(distance, _)| distance <= 1);
    let of_part = if is_slip { None } else { only_name_with_part(&lower, &known) };
    let letters = word.chars().count();
    let near = nearest.filter(|(distance, _)| *distance <= 1 + letters / 4 && *distance < letters);
    let meant = of_part.or(near.map(|(_, name)| name));
    meant.map_or_else(String::new, |name| format!("did you mean {name:?}?"))
}

/// The one of `known` that shares a part with `word` which no other has; parts stand between `_` and `-`.
fn only_name_with_part<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // Numbers and articles are parts of anything.
    const SHORTEST_PART: usize = 3;
    let parts = |name: &str| name.to_lowercase().split(['_', '-']).map(str::to_owned).collect::<Vec<_>>();
    let only = |part: &String| {
        let mut having = known.iter().copied().filter(|name| parts(name).contains(part));
        having.next().filter(|_| having.next().is_none())
    };
    parts(word).iter().filter(|part| part.len() >= SHORTEST_PART).find_map(only)
}

/// Formats a text as a basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.extend(format!("\\u{:04X}", u32::from(c)).chars()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The error about a value of another kind.
///
/// # Errors
/// Always.
pub fn wrong_sort<T>(item: &Item, expected: &str) -> Result<T, Mistake> {
    let message = format!("{} is {}; expected {expected}", item.show(), item.sort());
    Err(Mistake { message, hint: String::new() })
}

/// A suggestion for two values in one text, such as "leaf0-spine1".
fn in_two(value: &Value) -> String {
    let Value::Text(text) = value else { return String::new() };
    let separators = ["<->", "->", "--", " to ", ",", ";", "|", "/", " ", ":", "-"];
    let halves = separators.iter().find_map(|separator| text.split_once(separator));
    match halves.map(|(first, second)| [first.trim(), second.trim()]) {
        Some([first, second]) if ![first, second].contains(&"") => format!("write [{first:?}, {second:?}]"),
        _ => String::new(),
    }
}

/// A suggestion for a number without unit.
fn with_unit<T: Quantity>(item: &Item) -> String {
    match item.value {
        Value::Integer(number) if number >= 0 => T::of_base_unit(number as f64),
        Value::Float(number) if number >= 0.0 => T::of_base_unit(number),
        _ => "it cannot be negative".to_owned(),
    }
}

macro_rules! quantity {
    ($type:ty, $name:literal, $units:expr, $expected:literal, $text:expr) => {
        impl Setting for $type {
            fn shape() -> Shape {
                Shape::Quantity { name: $name, units: $units }
            }
            fn read(item: &Item) -> Result<Self, Mistake> {
                match &item.value {
                    Value::Text(text) if text.len() < 200 => text
                        .parse::<$type>()
                        .map_err(|e| Mistake { message: e.message().to_owned(), hint: e.hint().to_owned() }),
                    Value::Integer(_) | Value::Float(_) => Err(Mistake {
                        message: format!("{} has no unit; expected {}", item.show(), $expected),
                        hint: with_unit::<$type>(item),
                    }),
                    _ => wrong_sort(item, $expected),
                }
            }
            fn toml(&self) -> String {
                format!("\"{}\"", $text(*self))
            }
        }
    };
}
quantity!(Span, "time", SPAN_UNITS, "a time such as \"240 us\"", span_text);
quantity!(Bytes, "size", BYTES_UNITS, "a size such as \"96 KB\"", bytes_text);
quantity!(BitRate, "rate", RATE_UNITS, "a rate such as \"10 Gbps\"", |rate: BitRate| rate.to_string());

/// A time for readers: "0 s", whole hours as such.
fn span_text(span: Span) -> String {
    const HOUR: u64 = 3600 * 1_000_000_000_000;
    match span.0 {
        0 => "0 s".to_owned(),
        ps if ps.is_multiple_of(HOUR) => format!("{} h", ps / HOUR),
        _ => span.to_string(),
    }
}

/// A size for readers: packets in bytes ("1500 B", not "1.5 KB"), whole terabytes as such.
fn bytes_text(size: Bytes) -> String {
    const TB: u64 = 1_000_000_000_000;
    match size.0 {
        bytes if bytes < 10_000 && !bytes.is_multiple_of(1000) => format!("{bytes} B"),
        bytes if bytes >= TB && bytes.is_multiple_of(TB) => format!("{} TB", bytes / TB),
        _ => size.to_string(),
    }
}

macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn shape() -> Shape {
                Shape::Whole { max: <$type>::MAX as u64 }
            }
            fn read(item: &Item) -> Result<Self, Mistake> {
                let range = format!("a whole number from 0 to {}", <$type>::MAX);
                match &item.value {
                    Value::Integer(number) => <$type>::try_from(*number).map_err(|_| Mistake {
                        message: format!("{number} is not {range}"),
                        hint: String::new(),
                    }),
                    Value::Text(text) if text.parse::<$type>().is_ok() => Err(Mistake {
                        message: format!("{} is text; expected {range}", item.show()),
                        hint: format!("write {text} without quotes"),
                    }),
                    Value::Float(number) if number.fract() == 0.0 && (0.0..1e9).contains(number) => Err(Mistake {
                        message: format!("{} has a decimal point; expected {range}", item.show()),
                        hint: format!("write {number}"),
                    }),
                    _ => wrong_sort(item, &range),
                }
            }
            fn toml(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
whole_number!(u8, u16, u32, u64, usize);

impl Setting for Priority {
    fn shape() -> Shape {
        u8::shape()
    }
    fn read(item: &Item) -> Result<Priority, Mistake> {
        let number = u8::read(item)?;
        let mistake = || Mistake { message: format!("{number} is outside 0 to 7"), hint: String::new() };
        Priority::new(number).ok_or_else(mistake)
    }
    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Setting for f64 {
    fn shape() -> Shape {
        Shape::Number
    }
    fn read(item: &Item) -> Result<f64, Mistake> {
        match &item.value {
            Value::Integer(number) => Ok(*number as f64),
            Value::Float(number) if number.is_finite() => Ok(*number),
            Value::Float(_) => {
                let message = format!("{} is not a finite number", item.show());
                Err(Mistake { message, hint: String::new() })
            }
            Value::Text(text) if text.parse::<f64>().is_ok() => Err(Mistake {
                message: format!("{} is text; expected a number", item.show()),
                hint: format!("write {text} without quotes"),
            }),
            Value::Text(text) => Err(Mistake {
                message: format!("{} is text; expected a number", item.show()),
                hint: share_of_percentage(text),
            }),
            _ => wrong_sort(item, "a number"),
        }
    }
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

/// Suggests the fraction for a percentage such as "30%", as a number without quotes; or "".
fn share_of_percentage(text: &str) -> String {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    number.map_or_else(String::new, |number| {
        format!("shares are numbers without quotes: write {}", number / 100.0)
    })
}

impl Setting for bool {
    fn shape() -> Shape {
        Shape::Truth
    }
    fn read(item: &Item) -> Result<bool, Mistake> {
        match &item.value {
            Value::Bool(flag) => Ok(*flag),
            Value::Text(text) => {
                let message = format!("{} is text; expected true or false, without quotes", item.show());
                let meant = ["true", "false"].into_iter().find(|word| text.eq_ignore_ascii_case(word));
                let hint = meant.map_or_else(String::new, |word| format!("write {word}"));
                Err(Mistake { message, hint })
            }
            _ => wrong_sort(item, "true or false, without quotes"),
        }
    }
    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn shape() -> Shape {
        Shape::Text
    }
    fn read(item: &Item) -> Result<String, Mistake> {
        match &item.value {
            Value::Text(text) => Ok(text.clone()),
            // A number can be, for example, the name of a host in an HPCC file.
            Value::Integer(number) => Err(Mistake {
                message: format!("{number} is a number; expected text in quotes"),
                hint: format!("write \"{number}\""),
            }),
            _ => wrong_sort(item, "text in quotes"),
        }
    }
    fn toml(&self) -> String {
        quoted(self)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }
    fn read(item: &Item) -> Result<Vec<T>, Mistake> {
        let Value::Array(items) = &item.value else {
            let message = format!(
                "{} is {}; expected a list in brackets ({})",
                item.show(),
                item.sort(),
                Self::type_name()
            );
            let hint = if T::read(item).is_ok() { format!("write [{}]", item.show()) } else { String::new() };
            return Err(Mistake { message, hint });
        };
        let element = |(index, item): (usize, &Item)| {
            T::read(item).map_err(|e| Mistake { message: format!("element {index}: {}", e.message), ..e })
        };
        items.iter().enumerate().map(element).collect()
    }
    fn toml(&self) -> String {
        format!("[{}]", self.iter().map(Setting::toml).collect::<Vec<_>>().join(", "))
    }
}

impl<T: Setting> Setting for [T; 2] {
    fn shape() -> Shape {
        Shape::Pair(Box::new(T::shape()))
    }
    fn read(item: &Item) -> Result<[T; 2], Mistake> {
        let two = format!("expected two in brackets ({})", T::type_name());
        let Value::Array(items) = &item.value else {
            let message = format!(
                "{} is {}; expected two values in brackets ({})",
                item.show(),
                item.sort(),
                Self::type_name()
            );
            return Err(Mistake { message, hint: in_two(&item.value) });
        };
        let of_one = match items.as_slice() {
            [only] => in_two(&only.value),
            _ => String::new(),
        };
        let count =
            |found: Vec<T>| Mistake { message: format!("{} values; {two}", found.len()), hint: of_one };
        Vec::<T>::read(item)?.try_into().map_err(count)
    }
    fn toml(&self) -> String {
        format!("[{}, {}]", self[0].toml(), self[1].toml())
    }
}

impl Setting for (f64, f64) {
    fn shape() -> Shape {
        Shape::Pair(Box::new(Shape::Number))
    }
    fn read(item: &Item) -> Result<(f64, f64), Mistake> {
        <[f64; 2]>::read(item).map(|[bytes, probability]| (bytes, probability))
    }
    fn toml(&self) -> String {
        format!("[{}, {}]", self.0.toml(), self.1.toml())
    }
}
