//! The default host: completion times of a single flow, computed by hand.

use super::{floats, packets};

/// A byte takes 0.8 ns at 10 Gb/s.
const BYTE_US: f64 = 0.0008;
/// A full frame: 1448 bytes of data, 12 of timestamps, 40 of IP and TCP, 18 of Ethernet, 20 of preamble and
/// gap.
const FULL_US: f64 = 1538.0 * BYTE_US;
/// A SYN with 20 bytes of options: MSS, SACK permitted, timestamps and window scale.
const SYN_US: f64 = 98.0 * BYTE_US;
/// An ACK without SACK, with 52 bytes of IP and TCP headers.
const ACK_US: f64 = 90.0 * BYTE_US;
const MSS: u64 = 1448;

/// FCT and slowdown of a single flow on a star with two links of the given delay.
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

/// Time of the handshake: once in each direction over two links.
fn handshake(delay: f64) -> f64 {
    2.0 * (2.0 * SYN_US + 2.0 * delay)
}

/// The initial window in one burst is as fast as the network can be.
#[test]
fn ten_segments_are_a_handshake_and_a_train() {
    let (fct, slowdown) = lone_flow(10, 1);
    let expected = handshake(1.0) + 11.0 * FULL_US + 2.0;
    assert!((fct - expected).abs() < 1e-6, "{fct} us, by hand {expected}");
    assert!((slowdown - 1.0).abs() < 1e-9, "{slowdown}");
}

/// Slow start with 10, 20 and 30 segments; each burst starts one round trip of its first segment after the
/// previous burst. The first segment is acknowledged at once (16 quick ACKs), and the window doubles except
/// for the last ACK, which is delayed.
#[test]
fn sixty_segments_are_three_rounds_of_slow_start() {
    const DELAY: f64 = 50.0;
    let (fct, _) = lone_flow(60, 50);
    let round = 2.0 * FULL_US + 2.0 * ACK_US + 4.0 * DELAY;
    let expected = handshake(DELAY) + 2.0 * round + 31.0 * FULL_US + 2.0 * DELAY;
    assert!((fct - expected).abs() < 1e-6, "{fct} us, by hand {expected}");
}
