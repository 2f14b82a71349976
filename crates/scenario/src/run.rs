//! From a complete scenario to results: build, run, record, write.

use crate::build::{Built, build};
use crate::faults;
use crate::jobs::{self, References};
use crate::resolve::Resolved;
use crate::spec::lookup::{matches, ports_matching};
use crate::spec::{PacketsSpec, Scenario, SeriesSpec};
use crate::volume::SERIES_ROWS_MAX;
use arrow_array::RecordBatch;
use pauseframe_engine::{Control, Ending, Limits};
use pauseframe_fabric::{FlowRecord, FlowStatus, Network, RunFailed, SamplePlan};
use pauseframe_results::jobs as tables_of_jobs;
use pauseframe_results::pcapng::{Agreement, PacketWriter};
use pauseframe_results::{
    Manifest, Names, PendingFile, ResultsFolder, RunError, RunFacts, RunStatus, Series, Summary, lossless,
    states, tables,
};
use pauseframe_schema::panics::{caught, shield};
use pauseframe_schema::value::Choice;
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, PortId, Time};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The watcher is called after so many events: a few milliseconds.
pub(crate) const WATCH_EVERY: u64 = 1 << 15;

/// Where the results go.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// The folder, or none: the tables stay in memory.
    pub out: Option<&'a Path>,
    /// Replace results that are there.
    pub force: bool,
    /// Record whatever is asked for, however large it is ([`Resolved::large`]).
    pub force_large: bool,
    /// Threads at most; 0: as there are cores. No more than pay off are taken. The results are the same.
    pub threads: usize,
    /// Take so many threads even where they do not pay off.
    pub divide: bool,
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
    pub throughput: RecordBatch,
    /// See there.
    pub pause_tree: RecordBatch,
    /// See there.
    pub states: RecordBatch,
    /// See there.
    pub deadlocks: RecordBatch,
    /// See there.
    pub jobs: RecordBatch,
    /// See there.
    pub ranks: RecordBatch,
    /// See there.
    pub timeline: RecordBatch,
}

/// Runs a scenario. `watch` is called every few milliseconds and may stop the run: what was recorded is kept. Stopped
/// while the results are written, it leaves whole tables and a folder that says that the run is not complete.
///
/// # Errors
/// If more is to be recorded than `options` allow, the results cannot be written, or an assertion of ours fails.
pub fn run(
    resolved: &Resolved,
    options: RunOptions,
    mut watch: impl FnMut(RunProgress) -> Control,
) -> Result<RunResults, RunError> {
    let scenario = &resolved.scenario;
    if let Some(problem) = resolved.large.as_ref().filter(|_| !options.force_large) {
        return Err(RunError::TooLarge(Box::new(problem.clone())));
    }
    let (built, said) = divided(build(resolved).map_err(RunError::Build)?, options);
    let mut watch = Watch { ask: &mut watch, last: RunProgress::before(scenario), stopped: false };
    let references =
        jobs::references(scenario, &built, &mut || watch.goes_on()).map_err(RunError::Refused)?;
    let mut folder = match options.out {
        Some(path) => {
            let running = Manifest::running(&scenario.name, scenario.seed);
            let mut folder = ResultsFolder::create(path, options.force, &running)?;
            folder.write_text("scenario.resolved.toml", &resolved.to_toml())?;
            Some(folder)
        }
        None => None,
    };
    let limit = if options.force_large { usize::MAX } else { SERIES_ROWS_MAX as usize };
    let (mut finished, packets) =
        simulate(scenario, built, folder.as_ref(), limit, &mut |now| watch.ask(now))?;
    let series_file = finished.series.take_file();
    let results =
        tabulate(resolved, finished, said, &references, &mut watch, options.out.map(Path::to_path_buf));
    if let Some(folder) = &mut folder {
        series_file.map_or(Ok(()), |file| folder.commit_table(file))?;
        packets.map_or(Ok(()), |file| folder.commit(file))?;
    }
    if let Some(folder) = folder {
        write(folder, scenario, &results, &mut || watch.is_patient())?;
    }
    Ok(results)
}

/// Who watches a run, through all that belongs to it: whoever has said stop is not asked to go on with the next part.
struct Watch<'a> {
    ask: &'a mut dyn FnMut(RunProgress) -> Control,
    last: RunProgress,
    stopped: bool,
}

impl Watch<'_> {
    fn ask(&mut self, now: RunProgress) -> Control {
        self.last = now;
        self.stopped |= (self.ask)(now) == Control::Stop;
        if self.stopped { Control::Stop } else { Control::Continue }
    }

    /// Asked where no simulated time passes.
    fn goes_on(&mut self) -> bool {
        !self.stopped && self.ask(self.last) == Control::Continue
    }

    /// What was recorded is to be kept: only who says stop once more does not want to wait until it is written.
    fn is_patient(&mut self) -> bool {
        (self.ask)(self.last) == Control::Continue
    }
}

impl RunProgress {
    fn before(scenario: &Scenario) -> RunProgress {
        let stop = scenario.stop.time.map(|stop| Time::ZERO + stop);
        RunProgress { now: Time::ZERO, stop, wall_s: 0.0, events: 0, packet_hops: 0, flows: (0, 0) }
    }
}

/// The network in so many cells, each for a thread of its own; and what is to be said if there are fewer.
fn divided(mut built: Built, RunOptions { threads, divide, .. }: RunOptions) -> (Built, Option<String>) {
    let plan = built.network.plan();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let asked = if threads == 0 { cores } else { threads };
    let cells = if divide { asked.min(plan.cells_max()) } else { plan.cells_that_pay(asked) };
    let said = (cells < threads).then(|| fewer_threads(threads, cells, plan.cells_max()));
    if cells > 1 {
        let partition = plan.partition(cells);
        built.network.divide(&partition);
    }
    (built, said)
}

/// Why there are fewer threads than were asked for.
fn fewer_threads(asked: usize, taken: usize, most: usize) -> String {
    let why = if taken == most {
        format!(
            "only {most} {} hosts, and a thread has at least one of them",
            if most == 1 { "switch has" } else { "switches have" }
        )
    } else {
        "no more pay off in a network of this size".to_owned()
    };
    format!("threads: {asked} were asked for, {taken} taken: {why}")
}

/// A run that is over.
struct Finished {
    built: Built,
    ending: Ending,
    series: Series,
    wall_s: f64,
}

fn simulate(
    scenario: &Scenario,
    mut built: Built,
    folder: Option<&ResultsFolder>,
    series_limit: usize,
    watch: &mut dyn FnMut(RunProgress) -> Control,
) -> Result<(Finished, Option<PendingFile>), RunError> {
    let topology = std::sync::Arc::clone(&built.topology);
    let names = Names { topology: &topology, workloads: &[], transports: &[] };
    let agreements: Vec<Agreement> = (built.settings.transports.iter().zip(scenario.transport_specs()))
        .map(|(transport, spec)| Agreement::of(&transport.config, spec.dscp))
        .collect();
    faults::install(scenario, &topology, &mut built.network);
    if let Some(spec) = &scenario.record.series {
        built.network.sample(sample_plan(spec, scenario, &topology));
    }
    if let Some(spec) = &scenario.record.states {
        built.network.record_states(spec.every, spec.limit as usize);
    }
    let mut series = Series::begin(folder, &names, series_limit)?;
    let mut packets = match (&scenario.record.packets, folder) {
        (Some(spec), Some(folder)) => Some(begin_capture(spec, &topology, &mut built.network, folder)?),
        _ => None,
    };
    let stop = scenario.stop.time.map(|stop| Time::ZERO + stop);
    let limits = Limits { time: stop.unwrap_or(Time::MAX), watch_every: WATCH_EVERY };
    let begin = Instant::now();
    let mut failure = None;
    let mut drain = |network: &mut Network| {
        series.add(&network.take_samples());
        series.write_parts(&names).map_err(|cause| ("series.parquet", cause))?;
        let Some(packets) = &mut packets else { return Ok(()) };
        for frame in network.take_frames() {
            let agreement = |flow| agreements[network.transport_of(flow)];
            packets.write(&frame, agreement).map_err(|cause| ("packets.pcapng", cause))?;
        }
        Ok(())
    };
    let ending = guarded(scenario, &mut built.network, |network| {
        network.run(limits, shield, |network, progress| {
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
    built.network.look_at_end(ending.now);
    let cause = failure.or_else(|| drain(&mut built.network).err());
    let cause = cause.or_else(|| series.write_rest(&names).err().map(|cause| ("series.parquet", cause)));
    if let (Some((name, cause)), Some(folder)) = (cause, folder) {
        return Err(folder.failure(name, cause));
    }
    Ok((Finished { built, ending, series, wall_s }, packets.map(PacketWriter::into_inner)))
}

/// Turns a failed assertion into an error that names scenario, seed and simulated time.
fn guarded(
    scenario: &Scenario,
    network: &mut Network,
    work: impl FnOnce(&mut Network) -> Result<Ending, RunFailed>,
) -> Result<Ending, RunError> {
    let ran = caught(|| work(network)).map_err(|panic| panic.to_string());
    ran.and_then(|ran| ran.map_err(|failed| failed.message)).map_err(|message| RunError::Internal {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        time: network.now(),
        message,
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
    if !spec.every_hop {
        network.capture_once();
    }
    let file = folder.begin("packets.pcapng")?;
    PacketWriter::new(file, topology, &ports).map_err(|cause| folder.failure("packets.pcapng", cause))
}

/// Links that are down to the end although flows have not finished: what stands still because of them is no deadlock, and
/// looks like one in the tables.
fn dead_links(network: &mut Network, names: &Names, now: Time) -> Option<String> {
    let down = network.links_down();
    let unfinished = |record: &&FlowRecord| matches!(record.status, FlowStatus::Running | FlowStatus::Failed);
    let waiting = network.flow_records(now).iter().filter(unfinished).count();
    if down.is_empty() || waiting == 0 {
        return None;
    }
    let port = |link: &LinkId| names.topology.port_name(PortId::of_link(*link, 0));
    let some: Vec<String> = down.iter().take(4).map(port).collect();
    let more = if down.len() > some.len() {
        format!(" and {} more", down.len() - some.len())
    } else {
        String::new()
    };
    Some(format!(
        "failure: the links of {}{more} are down at the end of the run, and {waiting} flows have not finished: those whose way \
         is cut off cannot, which is no deadlock",
        some.join(", ")
    ))
}

/// A SYN is not ECN-capable (RFC 3168 §6.1.1), so a marker that drops what it cannot mark delays connections by a second.
fn dropped_syns(network: &Network) -> Option<String> {
    let count = network.syn_drops_not_ect();
    (count > 0).then(|| {
        format!(
            "transport.ect_on_syn: {count} SYNs were dropped by a marker because they are not ECN-capable, and each is sent \
             again only after transport.rto_initial; set ect_on_syn = true, or switch.marker.not_ect = \"queue\""
        )
    })
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

/// What the results do not hold whole: logs that were full, jobs that did not end.
fn cut_short(scenario: &Scenario, built: &Built, series: &Series) -> Vec<String> {
    let mut warnings = Vec::new();
    if built.network.unrecorded_pauses() > 0 {
        let count = built.network.unrecorded_pauses();
        warnings.push(format!("record.pause_tree.limit: {count} pauses came after it and are not recorded"));
    }
    warnings.extend(jobs::warnings(scenario, built));
    if let Some(time) = built.network.states_full_at() {
        warnings.push(format!(
            "record.states.limit: the log was full at {time} and what came later is not in it; raise limit or every"
        ));
    }
    if let Some(time) = series.full() {
        warnings.push(format!(
            "record.series: {SERIES_ROWS_MAX} rows were full at {time} and later samples are not kept; raise every, name \
             fewer ports, or use --force-large"
        ));
    }
    warnings
}

fn tabulate(
    resolved: &Resolved,
    finished: Finished,
    said: Option<String>,
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
    warnings.extend(said);
    warnings
        .extend(built.network.warnings().iter().filter(|text| !resolved.warnings.contains(text)).cloned());
    warnings.extend(dead_links(&mut built.network, &names, ending.now));
    warnings.extend(dropped_syns(&built.network));
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
        threads: built.network.cells(),
        events: ending.events,
        packet_hops: built.network.packet_hops(),
        deadlocks: deadlocks.len() as u64,
        syn_drops_not_ect: built.network.syn_drops_not_ect(),
        fullest_switch: built.network.fullest_switch().map(|(node, bytes)| (names.node(node), bytes)),
        nic_queue: scenario.host.nic_queue.name(),
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
    let received = built.network.throughput();
    built.network.flow_records(ending.now);
    let queries = built.network.queries();
    let flows = built.network.flow_records(ending.now);
    let summary = Summary::new(facts, flows, &queries, &ports);
    let (record, end) = (&scenario.record, ending.now);
    let ports = if record.ports { &ports[..] } else { &[] };
    RunResults {
        summary,
        flows: tables::flows(if record.flows { flows } else { &[] }, &names).batch(),
        queries: tables::queries(&queries, &names).batch(),
        ports: tables::ports(ports, &names, end.saturating_since(Time::ZERO)).batch(),
        series: series.into_columns(&names).batch(),
        throughput: tables::throughput(received.every(), received.intervals(), &names, end).batch(),
        pause_tree,
        states,
        deadlocks,
        jobs: tables_of_jobs::jobs(&jobs, &names).batch(),
        ranks: tables_of_jobs::ranks(&jobs, &names).batch(),
        timeline,
    }
}

fn write(
    mut folder: ResultsFolder,
    scenario: &Scenario,
    results: &RunResults,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), RunError> {
    let record = &scenario.record;
    let asked = [
        ("flows.parquet", &results.flows, record.flows),
        ("queries.parquet", &results.queries, true),
        ("ports.parquet", &results.ports, record.ports),
        ("throughput.parquet", &results.throughput, true),
        ("pause_tree.parquet", &results.pause_tree, true),
        ("states.parquet", &results.states, record.states.is_some()),
        ("deadlocks.parquet", &results.deadlocks, true),
        ("jobs.parquet", &results.jobs, true),
        ("ranks.parquet", &results.ranks, true),
        ("timeline.parquet", &results.timeline, results.timeline.num_rows() > 0),
    ];
    for (name, table, wanted) in asked {
        if wanted {
            folder.write_table(name, table, go_on)?;
        }
    }
    folder.finish(&Manifest::ended(&results.summary))
}
