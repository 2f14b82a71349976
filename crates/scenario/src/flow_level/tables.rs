//! The two tables of a flow-level run, with the columns of docs/reference/flow-level.md.

use super::source::{Record, name};
use super::summary::utilisation;
use super::{Steady, Ways};
use crate::spec::Scenario;
use arrow_array::{ArrayRef, RecordBatch, UInt16Array, UInt32Array};
use pauseframe_fabric::FlowStatus;
use pauseframe_flowlevel::{Outcome, Paths};
use pauseframe_results::Names;
use pauseframe_results::tables::{dictionary, f64s, optional, status_name, table, u64s};
use pauseframe_topology::Topology;
use pauseframe_units::PortId;
use std::sync::Arc;

/// `flows` and `links` of a static demand.
pub(super) fn of_steady(steady: &Steady, topology: &Topology, ways: Ways) -> (RecordBatch, RecordBatch) {
    let id = |position: u16| match ways {
        Ways::Tables { tables, .. } => Some(tables.vlans()[usize::from(position)].id),
        Ways::Ecmp => None,
    };
    let count = steady.pairs.len();
    let vlan = |flow: usize| steady.vlans.as_ref().and_then(|vlans| id(vlans[flow]));
    let flows = table(vec![
        ("flow", u32s(0..count as u32), false),
        ("src", dictionary(&steady.pairs, |pair| pair.from, |node| name(topology, node)), false),
        ("dst", dictionary(&steady.pairs, |pair| pair.to, |node| name(topology, node)), false),
        ("vlan", Arc::new((0..count).map(vlan).collect::<UInt16Array>()), true),
        ("hops", u32s(steady.paths.iter().map(|path| path.len().saturating_sub(2) as u32)), false),
        ("rate_bps", f64s(steady.report.rates.iter().copied()), false),
    ]);
    (flows, links(topology, &steady.paths, &steady.report.utilisation))
}

/// `flows` and `links` of workloads.
pub(super) fn of_records(
    records: &[Record],
    outcome: &Outcome,
    topology: &Topology,
    scenario: &Scenario,
) -> (RecordBatch, RecordBatch) {
    let ended = |r: &Record| r.status != FlowStatus::Running;
    let finished = |r: &Record| r.status == FlowStatus::Finished;
    let asked = |r: &Record| (r.spec.size != u64::MAX).then_some(r.spec.size);
    let workload = |index: u16| scenario.workload[usize::from(index)].name.clone();
    let flows = table(vec![
        ("flow", u32s(0..records.len() as u32), false),
        ("workload", dictionary(records, |r| r.spec.workload, workload), false),
        ("query", Arc::new(records.iter().map(|r| r.spec.query).collect::<UInt32Array>()), true),
        ("src", dictionary(records, |r| r.spec.source, |node| name(topology, node)), false),
        ("dst", dictionary(records, |r| r.spec.destination, |node| name(topology, node)), false),
        ("size_bytes", Arc::new(records.iter().map(asked).collect::<arrow_array::UInt64Array>()), true),
        ("reply_bytes", u64s(records.iter().map(|r| r.spec.reply)), false),
        ("delivered_bytes", u64s(records.iter().map(|r| r.delivered.round() as u64)), false),
        ("status", dictionary(records, |r| status_name(r.status), str::to_string), false),
        ("vlan", Arc::new(records.iter().map(|r| r.vlan).collect::<UInt16Array>()), true),
        ("hops", u32s(records.iter().map(|r| r.hops)), false),
        ("start_us", f64s(records.iter().map(|r| r.spec.start.as_us_f64())), false),
        ("finish_us", optional(records.iter().map(|r| ended(r).then_some(r.end * 1e6))), true),
        ("fct_us", optional(records.iter().map(|r| finished(r).then_some(r.time() * 1e6))), true),
        ("ideal_fct_us", f64s(records.iter().map(|r| r.ideal * 1e6)), false),
        ("slowdown", optional(records.iter().map(Record::slowdown)), true),
        ("rate_bps", optional(records.iter().map(Record::rate)), true),
    ]);
    (flows, links(topology, &outcome.paths, &utilisation(topology, outcome)))
}

/// A row for every port that a flow uses.
fn links(topology: &Topology, paths: &Paths, utilisation: &[f64]) -> RecordBatch {
    let mut flows = vec![0_u32; topology.port_count()];
    for port in paths.iter().flatten() {
        flows[port.0 as usize] += 1;
    }
    let used: Vec<PortId> = (0..flows.len() as u32).map(PortId).filter(|p| flows[p.0 as usize] > 0).collect();
    let names = Names { topology, workloads: &[], transports: &[] };
    table(vec![
        ("port", dictionary(&used, |port| *port, |port| topology.port_name(port)), false),
        ("node", dictionary(&used, |port| topology.owner(*port), |node| name(topology, node)), false),
        ("peer", dictionary(&used, |port| topology.peer(*port), |node| name(topology, node)), false),
        ("tier", dictionary(&used, |port| names.tier(*port), str::to_string), false),
        ("rate_bps", u64s(used.iter().map(|port| topology.channel(*port).rate.0)), false),
        ("flows", u32s(used.iter().map(|port| flows[port.0 as usize])), false),
        ("utilisation", f64s(used.iter().map(|port| utilisation[port.0 as usize])), false),
    ])
}

fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}
