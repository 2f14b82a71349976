//! What a network is and never changes: topology, settings, and what follows from them. Everybody reads it, nobody writes it after
//! the start.

use crate::class::ClassPolicy;
use crate::headroom::Margins;
use crate::ids::{HostId, Node, Owner, SlotId, SwitchId};
use crate::settings::{Obeys, Overhead, PauseRule, ReceiverSettings, Settings};
use pauseframe_rdma::cc::hpcc::Quantum;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, Bytes, IndexVec, LineRate, NodeId, PortId, Priority, Span};
use std::sync::Arc;

/// A network before anything happens in it.
#[derive(Debug)]
pub struct Plan {
    pub(crate) topology: Arc<Topology>,
    pub(crate) settings: Arc<Settings>,
    /// The priorities in use, ascending; a class is an index into them.
    pub(crate) priorities: Vec<Priority>,
    /// A port has `1 << class_bits` slots.
    pub(crate) class_bits: u32,
    /// Lossless classes, a bit each.
    pub(crate) lossless: u8,
    /// What is left of a class in ingress accounts: nothing where the whole link has one.
    pub(crate) account_mask: u8,
    /// By class.
    pub(crate) policies: [ClassPolicy; Priority::COUNT],
    pub(crate) class_of_transport: Vec<u8>,
    /// The unit of the telemetry that switches stamp, if some transport reads it.
    pub(crate) telemetry: Option<Quantum>,
    /// By node: its number among the hosts or among the switches.
    pub(crate) number: IndexVec<NodeId, u32>,
    /// The nodes that are switches, and those that are hosts, by these numbers.
    pub(crate) switches: Vec<NodeId>,
    pub(crate) hosts: Vec<NodeId>,
    pub(crate) margins: Margins,
    /// The most by which segments are late in the stack of a host.
    pub(crate) tx_jitter: Span,
    /// By port, if pause frames go one way only at any.
    pause_rules: IndexVec<PortId, PauseRule>,
    /// The longest time that partitions run for side by side: no node hears of another any sooner.
    pub(crate) window: Span,
}

impl Plan {
    /// Of a topology and settings.
    ///
    /// # Panics
    /// If a host has not exactly one link.
    pub fn new(topology: Arc<Topology>, settings: Arc<Settings>) -> Plan {
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
        let mut plan = Plan {
            lossless: priorities.iter().filter(|p| is_lossless(p)).fold(0, |set, p| set | 1 << class(*p)),
            class_bits: priorities.len().next_power_of_two().trailing_zeros(),
            account_mask: if whole_link { 0 } else { u8::MAX },
            policies: std::array::from_fn(|class| {
                ClassPolicy::new(&settings, priorities.get(class).copied().unwrap_or_default())
            }),
            telemetry: telemetry(&settings, &topology),
            class_of_transport: settings.transports.iter().map(|t| class(t.priority)).collect(),
            priorities,
            number,
            switches,
            hosts,
            margins: Margins::default(),
            tx_jitter: Span::ZERO,
            pause_rules: pause_rules(&topology, &settings),
            window: window(&topology, settings.overhead),
            topology,
            settings,
        };
        if plan.lossless != 0 || !plan.settings.tx_jitter.is_auto() {
            plan.tx_jitter = plan.settings.tx_jitter.in_stack();
        }
        plan.margins = Margins::of(&plan);
        plan
    }

    /// All ports, by number.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..self.topology.port_count() as u32).map(PortId)
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.topology.port_count() << self.class_bits
    }

    /// All slots, by number.
    pub(crate) fn all_slots(&self) -> impl Iterator<Item = SlotId> + use<> {
        (0..self.slots() as u32).map(SlotId)
    }

    /// The slot of `class` at `port`.
    pub(crate) fn slot(&self, port: PortId, class: u8) -> SlotId {
        SlotId((port.0 << self.class_bits) | u32::from(class))
    }

    /// The port and class of a slot.
    pub(crate) fn port_and_class(&self, slot: SlotId) -> (PortId, u8) {
        (PortId(slot.0 >> self.class_bits), (slot.0 & ((1 << self.class_bits) - 1)) as u8)
    }

    /// The number of a priority among those in use.
    pub(crate) fn class(&self, priority: Priority) -> u8 {
        self.priorities.partition_point(|p| *p < priority) as u8
    }

    pub(crate) fn is_lossless(&self, class: u8) -> bool {
        self.lossless & 1 << class != 0
    }

    /// Whether any class of a port can be paused.
    pub(crate) fn can_pause(&self) -> bool {
        self.lossless != 0 || !self.pause_rules.is_empty()
    }

    /// Whether `port` sends pause frames.
    pub(crate) fn sends_pauses(&self, port: PortId) -> bool {
        self.pause_rules.get(port).is_none_or(|rule| rule.sends)
    }

    /// The classes, a bit each, in which pause frames stop `port`.
    pub(crate) fn obeyed(&self, port: PortId) -> u8 {
        match self.pause_rules.get(port).map_or(Obeys::Lossless, |rule| rule.obeys) {
            Obeys::Lossless => self.lossless,
            Obeys::All => u8::MAX,
            Obeys::None => 0,
        }
    }

    /// Whether some port does not send, or not obey, the pauses that lossless classes count on.
    pub(crate) fn breaks_flow_control(&self) -> bool {
        self.pause_rules.iter().any(|rule| !rule.sends || rule.obeys == Obeys::None)
    }

    /// Which of a switch's pools a class shares in: lossy classes have one of their own if there are two.
    pub(crate) fn pool_of(&self, class: u8) -> usize {
        usize::from(self.settings.egress_pool.is_some() && !self.is_lossless(class))
    }

    /// The number of a node if it is a switch.
    pub(crate) fn switch(&self, node: NodeId) -> Option<SwitchId> {
        (self.topology.nodes()[node].kind == NodeKind::Switch).then(|| SwitchId(self.number[node]))
    }

    /// The number of a node, of whichever kind.
    pub(crate) fn owner(&self, node: NodeId) -> Owner {
        match self.topology.nodes()[node].kind {
            NodeKind::Switch => Owner::new(Node::Switch(SwitchId(self.number[node]))),
            NodeKind::Host => Owner::new(Node::Host(HostId(self.number[node]))),
        }
    }

    /// The number of a node that is a host.
    pub(crate) fn host_number(&self, node: NodeId) -> HostId {
        HostId(self.number[node])
    }

    /// The rate of the link that leaves `port`.
    pub(crate) fn rate_from(&self, port: PortId) -> BitRate {
        self.topology.channel(port).rate
    }

    /// The most by which jitter makes frames on the wire from `port` late.
    pub(crate) fn jitter_from(&self, port: PortId) -> Span {
        let Settings { wire_jitter, wire_jitters, mtu, overhead, .. } = &*self.settings;
        let of_host = |host: NodeId| wire_jitters.iter().find(|own| own.host == host);
        let (from, to) = (self.topology.owner(port), self.topology.peer(port));
        if self.switch(from).is_some() {
            return of_host(to).map_or(Span::ZERO, |own| own.to_host);
        }
        if let Some(own) = of_host(from) {
            return own.to_switch;
        }
        // Automatic jitter is for lossy classes.
        let is_idle = wire_jitter.is_auto() && self.lossless.count_ones() as usize == self.priorities.len();
        if is_idle { Span::ZERO } else { wire_jitter.in_flight_frames(self.rate_from(port), *mtu, *overhead) }
    }

    /// The most by which frames on the wire from `port` are late: by jitter, or by the token bucket of a host's link.
    pub(crate) fn lateness(&self, port: PortId) -> Span {
        let ends = [self.topology.owner(port), self.topology.peer(port)];
        let is_of_host = ends.iter().any(|node| self.switch(*node).is_none());
        let burst = Bytes(u64::from(if is_of_host { self.settings.wire_burst } else { 0 }));
        self.jitter_from(port) + self.rate_from(port).serialise(burst)
    }

    /// The receive buffer of the host at the end of `port`, if it drains slowly.
    pub(crate) fn slow_receiver(&self, port: PortId) -> Option<&ReceiverSettings> {
        if self.settings.receivers.is_empty() {
            return None;
        }
        let owner = self.topology.peer(port);
        self.settings.receivers.iter().find(|receiver| receiver.host == owner)
    }

    /// Whether a network is so large that a look at all of it costs more than a look at one that is near.
    pub(crate) fn is_large(&self) -> bool {
        self.topology.port_count() >= LARGE_FROM
    }

    /// A node has been led to a port of another.
    #[cold]
    #[inline(never)]
    pub(crate) fn wrong_owner(&self, node: Owner, port: PortId) -> ! {
        let id = match node.node() {
            Node::Switch(switch) => self.switches[switch.0 as usize],
            Node::Host(host) => self.hosts[host.0 as usize],
        };
        let (name, known) = (&self.topology.nodes()[id].name, (port.0 as usize) < self.topology.port_count());
        let whose = if known { self.topology.port_name(port) } else { "no port at all".to_owned() };
        panic!("{name} was led to {whose}, which is not its own")
    }

    /// An account would fall below zero: something was taken from it that was never put there.
    #[cold]
    #[inline(never)]
    pub(crate) fn accounting_underflow(&self, account: &str, port: PortId) -> ! {
        let topology = &self.topology;
        let owner = &topology.nodes()[topology.owner(port)];
        let peer = &topology.nodes()[topology.peer(port)];
        panic!("the {account} of {} at its port to {} fell below zero", owner.name, peer.name)
    }

    /// Whether frames that come by `port` are accounted at its other end: switches, and hosts that drain slowly.
    pub(crate) fn has_ingress_account(&self, port: PortId) -> bool {
        self.switch(self.topology.peer(port)).is_some() || self.slow_receiver(port).is_some()
    }
}

fn pause_rules(topology: &Topology, settings: &Settings) -> IndexVec<PortId, PauseRule> {
    let rules = settings.pfc.as_ref().map_or(&[][..], |pfc| &pfc.rules);
    if rules.is_empty() {
        return IndexVec::new();
    }
    let mut by_port = IndexVec::filled(PauseRule::BOTH_WAYS, topology.port_count());
    for (port, rule) in rules {
        by_port[*port] = *rule;
    }
    by_port
}

/// So many ports (a 16-ary fat tree has 6,144, a 20-ary one 12,000).
const LARGE_FROM: usize = 10_000;
/// IPv4 and UDP headers with a byte of data.
const DATAGRAM_LEAST: u32 = 29;
/// The longest window.
const WINDOW_MAX: Span = Span::from_us(1);

/// As long as the smallest frame takes on the shortest and fastest of all links, a microsecond at most: no node hears of another any
/// sooner.
fn window(topology: &Topology, overhead: Overhead) -> Span {
    let smallest = overhead.frame_size(DATAGRAM_LEAST, Priority::default()).min(Overhead::PAUSE_FRAME);
    let of_link = |port: u32| {
        let channel = topology.channel(PortId(port));
        channel.delay + LineRate::new(channel.rate).serialise(smallest + overhead.gap)
    };
    (0..topology.port_count() as u32).map(of_link).fold(WINDOW_MAX, Span::min).max(Span(1))
}

/// Telemetry counts in units that grow with the fastest link.
fn telemetry(settings: &Settings, topology: &Topology) -> Option<Quantum> {
    let is_read =
        settings.transports.iter().any(|t| t.rdma.is_some_and(|rdma| rdma.pair.telemetry_bytes > 0));
    let rates = (0..topology.port_count() as u32).map(|port| topology.channel(PortId(port)).rate.0);
    is_read.then(|| Quantum((rates.max().unwrap_or(0) / 25_000_000_000).max(1)))
}

/// The priorities of everything that a network can send, ascending: its classes.
fn priorities_in_use(settings: &Settings) -> Vec<Priority> {
    let mut priorities: Vec<Priority> = settings.transports.iter().map(|t| t.priority).collect();
    priorities.extend(settings.vlans.iter().flat_map(|vlans| &vlans.lanes));
    priorities.extend(settings.transports.iter().filter_map(|t| Some(t.rdma?.cnp_priority)));
    priorities.extend(settings.qcn.iter().map(|qcn| qcn.cnm_priority));
    priorities.sort_unstable();
    priorities.dedup();
    priorities
}
