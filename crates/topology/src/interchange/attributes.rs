//! Reads and writes graphs whose nodes and edges carry named attributes (GraphML, node-link JSON), and
//! defines the names of these attributes.
//!
//! Attributes of a node: `kind` ("host" or "switch") and `level`; for a further port of a host that is a node
//! ([`crate::PortOfHost`]), `port_of`, the name of the host, and `port`, its number. Attributes of an edge: `rate` ("10 Gbps")
//! and `delay` ("1 us"); `rate_back` and `delay_back` if the other direction differs; `source_port` and
//! `target_port`; `frame_error`, the probability that a frame is damaged; `link`, the index of the link, because `NetworkX` reorders edges; `from`, because
//! `NetworkX` swaps the ends of edges. The reader also accepts `type` or `role` for the kind, and for the rate `LinkSpeedRaw` (bits
//! per second, Topology Zoo) and, with a unit, `speed`, `bandwidth` or `capacity`; for the delay `latency`. A note names all others.

use super::draft::{Draft, Partial, number};
use super::{Defaults, Flaw, Import, Labels};
use crate::{Link, Node, NodeKind, PortOfHost, Topology};
use pauseframe_units::{BitRate, LinkId, PortId, Span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The attribute of an edge for the probability that a frame is damaged.
pub(super) const FRAME_ERROR: &str = "frame_error";

/// Attributes of an edge that are read, or that only name it.
const READ_OF_EDGE: [&str; 14] = [
    "rate",
    "delay",
    "rate_back",
    "delay_back",
    "source_port",
    "target_port",
    FRAME_ERROR,
    "link",
    "from",
    "LinkSpeedRaw",
    "LinkSpeedRaw_back",
    "label",
    "id",
    "key",
];

/// Other names of the rate and of the delay of a link.
const OTHER_NAMES: [(&str, &str); 4] =
    [("speed", "rate"), ("bandwidth", "rate"), ("capacity", "rate"), ("latency", "delay")];

/// What an attribute under another name says, if it has a unit and the proper one is absent.
fn other_name<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
    let (_, proper) = OTHER_NAMES.iter().find(|(other, _)| *other == name)?;
    let text = attributes.get(name).filter(|_| !attributes.contains_key(*proper))?;
    let has_unit =
        if *proper == "rate" { text.parse::<BitRate>().is_ok() } else { text.parse::<Span>().is_ok() };
    has_unit.then_some(text)
}

/// Values of attributes by their names.
pub(super) type Attributes = BTreeMap<String, String>;

/// A node as read from a file.
#[derive(Debug)]
pub(super) struct RawNode {
    pub(super) place: String,
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

/// An edge as read from a file.
#[derive(Debug)]
pub(super) struct RawEdge {
    pub(super) place: String,
    pub(super) ends: [String; 2],
    pub(super) attributes: Attributes,
}

/// A graph as read from a file.
#[derive(Debug, Default)]
pub(super) struct RawGraph {
    pub(super) directed: bool,
    pub(super) nodes: Vec<RawNode>,
    pub(super) edges: Vec<RawEdge>,
}

impl RawGraph {
    pub(super) fn build(mut self, defaults: Defaults) -> Result<Import, Flaw> {
        let mut draft = Draft::new(defaults);
        let mut unknown = 0;
        for node in &self.nodes {
            let flaw = |message: String| Flaw::at(&node.place, message);
            let kind = kind(&node.attributes).map_err(flaw)?;
            let level = node.attributes.get("level").map(|level| number(level, "a level")).transpose();
            unknown += usize::from(kind.is_none());
            let kind = kind.unwrap_or(NodeKind::Switch);
            match node.attributes.get("port_of") {
                Some(host) => {
                    draft.port_of_host(&node.name, host, node.attributes.get("port")).map_err(flaw)?;
                }
                None => draft.node(&node.name, kind, level.map_err(flaw)?).map(drop).map_err(flaw)?,
            }
        }
        if unknown > 0 {
            draft.notes.push(format!(
                "{unknown} of {} nodes have no kind: they were taken for switches",
                self.nodes.len()
            ));
        }
        self.restore_order();
        draft.notes.extend(self.left_out());
        draft.notes.extend(self.outvoted());
        if self.directed && is_one_way(&self.edges) {
            draft
                .notes
                .push("the graph is directed and no edge has one back: it was taken for undirected".into());
            self.directed = false;
        }
        let edges = if self.directed { pair_arcs(self.edges)? } else { self.edges };
        for edge in edges {
            add_edge(&mut draft, &edge).map_err(|message| Flaw::at(&edge.place, message))?;
        }
        Ok(draft.finish())
    }

    /// Attributes of edges that are not read.
    fn left_out(&self) -> Option<String> {
        const SHOWN: usize = 6;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for edge in &self.edges {
            let is_read =
                |name: &str| READ_OF_EDGE.contains(&name) || other_name(&edge.attributes, name).is_some();
            names.extend(edge.attributes.keys().map(String::as_str).filter(|name| !is_read(name)));
        }
        let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
        if names.len() > SHOWN {
            shown.push(format!("{} more", names.len() - SHOWN));
        }
        let text = "a link has the attributes rate (\"10 Gbps\") and delay (\"1 us\"), each with a unit";
        (!names.is_empty()).then(|| format!("attributes of edges left out: {}; {text}", shown.join(", ")))
    }

    /// Other attributes with a rate that differs from the one that is taken.
    fn outvoted(&self) -> Option<String> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut count = 0;
        for RawEdge { attributes, .. } in &self.edges {
            let Some(rate) = channels(attributes).ok().and_then(|[forth, _]| forth.rate) else { continue };
            let others = OTHER_NAMES
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| other_name(attributes, name).is_some());
            let differs = |name: &&str| {
                let text = attributes.get(*name).map_or("", String::as_str);
                let own = text
                    .parse::<BitRate>()
                    .ok()
                    .or_else(|| raw_rate(attributes, name).filter(|_| *name == RAW));
                own.is_some_and(|own| own != rate)
            };
            let differing: Vec<&str> = others.chain([RAW]).filter(differs).collect();
            count += usize::from(!differing.is_empty());
            names.extend(differing);
        }
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let text = "another attribute of the edge was taken (first rate, then a name of it with a unit)";
        (count > 0)
            .then(|| format!("{names} of {count} of {} edges differ from the rate: {text}", self.edges.len()))
    }

    /// Restores the original order of links, if every edge still has its `link` attribute.
    fn restore_order(&mut self) {
        let position = |edge: &RawEdge| edge.attributes.get("link").and_then(|link| link.parse::<u32>().ok());
        if self.edges.iter().all(|edge| position(edge).is_some()) {
            self.edges.sort_by_key(position);
        }
    }
}

/// True if no edge has an edge in the opposite direction; editors such as yEd mark every graph as directed.
fn is_one_way(edges: &[RawEdge]) -> bool {
    let arcs: BTreeSet<&[String; 2]> = edges.iter().map(|edge| &edge.ends).collect();
    edges.iter().all(|edge| {
        let [from, to] = edge.ends.clone();
        from == to || !arcs.contains(&[to, from])
    })
}

/// Attributes of the reverse arc, and the names that the link uses for them.
const BACK: [(&str, &str); 4] = [
    ("rate", "rate_back"),
    ("delay", "delay_back"),
    ("LinkSpeedRaw", "LinkSpeedRaw_back"),
    ("source_port", "target_port"),
];

/// Joins the arcs of a directed graph to links: the n-th arc from a to b pairs with the n-th arc from b to a.
fn pair_arcs(arcs: Vec<RawEdge>) -> Result<Vec<RawEdge>, Flaw> {
    let mut edges: Vec<RawEdge> = Vec::new();
    let mut waiting: BTreeMap<[String; 2], VecDeque<usize>> = BTreeMap::new();
    for arc in arcs {
        let [from, to] = arc.ends.clone();
        let Some(forth) = waiting.get_mut(&[to.clone(), from.clone()]).and_then(VecDeque::pop_front) else {
            waiting.entry([from, to]).or_default().push_back(edges.len());
            edges.push(arc);
            continue;
        };
        // NetworkX makes two arcs with the same attributes from one undirected edge, and each arc describes
        // both directions.
        if arc.attributes.contains_key("from") {
            continue;
        }
        for (key, of_link) in BACK {
            if let Some(value) = arc.attributes.get(key) {
                edges[forth].attributes.insert(of_link.to_owned(), value.clone());
            }
        }
    }
    match waiting.values().flatten().min() {
        None => Ok(edges),
        Some(alone) => {
            let RawEdge { place, ends: [from, to], .. } = &edges[*alone];
            let message = format!(
                "the graph is directed and has no edge back from {to:?} to {from:?}: links carry both ways, so \
                 add it or make the graph undirected"
            );
            Err(Flaw::at(place, message))
        }
    }
}

fn add_edge(draft: &mut Draft, edge: &RawEdge) -> Result<(), String> {
    let mut ends = edge.ends.clone();
    if edge.attributes.get("from") == Some(&ends[1]) {
        ends.swap(0, 1);
    }
    let nodes = [draft.find(&ends[0])?, draft.find(&ends[1])?];
    let link = draft.link(nodes, channels(&edge.attributes)?);
    read_frame_error(draft, link, &edge.attributes)?;
    for (end, key) in ["source_port", "target_port"].into_iter().enumerate() {
        if let Some(name) = edge.attributes.get(key) {
            draft.name_port(PortId::of_link(link, end), name)?;
        }
    }
    Ok(())
}

fn kind(attributes: &Attributes) -> Result<Option<NodeKind>, String> {
    let known = |text: &str| match text.to_ascii_lowercase().as_str() {
        "host" | "server" => Some(NodeKind::Host),
        "switch" | "router" => Some(NodeKind::Switch),
        _ => None,
    };
    match attributes.get("kind") {
        Some(text) => known(text)
            .map(Some)
            .ok_or_else(|| format!("the kind {text:?} is not known: write \"host\" or \"switch\"")),
        None => Ok(["type", "role"].iter().find_map(|key| known(attributes.get(*key)?))),
    }
}

/// The rate of Topology Zoo, in bits per second.
const RAW: &str = "LinkSpeedRaw";

fn raw_rate(attributes: &Attributes, key: &str) -> Option<BitRate> {
    attributes.get(key)?.parse::<f64>().ok().map(|speed| BitRate(speed as u64))
}

/// Reads rate and delay of both directions of a link.
pub(super) fn channels(attributes: &Attributes) -> Result<[Partial; 2], String> {
    for proper in ["rate", "delay"] {
        let others = OTHER_NAMES.iter().filter(|(_, of)| *of == proper);
        let given: Vec<(&str, &str)> =
            others.filter_map(|(name, _)| Some((*name, other_name(attributes, name)?))).collect();
        if let Some((name, text)) = given.iter().find(|(_, text)| *text != given[0].1) {
            let (first, other) = given[0];
            return Err(format!("{first} is {other:?} and {name} is {text:?}: keep one, or write {proper}"));
        }
    }
    let value = |key: &str| {
        let other = || OTHER_NAMES.iter().filter(|(_, proper)| *proper == key);
        attributes
            .get(key)
            .map(String::as_str)
            .or_else(|| other().find_map(|(name, _)| other_name(attributes, name)))
    };
    let rate = |key: &str| value(key).map(str::parse::<BitRate>).transpose();
    let delay = |key: &str| value(key).map(str::parse::<Span>).transpose();
    let raw = |key: &str| raw_rate(attributes, key);
    let say = |error: pauseframe_units::ParseError| error.to_string();
    let forth =
        Partial { rate: rate("rate").map_err(say)?.or(raw(RAW)), delay: delay("delay").map_err(say)? };
    let back = Partial {
        rate: rate("rate_back").map_err(say)?.or(raw("LinkSpeedRaw_back")).or(forth.rate),
        delay: delay("delay_back").map_err(say)?.or(forth.delay),
    };
    Ok([forth, back])
}

/// Reads the probability that a frame on the link is damaged.
pub(super) fn read_frame_error(
    draft: &mut Draft,
    link: LinkId,
    attributes: &Attributes,
) -> Result<(), String> {
    let Some(text) = attributes.get(FRAME_ERROR) else { return Ok(()) };
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    let ratio: f64 = ratio.ok_or_else(|| format!("{FRAME_ERROR} {text:?} is not a ratio from 0 to 1"))?;
    if ratio > 0.0 {
        draft.labels.set_frame_error(link, ratio);
    }
    Ok(())
}

/// The attribute for the probability that a frame on the link is damaged, if it is above 0.
pub(super) fn of_frame_error(labels: &Labels, id: LinkId) -> Option<(&'static str, String)> {
    labels.frame_error(id).map(|ratio| (FRAME_ERROR, ratio.to_string()))
}

pub(super) fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Host => "host",
        NodeKind::Switch => "switch",
    }
}

/// Returns the attributes that describe a node.
pub(super) fn of_node(topology: &Topology, node: &Node) -> Vec<(&'static str, String)> {
    let level = node.level.map(|level| ("level", level.to_string()));
    let port = node.port_of.map(|PortOfHost { host, number }| {
        [("port_of", topology.nodes()[host].name.clone()), ("port", number.to_string())]
    });
    let kind = ("kind", kind_name(node.kind).to_owned());
    [kind].into_iter().chain(level).chain(port.into_iter().flatten()).collect()
}

/// Returns the attributes for the rates and delays of a link.
pub(super) fn of_channels(link: &Link) -> Vec<(&'static str, String)> {
    let [forth, back] = link.channels;
    let mut attributes = vec![("rate", forth.rate.to_string()), ("delay", forth.delay.to_string())];
    if forth.rate != back.rate {
        attributes.push(("rate_back", back.rate.to_string()));
    }
    if forth.delay != back.delay {
        attributes.push(("delay_back", back.delay.to_string()));
    }
    attributes
}

/// Returns all attributes that describe a link.
pub(super) fn of_link(topology: &Topology, labels: &Labels, id: LinkId) -> Vec<(&'static str, String)> {
    let link = &topology.links()[id];
    let mut attributes = of_channels(link);
    attributes.push(("link", id.0.to_string()));
    attributes.push(("from", topology.nodes()[link.ends[0]].name.clone()));
    attributes.extend(of_frame_error(labels, id));
    let ports = [0, 1].map(|end| labels.port(PortId::of_link(id, end)));
    for (key, port) in ["source_port", "target_port"].into_iter().zip(ports) {
        attributes.extend(port.map(|port| (key, port.to_owned())));
    }
    attributes
}
