//! The switches of a topology as a compact multigraph: dense numbers, adjacency in one array, hosts assigned
//! to their switch, without failed links. Port ids are those of the topology.

use crate::Topology;
use pauseframe_units::{IndexVec, LinkId, NodeId, PortId};
use thiserror::Error;

/// A link from a switch to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arc {
    /// The dense number of the neighbour.
    pub to: u32,
    /// The port that transmits to the neighbour.
    pub port: PortId,
}

/// A link between two switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The dense numbers of both switches, in the order of [`crate::Link::ends`].
    pub ends: [u32; 2],
    /// The link.
    pub link: LinkId,
}

/// The graph of switches that routing works on. A "switch" here is any node with a dense number: every
/// switch, and also a host that another host is attached to (two hosts back to back).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchGraph {
    switches: Vec<NodeId>,
    number: IndexVec<NodeId, u32>,
    first: Vec<u32>,
    arcs: Vec<Arc>,
    edges: Vec<Edge>,
    attachments: Vec<u32>,
    attachment_row: Vec<u32>,
    hosts: Vec<NodeId>,
    first_host: Vec<u32>,
    uplink: IndexVec<NodeId, PortId>,
    attachment: IndexVec<NodeId, u32>,
    /// By node: the host that it is a port of, or itself.
    host_of: IndexVec<NodeId, NodeId>,
    head: Vec<u32>,
    parts: Vec<u32>,
    part_count: u32,
}

/// A host has no working link, or more than one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("host {host:?} has {count} working links; routing needs exactly one: {}", if *count == 0 {
    "connect the host, or take it out"
} else {
    "use topology.with_single_ports(), in which each further port of a host is a destination"
})]
pub struct HostLinks {
    /// The name of the host.
    pub host: String,
    /// Number of links of the host.
    pub count: usize,
}

/// Marks a node without a dense number.
const NONE: u32 = u32::MAX;

impl SwitchGraph {
    /// Makes the graph with all links.
    ///
    /// # Errors
    /// If a host does not have exactly one link.
    pub fn new(topology: &Topology) -> Result<SwitchGraph, HostLinks> {
        SwitchGraph::without(topology, &[])
    }

    /// Makes the graph without the links in `failed`.
    ///
    /// # Errors
    /// If a host has no working link, or more than one.
    pub fn without(topology: &Topology, failed: &[LinkId]) -> Result<SwitchGraph, HostLinks> {
        let mut works: IndexVec<LinkId, bool> = IndexVec::filled(true, topology.links().len());
        for link in failed {
            works[*link] = false;
        }
        let uplink = uplinks(topology, &works)?;
        let mut graph = SwitchGraph {
            switches: Vec::new(),
            number: IndexVec::filled(NONE, topology.nodes().len()),
            first: Vec::new(),
            arcs: Vec::new(),
            edges: Vec::new(),
            attachments: Vec::new(),
            attachment_row: Vec::new(),
            hosts: Vec::new(),
            first_host: vec![0],
            uplink,
            attachment: IndexVec::filled(NONE, topology.nodes().len()),
            host_of: topology.nodes().ids().map(|node| topology.host_of(node)).collect(),
            head: vec![NONE; topology.port_count()],
            parts: Vec::new(),
            part_count: 0,
        };
        graph.number_switches(topology);
        graph.add_arcs(topology, &works);
        graph.add_hosts(topology);
        graph.number_parts();
        Ok(graph)
    }

    fn number_switches(&mut self, topology: &Topology) {
        let attached = topology.host_ports().map(|host| topology.peer(self.uplink[host]));
        let mut counts: IndexVec<NodeId, bool> = IndexVec::filled(false, topology.nodes().len());
        for node in topology.switches().chain(attached) {
            counts[node] = true;
        }
        for node in topology.nodes().ids().filter(|node| counts[*node]) {
            self.number[node] = self.switches.len() as u32;
            self.switches.push(node);
        }
    }

    fn add_arcs(&mut self, topology: &Topology, works: &IndexVec<LinkId, bool>) {
        let fabric = |port: PortId| {
            works[port.link()]
                && [topology.owner(port), topology.peer(port)].iter().all(|node| self.number[*node] != NONE)
                && topology.owner(port) != topology.peer(port)
        };
        let mut first = vec![0];
        let mut arcs: Vec<Arc> = Vec::new();
        for switch in &self.switches {
            let start = arcs.len();
            let ports = topology.nodes()[*switch].ports.iter().filter(|port| fabric(**port));
            arcs.extend(ports.map(|port| Arc { to: self.number[topology.peer(*port)], port: *port }));
            arcs[start..].sort_by_key(|arc| arc.port);
            first.push(arcs.len() as u32);
        }
        let links = topology.links().iter_enumerated().filter(|(id, _)| fabric(PortId::of_link(*id, 0)));
        self.edges = links.map(|(link, l)| Edge { ends: l.ends.map(|end| self.number[end]), link }).collect();
        for arc in &arcs {
            self.head[arc.port.0 as usize] = arc.to;
        }
        (self.first, self.arcs) = (first, arcs);
    }

    fn add_hosts(&mut self, topology: &Topology) {
        let mut by_switch: Vec<Vec<NodeId>> = vec![Vec::new(); self.switches.len()];
        for host in topology.host_ports() {
            self.attachment[host] = self.number[topology.peer(self.uplink[host])];
            by_switch[self.attachment[host] as usize].push(host);
        }
        self.attachment_row = vec![NONE; self.switches.len()];
        for (switch, hosts) in by_switch.into_iter().enumerate() {
            if !hosts.is_empty() {
                self.attachment_row[switch] = self.attachments.len() as u32;
                self.attachments.push(switch as u32);
            }
            self.hosts.extend(hosts);
            self.first_host.push(self.hosts.len() as u32);
        }
    }

    /// The part that a switch belongs to; `None` for switches that no host reaches. A part is
    /// connected by links between switches; hosts do not join parts, so the planes of hosts with several ports are
    /// parts. They count from 0 in the order of their first edge switches.
    pub fn part(&self, switch: u32) -> Option<u32> {
        Some(self.parts[switch as usize]).filter(|part| *part != NONE)
    }

    /// Number of parts with hosts.
    pub fn part_count(&self) -> u32 {
        self.part_count
    }

    /// True if links between switches join these two edge switches, given by their indices.
    pub fn joins(&self, rows: [u32; 2]) -> bool {
        let [one, other] = rows.map(|row| self.parts[self.attachments[row as usize] as usize]);
        one == other
    }

    fn number_parts(&mut self) {
        self.parts = vec![NONE; self.len()];
        self.part_count = 0;
        let (mut distance, mut reached) = (vec![0; self.len()], Vec::new());
        for row in 0..self.attachments.len() {
            let start = self.attachments[row];
            if self.parts[start as usize] == NONE {
                self.distances(start, &mut distance, &mut reached);
                for switch in &reached {
                    self.parts[*switch as usize] = self.part_count;
                }
                self.part_count += 1;
            }
        }
    }

    /// The graph of one part: its switches with new numbers, their hosts and links. Ports keep their ids.
    #[must_use]
    pub fn only_part(&self, part: u32) -> SwitchGraph {
        let switches: Vec<u32> = (0..self.len() as u32).filter(|old| self.part(*old) == Some(part)).collect();
        let mut new_number = vec![NONE; self.len()];
        for (new, old) in (0..).zip(&switches) {
            new_number[*old as usize] = new;
        }
        let renumbered = |old: &u32| new_number.get(*old as usize).copied().unwrap_or(NONE);
        let kept = |old: &&u32| renumbered(old) != NONE;
        let mut graph = SwitchGraph {
            switches: switches.iter().map(|old| self.node(*old)).collect(),
            number: self.number.iter().map(renumbered).collect(),
            first: vec![0],
            arcs: Vec::new(),
            edges: self.edges.iter().filter(|edge| kept(&&edge.ends[0])).copied().collect(),
            attachments: self.attachments.iter().filter(kept).map(renumbered).collect(),
            attachment_row: vec![NONE; switches.len()],
            hosts: Vec::new(),
            first_host: vec![0],
            uplink: self.uplink.clone(),
            attachment: self.attachment.iter().map(renumbered).collect(),
            host_of: self.host_of.clone(),
            head: self.head.iter().map(renumbered).collect(),
            parts: vec![0; switches.len()],
            part_count: 1,
        };
        graph.edges.iter_mut().for_each(|edge| edge.ends = edge.ends.map(|end| renumbered(&end)));
        for old in switches {
            let arcs = self.arcs(old).iter();
            graph.arcs.extend(arcs.map(|arc| Arc { to: renumbered(&arc.to), port: arc.port }));
            graph.first.push(graph.arcs.len() as u32);
            graph.hosts.extend(self.hosts(old));
            graph.first_host.push(graph.hosts.len() as u32);
        }
        for (row, switch) in (0..).zip(&graph.attachments) {
            graph.attachment_row[*switch as usize] = row;
        }
        graph
    }

    /// Number of switches.
    pub fn len(&self) -> usize {
        self.switches.len()
    }

    /// True if there is no switch.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty()
    }

    /// The node with the dense number `switch`.
    pub fn node(&self, switch: u32) -> NodeId {
        self.switches[switch as usize]
    }

    /// The dense number of `node`, if it is a switch.
    pub fn number(&self, node: NodeId) -> Option<u32> {
        Some(self.number[node]).filter(|number| *number != NONE)
    }

    /// The neighbours of a switch, ascending by port; each parallel link has its own entry.
    #[inline]
    pub fn arcs(&self, switch: u32) -> &[Arc] {
        let at = switch as usize;
        &self.arcs[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// The links between switches, ascending by link.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edge switches: the switches that hosts are attached to, ascending.
    pub fn attachments(&self) -> &[u32] {
        &self.attachments
    }

    /// The index of `switch` in [`SwitchGraph::attachments`], if it is an edge switch.
    pub fn attachment_row(&self, switch: u32) -> Option<u32> {
        Some(self.attachment_row[switch as usize]).filter(|row| *row != NONE)
    }

    /// The hosts at a switch, ascending.
    pub fn hosts(&self, switch: u32) -> &[NodeId] {
        let at = switch as usize;
        &self.hosts[self.first_host[at] as usize..self.first_host[at + 1] as usize]
    }

    /// The switch that a host is attached to; none if `host` is a switch.
    #[inline]
    pub fn attachment(&self, host: NodeId) -> Option<u32> {
        Some(self.attachment[host]).filter(|number| *number != NONE)
    }

    /// The host that a node is a port of ([`Topology::host_of`]).
    pub fn host_of(&self, node: NodeId) -> NodeId {
        self.host_of[node]
    }

    /// The first of `from` and the first of `to` that are ports of different hosts; none if all are ports of one.
    pub fn pair_of_hosts(&self, from: &[NodeId], to: &[NodeId]) -> Option<[NodeId; 2]> {
        let other = |to: &NodeId| from.iter().find(|from| self.host_of(**from) != self.host_of(*to));
        to.iter().find_map(|to| Some([*other(to)?, *to]))
    }

    /// Number of directed ports in the topology.
    pub fn port_count(&self) -> usize {
        self.head.len()
    }

    /// Number of nodes in the topology, hosts included.
    #[inline]
    pub fn node_count(&self) -> usize {
        self.number.len()
    }

    /// The switch at the other end of `port`; none if the neighbour is a host or the link is absent.
    #[inline]
    pub fn head(&self, port: PortId) -> Option<u32> {
        Some(self.head[port.0 as usize]).filter(|number| *number != NONE)
    }

    /// The one port of a host ([`PortId::NONE`] for a switch).
    #[inline]
    pub fn uplink(&self, host: NodeId) -> PortId {
        self.uplink[host]
    }

    /// The one port of a host, as a reference for callers that return slices.
    pub fn uplink_ref(&self, host: NodeId) -> &PortId {
        &self.uplink[host]
    }

    /// Computes the number of links from every switch to `to` by breadth-first search; `u32::MAX` means no
    /// path. Afterwards `queue` contains the reached switches in the order of their distance.
    pub fn distances(&self, to: u32, distance: &mut [u32], queue: &mut Vec<u32>) {
        self.distances_to_any(&[to], distance, queue);
    }

    /// Like [`SwitchGraph::distances`], to the nearest of several switches.
    pub fn distances_to_any(&self, to: &[u32], distance: &mut [u32], queue: &mut Vec<u32>) {
        distance.fill(u32::MAX);
        queue.clear();
        queue.extend_from_slice(to);
        for switch in to {
            distance[*switch as usize] = 0;
        }
        let mut head = 0;
        while head < queue.len() {
            let at = queue[head];
            head += 1;
            for arc in self.arcs(at) {
                if distance[arc.to as usize] == u32::MAX {
                    distance[arc.to as usize] = distance[at as usize] + 1;
                    queue.push(arc.to);
                }
            }
        }
    }
}

fn uplinks(
    topology: &Topology,
    works: &IndexVec<LinkId, bool>,
) -> Result<IndexVec<NodeId, PortId>, HostLinks> {
    let mut uplink = IndexVec::filled(PortId::NONE, topology.nodes().len());
    for host in topology.host_ports() {
        let mut ports = topology.nodes()[host].ports.iter().filter(|port| works[port.link()]);
        match (ports.next(), ports.count()) {
            (Some(port), 0) => uplink[host] = *port,
            (first, more) => {
                let host = topology.nodes()[host].name.clone();
                return Err(HostLinks { host, count: usize::from(first.is_some()) + more });
            }
        }
    }
    Ok(uplink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, NodeKind};
    use pauseframe_units::{BitRate, Span};

    #[test]
    fn parallel_and_failed_links_and_back_to_back_hosts() {
        let channel = Channel { rate: BitRate::gbps(10), delay: Span::ZERO };
        let mut topology = Topology::new();
        let a = topology.add_node("a", NodeKind::Host, None);
        let s = topology.add_node("s", NodeKind::Switch, None);
        let b = topology.add_node("b", NodeKind::Host, None);
        let t = topology.add_node("t", NodeKind::Switch, None);
        topology.add_link(a, s, channel);
        let first = topology.add_link(s, t, channel);
        topology.add_link(t, s, channel);
        let last = topology.add_link(b, t, channel);
        let graph = SwitchGraph::new(&topology).unwrap();
        assert_eq!((graph.len(), graph.edges().len(), graph.arcs(0).len()), (2, 2, 2));
        assert_eq!(graph.hosts(1), [b]);
        assert_eq!(SwitchGraph::without(&topology, &[first]).unwrap().edges().len(), 1);
        let error = SwitchGraph::without(&topology, &[last]).unwrap_err();
        assert_eq!(error, HostLinks { host: "b".to_owned(), count: 0 });

        let mut pair = Topology::new();
        let a = pair.add_node("a", NodeKind::Host, None);
        let b = pair.add_node("b", NodeKind::Host, None);
        pair.add_link(a, b, channel);
        let graph = SwitchGraph::new(&pair).unwrap();
        assert_eq!((graph.hosts(0), graph.hosts(1)), (&[b][..], &[a][..]));
    }
}
