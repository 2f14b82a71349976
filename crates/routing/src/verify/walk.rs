//! Follows every route of tables once: finds its end and the dependencies between buffers on the route.
//!
//! A packet that loops or is lost occupies buffers until then, so its route counts. Routes between hosts at
//! the same switch count too, because a wrong table may send their packets out of the switch.

use super::tables::{DELIVER, Tables, Tree};
use crate::cdg::Dependencies;
use crate::watch::{Stopped, Watch};
use crate::{BufferChannel, Witness};
use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;

/// The outcome of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Arrives,
    BlackHole,
    Loop,
    /// No source may send on this route, or it lies in another plane.
    NotPlanned,
}

/// Follows all routes of `tables`, adds their dependencies, and returns their ends; the index is tree x edge
/// switches + source. A host sends nothing to its own ports.
pub(super) fn walk(
    tables: &Tables,
    dependencies: &mut Dependencies<'_>,
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
            let planned = tree.allows(from as u32) && graph.joins([from as u32, tree.row]);
            let pair = graph.pair_of_hosts(graph.hosts(*switch), &tree.hosts).filter(|_| planned);
            let Some([sender, to]) = pair else {
                ends.push(End::NotPlanned);
                continue;
            };
            let end = walker.follow(graph, tree, *switch, |at, held, wanted| {
                let [from_lane, to_lane] = [held.0, at].map(|switch| lane[switch as usize]);
                let held = BufferChannel { port: held.1, lane: from_lane };
                let wanted = BufferChannel { port: wanted, lane: to_lane };
                let witness = || Witness { from: sender, to, vlan: Some(tables.vlans[tree.vlan].id) };
                dependencies.add(at, held, wanted, witness);
            });
            ends.push(end);
        }
    }
    Ok(ends)
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
