//! The record of reading a scenario: problems, warnings, the origin of every value, and (on a documentation
//! run) all keys.

use crate::docs::Documentation;
use crate::document::{Item, Place};
use crate::error::Problem;
use crate::language::Language;
use std::fmt;

/// Maximum number of mistakes in a report; further mistakes are counted only.
const PROBLEMS_MAX: usize = 20;
/// Maximum number of mistakes at one key (or at one key of all elements of a list); further mistakes are
/// counted only, because they have the same cause.
const PER_KEY_MAX: usize = 5;

/// The origin of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The scenario file.
    File,
    /// The option `--set`.
    Set,
    /// The option `--seed`.
    Seed,
    /// The value comes from a preset with this name.
    Preset(&'static str),
    /// The value comes from a stack with this name.
    Stack(&'static str),
    /// The value is the default of the key.
    Default,
    /// The value is a default that depends on another value, which the text names.
    Computed(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File => f.write_str("file"),
            Origin::Set => f.write_str("--set"),
            Origin::Seed => f.write_str("--seed"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::Stack(name) => write!(f, "stack {name}"),
            Origin::Default => f.write_str("default"),
            Origin::Computed(why) => write!(f, "computed: {why}"),
        }
    }
}

impl From<Place> for Origin {
    fn from(place: Place) -> Origin {
        match place {
            Place::Line(_) => Origin::File,
            Place::Set => Origin::Set,
            Place::Seed => Origin::Seed,
            Place::Nowhere => Origin::Default,
        }
    }
}

/// A key of a resolved scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The path, such as "switch.pfc.xoff" or "workload.0.size".
    pub path: String,
    /// The value as TOML; if `automatic` is set, a description of the value.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
    /// True if the key has no value and is therefore omitted from the TOML.
    pub automatic: bool,
}

/// Collects results while the tables are read.
pub struct Ledger<'d> {
    /// The document being read.
    pub root: &'d Item,
    /// The language (type of document) of the document.
    pub language: &'static Language,
    file_name: &'d str,
    problems: Vec<Problem>,
    unlisted: usize,
    warnings: Vec<String>,
    entries: Vec<Entry>,
    /// `Some` on a documentation run, which visits every table, even if the document does not contain it.
    pub documentation: Option<Documentation>,
}

impl<'d> Ledger<'d> {
    /// Makes an empty ledger.
    pub fn new(root: &'d Item, file_name: &'d str, language: &'static Language) -> Ledger<'d> {
        Ledger {
            root,
            language,
            file_name,
            problems: Vec::new(),
            unlisted: 0,
            warnings: Vec::new(),
            entries: Vec::new(),
            documentation: None,
        }
    }

    /// Name of the file in messages.
    pub fn file_name(&self) -> &'d str {
        self.file_name
    }

    /// Records a mistake at `path`; place and value are taken from the document.
    pub fn problem(&mut self, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        let (item, found) = self.root.nearest(path);
        self.problem_at(item.place, if found { item.show() } else { String::new() }, path, message, hint);
    }

    fn problem_at(
        &mut self,
        place: Place,
        value: String,
        path: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let (place, line) = match place {
            Place::Line(line) if !path.is_empty() => (format!("{}:{line}", self.file_name), Some(line)),
            Place::Set => ("--set".to_owned(), None),
            Place::Seed => ("--seed".to_owned(), None),
            Place::Line(_) | Place::Nowhere => (self.file_name.to_owned(), None),
        };
        let (message, hint) = (message.into(), hint.into());
        self.list(Problem { path: path.to_owned(), place, line, value, message, hint });
    }

    /// Adds a problem to the list, or only counts it if the list is full.
    fn list(&mut self, problem: Problem) {
        let like_it = |other: &&Problem| same_key(&other.path, &problem.path);
        if self.is_full() || self.problems.iter().filter(like_it).count() >= PER_KEY_MAX {
            self.unlisted += 1;
        } else {
            self.problems.push(problem);
        }
    }

    /// Records a mistake at a key that contains dots or quotes, which path look-up would not find.
    pub fn problem_with(&mut self, item: &Item, path: &str, message: String, hint: String) {
        self.problem_at(item.place, item.show(), path, message, hint);
    }

    /// True if the list of problems is full: further mistakes are only counted, and need no hints.
    pub fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// True if a mistake at `path` or below is known, so that its consequences need no message.
    pub fn failed(&self, path: &str) -> bool {
        let at = |problem: &Problem| {
            problem.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.problems.iter().any(at)
    }

    /// Records a warning for users before they trust the results.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Records the value of a key and its origin.
    pub fn entry(&mut self, path: String, value: String, origin: Origin) {
        self.entries.push(Entry { path, value, origin, automatic: false });
    }

    /// Records a key without a value; `stand_in` describes the behaviour without a value.
    pub fn automatic(&mut self, path: String, stand_in: &str, origin: Origin) {
        self.entries.push(Entry { path, value: stand_in.to_owned(), origin, automatic: true });
    }

    /// Sets the value of an entry that was recorded as automatic.
    pub fn settle(&mut self, path: &str, value: String, origin: Origin) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path == path) {
            *entry = Entry { path: path.to_owned(), value, origin, automatic: false };
        }
    }

    /// True if any table contains a value for a key with this name.
    pub fn has_key(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| last_segment(&entry.path) == key)
    }

    /// Number of recorded entries, for [`Ledger::fold`].
    pub fn mark(&self) -> usize {
        self.entries.len()
    }

    /// Removes the entries recorded since `mark` and returns them as one inline table.
    pub fn fold(&mut self, mark: usize) -> String {
        let pairs: Vec<String> = self
            .entries
            .drain(mark..)
            .filter(|entry| !entry.automatic)
            .map(|entry| format!("{} = {}", last_segment(&entry.path), entry.value))
            .collect();
        format!("{{ {} }}", pairs.join(", "))
    }

    /// Adds problems that were found outside of the readers.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.list(problem));
    }

    /// Returns entries and warnings, or else the problems in the order of the file.
    ///
    /// # Errors
    /// All problems, if there are any.
    pub fn close(mut self) -> Result<(Vec<Entry>, Vec<String>), Vec<Problem>> {
        if self.problems.is_empty() {
            return Ok((self.entries, self.warnings));
        }
        self.problems.sort_by_key(|problem| (problem.place == "--set", problem.line.unwrap_or(u32::MAX)));
        if self.unlisted > 0 {
            let (count, are) =
                (self.unlisted, if self.unlisted == 1 { "mistake is" } else { "mistakes are" });
            let message = format!("{count} further {are} not listed");
            self.problems.push(Problem {
                path: String::new(),
                place: self.file_name.to_owned(),
                line: None,
                value: String::new(),
                message,
                hint: String::new(),
            });
        }
        Err(self.problems)
    }
}

/// True if two paths differ only in list indices: "flows.0.src" and "flows.7.src".
fn same_key(one: &str, other: &str) -> bool {
    let plain = |segment: &&str| !segment.bytes().all(|byte| byte.is_ascii_digit());
    !one.is_empty() && one.split('.').filter(plain).eq(other.split('.').filter(plain))
}

/// The last segment of a path: "xoff" for "switch.pfc.xoff".
pub fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
