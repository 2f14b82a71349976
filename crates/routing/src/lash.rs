//! LASH: layered shortest-path routing (Skeie, Lysne, Theiss, IPDPS 2002).
//!
//! The pairs of switches are processed in random order. Each pair goes into the first layer where its route
//! closes no cycle of dependencies with earlier routes. A layer only grows, so a dependency that closed a
//! cycle once is not tried again. The search for a cycle visits at most about a thousand channels; beyond
//! that limit the layer counts as full for the route. Only large graphs reach the limit: 1,000 switches with
//! 32 links each take about 50 s of processor time.

use super::budget::Ledger;
use super::growing_order::GrowingOrder;
use super::layers::{Pair, ShortestTrees};
use super::turn_order::TurnOrder;
use super::{ForwardingTables, RoutingEngine, RoutingError, bound_parameter, reachable_switches};
use crate::watch::{Stopped, Watch};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::PortId;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use std::collections::HashSet;

/// Maximum number of channels visited for one dependency.
const PATIENCE: usize = 1024;

/// Number of budget steps per visited node, or per turn of a route.
const STEPS_A_NODE: u64 = 12;
const STEPS_A_TURN: u64 = 60;

/// The LASH engine, which uses as many lanes as it needs.
#[derive(Clone, Debug)]
pub struct Lash {
    /// Maximum number of lanes, 1 to 256; a plan that needs more is an error.
    pub lanes_max: usize,
    /// Seed for the order of destinations and pairs.
    pub seed: u64,
}

/// A lane: the pairs of switches in it, and the dependencies of their routes.
struct Layer {
    order: GrowingOrder,
    pairs: Vec<Pair>,
    /// Dependencies that close a cycle with the dependencies of the layer. Such dependencies never fit later,
    /// because a layer only grows.
    refused: HashSet<[PortId; 2]>,
}

impl RoutingEngine for Lash {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        _: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        let (mut ledger, end) = (Ledger::unlimited(watch), u64::MAX);
        let plan = self.plan_within(topology, graph, usize::MAX, &mut ledger, end)?;
        plan.ok_or(RoutingError::Stopped(Stopped))
    }
}

impl Lash {
    /// Plans routes; fails as soon as the plan needs more than `most` lanes, and returns none if the budget
    /// ends first.
    pub(crate) fn plan_within(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        most: usize,
        ledger: &mut Ledger,
        end: u64,
    ) -> Result<Option<ForwardingTables>, RoutingError> {
        bound_parameter("lanes_max", self.lanes_max, 1..=256, "it must be 1 to 256")?;
        reachable_switches(topology, graph)?;
        let trees = ShortestTrees::balanced(graph, self.seed);
        let mut pairs = trees.pairs();
        pairs.shuffle(&mut Pcg64::seed_from_u64(self.seed ^ 0x6c61_7368));
        let mut layers: Vec<Layer> = Vec::new();
        let mut route = Vec::new();
        let of = pairs.len() as u64;
        for (done, pair) in pairs.into_iter().enumerate() {
            ledger.step("placing routes in lanes", done as u64, of)?;
            if !ledger.goes_on(end) {
                return Ok(None);
            }
            trees.route(pair, &mut route);
            let place = layers.iter_mut().position(|layer| layer.take(&route));
            let looked: u64 = layers.iter_mut().map(|layer| layer.order.take_looked()).sum();
            ledger.spend(looked * STEPS_A_NODE + route.len() as u64 * STEPS_A_TURN);
            if let Some(layer) = place {
                layers[layer].pairs.push(pair);
                continue;
            }
            let mut layer = Layer::new(&self.places(graph, layers.len()));
            layer.take(&route);
            layer.pairs.push(pair);
            layers.push(layer);
            if layers.len() > most {
                break;
            }
        }
        let layers: Vec<Vec<Pair>> = layers.into_iter().map(|layer| layer.pairs).collect();
        trees.tables(topology, &layers, self.lanes_max).map(Some)
    }

    /// The initial positions of a layer's channels: they follow an order of the switches, which is reversed
    /// in every second layer.
    fn places(&self, graph: &SwitchGraph, layer: usize) -> Vec<u32> {
        let mut rank: Vec<u32> = (0..graph.len() as u32).collect();
        rank.shuffle(&mut Pcg64::seed_from_u64(self.seed ^ (layer as u64 / 2)));
        if layer % 2 == 1 {
            for rank in &mut rank {
                *rank = graph.len() as u32 - 1 - *rank;
            }
        }
        TurnOrder::of_ranks(graph, &rank).into_places()
    }
}

impl Layer {
    fn new(places: &[u32]) -> Layer {
        let order = GrowingOrder::placed(places).with_patience(PATIENCE);
        Layer { order, pairs: Vec::new(), refused: HashSet::new() }
    }

    /// Adds the dependencies of a route; adds none of them if one closes a cycle.
    fn take(&mut self, route: &[PortId]) -> bool {
        let turns = || route.array_windows::<2>();
        if turns().any(|turn| self.refused.contains(turn)) {
            return false;
        }
        let before = self.order.edges();
        for turn in turns() {
            if !self.order.add(turn[0].0, turn[1].0) {
                // A dependency is not stored if its cycle contains dependencies of the same route, because
                // these are removed again.
                if self.order.edges() == before {
                    self.refused.insert(*turn);
                }
                self.order.take_back(before);
                return false;
            }
        }
        true
    }
}
