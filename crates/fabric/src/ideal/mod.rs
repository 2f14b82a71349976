//! Ideal completion times: the flow alone in the idle network with an unlimited window, exactly.
//!
//! Packets leave back to back and are stored and forwarded at every switch. Of n equal packets ready at the start, the last reaches the end of link i
//! (n - 1) slowest serialisation times (of links up to i) after the first; a shorter last packet follows. A handshake adds its round trip. If
//! shortest paths differ in rate or delay, each link is the best at its distance from the source, so no real path is faster. With VLANs the path is
//! the shortest route in the tables, or, if links differ, the best of all candidate routes link by link. If each packet takes its own path, packets
//! may overtake each other and share the links of the two hosts and, at each distance from the source, all links of shortest paths together: the time
//! is then a lower bound by these. So it is if packets take the ports of their hosts in turn (`balance-rr`). Times beyond the clock's range (213 days)
//! are [`Span::MAX`].

mod longest;
mod train;
mod turns;

use train::{
    PathHop, earliest_arrival, latest_arrival, least_unloaded_arrival, lower_bound, shared_link_time,
    shared_link_time_cut, sprayed_transfer_time, train_transfer_time, transfer_time_by_ports,
    unloaded_arrival,
};

use self::turns::Turns;
use crate::flow::{FlowSpec, StorageOperation};
use crate::settings::{PortChoice, Settings, TransportSettings};
use pauseframe_rdma::{Opcode, Packet};
use pauseframe_routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::{Segment, SynOptions, TcpFlags, TcpOptions};
use pauseframe_units::{LineRate, NodeId, PortId, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const IPV4_HEADER_BYTES: u32 = 20;

/// Computes ideal completion times in one network.
#[derive(Clone, Debug)]
pub struct IdealFctCalculator {
    topology: Arc<Topology>,
    routes: Arc<NextHops>,
    settings: Arc<Settings>,
    /// Whether all links between switches are alike; `between` is then one of them, if there is any.
    uniform: bool,
    /// A link between switches, if there is any.
    between: Option<PortId>,
    /// Packets of a flow may take several paths at once; flowlets can be single packets.
    spread: bool,
    /// The nodes of the ports of hosts that have several.
    ports_of_hosts: Arc<BTreeMap<NodeId, Vec<NodeId>>>,
}

/// What is known of the way of a flow's packets.
struct IdealPath {
    hops: Vec<PathHop>,
    /// All packets take these links, in order.
    one_path: bool,
    /// Packets are made at the rate of the first link, not at once.
    is_paced: bool,
    /// Bytes on the wire of the smallest packet into which several subflows can cut the data.
    cut: Option<u32>,
    turns: Option<Turns>,
}

impl IdealPath {
    fn last(&self) -> &PathHop {
        &self.hops[self.hops.len() - 1]
    }

    /// Packets leave one after the other, not by several ports at once.
    fn leaves_by_one_link(&self) -> bool {
        self.hops.first().is_none_or(|first| first.total_rate == first.rate.rate().0)
    }
}

impl IdealFctCalculator {
    /// For a network with this topology, these routes and settings.
    pub fn new(
        topology: Arc<Topology>,
        routes: Arc<NextHops>,
        settings: Arc<Settings>,
    ) -> IdealFctCalculator {
        let between_switches = |port: &PortId| {
            let kind = |node| topology.nodes()[node].kind;
            kind(topology.owner(*port)) == NodeKind::Switch && kind(topology.peer(*port)) == NodeKind::Switch
        };
        let mut ports = (0..topology.port_count() as u32).map(PortId).filter(between_switches);
        let between = ports.next();
        let like_first =
            |port| between.is_some_and(|first| topology.channel(port) == topology.channel(first));
        let uniform = ports.all(like_first);
        let spread =
            settings.hop_choice.is_some() || settings.vlans.as_ref().is_some_and(|vlans| vlans.per_packet);
        let ports_of_hosts = Arc::new(topology.ports_of_hosts());
        IdealFctCalculator { topology, routes, settings, uniform, between, spread, ports_of_hosts }
    }

    /// The routes of the intact network.
    pub(crate) fn routes(&self) -> &NextHops {
        &self.routes
    }

    /// From the start of the flow to its last byte at the application (that of the reply, if there is one).
    pub fn ideal_fct(&self, spec: &FlowSpec) -> Span {
        self.ideal_fct_by_ways(spec, [[spec.source, spec.destination], [spec.destination, spec.source]])
    }

    /// The same by the ports that its packets leave and reach, there and back.
    pub(crate) fn ideal_fct_by_ways(&self, spec: &FlowSpec, [there, back]: [[NodeId; 2]; 2]) -> Span {
        if let Some(time) = self.time_within_server(spec) {
            return time;
        }
        self.time_by_paths(spec, [there, back].map(|[from, to]| self.ideal_path(spec, from, to)))
    }

    /// The same if its subflows have chosen these ports, there and back.
    pub(crate) fn ideal_fct_of_subflows(&self, spec: &FlowSpec, ways: &[[[NodeId; 2]; 2]]) -> Span {
        if self.packets_take_turns() {
            return self.ideal_fct(spec);
        }
        self.time_by_paths(
            spec,
            [0, 1].map(|side| {
                let chosen: BTreeSet<_> = ways.iter().map(|ways| (ways[side][0], ways[side][1])).collect();
                self.path_of_choices(spec, &[chosen.into_iter().collect()], 1, None)
            }),
        )
    }

    fn time_by_paths(&self, spec: &FlowSpec, [there, back]: [IdealPath; 2]) -> Span {
        if let Some(time) = self.operation_time(spec, &there, &back) {
            return time;
        }
        let mut time = self.handshake_time(spec, &there, &back);
        if spec.size != u64::MAX {
            time = time.saturating_add(self.transfer_time(spec, spec.size, &there));
        }
        if spec.reply > 0 {
            time = time.saturating_add(spec.reply_delay);
            time = time.saturating_add(self.transfer_time(spec, spec.reply, &back));
        }
        time
    }

    /// Whether a flow takes scale-up links, not the network.
    pub fn is_within_server(&self, spec: &FlowSpec) -> bool {
        let links = self.settings.scale_up.as_ref();
        let transport = self.transport(spec);
        links.is_some_and(|links| links.shared_server(spec.source, spec.destination).is_some())
            && transport.udp().is_none()
    }

    /// The time of a flow alone on scale-up links, if it takes them.
    fn time_within_server(&self, spec: &FlowSpec) -> Option<Span> {
        let links = self.settings.scale_up.as_ref().filter(|_| self.is_within_server(spec))?;
        let there = if spec.size == u64::MAX { Span::ZERO } else { links.transfer_time(spec.size) };
        if spec.reply == 0 {
            return Some(there);
        }
        Some(there.saturating_add(spec.reply_delay).saturating_add(links.transfer_time(spec.reply)))
    }

    /// Lower bound of the time in which messages of these sizes, each on its own queue pair, get from ports of a host to ports of another together:
    /// they share the links of the ports that they leave and reach, and all links between.
    pub fn time_of_parts(&self, spec: &FlowSpec, ways: &[[NodeId; 2]], sizes: &[u64]) -> Span {
        if sizes.contains(&u64::MAX) {
            return Span::ZERO;
        }
        let path = self.path_of_queue_pairs(spec, ways, sizes.len());
        let mut train: Vec<(u64, u32)> =
            sizes.iter().flat_map(|bytes| self.packet_train(spec, *bytes)).collect();
        // Whichever order packets leave in, those of this size or above take this long, and the last of them has to cross.
        train.sort_unstable_by_key(|(_, size)| std::cmp::Reverse(*size));
        let shared = shared_link_time(&path.hops, &train);
        let wire = match path.hops.last() {
            Some(last) if path.leaves_by_one_link() => {
                latest_arrival(&path.hops, &train).saturating_add(last.delay).max(shared)
            }
            _ => shared,
        };
        let wire = path.turns.as_ref().map_or(wire, |turns| wire.max(turns.transfer_time(&train)));
        self.settings.tx_delay.saturating_add(wire).saturating_add(self.settings.rx_delay)
    }

    /// A job completes with its slowest flow or part of a flow, and not before all its bytes from other servers have passed the aggregator's links back to back; `flows`
    /// are the job's, to or from the same aggregator. Each flow takes the best ports of its hosts.
    pub fn query_completion_time(&self, flows: &[FlowSpec]) -> Span {
        let by_ports = flows.iter().map(|flow| self.flow_by_ports(flow)).collect::<Vec<_>>();
        let least = |ways: &Vec<FlowSpec>, of: &dyn Fn(&FlowSpec) -> Span| {
            ways.iter().map(of).min().unwrap_or_default()
        };
        let alone = |flow: &FlowSpec| self.ideal_fct(&self.largest_part(flow));
        let alone = by_ports.iter().map(|ways| least(ways, &alone)).max().unwrap_or_default();
        let crossing = || by_ports.iter().filter(|ways| ways.iter().all(|flow| !self.is_within_server(flow)));
        let first = |flow: &FlowSpec| self.last_link_arrival(flow);
        let Some(first) = crossing().map(|ways| least(ways, &first)).min() else {
            return alone;
        };
        let load = |flow: &FlowSpec| self.last_link_time(flow);
        let last_link = crossing().map(|ways| least(ways, &load)).fold(first, Span::saturating_add);
        let delay = |flow: &FlowSpec| self.last_hop_delay(flow);
        let delay = crossing().map(|ways| least(ways, &delay)).min().unwrap_or_default();
        alone.max(last_link.saturating_add(delay))
    }

    /// A flow by each pair of ports of its two hosts that reach each other. Where packets take all ports in turn (`balance-rr`), the path of the flow
    /// has them all already.
    fn flow_by_ports(&self, spec: &FlowSpec) -> Vec<FlowSpec> {
        let [own, reached] = [spec.source, spec.destination].map(|node| self.ports_of_host(node));
        if own.len() * reached.len() == 1 || self.packets_take_turns() {
            return vec![*spec];
        }
        let pairs = own.iter().flat_map(|own| reached.iter().map(move |reached| (*own, *reached)));
        let reaches =
            |from, to| self.routes.distance(from, to) < u32::MAX && !self.path_hops(from, to).is_empty();
        let has_way = |(own, reached): &(NodeId, NodeId)| reaches(*own, *reached) && reaches(*reached, *own);
        let ways: Vec<FlowSpec> = pairs
            .filter(has_way)
            .map(|(source, destination)| FlowSpec { source, destination, ..*spec })
            .collect();
        if ways.is_empty() { vec![*spec] } else { ways }
    }

    /// The nodes of the ports of a host; itself, if it has one.
    fn ports_of_host(&self, node: NodeId) -> Vec<NodeId> {
        self.ports_of_hosts.get(&self.topology.host_of(node)).cloned().unwrap_or_else(|| vec![node])
    }

    /// What one queue pair carries of a flow at most: parts of a message can take several paths at once.
    fn largest_part(&self, spec: &FlowSpec) -> FlowSpec {
        let pairs = self.settings.flow_queue_pairs(spec);
        let size = pairs.and_then(|pairs| pairs.parts(spec.size, 0).into_iter().max()).unwrap_or(spec.size);
        FlowSpec { size, ..*spec }
    }

    /// The round-trip time of a full segment and its ACK between two hosts in the idle network.
    pub fn base_rtt(&self, from: NodeId, to: NodeId, transport: u16) -> Span {
        let mss = self.full_segment_bytes(transport);
        let spec = FlowSpec { transport, ..FlowSpec::new(from, to, mss) };
        let ack = self.wire_size(&spec, &Segment::default());
        let there = self.transfer_time(&spec, spec.size, &self.ideal_path(&spec, from, to));
        there.saturating_add(self.one_way_time(&self.ideal_path(&spec, to, from), &[(1, ack)]))
    }

    /// The number of links between two hosts.
    pub fn link_count(&self, from: NodeId, to: NodeId) -> u32 {
        self.path_hops(from, to).len() as u32
    }

    /// Latency of links and switches between two hosts, without stacks and serialisation.
    pub fn network_latency(&self, from: NodeId, to: NodeId) -> Span {
        self.path_hops(from, to).iter().fold(Span::ZERO, |sum, hop| sum + hop.delay)
    }

    /// The path of a flow's packets, or a lower bound of all paths between two hosts if packets take several.
    fn ideal_path(&self, spec: &FlowSpec, from: NodeId, to: NodeId) -> IdealPath {
        self.path_of_queue_pairs(spec, &[[from, to]], 1)
    }

    /// As [`Self::ideal_path`], for a message on so many queue pairs, each of which takes one of these ways and is paced at the rate of one port.
    fn path_of_queue_pairs(&self, spec: &FlowSpec, ways: &[[NodeId; 2]], queue_pairs: usize) -> IdealPath {
        let subflows = self.settings.subflows(spec.transport);
        let choices = self.packet_ways(ways, subflows > 1, queue_pairs);
        // With ports in turn a queue pair is paced at the rate of the first.
        let first = ways.first().filter(|_| self.packets_take_turns());
        self.path_of_choices(spec, &choices, queue_pairs, first.map(|way| self.rate_of_port(way[0])))
    }

    /// The same for each of several possible sets of pairs of ports; `pace`: the rate at which a queue pair is paced, if it is not the rate of each port.
    fn path_of_choices(
        &self,
        spec: &FlowSpec,
        choices: &[Vec<(NodeId, NodeId)>],
        queue_pairs: usize,
        pace: Option<u64>,
    ) -> IdealPath {
        let subflows = self.settings.subflows(spec.transport);
        let in_turn = choices.iter().any(|ways| ways.len() > 1);
        let several = self.spread || in_turn || queue_pairs > 1 || subflows > 1;
        let is_paced = self.transport(spec).rdma().is_some();
        let most = is_paced.then_some(queue_pairs as u64).or((subflows > 1).then_some(u64::from(subflows)));
        let hops = choices.iter().map(|ways| self.hops_of_ways(ways, several, (most, pace)));
        let smallest = || self.wire_size(spec, &Segment { len: 1, ..Segment::default() });
        let cut = (subflows > 1).then(smallest);
        let hops = hops.reduce(lower_bound).unwrap_or_default();
        let turns = self.turns(spec, choices, &hops);
        IdealPath { hops, one_path: !several, is_paced, cut, turns }
    }

    /// The links that packets take which use these pairs of ports in turn; at most so many ports at once at the source, if that is given.
    fn hops_of_ways(
        &self,
        ways: &[(NodeId, NodeId)],
        several: bool,
        (most, pace): (Option<u64>, Option<u64>),
    ) -> Vec<PathHop> {
        let routes = ways.iter().map(|(from, to)| self.path_hops(*from, *to));
        let mut hops = routes.reduce(lower_bound).unwrap_or_default();
        let rate = |port: PortId| self.topology.channel(port).rate.0;
        let of_node = |node: &NodeId| self.topology.nodes()[*node].ports[0];
        let [own, reached]: [BTreeSet<NodeId>; 2] =
            [ways.iter().map(|way| way.0).collect(), ways.iter().map(|way| way.1).collect()];
        let mut sent = own.iter().map(|node| rate(of_node(node))).sum();
        if let (Some(first), Some(most)) = (hops.first(), most) {
            // A packet is paced for a picosecond less than it takes.
            let rate = pace.unwrap_or(first.total_rate);
            let paced = rate + rate / 500;
            sent = paced.saturating_mul(most).min(sent);
        }
        let received = reached.iter().map(|node| rate(of_node(node).reverse())).sum();
        if several {
            self.widen_links_between(&mut hops, ways, sent.min(received));
        }
        if let (true, Some(first)) = (own.len() > 1, hops.first_mut()) {
            first.total_rate = sent;
        }
        if let (true, Some(last)) = (reached.len() > 1, hops.last_mut()) {
            last.total_rate = received;
        }
        hops
    }

    /// Packets share all links at the same distance from the source. Where links between switches are no slower than `enough`, they never wait there.
    fn widen_links_between(&self, hops: &mut [PathHop], pairs: &[(NodeId, NodeId)], enough: u64) {
        let [_, between @ .., _] = hops else { return };
        let slow = between.iter().any(|hop| hop.total_rate < enough);
        let links = if slow { self.links_by_distance(pairs) } else { Vec::new() };
        for (place, hop) in between.iter_mut().enumerate() {
            let total = |ports: &BTreeSet<PortId>| {
                ports.iter().fold(0, |sum: u64, port| sum.saturating_add(self.topology.channel(*port).rate.0))
            };
            hop.total_rate = links.get(place + 1).map_or(u64::MAX, total);
        }
    }

    /// The links at each distance from the source that packets between these hosts can take.
    fn links_by_distance(&self, pairs: &[(NodeId, NodeId)]) -> Vec<BTreeSet<PortId>> {
        let mut links: Vec<BTreeSet<PortId>> = Vec::new();
        let mut add = |distance: usize, ports: &mut dyn Iterator<Item = PortId>| {
            links.resize_with(links.len().max(distance + 1), BTreeSet::new);
            links[distance].extend(ports);
        };
        for (from, to) in pairs {
            if let Some(vlans) = &self.settings.vlans {
                for path in vlans.candidate_paths(*from, *to) {
                    path.into_iter().enumerate().for_each(|(at, port)| add(at, &mut std::iter::once(port)));
                }
                continue;
            }
            let mut nodes = BTreeSet::from([*from]);
            for distance in 0..self.routes.distance(*from, *to) as usize {
                let ports = || nodes.iter().flat_map(|node| self.routes.ports(*node, *to)).copied();
                add(distance, &mut ports());
                nodes = ports().map(|port| self.topology.peer(port)).collect();
            }
        }
        links
    }

    fn transport(&self, spec: &FlowSpec) -> &TransportSettings {
        &self.settings.transports[usize::from(spec.transport)]
    }

    /// The pairs of ports that packets of a flow take: those that its parts have chosen, unless hosts send by each port in turn or a flow has subflows. From each port they go to the
    /// nearest of the receiver, and among equal ones each subflow or queue pair decides, or the flow: hence several possibilities.
    fn packet_ways(
        &self,
        chosen: &[[NodeId; 2]],
        subflows: bool,
        queue_pairs: usize,
    ) -> Vec<Vec<(NodeId, NodeId)>> {
        let (true, Some([from, to])) = (self.packets_take_turns() || subflows, chosen.first().copied())
        else {
            let chosen: BTreeSet<_> = chosen.iter().map(|[from, to]| (*from, *to)).collect();
            return vec![chosen.into_iter().collect()];
        };
        let [own, reached] = [from, to].map(|node| self.ports_of_host(node));
        let nearest = |own: &NodeId| {
            let distance = |port: &NodeId| self.routes.distance(*own, *port);
            let least = reached.iter().map(distance).min().filter(|least| *least < u32::MAX)?;
            let near = reached.iter().copied().filter(|port| distance(port) == least);
            Some((*own, near.collect::<Vec<NodeId>>()))
        };
        let near: Vec<_> = own.iter().filter_map(nearest).collect();
        if (subflows || queue_pairs > 1) && !near.is_empty() {
            // Each subflow or queue pair decides for itself.
            let pairs = near.iter().flat_map(|(own, ports)| ports.iter().map(move |port| (*own, *port)));
            return vec![pairs.collect()];
        }
        let Some(choices) = near.iter().map(|(_, ports)| ports.len()).max() else {
            return vec![vec![(from, to)]];
        };
        let choice =
            |turn: usize| near.iter().map(|(own, ports)| (*own, ports[turn % ports.len()])).collect();
        (0..choices).map(choice).collect()
    }

    /// A link on the way to a host.
    fn path_hop(&self, port: PortId, to: NodeId) -> PathHop {
        let channel = self.topology.channel(port);
        let peer = self.topology.peer(port);
        let latency = if peer == to { Span::ZERO } else { self.settings.switch_latency };
        let rate = LineRate::new(channel.rate);
        let is_host = |node| self.topology.nodes()[node].kind != NodeKind::Switch;
        let has_bucket = is_host(peer) || is_host(self.topology.owner(port));
        PathHop {
            rate,
            hold: if has_bucket { rate.serialise(self.settings.wire_burst) } else { Span::ZERO },
            delay: channel.delay.saturating_add(latency),
            total_rate: channel.rate.0,
        }
    }

    fn hops_along(&self, path: &[PortId], to: NodeId) -> Vec<PathHop> {
        path.iter().map(|port| self.path_hop(*port, to)).collect()
    }

    fn path_hops(&self, from: NodeId, to: NodeId) -> Vec<PathHop> {
        let hop = |port: PortId| self.path_hop(port, to);
        if let Some(vlans) = &self.settings.vlans {
            return if self.uniform {
                vlans.shortest_path(from, to).into_iter().map(hop).collect()
            } else {
                let routes =
                    vlans.candidate_paths(from, to).map(|ports| ports.into_iter().map(&hop).collect());
                routes.reduce(lower_bound).unwrap_or_default()
            };
        }
        if self.uniform {
            self.uniform_shortest_path(from, to, hop)
        } else {
            self.shortest_path_bound(from, to, hop)
        }
    }

    /// A shortest path if all switch links are alike: the links of the two hosts and the needed number of switch links.
    fn uniform_shortest_path(
        &self,
        from: NodeId,
        to: NodeId,
        hop: impl Fn(PortId) -> PathHop,
    ) -> Vec<PathHop> {
        let links = self.routes.distance(from, to) as usize;
        let [own, last] = [from, to].map(|host| self.topology.nodes()[host].ports[0]);
        let between = self.between.map(&hop);
        let mut hops = Vec::with_capacity(links);
        hops.extend((links > 1).then(|| hop(own)));
        hops.extend((2..links).filter_map(|_| between));
        hops.extend((links > 0).then(|| hop(last.reverse())));
        hops
    }

    /// Lower bound of all shortest paths: the highest rate and the smallest delay at each distance from the source.
    fn shortest_path_bound(&self, from: NodeId, to: NodeId, hop: impl Fn(PortId) -> PathHop) -> Vec<PathHop> {
        let mut hops = Vec::new();
        let mut nodes = vec![from];
        while nodes != [to] {
            let ports = nodes.iter().flat_map(|node| self.routes.ports(*node, to));
            let (mut best, mut next): (Option<PathHop>, Vec<NodeId>) = (None, Vec::new());
            for port in ports {
                next.push(self.topology.peer(*port));
                let this = hop(*port);
                best = Some(best.map_or(this, |best| best.elementwise_better(this)));
            }
            next.sort_unstable();
            next.dedup();
            nodes = next;
            hops.extend(best);
        }
        hops
    }

    /// Payload of a full segment. Round trips of other protocols than TCP are measured with one of TCP that fills the MTU.
    fn full_segment_bytes(&self, transport: u16) -> u64 {
        let header = IPV4_HEADER_BYTES + Segment::default().header_len(true);
        let mtu = self.settings.mtu;
        let tcp = self.settings.transports[usize::from(transport)].tcp();
        u64::from(tcp.map_or(mtu - header, |config| config.mss))
    }

    /// Bytes on the wire of a segment of this flow's transport.
    fn wire_size(&self, spec: &FlowSpec, segment: &Segment) -> u32 {
        let transport = self.transport(spec);
        let has_timestamps = transport.tcp().is_none_or(|config| config.timestamps);
        let options = transport.tcp().map_or(0, |config| config.dss_bytes(segment.len));
        let ip = IPV4_HEADER_BYTES + segment.header_len(has_timestamps) + options + segment.len;
        self.settings.overhead.wire_size(ip, transport.priority)
    }

    /// SYN and SYN-ACK, unless the connection is open already; data of TCP go with the ACK that completes it.
    fn handshake_time(&self, spec: &FlowSpec, there: &IdealPath, back: &IdealPath) -> Span {
        let Some(config) = self.transport(spec).tcp() else {
            return Span::ZERO;
        };
        if !config.handshake || spec.kept.is_some_and(|kept| !kept.first) {
            return Span::ZERO;
        }
        let options = SynOptions {
            mss: config.mss as u16,
            sack: config.sack,
            timestamps: config.timestamps,
            window_scale: 0,
        };
        let syn = Segment { flags: TcpFlags::SYN, options: TcpOptions::Syn(options), ..Segment::default() };
        let size = self.wire_size(spec, &syn);
        let trip = self.one_way_time(there, &[(1, size)]);
        let trip = trip.saturating_add(self.one_way_time(back, &[(1, size)]));
        // An MPTCP connection gives its data to a subflow that is established, so the ACK leaves before them.
        let ack = self.wire_size(spec, &Segment::default());
        let first = there.hops.first().filter(|_| self.settings.subflows(spec.transport) > 1);
        trip.saturating_add(first.map_or(Span::ZERO, |hop| hop.rate.serialise(ack)))
    }

    /// A READ: a request, and the response. A WRITE: the data, and the acknowledgement of the last packet.
    fn operation_time(&self, spec: &FlowSpec, there: &IdealPath, back: &IdealPath) -> Option<Span> {
        let transport = self.transport(spec);
        let (rdma, operation) = (transport.rdma()?, spec.operation?);
        let wire = |ip, priority| self.settings.overhead.wire_size(ip, priority);
        let alone = |packet: &Packet, priority| [(1, wire(rdma.pair.ip_size(packet), priority))];
        Some(match operation {
            StorageOperation::Read => {
                let train = rdma.pair.response_train(spec.reply).into_iter();
                let train: Vec<_> = train.map(|(count, ip)| (count, wire(ip, transport.priority))).collect();
                let request = alone(&Packet::read_request(0, 0), transport.priority);
                self.one_way_time(there, &request).saturating_add(self.one_way_time(back, &train))
            }
            StorageOperation::Write => {
                let priority = if rdma.pair.unordered { rdma.cnp_priority } else { transport.priority };
                let answer = alone(&Packet::new(Opcode::Acknowledge, 0), priority);
                self.transfer_time(spec, spec.size, there).saturating_add(self.one_way_time(back, &answer))
            }
        })
    }

    /// `bytes` of data, cut into full segments and a shorter last one.
    fn transfer_time(&self, spec: &FlowSpec, bytes: u64, path: &IdealPath) -> Span {
        self.one_way_time(path, &self.packet_train(spec, bytes))
    }

    /// (count, wire size) of the full packets and of the last one.
    fn packet_train(&self, spec: &FlowSpec, bytes: u64) -> Vec<(u64, u32)> {
        let transport = self.transport(spec);
        if let Some(rdma) = transport.rdma() {
            let wire = |ip| self.settings.overhead.wire_size(ip, transport.priority);
            return rdma.pair.train(bytes).into_iter().map(|(count, ip)| (count, wire(ip))).collect();
        }
        let mss = self.full_segment_bytes(spec.transport);
        let data = |len: u64| self.wire_size(spec, &Segment { len: len as u32, ..Segment::default() });
        let (full, rest) = (bytes / mss, bytes % mss);
        let mut train = Vec::with_capacity(2);
        if full > 0 {
            train.push((full, data(mss)));
        }
        if rest > 0 {
            train.push((1, data(rest)));
        }
        train
    }

    /// Time from socket to socket of a packet train with at most two sizes, ready at the start.
    fn one_way_time(&self, path: &IdealPath, train: &[(u64, u32)]) -> Span {
        let is_cut = path.cut.filter(|_| train.iter().map(|(count, _)| count).sum::<u64>() > 1);
        let wire = if let Some(smallest) = is_cut {
            shared_link_time_cut(&path.hops, train, smallest)
        } else if path.one_path {
            train_transfer_time(&path.hops, train, path.is_paced)
        } else if path.leaves_by_one_link() {
            sprayed_transfer_time(&path.hops, train)
        } else {
            transfer_time_by_ports(&path.hops, train)
        };
        let wire = path.turns.as_ref().map_or(wire, |turns| wire.max(turns.transfer_time(train)));
        self.settings.tx_delay.saturating_add(wire).saturating_add(self.settings.rx_delay)
    }

    /// When the first packet of a flow to the aggregator is ready for the last link.
    fn last_link_arrival(&self, spec: &FlowSpec) -> Span {
        let (path, bytes) = self.path_to_aggregator(spec);
        let train = self.packet_train(spec, bytes);
        let whole = self.ideal_fct(spec);
        let inbound = self.transfer_time(spec, bytes, &path);
        let first = if path.one_path {
            unloaded_arrival(&path.hops, train[0].1)
        } else if path.leaves_by_one_link() {
            earliest_arrival(&path.hops, &train)
        } else {
            least_unloaded_arrival(&path.hops, &train)
        };
        // If both sums saturate the difference is too small, but the total saturates anyway.
        (whole - inbound).saturating_add(self.settings.tx_delay).saturating_add(first)
    }

    /// The time of a flow's bytes on the links of the aggregator: on all of them together, or on one if only one port is active at a time.
    fn last_link_time(&self, spec: &FlowSpec) -> Span {
        let (path, bytes) = self.path_to_aggregator(spec);
        let aggregator = if spec.reply > 0 { spec.source } else { spec.destination };
        let mut last = *path.last();
        if !matches!(self.settings.host_ports.choice, PortChoice::ActiveBackup | PortChoice::Mux) {
            let rate =
                |node: NodeId| self.topology.channel(self.topology.nodes()[node].ports[0].reverse()).rate.0;
            last.total_rate = last.total_rate.max(self.ports_of_host(aggregator).into_iter().map(rate).sum());
        }
        last.load(&self.packet_train(spec, bytes))
    }

    fn last_hop_delay(&self, spec: &FlowSpec) -> Span {
        let (path, _) = self.path_to_aggregator(spec);
        path.last().delay.saturating_add(self.settings.rx_delay)
    }

    /// The path to the aggregator, and the bytes on it.
    fn path_to_aggregator(&self, spec: &FlowSpec) -> (IdealPath, u64) {
        if spec.reply > 0 {
            (self.ideal_path(spec, spec.destination, spec.source), spec.reply)
        } else {
            (self.ideal_path(spec, spec.source, spec.destination), spec.size)
        }
    }
}
