//! The tables of flows, queries, ports and throughput, column by column.

use super::column::{Columns, dictionary, dictionary_of, f64s, optional, u8s, u32s, u64s};
use super::rows::{DropsByReason, Names};
use crate::columns;
use arrow_array::{UInt32Array, UInt64Array};
use pauseframe_fabric::{Entity, FlowRecord, FlowRecords, FlowStatus, PortReport, QueryRecord};
use pauseframe_topology::NodeKind;
use pauseframe_transport::Failure;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::ops::Range;
use std::sync::Arc;

/// The `flows` table: a row a flow, for the flows of some numbers.
pub fn flows(records: &FlowRecords, rows: Range<usize>, names: &Names) -> Columns {
    let numbers = rows.start as u32..rows.end as u32;
    let all = || records.range(rows.clone());
    let us = |value: fn(&FlowRecord) -> Option<f64>| optional(all().map(|r| value(&r)));
    let counts = |value: fn(&FlowRecord) -> u64| u64s(all().map(|r| value(&r)));
    let few = |value: fn(&FlowRecord) -> u32| u32s(all().map(|r| value(&r)));
    let node = |value: fn(&FlowRecord) -> NodeId| dictionary_of(all().map(|r| value(&r)), |n| names.node(n));
    columns! {
        /// Number, in the order of starts
        flow = u32s(numbers);
        /// Name of the workload
        workload = dictionary_of(all().map(|r| r.spec.workload), |w| names.workloads[w as usize].clone());
        /// Name of the transport
        transport = dictionary_of(all().map(|r| r.spec.transport), |t| names.transports[t as usize].clone());
        /// The query that it belongs to, by its number in `queries`
        query or null = Arc::new(all().map(|r| r.spec.query).collect::<UInt32Array>());
        /// Who opens the connection
        src = node(|r| r.spec.source);
        /// Who accepts it
        dst = node(|r| r.spec.destination);
        /// Application bytes from src to dst; null for a long flow
        size_bytes or null = Arc::new(all().map(|r| asked_size(&r)).collect::<UInt64Array>());
        /// Application bytes back
        reply_bytes = counts(|r| r.spec.reply);
        /// In-order bytes delivered, both directions
        delivered_bytes = counts(|r| r.delivered);
        /// finished, running, stopped, failed
        status = dictionary_of(all().map(|r| status_name(r.status)), str::to_string);
        /// When the source opened the connection
        start_us = f64s(all().map(|r| r.spec.start.as_us_f64()));
        /// When the last byte reached its application; null unless finished or stopped
        finish_us or null = us(finish_us);
        /// Completion time: finish - start, of finished flows
        fct_us or null = us(|r| completion_time(r).map(Span::as_us_f64));
        /// The flow alone in the idle network with an unlimited window
        ideal_fct_us = f64s(all().map(|r| r.ideal.as_us_f64()));
        /// fct / ideal
        slowdown or null = us(flow_slowdown);
        /// Segments sent again; on a kept connection until its job is complete
        retransmits = few(|r| r.retransmits);
        /// Retransmission timeouts; on a kept connection until its job is complete
        timeouts = few(|r| r.timeouts);
        /// Tail loss probes sent; on a kept connection until its job is complete
        loss_probes = few(|r| r.loss_probes);
        /// Of the retransmits, those of the end that replies
        reply_retransmits = few(|r| r.of_reply.retransmits);
        /// Of the timeouts, those of the end that replies
        reply_timeouts = few(|r| r.of_reply.timeouts);
        /// Of the loss probes, those of the end that replies
        reply_loss_probes = few(|r| r.of_reply.loss_probes);
        /// Window reductions taken back as needless (D-SACK, F-RTO)
        undone = few(|r| r.undone);
        /// Data packets that arrived marked, datagrams included
        ce_packets = counts(|r| r.ce_packets);
        /// Datagrams that the application of a UDP flow sent; 0 for connections
        datagrams_sent = counts(|r| r.datagrams.sent);
        /// Those of them that were dropped anywhere, at the sending host too
        datagrams_lost = counts(|r| r.datagrams.lost);
        /// Application bytes of the datagrams that were sent
        datagram_bytes_sent = counts(|r| r.datagrams.sent_bytes);
        /// Application bytes of the datagrams that were lost
        datagram_bytes_lost = counts(|r| r.datagrams.lost_bytes);
        /// Congestion notification packets that the queue pairs of the flow sent; 0 for other transports
        cnps_sent = counts(|r| r.rdma.cnps_sent);
        /// Congestion notification packets that they received
        cnps_received = counts(|r| r.rdma.cnps_received);
        /// Packets of queue pairs that a NAK had sent again
        repeats_by_nak = counts(|r| r.rdma.repeats_by_nak);
        /// Packets of queue pairs that a timeout had sent again
        repeats_by_timeout = counts(|r| r.rdma.repeats_by_timeout);
        /// From the start to the SYN-ACK at the source; null without a handshake of its own
        connect_us or null = us(connect_us);
        /// Why it failed: syn_timeout, data_timeout, refused, reset, retries_exhausted, rnr_retries_exhausted; else ""
        failure = dictionary_of(all().map(|r| failure_name(&r)), str::to_string);
    }
}

/// The `queries` table: a row a partition-aggregate job.
pub fn queries(records: &[QueryRecord], names: &Names) -> Columns {
    let us = |value: fn(&QueryRecord) -> Option<f64>| optional(records.iter().map(value));
    columns! {
        /// Number among the queries of all workloads, in the order in which they begin: it stands for one query of the run
        query = u32s(records.iter().map(|r| r.query));
        /// Name of the workload
        workload = dictionary(records, |r| r.workload, |w| names.workloads[w as usize].clone());
        /// The host that asks and collects
        aggregator = dictionary(records, |r| r.aggregator, |node| names.node(node));
        /// How many servers it asks
        fan_in = u32s(records.iter().map(|r| r.fan_in));
        /// Size of each response
        response_bytes = u64s(records.iter().map(|r| r.response));
        /// When it began
        start_us = f64s(records.iter().map(|r| r.start.as_us_f64()));
        /// When the last byte of the last response was there
        finish_us or null = us(|r| r.finish.map(Time::as_us_f64));
        /// Completion time: finish - start
        fct_us or null = us(|r| query_time(r).map(Span::as_us_f64));
        /// The query alone in the idle network
        ideal_fct_us = f64s(records.iter().map(|r| r.ideal.as_us_f64()));
        /// fct / ideal
        slowdown or null = us(|r| query_time(r).and_then(|time| ratio(time, r.ideal)));
        /// Retransmission timeouts of its flows
        timeouts = u32s(records.iter().map(|r| r.timeouts));
    }
}

/// The `throughput` table of a run that ended at `end`: a row an interval of length `every` and workload.
pub fn throughput<'a>(
    every: Span,
    intervals: impl Iterator<Item = &'a [u64]>,
    names: &Names,
    end: Time,
) -> Columns {
    let us = |number: u64| Time(number.saturating_mul(every.0)).min(end).as_us_f64();
    let rows: Vec<(u64, usize, u64)> = (0..)
        .zip(intervals)
        .flat_map(|(number, row)| {
            row.iter().enumerate().map(move |(workload, bytes)| (number, workload, *bytes))
        })
        .collect();
    columns! {
        /// Begin of the interval
        start_us = f64s(rows.iter().map(|row| us(row.0)));
        /// Its end; the last one ends with the run
        end_us = f64s(rows.iter().map(|row| us(row.0 + 1)));
        /// Name of the workload
        workload = dictionary(&rows, |row| row.1, |workload| names.workloads[workload].clone());
        /// Application bytes, of both directions, that reached their hosts in it for the first time; bytes above a gap count when they
        /// come, so that no interval has more than the links could carry
        received_bytes = u64s(rows.iter().map(|row| row.2));
    }
}

/// The `ports` table after a run of length `run`: a row a report.
pub fn ports(reports: &[PortReport], names: &Names, run: Span) -> Columns {
    let counts = |value: fn(&PortReport) -> u64| u64s(reports.iter().map(value));
    let drops = |value: fn(DropsByReason) -> u64| u64s(reports.iter().map(|r| value(DropsByReason::of(r))));
    let topology = names.topology;
    // Of a run of no length every share is 0.
    let share = |part: Span| if run == Span::ZERO { 0.0 } else { part.0 as f64 / run.0 as f64 };
    columns! {
        /// "edge0:3": node, colon, port number at the node
        port = dictionary(reports, |r| r.port, |port| topology.port_name(port));
        /// Who transmits
        node = dictionary(reports, |r| topology.owner(r.port), |node| names.node(node));
        /// Who receives
        peer = dictionary(reports, |r| topology.peer(r.port), |node| names.node(node));
        /// "host", "switch-host", "switch-switch": what the port connects
        tier = dictionary(reports, |r| names.tier(r.port), str::to_string);
        /// The priority that the row is about
        priority = u8s(reports.iter().map(|r| r.priority.code_point()));
        /// Rate of the link, this way
        rate_bps = u64s(reports.iter().map(|r| topology.channel(r.port).rate.0));
        /// Packets sent on the wire, pause frames not included
        tx_packets = counts(|r| r.tx_packets);
        /// Their bytes
        tx_bytes = counts(|r| r.tx_bytes);
        /// Share of the run in which the port was sending this priority, preambles and gaps included; of a frame in service at the end
        /// what has passed, so never above 1
        utilisation = f64s(reports.iter().map(|r| share(r.busy)));
        /// Lossy packets that found no room in the egress queue or the shared pool; at a host: datagrams that found no room in the NIC,
        /// and what its full receive buffer dropped (docs/models/slow-receivers.md)
        drops_buffer_full = drops(|drops| drops.buffer_full);
        /// Lossless packets that came after XOFF and found the headroom used up
        drops_headroom_exceeded = drops(|drops| drops.headroom_exceeded);
        /// Packets that are not ECN-capable and met a queue above its marking threshold
        drops_not_ect = drops(|drops| drops.not_ect);
        /// Lossless packets that came after XOFF and found the headroom used up that all (port, priority) of the switch share
        drops_headroom_pool = drops(|drops| drops.headroom_pool);
        /// Packets on the wire, in the queue or bound for it while the link was or went down
        drops_link_down = drops(|drops| drops.link_down);
        /// Frames from here that arrived damaged, pause frames included
        drops_corrupted = drops(|drops| drops.corrupted);
        /// Packets that the PFC watchdog dropped
        drops_watchdog = drops(|drops| drops.watchdog);
        /// Packets marked CE here
        ecn_marks = counts(|r| r.ecn_marks);
        /// Largest egress backlog; a packet that meets an idle port never waits and is not in it
        backlog_max_bytes = counts(|r| r.backlog_max);
        /// Time-weighted mean egress backlog over the run, packets that still wait at its end included
        backlog_mean_bytes = f64s(reports.iter().map(|r| r.backlog_mean));
        /// Largest ingress account at the peer for what this port sent (PFC)
        ingress_max_bytes = counts(|r| r.ingress_max);
        /// Pause frames with non-zero quanta that the peer sent to stop this port
        pauses_sent = counts(|r| r.pauses_sent);
        /// Pause frames with non-zero quanta for this priority that stopped this port
        pauses_received = counts(|r| r.pauses_received);
        /// Pause frames with zero quanta
        resumes_received = counts(|r| r.resumes_received);
        /// How long this priority was not allowed to send, in all
        paused_us = f64s(reports.iter().map(|r| r.paused.as_us_f64()));
        /// The longest time at a stretch
        paused_longest_us = f64s(reports.iter().map(|r| r.paused_longest.as_us_f64()));
        /// CNMs that the congestion point of this queue has sent (QCN)
        cnms_sent = counts(|r| r.cnms_sent);
        /// CNMs about this priority that came to the host of this port
        cnms_received = counts(|r| r.cnms_received);
        /// How often the PFC watchdog took this queue out of flow control
        watchdog_storms = counts(|r| r.watchdog_storms);
    }
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
        Some(Failure::RetriesExhausted) => "retries_exhausted",
        Some(Failure::RnrRetriesExhausted) => "rnr_retries_exhausted",
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::idle_report;
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type, UInt32Type, UInt64Type};
    use arrow_array::{RecordBatch, StringArray};
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
            of_reply: pauseframe_fabric::Repeats { retransmits: 2, timeouts: 1, loss_probes: 0 },
            undone: 1,
            ce_packets: 7,
            datagrams: pauseframe_fabric::Datagrams::default(),
            rdma: pauseframe_fabric::RdmaCounts::default(),
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
        let records: FlowRecords = records.into_iter().collect();
        let batch = flows(&records, 0..4, &names(&topology(), &labels())).batch();
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
        let (topology, labels) = (topology(), labels());
        let records = [query, QueryRecord { finish: None, ..query }];
        let batch = queries(&records, &names(&topology, &labels)).batch();
        assert_eq!(floats(&batch, "fct_us"), [Some(10.0), None]);
        assert_eq!(floats(&batch, "slowdown"), [Some(2.5), None]);
        assert_eq!(texts(&batch, "aggregator"), ["a", "a"]);
    }

    #[test]
    fn ports_show_shares_of_the_run_and_drops_by_reason() {
        let busy = PortReport {
            busy: Span::from_us(25),
            backlog_mean: 2000.0,
            drops: [1, 2, 3, 4],
            paused: Span::from_us(9),
            ..idle_report(2)
        };
        let reports = [busy, idle_report(0), idle_report(1)];
        let batch = ports(&reports, &names(&topology(), &labels()), Span::from_us(100)).batch();
        assert_eq!(texts(&batch, "port"), ["s:1", "a:0", "s:0"]);
        assert_eq!(texts(&batch, "tier"), ["switch-switch", "host", "switch-host"]);
        assert_eq!(texts(&batch, "peer"), ["t", "s", "a"]);
        assert_eq!(floats(&batch, "utilisation")[0], Some(0.25));
        assert_eq!(floats(&batch, "backlog_mean_bytes")[0], Some(2000.0));
        assert_eq!(floats(&batch, "paused_us")[0], Some(9.0));
        let first = |name| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().value(0);
        assert_eq!(first("rate_bps"), 10_000_000_000);
        let drops = ["drops_buffer_full", "drops_headroom_exceeded", "drops_not_ect", "drops_headroom_pool"]
            .map(first);
        assert_eq!(drops, [1, 2, 3, 4]);
    }
}
