//! Computes the new tables of an update: the old tables without the rows over removed links, plus routes for
//! all pairs that lose their routes.

use super::Union;
use crate::RoutingError;
use crate::used_turns::UsedTurns;
use crate::verify::{DELIVER, Tables, Tree, Vlan, dependency_graph};
use crate::walks::{Hop, links_to_go};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId, counted};
use std::collections::{BTreeMap, BTreeSet};

/// Converts tables of the old topology to tables of the union.
pub(super) fn carried_over(tables: &Tables, union: &Union, graph: &SwitchGraph) -> Tables {
    carried(tables, graph, |node| Some(union.nodes[0][node]), |port| Some(union.ports[0][port.0 as usize]))
}

/// Converts tables of the union to tables of the new topology.
pub(super) fn carried_to_new(tables: &Tables, union: &Union, new: &Topology) -> Result<Tables, RoutingError> {
    let graph = SwitchGraph::new(new)?;
    let nodes: BTreeMap<NodeId, NodeId> =
        union.nodes[1].iter_enumerated().map(|(new, here)| (*here, new)).collect();
    let ports: BTreeMap<PortId, PortId> =
        union.ports[1].iter().enumerate().map(|(new, here)| (*here, PortId(new as u32))).collect();
    let node = |node: NodeId| nodes.get(&node).copied();
    Ok(carried(tables, &graph, node, |port| ports.get(&port).copied()))
}

fn carried(
    tables: &Tables,
    graph: &SwitchGraph,
    node: impl Fn(NodeId) -> Option<NodeId>,
    port: impl Fn(PortId) -> Option<PortId>,
) -> Tables {
    let mut trees = Vec::with_capacity(tables.trees.len());
    for tree in &tables.trees {
        let mut hosts: Vec<NodeId> = tree.hosts.iter().filter_map(|host| node(*host)).collect();
        // The ids of a moved host differ between both topologies; sorting lets the list be recognised as all
        // hosts of a switch.
        hosts.sort_unstable();
        let Some(row) = hosts.first().and_then(|host| graph.attachment_row(graph.attachment(*host)?)) else {
            continue;
        };
        let mut next = vec![PortId::NONE; graph.len()];
        for (switch, old) in tree.next.iter().enumerate() {
            let number = node(tables.graph.node(switch as u32)).and_then(|node| graph.number(node));
            let Some(number) = number else { continue };
            next[number as usize] = match *old {
                PortId::NONE => PortId::NONE,
                DELIVER => DELIVER,
                old => port(old).unwrap_or(PortId::NONE),
            };
        }
        // Hosts that move to a switch without hosts do not send by these tables.
        let mut senders = vec![0_u64; graph.attachments().len().div_ceil(64)];
        for (from, switch) in tables.graph.attachments().iter().enumerate() {
            let here = node(tables.graph.node(*switch)).and_then(|node| graph.number(node));
            let here = here.and_then(|switch| graph.attachment_row(switch));
            if let Some(here) = here.filter(|_| tree.allows(from as u32)) {
                senders[here as usize / 64] |= 1 << (here % 64);
            }
        }
        let count: u32 = senders.iter().map(|word| word.count_ones()).sum();
        let senders = (count as usize != graph.attachments().len()).then_some(senders);
        trees.push(Tree { vlan: tree.vlan, hosts, row, next, senders });
    }
    let vlans: Vec<Vlan> = tables.vlans().to_vec();
    Tables::new(graph.clone(), vlans, trees).in_order()
}

/// Removes the rows over failed links; returns the number of ordered pairs of hosts that have no route any
/// more.
pub(super) fn cut_failed(before: &mut Tables, union: &Union) -> u64 {
    let mut lost = BTreeMap::new();
    for tree in &mut before.trees {
        let served = arriving(&before.graph, &tree.next, tree.row);
        tree.next.iter_mut().filter(|port| gone(union, **port)).for_each(|port| *port = PortId::NONE);
        let left = arriving(&before.graph, &tree.next, tree.row);
        for (from, switch) in before.graph.attachments().iter().enumerate() {
            let [was, is] = [&served, &left].map(|all| all[*switch as usize] && tree.allows(from as u32));
            for host in &tree.hosts {
                let entry = lost.entry((from, *host)).or_insert((false, false));
                *entry = (entry.0 || was, entry.1 || is);
            }
        }
    }
    let senders = |from: usize| before.graph.hosts(before.graph.attachments()[from]).len() as u64;
    lost.into_iter().filter(|(_, (was, is))| *was && !*is).map(|((from, _), _)| senders(from)).sum()
}

fn gone(union: &Union, port: PortId) -> bool {
    (port.0 as usize) < union.topology.port_count() && !union.present[1][port.link().0 as usize]
}

/// The switches whose packets reach edge switch `row`.
fn arriving(graph: &SwitchGraph, next: &[PortId], row: u32) -> Vec<bool> {
    let to = graph.attachments()[row as usize];
    let hop = |at: u32| match next[at as usize] {
        DELIVER if at == to => Hop::Arrives,
        _ if at == to => Hop::Lost,
        port => Hop::over(graph, port),
    };
    links_to_go(graph, 0..graph.len() as u32, hop).iter().map(Option::is_some).collect()
}

/// By edge switch of the union: its part in the new topology.
fn new_parts(union: &Union, graph: &SwitchGraph, new: &SwitchGraph) -> Vec<Option<u32>> {
    let mut parts = vec![None; graph.attachments().len()];
    for (node, here) in union.nodes[1].iter_enumerated() {
        let row = graph.number(*here).and_then(|switch| graph.attachment_row(switch));
        if let (Some(row), Some(switch)) = (row, new.number(node)) {
            parts[row as usize] = new.part(switch);
        }
    }
    parts
}

/// The switches that each tree of old tables serves, by VLAN, edge switch and the first host of the tree.
pub(super) type Served = BTreeMap<(usize, u32, NodeId), Vec<bool>>;

/// What old tables serve while all their links are up.
pub(super) fn served(tables: &Tables) -> Served {
    let of_tree = |tree: &Tree| arriving(&tables.graph, &tree.next, tree.row);
    tables.trees.iter().map(|tree| ((tree.vlan, tree.row, tree.hosts[0]), of_tree(tree))).collect()
}

/// The edge switches of the union that have hosts in the old topology.
fn old_edges(union: &Union, graph: &SwitchGraph) -> BTreeSet<u32> {
    let row = |host: &NodeId| graph.attachment(*host).and_then(|switch| graph.attachment_row(switch));
    union.nodes[0].iter().filter_map(row).collect()
}

/// A plan under construction.
pub(super) struct Repair<'a> {
    union: &'a Union,
    graph: &'a SwitchGraph,
    /// By edge switch of `graph`: its part in the new topology.
    new_parts: Vec<Option<u32>>,
    before: &'a Tables,
    served: &'a Served,
    /// The edge switches with hosts in the old topology. Others send in every VLAN that has a way.
    old_edges: BTreeSet<u32>,
    turns: Vec<UsedTurns>,
    lanes_max: usize,
    /// The edge switches with the hosts that they have in the new topology.
    destinations: BTreeMap<u32, Vec<NodeId>>,
    notes: Vec<String>,
}

impl<'a> Repair<'a> {
    pub(super) fn new(
        union: &'a Union,
        [graph, new]: [&'a SwitchGraph; 2],
        (before, served): (&'a Tables, &'a Served),
        lanes_max: usize,
    ) -> Result<Repair<'a>, RoutingError> {
        if before.vlans().iter().any(|vlan| !vlan.lane_at.is_empty()) {
            let why = "the old tables rewrite lanes on the way, which an update cannot follow";
            return Err(RoutingError::Nothing(why));
        }
        let found = dependency_graph(&union.topology, &[before])?;
        let of_lane = |lane: usize| {
            let turns = found.dependencies().iter().filter(move |turn| usize::from(turn.from.lane) == lane);
            UsedTurns::of(graph.port_count(), turns.map(|turn| (turn.from.port, turn.to.port)))
        };
        let turns: Option<Vec<UsedTurns>> = (0..before.lanes().max(1)).map(of_lane).collect();
        let cyclic = "the old tables can deadlock: make a new plan and bring it in while nobody sends";
        let turns = turns.ok_or(RoutingError::Nothing(cyclic))?;
        let mut destinations: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for here in &union.nodes[1] {
            let row = graph.attachment(*here).and_then(|switch| graph.attachment_row(switch));
            if let Some(row) = row {
                destinations.entry(row).or_default().push(*here);
            }
        }
        for hosts in destinations.values_mut() {
            hosts.sort_unstable();
        }
        let new_parts = new_parts(union, graph, new);
        let old_edges = old_edges(union, graph);
        let notes = Vec::new();
        Ok(Repair {
            union,
            graph,
            new_parts,
            before,
            served,
            old_edges,
            turns,
            lanes_max,
            destinations,
            notes,
        })
    }

    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes
    }

    /// Computes the new tables, in which VLANs still have their old numbers; additional VLANs have the number
    /// 0.
    pub(super) fn run(&mut self, watch: &mut dyn Watch) -> Result<Tables, RoutingError> {
        let mut vlans: Vec<Vlan> = self.before.vlans().to_vec();
        let mut trees: Vec<Tree> = Vec::new();
        let rows: Vec<u32> = self.destinations.keys().copied().collect();
        let mut missing: BTreeSet<(u32, u32)> =
            rows.iter().flat_map(|to| rows.iter().map(|from| (*to, *from))).collect();
        missing.retain(|(to, from)| to != from && self.joins(*to, *from));
        self.keep_served(&mut missing);
        for (position, vlan) in vlans.iter().enumerate() {
            watch.step("repairing trees", position as u64, vlans.len() as u64)?;
            for row in rows.iter().filter(|row| self.is_in_plane_of(position, **row)).collect::<Vec<_>>() {
                trees.extend(self.mended(position, usize::from(vlan.lane), *row, &mut missing));
            }
        }
        let mut lane = 0;
        while !missing.is_empty() {
            watch.step("adding routes", 0, missing.len() as u64)?;
            if lane == self.turns.len() {
                if lane >= self.lanes_max {
                    return Err(self.no_room(&missing));
                }
                self.turns.extend(UsedTurns::of(self.graph.port_count(), std::iter::empty()));
                let pairs = counted(missing.len(), "pair");
                self.notes.push(format!(
                    "lane {lane} is new, for {pairs} of switches without room in the lanes of the old tables"
                ));
            }
            let position = vlans.len();
            let found = self.added(position, lane, &mut missing);
            if found.is_empty() {
                lane += 1;
            } else {
                trees.extend(found);
                vlans.push(Vlan { id: 0, lane: lane as u8, lane_at: BTreeMap::new() });
            }
        }
        let used: BTreeSet<usize> = trees.iter().map(|tree| tree.vlan).collect();
        let place: BTreeMap<usize, usize> = used.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        for tree in &mut trees {
            tree.vlan = place[&tree.vlan];
        }
        let vlans =
            vlans.into_iter().enumerate().filter(|(i, _)| used.contains(i)).map(|(_, vlan)| vlan).collect();
        Ok(Tables::new(self.graph.clone(), vlans, trees))
    }

    /// True if links of the new topology join two edge switches.
    fn joins(&self, one: u32, other: u32) -> bool {
        self.new_parts[one as usize] == self.new_parts[other as usize]
    }

    /// True if the old trees of a VLAN lie in the plane of edge switch `row`.
    fn is_in_plane_of(&self, vlan: usize, row: u32) -> bool {
        let mut old = self.before.trees.iter().filter(|tree| tree.vlan == vlan);
        self.graph.part_count() < 2 || old.any(|tree| self.graph.joins([tree.row, row]))
    }

    /// The tree of a VLAN to an edge switch in the old tables: that of most hosts.
    fn old_tree(&self, vlan: usize, row: u32) -> Option<&'a Tree> {
        let old = self.before.trees.iter().filter(|tree| tree.vlan == vlan && tree.row == row);
        old.max_by_key(|tree| tree.hosts.len())
    }

    /// The rows of an old tree by which packets still arrive.
    fn left_of(&self, old: &Tree) -> Vec<PortId> {
        let mut next = old.next.clone();
        next[self.graph.attachments()[old.row as usize] as usize] = DELIVER;
        next.iter_mut().filter(|port| gone(self.union, **port)).for_each(|port| *port = PortId::NONE);
        let left = arriving(self.graph, &next, old.row);
        next.iter_mut().zip(&left).filter(|(_, left)| !**left).for_each(|(port, _)| *port = PortId::NONE);
        next
    }

    /// Takes the pairs out of `missing` that an old tree still serves: no other VLAN needs new rows for them.
    fn keep_served(&self, missing: &mut BTreeSet<(u32, u32)>) {
        let places: BTreeSet<(usize, u32)> =
            self.before.trees.iter().map(|tree| (tree.vlan, tree.row)).collect();
        for (vlan, row) in places {
            let Some(old) = self.old_tree(vlan, row).filter(|_| self.destinations.contains_key(&row)) else {
                continue;
            };
            let next = self.left_of(old);
            for (from, switch) in self.graph.attachments().iter().enumerate() {
                if next[*switch as usize] != PortId::NONE && old.allows(from as u32) {
                    missing.remove(&(row, from as u32));
                }
            }
        }
    }

    /// True if `left` has the rows of all switches that the old tree served, and none of its other rows is over a link that is gone.
    fn is_intact(&self, old: &Tree, left: &[PortId]) -> bool {
        let served = self.served.get(&(old.vlan, old.row, old.hosts[0]));
        let is_left = |(served, port): (&bool, &PortId)| !served || *port != PortId::NONE;
        served.is_some_and(|served| served.iter().zip(left).all(is_left))
            && !old.next.iter().any(|port| gone(self.union, *port))
    }

    /// True if edge switch `from` used the old tree to edge switch `row`, or one of them has no hosts in the old topology.
    fn used(&self, old: Option<&Tree>, [row, from]: [u32; 2]) -> bool {
        let Some(old) = old else { return !self.old_edges.contains(&row) };
        let switch = self.graph.attachments()[from as usize] as usize;
        let arrived = |served: &Vec<bool>| served[switch];
        let has_way = || self.served.get(&(old.vlan, old.row, old.hosts[0])).is_none_or(arrived);
        if self.old_edges.contains(&from) { old.allows(from) && has_way() } else { old.senders.is_none() }
    }

    /// The tree of a VLAN to a destination: the remaining part of the old tree, with routes for the sources
    /// that it no longer serves.
    fn mended(
        &mut self,
        vlan: usize,
        lane: usize,
        row: u32,
        missing: &mut BTreeSet<(u32, u32)>,
    ) -> Option<Tree> {
        let to = self.graph.attachments()[row as usize];
        let hosts = self.destinations[&row].clone();
        let old = self.old_tree(vlan, row);
        let left = old.map_or_else(|| vec![PortId::NONE; self.graph.len()], |old| self.left_of(old));
        let mut next = left.clone();
        next[to as usize] = PortId::NONE;
        // A source that did not use this VLAN before does not have to use it now, unless no other VLAN is
        // left.
        let restricted = old.and_then(|tree| tree.senders.clone());
        let mut senders: Vec<u32> = Vec::new();
        let others: Vec<u32> =
            self.destinations.keys().copied().filter(|from| *from != row && self.joins(row, *from)).collect();
        for from in others.iter().copied() {
            let needed = self.used(old, [row, from]) || missing.contains(&(row, from));
            if needed && self.serve(lane, &mut next, from, to) {
                senders.push(from);
                missing.remove(&(row, from));
            }
        }
        next[to as usize] = DELIVER;
        if senders.is_empty() && old.is_none() && self.old_edges.contains(&row) {
            return None;
        }
        let bits = |senders: &[u32]| {
            let mut bits = vec![0_u64; self.graph.attachments().len().div_ceil(64)];
            for from in senders {
                bits[*from as usize / 64] |= 1 << (from % 64);
            }
            bits
        };
        let stays = |old: &&Tree| next == left && self.is_intact(old, &left);
        let unchanged = old.filter(stays);
        // An old tree without a list of senders may have gaps where other VLANs serve a pair.
        let is_whole = senders.len() == others.len() || unchanged.is_some();
        let senders = (restricted.is_some() || !is_whole).then(|| bits(&senders));
        // Rows by which nothing arrives stay as they are, so that the VLAN keeps its number.
        let next = unchanged.map_or(next, |old| old.next.clone());
        Some(Tree { vlan, hosts, row, next, senders })
    }

    /// True if packets from edge switch `from` arrive by `next`, possibly after new rows were added, and all
    /// their turns are allowed.
    fn serve(&mut self, lane: usize, next: &mut [PortId], from: u32, to: u32) -> bool {
        let start = self.graph.attachments()[from as usize];
        let turns = &mut self.turns[lane];
        if next[start as usize] != PortId::NONE {
            return turns.add_walk(self.graph, next, [start, to]);
        }
        let union = self.union;
        turns.add_route(self.graph, next, [start, to], |port| union.present[1][port.link().0 as usize])
    }

    /// A further VLAN with routes for pairs that have none.
    fn added(&mut self, vlan: usize, lane: usize, missing: &mut BTreeSet<(u32, u32)>) -> Vec<Tree> {
        let mut found = Vec::new();
        let rows: BTreeSet<u32> = missing.iter().map(|(to, _)| *to).collect();
        for row in rows {
            let wanting: Vec<u32> =
                missing.range((row, 0)..=(row, u32::MAX)).map(|(_, from)| *from).collect();
            let to = self.graph.attachments()[row as usize];
            let mut next = vec![PortId::NONE; self.graph.len()];
            let mut senders = vec![0_u64; self.graph.attachments().len().div_ceil(64)];
            for from in wanting {
                if self.serve(lane, &mut next, from, to) {
                    senders[from as usize / 64] |= 1 << (from % 64);
                    missing.remove(&(row, from));
                }
            }
            if senders.iter().any(|word| *word != 0) {
                next[to as usize] = DELIVER;
                let hosts = self.destinations[&row].clone();
                found.push(Tree { vlan, hosts, row, next, senders: Some(senders) });
            }
        }
        found
    }

    fn no_room(&self, missing: &BTreeSet<(u32, u32)>) -> RoutingError {
        let name = |row: u32| {
            let host = self.destinations.get(&row).map(|hosts| hosts[0]);
            host.map_or_else(String::new, |host| self.union.topology.nodes()[host].name.clone())
        };
        let pair = missing.first().map(|(to, from)| (name(*from), name(*to)));
        RoutingError::Lanes { needed: self.lanes_max + 1, allowed: self.lanes_max, pair }
    }
}
