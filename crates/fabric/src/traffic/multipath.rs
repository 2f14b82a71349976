//! MPTCP connections: a flow has an endpoint at each host and subflows, which are flows of TCP with numbers from
//! [`FIRST_PART`](crate::records::FIRST_PART) on. Each has its own numbers, source port, path and port of the host.

use super::Traffic;
use super::opening::PortsOfFlow;
use crate::flow::FlowRecord;
use crate::order::{EndpointExchange, MultipathRole};
use crate::records::FIRST_PART;
use pauseframe_units::{NodeId, Span, Time};

impl Traffic {
    /// Whether a flow number is one of a subflow, open or not.
    pub(super) fn is_subflow(&self, number: u32) -> bool {
        let of_connection =
            || self.plan.settings.subflows(self.records.flow_record(number).spec.transport) > 1;
        number >= FIRST_PART && of_connection()
    }

    /// Opens both ends of a connection and of its subflows; returns the ports, by side, that packets of each would leave and reach in the intact
    /// network.
    pub(super) fn open_multipath(
        &mut self,
        flow: u32,
        ports: &PortsOfFlow,
        exchanges: [EndpointExchange; 2],
        now: Time,
    ) -> Vec<[[NodeId; 2]; 2]> {
        let spec = self.records.flow_record(flow).spec;
        let count = self.plan.settings.subflows(spec.transport);
        let record = FlowRecord::new(spec, Span::ZERO, now);
        let parts = self.records.push_parts(flow, &vec![record; count as usize]);
        let mappings = parts.clone().map(|_| Default::default()).collect();
        let role = MultipathRole::Connection { first_part: parts.start, mappings };
        self.open_both_endpoints(flow, ports, exchanges, &role, now);
        let mut ways = Vec::new();
        for part in parts.clone() {
            let ports = self.ports_of_flow(&spec, part, None);
            ways.push(ports.intact_ways());
            let [way, back] = ports.ways();
            self.new_hosts_of_parts.push([way[0], back[0]]);
            // The connection writes and reads.
            let nothing = EndpointExchange {
                flow: part,
                writes: 0,
                expects: u64::MAX,
                reply: 0,
                reply_delay: Span::ZERO,
                operation: None,
            };
            let role = MultipathRole::Subflow { of: flow, is_first: part == parts.start };
            self.open_both_endpoints(part, &ports, [nothing; 2], &role, now);
        }
        ways
    }
}
