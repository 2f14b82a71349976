//! A parallel application: ranks on hosts, with one connection per pair of communicating ranks.

use super::collectives::{CollectivesSpec, Library, Slice, kinds_of_calls};
use super::context::{Context, SIZE_MAX, TIMES, known_host, remedy_of_file};
use super::maker::{Maker, Source, mean_host_rate};
use super::trace::{choice_of_pattern, choices, what};
use pauseframe_apps::{Application, Choices, Job, Kind, Op, Options, Placement, Rooms, Transfer, is_of_nccl};
use pauseframe_fabric::{
    ApplicationMessage, FlowSpec, OperationClock, OperationId, OperationPace, Rounds, SkippedMessages, Workload,
};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use pauseframe_schema::{choices, table};
use pauseframe_topology::Topology;
use pauseframe_units::limits::Limit;
use pauseframe_units::{Bytes, NodeId, Span, Time, files, counted};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const EAGER_LIMIT: Bytes = Bytes(65_536);
const ENVELOPE: Bytes = Bytes(32);

table! {
    /// Ranks that compute and send messages: from a trace, a pattern, or programs written with `pauseframe.Program`
    pub struct ApplicationSpec {
        /// The steps of the ranks
        application: ApplicationSource = try_from(what(t, context).map(ApplicationSource));
        /// Factor for all compute times
        compute_scale: f64 = or_in(1.0, 0.0..=1e6);
        /// Largest message that is sent without waiting for a posted receive
        eager_limit: Bytes = or_in(EAGER_LIMIT, Bytes::ZERO..=SIZE_MAX);
        /// Header bytes of each message; announcements and requests consist of them only
        envelope: Bytes = or_in(ENVELOPE, Bytes::ZERO..=Bytes(65_536));
        /// Collective algorithms that replace the choice by size, as in ["allreduce = ring"]
        algorithms: Vec<String> = or(Vec::new());
        /// The collective algorithms, parsed.
        choices: Choices = try_from(choices(t, &algorithms));
        /// The library of collective operations, and what messages cost
        collectives: CollectivesSpec = section(|t| CollectivesSpec::read(t, Library::Mpi, Slice::DEFAULT)) => {
            if let Some(key) = collectives.idle_key() {
                let message = || "is a key of NCCL's collectives".to_owned();
                t.check(false, key, message, "set collectives.library = \"nccl\", or remove it");
            }
            refuse_second_choice(t, &algorithms);
            let is_mpi = collectives.library == Library::Mpi;
            let message = || "are MPI's, and the library is NCCL".to_owned();
            t.check(is_mpi || algorithms.is_empty(), "algorithms", message, "set collectives.algorithm, or remove them");
            if let Some(ApplicationSource(application)) = &application {
                collectives.warn_of_idle_keys(t, application, (Slice::DEFAULT, context.gpus_per_server.is_some()));
                warn_of_scale_without_compute(t, compute_scale, application);
                if is_mpi {
                    warn_of_absent_operations(t, &algorithms, application);
                } else if !kinds_of_calls(application).into_iter().any(is_of_nccl) {
                    t.warn_if_idle("collectives.library", true, "ranks call no operation of NCCL");
                } else if !sends_as_mpi(application) {
                    let why = "NCCL carries all operations, and sends no messages of MPI";
                    t.warn_if_idle("eager_limit", eager_limit != EAGER_LIMIT, why);
                    t.warn_if_idle("envelope", envelope != ENVELOPE, why);
                }
            }
        };
        /// Number of ranks that share a host
        ranks_per_host: u32 = or_in(1, 1..=4096);
        /// Placement of ranks: hosts in order, racks in turn, at random, or as in hosts; with topology.scale_up the same of servers, which stay whole
        placement: PlacementName = by(placement);
        /// Host of each rank
        hosts: Option<Vec<String>> = by(hosts_of_ranks, context) => {
            let ranks = application.as_ref().map(|source: &ApplicationSource| source.0.ranks());
            check_places(t, context, ranks, ranks_per_host, placement, hosts.as_deref(), &[]);
        };
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// Also run the application without the other workloads, and report the slowdown through them
        alone: bool = or(false);
        /// Record the activities of each rank in the table timeline, which the report draws
        timeline: bool = or(false);
        /// Hosts of its last ranks: storage that training steps write to.
        storage: Vec<String> = from(Vec::new());
    }
    pub fn try_read(t, context: &Context);
}

choices! {
    /// Communication patterns instead of a trace
    pub enum PatternName {
        /// A sum over all ranks, returned to all
        AllReduce = "all_reduce",
        /// A block from each rank to each other
        AllToAll = "all_to_all",
        /// A block from each rank, returned to all
        AllGather = "all_gather",
        /// A sum over all ranks, of which each gets a block
        ReduceScatter = "reduce_scatter",
        /// Each rank sends to the next rank
        Pipeline = "pipeline",
        /// Centres to all ranks, sums to one
        KMeans = "k_means",
        /// Neighbours on a grid exchange messages
        Stencil = "stencil",
    }
}

choices! {
    /// Placement of ranks
    pub enum PlacementName {
        /// The next free hosts in the order of the topology
        Packed = "packed",
        /// A host of each rack in turn
        RoundRobin = "round_robin",
        /// Free hosts at random
        Random = "random",
        /// The hosts listed in `hosts`
        Hosts = "hosts",
    }
}

/// Without this key: as `hosts` lists, if given.
pub(crate) fn placement(t: &mut Table, key: &'static str, doc: &str) -> PlacementName {
    let listed = t.has("hosts") || t.has("hosts_file");
    let (default, origin) = if listed {
        (PlacementName::Hosts, Origin::Computed("hosts".to_owned()))
    } else {
        (PlacementName::Packed, Origin::Default)
    };
    t.or_because(key, default, origin, "\"packed\"; \"hosts\" with hosts", doc)
}

/// The words of a file, with their lines.
fn host_names(path: &Path) -> Result<Vec<(u32, String)>, String> {
    let text = files::read_text(path).map_err(|error| error.to_string())?;
    Limit::Rows.check(text.split_whitespace().count() as u64, "names")?;
    let of_line = |(number, line): (u32, &str)| {
        let words: Vec<_> = line.split_whitespace().map(|word| (number, word.to_owned())).collect();
        words
    };
    Ok((1..).zip(text.lines()).flat_map(of_line).collect())
}

/// The hosts that a file names; those that do not exist are mistakes of the file, each with its line.
fn hosts_of_file(t: &mut Table, file: &str, context: &Context) -> Option<Vec<String>> {
    let names = match host_names(&context.base_dir.join(file)) {
        Ok(names) => names,
        Err(error) => {
            t.check(false, "hosts_file", || format!("{file}: {error}"), remedy_of_file(context, file));
            return None;
        }
    };
    for (line, name) in &names {
        let Some(hosts) = context.hosts.filter(|hosts| !hosts.contains(name)) else { continue };
        let hint = if t.ledger.is_full() { String::new() } else { hosts.suggestion(name) };
        t.check(false, "hosts_file", || format!("{file}, line {line}: {}", hosts.complaint(name)), &hint);
    }
    Some(names.into_iter().map(|(_, name)| name).collect())
}

pub(crate) fn hosts_of_ranks(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<Vec<String>> {
    let file: Option<String> =
        t.source("hosts_file", "none: see hosts", "File with one host name per line");
    let mut hosts: Option<Vec<String>> = t.source(key, "none", doc);
    let of_file = file.and_then(|file| hosts_of_file(t, &file, context));
    let is_of_file = of_file.is_some();
    hosts = of_file.or(hosts);
    if let Some(hosts) = &hosts {
        let read = Origin::Computed("read".to_owned());
        let origin = if t.has(key) { t.origin_of(key) } else { read };
        t.ledger.entry(t.at(key), hosts.toml(), origin);
        for name in hosts.iter().filter(|_| !is_of_file) {
            known_host(t, key, name, context);
        }
    }
    hosts
}

/// Checks that all ranks have a place; none is on a host of `storage`.
pub(crate) fn check_places(
    t: &mut Table,
    context: &Context,
    ranks: Option<u32>,
    ranks_per_host: u32,
    placement: PlacementName,
    hosts: Option<&[String]>,
    storage: &[String],
) {
    let listed = placement == PlacementName::Hosts;
    t.check(!listed || hosts.is_some(), "hosts", || "is required: the host of each rank".to_owned(), "");
    t.check(listed || hosts.is_none(), "placement", || "hosts are listed".to_owned(), "remove one of them");
    t.warn_if_idle("ranks_per_host", listed && ranks_per_host != 1, "hosts names the host of each rank");
    let Some(ranks) = ranks else { return };
    if let Some(names) = hosts {
        let message = || format!("names {} for {}", counted(names.len(), "host"), counted(ranks, "rank"));
        let key = if t.has("hosts_file") { "hosts_file" } else { "hosts" };
        t.check(names.len() == ranks as usize, key, message, "name one for each rank");
    }
    let room = context.hosts.map_or(u64::MAX, |hosts| hosts.count().saturating_sub(storage.len()) as u64 * u64::from(ranks_per_host));
    let message = || format!("no room for {}: the hosts take {room}", counted(ranks, "rank"));
    // A rank of training is a GPU, and a GPU a host.
    let (key, hint) = if t.chosen() == "training" {
        ("gpus", "lower it, or enlarge the topology")
    } else {
        ("ranks_per_host", "enlarge the topology")
    };
    t.check(listed || u64::from(ranks) <= room, key, message, hint);
}

/// Whether ranks send messages of MPI although the library of collective operations is NCCL.
fn sends_as_mpi(application: &Application) -> bool {
    let is_message = |op: &Op| matches!(op, Op::Send { .. } | Op::Receive { .. });
    application.programs.iter().any(|program| program.ops.iter().any(is_message))
        || !kinds_of_calls(application).into_iter().all(is_of_nccl)
}

/// Warns of a factor for compute times where no rank computes.
pub(crate) fn warn_of_scale_without_compute(t: &mut Table, scale: f64, application: &Application) {
    let computes = |op: &Op| matches!(op, Op::Compute(time) if *time > Span::ZERO);
    let is_idle = (scale - 1.0).abs() > 0.0 && !application.programs.iter().any(|program| program.ops.iter().any(computes));
    t.warn_if_idle("compute_scale", is_idle, "no rank computes");
}

/// Refuses two choices for the operation of a pattern, unless they are the same.
fn refuse_second_choice(t: &mut Table, algorithms: &[String]) {
    let Some((kind, of_pattern)) = choice_of_pattern(t) else { return };
    let is_other = |text: &&String| {
        let (name, algorithm) = text.split_once('=').unwrap_or_default();
        name.trim() == kind.name() && algorithm.trim() != of_pattern
    };
    if let Some(text) = algorithms.iter().find(is_other) {
        let message = || format!("algorithms names one for {kind} too ({text:?})");
        t.check(false, "algorithm", message, "keep one of the two");
    }
}

/// Warns of algorithms for operations that no rank calls.
fn warn_of_absent_operations(t: &mut Table, algorithms: &[String], application: &Application) {
    let kinds = kinds_of_calls(application);
    for text in algorithms {
        let kind = text.split_once('=').and_then(|(kind, _)| kind.trim().parse::<Kind>().ok());
        if let Some(kind) = kind.filter(|kind| !kinds.contains(kind)) {
            t.warn_if_idle("algorithms", true, &format!("{text:?} is for {kind}, which no rank calls"));
        }
    }
}

/// The steps of all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct ApplicationSource(pub Arc<Application>);

impl Source for ApplicationSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        let placed = maker.context.placed.get(&usize::from(maker.workload));
        let hosts = placed.cloned().expect("all applications are placed");
        Box::new(ApplicationWorkload::new(self, hosts, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn at_once(&self, _: u64) -> u64 {
        u64::from(self.application.0.ranks()) * 8
    }
}

/// The workload of a job in the network.
#[derive(Debug)]
pub struct ApplicationWorkload {
    /// The steps of its ranks.
    pub job: Job,
    transport: u16,
}

impl ApplicationWorkload {
    fn new(spec: &ApplicationSpec, hosts: Vec<NodeId>, maker: &Maker) -> ApplicationWorkload {
        let workers = spec.application.0.workers() as usize;
        let options = Options { places: places(&hosts, workers, maker), ..options(spec, rates(maker)) };
        let hosts = hosts.into_iter().map(|host| host.0).collect();
        let start = Time::ZERO + spec.start;
        let job = Job::new(Arc::clone(&spec.application.0), options, hosts, start);
        ApplicationWorkload { job, transport: maker.transport }
    }
}

/// Server and rail of each rank; each host is a server if there are no scale-up links. Storage has servers and rails where no
/// GPU is, so that no GPU relays its data.
fn places(hosts: &[NodeId], workers: usize, maker: &Maker) -> Vec<(u32, u32)> {
    let links = maker.context.scale_up.as_ref();
    let place = |host: &NodeId| links.and_then(|links| links.place_of_host(*host)).unwrap_or((host.0, 0));
    let storage = (0..hosts.len().saturating_sub(workers) as u32).map(|at| (u32::MAX - at, u32::MAX));
    hosts.iter().take(workers).map(place).chain(storage).collect()
}

/// What a host sends to its server and to the network, in bytes per second.
fn rates(maker: &Maker) -> [f64; 2] {
    let network = mean_host_rate(maker.context.topology) / 8.0;
    let within = maker.context.scale_up.as_ref().map_or(network, |links| links.rate.0 as f64 / 8.0);
    [within, network]
}

/// Converts the keys of `spec` to options of the replay; `rates` are those of a host to its server and to the network.
pub fn options(spec: &ApplicationSpec, rates: [f64; 2]) -> Options {
    Options {
        compute_scale: spec.compute_scale,
        eager_limit: spec.eager_limit.0,
        envelope: spec.envelope.0,
        algorithms: spec.choices.clone(),
        nccl: spec.collectives.nccl(rates),
        sending: spec.collectives.sending(),
        places: Vec::new(),
        timeline: spec.timeline,
    }
}

impl Workload for ApplicationWorkload {
    fn next_start_time(&self) -> Option<Time> {
        self.job.next_time()
    }

    fn next_flow(&mut self) -> FlowSpec {
        unreachable!("an application sends messages; after `wake` its next start is later")
    }

    fn on_start_time(&mut self, now: Time) {
        self.job.on_time(now);
    }

    fn next_message(&mut self) -> Option<ApplicationMessage> {
        let transfer = self.job.next_transfer()?;
        Some(ApplicationMessage {
            connection: transfer.connection,
            from: NodeId(transfer.from),
            to: NodeId(transfer.to),
            bytes: transfer.bytes,
            token: transfer.token,
            notify: transfer.notify,
            transport: self.transport,
        })
    }

    fn on_message_delivered(&mut self, token: u32, now: Time) {
        self.job.on_delivered(token, now);
    }

    fn on_message_sent(&mut self, token: u32, now: Time) {
        self.job.on_sent(token, now);
    }

    fn has_sent_all(&self) -> bool {
        self.job.is_over()
    }

    fn rounds(&mut self) -> Option<&mut dyn Rounds> {
        Some(self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Rounds for ApplicationWorkload {
    fn operation_clock(&self) -> Option<OperationClock> {
        let clock = self.job.operation_clock()?;
        Some(OperationClock {
            operation: clock.operation,
            arrived: clock.arrived,
            last: clock.last,
            connections: clock.connections,
            round: clock.round,
            room: clock.room,
            left: clock.left,
        })
    }

    fn operation_paces(&self, now: Time) -> Option<BTreeMap<OperationId, OperationPace>> {
        let pace = |pace: pauseframe_apps::OperationPace| OperationPace {
            arrived: pace.arrived,
            connections: pace.connections,
            extremes: pace.extremes,
            room: pace.room,
        };
        let paces = self.job.operation_paces(now)?;
        Some(paces.into_iter().map(|(operation, of)| (operation, pace(of))).collect())
    }

    fn next_timer(&self) -> Option<Time> {
        self.job.next_timer()
    }

    fn skip_messages(&mut self, messages: &BTreeMap<OperationId, u32>, by: Span) -> Vec<SkippedMessages> {
        let skipped = |transfer: Transfer| SkippedMessages {
            connection: transfer.connection,
            from: NodeId(transfer.from),
            bytes: transfer.bytes,
        };
        self.job.skip_slices(messages, by).into_iter().map(skipped).collect()
    }
}

/// The hosts of the ranks of all applications of a scenario, by position of the workload. Jobs are placed in their
/// order and share no place. Servers of `gpus_per_server` hosts stay whole; without them hosts go rack by rack. Hosts of storage,
/// and others in their servers, take no rank unless `hosts` places it there.
///
/// # Errors
/// Position of the workload, and the reason why its ranks cannot be placed.
pub fn place<'a>(
    workloads: impl Iterator<Item = Option<&'a ApplicationSpec>>,
    topology: &Topology,
    gpus_per_server: Option<u32>,
    seed: u64,
) -> Result<BTreeMap<usize, Vec<NodeId>>, (usize, String)> {
    let mut placed = BTreeMap::new();
    let specs: Vec<(usize, &ApplicationSpec)> =
        workloads.enumerate().filter_map(|(index, spec)| Some((index, spec?))).collect();
    let storage = |spec: &ApplicationSpec| -> Vec<u32> {
        spec.storage.iter().filter_map(|name| topology.find(name)).map(|node| node.0).collect()
    };
    let taken: BTreeSet<u32> = specs.iter().flat_map(|(_, spec)| storage(spec)).collect();
    let mut rooms = servers(topology, gpus_per_server.unwrap_or(1), &taken);
    for (index, spec) in specs {
        let rule = match spec.placement {
            PlacementName::Packed => Placement::Packed,
            PlacementName::RoundRobin => Placement::RoundRobin,
            PlacementName::Random => Placement::Random,
            PlacementName::Hosts => {
                let find = |name: &String| topology.find(name).map_or(0, |node| node.0);
                Placement::Hosts(spec.hosts.iter().flatten().map(find).collect())
            }
        };
        let mut lots = pauseframe_engine::random_stream(seed, "application/placement", index as u64);
        let ranks = spec.application.0.workers();
        let hosts = rooms.place(&rule, ranks, spec.ranks_per_host, |below| lots.uniform_below(below));
        let why = match (taken.is_empty(), gpus_per_server) {
            (true, _) => "",
            (false, None) => ", since targets of checkpoints have none",
            (false, Some(_)) => ", since servers with a target of checkpoints have none",
        };
        let mut hosts = hosts.map_err(|reason| (index, format!("{reason}{why}")))?;
        hosts.extend(storage(spec));
        placed.insert(index, hosts.into_iter().map(NodeId).collect());
    }
    Ok(placed)
}

/// The servers of a topology by rack, that of their first host: a server's GPUs may be in several racks (rails). Servers with a host of storage have no
/// room.
fn servers(topology: &Topology, gpus: u32, storage: &BTreeSet<u32>) -> Rooms {
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let mut racks: Vec<(NodeId, Vec<Vec<u32>>)> = Vec::new();
    for server in hosts.chunks(gpus as usize) {
        let server_hosts: Vec<u32> = server.iter().map(|host| host.0).collect();
        if server_hosts.iter().any(|host| storage.contains(host)) {
            continue;
        }
        let leaf = topology.peer(topology.nodes()[server[0]].ports[0]);
        match racks.iter_mut().find(|(known, _)| *known == leaf) {
            Some((_, servers)) => servers.push(server_hosts),
            None => racks.push((leaf, vec![server_hosts])),
        }
    }
    Rooms::new(racks.into_iter().map(|(_, servers)| servers).collect(), topology.nodes().len() as u32)
}
