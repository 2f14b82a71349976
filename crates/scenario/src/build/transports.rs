//! The transports of a network: what a scenario declares, and what follows from the hosts, the switches and the paths.

use crate::spec::{
    EcnCapability, HostSpec, InitialWindow, Protocol, QueueDiscipline, RdmaSpec, Scenario, TcpSpec,
    TransportSpec, UdpSpec, WorkloadKind, WorkloadSpec,
};
use pauseframe_fabric::{
    ConnectionQueuePairs, IdealFctCalculator, ProtocolSettings, RdmaSettings, Settings, TransportSettings,
    UdpSettings,
};
use pauseframe_rdma::cc::ControlParameters;
use pauseframe_rdma::cc::hpcc::TELEMETRY_BYTES;
use pauseframe_rdma::{QueuePairSettings, SideWindow};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_transport::{OffloadConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, Span};
use std::sync::Arc;

/// Size of the IPv4 and TCP headers without options, in bytes.
const HEADERS: u64 = 40;
/// Size of the timestamps option with its padding, in bytes (RFC 7323).
const TIMESTAMPS: u64 = 12;

/// All transports, followed by one transport for each datagram workload. What depends on paths is missing
/// ([`fit_to_network`]).
pub(crate) fn all_transports(scenario: &Scenario) -> Vec<TransportSettings> {
    let mut all: Vec<_> = scenario.transport_specs().map(|spec| transport(spec, scenario)).collect();
    all.extend(udp_workloads(scenario).map(|(_, udp)| datagrams(udp)));
    all
}

/// The datagram workloads; each has its own transport in the network.
pub(super) fn udp_workloads(scenario: &Scenario) -> impl Iterator<Item = (&WorkloadSpec, &UdpSpec)> {
    scenario.workload.iter().filter_map(|spec| match &spec.kind {
        WorkloadKind::Udp(udp) => Some((spec, udp)),
        _ => None,
    })
}

fn datagrams(spec: &UdpSpec) -> TransportSettings {
    let udp = UdpSettings { rate: spec.rate, payload: spec.datagram.0 as u32, ecn: spec.ecn };
    TransportSettings { protocol: ProtocolSettings::Udp(udp), priority: spec.priority }
}

fn transport(spec: &TransportSpec, scenario: &Scenario) -> TransportSettings {
    let protocol = match &spec.protocol {
        Protocol::Tcp(tcp) => ProtocolSettings::Tcp(Arc::new(tcp_config(tcp, &scenario.host))),
        Protocol::Rdma(pairs) => {
            let trims = scenario.switch.queue_of(spec.priority) == QueueDiscipline::Trim;
            ProtocolSettings::Rdma(rdma(pairs, scenario.host.mtu, trims))
        }
        // Rate and size are those of the workload that sends them, which has its own row.
        Protocol::Udp(udp) => ProtocolSettings::Udp(UdpSettings {
            rate: BitRate(0),
            payload: 0,
            ecn: udp.ecn == EcnCapability::Classic,
        }),
    };
    TransportSettings { protocol, priority: spec.priority }
}

fn tcp_config(tcp: &TcpSpec, host: &HostSpec) -> TcpConfig {
    // A segment with data has the longest of MPTCP's options.
    let multipath = u64::from(tcp.config.dss_bytes(1));
    let options = if tcp.config.timestamps { TIMESTAMPS } else { 0 } + multipath;
    TcpConfig {
        mss: (host.mtu.0 - HEADERS - options) as u32,
        dsack: tcp.config.dsack && tcp.config.sack,
        offload: OffloadConfig {
            tso: if host.tso { host.tso_size.0 as u32 } else { 0 },
            gro: if host.gro { host.gro_timeout } else { Span::ZERO },
        },
        ..tcp.config.clone()
    }
}

/// `trims`: switches trim packets of this transport.
fn rdma(spec: &RdmaSpec, mtu: Bytes, trims: bool) -> RdmaSettings {
    let control = spec.control;
    let telemetry_bytes = if control.reads_telemetry() { TELEMETRY_BYTES } else { 0 };
    let pair = QueuePairSettings {
        mtu: spec.mtu.of(mtu, telemetry_bytes).0 as u32,
        unordered: control.is_unordered(),
        notification: control.reacts_to_cnps().then_some(spec.cnp),
        window: SideWindow { kind: spec.window, base_rtt: Span::ZERO },
        telemetry_bytes,
        slow_restart: spec.pair.slow_restart && control.reacts_to_cnps(),
        control,
        parameters: ControlParameters {
            dcqcn: spec.dcqcn,
            hpcc_max_stage: spec.hpcc_max_stage,
            hpcc_flows: spec.hpcc_flows,
            trims,
            ..ControlParameters::default()
        },
        ..spec.pair
    };
    let ecn = spec.ecn == EcnCapability::Classic;
    let connection = ConnectionQueuePairs { count: spec.qps_per_connection, splits: spec.split_data_on_qps };
    RdmaSettings { pair, connection, ecn, cnp_priority: spec.cnp_priority }
}

/// Sets what follows from the longest path: initial windows of one BDP, and the round-trip time and the number of links
/// that controls of queue pairs follow.
pub(super) fn fit_to_network(
    scenario: &Scenario,
    settings: &mut Settings,
    topology: &Arc<Topology>,
    routes: &Arc<NextHops>,
) {
    let idle = IdealFctCalculator::new(Arc::clone(topology), Arc::clone(routes), Arc::new(settings.clone()));
    let links = idle.longest_link_count().unwrap_or(1);
    for (index, spec) in scenario.transport_specs().enumerate() {
        let rtt = idle.longest_base_rtt(index as u16);
        let transport = &mut settings.transports[index];
        let packet = settings.overhead.wire_size(settings.mtu, transport.priority);
        match (&mut transport.protocol, spec.tcp()) {
            (ProtocolSettings::Tcp(config), Some(tcp)) => {
                let mss = u64::from(config.mss);
                let bdp = |rate: BitRate| {
                    let bytes = rate.bytes_in(rtt.unwrap_or_default()).0;
                    bytes.div_ceil(u64::from(packet)).max(1) * mss
                };
                Arc::make_mut(config).initial_window = match tcp.initial_window {
                    InitialWindow::Segments(n) => u64::from(n) * mss,
                    InitialWindow::Bytes(bytes) => bytes.0,
                    InitialWindow::Bdp => {
                        let rate = |node| topology.channel(topology.nodes()[node].ports[0]).rate;
                        let slowest = topology.host_ports().map(rate).min().unwrap_or_default();
                        let faster = topology.host_ports().filter(|node| rate(*node) > slowest);
                        let windows = faster.map(|node| ((index as u16, node), bdp(rate(node))));
                        settings.initial_windows.extend(windows);
                        bdp(slowest)
                    }
                };
            }
            (ProtocolSettings::Rdma(rdma), _) => {
                let rtt = rtt.unwrap_or(Span(1));
                (rdma.pair.window.base_rtt, rdma.pair.parameters.base_rtt) = (rtt, rtt);
                rdma.pair.parameters.links = links;
                // htsim's timer is for paths of some microseconds. On longer ones each packet would be sent again.
                if rdma.pair.unordered {
                    rdma.pair.timeout = rdma.pair.timeout.max(rtt * 2);
                }
            }
            _ => {}
        }
    }
}
