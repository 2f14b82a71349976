//! CUBIC (RFC 9438) as Linux 6.1 computes it: integers only, in whole segments, with the time in clock ticks.
//!
//! Between two losses the window follows W(t) = C (t - K)^3 + `w_max`, which is flat around the window of the last loss, or Reno's window if that is
//! larger. `HyStart` (Ha and Rhee 2008, in `hystart.rs`) ends slow start before it overflows the queue. With other constants it is FreeBSD 9's (beta
//! 0.8, no `HyStart`).
// Deviates from Linux: the cube root is exact, where the kernel's table and one step of Newton err by 0.2 % on average.
// Deviates from RFC 9438 §4.3: `w_est` keeps its slope above the window of the last loss, as in Linux.

use super::hystart::Hystart;
use pauseframe_plugin::constants;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};
use pauseframe_units::{Span, Time};

constants! {
    /// The constants of CUBIC.
    pub struct CubicConfig for "cubic" {
        /// Share of the window that CUBIC keeps at congestion (RFC 9438 §4.6: 0.7; FreeBSD 9: 0.8)
        beta: f64 = 0.7, in 0.1, 0.99;
        /// C of CUBIC's curve in segments per second cubed (RFC 9438 §5.1: 0.4)
        c: f64 = 0.4, in 0.01, 1000.0;
        /// CUBIC leaves room when its window at congestion has shrunk (RFC 9438 §4.7)
        fast_convergence: bool = true;
        /// CUBIC is never slower than Reno (RFC 9438 §4.3)
        friendly: bool = true;
        /// CUBIC leaves slow start by HyStart, before a loss (Linux; FreeBSD 9: false)
        hystart: bool = true;
        /// Smallest window at which HyStart looks, in segments (Linux: 16)
        hystart_low_window: u32 = 16, in 2, 1_000_000;
        /// HyStart times ACK trains in whole milliseconds (Linux before 5.6)
        hystart_milliseconds: bool = false;
        /// Clock tick of CUBIC's time (Linux with HZ 1000: 1 ms)
        tick: Span = Span::from_ms(1), in Span::from_us(1), Span::from_ms(100);
    }
}

/// Scale of beta and of the time in seconds (2^10).
const FIXED_POINT_SCALE: u64 = 1024;

/// Offset from which on the curve exceeds any limit.
const MAX_CURVE_OFFSET: u64 = 1 << 18;

/// CUBIC. Its state is boxed, because it is too large for every connection.
#[derive(Clone, Debug)]
pub(crate) struct Cubic(Box<CubicState>);

#[derive(Clone, Debug)]
struct CubicState {
    /// beta * 1024.
    beta: u64,
    /// C * 1024, a multiple of 10.
    c: u64,
    /// Acknowledged segments per segment of Reno's growth, in 1/8 of the window: 8 (1 + beta) / 3 (1 - beta).
    friendly_scale: u64,
    tick: u64,
    fast_convergence: bool,
    friendly: bool,
    hystart: Option<Hystart>,
    /// Acknowledged segments per segment of window growth.
    cnt: u64,
    /// Bytes acknowledged towards the next segment.
    acked: u64,
    w_max: u64,
    /// The plateau of this curve.
    origin: u64,
    /// When the plateau is reached, in 1/1024 s.
    k: u64,
    /// In ticks; `None`: the next ACK begins an epoch.
    epoch_start: Option<u64>,
    /// Reno's window.
    w_est: u64,
    /// Bytes acknowledged towards the growth of Reno's window.
    w_est_acked: u64,
    /// Window and tick of the last computation.
    last_cwnd: u64,
    last_time: u64,
    /// Smallest RTT in microseconds; 0: none yet.
    delay_min: u64,
}

impl Cubic {
    pub(crate) fn new(constants: CubicConfig) -> Cubic {
        let beta = (constants.beta * FIXED_POINT_SCALE as f64 + 0.5) as u64;
        Cubic(Box::new(CubicState {
            beta,
            // The kernel uses 41 of 1024, in units ten times smaller.
            c: ((constants.c * FIXED_POINT_SCALE as f64 / 10.0 + 0.5) as u64).max(1) * 10,
            friendly_scale: 8 * (FIXED_POINT_SCALE + beta) / 3 / (FIXED_POINT_SCALE - beta),
            tick: constants.tick.0.max(1),
            fast_convergence: constants.fast_convergence,
            friendly: constants.friendly,
            hystart: constants
                .hystart
                .then(|| Hystart::new(constants.hystart_low_window, constants.hystart_milliseconds)),
            cnt: 0,
            acked: 0,
            w_max: 0,
            origin: 0,
            k: 0,
            epoch_start: None,
            w_est: 0,
            w_est_acked: 0,
            last_cwnd: 0,
            last_time: 0,
            delay_min: 0,
        }))
    }
}

impl CubicState {
    /// Ticks that have passed at `now`.
    fn elapsed_ticks(&self, now: Time) -> u64 {
        now.0 / self.tick
    }

    /// Ticks in units of 1/1024 s.
    fn ticks_in_1024ths(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.tick) / 1_000_000 * FIXED_POINT_SCALE / 1_000_000
    }

    /// Computes `cnt`, at most once per tick.
    fn update_cnt(&mut self, cwnd: u64, acked: u64, mss: u64, now: Time) {
        let now = self.elapsed_ticks(now);
        self.w_est_acked += acked;
        let since = now.saturating_sub(self.last_time);
        // With an unchanged window the curve is recomputed after 1/32 s.
        if self.last_cwnd == cwnd && since <= 1_000_000_000_000 / self.tick / 32 && self.cnt > 0 {
            return;
        }
        if self.epoch_start.is_none() || now != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = now;
            let start = self.ensure_epoch(cwnd, acked, now);
            let target = self.target_window(now - start.min(now));
            self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
            if self.w_max == 0 {
                // On an unknown path: at least 5 % per round trip.
                self.cnt = self.cnt.min(20);
            }
        }
        if self.friendly {
            self.apply_reno_friendliness(cwnd, mss);
        }
        // At most half of the window per round trip.
        self.cnt = self.cnt.max(2);
    }

    /// The tick in which this epoch began; starts an epoch now if none is active.
    fn ensure_epoch(&mut self, cwnd: u64, acked: u64, now: u64) -> u64 {
        if let Some(start) = self.epoch_start {
            return start;
        }
        self.epoch_start = Some(now);
        self.w_est_acked = acked;
        self.w_est = cwnd;
        self.origin = self.w_max.max(cwnd);
        // K^3 = (w_max - cwnd) / C, with the time in 1/1024 s (RFC 9438 eq. 2).
        self.k = cube_root((1 << 40) / self.c * (self.origin - cwnd));
        now
    }

    /// W(t) (RFC 9438 eq. 1) a round trip from now, in segments.
    fn target_window(&self, ticks: u64) -> u64 {
        let rtt = (self.delay_min * 1_000_000).div_ceil(self.tick);
        let t = self.ticks_in_1024ths(ticks + rtt);
        let offset = t.abs_diff(self.k).min(MAX_CURVE_OFFSET);
        let delta = ((u128::from(self.c) * u128::from(offset).pow(3)) >> 40) as u64;
        if t < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta }
    }

    /// Makes the window at least as large as Reno's.
    fn apply_reno_friendliness(&mut self, cwnd: u64, mss: u64) {
        let step = ((cwnd * self.friendly_scale) >> 3).max(1) * mss;
        let segments = self.w_est_acked.saturating_sub(1) / step;
        self.w_est += segments;
        self.w_est_acked -= segments * step;
        if self.w_est > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.w_est - cwnd));
        }
    }
}

impl CongestionAlgorithm for Cubic {
    #[inline]
    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        const SECOND: u64 = 1_000_000_000_000;
        let state = &mut *self.0;
        if ack.rtt == Span::ZERO {
            return;
        }
        // Linux ignores samples of the first second after a recovery as biased.
        if let Some(start) = state.epoch_start
            && state.elapsed_ticks(ack.now).saturating_sub(start) < SECOND / state.tick
        {
            return;
        }
        let delay = (ack.rtt.0 / 1_000_000).max(1);
        if state.delay_min == 0 || delay < state.delay_min {
            state.delay_min = delay;
        }
        if let Some(hystart) = &mut state.hystart
            && window.cwnd < window.ssthresh
            && hystart.detect_exit(window, ack, delay, state.delay_min)
        {
            window.ssthresh = window.cwnd;
        }
    }

    #[inline]
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        let rest = window.slow_start(ack.acked);
        if rest == 0 {
            return;
        }
        let state = &mut *self.0;
        let mss = u64::from(window.mss);
        state.update_cnt(window.cwnd / mss, rest, mss, ack.now);
        let step = state.cnt * mss;
        if state.acked >= step {
            // Credit earned under a larger `cnt` adds one segment now, not a burst.
            state.acked = 0;
            window.cwnd += mss;
        }
        state.acked += rest;
        if state.acked >= step {
            window.cwnd += state.acked / step * mss;
            state.acked %= step;
        }
    }

    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        let state = &mut *self.0;
        let cwnd = window.cwnd / u64::from(window.mss);
        state.epoch_start = None;
        let shrunk = cwnd < state.w_max && state.fast_convergence;
        state.w_max = if shrunk { cwnd * (FIXED_POINT_SCALE + state.beta) / (2 * FIXED_POINT_SCALE) } else { cwnd };
        (cwnd * state.beta / FIXED_POINT_SCALE).max(2) * u64::from(window.mss)
    }

    fn discard_credit(&mut self) {
        self.0.acked = 0;
    }

    /// As in Linux: resets the knowledge of the path and restarts `HyStart`.
    fn on_timeout(&mut self) {
        let state = &mut *self.0;
        state.cnt = 0;
        state.w_max = 0;
        state.last_cwnd = 0;
        state.last_time = 0;
        state.delay_min = 0;
        state.epoch_start = None;
        if let Some(hystart) = &mut state.hystart {
            hystart.on_timeout();
        }
    }

    /// RFC 9438 §4.2: idle time does not count.
    fn on_idle_restart(&mut self, idle: Span) {
        let ticks = idle.0 / self.0.tick;
        self.0.epoch_start = self.0.epoch_start.map(|start| start + ticks);
    }
}

/// The integer part of the cube root.
fn cube_root(a: u64) -> u64 {
    let mut root = libm::cbrt(a as f64) as u64;
    // The float may be off by one where `a` has more than 53 bits.
    while u128::from(root).pow(3) > u128::from(a) {
        root -= 1;
    }
    while u128::from(root + 1).pow(3) <= u128::from(a) {
        root += 1;
    }
    root
}

#[cfg(test)]
#[path = "cubic_tests.rs"]
mod tests;
