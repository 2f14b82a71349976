//! Third stage of a run: simulates the built network and records what `[record]` asks for.

mod kernel;

use crate::build::{self, Built};
use crate::plugin;
use crate::report;
use crate::resolve::Resolved;
use crate::spec::{PacketsSpec, Scenario, SeriesSpec, TransportSpec};
use crate::volume::SERIES_ROWS_MAX;
use arrow_array::RecordBatch;
use pauseframe_engine::{RunCallbackDecision, RunEnding, RunLimits};
use pauseframe_fabric::{
    Network, RunFailed, SamplePlan, Settings, TransportSettings, matches_glob, matching_ports,
};
use pauseframe_results::pcapng::{Agreement, PacketWriter};
use pauseframe_results::{
    FlowTable, Names, PendingFile, PluginRecord, ResultsFolder, RunError, Series, Summary,
};
use pauseframe_schema::panics::{caught, shield};
use pauseframe_topology::Topology;
use pauseframe_units::{PortId, Time};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Number of events between two calls of the progress callback: a few milliseconds.
pub(crate) const WATCH_EVERY: u64 = 1 << 15;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// The output folder; `None` keeps the tables in memory.
    pub out: Option<&'a Path>,
    /// Overwrite existing results.
    pub force: bool,
    /// Record all requested data, even if they exceed the limit ([`Resolved::large`]).
    pub force_large: bool,
    /// Number of threads, at most one for each switch with hosts; 0 means one for each idle core, or fewer if more would not help. The
    /// results do not depend on this number.
    pub threads: usize,
    /// The folder with the Linux kernel, for scenarios whose hosts have one.
    pub kernel: Option<&'a Path>,
    /// Programs that run on hosts with a kernel: host and command.
    pub programs: &'a [(String, String)],
}

/// Progress of a run, for the display.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Current simulated time.
    pub now: Time,
    /// Simulated time at which the run ends at the latest.
    pub stop: Option<Time>,
    /// Wall-clock time since the start, in seconds.
    pub wall_s: f64,
    /// Number of events so far.
    pub events: u64,
    /// Number of packet hops so far.
    pub packet_hops: u64,
    /// Numbers of started and of finished flows.
    pub flows: (u64, u64),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// The summary of the run.
    pub summary: Summary,
    /// The plug-ins that the run loaded.
    pub plugins: Vec<PluginRecord>,
    /// The `flows` table (docs/reference/results.md).
    pub flows: FlowTable,
    /// The `queries` table.
    pub queries: RecordBatch,
    /// The `ports` table.
    pub ports: RecordBatch,
    /// The `series` table.
    pub series: RecordBatch,
    /// The `throughput` table.
    pub throughput: RecordBatch,
    /// The `pause_tree` table.
    pub pause_tree: RecordBatch,
    /// The `states` table.
    pub states: RecordBatch,
    /// The `paths` table.
    pub paths: RecordBatch,
    /// The `equal_links` table.
    pub equal_links: RecordBatch,
    /// The `conweave` table.
    pub conweave: RecordBatch,
    /// The `tunnels` table.
    pub tunnels: RecordBatch,
    /// The `deadlocks` table.
    pub deadlocks: RecordBatch,
    /// The `jobs` table.
    pub jobs: RecordBatch,
    /// The `collectives` table.
    pub collectives: RecordBatch,
    /// The `ranks` table.
    pub ranks: RecordBatch,
    /// The `timeline` table.
    pub timeline: RecordBatch,
    /// The `kernel_sockets` table.
    pub kernel_sockets: RecordBatch,
    /// The `kernel_counters` table.
    pub kernel_counters: RecordBatch,
}

impl RunResults {
    /// All tables with their names.
    pub fn tables(&self) -> [(&'static str, RecordBatch); 18] {
        [
            ("flows", self.flows.batch()),
            ("queries", self.queries.clone()),
            ("ports", self.ports.clone()),
            ("series", self.series.clone()),
            ("throughput", self.throughput.clone()),
            ("pause_tree", self.pause_tree.clone()),
            ("states", self.states.clone()),
            ("paths", self.paths.clone()),
            ("equal_links", self.equal_links.clone()),
            ("conweave", self.conweave.clone()),
            ("tunnels", self.tunnels.clone()),
            ("deadlocks", self.deadlocks.clone()),
            ("jobs", self.jobs.clone()),
            ("collectives", self.collectives.clone()),
            ("ranks", self.ranks.clone()),
            ("timeline", self.timeline.clone()),
            ("kernel_sockets", self.kernel_sockets.clone()),
            ("kernel_counters", self.kernel_counters.clone()),
        ]
    }
}

/// Runs a scenario: build, run, report. Calls `watch` every few milliseconds; `watch` may stop the run, and the
/// results until then are kept. A stop while the results are being written leaves complete tables, and a manifest that
/// marks the run as incomplete.
///
/// # Errors
/// If the scenario records more data than `options` allow, the results cannot be written, or an internal
/// assertion fails.
pub fn run(
    resolved: &Resolved,
    options: RunOptions,
    mut watch: impl FnMut(RunProgress) -> RunCallbackDecision,
) -> Result<RunResults, RunError> {
    if let Some(problem) = resolved.large.as_ref().filter(|_| !options.force_large) {
        return Err(RunError::TooLarge(Box::new(problem.clone())));
    }
    let scenario = &resolved.scenario;
    let mut watch = Watch { ask: &mut watch, last: RunProgress::before(scenario), stopped: false };
    let built = build::build(resolved, &options, &mut || watch.goes_on())?;
    let folder = report::folder(resolved, &options)?;
    let ended = simulate(scenario, built, folder.as_ref(), &options, &mut watch)?;
    report::report(resolved, ended, folder, options.kernel, &mut watch)
}

/// The progress callback across all phases of a run; after a stop no further phase starts.
pub(crate) struct Watch<'a> {
    ask: &'a mut dyn FnMut(RunProgress) -> RunCallbackDecision,
    last: RunProgress,
    pub(crate) stopped: bool,
}

impl Watch<'_> {
    fn ask(&mut self, now: RunProgress) -> RunCallbackDecision {
        self.last = now;
        self.stopped |= (self.ask)(now) == RunCallbackDecision::Stop;
        if self.stopped { RunCallbackDecision::Stop } else { RunCallbackDecision::Continue }
    }

    /// Calls the progress callback during a phase in which no simulated time passes.
    pub(crate) fn goes_on(&mut self) -> bool {
        !self.stopped && self.ask(self.last) == RunCallbackDecision::Continue
    }

    /// The results of a stopped run are still written; only a second stop interrupts the writing.
    pub(crate) fn is_patient(&mut self) -> bool {
        (self.ask)(self.last) == RunCallbackDecision::Continue
    }
}

impl RunProgress {
    fn before(scenario: &Scenario) -> RunProgress {
        let stop = scenario.stop.time.map(|stop| Time::ZERO + stop);
        RunProgress { now: Time::ZERO, stop, wall_s: 0.0, events: 0, packet_hops: 0, flows: (0, 0) }
    }
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) built: Built,
    pub(crate) ending: RunEnding,
    pub(crate) wall_s: f64,
    pub(crate) series: Series,
    /// The packet capture, if the scenario asks for one and the run has a folder.
    pub(crate) packets: Option<PendingFile>,
}

fn simulate(
    scenario: &Scenario,
    mut built: Built,
    folder: Option<&ResultsFolder>,
    options: &RunOptions,
    watch: &mut Watch,
) -> Result<Ended, RunError> {
    kernel::attach(scenario, &mut built, options)?;
    let topology = Arc::clone(&built.parts.topology);
    let names = Names { topology: &topology, workloads: &[], transports: &[] };
    let network = &mut built.network;
    let mut recording = Recording::begin(scenario, network, &built.parts.settings, &names, folder, options)?;
    let stop = scenario.stop.time.map(|stop| Time::ZERO + stop);
    let limits = RunLimits { time: stop.unwrap_or(Time::MAX), watch_every: WATCH_EVERY };
    let begin = Instant::now();
    let mut failure = None;
    let _watchdog = watch_plugins(scenario)?;
    let ending = guarded(scenario, network, |network| {
        network.run(limits, shield, |network, progress| {
            if let Err(error) = recording.drain(network) {
                failure = Some(error);
                return RunCallbackDecision::Stop;
            }
            watch.ask(RunProgress {
                now: progress.now,
                stop,
                wall_s: begin.elapsed().as_secs_f64(),
                events: progress.events,
                packet_hops: network.total_packet_hops(),
                flows: network.flow_counts(),
            })
        })
    })?;
    let wall_s = begin.elapsed().as_secs_f64();
    let ending = guarded(scenario, network, |network| {
        network.finish_observers(ending.now);
        Ok(ending)
    })?;
    let cause = failure.or_else(|| recording.finish(network).err());
    if let (Some((name, cause)), Some(folder)) = (cause, folder) {
        return Err(folder.failure(name, cause));
    }
    let (series, packets) = (recording.series, recording.packets.map(PacketWriter::into_inner));
    built.jobs.run_alone(scenario, &built.parts, &mut || watch.goes_on());
    Ok(Ended { built, ending, wall_s, series, packets })
}

/// What a run writes while it goes on.
struct Recording<'a> {
    names: &'a Names<'a>,
    series: Series,
    packets: Option<PacketWriter<'a, PendingFile>>,
    /// By transport, what a capture cannot see.
    agreements: Vec<Agreement>,
}

/// The file that could not be written, and why.
type WriteFailure = (&'static str, std::io::Error);

impl<'a> Recording<'a> {
    fn begin(
        scenario: &Scenario,
        network: &mut Network,
        settings: &Settings,
        names: &'a Names<'a>,
        folder: Option<&ResultsFolder>,
        options: &RunOptions,
    ) -> Result<Recording<'a>, RunError> {
        let topology = names.topology;
        let transports = settings.transports.iter().zip(scenario.transport_specs());
        let agreement = |(transport, spec): (&TransportSettings, &TransportSpec)| Agreement {
            cnp_dscp: spec.rdma().map_or(0, |pairs| pairs.cnp_dscp),
            ..transport.tcp().map_or(Agreement { dscp: spec.dscp, ..Agreement::default() }, |config| {
                Agreement::of(config, spec.dscp)
            })
        };
        if let Some(spec) = &scenario.record.series {
            network.enable_sampling(sample_plan(spec, scenario, topology));
        }
        if scenario.record.paths {
            network.enable_path_log();
        }
        if let Some(spec) = &scenario.record.states {
            network.enable_state_log(spec.every, spec.limit as usize);
        }
        let limit = if options.force_large { usize::MAX } else { SERIES_ROWS_MAX as usize };
        let series = Series::begin(folder, names, limit)?;
        let packets = match (&scenario.record.packets, folder) {
            (Some(spec), Some(folder)) => Some(begin_capture(spec, topology, network, folder)?),
            _ => None,
        };
        Ok(Recording { names, series, packets, agreements: transports.map(agreement).collect() })
    }

    /// Writes what the network has observed since the last call.
    fn drain(&mut self, network: &mut Network) -> Result<(), WriteFailure> {
        self.series.add(&network.take_metric_samples());
        if self.series.full().is_some() {
            network.disable_sampling();
        }
        self.series.write_parts(self.names).map_err(|cause| ("series.parquet", cause))?;
        let Some(packets) = &mut self.packets else { return Ok(()) };
        for frame in network.take_captured_frames() {
            let agreement = |flow| self.agreements[network.transport_index(flow)];
            packets.write(&frame, agreement).map_err(|cause| ("packets.pcapng", cause))?;
        }
        Ok(())
    }

    fn finish(&mut self, network: &mut Network) -> Result<(), WriteFailure> {
        self.drain(network)?;
        self.series.write_rest(self.names).map_err(|cause| ("series.parquet", cause))
    }
}

/// Turns a failed assertion into an error with scenario, seed and simulated time.
fn guarded(
    scenario: &Scenario,
    network: &mut Network,
    work: impl FnOnce(&mut Network) -> Result<RunEnding, RunFailed>,
) -> Result<RunEnding, RunError> {
    let ran = caught(|| work(network)).map_err(|panic| panic.to_string());
    let (scenario, seed, time) = (scenario.name.clone(), scenario.seed, network.now());
    let ran = match ran {
        Ok(Err(failed)) if failed.of_stack => {
            return Err(RunError::Kernel { scenario, seed, time, message: failed.message });
        }
        ran => ran,
    };
    ran.and_then(|ran| ran.map_err(|failed| failed.message)).map_err(|message| {
        match plugin::failure_from_panic(&message) {
            Some(message) => RunError::Plugin { scenario, seed, time, message: message.to_owned() },
            None => RunError::Internal { scenario, seed, time, message },
        }
    })
}

/// Starts a watchdog for plug-ins, because a plug-in call that never returns would block the run.
fn watch_plugins(scenario: &Scenario) -> Result<Option<plugin::PluginWatchdog>, RunError> {
    if scenario.plugins().is_empty() {
        return Ok(None);
    }
    let started = plugin::PluginWatchdog::start();
    started
        .map(Some)
        .map_err(|cause| RunError::Build(format!("no thread for the watchdog of plug-ins: {cause}")))
}

fn sample_plan(spec: &SeriesSpec, scenario: &Scenario, topology: &Topology) -> SamplePlan {
    let wanted = |name: &str| spec.flows.iter().any(|glob| matches_glob(glob, name));
    SamplePlan {
        every: spec.every,
        ports: matching_ports(&spec.ports, topology),
        workloads: scenario.workload.iter().map(|workload| wanted(&workload.name)).collect(),
    }
}

/// Captures both directions of the links whose ports match a glob.
fn begin_capture<'a>(
    spec: &PacketsSpec,
    topology: &'a Topology,
    network: &mut Network,
    folder: &ResultsFolder,
) -> Result<PacketWriter<'a, PendingFile>, RunError> {
    let mut ports = matching_ports(&spec.ports, topology);
    ports.extend(ports.clone().into_iter().map(PortId::reverse));
    ports.sort_unstable();
    ports.dedup();
    network.enable_frame_capture(&ports, spec.limit);
    if !spec.every_hop {
        network.capture_first_hop_only();
    }
    let file = folder.begin("packets.pcapng")?;
    PacketWriter::new(file, topology, &ports).map_err(|cause| folder.failure("packets.pcapng", cause))
}
