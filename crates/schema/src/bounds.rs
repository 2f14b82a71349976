//! Bounds: the valid values of a key within its type.

use crate::docs::Range;
use crate::value::Setting;
use std::ops::RangeInclusive;

/// Bounds for values of type `T`.
pub trait Bounds<T> {
    /// The problem of a value, or `None`.
    fn complaint(&self, value: &T) -> Option<String>;
    /// The remedy, or "".
    fn hint(&self, value: &T) -> String;
    /// The bounds as text for the reference: "0 s to 1 s".
    fn text(&self) -> String;
    /// The bounds for validators such as the JSON Schema.
    fn range(&self) -> Range;
}

impl<T: Setting + PartialOrd> Bounds<T> for RangeInclusive<T> {
    fn complaint(&self, value: &T) -> Option<String> {
        let message =
            || format!("{} is outside {} to {}", value.plain(), self.start().plain(), self.end().plain());
        (!self.contains(value)).then(message)
    }
    fn hint(&self, value: &T) -> String {
        percentage(value.number(), self.end().number())
    }
    fn text(&self) -> String {
        format!("{} to {}", self.start().plain(), self.end().plain())
    }
    fn range(&self) -> Range {
        Range { low: self.start().toml(), high: self.end().toml(), above: false, each: false }
    }
}

/// Bounds that exclude the first number and include the second; the third field is a hint.
#[derive(Clone, Copy, Debug)]
pub struct Above(pub f64, pub f64, pub &'static str);

impl Bounds<f64> for Above {
    fn complaint(&self, value: &f64) -> Option<String> {
        let Above(low, high, _) = *self;
        let (low_text, high_text) = (short(low), short(high));
        (*value <= low || *value > high)
            .then(|| format!("{value} is not above {low_text} and at most {high_text}"))
    }
    fn hint(&self, value: &f64) -> String {
        let share = percentage(Some(*value), Some(self.1));
        if share.is_empty() { self.2.to_owned() } else { share }
    }
    fn text(&self) -> String {
        format!("above {} to {}", short(self.0), short(self.1))
    }
    fn range(&self) -> Range {
        Range { low: self.0.toml(), high: self.1.toml(), above: true, each: false }
    }
}

/// A suggestion for a value that looks like a percentage: "" unless at most 1 is allowed and `value` is a plausible
/// percentage. 1.5 counts as a wrong fraction, not as 1.5 %.
fn percentage(value: Option<f64>, most: Option<f64>) -> String {
    match (value, most) {
        (Some(value), Some(1.0)) if (2.0..=100.0).contains(&value) => {
            format!("this is a share, not a percentage: for {value} % write {}", value / 100.0)
        }
        _ => String::new(),
    }
}

/// Formats a number in its shortest form: "1e9", "0.5".
fn short(number: f64) -> String {
    if number >= 1e4 { format!("{number:e}") } else { number.to_string() }
}

/// The bounds of each element of a list.
#[derive(Clone, Debug)]
pub struct Each<B>(pub B);

impl<T, B: Bounds<T>> Bounds<Vec<T>> for Each<B> {
    fn complaint(&self, values: &Vec<T>) -> Option<String> {
        values.iter().find_map(|value| self.0.complaint(value))
    }
    fn hint(&self, values: &Vec<T>) -> String {
        let wrong = values.iter().find(|value| self.0.complaint(value).is_some());
        wrong.map_or(String::new(), |value| self.0.hint(value))
    }
    fn text(&self) -> String {
        format!("each {}", self.0.text())
    }
    fn range(&self) -> Range {
        Range { each: true, ..self.0.range() }
    }
}
