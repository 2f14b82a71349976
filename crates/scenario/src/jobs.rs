//! The applications of a run and their reference times: on ideal hardware, computed before the run, and alone
//! in the same network, computed after the run.

use crate::build::{Built, build_only};
use crate::faults;
use crate::run::WATCH_EVERY;
use crate::spec::{ApplicationSpec, Scenario, WorkloadKind};
use pauseframe_apps::ideal::{self, IdealNetwork, ReplayError, Sharing};
use pauseframe_apps::{Application, Fault, Job, RankReport, Totals};
use pauseframe_engine::{RunControl, RunLimits};
use pauseframe_fabric::Network;
use pauseframe_results::{JobResult, JobTimeline, RankResult};
use pauseframe_schema::error::Problem;
use pauseframe_schema::panics::shield;
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, Span, Time};
use pauseframe_workload::application::{ApplicationWorkload, options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Run times of applications on ideal hardware, by index of the workload.
pub(crate) type References = BTreeMap<usize, Span>;

/// Maximum number of ranks that the error about a refused trace lists.
const TOLD: usize = 10;

fn specs(scenario: &Scenario) -> impl Iterator<Item = (usize, &ApplicationSpec)> {
    scenario.workload.iter().enumerate().filter_map(|(index, workload)| match &workload.kind {
        WorkloadKind::Application(spec) => Some((index, spec)),
        _ => None,
    })
}

fn job(network: &Network, index: usize) -> Option<&Job> {
    let workload = network.workload(index).as_any()?.downcast_ref::<ApplicationWorkload>()?;
    Some(&workload.job)
}

/// Computes the run time of each application on ideal hardware, by workload. A trace that cannot finish on
/// ideal hardware finishes on no network, so it is refused before the run. A trace with wildcard receives is
/// accepted, because messages may match differently on another network.
///
/// # Errors
/// File, line and awaited messages of the first application that cannot finish or violates the rules of MPI.
pub(crate) fn references(
    scenario: &Scenario,
    built: &Built,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<References, Box<Problem>> {
    let mut references = References::new();
    for (index, spec) in specs(scenario) {
        let Some(hosts) = job(&built.network, index).map(Job::hosts) else { continue };
        let Some(network) = ideal_hardware(hosts, built) else { continue };
        let mut known: BTreeMap<(u32, u32), Span> = BTreeMap::new();
        let mut way = |from: u32, to: u32| {
            let [from, to] = [from, to].map(|rank| hosts[rank as usize]);
            *known.entry((from, to)).or_insert_with(|| built.ideal.wire_latency(NodeId(from), NodeId(to)))
        };
        let application = Arc::clone(&spec.application.0);
        let options = pauseframe_apps::Options { timeline: false, ..options(spec) };
        match ideal::run_watched(application, options, network, &mut way, go_on) {
            Ok(replay) => {
                references.extend(replay.finish().map(|end| (index, end - Time::ZERO)));
            }
            Err(ReplayError::Stopped) => break,
            Err(_) if spec.application.0.has_wildcards() => {}
            Err(error) => return Err(Box::new(refusal(scenario, index, &spec.application.0, &error))),
        }
    }
    Ok(references)
}

/// The error about a refused trace: the unfinished ranks, up to `TOLD` of them.
fn refusal(scenario: &Scenario, index: usize, application: &Application, error: &ReplayError) -> Problem {
    let faults = error.faults();
    let mut told: Vec<String> = faults.iter().take(TOLD).map(|fault| application.describe(fault)).collect();
    if faults.len() > TOLD {
        told.push(format!("and {} ranks more", faults.len() - TOLD));
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

/// Results of the applications at the end of the run, `now`. Applications with `alone = true` are simulated
/// once more without other workloads, as long as `go_on` returns true.
pub(crate) fn results(
    scenario: &Scenario,
    built: &Built,
    now: Time,
    references: &References,
    go_on: &mut dyn FnMut() -> bool,
) -> Vec<JobResult> {
    let result = |(index, spec): (usize, &ApplicationSpec)| {
        let job = job(&built.network, index)?;
        let (messages, bytes) = job.sent();
        let rank = |(report, &host): (RankReport, &u32)| RankResult {
            host,
            finished: report.finished,
            totals: totals(&report, now),
        };
        let waits_for = if job.replay().is_finished() { Vec::new() } else { job.replay().stuck() };
        Some(JobResult {
            workload: index as u16,
            application: Arc::clone(job.replay().application()),
            start: job.start(),
            finish: job.replay().finish(),
            ideal: references.get(&index).copied(),
            alone: if spec.alone { alone(scenario, built, index, go_on) } else { None },
            messages,
            bytes,
            connections: job.connections(),
            waits_for,
            ranks: job.replay().ranks().zip(job.hosts()).map(rank).collect(),
        })
    };
    specs(scenario).filter_map(result).collect()
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
fn ideal_hardware(hosts: &[u32], built: &Built) -> Option<IdealNetwork> {
    let topology: &Topology = &built.topology;
    let rate = |&host: &u32| topology.channel(topology.nodes()[NodeId(host)].ports[0]).rate;
    Some(IdealNetwork { latency: Span::ZERO, rate: hosts.iter().map(rate).min()?, sharing: Sharing::Nics })
}

/// Run time of the application without any other traffic, with its ranks on the same hosts; `None` if the
/// simulation was stopped.
fn alone(scenario: &Scenario, like: &Built, index: usize, go_on: &mut dyn FnMut() -> bool) -> Option<Span> {
    if !go_on() {
        return None;
    }
    let mut built = build_only(scenario, like, index).ok()?;
    let topology = Arc::clone(&built.topology);
    faults::install(scenario, &topology, &mut built.network);
    let time = scenario.stop.time.map_or(Time::MAX, |stop| Time::ZERO + stop);
    let limits = RunLimits { time, watch_every: WATCH_EVERY };
    let watch = |_: &mut Network, _| if go_on() { RunControl::Continue } else { RunControl::Stop };
    built.network.run(limits, shield, watch).ok()?;
    let job = job(&built.network, index)?;
    job.replay().finish().map(|finish| finish - job.start())
}

/// Warnings about applications that did not finish or violated a rule of MPI.
pub(crate) fn warnings(scenario: &Scenario, built: &Built) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, _) in specs(scenario) {
        let Some(job) = job(&built.network, index) else { continue };
        let name = &scenario.workload[index].name;
        let faults: Vec<&Fault> = job.replay().faults().collect();
        if let Some(fault) = faults.first() {
            warnings.push(format!("workload {name}: {fault} ({} such faults)", faults.len()));
        }
        let stuck = job.replay().stuck();
        if let Some(fault) = stuck.first() {
            let (count, all) = (stuck.len(), job.hosts().len());
            warnings.push(format!("workload {name}: {count} of {all} ranks did not finish; {fault}"));
        } else if let Some(left) = job.replay().unreceived().first() {
            warnings.push(format!("workload {name}: messages came that nobody receives; {left}"));
        }
    }
    warnings
}

/// The activities over time, until `now`, of all applications that record them.
pub(crate) fn timelines<'a>(scenario: &'a Scenario, network: &'a Network, now: Time) -> Vec<JobTimeline<'a>> {
    let timeline = |(index, spec): (usize, &'a ApplicationSpec)| {
        let ranks = job(network, index)?.replay().ranks();
        let ranks = ranks.map(|report| (report.stretches, report.last.map(|last| last.until(now)))).collect();
        Some(JobTimeline { workload: index as u16, application: &spec.application.0, ranks })
    };
    specs(scenario).filter(|(_, spec)| spec.timeline).filter_map(timeline).collect()
}
