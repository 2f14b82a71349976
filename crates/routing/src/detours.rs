//! Dependencies of packets that leave shortest paths: through the tunnel from the standby ToR of a mux cable to the
//! active one, and over the peer link of a switch that has lost its link to a host (MLAG).
//!
//! Both begin at an edge switch that packets have reached by a shortest path towards it. A tunnel follows shortest
//! paths to the other switch, in the lane of its outer header. A peer link leads to the other switch, and nothing
//! follows: hosts consume what arrives.

use super::cdg::{BufferChannel, Dependencies, DependencyGraph, Witness};
use super::{NextHops, RoutingError, SwitchPairs};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};

/// The lane of a packet, and that of its outer header in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneChange {
    /// Outside of tunnels.
    pub own: u8,
    /// In a tunnel; `None` if packets may be dropped there, so that nothing waits for it.
    pub outer: Option<u8>,
}

/// Switches that send packets on which they cannot deliver.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Detours {
    /// Tunnels: from the switch of the standby port of a host to that of the active one.
    pub tunnels: Vec<[NodeId; 2]>,
    /// Ports of peer links by which switches send on.
    pub peer_ports: Vec<PortId>,
}

impl DependencyGraph {
    /// The dependencies of all shortest paths in each lane, and of all detours from them.
    ///
    /// # Errors
    /// If there are too many pairs of channels to store.
    pub fn with_detours(
        topology: &Topology,
        hops: &NextHops,
        detours: &Detours,
        lanes: &[LaneChange],
    ) -> Result<DependencyGraph, RoutingError> {
        let graph = SwitchGraph::new(topology)?;
        let highest = lanes.iter().flat_map(|lane| [Some(lane.own), lane.outer]).flatten().max().unwrap_or(0);
        let mut dependencies = Dependencies::new(&graph, usize::from(highest) + 1)?;
        let pairs = SwitchPairs::all(hops.graph());
        for lane in lanes {
            dependencies.add_shortest_paths(hops, &pairs, lane.own);
            for [from, to] in &detours.tunnels {
                if let (Some(outer), Some([from, to])) = (lane.outer, rows(hops, [*from, *to])) {
                    let first = hops.fabric_ports(hops.graph().attachments()[from as usize], to);
                    add_turns(&mut dependencies, hops, from, (first, |_| true), [lane.own, outer]);
                    let ends = [from, to].map(|row| first_host(hops, row));
                    dependencies.add_shortest_paths_to(hops, to, &[(from, ends)], outer);
                }
            }
            for port in &detours.peer_ports {
                if let Some([from, _]) = rows(hops, [topology.owner(*port), topology.peer(*port)]) {
                    // What comes from the peer has its host's link here: the fabric prefers the nearer switch.
                    let others = |held: PortId| !detours.peer_ports.contains(&held);
                    add_turns(&mut dependencies, hops, from, (&[*port], others), [lane.own; 2]);
                }
            }
        }
        Ok(dependencies.finish())
    }
}

/// The numbers of two edge switches.
fn rows(hops: &NextHops, switches: [NodeId; 2]) -> Option<[u32; 2]> {
    let row = |node| hops.graph().number(node).and_then(|switch| hops.graph().attachment_row(switch));
    Some([row(switches[0])?, row(switches[1])?])
}

fn first_host(hops: &NextHops, row: u32) -> NodeId {
    hops.graph().hosts(hops.graph().attachments()[row as usize])[0]
}

/// What arrives at edge switch `at` for its hosts, by the links that `counts` names, waits for the ports `wanted`.
fn add_turns(
    dependencies: &mut Dependencies<'_>,
    hops: &NextHops,
    at: u32,
    (wanted, counts): (&[PortId], impl Fn(PortId) -> bool),
    [own, outer]: [u8; 2],
) {
    let (graph, rows) = (hops.graph(), hops.graph().attachments());
    let switch = rows[at as usize];
    let mut seen = vec![false; graph.len()];
    for (source, start) in rows.iter().enumerate().filter(|(source, _)| *source != at as usize) {
        let mut waiting = vec![*start];
        while let Some(here) = waiting.pop() {
            if std::mem::replace(&mut seen[here as usize], true) {
                continue;
            }
            for held in hops.fabric_ports(here, at) {
                let next = dependencies.head(*held);
                if next != Some(switch) {
                    waiting.extend(next);
                    continue;
                }
                for wanted in wanted.iter().filter(|_| counts(*held)) {
                    let held = BufferChannel { port: *held, lane: own };
                    let wanted = BufferChannel { port: *wanted, lane: outer };
                    let [from, to] = [source as u32, at].map(|row| first_host(hops, row));
                    let witness = || Witness { from, to, vlan: None };
                    dependencies.add(switch, held, wanted, witness);
                }
            }
        }
    }
}
