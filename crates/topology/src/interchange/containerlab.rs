//! containerlab's `*.clab.yml` (topology definition file) and `topology-data.json`. containerlab writes
//! `topology-data.json` into the folder of a lab, with the same nodes and the links that it created
//! (containerlab `core/export_templates/auto.tmpl`).
//!
//! The reader accepts nodes with their kind (from the node, its group or the defaults) and links in the brief
//! and the extended veth form; interface names and MAC addresses become [`Labels`]. A node of kind `linux`
//! with one link becomes a host and any other node a switch, unless the label `pauseframe-kind` says
//! otherwise. Labels of a link contain rates and delays (`rate`, `delay`); files of other tools have none.
//! The reader skips links to the machine that runs the lab, with a note.

use super::attributes::{Attributes, channels, kind_name, of_channels, of_frame_error, read_frame_error};
use super::draft::{Draft, number};
use super::guard::{DEPTH_MAX, check_name};
use super::{Address, Defaults, Flaw, Import, Labels};
use crate::{NodeKind, Topology};
use pauseframe_units::{PortId, counted};
use saphyr::{MarkedYaml, YamlData, YamlLoader};
use saphyr_parser::{Event, Parser};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Link ends that are not nodes of the lab.
const OUTSIDE: [&str; 6] = ["host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"];
const KIND_LABEL: &str = "pauseframe-kind";
const LEVEL_LABEL: &str = "pauseframe-level";

type Yaml<'a> = MarkedYaml<'a>;

/// One end of a link.
struct End {
    node: String,
    interface: String,
    mac: Option<String>,
}

struct LinkEntry {
    line: usize,
    ends: [End; 2],
    labels: Attributes,
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    bound(text)?;
    let mut loader = YamlLoader::<Yaml<'_>>::default();
    // The loader keeps scalars as text, because a node may have the name 7 or no.
    loader.early_parse(false);
    let loaded = Parser::new_from_str(text).load(&mut loader, false);
    if let Err(error) = loaded.and_then(|()| loader.error().cloned().map_or(Ok(()), Err)) {
        return Err(Flaw::line(error.marker().line(), format!("this is not YAML: {}", error.info())));
    }
    let documents = loader.into_documents();
    let missing = || Flaw::of_file("there is no topology with nodes: is this a containerlab file?");
    let document = documents.first().ok_or_else(missing)?;
    // An exported file has nodes and links at its top level, and "type": "clab".
    let topology = get(document, "topology").unwrap_or(document);
    if get(document, "topology").is_some() {
        no_misplaced_keys(document)?;
    }
    let nodes = get(topology, "nodes").map(entries).ok_or_else(missing)?;
    let mut left_out = 0;
    let mut links = Vec::new();
    for link in get(topology, "links").map(items).unwrap_or_default() {
        match read_link(link)? {
            Some(link) => links.push(link),
            None => left_out += 1,
        }
    }
    let mut draft = Draft::new(defaults);
    add_nodes(&mut draft, topology, &nodes, &links)?;
    for link in &links {
        add_link(&mut draft, link).map_err(Flaw::on(link.line))?;
    }
    if left_out > 0 {
        draft.notes.push(format!("left out: {} out of the lab or to nowhere", counted(left_out, "link")));
    }
    Ok(draft.finish())
}

/// Keys of `topology:`, which have no meaning beside it.
const KEYS_OF_TOPOLOGY: [&str; 5] = ["nodes", "links", "kinds", "groups", "defaults"];

fn no_misplaced_keys(document: &Yaml<'_>) -> Result<(), Flaw> {
    let misplaced = |key: &&str| KEYS_OF_TOPOLOGY.contains(key);
    match entries(document).into_iter().find(|(key, _)| misplaced(key)) {
        Some((key, value)) => Err(Flaw::line(
            line(value),
            format!("{key} belongs below topology: indent it as deep as the other keys of topology"),
        )),
        None => Ok(()),
    }
}

/// Maximum number of nodes of a YAML document in which every alias is expanded.
const NODES_MAX: usize = 10_000_000;

/// Rejects documents that would exhaust the stack (the loader recurses at every level) or, by aliases of
/// aliases, the memory.
fn bound(text: &str) -> Result<(), Flaw> {
    // The anchor of every open collection, and the number of nodes before that collection.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut count = 0_usize;
    for event in Parser::new_from_str(text) {
        // The YAML loader reports syntax errors later.
        let Ok((event, span)) = event else { return Ok(()) };
        match event {
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => open.push((anchor, count)),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((anchor, before)) = open.pop() {
                    sizes.insert(anchor, count - before + 1);
                }
            }
            Event::Scalar(_, _, anchor, _) => drop(sizes.insert(anchor, 1)),
            Event::Alias(anchor) => count = count.saturating_add(sizes.get(&anchor).copied().unwrap_or(0)),
            _ => continue,
        }
        count = count.saturating_add(1);
        let line = span.start.line();
        if open.len() > DEPTH_MAX {
            return Err(Flaw::line(
                line,
                format!("the document is nested more than {DEPTH_MAX} levels deep"),
            ));
        }
        if count > NODES_MAX {
            return Err(Flaw::line(
                line,
                format!("the document has more than {NODES_MAX} nodes, aliases written out"),
            ));
        }
    }
    Ok(())
}

fn line(yaml: &Yaml<'_>) -> usize {
    yaml.span.start.line()
}

fn text<'a>(yaml: &'a Yaml<'_>) -> Option<&'a str> {
    match &yaml.data {
        YamlData::Representation(text, ..) => Some(text),
        _ => None,
    }
}

fn entries<'a, 'b>(yaml: &'a Yaml<'b>) -> Vec<(&'a str, &'a Yaml<'b>)> {
    match &yaml.data {
        YamlData::Mapping(mapping) => {
            mapping.iter().filter_map(|(key, value)| Some((text(key)?, value))).collect()
        }
        _ => Vec::new(),
    }
}

fn items<'a, 'b>(yaml: &'a Yaml<'b>) -> Vec<&'a Yaml<'b>> {
    match &yaml.data {
        YamlData::Sequence(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn get<'a, 'b>(yaml: &'a Yaml<'b>, key: &str) -> Option<&'a Yaml<'b>> {
    entries(yaml).into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn texts(yaml: Option<&Yaml<'_>>) -> Attributes {
    let pairs = yaml.map(entries).unwrap_or_default();
    pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), text(value)?.to_owned()))).collect()
}

/// Reads a link of the lab; returns none if the link leads out of the lab.
fn read_link(link: &Yaml<'_>) -> Result<Option<LinkEntry>, Flaw> {
    let outside = |name: &str| OUTSIDE.contains(&name);
    if get(link, "type").and_then(text).is_some_and(outside) {
        return Ok(None);
    }
    let line = line(link);
    // Exported files contain {"a": ..., "z": ...}, since containerlab 0.73 inside of "endpoints".
    let endpoints = get(link, "endpoints");
    let sides = endpoints.unwrap_or(link);
    let is_export = get(sides, "a").is_some();
    let ends = if is_export {
        ["a", "z"].into_iter().filter_map(|side| get(sides, side)).collect()
    } else {
        endpoints.map(items).unwrap_or_default()
    };
    if is_export && ends.len() == 1 {
        return Ok(None);
    }
    let [a, b] = ends[..] else {
        return Err(Flaw::line(
            line,
            "a link has two endpoints: write endpoints: [\"leaf1:eth1\", \"leaf2:eth1\"]",
        ));
    };
    let ends = [read_end(a)?, read_end(b)?];
    if ends.iter().any(|end| outside(&end.node)) {
        return Ok(None);
    }
    let mut labels = texts(get(link, "vars"));
    labels.extend(texts(get(link, "labels")));
    Ok(Some(LinkEntry { line, ends, labels }))
}

fn read_end(end: &Yaml<'_>) -> Result<End, Flaw> {
    let brief =
        text(end).and_then(|text| text.rsplit_once(':')).map(|(node, interface)| (node, interface, None));
    let field = |key| get(end, key).and_then(text);
    let extended = || Some((field("node")?, field("interface").unwrap_or_default(), field("mac")));
    let Some((node, interface, mac)) = brief.or_else(extended) else {
        return Err(Flaw::line(
            line(end),
            "an endpoint is written \"node:interface\", or with node and interface",
        ));
    };
    Ok(End { node: node.to_owned(), interface: interface.to_owned(), mac: mac.map(str::to_owned) })
}

fn add_nodes(
    draft: &mut Draft,
    topology: &Yaml<'_>,
    nodes: &[(&str, &Yaml<'_>)],
    links: &[LinkEntry],
) -> Result<(), Flaw> {
    let mut degree: BTreeMap<&str, usize> = BTreeMap::new();
    for end in links.iter().flat_map(|link| &link.ends) {
        *degree.entry(&end.node).or_default() += 1;
    }
    let mut routers = 0;
    for (name, node) in nodes {
        let flaw = Flaw::on(line(node));
        let group = get(node, "group").and_then(text).and_then(|group| get(get(topology, "groups")?, group));
        let places = [Some(*node), group, get(topology, "defaults")];
        let theirs = places.into_iter().flatten().find_map(|place| get(place, "kind").and_then(text));
        let labels = texts(get(node, "labels"));
        let kind = match labels.get(KIND_LABEL).map(String::as_str) {
            Some("host") => NodeKind::Host,
            Some("switch") => NodeKind::Switch,
            Some(other) => return Err(flaw(format!("{KIND_LABEL} is {other:?}: write host or switch"))),
            None if theirs != Some("linux") => NodeKind::Switch,
            None if degree.get(name).is_some_and(|links| *links > 1) => {
                routers += 1;
                NodeKind::Switch
            }
            None => NodeKind::Host,
        };
        let level = labels.get(LEVEL_LABEL).map(|level| number(level, "a level")).transpose();
        draft.node(name, kind, level.map_err(&flaw)?).map_err(flaw)?;
    }
    if routers > 0 {
        draft.notes.push(format!(
            "taken for switches: {} of kind linux with several links",
            counted(routers, "node")
        ));
    }
    Ok(())
}

fn add_link(draft: &mut Draft, link: &LinkEntry) -> Result<(), String> {
    let nodes = [draft.find(&link.ends[0].node)?, draft.find(&link.ends[1].node)?];
    let id = draft.link(nodes, channels(&link.labels)?);
    read_frame_error(draft, id, &link.labels)?;
    for (end, entry) in link.ends.iter().enumerate() {
        let port = PortId::of_link(id, end);
        if !entry.interface.is_empty() {
            draft.name_port(port, &entry.interface)?;
        }
        if let Some(mac) = &entry.mac {
            check_name(mac)?;
            draft.labels.add_address(mac, Address { node: nodes[end], port: Some(port), path: 0 });
        }
    }
    Ok(())
}

pub(super) fn write(topology: &Topology, labels: &Labels) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text =
        "# Give each kind an image before you deploy this lab.\nname: fabric\ntopology:\n  nodes:\n"
            .to_owned();
    for node in topology.nodes() {
        let kind = if node.kind == NodeKind::Host { "linux" } else { "sonic-vs" };
        let ours = kind_name(node.kind);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {}:\n      kind: {kind}\n      labels:", quoted(&node.name));
        let _ = writeln!(text, "        {KIND_LABEL}: {ours}");
        if let Some(level) = node.level {
            let _ = writeln!(text, "        {LEVEL_LABEL}: \"{level}\"");
        }
    }
    text += "  links:\n";
    let macs = labels.addresses().filter(|(text, _)| text.contains(':'));
    let macs: BTreeMap<PortId, &str> = macs.filter_map(|(text, at)| Some((at.port?, text))).collect();
    for (id, link) in topology.links().iter_enumerated() {
        text += "    - type: veth\n      endpoints:\n";
        for (end, node) in link.ends.into_iter().enumerate() {
            let port = PortId::of_link(id, end);
            let interface = labels.port_or_default(topology, port);
            let _ = writeln!(text, "        - node: {}", quoted(&topology.nodes()[node].name));
            let _ = writeln!(text, "          interface: {}", quoted(&interface));
            if let Some(mac) = macs.get(&port) {
                let _ = writeln!(text, "          mac: {}", quoted(mac));
            }
        }
        text += "      labels:\n";
        for (key, value) in of_channels(link).into_iter().chain(of_frame_error(labels, id)) {
            let _ = writeln!(text, "        {key}: {}", quoted(&value));
        }
    }
    text
}
