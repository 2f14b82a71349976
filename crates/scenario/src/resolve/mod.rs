//! From the text of a scenario to a [`Scenario`] with no options left open: with every mistake at once, the
//! origin of every value, and the nearest key where one is misspelt.
//!
//! Each table has one function, which reads like its documentation; the reference of all keys comes from the
//! same calls ([`options`]). The order here is that of dependence: what the switches must do follows from the
//! transports in use, and which are in use from the workloads.
//! Left out: `[sweep]`; it is an unknown key.

mod application;
mod checks;
mod classes;
mod congestion_control;
mod document;
mod failures;
mod file;
mod graph;
mod host;
mod hosts;
mod hotspot;
mod ledger;
mod marker;
mod nested;
mod options;
mod qcn;
mod reader;
mod receive;
mod record;
mod recovery;
mod routing;
mod scatter_gather;
mod scheduler;
mod send;
mod shorthand;
mod sizes;
mod switch;
mod text;
mod topology;
mod transport;
mod udp;
mod value;
mod workload;

pub(crate) use congestion_control::serialize as serialize_congestion_control;
pub(crate) use failures::no_such_node;
pub use graph::build_topology;
pub use ledger::{Entry, OptionDoc, Origin};
pub use options::options;

use crate::error::{Problem, ScenarioError};
use crate::presets::Preset;
use crate::spec::{EcnName, Scenario, Stop, WorkloadKind, WorkloadSpec};
use crate::volume::{self, Asked};
use checks::Named;
pub(crate) use checks::size as buffer_size;
use document::Value;
use hosts::Hosts;
use ledger::Ledger;
use pauseframe_topology::Topology;
use pauseframe_units::Span;
use reader::Table;
use std::path::Path;
use switch::Demands;
use value::Setting;
use workload::{Context, Partial};

/// A scenario as it was written, and what the command line adds.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The TOML.
    pub text: &'a str,
    /// What error messages call it; its stem is the default name of the scenario.
    pub file_name: &'a str,
    /// Where relative names of files in it begin.
    pub base_dir: &'a Path,
    /// `--set`: (path, TOML value or bare word). An element of a list has its number in the path
    /// ("workload.0.size"), which may be left out where the list has one element.
    pub overrides: &'a [(String, String)],
    /// `--seed`.
    pub seed: Option<u64>,
}

/// Longest name of a scenario, bytes: with a seed behind it a file system takes it.
const NAME_MAX: usize = 200;

/// A complete scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// What is run.
    pub scenario: Scenario,
    /// What should be looked at before the results are trusted.
    pub warnings: Vec<String>,
    /// Why it is not run unless [`crate::RunOptions::force_large`] allows it: what it would record is too large.
    pub large: Option<Problem>,
    entries: Vec<Entry>,
}

impl Resolved {
    /// The scenario as TOML with every key, grouped by table; it resolves to an equal scenario.
    pub fn to_toml(&self) -> String {
        text::to_toml(&self.entries)
    }

    /// Every key with its value and where that came from, in the order of [`Resolved::to_toml`].
    pub fn explain(&self) -> &[Entry] {
        &self.entries
    }
}

/// Reads a scenario and fills in every default.
///
/// # Errors
/// Everything that is wrong with it. Text that is not TOML hides the other mistakes.
pub fn resolve(input: &Input) -> Result<Resolved, ScenarioError> {
    let refused = |problems| ScenarioError { problems };
    let (root, problems) = document::load(input).map_err(refused)?;
    let mut ledger = Ledger::new(&root, input.file_name);
    ledger.extend(problems);
    let stem = Path::new(input.file_name).file_stem().and_then(|stem| stem.to_str());
    let scenario = scenario(&mut ledger, input.base_dir, stem.unwrap_or("scenario"));
    let (mut entries, mut warnings) = ledger.close().map_err(refused)?;
    entries.sort_by_key(|entry| text::rank(&entry.path));
    let (scenario, large) = scenario.ok_or_else(|| refused(vec![incomplete(input.file_name)]))?;
    warnings.extend(
        crate::headroom::warnings(&scenario, input.file_name).map_err(|problem| refused(vec![*problem]))?,
    );
    Ok(Resolved { scenario, warnings, large, entries })
}

/// A part is missing although no reader complained: a gap in the readers, but no reason to panic.
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

/// Reads all tables; and why what is to be recorded is too large, if it is. `None` only where a problem was recorded.
fn scenario(ledger: &mut Ledger, base_dir: &Path, default_name: &str) -> Option<(Scenario, Option<Problem>)> {
    let mut root = Table::root(ledger);
    let t = &mut root;
    let name = name(t, default_name);
    let seed = t.or("seed", 1, "Master seed of all named random streams");
    let stop = t.section("stop", stop);
    let topology = t.section("topology", |t| topology::topology(t, base_dir));
    let graph = topology.as_ref().and_then(|spec| graph::checked(spec, t.ledger));
    let labels = topology.as_ref().map(graph::labels).unwrap_or_default();
    let fabric = routing::Fabric { graph: graph.as_ref(), labels: &labels, base_dir };
    let routing = t.section("routing", |t| routing::routing(t, &fabric));
    let hosts = graph.as_ref().map(Hosts::of);
    let host = t.section("host", |t| host::host(t, hosts.as_ref()));
    let mut transports = read_transports(t, routing.reorders());
    let workloads = read_workloads(t, base_dir, &stop, hosts.as_ref(), &mut transports);
    let demands = demands(&transports, routing.lanes());
    let switch = t.section("switch", |t| switch::switch(t, &demands));
    let qcn = qcn::qcn_or_none(t);
    let record = t.section("record", record::record);
    let failure = failures::failures(t);
    let corruption = failures::corruption(t);
    root.finish();

    if ledger.documentation.is_some() {
        return None;
    }
    let lossless = switch.pfc.as_ref().map_or(Vec::new(), |pfc| pfc.priorities.clone());
    for Named { path, spec, priority, is_used, .. } in &mut transports {
        let switches = (lossless.as_slice(), switch.priority_of_dscp.as_slice());
        transport::settle_priority(ledger, path, spec, *priority, switches, *is_used);
    }
    checks::host_names(ledger, &host, hosts.as_ref());
    checks::steady_links(ledger, &host, &switch);
    checks::workloads(ledger, &workloads);
    if let Some(graph) = &graph {
        failures::check(ledger, graph, &failure, &corruption, &stop);
    }
    checks::end(ledger, &stop, &workloads);
    checks::room_for_frames(ledger, &host, &switch, &transports);
    checks::thresholds(ledger, &switch, graph.as_ref());
    checks::transports(ledger, &switch, &transports, &workloads);
    checks::classes(ledger, &switch);
    routing::judge(ledger, &routing, graph.as_ref(), &switch, &transports);
    checks::datagrams(ledger, &host, &workloads);
    qcn::check(ledger, qcn.as_ref(), &host, &switch, &routing);

    let mut transports = transports.into_iter().map(|transport| (transport.name, transport.spec));
    let scenario = Scenario {
        name,
        seed,
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
        record,
    };
    let large = too_large(&scenario, graph.as_ref()?, ledger.file_name());
    Some((scenario, large))
}

fn too_large(scenario: &Scenario, topology: &Topology, file_name: &str) -> Option<Problem> {
    let lossless = scenario.switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    let lanes = scenario.routing.vlans.as_ref().map_or(0, |vlans| vlans.tables.0.lanes());
    let lanes = &lossless[..lanes.min(lossless.len())];
    let transports = scenario.transport_specs().map(|spec| spec.priority);
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

/// The scenario's name, which is a part of the name of its results folder and of nothing outside of it.
fn name(t: &mut Table, default: &str) -> String {
    let name: String = t.or("name", default.to_owned(), "Names the results: no path, at most 200 bytes");
    let of_file = if t.has("name") { "" } else { ", the name of the file," };
    if let Some(flaw) = wrong_name(&name) {
        let hint = "choose a plain name, as in name = \"incast\"; --out names the folder of the results";
        t.check(false, "name", || format!("{}{of_file} {flaw}", shown(&name)), hint);
    }
    name
}

/// Why a name can not be that of a folder, on any system.
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
        return Some(format!("has a {c:?}, which names of folders can not have"));
    }
    if name.starts_with(['.', '-', '~']) || name.trim() != name {
        return Some("begins with '.', '-', '~' or a blank, or ends with a blank".to_owned());
    }
    None
}

/// A name in quotes, without control characters and not too long for a message.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(60).collect();
    format!("{short:?}{}", if short.len() < name.len() { "..." } else { "" })
}

fn stop(t: &mut Table) -> Stop {
    let doc = "Simulated time at which the run ends in any case; stop = \"50 ms\" is short for it";
    let range = Span(1)..=workload::TIME_MAX;
    let time = t.optional_in("time", range, "none: when everything is finished", doc);
    let doc = "End when all workloads are exhausted and their flows have finished";
    let when_finished = t.or("when_finished", true, doc);
    let stand_in = "automatic: true, or false if there is a switch.pfc.watchdog";
    let doc = "End when queues wait for each other in a circle and none can ever send again";
    Stop { time, when_finished, on_deadlock: t.optional("on_deadlock", stand_in, doc) }
}

/// `[transport]` first, then `[transports.NAME]` in the order of the file.
fn read_transports(t: &mut Table, reorders: Option<&str>) -> Vec<Named> {
    let (spec, priority) = t.section("transport", |t| transport::transport(t, reorders));
    let (name, path) = ("default".to_owned(), "transport".to_owned());
    let mut transports = vec![Named { name, path, spec, priority, is_used: false }];
    transports.extend(t.named(
        "transports",
        "Further transports, with the keys of [transport]",
        |t, name| {
            let plain =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            if !plain || name == "default" {
                let hint = "use letters, digits, '_' and '-'; \"default\" is [transport] itself";
                t.check(false, "", || format!("{name:?} is not a name for a transport"), hint);
            }
            let (spec, priority) = transport::transport(t, reorders);
            Named { name: name.to_owned(), path: t.path.clone(), spec, priority, is_used: false }
        },
    ));
    transports
}

/// `[[workload]]`; marks the transports that they use.
fn read_workloads(
    t: &mut Table,
    base_dir: &Path,
    stop: &Stop,
    hosts: Option<&Hosts>,
    transports: &mut [Named],
) -> Vec<Partial> {
    let names: Vec<String> = transports.iter().map(|transport| transport.name.clone()).collect();
    let context = Context { base_dir, stop: stop.time, hosts, transports: &names };
    let mut taken = given_names(t.ledger.root);
    let workloads = t.tables("workload", |t| workload::workload(t, &context, &mut taken));
    for transport in transports {
        let names_it = |workload: &Partial| {
            workload.transport == transport.name && !matches!(workload.kind, Some(WorkloadKind::Udp(_)))
        };
        transport.is_used = workloads.iter().any(names_it);
    }
    workloads
}

/// The names that workloads have in the file.
fn given_names(root: &document::Item) -> Vec<String> {
    let Some(Value::Array(workloads)) = root.get("workload").map(|item| &item.value) else {
        return Vec::new();
    };
    workloads.iter().filter_map(|workload| String::read(workload.get("name")?).ok()).collect()
}

fn demands(transports: &[Named], lanes: usize) -> Demands {
    let used = || transports.iter().filter(|transport| transport.is_used);
    let ecn = used().find(|transport| transport.spec.ecn != EcnName::Off);
    let lossless = used().find(|transport| transport.spec.lossless);
    Demands {
        ecn: ecn.map(|t| format!("{}.ecn = {}", t.path, t.spec.ecn.plain())),
        lanes,
        lossless: lossless.map(|t| format!("{}.lossless = true", t.path)),
    }
}

/// Every key of `[transport]` with the value that `preset` above `stack` gives it.
pub(crate) fn transport_row(preset: &'static Preset, stack: &'static str) -> Vec<Entry> {
    transport::row(preset, stack, None)
}
