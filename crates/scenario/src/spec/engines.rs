//! The engines that plan forwarding tables, and tables from files, with their keys. Keys of several engines are
//! declared once, in tables that each engine reads in its order.

use super::planned::{Fabric, Planned, known_switch, load_tables, planned};
use super::source::{Source, source};
use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_routing::{
    Auto, Dfsssp, Effort, Lash, OrderPair, Packing, ShortestPath, SpanningTrees, UpDown,
};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Choice;
use pauseframe_schema::{choices, table};
use std::path::Path;

/// Reads the keys of an engine and plans the tables.
pub(super) type Engine = fn(&mut Table, &Fabric) -> Option<Planned>;

/// The engines by their names.
pub(super) const ENGINES: &[(&str, Engine)] = &[
    ("auto", auto),
    ("shortest_path", shortest_path),
    ("up_down", up_down),
    ("edst", edst),
    ("order_pair", order_pair),
    ("dfsssp", dfsssp),
    ("lash", lash),
    ("plan", plan_file),
];

/// IEEE 802.1Q: 0 is a priority tag, 4095 is reserved.
pub(crate) const VLAN_MAX: u16 = 4094;
const VLANS: std::ops::RangeInclusive<usize> = 1..=VLAN_MAX as usize;

table! {
    /// How packets find their way
    pub struct LaneBudget as "Routing" {
        /// Maximum number of virtual lanes (lossless priorities) of the plan
        lanes: usize = or_in(default, 1..=8);
    }
    pub fn read(t, default: usize);
}

table! {
    /// How packets find their way
    pub struct VlanBudget as "Routing" {
        /// Maximum number of VLANs (802.1Q), each a set of routes
        #[source = "IEEE 802.1Q"]
        vlans: usize = or_in(default, VLANS);
    }
    pub fn read(t, default: usize);
}

table! {
    /// How packets find their way
    pub struct Search as "Routing" {
        /// Search effort for good orders of the switches
        effort: EffortName = or(EffortName(Effort::Normal));
    }
    pub fn read(t);
}

table! {
    /// How packets find their way
    pub struct Lots as "Routing" {
        /// Seed of the plan, independent of the scenario's seed
        seed: u64 = or(1);
    }
    pub fn read(t);
}

table! {
    /// How packets find their way
    pub struct Ranks as "Routing" {
        /// Switch to rank from
        root: Option<String> = optional("automatic: by levels, or the switch with most links");
    }
    pub fn read(t);
}

table! {
    /// How packets find their way
    pub struct Trees as "Routing" {
        /// Maximum number of trees (VLANs) per virtual lane
        trees_per_lane: Option<usize> = optional_in(VLANS, "automatic: all trees found");
        /// How edge-disjoint trees are found: repeated Kruskal (random) or the maximum number (exact)
        #[source = "Roskind and Tarjan 1985"]
        packing: TreePacking = or(TreePacking::Exact);
    }
    pub fn read(t);
}

table! {
    /// How packets find their way
    pub struct Samples as "Routing" {
        /// Number of VLANs on a random subset of the links: their longer routes cover failures
        sampled_vlans: usize = or(0);
        /// Size of the random subset for sampled_vlans, in per cent of the links
        sample_percent: u32 = or_in(60, 1..=100);
    }
    pub fn read(t);
}

table! {
    /// How packets find their way
    pub struct FileFormat as "Routing" {
        /// Format of the tables
        format: FormatName = or_because(known, Origin::Computed("by the extension".to_owned()), "by the extension of path");
    }
    pub fn read(t, known: FormatName);
}

choices! {
    /// How edge-disjoint spanning trees are found
    pub enum TreePacking {
        /// Kruskal on the remaining links in random order
        Random = "random",
        /// The maximum number of trees
        Exact = "exact",
    }
}

/// A format by its name in scenarios.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FormatName(TableFormat);

impl Choice for FormatName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("csv", Self(TableFormat::Csv)),
        ("json", Self(TableFormat::Json)),
        ("opensm", Self(TableFormat::OpenSm)),
    ];
}

/// An effort by its name in scenarios.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct EffortName(Effort);

impl Choice for EffortName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("fast", Self(Effort::Fast)), ("normal", Self(Effort::Normal)), ("best", Self(Effort::Best))];
}

/// Each lane needs a VLAN, so fewer VLANs than lanes lower the default of the lanes.
fn lanes_and_vlans(t: &mut Table) -> (usize, usize) {
    let VlanBudget { vlans } = VlanBudget::read(t, 16);
    let LaneBudget { lanes } = LaneBudget::read(t, vlans.min(2));
    (lanes, vlans)
}

/// Chooses one of the other kinds by the graph.
fn auto(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, vlans) = lanes_and_vlans(t);
    let (Search { effort }, Lots { seed }) = (Search::read(t), Lots::read(t));
    let orders = OrderPair { lanes, vlans, effort: effort.0, seed, ..OrderPair::default() };
    planned(t, fabric, &Auto { orders })
}

fn shortest_path(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (VlanBudget { vlans }, Lots { seed }) = (VlanBudget::read(t, 1), Lots::read(t));
    planned(t, fabric, &ShortestPath { vlans, seed })
}

fn up_down(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (VlanBudget { vlans }, Lots { seed }) = (VlanBudget::read(t, 8), Lots::read(t));
    let root = Ranks::read(t).root;
    let root = known_switch(t, "root", root.as_deref(), fabric);
    planned(t, fabric, &UpDown { vlans, root, seed })
}

fn edst(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let LaneBudget { lanes } = LaneBudget::read(t, 2);
    let Trees { trees_per_lane, packing } = Trees::read(t);
    let Lots { seed } = Lots::read(t);
    let packing = match packing {
        TreePacking::Random => Packing::RandomKruskal,
        TreePacking::Exact => Packing::Exact,
    };
    planned(t, fabric, &SpanningTrees { lanes, trees_per_lane, packing, seed })
}

fn order_pair(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, vlans) = lanes_and_vlans(t);
    let Samples { sampled_vlans, sample_percent } = Samples::read(t);
    let (effort, Lots { seed }) = (Search::read(t).effort.0, Lots::read(t));
    let orders =
        OrderPair { lanes, vlans, sampled_vlans, sample_percent, effort, seed, ..OrderPair::default() };
    planned(t, fabric, &orders)
}

fn dfsssp(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (LaneBudget { lanes }, Lots { seed }) = (LaneBudget::read(t, 8), Lots::read(t));
    planned(t, fabric, &Dfsssp { lanes_max: lanes, seed })
}

fn lash(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (LaneBudget { lanes }, Lots { seed }) = (LaneBudget::read(t, 8), Lots::read(t));
    planned(t, fabric, &Lash { lanes_max: lanes, seed })
}

/// Tables from a file, or from a folder with `tables.csv`, `tables.json`, `tables.parquet` or a file per Linux bridge.
/// Binary formats and bridges are converted to CSV.
fn plan_file(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let doc = "Tables as `pauseframe route plan` writes them, an LFT dump of OpenSM, or a folder";
    let source = source(t, fabric.base_dir, doc, |path| load_tables(path, fabric));
    let guess = |source: &Source| {
        let by_text = if source.text.starts_with('{') { TableFormat::Json } else { TableFormat::Csv };
        let by_name = TableFormat::of(Path::new(&source.name));
        by_name.filter(|format| *format != TableFormat::Parquet).unwrap_or(by_text)
    };
    let known = FormatName(source.as_ref().map_or(TableFormat::Csv, guess));
    let FileFormat { format } = FileFormat::read(t, known);
    let (source, graph) = (source?, fabric.graph?);
    match tables_io::read(&source.name, &source.text, format.0, graph, fabric.labels) {
        Ok(import) => {
            for note in &import.notes {
                t.ledger.warn(format!("{}: {note}", source.name));
            }
            Some(import.tables)
        }
        Err(error) => {
            let key = if t.has("path") { "path" } else { "text" };
            t.check(false, key, || error.to_string(), &other_topology(fabric, &source.name));
            None
        }
    }
}

/// What to do where tables of a plan do not fit, because its topology is another one; "" for other tables.
fn other_topology(fabric: &Fabric, tables: &str) -> String {
    let (tables, file) = (Path::new(tables), "topology.graphml");
    let places = [tables.join(file), tables.with_file_name(file)];
    let own = places.into_iter().find(|place| fabric.base_dir.join(place).is_file());
    own.map_or_else(String::new, |own| {
        format!(
            "if the plan is for another topology, name its own ({}), or plan again: pauseframe route plan",
            own.display()
        )
    })
}
