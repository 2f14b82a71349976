//! `[topology]`: which graph, and how fast and long its links are.

use super::ledger::Origin;
use super::reader::Table;
use crate::spec::{CustomLink, LinkSpec, TopologyKind, TopologySpec};
use pauseframe_units::{BitRate, Span};
use std::collections::BTreeSet;

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
    ("custom", custom),
];

struct Links {
    host: LinkSpec,
    fabric: LinkSpec,
}

/// The slowest link that is taken for intended.
const RATE_MIN: BitRate = BitRate(1_000);
/// The fastest: beyond it a byte takes less than a picosecond or two.
const RATE_MAX: BitRate = BitRate(4_000_000_000_000);
/// The longest: the Earth to the Moon is 1.3 s.
const DELAY_MAX: Span = Span::from_secs(10);

pub(crate) fn topology(t: &mut Table) -> Option<TopologySpec> {
    let kind = t.variant("kind", None, KINDS, "Family of the fabric");
    let host = t.section("link", |t| LinkSpec {
        rate: t.or_in("rate", BitRate::gbps(10), RATE_MIN..=RATE_MAX, "Rate of the links at hosts, each way"),
        delay: t.or_in("delay", Span::from_us(1), Span::ZERO..=DELAY_MAX, "Propagation delay, one way"),
    });
    let fabric = t.section("fabric_link", |t| fabric_link(t, host));
    let kind = kind.and_then(|read| read(t, &Links { host, fabric }))?;
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
    Some(TopologyKind::Xgft { m: m?, w: w? })
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

fn custom(t: &mut Table, links: &Links) -> Option<TopologyKind> {
    let hosts = t.required::<Vec<String>>("hosts", "Names of the hosts");
    let switches = t.required::<Vec<String>>("switches", "Names of the switches");
    for (key, names) in [("hosts", &hosts), ("switches", &switches)] {
        let bad = names.iter().flatten().find(|name| !is_node_name(name));
        let message = || format!("{:?} is not a name for a node", bad.map_or("", String::as_str));
        t.check(bad.is_none(), key, message, "use letters, digits, '_', '-' and '.': ports are NAME:NUMBER");
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
    !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
}
