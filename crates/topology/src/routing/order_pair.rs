//! Order pairs: shortest routes without deadlock in two lanes.
//!
//! Lanes come in pairs, an order of the switches and its reverse, each with the turn rule of
//! [`super::ordered_trees`]. A switch can not be ranked below both its neighbours in an order and in the
//! reverse as well, so every route of at most two links is legal in one of the two: all shortest routes of a
//! graph of diameter two. Longer routes survive by chance (three links: one time in three for each lane), so
//! further pairs of lanes are drawn until every pair of switches has a legal shortest route or the lanes are
//! used up. Tree-like fabrics need one lane, ranked by level.
//!
//! Each VLAN holds, for every destination, a tree of next hops that is legal in the lane of the VLAN and
//! balanced against all trees before it. As VLANs these trees hold loops, so learning and flooding must be
//! off.
//!
//! Recomputing after failures inside the same [`Orders`] needs no drain: old and new routes obey the same
//! rule, so their union has no cycle either. This scheme is our own; it has no paper.

use super::ordered_trees::{Growth, TreeGrower, legal_distances, rank_from_root};
use super::up_down::{rank_by_level, widest_switch};
use super::{ForwardingTables, RoutingEngine, RoutingError, SwitchGraph};
use super::{bound_parameter, reachable_switches, unreachable};
use crate::Topology;
use crate::watch::{Unwatched, Watch};
use pauseframe_units::{Id, PortId};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// How many random orders are compared where the first does not give every pair a shortest route.
const CANDIDATES: usize = 8;

/// How many destinations the comparison looks at. With all of 2,000 it took three quarters of the planning time.
const SAMPLE: usize = 256;

/// The order-pair planner.
#[derive(Clone, Debug)]
pub struct OrderPair {
    /// The most lanes to use: 1, or an even number up to 8. Fewer are used where fewer give every pair a
    /// shortest route.
    pub lanes: usize,
    /// VLANs: at least the number of lanes, at most 4094.
    pub vlans: usize,
    /// How many of the VLANs use a random part of the links only. They hold longer routes and cover failures.
    pub sampled_vlans: usize,
    /// The part of the links that such a VLAN uses, in percent.
    pub sample_percent: u32,
    /// Draws orders, samples and ties.
    pub seed: u64,
}

impl Default for OrderPair {
    /// Two lanes and sixteen VLANs, all of them on all links.
    fn default() -> OrderPair {
        OrderPair { lanes: 2, vlans: 16, sampled_vlans: 0, sample_percent: 60, seed: 1 }
    }
}

/// The turn rules of a plan: one order of the switches for each lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orders {
    /// For each lane, the rank of each switch by its number.
    ranks: Vec<Vec<u32>>,
    /// Whether VLAN 0 prefers ways down, so that it serves every pair if all but one switch have a higher
    /// neighbour.
    down_first: bool,
}

impl Orders {
    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.ranks.len()
    }

    /// The rank of each switch in a lane, by its number in the [`SwitchGraph`].
    pub fn ranks(&self, lane: usize) -> &[u32] {
        &self.ranks[lane]
    }
}

impl RoutingEngine for OrderPair {
    fn plan_watched(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        let orders = self.draw_orders(topology, graph, watch)?;
        match self.plan_under(topology, graph, &orders, watch) {
            Err(RoutingError::Unreachable { .. }) => {
                self.plan_under(topology, graph, &self.rooted_orders(graph, self.lanes), watch)
            }
            result => result,
        }
    }
}

impl OrderPair {
    /// Draws orders that fit `graph`.
    ///
    /// # Errors
    /// If a setting is out of its bounds or a pair of hosts has no path.
    pub fn orders(&self, topology: &Topology, graph: &SwitchGraph) -> Result<Orders, RoutingError> {
        self.draw_orders(topology, graph, &mut Unwatched)
    }

    fn draw_orders(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        watch: &mut dyn Watch,
    ) -> Result<Orders, RoutingError> {
        self.check_settings()?;
        reachable_switches(topology, graph)?;
        if let Some(rank) = rank_by_level(topology, graph)
            && Coverage::of_all(graph).with(graph, &[&rank]).missing() == 0
        {
            return Ok(Orders { ranks: vec![rank], down_first: true });
        }
        if self.lanes == 1 {
            return Ok(self.rooted_orders(graph, 1));
        }
        let mut rng = Pcg64::seed_from_u64(self.seed);
        let mut coverage = Coverage::of_some(graph);
        let mut ranks: Vec<Vec<u32>> = Vec::new();
        while ranks.len() < self.lanes {
            watch.step("drawing orders", ranks.len() as u64, self.lanes as u64)?;
            let (rank, reverse, better) = best_pair(graph, &coverage, &mut rng);
            coverage = better;
            ranks.extend([rank, reverse]);
            // The sample may be covered before all is.
            let all = || ranks.iter().map(Vec::as_slice).collect::<Vec<_>>();
            if coverage.missing() == 0
                && (coverage.is_of_all(graph) || Coverage::of_all(graph).with(graph, &all()).missing() == 0)
            {
                break;
            }
        }
        Ok(Orders { ranks, down_first: false })
    }

    /// The first order by distance from a root, so that its lane serves every pair; the further pairs random.
    fn rooted_orders(&self, graph: &SwitchGraph, lanes: usize) -> Orders {
        let rank = rank_from_root(graph, widest_switch(graph));
        let mut rng = Pcg64::seed_from_u64(self.seed);
        let mut ranks = vec![rank.clone(), reversed(&rank)];
        while ranks.len() < lanes {
            let rank = random_rank(graph.len(), &mut rng);
            ranks.extend([reversed(&rank), rank]);
        }
        ranks.truncate(lanes);
        Orders { ranks, down_first: true }
    }

    /// Tables under given orders, such as those of a plan that was made before some links failed.
    ///
    /// # Errors
    /// If a setting is out of its bounds, the tables do not fit, or a pair has no legal route under these orders.
    ///
    /// # Panics
    /// If the orders are for another number of switches.
    pub fn plan_in(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        orders: &Orders,
    ) -> Result<ForwardingTables, RoutingError> {
        self.plan_under(topology, graph, orders, &mut Unwatched)
    }

    fn plan_under(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        orders: &Orders,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        self.check_settings()?;
        assert!(
            orders.ranks.iter().all(|rank| rank.len() == graph.len()),
            "the orders are for another set of switches"
        );
        let lanes = (0..self.vlans).map(|vlan| (vlan % orders.lanes()) as u8).collect();
        let mut tables = ForwardingTables::new(graph, lanes)?;
        let mut grower = TreeGrower::new(graph);
        let mut rng = Pcg64::seed_from_u64(self.seed ^ 0x706c_616e);
        let links = graph.port_count() / 2;
        let mut rows: Vec<u32> = (0..graph.attachments().len() as u32).collect();
        for vlan in 0..self.vlans {
            let growth = if vlan == 0 && orders.down_first { Growth::DownFirst } else { Growth::Nearest };
            let sampled = vlan + self.sampled_vlans >= self.vlans;
            let usable: Vec<bool> =
                (0..links).map(|_| !sampled || rng.random_range(0..100) < self.sample_percent).collect();
            let may_use = |port: PortId| usable[port.link().index()];
            rows.shuffle(&mut rng);
            for (done, row) in rows.iter().enumerate() {
                watch.step(
                    "growing trees",
                    (vlan * rows.len() + done) as u64,
                    (self.vlans * rows.len()) as u64,
                )?;
                let to = graph.attachments()[*row as usize];
                let rank = &orders.ranks[vlan % orders.lanes()];
                grower.grow(rank, to, growth, may_use, rng.next_u64(), tables.tree_mut(vlan, *row));
            }
        }
        let missing = first_unserved(&tables);
        missing.map_or(Ok(tables), |(from, to)| Err(unreachable(topology, graph, from, to)))
    }

    fn check_settings(&self) -> Result<(), RoutingError> {
        bound_parameter("lanes", self.lanes, 1..=8, "it must be 1, 2, 4, 6 or 8")?;
        if self.lanes > 1 {
            bound_parameter("lanes", self.lanes % 2, 0..=0, "it must be 1, 2, 4, 6 or 8")?;
        }
        let allowed = "it must be at least the number of lanes and at most 4094";
        bound_parameter("vlans", self.vlans, self.lanes..=4094, allowed)?;
        let allowed = "some VLANs, at least one a lane, must use all links";
        bound_parameter("sampled_vlans", self.sampled_vlans, 0..=self.vlans - self.lanes, allowed)?;
        bound_parameter("sample_percent", self.sample_percent as usize, 1..=100, "it must be 1 to 100")
    }
}

/// The pair of orders, among a few drawn, that gives most pairs of switches a shortest route.
fn best_pair(graph: &SwitchGraph, before: &Coverage, rng: &mut Pcg64) -> (Vec<u32>, Vec<u32>, Coverage) {
    let mut draw = || {
        let rank = random_rank(graph.len(), rng);
        let reverse = reversed(&rank);
        let coverage = before.with(graph, &[&rank, &reverse]);
        (rank, reverse, coverage)
    };
    let mut best = draw();
    for _ in 1..CANDIDATES {
        if best.2.missing() == 0 {
            break;
        }
        let next = draw();
        if next.2.missing() < best.2.missing() {
            best = next;
        }
    }
    best
}

fn random_rank(switches: usize, rng: &mut Pcg64) -> Vec<u32> {
    let mut rank: Vec<u32> = (0..switches as u32).collect();
    rank.shuffle(rng);
    rank
}

fn reversed(rank: &[u32]) -> Vec<u32> {
    let highest = rank.iter().max().copied().unwrap_or(0);
    rank.iter().map(|r| highest - r).collect()
}

/// A pair (source row, destination row) that no VLAN serves.
fn first_unserved(tables: &ForwardingTables) -> Option<(u32, u32)> {
    let sources = tables.graph().attachments().len();
    let lengths = tables.lengths();
    let pairs = sources * sources;
    let served = |pair: &usize| (0..tables.vlans()).any(|vlan| lengths[vlan * pairs + pair] != u16::MAX);
    let missing = (0..pairs).find(|pair| !served(pair))?;
    Some(((missing % sources) as u32, (missing / sources) as u32))
}

/// Which pairs (destination, source row) have a legal route as short as any.
#[derive(Clone, Debug)]
struct Coverage {
    /// The switches that count as destinations.
    destinations: Vec<u32>,
    covered: Vec<bool>,
}

impl Coverage {
    /// With all switches that have hosts as destinations.
    fn of_all(graph: &SwitchGraph) -> Coverage {
        Coverage::of(graph, graph.attachments().to_vec())
    }

    /// With at most [`SAMPLE`] of them, evenly spread: enough to compare orders, which are random.
    fn of_some(graph: &SwitchGraph) -> Coverage {
        let all = graph.attachments();
        let count = all.len().min(SAMPLE);
        Coverage::of(graph, (0..count).map(|i| all[i * all.len() / count]).collect())
    }

    fn of(graph: &SwitchGraph, destinations: Vec<u32>) -> Coverage {
        let covered = vec![false; destinations.len() * graph.attachments().len()];
        Coverage { destinations, covered }
    }

    fn is_of_all(&self, graph: &SwitchGraph) -> bool {
        self.destinations.len() == graph.attachments().len()
    }

    fn missing(&self) -> usize {
        self.covered.iter().filter(|covered| !**covered).count()
    }

    /// What is covered with lanes of these orders added.
    fn with(&self, graph: &SwitchGraph, ranks: &[&[u32]]) -> Coverage {
        let mut coverage = self.clone();
        let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
        let attachments = graph.attachments();
        for (row, to) in self.destinations.iter().enumerate() {
            graph.distances(*to, &mut distance, &mut queue);
            for rank in ranks {
                let legal = legal_distances(graph, rank, *to);
                let covered = &mut coverage.covered[row * attachments.len()..][..attachments.len()];
                for (covered, from) in covered.iter_mut().zip(attachments) {
                    *covered |= legal[*from as usize] == distance[*from as usize];
                }
            }
        }
        coverage
    }
}
