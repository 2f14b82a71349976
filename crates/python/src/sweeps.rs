//! Tables of many runs for Python: the parts of a shared file, and the joined table. Documented in
//! `_core.pyi`.

use crate::border::guarded;
use crate::{RunError, Table};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use arrow_schema::{Field, Schema};
use pauseframe_scenario::RunResults;
use pauseframe_scenario::results::pack::{pack, unpack};
use pauseframe_scenario::results::parquet_file::ParquetFile;
use pauseframe_scenario::results::{self, Manifest};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::io;
use std::iter::repeat_n;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The values of a column; the type is the first variant that fits all values.
#[derive(FromPyObject)]
enum Values {
    Bool(Vec<Option<bool>>),
    Int(Vec<Option<i64>>),
    Large(Vec<Option<u64>>),
    Float(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Bool(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Large(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Text(values) => values.len(),
        }
    }

    /// The column with value i repeated `counts[i]` times. A column without any value becomes a column of
    /// null numbers.
    fn repeated(&self, counts: &[usize]) -> ArrayRef {
        match self {
            Values::Bool(values) if values.iter().all(Option::is_none) => {
                Arc::new(Float64Array::new_null(counts.iter().sum()))
            }
            Values::Bool(values) => Arc::new(repeated(values, counts).collect::<BooleanArray>()),
            Values::Int(values) => Arc::new(repeated(values, counts).collect::<Int64Array>()),
            Values::Large(values) => Arc::new(repeated(values, counts).collect::<UInt64Array>()),
            Values::Float(values) => Arc::new(repeated(values, counts).collect::<Float64Array>()),
            Values::Text(values) => names(values, counts),
        }
    }
}

fn repeated<T: Copy>(values: &[T], counts: &[usize]) -> impl Iterator<Item = T> {
    values.iter().zip(counts).flat_map(|(value, count)| repeat_n(*value, *count))
}

/// A dictionary-encoded text column, because the same texts occur many times.
fn names(values: &[Option<String>], counts: &[usize]) -> ArrayRef {
    let mut numbers: BTreeMap<&str, i32> = BTreeMap::new();
    let mut in_order: Vec<&str> = Vec::new();
    let mut keys: Vec<Option<i32>> = Vec::new();
    for (value, count) in values.iter().zip(counts) {
        let key = value.as_deref().map(|text| {
            *numbers.entry(text).or_insert_with(|| {
                in_order.push(text);
                in_order.len() as i32 - 1
            })
        });
        keys.extend(repeat_n(key, *count));
    }
    let texts = Arc::new(StringArray::from(in_order));
    let column = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), texts);
    Arc::new(column.expect("every key is a position among the texts"))
}

type Columns = Vec<(String, Values)>;

/// Appends the columns `more` to `batch`, each value repeated as `counts` says.
fn with_columns(batch: Option<&RecordBatch>, more: &Columns, counts: &[usize]) -> PyResult<RecordBatch> {
    let mut fields: Vec<Arc<Field>> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    if let Some(batch) = batch {
        fields.extend(batch.schema().fields().iter().cloned());
        columns.extend_from_slice(batch.columns());
    }
    for (name, values) in more {
        if values.len() != counts.len() {
            return Err(RunError::new_err(format!("{name}: {} values for {}", values.len(), counts.len())));
        }
        let column = values.repeated(counts);
        fields.push(Arc::new(Field::new(name, column.data_type().clone(), true)));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| RunError::new_err(error.to_string()))
}

/// The manifest that a results folder of this run would hold, as JSON.
pub(crate) fn manifest_json(run: &RunResults) -> PyResult<String> {
    serde_json::to_string(&Manifest::ended(&run.summary).with_plugins(&run.plugins))
        .map_err(|error| RunError::new_err(error.to_string()))
}

/// The non-empty tables of a run, each packed as bytes.
pub(crate) fn packed<'py>(
    py: Python<'py>,
    run: &RunResults,
) -> PyResult<Vec<(&'static str, Bound<'py, PyBytes>)>> {
    let packed = guarded(|| {
        let tables = run.tables().into_iter().filter(|(_, table)| table.num_rows() > 0);
        let packed: Result<Vec<_>, results::RunError> =
            py.detach(|| tables.map(|(name, table)| Ok((name, pack(&table)?))).collect());
        packed.map_err(|error| RunError::new_err(error.to_string()))
    })?;
    Ok(packed.into_iter().map(|(name, bytes)| (name, PyBytes::new(py, &bytes))).collect())
}

/// The rows of several packed tables, with additional columns.
#[pyfunction]
fn unpack_tables(py: Python<'_>, name: &str, parts: Vec<PyBackedBytes>, columns: Columns) -> PyResult<Table> {
    let (batch, counts) =
        guarded(|| py.detach(|| unpack(name, &parts)).map_err(|error| RunError::new_err(error.to_string())))?;
    let counts =
        if parts.is_empty() { vec![0; columns.first().map_or(0, |column| column.1.len())] } else { counts };
    Ok(Table { batch: with_columns(Some(&batch), &columns, &counts)? })
}

/// Builds a table from the given columns.
#[pyfunction]
fn table_of(columns: Columns) -> PyResult<Table> {
    let counts = vec![1; columns.first().map_or(0, |column| column.1.len())];
    Ok(Table { batch: with_columns(None, &columns, &counts)? })
}

/// A Parquet file that is written one batch of rows at a time.
#[pyclass(frozen, module = "pauseframe._core")]
struct ParquetWriter {
    path: PathBuf,
    file: Mutex<Option<ParquetFile>>,
}

#[pymethods]
impl ParquetWriter {
    #[new]
    fn new(path: PathBuf) -> ParquetWriter {
        ParquetWriter { path, file: Mutex::new(None) }
    }

    fn write(&self, py: Python<'_>, table: &Table) -> PyResult<()> {
        py.detach(|| self.append(&table.batch)).map_err(PyErr::from)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| file.map_or(Ok(()), ParquetFile::finish)).map_err(PyErr::from)
    }
}

impl ParquetWriter {
    fn append(&self, rows: &RecordBatch) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = Some(ParquetFile::create(&self.path, rows.schema())?);
        }
        file.as_mut().map_or(Ok(()), |file| file.write(rows))
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ParquetWriter>()?;
    module.add_function(wrap_pyfunction!(unpack_tables, module)?)?;
    module.add_function(wrap_pyfunction!(table_of, module)?)?;
    Ok(())
}
