//! Topologies and forwarding tables from files and engines, and the errors that the resolver reports for
//! them.

use super::resolve_as;
use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_scenario::spec::File;
use pauseframe_scenario::spec::{GivenKind, RoutingKind, TopologyKind};
use pauseframe_scenario::{Input, Resolved, ScenarioError, resolve};
use pauseframe_topology::interchange::Labels;
use pauseframe_units::Priority;

const FILE_PLAN: &str = include_str!("../../scenarios/file_plan.toml");
const JELLYFISH: &str = include_str!("../../scenarios/jellyfish_plan.toml");

fn file_plan(overrides: &[(&str, &str)]) -> Result<Resolved, ScenarioError> {
    resolve_as("s.toml", FILE_PLAN, overrides, None)
}

fn refused(text: &str, overrides: &[(&str, &str)]) -> String {
    match resolve_as("s.toml", text, overrides, None) {
        Ok(resolved) => panic!("this was accepted:\n{}", resolved.to_toml()),
        Err(error) => error.to_string(),
    }
}

/// The scenario GOOD with a ring topology and the given routes.
fn ring(routing: &str, switch: &str) -> String {
    format!(
        "[topology]\nkind = \"ring\"\nswitches = 6\nhosts_per_switch = 2\n[routing]\n{routing}\n[switch]\n{switch}\n\
         [transport]\npreset = \"tcp_dcb\"\n[workload]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
    )
}

#[test]
fn files_become_part_of_the_scenario() {
    let resolved = file_plan(&[]).unwrap_or_else(|error| panic!("{error}"));
    let TopologyKind::Given(GivenKind::File(file)) = &resolved.scenario.topology.kind else { panic!() };
    let File { path, digest, .. } = file;
    assert_eq!(path, "triangle.json");
    // The digest that `sha256sum` of coreutils prints.
    assert_eq!(*digest, "sha256:6574b653e62561ff3265487708446bc83ab75915e84464ca1e122547e7878a0a");
    let topology = resolved.topology();
    assert_eq!((topology.hosts().count(), topology.links().len()), (3, 6));
    let fast = topology.links().iter().filter(|link| link.channels[0].rate.0 == 40_000_000_000).count();
    assert_eq!(fast, 1);
    assert_eq!((resolved.scenario.routing.kind, resolved.scenario.routing.lanes()), (RoutingKind::Vlans, 2));
    let lossless = [3, 4].map(|lane| Priority::new(lane).unwrap());
    assert_eq!(resolved.scenario.switch.pfc.as_ref().unwrap().priorities, lossless);
    assert!(
        !resolved.scenario.transport.tcp().expect("TCP").config.fast_retransmit,
        "packets that choose a VLAN each overtake"
    );
    // The resolved scenario is self-contained: it resolves without the files.
    let alone = resolved.to_toml();
    let elsewhere = resolve(&Input {
        text: &alone,
        file_name: "alone.toml",
        base_dir: std::path::Path::new("/nowhere"),
        overrides: &[],
        seed: None,
    });
    assert_eq!(
        elsewhere.unwrap_or_else(|error| panic!("{error}")).scenario.topology,
        resolved.scenario.topology
    );
}

#[test]
fn a_digest_guards_a_file() {
    let wrong = "sha256:00";
    let error = file_plan(&[("topology.digest", wrong)]).unwrap_err().to_string();
    assert!(error.contains("topology.digest: the text has the digest sha256:"), "{error}");
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_place() {
    for (text, expected) in [
        ("{", "not node-link JSON"),
        ("{\"nodes\": [{}], \"edges\": []}", "topology.text, nodes[0]: there is no \"id\": name the node"),
        ("{\"nodes\": [{\"id\": \"a\", \"kind\": \"hots\"}], \"edges\": []}", "topology.text, nodes[0]: "),
    ] {
        let text = format!(
            "[topology]\nkind = \"file\"\nformat = \"node-link\"\ntext = '''{text}'''\n[workload]\nkind = \"permutation\"\nsize = \"1 B\"\n"
        );
        let error = refused(&text, &[]);
        assert!(error.contains(expected), "{error}");
    }
    let error = refused(FILE_PLAN, &[("topology.path", "missing.graphml")]);
    assert!(error.contains("topology.path: ") && error.contains("missing.graphml"), "{error}");
    let error = refused(FILE_PLAN, &[("routing.text", "switch,vlan,destination,port\ns0,1,s9,eth2\n")]);
    assert!(error.contains("routing.path: triangle.csv, line 2: \"s9\" is not in the topology"), "{error}");
    let error = refused(FILE_PLAN, &[("topology.fabric_link.rate", "40 Gbps")]);
    assert!(error.contains("topology.fabric_link: differs from link"), "{error}");
}

#[test]
fn a_pair_without_a_route_is_refused_at_load() {
    let rows = "switch,vlan,destination,port\ns0,1,s1,eth2\ns1,1,s0,eth2\ns2,1,s0,eth3\ns0,1,s2,eth3\n";
    let error = refused(FILE_PLAN, &[("routing.text", rows)]);
    assert!(error.contains("routing: no VLAN leads from \"c\" to \"b\" (2 pairs"), "{error}");
}

#[test]
fn budgets_that_do_not_suffice_say_what_would_do() {
    let text = ring("kind = \"dfsssp\"\nlanes = 1", "");
    let error = refused(&text, &[]);
    assert!(
        error.contains("routing.lanes: 2 lanes are needed; only 1 are allowed: the route from")
            && error.contains("raise lanes, or plan with order_pair"),
        "{error}"
    );
    let error = refused(&ring("kind = \"order_pair\"\nlanes = 2\nvlans = 1", ""), &[]);
    assert!(error.contains("routing.vlans: vlans = 1 is not possible"), "{error}");
    let error = refused(&ring("kind = \"order_pair\"", "pfc = { priorities = [3] }"), &[]);
    assert!(
        error.contains(
            "switch.pfc.priorities: 1 lossless priority for 2 lanes of the routes; name 2, or lower"
        ),
        "{error}"
    );
    let error = refused(&ring("kind = \"up_down\"\nroot = \"s00\"", ""), &[]);
    assert!(error.contains("routing.root: there is no switch \"s00\"; did you mean \"s0\"?"), "{error}");
    let error = refused(&ring("kind = \"up_down\"\nper = \"packet\"\nchoice = \"least_loaded\"", ""), &[]);
    assert!(error.contains("routing.per: only a random choice"), "{error}");
    let error = refused(&ring("kind = \"up_down\"\nchoice = \"demand\"", ""), &[]);
    assert!(error.contains("routing.demand: is required for choice = \"demand\""), "{error}");
}

#[test]
fn routes_that_can_deadlock_are_a_warning() {
    for (routing, warned) in [
        ("kind = \"ecmp\"", true),
        ("kind = \"shortest_path\"", true),
        ("kind = \"order_pair\"", false),
        ("kind = \"edst\"", false),
        ("kind = \"lash\"", false),
    ] {
        let resolved = resolve_as("s.toml", &ring(routing, ""), &[], None);
        let warnings = resolved.unwrap_or_else(|error| panic!("{error}")).warnings;
        let found = warnings.iter().any(|warning| warning.contains("can deadlock under PFC"));
        assert_eq!(found, warned, "{routing}: {warnings:?}");
    }
}

#[test]
fn lanes_become_lossless_priorities() {
    let resolved = resolve_as("s.toml", JELLYFISH, &[], None).unwrap_or_else(|error| panic!("{error}"));
    let entry = resolved.explain().iter().find(|entry| entry.path == "switch.pfc.priorities").unwrap();
    assert_eq!(entry.value, "[3, 4]");
    assert_eq!(entry.origin.to_string(), "computed: one for each of 2 lanes of the routes");
}

#[test]
fn auto_plans_by_the_graph_and_says_why() {
    let ring = ring("kind = \"auto\"\neffort = \"fast\"", "");
    let tree = ring.replace(
        "kind = \"ring\"\nswitches = 6\nhosts_per_switch = 2",
        "kind = \"leaf_spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2",
    );
    for (text, lanes, why) in [(&ring, 2, "auto chose"), (&tree, 1, "the switches have levels")] {
        let resolved = resolve_as("s.toml", text, &[], None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(resolved.scenario.routing.lanes(), lanes);
        assert!(resolved.warnings.iter().any(|w| w.starts_with("routing.kind: ") && w.contains(why)));
    }
    let error = refused(&ring, &[("routing.effort", "'long'")]);
    assert!(error.contains("routing.effort: ") && error.contains("best"), "{error}");
}

#[test]
fn a_plan_in_parquet_is_that_plan() {
    let base = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let text = ring("kind = \"plan\"\npath = \"planned.parquet\"", "");
    let input = |text| Input { text, file_name: "s.toml", base_dir: base, overrides: &[], seed: None };
    let planned = resolve_as("s.toml", &ring("kind = \"auto\"", ""), &[], None).unwrap();
    let tables = &planned.scenario.routing.vlans.as_ref().unwrap().tables.0;
    let mut file = std::fs::File::create(base.join("planned.parquet")).unwrap();
    tables_io::write_to(tables, TableFormat::Parquet, planned.topology(), &Labels::default(), &mut file)
        .unwrap();
    let read = resolve(&input(&text)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read.scenario.routing.vlans.as_ref().unwrap().tables.0, *tables);
    // The resolved scenario holds the tables and needs no other file.
    std::fs::remove_file(base.join("planned.parquet")).unwrap();
    let alone = resolve(&input(&read.to_toml())).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(alone.scenario.routing, read.scenario.routing);
}

#[test]
fn warnings_of_routes_name_ports_as_their_file_does() {
    let mut nodes = Vec::new();
    let mut links = Vec::new();
    for n in 0..5 {
        nodes.push(format!("s{n}: {{kind: nokia_srlinux}}, h{n}: {{kind: linux}}"));
        links.push(format!("{{endpoints: [\"s{n}:e1-1\", \"s{}:e1-2\"]}}", (n + 1) % 5));
        links.push(format!("{{endpoints: [\"s{n}:e1-9\", \"h{n}:eth1\"]}}"));
    }
    let lab = format!(
        "{{name: ring, topology: {{nodes: {{{}}}, links: [{}]}}}}",
        nodes.join(", "),
        links.join(", ")
    );
    let topology = format!("[topology]\nkind = \"file\"\nformat = \"containerlab\"\ntext = '''{lab}'''\n");
    for kind in ["ecmp", "shortest_path"] {
        let ring = ring(&format!("kind = \"{kind}\""), "");
        let (_, rest) = ring.split_once("[routing]").unwrap();
        let resolved = resolve_as("s.toml", &format!("{topology}[routing]{rest}"), &[], None);
        let warnings = resolved.unwrap_or_else(|error| panic!("{error}")).warnings;
        let cycle = warnings.iter().find(|warning| warning.contains("can deadlock under PFC")).unwrap();
        assert!(cycle.contains(":e1-"), "{cycle}");
    }
}

/// A fabric with two spines whose leaf switches run `ConWeave`, at 100 Gb/s.
const WOVEN: &str = r#"stop = "1 ms"
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 2, link = { rate = "100 Gbps", delay = "1 us" } }
routing = { kind = "conweave" }
transport = { preset = "roce_dcqcn" }
[[workload]]
kind = "permutation"
size = "100 KB"
"#;

#[test]
fn conweave_waits_longer_on_slower_links() {
    let times = |overrides: &[(&str, &str)]| {
        let resolved = resolve_as("s.toml", WOVEN, overrides, None).unwrap_or_else(|error| panic!("{error}"));
        let text = resolved.to_toml();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split('"').nth(1).unwrap().to_owned()
        };
        ["reply_slack", "tail_slack", "blind_wait"].map(value)
    };
    assert_eq!(times(&[]), ["4 us", "16 us", "200 us"]);
    assert_eq!(times(&[("topology.link.rate", "400 Gbps")]), ["4 us", "16 us", "200 us"]);
    assert_eq!(times(&[("topology.link.rate", "10 Gbps")]), ["40 us", "160 us", "2 ms"]);
    // Links to hosts do not count, and what is written stays.
    assert_eq!(
        times(&[("topology.link.rate", "10 Gbps"), ("topology.fabric_link", "{ rate = \"40 Gbps\" }")]),
        ["10 us", "40 us", "500 us"]
    );
    assert_eq!(
        times(&[("topology.link.rate", "10 Gbps"), ("routing.tail_slack", "8 us")]),
        ["40 us", "8 us", "2 ms"]
    );
}

#[test]
fn conweave_is_refused_where_it_cannot_work() {
    let star = WOVEN.replace(
        "kind = \"leaf_spine\", leaves = 2, spines = 2, hosts_per_leaf = 2",
        "kind = \"star\", hosts = 4",
    );
    let ring = WOVEN.replace(
        "kind = \"leaf_spine\", leaves = 2, spines = 2, hosts_per_leaf = 2",
        "kind = \"ring\", switches = 4, hosts_per_switch = 1",
    );
    for (text, overrides, expected) in [
        (star.as_str(), &[][..], "routing.kind: conweave chooses among shortest paths"),
        (&ring, &[], "has hosts too"),
        (WOVEN, &[("topology.spines", "1")], "routing.kind: conweave chooses among shortest paths"),
        (
            WOVEN,
            &[("switch.pfc.priorities", "[7]"), ("transport.priority", "7")],
            "routing.control_priority: 7 is lossless",
        ),
        (WOVEN, &[("topology.ports_per_host", "2"), ("host.port_choice", "balance-rr")], "host.port_choice"),
    ] {
        let said = refused(text, overrides);
        assert!(said.contains(expected), "{said}");
    }
}
