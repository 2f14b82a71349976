//! Every key of a document, for the reference: found by running the readers over documents that contain only one choice
//! of kind after the other.

use crate::docs::{Documentation, OptionDoc};
use crate::document::{Item, Place, Value, set};
use crate::language::Language;
use crate::ledger::Ledger;
use crate::text::parent;

/// Chosen kinds: path and name.
type Choices = Vec<(String, &'static str)>;

/// Runs the readers of `language` over every choice of kind.
pub(crate) fn explore(language: &'static Language) -> Documentation {
    let mut found = Documentation::default();
    let mut waiting: Vec<(Choices, Vec<String>)> = vec![(Vec::new(), Vec::new())];
    while let Some((choices, explored)) = waiting.pop() {
        let run = document(language, &choices);
        for option in run.options {
            if !found.options.iter().any(|known| covers(known, &option)) {
                found.options.push(option);
            }
        }
        for table in run.tables {
            if !found.tables.contains(&table) {
                found.tables.push(table);
            }
        }
        // Only the choices that appeared with this one: others are explored separately.
        let all: Vec<String> = run.variants.iter().map(|variants| variants.path.clone()).collect();
        for variants in run.variants.into_iter().filter(|variants| !explored.contains(&variants.path)) {
            for name in variants.names.iter().rev() {
                let mut next = choices.clone();
                next.push((variants.path.clone(), *name));
                waiting.push((next, all.clone()));
            }
            if !found.variants.contains(&variants) {
                found.variants.push(variants);
            }
        }
    }
    let mut tables: Vec<String> = Vec::new();
    for option in &found.options {
        let table = parent(&option.path).to_owned();
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    found.options.sort_by_key(|option| {
        (language.rank(&option.path), tables.iter().position(|table| *table == parent(&option.path)))
    });
    found
}

/// Whether `known` contains everything in `option` under no more conditions.
fn covers(known: &OptionDoc, option: &OptionDoc) -> bool {
    let same = (&known.path, &known.default, &known.doc) == (&option.path, &option.default, &option.doc);
    same && option.when.starts_with(&known.when)
}

/// The keys and kinds of a document with these choices.
fn document(language: &'static Language, choices: &Choices) -> Documentation {
    let mut root = Item::table(Place::Nowhere);
    for (path, name) in choices {
        let choice = Item { value: Value::Text((*name).to_owned()), place: Place::Nowhere };
        set(&mut root, path, choice).expect("choices lie in tables of their own");
    }
    let mut ledger = Ledger::new(&root, "", language);
    ledger.documentation = Some(Documentation::default());
    (language.read)(&mut ledger);
    ledger.documentation.take().unwrap_or_default()
}
