//! The turn rule of a lane: which turns the routes of the lane may take.
//!
//! Every directed link has a position in a fixed order, and a packet may turn from one link into another only
//! if the position rises. Along any route positions rise, so the dependencies of all legal routes together
//! form no cycle (Dally and Seitz 1987), whichever tables are in use and in any mixture of old and new
//! tables. Usually an order of the switches defines the positions: a route may go up in rank and then down,
//! never down and then up (up*/down*, Autonet: Schroeder et al. 1991).

use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;

/// The position of every directed link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TurnOrder {
    place: Vec<u32>,
    /// The first position of links that lead down in rank.
    down: u32,
}

impl TurnOrder {
    /// The turn rule of an order of the switches, given by ranks. A route cannot cross a link between
    /// switches of the same rank.
    pub(crate) fn of_ranks(graph: &SwitchGraph, rank: &[u32]) -> TurnOrder {
        let down = rank.iter().max().map_or(1, |highest| highest + 1);
        let mut place = vec![0; graph.port_count()];
        for at in 0..graph.len() as u32 {
            for arc in graph.arcs(at) {
                let [from, to] = [at, arc.to].map(|switch| rank[switch as usize]);
                // The position of an upward link is the rank of its head; for downward links, a lower head
                // means a higher position.
                place[arc.port.0 as usize] = if to > from { to } else { 2 * down - to };
            }
        }
        TurnOrder { place, down }
    }

    /// Returns the position of every directed link, by port.
    pub(crate) fn into_places(self) -> Vec<u32> {
        self.place
    }

    /// True if packets that arrived over `first` may leave over `second`.
    #[inline]
    pub(crate) fn allows(&self, first: PortId, second: PortId) -> bool {
        self.place[first.0 as usize] < self.place[second.0 as usize]
    }

    /// True if the link leads down in rank.
    #[inline]
    pub(crate) fn is_down(&self, port: PortId) -> bool {
        self.place[port.0 as usize] >= self.down
    }
}
