//! From the words of a scenario to failures, bad wires, the watchdog and the deadlock detector of the network.

use crate::resolve::no_such_node;
use crate::spec::{CorruptionSpec, FailedSpec, Scenario, WatchdogActionName, WatchdogSpec};
use pauseframe_fabric::{ErrorModel, Failed, Failure, Network, Watchdog, WatchdogAction};
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, NodeId, PortId, Time};

/// What is wrong, and a hint.
type Complaint = (String, String);

impl FailedSpec {
    /// What fails, in the terms of the graph: a node, or links.
    pub(crate) fn links(&self, graph: &Topology) -> Result<Vec<Failed>, Complaint> {
        let node = |name: &str| graph.find(name).ok_or_else(|| no_such_node(graph, name));
        match self {
            FailedSpec::Node(name) => Ok(vec![Failed::Node(node(name)?)]),
            FailedSpec::Link([a, b]) => {
                let links = between(graph, node(a)?, node(b)?);
                if links.is_empty() {
                    return Err((format!("there is no link between {a:?} and {b:?}"), String::new()));
                }
                Ok(links.into_iter().map(Failed::Link).collect())
            }
            FailedSpec::Port(name) => {
                let found = all_ports(graph).find(|port| graph.port_name(*port) == *name);
                let complaint = || (format!("there is no port {name:?}"), "ports are NODE:NUMBER".to_owned());
                Ok(vec![Failed::Link(found.ok_or_else(complaint)?.link())])
            }
        }
    }
}

fn between(graph: &Topology, a: NodeId, b: NodeId) -> Vec<LinkId> {
    let ports = graph.nodes()[a].ports.iter();
    ports.filter(|port| graph.peer(**port) == b).map(|port| port.link()).collect()
}

fn all_ports(graph: &Topology) -> impl Iterator<Item = PortId> {
    graph.links().ids().flat_map(|link| [PortId::of_link(link, 0), PortId::of_link(link, 1)])
}

/// The ports that globs name.
pub(crate) fn ports_matching(globs: &[String], topology: &Topology) -> Vec<PortId> {
    let named = |port: &PortId| {
        let name = topology.port_name(*port);
        globs.iter().any(|glob| matches(glob, &name))
    };
    all_ports(topology).filter(named).collect()
}

/// Whether a glob with `*` (any text) and `?` (any one character) names all of `text`.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    wildmatch::WildMatch::new(glob).matches(text)
}

/// Tells the network what will go wrong, and who looks out for it.
pub(crate) fn install(scenario: &Scenario, topology: &Topology, network: &mut Network) {
    let mut plan = Vec::new();
    for failure in &scenario.failure {
        // `resolve` has refused what can not be found.
        let what = failure.what.links(topology).unwrap_or_default();
        let [down, up] = [Some(failure.down), failure.up].map(|at| at.map(|at| Time::ZERO + at));
        plan.extend(what.into_iter().map(|what| Failure { what, down: down.unwrap_or_default(), up }));
    }
    network.fail(plan, scenario.routing.convergence);
    for CorruptionSpec { ports, ber, fer } in &scenario.corruption {
        let model = ber.map(ErrorModel::BitErrors).or(fer.map(ErrorModel::FrameErrors));
        let ports = ports_matching(ports, topology);
        let bad: Vec<_> = model.into_iter().flat_map(|m| ports.iter().map(move |port| (*port, m))).collect();
        network.corrupt(&bad);
    }
    let Some(pfc) = &scenario.switch.pfc else { return };
    if let Some(WatchdogSpec { detection, action, restoration }) = pfc.watchdog {
        let action = match action {
            WatchdogActionName::Drop => WatchdogAction::Drop,
            WatchdogActionName::Forward => WatchdogAction::Forward,
        };
        network.guard(Watchdog { detection, action, restoration });
    }
    network.detect_deadlocks(scenario.record.deadlock_after, ends_at_deadlock(scenario));
    if let Some(spec) = &scenario.record.pause_tree {
        network.record_pauses(spec.limit as usize);
    }
}

/// What `stop.on_deadlock` comes to: a watchdog is there to break deadlocks, so it gets the time.
pub(crate) fn ends_at_deadlock(scenario: &Scenario) -> bool {
    let guarded = scenario.switch.pfc.as_ref().is_some_and(|pfc| pfc.watchdog.is_some());
    scenario.stop.on_deadlock.unwrap_or(!guarded)
}
