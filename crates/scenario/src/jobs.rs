//! What came of the applications of a run, beside their references: the ideal network, and the same network alone.

use crate::build::{Built, build_only};
use crate::faults;
use crate::spec::{ApplicationSpec, Scenario, WorkloadKind};
use pauseframe_apps::ideal::{self, IdealNetwork, Sharing};
use pauseframe_apps::{Fault, Job, RankReport, Totals};
use pauseframe_engine::{Control, Limits};
use pauseframe_fabric::Network;
use pauseframe_results::{JobResult, JobTimeline, RankResult};
use pauseframe_schema::panics::shield;
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, Span, Time};
use pauseframe_workload::application::{ApplicationWorkload, options};
use std::sync::Arc;

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

/// The applications of a run that is over by `now`. Those that ask for it are run again, alone.
pub(crate) fn results(scenario: &Scenario, built: &Built, now: Time) -> Vec<JobResult> {
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
            ideal: reference(spec, job.hosts(), built),
            alone: if spec.alone { alone(scenario, index) } else { None },
            messages,
            bytes,
            connections: job.connections(),
            waits_for,
            ranks: job.replay().ranks().zip(job.hosts()).map(rank).collect(),
        })
    };
    specs(scenario).filter_map(result).collect()
}

/// A rank that is not through still does something.
fn totals(report: &RankReport, now: Time) -> Totals {
    let mut totals = report.totals;
    if let Some(last) = report.last {
        totals.add(last.until(now));
    }
    totals
}

/// The same application on ideal hardware: the NICs of the hosts at their rate, and the latency of links and switches
/// from the first rank to the farthest.
fn reference(spec: &ApplicationSpec, hosts: &[u32], built: &Built) -> Option<Span> {
    let topology: &Topology = &built.topology;
    let first = NodeId(*hosts.first()?);
    let latency = hosts.iter().filter(|&&host| host != first.0);
    let latency = latency.map(|&host| built.ideal.wire_latency(first, NodeId(host))).max();
    let rate = |&host: &u32| topology.channel(topology.nodes()[NodeId(host)].ports[0]).rate;
    let network = IdealNetwork {
        latency: latency.unwrap_or_default(),
        rate: hosts.iter().map(rate).min()?,
        sharing: Sharing::Nics,
    };
    let application = Arc::clone(&spec.application.0);
    let replay =
        ideal::run(application, pauseframe_apps::Options { timeline: false, ..options(spec) }, network);
    replay.ok()?.finish().map(|end| end - Time::ZERO)
}

/// How long the application takes when nothing else happens; its ranks are where they were.
fn alone(scenario: &Scenario, index: usize) -> Option<Span> {
    let mut built = build_only(scenario, Some(index)).ok()?;
    let topology = Arc::clone(&built.topology);
    faults::install(scenario, &topology, &mut built.network);
    let time = scenario.stop.time.map_or(Time::MAX, |stop| Time::ZERO + stop);
    let limits = Limits { time, watch_every: u64::MAX };
    built.network.run(limits, shield, |_, _| Control::Continue).ok()?;
    let job = job(&built.network, index)?;
    job.replay().finish().map(|finish| finish - job.start())
}

/// What a person should know about applications that did not come to their end, or broke a rule.
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
        } else if job.replay().unreceived() > 0 {
            let count = job.replay().unreceived();
            warnings.push(format!("workload {name}: {count} messages came that nobody receives"));
        }
    }
    warnings
}

/// The time lines of all applications that keep one, up to `now`.
pub(crate) fn timelines<'a>(scenario: &'a Scenario, network: &'a Network, now: Time) -> Vec<JobTimeline<'a>> {
    let timeline = |(index, spec): (usize, &'a ApplicationSpec)| {
        let ranks = job(network, index)?.replay().ranks();
        let ranks = ranks.map(|report| (report.stretches, report.last.map(|last| last.until(now)))).collect();
        Some(JobTimeline { workload: index as u16, application: &spec.application.0, ranks })
    };
    specs(scenario).filter(|(_, spec)| spec.timeline).filter_map(timeline).collect()
}
