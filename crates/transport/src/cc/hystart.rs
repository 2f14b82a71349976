//! `HyStart` (Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks", `PFLDnet` 2008) as in Linux 6.1: slow
//! start ends when the ACKs of a round come for longer than half of the smallest RTT, or with a longer RTT.
//!
//! Linux before 5.6 kept the time of a train in whole milliseconds, and judged an ACK before it began a round: where the RTT is
//! far below a millisecond, slow start ends at the first tick of that clock (`cubic_hystart_milliseconds`).
//!
//! Left out: the pacing of the socket, with which Linux does not halve the first threshold; `HyStart++` (RFC 9406).

use super::{AckSample, Window};
use pauseframe_units::Time;

/// ACKs further apart than this do not belong to one train, in microseconds.
const ACK_DELTA: u64 = 2_000;
/// RTT samples of a round before its smallest is judged.
const SAMPLES_MIN: u32 = 8;
/// The longer RTT: by an eighth of the smallest, between these, in microseconds.
const DELAY_MIN: u64 = 4_000;
const DELAY_MAX: u64 = 16_000;
/// Largest burst that segmentation offload makes.
const GSO_MAX_SIZE: u64 = 65_536;

/// The detectors of one connection. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hystart {
    low_window: u32,
    /// As Linux before 5.6.
    milliseconds: bool,
    /// Slow start was left once.
    found: bool,
    samples: u32,
    round_start: u64,
    last_ack: u64,
    /// `snd_nxt` when this round began.
    end_seq: u64,
    rtt_min: u64,
}

impl Hystart {
    pub(super) fn new(low_window: u32, milliseconds: bool) -> Hystart {
        Hystart {
            low_window,
            milliseconds,
            found: false,
            samples: 0,
            round_start: 0,
            last_ack: 0,
            end_seq: 0,
            rtt_min: u64::MAX,
        }
    }

    /// After a timeout.
    pub(super) fn restart(&mut self) {
        *self = Hystart::new(self.low_window, self.milliseconds);
    }

    /// Takes in an RTT sample in slow start, in microseconds like `delay_min`.
    pub(super) fn leaves_slow_start(
        &mut self,
        window: &Window,
        ack: &AckSample,
        delay: u64,
        delay_min: u64,
    ) -> bool {
        if self.found {
            return false;
        }
        let now = microseconds(ack.now);
        // Rounds are counted from the first ACK on, also while the window is too small to judge (Linux since 2025).
        let begins = ack.snd_una > self.end_seq;
        if begins && !self.milliseconds {
            self.begin_round(now, ack.snd_nxt);
        }
        self.found = window.cwnd >= window.segments(self.low_window)
            && (self.train_is_long(window, ack, now, delay_min) || self.delay_is_longer(delay, delay_min));
        if begins && self.milliseconds {
            self.begin_round(now, ack.snd_nxt);
        }
        self.found
    }

    fn begin_round(&mut self, now: u64, snd_nxt: u64) {
        self.round_start = now;
        self.last_ack = now;
        self.end_seq = snd_nxt;
        self.rtt_min = u64::MAX;
        self.samples = 0;
    }

    fn train_is_long(&mut self, window: &Window, ack: &AckSample, now: u64, delay_min: u64) -> bool {
        if now.saturating_sub(self.last_ack) > ACK_DELTA {
            return false;
        }
        self.last_ack = now;
        if self.milliseconds {
            // Half of the RTT, which is kept in whole eighths of a millisecond.
            return now / 1000 - self.round_start / 1000 > (delay_min * 8 / 1000).max(1) >> 4;
        }
        now - self.round_start > u64::midpoint(delay_min, ack_delay(window, ack))
    }

    fn delay_is_longer(&mut self, delay: u64, delay_min: u64) -> bool {
        self.rtt_min = self.rtt_min.min(delay);
        if self.samples < SAMPLES_MIN {
            self.samples += 1;
            return false;
        }
        self.rtt_min > delay_min + (delay_min / 8).clamp(DELAY_MIN, DELAY_MAX)
    }
}

fn microseconds(time: Time) -> u64 {
    time.0 / 1_000_000
}

/// How long ACKs may be held together by offloads: what four bursts take at the pacing rate, at most 1 ms.
fn ack_delay(window: &Window, ack: &AckSample) -> u64 {
    let srtt = ack.srtt.0 / 1_000_000;
    // The pacing rate is twice the window per srtt far below ssthresh, else 1.2 times.
    let tenths = if window.cwnd < window.ssthresh / 2 { 20 } else { 12 };
    (4 * GSO_MAX_SIZE * srtt * 10 / (window.cwnd * tenths)).min(1_000)
}
