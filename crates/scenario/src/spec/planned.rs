//! Forwarding tables of a scenario, planned by an engine during reading, so that mistakes (an insufficient budget of
//! lanes or VLANs, invalid parameters) are errors before the run.

use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_routing::verify::Tables;
use pauseframe_routing::{RoutingEngine, RoutingError};
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::did_you_mean;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, SwitchGraph, Topology};
use pauseframe_units::NodeId;
use pauseframe_units::files;
use std::path::Path;

/// Input of the planning.
pub(crate) struct Fabric<'a> {
    /// `None` if the topology is wrong, so that nothing can be planned.
    pub(crate) graph: Option<&'a Topology>,
    pub(crate) labels: &'a Labels,
    /// The folder of relative file names.
    pub(crate) base_dir: &'a Path,
}

/// The planned tables.
pub(super) type Planned = Tables;

/// The number of the first VLAN in planned tables.
const FIRST_VLAN: u16 = 1;

/// The name of a host of the topology.
pub(super) fn known_host(t: &mut Table, key: &'static str, doc: &str, fabric: &Fabric) -> Option<String> {
    let name: String = t.required(key, doc)?;
    if let Some(graph) = fabric.graph {
        let known = graph.find(&name).is_some_and(|node| graph.nodes()[node].kind == NodeKind::Host);
        let hosts = || graph.nodes().iter().filter(|node| node.kind == NodeKind::Host);
        let near = if known { String::new() } else { did_you_mean(&name, hosts().map(|n| n.name.as_str())) };
        t.check(known, key, || format!("there is no host {name:?}"), &near);
    }
    Some(name)
}

/// The switch of a key, if set.
pub(super) fn known_switch(t: &mut Table, key: &str, name: Option<&str>, fabric: &Fabric) -> Option<NodeId> {
    let (name, graph) = (name?, fabric.graph?);
    let node = graph.find(name).filter(|node| graph.nodes()[*node].kind == NodeKind::Switch);
    let switches = graph.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
    let near = did_you_mean(name, switches.map(|node| node.name.as_str()));
    t.check(node.is_some(), key, || format!("there is no switch {name:?}"), &near);
    node
}

/// The tables of an engine; its errors become problems at the responsible key.
pub(super) fn planned(t: &mut Table, fabric: &Fabric, engine: &dyn RoutingEngine) -> Option<Planned> {
    let graph = fabric.graph?;
    let switches = SwitchGraph::new(graph).map_err(RoutingError::from);
    let plan = switches.and_then(|switches| engine.plan(graph, &switches));
    match plan {
        Ok(plan) => {
            for note in plan.notes() {
                t.ledger.warn(format!("{}: {note}", t.at("kind")));
            }
            Some(Tables::of_plan(&plan, FIRST_VLAN))
        }
        Err(error) => {
            let (key, hint) = blame(&error);
            t.check(false, key, || error.to_string(), hint);
            None
        }
    }
}

/// The key and the remedy of an engine's error.
fn blame(error: &RoutingError) -> (&'static str, &'static str) {
    match error {
        RoutingError::Lanes { .. } => {
            ("lanes", "raise lanes, or plan with order_pair (two lanes) or up_down (one)")
        }
        RoutingError::Parameter { parameter: "lanes_max", .. } => ("lanes", ""),
        RoutingError::Parameter { parameter, .. } => (parameter, ""),
        RoutingError::TooLarge { .. } | RoutingError::Rows { .. } => ("kind", "use fewer VLANs"),
        RoutingError::Engine { .. } | RoutingError::Setting { .. } | RoutingError::Stopped(_) => ("kind", ""),
        RoutingError::Unreachable { .. }
        | RoutingError::HostLinks { .. }
        | RoutingError::Nothing(_)
        | RoutingError::Graph(_) => ("kind", "mend the topology"),
    }
}

/// The text of tables from a file or a folder; binary formats are converted to CSV.
pub(super) fn load_tables(path: &Path, fabric: &Fabric) -> Result<String, String> {
    let read = |path: &Path| files::read_text(path).map_err(|e| format!("{}: {e}", path.display()));
    if !path.is_dir() && TableFormat::of(path) != Some(TableFormat::Parquet) {
        return read(path);
    }
    if let Some(file) = ["tables.csv", "tables.json"].iter().map(|name| path.join(name)).find(|f| f.is_file())
    {
        return read(&file);
    }
    let Some(graph) = fabric.graph else { return Err("the topology is wrong".to_owned()) };
    let import = tables_io::read_path(path, None, graph, fabric.labels);
    let import = import.map_err(|error| error.to_string())?;
    tables_io::write(&import.tables, TableFormat::Csv, graph, fabric.labels).map_err(|e| e.to_string())
}
