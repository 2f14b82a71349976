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
        let orders = self.orders.entry((at, host)).or_default();
        orders.push((endpoint_key, order));
        if orders.len() == 1 {
            ctx.schedule_event(at, Event::Order(host));
        }
    }

    /// Takes the orders to a host that are due now, each with its endpoint, in the order in which they were given.
    pub(crate) fn take_due_orders(&mut self, host: HostId, now: Time) -> Vec<(u32, EndpointOrder)> {
        self.orders.remove(&(now, host)).unwrap_or_default()
    }
}
