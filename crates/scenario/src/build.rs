//! From a complete scenario to an idle network: the spec's words in the terms of the fabric.

use crate::resolve::build_topology;
use crate::spec::{
    BufferSpec, CacheName, CongestionControlName, DelayedAckFormName, EcnName, HostSpec, InitialWindow,
    MarkAt, MarkerSpec, NicQueue, NotEct, PfcSpec, ReceiveBufferName, RoutingKind, RtoFormName, Scenario,
    TransportSpec, WireOverhead,
};
use crate::workload::{self, WorkloadContext};
use pauseframe_fabric::{
    BufferPolicy, IdealTime, Marker, Network, Overhead, PfcSettings, Settings, Transport,
};
use pauseframe_topology::Topology;
use pauseframe_topology::routing::NextHops;
use pauseframe_transport::{
    CachePolicy, Config, CongestionControlConfig, DctcpConfig, DelayedAckConfig, DelayedAckForm, EcnMode,
    ReceiveBuffer, RtoConfig, RtoForm,
};
use pauseframe_units::{BitRate, NodeId, Priority, Span};
use std::sync::Arc;

/// IPv4 and TCP headers without options, bytes.
const HEADERS: u64 = 40;
/// The timestamps option with its padding, bytes (RFC 7323).
const TIMESTAMPS: u64 = 12;

/// A scenario turned into its running parts.
#[derive(Debug)]
pub(crate) struct Built {
    /// The graph, for names.
    pub(crate) topology: Arc<Topology>,
    /// The idle network.
    pub(crate) network: Network,
    /// What was told to it.
    pub(crate) settings: Arc<Settings>,
    /// Names of the transports by index: "default" and those of `[transports]`.
    pub(crate) transports: Vec<String>,
}

/// Builds the network of a scenario.
///
/// # Errors
/// A text that says what is wrong, if hosts can not reach each other (`resolve` refuses such scenarios before).
pub(crate) fn build(scenario: &Scenario) -> Result<Built, String> {
    let problems =
        |list: Vec<crate::Problem>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let topology = Arc::new(build_topology(&scenario.topology).map_err(problems)?);
    let routes = Arc::new(NextHops::shortest(&topology).map_err(|error| error.to_string())?);
    let specs =
        || std::iter::once(&scenario.transport).chain(scenario.transports.iter().map(|(_, spec)| spec));
    let mut settings =
        settings(scenario, &topology, specs().map(|spec| transport(spec, &scenario.host)).collect());
    for (index, spec) in specs().enumerate() {
        let window = initial_window(spec, index as u16, &topology, &routes, &settings);
        let config = Arc::make_mut(&mut settings.transports[index].config);
        config.initial_window = window;
    }
    let settings = Arc::new(settings);
    let ideal = IdealTime::new(Arc::clone(&topology), Arc::clone(&routes), Arc::clone(&settings));
    let mut transports = vec!["default".to_owned()];
    transports.extend(scenario.transports.iter().map(|(name, _)| name.clone()));
    let context = WorkloadContext {
        topology: &topology,
        seed: scenario.seed,
        ideal_of_query: Arc::new(move |flows| ideal.of_query(flows)),
    };
    let workloads = scenario.workload.iter().enumerate().map(|(index, spec)| {
        let transport = transports.iter().position(|name| *name == spec.transport).unwrap_or(0);
        workload::build(spec, index as u16, transport as u16, &context)
    });
    let workloads = workloads.collect();
    let network = Network::new(
        Arc::clone(&topology),
        routes,
        Arc::clone(&settings),
        workloads,
        scenario.stop.when_finished,
    );
    Ok(Built { topology, network, settings, transports })
}

fn settings(scenario: &Scenario, topology: &Topology, transports: Vec<Transport>) -> Settings {
    let host = &scenario.host;
    let nodes = |names: &[String]| names.iter().filter_map(|name| topology.find(name)).collect();
    Settings {
        seed: scenario.seed,
        overhead: match host.wire_overhead {
            WireOverhead::Ethernet => Overhead::ETHERNET,
            WireOverhead::None => Overhead::NONE,
        },
        mtu: host.mtu.0 as u32,
        tx_delay: host.tx_delay,
        tx_jitter: host.tx_jitter,
        rx_delay: host.rx_delay,
        nic_buffer: host.nic_buffer.0,
        nic_fifo: host.nic_queue == NicQueue::Fifo,
        switch_latency: scenario.switch.latency,
        buffer: match scenario.switch.buffer {
            BufferSpec::PerPort { size } => BufferPolicy::PerPort(size),
            BufferSpec::Shared { size, alpha, reserved } => BufferPolicy::Shared { size, alpha, reserved },
        },
        marker: match scenario.switch.marker {
            MarkerSpec::None => Marker::None,
            MarkerSpec::Step { k, at, not_ect } => {
                Marker::Step { k, at_dequeue: at == MarkAt::Dequeue, drop_not_ect: not_ect == NotEct::Drop }
            }
        },
        pfc: scenario.switch.pfc.as_ref().map(pfc),
        spray: scenario.routing.kind == RoutingKind::Spray,
        refusing: nodes(&host.refusing),
        silent: nodes(&host.silent),
        transports,
    }
}

fn pfc(spec: &PfcSpec) -> PfcSettings {
    PfcSettings {
        priorities: spec.priorities.iter().filter_map(|p| Priority::new(*p)).collect(),
        xoff: spec.xoff,
        xon: spec.xon,
        headroom: spec.headroom,
        reaction: spec.reaction,
        quanta: spec.quanta,
    }
}

fn transport(spec: &TransportSpec, host: &HostSpec) -> Transport {
    let options = if spec.timestamps { TIMESTAMPS } else { 0 };
    let config = Config {
        congestion_control: match spec.congestion_control {
            CongestionControlName::Newreno => CongestionControlConfig::NewReno,
            CongestionControlName::Dctcp => CongestionControlConfig::Dctcp(DctcpConfig {
                g: spec.dctcp_g,
                alpha_initial: spec.dctcp_alpha_initial,
                floor_segments: spec.dctcp_floor_segments,
            }),
        },
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
        handshake: spec.handshake,
        rto: RtoConfig {
            initial: spec.rto_initial,
            min: spec.rto_min,
            max: spec.rto_max,
            granularity: spec.rto_granularity,
            form: match spec.rto_form {
                RtoFormName::Rfc => RtoForm::Rfc,
                RtoFormName::Linux => RtoForm::Linux,
                RtoFormName::Freebsd => RtoForm::Freebsd,
            },
            slop: spec.rto_slop,
        },
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
    };
    Transport { config: Arc::new(config), priority: Priority::new(spec.priority).unwrap_or_default() }
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

/// The initial window in bytes. A BDP is the rate of the slowest host link times the base RTT of the longest
/// shortest path, in whole packets on the wire, rounded up.
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
            let ideal = IdealTime::new(Arc::clone(topology), Arc::clone(routes), Arc::new(settings.clone()));
            let rtt = longest_pair(topology, routes).map_or(Span::ZERO, |(a, b)| ideal.base_rtt(a, b, index));
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

/// Two hosts that are as far apart as any: the first of each switch stands for all of its hosts.
fn longest_pair(topology: &Topology, routes: &NextHops) -> Option<(NodeId, NodeId)> {
    let mut by_switch: Vec<(NodeId, NodeId)> =
        topology.hosts().map(|host| (topology.peer(topology.nodes()[host].ports[0]), host)).collect();
    by_switch.sort_unstable();
    let first_two = by_switch.chunk_by(|a, b| a.0 == b.0).flat_map(|hosts| hosts.iter().take(2));
    let hosts: Vec<NodeId> = first_two.map(|(_, host)| *host).collect();
    let pairs = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
    pairs.max_by_key(|(a, b)| (routes.distance(*a, *b), std::cmp::Reverse((*a, *b))))
}
