//! Which nodes share a cell: leaf switches with their hosts in equal parts, in the order of their numbers (generators number pod by
//! pod), and every other switch with those that it has most links to.

use crate::plan::Plan;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{NodeId, PortId};
use std::collections::VecDeque;

/// A thread pays off if its cell could send so many full frames in a window: less is over before the others have been told.
const FRAMES_PER_CELL: u64 = 2_000;
const FULL_FRAME_BITS: u64 = 1_538 * 8;

impl Plan {
    /// How many cells pay off on so many cores.
    pub fn cells_that_pay(&self, cores: usize) -> usize {
        let bits = |port: PortId| self.topology.channel(port).rate.bytes_in(self.window).0 * 8;
        let frames = self.ports().map(bits).sum::<u64>() / FULL_FRAME_BITS;
        cores.min((frames / FRAMES_PER_CELL) as usize).clamp(1, self.cells_max())
    }

    /// The most cells that the network can be divided among: one for each switch with hosts.
    pub fn cells_max(&self) -> usize {
        leaves(&self.topology).len().clamp(1, usize::from(u16::MAX))
    }

    /// The number of the cell of each node, for so many cells; no more than [`Self::cells_max`].
    pub fn partition(&self, cells: usize) -> Vec<u16> {
        let cells = cells.clamp(1, self.cells_max());
        let topology = &self.topology;
        let mut cell_of: Vec<Option<u16>> = vec![None; topology.nodes().len()];
        let mut load = vec![0; cells];
        let leaves = leaves(topology);
        for (number, leaf) in leaves.iter().enumerate() {
            let cell = number * cells / leaves.len();
            cell_of[leaf.0 as usize] = Some(cell as u16);
            load[cell] += topology.nodes()[*leaf].ports.len();
        }
        let mut next: VecDeque<NodeId> = leaves.into();
        while let Some(node) = next.pop_front() {
            for port in &topology.nodes()[node].ports {
                let peer = topology.peer(*port);
                if cell_of[peer.0 as usize].is_none() {
                    let cell = best_cell(topology, peer, &cell_of, &load);
                    cell_of[peer.0 as usize] = Some(cell as u16);
                    load[cell] += topology.nodes()[peer].ports.len();
                    next.push_back(peer);
                }
            }
        }
        cell_of.into_iter().map(|cell| cell.unwrap_or(0)).collect()
    }
}

/// Switches with hosts, in the order of their numbers.
fn leaves(topology: &Topology) -> Vec<NodeId> {
    let is_host = |port: &PortId| topology.nodes()[topology.peer(*port)].kind == NodeKind::Host;
    topology.switches().filter(|switch| topology.nodes()[*switch].ports.iter().any(is_host)).collect()
}

/// The cell that a node has most links to; of equal ones the one with the least to do.
fn best_cell(topology: &Topology, node: NodeId, cell_of: &[Option<u16>], load: &[usize]) -> usize {
    let mut links = vec![0usize; load.len()];
    for port in &topology.nodes()[node].ports {
        if let Some(cell) = cell_of[topology.peer(*port).0 as usize] {
            links[usize::from(cell)] += 1;
        }
    }
    (0..load.len()).max_by_key(|cell| (links[*cell], std::cmp::Reverse(load[*cell]))).unwrap_or(0)
}
