//! Scenarios from users in which packets outlived their flows; each test names the fault that it caused.

use crate::build::build;
use crate::{Input, RunCallbackDecision, RunOptions, RunResults, resolve, run};
use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use pauseframe_engine::{RunCallbackDecision as Go, RunLimits};
use pauseframe_fabric::CapturedFrameContent;
use pauseframe_results::RunError;
use pauseframe_topology::NodeKind;
use pauseframe_units::{PortId, Span, Time};
use std::path::Path;

fn read(text: &str) -> crate::Resolved {
    let input = Input { text, file_name: "t.toml", base_dir: Path::new("."), overrides: &[], seed: None };
    resolve(&input).map_err(|error| error.to_string()).unwrap()
}

fn go(text: &str) -> Result<RunResults, RunError> {
    run(&read(text), RunOptions::default(), |_| RunCallbackDecision::Continue)
}

/// Number of segments that reached a host, and number of segments among them that were addressed to another
/// host.
fn misrouted(text: &str) -> (usize, usize) {
    let resolved = read(text);
    let options = RunOptions { threads: 1, ..RunOptions::default() };
    let built = build(&resolved, &options, &mut || true).unwrap();
    let (topology, mut network) = (built.parts.topology, built.network);
    network
        .enable_frame_capture(&(0..topology.port_count() as u32).map(PortId).collect::<Vec<_>>(), u64::MAX);
    let stop = Time::ZERO + resolved.scenario.stop.time.unwrap();
    let limits = RunLimits { time: stop, watch_every: u64::MAX };
    network.run(limits, pauseframe_schema::panics::shield, |_, _| Go::Continue).unwrap();
    let to_host = network.take_captured_frames().into_iter().filter_map(|frame| match frame.content {
        CapturedFrameContent::Segment(headers, _) => Some((topology.peer(frame.port), headers.destination)),
        _ => None,
    });
    let to_host: Vec<_> = to_host.filter(|(to, _)| topology.nodes()[*to].kind == NodeKind::Host).collect();
    (to_host.len(), to_host.iter().filter(|(to, destination)| to != destination).count())
}

/// A quarter of all packets reached the wrong host: the SYNs and ACKs were retransmitted long before a reply
/// could arrive.
#[test]
fn repeated_syns_come_to_their_own_host() {
    let text = r#"
stop = "100 s"
clocks = "ideal"
topology = { kind = "leaf_spine", leaves = 2, spines = 1, hosts_per_leaf = 2, link = { rate = "1 Kbps", delay = "1 us" } }
transport = { stack = "none", preset = "newreno", rto_min = "1 ms", rto_initial = "10 ms" }
[[workload]]
kind = "scatter_gather"
aggregators = ["host3"]
gaps = { kind = "exponential", mean = "10 s" }
response = "1 B"
"#;
    let (packets, wrong) = misrouted(text);
    assert!(packets >= 70 && wrong == 0, "{wrong} of {packets}");
}

/// In a loaded fabric, one of half a million packets took the path of another flow.
#[test]
fn duplicates_under_load_come_to_their_own_host() {
    let text = r#"
seed = 2
stop = "15 ms"
topology = { kind = "leaf_spine", leaves = 4, spines = 2, hosts_per_leaf = 8, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { stack = "none", preset = "newreno", rto_min = "1 ms", rto_granularity = "1 us", rto_initial = "10 ms" }
[[workload]]
kind = "background"
sizes = "web_search"
arrivals = { kind = "load", load = 0.6 }
[[workload]]
kind = "incast"
"#;
    let (packets, wrong) = misrouted(text);
    assert!(packets > 100_000 && wrong == 0, "{wrong} of {packets}");
}

/// Shared buffers of 16 MB dropped 302 packets although no queue exceeded 3.6 KB: packets that left a switch
/// which had never held them made the switch's buffer account negative.
#[test]
fn a_shared_pool_gets_back_what_it_gave() {
    let text = r#"
stop = "737600000 ps"
topology = { kind = "xgft", m = [3, 2], w = [1, 2] }
switch = { model = "s6100" }
transport = { stack = "none", preset = "newreno", rto_initial = "1 ps", rto_granularity = "1 ns" }
workload = [{ kind = "incast", rate = 13557.483731019522, fan_in = 4 }]
"#;
    let results = go(text).unwrap();
    assert_eq!(results.summary.drops, 0);
    assert!(results.summary.packet_hops > 3_000);
}

/// Misrouted lossless packets returned over the link on which they had arrived. The resume frame for them
/// left on the same link at the same time, which scheduled an event in the past.
#[test]
fn nothing_is_scheduled_in_the_past() {
    let text = r#"
stop = "1248780000 ps"
topology = { kind = "jellyfish", switches = 4, network_ports = 2, hosts_per_switch = 2, link = { delay = "100 us" } }
host = { wire_overhead = "none" }
transport = { stack = "none", preset = "newreno", lossless = true, rto_initial = "1 us", rto_granularity = "1 ns" }
[[workload]]
kind = "background"
sizes = { kind = "cdf", points = [[1391, 0.5], [49930, 1.0]] }
arrivals = { kind = "concurrency", per_host = 2 }
"#;
    assert!(go(text).unwrap().summary.events > 1_000);
}

/// The only byte of the flow arrives after 1 ms, and its ACK would arrive after 3 ms. The sender gives up at
/// 3 ms, but the flow counts as finished because its data have arrived. A flow whose sender gives up before
/// its data arrive has failed.
#[test]
fn a_flow_is_finished_or_has_a_failure() {
    let text = |rto: &str| {
        format!(
            r#"
stop = "1 s"
topology = {{ kind = "star", hosts = 2, link = {{ rate = "10 Gbps", delay = "1 ms" }} }}
transport = {{ stack = "none", preset = "newreno", rto_initial = "{rto}", rto_min = "{rto}", rto_granularity = "1 us", retries = 0, syn_retries = 255, handshake = false }}
workload = {{ kind = "flows", flows = [{{ src = "host0", dst = "host1", size = "1 KB" }}] }}
"#
        )
    };
    for (rto, expected) in [("3 ms", ["finished", ""]), ("1 ms", ["failed", "data_timeout"])] {
        let results = go(&text(rto)).unwrap();
        let flows = &results.flows.batch();
        let text = |column: &str| {
            let values = flows.column_by_name(column).unwrap().as_dictionary::<Int32Type>();
            let values = values.downcast_dict::<StringArray>().unwrap();
            values.into_iter().next().flatten().unwrap().to_owned()
        };
        assert_eq!([text("status"), text("failure")], expected, "RTO {rto}");
    }
}

/// A petabyte at 1 Mb/s takes 250 years, but the clock holds only 213 days.
#[test]
fn an_ideal_time_that_the_clock_cannot_hold_is_its_end() {
    let text = r#"
stop = "1 ms"
topology = { kind = "star", hosts = 2, link = { rate = "1 Mbps", delay = "1 us" } }
workload = { kind = "permutation", size = "1000 TB" }
"#;
    let results = go(text).unwrap();
    let flows = results.flows.batch();
    let ideal = flows.column_by_name("ideal_fct_us").unwrap().as_primitive::<Float64Type>();
    assert_eq!(ideal.len(), 2);
    assert!(ideal.values().iter().all(|us| (us - Span::MAX.as_us_f64()).abs() < 1.0), "{ideal:?}");
}
