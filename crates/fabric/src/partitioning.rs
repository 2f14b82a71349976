//! Which nodes share a partition: leaf switches with their hosts in equal parts, in the order of their numbers (generators number pod by
//! pod), and every other switch with those that it has most links to.

use crate::plan::Plan;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{NodeId, PortId};
use std::collections::VecDeque;

/// A thread pays off if its partition could send so many full frames in a window: less is over before the others have been told.
const FRAMES_PER_PARTITION: u64 = 2_000;
const FULL_FRAME_BITS: u64 = 1_538 * 8;

impl Plan {
    /// The number of partitions that speed up a run on this many cores.
    pub fn useful_partitions(&self, cores: usize) -> usize {
        let bits = |port: PortId| self.topology.channel(port).rate.bytes_in(self.window).0 * 8;
        let frames = self.ports().map(bits).sum::<u64>() / FULL_FRAME_BITS;
        cores.min((frames / FRAMES_PER_PARTITION) as usize).clamp(1, self.partitions_max())
    }

    /// The most partitions that the network can be divided among: one for each switch with hosts.
    pub fn partitions_max(&self) -> usize {
        leaves(&self.topology).len().clamp(1, usize::from(u16::MAX))
    }

    /// The number of the partition of each node, for so many partitions; no more than [`Self::partitions_max`].
    pub fn assign_partitions(&self, partitions: usize) -> Vec<u16> {
        let partitions = partitions.clamp(1, self.partitions_max());
        let topology = &self.topology;
        let mut partition_of: Vec<Option<u16>> = vec![None; topology.nodes().len()];
        let mut load = vec![0; partitions];
        let leaves = leaves(topology);
        for (number, leaf) in leaves.iter().enumerate() {
            let partition = number * partitions / leaves.len();
            partition_of[leaf.0 as usize] = Some(partition as u16);
            load[partition] += topology.nodes()[*leaf].ports.len();
        }
        let mut next: VecDeque<NodeId> = leaves.into();
        while let Some(node) = next.pop_front() {
            for port in &topology.nodes()[node].ports {
                let peer = topology.peer(*port);
                if partition_of[peer.0 as usize].is_none() {
                    let partition = best_partition(topology, peer, &partition_of, &load);
                    partition_of[peer.0 as usize] = Some(partition as u16);
                    load[partition] += topology.nodes()[peer].ports.len();
                    next.push_back(peer);
                }
            }
        }
        partition_of.into_iter().map(|partition| partition.unwrap_or(0)).collect()
    }
}

/// Switches with hosts, in the order of their numbers.
fn leaves(topology: &Topology) -> Vec<NodeId> {
    let is_host = |port: &PortId| topology.nodes()[topology.peer(*port)].kind == NodeKind::Host;
    topology.switches().filter(|switch| topology.nodes()[*switch].ports.iter().any(is_host)).collect()
}

/// The partition that a node has most links to; of equal ones the one with the least to do.
fn best_partition(topology: &Topology, node: NodeId, partition_of: &[Option<u16>], load: &[usize]) -> usize {
    let mut links = vec![0usize; load.len()];
    for port in &topology.nodes()[node].ports {
        if let Some(partition) = partition_of[topology.peer(*port).0 as usize] {
            links[usize::from(partition)] += 1;
        }
    }
    (0..load.len())
        .max_by_key(|partition| (links[*partition], std::cmp::Reverse(load[*partition])))
        .unwrap_or(0)
}
