//! The types that a key can have: how each is read from TOML, what it is called, and how it is written.

use super::document::{Item, Value};
use crate::spec::{
    CacheName, ChoiceName, DelayedAckFormName, EcnName, InitialWindow, LengthSpec, MarkAt, NicQueue, NotEct,
    PatternName, Per, PlacementName, QueueName, ReceiveBufferName, RtoFormName, TreePacking,
    WatchdogActionName, WireOverhead,
};
use pauseframe_topology::interchange::Format;
use pauseframe_topology::routing::tables_io::TableFormat;
use pauseframe_units::{BitRate, Bytes, Span};

/// Why a value was refused.
#[derive(Debug)]
pub(crate) struct Mistake {
    /// What is wrong and what is allowed.
    pub(crate) message: String,
    /// What to do, or "".
    pub(crate) hint: String,
}

/// A type of value.
pub(crate) trait Setting: Sized {
    /// Its name in the reference: "size", "time", "one of ecmp, spray".
    fn type_name() -> String;
    /// Reads it.
    fn read(item: &Item) -> Result<Self, Mistake>;
    /// Writes it as TOML on one line.
    fn toml(&self) -> String;
    /// Writes it for people: as TOML, without quotes.
    fn plain(&self) -> String {
        self.toml().trim_matches('"').to_owned()
    }
}

/// A type with a few named values.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    /// The names.
    const NAMES: &'static [(&'static str, Self)];
}

impl Choice for TreePacking {
    const NAMES: &'static [(&'static str, Self)] =
        &[("random", Self::Random), ("exact", Self::Exact), ("hub_seeded", Self::HubSeeded)];
}
impl Choice for ChoiceName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("random", Self::Random),
        ("best_of_two", Self::BestOfTwo),
        ("least_loaded", Self::LeastLoaded),
        ("demand", Self::Demand),
    ];
}
impl Choice for Per {
    const NAMES: &'static [(&'static str, Self)] = &[("flow", Self::Flow), ("packet", Self::Packet)];
}
impl Choice for Format {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("graphml", Self::GraphMl),
        ("node-link", Self::NodeLink),
        ("hpcc", Self::Hpcc),
        ("htsim", Self::Htsim),
        ("containerlab", Self::Containerlab),
        ("ibnetdiscover", Self::IbNetDiscover),
    ];
}
impl Choice for TableFormat {
    const NAMES: &'static [(&'static str, Self)] =
        &[("csv", Self::Csv), ("json", Self::Json), ("opensm", Self::OpenSm)];
}
impl Choice for PatternName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("all_reduce", Self::AllReduce),
        ("all_to_all", Self::AllToAll),
        ("pipeline", Self::Pipeline),
        ("k_means", Self::KMeans),
        ("stencil", Self::Stencil),
    ];
}
impl Choice for PlacementName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("packed", Self::Packed),
        ("round_robin", Self::RoundRobin),
        ("random", Self::Random),
        ("hosts", Self::Hosts),
    ];
}
impl Choice for NicQueue {
    const NAMES: &'static [(&'static str, Self)] =
        &[("per_destination", Self::PerDestination), ("fifo", Self::Fifo)];
}
impl Choice for WireOverhead {
    const NAMES: &'static [(&'static str, Self)] = &[("ethernet", Self::Ethernet), ("none", Self::None)];
}
impl Choice for MarkAt {
    const NAMES: &'static [(&'static str, Self)] = &[("enqueue", Self::Enqueue), ("dequeue", Self::Dequeue)];
}
impl Choice for WatchdogActionName {
    const NAMES: &'static [(&'static str, WatchdogActionName)] =
        &[("drop", WatchdogActionName::Drop), ("forward", WatchdogActionName::Forward)];
}

impl Choice for NotEct {
    const NAMES: &'static [(&'static str, Self)] = &[("drop", Self::Drop), ("queue", Self::Queue)];
}
impl Choice for QueueName {
    const NAMES: &'static [(&'static str, Self)] = &[("fifo", Self::Fifo), ("pfabric", Self::Pfabric)];
}
impl Choice for EcnName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("classic", Self::Classic), ("dctcp", Self::Dctcp)];
}
impl Choice for RtoFormName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("rfc", Self::Rfc), ("linux", Self::Linux), ("freebsd", Self::Freebsd)];
}

impl Choice for DelayedAckFormName {
    const NAMES: &'static [(&'static str, Self)] = &[("fixed", Self::Fixed), ("linux", Self::Linux)];
}
impl Choice for ReceiveBufferName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("fixed", Self::Fixed), ("linux", Self::Linux), ("freebsd", Self::Freebsd)];
}
impl Choice for CacheName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("linux", Self::Linux),
        ("linux_ssthresh", Self::LinuxSsthresh),
        ("freebsd", Self::Freebsd),
        ("cee", Self::Cee),
    ];
}

impl<C: Choice> Setting for C {
    fn type_name() -> String {
        format!("one of {}", names(C::NAMES))
    }
    fn read(item: &Item) -> Result<C, Mistake> {
        choose(item, C::NAMES)
    }
    fn toml(&self) -> String {
        let name = C::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| *name);
        quoted(name)
    }
}

/// The names of a registry, for messages.
pub(crate) fn names<R>(registry: &[(&'static str, R)]) -> String {
    registry.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Looks `item` up in a registry of names.
pub(crate) fn choose<R: Copy>(item: &Item, registry: &[(&'static str, R)]) -> Result<R, Mistake> {
    let mistake = |hint| {
        let message = format!("{} is not one of {}", item.show(), names(registry));
        Mistake { message, hint }
    };
    let Value::Text(text) = &item.value else { return Err(mistake(String::new())) };
    let found = registry.iter().find(|(name, _)| name == text).map(|(_, value)| *value);
    found.ok_or_else(|| mistake(did_you_mean(text, registry.iter().map(|(name, _)| *name))))
}

/// The one of `known` that a word is meant for, as a question: the nearest, or the shortest that contains it ("bolt");
/// "" where there is none.
pub(crate) fn did_you_mean<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let near = misspelt(word, known.clone());
    if !near.is_empty() || word.len() < 3 {
        return near;
    }
    let lower = word.to_lowercase();
    let around = known.filter(|name| name.to_lowercase().contains(&lower)).min_by_key(|name| name.len());
    around.map_or_else(String::new, |name| format!("did you mean {name:?}?"))
}

/// The nearest of `known` as a question, or "" where none is near.
pub(crate) fn misspelt<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> String {
    // Beyond this a word is no misspelling, and the distance costs the product of the lengths.
    if word.len() > 64 {
        return String::new();
    }
    let lower = word.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&lower, &name.to_lowercase());
    let nearest = known.map(|name| (distance(name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= 1 + word.chars().count() / 4 => {
            format!("did you mean {name:?}?")
        }
        _ => String::new(),
    }
}

/// A text as a basic string of TOML.
pub(crate) fn quoted(text: &str) -> String {
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

fn wrong_sort<T>(item: &Item, expected: &str) -> Result<T, Mistake> {
    let message = format!("{} is {}; expected {expected}", item.show(), item.sort());
    Err(Mistake { message, hint: String::new() })
}

/// A number without a unit, with one; a quantity is never negative.
fn with_unit(item: &Item, unit: &str) -> String {
    match item.value {
        Value::Integer(number) if number < 0 => "it cannot be negative".to_owned(),
        Value::Float(number) if number < 0.0 => "it cannot be negative".to_owned(),
        _ => format!("did you mean \"{} {unit}\"?", item.show()),
    }
}

macro_rules! quantity {
    ($type:ty, $name:literal, $expected:literal, $unit:literal, $text:expr) => {
        impl Setting for $type {
            fn type_name() -> String {
                $name.to_owned()
            }
            fn read(item: &Item) -> Result<Self, Mistake> {
                match &item.value {
                    Value::Text(text) if text.len() < 200 => text
                        .parse::<$type>()
                        .map_err(|e| Mistake { message: e.to_string(), hint: String::new() }),
                    Value::Integer(_) | Value::Float(_) => Err(Mistake {
                        message: format!("{} has no unit; expected {}", item.show(), $expected),
                        hint: with_unit(item, $unit),
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
quantity!(Span, "time", "a time such as \"240 us\"", "us", span_text);
quantity!(Bytes, "size", "a size such as \"96 KB\"", "B", bytes_text);
quantity!(BitRate, "rate", "a rate such as \"10 Gbps\"", "Gbps", |rate: BitRate| rate.to_string());

/// A time as people write it: "0 s", whole hours as such.
fn span_text(span: Span) -> String {
    const HOUR: u64 = 3600 * 1_000_000_000_000;
    match span.0 {
        0 => "0 s".to_owned(),
        ps if ps.is_multiple_of(HOUR) => format!("{} h", ps / HOUR),
        _ => span.to_string(),
    }
}

/// A size as people write it: packets in bytes ("1500 B", not "1.5 KB"), whole terabytes as such.
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
            fn type_name() -> String {
                "whole number".to_owned()
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

impl Setting for f64 {
    fn type_name() -> String {
        "number".to_owned()
    }
    fn read(item: &Item) -> Result<f64, Mistake> {
        match &item.value {
            Value::Integer(number) => Ok(*number as f64),
            Value::Float(number) if number.is_finite() => Ok(*number),
            Value::Float(_) => wrong_sort(item, "a finite number"),
            Value::Text(text) if text.parse::<f64>().is_ok() => Err(Mistake {
                message: format!("{} is text; expected a number", item.show()),
                hint: format!("write {text} without quotes"),
            }),
            _ => wrong_sort(item, "a number"),
        }
    }
    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

impl Setting for bool {
    fn type_name() -> String {
        "true or false".to_owned()
    }
    fn read(item: &Item) -> Result<bool, Mistake> {
        match &item.value {
            Value::Bool(flag) => Ok(*flag),
            _ => wrong_sort(item, "true or false, without quotes"),
        }
    }
    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn type_name() -> String {
        "text".to_owned()
    }
    fn read(item: &Item) -> Result<String, Mistake> {
        match &item.value {
            Value::Text(text) => Ok(text.clone()),
            _ => wrong_sort(item, "text in quotes"),
        }
    }
    fn toml(&self) -> String {
        quoted(self)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn type_name() -> String {
        format!("list of {}s", T::type_name())
    }
    fn read(item: &Item) -> Result<Vec<T>, Mistake> {
        let Value::Array(items) = &item.value else {
            return wrong_sort(item, &format!("a list in brackets ({})", Self::type_name()));
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
    fn type_name() -> String {
        format!("two {}s", T::type_name())
    }
    fn read(item: &Item) -> Result<[T; 2], Mistake> {
        let count = |found: Vec<T>| Mistake {
            message: format!("{} values; expected 2", found.len()),
            hint: String::new(),
        };
        Vec::<T>::read(item)?.try_into().map_err(count)
    }
    fn toml(&self) -> String {
        format!("[{}, {}]", self[0].toml(), self[1].toml())
    }
}

impl Setting for (f64, f64) {
    fn type_name() -> String {
        "pair".to_owned()
    }
    fn read(item: &Item) -> Result<(f64, f64), Mistake> {
        <[f64; 2]>::read(item).map(|[bytes, probability]| (bytes, probability))
    }
    fn toml(&self) -> String {
        format!("[{}, {}]", self.0.toml(), self.1.toml())
    }
}

impl Setting for LengthSpec {
    fn type_name() -> String {
        "a size or \"N packets\"".to_owned()
    }
    fn read(item: &Item) -> Result<LengthSpec, Mistake> {
        let count = match &item.value {
            Value::Text(text) => text.trim().strip_suffix("packets").or(text.trim().strip_suffix("packet")),
            _ => None,
        };
        let Some(count) = count else { return Bytes::read(item).map(LengthSpec::Bytes) };
        let mistake = |_| Mistake {
            message: format!("{} is not a number of packets", item.show()),
            hint: "write it as in \"20 packets\"".to_owned(),
        };
        count.trim().parse().map(LengthSpec::Packets).map_err(mistake)
    }
    fn toml(&self) -> String {
        match self {
            LengthSpec::Bytes(bytes) => bytes.toml(),
            LengthSpec::Packets(count) => format!("\"{count} packets\""),
        }
    }
}

impl Setting for InitialWindow {
    fn type_name() -> String {
        "\"N segments\", \"bdp\" or a size".to_owned()
    }
    fn read(item: &Item) -> Result<InitialWindow, Mistake> {
        const EXPECTED: &str = "\"10 segments\", \"bdp\" or a size such as \"30 KB\"";
        let Value::Text(text) = &item.value else { return wrong_sort(item, EXPECTED) };
        let text = text.trim();
        if text == "bdp" {
            return Ok(InitialWindow::Bdp);
        }
        let count = text.strip_suffix("segments").or_else(|| text.strip_suffix("segment")).map(str::trim);
        let window = match count {
            Some(count) => count.parse().ok().map(InitialWindow::Segments),
            None => text.parse().ok().map(InitialWindow::Bytes),
        };
        match window {
            None | Some(InitialWindow::Segments(0) | InitialWindow::Bytes(Bytes(0))) => {
                let message = format!("{} is not an initial window; expected {EXPECTED}", item.show());
                Err(Mistake { message, hint: String::new() })
            }
            Some(window) => Ok(window),
        }
    }
    fn toml(&self) -> String {
        match self {
            InitialWindow::Segments(count) => format!("\"{count} segments\""),
            InitialWindow::Bdp => "\"bdp\"".to_owned(),
            InitialWindow::Bytes(bytes) => bytes.toml(),
        }
    }
}
