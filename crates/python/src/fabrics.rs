//! Topologies for Python. Documented in `_core.pyi`.

use crate::Resolved;
use crate::border::{compute_or_stop, guarded, plain};
use pauseframe_routing::levels_of_nodes;
use pauseframe_routing::watch::Watch;
use pauseframe_scenario::printable;
use pauseframe_topology::interchange::{self, Defaults, Format, Import, Labels};
use pauseframe_topology::{Channel, NodeKind, Statistics, Topology as Graph, generate};
use pauseframe_units::{BitRate, Id, LinkId, NodeId, PortId, Span, counted};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
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
    FabricError::new_err(printable(&error.to_string()))
}

/// A fabric: its hosts, switches and links.
#[pyclass(frozen, module = "pauseframe._core")]
pub(crate) struct Topology {
    pub(crate) graph: Arc<Graph>,
    pub(crate) labels: Arc<Labels>,
    pub(crate) notes: Vec<String>,
}

impl Topology {
    fn of_import(import: Import) -> Topology {
        let Import { topology, labels, notes } = import;
        Topology { graph: Arc::new(topology), labels: Arc::new(labels), notes }
    }

    fn of_graph(graph: impl Into<Arc<Graph>>) -> Topology {
        Topology { graph: graph.into(), labels: Arc::default(), notes: Vec::new() }
    }

    pub(crate) fn node(&self, name: &str) -> PyResult<NodeId> {
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
        let labels = scenario.inner.scenario.topology.kind.labels();
        let (graph, labels) = labels.join_hosts(scenario.inner.topology());
        Topology { graph: Arc::new(graph), labels: Arc::new(labels), notes: Vec::new() }
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.iter().map(|note| printable(note)).collect()
    }

    fn nodes(&self) -> Vec<(String, &'static str, Option<u8>)> {
        let kind = |kind| if kind == NodeKind::Host { "host" } else { "switch" };
        // A further port of a host belongs to that host.
        let nodes = self.graph.nodes().iter().filter(|node| node.port_of.is_none());
        nodes.map(|node| (node.name.clone(), kind(node.kind), node.level)).collect()
    }

    fn links(&self) -> Vec<(String, String, u64, f64)> {
        let name = |node: NodeId| self.graph.nodes()[self.graph.host_of(node)].name.clone();
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

    fn port_names(&self) -> Vec<String> {
        let ends = self.graph.links().ids().flat_map(|link| [0, 1].map(|end| PortId::of_link(link, end)));
        ends.map(|port| self.graph.port_name(port)).collect()
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pauseframe.fabric.draw")?.call_method1("picture", (slf,))
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (graph, labels) = (Arc::clone(&self.graph), Arc::clone(&self.labels));
        let statistics = compute_or_stop(py, None, move |_| Statistics::of_labelled(&graph, &labels))?;
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

    fn with_single_ports(&self) -> PyResult<Topology> {
        let (graph, labels) = self.labels.split_hosts(&self.graph).map_err(wrong)?;
        let mut notes = self.notes.clone();
        let several = graph.ports_of_hosts().len();
        if several > 0 {
            notes.push(format!(
                "{} with several ports: the first port keeps the name, each further one is a destination of its own \
                 (\"NAME.PORT\")",
                counted(several, "host")
            ));
        }
        Ok(Topology { graph: Arc::new(graph), labels: Arc::new(labels), notes })
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
            // A new port must not change the names of the other ports.
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
        let links = counted(self.graph.links().len(), "link");
        format!("Topology({}, {}, {links})", counted(hosts, "host"), counted(switches, "switch"))
    }
}

/// Topology families by name, with their parameters.
#[pyfunction]
fn families() -> BTreeMap<&'static str, String> {
    generate::families().collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FabricError", module.py().get_type::<FabricError>())?;
    module.add_class::<Topology>()?;
    module.add_function(wrap_pyfunction!(families, module)?)
}
