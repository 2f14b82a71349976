//! The observers' view: all partitions between two windows, and which partition owns which node.

use crate::ids::SlotId;
use crate::partition::Partition;
use crate::plan::NetworkPlan;
use crate::switching::pool::SharedPoolLimits;
use crate::wire::counters::QueueCounters;
use crate::wire::ingress::IngressAccount;
use crate::worker::PartitionWorker;
use pauseframe_topology::NodeKind;
use pauseframe_units::{IndexVec, NodeId, PortId};
use std::sync::Arc;

/// The partition of each node.
pub(crate) type PartitionByNode = IndexVec<NodeId, u16>;

/// Read access to all partitions while none of them runs.
#[derive(Clone, Copy)]
pub(crate) struct ObserverView<'a> {
    pub(crate) plan: &'a Arc<NetworkPlan>,
    pub(crate) workers: &'a [Box<PartitionWorker>],
    pub(crate) partition_of: &'a PartitionByNode,
}

impl<'a> ObserverView<'a> {
    /// The partition of a node.
    pub(crate) fn partition_of_node(&self, node: NodeId) -> &'a Partition {
        &self.workers[usize::from(self.partition_of[node])].partition
    }

    /// The partition of the node that sends by `port`, with its queues and pause state.
    pub(crate) fn owner_partition(&self, port: PortId) -> &'a Partition {
        self.partition_of_node(self.plan.topology.owner(port))
    }

    /// The partition of the node at the other end, with the ingress account and pause requests.
    pub(crate) fn peer_partition(&self, port: PortId) -> &'a Partition {
        self.partition_of_node(self.plan.topology.peer(port))
    }

    /// Congestion notifications that the host that owns `port` has sent and received in a class; zero for switches.
    pub(crate) fn cnp_counts(&self, port: PortId, class: u8) -> [u64; 2] {
        let node = self.plan.topology.owner(port);
        if self.plan.topology.nodes()[node].kind != NodeKind::Host {
            return [0; 2];
        }
        self.partition_of_node(node).endpoints.cards.cnps(self.plan.host_id(node), class)
    }

    /// Counters of one direction of a link, from both ends.
    pub(crate) fn merged_queue_counters(&self, port: PortId, slot: SlotId) -> QueueCounters {
        let (sender, receiver) = (self.owner_partition(port), self.peer_partition(port));
        let own = sender.ports.counters.merged_counters(slot);
        if std::ptr::eq(sender, receiver) {
            own
        } else {
            own.merge(&receiver.ports.counters.merged_counters(slot))
        }
    }

    /// The ingress account of a slot at the other end of `port`; an empty one if the node keeps none.
    pub(crate) fn peer_ingress_account(&self, port: PortId, slot: SlotId) -> IngressAccount {
        self.peer_partition(port).ports.ingress.accounts.get(slot).copied().unwrap_or_default()
    }

    /// Shared-pool limits of the receiving switch for a slot of `port`.
    pub(crate) fn peer_pool_limits(&self, port: PortId, slot: SlotId) -> SharedPoolLimits {
        let policy = &self.plan.policies[usize::from(self.plan.port_and_class(slot).1)];
        SharedPoolLimits::of_account(policy, &self.peer_ingress_account(port, slot))
    }
}
