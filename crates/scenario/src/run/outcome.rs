//! Turns a network at the end of its run into tables, a summary and files.

use super::suspicious::{needless_timeouts, starved_flows};
use super::threads::ThreadChoice;
use super::warnings::{cut_short, dead_links, dropped_syns, unrecorded};
use super::{Finished, RunResults, Watch};
use crate::faults;
use crate::jobs::{self, References};
use crate::resolve::Resolved;
use crate::spec::Scenario;
use pauseframe_fabric::FlowRecords;
use pauseframe_results::jobs as tables_of_jobs;
use pauseframe_results::{
    FlowTable, Manifest, Names, ResultsFolder, RunError, RunFacts, RunStatus, Summary, kernel, lossless,
    states, tables,
};
use pauseframe_schema::value::Choice;
use pauseframe_units::Time;
use std::path::PathBuf;

pub(super) fn tabulate(
    resolved: &Resolved,
    finished: Finished,
    choice: ThreadChoice,
    references: &References,
    watch: &mut Watch,
    out: Option<PathBuf>,
) -> RunResults {
    let scenario = &resolved.scenario;
    let Finished { mut built, ending, series, wall_s } = finished;
    let jobs = jobs::results(scenario, &built, ending.now, references, &mut || watch.goes_on());
    let workloads: Vec<String> = scenario.workload.iter().map(|workload| workload.name.clone()).collect();
    let names = Names { topology: &built.topology, workloads: &workloads, transports: &built.transports };
    let ports = built.network.port_reports(ending.now);
    let mut warnings = resolved.warnings.clone();
    warnings.extend(choice.warning);
    warnings
        .extend(built.network.warnings().iter().filter(|text| !resolved.warnings.contains(text)).cloned());
    warnings.extend(dead_links(&mut built.network, &names, ending.now));
    warnings.extend(built.network.stack_notes());
    let of_kernel = built.network.take_stack_samples();
    warnings.extend(dropped_syns(&built.network));
    warnings.extend(needless_timeouts(scenario, &mut built.network, &ports, ending.now));
    warnings.extend(starved_flows(scenario, (&mut built.network, &built.ideal), &names, &ports, ending.now));
    let deadlocks = built.network.deadlocks();
    let ends = faults::ends_at_deadlock(scenario);
    warnings.extend(deadlocks.iter().map(|deadlock| lossless::describe(deadlock, &names, ends)));
    warnings.extend(cut_short(scenario, &built, &series));
    warnings.extend(unrecorded(scenario, &built.topology, out.is_some()));
    let facts = RunFacts {
        name: scenario.name.clone(),
        seed: scenario.seed,
        fingerprint: ending.fingerprint.value(),
        sim_time: ending.now,
        wall_s,
        threads: built.network.partition_count(),
        threads_reason: choice.reason,
        events: ending.events,
        packet_hops: built.network.packet_hops(),
        deadlocks: deadlocks.len() as u64,
        syn_drops_not_ect: built.network.syn_drops_not_ect(),
        fullest_switch: built.network.fullest_switch().map(|(node, bytes)| (names.node(node), bytes)),
        nic_queue: scenario.host.nic_queue.name(),
        series_full: series.full(),
        status: match (ending.interrupted || watch.stopped, ends && !deadlocks.is_empty()) {
            (true, _) => RunStatus::Interrupted,
            (false, true) => RunStatus::Deadlock,
            (false, false) => RunStatus::Complete,
        },
        warnings,
        out,
    };
    let pause_tree = lossless::pause_tree(built.network.pause_intervals(), &names).batch();
    let deadlocks = lossless::deadlocks(deadlocks, &names).batch();
    let timelines = jobs::timelines(scenario, &built.network, ending.now);
    let timeline = tables_of_jobs::timeline(&timelines, &names).batch();
    let states = states::states(built.network.state_changes(), &names).batch();
    let received = built.network.throughput_series();
    let (record, end) = (&scenario.record, ending.now);
    let queries = built.network.query_records();
    // The network is freed before the tables are made, to save memory.
    let flows = built.network.into_flow_records(ending.now);
    let summary = Summary::new(facts, &flows, &queries, &ports);
    let flows = if record.flows { flows } else { FlowRecords::default() };
    let ports = if record.ports { &ports[..] } else { &[] };
    RunResults {
        summary,
        plugins: scenario.plugins(),
        flows: FlowTable::new(flows, &built.topology, &workloads, &built.transports),
        queries: tables::queries(&queries, &names).batch(),
        ports: tables::ports(ports, &names, end.saturating_since(Time::ZERO)).batch(),
        series: series.into_columns(&names).batch(),
        throughput: tables::throughput(received.interval(), received.bytes_by_interval(), &names, end)
            .batch(),
        pause_tree,
        states,
        deadlocks,
        jobs: tables_of_jobs::jobs(&jobs, &names).batch(),
        ranks: tables_of_jobs::ranks(&jobs, &names).batch(),
        timeline,
        kernel_sockets: kernel::sockets(&of_kernel.sockets, &names).batch(),
        kernel_counters: kernel::counters(&of_kernel.counters, &names).batch(),
    }
}

pub(super) fn write(
    mut folder: ResultsFolder,
    scenario: &Scenario,
    results: &RunResults,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), RunError> {
    let record = &scenario.record;
    let asked = [
        ("queries.parquet", &results.queries, true),
        ("ports.parquet", &results.ports, record.ports),
        ("throughput.parquet", &results.throughput, true),
        ("pause_tree.parquet", &results.pause_tree, true),
        ("states.parquet", &results.states, record.states.is_some()),
        ("deadlocks.parquet", &results.deadlocks, true),
        ("jobs.parquet", &results.jobs, true),
        ("ranks.parquet", &results.ranks, true),
        ("timeline.parquet", &results.timeline, results.timeline.num_rows() > 0),
        ("kernel_sockets.parquet", &results.kernel_sockets, record.kernel.is_some()),
        ("kernel_counters.parquet", &results.kernel_counters, record.kernel.is_some()),
    ];
    if record.flows {
        folder.write_flows(&results.flows, go_on)?;
    }
    for (name, table, wanted) in asked {
        if wanted {
            folder.write_table(name, table, go_on)?;
        }
    }
    folder.finish(&Manifest::ended(&results.summary).with_plugins(&results.plugins))
}
