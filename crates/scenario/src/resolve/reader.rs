//! Reads one table: each accessor takes a key, says what it means, records the value with its origin, and
//! collects what is wrong. When a table is done, the keys that nobody asked for are mistakes too.

use super::document::{Item, Place, Value, parse_word};
use super::ledger::{Ledger, OptionDoc, Origin};
use super::options::home_of;
use super::value::{Setting, choose, misspelt, names, quoted};
use crate::presets::Preset;
use std::ops::RangeInclusive;

/// A table that is being read.
pub(crate) struct Table<'a, 'd> {
    pub(crate) ledger: &'a mut Ledger<'d>,
    pub(super) item: Option<&'d Item>,
    /// "switch.pfc"; "" for the document.
    pub(crate) path: String,
    /// The rows below the file's own values: the preset's, with what its keys begin with for this table, and the
    /// stack's below that.
    pub(super) preset: Option<(&'static Preset, String)>,
    stack: Option<&'static Preset>,
    /// Why this table is read, for the default of the key that shows it ([`Table::why`]).
    origin: Origin,
    /// The choices under which the keys of this table exist, for the reference.
    pub(super) when: String,
    pub(super) known: Vec<&'static str>,
    /// The kind that [`Table::variant`] found, or "".
    chosen: &'static str,
    /// Unknown keys are not judged: the kind that would say which are known is missing, or names are free.
    lenient: bool,
}

impl<'a, 'd> Table<'a, 'd> {
    /// The document itself.
    pub(crate) fn root(ledger: &'a mut Ledger<'d>) -> Table<'a, 'd> {
        let item = Some(ledger.root);
        Table::new(ledger, item, String::new(), Origin::Default, String::new())
    }

    pub(super) fn new(
        ledger: &'a mut Ledger<'d>,
        item: Option<&'d Item>,
        path: String,
        origin: Origin,
        when: String,
    ) -> Table<'a, 'd> {
        let is_table = item.is_none_or(|item| matches!(item.value, Value::Table(_)));
        if let (Some(item), false) = (item, is_table) {
            let message = format!("{} is {}; expected a table", item.show(), item.sort());
            ledger.problem_with(item, &path, message, String::new());
        }
        Table {
            ledger,
            item,
            path,
            preset: None,
            stack: None,
            origin,
            when,
            known: Vec::new(),
            chosen: "",
            lenient: !is_table,
        }
    }

    /// Takes values that the file does not give from `preset`.
    pub(crate) fn layer(&mut self, preset: &'static Preset) {
        self.preset = Some((preset, String::new()));
    }

    /// Takes values that neither the file nor the preset gives from `stack`.
    pub(crate) fn layer_below(&mut self, stack: &'static Preset) {
        self.stack = Some(stack);
    }

    /// The path of `key`; of the table itself for "".
    pub(crate) fn at(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }

    /// Whether the file or an override has `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.item.is_some_and(|item| item.get(key).is_some())
    }

    /// Where the value of `key` was written.
    pub(crate) fn origin_of(&self, key: &str) -> Origin {
        self.item.and_then(|item| item.get(key)).map_or(Origin::Default, |item| Origin::from(item.place))
    }

    /// Why this table is read although the file may not have it.
    pub(crate) fn why(&self) -> Origin {
        self.origin.clone()
    }

    pub(crate) fn is_documenting(&self) -> bool {
        self.ledger.documentation.is_some()
    }

    /// A key that must be there.
    pub(crate) fn required<T: Setting>(&mut self, key: &'static str, doc: &str) -> Option<T> {
        self.describe::<T>(key, "required", doc);
        if !self.has(key) && self.of_preset(key).is_none() {
            self.missing(key, &T::type_name());
        }
        let (value, origin) = self.given::<T>(key)?;
        self.ledger.entry(self.at(key), value.toml(), origin);
        Some(value)
    }

    /// A key that must be there, with the values that it may have.
    pub(crate) fn required_in<T: Setting + PartialOrd>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        doc: &str,
    ) -> Option<T> {
        let value = self.required(key, &with_range(doc, &range))?;
        self.within(key, &value, &range);
        Some(value)
    }

    /// A key with a default.
    pub(crate) fn or<T: Setting>(&mut self, key: &'static str, default: T, doc: &str) -> T {
        let shown = default.toml();
        self.or_because(key, default, Origin::Default, &shown, doc)
    }

    /// A key with a default, and the values that it may have.
    pub(crate) fn or_in<T: Setting + PartialOrd>(
        &mut self,
        key: &'static str,
        default: T,
        range: RangeInclusive<T>,
        doc: &str,
    ) -> T {
        let value = self.or(key, default, &with_range(doc, &range));
        self.within(key, &value, &range);
        value
    }

    /// A key whose default follows from something else: `origin` says from what, `rule` how, for the reference.
    pub(crate) fn or_because<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
        origin: Origin,
        rule: &str,
        doc: &str,
    ) -> T {
        self.describe::<T>(key, rule, doc);
        let (value, origin) = self.given(key).unwrap_or((default, origin));
        self.ledger.entry(self.at(key), value.toml(), origin);
        value
    }

    /// A key that may be left out; `stand_in` says what holds then.
    pub(crate) fn optional<T: Setting>(&mut self, key: &'static str, stand_in: &str, doc: &str) -> Option<T> {
        self.describe::<T>(key, stand_in, doc);
        let Some((value, origin)) = self.given::<T>(key) else {
            self.ledger.automatic(self.at(key), stand_in, Origin::Default);
            return None;
        };
        self.ledger.entry(self.at(key), value.toml(), origin);
        Some(value)
    }

    /// As [`Table::optional`], with the values that it may have.
    pub(crate) fn optional_in<T: Setting + PartialOrd>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        stand_in: &str,
        doc: &str,
    ) -> Option<T> {
        let value = self.optional(key, stand_in, &with_range(doc, &range))?;
        self.within(key, &value, &range);
        Some(value)
    }

    /// A key that is read but not recorded: what it leads to is.
    pub(crate) fn source<T: Setting>(&mut self, key: &'static str, stand_in: &str, doc: &str) -> Option<T> {
        self.describe::<T>(key, stand_in, doc);
        self.given::<T>(key).map(|(value, _)| value)
    }

    /// A key that another choice would read: known and documented, but without a value here.
    pub(crate) fn unused<T: Setting>(
        &mut self,
        key: &'static str,
        default: &T,
        range: Option<&RangeInclusive<T>>,
        doc: &str,
    ) {
        let doc = range.map_or_else(|| doc.to_owned(), |range| with_range(doc, range));
        self.describe::<T>(key, &default.toml(), &doc);
    }

    /// Reads keys that exist under a choice, in the words of the reference: "transport.ecn = off".
    pub(crate) fn under(&mut self, choice: &str, f: impl FnOnce(&mut Self)) {
        let whole = self.when.clone();
        self.when = if whole.is_empty() { choice.to_owned() } else { format!("{whole} and {choice}") };
        f(self);
        self.when = whole;
    }

    /// Which of several kinds this table is; each has its own further keys. The registry gives what belongs to
    /// the name, commonly the function that reads those keys.
    pub(crate) fn variant<R: Copy>(
        &mut self,
        key: &'static str,
        default: Option<(&'static str, Origin, &str)>,
        registry: &[(&'static str, R)],
        doc: &str,
    ) -> Option<R> {
        self.known.push(key);
        let (path, type_name) = (self.at(key), format!("one of {}", names(registry)));
        let rule = default.as_ref().map_or("required", |(_, _, rule)| rule);
        self.write_down(key, &type_name, rule, doc);
        if let Some((_, variants)) = &mut self.ledger.documentation {
            variants.push((path.clone(), registry.iter().map(|(name, _)| *name).collect()));
        }
        let chosen = match (self.item.and_then(|item| item.get(key)), default) {
            (Some(item), _) => choose(item, registry)
                .map(|_| (plain_text(item), Origin::from(item.place)))
                .map_err(|mistake| self.ledger.problem(&path, mistake.message, mistake.hint)),
            (None, _) if self.of_preset(key).is_some() => {
                self.of_preset(key).map(|(name, origin)| (name.to_owned(), origin)).ok_or(())
            }
            (None, Some((name, origin, _))) => Ok((name.to_owned(), origin)),
            (None, None) => {
                self.missing(key, &type_name);
                Err(())
            }
        };
        let Ok((name, origin)) = chosen else {
            self.lenient = true;
            return None;
        };
        // What the preset says is about its own kind.
        if self.of_preset(key).is_some_and(|(of_preset, _)| of_preset != name) {
            self.preset = None;
        }
        self.ledger.entry(path.clone(), quoted(&name), origin);
        let choice = format!("{path} = {name}");
        self.when = if self.when.is_empty() { choice } else { format!("{} and {choice}", self.when) };
        let (name, value) = registry.iter().find(|(known, _)| *known == name)?;
        self.chosen = name;
        Some(*value)
    }

    /// The name of the kind that was chosen last, or "".
    pub(crate) fn chosen(&self) -> &'static str {
        self.chosen
    }

    /// Records a mistake at `key` unless `ok`, or one is known there already.
    pub(crate) fn check(&mut self, ok: bool, key: &str, message: impl FnOnce() -> String, hint: &str) {
        let path = self.at(key);
        if !ok && !self.ledger.failed(&path) {
            self.ledger.problem(&path, message(), hint);
        }
    }

    fn within<T: Setting + PartialOrd>(&mut self, key: &str, value: &T, range: &RangeInclusive<T>) {
        let message =
            || format!("{} is outside {} to {}", value.plain(), range.start().plain(), range.end().plain());
        self.check(range.contains(value), key, message, "");
    }

    /// The value of the file or the preset.
    fn given<T: Setting>(&mut self, key: &str) -> Option<(T, Origin)> {
        if let Some(item) = self.item.and_then(|item| item.get(key)) {
            return match T::read(item) {
                Ok(value) => Some((value, Origin::from(item.place))),
                Err(mistake) => {
                    self.ledger.problem(&self.at(key), mistake.message, mistake.hint);
                    None
                }
            };
        }
        let (value, origin) = self.of_preset(key)?;
        Some((T::read(&parse_word(value, Place::Nowhere)).ok()?, origin))
    }

    /// What the preset says about `key`, or the stack below it.
    fn of_preset(&self, key: &str) -> Option<(&'static str, Origin)> {
        let preset = self.preset.as_ref().and_then(|(row, prefix)| {
            let value = row.value(&format!("{prefix}{key}"))?;
            Some((value, Origin::Preset(row.name)))
        });
        preset.or_else(|| self.stack.and_then(|row| Some((row.value(key)?, Origin::Stack(row.name)))))
    }

    fn missing(&mut self, key: &str, expected: &str) {
        let message = format!("is required: {expected}");
        if !self.is_documenting() {
            self.ledger.problem(&self.at(key), message, "");
        }
    }

    fn describe<T: Setting>(&mut self, key: &'static str, default: &str, doc: &str) {
        self.known.push(key);
        if self.is_documenting() {
            self.write_down(key, &T::type_name(), default, doc);
        }
    }

    pub(super) fn write_down(&mut self, key: &str, kind: &str, default: &str, doc: &str) {
        let (path, when) = (self.at(key), self.when.clone());
        if let Some((options, _)) = &mut self.ledger.documentation {
            let (kind, default, doc) = (kind.to_owned(), default.to_owned(), doc.to_owned());
            options.push(OptionDoc { path, when, kind, default, doc });
        }
    }

    /// What a key may have been meant for.
    fn suggestion(&self, key: &str) -> String {
        let near = misspelt(key, self.known.iter().copied());
        if near.is_empty() { home_of(key) } else { near }
    }

    /// Every key that was not asked for is a mistake.
    pub(crate) fn finish(self) {
        let Some(Item { value: Value::Table(pairs), .. }) = self.item else { return };
        if self.lenient || self.ledger.documentation.is_some() {
            return;
        }
        for (key, item) in pairs.iter().filter(|(key, _)| !self.known.contains(&key.as_str())) {
            let hint = if self.ledger.is_full() { String::new() } else { self.suggestion(key) };
            let path = self.at(key);
            self.ledger.problem_with(item, &path, "unknown key".to_owned(), hint);
        }
    }
}

fn plain_text(item: &Item) -> String {
    match &item.value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn with_range<T: Setting>(doc: &str, range: &RangeInclusive<T>) -> String {
    format!("{doc} ({} to {})", range.start().plain(), range.end().plain())
}
