//! Tests of the flow level against closed-form results.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, StringArray};
use pauseframe_flowlevel::routes::VlanChoice;
use pauseframe_routing::verify::Tables;
use pauseframe_routing::watch::Unwatched;
use pauseframe_routing::{OrderPair, RoutingEngine};
use pauseframe_scenario::flow_level::{Demand, Ways};
use pauseframe_scenario::resolve::{Input, Resolved, resolve};
use pauseframe_scenario::{FlowOptions, FlowResults, run_flow_level};
use pauseframe_topology::SwitchGraph;
use std::path::Path;

const PLAIN: FlowOptions = FlowOptions { ways: None, demand: None, bound: None, out: None, force: false };

fn scenario(text: &str) -> Resolved {
    let input = Input { text, file_name: "test.toml", base_dir: Path::new("."), overrides: &[], seed: None };
    resolve(&input).unwrap()
}

fn run(text: &str, options: FlowOptions) -> FlowResults {
    run_flow_level(&scenario(text), options, &mut Unwatched).unwrap()
}

fn floats(results: &FlowResults, column: &str) -> Vec<f64> {
    let column = results.flows.column_by_name(column).unwrap().as_primitive::<Float64Type>();
    column.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
}

fn counts(table: &RecordBatch, column: &str) -> Vec<u64> {
    table.column_by_name(column).unwrap().as_primitive::<UInt64Type>().iter().flatten().collect()
}

fn texts(table: &RecordBatch, column: &str) -> Vec<String> {
    let column = table.column_by_name(column).unwrap().as_dictionary::<Int32Type>();
    column.downcast_dict::<StringArray>().unwrap().into_iter().flatten().map(str::to_owned).collect()
}

/// Flows from one node to another.
fn flows_over(results: &FlowResults, from: &str, to: &str) -> u64 {
    let (nodes, peers) = (texts(&results.links, "node"), texts(&results.links, "peer"));
    let link = nodes.iter().zip(&peers).position(|(node, peer)| node == from && peer == to).unwrap();
    let flows = results.links.column_by_name("flows").unwrap().as_primitive::<UInt32Type>();
    u64::from(flows.value(link))
}

const STAR: &str = "stop = \"10 ms\"\n[topology]\nkind = \"star\"\nhosts = 5\nlink = { rate = \"8 Gbps\" }\n";

#[test]
fn n_to_one_shares_the_last_link() {
    let results = run(
        &format!("{STAR}[[workload]]\nkind = \"n_to_1\"\nsenders = 4\nsize = \"250 KB\"\nstart = \"1 ms\""),
        PLAIN,
    );
    // Four flows of 250 KB share 1 GB/s: each takes 1 ms, and alone it would take a quarter of that.
    assert_eq!(floats(&results, "fct_us"), [1000.0; 4]);
    assert_eq!(floats(&results, "finish_us"), [2000.0; 4]);
    assert_eq!(floats(&results, "slowdown"), [4.0; 4]);
    let summary = &results.summary;
    assert_eq!((summary.flows_total, summary.flows_finished), (4, 4));
    assert_eq!(summary.fct_us.mean, Some(1000.0));
    // Throughput: 1 MB in 2 ms, divided by five hosts.
    assert!((summary.throughput_bps - 8e6 / 2e-3 / 5.0).abs() < 1.0);
    let use_of_last = results.links.column_by_name("utilisation").unwrap().as_primitive::<Float64Type>();
    assert!((use_of_last.iter().flatten().fold(0.0, f64::max) - 0.5).abs() < 1e-9);
}

#[test]
fn long_flows_stop_and_give_way() {
    let flows = "[[workload]]\nkind = \"long_flows\"\nflows = [\n\
                 { src = \"host0\", dst = \"host4\", start = \"0 s\", stop = \"2 ms\" },\n\
                 { src = \"host1\", dst = \"host4\", start = \"1 ms\" }]";
    let results = run(&format!("{STAR}{flows}"), PLAIN);
    let delivered = results.flows.column_by_name("delivered_bytes").unwrap().as_primitive::<UInt64Type>();
    // At 1 MB/ms: the first flow has the link 1 ms alone and 1 ms shared, the second 1 ms shared and 8 ms
    // alone.
    assert_eq!(delivered.values(), &[1_500_000, 8_500_000]);
    let status = results.flows.column_by_name("status").unwrap();
    let texts = arrow_array::cast::as_string_array(
        &arrow_array::cast::as_dictionary_array::<arrow_array::types::Int32Type>(status).values().clone(),
    )
    .iter()
    .flatten()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    assert_eq!(texts, ["stopped", "running"]);
    assert!((results.summary.sim_time_s - 0.01).abs() < 1e-15);
}

#[test]
fn a_reply_follows_its_request() {
    let jobs = "[[workload]]\nkind = \"incast\"\nrate = 100.0\nfan_in = 1\nrequest = \"100 KB\"\n\
                response = [\"400 KB\"]\nstop = \"5 ms\"";
    let results = run(&format!("{STAR}{jobs}"), PLAIN);
    let (fct, ideal) = (floats(&results, "fct_us"), floats(&results, "ideal_fct_us"));
    assert!(!fct.is_empty());
    // In the idle network the request takes 0.1 ms and the reply 0.4 ms.
    assert!(ideal.iter().all(|ideal| (ideal - 500.0).abs() < 1e-9), "{ideal:?}");
    assert!(fct.iter().all(|fct| fct.is_nan() || *fct > 500.0 - 1e-3), "{fct:?}");
    assert!(fct.iter().any(|fct| (fct - 500.0).abs() < 1e-3), "{fct:?}");
}

#[test]
fn closed_loops_go_on() {
    let loops = "[[workload]]\nkind = \"background\"\nsizes = { kind = \"fixed\", size = \"100 KB\" }\n\
                 arrivals = { kind = \"concurrency\", per_host = 1 }\nstop = \"5 ms\"";
    let summary = run(&format!("{STAR}{loops}"), PLAIN).summary;
    // A host alone would send 50 flows of 0.1 ms in 5 ms; five hosts share receivers, so each sends fewer.
    assert!((100..=250).contains(&summary.flows_total), "{}", summary.flows_total);
    assert_eq!(summary.flows_finished, summary.flows_total);
}

const LEAF_SPINE: &str = "[topology]\nkind = \"leaf_spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\n\
                          [[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n";

#[test]
fn static_demands_have_rates_and_bounds() {
    let options = FlowOptions { demand: Some(Demand::AllToAll), bound: Some(0.02), ..PLAIN };
    let results = run(&format!("{STAR}[[workload]]\nkind = \"permutation\"\nsize = \"1 MB\""), options);
    assert_eq!(floats(&results, "rate_bps"), vec![2e9; 20]);
    let bound = results.summary.bound.unwrap();
    assert!(bound.upper_bps >= 2e9 && bound.lower_bps <= 2e9 * 1.000_001 && bound.gap <= 0.02, "{bound:?}");

    // Two spines can carry the traffic of two hosts at each leaf, so line rate is possible, and a load-aware
    // choice achieves it.
    let resolved = scenario(LEAF_SPINE);
    let topology = resolved.topology();
    let graph = SwitchGraph::new(topology).unwrap();
    let plan = OrderPair { lanes: 2, vlans: 8, ..OrderPair::default() }.plan(topology, &graph).unwrap();
    let tables = Tables::of_plan(&plan, 100);
    let choice = VlanChoice::LeastLoaded { passes: 4 };
    let ways = Some(Ways::Tables { tables: &tables, choice, slack: 0, assigned: None });
    let options = FlowOptions { ways, demand: Some(Demand::RackPermutation), bound: Some(0.05), ..PLAIN };
    let results = run_flow_level(&resolved, options, &mut Unwatched).unwrap();
    assert_eq!(floats(&results, "rate_bps"), vec![1e10; 8]);
    assert_eq!(results.summary.hops_mean, Some(2.0));
    let vlans = results.flows.column_by_name("vlan").unwrap();
    let vlans = vlans.as_primitive::<arrow_array::types::UInt16Type>();
    assert!(vlans.iter().flatten().all(|vlan| (100..108).contains(&vlan)));
    let dynamic =
        run_flow_level(&resolved, FlowOptions { demand: None, bound: None, ..options }, &mut Unwatched);
    assert_eq!(dynamic.unwrap().summary.flows_finished, 8);
}

#[test]
fn what_flows_can_not_have_is_refused() {
    let error = |text: &str, options| run_flow_level(&scenario(text), options, &mut Unwatched).unwrap_err();
    let spray = format!("{LEAF_SPINE}[routing]\nkind = \"spray\"");
    assert!(error(&spray, PLAIN).to_string().contains("one path"));
    assert!(
        error(LEAF_SPINE, FlowOptions { bound: Some(0.1), ..PLAIN }).to_string().contains("static demand")
    );
    let many = FlowOptions { demand: Some(Demand::NToOne(8)), ..PLAIN };
    assert!(error(LEAF_SPINE, many).to_string().contains("9 or more hosts"));
    let none = FlowOptions { demand: Some(Demand::NToOne(0)), ..PLAIN };
    assert!(error(LEAF_SPINE, none).to_string().contains("1 or more senders"));
}

#[test]
fn demands_by_name() {
    for text in ["permutation", "rack_permutation", "all_to_all", "n_to_1:16", "skewed:1.2"] {
        assert_eq!(text.parse::<Demand>().unwrap().to_string(), text);
    }
    for text in ["", "n_to_1", "n_to_1:x", "skewed", "permutations", "permutation:3"] {
        assert!(text.parse::<Demand>().is_err(), "{text}");
    }
}

#[test]
fn the_folder_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options = FlowOptions { out: Some(&out), ..PLAIN };
    run(LEAF_SPINE, options);
    for name in ["manifest.json", "scenario.resolved.toml", "flows.parquet", "links.parquet"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"kind\": \"flow_level\"") && manifest.contains("\"status\": \"complete\""));
    assert!(run_flow_level(&scenario(LEAF_SPINE), options, &mut Unwatched).is_err());
    assert!(
        run_flow_level(&scenario(LEAF_SPINE), FlowOptions { force: true, ..options }, &mut Unwatched).is_ok()
    );
}

/// Two ways between switches, of 100 and of 300 Gb/s: WCMP puts three quarters on the faster one, also with a static demand.
#[test]
fn demands_obey_the_hash_of_switches() {
    let names =
        |prefix: &str| (0..300).map(|host| format!("\"{prefix}{host}\"")).collect::<Vec<_>>().join(", ");
    let links = |prefix: &str, to: &str| {
        (0..300).map(|host| format!("[\"{prefix}{host}\", \"{to}\"]")).collect::<Vec<_>>().join(", ")
    };
    let text = |routing: &str| {
        format!(
            "topology = {{ kind = \"custom\", hosts = [{}, {}], switches = [\"s1\", \"s2\", \"s3\", \"s4\"], \
             link = {{ rate = \"1 Tbps\" }}, links = [{}, {}, \
             {{ ends = [\"s1\", \"s2\"], rate = \"100 Gbps\" }}, {{ ends = [\"s2\", \"s4\"], rate = \"100 Gbps\" }}, \
             {{ ends = [\"s1\", \"s3\"], rate = \"300 Gbps\" }}, {{ ends = [\"s3\", \"s4\"], rate = \"300 Gbps\" }}] }}\n\
             routing = {{ {routing} }}\nworkload = {{ kind = \"permutation\", size = \"1 KB\" }}\n",
            names("a"),
            names("b"),
            links("a", "s1"),
            links("b", "s4")
        )
    };
    let wcmp = "index = \"threshold\", weights = \"capacity\"";
    for demand in [None, Some(Demand::Permutation)] {
        for (routing, part) in [
            ("", 0.5),
            (wcmp, 0.75),
            ("hash = \"crc32\"", 0.5),
            ("hash = \"crc32\", hash_fields = \"addresses\"", 0.5),
        ] {
            let results = run(&text(routing), FlowOptions { demand, ..PLAIN });
            let [slow, fast] = ["s2", "s3"].map(|to| flows_over(&results, "s1", to) as f64);
            // About 150 flows: three standard errors are 0.12.
            assert!((fast / (slow + fast) - part).abs() < 0.12, "{demand:?} {routing}: {slow} {fast}");
            let warnings = results.summary.warnings.join("\n");
            assert!(!warnings.contains("routing"), "{warnings}");
        }
    }
    let paths = |routing| {
        flows_over(
            &run(&text(routing), FlowOptions { demand: Some(Demand::Permutation), ..PLAIN }),
            "s1",
            "s2",
        )
    };
    assert_ne!(
        paths("hash = \"crc32\""),
        paths("hash = \"crc32\", hash_seeds = \"same\", hash_fields = \"addresses\"")
    );
}

#[test]
fn the_choice_by_demand_takes_the_vlans_of_the_demand() {
    let text = |rates: [u32; 3]| {
        let pairs: Vec<(usize, usize)> = vec![(0, 4), (1, 5), (2, 6)];
        let demand = pairs.iter().zip(rates).map(|((from, to), rate)| {
            format!("{{ src = \"host{from}\", dst = \"host{to}\", rate = \"{rate} Gbps\" }}")
        });
        let flows = (0..12).map(|index| {
            let (from, to) = pairs[index % 3];
            format!(
                "{{ src = \"host{from}\", dst = \"host{to}\", size = \"1 MB\", start = \"{} ms\" }}",
                3 * index
            )
        });
        format!(
            "topology = {{ kind = \"leaf_spine\", leaves = 2, spines = 2, hosts_per_leaf = 4, link = {{ rate = \"10 Gbps\" }} }}\n\
             routing = {{ kind = \"order_pair\", choice = \"demand\", demand = [{}] }}\n\
             workload = {{ kind = \"flows\", flows = [{}] }}\n",
            demand.collect::<Vec<_>>().join(", "),
            flows.collect::<Vec<_>>().join(", ")
        )
    };
    for (heavy, rates) in [(0, [9, 1, 1]), (1, [1, 9, 1]), (2, [1, 1, 9])] {
        let results = run(&text(rates), PLAIN);
        let mut ways = [0, 1].map(|spine| flows_over(&results, "leaf0", &format!("spine{spine}")));
        ways.sort_unstable();
        // The largest demand has a spine alone: four of its flows, and eight of the others.
        assert_eq!(ways, [4, 8], "heavy: {heavy}");
    }
}

#[test]
fn operations_on_queue_pairs_have_no_capsules() {
    for (preset, extra) in [("roce_dcqcn", 0), ("cubic", 72 + 24)] {
        for share in ["0.0", "1.0"] {
            let text = format!(
                "{STAR}[transport]\npreset = \"{preset}\"\n[[workload]]\nkind = \"storage\"\ntargets = [\"host0\"]\n\
                 initiators = [\"host1\"]\nsizes = \"512 B\"\ncount = 2\nread_share = {share}\n"
            );
            let results = run(&text, PLAIN);
            assert_eq!(
                counts(&results.flows, "delivered_bytes"),
                [512 + extra; 2],
                "{preset}, reads: {share}"
            );
            assert_eq!(texts(&results.flows, "status"), ["finished", "finished"]);
            assert!(results.summary.warnings.is_empty(), "{:?}", results.summary.warnings);
        }
        let text = format!(
            "{STAR}[transport]\npreset = \"{preset}\"\n[[workload]]\nkind = \"kv_transfer\"\nbytes_per_token = \"100 B\"\n\
             prefill = [\"host0\"]\nrequests = {{ kind = \"trace\", entries = [{{ tokens = 10 }}] }}\n"
        );
        let of_answer = if extra > 0 { 24 } else { 0 };
        assert_eq!(counts(&run(&text, PLAIN).flows, "delivered_bytes"), [1000 + of_answer]);
    }
}
