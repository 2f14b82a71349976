//! What those who watch see: all partitions between two windows, and which of them has what.

use crate::ids::SlotId;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::switching::pool::SharedLimits;
use crate::wire::counters::Counters;
use crate::wire::ingress::Account;
use crate::worker::Worker;
use pauseframe_units::{IndexVec, NodeId, PortId};
use std::sync::Arc;

/// The number of the partition of each node.
pub(crate) type PartitionOf = IndexVec<NodeId, u16>;

/// All partitions, while none of them runs.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) workers: &'a [Box<Worker>],
    pub(crate) partition_of: &'a PartitionOf,
}

impl<'a> View<'a> {
    /// The partition of a node.
    pub(crate) fn partition(&self, node: NodeId) -> &'a Partition {
        &self.workers[usize::from(self.partition_of[node])].partition
    }

    /// The partition of the node that sends by `port`: its queues, and the pauses that it obeys.
    pub(crate) fn sender(&self, port: PortId) -> &'a Partition {
        self.partition(self.plan.topology.owner(port))
    }

    /// The partition of the node at the other end: its account, and the pauses that it asks for.
    pub(crate) fn receiver(&self, port: PortId) -> &'a Partition {
        self.partition(self.plan.topology.peer(port))
    }

    /// What both ends of a link have counted of what one of them sends.
    pub(crate) fn counters(&self, port: PortId, slot: SlotId) -> Counters {
        let (sender, receiver) = (self.sender(port), self.receiver(port));
        let own = sender.ports.counters.of(slot);
        if std::ptr::eq(sender, receiver) { own } else { own.joined(&receiver.ports.counters.of(slot)) }
    }

    /// What the node at the other end of `port` holds of what came by one of its slots; nothing where it keeps no account.
    pub(crate) fn account(&self, port: PortId, slot: SlotId) -> Account {
        self.receiver(port).ports.ingress.accounts.get(slot).copied().unwrap_or_default()
    }

    /// The rule of its shared pool for what comes to a switch by a slot of `port`.
    pub(crate) fn shared_limits(&self, port: PortId, slot: SlotId) -> SharedLimits {
        let policy = &self.plan.policies[usize::from(self.plan.port_and_class(slot).1)];
        SharedLimits::of(policy, &self.account(port, slot))
    }
}
