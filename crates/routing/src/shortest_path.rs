//! One fixed shortest route from each switch to each destination, as in a fabric with static routes and no
//! protection against deadlock (SSSP: Hoefler, Schneider, Lumsdaine, 2009; similar to `OpenSM`'s minhop).
//!
//! All routes are in one lane, so on a graph with cycles they can deadlock under pause, which the verifier
//! reports. Further VLANs contain further balanced sets of shortest routes.

use super::layers::ShortestTrees;
use super::{ForwardingTables, RoutingEngine, RoutingError, bound_parameter, reachable_switches};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};

/// Balanced shortest routes in one lane, which can deadlock.
#[derive(Clone, Debug)]
pub struct ShortestPath {
    /// Number of VLANs, 1 to 4094; each VLAN has its own routes.
    pub vlans: usize,
    /// Seed for the order of destinations.
    pub seed: u64,
}

impl RoutingEngine for ShortestPath {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        _: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        bound_parameter("vlans", self.vlans, 1..=4094, "it must be 1 to 4094")?;
        reachable_switches(topology, graph)?;
        let mut tables = ForwardingTables::new(graph, vec![0; self.vlans])?;
        for vlan in 0..self.vlans {
            watch.step("shortest routes", vlan as u64, self.vlans as u64)?;
            // An odd multiplier gives all VLANs different seeds, also different from the seeds for `seed +
            // 1`.
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(vlan as u64);
            let trees = ShortestTrees::balanced(graph, seed);
            for row in 0..graph.attachments().len() as u32 {
                tables.tree_mut(vlan, row).copy_from_slice(trees.tree(row));
            }
        }
        Ok(tables)
    }
}
