//! Tests of `clocks`, of jitter and its headroom, and of the warnings about shares and timeouts,
//! each with a scenario file.
#![expect(clippy::float_cmp, reason = "the values are exact")]

use crate::common::{go, read};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use pauseframe_scenario::headroom;

fn said<'a>(warnings: &'a [String], what: &str) -> Vec<&'a String> {
    warnings.iter().filter(|text| text.contains(what)).collect()
}

/// Two flows of equal rate into one port (`NewReno` without jitter: 9.49 and 0.00 Gb/s).
const TWO: &str = r#"
stop = "1500 ms"
topology = { kind = "star", hosts = 3, link = { rate = "1 Gbps", delay = "5 us" } }
switch = { buffer = "150 KB" }
transport = { preset = "newreno", stack = "linux" }
[[workload]]
kind = "long_flows"
flows = [{ src = "host0", dst = "host2" }, { src = "host1", dst = "host2", start = "1037 us" }]
"#;

#[test]
fn a_starved_flow_is_a_warning_and_real_clocks_starve_none() {
    let locked = go(TWO, &[("clocks", "\"ideal\"")]);
    let warning = said(&locked.summary.warnings, "max-min share");
    assert_eq!(warning.len(), 1, "{:?}", locked.summary.warnings);
    assert!(warning[0].contains("clocks = \"real\""), "{}", warning[0]);
    let real = go(TWO, &[]);
    assert!(real.summary.warnings.is_empty(), "{:?}", real.summary.warnings);
}

/// A lossless class with Bolt's preset, and a lossy class.
const MIXED: &str = r#"
stop = "2 ms"
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { preset = "tcp_bolt" }
transports = { other = { preset = "dctcp" } }
[[workload]]
kind = "n_to_1"
name = "bolt"
senders = 2
size = "1 MB"
"#;

#[test]
fn only_jitter_that_a_scenario_names_is_a_term_of_the_headroom() {
    let lossy = "\n[[workload]]\nkind = \"n_to_1\"\nname = \"lossy\"\nsenders = 2\nsize = \"1 MB\"\ntransport = \"other\"\n";
    let mixed = format!("{MIXED}{lossy}");
    let row = |text: &str, overrides: &[(&str, &str)]| headroom(&read(text, overrides).unwrap()).remove(0);
    let (pure, both) = (row(MIXED, &[]), row(&mixed, &[]));
    assert_eq!((pure.jitter_ns, pure.jitter_back_ns), (0.0, 0.0));
    // Neither lossy traffic nor the simulator's clocks cost a switch headroom.
    assert_eq!(both.needed_bytes, pure.needed_bytes);
    assert_eq!(row(&mixed, &[("clocks", "\"ideal\"")]).needed_bytes, pure.needed_bytes);
    assert_eq!(
        row(MIXED, &[("host.wire_jitters", "[{ host = \"*\", to_switch = \"2 us\" }]")]).jitter_ns,
        2000.0
    );
    assert_eq!(row(MIXED, &[("host.tx_jitter", "\"5 us\"")]).needed_bytes, pure.needed_bytes);
    assert!(go(&mixed, &[]).summary.drops_by_reason.headroom_exceeded == 0);
}

#[test]
fn wrong_jitter_gets_an_error_that_says_what_to_write() {
    let error = |value: &str| read(TWO, &[("host.tx_jitter", value)]).unwrap_err();
    assert!(error("\"auto\"").contains("expected a time"), "{}", error("\"auto\""));
    assert!(error("5").contains("has no unit"), "{}", error("5"));
    assert!(error("\"2 s\"").contains("outside 0 s to 1 s"), "{}", error("\"2 s\""));
    let row = |row: &str| read(TWO, &[("host.wire_jitters", row)]).map(|_| ());
    row("[{ host = \"host0\" }, { host = \"h*\", to_switch = \"5 us\" }]").unwrap();
    let nobody = row("[{ host = \"server*\" }]").unwrap_err();
    assert!(nobody.contains("no host \"server*\""), "{nobody}");
    let twice = row("[{ host = \"*\" }, { host = \"*\", to_switch = \"5 us\" }]").unwrap_err();
    assert!(twice.contains("the first row that matches a host counts"), "{twice}");
}

/// Transfers of which the first, single segment waits for a delayed ACK.
const HELD: &str = r#"
stop = "300 ms"
topology = { kind = "star", hosts = 2, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { stack = "none", preset = "newreno", initial_window = "1 segment", rto_min = "2 ms", rto_form = "rfc", delayed_ack_timeout = "100 ms" }
[[workload]]
kind = "permutation"
size = "10 KB"
"#;

#[test]
fn an_ack_that_is_held_longer_than_the_rto_is_a_warning() {
    let resolved = read(HELD, &[]).unwrap();
    assert_eq!(said(&resolved.warnings, "transport.delayed_ack_timeout").len(), 1, "{:?}", resolved.warnings);
    let results = go(HELD, &[]);
    assert_eq!(said(&results.summary.warnings, "an ACK is held").len(), 1);
    let needless = said(&results.summary.warnings, "although no packet was lost");
    assert_eq!(needless.len(), 1, "{:?}", results.summary.warnings);
    assert!(needless[0].contains("transport.rto_min"));
    for good in [("transport.delayed_ack_timeout", "\"1 ms\""), ("transport.delayed_ack_segments", "1")] {
        let warnings = go(HELD, &[good]).summary.warnings;
        // A timeout of ACKs that leave at once changes nothing.
        let idle = usize::from(good.1 == "1");
        assert_eq!((warnings.len(), said(&warnings, "changes nothing").len()), (idle, idle), "{warnings:?}");
    }
    // FreeBSD's RTO is never smaller than its slop.
    let freebsd = [("transport.rto_form", "\"freebsd\""), ("transport.rto_slop", "\"200 ms\"")];
    assert!(read(HELD, &freebsd).unwrap().warnings.is_empty());
}

/// A long flow beside datagrams that fill the link has no fair share, so no warning appears.
#[test]
fn a_flow_that_has_no_share_is_not_starved() {
    let udp = "\n[[workload]]\nkind = \"udp\"\nname = \"udp\"\nsources = [\"host1\"]\ndestinations = [\"host2\"]\nrate = \"1 Gbps\"\n";
    let text = TWO.replace(", { src = \"host1\", dst = \"host2\", start = \"1037 us\" }", "") + udp;
    let results = go(&text, &[]);
    assert!(said(&results.summary.warnings, "max-min").is_empty(), "{:?}", results.summary.warnings);
}

/// A flow through two links, each shared with another flow. `NewReno`'s long flow once got 0.04 Gb/s and left a link two
/// thirds empty; with real clocks the long flow gets 0.5 to 0.7 Gb/s with `NewReno`, and 0.07 to 0.1 with CUBIC, by seed.
const PARKING_LOT: &str = r#"
stop = "1 s"
[topology]
kind = "custom"
hosts = ["a", "b", "c", "to_a", "to_b", "to_c"]
switches = ["s1", "s2", "s3"]
link = { rate = "4 Gbps", delay = "10 us" }
links = [["a", "s1"], ["b", "s1"], ["c", "s2"], ["s1", "s2"], ["s2", "s3"], ["to_b", "s2"], ["to_a", "s3"], ["to_c", "s3"]]
[[workload]]
kind = "long_flows"
flows = [{ src = "a", dst = "to_a" }, { src = "b", dst = "to_b" }, { src = "c", dst = "to_c" }]
"#;

#[test]
fn a_parking_lot_leaves_no_link_empty_and_starves_nobody() {
    for (preset, least) in [("\"newreno\"", 0.2), ("\"cubic\"", 0.04)] {
        let results = go(PARKING_LOT, &[("transport.preset", preset)]);
        let batch = results.flows.batch();
        let delivered = batch.column_by_name("delivered_bytes").unwrap();
        let delivered = delivered.as_primitive::<UInt64Type>().values().iter();
        let gbps: Vec<f64> = delivered.map(|bytes| *bytes as f64 * 8.0 / 1e9).collect();
        for short in [1, 2] {
            assert!(gbps[0] + gbps[short] > 0.95 * 4.0 * 1448.0 / 1538.0, "{preset}: {gbps:?}");
        }
        assert!(gbps[0] > least, "{preset}: {gbps:?}");
    }
}
