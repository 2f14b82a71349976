//! Orders of applications, executed when due.

use super::Endpoints;
use super::node::HostNode;
use crate::context::Context;
use crate::event::Event;
use crate::ids::HostId;
use crate::order::{EndpointOpening, EndpointOrder};
use pauseframe_units::Time;

impl Endpoints {
    /// Schedules an order for a host of this partition at time `at`.
    pub(crate) fn schedule_order(
        &mut self,
        at: Time,
        host: HostId,
        address: u32,
        order: EndpointOrder,
        ctx: &mut Context,
    ) {
        let (_, orders) = self.orders.entry((at, address)).or_insert_with(|| (host, Vec::new()));
        orders.push(order);
        if orders.len() == 1 {
            ctx.schedule(at, Event::Order(address));
        }
    }

    /// Takes the orders of an endpoint that are due now, and its host.
    pub(crate) fn take_due_orders(
        &mut self,
        address: u32,
        now: Time,
    ) -> Option<(HostId, Vec<EndpointOrder>)> {
        self.orders.remove(&(now, address))
    }
}

impl HostNode<'_> {
    /// Executes the due orders of an endpoint.
    pub(crate) fn execute_orders(&mut self, address: u32, orders: Vec<EndpointOrder>, ctx: &mut Context) {
        for order in orders {
            match order {
                EndpointOrder::Open(opening) if opens_queue_pair(&opening, ctx) => {
                    self.open_pair(address, &opening, ctx);
                }
                EndpointOrder::Open(opening) => self.open_endpoint(address, *opening, ctx),
                EndpointOrder::OpenDatagrams(opening) => self.open_datagram_flow(address, *opening, ctx),
                EndpointOrder::AwaitDatagrams(count) => self.set_expected_datagrams(address, count, ctx),
                EndpointOrder::FreeDatagrams => self.free_datagram_flow(address, ctx),
                order if self.has_pair(address) => self.order_pair(address, &order, ctx),
                order => self.execute_order(address, &order, ctx),
            }
        }
    }
}

fn opens_queue_pair(opening: &EndpointOpening, ctx: &Context) -> bool {
    ctx.settings.transports[usize::from(opening.spec.transport)].rdma.is_some()
}
