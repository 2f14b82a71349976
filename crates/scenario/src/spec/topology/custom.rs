//! Nodes and links by name.

use super::parts::{DELAYS, Flaw, Graph, LinkSpec, Links, RATES, sound};
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_schema::value::did_you_mean;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, Id, LinkId, NodeId, PortId, Span};
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Nodes and links by name
    pub struct Custom {
        /// Names of the hosts
        hosts: Vec<String> = required() => { check_names(t, "hosts", hosts.as_deref()); };
        /// Names of the switches
        switches: Vec<String> = required() => { check_names(t, "switches", switches.as_deref()); };
        /// ["A", "S1"], or a table with `ends`
        links: Vec<CustomLink> = try_rows("required", CustomLink::read) => {
            let given = t.has("links") || t.is_documenting();
            t.check(given, "links", || "is required: list of links".to_owned(), "");
        };
    }
    pub fn try_read(t, _around: &Links);
}

table! {
    /// A link that differs from the others in rate or delay
    pub struct CustomLink {
        /// The two nodes of the link
        ends: [String; 2] = required();
        /// Rate, per direction
        rate: Option<BitRate> = optional_in(RATES, "topology.link.rate at hosts, else topology.fabric_link.rate");
        /// Propagation delay, one way
        delay: Option<Span> = optional_in(DELAYS, "topology.link.delay at hosts, else topology.fabric_link.delay");
        /// Names of the two ports at their nodes, such as ["Ethernet0", "eth0"], in results and globs
        ports: Option<[String; 2]> = optional("numbers, in the order of the links") => {
            let bad = ports.iter().flatten().find(|name: &&String| !is_port_name(name));
            let message = || format!("{:?} is not a name for a port", bad.map_or("", String::as_str));
            t.check(bad.is_none(), "ports", message, "use letters, digits and '_', '-', '.', with a letter first");
        };
        /// Rate from the second end to the first, if different
        rate_back: Option<BitRate> = optional_in(RATES, "as rate");
        /// Propagation delay from the second end to the first, if different
        delay_back: Option<Span> = optional_in(DELAYS, "as delay");
    }
    pub fn try_read(t);
}

fn check_names(t: &mut Table, key: &str, names: Option<&[String]>) {
    let bad = names.into_iter().flatten().find(|name| !is_node_name(name));
    let message = || format!("{:?} is not a name for a node", bad.map_or("", String::as_str));
    let hint = "use letters, digits, '_', and after the first '-' and '.': ports are NAME:NUMBER";
    t.check(bad.is_none(), key, message, hint);
}

/// Names of ports and queues contain those of nodes ("edge0:3/p0").
fn is_node_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    !name.starts_with(['.', '-']) && !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}

/// Not a number, which names a port already; series add "/p0" to it.
fn is_port_name(name: &str) -> bool {
    is_node_name(name) && name.starts_with(char::is_alphabetic)
}

impl CustomLink {
    /// From the first end to the second, and back: asymmetric links differ in rate or delay.
    fn ways(&self, default: LinkSpec) -> [LinkSpec; 2] {
        let (rate, delay) = (self.rate.unwrap_or(default.rate), self.delay.unwrap_or(default.delay));
        let back =
            LinkSpec { rate: self.rate_back.unwrap_or(rate), delay: self.delay_back.unwrap_or(delay) };
        [LinkSpec { rate, delay }, back]
    }
}

impl Graph for Custom {
    fn graph(&self, host: LinkSpec, fabric: LinkSpec) -> Result<Topology, Vec<Flaw>> {
        let (mut topology, mut ids) = (Topology::new(), BTreeMap::new());
        for (names, kind) in [(&self.hosts, NodeKind::Host), (&self.switches, NodeKind::Switch)] {
            for name in names {
                ids.insert(name.as_str(), topology.add_node(name, kind, None));
            }
        }
        let (mut flaws, mut named) = (Vec::new(), BTreeSet::new());
        let near = |name: &str| did_you_mean(name, ids.keys().copied());
        for (index, link) in self.links.iter().enumerate() {
            let [a, b] = &link.ends;
            match (ids.get(a.as_str()), ids.get(b.as_str())) {
                (Some(a), Some(b)) => {
                    let is_host = |id: &NodeId| topology.nodes()[*id].kind == NodeKind::Host;
                    let default = if is_host(a) || is_host(b) { host } else { fabric };
                    let ways = link.ways(default).map(LinkSpec::channel);
                    let added = topology.add_asymmetric_link(*a, *b, ways);
                    for (end, name) in link.ports.iter().flatten().enumerate() {
                        topology.name_port(PortId::of_link(added, end), name);
                        if !named.insert((&link.ends[end], name)) {
                            let message = format!("{}:{name} is at another link too", link.ends[end]);
                            flaws.push((format!("topology.links.{index}.ports"), message, String::new()));
                        }
                    }
                }
                (a_id, _) => {
                    let name = if a_id.is_none() { a } else { b };
                    let message = format!("there is no node {name:?} in hosts or switches");
                    // Finding similar names takes time, so their number is limited.
                    let hint = if flaws.len() < 10 { near(name) } else { String::new() };
                    flaws.push((format!("topology.links.{index}.ends"), message, hint));
                }
            }
        }
        // Without its misspelt links a graph would seem disconnected.
        if flaws.is_empty() { sound(&topology, &self.labels()) } else { Err(flaws) }
    }

    fn labels(&self) -> Labels {
        let mut labels = Labels::default();
        for (id, link) in self.links.iter().enumerate() {
            for (end, name) in link.ports.iter().flatten().enumerate() {
                labels.name_port(PortId::of_link(LinkId::from_index(id), end), name);
            }
        }
        labels
    }
}
