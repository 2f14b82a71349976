//! Queue pairs of `RoCEv2` at their hosts: their state here, what applications do with them in `orders.rs`, packets and timers in `packets.rs`.
//!
//! A flow has two ends, as a connection has (`connection.rs`), and what applications do with them is the same: the bytes of an exchange
//! or of a message are a message of the queue pair. No handshake takes place. Acknowledgements, NAKs and CNPs come from the NIC itself,
//! so they wait for no room in its buffer.

mod orders;
mod packets;

use super::host::Host;
use super::messages::MessageBoundaries;
use super::node::HostNode;
use crate::context::Context;
use crate::event::Event;
use crate::flow::{Operation, RdmaCounts};
use crate::frame::TelemetryId;
use crate::ids::{EndpointId, HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, Exchange};
use pauseframe_engine::memory::{prefetch_bytes, prefetch_first_line};
use pauseframe_rdma::{QueuePair, QueuePairSettings, Stats};
use pauseframe_units::{IndexVec, Span, Time};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::Arc;

/// The ends of queue pairs of all hosts of a partition.
#[derive(Debug, Default)]
pub(crate) struct QueuePairs {
    ends: IndexVec<EndpointId, Option<PairEnd>>,
    free: Vec<EndpointId>,
    /// By flow: the places of its two ends.
    places: Vec<[EndpointId; 2]>,
    /// The settings of queue pairs by transport and line rate.
    settings: BTreeMap<(u16, u64), Arc<QueuePairSettings>>,
    /// Congestion notifications sent and received, by host and class.
    notifications: BTreeMap<(HostId, u8), [u64; 2]>,
}

/// One end of a queue pair. What every packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PairEnd {
    /// When the pending event fires; `Time::MAX` if none is pending.
    timer_at: Time,
    /// The application posts `writes` bytes then; `Time::MAX`: nothing is due.
    write_at: Time,
    /// Delivered bytes at which the application answers, or has all it wants.
    expects: u64,
    /// Bytes sent at which the application is notified.
    tells: u64,
    host: HostId,
    /// Flow * 2 + side of the other end, by the flow that opened the queue pair.
    peer: u32,
    /// NIC queues of its data and of its CNPs; with unordered delivery all answers go with the CNPs.
    nic_queues: [NicQueueId; 2],
    classes: [u8; 2],
    route: u32,
    vlan: u16,
    transport: u16,
    workload: u16,
    /// In the host's line for room in the NIC.
    blocked: bool,
    closing: bool,
    quiet: bool,
    /// The telemetry of the last data packet, which the next acknowledgement returns.
    telemetry: TelemetryId,
    messages: Option<Box<MessageBoundaries>>,
    pub(crate) pair: QueuePair,
    writes: u64,
    reply: u64,
    reply_delay: Span,
    /// The flow that it carries now, none between two.
    pub(crate) flow: Option<u32>,
    told: (u64, Stats),
}

impl QueuePairs {
    fn index_at(&self, address: u32) -> Option<EndpointId> {
        self.places.get((address / 2) as usize)?[(address & 1) as usize].to_option()
    }

    /// The end at an address, if it is open here.
    pub(crate) fn at(&self, address: u32) -> Option<&PairEnd> {
        self.ends[self.index_at(address)?].as_ref()
    }

    fn at_mut(&mut self, address: u32) -> Option<&mut PairEnd> {
        let place = self.index_at(address)?;
        self.ends[place].as_mut()
    }

    /// The place of the end at an address, and its host.
    pub(crate) fn place_and_host_of(&self, address: u32) -> Option<(EndpointId, HostId)> {
        let place = self.index_at(address)?;
        Some((place, self.ends[place].as_ref()?.host))
    }

    pub(super) fn take_path(&mut self, address: u32, row: u32) {
        if let Some(end) = self.at_mut(address).filter(|end| end.address() == address) {
            end.route = row;
        }
    }

    pub(super) fn drain_counters(&mut self, take: impl FnMut(EndpointCounters)) {
        self.ends.iter_mut().flatten().filter_map(PairEnd::take_counters).for_each(take);
    }

    fn list(&mut self, address: u32, place: EndpointId) {
        let (flow, side) = ((address / 2) as usize, (address & 1) as usize);
        if self.places.len() <= flow {
            self.places.resize(flow + 1, [EndpointId::NONE; 2]);
        }
        self.places[flow][side] = place;
    }

    /// Congestion notifications that a host has sent and received in a class.
    pub(crate) fn notifications(&self, host: HostId, class: u8) -> [u64; 2] {
        self.notifications.get(&(host, class)).copied().unwrap_or_default()
    }

    fn add(&mut self, end: PairEnd) -> EndpointId {
        let address = end.address();
        let place = match self.free.pop() {
            Some(place) => {
                self.ends[place] = Some(end);
                place
            }
            None => self.ends.push(Some(end)),
        };
        self.list(address, place);
        place
    }
}

impl PairEnd {
    /// Bytes at its start that packets touch.
    const TOUCHED_BY_EACH_PACKET: usize = offset_of!(PairEnd, pair) + QueuePair::TOUCHED_BY_EACH_PACKET;

    fn address(&self) -> u32 {
        self.peer ^ 1
    }

    fn begin(&mut self, exchange: &Exchange) {
        if exchange.operation.is_some() {
            self.begin_operation(exchange);
            return;
        }
        self.flow = Some(exchange.flow);
        self.expects = self.pair.delivered().saturating_add(exchange.expects);
        (self.reply, self.reply_delay) = (exchange.reply, exchange.reply_delay);
    }

    /// Posts an operation at its source; its destination only learns to whose flow its counts belong.
    fn begin_operation(&mut self, exchange: &Exchange) {
        let is_source = self.address() & 1 == 0;
        let (bytes, arriving) = match exchange.operation {
            Some(Operation::Read) if is_source => {
                self.pair.read(exchange.expects);
                (exchange.expects, exchange.expects)
            }
            Some(Operation::Write) if is_source => {
                self.pair.send(exchange.writes);
                (exchange.writes, 0)
            }
            Some(Operation::Write) => (exchange.expects, exchange.expects),
            _ => (0, 0),
        };
        self.messages.get_or_insert_default().operations.push(exchange.flow, bytes, arriving, 0);
        self.await_operation();
    }

    /// Waits for the oldest operation.
    fn await_operation(&mut self) {
        let oldest = self.messages.as_ref().and_then(|messages| messages.operations.first());
        self.expects = oldest.map_or(u64::MAX, |operation| operation.end);
        self.flow = oldest.map(|operation| operation.flow).or(self.flow);
    }

    fn has_operations(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| !messages.operations.is_empty())
    }

    /// Bytes that bring an operation or exchange to its end: at the source of operations those that are complete, otherwise those that have
    /// arrived.
    fn progress(&self) -> u64 {
        let is_source = self.address() & 1 == 0;
        if is_source && self.has_operations() { self.pair.acked() } else { self.pair.delivered() }
    }

    /// Ends the oldest operation if it is complete here.
    fn end_complete_operation(&mut self, ctx: &mut Context) -> bool {
        let progress = self.progress();
        let operations = self.messages.as_mut().map(|messages| &mut messages.operations);
        let Some(operation) = operations.and_then(|line| line.take_complete(progress)) else { return false };
        let later = self.pair.delivered() - operation.arrived;
        if let Some(counters) = self.take_counters() {
            self.told.0 -= later;
            let delivered = counters.delivered - later;
            let counters = EndpointCounters { delivered, ..counters };
            ctx.send_report(self.address(), EndpointEvent::Counted(counters));
        }
        if self.address() & 1 == 0 {
            ctx.send_report(self.address(), EndpointEvent::Complete);
        }
        self.await_operation();
        true
    }

    /// Bytes delivered that have not been told of.
    pub(crate) fn delivered(&self) -> u64 {
        self.pair.delivered() - self.told.0
    }

    /// What it has counted since this was asked last, for the flow that it carries.
    fn take_counters(&mut self) -> Option<EndpointCounters> {
        let flow = self.flow?;
        let (delivered, stats) = (self.pair.delivered(), *self.pair.stats());
        let (delivered_before, before) = std::mem::replace(&mut self.told, (delivered, stats));
        Some(EndpointCounters {
            flow,
            replies: self.address() & 1 == 1,
            delivered: delivered - delivered_before,
            retransmits: stats.retransmits - before.retransmits,
            timeouts: stats.timeouts - before.timeouts,
            ce_packets: stats.marked_received - before.marked_received,
            rdma: RdmaCounts {
                cnps_sent: stats.cnps_sent - before.cnps_sent,
                cnps_received: stats.cnps_received - before.cnps_received,
                repeats_by_nak: stats.retransmits_by_nak - before.retransmits_by_nak,
                repeats_by_timeout: stats.retransmits_by_timeout - before.retransmits_by_timeout,
            },
            ..EndpointCounters::default()
        })
    }

    fn tell_counts(&mut self, ctx: &mut Context) {
        if let Some(counters) = self.take_counters() {
            ctx.send_report(self.address(), EndpointEvent::Counted(counters));
        }
    }

    /// Keeps an event pending that is not later than the next deadline.
    fn arm_timer(&mut self, ctx: &mut Context) {
        let now = ctx.now();
        // Who waits for room goes on when it is there, not when pacing lets it.
        let deadline = self.pair.deadline(now).min(self.write_at);
        if deadline < self.timer_at {
            self.timer_at = deadline.max(now);
            ctx.schedule(self.timer_at, Event::QueuePair(self.address()));
        }
    }

    /// All bytes that this end waited for are in: the request is answered, or the flow is complete.
    fn on_expected(&mut self, ctx: &mut Context) {
        let (now, to) = (ctx.now(), self.address());
        if let Some(messages) = &mut self.messages {
            let delivered = self.pair.delivered();
            self.expects = messages
                .on_bytes_delivered(delivered, |token| ctx.send_report(to, EndpointEvent::Delivered(token)));
            return;
        }
        self.expects = u64::MAX;
        let reply = std::mem::take(&mut self.reply);
        if reply > 0 && self.reply_delay > Span::ZERO {
            (self.write_at, self.writes) = (now + self.reply_delay, reply);
        } else if reply > 0 {
            self.pair.send(reply);
        } else {
            ctx.send_report(to, EndpointEvent::Complete);
        }
    }

    fn on_sent(&mut self, ctx: &mut Context) {
        let (address, sent) = (self.address(), self.pair.sent());
        if let Some(messages) = &mut self.messages {
            self.tells =
                messages.on_bytes_sent(sent, |token| ctx.send_report(address, EndpointEvent::Sent(token)));
        }
    }
}

/// Prefetches for upcoming events (`prefetch/`).
impl QueuePairs {
    #[inline(always)]
    pub(super) fn prefetch_index(&self, address: u32) {
        prefetch_first_line(self.places.get(address as usize / 2));
    }

    #[inline(always)]
    pub(super) fn prefetch_end(&self, address: u32) {
        // Not by `at`, which reads the end.
        let end = self.index_at(address).and_then(|place| self.ends.get(place));
        prefetch_bytes(end, PairEnd::TOUCHED_BY_EACH_PACKET);
    }

    #[inline(always)]
    pub(super) fn prefetch_oldest_in_flight(&self, address: u32) {
        let Some(end) = self.at(address) else { return };
        end.pair.oldest_in_flight().into_iter().for_each(prefetch_first_line);
    }
}

impl HostNode<'_> {
    /// The end at a place.
    ///
    /// # Panics
    /// If it is another host's, or none.
    #[inline]
    fn pair(&mut self, place: EndpointId) -> &mut PairEnd {
        self.pair_and_host(place).0
    }

    /// The same with its host.
    #[inline]
    fn pair_and_host(&mut self, place: EndpointId) -> (&mut PairEnd, &mut Host) {
        let id = self.id();
        let (pairs, host) = self.queue_pairs_and_host();
        let end = pairs.ends[place].as_mut().expect("the place of an open flow holds a queue pair");
        assert!(end.host == id, "a host was led to a queue pair of another");
        (end, host)
    }
}
