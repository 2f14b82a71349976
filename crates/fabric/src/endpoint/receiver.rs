//! A slow receiver: a host that takes frames out of its receive buffer at a rate below that of its link
//! (docs/models/slow-receivers.md).
//!
//! The buffer is a FIFO between the wire and the receive side of the stack. A lossless class has an account at the host as at a switch: above XOFF,
//! which is the buffer less the headroom of the link, the host sends pause frames, and resumes two full frames lower. Lossy classes are dropped at
//! the NIC when the buffer is full, and counted in the host's row of the ports table. Left out: a buffer per class. All classes share the buffer, and
//! each lossless class may fill all of it, so use one lossless class or a larger buffer. The ports of a host share buffer and rate, since they share the
//! way to memory; each pauses its link above its equal part of the buffer.

use crate::context::Context;
use crate::event::Event;
use crate::frame::{PacketFifo, PacketId};
use crate::ids::HostId;
use crate::plan::NetworkPlan;
use crate::settings::SlowReceiverSettings;
use pauseframe_units::{BitRate, Bytes, IndexVec, NodeId, Span, Time};

/// The receive buffer of a host.
#[derive(Debug)]
pub(crate) struct SlowReceiver {
    rate: BitRate,
    stop: Option<Time>,
    buffer: u64,
    /// Bytes of lossy classes in the buffer.
    pub(crate) lossy: u64,
    pub(crate) waiting: PacketFifo,
}

impl SlowReceiver {
    /// Receivers by host; empty if no host drains slowly.
    pub(super) fn by_host(plan: &NetworkPlan) -> IndexVec<HostId, Option<Box<SlowReceiver>>> {
        if plan.settings.receivers.is_empty() {
            return IndexVec::new();
        }
        let of_host = |host: &NodeId| {
            // All ports of a host share the buffer, which its first port holds.
            let settings = plan.settings.receivers.iter().rfind(|receiver| receiver.host == *host)?;
            Some(Box::new(SlowReceiver::new(settings)))
        };
        plan.hosts.iter().map(of_host).collect()
    }

    fn new(settings: &SlowReceiverSettings) -> SlowReceiver {
        let SlowReceiverSettings { rate, stop, buffer, .. } = *settings;
        SlowReceiver { rate, stop, buffer: buffer.0, lossy: 0, waiting: PacketFifo::EMPTY }
    }

    /// Reserves space for a lossy frame of `size` bytes; false if the buffer is full.
    pub(super) fn reserve_lossy(&mut self, size: u64) -> bool {
        let fits = self.lossy + size <= self.buffer;
        if fits {
            self.lossy += size;
        }
        fits
    }

    /// Releases the space of a lossy frame; false if the account would underflow.
    #[must_use]
    pub(super) fn release_lossy(&mut self, size: u64) -> bool {
        let left = self.lossy.checked_sub(size);
        self.lossy = left.unwrap_or(0);
        left.is_some()
    }

    /// Appends a frame to the receive buffer.
    pub(super) fn enqueue(&mut self, host: HostId, index: PacketId, line: BitRate, ctx: &mut Context) {
        if self.waiting.push_back(&mut ctx.packets, index) {
            self.schedule_drain(host, index, line, ctx);
        }
    }

    /// Removes the drained first frame and schedules the next.
    pub(super) fn dequeue_drained(&mut self, host: HostId, line: BitRate, ctx: &mut Context) -> PacketId {
        let index = self.waiting.pop_front(&ctx.packets).expect("a drained frame was in the buffer");
        if let Some(next) = self.waiting.head() {
            self.schedule_drain(host, next, line, ctx);
        }
        index
    }

    /// Schedules the drain of the first frame: at the host's own rate until it is no longer slow, then at the link rate
    /// (`line`), also for the part of the frame that is left.
    fn schedule_drain(&self, host: HostId, index: PacketId, line: BitRate, ctx: &mut Context) {
        let (now, line) = (ctx.now(), self.rate.max(line));
        let size = Bytes(u64::from(ctx.packets[index].size));
        let slow = self.rate.serialise(size);
        let at = match self.stop {
            Some(stop) if stop <= now => now + line.serialise(size),
            Some(stop) if stop < now + slow => {
                let left = slow - (stop - now);
                let rest = u128::from(left.0) * u128::from(self.rate.0);
                stop + Span(rest.div_ceil(u128::from(line.0)) as u64)
            }
            _ => now + slow,
        };
        ctx.schedule_event(at, Event::HostDrain(host));
    }
}
