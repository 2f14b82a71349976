//! The settings of the fabric: those that a scenario declares, with names of hosts and ports looked up in the topology.

use crate::spec::{ChoiceName, WireJitterSpec};
use crate::spec::{
    Clocks, DemandEntry, HostSpec, HostStack, Per, RoutingKind, RoutingSpec, Scenario, TransportSpec,
    TunnelClass, VlanRoutingSpec,
};
use pauseframe_fabric::{
    DualTorSettings, FrameOverhead, HopChoice, HostLinkJitterSettings, MlagSettings, PortChoice, Settings,
    SlowReceiverSettings, TransportSettings, VlanChoice, VlanRoutes, matches_glob,
};
use pauseframe_rdma::EntropyChoice;
use pauseframe_routing::verify::{Demand, Tables};
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn settings(
    scenario: &Scenario,
    topology: &Topology,
    transports: Vec<TransportSettings>,
) -> Settings {
    let (host, switch) = (&scenario.host, &scenario.switch);
    let receivers = host.slow_receivers.iter().filter_map(|receiver| {
        let node = topology.find(&receiver.host)?;
        let stop = receiver.stop.map(|stop| Time::ZERO + stop);
        Some(SlowReceiverSettings { host: node, rate: receiver.rate, buffer: receiver.buffer, stop })
    });
    let (tx_delay, rx_delay) = stack_delays(host);
    let has_entropy =
        |spec: &TransportSpec| spec.rdma().is_some_and(|rdma| rdma.pair.entropy != EntropyChoice::None);
    let has_entropy = scenario.transport_specs().any(has_entropy);
    let nodes = |names: &[String]| names.iter().filter_map(|name| topology.find(name)).collect();
    Settings {
        seed: scenario.seed,
        overhead: overhead(scenario),
        mtu: host.mtu.0 as u32,
        tx_delay,
        tx_jitter: host.tx_jitter,
        random_ties: scenario.clocks == Clocks::Real,
        wire_jitters: wire_jitters(&host.wire_jitters, topology),
        wire_burst: host.wire_burst.0 as u32,
        ticks_apart: host.ticks_apart,
        initial_windows: BTreeMap::new(),
        rx_delay,
        reaction: host.reaction,
        nic_buffer: host.nic_buffer.0,
        nic_queue: host.nic_queue,
        host_ports: host.ports(),
        dual_tor: (host.port_choice == PortChoice::Mux).then(|| dual_tor(host, &scenario.routing, topology)),
        mlag: scenario.routing.mlag.then(|| MlagSettings { peer_links: topology.links_between_homes() }),
        path_hash: scenario.routing.hash.clone(),
        switch_latency: switch.latency,
        linux_switch: switch.linux,
        buffer: switch.buffer,
        queue_packets: switch.queue_packets,
        marker: switch.marker.clone(),
        queue: switch.queue,
        codel: switch.codel,
        scheduler: switch.scheduler.clone(),
        classes: switch.classes.iter().map(|(_, class)| class.clone()).collect(),
        switch_overrides: switch.overrides.clone(),
        pfc: switch.pfc.clone(),
        qcn: scenario.qcn.clone(),
        receivers: receivers.collect(),
        hop_choice: match scenario.routing.kind {
            RoutingKind::Hops(choice) => Some(choice),
            RoutingKind::Ecmp if has_entropy => Some(HopChoice::PacketHash),
            RoutingKind::Ecmp | RoutingKind::Vlans => None,
        },
        vlans: vlan_routes(scenario, topology).map(Arc::new),
        refusing: nodes(&host.refusing),
        silent: nodes(&host.silent),
        scale_up: scenario.topology.scale_up.as_ref().map(|spec| Arc::new(spec.settings(topology))),
        transports,
    }
}

/// Mux cables and their tunnels.
fn dual_tor(host: &HostSpec, routing: &RoutingSpec, topology: &Topology) -> DualTorSettings {
    let mut settings = DualTorSettings {
        active: host.first_active_ports(topology),
        probe_interval: host.link_prober_interval,
        missed_probes: host.negative_signal_count,
        ..DualTorSettings::new()
    };
    for TunnelClass { priority, outer } in &routing.tunnel_remap {
        settings.outer[priority.index()] = *outer;
    }
    settings
}

/// Time in the stack before the NIC and behind it. A kernel takes none, so what its hosts take before the NIC is added behind it: round
/// trips stay as long.
fn stack_delays(host: &HostSpec) -> (Span, Span) {
    match host.stack {
        HostStack::Simulated => (host.tx_delay, host.rx_delay),
        HostStack::Kernel => (Span::ZERO, host.rx_delay.saturating_add(host.tx_delay)),
    }
}

/// Header overhead of packets on the wire; in VLANs, each packet has an 802.1Q tag.
pub(crate) fn overhead(scenario: &Scenario) -> FrameOverhead {
    scenario.host.frame_overhead(scenario.routing.vlans.is_some())
}

/// The jitter of each host that a row matches, in the order of the hosts.
fn wire_jitters(rows: &[WireJitterSpec], topology: &Topology) -> Vec<HostLinkJitterSettings> {
    let of_host = |host: NodeId| {
        let own = rows.iter().find(|row| matches_glob(&row.host, &topology.nodes()[host].name))?;
        Some(HostLinkJitterSettings { host, to_switch: own.to_switch, to_host: own.to_host })
    };
    if rows.is_empty() { Vec::new() } else { topology.hosts().filter_map(of_host).collect() }
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
    let lossless = scenario.switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    let lanes = lossless.iter().copied().chain(std::iter::repeat(scenario.transport.priority));
    Some(VlanRoutes {
        lanes: lanes.take(tables.lanes()).collect(),
        tables,
        choice,
        per_packet: spec.use_of.per == Per::Packet,
        slack: spec.use_of.slack,
    })
}

/// The VLANs of the pairs in `routing.demand`.
pub(crate) fn assigned(
    spec: &VlanRoutingSpec,
    tables: &Tables,
    topology: &Topology,
) -> BTreeMap<(NodeId, NodeId), u16> {
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
