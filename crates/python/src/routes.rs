//! Forwarding tables for Python: functions that plan, read, check and change them. Documented in `_core.pyi`.

use crate::border::{compute_or_leave_it, compute_or_stop, guarded, plain};
use crate::fabrics::{Topology, wrong};
use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_routing::update::{RowChange, Update, UpdateSettings};
use pauseframe_routing::verify::{Options, Tables, verify_watched};
use pauseframe_routing::watch::Watch;
use pauseframe_routing::{
    ENGINES, Effort, EngineSettings, GET_BETTER, Protect, RoutingError, TableUse, engine, plannable,
};
use pauseframe_topology::Topology as Graph;
use pauseframe_topology::interchange::{self, Labels};
use pauseframe_topology::{NodeKind, SwitchGraph};
use pauseframe_units::{Id, LinkId, counted};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Forwarding tables of all switches of a topology.
#[pyclass(frozen, module = "pauseframe._core")]
pub(crate) struct Routes {
    pub(crate) graph: Arc<Graph>,
    labels: Arc<Labels>,
    pub(crate) tables: Arc<Tables>,
    notes: Vec<String>,
    steps: Option<u64>,
    interrupted: bool,
}

impl Routes {
    fn of_tables(graph: Arc<Graph>, labels: Arc<Labels>, tables: Tables, notes: Vec<String>) -> Routes {
        Routes { graph, labels, tables: Arc::new(tables), notes, steps: None, interrupted: false }
    }
}

#[pymethods]
impl Routes {
    #[getter]
    fn steps(&self) -> Option<u64> {
        self.steps
    }

    #[getter]
    fn interrupted(&self) -> bool {
        self.interrupted
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    #[getter]
    fn topology(&self) -> Topology {
        let (graph, labels) = (Arc::clone(&self.graph), Arc::clone(&self.labels));
        Topology { graph, labels, notes: Vec::new() }
    }

    #[getter]
    fn vlans(&self) -> Vec<(u16, u8)> {
        self.tables.vlans().iter().map(|vlan| (vlan.id, vlan.lane)).collect()
    }

    #[pyo3(signature = (*, rows_budget=None, what_if=false, examples=10, progress=None))]
    fn check<'py>(
        &self,
        py: Python<'py>,
        rows_budget: Option<u64>,
        what_if: bool,
        examples: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (graph, tables) = (Arc::clone(&self.graph), Arc::clone(&self.tables));
        let labels = Arc::clone(&self.labels);
        let verify = move |watch: &mut dyn Watch| {
            let options = Options { rows_budget, what_ifs: what_if, examples, labels: Some(&labels) };
            verify_watched(&graph, &tables, &options, watch)
        };
        let report = compute_or_stop(py, progress.as_ref(), verify)?.map_err(wrong)?;
        let result = plain(py, &report)?;
        result.set_item("clean", report.is_clean())?;
        result.set_item("text", report.to_string())?;
        Ok(result)
    }

    fn table_use<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let result = PyDict::new(py);
        if let Some(TableUse { switch, rows, rows_by_switch, vlans }) = TableUse::of(&self.tables) {
            result.set_item("switch", &self.graph.nodes()[switch].name)?;
            result.set_item("rows", rows)?;
            result.set_item("rows_by_switch", rows_by_switch)?;
            result.set_item("vlans", vlans)?;
        }
        Ok(result)
    }

    #[pyo3(signature = (budget, *, by_switch=false))]
    fn fit(&self, budget: u64, by_switch: bool) -> PyResult<()> {
        TableUse::of(&self.tables)
            .map_or(Ok(()), |all| all.fit(&self.graph, budget, by_switch))
            .map_err(wrong)
    }

    fn pairs_lost(&self, py: Python<'_>, links: Vec<usize>) -> PyResult<(u64, u64)> {
        if let Some(link) = links.iter().find(|link| **link >= self.graph.links().len()) {
            return Err(wrong(format!("there is no link {link}: there are {}", self.graph.links().len())));
        }
        let failed: Vec<LinkId> = links.into_iter().map(LinkId::from_index).collect();
        let tables = Arc::clone(&self.tables);
        compute_or_stop(py, None, move |_| tables.pairs_lost(&failed))
    }

    fn route(&self, vlan: u16, source: &str, destination: &str) -> PyResult<Vec<String>> {
        let find = |name: &str| {
            let host = self.graph.find(name).filter(|node| self.graph.nodes()[*node].kind == NodeKind::Host);
            host.ok_or_else(|| wrong(format!("{name:?} is not a host of the topology")))
        };
        let (source, destination) = (find(source)?, find(destination)?);
        let ports = guarded(|| Ok(self.tables.route(vlan, source, destination)))?;
        Ok(ports.into_iter().map(|port| self.labels.port_name(&self.graph, port)).collect())
    }

    fn write(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let format = table_format(format)?;
        let (tables, graph, labels) =
            (Arc::clone(&self.tables), Arc::clone(&self.graph), Arc::clone(&self.labels));
        compute_or_stop(py, None, move |_| tables_io::write(&tables, format, &graph, &labels))?.map_err(wrong)
    }

    fn write_file(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<()> {
        let format = table_format(format)?;
        let (tables, graph, labels) =
            (Arc::clone(&self.tables), Arc::clone(&self.graph), Arc::clone(&self.labels));
        let write = move |_: &mut dyn Watch| {
            let file = KeepsError { file: std::fs::File::create(&path)?, code: None };
            let mut file = std::io::BufWriter::new(file);
            let written = tables_io::write_to(&tables, format, &graph, &labels, &mut file);
            let flushed = file.flush();
            match file.get_ref().code {
                Some(code) => Err(std::io::Error::from_raw_os_error(code)),
                None => flushed.map(|()| written),
            }
        };
        compute_or_stop(py, None, write)?.map_err(of_system)?.map_err(wrong)
    }

    fn __repr__(&self) -> String {
        let [vlans, lanes] = [self.tables.vlans().len(), self.tables.lanes()];
        format!("Routes({} in {})", counted(vlans, "VLAN"), counted(lanes, "lane"))
    }
}

/// A file that keeps the system's error: the writers of formats turn it into a text.
struct KeepsError {
    file: std::fs::File,
    code: Option<i32>,
}

impl Write for KeepsError {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| self.code = error.raw_os_error())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// An `OSError` of Python with the number of the system's error.
fn of_system(error: std::io::Error) -> PyErr {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    error.raw_os_error().map_or_else(|| error.into(), |code| PyOSError::new_err((code, text)))
}

fn table_format(name: &str) -> PyResult<TableFormat> {
    match name {
        "csv" => Ok(TableFormat::Csv),
        "json" => Ok(TableFormat::Json),
        "parquet" => Ok(TableFormat::Parquet),
        "opensm" => Ok(TableFormat::OpenSm),
        _ => Err(wrong(format!("there is no table format {name:?}; use csv, parquet, json or opensm"))),
    }
}

/// Plans forwarding tables with a routing engine.
#[pyfunction]
#[pyo3(signature = (
    topology, engine_name="auto", *, lanes=None, vlans=None, sampled_vlans=None, sample_percent=None,
    backup_vlans=None, protect=None, groups=None, effort=None, budget=None, steps=None, root=None, seed=1,
    first_vlan=1, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn plan_routes(
    py: Python<'_>,
    topology: &Topology,
    engine_name: &str,
    lanes: Option<usize>,
    vlans: Option<usize>,
    sampled_vlans: Option<usize>,
    sample_percent: Option<u32>,
    backup_vlans: Option<usize>,
    protect: Option<&str>,
    groups: Option<Vec<Vec<usize>>>,
    effort: Option<&str>,
    budget: Option<f64>,
    steps: Option<u64>,
    root: Option<&str>,
    seed: u64,
    first_vlan: u16,
    progress: Option<Py<PyAny>>,
) -> PyResult<Routes> {
    let root = root.map(|name| topology.node(name)).transpose()?;
    let links = |group: Vec<usize>| group.into_iter().map(LinkId::from_index).collect();
    let protect = match groups {
        Some(groups) => Some(Protect::Groups(groups.into_iter().map(links).collect())),
        None => protect.map(str::parse).transpose().map_err(|error: String| wrong(error))?,
    };
    let effort = effort.map(str::parse::<Effort>).transpose().map_err(wrong)?;
    if let Some(seconds) = budget.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0)) {
        return Err(wrong(format!("a budget of {seconds} s is not possible: it is above 0, such as 10")));
    }
    let settings = EngineSettings {
        lanes,
        vlans,
        sampled_vlans,
        sample_percent,
        backup_vlans,
        protect,
        effort,
        budget,
        stop_at: steps,
        root,
        seed,
    };
    let (graph, labels) = (Arc::clone(&topology.graph), Arc::clone(&topology.labels));
    let (fabric, engine_name) = (Arc::clone(&graph), engine_name.to_owned());
    let gets_better = GET_BETTER.contains(&engine_name.as_str());
    let plan = move |watch: &mut dyn Watch| {
        plannable(&fabric).map_err(|error| error.to_string())?;
        let graph = SwitchGraph::new(&fabric).map_err(|error| error.to_string())?;
        let engine = engine(&engine_name, &settings).map_err(|error| error.to_string())?;
        let plan = engine.plan_watched(&fabric, &graph, watch).map_err(|error| error.to_string())?;
        if usize::from(first_vlan) + plan.vlans() > 4095 || first_vlan == 0 {
            return Err(format!("VLANs are 1 to 4094: {} from {first_vlan} on do not fit", plan.vlans()));
        }
        Ok((Tables::of_plan(&plan, first_vlan), plan.notes().to_vec(), plan.steps(), plan.was_cut()))
    };
    let planned = if gets_better {
        compute_or_leave_it(py, progress.as_ref(), plan)?
    } else {
        compute_or_stop(py, progress.as_ref(), plan)?
    };
    let (tables, notes, steps, interrupted) = planned.map_err(wrong)?;
    Ok(Routes { steps, interrupted, ..Routes::of_tables(graph, labels, tables, notes) })
}

/// Reads forwarding tables from a file.
#[pyfunction]
#[pyo3(signature = (path, topology, *, format=None, addresses=None, lanes=None))]
fn read_routes(
    py: Python<'_>,
    path: PathBuf,
    topology: &Topology,
    format: Option<&str>,
    addresses: Option<PathBuf>,
    lanes: Option<BTreeMap<u16, u8>>,
) -> PyResult<Routes> {
    let format = format.map(table_format).transpose()?;
    let mut labels = (*topology.labels).clone();
    if let Some(file) = addresses {
        let text = interchange::read_text(&file).map_err(wrong)?;
        let name = file.display().to_string();
        guarded(|| tables_io::read_addresses(&name, &text, &topology.graph, &mut labels).map_err(wrong))?;
    }
    let (graph, labels) = (Arc::clone(&topology.graph), Arc::new(labels));
    let known = (Arc::clone(&graph), Arc::clone(&labels));
    let read = move |_: &mut dyn Watch| tables_io::read_path(&path, format, &known.0, &known.1);
    let mut import = compute_or_stop(py, None, read)?.map_err(wrong)?;
    if let Some(lanes) = lanes {
        let missing = |vlan| wrong(format!("VLAN {vlan} has no lane: name one for each VLAN of the tables"));
        import.tables.assign_lanes(&lanes).map_err(missing)?;
    }
    Ok(Routes::of_tables(graph, labels, import.tables, import.notes))
}

/// Plans the update from one set of forwarding tables to another.
#[pyfunction]
#[pyo3(signature = (routes, topology, *, lanes=None, failed=false, progress=None))]
fn update_routes<'py>(
    py: Python<'py>,
    routes: &Routes,
    topology: &Topology,
    lanes: Option<usize>,
    failed: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = UpdateSettings { lanes: lanes.unwrap_or(routes.tables.lanes() + 1), failed };
    let (old_graph, old_labels) = (Arc::clone(&routes.graph), Arc::clone(&routes.labels));
    let (new_graph, new_labels) = (Arc::clone(&topology.graph), Arc::clone(&topology.labels));
    let tables = Arc::clone(&routes.tables);
    let planned = compute_or_stop(py, progress.as_ref(), move |watch| {
        let (old, new) = ((&*old_graph, &*old_labels), (&*new_graph, &*new_labels));
        let update = Update::plan(old, &tables, new, settings, watch)?;
        let (mixes, after) = (update.mixes()?, update.on_new(&new_graph)?);
        Ok::<_, RoutingError>((update, mixes, after))
    })?;
    let (update, mixes, after) = planned.map_err(wrong)?;
    let labels = Arc::new(update.labels(&topology.labels));
    let graph = Arc::clone(&topology.graph);
    let result = PyDict::new(py);
    let notes = topology.notes.clone();
    result
        .set_item("topology", Topology { graph: Arc::clone(&graph), labels: Arc::clone(&labels), notes })?;
    result.set_item("routes", Routes::of_tables(graph, labels, after, update.notes.clone()))?;
    result.set_item("mixes", mixes)?;
    result.set_item("kept", &update.kept)?;
    result.set_item("renumbered", &update.renumbered)?;
    result.set_item("moved_hosts", &update.union.moved)?;
    result.set_item("lost_before", update.lost_before)?;
    let row = |row: RowChange| (row.switch, row.destination, row.before, row.after);
    result.set_item("changes", update.changes().into_iter().map(row).collect::<Vec<_>>())?;
    let (graph, labels) = (Arc::new(update.union.topology.clone()), Arc::new(update.union.labels.clone()));
    let state = |tables| Routes::of_tables(Arc::clone(&graph), Arc::clone(&labels), tables, Vec::new());
    result.set_item("before", state(update.before.clone()))?;
    result.set_item("during", state(update.during()))?;
    result.set_item("after", state(update.after.clone()))?;
    result.set_item(
        "union",
        Topology { graph: Arc::clone(&graph), labels: Arc::clone(&labels), notes: Vec::new() },
    )?;
    Ok(result)
}

/// Routing engines by name.
#[pyfunction]
fn engines() -> BTreeMap<&'static str, &'static str> {
    ENGINES.into_iter().collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Routes>()?;
    module.add_function(wrap_pyfunction!(plan_routes, module)?)?;
    module.add_function(wrap_pyfunction!(read_routes, module)?)?;
    module.add_function(wrap_pyfunction!(update_routes, module)?)?;
    module.add_function(wrap_pyfunction!(engines, module)?)
}
