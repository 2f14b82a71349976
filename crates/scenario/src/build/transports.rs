//! The transports of a network: what a scenario declares, and what follows from the hosts, the switches and the paths.

use crate::resolve::transports::default_tcp;
use crate::spec::{
    EcnCapability, InitialWindow, QueueDiscipline, RdmaControlName, RdmaSpec, Scenario, TransportSpec,
    UdpSpec, WorkloadKind, WorkloadSpec,
};
use pauseframe_fabric::{
    IdealFctCalculator, RdmaSettings, Settings, TransportSettings, UdpSettings, VlanRoutes,
};
use pauseframe_rdma::cc::dcqcn::Preset;
use pauseframe_rdma::cc::hpcc::TELEMETRY_BYTES;
use pauseframe_rdma::cc::{Control, ControlChoice, NsccNetwork};
use pauseframe_rdma::{QueuePairSettings, SideWindow};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_transport::{OffloadConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, NodeId, Span};
use std::sync::Arc;

/// Size of the IPv4 and TCP headers without options, in bytes.
const HEADERS: u64 = 40;
/// Size of the timestamps option with its padding, in bytes (RFC 7323).
const TIMESTAMPS: u64 = 12;

/// All transports, followed by one transport for each datagram workload. What depends on paths is missing
/// ([`fit_to_network`]).
pub(crate) fn all_transports(scenario: &Scenario) -> Vec<TransportSettings> {
    let mut all: Vec<_> = scenario.transport_specs().map(|spec| transport(spec, scenario)).collect();
    let of_datagrams: Vec<_> = udp_workloads(scenario).map(|(_, udp)| datagrams(udp, &all[0])).collect();
    all.extend(of_datagrams);
    all
}

/// The datagram workloads; each has its own transport in the network.
pub(super) fn udp_workloads(scenario: &Scenario) -> impl Iterator<Item = (&WorkloadSpec, &UdpSpec)> {
    scenario.workload.iter().filter_map(|spec| match &spec.kind {
        WorkloadKind::Udp(udp) => Some((spec, udp)),
        _ => None,
    })
}

/// The TCP settings copied from `like` are placeholders; a datagram transport ignores them.
fn datagrams(spec: &UdpSpec, like: &TransportSettings) -> TransportSettings {
    let datagrams = UdpSettings { rate: spec.rate, payload: spec.datagram.0 as u32, ecn: spec.ecn };
    TransportSettings {
        config: Arc::clone(&like.config),
        priority: spec.priority,
        datagrams: Some(datagrams),
        rdma: None,
    }
}

fn transport(spec: &TransportSpec, scenario: &Scenario) -> TransportSettings {
    let host = &scenario.host;
    // The connections of another kind of transport are never made.
    let tcp = spec.tcp().map_or_else(|| default_tcp().config, |tcp| tcp.config.clone());
    let options = if tcp.timestamps { TIMESTAMPS } else { 0 };
    let config = TcpConfig {
        mss: (host.mtu.0 - HEADERS - options) as u32,
        dsack: tcp.dsack && tcp.sack,
        offload: OffloadConfig {
            tso: if host.tso { host.tso_size.0 as u32 } else { 0 },
            gro: if host.gro { host.gro_timeout } else { Span::ZERO },
        },
        ..tcp
    };
    let trims = scenario.switch.queue_of(spec.priority) == QueueDiscipline::Trim;
    let rdma = spec.rdma().map(|spec| rdma(spec, host.mtu, trims));
    TransportSettings { config: Arc::new(config), priority: spec.priority, datagrams: None, rdma }
}

/// `trims`: switches trim packets of this transport.
fn rdma(spec: &RdmaSpec, mtu: Bytes, trims: bool) -> RdmaSettings {
    let is_nscc = spec.control == RdmaControlName::Nscc;
    let dcqcn = |preset| ControlChoice::Dcqcn(preset, spec.dcqcn);
    let control = match spec.control {
        RdmaControlName::None => ControlChoice::Fixed(Control::None),
        RdmaControlName::DcqcnPaper => dcqcn(Preset::Paper),
        RdmaControlName::DcqcnConnectx => dcqcn(Preset::ConnectX),
        RdmaControlName::DcqcnCx5Measured => dcqcn(Preset::Cx5Measured),
        RdmaControlName::DcqcnHpcc => dcqcn(Preset::Hpcc),
        RdmaControlName::Timely => ControlChoice::Timely,
        RdmaControlName::Swift => ControlChoice::Swift(0),
        RdmaControlName::Nscc => ControlChoice::Nscc(NsccNetwork { base_rtt: Span::ZERO, trims }),
        RdmaControlName::Hpcc => ControlChoice::Hpcc {
            max_stage: spec.hpcc_max_stage,
            flows: spec.hpcc_flows,
            base_rtt: Span::ZERO,
        },
    };
    let telemetry_bytes = if spec.control == RdmaControlName::Hpcc { TELEMETRY_BYTES } else { 0 };
    let pair = QueuePairSettings {
        mtu: spec.mtu.of(mtu, telemetry_bytes).0 as u32,
        unordered: is_nscc,
        // Acknowledgements of NSCC echo marks.
        notification: (!is_nscc).then_some(spec.cnp),
        window: SideWindow { kind: spec.window, base_rtt: Span::ZERO },
        telemetry_bytes,
        slow_restart: spec.pair.slow_restart && matches!(control, ControlChoice::Dcqcn(..)),
        ..spec.pair
    };
    let ecn = spec.ecn == EcnCapability::Classic;
    RdmaSettings { pair, control, ecn, cnp_priority: spec.cnp_priority }
}

/// Sets what follows from the longest path: initial windows of one BDP, the round-trip time by which HPCC divides, and
/// the number of links with which the target delay of Swift grows.
pub(super) fn fit_to_network(
    scenario: &Scenario,
    settings: &mut Settings,
    topology: &Arc<Topology>,
    routes: &Arc<NextHops>,
) {
    let idle = IdealFctCalculator::new(Arc::clone(topology), Arc::clone(routes), Arc::new(settings.clone()));
    let longest = longest_pair(topology, routes, settings.vlans.as_deref());
    for (index, spec) in scenario.transport_specs().enumerate() {
        let rtt =
            |at_least| longest.map_or(at_least, |(a, b)| idle.base_rtt_between_hosts(a, b, index as u16));
        let transport = &mut settings.transports[index];
        let mss = u64::from(transport.config.mss);
        let initial_window = spec.tcp().map_or(InitialWindow::Segments(10), |tcp| tcp.initial_window);
        Arc::make_mut(&mut transport.config).initial_window = match initial_window {
            InitialWindow::Segments(n) => u64::from(n) * mss,
            InitialWindow::Bytes(bytes) => bytes.0,
            InitialWindow::Bdp => {
                let packet = settings.overhead.frame_size_of_ip_packet(settings.mtu, transport.priority)
                    + settings.overhead.gap;
                let bytes = slowest_host_link(topology).bytes_in(rtt(Span::ZERO)).0;
                bytes.div_ceil(u64::from(packet)).max(1) * mss
            }
        };
        if let Some(rdma) = &mut transport.rdma {
            rdma.pair.window.base_rtt = rtt(Span(1));
        }
        match transport.rdma.as_mut().map(|rdma| &mut rdma.control) {
            Some(
                ControlChoice::Hpcc { base_rtt, .. } | ControlChoice::Nscc(NsccNetwork { base_rtt, .. }),
            ) => {
                *base_rtt = rtt(Span(1));
            }
            Some(ControlChoice::Swift(hops)) => {
                *hops = longest.map_or(1, |(a, b)| idle.link_count_between_hosts(a, b));
            }
            _ => {}
        }
    }
}

fn slowest_host_link(topology: &Topology) -> BitRate {
    let rates = topology.hosts().map(|host| topology.channel(topology.nodes()[host].ports[0]).rate);
    rates.min().unwrap_or_default()
}

/// Two hosts with the largest distance in the network, by the forwarding tables if there are some; the first host of
/// each switch stands for all hosts of that switch.
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
    let distance =
        |a, b| vlans.map_or_else(|| routes.distance(a, b), |vlans| vlans.link_count_of_shortest_route(a, b));
    pairs.max_by_key(|(a, b)| (distance(*a, *b), std::cmp::Reverse((*a, *b))))
}
