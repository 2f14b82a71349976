//! The immutable plan of a network: topology, settings, and values derived from them.

use crate::class::ClassPolicy;
use crate::frame::telemetry::TelemetryStamper;
use crate::headroom::BufferReservations;
use crate::ids::{HostId, PackedNodeId, SlotId, SwitchId, SwitchOrHost};
use crate::port_names::matching_ports;
use crate::settings::{
    DualTorSettings, FrameOverhead, HopChoice, ObeyedPausePriorities, PfcPorts, Settings,
    SlowReceiverSettings, SwitchOverride,
};
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, Bytes, IndexVec, LineRate, NodeId, PortId, Priority, Span};
use std::sync::Arc;

/// The immutable input of a run.
#[derive(Debug)]
pub struct NetworkPlan {
    pub(crate) topology: Arc<Topology>,
    pub(crate) settings: Arc<Settings>,
    /// The priorities in use, ascending; a class is an index into them.
    pub(crate) priorities: Vec<Priority>,
    /// A port has `1 << class_bits` slots.
    pub(crate) class_bits: u32,
    /// Lossless classes, a bit each.
    pub(crate) lossless: u8,
    /// Mask applied to a class for ingress accounts: 0 with link pause, which has one account per link.
    pub(crate) account_mask: u8,
    /// Policy by class.
    pub(crate) policies: [ClassPolicy; Priority::COUNT],
    pub(crate) class_of_transport: Vec<u8>,
    /// The telemetry that switches add, if some transport uses it.
    pub(crate) telemetry: Option<TelemetryStamper>,
    /// By node: its index among the hosts or among the switches.
    pub(crate) number: IndexVec<NodeId, u32>,
    /// The nodes that are switches, by switch index.
    pub(crate) switches: Vec<NodeId>,
    /// The nodes that are hosts or further ports of hosts, by host index.
    pub(crate) hosts: Vec<NodeId>,
    pub(crate) reservations: BufferReservations,
    /// By port: the rows of `switch.pfc.ports` that match it, in one; empty without rows.
    port_rules: IndexVec<PortId, PfcPorts>,
    /// Maximum window length: no node affects another one sooner.
    pub(crate) window: Span,
}

impl NetworkPlan {
    /// The plan for a topology and settings.
    ///
    /// # Panics
    /// If a host has not exactly one link.
    pub fn new(topology: Arc<Topology>, settings: Arc<Settings>) -> NetworkPlan {
        let priorities = priorities_in_use(&settings);
        let class = |priority: Priority| priorities.partition_point(|p| *p < priority) as u8;
        let whole_link = settings.pfc.as_ref().is_some_and(|pfc| pfc.whole_link);
        let is_lossless = |p: &Priority| {
            settings.pfc.as_ref().is_some_and(|pfc| pfc.whole_link || pfc.priorities.contains(p))
        };
        let (mut hosts, mut switches, mut number) = (Vec::new(), Vec::new(), IndexVec::new());
        for (id, node) in topology.nodes().iter_enumerated() {
            let kind = if node.kind == NodeKind::Host { &mut hosts } else { &mut switches };
            number.push(kind.len() as u32);
            kind.push(id);
            let links = node.ports.len();
            assert!(
                node.kind == NodeKind::Switch || links == 1,
                "host {} has {links} links, not one",
                node.name
            );
        }
        let mut plan = NetworkPlan {
            lossless: priorities.iter().filter(|p| is_lossless(p)).fold(0, |set, p| set | 1 << class(*p)),
            class_bits: priorities.len().next_power_of_two().trailing_zeros(),
            account_mask: if whole_link { 0 } else { u8::MAX },
            policies: std::array::from_fn(|class| {
                ClassPolicy::new(&settings, priorities.get(class).copied().unwrap_or_default())
            }),
            telemetry: create_telemetry_stamper(&settings, &topology),
            class_of_transport: settings.transports.iter().map(|t| class(t.priority)).collect(),
            priorities,
            number,
            switches,
            hosts,
            reservations: BufferReservations::default(),
            port_rules: pfc_rules(&topology, &settings),
            window: lookahead_window(&topology, settings.overhead),
            topology,
            settings,
        };
        plan.reservations = BufferReservations::from_plan(&plan);
        plan
    }

    /// All ports, by number.
    pub(crate) fn all_ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..self.topology.port_count() as u32).map(PortId)
    }

    /// Number of slots.
    pub(crate) fn slot_count(&self) -> usize {
        self.topology.port_count() << self.class_bits
    }

    /// All slots, by number.
    pub(crate) fn all_slots(&self) -> impl Iterator<Item = SlotId> + use<> {
        (0..self.slot_count() as u32).map(SlotId)
    }

    /// The slot of `class` at `port`.
    pub(crate) fn slot(&self, port: PortId, class: u8) -> SlotId {
        SlotId((port.0 << self.class_bits) | u32::from(class))
    }

    /// The port and class of a slot.
    pub(crate) fn port_and_class(&self, slot: SlotId) -> (PortId, u8) {
        (PortId(slot.0 >> self.class_bits), (slot.0 & ((1 << self.class_bits) - 1)) as u8)
    }

    /// Index of a priority among those in use.
    pub(crate) fn class_index(&self, priority: Priority) -> u8 {
        self.priorities.partition_point(|p| *p < priority) as u8
    }

    pub(crate) fn is_lossless(&self, class: u8) -> bool {
        self.lossless & 1 << class != 0
    }

    /// Whether any class of a port can be paused.
    pub(crate) fn can_pause(&self) -> bool {
        self.lossless != 0 || !self.port_rules.is_empty()
    }

    /// What `switch.pfc.ports` says of a port, if it has rows.
    pub(crate) fn pfc_rule(&self, port: PortId) -> Option<&PfcPorts> {
        self.port_rules.get(port)
    }

    /// Whether `port` sends pause frames.
    pub(crate) fn sends_pause_frames(&self, port: PortId) -> bool {
        self.pfc_rule(port).and_then(|rule| rule.sends).unwrap_or(true)
    }

    /// The classes, a bit each, in which pause frames stop `port`.
    pub(crate) fn obeyed_classes(&self, port: PortId) -> u8 {
        match self.pfc_rule(port).and_then(|rule| rule.obeys).unwrap_or(ObeyedPausePriorities::Lossless) {
            ObeyedPausePriorities::Lossless => self.lossless,
            ObeyedPausePriorities::All => u8::MAX,
            ObeyedPausePriorities::None => 0,
        }
    }

    /// Whether some port does not send or does not obey the pauses of lossless classes.
    pub(crate) fn has_one_way_pause(&self) -> bool {
        let one_way =
            |rule: &PfcPorts| rule.sends == Some(false) || rule.obeys == Some(ObeyedPausePriorities::None);
        self.port_rules.iter().any(one_way)
    }

    /// Dynamic threshold of what arrives by the link from `port` in a class.
    pub(crate) fn ingress_alpha(&self, port: PortId, class: u8) -> f64 {
        let own = self.pfc_rule(port.reverse()).and_then(|rule| rule.alpha);
        own.unwrap_or(self.policies[usize::from(class)].alpha)
    }

    /// Size of the buffer of a switch, or of its ports.
    pub(crate) fn buffer_size(&self, switch: NodeId) -> Bytes {
        let name = &self.topology.nodes()[switch].name;
        SwitchOverride::last(&self.settings.switch_overrides, name, |row| row.buffer)
            .unwrap_or(self.settings.buffer.buffer_size())
    }

    /// Index of the switch pool of a class; with two pools lossy classes use the second.
    pub(crate) fn pool_index(&self, class: u8) -> usize {
        usize::from(self.settings.buffer.lossy_pool_size().is_some() && !self.is_lossless(class))
    }

    /// The switch index of a node, if it is a switch.
    pub(crate) fn switch_id(&self, node: NodeId) -> Option<SwitchId> {
        (self.topology.nodes()[node].kind == NodeKind::Switch).then(|| SwitchId(self.number[node]))
    }

    /// A node as a switch or host index.
    pub(crate) fn packed_id(&self, node: NodeId) -> PackedNodeId {
        match self.topology.nodes()[node].kind {
            NodeKind::Switch => PackedNodeId::new(SwitchOrHost::Switch(SwitchId(self.number[node]))),
            NodeKind::Host => PackedNodeId::new(SwitchOrHost::Host(HostId(self.number[node]))),
        }
    }

    /// The host index of a node that is a host.
    pub(crate) fn host_id(&self, node: NodeId) -> HostId {
        HostId(self.number[node])
    }

    /// The rate of the link that leaves `port`.
    pub(crate) fn link_rate(&self, port: PortId) -> BitRate {
        self.topology.channel(port).rate
    }

    /// Maximum jitter of frames on the wire from `port`.
    pub(crate) fn max_wire_jitter(&self, port: PortId) -> Span {
        let rows = &self.settings.wire_jitters;
        let of_host = |node: NodeId| {
            rows.binary_search_by_key(&self.topology.host_of(node), |own| own.host).ok().map(|row| &rows[row])
        };
        let (from, to) = (self.topology.owner(port), self.topology.peer(port));
        if self.switch_id(from).is_some() {
            of_host(to).map_or(Span::ZERO, |own| own.to_host)
        } else {
            of_host(from).map_or(Span::ZERO, |own| own.to_switch)
        }
    }

    /// Maximum lateness of frames on the wire from `port`, by jitter or by the token bucket of a host's link.
    pub(crate) fn max_delay_variation(&self, port: PortId) -> Span {
        let ends = [self.topology.owner(port), self.topology.peer(port)];
        let is_of_host = ends.iter().any(|node| self.switch_id(*node).is_none());
        let burst = Bytes(u64::from(if is_of_host { self.settings.wire_burst } else { 0 }));
        self.max_wire_jitter(port) + self.link_rate(port).serialise(burst)
    }

    /// The receive buffer of the host at the end of `port`, if it drains slowly.
    pub(crate) fn slow_receiver(&self, port: PortId) -> Option<&SlowReceiverSettings> {
        if self.settings.receivers.is_empty() {
            return None;
        }
        let owner = self.topology.host_of(self.topology.peer(port));
        self.settings.receivers.iter().find(|receiver| receiver.host == owner)
    }

    /// The number of ports of a host.
    pub(crate) fn port_count(&self, host: NodeId) -> u64 {
        self.hosts.iter().filter(|node| self.topology.host_of(**node) == host).count() as u64
    }

    /// Whether lossless packets have an outer header of a lossy class in a tunnel, whose pauses then do not help.
    pub(crate) fn tunnels_lose_lossless(&self) -> bool {
        self.settings.dual_tor.as_ref().is_some_and(|dual_tor| {
            let outer = |own: &Priority| self.class_index(dual_tor.outer[own.index()]);
            let lossless = |class: u8| self.is_lossless(class);
            self.priorities.iter().any(|own| lossless(self.class_index(*own)) && !lossless(outer(own)))
        })
    }

    /// The largest IP packet that a switch accounts: one that it sends into a tunnel has its outer header from its arrival on.
    pub(crate) fn largest_ip_packet(&self) -> u32 {
        self.settings.mtu + self.settings.dual_tor.as_ref().map_or(0, |_| DualTorSettings::HEADER_BYTES)
    }

    /// Whether some host has several ports.
    pub(crate) fn has_several_ports(&self) -> bool {
        self.hosts.iter().any(|node| self.topology.host_of(*node) != *node)
    }

    /// Whether the network is so large that visiting all its state mostly misses the cache.
    pub(crate) fn is_large_network(&self) -> bool {
        self.topology.port_count() >= LARGE_NETWORK_MIN_PORTS
    }

    /// Panics because a node accessed a port of another node.
    #[cold]
    #[inline(never)]
    pub(crate) fn panic_wrong_owner(&self, node: PackedNodeId, port: PortId) -> ! {
        let id = match node.unpack() {
            SwitchOrHost::Switch(switch) => self.switches[switch.0 as usize],
            SwitchOrHost::Host(host) => self.hosts[host.0 as usize],
        };
        let (name, known) = (&self.topology.nodes()[id].name, (port.0 as usize) < self.topology.port_count());
        let whose = if known { self.topology.port_name(port) } else { "no port at all".to_owned() };
        panic!("{name} was led to {whose}, which is not its own")
    }

    /// Panics because an account would become negative.
    #[cold]
    #[inline(never)]
    pub(crate) fn panic_account_underflow(&self, account: &str, port: PortId) -> ! {
        let topology = &self.topology;
        let owner = &topology.nodes()[topology.owner(port)];
        let peer = &topology.nodes()[topology.peer(port)];
        panic!("the {account} of {} at its port to {} fell below zero", owner.name, peer.name)
    }

    /// Whether the other end of `port` keeps an ingress account: switches and slow receivers do.
    pub(crate) fn has_ingress_account(&self, port: PortId) -> bool {
        self.switch_id(self.topology.peer(port)).is_some() || self.slow_receiver(port).is_some()
    }
}

fn pfc_rules(topology: &Topology, settings: &Settings) -> IndexVec<PortId, PfcPorts> {
    let rows = settings.pfc.as_ref().map_or(&[][..], |pfc| &pfc.ports);
    let mut by_port: IndexVec<PortId, PfcPorts> = IndexVec::new();
    for row in rows {
        for port in matching_ports(&row.ports, topology) {
            if by_port.is_empty() {
                by_port = IndexVec::filled(PfcPorts::default(), topology.port_count());
            }
            by_port[port].add(row);
        }
    }
    by_port
}

/// Port count from which a network is large (fat trees with k = 16 and 20 have 6,144 and 12,000 ports).
const LARGE_NETWORK_MIN_PORTS: usize = 10_000;
/// IPv4 and UDP headers with a byte of data.
pub(crate) const MIN_DATAGRAM_BYTES: u32 = 29;
/// The longest window.
const MAX_WINDOW: Span = Span::from_us(1);

/// The shortest delay of a minimum frame over all links, at most a microsecond: no node affects another one sooner.
fn lookahead_window(topology: &Topology, overhead: FrameOverhead) -> Span {
    let smallest =
        overhead.frame_size(MIN_DATAGRAM_BYTES, Priority::default()).min(FrameOverhead::PAUSE_FRAME);
    let of_link = |port: u32| {
        let channel = topology.channel(PortId(port));
        channel.delay + LineRate::new(channel.rate).serialise(smallest + overhead.gap)
    };
    (0..topology.port_count() as u32).map(of_link).fold(MAX_WINDOW, Span::min).max(Span(1))
}

fn create_telemetry_stamper(settings: &Settings, topology: &Topology) -> Option<TelemetryStamper> {
    let is_read =
        settings.transports.iter().any(|t| t.rdma().is_some_and(|rdma| rdma.pair.telemetry_bytes > 0));
    let rate = |port: PortId| topology.channel(port).rate;
    let host_rates =
        topology.host_ports().flat_map(|host| &topology.nodes()[host].ports).map(|port| rate(*port));
    let rates = (0..topology.port_count() as u32).map(|port| rate(PortId(port)));
    let [host, link] = [host_rates.max(), rates.max()].map(|most| most.unwrap_or(BitRate(1)));
    is_read.then(|| TelemetryStamper::for_fastest_links(host, link))
}

/// The priorities of all possible frames, ascending: the classes of the network.
fn priorities_in_use(settings: &Settings) -> Vec<Priority> {
    let mut priorities: Vec<Priority> = settings.transports.iter().map(|t| t.priority).collect();
    priorities.extend(settings.vlans.iter().flat_map(|vlans| &vlans.lanes));
    priorities.extend(settings.transports.iter().filter_map(|t| Some(t.rdma()?.cnp_priority)));
    priorities.extend(settings.qcn.iter().map(|qcn| qcn.cnm_priority));
    priorities.extend(settings.hop_choice.and_then(HopChoice::control_priority));
    if let Some(dual_tor) = &settings.dual_tor {
        let outer: Vec<Priority> =
            priorities.iter().map(|own| dual_tor.outer[usize::from(own.code_point())]).collect();
        priorities.extend(outer);
    }
    priorities.sort_unstable();
    priorities.dedup();
    priorities
}
