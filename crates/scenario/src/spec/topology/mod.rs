//! `[topology]`: the graph, and the rates and delays of its links. The topology crate has the families.

pub(crate) mod parts;
mod scale_up;

use parts::{DELAYS, Flaw, RATES, generated};
pub use parts::{Graph, LinkSpec, Links};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::registry;
use pauseframe_topology::generate::{FamilyKind, Homes, by_rail};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::NodeId;
pub use scale_up::ScaleUpSpec;
use std::path::Path;

registry! {
    /// Graphs listed link by link
    pub enum GivenKind {
        "file" => file::File(File);
        "custom" => custom::Custom(Custom);
    }
    pub fn read(t, links: &Links);
    impl Graph;
}

/// Which graph.
#[derive(Clone, PartialEq, Debug)]
pub enum TopologyKind {
    /// A family of the topology crate with its parameters.
    Family(FamilyKind),
    /// A graph listed link by link.
    Given(GivenKind),
}

impl TopologyKind {
    fn choose(t: &mut Table) -> Option<&'static str> {
        let names = [FamilyKind::NAMES, GivenKind::NAMES].concat();
        t.variant("kind", None, &names, "Family of the fabric")
    }

    fn read_as(kind: &str, t: &mut Table, links: &Links) -> Option<TopologyKind> {
        let is_given = GivenKind::NAMES.iter().any(|(name, _)| *name == kind);
        if is_given {
            return GivenKind::read_as(kind, t, links).map(TopologyKind::Given);
        }
        FamilyKind::read_as(kind, t).map(TopologyKind::Family)
    }

    /// Names of ports and further addresses of nodes, if a file has them.
    pub fn labels(&self) -> Labels {
        match self {
            TopologyKind::Family(_) => Labels::default(),
            TopologyKind::Given(given) => given.labels(),
        }
    }
}

/// `[topology]`.
#[derive(Clone, PartialEq, Debug)]
pub struct TopologySpec {
    /// The family and its parameters.
    pub kind: TopologyKind,
    /// Rate and delay of links at hosts (and of all links without `fabric_link`).
    pub link: LinkSpec,
    /// Rate and delay of links between switches.
    pub fabric_link: LinkSpec,
    /// Ports of the hosts of a family.
    pub homes: Homes,
    /// Links between the hosts of a server.
    pub scale_up: Option<ScaleUpSpec>,
}

impl TopologySpec {
    /// Hosts of a server, if servers have scale-up links.
    pub(crate) fn gpus_per_server(&self) -> Option<u32> {
        self.scale_up.as_ref().map(|spec| spec.gpus_per_server)
    }

    /// The graph, each further port of a host a separate node ([`pauseframe_topology::PortOfHost`]).
    ///
    /// # Errors
    /// Path, message and hint of each flaw.
    pub(crate) fn graph(&self) -> Result<Topology, Vec<Flaw>> {
        let (host, fabric) = (self.link, self.fabric_link);
        match &self.kind {
            TopologyKind::Family(family) => {
                let servers = self.scale_up.as_ref().filter(|spec| spec.rails);
                let graph = family.generate(host.channel(), fabric.channel());
                let graph = graph.and_then(|graph| match servers {
                    Some(spec) => by_rail(&graph, spec.gpus_per_server),
                    None => Ok(graph),
                });
                generated(graph.and_then(|graph| self.homes.apply_with_peer_links(graph, fabric.channel())))
            }
            TopologyKind::Given(given) => given.graph(host, fabric),
        }
    }
}

impl TopologySpec {
    /// Keys of `link` and `fabric_link` that the scenario sets and no link takes; files say so when they are read.
    pub(crate) fn idle_link_keys(&self, graph: &Topology) -> Vec<String> {
        let (host, fabric) = (self.link, self.fabric_link);
        let is_switch = |node: &NodeId| graph.nodes()[*node].kind == NodeKind::Switch;
        let same = |host, fabric| match &self.kind {
            TopologyKind::Family(_) => {
                host == self.link && !graph.links().iter().any(|link| link.ends.iter().all(is_switch))
            }
            TopologyKind::Given(GivenKind::File(_)) => false,
            TopologyKind::Given(custom) => custom.graph(host, fabric).is_ok_and(|changed| changed == *graph),
        };
        let of_hosts = host.without_each(LinkSpec::DEFAULT).filter(|(_, without)| {
            // Unless set, links between switches follow those of hosts.
            let rate = if fabric.rate == host.rate { without.rate } else { fabric.rate };
            let delay = if fabric.delay == host.delay { without.delay } else { fabric.delay };
            same(*without, LinkSpec { rate, delay })
        });
        let of_switches = fabric.without_each(host).filter(|(_, without)| same(host, *without));
        let names = of_hosts.map(|(key, _)| format!("link.{key}"));
        names.chain(of_switches.map(|(key, _)| format!("fabric_link.{key}"))).collect()
    }
}

pub(crate) fn topology(t: &mut Table, base_dir: &Path) -> Option<TopologySpec> {
    let kind = TopologyKind::choose(t);
    let host = t.section("link", LinkSpec::read);
    // What follows from a wrong link is no further mistake.
    let host = if t.ledger.failed("topology.link") { LinkSpec::DEFAULT } else { host };
    let fabric = t.section("fabric_link", |t| fabric_link(t, host));
    let message = || "differs from link, but the links of a file all have the same default".to_owned();
    let fits = kind != Some("file") || fabric == host;
    t.check(fits, "fabric_link", message, "give rates and delays in the file");
    let homes = homes(t, kind);
    let (off, doc) =
        (Absent::Off(Origin::Default), "Links between the hosts of a server, beside the network");
    let scale_up = t.switchable("scale_up", off, "false", doc, ScaleUpSpec::read).flatten();
    check_rails(t, scale_up.as_ref(), kind, homes);
    let kind = TopologyKind::read_as(kind?, t, &Links { host, base_dir })?;
    Some(TopologySpec { kind, link: host, fabric_link: fabric, homes, scale_up })
}

/// Rails place the links of hosts, which files and groups of switches that share hosts do already.
fn check_rails(t: &mut Table, scale_up: Option<&ScaleUpSpec>, kind: Option<&str>, homes: Homes) {
    let has_rails = scale_up.is_some_and(|spec| spec.rails);
    let is_given = is_given(kind);
    let message = || format!("true, but {} lists the links itself", kind.unwrap_or_default());
    t.check(!has_rails || !is_given, "scale_up.rails", message, "give each GPU the link of its rail there");
    let message = || "true, but ports_per_host links each host to several switches with hosts".to_owned();
    t.check(
        !has_rails || homes.ports_per_host == 1,
        "scale_up.rails",
        message,
        "planes = 2 gives each rail two switches",
    );
}

fn is_given(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| GivenKind::NAMES.iter().any(|(name, _)| *name == kind))
}

fn homes(t: &mut Table, kind: Option<&str>) -> Homes {
    let doc = "Links of each host: one to each of so many consecutive switches with hosts (dual-homed racks, rails), or all to the \
               one switch of a star. Files and custom fabrics list the links themselves";
    let ports_per_host = t.or_in("ports_per_host", 1, 1..=64, doc);
    let doc = "Copies of all switches and their links, named leaf0-p0, leaf0-p1 ...; each host has its ports in each";
    let planes = t.or_in("planes", 1, 1..=64, doc);
    let doc = "Links between the two switches of each pair that shares hosts (MLAG, with ports_per_host = 2), of the rate of fabric_link; \
               routing.mlag says how they are used";
    let peer_links = t.or_in("peer_links", 0, 0..=64, doc);
    let is_given = is_given(kind);
    let message = || format!("{peer_links}, but {} lists the links itself", kind.unwrap_or_default());
    t.check(!is_given || peer_links == 0, "peer_links", message, "list the links between the switches there");
    for (key, count) in [("ports_per_host", ports_per_host), ("planes", planes)] {
        let message = || format!("{count}, but {} lists the links itself", kind.unwrap_or_default());
        t.check(!is_given || count == 1, key, message, "give each host all its links there");
    }
    Homes { ports_per_host, planes, peer_links }
}

fn fabric_link(t: &mut Table, host: LinkSpec) -> LinkSpec {
    t.about("Link", "Rate and one-way delay of a link, both directions");
    let same = |what: &str| Origin::Computed(format!("as topology.link.{what}"));
    let doc = "Rate of the links between switches, per direction";
    let rate = t.or_because_in("rate", (host.rate, same("rate")), RATES, "topology.link.rate", doc);
    let doc = "Propagation delay of the links between switches, one way";
    let delay = t.or_because_in("delay", (host.delay, same("delay")), DELAYS, "topology.link.delay", doc);
    LinkSpec { rate, delay }
}
