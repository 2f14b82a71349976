//! The rule of a lane: the turns that its routes may take.
//!
//! Every directed link has a place, and a packet may turn from one link into another only if the place rises. Places
//! rise along any route, so the dependencies of all legal routes together form no cycle (Dally and Seitz 1987), for any
//! tables and any mixture of old and new ones. An order of the switches usually defines the places: a route may go up
//! in rank and then down, never down and then up (up*/down*, Autonet: Schroeder et al. 1991).

use super::SwitchGraph;
use pauseframe_units::PortId;

/// The place of every directed link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TurnOrder {
    place: Vec<u32>,
    /// From this place on, links lead down in rank.
    down: u32,
}

impl TurnOrder {
    /// The rule of an order of the switches, by their ranks. No route crosses a link between switches of the same rank.
    pub(crate) fn of_ranks(graph: &SwitchGraph, rank: &[u32]) -> TurnOrder {
        let down = rank.iter().max().map_or(1, |highest| highest + 1);
        let mut place = vec![0; graph.port_count()];
        for at in 0..graph.len() as u32 {
            for arc in graph.arcs(at) {
                let [from, to] = [at, arc.to].map(|switch| rank[switch as usize]);
                // Up by the rank of the head; down by how low the head is.
                place[arc.port.0 as usize] = if to > from { to } else { 2 * down - to };
            }
        }
        TurnOrder { place, down }
    }

    /// The places by port.
    pub(crate) fn into_places(self) -> Vec<u32> {
        self.place
    }

    /// Whether packets from `first` may continue over `second`.
    #[inline]
    pub(crate) fn allows(&self, first: PortId, second: PortId) -> bool {
        self.place[first.0 as usize] < self.place[second.0 as usize]
    }

    /// Whether a link leads down in rank.
    #[inline]
    pub(crate) fn is_down(&self, port: PortId) -> bool {
        self.place[port.0 as usize] >= self.down
    }
}
