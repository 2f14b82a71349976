//! Reads and writes forwarding tables: CSV, Parquet and JSON, LFT dumps of InfiniBand fabrics, and the `bridge -j fdb
//! show` of Linux switches.
//!
//! Switches, ports and hosts must exist in the topology; an unknown one is an error with file, line and the nearest
//! name. Rows of one file may come in any order. If a format has no lanes, every VLAN is in lane 0 until
//! [`Tables::assign_lanes`].

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
use crate::Topology;
use crate::interchange::{Flaw, InterchangeError, Labels, read_text};
use builder::Builder;
use service_levels::ServiceLevels;
use std::collections::BTreeMap;
use std::path::Path;

/// A file format for tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFormat {
    /// Blocks of comma-separated values, each with its header: `switch,vlan,destination,port`, and optionally
    /// `vlan,lane`, `switch,vlan,lane` (a rewrite) and `vlan,from,to` (allowed senders). A destination is a host, or a
    /// switch for all its hosts.
    Csv,
    /// The same blocks as lists of objects: `rows`, `lanes`, `rewrites`, `senders`.
    Json,
    /// The rows in columns, the rest in the metadata: compact, for tables of any size. In files only, not as text.
    Parquet,
    /// The output of `dump_lfts.sh`, `ibroute` and `OpenSM` (`opensm-lfts.dump`). With an LMC, LID offsets are VLANs.
    OpenSm,
}

impl TableFormat {
    /// The format of a file by its extension: `.csv`, `.parquet`, `.json`, and `.lft`, `.lfts`, `.dump`, `.txt` or `.fdbs`.
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

/// Tables, and notes on ignored parts of the file.
#[derive(Clone, Debug)]
pub struct TableImport {
    /// The tables.
    pub tables: Tables,
    /// Assumptions and ignored parts.
    pub notes: Vec<String>,
}

/// Reads tables for `topology` from `text`. `file` is for messages; `labels` are those of the topology's import.
///
/// # Errors
/// With file and line: syntax errors, switches, ports and hosts missing in the topology, duplicate rows, a VLAN without
/// a lane, a host without exactly one link.
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
            TableFormat::OpenSm => opensm::read(text, labels, None, &mut builder)?,
        }
        builder.finish()
    };
    read().map_err(|flaw: Flaw| flaw.in_file(file))
}

/// Reads one `bridge -j fdb show` output per switch: switch name to JSON. MAC addresses are those in `labels`;
/// [`read_addresses`] adds more.
///
/// # Errors
/// As [`read`].
pub fn read_bridges(
    outputs: &BTreeMap<String, String>,
    topology: &Topology,
    labels: &Labels,
) -> Result<TableImport, InterchangeError> {
    let mut builder = Builder::new(topology, labels).map_err(|flaw| flaw.in_file("topology"))?;
    for (switch, text) in outputs {
        bridge::read(switch, text, labels, &mut builder)
            .map_err(|flaw| flaw.in_file(&format!("{switch}.json")))?;
    }
    builder.finish().map_err(|flaw| flaw.in_file("bridge tables"))
}

/// Reads tables from a file, from a folder with `tables.csv` or `tables.parquet`, from one with `opensm-lfts.dump` and
/// its companions, or from a folder of `SWITCH.json` files with bridge tables.
///
/// # Errors
/// As [`read`], and if a file cannot be read or its format is unknown.
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

/// Names of `OpenSM`'s dumps.
const LFTS: &str = "opensm-lfts.dump";
const PATH_RECORDS: &str = "opensm-path-records.dump";
const SL2VL: &str = "opensm-sl2vl.dump";

/// The dumps of `OpenSM` in a folder; those with lanes are optional.
fn read_opensm(folder: &Path, topology: &Topology, labels: &Labels) -> Result<TableImport, InterchangeError> {
    let file = |name: &str| folder.join(name).display().to_string();
    let text = |name: &str| {
        let path = folder.join(name);
        path.is_file().then(|| read_text(&path)).transpose()
    };
    let lfts = read_text(&folder.join(LFTS))?;
    let mut builder = Builder::new(topology, labels).map_err(|flaw| flaw.in_file("topology"))?;
    let paths = text(PATH_RECORDS)?.map(|text| ServiceLevels::of_paths(&text, labels, &builder)).transpose();
    let mut levels = paths.map_err(|flaw| flaw.in_file(&file(PATH_RECORDS)))?;
    match (&mut levels, text(SL2VL)?) {
        (Some(levels), Some(text)) => {
            levels.read_lanes(&text, labels, &builder).map_err(|flaw| flaw.in_file(&file(SL2VL)))?;
        }
        (None, Some(_)) => builder.notes.push(format!(
            "{SL2VL} was not used: which path has which service level stands in {PATH_RECORDS}, and that is not there"
        )),
        _ => {}
    }
    let read = opensm::read(&lfts, labels, levels.as_ref(), &mut builder).and_then(|()| builder.finish());
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
/// With the line, if the header is missing or a node is unknown.
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
/// If the format is import only.
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

/// The same into a writer, also as Parquet; CSV and Parquet row by row, so that large tables need no further memory.
///
/// # Errors
/// As [`write()`], and if `out` fails.
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
