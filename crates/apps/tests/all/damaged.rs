//! Damaged traces in the text formats: truncated, reordered, mistyped. For each trace, the reader or a replay
//! on an ideal network reports file, line and reason. Some damaged files are still valid programs; the test
//! then accepts the file and states why.

use crate::common::{GOAL, PMPI, TIME_INDEPENDENT, read_bytes};
use pauseframe_apps::ideal::{self, IdealNetwork, Sharing};
use pauseframe_apps::{Application, Options};
use pauseframe_units::{BitRate, Span};
use std::sync::Arc;

const NETWORK: IdealNetwork =
    IdealNetwork { latency: Span::from_us(3), rate: BitRate::gbps(8), sharing: Sharing::Nics };

/// The error messages of the reader or of the replay on an ideal network; empty if the file is valid.
fn said(name: &str, bytes: &[u8]) -> Vec<String> {
    let application: Arc<Application> = match read_bytes(name, bytes) {
        Ok(application) => Arc::new(application),
        Err(error) => return vec![error],
    };
    let file = application.files[0].clone();
    match ideal::run(Arc::clone(&application), Options::default(), NETWORK) {
        Ok(_) => Vec::new(),
        Err(error) => {
            error.faults().iter().map(|fault| application.describe(fault).replace(&file, "FILE")).collect()
        }
    }
}

/// A sample with one text replaced.
fn replaced(sample: &str, from: &str, to: &str) -> String {
    assert!(sample.contains(from), "{from}");
    sample.replacen(from, to, 1)
}

/// A sample up to the end of a certain text.
fn up_to(sample: &str, last: &str) -> String {
    sample[..sample.rfind(last).expect("the sample has it") + last.len()].to_owned()
}

/// A sample with two lines swapped, counted from 1.
fn swapped(sample: &str, one: usize, other: usize) -> String {
    let mut lines: Vec<&str> = sample.lines().collect();
    lines.swap(one - 1, other - 1);
    lines.join("\n") + "\n"
}

fn check(format: &str, cases: &[(String, &[&str])]) {
    for (number, (text, expected)) in cases.iter().enumerate() {
        let found = said(&format!("damaged-{format}-{number}"), text.as_bytes());
        assert_eq!(found, *expected, "case {number} of {format}:\n{text}");
    }
}

const CUT: &str = " (The file ends here: it may be cut short.)";

#[test]
fn pmpi() {
    let with = |from, to| replaced(PMPI, from, to);
    let cut_number = format!("FILE:21: ends before nanoseconds{CUT}");
    let cut_totals = format!("FILE:21: ends before 'compute_ns', which ranks before have here{CUT}");
    check(
        "pmpi",
        &[
            // The file is truncated at places where the last line is still valid.
            (up_to(PMPI, "wall_ns"), &[&cut_number]),
            (up_to(PMPI, "end 0"), &[&cut_totals]),
            // Lines swapped.
            (swapped(PMPI, 17, 18), &["FILE:17: rank 2: waits for request 5, which nothing has begun"]),
            (swapped(PMPI, 5, 6), &["FILE:5: rank 0: waits for request 1, which nothing has begun"]),
            (
                swapped(PMPI, 11, 13),
                &[
                    "FILE:6: rank 0: waits with request 1 for a message from rank 2 with tag 8",
                    "FILE:11: rank 1: waits in barrier 0 on communicator 0 for a message from rank 0",
                    "FILE:18: rank 2: waits with request 5 for a message from rank 1 with tag 9",
                ],
            ),
            (swapped(PMPI, 2, 3), &["FILE:2: has 'comm' where 'rank R of N' should be"]),
            // Requests.
            (
                with("irecv 1 2", "irecv 0 2"),
                &["FILE:5: rank 0: begins request 0 again: nothing has waited for that of line 4"],
            ),
            (
                with("0 wait 5\n", "0 wait 5\n0 wait 5\n"),
                &["FILE:19: rank 2: waits for request 5 again: line 18 has done so"],
            ),
            (with("0 wait 5\n", ""), &["FILE:17: rank 2: begins request 5, for which nothing waits"]),
            // Numbers.
            (with("recv 0 4000 7", "recv 0 -4000 7"), &["FILE:11: a size in bytes cannot be '-4000'"]),
            (with("send 2 500 9", "send 2 500 -9"), &["FILE:12: a tag cannot be '-9'"]),
            (with("send 2 500 9", "send -2 500 9"), &["FILE:12: a rank cannot be '-2'"]),
            (
                with("send 2 500 9", "send 2 18446744073709551615 9"),
                &["FILE:12: rank 1: has 18446744073709551615 bytes; at most 1000000000000"],
            ),
            (
                with("10000 send", "18446744073709551615 send"),
                &["FILE:12: rank 1: computes for 18446744.073709551615 s; at most 1000000 s"],
            ),
            (
                with("rank 0 of 3", "rank 0 of 4000000000"),
                &["FILE:2: tells of 4000000000 ranks; at most 1048576"],
            ),
            // Communicators.
            (
                with("comm 0 3 all\n", "comm 0 3 all\ncomm 0 3 all\n"),
                &["FILE:4: defines communicator 0 for the second time"],
            ),
            (with("comm 0 3 all", "comm 0 3 0 1 1"), &["FILE:3: lists a member twice"]),
            // The trace contains one message too many.
            (
                with("10000 send 2 500 9\n", "10000 send 2 500 9\n0 send 2 500 9\n"),
                &["FILE:21: rank 2: no receive takes the message of 500 bytes from rank 1 with tag 9"],
            ),
        ],
    );
    // Rank 1 sends before it receives: both messages are small, so no rank waits for a receive. The file is a
    // different valid program.
    assert!(said("pmpi-other", swapped(PMPI, 11, 12).as_bytes()).is_empty());
    // The order of the ranks in the file does not matter.
    let third = PMPI.find("rank 2").expect("it is in the sample");
    let second = PMPI.find("rank 1").expect("it is in the sample");
    let turned = format!("{}{}{}", &PMPI[..second], &PMPI[third..], &PMPI[second..third]);
    assert!(said("pmpi-turned", turned.as_bytes()).is_empty());
}

#[test]
fn goal() {
    let with = |from, to| replaced(GOAL, from, to);
    let cut = format!("FILE:17: should be 'send SIZEb to RANK'{CUT}");
    check(
        "goal",
        &[
            (up_to(GOAL, "b: send 500b t"), &[&cut]),
            (with("}\nrank 1", "rank 1"), &["FILE:14: begins a rank before rank 0 has its '}'"]),
            (with("rank 1 {", "/* rank 1 {"), &["FILE: has no rank 1: it is cut short"]),
            (
                swapped(GOAL, 4, 15),
                &[
                    "FILE:16: rank 0: waits for a message from rank 0 with tag 4, which rank 0 never sends: what it gets from there has tag 5",
                    "FILE:9: rank 1: waits for a message from rank 1 with tag 5, which rank 1 never sends: what it gets from there has tag 4",
                ],
            ),
            (with("num_ranks 2", "num_ranks 3"), &["FILE: has no rank 2: it is cut short"]),
            (with("num_ranks 2", "num_ranks 1"), &["FILE:15: is rank 1; 'num_ranks' says 1"]),
            (
                with("num_ranks 2", "num_ranks 99999999999"),
                &["FILE:1: tells of 99999999999 ranks; at most 1048576"],
            ),
            (with("calc 1000", "calc fast"), &["FILE:5: nanoseconds cannot be 'fast'"]),
            (
                with("calc 1000", "calc 18446744073709551615"),
                &["FILE:5: rank 0: computes for 18446744.073709551615 s; at most 1000000 s"],
            ),
            (with("send 500b", "send -500b"), &["FILE:17: a size in bytes cannot be '-500'"]),
            (with("to 1 tag 4", "to 7 tag 4"), &["FILE:7: rank 0: names rank 7; there are ranks 0 to 1"]),
            (with("to 1 tag 4", "to 1 tag -4"), &["FILE:7: a tag cannot be '-4'"]),
            (with("b requires a", "b requires c"), &["FILE:18: names label c, which rank 1 has not"]),
            (
                with("from 0 tag 4", "from 0 tag 5"),
                &[
                    "FILE:9: rank 0: waits for a message from rank 1 with tag 5",
                    "FILE:16: rank 1: waits for a message from rank 0 with tag 5, which rank 0 never sends: what it gets from there has tag 4",
                ],
            ),
        ],
    );
    // Steps run by their dependences, not by their position in the file.
    assert!(said("goal-turned", swapped(GOAL, 5, 9).as_bytes()).is_empty());
    // Rank 1 now sends before it receives, so that its send no longer depends on the receive.
    assert!(said("goal-other", replaced(GOAL, "b requires a", "a requires b").as_bytes()).is_empty());
}

#[test]
fn simgrid() {
    let with = |from, to| replaced(TIME_INDEPENDENT, from, to);
    let without = |rank: &str| -> String {
        let others = TIME_INDEPENDENT.lines().filter(|line| !line.starts_with(rank));
        others.collect::<Vec<_>>().join("\n") + "\n"
    };
    let cut = format!("FILE:14: has 1 arguments; reduce needs 2{CUT}");
    let nothing_began = "FILE:7: waits for a message from 0 to 1 with tag 3, which no isend or irecv began";
    check(
        "simgrid",
        &[
            (up_to(TIME_INDEPENDENT, "1 reduce 10"), &[&cut]),
            (swapped(TIME_INDEPENDENT, 7, 9), &[nothing_began]),
            (swapped(TIME_INDEPENDENT, 13, 15), &["FILE:15: is an action of rank 0 after its 'finalize'"]),
            (with("1 init", "0 init"), &["FILE:2: begins rank 0 for the second time"]),
            (with("recv -1 -1 0", "recv -3 -1 0"), &["FILE:11: a rank cannot be '-3'"]),
            (with("recv -1 -1 0", "recv 99999999999 -1 0"), &["FILE:11: a rank cannot be '99999999999'"]),
            (with("recv -1 -1 0", "recv -1 -7 0"), &["FILE:11: a tag cannot be '-7'"]),
            (with("send 2 4 500 1", "send 2 -444 500 1"), &["FILE:6: a tag cannot be '-444'"]),
            (with("send 2 4 500 1", "send 2 4 500 77"), &["FILE:6: knows no data type 77"]),
            (
                with("send 2 4 500 1", "send 9 4 500 1"),
                &["FILE:6: rank 0: names rank 9; there are ranks 0 to 2"],
            ),
            (
                with("isend 1 3 1000", "isend 1 3 9e17"),
                &["FILE:5: rank 0: has 900000000000000000 bytes; at most 1000000000000"],
            ),
            (with("reduce 100 2e3", "reduce 100 2e3 0 1 5"), &["FILE:12: has '5' where it should end"]),
            (
                with("0 reduce 100 0", "0 reduce 100 0 7"),
                &["FILE:13: rank 0: names rank 7; there are ranks 0 to 2"],
            ),
            (without("1 "), &["FILE: has a rank 2 and no rank 1"]),
        ],
    );
    let waits = said("ti-stuck", with("irecv 0 3", "irecv 0 4").replace("0 1 3", "0 1 4").as_bytes());
    assert_eq!(
        waits[1],
        "FILE:9: rank 1: waits with request 0 for a message from rank 0 with tag 4, which rank 0 never sends: what it gets from there has tag 3"
    );
    // Each line contains one action of one rank; the order of lines of different ranks does not matter.
    assert!(said("ti-turned", swapped(TIME_INDEPENDENT, 4, 7).as_bytes()).is_empty());
    // A receive that only a test checks is complete at the latest when MPI_Finalize returns.
    assert!(said("ti-tested", with("1 wait 0 1 3\n", "").as_bytes()).is_empty());
}

#[test]
fn what_is_empty_or_no_text() {
    let mut bytes = PMPI.as_bytes().to_vec();
    let twelfth = PMPI.find("10000 send").expect("it is in the sample");
    bytes[twelfth] = 0xff;
    assert_eq!(said("binary-line", &bytes), ["FILE:12: is not text"]);
    let none = "FILE: is none of these: pmpi, simgrid, goal, chakra; name its format with the key format";
    assert_eq!(said("binary", &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0]), [none]);
    for nothing in ["", "\n\n"] {
        assert_eq!(said("nothing", nothing.as_bytes()), ["FILE: is empty"]);
    }
    let mut packed = zstd::encode_all(PMPI.as_bytes(), 3).expect("it can be packed");
    let middle = packed.len() / 2;
    packed.truncate(middle);
    assert!(said("cut.zst", &packed)[0].starts_with("FILE: cannot be unpacked: "));
    packed[4..].fill(0xaa);
    assert!(said("broken.zst", &packed)[0].starts_with("FILE: cannot be unpacked: "));
}
