//! Channel dependency graph: proves that the routes of a plan cannot deadlock, or shows a cycle.
//!
//! A packet in a buffer of a lossless network waits for the next buffer on its route. With pause, a buffer
//! corresponds to a channel: (directed link, lane). If these dependencies form no cycle, no deadlock is
//! possible (Dally and Seitz, IEEE Transactions on Computers 1987); a cycle is necessary for a deadlock, not
//! sufficient (Hu et al., 2016). The graph contains only dependencies that senders can cause, so every
//! dependency has a route as its witness.
//!
//! The graph omits channels to and from hosts: a host does not forward, so no cycle contains such a channel.

use super::{NextHops, RoutingError, SwitchPairs, bound_rows};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};
use std::collections::VecDeque;

/// The buffer that receives from `port`, in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferChannel {
    /// The transmitting port.
    pub port: PortId,
    /// The lane.
    pub lane: u8,
}

/// A route that causes a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Witness {
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// The VLAN of the route, if it has one.
    pub vlan: Option<u16>,
}

/// Packets held in channel `from` wait for room in channel `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// The channel whose buffer the packets occupy.
    pub from: BufferChannel,
    /// The channel for whose buffer the packets wait.
    pub to: BufferChannel,
    /// One of the routes that use both channels.
    pub witness: Witness,
}

impl Dependency {
    /// Describes the dependency: "s0:2 waits for s1:3 in lane 0: h4 to h7 in VLAN 1".
    pub fn describe(&self, topology: &Topology, labels: &Labels) -> String {
        let wait = self.describe_wait(topology, labels);
        let [from, to] = [self.witness.from, self.witness.to].map(|host| &topology.nodes()[host].name);
        let vlan = self.witness.vlan.map_or(String::new(), |vlan| format!(" in VLAN {vlan}"));
        format!("{wait} in lane {}: {from} to {to}{vlan}", self.to.lane)
    }

    /// Says which port waits for which: "s0:2 waits for s1:3"; ports have their names in `labels`.
    pub fn describe_wait(&self, topology: &Topology, labels: &Labels) -> String {
        let name = |channel: BufferChannel| {
            if labels.name_ports() {
                labels.port_name(topology, channel.port)
            } else {
                topology.port_name(channel.port)
            }
        };
        let [held, wanted] = [self.from, self.to].map(name);
        format!("{held} waits for {wanted}")
    }
}

/// Numbers the turns at switches: one number for each pair (incoming arc, outgoing arc) of a switch.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// For each port, its index among the arcs of its switch.
    place: Vec<u32>,
    /// The first turn number of each switch, and the total at the end.
    first: Vec<usize>,
}

impl Turns {
    pub(super) fn of(graph: &SwitchGraph) -> Turns {
        let mut place = vec![u32::MAX; graph.port_count()];
        let mut first = vec![0];
        for switch in 0..graph.len() as u32 {
            let arcs = graph.arcs(switch);
            for (i, arc) in arcs.iter().enumerate() {
                place[arc.port.0 as usize] = i as u32;
            }
            first.push(first[switch as usize] + arcs.len().pow(2));
        }
        Turns { place, first }
    }

    pub(super) fn count(&self) -> usize {
        self.first[self.first.len() - 1]
    }

    /// The number of the turn at `switch` from the link `held` into the link `wanted`.
    pub(super) fn number(&self, graph: &SwitchGraph, switch: u32, held: PortId, wanted: PortId) -> usize {
        let [incoming, outgoing] = [held.reverse(), wanted].map(|port| self.place[port.0 as usize] as usize);
        self.first[switch as usize] + incoming * graph.arcs(switch).len() + outgoing
    }
}

/// Collects dependencies, each with the first route that causes it.
pub(super) struct Dependencies<'a> {
    graph: &'a SwitchGraph,
    turns: Turns,
    lanes: usize,
    /// One bit for each combination of a pair of lanes and a turn.
    known: Vec<u64>,
    found: Vec<Dependency>,
}

impl<'a> Dependencies<'a> {
    /// Makes an empty set; `graph` contains all links that any route uses.
    ///
    /// # Errors
    /// If there are too many pairs of channels to store.
    pub(super) fn new(graph: &'a SwitchGraph, lanes: usize) -> Result<Dependencies<'a>, RoutingError> {
        let turns = Turns::of(graph);
        bound_rows(&[turns.count(), (lanes * lanes).div_ceil(8)])?;
        let known = vec![0; (turns.count() * lanes * lanes).div_ceil(64)];
        Ok(Dependencies { graph, turns, lanes, known, found: Vec::new() })
    }

    /// Adds a dependency: packets that arrive at `switch` over `from` leave through `to`. The method calls
    /// `witness` only if the dependency is new.
    pub(super) fn add(
        &mut self,
        switch: u32,
        from: BufferChannel,
        to: BufferChannel,
        witness: impl FnOnce() -> Witness,
    ) {
        let pair = usize::from(from.lane) * self.lanes + usize::from(to.lane);
        let slot = pair * self.turns.count() + self.turns.number(self.graph, switch, from.port, to.port);
        let bit = 1_u64 << (slot % 64);
        if self.known[slot / 64] & bit == 0 {
            self.known[slot / 64] |= bit;
            self.found.push(Dependency { from, to, witness: witness() });
        }
    }

    /// The switch at the end of the link from `port`.
    pub(super) fn head(&self, port: PortId) -> Option<u32> {
        self.graph.head(port)
    }

    /// Adds the dependencies of all shortest paths between `pairs` of edge switches, in one lane.
    pub(super) fn add_shortest_paths(&mut self, hops: &NextHops, pairs: &SwitchPairs, lane: u8) {
        for to in 0..hops.graph().attachments().len() as u32 {
            self.add_shortest_paths_to(hops, to, &pairs.senders_to(to), lane);
        }
    }

    /// The same from some edge switches to the edge switch `to`, all as indices of edge switches; each source with
    /// a pair of hosts that send so.
    pub(super) fn add_shortest_paths_to(
        &mut self,
        hops: &NextHops,
        to: u32,
        sources: &[(u32, [NodeId; 2])],
        lane: u8,
    ) {
        let (graph, rows) = (hops.graph(), hops.graph().attachments());
        let target = rows[to as usize];
        // For each switch, the hosts of a route that crosses it.
        let mut origin = vec![None; graph.len()];
        let mut waiting = Vec::new();
        for (from, hosts) in sources.iter().filter(|(from, _)| *from != to) {
            origin[rows[*from as usize] as usize] = Some(*hosts);
            waiting.push(rows[*from as usize]);
        }
        while let Some(at) = waiting.pop() {
            let Some([from, receiver]) = origin[at as usize] else { continue };
            for held in hops.fabric_ports(at, to) {
                let Some(next) = self.graph.head(*held).filter(|next| *next != target) else { continue };
                for wanted in hops.fabric_ports(next, to) {
                    let [held, wanted] = [*held, *wanted].map(|port| BufferChannel { port, lane });
                    let witness = || Witness { from, to: receiver, vlan: None };
                    self.add(next, held, wanted, witness);
                }
                if origin[next as usize].is_none() {
                    origin[next as usize] = Some([from, receiver]);
                    waiting.push(next);
                }
            }
        }
    }

    /// Returns the graph of all dependencies added.
    pub(super) fn finish(self) -> DependencyGraph {
        DependencyGraph::new(self.graph.port_count(), self.found)
    }
}

/// The channels and their dependencies.
#[derive(Clone, Debug)]
pub struct DependencyGraph {
    ports: usize,
    /// The dependencies of channel (lane x ports + port) are `first[channel]..first[channel + 1]`.
    first: Vec<u32>,
    dependencies: Vec<Dependency>,
}

impl DependencyGraph {
    fn new(ports: usize, mut dependencies: Vec<Dependency>) -> DependencyGraph {
        let lanes =
            dependencies.iter().map(|d| usize::from(d.from.lane.max(d.to.lane)) + 1).max().unwrap_or(0);
        dependencies.sort_by_key(|d| (d.from.lane, d.from.port, d.to.lane, d.to.port));
        let mut first = vec![0_u32; lanes * ports + 1];
        for dependency in &dependencies {
            first[usize::from(dependency.from.lane) * ports + dependency.from.port.0 as usize + 1] += 1;
        }
        for channel in 1..first.len() {
            first[channel] += first[channel - 1];
        }
        DependencyGraph { ports, first, dependencies }
    }

    /// Computes the dependencies of all shortest paths in one lane, as per-flow or per-packet spreading over
    /// these paths causes them, between any ports of different hosts.
    ///
    /// # Errors
    /// If there are too many pairs of channels to store.
    pub fn of_next_hops(hops: &NextHops) -> Result<DependencyGraph, RoutingError> {
        DependencyGraph::of_pairs(hops, &SwitchPairs::all(hops.graph()))
    }

    /// The same for packets between `pairs` only.
    ///
    /// # Errors
    /// If there are too many pairs of channels to store.
    pub fn of_pairs(hops: &NextHops, pairs: &SwitchPairs) -> Result<DependencyGraph, RoutingError> {
        let mut dependencies = Dependencies::new(hops.graph(), 1)?;
        dependencies.add_shortest_paths(hops, pairs, 0);
        Ok(dependencies.finish())
    }

    /// Number of dependencies.
    pub fn len(&self) -> usize {
        self.dependencies.len()
    }

    /// True if the graph has no dependency.
    pub fn is_empty(&self) -> bool {
        self.dependencies.is_empty()
    }

    /// All dependencies, ordered by channel.
    pub fn dependencies(&self) -> &[Dependency] {
        &self.dependencies
    }

    fn index(&self, channel: BufferChannel) -> usize {
        usize::from(channel.lane) * self.ports + channel.port.0 as usize
    }

    fn channel(&self, index: usize) -> BufferChannel {
        BufferChannel { port: PortId((index % self.ports) as u32), lane: (index / self.ports) as u8 }
    }

    fn channels(&self) -> usize {
        self.first.len() - 1
    }

    fn out(&self, channel: usize) -> &[Dependency] {
        self.dependencies.get(self.first[channel] as usize..self.first[channel + 1] as usize).unwrap_or(&[])
    }

    /// True if the graph has no cycle, so the plan cannot deadlock.
    pub fn is_acyclic(&self) -> bool {
        self.cyclic_components().is_empty()
    }

    /// The strongly connected components that contain a cycle.
    pub fn cyclic_components(&self) -> Vec<Vec<BufferChannel>> {
        let component = self.components();
        let mut members: Vec<Vec<BufferChannel>> = vec![Vec::new(); self.channels()];
        for (channel, component) in component.iter().enumerate() {
            members[*component as usize].push(self.channel(channel));
        }
        let to_itself = |c: BufferChannel| self.out(self.index(c)).iter().any(|d| d.to == c);
        members.retain(|members| members.len() > 1 || members.iter().any(|c| to_itself(*c)));
        members
    }

    /// The component of every channel (Tarjan, SIAM Journal on Computing 1972, without recursion).
    fn components(&self) -> Vec<u32> {
        const UNSEEN: u32 = u32::MAX;
        let count = self.channels();
        let (mut order, mut low, mut component) = (vec![UNSEEN; count], vec![0; count], vec![UNSEEN; count]);
        let (mut open, mut calls): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        let (mut seen, mut closed) = (0, 0);
        for root in 0..count {
            if order[root] != UNSEEN {
                continue;
            }
            calls.push((root, 0));
            while let Some((at, next)) = calls.pop() {
                if next == 0 {
                    (order[at], low[at]) = (seen, seen);
                    seen += 1;
                    open.push(at);
                }
                if let Some(dependency) = self.out(at).get(next) {
                    calls.push((at, next + 1));
                    let to = self.index(dependency.to);
                    if order[to] == UNSEEN {
                        calls.push((to, 0));
                    } else if component[to] == UNSEEN {
                        low[at] = low[at].min(order[to]);
                    }
                    continue;
                }
                if low[at] == order[at] {
                    while let Some(member) = open.pop() {
                        component[member] = closed;
                        if member == at {
                            break;
                        }
                    }
                    closed += 1;
                }
                if let Some((parent, _)) = calls.last() {
                    low[*parent] = low[*parent].min(low[at]);
                }
            }
        }
        component
    }

    /// A cycle with the fewest channels, with a witness for each dependency; none if the graph has no cycle.
    pub fn shortest_cycle(&self) -> Option<Vec<Dependency>> {
        let component = self.components();
        let mut best: Option<Vec<Dependency>> = None;
        let mut search = Search {
            graph: self,
            component: &component,
            last: self.by_target(),
            closing: vec![None; self.channels()],
            reached_by: vec![None; self.channels()],
        };
        for members in self.cyclic_components() {
            for start in members {
                let limit = best.as_ref().map_or(usize::MAX, Vec::len);
                best = search.cycle_through(self.index(start), limit).or(best);
            }
        }
        best
    }

    /// For each channel, the dependencies that wait for it.
    fn by_target(&self) -> Vec<Vec<u32>> {
        let mut by_target = vec![Vec::new(); self.channels()];
        for (place, dependency) in self.dependencies.iter().enumerate() {
            by_target[self.index(dependency.to)].push(place as u32);
        }
        by_target
    }
}

/// The search for short cycles; all searches reuse the lists of all channels.
struct Search<'a> {
    graph: &'a DependencyGraph,
    component: &'a [u32],
    /// For each channel, the dependencies that wait for it.
    last: Vec<Vec<u32>>,
    /// For each channel, its dependency on the start channel; all `None` between searches.
    closing: Vec<Option<u32>>,
    /// For each channel, the dependency through which the search reached it; all `None` between searches.
    reached_by: Vec<Option<u32>>,
}

impl Search<'_> {
    /// Finds a shortest cycle through `start` with fewer than `limit` channels. The breadth-first search ends
    /// at a channel that depends on `start`, which saves the last and widest level.
    fn cycle_through(&mut self, start: usize, limit: usize) -> Option<Vec<Dependency>> {
        let graph = self.graph;
        for place in &self.last[start] {
            self.closing[graph.index(graph.dependencies[*place as usize].from)] = Some(*place);
        }
        let mut queue = VecDeque::from([(start, 1)]);
        let mut touched = Vec::new();
        let mut end = None;
        while let Some((at, length)) = queue.pop_front() {
            if length >= limit {
                break;
            }
            if let Some(closing) = self.closing[at] {
                end = Some(closing);
                break;
            }
            if length + 1 >= limit {
                continue;
            }
            for place in graph.first[at]..graph.first[at + 1] {
                let to = graph.index(graph.dependencies[place as usize].to);
                if to != start && self.component[to] == self.component[start] && self.reached_by[to].is_none()
                {
                    self.reached_by[to] = Some(place);
                    touched.push(to);
                    queue.push_back((to, length + 1));
                }
            }
        }
        let cycle = end.map(|end| {
            let mut cycle = vec![graph.dependencies[end as usize]];
            while let Some(place) = self.reached_by[graph.index(cycle[cycle.len() - 1].from)] {
                cycle.push(graph.dependencies[place as usize]);
            }
            cycle.reverse();
            cycle
        });
        for channel in touched {
            self.reached_by[channel] = None;
        }
        for place in &self.last[start] {
            self.closing[graph.index(graph.dependencies[*place as usize].from)] = None;
        }
        cycle
    }
}
