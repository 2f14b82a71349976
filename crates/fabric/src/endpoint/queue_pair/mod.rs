//! Queue pairs of `RoCEv2` at their hosts: their state here, what applications do with them in `orders.rs`, packets and timers in `packets.rs`.
//!
//! A flow has two ends, as a connection has (`connection.rs`), and what applications do with them is the same: the bytes of an exchange
//! or of a message are a message of the queue pair. No handshake takes place. Acknowledgements, NAKs and CNPs come from the NIC itself,
//! so they wait for no room in its buffer.

mod orders;
mod packets;

use super::host::Host;
use super::messages::MessageBoundaries;
use super::node::BorrowedHost;
use crate::context::Context;
use crate::event::Event;
use crate::flow::{RdmaCounts, StorageOperation};
use crate::frame::TelemetryId;
use crate::ids::{EndpointId, HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, EndpointExchange};
use pauseframe_engine::memory::{prefetch_bytes, prefetch_first_cache_line};
use pauseframe_rdma::{QueuePair, QueuePairSettings, Stats};
use pauseframe_units::{IndexVec, Span, Time};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::Arc;

/// The ends of queue pairs of all hosts of a partition.
#[derive(Debug, Default)]
pub(crate) struct QueuePairs {
    ends: IndexVec<EndpointId, Option<QueuePairEnd>>,
    free: Vec<EndpointId>,
    /// By flow: the places of its two ends.
    places: Vec<[EndpointId; 2]>,
    /// The settings of queue pairs by transport, line rate and the links that set a target delay.
    settings: BTreeMap<(u16, u64, u32), Arc<QueuePairSettings>>,
    /// Congestion notifications sent and received, by host and class.
    notifications: BTreeMap<(HostId, u8), [u64; 2]>,
    /// The load of the inputs of cards that answer it with CNPs.
    inputs: BTreeMap<HostId, InputMeter>,
}

/// The load of a card's input, by intervals.
#[derive(Debug, Default)]
struct InputMeter {
    /// Begin of this interval, and the bytes on the wire since.
    since: Time,
    bytes: u64,
    /// Bytes of the interval before.
    before: u64,
}

impl InputMeter {
    const INTERVAL: Span = Span::from_us(50);

    /// Counts a packet; bits per second during the last complete interval.
    fn count(&mut self, bytes: u64, now: Time) -> f64 {
        let elapsed = now.saturating_since(self.since);
        if elapsed >= InputMeter::INTERVAL {
            self.before = if elapsed.0 < 2 * InputMeter::INTERVAL.0 { self.bytes } else { 0 };
            self.since.0 += elapsed.0 / InputMeter::INTERVAL.0 * InputMeter::INTERVAL.0;
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.before as f64 * 8e12 / InputMeter::INTERVAL.0 as f64
    }
}

/// One end of a queue pair. What every packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct QueuePairEnd {
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
    fn find_pair_end_index_by_key(&self, endpoint_key: u32) -> Option<EndpointId> {
        self.places.get((endpoint_key / 2) as usize)?[(endpoint_key & 1) as usize].to_option()
    }

    /// The end at an endpoint key, if it is open here.
    pub(crate) fn find_pair_end_by_key(&self, endpoint_key: u32) -> Option<&QueuePairEnd> {
        self.ends[self.find_pair_end_index_by_key(endpoint_key)?].as_ref()
    }

    fn find_pair_end_by_key_mut(&mut self, endpoint_key: u32) -> Option<&mut QueuePairEnd> {
        let place = self.find_pair_end_index_by_key(endpoint_key)?;
        self.ends[place].as_mut()
    }

    /// The place of the end at an endpoint key, and its host.
    pub(crate) fn find_pair_end_index_and_host(&self, endpoint_key: u32) -> Option<(EndpointId, HostId)> {
        let place = self.find_pair_end_index_by_key(endpoint_key)?;
        Some((place, self.ends[place].as_ref()?.host))
    }

    pub(super) fn set_endpoint_path(&mut self, endpoint_key: u32, row: u32) {
        if let Some(end) =
            self.find_pair_end_by_key_mut(endpoint_key).filter(|end| end.own_endpoint_key() == endpoint_key)
        {
            end.route = row;
        }
    }

    pub(super) fn drain_unreported_counters(&mut self, take: impl FnMut(EndpointCounters)) {
        self.ends.iter_mut().flatten().filter_map(QueuePairEnd::take_unreported_counters).for_each(take);
    }

    fn register_pair_end_key(&mut self, endpoint_key: u32, place: EndpointId) {
        let (flow, side) = ((endpoint_key / 2) as usize, (endpoint_key & 1) as usize);
        if self.places.len() <= flow {
            self.places.resize(flow + 1, [EndpointId::NONE; 2]);
        }
        self.places[flow][side] = place;
    }

    /// Congestion notifications that a host has sent and received in a class.
    pub(crate) fn cnp_counts_sent_and_received(&self, host: HostId, class: u8) -> [u64; 2] {
        self.notifications.get(&(host, class)).copied().unwrap_or_default()
    }

    fn add_pair_end(&mut self, end: QueuePairEnd) -> EndpointId {
        let endpoint_key = end.own_endpoint_key();
        let place = match self.free.pop() {
            Some(place) => {
                self.ends[place] = Some(end);
                place
            }
            None => self.ends.push(Some(end)),
        };
        self.register_pair_end_key(endpoint_key, place);
        place
    }
}

impl QueuePairEnd {
    /// Bytes at its start that packets touch.
    const TOUCHED_BY_EACH_PACKET: usize = offset_of!(QueuePairEnd, pair) + QueuePair::TOUCHED_BY_EACH_PACKET;

    fn own_endpoint_key(&self) -> u32 {
        self.peer ^ 1
    }

    fn begin_endpoint_exchange(&mut self, exchange: &EndpointExchange) {
        if exchange.operation.is_some() {
            self.post_storage_operation(exchange);
            return;
        }
        self.flow = Some(exchange.flow);
        self.expects = self.pair.delivered().saturating_add(exchange.expects);
        (self.reply, self.reply_delay) = (exchange.reply, exchange.reply_delay);
    }

    /// Posts an operation at its source; its destination only learns to whose flow its counts belong.
    fn post_storage_operation(&mut self, exchange: &EndpointExchange) {
        let is_source = self.own_endpoint_key() & 1 == 0;
        let (bytes, arriving) = match exchange.operation {
            Some(StorageOperation::Read) if is_source => {
                self.pair.read(exchange.expects);
                (exchange.expects, exchange.expects)
            }
            Some(StorageOperation::Write) if is_source => {
                self.pair.send(exchange.writes);
                (exchange.writes, 0)
            }
            Some(StorageOperation::Write) => (exchange.expects, exchange.expects),
            _ => (0, 0),
        };
        self.messages.get_or_insert_default().operations.push_storage_operation(
            exchange.flow,
            bytes,
            arriving,
            0,
        );
        self.await_bytes_of_oldest_operation();
    }

    /// Waits for the oldest operation.
    fn await_bytes_of_oldest_operation(&mut self) {
        let oldest = self.messages.as_ref().and_then(|messages| messages.operations.oldest_operation());
        self.expects = oldest.map_or(u64::MAX, |operation| operation.end);
        self.flow = oldest.map(|operation| operation.flow).or(self.flow);
    }

    fn has_pending_operations(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| !messages.operations.has_no_storage_operations())
    }

    /// Bytes that bring an operation or exchange to its end: at the source of operations those that are complete, otherwise those that have
    /// arrived.
    fn bytes_towards_completion(&self) -> u64 {
        let is_source = self.own_endpoint_key() & 1 == 0;
        if is_source && self.has_pending_operations() { self.pair.acked() } else { self.pair.delivered() }
    }

    /// Ends the oldest operation if it is complete here.
    fn finish_oldest_operation_if_complete(&mut self, ctx: &mut Context) -> bool {
        let progress = self.bytes_towards_completion();
        let operations = self.messages.as_mut().map(|messages| &mut messages.operations);
        let Some(operation) = operations.and_then(|line| line.take_oldest_operation_if_complete(progress))
        else {
            return false;
        };
        let later = self.pair.delivered() - operation.arrived;
        if let Some(counters) = self.take_unreported_counters() {
            self.told.0 -= later;
            let delivered = counters.delivered - later;
            let counters = EndpointCounters { delivered, ..counters };
            ctx.report_endpoint_event(self.own_endpoint_key(), EndpointEvent::Counted(counters));
        }
        if self.own_endpoint_key() & 1 == 0 {
            ctx.report_endpoint_event(self.own_endpoint_key(), EndpointEvent::Complete);
        }
        self.await_bytes_of_oldest_operation();
        true
    }

    /// Bytes delivered that have not been told of.
    pub(crate) fn unreported_delivered_bytes(&self) -> u64 {
        self.pair.delivered() - self.told.0
    }

    /// What it has counted since this was asked last, for the flow that it carries.
    fn take_unreported_counters(&mut self) -> Option<EndpointCounters> {
        let flow = self.flow?;
        let (delivered, stats) = (self.pair.delivered(), *self.pair.stats());
        let (delivered_before, before) = std::mem::replace(&mut self.told, (delivered, stats));
        Some(EndpointCounters {
            flow,
            replies: self.own_endpoint_key() & 1 == 1,
            delivered: delivered - delivered_before,
            retransmits: stats.retransmits - before.retransmits,
            timeouts: stats.timeouts - before.timeouts,
            ce_packets: stats.marked_received - before.marked_received,
            rdma: RdmaCounts {
                cnps_sent: stats.cnps_sent - before.cnps_sent,
                cnps_received: stats.cnps_received - before.cnps_received,
                repeats_by_nak: stats.retransmits_by_nak - before.retransmits_by_nak,
                repeats_by_timeout: stats.retransmits_by_timeout - before.retransmits_by_timeout,
                waited: stats.waited - before.waited,
            },
            ..EndpointCounters::default()
        })
    }

    fn report_counters_of_pair_end(&mut self, ctx: &mut Context) {
        if let Some(counters) = self.take_unreported_counters() {
            ctx.report_endpoint_event(self.own_endpoint_key(), EndpointEvent::Counted(counters));
        }
    }

    /// Keeps an event pending that is not later than the next deadline.
    fn schedule_queue_pair_timer(&mut self, ctx: &mut Context) {
        let now = ctx.now();
        // Who waits for room goes on when it is there, not when pacing lets it.
        let deadline = self.pair.deadline(now).min(self.write_at);
        if deadline < self.timer_at {
            self.timer_at = deadline.max(now);
            ctx.schedule_event(self.timer_at, Event::QueuePair(self.own_endpoint_key()));
        }
    }

    /// All bytes that this end waited for are in: the request is answered, or the flow is complete.
    fn reply_or_report_completion(&mut self, ctx: &mut Context) {
        let (now, to) = (ctx.now(), self.own_endpoint_key());
        if let Some(messages) = &mut self.messages {
            let delivered = self.pair.delivered();
            self.expects = messages.report_delivered_messages(delivered, |token| {
                ctx.report_endpoint_event(to, EndpointEvent::Delivered(token));
            });
            return;
        }
        self.expects = u64::MAX;
        let reply = std::mem::take(&mut self.reply);
        if reply > 0 && self.reply_delay > Span::ZERO {
            (self.write_at, self.writes) = (now + self.reply_delay, reply);
        } else if reply > 0 {
            self.pair.send(reply);
        } else {
            ctx.report_endpoint_event(to, EndpointEvent::Complete);
        }
    }

    fn notify_of_sent_messages(&mut self, ctx: &mut Context) {
        let (endpoint_key, sent) = (self.own_endpoint_key(), self.pair.sent());
        if let Some(messages) = &mut self.messages {
            self.tells = messages.report_sent_messages(sent, |token| {
                ctx.report_endpoint_event(endpoint_key, EndpointEvent::Sent(token));
            });
        }
    }
}

/// Prefetches for upcoming events (`prefetch/`).
impl QueuePairs {
    #[inline(always)]
    pub(super) fn prefetch_pair_end_index(&self, endpoint_key: u32) {
        prefetch_first_cache_line(self.places.get(endpoint_key as usize / 2));
    }

    #[inline(always)]
    pub(super) fn prefetch_pair_end(&self, endpoint_key: u32) {
        // Not by `at`, which reads the end.
        let end = self.find_pair_end_index_by_key(endpoint_key).and_then(|place| self.ends.get(place));
        prefetch_bytes(end, QueuePairEnd::TOUCHED_BY_EACH_PACKET);
    }

    #[inline(always)]
    pub(super) fn prefetch_oldest_packet_in_flight(&self, endpoint_key: u32) {
        let Some(end) = self.find_pair_end_by_key(endpoint_key) else { return };
        end.pair.oldest_in_flight().into_iter().for_each(prefetch_first_cache_line);
    }
}

impl BorrowedHost<'_> {
    /// The end at a place.
    ///
    /// # Panics
    /// If it is another host's, or none.
    #[inline]
    fn pair_end_mut(&mut self, place: EndpointId) -> &mut QueuePairEnd {
        self.pair_end_and_host_mut(place).0
    }

    /// The same with its host.
    #[inline]
    fn pair_end_and_host_mut(&mut self, place: EndpointId) -> (&mut QueuePairEnd, &mut Host) {
        let id = self.own_host_id();
        let (pairs, host) = self.queue_pairs_and_host();
        let end = pairs.ends[place].as_mut().expect("the place of an open flow holds a queue pair");
        assert!(end.host == id, "a host was led to a queue pair of another");
        (end, host)
    }
}
