//! containerlab's `*.clab.yml` (topology definition file) and `topology-data.json`. containerlab writes
//! `topology-data.json` into the folder of a lab, with the same nodes and the links that it created
//! (containerlab `core/export_templates/auto.tmpl`).
//!
//! The reader accepts nodes with their kind (from the node, its group or the defaults) and links in the brief
//! and the extended veth form; interface names and MAC addresses become [`Labels`]. A node of kind `linux`
//! becomes a host, unless it forwards: with several links and the image of a router, or linked to other machines
//! ([`is_host`]). A node of kind `host` is a host too, and any other node a switch. The label `pauseframe-kind` overrides
//! all this. Labels of a link contain rates and delays (`rate`, `delay`); files of other tools have none.
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

/// Words in names of images that make a Linux machine a router or a switch.
const FORWARDING_IMAGES: [&str; 12] = [
    "frr",
    "frrouting",
    "bird",
    "bird2",
    "quagga",
    "vyos",
    "gobgp",
    "openbgpd",
    "holo",
    "freertr",
    "openvswitch",
    "bmv2",
];

/// A node of the lab, before it becomes a host or a switch.
struct Machine {
    line: usize,
    /// Host or switch, as far as label, kind, image and number of links tell.
    kind: Option<NodeKind>,
    /// True if only the image of a Linux machine makes it a switch.
    is_router: bool,
    level: Option<u8>,
}

fn read_machine(topology: &Yaml<'_>, node: &Yaml<'_>, links: usize) -> Result<Machine, Flaw> {
    let flaw = Flaw::on(line(node));
    let group = get(node, "group").and_then(text).and_then(|group| get(get(topology, "groups")?, group));
    let places = [Some(node), group, get(topology, "defaults")];
    let theirs = places.into_iter().flatten().find_map(|place| get(place, "kind").and_then(text));
    let of_kind = theirs.and_then(|kind| get(get(topology, "kinds")?, kind));
    let places = || [Some(node), group, of_kind, get(topology, "defaults")].into_iter().flatten();
    let label = |key| places().find_map(|place| get(get(place, "labels")?, key).and_then(text));
    let image = || places().find_map(|place| get(place, "image").and_then(text)).unwrap_or_default();
    let is_router =
        || image().split(|c: char| !c.is_alphanumeric()).any(|word| FORWARDING_IMAGES.contains(&word));
    let kind = match (label(KIND_LABEL), theirs) {
        (Some("host"), _) | (None, Some("host")) => Some(NodeKind::Host),
        (Some("switch"), _) => Some(NodeKind::Switch),
        (Some(other), _) => return Err(flaw(format!("{KIND_LABEL} is {other:?}: write host or switch"))),
        (None, Some("linux")) if links < 2 => Some(NodeKind::Host),
        (None, Some("linux")) if !is_router() => None,
        (None, _) => Some(NodeKind::Switch),
    };
    let is_router = label(KIND_LABEL).is_none() && theirs == Some("linux") && kind == Some(NodeKind::Switch);
    let level = label(LEVEL_LABEL).map(|level| number(level, "a level")).transpose().map_err(flaw)?;
    Ok(Machine { line: line(node), kind, is_router, level })
}

/// True for a Linux machine whose links all lead to switches: it has several ports, and forwards nothing. One with
/// links to other machines forwards their traffic.
fn is_host(peers: &[&str], machines: &BTreeMap<&str, Machine>) -> bool {
    peers.iter().all(|peer| machines.get(peer).is_none_or(|peer| peer.kind == Some(NodeKind::Switch)))
}

fn add_nodes(
    draft: &mut Draft,
    topology: &Yaml<'_>,
    nodes: &[(&str, &Yaml<'_>)],
    links: &[LinkEntry],
) -> Result<(), Flaw> {
    let mut peers: BTreeMap<&str, Vec<&str>> = nodes.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for [a, b] in links.iter().map(|link| &link.ends) {
        for (one, other) in [(a, b), (b, a)] {
            peers.entry(&one.node).or_default().push(&other.node);
        }
    }
    let mut machines: BTreeMap<&str, Machine> = BTreeMap::new();
    for (name, node) in nodes {
        machines.insert(name, read_machine(topology, node, peers[name].len())?);
    }
    let (mut hosts, mut switches) = (Vec::new(), Vec::new());
    for (name, _) in nodes {
        let Machine { line, kind, level, is_router } = machines[name];
        let is_host = || is_host(&peers[name], &machines);
        let guess = kind.unwrap_or_else(|| if is_host() { NodeKind::Host } else { NodeKind::Switch });
        match guess {
            NodeKind::Host if kind.is_none() => hosts.push(*name),
            NodeKind::Switch if kind.is_none() || is_router => switches.push(*name),
            _ => {}
        }
        draft.node(name, guess, level).map_err(Flaw::on(line))?;
    }
    let mut note = |names: &[&str], taken: &str, why: &str, other: &str| {
        if let Some(first) = names.first() {
            let count = counted(names.len(), "node");
            draft.notes.push(format!(
                "taken for {taken}: {count} of kind linux with several links, such as {first:?} ({why}); the label \
                 {KIND_LABEL}: {other} makes a {other}"
            ));
        }
    };
    note(&hosts, "hosts with several ports", "all to switches", "switch");
    note(&switches, "switches", "image of a router, or links to other machines", "host");
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
