//! `[topology]`: which graph, and how fast and long its links are. A family is a file of its own and a line of the registry.

pub(crate) mod parts;

use parts::{DELAYS, RATES};
pub use parts::{Graph, LinkSpec, Links};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::registry;
use std::path::Path;

registry! {
    /// The families
    pub enum TopologyKind {
        "fat_tree" => fat_tree::FatTree(FatTree);
        "xgft" => xgft::Xgft(Xgft);
        "leaf_spine" => leaf_spine::LeafSpine(LeafSpine);
        "dumbbell" => dumbbell::Dumbbell(Dumbbell);
        "star" => star::Star(Star);
        "line" => line::Line(Line);
        "ring" => ring::Ring(Ring);
        "jellyfish" => jellyfish::Jellyfish(Jellyfish);
        "torus" => torus::Torus(Torus);
        "dragonfly" => dragonfly::Dragonfly(Dragonfly);
        "file" => file::File(File);
        "custom" => custom::Custom(Custom);
    }
    pub fn read(t, links: &Links);
    impl parts::Graph;
}

/// `[topology]`.
#[derive(Clone, PartialEq, Debug)]
pub struct TopologySpec {
    /// The family and its parameters.
    pub kind: TopologyKind,
    /// Rate and delay of links at hosts (and of all links, unless `fabric_link` says else).
    pub link: LinkSpec,
    /// Rate and delay of links between switches.
    pub fabric_link: LinkSpec,
}

pub(crate) fn topology(t: &mut Table, base_dir: &Path) -> Option<TopologySpec> {
    let kind = TopologyKind::choose(t, "kind", None, "Family of the fabric");
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
    let doc = "Rate of the links between switches, each way";
    let rate = t.or_because_in("rate", (host.rate, same("rate")), RATES, "topology.link.rate", doc);
    let doc = "Propagation delay of the links between switches, one way";
    let delay = t.or_because_in("delay", (host.delay, same("delay")), DELAYS, "topology.link.delay", doc);
    LinkSpec { rate, delay }
}
