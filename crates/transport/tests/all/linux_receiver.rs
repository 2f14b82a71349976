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

/// A receiver whose handshake was over at 10.9 ms, as in the reference run; and the window of its SYN-ACK.
fn receiver(max: u32) -> (Connection, u32) {
    let mut connection = Connection::accept(Arc::new(linux(max)), 0, 0);
    let options = TcpOptions::Syn(SynOptions { mss: 1460, sack: true, timestamps: true, window_scale: 7 });
    let syn = Segment { flags: TcpFlags::SYN, window: 64_240, options, ..Segment::default() };
    connection.on_segment(&syn, EcnCodepoint::NotEct, ns(10_300_000));
    let (syn_ack, _) = connection.poll_transmit(ns(10_300_000)).expect("a SYN-ACK");
    let ack = Segment { seq: 1, ack: 1, flags: TcpFlags::ACK, window: 64_256, ..Segment::default() };
    connection.on_segment(&ack, EcnCodepoint::NotEct, ns(10_900_000));
    assert!(connection.is_established() && connection.poll_transmit(ns(10_900_000)).is_none());
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
    let (mut connection, syn_window) = receiver(6 << 20);
    assert_eq!(syn_window, 65_160);
    let (mut sent, mut ours) = (0, Vec::new());
    for row in rows() {
        match row {
            Row::Data { at, echo, push } => {
                let flags = if push { TcpFlags::ACK.with_flags(TcpFlags::PSH) } else { TcpFlags::ACK };
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
