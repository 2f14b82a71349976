//! Builds [`Tables`] from table rows that use names and come in any order.

use super::lookup::{Column, Columns, PortNames};
use crate::verify::{DELIVER, Tables, Tree, Vlan};
use pauseframe_topology::interchange::{Address, Flaw, Labels, did_you_mean};
use pauseframe_topology::{NodeKind, SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId, counted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Highest lane that files may contain: 0 to 7 on Ethernet, 0 to 14 on InfiniBand.
const LANE_MAX: u8 = 15;

/// Highest VLAN number; IEEE 802.1Q reserves 4095. VLAN 0 stands for a bridge without VLANs.
const VLAN_MAX: u16 = 4094;

/// The statement "Switch `switch` sends packets of `vlan` for `destination` out of `port`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) switch: String,
    pub(super) vlan: u16,
    pub(super) destination: String,
    pub(super) port: String,
}

/// The statement "Packets of `vlan` are in `lane`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lane {
    pub(super) vlan: u16,
    pub(super) lane: u8,
}

/// The statement "Switch `switch` sends packets of `vlan` in `lane`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewrite {
    pub(super) switch: String,
    pub(super) vlan: u16,
    pub(super) lane: u8,
}

/// The statement "The hosts at switch `from` may send to host `to`, or to all hosts at switch `to`, in
/// `vlan`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sender {
    pub(super) vlan: u16,
    pub(super) from: String,
    pub(super) to: String,
}

/// The parts of a tables file other than the rows: lanes, rewrites and senders.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Around {
    #[serde(default)]
    pub(super) lanes: Vec<Lane>,
    #[serde(default)]
    pub(super) rewrites: Vec<Rewrite>,
    /// Allowed senders; if the list is empty, all hosts may send.
    #[serde(default)]
    pub(super) senders: Vec<Sender>,
}

impl Around {
    /// Adds lanes, rewrites and senders to a builder.
    pub(super) fn add_to(&self, builder: &mut Builder<'_>) -> Result<(), Flaw> {
        let at = |list: &str, i: usize, added: Result<(), String>| {
            added.map_err(|message| Flaw::at(format!("{list}[{i}]"), message))
        };
        for (i, lane) in self.lanes.iter().enumerate() {
            at("lanes", i, builder.lane(lane))?;
        }
        for (i, rewrite) in self.rewrites.iter().enumerate() {
            at("rewrites", i, builder.rewrite(rewrite))?;
        }
        for (i, sender) in self.senders.iter().enumerate() {
            at("senders", i, builder.sender(sender))?;
        }
        Ok(())
    }
}

/// The properties by which hosts of a tree are grouped: the port of every switch, and the allowed senders.
type Alike = (Vec<PortId>, Option<Vec<u64>>);

/// Tables under construction while a file is read; positions are numbers of lines or entries.
pub(super) struct Builder<'a> {
    topology: &'a Topology,
    labels: &'a Labels,
    graph: SwitchGraph,
    names: BTreeMap<&'a str, NodeId>,
    ports: PortNames,
    lanes: BTreeMap<u16, u8>,
    rewrites: BTreeMap<(u16, NodeId), u8>,
    columns: Columns,
    /// Allowed senders by VLAN and destination; the destination is a host, or a switch for all its hosts; one
    /// bit for each edge switch that may send.
    senders: BTreeMap<(u16, NodeId), Vec<u64>>,
    /// The switch and the destination of the row that was added last.
    last_row: (u32, Option<NodeId>),
    pub(super) notes: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(topology: &'a Topology, labels: &'a Labels) -> Result<Builder<'a>, Flaw> {
        let graph = SwitchGraph::new(topology).map_err(|error| Flaw::of_file(error.to_string()))?;
        let names = topology.nodes().iter_enumerated().map(|(id, node)| (node.name.as_str(), id)).collect();
        let ports = PortNames::new(&graph, topology, labels);
        Ok(Builder {
            topology,
            labels,
            graph,
            names,
            ports,
            lanes: BTreeMap::new(),
            rewrites: BTreeMap::new(),
            columns: Columns::default(),
            senders: BTreeMap::new(),
            last_row: (0, None),
            notes: Vec::new(),
        })
    }

    /// The node with this name.
    pub(super) fn node(&self, name: &str) -> Result<NodeId, String> {
        let near = || did_you_mean(name, self.topology.nodes().iter().map(|node| &node.name));
        let missing = || format!("{name:?} is not in the topology{}", near());
        self.names.get(name).copied().ok_or_else(missing)
    }

    /// Looks up an address of a node.
    pub(super) fn address(&self, text: &str) -> Option<Address> {
        self.labels.address(text)
    }

    /// The name of a node in the topology.
    pub(super) fn name(&self, node: NodeId) -> &'a str {
        &self.topology.nodes()[node].name
    }

    /// All switches of the topology.
    pub(super) fn switches(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.topology.nodes().iter_enumerated();
        nodes.filter(|(_, node)| node.kind == NodeKind::Switch).map(|(id, _)| id)
    }

    /// The switch with this name.
    pub(super) fn switch(&self, name: &str) -> Result<NodeId, String> {
        let node = self.node(name)?;
        match self.graph.number(node) {
            Some(_) => Ok(node),
            None => Err(format!("{name:?} is a host: rows belong to switches")),
        }
    }

    /// The port with this name at a switch.
    pub(super) fn port(&self, switch: NodeId, name: &str) -> Result<PortId, String> {
        let known = self.ports.id(name).and_then(|id| self.port_by_id(switch, id));
        known.ok_or_else(|| {
            let node = &self.topology.nodes()[switch].name;
            let known = self.labels.ports_by_name(self.topology, switch);
            let known: Vec<_> = known.keys().map(String::as_str).filter(|name| !name.contains(':')).collect();
            format!(
                "{node:?} has no port {name:?}; it has {}: {}",
                counted(self.topology.nodes()[switch].ports.len(), "port"),
                few(&known)
            )
        })
    }

    /// The number of a port name that at least one switch uses.
    pub(super) fn port_name(&self, name: &str) -> Option<u32> {
        self.ports.id(name)
    }

    /// The port of a switch with the given number of a port name.
    pub(super) fn port_by_id(&self, switch: NodeId, name: u32) -> Option<PortId> {
        self.ports.port(self.graph.number(switch)?, name)
    }

    pub(super) fn kind(&self, node: NodeId) -> NodeKind {
        self.topology.nodes()[node].kind
    }

    /// The port with this number: by its label, or counted from 1 if the switch has no such labels.
    pub(super) fn numbered_port(&self, switch: NodeId, number: u16) -> Result<PortId, String> {
        let ports = &self.topology.nodes()[switch].ports;
        let labelled = ports.iter().any(|port| self.labels.port(*port).is_some());
        let position = usize::from(number).checked_sub(1).filter(|_| !labelled);
        match position.and_then(|position| ports.get(position)) {
            Some(port) => Ok(*port),
            None if labelled => self.port(switch, &number.to_string()),
            None => {
                let (name, ports) = (&self.topology.nodes()[switch].name, ports.len());
                Err(format!(
                    "{name:?} has no port {number}: it has {}, numbered from 1",
                    counted(ports, "port")
                ))
            }
        }
    }

    /// Adds a row; `destination` is a host, or a switch for all its hosts; returns a message if a different
    /// row exists.
    pub(super) fn row(
        &mut self,
        place: (&str, u32),
        switch: NodeId,
        vlan: u16,
        destination: NodeId,
        port: PortId,
    ) -> Result<(), String> {
        let name = |node: NodeId| &self.topology.nodes()[node].name;
        check_vlan(vlan)?;
        let Some(at) = self.graph.number(switch) else { return Err(format!("{:?} is a host", name(switch))) };
        let column = self.columns.or_new(vlan, destination, self.graph.len());
        let (known, other) = column[at as usize];
        if known != PortId::NONE && known != port {
            return Err(format!(
                "{:?} sends packets for {:?} in VLAN {vlan} to {} here and to {} in {} {other}: remove one",
                name(switch),
                name(destination),
                self.labels.port_name(self.topology, port),
                self.labels.port_name(self.topology, known),
                place.0
            ));
        }
        column[at as usize] = (port, place.1);
        Ok(())
    }

    /// Adds a table row given by names. Most files list the switches of one destination after the other, so
    /// the method tries the next switch before it looks a name up.
    pub(super) fn named_row(
        &mut self,
        place: (&str, u32),
        [switch, destination, port]: [&str; 3],
        vlan: u16,
    ) -> Result<(), String> {
        let named = |node: NodeId, name: &str| self.topology.nodes()[node].name == name;
        let next = self.last_row.0 + 1;
        let expected =
            Some(next).filter(|next| (*next as usize) < self.graph.len()).map(|next| self.graph.node(next));
        let switch = match expected.filter(|node| named(*node, switch)) {
            Some(node) => node,
            None => self.switch(switch)?,
        };
        let destination = match self.last_row.1.filter(|node| named(*node, destination)) {
            Some(node) => node,
            None => self.node(destination)?,
        };
        self.last_row = (self.graph.number(switch).unwrap_or(0), Some(destination));
        let port = self.port(switch, port)?;
        self.row(place, switch, vlan, destination, port)
    }

    pub(super) fn lane(&mut self, Lane { vlan, lane }: &Lane) -> Result<(), String> {
        check_vlan(*vlan)?;
        let known = *self.lanes.entry(*vlan).or_insert(check_lane(*lane)?);
        same_lane(&format!("VLAN {vlan}"), known, *lane)
    }

    pub(super) fn rewrite(&mut self, Rewrite { switch, vlan, lane }: &Rewrite) -> Result<(), String> {
        let key = (*vlan, self.switch(switch)?);
        let known = *self.rewrites.entry(key).or_insert(check_lane(*lane)?);
        same_lane(&format!("VLAN {vlan} at {switch:?}"), known, *lane)
    }

    /// Makes packets of `vlan` leave `switch` in `lane`, whatever the lane of the VLAN is elsewhere.
    pub(super) fn lane_at(&mut self, vlan: u16, switch: NodeId, lane: u8) {
        self.rewrites.insert((vlan, switch), lane);
    }

    pub(super) fn sender(&mut self, Sender { vlan, from, to }: &Sender) -> Result<(), String> {
        let (from, node) = (self.switch(from)?, self.node(to)?);
        if self.kind(node) == NodeKind::Switch && self.attachment_row(node).is_none() {
            return Err(format!("{to:?} has no hosts: name a host, or the switch of hosts"));
        }
        self.may_send(*vlan, from, node)
    }

    /// Allows the hosts at switch `from` to send to `to` in `vlan`.
    pub(super) fn may_send(&mut self, vlan: u16, from: NodeId, to: NodeId) -> Result<(), String> {
        let Some(from) = self.attachment_row(from) else {
            let name = &self.topology.nodes()[from].name;
            return Err(format!("{name:?} has no hosts: name the switch of the hosts"));
        };
        let words = self.graph.attachments().len().div_ceil(64);
        let senders = self.senders.entry((vlan, to)).or_insert_with(|| vec![0; words]);
        senders[from as usize / 64] |= 1 << (from % 64);
        Ok(())
    }

    fn attachment_row(&self, switch: NodeId) -> Option<u32> {
        self.graph.number(switch).and_then(|switch| self.graph.attachment_row(switch))
    }

    /// The switch that a host is attached to.
    pub(super) fn switch_of(&self, host: NodeId) -> Option<NodeId> {
        self.graph.attachment(host).map(|switch| self.graph.node(switch))
    }

    pub(super) fn finish(self) -> Result<super::TableImport, Flaw> {
        let mut vlans = Vec::new();
        let mut trees = Vec::new();
        for (position, id) in self.columns.vlans().into_iter().enumerate() {
            let lane = match self.lanes.get(&id) {
                Some(lane) => *lane,
                None if self.lanes.is_empty() => 0,
                None => return Err(Flaw::of_file(format!("VLAN {id} has rows and no lane: give it one"))),
            };
            let lane_at = self.rewrites.range((id, NodeId(0))..=(id, NodeId(u32::MAX)));
            let lane_at = lane_at.map(|((_, switch), lane)| (*switch, *lane)).collect();
            vlans.push(Vlan { id, lane, lane_at });
            for row in 0..self.graph.attachments().len() as u32 {
                self.add_trees(position, id, row, &mut trees);
            }
        }
        if vlans.is_empty() {
            return Err(Flaw::of_file("there are no rows: name tables, or the folder of a plan"));
        }
        Ok(super::TableImport { tables: Tables::new(self.graph, vlans, trees), notes: self.notes })
    }

    /// Adds one tree for each group of hosts at the same switch that have the same rows and senders.
    fn add_trees(&self, vlan: usize, id: u16, row: u32, trees: &mut Vec<Tree>) {
        let attachment = self.graph.attachments()[row as usize];
        let common = self.columns.get(id, self.graph.node(attachment));
        let mut groups: BTreeMap<Alike, Vec<NodeId>> = BTreeMap::new();
        let mut alike = Vec::new();
        for host in self.graph.hosts(attachment) {
            match (self.columns.get(id, *host), common) {
                (None, None) => {}
                (None, Some(_)) if !self.senders.contains_key(&(id, *host)) => alike.push(*host),
                (own, common) => {
                    if let Some(own) = own.or(common) {
                        let next = self.next(own, common, attachment, *host);
                        let senders = self.senders_to(id, *host, attachment);
                        groups.entry((next, senders)).or_default().push(*host);
                    }
                }
            }
        }
        if let (Some(first), Some(common)) = (alike.first(), common) {
            let next = self.next(common, Some(common), attachment, *first);
            groups.entry((next, self.senders_to(id, *first, attachment))).or_default().extend(alike);
        }
        for hosts in groups.values_mut() {
            hosts.sort_unstable();
        }
        let mut found: Vec<_> = groups.into_iter().collect();
        found.sort_by_key(|(_, hosts)| hosts[0]);
        let tree = |((next, senders), hosts)| Tree { vlan, hosts, row, next, senders };
        trees.extend(found.into_iter().map(tree));
    }

    /// The switches whose hosts may send to a host: all switches if the tables list no senders, else the
    /// senders listed for the host or for its switch.
    fn senders_to(&self, vlan: u16, host: NodeId, attachment: u32) -> Option<Vec<u64>> {
        let named = [host, self.graph.node(attachment)].map(|to| self.senders.get(&(vlan, to)));
        let nobody = || vec![0; self.graph.attachments().len().div_ceil(64)];
        let [own, common] = named;
        (!self.senders.is_empty()).then(|| own.or(common).cloned().unwrap_or_else(nobody))
    }

    /// The ports for a host: its own rows take precedence over the rows for all hosts at its switch.
    fn next(&self, own: &Column, common: Option<&Column>, attachment: u32, host: NodeId) -> Vec<PortId> {
        let down = self.graph.uplink(host).reverse();
        let port = |switch: usize| {
            let shared = common.map_or(PortId::NONE, |column| column[switch].0);
            match (own[switch].0, shared) {
                (PortId::NONE, PortId::NONE) if common.is_some() && switch == attachment as usize => DELIVER,
                (PortId::NONE, shared) => shared,
                (own, _) if own == down => DELIVER,
                (own, _) => own,
            }
        };
        (0..self.graph.len()).map(port).collect()
    }
}

fn check_vlan(vlan: u16) -> Result<(), String> {
    if vlan <= VLAN_MAX { Ok(()) } else { Err(format!("there is no VLAN {vlan}: write 1 to {VLAN_MAX}")) }
}

fn check_lane(lane: u8) -> Result<u8, String> {
    if lane <= LANE_MAX { Ok(lane) } else { Err(format!("there is no lane {lane}: write 0 to {LANE_MAX}")) }
}

fn same_lane(what: &str, known: u8, lane: u8) -> Result<(), String> {
    if known == lane {
        Ok(())
    } else {
        Err(format!(
            "{what} has lane {lane} here and {known} above: a VLAN has one lane; if a switch rewrites it, say \
             so with switch,vlan,lane"
        ))
    }
}

/// Formats the first few names.
fn few(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(6).map(|name| format!("{name:?}")).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    shown.join(", ") + more
}
