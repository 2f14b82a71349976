//! Reads result tables from Parquet files.

use super::RunError;
use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pauseframe_schema::panics::caught;
use std::error::Error;
use std::fs::File;
use std::path::Path;

/// Maximum number of rows that are decoded at a time, whatever the file's header claims.
const BATCH: usize = 1 << 20;

/// Reads a whole Parquet file.
///
/// # Errors
/// [`RunError::Read`] if the file is missing, unreadable or not Parquet.
pub fn read_table(path: &Path) -> Result<RecordBatch, RunError> {
    // The Parquet decoder panics on damaged files, so the panic is caught.
    let read = caught(|| decode(path));
    let read = read.unwrap_or_else(|panic| Err(format!("the file is damaged: {}", panic.message).into()));
    read.map_err(|error| RunError::read(path, error.as_ref()))
}

fn decode(path: &Path) -> Result<RecordBatch, Box<dyn Error>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err("this is not a regular file".into());
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let schema = reader.schema().clone();
    let batches = reader.with_batch_size(BATCH).build()?.collect::<Result<Vec<RecordBatch>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}
