//! Reads result tables from Parquet files.

use super::RunError;
use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pauseframe_schema::panics::caught;
use pauseframe_units::limits::Limit;
use std::error::Error;
use std::fs::File;
use std::path::Path;

/// Maximum number of rows that are decoded at a time, whatever the file's header claims.
const BATCH: usize = 1 << 20;
/// Bytes of a value in memory.
const CELL: u64 = 8;

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

/// Opens a Parquet file whose rows fit into [`Limit::Table`].
fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, Box<dyn Error>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err("this is not a regular file".into());
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let rows = reader.metadata().row_groups().iter().map(|group| group.num_rows().unsigned_abs());
    let cells = rows.fold(0_u64, u64::saturating_add).saturating_mul(reader.schema().fields().len() as u64);
    Limit::Table.check(cells.saturating_mul(CELL), "bytes in memory")?;
    Ok(reader)
}

/// Checks that the rows of a Parquet file fit into [`Limit::Table`], from its footer alone.
///
/// # Errors
/// [`RunError::Read`] as for [`read_table`].
pub fn check_table(path: &Path) -> Result<(), RunError> {
    let opened = caught(|| open(path).map(drop));
    let opened = opened.unwrap_or_else(|panic| Err(format!("the file is damaged: {}", panic.message).into()));
    opened.map_err(|error| RunError::read(path, error.as_ref()))
}

fn decode(path: &Path) -> Result<RecordBatch, Box<dyn Error>> {
    let reader = open(path)?;
    let schema = reader.schema().clone();
    let batches = reader.with_batch_size(BATCH).build()?.collect::<Result<Vec<RecordBatch>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}
