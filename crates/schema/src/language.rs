//! A kind of document, defined by its readers, and the keys that follow from them.

use crate::docs::{Documentation, OptionDoc};
use crate::document::{Item, Value};
use crate::ledger::{Ledger, last_segment};
use crate::options::explore;
use crate::short::Short;
use crate::text::parent;
use std::sync::{PoisonError, RwLock};

/// The keys of a kind of document.
#[derive(Debug)]
pub struct Language {
    /// Reads all tables of a document.
    pub read: fn(&mut Ledger),
    /// Short forms of tables: the path, and the full form.
    pub shorts: &'static [(&'static str, Short)],
    /// The tables (and the keys above them) in the usual order.
    pub order: &'static [&'static str],
    found: RwLock<Option<&'static Documentation>>,
}

/// What a document has where its key is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A value, so a key of this name may be meant.
    Key,
    /// A table, so only a table of this name can be meant.
    Table,
}

impl Wanted {
    /// The path of an option, or of the table around it.
    fn path_of(self, option: &OptionDoc) -> &str {
        match self {
            Wanted::Key => &option.path,
            Wanted::Table => parent(&option.path),
        }
    }
}

impl Language {
    /// A language that has not been explored yet.
    pub const fn new(
        read: fn(&mut Ledger),
        shorts: &'static [(&'static str, Short)],
        order: &'static [&'static str],
    ) -> Language {
        Language { read, shorts, order, found: RwLock::new(None) }
    }

    /// The declarations of the readers.
    pub fn documentation(&'static self) -> &'static Documentation {
        let known = *self.found.read().unwrap_or_else(PoisonError::into_inner);
        known.unwrap_or_else(|| {
            let found: &'static Documentation = Box::leak(Box::new(explore(self)));
            *self.found.write().unwrap_or_else(PoisonError::into_inner) = Some(found);
            found
        })
    }

    /// Declares that the readers have further keys from now on.
    pub fn explore_again(&'static self) {
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Every key: path, the choices under which it exists, type, default and meaning.
    pub fn options(&'static self) -> &'static [OptionDoc] {
        &self.documentation().options
    }

    /// The position of a path in the order of the file.
    pub fn rank(&self, path: &str) -> usize {
        let section = path.split(['.', '[']).next().unwrap_or("");
        self.order.iter().position(|known| *known == section).unwrap_or(self.order.len())
    }

    /// The choices under which the table at `path` has a key that it lacks, as a hint, or "".
    pub fn kinds_with(&'static self, path: &str, key: &str, wanted: Wanted) -> String {
        let here = format!("{path}.{key}");
        let mut choices: Vec<&str> = self
            .options()
            .iter()
            .filter(|option| is_place(wanted.path_of(option), &here))
            .filter_map(|option| option.when.rsplit(" and ").next()?.rsplit('.').next())
            .filter(|choice| !choice.is_empty())
            .collect();
        choices.dedup();
        match choices.len() {
            1..=3 => format!("it goes with {}", choices.join(" or ")),
            _ => String::new(),
        }
    }

    /// The one of the tables `known` inside the table at `path` that has a key, as a hint, or "".
    pub fn inner_table_with(&'static self, path: &str, known: &[&str], key: &str, wanted: Wanted) -> String {
        let has = |inner: &&&str| {
            let place = format!("{path}.{inner}.{key}");
            self.options().iter().any(|option| is_place(wanted.path_of(option), &place))
        };
        let shown: Vec<&str> =
            path.split('.').filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit())).collect();
        known
            .iter()
            .find(has)
            .map_or_else(String::new, |inner| format!("it belongs in [{}.{inner}]", shown.join(".")))
    }

    /// What to write where `item` names a file in place of the table or tables at `path`.
    pub(crate) fn file_instead(&'static self, path: &str, item: &Item) -> Option<String> {
        let Value::Text(text) = &item.value else { return None };
        if !text.contains(['.', '/']) {
            return None;
        }
        let table = path.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let names_file = |option: &&OptionDoc| ["file", "path"].contains(&last_segment(&option.path));
        let mut files = self.options().iter().filter(names_file);
        if let Some(inner) = files.clone().find(|option| is_place(parent(&option.path), table)) {
            let kind = inner.when.rsplit('.').next().and_then(|choice| choice.split_once(" = "));
            let kind = kind.map_or_else(String::new, |(key, name)| format!("{key} = {name:?} and "));
            return Some(format!("write [{table}] with {kind}{} = {text:?}", last_segment(&inner.path)));
        }
        let own = self.options().iter().find(|option| is_place(&option.path, table));
        let is_beside = |option: &&OptionDoc| {
            own.is_some_and(|own| (parent(&own.path), &own.when) == (parent(&option.path), &option.when))
        };
        let beside = files.find(is_beside).map(|option| last_segment(&option.path));
        beside.map(|key| format!("write {key} = {text:?} instead"))
    }

    /// The place of a key that is unknown here, as a hint, or "". A time (`at`) can be meant everywhere.
    pub fn home_of(&'static self, key: &str, wanted: Wanted) -> String {
        if key == "at" {
            return String::new();
        }
        let mut homes: Vec<&str> = self
            .options()
            .iter()
            .map(|option| wanted.path_of(option))
            .filter(|path| last_segment(path) == key && !path.contains(".NAME."))
            .map(parent)
            .collect();
        homes.dedup();
        // A table that stands once is more likely to be meant than rows of a list.
        if homes.iter().any(|home| !home.contains('[')) {
            homes.retain(|home| !home.contains('['));
        }
        match homes[..] {
            // A table with its own seed is not what was meant.
            ["", ..] if wanted == Wanted::Table => format!("the table is [{key}]"),
            ["", ..] => format!("{key} stands above the first table"),
            [home] if !home.contains('[') => format!("it belongs in [{home}]"),
            [one, other] if !one.contains('[') => format!("it belongs in [{one}] or [{other}]"),
            _ => String::new(),
        }
    }
}

/// Whether a path of the reference, such as "workload.size" or "transports.NAME.ecn", matches a path of a document,
/// such as "workload.0.size".
fn is_place(documented: &str, path: &str) -> bool {
    let is_number = |segment: &str| segment.bytes().all(|byte| byte.is_ascii_digit());
    let mut found = path.split('.').filter(|segment| !is_number(segment));
    let mut documented = documented.split('.').map(|segment| segment.trim_end_matches("[]"));
    documented.all(|known| found.next().is_some_and(|found| known == "NAME" || known == found))
        && found.next().is_none()
}
