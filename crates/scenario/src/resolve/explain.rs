//! Explains which layer sets each value of a preset, and from which document the value comes.

use super::{SCENARIO, transports};
use crate::stacks::STACKS;
use pauseframe_schema::ledger::{Entry, Origin};
use pauseframe_schema::row::Row;

/// A value of a transport, with its origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// Key of `[transport]`.
    pub key: String,
    /// The value as TOML, or a description of the value.
    pub value: String,
    /// Layer that sets the value: "preset dctcp", "stack linux" or "default".
    pub origin: String,
    /// Document and section of the value; for a default, the description of the key.
    pub source: String,
}

/// Every key of `[transport]` with the value, as TOML, that this preset gives on its own stack (under ECMP).
pub fn expanded(preset: &'static Row) -> Vec<(String, String)> {
    let row = transports::row(preset, stack_of(preset).name);
    row.into_iter().map(|entry| (entry.path, entry.value)).collect()
}

/// The stack below a preset if the file names none.
pub fn stack_of(preset: &Row) -> &'static Row {
    let own = preset.value("stack").and_then(stack_named);
    own.unwrap_or(&STACKS[0])
}

fn stack_named(name: &str) -> Option<&'static Row> {
    STACKS.iter().find(|known| known.name == name)
}

/// Every key of `[transport]` with its value for this preset above the given stack, the layer that sets the
/// value, and the document that the value comes from. `None` if no stack has this name.
pub fn explained(preset: &'static Row, stack: &str) -> Option<Vec<Explained>> {
    let below = stack_named(stack)?;
    let doc_of = |key: &str| SCENARIO.options().iter().find(|doc| doc.path == format!("transport.{key}"));
    let source = |entry: &Entry| match entry.origin {
        Origin::Preset(_) => preset.source(&entry.path).unwrap_or("").to_owned(),
        Origin::Stack(_) => below.source(&entry.path).unwrap_or("").to_owned(),
        _ => doc_of(&entry.path).map_or(String::new(), |doc| doc.doc.clone()),
    };
    let explain = |entry: Entry| {
        let (source, origin) = (source(&entry), entry.origin.to_string());
        Explained { key: entry.path, value: entry.value, origin, source }
    };
    Some(transports::row(preset, below.name).into_iter().map(explain).collect())
}
