//! The result of a documentation run: every key, every choice of kind, every table.

use crate::shape::Shape;

/// A key that a document can have.
#[derive(Clone, PartialEq, Debug)]
pub struct OptionDoc {
    /// "switch.pfc.xoff"; elements of lists without their number ("workload.size", "topology.links[].ends").
    pub path: String,
    /// The choices under which it exists ("topology.kind = xgft"), or "".
    pub when: String,
    /// Type of the key, in words.
    pub kind: String,
    /// Default of the key as TOML, or in words; "required" without a default.
    pub default: String,
    /// Meaning of the key in one line.
    pub doc: String,
    /// Source of the key, or "".
    pub source: &'static str,
    /// Its type.
    pub shape: Shape,
    /// Valid values of the key, if they are fewer than its type has.
    pub range: Option<Range>,
}

/// Bounds of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// The smallest, as TOML.
    pub low: String,
    /// The largest, as TOML.
    pub high: String,
    /// The value is above `low`, not equal to it.
    pub above: bool,
    /// The bounds apply to each element of a list.
    pub each: bool,
}

/// A choice of kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variants {
    /// "topology.kind".
    pub path: String,
    /// The names.
    pub names: Vec<&'static str>,
    /// Whether the choice may be omitted.
    pub has_default: bool,
}

/// A table with its name in Python and in the JSON Schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDoc {
    /// "switch.pfc"; "" for the document.
    pub path: String,
    /// The choices under which the key exists, or "".
    pub when: String,
    /// "Pfc".
    pub name: String,
    /// Description of the choice in one line.
    pub doc: String,
}

/// The result of a documentation run.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Documentation {
    /// The keys.
    pub options: Vec<OptionDoc>,
    /// The choices of kind.
    pub variants: Vec<Variants>,
    /// The tables.
    pub tables: Vec<TableDoc>,
}
