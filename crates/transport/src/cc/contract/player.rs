//! Drives an algorithm with random events, as the sender does, and checks each of its answers.

use super::{CONTRACT_MSS, ack_sample, window_of};
use crate::cc::{
    AckSample, CongestionAlgorithm, CongestionCause, CongestionControl, CongestionControlConfig,
    CongestionWindow,
};
use pauseframe_units::{Span, Time};

/// One event for an algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) enum CcContractStep {
    Ack { segments: u64, ece: bool, rtt_us: u64, after_us: u64 },
    Cut(CongestionCause),
    Timeout,
    Idle { us: u64 },
}

/// A small generator of random numbers (Steele, Lea and Flood 2014, `SplitMix64`), so that every check is the same.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn random_below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    pub(super) fn random_bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next_u64() as u8).collect()
    }

    pub(super) fn random_steps(&mut self, count: usize) -> Vec<CcContractStep> {
        (0..count).map(|_| self.random_step()).collect()
    }

    fn random_step(&mut self) -> CcContractStep {
        match self.random_below(16) {
            12 => CcContractStep::Cut(CongestionCause::Ecn),
            13 => CcContractStep::Cut(CongestionCause::Loss),
            14 => CcContractStep::Timeout,
            15 => CcContractStep::Idle { us: self.random_below(2_000_000) },
            _ => CcContractStep::Ack {
                segments: 1 + self.random_below(3),
                ece: self.random_below(2) == 1,
                rtt_us: self.random_below(5_000),
                after_us: self.random_below(3_000),
            },
        }
    }
}

/// One algorithm with its window.
#[derive(Clone)]
pub(super) struct CcContractPlayer {
    pub(super) cc: CongestionControl,
    pub(super) window: CongestionWindow,
    snd_una: u64,
    now: Time,
    /// ACKs until the window may grow again after a reduction.
    closed: u32,
}

fn error_unless(kept: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if kept { Ok(()) } else { Err(message()) }
}

impl CcContractPlayer {
    pub(super) fn new(config: &CongestionControlConfig) -> CcContractPlayer {
        let cc = CongestionControl::new_strict(config);
        CcContractPlayer { cc, window: window_of(10), snd_una: 0, now: Time::ZERO, closed: 0 }
    }

    /// Plays one event and checks the answers.
    pub(super) fn play_step(&mut self, step: CcContractStep) -> Result<(), String> {
        let before = self.window;
        match step {
            CcContractStep::Ack { segments, ece, rtt_us, after_us } => {
                self.play_ack(segments, ece, rtt_us, after_us)?;
            }
            CcContractStep::Cut(cause) => {
                self.window.ssthresh = self.cc.on_congestion(&self.window, cause);
                self.window.cwnd = self.window.ssthresh;
                self.closed = 5;
            }
            CcContractStep::Timeout => {
                self.window.ssthresh = self.cc.on_congestion(&self.window, CongestionCause::Loss);
                self.cc.on_timeout();
                self.window.cwnd = u64::from(CONTRACT_MSS);
                self.closed = 5;
            }
            CcContractStep::Idle { us } => {
                self.now += Span::from_us(us);
                self.cc.on_idle_restart(Span::from_us(us));
            }
        }
        self.check_window_change(&before, step)
    }

    fn check_window_change(&self, before: &CongestionWindow, step: CcContractStep) -> Result<(), String> {
        let CongestionWindow { cwnd, ssthresh, mss } = self.window;
        let mss = u64::from(mss);
        error_unless(cwnd >= mss, || {
            format!("cwnd is {cwnd} bytes, below one segment of {mss} bytes, after {step:?}")
        })?;
        error_unless(ssthresh >= mss, || {
            format!("ssthresh is {ssthresh} bytes, below one segment, after {step:?}")
        })?;
        let is_cut = matches!(step, CcContractStep::Cut(_) | CcContractStep::Timeout);
        error_unless(!is_cut || ssthresh <= before.cwnd.max(2 * mss), || {
            format!("a cut grew: {} bytes became {ssthresh} bytes after {step:?}", before.cwnd)
        })
    }

    fn play_ack(&mut self, segments: u64, ece: bool, rtt_us: u64, after_us: u64) -> Result<(), String> {
        let before = self.window;
        let acked = (segments * u64::from(CONTRACT_MSS)).min(self.window.cwnd);
        self.snd_una += acked;
        self.now += Span::from_us(after_us);
        self.closed = self.closed.saturating_sub(1);
        let (rtt, srtt) = (Span::from_us(rtt_us), Span::from_us(rtt_us.max(50)));
        let ack = AckSample {
            ece,
            now: self.now,
            rtt,
            srtt,
            open: self.closed == 0,
            ..ack_sample(acked, self.snd_una, self.snd_una + self.window.cwnd)
        };
        self.cc.on_ack(&mut self.window, &ack);
        error_unless(self.window.cwnd == before.cwnd, || "on_ack changed cwnd".to_owned())?;
        error_unless(self.window.ssthresh == before.ssthresh || self.window.ssthresh == before.cwnd, || {
            let (from, to) = (before.ssthresh, self.window.ssthresh);
            format!(
                "on_ack changed ssthresh from {from} to {to} bytes; it may end slow start (ssthresh = cwnd), no more"
            )
        })?;
        let before = self.window;
        self.cc.increase_window(&mut self.window, &ack);
        let (from, to) = (before.cwnd, self.window.cwnd);
        error_unless(to <= from + acked.max(u64::from(CONTRACT_MSS)), || {
            format!("increase grew from {from} to {to} bytes for an ACK of {acked} bytes")
        })?;
        if before.cwnd < before.ssthresh {
            return Ok(());
        }
        error_unless(to >= self.window.ssthresh, || {
            format!("increase led back to slow start: cwnd {to} is below ssthresh {}", self.window.ssthresh)
        })?;
        // A delay-based algorithm may at most halve the window, as after a loss.
        error_unless(to + u64::from(CONTRACT_MSS) >= from / 2, || {
            format!("increase shrank from {from} to {to} bytes, by more than half")
        })
    }
}

/// Plays `steps` and checks each answer. Returns the windows.
pub(super) fn play_steps(
    config: &CongestionControlConfig,
    steps: &[CcContractStep],
) -> Result<Vec<CongestionWindow>, String> {
    let mut player = CcContractPlayer::new(config);
    steps.iter().map(|step| player.play_step(*step).map(|()| player.window)).collect()
}
