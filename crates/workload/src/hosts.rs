//! The names of a topology's hosts, for workloads that refer to hosts.

use pauseframe_schema::value::did_you_mean;
use pauseframe_topology::{NodeKind, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Names of the hosts.
pub struct Hosts {
    kinds: BTreeMap<String, NodeKind>,
    first: Option<String>,
    count: usize,
    /// The place of each host in the order of the topology.
    places: BTreeMap<String, usize>,
}

impl Hosts {
    /// The hosts of a topology.
    pub fn of(topology: &Topology) -> Hosts {
        // Further ports of hosts send and receive for their host.
        let nodes = topology.nodes().iter().filter(|node| node.port_of.is_none());
        let kinds = nodes.map(|node| (node.name.clone(), node.kind)).collect();
        let first = topology.hosts().next().map(|host| topology.nodes()[host].name.clone());
        let names = topology.hosts().map(|host| topology.nodes()[host].name.clone());
        let places = names.enumerate().map(|(place, name)| (name, place)).collect();
        Hosts { kinds, first, count: topology.hosts().count(), places }
    }

    /// Number of hosts.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of hosts in servers without any of `targets`; without scale-up links each host is a server.
    pub(crate) fn without_servers_of(&self, targets: &[String], gpus_per_server: Option<u32>) -> usize {
        let size = gpus_per_server.unwrap_or(1).max(1) as usize;
        let servers = targets.iter().filter_map(|name| self.places.get(name));
        let servers: BTreeSet<usize> = servers.map(|place| place / size).collect();
        self.count.saturating_sub(servers.len() * size)
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
        match (self.kinds.get(name), self.numbered()) {
            (Some(NodeKind::Switch), _) => format!("{name:?} is a switch; expected a host"),
            (_, Some((prefix, start))) => {
                let last = start + self.count - 1;
                format!("there is no host {name:?} among the {} ({first} to {prefix}{last})", self.count)
            }
            _ => format!("there is no host {name:?} among the {} (the first is {first:?})", self.count),
        }
    }

    /// Suggests the most similar name as a question, or "": of numbered hosts, another number is no better a guess.
    pub fn suggestion(&self, name: &str) -> String {
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = self.numbered().map(|(prefix, _)| prefix);
        if prefix.and_then(|prefix| name.strip_prefix(prefix)).is_some_and(is_number) {
            return String::new();
        }
        did_you_mean(name, self.names())
    }

    /// The common prefix and the first number of hosts that are numbered without a gap.
    fn numbered(&self) -> Option<(&str, usize)> {
        let first = self.first().filter(|_| self.count > 1)?;
        let prefix = first.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let start: usize = first[prefix.len()..].parse().ok()?;
        let has = |number: usize| self.contains(&format!("{prefix}{number}"));
        (start..start.checked_add(self.count)?).all(has).then_some((prefix, start))
    }
}
