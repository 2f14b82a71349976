//! Tests of updates: whatever subset of switches and hosts has carried out a step, no packet loops, deadlocks
//! or is lost.

use crate::common::LINK;
use pauseframe_routing::update::{Update, UpdateSettings};
use pauseframe_routing::verify::{Options, Tables, verify};
use pauseframe_routing::watch::Unwatched;
use pauseframe_routing::{EngineSettings, NextHops, engine};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, SwitchGraph, Topology, generate};
use pauseframe_units::{LinkId, NodeId};
use petgraph::algo::is_cyclic_directed;
use petgraph::graphmap::DiGraphMap;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const FABRICS: [&str; 20] = [
    "jellyfish:switches=12,network_ports=3,hosts_per_switch=1",
    "jellyfish:switches=16,network_ports=4,hosts_per_switch=2",
    "jellyfish:switches=20,network_ports=3,hosts_per_switch=1,seed=2",
    "jellyfish:switches=20,network_ports=6,hosts_per_switch=1,seed=3",
    "jellyfish:switches=30,network_ports=3,hosts_per_switch=1,seed=4",
    "jellyfish:switches=30,network_ports=4,hosts_per_switch=1,seed=5",
    "jellyfish:switches=24,network_ports=8,hosts_per_switch=1,seed=6",
    "fat_tree:k=4",
    "leaf_spine:leaves=4,spines=3,hosts_per_leaf=2",
    "leaf_spine:leaves=8,spines=4,hosts_per_leaf=1",
    "torus:lengths=4x4",
    "torus:lengths=5x3",
    "torus:lengths=3x3x2",
    "ring:switches=6,hosts_per_switch=1",
    "ring:switches=9,hosts_per_switch=2",
    "dragonfly:p=1,a=4,h=1,g=5",
    "dragonfly:p=1,a=2,h=2,g=5",
    "xgft:m=3x2,w=1x2",
    "line:switches=5,hosts_per_switch=1",
    "dumbbell:left=3,right=3",
];

/// Returns `topology` with a link failed, a link added, a host moved or a host added; none if the random
/// choice is not usable.
fn changed(topology: &Topology, labels: &Labels, rng: &mut Pcg64) -> Option<(Topology, Labels, bool)> {
    let graph = SwitchGraph::new(topology).unwrap();
    let switches: Vec<NodeId> = topology.switches().collect();
    let what = rng.random_range(0..5);
    if what <= 1 {
        let mut links: Vec<LinkId> = graph.edges().iter().map(|edge| edge.link).collect();
        links.shuffle(rng);
        let failed = &links[..(1 + what).min(links.len())];
        let (next, labels) = labels.without_links(topology, failed);
        return NextHops::shortest(&next).is_ok().then_some((next, labels, rng.random()));
    }
    let mut gone = Vec::new();
    let mut host = None;
    if what == 3 {
        let moves = topology.hosts().collect::<Vec<_>>().choose(rng).copied()?;
        gone.push(graph.uplink(moves).link());
        host = Some(moves);
    }
    let (mut next, labels) = labels.without_links(topology, &gone);
    let a = *switches.choose(rng)?;
    let b = match what {
        2 => switches.choose(rng).copied().filter(|b| *b != a)?,
        3 => host?,
        _ => next.add_node(format!("new{}", next.nodes().len()), NodeKind::Host, None),
    };
    next.add_link(a, b, LINK);
    NextHops::shortest(&next).is_ok().then_some((next, labels, false))
}

/// The turns of the route from `from` to `to` in `vlan`, if the tables have a route.
fn turns(tables: &Tables, position: usize, from: NodeId, to: NodeId) -> Option<Vec<(u32, u32)>> {
    let mut ports = Vec::new();
    let lane = u32::from(tables.vlans()[position].lane);
    let arrives = tables.carries(position, from, to, &mut ports);
    let channel = |port: &pauseframe_units::PortId| (lane << 24) | port.0;
    arrives.then(|| ports.windows(2).map(|pair| (channel(&pair[0]), channel(&pair[1]))).collect())
}

/// Some hosts send by the old tables, some by the new tables: all packets arrive and none deadlocks.
fn mixture(update: &Update, rng: &mut Pcg64, failed: bool) {
    let topology = &update.union.topology;
    let during = update.during();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let mut buffers: DiGraphMap<u32, ()> = DiGraphMap::new();
    for from in &hosts {
        let late: bool = rng.random();
        let tables = if late { &update.before } else { &update.after };
        for to in hosts.iter().filter(|to| *to != from) {
            let mut served = false;
            for (position, vlan) in tables.vlans().iter().enumerate() {
                let Some(turns) = turns(tables, position, *from, *to) else { continue };
                served = true;
                for (a, b) in turns {
                    buffers.add_edge(a, b, ());
                }
                let there = during.vlans().iter().position(|other| other.id == vlan.id).unwrap();
                let mut ports = [Vec::new(), Vec::new()];
                tables.carries(position, *from, *to, &mut ports[0]);
                assert!(during.carries(there, *from, *to, &mut ports[1]), "VLAN {}", vlan.id);
                assert_eq!(ports[0], ports[1], "rows of VLAN {} change while it is in use", vlan.id);
            }
            let present = |tables: &Tables| {
                tables.vlans().iter().enumerate().any(|(v, _)| turns(tables, v, *from, *to).is_some())
            };
            // Exempt: a host of one topology only, or a pair that the failure itself disconnects.
            let exempt = if late { failed } else { !present(&update.after) && present(&update.before) };
            assert!(served || exempt || !present(&update.after) || !present(&update.before));
        }
    }
    assert!(!is_cyclic_directed(&buffers));
}

#[test]
fn no_mixture_of_an_update_loses_or_stops_a_packet() {
    let (mut updates, mut lanes) = (0, 0);
    let mut rng = Pcg64::seed_from_u64(11);
    for (i, fabric) in FABRICS.iter().enumerate() {
        let (mut topology, mut labels) = (generate::named(fabric).unwrap(), Labels::default());
        let name = ["auto", "order_pair", "up_down"][i % 3];
        let settings = EngineSettings { vlans: Some(4), seed: i as u64, ..EngineSettings::default() };
        let plan = engine(name, &settings).unwrap();
        let plan = plan.plan(&topology, &SwitchGraph::new(&topology).unwrap()).unwrap();
        let mut tables = Tables::of_plan(&plan, 1);
        for _ in 0..25 {
            // Draw again if the choice is not usable: a link from a switch to itself, or a failed bridge of
            // the graph.
            let (next, named, failed) = loop {
                if let Some(change) = changed(&topology, &labels, &mut rng) {
                    break change;
                }
            };
            let settings = UpdateSettings { lanes: 8, failed };
            let (old, new) = ((&topology, &labels), (&next, &named));
            let update = Update::plan(old, &tables, new, settings, &mut Unwatched).unwrap();
            assert!(update.mixes().unwrap(), "{fabric}");
            mixture(&update, &mut rng, failed);
            let after = update.on_new(&next).unwrap();
            let report = verify(&next, &after, &Options::default()).unwrap();
            assert!(report.is_clean(), "{fabric}: {report}");
            lanes += usize::from(after.lanes() > tables.lanes());
            updates += 1;
            labels = update.labels(&named);
            (topology, tables) = (next, after);
        }
    }
    println!("{updates} updates, {lanes} with a lane more");
    assert_eq!(updates, 500);
}

#[test]
fn a_failure_that_parts_hosts_is_refused_by_name() {
    let topology = generate::named("line:switches=5,hosts_per_switch=1").unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let plan = engine("up_down", &EngineSettings::default()).unwrap().plan(&topology, &graph).unwrap();
    let (tables, none) = (Tables::of_plan(&plan, 1), Labels::default());
    for edge in graph.edges() {
        let (next, labels) = none.without_links(&topology, &[edge.link]);
        let settings = UpdateSettings { lanes: 8, failed: true };
        let refused = Update::plan((&topology, &none), &tables, (&next, &labels), settings, &mut Unwatched)
            .unwrap_err();
        let first = topology.hosts().next().map(|host| &topology.nodes()[host].name).unwrap();
        assert!(
            refused.to_string().starts_with(&format!("there is no path from {first:?} to ")),
            "{refused}"
        );
    }
}

#[test]
fn a_change_that_touches_no_route_changes_no_row() {
    let topology = generate::named("leaf_spine:leaves=4,spines=2,hosts_per_leaf=2").unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let settings = EngineSettings { vlans: Some(2), ..EngineSettings::default() };
    let tables = Tables::of_plan(&engine("auto", &settings).unwrap().plan(&topology, &graph).unwrap(), 1);
    let none = Labels::default();
    let mut next = topology.clone();
    let ends = topology.links()[graph.edges()[0].link].ends;
    next.add_link(ends[0], ends[1], LINK);
    let settings = UpdateSettings { lanes: 2, failed: false };
    let plan =
        |new: &Topology| Update::plan((&topology, &none), &tables, (new, &none), settings, &mut Unwatched);
    let same = plan(&next).unwrap();
    assert_eq!((same.kept.len(), same.changes().len(), same.notes.len()), (2, 0, 0));
    let (fewer, labels) = none.without_links(&topology, &[graph.edges()[0].link]);
    let update =
        Update::plan((&topology, &none), &tables, (&fewer, &labels), settings, &mut Unwatched).unwrap();
    assert!(!update.changes().is_empty());
    for change in update.changes() {
        let old = change.before.as_ref().map(|(vlan, _)| *vlan);
        assert!(old.is_none_or(|old| old <= 2) && change.after.as_ref().is_none_or(|(vlan, _)| *vlan > 2));
    }
}

#[test]
fn a_file_without_names_of_ports_is_still_the_same_fabric() {
    let topology = generate::named("jellyfish:switches=8,network_ports=3,hosts_per_switch=1").unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let settings = EngineSettings { vlans: Some(2), ..EngineSettings::default() };
    let tables = Tables::of_plan(&engine("auto", &settings).unwrap().plan(&topology, &graph).unwrap(), 1);
    let none = Labels::default();
    let mut named = Labels::default();
    for port in 0..topology.port_count() as u32 {
        named.name_port(pauseframe_units::PortId(port), format!("Ethernet{port}"));
    }
    let settings = UpdateSettings { lanes: 2, failed: false };
    for (old, new) in [(&named, &none), (&none, &named), (&named, &named)] {
        let update =
            Update::plan((&topology, old), &tables, (&topology, new), settings, &mut Unwatched).unwrap();
        assert_eq!((update.kept.len(), update.changes().len(), update.union.moved.len()), (2, 0, 0));
    }
}
