//! Tables as bytes, for sweeps: many runs share a file, and each run's tables are parts of that file.
//!
//! A packed table is an Arrow IPC stream of one batch, compressed with LZ4 after its length. Zstandard makes the
//! series of ports a quarter smaller and takes three times as long, a tenth of the whole cost of a small run.

use super::RunError;
use super::column::Columns;
use super::reference::empty_table;
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use pauseframe_schema::panics::caught;
use std::cell::Cell;
use std::io;

/// Compresses the table into bytes.
///
/// # Errors
/// If the table is too large for the format, or memory is short.
pub fn pack(table: &RecordBatch) -> Result<Vec<u8>, RunError> {
    let stream = stream(table, STREAM.take()).map_err(|error| failure(&error))?;
    let packed = compress_prepend_size(&stream);
    if stream.capacity() <= KEPT {
        STREAM.set(stream);
    }
    Ok(packed)
}

thread_local! {
    /// Each thread reuses the memory of the last stream.
    static STREAM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Largest buffer, in bytes, that is kept for the next table.
const KEPT: usize = 1 << 22;

/// The Arrow IPC stream of a table, written into a vector that may already have contents.
fn stream(table: &RecordBatch, mut into: Vec<u8>) -> Result<Vec<u8>, ArrowError> {
    into.clear();
    let mut writer = StreamWriter::try_new(into, &table.schema())?;
    writer.write(table)?;
    writer.into_inner()
}

/// Joins the rows of several packed tables with the same columns, and returns the row count of each table.
/// Without any packed table, the result is the empty table `name`.
///
/// # Errors
/// [`RunError::Packed`] if no table has this name, or a part is damaged.
pub fn unpack(name: &str, parts: &[impl AsRef<[u8]>]) -> Result<(RecordBatch, Vec<usize>), RunError> {
    // The Arrow decoder panics on damaged bytes, so the panic is caught.
    let read = caught(|| {
        let batches = parts.iter().map(|part| batch(part.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = batches.first() else { return Ok(None) };
        let rows = batches.iter().map(RecordBatch::num_rows).collect();
        Ok(Some((concat_batches(&first.schema(), &batches)?, rows)))
    });
    let read: Result<_, ArrowError> =
        read.unwrap_or_else(|panic| Err(ArrowError::IpcError(format!("damaged: {}", panic.message))));
    match read.map_err(|error| failure(&error))? {
        Some(found) => Ok(found),
        None => empty_table(name)
            .map(Columns::batch)
            .map(|batch| (batch, Vec::new()))
            .ok_or_else(|| RunError::Packed { cause: format!("a run has no table {name}") }),
    }
}

fn batch(packed: &[u8]) -> Result<RecordBatch, ArrowError> {
    let stream =
        decompress_size_prepended(packed).map_err(|error| ArrowError::IpcError(error.to_string()))?;
    let mut reader = StreamReader::try_new(io::Cursor::new(stream), None)?;
    let batch = reader.next().unwrap_or_else(|| Err(ArrowError::IpcError("no rows".to_owned())))?;
    Ok(batch)
}

fn failure(error: &dyn std::error::Error) -> RunError {
    RunError::Packed { cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{dictionary, optional, u64s};

    fn table(names: &[&'static str], values: &[Option<f64>]) -> RecordBatch {
        crate::columns! {
            /// Who
            name = dictionary(names, |name| *name, str::to_owned);
            /// How much
            value or null = optional(values.iter().copied());
            /// How many
            count = u64s(values.iter().map(|value| u64::from(value.is_some())));
        }
        .batch()
    }

    #[test]
    fn several_parts_are_one_table() {
        let parts = [table(&["a", "b", "a"], &[Some(1.0), None, Some(2.5)]), table(&["c"], &[None])];
        let packed: Vec<_> = parts.iter().map(|part| pack(part).unwrap()).collect();
        let (whole, rows) = unpack("flows", &packed).unwrap();
        assert_eq!(rows, [3, 1]);
        assert_eq!(whole, table(&["a", "b", "a", "c"], &[Some(1.0), None, Some(2.5), None]));
    }

    #[test]
    fn a_table_is_packed_alike_after_others() {
        let (small, large) = (table(&["a"], &[None]), table(&vec!["b"; 5000], &vec![Some(0.5); 5000]));
        let first = pack(&small).unwrap();
        pack(&large).unwrap();
        assert_eq!(pack(&small).unwrap(), first);
    }

    #[test]
    fn no_parts_are_the_empty_table() {
        let (none, rows) = unpack("flows", &[] as &[Vec<u8>]).unwrap();
        assert_eq!((none.num_rows(), rows.len()), (0, 0));
        assert!(none.column_by_name("fct_us").is_some());
        assert!(matches!(unpack("flaws", &[] as &[Vec<u8>]), Err(RunError::Packed { .. })));
    }

    #[test]
    fn damaged_parts_are_an_error() {
        let packed = pack(&table(&["a"], &[None])).unwrap();
        for byte in (0..packed.len()).step_by(4) {
            let mut damaged = packed.clone();
            damaged[byte] ^= 0x55;
            // A flipped bit may only change a value, which the digest of the record detects. No flipped bit
            // may cause a panic.
            let _ = unpack("flows", &[damaged]);
        }
        assert!(unpack("flows", &[&packed[..packed.len() / 2]]).is_err());
    }
}
