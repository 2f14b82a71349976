//! Follows every route of tables once: finds its end and the dependencies between buffers on the route.
//!
//! A packet that loops or is lost occupies buffers until then, so its route counts. Routes between hosts at
//! the same switch count too, because a wrong table may send their packets out of the switch.

use super::tables::{DELIVER, Tables, Tree};
use crate::cdg::Turns;
use crate::watch::{Stopped, Watch};
use crate::{BufferChannel, Dependency, RoutingError, Witness, bound_rows};
use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;

/// The outcome of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Arrives,
    BlackHole,
    Loop,
    /// No source may send on this route.
    NotPlanned,
}

/// The dependencies found up to now, each with the first route that caused it.
pub(super) struct DependencySet<'a> {
    graph: &'a SwitchGraph,
    turns: Turns,
    lanes: usize,
    /// One bit for each combination of a pair of lanes and a turn.
    known: Vec<u64>,
    found: Vec<Dependency>,
}

impl<'a> DependencySet<'a> {
    /// Makes an empty set; `graph` contains all links that any table uses.
    pub(super) fn new(graph: &'a SwitchGraph, lanes: usize) -> Result<DependencySet<'a>, RoutingError> {
        let turns = Turns::of(graph);
        bound_rows(&[turns.count(), (lanes * lanes).div_ceil(8)])?;
        let known = vec![0; (turns.count() * lanes * lanes).div_ceil(64)];
        Ok(DependencySet { graph, turns, lanes, known, found: Vec::new() })
    }

    /// Adds a dependency: packets that arrive at `switch` over `from` leave through `to`.
    fn add(
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

    pub(super) fn into_found(self) -> Vec<Dependency> {
        self.found
    }
}

/// Follows all routes of `tables`, adds their dependencies, and returns their ends; the index is tree x edge
/// switches + source. A tree with a single host has no sender at its own switch.
pub(super) fn walk(
    tables: &Tables,
    dependencies: &mut DependencySet<'_>,
    watch: &mut dyn Watch,
) -> Result<Vec<End>, Stopped> {
    let graph = &tables.graph;
    let sources = graph.attachments();
    let lanes = tables.lane_table();
    let mut ends = Vec::with_capacity(tables.trees.len() * sources.len());
    let mut walker = Walker { end: Vec::new(), on_path: Vec::new() };
    for (done, tree) in tables.trees.iter().enumerate() {
        watch.step("following routes", done as u64, tables.trees.len() as u64)?;
        walker.end.clear();
        walker.end.resize(graph.len(), State::Unseen);
        let lane = &lanes[tree.vlan * graph.len()..][..graph.len()];
        for (from, switch) in sources.iter().enumerate() {
            let others = if from as u32 == tree.row { graph.hosts(*switch).len() > 1 } else { true };
            if !others || !tree.allows(from as u32) {
                ends.push(End::NotPlanned);
                continue;
            }
            let end = walker.follow(graph, tree, *switch, |at, held, wanted| {
                let [from_lane, to_lane] = [held.0, at].map(|switch| lane[switch as usize]);
                let held = BufferChannel { port: held.1, lane: from_lane };
                let wanted = BufferChannel { port: wanted, lane: to_lane };
                dependencies.add(at, held, wanted, || witness(tables, tree, *switch));
            });
            ends.push(end);
        }
    }
    Ok(ends)
}

/// Finds a pair of hosts whose packets go from `switch` along `tree`.
fn witness(tables: &Tables, tree: &Tree, switch: u32) -> Witness {
    let to = tree.hosts[0];
    let mut senders = tables.graph.hosts(switch).iter();
    let from = *senders.find(|host| **host != to).unwrap_or(&to);
    Witness { from, to, vlan: Some(tables.vlans[tree.vlan].id) }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unseen,
    OnPath,
    Ends(End),
}

struct Walker {
    end: Vec<State>,
    on_path: Vec<u32>,
}

impl Walker {
    /// Follows the next hops of `tree` from `start` until the end is known; calls `pass` for every switch
    /// that a packet enters over one link (given by its transmitting switch and port) and leaves over
    /// another.
    fn follow(
        &mut self,
        graph: &SwitchGraph,
        tree: &Tree,
        start: u32,
        mut pass: impl FnMut(u32, (u32, PortId), PortId),
    ) -> End {
        let (mut at, mut held) = (start, None);
        let end = loop {
            let wanted = tree.next[at as usize];
            let to = if wanted == PortId::NONE || wanted == DELIVER { None } else { graph.head(wanted) };
            if let (Some(held), Some(_)) = (held, to) {
                pass(at, held, wanted);
            }
            match self.end[at as usize] {
                State::Ends(end) => break end,
                State::OnPath => break End::Loop,
                State::Unseen => {}
            }
            self.end[at as usize] = State::OnPath;
            self.on_path.push(at);
            match to {
                Some(next) => (held, at) = (Some((at, wanted)), next),
                None if wanted == DELIVER => break End::Arrives,
                // The table has no row, the link is down, or the port leads to another host, which does not
                // forward.
                None => break End::BlackHole,
            }
        };
        for switch in self.on_path.drain(..) {
            self.end[switch as usize] = State::Ends(end);
        }
        end
    }
}
