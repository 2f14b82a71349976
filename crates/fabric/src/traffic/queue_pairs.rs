//! Messages over several queue pairs (NCCL's `net_ib`): cut in equal parts, or in turn.
//!
//! Each queue pair is a flow with a number from [`FIRST_PART`](crate::records::FIRST_PART) on: it has its own numbers, UDP source port, path and
//! port of the host. The flow that applications and tables know has no endpoint; it is complete when all of its parts are.

use super::Traffic;
use crate::flow::{ApplicationMessage, FlowRecord, FlowSpec, FlowStatus};
use crate::order::{EndpointExchange, EndpointOrder, MultipathRole};
use crate::settings::ConnectionQueuePairs;
use pauseframe_units::{NodeId, Span, Time};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// The queue pairs of a connection that has several.
#[derive(Debug)]
pub(super) struct Bundle {
    /// Their flow numbers.
    parts: Range<u32>,
    settings: ConnectionQueuePairs,
    /// Parts of the flow that are not complete, and queue pairs that are not closed.
    incomplete: u32,
    open: u32,
    /// By sending side: the turn of its next message.
    turns: [u32; 2],
    /// By sending side: messages that have not arrived, and messages whose sender is to be notified.
    arriving: [MessagesInOrder; 2],
    leaving: [MessagesInOrder; 2],
}

/// Messages in the order in which they were sent: token, and parts that are missing. Applications learn of them in this order.
#[derive(Debug, Default)]
struct MessagesInOrder(VecDeque<(u32, u32)>);

impl MessagesInOrder {
    /// A part of a message is done; returns the messages that are complete with it.
    fn complete_part(&mut self, token: u32) -> Vec<u32> {
        if let Some((_, missing)) = self.0.iter_mut().find(|(other, missing)| *other == token && *missing > 0)
        {
            *missing -= 1;
        }
        std::iter::from_fn(|| self.0.pop_front_if(|(_, missing)| *missing == 0))
            .map(|(token, _)| token)
            .collect()
    }
}

impl Traffic {
    /// Opens the queue pairs of a flow, each with its part of the bytes; `u64::MAX` bytes are a flow without an end. A connection for messages
    /// begins without bytes.
    pub(super) fn open_bundle(
        &mut self,
        spec: FlowSpec,
        settings: ConnectionQueuePairs,
        carries_messages: bool,
        now: Time,
    ) {
        let flow = self.records.len() as u32;
        self.records.push(&FlowRecord::new(spec, Span::ZERO, now));
        self.new_hosts.push([spec.source, spec.destination]);
        self.active += 1;
        let sizes = settings.parts(spec.size, 0);
        let sizes: Vec<u64> = if carries_messages {
            vec![0; sizes.len()]
        } else {
            // A short message needs fewer.
            sizes.into_iter().filter(|size| *size > 0).collect()
        };
        let of_part = |size: &u64| FlowRecord::new(FlowSpec { size: *size, ..spec }, Span::ZERO, now);
        let parts = self.records.push_parts(flow, &sizes.iter().map(of_part).collect::<Vec<_>>());
        let count = sizes.len() as u32;
        let (turns, arriving, leaving) = Default::default();
        let bundle = Bundle {
            parts: parts.clone(),
            settings,
            incomplete: count,
            open: count,
            turns,
            arriving,
            leaving,
        };
        self.bundles.insert(flow, bundle);
        let mut ways = Vec::new();
        for (part, size) in parts.zip(sizes) {
            ways.push((self.open_part(part, &FlowSpec { size, ..spec }, now), size));
        }
        let ideal = if carries_messages { Span::ZERO } else { self.ideal_of_parts(&spec, &ways) };
        self.records.update(flow, |record| record.ideal = ideal);
        if let Some(kept) = spec.kept.filter(|kept| !kept.last) {
            self.kept.insert((spec.workload, kept.number), flow);
        }
        if let Some(stop) = spec.stop {
            self.stop_flow_at(flow, stop.max(now));
        }
    }

    /// Opens one of several queue pairs; returns the ports that its data leave and reach in the intact network.
    fn open_part(&mut self, part: u32, spec: &FlowSpec, now: Time) -> [NodeId; 2] {
        let ports = self.ports_of_flow(spec, part, None);
        let expects = if spec.size == 0 { u64::MAX } else { spec.size };
        let exchange = EndpointExchange {
            flow: part,
            writes: spec.size,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            operation: None,
        };
        let exchanges = [exchange, EndpointExchange { writes: 0, expects, ..exchange }];
        let [way, back] = ports.ways();
        self.new_hosts_of_parts.push([way[0], back[0]]);
        self.open_both_endpoints(part, &ports, exchanges, &MultipathRole::None, now);
        ports.intact_ways()[0]
    }

    /// Time of a flow alone: that of the port which has most to do, of those that its parts leave and reach.
    fn ideal_of_parts(&self, spec: &FlowSpec, ways: &[([NodeId; 2], u64)]) -> Span {
        let of_port = |side: usize, port: NodeId| {
            let (ways, sizes): (Vec<[NodeId; 2]>, Vec<u64>) =
                ways.iter().filter(|(way, _)| way[side] == port).copied().unzip();
            self.ideal.time_of_parts(spec, &ways, &sizes)
        };
        let ports: BTreeSet<(usize, NodeId)> =
            ways.iter().flat_map(|(way, _)| [(0, way[0]), (1, way[1])]).collect();
        ports.into_iter().map(|(side, port)| of_port(side, port)).max().unwrap_or_default()
    }

    /// Sends a message on the queue pairs of a connection.
    pub(super) fn send_over_bundle(&mut self, flow: u32, side: u32, message: &ApplicationMessage, now: Time) {
        let &ApplicationMessage { bytes, token, notify, .. } = message;
        let Some(bundle) = self.bundles.get_mut(&flow) else { return };
        let turn = &mut bundle.turns[side as usize];
        let sizes = bundle.settings.parts(bytes, *turn);
        *turn = turn.wrapping_add(1);
        let count = sizes.iter().filter(|size| **size > 0).count() as u32;
        bundle.arriving[side as usize].0.push_back((token, count));
        if notify {
            bundle.leaving[side as usize].0.push_back((token, count));
        }
        for (part, bytes) in bundle.parts.clone().zip(sizes).filter(|(_, bytes)| *bytes > 0) {
            let write = EndpointOrder::Write { bytes, token: notify.then_some(token), written: false };
            self.send_order(part * 2 + side, write, now);
            self.send_order(part * 2 + (1 - side), EndpointOrder::Await { bytes, token }, now);
        }
    }

    /// A part of a message has arrived, or has left if `is_sent`, at this endpoint: the tokens of the messages that are complete with it.
    pub(super) fn complete_messages(&mut self, endpoint_key: u32, token: u32, is_sent: bool) -> Vec<u32> {
        let (part, side) = (endpoint_key / 2, (endpoint_key & 1) as usize);
        let Some(bundle) = self.bundles.get_mut(&self.records.flow_of(part)) else { return vec![token] };
        let line = if is_sent { &mut bundle.leaving[side] } else { &mut bundle.arriving[1 - side] };
        line.complete_part(token)
    }

    /// One of several queue pairs has brought its part to an end. The first failure is one of the flow.
    pub(super) fn end_part(&mut self, part: u32, status: FlowStatus, at: Time) {
        let was = self.records.update(part, |record| std::mem::replace(&mut record.status, status));
        let flow = self.records.flow_of(part);
        let Some(bundle) = self.bundles.get_mut(&flow).filter(|_| was == FlowStatus::Running) else { return };
        bundle.incomplete -= 1;
        if status == FlowStatus::Failed || bundle.incomplete == 0 {
            self.end_flow(flow, status, at);
        }
    }

    /// One of several queue pairs has failed: the others send nothing new.
    pub(super) fn stop_other_parts(&mut self, part: u32, now: Time) {
        for other in self.records.carriers(self.records.flow_of(part)).filter(|other| *other != part) {
            if self.open.contains_key(&other) && !self.is_subflow(other) {
                self.end_part(other, FlowStatus::Stopped, now);
                self.close_connection(other, true, now);
            }
        }
    }

    /// One of several queue pairs is closed.
    pub(super) fn forget_part(&mut self, part: u32) {
        let flow = self.records.flow_of(part);
        let Some(bundle) = self.bundles.get_mut(&flow) else { return };
        bundle.open -= 1;
        if bundle.open == 0 {
            self.bundles.remove(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_multiples_of_128_bytes() {
        let pairs = |count, splits| ConnectionQueuePairs { count, splits };
        assert_eq!(pairs(4, true).parts(1 << 20, 0), [1 << 18; 4]);
        assert_eq!(pairs(4, true).parts(1000, 3), [256, 256, 256, 232]);
        assert_eq!(pairs(4, true).parts(100, 0), [100, 0, 0, 0]);
        assert_eq!(pairs(3, true).parts(u64::MAX, 0), [u64::MAX; 3]);
        assert_eq!(pairs(3, false).parts(77, 4), [0, 77, 0]);
    }

    #[test]
    fn messages_complete_in_order() {
        let mut line = MessagesInOrder(VecDeque::from([(7, 2), (8, 1), (9, 1)]));
        assert!(line.complete_part(8).is_empty());
        assert!(line.complete_part(7).is_empty());
        assert_eq!(line.complete_part(7), [7, 8]);
        assert_eq!(line.complete_part(9), [9]);
    }
}
