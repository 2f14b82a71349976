//! BBR's detection of token buckets that drop (Linux `bbr_lt_bw_sampling`): two intervals in a row with many losses and about the same rate.

use super::DeliverySample;
use super::bbr::{BW_UNIT, UNIT, bytes_per_second};
use pauseframe_units::{Span, Time};

/// `bbr_lt_intvl_min_rtts`: shortest interval in round trips; four times as long is too long.
const MIN_ROUNDS: u32 = 4;
/// `bbr_lt_loss_thresh`: share of lost packets, of [`UNIT`].
const LOSS_THRESHOLD: u64 = 50;
/// `bbr_lt_bw_ratio` and `bbr_lt_bw_diff`, bytes a second: rates this close are the same.
const SAME_RATE_RATIO: u64 = UNIT / 8;
const SAME_RATE_DIFFERENCE: u64 = 500;
/// `bbr_lt_bw_max_rtts`: round trips until the rate is measured again.
const MAX_ROUNDS_IN_USE: u32 = 48;

/// The long-term rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    is_sampling: bool,
    pub(super) in_use: bool,
    rounds: u32,
    /// Packets a microsecond times [`BW_UNIT`]; 0: none yet.
    pub(super) rate: u64,
    since: Interval,
}

/// Where an interval began: milliseconds, and packets delivered and lost before.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    ms: u64,
    delivered: u64,
    lost: u64,
}

impl Policer {
    fn begin_interval(&mut self, sample: &DeliverySample, mss: u64) {
        self.rounds = 0;
        self.since = Interval {
            ms: milliseconds(sample.delivered_at),
            delivered: sample.delivered / mss,
            lost: sample.lost / mss,
        };
    }

    /// `bbr_reset_lt_bw_sampling`
    pub(super) fn reset(&mut self, sample: &DeliverySample, mss: u64) {
        *self = Policer::default();
        self.begin_interval(sample, mss);
    }

    /// Counts a round trip in which the rate is used; true: it has been used for long enough.
    pub(super) fn is_outdated(&mut self, round_start: bool) -> bool {
        self.rounds += u32::from(round_start);
        round_start && self.rounds >= MAX_ROUNDS_IN_USE
    }

    /// Measures; `losses`: packets newly lost. True: the rate is in use from now on.
    pub(super) fn measure(
        &mut self,
        sample: &DeliverySample,
        losses: u64,
        round_start: bool,
        mss: u64,
    ) -> bool {
        if !self.is_sampling {
            if losses == 0 {
                return false;
            }
            self.begin_interval(sample, mss);
            self.is_sampling = true;
        }
        if sample.is_app_limited {
            self.reset(sample, mss);
            return false;
        }
        self.rounds += u32::from(round_start);
        if self.rounds > 4 * MIN_ROUNDS {
            self.reset(sample, mss);
            return false;
        }
        if self.rounds < MIN_ROUNDS || losses == 0 {
            return false;
        }
        let lost = sample.lost / mss - self.since.lost;
        let delivered = sample.delivered / mss - self.since.delivered;
        let ms = milliseconds(sample.delivered_at) - self.since.ms;
        if delivered == 0 || lost * UNIT < LOSS_THRESHOLD * delivered || ms < 1 {
            return false;
        }
        self.end_interval(delivered * BW_UNIT / (ms * 1000), sample, mss)
    }

    /// `bbr_lt_bw_interval_done`
    fn end_interval(&mut self, rate: u64, sample: &DeliverySample, mss: u64) -> bool {
        let difference = rate.abs_diff(self.rate);
        if self.rate > 0
            && (difference * UNIT <= SAME_RATE_RATIO * self.rate
                || bytes_per_second(difference, UNIT, mss) <= SAME_RATE_DIFFERENCE)
        {
            self.rate = self.rate.midpoint(rate);
            self.in_use = true;
            self.rounds = 0;
            return true;
        }
        self.rate = rate;
        self.begin_interval(sample, mss);
        false
    }
}

fn milliseconds(at: Time) -> u64 {
    at.0 / Span::from_ms(1).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// A sample at a time in milliseconds, with packets delivered and lost so far.
    fn sample(ms: u64, delivered: u64, lost: u64, is_app_limited: bool) -> DeliverySample {
        DeliverySample {
            now: Time::ZERO + Span::from_ms(ms),
            delivered: delivered * MSS,
            lost: lost * MSS,
            delivered_at: Time::ZERO + Span::from_ms(ms),
            is_app_limited,
            ..DeliverySample::QUIET
        }
    }

    /// Four round trips of 50 ms from a loss on, which deliver and lose so many packets; the last one ends with a loss.
    fn interval(policer: &mut Policer, from_ms: u64, delivered: [u64; 2], lost: [u64; 2]) -> bool {
        let begun = policer.is_sampling;
        if !begun {
            assert!(!policer.measure(&sample(from_ms - 1, delivered[0], lost[0], false), 0, true, MSS));
            assert!(!policer.is_sampling, "it begins with a loss");
            assert!(!policer.measure(&sample(from_ms, delivered[0], lost[0], false), 1, false, MSS));
        }
        for round in 1..4 {
            let middle = sample(from_ms + 50 * round, delivered[0] + 10, lost[1], false);
            assert!(!policer.measure(&middle, 1, true, MSS));
        }
        let end = sample(from_ms + 200, delivered[1], lost[1], false);
        assert!(!policer.measure(&end, 0, true, MSS), "it ends with a loss");
        policer.measure(&end, 1, false, MSS)
    }

    /// 400 packets in 200 ms are two a millisecond; the next interval may differ by an eighth, and the mean is used.
    #[test]
    fn two_intervals_of_one_rate_find_a_token_bucket() {
        for (second, is_same) in [(400, true), (350, true), (349, false), (450, true), (451, false)] {
            let mut policer = Policer::default();
            assert!(!interval(&mut policer, 1000, [100, 500], [1, 101]));
            assert_eq!(policer.rate, 2 * BW_UNIT / 1000);
            assert_eq!(interval(&mut policer, 1200, [500, 500 + second], [101, 301]), is_same, "{second}");
            assert_eq!(policer.in_use, is_same);
            let rate = |packets: u64| packets * BW_UNIT / 200_000;
            let expected = if is_same { rate(400).midpoint(rate(second)) } else { rate(second) };
            assert_eq!(policer.rate, expected);
        }
    }

    /// 79 of 400 packets are just more than 50 of 256.
    #[test]
    fn few_losses_are_no_token_bucket() {
        for (lost, counts) in [(78, false), (79, true)] {
            let mut policer = Policer::default();
            interval(&mut policer, 1000, [100, 500], [1, 1 + lost]);
            assert_eq!(policer.rate > 0, counts, "{lost}");
        }
    }

    #[test]
    fn long_and_idle_intervals_begin_anew() {
        let mut policer = Policer::default();
        policer.measure(&sample(1, 10, 1, false), 1, false, MSS);
        for round in 1..=16 {
            policer.measure(&sample(round * 50, 10, 1, false), 0, true, MSS);
            assert!(policer.is_sampling, "{round}");
        }
        policer.measure(&sample(900, 10, 1, false), 0, true, MSS);
        assert!(!policer.is_sampling);
        policer.measure(&sample(950, 10, 1, false), 1, false, MSS);
        assert!(policer.is_sampling);
        policer.measure(&sample(960, 10, 1, true), 1, false, MSS);
        assert!(!policer.is_sampling);
    }

    #[test]
    fn the_rate_is_measured_again_after_48_round_trips() {
        let mut policer = Policer::default();
        assert!((1..48).all(|_| !policer.is_outdated(true)));
        assert!(!policer.is_outdated(false));
        assert!(policer.is_outdated(true));
    }
}
