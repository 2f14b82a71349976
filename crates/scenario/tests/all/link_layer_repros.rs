//! Scenarios from users that had wrong results, each with the correct result.

use crate::common::{go, read};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use pauseframe_scenario::RunResults;

fn floats(batch: &arrow_array::RecordBatch, column: &str) -> Vec<f64> {
    batch.column_by_name(column).unwrap().as_primitive::<Float64Type>().values().to_vec()
}

/// The mean of a port's sampled backlog over the run.
fn sampled_backlog(results: &RunResults, entity: &str) -> f64 {
    let text = |column: &str| {
        let array = results.series.column_by_name(column).unwrap();
        arrow_cast_to_strings(array)
    };
    let (metrics, entities) = (text("metric"), text("entity"));
    let values = floats(&results.series, "value");
    let of_port = |row: &usize| metrics[*row] == "backlog_bytes" && entities[*row].starts_with(entity);
    let rows: Vec<usize> = (0..values.len()).filter(of_port).collect();
    rows.iter().map(|row| values[*row]).sum::<f64>() / rows.len() as f64
}

fn arrow_cast_to_strings(array: &arrow_array::ArrayRef) -> Vec<String> {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values().as_string::<i32>();
    dictionary.normalized_keys().into_iter().map(|key| values.value(key).to_owned()).collect()
}

const RING: &str = r#"
stop = { time = "20 ms", on_deadlock = false }
topology = { kind = "ring", switches = 5, hosts_per_switch = 1 }
transport = { stack = "none", preset = "tcp_bolt", initial_window = "4 MB", receive_window = "8 MB" }
switch = { buffer = "100 KB", marker = { kind = "step", k = "90 KB" }, pfc = { xoff = "40 KB" } }
record = { series = { every = "10 us", ports = ["s*"] } }
[[workload]]
kind = "flows"
flows = [
    { src = "host0", dst = "host2", size = "6 MB" },
    { src = "host1", dst = "host3", size = "6 MB" },
    { src = "host2", dst = "host4", size = "6 MB" },
    { src = "host3", dst = "host0", size = "6 MB" },
    { src = "host4", dst = "host1", size = "6 MB" },
]
"#;

#[test]
fn what_still_waits_counts_in_the_mean_backlog() {
    let results = go(RING, &[]);
    let ports = arrow_cast_to_strings(results.ports.column_by_name("port").unwrap());
    let means = floats(&results.ports, "backlog_mean_bytes");
    let mut long = 0;
    for (port, mean) in ports.iter().zip(means).filter(|(port, _)| port.starts_with('s')) {
        let sampled = sampled_backlog(&results, &format!("{port}/"));
        assert!((mean - sampled).abs() <= 0.005 * sampled.max(1000.0), "{port}: {mean} {sampled}");
        long += u32::from(mean > 80_000.0);
    }
    assert_eq!(long, 5, "the five queues of the circle");
}

const PROBES: &str = r#"
stop = { time = "100 ms", when_finished = false }
topology = { kind = "star", hosts = 2 }
workload = { kind = "udp", rate = "1 Gbps", sources = ["host1"], size = "100 KB" }
"#;

#[test]
fn samples_change_neither_the_end_nor_anything_else() {
    let failure = ("failure", r#"[{ link = ["host0", "switch"], down = "400 us", up = "30 ms" }]"#);
    for faults in [&[][..], &[failure]] {
        let with = |more: &[(&'static str, &'static str)]| go(PROBES, &[faults, more].concat());
        let bare = with(&[]);
        assert!((bare.summary.sim_time_s - 0.1).abs() < 1e-15, "{}", bare.summary.sim_time_s);
        for every in ["\"1 ms\"", "\"7 us\"", "\"90 ms\""] {
            let watched = with(&[("record.series.every", every), ("record.series.ports", "[\"*\"]")]);
            assert_eq!(watched.summary.fingerprint, bare.summary.fingerprint);
            assert_eq!(watched.summary.sim_time_s.to_bits(), bare.summary.sim_time_s.to_bits());
            assert_eq!((&watched.ports, watched.flows.batch()), (&bare.ports, bare.flows.batch()));
        }
    }
}

const SLOW: &str = r#"
stop = "1 ms"
topology = { kind = "star", hosts = 2, link = { rate = "100 Kbps", delay = "0 s" } }
transport = { stack = "none", preset = "newreno", handshake = false }
workload = { kind = "permutation", size = "10 KB" }
"#;

#[test]
fn a_frame_in_service_counts_for_the_time_that_has_passed() {
    // The first frame takes 123 ms, so the hosts' ports have been busy all the time, whenever the run ends.
    for stop in ["1 ms", "100 us", "122 ms", "200 ms", "777 ms"] {
        let results = go(SLOW, &[("stop", &format!("\"{stop}\""))]);
        let used = floats(&results.ports, "utilisation");
        assert!(used.iter().all(|used| (0.0..=1.0).contains(used)), "{stop}: {used:?}");
        assert!(used.iter().any(|used| (used - 1.0).abs() < 1e-12), "{stop}: {used:?}");
    }
}

const DEEP: &str = r#"
stop = "25 ms"
[topology]
kind = "custom"
hosts = ["a", "b", "c", "d", "e", "f", "g"]
switches = ["S"]
links = [
    { ends = ["a", "S"], rate = "1 Mbps" }, ["b", "S"], ["c", "S"], ["d", "S"], ["e", "S"], ["f", "S"], ["g", "S"],
]
link = { rate = "400 Gbps", delay = "1 us" }
[host]
mtu = "9216 B"
[switch]
buffer = { policy = "ideal_output_queued", size = "4 GB" }
[transport]
stack = "none"
preset = "newreno"
handshake = false
initial_window = "1 GB"
receive_window = "1 GB"
[[workload]]
kind = "n_to_1"
receiver = "a"
size = "2 GB"
"#;

#[test]
fn a_backlog_of_six_gigabytes_is_one() {
    let results = go(DEEP, &[]);
    let ports = arrow_cast_to_strings(results.ports.column_by_name("port").unwrap());
    let most = results.ports.column_by_name("backlog_max_bytes").unwrap().as_primitive::<UInt64Type>();
    let row = ports.iter().position(|port| port == "S:0").unwrap();
    // Six windows of 1 GB in packets of 9176 bytes, each with headers of 58 bytes.
    assert!(most.value(row) > 6_000_000_000, "{}", most.value(row));
    assert_eq!(results.summary.drops_by_reason.buffer_full, 0);
    assert!(floats(&results.ports, "backlog_mean_bytes")[row] > 2e9);
}

const MISSED: &str = r#"
seed = 96927
stop = { time = "600 ms", on_deadlock = false }
topology = { kind = "ring", switches = 6, hosts_per_switch = 3 }
routing = { kind = "shortest_path" }
transport = { stack = "none", preset = "tcp_dcb", initial_window = "2 MB", receive_window = "4 MB" }
switch = { buffer = { policy = "shared", size = "300 KB", alpha = 1.0 } }
[[workload]]
kind = "permutation"
size = "1 MB"
"#;

const STALL: &str = r#"
seed = 468318
stop = { time = "600 ms", on_deadlock = false }
topology = { kind = "jellyfish", switches = 20, network_ports = 3, hosts_per_switch = 2, seed = 3 }
routing = { kind = "shortest_path" }
transport = { stack = "none", preset = "tcp_dcb", initial_window = "2 MB", receive_window = "4 MB" }
switch = { buffer = { policy = "shared", size = "300 KB", alpha = 2.0 } }
[[workload]]
kind = "permutation"
size = "300 KB"
"#;

#[test]
fn a_shared_pool_tells_all_who_wait_for_it() {
    // The routes of both scenarios are cyclic: either all flows finish, or the run reports the cycle that
    // blocks them.
    for (text, flows) in [(STALL, 40), (MISSED, 18)] {
        let results = go(text, &[]);
        assert_eq!(results.summary.flows_finished < flows, results.summary.deadlocks > 0);
    }
}

const WHOLE_LINK: &str = r#"
stop = { time = "400 ms", on_deadlock = false }
topology = { kind = "ring", switches = 6, hosts_per_switch = 3 }
routing = { kind = "order_pair", vlans = 4 }
transport = { stack = "none", preset = "tcp_dcb", initial_window = "2 MB", receive_window = "4 MB" }
switch = { buffer = "40 KB", pfc = { whole_link = true } }
[[workload]]
kind = "permutation"
size = "1 MB"
"#;

#[test]
fn lanes_that_a_pause_stops_together_prove_nothing() {
    let refused = read(WHOLE_LINK, &[]).unwrap_err();
    assert!(refused.contains("switch.pfc.whole_link") && refused.contains(" waits for s"), "{refused}");
    for kind in ["dfsssp", "lash"] {
        let routing = format!("{{ kind = \"{kind}\" }}");
        assert!(read(WHOLE_LINK, &[("routing", &routing)]).unwrap_err().contains("whole_link"), "{kind}");
    }
    // With a single lane, lanes cannot prevent a deadlock, so the resolver warns, as it does without
    // `whole_link`.
    let warned = read(WHOLE_LINK, &[("routing", "{ kind = \"shortest_path\" }")]).unwrap();
    assert!(warned.warnings.iter().any(|text| text.contains("can deadlock")), "{:?}", warned.warnings);
    // Routes that are deadlock-free in a single lane stay so if PFC pauses lane by lane.
    assert!(read(WHOLE_LINK, &[("routing", "{ kind = \"up_down\" }")]).unwrap().warnings.is_empty());
    assert!(read(WHOLE_LINK, &[("switch.pfc.whole_link", "false")]).is_ok());
    // The detector finds queues that wait for a whole link when the link stops.
    let stuck = go(WHOLE_LINK, &[("routing", "{ kind = \"shortest_path\" }")]);
    assert_eq!(stuck.summary.flows_finished < 18, stuck.summary.deadlocks > 0);
}

/// Clockwise routes; three of the switches forward in another lane, so packets arrive in one class and leave
/// in another.
#[test]
fn a_circle_through_two_lanes_is_found() {
    let rows = (0..5).flat_map(|switch| (0..5).filter(move |to| *to != switch).map(move |to| (switch, to)));
    let rows: Vec<String> = rows
        .map(|(switch, to)| format!("s{switch},1,s{to},eth{}\n", if switch == 0 { 2 } else { 3 }))
        .collect();
    let rows = rows.concat();
    let heads = "vlan,lane\n1,0\nswitch,vlan,lane\ns0,1,1\ns1,1,1\ns2,1,1\nswitch,vlan,destination,port\n";
    let flows: Vec<String> = (0..5)
        .map(|i| format!("{{ src = \"host{i}\", dst = \"host{}\", size = \"6 MB\" }}", (i + 3) % 5))
        .collect();
    let routing = format!("{{ kind = \"plan\", format = \"csv\", text = \"\"\"{heads}{rows}\"\"\" }}");
    let flows = format!("[{{ kind = \"flows\", flows = [{}] }}]", flows.join(", "));
    let results = go(RING, &[("routing", &routing), ("workload", &flows), ("stop.time", "\"60 ms\"")]);
    assert_eq!((results.summary.flows_finished, results.summary.deadlocks), (0, 1));
    let priorities = results.deadlocks.column_by_name("priority").unwrap();
    let priorities = priorities.as_primitive::<arrow_array::types::UInt8Type>().values();
    assert!(priorities.iter().any(|p| *p != priorities[0]), "both lanes are in the circle: {priorities:?}");
}

/// A link that never recovers stops its flow. The run reports the link as down, but reports no deadlock.
#[test]
fn a_dead_link_is_named_and_is_no_deadlock() {
    let text = r#"
stop = "50 ms"
topology = { kind = "star", hosts = 3 }
transport = { stack = "none", preset = "tcp_dcb" }
workload = { kind = "permutation", size = "1 MB" }
failure = [{ link = ["host0", "switch"], down = "100 us" }]
"#;
    let results = go(text, &[]);
    assert_eq!(results.summary.deadlocks, 0);
    assert!(results.summary.flows_finished < 3);
    let said = results.summary.warnings.iter().find(|text| text.starts_with("failure:")).unwrap();
    assert!(said.contains("host0") && said.ends_with("which is no deadlock"), "{said}");
}
