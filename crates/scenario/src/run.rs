//! From a complete scenario to results: build, run, record, write.

use crate::build::{Built, build};
use crate::faults::{self, matches, ports_matching};
use crate::jobs;
use crate::resolve::Resolved;
use crate::results::jobs as tables_of_jobs;
use crate::results::pcapng::{Agreement, PacketWriter};
use crate::results::{
    Manifest, Names, PendingFile, ResultsFolder, RunError, RunFacts, RunStatus, Summary, lossless, tables,
};
use crate::spec::{PacketsSpec, Scenario, SeriesSpec};
use arrow_array::RecordBatch;
use pauseframe_engine::{Control, Ending, EventQueue, Limits, run as run_events};
use pauseframe_fabric::{Network, Sample, SamplePlan};
use pauseframe_topology::Topology;
use pauseframe_units::{PortId, Time};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The watcher is called after so many events: a few milliseconds.
const WATCH_EVERY: u64 = 1 << 15;

/// Where the results go.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// The folder, or none: the tables stay in memory.
    pub out: Option<&'a Path>,
    /// Replace results that are there.
    pub force: bool,
}

/// How far a run has come, for people.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Simulated time.
    pub now: Time,
    /// Simulated time at which the run ends at the latest.
    pub stop: Option<Time>,
    /// Since the start, in seconds.
    pub wall_s: f64,
    /// Events so far.
    pub events: u64,
    /// Packet hops so far.
    pub packet_hops: u64,
    /// Flows that have started, and those that have finished.
    pub flows: (u64, u64),
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// The run in one object.
    pub summary: Summary,
    /// The tables of docs/reference/results.md.
    pub flows: RecordBatch,
    /// See there.
    pub queries: RecordBatch,
    /// See there.
    pub ports: RecordBatch,
    /// See there.
    pub series: RecordBatch,
    /// See there.
    pub pause_tree: RecordBatch,
    /// See there.
    pub deadlocks: RecordBatch,
    /// See there.
    pub jobs: RecordBatch,
    /// See there.
    pub ranks: RecordBatch,
    /// The time lines of the applications that keep one, in Perfetto's format.
    pub timeline: Option<Vec<u8>>,
}

/// Runs a scenario. `watch` is called every few milliseconds and may stop the run: what was recorded is kept.
///
/// # Errors
/// If the results can not be written, or an assertion of ours fails.
pub fn run(
    resolved: &Resolved,
    options: RunOptions,
    mut watch: impl FnMut(RunProgress) -> Control,
) -> Result<RunResults, RunError> {
    let scenario = &resolved.scenario;
    let built = build(scenario).map_err(RunError::Build)?;
    let mut folder = match options.out {
        Some(path) => {
            let running = Manifest::running(&scenario.name, scenario.seed);
            let mut folder = ResultsFolder::create(path, options.force, &running)?;
            folder.write_text("scenario.resolved.toml", &resolved.to_toml())?;
            Some(folder)
        }
        None => None,
    };
    let (finished, packets) = simulate(scenario, built, folder.as_ref(), &mut watch)?;
    let results = tabulate(resolved, finished, options.out.map(Path::to_path_buf));
    if let (Some(folder), Some(packets)) = (&mut folder, packets) {
        folder.commit(packets)?;
    }
    if let Some(folder) = folder {
        write(folder, scenario, &results)?;
    }
    Ok(results)
}

/// A run that is over.
struct Finished {
    built: Built,
    ending: Ending,
    samples: Vec<Sample>,
    wall_s: f64,
}

fn simulate(
    scenario: &Scenario,
    mut built: Built,
    folder: Option<&ResultsFolder>,
    watch: &mut dyn FnMut(RunProgress) -> Control,
) -> Result<(Finished, Option<PendingFile>), RunError> {
    let topology = std::sync::Arc::clone(&built.topology);
    let agreements: Vec<Agreement> = (built.settings.transports.iter().zip(scenario.transport_specs()))
        .map(|(transport, spec)| Agreement::of(&transport.config, spec.dscp))
        .collect();
    let mut queue = EventQueue::new();
    built.network.start(&mut queue);
    faults::install(scenario, &topology, &mut built.network, &mut queue);
    if let Some(spec) = &scenario.record.series {
        built.network.sample(sample_plan(spec, scenario, &topology), &mut queue);
    }
    let mut packets = match (&scenario.record.packets, folder) {
        (Some(spec), Some(folder)) => Some(begin_capture(spec, &topology, &mut built.network, folder)?),
        _ => None,
    };
    let stop = scenario.stop.time.map(|stop| Time::ZERO + stop);
    let limits = Limits { time: stop.unwrap_or(Time::MAX), watch_every: WATCH_EVERY };
    let begin = Instant::now();
    let mut samples = Vec::new();
    let mut failure = None;
    let mut drain = |network: &mut Network| {
        samples.append(&mut network.take_samples());
        let Some(packets) = &mut packets else { return Ok(()) };
        for frame in network.take_frames() {
            packets.write(&frame, |flow| agreements[network.transport_of(flow)])?;
        }
        Ok(())
    };
    let ending = guarded(scenario, &mut queue, |queue| {
        run_events(&mut built.network, queue, limits, |network, progress| {
            if let Err(error) = drain(network) {
                failure = Some(error);
                return Control::Stop;
            }
            watch(RunProgress {
                now: progress.now,
                stop,
                wall_s: begin.elapsed().as_secs_f64(),
                events: progress.events,
                packet_hops: network.packet_hops(),
                flows: network.flow_counts(),
            })
        })
    })?;
    let wall_s = begin.elapsed().as_secs_f64();
    let cause = failure.or_else(|| drain(&mut built.network).err());
    if let (Some(cause), Some(folder)) = (cause, folder) {
        return Err(folder.failure("packets.pcapng", cause));
    }
    Ok((Finished { built, ending, samples, wall_s }, packets.map(PacketWriter::into_inner)))
}

/// Turns a failed assertion into an error that names scenario, seed and simulated time.
fn guarded<T>(
    scenario: &Scenario,
    queue: &mut EventQueue,
    work: impl FnOnce(&mut EventQueue) -> T,
) -> Result<T, RunError> {
    catch_unwind(AssertUnwindSafe(|| work(queue))).map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        RunError::Internal {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            time: queue.now(),
            message: message.unwrap_or_else(|| "a failed assertion without a message".to_owned()),
        }
    })
}

fn sample_plan(spec: &SeriesSpec, scenario: &Scenario, topology: &Topology) -> SamplePlan {
    let wanted = |name: &str| spec.flows.iter().any(|glob| matches(glob, name));
    SamplePlan {
        every: spec.every,
        ports: ports_matching(&spec.ports, topology),
        workloads: scenario.workload.iter().map(|workload| wanted(&workload.name)).collect(),
    }
}

/// Both directions of the links of the ports that a glob names.
fn begin_capture<'a>(
    spec: &PacketsSpec,
    topology: &'a Topology,
    network: &mut Network,
    folder: &ResultsFolder,
) -> Result<PacketWriter<'a, PendingFile>, RunError> {
    let mut ports = ports_matching(&spec.ports, topology);
    ports.extend(ports.clone().into_iter().map(PortId::reverse));
    ports.sort_unstable();
    ports.dedup();
    network.capture(&ports, spec.limit);
    let file = folder.begin("packets.pcapng")?;
    PacketWriter::new(file, topology, &ports).map_err(|cause| folder.failure("packets.pcapng", cause))
}

/// What `[record]` asks for and does not get.
fn unrecorded(scenario: &Scenario, topology: &Topology, has_folder: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut check = |key: &str, globs: &[String]| {
        if !globs.is_empty() && ports_matching(globs, topology).is_empty() {
            warnings.push(format!("record.{key}.ports: no port is called {}", globs.join(" or ")));
        }
    };
    if let Some(series) = &scenario.record.series {
        check("series", &series.ports);
    }
    if let Some(packets) = &scenario.record.packets {
        check("packets", &packets.ports);
        if !has_folder {
            warnings.push(
                "record.packets: packets are written to a results folder only, and none was given".to_owned(),
            );
        }
    }
    warnings
}

fn tabulate(resolved: &Resolved, finished: Finished, out: Option<PathBuf>) -> RunResults {
    let scenario = &resolved.scenario;
    let Finished { mut built, ending, samples, wall_s } = finished;
    let workloads: Vec<String> = scenario.workload.iter().map(|workload| workload.name.clone()).collect();
    let names = Names { topology: &built.topology, workloads: &workloads, transports: &built.transports };
    let ports = built.network.port_reports(ending.now);
    let mut warnings = resolved.warnings.clone();
    warnings
        .extend(built.network.warnings().iter().filter(|text| !resolved.warnings.contains(text)).cloned());
    let deadlocks = built.network.deadlocks();
    let ends = faults::ends_at_deadlock(scenario);
    warnings.extend(deadlocks.iter().map(|deadlock| lossless::describe(deadlock, &names, ends)));
    if built.network.unrecorded_pauses() > 0 {
        let count = built.network.unrecorded_pauses();
        warnings.push(format!("record.pause_tree.limit: {count} pauses came after it and are not recorded"));
    }
    warnings.extend(jobs::warnings(scenario, &built));
    warnings.extend(unrecorded(scenario, &built.topology, out.is_some()));
    let facts = RunFacts {
        name: scenario.name.clone(),
        seed: scenario.seed,
        fingerprint: ending.fingerprint.value(),
        sim_time: ending.now,
        wall_s,
        events: ending.events,
        packet_hops: built.network.packet_hops(),
        deadlocks: deadlocks.len() as u64,
        status: if ending.interrupted { RunStatus::Interrupted } else { RunStatus::Complete },
        warnings,
        out,
    };
    let pause_tree = lossless::pause_tree(built.network.pause_intervals(), &names);
    let deadlocks = lossless::deadlocks(deadlocks, &names);
    let results = jobs::results(scenario, &built);
    let timeline = jobs::timeline(scenario, &built.network);
    built.network.flow_records(ending.now);
    let queries = built.network.queries();
    let flows = built.network.flow_records(ending.now);
    let summary = Summary::new(facts, flows, &queries, &ports);
    let record = &scenario.record;
    RunResults {
        summary,
        flows: tables::flows(if record.flows { flows } else { &[] }, &names),
        queries: tables::queries(&queries, &names),
        ports: tables::ports(
            if record.ports { &ports } else { &[] },
            &names,
            ending.now.saturating_since(Time::ZERO),
        ),
        series: tables::series(&samples, &names),
        pause_tree,
        deadlocks,
        jobs: tables_of_jobs::jobs(&results, &names),
        ranks: tables_of_jobs::ranks(&results, &names),
        timeline,
    }
}

fn write(mut folder: ResultsFolder, scenario: &Scenario, results: &RunResults) -> Result<(), RunError> {
    let record = &scenario.record;
    let asked = [
        ("flows.parquet", &results.flows, record.flows),
        ("queries.parquet", &results.queries, true),
        ("ports.parquet", &results.ports, record.ports),
        ("series.parquet", &results.series, true),
        ("pause_tree.parquet", &results.pause_tree, true),
        ("deadlocks.parquet", &results.deadlocks, true),
        ("jobs.parquet", &results.jobs, true),
        ("ranks.parquet", &results.ranks, true),
    ];
    for (name, table, wanted) in asked {
        if wanted {
            folder.write_table(name, table)?;
        }
    }
    if let Some(timeline) = &results.timeline {
        folder.write_bytes("timeline.perfetto", timeline)?;
    }
    folder.finish(&Manifest::ended(&results.summary))
}
