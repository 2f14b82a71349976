//! Warns of results that no real network is likely to give: long flows that got less than a tenth of their max-min fair share (queue pairs: a
//! third), and windows of less than two packets.
//!
//! The check of shares skips flows that may starve for good reasons (failures, slow or silent hosts, queues
//! that rank packets, a higher priority in use) and flows with unknown paths (spraying, forwarding tables
//! with VLANs).

use crate::spec::{Clocks, QueueDiscipline, RdmaSpec, Scenario, TransportSpec, WorkloadKind};
use pauseframe_fabric::{FlowRecord, FlowStatus, IdealFctCalculator, Network, PortPriorityReport, Settings};
use pauseframe_flowlevel::{Flows, MaxMin, Paths, capacities};
use pauseframe_rdma::cc::ControlName;
use pauseframe_rdma::{DpOrdering, UNORDERED_ACK_BYTES, WindowKind};
use pauseframe_results::Names;
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, Span, Time, counted};

/// A flow is starved if it got less than this fraction of its max-min share.
const PART: f64 = 0.1;
/// The same for queue pairs, whose controls converge to equal rates or are unfair by design.
const PART_OF_PAIRS: f64 = 1.0 / 3.0;
/// Packets in a window below which single packets in a queue decide about shares.
const FEW_PACKETS: f64 = 2.0;
/// Minimum duration of a judged flow, as a multiple of its minimum RTO.
const TIMEOUTS: u64 = 5;
/// Minimum duration of a judged flow, in round-trip times.
const ROUND_TRIPS: u64 = 100;
/// Minimum duration of a judged flow.
const LEAST: Span = Span::from_ms(10);
/// Maximum number of flows in a checked run; the shares of more flows would take too long to compute.
const FLOWS_MAX: usize = 20_000;
/// Weight of datagram flows, which do not give way to connections (weight 1).
const UNRESPONSIVE: f64 = 1e5;

/// A starved flow, and the part of its fair share that it got.
struct Starved {
    flow: usize,
    part: f64,
    time: Span,
    limit: f64,
}

/// Warns of starved flows.
pub(super) fn starved_flows(
    scenario: &Scenario,
    (network, ideal): (&mut Network, &IdealFctCalculator),
    names: &Names,
    ports: &[PortPriorityReport],
    now: Time,
) -> Option<String> {
    let host = &scenario.host;
    let is_plain = scenario.failure.is_empty()
        && scenario.corruption.is_empty()
        && host.silent.is_empty()
        && host.refusing.is_empty()
        && host.slow_receivers.is_empty()
        && scenario.switch.queue == QueueDiscipline::Fifo
        && scenario.switch.classes.is_empty();
    if !is_plain || network.packed_flow_records(now).len() > FLOWS_MAX {
        return None;
    }
    let records = network.flow_records(now);
    let judged: Vec<usize> =
        (0..records.len()).filter(|flow| is_backlogged(scenario, ideal, &records[*flow])).collect();
    if judged.is_empty() {
        return None;
    }
    let shares = shares(scenario, (network, ideal), names, &records)?;
    let got = |flow: &usize| {
        let (record, time) = (&records[*flow], time_to_send(scenario, &records[*flow]));
        let rate = record.delivered as f64 * 8.0 / (time.0 as f64 * 1e-12);
        let is_pair = transport(scenario, record).rdma().is_some();
        let limit = if is_pair { PART_OF_PAIRS } else { PART };
        Starved { flow: *flow, part: rate / shares[*flow], time, limit }
    };
    let mut starved: Vec<Starved> = judged.iter().map(got).filter(|flow| flow.part < flow.limit).collect();
    starved.sort_by(|a, b| a.part.total_cmp(&b.part));
    let Starved { flow, part, time, .. } = starved.first()?;
    let spec = &records[*flow].spec;
    let least = if starved.iter().any(|flow| flow.limit > PART) { "third" } else { "tenth" };
    let others = match starved.len() - 1 {
        0 => String::new(),
        1 => format!(", and another flow less than a {least}"),
        n => format!(", and {n} other flows less than a {least}"),
    };
    Some(format!(
        "flow {flow} from {} to {} got {:.2} % of its max-min share in {time}{others}: {}",
        names.node(spec.source),
        names.node(spec.destination),
        part * 100.0,
        advice(scenario, &records[*flow], ports)
    ))
}

/// True for a long one-way flow that always had data to send, in the highest priority of the network.
fn is_backlogged(scenario: &Scenario, ideal: &IdealFctCalculator, record: &FlowRecord) -> bool {
    let workload = &scenario.workload[usize::from(record.spec.workload)];
    let is_open = matches!(record.status, FlowStatus::Running | FlowStatus::Stopped);
    let is_datagrams = matches!(workload.kind, WorkloadKind::Udp(_));
    if ideal.is_within_server(&record.spec) {
        return false;
    }
    if !is_open || is_datagrams || record.spec.reply > 0 || record.spec.kept.is_some() {
        return false;
    }
    let transport = transport(scenario, record);
    let of_workload = |workload: &crate::spec::WorkloadSpec| match &workload.kind {
        WorkloadKind::Udp(udp) => udp.priority,
        _ => scenario.transport_named(&workload.transport).priority,
    };
    if scenario.workload.iter().map(of_workload).any(|priority| priority != transport.priority) {
        return false;
    }
    let spec = &record.spec;
    let rtt = ideal.base_rtt(spec.source, spec.destination, spec.transport);
    let timeouts = transport.tcp().map_or(Span::ZERO, |tcp| tcp.config.rto.min * TIMEOUTS);
    let long = timeouts.max(rtt * ROUND_TRIPS).max(LEAST);
    time_to_send(scenario, record) >= long
}

/// The time of a flow without that in which its queue pair was set up.
fn time_to_send(scenario: &Scenario, record: &FlowRecord) -> Span {
    let setup = transport(scenario, record).rdma().map_or(Span::ZERO, |pairs| pairs.pair.connect);
    record.end.saturating_since(record.spec.start + setup)
}

/// The max-min share of each flow in bits per second, computed as if all flows of the run were active at the
/// same time, which is a lower bound.
fn shares(
    scenario: &Scenario,
    (network, ideal): (&Network, &IdealFctCalculator),
    names: &Names,
    records: &[FlowRecord],
) -> Option<Vec<f64>> {
    let (mut paths, mut weights, mut caps) = (Paths::new(), Vec::new(), Vec::new());
    for (flow, record) in records.iter().enumerate() {
        paths.push(network.path_of_flow(flow as u32)?);
        let workload = &scenario.workload[usize::from(record.spec.workload)];
        let (weight, cap) = if let WorkloadKind::Udp(udp) = &workload.kind {
            (UNRESPONSIVE, udp.rate.0 as f64)
        } else {
            (1.0, limit_of_keys(scenario, ideal, names.topology, record))
        };
        weights.push(weight);
        caps.push(cap);
    }
    let flows = Flows { paths: &paths, weights: Some(&weights), caps: Some(&caps) };
    MaxMin::default().solve(&capacities(names.topology), flows).ok()
}

/// Bits per second that keys of its transport leave a flow alone on its path: the rate of the reader, packets in flight of a queue pair, or the share
/// of its input from which the receiving card slows it.
fn limit_of_keys(
    scenario: &Scenario,
    ideal: &IdealFctCalculator,
    topology: &Topology,
    record: &FlowRecord,
) -> f64 {
    let (transport, spec) = (transport(scenario, record), &record.spec);
    if let Some(rate) = transport.tcp().and_then(|tcp| tcp.config.read_rate) {
        return rate.0 as f64;
    }
    let Some(pairs) = transport.rdma() else { return f64::INFINITY };
    let pair = &pairs.pair;
    let kept = (pair.dp_ordering == DpOrdering::OooRw)
        .then(|| Bytes(u64::from(pair.ooo_window) * pairs.mtu.of(scenario.host.mtu, 0).0));
    let most = [pair.tx_window, kept].into_iter().flatten().min();
    let rtt = ideal.base_rtt(spec.source, spec.destination, spec.transport);
    let by_window = most.map_or(f64::INFINITY, |bytes| bytes.0 as f64 * 8e12 / rtt.0 as f64);
    let line = topology.channel(topology.nodes()[spec.destination].ports[0]).rate.0 as f64;
    by_window.min(pair.cnp_on_ingress.map_or(f64::INFINITY, |share| share * line))
}

fn transport<'a>(scenario: &'a Scenario, record: &FlowRecord) -> &'a TransportSpec {
    scenario.transport_named(&scenario.workload[usize::from(record.spec.workload)].transport)
}

/// The scenario key that the user should check first.
fn advice(scenario: &Scenario, record: &FlowRecord, ports: &[PortPriorityReport]) -> String {
    if scenario.clocks == Clocks::Ideal {
        return "with ideal clocks flows lock in phase; set clocks = \"real\"".to_owned();
    }
    if let Some(reason) = unfair_control(transport(scenario, record)) {
        return reason.to_owned();
    }
    if ports.iter().any(|port| port.pauses_received > 0) {
        return "pauses share links by port, not by flow; look at switch.marker and at the pauses in the ports table".to_owned();
    }
    match record.timeouts {
        0 => "look at switch.buffer and host.wire_jitters".to_owned(),
        n => {
            format!("it waited for {n} timeouts; look at switch.buffer, transport.rto_min and transport.sack")
        }
    }
}

/// Why a control of queue pairs shares links unequally (docs/models/rdma.md).
fn unfair_control(spec: &TransportSpec) -> Option<&'static str> {
    match spec.rdma()?.control.built_in()? {
        ControlName::Timely => Some(
            "TIMELY has no fixed point: its gradient is zero at any division of the link (docs/models/rdma.md)",
        ),
        ControlName::Swift => Some(
            "Swift is fair only where target delays match the delays of paths: 3.05 us for each link, whatever its length \
             (docs/models/rdma.md)",
        ),
        ControlName::Hpcc => Some(
            "HPCC shares unequally if windows are a few packets; set transport.hpcc_flows to the flows that share a link \
             (docs/models/rdma.md)",
        ),
        _ => None,
    }
}

/// Warns of queue pairs whose mean window was less than two packets: one packet more or less in a queue then decides
/// who sends.
pub(super) fn tiny_windows(
    scenario: &Scenario,
    (network, ideal): (&mut Network, &IdealFctCalculator),
    settings: &Settings,
    names: &Names,
    now: Time,
) -> Option<String> {
    if scenario.transport_specs().filter_map(TransportSpec::rdma).all(|pairs| !has_window(pairs)) {
        return None;
    }
    let packets = |record: &FlowRecord| {
        let (spec, time) = (&record.spec, record.end.saturating_since(record.spec.start));
        let pair = &settings.transports[usize::from(spec.transport)].rdma()?.pair;
        let rtt = ideal.base_rtt(spec.source, spec.destination, spec.transport);
        let is_plain = spec.reply == 0 && spec.kept.is_none() && spec.operation.is_none();
        let is_long = time >= (rtt * ROUND_TRIPS).max(LEAST);
        let window = record.rdma.window.mean().filter(|_| is_plain && is_long)?;
        Some(window / f64::from(pair.mtu))
    };
    let records = network.packed_flow_records(now);
    let small: Vec<(f64, usize, FlowRecord)> = records
        .iter()
        .enumerate()
        .filter_map(|(flow, record)| Some((packets(&record)?, flow, record)))
        .filter(|(packets, ..)| *packets < FEW_PACKETS)
        .collect();
    let (packets, flow, record) = small.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "transport.rdma_control: the mean window of {} was below two packets (least: {packets:.2}, flow {flow} from {} to \
         {}): single packets in a queue then decide about shares; use fewer flows for each link, a smaller rdma_mtu, or \
         longer or faster links",
        counted(small.len(), "flow"),
        names.node(record.spec.source),
        names.node(record.spec.destination),
    ))
}

/// Warns of senders of NSCC whose largest window is at most a round trip and what lies between two acknowledgements: alone on its path, such a sender
/// stops for a part of each round trip.
pub(super) fn windows_below_acknowledgements(
    scenario: &Scenario,
    (network, ideal): (&mut Network, &IdealFctCalculator),
    (topology, settings): (&Topology, &Settings),
    now: Time,
) -> Option<String> {
    let is_nscc = |pairs: &RdmaSpec| pairs.control.built_in() == Some(ControlName::Nscc);
    if !scenario.transport_specs().filter_map(TransportSpec::rdma).any(is_nscc) {
        return None;
    }
    let window = |record: &FlowRecord| {
        transport(scenario, record).rdma().filter(|pairs| is_nscc(pairs))?;
        let pair = &settings.transports[usize::from(record.spec.transport)].rdma()?.pair;
        let port = topology.nodes()[record.spec.source].ports[0];
        let product = topology.channel(port).rate.bytes_in(pair.window.base_rtt).0;
        let window = product * 3 / 2;
        let stops = window < product + u64::from(UNORDERED_ACK_BYTES) && record.spec.size > window;
        (stops && !ideal.is_within_server(&record.spec)).then_some(window)
    };
    let least = network.packed_flow_records(now).iter().filter_map(|record| window(&record)).min()?;
    Some(format!(
        "transport.rdma_control: nscc's window is {} at most here, and receivers acknowledge every {}, as in htsim: a flow alone stops for a part of each round trip and does not fill its link; longer or faster links do not show this",
        Bytes(least),
        Bytes(u64::from(UNORDERED_ACK_BYTES)),
    ))
}

/// Warns of marks at switch ports that a slow receiver paused: DCQCN takes them for congestion of the path, and comes back in small steps.
pub(super) fn marks_of_slow_receivers(
    scenario: &Scenario,
    names: &Names,
    ports: &[PortPriorityReport],
) -> Option<String> {
    let reacts = |pairs: &RdmaSpec| pairs.control.reacts_to_cnps();
    if !scenario.transport_specs().filter_map(TransportSpec::rdma).any(reacts) {
        return None;
    }
    let is_slow = |name: &str| scenario.host.slow_receivers.iter().any(|receiver| receiver.host == name);
    let is_behind =
        |row: &&PortPriorityReport| is_slow(&names.topology.nodes()[names.topology.peer(row.port)].name);
    let marked = ports.iter().filter(is_behind).filter(|row| row.paused > Span::ZERO && row.ecn_marks > 0);
    let worst = marked.max_by_key(|row| row.ecn_marks)?;
    let host = &names.topology.nodes()[names.topology.peer(worst.port)].name;
    Some(format!(
        "host.slow_receivers: {host} pauses {}, which then marks {}: DCQCN cuts its rate as if the path were congested, so {host} may receive \
         less than it reads; rdma_control = \"none\", or marks above what a pause lets pile up, show the receiver alone",
        names.topology.port_name(worst.port),
        counted(worst.ecn_marks, "packet"),
    ))
}

/// Whether queue pairs of a transport have a window.
fn has_window(spec: &RdmaSpec) -> bool {
    spec.control.has_window() || spec.window != WindowKind::None
}
