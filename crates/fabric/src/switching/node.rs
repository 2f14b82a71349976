//! Access of a switch to its state while it handles an event: its ports (`wire/own.rs`), its own state and the tables of all switches.

use super::cnm::QueueCongestionPoint;
use super::paths::Paths;
use super::pool::{SharedHeadroom, SharedPool};
use super::vlan::VlanTables;
use super::{Switch, Switching};
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::ids::SwitchId;
use crate::marker::{Marker, MarkerState};
use crate::wire::own::{NodePorts, OwnSlot};
use pauseframe_routing::NextHops;

/// The borrow of one switch of a partition.
#[derive(Debug)]
pub(crate) struct SwitchNode<'n> {
    pub(super) ports: NodePorts<'n>,
    all: &'n mut Switching,
}

impl<'n> SwitchNode<'n> {
    /// Borrows the switch that owns `ports`.
    #[inline(always)]
    pub(crate) fn new(ports: NodePorts<'n>, all: &'n mut Switching) -> SwitchNode<'n> {
        assert!(ports.node().is_switch(), "a host is no switch");
        SwitchNode { ports, all }
    }

    /// Reborrows for an out-of-line call, so that the original borrow can stay in registers.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> SwitchNode<'_> {
        SwitchNode { ports: self.ports.reborrow(), all: self.all }
    }

    pub(super) fn id(&self) -> SwitchId {
        self.ports.node().as_switch().expect("its ports are those of a switch")
    }

    pub(super) fn switch(&self) -> &Switch {
        &self.all.switches[self.id()]
    }

    /// The shared pool of a class.
    pub(super) fn pool(&mut self, class: u8, ctx: &Context) -> &mut SharedPool {
        let id = self.id();
        &mut self.all.switches[id].pools[ctx.hot.buffer_pool_of_class(class)]
    }

    /// The shared headroom of its lossless ingresses.
    pub(super) fn headroom(&mut self) -> &mut SharedHeadroom {
        let id = self.id();
        &mut self.all.switches[id].headroom
    }

    /// The current routes, and the switch with its random generator.
    pub(super) fn routes_and_switch(&mut self) -> (&NextHops, &mut Switch) {
        let id = self.id();
        (&self.all.routes, &mut self.all.switches[id])
    }

    /// The marker of a class, and its state for a queue.
    pub(super) fn marker_and_state(&mut self, class: u8, slot: OwnSlot) -> (&Marker, &mut MarkerState) {
        let Switching { policies, markers, memories, .. } = &mut *self.all;
        let marker = markers.get(slot.id()).unwrap_or(&policies[usize::from(class)].marker);
        (marker, &mut memories[slot.id()])
    }

    /// The congestion point of a queue.
    pub(super) fn congestion_point(&mut self, slot: OwnSlot) -> Option<QueueCongestionPoint<'_>> {
        self.all.points.as_deref_mut().map(|points| points.for_queue(slot.id()))
    }
}

/// Read-only tables of all switches.
impl SwitchNode<'_> {
    #[inline(always)]
    pub(super) fn policy(&self, class: u8) -> &ClassPolicy {
        &self.all.policies[usize::from(class)]
    }

    #[inline(always)]
    pub(super) fn paths(&self) -> &Paths {
        &self.all.paths
    }

    pub(super) fn routes(&self) -> &NextHops {
        &self.all.routes
    }

    pub(super) fn vlans(&self) -> Option<&VlanTables> {
        self.all.vlans.as_deref()
    }
}
