//! Ideal completion times: the flow alone in the idle network with an unlimited window, exactly.
//!
//! Packets leave back to back and are stored and forwarded at every switch. n equal packets that are all there at
//! the start reach the end of link i at the time of the first one plus (n - 1) times the slowest serialisation up
//! to i; a shorter last packet follows behind them. With a handshake, its round trip comes first. Where shortest
//! paths differ in rate or delay, each link is the best of those as far from the source: no path is faster. Where
//! packets travel in VLANs, it is the shortest route that the tables have, or where links differ the best of all routes that a
//! sender picks from, link by link: the same network, idle. Where each packet takes a path of its own, only the links of the two hosts are shared, and a packet
//! may overtake another: the time is the least that leaves these two links enough of it.
//! What the clock cannot hold (213 days) is [`Span::MAX`]: no flow of a run takes that long.

use crate::flow::FlowSpec;
use crate::settings::{Overhead, Settings, Transport};
use pauseframe_topology::routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::{Flags, Options, Segment, SynOptions};
use pauseframe_units::{LineRate, NodeId, PortId, Span, Time};
use std::sync::Arc;

const IP_HEADER: u32 = 20;

/// Computes ideal completion times in one network.
#[derive(Clone, Debug)]
pub struct IdealTime {
    topology: Arc<Topology>,
    routes: Arc<NextHops>,
    settings: Arc<Settings>,
    /// Where all links between switches are alike: one of them, or none where there is none.
    uniform: bool,
    between: Option<PortId>,
    /// Each packet takes a path of its own.
    spread: bool,
}

/// One link of a path: rate, and the time from the last bit sent to the packet being in the next queue.
#[derive(Clone, Copy)]
struct Hop {
    rate: LineRate,
    delay: Span,
}

impl Hop {
    /// The better of two in each respect.
    fn joined(self, other: Hop) -> Hop {
        let faster = self.rate.serialise(RATE_PROBE) <= other.rate.serialise(RATE_PROBE);
        Hop { rate: if faster { self.rate } else { other.rate }, delay: self.delay.min(other.delay) }
    }
}

/// What neither of two routes between the same hosts surpasses: as many links as the shorter has, each the better of the two.
fn best_of_routes(one: Vec<Hop>, other: Vec<Hop>) -> Vec<Hop> {
    let (mut best, longer) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    // The last link is that of the host, in both.
    let between = best.len().saturating_sub(1);
    best[..between].iter_mut().zip(longer).for_each(|(hop, other)| *hop = hop.joined(other));
    best
}

/// Bytes whose serialisation tells two rates apart.
const RATE_PROBE: u32 = 1 << 20;

impl IdealTime {
    /// For the network of these parts.
    pub fn new(topology: Arc<Topology>, routes: Arc<NextHops>, settings: Arc<Settings>) -> IdealTime {
        let between_switches = |port: &PortId| {
            let kind = |node| topology.nodes()[node].kind;
            kind(topology.owner(*port)) == NodeKind::Switch && kind(topology.peer(*port)) == NodeKind::Switch
        };
        let mut ports = (0..topology.port_count() as u32).map(PortId).filter(between_switches);
        let between = ports.next();
        let like_first =
            |port| between.is_some_and(|first| topology.channel(port) == topology.channel(first));
        let uniform = ports.all(like_first);
        let spread = settings.spray || settings.vlans.as_ref().is_some_and(|vlans| vlans.per_packet);
        IdealTime { topology, routes, settings, uniform, between, spread }
    }

    /// From the start of the flow to its last byte at the application (that of the reply, if there is one).
    pub fn of_flow(&self, spec: &FlowSpec) -> Span {
        let there = self.path(spec.source, spec.destination);
        let back = self.path(spec.destination, spec.source);
        let mut time = self.handshake(spec, &there, &back);
        if spec.size != u64::MAX {
            time = time.saturating_add(self.transfer(spec, spec.size, &there));
        }
        if spec.reply > 0 {
            time = time.saturating_add(spec.reply_delay);
            time = time.saturating_add(self.transfer(spec, spec.reply, &back));
        }
        time
    }

    /// A job is complete when its slowest flow is, and not before all its bytes have passed the last link to the
    /// aggregator one behind the other; `flows` are the job's, to or from the same aggregator.
    pub fn of_query(&self, flows: &[FlowSpec]) -> Span {
        let alone = flows.iter().map(|flow| self.of_flow(flow)).max().unwrap_or_default();
        let first = flows.iter().map(|flow| self.before_last_link(flow)).min().unwrap_or_default();
        let last_link = flows.iter().map(|flow| self.on_last_link(flow)).fold(first, Span::saturating_add);
        let delay = flows.first().map_or(Span::ZERO, |flow| self.after_last_link(flow));
        alone.max(last_link.saturating_add(delay))
    }

    /// The round-trip time of a full segment and its ACK between two hosts in the idle network.
    pub fn base_rtt(&self, from: NodeId, to: NodeId, transport: u16) -> Span {
        let spec = FlowSpec {
            source: from,
            destination: to,
            size: u64::from(self.settings.transports[usize::from(transport)].config.mss),
            reply: 0,
            start: Time::ZERO,
            stop: None,
            transport,
            workload: 0,
            query: None,
            kept: None,
            reply_delay: Span::ZERO,
        };
        let ack = self.wire_size(&spec, &Segment::default());
        let there = self.transfer(&spec, spec.size, &self.path(from, to));
        there.saturating_add(self.one_way(&self.path(to, from), &[(1, ack)]))
    }

    /// The number of links between two hosts.
    pub fn links(&self, from: NodeId, to: NodeId) -> u32 {
        self.path(from, to).len() as u32
    }

    /// What the links and switches between two hosts take of a packet without bytes: no stacks, no serialisation.
    pub fn wire_latency(&self, from: NodeId, to: NodeId) -> Span {
        self.path(from, to).iter().fold(Span::ZERO, |sum, hop| sum + hop.delay)
    }

    fn path(&self, from: NodeId, to: NodeId) -> Vec<Hop> {
        let hop = |port: PortId| {
            let channel = self.topology.channel(port);
            let latency =
                if self.topology.peer(port) == to { Span::ZERO } else { self.settings.switch_latency };
            Hop { rate: LineRate::new(channel.rate), delay: channel.delay.saturating_add(latency) }
        };
        if let Some(vlans) = &self.settings.vlans {
            return if self.uniform {
                vlans.shortest_path(from, to).into_iter().map(hop).collect()
            } else {
                let routes = vlans.paths(from, to).map(|ports| ports.into_iter().map(&hop).collect());
                routes.reduce(best_of_routes).unwrap_or_default()
            };
        }
        if self.uniform { self.uniform_path(from, to, hop) } else { self.best_path(from, to, hop) }
    }

    /// Any shortest path: the links of the two hosts, and as many between switches as there have to be.
    fn uniform_path(&self, from: NodeId, to: NodeId, hop: impl Fn(PortId) -> Hop) -> Vec<Hop> {
        let links = self.routes.distance(from, to) as usize;
        let [own, last] = [from, to].map(|host| self.topology.nodes()[host].ports[0]);
        let between = self.between.map(&hop);
        let mut hops = Vec::with_capacity(links);
        hops.extend((links > 1).then(|| hop(own)));
        hops.extend((2..links).filter_map(|_| between));
        hops.extend((links > 0).then(|| hop(last.reverse())));
        hops
    }

    /// What no shortest path surpasses: at each distance from the source the highest rate and the least delay.
    fn best_path(&self, from: NodeId, to: NodeId, hop: impl Fn(PortId) -> Hop) -> Vec<Hop> {
        let mut hops = Vec::new();
        let mut nodes = vec![from];
        while nodes != [to] {
            let ports = nodes.iter().flat_map(|node| self.routes.ports(*node, to));
            let (mut best, mut next): (Option<Hop>, Vec<NodeId>) = (None, Vec::new());
            for port in ports {
                next.push(self.topology.peer(*port));
                let this = hop(*port);
                best = Some(best.map_or(this, |best| best.joined(this)));
            }
            next.sort_unstable();
            next.dedup();
            nodes = next;
            hops.extend(best);
        }
        hops
    }

    /// Bytes on the wire of a segment of this flow's transport.
    fn wire_size(&self, spec: &FlowSpec, segment: &Segment) -> u32 {
        let transport = &self.settings.transports[usize::from(spec.transport)];
        let ip = IP_HEADER + segment.header_len(transport.config.timestamps) + segment.len;
        self.settings.overhead.frame_size(ip, transport.priority) + self.settings.overhead.gap
    }

    /// SYN and SYN-ACK, unless the connection is open already; data go with the ACK that completes it.
    fn handshake(&self, spec: &FlowSpec, there: &[Hop], back: &[Hop]) -> Span {
        let Transport { config, rdma, .. } = &self.settings.transports[usize::from(spec.transport)];
        if rdma.is_some() {
            return Span::ZERO;
        }
        if !config.handshake || spec.kept.is_some_and(|kept| !kept.first) {
            return Span::ZERO;
        }
        let options = SynOptions {
            mss: config.mss as u16,
            sack: config.sack,
            timestamps: config.timestamps,
            window_scale: 0,
        };
        let syn = Segment { flags: Flags::SYN, options: Options::Syn(options), ..Segment::default() };
        let size = self.wire_size(spec, &syn);
        self.one_way(there, &[(1, size)]).saturating_add(self.one_way(back, &[(1, size)]))
    }

    /// `bytes` of data, cut into full segments and a shorter last one.
    fn transfer(&self, spec: &FlowSpec, bytes: u64, path: &[Hop]) -> Span {
        self.one_way(path, &self.train(spec, bytes))
    }

    /// (count, wire size) of the full packets and of the last one.
    fn train(&self, spec: &FlowSpec, bytes: u64) -> Vec<(u64, u32)> {
        let transport = &self.settings.transports[usize::from(spec.transport)];
        if let Some(rdma) = &transport.rdma {
            let Overhead { gap, .. } = self.settings.overhead;
            let in_flight_frames = |ip| self.settings.overhead.frame_size(ip, transport.priority) + gap;
            return rdma
                .pair
                .train(bytes)
                .into_iter()
                .map(|(count, ip)| (count, in_flight_frames(ip)))
                .collect();
        }
        let mss = u64::from(transport.config.mss);
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

    /// From the first socket to the last: a train of at most two sizes, all of it there at the start.
    fn one_way(&self, path: &[Hop], train: &[(u64, u32)]) -> Span {
        let wire = if self.spread { spread_out(path, train) } else { train_transfer_time(path, train) };
        self.settings.tx_delay.saturating_add(wire).saturating_add(self.settings.rx_delay)
    }

    /// When the first packet of a flow's data for the aggregator is ready for the last link of its path.
    fn before_last_link(&self, spec: &FlowSpec) -> Span {
        let (path, bytes) = self.inbound(spec);
        let train = self.train(spec, bytes);
        let whole = self.of_flow(spec);
        let inbound = self.transfer(spec, bytes, &path);
        let first = if self.spread { earliest(&path, &train) } else { at_last_link(&path, train[0].1) };
        // Of two sums that do not fit the difference is too small; then the whole is the ideal anyway.
        (whole - inbound).saturating_add(self.settings.tx_delay).saturating_add(first)
    }

    fn on_last_link(&self, spec: &FlowSpec) -> Span {
        let (path, bytes) = self.inbound(spec);
        let rate = path[path.len() - 1].rate;
        let train = self.train(spec, bytes);
        let each = |(count, size): &(u64, u32)| rate.serialise(*size).saturating_mul(*count);
        train.iter().map(each).fold(Span::ZERO, Span::saturating_add)
    }

    fn after_last_link(&self, spec: &FlowSpec) -> Span {
        let (path, _) = self.inbound(spec);
        path[path.len() - 1].delay.saturating_add(self.settings.rx_delay)
    }

    /// The path to the aggregator, and what comes by it.
    fn inbound(&self, spec: &FlowSpec) -> (Vec<Hop>, u64) {
        if spec.reply > 0 {
            (self.path(spec.destination, spec.source), spec.reply)
        } else {
            (self.path(spec.source, spec.destination), spec.size)
        }
    }
}

/// A train on one path, each packet behind the one before it.
fn train_transfer_time(path: &[Hop], train: &[(u64, u32)]) -> Span {
    // `over[i]`: when link i has sent all of the train so far.
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

/// When a packet that leaves at once is ready for the last link.
fn at_last_link(path: &[Hop], size: u32) -> Span {
    let hop = |sum: Span, hop: &Hop| sum.saturating_add(hop.rate.serialise(size)).saturating_add(hop.delay);
    path[..path.len() - 1].iter().fold(Span::ZERO, hop)
}

/// When the first packet of a train is ready for the last link, if a short one may overtake those that left before it.
fn earliest(path: &[Hop], train: &[(u64, u32)]) -> Span {
    let mut sent = Span::ZERO;
    let mut first = Span::MAX;
    for &(count, size) in train {
        first = first.min(sent.saturating_add(at_last_link(path, size)));
        sent = sent.saturating_add(path[0].rate.serialise(size).saturating_mul(count));
    }
    first
}

/// A train whose packets share the first and the last link alone: when the last to leave the first link can be there, and
/// not before the last link has sent all.
fn spread_out(path: &[Hop], train: &[(u64, u32)]) -> Span {
    let Some(last) = path.last().filter(|_| path.len() > 1) else { return train_transfer_time(path, train) };
    let (mut sent, mut latest, mut load) = (Span::ZERO, Span::ZERO, Span::ZERO);
    for &(count, size) in train {
        let (each, on_last) = (path[0].rate.serialise(size), last.rate.serialise(size));
        let last_leaves = sent.saturating_add(each.saturating_mul(count - 1));
        latest = latest.max(last_leaves.saturating_add(at_last_link(path, size)).saturating_add(on_last));
        sent = last_leaves.saturating_add(each);
        load = load.saturating_add(on_last.saturating_mul(count));
    }
    latest.max(earliest(path, train).saturating_add(load)).saturating_add(last.delay)
}
