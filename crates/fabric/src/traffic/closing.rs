//! Ends of flows and of their connections.

use super::Traffic;
use crate::flow::FlowStatus;
use crate::order::EndpointOrder;
use crate::records::FIRST_PART;
use pauseframe_units::Time;

impl Traffic {
    /// Ends a flow for its applications; its connection may still exchange ACKs.
    pub(super) fn end_flow(&mut self, flow: u32, status: FlowStatus, at: Time) {
        if flow >= FIRST_PART {
            self.end_part(flow, status, at);
            return;
        }
        if self.records.flow_record(flow).status != FlowStatus::Running {
            return;
        }
        let record = self.records.update(flow, |record| {
            (record.status, record.end) = (status, at);
            *record
        });
        self.active = self.active.checked_sub(1).expect("a flow ended twice");
        self.finished += u64::from(status == FlowStatus::Finished);
        self.workloads[usize::from(record.spec.workload)].on_flow_finished(&record, at);
    }

    /// After an exchange, keeps its connection for the next one or closes it.
    pub(super) fn reuse_or_close(&mut self, opener: u32, now: Time) {
        if self.open.get(&opener).is_some_and(|open| !open.operations.is_empty()) {
            return;
        }
        let spec = self.records.flow_record(opener).spec;
        let is_kept = spec.kept.is_some_and(|kept| self.kept.contains_key(&(spec.workload, kept.number)));
        if is_kept {
            self.end_exchange(opener, now);
        } else {
            self.register_flow_end(self.current_flow(opener), now);
            self.close_connection(opener, false, now);
        }
    }

    /// Closes a connection at both endpoints, with all of its queue pairs; the source discards what it has not sent if `stops`.
    pub(super) fn close_connection(&mut self, opener: u32, stops: bool, now: Time) {
        // The subflows of an MPTCP connection are closed by it.
        let own = opener..opener + 1;
        let carriers = if self.open.contains_key(&opener) { own } else { self.records.carriers(opener) };
        for carrier in
            carriers.filter(|one| *one == opener || self.open.contains_key(one)).collect::<Vec<_>>()
        {
            let order = if stops { EndpointOrder::Stop } else { EndpointOrder::Close };
            self.remove_vlan_load(carrier);
            self.send_order(carrier * 2, order, now);
            self.send_order(carrier * 2 + 1, EndpointOrder::Close, now);
        }
    }

    /// Stops a long flow: no new data are sent, data in flight still arrive.
    pub(super) fn stop_flow(&mut self, flow: u32, now: Time) {
        let record = self.records.flow_record(flow);
        if record.status == FlowStatus::Running {
            if self.is_within_server(flow) {
                self.stop_within_server(flow, now);
                return;
            }
            self.end_flow(flow, FlowStatus::Stopped, now);
            self.close_connection(flow, true, now);
            self.schedule_next_start(record.spec.workload, now);
        }
    }

    /// One endpoint has nothing in flight; frees both endpoints when this holds for both.
    pub(super) fn on_endpoint_drained(&mut self, endpoint_key: u32, now: Time) {
        let opener = endpoint_key / 2;
        let Some(open) = self.open.get_mut(&opener) else { return };
        open.quiet[(endpoint_key & 1) as usize] = true;
        if open.quiet == [true; 2] {
            self.send_order(opener * 2, EndpointOrder::Free, now);
            self.send_order(opener * 2 + 1, EndpointOrder::Free, now);
            self.remove_connection(opener, now);
        }
    }

    /// Removes the connection or datagram flow that `opener` opened.
    pub(super) fn remove_connection(&mut self, opener: u32, now: Time) {
        self.remove_vlan_load(opener);
        let Some(open) = self.open.remove(&opener) else { return };
        if opener >= FIRST_PART && !self.is_subflow(opener) {
            self.forget_part(opener);
        }
        if let Some(host_ports) = &mut self.host_ports {
            let loaded = open.ports.iter().zip(open.loads).filter(|(_, loads)| *loads);
            loaded.for_each(|([from, _], _)| host_ports.count_open(*from, false));
        }
        if self.rows.packets_carry_paths() {
            let further = open.ways.iter().flatten().map(|way| way.route);
            for route in open.routes.into_iter().filter(|route| *route != u32::MAX).chain(further) {
                self.rows.schedule_retirement(route, now);
            }
        }
    }

    /// Removes the load of its endpoints from their VLANs.
    pub(super) fn remove_vlan_load(&mut self, opener: u32) {
        let (Some(vlans), Some(open)) = (&mut self.vlans, self.open.get_mut(&opener)) else { return };
        for (ports, vlan) in open.ports.iter().zip(&mut open.vlans) {
            if let Some(vlan) = vlan.take() {
                vlans.remove_load(vlan, *ports);
            }
        }
    }

    /// Tells the sink of a finished datagram flow how many datagrams to expect.
    pub(super) fn send_datagram_count(&mut self, flow: u32, now: Time) {
        let Some(open) = self.open.get(&flow) else { return };
        let Some((_, left)) = open.over else { return };
        let order = EndpointOrder::AwaitDatagrams(left - open.lost);
        self.send_order(flow * 2 + 1, order, now);
    }

    /// The connection that `opener` opened carries no further flow.
    pub(super) fn stop_keeping_connection(&mut self, opener: u32) {
        self.kept.retain(|_, open| *open != opener);
    }
}
