//! Second stage of a run: builds an idle network from a resolved scenario, with faults installed and divided among
//! threads, and computes the ideal run times of its applications.

mod faults;
mod settings;
mod threads;
mod transports;

pub(crate) use settings::{assigned, overhead, settings};
pub(crate) use threads::ThreadChoice;
pub(crate) use transports::all_transports;

use crate::jobs::Jobs;
use crate::resolve::Resolved;
use crate::run::RunOptions;
use crate::spec::remember::hindrance;
use crate::spec::{Scenario, WorkloadSpec};
use pauseframe_fabric::{IdealFctCalculator, Network, Settings};
use pauseframe_results::RunError;
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_workload::{self as workload, QueryNumbers, WorkloadContext};
use std::sync::Arc;

/// Everything but the network that a scenario determines, shared by all networks that are built from it.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The topology, for names of nodes and ports.
    pub(crate) topology: Arc<Topology>,
    routes: Arc<NextHops>,
    /// The settings of the network.
    pub(crate) settings: Arc<Settings>,
    /// Ideal completion times in the idle network.
    pub(crate) ideal: IdealFctCalculator,
    /// Names of the transports by index: "default", then the names in `[transports]`, then that of each datagram workload.
    pub(crate) transports: Vec<String>,
}

/// A network that is ready to run.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) parts: Parts,
    pub(crate) network: Network,
    pub(crate) jobs: Jobs,
    pub(crate) threads: ThreadChoice,
}

/// Builds the network of a scenario on the topology graph that `resolve` checked.
///
/// # Errors
/// If an application cannot finish on ideal hardware. `resolve` refuses hosts that cannot reach each other.
pub(crate) fn build(
    resolved: &Resolved,
    options: &RunOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Built, RunError> {
    let scenario = &resolved.scenario;
    let parts = Parts::of(resolved).map_err(RunError::Build)?;
    let mut network = parts.idle_network(scenario, None).map_err(RunError::Build)?;
    let threads = threads::divide(scenario, &mut network, options);
    faults::install(scenario, &parts.topology, &mut network);
    let memory = scenario.remember.memory_settings(scenario.seed);
    if let Some(memory) = memory.filter(|_| hindrance(scenario, &parts.settings).is_none()) {
        network.remember_steps(memory);
    }
    let jobs = Jobs::on_ideal_hardware(scenario, &network, &parts, go_on).map_err(RunError::Refused)?;
    Ok(Built { parts, network, jobs, threads })
}

impl Parts {
    fn of(resolved: &Resolved) -> Result<Parts, String> {
        let (scenario, topology) = (&resolved.scenario, Arc::clone(resolved.topology()));
        let mut settings = settings(scenario, &topology, all_transports(scenario));
        let peer_links = settings.mlag.as_ref().map_or(&[][..], |mlag| &mlag.peer_links);
        let routes = NextHops::shortest_with_last_resort(&topology, peer_links);
        let routes = Arc::new(routes.map_err(|error| error.to_string())?);
        transports::fit_to_network(scenario, &mut settings, &topology, &routes);
        let settings = Arc::new(settings);
        let ideal =
            IdealFctCalculator::new(Arc::clone(&topology), Arc::clone(&routes), Arc::clone(&settings));
        let named = scenario.transports.iter().map(|(name, _)| name.clone());
        let of_datagrams = transports::udp_workloads(scenario).map(|(spec, _)| spec.transport.clone());
        let transports = std::iter::once("default".to_owned()).chain(named).chain(of_datagrams).collect();
        Ok(Parts { topology, routes, settings, ideal, transports })
    }

    /// An idle network in which only the workload `only` is active; the others keep their indices but start no flow.
    fn idle_network(&self, scenario: &Scenario, only: Option<usize>) -> Result<Network, String> {
        let applications = scenario.workload.iter().map(|workload| workload.kind.application());
        let gpus = scenario.topology.gpus_per_server();
        let placed = workload::application::place(applications, &self.topology, gpus, scenario.seed);
        let placed =
            placed.map_err(|(index, reason)| format!("{}: {reason}", scenario.workload[index].name))?;
        let ideal = self.ideal.clone();
        let context = WorkloadContext {
            topology: &self.topology,
            placed,
            seed: scenario.seed,
            ideal_of_query: Arc::new(move |flows| ideal.query_completion_time(flows)),
            query_numbers: QueryNumbers::default(),
            scale_up: self.settings.scale_up.clone(),
            overhead: self.settings.overhead,
            queue_pairs: self
                .settings
                .transports
                .iter()
                .map(|transport| transport.rdma().is_some())
                .collect(),
            opens_ahead: true,
            reaction: self.settings.reaction,
        };
        let workloads = scenario.workload.iter().enumerate().map(|(index, spec)| {
            if only.is_some_and(|only| only != index) {
                return workload::nothing();
            }
            workload::build(spec, index as u16, self.transport_of(spec, scenario), &context)
        });
        Ok(Network::new(
            Arc::clone(&self.topology),
            Arc::clone(&self.routes),
            Arc::clone(&self.settings),
            workloads.collect(),
            scenario.stop.when_finished,
        ))
    }

    /// The index of a workload's transport.
    fn transport_of(&self, spec: &WorkloadSpec, scenario: &Scenario) -> u16 {
        let source = transports::udp_workloads(scenario).position(|(source, _)| source.name == spec.name);
        let named = || self.transports.iter().position(|name| *name == spec.transport).unwrap_or(0);
        source.map_or_else(named, |source| scenario.transport_specs().count() + source) as u16
    }

    /// A network like that of the run, with one workload only.
    pub(crate) fn network_of(&self, scenario: &Scenario, only: usize) -> Result<Network, String> {
        let mut network = self.idle_network(scenario, Some(only))?;
        faults::install(scenario, &self.topology, &mut network);
        Ok(network)
    }
}
