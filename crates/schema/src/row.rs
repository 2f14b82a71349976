//! Sets of values below a document's own: presets, operating systems, models of switches.

/// A named set of values.
#[derive(Debug)]
pub struct Row {
    /// Name of the row in documents.
    pub name: &'static str,
    /// Description of the row in one line.
    pub doc: &'static str,
    /// Values of the row beyond the defaults.
    pub row: &'static [RowValue],
}

/// One value of the set.
#[derive(Debug)]
pub struct RowValue {
    /// The key, with a dot if it is in a table within the table of the set.
    pub key: &'static str,
    /// The value in the notation of `--set`.
    pub value: &'static str,
    /// Its source.
    pub source: &'static str,
}

/// A value of the set.
pub const fn set(key: &'static str, value: &'static str, source: &'static str) -> RowValue {
    RowValue { key, value, source }
}

impl Row {
    /// The value of `key` in this set.
    pub fn value(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.value)
    }

    /// Its source.
    pub fn source(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.source)
    }
}
