//! A network made of a topology, settings and a list of flows, and a run of it.

use pauseframe_engine::{RunCallbackDecision, RunEnding, RunLimits};
use pauseframe_fabric::{
    BufferPolicy, CatchPanic, ConWeaveSettings, FlowRecord, FlowSpec, FrameOverhead, HostLinkJitterSettings,
    HostPortSettings, MarkAt, Marker, Network, NicQueue, NotEctAction, PerPortBuffer, PfcSettings,
    PortPriorityReport, ProtocolSettings, QueueDiscipline, QueueLengthThreshold, Sample, SamplePlan,
    SampledMetric, Scheduler, Settings, SharedBuffer, StepMarker, TransportSettings, ValueByPort, Workload,
};
use pauseframe_routing::NextHops;
use pauseframe_topology::{Channel, NodeKind, Topology};
use pauseframe_transport::{
    CongestionControlConfig, DctcpConfig, DelayedAckConfig, EcnMode, RtoConfig, RtoForm, TcpConfig,
};
use pauseframe_units::{BitRate, Bytes, PortId, Priority, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Payload of a full packet of 1500 bytes.
pub(crate) const MSS: u64 = 1460;
/// A full frame without and with a VLAN tag, as buffers count it.
pub(crate) const FRAME: u64 = 1518;
pub(crate) const TAGGED: u64 = 1522;
/// The lossless priority of these tests.
pub(crate) const LOSSLESS: u8 = 3;

/// Flows in the order of their start.
#[derive(Debug)]
pub(crate) struct FlowList(pub(crate) VecDeque<FlowSpec>);

impl Workload for FlowList {
    fn is_open_loop(&self) -> bool {
        true
    }

    fn next_start_time(&self) -> Option<Time> {
        self.0.front().map(|flow| flow.start)
    }
    fn next_flow(&mut self) -> FlowSpec {
        self.0.pop_front().expect("asked for a flow at the start of one")
    }
}

pub(crate) fn link(gbps: u64, delay: Span) -> Channel {
    Channel { rate: BitRate::gbps(gbps), delay }
}

pub(crate) fn priority(code_point: u8) -> Priority {
    Priority::new(code_point).expect("one of eight")
}

/// `NewReno` that neither cwnd nor the receive window holds back, on a connection that is open already.
pub(crate) fn config() -> TcpConfig {
    TcpConfig {
        mss: MSS as u32,
        initial_window: 1 << 40,
        sack: true,
        limited_transmit: true,
        rto: RtoConfig {
            initial: Span::from_ms(50),
            min: Span::from_ms(50),
            max: Span::from_secs(10),
            form: RtoForm::Linux,
            ..TcpConfig::PLAIN.rto
        },
        delayed_ack: DelayedAckConfig { segments: 2, timeout: Span::from_ms(1) },
        receive_window: 1 << 30,
        ..TcpConfig::PLAIN
    }
}

/// DCTCP with an initial window in bytes.
pub(crate) fn dctcp(initial_window: u64) -> TcpConfig {
    TcpConfig {
        congestion_control: CongestionControlConfig::Dctcp(DctcpConfig::DEFAULT),
        ecn: EcnMode::Dctcp,
        ect_on_syn: true,
        ect_on_ack: true,
        initial_window,
        ..config()
    }
}

pub(crate) fn step(k: u64) -> Marker {
    Marker::StepMarker(StepMarker {
        k: ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(k))),
        at: MarkAt::Enqueue,
        not_ect: NotEctAction::Queue,
    })
}

/// The same with what scenarios have unless they ask for ideal clocks.
pub(crate) fn real_clocks(settings: Settings) -> Settings {
    Settings { random_ties: true, ..settings }
}

/// A uniform random delay of up to `jitter` on the links of all hosts, towards their switches.
pub(crate) fn jitter_to_switch(topology: &Topology, jitter: Span) -> Vec<HostLinkJitterSettings> {
    let row = |host| HostLinkJitterSettings { host, to_switch: jitter, to_host: Span::ZERO };
    topology.hosts().map(row).collect()
}

/// Lossy Ethernet with buffers that do not fill, no stack, no latency, ideal clocks.
pub(crate) fn settings(config: TcpConfig) -> Settings {
    Settings {
        seed: 1,
        overhead: FrameOverhead::ETHERNET,
        mtu: 1500,
        tx_delay: Span::ZERO,
        tx_jitter: Span::ZERO,
        random_ties: false,
        wire_burst: 0,
        wire_jitters: Vec::new(),
        ticks_apart: false,
        initial_windows: BTreeMap::new(),
        rx_delay: Span::ZERO,
        reaction: Span::ZERO,
        nic_buffer: u64::MAX,
        nic_queue: NicQueue::PerDestination,
        host_ports: HostPortSettings::DEFAULT,
        dual_tor: None,
        mlag: None,
        path_hash: pauseframe_fabric::path_hash::PathHashSettings::IDEAL,
        switch_latency: Span::ZERO,
        buffer: per_port(1 << 30),
        linux_switch: None,
        queue_packets: None,
        marker: Marker::NONE,
        queue: QueueDiscipline::Fifo,
        codel: None,
        scheduler: Scheduler::STRICT,
        classes: vec![],
        pfc: None,
        switch_overrides: Vec::new(),
        qcn: None,
        receivers: vec![],
        hop_choice: None,
        vlans: None,
        refusing: Vec::new(),
        silent: Vec::new(),
        scale_up: None,
        transports: vec![TransportSettings::of_tcp(Arc::new(config), priority(0))],
    }
}

/// The values of its simulator for leaves and spines.
pub(crate) const CONWEAVE: ConWeaveSettings = ConWeaveSettings {
    reply_slack: Span::from_us(4),
    path_busy: Span::from_us(16),
    idle: Span::from_us(300),
    tail_slack: Span::from_us(16),
    blind_wait: Span::from_us(200),
    hold_queues: 65_535,
    control_priority: Priority::new(7).expect("below 8"),
};

/// The settings of TCP, to change, if it is a transport of TCP.
pub(crate) fn tcp_mut(transport: &mut TransportSettings) -> Option<&mut TcpConfig> {
    let ProtocolSettings::Tcp(config) = &mut transport.protocol else { return None };
    Some(Arc::make_mut(config))
}

/// A buffer of so many bytes per port.
pub(crate) fn per_port(size: u64) -> BufferPolicy {
    BufferPolicy::PerPort(PerPortBuffer { size: Bytes(size) })
}

/// A shared buffer with one pool.
pub(crate) fn shared_buffer(size: u64, alpha: f64, reserved: u64) -> BufferPolicy {
    let (size, reserved) = (Bytes(size), Bytes(reserved));
    BufferPolicy::Shared(SharedBuffer { size, alpha, reserved, egress_pool: None })
}

pub(crate) fn pfc() -> PfcSettings {
    PfcSettings {
        priorities: vec![priority(LOSSLESS)],
        whole_link: false,
        xoff: None,
        xon: None,
        headroom: None,
        reaction: Some(Span::ZERO),
        quanta: u16::MAX,
        headroom_pool: None,
        watchdog: None,
        ports: Vec::new(),
    }
}

/// The same with a lossless class for all packets and `buffer` bytes for each ingress.
pub(crate) fn lossless(config: TcpConfig, buffer: u64) -> Settings {
    let transport = TransportSettings::of_tcp(Arc::new(config), priority(LOSSLESS));
    Settings {
        buffer: per_port(buffer),
        pfc: Some(pfc()),
        transports: vec![transport],
        ..settings(self::config())
    }
}

/// A one-way flow at the start of the run.
pub(crate) fn flow(topology: &Topology, from: &str, to: &str, size: u64) -> FlowSpec {
    let node = |name| topology.find(name).expect("a node of the topology");
    FlowSpec::new(node(from), node(to), size)
}

/// The port from a node to its neighbour.
pub(crate) fn port(topology: &Topology, from: &str, to: &str) -> PortId {
    let node = &topology.nodes()[topology.find(from).expect("a node of the topology")];
    let towards = |port: &&PortId| topology.nodes()[topology.peer(**port)].name == to;
    *node.ports.iter().find(towards).expect("neighbours")
}

/// One switch, `s`, with a host at each of the links given.
pub(crate) fn star_of(hosts: &[(&str, Channel)]) -> Topology {
    let mut topology = Topology::new();
    let ids: Vec<_> = hosts.iter().map(|(name, _)| topology.add_node(*name, NodeKind::Host, None)).collect();
    let switch = topology.add_node("s", NodeKind::Switch, None);
    for (id, (_, channel)) in ids.into_iter().zip(hosts) {
        topology.add_link(id, switch, *channel);
    }
    topology
}

/// Two leaves with a host each, a spine behind which all links have 100 Gb/s, and one with a link of 20 Gb/s to the second leaf.
pub(crate) fn slow_and_fast() -> Topology {
    let mut topology = Topology::new();
    let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
    let [left, right, slow, fast] =
        ["left", "right", "slow", "fast"].map(|name| topology.add_node(name, NodeKind::Switch, None));
    let wire = |gbps| link(gbps, Span::from_us(1));
    for (from, to, gbps) in [
        (a, left, 100),
        (b, right, 100),
        (left, slow, 100),
        (left, fast, 100),
        (slow, right, 20),
        (fast, right, 100),
    ] {
        topology.add_link(from, to, wire(gbps));
    }
    topology
}

/// An idle network with its first events.
pub(crate) fn build(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> Network {
    assert!(flows.is_sorted_by_key(|flow| flow.start), "flows are listed in the order of their start");
    build_with(topology, settings, vec![Box::new(FlowList(flows.to_vec().into()))])
}

/// The same with workloads of any kind.
pub(crate) fn build_with(
    topology: &Topology,
    settings: &Settings,
    workloads: Vec<Box<dyn Workload>>,
) -> Network {
    let topology = Arc::new(topology.clone());
    let routes = Arc::new(NextHops::shortest(&topology).expect("a connected topology"));
    Network::new(topology, routes, Arc::new(settings.clone()), workloads, false)
}

/// Runs what [`build`] made up to `until`, or until nothing is left to happen.
pub(crate) fn proceed(network: &mut Network, until: Time) -> RunEnding {
    let limits = RunLimits { time: until, watch_every: u64::MAX };
    network
        .run(limits, BARE, |_, _| RunCallbackDecision::Continue)
        .expect("threads that panic are not caught here")
}

/// A shield that holds nothing back.
pub(crate) const BARE: CatchPanic = |work| {
    work();
    Ok(())
};

/// Builds and runs until the last packet has arrived and the last timer is off.
pub(crate) fn run(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> (Network, RunEnding) {
    run_until(topology, settings, flows, Time::MAX)
}

/// Builds and runs up to `until`.
pub(crate) fn run_until(
    topology: &Topology,
    settings: &Settings,
    flows: &[FlowSpec],
    until: Time,
) -> (Network, RunEnding) {
    let mut network = build(topology, settings, flows);
    let ending = proceed(&mut network, until);
    (network, ending)
}

pub(crate) fn fct(record: &FlowRecord) -> Span {
    record.end - record.spec.start
}

/// What `port` did for the one priority in use.
pub(crate) fn report(network: &Network, ending: &RunEnding, port: PortId) -> PortPriorityReport {
    let reports = network.port_reports(ending.now);
    *reports.iter().find(|report| report.port == port).expect("a port that did something")
}

/// Drops of all ports, by reason.
pub(crate) fn drops(network: &Network, ending: &RunEnding) -> [u64; 6] {
    let reports = network.port_reports(ending.now);
    reports
        .iter()
        .fold([0; 6], |sum, report| std::array::from_fn(|reason| sum[reason] + report.drops[reason]))
}

/// Goodput of each flow in Gb/s, in intervals of `every` up to `until`: `[interval][flow]`.
pub(crate) fn goodputs(
    topology: &Topology,
    settings: &Settings,
    flows: &[FlowSpec],
    every: Span,
    until: Time,
) -> Vec<Vec<f64>> {
    let mut network = build(topology, settings, flows);
    network.enable_sampling(SamplePlan { every, ports: vec![], workloads: vec![true] });
    proceed(&mut network, until);
    let samples = network.take_metric_samples();
    let mut rows = vec![vec![0.0; flows.len()]; (until.0 / every.0) as usize];
    for Sample { time, metric, entity, value } in samples {
        if let (SampledMetric::Goodput, pauseframe_fabric::SampledEntity::Flow(flow)) = (metric, entity) {
            rows[(time.0 / every.0) as usize - 1][flow as usize] = value;
        }
    }
    rows
}

/// Means over the intervals `from..to` of what [`goodputs`] gave.
pub(crate) fn mean(rows: &[Vec<f64>], from: usize, to: usize) -> Vec<f64> {
    let flows = rows[0].len();
    (0..flows)
        .map(|flow| rows[from..to].iter().map(|row| row[flow]).sum::<f64>() / (to - from) as f64)
        .collect()
}
