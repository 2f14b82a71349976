//! A scenario text as a tree in which every value has its place in the file.
//!
//! TOML 1.1 with the limits of the parser (nesting 80 deep). Values of `--set` are inserted into the same tree, so that
//! readers see one document. Comments and layout are dropped.

use crate::error::Problem;
use crate::foreign;
use crate::short::{self, Short};
use crate::value::quoted;
use std::path::Path;
use toml::de::{DeTable, DeValue, Error};

/// Maximum length of a text before parsing.
const TEXT_MAX: usize = 16 << 20;
/// Maximum number of reported syntax errors: later ones usually follow from the first.
const SYNTAX_ERRORS_MAX: usize = 5;
/// Maximum depth of a key; scenarios need five.
const OVERRIDE_DEPTH_MAX: usize = 8;

/// Place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A line of the file, from 1.
    Line(u32),
    /// The option `--set`.
    Set,
    /// The option `--seed`.
    Seed,
    /// No place: a preset or a documentation run.
    Nowhere,
}

/// A document with the changes of the command line.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The document as TOML.
    pub text: &'a str,
    /// Name of the document in error messages; its stem is the default name of the scenario.
    pub file_name: &'a str,
    /// The folder of relative file names in the document.
    pub base_dir: &'a Path,
    /// `--set`: (path, TOML value or bare word). The path contains the number of a list's element ("workload.0.size"),
    /// which may be omitted if the list has one element.
    pub overrides: &'a [(String, String)],
    /// The option `--seed`.
    pub seed: Option<u64>,
}

/// A value and the place where it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The value.
    pub value: Value,
    /// Its place.
    pub place: Place,
}

/// A TOML value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A text in quotes.
    Text(String),
    /// An integer of any size.
    Integer(i128),
    /// Infinity represents an integer beyond 128 bits.
    Float(f64),
    /// The value true or false.
    Bool(bool),
    /// A date as written in the file.
    Date(String),
    /// A list in brackets.
    Array(Vec<Item>),
    /// A table, with its keys in the order of the file.
    Table(Vec<(String, Item)>),
}

impl Item {
    /// Makes an empty table.
    pub fn table(place: Place) -> Item {
        Item { value: Value::Table(Vec::new()), place }
    }

    /// The value of `key`, if this item is a table with that key.
    pub fn get(&self, key: &str) -> Option<&Item> {
        let Value::Table(pairs) = &self.value else { return None };
        pairs.iter().find(|(name, _)| name == key).map(|(_, item)| item)
    }

    /// Like [`Self::get`], but mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Item> {
        let Value::Table(pairs) = &mut self.value else { return None };
        pairs.iter_mut().find(|(name, _)| name == key).map(|(_, item)| item)
    }

    /// Sets `key` in a table.
    pub fn insert(&mut self, key: &str, item: Item) {
        if let Some(old) = self.get_mut(key) {
            *old = item;
        } else if let Value::Table(pairs) = &mut self.value {
            pairs.push((key.to_owned(), item));
        }
    }

    /// The item at `path`, or the nearest table above it if it does not exist.
    pub fn nearest(&self, path: &str) -> (&Item, bool) {
        let mut item = self;
        for segment in path.split('.') {
            let next = match &item.value {
                Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
                _ => item.get(segment),
            };
            let Some(next) = next else { return (item, false) };
            item = next;
        }
        (item, true)
    }

    /// The value as TOML on one line, shortened for an error message.
    pub fn show(&self) -> String {
        match &self.value {
            Value::Text(text) if text.chars().count() > 60 => {
                quoted(&(text.chars().take(60).collect::<String>() + "..."))
            }
            Value::Text(text) => quoted(text),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Bool(flag) => flag.to_string(),
            Value::Date(date) => date.clone(),
            Value::Array(items) if items.len() <= 4 && items.iter().all(|item| !item.is_container()) => {
                format!("[{}]", items.iter().map(Item::show).collect::<Vec<_>>().join(", "))
            }
            Value::Array(items) if items.len() == 1 => "[1 value]".to_owned(),
            Value::Array(items) => format!("[{} values]", items.len()),
            Value::Table(_) => "{...}".to_owned(),
        }
    }

    /// The kind of a value in words.
    pub fn sort(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "text",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Bool(_) => "a truth value",
            Value::Date(_) => "a date",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    fn is_container(&self) -> bool {
        matches!(self.value, Value::Array(_) | Value::Table(_))
    }
}

/// The document of `input`: its text with `--set` and `--seed` applied and short forms expanded.
///
/// The problems are overrides without a matching key.
///
/// # Errors
/// The syntax errors; nothing else can be checked then.
pub fn load(input: &Input, shorts: &[(&str, Short)]) -> Result<(Item, Vec<Problem>), Vec<Problem>> {
    let mut root = parse(input.text, input.file_name)?;
    short::expand(&mut root, shorts);
    let mut problems = Vec::new();
    for (path, text) in input.overrides {
        let value = parse_word(text, Place::Set);
        if let Err((message, hint)) = closed(text, &value).and_then(|()| set(&mut root, path, value)) {
            let (place, value) = ("--set".to_owned(), text.clone());
            problems.push(Problem { path: path.clone(), place, line: None, value, message, hint });
        }
        short::expand(&mut root, shorts);
    }
    if let Some(seed) = input.seed {
        root.insert("seed", Item { value: Value::Integer(i128::from(seed)), place: Place::Seed });
    }
    Ok((root, problems))
}

/// Refuses a text that begins with a quote without an end, and so was not read as TOML.
fn closed(written: &str, value: &Item) -> Result<(), (String, String)> {
    match &value.value {
        Value::Text(text) if text.starts_with(['\'', '"']) && text == written => {
            let quote = &text[..1];
            let message = format!("the value begins with {quote} and has no {quote} at its end");
            Err((message, "write both quotes, or none".to_owned()))
        }
        _ => Ok(()),
    }
}

/// A value in the notation of `--set` and presets: TOML if it parses, else the text itself.
pub fn parse_word(text: &str, place: Place) -> Item {
    match DeValue::parse(text) {
        Ok(value) => convert(value.get_ref(), place, &|_| place),
        Err(_) => Item { value: Value::Text(text.to_owned()), place },
    }
}

fn parse(text: &str, file_name: &str) -> Result<Item, Vec<Problem>> {
    if text.len() > TEXT_MAX {
        let message = format!("{} MB of text; a scenario has at most 16 MiB", text.len() / 1_000_000);
        let hint = "keep long flow lists in a file of their own (workload.file)".to_owned();
        let (path, place, value) = (String::new(), file_name.to_owned(), String::new());
        return Err(vec![Problem { path, place, line: None, value, message, hint }]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line_of = |offset: usize| newlines.partition_point(|newline| *newline < offset) as u32 + 1;
    match DeTable::parse(text) {
        Ok(table) => Ok(convert_table(table.get_ref(), Place::Nowhere, &|at| Place::Line(line_of(at)))),
        Err(first) => {
            if let Some((message, hint)) = foreign::recognise(text, file_name) {
                let (path, place, value) = (String::new(), file_name.to_owned(), String::new());
                return Err(vec![Problem { path, place, line: None, value, message, hint }]);
            }
            // With error recovery, a long binary text would make an error per byte.
            let errors = if text.len() < 1 << 20 { DeTable::parse_recoverable(text).1 } else { vec![first] };
            let mut problems: Vec<Problem> =
                errors.iter().map(|error| syntax(error, text, file_name, &line_of)).collect();
            problems.sort_by_key(|problem| problem.line);
            problems.dedup_by(|a, b| a.line == b.line && (a.hint == COMMENTS || a.hint == COLON));
            // The keys of a table that stands twice stand twice too.
            let twice = problems.iter().position(|problem| problem.hint == TWICE);
            if let Some(first) = twice {
                let mut at = 0;
                problems.retain(|problem| {
                    at += 1;
                    at <= first + 1 || problem.hint != TWICE
                });
            }
            // What follows a bracket that is not closed was read as part of the list.
            let in_list = problems.iter().position(|problem| problem.hint == BRACKETS);
            problems.truncate(in_list.map_or(SYNTAX_ERRORS_MAX, |first| SYNTAX_ERRORS_MAX.min(first + 1)));
            Err(problems)
        }
    }
}

const COMMENTS: &str = "comments begin with #";
const COLON: &str = "write = between a key and its value, not a colon";
const TWICE: &str =
    "write each key and each table once; elements of a list of tables have two brackets, as in [[workload]]";
const BRACKETS: &str = "a comma stands between two elements of [ ] and two keys of { }; \
                        if this line is none of them, the bracket before it is not closed";

fn syntax(error: &Error, text: &str, file_name: &str, line_of: &dyn Fn(usize) -> u32) -> Problem {
    let line = error.span().map(|span| line_of(span.start));
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    let source = line.and_then(|line| text.lines().nth(line as usize - 1)).unwrap_or("").trim_start();
    let hint = if ["//", ";", "/*", "--"].iter().any(|start| source.starts_with(start)) {
        COMMENTS
    } else if ["missing comma", "array", "inline table"].iter().any(|word| message.contains(word))
        || (source.starts_with('[') && message.contains("boolean"))
    {
        BRACKETS
    } else if source.contains(['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}']) {
        "these are typographic quotes, which TOML does not know; write straight ones, as in \"1 us\""
    } else if has_colon_for_equals(source) {
        COLON
    } else if message.contains("duplicate") {
        TWICE
    } else if message.contains("boolean") {
        "write true or false in small letters"
    } else if message.contains("basic string") {
        "a text begins and ends with a quote on one line"
    } else {
        "texts and quantities stand in quotes, as in delay = \"1 us\""
    };
    Problem {
        path: String::new(),
        place: line.map_or(file_name.to_owned(), |line| format!("{file_name}:{line}")),
        line,
        value: String::new(),
        message: format!("this is not TOML: {message}"),
        hint: hint.to_owned(),
    }
}

/// Whether a line has the form `key: value`, as in YAML.
fn has_colon_for_equals(line: &str) -> bool {
    let is_key =
        |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.\"".contains(c));
    line.split_once(':').is_some_and(|(key, _)| is_key(key.trim()))
}

fn convert(value: &DeValue, place: Place, at: &dyn Fn(usize) -> Place) -> Item {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Float(f64::INFINITY),
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::Array(
            items.iter().map(|item| convert(item.get_ref(), at(item.span().start), at)).collect(),
        ),
        DeValue::Table(table) => return convert_table(table, place, at),
    };
    Item { value, place }
}

/// A table with its keys in the order of the file.
fn convert_table(table: &DeTable, place: Place, at: &dyn Fn(usize) -> Place) -> Item {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    let pair = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue>)| {
        (key.get_ref().to_string(), convert(value.get_ref(), at(key.span().start), at))
    };
    Item { value: Value::Table(pairs.into_iter().map(pair).collect()), place }
}

/// Lists of tables at the top of a scenario: the number 0 after their name begins one.
const LISTS: [&str; 4] = ["workload", "failure", "corruption", "pause_storm"];

/// Puts `new` at `path` and creates the tables on the way. The error is a message and a hint.
///
/// # Errors
/// The path leads through a value that is not a table.
pub fn set(root: &mut Item, path: &str, new: Item) -> Result<(), (String, String)> {
    let segments: Vec<&str> = path.split('.').map(str::trim).collect();
    if segments.len() > OVERRIDE_DEPTH_MAX || segments.iter().any(|segment| segment.is_empty()) {
        let hint = "write KEY=VALUE with a dotted key, as in switch.pfc.xoff=\"96 KB\"".to_owned();
        return Err(("this is not the path of a key".to_owned(), hint));
    }
    if segments.iter().any(|segment| segment.ends_with(']') && segment.contains('[')) {
        let dotted = path.replace('[', ".").replace(']', "");
        return Err(("elements of lists have no brackets here".to_owned(), format!("write {dotted}")));
    }
    let mut item = root;
    for (depth, segment) in segments.iter().enumerate() {
        let is_new = matches!(&item.value, Value::Table(pairs) if pairs.is_empty());
        let is_list = depth == 1 && *segment == "0" && LISTS.contains(&segments[0]);
        if is_list && is_new && item.place == Place::Set {
            *item = Item { value: Value::Array(vec![Item::table(new.place)]), place: new.place };
        }
        item = only_element(item, segment)?;
        let is_value = !matches!(item.value, Value::Table(_) | Value::Array(_) | Value::Bool(_));
        item = step(item, segment, new.place).map_err(|message| {
            let above = &segments[..depth.saturating_sub(1)];
            let beside = [above, &segments[depth..]].concat().join(".");
            let hint = if is_value && depth > 1 {
                format!("did you mean {beside}, which stands beside it?")
            } else {
                String::new()
            };
            (format!("{} {message}", segments[..depth].join(".")), hint)
        })?;
    }
    *item = new;
    Ok(())
}

/// The only element of a list, if a key follows instead of a number: `workload.size`.
fn only_element<'i>(item: &'i mut Item, segment: &str) -> Result<&'i mut Item, (String, String)> {
    if segment.parse::<usize>().is_ok() || !matches!(item.value, Value::Array(_)) {
        return Ok(item);
    }
    let Value::Array(items) = &mut item.value else { return Err((String::new(), String::new())) };
    match items.as_mut_slice() {
        [only] => Ok(only),
        items => {
            let hint = format!("put its number first, from 0, as in workload.0.{segment}");
            Err((format!("the list has {} elements: which one?", items.len()), hint))
        }
    }
}

/// One step down, into a table that is created if it is missing (or replaced by `false`).
fn step<'i>(item: &'i mut Item, segment: &str, place: Place) -> Result<&'i mut Item, String> {
    if matches!(item.value, Value::Bool(_)) {
        *item = Item::table(place);
    }
    let sort = item.sort();
    match item.value {
        Value::Array(ref mut items) => {
            let count = items.len();
            let element = segment.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            return element
                .ok_or_else(|| format!("is a list of {count}: it has no element {segment}, counted from 0"));
        }
        Value::Table(_) => {}
        _ => return Err(format!("is {sort} and has no keys")),
    }
    if item.get(segment).is_none() {
        item.insert(segment, Item::table(place));
    }
    item.get_mut(segment).ok_or_else(|| "cannot be set".to_owned())
}
