//! Checks a topology that a user wrote by hand, and reports every mistake at once with the nodes concerned.
//!
//! The rules are those of the simulator: a host never forwards, whatever its number of ports. A fabric may also
//! consist of two hosts linked back to back.

use crate::interchange::Labels;
use crate::{NodeKind, Topology};
use pauseframe_units::{Id, IndexVec, NodeId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A reason why a topology cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TopologyError {
    /// Two nodes have the same name.
    #[error("{count} nodes are called {name:?}: give each node its own name")]
    DuplicateName {
        /// The name.
        name: String,
        /// Number of nodes with this name.
        count: usize,
    },
    /// A link has the same node at both ends.
    #[error("a link joins {node:?} to itself: remove it or name another node")]
    SelfLoop {
        /// The node.
        node: String,
    },
    /// One direction of a link has the rate zero.
    #[error("the link from {from:?} to {to:?} has the rate 0 bps: give it a rate above zero")]
    ZeroRate {
        /// The transmitting node.
        from: String,
        /// The receiving node.
        to: String,
    },
    /// No node is a host, so nothing can send.
    #[error(
        "none of the {nodes} nodes is a host: mark hosts in the file (kind \"host\"; in containerlab also the label \
         pauseframe-kind: host; in topology.txt, leave their ids out of line 2), or for routes give every switch some \
         (--hosts-per-switch 4)"
    )]
    NoHosts {
        /// Number of nodes.
        nodes: usize,
    },
    /// A host has no link.
    #[error("host {host:?} has no link: link it to a switch, or remove it")]
    HostWithoutLink {
        /// The host.
        host: String,
    },
    /// A host with several links has one to another host.
    #[error(
        "host {host:?} has {count} links (to {peers}), one of them to a host: traffic would have to pass through it, and \
         hosts never forward; link hosts to switches only, or make it a switch"
    )]
    HostWiredToHost {
        /// The host.
        host: String,
        /// Number of links at the host.
        count: usize,
        /// The hosts' neighbours, for the error message.
        peers: String,
    },
    /// Two hosts are connected through hosts only.
    #[error(
        "every path between {one:?} and {other:?} passes through other hosts, and hosts never forward (as they do in BCube): \
         link them by switches, make the nodes that forward switches, or give each host a port in one common plane"
    )]
    OnlyThroughHosts {
        /// A host.
        one: String,
        /// A host that it cannot reach.
        other: String,
    },
    /// The graph is not connected. `one` and `other` are hosts, or switches of a part that has no host.
    #[error("there is no path between {one:?} and {other:?}: add a link between their parts")]
    Disconnected {
        /// A node of the first connected part.
        one: String,
        /// A node of another connected part.
        other: String,
    },
}

/// Returns all mistakes in `topology`; the list is empty if the topology can be simulated. Nodes of ports count as
/// their host.
pub fn check(topology: &Topology) -> Vec<TopologyError> {
    let topology = &*joined(topology);
    let mut errors = duplicate_names(topology);
    if topology.hosts().next().is_none() {
        errors.push(TopologyError::NoHosts { nodes: topology.nodes().len() });
    }
    errors.extend(bad_links(topology));
    errors.extend(bad_hosts(topology));
    let apart = parts(topology);
    errors.extend(if apart.is_empty() { only_through_hosts(topology).into_iter().collect() } else { apart });
    errors
}

/// The graph with one node for each host.
pub(crate) fn joined(topology: &Topology) -> Cow<'_, Topology> {
    if topology.has_port_nodes() {
        Cow::Owned(Labels::default().join_hosts(topology).0)
    } else {
        Cow::Borrowed(topology)
    }
}

fn name(topology: &Topology, node: NodeId) -> String {
    topology.nodes()[node].name.clone()
}

fn duplicate_names(topology: &Topology) -> Vec<TopologyError> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in topology.nodes() {
        *counts.entry(&node.name).or_default() += 1;
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|(name, count)| TopologyError::DuplicateName { name: name.to_owned(), count }).collect()
}

fn bad_links(topology: &Topology) -> Vec<TopologyError> {
    let mut errors = Vec::new();
    for link in topology.links() {
        let [a, b] = link.ends.map(|end| name(topology, end));
        if link.ends[0] == link.ends[1] {
            errors.push(TopologyError::SelfLoop { node: a.clone() });
        }
        for (channel, [from, to]) in link.channels.iter().zip([[&a, &b], [&b, &a]]) {
            if channel.rate.0 == 0 {
                errors.push(TopologyError::ZeroRate { from: from.clone(), to: to.clone() });
            }
        }
    }
    errors
}

/// The first error by which a host would have to forward.
pub(crate) fn forwarding_hosts(topology: &Topology) -> Option<TopologyError> {
    let topology = &*joined(topology);
    let is_wired = |error: &TopologyError| matches!(error, TopologyError::HostWiredToHost { .. });
    let through = || only_through_hosts(topology).filter(|_| parts(topology).is_empty());
    bad_hosts(topology).into_iter().find(is_wired).or_else(through)
}

fn bad_hosts(topology: &Topology) -> Vec<TopologyError> {
    let is_host = |node: NodeId| topology.nodes()[node].kind == NodeKind::Host;
    let of_host = |host: NodeId| match topology.nodes()[host].ports.as_slice() {
        [] => Some(TopologyError::HostWithoutLink { host: name(topology, host) }),
        [_] => None,
        ports => {
            ports.iter().any(|port| is_host(topology.peer(*port))).then(|| host_wired_to_host(topology, host))
        }
    };
    topology.hosts().filter_map(of_host).collect()
}

fn host_wired_to_host(topology: &Topology, host: NodeId) -> TopologyError {
    let ports = &topology.nodes()[host].ports;
    let peers: Vec<_> = ports.iter().map(|p| format!("{:?}", name(topology, topology.peer(*p)))).collect();
    TopologyError::HostWiredToHost { host: name(topology, host), count: ports.len(), peers: peers.join(", ") }
}

/// Two hosts of which no ports lie in one part, where parts end at hosts; ports in several parts are planes.
fn only_through_hosts(topology: &Topology) -> Option<TopologyError> {
    let mut part: IndexVec<NodeId, Option<u32>> = IndexVec::filled(None, topology.nodes().len());
    for (number, start) in (0..).zip(topology.switches()) {
        let mut waiting = vec![start];
        while let Some(at) = waiting.pop() {
            if topology.nodes()[at].kind == NodeKind::Switch && part[at].is_none() {
                part[at] = Some(number);
                waiting.extend(topology.nodes()[at].ports.iter().map(|port| topology.peer(*port)));
            }
        }
    }
    // Hosts with the same parts are alike; one host back to back with another is in none.
    let mut by_parts: BTreeMap<BTreeSet<u32>, NodeId> = BTreeMap::new();
    for host in topology.hosts() {
        let ports = topology.nodes()[host].ports.iter();
        by_parts.entry(ports.filter_map(|port| part[topology.peer(*port)]).collect()).or_insert(host);
    }
    let kinds: Vec<(BTreeSet<u32>, NodeId)> = by_parts.into_iter().collect();
    let mut pairs =
        kinds.iter().enumerate().flat_map(|(i, one)| kinds[..i].iter().map(move |other| (other, one)));
    let (one, other) = pairs.find(|(one, other)| one.0.is_disjoint(&other.0))?;
    Some(TopologyError::OnlyThroughHosts { one: name(topology, one.1), other: name(topology, other.1) })
}

/// Returns one error for each connected part of the graph beyond the first; [`bad_hosts`] reports hosts
/// without a link.
fn parts(topology: &Topology) -> Vec<TopologyError> {
    let mut seen: IndexVec<NodeId, bool> = IndexVec::filled(false, topology.nodes().len());
    let mut representatives = Vec::new();
    for start in topology.nodes().ids() {
        let node = &topology.nodes()[start];
        let lone_host = node.kind == NodeKind::Host && node.ports.is_empty();
        if !seen[start] && !lone_host {
            representatives.push(explore(topology, start, &mut seen));
        }
    }
    let Some((first, rest)) = representatives.split_first() else { return Vec::new() };
    let apart = |other: &NodeId| TopologyError::Disconnected {
        one: name(topology, *first),
        other: name(topology, *other),
    };
    rest.iter().map(apart).collect()
}

/// Marks all nodes that are connected to `start`; returns the first connected host, or `start` if there is
/// none.
fn explore(topology: &Topology, start: NodeId, seen: &mut IndexVec<NodeId, bool>) -> NodeId {
    let mut waiting = vec![start];
    let mut first_host: Option<NodeId> = None;
    seen[start] = true;
    while let Some(at) = waiting.pop() {
        if topology.nodes()[at].kind == NodeKind::Host {
            first_host = Some(first_host.map_or(at, |host| NodeId::from_index(host.index().min(at.index()))));
        }
        for port in &topology.nodes()[at].ports {
            let next = topology.peer(*port);
            if !seen[next] {
                seen[next] = true;
                waiting.push(next);
            }
        }
    }
    first_host.unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Channel;
    use pauseframe_units::{BitRate, Span};

    const FAST: Channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };

    fn nodes(topology: &mut Topology, kind: NodeKind, names: &[&str]) -> Vec<NodeId> {
        names.iter().map(|name| topology.add_node(*name, kind, None)).collect()
    }

    #[test]
    fn a_sound_fabric_and_a_back_to_back_pair_have_no_errors() {
        let mut star = Topology::new();
        let hosts = nodes(&mut star, NodeKind::Host, &["a", "b"]);
        let switch = star.add_node("s", NodeKind::Switch, None);
        for host in hosts {
            star.add_link(host, switch, FAST);
        }
        assert_eq!(check(&star), []);

        let mut pair = Topology::new();
        let hosts = nodes(&mut pair, NodeKind::Host, &["a", "b"]);
        pair.add_link(hosts[0], hosts[1], FAST);
        assert_eq!(check(&pair), []);
        assert_eq!(check(&Topology::new()), [TopologyError::NoHosts { nodes: 0 }]);
    }

    #[test]
    fn each_mistake_is_named_with_its_nodes() {
        let mut topology = Topology::new();
        let hosts = nodes(&mut topology, NodeKind::Host, &["a", "b", "c", "b"]);
        let switches = nodes(&mut topology, NodeKind::Switch, &["s", "t"]);
        let dead = Channel { rate: BitRate(0), delay: Span::ZERO };
        topology.add_asymmetric_link(hosts[0], switches[0], [FAST, dead]);
        topology.add_link(hosts[0], hosts[1], FAST);
        topology.add_link(switches[0], switches[0], FAST);
        topology.add_link(hosts[3], switches[1], FAST);
        let errors = check(&topology);
        let text = |s: &str| s.to_owned();
        let expected = [
            TopologyError::DuplicateName { name: text("b"), count: 2 },
            TopologyError::ZeroRate { from: text("s"), to: text("a") },
            TopologyError::SelfLoop { node: text("s") },
            TopologyError::HostWiredToHost { host: text("a"), count: 2, peers: text("\"s\", \"b\"") },
            TopologyError::HostWithoutLink { host: text("c") },
            TopologyError::Disconnected { one: text("a"), other: text("b") },
        ];
        assert_eq!(errors, expected);
        assert_eq!(
            errors[3].to_string(),
            "host \"a\" has 2 links (to \"s\", \"b\"), one of them to a host: traffic would have to pass through it, \
             and hosts never forward; link hosts to switches only, or make it a switch"
        );
    }

    #[test]
    fn a_chain_of_hosts_is_refused() {
        let mut topology = Topology::new();
        let hosts = nodes(&mut topology, NodeKind::Host, &["a", "b", "c"]);
        topology.add_link(hosts[0], hosts[1], FAST);
        topology.add_link(hosts[1], hosts[2], FAST);
        assert!(
            matches!(&check(&topology)[..], [TopologyError::HostWiredToHost { host, .. }] if host == "b")
        );
    }

    /// Links hosts to switches; each word "ab" joins host a and switch b.
    fn homes(links: &[&str]) -> Topology {
        let mut topology = Topology::new();
        for link in links {
            let ends = link.char_indices().map(|(end, name)| {
                let (name, kind) =
                    (name.to_string(), if end == 0 { NodeKind::Host } else { NodeKind::Switch });
                topology.find(&name).unwrap_or_else(|| topology.add_node(name, kind, None))
            });
            let [host, switch] = ends.collect::<Vec<_>>()[..] else { panic!("{link}") };
            topology.add_link(host, switch, FAST);
        }
        topology
    }

    #[test]
    fn hosts_may_have_several_ports_in_planes_but_never_forward() {
        for sound in [&["as", "as", "bs"][..], &["as", "at", "bs", "bt"], &["as", "at", "bs", "bt", "cs"]] {
            assert_eq!(check(&homes(sound)), [], "{sound:?}");
        }
        // Of BCube's first row, a and c reach each other through b only.
        let errors = check(&homes(&["as", "bs", "bt", "ct"]));
        let [error] = &errors[..] else { panic!("{errors:?}") };
        let expected = TopologyError::OnlyThroughHosts { one: "a".to_owned(), other: "c".to_owned() };
        assert_eq!(*error, expected);
        assert!(error.to_string().contains("hosts never forward"), "{error}");
    }

    #[test]
    fn a_part_without_hosts_is_named_by_a_switch() {
        let mut topology = Topology::new();
        let host = topology.add_node("a", NodeKind::Host, None);
        let switches = nodes(&mut topology, NodeKind::Switch, &["s", "lonely"]);
        topology.add_link(host, switches[0], FAST);
        let expected = TopologyError::Disconnected { one: "a".to_owned(), other: "lonely".to_owned() };
        assert_eq!(check(&topology), [expected]);
    }
}
