#![expect(
    clippy::large_types_passed_by_value,
    reason = "each test makes its settings, and nothing here is hot"
)]

use super::*;
use crate::cc::line_rate::LineRate;
use crate::cc::swift::{Swift, SwiftSettings};
use crate::cc::timely::{Timely, TimelySettings};
use crate::packet::Syndrome;
use pauseframe_units::Span;

#[path = "any_order_tests.rs"]
mod any_order;

fn settings() -> QueuePairSettings {
    QueuePairSettings {
        mtu: 1024,
        ack_every: 1,
        timeout: Span::from_us(100),
        retry_count: 3,
        rnr_timer: 1,
        link_overhead: 38,
        line: 100_000_000_000,
        ..QueuePairSettings::default()
    }
}

/// Runs both ends with a delay of 1 us each way; `fate` decides for each data packet (by its number) whether it is lost
/// or marked.
fn run(settings: QueuePairSettings, bytes: u64, mut fate: impl FnMut(u64) -> (bool, bool)) -> [QueuePair; 2] {
    let mut turn = 0;
    exchange(
        settings,
        |source| source.send(bytes),
        |packet, _| {
            let what = if packet.opcode.is_data() { fate(turn) } else { (false, false) };
            turn += u64::from(packet.opcode.is_data());
            what
        },
    )
}

/// The same with what one end posts, and a fate for each packet and the time at which it leaves.
fn exchange(
    settings: QueuePairSettings,
    post: impl FnOnce(&mut QueuePair),
    mut fate: impl FnMut(&Packet, Time) -> (bool, bool),
) -> [QueuePair; 2] {
    let mut ends = [QueuePair::new(settings), QueuePair::new(settings)];
    post(&mut ends[0]);
    let mut under_way: Vec<(Time, usize, Packet, bool)> = Vec::new();
    let mut now = Time::ZERO;
    loop {
        for (side, end) in ends.iter_mut().enumerate() {
            while let Some(packet) = end.poll_transmit(now) {
                let (lost, marked) = fate(&packet, now);
                if !lost {
                    under_way.push((now + Span::from_us(1), 1 - side, packet, marked));
                }
            }
        }
        let deadline = ends[0].deadline(now).min(ends[1].deadline(now));
        let arrival = under_way.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX);
        now = deadline.min(arrival);
        if now == Time::MAX {
            return ends;
        }
        if arrival <= deadline {
            let first = under_way.iter().position(|(at, ..)| *at == arrival).expect("it was found");
            let (_, side, packet, marked) = under_way.remove(first);
            ends[side].on_packet(&packet, marked, now);
        } else {
            for end in &mut ends {
                end.on_timeout(now);
            }
        }
    }
}

#[test]
fn a_message_arrives_whole() {
    for bytes in [0, 1, 1024, 1025, 1_000_000] {
        let [source, sink] = run(settings(), bytes, |_| (false, false));
        assert_eq!((source.acked(), sink.delivered(), source.stats().retransmits), (bytes, bytes, 0));
        assert!(source.is_quiescent() && sink.is_quiescent());
    }
}

#[test]
fn a_gap_is_reported_once_and_sent_again_from_there() {
    let [source, sink] = run(settings(), 100 * 1024, |turn| (turn == 10, false));
    assert_eq!((sink.delivered(), sink.stats().naks_sent, source.stats().timeouts), (100 * 1024, 1, 0));
    // Packets in flight when the NAK arrived are wasted: a round trip of 2 us at 11.2 packets per microsecond.
    assert!((20..=26).contains(&source.stats().retransmits), "{}", source.stats().retransmits);
}

#[test]
fn selective_repeat_sends_lost_packets_only() {
    let irn = QueuePairSettings { selective_repeat: true, ..settings() };
    let [source, sink] = run(irn, 100 * 1024, |turn| ([10, 11, 40].contains(&turn), false));
    assert_eq!((sink.delivered(), source.stats().retransmits, source.stats().timeouts), (100 * 1024, 3, 0));
}

/// Packets behind the gap have arrived long before they are acknowledged; a true round trip is 2 us.
#[test]
fn the_round_trip_is_that_of_the_packet_that_fills_the_gap() {
    let line = settings().line;
    let timely = TimelySettings { low_ns: 3_000, minimum_rtt_ns: 1_000, ..TimelySettings::for_line(line) };
    let irn = QueuePairSettings { selective_repeat: true, control: ControlName::Timely.into(), ..settings() };
    let begin = |source: &mut QueuePair| {
        let Controller::Timely(control) = &mut source.control else { unreachable!("it is TIMELY") };
        control.state = Timely::new(timely, line);
        source.send(100 * 1024);
    };
    let mut turn = 0;
    let [source, _] = exchange(irn, begin, |packet, _| {
        turn += u64::from(packet.opcode.is_data());
        (packet.opcode.is_data() && (turn - 1) % 20 == 7, false)
    });
    assert!(source.stats().retransmits >= 5);
    assert_eq!(source.rate(), line);
}

#[test]
fn a_lost_tail_waits_for_the_timer() {
    for selective_repeat in [false, true] {
        let [source, sink] =
            run(QueuePairSettings { selective_repeat, ..settings() }, 10 * 1024, |turn| (turn == 9, false));
        assert_eq!(
            (sink.delivered(), source.stats().timeouts, source.stats().retransmits),
            (10 * 1024, 1, 1)
        );
    }
}

#[test]
fn retries_run_out() {
    let [source, sink] = run(settings(), 4096, |_| (true, false));
    assert_eq!((source.failure(), sink.delivered()), (Some(Failure::RetriesExhausted), 0));
    assert_eq!(source.stats().timeouts, 4);
}

#[test]
fn a_receiver_that_is_not_ready_is_tried_again() {
    // The only receive is posted again too late.
    let repost = Span::from_us(1000);
    let send = QueuePairSettings { uses_send: true, rnr_retry: 2, receives: Some(1), repost, ..settings() };
    let mut ends = [QueuePair::new(send), QueuePair::new(send)];
    ends[0].send(100);
    ends[0].send(100);
    let first = ends[0].poll_transmit(Time::ZERO).expect("it sends");
    ends[1].on_packet(&first, false, Time::ZERO);
    let ack = ends[1].poll_transmit(Time::ZERO).expect("it answers");
    ends[0].on_packet(&ack, false, Time::ZERO);
    let mut now = Time(1_000_000);
    for retry in 0..3 {
        let request = ends[0].poll_transmit(now).expect("it tries again");
        ends[1].on_packet(&request, false, now);
        let nak = ends[1].poll_transmit(now).expect("it answers");
        assert_eq!(nak.syndrome, Syndrome::ReceiverNotReady);
        ends[0].on_packet(&nak, false, now);
        assert_eq!(ends[0].failure().is_some(), retry == 2);
        assert!(ends[0].poll_transmit(now).is_none());
        now += Span::from_us(10);
    }
    assert_eq!(ends[0].failure(), Some(Failure::RnrRetriesExhausted));
}

#[test]
fn marks_are_answered_once_an_interval_after_a_delay() {
    let notification = Some(NotificationPoint {
        interval: Span::from_us(50),
        scope: CnpScope::QueuePair,
        delay: Span::from_us(5),
    });
    let [source, sink] = run(QueuePairSettings { notification, ..settings() }, 1_000_000, |_| (false, true));
    // 977 packets of 1124 bytes take 88 us: notifications at about 1 and 51 us.
    assert_eq!((sink.stats().cnps_sent, source.stats().cnps_received), (2, 2));
    assert_eq!(sink.stats().marked_received, 977);
}

#[test]
fn acknowledgements_cover_several_packets() {
    let [source, _] = run(QueuePairSettings { ack_every: 16, ..settings() }, 1_000_000, |_| (false, false));
    assert_eq!(source.acked(), 1_000_000);
}

#[test]
fn sequence_numbers_pass_24_bits() {
    let tiny = QueuePairSettings { mtu: 256, ack_every: 32, ..settings() };
    let bytes = 256 * ((1 << 24) + 1000);
    let [source, sink] = run(tiny, bytes, |turn| (turn == (1 << 24) + 3, false));
    assert_eq!((sink.delivered(), source.stats().naks_received, source.stats().timeouts), (bytes, 1, 0));
}

#[test]
fn a_window_smaller_than_the_coalescing_of_acknowledgements_does_not_wait_for_the_timer() {
    let swift = SwiftSettings { max_window: 3.5, ..SwiftSettings::default() };
    for selective_repeat in [false, true] {
        let control = ControlName::Swift;
        let held =
            QueuePairSettings { control: control.into(), ack_every: 16, selective_repeat, ..settings() };
        let begin = |source: &mut QueuePair| {
            let Controller::Swift(control) = &mut source.control else { unreachable!("it is Swift") };
            control.state = Swift::new(swift, 2, swift.max_window);
            source.send(1_000_000);
        };
        let [source, sink] = exchange(held, begin, |_, _| (false, false));
        assert_eq!((sink.delivered(), source.stats().timeouts), (1_000_000, 0));
    }
}

/// What becomes of a packet of unordered delivery.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    Trimmed,
    Marked,
}

fn nscc() -> QueuePairSettings {
    let parameters =
        ControlParameters { base_rtt: Span::from_us(4), trims: true, ..ControlParameters::default() };
    let control = ControlName::Nscc;
    QueuePairSettings { unordered: true, control: control.into(), parameters, retry_count: 7, ..settings() }
}

/// Runs both ends; each data packet takes 1 us and a random delay, so that packets overtake each other.
fn run_spread(
    settings: QueuePairSettings,
    bytes: u64,
    mut fate: impl FnMut(u64) -> (Fate, Span),
) -> [QueuePair; 2] {
    let mut ends = [QueuePair::new(settings), QueuePair::new(settings)];
    ends[0].send(bytes);
    let mut under_way: Vec<(Time, usize, Packet, bool)> = Vec::new();
    let (mut now, mut turn) = (Time::ZERO, 0);
    loop {
        for (side, end) in ends.iter_mut().enumerate() {
            while let Some(packet) = end.poll_transmit(now) {
                let (what, late) =
                    if packet.opcode.is_data() { fate(turn) } else { (Fate::Arrives, Span::ZERO) };
                turn += u64::from(packet.opcode.is_data());
                let packet = if what == Fate::Trimmed { packet.trimmed() } else { packet };
                if what != Fate::Lost {
                    let at = now + Span::from_us(1) + late;
                    under_way.push((at, 1 - side, packet, what == Fate::Marked));
                }
            }
        }
        let deadline = ends[0].deadline(now).min(ends[1].deadline(now));
        let arrival = under_way.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX);
        now = deadline.min(arrival);
        if now == Time::MAX {
            return ends;
        }
        if arrival <= deadline {
            let first = under_way.iter().position(|(at, ..)| *at == arrival).expect("it was found");
            let (_, side, packet, marked) = under_way.remove(first);
            ends[side].on_packet(&packet, marked, now);
        } else {
            for end in &mut ends {
                end.on_timeout(now);
            }
        }
    }
}

/// A delay below 3 us that differs from packet to packet.
fn spread(turn: u64) -> Span {
    Span::from_ns(turn * 7919 % 3000)
}

#[test]
fn packets_that_overtake_each_other_are_not_sent_again() {
    let [source, sink] = run_spread(nscc(), 1_000_000, |turn| (Fate::Arrives, spread(turn)));
    assert_eq!((sink.delivered(), source.acked()), (1_000_000, 1_000_000));
    assert_eq!((source.stats().retransmits, sink.stats().naks_sent), (0, 0));
    assert!(source.is_quiescent() && sink.is_quiescent());
}

#[test]
fn what_is_trimmed_is_sent_again_without_a_timeout() {
    let trims = |turn: u64| turn % 10 == 3;
    let mut trimmed = 0;
    let [source, sink] = run_spread(nscc(), 1_000_000, |turn| {
        trimmed += u64::from(trims(turn));
        (if trims(turn) { Fate::Trimmed } else { Fate::Arrives }, spread(turn))
    });
    assert_eq!((sink.delivered(), u64::from(source.stats().retransmits)), (1_000_000, trimmed));
    assert_eq!((source.stats().retransmits_by_nak, source.stats().timeouts), (trimmed, 0));
}

/// Acknowledgements of unordered delivery come by bytes, so of new packets only the one that fills the window requests one;
/// one that is sent again always does.
#[test]
fn unordered_delivery_requests_acknowledgements_where_it_would_stop() {
    let settings = QueuePairSettings { ack_request_every: 1000, ..nscc() };
    let mut ends = [(); 2].map(|()| QueuePair::new(settings));
    ends[0].send(1_000_000);
    let at = |step: u64| Time(step * 100_000);
    let sent: Vec<Packet> = (0..100).filter_map(|step| ends[0].poll_data(at(step))).collect();
    let asking: Vec<u32> = sent.iter().filter(|packet| packet.ack_request).map(|packet| packet.psn).collect();
    assert_eq!(asking, [sent.len() as u32 - 1]);
    for packet in sent {
        ends[1].on_packet(&if packet.psn == 3 { packet.trimmed() } else { packet }, false, at(100));
    }
    while let Some(reply) = ends[1].poll_transmit(at(100)) {
        ends[0].on_packet(&reply, false, at(110));
    }
    let again = ends[0].poll_data(at(110)).expect("a retransmission");
    assert_eq!((again.psn, again.ack_request), (3, true));
}

/// Only NSCC knows trimming.
#[test]
fn what_is_trimmed_is_lost_to_queue_pairs_that_keep_order() {
    for selective_repeat in [false, true] {
        let settings = QueuePairSettings { selective_repeat, ..settings() };
        let [source, sink] = run_spread(settings, 100 * 1024, |turn| {
            (if turn % 10 == 3 { Fate::Trimmed } else { Fate::Arrives }, Span::ZERO)
        });
        assert_eq!((sink.delivered(), source.acked()), (100 * 1024, 100 * 1024));
        assert!(source.stats().retransmits >= 10);
    }
}

#[test]
fn unordered_delivery_is_whole_whatever_happens_to_packets() {
    let fates = [Fate::Arrives, Fate::Lost, Fate::Trimmed, Fate::Marked];
    for seed in 0..20u64 {
        let [source, sink] = run_spread(nscc(), 300_000, |turn| {
            let draw = (turn + seed * 7919).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let fate = if draw.is_multiple_of(8) { fates[(draw / 8 % 4) as usize] } else { Fate::Arrives };
            (fate, spread(draw))
        });
        assert_eq!((sink.delivered(), source.acked(), source.failure()), (300_000, 300_000, None), "{seed}");
        assert!(source.stats().timeouts > 0 && source.is_quiescent() && sink.is_quiescent(), "{seed}");
        let Stats { retransmits, retransmits_by_nak, retransmits_by_timeout, .. } = *source.stats();
        assert_eq!(u64::from(retransmits), retransmits_by_nak + retransmits_by_timeout, "{seed}");
    }
}

/// The opcodes that leave either end, in order.
fn opcodes(settings: QueuePairSettings, post: impl FnOnce(&mut QueuePair)) -> Vec<(Opcode, u32, u16)> {
    let mut seen = Vec::new();
    exchange(settings, post, |packet, _| {
        seen.push((packet.opcode, packet.psn, packet.payload));
        (false, false)
    });
    seen
}

#[test]
fn a_response_takes_the_sequence_numbers_after_its_request() {
    use Opcode::{Acknowledge, ReadRequest, ReadResponseFirst, ReadResponseLast, ReadResponseMiddle};
    let seen = opcodes(settings(), |source| {
        source.read(3000);
        source.read(7);
        source.send(9);
    });
    let expected = [
        (ReadRequest, 0, 0),
        (ReadRequest, 3, 0),
        (Opcode::WriteOnly, 4, 9),
        (ReadResponseFirst, 0, 1024),
        (ReadResponseMiddle, 1, 1024),
        (ReadResponseLast, 2, 952),
        (Opcode::ReadResponseOnly, 3, 7),
        // Answers keep the order of requests: the WRITE is acknowledged after the responses.
        (Acknowledge, 4, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn reads_beyond_the_limit_wait() {
    let limited = QueuePairSettings { max_reads: 2, ..settings() };
    let mut most = 0;
    let mut under_way = 0i32;
    let [source, _] = exchange(
        limited,
        |source| (0..20).for_each(|_| source.read(4096)),
        |packet, _| {
            under_way += i32::from(packet.opcode == Opcode::ReadRequest);
            most = most.max(under_way);
            under_way -= i32::from(packet.opcode == Opcode::ReadResponseLast);
            (false, false)
        },
    );
    assert_eq!((source.delivered(), source.acked(), most), (20 * 4096, 20 * 4096, 2));
}

#[test]
fn the_rest_of_a_response_is_requested_again_once() {
    let mut requests = Vec::new();
    let mut lost = 0;
    let [source, sink] = exchange(
        settings(),
        |source| source.read(100 * 1024),
        |packet, _| {
            if packet.opcode == Opcode::ReadRequest {
                requests.push((packet.psn, packet.length()));
            }
            let is_lost = packet.psn == 10 && packet.opcode.is_data() && lost == 0;
            lost += u32::from(is_lost);
            (is_lost, false)
        },
    );
    assert_eq!(requests, [(0, 100 * 1024), (10, 90 * 1024)]);
    assert_eq!(
        (source.delivered(), source.stats().timeouts, source.stats().retransmits_by_nak),
        (100 * 1024, 0, 1)
    );
    // The responder goes on until the new request comes: a round trip of 2 us at 11.2 packets per microsecond.
    assert!((20..=26).contains(&sink.stats().retransmits), "{}", sink.stats().retransmits);
}

#[test]
fn selective_repeat_requests_missing_responses_only() {
    let irn = QueuePairSettings { selective_repeat: true, ..settings() };
    let mut requests = Vec::new();
    let mut lost = std::collections::BTreeSet::from([10, 11, 40]);
    let [source, sink] = exchange(
        irn,
        |source| source.read(100 * 1024),
        |packet, _| {
            if packet.opcode == Opcode::ReadRequest {
                requests.push((packet.psn, packet.length()));
            }
            (packet.opcode.is_data() && lost.remove(&packet.psn), false)
        },
    );
    assert_eq!(requests, [(0, 100 * 1024), (10, 2048), (40, 1024)]);
    assert_eq!((source.delivered(), sink.stats().retransmits, source.stats().timeouts), (100 * 1024, 3, 0));
}

#[test]
fn marks_of_responses_are_answered_by_the_requester_and_slow_the_responder() {
    let notification = Some(NotificationPoint {
        interval: Span::from_us(50),
        scope: CnpScope::QueuePair,
        delay: Span::ZERO,
    });
    let controlled =
        QueuePairSettings { notification, control: ControlName::DcqcnPaper.into(), ..settings() };
    let [source, sink] = exchange(
        controlled,
        |source| source.read(1_000_000),
        |packet, now| (false, packet.opcode.is_data() && now.0 < 2_000_000),
    );
    assert_eq!((source.stats().cnps_sent, sink.stats().cnps_received), (1, 1));
    assert_eq!((source.rate(), source.delivered()), (settings().line, 1_000_000));
    assert!(sink.rate() < settings().line);
}

/// Reads and writes in any order, with any packet lost in either direction, end whole and in order.
#[test]
fn what_is_posted_completes_whatever_is_lost() {
    for (seed, selective_repeat) in (0..40u64).flat_map(|seed| [(seed, false), (seed, true)]) {
        let lossy = QueuePairSettings {
            selective_repeat,
            max_reads: 1 + seed as u32 % 5,
            retry_count: 7,
            ..settings()
        };
        let draw = |n: u64| (n + seed * 7919).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let mut expected = [0u64; 2];
        let mut turn = 0;
        let [source, sink] = exchange(
            lossy,
            |source| {
                for n in 0..60 {
                    let bytes = 1 + draw(n) % 20_000;
                    let is_read = draw(n + 1000).is_multiple_of(2);
                    expected[usize::from(is_read)] += bytes;
                    if is_read { source.read(bytes) } else { source.send(bytes) }
                }
            },
            |_, _| {
                turn += 1;
                (draw(turn + 5000).is_multiple_of(20), false)
            },
        );
        let [written, read] = expected;
        assert_eq!((source.failure(), source.acked()), (None, written + read), "{seed} {selective_repeat}");
        assert_eq!((sink.delivered(), source.delivered()), (written, read), "{seed} {selective_repeat}");
        assert!(source.is_quiescent() && sink.is_quiescent());
        for end in [source, sink] {
            let Stats { retransmits, retransmits_by_nak, retransmits_by_timeout, .. } = *end.stats();
            assert_eq!(u64::from(retransmits), retransmits_by_nak + retransmits_by_timeout, "{seed}");
        }
    }
}

/// Loses packet 10 this often; the NAKs or repeated requests for it, and the timeouts.
fn lose_the_same_packet(settings: QueuePairSettings, times: u32, reads: bool) -> (u64, u32) {
    let (mut lost, mut requests) = (0, 0);
    let [source, sink] = exchange(
        settings,
        |source| if reads { source.read(100 * 1024) } else { source.send(100 * 1024) },
        |packet, _| {
            requests += u64::from(packet.opcode == Opcode::ReadRequest);
            let is_lost = packet.opcode.is_data() && packet.psn == 10 && lost < times;
            lost += u32::from(is_lost);
            (is_lost, false)
        },
    );
    assert_eq!((source.acked(), source.failure()), (100 * 1024, None));
    (if reads { requests - 1 } else { sink.stats().naks_sent }, source.stats().timeouts)
}

#[test]
fn a_packet_that_is_lost_again_is_requested_again_without_the_timer() {
    for times in 1..=4 {
        for reads in [false, true] {
            assert_eq!(lose_the_same_packet(settings(), times, reads), (times.into(), 0), "{times} {reads}");
        }
    }
}

#[test]
fn selective_repeat_finds_a_packet_that_is_lost_again() {
    for times in 1..=4 {
        let mut lost = 0;
        let irn = QueuePairSettings { selective_repeat: true, ..settings() };
        let [source, sink] = exchange(
            irn,
            |source| source.send(300 * 1024),
            |packet, _| {
                let is_lost =
                    packet.opcode.is_data() && (packet.psn == 10 || packet.psn == 12) && lost < 2 * times;
                lost += u32::from(is_lost);
                (is_lost, false)
            },
        );
        let Stats { retransmits, timeouts, .. } = *source.stats();
        assert_eq!((sink.delivered(), retransmits, timeouts), (300 * 1024, 2 * times, 0), "{times}");
    }
}

#[test]
fn a_nak_interval_repeats_naks_by_time_alone() {
    let every = |interval| QueuePairSettings { nak_interval: Some(interval), ..settings() };
    let (naks, timeouts) = lose_the_same_packet(every(Span::from_us(5)), 2, false);
    assert!(naks >= 2 && timeouts == 0, "{naks} {timeouts}");
    assert_eq!(lose_the_same_packet(every(Span::from_secs(3600)), 2, false), (1, 1));
}

/// The last departure of a data packet if one is lost.
fn last_departure(settings: QueuePairSettings, bytes: u64, lost: Option<u64>) -> Time {
    let (mut turn, mut last) = (0, Time::ZERO);
    exchange(
        settings,
        |source| source.send(bytes),
        |packet, now| {
            if !packet.opcode.is_data() {
                return (false, false);
            }
            turn += 1;
            last = now;
            (Some(turn - 1) == lost, false)
        },
    );
    last
}

#[test]
fn a_lost_packet_costs_a_round_trip_and_a_lost_tail_the_timer() {
    for mtu in [256, 1024, 4096] {
        let pair = QueuePairSettings { mtu, timeout: Span::from_ms(67), ack_every: 16, ..settings() };
        let packet = Span(pair.full_packet() * 80);
        let bytes = 100 * u64::from(mtu);
        let whole = last_departure(pair, bytes, None);
        let extra = last_departure(pair, bytes, Some(10)) - whole;
        // The next packet shows the gap after a round trip of 2 us, and everything since is sent again.
        assert!(extra.0.abs_diff(Span::from_us(2).0) <= 2 * packet.0, "{extra}");
        // The acknowledgement of the first 96 packets starts the timer, after which three others go before the last.
        let tail = last_departure(pair, bytes, Some(99));
        let expected = Time::ZERO + packet * (95 + 3) + Span::from_us(2) + Span::from_ms(2);
        assert!(tail.0.abs_diff(expected.0) <= packet.0, "{tail} {expected}");
    }
}

#[test]
fn the_adaptive_timer_doubles_and_both_give_up_after_the_same_time() {
    for (timer, gaps) in [
        (RetransmissionTimer::Adaptive, [2, 4, 8, 16, 16, 16]),
        (RetransmissionTimer::Ibta, [67, 67, 67, 67, 67, 67]),
    ] {
        let pair = QueuePairSettings { timer, timeout: Span::from_ms(67), retry_count: 7, ..settings() };
        let mut sent = Vec::new();
        let [source, _] = exchange(
            pair,
            |source| source.send(1),
            |_, now| {
                sent.push(now);
                (true, false)
            },
        );
        let found: Vec<_> =
            sent.windows(2).take(6).map(|pair| (pair[1] - pair[0]).0 / 1_000_000_000).collect();
        assert_eq!(found, gaps);
        assert_eq!(
            (source.failure(), source.stats().waited >= Span::from_ms(8 * 67)),
            (Some(Failure::RetriesExhausted), true)
        );
    }
}

#[test]
fn few_packets_in_flight_have_the_short_timer() {
    for (packets, lost, wait) in [(1, 0, 100), (3, 2, 100), (20, 0, 320)] {
        let pair = QueuePairSettings {
            timer: RetransmissionTimer::Ibta,
            timeout: Span::from_us(320),
            timeout_low: Some(Span::from_us(100)),
            selective_repeat: true,
            ack_every: 64,
            ..settings()
        };
        let mut sent = Vec::new();
        // Of many packets all are lost, so that no acknowledgement lets the timer begin again.
        let [source, _] = exchange(
            pair,
            |source| source.send(packets * 1024),
            |packet, now| {
                sent.extend(packet.opcode.is_data().then_some(now));
                let turn = sent.len() as u64;
                (packet.opcode.is_data() && turn <= packets && (packets > 3 || turn > lost), false)
            },
        );
        let gap = sent.windows(2).map(|pair| pair[1] - pair[0]).max().expect("there are several");
        assert!(gap.0.abs_diff(Span::from_us(wait).0) < Span::from_us(3).0, "{packets}: {gap}");
        assert_eq!(source.stats().timeouts, 1);
    }
}

#[test]
fn losses_cut_the_rate_by_slow_restart_and_by_the_adaptive_timer() {
    use RetransmissionTimer::{Adaptive, Ibta};
    let line = settings().line;
    let rate = |slow_restart, timer, lost| {
        let notification = Some(NotificationPoint {
            interval: Span::from_us(50),
            scope: CnpScope::QueuePair,
            delay: Span::ZERO,
        });
        let control = ControlName::DcqcnPaper;
        let pair =
            QueuePairSettings { timer, slow_restart, notification, control: control.into(), ..settings() };
        run(pair, 20 * 1024, |turn| (turn == lost, false))[0].rate()
    };
    let (middle, tail) = (10, 19);
    assert!(rate(true, Ibta, middle) < line && rate(false, Adaptive, tail) < line);
    assert_eq!(
        [rate(false, Ibta, middle), rate(false, Ibta, tail), rate(false, Adaptive, middle)],
        [line; 3]
    );
}

#[test]
fn a_transmit_window_bounds_what_is_in_flight_and_never_waits_for_the_timer() {
    for (packets, selective_repeat) in [(1, false), (3, false), (8, true), (40, false)] {
        let tx_window = Some(Bytes(packets * 1024));
        let pair = QueuePairSettings { tx_window, ack_every: 16, selective_repeat, ..settings() };
        let (mut sent, mut acked, mut most) = (0, 0, 0);
        let [source, sink] = exchange(
            pair,
            |source| source.send(300 * 1024),
            |packet, _| {
                if packet.opcode.is_data() {
                    sent = u64::from(packet.psn) + 1;
                } else {
                    acked = u64::from(packet.psn) + 1;
                }
                most = most.max(sent - acked);
                (false, false)
            },
        );
        assert_eq!((sink.delivered(), source.stats().timeouts), (300 * 1024, 0));
        assert!(most <= packets, "{most} {packets}");
    }
}

/// The window holds 40 packets: each quarter of it requests an acknowledgement before the window closes.
#[test]
fn each_quarter_of_a_transmit_window_requests_an_acknowledgement() {
    let tx_window = Some(Bytes(40 * 1024));
    let mut pair = QueuePair::new(QueuePairSettings { tx_window, ..settings() });
    pair.send(100 * 1024);
    let sent: Vec<Packet> = (0..100).filter_map(|step| pair.poll_data(Time(step * 100_000))).collect();
    let asking: Vec<u32> = sent.iter().filter(|packet| packet.ack_request).map(|packet| packet.psn).collect();
    assert_eq!((sent.len(), asking), (40, vec![9, 19, 29, 39]));
}

/// The packets of a response leave the peer, so they take no room in the window of what leaves here.
#[test]
fn responses_under_way_take_no_room_in_the_transmit_window() {
    let tx_window = Some(Bytes(4 * 1024));
    let mut pair = QueuePair::new(QueuePairSettings { tx_window, ..settings() });
    pair.read(100 * 1024);
    pair.send(10 * 1024);
    let sent: Vec<Packet> = (0..100).filter_map(|step| pair.poll_data(Time(step * 100_000))).collect();
    let numbers: Vec<u32> = sent.iter().map(|packet| packet.psn).collect();
    assert_eq!((sent[0].opcode, numbers), (Opcode::ReadRequest, vec![0, 100, 101, 102, 103]));
}

/// Acknowledgements for 64 packets of a message.
fn acknowledgements(settings: QueuePairSettings) -> u64 {
    let mut count = 0;
    exchange(
        settings,
        |source| source.send(64 * 1024),
        |packet, _| {
            count += u64::from(packet.opcode == Opcode::Acknowledge);
            (false, false)
        },
    );
    count
}

#[test]
fn slow_senders_get_acknowledgements_by_time() {
    let pair = QueuePairSettings { ack_every: 16, ..settings() };
    assert_eq!(acknowledgements(pair), 4);
    // A packet takes 0.9 ms.
    assert_eq!(acknowledgements(QueuePairSettings { line: 10_000_000, ..pair }), 64);
}

/// The timer of 250 us expires between two packets of 1024 + 44 + 38 bytes below 4000 packets of 8848 bits a second.
#[test]
fn packets_further_apart_than_the_timer_are_too_slow_for_it() {
    let pair = settings();
    assert_eq!(pair.full_packet(), 1106);
    assert!(pair.is_slower_than_acks(35_391_999));
    assert!(!pair.is_slower_than_acks(35_392_000));
}

#[test]
fn a_sender_that_was_cut_to_its_floor_waits_for_no_timer() {
    for mtu in [1024, 4096] {
        let notification = Some(NotificationPoint {
            interval: Span::from_us(4),
            scope: CnpScope::QueuePair,
            delay: Span::from_us(200),
        });
        let pair = QueuePairSettings {
            mtu,
            ack_every: 16,
            timeout: Span::from_ms(67),
            line: 10_000_000_000,
            notification,
            control: ControlName::DcqcnConnectx.into(),
            ..settings()
        };
        let mut slowest = Span::ZERO;
        let mut before = Time::ZERO;
        let [source, sink] = exchange(
            pair,
            |source| source.send(600 * u64::from(mtu)),
            |packet, now| {
                if packet.opcode.is_data() {
                    slowest = slowest.max(now - before);
                    before = now;
                }
                (false, true)
            },
        );
        assert!(slowest > Span::from_us(500), "{slowest}");
        assert_eq!((sink.delivered(), source.stats().timeouts), (600 * u64::from(mtu), 0));
    }
}

#[test]
fn a_stopped_message_is_acknowledged_without_a_timeout() {
    let mut ends = [0; 2].map(|_| QueuePair::new(QueuePairSettings { ack_every: 16, ..settings() }));
    ends[0].send(u64::MAX);
    let mut now = Time::ZERO;
    for turn in 0.. {
        if turn == 21 {
            ends[0].stop_sending();
        }
        let packet = ends[0].poll_transmit(now);
        let Some(packet) = packet else { break };
        ends[1].on_packet(&packet, false, now);
        while let Some(answer) = ends[1].poll_transmit(now) {
            ends[0].on_packet(&answer, false, now);
        }
        now = now.max(ends[0].deadline(now));
        assert!(turn < 30);
    }
    assert!(ends[0].is_quiescent());
    assert_eq!(ends[0].stats().timeouts, 0);
}

/// IRN: the short timeout is that of few packets in flight, however many were acknowledged before.
#[test]
fn few_packets_in_flight_have_the_short_timeout() {
    let (low, mtu) = (Span::from_us(10), u64::from(settings().mtu));
    let mut pair = QueuePair::new(QueuePairSettings {
        timer: RetransmissionTimer::Ibta,
        timeout_low: Some(low),
        ..settings()
    });
    pair.send(20 * mtu);
    let mut now = Time::ZERO;
    for psn in 0..20 {
        now += Span::from_us(1);
        assert_eq!(pair.poll_transmit(now).map(|packet| packet.psn), Some(psn));
        let timeout = if psn % 10 < FEW_PACKETS as u32 { low } else { settings().timeout };
        assert_eq!(pair.sender.timer_at(), now + timeout, "{psn}");
        if psn == 9 {
            let ack = Packet { syndrome: Syndrome::Ack, ..Packet::new(Opcode::Acknowledge, psn) };
            pair.on_packet(&ack, false, now);
        }
    }
}

/// The last packet of a message requests an acknowledgement, so a stop lets one more go if some are not acknowledged. Its whole payload counts.
#[test]
fn a_stop_ends_the_message_with_the_next_packet() {
    let mtu = u64::from(settings().mtu);
    for (acknowledged, more) in [(0, 1), (4, 1), (5, 0)] {
        let mut pair = QueuePair::new(settings());
        pair.send(2 * mtu);
        pair.send(10 * mtu);
        let mut now = Time::ZERO;
        let mut send = |pair: &mut QueuePair| {
            now += Span::from_us(1);
            pair.poll_transmit(now)
        };
        for _ in 0..5 {
            send(&mut pair).expect("a packet is due");
        }
        let ack = |psn| Packet { syndrome: Syndrome::Ack, ..Packet::new(Opcode::Acknowledge, psn) };
        if acknowledged > 0 {
            pair.on_packet(&ack(acknowledged - 1), false, Time::ZERO + Span::from_us(5));
        }
        pair.stop_sending();
        let rest: Vec<Packet> = std::iter::from_fn(|| send(&mut pair)).collect();
        let seen: Vec<_> = rest.iter().map(|packet| (packet.psn, packet.ack_request)).collect();
        assert_eq!(seen, [(5, true)][..more], "{acknowledged}");
        pair.on_packet(&ack(4 + more as u32), false, Time::ZERO + Span::from_us(9));
        assert!(pair.is_quiescent());
        assert_eq!(pair.acked(), (5 + more as u64) * mtu);
    }
}

#[test]
fn a_message_that_has_not_begun_is_not_sent_after_a_stop() {
    let mut pair = QueuePair::new(settings());
    pair.send(1000);
    pair.send(1000);
    let packet = pair.poll_transmit(Time::ZERO).expect("a packet is due");
    assert!(packet.ack_request);
    pair.stop_sending();
    assert!(pair.poll_transmit(Time::ZERO + Span::from_us(1)).is_none());
}

#[test]
fn sends_wait_for_posted_receives() {
    for (selective_repeat, lost) in [(false, u64::MAX), (true, u64::MAX), (false, 5), (true, 5)] {
        let pair = QueuePairSettings {
            uses_send: true,
            receives: Some(2),
            repost: Span::from_us(20),
            selective_repeat,
            ..settings()
        };
        let mut turn = 0;
        let [source, sink] = exchange(
            pair,
            |source| (0..50).for_each(|_| source.send(3000)),
            |packet, _| {
                turn += u64::from(packet.opcode.is_data());
                (packet.opcode.is_data() && turn == lost, false)
            },
        );
        assert_eq!((sink.delivered(), source.failure(), source.stats().timeouts), (150_000, None, 0));
        assert!(sink.stats().rnr_naks_sent >= 20, "{}", sink.stats().rnr_naks_sent);
        let Stats { retransmits, retransmits_by_nak, .. } = *source.stats();
        assert_eq!(u64::from(retransmits), retransmits_by_nak);
    }
}

#[test]
fn nothing_is_sent_before_the_connection_stands() {
    let mut pair = QueuePair::new(QueuePairSettings { connect: Span::from_us(7), ..settings() });
    pair.connect(Time::ZERO);
    pair.send(1);
    assert!(pair.poll_transmit(Time::ZERO).is_none());
    assert_eq!(pair.deadline(Time::ZERO), Time::ZERO + Span::from_us(7));
    assert!(pair.poll_transmit(Time::ZERO + Span::from_us(7)).is_some());
}
#[test]
fn queue_pairs_of_a_port_share_one_limit_of_cnps() {
    for (scope, expected) in [(CnpScope::QueuePair, [2, 2]), (CnpScope::Port, [1, 1])] {
        let notification = Some(NotificationPoint { interval: Span::from_us(4), scope, delay: Span::ZERO });
        let mut sinks = [0, 1].map(|_| QueuePair::new(QueuePairSettings { notification, ..settings() }));
        let mut port = CnpLimiter::default();
        // Both at once, both too early, and the second one first when the interval is over.
        for (number, at, order) in [(0, 0, [0, 1]), (1, 3999, [0, 1]), (2, 4000, [1, 0])] {
            for sink in order {
                let packet = Packet { payload: 1024, ..Packet::new(Opcode::of_write(true, true), number) };
                let now = Time(at * 1000);
                sinks[sink].on_packet_with(&packet, &Telemetry::EMPTY, true, &mut port, now);
                while sinks[sink].poll_reply(now).is_some() {}
            }
        }
        assert_eq!(sinks.map(|sink| sink.stats().cnps_sent), expected, "{scope:?}");
    }
}

#[test]
fn a_window_beside_a_rate_limits_what_is_in_flight() {
    let line = 100_000_000_000;
    for (kind, share, packets) in
        [(WindowKind::None, 1, 200), (WindowKind::Fixed, 4, 51), (WindowKind::ByRate, 4, 13)]
    {
        // 52,000 bytes at the line rate, 13,000 at a quarter of it.
        let window = SideWindow { kind, base_rtt: Span::from_ns(4160) };
        let mut pair = QueuePair::new(QueuePairSettings { window, ..settings() });
        pair.control = Controller::LineRate(LineRate(line / share));
        pair.send(200 * 1024);
        let mut sent = 0;
        for step in 0..2000 {
            sent += u64::from(pair.poll_data(Time(step * 100_000)).is_some());
        }
        assert_eq!(sent, packets, "{kind:?}");
    }
}

#[test]
fn a_queue_pair_is_quiescent_when_all_is_acknowledged() {
    let mut ends = [QueuePair::new(settings()), QueuePair::new(settings())];
    assert!(ends[0].is_quiescent());
    ends[0].send(1000);
    assert!(!ends[0].is_quiescent());
    let packet = ends[0].poll_transmit(Time::ZERO).expect("a packet is due");
    assert!(!ends[0].is_quiescent());
    ends[1].on_packet(&packet, false, Time::ZERO + Span::from_us(1));
    assert!(!ends[1].is_quiescent());
    let answer = ends[1].poll_transmit(Time::ZERO + Span::from_us(1)).expect("an acknowledgement is due");
    ends[0].on_packet(&answer, false, Time::ZERO + Span::from_us(2));
    assert!(ends.iter().all(QueuePair::is_quiescent));
}

/// Its PSNs are more than may be under way beside other messages (2^22), so it goes when nothing else does.
#[test]
fn a_read_of_many_packets_waits_until_all_else_is_acknowledged() {
    let mut end = QueuePair::new(settings());
    end.send(1000);
    end.read(5_000_000 * 1024);
    let first = end.poll_transmit(Time::ZERO).expect("a packet is due");
    assert!(first.opcode.is_data());
    assert!(end.poll_transmit(Time::ZERO + Span::from_us(1)).is_none());
    let mut peer = QueuePair::new(settings());
    peer.on_packet(&first, false, Time::ZERO + Span::from_us(1));
    let answer = peer.poll_transmit(Time::ZERO + Span::from_us(1)).expect("an acknowledgement is due");
    end.on_packet(&answer, false, Time::ZERO + Span::from_us(2));
    let request = end.poll_transmit(Time::ZERO + Span::from_us(3)).expect("the request is due");
    assert_eq!(request.opcode, Opcode::ReadRequest);
}
