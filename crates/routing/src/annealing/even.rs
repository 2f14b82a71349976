//! Searches for orders with evenly balanced link loads among orders that cause no detour.
//!
//! On a graph with few shortest paths, such as a dragonfly, many pairs of orders give every pair of switches
//! a shortest route, but some balance the link loads better than others. Therefore the search continues among
//! such orders. The search minimises the sum of squared link loads, assuming that all pairs of hosts send the
//! same amount. The bit sets reject a move that causes a detour; the search grows trees only for the other
//! moves.

use super::{Effort, Search};
use crate::RoutingError;
use crate::budget::Ledger;
use crate::ordered_trees::{Growth, TreeGrower, Uses};
use crate::turn_order::TurnOrder;
use pauseframe_units::PortId;

/// Initial temperature, as a fraction of the sum of squared loads.
const HEAT: f64 = 0.0003;
/// Cost of a visit to a directed link while a tree grows, in words.
const WORDS_A_LINK: u64 = 16;

impl Effort {
    /// Number of moves for which loads are computed, per link between switches.
    fn weighings_a_link(self) -> u64 {
        match self {
            Effort::Fast => 20,
            Effort::Normal => 80,
            Effort::Best => 240,
        }
    }
}

impl Search<'_> {
    /// Balances link loads, if no pair has a detour and the effort allows at least half of the wanted moves.
    ///
    /// # Errors
    /// [`RoutingError::Stopped`].
    pub(super) fn even_out(
        &mut self,
        effort: Effort,
        ledger: &mut Ledger,
        end: u64,
    ) -> Result<(), RoutingError> {
        let (trees, links) = (self.graph.attachments().len() * self.keys.len(), self.graph.edges().len());
        let weighing = WORDS_A_LINK * (trees * 2 * links) as u64;
        let wanted = weighing * effort.weighings_a_link() * links as u64;
        let work = wanted.min(effort.work(self.graph.len())).min(ledger.left(end));
        if self.cost > 0 || !self.sample.is_whole(self.graph) || work < wanted / 2 {
            return Ok(());
        }
        let mut squares = self.squares();
        let (heat, mut best, mut done) = (HEAT * squares, (squares, self.keys.clone()), 0);
        while done < work && ledger.goes_on(end) {
            ledger.step("evening out loads", done, work)?;
            let cold = 1.0 - done as f64 / work as f64;
            let (lane, switch, old) = self.shift();
            let limit = squares + self.allowance(heat * cold * cold);
            let mut scratch = std::mem::take(&mut self.scratch);
            let (short, words) = self.grow(lane, &mut scratch, 0.0);
            let weighed = short.map(|_| self.squares());
            let words = words + 64 + weighed.map_or(0, |_| weighing);
            done += words;
            // Growing trees takes a full step per word; bit sets can take half a step.
            ledger.spend(words);
            match weighed.filter(|weighed| *weighed <= limit) {
                Some(weighed) => {
                    squares = weighed;
                    std::mem::swap(&mut self.lanes[lane], &mut scratch);
                }
                None => self.keys[lane][switch as usize] = old,
            }
            self.scratch = scratch;
            if squares < best.0 {
                best = (squares, self.keys.clone());
            }
        }
        self.keys = best.1;
        self.look_again();
        Ok(())
    }

    /// The sum of the squared loads of all directed links, with one VLAN per lane.
    pub(crate) fn squares(&self) -> f64 {
        self.loads().iter().map(|load| load * load).sum()
    }

    fn loads(&self) -> Vec<f64> {
        let graph = self.graph;
        let ranks = self.ranks();
        let lanes: Vec<(&[u32], u16)> = ranks.iter().map(|rank| (&rank[..], 1)).collect();
        let mut grower = TreeGrower::new(graph).counting(Uses::of(graph, &lanes));
        let mut tree = Vec::new();
        for (rank, salt) in ranks.iter().zip(1..) {
            let rule = TurnOrder::of_ranks(graph, rank);
            for to in graph.attachments() {
                tree.clear();
                tree.resize(graph.len(), PortId::NONE);
                grower.grow(&rule, *to, Growth::Nearest, |_| true, salt, &mut tree);
            }
        }
        grower.loads().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Unwatched;
    use pauseframe_topology::generate::{Dragonfly, dragonfly};
    use pauseframe_topology::{Channel, SwitchGraph};
    use pauseframe_units::{BitRate, Span};

    #[test]
    fn loads_become_more_even_and_no_route_longer() {
        let link = Channel { rate: BitRate::gbps(1), delay: Span::ZERO };
        let topology = dragonfly(Dragonfly { p: 2, a: 4, h: 2, g: 9 }, link, link).unwrap();
        let graph = SwitchGraph::new(&topology).unwrap();
        let rank: Vec<u32> = (0..36).collect();
        let ranks = [rank.iter().rev().copied().collect(), rank];
        let mut search = Search::new(&graph, &ranks, 0, 1);
        while search.cost() > 0 {
            search.step(0.0);
        }
        let before = search.squares();
        search.even_out(Effort::Normal, &mut Ledger::unlimited(&mut Unwatched), u64::MAX).unwrap();
        assert_eq!(search.cost(), 0);
        assert!(search.squares() < 0.99 * before, "{before} to {}", search.squares());
        // Each pair of hosts (two per switch) adds one to the load of every link on its shortest path.
        let (mut distance, mut links) = (vec![0; graph.len()], 0);
        for to in graph.attachments() {
            graph.distances(*to, &mut distance, &mut Vec::new());
            links += 4 * distance.iter().sum::<u32>();
        }
        assert!((search.loads().iter().sum::<f64>() - f64::from(links)).abs() < 1e-6);
    }
}
