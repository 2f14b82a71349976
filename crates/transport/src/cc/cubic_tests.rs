//! CUBIC against its formula, and `HyStart` on synthetic round trips.

use super::*;
use crate::cc::contract::{ack_sample, window_of};

const MSS: u64 = 1000;

fn cubic_config_without_hystart() -> CubicConfig {
    CubicConfig { hystart: false, ..CubicConfig::default() }
}

/// One round trip of `rtt` from `now`: an ACK for each segment, evenly spaced.
fn ack_one_round_trip(cubic: &mut Cubic, window: &mut CongestionWindow, now: &mut Time, rtt: Span) {
    let segments = window.cwnd / MSS;
    let begin = *now;
    for i in 1..=segments {
        *now = begin + Span(rtt.0 * i / segments);
        let ack = AckSample { now: *now, rtt, srtt: rtt, ..ack_sample(MSS, 0, 0) };
        cubic.on_ack(window, &ack);
        cubic.increase_window(window, &ack);
    }
}

#[test]
fn constants_of_linux() {
    let state = Cubic::new(CubicConfig::DEFAULT).0;
    assert_eq!((state.beta, state.c, state.friendly_scale), (717, 410, 15));
    let freebsd = Cubic::new(CubicConfig { beta: 0.8, ..cubic_config_without_hystart() }).0;
    assert_eq!((freebsd.beta, freebsd.friendly_scale), (819, 23));
    assert!(freebsd.hystart.is_none());
}

#[test]
fn cube_roots_are_exact() {
    for root in [0u64, 1, 2, 3, 1000, 65_536, 2_000_000, 2_642_245] {
        let cube = root.pow(3);
        assert_eq!(cube_root(cube), root);
        assert_eq!(cube_root(cube + 1), root.max(1));
        assert_eq!(cube_root(cube.saturating_sub(1)), root.saturating_sub(1));
    }
}

#[test]
fn cubic_keeps_beta_and_converges_fast() {
    let mut cubic = Cubic::new(cubic_config_without_hystart());
    // 1000 * 717 / 1024 = 700.2
    assert_eq!(cubic.on_congestion(&window_of(1000), CongestionCause::Loss), 700 * MSS);
    assert_eq!(cubic.0.w_max, 1000);
    // A smaller window than the last: 900 * 1741 / 2048 = 765.1
    assert_eq!(cubic.on_congestion(&window_of(900), CongestionCause::Loss), 630 * MSS);
    assert_eq!(cubic.0.w_max, 765);
    assert_eq!(cubic.on_congestion(&window_of(2), CongestionCause::Ecn), 2 * MSS);
    // The same window as at the last loss has not shrunk.
    let mut equal = Cubic::new(cubic_config_without_hystart());
    for _ in 0..2 {
        equal.on_congestion(&window_of(1000), CongestionCause::Loss);
        assert_eq!(equal.0.w_max, 1000);
    }
    let mut slow = Cubic::new(CubicConfig { fast_convergence: false, ..cubic_config_without_hystart() });
    slow.on_congestion(&window_of(1000), CongestionCause::Loss);
    slow.on_congestion(&window_of(900), CongestionCause::Loss);
    assert_eq!(slow.0.w_max, 900);
}

/// Between two losses: W(t) = C (t - K)^3 + `w_max` with K = cbrt(`w_max` (1 - beta) / C) (RFC 9438 §4.2). The window of each
/// round trip must lie between the curve at its begin and a round trip after it, within a segment and the steps of
/// the integer arithmetic.
#[test]
fn window_follows_cubic_curve() {
    for (w_max, rtt_ms) in [(1000u64, 20), (5000, 10), (400, 50)] {
        let mut cubic = Cubic::new(CubicConfig { friendly: false, ..cubic_config_without_hystart() });
        let ssthresh = cubic.on_congestion(&window_of(w_max), CongestionCause::Loss);
        let mut window = CongestionWindow { cwnd: ssthresh, ssthresh, mss: MSS as u32 };
        let (mut now, rtt) = (Time::ZERO + Span::from_secs(10), Span::from_ms(rtt_ms));
        let start = ssthresh as f64 / MSS as f64;
        let k = ((w_max as f64 - start) / 0.4).cbrt();
        let curve = |t: f64| 0.4 * (t - k).powi(3) + w_max as f64;
        let begin = now;
        let (mut rounds, mut plateau) = (0, false);
        while (now.0 - begin.0) as f64 / 1e12 < 1.5 * k {
            ack_one_round_trip(&mut cubic, &mut window, &mut now, rtt);
            rounds += 1;
            let t = (now.0 - begin.0) as f64 / 1e12;
            let seen = window.cwnd as f64 / MSS as f64;
            // The kernel's delay_min is unknown in the first second after a loss, so its target is W(t), not W(t + RTT).
            let (low, high) = (curve(t - 2.0 * rtt.as_secs_f64()), curve(t + rtt.as_secs_f64()));
            let slack = 2.0 + 0.004 * w_max as f64;
            assert!(seen > low - slack && seen < high + slack, "{t} s: {seen}, curve {low} to {high}");
            plateau |= (t - k).abs() < 0.1 * k && (seen - w_max as f64).abs() <= slack;
        }
        assert!(rounds > 50 && plateau, "{rounds} rounds");
    }
}

/// Where Reno would be faster (small windows, short RTTs; here a flat curve), CUBIC adds a segment for 15/8 windows
/// acknowledged: 3 (1 - beta) / (1 + beta) = 0.53 a round trip (RFC 9438 §4.3).
#[test]
fn cubic_is_not_slower_than_reno() {
    let grown = |friendly| {
        let mut cubic = Cubic::new(CubicConfig { friendly, c: 0.01, ..cubic_config_without_hystart() });
        let ssthresh = cubic.on_congestion(&window_of(100), CongestionCause::Loss);
        let mut window = CongestionWindow { cwnd: ssthresh, ssthresh, mss: MSS as u32 };
        let mut now = Time::ZERO + Span::from_secs(1);
        for _ in 0..50 {
            ack_one_round_trip(&mut cubic, &mut window, &mut now, Span::from_ms(40));
        }
        (window.cwnd - ssthresh) / MSS
    };
    // 50 round trips at 8/15: 26.7.
    assert!((25..=27).contains(&grown(true)), "{}", grown(true));
    // The curve after 2 s: 100 - 0.01 (14.42 - 2)^3 = 80.8.
    assert!((9..=11).contains(&grown(false)), "{}", grown(false));
}

/// No loss yet: at least 1/20 of the window a round trip, and never more than a half.
#[test]
fn cubic_growth_per_rtt_is_bounded() {
    let mut cubic = Cubic::new(cubic_config_without_hystart());
    let mut window = CongestionWindow { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS as u32 };
    let mut now = Time::ZERO + Span::from_secs(1);
    ack_one_round_trip(&mut cubic, &mut window, &mut now, Span::from_ms(1));
    assert_eq!(window.cwnd, 105 * MSS);
    // An epoch that began long ago: the curve is steep, and cnt is 2.
    cubic.on_congestion(&window_of(100), CongestionCause::Loss);
    ack_one_round_trip(&mut cubic, &mut window, &mut now, Span::from_ms(1));
    now += Span::from_secs(200);
    let before = window.cwnd;
    ack_one_round_trip(&mut cubic, &mut window, &mut now, Span::from_ms(1));
    assert!(window.cwnd > before + before / 3 && window.cwnd <= before + before / 2 + MSS);
}

#[test]
fn a_timeout_forgets_the_path_and_idle_time_does_not_count() {
    let mut cubic = Cubic::new(CubicConfig::DEFAULT);
    let mut window = CongestionWindow { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS as u32 };
    let mut now = Time::ZERO + Span::from_secs(1);
    ack_one_round_trip(&mut cubic, &mut window, &mut now, Span::from_ms(1));
    assert_eq!(cubic.0.epoch_start, Some(1000));
    cubic.on_idle_restart(Span::from_ms(500));
    assert_eq!(cubic.0.epoch_start, Some(1500));
    cubic.on_congestion(&window, CongestionCause::Loss);
    cubic.on_timeout();
    assert_eq!((cubic.0.w_max, cubic.0.delay_min, cubic.0.epoch_start), (0, 0, None));
}

/// Feeds a round of `acks` ACKs `gap` us apart with that RTT; true if slow start ended.
fn feed_hystart_round(cubic: &mut Cubic, window: &mut CongestionWindow, now_us: u64, acks: u64, gap: u64, rtt_us: u64) -> Option<u64> {
    let una = now_us * 1000;
    for i in 0..acks {
        let rtt = Span::from_us(rtt_us);
        let now = Time::ZERO + Span::from_us(now_us + i * gap);
        // The first ACK of the round begins it: snd_nxt is the last ACK's snd_una.
        let ack = AckSample { now, rtt, srtt: rtt, ..ack_sample(0, una + 1 + i, una + acks) };
        cubic.on_ack(window, &ack);
        if window.ssthresh == window.cwnd {
            return Some(i);
        }
    }
    None
}

/// The delay detector needs nine samples of a round, all longer than the smallest RTT ever by an eighth, but at least 4
/// and at most 16 ms.
#[test]
fn hystart_exits_on_rising_rtt() {
    for (base_us, threshold_us) in [(10_000, 4_000), (64_000, 8_000), (200_000, 16_000)] {
        let mut cubic = Cubic::new(CubicConfig::DEFAULT);
        let mut window = window_of(64);
        let mut now = 1_000_000;
        // ACKs 1 us apart: the train is never long.
        let mut rtt = base_us;
        loop {
            let left = feed_hystart_round(&mut cubic, &mut window, now, 20, 1, rtt);
            if rtt > base_us + threshold_us {
                assert_eq!(left, Some(8), "the ninth sample of a round of {rtt} us");
                break;
            }
            assert_eq!(left, None, "{rtt} us");
            rtt += threshold_us / 4 + 1;
            now += 1_000_000;
        }
        assert_eq!(window.ssthresh, 64 * MSS);
    }
}

/// The train detector: ACKs 20 us apart for more than (smallest RTT + what offloads hold) / 2.
#[test]
fn hystart_exits_on_long_ack_train() {
    let mut cubic = Cubic::new(CubicConfig::DEFAULT);
    // 1000 segments and 10 ms: pacing at 200 MB/s, 4 * 65536 bytes take 1311 us, so the limit of 1 ms holds.
    let mut window = window_of(1000);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 1_000_000, 276, 20, 10_000), None);
    // (10000 + 1000) / 2 = 5500 us: the ACK after 5520 us.
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 2_000_000, 300, 20, 10_000), Some(276));
    // A pause of more than 2 ms ends the train.
    let mut cubic = Cubic::new(CubicConfig::DEFAULT);
    let mut window = window_of(1000);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 1_000_000, 8, 2_001, 10_000), None);
    // Below 16 segments nothing is judged.
    let mut cubic = Cubic::new(CubicConfig::DEFAULT);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window_of(15), 1_000_000, 300, 20, 1_000), None);
}

/// Rounds are counted while the window is still too small to judge: the train below began 400 us before it reached 16
/// segments, and is 500 us + long when it is judged. A round begun there would be judged later.
#[test]
fn hystart_counts_rounds_from_the_first_ack() {
    let mut cubic = Cubic::new(CubicConfig::DEFAULT);
    let mut window = window_of(10);
    let mut left = None;
    for i in 0..60 {
        let now = Time::ZERO + Span::from_us(10_000 + i * 20);
        let rtt = Span::from_us(100);
        // 4 * 65536 bytes at 2 * cwnd / srtt: above 1 ms below 13 segments, 546 us at 24.
        window.cwnd = if i < 20 { 10 * MSS } else { 24 * MSS };
        let ack = AckSample { now, rtt, srtt: rtt, ..ack_sample(0, 1 + i, 100) };
        cubic.on_ack(&mut window, &ack);
        if window.ssthresh == window.cwnd {
            left = Some(i);
            break;
        }
    }
    // (100 + 546) / 2 = 323 us: long past at the first ACK that is judged.
    assert_eq!(left, Some(20));
}

/// Linux before 5.6: a train is long when a tick of 1 ms falls into it, if half of the RTT is below a tick. The ACK that
/// begins a round still belongs to the train before.
#[test]
fn hystart_in_milliseconds_leaves_at_a_tick() {
    let config = CubicConfig { hystart_milliseconds: true, ..CubicConfig::DEFAULT };
    let mut cubic = Cubic::new(config);
    let mut window = window_of(64);
    // 5.0 to 5.24 ms, 5.3 to 5.54 ms: no tick.
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 5_000, 20, 12, 240), None);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 5_300, 20, 12, 240), None);
    // 5.9 to 6.1 ms: the tick comes before the ninth ACK.
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 5_900, 20, 12, 240), Some(9));
    // Between two rounds: the first ACK of the next one finds it.
    let mut cubic = Cubic::new(config);
    let mut window = window_of(64);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 5_700, 20, 12, 240), None);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 6_001, 20, 12, 240), Some(0));
    // Half of 10 ms are five ticks: the sixth ends it.
    let mut cubic = Cubic::new(config);
    let mut window = window_of(1000);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 1_000_000, 300, 20, 10_000), None);
    assert_eq!(feed_hystart_round(&mut cubic, &mut window, 1_010_000, 400, 20, 10_000), Some(300));
}
