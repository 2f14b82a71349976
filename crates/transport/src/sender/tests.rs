//! When data leave: super-packets, small segments, windows that open again, and the room of the send buffer.

use crate::cc::CongestionAlgorithm;
use crate::config::{OffloadConfig, SendBuffer, SmallSegments, TcpConfig};
use crate::connection::Connection;
use crate::recovery::RecoveryConfig;
use crate::segment::{EcnCodepoint, Segment, TcpFlags};
use crate::sender::Sender;
use pauseframe_units::{Span, Time};
use std::sync::Arc;

const ROUND_TRIP: Span = Span::from_ms(1);

fn linux() -> TcpConfig {
    TcpConfig {
        mss: 1000,
        initial_window: 10_000,
        sack: true,
        handshake: true,
        recovery: RecoveryConfig::LINUX,
        offload: OffloadConfig { tso: 65_536, ..OffloadConfig::NONE },
        ..TcpConfig::PLAIN
    }
}

/// Two ends after a handshake of a round trip, and the time.
fn established(config: TcpConfig) -> ([Connection; 2], Time) {
    let config = Arc::new(config);
    let mut ends = [Connection::open(config.clone(), 1, 0, Time::ZERO), Connection::accept(config, 9, 0)];
    let mut now = Time::ZERO;
    for from in [0, 1, 0] {
        let (segment, _) = ends[from].poll_transmit(now).expect("the handshake goes on");
        now += ROUND_TRIP / 2;
        ends[1 - from].on_segment(&segment, EcnCodepoint::NotEct, now);
    }
    (ends, Time::ZERO + ROUND_TRIP)
}

/// The lengths of the segments that leave, negative with PSH.
fn leaving(connection: &mut Connection, now: Time) -> Vec<i64> {
    let mut seen = Vec::new();
    while let Some((segment, _)) = connection.poll_transmit(now) {
        let sign = if segment.flags.contains(TcpFlags::PSH) { -1 } else { 1 };
        seen.push(sign * i64::from(segment.len));
    }
    seen
}

/// An ACK of this side's data up to `end`, with a window of a megabyte.
fn ack_of(ends: &[Connection; 2], end: u32) -> Segment {
    let [own, peer] = [0, 1].map(|end| ends[end].sender.space.iss());
    Segment {
        seq: peer.wrapping_add(1),
        ack: own.wrapping_add(1 + end),
        flags: TcpFlags::ACK,
        window: 1_000_000,
        ..Segment::default()
    }
}

/// `tcp_write_xmit`: with one segment of room in the window, more than a segment waits for the ACK that is expected, but a
/// lone segment leaves at once. So does everything when the ACK is more than half a round trip away.
#[test]
fn a_lone_full_segment_is_never_deferred() {
    let after = Span::from_us(600);
    for (written, wait, sent) in
        [(1000, after, 1), (2000, after, 0), (999, after, 1), (2000, Span::from_us(400), 1)]
    {
        let (mut ends, now) = established(linux());
        ends[0].write(9000, now);
        assert_eq!(leaving(&mut ends[0], now).len(), 9);
        ends[0].write(written, now + wait);
        assert_eq!(leaving(&mut ends[0], now + wait).len(), sent, "{written} {wait}");
    }
}

/// `tcp_tso_should_defer`: within the window, data wait only as long as the `sk_buff` may grow. Behind a window that they fill or exceed they wait with a
/// FIN too.
#[test]
fn only_the_window_defers_data_before_a_fin() {
    let now_after = Span::from_us(600);
    for (in_flight, closes, sent) in [(7000, false, 0), (7000, true, 2000), (8000, true, 0), (9000, true, 0)]
    {
        let (mut ends, begin) = established(TcpConfig { fin: true, ..linux() });
        ends[0].write(in_flight, begin);
        assert_eq!(leaving(&mut ends[0], begin).len() as u64, in_flight / 1000);
        let now = begin + now_after;
        ends[0].write(2000, now);
        if closes {
            ends[0].close(now);
        }
        let lengths = leaving(&mut ends[0], now);
        assert_eq!(lengths.iter().map(|len| len.abs()).sum::<i64>(), sent, "{in_flight} {closes}");
    }
}

/// `tcp_tso_should_defer`: data wait for the ACK only within a millisecond of the last frame, and a retransmission counts as one. The last segment in flight
/// goes again as a probe two round trips after it; the window has room for one segment of the two written.
#[test]
fn data_wait_for_the_ack_of_a_retransmission_too() {
    let mut left = Vec::new();
    for probes in [true, false] {
        let (mut ends, begin) = established(linux());
        ends[0].write(9000, begin);
        assert_eq!(leaving(&mut ends[0], begin).len(), 9);
        let now = ends[0].deadline().expect("a probe is due");
        assert!(now >= begin + ROUND_TRIP * 2, "{now}");
        if probes {
            ends[0].on_timeout(now);
            assert_eq!(leaving(&mut ends[0], now), [-1000]);
        }
        ends[0].write(2000, now);
        left.push(leaving(&mut ends[0], now));
    }
    assert_eq!(left, [vec![], vec![1000]]);
}

/// `tcp_push_one` sends what the window allows when the application writes. An ACK that comes while those frames still
/// leave opens it by two segments, which `tcp_tso_should_defer` holds back, for the write has long ended.
#[test]
fn a_write_sends_only_what_its_windows_allow() {
    let (mut ends, begin) = established(TcpConfig { send_buffer: SendBuffer::Linux, ..linux() });
    ends[0].write(200_000, begin);
    for _ in 0..9 {
        ends[0].poll_transmit(begin).expect("a window of ten segments");
    }
    let now = begin + ROUND_TRIP;
    let ack = ack_of(&ends, 1000);
    ends[0].on_segment(&ack, EcnCodepoint::NotEct, now);
    assert_eq!(leaving(&mut ends[0], now), [-1000]);
}

/// `tcp_event_new_data_sent`: of the 16 segments that an ACK of eight allows, nine leave first (half a window); the buffer
/// expands between the two super-packets, and the application goes on.
#[test]
fn the_buffer_expands_between_two_super_packets() {
    let offload = OffloadConfig { tso: 10_000, ..OffloadConfig::NONE };
    let (mut ends, begin) = established(TcpConfig { send_buffer: SendBuffer::Linux, offload, ..linux() });
    ends[0].write(1_000_000, begin);
    assert_eq!(leaving(&mut ends[0], begin).len(), 10);
    let written = ends[0].sender.snd_end;
    let ack = ack_of(&ends, 8000);
    ends[0].on_segment(&ack, EcnCodepoint::NotEct, begin + ROUND_TRIP);
    assert_eq!(leaving(&mut ends[0], begin + ROUND_TRIP).len(), 16);
    assert!(ends[0].sender.snd_end > written);
}

/// `tcp_check_space`: the buffer expands only while the application waits for room (`SOCK_NOSPACE`). For the first window
/// it has 46,080 bytes, which five super-packets of 10,000 and their overhead pass; so it has when the window has doubled.
#[test]
fn the_buffer_of_a_writer_that_does_not_wait_stays() {
    let offload = OffloadConfig { tso: 10_000, ..OffloadConfig::NONE };
    let (mut ends, begin) = established(TcpConfig { send_buffer: SendBuffer::Linux, offload, ..linux() });
    ends[0].write(10_000, begin);
    assert_eq!(leaving(&mut ends[0], begin).len(), 10);
    let (ack, now) = (ack_of(&ends, 10_000), begin + ROUND_TRIP);
    ends[0].on_segment(&ack, EcnCodepoint::NotEct, now);
    ends[0].write(20_000, now);
    assert_eq!(leaving(&mut ends[0], now).len(), 20);
    assert!(!ends[0].sender.is_writer_waiting());
    ends[0].write(1_000_000, now);
    assert!(leaving(&mut ends[0], now).is_empty() && ends[0].sender.is_writer_waiting());
    assert_eq!(ends[0].sender.snd_end - ends[0].sender.snd_una, 50_000);
}

/// `sk_stream_wait_memory`: only who has more to write than fits waits, and the next write fills the buffer at once.
#[test]
fn a_writer_that_has_written_everything_does_not_wait() {
    for offload in [OffloadConfig::NONE, linux().offload] {
        let config = TcpConfig { send_buffer: SendBuffer::Linux, offload, ..linux() };
        let (mut ends, now) = established(config);
        for written in [1500, 3000] {
            ends[0].write(1500, now);
            assert!(!ends[0].sender.is_writer_waiting());
            assert_eq!(ends[0].sender.snd_end, written, "{offload:?}");
        }
    }
}

/// `tcp_cwnd_validate`: only more packets in flight than before begin the measured window again. Once `snd_una` has passed
/// its end, the flight of three counts.
#[test]
fn an_equal_flight_does_not_prolong_the_measured_window() {
    let config = TcpConfig { recovery: RecoveryConfig::PLAIN, ..linux() };
    let mut sender = Sender::new(&config, 1);
    for (una, nxt, is_limited) in [(0, 6000, true), (1000, 7000, true), (6000, 9000, false)] {
        (sender.snd_una, sender.snd_nxt) = (una, nxt);
        sender.record_window_usage(false, nxt - una);
        // In slow start more than half of the window of ten segments must be used.
        assert_eq!(sender.is_cwnd_limited(), is_limited, "{una}");
    }
}

/// Nagle's algorithm in Minshall's form holds the small tail of a super-packet only while another small segment is in flight.
#[test]
fn the_tail_of_a_super_packet_waits_behind_a_small_segment() {
    use SmallSegments::{AtOnce, Cork, Nagle};
    for (small_segments, first, expected) in [
        (Nagle, 0, &[1000, 1000, -500][..]),
        (Nagle, 1000, &[1000, 1000, -500]),
        (Nagle, 500, &[1000, -1000]),
        (AtOnce, 500, &[1000, 1000, -500]),
        (Cork, 0, &[1000, -1000]),
    ] {
        let (mut ends, now) = established(TcpConfig { small_segments, ..linux() });
        if first > 0 {
            ends[0].write(first, now);
            assert_eq!(leaving(&mut ends[0], now), [-(first as i64)]);
        }
        ends[0].write(2500, now);
        assert_eq!(leaving(&mut ends[0], now), expected, "{small_segments:?} {first}");
    }
}

/// Linux probes a closed window without data. Only a window that holds the next segment ends the back-off of the probes.
#[test]
fn a_window_that_opens_ends_the_back_off_of_probes() {
    for (window, opens) in [(1000, true), (999, false), (0, false)] {
        let (mut ends, mut now) = established(TcpConfig { offload: OffloadConfig::NONE, ..linux() });
        let answer = |window| Segment {
            seq: ends[1].sender.space.iss().wrapping_add(1),
            ack: ends[0].sender.space.iss().wrapping_add(1),
            flags: TcpFlags::ACK,
            window,
            ..Segment::default()
        };
        let [closed, opened] = [answer(0), answer(window)];
        ends[0].on_segment(&closed, EcnCodepoint::NotEct, now);
        ends[0].write(5000, now);
        assert_eq!(leaving(&mut ends[0], now), [0i64; 0]);
        for probe in 1..=2 {
            now = ends[0].deadline().expect("it probes");
            ends[0].on_timeout(now);
            assert_eq!((leaving(&mut ends[0], now), ends[0].sender.rtt.backoff()), (vec![0], probe));
            ends[0].on_segment(&closed, EcnCodepoint::NotEct, now);
        }
        ends[0].on_segment(&opened, EcnCodepoint::NotEct, now);
        assert_eq!(ends[0].sender.rtt.backoff(), if opens { 0 } else { 2 }, "{window}");
        assert_eq!(leaving(&mut ends[0], now).first(), opens.then_some(&1000));
    }
}

/// Only probes of a closed window end their back-off (`tcp_ack_probe` without packets in flight), not timeouts of data in flight.
#[test]
fn a_window_that_opens_leaves_the_back_off_of_timeouts() {
    let (mut ends, begin) = established(TcpConfig { offload: OffloadConfig::NONE, ..linux() });
    let [narrow, wide] = [3000, 9000].map(|window| Segment { window, ..ack_of(&ends, 0) });
    ends[0].on_segment(&narrow, EcnCodepoint::NotEct, begin);
    ends[0].write(9000, begin);
    assert_eq!(leaving(&mut ends[0], begin), [1000; 3]);
    let mut now = begin;
    while ends[0].sender.rtt.backoff() == 0 {
        now = ends[0].deadline().expect("probes, then a timeout");
        ends[0].on_timeout(now);
        leaving(&mut ends[0], now);
    }
    ends[0].on_segment(&wide, EcnCodepoint::NotEct, now);
    assert_eq!(ends[0].sender.rtt.backoff(), 1);
}

/// MPTCP asks how much a subflow takes: a segment less fits, and with this one the writer waits, so that the buffer may grow.
#[test]
fn the_room_of_a_buffer_makes_the_writer_wait() {
    for (before, short, waits) in [(0, 0, true), (0, 1000, false), (7000, 0, true), (7000, 1000, false)] {
        let (mut ends, now) = established(TcpConfig {
            send_buffer: SendBuffer::Linux,
            send_buffer_initial: 46_080,
            send_buffer_max: 46_080,
            offload: OffloadConfig::NONE,
            ..linux()
        });
        ends[0].write(before, now);
        let (queued, room) = ends[0].sender.buffer_usage_and_room();
        // 27 segments of 1768 bytes are the first that fill it.
        assert_eq!((queued, room), (before / 1000 * 1768, 28_000 - before));
        ends[0].write(room - short, now);
        assert_eq!(ends[0].sender.is_writer_waiting(), waits, "{before} {short}");
        if waits {
            assert_eq!(ends[0].sender.buffer_usage_and_room().1, 0);
        }
    }
}

/// `sk_stream_write_space`: the writer continues when a third of the buffer is free. A buffer of 3001 bytes holds two
/// segments, and 1000 bytes are free with one of 1233 bytes and 768 of overhead.
#[test]
fn the_writer_continues_when_a_third_of_the_buffer_is_free() {
    for (max, continues) in [(3001, true), (3000, false)] {
        let (mut ends, now) = established(TcpConfig {
            mss: 1233,
            initial_window: 1233,
            send_buffer: SendBuffer::Linux,
            send_buffer_initial: max,
            send_buffer_max: max,
            offload: OffloadConfig::NONE,
            recovery: RecoveryConfig::PLAIN,
            ..linux()
        });
        ends[0].write(100_000, now);
        let sender = &mut ends[0].sender;
        assert_eq!((sender.snd_end, sender.is_writer_waiting()), (2 * 1233, true));
        (sender.snd_una, sender.snd_nxt) = (1233, 1233);
        sender.continue_writes();
        assert_eq!(sender.snd_end > 2 * 1233, continues, "{max}");
    }
}

#[test]
fn only_a_send_buffer_limits_the_writer() {
    use SmallSegments::{AtOnce, Cork};
    for (send_buffer, small_segments, limits) in [
        (SendBuffer::Unlimited, AtOnce, false),
        (SendBuffer::Unlimited, Cork, false),
        (SendBuffer::Linux, AtOnce, true),
    ] {
        let (mut ends, now) = established(TcpConfig { send_buffer, small_segments, ..linux() });
        ends[0].write(1 << 30, now);
        leaving(&mut ends[0], now);
        let waits = ends[0].sender.is_writer_waiting();
        assert_eq!((ends[0].config.limits_writer(), waits), (limits, limits), "{send_buffer:?}");
    }
}

/// A path without delay has a round trip of zero, which no rate follows from.
#[test]
fn a_round_trip_of_zero_gives_no_rate() {
    let config = TcpConfig { offload: OffloadConfig::NONE, ..linux() };
    for (rtt, rate) in [(Span::ZERO, None), (ROUND_TRIP, Some(20_000_000))] {
        let mut sender = Sender::new(&config, 1);
        assert_eq!((sender.pacing_rate(&config), sender.small_queue_share(&config)), (None, u64::MAX));
        sender.rtt.add_sample(rtt, &config.rto);
        assert_eq!(sender.cc.pacing_rate(), None);
        // Twice the window in a round trip in slow start.
        assert_eq!(sender.pacing_rate(&config), rate);
        assert_eq!(sender.small_queue_share(&config), rate.map_or(u64::MAX, |rate| rate >> 10));
    }
}

/// Frames of a super-packet leave one after the other, until its end or until what is unsent is discarded.
#[test]
fn a_super_packet_is_sent_to_its_end_or_discarded() {
    let (mut ends, now) = established(linux());
    let end = &mut ends[0];
    end.write(9000, now);
    for _ in 0..3 {
        assert_eq!(end.poll_transmit(now).map(|(segment, _)| segment.len), Some(1000));
        assert!(end.is_mid_super_packet());
    }
    end.sender.discard_unsent();
    assert!(!end.is_mid_super_packet());
    assert!(leaving(end, now).is_empty());
}

/// `tcp_push`: a writer that waits for room pushes what it has written, but only if a segment of it is left to be marked: one
/// that the window of the peer holds back, not one that has left. The buffer holds 27 segments of 1768 bytes.
#[test]
fn a_full_buffer_pushes_what_the_window_of_the_peer_holds_back() {
    for (initial_window, window, pushes) in [
        (100_000, 1_000_000, false),
        (100_000, 10_000, true),
        (100_000, 27_000, false),
        (100_000, 26_999, true),
        (27_000, 1_000_000, false),
        (26_000, 1_000_000, true),
    ] {
        let (mut ends, begin) = established(TcpConfig {
            initial_window,
            send_buffer: SendBuffer::Linux,
            send_buffer_initial: 46_080,
            send_buffer_max: 46_080,
            offload: OffloadConfig::NONE,
            ..linux()
        });
        let [first, second] = [1000, 11_000].map(|end| ack_of(&ends, end));
        ends[0].write(1000, begin);
        assert_eq!(leaving(&mut ends[0], begin), [-1000]);
        let now = begin + ROUND_TRIP;
        ends[0].on_segment(&Segment { window, ..first }, EcnCodepoint::NotEct, now);
        ends[0].write(1_000_000, now);
        let written = (ends[0].sender.snd_end - ends[0].sender.snd_una) as usize / 1000;
        let mut seen = leaving(&mut ends[0], now);
        ends[0].on_segment(&second, EcnCodepoint::NotEct, now + ROUND_TRIP);
        seen.extend(leaving(&mut ends[0], now + ROUND_TRIP));
        let pushed = seen.iter().position(|len| *len < 0).map(|index| index + 1);
        assert_eq!((written, pushed), (27, pushes.then_some(27)), "{initial_window} {window}");
    }
}

/// `TCP_CORK`: the expired timer sends the waiting bytes. If a full segment has come of them, its rest waits for more.
#[test]
fn a_corked_rest_waits_behind_data_in_flight() {
    for (more, expected) in [(0, &[-500][..]), (1000, &[1000])] {
        let (mut ends, begin) = established(TcpConfig { small_segments: SmallSegments::Cork, ..linux() });
        ends[0].write(500, begin);
        assert!(leaving(&mut ends[0], begin).is_empty());
        let now = ends[0].deadline().expect("the rest waits for it");
        ends[0].on_timeout(now);
        if more > 0 {
            ends[0].write(more, now);
        }
        assert_eq!(leaving(&mut ends[0], now), expected, "{more}");
    }
}

/// `tcp_sendmsg` waits for the handshake (`sk_stream_wait_connect`), and a FIN for all that the application has written (`tcp_close`).
#[test]
fn nothing_is_written_before_the_handshake_and_a_fin_comes_last() {
    let config =
        TcpConfig { send_buffer: SendBuffer::Linux, fin: true, offload: OffloadConfig::NONE, ..linux() };
    let mut opening = Connection::open(Arc::new(config.clone()), 1, 0, Time::ZERO);
    opening.write(1_000_000, Time::ZERO);
    assert_eq!((opening.sender.snd_end, opening.sender.unwritten_bytes()), (0, 1_000_000));
    assert!(!opening.sender.is_writer_waiting());

    let (mut ends, mut now) = established(config);
    ends[0].write(100_000, now);
    ends[0].close(now);
    let (mut sent, mut has_fin) = (0, false);
    while !has_fin {
        while let Some((segment, _)) = ends[0].poll_transmit(now) {
            (sent, has_fin) = (sent + segment.len, segment.flags.contains(TcpFlags::FIN));
        }
        now += ROUND_TRIP;
        let ack = ack_of(&ends, sent);
        ends[0].on_segment(&ack, EcnCodepoint::NotEct, now);
    }
    assert_eq!(sent, 100_000);
}
