//! Tests of the generated topology families against closed forms.

use crate::common::LINK;
use pauseframe_topology::generate::{self, Dragonfly, GenerateError, Jellyfish};
use pauseframe_topology::{Statistics, SwitchGraph, Topology, check};

/// Number of hosts, switches and links.
fn counts(topology: &Topology) -> (usize, usize, usize) {
    assert_eq!(check(topology), []);
    (topology.hosts().count(), topology.switches().count(), topology.links().len())
}

fn degree(topology: &Topology, name: &str) -> usize {
    topology.nodes()[topology.find(name).unwrap()].ports.len()
}

#[test]
fn a_fat_tree_has_its_closed_form_counts_and_full_switches() {
    for k in [2, 4, 6, 8, 16] {
        let topology = generate::fat_tree(k, LINK, LINK).unwrap();
        let k = k as usize;
        assert_eq!(counts(&topology), (k * k * k / 4, 5 * k * k / 4, 3 * k * k * k / 4));
        assert!(topology.switches().all(|switch| topology.nodes()[switch].ports.len() == k));
    }
    let topology = generate::fat_tree(4, LINK, LINK).unwrap();
    for (name, level) in [("host15", 0), ("edge3_1", 1), ("agg0_0", 2), ("core3", 3)] {
        assert_eq!(topology.nodes()[topology.find(name).unwrap()].level, Some(level));
    }
}

/// cee Fig. 2: 16 query sources at the two upper switches; their ids follow the ids of the 64 hosts.
#[test]
fn external_hosts_hang_at_the_highest_switches() {
    let plain = generate::xgft(&[16, 4], &[1, 2], LINK, LINK).unwrap();
    let topology = generate::xgft_with_external(&[16, 4], &[1, 2], 8, LINK, LINK).unwrap();
    assert_eq!((topology.hosts().count(), topology.nodes().len()), (80, plain.nodes().len() + 16));
    for (i, root) in [(0, "s2_0"), (7, "s2_0"), (8, "s2_1"), (15, "s2_1")] {
        let host = topology.find(&format!("ext{i}")).unwrap();
        assert_eq!(topology.nodes()[host].ports.len(), 1);
        assert_eq!(Some(topology.peer(topology.nodes()[host].ports[0])), topology.find(root), "ext{i}");
    }
    assert!(topology.find("ext16").is_none());
}

#[test]
fn an_xgft_has_its_closed_form_counts() {
    let topology = generate::xgft(&[16, 4], &[1, 2], LINK, LINK).unwrap();
    assert_eq!(counts(&topology), (64, 4 + 2, 64 + 8));
    assert_eq!((degree(&topology, "s1_0"), degree(&topology, "s2_1")), (18, 4));

    // The fat tree with k = 4 is XGFT(3; 2,2,4; 1,2,2).
    let topology = generate::xgft(&[2, 2, 4], &[1, 2, 2], LINK, LINK).unwrap();
    assert_eq!(counts(&topology), counts(&generate::fat_tree(4, LINK, LINK).unwrap()));
    let names = topology.nodes()[topology.find("s1_7").unwrap()].ports.iter();
    let peers: Vec<_> = names.map(|port| topology.nodes()[topology.peer(*port)].name.as_str()).collect();
    assert_eq!(peers, ["host14", "host15", "s2_6", "s2_7"]);
}

#[test]
fn a_pgft_has_parallel_links() {
    let topology = generate::pgft(&[16, 4], &[1, 2], &[1, 3], LINK, LINK).unwrap();
    assert_eq!(counts(&topology), (64, 6, 64 + 24));
    assert_eq!((degree(&topology, "s1_0"), degree(&topology, "s2_1")), (22, 12));
}

#[test]
fn the_small_families_have_their_closed_form_counts() {
    assert_eq!(counts(&generate::leaf_spine(4, 3, 10, LINK, LINK).unwrap()), (40, 7, 52));
    assert_eq!(counts(&generate::dumbbell(3, 2, LINK, LINK).unwrap()), (5, 2, 6));
    assert_eq!(counts(&generate::star(5, LINK).unwrap()), (5, 1, 5));
    assert_eq!(counts(&generate::line(4, 2, LINK, LINK).unwrap()), (8, 4, 11));
    assert_eq!(counts(&generate::ring(4, 2, LINK, LINK).unwrap()), (8, 4, 12));
    let ring = generate::ring(3, 1, LINK, LINK).unwrap();
    assert!(ring.switches().all(|switch| ring.nodes()[switch].ports.len() == 3));
}

#[test]
fn parameters_out_of_bounds_are_named_with_what_is_allowed() {
    let refused = |result: Result<Topology, GenerateError>| result.unwrap_err().to_string();
    let text = refused(generate::fat_tree(5, LINK, LINK));
    assert_eq!(text, "fat_tree: k = 5 is not possible: it must be even and at least 2");
    assert!(refused(generate::fat_tree(0, LINK, LINK)).contains("k = 0"));
    assert!(refused(generate::xgft(&[], &[], LINK, LINK)).contains("m = []"));
    assert!(refused(generate::xgft(&[2, 2], &[1], LINK, LINK)).contains("as long as m"));
    assert!(refused(generate::xgft(&[2, 0], &[1, 2], LINK, LINK)).contains("m = [2, 0]"));
    assert!(refused(generate::pgft(&[2, 2], &[1, 2], &[0, 1], LINK, LINK)).contains("p = [0, 1]"));
    assert!(refused(generate::leaf_spine(1, 0, 1, LINK, LINK)).contains("spines = 0"));
    assert!(refused(generate::dumbbell(0, 1, LINK, LINK)).contains("left = 0"));
    assert!(refused(generate::star(0, LINK)).contains("hosts = 0"));
    assert!(refused(generate::line(3, 0, LINK, LINK)).contains("hosts_per_switch = 0"));
    assert!(refused(generate::ring(2, 1, LINK, LINK)).contains("at least 3"));
}

#[test]
fn gigantic_fabrics_are_refused_before_they_are_built() {
    let most = u32::MAX;
    let too_large =
        |result: Result<Topology, GenerateError>| matches!(result, Err(GenerateError::TooLarge { .. }));
    assert!(too_large(generate::fat_tree(most - 1, LINK, LINK)));
    assert!(too_large(generate::xgft(&[most; 9], &[1, 9, 9, 9, 9, 9, 9, 9, 9], LINK, LINK)));
    assert!(too_large(generate::leaf_spine(most, most, most, LINK, LINK)));
    assert!(too_large(generate::dumbbell(most, most, LINK, LINK)));
    assert!(too_large(generate::star(most, LINK)));
    assert!(too_large(generate::line(most, most, LINK, LINK)));
    assert!(too_large(generate::ring(most, most, LINK, LINK)));
}

#[test]
fn a_torus_has_its_closed_form_counts_and_diameter() {
    let topology = generate::torus(&[4, 3, 2], 2, LINK, LINK).unwrap();
    // In a dimension of length 2, every pair of switches has one link.
    assert_eq!(counts(&topology), (48, 24, 48 + 24 + 24 + 12));
    assert_eq!(Statistics::of(&topology).diameter, Some(2 + 1 + 1));
    assert!(topology.find("s3_2_1").is_some());
    assert!(generate::torus(&[3, 1], 1, LINK, LINK).unwrap_err().to_string().contains("[3, 1]"));
}

#[test]
fn a_dragonfly_joins_every_pair_of_groups_alike() {
    // The paper's example p = 2, a = 4, h = 2, g = 9 has 72 hosts and 36 switches with 7 ports.
    let size = Dragonfly { p: 2, a: 4, h: 2, g: 9 };
    let topology = generate::dragonfly(size, LINK, LINK).unwrap();
    assert_eq!(counts(&topology), (72, 36, 72 + 9 * 6 + 36));
    assert!(topology.switches().all(|switch| topology.nodes()[switch].ports.len() == 7));
    for g in [2, 3, 5, 9] {
        let topology = generate::dragonfly(Dragonfly { g, ..size }, LINK, LINK).unwrap();
        let group = |node| topology.nodes()[node].name.split('_').next().unwrap().to_owned();
        let mut pairs = std::collections::BTreeMap::new();
        let switch = |node| topology.nodes()[node].kind == pauseframe_topology::NodeKind::Switch;
        for link in topology.links().iter().filter(|link| link.ends.into_iter().all(switch)) {
            let mut ends = link.ends.map(group);
            ends.sort();
            *pairs.entry(ends).or_insert(0_u32) += 1;
        }
        pairs.retain(|[one, other], _| one != other);
        assert_eq!(pairs.len() as u32, g * (g - 1) / 2);
        assert!(pairs.values().all(|links| *links == 8 / (g - 1)), "{pairs:?}");
    }
    let error = generate::dragonfly(Dragonfly { g: 10, ..size }, LINK, LINK).unwrap_err();
    assert_eq!(error.to_string(), "dragonfly: g = 10 is not possible: it must be 2 to a h + 1");
}

/// For every switch, its neighbouring switches, sorted.
fn neighbours(topology: &Topology) -> Vec<Vec<u32>> {
    let graph = SwitchGraph::new(topology).unwrap();
    let sorted = |switch| {
        let mut list: Vec<u32> = graph.arcs(switch).iter().map(|arc| arc.to).collect();
        list.sort_unstable();
        list
    };
    (0..graph.len() as u32).map(sorted).collect()
}

fn assert_simple(lists: &[Vec<u32>]) {
    for (switch, list) in lists.iter().enumerate() {
        assert!(
            list.windows(2).all(|pair| pair[0] < pair[1]) && !list.contains(&(switch as u32)),
            "{switch}: {list:?}"
        );
    }
}

#[test]
fn a_jellyfish_is_simple_connected_and_regular() {
    for (n, r) in [(1, 0), (2, 1), (3, 2), (4, 2), (20, 2), (20, 3), (7, 6), (50, 10), (51, 9), (225, 32)] {
        for seed in 0..4 {
            let size = Jellyfish { switches: n, network_ports: r, hosts_per_switch: 2 };
            let topology = generate::jellyfish(size, seed, LINK, LINK).unwrap();
            let links = (n * r / 2) as usize;
            assert_eq!(counts(&topology), (2 * n as usize, n as usize, 2 * n as usize + links), "{n} {r}");
            let lists = neighbours(&topology);
            assert_simple(&lists);
            let short = lists.iter().map(|list| r as usize - list.len()).sum::<usize>();
            assert_eq!(short, (n * r % 2) as usize);
        }
    }
}

#[test]
fn a_jellyfish_follows_its_seed() {
    let size = Jellyfish { switches: 30, network_ports: 5, hosts_per_switch: 1 };
    let draw = |seed| neighbours(&generate::jellyfish(size, seed, LINK, LINK).unwrap());
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    for (n, r) in [(5, 5), (5, 1), (0, 0)] {
        let size = Jellyfish { switches: n, network_ports: r, hosts_per_switch: 1 };
        assert!(generate::jellyfish(size, 0, LINK, LINK).is_err(), "{n} {r}");
    }
}
