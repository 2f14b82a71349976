//! DCTCP's sender (RFC 8257 §3.3 to §3.5; Alizadeh et al., SIGCOMM 2010): the window shrinks by the fraction of marked bytes. The receiver's part,
//! the exact echo of CE, is in `receiver/mod.rs`.

use super::new_reno::AdditiveIncrease;
use pauseframe_plugin::constants;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};

constants! {
    /// The constants of DCTCP (RFC 8257 §3.3).
    pub struct DctcpConfig for "dctcp" {
        /// Gain of DCTCP's estimator (RFC 8257 §4.2: 1/16)
        g: f64 = 1.0 / 16.0, in 1.0 / 1024.0, 1.0;
        /// First alpha of DCTCP (RFC 8257 §3.3: 1)
        alpha_initial: f64 = 1.0, in 0.0, 1.0;
        /// Smallest window of DCTCP after a cut, in segments (Linux: 2; judd §8.2 takes 1)
        floor_segments: u32 = 2, in 1, 1000;
        /// Linux's arithmetic: alpha in steps of 1/1024, windows in whole segments after a cut, g a power of two
        fixed_point: bool = false;
    }
}

/// DCTCP's window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Dctcp {
    bytes_acked: u64,
    bytes_marked: u64,
    window_end: u64,
    increase: AdditiveIncrease,
    alpha: f64,
    g: f64,
    floor_segments: u32,
    fixed_point: bool,
}

impl Dctcp {
    pub(crate) fn new(config: DctcpConfig) -> Dctcp {
        Dctcp {
            bytes_acked: 0,
            bytes_marked: 0,
            window_end: 0,
            increase: AdditiveIncrease::default(),
            alpha: config.alpha_initial,
            g: config.g,
            floor_segments: config.floor_segments.max(1),
            fixed_point: config.fixed_point,
        }
    }

    /// Counts what an ACK delivers, and ends the window that it reaches the end of.
    #[inline]
    fn count_marks(&mut self, ack: &AckSample) {
        self.bytes_acked += ack.acked;
        if ack.ece {
            self.bytes_marked += ack.acked;
        }
        // Deviates from RFC 8257 §3.3 step 3: the window also ends with an ACK that just reaches its end, as in Linux. Otherwise a window sent in one
        // burst would be evaluated with the first ACK of the next.
        if ack.snd_una >= self.window_end {
            self.update_alpha(ack.snd_nxt);
        }
    }

    /// RFC 8257 §3.3: alpha = alpha (1 - g) + g M, once per window.
    fn update_alpha(&mut self, snd_nxt: u64) {
        if self.fixed_point {
            self.update_fixed_point_alpha();
        } else {
            let m = self.bytes_marked as f64 / self.bytes_acked.max(1) as f64;
            self.alpha = (self.alpha * (1.0 - self.g) + self.g * m).clamp(0.0, 1.0);
        }
        self.bytes_acked = 0;
        self.bytes_marked = 0;
        self.window_end = snd_nxt;
    }

    /// As Linux 6.1: in units of 1/1024, rounded down at each step; an alpha too small to decay further becomes zero. `alpha` stays a multiple of
    /// 1/1024, which a float holds exactly.
    fn update_fixed_point_alpha(&mut self) {
        const ONE: u64 = 1024;
        let shift = self.gain_shift();
        let alpha = (self.alpha * ONE as f64) as u64;
        let decay = if alpha >> shift == 0 { alpha } else { alpha >> shift };
        let marks = (self.bytes_marked << (10 - shift)) / self.bytes_acked.max(1);
        self.alpha = (alpha - decay + marks).min(ONE) as f64 / ONE as f64;
    }

    /// g = 2^-shift.
    fn gain_shift(&self) -> u32 {
        (1..10).find(|shift| self.g >= 1.0 / f64::from(1 << shift)).unwrap_or(10)
    }
}

impl CongestionAlgorithm for Dctcp {
    #[inline]
    fn on_ack(&mut self, _window: &mut CongestionWindow, ack: &AckSample) {
        self.count_marks(ack);
    }

    fn on_ack_without_progress(&mut self, _window: &mut CongestionWindow, ack: &AckSample) {
        self.count_marks(ack);
    }

    /// RFC 8257 §3.4: grows like TCP without DCTCP.
    #[inline]
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        self.increase.grow_window(window, ack.acked);
    }

    fn on_congestion(&mut self, window: &CongestionWindow, cause: CongestionCause) -> u64 {
        self.increase.reset_count();
        let reduced = match cause {
            // Linux: in whole segments, alpha * 1024 / 2048 of them less, rounded down.
            CongestionCause::Ecn if self.fixed_point => {
                let segments = window.cwnd / u64::from(window.mss);
                let cut = (segments * (self.alpha * 1024.0) as u64) >> 11;
                (segments - cut) * u64::from(window.mss)
            }
            // §3.3 step 9, rounded down to a byte.
            CongestionCause::Ecn => (window.cwnd as f64 * (1.0 - self.alpha / 2.0)) as u64,
            // §3.5: a loss halves the window as in any TCP.
            CongestionCause::Loss if self.fixed_point => {
                window.cwnd / u64::from(window.mss) / 2 * u64::from(window.mss)
            }
            CongestionCause::Loss => window.cwnd / 2,
        };
        // A floor above the current window does not increase it.
        reduced.max(window.segments_to_bytes(self.floor_segments).min(window.cwnd.max(window.segments_to_bytes(2))))
    }

    /// Linux `dctcp_react_to_loss`: half of the window as it is now.
    fn on_loss_in_cwr(&mut self, window: &CongestionWindow) -> u64 {
        (window.cwnd / 2).max(window.segments_to_bytes(2))
    }

    fn dctcp_alpha(&self) -> Option<f64> {
        Some(self.alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::{ack_sample, window_of};

    /// One window of ten segments, the first `marked` of them with ECE.
    fn window(dctcp: &mut Dctcp, start: u64, marked: u64) {
        for i in 1..=10 {
            let snd_una = start + i * 1000;
            let ack = ack_sample(1000, snd_una, start + 10_000 + i * 1000);
            dctcp.on_ack(&mut window_of(10), &AckSample { ece: i <= marked, ..ack });
        }
    }

    #[test]
    fn alpha_follows_the_sequence_computed_by_hand() {
        let mut dctcp = Dctcp::new(DctcpConfig::default());
        // The first ACK ends the empty first window: alpha = 15/16 if it is not marked.
        dctcp.on_ack(&mut window_of(10), &ack_sample(1000, 1000, 11_000));
        assert_eq!(dctcp.dctcp_alpha(), Some(0.9375));
        // 15/16 of it each window without a mark.
        window(&mut dctcp, 1000, 0);
        assert_eq!(dctcp.dctcp_alpha(), Some(0.878_906_25));
        // Six of ten bytes marked: 0.87890625 x 15/16 + 0.6/16.
        window(&mut dctcp, 11_000, 6);
        assert!((dctcp.alpha - (0.823_974_609_375 + 0.0375)).abs() < 1e-15);
    }

    #[test]
    fn cuts_by_half_of_alpha_and_by_half_on_loss() {
        let mut dctcp = Dctcp::new(DctcpConfig { alpha_initial: 0.25, ..DctcpConfig::default() });
        let window = |cwnd| CongestionWindow { cwnd, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(dctcp.on_congestion(&window(40_000), CongestionCause::Ecn), 35_000);
        assert_eq!(dctcp.on_congestion(&window(40_000), CongestionCause::Loss), 20_000);
        assert_eq!(dctcp.on_congestion(&window(2_000), CongestionCause::Loss), 2_000);
    }

    /// By hand: 1024 - 64 = 960; 960 - 60 = 900; 6 of 10 marked: 900 - 56 + 6000 * 64 / 10000 (38) = 882.
    #[test]
    fn fixed_point_follows_linux() {
        let constants = DctcpConfig { fixed_point: true, ..DctcpConfig::default() };
        let mut dctcp = Dctcp::new(constants);
        dctcp.on_ack(&mut window_of(10), &ack_sample(1000, 1000, 11_000));
        assert_eq!(dctcp.dctcp_alpha(), Some(960.0 / 1024.0));
        window(&mut dctcp, 1000, 0);
        window(&mut dctcp, 11_000, 6);
        assert_eq!(dctcp.dctcp_alpha(), Some(882.0 / 1024.0));
        // 67 segments * 882 / 2048 = 28.85, so 39 are left; 500 bytes do not make a segment.
        let in_use = CongestionWindow { cwnd: 67_500, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(dctcp.on_congestion(&in_use, CongestionCause::Ecn), 39_000);
        // Without marks alpha decays to zero, not to a rest that no shift takes away.
        for start in 2..200 {
            window(&mut dctcp, start * 11_000, 0);
        }
        assert_eq!(dctcp.dctcp_alpha(), Some(0.0));
    }

    /// With a constant fraction of marks alpha goes to that fraction: the rest shrinks by 1 - g a window.
    #[test]
    fn alpha_converges_to_the_marked_fraction() {
        let mut dctcp = Dctcp::new(DctcpConfig::default());
        dctcp.on_ack(&mut window_of(10), &ack_sample(1000, 1000, 11_000));
        let first = dctcp.alpha - 0.3;
        for n in 1..=100u64 {
            window(&mut dctcp, (n - 1) * 10_000 + 1000, 3);
            let expected = 0.3 + first * (15.0_f64 / 16.0).powi(n as i32);
            assert!((dctcp.alpha - expected).abs() < 1e-12, "window {n}: {}", dctcp.alpha);
        }
    }

    #[test]
    fn the_floor_is_a_setting() {
        let mut dctcp = Dctcp::new(DctcpConfig { floor_segments: 1, ..DctcpConfig::default() });
        let window = CongestionWindow { cwnd: 2_000, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(dctcp.on_congestion(&window, CongestionCause::Ecn), 1_000);
    }
}
