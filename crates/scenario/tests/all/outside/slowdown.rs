//! No flow is faster than in the idle network: the slowdowns of flows and queries of every workload are at
//! least 1, at packet level and at flow level.

use super::{floats, fluid, packets};
use arrow_array::RecordBatch;
use proptest::prelude::*;

/// One workload of every kind, with placeholders for `size` in bytes, a count `n`, and a switch.
const KINDS: [&str; 10] = [
    "kind = \"flows\"\nflows = [{ src = \"host0\", dst = \"host1\", size = SIZE }, \
     { src = \"host2\", dst = \"host1\", size = SIZE, start = \"N us\" }]",
    "kind = \"permutation\"\nsize = SIZE",
    "kind = \"n_to_1\"\nsize = SIZE\nspread = \"N us\"",
    "kind = \"long_flows\"\nflows = [{ src = \"host0\", dst = \"host1\", stop = \"1 ms\" }]",
    "kind = \"incast\"\nfan_in = 2\nrate = N000.0\nresponse = [SIZE]\nrequest = REQUEST",
    "kind = \"requests\"\nclient = \"host0\"\nservers = [\"host1\", \"host2\"]\ncount = 4\nresponse = SIZE\n\
     persistent = FLAG\npause = \"N us\"",
    "kind = \"background\"\nsizes = { kind = \"uniform\", min = \"1 B\", max = SIZE }\n\
     arrivals = { kind = \"concurrency\", per_host = 2 }",
    "kind = \"scatter_gather\"\naggregators = [\"host0\"]\nresponse = SIZE\n\
     gaps = { kind = \"exponential\", mean = \"100 us\" }",
    "kind = \"hotspot\"\nsenders = 2\nload = 0.5\nmessage = SIZE\noverload = 2.0\nburst_start = \"N us\"\n\
     burst = \"100 us\"",
    "kind = \"udp\"\nrate = \"N00 Mbps\"\nsources = [\"host0\"]\nsize = SIZE",
];

fn text(kind: usize, size: u64, n: u64, flag: bool, fabric: usize, transport: usize) -> String {
    let topology = [
        "topology = { kind = \"star\", hosts = 4, link = { rate = \"10 Gbps\", delay = \"10 us\" } }",
        "topology = { kind = \"leaf_spine\", leaves = 2, spines = 2, hosts_per_leaf = 2, link = { rate = \"1 Gbps\" }, \
         fabric_link = { rate = \"40 Gbps\", delay = \"3 us\" } }",
        "topology = { kind = \"ring\", switches = 4, hosts_per_switch = 1, fabric_link = { rate = \"2 Gbps\" } }",
    ][fabric];
    let transport = [
        "transport = { preset = \"dctcp\" }",
        "transport = { preset = \"tcp_bolt\" }",
        "transport = { preset = \"newreno\", handshake = false, initial_window = \"1 MB\" }",
        "transport = { preset = \"dctcp\", fin = true }",
    ][transport];
    let workload = KINDS[kind]
        .replace("SIZE", &format!("\"{size} B\""))
        .replace("REQUEST", if flag { "\"100 B\"" } else { "\"0 B\"" })
        .replace("FLAG", &flag.to_string())
        .replace('N', &n.to_string());
    format!("stop = \"3 ms\"\n{topology}\n{transport}\n[[workload]]\n{workload}\n")
}

fn slowest(table: &RecordBatch) -> f64 {
    floats(table, "slowdown").into_iter().flatten().fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn slowdowns_are_at_least_one(
        size in 1u64..60_000, n in 1u64..9, flag: bool, fabric in 0usize..3, transport in 0usize..4,
    ) {
        for kind in 0..KINDS.len() {
            let text = text(kind, size, n, flag, fabric, transport);
            let run = packets(&text);
            prop_assert!(run.summary.flows_total > 0, "{text}");
            prop_assert!(slowest(&run.flows.batch()) >= 1.0, "a flow: {}\n{text}", slowest(&run.flows.batch()));
            prop_assert!(slowest(&run.queries) >= 1.0, "a query: {}\n{text}", slowest(&run.queries));
            let flows = fluid(&text).flows;
            prop_assert!(slowest(&flows) >= 1.0 - 1e-9, "at flow level: {}\n{text}", slowest(&flows));
        }
    }
}

/// Rounds after the first have no handshake, and their ideal time has none either.
#[test]
fn a_round_on_kept_connections_is_not_faster_than_possible() {
    let text = "stop = \"10 ms\"\n[topology]\nkind = \"star\"\nhosts = 3\nlink = { rate = \"10 Gbps\", delay = \"10 us\" }\n\
                [[workload]]\nkind = \"requests\"\nclient = \"host0\"\nservers = [\"host1\", \"host2\"]\ncount = 3\n\
                response = \"20 KB\"\n";
    let queries = packets(text).queries;
    let ideals: Vec<f64> = floats(&queries, "ideal_fct_us").into_iter().flatten().collect();
    assert_eq!(ideals.len(), 3);
    assert!(ideals[0] > ideals[1] + 40.0, "the handshake takes four propagation delays: {ideals:?}");
    assert!((ideals[1] - ideals[2]).abs() < 1e-9);
    assert!(slowest(&queries) >= 1.0);
    let own = packets(&text.replace("count = 3", "count = 3\npersistent = false")).queries;
    assert!(floats(&own, "ideal_fct_us").iter().all(|ideal| *ideal == Some(ideals[0])));
}
