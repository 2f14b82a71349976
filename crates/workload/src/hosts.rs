//! The names of a topology's hosts, for workloads that refer to hosts.

use pauseframe_schema::value::did_you_mean;
use pauseframe_topology::{NodeKind, Topology};
use std::collections::BTreeMap;

/// Names of the hosts.
pub struct Hosts {
    kinds: BTreeMap<String, NodeKind>,
    first: Option<String>,
    count: usize,
}

impl Hosts {
    /// The hosts of a topology.
    pub fn of(topology: &Topology) -> Hosts {
        // Further ports of hosts send and receive for their host.
        let nodes = topology.nodes().iter().filter(|node| node.port_of.is_none());
        let kinds = nodes.map(|node| (node.name.clone(), node.kind)).collect();
        let first = topology.hosts().next().map(|host| topology.nodes()[host].name.clone());
        Hosts { kinds, first, count: topology.hosts().count() }
    }

    /// Number of hosts.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first host.
    pub fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// The names of the hosts.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let hosts = self.kinds.iter().filter(|(_, kind)| **kind == NodeKind::Host);
        hosts.map(|(name, _)| name.as_str())
    }

    /// Whether a host has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.kinds.get(name) == Some(&NodeKind::Host)
    }

    /// The reason why `name` is not a host.
    pub fn complaint(&self, name: &str) -> String {
        let first = self.first().unwrap_or("");
        match self.kinds.get(name) {
            Some(NodeKind::Switch) => format!("{name:?} is a switch; expected a host"),
            _ => format!("there is no host {name:?} among the {} (the first is {first:?})", self.count),
        }
    }

    /// Suggests the most similar name as a question, or "".
    pub fn suggestion(&self, name: &str) -> String {
        did_you_mean(name, self.names())
    }
}
