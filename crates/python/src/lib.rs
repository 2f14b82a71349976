//! The Python extension module `pauseframe._core`: each function converts its arguments, calls a crate and
//! converts the result. Documented in `_core.pyi`.

// PyO3's macros require arguments by value, and generate items without documentation.
#![expect(clippy::needless_pass_by_value, reason = "the shape of a PyO3 module")]

mod border;
mod fabrics;
mod flows;
mod operate;
mod plugins;
mod routes;
mod sweeps;

use crate::border::{DISPLAY_EVERY, compute_or_stop, guarded, plain};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use pauseframe_engine::memory::HugePageAllocator;
use pauseframe_scenario::resolve::{Explained, expanded, explained, stack_of};
use pauseframe_scenario::results::{self, RunStatus};
use pauseframe_scenario::{
    Input, Problem, RunOptions, RunProgress, resolve as resolve_scenario, run as run_scenario,
};
use pauseframe_scenario::{RunCallbackDecision, presets as preset_table, printable};
use pauseframe_units::counted;
use pauseframe_units::limits::Limit;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: HugePageAllocator = HugePageAllocator;

create_exception!(
    pauseframe._core,
    ScenarioError,
    PyValueError,
    "The scenario is wrong. `problems` has one entry for every mistake."
);
create_exception!(
    pauseframe._core,
    RunError,
    PyRuntimeError,
    "The run could not be carried out: the output folder, the disk, an internal assertion."
);
create_exception!(
    pauseframe._core,
    InputError,
    RunError,
    "What was asked for is not possible as it stands: a name that is none, a folder that is taken."
);

/// A table in Arrow's memory layout.
#[pyclass(frozen, module = "pauseframe._core")]
struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may answer with its own schema; consumers then cast.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref());
        let schema = schema.map_err(|error| RunError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        format!("Table({}: {})", counted(self.batch.num_rows(), "row"), self.column_names().join(", "))
    }
}

/// A resolved scenario: every key has a value.
#[pyclass(frozen, module = "pauseframe._core")]
struct Resolved {
    inner: Arc<pauseframe_scenario::Resolved>,
}

#[pymethods]
impl Resolved {
    #[getter]
    fn name(&self) -> String {
        self.inner.scenario.name.clone()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.scenario.seed
    }

    #[getter]
    fn has_plugins(&self) -> bool {
        !self.inner.scenario.plugins().is_empty()
    }

    #[getter]
    fn has_kernel(&self) -> bool {
        self.inner.scenario.host.stack == pauseframe_scenario::spec::HostStack::Kernel
    }

    #[getter]
    fn toml(&self) -> String {
        self.inner.to_toml()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings.iter().map(|warning| printable(warning)).collect()
    }

    #[getter]
    fn too_large<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.inner.large.as_ref().map(|problem| problem_dict(py, problem)).transpose()
    }

    fn headroom<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = guarded(|| Ok(pauseframe_scenario::headroom(&self.inner)))?;
        let text = serde_json::to_string(&rows).map_err(|error| RunError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn with_seed(&self, seed: u64) -> Resolved {
        Resolved { inner: Arc::new(self.inner.with_seed(seed)) }
    }

    fn explain(&self) -> Vec<(String, String, String)> {
        let row = |entry: &pauseframe_scenario::resolve::Entry| {
            (entry.path.clone(), entry.value.clone(), entry.origin.to_string())
        };
        self.inner.explain().iter().map(row).collect()
    }
}

/// The results of a run.
#[pyclass(frozen, module = "pauseframe._core")]
struct Run {
    results: pauseframe_scenario::RunResults,
}

#[pymethods]
impl Run {
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.results.summary)
    }

    #[getter]
    fn finished(&self) -> bool {
        matches!(self.results.summary.status, RunStatus::Complete | RunStatus::Deadlock)
    }

    #[getter]
    fn peak_rss_bytes(&self) -> Option<u64> {
        self.results.summary.peak_rss_bytes
    }

    #[getter]
    fn manifest_json(&self) -> PyResult<String> {
        sweeps::manifest_json(&self.results)
    }

    fn packed<'py>(&self, py: Python<'py>) -> PyResult<Vec<(&'static str, Bound<'py, PyBytes>)>> {
        sweeps::packed(py, &self.results)
    }

    #[getter]
    fn interrupted(&self) -> bool {
        self.results.summary.status == RunStatus::Interrupted
    }

    fn table(&self, name: &str) -> PyResult<Table> {
        let found = self.results.tables().into_iter().find(|(known, _)| *known == name);
        found.map(|(_, batch)| Table { batch }).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

fn scenario_error(py: Python<'_>, error: &pauseframe_scenario::ScenarioError) -> PyErr {
    let raised = ScenarioError::new_err(printable(&error.to_string()));
    let problems =
        error.problems.iter().map(|problem| problem_dict(py, problem)).collect::<PyResult<Vec<_>>>();
    match problems.and_then(|list| raised.value(py).setattr("problems", PyList::new(py, list)?)) {
        Ok(()) => raised,
        Err(other) => other,
    }
}

fn problem_dict<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", printable(&problem.path))?;
    dict.set_item("place", printable(&problem.place))?;
    dict.set_item("value", printable(&problem.value))?;
    dict.set_item("message", printable(&problem.message))?;
    dict.set_item("hint", printable(&problem.hint))?;
    Ok(dict)
}

/// Parses a scenario and fills in every default.
#[pyfunction]
#[pyo3(signature = (text, *, base_dir=".", file_name="scenario", overrides=Vec::new(), seed=None))]
fn resolve(
    py: Python<'_>,
    text: &str,
    base_dir: &str,
    file_name: &str,
    overrides: Vec<(String, String)>,
    seed: Option<u64>,
) -> PyResult<Resolved> {
    let [text, base_dir, file_name] = [text, base_dir, file_name].map(str::to_owned);
    let resolved = compute_or_stop(py, None, move |_| {
        let (text, file_name, base_dir) = (text.as_str(), file_name.as_str(), Path::new(&base_dir));
        resolve_scenario(&Input { text, file_name, base_dir, overrides: &overrides, seed })
    })?;
    let inner = Arc::new(resolved.map_err(|error| scenario_error(py, &error))?);
    Ok(Resolved { inner })
}

/// A snippet of Python in a script: its line, its text, and the fields of `struct tcp_info`.
type Snippet = (usize, String, Vec<(&'static str, i64)>);

/// Runs a packetdrill script: verdict, line, reason, and the snippets up to its end.
#[pyfunction]
fn packetdrill(
    py: Python<'_>,
    text: &str,
    folder: &str,
) -> PyResult<(&'static str, Option<usize>, String, Vec<Snippet>)> {
    use pauseframe_scenario::packetdrill::{Verdict, run};

    let outcome = guarded(|| Ok(py.detach(|| run(text, Path::new(folder)))))?;
    let snippets = outcome.snippets.into_iter().map(|part| (part.line, part.text, part.values)).collect();
    Ok(match outcome.verdict {
        Verdict::Passed => ("pass", None, String::new(), snippets),
        Verdict::Failed(line, why) => ("fail", Some(line), why, snippets),
        Verdict::NotApplicable(line, why) => ("not applicable", Some(line), why, snippets),
    })
}

/// Runs a scenario to its end, or until a signal arrives.
#[pyfunction]
#[pyo3(signature = (scenario, *, out=None, force=false, force_large=false, threads=0, kernel=None, programs=Vec::new(), progress=None))]
#[expect(clippy::too_many_arguments, reason = "the keywords of Python")]
fn run(
    py: Python<'_>,
    scenario: &Resolved,
    out: Option<PathBuf>,
    force: bool,
    force_large: bool,
    threads: usize,
    kernel: Option<PathBuf>,
    programs: Vec<(String, String)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let mut last = Instant::now();
    let mut raised = None;
    let results = guarded(|| {
        Ok(py.detach(|| {
            let kernel = kernel.as_deref();
            let options =
                RunOptions { out: out.as_deref(), force, force_large, threads, kernel, programs: &programs };
            run_scenario(&scenario.inner, options, |now| {
                if last.elapsed() < DISPLAY_EVERY {
                    return RunCallbackDecision::Continue;
                }
                last = Instant::now();
                match Python::attach(|py| look_outside(py, progress.as_ref(), &now)) {
                    Ok(control) => control,
                    Err(error) => {
                        raised = Some(error);
                        RunCallbackDecision::Stop
                    }
                }
            })
        }))
    })?;
    if let Some(error) = raised {
        return Err(error);
    }
    Ok(Run { results: results.map_err(|error| run_error(py, error))? })
}

/// The Python exception for an error of a run: the caller's mistake, or a failure during the run.
pub(crate) fn run_error(py: Python<'_>, error: results::RunError) -> PyErr {
    match error {
        results::RunError::TooLarge(problem) | results::RunError::Refused(problem) => {
            scenario_error(py, &pauseframe_scenario::ScenarioError { problems: vec![*problem] })
        }
        results::RunError::Interrupted { .. } => PyKeyboardInterrupt::new_err(error.to_string()),
        results::RunError::Input(_)
        | results::RunError::OutputExists { .. }
        | results::RunError::ForeignFolder { .. } => InputError::new_err(printable(&error.to_string())),
        other => RunError::new_err(printable(&other.to_string())),
    }
}

/// Calls the progress display, and stops the run after Ctrl-C. Any other exception of the display goes to the
/// caller.
fn look_outside(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    now: &RunProgress,
) -> PyResult<RunCallbackDecision> {
    let shown = progress.map_or(Ok(()), |show| show.call1(py, (progress_dict(py, now)?,)).map(|_| ()));
    match shown.and_then(|()| py.check_signals()) {
        Ok(()) => Ok(RunCallbackDecision::Continue),
        Err(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => Ok(RunCallbackDecision::Stop),
        Err(error) => Err(error),
    }
}

fn progress_dict<'py>(py: Python<'py>, now: &RunProgress) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("sim_time_s", now.now.as_secs_f64())?;
    dict.set_item("stop_time_s", now.stop.map(pauseframe_scenario::Time::as_secs_f64))?;
    dict.set_item("wall_s", now.wall_s)?;
    dict.set_item("events", now.events)?;
    dict.set_item("packet_hops", now.packet_hops)?;
    dict.set_item("flows_started", now.flows.0)?;
    dict.set_item("flows_finished", now.flows.1)?;
    Ok(dict)
}

/// The error message for a term that is not in the list `known`.
#[pyfunction]
fn term_hint(word: &str, known: Vec<String>) -> Option<String> {
    pauseframe_scenario::term_hint(word, &known.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Reads a Parquet file into a table.
#[pyfunction]
fn read_table(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let batch = compute_or_stop(py, None, move |_| results::read_table(&path))?;
    let batch = batch.map_err(|error| RunError::new_err(printable(&error.to_string())))?;
    Ok(Table { batch })
}

/// Refuses a Parquet file whose rows exceed the limit of a table, from its footer alone.
#[pyfunction]
fn check_table(path: PathBuf) -> PyResult<()> {
    results::check_table(&path).map_err(|error| RunError::new_err(printable(&error.to_string())))
}

/// The limit of readers with this name, such as `bytes`.
#[pyfunction]
fn limit(name: &str) -> PyResult<u64> {
    let known = Limit::ALL.into_iter().find(|limit| limit.name() == name);
    let known = known.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    known.value().map_err(|error| InputError::new_err(printable(&error)))
}

/// Every column of every table of a packet-level and of a flow-level run: page, table, name, type,
/// description.
#[pyfunction]
fn columns(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let pages =
        [("results", results::reference()), ("flow-level", pauseframe_scenario::flow_level::reference())];
    let mut rows = Vec::new();
    for (page, tables) in pages {
        for (table, column) in tables.iter().flat_map(|(table, all)| all.iter().map(move |one| (table, one)))
        {
            let dict = PyDict::new(py);
            dict.set_item("page", page)?;
            dict.set_item("table", table)?;
            dict.set_item("name", column.name)?;
            dict.set_item("type", &column.kind)?;
            dict.set_item("doc", column.doc)?;
            rows.push(dict);
        }
    }
    Ok(rows)
}

/// Every key of a scenario file: path, condition, type, default, description, source.
#[pyfunction]
fn options(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let row = |option: &pauseframe_scenario::resolve::OptionDoc| {
        let dict = PyDict::new(py);
        dict.set_item("path", &option.path)?;
        dict.set_item("when", &option.when)?;
        dict.set_item("type", &option.kind)?;
        dict.set_item("default", &option.default)?;
        dict.set_item("doc", &option.doc)?;
        dict.set_item("source", option.source)?;
        Ok(dict)
    };
    pauseframe_scenario::resolve::options().iter().map(row).collect()
}

/// A JSON Schema (draft 2020-12) of scenario files.
#[pyfunction]
fn schema() -> String {
    serde_json::to_string_pretty(&pauseframe_scenario::resolve::schema()).unwrap_or_default()
}

/// Transport presets: the name of each, with its keys and values.
#[pyfunction]
fn presets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for preset in preset_table::PRESETS {
        let row = PyDict::new(py);
        for (key, value) in expanded(preset) {
            row.set_item(key, value)?;
        }
        all.set_item(preset.name, row)?;
    }
    Ok(all)
}

/// Transport presets: the name of each, with a one-line description.
#[pyfunction]
fn preset_docs(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for preset in preset_table::PRESETS {
        all.set_item(preset.name, preset.doc)?;
    }
    Ok(all)
}

/// Every key of a transport preset above the given stack, or above the preset's own stack: key, value,
/// origin, source.
#[pyfunction]
#[pyo3(signature = (preset, stack = None))]
fn explain_transport<'py>(
    py: Python<'py>,
    preset: &str,
    stack: Option<&str>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let found = preset_table::PRESETS.iter().find(|known| known.name == preset);
    let rows = found.and_then(|known| explained(known, stack.unwrap_or(stack_of(known).name)));
    let rows =
        rows.ok_or_else(|| PyValueError::new_err(format!("no preset {preset:?} or no stack {stack:?}")))?;
    let row = |row: Explained| {
        let dict = PyDict::new(py);
        dict.set_item("key", row.key)?;
        dict.set_item("value", row.value)?;
        dict.set_item("origin", row.origin)?;
        dict.set_item("source", row.source)?;
        Ok(dict)
    };
    rows.into_iter().map(row).collect()
}

/// Stacks: the name of each, with a one-line description.
#[pyfunction]
fn stacks(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for stack in pauseframe_scenario::stacks::STACKS {
        all.set_item(stack.name, stack.doc)?;
    }
    Ok(all)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", results::VERSION)?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("RunError", module.py().get_type::<RunError>())?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    module.add_class::<Table>()?;
    module.add_class::<Resolved>()?;
    module.add_class::<Run>()?;
    module.add_function(wrap_pyfunction!(resolve, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(packetdrill, module)?)?;
    module.add_function(wrap_pyfunction!(read_table, module)?)?;
    module.add_function(wrap_pyfunction!(check_table, module)?)?;
    module.add_function(wrap_pyfunction!(limit, module)?)?;
    module.add_function(wrap_pyfunction!(options, module)?)?;
    module.add_function(wrap_pyfunction!(columns, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(term_hint, module)?)?;
    module.add_function(wrap_pyfunction!(presets, module)?)?;
    module.add_function(wrap_pyfunction!(preset_docs, module)?)?;
    module.add_function(wrap_pyfunction!(explain_transport, module)?)?;
    module.add_function(wrap_pyfunction!(stacks, module)?)?;
    fabrics::add_to(module)?;
    routes::add_to(module)?;
    flows::add_to(module)?;
    operate::add_to(module)?;
    plugins::add_to(module)?;
    sweeps::add_to(module)?;
    Ok(())
}
