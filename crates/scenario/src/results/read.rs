//! Reading tables back.

use super::RunError;
use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::Path;

/// Reads a Parquet file whole.
///
/// # Errors
/// [`RunError::Read`] if the file is missing, unreadable or not Parquet.
pub fn read_table(path: &Path) -> Result<RecordBatch, RunError> {
    let file = File::open(path).map_err(|error| RunError::read(path, &error))?;
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| RunError::read(path, &error))?;
    let schema = builder.schema().clone();
    // One batch for all rows: batches go across row groups.
    let rows = usize::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let mut reader =
        builder.with_batch_size(rows.max(1)).build().map_err(|error| RunError::read(path, &error))?;
    match reader.next() {
        None => Ok(RecordBatch::new_empty(schema)),
        Some(batch) => batch.map_err(|error| RunError::read(path, &error)),
    }
}
