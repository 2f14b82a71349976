//! Queue pairs are opened and closed, and applications use them.

use super::QueuePairEnd;
use crate::context::Context;
use crate::endpoint::node::BorrowedHost;
use crate::frame::TelemetryId;
use crate::ids::EndpointId;
use crate::order::{EndpointOpeningParameters, EndpointOrder};
use pauseframe_rdma::cc::hpcc::Quantum;
use pauseframe_rdma::{QueuePair, QueuePairSettings, Stats};
use pauseframe_units::{Span, Time};
use std::sync::Arc;

impl BorrowedHost<'_> {
    /// Whether a queue pair is open at an endpoint key.
    pub(in crate::endpoint) fn has_queue_pair_at_key(&mut self, endpoint_key: u32) -> bool {
        self.queue_pairs_mut().find_pair_end_index_by_key(endpoint_key).is_some()
    }

    /// An end of a queue pair comes to be.
    pub(in crate::endpoint) fn open_queue_pair_end(
        &mut self,
        endpoint_key: u32,
        opening: &EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let EndpointOpeningParameters { spec, route, picked, exchange, links } = opening;
        let (side, now) = (endpoint_key & 1, ctx.now());
        let Some(rdma) = ctx.settings.transports[usize::from(spec.transport)].rdma else { return };
        let priority = ctx.settings.transports[usize::from(spec.transport)].priority;
        let line = self.ports.port_state(self.port).rate.rate().0;
        let to = if side == 0 { spec.destination } else { spec.source };
        let overhead = ctx.settings.overhead;
        let quantum = ctx.plan.telemetry.map_or(Quantum::for_line(line), |telemetry| telemetry.quantum);
        let settings =
            self.queue_pairs_mut().settings.entry((spec.transport, line, *links)).or_insert_with(|| {
                Arc::new(QueuePairSettings {
                    line,
                    link_overhead: overhead.frame_size_of_ip_packet(rdma.pair.mtu, priority) - rdma.pair.mtu
                        + overhead.gap,
                    control: rdma.control.on_path(*links).resolve(line, quantum),
                    ..rdma.pair
                })
            });
        let mut pair = QueuePair::new(Arc::clone(settings));
        pair.connect(spec.start.max(now));
        let classes = [picked.class, ctx.plan.class_index_of_priority(rdma.cnp_priority)];
        let nic_queues = classes.map(|class| self.host_mut().nic_queue_of_flow(endpoint_key, to, class));
        let mut end = QueuePairEnd {
            pair,
            telemetry: TelemetryId::NONE,
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            peer: endpoint_key ^ 1,
            flow: None,
            told: (0, Stats::default()),
            host: self.own_host_id(),
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
        end.begin_endpoint_exchange(exchange);
        // An operation is posted by now.
        let writes = if exchange.operation.is_some() { 0 } else { exchange.writes };
        if writes > 0 && spec.start <= now {
            end.pair.send(writes);
        } else if writes > 0 {
            (end.write_at, end.writes) = (spec.start, writes);
        }
        let place = self.queue_pairs_mut().add_pair_end(end);
        self.update_queue_pair_after_event(place, ctx);
    }

    /// What the application at an end does.
    pub(in crate::endpoint) fn execute_queue_pair_order(
        &mut self,
        endpoint_key: u32,
        order: &EndpointOrder,
        ctx: &mut Context,
    ) {
        let Some(place) = self.queue_pairs_mut().find_pair_end_index_by_key(endpoint_key) else { return };
        match order {
            EndpointOrder::Continue(exchange) => {
                if exchange.operation.is_none() {
                    self.report_queue_pair_counters(place, ctx);
                } else if !self.pair_end_mut(place).has_pending_operations() {
                    self.pair_end_mut(place).report_counters_of_pair_end(ctx);
                }
                let end = self.pair_end_mut(place);
                end.begin_endpoint_exchange(exchange);
                if exchange.writes > 0 && exchange.operation.is_none() {
                    end.pair.send(exchange.writes);
                }
                let side = end.own_endpoint_key() & 1;
                self.queue_pairs_mut().register_pair_end_key(exchange.flow * 2 + side, place);
            }
            EndpointOrder::EndExchange => {
                self.report_queue_pair_counters(place, ctx);
                self.pair_end_mut(place).flow = None;
                return;
            }
            &EndpointOrder::Write { bytes, token, written } => {
                let end = self.pair_end_mut(place);
                if let Some(tells) = end.messages.get_or_insert_default().append_message_to_send(bytes, token)
                {
                    end.tells = tells;
                }
                if !written {
                    end.pair.send(bytes);
                }
            }
            &EndpointOrder::Await { bytes, token } => {
                let end = self.pair_end_mut(place);
                end.expects = end.messages.get_or_insert_default().append_expected_message(bytes, token);
            }
            EndpointOrder::Close | EndpointOrder::Stop => {
                let end = self.pair_end_mut(place);
                end.closing = true;
                if matches!(order, EndpointOrder::Stop) {
                    end.pair.stop_sending();
                }
            }
            EndpointOrder::Free => {
                self.free_queue_pair_end(place, ctx);
                return;
            }
            EndpointOrder::Open(_)
            | EndpointOrder::OpenDatagrams(_)
            | EndpointOrder::AwaitDatagrams(_)
            | EndpointOrder::FreeDatagrams => {
                unreachable!("what opens an end or is for datagrams goes another way")
            }
        }
        self.update_queue_pair_after_event(place, ctx);
    }

    fn report_queue_pair_counters(&mut self, place: EndpointId, ctx: &mut Context) {
        let end = self.pair_end_mut(place);
        let (endpoint_key, flow) = (end.own_endpoint_key(), end.flow);
        end.report_counters_of_pair_end(ctx);
        // Late packets belong to the queue pair, which goes by the flow that opened it.
        if let Some(flow) = flow.filter(|flow| *flow != endpoint_key / 2) {
            self.queue_pairs_mut().register_pair_end_key(flow * 2 + (endpoint_key & 1), EndpointId::NONE);
        }
    }

    pub(super) fn free_queue_pair_end(&mut self, place: EndpointId, ctx: &mut Context) {
        self.report_queue_pair_counters(place, ctx);
        let pairs = self.queue_pairs_mut();
        let Some(end) = pairs.ends[place].take() else { return };
        ctx.packets.free_telemetry_of_frame(end.telemetry);
        let endpoint_key = end.own_endpoint_key();
        pairs.register_pair_end_key(endpoint_key, EndpointId::NONE);
        // The line for the NIC knows an end by its place: nobody else gets it before its turn has come.
        if !end.blocked {
            pairs.free.push(place);
        }
        self.host_mut().close_queues_of_flow(endpoint_key);
    }
}
