//! All shortest paths, and the selection of one path by a hash of the flow (equal-cost multi-path, RFC 2992).
//!
//! The distance is the number of links; rates and delays do not count, and parallel links form different
//! paths. The tables have one row per edge switch (switch with hosts), not per host: 1024 hosts at 128 edge
//! switches need 128 rows. Weights of next hops: [`super::capacity`].

use super::capacity::KnownShares;
use super::{RoutingError, bound_rows, unreachable};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{LinkId, NodeId, PortId};
use std::collections::BTreeMap;

/// By switch and its equal next hops: the number of flows that take each.
pub type FlowsByNextHop = BTreeMap<(NodeId, Vec<PortId>), Vec<u32>>;

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
    /// What next hops can carry together, as far as it was asked for.
    pub(super) shares: KnownShares,
    /// By row, as `first`: no path is left, and the next hops are those of before a failure.
    cut_off: Vec<bool>,
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
        NextHops::over(graph, topology, Otherwise::Nothing)
    }

    /// Computes the next hops that avoid the links in `failed`, none of which is a link of a host. Where no
    /// path is left, the next hops of `intact` remain, which lead to a failed link. `intact` is
    /// [`NextHops::shortest`] of the same topology.
    ///
    /// # Panics
    /// If a link of a host is in `failed`, or `intact` is of another topology.
    pub fn shortest_despite(topology: &Topology, failed: &[LinkId], intact: &NextHops) -> NextHops {
        NextHops::without_or(topology, failed, Otherwise::CutOff(intact))
    }

    /// Computes the next hops that avoid the links in `avoided`, none of which is a link of a host. Where no other
    /// path exists, those of `otherwise`, of the same topology, remain.
    ///
    /// # Panics
    /// If a link of a host is in `avoided`, or `otherwise` is of another topology.
    pub fn shortest_avoiding(topology: &Topology, avoided: &[LinkId], otherwise: &NextHops) -> NextHops {
        NextHops::without_or(topology, avoided, Otherwise::Paths(otherwise))
    }

    fn without_or(topology: &Topology, links: &[LinkId], otherwise: Otherwise<'_>) -> NextHops {
        let graph = SwitchGraph::without(topology, links).expect("no link of a host is left out");
        if let Some(other) = otherwise.next_hops() {
            assert!(graph.len() == other.graph.len(), "the other routes are of another topology");
        }
        NextHops::over(graph, topology, otherwise).expect("the tables fit, and each pair has next hops")
    }

    /// Computes the next hops that use the links in `last`, peer links of MLAG, only towards switches to which no
    /// other path leads.
    ///
    /// # Errors
    /// The errors of [`NextHops::shortest`].
    pub fn shortest_with_last_resort(topology: &Topology, last: &[LinkId]) -> Result<NextHops, RoutingError> {
        let all = NextHops::shortest(topology)?;
        if last.is_empty() { Ok(all) } else { Ok(NextHops::shortest_avoiding(topology, last, &all)) }
    }

    /// The next hops over the links of `graph`; where they join no path, what `otherwise` says.
    fn over(
        graph: SwitchGraph,
        topology: &Topology,
        otherwise: Otherwise<'_>,
    ) -> Result<NextHops, RoutingError> {
        let (edges, switches, intact) = (graph.attachments(), graph.len(), otherwise.next_hops());
        let mut cut_off = Vec::with_capacity(edges.len() * switches);
        let (mut first, mut ports) = (vec![0], Vec::new());
        let mut all_distances = Vec::with_capacity(edges.len() * switches);
        let (mut distance, mut queue) = (vec![0; switches], Vec::new());
        for (row, to) in edges.iter().enumerate() {
            // The paths found up to now allow an estimate of the table size.
            if row % 64 == 1 && intact.is_none() {
                bound_rows(&[ports.len() / row, edges.len()])?;
            }
            graph.distances(*to, &mut distance, &mut queue);
            let apart = edges.iter().position(|from| distance[*from as usize] == u32::MAX);
            // Ports of one host may lie in planes without a link between them.
            if let Some(from) = apart.filter(|_| intact.is_none() && !topology.has_port_nodes()) {
                return Err(unreachable(topology, &graph, from as u32, row as u32));
            }
            for at in 0..switches as u32 {
                let here = distance[at as usize];
                cut_off.push(here == u32::MAX && otherwise.is_cut_off(row * switches + at as usize));
                if here == u32::MAX && intact.is_none() {
                    all_distances.push(here);
                    first.push(ports.len() as u32);
                    continue;
                }
                if let Some(intact) = intact.filter(|_| here == u32::MAX) {
                    ports.extend(intact.fabric_ports(at, row as u32));
                    all_distances.push(intact.distance[row * switches + at as usize]);
                } else {
                    let closer = graph.arcs(at).iter().filter(|arc| distance[arc.to as usize] < here);
                    ports.extend(closer.map(|arc| arc.port));
                    all_distances.push(here);
                }
                first.push(ports.len() as u32);
            }
        }
        let downlink = downlinks(&graph, topology);
        let shares = KnownShares::default();
        Ok(NextHops { downlink, first, ports, distance: all_distances, shares, cut_off, graph })
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

    /// Number of links on a shortest path from a host or switch to a host; 0 from a host to itself, `u32::MAX` between planes without a link.
    ///
    /// # Panics
    /// If `to` is not a host.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let far = self.graph.attachment(to).expect("distances are to hosts");
        if from == to {
            return 0;
        }
        if self.graph.node(far) == from {
            return 1;
        }
        let Some(row) = self.row(from, far) else { return u32::MAX };
        let end_links = if self.graph.attachment(from).is_some() { 2 } else { 1 };
        self.distance[row].saturating_add(end_links)
    }

    /// True if a path leads from a host or switch to a host over links that work; links of hosts count as working.
    ///
    /// # Panics
    /// If `to` is not a host.
    pub fn has_path(&self, from: NodeId, to: NodeId) -> bool {
        let far = self.graph.attachment(to).expect("paths lead to hosts");
        let is_left = |row: usize| self.distance[row] < u32::MAX && !self.cut_off[row];
        from == to || self.row(from, far).is_some_and(is_left)
    }

    /// The row of the switch at or of `from` towards the edge switch `far`.
    fn row(&self, from: NodeId, far: u32) -> Option<usize> {
        let near = self.graph.attachment(from).or_else(|| self.graph.number(from))?;
        let row = self.graph.attachment_row(far).map_or(0, |row| row as usize);
        Some(row * self.graph.len() + near as usize)
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
        self.walk(topology, from, to, |at, count| ecmp_index(flow_hash, salt(at), count), out);
    }

    /// The same; `choose` selects one of so many equal next hops at a switch.
    ///
    /// # Panics
    /// If `from` or `to` is not a host, or `choose` returns more than it may.
    pub fn walk(
        &self,
        topology: &Topology,
        from: NodeId,
        to: NodeId,
        choose: impl Fn(NodeId, usize) -> usize,
        out: &mut Vec<PortId>,
    ) {
        out.clear();
        let mut at = from;
        while at != to {
            let among = self.ports(at, to);
            let port = if among.len() == 1 { among[0] } else { among[choose(at, among.len())] };
            out.push(port);
            at = topology.peer(port);
        }
    }

    /// Counts a flow at the choices among equal next hops on its path, whose ports are in `path`.
    pub fn count_choices(&self, topology: &Topology, path: &[PortId], flows: &mut FlowsByNextHop) {
        let Some(to) = path.last().map(|last| topology.peer(*last)) else { return };
        for port in path {
            let at = topology.owner(*port);
            let among = self.ports(at, to);
            if let Some(choice) = among.iter().position(|other| other == port).filter(|_| among.len() > 1) {
                let counts = flows.entry((at, among.to_vec())).or_insert_with(|| vec![0; among.len()]);
                counts[choice] += 1;
            }
        }
    }
}

/// What replaces a path that does not exist.
#[derive(Clone, Copy, Debug)]
enum Otherwise<'a> {
    Nothing,
    /// Paths over links that work.
    Paths(&'a NextHops),
    /// Paths of before a failure, on which nothing arrives.
    CutOff(&'a NextHops),
}

impl<'a> Otherwise<'a> {
    fn next_hops(self) -> Option<&'a NextHops> {
        match self {
            Otherwise::Nothing => None,
            Otherwise::Paths(hops) | Otherwise::CutOff(hops) => Some(hops),
        }
    }

    fn is_cut_off(self, row: usize) -> bool {
        match self {
            Otherwise::Nothing => false,
            Otherwise::Paths(hops) => hops.cut_off[row],
            Otherwise::CutOff(_) => true,
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
