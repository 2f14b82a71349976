//! Keys of a scenario that the flow-level model does not implement. A key that decides which flows finish
//! causes an error; a key that changes only times or records causes a warning.

use crate::resolve::{Entry, Origin, Resolved, options};
use crate::spec::{Scenario, WorkloadKind, WorkloadSpec};
use pauseframe_fabric::PortChoice;
use pauseframe_results::RunError;
use pauseframe_topology::Topology;
use std::collections::BTreeSet;

/// # Errors
/// If the scenario sets keys that decide which flows finish and that the flow level does not implement.
pub(super) fn refuse(scenario: &Scenario, topology: &Topology) -> Result<(), RunError> {
    let is_application = |workload: &&WorkloadSpec| workload.kind.application().is_some();
    if let Some(workload) = scenario.workload.iter().find(is_application) {
        let kind = workload.kind.name();
        let kind = if kind == "training" { "a training" } else { "an application" };
        let message = format!("workload {} is {kind}: use pauseframe run", workload.name);
        return Err(RunError::Input(message));
    }
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
    let keys = deciding(scenario);
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} cannot be followed at flow level, where nothing fails, nobody refuses and all flows cross the network: remove it, or use pauseframe run",
        keys.join(", ")
    );
    Err(RunError::Input(message))
}

fn deciding(scenario: &Scenario) -> Vec<&'static str> {
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
        ("host.slow_receivers.stop", host.slow_receivers.iter().any(|receiver| receiver.stop.is_some())),
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
/// Keys that decide how many application bytes a source of datagrams sends; others send bytes without packets.
const OF_DATAGRAMS: [&str; 2] = ["host.mtu", "host.wire_overhead"];
/// Keys that decide whether operations on storage and KV caches have commands and answers, as over TCP.
const OF_QUEUE_PAIRS: [&str; 2] = ["transport.preset", "transport.kind"];
/// Of the obeyed keys, those of a static demand.
const OBEYED_BY_DEMANDS: [&str; 6] =
    ["name", "seed", "plugins", "topology", "host.port_choice", "host.hash_policy"];
/// Of the keys of workloads, those of connections and of servers.
const OF_CONNECTIONS: [&str; 3] = ["persistent", "reply_delay", "reply_law"];
/// Of the keys of `[routing]`, those of failures and peer links; workloads and demands obey the others.
const IDLE_ROUTING: [&str; 2] = ["routing.convergence", "routing.mlag"];

/// A warning about keys that a person has written and that have no effect at flow level. A static demand also ignores the workloads.
pub(super) fn warning(resolved: &Resolved, is_static: bool) -> Option<String> {
    let written =
        resolved.explain().iter().filter(|entry| matches!(entry.origin, Origin::File | Origin::Set));
    // A resolved scenario has every key, so those with their defaults are not meant.
    let written = written.filter(|entry| !has_default(entry));
    let Scenario { record, qcn, workload, .. } = &resolved.scenario;
    let has_datagrams = workload.iter().any(|one| matches!(one.kind, WorkloadKind::Udp(_)));
    let has_operations =
        workload.iter().any(|one| matches!(one.kind, WorkloadKind::Storage(_) | WorkloadKind::KvTransfer(_)));
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
    let keys = written.map(|entry| entry.path.as_str()).filter(|path| {
        let is_of_datagrams = has_datagrams && OF_DATAGRAMS.contains(path);
        let is_of_operations = has_operations && OF_QUEUE_PAIRS.contains(&plain(path).as_str());
        let is_of_workloads = !is_static && (is_of_datagrams || is_of_operations);
        !is_of_workloads && !is_obeyed(path, is_static)
    });
    let idle: BTreeSet<&str> = keys.chain(tables).collect();
    (!idle.is_empty()).then(|| {
        let named: Vec<&str> = idle.into_iter().collect();
        format!("at flow level these keys change nothing: {}", named.join(", "))
    })
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
    if plain.starts_with("workload.") && OF_CONNECTIONS.iter().any(|key| plain.ends_with(&format!(".{key}")))
    {
        return false;
    }
    let obeyed = if is_static { &OBEYED_BY_DEMANDS[..] } else { &OBEYED[..] };
    is_of_routing || obeyed.iter().any(|known| is_below(known))
}
