//! Rows by name, in any order, to [`Tables`]; and back to rows by name.

use crate::interchange::{Flaw, Labels, did_you_mean};
use crate::routing::SwitchGraph;
use crate::routing::verify::{DELIVER, Tables, Tree, Vlan};
use crate::{NodeKind, Topology};
use pauseframe_units::{NodeId, PortId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The lanes that files may name: 0 to 7 on Ethernet, to 14 on InfiniBand.
const LANE_MAX: u8 = 15;

/// IEEE 802.1Q reserves 4095. 0 is a bridge without VLANs.
const VLAN_MAX: u16 = 4094;

/// "Switch `switch` sends packets of `vlan` for `destination` out of `port`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) switch: String,
    pub(super) vlan: u16,
    pub(super) destination: String,
    pub(super) port: String,
}

/// "Packets of `vlan` are in `lane`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lane {
    pub(super) vlan: u16,
    pub(super) lane: u8,
}

/// "Switch `switch` sends packets of `vlan` in `lane`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewrite {
    pub(super) switch: String,
    pub(super) vlan: u16,
    pub(super) lane: u8,
}

/// "The hosts at switch `from` may send to those at switch `to` in `vlan`."
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sender {
    pub(super) vlan: u16,
    pub(super) from: String,
    pub(super) to: String,
}

/// What stands around the rows of tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Around {
    #[serde(default)]
    pub(super) lanes: Vec<Lane>,
    #[serde(default)]
    pub(super) rewrites: Vec<Rewrite>,
    /// If there are any, nobody else may send.
    #[serde(default)]
    pub(super) senders: Vec<Sender>,
}

impl Around {
    /// Adds all of it.
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

/// The port of every switch, with the place of the row.
type Column = Vec<(PortId, u32)>;

/// Tables while a file is read. Places are numbers of lines or entries.
pub(super) struct Builder<'a> {
    topology: &'a Topology,
    labels: &'a Labels,
    graph: SwitchGraph,
    names: BTreeMap<&'a str, NodeId>,
    /// By switch; of rows there are millions.
    ports: Vec<HashMap<String, PortId>>,
    lanes: BTreeMap<u16, u8>,
    rewrites: BTreeMap<(u16, NodeId), u8>,
    columns: BTreeMap<(u16, NodeId), Column>,
    senders: BTreeMap<(u16, u32), Vec<u64>>,
    /// The switch and the destination of the last row.
    last_row: (u32, Option<NodeId>),
    pub(super) notes: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(topology: &'a Topology, labels: &'a Labels) -> Result<Builder<'a>, Flaw> {
        let graph = SwitchGraph::new(topology).map_err(|error| Flaw::of_file(error.to_string()))?;
        let names = topology.nodes().iter_enumerated().map(|(id, node)| (node.name.as_str(), id)).collect();
        let ports = |switch| labels.ports_by_name(topology, graph.node(switch)).into_iter().collect();
        let ports = (0..graph.len() as u32).map(ports).collect();
        Ok(Builder {
            topology,
            labels,
            graph,
            names,
            ports,
            lanes: BTreeMap::new(),
            rewrites: BTreeMap::new(),
            columns: BTreeMap::new(),
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

    /// The switch with this name.
    pub(super) fn switch(&self, name: &str) -> Result<NodeId, String> {
        let node = self.node(name)?;
        match self.graph.number(node) {
            Some(_) => Ok(node),
            None => Err(format!("{name:?} is a host: rows belong to switches")),
        }
    }

    /// The port of a switch with this name.
    pub(super) fn port(&self, switch: NodeId, name: &str) -> Result<PortId, String> {
        let known = self.graph.number(switch).map(|number| &self.ports[number as usize]);
        known.and_then(|ports| ports.get(name)).copied().ok_or_else(|| {
            let node = &self.topology.nodes()[switch].name;
            let known = self.labels.ports_by_name(self.topology, switch);
            let known: Vec<_> = known.keys().map(String::as_str).filter(|name| !name.contains(':')).collect();
            format!(
                "{node:?} has no port {name:?}; its {} ports are called {}",
                self.topology.nodes()[switch].ports.len(),
                few(&known)
            )
        })
    }

    pub(super) fn kind(&self, node: NodeId) -> NodeKind {
        self.topology.nodes()[node].kind
    }

    /// The port with this number: by its label, or where the switch has no such labels, counted from 1.
    pub(super) fn numbered_port(&self, switch: NodeId, number: u16) -> Result<PortId, String> {
        let ports = &self.topology.nodes()[switch].ports;
        let labelled = ports.iter().any(|port| self.labels.port(*port).is_some());
        let position = usize::from(number).checked_sub(1).filter(|_| !labelled);
        match position.and_then(|position| ports.get(position)) {
            Some(port) => Ok(*port),
            None if labelled => self.port(switch, &number.to_string()),
            None => {
                let (name, ports) = (&self.topology.nodes()[switch].name, ports.len());
                Err(format!("{name:?} has no port {number}: its {ports} ports are numbered from 1"))
            }
        }
    }

    /// Adds a row; `destination` is a host, or a switch for all its hosts. The message if there is another.
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
        let empty = || vec![(PortId::NONE, 0); self.graph.len()];
        let column = self.columns.entry((vlan, destination)).or_insert_with(empty);
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

    /// Adds a row by names. Most files go through the switches of one destination after the other, so those that come
    /// next are tried before any name is looked up.
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

    pub(super) fn sender(&mut self, Sender { vlan, from, to }: &Sender) -> Result<(), String> {
        let row = |name: &String| {
            let number = self.graph.number(self.switch(name)?);
            let row = number.and_then(|switch| self.graph.attachment_row(switch));
            row.ok_or_else(|| format!("{name:?} has no hosts: name the switch of the hosts"))
        };
        let (from, to) = (row(from)?, row(to)?);
        let words = self.graph.attachments().len().div_ceil(64);
        let senders = self.senders.entry((*vlan, to)).or_insert_with(|| vec![0; words]);
        senders[from as usize / 64] |= 1 << (from % 64);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<super::TableImport, Flaw> {
        let ids: BTreeSet<u16> = self.columns.keys().map(|(vlan, _)| *vlan).collect();
        let mut vlans = Vec::new();
        let mut trees = Vec::new();
        for (position, id) in ids.into_iter().enumerate() {
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
            return Err(Flaw::of_file("there are no rows"));
        }
        let nodes = self.topology.nodes().len();
        Ok(super::TableImport { tables: Tables::new(self.graph, nodes, vlans, trees), notes: self.notes })
    }

    /// One tree for each group of hosts at the same switch whose rows are alike.
    fn add_trees(&self, vlan: usize, id: u16, row: u32, trees: &mut Vec<Tree>) {
        let attachment = self.graph.attachments()[row as usize];
        let common = self.columns.get(&(id, self.graph.node(attachment)));
        let mut groups: BTreeMap<Vec<PortId>, Vec<NodeId>> = BTreeMap::new();
        let mut alike = Vec::new();
        for host in self.graph.hosts(attachment) {
            match (self.columns.get(&(id, *host)), common) {
                (None, None) => {}
                (None, Some(_)) => alike.push(*host),
                (Some(own), common) => {
                    groups.entry(self.next(own, common, attachment, *host)).or_default().push(*host);
                }
            }
        }
        if let (Some(first), Some(common)) = (alike.first(), common) {
            groups.entry(self.next(common, Some(common), attachment, *first)).or_default().extend(alike);
        }
        let senders = self.senders.get(&(id, row)).cloned();
        let nobody = (!self.senders.is_empty()).then(|| vec![0; self.graph.attachments().len().div_ceil(64)]);
        let senders = senders.or(nobody);
        let mut found: Vec<_> = groups.into_iter().collect();
        for (_, hosts) in &mut found {
            hosts.sort_unstable();
        }
        found.sort_by_key(|(_, hosts)| hosts[0]);
        let tree = |(next, hosts)| Tree { vlan, hosts, row, next, senders: senders.clone() };
        trees.extend(found.into_iter().map(tree));
    }

    /// The ports for a host: its own rows, before those for all hosts at its switch.
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

/// The first few names.
fn few(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(6).map(|name| format!("{name:?}")).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    shown.join(", ") + more
}

/// The lanes, rewrites and senders of `tables` by name, without the rows.
pub(super) fn around_rows(tables: &Tables, topology: &Topology) -> Around {
    let graph = tables.graph();
    let name = |node: NodeId| topology.nodes()[node].name.clone();
    let mut around = Around::default();
    for vlan in tables.vlans() {
        around.lanes.push(Lane { vlan: vlan.id, lane: vlan.lane });
        let rewrite =
            |(switch, lane): (&NodeId, &u8)| Rewrite { switch: name(*switch), vlan: vlan.id, lane: *lane };
        around.rewrites.extend(vlan.lane_at.iter().map(rewrite));
    }
    if tables.trees.iter().any(|tree| tree.senders.is_some()) {
        let at = |row: u32| name(graph.node(graph.attachments()[row as usize]));
        for tree in &tables.trees {
            let vlan = tables.vlans()[tree.vlan].id;
            let senders = (0..graph.attachments().len() as u32).filter(|from| tree.allows(*from));
            around.senders.extend(senders.map(|from| Sender { vlan, from: at(from), to: at(tree.row) }));
        }
    }
    around
}

/// Shows every row: switch, VLAN, destination, port. All hosts of a switch that have the same rows are one
/// destination. A table of millions of rows is never in memory as text.
pub(super) fn for_each_row(
    tables: &Tables,
    topology: &Topology,
    mut show: impl FnMut(NodeId, u16, NodeId, PortId) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    let graph = tables.graph();
    for tree in &tables.trees {
        let vlan = tables.vlans()[tree.vlan].id;
        let attachment = graph.attachments()[tree.row as usize];
        // A row for all hosts says nothing at their own switch, so there must be one elsewhere.
        let elsewhere = tree.next.iter().filter(|port| **port != PortId::NONE).count() > 1;
        let whole = elsewhere
            && tree.hosts == graph.hosts(attachment)
            && tree.next[attachment as usize] == DELIVER
            && topology.nodes()[graph.node(attachment)].kind == NodeKind::Switch;
        let own = graph.node(attachment);
        let destinations = if whole { std::slice::from_ref(&own) } else { &tree.hosts[..] };
        for destination in destinations {
            for (number, port) in tree.next.iter().enumerate() {
                let port = match *port {
                    PortId::NONE => continue,
                    DELIVER if whole => continue,
                    DELIVER => graph.uplink(*destination).reverse(),
                    port => port,
                };
                show(graph.node(number as u32), vlan, *destination, port)?;
            }
        }
    }
    Ok(())
}

/// What [`Labels::ports_by_name`] understands: the label; `eth1` ... where a switch has none; else the full name.
pub(super) fn port_names(topology: &Topology, labels: &Labels) -> Vec<String> {
    let mut names = vec![String::new(); topology.port_count()];
    for node in topology.nodes() {
        let labelled = node.ports.iter().any(|port| labels.port(*port).is_some());
        for (i, port) in node.ports.iter().enumerate() {
            let name = match labels.port(*port) {
                Some(label) => label.to_owned(),
                None if labelled => format!("{}:{i}", node.name),
                None => format!("eth{}", i + 1),
            };
            names[port.0 as usize] = name;
        }
    }
    names
}
