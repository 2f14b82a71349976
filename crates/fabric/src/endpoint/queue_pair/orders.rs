//! Queue pairs are opened and closed, and applications use them.

use super::PairEnd;
use crate::context::Context;
use crate::endpoint::node::HostNode;
use crate::frame::TelemetryId;
use crate::ids::EndpointId;
use crate::order::{EndpointOpening, EndpointOrder};
use pauseframe_rdma::cc::hpcc::Quantum;
use pauseframe_rdma::{QueuePair, QueuePairSettings, Stats};
use pauseframe_units::{Span, Time};
use std::sync::Arc;

impl HostNode<'_> {
    /// Whether a queue pair is open at an address.
    pub(in crate::endpoint) fn has_pair(&mut self, address: u32) -> bool {
        self.queue_pairs().index_at(address).is_some()
    }

    /// An end of a queue pair comes to be.
    pub(in crate::endpoint) fn open_pair(
        &mut self,
        address: u32,
        opening: &EndpointOpening,
        ctx: &mut Context,
    ) {
        let EndpointOpening { spec, route, picked, exchange } = opening;
        let (side, now) = (address & 1, ctx.now());
        let Some(rdma) = ctx.settings.transports[usize::from(spec.transport)].rdma else { return };
        let priority = ctx.settings.transports[usize::from(spec.transport)].priority;
        let line = self.ports.port(self.port).rate.rate().0;
        let to = if side == 0 { spec.destination } else { spec.source };
        let overhead = ctx.settings.overhead;
        let quantum = ctx.plan.telemetry.map_or(Quantum(1), |telemetry| telemetry.quantum);
        let settings = self.queue_pairs().settings.entry((spec.transport, line)).or_insert_with(|| {
            Arc::new(QueuePairSettings {
                line,
                link_overhead: overhead.frame_size(rdma.pair.mtu, priority) - rdma.pair.mtu + overhead.gap,
                control: rdma.control.resolve(line, quantum),
                ..rdma.pair
            })
        });
        let pair = QueuePair::new(Arc::clone(settings));
        let classes = [picked.class, ctx.plan.class_of_priority(rdma.cnp_priority)];
        let nic_queues = classes.map(|class| self.host().nic_queue_for(to, class));
        let mut end = PairEnd {
            pair,
            telemetry: TelemetryId::NONE,
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            peer: address ^ 1,
            flow: None,
            told: (0, Stats::default()),
            host: self.id(),
            nic_queues,
            classes,
            route: *route,
            vlan: picked.vlan,
            transport: spec.transport,
            workload: spec.workload,
            blocked: false,
            closing: false,
            quiet: false,
            tells: u64::MAX,
            messages: None,
        };
        end.begin(exchange);
        // An operation is posted by now.
        let writes = if exchange.operation.is_some() { 0 } else { exchange.writes };
        if writes > 0 && spec.start <= now {
            end.pair.send(writes);
        } else if writes > 0 {
            (end.write_at, end.writes) = (spec.start, writes);
        }
        let place = self.queue_pairs().add(end);
        self.settle_pair(place, ctx);
    }

    /// What the application at an end does.
    pub(in crate::endpoint) fn order_pair(&mut self, address: u32, order: &EndpointOrder, ctx: &mut Context) {
        let Some(place) = self.queue_pairs().index_at(address) else { return };
        match order {
            EndpointOrder::Continue(exchange) => {
                if exchange.operation.is_none() {
                    self.tell_pair_counts(place, ctx);
                } else if !self.pair(place).has_operations() {
                    self.pair(place).tell_counts(ctx);
                }
                let end = self.pair(place);
                end.begin(exchange);
                if exchange.writes > 0 && exchange.operation.is_none() {
                    end.pair.send(exchange.writes);
                }
                let side = end.address() & 1;
                self.queue_pairs().list(exchange.flow * 2 + side, place);
            }
            EndpointOrder::EndExchange => {
                self.tell_pair_counts(place, ctx);
                self.pair(place).flow = None;
                return;
            }
            &EndpointOrder::Write { bytes, token, written } => {
                let end = self.pair(place);
                if let Some(tells) = end.messages.get_or_insert_default().append_message(bytes, token) {
                    end.tells = tells;
                }
                if !written {
                    end.pair.send(bytes);
                }
            }
            &EndpointOrder::Await { bytes, token } => {
                let end = self.pair(place);
                end.expects = end.messages.get_or_insert_default().expect_message(bytes, token);
            }
            EndpointOrder::Close | EndpointOrder::Stop => {
                let end = self.pair(place);
                end.closing = true;
                if matches!(order, EndpointOrder::Stop) {
                    end.pair.stop_sending();
                }
            }
            EndpointOrder::Free => {
                self.free_pair(place, ctx);
                return;
            }
            EndpointOrder::Open(_)
            | EndpointOrder::OpenDatagrams(_)
            | EndpointOrder::AwaitDatagrams(_)
            | EndpointOrder::FreeDatagrams => {
                unreachable!("what opens an end or is for datagrams goes another way")
            }
        }
        self.settle_pair(place, ctx);
    }

    fn tell_pair_counts(&mut self, place: EndpointId, ctx: &mut Context) {
        let end = self.pair(place);
        let (address, flow) = (end.address(), end.flow);
        end.tell_counts(ctx);
        // Late packets belong to the queue pair, which goes by the flow that opened it.
        if let Some(flow) = flow.filter(|flow| *flow != address / 2) {
            self.queue_pairs().list(flow * 2 + (address & 1), EndpointId::NONE);
        }
    }

    pub(super) fn free_pair(&mut self, place: EndpointId, ctx: &mut Context) {
        self.tell_pair_counts(place, ctx);
        let pairs = self.queue_pairs();
        let Some(end) = pairs.ends[place].take() else { return };
        ctx.packets.free_telemetry(end.telemetry);
        pairs.list(end.address(), EndpointId::NONE);
        // The line for the NIC knows an end by its place: nobody else gets it before its turn has come.
        if !end.blocked {
            pairs.free.push(place);
        }
    }
}
