//! The summary of a flow-level run, which `--json` prints and the manifest stores.

use super::source::Record;
use super::{Demand, Steady};
use crate::resolve::Resolved;
use pauseframe_fabric::FlowStatus;
use pauseframe_flowlevel::{Bounds, Outcome};
use pauseframe_results::{CompletionTimes, RunStatus, Slowdowns, VERSION, peak_rss_bytes, percentile};
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, PortId};
use serde::Serialize;

/// Statistics of rates in bits per second; null without flows.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RateStatistics {
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub p1: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

impl RateStatistics {
    /// Computes the statistics of the given rates.
    pub fn of(rates: &[f64]) -> RateStatistics {
        let mut sorted = rates.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mean = (!sorted.is_empty()).then(|| sorted.iter().sum::<f64>() / sorted.len() as f64);
        let [min, p1, p50, p99, max] = [0.0, 0.01, 0.5, 0.99, 1.0].map(|p| percentile(&sorted, p));
        RateStatistics { mean, min, p1, p50, p99, max }
    }
}

/// Utilisation of the links between switches, over both directions of each link.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct LinkUse {
    /// Mean utilisation.
    pub mean: Option<f64>,
    /// Utilisation of the fullest link.
    pub max: Option<f64>,
}

/// Bounds on the rate that any routing could give every pair of a static demand at once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BoundSummary {
    /// A rate that some routing achieves, in bits per second.
    pub lower_bps: f64,
    /// A rate that no routing exceeds, in bits per second.
    pub upper_bps: f64,
    /// Upper bound divided by lower bound, minus 1.
    pub gap: f64,
    /// Smallest rate of this run divided by the upper bound.
    pub min_rate_over_upper: f64,
}

/// The summary of a flow-level run; docs/reference/flow-level.md defines each field.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/reference/flow-level.md")]
pub struct FlowSummary {
    pub name: String,
    pub seed: u64,
    pub version: String,
    /// "workloads", or the name of the static demand.
    pub demand: String,
    pub flows_total: u64,
    pub flows_finished: u64,
    pub flows_long: u64,
    pub flows_stopped: u64,
    /// Delivered bits per second, divided by the number of hosts.
    pub throughput_bps: f64,
    pub rate_bps: RateStatistics,
    pub fct_us: CompletionTimes,
    pub slowdown: Slowdowns,
    /// Mean number of links between switches on a path.
    pub hops_mean: Option<f64>,
    pub fabric_utilisation: LinkUse,
    pub bound: Option<BoundSummary>,
    pub sim_time_s: f64,
    pub wall_s: f64,
    pub peak_rss_bytes: Option<u64>,
    pub status: RunStatus,
    pub warnings: Vec<String>,
    pub out: Option<String>,
}

impl FlowSummary {
    fn blank(resolved: &Resolved, demand: String, flows: usize) -> FlowSummary {
        FlowSummary {
            name: resolved.scenario.name.clone(),
            seed: resolved.scenario.seed,
            version: VERSION.into(),
            demand,
            flows_total: flows as u64,
            flows_finished: 0,
            flows_long: 0,
            flows_stopped: 0,
            throughput_bps: 0.0,
            rate_bps: RateStatistics::default(),
            fct_us: CompletionTimes::default(),
            slowdown: Slowdowns::default(),
            hops_mean: None,
            fabric_utilisation: LinkUse::default(),
            bound: None,
            sim_time_s: 0.0,
            wall_s: 0.0,
            peak_rss_bytes: peak_rss_bytes(),
            status: RunStatus::Complete,
            warnings: resolved.warnings.clone(),
            out: None,
        }
    }

    pub(super) fn of_steady(
        resolved: &Resolved,
        demand: Demand,
        steady: &Steady,
        topology: &Topology,
    ) -> FlowSummary {
        let hops = steady.paths.iter().map(|path| path.len().saturating_sub(2) as f64);
        let smallest = steady.report.rates.iter().copied().fold(f64::INFINITY, f64::min);
        FlowSummary {
            throughput_bps: steady.report.throughput,
            rate_bps: RateStatistics::of(&steady.report.rates),
            hops_mean: mean(&hops.collect::<Vec<_>>()),
            fabric_utilisation: fabric_use(topology, &steady.report.utilisation),
            bound: steady.bounds.map(|bounds| BoundSummary::of(bounds, smallest)),
            ..FlowSummary::blank(resolved, demand.to_string(), steady.pairs.len())
        }
    }

    pub(super) fn of_records(
        resolved: &Resolved,
        records: &[Record],
        outcome: &Outcome,
        topology: &Topology,
    ) -> FlowSummary {
        let is_long = |record: &&Record| record.spec.size == u64::MAX;
        let finished =
            || records.iter().filter(|record| record.status == FlowStatus::Finished && !is_long(record));
        let mut slowdowns: Vec<f64> = finished().filter_map(Record::slowdown).collect();
        slowdowns.sort_unstable_by(f64::total_cmp);
        let delivered: f64 = records.iter().map(|record| record.delivered).sum();
        let hosts = topology.hosts().count().max(1) as f64;
        let rates: Vec<f64> = records.iter().filter_map(Record::rate).collect();
        let hops: Vec<f64> = records.iter().map(|record| f64::from(record.hops)).collect();
        let utilisation = utilisation(topology, outcome);
        let status = if outcome.stopped { RunStatus::Interrupted } else { RunStatus::Complete };
        FlowSummary {
            flows_finished: finished().count() as u64,
            flows_long: records.iter().filter(is_long).count() as u64,
            flows_stopped: records
                .iter()
                .filter(|record| record.status == FlowStatus::Stopped && !is_long(record))
                .count() as u64,
            throughput_bps: if outcome.end > 0.0 { delivered * 8.0 / outcome.end / hosts } else { 0.0 },
            rate_bps: RateStatistics::of(&rates),
            fct_us: CompletionTimes::of(finished().map(|record| record.time() * 1e6).collect()),
            slowdown: Slowdowns { p50: percentile(&slowdowns, 0.5), p99: percentile(&slowdowns, 0.99) },
            hops_mean: mean(&hops),
            fabric_utilisation: fabric_use(topology, &utilisation),
            sim_time_s: outcome.end,
            status,
            ..FlowSummary::blank(resolved, "workloads".into(), records.len())
        }
    }
}

impl BoundSummary {
    fn of(Bounds { lower, upper, .. }: Bounds, smallest: f64) -> BoundSummary {
        BoundSummary {
            lower_bps: lower,
            upper_bps: upper,
            gap: upper / lower - 1.0,
            min_rate_over_upper: smallest / upper,
        }
    }
}

impl Record {
    /// Seconds since the start of the flow.
    pub(super) fn time(&self) -> f64 {
        (self.end - self.spec.start.as_secs_f64()).max(0.0)
    }

    /// Completion time divided by the completion time in the idle network.
    pub(super) fn slowdown(&self) -> Option<f64> {
        (self.ideal > 0.0 && self.status == FlowStatus::Finished).then(|| self.time() / self.ideal)
    }

    /// Mean rate of the flow in bits per second, over its lifetime.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.time() > 0.0).then(|| self.delivered * 8.0 / self.time())
    }
}

/// For each port, the share of the run in which the port was sending.
pub(super) fn utilisation(topology: &Topology, outcome: &Outcome) -> Vec<f64> {
    let mut bits = vec![0.0; topology.port_count()];
    for (flow, path) in outcome.paths.iter().enumerate() {
        let sent = outcome.sizes[flow].0 as f64 * 8.0 - outcome.left[flow];
        for port in path {
            bits[port.0 as usize] += sent;
        }
    }
    let part = |(port, bits): (usize, f64)| {
        let rate = topology.channel(PortId(port as u32)).rate.0 as f64;
        if outcome.end > 0.0 { bits / rate / outcome.end } else { 0.0 }
    };
    bits.into_iter().enumerate().map(part).collect()
}

fn fabric_use(topology: &Topology, utilisation: &[f64]) -> LinkUse {
    let is_fabric = |link: LinkId| {
        let ends = topology.links()[link].ends;
        ends.iter().all(|end| topology.nodes()[*end].kind == pauseframe_topology::NodeKind::Switch)
    };
    let ports = (0..utilisation.len()).filter(|port| is_fabric(PortId(*port as u32).link()));
    let used: Vec<f64> = ports.map(|port| utilisation[port]).collect();
    LinkUse { mean: mean(&used), max: used.iter().copied().reduce(f64::max) }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
