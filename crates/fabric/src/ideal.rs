//! Ideal completion times: the flow alone in the idle network with an unlimited window, exactly.
//!
//! Packets leave back to back and are stored and forwarded at every switch. Of n equal packets ready at the start, the last reaches the end of link i
//! (n - 1) slowest serialisation times (of links up to i) after the first; a shorter last packet follows. A handshake adds its round trip. If
//! shortest paths differ in rate or delay, each link is the best at its distance from the source, so no real path is faster. With VLANs the path is
//! the shortest route in the tables, or, if links differ, the best of all candidate routes link by link. If each packet takes its own path, packets
//! share only the links of the two hosts and may overtake each other; the time is then a lower bound by these two links. So it is if packets take the
//! ports of their hosts in turn (`balance-rr`): the links of all ports together carry them. Times beyond the clock's range (213 days) are
//! [`Span::MAX`].

use crate::flow::{FlowSpec, StorageOperation};
use crate::settings::{FrameOverhead, PortChoice, Settings};
use pauseframe_rdma::{Opcode, Packet};
use pauseframe_routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::{Segment, SynOptions, TcpFlags, TcpOptions};
use pauseframe_units::{LineRate, NodeId, PortId, Span};
use std::collections::BTreeMap;
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

/// One link of a path: rate, and the time from the last bit sent to the packet being in the next queue.
#[derive(Clone, Copy)]
struct PathHop {
    rate: LineRate,
    delay: Span,
}

impl PathHop {
    /// The better rate and the better delay of two links.
    fn elementwise_better_hop(self, other: PathHop) -> PathHop {
        let faster =
            self.rate.serialise(RATE_COMPARISON_BYTES) <= other.rate.serialise(RATE_COMPARISON_BYTES);
        PathHop { rate: if faster { self.rate } else { other.rate }, delay: self.delay.min(other.delay) }
    }
}

/// A path, and how many links like its first and its last one carry the packets of a flow at once: 1 each, unless packets take ports in turn.
struct IdealPath {
    hops: Vec<PathHop>,
    at_once: [u64; 2],
}

/// A lower bound of two routes between the same hosts: as many links as the shorter, each the better of both.
fn lower_bound_of_two_routes(one: Vec<PathHop>, other: Vec<PathHop>) -> Vec<PathHop> {
    let (mut best, longer) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let Some(((last, between), (last_of_longer, before))) = best.split_last_mut().zip(longer.split_last())
    else {
        return best;
    };
    between.iter_mut().zip(before).for_each(|(hop, other)| *hop = hop.elementwise_better_hop(*other));
    *last = last.elementwise_better_hop(*last_of_longer);
    best
}

/// Bytes whose serialisation time is compared to find the faster of two rates.
const RATE_COMPARISON_BYTES: u32 = 1 << 20;

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

    /// From the start of the flow to its last byte at the application (that of the reply, if there is one).
    pub fn ideal_flow_completion_time(&self, spec: &FlowSpec) -> Span {
        if let Some(time) = self.ideal_time_within_server(spec) {
            return time;
        }
        let there = self.ideal_path(spec.source, spec.destination);
        let back = self.ideal_path(spec.destination, spec.source);
        if let Some(time) = self.ideal_queue_pair_operation_time(spec, &there, &back) {
            return time;
        }
        let mut time = self.ideal_handshake_time(spec, &there, &back);
        if spec.size != u64::MAX {
            time = time.saturating_add(self.ideal_transfer_time(spec, spec.size, &there));
        }
        if spec.reply > 0 {
            time = time.saturating_add(spec.reply_delay);
            time = time.saturating_add(self.ideal_transfer_time(spec, spec.reply, &back));
        }
        time
    }

    /// Whether a flow takes scale-up links, not the network.
    pub fn is_within_server(&self, spec: &FlowSpec) -> bool {
        let links = self.settings.scale_up.as_ref();
        let transport = &self.settings.transports[usize::from(spec.transport)];
        links.is_some_and(|links| links.shared_server(spec.source, spec.destination).is_some())
            && transport.udp().is_none()
    }

    /// The time of a flow alone on scale-up links, if it takes them.
    fn ideal_time_within_server(&self, spec: &FlowSpec) -> Option<Span> {
        let links = self.settings.scale_up.as_ref().filter(|_| self.is_within_server(spec))?;
        let there = if spec.size == u64::MAX { Span::ZERO } else { links.transfer_time(spec.size) };
        if spec.reply == 0 {
            return Some(there);
        }
        Some(there.saturating_add(spec.reply_delay).saturating_add(links.transfer_time(spec.reply)))
    }

    /// Lower bound of the time in which messages of these sizes, each on its own queue pair, get from one port of a host to another together: they
    /// share the links of the two ports, and nothing else for certain.
    pub fn ideal_time_of_parts(&self, spec: &FlowSpec, sizes: &[u64]) -> Span {
        if sizes.contains(&u64::MAX) {
            return Span::ZERO;
        }
        let IdealPath { hops: path, at_once } = self.ideal_path(spec.source, spec.destination);
        let mut train: Vec<(u64, u32)> =
            sizes.iter().flat_map(|bytes| self.build_packet_train(spec, *bytes)).collect();
        // Whichever order packets leave in, those of this size or above take this long, and the last of them has to cross.
        train.sort_unstable_by_key(|(_, size)| std::cmp::Reverse(*size));
        let smallest = train.last().map_or(0, |(_, size)| *size);
        let wire = match path.last() {
            _ if at_once != [1, 1] => transfer_time_by_ports(&path, &train, at_once),
            Some(last) if path.len() > 1 => {
                let load = |(count, size): &(u64, u32)| last.rate.serialise(*size).saturating_mul(*count);
                let loads = train.iter().map(load).fold(Span::ZERO, Span::saturating_add);
                let first = unloaded_arrival_time_at_last_link(&path, smallest);
                latest_arrival_of_train(&path, &train)
                    .max(first.saturating_add(loads))
                    .saturating_add(last.delay)
            }
            _ => train_transfer_time(&path, &train),
        };
        self.settings.tx_delay.saturating_add(wire).saturating_add(self.settings.rx_delay)
    }

    /// A job completes with its slowest flow or part of a flow, and not before all its bytes from other servers have passed the aggregator's link back to back; `flows` are
    /// the job's, to or from the same aggregator.
    pub fn ideal_query_completion_time(&self, flows: &[FlowSpec]) -> Span {
        let alone = |flow: &FlowSpec| self.ideal_flow_completion_time(&self.largest_part(flow));
        let alone = flows.iter().map(alone).max().unwrap_or_default();
        let crossing = || flows.iter().filter(|flow| !self.is_within_server(flow));
        let Some(first) = crossing().map(|flow| self.first_arrival_time_at_last_link(flow)).min() else {
            return alone;
        };
        let last_link =
            crossing().map(|flow| self.last_link_transmission_time(flow)).fold(first, Span::saturating_add);
        let delay = crossing().map(|flow| self.host_delay_after_last_link(flow)).min().unwrap_or_default();
        alone.max(last_link.saturating_add(delay))
    }

    /// What one queue pair carries of a flow at most: parts of a message can take several paths at once.
    fn largest_part(&self, spec: &FlowSpec) -> FlowSpec {
        let pairs = self.settings.queue_pairs_of_flow(spec);
        let size = pairs.and_then(|pairs| pairs.parts(spec.size, 0).into_iter().max()).unwrap_or(spec.size);
        FlowSpec { size, ..*spec }
    }

    /// The round-trip time of a full segment and its ACK between two hosts in the idle network.
    pub fn base_rtt_between_hosts(&self, from: NodeId, to: NodeId, transport: u16) -> Span {
        let mss = self.full_segment_bytes(transport);
        let spec = FlowSpec { transport, ..FlowSpec::new(from, to, mss) };
        let ack = self.wire_size_of_segment(&spec, &Segment::default());
        let there = self.ideal_transfer_time(&spec, spec.size, &self.ideal_path(from, to));
        there.saturating_add(self.one_way_time_of_train(&self.ideal_path(to, from), &[(1, ack)]))
    }

    /// The number of links between two hosts.
    pub fn link_count_between_hosts(&self, from: NodeId, to: NodeId) -> u32 {
        self.ideal_path_hops(from, to).len() as u32
    }

    /// Latency of links and switches between two hosts, without stacks and serialisation.
    pub fn link_and_switch_latency(&self, from: NodeId, to: NodeId) -> Span {
        self.ideal_path_hops(from, to).iter().fold(Span::ZERO, |sum, hop| sum + hop.delay)
    }

    /// The path of a flow's packets, or a lower bound of all paths between two hosts if packets take their ports in turn.
    fn ideal_path(&self, from: NodeId, to: NodeId) -> IdealPath {
        let [own, reached] = [from, to].map(|node| self.ports_in_turn(node));
        let joined = |(from, to): &(NodeId, NodeId)| self.routes.distance(*from, *to) < u32::MAX;
        let pairs = own.iter().flat_map(|from| reached.iter().map(move |to| (*from, *to))).filter(joined);
        let hops = pairs.map(|(from, to)| self.ideal_path_hops(from, to)).reduce(lower_bound_of_two_routes);
        let hops = hops.unwrap_or_else(|| self.ideal_path_hops(from, to));
        let rate = |port: PortId| self.topology.channel(port).rate.0;
        let of_node = |node: &NodeId| self.topology.nodes()[*node].ports[0];
        let like =
            |hop: Option<&PathHop>, all: u64| hop.map_or(1, |hop| all.div_ceil(hop.rate.rate().0).max(1));
        let sent = own.iter().map(|node| rate(of_node(node))).sum();
        let received = reached.iter().map(|node| rate(of_node(node).reverse())).sum();
        let at_once = [like(hops.first(), sent), like(hops.last(), received)];
        IdealPath { hops, at_once }
    }

    /// The ports of a host that packets take in turn, or `node` alone.
    fn ports_in_turn(&self, node: NodeId) -> Vec<NodeId> {
        let all = || self.ports_of_hosts.get(&self.topology.host_of(node)).cloned();
        let in_turn = self.settings.host_ports.choice == PortChoice::RoundRobin;
        in_turn.then(all).flatten().unwrap_or_else(|| vec![node])
    }

    fn ideal_path_hops(&self, from: NodeId, to: NodeId) -> Vec<PathHop> {
        let hop = |port: PortId| {
            let channel = self.topology.channel(port);
            let latency =
                if self.topology.peer(port) == to { Span::ZERO } else { self.settings.switch_latency };
            PathHop { rate: LineRate::new(channel.rate), delay: channel.delay.saturating_add(latency) }
        };
        if let Some(vlans) = &self.settings.vlans {
            return if self.uniform {
                vlans.shortest_path(from, to).into_iter().map(hop).collect()
            } else {
                let routes = vlans
                    .candidate_paths_of_sender(from, to)
                    .map(|ports| ports.into_iter().map(&hop).collect());
                routes.reduce(lower_bound_of_two_routes).unwrap_or_default()
            };
        }
        if self.uniform {
            self.shortest_path_of_uniform_links(from, to, hop)
        } else {
            self.lower_bound_of_shortest_paths(from, to, hop)
        }
    }

    /// A shortest path if all switch links are alike: the links of the two hosts and the needed number of switch links.
    fn shortest_path_of_uniform_links(
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
    fn lower_bound_of_shortest_paths(
        &self,
        from: NodeId,
        to: NodeId,
        hop: impl Fn(PortId) -> PathHop,
    ) -> Vec<PathHop> {
        let mut hops = Vec::new();
        let mut nodes = vec![from];
        while nodes != [to] {
            let ports = nodes.iter().flat_map(|node| self.routes.ports(*node, to));
            let (mut best, mut next): (Option<PathHop>, Vec<NodeId>) = (None, Vec::new());
            for port in ports {
                next.push(self.topology.peer(*port));
                let this = hop(*port);
                best = Some(best.map_or(this, |best| best.elementwise_better_hop(this)));
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
        let header = IPV4_HEADER_BYTES + Segment::default().tcp_header_len(true);
        let mtu = self.settings.mtu;
        let tcp = self.settings.transports[usize::from(transport)].tcp();
        u64::from(tcp.map_or(mtu - header, |config| config.mss))
    }

    /// Bytes on the wire of a segment of this flow's transport.
    fn wire_size_of_segment(&self, spec: &FlowSpec, segment: &Segment) -> u32 {
        let transport = &self.settings.transports[usize::from(spec.transport)];
        let has_timestamps = transport.tcp().is_none_or(|config| config.timestamps);
        let ip = IPV4_HEADER_BYTES + segment.tcp_header_len(has_timestamps) + segment.len;
        self.settings.overhead.frame_size_of_ip_packet(ip, transport.priority) + self.settings.overhead.gap
    }

    /// SYN and SYN-ACK, unless the connection is open already; data go with the ACK that completes it.
    fn ideal_handshake_time(&self, spec: &FlowSpec, there: &IdealPath, back: &IdealPath) -> Span {
        let Some(config) = self.settings.transports[usize::from(spec.transport)].tcp() else {
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
        let size = self.wire_size_of_segment(spec, &syn);
        self.one_way_time_of_train(there, &[(1, size)])
            .saturating_add(self.one_way_time_of_train(back, &[(1, size)]))
    }

    /// A READ: a request, and the response. A WRITE: the data, and the acknowledgement of the last packet.
    fn ideal_queue_pair_operation_time(
        &self,
        spec: &FlowSpec,
        there: &IdealPath,
        back: &IdealPath,
    ) -> Option<Span> {
        let transport = &self.settings.transports[usize::from(spec.transport)];
        let (rdma, operation) = (transport.rdma()?, spec.operation?);
        let wire = |ip, priority| {
            self.settings.overhead.frame_size_of_ip_packet(ip, priority) + self.settings.overhead.gap
        };
        let alone = |packet: &Packet, priority| [(1, wire(rdma.pair.ip_size(packet), priority))];
        Some(match operation {
            StorageOperation::Read => {
                let train = rdma.pair.response_train(spec.reply).into_iter();
                let train: Vec<_> = train.map(|(count, ip)| (count, wire(ip, transport.priority))).collect();
                let request = alone(&Packet::read_request(0, 0), transport.priority);
                self.one_way_time_of_train(there, &request)
                    .saturating_add(self.one_way_time_of_train(back, &train))
            }
            StorageOperation::Write => {
                let priority = if rdma.pair.unordered { rdma.cnp_priority } else { transport.priority };
                let answer = alone(&Packet::new(Opcode::Acknowledge, 0), priority);
                self.ideal_transfer_time(spec, spec.size, there)
                    .saturating_add(self.one_way_time_of_train(back, &answer))
            }
        })
    }

    /// `bytes` of data, cut into full segments and a shorter last one.
    fn ideal_transfer_time(&self, spec: &FlowSpec, bytes: u64, path: &IdealPath) -> Span {
        self.one_way_time_of_train(path, &self.build_packet_train(spec, bytes))
    }

    /// (count, wire size) of the full packets and of the last one.
    fn build_packet_train(&self, spec: &FlowSpec, bytes: u64) -> Vec<(u64, u32)> {
        let transport = &self.settings.transports[usize::from(spec.transport)];
        if let Some(rdma) = transport.rdma() {
            let FrameOverhead { gap, .. } = self.settings.overhead;
            let in_flight_frames =
                |ip| self.settings.overhead.frame_size_of_ip_packet(ip, transport.priority) + gap;
            return rdma
                .pair
                .train(bytes)
                .into_iter()
                .map(|(count, ip)| (count, in_flight_frames(ip)))
                .collect();
        }
        let mss = self.full_segment_bytes(spec.transport);
        let data =
            |len: u64| self.wire_size_of_segment(spec, &Segment { len: len as u32, ..Segment::default() });
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
    fn one_way_time_of_train(&self, path: &IdealPath, train: &[(u64, u32)]) -> Span {
        let IdealPath { hops, at_once } = path;
        let wire = match at_once {
            [1, 1] if self.spread => sprayed_transfer_time(hops, train),
            [1, 1] => train_transfer_time(hops, train),
            _ => transfer_time_by_ports(hops, train, *at_once),
        };
        self.settings.tx_delay.saturating_add(wire).saturating_add(self.settings.rx_delay)
    }

    /// When the first packet of a flow to the aggregator is ready for the last link.
    fn first_arrival_time_at_last_link(&self, spec: &FlowSpec) -> Span {
        let (path, bytes) = self.path_and_bytes_to_query_aggregator(spec);
        let train = self.build_packet_train(spec, bytes);
        let whole = self.ideal_flow_completion_time(spec);
        let inbound = self.ideal_transfer_time(spec, bytes, &path);
        let IdealPath { hops, at_once } = path;
        let first = match at_once {
            [1, 1] if self.spread => earliest_train_arrival_time_at_last_link(&hops, &train),
            [1, 1] => unloaded_arrival_time_at_last_link(&hops, train[0].1),
            _ => least_unloaded_arrival_time(&hops, &train),
        };
        // If both sums saturate the difference is too small, but the total saturates anyway.
        (whole - inbound).saturating_add(self.settings.tx_delay).saturating_add(first)
    }

    fn last_link_transmission_time(&self, spec: &FlowSpec) -> Span {
        let (IdealPath { hops, .. }, bytes) = self.path_and_bytes_to_query_aggregator(spec);
        let rate = hops[hops.len() - 1].rate;
        let train = self.build_packet_train(spec, bytes);
        let each = |(count, size): &(u64, u32)| rate.serialise(*size).saturating_mul(*count);
        let whole = train.iter().map(each).fold(Span::ZERO, Span::saturating_add);
        Span(whole.0 / self.links_of_aggregator(spec, rate))
    }

    /// How many links of the first one's rate the ports of the aggregator are worth.
    fn links_of_aggregator(&self, spec: &FlowSpec, rate: LineRate) -> u64 {
        let aggregator = if spec.reply > 0 { spec.source } else { spec.destination };
        let Some(ports) = self.ports_of_hosts.get(&self.topology.host_of(aggregator)) else { return 1 };
        let towards =
            |node: &NodeId| self.topology.channel(self.topology.nodes()[*node].ports[0].reverse()).rate.0;
        ports.iter().map(towards).sum::<u64>().div_ceil(rate.rate().0).max(1)
    }

    fn host_delay_after_last_link(&self, spec: &FlowSpec) -> Span {
        let (IdealPath { hops, .. }, _) = self.path_and_bytes_to_query_aggregator(spec);
        hops[hops.len() - 1].delay.saturating_add(self.settings.rx_delay)
    }

    /// The path to the aggregator, and the bytes on it.
    fn path_and_bytes_to_query_aggregator(&self, spec: &FlowSpec) -> (IdealPath, u64) {
        if spec.reply > 0 {
            (self.ideal_path(spec.destination, spec.source), spec.reply)
        } else {
            (self.ideal_path(spec.source, spec.destination), spec.size)
        }
    }
}

/// Time of a packet train on one path, in order.
fn train_transfer_time(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    // `over[i]`: when link i has sent the train so far.
    let mut over = vec![Span::ZERO; path.len()];
    let mut last = Span::ZERO;
    for &(count, size) in train {
        let (mut arrived, mut slowest) = (Span::ZERO, Span::ZERO);
        for (hop, over) in path.iter().zip(&mut over) {
            let each = hop.rate.serialise(size);
            slowest = slowest.max(each);
            let first_over = arrived.max(*over).saturating_add(each);
            *over = first_over.saturating_add(slowest.saturating_mul(count - 1));
            last = over.saturating_add(hop.delay);
            arrived = first_over.saturating_add(hop.delay);
        }
    }
    last
}

/// When a packet that leaves at time 0 is ready for the last link.
fn unloaded_arrival_time_at_last_link(path: &[PathHop], size: u32) -> Span {
    let hop =
        |sum: Span, hop: &PathHop| sum.saturating_add(hop.rate.serialise(size)).saturating_add(hop.delay);
    path[..path.len() - 1].iter().fold(Span::ZERO, hop)
}

/// When the first packet of a train is ready for the last link, if a short packet may overtake earlier ones.
fn earliest_train_arrival_time_at_last_link(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let mut sent = Span::ZERO;
    let mut first = Span::MAX;
    for &(count, size) in train {
        first = first.min(sent.saturating_add(unloaded_arrival_time_at_last_link(path, size)));
        sent = sent.saturating_add(path[0].rate.serialise(size).saturating_mul(count));
    }
    first
}

/// Lower bound for a sprayed packet train, which shares only the first and the last link: the last packet must cross, and the last link must send
/// everything.
fn sprayed_transfer_time(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let Some(last) = path.last().filter(|_| path.len() > 1) else { return train_transfer_time(path, train) };
    let load = |(count, size): &(u64, u32)| last.rate.serialise(*size).saturating_mul(*count);
    let loads = train.iter().map(load).fold(Span::ZERO, Span::saturating_add);
    latest_arrival_of_train(path, train)
        .max(earliest_train_arrival_time_at_last_link(path, train).saturating_add(loads))
        .saturating_add(last.delay)
}

/// When the last link has sent the last packet of each size of a train at the earliest, if each waits for the first link only.
fn latest_arrival_of_train(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let Some(last) = path.last() else { return Span::ZERO };
    let (mut sent, mut latest) = (Span::ZERO, Span::ZERO);
    for &(count, size) in train {
        let each = path[0].rate.serialise(size);
        let last_leaves = sent.saturating_add(each.saturating_mul(count - 1));
        let arrives = last_leaves.saturating_add(unloaded_arrival_time_at_last_link(path, size));
        latest = latest.max(arrives.saturating_add(last.rate.serialise(size)));
        sent = last_leaves.saturating_add(each);
    }
    latest
}

/// Lower bound for packets that take the ports of their hosts in turn, in whatever order: the links of all ports together must send everything, before
/// and after the rest of the way of some packet, and each packet must cross.
fn transfer_time_by_ports(path: &[PathHop], train: &[(u64, u32)], [own, reached]: [u64; 2]) -> Span {
    let [Some(first), Some(last)] = [path.first(), path.last()] else { return Span::ZERO };
    let load = |hop: &PathHop, links: u64| {
        let load = |(count, size): &(u64, u32)| hop.rate.serialise(*size).saturating_mul(*count);
        Span(train.iter().map(load).fold(Span::ZERO, Span::saturating_add).0 / links)
    };
    let crossing =
        |size: u32| unloaded_arrival_time_at_last_link(path, size).saturating_add(last.rate.serialise(size));
    let alone = train.iter().map(|(_, size)| crossing(*size)).max().unwrap_or_default();
    let rest = train.iter().map(|(_, size)| crossing(*size) - first.rate.serialise(*size)).min();
    let after_first = load(first, own).saturating_add(rest.unwrap_or_default());
    let before_last = least_unloaded_arrival_time(path, train).saturating_add(load(last, reached));
    alone.max(after_first).max(before_last).saturating_add(last.delay)
}

/// When some packet of a train can be ready for the last link at the earliest.
fn least_unloaded_arrival_time(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    train.iter().map(|(_, size)| unloaded_arrival_time_at_last_link(path, *size)).min().unwrap_or_default()
}
