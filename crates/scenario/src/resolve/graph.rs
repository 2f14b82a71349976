//! From `[topology]` to the graph, with what is wrong with it.

use super::ledger::Ledger;
use super::value::did_you_mean;
use crate::error::Problem;
use crate::spec::{CustomLink, LinkSpec, TopologyKind, TopologySpec};
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{Channel, NodeKind, Topology, check};
use std::collections::BTreeMap;

/// Something wrong with a graph: path, message, hint.
type Flaw = (String, String, String);

/// The graph of a resolved `[topology]`.
///
/// # Errors
/// Everything that is wrong with it: parameters that make no fabric, links between nodes that do not exist,
/// hosts without a link or with two, and graphs in several parts.
pub fn build_topology(spec: &TopologySpec) -> Result<Topology, Vec<Problem>> {
    let problem = |(path, message, hint)| {
        let (place, value) = ("topology".to_owned(), String::new());
        Problem { path, place, line: None, value, message, hint }
    };
    build(spec).map_err(|flaws| flaws.into_iter().map(problem).collect())
}

/// The same while a scenario is read: problems go to the ledger.
pub(crate) fn checked(spec: &TopologySpec, ledger: &mut Ledger) -> Option<Topology> {
    match build(spec) {
        Ok(topology) => Some(topology),
        Err(flaws) => {
            for (path, message, hint) in flaws {
                ledger.problem(&path, message, hint);
            }
            None
        }
    }
}

fn build(spec: &TopologySpec) -> Result<Topology, Vec<Flaw>> {
    let [host, fabric] = [spec.link, spec.fabric_link].map(channel);
    let generated = match &spec.kind {
        TopologyKind::FatTree { k } => generate::fat_tree(*k, host, fabric),
        TopologyKind::Xgft { m, w, external } => generate::xgft_with_external(m, w, *external, host, fabric),
        TopologyKind::LeafSpine { leaves, spines, hosts_per_leaf } => {
            generate::leaf_spine(*leaves, *spines, *hosts_per_leaf, host, fabric)
        }
        TopologyKind::Dumbbell { left, right } => generate::dumbbell(*left, *right, host, fabric),
        TopologyKind::Star { hosts } => generate::star(*hosts, host),
        TopologyKind::Line { switches, hosts_per_switch } => {
            generate::line(*switches, *hosts_per_switch, host, fabric)
        }
        TopologyKind::Ring { switches, hosts_per_switch } => {
            generate::ring(*switches, *hosts_per_switch, host, fabric)
        }
        TopologyKind::Jellyfish { switches, network_ports, hosts_per_switch, seed } => {
            let (switches, network_ports, hosts_per_switch) = (*switches, *network_ports, *hosts_per_switch);
            let size = generate::Jellyfish { switches, network_ports, hosts_per_switch };
            generate::jellyfish(size, *seed, host, fabric)
        }
        TopologyKind::Torus { lengths, hosts_per_switch } => {
            generate::torus(lengths, *hosts_per_switch, host, fabric)
        }
        TopologyKind::Dragonfly { p, a, h, g } => {
            generate::dragonfly(generate::Dragonfly { p: *p, a: *a, h: *h, g: *g }, host, fabric)
        }
        TopologyKind::File { fabric, .. } => return sound(fabric.0.topology.clone()),
        TopologyKind::Custom { hosts, switches, links } => return custom(hosts, switches, links),
    };
    let topology = generated.map_err(|error| vec![parameter(&error)])?;
    sound(topology)
}

/// The names of ports and further addresses of nodes, where a file gives them.
pub(crate) fn labels(spec: &TopologySpec) -> Labels {
    match &spec.kind {
        TopologyKind::File { fabric, .. } => fabric.0.labels.clone(),
        _ => Labels::default(),
    }
}

fn channel(link: LinkSpec) -> Channel {
    Channel { rate: link.rate, delay: link.delay }
}

/// A generator's complaint at the key that it is about.
fn parameter(error: &GenerateError) -> Flaw {
    match error {
        GenerateError::Parameter { parameter, value, allowed, .. }
            if parameter.chars().all(|c| c.is_ascii_alphabetic() || c == '_') =>
        {
            (format!("topology.{parameter}"), format!("{value} is not possible: {allowed}"), String::new())
        }
        _ => ("topology".to_owned(), error.to_string(), String::new()),
    }
}

fn custom(hosts: &[String], switches: &[String], links: &[CustomLink]) -> Result<Topology, Vec<Flaw>> {
    let (mut topology, mut ids) = (Topology::new(), BTreeMap::new());
    for (names, kind) in [(hosts, NodeKind::Host), (switches, NodeKind::Switch)] {
        for name in names {
            ids.insert(name.as_str(), topology.add_node(name, kind, None));
        }
    }
    let mut flaws = Vec::new();
    let near = |name: &str| did_you_mean(name, ids.keys().copied());
    for (index, CustomLink { ends: [a, b], link, back }) in links.iter().enumerate() {
        match (ids.get(a.as_str()), ids.get(b.as_str())) {
            (Some(a), Some(b)) => {
                topology.add_asymmetric_link(*a, *b, [*link, *back].map(channel));
            }
            (a_id, _) => {
                let name = if a_id.is_none() { a } else { b };
                let message = format!("there is no node {name:?} in hosts or switches");
                // Looking for near names takes its time: enough is enough.
                let hint = if flaws.len() < 10 { near(name) } else { String::new() };
                flaws.push((format!("topology.links.{index}.ends"), message, hint));
            }
        }
    }
    // Without its misspelt links a graph would seem to be in parts.
    if flaws.is_empty() { sound(topology) } else { Err(flaws) }
}

fn sound(topology: Topology) -> Result<Topology, Vec<Flaw>> {
    let errors = check(&topology);
    if errors.is_empty() {
        return Ok(topology);
    }
    Err(errors.iter().map(|error| ("topology".to_owned(), error.to_string(), String::new())).collect())
}
