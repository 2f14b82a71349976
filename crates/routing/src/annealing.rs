//! Searches for good orders of the switches: simulated annealing on the lengths of the routes that the orders
//! allow.
//!
//! Each lane has one order of the switches. The cost of the orders is the number of links on the shortest
//! route in any lane beyond the shortest path, summed over all pairs of switches with hosts. Routes follow
//! the trees that [`super::ordered_trees`] grows. A move changes the position of one switch relative to its
//! neighbours in one order. The search accepts a worse result with the probability of Metropolis et al.
//! (1953), at a temperature that falls to zero (Kirkpatrick, Gelatt, Vecchi, Science 1983).
//!
//! When no route can become shorter, the search spends the same work on balancing link loads ([`even`]).
//!
//! Trees grow level by level in bit sets ([`super::reach`]), and a move is rejected at the level where its
//! cost exceeds the limit. Work is counted in 64-bit words and converted to steps of the budget
//! ([`super::budget`]), so a seed gives the same orders on every machine.

mod even;

use super::budget::Ledger;
use super::reach::{Reach, depths, words_for};
use super::{RoutingError, bound_parameter};
use pauseframe_topology::SwitchGraph;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::str::FromStr;

/// Duration of the search, within the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effort {
    /// About a tenth of a second.
    Fast,
    /// Some seconds.
    #[default]
    Normal,
    /// Ten times as long as `Normal`, with a larger budget.
    Best,
}

impl FromStr for Effort {
    type Err = String;
    fn from_str(text: &str) -> Result<Effort, String> {
        match text {
            "fast" => Ok(Effort::Fast),
            "normal" => Ok(Effort::Normal),
            "best" => Ok(Effort::Best),
            _ => Err(format!("there is no effort {text:?}: use fast, normal or best")),
        }
    }
}

impl Effort {
    /// Maximum number of words that the search reads: proportional to the number of switches, and more per
    /// switch in graphs of fewer than 500. A move reads words in proportion to the pairs of switches, so
    /// `Normal` scales with the pairs up to 150 switches, where the search still takes seconds.
    pub(crate) fn work(self, switches: usize) -> u64 {
        let switches = switches as u64;
        let scale = switches.max((8 * switches).min(500));
        let pairs = if switches <= 150 { (switches * switches / 7).min(1500) } else { 0 };
        match self {
            Effort::Fast => 500_000 * scale,
            Effort::Normal => 5_000_000 * scale.max(pairs),
            Effort::Best => 50_000_000 * scale,
        }
    }
}

/// Maximum number of destinations in a sample; each new sample contains other destinations.
const SAMPLE: usize = 256;
/// Number of destinations in a sample if the graph is so deep that the levels of a lane would need more than
/// [`LEVELS_MAX`] bytes.
const SAMPLE_OF_DEEP: usize = 64;
const LEVELS_MAX: usize = 1 << 24;
/// Maximum number of switches for which the bit sets fit into a near cache.
const NEAR: usize = 256;
/// Number of times that the search draws a new sample.
const SAMPLES: u64 = 8;
/// Initial temperature, as a fraction of the sum of distances over all pairs of the sample.
const HEAT: f64 = 0.002;
/// Smallest difference of two keys between which a third key is placed.
const GAP_MIN: f64 = 1e-6;
/// Cost of a pair without a route, as a multiple of the number of switches.
const UNSERVED: u64 = 2;

/// The orders that the search improves: one key for each lane and switch. A higher key means a higher rank.
pub(crate) struct Search<'a> {
    graph: &'a SwitchGraph,
    keys: Vec<Vec<f64>>,
    /// Number of lanes, counted from the first, whose orders stay unchanged.
    fixed: usize,
    rng: Pcg64,
    sample: Sample,
    lanes: Vec<Reach>,
    scratch: Reach,
    cost: u64,
}

/// A sample of destinations, one bit each.
struct Sample {
    destinations: Vec<u32>,
    words: usize,
    /// For each number of links, the number of switch pairs with a larger distance.
    beyond: Vec<u64>,
    sources: Vec<u32>,
}

impl<'a> Search<'a> {
    /// Starts a search from `ranks`, one list per lane, that keeps the orders of the first `fixed` lanes.
    pub(crate) fn new(graph: &'a SwitchGraph, ranks: &[Vec<u32>], fixed: usize, seed: u64) -> Search<'a> {
        let mut rng = Pcg64::seed_from_u64(seed ^ 0x616e_6e65);
        let sample = Sample::draw(graph, &mut rng);
        let keys = ranks.iter().map(|rank| keys_of(rank)).collect();
        let lanes = vec![Reach::default(); ranks.len()];
        let mut search =
            Search { graph, keys, fixed, rng, sample, lanes, scratch: Reach::default(), cost: 0 };
        search.look_again();
        search
    }

    /// The cost of the orders, summed over all pairs of the sample.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Mean detour as a fraction of the mean distance; a pair without a route counts with the length of the
    /// longest route.
    pub(crate) fn stretch(&self) -> f64 {
        let detours = self.cost - self.missing() * self.penalty();
        detours as f64 / self.sample.distance().max(1) as f64
    }

    /// Fraction of the pairs that have no route in any lane.
    pub(crate) fn unserved(&self) -> f64 {
        self.missing() as f64 / (self.sample.sources.len() * self.sample.destinations.len()).max(1) as f64
    }

    fn missing(&self) -> u64 {
        let deepest = self.lanes.iter().map(Reach::levels).max().unwrap_or(1) - 1;
        self.sample.missing(self.graph, &self.lanes[0], self.lanes[1..].iter(), deepest)
    }

    /// Cost of a pair without a route.
    fn penalty(&self) -> u64 {
        UNSERVED * self.graph.len() as u64
    }

    /// Returns the rank of every switch in every lane.
    pub(crate) fn ranks(&self) -> Vec<Vec<u32>> {
        self.keys.iter().map(|keys| ranks_of(keys)).collect()
    }

    /// Words read per step of the budget, as a fraction.
    fn words_in_steps(&self) -> (u64, u64) {
        if self.graph.len() > NEAR { (2, 3) } else { (2, 1) }
    }

    fn steps(&self, words: u64) -> u64 {
        let (so_many, steps) = self.words_in_steps();
        words.saturating_mul(steps) / so_many
    }

    fn words(&self, steps: u64) -> u64 {
        let (words, so_many) = self.words_in_steps();
        (steps / so_many).saturating_mul(words)
    }

    /// Number of steps that one evaluation of all lanes takes.
    pub(crate) fn steps_of_a_look(&self) -> u64 {
        let levels: usize = self.lanes.iter().map(Reach::levels).sum();
        let links = self.graph.edges().len() * 2;
        let measured = self.sample.destinations.len() * (links + self.graph.len());
        self.steps((levels * links * (self.sample.words + 2) + measured) as u64)
    }

    /// Improves the orders until the cost is zero, the work is done or the budget reaches `end`.
    ///
    /// # Errors
    /// [`RoutingError::Stopped`].
    pub(crate) fn improve(
        &mut self,
        effort: Effort,
        ledger: &mut Ledger,
        end: u64,
    ) -> Result<(), RoutingError> {
        bound_parameter("lanes", self.keys.len(), 1..=8, "it must be 1 to 8")?;
        if self.fixed == self.keys.len() || self.graph.len() < 2 {
            return Ok(());
        }
        let work = effort.work(self.graph.len()).min(self.words(ledger.left(end)));
        let heat = HEAT * self.sample.distance() as f64;
        let (mut done, mut samples) = (0_u64, 0);
        let mut best = (self.cost, self.keys.clone());
        while done < work && best.0 > 0 && ledger.goes_on(end) {
            ledger.step("improving orders", done, work)?;
            if !self.sample.is_whole(self.graph) && done * SAMPLES >= work * (samples + 1) {
                samples += 1;
                self.sample = Sample::draw(self.graph, &mut self.rng);
                self.look_again();
                ledger.spend(self.steps_of_a_look());
                best = (self.cost, self.keys.clone());
            }
            let cold = 1.0 - done as f64 / work as f64;
            let words = self.step(heat * cold * cold);
            done += words;
            ledger.spend(self.steps(words));
            if self.cost < best.0 {
                best = (self.cost, self.keys.clone());
                ledger.best(best.0 as f64 / self.sample.distance().max(1) as f64);
            }
        }
        self.keys = best.1;
        self.look_again();
        ledger.spend(self.steps_of_a_look());
        self.even_out(effort, ledger, end)
    }

    /// Tries one move; returns the number of words read.
    fn step(&mut self, temperature: f64) -> u64 {
        let (lane, switch, old) = self.shift();
        // Draw the allowance before growing trees, so that growth stops as soon as the cost exceeds it.
        let limit = self.cost as f64 + self.allowance(temperature);
        let mut scratch = std::mem::take(&mut self.scratch);
        let (cost, work) = self.grow(lane, &mut scratch, limit);
        match cost {
            Some(cost) => {
                self.cost = cost;
                std::mem::swap(&mut self.lanes[lane], &mut scratch);
            }
            None => self.keys[lane][switch as usize] = old,
        }
        self.scratch = scratch;
        work + 64
    }

    /// Moves a random switch in the order of a random lane; returns lane, switch and previous key.
    fn shift(&mut self) -> (usize, u32, f64) {
        let lane = self.rng.random_range(self.fixed..self.keys.len());
        let switch = self.rng.random_range(0..self.graph.len() as u32);
        let key = self.propose(lane, switch);
        (lane, switch, std::mem::replace(&mut self.keys[lane][switch as usize], key))
    }

    /// Largest increase of the cost that a move may cause (Metropolis).
    fn allowance(&mut self, temperature: f64) -> f64 {
        let draw: f64 = self.rng.random_range(f64::MIN_POSITIVE..1.0);
        -temperature * draw.ln()
    }

    /// Proposes a key for `switch` that changes its position among its neighbours.
    fn propose(&mut self, lane: usize, switch: u32) -> f64 {
        let (low, high) = loop {
            let gap = self.gap(lane, switch);
            // Two switches with equal keys would allow turns in both directions.
            if gap.1 - gap.0 > GAP_MIN {
                break gap;
            }
            self.keys[lane] = keys_of(&ranks_of(&self.keys[lane]));
        };
        low + (high - low) * self.rng.random_range(0.01..0.99)
    }

    /// Returns the bounds of a random gap between the keys of the neighbours, other than the gap that
    /// contains `switch`.
    fn gap(&mut self, lane: usize, switch: u32) -> (f64, f64) {
        let keys = &self.keys[lane];
        let own = keys[switch as usize];
        let mut around: Vec<f64> = self.graph.arcs(switch).iter().map(|arc| keys[arc.to as usize]).collect();
        around.sort_unstable_by(f64::total_cmp);
        around.dedup();
        let (Some(lowest), Some(highest)) = (around.first(), around.last()) else { return (own, own + 1.0) };
        let (ends, below) = ((lowest - 1.0, highest + 1.0), around.partition_point(|key| *key < own));
        let gap = self.rng.random_range(0..around.len());
        let gap = if gap >= below { gap + 1 } else { gap };
        let low = gap.checked_sub(1).map_or(ends.0, |below| around[below]);
        (low, around.get(gap).copied().unwrap_or(ends.1))
    }

    /// Evaluates all lanes and the cost from scratch.
    fn look_again(&mut self) {
        for lane in 0..self.keys.len() {
            let mut reach = std::mem::take(&mut self.lanes[lane]);
            reach.start(self.graph, &self.sample.destinations, self.sample.words);
            while reach.advance(self.graph, &self.keys[lane], self.sample.words) {}
            self.lanes[lane] = reach;
        }
        let mut first = std::mem::take(&mut self.lanes[0]);
        let (cost, _) = self.grow(0, &mut first, f64::INFINITY);
        self.lanes[0] = first;
        self.cost = cost.unwrap_or(u64::MAX);
    }

    /// Grows the trees of one lane into `reach`, with the other lanes unchanged; returns the total cost,
    /// unless it exceeds `limit`, and the number of words read.
    fn grow(&self, lane: usize, reach: &mut Reach, limit: f64) -> (Option<u64>, u64) {
        let Search { graph, sample, .. } = self;
        // A visit of a link costs as much time as reading two words.
        let words_a_level = (graph.edges().len() * 2 * (sample.words + 2)) as u64;
        reach.start(graph, &sample.destinations, sample.words);
        let others =
            || self.lanes.iter().enumerate().filter(move |(other, _)| *other != lane).map(|(_, reach)| reach);
        let deepest = others().map(Reach::levels).max().unwrap_or(1);
        let (mut cost, mut level, mut growing) = (0, 0, true);
        loop {
            let missing = sample.missing(graph, reach, others(), level);
            cost += missing - sample.beyond.get(level).copied().unwrap_or(0).min(missing);
            let done = !growing && level + 1 >= deepest;
            if done {
                cost += missing * self.penalty();
            }
            let work = words_a_level * (level as u64 + 1);
            if cost as f64 > limit {
                return (None, work);
            }
            if done || missing == 0 {
                // Levels that this lane reaches later matter when another lane changes.
                while growing && self.lanes.len() > 1 {
                    growing = reach.advance(graph, &self.keys[lane], sample.words);
                }
                return (Some(cost), work);
            }
            growing = growing && reach.advance(graph, &self.keys[lane], sample.words);
            level += 1;
        }
    }
}

impl Sample {
    fn draw(graph: &SwitchGraph, rng: &mut Pcg64) -> Sample {
        let mut destinations = graph.attachments().to_vec();
        if destinations.len() > SAMPLE {
            let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
            graph.distances(destinations[0], &mut distance, &mut queue);
            let levels = queue.last().map_or(0, |last| distance[*last as usize] as usize);
            let bytes = levels * graph.len() * words_for(SAMPLE) * 8;
            let most = if bytes > LEVELS_MAX { SAMPLE_OF_DEEP } else { SAMPLE };
            destinations.shuffle(rng);
            destinations.truncate(most);
        }
        let words = words_for(destinations.len());
        let mut sample =
            Sample { destinations, words, beyond: Vec::new(), sources: graph.attachments().to_vec() };
        sample.measure(graph);
        sample
    }

    fn is_whole(&self, graph: &SwitchGraph) -> bool {
        self.destinations.len() == graph.attachments().len()
    }

    /// For each number of links 0, 1, 2 ..., counts the pairs with a larger distance.
    fn measure(&mut self, graph: &SwitchGraph) {
        let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
        for to in &self.destinations {
            graph.distances(*to, &mut distance, &mut queue);
            for from in &self.sources {
                let links = distance[*from as usize];
                let links = if links == u32::MAX { 0 } else { links as usize };
                if self.beyond.len() < links {
                    self.beyond.resize(links, 0);
                }
                self.beyond[..links].iter_mut().for_each(|pairs| *pairs += 1);
            }
        }
    }

    /// Sum of the distances of all pairs.
    fn distance(&self) -> u64 {
        self.beyond.iter().sum()
    }

    /// Number of pairs that no lane has reached at this level.
    fn missing<'r>(
        &self,
        graph: &SwitchGraph,
        own: &Reach,
        others: impl Iterator<Item = &'r Reach> + Clone,
        level: usize,
    ) -> u64 {
        let size = graph.len() * self.words;
        let at = |reach: &'r Reach| reach.by_level(level, size);
        let mine = own.by_level(level, size);
        let others: Vec<&[u64]> = others.map(at).collect();
        let mut reached = 0;
        for source in &self.sources {
            let start = *source as usize * self.words;
            for word in start..start + self.words {
                let all = others.iter().fold(mine[word], |all, other| all | other[word]);
                reached += u64::from(all.count_ones());
            }
        }
        (self.sources.len() * self.destinations.len()) as u64 - reached
    }
}

/// Number of budget steps per directed link, and per pair, of a search for distances.
const STEPS_A_DISTANCE: u64 = 3;

/// Evaluates orders, one per lane, over all pairs: returns the number of pairs without a route, and the
/// number of links of all routes beyond the shortest paths.
pub(crate) fn detours(graph: &SwitchGraph, ranks: &[Vec<u32>], ledger: &mut Ledger) -> (u64, u64) {
    let (rows, switches) = (graph.attachments().len(), graph.len());
    let mut shortest = vec![u16::MAX; rows * switches];
    ledger.spend((rows * (graph.port_count() + rows)) as u64 * STEPS_A_DISTANCE);
    for rank in ranks {
        let steps = depths(graph, rank, |row, switch, depth| {
            let least = &mut shortest[row * switches + switch];
            *least = depth.min(*least);
        });
        ledger.spend(steps);
    }
    let (mut distance, mut queue) = (vec![0; switches], Vec::new());
    let (mut unserved, mut detours) = (0, 0);
    for (to, row) in graph.attachments().iter().zip(shortest.chunks(switches)) {
        graph.distances(*to, &mut distance, &mut queue);
        for from in graph.attachments() {
            match row[*from as usize] {
                u16::MAX => unserved += 1,
                depth => detours += u64::from(depth) - u64::from(distance[*from as usize]),
            }
        }
    }
    (unserved, detours)
}

fn keys_of(rank: &[u32]) -> Vec<f64> {
    rank.iter().map(|rank| f64::from(*rank)).collect()
}

fn ranks_of(keys: &[f64]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]).then(a.cmp(b)));
    let mut rank = vec![0; keys.len()];
    for (place, switch) in order.into_iter().enumerate() {
        rank[switch] = place as u32;
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered_trees::{Growth, TreeGrower};
    use crate::turn_order::TurnOrder;
    use crate::watch::Unwatched;
    use pauseframe_topology::generate::{Jellyfish, jellyfish};
    use pauseframe_topology::{Channel, Topology};
    use pauseframe_units::{BitRate, PortId, Span};

    fn random_graph(switches: u32, network_ports: u32) -> Topology {
        let link = Channel { rate: BitRate::gbps(1), delay: Span::ZERO };
        jellyfish(Jellyfish { switches, network_ports, hosts_per_switch: 1 }, 3, link, link).unwrap()
    }

    /// Computes the cost independently: grows every tree and follows each route.
    fn walked(graph: &SwitchGraph, ranks: &[Vec<u32>]) -> u64 {
        let (mut cost, mut distance) = (0, vec![0; graph.len()]);
        for to in graph.attachments() {
            graph.distances(*to, &mut distance, &mut Vec::new());
            let trees: Vec<Vec<PortId>> = ranks
                .iter()
                .map(|rank| {
                    let mut tree = vec![PortId::NONE; graph.len()];
                    let order = TurnOrder::of_ranks(graph, rank);
                    TreeGrower::new(graph).grow(&order, *to, Growth::Nearest, |_| true, 1, &mut tree);
                    tree
                })
                .collect();
            for from in graph.attachments() {
                let length = |tree: &Vec<PortId>| {
                    let (mut at, mut links) = (*from, 0);
                    while at != *to {
                        at = graph.head(*tree.get(at as usize).filter(|port| **port != PortId::NONE)?)?;
                        links += 1;
                    }
                    Some(links)
                };
                let shortest = trees.iter().filter_map(length).min();
                cost += u64::from(shortest.map_or(1_000_000, |links| links - distance[*from as usize]));
            }
        }
        cost
    }

    #[test]
    fn the_cost_is_that_of_the_trees_that_are_grown() {
        for (switches, network_ports) in [(12, 3), (30, 4), (70, 3)] {
            let topology = random_graph(switches, network_ports);
            let graph = SwitchGraph::new(&topology).unwrap();
            let rank: Vec<u32> = (0..switches).collect();
            let ranks = vec![rank.iter().rev().copied().collect(), rank];
            let mut search = Search::new(&graph, &ranks, 0, 1);
            let before = search.cost();
            search.improve(Effort::Fast, &mut Ledger::unlimited(&mut Unwatched), u64::MAX).unwrap();
            assert!(search.cost() < before);
            assert_eq!(search.cost(), walked(&graph, &search.ranks()));
        }
    }
}
