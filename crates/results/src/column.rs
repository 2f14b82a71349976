//! Columns: each column of a table is declared once with [`columns!`](crate::columns), where the code builds
//! the table. The declaration gives the column in Arrow's memory layout and its row in the reference.
//!
//! Text columns are dictionary-encoded; the dictionary lists the texts in the order of their first row.

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::DataType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    /// Name of the column, with the unit as its last part (`"start_us"`).
    pub name: &'static str,
    /// The values of the column, one for each row.
    pub values: ArrayRef,
    /// True if a row may hold null instead of a value.
    pub nullable: bool,
    /// One-line description of the column; it still starts with the space that follows `///`.
    pub doc: &'static str,
}

/// The columns of a table, in their order.
#[derive(Debug)]
pub struct Columns(pub Vec<Column>);

/// Declares the columns of a table in their order: the description, the name, `or null` if a row may lack a
/// value, and the values.
///
/// ```
/// use pauseframe_results::column::{optional, u64s};
///
/// let rows: [(u64, Option<f64>); 1] = [(1500, None)];
/// let table = pauseframe_results::columns! {
///     /// Bytes that somebody wants delivered
///     size_bytes = u64s(rows.iter().map(|row| row.0));
///     /// When the last of them came; null if it did not
///     finish_us or null = optional(rows.iter().map(|row| row.1));
/// };
/// assert_eq!(table.batch().num_columns(), 2);
/// ```
#[macro_export]
macro_rules! columns {
    ( $( $(#[doc = $doc:literal])+ $name:ident $(or $null:ident)? = $values:expr; )+ ) => {
        $crate::column::Columns(vec![ $(
            $crate::column::Column {
                name: stringify!($name),
                values: $values,
                nullable: $crate::columns!(@nullable $($null)?),
                doc: concat!($($doc),+),
            }
        ),+ ])
    };
    (@nullable) => { false };
    (@nullable null) => { true };
}

/// The reference's entry for a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnDoc {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the column in Arrow's terms, such as "uint64" or "float64, null".
    pub kind: String,
    /// One-line description of the column.
    pub doc: &'static str,
}

impl Columns {
    /// Converts the columns into an Arrow record batch.
    pub fn batch(self) -> RecordBatch {
        let columns = self.0.into_iter().map(|column| (column.name, column.values, column.nullable));
        RecordBatch::try_from_iter_with_nullable(columns).expect("all columns come from the same rows")
    }

    /// The reference's entries for the columns of this table.
    pub fn reference(&self) -> Vec<ColumnDoc> {
        let doc = |column: &Column| {
            let null = if column.nullable { ", null" } else { "" };
            let kind = format!("{}{null}", type_name(column.values.data_type()));
            ColumnDoc { name: column.name, kind, doc: column.doc.trim_start() }
        };
        self.0.iter().map(doc).collect()
    }
}

fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Utf8 => "string".to_owned(),
        DataType::Dictionary(_, of) => format!("dictionary({})", type_name(of)),
        DataType::List(of) => format!("list({})", type_name(of.data_type())),
        plain => plain.to_string().to_lowercase(),
    }
}

/// A column of 8-bit integers.
pub fn u8s(values: impl Iterator<Item = u8>) -> ArrayRef {
    Arc::new(UInt8Array::from_iter_values(values))
}

/// A column of 32-bit counts.
pub fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

/// A column of 64-bit counts.
pub fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// A column of floating-point numbers.
pub fn f64s(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// A column of floating-point numbers, null where a value is missing.
pub fn optional(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

/// A dictionary-encoded text column; `name` is called once for each distinct key.
pub fn dictionary<R, K: Ord + Copy>(
    rows: &[R],
    key: impl Fn(&R) -> K,
    name: impl Fn(K) -> String,
) -> ArrayRef {
    dictionary_of(rows.iter().map(key), name)
}

/// Like [`dictionary`], with the keys given directly.
pub fn dictionary_of<K: Ord + Copy>(keys: impl Iterator<Item = K>, name: impl Fn(K) -> String) -> ArrayRef {
    let mut numbers = BTreeMap::new();
    let mut names = Vec::new();
    let number = |key| {
        *numbers.entry(key).or_insert_with(|| {
            names.push(name(key));
            names.len() as i32 - 1
        })
    };
    let keys = Int32Array::from_iter_values(keys.map(number));
    let names = StringArray::from(names);
    Arc::new(
        DictionaryArray::<Int32Type>::try_new(keys, Arc::new(names))
            .expect("every key is a position in names"),
    )
}
