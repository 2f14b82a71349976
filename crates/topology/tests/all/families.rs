//! Tests of topology families by text, and of statistics.

use crate::common::LINK;
use pauseframe_topology::generate::{Jellyfish, families, jellyfish, leaf_spine, named};
use pauseframe_topology::{NodeKind, Statistics, Topology};
use pauseframe_units::Span;

#[test]
fn families_are_the_generators() {
    assert_eq!(
        named("leaf_spine:leaves=2,spines=2,hosts_per_leaf=3"),
        Ok(leaf_spine(2, 2, 3, LINK, LINK).unwrap())
    );
    let size = Jellyfish { switches: 10, network_ports: 4, hosts_per_switch: 3 };
    let drawn = jellyfish(size, 7, LINK, LINK).unwrap();
    assert_eq!(
        named("jellyfish: switches=10, network_ports=4, hosts_per_switch=3, seed=7"),
        Ok(drawn.clone())
    );
    assert_eq!(named("jellyfish:switches=10,ports=7,hosts_per_switch=3,seed=7"), Ok(drawn));
    let fast =
        named("leaf_spine:leaves=2,spines=1,hosts_per_leaf=1,rate=25 Gbps,fabric_rate=100 Gbps,delay=5 ns")
            .unwrap();
    let rates: Vec<u64> = fast.links().iter().map(|link| link.channels[1].rate.0 / 1_000_000_000).collect();
    assert_eq!(rates, [25, 25, 100, 100]);
    assert!(fast.links().iter().all(|link| link.channels[0].delay == Span::from_ns(5)));
    assert_eq!(named("torus:lengths=3x4").unwrap().switches().count(), 12);
    assert_eq!(named("xgft:m=4x3,w=1x2").unwrap().hosts().count(), 12);
}

#[test]
fn every_family_says_what_it_misses() {
    assert!(
        families().any(|(family, keys)| family == "jellyfish" && keys.contains("or ports, of all kinds"))
    );
    for (family, _) in families() {
        let error = named(family).unwrap_err().to_string();
        assert!(error.contains("is missing; its parameters are"), "{error}");
    }
}

#[test]
fn slips_of_the_pen_are_named() {
    let error = |text: &str| named(text).unwrap_err().to_string();
    assert!(error("fat_tre:k=4").contains("did you mean \"fat_tree\"?"));
    assert!(error("fat_tree:k=4,rat=1 Gbps").contains("no parameter \"rat\"; did you mean \"rate\"?"));
    assert!(error("fat_tree:k").contains("not of the form parameter=value"));
    assert!(error("fat_tree:k=4,k=6").contains("given twice"));
    assert!(error("fat_tree:k=four").contains("k: \"four\" is text; expected a whole number"));
    assert!(error("xgft:m=4xx,w=1x2").contains("such as 8x2"));
    assert!(error("xgft:m=99999999999x4,w=1x2").contains("xgft: m: "));
    assert!(error("fat_tree:k=4,rate=10").contains("rate = \"10\""));
    assert!(error("jellyfish:switches=5,ports=x,hosts_per_switch=4").contains("ports = \"x\""));
    assert!(error("fat_tree:k=5").contains("k = 5"));
    assert!(error("torus:lengths=4,4").contains("not of the form"));
    assert!(error("jellyfish:switches=5,ports=3,hosts_per_switch=4").contains("do not fit"));
}

fn bisection(text: &str) -> (u64, f64) {
    let found = Statistics::of(&named(text).unwrap()).bisection.unwrap();
    (found.at_most_bps / 1_000_000_000, found.per_host_rate)
}

#[test]
fn bisections_of_known_fabrics() {
    // The bisection cuts a line at one place, a ring at two places, and a 4 x 4 torus across 2 x 4 links.
    assert_eq!(bisection("line:switches=6,hosts_per_switch=2").0, 10);
    assert_eq!(bisection("ring:switches=8,hosts_per_switch=1").0, 20);
    assert_eq!(bisection("torus:lengths=4x4").0, 80);
    assert_eq!(bisection("dumbbell:left=3,right=3").0, 10);
    // A fat tree has full bisection: k^3/8 hosts on each side.
    assert_eq!(bisection("fat_tree:k=4"), (80, 1.0));
    assert_eq!(bisection("fat_tree:k=6"), (270, 1.0));
    // Four leaves on two spines of 40 Gb/s: each spine may be on either side; in both cases the cut contains
    // two uplinks.
    assert_eq!(bisection("leaf_spine:leaves=4,spines=2,hosts_per_leaf=4,fabric_rate=40 Gbps"), (160, 2.0));
}

#[test]
fn a_random_regular_graph_is_between_its_bounds() {
    // Bollobás (1988): a bisection has at least n (r / 4 - sqrt(r ln 2) / 2) links; a random bisection has n
    // r / 4 on average.
    let statistics =
        Statistics::of(&named("jellyfish:switches=100,network_ports=12,hosts_per_switch=2").unwrap());
    let links = statistics.bisection.unwrap().at_most_bps / 10_000_000_000;
    assert!((155..300).contains(&links), "{links}");
}

#[test]
fn statistics_count() {
    let s = Statistics::of(&named("fat_tree:k=4,fabric_rate=40 Gbps").unwrap());
    assert_eq!((s.hosts, s.switches, s.host_links, s.fabric_links), (16, 20, 16, 32));
    let rates: Vec<_> = s.rates.iter().map(|rate| (rate.bps / 1_000_000_000, rate.channels)).collect();
    assert_eq!(rates, [(40, 64), (10, 32)]);
    assert_eq!((s.switch_ports, s.hosts_per_switch, s.diameter), (Some([4, 4]), Some([2, 2]), Some(4)));
    // Mean distance from a host: one host at the same switch, two hosts in the same pod at 2 links, twelve
    // hosts at 4 links: (0 + 4 + 48) / 15.
    assert!((s.distance_mean.unwrap() - 52.0 / 15.0).abs() < 1e-12);
    assert!(s.problems.is_empty());
    let mut broken = Topology::new();
    let [host, other] = ["h", "g"].map(|name| broken.add_node(name, NodeKind::Host, None));
    let switch = broken.add_node("s", NodeKind::Switch, None);
    broken.add_link(host, switch, LINK);
    broken.add_link(host, other, LINK);
    let found = Statistics::of(&broken);
    assert_eq!((found.diameter, found.bisection.is_none(), found.problems.len()), (None, true, 2));
}
