//! A slow receiver: a host that takes frames out of its receive buffer at a rate below that of its link
//! (docs/models/slow-receivers.md).
//!
//! The buffer is a FIFO between the wire and the receive side of the stack. A lossless class has an account at the host
//! as at a switch: above XOFF, which is the buffer less the headroom of the link, the host sends pause frames, and
//! resumes two full frames lower. Lossy classes are dropped at the NIC when the buffer is full, and counted in the
//! host's row of the ports table. Left out: a buffer for each class; the buffer is shared by all, so each lossless
//! class owns the whole of it (give it more, or one class).

use crate::context::Context;
use crate::event::Event;
use crate::frame::{Fifo, PacketId};
use crate::ids::HostId;
use crate::plan::Plan;
use crate::settings::ReceiverSettings;
use pauseframe_units::{BitRate, Bytes, IndexVec, NodeId, Time};

/// The receive buffer of a host.
#[derive(Debug)]
pub(crate) struct Receiver {
    rate: BitRate,
    stop: Option<Time>,
    buffer: u64,
    /// Bytes of lossy classes in it.
    pub(crate) lossy: u64,
    pub(crate) waiting: Fifo,
}

impl Receiver {
    /// By host, if any host drains slowly; else empty.
    pub(super) fn of_hosts(plan: &Plan) -> IndexVec<HostId, Option<Box<Receiver>>> {
        if plan.settings.receivers.is_empty() {
            return IndexVec::new();
        }
        let of_host = |host: &NodeId| {
            let settings = plan.settings.receivers.iter().rfind(|receiver| receiver.host == *host)?;
            Some(Box::new(Receiver::new(settings)))
        };
        plan.hosts.iter().map(of_host).collect()
    }

    fn new(settings: &ReceiverSettings) -> Receiver {
        let ReceiverSettings { rate, stop, buffer, .. } = *settings;
        Receiver { rate, stop, buffer: buffer.0, lossy: 0, waiting: Fifo::EMPTY }
    }

    /// Whether there is room for a lossy frame of so many bytes, which are taken then.
    pub(super) fn admit(&mut self, size: u64) -> bool {
        let fits = self.lossy + size <= self.buffer;
        if fits {
            self.lossy += size;
        }
        fits
    }

    /// A lossy frame has left the buffer; false if so much was not in it.
    #[must_use]
    pub(super) fn release(&mut self, size: u64) -> bool {
        let left = self.lossy.checked_sub(size);
        self.lossy = left.unwrap_or(0);
        left.is_some()
    }

    /// A frame waits to be drained.
    pub(super) fn take(&mut self, host: HostId, index: PacketId, line: BitRate, ctx: &mut Context) {
        if self.waiting.push(&mut ctx.packets, index) {
            self.plan_drain(host, index, line, ctx);
        }
    }

    /// The first frame has been drained; the next one will be.
    pub(super) fn drain(&mut self, host: HostId, line: BitRate, ctx: &mut Context) -> PacketId {
        let index = self.waiting.pop(&ctx.packets).expect("a drained frame was in the buffer");
        if let Some(next) = self.waiting.head() {
            self.plan_drain(host, next, line, ctx);
        }
        index
    }

    /// A frame is the first now: the host takes it out at its own rate, or at that of its link (`line`) once it is slow no more.
    fn plan_drain(&self, host: HostId, index: PacketId, line: BitRate, ctx: &mut Context) {
        let is_slow = self.stop.is_none_or(|stop| ctx.now() < stop);
        let rate = if is_slow { self.rate } else { self.rate.max(line) };
        let size = Bytes(u64::from(ctx.packets[index].size));
        ctx.schedule(ctx.now() + rate.serialise(size), Event::HostDrain(host));
    }
}
