//! Reads one table: each accessor takes a key, declares its meaning, records the value with its origin, and collects
//! mistakes. At the end, unread keys are mistakes too.

use crate::bounds::Bounds;
use crate::docs::{OptionDoc, TableDoc, Variants};
use crate::document::{Item, Place, Value, parse_word};
use crate::language::{Language, Wanted};
use crate::ledger::{Ledger, Origin};
use crate::row::Row;
use crate::shape::Shape;
use crate::terms;
use crate::value::{Setting, choose, did_you_mean, misspelt, names, quoted};

/// A table during reading.
pub struct Table<'a, 'd> {
    /// Collects all results.
    pub ledger: &'a mut Ledger<'d>,
    /// The table in the document, if it exists.
    pub item: Option<&'d Item>,
    /// The path of the table, such as "switch.pfc"; "" for the document.
    pub path: String,
    /// Values below the file's own: the preset's, with the prefix of its keys for this table, and below them the
    /// stack's.
    pub(crate) preset: Option<(&'static Row, String)>,
    stack: Option<&'static Row>,
    /// Why this table is read, for the default of a key that depends on it ([`Table::why`]).
    origin: Origin,
    /// The choices under which the keys of this table exist, for the reference.
    pub(crate) when: String,
    pub(crate) known: Vec<&'static str>,
    /// The key of the last [`Table::variant`], or "".
    selector: &'static str,
    /// The kind that it selected, or "".
    chosen: &'static str,
    /// The source of the next key, or "".
    source: &'static str,
    /// Unknown keys are accepted: the kind that defines them is missing, or names are free.
    lenient: bool,
    /// Given keys are checked and recorded; the others have no value here.
    pub(crate) is_idle: bool,
}

/// What a reader makes of no document: every key has its default.
pub fn defaults<R>(read: impl FnOnce(&mut Table) -> R) -> R {
    static NO_LANGUAGE: Language = Language::new(|_| (), &[], &[]);
    let root = Item::table(Place::Nowhere);
    read(&mut Table::root(&mut Ledger::new(&root, "", &NO_LANGUAGE)))
}

/// Common wrong names for the key that selects the kind.
const SELECTORS: [&str; 3] = ["kind", "type", "policy"];
/// Most keys of a table that an error lists.
const LISTED_KEYS: usize = 12;

#[expect(clippy::needless_pass_by_value, reason = "bounds are written where they are passed")]
impl<'a, 'd> Table<'a, 'd> {
    /// Makes a reader for the document itself.
    pub fn root(ledger: &'a mut Ledger<'d>) -> Table<'a, 'd> {
        let item = Some(ledger.root);
        Table::new(ledger, item, String::new(), Origin::Default, String::new())
    }

    pub(crate) fn new(
        ledger: &'a mut Ledger<'d>,
        item: Option<&'d Item>,
        path: String,
        origin: Origin,
        when: String,
    ) -> Table<'a, 'd> {
        let is_table = item.is_none_or(|item| matches!(item.value, Value::Table(_)));
        if let (Some(item), false) = (item, is_table) {
            let message = format!("{} is {}; expected a table", item.show(), item.sort());
            let hint = match &item.value {
                Value::Text(text) if ["on", "yes", "true"].contains(&text.as_str()) => {
                    "write true, without quotes".to_owned()
                }
                Value::Text(text) if ["off", "no", "false"].contains(&text.as_str()) => {
                    "write false, without quotes".to_owned()
                }
                _ => ledger
                    .language
                    .file_instead(&path, item)
                    .unwrap_or_else(|| how_to_write_table(&path, item)),
            };
            ledger.problem_with(item, &path, message, hint);
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
            selector: "",
            chosen: "",
            source: "",
            lenient: !is_table,
            is_idle: false,
        }
    }

    /// Uses `preset` for values that the file does not set.
    pub fn layer(&mut self, preset: &'static Row) {
        self.preset = Some((preset, String::new()));
    }

    /// Uses `stack` for values that neither the file nor the preset sets.
    pub fn layer_below(&mut self, stack: &'static Row) {
        self.stack = Some(stack);
    }

    /// The path of `key`, or of the table itself for "".
    pub fn at(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }

    /// True if the file or an override contains `key`.
    pub fn has(&self, key: &str) -> bool {
        self.item.is_some_and(|item| item.get(key).is_some())
    }

    /// Whether the file or an override has the table `key`, not `false`.
    pub fn is_on(&self, key: &str) -> bool {
        let item = self.item.and_then(|item| item.get(key));
        item.is_some_and(|item| !matches!(item.value, Value::Bool(false)))
    }

    /// The place of the value of `key`.
    pub fn origin_of(&self, key: &str) -> Origin {
        self.item.and_then(|item| item.get(key)).map_or(Origin::Default, |item| Origin::from(item.place))
    }

    /// The reason for reading this table, although the file may not have it.
    pub fn why(&self) -> Origin {
        self.origin.clone()
    }

    /// Whether this is a documentation run, which collects keys instead of values.
    pub fn is_documenting(&self) -> bool {
        self.ledger.documentation.is_some()
    }

    /// Declares name and description of this table.
    pub fn about(&mut self, name: &str, doc: &str) {
        let (path, when) = (self.path.clone(), self.when.clone());
        if let Some(found) = &mut self.ledger.documentation {
            found.tables.push(TableDoc { path, when, name: name.to_owned(), doc: doc.to_owned() });
        }
    }

    /// Declares the source of the next key; `of_table` is the default.
    pub fn cite(&mut self, own: &'static str, of_table: &'static str) {
        self.source = if own.is_empty() { of_table } else { own };
    }

    /// A required key.
    pub fn required<T: Setting>(&mut self, key: &'static str, doc: &str) -> Option<T> {
        self.describe::<T>(key, "required", doc, None);
        self.must(key)
    }

    /// A required key with its valid values.
    pub fn required_in<T: Setting>(
        &mut self,
        key: &'static str,
        bounds: impl Bounds<T>,
        doc: &str,
    ) -> Option<T> {
        self.describe(key, "required", doc, Some(&bounds));
        let value = self.must(key)?;
        self.within(key, &value, &bounds);
        Some(value)
    }

    fn must<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        if !self.has(key) && self.of_preset(key).is_none() {
            self.missing(key, &T::type_name());
        }
        let (value, origin) = self.given::<T>(key)?;
        self.ledger.entry(self.at(key), value.toml(), origin);
        Some(value)
    }

    /// Reads a key with a default.
    pub fn or<T: Setting>(&mut self, key: &'static str, default: T, doc: &str) -> T {
        self.describe::<T>(key, &default.toml(), doc, None);
        self.settled(key, default, Origin::Default)
    }

    /// A key with a default and its valid values.
    pub fn or_in<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
        bounds: impl Bounds<T>,
        doc: &str,
    ) -> T {
        self.describe(key, &default.toml(), doc, Some(&bounds));
        let value = self.settled(key, default, Origin::Default);
        self.within(key, &value, &bounds);
        value
    }

    /// A key with a computed default: `origin` is its basis, `rule` the computation, for the reference.
    pub fn or_because<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
        origin: Origin,
        rule: &str,
        doc: &str,
    ) -> T {
        self.describe::<T>(key, rule, doc, None);
        self.settled(key, default, origin)
    }

    /// As [`Table::or_because`], with valid values.
    pub fn or_because_in<T: Setting>(
        &mut self,
        key: &'static str,
        (default, origin): (T, Origin),
        bounds: impl Bounds<T>,
        rule: &str,
        doc: &str,
    ) -> T {
        self.describe(key, rule, doc, Some(&bounds));
        let value = self.settled(key, default, origin);
        self.within(key, &value, &bounds);
        value
    }

    fn settled<T: Setting>(&mut self, key: &str, default: T, origin: Origin) -> T {
        if self.is_idle && !self.has(key) {
            return default;
        }
        let (value, origin) = self.given(key).unwrap_or((default, origin));
        self.ledger.entry(self.at(key), value.toml(), origin);
        value
    }

    /// An optional key; `stand_in` describes what holds without it.
    pub fn optional<T: Setting>(&mut self, key: &'static str, stand_in: &str, doc: &str) -> Option<T> {
        self.describe::<T>(key, stand_in, doc, None);
        self.may(key, stand_in)
    }

    /// As [`Table::optional`], with valid values.
    pub fn optional_in<T: Setting>(
        &mut self,
        key: &'static str,
        bounds: impl Bounds<T>,
        stand_in: &str,
        doc: &str,
    ) -> Option<T> {
        self.describe(key, stand_in, doc, Some(&bounds));
        let value = self.may(key, stand_in)?;
        self.within(key, &value, &bounds);
        Some(value)
    }

    /// As [`Table::optional`], but recorded only if it is set, so that other tables do not show the key.
    pub fn optional_if_given<T: Setting>(
        &mut self,
        key: &'static str,
        stand_in: &str,
        doc: &str,
    ) -> Option<T> {
        self.describe::<T>(key, stand_in, doc, None);
        if self.has(key) { self.may(key, stand_in) } else { None }
    }

    /// As [`Table::or`], recorded only if it is set.
    pub fn or_if_given<T: Setting>(&mut self, key: &'static str, default: T, doc: &str) -> T {
        self.describe::<T>(key, &default.toml(), doc, None);
        if self.has(key) { self.settled(key, default, Origin::Default) } else { default }
    }

    /// As [`Table::or_in`], recorded only if it is set.
    pub fn or_if_given_in<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
        bounds: impl Bounds<T>,
        doc: &str,
    ) -> T {
        if self.has(key) || self.is_documenting() {
            return self.or_in(key, default, bounds, doc);
        }
        self.known.push(key);
        default
    }

    /// A key required in this case; `rule` describes the case for the reference.
    pub fn needed_unless<T: Setting>(&mut self, key: &'static str, rule: &str, doc: &str) -> Option<T> {
        self.describe::<T>(key, rule, doc, None);
        self.must(key)
    }

    fn may<T: Setting>(&mut self, key: &str, stand_in: &str) -> Option<T> {
        let Some((value, origin)) = self.given_or_left_out::<T>(key, Some(stand_in)) else {
            if !self.is_idle {
                self.ledger.automatic(self.at(key), stand_in, Origin::Default);
            }
            return None;
        };
        self.ledger.entry(self.at(key), value.toml(), origin);
        Some(value)
    }

    /// A key that names one of `rows`, whose values then apply below the document's own, or `default`.
    pub fn or_row(
        &mut self,
        key: &'static str,
        rows: &'static [Row],
        default: &'static str,
        doc: &str,
    ) -> String {
        let (name, row) = self.row_named(key, rows, default, doc);
        if let Some(row) = row {
            self.layer(row);
        }
        name
    }

    /// The same; the values apply below those of [`Table::or_row`].
    pub fn or_row_below(
        &mut self,
        key: &'static str,
        rows: &'static [Row],
        default: &'static str,
        doc: &str,
    ) -> String {
        let (name, row) = self.row_named(key, rows, default, doc);
        if let Some(row) = row {
            self.layer_below(row);
        }
        name
    }

    fn row_named(
        &mut self,
        key: &'static str,
        rows: &'static [Row],
        default: &'static str,
        doc: &str,
    ) -> (String, Option<&'static Row>) {
        let of_none = (!rows.iter().any(|row| row.name == default)).then_some(default);
        let known: Vec<&'static str> = of_none.into_iter().chain(rows.iter().map(|row| row.name)).collect();
        self.known.push(key);
        self.write_down(key, Shape::OneOf(known.clone()), &default.to_owned().toml(), doc);
        let name: String = self.settled(key, default.to_owned(), Origin::Default);
        let message = || format!("{name:?} is not one of {}", known.join(", "));
        let hint = did_you_mean(&name, known.iter().copied());
        self.check(known.contains(&name.as_str()), key, message, &hint);
        let row = rows.iter().find(|row| row.name == name);
        (name, row)
    }

    /// A key that is read but not recorded, because its consequences are.
    pub fn source<T: Setting>(&mut self, key: &'static str, stand_in: &str, doc: &str) -> Option<T> {
        self.describe::<T>(key, stand_in, doc, None);
        self.given::<T>(key).map(|(value, _)| value)
    }

    /// A key of another choice: known and documented, but without a value here.
    pub fn unused<T: Setting>(
        &mut self,
        key: &'static str,
        default: &T,
        bounds: Option<&dyn Bounds<T>>,
        doc: &str,
    ) {
        self.describe::<T>(key, &default.toml(), doc, bounds);
    }

    /// Accepts keys with this prefix, because a missing reader for them is reported already.
    pub fn excuse(&mut self, prefix: &str) {
        let Some(Item { value: Value::Table(pairs), .. }) = self.item else { return };
        for (key, _) in pairs.iter().filter(|(key, _)| key.starts_with(prefix)) {
            self.known.push(Box::leak(key.clone().into_boxed_str()));
        }
    }

    /// The keys of the document that no reader has asked for so far.
    pub fn unknown_keys(&self) -> Vec<(&'d str, &'d Item)> {
        let Some(Item { value: Value::Table(pairs), .. }) = self.item else { return Vec::new() };
        let is_unknown = |(key, _): &&'d (String, Item)| !self.known.contains(&key.as_str());
        pairs.iter().filter(is_unknown).map(|(key, item)| (key.as_str(), item)).collect()
    }

    /// Reads keys that exist under a choice, in the notation of the reference: "transport.ecn = off".
    pub fn under(&mut self, choice: &str, f: impl FnOnce(&mut Self)) {
        let whole = self.when.clone();
        self.when = if whole.is_empty() { choice.to_owned() } else { format!("{whole} and {choice}") };
        f(self);
        self.when = whole;
    }

    /// Selects one of several kinds of this table, each with further keys. The registry maps its name to a value,
    /// usually the function that reads these keys.
    pub fn variant<R: Copy>(
        &mut self,
        key: &'static str,
        default: Option<(&'static str, Origin, &str)>,
        registry: &[(&'static str, R)],
        doc: &str,
    ) -> Option<R> {
        self.known.push(key);
        self.selector = key;
        let (path, type_name) = (self.at(key), format!("one of {}", names(registry)));
        let rule = default.as_ref().map_or("required", |(_, _, rule)| rule);
        let all: Vec<&'static str> = registry.iter().map(|(name, _)| *name).collect();
        self.write_down(key, Shape::OneOf(all.clone()), rule, doc);
        if let Some(found) = &mut self.ledger.documentation {
            let has_default = rule != "required";
            found.variants.push(Variants { path: path.clone(), names: all, has_default });
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
        // The preset's values apply to its own kind.
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

    /// The name of the last selected kind, or "".
    pub fn chosen(&self) -> &'static str {
        self.chosen
    }

    /// Records a mistake at `key` unless `ok`, or one is recorded there already.
    pub fn check(&mut self, ok: bool, key: &str, message: impl FnOnce() -> String, hint: &str) {
        if !ok && !self.is_idle {
            self.refuse(key, message(), hint);
        }
    }

    /// Warns of a changed key that another one leaves without an effect.
    pub fn warn_if_idle(&mut self, key: &str, is_idle: bool, why: &str) {
        if is_idle {
            let path = self.at(key);
            self.ledger.warn(format!("{path}: it changes nothing: {why}"));
        }
    }

    /// Records a mistake at `key`, unless one is recorded there already.
    fn refuse(&mut self, key: &str, message: String, hint: &str) {
        let path = self.at(key);
        if !self.ledger.failed(&path) {
            self.ledger.problem(&path, message, hint);
        }
    }

    fn within<T>(&mut self, key: &str, value: &T, bounds: &impl Bounds<T>) {
        if let Some(complaint) = bounds.complaint(value) {
            self.refuse(key, complaint, &bounds.hint(value));
        }
    }

    /// The value from the file or the preset.
    fn given<T: Setting>(&mut self, key: &str) -> Option<(T, Origin)> {
        self.given_or_left_out(key, None)
    }

    /// The same of a key that may be left out: `stand_in` describes what holds then.
    fn given_or_left_out<T: Setting>(&mut self, key: &str, stand_in: Option<&str>) -> Option<(T, Origin)> {
        if let Some(item) = self.item.and_then(|item| item.get(key)) {
            return match T::read(item) {
                Ok(value) => Some((value, Origin::from(item.place))),
                Err(mistake) => {
                    let hint = match stand_in.filter(|_| is_word_for_none(item)) {
                        Some(stand_in) => format!("leave the key out for {stand_in:?}"),
                        None if mistake.hint.is_empty() => {
                            self.beside(item).unwrap_or_else(|| one_of_several::<T>(item))
                        }
                        None => mistake.hint,
                    };
                    self.ledger.problem(&self.at(key), mistake.message, hint);
                    None
                }
            };
        }
        let (value, origin) = self.of_preset(key)?;
        Some((T::read(&parse_word(value, Place::Nowhere)).ok()?, origin))
    }

    /// What to set in place of a key below one that is no table.
    fn beside(&self, item: &Item) -> Option<String> {
        let Value::Table(pairs) = &item.value else { return None };
        if item.place != Place::Set || self.path.is_empty() {
            return None;
        }
        let (key, _) = pairs.first()?;
        Some(format!("did you mean {}, which stands beside it?", self.at(key)))
    }

    /// The value of `key` in the preset, or in the stack below it.
    fn of_preset(&self, key: &str) -> Option<(&'static str, Origin)> {
        let preset = self.preset.as_ref().and_then(|(row, prefix)| {
            let value = row.value(&format!("{prefix}{key}"))?;
            Some((value, Origin::Preset(row.name)))
        });
        preset.or_else(|| self.stack.and_then(|row| Some((row.value(key)?, Origin::Stack(row.name)))))
    }

    fn missing(&mut self, key: &str, expected: &str) {
        let message = format!("is required: {expected}");
        let is_table = self.item.is_none_or(|item| matches!(item.value, Value::Table(_)));
        if !self.is_documenting() && is_table {
            let hint = if key == self.selector { self.kind_by_keys() } else { None };
            let (path, hint) = (self.at(key), hint.unwrap_or_else(|| self.place_for(key)));
            self.ledger.problem(&path, message, hint);
        }
    }

    /// The kind that has the keys of a table without one.
    fn kind_by_keys(&self) -> Option<String> {
        let Value::Table(pairs) = &self.item?.value else { return None };
        let language = self.ledger.language;
        let of_key = |key: &str| {
            let kinds = language.kinds_with(&self.path, key, Wanted::Key);
            (!kinds.is_empty()).then_some(kinds)
        };
        pairs.iter().find_map(|(key, _)| {
            let of_term = || terms::keys(key).iter().find_map(|name| Some((name, of_key(name)?)));
            let other = |(name, kinds): (&&str, String)| format!("did you mean {name}? {kinds}");
            of_key(key).map(|kinds| format!("{key} is there: {kinds}")).or_else(|| of_term().map(other))
        })
    }

    /// The place for a missing key.
    fn place_for(&self, key: &str) -> String {
        let table = without_positions(&self.path);
        let is_element = self.path.ends_with(|c: char| c.is_ascii_digit());
        match (table.as_str(), is_element) {
            ("", _) => format!("add {key} = ... above the first table"),
            (table, true) => format!("add {key} = ... under [[{table}]]"),
            (table, false) if self.item.is_some() => format!("add {key} = ... under [{table}]"),
            (table, false) => format!("add a line [{table}], and {key} = ... under it"),
        }
    }

    fn describe<T: Setting>(
        &mut self,
        key: &'static str,
        default: &str,
        doc: &str,
        bounds: Option<&dyn Bounds<T>>,
    ) {
        self.known.push(key);
        if !self.is_documenting() {
            return;
        }
        self.write_down(key, T::shape(), default, doc);
        if let (Some(found), Some(bounds)) = (&mut self.ledger.documentation, bounds)
            && let Some(option) = found.options.last_mut()
        {
            option.doc = format!("{doc} ({})", bounds.text());
            option.range = Some(bounds.range());
        }
    }

    pub(crate) fn write_down(&mut self, key: &str, shape: Shape, default: &str, doc: &str) {
        let (path, when, source) = (self.at(key), self.when.clone(), std::mem::take(&mut self.source));
        if let Some(found) = &mut self.ledger.documentation {
            let (kind, default, doc) = (shape.name(), default.to_owned(), doc.to_owned());
            found.options.push(OptionDoc { path, when, kind, default, doc, source, shape, range: None });
        }
    }

    /// Similar names for an unknown key with the value `item`.
    fn suggestion(&self, key: &str, item: &Item) -> String {
        if !self.selector.is_empty() && SELECTORS.contains(&key) {
            return format!("did you mean {:?}?", self.selector);
        }
        let language = self.ledger.language;
        let wanted = if matches!(item.value, Value::Table(_)) { Wanted::Table } else { Wanted::Key };
        let of_inner_table = language.inner_table_with(&self.path, &self.known, key, wanted);
        if !self.path.is_empty() && !of_inner_table.is_empty() {
            return of_inner_table;
        }
        let of_other_kinds = language.kinds_with(&self.path, key, wanted);
        if !of_other_kinds.is_empty() {
            return of_other_kinds;
        }
        let term = terms::key_hint(key, &self.known);
        // A key that stands here already was not meant, but by `--set`.
        let is_of_file = item.place != Place::Set;
        let absent = self.known.iter().copied().filter(|known| !is_of_file || !self.has(known));
        let near = if term.is_empty() { misspelt(key, absent) } else { term };
        let found = if near.is_empty() { language.home_of(key, wanted) } else { near };
        if !found.is_empty() || self.path.is_empty() {
            return found;
        }
        if self.known.len() <= LISTED_KEYS {
            return format!("the keys here are {}", self.known.join(", "));
        }
        format!("pauseframe options {} lists the keys here", without_positions(&self.path))
    }

    /// Reports every unread key as a mistake.
    pub fn finish(self) {
        if self.lenient || self.ledger.documentation.is_some() {
            return;
        }
        for (key, item) in self.unknown_keys() {
            let hint = if self.ledger.is_full() { String::new() } else { self.suggestion(key, item) };
            for (path, item) in as_written(self.at(key), item) {
                self.ledger.problem_with(item, &path, "unknown key".to_owned(), hint.clone());
            }
        }
    }
}

/// Whether a value is a word for no value.
fn is_word_for_none(item: &Item) -> bool {
    const WORDS: [&str; 8] = ["none", "never", "off", "no", "unlimited", "infinite", "inf", ""];
    match &item.value {
        Value::Text(text) => WORDS.contains(&text.trim().to_ascii_lowercase().as_str()),
        Value::Bool(is_wanted) => !is_wanted,
        _ => false,
    }
}

/// What to do with a list of values where one is possible, or "".
fn one_of_several<T: Setting>(item: &Item) -> String {
    match &item.value {
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| T::read(item).is_ok()) => {
            "write one value; pauseframe sweep compares several (in Python: axes)".to_owned()
        }
        _ => String::new(),
    }
}

/// How to write the table at `path` in place of `item`.
fn how_to_write_table(path: &str, item: &Item) -> String {
    if item.place == Place::Set {
        return format!("set its keys one by one, as in --set {path}.KEY=VALUE");
    }
    if path.ends_with(|c: char| c.is_ascii_digit()) {
        return "write its keys in braces: { KEY = VALUE, ... }".to_owned();
    }
    let header = without_positions(path);
    format!("write [{header}] on a line of its own, and the keys of the table under it")
}

/// A path as headers of tables have it: "workload.checkpoint" for "workload.0.checkpoint".
fn without_positions(path: &str) -> String {
    let is_name = |segment: &&str| !segment.bytes().all(|byte| byte.is_ascii_digit());
    path.split('.').filter(is_name).collect::<Vec<_>>().join(".")
}

/// The keys that a person wrote: `--set a.b=1` makes a table `a`, which nobody wrote.
fn as_written(path: String, item: &Item) -> Vec<(String, &Item)> {
    match &item.value {
        Value::Table(pairs) if item.place == Place::Set && !pairs.is_empty() => {
            pairs.iter().flat_map(|(key, item)| as_written(format!("{path}.{key}"), item)).collect()
        }
        _ => vec![(path, item)],
    }
}

fn plain_text(item: &Item) -> String {
    match &item.value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}
