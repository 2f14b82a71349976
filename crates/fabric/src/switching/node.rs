//! What a switch has in hand while it handles an event: its ports (`wire/own.rs`), what is its own beside them, and what all switches
//! read.

use super::cnm::PointOfQueue;
use super::paths::Paths;
use super::pool::{Pool, SharedHeadroom};
use super::vlan::VlanTables;
use super::{Switch, Switching};
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::ids::SwitchId;
use crate::marker::{Marker, Memory};
use crate::wire::own::{NodePorts, OwnSlot};
use pauseframe_topology::routing::NextHops;

/// One switch of a partition.
#[derive(Debug)]
pub(crate) struct SwitchNode<'n> {
    pub(super) ports: NodePorts<'n>,
    all: &'n mut Switching,
}

impl<'n> SwitchNode<'n> {
    /// The switch whose ports these are, among those of its partition.
    #[inline(always)]
    pub(crate) fn of(ports: NodePorts<'n>, all: &'n mut Switching) -> SwitchNode<'n> {
        assert!(ports.node().is_switch(), "a host is no switch");
        SwitchNode { ports, all }
    }

    /// The same, for what is called out of line: then the borrow in hand can stay in registers.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> SwitchNode<'_> {
        SwitchNode { ports: self.ports.reborrow(), all: self.all }
    }

    pub(super) fn id(&self) -> SwitchId {
        self.ports.node().switch().expect("its ports are those of a switch")
    }

    pub(super) fn switch(&self) -> &Switch {
        &self.all.switches[self.id()]
    }

    /// The part of its buffer that a class shares in.
    pub(super) fn pool(&mut self, class: u8, ctx: &Context) -> &mut Pool {
        let id = self.id();
        &mut self.all.switches[id].pools[ctx.hot.pool_of(class)]
    }

    /// The headroom of its lossless ingresses.
    pub(super) fn headroom(&mut self) -> &mut SharedHeadroom {
        let id = self.id();
        &mut self.all.switches[id].headroom
    }

    /// The routes of the moment, and the switch, to draw one of them.
    pub(super) fn routes_and_switch(&mut self) -> (&NextHops, &mut Switch) {
        let id = self.id();
        (&self.all.routes, &mut self.all.switches[id])
    }

    /// The marker of a class, and what it remembers of a queue.
    pub(super) fn marker(&mut self, class: u8, slot: OwnSlot) -> (&Marker, &mut Memory) {
        let Switching { policies, markers, memories, .. } = &mut *self.all;
        let marker = markers.get(slot.id()).unwrap_or(&policies[usize::from(class)].marker);
        (marker, &mut memories[slot.id()])
    }

    /// The congestion point of a queue.
    pub(super) fn congestion_point(&mut self, slot: OwnSlot) -> Option<PointOfQueue<'_>> {
        self.all.points.as_deref_mut().map(|points| points.of_queue(slot.id()))
    }
}

/// What all switches read and none writes.
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
