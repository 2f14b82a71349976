//! Parquet files with the settings of all tables: Zstandard compression and Arrow's types.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(super) fn begin<W: Write + Send>(file: W, schema: SchemaRef) -> io::Result<ArrowWriter<W>> {
    let level = ZstdLevel::try_new(3).map_err(io_error)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    ArrowWriter::try_new(file, schema, Some(properties)).map_err(io_error)
}

/// A Parquet file outside of a results folder, written in parts. The caller must make sure that readers see
/// only the finished file.
pub struct ParquetFile(ArrowWriter<BufWriter<File>>);

impl ParquetFile {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create(path: &Path, schema: SchemaRef) -> io::Result<ParquetFile> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(ParquetFile(begin(BufWriter::with_capacity(1 << 18, file), schema)?))
    }

    /// Appends rows to the file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn write(&mut self, rows: &RecordBatch) -> io::Result<()> {
        self.0.write(rows).map_err(io_error)
    }

    /// Writes the remaining rows and the footer, and syncs the file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn finish(self) -> io::Result<()> {
        let file = self.0.into_inner().map_err(io_error)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetFile").finish_non_exhaustive()
    }
}

/// The system's error, extracted from the error of the Parquet library.
pub(super) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
