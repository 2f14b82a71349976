//! An algorithm driven as the sender drives it, by random events, with a look at each of its answers.

use super::{MSS, sample, window_of};
use crate::cc::{AckSample, Algorithm, Congestion, CongestionControl, CongestionControlConfig, Window};
use pauseframe_units::{Span, Time};

/// One thing that happens to an algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Ack { segments: u64, ece: bool, rtt_us: u64, after_us: u64 },
    Cut(Congestion),
    Timeout,
    Idle { us: u64 },
}

/// A small generator of random numbers (Steele, Lea and Flood 2014, `SplitMix64`), so that every check is the same.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64) -> Draws {
        Draws(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    pub(super) fn steps(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        match self.below(16) {
            12 => Step::Cut(Congestion::Ecn),
            13 => Step::Cut(Congestion::Loss),
            14 => Step::Timeout,
            15 => Step::Idle { us: self.below(2_000_000) },
            _ => Step::Ack {
                segments: 1 + self.below(3),
                ece: self.below(2) == 1,
                rtt_us: self.below(5_000),
                after_us: self.below(3_000),
            },
        }
    }
}

/// One algorithm with its window.
#[derive(Clone)]
pub(super) struct Player {
    pub(super) cc: CongestionControl,
    pub(super) window: Window,
    snd_una: u64,
    now: Time,
    /// ACKs until the window is open again after a cut.
    closed: u32,
}

fn ensure(kept: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if kept { Ok(()) } else { Err(message()) }
}

impl Player {
    pub(super) fn new(config: &CongestionControlConfig) -> Player {
        let cc = CongestionControl::strict(config);
        Player { cc, window: window_of(10), snd_una: 0, now: Time::ZERO, closed: 0 }
    }

    /// One event, and whether the answers to it are allowed.
    pub(super) fn step(&mut self, step: Step) -> Result<(), String> {
        let before = self.window;
        match step {
            Step::Ack { segments, ece, rtt_us, after_us } => self.ack(segments, ece, rtt_us, after_us)?,
            Step::Cut(cause) => {
                self.window.ssthresh = self.cc.reduced(&self.window, cause);
                self.window.cwnd = self.window.ssthresh;
                self.closed = 5;
            }
            Step::Timeout => {
                self.window.ssthresh = self.cc.reduced(&self.window, Congestion::Loss);
                self.cc.on_timeout();
                self.window.cwnd = u64::from(MSS);
                self.closed = 5;
            }
            Step::Idle { us } => {
                self.now += Span::from_us(us);
                self.cc.on_restart(Span::from_us(us));
            }
        }
        self.judge(&before, step)
    }

    fn judge(&self, before: &Window, step: Step) -> Result<(), String> {
        let Window { cwnd, ssthresh, mss } = self.window;
        let mss = u64::from(mss);
        ensure(cwnd >= mss, || {
            format!("cwnd is {cwnd} bytes, below one segment of {mss} bytes, after {step:?}")
        })?;
        ensure(ssthresh >= mss, || {
            format!("ssthresh is {ssthresh} bytes, below one segment, after {step:?}")
        })?;
        let is_cut = matches!(step, Step::Cut(_) | Step::Timeout);
        ensure(!is_cut || ssthresh <= before.cwnd.max(2 * mss), || {
            format!("a cut grew: {} bytes became {ssthresh} bytes after {step:?}", before.cwnd)
        })
    }

    fn ack(&mut self, segments: u64, ece: bool, rtt_us: u64, after_us: u64) -> Result<(), String> {
        let before = self.window;
        let acked = (segments * u64::from(MSS)).min(self.window.cwnd);
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
            ..sample(acked, self.snd_una, self.snd_una + self.window.cwnd)
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
        self.cc.increase(&mut self.window, &ack);
        let (from, to) = (before.cwnd, self.window.cwnd);
        ensure(to <= from + acked.max(u64::from(MSS)), || {
            format!("increase grew from {from} to {to} bytes for an ACK of {acked} bytes")
        })?;
        if before.cwnd < before.ssthresh {
            return Ok(());
        }
        ensure(to >= self.window.ssthresh, || {
            format!("increase led back to slow start: cwnd {to} is below ssthresh {}", self.window.ssthresh)
        })?;
        // An algorithm that goes by delay halves at most, as after a loss.
        ensure(to + u64::from(MSS) >= from / 2, || {
            format!("increase shrank from {from} to {to} bytes, by more than half")
        })
    }
}

/// Plays `steps` and looks at each answer. Returns the windows.
pub(super) fn play(config: &CongestionControlConfig, steps: &[Step]) -> Result<Vec<Window>, String> {
    let mut player = Player::new(config);
    steps.iter().map(|step| player.step(*step).map(|()| player.window)).collect()
}
