//! DFSSSP: deadlock-free single-source shortest-path routing (Domke, Hoefler, Nagel, IPDPS 2011).
//!
//! All routes begin in one layer. While the layer has a cycle of dependencies, DFSSSP moves the routes
//! through the least used dependency of the cycle to the next layer. Then DFSSSP treats the next layer in the
//! same way. Not implemented: spreading the routes over lanes that remain unused at the end.

use super::layers::{Pair, ShortestTrees};
use super::{ForwardingTables, RoutingEngine, RoutingError, bound_parameter, reachable_switches};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};

/// The DFSSSP engine, which uses as many lanes as it needs.
#[derive(Clone, Debug)]
pub struct Dfsssp {
    /// Maximum number of lanes, 1 to 256; a plan that needs more is an error.
    pub lanes_max: usize,
    /// Seed for the order of destinations.
    pub seed: u64,
}

impl RoutingEngine for Dfsssp {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        _: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        bound_parameter("lanes_max", self.lanes_max, 1..=256, "it must be 1 to 256")?;
        reachable_switches(topology, graph)?;
        let trees = ShortestTrees::balanced(graph, self.seed);
        let mut layers = Vec::new();
        let mut pairs = trees.pairs();
        let of = pairs.len() as u64;
        while !pairs.is_empty() {
            watch.step("breaking cycles", of - pairs.len() as u64, of)?;
            let mut layer = Layer::new(&trees, pairs);
            layer.break_cycles();
            let (kept, moved) = layer.split();
            layers.push(kept);
            pairs = moved;
        }
        trees.tables(topology, &layers, self.lanes_max)
    }
}

/// A dependency between two channels, and the routes that cause it.
#[derive(Debug)]
struct Use {
    to: u32,
    routes: Vec<u32>,
    /// Number of routes with this dependency that are still in the layer.
    live: u32,
}

/// The routes of one layer with their dependencies.
#[derive(Debug)]
struct Layer {
    pairs: Vec<Pair>,
    moved: Vec<bool>,
    /// The dependencies of channel c are `uses[first[c]..first[c + 1]]`.
    first: Vec<u32>,
    uses: Vec<Use>,
    /// The dependencies that route r causes are `used_by[first_of_route[r]..first_of_route[r + 1]]`.
    first_of_route: Vec<u32>,
    used_by: Vec<u32>,
}

/// A step of the depth-first search: a channel, the dependency that led to the channel, and the dependency to
/// follow next.
#[derive(Clone, Copy, Debug)]
struct Step {
    channel: u32,
    came_by: Option<u32>,
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unseen,
    OnPath,
    Done,
}

impl Layer {
    fn new(trees: &ShortestTrees, pairs: Vec<Pair>) -> Layer {
        let mut turns: Vec<(u32, u32, u32)> = Vec::new();
        let mut route = Vec::new();
        for (number, pair) in pairs.iter().enumerate() {
            trees.route(*pair, &mut route);
            turns.extend(route.windows(2).map(|ports| (ports[0].0, ports[1].0, number as u32)));
        }
        turns.sort_unstable();
        let mut first = vec![0; trees.graph.port_count() + 1];
        let mut first_of_route = vec![0; pairs.len() + 1];
        let mut uses: Vec<Use> = Vec::new();
        for turn in turns.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let routes: Vec<u32> = turn.iter().map(|(_, _, route)| *route).collect();
            for route in &routes {
                first_of_route[*route as usize + 1] += 1;
            }
            first[turn[0].0 as usize + 1] += 1;
            uses.push(Use { to: turn[0].1, live: routes.len() as u32, routes });
        }
        for list in [&mut first, &mut first_of_route] {
            for place in 1..list.len() {
                list[place] += list[place - 1];
            }
        }
        let mut free = first_of_route.clone();
        let mut used_by = vec![0; first_of_route[pairs.len()] as usize];
        for (number, one) in uses.iter().enumerate() {
            for route in &one.routes {
                used_by[free[*route as usize] as usize] = number as u32;
                free[*route as usize] += 1;
            }
        }
        Layer { moved: vec![false; pairs.len()], pairs, first, uses, first_of_route, used_by }
    }

    /// Moves routes to the next layer until no cycle is left. One depth-first search is enough: moving routes
    /// only removes dependencies, so finished channels stay free of cycles, and the search continues from the
    /// intact part of its path.
    fn break_cycles(&mut self) {
        let mut state = vec![State::Unseen; self.first.len() - 1];
        let mut path: Vec<Step> = Vec::new();
        for root in 0..state.len() {
            if state[root] != State::Unseen {
                continue;
            }
            state[root] = State::OnPath;
            path.push(Step { channel: root as u32, came_by: None, next: self.first[root] });
            while let Some(step) = path.last_mut() {
                let (channel, here) = (step.channel as usize, step.next);
                if here == self.first[channel + 1] {
                    state[channel] = State::Done;
                    path.pop();
                    continue;
                }
                step.next += 1;
                let to = self.uses[here as usize].to;
                if self.uses[here as usize].live == 0 {
                    continue;
                }
                match state[to as usize] {
                    State::Done => {}
                    State::Unseen => {
                        state[to as usize] = State::OnPath;
                        path.push(Step { channel: to, came_by: Some(here), next: self.first[to as usize] });
                    }
                    State::OnPath => {
                        self.move_weakest(&path, here, to);
                        self.shorten(&mut path, &mut state);
                    }
                }
            }
        }
    }

    /// Moves the routes of the least used dependency of a cycle; `closing` closes this cycle at channel `to`
    /// of the path.
    fn move_weakest(&mut self, path: &[Step], closing: u32, to: u32) {
        let cycle = path.iter().rev().take_while(|step| step.channel != to).filter_map(|step| step.came_by);
        let weakest = cycle.chain([closing]).min_by_key(|number| (self.uses[*number as usize].live, *number));
        let weakest = weakest.unwrap_or(closing) as usize;
        for route in std::mem::take(&mut self.uses[weakest].routes) {
            let route = route as usize;
            if !std::mem::replace(&mut self.moved[route], true) {
                for place in self.first_of_route[route]..self.first_of_route[route + 1] {
                    self.uses[self.used_by[place as usize] as usize].live -= 1;
                }
            }
        }
    }

    /// Cuts the search path before the first dependency that no longer exists.
    fn shorten(&self, path: &mut Vec<Step>, state: &mut [State]) {
        let gone = |step: &Step| step.came_by.is_some_and(|number| self.uses[number as usize].live == 0);
        if let Some(end) = path.iter().position(gone) {
            for step in path.drain(end..) {
                state[step.channel as usize] = State::Unseen;
            }
        }
    }

    /// Returns the routes that stay and the routes that were moved.
    fn split(self) -> (Vec<Pair>, Vec<Pair>) {
        let (moved, kept): (Vec<_>, Vec<_>) =
            self.pairs.into_iter().zip(self.moved).partition(|(_, moved)| *moved);
        let pairs = |list: Vec<(Pair, bool)>| list.into_iter().map(|(pair, _)| pair).collect();
        (pairs(kept), pairs(moved))
    }
}
