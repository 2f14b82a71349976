//! Node-link JSON in the shape of `NetworkX`'s `node_link_data` (and of D3), so that Python programs can pass
//! graphs.
//!
//! The reader accepts `edges` or `links` (the name before `NetworkX` 3.4), directed and undirected graphs,
//! and ids that are texts, numbers or tuples. The writer produces a multigraph with `edges`. Not supported:
//! other names for `source`, `target` and `id`.

use super::attributes::{Attributes, RawEdge, RawGraph, RawNode, of_link, of_node};
use super::{Defaults, Flaw, Import, Labels};
use crate::Topology;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    directed: bool,
    nodes: Vec<Map<String, Value>>,
    #[serde(alias = "links")]
    edges: Vec<Map<String, Value>>,
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| Flaw::of_file(format!("this is not node-link JSON: {error}")))?;
    let mut graph = RawGraph { directed: document.directed, ..RawGraph::default() };
    for (i, mut node) in document.nodes.into_iter().enumerate() {
        let place = format!("nodes[{i}]");
        let name = take_id(&mut node, "id").map_err(|message| Flaw::at(&place, message))?;
        graph.nodes.push(RawNode { place, name, attributes: texts(node) });
    }
    for (i, mut edge) in document.edges.into_iter().enumerate() {
        let place = format!("edges[{i}]");
        let mut end = |key| take_id(&mut edge, key).map_err(|message| Flaw::at(&place, message));
        let ends = [end("source")?, end("target")?];
        graph.edges.push(RawEdge { place, ends, attributes: texts(edge) });
    }
    graph.build(defaults)
}

fn take_id(element: &mut Map<String, Value>, key: &str) -> Result<String, String> {
    let value = element.remove(key).ok_or_else(|| format!("there is no {key:?}: name the node"))?;
    id(&value).ok_or_else(|| format!("{key:?} is {value}: write a text, a number or a list of them"))
}

/// Converts an id to text; a tuple such as (0, 1), which JSON represents as a list, becomes `0_1`.
fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(parts) => parts.iter().map(id).collect::<Option<Vec<_>>>().map(|parts| parts.join("_")),
        _ => None,
    }
}

fn texts(element: Map<String, Value>) -> Attributes {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    element.into_iter().filter_map(|(key, value)| Some((key, text(value)?))).collect()
}

pub(super) fn write(topology: &Topology, labels: &Labels) -> String {
    let name = |node| &topology.nodes()[node].name;
    let object = |first: Vec<(&str, Value)>, rest: Vec<(&'static str, String)>| {
        let rest = rest.into_iter().map(|(key, text)| match (key, text.parse::<u64>()) {
            ("level" | "link" | "port", Ok(number)) => (key, json!(number)),
            _ => (key, json!(text)),
        });
        Value::Object(first.into_iter().chain(rest).map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let nodes: Vec<_> = topology
        .nodes()
        .iter()
        .map(|node| object(vec![("id", json!(node.name))], of_node(topology, node)))
        .collect();
    let mut parallel: BTreeMap<_, u32> = BTreeMap::new();
    let edges = topology.links().iter_enumerated().map(|(id, link)| {
        let [a, b] = link.ends;
        let next = parallel.entry([a.min(b), a.max(b)]).or_default();
        let key = std::mem::replace(next, *next + 1);
        let first = vec![("source", json!(name(a))), ("target", json!(name(b))), ("key", json!(key))];
        object(first, of_link(topology, labels, id))
    });
    let edges: Vec<_> = edges.collect();
    let document =
        json!({ "directed": false, "multigraph": true, "graph": {}, "nodes": nodes, "edges": edges });
    format!("{document:#}\n")
}
