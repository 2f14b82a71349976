//! `[topology]`: which graph, and how fast and long its links are.

use super::file;
use super::ledger::Origin;
use super::reader::Table;
use crate::spec::{CustomLink, FabricFile, LinkSpec, TopologyKind, TopologySpec};
use pauseframe_topology::interchange::{self, Defaults, Format};
use pauseframe_topology::{Channel, files};
use pauseframe_units::{BitRate, Span};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

type Reader = fn(&mut Table, &Links) -> Option<TopologyKind>;

/// The families; each reads its own parameters.
const KINDS: &[(&str, Reader)] = &[
    ("fat_tree", fat_tree),
    ("xgft", xgft),
    ("leaf_spine", leaf_spine),
    ("dumbbell", dumbbell),
    ("star", star),
    ("line", line),
    ("ring", ring),
    ("jellyfish", jellyfish),
    ("torus", torus),
    ("dragonfly", dragonfly),
    ("file", fabric_file),
    ("custom", custom),
];

struct Links<'a> {
    host: LinkSpec,
    fabric: LinkSpec,
    /// Where relative names of files begin.
    base_dir: &'a Path,
}

/// The slowest link that is taken for intended.
const RATE_MIN: BitRate = BitRate(1_000);
/// The fastest: beyond it a byte takes less than a picosecond or two.
const RATE_MAX: BitRate = BitRate(4_000_000_000_000);
/// The longest: the Earth to the Moon is 1.3 s.
const DELAY_MAX: Span = Span::from_secs(10);

pub(crate) fn topology(t: &mut Table, base_dir: &Path) -> Option<TopologySpec> {
    let kind = t.variant("kind", None, KINDS, "Family of the fabric");
    let host = t.section("link", |t| LinkSpec {
        rate: t.or_in("rate", BitRate::gbps(10), RATE_MIN..=RATE_MAX, "Rate of the links at hosts, each way"),
        delay: t.or_in("delay", Span::from_us(1), Span::ZERO..=DELAY_MAX, "Propagation delay, one way"),
    });
    let fabric = t.section("fabric_link", |t| fabric_link(t, host));
    let is_file = t.chosen() == "file";
    let message = || "differs from link, but the links of a file all have the same default".to_owned();
    t.check(!is_file || fabric == host, "fabric_link", message, "give rates and delays in the file");
    let kind = kind.and_then(|read| read(t, &Links { host, fabric, base_dir }))?;
    Some(TopologySpec { kind, link: host, fabric_link: fabric })
}

fn fabric_link(t: &mut Table, host: LinkSpec) -> LinkSpec {
    let same = |what: &str| Origin::Computed(format!("as topology.link.{what}"));
    let rate = t.or_because(
        "rate",
        host.rate,
        same("rate"),
        "topology.link.rate",
        "Rate of the links between switches, each way (1 Kbps to 4 Tbps)",
    );
    let delay = t.or_because(
        "delay",
        host.delay,
        same("delay"),
        "topology.link.delay",
        "Propagation delay of the links between switches, one way (0 s to 10 s)",
    );
    check_link(t, rate, delay);
    LinkSpec { rate, delay }
}

fn check_link(t: &mut Table, rate: BitRate, delay: Span) {
    let rate_text = || format!("{rate} is outside {RATE_MIN} to {RATE_MAX}");
    t.check((RATE_MIN..=RATE_MAX).contains(&rate), "rate", rate_text, "");
    t.check(delay <= DELAY_MAX, "delay", || format!("{delay} is outside 0 ps to {DELAY_MAX}"), "");
}

fn fat_tree(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    Some(TopologyKind::FatTree { k: t.required("k", "Ports a switch, even; there are k^3/4 hosts")? })
}

fn xgft(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let m = t.required("m", "Children of a node of each level above the hosts, m_1 to m_h");
    let w = t.required("w", "Parents of a node of each level from the hosts on, w_1 to w_h; w_1 is 1");
    let doc = "Further hosts (ext0, ext1, ...) at each switch of the highest level, as cee Fig. 2 has its query sources";
    let external = t.or_in("external", 0, 0..=1_000_000, doc);
    Some(TopologyKind::Xgft { m: m?, w: w?, external })
}

fn leaf_spine(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let leaves = t.required("leaves", "Leaf switches");
    let spines = t.required("spines", "Spine switches; every leaf has a link to each");
    let hosts_per_leaf = t.required("hosts_per_leaf", "Hosts at each leaf");
    Some(TopologyKind::LeafSpine { leaves: leaves?, spines: spines?, hosts_per_leaf: hosts_per_leaf? })
}

fn dumbbell(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let left = t.required("left", "Hosts at the left switch");
    let right = t.required("right", "Hosts at the right switch");
    Some(TopologyKind::Dumbbell { left: left?, right: right? })
}

fn star(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    Some(TopologyKind::Star { hosts: t.required("hosts", "Hosts at the one switch")? })
}

fn line(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let switches = t.required("switches", "Switches in the line");
    let hosts_per_switch = t.required("hosts_per_switch", "Hosts at each switch");
    Some(TopologyKind::Line { switches: switches?, hosts_per_switch: hosts_per_switch? })
}

fn ring(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let switches = t.required("switches", "Switches in the ring, at least 3");
    let hosts_per_switch = t.required("hosts_per_switch", "Hosts at each switch");
    Some(TopologyKind::Ring { switches: switches?, hosts_per_switch: hosts_per_switch? })
}

fn jellyfish(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let switches = t.required("switches", "Switches");
    let network_ports = t.required("network_ports", "Ports of each switch that lead to other switches");
    let hosts_per_switch = t.required("hosts_per_switch", "Hosts at each switch");
    let seed = t.or("seed", 1, "Draws the links");
    Some(TopologyKind::Jellyfish {
        switches: switches?,
        network_ports: network_ports?,
        hosts_per_switch: hosts_per_switch?,
        seed,
    })
}

fn torus(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let lengths = t.required("lengths", "Switches along each dimension");
    let hosts_per_switch = t.required("hosts_per_switch", "Hosts at each switch");
    Some(TopologyKind::Torus { lengths: lengths?, hosts_per_switch: hosts_per_switch? })
}

fn dragonfly(t: &mut Table, _: &Links) -> Option<TopologyKind> {
    let hosts = t.required("p", "Hosts at each switch");
    let switches = t.required("a", "Switches in each group");
    let global_links = t.required("h", "Links of each switch to other groups");
    let groups = t.required("g", "Groups: 2 to a h + 1");
    Some(TopologyKind::Dragonfly { p: hosts?, a: switches?, h: global_links?, g: groups? })
}

fn fabric_file(t: &mut Table, links: &Links) -> Option<TopologyKind> {
    let load = |path: &Path| files::read_text(path).map_err(|e| format!("{}: {e}", path.display()));
    let doc = "GraphML, node-link JSON, HPCC, htsim, containerlab or ibnetdiscover file";
    let source = file::source(t, links.base_dir, doc, load);
    let known = source.as_ref().and_then(|source| Format::of(Path::new(&source.name), &source.text));
    let origin = Origin::Computed("by the extension".to_owned());
    let format = t.or_because(
        "format",
        known.unwrap_or(Format::NodeLink),
        origin,
        "by the extension of path",
        "Format of the file",
    );
    let source = source?;
    let told = known.is_some() || t.has("format");
    t.check(told, "format", || format!("the name {:?} tells no format", source.name), "set format");
    let channel = Channel { rate: links.host.rate, delay: links.host.delay };
    match interchange::read(&source.text, format, Defaults { channel }) {
        Ok(import) => {
            for note in &import.notes {
                t.ledger.warn(format!("{}: {note}", source.name));
            }
            let fabric = FabricFile(Arc::new(import));
            Some(TopologyKind::File { path: source.name, digest: source.digest, fabric })
        }
        Err(error) => {
            let place = error.place.map_or(String::new(), |place| format!(", {place}"));
            let key = if t.has("path") { "path" } else { "text" };
            t.check(false, key, || format!("{}{place}: {}", source.name, error.message), "");
            None
        }
    }
}

fn custom(t: &mut Table, links: &Links) -> Option<TopologyKind> {
    let hosts = t.required::<Vec<String>>("hosts", "Names of the hosts");
    let switches = t.required::<Vec<String>>("switches", "Names of the switches");
    for (key, names) in [("hosts", &hosts), ("switches", &switches)] {
        let bad = names.iter().flatten().find(|name| !is_node_name(name));
        let message = || format!("{:?} is not a name for a node", bad.map_or("", String::as_str));
        t.check(
            bad.is_none(),
            key,
            message,
            "use letters, digits, '_', and after the first '-' and '.': ports are NAME:NUMBER",
        );
    }
    let host_names: BTreeSet<&String> = hosts.iter().flatten().collect();
    let rows = t.rows("links", "required", "[\"A\", \"S1\"], or a table with `ends`", |t| {
        let ends = t.required::<[String; 2]>("ends", "The two nodes of the link");
        let default =
            if ends.iter().flatten().any(|end| host_names.contains(end)) { links.host } else { links.fabric };
        let rule = "topology.link.rate at hosts, else topology.fabric_link.rate";
        let rate = t.or_because("rate", default.rate, Origin::Default, rule, "Rate, each way");
        let rule = "topology.link.delay at hosts, else topology.fabric_link.delay";
        let delay = t.or_because("delay", default.delay, Origin::Default, rule, "Propagation delay, one way");
        check_link(t, rate, delay);
        let back = way_back(t, LinkSpec { rate, delay });
        Some(CustomLink { ends: ends?, link: LinkSpec { rate, delay }, back })
    });
    t.check(t.has("links") || t.is_documenting(), "links", || "is required: list of links".to_owned(), "");
    Some(TopologyKind::Custom { hosts: hosts?, switches: switches?, links: rows? })
}

/// An asymmetric link has another rate or delay from its second end to its first.
fn way_back(t: &mut Table, there: LinkSpec) -> LinkSpec {
    let doc = "Rate from the second end to the first, where it is another";
    let rate = t.optional_in("rate_back", RATE_MIN..=RATE_MAX, "as rate", doc);
    let doc = "Propagation delay from the second end to the first, where it is another";
    let delay = t.optional_in("delay_back", Span::ZERO..=DELAY_MAX, "as delay", doc);
    LinkSpec { rate: rate.unwrap_or(there.rate), delay: delay.unwrap_or(there.delay) }
}

/// The names of ports and queues are made of those of nodes ("edge0:3/p0").
fn is_node_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    !name.starts_with(['.', '-']) && !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}
