//! What the applications of hosts do, when it is due.

use super::Endpoints;
use super::node::HostNode;
use crate::context::Context;
use crate::event::Event;
use crate::ids::HostId;
use crate::order::{Opening, Order};
use pauseframe_units::Time;

impl Endpoints {
    /// An order for a host of this partition, to be carried out at `at`.
    pub(crate) fn take_order(
        &mut self,
        at: Time,
        host: HostId,
        address: u32,
        order: Order,
        ctx: &mut Context,
    ) {
        let (_, orders) = self.orders.entry((at, address)).or_insert_with(|| (host, Vec::new()));
        orders.push(order);
        if orders.len() == 1 {
            ctx.schedule(at, Event::Order(address));
        }
    }

    /// What the application at an end has to do now, and at which host that is.
    pub(crate) fn due_orders(&mut self, address: u32, now: Time) -> Option<(HostId, Vec<Order>)> {
        self.orders.remove(&(now, address))
    }
}

impl HostNode<'_> {
    /// The application at an end does what is due now.
    pub(crate) fn carry_out(&mut self, address: u32, orders: Vec<Order>, ctx: &mut Context) {
        for order in orders {
            match order {
                Order::Open(opening) if opens_pair(&opening, ctx) => self.open_pair(address, &opening, ctx),
                Order::Open(opening) => self.open(address, *opening, ctx),
                Order::OpenDatagrams(opening) => self.open_datagrams(address, *opening, ctx),
                Order::AwaitDatagrams(count) => self.await_datagrams(address, count, ctx),
                Order::FreeDatagrams => self.free_datagrams(address, ctx),
                order if self.has_pair(address) => self.order_pair(address, &order, ctx),
                order => self.execute_order(address, &order, ctx),
            }
        }
    }
}

fn opens_pair(opening: &Opening, ctx: &Context) -> bool {
    ctx.settings.transports[usize::from(opening.spec.transport)].rdma.is_some()
}
