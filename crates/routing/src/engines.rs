//! Routing engines by name, with the settings of a command line or a scenario; and the check whether a plan
//! fits into the switches' tables.

use super::verify::Tables;
use super::{
    Auto, Dfsssp, Effort, Lash, OrderPair, Packing, Protect, RoutingEngine, RoutingError, ShortestPath,
    SpanningTrees, UpDown, bound_parameter,
};
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::{did_you_mean, hint};
use pauseframe_units::{NodeId, counted};

/// The names of the engines, each with a line of help.
pub const ENGINES: [(&str, &str); 8] = [
    (
        "auto",
        "by the graph: one lane where there are levels, else order_pair or lash in two; says why (default)",
    ),
    ("order_pair", "short routes in one lane or two, a good order of the switches in each; with backups"),
    ("up_down", "one lane: up*/down* (Autonet 1991)"),
    ("edst", "edge-disjoint spanning trees, as many as there are (TCP-Bolt 2014)"),
    ("edst_heuristic", "the same by random trees on what is left, as a simple planner would"),
    ("dfsssp", "shortest routes over as many lanes as it takes (Domke 2011)"),
    ("lash", "shortest routes over as many lanes as it takes (Skeie 2002)"),
    ("shortest_path", "one lane, balanced shortest routes; can deadlock"),
];

/// The engines that find a first plan early and improve it until their budget ends.
pub const GET_BETTER: [&str; 2] = ["auto", "order_pair"];

/// Settings of an engine; a missing setting has the engine's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineSettings {
    /// Number of lanes; for `dfsssp` and `lash` the maximum.
    pub lanes: Option<usize>,
    /// Number of VLANs over all lanes; for spanning trees the maximum, a multiple of the lanes.
    pub vlans: Option<usize>,
    /// `order_pair`: number of VLANs that use a random part of the links, for longer routes and failures.
    pub sampled_vlans: Option<usize>,
    /// `order_pair`: the part of the links that such a VLAN uses, in percent.
    pub sample_percent: Option<u32>,
    /// `order_pair`, `auto`: number of VLANs for failures.
    pub backup_vlans: Option<usize>,
    /// `order_pair`, `auto`: the failures that must not remove the last route of a pair.
    pub protect: Option<Protect>,
    /// `order_pair`, `auto`: duration of the search for good orders.
    pub effort: Option<Effort>,
    /// `order_pair`, `auto`: maximum duration of the whole plan, in seconds of one core.
    pub budget: Option<f64>,
    /// `order_pair`, `auto`: the number of steps after which the search ends.
    pub stop_at: Option<u64>,
    /// `up_down`: the root switch.
    pub root: Option<NodeId>,
    /// Seed for random orders, trees and ties.
    pub seed: u64,
}

/// Makes the engine with this name.
///
/// # Errors
/// If no engine has this name, or the engine lacks a setting that was given.
pub fn engine(name: &str, settings: &EngineSettings) -> Result<Box<dyn RoutingEngine>, RoutingError> {
    let EngineSettings { lanes, vlans, sampled_vlans, sample_percent, root, seed, .. } = *settings;
    let ordered = GET_BETTER.contains(&name);
    let trees = matches!(name, "edst" | "edst_heuristic");
    let layered = matches!(name, "dfsssp" | "lash");
    let unused = [
        ("lanes", lanes.is_some_and(|lanes| lanes != 1) && matches!(name, "up_down" | "shortest_path")),
        ("vlans", vlans.is_some() && layered),
        ("sampled_vlans", sampled_vlans.is_some() && !ordered),
        ("sample_percent", sample_percent.is_some() && !ordered),
        ("backup_vlans", settings.backup_vlans.is_some() && !ordered),
        ("protect", settings.protect.is_some() && !ordered),
        ("effort", settings.effort.is_some() && !ordered),
        ("budget", settings.budget.is_some() && !ordered),
        ("steps", settings.stop_at.is_some() && !ordered),
        ("root", root.is_some() && name != "up_down"),
    ];
    if let Some((setting, _)) = unused.into_iter().find(|(_, unused)| *unused) {
        return Err(RoutingError::Setting { engine: name.to_owned(), setting });
    }
    if let Some(percent) = sample_percent.filter(|_| sampled_vlans.unwrap_or(0) == 0) {
        let allowed =
            "it is the part of the links that sampled VLANs use; give sampled_vlans, or leave it out"
                .to_owned();
        return Err(RoutingError::Parameter {
            parameter: "sample_percent",
            value: percent as usize,
            allowed,
        });
    }
    if trees {
        return spanning_trees(name, lanes.unwrap_or_else(|| default_lanes(8, vlans)), vlans, seed);
    }
    Ok(match name {
        "auto" => Box::new(Auto { orders: order_pair(settings) }),
        "order_pair" => Box::new(order_pair(settings)),
        "up_down" => Box::new(UpDown { vlans: vlans.unwrap_or(8), root, seed }),
        "dfsssp" => Box::new(Dfsssp { lanes_max: lanes.unwrap_or(8), seed }),
        "shortest_path" => Box::new(ShortestPath { vlans: vlans.unwrap_or(1), seed }),
        "lash" => Box::new(Lash { lanes_max: lanes.unwrap_or(8), seed }),
        "edst_hub" => {
            let hint = " any more: use edst, or order_pair for shorter routes".to_owned();
            return Err(RoutingError::Engine { name: name.to_owned(), hint });
        }
        _ => {
            let names = ENGINES.map(|(name, _)| name.to_owned());
            let hint = hint(&did_you_mean(name, names.iter()), &names);
            return Err(RoutingError::Engine { name: name.to_owned(), hint });
        }
    })
}

/// The lanes at most, where only the VLANs are given: each lane needs one.
fn default_lanes(usual: usize, vlans: Option<usize>) -> usize {
    vlans.map_or(usual, |vlans| usual.min(vlans.max(1)))
}

fn order_pair(settings: &EngineSettings) -> OrderPair {
    let usual = OrderPair::default();
    OrderPair {
        lanes: settings.lanes.unwrap_or_else(|| default_lanes(usual.lanes, settings.vlans)),
        vlans: settings.vlans.unwrap_or(usual.vlans),
        fewer_vlans: settings.vlans.is_none(),
        sampled_vlans: settings.sampled_vlans.unwrap_or(usual.sampled_vlans),
        sample_percent: settings.sample_percent.unwrap_or(usual.sample_percent),
        backup_vlans: settings.backup_vlans,
        protect: settings.protect.clone().unwrap_or(usual.protect),
        effort: settings.effort.unwrap_or(usual.effort),
        budget: settings.budget,
        stop_at: settings.stop_at,
        planes: usual.planes,
        seed: settings.seed,
    }
}

fn spanning_trees(
    name: &str,
    lanes: usize,
    vlans: Option<usize>,
    seed: u64,
) -> Result<Box<dyn RoutingEngine>, RoutingError> {
    bound_parameter("lanes", lanes, 1..=8, "it must be 1 to 8")?;
    if let Some(value) = vlans.filter(|vlans| *vlans == 0 || vlans % lanes != 0) {
        let allowed = format!(
            "it must be a multiple of the number of lanes, {lanes}: every lane has as many trees; change one of the two"
        );
        return Err(RoutingError::Parameter { parameter: "vlans", value, allowed });
    }
    let packing = if name == "edst" { Packing::Exact } else { Packing::RandomKruskal };
    let trees_per_lane = vlans.map(|vlans| vlans / lanes);
    Ok(Box::new(SpanningTrees { lanes, trees_per_lane, packing, seed }))
}

/// Size of the forwarding tables that the switches need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableUse {
    /// The switch with the largest table.
    pub switch: NodeId,
    /// Number of rows in that switch's table, with one row for each (VLAN, host).
    pub rows: u64,
    /// Number of rows in that switch's table, with one row for each (VLAN, switch with hosts); such a table
    /// is enough if the hosts at a switch have neighbouring addresses and the table matches prefixes.
    pub rows_by_switch: u64,
    /// Number of VLANs.
    pub vlans: usize,
}

impl TableUse {
    /// Counts the rows of the forwarding tables; none if there are no switches.
    pub fn of(tables: &Tables) -> Option<TableUse> {
        let rows = tables.rows(|hosts| hosts.len() as u64);
        let largest = (0..rows.len()).rev().max_by_key(|switch| rows[*switch])?;
        Some(TableUse {
            switch: tables.graph().node(largest as u32),
            rows: rows[largest],
            rows_by_switch: tables.rows(|_| 1)[largest],
            vlans: tables.vlans().len(),
        })
    }

    /// Checks that a forwarding table with `budget` rows is large enough for every switch, with one row per
    /// host or, with `by_switch`, one row per switch.
    ///
    /// # Errors
    /// [`RoutingError::Rows`], which suggests a remedy.
    pub fn fit(&self, topology: &Topology, budget: u64, by_switch: bool) -> Result<(), RoutingError> {
        let needed = if by_switch { self.rows_by_switch } else { self.rows };
        if needed <= budget {
            return Ok(());
        }
        let mut advice = Vec::new();
        let vlans = (budget as f64 / needed as f64 * self.vlans as f64) as usize;
        if vlans > 0 {
            advice.push(format!("{} instead of {}", counted(vlans, "VLAN"), self.vlans));
        }
        if !by_switch && self.rows_by_switch <= budget {
            let rows = self.rows_by_switch;
            advice.push(format!("one row a switch, with a block of addresses at each ({rows} rows)"));
        }
        advice.push(format!("tables of {needed} rows"));
        let switch = topology.nodes()[self.switch].name.clone();
        Err(RoutingError::Rows { switch, needed, budget, advice: advice.join("; or ") })
    }
}
