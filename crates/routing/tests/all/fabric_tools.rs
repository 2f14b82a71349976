//! Tests of engines by name, table budgets, failures of several links, and progress reports.

use crate::common::{LINK, connected};
use pauseframe_routing::verify::{Options, Tables, verify_watched};
use pauseframe_routing::watch::{Stopped, Unwatched, Watch};
use pauseframe_routing::{
    ENGINES, Effort, EngineSettings, ForwardingTables, NextHops, OrderPair, RoutingEngine, RoutingError,
    STEPS_A_SECOND, TableUse, engine,
};
use pauseframe_topology::generate::{Jellyfish, jellyfish, named};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{LinkId, NodeId, PortId};
use proptest::prelude::*;

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
    assert!(error("edst_hub", None, None).contains("use edst, or order_pair"));
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
        ["\"s0\" needs 120 rows and can hold 119", "1 VLAN instead of 2", "(40 rows)", "tables of 120 rows"]
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

#[test]
fn a_small_budget_plans_fewer_vlans_unless_their_number_is_given() {
    let (topology, graph) = sparse();
    let plan = |vlans, budget| {
        let settings = EngineSettings { vlans, budget: Some(budget), ..EngineSettings::default() };
        engine("order_pair", &settings).unwrap().plan(&topology, &graph).unwrap()
    };
    let noted =
        |plan: &ForwardingTables| plan.notes().iter().any(|note| note.contains("VLANs instead of 16"));
    let (all, fewer, given) = (plan(None, 10.0), plan(None, 0.002), plan(Some(16), 0.002));
    assert_eq!((all.vlans(), noted(&all)), (16, false));
    assert!(fewer.vlans() < 16 && fewer.vlans() >= 2 && noted(&fewer), "{:?}", fewer.notes());
    assert_eq!((given.vlans(), noted(&given)), (16, false));
    assert!(fewer.shortest().iter().all(|links| *links < u16::MAX));
}
