//! The applications of a run and their reference times: on ideal hardware, computed when the network is built, and
//! alone in the same network, computed after the run.

use crate::build::Parts;
use crate::run::WATCH_EVERY;
use crate::spec::{ApplicationSpec, Scenario};
use pauseframe_apps::ideal::{self, IdealNetwork, Places, ReplayError, Sharing};
use pauseframe_apps::{Application, Fault, Job, RankReport, Totals};
use pauseframe_engine::{RunCallbackDecision, RunLimits};
use pauseframe_fabric::Network;
use pauseframe_results::{JobResult, JobTimeline, RankResult};
use pauseframe_schema::error::Problem;
use pauseframe_schema::panics::shield;
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, Span, Time, counted};
use pauseframe_workload::application::{ApplicationWorkload, options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of ranks that the error about a refused trace lists.
const TOLD: usize = 10;

/// Reference run times of the applications, by index of the workload.
#[derive(Debug)]
pub(crate) struct Jobs {
    ideal: BTreeMap<usize, Span>,
    alone: BTreeMap<usize, Span>,
}

/// The applications at the end of a run.
pub(crate) struct JobReport<'a> {
    pub(crate) results: Vec<JobResult>,
    pub(crate) timelines: Vec<JobTimeline<'a>>,
    /// Applications that did not finish or violated a rule of MPI.
    pub(crate) warnings: Vec<String>,
}

fn specs(scenario: &Scenario) -> impl Iterator<Item = (usize, &ApplicationSpec)> {
    let workloads = scenario.workload.iter().enumerate();
    workloads.filter_map(|(index, workload)| Some((index, workload.kind.application()?)))
}

fn job(network: &Network, index: usize) -> Option<&Job> {
    let workload = network.workload(index).as_any()?.downcast_ref::<ApplicationWorkload>()?;
    Some(&workload.job)
}

impl Jobs {
    /// Computes the run time of each application on ideal hardware. A trace that cannot finish there finishes on no
    /// network, so it is refused before the run. A trace with wildcard receives is accepted, because messages may
    /// match differently on another network.
    ///
    /// # Errors
    /// File, line and awaited messages of the first application that cannot finish or violates the rules of MPI.
    pub(crate) fn on_ideal_hardware(
        scenario: &Scenario,
        network: &Network,
        parts: &Parts,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Jobs, Box<Problem>> {
        let mut times = BTreeMap::new();
        for (index, spec) in specs(scenario) {
            let Some(hosts) = job(network, index).map(Job::hosts) else { continue };
            let Some(hardware) = ideal_hardware(hosts, parts) else { continue };
            let mut known: BTreeMap<(u32, u32), Span> = BTreeMap::new();
            let mut way = |from: u32, to: u32| {
                let [from, to] = [from, to].map(|rank| hosts[rank as usize]);
                *known
                    .entry((from, to))
                    .or_insert_with(|| parts.ideal.network_latency(NodeId(from), NodeId(to)))
            };
            let application = Arc::clone(&spec.application.0);
            let options = pauseframe_apps::Options { timeline: false, ..options(spec, [1.0; 2]) };
            // Ideal hardware has no servers, and no channels that share a NIC.
            if options.nccl.is_some() {
                continue;
            }
            let is_flat = parts.settings.scale_up.is_none();
            let places = Places { hosts, way: &mut way };
            match ideal::run_watched(application, options, hardware, places, go_on) {
                Ok(_) if !is_flat => {}
                Ok(replay) => times.extend(replay.finish().map(|end| (index, end - Time::ZERO))),
                Err(ReplayError::Stopped) => break,
                Err(_) if spec.application.0.has_wildcards() => {}
                Err(error) => return Err(Box::new(refusal(scenario, index, &spec.application.0, &error))),
            }
        }
        Ok(Jobs { ideal: times, alone: BTreeMap::new() })
    }

    /// Simulates each application with `alone = true` once more, without any other traffic and with its ranks on the
    /// same hosts, as long as `go_on` returns true.
    pub(crate) fn run_alone(&mut self, scenario: &Scenario, parts: &Parts, go_on: &mut dyn FnMut() -> bool) {
        for (index, _) in specs(scenario).filter(|(_, spec)| spec.alone) {
            self.alone.extend(alone(scenario, parts, index, go_on).map(|time| (index, time)));
        }
    }

    /// What became of the applications by `now`, the end of the run.
    pub(crate) fn report<'a>(
        &self,
        scenario: &'a Scenario,
        network: &'a Network,
        now: Time,
    ) -> JobReport<'a> {
        let result = |(index, _)| self.result(network, now, index);
        JobReport {
            results: specs(scenario).filter_map(result).collect(),
            timelines: timelines(scenario, network, now),
            warnings: warnings(scenario, network),
        }
    }

    fn result(&self, network: &Network, now: Time, index: usize) -> Option<JobResult> {
        let job = job(network, index)?;
        let (messages, bytes) = job.sent();
        let rank = |(report, &host): (RankReport, &u32)| RankResult {
            host,
            finished: report.finished,
            totals: totals(&report, now),
            iterations: report.iterations.to_vec(),
        };
        let workers = job.replay().application().workers() as usize;
        let waits_for = if job.replay().is_finished() { Vec::new() } else { job.replay().stuck() };
        Some(JobResult {
            workload: index as u16,
            application: Arc::clone(job.replay().application()),
            start: job.start(),
            finish: job.replay().finish(),
            ideal: self.ideal.get(&index).copied(),
            alone: self.alone.get(&index).copied(),
            messages,
            bytes,
            connections: job.connections(),
            waits_for,
            ranks: job.replay().ranks().take(workers).zip(job.hosts()).map(rank).collect(),
            calls: job.replay().calls().collect(),
        })
    }
}

/// `None` if the simulation was stopped.
fn alone(scenario: &Scenario, parts: &Parts, index: usize, go_on: &mut dyn FnMut() -> bool) -> Option<Span> {
    if !go_on() {
        return None;
    }
    let mut network = parts.network_of(scenario, index).ok()?;
    let time = scenario.stop.time.map_or(Time::MAX, |stop| Time::ZERO + stop);
    let limits = RunLimits { time, watch_every: WATCH_EVERY };
    let watch =
        |_: &mut Network, _| if go_on() { RunCallbackDecision::Continue } else { RunCallbackDecision::Stop };
    network.run(limits, shield, watch).ok()?;
    let job = job(&network, index)?;
    job.replay().finish().map(|finish| finish - job.start())
}

/// The error about a refused trace: the unfinished ranks, up to `TOLD` of them.
fn refusal(scenario: &Scenario, index: usize, application: &Application, error: &ReplayError) -> Problem {
    let faults = error.faults();
    let mut told: Vec<String> = faults.iter().take(TOLD).map(|fault| application.describe(fault)).collect();
    if faults.len() > TOLD {
        told.push(format!("and {} more", counted(faults.len() - TOLD, "rank")));
    }
    let said = match error {
        ReplayError::Stuck { stuck, ranks, .. } => {
            format!("cannot finish: {} of {ranks} ranks wait for ever: ", stuck.len())
        }
        ReplayError::Faults { .. } | ReplayError::Unreceived { .. } => "breaks the rules of MPI: ".to_owned(),
        ReplayError::TooLong { .. } | ReplayError::Stopped => error.to_string(),
    };
    Problem {
        path: format!("workload.{index}"),
        place: scenario.workload[index].name.clone(),
        line: None,
        value: String::new(),
        message: said + &told.join("; "),
        hint: String::new(),
    }
}

/// Time by activity of a rank up to `now`; an unfinished rank still has a current activity.
fn totals(report: &RankReport, now: Time) -> Totals {
    let mut totals = report.totals;
    if let Some(last) = report.last {
        totals.add(last.until(now));
    }
    totals
}

/// Ideal hardware: the hosts' NICs at full rate; each pair of hosts has the latency of its links and
/// switches.
fn ideal_hardware(hosts: &[u32], parts: &Parts) -> Option<IdealNetwork> {
    let topology: &Topology = &parts.topology;
    let further = topology.ports_of_hosts();
    let rate = |&host: &u32| {
        let own = [NodeId(host)];
        let ports = further.get(&own[0]).map_or(own.as_slice(), Vec::as_slice).iter();
        pauseframe_units::BitRate(
            ports.map(|port| topology.channel(topology.nodes()[*port].ports[0]).rate.0).sum(),
        )
    };
    Some(IdealNetwork { latency: Span::ZERO, rate: hosts.iter().map(rate).min()?, sharing: Sharing::Nics })
}

/// Warnings about applications that did not finish or violated a rule of MPI.
fn warnings(scenario: &Scenario, network: &Network) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, spec) in specs(scenario) {
        // An application that begins after the end of the run has its warning already.
        let begins = |end: Span| spec.start < end;
        let Some(job) = job(network, index).filter(|_| scenario.stop.time.is_none_or(begins)) else {
            continue;
        };
        let name = &scenario.workload[index].name;
        let faults: Vec<&Fault> = job.replay().faults().collect();
        if let Some(fault) = faults.first() {
            warnings.push(format!("workload {name}: {fault} ({})", counted(faults.len(), "such fault")));
        }
        let stuck = job.replay().stuck();
        if let Some(fault) = stuck.first() {
            let all = job.replay().application().workers();
            let count = stuck.iter().filter(|fault| fault.rank < all).count();
            warnings.push(format!("workload {name}: {count} of {all} ranks did not finish; {fault}"));
        } else if let Some(left) = job.replay().unreceived().first() {
            warnings.push(format!("workload {name}: messages came that nobody receives; {left}"));
        }
    }
    warnings
}

/// The activities over time, until `now`, of all applications that record them.
fn timelines<'a>(scenario: &'a Scenario, network: &'a Network, now: Time) -> Vec<JobTimeline<'a>> {
    let timeline = |(index, spec): (usize, &'a ApplicationSpec)| {
        let workers = spec.application.0.workers() as usize;
        let ranks = job(network, index)?.replay().ranks().take(workers);
        let ranks = ranks.map(|report| (report.stretches, report.last.map(|last| last.until(now)))).collect();
        let (workload, application) = (index as u16, &*spec.application.0);
        Some(JobTimeline { workload, application, storage: &spec.storage, ranks })
    };
    specs(scenario).filter(|(_, spec)| spec.timeline).filter_map(timeline).collect()
}
