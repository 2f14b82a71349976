//! The exact error message for each mistake.

use super::{GOOD, resolve_as};
use std::fmt::Write;

/// The errors of the scenario GOOD with the text `addition` appended and with the given overrides.
fn errors(addition: &str, overrides: &[(&str, &str)]) -> String {
    errors_of(&format!("{GOOD}{addition}"), overrides)
}

fn errors_of(text: &str, overrides: &[(&str, &str)]) -> String {
    match resolve_as("s.toml", text, overrides, None) {
        Ok(resolved) => panic!("this was accepted:\n{}", resolved.to_toml()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_scenario_that_is_spoilt_is_good() {
    let resolved = resolve_as("s.toml", GOOD, &[], None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(resolved.warnings, [""; 0]);
}

#[test]
fn three_mistakes_are_reported_at_once() {
    let text =
        "[switch]\nlatency = 5\npfc = { xoff = \"96 KB\", xon = \"96 KB\" }\n[hots]\nmtu = \"9000 B\"\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: switch.latency: 5 has no unit; expected a time such as \"240 us\"; \
         if 5 is in seconds, write \"5 s\"; units are ps, ns, us, ms, s, min, h\n\
         s.toml:12: switch.pfc.xon: 96 KB is not below xoff (96 KB); lower xon by a few frames, or leave it out\n\
         s.toml:13: hots: unknown key; did you mean \"host\"?"
    );
}

#[test]
fn a_misspelt_key_gets_the_nearest_one() {
    let text = "[transport]\nrto_minn = \"2 ms\"\nloss_less = true\nzzz = 1\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: transport.rto_minn: unknown key; did you mean \"rto_min\"?\n\
         s.toml:12: transport.loss_less: unknown key; did you mean \"lossless\"?\n\
         s.toml:13: transport.zzz: unknown key; pauseframe options transport lists the keys here"
    );
}

#[test]
fn a_key_of_another_table_is_sent_home() {
    let text = "[switch]\nmtu = \"9000 B\"\n[routing]\nseed = 3\nxoff = \"9 KB\"\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: switch.mtu: unknown key; it belongs in [host]\n\
         s.toml:13: routing.seed: unknown key; seed stands above the first table\n\
         s.toml:14: routing.xoff: unknown key; it belongs in [switch.pfc]"
    );
}

#[test]
fn a_key_of_another_kind_says_of_which() {
    let text = "[switch.buffer]\nkind = \"x\"\nalpha = 2.0\n[switch.scheduler]\npolicy = \"strict\"\n";
    let spoilt = GOOD.replace("hosts = 4\n", "hosts = 4\nk = 4\n").replace("size", "fan_in = 3\nsize");
    assert_eq!(
        errors_of(&format!("{spoilt}{text}"), &[]),
        "s.toml:6: topology.k: unknown key; it goes with kind = fat_tree\n\
         s.toml:10: workload.0.fan_in: unknown key; it goes with kind = incast\n\
         s.toml:13: switch.buffer.kind: unknown key; did you mean \"policy\"?\n\
         s.toml:14: switch.buffer.alpha: unknown key; it goes with policy = shared\n\
         s.toml:16: switch.scheduler.policy: unknown key; did you mean \"kind\"?"
    );
}

#[test]
fn units_are_asked_for() {
    let text = "[topology.link]\nrate = 10\ndelay = \"1 usec\"\n[switch]\nbuffer = \"225\"\n";
    assert_eq!(
        errors_of(&GOOD.replace("\n[[workload]]", &format!("{text}[[workload]]")), &[]),
        "s.toml:7: topology.link.rate: 10 has no unit; expected a rate such as \"10 Gbps\"; \
         if 10 is in Gb/s, write \"10 Gbps\"; units are bps, Kbps, Mbps, Gbps, Tbps\n\
         s.toml:8: topology.link.delay: \"1 usec\" has the unknown unit \"usec\" (one of ps, ns, us, ms, s, min, h); \
         expected a time such as \"240 us\"; write \"1 us\"\n\
         s.toml:10: switch.buffer.size: \"225\" has no unit; expected a size such as \"96 KB\"; \
         if 225 is in bytes, write \"225 B\"; units are B, KB, MB, GB, TB, KiB, MiB, GiB"
    );
}

#[test]
fn values_of_another_type_are_named() {
    let text = "[transport]\nsack = \"yes\"\ndup_thresh = \"3\"\nretries = -1\ndctcp_g = \"small\"\necn = \"dctpc\"\n\
                initial_window = \"ten\"\n[record]\nseries = 3\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: transport.sack: \"yes\" is text; expected true or false, without quotes\n\
         s.toml:12: transport.dup_thresh: \"3\" is text; expected a whole number from 0 to 4294967295; write 3 without quotes\n\
         s.toml:13: transport.retries: -1 is not a whole number from 0 to 4294967295\n\
         s.toml:14: transport.dctcp_g: \"small\" is text; expected a number\n\
         s.toml:15: transport.ecn: \"dctpc\" is not one of off, classic, dctcp; did you mean \"dctcp\"?\n\
         s.toml:16: transport.initial_window: \"ten\" is not an initial window; \
         expected \"10 segments\", \"bdp\" or a size such as \"30 KB\"\n\
         s.toml:18: record.series: 3 is a number; expected a table; \
         write [record.series] on a line of its own, and the keys of the table under it"
    );
}

#[test]
fn ranges_are_said() {
    let text = "[host]\nmtu = \"64 KB\"\n[transport]\ndctcp_g = 0\ndup_thresh = 0\nrto_min = \"3 s\"\nrto_max = \"2 s\"\n\
                [switch]\nbuffer = { policy = \"shared\", alpha = -1 }\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: host.mtu: 64 KB is outside 576 B to 9216 B\n\
         s.toml:13: transport.dctcp_g: 0.0 is outside 0.0009765625 to 1.0\n\
         s.toml:14: transport.dup_thresh: 0 is outside 1 to 1000\n\
         s.toml:15: transport.rto_min: 3 s is above rto_max (2 s); raise rto_max or lower this\n\
         s.toml:18: switch.buffer.alpha: -1 is not above 0 and at most 1e6"
    );
}

#[test]
fn what_is_required_is_asked_for() {
    assert_eq!(
        errors_of("", &[]),
        "s.toml: topology.kind: is required: one of fat_tree, xgft, pgft, leaf_spine, dumbbell, star, line, ring, jellyfish, torus, dragonfly, file, custom; \
         add a line [topology], and kind = ... under it\n\
         s.toml: workload: is required: at least one; \
         add one, as in [[workload]] with kind = \"permutation\" and size = \"1 MB\""
    );
    let text = "[topology]\nkind = \"leaf_spine\"\nspines = 2\n[[workload]]\nkind = \"permutation\"\n";
    assert_eq!(
        errors_of(text, &[]),
        "s.toml:1: topology.leaves: is required: whole number; add leaves = ... under [topology]\n\
         s.toml:1: topology.hosts_per_leaf: is required: whole number; add hosts_per_leaf = ... under [topology]\n\
         s.toml:4: workload.0.size: is required: size; add size = ... under [[workload]]"
    );
}

#[test]
fn topologies_are_built_to_be_judged() {
    let odd = GOOD.replace("kind = \"star\"\nhosts = 4", "kind = \"fat_tree\"\nk = 3");
    assert_eq!(
        errors_of(&odd, &[]),
        "s.toml:5: topology.k: 3 is not possible: it must be even and at least 2"
    );
    let huge = errors(r"", &[("topology.hosts", "4000000000")]);
    assert!(huge.starts_with("s.toml:3: topology: star: this fabric would have 4000000000 links"), "{huge}");
    let text = r#"[topology]
kind = "custom"
hosts = ["a", "b", "c"]
switches = ["S"]
links = [["a", "S"], ["b", "T"], { ends = ["c", "c"] }]
[workload]
kind = "permutation"
size = "1 MB"
"#;
    assert_eq!(
        errors_of(text, &[]),
        "s.toml:5: topology.links.1.ends: there is no node \"T\" in hosts or switches"
    );
    assert_eq!(
        errors_of(&text.replace('T', "S"), &[]),
        "s.toml:1: topology: a link joins \"c\" to itself: remove it or name another node\n\
         s.toml:1: topology: host \"c\" has 2 links (to \"c\", \"c\"), one of them to a host: traffic would \
         have to pass through it, and hosts never forward; link hosts to switches only, or make it a switch\n\
         s.toml:1: topology: there is no path between \"a\" and \"c\": add a link between their parts"
    );
}

/// Each name in a list has its own path, so that one wrong name hides no other.
#[test]
fn every_wrong_name_of_a_list_is_reported() {
    let text = "[[workload]]\nkind = \"requests\"\nclient = \"host0\"\n\
                servers = [\"host0\", \"hots1\", \"host2\", \"host2\"]\n";
    let found = errors(text, &[]);
    for wrong in [
        "workload.1.servers.0: client and server are the same host",
        "workload.1.servers.1: there is no host \"hots1\"",
        "workload.1.servers.3: \"host2\" is there twice",
    ] {
        assert!(found.contains(wrong), "{found}");
    }
    assert_eq!(found.lines().count(), 3, "{found}");
}

#[test]
fn workloads_name_what_exists() {
    let text = r#"[[workload]]
kind = "flows"
name = "permutation"
transport = "dctcp"
flows = [{ src = "host1", dst = "hots2", size = "1 KB" }, { src = "switch", dst = "host1", size = "0 B" }]
[[workload]]
kind = "n_to_1"
name = "permutation"
senders = 4
size = "1 KB"
[[workload]]
kind = "long_flow"
"#;
    assert_eq!(
        errors(text, &[]),
        "s.toml:13: workload.1.transport: there is no transport \"dctcp\"; there are default; \
         for the preset add [transports.dctcp] with preset = \"dctcp\"\n\
         s.toml:14: workload.1.flows.0.dst: there is no host \"hots2\" among the 4 (host0 to host3); \
         did you mean \"host2\"?\n\
         s.toml:14: workload.1.flows.1.src: \"switch\" is a switch; expected a host\n\
         s.toml:14: workload.1.flows.1.size: 0 B is outside 1 B to 1000 TB\n\
         s.toml:17: workload.2.name: \"permutation\" names an earlier workload too; give each its own name\n\
         s.toml:18: workload.2.senders: 4 is not possible: a host has 3 others; choose 1 to 3\n\
         s.toml:21: workload.3.kind: \"long_flow\" is not one of flows, permutation, n_to_1, long_flows, incast, \
         requests, background, scatter_gather, hotspot, storage, kv_transfer, udp, application, training; did you mean \"long_flows\"?"
    );
}

#[test]
fn endless_runs_are_refused() {
    let text = r#"stop = { when_finished = false }
[topology]
kind = "star"
hosts = 4
[[workload]]
kind = "long_flows"
flows = [{ src = "host0", dst = "host1" }]
[[workload]]
kind = "incast"
fan_in = 3
"#;
    assert_eq!(
        errors_of(text, &[]),
        "s.toml:1: stop.when_finished: false, and there is no stop.time: the run has no end; add stop.time\n\
         s.toml:7: workload.0.flows.0.stop: this flow has no end and neither has the run; \
         set stop here, or the stop of the scenario, as in stop = \"50 ms\"\n\
         s.toml:8: workload.1.stop: this workload has no end and neither has the run; \
         set stop here, or the stop of the scenario, as in stop = \"50 ms\""
    );
}

#[test]
fn buffers_must_hold_what_they_promise() {
    let text = "[switch]\nbuffer = \"100 KB\"\npfc = { priorities = [3, 9, 3], xoff = \"90 KB\", headroom = \"20 KB\" }\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:12: switch.pfc.priorities: element 1: 9 is outside 0 to 7\n\
         s.toml:12: switch.pfc.xoff: 90 KB and headroom (20 KB) are more than switch.buffer.size (100 KB); \
         lower one of them, or enlarge the buffer"
    );
    assert_eq!(
        errors("[switch]\nbuffer = { policy = \"shared\", size = \"1 MB\", reserved = \"50 KB\" }\n", &[]),
        "s.toml:11: switch.buffer.reserved: 50 KB for each of 4 ports and 8 priorities are 1.6 MB, more than size \
         (1 MB); lower it, or enlarge the buffer"
    );
    assert_eq!(
        errors("[switch]\nbuffer = \"1 KB\"\n", &[]),
        "s.toml:11: switch.buffer.size: 1 KB is less than one frame of host.mtu (1518 B); \
         enlarge it, or lower host.mtu"
    );
}

#[test]
fn lossless_transports_and_priorities_must_agree() {
    let text = "[switch]\npfc = false\n[transport]\npreset = \"tcp_bolt\"\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: switch.pfc: false, but transport \"default\" is lossless (preset \"tcp_bolt\"); \
         remove it, or set lossless = false there"
    );
    let text = "[switch]\npfc = { priorities = [3] }\n[transport]\npriority = 3\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:13: transport.priority: 3 is a lossless priority, but the transport is lossy; \
         set lossless = true, or leave priority out"
    );
    let text = "[transport]\npreset = \"tcp_bot\"\n";
    assert_eq!(
        errors(text, &[]),
        "s.toml:11: transport.preset: \"tcp_bot\" is not one of cubic, newreno, tcp_dcb, dctcp, dctcp_plus, tcp_bolt, vegas, bbr, roce_dcqcn, roce_cx5, roce_hpcc, roce_timely, roce_swift, uec_nscc, udp, pfabric; \
         did you mean \"tcp_bolt\"?"
    );
}

#[test]
fn overrides_are_judged_like_the_file() {
    let overrides = [
        ("switch.bufer", "1 MB"),
        ("workload.size", "1"),
        ("workload.3.size", "1 KB"),
        ("seed.x", "1"),
        ("a..b", "1"),
        ("host.mtu", "100 B"),
    ];
    assert_eq!(
        errors("", &overrides),
        "--set: workload.3.size: workload is a list of 1: it has no element 3, counted from 0\n\
         --set: a..b: this is not the path of a key; write KEY=VALUE with a dotted key, as in switch.pfc.xoff=\"96 KB\"\n\
         --set: seed: {...} is a table; expected a whole number from 0 to 18446744073709551615\n\
         --set: host.mtu: 100 B is outside 576 B to 9216 B\n\
         --set: workload.0.size: 1 has no unit; expected a size such as \"96 KB\"; \
         if 1 is in bytes, write \"1 B\"; units are B, KB, MB, GB, TB, KiB, MiB, GiB\n\
         --set: switch.bufer: unknown key; did you mean \"buffer\"?"
    );
    let unknown = [
        ("a.b", "1"),
        ("transprt.preset", "dctcp"),
        ("host.a.b", "1"),
        ("pfc.xoff", "9 KB"),
        ("pfc.xon", "8 KB"),
        ("host.seed.x", "1"),
    ];
    assert_eq!(
        errors("", &unknown),
        "--set: host.a.b: unknown key; pauseframe options host lists the keys here\n\
         --set: host.seed.x: unknown key; pauseframe options host lists the keys here\n\
         --set: a.b: unknown key\n\
         --set: transprt.preset: unknown key; did you mean \"transport\"?\n\
         --set: pfc.xoff: unknown key; it belongs in [switch]\n\
         --set: pfc.xon: unknown key; it belongs in [switch]",
        "a table that --set makes is no key, and fits no key of its name"
    );
    let two = "[[workload]]\nkind = \"permutation\"\nsize = \"1 KB\"\n";
    assert_eq!(
        errors(two, &[("workload.size", "2 KB"), ("seed", "first")]),
        "--set: workload.size: the list has 2 elements: which one?; put its number first, from 0, as in workload.0.size\n\
         --set: seed: \"first\" is text; expected a whole number from 0 to 18446744073709551615"
    );
}

#[test]
fn sizes_and_arrivals_are_judged() {
    let text = r#"[[workload]]
kind = "background"
sizes = "web_serch"
arrivals = { kind = "load", load = 40 }
[[workload]]
kind = "background"
sizes = { kind = "uniform", min = "2 KB", max = "1 KB" }
arrivals = { kind = "rate", per_host = 0 }
intra_rack = 1.5
start = "20 ms"
[[workload]]
kind = "background"
sizes = { kind = "cdf", points = [[1000, 0.5], [500, 1]] }
[[workload]]
kind = "flows"
file = "nowhere.csv"
"#;
    let found = errors(text, &[]);
    let (found, nowhere) = found.rsplit_once('\n').unwrap();
    assert_eq!(
        found,
        "s.toml:12: workload.1.sizes.source: \"web_serch\" is neither a file nor one of web_search, data_mining, \
         facebook_key_value; did you mean \"web_search\"?\n\
         s.toml:13: workload.1.arrivals.load: 40 is not above 0 and at most 1; \
         this is a share, not a percentage: for 40 % write 0.4\n\
         s.toml:16: workload.2.sizes.min: 2 KB is above max (1 KB); swap them\n\
         s.toml:17: workload.2.arrivals.per_host: 0 is not above 0 and at most 1e9\n\
         s.toml:18: workload.2.intra_rack: 1.5 is outside 0.0 to 1.0\n\
         s.toml:19: workload.2.start: start (20 ms) is not before stop (10 ms)\n\
         s.toml:20: workload.3.arrivals.kind: is required: one of load, rate, concurrency; \
         add a line [workload.arrivals], and kind = ... under it\n\
         s.toml:22: workload.3.sizes.points: [500, 1] falls below the point before it; \
         as in [[1460, 0.0], [30000, 1.0]]"
    );
    assert!(
        nowhere.starts_with("s.toml:25: workload.4.file: ") && nowhere.contains("nowhere.csv"),
        "{nowhere}"
    );
}

#[test]
fn what_is_not_toml_is_said_with_its_line() {
    let broken = errors_of("seed = 1\nstop = 50 ms\n[topology\n", &[]);
    assert!(
        broken.starts_with("s.toml:2: this is not TOML: ") && broken.contains("\ns.toml:3: "),
        "{broken}"
    );
    let binary = errors_of("\u{0}\u{1}\u{2}PK\u{3}\n\u{fffd}", &[]);
    assert!(binary.starts_with("s.toml:1: this is not TOML: "), "{binary}");
    let long = errors_of(&"#".repeat((16 << 20) + 1), &[]);
    assert_eq!(
        long,
        "s.toml: 16 MB of text; a scenario has at most 16 MiB; \
         keep long flow lists in a file of their own (workload.file)"
    );
    let deep = errors_of(&format!("a = {}", "[".repeat(100_000)), &[]);
    assert!(deep.starts_with("s.toml:1: this is not TOML: "), "{deep}");
}

#[test]
fn a_bracket_that_is_not_closed_is_one_error() {
    for open in ["[1, 2", "{ a = 1", "[{ a = 1 }", "[\"a\","] {
        let text =
            format!("seed = {open}\n[topology]\nkind = \"star\"\nhosts = 4\n[stop]\ntime = \"1 ms\"\n");
        let found = errors_of(&text, &[]);
        assert_eq!(found.lines().count(), 1, "{found}");
        assert!(found.contains("the bracket before it is not closed"), "{found}");
    }
}

#[test]
fn an_unknown_key_without_a_likely_name_lists_the_keys_of_its_table() {
    let found = errors_of("[[failure]]\nlink = [\"h0\", \"s0\"]\ndown = \"1 ms\"\nat = \"5 ms\"\n", &[]);
    assert!(found.contains("unknown key; the keys here are link, port, node, down, up, silent"), "{found}");
}

#[test]
fn a_flood_of_mistakes_is_cut_short() {
    let mut text = String::from("[host]\n");
    for number in 0..1000 {
        writeln!(text, "key{number} = 1").unwrap();
    }
    let found = errors(&text, &[]);
    assert_eq!(found.lines().count(), 21);
    assert!(found.ends_with("s.toml: 980 further mistakes are not listed"), "{found}");
}

#[test]
fn problems_have_their_parts() {
    let error = resolve_as("dir/s.toml", &format!("{GOOD}[host]\nmtu = 9000\n"), &[], None).unwrap_err();
    let [problem] = &error.problems[..] else { panic!("{error}") };
    assert_eq!((problem.path.as_str(), problem.line, problem.value.as_str()), ("host.mtu", Some(11), "9000"));
    assert_eq!(
        (problem.place.as_str(), problem.hint.as_str()),
        ("dir/s.toml:11", "if 9000 is in bytes, write \"9 KB\"; units are B, KB, MB, GB, TB, KiB, MiB, GiB")
    );
}

/// Jobs share no places: each of the two jobs would fit alone, but together they do not. The resolver must
/// report that before the network is built.
#[test]
fn applications_need_places_for_all_their_ranks() {
    let text = r#"[topology]
kind = "star"
hosts = 3
[[workload]]
kind = "application"
pattern = "stencil"
ranks = 3
size = "1 KB"
[[workload]]
kind = "application"
pattern = "stencil"
ranks = 3
size = "1 KB"
"#;
    assert_eq!(
        errors_of(text, &[]),
        "s.toml:9: workload.1: needs 3 places on hosts; 0 are free; give it fewer ranks, or several on a host \
         (ranks_per_host), or the fabric more hosts"
    );
    let first = text.split_inclusive("[[workload]]").take(2).collect::<String>();
    let alone = first.trim_end_matches("[[workload]]");
    assert!(resolve_as("s.toml", alone, &[], None).is_ok(), "one of them has room");
}
