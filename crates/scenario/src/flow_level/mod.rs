//! A scenario at the flow level: its topology, routing and workloads without packets.
//!
//! This module answers two questions. With the scenario's workloads: when does each flow end if all links are
//! shared max-min fairly at every moment ([`pauseframe_flowlevel::simulate`])? With a static demand instead
//! of the workloads: which rate does each pair get ([`pauseframe_flowlevel::MaxMin`]), and which rate could
//! the best routing give ([`pauseframe_flowlevel::ConcurrentFlow`])? The model leaves out transports, queues,
//! buffers, pauses, headers, delays and packet spraying, and counts application bytes. Datagram sources send
//! at their configured rate before all other flows, and lose the excess over the link rate; slow receivers
//! and slow readers limit the rates. `left_out.rs` refuses scenarios with failures or with hosts that do not
//! answer.

mod demand;
mod left_out;
mod source;
mod steady;
mod summary;
mod tables;

pub use demand::Demand;
pub use pauseframe_fabric::HostPortSettings;
pub use pauseframe_fabric::path_hash::PathHashSettings;
pub use steady::{Choices, Steady, steady};
pub use summary::{FlowSummary, LinkUse, RateStatistics};
pub use tables::reference;

use crate::build;
use crate::report;
use crate::resolve::Resolved;
use crate::spec::{ChoiceName, Per, RoutingKind, RoutingSpec};
use arrow_array::RecordBatch;
use left_out::Replaced;
use pauseframe_flowlevel::routes::{Assigned, VlanChoice};
use pauseframe_results::{Names, RunError, RunStatus, VERSION};
use pauseframe_routing::verify::Tables;
use pauseframe_routing::watch::Watch;
use pauseframe_topology::Topology;
use pauseframe_units::Time;
use serde::Serialize;
use source::Workloads;
use std::path::Path;
use std::time::Instant;

/// The routing of the flows in a flow-level run.
#[derive(Clone, Copy, Debug)]
pub enum Ways<'a> {
    /// Equal-cost multi-path: a hash selects a shortest path for each flow.
    Ecmp,
    /// Forwarding tables with VLANs.
    Tables {
        /// The forwarding tables, planned for the same topology.
        tables: &'a Tables,
        /// The rule that chooses each flow's VLAN.
        choice: VlanChoice,
        /// Maximum number of links by which a route may exceed the shortest route of any VLAN.
        slack: usize,
        /// VLANs of pairs that do not choose, as a planner that knows the demand has fixed them.
        assigned: Option<&'a Assigned>,
    },
}

/// Options of a flow-level run.
#[derive(Clone, Copy, Debug)]
pub struct FlowOptions<'a> {
    /// The routing; `None` takes the routing of the scenario.
    pub ways: Option<Ways<'a>>,
    /// A static demand that replaces the workloads.
    pub demand: Option<Demand>,
    /// For a static demand: the relative gap to which the bound over all routings is computed.
    pub bound: Option<f64>,
    /// The output folder; `None` keeps the tables in memory.
    pub out: Option<&'a Path>,
    /// Overwrite existing results.
    pub force: bool,
}

/// Results of a flow-level run.
#[derive(Clone, Debug)]
pub struct FlowResults {
    /// The summary of the run.
    pub summary: FlowSummary,
    /// The `flows` table, with one row for each flow.
    pub flows: RecordBatch,
    /// The `links` table, with one row for each link and direction.
    pub links: RecordBatch,
}

/// The contents of `manifest.json` in a flow-level results folder.
#[derive(Serialize)]
struct FlowManifest<'a> {
    program: &'static str,
    kind: &'static str,
    version: &'static str,
    name: &'a str,
    seed: u64,
    status: RunStatus,
    summary: Option<&'a FlowSummary>,
}

impl<'a> FlowManifest<'a> {
    fn new(resolved: &'a Resolved, status: RunStatus, summary: Option<&'a FlowSummary>) -> FlowManifest<'a> {
        let (name, seed) = (resolved.scenario.name.as_str(), resolved.scenario.seed);
        FlowManifest {
            program: "pauseframe",
            kind: "flow_level",
            version: VERSION,
            name,
            seed,
            status,
            summary,
        }
    }
}

/// Runs a scenario at flow level. `watch` may stop the run; the results until then are kept.
///
/// # Errors
/// If the scenario needs packets (such as for spraying), a pair has no route, or the results cannot be
/// written.
pub fn run_flow_level(
    resolved: &Resolved,
    options: FlowOptions,
    watch: &mut dyn Watch,
) -> Result<FlowResults, RunError> {
    let scenario = &resolved.scenario;
    let topology = resolved.topology();
    let of_demand = assigned(&scenario.routing, topology);
    let ways = match options.ways {
        Some(ways) => ways,
        None => scenario_ways(&scenario.routing, &of_demand)?,
    };
    if options.bound.is_some() && options.demand.is_none() {
        return Err(RunError::Input("a bound needs a static demand: workloads come and go".into()));
    }
    left_out::refuse(scenario, topology, options.demand.is_some())?;
    let running = FlowManifest::new(resolved, RunStatus::Running, None);
    let folder = report::folder_with(resolved, options.out, options.force, &running)?;
    let mut results = match options.demand {
        Some(demand) => static_results(resolved, topology, ways, demand, options.bound, watch)?,
        None => dynamic_results(resolved, topology, ways, watch)?,
    };
    results.summary.out = options.out.map(|path| path.display().to_string());
    let replaced = Replaced { workloads: options.demand.is_some(), routing: options.ways.is_some() };
    results.summary.warnings.extend(left_out::warnings(resolved, replaced));
    if let Some(mut folder) = folder {
        let was_stopped = results.summary.status == RunStatus::Interrupted;
        // After a stop of the simulation, the partial results are still written.
        let mut go_on = || was_stopped || watch.step("writing the results", 0, 1).is_ok();
        if scenario.record.flows {
            folder.write_table("flows.parquet", &results.flows, &mut go_on)?;
        }
        folder.write_table("links.parquet", &results.links, &mut go_on)?;
        folder.finish(&FlowManifest::new(resolved, results.summary.status, Some(&results.summary)))?;
    }
    Ok(results)
}

const ONE_PORT_A_FLOW: &str = "bound: each flow keeps the ports of its hosts that host.port_choice gave it, so a \
                               routing that may choose other ports, or several, can exceed the bound";

/// The VLANs that the choice by demand assigns.
fn assigned(routing: &RoutingSpec, topology: &Topology) -> Assigned {
    let by_demand = routing.vlans.as_ref().filter(|spec| spec.use_of.choice == ChoiceName::Demand);
    by_demand.map(|spec| build::assigned(spec, &spec.tables.0, topology)).unwrap_or_default()
}

/// The routing of a scenario.
fn scenario_ways<'a>(routing: &'a RoutingSpec, assigned: &'a Assigned) -> Result<Ways<'a>, RunError> {
    match &routing.vlans {
        Some(spec) if spec.use_of.per == Per::Packet => {
            Err(RunError::Input("routing.per = \"packet\": a flow has one path at flow level".into()))
        }
        Some(spec) => Ok(Ways::Tables {
            tables: &spec.tables.0,
            choice: match spec.use_of.choice {
                // Pairs that are not in the demand draw.
                ChoiceName::Random | ChoiceName::Demand => VlanChoice::Random,
                ChoiceName::BestOfTwo => VlanChoice::BestOfTwo,
                ChoiceName::LeastLoaded => VlanChoice::LeastLoaded { passes: 1 },
            },
            slack: usize::from(spec.use_of.slack),
            assigned: Some(assigned),
        }),
        None if matches!(routing.kind, RoutingKind::Hops(_)) => Err(RunError::Input(
            "routing.kind: switches choose for packets or flowlets, but a flow has one path at flow level; use \"ecmp\" or tables".into(),
        )),
        None => Ok(Ways::Ecmp),
    }
}

fn static_results(
    resolved: &Resolved,
    topology: &Topology,
    ways: Ways,
    demand: Demand,
    bound: Option<f64>,
    watch: &mut dyn Watch,
) -> Result<FlowResults, RunError> {
    let begin = Instant::now();
    let seed = resolved.scenario.seed;
    let choices = Choices { ports: resolved.scenario.host.ports(), hash: &resolved.scenario.routing.hash };
    let steady = steady(topology, ways, choices, demand, &[seed], bound, watch)?.remove(0);
    let mut summary = FlowSummary::of_steady(resolved, demand, &steady, topology);
    if bound.is_some() && !topology.ports_of_hosts().is_empty() {
        summary.warnings.push(ONE_PORT_A_FLOW.to_owned());
    }
    if report::may_polarize(&resolved.scenario, steady.pairs.len()) {
        summary.warnings.extend(report::polarized(&steady.flows_by_next_hop(topology)?, topology));
    }
    summary.wall_s = begin.elapsed().as_secs_f64();
    let names = Names { topology, workloads: &[], transports: &[] };
    let flows = tables::flows_of_steady(&steady, topology, ways).batch();
    let links = tables::links(&names, &steady.paths, &steady.report.utilisation).batch();
    Ok(FlowResults { summary, flows, links })
}

fn dynamic_results(
    resolved: &Resolved,
    topology: &Topology,
    ways: Ways,
    watch: &mut dyn Watch,
) -> Result<FlowResults, RunError> {
    let begin = Instant::now();
    let scenario = &resolved.scenario;
    let mut capacity = pauseframe_flowlevel::capacities(topology);
    for receiver in &scenario.host.slow_receivers {
        let node = topology.find(&receiver.host).map(|host| &topology.nodes()[host]);
        for port in node.into_iter().flat_map(|node| &node.ports) {
            let towards_it = &mut capacity[port.reverse().0 as usize];
            *towards_it = towards_it.min(receiver.rate.0 as f64);
        }
    }
    let router = source::Router::new(topology, ways, &scenario.routing.hash, scenario.seed)?;
    let ports = source::Ports::new(topology, scenario.host.ports(), scenario.seed)?;
    let mut workloads = Workloads::new(scenario, topology, router, ports);
    let until = scenario.stop.time.map(|stop| Time::ZERO + stop);
    let mut outcome = pauseframe_flowlevel::simulate(&capacity, &mut workloads, until, watch)
        .map_err(|error| RunError::Build(error.to_string()))?;
    if let Some(until) = until.filter(|_| !scenario.stop.when_finished && !outcome.stopped) {
        outcome.end = until.as_secs_f64();
    }
    let lost = workloads.warning_of_lost_datagrams(&outcome);
    let shared = workloads.flows_by_next_hop(&outcome);
    let records = workloads.finish(&outcome)?;
    let mut summary = FlowSummary::of_records(resolved, &records, &outcome, topology);
    summary.wall_s = begin.elapsed().as_secs_f64();
    let of_workloads = records.iter().map(|record| (record.spec.workload, record.status));
    let is_written = |path: &str| resolved.is_written(path);
    let planned = report::Planned { scenario, topology, is_written: &is_written };
    summary.warnings.extend(report::unstarted(planned, of_workloads, outcome.stopped));
    summary.warnings.extend(lost);
    if report::may_polarize(scenario, records.len()) {
        summary.warnings.extend(report::polarized(&shared, topology));
    }
    let rows = if scenario.record.flows { &records[..] } else { &[] };
    let workloads: Vec<String> = scenario.workload.iter().map(|workload| workload.name.clone()).collect();
    let names = Names { topology, workloads: &workloads, transports: &[] };
    let flows = tables::flows_of_records(rows, &names).batch();
    let links = tables::links(&names, &outcome.paths, &summary::utilisation(topology, &outcome)).batch();
    Ok(FlowResults { summary, flows, links })
}
