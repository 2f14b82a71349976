//! Fabrics of several planes: each engine plans them in separate VLANs, and the verifier judges each plane.

use crate::common::LINK;
use pauseframe_routing::update::{Update, UpdateSettings};
use pauseframe_routing::verify::{Options, Report, Tables, verify};
use pauseframe_routing::watch::Unwatched;
use pauseframe_routing::{ENGINES, EngineSettings, RoutingError, TableUse, engine};
use pauseframe_topology::interchange::{Defaults, Format, Labels, read, write_labelled};
use pauseframe_topology::{NodeKind, SwitchGraph, Topology, generate};
use std::collections::BTreeSet;

fn split(text: &str) -> (Topology, Labels) {
    Labels::default().split_hosts(&generate::named(text).unwrap()).unwrap()
}

fn planned(name: &str, topology: &Topology) -> Tables {
    let settings = EngineSettings { seed: 1, ..EngineSettings::default() };
    let graph = SwitchGraph::new(topology).unwrap();
    Tables::of_plan(&engine(name, &settings).unwrap().plan(topology, &graph).unwrap(), 1)
}

fn check(topology: &Topology, tables: &Tables) -> Report {
    verify(topology, tables, &Options { what_ifs: true, ..Options::default() }).unwrap()
}

#[test]
fn every_engine_plans_each_plane_in_its_own_vlans() {
    let (single, _) = split("leaf_spine:leaves=3,spines=2,hosts_per_leaf=2");
    let (double, _) = split("leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,planes=2");
    for (name, _) in ENGINES {
        let (one, two) = (planned(name, &single), planned(name, &double));
        let (alone, report) = (check(&single, &one), check(&double, &two));
        assert!(report.is_clean(), "{name}: {report}");
        assert_eq!(report.black_holes.count, 2 * alone.black_holes.count, "{name}");
        assert_eq!((report.planes.len(), alone.planes.len()), (2, 0));
        assert_eq!(report.vlans, 2 * alone.vlans, "{name}");
        for (plane, place) in report.planes.iter().zip(["leaf0-p0", "leaf0-p1"]) {
            assert_eq!((plane.first_switch.as_str(), plane.switches, plane.ports), (place, 5, 6));
            assert_eq!((plane.dependencies, plane.cyclic_components), (alone.dependencies, 0), "{name}");
        }
        let vlans: BTreeSet<u16> = report.planes.iter().flat_map(|plane| plane.vlans.clone()).collect();
        assert_eq!(vlans.len(), report.planes.iter().map(|plane| plane.vlans.len()).sum::<usize>(), "{name}");
        let [alone, both] = [&one, &two].map(|tables| TableUse::of(tables).unwrap().rows);
        assert_eq!(both, alone, "{name}: a switch holds rows of its plane only");
    }
}

#[test]
fn a_cycle_is_found_in_its_plane() {
    let (topology, _) = split("ring:switches=5,hosts_per_switch=1,planes=2");
    let report = check(&topology, &planned("shortest_path", &topology));
    assert!(report.can_deadlock && report.shortest_cycle.len() == 5);
    assert_eq!(report.planes.iter().map(|plane| plane.cyclic_components).collect::<Vec<_>>(), [2, 2]);
    assert!(report.to_string().contains("VLANs 1: CAN DEADLOCK, 2 cyclic components"), "{report}");
    assert!(check(&topology, &planned("auto", &topology)).is_clean());
}

#[test]
fn hosts_without_a_common_plane_are_named() {
    let mut topology = Topology::new();
    for plane in 0..2 {
        let switch = topology.add_node(format!("s{plane}"), NodeKind::Switch, None);
        for host in 0..2 {
            let host = topology.add_node(format!("h{plane}{host}"), NodeKind::Host, None);
            topology.add_link(host, switch, LINK);
        }
    }
    let plan = engine("up_down", &EngineSettings::default()).unwrap();
    let error = plan.plan(&topology, &SwitchGraph::new(&topology).unwrap()).unwrap_err();
    assert_eq!(error, RoutingError::Unreachable { from: "h00".to_owned(), to: "h10".to_owned() });
}

#[test]
fn the_steps_of_a_search_are_refused_for_planes() {
    let (topology, _) = split("leaf_spine:leaves=2,spines=2,hosts_per_leaf=1,planes=2");
    let settings = EngineSettings { stop_at: Some(5), ..EngineSettings::default() };
    let error = engine("auto", &settings).unwrap().plan(&topology, &SwitchGraph::new(&topology).unwrap());
    assert!(matches!(error, Err(RoutingError::Parameter { parameter: "steps", .. })), "{error:?}");
}

#[test]
fn an_update_changes_the_plane_of_the_failure_only() {
    let (topology, labels) = split("leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,planes=2");
    let tables = planned("up_down", &topology);
    let graph = SwitchGraph::new(&topology).unwrap();
    let failed = graph.edges().iter().find(|edge| graph.part(edge.ends[0]) == Some(1)).unwrap().link;
    let (next, named) = labels.without_links(&topology, &[failed]);
    let settings = UpdateSettings { lanes: 8, failed: true };
    let update =
        Update::plan((&topology, &labels), &tables, (&next, &named), settings, &mut Unwatched).unwrap();
    assert!(
        update.mixes().unwrap() && update.renumbered.iter().all(|(old, _)| old.is_some_and(|old| old > 8))
    );
    assert_eq!(update.kept, (1..=8).collect::<Vec<_>>());
    assert!(check(&next, &update.on_new(&next).unwrap()).is_clean());
    let during = check(&update.union.topology, &update.during());
    assert_eq!((during.loops.count, during.unreachable.count, during.planes.len()), (0, 0, 2));
}

#[test]
fn files_keep_the_hosts_of_ports() {
    let (topology, labels) = split("leaf_spine:leaves=2,spines=1,hosts_per_leaf=2,ports_per_host=2");
    for format in [Format::GraphMl, Format::NodeLink] {
        let text = write_labelled(&topology, &labels, format).unwrap();
        let back = read(&text, format, Defaults { channel: LINK }).unwrap().topology;
        assert_eq!(back.ports_of_hosts(), topology.ports_of_hosts());
        let wrong = text.replace("host0", "leaf0");
        assert!(read(&wrong, format, Defaults { channel: LINK }).is_err());
    }
}
