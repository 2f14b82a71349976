//! The levels of a tree-like fabric, from the topology or from the distance to the nearest host.
//!
//! Files of other tools contain no levels, yet most fabrics are Clos networks. In a Clos network every link
//! between switches joins two neighbouring levels, and the level of a switch is its distance to the nearest
//! host. These properties of levels remain true when links fail, as long as every switch has a path down.

use pauseframe_topology::{Edge, SwitchGraph, Topology};

/// Returns the level of every switch, by its number in the graph. The function uses the levels of the
/// topology if every switch has a level and no link joins two switches of the same level; otherwise the
/// levels by distance, if every link joins neighbouring levels; none for other graphs, and if all switches
/// have hosts.
pub(crate) fn levels(topology: &Topology, graph: &SwitchGraph) -> Option<Vec<u32>> {
    named(topology, graph).or_else(|| by_distance(graph))
}

/// Returns the level of every node for drawings, with hosts at 0; none if the graph has no levels.
pub fn levels_of_nodes(topology: &Topology) -> Option<Vec<u32>> {
    let graph = SwitchGraph::new(topology).ok()?;
    let levels = levels(topology, &graph)?;
    // Levels in the topology count from the hosts.
    let lowest = levels.iter().min().copied()?;
    let level = |node| graph.number(node).map_or(0, |switch| levels[switch as usize] + 1 - lowest.min(1));
    Some(topology.nodes().ids().map(level).collect())
}

fn named(topology: &Topology, graph: &SwitchGraph) -> Option<Vec<u32>> {
    let level = |switch: u32| topology.nodes()[graph.node(switch)].level.map(u32::from);
    let levels: Vec<u32> = (0..graph.len() as u32).map(level).collect::<Option<_>>()?;
    let apart =
        graph.edges().iter().all(|edge| levels[edge.ends[0] as usize] != levels[edge.ends[1] as usize]);
    apart.then_some(levels)
}

/// Number of links between each switch and the nearest switch with hosts.
fn by_distance(graph: &SwitchGraph) -> Option<Vec<u32>> {
    let mut level = vec![0; graph.len()];
    graph.distances_to_any(graph.attachments(), &mut level, &mut Vec::new());
    let neighbours = |edge: &Edge| {
        let [a, b] = edge.ends.map(|end| level[end as usize]);
        a.abs_diff(b) == 1
    };
    (graph.edges().iter().all(neighbours) && !graph.edges().is_empty()).then_some(level)
}

/// Ranks switches by level, and within a level by number, which affects no route of a Clos network.
pub(crate) fn rank_by_level(topology: &Topology, graph: &SwitchGraph) -> Option<Vec<u32>> {
    let levels = levels(topology, graph)?;
    let mut order: Vec<u32> = (0..graph.len() as u32).collect();
    order.sort_by_key(|switch| levels[*switch as usize]);
    let mut rank = vec![0; graph.len()];
    for (place, switch) in order.into_iter().enumerate() {
        rank[switch as usize] = place as u32;
    }
    Some(rank)
}
