//! Graphs from files of other tools.

use super::parts::{Flaw, Graph, LinkSpec, Links, sound};
use crate::spec::source::{Source, source};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Choice;
use pauseframe_topology::interchange::{self, Defaults, Format, Import, Labels};
use pauseframe_topology::Topology;
use pauseframe_units::files;
use std::path::Path;
use std::sync::Arc;

/// A graph from a file of another tool.
#[derive(Clone, PartialEq, Debug)]
pub struct File {
    /// As written, relative to the scenario; messages use it.
    pub path: String,
    /// SHA-256 of its text, "sha256:..".
    pub digest: String,
    /// Its content.
    pub fabric: FabricFile,
}

/// The fabric in a file: the graph, the names of ports, and assumptions.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricFile(pub Arc<Import>);

/// A format by its name in scenarios.
#[derive(Clone, Copy, PartialEq)]
struct FormatName(Format);

impl Choice for FormatName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("graphml", Self(Format::GraphMl)),
        ("node-link", Self(Format::NodeLink)),
        ("hpcc", Self(Format::Hpcc)),
        ("htsim", Self(Format::Htsim)),
        ("containerlab", Self(Format::Containerlab)),
        ("ibnetdiscover", Self(Format::IbNetDiscover)),
    ];
}

impl File {
    pub(super) fn read(t: &mut Table, links: &Links) -> Option<File> {
        t.about("File", "A graph from a file of another tool; links without rate or delay get those of `link`");
        let load = |path: &Path| files::read_text(path).map_err(|e| format!("{}: {e}", path.display()));
        let doc = "GraphML, node-link JSON, HPCC, htsim, containerlab or ibnetdiscover file";
        let source = source(t, links.base_dir, doc, load);
        let known = source.as_ref().and_then(|source| Format::of(Path::new(&source.name), &source.text));
        let format = t.or_because(
            "format",
            FormatName(known.unwrap_or(Format::NodeLink)),
            Origin::Computed("by the extension".to_owned()),
            "by the extension of path",
            "Format of the file",
        );
        let source = source?;
        let told = known.is_some() || t.has("format");
        t.check(told, "format", || format!("the name {:?} tells no format", source.name), "set format");
        let Source { name: path, text, digest } = source;
        let key = if t.has("path") { "path" } else { "text" };
        match interchange::read(&text, format.0, Defaults { channel: links.host.channel() }) {
            Ok(import) => {
                if let Err(message) = import.labels.split_hosts(&import.topology) {
                    t.check(false, key, || format!("{path}: {message}"), "");
                    return None;
                }
                for (key, without) in links.host.without_each(LinkSpec::DEFAULT) {
                    let defaults = Defaults { channel: without.channel() };
                    if interchange::read(&text, format.0, defaults).is_ok_and(|same| same.topology == import.topology) {
                        let given = "gives each link its own: it changes nothing";
                        t.ledger.warn(format!("topology.link.{key}: {path} {given}"));
                    }
                }
                for note in &import.notes {
                    t.ledger.warn(format!("{path}: {note}"));
                }
                Some(File { path, digest, fabric: FabricFile(Arc::new(import)) })
            }
            Err(error) => {
                let place = error.place.map_or(String::new(), |place| format!(", {place}"));
                t.check(false, key, || format!("{path}{place}: {}", error.message), "");
                None
            }
        }
    }
}

impl Graph for File {
    fn graph(&self, _: LinkSpec, _: LinkSpec) -> Result<Topology, Vec<Flaw>> {
        sound(&self.fabric.0.topology, &self.fabric.0.labels)
    }

    fn labels(&self) -> Labels {
        let Import { topology, labels, .. } = &*self.fabric.0;
        // The reader has refused what cannot be split.
        labels.split_hosts(topology).map(|(_, labels)| labels).unwrap_or_default()
    }
}
