//! `HyStart` (Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks", `PFLDnet` 2008) as in Linux 6.1: slow start ends when
//! the ACK train of a round lasts longer than half of the smallest RTT, or when the RTT has increased.
//!
//! Linux before 5.6 measured the train in whole milliseconds and checked it before starting a new round. With an RTT far below a millisecond, slow
//! start then ends at the first tick of that clock (`cubic_hystart_milliseconds`).
//!
//! Left out: with pacing, Linux does not halve the first threshold; `HyStart++` (RFC 9406).

use super::{AckSample, CongestionWindow};
use pauseframe_units::Time;

/// ACKs further apart than this do not belong to one train, in microseconds.
const ACK_TRAIN_GAP_US: u64 = 2_000;
/// RTT samples that a round needs before its smallest is compared.
const MIN_RTT_SAMPLES: u32 = 8;
/// Bounds of the delay threshold (an eighth of the smallest RTT), in microseconds.
const MIN_DELAY_THRESHOLD_US: u64 = 4_000;
const MAX_DELAY_THRESHOLD_US: u64 = 16_000;
/// Largest burst that segmentation offload makes.
const GSO_MAX_SIZE: u64 = 65_536;

/// The detectors of one connection. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hystart {
    low_window: u32,
    /// Whole milliseconds, as in Linux before 5.6.
    milliseconds: bool,
    /// Slow start has ended once.
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
    pub(super) fn on_timeout(&mut self) {
        *self = Hystart::new(self.low_window, self.milliseconds);
    }

    /// Processes an RTT sample in slow start; true if slow start should end. Times in microseconds.
    pub(super) fn detect_exit(
        &mut self,
        window: &CongestionWindow,
        ack: &AckSample,
        delay: u64,
        delay_min: u64,
    ) -> bool {
        if self.found {
            return false;
        }
        let now = to_microseconds(ack.now);
        // Rounds are counted from the first ACK on, even while the window is too small for the check (Linux since 2025).
        let begins = ack.snd_una > self.end_seq;
        if begins && !self.milliseconds {
            self.begin_round(now, ack.snd_nxt);
        }
        self.found = window.cwnd >= window.segments_to_bytes(self.low_window)
            && (self.detect_ack_train(window, ack, now, delay_min)
                || self.detect_delay_increase(delay, delay_min));
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

    fn detect_ack_train(
        &mut self,
        window: &CongestionWindow,
        ack: &AckSample,
        now: u64,
        delay_min: u64,
    ) -> bool {
        if now.saturating_sub(self.last_ack) > ACK_TRAIN_GAP_US {
            return false;
        }
        self.last_ack = now;
        if self.milliseconds {
            // Half of the RTT, in whole eighths of a millisecond.
            return now / 1000 - self.round_start / 1000 > (delay_min * 8 / 1000).max(1) >> 4;
        }
        now - self.round_start > u64::midpoint(delay_min, ack_delay(window, ack))
    }

    fn detect_delay_increase(&mut self, delay: u64, delay_min: u64) -> bool {
        self.rtt_min = self.rtt_min.min(delay);
        if self.samples < MIN_RTT_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.rtt_min > delay_min + (delay_min / 8).clamp(MIN_DELAY_THRESHOLD_US, MAX_DELAY_THRESHOLD_US)
    }
}

fn to_microseconds(time: Time) -> u64 {
    time.0 / 1_000_000
}

/// How long offloads may hold ACKs together: four bursts at the pacing rate, at most 1 ms.
fn ack_delay(window: &CongestionWindow, ack: &AckSample) -> u64 {
    let srtt = ack.srtt.0 / 1_000_000;
    // The pacing rate is twice the window per srtt far below ssthresh, else 1.2 times.
    let tenths = if window.cwnd < window.ssthresh / 2 { 20 } else { 12 };
    (4 * GSO_MAX_SIZE * srtt * 10 / (window.cwnd * tenths)).min(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::ack_sample;
    use pauseframe_units::Span;

    /// `tcp_update_pacing_rate` takes 200 % of the window below half of ssthresh and 120 % from there on, and
    /// `hystart_ack_delay` four bursts of 65,536 bytes at that rate: 65,536 * 4 * 100 us / 50,000 = 524 us of the window.
    #[test]
    fn the_ack_delay_follows_the_pacing_rate() {
        let srtt = Span::from_us(100);
        for (cwnd, ssthresh, expected) in
            [(50_000, 100_002, 262), (50_000, 100_000, 436), (50_000, 90_000, 436), (20_000, 20_000, 1000)]
        {
            let window = CongestionWindow { cwnd, ssthresh, mss: 1000 };
            let ack = AckSample { srtt, ..ack_sample(1000, 0, 0) };
            assert_eq!(ack_delay(&window, &ack), expected, "{cwnd} {ssthresh}");
        }
    }
}
