//! The result of a documentation run: every key, every choice of kind, every table.

use crate::shape::Shape;

/// Documentation of a key that a document can have.
#[derive(Clone, PartialEq, Debug)]
pub struct OptionDoc {
    /// The path of the key, such as "switch.pfc.xoff"; paths omit the indices of list elements
    /// ("workload.size", "topology.links[].ends").
    pub path: String,
    /// The choices of kinds under which the key exists ("topology.kind = xgft"), or "".
    pub when: String,
    /// The type of the key in words.
    pub kind: String,
    /// The default as TOML or in words; "required" if there is no default.
    pub default: String,
    /// Meaning of the key in one line.
    pub doc: String,
    /// Source of the key, or "".
    pub source: &'static str,
    /// The type of the key for validators.
    pub shape: Shape,
    /// Valid values of the key, if they are fewer than its type has.
    pub range: Option<Range>,
}

/// Bounds of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// The smallest, as TOML.
    pub low: String,
    /// The highest value, as TOML.
    pub high: String,
    /// True if the value must be above `low`, not equal to `low`.
    pub above: bool,
    /// The bounds apply to each element of a list.
    pub each: bool,
}

/// Documentation of a key that selects the kind of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variants {
    /// The path of the key, such as "topology.kind".
    pub path: String,
    /// The names of the kinds.
    pub names: Vec<&'static str>,
    /// Whether the choice may be omitted.
    pub has_default: bool,
}

/// A table with its name in Python and in the JSON Schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDoc {
    /// The path of the table, such as "switch.pfc"; "" for the document.
    pub path: String,
    /// The choices of kinds under which the table exists, or "".
    pub when: String,
    /// The name of the table, such as "Pfc".
    pub name: String,
    /// Description of the choice in one line.
    pub doc: String,
}

/// The result of a documentation run.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Documentation {
    /// All keys.
    pub options: Vec<OptionDoc>,
    /// All keys that select a kind.
    pub variants: Vec<Variants>,
    /// All tables.
    pub tables: Vec<TableDoc>,
}
