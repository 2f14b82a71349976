//! DCTCP's sender (RFC 8257 §3.3 to §3.5; Alizadeh et al., SIGCOMM 2010): the window shrinks by the fraction of marked
//! bytes. The receiver's half, the exact echo of CE, is in `receiver.rs`.

use super::new_reno::AdditiveIncrease;
use super::{AckSample, Algorithm, Congestion, Window};

/// The constants of DCTCP (RFC 8257 §3.3).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DctcpConfig {
    /// Estimation gain.
    pub g: f64,
    /// First value of alpha, 0 to 1.
    pub alpha_initial: f64,
    /// Smallest window after a reduction, in segments (judd §8.2: 2 in Linux, 1 scales further).
    pub floor_segments: u32,
}

impl DctcpConfig {
    /// RFC 8257 §4.2 and Linux: g = 1/16, alpha starts at 1, two segments.
    pub const DEFAULT: DctcpConfig = DctcpConfig { g: 1.0 / 16.0, alpha_initial: 1.0, floor_segments: 2 };
}

impl Default for DctcpConfig {
    fn default() -> Self {
        Self::DEFAULT
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
}

impl Dctcp {
    pub(crate) fn new(config: &DctcpConfig) -> Dctcp {
        Dctcp {
            bytes_acked: 0,
            bytes_marked: 0,
            window_end: 0,
            increase: AdditiveIncrease::default(),
            alpha: config.alpha_initial,
            g: config.g,
            floor_segments: config.floor_segments.max(1),
        }
    }

    /// RFC 8257 §3.3: alpha = alpha (1 - g) + g M, once per window.
    fn end_window(&mut self, snd_nxt: u64) {
        let m = self.bytes_marked as f64 / self.bytes_acked as f64;
        self.alpha = (self.alpha * (1.0 - self.g) + self.g * m).clamp(0.0, 1.0);
        self.bytes_acked = 0;
        self.bytes_marked = 0;
        self.window_end = snd_nxt;
    }
}

impl Algorithm for Dctcp {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.bytes_acked += ack.acked;
        if ack.ece {
            self.bytes_marked += ack.acked;
        }
        // Deviates from RFC 8257 §3.3 step 3: the window also ends with an ACK that just reaches its end, as in
        // Linux; else a window that is sent in one piece would be judged with the first ACK of the next.
        if ack.snd_una >= self.window_end {
            self.end_window(ack.snd_nxt);
        }
    }

    /// RFC 8257 §3.4: as TCP without it.
    #[inline]
    fn increase(&mut self, window: &mut Window, ack: &AckSample) {
        self.increase.increase(window, ack.acked);
    }

    fn reduced(&mut self, window: &Window, cause: Congestion) -> u64 {
        self.increase.restart();
        let reduced = match cause {
            // §3.3 step 9, rounded down to a byte.
            Congestion::Ecn => (window.cwnd as f64 * (1.0 - self.alpha / 2.0)) as u64,
            // §3.5: a loss counts as in any TCP.
            Congestion::Loss => window.cwnd / 2,
        };
        reduced.max(window.segments(self.floor_segments))
    }

    fn alpha(&self) -> Option<f64> {
        Some(self.alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One window of ten segments, the first `marked` of them with ECE.
    fn window(dctcp: &mut Dctcp, start: u64, marked: u64) {
        for i in 1..=10 {
            let snd_una = start + i * 1000;
            dctcp.on_ack(&AckSample {
                acked: 1000,
                ece: i <= marked,
                snd_una,
                snd_nxt: start + 10_000 + i * 1000,
            });
        }
    }

    #[test]
    fn alpha_follows_the_sequence_computed_by_hand() {
        let mut dctcp = Dctcp::new(&DctcpConfig::default());
        // The first ACK ends the empty first window: alpha = 15/16 if it is not marked.
        dctcp.on_ack(&AckSample { acked: 1000, ece: false, snd_una: 1000, snd_nxt: 11_000 });
        assert_eq!(dctcp.alpha(), Some(0.9375));
        // 15/16 of it each window without a mark.
        window(&mut dctcp, 1000, 0);
        assert_eq!(dctcp.alpha(), Some(0.878_906_25));
        // Six of ten bytes marked: 0.87890625 x 15/16 + 0.6/16.
        window(&mut dctcp, 11_000, 6);
        assert!((dctcp.alpha - (0.823_974_609_375 + 0.0375)).abs() < 1e-15);
    }

    #[test]
    fn cuts_by_half_of_alpha_and_by_half_on_loss() {
        let mut dctcp = Dctcp::new(&DctcpConfig { alpha_initial: 0.25, ..DctcpConfig::default() });
        let window = |cwnd| Window { cwnd, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(dctcp.reduced(&window(40_000), Congestion::Ecn), 35_000);
        assert_eq!(dctcp.reduced(&window(40_000), Congestion::Loss), 20_000);
        assert_eq!(dctcp.reduced(&window(2_000), Congestion::Loss), 2_000);
    }

    #[test]
    fn the_floor_is_a_setting() {
        let mut dctcp = Dctcp::new(&DctcpConfig { floor_segments: 1, ..DctcpConfig::default() });
        let window = Window { cwnd: 2_000, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(dctcp.reduced(&window, Congestion::Ecn), 1_000);
    }
}
