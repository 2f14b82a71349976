//! What a documentation run writes down: every key, every choice of kind, every table.

use crate::shape::Shape;

/// A key that a document can have.
#[derive(Clone, PartialEq, Debug)]
pub struct OptionDoc {
    /// "switch.pfc.xoff"; elements of lists without their number ("workload.size", "topology.links[].ends").
    pub path: String,
    /// The choices under which it exists ("topology.kind = xgft"), or "".
    pub when: String,
    /// Its type, in words.
    pub kind: String,
    /// Its default as TOML, or in words; "required" if it has none.
    pub default: String,
    /// What it means, in one line.
    pub doc: String,
    /// The document that it comes from, or "".
    pub source: &'static str,
    /// Its type.
    pub shape: Shape,
    /// The values that it may have, where they are fewer than its type has.
    pub range: Option<Range>,
}

/// Bounds of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least, as TOML.
    pub low: String,
    /// The largest, as TOML.
    pub high: String,
    /// The value is above `low`, not equal to it.
    pub above: bool,
    /// It is each element of a list that has them.
    pub each: bool,
}

/// A choice of kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variants {
    /// "topology.kind".
    pub path: String,
    /// The names.
    pub names: Vec<&'static str>,
    /// Whether it may be left out.
    pub has_default: bool,
}

/// A table: what it is called where tables have names (in Python, in the JSON Schema).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDoc {
    /// "switch.pfc"; "" for the document.
    pub path: String,
    /// The choices under which it exists, or "".
    pub when: String,
    /// "Pfc".
    pub name: String,
    /// What it is, in one line.
    pub doc: String,
}

/// What a documentation run found.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Documentation {
    /// The keys.
    pub options: Vec<OptionDoc>,
    /// The choices of kind.
    pub variants: Vec<Variants>,
    /// The tables.
    pub tables: Vec<TableDoc>,
}
