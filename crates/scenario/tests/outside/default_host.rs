//! The host that a scenario has without a word about it: what a lone flow takes, by hand.

use crate::{floats, packets};

/// 0.8 ns a byte at 10 Gb/s.
const BYTE_US: f64 = 0.0008;
/// 1448 bytes of data, 12 of timestamps, 40 of IP and TCP, 18 of Ethernet, 20 of preamble and gap.
const FULL_US: f64 = 1538.0 * BYTE_US;
/// The options of a SYN: 20 bytes for MSS, SACK permitted, timestamps and window scale.
const SYN_US: f64 = 98.0 * BYTE_US;
/// An ACK without SACK: 52 bytes of IP and TCP.
const ACK_US: f64 = 90.0 * BYTE_US;
const MSS: u64 = 1448;

/// FCT and slowdown of a flow alone on a star of two links, each with this delay.
fn lone_flow(segments: u64, delay_us: u64) -> (f64, f64) {
    let text = format!(
        "stop = \"1 s\"\ntopology = {{ kind = \"star\", hosts = 2, link = {{ rate = \"10 Gbps\", delay = \"{delay_us} us\" }} }}\n\
         [[workload]]\nkind = \"flows\"\nflows = [{{ src = \"host0\", dst = \"host1\", size = \"{} B\" }}]\n",
        segments * MSS
    );
    let run = packets(&text);
    let only = |column| floats(&run.flows.batch(), column)[0].expect("the flow is finished");
    (only("fct_us"), only("slowdown"))
}

/// There and back over two links.
fn handshake(delay: f64) -> f64 {
    2.0 * (2.0 * SYN_US + 2.0 * delay)
}

/// The initial window, in one train: as fast as the network can be.
#[test]
fn ten_segments_are_a_handshake_and_a_train() {
    let (fct, slowdown) = lone_flow(10, 1);
    let expected = handshake(1.0) + 11.0 * FULL_US + 2.0;
    assert!((fct - expected).abs() < 1e-6, "{fct} us, by hand {expected}");
    assert!((slowdown - 1.0).abs() < 1e-9, "{slowdown}");
}

/// Slow start: 10, 20 and 30 segments, each train a round trip of its first segment after the one before. That segment is
/// acknowledged at once (16 quick ACKs), and the window doubles but for the ACK of the last that is delayed.
#[test]
fn sixty_segments_are_three_rounds_of_slow_start() {
    const DELAY: f64 = 50.0;
    let (fct, _) = lone_flow(60, 50);
    let round = 2.0 * FULL_US + 2.0 * ACK_US + 4.0 * DELAY;
    let expected = handshake(DELAY) + 2.0 * round + 31.0 * FULL_US + 2.0 * DELAY;
    assert!((fct - expected).abs() < 1e-6, "{fct} us, by hand {expected}");
}
