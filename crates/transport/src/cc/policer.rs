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
