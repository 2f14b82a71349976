//! What a file says beyond the graph: interface names, InfiniBand port numbers, LIDs, GUIDs, MAC addresses,
//! errors of links, and switches inside of servers.
//!
//! A [`Topology`] identifies ports by number only. Forwarding tables of real switches use the switches' own
//! port names, so an import keeps those names beside the graph.

use crate::check::{check, forwarding_hosts};
use crate::{NodeKind, PortOfHost, Topology};
use pauseframe_units::{IndexVec, LinkId, NodeId, PortId, counted};
use std::collections::{BTreeMap, BTreeSet};

/// Names of ports, addresses of nodes, errors of links, and switches inside of servers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Labels {
    ports: BTreeMap<PortId, String>,
    addresses: BTreeMap<String, Address>,
    frame_errors: BTreeMap<LinkId, f64>,
    scale_up: BTreeSet<NodeId>,
}

/// The node that an address belongs to, and the path that the address selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The node with this address.
    pub node: NodeId,
    /// The port with this address, if it is the address of a port.
    pub port: Option<PortId>,
    /// Index among several addresses of the same port: with an InfiniBand LMC above 0 a host has 2^LMC LIDs,
    /// and the sender selects the route by selecting a LID. 0 if the port has one address.
    pub path: u16,
}

impl Labels {
    /// Gives a port the name `name` at its node.
    pub fn name_port(&mut self, port: PortId, name: impl Into<String>) {
        self.ports.insert(port, name.into());
    }

    /// The name of a port, if it was given one.
    pub fn port(&self, port: PortId) -> Option<&str> {
        self.ports.get(&port).map(String::as_str)
    }

    /// True if any port was given a name.
    pub fn name_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// The name of a port at its node: the given name, or `eth{n}`, where n is the port number counted from 1
    /// (as in containerlab, where `eth0` is the management port).
    pub fn port_or_default(&self, topology: &Topology, port: PortId) -> String {
        self.port(port).map_or_else(|| format!("eth{}", topology.port_number(port) + 1), str::to_owned)
    }

    /// The full name of a port in tables and reports: its node, a colon, the port's name at the node. If only
    /// some ports of a node have names, the other ports are named by their number, from 0.
    pub fn port_name(&self, topology: &Topology, port: PortId) -> String {
        let node = &topology.nodes()[topology.owner(port)];
        let nameless = self.port(port).is_none();
        if nameless && node.ports.iter().any(|other| self.port(*other).is_some()) {
            return topology.port_name(port);
        }
        let name = &topology.nodes()[topology.host_of(topology.owner(port))].name;
        format!("{name}:{}", self.port_or_default(topology, port))
    }

    /// Returns `topology` without the failed links, and its labels. If a node loses a link, its other ports
    /// keep their names, including default names.
    pub fn without_links(&self, topology: &Topology, failed: &[LinkId]) -> (Topology, Labels) {
        let (mut graph, mut labels) = (topology.without_all_links(), Labels::default());
        labels.scale_up.clone_from(&self.scale_up);
        let failed: BTreeSet<LinkId> = failed.iter().copied().collect();
        let mut kept_ports: BTreeMap<PortId, PortId> = BTreeMap::new();
        let loses =
            |node: NodeId| topology.nodes()[node].ports.iter().any(|port| failed.contains(&port.link()));
        for (id, link) in topology.links().iter_enumerated().filter(|(id, _)| !failed.contains(id)) {
            let kept = graph.add_asymmetric_link(link.ends[0], link.ends[1], link.channels);
            labels.frame_errors.extend(self.frame_errors.get(&id).map(|ratio| (kept, *ratio)));
            for (end, node) in link.ends.into_iter().enumerate() {
                let port = PortId::of_link(id, end);
                kept_ports.insert(port, PortId::of_link(kept, end));
                let by_position = || loses(node).then(|| self.port_or_default(topology, port));
                if let Some(name) = self.port(port).map(str::to_owned).or_else(by_position) {
                    labels.name_port(PortId::of_link(kept, end), name);
                }
            }
        }
        for (text, address) in self.addresses() {
            let port = address.port.and_then(|port| kept_ports.get(&port).copied());
            let node = &topology.nodes()[address.node];
            // The address of a failed port does not move to another port of its host.
            let has_others = node.kind == NodeKind::Host && node.ports.len() > 1;
            if port.is_some() || address.port.is_none() || !has_others {
                labels.addresses.insert(text.to_owned(), Address { port, ..address });
            }
        }
        (graph, labels)
    }

    /// The reasons why `topology` cannot be simulated, for messages; empty if it can.
    pub fn problems(&self, topology: &Topology) -> Vec<String> {
        match self.inside_servers(topology) {
            Some(problem) => vec![problem],
            None => check(topology).iter().map(ToString::to_string).collect(),
        }
    }

    fn inside_servers(&self, topology: &Topology) -> Option<String> {
        let first = self.scale_up.first()?;
        Some(format!(
            "{}, such as {:?}: NVLink is no part of the network; `pauseframe import simai` makes a scenario that \
             simulates both",
            counted(self.scale_up.len(), "NVSwitch"),
            topology.nodes()[*first].name
        ))
    }

    /// Makes each further port of a host a separate node ([`PortOfHost`]); returns the graph and
    /// its labels. Simulator, routes and proofs work on this form: since a host never forwards, its ports share no
    /// dependency (Dally and Seitz 1987). The first port keeps the name of the host, so that flows which name the
    /// host find it; further ones are named "h1.eth2".
    ///
    /// # Errors
    /// If the topology has switches inside of servers, or hosts would have to forward.
    pub fn split_hosts(&self, topology: &Topology) -> Result<(Topology, Labels), String> {
        if let Some(problem) = self.inside_servers(topology) {
            return Err(problem);
        }
        if let Some(error) = forwarding_hosts(topology) {
            return Err(error.to_string());
        }
        let (mut graph, mut labels) = (Topology::new(), Labels::default());
        labels.frame_errors.clone_from(&self.frame_errors);
        // The node of each port; all ports of a switch belong to one node.
        let mut nodes: Vec<Vec<NodeId>> = Vec::new();
        for node in topology.nodes() {
            // A graph that is split already stays so; hosts precede their ports.
            let own = match node.port_of {
                Some(PortOfHost { host, number }) => {
                    graph.add_port_of_host(node.name.clone(), nodes[host.0 as usize][0], number)
                }
                None => graph.add_node(node.name.clone(), node.kind, node.level),
            };
            let further = node.ports.iter().enumerate().skip(1).filter(|_| node.kind == NodeKind::Host);
            let further = further.map(|(number, port)| {
                let name = format!("{}.{}", node.name, self.port_or_default(topology, *port));
                graph.add_port_of_host(name, own, number as u32)
            });
            nodes.push(std::iter::once(own).chain(further.collect::<Vec<_>>()).collect());
        }
        let part = |port: PortId| {
            let node = topology.owner(port);
            let parts = &nodes[node.0 as usize];
            // A switch has one part.
            parts[topology.port_number(port).min(parts.len() - 1)]
        };
        for (id, link) in topology.links().iter_enumerated() {
            let ports = [0, 1].map(|end| PortId::of_link(id, end));
            graph.add_asymmetric_link(part(ports[0]), part(ports[1]), link.channels);
            for port in ports {
                if let Some(name) = self.port(port) {
                    labels.name_port(port, name);
                }
            }
        }
        topology.named_ports().for_each(|(port, name)| graph.name_port(port, name));
        for (text, address) in self.addresses() {
            let node = address.port.map_or(nodes[address.node.0 as usize][0], part);
            labels.addresses.insert(text.to_owned(), Address { node, ..address });
        }
        Ok((graph, labels))
    }

    /// The opposite of [`Labels::split_hosts`]: the nodes of a host's ports become one node. Links and ports keep
    /// their ids, and ports the names that their nodes give them.
    pub fn join_hosts(&self, topology: &Topology) -> (Topology, Labels) {
        let mut graph = Topology::new();
        let mut nodes: IndexVec<NodeId, NodeId> = IndexVec::new();
        for node in topology.nodes() {
            let joined = node.port_of.map(|port| nodes[port.host]);
            let new = || graph.add_node(node.name.clone(), node.kind, node.level);
            nodes.push(joined.unwrap_or_else(new));
        }
        for link in topology.links() {
            let [a, b] = link.ends.map(|end| nodes[end]);
            graph.add_asymmetric_link(a, b, link.channels);
        }
        topology.named_ports().for_each(|(port, name)| graph.name_port(port, name));
        let mut labels = Labels { addresses: BTreeMap::new(), ..self.clone() };
        labels.scale_up = self.scale_up.iter().map(|switch| nodes[*switch]).collect();
        for port in topology.host_ports().flat_map(|host| &topology.nodes()[host].ports) {
            let name = self.name_by_node(topology, *port);
            if name != labels.port_or_default(&graph, *port) {
                labels.name_port(*port, name);
            }
        }
        for (text, address) in self.addresses() {
            let own = topology.nodes()[address.node].ports.first().copied();
            let is_port = topology.nodes()[address.node].port_of.is_some();
            let port = address.port.or(own.filter(|_| is_port));
            labels.addresses.insert(text.to_owned(), Address { node: nodes[address.node], port, ..address });
        }
        (graph, labels)
    }

    /// The name of a host's port: its label, else what its node adds to the host's name ("eth2" of "h1.eth2").
    fn name_by_node(&self, topology: &Topology, port: PortId) -> String {
        let node = &topology.nodes()[topology.owner(port)];
        let host = &topology.nodes()[topology.host_of(topology.owner(port))].name;
        let own = node.name.strip_prefix(host.as_str()).and_then(|rest| rest.strip_prefix('.'));
        let name = self.port(port).or(own).map(str::to_owned);
        name.unwrap_or_else(|| self.port_or_default(topology, port))
    }

    /// Sets the probability that a frame on `link` is damaged, in either direction.
    pub fn set_frame_error(&mut self, link: LinkId, ratio: f64) {
        self.frame_errors.insert(link, ratio);
    }

    /// The probability that a frame on `link` is damaged, in either direction.
    pub fn frame_error(&self, link: LinkId) -> Option<f64> {
        self.frame_errors.get(&link).copied()
    }

    /// Links that damage frames, with the probability for each frame.
    pub fn frame_errors(&self) -> impl Iterator<Item = (LinkId, f64)> {
        self.frame_errors.iter().map(|(link, ratio)| (*link, *ratio))
    }

    /// Marks a switch as one inside of servers (`NVSwitch`), which is no part of the Ethernet.
    pub fn mark_scale_up(&mut self, switch: NodeId) {
        self.scale_up.insert(switch);
    }

    /// Gives a node or one of its ports a further address. Addresses are case-insensitive.
    pub fn add_address(&mut self, text: &str, address: Address) {
        self.addresses.insert(text.to_ascii_lowercase(), address);
    }

    /// Looks up an address.
    pub fn address(&self, address: &str) -> Option<Address> {
        self.addresses.get(&address.to_ascii_lowercase()).copied()
    }

    /// All addresses with their nodes.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Address)> {
        self.addresses.iter().map(|(text, address)| (text.as_str(), *address))
    }

    /// All names that a table may use for the ports of `node`: the given names; if the node has none, `eth1`,
    /// `eth2` ... and port numbers from 0; always the full name "leaf0:3".
    pub fn ports_by_name(&self, topology: &Topology, node: NodeId) -> BTreeMap<String, PortId> {
        let ports = &topology.nodes()[node].ports;
        let mut names = BTreeMap::new();
        for (position, port) in ports.iter().enumerate() {
            names.insert(format!("{}:{position}", topology.nodes()[node].name), *port);
            if ports.iter().all(|port| self.port(*port).is_none()) {
                names.insert(position.to_string(), *port);
                names.insert(format!("eth{}", position + 1), *port);
            } else if let Some(name) = self.port(*port) {
                names.insert(name.to_owned(), *port);
            }
        }
        names
    }
}
