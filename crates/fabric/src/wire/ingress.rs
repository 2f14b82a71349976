//! Ingress accounts: bytes that arrived by a link and are still held, and the pauses requested for them (IEEE 802.1Qbb). Switches and slow receivers
//! keep them.

use super::counters::DropReason;
use super::own::{BorrowedNodePorts, IngressQueueToken, PortToken};
use crate::context::Context;
use crate::event::Event;
use crate::frame::{FrameContent, Packet, PacketId};
use crate::headroom::{PauseThresholds, quanta_duration};
use crate::ids::{PackedNodeId, SlotId};
use crate::plan::NetworkPlan;
use crate::settings::FrameOverhead;
use pauseframe_units::{IndexVec, PortId, Time};

/// The ingress account of one (link, class) at a switch or slow receiver, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct IngressAccount {
    /// Bytes held.
    pub(crate) bytes: u64,
    /// Bytes of it in the headroom (shared buffers).
    pub(crate) in_headroom: u64,
    /// Maximum of `bytes`.
    pub(crate) most: u64,
    pub(crate) limits: PauseThresholds,
    /// Dynamic threshold in a shared buffer.
    pub(crate) alpha: f64,
    /// The node that keeps the account.
    pub(super) node: PackedNodeId,
    /// A pause is requested.
    pub(crate) pause_sent: bool,
}

impl IngressAccount {
    /// Whether a pause is requested and the account is at or below XON.
    #[inline(always)]
    pub(crate) fn may_resume(&self) -> bool {
        self.pause_sent && self.bytes <= self.limits.xon
    }
}

/// State of the ingress side that requests pauses for a (link, class).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseRequestState {
    /// A `PauseRefresh` is pending.
    is_renewing: bool,
    /// When the last pause frame has to be renewed.
    renew_at: Time,
}

/// All ingress accounts, by the slot of the sending port; empty if no node keeps accounts.
#[derive(Debug)]
pub(crate) struct IngressAccounts {
    pub(crate) accounts: IndexVec<SlotId, IngressAccount>,
    pub(super) pause_requesters: IndexVec<SlotId, PauseRequestState>,
}

impl IngressAccounts {
    /// Creates the accounts if they are `needed`.
    pub(crate) fn from_plan(plan: &NetworkPlan, needed: bool) -> IngressAccounts {
        let limits = plan.reservations.limits.iter().take(if needed { usize::MAX } else { 0 });
        let node = |slot: SlotId| plan.packed_id(plan.topology.peer(plan.port_and_class(slot).0));
        let account = |(slot, limits): (SlotId, &PauseThresholds)| IngressAccount {
            limits: *limits,
            alpha: {
                let (port, class) = plan.port_and_class(slot);
                plan.ingress_alpha(port, class & plan.account_mask)
            },
            node: node(slot),
            ..IngressAccount::default()
        };
        let accounts: IndexVec<SlotId, IngressAccount> = plan.all_slots().zip(limits).map(account).collect();
        IngressAccounts {
            pause_requesters: IndexVec::filled(PauseRequestState::default(), accounts.len()),
            accounts,
        }
    }
}

impl BorrowedNodePorts<'_> {
    /// Admits a packet under fixed thresholds: up to XOFF plus headroom.
    #[inline(always)]
    pub(crate) fn admit_fixed_ingress(
        &mut self,
        index: PacketId,
        ctx: &mut Context,
    ) -> Result<(), DropReason> {
        let packet = PacketAccountFields::of_packet(&ctx.packets[index], ctx.hot.account_mask);
        let slot = self.checked_ingress_token(packet.ingress, packet.ingress_class, ctx);
        let account = self.ingress_account_mut(slot);
        let bytes = account.bytes + u64::from(packet.size);
        if bytes > account.limits.xoff + account.limits.headroom {
            let lossless = ctx.hot.is_lossless(packet.class);
            return Err(if lossless { DropReason::HeadroomExceeded } else { DropReason::BufferFull });
        }
        account.bytes = bytes;
        account.most = account.most.max(bytes);
        if bytes > account.limits.xoff && !account.pause_sent {
            self.reborrow().request_pause(slot, ctx);
        }
        Ok(())
    }

    /// Lowers an account.
    #[inline(always)]
    pub(crate) fn release_ingress(&mut self, slot: IngressQueueToken, size: u64, ctx: &Context) {
        let account = self.ingress_account_mut(slot);
        let Some(left) = account.bytes.checked_sub(size) else {
            ctx.plan.panic_account_underflow("ingress account", slot.port_and_class(&ctx.hot).0.port_id());
        };
        account.bytes = left;
    }

    /// Requests a pause from the sending port, if this port sends pause frames; true if none was requested yet.
    #[cold]
    pub(crate) fn request_pause(&mut self, slot: IngressQueueToken, ctx: &mut Context) -> bool {
        let quanta = ctx.settings.pfc.as_ref().map_or(0, |pfc| pfc.quanta);
        let (ingress, class) = slot.port_and_class(&ctx.hot);
        if !ctx.plan.sends_pause_frames(ingress.port_id()) {
            return false;
        }
        let is_new = !std::mem::replace(&mut self.ingress_account_mut(slot).pause_sent, true);
        if is_new {
            self.record_pause_request(ingress, class, ctx);
        }
        self.send_pause_frame(ingress, class, quanta, ctx);
        let half = quanta_duration(ctx.plan.link_rate(ingress.peer_port_id()), quanta) / 2;
        let request = self.pause_request_mut(slot);
        request.renew_at = ctx.now() + half;
        if !std::mem::replace(&mut request.is_renewing, true) {
            ctx.schedule_event(request.renew_at, Event::PauseRefresh(slot.slot_id()));
        }
        is_new
    }

    /// Sends a resume frame.
    #[cold]
    pub(crate) fn send_resume_frame(&mut self, slot: IngressQueueToken, ctx: &mut Context) {
        self.ingress_account_mut(slot).pause_sent = false;
        let (ingress, class) = slot.port_and_class(&ctx.hot);
        self.send_pause_frame(ingress, class, 0, ctx);
    }

    /// Renews a pause that is still needed. One that was requested since the timer was set, after a resume, is not yet due.
    pub(crate) fn on_pause_refresh(&mut self, slot: IngressQueueToken, ctx: &mut Context) {
        let is_needed = self.ingress_account(slot).pause_sent;
        let request = self.pause_request_mut(slot);
        let due = request.renew_at;
        request.is_renewing = is_needed && ctx.now() < due;
        if request.is_renewing {
            ctx.schedule_event(due, Event::PauseRefresh(slot.slot_id()));
        } else if is_needed {
            self.request_pause(slot, ctx);
        }
    }

    /// Sends pending pause requests again after the link of `port` has come back.
    pub(crate) fn resend_pause_requests(&mut self, port: PortToken, ctx: &mut Context) {
        for class in 0..ctx.plan.priorities.len() as u8 {
            let slot = port.ingress_token(class, &ctx.hot);
            if self.has_ingress_accounts() && self.ingress_account(slot).pause_sent {
                self.request_pause(slot, ctx);
            }
        }
    }

    pub(super) fn send_pause_frame(&mut self, port: PortToken, class: u8, quanta: u16, ctx: &mut Context) {
        if self.port_state(port).is_link_down() {
            return;
        }
        let stopped = if ctx.hot.account_mask == 0 { u8::MAX } else { 1 << class };
        // A waiting frame of this class is updated instead, so at most one pause frame per class waits.
        let mut waiting = self.unsent_pauses_mut(port).head();
        while let Some(index) = waiting {
            let frame = &mut ctx.packets[index];
            if let FrameContent::Pause { classes, quanta: its } = &mut frame.content
                && *classes == stopped
            {
                *its = quanta;
                return;
            }
            waiting = frame.next.to_option();
        }
        let pause = FrameContent::Pause { classes: stopped, quanta };
        let frame = Packet { at: ctx.now(), ..Packet::new(pause, FrameOverhead::PAUSE_FRAME as u16, 0) };
        let index = ctx.packets.insert(frame);
        self.enqueue_pause_frame(port, index, ctx);
    }
}

/// The fields of a packet that buffer accounting needs.
#[derive(Clone, Copy)]
pub(crate) struct PacketAccountFields {
    pub(crate) ingress: PortId,
    /// Class on the incoming link.
    pub(crate) ingress_class: u8,
    /// Class at the egress port.
    pub(crate) class: u8,
    pub(crate) size: u16,
}

impl PacketAccountFields {
    /// `account_mask`: see [`crate::hot::HotPathSettings`].
    #[inline]
    pub(crate) fn of_packet(packet: &Packet, account_mask: u8) -> PacketAccountFields {
        PacketAccountFields {
            ingress: packet.ingress,
            ingress_class: packet.ingress_class & account_mask,
            class: packet.class & account_mask,
            size: packet.size,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_account_fits_a_cache_line_as_a_slot_does() {
        assert_eq!(
            (size_of::<super::IngressAccount>(), size_of::<crate::wire::slot::EgressQueue>()),
            (64, 64)
        );
    }
}
