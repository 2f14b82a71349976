//! Up*/down* routing in one lane (Autonet: Schroeder et al., IEEE JSAC 1991).
//!
//! The switches are ranked by their distance from a root. If the graph has levels that serve all pairs,
//! levels define the ranks (a fat tree has many roots). The first VLAN serves every pair; the others contain
//! shorter and differently balanced routes, but not for all pairs. Unlike in some implementations, a switch
//! with a route down keeps this route even if another route is shorter, so that no packet ever turns from
//! down to up.

use super::levels::rank_by_level;
use super::ordered_trees::{Growth, TreeGrower, rank_from_root};
use super::turn_order::TurnOrder;
use super::{ForwardingTables, RoutingEngine, RoutingError, bound_parameter, reachable_switches};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// The up*/down* engine, with one lane.
#[derive(Clone, Debug)]
pub struct UpDown {
    /// Number of VLANs, 1 to 4094.
    pub vlans: usize,
    /// The root switch; by default levels define the ranks, else a switch with the most links is the root.
    pub root: Option<NodeId>,
    /// Seed for breaking ties.
    pub seed: u64,
}

impl RoutingEngine for UpDown {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        parts: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        bound_parameter("vlans", self.vlans, 1..=4094, "it must be 1 to 4094")?;
        reachable_switches(topology, graph)?;
        let root = self.root.and_then(|node| graph.number(node));
        let mut tables = self.plan_from(topology, graph, root, watch)?;
        if let Some(node) = self.root.filter(|_| parts > 1 && root.is_none()) {
            tables.note(format!("the root {} lies in another plane", topology.nodes()[node].name));
        }
        Ok(tables)
    }
}

impl UpDown {
    fn plan_from(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        root: Option<u32>,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        if root.is_none()
            && let Some(rank) = rank_by_level(topology, graph)
        {
            let tables = self.plan_ranked(graph, &rank, watch)?;
            if tables.unserved().is_empty() {
                return Ok(tables);
            }
        }
        let root = root.unwrap_or_else(|| widest_switch(graph));
        self.plan_ranked(graph, &rank_from_root(graph, root), watch)
    }

    fn plan_ranked(
        &self,
        graph: &SwitchGraph,
        rank: &[u32],
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        let order = TurnOrder::of_ranks(graph, rank);
        let mut tables = ForwardingTables::new(graph, vec![0; self.vlans])?;
        let mut grower = TreeGrower::new(graph);
        let mut rng = Pcg64::seed_from_u64(self.seed);
        let mut rows: Vec<u32> = (0..graph.attachments().len() as u32).collect();
        for vlan in 0..self.vlans {
            let growth = if vlan == 0 { Growth::DownFirst } else { Growth::Nearest };
            rows.shuffle(&mut rng);
            for (done, row) in rows.iter().enumerate() {
                watch.step(
                    "growing trees",
                    (vlan * rows.len() + done) as u64,
                    (self.vlans * rows.len()) as u64,
                )?;
                let to = graph.attachments()[*row as usize];
                grower.grow(
                    &order,
                    to,
                    growth,
                    |_: PortId| true,
                    rng.next_u64(),
                    tables.tree_mut(vlan, *row),
                );
            }
        }
        Ok(tables)
    }
}

/// Among the switches that hosts can reach, the first switch with the largest number of links to other
/// switches.
pub(crate) fn widest_switch(graph: &SwitchGraph) -> u32 {
    let Some(start) = graph.attachments().first() else { return 0 };
    let mut reached = Vec::new();
    graph.distances(*start, &mut vec![0; graph.len()], &mut reached);
    let width = |switch: &u32| (graph.arcs(*switch).len(), std::cmp::Reverse(*switch));
    reached.into_iter().max_by_key(width).unwrap_or(*start)
}
