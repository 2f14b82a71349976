//! What the node at the other end of a port holds of what came by it, and the pauses that it asks for (IEEE 802.1Qbb). Switches have such
//! accounts, and hosts that drain slowly.

use super::counters::DropReason;
use super::own::{InPort, InSlot, NodePorts, OwnPort};
use crate::context::Context;
use crate::event::Event;
use crate::frame::{Content, Packet, PacketId};
use crate::headroom::{Thresholds, pause_time};
use crate::ids::{Owner, SlotId};
use crate::plan::Plan;
use crate::settings::Overhead;
use pauseframe_units::{IndexVec, PortId};

/// What the switch or slow receiver at the other end of a slot holds of what came by it: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Account {
    /// Bytes held.
    pub(crate) bytes: u64,
    /// Of these, those in the headroom (shared buffers).
    pub(crate) in_headroom: u64,
    /// The most that were held.
    pub(crate) most: u64,
    pub(crate) limits: Thresholds,
    /// Who holds them.
    pub(super) node: Owner,
    /// The slot has been asked to pause.
    pub(crate) pause_sent: bool,
}

impl Account {
    /// It has been asked to pause, and holds no more than XON.
    #[inline(always)]
    pub(crate) fn is_low(&self) -> bool {
        self.pause_sent && self.bytes <= self.limits.xon
    }
}

/// What the other end of a slot knows of the pauses that it asks the slot for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseRequester {
    /// A `PauseRefresh` is pending.
    is_renewing: bool,
}

/// All accounts, by the slot that frames come by; where no buffer has any there are none.
#[derive(Debug)]
pub(crate) struct Ingress {
    pub(crate) accounts: IndexVec<SlotId, Account>,
    pub(super) pause_requesters: IndexVec<SlotId, PauseRequester>,
}

impl Ingress {
    /// With accounts if any are `needed`.
    pub(crate) fn of(plan: &Plan, needed: bool) -> Ingress {
        let limits = plan.margins.limits.iter().take(if needed { usize::MAX } else { 0 });
        let node = |slot: SlotId| plan.owner(plan.topology.peer(plan.port_and_class(slot).0));
        let account = |(slot, limits): (SlotId, &Thresholds)| Account {
            limits: *limits,
            node: node(slot),
            ..Account::default()
        };
        let accounts: IndexVec<SlotId, Account> = plan.all_slots().zip(limits).map(account).collect();
        Ingress { pause_requesters: IndexVec::filled(PauseRequester::default(), accounts.len()), accounts }
    }
}

impl NodePorts<'_> {
    /// Fixed thresholds: everything up to XOFF plus headroom is held.
    #[inline(always)]
    pub(crate) fn admit(&mut self, index: PacketId, ctx: &mut Context) -> Result<(), DropReason> {
        let packet = Accounted::of(&ctx.packets[index], ctx.hot.account_mask);
        let slot = self.account_of(packet.ingress, packet.ingress_class, ctx);
        let account = self.account_mut(slot);
        let bytes = account.bytes + u64::from(packet.size);
        if bytes > account.limits.xoff + account.limits.headroom {
            let lossless = ctx.hot.is_lossless(packet.class);
            return Err(if lossless { DropReason::HeadroomExceeded } else { DropReason::BufferFull });
        }
        account.bytes = bytes;
        account.most = account.most.max(bytes);
        if bytes > account.limits.xoff && !account.pause_sent {
            self.reborrow().send_pause(slot, ctx);
        }
        Ok(())
    }

    /// Lowers an account.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, slot: InSlot, size: u64, ctx: &Context) {
        let account = self.account_mut(slot);
        let Some(left) = account.bytes.checked_sub(size) else {
            ctx.plan.accounting_underflow("ingress account", slot.port_and_class(&ctx.hot).0.reverse().id());
        };
        account.bytes = left;
    }

    /// Asks the port that sent by `slot` to pause, if this one sends pause frames; true if it has not been asked yet.
    #[cold]
    pub(crate) fn send_pause(&mut self, slot: InSlot, ctx: &mut Context) -> bool {
        let quanta = ctx.settings.pfc.as_ref().map_or(0, |pfc| pfc.quanta);
        let (ingress, class) = slot.port_and_class(&ctx.hot);
        if !ctx.plan.sends_pauses(ingress.reverse().id()) {
            return false;
        }
        let is_new = !std::mem::replace(&mut self.account_mut(slot).pause_sent, true);
        if is_new {
            self.note_request(ingress, class, ctx);
        }
        self.send_pause_frame(ingress.reverse(), class, quanta, ctx);
        if !std::mem::replace(&mut self.pause_requester(slot).is_renewing, true) {
            let half = pause_time(ctx.plan.rate_from(ingress.id()), quanta) / 2;
            ctx.schedule(ctx.now() + half, Event::PauseRefresh(slot.id()));
        }
        is_new
    }

    /// Tells it to go on.
    #[cold]
    pub(crate) fn send_resume(&mut self, slot: InSlot, ctx: &mut Context) {
        self.account_mut(slot).pause_sent = false;
        let (ingress, class) = slot.port_and_class(&ctx.hot);
        self.send_pause_frame(ingress.reverse(), class, 0, ctx);
    }

    /// Renews a pause that is still wanted.
    pub(crate) fn on_pause_refresh(&mut self, slot: InSlot, ctx: &mut Context) {
        self.pause_requester(slot).is_renewing = false;
        if self.account(slot).pause_sent {
            self.send_pause(slot, ctx);
        }
    }

    /// The link of `port` is back: what has been asked for still holds.
    pub(crate) fn resend_pauses(&mut self, port: InPort, ctx: &mut Context) {
        for class in 0..ctx.plan.priorities.len() as u8 {
            let slot = port.slot(class, &ctx.hot);
            if self.has_accounts() && self.account(slot).pause_sent {
                self.send_pause(slot, ctx);
            }
        }
    }

    pub(super) fn send_pause_frame(&mut self, port: OwnPort, class: u8, quanta: u16, ctx: &mut Context) {
        if self.port(port).is_down() {
            return;
        }
        let stopped = if ctx.hot.account_mask == 0 { u8::MAX } else { 1 << class };
        // A frame of this class that still waits says what is true now: no class waits behind more than one of each.
        let mut waiting = self.waiting_pauses(port).head();
        while let Some(index) = waiting {
            let frame = &mut ctx.packets[index];
            if let Content::Pause { classes, quanta: its } = &mut frame.content
                && *classes == stopped
            {
                *its = quanta;
                return;
            }
            waiting = frame.next.known();
        }
        let pause = Content::Pause { classes: stopped, quanta };
        let frame = Packet { at: ctx.now(), ..Packet::new(pause, Overhead::PAUSE_FRAME as u16, 0) };
        let index = ctx.packets.add(frame);
        self.enqueue_pause_frame(port, index, ctx);
    }
}

/// What the accounts need of a packet.
#[derive(Clone, Copy)]
pub(crate) struct Accounted {
    pub(crate) ingress: PortId,
    /// Of the slot that it came in by, and of the one that it leaves by.
    pub(crate) ingress_class: u8,
    pub(crate) class: u8,
    pub(crate) size: u16,
}

impl Accounted {
    /// `account_mask`: see [`crate::hot::Hot`].
    #[inline]
    pub(crate) fn of(packet: &Packet, account_mask: u8) -> Accounted {
        Accounted {
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
        assert_eq!((size_of::<super::Account>(), size_of::<crate::wire::slot::Slot>()), (64, 64));
    }
}
