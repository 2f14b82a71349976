//! The longest idle round trip of a network, for what a sender knows of it before its first packet.

use super::{IdealFctCalculator, IdealPath};
use crate::flow::FlowSpec;
use pauseframe_topology::Channel;
use pauseframe_transport::Segment;
use pauseframe_units::{BitRate, NodeId, PortId, Span};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Which of the paths between two ports counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pick {
    Fastest,
    Slowest,
}

impl Pick {
    fn of<T: Ord>(self, times: impl Iterator<Item = T>) -> Option<T> {
        match self {
            Pick::Fastest => times.min(),
            Pick::Slowest => times.max(),
        }
    }
}

/// Ports of hosts that are alike: at one switch, by links of one kind. Two stand for all.
struct Alike {
    channels: [Channel; 2],
    ports: Vec<NodeId>,
}

impl IdealFctCalculator {
    /// The longest round-trip time of a full segment and its ACK between two hosts of the idle network, over all of their ports: by the slowest path
    /// that a flow can take, or by the fastest one if each packet takes another path. `None` with fewer than two hosts.
    pub fn longest_base_rtt(&self, transport: u16) -> Option<Span> {
        let groups = self.ports_alike();
        let is_plain = groups.iter().all(|group| group.channels == groups[0].channels);
        if self.uniform && is_plain {
            return self.farthest_pair(&groups).map(|(from, to)| self.base_rtt(from, to, transport));
        }
        let mss = self.full_segment_bytes(transport);
        let spec = FlowSpec { transport, ..FlowSpec::new(NodeId(0), NodeId(0), mss) };
        let train = self.packet_train(&spec, mss);
        let ack = [(1, self.wire_size(&spec, &Segment::default()))];
        let largest = train.iter().map(|(_, size)| *size).max().unwrap_or_default();
        let pairs = self.settings.transports[usize::from(transport)].rdma();
        let pick = if self.spread || pairs.is_some_and(|pairs| pairs.pair.unordered) {
            Pick::Fastest
        } else {
            Pick::Slowest
        };
        let rtt = |(from, to)| match pick {
            Pick::Fastest => Some(self.base_rtt(from, to, transport)),
            Pick::Slowest => {
                let there = self.time_of_slowest_path(from, to, &train)?;
                Some(there.saturating_add(self.time_of_slowest_path(to, from, &ack)?))
            }
        };
        let farthest = groups.iter().filter_map(|group| self.farthest_from(&groups, group, largest, pick));
        farthest.filter_map(rtt).max()
    }

    /// The number of links between the two hosts with most of them.
    pub fn longest_link_count(&self) -> Option<u32> {
        let (from, to) = self.farthest_pair(&self.ports_alike())?;
        Some(self.link_count(from, to))
    }

    fn ports_alike(&self) -> Vec<Alike> {
        let topology = &self.topology;
        let mut groups: BTreeMap<(NodeId, [(BitRate, Span); 2]), Alike> = BTreeMap::new();
        // A plan of VLANs serves the first ports.
        let is_served = |node: &NodeId| self.settings.vlans.is_none() || topology.host_of(*node) == *node;
        for node in topology.host_ports().filter(is_served) {
            let port = topology.nodes()[node].ports[0];
            let channels = [topology.channel(port), topology.channel(port.reverse())];
            let key = (topology.peer(port), channels.map(|channel| (channel.rate, channel.delay)));
            let group = groups.entry(key).or_insert_with(|| Alike { channels, ports: Vec::new() });
            let is_new = group.ports.iter().all(|other| topology.host_of(*other) != topology.host_of(node));
            if is_new && group.ports.len() < 2 {
                group.ports.push(node);
            }
        }
        groups.into_values().collect()
    }

    /// Ports of two hosts, one of each group.
    fn pair(&self, from: &Alike, to: &Alike) -> Option<(NodeId, NodeId)> {
        let mut pairs = from.ports.iter().flat_map(|from| to.ports.iter().map(|to| (*from, *to)));
        pairs.find(|(from, to)| self.topology.host_of(*from) != self.topology.host_of(*to))
    }

    fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let vlans = self.settings.vlans.as_ref();
        vlans.map_or_else(|| self.routes.distance(from, to), |vlans| vlans.link_count(from, to))
    }

    fn farthest_pair(&self, groups: &[Alike]) -> Option<(NodeId, NodeId)> {
        let pairs = groups.iter().flat_map(|a| groups.iter().filter_map(move |b| self.pair(a, b)));
        let reached = pairs.map(|(from, to)| (self.distance(from, to), (from, to)));
        let reached = reached.filter(|(distance, _)| *distance < u32::MAX);
        reached.max_by_key(|(distance, pair)| (*distance, Reverse(*pair))).map(|(_, pair)| pair)
    }

    /// The pair of ports with the longest time of a packet of so many bytes to a group.
    fn farthest_from(
        &self,
        groups: &[Alike],
        group: &Alike,
        bytes: u32,
        pick: Pick,
    ) -> Option<(NodeId, NodeId)> {
        let mut known: BTreeMap<NodeId, BTreeMap<NodeId, (Span, PortId)>> = BTreeMap::new();
        let times = groups.iter().filter_map(|other| {
            let (from, to) = self.pair(other, group)?;
            let time = match &self.settings.vlans {
                Some(vlans) => {
                    pick.of(vlans.candidate_paths(from, to).map(|path| self.time_along(&path, bytes)))
                }
                None => self.time_from(from, to, (bytes, pick), known.entry(to).or_default()),
            };
            Some((time?, Reverse((from, to))))
        });
        times.max().map(|(_, Reverse(pair))| pair)
    }

    /// The time of packets on the slowest path.
    fn time_of_slowest_path(&self, from: NodeId, to: NodeId, train: &[(u64, u32)]) -> Option<Span> {
        let largest = train.iter().map(|(_, size)| *size).max()?;
        let hops = self.hops_along(&self.slowest_path(from, to, largest)?, to);
        Some(self.one_way_time(
            &IdealPath { hops, one_path: true, is_paced: false, cut: None, turns: None },
            train,
        ))
    }

    fn slowest_path(&self, from: NodeId, to: NodeId, bytes: u32) -> Option<Vec<PortId>> {
        if let Some(vlans) = &self.settings.vlans {
            return vlans.candidate_paths(from, to).max_by_key(|path| self.time_along(path, bytes));
        }
        let mut known = BTreeMap::new();
        self.time_from(from, to, (bytes, Pick::Slowest), &mut known)?;
        let mut path = Vec::new();
        let mut node = from;
        while node != to {
            let (_, port) = known[&node];
            path.push(port);
            node = self.topology.peer(port);
        }
        Some(path)
    }

    fn time_along(&self, path: &[PortId], bytes: u32) -> Span {
        path.iter().fold(Span::ZERO, |sum, port| sum.saturating_add(self.time_of_link(*port, bytes)))
    }

    fn time_of_link(&self, port: PortId, bytes: u32) -> Span {
        let hop = self.path_hop(port, self.topology.peer(port));
        hop.crossing(bytes).saturating_add(hop.delay)
    }

    /// The time from a node; `None` if no path leads on. `known` has the times of nodes that are known, and their next hops.
    fn time_from(
        &self,
        node: NodeId,
        to: NodeId,
        (bytes, pick): (u32, Pick),
        known: &mut BTreeMap<NodeId, (Span, PortId)>,
    ) -> Option<Span> {
        if node == to {
            return Some(Span::ZERO);
        }
        if let Some((time, _)) = known.get(&node) {
            return Some(*time);
        }
        let ports: Vec<PortId> = self.routes.ports(node, to).to_vec();
        let onward = ports.into_iter().filter_map(|port| {
            let rest = self.time_from(self.topology.peer(port), to, (bytes, pick), known)?;
            Some((self.time_of_link(port, bytes).saturating_add(rest), port))
        });
        let found = pick.of(onward)?;
        known.insert(node, found);
        Some(found.0)
    }
}
