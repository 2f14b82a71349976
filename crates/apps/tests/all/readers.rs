//! Reads traces in all formats: compares them with results computed by hand, and checks the messages for
//! invalid traces.

use crate::common::{File, GOAL, PMPI, TIME_INDEPENDENT, read_bytes};
use pauseframe_apps::ideal::{self, IdealNetwork, ReplayError, Sharing};
use pauseframe_apps::read::{Format, ReadOptions, read};
use pauseframe_apps::{Application, Op, Options, critical_path};
use pauseframe_units::{BitRate, Span, Time};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

const NETWORK: IdealNetwork =
    IdealNetwork { latency: Span::from_us(3), rate: BitRate::gbps(8), sharing: Sharing::Nothing };

fn read_text(name: &str, text: &str) -> Result<Application, String> {
    read_bytes(name, text.as_bytes())
}

/// Microseconds until the end of a replay; a byte takes a nanosecond.
fn time_of(application: Application) -> f64 {
    let options = Options { envelope: 0, ..Options::default() };
    let path = critical_path(&application, &options, NETWORK).map(|path| path.length);
    let replay = ideal::run(Arc::new(application), options, NETWORK).expect("the trace can be replayed");
    let end = replay.finish().expect("every rank ends") - Time::ZERO;
    if let Ok(path) = path {
        assert_eq!(path, end, "the critical path");
    }
    end.as_us_f64()
}

#[test]
fn pmpi() {
    // Rank 1 has its message at 2 + 3 + 1 us and sends at 16 us; rank 2 receives at 19.5 us and sends at 20.5
    // us; rank 0 receives at 23.6 us. The barrier takes two rounds after the last rank, and rank 0 computes
    // for another 0.25 us.
    let expected = 23.6 + 2.0 * 3.0 + 0.25;
    assert!((time_of(read_text("pmpi.txt", PMPI).unwrap()) - expected).abs() < 1e-9);
}

#[test]
fn pmpi_mistakes() {
    let wrong = |change: &dyn Fn(&str) -> String| read_text("pmpi-wrong.txt", &change(PMPI)).unwrap_err();
    let replaced = |from: &str, to: &str| wrong(&|text| text.replacen(from, to, 1));
    assert_eq!(
        wrong(&|text| text[..text.find("0 barrier 0\nend 0 compute_ns 1000 ").unwrap()].to_owned()),
        "FILE:19: ends within rank 2, which has no 'end' line: it is cut short"
    );
    assert_eq!(
        wrong(&|text| text[..text.len() - 57].to_owned()),
        "FILE:20: knows no operation 'barri'; did you mean 'barrier'? (The file ends here: it may be cut short.)"
    );
    assert_eq!(
        wrong(&|text| text[..text.find("rank 2").unwrap()].to_owned()),
        "FILE: has no rank 2: it is cut short"
    );
    assert_eq!(replaced("recv 0 4000 7", "recv 0 4000"), "FILE:11: ends before a tag");
    assert_eq!(replaced("recv 0 4000 7", "recv 0 4k 7"), "FILE:11: a size in bytes cannot be '4k'");
    assert_eq!(
        replaced("recv 0 4000 7", "receive 0 4000 7"),
        "FILE:11: knows no operation 'receive'; did you mean 'recv'?"
    );
    assert_eq!(replaced("recv 0 4000 7", "recv 0 4000 7 1"), "FILE:11: has '1' where it should end");
    assert_eq!(
        replaced("recv 0 4000 7", "recv 3 4000 7"),
        "FILE:11: rank 1: names rank 3; there are ranks 0 to 2"
    );
    assert_eq!(replaced("rank 2 of 3", "rank 1 of 3"), "FILE:15: begins rank 1 for the second time");
    assert_eq!(replaced("rank 2 of 3", "rank 2 of 4"), "FILE:15: is rank 2 of 4 in a trace of 3 ranks");
    assert_eq!(
        replaced("0 wait 5", "0 wait 6"),
        "FILE:18: rank 2: waits for request 6, which nothing has begun"
    );
    assert_eq!(
        replaced("0 barrier 0", "0 barrier 4"),
        "FILE:7: names communicator 4, which no 'comm' line defines"
    );
    assert_eq!(
        replaced("0 barrier 0", "0 bcast 0 0 8"),
        "FILE:13: rank 1: collective operation 0 on communicator 0 is barrier of 0 B here and bcast of 8 B, root 0 on rank 0"
    );
    assert_eq!(
        replaced("0 barrier 0\nend", "end"),
        "FILE:12: rank 1: calls 1 collective operations on communicator 0, rank 0 calls 0"
    );
    assert_eq!(
        wrong(&|text| text.replace("rank 0 of 3\n", "")),
        "FILE:2: has 'comm' where 'rank R of N' should be"
    );
}

#[test]
fn a_trace_that_cannot_finish_says_who_waits_for_what() {
    let text = PMPI.replace("10000 send 2 500 9", "10000 send 2 500 10");
    let application = Arc::new(read_text("pmpi-stuck.txt", &text).unwrap());
    let error = ideal::run(Arc::clone(&application), Options::default(), NETWORK).unwrap_err();
    let ReplayError::Stuck { stuck, ranks: 3, .. } = &error else { panic!("{error}") };
    let told: Vec<String> = stuck.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "rank 0, line 6: waits with request 1 for a message from rank 2 with tag 8",
            "rank 1, line 13: waits in barrier 0 on communicator 0 for a message from rank 0",
            "rank 2, line 18: waits with request 5 for a message from rank 1 with tag 9, which rank 1 never sends: what it gets from there has tag 10",
        ]
    );
    // Two large sends before their receives: neither send can complete, so both ranks wait.
    let text = "rank 0 of 2\n0 send 1 100000 0\n0 recv 1 100000 0\nend 0\nrank 1 of 2\n0 send 0 100000 0\n0 recv 0 100000 0\nend 0\n";
    let application = Arc::new(read_text("pmpi-rendezvous.txt", text).unwrap());
    let error = ideal::run(Arc::clone(&application), Options::default(), NETWORK).unwrap_err().to_string();
    assert!(error.contains("2 of 2 ranks wait for ever"), "{error}");
    assert!(error.contains("rank 0, line 2: waits for rank 1 to receive 100000 bytes"), "{error}");
    let options = Options { eager_limit: 100_000, ..Options::default() };
    assert!(ideal::run(application, options, NETWORK).is_ok());
}

#[test]
fn a_message_longer_than_its_buffer_is_an_error() {
    let text = PMPI.replace("recv 0 4000 7", "recv 0 400 7");
    let error = ideal::run(Arc::new(read_text("pmpi-long.txt", &text).unwrap()), Options::default(), NETWORK);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("rank 1, line 11: the message has 1000 bytes and the receive takes 400"),
        "{error}"
    );
}

#[test]
fn packed_files_are_read_as_they_are() {
    let plain = read_text("pmpi-plain.txt", PMPI).unwrap();
    let zstd = File::new("pmpi.txt.zst", &zstd::encode_all(PMPI.as_bytes(), 3).unwrap());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(PMPI.as_bytes()).unwrap();
    let gzip = File::new("pmpi.txt.gz", &encoder.finish().unwrap());
    for file in [&zstd, &gzip] {
        let application = read(&file.0, None, ReadOptions::default()).unwrap();
        assert_eq!(application.programs, plain.programs);
    }
    let mut cut = zstd::encode_all(PMPI.as_bytes(), 3).unwrap();
    cut.truncate(cut.len() / 2);
    let cut = File::new("pmpi-cut.txt.zst", &cut);
    let error = read(&cut.0, None, ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("cannot be unpacked"), "{error}");
}

/// NPB IS and FT, class S: every operation of the file is a step, and the replay takes the time of the
/// critical path.
#[test]
fn benchmarks_of_the_repository() {
    for (name, collectives) in [("is.S.16", 16 * (33 + 1 + 2)), ("ft.S.16", 16 * (8 + 1 + 5 + 6 + 2))] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.txt.zst"));
        let application = read(&path, None, ReadOptions::default()).unwrap();
        assert_eq!((application.name.as_str(), application.ranks()), (name, 16));
        let is_collective = |op: &&Op| matches!(op, Op::Collective { .. });
        let all = application.programs.iter().flat_map(|program| &program.ops);
        assert_eq!(all.filter(is_collective).count(), collectives);
        let path = critical_path(&application, &Options::default(), NETWORK).unwrap();
        let replay = ideal::run(Arc::new(application), Options::default(), NETWORK).unwrap();
        assert_eq!(replay.finish(), Some(Time::ZERO + path.length));
        assert_eq!(path.length, path.compute + path.network);
    }
}

#[test]
fn goal() {
    // The message arrives after 1 + 3 + 1 = 5 us, the answer after 5 + 3.5 us; the last step takes 0.1 us and
    // waits for the first step of cpu 1.
    let application = read_text("a.goal", GOAL).unwrap();
    assert!((time_of(application) - 8.6).abs() < 1e-9);
    let slow = GOAL.replace("calc 3000", "calc 8000");
    assert!((time_of(read_text("b.goal", &slow).unwrap()) - 8.7).abs() < 1e-9);
}

#[test]
fn goal_mistakes() {
    let wrong = |from: &str, to: &str| read_text("wrong.goal", &GOAL.replacen(from, to, 1)).unwrap_err();
    assert_eq!(
        wrong("b requires a\n}\n", ""),
        "FILE:17: ends within rank 1, which has no '}': it is cut short"
    );
    assert_eq!(wrong("l3 requires l1", "l3 requires l9"), "FILE:8: names label l9, which rank 0 has not");
    assert_eq!(wrong("l2: calc", "l1: calc"), "FILE:6: gives label l1 for the second time");
    assert_eq!(wrong("recv 1000b from", "recv 1000b to"), "FILE:16: should be 'recv SIZEb from RANK'");
    assert_eq!(wrong("send 1000b", "sent 1000b"), "FILE:7: knows no operation 'sent'; did you mean 'send'?");
    assert_eq!(wrong("rank 1 {", "rank 2 {"), "FILE:15: is rank 2; 'num_ranks' says 2");
    assert_eq!(wrong("num_ranks 2\n", ""), "FILE:3: is rank 0; 'num_ranks' says 0");
    let cycle = wrong("l1: calc 1000\n", "l1: calc 1000\nl1 requires l3\n");
    assert_eq!(cycle, "FILE:5: rank 0: depends on itself: line 5 needs line 8 needs line 5");
}

#[test]
fn simgrid() {
    // Rank 1 has its message at 5 + 3 + 1 us, rank 2 has 500 integers at 5 + 3 + 2 us. Then the tree follows:
    // rank 2 reaches rank 0 in 3.1 us; rank 2 computes for 2 us after its send.
    let application = read_text("ti.txt", TIME_INDEPENDENT).unwrap();
    assert_eq!(application.notes, ["computation counts flops; a rank does 1e9 a second"]);
    assert!((time_of(application) - 13.1).abs() < 1e-9);
    // In a folder, each rank has a separate file.
    let folder = std::env::temp_dir().join(format!("pauseframe-apps-{}-ti", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for rank in 0..3 {
        let lines = TIME_INDEPENDENT.lines().filter(|line| line.starts_with(&rank.to_string()));
        let text = lines.collect::<Vec<_>>().join("\n");
        std::fs::write(folder.join(format!("trace{rank}.txt")), text).unwrap();
    }
    let application = read(&folder, Some(Format::SimGrid), ReadOptions { flops: 2e9 }).unwrap();
    assert!((time_of(application) - 10.6).abs() < 1e-9);
    std::fs::remove_file(folder.join("trace1.txt")).unwrap();
    let error = read(&folder, None, ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with("trace2.txt: is for rank 2, and there is no file for rank 1 beside it"),
        "{error}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

/// Names with capitals, no tags, and a wait for the request that began last, as before `SimGrid` 3.20.
#[test]
fn old_simgrid() {
    let old = "0 init\n1 init\n0 compute 5e3\n0 Isend 1 1000\n0 wait\n1 Irecv 0 1000\n1 wait\n0 allReduce 8 0\n1 allReduce 8 0\n\
               0 finalize\n1 finalize\n";
    let new = "0 init\n1 init\n0 compute 5e3\n0 isend 1 0 1000\n0 wait 0 1 0\n1 irecv 0 0 1000\n1 wait 0 1 0\n\
               0 allreduce 8 0\n1 allreduce 8 0\n0 finalize\n1 finalize\n";
    let [old, new] = [old, new].map(|text| read_text("ti-old.txt", text).unwrap());
    assert_eq!(old.programs, new.programs);
    let error = read_text("ti-old.txt", "0 init\n0 waitAll\n0 wait\n0 finalize\n").unwrap_err();
    assert_eq!(error, "FILE:3: waits, but no isend or irecv is open");
}

#[test]
fn simgrid_mistakes() {
    let wrong = |from: &str, to: &str| {
        read_text("ti-wrong.txt", &TIME_INDEPENDENT.replacen(from, to, 1)).unwrap_err()
    };
    assert_eq!(wrong("1 finalize\n", ""), "FILE: has no 'finalize' of rank 1: it is cut short");
    assert_eq!(wrong("0 init\n", ""), "FILE:3: is an action of rank 0 before its 'init'");
    assert_eq!(wrong("0 compute 5e3", "0 compute much"), "FILE:4: flops cannot be 'much'");
    assert_eq!(
        wrong("0 compute 5e3", "0 computer 5e3"),
        "FILE:4: knows no action 'computer'; did you mean 'compute'?"
    );
    assert_eq!(wrong("isend 1 3 1000", "isend 1 3 -8"), "FILE:5: a size cannot be '-8'");
    assert_eq!(
        wrong("wait 0 1 3", "wait 0 1 4"),
        "FILE:9: waits for a message from 0 to 1 with tag 4, which no isend or irecv began"
    );
    assert_eq!(wrong("0 reduce 100 0", "0 alltoallv 9 1"), "FILE:13: has 2 arguments; 3 ranks need 4");
    assert_eq!(wrong("0 waitall", "zero waitall"), "FILE:10: a rank cannot be 'zero'");
}

#[test]
fn what_is_no_trace_is_not_taken_for_one() {
    let error = read_text("notes.txt", "hello\n").unwrap_err();
    assert_eq!(
        error,
        "FILE: is none of these: pmpi, simgrid, goal, chakra; name its format with the key format"
    );
}
