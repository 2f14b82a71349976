//! Applications in the packet network: run times computed by hand, concurrent jobs, flows that wait for
//! others.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, StringArray};
use pauseframe_scenario::resolve::{Input, Resolved, resolve};
use pauseframe_scenario::results::{RunError, RunStatus};
use pauseframe_scenario::{RunCallbackDecision, RunOptions, RunResults, run};
use std::path::Path;

/// Four hosts at one switch, without handshake and without a limiting window; frames hold only payload and
/// headers of 40 bytes.
const NETWORK: &str = r#"
name = "test"
clocks = "ideal"
stop = "1 s"
[topology]
kind = "star"
hosts = 4
link = { rate = "10 Gbps", delay = "1 us" }
[host]
wire_overhead = "none"
[switch]
latency = "0 s"
[transport]
stack = "none"
preset = "newreno"
handshake = false
timestamps = false
initial_window = "10 segments"
receive_window = "100 KB"
"#;

fn problems(workloads: &str) -> Vec<String> {
    let text = format!("{NETWORK}\n{workloads}");
    let input =
        Input { text: &text, file_name: "test.toml", base_dir: Path::new("."), overrides: &[], seed: None };
    resolve(&input)
        .unwrap_err()
        .problems
        .iter()
        .map(|p| format!("{}: {} {}", p.path, p.message, p.hint))
        .collect()
}

fn resolved(workloads: &str) -> Resolved {
    resolved_text(&format!("{NETWORK}\n{workloads}"))
}

fn resolved_text(text: &str) -> Resolved {
    let input = Input { text, file_name: "test.toml", base_dir: Path::new("."), overrides: &[], seed: None };
    resolve(&input).unwrap_or_else(|error| panic!("{error}"))
}

fn packets(workloads: &str) -> RunResults {
    let resolved = resolved(workloads);
    // The resolved scenario in the results folder needs no other file.
    let again = resolved.to_toml();
    let input =
        Input { text: &again, file_name: "resolved", base_dir: Path::new("/"), overrides: &[], seed: None };
    let again = resolve(&input).unwrap_or_else(|error| panic!("{error}\nin\n{again}"));
    assert_eq!(again.scenario, resolved.scenario);
    run(&resolved, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap()
}

fn floats(table: &RecordBatch, column: &str) -> Vec<Option<f64>> {
    table.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
}

/// Compares up to a picosecond, the precision of the floats.
fn assert_near(table: &RecordBatch, column: &str, expected: &[f64]) {
    let found = floats(table, column);
    let near =
        |(found, expected): (&Option<f64>, &f64)| found.is_some_and(|found| (found - expected).abs() < 1e-6);
    let all = found.len() == expected.len() && found.iter().zip(expected).all(near);
    assert!(all, "{column}: {found:?}, expected {expected:?}");
}

fn texts(table: &RecordBatch, column: &str) -> Vec<String> {
    let column = table.column_by_name(column).unwrap().as_dictionary::<Int32Type>();
    column.downcast_dict::<StringArray>().unwrap().into_iter().flatten().map(str::to_owned).collect()
}

fn counts(table: &RecordBatch, column: &str) -> Vec<u64> {
    table.column_by_name(column).unwrap().as_primitive::<UInt64Type>().iter().flatten().collect()
}

/// A full packet of 1500 bytes is stored and forwarded once: two transmissions of 1.2 us and two links of 1
/// us.
const ONE: f64 = 2.0 * 1.2 + 2.0;

#[test]
fn a_message_between_two_ranks_takes_the_time_of_its_packets() {
    // One full packet (1460 bytes with the envelope) takes 1.2 us on each of two links of 1 us.
    let program = r#"
[[workload]]
kind = "application"
program = """
rank 0 of 2
5000 send 1 1428 7
end 0
rank 1 of 2
0 recv 0 1428 7
end 1000
"""
timeline = true
"#;
    let results = packets(program);
    let time = 5.0 + ONE + 1.0;
    assert_near(&results.jobs, "time_us", &[time]);
    assert_near(&results.ranks, "finish_us", &[5.0, time]);
    assert_near(&results.ranks, "compute_us", &[5.0, 1.0]);
    assert_near(&results.ranks, "waiting_us", &[0.0, time - 1.0]);
    // On ideal hardware: 1460 bytes at 10 Gb/s and two links, without headers and without store and forward.
    let ideal = 5.0 + 1460.0 * 0.8e-3 + 2.0 + 1.0;
    assert_near(&results.jobs, "ideal_us", &[ideal]);
    assert_near(&results.jobs, "slowdown", &[time / ideal]);
    assert_eq!(
        (counts(&results.jobs, "messages"), counts(&results.flows.batch(), "size_bytes")),
        (vec![1], vec![1460])
    );
    assert_eq!(texts(&results.timeline, "activity"), ["compute", "waiting", "compute"]);
    assert_eq!(texts(&results.timeline, "step"), ["compute", "receive from 0", "compute"]);
    assert_near(&results.timeline, "start_us", &[0.0, 0.0, time - 1.0]);
    assert_near(&results.timeline, "end_us", &[5.0, time - 1.0, time]);
    let lines = results.timeline.column_by_name("line").unwrap().as_primitive::<UInt32Type>().clone();
    assert_eq!(lines.iter().collect::<Vec<_>>(), [Some(2), Some(5), Some(6)]);
}

#[test]
fn ideal_hardware_has_the_way_between_the_ranks_that_talk() {
    // Ranks 0 and 1 are at the same leaf, two links of 1 us apart; rank 2 is at another leaf, four links
    // away, and sends nothing.
    let program = r#"
[[workload]]
kind = "application"
hosts = ["host0", "host1", "host8"]
program = """
rank 0 of 3
0 send 1 1428 7
end 0
rank 1 of 3
0 recv 0 1428 7
end 0
rank 2 of 3
end 0
"""
"#;
    let text = format!("{}\n{program}", leaves());
    let input =
        Input { text: &text, file_name: "test.toml", base_dir: Path::new("."), overrides: &[], seed: None };
    let resolved = resolve(&input).unwrap_or_else(|error| panic!("{error}"));
    let results = run(&resolved, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap();
    assert_near(&results.jobs, "ideal_us", &[1460.0 * 0.8e-3 + 2.0]);
    assert!(floats(&results.jobs, "slowdown")[0] > Some(1.0));
}

#[test]
fn a_ring_all_reduce_takes_as_many_rounds_as_its_closed_form() {
    let results = packets(
        "[[workload]]\nkind = \"application\"\npattern = \"all_reduce\"\nranks = 4\nsize = \"5712 B\"\nalgorithm = \"ring\"\n",
    );
    // The operation takes six rounds of one packet each; a packet holds a quarter of 5712 bytes and the
    // envelope. An ACK of 40 bytes may precede the packet on the link.
    let time = floats(&results.jobs, "time_us")[0].unwrap();
    assert!((6.0 * ONE..6.0 * (ONE + 0.07)).contains(&(time + 1e-6)), "{time}");
    assert_eq!(counts(&results.jobs, "messages"), [24]);
    // The job has one connection for each pair of neighbours.
    assert_eq!(results.flows.num_rows(), 4);
    assert_eq!(results.summary.flows_finished, 4);
    // Connections stay open as long as the application, so they have no completion time.
    assert_eq!(floats(&results.flows.batch(), "fct_us"), [None; 4]);
    assert_eq!(results.summary.fct_us.p99, None);
}

/// A scenario with the given links and stacks, headers of 40 bytes only, and ACKs that wait to travel with
/// data.
fn exact(topology: &str, rate: &str, delay: &str, host: &str, workload: &str) -> RunResults {
    let text = format!(
        "name = \"exact\"\nstop = \"100 ms\"\n[topology]\n{topology}\nlink = {{ rate = \"{rate}\", delay = \"{delay}\" }}\n\
         [host]\nwire_overhead = \"none\"\ntx_jitter = \"0 s\"\nwire_jitters = [{{ host = \"*\" }}]\n{host}\n[switch]\nlatency = \"0 s\"\n\
         [transport]\nstack = \"none\"\npreset = \"newreno\"\nhandshake = false\ntimestamps = false\ninitial_window = \"10 segments\"\n\
         receive_window = \"100 KB\"\ndelayed_ack_form = \"fixed\"\ndelayed_ack_segments = 1000\ndelayed_ack_timeout = \"40 ms\"\n\
         [[workload]]\n{workload}\n"
    );
    run(&resolved_text(&text), RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap()
}

/// Rank 0 sends and rank 1 answers, `rounds` times.
fn ping_pong(rounds: usize) -> String {
    let (ping, pong) = ("0 send 1 1000 7\n0 recv 1 1000 7\n", "0 recv 0 1000 7\n0 send 0 1000 7\n");
    let (ping, pong) = (ping.repeat(rounds), pong.repeat(rounds));
    format!(
        "kind = \"application\"\nprogram = \"\"\"\nrank 0 of 2\n{ping}end 0\nrank 1 of 2\n{pong}end 0\n\"\"\""
    )
}

/// A rank answers at the time at which a message arrives. A message takes the transmission time of its frame
/// of 1072 bytes on every link, the delays of the links, and the stacks.
#[test]
fn a_ping_pong_takes_the_sum_of_its_frames_links_and_stacks() {
    let star = ("kind = \"star\"\nhosts = 2", 2);
    let line = ("kind = \"line\"\nswitches = 2\nhosts_per_switch = 1", 3);
    let rounds = 50;
    for (rate, delay_us) in [(10, 1.0), (100, 0.5), (100, 0.05), (400, 0.02), (800, 0.005)] {
        for ((topology, links), (host, stacks_us)) in
            [(star, ("", 0.0)), (line, ("", 0.0)), (line, ("tx_delay = \"2 us\"\nrx_delay = \"3 us\"", 5.0))]
        {
            let results = exact(
                topology,
                &format!("{rate} Gbps"),
                &format!("{} ns", delay_us * 1e3),
                host,
                &ping_pong(rounds),
            );
            let message = f64::from(links) * (1072.0 * 8e-3 / f64::from(rate) + delay_us) + stacks_us;
            assert_near(&results.jobs, "time_us", &[message * 2.0 * rounds as f64]);
        }
    }
}

/// The host's reaction time adds to the run time for each message.
#[test]
fn the_reaction_of_a_host_is_part_of_every_answer() {
    let results =
        exact("kind = \"star\"\nhosts = 2", "100 Gbps", "500 ns", "reaction = \"700 ns\"", &ping_pong(50));
    let message = 2.0 * (1072.0 * 8e-5 + 0.5) + 0.7;
    assert_near(&results.jobs, "time_us", &[message * 100.0]);
}

/// The algorithm takes 2 (n - 1) rounds of one frame each.
#[test]
fn a_ring_of_small_messages_takes_its_closed_form() {
    for ranks in [2_u64, 4, 7] {
        let workload = format!(
            "kind = \"application\"\npattern = \"all_reduce\"\nalgorithm = \"ring\"\nranks = {ranks}\nsize = \"{} B\"",
            ranks * 600
        );
        let results = exact("kind = \"star\"\nhosts = 7", "100 Gbps", "500 ns", "", &workload);
        let message = 2.0 * ((600.0 + 32.0 + 40.0) * 8e-5 + 0.5);
        assert_near(&results.jobs, "time_us", &[2.0 * (ranks - 1) as f64 * message]);
    }
}

/// Each request leaves when the previous response has arrived.
#[test]
fn requests_on_a_kept_connection_follow_each_other_at_once() {
    let workload = "kind = \"requests\"\nclient = \"host0\"\nserver = \"host1\"\nrequest = \"500 B\"\nresponse = \"1000 B\"\n\
                    count = 20\npersistent = true";
    let results = exact("kind = \"star\"\nhosts = 2", "100 Gbps", "500 ns", "", workload);
    let exchange = 2.0 * (540.0 * 8e-5 + 0.5) + 2.0 * (1040.0 * 8e-5 + 0.5);
    let starts: Vec<f64> = (0..20).map(|number| f64::from(number) * exchange).collect();
    assert_near(&results.flows.batch(), "start_us", &starts);
    assert_near(&results.flows.batch(), "fct_us", &[exchange; 20]);
}

#[test]
fn jobs_share_the_network_and_are_compared_with_themselves_alone() {
    let job = |name: &str, hosts: &str| {
        format!(
            "[[workload]]\nname = \"{name}\"\nkind = \"application\"\npattern = \"pipeline\"\nranks = 2\nsize = \"1 MB\"\n\
             iterations = 3\nalone = true\nhosts = {hosts}\n"
        )
    };
    // Both jobs send to the same host, so they share its link.
    let results = packets(&(job("one", "[\"host0\", \"host2\"]") + &job("two", "[\"host1\", \"host2\"]")));
    let interference = floats(&results.jobs, "interference");
    assert!(interference.iter().all(|factor| (1.5..2.5).contains(&factor.unwrap())), "{interference:?}");
    let alone = floats(&results.jobs, "alone_us");
    assert_eq!(alone[0], alone[1]);
    // With separate receivers, the jobs share no link.
    let results = packets(&(job("one", "[\"host0\", \"host2\"]") + &job("two", "[\"host1\", \"host3\"]")));
    assert_eq!(floats(&results.jobs, "interference"), [Some(1.0), Some(1.0)]);
}

/// A job that sends one full packet from `from` to host2, at a time after the start.
fn one_packet(name: &str, from: &str, keys: &str) -> String {
    format!(
        "[[workload]]\nname = \"{name}\"\nkind = \"application\"\nalone = true\nhosts = [\"{from}\", \"host2\"]\n{keys}\n\
         program = \"\"\"\nrank 0 of 2\n0 send 1 1428 7\nend 0\nrank 1 of 2\n0 recv 0 1428 7\nend 0\n\"\"\"\n"
    )
}

#[test]
fn interference_is_the_time_beside_others_over_that_alone() {
    // The packets of both jobs need the link to host2. The packet of the second job arrives 0.5 us after that
    // of the first, and waits for the rest of the first packet's 1.2 us.
    let second = one_packet("second", "host1", "start = \"0.5 us\"");
    let results = packets(&(one_packet("first", "host0", "") + &second));
    assert_near(&results.jobs, "start_us", &[0.0, 0.5]);
    assert_near(&results.jobs, "alone_us", &[ONE, ONE]);
    assert_near(&results.jobs, "time_us", &[ONE, ONE + 0.7]);
    assert_near(&results.jobs, "interference", &[1.0, (ONE + 0.7) / ONE]);
    // If the link is idle again, the packet does not wait.
    let second = one_packet("second", "host1", "start = \"1.2 us\"");
    let results = packets(&(one_packet("first", "host0", "") + &second));
    assert_near(&results.jobs, "start_us", &[0.0, 1.2]);
    assert_near(&results.jobs, "finish_us", &[ONE, ONE + 1.2]);
    assert_near(&results.jobs, "interference", &[1.0, 1.0]);
}

#[test]
fn the_time_of_a_rank_that_never_finishes_goes_to_the_end_of_the_run() {
    let results = packets(
        "[[workload]]\nkind = \"application\"\ntimeline = true\nprogram = \"\"\"\nrank 0 of 2\n3000 recv any 8 1\nend 0\nrank 1 of 2\n\
         0 recv 0 8 1\nend 0\n\"\"\"\n\
         [[workload]]\nkind = \"flows\"\nflows = [{ src = \"host2\", dst = \"host3\", size = \"1 KB\", start = \"90 us\" }]\n",
    );
    let end = results.summary.sim_time_s * 1e6;
    assert!(end > 90.0, "{end}");
    assert_near(&results.ranks, "waiting_us", &[end - 3.0, end]);
    assert_near(&results.timeline, "end_us", &[3.0, end, end]);
}

/// Hosts 0 to 2, 3 to 5 and 6 to 8 are at one leaf each.
fn leaves() -> String {
    let topology = "kind = \"leaf_spine\"\nleaves = 3\nspines = 1\nhosts_per_leaf = 3\n";
    NETWORK.replace("kind = \"star\"\nhosts = 4\n", topology)
}

/// The hosts that the placement assigns to jobs on these leaves.
fn placed(jobs: &[&str], files: &[(&str, &str)], seed: u64) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let job = |keys: &&str| {
        format!("[[workload]]\nkind = \"application\"\npattern = \"pipeline\"\nsize = \"1 KB\"\n{keys}\n")
    };
    let text = leaves() + &jobs.iter().map(job).collect::<String>();
    let input = Input {
        text: &text,
        file_name: "test.toml",
        base_dir: folder.path(),
        overrides: &[],
        seed: Some(seed),
    };
    let resolved = resolve(&input).unwrap_or_else(|error| panic!("{error}"));
    let results = run(&resolved, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap();
    assert!(floats(&results.jobs, "finish_us").iter().all(Option::is_some));
    let mut jobs: Vec<(String, Vec<String>)> = Vec::new();
    for (job, host) in texts(&results.ranks, "job").into_iter().zip(texts(&results.ranks, "host")) {
        match jobs.last_mut().filter(|(name, _)| *name == job) {
            Some((_, hosts)) => hosts.push(host),
            None => jobs.push((job, vec![host])),
        }
    }
    jobs.into_iter().map(|(_, hosts)| hosts).collect()
}

fn hosts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| format!("host{number}")).collect()
}

#[test]
fn ranks_are_placed_as_asked() {
    let packed_then_in_turn = ["ranks = 4", "ranks = 4\nplacement = \"round_robin\""];
    assert_eq!(placed(&packed_then_in_turn, &[], 1), [hosts(&[0, 1, 2, 3]), hosts(&[4, 6, 5, 7])]);
    let by_file = ["ranks = 3\nhosts_file = \"hosts.txt\"", "ranks = 2"];
    let file = [("hosts.txt", "host8\nhost0\nhost4\n")];
    assert_eq!(placed(&by_file, &file, 1), [hosts(&[8, 0, 4]), hosts(&[1, 2])]);
    let several = ["ranks = 3\nranks_per_host = 2", "ranks = 2"];
    assert_eq!(
        placed(&several, &[], 1),
        [hosts(&[0, 0, 1]), hosts(&[2, 3])],
        "a host has one kind of tenant"
    );
}

#[test]
fn ranks_placed_by_lot_share_no_host_and_follow_the_seed() {
    let jobs = ["ranks = 5\nplacement = \"random\"", "ranks = 4\nplacement = \"random\""];
    let draws: Vec<Vec<Vec<String>>> = (1..=20).map(|seed| placed(&jobs, &[], seed)).collect();
    for draw in &draws {
        let mut all: Vec<String> = draw.iter().flatten().cloned().collect();
        all.sort();
        assert_eq!(all, hosts(&[0, 1, 2, 3, 4, 5, 6, 7, 8]));
    }
    assert_eq!(draws[3], placed(&jobs, &[], 4));
    // Twenty fair draws from nine hosts have fewer than five different results with a probability of 1 in
    // 10,000.
    let firsts: std::collections::BTreeSet<&String> = draws.iter().map(|draw| &draw[0][0]).collect();
    assert!(firsts.len() >= 5, "{firsts:?}");
}

/// Two ranks that each wait for the other; `from` is the sender that the first receive names.
fn waiting(from: &str) -> String {
    format!(
        "[[workload]]\nname = \"mpi\"\nkind = \"application\"\nprogram = \"\"\"\nrank 0 of 2\n0 recv {from} 8 1\nend 0\n\
         rank 1 of 2\n0 recv 0 8 1\nend 0\n\"\"\"\n"
    )
}

#[test]
fn a_trace_that_cannot_finish_is_refused_with_ranks_and_what_they_wait_for() {
    let error =
        run(&resolved(&waiting("1")), RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap_err();
    assert!(matches!(error, RunError::Refused(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "mpi: workload.0: cannot finish: 2 of 2 ranks wait for ever: program:2: rank 0: waits for a message from rank 1 with tag 1, which rank 1 never sends; \
         program:5: rank 1: waits for a message from rank 0 with tag 1, which rank 0 never sends"
    );
}

#[test]
fn a_trace_that_takes_messages_from_anybody_is_run_and_says_what_it_waited_for() {
    let results = packets(&waiting("any"));
    assert_eq!(floats(&results.jobs, "finish_us"), [None]);
    let warning = &results.summary.warnings[results.summary.warnings.len() - 1];
    let expected = "2 of 2 ranks did not finish; rank 0, line 2: waits for a message from any rank with tag 1, which no rank sends";
    assert!(warning.contains(expected), "{warning}");
}

#[test]
fn whoever_stops_while_a_job_runs_alone_is_heard_and_keeps_the_rest() {
    let job = |alone: bool| {
        resolved(&format!(
            "[[workload]]\nkind = \"application\"\npattern = \"pipeline\"\nranks = 2\nsize = \"40 MB\"\nalone = {alone}\n"
        ))
    };
    let asked = |resolved: &Resolved, most: u32| {
        let mut asked = 0;
        let results = run(resolved, RunOptions::default(), |_| {
            asked += 1;
            if asked < most { RunCallbackDecision::Continue } else { RunCallbackDecision::Stop }
        });
        (asked, results.unwrap())
    };
    let (without, _) = asked(&job(false), u32::MAX);
    let (with, all) = asked(&job(true), u32::MAX);
    assert!(with >= without + 3, "{with} {without}");
    assert_eq!(all.summary.status, RunStatus::Complete);
    assert!(floats(&all.jobs, "alone_us")[0].is_some());
    let (_, cut) = asked(&job(true), without + 2);
    assert_eq!(cut.summary.status, RunStatus::Interrupted);
    assert_eq!(floats(&cut.jobs, "alone_us"), [None]);
    assert_eq!(floats(&cut.jobs, "time_us"), floats(&all.jobs, "time_us"));
}

#[test]
fn flows_wait_for_others_and_for_their_compute_time() {
    let results = packets(
        r#"
[[workload]]
kind = "flows"
flows = [
    { src = "host0", dst = "host1", size = "1460 B", id = "a" },
    { src = "host1", dst = "host2", size = "1460 B", id = "b", after = ["a"], compute = "10 us" },
    { src = "host2", dst = "host3", size = "1460 B", after = ["a", "b"], start = "100 us" },
]
"#,
    );
    // The compute time begins when the message is delivered.
    assert_near(&results.flows.batch(), "start_us", &[0.0, ONE + 10.0, 100.0]);
}

#[test]
fn mistakes_say_what_to_do() {
    let wrong = |keys: &str| problems(&format!("[[workload]]\nkind = \"application\"\n{keys}\n")).join("\n");
    assert_eq!(wrong(""), "workload.0.trace: is required: a trace file, or pattern ");
    let pattern = "pattern = \"all_reduce\"\nranks = 4\nsize = \"1 KB\"\n";
    assert!(
        wrong(&format!("{pattern}algorithm = \"rink\""))
            .contains("it has recursive_doubling, rabenseifner, ring")
    );
    assert!(
        wrong(&format!("{pattern}algorithms = [\"alltoal = ring\"]")).contains("did you mean \"alltoall\"")
    );
    assert!(wrong(&format!("{pattern}hosts = [\"host0\"]")).contains("names 1 host for 4 ranks"));
    assert!(
        wrong("pattern = \"stencil\"\nranks = 4\nsize = \"1 KB\"\ngrid = [3, 2]")
            .contains("6 places for 4 ranks")
    );
    assert!(
        wrong("pattern = \"pipeline\"\nranks = 5\nsize = \"1 KB\"")
            .contains("no room for 5 ranks: the hosts take 4")
    );
    assert!(
        wrong("program = \"rank 0 of 1\\n0 send 3 8 1\\nend 0\"").contains("program:2: rank 0: names rank 3")
    );
    assert!(wrong("trace = \"missing.zst\"").contains("missing.zst"));
    let flows = "[[workload]]\nkind = \"flows\"\nflows = [{ src = \"host0\", dst = \"host1\", size = \"1 KB\", after = [\"x\"] }]\n";
    assert!(problems(flows).join("").contains("flows.0.after: no flow has the id \"x\" that it is after"));
}

#[test]
fn jobs_have_the_ranks_they_were_given() {
    let results = packets(
        "[[workload]]\nkind = \"application\"\npattern = \"all_to_all\"\nranks = 8\nranks_per_host = 2\nsize = \"1 KB\"\nplacement = \"random\"\n",
    );
    let ranks = results.jobs.column_by_name("ranks").unwrap().as_primitive::<UInt32Type>().value(0);
    assert_eq!((ranks, results.ranks.num_rows()), (8, 8));
    // Ranks on the same host do not use the network: 4 of the 28 pairs of ranks share a host.
    let connections =
        results.jobs.column_by_name("connections").unwrap().as_primitive::<UInt32Type>().value(0);
    assert_eq!(connections, 24);
}

/// Messages that a rank posts at one instant leave in the order of its program, not of its connections, which are open already.
#[test]
fn messages_leave_in_the_order_of_the_program() {
    let receiver = |rank: u32| format!("rank {rank} of 4\n0 recv 0 900 0\n0 recv 0 900 1\nend 0\n");
    let program = "rank 0 of 4\n0 send 1 900 0\n0 send 2 900 0\n0 send 3 900 0\n\
                   100000 isend 0 3 900 1\n0 isend 1 2 900 1\n0 isend 2 1 900 1\n0 waitall 0 1 2\nend 0\n"
        .to_owned()
        + &[1, 2, 3].map(receiver).concat();
    for queue in ["fifo", "per_flow", "per_destination"] {
        for preset in ["newreno", "roce_dcqcn"] {
            let text = NETWORK.replace("wire_overhead", &format!("nic_queue = \"{queue}\"\nwire_overhead"));
            let (network, transport) = text.split_once("[transport]").unwrap();
            let transport = if preset == "newreno" { transport } else { "\npreset = \"roce_dcqcn\"\n" };
            let job = format!("[[workload]]\nkind = \"application\"\nprogram = \"\"\"\n{program}\"\"\"\n");
            let results = run(
                &resolved_text(&format!("{network}[transport]{transport}\n{job}")),
                RunOptions::default(),
                |_| RunCallbackDecision::Continue,
            )
            .unwrap();
            let ends: Vec<f64> =
                floats(&results.ranks, "finish_us").into_iter().map(Option::unwrap).collect();
            assert!(ends[3] < ends[2] && ends[2] < ends[1], "{queue}, {preset}: {ends:?}");
        }
    }
}
