//! Verifies forwarding tables of any origin: whether they can deadlock a lossless network, and whether their
//! packets arrive.
//!
//! The proof follows Dally and Seitz (1987): a buffer is a (directed link, lane), where the lane is the lane
//! of the transmitting switch after any rewrite; a packet in one buffer waits for the next buffer on its
//! route; without a cycle no deadlock is possible. For each arc of a cycle the report shows a route. The
//! verifier also finds loops, black holes, pairs without a route, VLANs that change lane, table sizes, and
//! the effect of each single failure. Not modelled: the buffers of hosts (a host does not forward). Whether a
//! cycle fills up in practice is a question for the packet simulator.

mod choice;
mod lengths;
mod report;
mod tables;
mod walk;
mod what_if;

pub use choice::{Demand, LinkLoad};
pub use lengths::RouteLengths;
pub use report::{
    Buffer, CycleArc, Failure, Failures, Finding, LaneViolation, Pair, Plane, Report, Route, SwitchRows,
    TableSizes, WhatIf,
};
pub(super) use tables::{DELIVER, Tree};
pub use tables::{Tables, Vlan};

use super::cdg::Dependencies;
use super::planes::HostGroups;
use super::{BufferChannel, Dependency, DependencyGraph, RoutingError};
use crate::watch::{Unwatched, Watch};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};
use std::collections::{BTreeMap, BTreeSet};
use walk::{End, walk};

/// Options of the verifier.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options<'a> {
    /// Maximum number of table rows (VLAN, host) that a switch can hold.
    pub rows_budget: Option<u64>,
    /// True to examine every single failure.
    pub what_ifs: bool,
    /// Number of examples to name for each finding.
    pub examples: usize,
    /// Port names for the report; without labels, port numbers at the nodes ("leaf0:3").
    pub labels: Option<&'a Labels>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { rows_budget: None, what_ifs: false, examples: 10, labels: None }
    }
}

/// The dependencies between buffers that all of these tables cause together: during an update, packets on old
/// and on new routes may share queues, so the union of both dependency graphs must be acyclic.
///
/// # Errors
/// If a host does not have exactly one link, or there are too many pairs of buffers to store.
pub fn dependency_graph(topology: &Topology, tables: &[&Tables]) -> Result<DependencyGraph, RoutingError> {
    let graph = SwitchGraph::new(topology)?;
    let lanes = tables.iter().map(|tables| tables.lanes()).max().unwrap_or(0);
    let mut dependencies = Dependencies::new(&graph, lanes)?;
    for tables in tables {
        walk(tables, &mut dependencies, &mut Unwatched)?;
    }
    Ok(dependencies.finish())
}

/// Verifies `tables`, which must be tables of `topology`.
///
/// # Errors
/// If there are too many pairs of buffers to store.
pub fn verify(topology: &Topology, tables: &Tables, options: &Options<'_>) -> Result<Report, RoutingError> {
    verify_watched(topology, tables, options, &mut Unwatched)
}

/// Verifies `tables` like [`verify()`]; reports the progress to `watch`, which can stop the computation.
///
/// # Errors
/// The errors of [`verify()`], and [`RoutingError::Stopped`].
pub fn verify_watched(
    topology: &Topology,
    tables: &Tables,
    options: &Options<'_>,
    watch: &mut dyn Watch,
) -> Result<Report, RoutingError> {
    let graph = &tables.graph;
    let mut dependencies = Dependencies::new(graph, tables.lanes())?;
    let ends = walk(tables, &mut dependencies, watch)?;
    watch.step("looking for cycles", 0, 0)?;
    let dependencies = dependencies.finish();
    let cyclic = dependencies.cyclic_components();
    let mut components: Vec<_> = cyclic.iter().map(Vec::len).collect();
    components.sort_unstable_by(|a, b| b.cmp(a));
    let cycle = if components.is_empty() { None } else { dependencies.shortest_cycle() };

    let names = Names { topology, tables, labels: options.labels };
    let homes = Homes::new(graph);
    let classes = classes(tables, &homes);
    let routes = count_routes(tables, &homes, &ends, options.examples, &names);
    Ok(Report {
        can_deadlock: !components.is_empty(),
        switches: graph.len(),
        hosts: topology.hosts().count(),
        links: graph.edges().len(),
        vlans: tables.vlans.len(),
        lanes: tables.lanes(),
        planes: planes(tables, &cyclic, &dependencies, &names),
        dependencies: dependencies.len(),
        cyclic_components: components,
        shortest_cycle: cycle.unwrap_or_default().iter().map(|arc| names.cycle_arc(arc)).collect(),
        delivered: routes.delivered,
        loops: routes.loops,
        black_holes: routes.black_holes,
        unreachable: unreachable(tables, &ends, &classes, options.examples, &names),
        lane_violations: lane_violations(tables, &names),
        tables: table_sizes(tables, options, &names),
        what_if: options
            .what_ifs
            .then(|| what_if::what_if(tables, &ends, &classes, options.examples, &names, watch))
            .transpose()?,
    })
}

/// By host: the edge switches of its ports, each once for each port.
struct Homes(BTreeMap<NodeId, Vec<u32>>);

impl Homes {
    fn new(graph: &SwitchGraph) -> Homes {
        let mut homes: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for (row, switch) in (0..).zip(graph.attachments()) {
            for port in graph.hosts(*switch) {
                homes.entry(graph.host_of(*port)).or_default().push(row);
            }
        }
        Homes(homes)
    }
}

/// Hosts at one switch that have the same table rows in every VLAN, with their tree in each VLAN.
struct Class {
    row: u32,
    hosts: Vec<NodeId>,
    trees: Vec<Option<u32>>,
    /// By edge switch: number of pairs of a port there and one of this class that belong to one host.
    own_pairs: BTreeMap<u32, u64>,
}

impl Class {
    fn new(graph: &SwitchGraph, homes: &Homes, row: u32, hosts: Vec<NodeId>) -> Class {
        let mut own_pairs = BTreeMap::new();
        for home in hosts.iter().flat_map(|port| &homes.0[&graph.host_of(*port)]) {
            *own_pairs.entry(*home).or_default() += 1;
        }
        Class { row, hosts, trees: Vec::new(), own_pairs }
    }

    /// Number of ordered pairs from the ports at edge switch `from` to the ports of this class, without pairs of one host.
    fn pairs(&self, graph: &SwitchGraph, from: u32) -> u64 {
        let senders = graph.hosts(graph.attachments()[from as usize]).len() as u64;
        senders * self.hosts.len() as u64 - self.own_pairs.get(&from).copied().unwrap_or(0)
    }

    /// An example pair of hosts, of which [`Class::pairs`] counts at least one.
    fn example(&self, graph: &SwitchGraph, from: u32) -> [NodeId; 2] {
        let senders = graph.hosts(graph.attachments()[from as usize]);
        graph.pair_of_hosts(senders, &self.hosts).expect("a pair of two hosts")
    }

    /// The trees on which packets from edge switch `from` arrive.
    fn arriving<'a>(&'a self, ends: &'a [End], rows: usize, from: u32) -> impl Iterator<Item = u32> + 'a {
        let trees = self.trees.iter().flatten().copied();
        trees.filter(move |tree| ends[*tree as usize * rows + from as usize] == End::Arrives)
    }
}

fn classes(tables: &Tables, homes: &Homes) -> Vec<Class> {
    let mut classes = Vec::new();
    for (row, switch) in tables.graph.attachments().iter().enumerate() {
        let mut alike: BTreeMap<Vec<Option<u32>>, Vec<NodeId>> = BTreeMap::new();
        for host in tables.graph.hosts(*switch) {
            let trees = (0..tables.vlans.len()).map(|vlan| tables.tree_of(vlan, *host)).collect();
            alike.entry(trees).or_default().push(*host);
        }
        let of_row = |hosts| Class::new(&tables.graph, homes, row as u32, hosts);
        classes.extend(alike.into_iter().map(|(trees, hosts)| Class { trees, ..of_row(hosts) }));
    }
    classes
}

#[derive(Default)]
struct Routes {
    delivered: u64,
    loops: Finding<Route>,
    black_holes: Finding<Route>,
}

fn count_routes(tables: &Tables, homes: &Homes, ends: &[End], examples: usize, names: &Names<'_>) -> Routes {
    let graph = &tables.graph;
    let rows = graph.attachments().len();
    let mut routes = Routes::default();
    for (tree, ends) in tables.trees.iter().zip(ends.chunks(rows.max(1))) {
        let class = Class::new(graph, homes, tree.row, tree.hosts.clone());
        for (from, end) in ends.iter().enumerate() {
            let pairs = class.pairs(graph, from as u32);
            let route = || {
                let [from, to] = class.example(graph, from as u32);
                names.route(tables.vlans[tree.vlan].id, from, to)
            };
            match end {
                End::Arrives => routes.delivered += pairs,
                End::Loop => routes.loops.add(pairs, examples, route),
                End::BlackHole => routes.black_holes.add(pairs, examples, route),
                End::NotPlanned => {}
            }
        }
    }
    routes
}

fn unreachable(
    tables: &Tables,
    ends: &[End],
    classes: &[Class],
    examples: usize,
    names: &Names<'_>,
) -> Finding<Pair> {
    let rows = tables.graph.attachments().len();
    let mut unreachable = Finding::default();
    for class in classes {
        let joined = (0..rows as u32).filter(|from| tables.graph.joins([*from, class.row]));
        for from in joined.filter(|from| class.arriving(ends, rows, *from).next().is_none()) {
            let pairs = class.pairs(&tables.graph, from);
            unreachable.add(pairs, examples, || names.pair(class.example(&tables.graph, from)));
        }
    }
    for [some, others] in HostGroups::new(names.topology, &tables.graph).pairs_apart() {
        for [from, to] in [[some, others], [others, some]] {
            let pairs = from.len() as u64 * to.len() as u64;
            unreachable.add(pairs, examples, || names.pair([from[0], to[0]]));
        }
    }
    unreachable
}

/// What the verifier found in each plane; empty if there is one.
fn planes(
    tables: &Tables,
    cyclic: &[Vec<BufferChannel>],
    dependencies: &DependencyGraph,
    names: &Names<'_>,
) -> Vec<Plane> {
    let graph = &tables.graph;
    let part_of_port = |port: PortId| graph.number(names.topology.owner(port)).and_then(|at| graph.part(at));
    let plane = |number: u32| {
        let is_in = |switch: &u32| graph.part(*switch) == Some(number);
        let switches: Vec<u32> = (0..graph.len() as u32).filter(is_in).collect();
        let trees = tables.trees.iter().filter(|tree| is_in(&graph.attachments()[tree.row as usize]));
        let vlans: BTreeSet<u16> = trees.map(|tree| tables.vlans[tree.vlan].id).collect();
        Plane {
            first_switch: names.node(graph.node(switches[0])),
            switches: switches.len(),
            ports: switches.iter().map(|switch| graph.hosts(*switch).len()).sum(),
            vlans: vlans.into_iter().collect(),
            dependencies: count(dependencies.dependencies(), |one| {
                part_of_port(one.from.port) == Some(number)
            }),
            cyclic_components: count(cyclic, |buffers| part_of_port(buffers[0].port) == Some(number)),
        }
    };
    let several = graph.part_count() > 1;
    (0..graph.part_count()).filter(|_| several).map(plane).collect()
}

fn count<T>(items: &[T], is_counted: impl Fn(&T) -> bool) -> usize {
    items.iter().filter(|item| is_counted(item)).count()
}

fn lane_violations(tables: &Tables, names: &Names<'_>) -> Vec<LaneViolation> {
    let violation = |vlan: &Vlan| {
        let others: Vec<_> = vlan.lane_at.iter().filter(|(_, lane)| **lane != vlan.lane).collect();
        let lanes: BTreeSet<u8> = others.iter().map(|(_, lane)| **lane).chain([vlan.lane]).collect();
        let switches = others.iter().map(|(switch, _)| names.node(**switch)).collect();
        LaneViolation { vlan: vlan.id, lanes: lanes.into_iter().collect(), switches }
    };
    tables.vlans.iter().map(violation).filter(|violation| violation.lanes.len() > 1).collect()
}

fn table_sizes(tables: &Tables, options: &Options<'_>, names: &Names<'_>) -> TableSizes {
    let rows = tables.rows(|hosts| hosts.len() as u64);
    let of = |(switch, rows): (usize, &u64)| SwitchRows {
        switch: names.node(tables.graph.node(switch as u32)),
        rows: *rows,
    };
    let most = rows.iter().copied().max();
    let largest = rows.iter().enumerate().find(|(_, rows)| Some(**rows) == most).map(of);
    let mut over_budget = Finding::default();
    for switch in rows.iter().enumerate().filter(|(_, rows)| options.rows_budget.is_some_and(|b| **rows > b))
    {
        over_budget.add(1, options.examples, || of(switch));
    }
    let rows_mean = rows.iter().sum::<u64>() as f64 / rows.len().max(1) as f64;
    TableSizes { largest, rows_mean, budget: options.rows_budget, over_budget }
}

/// Converts ids to names.
struct Names<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    labels: Option<&'a Labels>,
}

impl Names<'_> {
    fn port(&self, port: PortId) -> String {
        match self.labels {
            Some(labels) => labels.port_name(self.topology, port),
            None => self.topology.port_name(port),
        }
    }

    fn node(&self, node: NodeId) -> String {
        self.topology.nodes()[node].name.clone()
    }

    fn pair(&self, pair: [NodeId; 2]) -> Pair {
        let [from, to] = pair.map(|host| self.node(host));
        Pair { from, to }
    }

    fn link(&self, port: PortId) -> String {
        [port, port.reverse()].map(|port| self.port(port)).join(" - ")
    }

    fn route(&self, vlan: u16, from: NodeId, to: NodeId) -> Route {
        let ports = self.tables.route(vlan, from, to).into_iter().map(|port| self.port(port));
        let ports = ports.collect();
        Route { from: self.node(from), to: self.node(to), vlan, ports }
    }

    fn cycle_arc(&self, arc: &Dependency) -> CycleArc {
        let buffer = |channel: BufferChannel| Buffer {
            port: self.port(channel.port),
            to: self.node(self.topology.peer(channel.port)),
            lane: channel.lane,
        };
        let witness = self.route(arc.witness.vlan.unwrap_or(0), arc.witness.from, arc.witness.to);
        CycleArc { held: buffer(arc.from), wanted: buffer(arc.to), witness }
    }
}
