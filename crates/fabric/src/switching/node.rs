//! Access of a switch to its state while it handles an event: its ports (`wire/own.rs`), its own state and the tables of all switches.

use super::cnm::QueueCongestionPoint;
use super::paths::PathTable;
use super::pool::{SharedBufferPool, SharedHeadroom};
use super::tunnel_state::Tunnels;
use super::vlan::SwitchVlanTables;
use super::{PartitionSwitches, Switch};
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::ids::SwitchId;
use crate::marker::{Marker, MarkerState};
use crate::path_hash::PathHash;
use crate::queue::TimedDiscipline;
use crate::wire::own::{BorrowedNodePorts, EgressQueueToken};
use crate::wire::slot::EgressQueue;
use pauseframe_routing::NextHops;

/// The borrow of one switch of a partition.
#[derive(Debug)]
pub(crate) struct BorrowedSwitch<'n> {
    pub(super) ports: BorrowedNodePorts<'n>,
    all: &'n mut PartitionSwitches,
}

impl<'n> BorrowedSwitch<'n> {
    /// Borrows the switch that owns `ports`.
    #[inline(always)]
    pub(crate) fn new(ports: BorrowedNodePorts<'n>, all: &'n mut PartitionSwitches) -> BorrowedSwitch<'n> {
        assert!(ports.owner_node().is_switch(), "a host is no switch");
        BorrowedSwitch { ports, all }
    }

    /// Reborrows for an out-of-line call, so that the original borrow can stay in registers.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> BorrowedSwitch<'_> {
        BorrowedSwitch { ports: self.ports.reborrow(), all: self.all }
    }

    pub(super) fn switch_id(&self) -> SwitchId {
        self.ports.owner_node().as_switch().expect("its ports are those of a switch")
    }

    pub(super) fn switch_state(&self) -> &Switch {
        &self.all.switches[self.switch_id()]
    }

    /// The shared pool of a class.
    pub(super) fn shared_pool_mut(&mut self, class: u8, ctx: &Context) -> &mut SharedBufferPool {
        let id = self.switch_id();
        &mut self.all.switches[id].pools[ctx.hot.pool_index(class)]
    }

    /// The shared headroom of its lossless ingresses.
    pub(super) fn shared_headroom_mut(&mut self) -> &mut SharedHeadroom {
        let id = self.switch_id();
        &mut self.all.switches[id].headroom
    }

    /// The table of paths, and the tunnels if there are any.
    pub(super) fn paths_and_tunnels(&mut self) -> (&PathTable, Option<&mut Tunnels>) {
        (&self.all.paths, self.all.tunnels.as_deref_mut())
    }

    /// The current routes, and the switch with its random generator.
    pub(super) fn routes_and_switch(&mut self) -> (&NextHops, &mut Switch) {
        let id = self.switch_id();
        (&self.all.routes, &mut self.all.switches[id])
    }

    /// The marker of a class, and its state for a queue.
    pub(super) fn marker_and_state(
        &mut self,
        class: u8,
        slot: EgressQueueToken,
    ) -> (&Marker, &mut MarkerState) {
        let PartitionSwitches { policies, markers, memories, .. } = &mut *self.all;
        let marker = markers.get(slot.slot_id()).unwrap_or(&policies[usize::from(class)].marker);
        (marker, &mut memories[slot.slot_id()])
    }

    /// A queue, with the state of its discipline if that has one.
    pub(super) fn queue_and_discipline(
        &mut self,
        slot: EgressQueueToken,
    ) -> Option<(&mut EgressQueue, &mut dyn TimedDiscipline)> {
        if self.all.timed.is_empty() {
            return None;
        }
        let discipline = self.all.timed[slot.slot_id()].discipline_mut()?;
        Some((self.ports.egress_queue_mut(slot), discipline))
    }

    /// The congestion point of a queue.
    pub(super) fn congestion_point_mut(
        &mut self,
        slot: EgressQueueToken,
    ) -> Option<QueueCongestionPoint<'_>> {
        self.all.points.as_deref_mut().map(|points| points.congestion_point(slot.slot_id()))
    }
}

/// Read-only tables of all switches.
impl BorrowedSwitch<'_> {
    #[inline(always)]
    pub(super) fn class_policy(&self, class: u8) -> &ClassPolicy {
        &self.all.policies[usize::from(class)]
    }

    #[inline(always)]
    pub(super) fn path_table(&self) -> &PathTable {
        &self.all.paths
    }

    pub(super) fn current_routes(&self) -> &NextHops {
        &self.all.routes
    }

    pub(super) fn packet_hash(&self) -> Option<&PathHash> {
        self.all.packet_hash.as_deref()
    }

    pub(super) fn vlan_tables(&self) -> Option<&SwitchVlanTables> {
        self.all.vlans.as_deref()
    }
}
