//! A connection with every packet marked: its sender must reduce the window once per window of data.

use super::CONTRACT_MSS;
use crate::cc::CongestionControlConfig;
use crate::config::{EcnMode, TcpConfig};
use crate::connection::Connection;
use crate::segment::{EcnCodepoint, Segment, TcpFlags};
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of windows of data to send.
const WINDOWS: u64 = 20;
const ROUND_TRIP: Span = Span::from_us(100);

pub(super) fn check_one_reduction(config: &CongestionControlConfig) -> Result<(), String> {
    if config.owns_window() {
        return Ok(()); // Marks do not stop it on a wire without a limit.
    }
    let settings = TcpConfig {
        congestion_control: *config,
        mss: CONTRACT_MSS,
        initial_window: 64 * u64::from(CONTRACT_MSS),
        ecn: EcnMode::Dctcp,
        receive_window: 1 << 30,
        ..TcpConfig::PLAIN
    };
    let mut sender = Connection::open(Arc::new(settings), 0, 0, Time::ZERO);
    sender.write(u64::MAX / 2, Time::ZERO);
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
        let flags = TcpFlags::ACK.with(TcpFlags::ECE);
        // The peer has sent its SYN and nothing else.
        let segment = Segment { seq: 1, ack, window: 1 << 30, flags, ..Segment::default() };
        sender.on_segment(&segment, EcnCodepoint::NotEct, now);
        cuts += u64::from(sender.cwnd() < before);
        if sender.acked_bytes() >= end {
            windows += 1;
            end = sender.acked_bytes() + sender.flight_size();
        }
    }
    // The first window of data has no predecessor.
    if cuts <= windows + 1 { Ok(()) } else { Err(format!("{cuts} reductions in {windows} windows of data")) }
}
