//! What those who watch see: all cells between two windows, and which of them has what.

use crate::cell::Cell;
use crate::ids::{SlotId, SwitchId};
use crate::plan::Plan;
use crate::room::Room;
use crate::wire::counters::Counters;
use crate::wire::ingress::Account;
use pauseframe_units::{IndexVec, NodeId, PortId};
use std::sync::Arc;

/// The number of the cell of each node.
pub(crate) type CellOf = IndexVec<NodeId, u16>;

/// All cells, while none of them runs.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) rooms: &'a [Box<Room>],
    pub(crate) cell_of: &'a CellOf,
}

impl<'a> View<'a> {
    /// The cell of a node.
    pub(crate) fn cell(&self, node: NodeId) -> &'a Cell {
        &self.rooms[usize::from(self.cell_of[node])].cell
    }

    /// The cell of the node that sends by `port`: its queues, and the pauses that it obeys.
    pub(crate) fn sender(&self, port: PortId) -> &'a Cell {
        self.cell(self.plan.topology.owner(port))
    }

    /// The cell of the node at the other end: its account, and the pauses that it asks for.
    pub(crate) fn receiver(&self, port: PortId) -> &'a Cell {
        self.cell(self.plan.topology.peer(port))
    }

    /// What both ends of a link have counted of what one of them sends.
    pub(crate) fn counters(&self, port: PortId, slot: SlotId) -> Counters {
        let (sender, receiver) = (self.sender(port), self.receiver(port));
        let own = sender.ports.counters.of(slot);
        if std::ptr::eq(sender, receiver) { own } else { own.joined(&receiver.ports.counters.of(slot)) }
    }

    /// What the node at the other end of `port` holds of what came by one of its slots; nothing where it keeps no account.
    pub(crate) fn account(&self, port: PortId, slot: SlotId) -> Account {
        let Cell { ports, switching, endpoints, .. } = self.receiver(port);
        let is_switch = ports.ports[port].to_switch != SwitchId::NONE;
        let ingress = if is_switch { &switching.ingress } else { &endpoints.ingress };
        ingress.accounts.get(slot).copied().unwrap_or_default()
    }
}
