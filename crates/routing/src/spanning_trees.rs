//! Deadlock-free routing by edge-disjoint spanning trees (DF-EDST: Stephens and Cox, INFOCOM 2016; used for
//! Ethernet by TCP-Bolt: Stephens et al., INFOCOM 2014).
//!
//! Every VLAN is one spanning tree. Routes in a tree have no cycle of dependencies, and packets in trees
//! without a common link cannot wait for each other, so the trees of a lane cannot deadlock together.
//! Different lanes have different trees. Since each VLAN is a tree, flooding in a VLAN causes no loops.

use super::{ForwardingTables, Packing, RoutingEngine, RoutingError};
use super::{bound_parameter, pack_spanning_trees};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::PortId;

/// Edge-disjoint spanning trees in one or more lanes.
#[derive(Clone, Debug)]
pub struct SpanningTrees {
    /// Number of lanes, 1 to 8; each lane has its own trees.
    pub lanes: usize,
    /// Maximum number of trees per lane; by default as many as the packing finds.
    pub trees_per_lane: Option<usize>,
    /// The algorithm that finds the trees.
    pub packing: Packing,
    /// Seed for the trees.
    pub seed: u64,
}

impl RoutingEngine for SpanningTrees {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        _: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        bound_parameter("lanes", self.lanes, 1..=8, "it must be 1 to 8")?;
        let most = self.trees_per_lane.unwrap_or(4094 / self.lanes);
        bound_parameter("trees_per_lane", most, 1..=4094 / self.lanes, "all lanes together can have 4094")?;
        let mut trees = Vec::new();
        for lane in 0..self.lanes as u64 {
            watch.step("packing trees", lane, self.lanes as u64)?;
            // An odd multiplier gives all lanes different seeds, also different from the seeds for `seed +
            // 1`.
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(lane);
            let packed = pack_spanning_trees(topology, graph, self.packing, most, seed)?;
            trees.extend(packed.into_iter().map(|tree| (lane as u8, tree)));
        }
        let mut tables = ForwardingTables::new(graph, trees.iter().map(|(lane, _)| *lane).collect())?;
        for (vlan, (_, tree)) in trees.iter().enumerate() {
            watch.step("writing rows", vlan as u64, trees.len() as u64)?;
            write_tree(&mut tables, vlan, tree);
        }
        Ok(tables)
    }
}

/// Writes the forwarding rows of one VLAN, whose links form a tree.
fn write_tree(tables: &mut ForwardingTables, vlan: usize, tree: &[u32]) {
    let graph = tables.graph();
    let mut neighbours: Vec<Vec<(u32, PortId)>> = vec![Vec::new(); graph.len()];
    for edge in tree {
        let edge = graph.edges()[*edge as usize];
        for end in 0..2 {
            // The port of the neighbour that leads back over this edge.
            let back = PortId::of_link(edge.link, 1 - end);
            neighbours[edge.ends[end] as usize].push((edge.ends[1 - end], back));
        }
    }
    let mut waiting = Vec::new();
    for row in 0..tables.graph().attachments().len() as u32 {
        let to = tables.graph().attachments()[row as usize];
        let rows = tables.tree_mut(vlan, row);
        waiting.push(to);
        while let Some(at) = waiting.pop() {
            for (next, back) in &neighbours[at as usize] {
                if *next != to && rows[*next as usize] == PortId::NONE {
                    rows[*next as usize] = *back;
                    waiting.push(*next);
                }
            }
        }
    }
}
