//! Access of a node to its own ports, and to no others, while it handles an event.
//!
//! The ports of all nodes of a partition share arrays, indexed by numbers of the whole network. A handler cannot reach these arrays. It has
//! [`BorrowedNodePorts`], the borrow of one node, which requires a token for every port, link or queue. Only this file creates tokens, after checking the
//! owner in every build, and a token lives no longer than the borrow. So a token cannot be kept for the next node, and a wrong number ends the run
//! before any state changes. A port's token names both directions of its link.
//!
//! Only `partition.rs`, and the network between two windows, create such a borrow, because it takes the ports of the whole partition.

use super::counters::{QueueCounters, QueueCountersKeptForPeer, SwitchCounters};
use super::damage::ErroneousLink;
use super::ingress::{IngressAccount, PauseRequestState};
use super::jitter::JitteredLink;
use super::paused::{PauseFrameInReactionTime, PauseState};
use super::port::{LOCAL_PARTITION, Port};
use super::scheduler::{DrrState, EtsScheduler};
use super::slot::EgressQueue;
use super::watched::{QueueWatchdog, QueueWatchdogs};
use super::{PartitionPorts, counters::PacketsAndBytes};
use crate::context::Context;
use crate::frame::telemetry::TelemetryStamper;
use crate::frame::{PacketFifo, PacketId};
use crate::hot::HotPathSettings;
use crate::ids::{PackedNodeId, SlotId};
use crate::settings::PfcWatchdogSettings;
use pauseframe_rdma::cc::hpcc::Hop;
use pauseframe_units::{PortId, Time};
use std::collections::VecDeque;
use std::marker::PhantomData;

/// The borrow of one node's ports.
#[derive(Debug)]
pub(crate) struct BorrowedNodePorts<'n> {
    all: &'n mut PartitionPorts,
    node: PackedNodeId,
}

/// Token of a port of the borrowed node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortToken<'n>(PortId, PhantomData<&'n ()>);

/// Token of a class of a port that the borrowed node sends by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EgressQueueToken<'n>(SlotId, PhantomData<&'n ()>);

/// Token of a class of a link that ends at the borrowed node, named by the slot of its sending port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IngressQueueToken<'n>(SlotId, PhantomData<&'n ()>);

impl<'n> PortToken<'n> {
    #[inline(always)]
    pub(crate) fn port_id(self) -> PortId {
        self.0
    }

    /// The port at the other end of the link, which names what arrives.
    #[inline(always)]
    pub(crate) fn peer_port_id(self) -> PortId {
        self.0.reverse()
    }

    /// The queue of a class. The class is masked, so the slot always belongs to this port.
    #[inline(always)]
    pub(crate) fn egress_token(self, class: u8, hot: &HotPathSettings) -> EgressQueueToken<'n> {
        EgressQueueToken(hot.masked_slot(self.0, class), PhantomData)
    }

    /// The slot of a class in which packets arrive by this port.
    #[inline(always)]
    pub(crate) fn ingress_token(self, class: u8, hot: &HotPathSettings) -> IngressQueueToken<'n> {
        IngressQueueToken(hot.masked_slot(self.peer_port_id(), class), PhantomData)
    }
}

impl EgressQueueToken<'_> {
    #[inline(always)]
    pub(crate) fn slot_id(self) -> SlotId {
        self.0
    }
}

impl<'n> IngressQueueToken<'n> {
    #[inline(always)]
    pub(crate) fn slot_id(self) -> SlotId {
        self.0
    }

    /// The port that packets arrive by, and the class.
    pub(crate) fn port_and_class(self, hot: &HotPathSettings) -> (PortToken<'n>, u8) {
        let (peer, class) = hot.port_and_class(self.0);
        (PortToken(peer.reverse(), PhantomData), class)
    }
}

/// Tokens.
impl<'n> BorrowedNodePorts<'n> {
    /// Borrows the node that sends by a port, with the token of the port.
    #[inline(always)]
    pub(crate) fn borrow_sender(
        all: &'n mut PartitionPorts,
        port: PortId,
    ) -> (BorrowedNodePorts<'n>, PortToken<'n>) {
        let node = all.ports[port].from;
        (BorrowedNodePorts { all, node }, PortToken(port, PhantomData))
    }

    /// Borrows the node that receives from a port, with the token of its port on the same link.
    #[inline(always)]
    pub(crate) fn borrow_receiver(
        all: &'n mut PartitionPorts,
        port: PortId,
    ) -> (BorrowedNodePorts<'n>, PortToken<'n>) {
        let node = all.ports[port].to;
        (BorrowedNodePorts { all, node }, PortToken(port.reverse(), PhantomData))
    }

    /// Reborrows for an out-of-line call, so that the original borrow can stay in registers.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> BorrowedNodePorts<'_> {
        BorrowedNodePorts { all: self.all, node: self.node }
    }

    /// The node that owns these ports.
    #[inline(always)]
    pub(crate) fn owner_node(&self) -> PackedNodeId {
        self.node
    }

    /// The token of a port of the node.
    ///
    /// # Panics
    /// If it belongs to another node.
    #[inline(always)]
    pub(crate) fn port_token(&self, port: PortId, ctx: &Context) -> PortToken<'n> {
        if self.all.ports.get(port).is_none_or(|state| state.from != self.node) {
            ctx.plan.panic_wrong_owner(self.node, port);
        }
        PortToken(port, PhantomData)
    }

    /// The ingress slot of `port` in a class; the account itself names its owner.
    ///
    /// # Panics
    /// If it belongs to another node.
    #[inline(always)]
    pub(crate) fn checked_ingress_token(
        &self,
        port: PortId,
        class: u8,
        ctx: &Context,
    ) -> IngressQueueToken<'n> {
        let slot = ctx.hot.masked_slot(port, class);
        if self.all.ingress.accounts.get(slot).is_none_or(|account| account.node != self.node) {
            ctx.plan.panic_wrong_owner(self.node, port.reverse());
        }
        IngressQueueToken(slot, PhantomData)
    }
}

/// State of the node.
impl BorrowedNodePorts<'_> {
    #[inline(always)]
    pub(crate) fn port_state(&self, port: PortToken) -> &Port {
        &self.all.ports[port.0]
    }

    #[inline(always)]
    pub(crate) fn port_state_mut(&mut self, port: PortToken) -> &mut Port {
        &mut self.all.ports[port.0]
    }

    #[inline(always)]
    pub(crate) fn egress_queue(&self, slot: EgressQueueToken) -> &EgressQueue {
        &self.all.slots[slot.0]
    }

    #[inline(always)]
    pub(crate) fn egress_queue_mut(&mut self, slot: EgressQueueToken) -> &mut EgressQueue {
        &mut self.all.slots[slot.0]
    }

    /// Borrows both.
    #[inline(always)]
    pub(crate) fn port_and_queue(
        &mut self,
        port: PortToken,
        slot: EgressQueueToken,
    ) -> (&mut Port, &mut EgressQueue) {
        (&mut self.all.ports[port.0], &mut self.all.slots[slot.0])
    }

    /// Borrows port, slot and, for a switch, its switch-wide counters.
    #[inline(always)]
    pub(super) fn split_mut(
        &mut self,
        port: PortToken,
        slot: EgressQueueToken,
    ) -> (&mut Port, &mut EgressQueue, Option<&mut SwitchCounters>) {
        let PartitionPorts { ports, slots, by_switch, .. } = &mut *self.all;
        let switch = self.node.as_switch().map(|switch| &mut by_switch[switch]);
        (&mut ports[port.0], &mut slots[slot.0], switch)
    }

    /// The switch-wide counters only.
    #[inline(always)]
    pub(super) fn switch_counters_mut(&mut self) -> Option<&mut SwitchCounters> {
        self.node.as_switch().map(|switch| &mut self.all.by_switch[switch])
    }

    /// The rare-event counters of a queue.
    pub(crate) fn rare_counters_mut(&mut self, slot: EgressQueueToken) -> &mut QueueCounters {
        self.all.counters.rare_counters(slot.0)
    }

    /// Counts a marked packet of a queue.
    #[inline]
    pub(crate) fn count_marked(&mut self, slot: EgressQueueToken, now: Time) {
        self.all.counters.count_marked(slot.0, now);
    }

    /// Takes the mark back of a packet that joined a queue at `joined`, if it was marked then.
    pub(crate) fn take_mark_back(&mut self, slot: EgressQueueToken, joined: Time) -> bool {
        self.all.counters.take_mark_back(slot.0, joined)
    }

    /// Counters that this node keeps for the sending end of a link.
    pub(super) fn counters_for_peer_mut(&mut self, slot: IngressQueueToken) -> &mut QueueCountersKeptForPeer {
        self.all.counters.counters_for_peer(slot.0)
    }

    pub(super) fn lost_on_wire(&mut self, port: PortToken) -> &mut PacketsAndBytes {
        &mut self.all.errors.lost_on_wire[port.peer_port_id().0 as usize]
    }

    pub(super) fn count_not_ect_syn(&mut self) {
        self.all.syn_drops_not_ect += 1;
    }

    /// The pause state of a queue.
    pub(crate) fn pause_state_mut(&mut self, slot: EgressQueueToken) -> &mut PauseState {
        &mut self.all.pauses[slot.0]
    }

    /// Whether classes can be paused at all.
    pub(super) fn can_pause(&self) -> bool {
        !self.all.pauses.is_empty()
    }

    /// Pause frames that wait for the reaction time.
    pub(super) fn pauses_in_reaction_mut(
        &mut self,
        port: PortToken,
    ) -> &mut VecDeque<PauseFrameInReactionTime> {
        &mut self.all.pending_pauses[port.0]
    }

    /// Pause frames that wait for the frame in service.
    pub(super) fn unsent_pauses_mut(&mut self, port: PortToken) -> &mut PacketFifo {
        &mut self.all.waiting_pauses[port.0]
    }

    /// The watchdog of a queue, if it has one.
    pub(crate) fn queue_watchdog_mut(
        &mut self,
        slot: EgressQueueToken,
    ) -> Option<(PfcWatchdogSettings, &mut QueueWatchdog)> {
        let QueueWatchdogs { settings, slots } = &mut self.all.watchdogs;
        settings.map(|settings| (settings, &mut slots[slot.0]))
    }

    /// The ETS scheduler and the port's round-robin state, if ETS is on.
    pub(super) fn ets_and_drr(&mut self, port: PortToken) -> Option<(&EtsScheduler, &mut DrrState)> {
        self.all.ets.as_ref().map(|ets| (ets, &mut self.all.turns[port.0]))
    }

    /// The ingress account of a slot.
    #[inline(always)]
    pub(crate) fn ingress_account(&self, slot: IngressQueueToken) -> &IngressAccount {
        &self.all.ingress.accounts[slot.0]
    }

    #[inline(always)]
    pub(crate) fn ingress_account_mut(&mut self, slot: IngressQueueToken) -> &mut IngressAccount {
        &mut self.all.ingress.accounts[slot.0]
    }

    pub(super) fn pause_request_mut(&mut self, slot: IngressQueueToken) -> &mut PauseRequestState {
        &mut self.all.ingress.pause_requesters[slot.0]
    }

    /// Whether ingress accounts exist.
    pub(super) fn has_ingress_accounts(&self) -> bool {
        !self.all.ingress.accounts.is_empty()
    }

    /// The frames on a wire to the node.
    pub(super) fn in_flight_frames(&self, port: PortToken) -> PacketFifo {
        self.all.ports[port.peer_port_id()].in_flight
    }

    /// When the frame in service would have ended if the link had not failed.
    pub(super) fn cut_frame_end_mut(&mut self, port: PortToken) -> &mut Time {
        &mut self.all.errors.cut[port.0.0 as usize]
    }

    /// Whether the link ends in another partition.
    pub(super) fn is_cross_partition(&self, port: PortToken) -> bool {
        self.port_state(port).peer_partition != LOCAL_PARTITION
    }

    /// Sends a copy of a frame with its options to the partition where the link ends.
    pub(super) fn send_to_partition(&mut self, port: PortToken, index: PacketId, ctx: &mut Context) {
        let to = self.port_state(port).peer_partition;
        let PartitionPorts { boundary, capture, .. } = &mut *self.all;
        let outbox = boundary.outbox_for_arrival(to, ctx.packets[index].at);
        let packet = ctx.packets.export_packet(index, &mut outbox.options, &mut outbox.telemetries);
        outbox.push(port.0, packet);
        if ctx.hot.conweave {
            outbox.path_tags.push(ctx.packets.path_tag(index));
        }
        if capture.is_enabled() {
            outbox.written.push(capture.was_captured(index));
        }
    }

    /// Telemetry of the port at the departure of a frame.
    #[inline(always)]
    pub(super) fn port_telemetry(
        &self,
        port: PortToken,
        class: u8,
        stamper: TelemetryStamper,
        ctx: &Context,
    ) -> Hop {
        let (state, slot) = (self.port_state(port), self.egress_queue(port.egress_token(class, &ctx.hot)));
        stamper.build_hop(state.rate, slot.backlog, state.tx_bytes, ctx.now())
    }

    /// The jitter of the link, if it has some.
    pub(super) fn jittered_link_mut(&mut self, port: PortToken) -> Option<&mut JitteredLink> {
        let Port { from, to, .. } = self.all.ports[port.0];
        self.all.jittered_link.link_between(from, to)
    }

    /// The error model of the link, if it has one.
    pub(super) fn erroneous_link_mut(&mut self, port: PortToken) -> Option<&mut ErroneousLink> {
        self.all.errors.of_port.get_mut(port.0.0 as usize)?.as_mut()
    }

    /// Passes a frame that goes on the wire to the capture.
    pub(super) fn capture_frame(&mut self, port: PortToken, index: PacketId, ctx: &Context) {
        self.all.capture.capture_frame(port.0, !self.node.is_switch(), index, ctx);
    }
}
