//! Things that can be worked out by hand: round trips of slow start, growth, halving, alpha, timeouts.

use crate::common::{self, Fate, MSS, Sent, Wire, config, dctcp, us};
use pauseframe_transport::*;
use pauseframe_units::{Span, Time};

const DELAY: Span = Span::from_us(50);

fn all(_: &Sent) -> Fate {
    Fate::Deliver
}

fn is_data(sent: &Sent) -> bool {
    sent.segment.len > 0
}

fn delayed(mut config: TcpConfig) -> TcpConfig {
    config.delayed_ack = DelayedAckConfig { segments: 2, timeout: Span::from_ms(40) };
    config
}

/// With an initial window of w segments, r round trips carry w (2^r - 1) segments; the last byte arrives half a round
/// trip after the last of them begins.
#[test]
fn slow_start_takes_the_round_trips_of_the_formula() {
    for config in [config(), delayed(config()), dctcp(), TcpConfig { sack: true, ..delayed(dctcp()) }] {
        for (segments, rounds) in
            [(1, 1), (10, 1), (11, 2), (30, 2), (31, 3), (70, 3), (71, 4), (10 * 1023, 10)]
        {
            let mut wire = Wire::new(config.clone(), DELAY, all);
            wire.send(0, segments * MSS);
            let finish = wire.run_until_delivered(1, segments * MSS);
            assert_eq!(finish, us((2 * rounds - 1) * 50), "{segments} segments");
        }
    }
}

#[test]
fn the_handshake_costs_one_round_trip() {
    let mut wire = Wire::new(TcpConfig { handshake: true, ..config() }, DELAY, all);
    wire.send(0, 31 * MSS);
    assert!(!wire.ends[0].is_established());
    assert_eq!(wire.run_until_delivered(1, 31 * MSS), us(100 + 250));
    wire.run();
    assert!(wire.ends.iter().all(Connection::is_quiescent));
    assert_eq!(wire.ends[0].srtt(), Some(DELAY * 2));
    assert_eq!(wire.ends[1].srtt(), Some(DELAY * 2), "from SYN-ACK to ACK");
}

#[test]
fn a_window_of_data_doubles_cwnd_and_every_window_after_it_too() {
    for config in [config(), delayed(config())] {
        let mut wire = Wire::new(config, DELAY, all);
        wire.send(0, 10_000 * MSS);
        for round in 0..8 {
            wire.run_until(us(100 * round + 99));
            assert_eq!(wire.ends[0].cwnd(), (10 * MSS) << round);
            assert_eq!(wire.ends[0].flight_size(), wire.ends[0].cwnd());
        }
    }
}

/// ECE in the third round trip halves 40 segments to 20; from then on one segment a round trip.
#[test]
fn congestion_avoidance_adds_a_segment_each_round_trip() {
    for config in [config(), delayed(config())] {
        let config = TcpConfig { ecn: EcnMode::Classic, ..config };
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && sent.index == 35 { Fate::Mark } else { Fate::Deliver }
        });
        wire.send(0, 10_000 * MSS);
        wire.run_until(us(299));
        assert_eq!(wire.ends[0].cwnd(), 40 * MSS);
        wire.run_until(us(301));
        // Five or six ACKs of new data were in slow start before the ACK with ECE.
        let halved = wire.ends[0].ssthresh();
        assert!((22 * MSS..=23 * MSS).contains(&halved), "{halved}");
        assert_eq!(wire.ends[0].cwnd(), halved);
        assert_eq!(wire.ends[0].stats().ecn_reductions, 1);
        // One window is sent in reply to the cut, then the count begins.
        wire.run_until(us(599));
        let start = wire.ends[0].cwnd();
        for round in 1..=10 {
            wire.run_until(us(599 + 100 * round));
            let growth = wire.ends[0].cwnd() - start;
            assert!(
                growth.abs_diff(round * MSS) <= MSS / 2 || growth.abs_diff(round * MSS) == MSS,
                "{growth}"
            );
        }
    }
}

/// Every packet of one window marked: still one halving (RFC 3168), and one CWR.
#[test]
fn marks_halve_the_window_once() {
    let config = TcpConfig { ecn: EcnMode::Classic, ..config() };
    let mut wire = Wire::new(config, DELAY, |sent| {
        if is_data(sent) && (10..30).contains(&sent.index) { Fate::Mark } else { Fate::Deliver }
    });
    wire.send(0, 200 * MSS);
    wire.run();
    let stats = wire.ends[0].stats();
    assert_eq!((stats.ecn_reductions, stats.retransmits), (1, 0));
    assert_eq!(wire.ends[0].ssthresh(), 10 * MSS, "20 segments, halved");
    assert_eq!(wire.ends[1].stats().ce_received, 20);
    let cwr = wire.log.iter().filter(|sent| sent.segment.flags.contains(TcpFlags::CWR)).count();
    assert_eq!(cwr, 1);
}

#[test]
fn a_lost_segment_halves_the_window_and_costs_one_retransmission() {
    for sack in [false, true] {
        let config = TcpConfig { sack, ..config() };
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && sent.index == 10 { Fate::Drop } else { Fate::Deliver }
        });
        wire.send(0, 100 * MSS);
        wire.run_until(us(199));
        assert_eq!(wire.ends[0].cwnd(), 20 * MSS);
        wire.run_until(us(201));
        assert_eq!(wire.ends[0].cwnd(), 10 * MSS);
        assert_eq!(wire.ends[0].ssthresh(), 10 * MSS);
        wire.run();
        let stats = wire.ends[0].stats();
        assert_eq!((stats.retransmits, stats.fast_retransmits, stats.timeouts), (1, 1, 0));
        assert_eq!(wire.ends[1].delivered_bytes(), 100 * MSS);
    }
}

/// Four losses in one window: NewReno repairs one a round trip, SACK all in the first; both halve once.
#[test]
fn several_losses_halve_once() {
    for (sack, repaired_by) in [(false, 4), (true, 2)] {
        let config = TcpConfig { sack, ..config() };
        let lost = [12, 15, 18, 21];
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && lost.contains(&sent.index) { Fate::Drop } else { Fate::Deliver }
        });
        wire.send(0, 200 * MSS);
        let all_repaired = wire.run_until_delivered(1, 23 * MSS);
        assert!(all_repaired <= us(250 + 100 * repaired_by), "{all_repaired:?}");
        wire.run();
        let stats = wire.ends[0].stats();
        assert_eq!((stats.retransmits, stats.fast_retransmits, stats.timeouts), (4, 1, 0), "sack {sack}");
        assert_eq!(wire.ends[1].delivered_bytes(), 200 * MSS);
    }
}

/// With g = 1/16 the distance of alpha to the fraction of marks shrinks to 15/16 with each window. The first ACK ends
/// an empty window, the tenth the first real one; then it is one window a round trip.
#[test]
fn alpha_goes_to_the_marked_fraction_geometrically() {
    for (initial, fate, target) in [(1.0, Fate::Deliver, 0.0), (0.0, Fate::Mark, 1.0)] {
        let settings = DctcpConfig { alpha_initial: initial, ..DctcpConfig::default() };
        let config = TcpConfig { congestion_control: CongestionControlConfig::Dctcp(settings), ..dctcp() };
        let mut wire = Wire::new(config, DELAY, |_| fate);
        wire.send(0, u64::MAX);
        let mut distance: f64 = 15.0 / 16.0;
        for round in 1..6 {
            wire.run_until(us(100 * round + 1));
            distance *= 15.0 / 16.0;
            let alpha = wire.ends[0].dctcp_alpha().unwrap();
            assert!(((alpha - target).abs() - distance).abs() < 1e-12, "round {round}: {alpha}");
        }
    }
}

/// A flow of one segment per round trip: each ACK ends a window, so alpha is exact.
#[test]
fn alpha_is_exact_one_segment_at_a_time() {
    let marked = [false, true, true, false, true, false, false];
    let mut wire = Wire::new(dctcp(), DELAY, |sent| {
        if sent.from == 0 && is_data(sent) && marked[sent.index] { Fate::Mark } else { Fate::Deliver }
    });
    let mut alpha = 1.0;
    for (i, &mark) in marked.iter().enumerate() {
        wire.send(0, MSS);
        wire.run();
        alpha = alpha * (1.0 - 1.0 / 16.0) + if mark { 1.0 / 16.0 } else { 0.0 };
        assert_eq!(wire.ends[0].dctcp_alpha(), Some(alpha), "after segment {i}");
    }
}

/// The cut is alpha / 2 at once, once per window; no growth in that window.
#[test]
fn dctcp_cuts_by_half_of_alpha() {
    let settings = DctcpConfig { alpha_initial: 0.0, ..DctcpConfig::default() };
    let config = TcpConfig { congestion_control: CongestionControlConfig::Dctcp(settings), ..dctcp() };
    let mut wire = Wire::new(config, DELAY, |sent| {
        if is_data(sent) && (10..30).contains(&sent.index) { Fate::Mark } else { Fate::Deliver }
    });
    wire.send(0, u64::MAX);
    wire.run_until(us(199));
    assert_eq!((wire.ends[0].cwnd(), wire.ends[0].dctcp_alpha()), (20 * MSS, Some(0.0)));
    wire.run_until(us(201));
    // The first ECE comes with alpha still 0: the window stays at 20 segments, but Cwr begins, so nothing is added
    // either. The last of its ACKs ends the window with M = 1.
    assert_eq!(wire.ends[0].stats().ecn_reductions, 1);
    assert_eq!(wire.ends[0].ssthresh(), 20 * MSS);
    assert_eq!(wire.ends[0].cwnd(), 20 * MSS);
    assert_eq!(wire.ends[0].dctcp_alpha(), Some(1.0 / 16.0));
}

/// A single segment lost n times arrives after the initial timeout, doubled each time.
#[test]
fn back_off_doubles_between_retransmissions() {
    for (losses, arrival) in [(0, 0), (1, 100), (2, 300), (3, 700), (4, 1_500)] {
        let mut wire = Wire::new(config(), DELAY, |sent| {
            if is_data(sent) && sent.index < losses { Fate::Drop } else { Fate::Deliver }
        });
        wire.send(0, MSS);
        assert_eq!(wire.run_until_delivered(1, MSS), us(arrival * 1000 + 50));
        assert_eq!(wire.ends[0].stats().timeouts as usize, losses);
    }
}

/// srtt = R, rttvar = R/2 from the first sample: the three forms of the timeout, seen from outside.
#[test]
fn the_first_sample_sets_the_timeout_in_each_form() {
    for (form, expected) in [
        (RtoForm::Rfc, Span::from_ms(10)),
        (RtoForm::Linux, Span::from_us(10_100)),
        (RtoForm::Freebsd, Span::from_ms(30)),
    ] {
        let mut config = config();
        config.rto.form = form;
        config.rto.slop = Span::from_ms(20);
        let mut wire = Wire::new(config, DELAY, all);
        wire.send(0, MSS);
        wire.run();
        assert_eq!(wire.ends[0].srtt(), Some(Span::from_us(100)));
        assert_eq!(wire.ends[0].rto(), expected);
    }
}

#[test]
fn after_a_timeout_the_window_is_one_segment_and_slow_start_goes_to_half() {
    for sack in [false, true] {
        // The whole second flight of 20 is lost.
        let config = TcpConfig { sack, ..config() };
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && (10..30).contains(&sent.index) { Fate::Drop } else { Fate::Deliver }
        });
        wire.send(0, 100 * MSS);
        wire.run_until(us(200));
        let before = wire.ends[0].rto();
        // The timer runs from the last ACK, at 100 us.
        let timeout = us(100) + before;
        wire.run_until(timeout);
        assert_eq!(wire.ends[0].cwnd(), MSS);
        assert_eq!(wire.ends[0].ssthresh(), 10 * MSS);
        assert_eq!(wire.ends[0].rto(), before * 2);
        for (rounds, cwnd) in [(1, 2), (2, 4), (3, 8), (4, 10)] {
            wire.run_until(timeout + DELAY * 2 * rounds);
            assert_eq!(wire.ends[0].cwnd(), cwnd * MSS, "sack {sack}, round {rounds}");
        }
        wire.run();
        let stats = wire.ends[0].stats();
        assert_eq!((stats.timeouts, stats.retransmits), (1, 20));
        assert_eq!(wire.ends[1].delivered_bytes(), 100 * MSS);
    }
}

/// A SYN that is never answered: tries at 0, 100, 300, 700 ms; given up at 1500 ms.
#[test]
fn a_syn_without_answer_is_given_up() {
    let config = TcpConfig { handshake: true, syn_retries: 3, ..config() };
    let mut wire = Wire::new(config, DELAY, |_| Fate::Drop);
    wire.send(0, MSS);
    wire.run();
    assert_eq!(wire.ends[0].failure(), Some(ConnectionFailure::SynTimeout));
    assert!(wire.ends[0].is_quiescent() && !wire.ends[0].is_established());
    assert_eq!(wire.now, us(1_500_000));
    let tries: Vec<Time> = wire.log.iter().map(|sent| sent.at).collect();
    assert_eq!(tries, [us(0), us(100_000), us(300_000), us(700_000)]);
    assert_eq!(wire.ends[0].stats().retransmits, 3);
}

#[test]
fn a_syn_ack_without_answer_is_given_up_too() {
    let config = TcpConfig { handshake: true, syn_retries: 2, ..config() };
    let mut wire = Wire::new(config, DELAY, |sent| if sent.from == 1 { Fate::Drop } else { Fate::Deliver });
    wire.send(0, MSS);
    wire.run();
    assert_eq!(wire.ends[1].failure(), Some(ConnectionFailure::SynTimeout));
    assert_eq!(wire.ends[0].failure(), Some(ConnectionFailure::SynTimeout));
}

#[test]
fn data_without_answer_are_given_up() {
    let config = TcpConfig { retries: 3, ..config() };
    let mut wire = Wire::new(config, DELAY, |_| Fate::Drop);
    wire.send(0, MSS);
    wire.run();
    assert_eq!(wire.ends[0].failure(), Some(ConnectionFailure::DataTimeout));
    assert_eq!(wire.now, us(1_500_000), "100 + 200 + 400 + 800 ms");
    assert_eq!(wire.ends[0].poll_transmit(wire.now), None);
    assert_eq!(wire.ends[0].deadline(), None);
}

#[test]
fn one_segment_waits_for_the_delayed_ack_and_two_do_not() {
    let mut wire = Wire::new(delayed(config()), DELAY, all);
    wire.send(0, MSS);
    wire.run();
    assert_eq!(wire.now, us(40_000 + 100));
    let mut wire = Wire::new(delayed(config()), DELAY, all);
    wire.send(0, 2 * MSS);
    wire.run();
    assert_eq!(wire.now, us(100));
    assert_eq!(wire.log.len(), 3, "two segments, one ACK");
}

/// The application hands over two segments a round trip: the window has no reason to grow beyond twice what was used.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut wire = Wire::new(config(), DELAY, all);
    for _ in 0..50 {
        wire.send(0, 2 * MSS);
        wire.run();
    }
    assert_eq!(wire.ends[0].cwnd(), 10 * MSS);
    // Six of ten in slow start count as more than half: growth up to twice the six, at most two segments more.
    let mut wire = Wire::new(config(), DELAY, all);
    for _ in 0..50 {
        wire.send(0, 6 * MSS);
        wire.run();
    }
    assert_eq!(wire.ends[0].cwnd(), 12 * MSS);
    // A window that was full once and is not any more stays as it is.
    let mut wire = Wire::new(config(), DELAY, all);
    wire.send(0, 100 * MSS);
    wire.run();
    let full = wire.ends[0].cwnd();
    assert!(full > 50 * MSS, "{full}");
    for _ in 0..50 {
        wire.send(0, 2 * MSS);
        wire.run();
    }
    assert_eq!(wire.ends[0].cwnd(), full);
}

#[test]
fn the_receive_window_limits_the_flight_and_cwnd_with_it() {
    let config = TcpConfig { receive_window: 8_500, ..config() };
    let mut wire = Wire::new(config, DELAY, all);
    wire.send(0, 100 * MSS);
    assert_eq!(wire.ends[0].flight_size(), 8 * MSS, "no half segment while others are in flight");
    wire.run();
    assert_eq!(wire.ends[1].delivered_bytes(), 100 * MSS);
    assert!(wire.ends[0].cwnd() <= 17 * MSS, "{}", wire.ends[0].cwnd());
    // A window of less than a segment: one piece a round trip.
    let config = TcpConfig { receive_window: 300, ..common::config() };
    let mut wire = Wire::new(config, DELAY, all);
    wire.send(0, 3 * MSS);
    assert_eq!(wire.run_until_delivered(1, 3 * MSS), us(50 + 9 * 100));
}

#[test]
fn stop_sending_keeps_what_was_sent() {
    let mut wire = Wire::new(config(), DELAY, all);
    wire.send(0, u64::MAX);
    wire.run_until(us(120));
    wire.ends[0].discard_unsent();
    wire.run();
    assert_eq!(wire.ends[1].delivered_bytes(), 30 * MSS);
    assert!(wire.ends.iter().all(Connection::is_quiescent));
}

#[test]
fn both_directions_share_their_segments() {
    let mut wire = Wire::new(delayed(config()), DELAY, all);
    wire.send(0, MSS);
    wire.run_until(us(60));
    wire.send(1, 500);
    wire.run_until(us(120));
    assert_eq!((wire.ends[0].acked_bytes(), wire.ends[0].delivered_bytes()), (MSS, 500));
    assert_eq!(wire.log.len(), 2, "the reply carries the ACK");
}

/// Without fast retransmit a reordered path causes neither retransmission nor reduction.
#[test]
fn reordering_is_harmless_without_fast_retransmit() {
    for sack in [false, true] {
        let config = TcpConfig { sack, fast_retransmit: false, ..config() };
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && sent.index % 5 == 0 { Fate::Late(Span::from_us(30)) } else { Fate::Deliver }
        });
        wire.send(0, 500 * MSS);
        wire.run();
        let stats = wire.ends[0].stats();
        assert_eq!((stats.retransmits, stats.fast_retransmits, stats.timeouts), (0, 0, 0));
        assert_eq!(wire.ends[0].ssthresh(), u64::MAX);
        assert_eq!(wire.ends[1].delivered_bytes(), 500 * MSS);
    }
}

/// After a timeout SACK keeps what has arrived from being sent again, also where fast retransmit is off.
#[test]
fn what_is_sacked_is_not_sent_again_after_a_timeout() {
    for (sack, retransmits) in [(true, 1), (false, 10)] {
        let config = TcpConfig { sack, fast_retransmit: false, ..config() };
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && sent.index == 0 { Fate::Drop } else { Fate::Deliver }
        });
        wire.send(0, 10 * MSS);
        wire.run();
        let stats = wire.ends[0].stats();
        assert_eq!(stats.timeouts, 1);
        // Without SACK the first retransmission fills the gap and the ACK covers all.
        assert_eq!(stats.retransmits, retransmits.min(1));
        assert_eq!(wire.ends[1].delivered_bytes(), 10 * MSS);
    }
}

/// A closed window is probed at the timeout, backed off, and the flow goes on when it opens.
#[test]
fn a_closed_window_is_probed() {
    let mut sender = Connection::open(std::sync::Arc::new(config()), 0, 0, Time::ZERO);
    sender.write(5 * MSS, Time::ZERO);
    while sender.poll_transmit(Time::ZERO).is_some() {}
    let mut now = us(100);
    let close = |ack| Segment { ack, window: 0, flags: TcpFlags::ACK, seq: 1, ..Segment::default() };
    sender.on_segment(&close(5_001), EcnCodepoint::NotEct, now);
    sender.write(5 * MSS, now);
    assert_eq!(sender.poll_transmit(now), None);
    let mut gaps = Vec::new();
    for _ in 0..20 {
        let deadline = sender.deadline().expect("the persist timer runs");
        gaps.push((deadline - now).0 / 1_000_000_000);
        now = deadline;
        sender.on_timeout(now);
        let (probe, codepoint) = sender.poll_transmit(now).expect("a probe");
        assert_eq!((probe.seq, probe.len, codepoint), (5_001, 1, EcnCodepoint::NotEct));
        assert_eq!(sender.poll_transmit(now), None);
        sender.on_segment(&close(5_001), EcnCodepoint::NotEct, now);
    }
    assert_eq!(gaps[..5], [10, 20, 40, 80, 160]);
    assert_eq!(sender.failure(), None, "the peer answers");
    assert_eq!((sender.cwnd(), sender.stats().timeouts), (10 * MSS, 0));
    sender.on_segment(&Segment { window: 60_000, ..close(5_001) }, EcnCodepoint::NotEct, now);
    let sent: Vec<(u32, u32)> = std::iter::from_fn(|| sender.poll_transmit(now))
        .map(|(segment, _)| (segment.seq, segment.len))
        .collect();
    assert_eq!(sent[0], (5_001, 1), "the refused byte first");
    assert_eq!(sent.iter().map(|&(_, len)| u64::from(len)).sum::<u64>(), 5 * MSS);
}

/// Loss in a window that ECE has cut slightly: in all it is halved, not cut and then halved.
#[test]
fn a_loss_after_a_cut_for_ece_halves_in_all() {
    let settings = DctcpConfig { alpha_initial: 0.2, ..DctcpConfig::default() };
    let config =
        TcpConfig { congestion_control: CongestionControlConfig::Dctcp(settings), sack: true, ..dctcp() };
    let mut wire = Wire::new(config, DELAY, |sent| match (is_data(sent), sent.index) {
        (true, 10) => Fate::Mark,
        (true, 15) => Fate::Drop,
        _ => Fate::Deliver,
    });
    wire.send(0, u64::MAX);
    wire.run_until(us(199));
    assert_eq!(wire.ends[0].cwnd(), 20 * MSS);
    wire.run_until(us(201));
    let stats = wire.ends[0].stats();
    assert_eq!((stats.ecn_reductions, stats.fast_retransmits), (1, 1));
    assert_eq!(wire.ends[0].ssthresh(), 10 * MSS);
}

/// ECN code points: data are ECT(0); control packets only where the settings say so.
#[test]
fn code_points_follow_the_settings() {
    for (ect_on_syn, ect_on_ack) in [(false, false), (false, true), (true, false), (true, true)] {
        let config = TcpConfig { handshake: true, ect_on_syn, ect_on_ack, ..dctcp() };
        let mut wire = Wire::new(config, DELAY, |sent| {
            if is_data(sent) && sent.index == 8 { Fate::Drop } else { Fate::Deliver }
        });
        wire.send(0, 40 * MSS);
        wire.run();
        let mut highest = 0;
        for sent in wire.log.iter().filter(|sent| sent.from == 0) {
            let new = is_data(sent) && sent.segment.seq >= highest;
            highest = highest.max(sent.segment.seq + sent.segment.len);
            let is_syn = sent.segment.flags.contains(TcpFlags::SYN);
            let ect = new || if is_syn { ect_on_syn } else { ect_on_ack };
            let expected = if ect { EcnCodepoint::Ect0 } else { EcnCodepoint::NotEct };
            assert_eq!(sent.codepoint, expected, "{sent:?}");
        }
        assert_eq!(wire.ends[0].stats().retransmits, 1);
    }
}

/// Where one end has no ECN or SACK, neither is used.
#[test]
fn what_one_end_lacks_is_not_used() {
    use std::sync::Arc;
    let full = Arc::new(TcpConfig { handshake: true, sack: true, ..dctcp() });
    let plain = Arc::new(TcpConfig { handshake: true, mss: 600, ..config() });
    for (active, passive) in [(&full, &plain), (&plain, &full)] {
        let mut a = Connection::open(active.clone(), 7, 0, Time::ZERO);
        let mut b = Connection::accept(passive.clone(), 9, 0);
        a.write(3000, Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..20 {
            now += DELAY;
            while let Some((segment, codepoint)) = a.poll_transmit(now) {
                assert_eq!(codepoint, EcnCodepoint::NotEct);
                assert!(segment.len <= 600);
                b.on_segment(&segment, codepoint, now);
            }
            while let Some((segment, codepoint)) = b.poll_transmit(now) {
                assert_eq!(codepoint, EcnCodepoint::NotEct);
                a.on_segment(&segment, codepoint, now);
            }
        }
        assert_eq!(b.delivered_bytes(), 3000);
    }
}

/// Linux `tcp_cwnd_application_limited`: a window that the peer's leaves unused shrinks half-way to what is used once an RTO, but not while the
/// application waits for room in the send buffer: then it is not the application that sends too little.
#[test]
fn a_full_send_buffer_keeps_the_window() {
    let window_after = |send_buffer| {
        let recovery = RecoveryConfig { idle_restart: IdleRestart::Linux, ..RecoveryConfig::PLAIN };
        let (send_buffer_initial, send_buffer_max) = (40_000, 40_000);
        let config = TcpConfig {
            recovery,
            send_buffer,
            send_buffer_initial,
            send_buffer_max,
            initial_window: 2 * MSS,
            ..config()
        };
        let mut tcp = Connection::open(std::sync::Arc::new(config), 0, 0, us(0));
        tcp.write(10_000 * MSS, us(0));
        let mut sent = 1;
        let mut grown = 0;
        for round in 0..40 {
            while let Some((segment, _)) = tcp.poll_transmit(us(1000 * round)) {
                sent = segment.seq.wrapping_add(segment.len);
            }
            if round == 4 {
                grown = tcp.cwnd();
            }
            let window = if round < 4 { 1 << 20 } else { 4 * MSS as u32 };
            let ack = Segment { seq: 1, ack: sent, window, flags: TcpFlags::ACK, ..Segment::default() };
            tcp.on_segment(&ack, EcnCodepoint::NotEct, us(1000 * round + 500));
        }
        (grown, tcp.cwnd())
    };
    let (grown, after) = window_after(SendBuffer::Linux);
    assert!(after >= grown, "{after} after {grown}");
    let (grown, after) = window_after(SendBuffer::Unlimited);
    assert!(after < grown, "{after} after {grown}");
}
