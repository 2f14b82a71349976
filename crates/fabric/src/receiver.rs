//! A slow receiver: a host that takes frames out of its receive buffer at a rate below that of its link
//! (docs/models/slow-receivers.md).
//!
//! The buffer is a FIFO between the wire and the receive side of the stack. A lossless class has an account at the host
//! as at a switch: above XOFF, which is the buffer less the headroom of the link, the host sends pause frames, and
//! resumes two full frames lower. Lossy classes are dropped at the NIC when the buffer is full, and counted in the
//! host's row of the ports table. Left out: a buffer for each class; the buffer is shared by all, so each lossless
//! class owns the whole of it (give it more, or one class).

use crate::cell::Cell;
use crate::counters::DropReason;
use crate::event::Event;
use crate::packet::Fifo;
use crate::settings::Settings;
use pauseframe_engine::EventQueue;
use pauseframe_units::{BitRate, Bytes, IndexVec, NodeId, PortId, Time};

/// A host that drains slowly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverSettings {
    /// The host.
    pub host: NodeId,
    /// Bytes of frames (without preamble and gap) that it takes from the buffer, in bits per second.
    pub rate: BitRate,
    /// Bytes of the receive buffer, headroom included.
    pub buffer: Bytes,
    /// From then on it takes them as fast as its link brings them.
    pub stop: Option<Time>,
}

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
    pub(crate) fn of_hosts(
        settings: &Settings,
        number: &IndexVec<NodeId, u32>,
        hosts: usize,
    ) -> Vec<Option<Box<Receiver>>> {
        if settings.receivers.is_empty() {
            return Vec::new();
        }
        let mut receivers: Vec<Option<Box<Receiver>>> = (0..hosts).map(|_| None).collect();
        for receiver in &settings.receivers {
            receivers[number[receiver.host] as usize] = Some(Box::new(Receiver::new(receiver)));
        }
        receivers
    }

    fn new(settings: &ReceiverSettings) -> Receiver {
        let ReceiverSettings { rate, stop, buffer, .. } = *settings;
        Receiver { rate, stop, buffer: buffer.0, lossy: 0, waiting: Fifo::EMPTY }
    }

    /// When a frame that is first at `now` has been taken out, at a host whose link has the rate `line`.
    fn takes_until(&self, now: Time, size: u32, line: BitRate) -> Time {
        let is_slow = self.stop.is_none_or(|stop| now < stop);
        now + if is_slow { self.rate } else { self.rate.max(line) }.serialise(Bytes(u64::from(size)))
    }
}

impl Cell {
    /// A frame is in at the NIC of a slow receiver; false if the host is none.
    #[cold]
    pub(crate) fn is_buffered(
        &mut self,
        port: PortId,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        let host = self.ports[port].to_host;
        if self.receivers[host as usize].is_none() {
            return false;
        }
        let (class, size) = (self.packets[index].class, u32::from(self.packets[index].size));
        self.packets[index].ingress = port;
        self.packets[index].ingress_class = class;
        let admitted = if self.is_lossless(class) {
            self.admit_to_ingress(index, now, queue)
        } else {
            self.admit_to_receiver(host, size)
        };
        if let Err(reason) = admitted {
            self.drop_packet(index, port.reverse(), reason, now);
            return true;
        }
        let Some(receiver) = self.receivers[host as usize].as_mut() else { return false };
        if receiver.waiting.push(&mut self.packets, index) {
            let drained = receiver.takes_until(now, size, self.ports[port].rate.rate());
            queue.push(drained, Event::HostDrain(host).code());
        }
        true
    }

    fn admit_to_receiver(&mut self, host: u32, size: u32) -> Result<(), DropReason> {
        let Some(receiver) = self.receivers[host as usize].as_mut() else { return Ok(()) };
        if receiver.lossy + u64::from(size) > receiver.buffer {
            return Err(DropReason::BufferFull);
        }
        receiver.lossy += u64::from(size);
        Ok(())
    }

    /// A slow receiver is through with the first frame of its buffer.
    pub(crate) fn on_host_drain(&mut self, host: u32, now: Time, queue: &mut EventQueue) {
        let Some(receiver) = self.receivers[host as usize].as_mut() else { return };
        let index = receiver.waiting.pop(&self.packets).expect("a drained frame was in the buffer");
        let packet = self.packets[index];
        if let Some(next) = receiver.waiting.head() {
            let line = self.ports[packet.ingress].rate.rate();
            let drained = receiver.takes_until(now, u32::from(self.packets[next].size), line);
            queue.push(drained, Event::HostDrain(host).code());
        }
        if self.lossless & 1 << packet.class == 0 {
            let lossy = receiver.lossy.checked_sub(u64::from(packet.size));
            let Some(lossy) = lossy else { self.overdrawn("receive buffer", packet.ingress.reverse()) };
            receiver.lossy = lossy;
        } else {
            let class = packet.class & self.hot.account_mask;
            let lane = self.lane_index(packet.ingress, class);
            self.give_back_ingress(lane, packet.ingress, u64::from(packet.size));
            if self.accounts[lane].is_low() {
                self.send_resume(packet.ingress, class, now, queue);
            }
        }
        self.receive_in_stack(host, index, now, queue);
    }
}
