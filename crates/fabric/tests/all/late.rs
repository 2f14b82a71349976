//! Packets that outlive their flows: duplicates, ACKs, FINs and RSTs that arrive when their connection is over and its places
//! are somebody else's; CNMs; datagrams. Wherever they are, each goes to the host that it is for, over links that exist.

use crate::common::*;
use crate::properties::draw;
use crate::vlans::{diamond, routes};
use pauseframe_engine::{Rng, random_stream};
use pauseframe_fabric::{
    BufferPolicy, CapturedFlowHeaders, CapturedFrame, CapturedFrameContent, FailedElement, FlowRecord,
    FlowSpec, FlowStatus, FrameOverhead, KeptConnection, Network, NicQueue, PfcSettings, ProtocolSettings,
    QcnSettings, ScheduledFailure, Settings, SharedBuffer, SlowReceiverSettings, TransportSettings,
    UdpSettings, VlanChoice, VlanRoutes, Workload,
};
use pauseframe_routing::verify::Tables;
use pauseframe_routing::{Packing, RoutingEngine, SpanningTrees};
use pauseframe_topology::generate::leaf_spine;
use pauseframe_topology::{Channel, NodeKind, SwitchGraph, Topology};
use pauseframe_transport::{DelayedAckConfig, RtoConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, LinkId, NodeId, PortId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

const US: u64 = 1_000_000;

/// Timeouts long before the first ACK can be back, so that everything is sent many times.
fn hasty(config: &TcpConfig, rto: Span) -> TcpConfig {
    let rto = RtoConfig { initial: rto, min: rto, max: Span::from_ms(2), ..config.rto };
    TcpConfig { rto, retries: 30, syn_retries: 30, ..config.clone() }
}

/// Who sent a captured packet, who is to get it, and what tells it from others.
fn identity(frame: &CapturedFrame) -> Option<(Option<NodeId>, NodeId, String)> {
    match frame.content {
        CapturedFrameContent::Segment(CapturedFlowHeaders { source, destination, flow, .. }, segment) => {
            Some((Some(source), destination, format!("flow {flow}: {segment:?}")))
        }
        CapturedFrameContent::Datagram(CapturedFlowHeaders { source, destination, flow, .. }, len) => {
            Some((Some(source), destination, format!("flow {flow}: datagram of {len}")))
        }
        CapturedFrameContent::Cnm { congestion_point, destination, fb, q_off, q_delta, .. } => {
            Some((None, destination, format!("CNM {fb} {q_off} {q_delta} of {congestion_point:?}")))
        }
        CapturedFrameContent::Rdma {
            headers: CapturedFlowHeaders { source, destination, flow, .. },
            packet,
            ..
        } => Some((Some(source), destination, format!("flow {flow}: {packet:?}"))),
        CapturedFrameContent::Bytes { .. }
        | CapturedFrameContent::Pause { .. }
        | CapturedFrameContent::LinkPause { .. } => None,
    }
}

/// What a run had of what these tests are about.
#[derive(Default, Debug)]
struct Seen {
    packets: usize,
    late: usize,
    cnms: usize,
}

/// Each packet leaves the host that sent it, is sent on by a switch only if it came there by a link, and comes to no other
/// host than its own.
fn check_journeys(topology: &Topology, frames: &[CapturedFrame], ends: &[Time], what: &str) -> Seen {
    let is_host = |node: NodeId| topology.nodes()[node].kind == NodeKind::Host;
    let mut here: BTreeMap<(NodeId, String), i64> = BTreeMap::new();
    let mut seen = Seen::default();
    for frame in frames {
        let Some((source, destination, name)) = identity(frame) else { continue };
        let [from, to] =
            [topology.owner(frame.port), topology.peer(frame.port)].map(|node| topology.host_of(node));
        seen.packets += 1;
        match frame.content {
            CapturedFrameContent::Segment(headers, _) | CapturedFrameContent::Datagram(headers, _) => {
                // Queue pairs of flows with several have other numbers.
                let end = ends.get(headers.flow as usize);
                seen.late += usize::from(end.is_some_and(|end| *end < frame.time));
            }
            _ => seen.cnms += 1,
        }
        if is_host(from) {
            assert_eq!(Some(from), source, "{what}: a host sent what is not its own: {frame:?}");
        } else if source.is_some() {
            let held = here.entry((from, name.clone())).or_default();
            *held -= 1;
            assert!(*held >= 0, "{what}: a switch sent what never came to it: {frame:?}");
        }
        if is_host(to) {
            assert_eq!(to, destination, "{what}: a packet for another host: {frame:?}");
        } else {
            *here.entry((to, name)).or_default() += 1;
        }
    }
    seen
}

/// Runs a prepared network with every port captured, and checks the journeys of all packets.
fn run_captured(
    topology: &Topology,
    settings: &Settings,
    workloads: Vec<Box<dyn Workload>>,
    prepare: impl Fn(&mut Network),
    what: &str,
) -> (Network, Seen) {
    let mut network = build_with(topology, settings, workloads);
    network
        .enable_frame_capture(&(0..topology.port_count() as u32).map(PortId).collect::<Vec<_>>(), u64::MAX);
    prepare(&mut network);
    let ending = proceed(&mut network, Time::MAX);
    let ends: Vec<Time> = network.flow_records(ending.now).iter().map(|record| record.end).collect();
    let frames = network.take_captured_frames();
    let seen = check_journeys(topology, &frames, &ends, what);
    assert_eq!(network.packets_in_network(), 0, "{what}");
    (network, seen)
}

/// Many small flows one soon after the other, so that what one gives up the next takes.
fn many_flows(rng: &mut Rng, topology: &Topology, count: u64, transports: u64) -> Vec<FlowSpec> {
    let hosts: Vec<_> = topology.hosts().collect();
    let n = hosts.len() as u64;
    let mut start = 0;
    (0..count)
        .map(|number| {
            let from = rng.uniform_below(n);
            let to = (from + 1 + rng.uniform_below(n - 1)) % n;
            start += rng.uniform_below(4 * US);
            let size = 1 + rng.uniform_below(6_000);
            FlowSpec {
                reply: rng.uniform_below(2) * rng.uniform_below(4_000),
                start: Time(start),
                transport: (number % transports) as u16,
                ..FlowSpec::new(hosts[from as usize], hosts[to as usize], size)
            }
        })
        .collect()
}

/// Kept connections: the next exchange of each begins soon after the one before is over.
#[derive(Debug)]
struct Exchanges {
    due: BTreeMap<(Time, u32), FlowSpec>,
    turns: u32,
}

impl Exchanges {
    /// A connection for each of `flows`, as workload 1, with `turns` exchanges.
    fn new(flows: &[FlowSpec], turns: u32) -> Exchanges {
        let first = |(number, flow): (u32, &FlowSpec)| {
            let kept = Some(KeptConnection { number: number * turns, first: true, last: turns == 1 });
            ((flow.start, number), FlowSpec { kept, workload: 1, ..*flow })
        };
        Exchanges { due: (0..).zip(flows).map(first).collect(), turns }
    }
}

impl Workload for Exchanges {
    fn next_start_time(&self) -> Option<Time> {
        self.due.keys().next().map(|(start, _)| *start)
    }
    fn next_flow(&mut self) -> FlowSpec {
        self.due.pop_first().expect("asked for a flow at the start of one").1
    }
    fn on_flow_finished(&mut self, record: &FlowRecord, now: Time) {
        let (spec, kept) = (record.spec, record.spec.kept.expect("all of these are"));
        if kept.last {
            return;
        }
        // The query counts the exchanges.
        let turn = spec.query.unwrap_or(0) + 1;
        let kept = KeptConnection { first: false, last: turn + 1 == self.turns, ..kept };
        let start = now + Span::from_us(1 + u64::from(turn) * 7);
        self.due
            .insert((start, kept.number), FlowSpec { kept: Some(kept), query: Some(turn), start, ..spec });
    }
}

fn draw_hasty(rng: &mut Rng, seed: u64) -> (Topology, Settings) {
    let scenario = draw(seed);
    let mut settings = Settings { nic_buffer: 6_000, ..scenario.settings };
    let rto = Span(1 + rng.uniform_below(20 * US));
    for transport in &mut settings.transports {
        let (fin, handshake) = (rng.uniform_below(2) == 0, rng.uniform_below(2) == 0);
        let delayed_ack = DelayedAckConfig { segments: 2, timeout: Span::from_us(1 + rng.uniform_below(40)) };
        if let Some(config) = tcp_mut(transport) {
            *config = TcpConfig { fin, handshake, delayed_ack, ..hasty(config, rto) };
        }
    }
    if settings.pfc.is_none() {
        // Small enough to drop.
        settings.buffer = match settings.buffer {
            BufferPolicy::Shared(SharedBuffer { alpha, reserved, .. }) => {
                shared_buffer(20_000, alpha, reserved.0)
            }
            BufferPolicy::PerPort(_) | BufferPolicy::IdealOutputQueued(_) => per_port(6_000),
        };
    }
    (scenario.topology, settings)
}

fn add_extras(rng: &mut Rng, topology: &Topology, settings: &mut Settings) {
    let hosts: Vec<_> = topology.hosts().collect();
    let one = |rng: &mut Rng| hosts[rng.uniform_below(hosts.len() as u64) as usize];
    if rng.uniform_below(3) == 0 {
        let datagrams = UdpSettings { rate: BitRate::gbps(5), payload: 700, ecn: false };
        let transport = settings.transports[0].clone();
        settings
            .transports
            .push(TransportSettings { protocol: ProtocolSettings::Udp(datagrams), ..transport });
    }
    if rng.uniform_below(3) == 0 {
        settings.refusing = vec![one(rng)];
    }
    if rng.uniform_below(3) == 0 {
        settings.receivers = vec![SlowReceiverSettings {
            host: one(rng),
            rate: BitRate::gbps(1),
            buffer: Bytes(900_000),
            stop: None,
        }];
    }
    if rng.uniform_below(3) == 0 {
        let qcn = QcnSettings { q_eq: Bytes(2_000), sample: Bytes(3_000), ..QcnSettings::default() };
        settings.qcn = Some(qcn);
    }
}

/// Links between switches that go down for a while, and new routes soon after.
fn draw_failures(rng: &mut Rng, topology: &Topology) -> Vec<ScheduledFailure> {
    let links = topology.links().iter_enumerated();
    let inner: Vec<LinkId> = links
        .filter(|(_, link)| link.ends.iter().all(|end| topology.nodes()[*end].kind == NodeKind::Switch))
        .map(|(id, _)| id)
        .collect();
    if inner.is_empty() || rng.uniform_below(2) == 0 {
        return Vec::new();
    }
    (0..3)
        .map(|_| {
            let down = rng.uniform_below(800 * US);
            let what = FailedElement::Link(inner[rng.uniform_below(inner.len() as u64) as usize]);
            ScheduledFailure {
                is_silent: false,
                what,
                down: Time(down),
                up: Some(Time(down + 1 + rng.uniform_below(200 * US))),
            }
        })
        .collect()
}

/// A place in the line for the NIC is that of the socket that took it: no other host's socket sends beyond its room.
fn check_nics(topology: &Topology, network: &Network, settings: &Settings, what: &str) {
    for report in network.port_reports(Time::MAX) {
        let is_nic = topology.nodes()[topology.owner(report.port)].kind == NodeKind::Host;
        // With a queue for each flow every socket has its own share.
        let fits =
            report.backlog_max < settings.nic_buffer + TAGGED || settings.nic_queue == NicQueue::PerFlow;
        assert!(!is_nic || fits, "{what}: more in a NIC than it takes: {report:?}");
    }
}

#[test]
fn every_packet_comes_to_its_own_host_by_links_that_exist() {
    let (mut late, mut cnms) = (0, 0);
    for seed in 0..40 {
        let mut rng = random_stream(seed, "late", 0);
        let (topology, mut settings) = draw_hasty(&mut rng, 7_000 + seed);
        add_extras(&mut rng, &topology, &mut settings);
        let flows = many_flows(&mut rng, &topology, 400, settings.transports.len() as u64);
        let kept = Exchanges::new(&many_flows(&mut rng, &topology, 40, 1), 3);
        let failures = draw_failures(&mut rng, &topology);
        let what = format!("seed {seed}");
        let (mut network, seen) = run_captured(
            &topology,
            &settings,
            vec![Box::new(FlowList(flows.into())), Box::new(kept)],
            |network| network.schedule_failures(failures.clone(), Span::from_us(20)),
            &what,
        );
        (late, cnms) = (late + seen.late, cnms + seen.cnms);
        check_nics(&topology, &network, &settings, &what);
        for record in network.flow_records(Time::MAX) {
            assert_ne!(record.status, FlowStatus::Running, "{what}: {record:?}");
            assert_eq!(record.failure.is_some(), record.status == FlowStatus::Failed, "{what}: {record:?}");
        }
    }
    // The draw is worth its time only if there are such packets.
    assert!(late > 10_000 && cnms > 1_000, "{late} late packets, {cnms} CNMs");
}

/// The same where switches look up (VLAN, destination), and the VLANs are those with the fewest open flows.
#[test]
fn in_vlans_too() {
    let wire = link(10, Span::from_us(1));
    let topology = leaf_spine(3, 2, 3, wire, wire).unwrap();
    let plan = SpanningTrees { lanes: 1, trees_per_lane: Some(2), packing: Packing::Exact, seed: 1 };
    let graph = SwitchGraph::new(&topology).unwrap();
    let tables = Tables::of_plan(&plan.plan(&topology, &graph).unwrap(), 1);
    let mut late = 0;
    for (seed, per_packet) in (0..8).zip([false, true].into_iter().cycle()) {
        let mut rng = random_stream(seed, "late in vlans", 0);
        let choice = if per_packet { VlanChoice::Random } else { VlanChoice::LeastLoaded };
        let tables = tables.clone();
        let routes = VlanRoutes { tables, lanes: vec![priority(1)], choice, per_packet, slack: 4 };
        let config = TcpConfig { handshake: true, fin: true, ..hasty(&config(), Span::from_us(5)) };
        let settings = Settings {
            seed,
            overhead: FrameOverhead::ETHERNET.with_vlan_tag(),
            buffer: per_port(6_000),
            nic_buffer: 6_000,
            vlans: Some(Arc::new(routes)),
            ..settings(config)
        };
        let flows = many_flows(&mut rng, &topology, 400, 1);
        let workloads: Vec<Box<dyn Workload>> = vec![
            Box::new(FlowList(flows.into())),
            Box::new(Exchanges::new(&many_flows(&mut rng, &topology, 40, 1), 3)),
        ];
        let what = format!("seed {seed}");
        let (network, seen) = run_captured(&topology, &settings, workloads, |_| {}, &what);
        check_nics(&topology, &network, &settings, &what);
        late += seen.late;
    }
    assert!(late > 1_000, "{late} late packets");
}

/// Two ways from s0 to s3, with hosts at the switches named.
fn two_ways(hosts: &[(&str, &str)], inner: Channel) -> Topology {
    let mut topology = Topology::new();
    let ids: Vec<_> = hosts.iter().map(|(name, _)| topology.add_node(*name, NodeKind::Host, None)).collect();
    for switch in ["s0", "s1", "s2", "s3"] {
        topology.add_node(switch, NodeKind::Switch, None);
    }
    let node = |topology: &Topology, name| topology.find(name).unwrap();
    for (host, (_, switch)) in ids.into_iter().zip(hosts) {
        let switch = node(&topology, switch);
        topology.add_link(host, switch, link(10, Span::from_us(1)));
    }
    for (a, b) in [("s0", "s1"), ("s1", "s3"), ("s0", "s2"), ("s2", "s3")] {
        let (a, b) = (node(&topology, a), node(&topology, b));
        topology.add_link(a, b, inner);
    }
    topology
}

/// Sprayed packets that are on the wire to s1 when it loses its way to s3 go back where they came from, behind those of c. The
/// packet that leaves, and lowers the account of its ingress to XON, shares the port with the resume frame that this means:
/// one goes after the other.
#[test]
fn a_resume_does_not_overtake_the_packet_that_goes_back() {
    let topology =
        two_ways(&[("a", "s0"), ("d", "s0"), ("c", "s1"), ("b", "s3")], link(10, Span::from_us(100)));
    let back = port(&topology, "s1", "s0");
    let pfc = PfcSettings { xoff: Some(Bytes(6 * TAGGED)), xon: Some(Bytes(4 * TAGGED)), ..pfc() };
    let settings = Settings {
        hop_choice: Some(pauseframe_fabric::HopChoice::Spray),
        pfc: Some(pfc),
        ..lossless(TcpConfig { fast_retransmit: false, ..config() }, 1 << 20)
    };
    let flows = [flow(&topology, "a", "b", 400 * MSS), flow(&topology, "c", "d", 1_000 * MSS)];
    let mut network = build(&topology, &settings, &flows);
    let what = FailedElement::Link(port(&topology, "s1", "s3").link());
    network.schedule_failures(
        vec![ScheduledFailure { is_silent: false, what, down: Time(150 * US), up: None }],
        Span::from_us(1),
    );
    network.enable_frame_capture(&[back], u64::MAX);
    let ending = proceed(&mut network, Time::MAX);
    let frames = network.take_captured_frames();
    let resumes =
        frames.iter().filter(|f| matches!(f.content, CapturedFrameContent::Pause { quanta: 0, .. })).count();
    let returned = frames.iter().filter(|f| {
        matches!(
            f.content,
            CapturedFrameContent::Segment(CapturedFlowHeaders { flow: 0, forward: true, .. }, _)
        )
    });
    assert!(resumes > 0 && returned.count() > 10);
    // No frame is shorter than 84 bytes on the wire.
    let overlap = frames.windows(2).find(|pair| pair[1].time < pair[0].time + Span(84 * 800));
    assert_eq!(overlap, None);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
}

/// A connection whose first exchange has no answer and whose last has one was no load on its way back: two flows that way
/// later on find both VLANs empty, and take one each.
#[test]
fn what_was_no_load_is_not_taken_off() {
    let (topology, tables) = diamond();
    let routes = VlanRoutes { choice: VlanChoice::LeastLoaded, ..routes(tables) };
    let vlans = Some(Arc::new(routes));
    let settings =
        Settings { overhead: FrameOverhead::ETHERNET.with_vlan_tag(), vlans, ..settings(config()) };
    let kept = |first| Some(KeptConnection { number: 0, first, last: !first });
    let there = |reply, first| FlowSpec { reply, kept: kept(first), ..flow(&topology, "h0", "h2", 10 * MSS) };
    let back = |from, to| FlowSpec { start: Time(2_000 * US), ..flow(&topology, from, to, 100 * MSS) };
    let second = FlowSpec { start: Time(1_000 * US), ..there(10 * MSS, false) };
    let flows = [there(0, true), second, back("h2", "h0"), back("h3", "h1")];
    let mut network = build(&topology, &settings, &flows);
    let ways = ["s1", "s2"].map(|middle| port(&topology, "s3", middle));
    network.enable_frame_capture(&ways, u64::MAX);
    let ending = proceed(&mut network, Time::MAX);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
    let frames = network.take_captured_frames();
    let data = |frame: &&CapturedFrame| matches!(frame.content, CapturedFrameContent::Segment(CapturedFlowHeaders { flow: 2.., forward: true, .. }, segment) if segment.len > 0);
    let sent = ways.map(|way| frames.iter().filter(|frame| frame.port == way).filter(data).count());
    assert_eq!(sent, [100, 100]);
}
