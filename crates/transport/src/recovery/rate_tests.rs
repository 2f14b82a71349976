//! Delivery samples step by step, and when F-RTO begins.

use super::*;
use crate::cc::CongestionControlConfig;
use crate::connection::Connection;
use crate::recovery::frto::FrtoState;
use crate::recovery::{RecoveryConfig, RecoveryPhase};
use crate::segment::EcnCodepoint;
use std::sync::Arc;

fn us(time: u64) -> Time {
    Time::ZERO + Span::from_us(time)
}

/// A segment that is sent again counts from its last transmission on, and stands once in the list.
#[test]
fn the_last_transmission_of_a_segment_counts() {
    let mut rate = DeliveryRate::default();
    rate.record_sent(0, us(1), true);
    rate.record_sent(0, us(2), false);
    assert_eq!((rate.sent.len(), rate.sent_state(1000).map(|sent| sent.sent_at)), (1, Some(us(2))));
    rate.record_sent(1000, us(3), false);
    rate.record_sent(0, us(4), false);
    assert_eq!((rate.sent.len(), rate.sent_state(1000).map(|sent| sent.sent_at)), (2, Some(us(4))));
    assert_eq!(rate.sent_state(1001).map(|sent| sent.sent_at), Some(us(3)));
    assert!(rate.sent_state(0).is_none());
}

/// Frames of a super-packet are one packet: what is known of the first holds for all.
#[test]
fn frames_that_leave_together_share_a_state() {
    let mut rate = DeliveryRate::default();
    rate.record_sent(0, us(5), true);
    rate.delivered = 700;
    rate.record_sent(1000, us(5), false);
    rate.record_sent(2000, us(6), false);
    let delivered = |end| rate.sent_state(end).map(|sent| sent.delivered);
    assert_eq!([delivered(1000), delivered(2000), delivered(3000)], [Some(0), Some(0), Some(700)]);
}

#[test]
fn acknowledged_segments_are_forgotten() {
    let mut rate = DeliveryRate::default();
    for (number, start) in [0, 1000, 2000].into_iter().enumerate() {
        rate.record_sent(start, us(number as u64), number == 0);
    }
    let mut left = |una, nxt| {
        rate.forget_acked(una, nxt);
        rate.sent.len()
    };
    assert_eq!([left(999, 3000), left(1000, 3000), left(2500, 3000), left(3000, 3000)], [3, 2, 1, 0]);
}

/// The longer of the times that sending and acknowledging took, and no sample below the smallest round trip.
#[test]
fn a_sample_takes_the_longer_interval() {
    let newly =
        |bytes, min_rtt| Newly { bytes, latest: Some((us(0), 2000)), min_rtt: Span::from_us(min_rtt) };
    let begin = || {
        let mut rate = DeliveryRate::default();
        rate.record_sent(0, us(10), true);
        rate.record_sent(1000, us(40), false);
        rate
    };
    // Sent within 30 us, acknowledged 35 or 25 us after the connection began to send.
    assert_eq!(begin().sample(&newly(2000, 20), us(45)), Some((0, 35, false)));
    assert_eq!(begin().sample(&newly(2000, 20), us(35)), Some((0, 30, false)));
    assert_eq!(begin().sample(&newly(2000, 35), us(45)), Some((0, 35, false)));
    assert_eq!(begin().sample(&newly(2000, 36), us(45)), None);
    let mut rate = begin();
    rate.app_limited = 2000;
    rate.sample(&newly(2000, 20), us(45));
    assert_eq!((rate.app_limited, rate.delivered, rate.delivered_at), (2000, 2000, us(45)));
    rate.sample(&newly(0, 20), us(46));
    assert_eq!((rate.app_limited, rate.delivered_at), (2000, us(45)));
    rate.sample(&newly(1, 20), us(47));
    assert_eq!((rate.app_limited, rate.delivered_at), (0, us(47)));
}

fn bbr() -> TcpConfig {
    TcpConfig {
        congestion_control: CongestionControlConfig::Bbr,
        mss: 1000,
        initial_window: 10_000,
        sack: true,
        recovery: RecoveryConfig::LINUX,
        ..TcpConfig::PLAIN
    }
}

/// `tcp_rate_check_app_limited`: a pause of the application limits what it writes next, unless the window was full.
#[test]
fn a_pause_of_the_application_limits_samples() {
    let config = Arc::new(bbr());
    for (written, is_limited) in [(1000, true), (9000, true), (10_000, false), (20_000, false)] {
        let mut sender = Connection::open(config.clone(), 1, 2, Time::ZERO);
        sender.write(written, us(1));
        while sender.poll_transmit(us(1)).is_some() {}
        if let Some(rate) = sender.sender.delivery_rate_mut() {
            (rate.delivered, rate.app_limited) = (500, 0);
        }
        sender.write(1, us(2));
        let expected = if is_limited { 500 + written } else { 0 };
        assert_eq!(sender.sender.delivery_rate().map(|rate| rate.app_limited), Some(expected), "{written}");
        let state = sender.sender.delivery_state(us(2), &config);
        assert_eq!(state.map(|state| state.is_app_limited), Some(is_limited), "{written}");
    }
}

/// RFC 5682 §2.1 step 1; Linux also watches after another timeout without progress.
#[test]
fn frto_watches_the_first_timeout_outside_of_a_recovery() {
    use RecoveryPhase::{Cwr, Loss, Open, Recovery};
    for frto in [true, false] {
        let config = TcpConfig { recovery: RecoveryConfig { frto, ..RecoveryConfig::LINUX }, ..bbr() };
        for (phase, retries, watches) in [
            (Open, 1, true),
            (Cwr, 1, true),
            (Recovery, 1, false),
            (Loss, 1, false),
            (Recovery, 2, true),
            (Loss, 2, true),
        ] {
            let mut sender = Sender::new(&config, 1);
            (sender.phase, sender.retries) = (phase, retries);
            sender.begin_frto(&config);
            let state = sender.refined.as_deref().map(|refined| refined.frto);
            let expected = if frto && watches { FrtoState::Watching } else { FrtoState::Off };
            assert_eq!(state, Some(expected), "{frto} {phase:?} {retries}");
        }
    }
}

/// The handshake of a passive opener ends with an ACK without data.
#[test]
fn the_handshake_counts_as_delivered() {
    let config = Arc::new(TcpConfig { handshake: true, ..bbr() });
    let mut ends = [Connection::open(config.clone(), 1, 0, Time::ZERO), Connection::accept(config, 9, 0)];
    for (from, at) in [(0, 0), (1, 40), (0, 80)] {
        let (segment, _) = ends[from].poll_transmit(us(at)).expect("the handshake goes on");
        ends[1 - from].on_segment(&segment, EcnCodepoint::NotEct, us(at + 40));
    }
    let rate = ends[0].sender.delivery_rate().expect("BBR needs samples");
    assert_eq!((rate.delivered, rate.app_limited, rate.delivered_at), (1000, 1000, us(80)));
}
