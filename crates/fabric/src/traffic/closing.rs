//! Flows that end, and the connections that carried them.

use super::{Traffic, ends};
use crate::flow::FlowStatus;
use crate::order::Order;
use pauseframe_units::Time;

impl Traffic {
    /// The flow is over for its applications; its connection may still have ACKs to exchange.
    pub(super) fn end_flow(&mut self, flow: u32, status: FlowStatus, at: Time) {
        if self.records.get(flow).status != FlowStatus::Running {
            return;
        }
        let record = self.records.update(flow, |record| {
            (record.status, record.end) = (status, at);
            *record
        });
        self.active = self.active.checked_sub(1).expect("a flow ended twice");
        self.finished += u64::from(status == FlowStatus::Finished);
        self.workloads[usize::from(record.spec.workload)].on_finished(&record, at);
    }

    /// An exchange is over: its connection waits for the next one, or ends.
    pub(super) fn go_on_or_close(&mut self, opener: u32, now: Time) {
        let spec = self.records.get(opener).spec;
        let is_kept = spec.kept.is_some_and(|kept| self.kept.contains_key(&(spec.workload, kept.number)));
        if is_kept {
            self.end_exchange(opener, now);
        } else {
            self.end_part(self.carried_by(opener), now);
            self.close(opener, Order::Close, now);
        }
    }

    /// Both applications have nothing more to send; the source's says so with `order`.
    pub(super) fn close(&mut self, opener: u32, order: Order, now: Time) {
        self.leave_vlans(opener);
        self.order(opener * 2, order, now);
        self.order(opener * 2 + 1, Order::Close, now);
    }

    /// A long flow stops: nothing new is sent, what is under way arrives.
    pub(super) fn stop(&mut self, flow: u32, now: Time) {
        let record = self.records.get(flow);
        if record.status == FlowStatus::Running {
            self.end_flow(flow, FlowStatus::Stopped, now);
            self.close(flow, Order::Stop, now);
            self.schedule(record.spec.workload, now);
        }
    }

    /// Nothing is under way from one end; when that is so at both, they go.
    pub(super) fn on_drained(&mut self, address: u32, now: Time) {
        let opener = address / 2;
        let Some(open) = self.open.get_mut(&opener) else { return };
        open.quiet[(address & 1) as usize] = true;
        if open.quiet == [true; 2] {
            self.order(opener * 2, Order::Free, now);
            self.order(opener * 2 + 1, Order::Free, now);
            self.forget_connection(opener, now);
        }
    }

    /// The connection or flow of datagrams that `opener` opened is no more.
    pub(super) fn forget_connection(&mut self, opener: u32, now: Time) {
        self.leave_vlans(opener);
        let Some(open) = self.open.remove(&opener) else { return };
        if self.rows.are_used() {
            for route in open.routes.into_iter().filter(|route| *route != u32::MAX) {
                self.rows.retire(route, now);
            }
        }
    }

    /// Its ends are no load of their VLANs any more.
    pub(super) fn leave_vlans(&mut self, opener: u32) {
        let spec = self.records.get(opener).spec;
        let (Some(vlans), Some(open)) = (&mut self.vlans, self.open.get_mut(&opener)) else { return };
        for (side, vlan) in (0..).zip(&mut open.vlans) {
            if let Some(vlan) = vlan.take() {
                vlans.leave(vlan, ends(&spec, side));
            }
        }
    }

    /// The destination of datagrams that are over is told how many datagrams there are to come.
    pub(super) fn await_datagrams(&mut self, flow: u32, now: Time) {
        let Some(open) = self.open.get(&flow) else { return };
        let Some((_, left)) = open.over else { return };
        let order = Order::AwaitDatagrams(left - open.lost);
        self.order(flow * 2 + 1, order, now);
    }

    /// The connection that `opener` opened takes no further flow.
    pub(super) fn forget_kept(&mut self, opener: u32) {
        self.kept.retain(|_, open| *open != opener);
    }
}
