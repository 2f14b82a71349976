//! Reads the text of a scenario into a complete [`Scenario`], in which every key has a value. Reports all
//! mistakes at once, the origin of every value, and the nearest valid key for a misspelt one.
//!
//! The keys of each table are declared in `spec` and `workload`; the reference of all keys comes from the
//! same declarations ([`options`]). This module sets the order of reading, which follows the dependences
//! between tables: switches depend on the transports in use, and the transports in use on the workloads. The
//! module also calls the checks that involve several tables. It does not read `[sweep]`, so a `[sweep]` table
//! is an unknown key here.

mod checks;
mod explain;
mod kernel;
mod routes;
mod transports;

pub use explain::{Explained, expanded, explained, stack_of};
pub(crate) use kernel::{kernel_hosts, name_in_linux};
pub use pauseframe_schema::docs::OptionDoc;
pub use pauseframe_schema::document::Input;
pub use pauseframe_schema::ledger::{Entry, Origin};

use crate::presets;
use crate::spec::switch::Demands;
use crate::spec::{
    Clocks, Fabric, HostSpec, PluginsSpec, QcnSettings, RecordSpec, Scenario, Stop, SwitchSpec,
    TransportKindName, TransportSpec, WorkloadKind, WorkloadSpec, faults, graph, routing, topology,
};
use crate::volume::{self, Asked};
use checks::Named;
use pauseframe_schema::document::{self, Item, Value};
use pauseframe_schema::error::{Problem, ScenarioError};
use pauseframe_schema::language::Language;
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::short::Short;
use pauseframe_schema::value::Setting;
use pauseframe_schema::{json, text};
use pauseframe_topology::Topology;
use pauseframe_transport::EcnMode;
use pauseframe_units::Bytes;
use pauseframe_workload::context::{Context, TIME_MAX};
use pauseframe_workload::hosts::Hosts;
use pauseframe_workload::{self as workload, Partial};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// The scenario language: all keys, short forms, and the order of tables.
pub(crate) static SCENARIO: Language = Language::new(read_all, SHORTS, ORDER);

/// The tables in the order in which people expect to read them.
const ORDER: &[&str] = &[
    "name",
    "seed",
    "clocks",
    "plugins",
    "stop",
    "topology",
    "routing",
    "host",
    "switch",
    "qcn",
    "transport",
    "transports",
    "workload",
    "failure",
    "corruption",
    "pause_storm",
    "record",
];

/// Short forms of values.
const SHORTS: &[(&str, Short)] = &[
    ("stop", Short::Key("time")),
    ("switch.buffer", Short::Key("size")),
    ("switch.marker", Short::Key("kind")),
    ("switch.pfc", Short::True),
    ("switch.pfc.watchdog", Short::True),
    ("switch.pfc.headroom_pool", Short::True),
    ("switch.scheduler", Short::Key("kind")),
    ("switch.classes.*.marker", Short::Key("kind")),
    ("qcn", Short::TextOrTrue("preset")),
    ("record.series", Short::True),
    ("record.packets", Short::True),
    ("record.pause_tree", Short::True),
    ("record.states", Short::True),
    ("record.kernel", Short::True),
    ("topology.links.*", Short::List("ends")),
    ("workload", Short::One),
    ("workload.*.sizes", Short::Text(is_size, ["fixed", "size"], ["cdf", "source"])),
    ("workload.*.burst.sizes", Short::Text(is_size, ["fixed", "size"], ["cdf", "source"])),
];

fn is_size(text: &str) -> bool {
    text.parse::<Bytes>().is_ok()
}

/// Calls the readers of all tables, so that the reference can list their keys.
fn read_all(ledger: &mut Ledger) {
    scenario(ledger, Path::new("."), "the name of the file");
}

/// Every key: path, condition under which it exists, type, default and description.
pub fn options() -> &'static [OptionDoc] {
    SCENARIO.options()
}

/// Updates the reference, the schema and the hints after a plug-in has added a congestion control with new
/// keys.
pub fn explore_again() {
    SCENARIO.explore_again();
}

/// URL at which the schema of scenario files is published.
pub const SCHEMA_URL: &str =
    "https://raw.githubusercontent.com/pauseframe/pauseframe/main/docs/reference/scenario.schema.json";

/// A JSON Schema (draft 2020-12) of scenario files, for editors and validators.
pub fn schema() -> serde_json::Value {
    let mut schema = json::schema(&SCENARIO, SCHEMA_URL);
    let tables = [
        ("sweep", "Varies the scenario: for `pauseframe sweep`"),
        ("tune", "Searches for settings: for `pauseframe tune`"),
    ];
    for (name, about) in tables {
        schema["properties"][name] = json!({ "type": "object", "description": about });
    }
    schema
}

/// Maximum length of a scenario's name in bytes, so that a file system accepts the name with a seed appended.
const NAME_MAX: usize = 200;

/// A resolved scenario: every key has a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// The scenario to run.
    pub scenario: Scenario,
    /// Findings that the user should check before trusting the results.
    pub warnings: Vec<String>,
    /// Reason why the run needs [`crate::RunOptions::force_large`]: the scenario would record too much data.
    pub large: Option<Problem>,
    topology: Arc<Topology>,
    entries: Vec<Entry>,
}

impl Resolved {
    /// The graph of the `[topology]` table, built once for both the checks and the run.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// The scenario as TOML with every key, grouped by table. Resolving the TOML text again gives an equal
    /// scenario.
    pub fn to_toml(&self) -> String {
        format!("#:schema {SCHEMA_URL}\n\n{}", text::to_toml(&self.entries))
    }

    /// The same scenario with another seed on the same graph: equal to the result of [`resolve`], but without
    /// reading the file again.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Resolved {
        let mut other = self.clone();
        other.scenario.seed = seed;
        if let Some(entry) = other.entries.iter_mut().find(|entry| entry.path == "seed") {
            (entry.value, entry.origin) = (seed.to_string(), Origin::Seed);
        }
        other
    }

    /// Every key with its value and the origin of the value, in the order of [`Resolved::to_toml`].
    pub fn explain(&self) -> &[Entry] {
        &self.entries
    }
}

/// Reads a scenario and fills in every default.
///
/// # Errors
/// All mistakes in the scenario. A TOML syntax error hides the other mistakes.
pub fn resolve(input: &Input) -> Result<Resolved, ScenarioError> {
    let refused = |problems| ScenarioError { problems };
    let (root, problems) = document::load(input, SHORTS).map_err(refused)?;
    let mut ledger = Ledger::new(&root, input.file_name, &SCENARIO);
    ledger.extend(problems);
    let stem = Path::new(input.file_name).file_stem().and_then(|stem| stem.to_str());
    let scenario = scenario(&mut ledger, input.base_dir, stem.unwrap_or("scenario"));
    let (mut entries, mut warnings) = ledger.close().map_err(refused)?;
    entries.sort_by_key(|entry| SCENARIO.rank(&entry.path));
    let read = scenario.ok_or_else(|| refused(vec![incomplete(input.file_name)]))?;
    let (scenario, topology, large) = read;
    let topology = Arc::new(topology);
    let of_headroom = crate::headroom::warnings(&scenario, &topology, input.file_name);
    warnings.extend(of_headroom.map_err(|problem| refused(vec![*problem]))?);
    Ok(Resolved { scenario, warnings, large, topology, entries })
}

/// The error for a part that is missing although no reader reported a mistake. A missing part without a
/// reported mistake is a bug in the readers, but no reason to panic.
fn incomplete(file_name: &str) -> Problem {
    Problem {
        path: String::new(),
        place: file_name.to_owned(),
        line: None,
        value: String::new(),
        message: "the scenario is incomplete".to_owned(),
        hint: "please report this file".to_owned(),
    }
}

/// A scenario, its graph, and the reason why its recordings are too large, if they are.
type Read = (Scenario, Topology, Option<Problem>);

/// Reads all tables. Returns `None` only if a mistake was recorded.
fn scenario(ledger: &mut Ledger, base_dir: &Path, default_name: &str) -> Option<Read> {
    let mut root = Table::root(ledger);
    let t = &mut root;
    t.about("Scenario", "A scenario");
    let name = name(t, default_name);
    let seed = t.or("seed", 1, "Master seed of all named random streams");
    let clocks = t.or("clocks", Clocks::Real, CLOCKS);
    let plugins = t.section("plugins", PluginsSpec::read);
    let stop = t.section("stop", Stop::read);
    let topology = t.section("topology", |t| topology::topology(t, base_dir));
    let graph = topology.as_ref().and_then(|spec| graph::checked(spec, t.ledger));
    let labels = topology.as_ref().map(|spec| spec.kind.labels()).unwrap_or_default();
    let fabric = Fabric { graph: graph.as_ref(), labels: &labels, base_dir };
    let routing = t.section("routing", |t| routing::routing(t, &fabric));
    let hosts = graph.as_ref().map(Hosts::of);
    let qcn_is_on = t.is_on("qcn");
    let host = t.section("host", |t| HostSpec::read(t, hosts.as_ref(), qcn_is_on));
    let mut transports = transports::read(t, routing.reorders());
    let workloads = read_workloads(t, base_dir, &stop, hosts.as_ref(), &mut transports);
    let demands = demands(&transports, routing.lanes());
    let switch = t.section("switch", |t| SwitchSpec::read(t, &demands));
    let qcn = t.switchable("qcn", Absent::Off(Origin::Default), "false", QCN, QcnSettings::read);
    let record = t.section("record", RecordSpec::read);
    let failure = faults::failures(t);
    let corruption = faults::corruption(t);
    let pause_storm = faults::pause_storms(t);
    root.finish();

    if ledger.documentation.is_some() {
        return None;
    }
    plugins.settle(ledger, transports.iter().map(|transport| &transport.spec));
    settle_transports(ledger, &mut transports, &switch, &workloads);
    checks::host_names(ledger, &host, hosts.as_ref());
    checks::workloads(ledger, &workloads, &host);
    if let Some(graph) = &graph {
        faults::check(ledger, graph, &failure, &corruption, &stop);
        faults::check_pauses(ledger, graph, &pause_storm, switch.pfc.as_ref(), &stop);
        checks::places(ledger, graph, &workloads, seed);
        checks::markers(ledger, &switch, graph);
    }
    checks::end(ledger, &stop, &workloads);
    checks::room_for_frames(ledger, &host, &switch, &transports);
    checks::thresholds(ledger, &switch, graph.as_ref());
    checks::transports(ledger, &switch, &transports, &workloads);
    checks::classes(ledger, &switch);
    routes::judge(ledger, &routing, (graph.as_ref(), &labels), &switch, &transports);
    checks::datagrams(ledger, &host, &workloads);
    checks::queue_pairs(ledger, &host, &transports);
    checks::reads(ledger, &transports, &workloads);
    checks::marks_of_datagrams(ledger, &switch, &workloads);
    checks::qcn(ledger, qcn.as_ref(), &host, &switch, &routing);
    let others = kernel::Others {
        graph: graph.as_ref(),
        routing: &routing,
        qcn: qcn.as_ref(),
        transports: &transports,
        workloads: &workloads,
        record: &record,
    };
    kernel::check(ledger, &host, &others);

    let mut transports = transports.into_iter().map(|transport| (transport.name, transport.spec));
    let scenario = Scenario {
        name,
        seed,
        clocks,
        stop,
        topology: topology?,
        routing,
        host,
        switch,
        qcn,
        transport: transports.next()?.1,
        transports: transports.collect(),
        workload: workloads.into_iter().map(complete).collect::<Option<Vec<_>>>()?,
        failure,
        corruption,
        pause_storm,
        record,
    };
    let graph = graph?;
    let large = too_large(&scenario, &graph, ledger.file_name());
    Some((scenario, graph, large))
}

/// Sets the keys of transports whose defaults depend on the switches and on the workloads.
fn settle_transports(
    ledger: &mut Ledger,
    transports: &mut [Named],
    switch: &SwitchSpec,
    workloads: &[Partial],
) {
    let lossless = switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    for Named { path, spec, priority, is_used, .. } in transports.iter_mut() {
        transports::settle_priority(ledger, path, spec, *priority, (lossless, switch), *is_used);
    }
    for transport in transports {
        let runs_on_it = |workload: &&Partial| {
            workload.transport == transport.name
                && matches!(workload.kind, Some(WorkloadKind::Application(_)))
        };
        if let Some(application) = workloads.iter().find(runs_on_it) {
            transports::settle_small_segments(ledger, transport, &application.name);
        }
    }
}

fn too_large(scenario: &Scenario, topology: &Topology, file_name: &str) -> Option<Problem> {
    let lossless = scenario.switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    let lanes = scenario.routing.vlans.as_ref().map_or(0, |vlans| vlans.tables.0.lanes());
    let lanes = &lossless[..lanes.min(lossless.len())];
    let of_cnps =
        |spec: &TransportSpec| (spec.kind == TransportKindName::Rdma).then_some(spec.rdma_cnp_priority);
    let transports = scenario.transport_specs().map(|spec| spec.priority);
    let transports = transports.chain(scenario.transport_specs().filter_map(of_cnps));
    let cnm = scenario.qcn.as_ref().map(|qcn| qcn.cnm_priority);
    let priorities = volume::priorities(transports, &scenario.workload, lanes, cnm);
    let asked = Asked {
        record: &scenario.record,
        stop: scenario.stop.time,
        workloads: &scenario.workload,
        priorities: &priorities,
        lossless,
        topology,
    };
    asked.too_large(file_name)
}

fn complete(Partial { name, transport, kind }: Partial) -> Option<WorkloadSpec> {
    Some(WorkloadSpec { name, transport, kind: kind? })
}

const CLOCKS: &str = "real: frames that arrive at the same instant go in random order, and hosts have automatic jitter; \
                      ideal: the smaller port goes first, and automatic jitter is zero";

const QCN: &str = "Quantized congestion notification (IEEE 802.1Qau) in all switches and NICs, or false; a text alone names the \
                   preset";

/// The scenario's name, which becomes part of the results folder's name and must not point outside of the
/// parent folder.
fn name(t: &mut Table, default: &str) -> String {
    let name: String = t.or("name", default.to_owned(), "Name of the results: not a path, at most 200 bytes");
    let of_file = if t.has("name") { "" } else { ", the name of the file," };
    if let Some(flaw) = wrong_name(&name) {
        let hint = "choose a plain name, as in name = \"incast\"; --out names the folder of the results";
        t.check(false, "name", || format!("{}{of_file} {flaw}", shown(&name)), hint);
    }
    name
}

/// Reason why a name cannot name a folder on every operating system.
fn wrong_name(name: &str) -> Option<String> {
    const FORBIDDEN: &str = "/\\:*?\"<>|";
    if name.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    if name.len() > NAME_MAX {
        return Some(format!("has {} bytes; at most {NAME_MAX} are allowed", name.len()));
    }
    if name.chars().any(char::is_control) {
        return Some("has control characters".to_owned());
    }
    if let Some(c) = name.chars().find(|c| FORBIDDEN.contains(*c)) {
        return Some(format!("has a {c:?}, which names of folders cannot have"));
    }
    if name.starts_with(['.', '-', '~']) || name.trim() != name {
        return Some("begins with '.', '-', '~' or a blank, or ends with a blank".to_owned());
    }
    None
}

/// A name in quotes for messages, without control characters and shortened if too long.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(60).collect();
    format!("{short:?}{}", if short.len() < name.len() { "..." } else { "" })
}

/// Whether the file has a time at which the run ends, right or wrong.
fn is_stop_given(root: &Item) -> bool {
    root.get("stop").is_some_and(|stop| !matches!(stop.value, Value::Table(_)) || stop.get("time").is_some())
}

/// Reads `[[workload]]`, and marks the transports in use.
fn read_workloads(
    t: &mut Table,
    base_dir: &Path,
    stop: &Stop,
    hosts: Option<&Hosts>,
    transports: &mut [Named],
) -> Vec<Partial> {
    let names: Vec<String> = transports.iter().map(|transport| transport.name.clone()).collect();
    // A mistake in `stop` is reported once, and not again for each workload.
    let stop = stop.time.or_else(|| is_stop_given(t.ledger.root).then_some(TIME_MAX));
    let context = Context { base_dir, stop, hosts, transports: &names };
    let mut taken = given_names(t.ledger.root);
    let workloads = t.tables("workload", "Who sends what to whom, and when", |t| {
        workload::workload(t, &context, &mut taken, |name| presets::find(name).is_some())
    });
    for transport in transports {
        let names_it = |workload: &Partial| {
            workload.transport == transport.name && !matches!(workload.kind, Some(WorkloadKind::Udp(_)))
        };
        transport.is_used = workloads.iter().any(names_it);
    }
    workloads
}

/// The names of workloads that the file sets.
fn given_names(root: &Item) -> Vec<String> {
    let Some(Value::Array(workloads)) = root.get("workload").map(|item| &item.value) else {
        return Vec::new();
    };
    workloads.iter().filter_map(|workload| String::read(workload.get("name")?).ok()).collect()
}

fn demands(transports: &[Named], lanes: usize) -> Demands {
    let used = || transports.iter().filter(|transport| transport.is_used);
    let ecn = used().find(|transport| transport.spec.tcp.ecn != EcnMode::Off);
    let lossless = used().find(|transport| transport.spec.lossless);
    Demands {
        ecn: ecn.map(|t| format!("{}.ecn = {}", t.path, t.spec.tcp.ecn.plain())),
        lanes,
        lossless: lossless.map(|t| format!("{}.lossless = true", t.path)),
    }
}
