//! Routing: computes next hops and forwarding tables for a graph.
//!
//! All algorithms work on [`SwitchGraph`], in which the switches have dense numbers, hosts belong to the
//! switch they are attached to, and failed links are absent. [`NextHops`] contains all shortest paths;
//! [`ForwardingTables`] contain a plan of VLANs and lanes, and [`DependencyGraph`] proves that a plan cannot
//! deadlock.

mod annealing;
mod auto;
mod backup;
mod budget;
mod capacity;
mod cdg;
mod detours;
mod dfsssp;
mod disjoint_sets;
mod ecmp;
mod engines;
mod growing_order;
mod lash;
mod layers;
mod levels;
mod order_pair;
mod ordered_trees;
mod planes;
mod reach;
mod shortest_path;
mod spanning_trees;
mod switch_pairs;
mod tables;
pub mod tables_io;
mod tree_packing;
mod turn_order;
mod up_down;
pub mod update;
mod used_turns;
pub mod verify;
mod walks;
pub mod watch;

pub use annealing::Effort;
pub use auto::Auto;
pub use backup::Protect;
pub use budget::STEPS_A_SECOND;
pub use cdg::{BufferChannel, Dependency, DependencyGraph, Witness};
pub use detours::{Detours, LaneChange};
pub use dfsssp::Dfsssp;
pub use ecmp::{FlowsByNextHop, NextHops, ecmp_index};
pub use engines::{ENGINES, EngineSettings, GET_BETTER, TableUse, engine};
pub use lash::Lash;
pub use levels::levels_of_nodes;
pub use order_pair::OrderPair;
pub use shortest_path::ShortestPath;
pub use spanning_trees::SpanningTrees;
pub use switch_pairs::SwitchPairs;
pub use tables::ForwardingTables;
pub use tree_packing::{Packing, pack_spanning_trees};
pub use up_down::UpDown;

use crate::watch::{Stopped, Unwatched, Watch};
use pauseframe_topology::{HostLinks, SwitchGraph, Topology};
use std::fmt::Debug;
use thiserror::Error;

/// A method that computes deadlock-free forwarding tables.
pub trait RoutingEngine: Debug {
    /// Computes tables that serve every pair of hosts over the links of `graph`, a view of `topology`.
    ///
    /// # Errors
    /// If a pair has no path, a setting is out of bounds, there are too few lanes or the tables do not fit.
    fn plan(&self, topology: &Topology, graph: &SwitchGraph) -> Result<ForwardingTables, RoutingError> {
        self.plan_watched(topology, graph, &mut Unwatched)
    }

    /// Computes tables like [`RoutingEngine::plan`]; reports the progress to `watch`, which can stop the
    /// computation.
    ///
    /// # Errors
    /// The errors of [`RoutingEngine::plan`], and [`RoutingError::Stopped`].
    fn plan_watched(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        planes::plan(self, topology, graph, watch)
    }

    /// Computes tables for `part`, one of `parts` planes of a fabric ([`SwitchGraph::only_part`]), which share
    /// the budget.
    ///
    /// # Errors
    /// The errors of [`RoutingEngine::plan_watched`].
    fn plan_part(
        &self,
        topology: &Topology,
        part: &SwitchGraph,
        parts: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError>;
}

/// Reasons why routes cannot be computed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RoutingError {
    /// No path joins two nodes with hosts.
    #[error(
        "there is no path from {from:?} to {to:?}: join the parts of the topology, plan for each by itself, or give \
         each host a port in every part (planes)"
    )]
    Unreachable {
        /// The name of the source.
        from: String,
        /// The name of the destination.
        to: String,
    },
    /// A host has no working link, or more than one.
    #[error(transparent)]
    HostLinks(#[from] HostLinks),
    /// The topology contains nothing to plan.
    #[error("there is nothing to plan: {0}")]
    Nothing(&'static str),
    /// The graph cannot carry packets.
    #[error("the topology cannot be planned for: {0}")]
    Graph(String),
    /// A plan needs more lanes than allowed.
    #[error("{needed} lanes are needed; only {allowed} are allowed{}", first_left_over(pair.as_ref()))]
    Lanes {
        /// Number of lanes that would be enough.
        needed: usize,
        /// Number of lanes allowed.
        allowed: usize,
        /// Two hosts whose route fits into none of the lanes.
        pair: Option<(String, String)>,
    },
    /// A setting of a routing engine is out of bounds.
    #[error("{parameter} = {value} is not possible: {allowed}")]
    Parameter {
        /// The name of the setting.
        parameter: &'static str,
        /// The value that was given.
        value: usize,
        /// The values that are allowed.
        allowed: String,
    },
    /// The tables would not fit into memory.
    #[error(
        "the tables would have about {rows} rows, {:.1} GiB of memory at four bytes each; there is room for {most}, {:.1} GiB: \
         use fewer VLANs or switches, or a machine with more free memory",
        *rows as f64 / f64::from(1 << 28),
        *most as f64 / f64::from(1 << 28)
    )]
    TooLarge {
        /// Number of rows in the forwarding tables.
        rows: u64,
        /// Maximum number of rows in forwarding tables.
        most: u64,
    },
    /// No engine has this name.
    #[error("there is no routing engine {name:?}{hint}")]
    Engine {
        /// The name that was given.
        name: String,
        /// The most similar name, and all names.
        hint: String,
    },
    /// An engine does not have a setting that was given.
    #[error("the engine {engine:?} has no setting {setting:?}: leave it out")]
    Setting {
        /// The engine.
        engine: String,
        /// The setting.
        setting: &'static str,
    },
    /// The forwarding table of a switch is too small.
    #[error("switch {switch:?} needs {needed} rows and can hold {budget}: what would do is {advice}")]
    Rows {
        /// The switch that needs the most rows.
        switch: String,
        /// Number of rows that the switch needs.
        needed: u64,
        /// Number of rows that the switch can hold.
        budget: u64,
        /// A remedy.
        advice: String,
    },
    /// The observer stopped the computation.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

fn first_left_over(pair: Option<&(String, String)>) -> String {
    let text = |(from, to): &(String, String)| {
        format!(
            ": the route from {from:?} to {to:?}, for one, closes a cycle in each of them; allow more lanes, or use \
             up_down (one lane) or order_pair (two)"
        )
    };
    pair.map_or(String::new(), text)
}

/// Maximum number of rows in all forwarding tables: eight gigabytes of next hops at four bytes each.
pub(crate) const ROWS_MAX: u64 = 1 << 31;

/// Rejects tables that are too large, or larger than half of the free memory: some tables are stored twice.
pub(crate) fn bound_rows(factors: &[usize]) -> Result<(), RoutingError> {
    let rows = factors.iter().fold(1_u64, |all, factor| all.saturating_mul(*factor as u64));
    // Small tables always fit, so free memory is not queried.
    let free = if rows < 1 << 24 { None } else { free_memory() };
    let most = free.map_or(ROWS_MAX, |bytes| ROWS_MAX.min(bytes / 8));
    if rows > most { Err(RoutingError::TooLarge { rows, most }) } else { Ok(()) }
}

/// Bytes of memory that are available without swapping, if the system reports it (Linux, proc(5)).
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

fn bound_parameter(
    parameter: &'static str,
    value: usize,
    range: std::ops::RangeInclusive<usize>,
    allowed: impl Into<String>,
) -> Result<(), RoutingError> {
    if range.contains(&value) {
        Ok(())
    } else {
        Err(RoutingError::Parameter { parameter, value, allowed: allowed.into() })
    }
}

/// The name of the first host at an edge switch.
fn host_name(topology: &Topology, graph: &SwitchGraph, row: u32) -> String {
    topology.nodes()[graph.hosts(graph.attachments()[row as usize])[0]].name.clone()
}

/// The error for two edge switches without a path between them.
fn unreachable(topology: &Topology, graph: &SwitchGraph, from: u32, to: u32) -> RoutingError {
    let host = |row| host_name(topology, graph, row);
    RoutingError::Unreachable { from: host(from), to: host(to) }
}

/// Rejects a graph for which no plan is possible: no hosts, no switches, a link from a node to itself, two
/// nodes with one name.
///
/// # Errors
/// A description of the mistake, with a remedy.
pub fn plannable(topology: &Topology) -> Result<(), RoutingError> {
    if topology.hosts().next().is_none() {
        return Err(RoutingError::Nothing(
            "the topology has no hosts: give every switch some (--hosts-per-switch 4, in Python with_hosts(4))",
        ));
    }
    if topology.switches().next().is_none() {
        return Err(RoutingError::Nothing("there are no switches, and hosts back to back need no tables"));
    }
    let fatal = pauseframe_topology::check(topology).into_iter().find(|problem| {
        use pauseframe_topology::TopologyError::{DuplicateName, SelfLoop, ZeroRate};
        matches!(problem, DuplicateName { .. } | SelfLoop { .. } | ZeroRate { .. })
    });
    fatal.map_or(Ok(()), |problem| Err(RoutingError::Graph(problem.to_string())))
}

/// The switches that the hosts can reach, by number; an error if two hosts cannot reach each other.
fn reachable_switches(topology: &Topology, graph: &SwitchGraph) -> Result<Vec<bool>, RoutingError> {
    let Some(start) = graph.attachments().first() else { return Ok(vec![false; graph.len()]) };
    let mut distance = vec![0; graph.len()];
    graph.distances(*start, &mut distance, &mut Vec::new());
    let reached: Vec<bool> = distance.iter().map(|d| *d != u32::MAX).collect();
    match graph.attachments().iter().position(|switch| !reached[*switch as usize]) {
        Some(row) => Err(unreachable(topology, graph, 0, row as u32)),
        None => Ok(reached),
    }
}
