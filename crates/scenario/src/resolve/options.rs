//! Every key that a scenario file can have, for the reference: found by running the readers themselves over
//! documents that hold nothing but one choice of kind after the other.

use super::document::{Item, Place, Value, set};
use super::ledger::{Ledger, OptionDoc, Variants, last_segment};
use super::text::{parent, rank};
use std::path::Path;
use std::sync::OnceLock;

/// Kinds that were chosen: path and name.
type Choices = Vec<(String, &'static str)>;

/// Every key: path, the choices under which it exists, type, default and meaning.
pub fn options() -> &'static [OptionDoc] {
    static OPTIONS: OnceLock<Vec<OptionDoc>> = OnceLock::new();
    OPTIONS.get_or_init(explore)
}

/// Where a key that is unknown here belongs, as a hint, or "".
pub(crate) fn home_of(key: &str) -> String {
    let mut homes: Vec<&str> = options()
        .iter()
        .filter(|option| last_segment(&option.path) == key && !option.path.contains(".NAME."))
        .map(|o| parent(&o.path))
        .collect();
    homes.dedup();
    match homes[..] {
        // A table that has a seed of its own is not what was meant.
        ["", ..] => format!("{key} stands above the first table"),
        [home] if !home.contains('[') => format!("it belongs in [{home}]"),
        _ => String::new(),
    }
}

fn explore() -> Vec<OptionDoc> {
    let mut found: Vec<OptionDoc> = Vec::new();
    let mut waiting: Vec<(Choices, Vec<String>)> = vec![(Vec::new(), Vec::new())];
    while let Some((choices, explored)) = waiting.pop() {
        let (options, variants) = document(&choices);
        for option in options {
            if !found.iter().any(|known| covers(known, &option)) {
                found.push(option);
            }
        }
        // Only the choices that appeared with this one: others are explored on their own.
        let all: Vec<String> = variants.iter().map(|(path, _)| path.clone()).collect();
        for (path, names) in variants.into_iter().filter(|(path, _)| !explored.contains(path)) {
            for name in names.into_iter().rev() {
                let mut next = choices.clone();
                next.push((path.clone(), name));
                waiting.push((next, all.clone()));
            }
        }
    }
    let mut tables: Vec<String> = Vec::new();
    for option in &found {
        let table = parent(&option.path).to_owned();
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    found.sort_by_key(|option| {
        (rank(&option.path), tables.iter().position(|table| *table == parent(&option.path)))
    });
    found
}

/// Whether `known` says all that `option` would, under no more conditions.
fn covers(known: &OptionDoc, option: &OptionDoc) -> bool {
    let same = (&known.path, &known.default, &known.doc) == (&option.path, &option.default, &option.doc);
    same && option.when.starts_with(&known.when)
}

/// The keys and kinds that a document with these choices shows.
fn document(choices: &Choices) -> (Vec<OptionDoc>, Vec<Variants>) {
    let mut root = Item::table(Place::Nowhere);
    for (path, name) in choices {
        let choice = Item { value: Value::Text((*name).to_owned()), place: Place::Nowhere };
        set(&mut root, path, choice).expect("choices lie in tables of their own");
    }
    let mut ledger = Ledger::new(&root, "");
    ledger.documentation = Some((Vec::new(), Vec::new()));
    super::scenario(&mut ledger, Path::new("."), "the name of the file");
    ledger.documentation.take().unwrap_or_default()
}
