//! Vegas (Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 1995) as Linux 6.1 has it: once per round
//! trip it compares the window with the one that the smallest RTT would need. The difference is the flow's share of the queues, which is kept between
//! alpha and beta segments.
//!
//! As in Linux, Reno's rules apply to losses and outside the normal state (during recovery or a reduction). Left out: the paper's finer
//! retransmission timer.

use super::new_reno::AdditiveIncrease;
use pauseframe_plugin::constants;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};
use pauseframe_units::Span;

constants! {
    /// The constants of Vegas.
    pub struct VegasConfig for "vegas" {
        /// Vegas adds a segment while it keeps fewer than this in queues, in segments (Linux: 2; FreeBSD: 1)
        alpha: u32 = 2, in 0, 1000;
        /// Vegas takes a segment away while it keeps more than this in queues, in segments (Linux: 4; FreeBSD: 3)
        beta: u32 = 4, in 0, 1000;
        /// Vegas leaves slow start with more than this in queues, in segments (1)
        gamma: u32 = 1, in 0, 1000;
        /// Vegas doubles every other round trip in slow start (the paper, FreeBSD), not in each (Linux)
        slow_start_alternate: bool = false;
    }
}

/// RTTs are measured in whole microseconds.
const PICOSECONDS_PER_MICROSECOND: u64 = 1_000_000;

/// RTT samples that a round trip needs for an adjustment.
const MIN_RTT_SAMPLES: u32 = 3;

/// Vegas' window. RTTs are in microseconds, plus one so that none is zero, as in Linux.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vegas {
    constants: VegasConfig,
    reno: AdditiveIncrease,
    /// `snd_nxt` when this round trip began.
    window_end: u64,
    base_rtt: u32,
    /// Smallest RTT of this round trip.
    rtt_min: u32,
    /// Number of RTT samples in this round trip.
    samples: u32,
    /// The sender was in its normal state at the last ACK.
    enabled: bool,
    /// Whether slow start grows in this round trip.
    growing: bool,
}

impl Vegas {
    pub(crate) fn new(constants: VegasConfig) -> Vegas {
        Vegas {
            constants,
            reno: AdditiveIncrease::default(),
            window_end: 0,
            base_rtt: u32::MAX,
            rtt_min: u32::MAX,
            samples: 0,
            enabled: true,
            growing: true,
        }
    }

    fn begin_round(&mut self, snd_nxt: u64) {
        self.window_end = snd_nxt;
        self.rtt_min = u32::MAX;
        self.samples = 0;
    }

    fn slow_start(&self, window: &mut CongestionWindow, acked: u64) {
        if self.growing {
            window.slow_start(acked);
        }
    }

    /// Adjusts the window once per round trip with enough samples.
    fn adjust_window(&mut self, window: &mut CongestionWindow, acked: u64) {
        self.growing = !(self.growing && self.constants.slow_start_alternate);
        let mss = u64::from(window.mss);
        let segments = window.cwnd / mss;
        let (base, rtt) = (u64::from(self.base_rtt), u64::from(self.rtt_min));
        // (Expected rate - actual rate) * base_rtt: the segments in queues.
        let diff = segments * (rtt - base) / base;
        let slow_start = window.cwnd < window.ssthresh;
        if slow_start && diff > u64::from(self.constants.gamma) {
            window.cwnd = window.cwnd.min((segments * base / rtt + 1) * mss);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if slow_start {
            self.slow_start(window, acked);
        } else if diff > u64::from(self.constants.beta) {
            window.cwnd -= mss;
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if diff < u64::from(self.constants.alpha) {
            window.cwnd += mss;
        }
        window.cwnd = window.cwnd.max(window.segments_to_bytes(2));
        // `tcp_current_ssthresh`, so that slow start after a timeout does not return to a much older ssthresh.
        window.ssthresh = window.ssthresh.max(window.cwnd / 4 * 3);
    }
}

impl CongestionAlgorithm for Vegas {
    #[inline]
    fn on_ack(&mut self, _window: &mut CongestionWindow, ack: &AckSample) {
        if ack.rtt > Span::ZERO {
            let rtt = (ack.rtt.0 / PICOSECONDS_PER_MICROSECOND).min(u64::from(u32::MAX) - 2) as u32 + 1;
            self.base_rtt = self.base_rtt.min(rtt);
            self.rtt_min = self.rtt_min.min(rtt);
            self.samples += 1;
        }
    }

    #[inline]
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        if self.enabled != ack.open {
            self.enabled = ack.open;
            self.begin_round(ack.snd_nxt);
        }
        if !self.enabled {
            self.reno.grow_window(window, ack.acked);
        } else if ack.snd_una > self.window_end {
            if self.samples >= MIN_RTT_SAMPLES {
                self.adjust_window(window, ack.acked);
            } else {
                self.reno.grow_window(window, ack.acked);
            }
            self.begin_round(ack.snd_nxt);
        } else if window.cwnd < window.ssthresh {
            self.slow_start(window, ack.acked);
        }
    }

    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        self.reno.reset_count();
        self.enabled = false;
        (window.cwnd / 2).max(window.segments_to_bytes(2))
    }

    /// Resets the smallest RTT, because the path may have changed (as Linux).
    fn on_idle_restart(&mut self, _idle: Span) {
        self.base_rtt = u32::MAX;
        self.rtt_min = u32::MAX;
        self.samples = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::{ack_sample, window_of};

    /// A path of 50 segments and a queue: each round trip is one window, its RTT what the queue makes of it.
    fn round(vegas: &mut Vegas, window: &mut CongestionWindow, sent: &mut u64) {
        const PIPE: u64 = 50;
        let segments = window.cwnd / 1000;
        let rtt = Span::from_us(600 * segments.max(PIPE) / PIPE);
        let (start, nxt) = (*sent, *sent + segments * 1000);
        for i in 1..=segments {
            // What each ACK lets go counts for the next round trip.
            let ack = AckSample { rtt, ..ack_sample(1000, start + i * 1000, nxt + i * 1000) };
            vegas.on_ack(window, &ack);
            vegas.increase_window(window, &ack);
        }
        *sent = nxt;
    }

    #[test]
    fn keeps_alpha_to_beta_segments_in_the_queue() {
        for (alpha, beta) in [(2, 4), (1, 3), (10, 20)] {
            let mut vegas = Vegas::new(VegasConfig { alpha, beta, ..VegasConfig::default() });
            let (mut window, mut sent) = (window_of(10), 0);
            for _ in 0..200 {
                round(&mut vegas, &mut window, &mut sent);
            }
            let queued = window.cwnd / 1000 - 50;
            assert!((u64::from(alpha)..=u64::from(beta) + 1).contains(&queued), "{alpha} {beta}: {queued}");
            let settled = window.cwnd;
            for _ in 0..20 {
                round(&mut vegas, &mut window, &mut sent);
                assert_eq!(window.cwnd, settled, "an equilibrium");
            }
            // From above: the queue of a flow that has left shrinks by a segment a round trip.
            window.cwnd += 20_000;
            round(&mut vegas, &mut window, &mut sent);
            round(&mut vegas, &mut window, &mut sent);
            assert!(window.cwnd < settled + 20_000);
        }
    }

    #[test]
    fn slow_start_ends_by_gamma_with_the_window_that_the_path_needs() {
        let mut vegas = Vegas::new(VegasConfig::default());
        let mut window = window_of(64);
        // base_rtt 601; a round of 641: 64 * 40 / 601 = 4 > gamma; 64 * 601 / 641 + 1 = 61.
        for (i, us) in [600, 640, 640].into_iter().enumerate() {
            let ack = AckSample { rtt: Span::from_us(us), ..ack_sample(1000, 1 + i as u64, 100) };
            vegas.on_ack(&mut window, &ack);
            vegas.window_end = 100;
        }
        vegas.rtt_min = 641;
        vegas.increase_window(&mut window, &ack_sample(1000, 101, 200));
        assert_eq!((window.cwnd, window.ssthresh), (61_000, 61_000));
    }

    /// `tcp_current_ssthresh`: three quarters of the window, unless ssthresh is larger. 64 segments with 601 and 631 us
    /// keep 64 * 30 / 601 = 3 in the queue, between alpha and beta, so the window stays.
    #[test]
    fn ssthresh_follows_the_window_from_below() {
        for (ssthresh, expected) in [(10_000, 48_000), (48_000, 48_000), (50_000, 50_000)] {
            let mut vegas = Vegas::new(VegasConfig::default());
            let mut window = CongestionWindow { ssthresh, ..window_of(64) };
            (vegas.base_rtt, vegas.rtt_min, vegas.samples) = (601, 631, MIN_RTT_SAMPLES);
            vegas.increase_window(&mut window, &ack_sample(1000, 1000, 65_000));
            assert_eq!((window.cwnd, window.ssthresh), (64_000, expected), "{ssthresh}");
        }
    }

    /// `tcp_vegas_cong_avoid`: less than alpha adds a segment, more than beta takes one, and both themselves leave the window. With 64 segments and 601 us
    /// 18 us are 1 segment in the queue, 19 us 2, 38 us 4 and 47 us 5.
    #[test]
    fn alpha_and_beta_themselves_leave_the_window() {
        for (us, segments) in [(18, 65), (19, 64), (38, 64), (47, 63)] {
            let mut vegas = Vegas::new(VegasConfig { alpha: 2, beta: 4, ..VegasConfig::default() });
            let mut window = CongestionWindow { ssthresh: 10_000, ..window_of(64) };
            (vegas.base_rtt, vegas.rtt_min, vegas.samples) = (601, 601 + us, MIN_RTT_SAMPLES);
            vegas.increase_window(&mut window, &ack_sample(1000, 1000, 65_000));
            assert_eq!(window.cwnd, segments * 1000, "{us} us");
        }
    }

    #[test]
    fn the_paper_doubles_every_other_round_trip() {
        let constants = VegasConfig { slow_start_alternate: true, ..VegasConfig::default() };
        let mut vegas = Vegas::new(constants);
        let (mut window, mut sent) = (window_of(4), 0);
        let mut seen = Vec::new();
        for _ in 0..6 {
            round(&mut vegas, &mut window, &mut sent);
            seen.push(window.cwnd / 1000);
        }
        // Some of the ACKs at the boundary count for the round trip before.
        for (grown, held) in [(seen[0], seen[1]), (seen[2], seen[3]), (seen[4], seen[5])] {
            assert!(held * 5 <= grown * 6, "{seen:?}");
        }
        assert!(seen[0] == 8 && seen[2] * 10 >= seen[1] * 17 && seen[4] * 10 >= seen[3] * 17, "{seen:?}");
        let mut linux = Vegas::new(VegasConfig::default());
        let (mut doubled, mut sent) = (window_of(4), 0);
        for _ in 0..3 {
            round(&mut linux, &mut doubled, &mut sent);
        }
        assert_eq!(doubled.cwnd, 32_000);
    }
}
