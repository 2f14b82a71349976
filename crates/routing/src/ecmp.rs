//! All shortest paths, and the selection of one path by a hash of the flow (equal-cost multi-path, RFC 2992).
//!
//! The distance is the number of links; rates and delays do not count, and parallel links form different
//! paths. The tables have one row per edge switch (switch with hosts), not per host: 1024 hosts at 128 edge
//! switches need 128 rows. Not implemented: weighted ECMP, resilient hashing.

use super::{RoutingError, bound_rows};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{LinkId, NodeId, PortId};

/// For every node and every destination host, the ports on which a shortest path begins.
#[derive(Clone, Debug)]
pub struct NextHops {
    graph: SwitchGraph,
    /// For each host, the port from its switch to the host.
    downlink: Vec<PortId>,
    /// The ports of switch s towards edge switch e are `ports[first[row]..first[row + 1]]` with row = e x
    /// switches + s.
    first: Vec<u32>,
    ports: Vec<PortId>,
    distance: Vec<u32>,
}

impl NextHops {
    /// Computes the next hops over all links.
    ///
    /// # Errors
    /// If a pair of hosts has no path, a host has not exactly one link, or the tables do not fit.
    pub fn shortest(topology: &Topology) -> Result<NextHops, RoutingError> {
        NextHops::shortest_without(topology, &[])
    }

    /// Computes the next hops that avoid the links in `failed`.
    ///
    /// # Errors
    /// The errors of [`NextHops::shortest`].
    pub fn shortest_without(topology: &Topology, failed: &[LinkId]) -> Result<NextHops, RoutingError> {
        let graph = SwitchGraph::without(topology, failed)?;
        bound_rows(&[graph.attachments().len(), graph.len()])?;
        let mut hops = NextHops {
            downlink: downlinks(&graph, topology),
            first: vec![0],
            ports: Vec::new(),
            distance: Vec::with_capacity(graph.attachments().len() * graph.len()),
            graph,
        };
        hops.fill(topology)?;
        Ok(hops)
    }

    /// Computes the next hops that avoid the links in `failed`, none of which is a link of a host. Where no
    /// path is left, the next hops of `intact` remain, which lead to a failed link. `intact` is
    /// [`NextHops::shortest`] of the same topology.
    ///
    /// # Panics
    /// If a link of a host is in `failed`, or `intact` is of another topology.
    pub fn shortest_despite(topology: &Topology, failed: &[LinkId], intact: &NextHops) -> NextHops {
        let graph = SwitchGraph::without(topology, failed).expect("no link of a host has failed");
        assert!(graph.len() == intact.graph.len(), "the intact routes are of another topology");
        let mut hops = NextHops {
            downlink: intact.downlink.clone(),
            first: vec![0],
            ports: Vec::new(),
            distance: Vec::with_capacity(intact.distance.len()),
            graph,
        };
        let mut distance = vec![0; hops.graph.len()];
        let mut queue = Vec::new();
        for (row, to) in hops.graph.attachments().iter().enumerate() {
            hops.graph.distances(*to, &mut distance, &mut queue);
            for at in 0..hops.graph.len() as u32 {
                let here = distance[at as usize];
                if here == u32::MAX {
                    hops.ports.extend(intact.fabric_ports(at, row as u32));
                    let known = intact.distance[row * intact.graph.len() + at as usize];
                    hops.distance.push(known);
                } else {
                    let arcs = hops.graph.arcs(at).iter();
                    hops.ports
                        .extend(arcs.filter(|arc| distance[arc.to as usize] < here).map(|arc| arc.port));
                    hops.distance.push(here);
                }
                hops.first.push(hops.ports.len() as u32);
            }
        }
        hops
    }

    fn fill(&mut self, topology: &Topology) -> Result<(), RoutingError> {
        let mut distance = vec![0; self.graph.len()];
        let mut queue = Vec::new();
        for (done, to) in self.graph.attachments().iter().enumerate() {
            // The paths found up to now allow an estimate of the table size.
            if done % 64 == 1 {
                bound_rows(&[self.ports.len() / done, self.graph.attachments().len()])?;
            }
            self.graph.distances(*to, &mut distance, &mut queue);
            if let Some(from) = self.graph.attachments().iter().find(|s| distance[**s as usize] == u32::MAX) {
                let host = |switch: u32| topology.nodes()[self.graph.hosts(switch)[0]].name.clone();
                return Err(RoutingError::Unreachable { from: host(*from), to: host(*to) });
            }
            for at in 0..self.graph.len() as u32 {
                let here = distance[at as usize];
                let closer = self.graph.arcs(at).iter().filter(|arc| distance[arc.to as usize] < here);
                self.ports.extend(closer.map(|arc| arc.port));
                self.first.push(self.ports.len() as u32);
            }
            self.distance.extend_from_slice(&distance);
        }
        Ok(())
    }

    /// The graph of the paths.
    pub fn graph(&self) -> &SwitchGraph {
        &self.graph
    }

    /// The ports of node `at` on which a shortest path to the host `to` begins, ascending. At the switch of
    /// `to` this is the port to the host; at another host the port of that host; at `to` itself the list
    /// is empty.
    ///
    /// # Panics
    /// If `to` is not a host.
    #[inline]
    pub fn ports(&self, at: NodeId, to: NodeId) -> &[PortId] {
        let attachment = self.graph.attachment(to).expect("next hops lead to hosts only");
        if at == to {
            return &[];
        }
        if self.graph.attachment(at).is_some() {
            return std::slice::from_ref(self.graph.uplink_ref(at));
        }
        if self.graph.node(attachment) == at {
            return std::slice::from_ref(&self.downlink[to.0 as usize]);
        }
        match (self.graph.number(at), self.graph.attachment_row(attachment)) {
            (Some(at), Some(row)) => self.fabric_ports(at, row),
            _ => &[],
        }
    }

    /// The ports of switch `at` on which a shortest path to edge switch `row` begins; `at` is a dense number.
    #[inline]
    pub(crate) fn fabric_ports(&self, at: u32, row: u32) -> &[PortId] {
        let row = row as usize * self.graph.len() + at as usize;
        &self.ports[self.first[row] as usize..self.first[row + 1] as usize]
    }

    /// Number of links on a shortest path between two hosts; 0 from a host to itself.
    ///
    /// # Panics
    /// If `from` or `to` is not a host.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let [near, far] =
            [from, to].map(|host| self.graph.attachment(host).expect("distances are between hosts"));
        if from == to {
            return 0;
        }
        if self.graph.node(far) == from {
            return 1;
        }
        let row = self.graph.attachment_row(far).map_or(0, |row| row as usize);
        self.distance[row * self.graph.len() + near as usize] + 2
    }

    /// Writes the egress ports of the path that a flow takes from host `from` to host `to` into `out`: the
    /// host's own port, then one port of each switch, selected by [`ecmp_index`]; the path is empty if both
    /// hosts are the same.
    ///
    /// # Panics
    /// If `from` or `to` is not a host.
    pub fn ecmp_path(
        &self,
        topology: &Topology,
        from: NodeId,
        to: NodeId,
        flow_hash: u64,
        salt: impl Fn(NodeId) -> u64,
        out: &mut Vec<PortId>,
    ) {
        out.clear();
        let mut at = from;
        while at != to {
            let among = self.ports(at, to);
            let port =
                if among.len() == 1 { among[0] } else { among[ecmp_index(flow_hash, salt(at), among.len())] };
            out.push(port);
            at = topology.peer(port);
        }
    }
}

fn downlinks(graph: &SwitchGraph, topology: &Topology) -> Vec<PortId> {
    let downlink = |node| match graph.uplink(node) {
        PortId::NONE => PortId::NONE,
        port => port.reverse(),
    };
    topology.nodes().ids().map(downlink).collect()
}

/// Selects one of `count` equal next hops for a flow at a switch with this salt. A 64-bit mix of hash and
/// salt is reduced by a multiplication instead of a remainder, so that all next hops are equally likely
/// (Lemire 2019).
///
/// # Panics
/// If `count` is zero.
#[inline]
pub fn ecmp_index(flow_hash: u64, salt: u64, count: usize) -> usize {
    assert!(count > 0, "a choice among no next hops");
    let hash = mix(flow_hash.wrapping_add(mix(salt)));
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014), after one step of its counter.
#[inline]
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
