//! Flow-level simulation for Python. Documented in `_core.pyi`.

use crate::border::{compute, compute_or_stop, plain};
use crate::fabrics::{Topology, wrong};
use crate::routes::Routes;
use crate::{Resolved, RunError, Table, run_error};
use pauseframe_flowlevel::routes::VlanChoice;
use pauseframe_routing::verify::Tables;
use pauseframe_scenario::flow_level::{
    Choices, Demand, HostPortSettings, PathHashSettings, RateStatistics, Steady, Ways, steady,
};
use pauseframe_scenario::results::{self, RunStatus};
use pauseframe_scenario::{FlowOptions, FlowResults, run_flow_level};
use pauseframe_topology::Topology as Graph;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;

/// Result of a scenario at flow level.
#[pyclass(frozen, module = "pauseframe._core")]
struct FlowRun {
    results: FlowResults,
}

#[pymethods]
impl FlowRun {
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.results.summary)
    }

    #[getter]
    fn interrupted(&self) -> bool {
        self.results.summary.status == RunStatus::Interrupted
    }

    #[getter]
    fn flows(&self) -> Table {
        Table { batch: self.results.flows.clone() }
    }

    #[getter]
    fn links(&self) -> Table {
        Table { batch: self.results.links.clone() }
    }
}

/// The rule that chooses a flow's VLAN, for forwarding tables that have VLANs.
fn choice_of(has_tables: bool, choice: &str, slack: usize) -> PyResult<VlanChoice> {
    let choice = match choice {
        "random" => VlanChoice::Random,
        "best_of_two" => VlanChoice::BestOfTwo,
        "least_loaded" => VlanChoice::LeastLoaded { passes: 2 },
        _ => {
            return Err(wrong(format!(
                "there is no choice {choice:?}; use random, best_of_two or least_loaded"
            )));
        }
    };
    if !has_tables && (choice != VlanChoice::Random || slack > 0) {
        return Err(wrong("choice and slack are among the VLANs of tables: give tables"));
    }
    Ok(choice)
}

fn ways(tables: Option<&Tables>, choice: VlanChoice, slack: usize) -> Option<Ways<'_>> {
    tables.map(|tables| Ways::Tables { tables, choice, slack, assigned: None })
}

/// True if forwarding tables for the graph `one` are valid on the graph `other`.
fn is_same_fabric(one: &Graph, other: &Graph) -> bool {
    let names = |graph: &Graph| graph.nodes().iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let ends = |graph: &Graph| graph.links().iter().map(|link| link.ends).collect::<Vec<_>>();
    names(one) == names(other) && ends(one) == ends(other)
}

/// Runs a scenario at flow level, without packets.
#[pyfunction]
#[pyo3(signature = (
    scenario, *, routes=None, choice="random", slack=0, demand=None, bound=None, out=None, force=false, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn run_flows(
    py: Python<'_>,
    scenario: &Resolved,
    routes: Option<&Routes>,
    choice: &str,
    slack: usize,
    demand: Option<&str>,
    bound: Option<f64>,
    out: Option<PathBuf>,
    force: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<FlowRun> {
    if let Some(routes) = routes
        && !is_same_fabric(scenario.inner.topology(), &routes.graph)
    {
        return Err(wrong("the tables are for another topology than the scenario's"));
    }
    let demand = demand.map(str::parse::<Demand>).transpose().map_err(wrong)?;
    check_bound(bound)?;
    let choice = choice_of(routes.is_some(), choice, slack)?;
    let tables = routes.map(|routes| Arc::clone(&routes.tables));
    let scenario = Arc::clone(&scenario.inner);
    let computed = compute(py, progress.as_ref(), move |watch| {
        let ways = ways(tables.as_deref(), choice, slack);
        let options = FlowOptions { ways, demand, bound, out: out.as_deref(), force };
        run_flow_level(&scenario, options, watch)
    });
    let results = finish(py, computed?)?;
    Ok(FlowRun { results })
}

/// After Ctrl-C the finished part of the result is kept; any other exception of the progress display goes to
/// the caller.
fn finish(
    py: Python<'_>,
    (results, raised): (Result<FlowResults, results::RunError>, Option<PyErr>),
) -> PyResult<FlowResults> {
    match (results, raised) {
        (Ok(results), None) => Ok(results),
        (Ok(results), Some(raised)) if raised.is_instance_of::<PyKeyboardInterrupt>(py) => Ok(results),
        (_, Some(raised)) => Err(raised),
        (Err(error), None) => Err(run_error(py, error)),
    }
}

fn check_bound(bound: Option<f64>) -> PyResult<()> {
    match bound {
        Some(gap) if !(gap.is_finite() && gap > 0.0) => {
            Err(wrong(format!("a gap of {gap} is not possible: it is a part such as 0.05")))
        }
        _ => Ok(()),
    }
}

/// Max-min fair rates of a static demand.
#[pyfunction]
#[pyo3(signature = (
    topology, demand="permutation", *, routes=None, choice="random", slack=0, seeds=vec![1], bound=None, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn flow_rates<'py>(
    py: Python<'py>,
    topology: &Topology,
    demand: &str,
    routes: Option<&Routes>,
    choice: &str,
    slack: usize,
    seeds: Vec<u64>,
    bound: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    if routes.is_some_and(|routes| !is_same_fabric(&topology.graph, &routes.graph)) {
        return Err(wrong("the tables are for another topology"));
    }
    let demand: Demand = demand.parse().map_err(wrong)?;
    check_bound(bound)?;
    let choice = choice_of(routes.is_some(), choice, slack)?;
    let tables = routes.map(|routes| Arc::clone(&routes.tables));
    let graph = Arc::clone(&topology.graph);
    let found = compute_or_stop(py, progress.as_ref(), move |watch| {
        let ways = ways(tables.as_deref(), choice, slack).unwrap_or(Ways::Ecmp);
        let choices = Choices { ports: HostPortSettings::DEFAULT, hash: &PathHashSettings::IDEAL };
        steady(&graph, ways, choices, demand, &seeds, bound, watch)
    })?;
    let found = found.map_err(|error| RunError::new_err(error.to_string()))?;
    found.iter().map(|steady| rates_dict(py, steady)).collect()
}

fn rates_dict<'py>(py: Python<'py>, steady: &Steady) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("seed", steady.seed)?;
    dict.set_item("flows", steady.pairs.len())?;
    dict.set_item("throughput_bps", steady.report.throughput)?;
    dict.set_item("rate_bps", plain(py, &RateStatistics::of(&steady.report.rates))?)?;
    let hops: usize = steady.paths.iter().map(|path| path.len().saturating_sub(2)).sum();
    dict.set_item("hops_mean", hops as f64 / steady.pairs.len().max(1) as f64)?;
    dict.set_item("bound_bps", steady.bounds.map(|bounds| (bounds.lower, bounds.upper)))?;
    Ok(dict)
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FlowRun>()?;
    module.add_function(wrap_pyfunction!(run_flows, module)?)?;
    module.add_function(wrap_pyfunction!(flow_rates, module)?)
}
