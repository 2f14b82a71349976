//! Reads and writes forwarding tables: our own CSV, Parquet and JSON, the LFT dumps of InfiniBand fabrics,
//! and the output of `bridge -j fdb show` on Linux switches.
//!
//! Switches, ports and hosts must exist in the topology; for an unknown name the error contains the file, the
//! line and the most similar name. Rows of a file may have any order. If a format has no lanes, every VLAN is
//! in lane 0 until [`Tables::assign_lanes`].

mod bridge;
mod builder;
mod by_name;
mod delimited;
mod json;
mod lookup;
mod opensm;
mod parquet;
mod service_levels;

use super::verify::Tables;
use builder::Builder;
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::{Flaw, InterchangeError, Labels, read_text};
use service_levels::ServiceLevels;
use std::collections::BTreeMap;
use std::path::Path;

/// A file format for tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFormat {
    /// Blocks of comma-separated values, each with its header: `switch,vlan,destination,port`, and optionally
    /// `vlan,lane`, `switch,vlan,lane` (a rewrite of the lane) and `vlan,from,to` (allowed senders). A
    /// destination is a host, or a switch for all its hosts.
    Csv,
    /// The CSV blocks as lists of objects: `rows`, `lanes`, `rewrites`, `senders`.
    Json,
    /// Table rows as Parquet rows, lanes and senders in the metadata; compact, for tables of any size, but
    /// only in files.
    Parquet,
    /// The output of `dump_lfts.sh`, `ibroute` and `OpenSM` (`opensm-lfts.dump`). With an LMC, LID offsets
    /// become VLANs.
    OpenSm,
}

impl TableFormat {
    /// Recognises the format of a file by its extension: `.csv`, `.parquet`, `.json`, and `.lft`, `.lfts`,
    /// `.dump`, `.txt` or `.fdbs`.
    pub fn of(path: &Path) -> Option<TableFormat> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(TableFormat::Csv),
            "json" => Some(TableFormat::Json),
            "parquet" => Some(TableFormat::Parquet),
            "lft" | "lfts" | "dump" | "txt" | "fdbs" => Some(TableFormat::OpenSm),
            _ => None,
        }
    }
}

/// Tables read from a file, with notes on skipped contents.
#[derive(Clone, Debug)]
pub struct TableImport {
    /// The tables.
    pub tables: Tables,
    /// Assumptions and skipped contents, one sentence each.
    pub notes: Vec<String>,
}

/// Reads tables for `topology` from `text`. Error messages contain the name `file`; `labels` come from the
/// import of the topology.
///
/// # Errors
/// With file and line: text that cannot be parsed, switches, ports and hosts that are not in the topology,
/// two different rows for the same key, a VLAN without a lane, a host without exactly one link.
pub fn read(
    file: &str,
    text: &str,
    format: TableFormat,
    topology: &Topology,
    labels: &Labels,
) -> Result<TableImport, InterchangeError> {
    let read = || {
        let mut builder = Builder::new(topology, labels)?;
        match format {
            TableFormat::Csv => delimited::read(text, &mut builder)?,
            TableFormat::Json => json::read(text, &mut builder)?,
            TableFormat::Parquet => return Err(Flaw::of_file("Parquet is read from a file only")),
            TableFormat::OpenSm => opensm::read(text, None, &mut builder)?,
        }
        builder.finish()
    };
    read().map_err(|flaw: Flaw| flaw.in_file(file))
}

/// Reads one output of `bridge -j fdb show` for each switch: a map from switch name to JSON. `labels`
/// contains the MAC addresses; [`read_addresses`] adds more.
///
/// # Errors
/// The errors of [`read`].
pub fn read_bridges(
    outputs: &BTreeMap<String, String>,
    topology: &Topology,
    labels: &Labels,
) -> Result<TableImport, InterchangeError> {
    let mut builder = Builder::new(topology, labels).map_err(|flaw| flaw.in_file("topology"))?;
    for (switch, text) in outputs {
        bridge::read(switch, text, &mut builder).map_err(|flaw| flaw.in_file(&format!("{switch}.json")))?;
    }
    builder.finish().map_err(|flaw| flaw.in_file("bridge tables"))
}

/// Reads tables from a file, from a folder with `tables.csv` or `tables.parquet` (a plan of this program),
/// from a folder with `opensm-lfts.dump` and its companions, or from a folder of `SWITCH.json` files with
/// bridge tables.
///
/// # Errors
/// The errors of [`read`]; also if a file cannot be read or its extension is unknown.
pub fn read_path(
    path: &Path,
    format: Option<TableFormat>,
    topology: &Topology,
    labels: &Labels,
) -> Result<TableImport, InterchangeError> {
    let file = path.display().to_string();
    let wrong = |path: &Path, message: String| Flaw::of_file(message).in_file(&path.display().to_string());
    let plan = ["tables.csv", "tables.parquet"].map(|name| path.join(name));
    if let Some(plan) = plan.iter().find(|plan| plan.is_file()) {
        return read_path(plan, None, topology, labels);
    }
    if path.join(LFTS).is_file() {
        return read_opensm(path, topology, labels);
    }
    if !path.exists() {
        let message = "there is no such file or folder: name tables, or the folder of a plan";
        return Err(wrong(path, message.into()));
    }
    if !path.is_dir() {
        let format = format.or_else(|| TableFormat::of(path));
        let format = format.ok_or_else(|| {
            wrong(
                path,
                "the extension tells no format: use .csv, .parquet, .json or .lft, or a folder of bridge tables"
                    .into(),
            )
        })?;
        if format == TableFormat::Parquet {
            return read_parquet(path, topology, labels).map_err(|flaw| flaw.in_file(&file));
        }
        return read(&file, &read_text(path)?, format, topology, labels);
    }
    let mut outputs = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(|error| wrong(path, error.to_string()))? {
        let path = entry.map_err(|error| wrong(path, error.to_string()))?.path();
        if path.extension().is_some_and(|extension| extension == "json")
            && let Some(switch) = path.file_stem().and_then(|stem| stem.to_str())
        {
            outputs.insert(switch.to_owned(), read_text(&path)?);
        }
    }
    if outputs.is_empty() {
        let message = format!(
            "this folder has no tables.csv, tables.parquet or {LFTS}, and no SWITCH.json for any switch: name one that has"
        );
        return Err(wrong(path, message));
    }
    read_bridges(&outputs, topology, labels)
}

/// The name of the forwarding-table dump of `OpenSM`.
const LFTS: &str = "opensm-lfts.dump";
const PATH_RECORDS: &str = "opensm-path-records.dump";
const SL2VL: &str = "opensm-sl2vl.dump";

/// Reads the dumps of `OpenSM` in a folder; the dumps with the lanes are optional.
fn read_opensm(folder: &Path, topology: &Topology, labels: &Labels) -> Result<TableImport, InterchangeError> {
    let file = |name: &str| folder.join(name).display().to_string();
    let text = |name: &str| {
        let path = folder.join(name);
        path.is_file().then(|| read_text(&path)).transpose()
    };
    let lfts = read_text(&folder.join(LFTS))?;
    let mut builder = Builder::new(topology, labels).map_err(|flaw| flaw.in_file("topology"))?;
    let paths = text(PATH_RECORDS)?.map(|text| ServiceLevels::of_paths(&text, &builder)).transpose();
    let mut levels = paths.map_err(|flaw| flaw.in_file(&file(PATH_RECORDS)))?;
    match (&mut levels, text(SL2VL)?) {
        (Some(levels), Some(text)) => {
            levels.read_lanes(&text, &builder).map_err(|flaw| flaw.in_file(&file(SL2VL)))?;
        }
        (None, Some(_)) => builder.notes.push(format!(
            "{SL2VL} was not used: which path has which service level stands in {PATH_RECORDS}, and that is not there"
        )),
        _ => {}
    }
    let read = opensm::read(&lfts, levels.as_ref(), &mut builder).and_then(|()| builder.finish());
    read.map_err(|flaw| flaw.in_file(&file(LFTS)))
}

fn read_parquet(path: &Path, topology: &Topology, labels: &Labels) -> Result<TableImport, Flaw> {
    let mut builder = Builder::new(topology, labels)?;
    parquet::read(path, &mut builder)?;
    builder.finish()
}

/// Adds the addresses in `text` (CSV with the header `address,node`) to `labels`.
///
/// # Errors
/// With the line: the header is missing or a node is not in the topology.
pub fn read_addresses(
    file: &str,
    text: &str,
    topology: &Topology,
    labels: &mut Labels,
) -> Result<(), InterchangeError> {
    delimited::read_addresses(text, topology, labels).map_err(|flaw| flaw.in_file(file))
}

/// Writes tables as CSV or JSON.
///
/// # Errors
/// If the format cannot be written as text.
pub fn write(
    tables: &Tables,
    format: TableFormat,
    topology: &Topology,
    labels: &Labels,
) -> Result<String, InterchangeError> {
    let mut bytes = Vec::new();
    write_to(tables, format, topology, labels, &mut bytes)?;
    String::from_utf8(bytes).map_err(|error| Flaw::of_file(error.to_string()).in_file("tables"))
}

/// Writes tables to a writer such as a file, also as Parquet. CSV and Parquet are written row by row, so that
/// large tables need no further memory.
///
/// # Errors
/// The errors of [`write()`]; also if writing to `out` fails.
pub fn write_to(
    tables: &Tables,
    format: TableFormat,
    topology: &Topology,
    labels: &Labels,
    out: &mut (dyn std::io::Write + Send),
) -> Result<(), InterchangeError> {
    let written = match format {
        TableFormat::Csv => delimited::write(tables, topology, labels, out),
        TableFormat::Json => json::write(tables, topology, labels).and_then(|text| {
            out.write_all(text.as_bytes()).map_err(|error| Flaw::of_file(error.to_string()))
        }),
        TableFormat::Parquet => parquet::write(tables, topology, labels, out),
        TableFormat::OpenSm => Err(Flaw::of_file("LFT dumps can be read only: write csv, parquet or json")),
    };
    written.map_err(|flaw| flaw.in_file("tables"))
}
