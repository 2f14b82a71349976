//! The graph of a fabric: named nodes and full-duplex links, without queues and flows.

use pauseframe_units::{BitRate, IndexVec, LinkId, NodeId, PortId, Span};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// An end system, which sends and receives packets and never forwards them.
    Host,
    /// A switch, which forwards packets.
    Switch,
}

/// A host or a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Name of the node in files, tables and error messages; unique in the topology.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
    /// Level of the node in a tree-like fabric (0 = hosts, Öhring 1995), if the fabric has levels.
    pub level: Option<u8>,
    /// The ports of this node, in the order in which the links were added; the index is the local port
    /// number.
    pub ports: Vec<PortId>,
    /// The host that this node is a further port of ([`Labels::split_hosts`](crate::interchange::Labels::split_hosts)).
    pub port_of: Option<PortOfHost>,
}

/// A port of a host with several, as a separate node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortOfHost {
    /// The node of the host, which stands for its first port.
    pub host: NodeId,
    /// Number of the port at the host; at least 1.
    pub number: u32,
}

/// Rate and propagation delay of one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Rate in bits per second; never zero.
    pub rate: BitRate,
    /// Propagation delay.
    pub delay: Span,
}

/// A full-duplex link between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The nodes at both ends of the link.
    pub ends: [NodeId; 2],
    /// The channels in both directions: from each end to the other.
    pub channels: [Channel; 2],
}

/// A graph of hosts and switches. Ids count nodes and links in the order in which they were added, so the
/// same file always gives the same ids.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    nodes: IndexVec<NodeId, Node>,
    links: IndexVec<LinkId, Link>,
    /// Ports with a name instead of their number.
    port_names: BTreeMap<PortId, String>,
}

impl Topology {
    /// Makes a graph without nodes.
    pub fn new() -> Topology {
        Topology::default()
    }

    /// Adds a node; names must be unique ([`crate::check`] reports duplicates).
    pub fn add_node(&mut self, name: impl Into<String>, kind: NodeKind, level: Option<u8>) -> NodeId {
        self.nodes.push(Node { name: name.into(), kind, level, ports: Vec::new(), port_of: None })
    }

    /// The same nodes without links.
    pub(crate) fn without_all_links(&self) -> Topology {
        let nodes = self.nodes.iter().map(|node| Node { ports: Vec::new(), ..node.clone() });
        Topology { nodes: nodes.collect(), ..Topology::default() }
    }

    /// Makes a node a further port of a host, which precedes it.
    ///
    /// # Errors
    /// If one of the nodes is a switch, or the host itself a port.
    pub fn set_port_of(&mut self, node: NodeId, port: PortOfHost) -> Result<(), String> {
        let [own, host] = [node, port.host].map(|node| &self.nodes[node]);
        let are_hosts = [own, host].iter().all(|node| node.kind == NodeKind::Host);
        if !are_hosts || host.port_of.is_some() || port.host >= node {
            return Err(format!(
                "{:?} is no port of {:?}: name a host that precedes it",
                own.name, host.name
            ));
        }
        self.nodes[node].port_of = Some(port);
        Ok(())
    }

    /// Adds a node for a further port of `host`.
    pub(crate) fn add_port_of_host(&mut self, name: String, host: NodeId, number: u32) -> NodeId {
        let node = self.add_node(name, NodeKind::Host, self.nodes[host].level);
        self.nodes[node].port_of = Some(PortOfHost { host, number });
        node
    }

    /// Adds a link with the same rate and delay in both directions.
    pub fn add_link(&mut self, a: NodeId, b: NodeId, channel: Channel) -> LinkId {
        self.add_asymmetric_link(a, b, [channel, channel])
    }

    /// Adds a link; `channels[0]` describes the direction from `a` to `b`.
    pub fn add_asymmetric_link(&mut self, a: NodeId, b: NodeId, channels: [Channel; 2]) -> LinkId {
        let link = self.links.push(Link { ends: [a, b], channels });
        self.nodes[a].ports.push(PortId::of_link(link, 0));
        self.nodes[b].ports.push(PortId::of_link(link, 1));
        link
    }

    /// All nodes.
    pub fn nodes(&self) -> &IndexVec<NodeId, Node> {
        &self.nodes
    }

    /// All links.
    pub fn links(&self) -> &IndexVec<LinkId, Link> {
        &self.links
    }

    /// The hosts, in the order of their ids.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> {
        self.of_kind(NodeKind::Host).filter(|node| self.nodes[*node].port_of.is_none())
    }

    /// The hosts and the nodes of their further ports: where paths begin and end.
    pub fn host_ports(&self) -> impl Iterator<Item = NodeId> {
        self.of_kind(NodeKind::Host)
    }

    /// True if nodes stand for further ports of hosts ([`PortOfHost`]).
    pub fn has_port_nodes(&self) -> bool {
        self.nodes.iter().any(|node| node.port_of.is_some())
    }

    /// The host that a node stands for: that of a further port, else the node itself.
    pub fn host_of(&self, node: NodeId) -> NodeId {
        self.nodes[node].port_of.map_or(node, |port| port.host)
    }

    /// By host with several ports: the nodes of its ports, by number.
    pub fn ports_of_hosts(&self) -> BTreeMap<NodeId, Vec<NodeId>> {
        let mut ports: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in self.nodes.iter_enumerated() {
            if let Some(PortOfHost { host, .. }) = node.port_of {
                ports.entry(host).or_insert_with(|| vec![host]).push(id);
            }
        }
        ports
    }

    /// The pairs of switches that share a host with two ports, each with the smaller one first.
    pub fn switches_with_common_hosts(&self) -> BTreeSet<[NodeId; 2]> {
        let switch_at = |port: &NodeId| self.peer(self.nodes[*port].ports[0]);
        let pair = |ports: &Vec<NodeId>| {
            let [one, other] = ports.iter().map(switch_at).collect::<Vec<_>>()[..] else { return None };
            (one != other).then(|| [one.min(other), one.max(other)])
        };
        self.ports_of_hosts().values().filter_map(pair).collect()
    }

    /// The links between two switches that share hosts (peer links of MLAG).
    pub fn links_between_homes(&self) -> Vec<LinkId> {
        let pairs = self.switches_with_common_hosts();
        let is_between = |ends: [NodeId; 2]| pairs.contains(&[ends[0].min(ends[1]), ends[0].max(ends[1])]);
        let links = self.links.iter_enumerated().filter(|(_, link)| is_between(link.ends));
        links.map(|(id, _)| id).collect()
    }

    /// The switches, in the order of their ids.
    pub fn switches(&self) -> impl Iterator<Item = NodeId> {
        self.of_kind(NodeKind::Switch)
    }

    fn of_kind(&self, kind: NodeKind) -> impl Iterator<Item = NodeId> {
        self.nodes.iter_enumerated().filter(move |(_, node)| node.kind == kind).map(|(id, _)| id)
    }

    /// Number of directed ports, two for each link.
    pub fn port_count(&self) -> usize {
        self.links.len() * 2
    }

    /// The node that transmits from `port`.
    #[inline]
    pub fn owner(&self, port: PortId) -> NodeId {
        self.links[port.link()].ends[port.end()]
    }

    /// The node at the far end of the link of `port`.
    #[inline]
    pub fn peer(&self, port: PortId) -> NodeId {
        self.links[port.link()].ends[1 - port.end()]
    }

    /// Rate and delay of the direction in which `port` transmits.
    pub fn channel(&self, port: PortId) -> Channel {
        self.links[port.link()].channels[port.end()]
    }

    /// The node with this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter_enumerated().find(|(_, node)| node.name == name).map(|(id, _)| id)
    }

    /// The number of a port at its switch or host, from 0.
    pub fn port_number(&self, port: PortId) -> usize {
        let node = &self.nodes[self.owner(port)];
        // Links number ports upwards.
        let position = || node.ports.binary_search(&port).unwrap_or(0);
        node.port_of.map_or_else(position, |port| port.number as usize)
    }

    /// Names a port, instead of by its number.
    pub fn name_port(&mut self, port: PortId, name: impl Into<String>) {
        self.port_names.insert(port, name.into());
    }

    /// The ports with a name.
    pub fn named_ports(&self) -> impl Iterator<Item = (PortId, &str)> {
        self.port_names.iter().map(|(port, name)| (*port, name.as_str()))
    }

    /// The name of a port: its switch or host, a colon, the port's own name or number there ("edge0:3").
    pub fn port_name(&self, port: PortId) -> String {
        let node = &self.nodes[self.host_of(self.owner(port))].name;
        self.port_names
            .get(&port)
            .map_or_else(|| self.numbered_port_name(port), |name| format!("{node}:{name}"))
    }

    /// The same with the port's number, which names it too.
    pub fn numbered_port_name(&self, port: PortId) -> String {
        format!("{}:{}", self.nodes[self.host_of(self.owner(port))].name, self.port_number(port))
    }
}
