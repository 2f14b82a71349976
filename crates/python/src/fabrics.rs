//! Topologies and forwarding tables for Python. Documented in `_core.pyi`.

use crate::border::{compute_or_stop, guarded};
use crate::{Resolved, RunError, scenario_error};
use pauseframe_scenario::resolve::build_topology;
use pauseframe_topology::interchange::{self, Defaults, Format, Import, Labels};
use pauseframe_topology::routing::tables_io::{self, TableFormat};
use pauseframe_topology::routing::verify::{Options, Tables, verify_watched};
use pauseframe_topology::routing::{ENGINES, EngineSettings, SwitchGraph, TableUse, engine};
use pauseframe_topology::watch::Watch;
use pauseframe_topology::{Channel, NodeKind, Statistics, Topology as Graph, files, generate};
use pauseframe_units::{BitRate, Id, LinkId, NodeId, Span};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

create_exception!(
    pauseframe._core,
    FabricError,
    PyValueError,
    "A topology, tables or a plan are not possible: what is wrong, where, and what would do."
);

pub(crate) fn wrong(error: impl Display) -> PyErr {
    FabricError::new_err(error.to_string())
}

/// A value that serialises, as plain Python values.
pub(crate) fn plain<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| RunError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// A fabric: hosts, switches, links.
#[pyclass(frozen, module = "pauseframe._core")]
pub(crate) struct Topology {
    pub(crate) graph: Arc<Graph>,
    labels: Arc<Labels>,
    notes: Vec<String>,
}

impl Topology {
    fn of_import(import: Import) -> Topology {
        let Import { topology, labels, notes } = import;
        Topology { graph: Arc::new(topology), labels: Arc::new(labels), notes }
    }

    fn of_graph(graph: Graph) -> Topology {
        Topology { graph: Arc::new(graph), labels: Arc::default(), notes: Vec::new() }
    }

    fn node(&self, name: &str) -> PyResult<NodeId> {
        self.graph.find(name).ok_or_else(|| wrong(format!("{name:?} is not in the topology")))
    }
}

fn defaults(rate: &str, delay: &str) -> PyResult<Defaults> {
    let rate: BitRate = rate.parse().map_err(|error| wrong(format!("rate: {error}")))?;
    let delay: Span = delay.parse().map_err(|error| wrong(format!("delay: {error}")))?;
    Ok(Defaults { channel: Channel { rate, delay } })
}

#[pymethods]
impl Topology {
    #[staticmethod]
    #[pyo3(signature = (path, *, format=None, rate="10 Gbps", delay="1 us"))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        rate: &str,
        delay: &str,
    ) -> PyResult<Topology> {
        let format = format.map(str::parse::<Format>).transpose().map_err(wrong)?;
        let defaults = defaults(rate, delay)?;
        let read = move |_: &mut dyn Watch| interchange::read_file(&path, format, defaults);
        compute_or_stop(py, None, read)?.map(Topology::of_import).map_err(wrong)
    }

    #[staticmethod]
    #[pyo3(signature = (text, format, *, rate="10 Gbps", delay="1 us"))]
    fn parse(py: Python<'_>, text: String, format: &str, rate: &str, delay: &str) -> PyResult<Topology> {
        let format = format.parse::<Format>().map_err(wrong)?;
        let defaults = defaults(rate, delay)?;
        let read = move |_: &mut dyn Watch| interchange::read(&text, format, defaults);
        compute_or_stop(py, None, read)?.map(Topology::of_import).map_err(wrong)
    }

    #[staticmethod]
    fn family(py: Python<'_>, text: String) -> PyResult<Topology> {
        let made = compute_or_stop(py, None, move |_| generate::named(&text))?;
        made.map(Topology::of_graph).map_err(wrong)
    }

    #[staticmethod]
    fn of_scenario(py: Python<'_>, scenario: &Resolved) -> PyResult<Topology> {
        let scenario = Arc::clone(&scenario.inner);
        let graph = compute_or_stop(py, None, move |_| build_topology(&scenario.scenario.topology))?
            .map_err(|problems| scenario_error(py, &pauseframe_scenario::ScenarioError { problems }))?;
        Ok(Topology::of_graph(graph))
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn nodes(&self) -> Vec<(String, &'static str, Option<u8>)> {
        let kind = |kind| if kind == NodeKind::Host { "host" } else { "switch" };
        self.graph.nodes().iter().map(|node| (node.name.clone(), kind(node.kind), node.level)).collect()
    }

    fn links(&self) -> Vec<(String, String, u64, f64)> {
        let name = |node: NodeId| self.graph.nodes()[node].name.clone();
        let row = |link: &pauseframe_topology::Link| {
            let [a, b] = link.ends.map(name);
            (a, b, link.channels[0].rate.0, link.channels[0].delay.as_us_f64())
        };
        self.graph.links().iter().map(row).collect()
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let graph = Arc::clone(&self.graph);
        let statistics = compute_or_stop(py, None, move |_| Statistics::of(&graph))?;
        plain(py, &statistics)
    }

    fn write(&self, format: &str) -> PyResult<String> {
        let format = format.parse::<Format>().map_err(wrong)?;
        guarded(|| interchange::write_labelled(&self.graph, &self.labels, format).map_err(wrong))
    }

    fn without(&self, links: Vec<usize>) -> PyResult<Topology> {
        if let Some(link) = links.iter().find(|link| **link >= self.graph.links().len()) {
            return Err(wrong(format!("there is no link {link}: there are {}", self.graph.links().len())));
        }
        let mut graph = Graph::new();
        for node in self.graph.nodes() {
            graph.add_node(node.name.clone(), node.kind, node.level);
        }
        for (id, link) in self.graph.links().iter_enumerated() {
            if !links.contains(&id.index()) {
                graph.add_asymmetric_link(link.ends[0], link.ends[1], link.channels);
            }
        }
        Ok(Topology::of_graph(graph))
    }

    fn __repr__(&self) -> String {
        let [hosts, switches] = [self.graph.hosts().count(), self.graph.switches().count()];
        format!("Topology({hosts} hosts, {switches} switches, {} links)", self.graph.links().len())
    }
}

/// Forwarding tables of all switches of a topology.
#[pyclass(frozen, module = "pauseframe._core")]
pub(crate) struct Routes {
    pub(crate) graph: Arc<Graph>,
    labels: Arc<Labels>,
    pub(crate) tables: Arc<Tables>,
    notes: Vec<String>,
}

#[pymethods]
impl Routes {
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
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
        let options = Options { rows_budget, what_ifs: what_if, examples };
        let (graph, tables) = (Arc::clone(&self.graph), Arc::clone(&self.tables));
        let verify = move |watch: &mut dyn Watch| verify_watched(&graph, &tables, &options, watch);
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
        Ok(ports.into_iter().map(|port| self.graph.port_name(port)).collect())
    }

    fn write(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let format = table_format(format)?;
        let (tables, graph, labels) =
            (Arc::clone(&self.tables), Arc::clone(&self.graph), Arc::clone(&self.labels));
        compute_or_stop(py, None, move |_| tables_io::write(&tables, format, &graph, &labels))?.map_err(wrong)
    }

    fn __repr__(&self) -> String {
        let [vlans, lanes] = [self.tables.vlans().len(), self.tables.lanes()];
        format!("Routes({vlans} VLANs in {lanes} lanes)")
    }
}

fn table_format(name: &str) -> PyResult<TableFormat> {
    match name {
        "csv" => Ok(TableFormat::Csv),
        "json" => Ok(TableFormat::Json),
        "opensm" => Ok(TableFormat::OpenSm),
        _ => Err(wrong(format!("there is no table format {name:?}; use csv, json or opensm"))),
    }
}

/// Plans tables.
#[pyfunction]
#[pyo3(signature = (
    topology, engine_name="order_pair", *, lanes=None, vlans=None, sampled_vlans=None, sample_percent=None, root=None,
    seed=1, first_vlan=1, progress=None
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
    root: Option<&str>,
    seed: u64,
    first_vlan: u16,
    progress: Option<Py<PyAny>>,
) -> PyResult<Routes> {
    let root = root.map(|name| topology.node(name)).transpose()?;
    let settings = EngineSettings { lanes, vlans, sampled_vlans, sample_percent, root, seed };
    let (graph, labels) = (Arc::clone(&topology.graph), Arc::clone(&topology.labels));
    let (fabric, engine_name) = (Arc::clone(&graph), engine_name.to_owned());
    let planned = compute_or_stop(py, progress.as_ref(), move |watch| {
        let graph = SwitchGraph::new(&fabric).map_err(|error| error.to_string())?;
        let engine = engine(&engine_name, &settings).map_err(|error| error.to_string())?;
        let plan = engine.plan_watched(&fabric, &graph, watch).map_err(|error| error.to_string())?;
        if usize::from(first_vlan) + plan.vlans() > 4095 || first_vlan == 0 {
            return Err(format!("VLANs are 1 to 4094: {} from {first_vlan} on do not fit", plan.vlans()));
        }
        Ok(Tables::of_plan(&plan, first_vlan))
    })?;
    let tables = Arc::new(planned.map_err(wrong)?);
    Ok(Routes { graph, labels, tables, notes: Vec::new() })
}

/// Reads tables.
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
        let text = files::read_text(&file)?;
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
    Ok(Routes { graph, labels, tables: Arc::new(import.tables), notes: import.notes })
}

/// Engines by name.
#[pyfunction]
fn engines() -> BTreeMap<&'static str, &'static str> {
    ENGINES.into_iter().collect()
}

/// Families by name, with their parameters.
#[pyfunction]
fn families() -> BTreeMap<&'static str, &'static str> {
    generate::FAMILIES.into_iter().collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FabricError", module.py().get_type::<FabricError>())?;
    module.add_class::<Topology>()?;
    module.add_class::<Routes>()?;
    module.add_function(wrap_pyfunction!(plan_routes, module)?)?;
    module.add_function(wrap_pyfunction!(read_routes, module)?)?;
    module.add_function(wrap_pyfunction!(engines, module)?)?;
    module.add_function(wrap_pyfunction!(families, module)?)
}
