//! The summary of a run, which `--json` prints and the manifest stores.

use super::VERSION;
use super::rows::DropsByReason;
use super::tables::{completion_time, flow_slowdown, query_time};
use pauseframe_fabric::{
    FlowRecord, FlowRecords, FlowStatus, PortPriorityReport, QueryRecord, StepMemoryReport,
};
use pauseframe_units::{Span, Time};
use serde::Serialize;
use std::path::PathBuf;

/// The state of a run: its kind of end, or that it has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run has not ended. If a folder has this status but its process is gone, the folder is partial.
    Running,
    /// The run reached the end that the scenario sets.
    Complete,
    /// A signal stopped the run; the folder holds the results until then.
    Interrupted,
    /// A deadlock ended the run before the end that the scenario sets.
    Deadlock,
}

/// Facts about a run that only the runner knows.
#[derive(Clone, PartialEq, Debug)]
pub struct RunFacts {
    /// Name of the scenario.
    pub name: String,
    /// Master seed.
    pub seed: u64,
    /// Fingerprint of the run: a sum over the hashes of all events.
    pub fingerprint: u64,
    /// Simulated time at which the run ended.
    pub sim_time: Time,
    /// Wall-clock time of the run in seconds.
    pub wall_s: f64,
    /// Number of threads of the run.
    pub threads: usize,
    /// Reason for the run's number of threads.
    pub threads_reason: String,
    /// Number of events handled.
    pub events: u64,
    /// Number of packet transmissions over links, ACKs included, pause frames not.
    pub packet_hops: u64,
    /// What the memory of steps did, if the scenario asks for one and nothing hinders it.
    pub memory: Option<StepMemoryReport>,
    /// Number of deadlocks found.
    pub deadlocks: u64,
    /// Number of SYNs among the packets dropped for not being ECN-capable.
    pub syn_drops_not_ect: u64,
    /// The switch with the largest buffer occupancy at any time, and that occupancy in bytes.
    pub fullest_switch: Option<(String, u64)>,
    /// The queue discipline of the hosts' NICs.
    pub nic_queue: &'static str,
    /// Time at which the series reached its row limit, so that later samples are missing; `None` if the
    /// series is complete.
    pub series_full: Option<Time>,
    /// The kind of end of the run.
    pub status: RunStatus,
    /// Findings that the user should check before trusting the results.
    pub warnings: Vec<String>,
    /// Path of the results folder.
    pub out: Option<PathBuf>,
}

/// Mean, percentiles and maximum in microseconds; null without values.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CompletionTimes {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<f64>,
}

impl CompletionTimes {
    /// Of times in microseconds.
    pub fn of(mut us: Vec<f64>) -> CompletionTimes {
        us.sort_unstable_by(f64::total_cmp);
        let mean = (!us.is_empty()).then(|| us.iter().sum::<f64>() / us.len() as f64);
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|p| percentile(&us, p));
        CompletionTimes { mean, p50, p99, p999, max: us.last().copied() }
    }
}

/// Percentiles; null without values.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Slowdowns {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// What the memory of steps did; docs/reference/results.md defines each field.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/reference/results.md")]
pub struct RememberedSteps {
    pub bound: f64,
    pub only_checked: bool,
    pub steps: u64,
    pub kinds: u64,
    pub not_kept: u64,
    pub replayed: u64,
    pub rounds: u64,
    pub replayed_hops: u64,
    pub replayed_share: f64,
    pub failed: u64,
    pub compared: u64,
    pub beyond_bound: u64,
    /// Null if no step was compared, or if reports were missing.
    pub largest_difference: Option<f64>,
    pub compared_hops: [u64; 2],
    pub compared_marks: [u64; 2],
    pub compared_pauses: [u64; 2],
}

impl RememberedSteps {
    fn new(memory: &StepMemoryReport, packet_hops: u64) -> RememberedSteps {
        let both = |place: usize| [memory.simulated[place], memory.remembered[place]];
        let is_known = memory.compared > 0 && memory.largest_difference.is_finite();
        RememberedSteps {
            bound: memory.settings.bound,
            only_checked: memory.settings.checks,
            steps: memory.steps,
            kinds: memory.kinds,
            not_kept: memory.not_kept,
            replayed: memory.replayed,
            rounds: memory.rounds,
            replayed_hops: memory.replayed_hops,
            replayed_share: if packet_hops == 0 {
                0.0
            } else {
                memory.replayed_hops as f64 / packet_hops as f64
            },
            failed: memory.failed,
            compared: memory.compared,
            beyond_bound: memory.beyond_bound,
            largest_difference: is_known.then_some(memory.largest_difference),
            compared_hops: both(0),
            compared_marks: both(1),
            compared_pauses: both(2),
        }
    }
}

/// The summary of a run; docs/reference/results.md defines each field.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/reference/results.md")]
pub struct Summary {
    pub name: String,
    pub seed: u64,
    pub version: String,
    pub fingerprint: String,
    pub sim_time_s: f64,
    pub wall_s: f64,
    pub threads: usize,
    pub threads_reason: String,
    pub events: u64,
    pub packet_hops: u64,
    pub packet_hops_per_s: f64,
    /// Null on systems that do not report the peak memory.
    pub peak_rss_bytes: Option<u64>,
    pub flows_total: u64,
    pub flows_finished: u64,
    pub flows_failed: u64,
    pub flows_long: u64,
    pub flows_stopped: u64,
    pub queries_total: u64,
    pub queries_finished: u64,
    pub drops: u64,
    pub drops_by_reason: DropsByReason,
    pub syn_drops_not_ect: u64,
    pub trims: u64,
    pub ecn_marks: u64,
    pub pfc_pauses: u64,
    pub watchdog_storms: u64,
    pub deadlocks: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    pub cnms: u64,
    /// Null if the network has no switch.
    pub fullest_switch: Option<String>,
    pub switch_held_max_bytes: u64,
    pub nic_queue: &'static str,
    /// Null if the series is complete.
    pub series_full_at_s: Option<f64>,
    pub datagrams_sent: u64,
    pub datagrams_lost: u64,
    pub fct_us: CompletionTimes,
    pub slowdown: Slowdowns,
    pub query_fct_us: CompletionTimes,
    /// Null without a memory of steps.
    pub remembered: Option<RememberedSteps>,
    pub status: RunStatus,
    pub warnings: Vec<String>,
    pub out: Option<String>,
}

impl Summary {
    /// Summarises a run: all flows, queries, ports and priorities, even those without recorded tables.
    pub fn new(
        facts: RunFacts,
        flows: &FlowRecords,
        queries: &[QueryRecord],
        ports: &[PortPriorityReport],
    ) -> Summary {
        let is_long = |flow: &FlowRecord| flow.spec.size == u64::MAX;
        let with_status = |status| flows.iter().filter(|flow| flow.status == status).count() as u64;
        let mut drops_by_reason = DropsByReason::default();
        for port in ports {
            drops_by_reason.add(port);
        }
        Summary {
            version: VERSION.into(),
            fingerprint: format!("{:016x}", facts.fingerprint),
            sim_time_s: facts.sim_time.as_secs_f64(),
            packet_hops_per_s: if facts.wall_s > 0.0 { facts.packet_hops as f64 / facts.wall_s } else { 0.0 },
            peak_rss_bytes: peak_rss_bytes(),
            flows_total: flows.len() as u64,
            flows_finished: with_status(FlowStatus::Finished),
            flows_failed: with_status(FlowStatus::Failed),
            flows_long: flows.iter().filter(is_long).count() as u64,
            flows_stopped: flows
                .iter()
                .filter(|flow| flow.status == FlowStatus::Stopped && !is_long(flow))
                .count() as u64,
            queries_total: queries.len() as u64,
            queries_finished: queries.iter().filter(|query| query.finish.is_some()).count() as u64,
            drops: drops_by_reason.total(),
            drops_by_reason,
            syn_drops_not_ect: facts.syn_drops_not_ect,
            trims: ports.iter().map(|port| port.trims).sum(),
            ecn_marks: ports.iter().map(|port| port.ecn_marks).sum(),
            pfc_pauses: ports.iter().map(|port| port.pauses_sent).sum(),
            watchdog_storms: ports.iter().map(|port| port.watchdog_storms).sum(),
            deadlocks: facts.deadlocks,
            retransmits: flows.iter().map(|flow| u64::from(flow.retransmits)).sum(),
            timeouts: flows.iter().map(|flow| u64::from(flow.timeouts)).sum(),
            cnms: ports.iter().map(|port| port.cnms_sent).sum(),
            switch_held_max_bytes: facts.fullest_switch.as_ref().map_or(0, |(_, bytes)| *bytes),
            fullest_switch: facts.fullest_switch.map(|(name, _)| name),
            nic_queue: facts.nic_queue,
            series_full_at_s: facts.series_full.map(Time::as_secs_f64),
            datagrams_sent: flows.iter().map(|flow| flow.datagrams.sent).sum(),
            datagrams_lost: flows.iter().map(|flow| flow.datagrams.lost).sum(),
            fct_us: CompletionTimes::of(us(flows.iter().filter_map(|flow| completion_time(&flow)))),
            slowdown: slowdowns(flows),
            query_fct_us: CompletionTimes::of(us(queries.iter().filter_map(query_time))),
            name: facts.name,
            seed: facts.seed,
            wall_s: facts.wall_s,
            threads: facts.threads,
            threads_reason: facts.threads_reason,
            events: facts.events,
            packet_hops: facts.packet_hops,
            remembered: facts.memory.map(|memory| RememberedSteps::new(&memory, facts.packet_hops)),
            status: facts.status,
            warnings: facts.warnings,
            out: facts.out.map(|path| path.display().to_string()),
        }
    }
}

fn us(times: impl Iterator<Item = Span>) -> Vec<f64> {
    times.map(Span::as_us_f64).collect()
}

fn slowdowns(flows: &FlowRecords) -> Slowdowns {
    let mut slowdowns: Vec<f64> = flows.iter().filter_map(|flow| flow_slowdown(&flow)).collect();
    slowdowns.sort_unstable_by(f64::total_cmp);
    let [p50, p99] = [0.5, 0.99].map(|p| percentile(&slowdowns, p));
    Slowdowns { p50, p99 }
}

/// The quantile `p` of ascending values, interpolated linearly between order statistics (Hyndman and Fan
/// 1996, type 7), in the arithmetic of `numpy.percentile`: the results are equal to the last bit.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let position = (sorted.len().checked_sub(1)?) as f64 * p;
    let low = sorted[position.floor() as usize];
    let high = sorted[position.ceil() as usize];
    let weight = position - position.floor();
    // Interpolates from the nearer end, so that the result is monotone in p.
    Some(if weight < 0.5 { low + (high - low) * weight } else { high - (high - low) * (1.0 - weight) })
}

/// The peak memory of this process, on systems that report it (Linux: `VmHWM` of proc(5)).
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::super::rows::idle_report;
    use super::*;
    use pauseframe_fabric::FlowSpec;
    use pauseframe_units::NodeId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn facts() -> RunFacts {
        RunFacts {
            name: "incast".into(),
            seed: 7,
            fingerprint: 0xabc,
            sim_time: Time::ZERO + Span::from_ms(5),
            wall_s: 0.5,
            threads: 1,
            threads_reason: String::new(),
            events: 10,
            packet_hops: 100,
            memory: Some(StepMemoryReport::default()),
            deadlocks: 1,
            syn_drops_not_ect: 2,
            fullest_switch: Some(("leaf0".into(), 1500)),
            nic_queue: "per_destination",
            series_full: None,
            status: RunStatus::Complete,
            warnings: vec!["look".into()],
            out: Some("out".into()),
        }
    }

    fn flow(us: u64, status: FlowStatus) -> FlowRecord {
        let spec = FlowSpec::new(NodeId(0), NodeId(1), 1000);
        let end = Time::ZERO + Span::from_us(us);
        FlowRecord {
            status,
            delivered: 1000,
            retransmits: 1,
            timeouts: 2,
            ..FlowRecord::new(spec, Span::from_us(2), end)
        }
    }

    #[test]
    fn percentiles_are_those_of_numpy() {
        // Expected values of numpy.percentile([1, 2, 4, 8.5, 100], [0, 10, 50, 90, 99, 100]), NumPy 2.4.
        let values = [1.0, 2.0, 4.0, 8.5, 100.0];
        let found = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0].map(|p| percentile(&values, p).unwrap());
        assert_eq!(found, [1.0, 1.4, 4.0, 63.400_000_000_000_006, 96.34, 100.0]);
        assert_eq!(percentile(&[3.0], 0.99), Some(3.0));
        assert_eq!(percentile(&[], 0.5), None);
        let times = CompletionTimes::of(vec![4.0, 100.0, 1.0, 8.5, 2.0]);
        assert_eq!([times.mean, times.p50, times.p99, times.max], [23.1, 4.0, 96.34, 100.0].map(Some));
        assert_eq!(CompletionTimes::of(Vec::new()), CompletionTimes::default());
    }

    proptest! {
        #[test]
        fn percentiles_are_monotone_and_within_the_values(mut values in prop::collection::vec(0.0..1e9f64, 1..50)) {
            values.sort_by(f64::total_cmp);
            let all: Vec<f64> = (0..=100).map(|p| percentile(&values, f64::from(p) / 100.0).unwrap()).collect();
            prop_assert!(all.is_sorted());
            prop_assert_eq!((all[0], all[100]), (values[0], values[values.len() - 1]));
        }
    }

    #[test]
    fn a_run_is_summed_up() {
        let flows =
            [flow(10, FlowStatus::Finished), flow(30, FlowStatus::Finished), flow(9, FlowStatus::Failed)];
        let mut long = flow(40, FlowStatus::Running);
        long.spec.size = u64::MAX;
        let flows: FlowRecords = flows.into_iter().chain([long, flow(50, FlowStatus::Stopped)]).collect();
        let drops = [1, 2, 4, 0, 0, 0];
        let port = PortPriorityReport { drops, trims: 6, ecn_marks: 5, pauses_sent: 3, ..idle_report(0) };
        let summary = Summary::new(facts(), &flows, &[], &[port, port]);
        assert_eq!((summary.flows_total, summary.flows_finished, summary.flows_failed), (5, 2, 1));
        assert_eq!((summary.flows_long, summary.flows_stopped), (1, 1));
        assert_eq!((summary.drops, summary.drops_by_reason.not_ect, summary.ecn_marks), (14, 8, 10));
        assert_eq!((summary.trims, summary.pfc_pauses), (12, 6));
        assert_eq!((summary.retransmits, summary.timeouts), (5, 10));
        assert_eq!((summary.fct_us.mean, summary.fct_us.p50), (Some(20.0), Some(20.0)));
        assert_eq!(summary.slowdown.p50, Some(10.0));
        assert_eq!(summary.query_fct_us, CompletionTimes::default());
        assert_eq!(summary.packet_hops_per_s, 200.0);
        assert_eq!(summary.fingerprint, "0000000000000abc");
    }

    fn collect_fields(value: &serde_json::Value, into: &mut BTreeSet<String>) {
        for (name, inner) in value.as_object().into_iter().flatten() {
            into.insert(name.clone());
            collect_fields(inner, into);
        }
    }

    #[test]
    fn the_reference_names_every_field_of_the_json() {
        let reference = include_str!("../../../docs/reference/results.md");
        let section = reference.split("## summary").nth(1).unwrap().split("Statistics over").next().unwrap();
        let quoted = section.split('`').skip(1).step_by(2).filter(|name| *name != "--json");
        let json = serde_json::to_string(&Summary::new(facts(), &FlowRecords::default(), &[], &[])).unwrap();
        let mut fields = BTreeSet::new();
        collect_fields(&serde_json::from_str(&json).unwrap(), &mut fields);
        assert_eq!(quoted.map(str::to_owned).collect::<BTreeSet<_>>(), fields);
        assert!(
            json.contains("\"fct_us\":{\"mean\":null,\"p50\":null,\"p99\":null,\"p999\":null,\"max\":null}"),
            "{json}"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_memory_is_plausible() {
        let block = vec![1u8; 64 << 20];
        let peak = peak_rss_bytes().unwrap();
        assert!(peak > block.iter().map(|b| u64::from(*b)).sum::<u64>() && peak < 1 << 40, "{peak}");
    }
}
