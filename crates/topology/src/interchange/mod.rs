//! Reads and writes topologies in the file formats of other tools.
//!
//! | format | tool | both ways | what it cannot hold |
//! |---|---|---|---|
//! | [`Format::GraphMl`] | `NetworkX`, yEd, Topology Zoo | yes | |
//! | [`Format::NodeLink`] | `NetworkX` `node_link_data` | yes | |
//! | [`Format::Hpcc`] | ns-3 HPCC `topology.txt` | yes | links whose directions differ |
//! | [`Format::Containerlab`] | containerlab `*.clab.yml`, `topology-data.json` (import) | yes | |
//! | [`Format::Htsim`] | htsim `.topo` | fat trees and leaf-spines | names, port order |
//! | [`Format::IbNetDiscover`] | infiniband-diags `ibnetdiscover` | import | delays |
//!
//! Data that a format cannot hold is written where the format's own tool ignores it: into attributes, labels
//! or comments after the end. So names, kinds, rates, delays and the order of ports survive a round trip.
//! Files of other tools get the caller's [`Defaults`], with a note. The readers do not check the graph;
//! [`crate::check()`] does.

mod attributes;
mod containerlab;
mod draft;
mod graphml;
mod guard;
mod hpcc;
mod htsim;
mod htsim_write;
mod ibnetdiscover;
mod labels;
mod node_link;

pub use draft::{did_you_mean, hint};
use guard::check_name;
pub use guard::read_text;
pub use labels::{Address, Labels};

use crate::{Channel, Topology};
use pauseframe_units::limits::Limit;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use thiserror::Error;

/// A file format for topologies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// GraphML, `.graphml`.
    GraphMl,
    /// Node-link JSON in the shape of `NetworkX`, `.json`.
    NodeLink,
    /// The `topology.txt` of the HPCC simulator and its descendants, `.txt`.
    Hpcc,
    /// htsim, `.topo`.
    Htsim,
    /// containerlab, `.clab.yml` and `topology-data.json`.
    Containerlab,
    /// The text that `ibnetdiscover` prints, `.ibnetdiscover`.
    IbNetDiscover,
}

const FORMATS: [(Format, &str, &[&str]); 6] = [
    (Format::GraphMl, "graphml", &["graphml", "xml"]),
    (Format::NodeLink, "node-link", &["json"]),
    (Format::Hpcc, "hpcc", &["txt"]),
    (Format::Htsim, "htsim", &["topo"]),
    (Format::Containerlab, "containerlab", &["yml", "yaml"]),
    (Format::IbNetDiscover, "ibnetdiscover", &["ibnetdiscover", "ibnd", "net"]),
];

impl Format {
    /// Recognises the format of a file by its extension; `.txt` and `.json` files, which several tools write,
    /// by their content.
    pub fn of(path: &Path, text: &str) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let found = FORMATS.iter().find(|(_, _, extensions)| extensions.contains(&extension.as_str()));
        let fabric = ["switchguid=", "vendid=", "Topology file:"].iter().any(|mark| text.contains(mark));
        // An exported file of containerlab contains "type": "clab".
        let is_lab = |rest: &str| rest.trim_start_matches([':', ' ', '\n']).starts_with("\"clab\"");
        let lab = text.split("\"type\"").skip(1).any(is_lab);
        found.map(|(format, ..)| match format {
            Format::Hpcc if fabric => Format::IbNetDiscover,
            Format::NodeLink if lab => Format::Containerlab,
            format => *format,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FORMATS.iter().find(|(format, ..)| format == self).map_or("", |(_, name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Format {
    type Err = InterchangeError;
    fn from_str(text: &str) -> Result<Format, InterchangeError> {
        FORMATS.iter().find(|(_, name, _)| *name == text).map(|(format, ..)| *format).ok_or_else(|| {
            let known: Vec<_> = FORMATS.iter().map(|(_, name, _)| *name).collect();
            let message = format!("there is no format {text:?}; use one of {}", known.join(", "));
            InterchangeError { file: "format".to_owned(), place: None, message }
        })
    }
}

/// Reasons why a file cannot be read as a topology or as forwarding tables, or why a topology cannot be
/// written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{file}{}: {message}", place.as_ref().map_or(String::new(), |place| format!(", {place}")))]
pub struct InterchangeError {
    /// The name of the file; for a text without a file, the name of the format.
    pub file: String,
    /// The line or element, such as "line 7" or `edges[3]`.
    pub place: Option<String>,
    /// The mistake and a possible remedy.
    pub message: String,
}

/// A mistake and its place, before the file name is known.
#[derive(Clone, Debug)]
pub struct Flaw {
    place: Option<String>,
    message: String,
}

impl Flaw {
    /// A mistake in line `line`, counted from 1.
    pub fn line(line: usize, message: impl Into<String>) -> Flaw {
        Flaw::at(format!("line {line}"), message)
    }

    /// A mistake in an element.
    pub fn at(place: impl Into<String>, message: impl Into<String>) -> Flaw {
        Flaw { place: Some(place.into()), message: message.into() }
    }

    /// A mistake that concerns the whole file.
    pub fn of_file(message: impl Into<String>) -> Flaw {
        Flaw { place: None, message: message.into() }
    }

    /// Adds the name of the file.
    pub fn in_file(self, file: &str) -> InterchangeError {
        InterchangeError { file: file.to_owned(), place: self.place, message: self.message }
    }
}

/// Default values for properties that a file does not contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// Rate and delay of a link.
    pub channel: Channel,
}

/// Part of the limit of bytes for a topology: JSON takes 26 times its size in memory.
const SHARE: u64 = 8;

/// The result of reading a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Import {
    /// The graph, before the checks of [`crate::check()`].
    pub topology: Topology,
    /// Port names in the file, further addresses of nodes, errors of links.
    pub labels: Labels,
    /// Assumptions and omissions, one sentence each.
    pub notes: Vec<String>,
}

/// Reads a topology from `text`.
///
/// # Errors
/// If the text is not in this format or contradicts itself; the error contains the line or the element.
pub fn read(text: &str, format: Format, defaults: Defaults) -> Result<Import, InterchangeError> {
    read_named(&format.to_string(), text, format, defaults)
}

fn read_named(
    file: &str,
    text: &str,
    format: Format,
    defaults: Defaults,
) -> Result<Import, InterchangeError> {
    if text.trim().is_empty() {
        let message = "the file is empty: export the topology again, or name another file";
        return Err(Flaw::of_file(message).in_file(file));
    }
    Limit::Bytes
        .check_share(text.len() as u64, SHARE, "bytes of a topology")
        .map_err(|message| Flaw::of_file(message).in_file(file))?;
    let reader = match format {
        Format::GraphMl => graphml::read,
        Format::NodeLink => node_link::read,
        Format::Hpcc => hpcc::read,
        Format::Htsim => htsim::read,
        Format::Containerlab => containerlab::read,
        Format::IbNetDiscover => ibnetdiscover::read,
    };
    reader(text, defaults).map_err(|flaw| flaw.in_file(file))
}

/// Reads a topology from the file `path`; without `format`, the file name's extension determines the format.
///
/// # Errors
/// The errors of [`read`]; also if the file cannot be read or its extension is unknown.
pub fn read_file(
    path: &Path,
    format: Option<Format>,
    defaults: Defaults,
) -> Result<Import, InterchangeError> {
    let file = path.display().to_string();
    let text = read_text(path)?;
    let format = format.or_else(|| Format::of(path, &text)).ok_or_else(|| {
        let all: Vec<_> =
            FORMATS.iter().map(|(_, name, extensions)| format!("{name} .{}", extensions[0])).collect();
        let message = format!("the extension tells no format: name one of {}", all.join(", "));
        Flaw::of_file(message).in_file(&file)
    })?;
    read_named(&file, &text, format, defaults)
}

/// Writes a topology; where the format requires port names, the ports are named `eth1`, `eth2` ...
///
/// # Errors
/// If the format cannot represent this topology or cannot be written.
pub fn write(topology: &Topology, format: Format) -> Result<String, InterchangeError> {
    write_labelled(topology, &Labels::default(), format)
}

/// Writes a topology with the port names and addresses of an import.
///
/// # Errors
/// The errors of [`write()`].
pub fn write_labelled(
    topology: &Topology,
    labels: &Labels,
    format: Format,
) -> Result<String, InterchangeError> {
    // Only the attributes of GraphML and JSON can say that a node is a port of a host.
    let (joined, of_joined) = &labels.join_hosts(topology);
    let written = writable_names(topology).and_then(|()| match format {
        Format::GraphMl => graphml::write(topology, labels),
        Format::NodeLink => Ok(node_link::write(topology, labels)),
        Format::Hpcc => hpcc::write(joined, of_joined),
        Format::Htsim => htsim_write::write(joined),
        Format::Containerlab => Ok(containerlab::write(joined, of_joined)),
        Format::IbNetDiscover => Err(Flaw::of_file("this format can be read only: use graphml or node-link")),
    });
    written.map_err(|flaw| flaw.in_file(&format.to_string()))
}

/// Rejects names that no reader accepts; every format identifies nodes by their names.
fn writable_names(topology: &Topology) -> Result<(), Flaw> {
    let mut names = std::collections::BTreeSet::new();
    for node in topology.nodes() {
        let named =
            if node.name.is_empty() { Err("a node has no name".to_owned()) } else { check_name(&node.name) };
        named.map_err(|message| Flaw::of_file(format!("this topology cannot be written: {message}")))?;
        if !names.insert(&node.name) {
            return Err(Flaw::of_file(format!(
                "two nodes are called {:?}: give each its own name",
                node.name
            )));
        }
    }
    Ok(())
}
