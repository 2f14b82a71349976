//! The tables `flows` and `links` of a flow-level run, column by column.

use super::Ways;
use super::source::{Record, name};
use super::steady::Steady;
use arrow_array::{UInt16Array, UInt32Array, UInt64Array};
use pauseframe_fabric::FlowStatus;
use pauseframe_flowlevel::Paths;
use pauseframe_results::column::{ColumnDoc, Columns, dictionary, f64s, optional, u32s, u64s};
use pauseframe_results::tables::status_name;
use pauseframe_results::{Names, columns};
use pauseframe_topology::Topology;
use pauseframe_units::PortId;
use std::sync::Arc;

/// The `flows` table of a static demand.
pub(super) fn flows_of_steady(steady: &Steady, topology: &Topology, ways: Ways) -> Columns {
    let id = |position: u16| match ways {
        Ways::Tables { tables, .. } => Some(tables.vlans()[usize::from(position)].id),
        Ways::Ecmp => None,
    };
    let count = steady.pairs.len();
    let vlan = |flow: usize| steady.vlans.as_ref().and_then(|vlans| id(vlans[flow]));
    columns! {
        /// Number
        flow = u32s(0..count as u32);
        /// Sending host
        src = dictionary(&steady.pairs, |pair| pair.from, |node| name(topology, node));
        /// Node that receives
        dst = dictionary(&steady.pairs, |pair| pair.to, |node| name(topology, node));
        /// Number of the VLAN, with `--tables`
        vlan or null = Arc::new((0..count).map(vlan).collect::<UInt16Array>());
        /// Links between switches on the path
        hops = u32s(steady.paths.iter().map(|path| path.len().saturating_sub(2) as u32));
        /// The max-min fair rate
        rate_bps = f64s(steady.report.rates.iter().copied());
    }
}

/// The `flows` table of a run with workloads.
pub(super) fn flows_of_records(records: &[Record], names: &Names) -> Columns {
    let ended = |r: &Record| r.status != FlowStatus::Running;
    let finished = |r: &Record| r.status == FlowStatus::Finished;
    let asked = |r: &Record| (r.spec.size != u64::MAX).then_some(r.spec.size);
    columns! {
        /// Number, in order of start
        flow = u32s(0..records.len() as u32);
        /// Name of the workload
        workload = dictionary(records, |r| r.spec.workload, |w| names.workloads[usize::from(w)].clone());
        /// Number of its query
        query or null = Arc::new(records.iter().map(|r| r.spec.query).collect::<UInt32Array>());
        /// Host that opens the connection
        src = dictionary(records, |r| r.spec.source, |node| names.node(node));
        /// Host that accepts it
        dst = dictionary(records, |r| r.spec.destination, |node| names.node(node));
        /// Application bytes from src to dst; null for a long flow
        size_bytes or null = Arc::new(records.iter().map(asked).collect::<UInt64Array>());
        /// Application bytes back
        reply_bytes = u64s(records.iter().map(|r| r.spec.reply));
        /// Bytes delivered, both directions
        delivered_bytes = u64s(records.iter().map(|r| r.delivered.round() as u64));
        /// finished, running, stopped
        status = dictionary(records, |r| status_name(r.status), str::to_string);
        /// Number of the VLAN, with `--tables`
        vlan or null = Arc::new(records.iter().map(|r| r.vlan).collect::<UInt16Array>());
        /// Links between switches on the path
        hops = u32s(records.iter().map(|r| r.hops));
        /// Start time
        start_us = f64s(records.iter().map(|r| r.spec.start.as_us_f64()));
        /// When the last byte arrived; null unless finished or stopped
        finish_us or null = optional(records.iter().map(|r| ended(r).then_some(r.end * 1e6)));
        /// Completion time: finish - start, of finished flows
        fct_us or null = optional(records.iter().map(|r| finished(r).then_some(r.time() * 1e6)));
        /// Time of request and reply at the rate of the slowest link of their paths; 0 for flows of unlimited size and datagrams
        ideal_fct_us = f64s(records.iter().map(|r| r.ideal * 1e6));
        /// fct / ideal, at least 1
        slowdown or null = optional(records.iter().map(Record::slowdown));
        /// Delivered bits over the duration of the flow
        rate_bps or null = optional(records.iter().map(Record::rate));
    }
}

/// The `links` table, with one row for every port that a flow uses.
pub(super) fn links(names: &Names, paths: &Paths, utilisation: &[f64]) -> Columns {
    let topology = names.topology;
    let mut flows = vec![0_u32; topology.port_count()];
    for port in paths.iter().flatten() {
        flows[port.0 as usize] += 1;
    }
    let used: Vec<PortId> = (0..flows.len() as u32).map(PortId).filter(|p| flows[p.0 as usize] > 0).collect();
    columns! {
        /// "edge0:3": node, colon, port number at the node
        port = dictionary(&used, |port| *port, |port| topology.port_name(port));
        /// Node that transmits
        node = dictionary(&used, |port| topology.owner(*port), |node| names.node(node));
        /// Node that receives
        peer = dictionary(&used, |port| topology.peer(*port), |node| names.node(node));
        /// "host", "switch-host", "switch-switch": what the port connects
        tier = dictionary(&used, |port| names.tier(*port), str::to_string);
        /// Rate of the link in this direction
        rate_bps = u64s(used.iter().map(|port| topology.channel(*port).rate.0));
        /// Number of flows (requests and replies count separately)
        flows = u32s(used.iter().map(|port| flows[port.0 as usize]));
        /// Used share of the rate (static), or its mean over the run
        utilisation = f64s(used.iter().map(|port| utilisation[port.0 as usize]));
    }
}

/// The columns of the flow-level tables for the reference.
pub fn reference() -> Vec<(&'static str, Vec<ColumnDoc>)> {
    let topology = Topology::new();
    let names = Names { topology: &topology, workloads: &[], transports: &[] };
    let tables = [
        ("flows of workloads", flows_of_records(&[], &names)),
        ("flows of a static demand", flows_of_steady(&Steady::default(), &topology, Ways::Ecmp)),
        ("links", links(&names, &Paths::default(), &[])),
    ];
    tables.into_iter().map(|(name, columns)| (name, columns.reference())).collect()
}
