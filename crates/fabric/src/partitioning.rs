//! Assignment of nodes to partitions: leaf switches with their hosts in equal parts, in the order of their numbers (generators number pod by pod);
//! every other switch joins the partition to which it has most links.

use crate::plan::NetworkPlan;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{NodeId, PortId};
use std::collections::VecDeque;

/// Full frames per window that a partition must be able to send for a thread to pay off; less work costs less than the synchronisation.
const MIN_FRAMES_PER_PARTITION: u64 = 2_000;
const FULL_FRAME_BITS: u64 = 1_538 * 8;

impl NetworkPlan {
    /// The number of partitions that speed up a run on this many cores.
    pub fn useful_partition_count(&self, cores: usize) -> usize {
        let bits = |port: PortId| self.topology.channel(port).rate.bytes_in(self.window).0 * 8;
        let frames = self.all_ports().map(bits).sum::<u64>() / FULL_FRAME_BITS;
        cores.min((frames / MIN_FRAMES_PER_PARTITION) as usize).clamp(1, self.max_partition_count())
    }

    /// The maximum number of partitions: one for each switch with hosts.
    pub fn max_partition_count(&self) -> usize {
        switches_with_hosts(&self.topology).len().clamp(1, usize::from(u16::MAX))
    }

    /// The partition of each node, for at most [`Self::max_partition_count`] partitions.
    pub fn assign_nodes(&self, partitions: usize) -> Vec<u16> {
        let partitions = partitions.clamp(1, self.max_partition_count());
        let topology = &self.topology;
        let mut partition_of: Vec<Option<u16>> = vec![None; topology.nodes().len()];
        let mut load = vec![0; partitions];
        let leaves = switches_with_hosts(topology);
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
                    let partition = most_linked_partition(topology, peer, &partition_of, &load);
                    partition_of[peer.0 as usize] = Some(partition as u16);
                    load[partition] += topology.nodes()[peer].ports.len();
                    next.push_back(peer);
                }
            }
        }
        let mut partition_of: Vec<u16> =
            partition_of.into_iter().map(|partition| partition.unwrap_or(0)).collect();
        // The ports of a host share its endpoints.
        for (host, ports) in topology.ports_of_hosts() {
            for port in ports {
                partition_of[port.0 as usize] = partition_of[host.0 as usize];
            }
        }
        partition_of
    }
}

/// Switches with hosts, in the order of their numbers.
fn switches_with_hosts(topology: &Topology) -> Vec<NodeId> {
    let is_host = |port: &PortId| topology.nodes()[topology.peer(*port)].kind == NodeKind::Host;
    topology.switches().filter(|switch| topology.nodes()[*switch].ports.iter().any(is_host)).collect()
}

/// The partition to which a node has most links; of equal ones the least loaded.
fn most_linked_partition(
    topology: &Topology,
    node: NodeId,
    partition_of: &[Option<u16>],
    load: &[usize],
) -> usize {
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
