//! Tests of topology families by text, statistics, engines by name, table budgets, failures of several links,
//! and progress reports.

use crate::common::connected;
use pauseframe_topology::generate::{Jellyfish, families, jellyfish, leaf_spine, named};
use pauseframe_topology::routing::verify::{Options, Tables, verify_watched};
use pauseframe_topology::routing::{
    ENGINES, Effort, EngineSettings, ForwardingTables, NextHops, OrderPair, RoutingEngine, RoutingError,
    STEPS_A_SECOND, SwitchGraph, TableUse, engine,
};
use pauseframe_topology::watch::{Stopped, Unwatched, Watch};
use pauseframe_topology::{Channel, NodeKind, Statistics, Topology};
use pauseframe_units::{BitRate, LinkId, NodeId, PortId, Span};
use proptest::prelude::*;

const LINK: Channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };

#[test]
fn families_are_the_generators() {
    assert_eq!(
        named("leaf_spine:leaves=2,spines=2,hosts_per_leaf=3"),
        Ok(leaf_spine(2, 2, 3, LINK, LINK).unwrap())
    );
    let size =
        pauseframe_topology::generate::Jellyfish { switches: 10, network_ports: 4, hosts_per_switch: 3 };
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
    let host = broken.add_node("h", NodeKind::Host, None);
    let [s, t] = ["s", "t"].map(|name| broken.add_node(name, NodeKind::Switch, None));
    broken.add_link(host, s, LINK);
    broken.add_link(host, t, LINK);
    let found = Statistics::of(&broken);
    assert_eq!((found.diameter, found.bisection.is_none(), found.problems.len()), (None, true, 1));
}

fn small() -> Topology {
    named("jellyfish:switches=20,network_ports=5,hosts_per_switch=3").unwrap()
}

fn planned(name: &str, settings: &EngineSettings) -> Result<Tables, RoutingError> {
    let topology = small();
    let graph = SwitchGraph::new(&topology)?;
    Ok(Tables::of_plan(&engine(name, settings)?.plan(&topology, &graph)?, 1))
}

#[test]
fn engines_by_name_take_their_settings() {
    for (name, _) in ENGINES {
        assert!(planned(name, &EngineSettings::default()).is_ok(), "{name}");
    }
    let settings = |lanes, vlans| EngineSettings { lanes, vlans, ..EngineSettings::default() };
    assert_eq!(planned("edst", &settings(Some(2), Some(4))).unwrap().vlans().len(), 4);
    assert_eq!(planned("order_pair", &settings(Some(4), Some(12))).unwrap().vlans().len(), 12);
    let error = |name, lanes, vlans| planned(name, &settings(lanes, vlans)).unwrap_err().to_string();
    assert!(error("order", None, None).contains("did you mean \"order_pair\"?"));
    assert!(error("lash", None, Some(4)).contains("\"lash\" has no setting \"vlans\""));
    assert!(error("up_down", Some(2), None).contains("\"up_down\" has no setting \"lanes\""));
    assert!(error("edst", Some(2), Some(5)).contains("multiple of the number of lanes"));
    let rooted = EngineSettings { root: Some(NodeId(60)), ..EngineSettings::default() };
    assert!(planned("order_pair", &rooted).unwrap_err().to_string().contains("no setting \"root\""));
}

#[test]
fn too_few_lanes_name_a_pair() {
    for name in ["lash", "dfsssp"] {
        let one = EngineSettings { lanes: Some(1), ..EngineSettings::default() };
        let error = planned(name, &one).unwrap_err();
        let RoutingError::Lanes { needed, allowed: 1, pair: Some((from, to)) } = &error else {
            panic!("{error:?}")
        };
        assert!(*needed > 1 && from != to, "{error}");
        assert!(planned(name, &EngineSettings { lanes: Some(*needed), ..one }).is_ok());
    }
}

#[test]
fn budgets_of_rows_name_what_would_do() {
    let topology = small();
    let settings = EngineSettings { vlans: Some(8), ..EngineSettings::default() };
    let tables =
        planned("edst_heuristic", &EngineSettings { lanes: Some(1), vlans: Some(2), ..settings }).unwrap();
    // Spanning trees have table rows for all destinations: 2 VLANs x 60 hosts, or 2 VLANs x 20 switches.
    let all = TableUse::of(&tables).unwrap();
    assert_eq!((all.rows, all.rows_by_switch, all.vlans), (120, 40, 2));
    assert_eq!(all.fit(&topology, 120, false), Ok(()));
    assert_eq!(all.fit(&topology, 40, true), Ok(()));
    let error = all.fit(&topology, 119, false).unwrap_err().to_string();
    for part in
        ["\"s0\" needs 120 rows and can hold 119", "1 VLANs instead of 2", "(40 rows)", "tables of 120 rows"]
    {
        assert!(error.contains(part), "{error}");
    }
    let error = all.fit(&topology, 10, true).unwrap_err().to_string();
    assert!(error.ends_with("what would do is tables of 40 rows"), "{error}");
}

/// Stops the computation after some steps.
struct Impatient(u32);

impl Watch for Impatient {
    fn step(&mut self, _: &'static str, done: u64, of: u64) -> Result<(), Stopped> {
        assert!(of == 0 || done < of, "{done} of {of}");
        self.0 = self.0.checked_sub(1).ok_or(Stopped)?;
        Ok(())
    }
}

#[test]
fn whoever_watches_can_stop() {
    let topology = small();
    let graph = SwitchGraph::new(&topology).unwrap();
    for (name, _) in ENGINES {
        let engine = engine(name, &EngineSettings::default()).unwrap();
        let stopped = engine.plan_watched(&topology, &graph, &mut Impatient(0));
        assert!(matches!(stopped, Err(RoutingError::Stopped(_))), "{name}");
        assert!(engine.plan_watched(&topology, &graph, &mut Impatient(u32::MAX)).is_ok());
    }
    let tables = planned("order_pair", &EngineSettings::default()).unwrap();
    let options = Options { what_ifs: true, ..Options::default() };
    let steps = (0..1_000_000)
        .find(|n| verify_watched(&topology, &tables, &options, &mut Impatient(*n)).is_ok())
        .unwrap();
    // One step for every tree, one for the search, and one for every class of hosts.
    assert_eq!(steps as usize, tables.vlans().len() * 20 + 1 + 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn pairs_lost_are_those_whose_routes_all_meet_a_failure(
        drawn in connected(9), seed in 0..1000_u64, failed in prop::collection::vec(any::<prop::sample::Index>(), 0..4)
    ) {
        let graph = SwitchGraph::new(&drawn.topology).unwrap();
        let plan = OrderPair { lanes: 2, vlans: 4, seed, ..OrderPair::default() }.plan(&drawn.topology, &graph).unwrap();
        let tables = Tables::of_plan(&plan, 1);
        let failed: Vec<LinkId> = failed.iter().map(|index| drawn.fabric[index.index(drawn.fabric.len())]).collect();
        let first = |switch: &u32| graph.hosts(*switch)[0];
        let (mut lost, mut all) = (0, 0);
        let mut path: Vec<PortId> = Vec::new();
        for from in graph.attachments() {
            for to in graph.attachments().iter().filter(|to| *to != from) {
                all += 1;
                let mut alive = |vlan| {
                    tables.carries(vlan, first(from), first(to), &mut path)
                        && !path.iter().any(|port| failed.contains(&port.link()))
                };
                lost += u64::from(!(0..tables.vlans().len()).any(&mut alive));
            }
        }
        prop_assert_eq!(tables.pairs_lost(&failed), (lost, all));
        prop_assert_eq!(tables.pairs_lost(&[]), (0, all));
    }
}

/// Reports after some calls that the result is good enough.
struct Content {
    looks: std::cell::Cell<u32>,
    best: Vec<f64>,
}

impl Watch for Content {
    fn step(&mut self, _: &'static str, _: u64, _: u64) -> Result<(), Stopped> {
        Ok(())
    }

    fn enough(&self) -> bool {
        self.looks.set(self.looks.get().saturating_sub(1));
        self.looks.get() == 0
    }

    fn best(&mut self, detour: f64) {
        self.best.push(detour);
    }
}

fn sparse() -> (Topology, SwitchGraph) {
    let size = Jellyfish { switches: 40, network_ports: 3, hosts_per_switch: 1 };
    let topology = jellyfish(size, 1, LINK, LINK).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    (topology, graph)
}

fn rows(plan: &ForwardingTables) -> Vec<PortId> {
    let rows = plan.graph().attachments().len() as u32;
    (0..plan.vlans()).flat_map(|vlan| (0..rows).flat_map(move |row| plan.tree(vlan, row).to_vec())).collect()
}

#[test]
fn a_search_that_was_ended_can_be_ended_there_again() {
    let (topology, graph) = sparse();
    let settings = EngineSettings { budget: Some(0.3), ..EngineSettings::default() };
    let whole = engine("auto", &settings).unwrap().plan(&topology, &graph).unwrap();
    assert!(!whole.was_cut());
    let mut watch = Content { looks: 3000.into(), best: Vec::new() };
    let ended = engine("auto", &settings).unwrap().plan_watched(&topology, &graph, &mut watch).unwrap();
    assert!(ended.was_cut() && ended.steps() < whole.steps());
    assert!(ended.notes().iter().any(|note| note.contains(&format!("--steps {}", ended.steps().unwrap()))));
    assert!(watch.best.len() > 1, "{:?}", watch.best);
    let again = EngineSettings { stop_at: ended.steps(), ..settings.clone() };
    let again = engine("auto", &again).unwrap().plan(&topology, &graph).unwrap();
    assert_eq!(again.steps(), ended.steps());
    assert!(rows(&again) == rows(&ended));
    assert!(rows(&whole) != rows(&ended));
    for plan in [&whole, &ended] {
        let report =
            verify_watched(&topology, &Tables::of_plan(plan, 1), &Options::default(), &mut Unwatched);
        assert!(report.unwrap().is_clean());
    }
    // Planning again with a limit at the last step gives the same plan, including all optional work.
    let settings = EngineSettings { stop_at: whole.steps(), ..settings };
    let same = engine("auto", &settings).unwrap().plan(&topology, &graph).unwrap();
    assert_eq!(same.steps(), whole.steps());
    assert!(rows(&same) == rows(&whole));
}

#[test]
fn a_plan_keeps_to_its_budget_and_more_of_it_is_not_worse() {
    let (topology, graph) = sparse();
    let hops = NextHops::shortest(&topology).unwrap();
    let detour = |plan: &ForwardingTables| {
        let tables = Tables::of_plan(plan, 1);
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let (mut links, mut shortest) = (0, 0);
        for (from, to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to))) {
            if from == to {
                continue;
            }
            let ways = tables.vlans().iter().map(|vlan| tables.route(vlan.id, from, to));
            let arrives = |way: &Vec<PortId>| way.last().is_some_and(|port| topology.peer(*port) == to);
            links += ways.filter(arrives).map(|way| way.len()).min().expect("every pair has a route");
            shortest += hops.distance(from, to) as usize;
        }
        links - shortest
    };
    let plan = |effort, budget| {
        let settings = EngineSettings { effort: Some(effort), budget, ..EngineSettings::default() };
        engine("order_pair", &settings).unwrap().plan(&topology, &graph).unwrap()
    };
    let fast = plan(Effort::Fast, None);
    for budget in [0.001, 0.1, 1.0] {
        let normal = plan(Effort::Normal, Some(budget));
        // A tenth of a second is shorter than the search of `fast` on this graph.
        assert!(detour(&normal) <= detour(&fast) || budget < 1.0);
        // Planning stops only after a complete tree, evaluation of the orders, or destination.
        let most = (budget * STEPS_A_SECOND) as u64 + 20_000_000;
        assert!(normal.steps().unwrap() <= most, "{:?} of {most}", normal.steps());
    }
}
