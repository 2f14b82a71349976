//! Topologies and forwarding tables for Python. Documented in `_core.pyi`.

use crate::Resolved;
use crate::border::{compute_or_stop, guarded, plain};
use pauseframe_topology::interchange::{self, Defaults, Format, Import, Labels};
use pauseframe_topology::routing::tables_io::{self, TableFormat};
use pauseframe_topology::routing::update::{RowChange, Update, UpdateSettings};
use pauseframe_topology::routing::verify::{Options, Tables, verify_watched};
use pauseframe_topology::routing::{
    ENGINES, Effort, EngineSettings, Protect, RoutingError, SwitchGraph, TableUse, engine, levels_of_nodes,
    plannable,
};
use pauseframe_topology::watch::Watch;
use pauseframe_topology::{Channel, NodeKind, Statistics, Topology as Graph, generate};
use pauseframe_units::{BitRate, Id, LinkId, NodeId, PortId, Span};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
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

    fn of_graph(graph: impl Into<Arc<Graph>>) -> Topology {
        Topology { graph: graph.into(), labels: Arc::default(), notes: Vec::new() }
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
    fn of_scenario(scenario: &Resolved) -> Topology {
        Topology::of_graph(Arc::clone(scenario.inner.topology()))
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

    fn ports(&self) -> Vec<(String, String)> {
        let name = |id, end| self.labels.port_name(&self.graph, PortId::of_link(id, end));
        self.graph.links().ids().map(|id| (name(id, 0), name(id, 1))).collect()
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pauseframe.draw")?.call_method1("picture", (slf,))
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
        let failed: Vec<LinkId> = links.into_iter().map(LinkId::from_index).collect();
        let (graph, labels) = self.labels.without_links(&self.graph, &failed);
        Ok(Topology { graph: Arc::new(graph), labels: Arc::new(labels), notes: Vec::new() })
    }

    fn levels(&self) -> Option<BTreeMap<String, u32>> {
        let levels = levels_of_nodes(&self.graph)?;
        Some(self.graph.nodes().iter().map(|node| node.name.clone()).zip(levels).collect())
    }

    fn with_single_ports(&self) -> Topology {
        let (graph, labels, split) = self.labels.split_hosts(&self.graph);
        let mut notes = self.notes.clone();
        if split > 0 {
            notes.push(format!(
                "{split} hosts have several links: each of their ports is a host of its own (\"NAME.PORT\")"
            ));
        }
        Topology { graph: Arc::new(graph), labels: Arc::new(labels), notes }
    }

    #[pyo3(signature = (per_switch, *, rate="10 Gbps", delay="1 us"))]
    fn with_hosts(&self, per_switch: usize, rate: &str, delay: &str) -> PyResult<Topology> {
        if self.graph.hosts().next().is_some() {
            return Err(wrong("the topology has hosts already: leave --hosts-per-switch out"));
        }
        if per_switch.saturating_mul(self.graph.nodes().len()) as u64 > generate::LINKS_MAX {
            return Err(wrong(format!("there would be more than {} hosts", generate::LINKS_MAX)));
        }
        let channel = defaults(rate, delay)?.channel;
        let (mut graph, mut labels) = ((*self.graph).clone(), (*self.labels).clone());
        for switch in self.graph.switches() {
            let name = self.graph.nodes()[switch].name.clone();
            // A further port shall not change what the others are called.
            for port in &self.graph.nodes()[switch].ports {
                labels.name_port(*port, self.labels.port_or_default(&self.graph, *port));
            }
            for number in 1..=per_switch {
                let host = graph.add_node(format!("{name}-host{number}"), NodeKind::Host, None);
                let link = graph.add_link(host, switch, channel);
                labels.name_port(PortId::of_link(link, 1), format!("host{number}"));
            }
        }
        Ok(Topology { graph: Arc::new(graph), labels: Arc::new(labels), notes: self.notes.clone() })
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
            let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
            let written = tables_io::write_to(&tables, format, &graph, &labels, &mut file);
            file.flush().map(|()| written)
        };
        compute_or_stop(py, None, write)??.map_err(wrong)
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
        "parquet" => Ok(TableFormat::Parquet),
        "opensm" => Ok(TableFormat::OpenSm),
        _ => Err(wrong(format!("there is no table format {name:?}; use csv, parquet, json or opensm"))),
    }
}

/// Plans tables.
#[pyfunction]
#[pyo3(signature = (
    topology, engine_name="auto", *, lanes=None, vlans=None, sampled_vlans=None, sample_percent=None,
    backup_vlans=None, protect=None, groups=None, effort=None, root=None, seed=1, first_vlan=1, progress=None
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
    let settings = EngineSettings {
        lanes,
        vlans,
        sampled_vlans,
        sample_percent,
        backup_vlans,
        protect,
        effort,
        root,
        seed,
    };
    let (graph, labels) = (Arc::clone(&topology.graph), Arc::clone(&topology.labels));
    let (fabric, engine_name) = (Arc::clone(&graph), engine_name.to_owned());
    let planned = compute_or_stop(py, progress.as_ref(), move |watch| {
        plannable(&fabric).map_err(|error| error.to_string())?;
        let graph = SwitchGraph::new(&fabric).map_err(|error| error.to_string())?;
        let engine = engine(&engine_name, &settings).map_err(|error| error.to_string())?;
        let plan = engine.plan_watched(&fabric, &graph, watch).map_err(|error| error.to_string())?;
        if usize::from(first_vlan) + plan.vlans() > 4095 || first_vlan == 0 {
            return Err(format!("VLANs are 1 to 4094: {} from {first_vlan} on do not fit", plan.vlans()));
        }
        Ok((Tables::of_plan(&plan, first_vlan), plan.notes().to_vec()))
    })?;
    let (tables, notes) = planned.map_err(wrong)?;
    Ok(Routes { graph, labels, tables: Arc::new(tables), notes })
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
    Ok(Routes { graph, labels, tables: Arc::new(import.tables), notes: import.notes })
}

/// Plans an update.
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
    result
        .set_item("routes", Routes { graph, labels, tables: Arc::new(after), notes: update.notes.clone() })?;
    result.set_item("mixes", mixes)?;
    result.set_item("kept", &update.kept)?;
    result.set_item("renumbered", &update.renumbered)?;
    result.set_item("moved_hosts", &update.union.moved)?;
    result.set_item("lost_before", update.lost_before)?;
    let row = |row: RowChange| (row.switch, row.destination, row.before, row.after);
    result.set_item("changes", update.changes().into_iter().map(row).collect::<Vec<_>>())?;
    let (graph, labels) = (Arc::new(update.union.topology.clone()), Arc::new(update.union.labels.clone()));
    let state = |tables: Tables| Routes {
        graph: Arc::clone(&graph),
        labels: Arc::clone(&labels),
        tables: Arc::new(tables),
        notes: Vec::new(),
    };
    result.set_item("before", state(update.before.clone()))?;
    result.set_item("during", state(update.during()))?;
    result.set_item("after", state(update.after.clone()))?;
    result.set_item(
        "union",
        Topology { graph: Arc::clone(&graph), labels: Arc::clone(&labels), notes: Vec::new() },
    )?;
    Ok(result)
}

/// Engines by name.
#[pyfunction]
fn engines() -> BTreeMap<&'static str, &'static str> {
    ENGINES.into_iter().collect()
}

/// Families by name, with their parameters.
#[pyfunction]
fn families() -> BTreeMap<&'static str, String> {
    generate::families().collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FabricError", module.py().get_type::<FabricError>())?;
    module.add_class::<Topology>()?;
    module.add_class::<Routes>()?;
    module.add_function(wrap_pyfunction!(plan_routes, module)?)?;
    module.add_function(wrap_pyfunction!(read_routes, module)?)?;
    module.add_function(wrap_pyfunction!(update_routes, module)?)?;
    module.add_function(wrap_pyfunction!(engines, module)?)?;
    module.add_function(wrap_pyfunction!(families, module)?)
}
