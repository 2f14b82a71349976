//! Reads and writes topologies in the formats of other tools.
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
//! Data without a place in a format is written where its own tool ignores it: attributes, labels, comments after the
//! end. So names, kinds, rates, delays and the order of ports survive a round trip. Foreign files get the caller's
//! [`Defaults`], with a note. Graphs are checked elsewhere: [`crate::check()`].

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

pub(crate) use draft::{did_you_mean, hint};
use guard::check_name;
pub use guard::read_text;
pub use labels::{Address, Labels};

use crate::{Channel, Topology};
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
    /// The format of a file by its extension; `.txt` and `.json`, which several tools write, by their text.
    pub fn of(path: &Path, text: &str) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let found = FORMATS.iter().find(|(_, _, extensions)| extensions.contains(&extension.as_str()));
        let fabric = ["switchguid=", "vendid=", "Topology file:"].iter().any(|mark| text.contains(mark));
        // An export of containerlab says "type": "clab".
        let is_lab = |rest: &str| rest.trim_start_matches([':', ' ', '\n']).starts_with("\"clab\"");
        let lab = text.split("\"type\"").skip(1).any(is_lab);
        found.map(|(format, ..)| match format {
            Format::Hpcc if fabric => Format::IbNetDiscover,
            Format::NodeLink if lab => Format::Containerlab,
            format => *format,
        })
    }

    /// Whether [`write()`] can write this format.
    pub fn is_writable(self) -> bool {
        self != Format::IbNetDiscover
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

/// Why a file is not a topology or a set of tables, or why one cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{file}{}: {message}", place.as_ref().map_or(String::new(), |place| format!(", {place}")))]
pub struct InterchangeError {
    /// The file, or the format without a file.
    pub file: String,
    /// "line 7", `edges[3]`.
    pub place: Option<String>,
    /// The problem and the remedy.
    pub message: String,
}

/// The problem and its place, before the file is known.
#[derive(Clone, Debug)]
pub(crate) struct Flaw {
    place: Option<String>,
    message: String,
}

impl Flaw {
    /// A flaw in line `line`, counted from 1.
    pub(crate) fn line(line: usize, message: impl Into<String>) -> Flaw {
        Flaw::at(format!("line {line}"), message)
    }

    /// A flaw of an element.
    pub(crate) fn at(place: impl Into<String>, message: impl Into<String>) -> Flaw {
        Flaw { place: Some(place.into()), message: message.into() }
    }

    /// A flaw of the whole file.
    pub(crate) fn of_file(message: impl Into<String>) -> Flaw {
        Flaw { place: None, message: message.into() }
    }

    pub(crate) fn in_file(self, file: &str) -> InterchangeError {
        InterchangeError { file: file.to_owned(), place: self.place, message: self.message }
    }
}

/// Values for links without them in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// Rate and delay of a link.
    pub channel: Channel,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The graph, not yet judged by [`crate::check()`].
    pub topology: Topology,
    /// Names of ports and further addresses of nodes in the file.
    pub labels: Labels,
    /// Assumptions and ignored parts, one sentence each.
    pub notes: Vec<String>,
}

/// Reads a topology from `text`.
///
/// # Errors
/// If the text is not of this format or contradicts itself; with line or element.
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

/// Reads a topology from the file `path`; without `format` by its extension.
///
/// # Errors
/// As [`read`], and if the file cannot be read or its extension is not known.
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

/// Writes a topology; ports are named `eth1`, `eth2` ... if the format needs names.
///
/// # Errors
/// If the format cannot represent this topology, or is import only.
pub fn write(topology: &Topology, format: Format) -> Result<String, InterchangeError> {
    write_labelled(topology, &Labels::default(), format)
}

/// As the previous function, with imported names of ports and addresses.
///
/// # Errors
/// As [`write()`].
pub fn write_labelled(
    topology: &Topology,
    labels: &Labels,
    format: Format,
) -> Result<String, InterchangeError> {
    let written = writable_names(topology).and_then(|()| match format {
        Format::GraphMl => graphml::write(topology, labels),
        Format::NodeLink => Ok(node_link::write(topology, labels)),
        Format::Hpcc => hpcc::write(topology),
        Format::Htsim => htsim_write::write(topology),
        Format::Containerlab => Ok(containerlab::write(topology, labels)),
        Format::IbNetDiscover => Err(Flaw::of_file("this format can be read only: use graphml or node-link")),
    });
    written.map_err(|flaw| flaw.in_file(&format.to_string()))
}

/// Names identify nodes in every format; names that no reader accepts are not written.
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
