//! The packet level and the flow level agree on a scenario, or the flow level refuses the scenario.

use super::{counts, fluid, packets, read, texts};
use pauseframe_routing::watch::Unwatched;
use pauseframe_scenario::{FlowOptions, run_flow_level};

const STAR: &str = "topology = { kind = \"star\", hosts = 4 }\n";
/// Application bytes of one datagram.
const DATAGRAM: f64 = 1472.0;

fn udp(keys: &str, stop: &str) -> String {
    format!("stop = {stop}\n{STAR}[[workload]]\nkind = \"udp\"\n{keys}\n")
}

/// Datagrams arrive at the rate of their source: both levels deliver the same bytes for every flow, except
/// for datagrams in flight at the end.
#[test]
fn sources_of_datagrams_deliver_the_same_bytes() {
    let burst =
        "burst = { sizes = { kind = \"uniform\", min = \"1 KB\", max = \"90 KB\" }, idle = \"50 us\" }";
    for (keys, stop) in [
        (
            "rate = \"1 Gbps\"\nsources = [\"host1\"]\ndestinations = [\"host0\"]\nsize = \"10 MB\"",
            "\"1 ms\"",
        ),
        ("rate = \"1 Gbps\"\nsources = [\"host1\"]\nsize = \"200 KB\"", "\"5 ms\""),
        ("rate = \"3 Gbps\"\nsources = [\"host1\"]\nstart = \"200 us\"\nstop = \"700 us\"", "\"5 ms\""),
        ("rate = \"500 Mbps\"\nsources = [\"host1\"]\ndatagram = \"100 B\"\npriority = 3", "\"2 ms\""),
        (
            &format!(
                "rate = \"1 Gbps\"\nsources = [\"host1\", \"host2\"]\ndestinations = [\"host0\"]\n{burst}"
            ),
            "\"5 ms\"",
        ),
    ] {
        let text = udp(keys, stop);
        let (run, flows) = (packets(&text), fluid(&text).flows);
        let [there, here] = [&run.flows.batch(), &flows].map(|table| counts(table, "delivered_bytes"));
        assert_eq!(there.len(), here.len(), "{text}");
        for (there, here) in there.iter().zip(&here) {
            let apart = *there as f64 - *here as f64;
            assert!(apart.abs() <= 3.0 * DATAGRAM, "{there} bytes in a run, {here} at flow level\n{text}");
        }
        assert!(there.iter().sum::<u64>() > 5000, "{text}");
        // A source that sends until the end of the run still has datagrams in flight.
        let is_over = |table| texts(table, "status").iter().all(|status| status == "stopped");
        assert!(
            is_over(&flows)
                && (keys.contains("burst") || is_over(&run.flows.batch()) == (stop == "\"5 ms\"")),
            "{text}"
        );
        assert!(super::floats(&flows, "slowdown").iter().all(Option::is_none), "{text}");
    }
}

/// Datagrams beyond the link's capacity are lost: sources do not send longer because the link is full, and
/// connections get only the remaining capacity.
#[test]
fn sources_of_datagrams_do_not_give_way() {
    let text = udp(
        "rate = \"6 Gbps\"\nsources = [\"host1\", \"host2\"]\ndestinations = [\"host0\"]\nsize = \"3 MB\"",
        "\"50 ms\"",
    );
    let (run, flows) = (packets(&text), fluid(&text).flows);
    let [there, here] =
        [&run.flows.batch(), &flows].map(|table| counts(table, "delivered_bytes").iter().sum::<u64>() as f64);
    // A load of 12 Gb/s meets a link of 10 Gb/s, so 5 MB of 6 MB arrive. At packet level headers take 4 % of
    // the link.
    assert!(here < 5.3e6 && there / here > 0.93 && there / here < 1.01, "{there} and {here} bytes");
    let both = format!(
        "{}[[workload]]\nkind = \"long_flows\"\nflows = [{{ src = \"host3\", dst = \"host0\" }}]\n",
        udp("rate = \"8 Gbps\"\nsources = [\"host1\"]\ndestinations = [\"host0\"]", "\"10 ms\"")
    );
    let delivered = counts(&fluid(&both).flows, "delivered_bytes");
    let long = *delivered.iter().min().unwrap() as f64 * 8.0 / 10e-3;
    // A rate of 8 Gb/s on the wire equals 7.66 Gb/s of application bytes.
    assert!((long - 2.343e9).abs() < 1e7, "{long} b/s");
}

#[test]
fn limits_of_receivers_hold_at_flow_level() {
    let flow = "[[workload]]\nkind = \"long_flows\"\nflows = [{ src = \"host1\", dst = \"host0\" }]\n";
    let delivered = |table: &str| {
        counts(&fluid(&format!("stop = \"10 ms\"\n{STAR}{table}{flow}")).flows, "delivered_bytes")[0]
    };
    assert_eq!(delivered(""), 12_500_000);
    assert_eq!(delivered("transport = { read_rate = \"2 Gbps\" }\n"), 2_500_000);
    let slow = "host = { slow_receivers = [{ host = \"host0\", rate = \"4 Gbps\", buffer = \"100 KB\" }] }\n";
    assert_eq!(delivered(slow), 5_000_000);
}

#[test]
fn the_end_of_the_run_is_the_same() {
    let text = format!(
        "stop = {{ time = \"20 ms\", when_finished = false }}\n{STAR}[[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
    );
    let [there, here] = [packets(&text).summary.sim_time_s, fluid(&text).summary.sim_time_s];
    assert!((there - 0.02).abs() < 1e-9 && (here - 0.02).abs() < 1e-12, "{there} and {here}");
    let unrecorded = fluid(&format!("{text}[record]\nflows = false\n"));
    assert_eq!((unrecorded.flows.num_rows(), unrecorded.summary.flows_finished), (0, 4));
}

/// The flow level ignores no key without a warning.
#[test]
fn what_flows_do_not_have_is_named() {
    let text = |tables: &str| {
        format!("stop = \"1 ms\"\n{STAR}{tables}[[workload]]\nkind = \"permutation\"\nsize = \"1 KB\"\n")
    };
    let options = FlowOptions { ways: None, demand: None, bound: None, out: None, force: false };
    for (key, tables) in [
        ("host.refusing", "[host]\nrefusing = [\"host1\"]\n"),
        ("host.silent", "[host]\nsilent = [\"host1\"]\n"),
        ("failure", "[[failure]]\nlink = [\"host0\", \"switch\"]\ndown = \"10 us\"\n"),
        ("corruption", "[[corruption]]\nports = [\"host0:*\"]\nber = 1e-9\n"),
        ("pause_storm", "[switch]\npfc = true\n[[pause_storm]]\nsenders = [\"host0\"]\n"),
    ] {
        let error = run_flow_level(&read(&text(tables)), options, &mut Unwatched).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("pauseframe run"), "{key}: {error}");
    }
    for (key, tables) in [
        ("record.series", "[record]\nseries = true\n"),
        ("record.packets", "[record]\npackets = true\n"),
        ("record.pause_tree", "[record]\npause_tree = true\n"),
        ("record.states", "[record]\nstates = true\n"),
        ("qcn", "[qcn]\n"),
    ] {
        let warnings = fluid(&text(tables)).summary.warnings;
        assert!(warnings.iter().any(|warning| warning.contains(key)), "{key}: {warnings:?}");
    }
    assert_eq!(fluid(&text("")).summary.warnings, Vec::<String>::new());
}
