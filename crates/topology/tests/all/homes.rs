//! Hosts with several ports in generated fabrics.

use pauseframe_topology::generate::{Homes, by_rail, fat_tree, leaf_spine, named, star};
use pauseframe_topology::{Channel, Topology, check};
use pauseframe_units::{BitRate, Span};

const LINK: Channel = Channel { rate: BitRate::gbps(100), delay: Span::from_us(1) };

fn homes(ports_per_host: u32, planes: u32) -> Homes {
    Homes { ports_per_host, planes, peer_links: 0 }
}

/// The switches at the ports of a host, in their order.
fn switches_of(topology: &Topology, host: &str) -> Vec<String> {
    let node = &topology.nodes()[topology.find(host).unwrap()];
    node.ports.iter().map(|port| topology.nodes()[topology.peer(*port)].name.clone()).collect()
}

#[test]
fn hosts_of_a_group_of_leaves_have_a_port_at_each() {
    let topology = homes(2, 1).apply(leaf_spine(4, 2, 3, LINK, LINK).unwrap()).unwrap();
    assert_eq!(check(&topology), []);
    assert_eq!((topology.hosts().count(), topology.links().len()), (12, 12 * 2 + 4 * 2));
    assert_eq!(switches_of(&topology, "host0"), ["leaf0", "leaf1"]);
    assert_eq!(switches_of(&topology, "host5"), ["leaf0", "leaf1"]);
    assert_eq!(switches_of(&topology, "host6"), ["leaf2", "leaf3"]);
    let error = homes(3, 1).apply(leaf_spine(4, 2, 3, LINK, LINK).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("ports of hosts: ports_per_host = 3 is not possible"), "{error}");
}

#[test]
fn groups_stay_below_the_same_switches_and_a_star_has_parallel_links() {
    let pods = homes(3, 1).apply(fat_tree(6, LINK, LINK).unwrap()).unwrap();
    assert_eq!(switches_of(&pods, "host0").len(), 3);
    assert!(homes(2, 1).apply(fat_tree(6, LINK, LINK).unwrap()).is_err(), "a group would span two pods");
    let star = homes(2, 1).apply(star(2, LINK).unwrap()).unwrap();
    assert_eq!(switches_of(&star, "host1").len(), 2);
    assert_eq!(check(&star), []);
}

#[test]
fn rails_join_the_gpus_of_the_same_place_in_their_servers() {
    let racks = leaf_spine(8, 2, 3, LINK, LINK).unwrap();
    let topology = by_rail(&racks, 4).unwrap();
    assert_eq!(check(&topology), []);
    assert_eq!((topology.hosts().count(), topology.links().len()), (24, racks.links().len()));
    // Three servers of four GPUs a segment of four switches.
    for (gpu, leaf) in [(0, 0), (1, 1), (3, 3), (4, 0), (11, 3), (12, 4), (23, 7)] {
        assert_eq!(switches_of(&topology, &format!("host{gpu}")), [format!("leaf{leaf}")]);
    }
    let planes = homes(1, 2).apply(topology).unwrap();
    assert_eq!(switches_of(&planes, "host13"), ["leaf5-p0", "leaf5-p1"]);
    let pods = by_rail(&fat_tree(8, LINK, LINK).unwrap(), 4).unwrap();
    assert_eq!(switches_of(&pods, "host16"), switches_of(&pods, "host20"));
    let refused = |graph: &Topology, gpus| by_rail(graph, gpus).unwrap_err().to_string();
    for (graph, gpus) in [(&racks, 3), (&fat_tree(6, LINK, LINK).unwrap(), 2), (&star(16, LINK).unwrap(), 8)]
    {
        assert!(refused(graph, gpus).contains("form a segment"));
    }
}

#[test]
fn planes_copy_the_switches() {
    let topology = homes(1, 4).apply(star(3, LINK).unwrap()).unwrap();
    assert_eq!((topology.hosts().count(), topology.switches().count(), topology.links().len()), (3, 4, 12));
    assert_eq!(switches_of(&topology, "host2").len(), 4);
    assert!(
        topology
            .switches()
            .all(|switch| topology.nodes()[switch].name.ends_with(|c: char| c.is_ascii_digit()))
    );
    assert_eq!(check(&topology), []);
    let both = named("leaf_spine:leaves=2,spines=1,hosts_per_leaf=2,ports_per_host=2,planes=2").unwrap();
    assert_eq!((both.hosts().count(), both.links().len()), (4, 2 * (4 * 2 + 2)));
    assert!(named("star:hosts=2,planes=0").unwrap_err().to_string().contains("planes = 0: expected 1 to 64"));
}

#[test]
fn hosts_of_an_xgft_may_have_several_parents() {
    let topology = named("xgft:m=4x2,w=2x1").unwrap();
    assert_eq!(topology.hosts().count(), 8);
    assert_eq!(switches_of(&topology, "host0").len(), 2);
    assert_eq!(check(&topology), []);
}
