//! `[routing]`: next hops on the spot (ecmp, spray), or forwarding tables from an engine or a file.

use super::planned::{Fabric, Planned, known_host, known_switch, load_tables, planned};
use super::source::{Source, source};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Choice;
use pauseframe_schema::{choices, table};
use pauseframe_topology::routing::tables_io::{self, TableFormat};
use pauseframe_topology::routing::verify::Tables;
use pauseframe_topology::routing::{
    Auto, Dfsssp, Effort, Lash, OrderPair, Packing, ShortestPath, SpanningTrees, UpDown,
};
use pauseframe_units::{BitRate, Span};
use std::path::Path;
use std::sync::Arc;

/// `[routing]`.
#[derive(Clone, PartialEq, Debug)]
pub struct RoutingSpec {
    /// Next hops on the spot, or VLANs by forwarding tables.
    pub kind: RoutingKind,
    /// From a failure or a repair to new shortest paths everywhere; tables of VLANs stay as they are.
    pub convergence: Span,
    /// What the kinds with forwarding tables have; `None` for the others.
    pub vlans: Option<VlanRoutingSpec>,
}

/// How a next hop is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutingKind {
    /// Among the shortest by a hash of the flow, salted per switch.
    Ecmp,
    /// Among the shortest for every packet anew, uniformly at random.
    Spray,
    /// By the VLAN of the packet and forwarding tables.
    Vlans,
}

/// Forwarding tables, and how hosts choose among their VLANs.
#[derive(Clone, PartialEq, Debug)]
pub struct VlanRoutingSpec {
    /// How hosts use them.
    pub use_of: UseOfTables,
    /// The tables.
    pub tables: PlannedTables,
}

/// The tables of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedTables(pub Arc<Tables>);

table! {
    /// How packets find their way
    pub struct OnTheSpot as "Routing" {
        /// From a failure or a repair to new routes in all switches
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
    }
    pub fn read(t);
}

table! {
    /// How packets find their way
    pub struct UseOfTables as "Routing" {
        /// How a sender picks one of the VLANs with the shortest routes: at random, the less loaded of two random ones, the
        /// least loaded of all (load: open flows), or as planned for the demand
        choice: ChoiceName = or(ChoiceName::Random);
        /// How often it picks
        per: Per = or(Per::Flow) => {
            let message = || "only a random choice can be made for every packet: load is counted in flows".to_owned();
            let able = per == Per::Flow || choice == ChoiceName::Random;
            t.check(able, "per", message, "set choice = \"random\"");
        };
        /// How many links longer than the shortest a route may be; worth it only if the choice looks at load
        slack: u16 = or_in(0, 0..=16);
        /// What hosts send each other: src, dst, rate
        demand: Vec<DemandEntry> = rows("[]", |t| DemandEntry::read(t, fabric)) => {
            let used = choice == ChoiceName::Demand;
            let message = || "is required for choice = \"demand\"".to_owned();
            t.check(!used || !demand.is_empty(), "demand", message, "list rows such as { src, dst, rate }");
            let message = || "is not looked at: choice is not \"demand\"".to_owned();
            t.check(used || demand.is_empty(), "demand", message, "set choice = \"demand\", or remove it");
        };
    }
    pub fn read(t, fabric: &Fabric);
}

table! {
    /// What one host sends another on average
    pub struct DemandEntry as "Demand" {
        /// Sending host
        src: String = try_by(known_host, fabric);
        /// Receiving host
        dst: String = try_by(known_host, fabric);
        /// On average
        rate: BitRate = required_in(BitRate(1)..=BitRate(u64::MAX)) => {
            t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "");
        };
    }
    pub fn try_read(t, fabric: &Fabric);
}

choices! {
    /// How edge-disjoint spanning trees are found
    pub enum TreePacking {
        /// Kruskal on links in random order, on what is left
        Random = "random",
        /// As many as the graph has
        Exact = "exact",
        /// As many, shallow
        HubSeeded = "hub_seeded",
    }
}

choices! {
    /// How a sender chooses its VLAN
    pub enum ChoiceName {
        /// Uniformly at random
        Random = "random",
        /// The less loaded of two random ones
        BestOfTwo = "best_of_two",
        /// The least loaded of all
        LeastLoaded = "least_loaded",
        /// Fixed for each pair by a planner that knows the demand
        Demand = "demand",
    }
}

choices! {
    /// How often a sender chooses its VLAN
    pub enum Per {
        /// Once
        Flow = "flow",
        /// For every packet anew
        Packet = "packet",
    }
}

/// A format as scenarios name it.
#[derive(Clone, Copy, PartialEq)]
struct FormatName(TableFormat);

impl Choice for FormatName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("csv", Self(TableFormat::Csv)),
        ("json", Self(TableFormat::Json)),
        ("opensm", Self(TableFormat::OpenSm)),
    ];
}

/// An effort as scenarios name it.
#[derive(Clone, Copy, PartialEq)]
struct EffortName(Effort);

impl Choice for EffortName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("fast", Self(Effort::Fast)), ("normal", Self(Effort::Normal)), ("best", Self(Effort::Best))];
}

impl RoutingSpec {
    /// The key because of which packets of a flow overtake each other, if they do.
    pub fn reorders(&self) -> Option<&'static str> {
        let per_packet = self.vlans.as_ref().is_some_and(|vlans| vlans.use_of.per == Per::Packet);
        match self.kind {
            RoutingKind::Spray => Some("routing.kind = spray"),
            _ => per_packet.then_some("routing.per = packet"),
        }
    }

    /// Lanes that the tables use, each a lossless priority; 0 without tables.
    pub fn lanes(&self) -> usize {
        self.vlans.as_ref().map_or(0, |vlans| vlans.tables.0.lanes())
    }
}

#[derive(Clone, Copy)]
enum Reader {
    OnTheSpot(RoutingKind),
    Tables(fn(&mut Table, &Fabric) -> Option<Planned>),
}

/// The kinds: next hops on the spot, and engines, each with the keys that it reads.
const KINDS: &[(&str, Reader)] = &[
    ("ecmp", Reader::OnTheSpot(RoutingKind::Ecmp)),
    ("spray", Reader::OnTheSpot(RoutingKind::Spray)),
    ("auto", Reader::Tables(auto)),
    ("shortest_path", Reader::Tables(shortest_path)),
    ("up_down", Reader::Tables(up_down)),
    ("edst", Reader::Tables(edst)),
    ("order_pair", Reader::Tables(order_pair)),
    ("dfsssp", Reader::Tables(dfsssp)),
    ("lash", Reader::Tables(lash)),
    ("plan", Reader::Tables(plan_file)),
];

/// IEEE 802.1Q: 0 is a priority tag, 4095 is reserved.
pub(crate) const VLAN_MAX: u16 = 4094;

pub(crate) fn routing(t: &mut Table, fabric: &Fabric) -> RoutingSpec {
    t.about("Routing", "How packets find their way");
    let doc = "Next hop among the shortest by a hash of the flow (ecmp) or at random for every packet (spray); or VLANs by \
               forwarding tables, which an engine plans or a file holds (plan)";
    let default = Some(("ecmp", Origin::Default, "\"ecmp\""));
    match t.variant("kind", default, KINDS, doc) {
        Some(Reader::OnTheSpot(kind)) => {
            RoutingSpec { kind, convergence: OnTheSpot::read(t).convergence, vlans: None }
        }
        None => RoutingSpec { kind: RoutingKind::Ecmp, convergence: Span::ZERO, vlans: None },
        Some(Reader::Tables(read)) => {
            let tables = read(t, fabric);
            let use_of = UseOfTables::read(t, fabric);
            let vlans =
                tables.map(|tables| VlanRoutingSpec { use_of, tables: PlannedTables(Arc::new(tables)) });
            RoutingSpec { kind: RoutingKind::Vlans, convergence: Span::ZERO, vlans }
        }
    }
}

fn seed(t: &mut Table) -> u64 {
    t.or("seed", 1, "Draws the plan; it does not follow the seed of the scenario")
}

fn vlans(t: &mut Table, default: usize) -> usize {
    t.or_in("vlans", default, 1..=usize::from(VLAN_MAX), "VLAN budget: sets of routes, each an 802.1Q VLAN")
}

fn lanes_budget(t: &mut Table, default: usize) -> usize {
    let doc = "Lane budget: the most lossless priorities that the plan may use";
    t.or_in("lanes", default, 1..=8, doc)
}

fn effort(t: &mut Table) -> Effort {
    t.or("effort", EffortName(Effort::Normal), "How long to look for good orders of the switches").0
}

/// By the graph: what the other kinds can do for it.
fn auto(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, vlans, effort, seed) = (lanes_budget(t, 2), vlans(t, 16), effort(t), seed(t));
    planned(t, fabric, &Auto { orders: OrderPair { lanes, vlans, effort, seed, ..OrderPair::default() } })
}

fn shortest_path(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (vlans, seed) = (vlans(t, 1), seed(t));
    planned(t, fabric, &ShortestPath { vlans, seed })
}

fn up_down(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (vlans, seed) = (vlans(t, 8), seed(t));
    let doc = "Switch to rank from";
    let root: Option<String> = t.optional("root", "automatic: by levels, or the switch with most links", doc);
    let node = known_switch(t, "root", root.as_deref(), fabric);
    planned(t, fabric, &UpDown { vlans, root: node, seed })
}

fn edst(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let lanes = lanes_budget(t, 2);
    let doc = "The most trees (VLANs) of a lane";
    let trees_per_lane =
        t.optional_in("trees_per_lane", 1..=usize::from(VLAN_MAX), "automatic: as many as are found", doc);
    let doc = "How edge-disjoint trees are found: Kruskal again and again, as many as there are, or as many and shallow";
    let packing = t.or("packing", TreePacking::Exact, doc);
    let seed = seed(t);
    let packing = match packing {
        TreePacking::Random => Packing::RandomKruskal,
        TreePacking::Exact => Packing::Exact,
        TreePacking::HubSeeded => Packing::HubSeeded,
    };
    planned(t, fabric, &SpanningTrees { lanes, trees_per_lane, packing, seed })
}

fn order_pair(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, vlans) = (lanes_budget(t, 2), vlans(t, 16));
    let doc = "How many of the VLANs are on a random part of the links: longer routes, which cover failures";
    let sampled_vlans = t.or("sampled_vlans", 0, doc);
    let sample_percent = t.or_in("sample_percent", 60, 1..=100, "That part of the links, per cent");
    let (effort, seed) = (effort(t), seed(t));
    planned(
        t,
        fabric,
        &OrderPair { lanes, vlans, sampled_vlans, sample_percent, effort, seed, ..OrderPair::default() },
    )
}

fn dfsssp(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, seed) = (lanes_budget(t, 8), seed(t));
    planned(t, fabric, &Dfsssp { lanes_max: lanes, seed })
}

fn lash(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, seed) = (lanes_budget(t, 8), seed(t));
    planned(t, fabric, &Lash { lanes_max: lanes, seed })
}

/// Tables from a file, or from a folder with `tables.csv`, `tables.json`, `tables.parquet` or a file for each Linux bridge.
/// What is no text (Parquet, bridges) is taken as CSV from here on.
fn plan_file(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let doc = "Tables as `pauseframe route plan` writes them, an LFT dump of OpenSM, or a folder";
    let source = source(t, fabric.base_dir, doc, |path| load_tables(path, fabric));
    let guess = |source: &Source| {
        let by_text = if source.text.starts_with('{') { TableFormat::Json } else { TableFormat::Csv };
        let by_name = TableFormat::of(Path::new(&source.name));
        by_name.filter(|format| *format != TableFormat::Parquet).unwrap_or(by_text)
    };
    let known = source.as_ref().map_or(TableFormat::Csv, guess);
    let origin = Origin::Computed("by the extension".to_owned());
    let format =
        t.or_because("format", FormatName(known), origin, "by the extension of path", "Format of the tables");
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
            t.check(false, key, || error.to_string(), "");
            None
        }
    }
}
