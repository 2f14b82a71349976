//! Tests of failures, bit errors, the watchdog, the deadlock detector and the pause tree, from the scenario
//! file to the tables.

use crate::common::{go, read};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use pauseframe_scenario::{RunCallbackDecision, RunOptions, RunResults, headroom, run};

/// Five switches in a ring; each host sends to the host two switches away, so the routes are cyclic (claim
/// B-M06 with shortest paths).
const RING: &str = r#"
stop = "20 ms"
topology = { kind = "ring", switches = 5, hosts_per_switch = 1 }
transport = { stack = "none", preset = "tcp_bolt", initial_window = "4 MB", receive_window = "8 MB" }
switch = { buffer = "100 KB", marker = { kind = "step", k = "90 KB" }, pfc = { xoff = "40 KB" } }
record = { pause_tree = true }
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
fn a_deadlock_ends_the_run_unless_told_otherwise() {
    let ended = go(RING, &[]);
    assert_eq!((ended.summary.deadlocks, ended.deadlocks.num_rows()), (1, 5));
    assert!(ended.summary.sim_time_s < 0.005, "{}", ended.summary.sim_time_s);
    let said = ended.summary.warnings.iter().find(|text| text.starts_with("deadlock since")).unwrap();
    assert!(said.contains("s0:") && said.ends_with("The run ends here (stop.on_deadlock)"), "{said}");
    assert!(ended.pause_tree.num_rows() >= 10, "five links and five hosts at least");

    let went_on = go(RING, &[("stop.on_deadlock", "false")]);
    assert_eq!(went_on.summary.deadlocks, 1);
    assert!((went_on.summary.sim_time_s - 0.02).abs() < 1e-12);
    assert_eq!(went_on.summary.flows_finished, 0);
}

/// Nothing will ever move it, so without `stop.time` the run would have no end (seed 7000552 of the swarm).
#[test]
fn a_watchdog_that_only_alerts_does_not_keep_a_deadlock_running() {
    let watchdog =
        [("switch.pfc.watchdog.detection", "\"100 us\""), ("switch.pfc.watchdog.action", "\"alert\"")];
    let run = go(RING, &watchdog);
    assert_eq!((run.summary.deadlocks, run.summary.flows_finished), (1, 0));
    assert!(run.summary.sim_time_s < 0.005, "{}", run.summary.sim_time_s);
}

#[test]
fn the_watchdog_gets_the_time_to_break_it() {
    let overrides = [
        ("stop", "\"2 s\""),
        ("switch.pfc.watchdog.detection", "\"5 ms\""),
        ("switch.pfc.watchdog.restoration", "\"5 ms\""),
        ("transport.rto_min", "\"2 ms\""),
    ];
    let run = go(RING, &overrides);
    assert!(run.summary.deadlocks >= 1 && run.summary.watchdog_storms >= 1);
    assert!(run.summary.drops_by_reason.watchdog > 0);
    assert_eq!(run.summary.flows_finished, 5);
}

#[test]
fn parents_in_the_table_are_numbers_of_its_rows() {
    let tree = go(RING, &[]).pause_tree;
    let parents = tree.column_by_name("parents").unwrap().as_list::<i32>();
    let mut seen = 0;
    for row in 0..tree.num_rows() {
        for parent in parents.value(row).as_primitive::<UInt32Type>().values() {
            assert!((*parent as usize) < row);
            seen += 1;
        }
    }
    assert!(seen > 0, "some pause has a cause");
    assert_eq!(go(RING, &[("record.pause_tree", "false")]).pause_tree.num_rows(), 0);
}

const LEAF_SPINE: &str = r#"
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 2 }
routing = { convergence = "1 ms" }
transport = { stack = "none", preset = "dctcp", rto_min = "1 ms" }
workload = { kind = "permutation", size = "10 MB" }
"#;

#[test]
fn failures_cost_packets_and_flows_go_round_them() {
    let whole = go(LEAF_SPINE, &[]);
    for what in [r#"link = ["leaf0", "spine0"]"#, r#"node = "spine1""#, r#"port = "leaf0:2""#] {
        let text = format!("{LEAF_SPINE}\n[[failure]]\n{what}\ndown = \"2 ms\"\nup = \"40 ms\"\n");
        let run = go(&text, &[]);
        assert_eq!(run.summary.flows_finished, run.summary.flows_total, "{what}");
        assert_eq!(run.summary.drops, run.summary.drops_by_reason.total());
    }
    // The failure hits both spines at once, and at least one of them carries traffic.
    let text = format!(
        "{LEAF_SPINE}\nfailure = [{{ node = \"spine0\", down = \"2 ms\", up = \"5 ms\" }}, {{ node = \"spine1\", \
         down = \"2 ms\", up = \"5 ms\" }}]\n"
    );
    let (head, rest) = text.split_at(text.find("workload").unwrap());
    let run = go(&format!("{head}{rest}"), &[]);
    assert!(run.summary.drops_by_reason.link_down > 0);
    assert_ne!(run.summary.fingerprint, whole.summary.fingerprint);
}

#[test]
fn damaged_frames_are_counted() {
    let text = format!("{LEAF_SPINE}\n[[corruption]]\nports = [\"leaf0:*\"]\nber = 1e-7\n");
    let run = go(&text, &[]);
    assert!(run.summary.drops_by_reason.corrupted > 0);
    assert_eq!(run.summary.flows_finished, run.summary.flows_total);
}

#[test]
fn mistakes_are_named() {
    for (lines, expected) in [
        (
            "[[failure]]\nlink = [\"leaf0\", \"leaf1\"]\ndown = \"1 ms\"",
            "failure.0.link: there is no link between \"leaf0\" and \"leaf1\"; leaf0 has links to",
        ),
        ("[[failure]]\nnode = \"spin0\"\ndown = \"1 ms\"", "there is no node \"spin0\""),
        (
            "[[failure]]\nport = \"leaf0:9\"\ndown = \"1 ms\"",
            "there is no port \"leaf0:9\"; the ports there are leaf0:0, leaf0:1",
        ),
        ("[[failure]]\nport = \"host0\"\ndown = \"1 ms\"", "the ports there are host0:0"),
        ("[[failure]]\nport = \"nobody:0\"\ndown = \"1 ms\"", "ports are NODE:NUMBER"),
        ("[[failure]]\ndown = \"1 ms\"", "one of link, port and node is required; add link, port or node"),
        (
            "[[failure]]\nnode = \"leaf0\"\nport = \"leaf0:1\"\ndown = \"1 ms\"",
            "failure.0.node: port is given too; leave one of port and node out",
        ),
        ("[[failure]]\nnode = \"leaf0\"\ndown = \"2 ms\"\nup = \"1 ms\"", "is not after down"),
        ("[[corruption]]\nports = [\"x*\"]\nber = 1e-9", "no port is called x*"),
        ("[[corruption]]\nports = [\"leaf*\"]", "one of ber, fer and mtu is required"),
        ("[[corruption]]\nports = [\"leaf*\"]\nfer = 1.5", "1.5 is outside 0"),
    ] {
        let error = read(&format!("{LEAF_SPINE}\n{lines}\n"), &[]).unwrap_err();
        assert!(error.contains(expected), "{lines}: {error}");
    }
}

/// The term "arriving" computed by hand: 0.8 ns a byte at 10 Gb/s, 1542 bytes for a full frame, 84 bytes for
/// a pause frame.
#[test]
fn the_headroom_is_shown_with_its_terms_and_checked_at_load() {
    let text = r#"
topology = { kind = "dumbbell", left = 2, right = 2, fabric_link = { delay = "10 us" } }
transport = { stack = "none", preset = "tcp_bolt" }
switch = { pfc = { reaction = "1 us" } }
workload = { kind = "permutation", size = "1 MB" }
"#;
    let resolved = read(text, &[]).unwrap();
    assert!(resolved.warnings.is_empty(), "{:?}", resolved.warnings);
    let rows = headroom(&resolved);
    let shown: Vec<_> = rows.iter().map(|row| (row.ports, row.delay_ns, row.priority)).collect();
    assert_eq!(shown, [(4, 1000.0, 3), (2, 10_000.0, 3)]);
    let far = &rows[1];
    let sum = far.frame_ahead_ns
        + far.pause_frames_ns
        + far.delay_back_ns
        + far.reaction_ns
        + far.last_frame_ns
        + far.delay_ns;
    assert!((sum - (1233.6 + 67.2 + 10_000.0 + 1000.0 + 1233.6 + 10_000.0)).abs() < 1e-9);
    // In 23534.4 ns, 29418 bytes and a part of one more byte arrive; of the 1542 bytes of a frame on the
    // wire, buffers count 1522.
    assert_eq!(far.arriving_bytes, (29_419_u64 * 1522).div_ceil(1542));
    assert_eq!((far.crossing_bytes, far.needed_bytes), (1521, far.arriving_bytes + 1521));
    assert_eq!(far.given_bytes, far.needed_bytes);

    let short = read(text, &[("switch.pfc.headroom", "\"10 KB\"")]).unwrap();
    assert!(short.warnings.iter().any(|text| text.contains("its link needs")), "{:?}", short.warnings);
    let run = run(&short, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap();
    let said = run.summary.warnings.iter().filter(|text| text.contains("its link needs")).count();
    assert_eq!(said, 1, "once, not at load and at the end");
}

#[test]
fn links_can_be_asymmetric() {
    let text = |back: &str| {
        format!(
            "topology = {{ kind = \"custom\", hosts = [\"A\", \"B\"], switches = [\"S\"], links = [{{ ends = [\"A\", \"S\"]{back} }}, \
             [\"B\", \"S\"]] }}\nworkload = {{ kind = \"flows\", flows = [{{ src = \"B\", dst = \"A\", size = \"1 MB\" }}] }}\n"
        )
    };
    let rate = |run: &RunResults| {
        let rates = run.ports.column_by_name("rate_bps").unwrap();
        let rates = rates.as_primitive::<arrow_array::types::UInt64Type>().values().to_vec();
        (rates.iter().filter(|rate| **rate == 1_000_000_000).count(), run.summary.fct_us.mean.unwrap())
    };
    let (alike, fast) = rate(&go(&text(""), &[]));
    let (slow_back, slow) = rate(&go(&text(", rate_back = \"1 Gbps\""), &[]));
    assert_eq!((alike, slow_back), (0, 1));
    assert!(slow > 5.0 * fast, "{slow} us and {fast} us");
}
