//! What the applications of hosts do, when it is due.

use super::Endpoints;
use crate::event::Event;
use crate::near::Near;
use crate::order::Order;
use crate::wire::Ports;
use pauseframe_units::Time;

impl Endpoints {
    /// An order for a host of this cell, to be carried out at `at`.
    pub(crate) fn take_order(&mut self, at: Time, address: u32, order: Order, near: &mut Near) {
        let orders = self.orders.entry((at, address)).or_default();
        orders.push(order);
        if orders.len() == 1 {
            near.schedule(at, Event::Order(address));
        }
    }

    /// The application at an end does what is due now.
    pub(crate) fn on_order(&mut self, address: u32, ports: &mut Ports, near: &mut Near) {
        for order in self.orders.remove(&(near.now(), address)).unwrap_or_default() {
            match order {
                Order::Open(opening) => self.open(address, *opening, ports, near),
                Order::OpenDatagrams(opening) => self.open_datagrams(address, *opening, ports, near),
                Order::AwaitDatagrams(count) => self.await_datagrams(address, count, near),
                Order::FreeDatagrams => self.free_datagrams(address, near),
                order => self.order_end(address, &order, ports, near),
            }
        }
    }
}
