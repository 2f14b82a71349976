//! Hosts with several ports: which port a flow leaves and reaches (docs/models/host-ports.md).
//!
//! In the graph of a network each port of a host is a node ([`pauseframe_topology::PortOfHost`]), and so it is here: a host with several ports is
//! several `Host`s, which share endpoints (`endpoint/several_ports.rs`). The sender chooses its own port by [`PortChoice`]; it moves its
//! flows once it has noticed that a port is dead, or that no path leads from its switch to the receiver. The port that packets reach is chosen by the network, as by ECMP: the
//! nearest to the sender's port, among equal ones by the hash of the flow; with [`PortChoice::Rail`] it is the port of the same number, with
//! [`PortChoice::ActiveBackup`] the active one of the receiver.

mod aggregators;
pub mod bond;

use self::bond::{FlowAddresses, FlowKind};
use crate::settings::{DualTorSettings, HostPortSettings, PortChoice};
use pauseframe_engine::{mix_bits, random_stream};
use pauseframe_routing::{NextHops, ecmp_index};
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

/// LACPDUs without an answer after which a port is dead (IEEE 802.1AX, `drivers/net/bonding/bond_3ad.c`).
const LACP_TRIES: u64 = 3;

impl HostPortSettings {
    /// When `host` notices a change of the carrier at `at` (Linux: `bond_miimon_inspect`); `None`: never.
    pub fn notices_carrier(&self, host: NodeId, at: Time, seed: u64) -> Option<Time> {
        let tick = (self.carrier > Span::ZERO).then_some(self.carrier)?;
        Some(next_tick(host, at, tick, seed))
    }

    /// When `host` notices that no LACPDU has arrived since `at`; `None`: never.
    pub fn notices_silence(&self, host: NodeId, at: Time, seed: u64) -> Option<Time> {
        let tick = self.lacp_interval()?;
        Some(next_tick(host, at, tick, seed) + Span(tick.0 * (LACP_TRIES - 1)))
    }

    /// When the first LACPDU after `at` arrives; `None` without LACP.
    pub fn notices_first_lacpdu(&self, host: NodeId, at: Time, seed: u64) -> Option<Time> {
        let tick = self.lacp_interval()?;
        Some(next_tick(host, at, tick, seed))
    }

    fn lacp_interval(&self) -> Option<Span> {
        (self.choice == PortChoice::Lacp && self.lacp > Span::ZERO).then_some(self.lacp)
    }
}

impl DualTorSettings {
    /// When the link prober of `host` gives up a link that is dead since `at`: after this many probes without an answer.
    pub fn notices_loss(&self, host: NodeId, at: Time, seed: u64) -> Time {
        next_tick(host, at, self.probe_interval, seed)
            + Span(self.probe_interval.0 * u64::from(self.missed_probes - 1))
    }

    /// When it has the first answer after `at`.
    pub fn notices_return(&self, host: NodeId, at: Time, seed: u64) -> Time {
        next_tick(host, at, self.probe_interval, seed)
    }
}

/// How the network reaches a port of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortReach {
    /// By the switch at the port.
    Direct,
    /// The switch at the port has lost its link to it and sends on by this port, a peer link, to another switch of the host.
    ByPeerLink(PortId),
    /// Not at all.
    None,
}

/// The first tick of the host's own clock after `at`.
fn next_tick(host: NodeId, at: Time, tick: Span, seed: u64) -> Time {
    let phase = random_stream(seed, "port monitoring", u64::from(host.0)).uniform_below(tick.0);
    at.0.checked_sub(phase).map_or(Time(phase), |since| Time(phase + (since / tick.0 + 1) * tick.0))
}

/// A flow that needs ports, seen from one side.
#[derive(Clone, Copy, Debug)]
pub struct FlowEnds {
    /// Its hosts, those of the sender of this side first.
    pub hosts: [NodeId; 2],
    /// Its number.
    pub flow: u32,
    /// Whether the sender of this side opened it.
    pub forward: bool,
    /// Its kind.
    pub kind: FlowKind,
}

/// The ports of all hosts that have several, and which of them work.
#[derive(Debug)]
pub struct HostPorts {
    settings: HostPortSettings,
    seed: u64,
    /// By host: the nodes of its ports.
    ports: BTreeMap<NodeId, Vec<NodeId>>,
    /// By node of a port: its rate in bit/s.
    rates: BTreeMap<NodeId, u64>,
    /// Ports that their host takes for dead.
    given_up: BTreeSet<NodeId>,
    /// Ports to which the network knows no way.
    unreachable: BTreeSet<NodeId>,
    /// Dead ports whose switch sends on over a peer link, and by which of its ports.
    by_peer_link: BTreeMap<NodeId, PortId>,
    /// By host: flows that took turns.
    turns: BTreeMap<NodeId, u32>,
    /// By host: the port of active-backup, of the active ToR, or one of the active aggregator if ports differ in rate.
    active: BTreeMap<NodeId, NodeId>,
    /// By node of a port: open flows.
    open: BTreeMap<NodeId, u64>,
    /// Some port or route has failed.
    has_failed: bool,
}

impl HostPorts {
    /// The ports of the hosts of `topology`; `None` if every host has one.
    pub fn new(topology: &Topology, settings: HostPortSettings, seed: u64) -> Option<HostPorts> {
        let ports = topology.ports_of_hosts();
        let rate = |node: &NodeId| topology.channel(topology.nodes()[*node].ports[0]).rate.0;
        let rates = ports.values().flatten().map(|node| (*node, rate(node))).collect();
        let ports = HostPorts {
            settings,
            seed,
            ports,
            rates,
            given_up: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            by_peer_link: BTreeMap::new(),
            turns: BTreeMap::new(),
            active: BTreeMap::new(),
            open: BTreeMap::new(),
            has_failed: false,
        };
        let active = ports.first_aggregators();
        (!ports.ports.is_empty()).then_some(HostPorts { active, ..ports })
    }

    /// The same with the ports that are active at first, if hosts have mux cables.
    #[must_use]
    pub fn with_dual_tor(mut self, dual_tor: Option<&DualTorSettings>) -> HostPorts {
        if let Some(dual_tor) = dual_tor {
            let is_active = |port: &&NodeId| dual_tor.active.contains(port);
            let first = |ports: &Vec<NodeId>| ports.iter().find(is_active).copied().unwrap_or(ports[0]);
            self.active = self.ports.iter().map(|(host, ports)| (*host, first(ports))).collect();
        }
        self
    }

    /// The places of a new flow among those of its hosts, source first; each later choice needs them again.
    pub fn assign_turns(&mut self, hosts: [NodeId; 2], flow: u32, kind: FlowKind) -> [u32; 2] {
        match self.settings.choice {
            PortChoice::QueueAffinity if kind == FlowKind::QueuePair => {
                hosts.map(|host| self.next_turn(host))
            }
            PortChoice::Rail => [self.next_turn(hosts[0]); 2],
            PortChoice::LeastLoaded => hosts.map(|host| self.least_loaded(host, flow)),
            PortChoice::Lacp
            | PortChoice::Xor
            | PortChoice::QueueAffinity
            | PortChoice::ActiveBackup
            | PortChoice::Mux
            | PortChoice::RoundRobin => [0; 2],
        }
    }

    fn next_turn(&mut self, host: NodeId) -> u32 {
        let turn = self.turns.entry(host).or_default();
        *turn += 1;
        *turn - 1
    }

    /// The number of the port that has the fewest flows for its rate with the new one; among equal ones the flow draws.
    fn least_loaded(&self, host: NodeId, flow: u32) -> u32 {
        let Some(ports) = self.ports.get(&host) else { return 0 };
        let open = |port: NodeId| self.open.get(&port).copied().unwrap_or(0);
        let draw = mix_bits(self.seed ^ mix_bits(u64::from(host.0) << 32 | u64::from(flow)));
        let load = |number: &u32| {
            let port = ports[*number as usize];
            (
                self.given_up.contains(&port),
                u128::from(open(port) + 1) * 1_000_000_000_000 / u128::from(self.rates[&port]),
                mix_bits(draw ^ u64::from(*number)),
            )
        };
        (0..ports.len() as u32).min_by_key(load).unwrap_or(0)
    }

    /// The ports that packets of this side leave and reach: nodes of the graph.
    pub fn choose(&mut self, ends: &FlowEnds, turn: u32, routes: &NextHops) -> [NodeId; 2] {
        if self.settings.choice == PortChoice::Mux {
            return ends.hosts.map(|host| self.active.get(&host).copied().unwrap_or(host));
        }
        let [own, reached] = ends.hosts.map(|host| self.ports_of(host));
        let usable = self.usable_ways([&own, &reached], routes);
        let from = self.sending_port(ends, turn, &own, &first_ports(&usable));
        self.way_from(from, ends, [&own, &reached], &usable, routes)
    }

    /// The ports that it would have with these routes if no port had failed; `used`: those that it has.
    pub fn choose_intact(
        &mut self,
        ends: &FlowEnds,
        turn: u32,
        used: [NodeId; 2],
        routes: &NextHops,
    ) -> [NodeId; 2] {
        if !self.has_failed {
            return used;
        }
        let first = match self.settings.choice {
            PortChoice::Mux => self.active.clone(),
            _ => self.first_aggregators(),
        };
        let dead = (take(&mut self.given_up), take(&mut self.unreachable), take(&mut self.by_peer_link));
        let active = std::mem::replace(&mut self.active, first);
        let ports = self.choose(ends, turn, routes);
        (self.given_up, self.unreachable, self.by_peer_link) = dead;
        self.active = active;
        ports
    }

    /// The ports that packets of this side leave and reach in turn; empty unless each packet takes the next port.
    pub fn packet_ways(&self, ends: &FlowEnds, routes: &NextHops) -> Vec<[NodeId; 2]> {
        if self.settings.choice != PortChoice::RoundRobin || !self.ports.contains_key(&ends.hosts[0]) {
            return Vec::new();
        }
        let [own, reached] = ends.hosts.map(|host| self.ports_of(host));
        let usable = self.usable_ways([&own, &reached], routes);
        let way = |from| self.way_from(from, ends, [&own, &reached], &usable, routes);
        first_ports(&usable).into_iter().map(way).collect()
    }

    /// The port to whose switch the network sends first what is for the port `ways[1]`. It is another one with mux cables, where both ToRs attract
    /// traffic for the host, and with MLAG, where a switch without its own link to the host does.
    pub fn entry(&self, ends: &FlowEnds, ways: [NodeId; 2], routes: &NextHops) -> NodeId {
        let [from, exit] = ways;
        let own = self.ports_of(ends.hosts[1]);
        let has_peer_way = own.iter().any(|port| self.by_peer_link.contains_key(port));
        if self.settings.choice != PortChoice::Mux && !has_peer_way {
            return exit;
        }
        let attracts = |port: &NodeId| {
            let direct = !self.unreachable.contains(port);
            (direct || self.by_peer_link.contains_key(port)) && routes.has_path(from, *port)
        };
        let known: Vec<NodeId> = own.into_iter().filter(attracts).collect();
        if known.is_empty() { exit } else { self.nearest(ends, from, &known, routes) }
    }

    /// The port by which the switch of a dead port sends on what is for its host.
    pub fn peer_link_of(&self, port: NodeId) -> Option<PortId> {
        self.by_peer_link.get(&port).copied()
    }

    fn ports_of(&self, host: NodeId) -> Vec<NodeId> {
        self.ports.get(&host).cloned().unwrap_or_else(|| vec![host])
    }

    /// Pairs of ports that work, by the first; without any, those that a flow can only wait for.
    fn usable_ways(&self, [own, reached]: [&[NodeId]; 2], routes: &NextHops) -> Vec<[NodeId; 2]> {
        // Ports in planes without a link between them lead nowhere.
        let ways: Vec<[NodeId; 2]> = own
            .iter()
            .flat_map(|from| reached.iter().map(move |to| [*from, *to]))
            .filter(|[from, to]| routes.distance(*from, *to) < u32::MAX)
            .collect();
        // A switch without a path, as a leaf that has lost its uplinks, attracts nothing.
        let known = |[from, to]: &&[NodeId; 2]| !self.unreachable.contains(to) && routes.has_path(*from, *to);
        let works = |way: &&[NodeId; 2]| known(way) && !self.given_up.contains(&way[0]);
        // Without a way that works a flow stays where it was.
        let working = [ways.iter().filter(works).collect::<Vec<_>>(), ways.iter().filter(known).collect()];
        let usable =
            working.into_iter().find(|ways| !ways.is_empty()).unwrap_or_else(|| ways.iter().collect());
        usable.into_iter().copied().collect()
    }

    fn way_from(
        &self,
        from: NodeId,
        ends: &FlowEnds,
        [own, reached]: [&[NodeId]; 2],
        usable: &[[NodeId; 2]],
        routes: &NextHops,
    ) -> [NodeId; 2] {
        let to: Vec<NodeId> = usable.iter().filter(|way| way[0] == from).map(|way| way[1]).collect();
        [from, self.receiving_port(ends, (from, own), (&to, reached), routes)]
    }

    /// Counts a flow at the port that it uses now, or no longer.
    pub fn count_open(&mut self, port: NodeId, opens: bool) {
        if self.rates.contains_key(&port) {
            let open = self.open.entry(port).or_default();
            *open = if opens { *open + 1 } else { open.saturating_sub(1) };
        }
    }

    /// The port of `up` by which a flow leaves; `own`: all ports of the host.
    fn sending_port(&mut self, ends: &FlowEnds, turn: u32, own: &[NodeId], up: &[NodeId]) -> NodeId {
        let by_hash = || {
            let FlowEnds { hosts, flow, forward, kind } = *ends;
            let hash = self.settings.hash.hash(&FlowAddresses::of_flow(hosts, flow, forward, kind));
            let up = self.aggregated(hosts[0], up);
            up[hash as usize % up.len()]
        };
        let by_turn = || {
            let port = own[turn as usize % own.len()];
            if up.contains(&port) { port } else { up[turn as usize % up.len()] }
        };
        match self.settings.choice {
            PortChoice::QueueAffinity if ends.kind == FlowKind::QueuePair => by_turn(),
            PortChoice::Lacp | PortChoice::Xor | PortChoice::QueueAffinity => by_hash(),
            PortChoice::Rail | PortChoice::LeastLoaded => by_turn(),
            PortChoice::RoundRobin | PortChoice::Mux => up[0],
            PortChoice::ActiveBackup => {
                let active = self.active.entry(ends.hosts[0]).or_insert(up[0]);
                if self.given_up.contains(active) {
                    *active = up[0];
                }
                if up.contains(active) { *active } else { up[0] }
            }
        }
    }

    /// The port of `known` that a flow from `from` reaches; `own` and `all`: all ports of the two hosts.
    fn receiving_port(
        &self,
        ends: &FlowEnds,
        (from, own): (NodeId, &[NodeId]),
        (known, all): (&[NodeId], &[NodeId]),
        routes: &NextHops,
    ) -> NodeId {
        let same = own.iter().position(|port| *port == from).and_then(|number| all.get(number));
        if let Some(same) =
            same.filter(|same| self.settings.choice == PortChoice::Rail && known.contains(same))
        {
            return *same;
        }
        if self.settings.choice == PortChoice::ActiveBackup {
            // A bond discards what comes by its other ports, and switches learn its address at this one.
            let is_up = |port: &&NodeId| !self.given_up.contains(*port);
            let active = self.active.get(&ends.hosts[1]).filter(is_up).or_else(|| all.iter().find(is_up));
            if let Some(active) = active.filter(|active| known.contains(active)) {
                return *active;
            }
        }
        self.nearest(ends, from, &self.aggregated(ends.hosts[1], known), routes)
    }

    /// The port of `known` that is nearest to `from`; among equal ones the hash of the flow decides.
    fn nearest(&self, ends: &FlowEnds, from: NodeId, known: &[NodeId], routes: &NextHops) -> NodeId {
        let nearest = known.iter().map(|port| routes.distance(from, *port)).min();
        let nearest: Vec<NodeId> =
            known.iter().copied().filter(|port| Some(routes.distance(from, *port)) == nearest).collect();
        let hash = mix_bits(u64::from(ends.flow) << 1 | u64::from(ends.forward));
        nearest[ecmp_index(hash, mix_bits(self.seed ^ mix_bits(u64::from(ends.hosts[1].0))), nearest.len())]
    }

    /// The host of this port takes it for dead, or for alive again.
    pub fn set_given_up(&mut self, port: NodeId, dead: bool) {
        self.has_failed |= dead;
        set(&mut self.given_up, port, dead);
        match self.settings.choice {
            PortChoice::Mux => self.switch_over(port),
            PortChoice::Lacp => self.select_aggregator(port),
            _ => {}
        }
    }

    /// The other ToR of a mux cable becomes active, if the active one has lost the host and the other has not.
    fn switch_over(&mut self, port: NodeId) {
        let Some((host, ports)) = self.ports.iter().find(|(_, ports)| ports.contains(&port)) else { return };
        let Some(active) = self.active.get_mut(host).filter(|active| self.given_up.contains(&**active))
        else {
            return;
        };
        if let Some(other) = ports.iter().find(|other| !self.given_up.contains(*other)) {
            *active = *other;
        }
    }

    /// How the network reaches this port from now on.
    pub fn set_reach(&mut self, port: NodeId, reach: PortReach) {
        self.has_failed = true;
        set(&mut self.unreachable, port, reach != PortReach::Direct);
        self.by_peer_link.remove(&port);
        if let PortReach::ByPeerLink(by) = reach {
            self.by_peer_link.insert(port, by);
        }
    }
}

/// The ports by which ways leave, each once.
fn first_ports(ways: &[[NodeId; 2]]) -> Vec<NodeId> {
    let mut ports: Vec<NodeId> = ways.iter().map(|way| way[0]).collect();
    ports.dedup();
    ports
}

fn set(ports: &mut BTreeSet<NodeId>, port: NodeId, is_in: bool) {
    if is_in {
        ports.insert(port);
    } else {
        ports.remove(&port);
    }
}
