//! Rows of values below a document's own: presets, operating systems, models of switches.

/// A named row of values.
#[derive(Debug)]
pub struct Row {
    /// What a document calls it.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// What it sets beyond the defaults.
    pub row: &'static [RowValue],
}

/// One value of a row.
#[derive(Debug)]
pub struct RowValue {
    /// The key, with a dot where it is in a table within the table that the row is for.
    pub key: &'static str,
    /// The value, as `--set` takes it.
    pub value: &'static str,
    /// The document that it comes from.
    pub source: &'static str,
}

/// A value of a row.
pub const fn set(key: &'static str, value: &'static str, source: &'static str) -> RowValue {
    RowValue { key, value, source }
}

impl Row {
    /// What this row says about `key`.
    pub fn value(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.value)
    }

    /// The document that says so.
    pub fn source(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.source)
    }
}
