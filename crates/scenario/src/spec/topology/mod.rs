//! `[topology]`: the graph, and the rates and delays of its links. The topology crate has the families.

pub(crate) mod parts;

use parts::{DELAYS, Flaw, RATES, generated};
pub use parts::{Graph, LinkSpec, Links};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::registry;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::FamilyKind;
use pauseframe_topology::interchange::Labels;
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

    /// The graph, with these links at hosts and between switches.
    ///
    /// # Errors
    /// Path, message and hint of each flaw.
    pub(crate) fn graph(&self, host: LinkSpec, fabric: LinkSpec) -> Result<Topology, Vec<Flaw>> {
        match self {
            TopologyKind::Family(family) => generated(family.generate(host.channel(), fabric.channel())),
            TopologyKind::Given(given) => given.graph(host, fabric),
        }
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
}

pub(crate) fn topology(t: &mut Table, base_dir: &Path) -> Option<TopologySpec> {
    let kind = TopologyKind::choose(t);
    let host = t.section("link", LinkSpec::read);
    let fabric = t.section("fabric_link", |t| fabric_link(t, host));
    let message = || "differs from link, but the links of a file all have the same default".to_owned();
    let fits = kind != Some("file") || fabric == host;
    t.check(fits, "fabric_link", message, "give rates and delays in the file");
    let kind = TopologyKind::read_as(kind?, t, &Links { host, fabric, base_dir })?;
    Some(TopologySpec { kind, link: host, fabric_link: fabric })
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
