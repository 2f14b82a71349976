//! The tables of flows, queries, ports and throughput in Arrow's memory layout, with the columns of docs/reference/results.md.
//!
//! Names are dictionary-encoded, in the order of their first row.

use super::rows::{DropsByReason, Names};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use pauseframe_fabric::{Entity, FlowRecord, FlowStatus, PortReport, QueryRecord, Throughput};
use pauseframe_topology::NodeKind;
use pauseframe_transport::Failure;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A column's name, its values, and whether it may hold nulls.
type Column = (&'static str, ArrayRef, bool);

/// The `flows` table: a row a flow, its number being its position in `records`.
pub fn flows(records: &[FlowRecord], names: &Names) -> RecordBatch {
    let us = |value: fn(&FlowRecord) -> Option<f64>| optional(records.iter().map(value));
    let counts = |value: fn(&FlowRecord) -> u64| u64s(records.iter().map(value));
    table(vec![
        ("flow", Arc::new(UInt32Array::from_iter_values(0..records.len() as u32)), false),
        (
            "workload",
            dictionary(records, |r| r.spec.workload, |w| names.workloads[w as usize].clone()),
            false,
        ),
        (
            "transport",
            dictionary(records, |r| r.spec.transport, |t| names.transports[t as usize].clone()),
            false,
        ),
        ("query", Arc::new(records.iter().map(|r| r.spec.query).collect::<UInt32Array>()), true),
        ("src", dictionary(records, |r| r.spec.source, |node| names.node(node)), false),
        ("dst", dictionary(records, |r| r.spec.destination, |node| names.node(node)), false),
        ("size_bytes", Arc::new(records.iter().map(asked_size).collect::<UInt64Array>()), true),
        ("reply_bytes", counts(|r| r.spec.reply), false),
        ("delivered_bytes", counts(|r| r.delivered), false),
        ("status", dictionary(records, |r| status_name(r.status), str::to_string), false),
        ("start_us", f64s(records.iter().map(|r| r.spec.start.as_us_f64())), false),
        ("finish_us", us(finish_us), true),
        ("fct_us", us(|r| completion_time(r).map(Span::as_us_f64)), true),
        ("ideal_fct_us", f64s(records.iter().map(|r| r.ideal.as_us_f64())), false),
        ("slowdown", us(flow_slowdown), true),
        (
            "retransmits",
            Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.retransmits))),
            false,
        ),
        ("timeouts", Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.timeouts))), false),
        (
            "loss_probes",
            Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.loss_probes))),
            false,
        ),
        ("undone", Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.undone))), false),
        ("ce_packets", counts(|r| r.ce_packets), false),
        ("datagrams_sent", counts(|r| r.datagrams.sent), false),
        ("datagrams_lost", counts(|r| r.datagrams.lost), false),
        ("datagram_bytes_sent", counts(|r| r.datagrams.sent_bytes), false),
        ("datagram_bytes_lost", counts(|r| r.datagrams.lost_bytes), false),
        ("connect_us", optional(records.iter().map(connect_us)), true),
        ("failure", dictionary(records, |r| failure_name(r), str::to_string), false),
    ])
}

/// The `queries` table: a row a partition-aggregate job.
pub fn queries(records: &[QueryRecord], names: &Names) -> RecordBatch {
    let us = |value: fn(&QueryRecord) -> Option<f64>| optional(records.iter().map(value));
    table(vec![
        ("query", Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.query))), false),
        ("workload", dictionary(records, |r| r.workload, |w| names.workloads[w as usize].clone()), false),
        ("aggregator", dictionary(records, |r| r.aggregator, |node| names.node(node)), false),
        ("fan_in", Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.fan_in))), false),
        ("response_bytes", u64s(records.iter().map(|r| r.response)), false),
        ("start_us", f64s(records.iter().map(|r| r.start.as_us_f64())), false),
        ("finish_us", us(|r| r.finish.map(pauseframe_units::Time::as_us_f64)), true),
        ("fct_us", us(|r| query_time(r).map(Span::as_us_f64)), true),
        ("ideal_fct_us", f64s(records.iter().map(|r| r.ideal.as_us_f64())), false),
        ("slowdown", us(|r| query_time(r).and_then(|time| ratio(time, r.ideal))), true),
        ("timeouts", Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.timeouts))), false),
    ])
}

/// The `throughput` table of a run that ended at `end`: a row an interval and workload.
pub fn throughput(counted: &Throughput, names: &Names, end: Time) -> RecordBatch {
    let every = counted.every().0;
    let us = |number: u64| Time(number.saturating_mul(every)).min(end).as_us_f64();
    let rows: Vec<(u64, usize, u64)> = (0..)
        .zip(counted.intervals())
        .flat_map(|(number, row)| {
            row.iter().enumerate().map(move |(workload, bytes)| (number, workload, *bytes))
        })
        .collect();
    table(vec![
        ("start_us", f64s(rows.iter().map(|row| us(row.0))), false),
        ("end_us", f64s(rows.iter().map(|row| us(row.0 + 1))), false),
        ("workload", dictionary(&rows, |row| row.1, |workload| names.workloads[workload].clone()), false),
        ("received_bytes", u64s(rows.iter().map(|row| row.2)), false),
    ])
}

/// The `ports` table after a run of length `run`: a row a report.
pub fn ports(reports: &[PortReport], names: &Names, run: Span) -> RecordBatch {
    let counts = |value: fn(&PortReport) -> u64| u64s(reports.iter().map(value));
    let drops = |value: fn(DropsByReason) -> u64| u64s(reports.iter().map(|r| value(DropsByReason::of(r))));
    let topology = names.topology;
    // Of a run of no length every share is 0.
    let share = |part: Span| if run == Span::ZERO { 0.0 } else { part.0 as f64 / run.0 as f64 };
    let priorities = reports.iter().map(|r| r.priority.code_point());
    table(vec![
        ("port", dictionary(reports, |r| r.port, |port| topology.port_name(port)), false),
        ("node", dictionary(reports, |r| topology.owner(r.port), |node| names.node(node)), false),
        ("peer", dictionary(reports, |r| topology.peer(r.port), |node| names.node(node)), false),
        ("tier", dictionary(reports, |r| names.tier(r.port), str::to_string), false),
        ("priority", Arc::new(UInt8Array::from_iter_values(priorities)), false),
        ("rate_bps", u64s(reports.iter().map(|r| topology.channel(r.port).rate.0)), false),
        ("tx_packets", counts(|r| r.tx_packets), false),
        ("tx_bytes", counts(|r| r.tx_bytes), false),
        ("utilisation", f64s(reports.iter().map(|r| share(r.busy))), false),
        ("drops_buffer_full", drops(|drops| drops.buffer_full), false),
        ("drops_headroom_exceeded", drops(|drops| drops.headroom_exceeded), false),
        ("drops_not_ect", drops(|drops| drops.not_ect), false),
        ("drops_link_down", drops(|drops| drops.link_down), false),
        ("drops_corrupted", drops(|drops| drops.corrupted), false),
        ("drops_watchdog", drops(|drops| drops.watchdog), false),
        ("ecn_marks", counts(|r| r.ecn_marks), false),
        ("backlog_max_bytes", counts(|r| r.backlog_max), false),
        ("backlog_mean_bytes", f64s(reports.iter().map(|r| r.backlog_mean)), false),
        ("ingress_max_bytes", counts(|r| r.ingress_max), false),
        ("pauses_sent", counts(|r| r.pauses_sent), false),
        ("pauses_received", counts(|r| r.pauses_received), false),
        ("resumes_received", counts(|r| r.resumes_received), false),
        ("paused_us", f64s(reports.iter().map(|r| r.paused.as_us_f64())), false),
        ("paused_longest_us", f64s(reports.iter().map(|r| r.paused_longest.as_us_f64())), false),
        ("cnms_sent", counts(|r| r.cnms_sent), false),
        ("cnms_received", counts(|r| r.cnms_received), false),
        ("watchdog_storms", counts(|r| r.watchdog_storms), false),
    ])
}

impl Names<'_> {
    /// Its name.
    pub fn node(&self, node: NodeId) -> String {
        self.topology.nodes()[node].name.clone()
    }

    pub(super) fn entity(&self, entity: Entity) -> String {
        match entity {
            Entity::PortPriority(port, priority) => format!("{}/p{priority}", self.topology.port_name(port)),
            Entity::Flow(flow) => format!("flow {flow}"),
        }
    }

    /// What a port connects, as its transmitter sees it.
    pub fn tier(&self, port: PortId) -> &'static str {
        let kind = |node| self.topology.nodes()[node].kind;
        match (kind(self.topology.owner(port)), kind(self.topology.peer(port))) {
            (NodeKind::Host, _) => "host",
            (NodeKind::Switch, NodeKind::Host) => "switch-host",
            (NodeKind::Switch, NodeKind::Switch) => "switch-switch",
        }
    }
}

/// How long a finished flow took. Connections of applications have no time of their own, and no ideal one: they are
/// open as long as their application.
pub(super) fn completion_time(record: &FlowRecord) -> Option<Span> {
    let has_one = record.status == FlowStatus::Finished && record.ideal > Span::ZERO;
    has_one.then(|| record.end - record.spec.start)
}

/// How long the handshake took, from the SYN to the SYN-ACK at the source.
fn connect_us(record: &FlowRecord) -> Option<f64> {
    record.connected.map(|time| (time - record.spec.start).as_us_f64())
}

/// Completion time over ideal completion time of a finished flow.
pub(super) fn flow_slowdown(record: &FlowRecord) -> Option<f64> {
    completion_time(record).and_then(|time| ratio(time, record.ideal))
}

/// How long a finished job took.
pub(super) fn query_time(record: &QueryRecord) -> Option<Span> {
    record.finish.map(|finish| finish - record.start)
}

fn ratio(time: Span, ideal: Span) -> Option<f64> {
    (ideal > Span::ZERO).then(|| time.0 as f64 / ideal.0 as f64)
}

fn finish_us(record: &FlowRecord) -> Option<f64> {
    matches!(record.status, FlowStatus::Finished | FlowStatus::Stopped).then(|| record.end.as_us_f64())
}

/// A long flow has no size of its own.
fn asked_size(record: &FlowRecord) -> Option<u64> {
    (record.spec.size != u64::MAX).then_some(record.spec.size)
}

/// What the tables call a status.
pub fn status_name(status: FlowStatus) -> &'static str {
    match status {
        FlowStatus::Finished => "finished",
        FlowStatus::Running => "running",
        FlowStatus::Stopped => "stopped",
        FlowStatus::Failed => "failed",
    }
}

/// Why a flow failed, or "".
fn failure_name(record: &FlowRecord) -> &'static str {
    match record.failure {
        None => "",
        Some(Failure::SynTimeout) => "syn_timeout",
        Some(Failure::DataTimeout) => "data_timeout",
        Some(Failure::Refused) => "refused",
        Some(Failure::Reset) => "reset",
    }
}

/// A table of these columns.
pub fn table(columns: Vec<Column>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns).expect("all columns come from the same rows")
}

/// A column of whole numbers.
pub fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// A column of numbers.
pub fn f64s(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// A column of numbers with gaps.
pub fn optional(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

/// A dictionary-encoded column of texts: each thing is named once.
pub fn dictionary<R, K: Ord + Copy>(
    rows: &[R],
    key: impl Fn(&R) -> K,
    name: impl Fn(K) -> String,
) -> ArrayRef {
    let mut numbers = BTreeMap::new();
    let mut names = Vec::new();
    let number = |row| {
        let key = key(row);
        *numbers.entry(key).or_insert_with(|| {
            names.push(name(key));
            names.len() as i32 - 1
        })
    };
    let keys = Int32Array::from_iter_values(rows.iter().map(number));
    let names = StringArray::from(names);
    Arc::new(
        DictionaryArray::<Int32Type>::try_new(keys, Arc::new(names))
            .expect("every key is a position in names"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::rows::idle_report;
    use super::super::series::Series;
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
    use pauseframe_fabric::FlowSpec;
    use pauseframe_topology::{Channel, Topology};
    use pauseframe_units::BitRate;

    fn topology() -> Topology {
        let channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };
        let mut topology = Topology::new();
        let nodes = [("a", NodeKind::Host), ("s", NodeKind::Switch), ("t", NodeKind::Switch)];
        let [a, s, t] = nodes.map(|(name, kind)| topology.add_node(name, kind, None));
        topology.add_link(a, s, channel);
        topology.add_link(s, t, channel);
        topology
    }

    fn names<'a>(topology: &'a Topology, labels: &'a [String]) -> Names<'a> {
        Names { topology, workloads: labels, transports: labels }
    }

    fn labels() -> Vec<String> {
        vec!["zero".into(), "one".into()]
    }

    /// Column `name` as texts.
    fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
        let column = batch.column_by_name(name).unwrap().as_dictionary::<Int32Type>();
        let column = column.downcast_dict::<StringArray>().unwrap();
        column.into_iter().map(|text| text.unwrap().to_string()).collect()
    }

    fn floats(batch: &RecordBatch, name: &str) -> Vec<Option<f64>> {
        batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().iter().collect()
    }

    fn record(status: FlowStatus, size: u64, query: Option<u32>) -> FlowRecord {
        FlowRecord {
            spec: FlowSpec {
                source: NodeId(0),
                destination: NodeId(2),
                size,
                reply: 5,
                start: Time::ZERO + Span::from_us(10),
                stop: None,
                transport: 0,
                workload: 1,
                query,
                kept: None,
                reply_delay: Span::ZERO,
            },
            status,
            end: Time::ZERO + Span::from_us(40),
            delivered: 105,
            ideal: Span::from_us(20),
            retransmits: 3,
            timeouts: 2,
            loss_probes: 1,
            undone: 1,
            ce_packets: 7,
            datagrams: pauseframe_fabric::Datagrams::default(),
            connected: None,
            failure: None,
        }
    }

    #[test]
    fn flows_have_completion_times_only_when_finished() {
        use FlowStatus::{Failed, Finished, Running, Stopped};
        let records = [
            record(Finished, 100, Some(4)),
            record(Running, 100, None),
            record(Stopped, u64::MAX, None),
            record(Failed, 100, None),
        ];
        let batch = flows(&records, &names(&topology(), &labels()));
        assert_eq!(texts(&batch, "status"), ["finished", "running", "stopped", "failed"]);
        assert_eq!(floats(&batch, "finish_us"), [Some(40.0), None, Some(40.0), None]);
        assert_eq!(floats(&batch, "fct_us"), [Some(30.0), None, None, None]);
        assert_eq!(floats(&batch, "slowdown"), [Some(1.5), None, None, None]);
        assert_eq!(texts(&batch, "workload")[0], "one");
        assert_eq!((texts(&batch, "src")[0].as_str(), texts(&batch, "dst")[0].as_str()), ("a", "t"));
        let sizes = batch.column_by_name("size_bytes").unwrap().as_primitive::<UInt64Type>();
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [Some(100), Some(100), None, Some(100)]);
        let queries = batch.column_by_name("query").unwrap().as_primitive::<UInt32Type>();
        assert_eq!(queries.iter().collect::<Vec<_>>(), [Some(4), None, None, None]);
    }

    #[test]
    fn the_columns_are_those_of_the_reference() {
        // Every table's section names its columns in the order of the batch.
        let reference = include_str!("../../../docs/reference/results.md");
        let (topology, labels) = (topology(), labels());
        let names = names(&topology, &labels);
        for (section, batch) in [
            ("## flows", flows(&[], &names)),
            ("## queries", queries(&[], &names)),
            ("## ports", ports(&[], &names, Span::ZERO)),
            ("## jobs", super::super::jobs::jobs(&[], &names)),
            ("## ranks", super::super::jobs::ranks(&[], &names)),
            ("## series", Series::begin(None, &names, 0).unwrap().into_table(&names)),
        ] {
            let text = reference.split(section).nth(1).unwrap().split("\n## ").next().unwrap();
            let mut rest = text;
            for field in batch.schema().fields() {
                let found = rest.find(field.name().as_str());
                let position =
                    found.unwrap_or_else(|| panic!("{section}: {} is not there in order", field.name()));
                rest = &rest[position + field.name().len()..];
            }
        }
    }

    #[test]
    fn queries_without_a_finish_have_no_times() {
        let query = QueryRecord {
            query: 3,
            workload: 0,
            aggregator: NodeId(0),
            fan_in: 10,
            response: 2000,
            start: Time::ZERO + Span::from_us(5),
            finish: Some(Time::ZERO + Span::from_us(15)),
            ideal: Span::from_us(4),
            timeouts: 1,
        };
        let batch = queries(&[query, QueryRecord { finish: None, ..query }], &names(&topology(), &labels()));
        assert_eq!(floats(&batch, "fct_us"), [Some(10.0), None]);
        assert_eq!(floats(&batch, "slowdown"), [Some(2.5), None]);
        assert_eq!(texts(&batch, "aggregator"), ["a", "a"]);
    }

    #[test]
    fn ports_show_shares_of_the_run_and_drops_by_reason() {
        let busy = PortReport {
            busy: Span::from_us(25),
            backlog_mean: 2000.0,
            drops: [1, 2, 3],
            paused: Span::from_us(9),
            ..idle_report(2)
        };
        let batch = ports(
            &[busy, idle_report(0), idle_report(1)],
            &names(&topology(), &labels()),
            Span::from_us(100),
        );
        assert_eq!(texts(&batch, "port"), ["s:1", "a:0", "s:0"]);
        assert_eq!(texts(&batch, "tier"), ["switch-switch", "host", "switch-host"]);
        assert_eq!(texts(&batch, "peer"), ["t", "s", "a"]);
        assert_eq!(floats(&batch, "utilisation")[0], Some(0.25));
        assert_eq!(floats(&batch, "backlog_mean_bytes")[0], Some(2000.0));
        assert_eq!(floats(&batch, "paused_us")[0], Some(9.0));
        let first = |name| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().value(0);
        assert_eq!(first("rate_bps"), 10_000_000_000);
        let drops = ["drops_buffer_full", "drops_headroom_exceeded", "drops_not_ect"].map(first);
        assert_eq!(drops, [1, 2, 3]);
    }
}
