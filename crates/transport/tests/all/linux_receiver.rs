//! The receiver with the settings of Linux against Linux 6.1.192 itself: every ACK of the first milliseconds of a flow,
//! its moment, what it acknowledges and its window, from a reference run (1 Gb/s, RTT 600 us, timestamps, MSS 1448).
//!
//! `data/linux_6_1_receiver.csv` was made from the trace of the ACKs at the sender: the packets that an ACK covers came
//! 12.112 us apart (the bottleneck's rate), the last of them when the ACK left. Of a full segment with PSH (Linux sets it
//! once half the largest window was written) the trace shows only that it is acknowledged alone: such are marked.

use crate::common::config;
use pauseframe_transport::*;
use pauseframe_units::{Span, Time};
use std::sync::Arc;

const MSS: u32 = 1448;

fn linux(max: u32) -> TcpConfig {
    TcpConfig {
        mss: MSS,
        timestamps: true,
        sack: true,
        handshake: true,
        delayed_ack: DelayedAckConfig { segments: 2, timeout: Span::from_ms(40) },
        delayed_ack_form: DelayedAckForm::Linux,
        receive_buffer: ReceiveBuffer::Linux,
        receive_buffer_max: max,
        rto: RtoConfig {
            initial: Span::from_secs(1),
            min: Span::from_ms(200),
            granularity: Span::from_ms(1),
            form: RtoForm::Linux,
            wheel: true,
            ..config().rto
        },
        ..config()
    }
}

fn ns(n: u64) -> Time {
    Time(n * 1000)
}

/// A receiver that had a SYN and the end of the handshake at these times; and the window of its SYN-ACK.
fn receiver(config: TcpConfig, [syn_at, established_at]: [Time; 2]) -> (Connection, u32) {
    let ecn = config.ecn;
    let mut connection = Connection::accept(Arc::new(config), 0, 0);
    let options = TcpOptions::Syn(SynOptions { mss: 1460, sack: true, timestamps: true, window_scale: 7 });
    let setup = TcpFlags::SYN.with(TcpFlags::ECE).with(TcpFlags::CWR);
    let flags = if ecn == EcnMode::Off { TcpFlags::SYN } else { setup };
    let syn = Segment { flags, window: 64_240, options, ..Segment::default() };
    connection.on_segment(&syn, EcnCodepoint::NotEct, syn_at);
    let (syn_ack, _) = connection.poll_transmit(syn_at).expect("a SYN-ACK");
    let ack = Segment { seq: 1, ack: 1, flags: TcpFlags::ACK, window: 64_256, ..Segment::default() };
    connection.on_segment(&ack, EcnCodepoint::NotEct, established_at);
    assert!(connection.is_established() && connection.poll_transmit(established_at).is_none());
    (connection, syn_ack.window)
}

/// One line of the table.
enum Row {
    Data { at: Time, echo: u32, push: bool },
    Ack { at: Time, segments: u32, window: u32 },
}

fn rows() -> Vec<Row> {
    let text = include_str!("../data/linux_6_1_receiver.csv");
    let read = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        let number = |i: usize| words[i].parse::<u64>().expect("a number");
        match words[0] {
            "data" => {
                let echo = (number(2) / 1000) as u32 + 1;
                Row::Data { at: ns(number(1)), echo, push: words.get(3) == Some(&"push") }
            }
            "ack" => Row::Ack { at: ns(number(1)), segments: number(2) as u32, window: number(3) as u32 },
            word => panic!("{word}"),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(read).collect()
}

#[test]
fn every_ack_and_window_is_that_of_the_kernel() {
    let (mut connection, syn_window) = receiver(linux(6 << 20), [10_300_000, 10_900_000].map(ns));
    assert_eq!(syn_window, 65_160);
    let (mut sent, mut ours) = (0, Vec::new());
    for row in rows() {
        match row {
            Row::Data { at, echo, push } => {
                let flags = if push { TcpFlags::ACK.with(TcpFlags::PSH) } else { TcpFlags::ACK };
                let stamps = Timestamps { value: (at.0 / 1_000_000_000) as u32 + 1, echo };
                let segment = Segment {
                    seq: 1 + sent * MSS,
                    ack: 1,
                    len: MSS,
                    window: 64_256,
                    flags,
                    stamps,
                    ..Segment::default()
                };
                sent += 1;
                connection.on_segment(&segment, EcnCodepoint::NotEct, at);
                while let Some((ack, _)) = connection.poll_transmit(at) {
                    ours.push((at, (ack.ack - 1) / MSS, ack.window));
                }
            }
            Row::Ack { at, segments, window } => {
                assert!(!ours.is_empty(), "at {at:?}: the kernel acknowledged {segments} segments");
                assert_eq!(ours.remove(0), (at, segments, window), "time, segments, window");
            }
        }
    }
    assert_eq!(sent, 911);
    assert!(ours.is_empty());
}

/// Replays what reached a receiver at 10 Gb/s, and compares its ACKs: moment, what they acknowledge, window, ECE.
fn compare_acks(table: &str, ecn: EcnMode) -> usize {
    let config = TcpConfig { ecn, ..linux(6 << 20) };
    let (mut connection, _) = receiver(config, [1_049_101, 1_147_296].map(ns));
    // Of the receiver at the SYN; both clocks count from there.
    let clock = 2;
    let (mut ours, mut compared) = (Vec::new(), 0);
    let poll = |connection: &mut Connection, at: Time, ours: &mut Vec<_>| {
        while let Some((ack, _)) = connection.poll_transmit(at) {
            ours.push((at, ack.ack - 1, ack.window, ack.flags.contains(TcpFlags::ECE)));
        }
    };
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(',').collect();
        let number = |i: usize| words[i].parse::<u32>().expect("a number");
        let at = ns(u64::from(number(1)));
        while let Some(timer) = connection.deadline().filter(|timer| *timer < at) {
            connection.on_timeout(timer);
            poll(&mut connection, timer, &mut ours);
        }
        if words[0] == "data" {
            let has = |letter| words[6].contains(letter);
            let marks = [('P', TcpFlags::PSH), ('W', TcpFlags::CWR)];
            let flags =
                marks.iter().filter(|mark| has(mark.0)).fold(TcpFlags::ACK, |all, mark| all.with(mark.1));
            let codepoint = match (has('C'), has('T')) {
                (true, _) => EcnCodepoint::Ce,
                (_, true) => EcnCodepoint::Ect0,
                _ => EcnCodepoint::NotEct,
            };
            let stamps = Timestamps { value: number(4) + clock, echo: number(5) + clock };
            let (seq, len) = (1 + number(2), number(3));
            let segment = Segment { seq, ack: 1, len, window: 64_256, flags, stamps, ..Segment::default() };
            connection.on_segment(&segment, codepoint, at);
            poll(&mut connection, at, &mut ours);
            continue;
        }
        assert!(!ours.is_empty(), "no ACK here for {line}, after {compared}");
        let (time, bytes, window, ece) = ours.remove(0);
        assert!(
            time.saturating_since(at).max(at.saturating_since(time)) <= Span::from_ns(2),
            "{time:?}: {line}"
        );
        assert_eq!((bytes, window, ece), (number(2), number(3), words[4] == "E"), "{line}, after {compared}");
        compared += 1;
    }
    assert!(ours.is_empty());
    compared
}

/// Above a gap the window grows and its ACKs leave at once, until the window has grown as far as it can; then ACKs are
/// compressed.
#[test]
fn data_above_a_gap_open_the_window_as_in_the_kernel() {
    assert_eq!(compare_acks(include_str!("../data/linux_6_1_gap.csv"), EcnMode::Off), 345);
}

/// The first CE after a CWR brings two quick ACKs, and a CWR one.
#[test]
fn marks_bring_quick_acks_as_in_the_kernel() {
    assert_eq!(compare_acks(include_str!("../data/linux_6_1_ecn.csv"), EcnMode::Classic), 520);
}

/// The SYN announces whole segments without timestamps, 44 times 1460 bytes, and the next ACK rounds its window up to what
/// the shift can write (`tcp_connect_init`, `tcp_select_window`); Linux 6.1.192 announces the same.
#[test]
fn an_active_open_announces_whole_segments_without_timestamps() {
    let mut connection = Connection::open(Arc::new(linux(6 << 20)), 0, 0, ns(0));
    let (syn, _) = connection.poll_transmit(ns(0)).expect("a SYN");
    assert_eq!(syn.window, 64_240);
    let options = TcpOptions::Syn(SynOptions { mss: 1460, sack: true, timestamps: true, window_scale: 7 });
    let flags = TcpFlags::SYN.with(TcpFlags::ACK);
    let syn_ack = Segment { flags, ack: syn.seq + 1, window: 65_160, options, ..Segment::default() };
    connection.on_segment(&syn_ack, EcnCodepoint::NotEct, ns(1000));
    let (ack, _) = connection.poll_transmit(ns(1000)).expect("an ACK");
    assert_eq!(ack.window, 64_256);
}

/// Without SACK a sender counts an ACK as duplicate only while its window stays: data above a gap do not open it
/// (`tcp_data_queue_ofo`), and a second copy of them never does.
#[test]
fn without_sack_the_window_stays_above_a_gap() {
    let windows = |sack: bool, seqs: [u32; 4]| {
        let config = TcpConfig { sack, receive_buffer_initial: 1 << 20, ..linux(6 << 20) };
        let (mut connection, _) = receiver(config, [10_300_000, 10_900_000].map(ns));
        seqs.map(|segment| {
            let segment = Segment {
                seq: 1 + segment * MSS,
                ack: 1,
                len: MSS,
                window: 64_256,
                flags: TcpFlags::ACK,
                stamps: Timestamps { value: 12, echo: 11 },
                ..Segment::default()
            };
            connection.on_segment(&segment, EcnCodepoint::NotEct, ns(11_000_000));
            connection.poll_transmit(ns(11_000_000)).expect("an ACK").0.window
        })
    };
    // Each segment that counts adds two.
    let after = |steps: u32| (65_535 + 2 * MSS * steps).next_multiple_of(128);
    assert_eq!(windows(false, [0, 2, 3, 4]), [after(1); 4]);
    assert_eq!(windows(true, [0, 2, 3, 4]), [1, 2, 3, 4].map(after));
    assert_eq!(windows(true, [0, 2, 2, 3]), [1, 2, 2, 3].map(after));
}

/// A receiver that compresses reports of a gap; its window cannot grow at 11 ms.
fn compressing(config: &TcpConfig) -> Connection {
    let config = TcpConfig { sack_compression: true, dsack: true, ..config.clone() };
    receiver(config, [10_300_000, 10_900_000].map(ns)).0
}

/// Gives it a segment at 11 ms, and returns what it answers at once.
fn give(connection: &mut Connection, number: u32, flags: TcpFlags) -> Option<Segment> {
    let flags = flags.with(TcpFlags::ACK);
    let stamps = Timestamps { value: 12, echo: 11 };
    let seq = 1 + number * MSS;
    let segment = Segment { seq, ack: 1, len: MSS, window: 64_256, flags, stamps, ..Segment::default() };
    connection.on_segment(&segment, EcnCodepoint::Ect0, ns(11_000_000));
    connection.poll_transmit(ns(11_000_000)).map(|sent| sent.0)
}

/// Three reports of a gap leave at once, the fourth waits, and one that CWR demands does not (`tcp_ecn_accept_cwr`).
#[test]
fn an_ack_that_cwr_demands_is_not_compressed() {
    let mut connection = compressing(&TcpConfig { quick_acks: 0, ecn: EcnMode::Classic, ..linux(6 << 20) });
    let mut answers = |number, flags| give(&mut connection, number, flags).is_some();
    answers(0, TcpFlags(0));
    assert_eq!([2, 3, 4, 5].map(|number| answers(number, TcpFlags(0))), [true, true, true, false]);
    assert!(answers(6, TcpFlags::CWR));
}

/// What compression held back of a second copy is forgotten with the next segment (`tcp_data_queue`).
#[test]
fn a_held_report_of_a_second_copy_is_forgotten() {
    for (last, has_duplicate) in [(2, true), (5, false)] {
        let mut connection = compressing(&TcpConfig { quick_acks: 0, ..linux(6 << 20) });
        for number in [0, 2, 3, 4, 2, last] {
            give(&mut connection, number, TcpFlags(0));
        }
        let timer = connection.deadline().expect("a held ACK");
        connection.on_timeout(timer);
        let (ack, _) = connection.poll_transmit(timer).expect("it leaves");
        let TcpOptions::Sack(sack) = ack.options else { panic!("no SACK") };
        assert_eq!(sack.blocks[0].1 - sack.blocks[0].0 == MSS, has_duplicate, "{last}");
    }
}

/// What waits for the end of a NIC poll has been received, but for what had come before.
#[test]
fn bytes_that_gro_holds_count_once() {
    let offload = OffloadConfig { gro: Span::from_us(10), ..OffloadConfig::NONE };
    let config = TcpConfig { offload, ..linux(6 << 20) };
    let (mut connection, _) = receiver(config, [10_300_000, 10_900_000].map(ns));
    // The third is a second copy, the fourth lies above a gap, as does its copy; the last fills the gap.
    for (number, received) in [(0, 1), (1, 2), (0, 2), (3, 3), (3, 3), (2, 4)] {
        give(&mut connection, number, TcpFlags(0));
        assert_eq!(connection.received_bytes(), u64::from(received * MSS), "{number}");
    }
}

/// `tcp_data_queue`: old data, and data beyond the window, restart quick ACKs.
#[test]
fn data_outside_the_window_restart_quick_acks() {
    for outside in [0, 100] {
        let mut connection = compressing(&linux(6 << 20));
        let acked = (0..40).filter(|number| give(&mut connection, *number, TcpFlags(0)).is_some()).count();
        assert!(acked < 40, "delayed ACKs");
        assert!(give(&mut connection, outside, TcpFlags(0)).is_some());
        assert_eq!(
            [40, 41, 42].map(|number| give(&mut connection, number, TcpFlags(0)).is_some()),
            [true; 3]
        );
    }
}

/// `__tcp_ecn_check_ce`: the first CE after a CWR brings two quick ACKs, and further ones none.
#[test]
fn only_the_first_mark_after_a_cwr_brings_quick_acks() {
    let mut connection = compressing(&TcpConfig { ecn: EcnMode::Classic, ..linux(6 << 20) });
    let mut next = 0;
    let mut answers = |flags: TcpFlags, codepoint| {
        let (seq, flags) = (1 + next * MSS, flags.with(TcpFlags::ACK));
        let stamps = Timestamps { value: 12, echo: 11 };
        let segment = Segment { seq, ack: 1, len: MSS, window: 64_256, flags, stamps, ..Segment::default() };
        next += 1;
        connection.on_segment(&segment, codepoint, ns(11_000_000));
        connection.poll_transmit(ns(11_000_000)).is_some()
    };
    let (none, ect, ce) = (TcpFlags(0), EcnCodepoint::Ect0, EcnCodepoint::Ce);
    // Quick ACKs of the beginning, until the first that is delayed, and the one that ends the delay.
    while answers(none, ect) {}
    assert!(answers(none, ect));
    for cwr in [none, TcpFlags::CWR] {
        if cwr != none {
            assert!(answers(cwr, ect));
        }
        let marked = [0; 6].map(|_| answers(none, ce));
        assert_eq!(marked, [true, true, false, true, false, true], "{cwr:?}");
    }
}
