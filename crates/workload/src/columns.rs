//! Columns of tables that workloads read from files.

use arrow_schema::{DataType, TimeUnit};

/// Refuses a table that has a column twice, of those that are `read`: readers differ in which one they take.
pub(crate) fn refuse_doubles<'a>(names: impl Iterator<Item = &'a str>, read: &[&str]) -> Result<(), String> {
    let names: Vec<&str> = names.collect();
    let count = |column: &&str| names.iter().filter(|name| *name == column).count();
    match read.iter().find(|column| count(column) > 1) {
        Some(column) => {
            Err(format!("the column {column} is there {} times: keep one of them", count(column)))
        }
        None => Ok(()),
    }
}

/// Microseconds of a unit of a column of times: Parquet stores durations as whole numbers.
///
/// # Errors
/// If the type is no number of microseconds and no duration.
pub(crate) fn microseconds_of(column: &str, kind: &DataType) -> Result<f64, String> {
    match kind {
        DataType::Duration(unit) => Ok(match unit {
            TimeUnit::Second => 1e6,
            TimeUnit::Millisecond => 1e3,
            TimeUnit::Microsecond => 1.0,
            TimeUnit::Nanosecond => 1e-3,
        }),
        kind if kind.is_temporal() => {
            Err(format!("the column {column} has values of type {kind}; expected microseconds, or durations"))
        }
        _ => Ok(1.0),
    }
}

/// Refuses times in a column of names or bytes, which Parquet stores as whole numbers.
pub(crate) fn refuse_times(column: &str, expected: &str, kind: &DataType) -> Result<(), String> {
    if kind.is_temporal() {
        return Err(format!("the column {column} has values of type {kind}; expected {expected}"));
    }
    Ok(())
}
