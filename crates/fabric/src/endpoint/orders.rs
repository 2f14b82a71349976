//! Orders of applications, executed when due.

use super::PartitionHosts;
use crate::context::Context;
use crate::event::Event;
use crate::ids::HostId;
use crate::order::EndpointOrder;
use pauseframe_units::Time;

impl PartitionHosts {
    /// Schedules an order for a host of this partition at time `at`.
    pub(crate) fn schedule_order(
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
    pub(crate) fn take_due_orders(
        &mut self,
        endpoint_key: u32,
        now: Time,
    ) -> Option<(HostId, Vec<EndpointOrder>)> {
        self.orders.remove(&(now, endpoint_key))
    }
}
