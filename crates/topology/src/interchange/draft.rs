//! A topology under construction while a file is read. The draft looks names up, fills gaps with the defaults
//! and counts the defaults used.

use super::guard::check_name;
use super::{Defaults, Flaw, Import, Labels};
use crate::{Channel, NodeKind, PortOfHost, Topology};
use pauseframe_units::{BitRate, LinkId, NodeId, PortId, Span};
use std::collections::BTreeMap;

/// Rate and delay of one direction of a link, as far as the file contains both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Partial {
    pub(super) rate: Option<BitRate>,
    pub(super) delay: Option<Span>,
}

/// The graph built from the lines read up to now.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) topology: Topology,
    pub(super) labels: Labels,
    pub(super) notes: Vec<String>,
    names: BTreeMap<String, NodeId>,
    interfaces: BTreeMap<(NodeId, String), PortId>,
    defaults: Defaults,
    without_rate: usize,
    without_delay: usize,
}

impl Draft {
    pub(super) fn new(defaults: Defaults) -> Draft {
        Draft {
            topology: Topology::new(),
            labels: Labels::default(),
            notes: Vec::new(),
            names: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            defaults,
            without_rate: 0,
            without_delay: 0,
        }
    }

    /// Adds a node; returns a message if the name is empty, in use or not allowed.
    pub(super) fn node(&mut self, name: &str, kind: NodeKind, level: Option<u8>) -> Result<NodeId, String> {
        if name.is_empty() {
            return Err("a node has no name".to_owned());
        }
        check_name(name)?;
        if self.names.contains_key(name) {
            return Err(format!("a second node is called {name:?}: give each node its own name"));
        }
        let node = self.topology.add_node(name, kind, level);
        self.names.insert(name.to_owned(), node);
        Ok(node)
    }

    /// Adds a further port of a host that was added before.
    pub(super) fn port_of_host(
        &mut self,
        name: &str,
        host: &str,
        number: Option<&String>,
    ) -> Result<(), String> {
        let node = self.node(name, NodeKind::Host, None)?;
        let host = self.find(host)?;
        let number = number.map_or(Ok(1), |text| self::number(text, "the number of a port"))?;
        self.topology.set_port_of(node, PortOfHost { host, number })
    }

    /// Finds the node with this name, or returns a message that suggests the most similar name.
    pub(super) fn find(&self, name: &str) -> Result<NodeId, String> {
        let missing = || {
            let near = did_you_mean(name, self.names.keys());
            let hint = if near.is_empty() { "; declare it, or name another" } else { &near };
            format!("there is no node {name:?}{hint}")
        };
        self.names.get(name).copied().ok_or_else(missing)
    }

    /// Adds a link; `channels[0]` describes the direction from `ends[0]` to `ends[1]`.
    pub(super) fn link(&mut self, ends: [NodeId; 2], channels: [Partial; 2]) -> LinkId {
        self.without_rate += usize::from(channels.iter().any(|channel| channel.rate.is_none()));
        self.without_delay += usize::from(channels.iter().any(|channel| channel.delay.is_none()));
        let Channel { rate, delay } = self.defaults.channel;
        let full = |c: Partial| Channel { rate: c.rate.unwrap_or(rate), delay: c.delay.unwrap_or(delay) };
        self.topology.add_asymmetric_link(ends[0], ends[1], channels.map(full))
    }

    /// Gives a port the name that it has in the file; returns a message if that name is not allowed, or if the node
    /// has another port of this name.
    pub(super) fn name_port(&mut self, port: PortId, name: &str) -> Result<(), String> {
        check_name(name)?;
        let node = self.topology.owner(port);
        if let Some(earlier) = self.interfaces.insert((node, name.to_owned()), port) {
            let of = |node: NodeId| &self.topology.nodes()[node].name;
            let [one, other] = [earlier, port].map(|port| of(self.topology.peer(port)));
            return Err(format!(
                "interface {:?} is on two links, to {one:?} and to {other:?}: a port has one cable, so name another \
                 interface",
                format!("{}:{name}", of(node))
            ));
        }
        self.labels.name_port(port, name);
        Ok(())
    }

    /// Returns the topology, with a note on every default that was used.
    pub(super) fn finish(mut self) -> Import {
        let Channel { rate, delay } = self.defaults.channel;
        let links = self.topology.links().len();
        let mut note = |count: usize, what: &str, value: String| {
            if count > 0 {
                self.notes.push(format!("{count} of {links} links have no {what}: {value} was taken"));
            }
        };
        note(self.without_rate, "rate", rate.to_string());
        note(self.without_delay, "delay", delay.to_string());
        Import { topology: self.topology, labels: self.labels, notes: self.notes }
    }
}

/// Returns `; did you mean "leaf1"?` if `known` contains a similar name.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let near = known.map(|k| (strsim::jaro_winkler(name, k), k)).filter(|(likeness, _)| *likeness > 0.8);
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    best.map_or(String::new(), |(_, known)| format!("; did you mean {known:?}?"))
}

/// Suggests the similar names, and lists all names.
pub fn hint(near: &str, all: &[String]) -> String {
    let all = all.join(", ");
    if near.is_empty() { format!("; there are {all}") } else { format!("{near} There are {all}") }
}

/// Parses an integer; `what` names the quantity in the error message.
pub(super) fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {what}: write a whole number"))
}

impl Flaw {
    /// Attaches a line number to an error message.
    pub(super) fn on(line: usize) -> impl Fn(String) -> Flaw {
        move |message| Flaw::line(line, message)
    }
}
