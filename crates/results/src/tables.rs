//! The tables `flows`, `queries`, `ports` and `throughput`, column by column.

use super::column::{Columns, dictionary, dictionary_of, f64s, optional, u8s, u32s, u64s};
use super::rows::{DropsByReason, Names};
use crate::columns;
use arrow_array::{UInt32Array, UInt64Array};
use pauseframe_fabric::{
    FlowRecord, FlowRecords, FlowStatus, PortPriorityReport, QueryRecord, SampledEntity, StorageOperation,
};
use pauseframe_topology::NodeKind;
use pauseframe_transport::ConnectionFailure;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::ops::Range;
use std::sync::Arc;

/// The `flows` table for the flows with the numbers `rows`, one row for each flow.
pub fn flows(records: &FlowRecords, rows: Range<usize>, names: &Names) -> Columns {
    let numbers = rows.start as u32..rows.end as u32;
    let all = || records.range(rows.clone());
    let us = |value: fn(&FlowRecord) -> Option<f64>| optional(all().map(|r| value(&r)));
    let counts = |value: fn(&FlowRecord) -> u64| u64s(all().map(|r| value(&r)));
    let few = |value: fn(&FlowRecord) -> u32| u32s(all().map(|r| value(&r)));
    let node = |value: fn(&FlowRecord) -> NodeId| dictionary_of(all().map(|r| value(&r)), |n| names.node(n));
    columns! {
        /// Number, in order of start
        flow = u32s(numbers);
        /// Name of the workload
        workload = dictionary_of(all().map(|r| r.spec.workload), |w| names.workloads[w as usize].clone());
        /// Name of the transport
        transport = dictionary_of(all().map(|r| r.spec.transport), |t| names.transports[t as usize].clone());
        /// Number of its query in the table queries
        query or null = Arc::new(all().map(|r| r.spec.query).collect::<UInt32Array>());
        /// Host that opens the connection
        src = node(|r| r.spec.source);
        /// Host that accepts it
        dst = node(|r| r.spec.destination);
        /// Operation on storage: read or write; "" for other flows
        operation = dictionary_of(all().map(|r| operation_name(&r)), str::to_string);
        /// Application bytes from src to dst; null for a long flow
        size_bytes or null = Arc::new(all().map(|r| asked_size(&r)).collect::<UInt64Array>());
        /// Application bytes back
        reply_bytes = counts(|r| r.spec.reply);
        /// In-order bytes delivered, both directions
        delivered_bytes = counts(|r| r.delivered);
        /// finished, running, stopped, failed
        status = dictionary_of(all().map(|r| status_name(r.status)), str::to_string);
        /// Start time: the source opens the connection
        start_us = f64s(all().map(|r| r.spec.start.as_us_f64()));
        /// When the last byte reached its application; null unless finished or stopped
        finish_us or null = us(finish_us);
        /// Completion time: finish - start, of finished flows
        fct_us or null = us(|r| completion_time(r).map(Span::as_us_f64));
        /// The flow alone in the idle network with an unlimited window
        ideal_fct_us = f64s(all().map(|r| r.ideal.as_us_f64()));
        /// fct / ideal
        slowdown or null = us(flow_slowdown);
        /// Retransmitted segments; on a persistent connection until its job is complete
        retransmits = few(|r| r.retransmits);
        /// Retransmission timeouts; on a persistent connection until its job is complete. The expiry that fails a flow counts for queue pairs, and not for TCP
        timeouts = few(|r| r.timeouts);
        /// Tail loss probes; on a persistent connection until its job is complete
        loss_probes = few(|r| r.loss_probes);
        /// Retransmits of the replying end (included in retransmits)
        reply_retransmits = few(|r| r.of_reply.retransmits);
        /// Timeouts of the replying end (included in timeouts)
        reply_timeouts = few(|r| r.of_reply.timeouts);
        /// Loss probes of the replying end (included in loss_probes)
        reply_loss_probes = few(|r| r.of_reply.loss_probes);
        /// Window reductions undone as unnecessary (D-SACK, F-RTO)
        undone = few(|r| r.undone);
        /// Data packets that arrived marked, datagrams included
        ce_packets = counts(|r| r.ce_packets);
        /// Datagrams that the application of a UDP flow sent; 0 for connections
        datagrams_sent = counts(|r| r.datagrams.sent);
        /// Sent datagrams that were dropped anywhere, also at the sending host
        datagrams_lost = counts(|r| r.datagrams.lost);
        /// Application bytes of the datagrams that were sent
        datagram_bytes_sent = counts(|r| r.datagrams.sent_bytes);
        /// Application bytes of the datagrams that were lost
        datagram_bytes_lost = counts(|r| r.datagrams.lost_bytes);
        /// Congestion notification packets that the queue pairs of the flow sent; 0 for other transports
        cnps_sent = counts(|r| r.rdma.cnps_sent);
        /// Congestion notification packets that the queue pairs of the flow received
        cnps_received = counts(|r| r.rdma.cnps_received);
        /// Packets of queue pairs retransmitted after a NAK
        repeats_by_nak = counts(|r| r.rdma.repeats_by_nak);
        /// Packets of queue pairs retransmitted after a timeout
        repeats_by_timeout = counts(|r| r.rdma.repeats_by_timeout);
        /// Time from the start to the SYN-ACK at the source; null without a handshake
        connect_us or null = us(connect_us);
        /// Cause of failure (syn_timeout, data_timeout, refused, reset, retries_exhausted, rnr_retries_exhausted), or ""
        failure = dictionary_of(all().map(|r| failure_name(&r)), str::to_string);
    }
}

/// The `queries` table, with one row for each partition-aggregate job.
pub fn queries(records: &[QueryRecord], names: &Names) -> Columns {
    let us = |value: fn(&QueryRecord) -> Option<f64>| optional(records.iter().map(value));
    columns! {
        /// Number among all queries of the run, in order of start
        query = u32s(records.iter().map(|r| r.query));
        /// Name of the workload
        workload = dictionary(records, |r| r.workload, |w| names.workloads[w as usize].clone());
        /// Host that sends the requests and collects the responses
        aggregator = dictionary(records, |r| r.aggregator, |node| names.node(node));
        /// Number of servers
        fan_in = u32s(records.iter().map(|r| r.fan_in));
        /// Size of each response
        response_bytes = u64s(records.iter().map(|r| r.response));
        /// Start time
        start_us = f64s(records.iter().map(|r| r.start.as_us_f64()));
        /// When the last byte of the last response arrived
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

/// The `throughput` table of a run that ended at `end`, with one row for each workload and interval of length
/// `every`.
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
        /// Start of the interval
        start_us = f64s(rows.iter().map(|row| us(row.0)));
        /// End of the interval; the last one ends with the run
        end_us = f64s(rows.iter().map(|row| us(row.0 + 1)));
        /// Name of the workload
        workload = dictionary(&rows, |row| row.1, |workload| names.workloads[workload].clone());
        /// Application bytes of both directions that arrived for the first time; bytes above a gap count when they
        /// arrive
        received_bytes = u64s(rows.iter().map(|row| row.2));
    }
}

/// The `ports` table after a run of length `run`, with one row for each report.
pub fn ports(reports: &[PortPriorityReport], names: &Names, run: Span) -> Columns {
    let counts = |value: fn(&PortPriorityReport) -> u64| u64s(reports.iter().map(value));
    let drops = |value: fn(DropsByReason) -> u64| u64s(reports.iter().map(|r| value(DropsByReason::of(r))));
    let topology = names.topology;
    // In a run of zero length every share is 0.
    let share = |part: Span| if run == Span::ZERO { 0.0 } else { part.0 as f64 / run.0 as f64 };
    columns! {
        /// "edge0:3": node, colon, port number at the node
        port = dictionary(reports, |r| r.port, |port| topology.port_name(port));
        /// Node that transmits
        node = dictionary(reports, |r| topology.owner(r.port), |node| names.node(node));
        /// Node that receives
        peer = dictionary(reports, |r| topology.peer(r.port), |node| names.node(node));
        /// "host", "switch-host", "switch-switch": what the port connects
        tier = dictionary(reports, |r| names.tier(r.port), str::to_string);
        /// Priority of the row
        priority = u8s(reports.iter().map(|r| r.priority.code_point()));
        /// Rate of the link in this direction
        rate_bps = u64s(reports.iter().map(|r| topology.channel(r.port).rate.0));
        /// Packets sent on the wire, pause frames not included
        tx_packets = counts(|r| r.tx_packets);
        /// Bytes of these packets or messages
        tx_bytes = counts(|r| r.tx_bytes);
        /// Share of the run during which the port sent this priority, including preambles and gaps
        utilisation = f64s(reports.iter().map(|r| share(r.busy)));
        /// Lossy packets without room in the egress queue or the shared pool; at a host: datagrams without room in the
        /// NIC, and drops of a full receive buffer (docs/models/slow-receivers.md)
        drops_buffer_full = drops(|drops| drops.buffer_full);
        /// Lossless packets that arrived after XOFF without room in the headroom
        drops_headroom_exceeded = drops(|drops| drops.headroom_exceeded);
        /// Packets without ECN at a queue above its marking threshold
        drops_not_ect = drops(|drops| drops.not_ect);
        /// Lossless packets that arrived after XOFF without room in the headroom pool of the switch
        drops_headroom_pool = drops(|drops| drops.headroom_pool);
        /// Packets that CoDel dropped, because those of their queue had waited too long (docs/models/codel.md)
        drops_codel = drops(|drops| drops.codel);
        /// Frames that arrived by this port of a Linux switch and found its receive ring full (docs/models/linux-switch.md)
        drops_ring_full = drops(|drops| drops.ring_full);
        /// Packets on the wire, in the queue, or arriving for it, when the link failed or was down
        drops_link_down = drops(|drops| drops.link_down);
        /// Frames of this port that arrived damaged, including pause frames
        drops_corrupted = drops(|drops| drops.corrupted);
        /// Packets that the PFC watchdog dropped
        drops_watchdog = drops(|drops| drops.watchdog);
        /// Packets marked CE at this port
        ecn_marks = counts(|r| r.ecn_marks);
        /// Packets whose payload was cut off here for lack of room, and whose header went on (switch.queue = "trim")
        trims = counts(|r| r.trims);
        /// Longest time that a packet waited which left by CoDel; packets that meet an idle port do not count
        sojourn_max_us = f64s(reports.iter().map(|r| r.sojourn_max.as_us_f64()));
        /// Flows that FQ-CoDel put before the others because they had nothing to send (new_flow_count of tc)
        new_flows = counts(|r| r.new_flows);
        /// Largest egress backlog; packets that meet an idle port do not count
        backlog_max_bytes = counts(|r| r.backlog_max);
        /// Time-weighted mean egress backlog over the run
        backlog_mean_bytes = f64s(reports.iter().map(|r| r.backlog_mean));
        /// Largest ingress account of the peer for this port (PFC)
        ingress_max_bytes = counts(|r| r.ingress_max);
        /// Pause frames with non-zero quanta that the peer sent to stop this port
        pauses_sent = counts(|r| r.pauses_sent);
        /// Pause frames with non-zero quanta for this priority that stopped this port
        pauses_received = counts(|r| r.pauses_received);
        /// Pause frames with zero quanta
        resumes_received = counts(|r| r.resumes_received);
        /// Total time during which this priority was paused
        paused_us = f64s(reports.iter().map(|r| r.paused.as_us_f64()));
        /// Longest pause
        paused_longest_us = f64s(reports.iter().map(|r| r.paused_longest.as_us_f64()));
        /// CNMs sent by the congestion point of this queue (QCN)
        cnms_sent = counts(|r| r.cnms_sent);
        /// CNMs for this priority received by the host of this port
        cnms_received = counts(|r| r.cnms_received);
        /// Number of storms in which the PFC watchdog acted on this queue
        watchdog_storms = counts(|r| r.watchdog_storms);
    }
}

impl Names<'_> {
    /// Name of the host or switch `node`, which may stand for a further port of the host.
    pub fn node(&self, node: NodeId) -> String {
        self.topology.nodes()[self.topology.host_of(node)].name.clone()
    }

    pub(super) fn entity(&self, entity: SampledEntity) -> String {
        match entity {
            SampledEntity::PortPriority(port, priority) => {
                format!("{}/p{priority}", self.topology.port_name(port))
            }
            SampledEntity::Flow(flow) => format!("flow {flow}"),
        }
    }

    /// What a port connects, seen from its transmitter: "host", "switch-host" or "switch-switch".
    pub fn tier(&self, port: PortId) -> &'static str {
        let kind = |node| self.topology.nodes()[node].kind;
        match (kind(self.topology.owner(port)), kind(self.topology.peer(port))) {
            (NodeKind::Host, _) => "host",
            (NodeKind::Switch, NodeKind::Host) => "switch-host",
            (NodeKind::Switch, NodeKind::Switch) => "switch-switch",
        }
    }
}

/// Completion time of a finished flow. Connections of applications stay open as long as their application, so
/// they have neither a completion time nor an ideal one.
pub(super) fn completion_time(record: &FlowRecord) -> Option<Span> {
    let has_one = record.status == FlowStatus::Finished && record.ideal > Span::ZERO;
    has_one.then(|| record.end - record.spec.start)
}

/// Duration of the handshake in microseconds, from the SYN to the SYN-ACK at the source.
fn connect_us(record: &FlowRecord) -> Option<f64> {
    record.connected.map(|time| (time - record.spec.start).as_us_f64())
}

/// Completion time of a finished flow, divided by its ideal completion time.
pub(super) fn flow_slowdown(record: &FlowRecord) -> Option<f64> {
    completion_time(record).and_then(|time| ratio(time, record.ideal))
}

/// Completion time of a finished query.
pub(super) fn query_time(record: &QueryRecord) -> Option<Span> {
    record.finish.map(|finish| finish - record.start)
}

fn ratio(time: Span, ideal: Span) -> Option<f64> {
    (ideal > Span::ZERO).then(|| time.0 as f64 / ideal.0 as f64)
}

fn finish_us(record: &FlowRecord) -> Option<f64> {
    matches!(record.status, FlowStatus::Finished | FlowStatus::Stopped).then(|| record.end.as_us_f64())
}

/// Application bytes of the flow; `None` for a long flow, which has no size.
fn asked_size(record: &FlowRecord) -> Option<u64> {
    (record.spec.size != u64::MAX).then_some(record.spec.size)
}

/// Name of a flow's status in the tables.
pub fn status_name(status: FlowStatus) -> &'static str {
    match status {
        FlowStatus::Finished => "finished",
        FlowStatus::Running => "running",
        FlowStatus::Stopped => "stopped",
        FlowStatus::Failed => "failed",
    }
}

/// Name of an operation on storage, or "".
fn operation_name(record: &FlowRecord) -> &'static str {
    match record.spec.operation {
        None => "",
        Some(StorageOperation::Read) => "read",
        Some(StorageOperation::Write) => "write",
    }
}

/// Reason why a flow failed, or "".
fn failure_name(record: &FlowRecord) -> &'static str {
    match record.failure {
        None => "",
        Some(ConnectionFailure::SynTimeout) => "syn_timeout",
        Some(ConnectionFailure::DataTimeout) => "data_timeout",
        Some(ConnectionFailure::Refused) => "refused",
        Some(ConnectionFailure::Reset) => "reset",
        Some(ConnectionFailure::RetriesExhausted) => "retries_exhausted",
        Some(ConnectionFailure::RnrRetriesExhausted) => "rnr_retries_exhausted",
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

    /// The column `name` as a list of texts.
    fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
        let column = batch.column_by_name(name).unwrap().as_dictionary::<Int32Type>();
        let column = column.downcast_dict::<StringArray>().unwrap();
        column.into_iter().map(|text| text.unwrap().to_string()).collect()
    }

    fn floats(batch: &RecordBatch, name: &str) -> Vec<Option<f64>> {
        batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().iter().collect()
    }

    fn record(status: FlowStatus, size: u64, query: Option<u32>) -> FlowRecord {
        let spec = FlowSpec {
            reply: 5,
            start: Time::ZERO + Span::from_us(10),
            workload: 1,
            query,
            ..FlowSpec::new(NodeId(0), NodeId(2), size)
        };
        FlowRecord {
            status,
            delivered: 105,
            retransmits: 3,
            timeouts: 2,
            loss_probes: 1,
            of_reply: pauseframe_fabric::RetransmissionCounts { retransmits: 2, timeouts: 1, loss_probes: 0 },
            undone: 1,
            ce_packets: 7,
            ..FlowRecord::new(spec, Span::from_us(20), Time::ZERO + Span::from_us(40))
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
        let busy = PortPriorityReport {
            busy: Span::from_us(25),
            backlog_mean: 2000.0,
            drops: [1, 2, 3, 4, 5, 6],
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
        let first = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().value(0);
        assert_eq!(first("rate_bps"), 10_000_000_000);
        let reasons = ["buffer_full", "headroom_exceeded", "not_ect", "headroom_pool", "codel", "ring_full"];
        assert_eq!(reasons.map(|reason| first(&format!("drops_{reason}"))), [1, 2, 3, 4, 5, 6]);
    }
}
