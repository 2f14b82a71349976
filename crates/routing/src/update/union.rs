//! The union of the old and the new topology, on which an update takes place.
//!
//! Two nodes are the same if they have the same name. Two links are the same if they join the same nodes by
//! ports of the same names. Ports without names in the old topology have those that a file of it would get (`eth1`, `eth2` ..); what remains between
//! the same nodes is matched in its order if one of the files contains no port names. A host that moves, appears or disappears exists at both places, because packets to
//! its old place are in flight until the old tables are removed.

use crate::RoutingError;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{Node, NodeKind, PortOfHost, Topology};
use pauseframe_units::{IndexVec, LinkId, NodeId, PortId};
use std::collections::{BTreeMap, BTreeSet};

/// Suffix of a port name, if a port of the new topology has the name of a port that a cable of the old
/// topology still uses.
const NEW: &str = " (new)";

/// The union of the old and the new topology.
#[derive(Clone, Debug)]
pub struct Union {
    /// The graph of the union.
    pub topology: Topology,
    /// The port names of the union: the old topology's names, and the new topology's names for new ports.
    pub labels: Labels,
    /// The node in the union for each old and each new node.
    pub(super) nodes: [IndexVec<NodeId, NodeId>; 2],
    /// The port in the union for each old and each new port.
    pub(super) ports: [Vec<PortId>; 2],
    /// For each link of the union, whether the old and the new topology contain it.
    pub(super) present: [Vec<bool>; 2],
    /// Hosts that are attached to another switch in the new topology.
    pub moved: Vec<String>,
}

/// The names of the nodes at both ends of a link, ascending.
fn ends(topology: &Topology, link: LinkId) -> [&str; 2] {
    let mut names = topology.links()[link].ends.map(|end| topology.nodes()[end].name.as_str());
    names.sort_unstable();
    names
}

/// The names of the link's ports, in the order of the nodes' names, if the ports have names.
fn ports<'a>(topology: &'a Topology, labels: &'a Labels, link: LinkId) -> Option<[&'a str; 2]> {
    let end = |end: usize| {
        let port = PortId::of_link(link, end);
        Some((topology.nodes()[topology.owner(port)].name.as_str(), labels.port(port)?))
    };
    let mut named = [end(0)?, end(1)?];
    named.sort_unstable();
    Some(named.map(|(_, port)| port))
}

/// As [`ports`], with the names that ports without one get when the topology is written.
fn default_ports((topology, labels): (&Topology, &Labels), link: LinkId) -> [String; 2] {
    let mut named = [0, 1].map(|end| {
        let port = PortId::of_link(link, end);
        (topology.nodes()[topology.owner(port)].name.as_str(), labels.port_or_default(topology, port))
    });
    named.sort_unstable();
    named.map(|(_, port)| port)
}

/// For each new link, the old link that it matches.
fn matched(old: (&Topology, &Labels), new: (&Topology, &Labels)) -> Vec<Option<LinkId>> {
    let mut left: BTreeMap<[&str; 2], Vec<LinkId>> = BTreeMap::new();
    for link in old.0.links().ids() {
        left.entry(ends(old.0, link)).or_default().push(link);
    }
    let mut found = vec![None; new.0.links().len()];
    // Match links by port names before other links, so that each named link finds its partner.
    for by_name in [true, false] {
        for link in
            new.0.links().ids().filter(|link| by_name || found[link.0 as usize].is_none()).collect::<Vec<_>>()
        {
            let Some(candidates) = left.get_mut(&ends(new.0, link)) else { continue };
            let here = ports(new.0, new.1, link);
            let same = |other: &LinkId| match (ports(old.0, old.1, *other), here) {
                (Some(there), Some(here)) => there == here,
                (None, Some(here)) if by_name => default_ports(old, *other) == here,
                _ => !by_name,
            };
            found[link.0 as usize] = candidates.iter().position(same).map(|at| candidates.remove(at));
        }
    }
    found
}

impl Union {
    /// Joins two topologies with their port names.
    ///
    /// # Errors
    /// If a node is a host in one topology and a switch in the other.
    pub fn of(old: (&Topology, &Labels), new: (&Topology, &Labels)) -> Result<Union, RoutingError> {
        let mut union = Union {
            topology: Topology::new(),
            labels: Labels::default(),
            nodes: [IndexVec::new(), IndexVec::new()],
            ports: [Vec::new(), Vec::new()],
            present: [Vec::new(), Vec::new()],
            moved: Vec::new(),
        };
        let matched = matched(old, new);
        union.add_nodes(old, new, &matched)?;
        union.add_links(old, new, &matched);
        Ok(union)
    }

    fn add_nodes(
        &mut self,
        old: (&Topology, &Labels),
        new: (&Topology, &Labels),
        matched: &[Option<LinkId>],
    ) -> Result<(), RoutingError> {
        let names = |topology: &Topology| -> BTreeMap<String, NodeId> {
            topology.nodes().iter_enumerated().map(|(id, node)| (node.name.clone(), id)).collect()
        };
        let stands = |id: NodeId, later: NodeId| {
            let links = new.0.nodes()[later].ports.iter().map(|port| matched[port.link().0 as usize]);
            links.eq(old.0.nodes()[id].ports.iter().map(|port| Some(port.link())))
        };
        let (before, after) = (names(old.0), names(new.0));
        for (id, node) in old.0.nodes().iter_enumerated() {
            let later = after.get(&node.name).copied();
            if later.is_some_and(|later| new.0.nodes()[later].kind != node.kind) {
                let name = &node.name;
                let message =
                    format!("{name:?} is a host in one topology and a switch in the other: rename one");
                return Err(RoutingError::Graph(message));
            }
            let moved = node.kind == NodeKind::Host && later.is_some_and(|later| !stands(id, later));
            if moved {
                self.moved.push(node.name.clone());
            }
            let name = if moved { format!("{} (before)", node.name) } else { node.name.clone() };
            let here = self.topology.add_node(name, node.kind, node.level);
            self.nodes[0].push(here);
            self.keep_port_of(here, node, 0);
        }
        for node in new.0.nodes() {
            let stays = before.get(&node.name).filter(|_| !self.moved.contains(&node.name));
            let here = match stays {
                Some(before) => self.nodes[0][*before],
                None => self.topology.add_node(node.name.clone(), node.kind, node.level),
            };
            self.nodes[1].push(here);
            if stays.is_none() {
                self.keep_port_of(here, node, 1);
            }
        }
        Ok(())
    }

    /// Makes `here` a port of the host that `node` is a port of in the old (0) or new (1) topology.
    fn keep_port_of(&mut self, here: NodeId, node: &Node, which: usize) {
        let Some(PortOfHost { host, number }) = node.port_of else { return };
        let host = self.nodes[which][host];
        // A host that is new in a graph may follow its ports, or be one of another host: then it stays a host.
        let _ = self.topology.set_port_of(here, PortOfHost { host, number });
    }

    fn add_links(
        &mut self,
        old: (&Topology, &Labels),
        new: (&Topology, &Labels),
        matched: &[Option<LinkId>],
    ) {
        for (id, link) in old.0.links().iter_enumerated() {
            let ends = link.ends.map(|end| self.nodes[0][end]);
            // The links of the union begin with the old links, which thus keep their numbers.
            let here = self.topology.add_asymmetric_link(ends[0], ends[1], link.channels);
            self.ports[0].extend([0, 1].map(|end| PortId::of_link(here, end)));
            self.mark(here, 0);
            for end in 0..2 {
                let name = old.1.port_or_default(old.0, PortId::of_link(id, end));
                self.labels.name_port(PortId::of_link(here, end), name);
            }
        }
        for (id, link) in new.0.links().iter_enumerated() {
            let ends = link.ends.map(|end| self.nodes[1][end]);
            let known = matched[id.0 as usize];
            let here =
                known.unwrap_or_else(|| self.topology.add_asymmetric_link(ends[0], ends[1], link.channels));
            self.mark(here, 1);
            // A link whose ends are swapped in a file is still the same link.
            let turned = self.topology.links()[here].ends[0] != ends[0];
            for end in 0..2 {
                let port = PortId::of_link(here, end ^ usize::from(turned));
                self.ports[1].push(port);
                if known.is_none() {
                    let name = self.free_name(new.1, PortId::of_link(id, end), port);
                    self.labels.name_port(port, name);
                }
            }
        }
    }

    /// The name of a new port: its own name, with a mark if an old port of the node still uses it, or the
    /// first unused name among `eth1`, `eth2` ...
    fn free_name(&self, labels: &Labels, theirs: PortId, port: PortId) -> String {
        let node = &self.topology.nodes()[self.topology.owner(port)];
        let taken: BTreeSet<&str> = node.ports.iter().filter_map(|port| self.labels.port(*port)).collect();
        match labels.port(theirs) {
            Some(name) if taken.contains(name) => format!("{name}{NEW}"),
            Some(name) => name.to_owned(),
            None => {
                let mut names = (1..).map(|number| format!("eth{number}"));
                names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
            }
        }
    }

    fn mark(&mut self, link: LinkId, which: usize) {
        for present in &mut self.present {
            present.resize(self.topology.links().len(), false);
        }
        self.present[which][link.0 as usize] = true;
    }

    /// The port names of the new topology in the union.
    pub(super) fn labels_of_new(&self, new: &Labels) -> Labels {
        let mut labels = new.clone();
        for (port, here) in self.ports[1].iter().enumerate() {
            if let Some(name) = self.labels.port(*here) {
                labels.name_port(PortId(port as u32), name.strip_suffix(NEW).unwrap_or(name));
            }
        }
        labels
    }
}
