//! Follows the next hops towards one destination from many switches, each switch once.

use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;

/// Where a switch sends the packets for a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hop {
    /// To the destination.
    Arrives,
    /// Nowhere: the switch has no row, or the port leads to no switch.
    Lost,
    To(u32),
}

impl Hop {
    /// The hop over `port`, if this is a port to another switch.
    pub(crate) fn over(graph: &SwitchGraph, port: PortId) -> Hop {
        let head = ((port.0 as usize) < graph.port_count()).then(|| graph.head(port)).flatten();
        head.map_or(Hop::Lost, Hop::To)
    }
}

/// For every switch that packets from `starts` cross, the number of links between switches until they arrive;
/// none for packets that are lost or loop, and for switches that are not crossed.
pub(crate) fn links_to_go(
    graph: &SwitchGraph,
    starts: impl IntoIterator<Item = u32>,
    next: impl Fn(u32) -> Hop,
) -> Vec<Option<u16>> {
    let (mut links, mut seen) = (vec![None; graph.len()], vec![false; graph.len()]);
    let mut walk = Vec::new();
    for start in starts {
        let mut at = start;
        // A switch counts as lost until its walk ends elsewhere: packets in a loop never arrive.
        while !std::mem::replace(&mut seen[at as usize], true) {
            match next(at) {
                Hop::Arrives => links[at as usize] = Some(0),
                Hop::Lost => {}
                Hop::To(to) => {
                    walk.push(at);
                    at = to;
                }
            }
        }
        let mut left = links[at as usize];
        for switch in walk.drain(..).rev() {
            left = left.and_then(|links: u16| links.checked_add(1));
            links[switch as usize] = left;
        }
    }
    links
}
