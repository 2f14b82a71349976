//! What a node has in hand while it handles an event: its own ports, and no other's.
//!
//! The ports of all nodes of a partition lie in the same arenas, by numbers of the whole network. A handler never has these arenas. It has
//! [`NodePorts`], the borrow of one node, which gives out what belongs to a port, a link or a queue for a token alone; a token is made here
//! alone, after a look at whose the port is, in every build; and it lives no longer than the borrow. So a token cannot be kept until the
//! next node has its turn, and a number that leads elsewhere ends the run before anything is touched.
//!
//! Only `partitioning.rs`, and the network between two windows, make such a borrow: it takes the ports of the whole partition.

use super::counters::{Counters, Received, SwitchCounters};
use super::damage::ErroneousLink;
use super::ingress::{Account, PauseRequester};
use super::jitter::JitteredLink;
use super::paused::{PauseState, PendingPause};
use super::port::{LOCAL, Port};
use super::scheduler::{Ets, Turns};
use super::slot::Slot;
use super::watched::{Watchdogs, Watched};
use super::{Ports, counters::Amount};
use crate::context::Context;
use crate::frame::{Fifo, PacketId};
use crate::hot::Hot;
use crate::ids::{Owner, SlotId};
use crate::settings::Watchdog;
use pauseframe_rdma::cc::hpcc::{Hop, Quantum};
use pauseframe_units::{PortId, Time};
use std::collections::VecDeque;
use std::marker::PhantomData;

/// The ports of one node.
#[derive(Debug)]
pub(crate) struct NodePorts<'n> {
    all: &'n mut Ports,
    node: Owner,
}

/// A port that the node in hand sends by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnPort<'n>(PortId, PhantomData<&'n ()>);

/// A link that frames come by to the node in hand, named by the port that sends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InPort<'n>(PortId, PhantomData<&'n ()>);

/// A class of a port that the node in hand sends by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnSlot<'n>(SlotId, PhantomData<&'n ()>);

/// A class of a link that frames come by to the node in hand, by its number at the port that sends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InSlot<'n>(SlotId, PhantomData<&'n ()>);

impl<'n> OwnPort<'n> {
    #[inline(always)]
    pub(crate) fn id(self) -> PortId {
        self.0
    }

    /// What comes the other way on the same link comes to the node that sends by this port.
    #[inline(always)]
    pub(crate) fn reverse(self) -> InPort<'n> {
        InPort(self.0.reverse(), PhantomData)
    }

    /// The queue of a class: one of this port, whatever the class.
    #[inline(always)]
    pub(crate) fn slot(self, class: u8, hot: &Hot) -> OwnSlot<'n> {
        OwnSlot(hot.slot_within(self.0, class), PhantomData)
    }
}

impl<'n> InPort<'n> {
    #[inline(always)]
    pub(crate) fn id(self) -> PortId {
        self.0
    }

    /// The port by which the node answers.
    #[inline(always)]
    pub(crate) fn reverse(self) -> OwnPort<'n> {
        OwnPort(self.0.reverse(), PhantomData)
    }

    /// What comes in a class.
    #[inline(always)]
    pub(crate) fn slot(self, class: u8, hot: &Hot) -> InSlot<'n> {
        InSlot(hot.slot_within(self.0, class), PhantomData)
    }
}

impl OwnSlot<'_> {
    #[inline(always)]
    pub(crate) fn id(self) -> SlotId {
        self.0
    }
}

impl<'n> InSlot<'n> {
    #[inline(always)]
    pub(crate) fn id(self) -> SlotId {
        self.0
    }

    /// The link and the class.
    pub(crate) fn port_and_class(self, hot: &Hot) -> (InPort<'n>, u8) {
        let (port, class) = hot.port_and_class(self.0);
        (InPort(port, PhantomData), class)
    }
}

/// Tokens.
impl<'n> NodePorts<'n> {
    /// Those of `node`, whoever that is.
    #[inline(always)]
    pub(crate) fn of(all: &'n mut Ports, node: Owner) -> NodePorts<'n> {
        NodePorts { all, node }
    }

    /// The same, for what is called out of line: then the borrow in hand can stay in registers.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> NodePorts<'_> {
        NodePorts { all: self.all, node: self.node }
    }

    /// Whose ports these are.
    #[inline(always)]
    pub(crate) fn node(&self) -> Owner {
        self.node
    }

    /// A port that the node sends by.
    ///
    /// # Panics
    /// If it is another's.
    #[inline(always)]
    pub(crate) fn own(&self, port: PortId, ctx: &Context) -> OwnPort<'n> {
        if self.all.ports.get(port).is_none_or(|state| state.from != self.node) {
            ctx.plan.wrong_owner(self.node, port);
        }
        OwnPort(port, PhantomData)
    }

    /// A link that ends at the node.
    ///
    /// # Panics
    /// If it ends elsewhere.
    #[inline(always)]
    pub(crate) fn incoming(&self, port: PortId, ctx: &Context) -> InPort<'n> {
        if self.all.ports.get(port).is_none_or(|state| state.to != self.node) {
            ctx.plan.wrong_owner(self.node, port);
        }
        InPort(port, PhantomData)
    }

    /// The account of what came by `port` in a class, which says itself whose it is.
    ///
    /// # Panics
    /// If it is another's.
    #[inline(always)]
    pub(crate) fn account_of(&self, port: PortId, class: u8, ctx: &Context) -> InSlot<'n> {
        let slot = ctx.hot.slot_within(port, class);
        if self.all.ingress.accounts.get(slot).is_none_or(|account| account.node != self.node) {
            ctx.plan.wrong_owner(self.node, port.reverse());
        }
        InSlot(slot, PhantomData)
    }
}

/// What is the node's.
impl NodePorts<'_> {
    #[inline(always)]
    pub(crate) fn port(&self, port: OwnPort) -> &Port {
        &self.all.ports[port.0]
    }

    #[inline(always)]
    pub(crate) fn port_mut(&mut self, port: OwnPort) -> &mut Port {
        &mut self.all.ports[port.0]
    }

    #[inline(always)]
    pub(crate) fn slot(&self, slot: OwnSlot) -> &Slot {
        &self.all.slots[slot.0]
    }

    #[inline(always)]
    pub(crate) fn slot_mut(&mut self, slot: OwnSlot) -> &mut Slot {
        &mut self.all.slots[slot.0]
    }

    /// Both at once.
    #[inline(always)]
    pub(crate) fn port_and_slot(&mut self, port: OwnPort, slot: OwnSlot) -> (&mut Port, &mut Slot) {
        (&mut self.all.ports[port.0], &mut self.all.slots[slot.0])
    }

    /// Both at once, and what is counted of the node over all its queues, if it is a switch.
    #[inline(always)]
    pub(super) fn queue(
        &mut self,
        port: OwnPort,
        slot: OwnSlot,
    ) -> (&mut Port, &mut Slot, Option<&mut SwitchCounters>) {
        let Ports { ports, slots, by_switch, .. } = &mut *self.all;
        let switch = self.node.switch().map(|switch| &mut by_switch[switch]);
        (&mut ports[port.0], &mut slots[slot.0], switch)
    }

    /// The last of these alone.
    #[inline(always)]
    pub(super) fn of_switch(&mut self) -> Option<&mut SwitchCounters> {
        self.node.switch().map(|switch| &mut self.all.by_switch[switch])
    }

    /// What is counted of a queue on rare events.
    pub(crate) fn counters(&mut self, slot: OwnSlot) -> &mut Counters {
        self.all.counters.rare(slot.0)
    }

    /// A packet of a queue has been marked.
    #[inline]
    pub(crate) fn count_mark(&mut self, slot: OwnSlot) {
        self.all.counters.mark(slot.0);
    }

    /// What this end of a link counts of what the other one sends.
    pub(super) fn received(&mut self, slot: InSlot) -> &mut Received {
        self.all.counters.received(slot.0)
    }

    pub(super) fn lost_on_wire(&mut self, port: InPort) -> &mut Amount {
        &mut self.all.errors.lost_on_wire[port.0.0 as usize]
    }

    pub(super) fn count_syn_drop(&mut self) {
        self.all.syn_drops_not_ect += 1;
    }

    /// What a queue knows of the pauses that it must obey.
    pub(crate) fn pause(&mut self, slot: OwnSlot) -> &mut PauseState {
        &mut self.all.pauses[slot.0]
    }

    /// Whether classes can be paused at all.
    pub(super) fn can_pause(&self) -> bool {
        !self.all.pauses.is_empty()
    }

    /// Pause frames that wait for the reaction time.
    pub(super) fn pending_pauses(&mut self, port: OwnPort) -> &mut VecDeque<PendingPause> {
        &mut self.all.pending_pauses[port.0]
    }

    /// Pause frames that wait for the frame in service.
    pub(super) fn waiting_pauses(&mut self, port: OwnPort) -> &mut Fifo {
        &mut self.all.waiting_pauses[port.0]
    }

    /// The watchdog of a queue, if there are any.
    pub(crate) fn watchdog(&mut self, slot: OwnSlot) -> Option<(Watchdog, &mut Watched)> {
        let Watchdogs { settings, slots } = &mut self.all.watchdogs;
        settings.map(|settings| (settings, &mut slots[slot.0]))
    }

    /// With ETS: its rules, and where a port stands in its round.
    pub(super) fn turns(&mut self, port: OwnPort) -> Option<(&Ets, &mut Turns)> {
        self.all.ets.as_ref().map(|ets| (ets, &mut self.all.turns[port.0]))
    }

    /// What the node holds of what came by a link, and what it knows of the pauses that it asks for there.
    #[inline(always)]
    pub(crate) fn account(&self, slot: InSlot) -> &Account {
        &self.all.ingress.accounts[slot.0]
    }

    #[inline(always)]
    pub(crate) fn account_mut(&mut self, slot: InSlot) -> &mut Account {
        &mut self.all.ingress.accounts[slot.0]
    }

    pub(super) fn pause_requester(&mut self, slot: InSlot) -> &mut PauseRequester {
        &mut self.all.ingress.pause_requesters[slot.0]
    }

    /// Whether the node has accounts at all.
    pub(super) fn has_accounts(&self) -> bool {
        !self.all.ingress.accounts.is_empty()
    }

    /// The frames on a wire to the node.
    pub(super) fn in_flight_frames(&self, port: InPort) -> Fifo {
        self.all.ports[port.0].in_flight
    }

    /// When the frame in service was to be over, as the link failed.
    pub(super) fn cut(&mut self, port: OwnPort) -> &mut Time {
        &mut self.all.errors.cut[port.0.0 as usize]
    }

    /// Whether the wire ends in another partition.
    pub(super) fn is_cross_partition(&self, port: OwnPort) -> bool {
        self.port(port).remote != LOCAL
    }

    /// A copy of a frame that goes on the wire leaves for the partition where that ends, with its options.
    pub(super) fn send_to_partition(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        let to = self.port(port).remote;
        let Ports { boundary, capture, .. } = &mut *self.all;
        let outbox = boundary.send(to, ctx.packets[index].at);
        let packet = ctx.packets.part_with(index, &mut outbox.options, &mut outbox.telemetries);
        outbox.push(port.0, packet);
        if capture.is_on() {
            outbox.written.push(capture.has_written(index));
        }
    }

    /// What telemetry says of the port as a frame of a class leaves it.
    pub(super) fn hop_telemetry(&self, port: OwnPort, class: u8, quantum: Quantum, ctx: &Context) -> Hop {
        let (state, slot) = (self.port(port), self.slot(port.slot(class, &ctx.hot)));
        quantum.stamp(state.rate.rate().0, slot.backlog, state.tx_bytes, ctx.now().0 / 1000)
    }

    /// How unsteady the wire is, if it is.
    pub(super) fn jittered_link(&mut self, port: OwnPort) -> Option<&mut JitteredLink> {
        let Port { from, to, .. } = self.all.ports[port.0];
        self.all.jittered_link.between(from, to)
    }

    /// How bad the wire is, if it is.
    pub(super) fn erroneous_link(&mut self, port: OwnPort) -> Option<&mut ErroneousLink> {
        self.all.errors.of_port.get_mut(port.0.0 as usize)?.as_mut()
    }

    /// Shows a frame that goes on the wire to who captures.
    pub(super) fn capture(&mut self, port: OwnPort, index: PacketId, ctx: &Context) {
        self.all.capture.take(port.0, !self.node.is_switch(), index, ctx);
    }
}
