//! Tables within a table: one, one that can be switched off, a list of tables, a list of rows, tables by name.

use crate::document::{Item, Value};
use crate::ledger::Origin;
use crate::reader::Table;
use crate::shape::Shape;
use std::fmt::Display;

/// Maximum number of elements, such as workloads or transports.
const TABLES_MAX: usize = 4096;

/// The meaning of an absent `key = false | table`, and the reason.
pub enum Absent {
    /// The absent key counts as `false`.
    Off(Origin),
    /// A table with all its defaults.
    On(Origin),
}

impl<'d> Table<'_, 'd> {
    /// A table within this one; if it is absent, all its keys have their defaults.
    pub fn section<R>(&mut self, key: &'static str, f: impl FnOnce(&mut Table<'_, 'd>) -> R) -> R {
        self.section_because(key, Origin::Default, f)
    }

    /// The same, with the reason for reading it.
    pub fn section_because<R>(
        &mut self,
        key: &'static str,
        origin: Origin,
        f: impl FnOnce(&mut Table<'_, 'd>) -> R,
    ) -> R {
        self.known.push(key);
        let (item, path, when) = (self.item.and_then(|item| item.get(key)), self.at(key), self.when.clone());
        let preset = self.preset.as_ref().map(|(preset, prefix)| (*preset, format!("{prefix}{key}.")));
        let mut child = Table::new(self.ledger, item, path, origin, when);
        child.preset = preset;
        let result = f(&mut child);
        child.finish();
        result
    }

    /// A table within this one whose keys act on nothing in this document: what is written is checked and recorded.
    pub fn idle_section(&mut self, key: &'static str, doc: &str, f: impl FnOnce(&mut Table<'_, 'd>)) {
        self.known.push(key);
        if self.is_documenting() {
            self.write_down(key, Shape::Table, "none", doc);
            return;
        }
        let Some(item) = self.item.and_then(|item| item.get(key)) else { return };
        let (path, warnings) = (self.at(key), self.ledger.warning_count());
        let mut child = Table::new(self.ledger, Some(item), path, Origin::Default, self.when.clone());
        child.is_idle = true;
        f(&mut child);
        child.finish();
        self.ledger.forget_warnings_after(warnings);
    }

    /// `false`, or a table: a feature that can be switched off.
    pub fn switchable<R>(
        &mut self,
        key: &'static str,
        absent: Absent,
        rule: &str,
        doc: &str,
        f: impl FnOnce(&mut Table<'_, 'd>) -> R,
    ) -> Option<R> {
        self.write_down(key, Shape::Switchable, rule, doc);
        let item = self.item.and_then(|item| item.get(key));
        let off = match (item, absent) {
            _ if self.is_documenting() => Ok(Origin::Default),
            (Some(Item { value: Value::Bool(false), place }), _) => Err(Origin::from(*place)),
            (Some(_), _) => Ok(Origin::Default),
            (None, Absent::On(origin)) => Ok(origin),
            (None, Absent::Off(origin)) => Err(origin),
        };
        match off {
            Ok(origin) => Some(self.section_because(key, origin, f)),
            Err(origin) => {
                self.known.push(key);
                self.ledger.entry(self.at(key), "false".to_owned(), origin);
                None
            }
        }
    }

    /// Reads an array of tables. A documentation run visits one element.
    pub fn tables<R>(
        &mut self,
        key: &'static str,
        doc: &str,
        mut f: impl FnMut(&mut Table<'_, 'd>) -> R,
    ) -> Vec<R> {
        self.known.push(key);
        self.write_down(key, Shape::Rows, "required", doc);
        let item = self.item.and_then(|item| item.get(key));
        let elements: Vec<(Option<&'d Item>, String)> = match item.map(|item| &item.value) {
            _ if self.is_documenting() => vec![(item, self.at(key))],
            Some(Value::Array(items)) if self.few_enough(key, items.len()) => items
                .iter()
                .enumerate()
                .map(|(i, item)| (Some(item), format!("{}.{i}", self.at(key))))
                .collect(),
            Some(Value::Array(_)) | None => Vec::new(),
            Some(_) => {
                self.ledger.problem(
                    &self.at(key),
                    "expected tables",
                    format!("write [[{key}]] above the keys"),
                );
                Vec::new()
            }
        };
        let mut results = Vec::with_capacity(elements.len());
        for (item, path) in elements {
            let mut child = Table::new(self.ledger, item, path, Origin::Default, self.when.clone());
            results.push(f(&mut child));
            child.finish();
        }
        results
    }

    /// A list of inline tables recorded as one value. `None` if the key is absent or a row is wrong.
    pub fn rows<R>(
        &mut self,
        key: &'static str,
        rule: &str,
        doc: &str,
        mut f: impl FnMut(&mut Table<'_, 'd>) -> Option<R>,
    ) -> Option<Vec<R>> {
        self.known.push(key);
        self.write_down(key, Shape::Rows, rule, doc);
        let (item, path) = (self.item.and_then(|item| item.get(key)), self.at(key));
        if self.is_documenting() {
            f(&mut Table::new(self.ledger, None, format!("{path}[]"), Origin::Default, self.when.clone()));
            return None;
        }
        let item = item?;
        let Value::Array(items) = &item.value else {
            let message = format!("{} is {}; expected a list of tables", item.show(), item.sort());
            let of_file = self.ledger.language.file_instead(&path, item);
            let is_header = matches!(item.value, Value::Table(_)) && !path.contains('.');
            let brackets =
                || if is_header { format!("write [[{path}]] with two brackets") } else { String::new() };
            self.ledger.problem(&path, message, of_file.unwrap_or_else(brackets));
            return None;
        };
        let (mut rows, mut texts) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (index, item) in items.iter().enumerate() {
            let mark = self.ledger.mark();
            let row_path = format!("{path}.{index}");
            let mut row = Table::new(self.ledger, Some(item), row_path, Origin::Default, String::new());
            rows.extend(f(&mut row));
            row.finish();
            texts.push(self.ledger.fold(mark));
        }
        self.ledger.entry(path, list_of_rows(&texts), Origin::from(item.place));
        (rows.len() == items.len()).then_some(rows)
    }

    /// Reads tables with names that the file chooses; the keys are those of the table `like`.
    pub fn named<R>(
        &mut self,
        key: &'static str,
        like: &'static str,
        doc: &str,
        mut f: impl FnMut(&mut Table<'_, 'd>, &str) -> R,
    ) -> Vec<R> {
        self.known.push(key);
        self.write_down(key, Shape::Named { like }, "none", doc);
        let Some(item) = self.item.and_then(|item| item.get(key)) else { return Vec::new() };
        let Value::Table(pairs) = &item.value else {
            self.ledger.problem(
                &self.at(key),
                "expected tables",
                format!("write [{key}.NAME] above the keys"),
            );
            return Vec::new();
        };
        if !self.few_enough(key, pairs.len()) {
            return Vec::new();
        }
        let mut results = Vec::with_capacity(pairs.len());
        for (name, item) in pairs {
            let path = format!("{}.{name}", self.at(key));
            let mut child = Table::new(self.ledger, Some(item), path, Origin::Default, self.when.clone());
            results.push(f(&mut child, name));
            child.finish();
        }
        results
    }

    /// Like [`Self::named`]; a documentation run visits one table with the name NAME.
    pub fn named_and_documented<R>(
        &mut self,
        key: &'static str,
        doc: &str,
        mut f: impl FnMut(&mut Table<'_, 'd>, &str) -> R,
    ) -> Vec<R> {
        let absent = self.item.and_then(|item| item.get(key)).is_none();
        let results = self.named(key, "", doc, &mut f);
        if self.is_documenting() && absent {
            let path = format!("{}.NAME", self.at(key));
            f(&mut Table::new(self.ledger, None, path, Origin::Default, self.when.clone()), "NAME");
        }
        results
    }

    /// As [`Table::rows`], but empty if the key is absent, and recorded so.
    pub fn rows_or_empty<R>(
        &mut self,
        key: &'static str,
        doc: &str,
        f: impl FnMut(&mut Table<'_, 'd>) -> Option<R>,
    ) -> Vec<R> {
        let rows = self.rows(key, "[]", doc, f);
        if !self.has(key) && !self.is_documenting() {
            self.ledger.entry(self.at(key), "[]".to_owned(), Origin::Default);
        }
        rows.unwrap_or_default()
    }

    fn few_enough(&mut self, key: &str, count: usize) -> bool {
        let message = || format!("there are {count}; at most {TABLES_MAX} are possible");
        self.check(count <= TABLES_MAX, key, message, "");
        count <= TABLES_MAX
    }
}

/// Inline tables as a list, one per line.
pub fn list_of_rows<T: Display>(rows: &[T]) -> String {
    if rows.is_empty() {
        return "[]".to_owned();
    }
    let lines: Vec<String> = rows.iter().map(|row| format!("    {row},\n")).collect();
    format!("[\n{}]", lines.concat())
}
