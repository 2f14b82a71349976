//! Drives an algorithm with random events, as the sender does, and checks each of its answers.

use super::{CONTRACT_MSS, ack_sample, window_of_segments};
use crate::cc::{
    AckSample, CongestionAlgorithm, CongestionCause, CongestionControl, CongestionControlConfig,
    CongestionWindow,
};
use pauseframe_units::{Span, Time};

/// One event for an algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) enum ContractStep {
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

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn random_below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn random_bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    pub(super) fn random_steps(&mut self, count: usize) -> Vec<ContractStep> {
        (0..count).map(|_| self.random_step()).collect()
    }

    fn random_step(&mut self) -> ContractStep {
        match self.random_below(16) {
            12 => ContractStep::Cut(CongestionCause::Ecn),
            13 => ContractStep::Cut(CongestionCause::Loss),
            14 => ContractStep::Timeout,
            15 => ContractStep::Idle { us: self.random_below(2_000_000) },
            _ => ContractStep::Ack {
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
pub(super) struct AlgorithmPlayer {
    pub(super) cc: CongestionControl,
    pub(super) window: CongestionWindow,
    snd_una: u64,
    now: Time,
    /// ACKs until the window may grow again after a reduction.
    closed: u32,
}

fn ensure(kept: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if kept { Ok(()) } else { Err(message()) }
}

impl AlgorithmPlayer {
    pub(super) fn new(config: &CongestionControlConfig) -> AlgorithmPlayer {
        let cc = CongestionControl::new_strict(config);
        AlgorithmPlayer { cc, window: window_of_segments(10), snd_una: 0, now: Time::ZERO, closed: 0 }
    }

    /// Plays one event and checks the answers.
    pub(super) fn play_step(&mut self, step: ContractStep) -> Result<(), String> {
        let before = self.window;
        match step {
            ContractStep::Ack { segments, ece, rtt_us, after_us } => {
                self.play_ack(segments, ece, rtt_us, after_us)?;
            }
            ContractStep::Cut(cause) => {
                self.window.ssthresh = self.cc.reduced_window(&self.window, cause);
                self.window.cwnd = self.window.ssthresh;
                self.closed = 5;
            }
            ContractStep::Timeout => {
                self.window.ssthresh = self.cc.reduced_window(&self.window, CongestionCause::Loss);
                self.cc.on_timeout();
                self.window.cwnd = u64::from(CONTRACT_MSS);
                self.closed = 5;
            }
            ContractStep::Idle { us } => {
                self.now += Span::from_us(us);
                self.cc.on_restart_after_idle(Span::from_us(us));
            }
        }
        self.check_window_change(&before, step)
    }

    fn check_window_change(&self, before: &CongestionWindow, step: ContractStep) -> Result<(), String> {
        let CongestionWindow { cwnd, ssthresh, mss } = self.window;
        let mss = u64::from(mss);
        ensure(cwnd >= mss, || {
            format!("cwnd is {cwnd} bytes, below one segment of {mss} bytes, after {step:?}")
        })?;
        ensure(ssthresh >= mss, || {
            format!("ssthresh is {ssthresh} bytes, below one segment, after {step:?}")
        })?;
        let is_cut = matches!(step, ContractStep::Cut(_) | ContractStep::Timeout);
        ensure(!is_cut || ssthresh <= before.cwnd.max(2 * mss), || {
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
        ensure(self.window.cwnd == before.cwnd, || "on_ack changed cwnd".to_owned())?;
        ensure(self.window.ssthresh == before.ssthresh || self.window.ssthresh == before.cwnd, || {
            let (from, to) = (before.ssthresh, self.window.ssthresh);
            format!(
                "on_ack changed ssthresh from {from} to {to} bytes; it may end slow start (ssthresh = cwnd), no more"
            )
        })?;
        let before = self.window;
        self.cc.increase_window(&mut self.window, &ack);
        let (from, to) = (before.cwnd, self.window.cwnd);
        ensure(to <= from + acked.max(u64::from(CONTRACT_MSS)), || {
            format!("increase grew from {from} to {to} bytes for an ACK of {acked} bytes")
        })?;
        if before.cwnd < before.ssthresh {
            return Ok(());
        }
        ensure(to >= self.window.ssthresh, || {
            format!("increase led back to slow start: cwnd {to} is below ssthresh {}", self.window.ssthresh)
        })?;
        // A delay-based algorithm may at most halve the window, as after a loss.
        ensure(to + u64::from(CONTRACT_MSS) >= from / 2, || {
            format!("increase shrank from {from} to {to} bytes, by more than half")
        })
    }
}

/// Plays `steps` and checks each answer. Returns the windows.
pub(super) fn play_steps(
    config: &CongestionControlConfig,
    steps: &[ContractStep],
) -> Result<Vec<CongestionWindow>, String> {
    let mut player = AlgorithmPlayer::new(config);
    steps.iter().map(|step| player.play_step(*step).map(|()| player.window)).collect()
}
