//! Builds an idle network from a resolved scenario: converts the scenario's keys into settings of the fabric.

mod rdma;
mod switches;

use crate::recovery::recovery;
use crate::resolve::Resolved;
use crate::spec::lookup::ports_matching;
use crate::spec::{
    BufferSpec, CacheName, ChoiceName, Clocks, DelayedAckFormName, DemandEntry, EcnName, IdealOutputQueued,
    InitialWindow, JitterSpec, NicQueue, ObeysName, Per, PerPort, PfcPortsSpec, PfcSpec, QcnSpec,
    QueueDiscipline, ReceiveBufferName, RoutingKind, RtoFormName, Scenario, SendBufferName, Shared,
    SmallSegmentsName, TransportSpec, UdpSpec, VlanRoutingSpec, WireJitterSpec, WireOverhead, WorkloadKind,
    WorkloadSpec,
};
use pauseframe_fabric::{
    BufferPolicy, DatagramSettings, HeadroomPool, HostLinkJitter, IdealCompletionTime, Jitter, Network,
    ObeyedPauses, Overhead, PauseRule, PfcSettings, QcnSettings, ReceiverSettings, Settings,
    TransportSettings, VlanChoice, VlanRoutes,
};
use pauseframe_routing::NextHops;
use pauseframe_routing::verify::{Demand, Tables};
use pauseframe_topology::Topology;
use pauseframe_transport::{
    CachePolicy, DelayedAckConfig, DelayedAckForm, DisabledMechanisms, EcnMode, OffloadConfig, ReceiveBuffer,
    RtoConfig, RtoForm, SendBuffer, SmallSegments, TcpConfig,
};
use pauseframe_units::{BitRate, NodeId, PortId, Priority, Span, Time};
use pauseframe_workload::{self as workload, QueryNumbers, WorkloadContext};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Size of the IPv4 and TCP headers without options, in bytes.
const HEADERS: u64 = 40;
/// Size of the timestamps option with its padding, in bytes (RFC 7323).
const TIMESTAMPS: u64 = 12;

/// The network of a scenario with the objects that it was built from.
#[derive(Debug)]
pub(crate) struct Built {
    /// The topology, for names of nodes and ports.
    pub(crate) topology: Arc<Topology>,
    /// The shortest paths in the topology.
    pub(crate) routes: Arc<NextHops>,
    /// The idle network.
    pub(crate) network: Network,
    /// The settings of the network.
    pub(crate) settings: Arc<Settings>,
    /// Ideal completion times in the idle network.
    pub(crate) ideal: IdealCompletionTime,
    /// Names of the transports by index: "default", then the names in `[transports]`.
    pub(crate) transports: Vec<String>,
}

/// Builds the network of a scenario on the topology graph that `resolve` checked.
///
/// # Errors
/// A message if some hosts cannot reach each other; `resolve` already refuses such scenarios.
pub(crate) fn build(resolved: &Resolved) -> Result<Built, String> {
    let topology = resolved.topology();
    let routes = Arc::new(NextHops::shortest(topology).map_err(|error| error.to_string())?);
    build_on(&resolved.scenario, topology, &routes, None)
}

/// Builds a network like `like` in which only the workload `only` is active; the other workloads keep their
/// indices but start no flow.
pub(crate) fn build_only(scenario: &Scenario, like: &Built, only: usize) -> Result<Built, String> {
    build_on(scenario, &like.topology, &like.routes, Some(only))
}

fn build_on(
    scenario: &Scenario,
    topology: &Arc<Topology>,
    routes: &Arc<NextHops>,
    only: Option<usize>,
) -> Result<Built, String> {
    let (topology, routes) = (Arc::clone(topology), Arc::clone(routes));
    let transports = all_transports(scenario);
    let connected = scenario.transport_specs().count();
    let mut settings = settings(scenario, &topology, transports);
    for (index, spec) in scenario.transport_specs().enumerate() {
        let window = initial_window(spec, index as u16, &topology, &routes, &settings);
        let config = Arc::make_mut(&mut settings.transports[index].config);
        config.initial_window = window;
    }
    let longest = longest_pair(&topology, &routes, settings.vlans.as_deref());
    let idle =
        IdealCompletionTime::new(Arc::clone(&topology), Arc::clone(&routes), Arc::new(settings.clone()));
    for index in 0..connected {
        let base_rtt = || longest.map_or(Span(1), |(a, b)| idle.base_rtt(a, b, index as u16));
        if let Some(rdma) = &mut settings.transports[index].rdma {
            let links = || longest.map_or(1, |(a, b)| idle.link_count(a, b));
            rdma::set_longest_path(rdma, base_rtt, links);
        }
    }
    let settings = Arc::new(settings);
    let ideal = IdealCompletionTime::new(Arc::clone(&topology), Arc::clone(&routes), Arc::clone(&settings));
    let mut transports = vec!["default".to_owned()];
    transports.extend(scenario.transports.iter().map(|(name, _)| name.clone()));
    let sources: Vec<&WorkloadSpec> = udp_workloads(scenario).map(|(spec, _)| spec).collect();
    transports.extend(sources.iter().map(|_| "udp".to_owned()));
    let applications = scenario.workload.iter().map(|workload| match &workload.kind {
        WorkloadKind::Application(spec) => Some(spec),
        _ => None,
    });
    let placed = workload::application::place(applications, &topology, scenario.seed);
    let placed = placed.map_err(|(index, reason)| format!("{}: {reason}", scenario.workload[index].name))?;
    let of_query = ideal.clone();
    let context = WorkloadContext {
        topology: &topology,
        placed,
        seed: scenario.seed,
        ideal_of_query: Arc::new(move |flows| of_query.query_completion_time(flows)),
        query_numbers: QueryNumbers::default(),
    };
    let workloads = scenario.workload.iter().enumerate().map(|(index, spec)| {
        let source = sources.iter().position(|source| source.name == spec.name);
        let named = || transports.iter().position(|name| *name == spec.transport).unwrap_or(0);
        let transport = source.map_or_else(named, |source| connected + source);
        if only.is_some_and(|only| only != index) {
            return workload::nothing();
        }
        workload::build(spec, index as u16, transport as u16, &context)
    });
    let workloads = workloads.collect();
    let network = Network::new(
        Arc::clone(&topology),
        Arc::clone(&routes),
        Arc::clone(&settings),
        workloads,
        scenario.stop.when_finished,
    );
    Ok(Built { topology, routes, network, settings, ideal, transports })
}

/// All transports, without their initial windows, which depend on the network.
pub(crate) fn transports(scenario: &Scenario) -> Vec<TransportSettings> {
    scenario.transport_specs().map(|spec| transport(spec, scenario)).collect()
}

/// All transports, followed by one transport for each datagram workload.
pub(crate) fn all_transports(scenario: &Scenario) -> Vec<TransportSettings> {
    let mut all = transports(scenario);
    let of_datagrams: Vec<_> = udp_workloads(scenario).map(|(_, udp)| datagrams(udp, &all[0])).collect();
    all.extend(of_datagrams);
    all
}

/// The datagram workloads; each has its own transport in the network.
fn udp_workloads(scenario: &Scenario) -> impl Iterator<Item = (&WorkloadSpec, &UdpSpec)> {
    scenario.workload.iter().filter_map(|spec| match &spec.kind {
        WorkloadKind::Udp(udp) => Some((spec, udp)),
        _ => None,
    })
}

/// The TCP settings copied from `like` are placeholders; a datagram transport ignores them.
fn datagrams(spec: &UdpSpec, like: &TransportSettings) -> TransportSettings {
    let datagrams = DatagramSettings { rate: spec.rate, payload: spec.datagram.0 as u32, ecn: spec.ecn };
    let priority = Priority::new(spec.priority).unwrap_or_default();
    TransportSettings { config: Arc::clone(&like.config), priority, datagrams: Some(datagrams), rdma: None }
}

/// Header overhead of packets on the wire; in VLANs, each packet has an 802.1Q tag.
pub(crate) fn overhead(scenario: &Scenario) -> Overhead {
    let plain = match scenario.host.wire_overhead {
        WireOverhead::Ethernet => Overhead::ETHERNET,
        WireOverhead::None => Overhead::NONE,
    };
    if scenario.routing.vlans.is_some() { plain.tagged() } else { plain }
}

pub(crate) fn settings(
    scenario: &Scenario,
    topology: &Topology,
    transports: Vec<TransportSettings>,
) -> Settings {
    let host = &scenario.host;
    let vlans = vlan_routes(scenario, topology).map(Arc::new);
    let receivers = host.slow_hosts().iter().filter_map(|receiver| {
        let node = topology.find(&receiver.host)?;
        let stop = receiver.stop.map(|stop| Time::ZERO + stop);
        Some(ReceiverSettings { host: node, rate: receiver.rate, buffer: receiver.buffer, stop })
    });
    let nodes = |names: &[String]| names.iter().filter_map(|name| topology.find(name)).collect();
    Settings {
        seed: scenario.seed,
        overhead: overhead(scenario),
        mtu: host.mtu.0 as u32,
        tx_delay: host.tx_delay,
        tx_jitter: jitter(host.tx_jitter, scenario.clocks == Clocks::Real),
        wire_jitter: jitter(host.wire_jitter, scenario.clocks == Clocks::Real && sends_lossy(scenario)),
        random_ties: scenario.clocks == Clocks::Real,
        wire_jitters: host.wire_jitters.iter().filter_map(|own| wire_jitter(own, topology)).collect(),
        wire_burst: host.wire_burst.0 as u32,
        ticks_apart: host.ticks_apart,
        rx_delay: host.rx_delay,
        reaction: host.reaction,
        nic_buffer: host.nic_buffer.0,
        nic_fifo: host.nic_queue == NicQueue::Fifo,
        switch_latency: scenario.switch.latency,
        buffer: match scenario.switch.buffer {
            BufferSpec::PerPort(PerPort { size }) => BufferPolicy::PerPort(size),
            BufferSpec::Shared(Shared { size, alpha, reserved, .. }) => {
                BufferPolicy::Shared { size, alpha, reserved }
            }
            BufferSpec::IdealOutputQueued(IdealOutputQueued { size }) => {
                BufferPolicy::IdealOutputQueued(size)
            }
        },
        queue_packets: scenario.switch.queue_packets,
        egress_pool: match scenario.switch.buffer {
            BufferSpec::Shared(Shared { egress_pool, .. }) => egress_pool,
            BufferSpec::PerPort(_) | BufferSpec::IdealOutputQueued(_) => None,
        },
        marker: scenario.switch.marker.clone(),
        queue: scenario.switch.queue,
        scheduler: switches::scheduler(&scenario.switch.scheduler),
        classes: scenario.switch.classes.iter().map(|(_, class)| switches::class(class)).collect(),
        pfc: scenario.switch.pfc.as_ref().map(|spec| pfc(spec, topology)),
        qcn: scenario.qcn.as_ref().map(qcn),
        receivers: receivers.collect(),
        spray: scenario.routing.kind == RoutingKind::Spray,
        vlans,
        refusing: nodes(&host.refusing),
        silent: nodes(&host.silent),
        transports,
    }
}

/// The forwarding tables, with one priority for each lane. Without PFC, lanes have no effect: every packet
/// keeps its priority.
fn vlan_routes(scenario: &Scenario, topology: &Topology) -> Option<VlanRoutes> {
    let spec = scenario.routing.vlans.as_ref()?;
    let tables = Tables::clone(&spec.tables.0);
    let choice = match spec.use_of.choice {
        ChoiceName::Random => VlanChoice::Random,
        ChoiceName::BestOfTwo => VlanChoice::BestOfTwo,
        ChoiceName::LeastLoaded => VlanChoice::LeastLoaded,
        ChoiceName::Demand => VlanChoice::Assigned(assigned(spec, &tables, topology)),
    };
    let other = Priority::new(scenario.transport.priority).unwrap_or_default();
    let lossless = scenario.switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    let lanes = lossless.iter().filter_map(|p| Priority::new(*p)).chain(std::iter::repeat(other));
    Some(VlanRoutes {
        lanes: lanes.take(tables.lanes()).collect(),
        tables,
        choice,
        per_packet: spec.use_of.per == Per::Packet,
        slack: spec.use_of.slack,
    })
}

fn assigned(spec: &VlanRoutingSpec, tables: &Tables, topology: &Topology) -> BTreeMap<(NodeId, NodeId), u16> {
    let names: BTreeMap<&str, NodeId> =
        topology.nodes().iter_enumerated().map(|(id, node)| (node.name.as_str(), id)).collect();
    let demand = |entry: &DemandEntry| {
        let (from, to) = (names.get(entry.src.as_str())?, names.get(entry.dst.as_str())?);
        Some(Demand { from: *from, to: *to, amount: entry.rate.0 as f64 })
    };
    let demands: Vec<Demand> = spec.use_of.demand.iter().filter_map(demand).collect();
    let vlans = tables.assign(topology, &demands, spec.use_of.slack);
    demands.iter().zip(vlans).filter_map(|(d, vlan)| Some(((d.from, d.to), vlan?))).collect()
}

fn pfc(spec: &PfcSpec, topology: &Topology) -> PfcSettings {
    PfcSettings {
        priorities: priorities(&spec.priorities),
        whole_link: spec.whole_link,
        xoff: spec.xoff,
        xon: spec.xon,
        headroom: spec.headroom,
        reaction: spec.reaction,
        quanta: spec.quanta,
        headroom_pool: spec.headroom_pool.as_ref().map(|pool| {
            pool.size.map_or(HeadroomPool::OverSubscription(pool.over_subscription), HeadroomPool::Bytes)
        }),
        rules: spec.ports.iter().flat_map(|row| pause_rules(row, topology)).collect(),
    }
}

fn pause_rules(row: &PfcPortsSpec, topology: &Topology) -> Vec<(PortId, PauseRule)> {
    let obeys = match row.obeys {
        ObeysName::Lossless => ObeyedPauses::Lossless,
        ObeysName::All => ObeyedPauses::All,
        ObeysName::None => ObeyedPauses::None,
    };
    let rule = PauseRule { sends: row.sends, obeys };
    ports_matching(&row.ports, topology).into_iter().map(|port| (port, rule)).collect()
}

fn priorities(list: &[u8]) -> Vec<Priority> {
    list.iter().filter_map(|priority| Priority::new(*priority)).collect()
}

fn qcn(spec: &QcnSpec) -> QcnSettings {
    QcnSettings {
        priorities: spec.priorities.as_deref().map(priorities),
        cnm_priority: Priority::new(spec.cnm_priority).unwrap_or_default(),
        q_eq: spec.q_eq,
        w: spec.w,
        sample: spec.sample,
        jitter: spec.jitter,
        g_d: spec.g_d,
        min_decrease: spec.min_decrease,
        fast_recovery: spec.fast_recovery,
        active_increase: spec.active_increase,
        hyper_active_increase: spec.hyper_active_increase,
        byte_counter: spec.byte_counter,
        timer: spec.timer,
        extra_fast_recovery: spec.extra_fast_recovery,
        min_rate: spec.min_rate,
    }
}

fn transport(spec: &TransportSpec, scenario: &Scenario) -> TransportSettings {
    let (host, switch) = (&scenario.host, &scenario.switch);
    let options = if spec.timestamps { TIMESTAMPS } else { 0 };
    let config = TcpConfig {
        congestion_control: spec.congestion_control,
        mss: (host.mtu.0 - HEADERS - options) as u32,
        initial_window: 0,
        ecn: match spec.ecn {
            EcnName::Off => EcnMode::Off,
            EcnName::Classic => EcnMode::Classic,
            EcnName::Dctcp => EcnMode::Dctcp,
        },
        ect_on_syn: spec.ect_on_syn,
        ect_on_ack: spec.ect_on_ack,
        sack: spec.sack,
        timestamps: spec.timestamps,
        fast_retransmit: spec.fast_retransmit,
        dup_thresh: spec.dup_thresh,
        limited_transmit: spec.limited_transmit,
        recovery: recovery(spec),
        handshake: spec.handshake,
        rto: rto(spec),
        delayed_ack: DelayedAckConfig {
            segments: spec.delayed_ack_segments,
            timeout: spec.delayed_ack_timeout,
        },
        delayed_ack_form: match spec.delayed_ack_form {
            DelayedAckFormName::Fixed => DelayedAckForm::Fixed,
            DelayedAckFormName::Linux => {
                DelayedAckForm::Linux { quick_acks: spec.quick_acks, compress: spec.sack_compression }
            }
        },
        receive_window: spec.receive_window.0 as u32,
        receive_buffer: receive_buffer(spec),
        send_buffer: match spec.send_buffer {
            SendBufferName::Unlimited => SendBuffer::Unlimited,
            SendBufferName::Linux => SendBuffer::Linux {
                initial: spec.send_buffer_initial.0 as u32,
                max: spec.send_buffer_max.0 as u32,
            },
        },
        small_segments: match spec.small_segments {
            SmallSegmentsName::AtOnce => SmallSegments::AtOnce,
            SmallSegmentsName::Nagle => SmallSegments::Nagle,
            SmallSegmentsName::Cork => SmallSegments::Cork,
        },
        small_queues: spec.small_queues,
        offload: OffloadConfig {
            tso: if host.tso { host.tso_size.0 as u32 } else { 0 },
            gro: if host.gro { host.gro_timeout } else { Span::ZERO },
        },
        reassembly_limit: spec.reassembly_limit,
        dsack: spec.dsack && spec.sack,
        read_rate: spec.read_rate.unwrap_or_default(),
        fin: spec.fin,
        cache: match spec.cache {
            CacheName::None => CachePolicy::Off,
            CacheName::Linux => CachePolicy::Linux,
            CacheName::LinuxSsthresh => CachePolicy::LinuxSsthresh,
            CacheName::Freebsd => CachePolicy::Freebsd,
            CacheName::Cee => CachePolicy::Cee,
        },
        syn_retries: spec.syn_retries,
        retries: spec.retries,
        without: DisabledMechanisms::NOTHING,
    };
    let priority = Priority::new(spec.priority).unwrap_or_default();
    TransportSettings {
        config: Arc::new(config),
        priority,
        datagrams: None,
        rdma: rdma::settings(spec, switch.queue_of(spec.priority) == QueueDiscipline::Trim),
    }
}

fn rto(spec: &TransportSpec) -> RtoConfig {
    RtoConfig {
        initial: spec.rto_initial,
        min: spec.rto_min,
        max: spec.rto_max,
        granularity: spec.rto_granularity,
        phase: Span::ZERO,
        form: match spec.rto_form {
            RtoFormName::Rfc => RtoForm::Rfc,
            RtoFormName::Linux => RtoForm::Linux,
            RtoFormName::Freebsd => RtoForm::Freebsd,
        },
        slop: spec.rto_slop,
        wheel: spec.timer_wheel,
    }
}

fn jitter(spec: JitterSpec, auto: bool) -> Jitter {
    match spec {
        JitterSpec::Auto => {
            if auto {
                Jitter::Auto
            } else {
                Jitter::NONE
            }
        }
        JitterSpec::UpTo(most) => Jitter::Always(most),
    }
}

/// True if any workload sends in a lossy class; otherwise the headroom needs no allowance for automatic
/// jitter.
fn sends_lossy(scenario: &Scenario) -> bool {
    let Some(pfc) = &scenario.switch.pfc else { return true };
    let priority = |workload: &WorkloadSpec| {
        if let WorkloadKind::Udp(udp) = &workload.kind {
            return udp.priority;
        }
        let named = scenario.transports.iter().find(|(name, _)| *name == workload.transport);
        named.map_or(&scenario.transport, |(_, spec)| spec).priority
    };
    !pfc.whole_link && scenario.workload.iter().any(|workload| !pfc.priorities.contains(&priority(workload)))
}

fn wire_jitter(own: &WireJitterSpec, topology: &Topology) -> Option<HostLinkJitter> {
    let host = topology.find(&own.host)?;
    Some(HostLinkJitter { host, to_switch: own.to_switch, to_host: own.to_host })
}

fn receive_buffer(spec: &TransportSpec) -> ReceiveBuffer {
    let (initial, max) = (spec.receive_buffer_initial.0 as u32, spec.receive_buffer_max.0 as u32);
    match spec.receive_buffer {
        ReceiveBufferName::Fixed => ReceiveBuffer::Fixed,
        ReceiveBufferName::Linux => ReceiveBuffer::Linux { initial, max },
        ReceiveBufferName::Freebsd => {
            ReceiveBuffer::Freebsd { initial, max, step: spec.receive_buffer_step.0 as u32 }
        }
    }
}

/// The initial window in bytes. One BDP is the rate of the slowest host link times the base RTT of the
/// longest shortest path, rounded up to whole packets on the wire. With forwarding tables, the longest
/// shortest route of the tables replaces the longest shortest path.
fn initial_window(
    spec: &TransportSpec,
    index: u16,
    topology: &Arc<Topology>,
    routes: &Arc<NextHops>,
    settings: &Settings,
) -> u64 {
    let transport = &settings.transports[usize::from(index)];
    let mss = u64::from(transport.config.mss);
    match spec.initial_window {
        InitialWindow::Segments(n) => u64::from(n) * mss,
        InitialWindow::Bytes(bytes) => bytes.0,
        InitialWindow::Bdp => {
            let ideal = IdealCompletionTime::new(
                Arc::clone(topology),
                Arc::clone(routes),
                Arc::new(settings.clone()),
            );
            let rtt = longest_pair(topology, routes, settings.vlans.as_deref())
                .map_or(Span::ZERO, |(a, b)| ideal.base_rtt(a, b, index));
            let packet =
                settings.overhead.frame_size(settings.mtu, transport.priority) + settings.overhead.gap;
            let bytes = slowest_host_link(topology).bytes_in(rtt).0;
            bytes.div_ceil(u64::from(packet)).max(1) * mss
        }
    }
}

fn slowest_host_link(topology: &Topology) -> BitRate {
    let rates = topology.hosts().map(|host| topology.channel(topology.nodes()[host].ports[0]).rate);
    rates.min().unwrap_or_default()
}

/// Two hosts with the largest distance in the network; the first host of each switch stands for all hosts of
/// that switch.
fn longest_pair(
    topology: &Topology,
    routes: &NextHops,
    vlans: Option<&VlanRoutes>,
) -> Option<(NodeId, NodeId)> {
    let mut by_switch: Vec<(NodeId, NodeId)> =
        topology.hosts().map(|host| (topology.peer(topology.nodes()[host].ports[0]), host)).collect();
    by_switch.sort_unstable();
    let first_two = by_switch.chunk_by(|a, b| a.0 == b.0).flat_map(|hosts| hosts.iter().take(2));
    let hosts: Vec<NodeId> = first_two.map(|(_, host)| *host).collect();
    let pairs = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
    let distance = |a, b| vlans.map_or_else(|| routes.distance(a, b), |vlans| vlans.hop_distance(a, b));
    pairs.max_by_key(|(a, b)| (distance(*a, *b), std::cmp::Reverse((*a, *b))))
}
