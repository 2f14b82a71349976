//! The life of endpoints at their host: orders of applications, timers, turns for the NIC, the end.
//!
//! A flow has two endpoints, side 0 at its source and side 1 at its destination; neither reads the other's state. A kept connection carries
//! several flows; its packets and timers carry the number of the flow that opened it. Each event of a reliable protocol (TCP, queue pairs) ends with
//! [`BorrowedHost::update_endpoint`].

use super::multipath::MultipathEnd;
use super::node::{BorrowedHost, EndpointToken};
use super::queue_pair::QueuePairEnd;
use super::state::{Endpoint, Protocol, Reliable};
use super::tcp::TcpEnd;
use crate::context::Context;
use crate::ids::EndpointId;
use crate::order::{
    EndpointEvent, EndpointExchange, EndpointOpeningParameters, EndpointOrder, MultipathRole,
};
use crate::settings::ProtocolSettings;
use pauseframe_units::Time;

/// A reliable protocol whose packets a host sends.
pub(super) trait SendReliable: Reliable {
    /// Passes packets to the host while it has packets and the host has room.
    fn send_available<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context);
    /// A blocked endpoint has its turn; false if it had nothing to send and left the round robin.
    fn send_turn<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context) -> bool;
}

impl<'n> BorrowedHost<'n> {
    /// Executes an order to an endpoint. One that has failed ignores it.
    pub(crate) fn execute_order(&mut self, endpoint_key: u32, order: EndpointOrder, ctx: &mut Context) {
        if let EndpointOrder::Open(opening) = order {
            return self.open_endpoint(endpoint_key, *opening, ctx);
        }
        let Some(end) = self.find_endpoint(endpoint_key) else { return };
        match (order, &self.endpoint_mut(end).protocol) {
            (EndpointOrder::Free, _) => self.free_endpoint(end, ctx),
            (EndpointOrder::EndExchange, _) => self.end_exchange(end, ctx),
            (EndpointOrder::AwaitDatagrams(count), _) => self.await_datagrams(end, count, ctx),
            (order, Protocol::Rdma(_)) => self.execute_order_of::<QueuePairEnd>(end, &order, ctx),
            (order, Protocol::Multipath(_)) => self.execute_order_of::<MultipathEnd>(end, &order, ctx),
            (order, _) => self.execute_order_of::<TcpEnd>(end, &order, ctx),
        }
    }

    fn open_endpoint(&mut self, endpoint_key: u32, opening: EndpointOpeningParameters, ctx: &mut Context) {
        match &ctx.settings.transports[usize::from(opening.spec.transport)].protocol {
            ProtocolSettings::Tcp(_) => match opening.multipath {
                MultipathRole::Connection { .. } => self.open_multipath(endpoint_key, opening, ctx),
                MultipathRole::None | MultipathRole::Subflow { .. } => {
                    self.open_tcp(endpoint_key, opening, ctx);
                }
            },
            ProtocolSettings::Rdma(rdma) => {
                let rdma = *rdma;
                self.open_queue_pair(endpoint_key, &rdma, opening, ctx);
            }
            ProtocolSettings::Udp(udp) => {
                let udp = *udp;
                self.open_datagrams(endpoint_key, udp, opening, ctx);
            }
        }
    }

    /// An endpoint with its place in the network, not yet in the arena.
    pub(super) fn new_endpoint(
        &mut self,
        protocol: Protocol,
        endpoint_key: u32,
        opening: EndpointOpeningParameters,
    ) -> Endpoint {
        let EndpointOpeningParameters { spec, ports, route, picked, ways, .. } = opening;
        let nic_queue = self.host_mut().nic_queue_for(endpoint_key, ports[1], picked.class);
        let mut end = Endpoint::new(protocol, endpoint_key, self.host_id(), ports, nic_queue);
        (end.transport, end.workload, end.route) = (spec.transport, spec.workload, route);
        (end.vlan, end.class, end.vlans) = (picked.vlan, picked.class, picked.among);
        end.ways = ways;
        end
    }

    /// An order to an endpoint that is open.
    fn execute_order_of<S: SendReliable>(
        &mut self,
        end: EndpointToken<'n>,
        order: &EndpointOrder,
        ctx: &mut Context,
    ) {
        let now = ctx.now();
        match order {
            EndpointOrder::Continue(exchange) => self.continue_with_exchange::<S>(end, exchange, ctx),
            &EndpointOrder::Write { bytes, token, written } => {
                // What was sent and what has failed is reported with the next event, not now.
                self.endpoint_mut(end).write_message::<S>(bytes, token, written, now);
                S::send_available(self, end, ctx);
                self.endpoint_mut(end).schedule_timer::<S>(ctx);
                return;
            }
            &EndpointOrder::Await { bytes, token } => {
                let state = self.endpoint_mut(end);
                state.expects = state.messages.get_or_insert_default().append_expected(bytes, token);
                return;
            }
            EndpointOrder::Close => self.endpoint_mut(end).close::<S>(false, now),
            EndpointOrder::Stop => self.endpoint_mut(end).close::<S>(true, now),
            EndpointOrder::Open(_)
            | EndpointOrder::Free
            | EndpointOrder::EndExchange
            | EndpointOrder::AwaitDatagrams(_) => unreachable!("all protocols have these orders in common"),
        }
        self.update_endpoint::<S>(end, ctx);
    }

    /// Starts the next exchange on a kept connection.
    fn continue_with_exchange<S: Reliable>(
        &mut self,
        end: EndpointToken<'n>,
        exchange: &EndpointExchange,
        ctx: &mut Context,
    ) {
        let state = self.endpoint_mut(end);
        let (side, before) = (state.key() & 1, state.flow);
        if !state.has_pending_operations() {
            self.report_counters(end, ctx);
            if S::DISCARDS_COUNTS_BETWEEN_FLOWS {
                self.endpoint_mut(end).discard_counters();
            }
            if !keeps_flow_key::<S>(exchange.operation.is_some()) {
                self.forget_flow(end, before);
            }
        }
        self.endpoint_mut(end).begin_exchange::<S>(exchange, Time::ZERO, ctx.now());
        self.register_key(exchange.flow * 2 + side, end);
    }

    fn end_exchange(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        self.report_counters(end, ctx);
        let flow = self.endpoint_mut(end).flow.take();
        self.forget_flow(end, flow);
    }

    fn report_counters(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        let state = self.endpoint_mut(end);
        if let Some(counters) = state.take_counters() {
            ctx.report_event(state.key(), EndpointEvent::Counted(counters));
        }
    }

    /// Removes the key of a flow that is over. Late packets count for the flow that opened the connection, whose key stays.
    fn forget_flow(&mut self, end: EndpointToken<'n>, flow: Option<u32>) {
        let endpoint_key = self.endpoint_mut(end).key();
        if let Some(flow) = flow.filter(|flow| *flow != endpoint_key / 2) {
            self.unregister_key(flow * 2 + (endpoint_key & 1));
        }
    }

    /// Runs after every event of a reliable protocol: notifies the application, sends what is allowed, sets the timer, reports the end.
    #[inline(always)]
    pub(super) fn update_endpoint<S: SendReliable>(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        let state = self.endpoint_mut(end);
        // Rarely taken: otherwise the endpoint need not be found again.
        let state = if state.progress::<S>() >= state.expects {
            self.on_expected_bytes::<S>(end, ctx);
            self.endpoint_mut(end)
        } else {
            state
        };
        state.notify_if_sent::<S>(ctx);
        S::send_available(self, end, ctx);
        let state = self.endpoint_mut(end);
        state.schedule_timer::<S>(ctx);
        if state.is_subflow {
            self.wake_connection(end, ctx);
        }
        let state = self.endpoint_mut(end);
        let endpoint_key = state.key();
        if let Some(failure) = state.failure_to_report::<S>() {
            ctx.report_event(endpoint_key, EndpointEvent::Failed(failure));
            self.free_endpoint(end, ctx);
        } else if state.has_drained::<S>() {
            ctx.report_event(endpoint_key, EndpointEvent::Drained);
        }
    }

    /// Bytes that an application expects have arrived.
    fn on_expected_bytes<S: Reliable>(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        if !self.endpoint_mut(end).has_pending_operations() {
            self.endpoint_mut(end).reply_or_complete::<S>(ctx);
            return;
        }
        while let Some(operation) = self.endpoint_mut(end).finish_operation::<S>(ctx) {
            // The last one keeps the counts that come before the next.
            let is_over = self.endpoint_mut(end).flow != Some(operation.flow);
            if is_over && !keeps_flow_key::<S>(true) {
                self.forget_flow(end, Some(operation.flow));
            }
        }
    }

    /// Handles a timer event. If the deadline has moved since, only a new event is scheduled.
    pub(crate) fn on_endpoint_timer(&mut self, endpoint_key: u32, ctx: &mut Context) {
        let Some(end) = self.find_endpoint(endpoint_key) else { return };
        let state = self.endpoint_mut(end);
        if !state.take_timer(ctx.now()) {
            return;
        }
        match state.protocol {
            Protocol::Tcp(_) => self.on_reliable_timer::<TcpEnd>(end, ctx),
            Protocol::Rdma(_) => self.on_reliable_timer::<QueuePairEnd>(end, ctx),
            Protocol::Multipath(_) => {
                self.observe_subflows(end, ctx);
                self.on_reliable_timer::<MultipathEnd>(end, ctx);
            }
            Protocol::DatagramSource(_) => self.on_datagram_due(end, ctx),
            Protocol::DatagramSink(_) | Protocol::Free => unreachable!("it has no timer"),
        }
    }

    fn on_reliable_timer<S: SendReliable>(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        self.endpoint_mut(end).act_on_timer::<S>(ctx.now());
        self.update_endpoint::<S>(end, ctx);
    }

    /// A blocked endpoint sends in its turn; false if it left the round robin.
    pub(super) fn send_in_turn(&mut self, place: EndpointId, ctx: &mut Context) -> bool {
        let Some(end) = self.endpoint_at(place) else {
            // The endpoint was closed while blocked; now its index can be freed.
            self.release_index(place);
            return false;
        };
        match self.endpoint_mut(end).protocol {
            Protocol::Tcp(_) => TcpEnd::send_turn(self, end, ctx),
            Protocol::Rdma(_) => QueuePairEnd::send_turn(self, end, ctx),
            _ => self.send_waiting(end, ctx),
        }
    }

    /// Frees an endpoint and its index.
    pub(super) fn free_endpoint(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        self.cache_metrics(end, ctx);
        self.report_counters(end, ctx);
        if self.endpoint_mut(end).is_subflow {
            self.leave_connection(end, ctx);
        }
        let flow = self.endpoint_mut(end).flow;
        self.forget_flow(end, flow);
        let Endpoint { protocol, peer, blocked, ways, .. } = self.remove_endpoint(end);
        let endpoint_key = peer ^ 1;
        if let Protocol::Rdma(pair) = protocol {
            ctx.packets.free_telemetry(pair.telemetry);
        }
        self.unregister_key(endpoint_key);
        self.host_mut().close_flow_queues(endpoint_key);
        self.close_queues(&ways, endpoint_key, ctx);
        // The round robin of blocked sockets still holds this index, so the index is freed only when its turn has come.
        if !blocked {
            self.release_index(end.index());
        }
    }
}

/// Whether a flow's key outlives the flow at this end: the responder of a READ has nothing to wait for, and sends its data.
fn keeps_flow_key<S: Reliable>(is_operation: bool) -> bool {
    S::HAS_OPERATIONS && is_operation
}
