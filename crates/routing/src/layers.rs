//! Common parts of the layered routing engines (DFSSSP, LASH): balanced shortest trees, one for each
//! destination, and tables in which each pair of switches sends in one layer only. A layer is a lane with one
//! VLAN.

use super::{ForwardingTables, RoutingError, host_name};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::PortId;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

/// A shortest-path tree to each destination, and the routes along these trees.
#[derive(Debug)]
pub(crate) struct ShortestTrees<'a> {
    pub(crate) graph: &'a SwitchGraph,
    /// The next hop of switch s towards edge switch e, at index e x switches + s.
    next: Vec<PortId>,
}

/// A pair of edge switches (switches with hosts), by their indices: source, destination.
pub(crate) type Pair = (u32, u32);

impl<'a> ShortestTrees<'a> {
    /// Computes trees to the destinations in random order. Of all shortest routes to a destination each
    /// switch takes a route whose links carry the fewest routes of earlier trees in total (SSSP: Hoefler,
    /// Schneider, Lumsdaine 2009).
    pub(crate) fn balanced(graph: &'a SwitchGraph, seed: u64) -> ShortestTrees<'a> {
        let switches = graph.len();
        let mut next = vec![PortId::NONE; graph.attachments().len() * switches];
        let mut rows: Vec<usize> = (0..graph.attachments().len()).collect();
        rows.shuffle(&mut Pcg64::seed_from_u64(seed));
        let (mut distance, mut order) = (vec![0; switches], Vec::new());
        let mut cost = vec![0_u64; switches];
        let mut load = vec![0_u64; graph.port_count()];
        for row in rows {
            let to = graph.attachments()[row];
            let tree = &mut next[row * switches..][..switches];
            graph.distances(to, &mut distance, &mut order);
            cost[to as usize] = 0;
            for at in &order[1..] {
                let nearer =
                    graph.arcs(*at).iter().filter(|arc| distance[arc.to as usize] < distance[*at as usize]);
                let costs = nearer.map(|arc| (cost[arc.to as usize] + load[arc.port.0 as usize], arc.port));
                if let Some((least, port)) = costs.min() {
                    (cost[*at as usize], tree[*at as usize]) = (least, port);
                }
            }
            count_routes(graph, to, &order, tree, &mut load);
        }
        ShortestTrees { graph, next }
    }

    /// The port of every switch towards edge switch `row`.
    pub(crate) fn tree(&self, row: u32) -> &[PortId] {
        &self.next[row as usize * self.graph.len()..][..self.graph.len()]
    }

    /// Writes the ports of the route between two edge switches into `out`.
    pub(crate) fn route(&self, (from, to): Pair, out: &mut Vec<PortId>) {
        let [mut at, target] = [from, to].map(|row| self.graph.attachments()[row as usize]);
        out.clear();
        while at != target {
            let port = self.next[to as usize * self.graph.len() + at as usize];
            let Some(next) = self.graph.head(port) else { return };
            out.push(port);
            at = next;
        }
    }

    /// Returns all ordered pairs of different switches with hosts.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let rows = self.graph.attachments().len() as u32;
        (0..rows)
            .flat_map(|to| (0..rows).map(move |from| (from, to)))
            .filter(|(from, to)| from != to)
            .collect()
    }

    /// Makes tables in which the pairs of `layers[i]` send in VLAN i and lane i.
    pub(crate) fn tables(
        &self,
        topology: &Topology,
        layers: &[Vec<Pair>],
        lanes_max: usize,
    ) -> Result<ForwardingTables, RoutingError> {
        let needed = layers.len().max(1);
        if needed > lanes_max {
            let pair = layers[lanes_max].first().map(|(from, to)| {
                let [from, to] = [from, to].map(|row| host_name(topology, self.graph, *row));
                (from, to)
            });
            return Err(RoutingError::Lanes { needed, allowed: lanes_max, pair });
        }
        let mut tables = ForwardingTables::new(self.graph, (0..needed as u8).collect())?;
        tables.forbid_all();
        let mut route = Vec::new();
        for (layer, pairs) in layers.iter().enumerate() {
            for pair in pairs {
                tables.allow(layer, pair.0, pair.1);
                self.route(*pair, &mut route);
                let mut at = self.graph.attachments()[pair.0 as usize];
                for port in &route {
                    tables.tree_mut(layer, pair.1)[at as usize] = *port;
                    at = self.graph.head(*port).unwrap_or(at);
                }
            }
        }
        Ok(tables)
    }
}

/// Adds to each port's load the number of host pairs whose route uses the port; `order` is sorted by
/// distance.
fn count_routes(graph: &SwitchGraph, to: u32, order: &[u32], tree: &[PortId], load: &mut [u64]) {
    let mut routes: Vec<u64> =
        (0..graph.len() as u32).map(|switch| graph.hosts(switch).len() as u64).collect();
    let targets = graph.hosts(to).len() as u64;
    for at in order[1..].iter().rev() {
        let port = tree[*at as usize];
        load[port.0 as usize] += routes[*at as usize] * targets;
        if let Some(next) = graph.head(port) {
            routes[next as usize] += routes[*at as usize];
        }
    }
}
