//! `[routing]`: next hops on the spot (ecmp, spray), or forwarding tables from an engine or a file.
//!
//! Tables are planned and judged here, so that what can not work is refused before anything runs: a budget of lanes or
//! VLANs that does not suffice, a pair that no VLAN serves, more lanes than lossless priorities. Routes that can deadlock
//! are a warning: whether they do is what a run shows. Routes that owe their safety to lanes are refused where a pause stops
//! whole links, and with them all lanes: nobody who plans lanes wants that.

use super::checks::Named;
use super::file;
use super::ledger::{Ledger, Origin};
use super::reader::Table;
use super::value::did_you_mean;
use crate::spec::{
    ChoiceName, DemandEntry, Per, PlannedTables, RoutingEngineSpec, RoutingKind, RoutingSpec, SwitchSpec,
    TreePacking, VlanRoutingSpec,
};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::routing::tables_io::{self, TableFormat};
use pauseframe_topology::routing::verify::{CycleArc, Options, Report, Tables, verify};
use pauseframe_topology::routing::{
    Dependencies, Dfsssp, Lash, NextHops, OrderPair, Packing, RoutingEngine, RoutingError, ShortestPath,
    SpanningTrees, SwitchGraph, UpDown,
};
use pauseframe_topology::{NodeKind, Topology, files};
use pauseframe_units::{BitRate, Span};
use std::path::Path;
use std::sync::Arc;

/// What routes are for.
pub(crate) struct Fabric<'a> {
    /// `None` if the topology is wrong, so that nothing can be planned.
    pub(crate) graph: Option<&'a Topology>,
    pub(crate) labels: &'a Labels,
    /// Where relative names of files begin.
    pub(crate) base_dir: &'a Path,
}

/// Where tables come from, and the tables.
type Planned = (RoutingEngineSpec, Tables);

#[derive(Clone, Copy)]
enum Reader {
    OnTheSpot(RoutingKind),
    Tables(fn(&mut Table, &Fabric) -> Option<Planned>),
}

const KINDS: &[(&str, Reader)] = &[
    ("ecmp", Reader::OnTheSpot(RoutingKind::Ecmp)),
    ("spray", Reader::OnTheSpot(RoutingKind::Spray)),
    ("shortest_path", Reader::Tables(shortest_path)),
    ("up_down", Reader::Tables(up_down)),
    ("edst", Reader::Tables(edst)),
    ("order_pair", Reader::Tables(order_pair)),
    ("dfsssp", Reader::Tables(dfsssp)),
    ("lash", Reader::Tables(lash)),
    ("plan", Reader::Tables(plan_file)),
];

/// IEEE 802.1Q: 0 is a priority tag, 4095 is reserved.
const VLAN_MAX: u16 = 4094;
/// The first number that VLANs of our own plans get.
const FIRST_VLAN: u16 = 1;
/// Dependencies of ECMP are not sought where they would take longer than the eye notices.
const ECMP_TURNS_MAX: u64 = 50_000_000;
/// So many dependencies of a circle are named.
const SHOWN_ARCS: usize = 8;

pub(crate) fn routing(t: &mut Table, fabric: &Fabric) -> RoutingSpec {
    let doc = "Next hop among the shortest by a hash of the flow (ecmp) or at random for every packet (spray); or VLANs by \
               forwarding tables, which an engine plans or a file holds (plan)";
    let default = Some(("ecmp", Origin::Default, "\"ecmp\""));
    match t.variant("kind", default, KINDS, doc) {
        Some(Reader::OnTheSpot(kind)) => RoutingSpec { kind, convergence: convergence(t), vlans: None },
        None => RoutingSpec { kind: RoutingKind::Ecmp, convergence: Span::ZERO, vlans: None },
        Some(Reader::Tables(read)) => {
            let planned = read(t, fabric);
            let use_of = choice(t, fabric);
            let vlans = planned.map(|(engine, tables)| {
                let (choice, per, slack, demand) = use_of;
                let tables = PlannedTables(Arc::new(tables));
                VlanRoutingSpec { engine, choice, per, slack, demand, tables }
            });
            RoutingSpec { kind: RoutingKind::Vlans, convergence: Span::ZERO, vlans }
        }
    }
}

fn convergence(t: &mut Table) -> Span {
    let doc = "From a failure or a repair to new routes in all switches";
    t.or_in("convergence", Span::from_ms(10), Span::ZERO..=Span::from_secs(3600), doc)
}

/// How hosts use the tables.
fn choice(t: &mut Table, fabric: &Fabric) -> (ChoiceName, Per, u16, Vec<DemandEntry>) {
    let doc = "How a sender picks one of the VLANs with the shortest routes: at random, the less loaded of two random ones, \
               the least loaded of all (load: open flows), or as planned for the demand";
    let choice = t.or("choice", ChoiceName::Random, doc);
    let per = t.or("per", Per::Flow, "How often it picks");
    let message = || "only a random choice can be made for every packet: load is counted in flows".to_owned();
    t.check(per == Per::Flow || choice == ChoiceName::Random, "per", message, "set choice = \"random\"");
    let doc =
        "How many links longer than the shortest a route may be; worth it only if the choice looks at load";
    let slack = t.or_in("slack", 0, 0..=16, doc);
    let rows = t.rows("demand", "[]", "What hosts send each other: src, dst, rate", |t| {
        let src = host(t, "src", "Sending host", fabric);
        let dst = host(t, "dst", "Receiving host", fabric);
        let rate = t.required_in("rate", BitRate(1)..=BitRate(u64::MAX), "On average");
        t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "");
        Some(DemandEntry { src: src?, dst: dst?, rate: rate? })
    });
    let demand = rows.unwrap_or_default();
    let used = choice == ChoiceName::Demand;
    let message = || "is required for choice = \"demand\"".to_owned();
    t.check(!used || !demand.is_empty(), "demand", message, "list rows such as { src, dst, rate }");
    let message = || "is not looked at: choice is not \"demand\"".to_owned();
    t.check(used || demand.is_empty(), "demand", message, "set choice = \"demand\", or remove it");
    (choice, per, slack, demand)
}

fn host(t: &mut Table, key: &'static str, doc: &str, fabric: &Fabric) -> Option<String> {
    let name: String = t.required(key, doc)?;
    if let Some(graph) = fabric.graph {
        let known = graph.find(&name).is_some_and(|node| graph.nodes()[node].kind == NodeKind::Host);
        let hosts = || graph.nodes().iter().filter(|node| node.kind == NodeKind::Host);
        let near = if known { String::new() } else { did_you_mean(&name, hosts().map(|n| n.name.as_str())) };
        t.check(known, key, || format!("there is no host {name:?}"), &near);
    }
    Some(name)
}

/// The tables of an engine; what it refuses is a problem at the key that is to blame.
fn planned(
    t: &mut Table,
    fabric: &Fabric,
    spec: RoutingEngineSpec,
    engine: &dyn RoutingEngine,
) -> Option<Planned> {
    let graph = fabric.graph?;
    let plan = SwitchGraph::new(graph).and_then(|switches| engine.plan(graph, &switches));
    match plan {
        Ok(plan) => Some((spec, Tables::of_plan(&plan, FIRST_VLAN))),
        Err(error) => {
            let (key, hint) = blame(&error);
            t.check(false, key, || error.to_string(), hint);
            None
        }
    }
}

/// The key that an error of an engine is about, and what would do.
fn blame(error: &RoutingError) -> (&'static str, &'static str) {
    match error {
        RoutingError::Lanes { .. } => {
            ("lanes", "raise lanes, or plan with order_pair (two lanes) or up_down (one)")
        }
        RoutingError::Parameter { parameter: "lanes_max", .. } => ("lanes", ""),
        RoutingError::Parameter { parameter, .. } => (parameter, ""),
        RoutingError::TooLarge { .. } | RoutingError::Rows { .. } => ("kind", "use fewer VLANs"),
        RoutingError::Engine { .. } | RoutingError::Setting { .. } | RoutingError::Stopped(_) => ("kind", ""),
        RoutingError::Unreachable { .. } | RoutingError::HostLinks { .. } => ("kind", "mend the topology"),
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

fn shortest_path(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (vlans, seed) = (vlans(t, 1), seed(t));
    let spec = RoutingEngineSpec::ShortestPath { vlans, seed };
    planned(t, fabric, spec, &ShortestPath { vlans, seed })
}

fn up_down(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (vlans, seed) = (vlans(t, 8), seed(t));
    let doc = "Switch to rank from";
    let root: Option<String> = t.optional("root", "automatic: by levels, or the switch with most links", doc);
    let mut node = None;
    if let (Some(name), Some(graph)) = (&root, fabric.graph) {
        node = graph.find(name).filter(|node| graph.nodes()[*node].kind == NodeKind::Switch);
        let switches = graph.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
        let near = did_you_mean(name, switches.map(|node| node.name.as_str()));
        t.check(node.is_some(), "root", || format!("there is no switch {name:?}"), &near);
    }
    let spec = RoutingEngineSpec::UpDown { vlans, root, seed };
    planned(t, fabric, spec, &UpDown { vlans, root: node, seed })
}

fn edst(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let lanes = lanes_budget(t, 2);
    let doc = "The most trees (VLANs) of a lane";
    let trees_per_lane =
        t.optional_in("trees_per_lane", 1..=usize::from(VLAN_MAX), "automatic: as many as are found", doc);
    let doc = "How edge-disjoint trees are found: Kruskal again and again, as many as there are, or as many and shallow";
    let packing = t.or("packing", TreePacking::Exact, doc);
    let seed = seed(t);
    let spec = RoutingEngineSpec::Edst { lanes, trees_per_lane, packing, seed };
    let packing = match packing {
        TreePacking::Random => Packing::RandomKruskal,
        TreePacking::Exact => Packing::Exact,
        TreePacking::HubSeeded => Packing::HubSeeded,
    };
    planned(t, fabric, spec, &SpanningTrees { lanes, trees_per_lane, packing, seed })
}

fn order_pair(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, vlans) = (lanes_budget(t, 2), vlans(t, 16));
    let doc = "How many of the VLANs are on a random part of the links: longer routes, which cover failures";
    let sampled_vlans = t.or("sampled_vlans", 0, doc);
    let sample_percent = t.or_in("sample_percent", 60, 1..=100, "That part of the links, per cent");
    let seed = seed(t);
    let spec = RoutingEngineSpec::OrderPair { lanes, vlans, sampled_vlans, sample_percent, seed };
    planned(t, fabric, spec, &OrderPair { lanes, vlans, sampled_vlans, sample_percent, seed })
}

fn dfsssp(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, seed) = (lanes_budget(t, 8), seed(t));
    planned(t, fabric, RoutingEngineSpec::Dfsssp { lanes, seed }, &Dfsssp { lanes_max: lanes, seed })
}

fn lash(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let (lanes, seed) = (lanes_budget(t, 8), seed(t));
    planned(t, fabric, RoutingEngineSpec::Lash { lanes, seed }, &Lash { lanes_max: lanes, seed })
}

/// Tables from a file, or from a folder with `tables.csv`, `tables.json` or a file for each Linux bridge.
fn plan_file(t: &mut Table, fabric: &Fabric) -> Option<Planned> {
    let doc = "Tables as `pauseframe route plan` writes them, an LFT dump of OpenSM, or a folder";
    let source = file::source(t, fabric.base_dir, doc, |path| load_tables(path, fabric));
    let guess = |source: &file::Source| {
        let by_text = if source.text.starts_with('{') { TableFormat::Json } else { TableFormat::Csv };
        TableFormat::of(Path::new(&source.name)).unwrap_or(by_text)
    };
    let known = source.as_ref().map_or(TableFormat::Csv, guess);
    let origin = Origin::Computed("by the extension".to_owned());
    let format = t.or_because("format", known, origin, "by the extension of path", "Format of the tables");
    let (source, graph) = (source?, fabric.graph?);
    match tables_io::read(&source.name, &source.text, format, graph, fabric.labels) {
        Ok(import) => {
            for note in &import.notes {
                t.ledger.warn(format!("{}: {note}", source.name));
            }
            let (path, digest) = (source.name, source.digest);
            Some((RoutingEngineSpec::Plan { path, digest }, import.tables))
        }
        Err(error) => {
            let key = if t.has("path") { "path" } else { "text" };
            t.check(false, key, || error.to_string(), "");
            None
        }
    }
}

fn load_tables(path: &Path, fabric: &Fabric) -> Result<String, String> {
    let read = |path: &Path| files::read_text(path).map_err(|e| format!("{}: {e}", path.display()));
    if !path.is_dir() {
        return read(path);
    }
    if let Some(file) = ["tables.csv", "tables.json"].iter().map(|name| path.join(name)).find(|f| f.is_file())
    {
        return read(&file);
    }
    let Some(graph) = fabric.graph else { return Err("the topology is wrong".to_owned()) };
    let import = tables_io::read_path(path, None, graph, fabric.labels);
    let import = import.map_err(|error| format!("there is no tables.csv or tables.json; {error}"))?;
    tables_io::write(&import.tables, TableFormat::Csv, graph, fabric.labels).map_err(|e| e.to_string())
}

/// What tables and switches must agree on, now that both are known.
pub(crate) fn judge(
    ledger: &mut Ledger,
    routing: &RoutingSpec,
    graph: Option<&Topology>,
    switch: &SwitchSpec,
    transports: &[Named],
) {
    let Some(graph) = graph else { return };
    let lossless = switch.pfc.as_ref().is_some_and(|pfc| {
        pfc.whole_link || transports.iter().any(|transport| transport.is_used && transport.spec.lossless)
    });
    let Some(vlans) = &routing.vlans else {
        if routing.kind != RoutingKind::Vlans && lossless {
            warn_of_ecmp(ledger, graph);
        }
        return;
    };
    check_lanes(ledger, routing, switch, transports);
    let tables = &vlans.tables.0;
    if let Some(vlan) = tables.vlans().iter().find(|vlan| vlan.id > VLAN_MAX) {
        let message = format!("VLAN {} is above {VLAN_MAX}, the last of IEEE 802.1Q", vlan.id);
        ledger.problem("routing", message, "number the VLANs from 1");
    }
    match verify(graph, tables, &Options { examples: 1, ..Options::default() }) {
        Ok(report) => {
            report_on(ledger, &report, lossless);
            if switch.pfc.as_ref().is_some_and(|pfc| pfc.whole_link) && !report.can_deadlock {
                check_merged_lanes(ledger, graph, tables);
            }
        }
        Err(error) => ledger.problem("routing", error.to_string(), ""),
    }
}

/// Routes that can not deadlock lane by lane must not do so when a pause stops all lanes of a link together.
fn check_merged_lanes(ledger: &mut Ledger, graph: &Topology, tables: &Tables) {
    if tables.lanes() < 2 || ledger.failed("switch.pfc.whole_link") {
        return;
    }
    match verify(graph, &tables.in_one_lane(), &Options { examples: 1, ..Options::default() }) {
        Ok(report) if report.can_deadlock => {
            let arc = |arc: &CycleArc| {
                let CycleArc { held, wanted, witness } = arc;
                format!("{} waits for {} ({} to {})", held.port, wanted.port, witness.from, witness.to)
            };
            let shown: Vec<String> = report.shortest_cycle.iter().take(SHOWN_ARCS).map(arc).collect();
            let more = report.shortest_cycle.len().saturating_sub(SHOWN_ARCS);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let message = format!(
                "true: a pause stops all {} lanes of a link together, and without lanes these routes can deadlock: {}{more}",
                tables.lanes(),
                shown.join(", ")
            );
            let hint = "leave it off (PFC pauses each lane by itself), or plan for one lane with routing.kind = \"up_down\"";
            ledger.problem("switch.pfc.whole_link", message, hint);
        }
        Ok(_) => {}
        Err(error) => ledger.problem("routing", error.to_string(), ""),
    }
}

fn report_on(ledger: &mut Ledger, report: &Report, lossless: bool) {
    if let Some(pair) = report.unreachable.examples.first() {
        let message = format!(
            "no VLAN leads from {:?} to {:?} ({} pairs of hosts without a route)",
            pair.from, pair.to, report.unreachable.count
        );
        ledger.problem("routing", message, "add rows or senders for them, or plan again for this topology");
    }
    if let (true, true, Some(arc)) = (report.can_deadlock, lossless, report.shortest_cycle.first()) {
        ledger.warn(format!(
            "routing: these routes can deadlock under PFC: {} buffers wait for each other in a circle, {} among them ({} to {})",
            report.shortest_cycle.len(),
            arc.held.port,
            arc.witness.from,
            arc.witness.to
        ));
    }
}

/// A lossless priority for every lane, and all of them at the disposal of the routes.
fn check_lanes(ledger: &mut Ledger, routing: &RoutingSpec, switch: &SwitchSpec, transports: &[Named]) {
    let (lanes, Some(pfc)) = (routing.lanes(), &switch.pfc) else { return };
    let has = pfc.priorities.len();
    if lanes > has && !ledger.failed("switch.pfc.priorities") {
        let message = format!("{has} lossless priorities for {lanes} lanes of the routes");
        let hint = format!("name {lanes}, or lower routing.lanes to {has}; up_down needs one lane");
        ledger.problem("switch.pfc.priorities", message, hint);
    }
    let given = transports.iter().filter(|t| t.is_used && t.spec.lossless && t.priority.is_some());
    for Named { path, .. } in given {
        if lanes > 1 {
            ledger
                .warn(format!("{path}.priority: the lane of its VLAN gives a lossless packet its priority"));
        }
    }
}

/// Says if shortest paths can deadlock; silent on fabrics where it would take long to find out.
fn warn_of_ecmp(ledger: &mut Ledger, graph: &Topology) {
    let Ok(switches) = SwitchGraph::new(graph) else { return };
    let turns: u64 = (0..switches.len() as u32).map(|s| (switches.arcs(s).len() as u64).pow(2)).sum();
    if turns * switches.attachments().len() as u64 > ECMP_TURNS_MAX {
        return;
    }
    let Ok(hops) = NextHops::shortest(graph) else { return };
    let Ok(mut dependencies) = Dependencies::new(hops.graph(), 1) else { return };
    dependencies.add_next_hops(&hops, 0);
    if let Some(cycle) = dependencies.finish().shortest_cycle() {
        ledger.warn(format!(
            "routing: shortest paths on this topology can deadlock under PFC ({} buffers wait for each other in a circle: {}); \
             order_pair, up_down and edst can not",
            cycle.len(),
            cycle.first().map_or(String::new(), |first| first.describe(graph))
        ));
    }
}
