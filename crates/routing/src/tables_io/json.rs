//! Tables as JSON: an object with the lists `rows`, `lanes`, `rewrites` and `senders`.

use super::builder::{Around, Builder, Lane, Rewrite, Row, Sender};
use super::by_name::{around_rows, for_each_row, port_names};
use crate::verify::Tables;
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::{Flaw, Labels};
use serde::{Deserialize, Serialize};

/// The contents of a file with tables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat {
    #[serde(default)]
    lanes: Vec<Lane>,
    #[serde(default)]
    rewrites: Vec<Rewrite>,
    rows: Vec<Row>,
    #[serde(default)]
    senders: Vec<Sender>,
}

pub(super) fn read(text: &str, builder: &mut Builder<'_>) -> Result<(), Flaw> {
    let Flat { lanes, rewrites, rows, senders } = serde_json::from_str(text)
        .map_err(|error| Flaw::of_file(format!("this is not a table in JSON: {error}")))?;
    Around { lanes, rewrites, senders }.add_to(builder)?;
    for (i, Row { switch, vlan, destination, port }) in rows.iter().enumerate() {
        builder
            .named_row(("row", i as u32), [switch, destination, port], *vlan)
            .map_err(|message| Flaw::at(format!("rows[{i}]"), message))?;
    }
    Ok(())
}

pub(super) fn write(tables: &Tables, topology: &Topology, labels: &Labels) -> Result<String, Flaw> {
    let Around { lanes, rewrites, senders } = around_rows(tables, topology);
    let name = |node| topology.nodes()[node].name.clone();
    let ports = port_names(topology, labels);
    let mut rows = Vec::new();
    for_each_row(tables, topology, |switch, vlan, destination, port| {
        let (switch, destination) = (name(switch), name(destination));
        rows.push(Row { switch, vlan, destination, port: ports[port.0 as usize].clone() });
        Ok(())
    })?;
    let text = serde_json::to_string_pretty(&Flat { lanes, rewrites, rows, senders });
    text.map(|text| text + "\n").map_err(|error| Flaw::of_file(error.to_string()))
}
