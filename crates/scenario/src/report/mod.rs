//! Last stage of a run: turns a network at the end of its run into tables, a summary and files.

mod polarization;
mod recovery;
mod suspicious;
mod unstarted;
mod warnings;

pub(crate) use self::polarization::{may_polarize, polarized};
use self::suspicious::{
    marks_of_slow_receivers, starved_flows, tiny_windows, windows_below_acknowledgements,
};
pub(crate) use self::unstarted::{Planned, unstarted};
use self::warnings::{cut_short, dead_links, dropped_syns, idle_storms, longer_timeouts, unrecorded};
use crate::build::{Built, Parts};
use crate::resolve::Resolved;
use crate::run::{Ended, RunOptions, RunResults, Watch};
use crate::spec::Scenario;
use pauseframe_fabric::{FlowRecords, Network, PortChoice, PortPriorityReport};
use pauseframe_results::jobs as tables_of_jobs;
use pauseframe_results::{
    FlowTable, Manifest, Names, ResultsFolder, RunError, RunFacts, RunStatus, Summary, collectives, conweave,
    kernel, lossless, paths, states, tables, tunnels,
};
use pauseframe_schema::value::Choice;
use pauseframe_units::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the results, with the resolved scenario in it and a manifest that says that the run goes on.
pub(crate) fn folder(resolved: &Resolved, options: &RunOptions) -> Result<Option<ResultsFolder>, RunError> {
    let scenario = &resolved.scenario;
    let running = Manifest::running(&scenario.name, scenario.seed).with_plugins(&scenario.plugins());
    let running = running.with_kernel(options.kernel);
    folder_with(resolved, options.out, options.force, &running)
}

pub(crate) fn folder_with(
    resolved: &Resolved,
    out: Option<&Path>,
    force: bool,
    manifest: &impl Serialize,
) -> Result<Option<ResultsFolder>, RunError> {
    let Some(path) = out else { return Ok(None) };
    let mut folder = ResultsFolder::create(path, force, manifest)?;
    folder.write_text("scenario.resolved.toml", &resolved.to_toml())?;
    Ok(Some(folder))
}

/// The results of a run, which are written if it has a folder.
pub(crate) fn report(
    resolved: &Resolved,
    mut ended: Ended,
    folder: Option<ResultsFolder>,
    kernel: Option<&Path>,
    watch: &mut Watch,
) -> Result<RunResults, RunError> {
    let streamed = (ended.series.take_file(), ended.packets.take());
    let out = folder.as_ref().map(|folder| folder.path().to_path_buf());
    let results = tabulate(resolved, ended, watch.stopped, out);
    if let Some(mut folder) = folder {
        streamed.0.map_or(Ok(()), |file| folder.commit_table(file))?;
        streamed.1.map_or(Ok(()), |file| folder.commit(file))?;
        write(folder, &resolved.scenario, &results, kernel, &mut || watch.is_patient())?;
    }
    Ok(results)
}

fn tabulate(resolved: &Resolved, ended: Ended, was_stopped: bool, out: Option<PathBuf>) -> RunResults {
    let scenario = &resolved.scenario;
    let Ended { built: Built { parts, mut network, jobs, threads }, ending, wall_s, series, .. } = ended;
    let workloads: Vec<String> = scenario.workload.iter().map(|workload| workload.name.clone()).collect();
    let names = Names { topology: &parts.topology, workloads: &workloads, transports: &parts.transports };
    let ports = network.port_reports(ending.now);
    let mut warnings = resolved.warnings.clone();
    warnings.extend(threads.warning);
    warnings.extend(warnings::nothing_remembered(scenario, &parts.settings));
    warnings.extend(warnings::unlike_replays(network.step_memory_report().as_ref()));
    warnings.extend(network.warnings().iter().filter(|text| !resolved.warnings.contains(text)).cloned());
    let was_interrupted = ending.interrupted || was_stopped;
    let of_workloads =
        network.packed_flow_records(ending.now).iter().map(|record| (record.spec.workload, record.status));
    let is_written = |path: &str| resolved.is_written(path);
    let planned = Planned { scenario, topology: &parts.topology, is_written: &is_written };
    warnings.extend(unstarted(planned, of_workloads, was_interrupted));
    add_warnings_of_results(scenario, (&mut network, &parts), &names, &ports, ending.now, &mut warnings);
    let of_kernel = network.take_stack_samples();
    let deadlocks = network.detected_deadlocks();
    let ends = scenario.ends_at_deadlock();
    warnings.extend(deadlocks.iter().map(|deadlock| lossless::describe(deadlock, &names, ends)));
    let jobs = jobs.report(scenario, &network, ending.now);
    warnings.extend(cut_short(&network, jobs.warnings, &series));
    warnings.extend(unrecorded(scenario, &parts.topology, out.is_some()));
    let facts = RunFacts {
        name: scenario.name.clone(),
        seed: scenario.seed,
        fingerprint: ending.fingerprint.as_u64(),
        sim_time: ending.now,
        wall_s,
        threads: network.partition_count(),
        threads_reason: threads.reason,
        events: ending.events,
        packet_hops: network.total_packet_hops(),
        memory: network.step_memory_report(),
        deadlocks: deadlocks.len() as u64,
        syn_drops_not_ect: network.not_ect_syn_drops(),
        fullest_switch: network.max_backlog_switch().map(|(node, bytes)| (names.node(node), bytes)),
        nic_queue: scenario.host.nic_queue.name(),
        series_full: series.full(),
        status: match (was_interrupted, ends && !deadlocks.is_empty()) {
            (true, _) => RunStatus::Interrupted,
            (false, true) => RunStatus::Deadlock,
            (false, false) => RunStatus::Complete,
        },
        warnings,
        out,
    };
    let pause_tree = lossless::pause_tree(network.pause_intervals(), &names).batch();
    let deadlocks = lossless::deadlocks(deadlocks, &names).batch();
    let timeline = tables_of_jobs::timeline(&jobs.timelines, &names).batch();
    let jobs = jobs.results;
    let states = states::states(network.state_log_rows(), &names).batch();
    let shared = if scenario.record.paths { network.flows_by_next_hop() } else { BTreeMap::new() };
    let equal_links = paths::equal_links(&shared, &names).batch();
    let paths = paths::paths(&network.path_rows(), &names).batch();
    let conweave = conweave::conweave(&network.conweave_counts(), &names).batch();
    let tunnels = tunnels::tunnels(&network.tunnel_counts(), &names).batch();
    let received = network.throughput_series();
    let (record, end) = (&scenario.record, ending.now);
    let queries = network.query_records();
    // The network is freed before the tables are made, to save memory.
    let flows = network.into_flow_records(ending.now);
    let summary = Summary::new(facts, &flows, &queries, &ports);
    let flows = if record.flows { flows } else { FlowRecords::default() };
    let ports = if record.ports { &ports[..] } else { &[] };
    RunResults {
        summary,
        plugins: scenario.plugins(),
        flows: FlowTable::new(flows, &parts.topology, &workloads, &parts.transports),
        queries: tables::queries(&queries, &names).batch(),
        ports: tables::ports(ports, &names, end.saturating_since(Time::ZERO)).batch(),
        series: series.into_columns(&names).batch(),
        throughput: tables::throughput(
            received.interval_length(),
            received.goodput_by_interval(),
            &names,
            end,
        )
        .batch(),
        pause_tree,
        states,
        paths,
        equal_links,
        conweave,
        tunnels,
        deadlocks,
        jobs: tables_of_jobs::jobs(&jobs, &names).batch(),
        collectives: collectives::collectives(&jobs, &names).batch(),
        ranks: tables_of_jobs::ranks(&jobs, &names).batch(),
        timeline,
        kernel_sockets: kernel::sockets(&of_kernel.sockets, &names).batch(),
        kernel_counters: kernel::counters(&of_kernel.counters, &names).batch(),
    }
}

/// Warns of results that a reader could misinterpret, or that no real network is likely to give.
fn add_warnings_of_results(
    scenario: &Scenario,
    (network, parts): (&mut Network, &Parts),
    names: &Names,
    ports: &[PortPriorityReport],
    now: Time,
    warnings: &mut Vec<String>,
) {
    warnings.extend(dead_links(network, names, now));
    if scenario.host.reaction > Span::ZERO && !network.has_dependent_flows() {
        warnings
            .push("host.reaction: no flow waits for the end of another, so it changes nothing".to_owned());
    }
    warnings.extend(longer_timeouts(scenario, &parts.settings));
    warnings.extend(network.stack_warnings());
    warnings.extend(dropped_syns(network));
    idle_storms(scenario, (network, now), names, ports, warnings);
    if may_polarize(scenario, network.packed_flow_records(now).len()) {
        warnings.extend(polarized(&network.flows_by_next_hop(), names.topology));
    }
    warnings.extend(recovery::warnings((scenario, &parts.settings), network, names, ports, now));
    warnings.extend(windows_below_acknowledgements(
        scenario,
        (network, &parts.ideal),
        (&parts.topology, &parts.settings),
        now,
    ));
    warnings.extend(tiny_windows(scenario, (network, &parts.ideal), &parts.settings, names, now));
    warnings.extend(marks_of_slow_receivers(scenario, names, ports));
    warnings.extend(starved_flows(scenario, (network, &parts.ideal), names, ports, now));
}

fn write(
    mut folder: ResultsFolder,
    scenario: &Scenario,
    results: &RunResults,
    kernel: Option<&Path>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), RunError> {
    let record = &scenario.record;
    let asked = [
        ("queries.parquet", &results.queries, true),
        ("ports.parquet", &results.ports, record.ports),
        ("throughput.parquet", &results.throughput, true),
        ("pause_tree.parquet", &results.pause_tree, true),
        ("states.parquet", &results.states, record.states.is_some()),
        ("paths.parquet", &results.paths, record.paths),
        ("equal_links.parquet", &results.equal_links, record.paths),
        ("conweave.parquet", &results.conweave, scenario.routing.conweave().is_some()),
        ("tunnels.parquet", &results.tunnels, scenario.host.port_choice == PortChoice::Mux),
        ("deadlocks.parquet", &results.deadlocks, true),
        ("jobs.parquet", &results.jobs, true),
        ("collectives.parquet", &results.collectives, results.collectives.num_rows() > 0),
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
    let manifest = Manifest::ended(&results.summary).with_plugins(&results.plugins);
    folder.finish(&manifest.with_kernel(kernel))
}
