//! Orders of applications, executed when due.

use super::PartitionHosts;
use super::node::BorrowedHost;
use crate::context::Context;
use crate::event::Event;
use crate::ids::HostId;
use crate::order::{EndpointOpeningParameters, EndpointOrder};
use pauseframe_units::Time;

impl PartitionHosts {
    /// Schedules an order for a host of this partition at time `at`.
    pub(crate) fn schedule_endpoint_order(
        &mut self,
        at: Time,
        host: HostId,
        endpoint_key: u32,
        order: EndpointOrder,
        ctx: &mut Context,
    ) {
        let (_, orders) = self.orders.entry((at, endpoint_key)).or_insert_with(|| (host, Vec::new()));
        orders.push(order);
        if orders.len() == 1 {
            ctx.schedule_event(at, Event::Order(endpoint_key));
        }
    }

    /// Takes the orders of an endpoint that are due now, and its host.
    pub(crate) fn take_due_endpoint_orders(
        &mut self,
        endpoint_key: u32,
        now: Time,
    ) -> Option<(HostId, Vec<EndpointOrder>)> {
        self.orders.remove(&(now, endpoint_key))
    }
}

impl BorrowedHost<'_> {
    /// Executes the due orders of an endpoint.
    pub(crate) fn execute_due_endpoint_orders(
        &mut self,
        endpoint_key: u32,
        orders: Vec<EndpointOrder>,
        ctx: &mut Context,
    ) {
        for order in orders {
            match order {
                EndpointOrder::Open(opening) if opening_is_for_queue_pair(&opening, ctx) => {
                    self.open_queue_pair_end(endpoint_key, &opening, ctx);
                }
                EndpointOrder::Open(opening) => self.open_tcp_endpoint(endpoint_key, *opening, ctx),
                EndpointOrder::OpenDatagrams(opening) => {
                    self.open_datagram_endpoint(endpoint_key, *opening, ctx);
                }
                EndpointOrder::AwaitDatagrams(count) => {
                    self.set_expected_datagram_count(endpoint_key, count, ctx);
                }
                EndpointOrder::FreeDatagrams => self.free_datagram_endpoint(endpoint_key, ctx),
                order if self.has_queue_pair_at_key(endpoint_key) => {
                    self.execute_queue_pair_order(endpoint_key, &order, ctx);
                }
                order => self.execute_tcp_application_order(endpoint_key, &order, ctx),
            }
        }
    }
}

fn opening_is_for_queue_pair(opening: &EndpointOpeningParameters, ctx: &Context) -> bool {
    ctx.settings.transports[usize::from(opening.spec.transport)].rdma.is_some()
}
