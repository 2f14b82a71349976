//! GraphML (<http://graphml.graphdrawing.org>, as `NetworkX`, yEd and the Topology Zoo write it).
//!
//! The reader accepts nodes, edges, `data` of declared keys with their defaults, `sourceport` and
//! `targetport`. Nodes are named by their `label` (or their yEd label) if all nodes have different labels,
//! else by their id. Not supported: hyperedges; a nested graph counts as part of the outer graph.

use super::attributes::{Attributes, RawEdge, RawGraph, RawNode, of_link, of_node};
use super::{Defaults, Flaw, Import, Labels};
use crate::Topology;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// A declared key: the name of its attribute and its default value.
#[derive(Clone, Debug)]
struct Key {
    name: Option<String>,
    domain: String,
    default: Option<String>,
}

/// The XML element to which following text belongs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Within {
    Other,
    Node,
    Edge,
}

struct State<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    /// The last counted position and its line number, so that each line is counted once.
    counted: (usize, usize),
    keys: BTreeMap<String, Key>,
    key: Option<String>,
    within: Within,
    graph: RawGraph,
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    let mut state = State {
        text,
        reader: Reader::from_str(text),
        counted: (0, 1),
        keys: BTreeMap::new(),
        key: None,
        within: Within::Other,
        graph: RawGraph::default(),
    };
    let mut graphs = 0;
    loop {
        let event = state.reader.read_event().map_err(|error| state.not_xml(&error))?;
        match event {
            Event::Start(start) => {
                graphs += usize::from(start.local_name().as_ref() == "graph");
                state.open(&start, true)?;
            }
            Event::Empty(start) => {
                graphs += usize::from(start.local_name().as_ref() == "graph");
                state.open(&start, false)?;
                state.close(start.local_name().as_ref());
            }
            Event::End(end) => state.close(end.local_name().as_ref()),
            Event::Eof => break,
            _ => {}
        }
    }
    if graphs == 0 {
        return Err(Flaw::of_file("there is no <graph>: is this GraphML?"));
    }
    state.fill_defaults();
    let mut graph = state.graph;
    use_labels(&mut graph);
    graph.build(defaults)
}

impl State<'_> {
    fn line(&self, position: u64) -> usize {
        let (counted, line) = self.counted;
        let position = (position as usize).min(self.text.len());
        line + self.text.as_bytes().get(counted..position).map_or(0, newlines)
    }

    /// Line number at the end of the last XML event.
    fn here(&self) -> usize {
        self.line(self.reader.buffer_position())
    }

    /// Counts lines up to the end of the last XML event.
    fn count_lines(&mut self) {
        self.counted = (self.reader.buffer_position() as usize, self.here());
    }

    fn attributes(&self, start: &BytesStart<'_>) -> Result<Attributes, Flaw> {
        let flaw = |message: String| Flaw::line(self.here(), message);
        let mut found = Attributes::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| flaw(error.to_string()))?;
            let value = attribute.normalized_value(XmlVersion::Explicit1_0);
            let value = value.map_err(|error| flaw(error.to_string()))?;
            found.insert(attribute.key.as_ref().to_owned(), value.into_owned());
        }
        Ok(found)
    }

    fn needed(&self, found: &mut Attributes, element: &str, key: &str) -> Result<String, Flaw> {
        found.remove(key).ok_or_else(|| Flaw::line(self.here(), format!("<{element}> has no {key:?}")))
    }

    fn open(&mut self, start: &BytesStart<'_>, has_content: bool) -> Result<(), Flaw> {
        self.count_lines();
        let name = start.local_name();
        let mut found = self.attributes(start)?;
        let place = format!("line {}", self.here());
        match name.as_ref() {
            "graph" => self.graph.directed |= found.get("edgedefault").is_some_and(|e| e == "directed"),
            "key" => {
                let id = self.needed(&mut found, "key", "id")?;
                let domain = found.remove("for").unwrap_or_else(|| "all".to_owned());
                let key = Key { name: found.remove("attr.name"), domain, default: None };
                self.keys.insert(id.clone(), key);
                self.key = Some(id);
            }
            "default" if has_content => {
                let text = self.content()?;
                if let Some(key) = self.key.as_ref().and_then(|id| self.keys.get_mut(id)) {
                    key.default = Some(text);
                }
            }
            "node" => {
                let name = self.needed(&mut found, "node", "id")?;
                self.graph.nodes.push(RawNode { place, name, attributes: Attributes::new() });
                self.within = Within::Node;
            }
            "edge" => {
                let source = self.needed(&mut found, "edge", "source")?;
                let target = self.needed(&mut found, "edge", "target")?;
                let ports = [("sourceport", "source_port"), ("targetport", "target_port")];
                let ports = ports
                    .into_iter()
                    .filter_map(|(theirs, ours)| found.remove(theirs).map(|port| (ours.to_owned(), port)));
                let attributes = ports.collect();
                self.graph.edges.push(RawEdge { place, ends: [source, target], attributes });
                self.within = Within::Edge;
            }
            "hyperedge" => {
                return Err(Flaw::line(self.here(), "hyperedges join more than two nodes: use edges"));
            }
            "data" if has_content => self.data(&mut found)?,
            "NodeLabel" if has_content => {
                let text = self.content()?;
                self.set("label".to_owned(), text.trim().to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the text of a `data` element with a named key; the main loop reads the contents of other
    /// elements.
    fn data(&mut self, found: &mut Attributes) -> Result<(), Flaw> {
        let id = self.needed(found, "data", "key")?;
        let Some(key) = self.keys.get(&id) else {
            let message = format!("there is no <key id={id:?}>: declare it above the graph");
            return Err(Flaw::line(self.here(), message));
        };
        if let Some(name) = key.name.clone() {
            let text = self.content()?;
            self.set(name, text);
        }
        Ok(())
    }

    /// The text of the element that was opened last, plain or as CDATA, without the text of nested elements,
    /// which yEd puts into its labels.
    fn content(&mut self) -> Result<String, Flaw> {
        let (mut text, mut depth) = (String::new(), 0_usize);
        loop {
            let event = self.reader.read_event().map_err(|error| self.not_xml(&error))?;
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) if depth == 0 => return Ok(text),
                Event::End(_) => depth -= 1,
                Event::Text(part) if depth == 0 => text += &part.xml_content(XmlVersion::Explicit1_0),
                Event::CData(part) if depth == 0 => text += &part.xml_content(XmlVersion::Explicit1_0),
                Event::GeneralRef(reference) if depth == 0 => text += &self.resolved(&reference)?,
                Event::Eof => return Err(Flaw::line(self.here(), "the file ends within an element")),
                _ => {}
            }
        }
    }

    /// Resolves a reference such as `&amp;` or `&#229;`.
    fn resolved(&self, reference: &BytesRef<'_>) -> Result<String, Flaw> {
        let character = reference.resolve_char_ref().map_err(|error| self.not_xml(&error))?;
        let known = || resolve_predefined_entity(reference).map(str::to_owned);
        character.map(String::from).or_else(known).ok_or_else(|| {
            let message = format!("there is no character &{};: write & itself as &amp;", &**reference);
            Flaw::line(self.here(), message)
        })
    }

    fn not_xml(&self, error: &quick_xml::Error) -> Flaw {
        Flaw::line(self.line(self.reader.error_position()), format!("this is not XML: {error}"))
    }

    fn set(&mut self, key: String, text: String) {
        let attributes = match self.within {
            Within::Node => self.graph.nodes.last_mut().map(|node| &mut node.attributes),
            Within::Edge => self.graph.edges.last_mut().map(|edge| &mut edge.attributes),
            Within::Other => None,
        };
        if let Some(attributes) = attributes {
            attributes.insert(key, text);
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "node" | "edge" => self.within = Within::Other,
            "key" => self.key = None,
            _ => {}
        }
    }

    fn fill_defaults(&mut self) {
        for Key { name, domain, default } in self.keys.values() {
            let (Some(name), Some(default)) = (name, default) else { continue };
            let fill = |attributes: &mut Attributes| {
                attributes.entry(name.clone()).or_insert_with(|| default.clone());
            };
            if ["node", "all"].contains(&domain.as_str()) {
                self.graph.nodes.iter_mut().for_each(|node| fill(&mut node.attributes));
            }
            if ["edge", "all"].contains(&domain.as_str()) {
                self.graph.edges.iter_mut().for_each(|edge| fill(&mut edge.attributes));
            }
        }
    }
}

fn newlines(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').count() - 1
}

/// Names nodes by their labels, if all nodes have labels and no two labels are equal.
fn use_labels(graph: &mut RawGraph) {
    let label = |node: &RawNode| node.attributes.get("label").filter(|label| !label.is_empty()).cloned();
    let labels: Option<Vec<_>> = graph.nodes.iter().map(label).collect();
    let Some(labels) = labels.filter(|l| l.iter().collect::<BTreeSet<_>>().len() == l.len()) else { return };
    // A second node of the same id is a mistake that names must not hide.
    let ids: BTreeSet<&String> = graph.nodes.iter().map(|node| &node.name).collect();
    if ids.len() < graph.nodes.len() {
        return;
    }
    let mut renamed = BTreeMap::new();
    for (node, label) in graph.nodes.iter_mut().zip(labels) {
        renamed.insert(std::mem::replace(&mut node.name, label.clone()), label);
    }
    for end in graph.edges.iter_mut().flat_map(|edge| &mut edge.ends) {
        if let Some(label) = renamed.get(end) {
            end.clone_from(label);
        }
    }
}

/// Keys that the writer declares: the element, the name and the type.
const KEYS: [(&str, &str, &str); 13] = [
    ("node", "kind", "string"),
    ("node", "level", "int"),
    ("node", "port_of", "string"),
    ("node", "port", "int"),
    ("edge", "rate", "string"),
    ("edge", "delay", "string"),
    ("edge", "rate_back", "string"),
    ("edge", "delay_back", "string"),
    ("edge", "frame_error", "double"),
    ("edge", "link", "int"),
    ("edge", "from", "string"),
    ("edge", "source_port", "string"),
    ("edge", "target_port", "string"),
];

pub(super) fn write(topology: &Topology, labels: &Labels) -> Result<String, Flaw> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    write_document(&mut writer, topology, labels).map_err(|error| Flaw::of_file(error.to_string()))?;
    let mut text =
        String::from_utf8(writer.into_inner()).map_err(|error| Flaw::of_file(error.to_string()))?;
    text.push('\n');
    Ok(text)
}

type Xml = Writer<Vec<u8>>;

fn write_document(writer: &mut Xml, topology: &Topology, labels: &Labels) -> std::io::Result<()> {
    let name = |node| topology.nodes()[node].name.as_str();
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let root = writer.create_element("graphml");
    root.with_attribute(("xmlns", "http://graphml.graphdrawing.org/xmlns")).write_inner_content(
        |writer| {
            for (domain, key, kind) in KEYS {
                let element = writer.create_element("key").with_attribute(("id", key));
                let attributes = [("for", domain), ("attr.name", key), ("attr.type", kind)];
                element.with_attributes(attributes).write_empty()?;
            }
            let graph = writer.create_element("graph").with_attribute(("edgedefault", "undirected"));
            graph.write_inner_content(|writer| {
                for node in topology.nodes() {
                    let element = writer.create_element("node").with_attribute(("id", node.name.as_str()));
                    element.write_inner_content(|writer| write_data(writer, of_node(topology, node)))?;
                }
                for (id, link) in topology.links().iter_enumerated() {
                    let ends = [("source", name(link.ends[0])), ("target", name(link.ends[1]))];
                    let element = writer.create_element("edge").with_attributes(ends);
                    element
                        .write_inner_content(|writer| write_data(writer, of_link(topology, labels, id)))?;
                }
                Ok(())
            })?;
            Ok(())
        },
    )?;
    Ok(())
}

fn write_data(writer: &mut Xml, attributes: Vec<(&'static str, String)>) -> std::io::Result<()> {
    for (key, text) in attributes {
        let element = writer.create_element("data").with_attribute(("key", key));
        element.write_text_content(BytesText::new(&text))?;
    }
    Ok(())
}
