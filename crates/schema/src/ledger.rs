//! The result of reading a scenario: problems, warnings, origins of all values, and (on a documentation run) the
//! existing keys.

use crate::docs::Documentation;
use crate::document::{Item, Place};
use crate::error::Problem;
use crate::language::Language;
use std::fmt;

/// Maximum number of listed mistakes; further ones are counted.
const PROBLEMS_MAX: usize = 20;
/// Maximum number of listed mistakes at one key (or at one key of the elements of a list), because they have one cause.
const PER_KEY_MAX: usize = 5;

/// Origin of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The scenario file.
    File,
    /// The option `--set`.
    Set,
    /// The option `--seed`.
    Seed,
    /// The values of this preset.
    Preset(&'static str),
    /// The values of this stack.
    Stack(&'static str),
    /// The value is the default of the key.
    Default,
    /// A computed default, and its basis.
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
    /// As TOML; if `automatic`, a description.
    pub value: String,
    /// Its origin.
    pub origin: Origin,
    /// The key has no value and is omitted from the TOML.
    pub automatic: bool,
}

/// Collects results while tables are read.
pub struct Ledger<'d> {
    /// The document being read.
    pub root: &'d Item,
    /// The existing keys.
    pub language: &'static Language,
    file_name: &'d str,
    problems: Vec<Problem>,
    unlisted: usize,
    warnings: Vec<String>,
    entries: Vec<Entry>,
    /// `Some` on a documentation run, which visits every table, even if it is not in the document.
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

    /// Records a mistake at `path`, with place and value from the document.
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

    /// Lists a problem, or counts it if there are too many.
    fn list(&mut self, problem: Problem) {
        let like_it = |other: &&Problem| same_key(&other.path, &problem.path);
        if self.is_full() || self.problems.iter().filter(like_it).count() >= PER_KEY_MAX {
            self.unlisted += 1;
        } else {
            self.problems.push(problem);
        }
    }

    /// Records a mistake at a key with dots or quotes, whose path cannot be looked up.
    pub fn problem_with(&mut self, item: &Item, path: &str, message: String, hint: String) {
        self.problem_at(item.place, item.show(), path, message, hint);
    }

    /// Whether further mistakes are only counted, so that hints are not needed.
    pub fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// Whether a mistake at `path` or below it is recorded, so that consequences need not be reported.
    pub fn failed(&self, path: &str) -> bool {
        let at = |problem: &Problem| {
            problem.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.problems.iter().any(at)
    }

    /// Records a warning.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Number of warnings so far, for [`Ledger::forget_warnings_after`].
    pub(crate) fn warning_count(&self) -> usize {
        self.warnings.len()
    }

    /// Drops later warnings: they are about keys that act on nothing.
    pub(crate) fn forget_warnings_after(&mut self, count: usize) {
        self.warnings.truncate(count);
    }

    /// Records the value of a key with its origin.
    pub fn entry(&mut self, path: String, value: String, origin: Origin) {
        self.entries.push(Entry { path, value, origin, automatic: false });
    }

    /// Records a key without a value; `stand_in` describes what holds instead.
    pub fn automatic(&mut self, path: String, stand_in: &str, origin: Origin) {
        self.entries.push(Entry { path, value: stand_in.to_owned(), origin, automatic: true });
    }

    /// The values recorded so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Sets the value of an entry recorded as automatic.
    pub fn settle(&mut self, path: &str, value: String, origin: Origin) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path == path) {
            *entry = Entry { path: path.to_owned(), value, origin, automatic: false };
        }
    }

    /// Whether the entry at `path` has its plain default.
    pub fn is_default(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| entry.path == path && entry.origin == Origin::Default)
    }

    /// Whether a key with this name has a value in any table.
    pub fn has_key(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| last_segment(&entry.path) == key)
    }

    /// Number of entries, for [`Ledger::fold`].
    pub fn mark(&self) -> usize {
        self.entries.len()
    }

    /// Replaces the entries since `mark` by one inline table.
    pub fn fold(&mut self, mark: usize) -> String {
        let pairs: Vec<String> = self
            .entries
            .drain(mark..)
            .filter(|entry| !entry.automatic)
            .map(|entry| format!("{} = {}", last_segment(&entry.path), entry.value))
            .collect();
        format!("{{ {} }}", pairs.join(", "))
    }

    /// Adds problems found before or after reading.
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

/// Whether two paths are equal except for positions in lists: "flows.0.src" and "flows.7.src".
fn same_key(one: &str, other: &str) -> bool {
    let plain = |segment: &&str| !segment.bytes().all(|byte| byte.is_ascii_digit());
    !one.is_empty() && one.split('.').filter(plain).eq(other.split('.').filter(plain))
}

/// The last segment of a path: "xoff" for "switch.pfc.xoff".
pub fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
