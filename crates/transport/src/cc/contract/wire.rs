//! A connection whose every packet is marked: its sender reduces the window once a window of data.

use super::MSS;
use crate::cc::CongestionControlConfig;
use crate::config::{Config, EcnMode};
use crate::connection::Connection;
use crate::segment::{Ecn, Flags, Segment};
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Windows of data that are sent.
const WINDOWS: u64 = 20;
const ROUND_TRIP: Span = Span::from_us(100);

pub(super) fn reduces_once_a_window(config: &CongestionControlConfig) -> Result<(), String> {
    let settings = Config {
        congestion_control: *config,
        mss: MSS,
        initial_window: 64 * u64::from(MSS),
        ecn: EcnMode::Dctcp,
        receive_window: 1 << 30,
        ..Config::PLAIN
    };
    let mut sender = Connection::open(Arc::new(settings), 0, 0, Time::ZERO);
    sender.send(u64::MAX / 2, Time::ZERO);
    let (mut now, mut sent) = (Time::ZERO, VecDeque::new());
    let (mut windows, mut end, mut cuts) = (0, 0, 0);
    while windows < WINDOWS {
        while let Some((segment, _)) = sender.poll_transmit(now) {
            sent.push_back((now, segment.seq.wrapping_add(segment.len)));
        }
        let Some((at, ack)) = sent.pop_front() else {
            return Err("the sender stopped although all data were acknowledged".to_owned());
        };
        now = now.max(at + ROUND_TRIP);
        let before = sender.cwnd();
        let flags = Flags::ACK.with(Flags::ECE);
        let segment = Segment { ack, window: 1 << 30, flags, ..Segment::default() };
        sender.on_segment(&segment, Ecn::NotEct, now);
        cuts += u64::from(sender.cwnd() < before);
        if sender.acked() >= end {
            windows += 1;
            end = sender.acked() + sender.flight_size();
        }
    }
    // The first window of data has no window before it.
    if cuts <= windows + 1 { Ok(()) } else { Err(format!("{cuts} reductions in {windows} windows of data")) }
}
