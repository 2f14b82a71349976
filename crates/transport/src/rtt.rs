//! Round-trip time and retransmission timeout (RFC 6298), with the minimum entering in one of three forms.
//!
//! A sample is taken from every ACK of new data, as Linux and FreeBSD with timestamps do, not once per round trip.
//! After a lost SYN without a sample the first timeout is three times the initial one (§5.7: 3 s for 1 s).

use crate::config::{RtoConfig, RtoForm};
use pauseframe_units::{Span, Time};

/// FreeBSD 9.3 `tcp_syn_backoff`: 1, 1, 1, 1, 1, 2, 4, .. 64; `tcp_backoff`: 1, 2, 4, .. 512.
const FREEBSD_EQUAL_SYN_TIMEOUTS: u8 = 4;
const FREEBSD_SYN_DOUBLINGS: u8 = 6;
const FREEBSD_DOUBLINGS: u8 = 9;

/// The estimator and the back-off.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: Span,
    rttvar: Span,
    /// Before back-off.
    rto: Span,
    backoff: u8,
    /// Timeouts that do not double the next one.
    held: u8,
    sampled: bool,
}

impl RttEstimator {
    /// No sample yet: RTO is `config.initial`.
    pub(crate) fn new(config: &RtoConfig) -> RttEstimator {
        let rto = config.initial.min(config.max);
        RttEstimator { srtt: Span::ZERO, rttvar: Span::ZERO, rto, backoff: 0, held: 0, sampled: false }
    }

    /// Adds an RTT sample and ends the back-off (§5.7; the caller applies Karn's rule).
    #[inline]
    pub(crate) fn add_sample(&mut self, rtt: Span, config: &RtoConfig) {
        if self.sampled {
            // §2.3: beta 1/4, alpha 1/8; rttvar uses the srtt before the update.
            let error = self.srtt.0.abs_diff(rtt.0);
            self.rttvar.0 = self.rttvar.0 - self.rttvar.0 / 4 + error / 4;
            self.srtt.0 = self.srtt.0 - self.srtt.0 / 8 + rtt.0 / 8;
        } else {
            // §2.2
            self.srtt = rtt;
            self.rttvar = rtt / 2;
            self.sampled = true;
        }
        self.end_back_off();
        self.rto = self.compute_rto(config).min(config.max);
    }

    #[inline]
    fn compute_rto(&self, config: &RtoConfig) -> Span {
        let variance = self.rttvar * 4;
        match config.form {
            RtoForm::Rfc => config.min.max(self.srtt + config.granularity.max(variance)),
            RtoForm::Linux => config.round_to_jiffies(self.srtt + config.min.max(variance)),
            RtoForm::Freebsd => config.min.max(self.srtt + variance) + config.slop,
        }
    }

    /// Doubles the timeout (§5.5).
    pub(crate) fn double_rto(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// The timeout of a SYN has expired. FreeBSD repeats its SYN four times at the same interval (`tcp_syn_backoff`).
    pub(crate) fn back_off_syn(&mut self, config: &RtoConfig) {
        self.held = if config.form == RtoForm::Freebsd { FREEBSD_EQUAL_SYN_TIMEOUTS } else { 0 };
        self.double_rto();
    }

    /// The handshake gave no sample, because its SYN was sent again (RFC 6298 §5.7; Linux `tcp_init_metrics`, `TCP_TIMEOUT_FALLBACK`).
    // Deviates: 3 s where the initial timeout is 1 s, and in proportion where a scenario sets another. FreeBSD has no such rule.
    pub(crate) fn fall_back(&mut self, config: &RtoConfig) {
        if config.form != RtoForm::Freebsd && !self.sampled {
            self.rto = config.initial.saturating_mul(3).min(config.max);
        }
    }

    /// Ends the back-off without a sample, because an ACK has increased the window.
    pub(crate) fn end_back_off(&mut self) {
        (self.backoff, self.held) = (0, 0);
    }

    /// The current timeout, including back-off, at most `config.max`.
    pub(crate) fn rto(&self, config: &RtoConfig) -> Span {
        if config.form == RtoForm::Freebsd && self.backoff > 0 {
            return self.freebsd_rto(config);
        }
        // 2^40 times a picosecond is a second, 2^24 times a microsecond 17 s: any maximum is reached before 63.
        let factor = 1u64 << self.backoff.min(63);
        self.rto.saturating_mul(factor).min(config.max)
    }

    /// `tcp_timer_rexmt`: the table multiplies what `TCPT_RANGESET` then adds the slop to. The first timeout of a SYN has none.
    #[cold]
    fn freebsd_rto(&self, config: &RtoConfig) -> Span {
        let base = if self.sampled { Span(self.rto.0 - config.slop.0.min(self.rto.0)) } else { self.rto };
        let largest = if self.held > 0 { FREEBSD_SYN_DOUBLINGS } else { FREEBSD_DOUBLINGS };
        let factor = 1u64 << self.backoff.saturating_sub(self.held).min(largest);
        base.saturating_mul(factor).saturating_add(config.slop).min(config.max)
    }

    /// The timeout with the base raised to `least`, including back-off, at most `config.max`.
    pub(crate) fn rto_at_least(&self, least: Span, config: &RtoConfig) -> Span {
        self.rto.max(least).saturating_mul(1u64 << self.backoff.min(63)).min(config.max)
    }

    /// When a timer that starts now expires: a whole number of clock ticks.
    #[inline]
    pub(crate) fn rto_deadline(&self, now: Time, config: &RtoConfig) -> Time {
        let timeout = if self.backoff == 0 { self.rto } else { self.rto(config) };
        config.timer_expiry(now, timeout)
    }

    /// The deadline for a segment that was sent before `now`.
    pub(crate) fn rto_deadline_since(&self, sent_at: Time, now: Time, config: &RtoConfig) -> Time {
        if !config.wheel {
            return self.rto_deadline(sent_at, config).max(now);
        }
        config.timer_expiry(now, sent_at.saturating_add(self.rto(config)).saturating_since(now))
    }

    /// Sets the RTO until the next sample, from the connection cache.
    pub(crate) fn inherit_rto(&mut self, rto: Span, config: &RtoConfig) {
        self.rto = rto.min(config.max);
    }

    /// Starts with the values of an earlier connection.
    pub(crate) fn inherit_rtt(&mut self, srtt: Span, rttvar: Span, config: &RtoConfig) {
        (self.srtt, self.rttvar, self.sampled) = (srtt, rttvar, true);
        self.rto = self.compute_rto(config).min(config.max);
    }

    /// Doublings of the timeout.
    pub(crate) fn backoff(&self) -> u8 {
        self.backoff
    }

    /// The smoothed mean deviation.
    pub(crate) fn rttvar(&self) -> Span {
        self.rttvar
    }

    /// The smoothed round-trip time, once there is a sample.
    pub(crate) fn srtt(&self) -> Option<Span> {
        self.sampled.then_some(self.srtt)
    }
}

/// Period of a clock in ticks: the timer wheel has steps of 1, 8, 64 and 512 ticks, except for longer timers.
pub const CLOCK_PERIOD_TICKS: u64 = 512;

impl RtoConfig {
    /// Linux keeps the timeout in jiffies (`__tcp_set_rto`, `usecs_to_jiffies`), so back-off doubles the rounded value: 5.1 ms becomes 12 ms, not
    /// 10.2 ms.
    #[inline]
    fn round_to_jiffies(&self, rto: Span) -> Span {
        if !self.wheel {
            return rto;
        }
        let tick = self.granularity.0.max(1);
        Span(rto.0.div_ceil(tick).saturating_mul(tick))
    }

    /// When a timer that is set at `now` expires.
    #[inline]
    pub(crate) fn timer_expiry(&self, now: Time, timeout: Span) -> Time {
        if self.wheel {
            return self.wheel_expiry(now, timeout);
        }
        self.round_up_to_tick(now.saturating_add(timeout))
    }

    /// Linux `calc_wheel_index`: a timeout is a whole number of ticks from the last tick, plus one so that none fires early. From 63 ticks on it has
    /// steps of 8 ticks, from 63 * 8 on steps of 64, and so on. A timer of 201 ms set between two ticks expires 201 to 209 ms later.
    #[cold]
    fn wheel_expiry(&self, now: Time, timeout: Span) -> Time {
        const LEVELS: u32 = 8;
        let tick = self.granularity.0.max(1);
        let ticks = timeout.0.div_ceil(tick);
        let level = (0..LEVELS).find(|level| ticks < 63 << (3 * level)).unwrap_or(LEVELS);
        let ahead = self.clock_offset();
        let at = (now.0.saturating_add(ahead) / tick).saturating_add(ticks);
        Time((((at >> (3 * level)) + 1) << (3 * level)).saturating_mul(tick).saturating_sub(ahead))
    }

    /// How long before the run the host's tick count started, in picoseconds.
    fn clock_offset(&self) -> u64 {
        if self.phase == Span::ZERO {
            return 0;
        }
        (CLOCK_PERIOD_TICKS * self.granularity.0.max(1)).saturating_sub(self.phase.0)
    }

    /// The time from `from` to `now`, by Linux's clock (`tcp_jiffies32`) in whole ticks.
    pub(crate) fn elapsed_in_ticks(&self, from: Time, now: Time) -> Span {
        if !self.wheel {
            return now.saturating_since(from);
        }
        let (tick, ahead) = (self.granularity.0.max(1), self.clock_offset());
        let shows = |time: Time| time.0.saturating_add(ahead) / tick;
        Span(shows(now).saturating_sub(shows(from)).saturating_mul(tick))
    }

    /// `now` as Linux's clock shows it (`tcp_jiffies32`), in whole ticks.
    pub(crate) fn clock_time(&self, now: Time) -> Time {
        Time::ZERO.saturating_add(self.elapsed_in_ticks(Time::ZERO, now))
    }

    /// The first clock tick at or after `expiry`.
    #[inline]
    pub(crate) fn round_up_to_tick(&self, expiry: Time) -> Time {
        let tick = self.granularity.0;
        if tick <= 1 {
            return expiry;
        }
        let past = match self.phase {
            Span::ZERO => expiry.0 % tick,
            phase => (expiry.0 % tick + tick - phase.0 % tick) % tick,
        };
        match past {
            0 => expiry,
            past => expiry.saturating_add(Span(tick - past)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(form: RtoForm) -> RtoConfig {
        RtoConfig {
            initial: Span::from_secs(1),
            min: Span::from_ms(10),
            max: Span::from_secs(60),
            granularity: Span::from_ms(1),
            phase: Span::ZERO,
            form,
            slop: Span::from_ms(20),
            wheel: false,
        }
    }

    /// RTO after samples of 100 us, then 300 us, by hand: srtt 100 then 125 us; rttvar 50 then 37.5 + 50 = 87.5 us.
    #[test]
    fn the_three_forms_match_arithmetic_by_hand() {
        for (form, first, second) in [
            // max(10 ms, 100 us + max(1 ms, 200 us)); the minimum rules.
            (RtoForm::Rfc, Span::from_ms(10), Span::from_ms(10)),
            // 100 us + max(10 ms, 200 us), then 125 us + max(10 ms, 350 us).
            (RtoForm::Linux, Span::from_us(10_100), Span::from_us(10_125)),
            // max(10 ms, 100 + 200 us) + 20 ms; the minimum rules before the slop.
            (RtoForm::Freebsd, Span::from_ms(30), Span::from_ms(30)),
        ] {
            let config = config(form);
            let mut rtt = RttEstimator::new(&config);
            assert_eq!((rtt.srtt(), rtt.rto(&config)), (None, Span::from_secs(1)));
            rtt.add_sample(Span::from_us(100), &config);
            assert_eq!((rtt.srtt, rtt.rttvar), (Span::from_us(100), Span::from_us(50)));
            assert_eq!(rtt.rto(&config), first, "{form:?}");
            rtt.add_sample(Span::from_us(300), &config);
            assert_eq!((rtt.srtt, rtt.rttvar), (Span::from_us(125), Span::from_ns(87_500)));
            assert_eq!(rtt.rto(&config), second, "{form:?}");
        }
    }

    #[test]
    fn above_the_minimum_the_rfc_form_adds_the_variance_or_a_tick() {
        let config = RtoConfig { min: Span::ZERO, ..config(RtoForm::Rfc) };
        let mut rtt = RttEstimator::new(&config);
        rtt.add_sample(Span::from_us(100), &config);
        assert_eq!(rtt.rto(&config), Span::from_us(1_100), "4 rttvar = 200 us is less than G");
        let mut slow = RttEstimator::new(&config);
        slow.add_sample(Span::from_ms(8), &config);
        assert_eq!(slow.rto(&config), Span::from_ms(24));
    }

    /// FreeBSD 9.3 with its defaults, by hand: `TCP_REXMTVAL` is the minimum of 30 ms, times 1, 2, 4, .. 512, plus the slop of 200 ms. The
    /// SYN waits 3 s, then 3.2 s four times, then twice as long each time.
    #[test]
    fn freebsd_backs_off_before_it_adds_the_slop() {
        let config = RtoConfig {
            initial: Span::from_secs(3),
            min: Span::from_ms(30),
            max: Span::from_secs(64),
            slop: Span::from_ms(200),
            ..config(RtoForm::Freebsd)
        };
        let mut rtt = RttEstimator::new(&config);
        let syn: Vec<u64> = (0..9)
            .map(|_| {
                let rto = rtt.rto(&config);
                rtt.back_off_syn(&config);
                rto.0 / Span::from_ms(1).0
            })
            .collect();
        assert_eq!(syn, [3_000, 3_200, 3_200, 3_200, 3_200, 6_200, 12_200, 24_200, 48_200]);
        rtt.add_sample(Span::from_us(100), &config);
        let data: Vec<u64> = (0..12)
            .map(|_| {
                let rto = rtt.rto(&config);
                rtt.double_rto();
                rto.0 / Span::from_ms(1).0
            })
            .collect();
        assert_eq!(data, [230, 260, 320, 440, 680, 1_160, 2_120, 4_040, 7_880, 15_560, 15_560, 15_560]);
        rtt.add_sample(Span::from_us(100), &config);
        assert_eq!(rtt.rto(&config), Span::from_ms(230), "a sample ends it");
        // With a longer maximum the SYN's table ends at 64 times, the other one at 512 times.
        let long = RtoConfig { max: Span::from_secs(10_000), ..config };
        let mut rtt = RttEstimator::new(&long);
        (0..20).for_each(|_| rtt.back_off_syn(&long));
        assert_eq!(rtt.rto(&long), Span::from_ms(64 * 3_000 + 200));
        let mut rtt = RttEstimator::new(&long);
        (0..20).for_each(|_| rtt.double_rto());
        assert_eq!(rtt.rto(&long), Span::from_ms(512 * 3_000 + 200));
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum_and_a_sample_ends_it() {
        let config = config(RtoForm::Rfc);
        let mut rtt = RttEstimator::new(&config);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(rtt.rto(&config), Span::from_secs(seconds));
            rtt.double_rto();
        }
        for _ in 0..300 {
            rtt.double_rto();
        }
        assert_eq!(rtt.rto(&config), Span::from_secs(60));
        rtt.add_sample(Span::from_us(100), &config);
        assert_eq!(rtt.rto(&config), Span::from_ms(10));
    }

    #[test]
    fn deadlines_fall_on_ticks() {
        let config = config(RtoForm::Linux);
        let mut rtt = RttEstimator::new(&config);
        rtt.add_sample(Span::from_us(100), &config);
        // 0.25 ms + 10.1 ms = 10.35 ms, up to 11 ms.
        assert_eq!(rtt.rto_deadline(Time(250_000_000), &config), Time(11_000_000_000));
        // A clock that ticks at 0.3 ms, 1.3 ms, ...: 11.3 ms for what is due at 10.35, 10.3 ms for 10.25 ms.
        let late = RtoConfig { phase: Span::from_us(300), ..config };
        assert_eq!(rtt.rto_deadline(Time(250_000_000), &late), Time(11_300_000_000));
        assert_eq!(rtt.rto_deadline(Time(150_000_000), &late), Time(10_300_000_000));
        assert_eq!(late.round_up_to_tick(Time(10_300_000_000)), Time(10_300_000_000));
        let fine = RtoConfig { granularity: Span::ZERO, ..config };
        assert_eq!(rtt.rto_deadline(Time(250_000_000), &fine), Time(10_350_000_000));
    }

    /// By hand: 10.1 ms are 11 ticks, from tick 0 of 0.25 ms, and one more. 201 ticks from tick 1000 are 1201, which lies below
    /// 1208 = 151 * 8. 600 ticks are on the third level: 1600 lies below 1664 = 26 * 64.
    #[test]
    fn the_wheel_is_late_and_the_later_the_coarser() {
        let config = RtoConfig { wheel: true, ..config(RtoForm::Linux) };
        let mut rtt = RttEstimator::new(&config);
        rtt.add_sample(Span::from_us(100), &config);
        assert_eq!(rtt.rto_deadline(Time(250_000_000), &config), Time(12_000_000_000));
        assert_eq!(
            rtt.rto_deadline_since(Time(250_000_000), Time(5_900_000_000), &config),
            Time(12_000_000_000)
        );
        // 10.1 ms are 11 jiffies, and 22 after a timeout, from tick 12 on.
        rtt.double_rto();
        assert_eq!(rtt.rto_deadline(Time(12_000_000_000), &config), Time(35_000_000_000));
        let at = |now_us: u64, timeout| {
            config.timer_expiry(Time::ZERO + Span::from_us(now_us), timeout).saturating_since(Time::ZERO)
        };
        assert_eq!(at(1_000_999, Span::from_ms(62)), Span::from_ms(1063));
        assert_eq!(at(1_000_000, Span::from_ms(63)), Span::from_ms(1064));
        assert_eq!(at(1_000_000, Span::from_ms(201)), Span::from_ms(1208));
        assert_eq!(at(1_000_000, Span::from_ms(600)), Span::from_ms(1664));
        assert_eq!(config.timer_expiry(Time::MAX, Span(u64::MAX)), Time(u64::MAX));
        // A clock that is at zero at 5.3 ms: 201 ticks from its tick 994 are 1195, below 1200 = 150 * 8, at 1205.3 ms.
        let late = RtoConfig { phase: Span::from_us(5_300), ..config };
        // It ticks at 6.3 ms and 7.3 ms: two ticks in 1.02 ms, and none in 0.98 ms.
        assert_eq!(late.elapsed_in_ticks(Time(6_290_000_000), Time(7_310_000_000)), Span::from_ms(2));
        assert_eq!(late.elapsed_in_ticks(Time(6_310_000_000), Time(7_290_000_000)), Span::ZERO);
        assert_eq!(late.elapsed_in_ticks(Time::MAX, Time(7_290_000_000)), Span::ZERO);
        let at = late.timer_expiry(Time::ZERO + Span::from_secs(1), Span::from_ms(201));
        assert_eq!(at, Time::ZERO + Span::from_us(1_205_300));
    }

    /// At an ACK, Linux starts the timer for the rest of the time, which is shorter and meets finer steps of the wheel.
    #[test]
    fn a_timer_for_an_older_segment_runs_from_its_departure() {
        let at = |wheel: bool, now: Span| {
            let config = RtoConfig { wheel, min: Span::from_ms(200), ..config(RtoForm::Linux) };
            let mut rtt = RttEstimator::new(&config);
            rtt.add_sample(Span::from_us(100), &config);
            let deadline = rtt.rto_deadline_since(Time::ZERO, Time::ZERO + now, &config);
            deadline.saturating_since(Time::ZERO)
        };
        // 200.1 ms: 201 ticks, and 208 on the wheel's second level; of the 51 that are left after 150 ms none is coarse.
        assert_eq!([at(false, Span::ZERO), at(true, Span::ZERO)], [201, 208].map(Span::from_ms));
        assert_eq!(
            [at(false, Span::from_ms(150)), at(true, Span::from_ms(150))],
            [201, 202].map(Span::from_ms)
        );
        // It has expired: at once, or at the next tick.
        assert_eq!(at(false, Span::from_us(300_500)), Span::from_us(300_500));
        assert_eq!(at(true, Span::from_us(300_500)), Span::from_ms(301));
    }
}
