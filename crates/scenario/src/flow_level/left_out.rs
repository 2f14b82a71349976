//! Keys of a scenario that the flow-level model does not implement. A key that decides which flows finish
//! causes an error; a key that changes only times or records causes a warning.

use crate::resolve::{Entry, Origin, Resolved, options};
use crate::spec::{Scenario, WorkloadKind, WorkloadSpec};
use pauseframe_fabric::PortChoice;
use pauseframe_results::RunError;
use pauseframe_topology::Topology;
use std::collections::BTreeSet;

/// # Errors
/// If the scenario sets keys that decide which flows finish and that the flow level does not implement. A static
/// demand replaces the workloads and does not know receivers that read slowly; `warning` names both.
pub(super) fn refuse(scenario: &Scenario, topology: &Topology, is_static: bool) -> Result<(), RunError> {
    if !is_static {
        refuse_applications(scenario)?;
        refuse_slow_receivers(scenario, topology)?;
    }
    let keys = deciding(scenario, is_static);
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} cannot be followed at flow level, where nothing fails, nobody refuses and all flows cross the network: remove it, or use pauseframe run",
        keys.join(", ")
    );
    Err(RunError::Input(message))
}

fn refuse_applications(scenario: &Scenario) -> Result<(), RunError> {
    let is_application = |workload: &&WorkloadSpec| workload.kind.application().is_some();
    if let Some(workload) = scenario.workload.iter().find(is_application) {
        let kind = workload.kind.name();
        let kind = if kind == "training" { "a training" } else { "an application" };
        let message = format!("workload {} is {kind}: use pauseframe run", workload.name);
        return Err(RunError::Input(message));
    }
    Ok(())
}

fn refuse_slow_receivers(scenario: &Scenario, topology: &Topology) -> Result<(), RunError> {
    let has_several =
        |name: &String| topology.find(name).is_some_and(|host| topology.ports_of_hosts().contains_key(&host));
    if let Some(slow) = scenario.host.slow_receivers.iter().find(|slow| has_several(&slow.host)) {
        let message = format!(
            "host.slow_receivers: {} has several ports, which share the rate of its memory; flows at flow level share links only: \
             use pauseframe run",
            slow.host
        );
        return Err(RunError::Input(message));
    }
    Ok(())
}

fn deciding(scenario: &Scenario, is_static: bool) -> Vec<&'static str> {
    let host = &scenario.host;
    let keys = [
        ("failure", !scenario.failure.is_empty()),
        ("corruption", !scenario.corruption.is_empty()),
        ("the error rates of topology.path", scenario.topology.kind.labels().frame_errors().next().is_some()),
        ("topology.scale_up", scenario.topology.scale_up.is_some()),
        ("pause_storm", !scenario.pause_storm.is_empty()),
        ("host.refusing", !host.refusing.is_empty()),
        ("host.silent", !host.silent.is_empty()),
        ("host.port_choice = \"balance-rr\"", host.port_choice == PortChoice::RoundRobin),
        ("host.port_choice = \"mux\"", host.port_choice == PortChoice::Mux),
        ("routing.mlag", scenario.routing.mlag),
        (
            "host.slow_receivers.stop",
            !is_static && host.slow_receivers.iter().any(|slow| slow.stop.is_some()),
        ),
    ];
    keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
}

/// Keys that the flow level obeys, or that name things. A path also stands for what is below it.
const OBEYED: [&str; 12] = [
    "name",
    "seed",
    "plugins",
    "stop.time",
    "stop.when_finished",
    "topology",
    "host.port_choice",
    "host.hash_policy",
    "host.slow_receivers",
    "transport.read_rate",
    "workload",
    "record.flows",
];
/// Keys that decide how many application bytes a source of datagrams sends; others send bytes without packets. A
/// priority above 0 adds a VLAN tag to each frame.
const OF_DATAGRAMS: [&str; 2] = ["host.mtu", "host.wire_overhead"];
/// Of the transport of such a source, the keys that decide its priority; then further ones if a switch maps its DSCP, and
/// if its priority is not 0.
const OF_THEIR_TRANSPORTS: [&str; 4] =
    ["transport.preset", "transport.kind", "transport.priority", "transport.lossless"];
const OF_MAPPED_DSCPS: [&str; 2] = ["transport.dscp", "switch.priority_of_dscp"];
const OF_TAGGED_DATAGRAMS: &str = "switch.pfc.priorities";
/// Keys that decide whether flows go on queue pairs: then storage and KV caches have no commands and answers, and hashes
/// read other ports.
const OF_QUEUE_PAIRS: [&str; 2] = ["transport.preset", "transport.kind"];
/// Of the obeyed keys, those of a static demand.
const OBEYED_BY_DEMANDS: [&str; 6] =
    ["name", "seed", "plugins", "topology", "host.port_choice", "host.hash_policy"];
/// Below the obeyed keys of workloads, those of connections, of servers and of marks.
const IDLE_OF_WORKLOADS: [&str; 5] = ["persistent", "connect_ahead", "reply_delay", "reply_law", "ecn"];
/// Below the obeyed keys of links: propagation takes no time.
const IDLE_OF_LINKS: &str = "delay";
/// Of the keys of `[routing]`, those of failures and peer links; workloads and demands obey the others.
const IDLE_ROUTING: [&str; 2] = ["routing.convergence", "routing.mlag"];

/// What replaces parts of the scenario in a run at flow level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced {
    /// A static demand replaces the workloads.
    pub(super) workloads: bool,
    /// Forwarding tables replace the routing.
    pub(super) routing: bool,
}

/// Warnings about keys that a person has written and that have no effect at flow level.
pub(super) fn warnings(resolved: &Resolved, replaced: Replaced) -> Vec<String> {
    let written =
        resolved.explain().iter().filter(|entry| matches!(entry.origin, Origin::File | Origin::Set));
    // A resolved scenario has every key, so those with their defaults are not meant.
    let written: Vec<&Entry> = written.filter(|entry| !has_default(entry)).collect();
    let of_rows: Vec<String> = written.iter().flat_map(|entry| idle_keys_of_rows(entry)).collect();
    let written: Vec<&str> = written.into_iter().map(|entry| entry.path.as_str()).collect();
    let is_routing = |path: &&str| path.starts_with("routing.");
    let (of_routing, others): (Vec<&str>, Vec<&str>) =
        written.into_iter().partition(|path| replaced.routing && is_routing(path));
    let Scenario { record, qcn, .. } = &resolved.scenario;
    // Tables that may stand there without a key.
    let tables = [
        ("qcn", qcn.is_some()),
        ("record.series", record.series.is_some()),
        ("record.packets", record.packets.is_some()),
        ("record.pause_tree", record.pause_tree.is_some()),
        ("record.states", record.states.is_some()),
        ("record.paths", record.paths),
    ];
    let tables = tables.iter().filter(|(_, is_on)| *is_on).map(|(path, _)| *path);
    let used = if replaced.workloads { Used::default() } else { Used::of(resolved) };
    let keys = others.into_iter().filter(|path| !used.contains(path) && !is_obeyed(path, replaced.workloads));
    let idle: BTreeSet<&str> = keys.chain(tables).chain(of_rows.iter().map(String::as_str)).collect();
    let of_routing: BTreeSet<&str> = of_routing.into_iter().collect();
    let text = |keys: BTreeSet<&str>| keys.into_iter().collect::<Vec<&str>>().join(", ");
    let mut warnings = Vec::new();
    if !idle.is_empty() {
        warnings.push(format!("at flow level these keys change nothing: {}", text(idle)));
    }
    if !of_routing.is_empty() {
        warnings.push(format!("the given forwarding tables replace these keys: {}", text(of_routing)));
    }
    warnings
}

/// Which keys the workloads use beside those that every run obeys.
#[derive(Default)]
struct Used {
    /// The names of the transports of datagrams.
    of_datagrams: BTreeSet<String>,
    mapped_dscps: bool,
    tagged_datagrams: bool,
    queue_pairs: bool,
}

impl Used {
    fn of(resolved: &Resolved) -> Used {
        let Scenario { workload, routing, switch, .. } = &resolved.scenario;
        let is_udp = |one: &&WorkloadSpec| matches!(one.kind, WorkloadKind::Udp(_));
        let has_operations = workload
            .iter()
            .any(|one| matches!(one.kind, WorkloadKind::Storage(_) | WorkloadKind::KvTransfer(_)));
        let has_several_ports = !resolved.topology().ports_of_hosts().is_empty();
        let of_datagrams: BTreeSet<String> =
            workload.iter().filter(is_udp).map(|one| one.transport.clone()).collect();
        let of_scenario = std::iter::once(("default", &resolved.scenario.transport))
            .chain(resolved.scenario.transports.iter().map(|(name, transport)| (name.as_str(), transport)));
        let transports: Vec<_> =
            of_scenario.filter(|(name, _)| of_datagrams.contains(*name)).map(|(_, one)| one).collect();
        let is_mapped = |dscp: u8| switch.priority_of_dscp.iter().any(|[of_map, _]| *of_map == dscp);
        Used {
            mapped_dscps: transports.iter().any(|transport| is_mapped(transport.dscp)),
            tagged_datagrams: transports.iter().any(|transport| transport.priority.code_point() > 0),
            of_datagrams,
            queue_pairs: has_operations || has_several_ports || !routing.hash.is_ideal(),
        }
    }

    fn contains(&self, path: &str) -> bool {
        let plain = plain(path);
        let transport = path.strip_prefix("transports.").and_then(|rest| rest.split('.').next());
        let sends_datagrams = self.of_datagrams.contains(transport.unwrap_or("default"));
        let is_of_mapped = path.starts_with("switch.") || sends_datagrams;
        (!self.of_datagrams.is_empty() && OF_DATAGRAMS.contains(&path))
            || (self.mapped_dscps && is_of_mapped && OF_MAPPED_DSCPS.contains(&plain.as_str()))
            || (self.tagged_datagrams && path == OF_TAGGED_DATAGRAMS)
            || (sends_datagrams && OF_THEIR_TRANSPORTS.contains(&plain.as_str()))
            || (self.queue_pairs && OF_QUEUE_PAIRS.contains(&plain.as_str()))
    }
}

/// Keys without effect in a list of tables, which is one entry.
fn idle_keys_of_rows(entry: &Entry) -> Vec<String> {
    const ROWS: [(&str, &[&str]); 2] =
        [("host.slow_receivers", &["buffer"]), ("topology.links", &[IDLE_OF_LINKS])];
    let keys = ROWS.iter().find(|(path, _)| *path == entry.path).map_or(&[][..], |(_, keys)| *keys);
    // That of a link may be that of one direction.
    let is_set = |key: &&&str| entry.value.contains(&format!(" {key}"));
    keys.iter().filter(is_set).map(|key| format!("{}[].{key}", entry.path)).collect()
}

fn has_default(entry: &Entry) -> bool {
    let mut of_path = options().iter().filter(|option| option.path == entry.path).peekable();
    of_path.peek().is_some() && of_path.all(|option| option.default == entry.value)
}

/// A path, that of a named transport as of the first: `[transports.NAME]` has the keys of `[transport]`.
fn plain(path: &str) -> String {
    let of_named = path.strip_prefix("transports.").and_then(|rest| rest.split_once('.'));
    of_named.map_or_else(|| path.to_owned(), |(_, key)| format!("transport.{key}"))
}

fn is_obeyed(path: &str, is_static: bool) -> bool {
    let plain = plain(path);
    let is_below =
        |known: &str| plain.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let is_of_routing = plain.starts_with("routing.") && !IDLE_ROUTING.iter().any(|idle| is_below(idle));
    let is_one_of = |table: &str, keys: &[&str]| {
        let (_, key) = plain.rsplit_once('.').unwrap_or_default();
        plain.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')) && keys.contains(&key)
    };
    if is_one_of("workload", &IDLE_OF_WORKLOADS) || is_one_of("topology", &[IDLE_OF_LINKS]) {
        return false;
    }
    let obeyed = if is_static { &OBEYED_BY_DEMANDS[..] } else { &OBEYED[..] };
    is_of_routing || obeyed.iter().any(|known| is_below(known))
}
