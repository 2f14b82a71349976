//! Rows of values that apply where a document has none: presets, operating systems, switch models.

/// A named row of values.
#[derive(Debug)]
pub struct Row {
    /// The name by which documents select the row.
    pub name: &'static str,
    /// The meaning of the row in one line.
    pub doc: &'static str,
    /// The values that differ from the defaults.
    pub row: &'static [RowValue],
}

/// One value of a row.
#[derive(Debug)]
pub struct RowValue {
    /// The key, with a dot if it belongs to a nested table of the row's table.
    pub key: &'static str,
    /// The value, in the notation of `--set`.
    pub value: &'static str,
    /// The source document of the value.
    pub source: &'static str,
}

/// Makes a value of a row.
pub const fn set(key: &'static str, value: &'static str, source: &'static str) -> RowValue {
    RowValue { key, value, source }
}

impl Row {
    /// The value of `key` in this row.
    pub fn value(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.value)
    }

    /// The source document of the value of `key`.
    pub fn source(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.source)
    }
}
