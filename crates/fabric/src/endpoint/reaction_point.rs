//! The reaction point of a flow queue: the rates of its limiter (IEEE 802.1Qau; IEEE 802.1Q clauses 30.3, 32.11 to 32.15).
//!
//! A CNM cuts the current rate by `G_d |Fb|`, at most to `min_decrease` of it, and makes the rate before the cut the
//! target. Cycles of a byte counter and of a timer bring it back: each halves the distance to the target (fast
//! recovery); when one of the two has had more than `fast_recovery` cycles the target grows by `active_increase` a
//! cycle, when both have, by `hyper_active_increase` times the cycles beyond. Cycles are half as long then. A CNM in the
//! first byte cycle after another leaves the target where it is; `extra_fast_recovery` divides a target that is more
//! than ten times the current rate by eight at the end of a first cycle (the working group's pseudo code, Pan 2008).

use crate::settings::{MAX_QUANTIZED_FEEDBACK, QcnSettings};
use pauseframe_engine::Rng;
use pauseframe_units::{BitRate, Span};

/// The limiter of one flow queue.
#[derive(Clone, Debug)]
pub(crate) struct QcnReactionPoint {
    /// Line rate of the NIC; a limiter that reaches it is inactive.
    line: BitRate,
    pub(crate) current_rate: BitRate,
    pub(crate) target_rate: BitRate,
    /// Bytes left in this cycle of the byte counter.
    bytes_left: i64,
    /// Cycles since the last CNM.
    byte_cycles: u32,
    timer_cycles: u32,
}

impl QcnReactionPoint {
    /// A reaction point at line rate.
    pub(crate) fn new(line: BitRate, settings: &QcnSettings) -> QcnReactionPoint {
        let bytes_left = settings.byte_counter.0 as i64;
        QcnReactionPoint {
            line,
            current_rate: line,
            target_rate: line,
            bytes_left,
            byte_cycles: 0,
            timer_cycles: 0,
        }
    }

    /// Whether the rate is below line rate.
    pub(crate) fn is_below_line_rate(&self) -> bool {
        self.current_rate < self.line
    }

    /// Handles a CNM with quantised feedback `fb`. The caller restarts the timer.
    pub(crate) fn on_cnm(&mut self, fb: u8, settings: &QcnSettings) {
        let idle = !self.is_below_line_rate();
        if idle || self.byte_cycles != 0 {
            self.target_rate = self.current_rate;
            self.bytes_left = settings.byte_counter.0 as i64;
        }
        self.byte_cycles = 0;
        self.timer_cycles = 0;
        let factor =
            (1.0 - settings.g_d * f64::from(fb.min(MAX_QUANTIZED_FEEDBACK))).max(settings.min_decrease);
        let least = settings.min_rate.min(self.line);
        self.current_rate = BitRate((self.current_rate.0 as f64 * factor).round() as u64).max(least);
    }

    /// Counts `bytes` sent under the limit, which may complete a byte cycle.
    pub(crate) fn on_bytes_sent(&mut self, bytes: u32, settings: &QcnSettings, rng: &mut Rng) {
        self.bytes_left -= i64::from(bytes);
        if self.bytes_left >= 0 {
            return;
        }
        self.byte_cycles += 1;
        let whole = settings.byte_counter.0 as f64;
        let cycle = if self.byte_cycles < settings.fast_recovery { whole } else { whole / 2.0 };
        self.bytes_left = settings.apply_jitter(cycle, rng).round() as i64;
        self.increase_rate(settings);
    }

    /// Handles the end of a timer cycle.
    pub(crate) fn on_timer_expiry(&mut self, settings: &QcnSettings) {
        self.timer_cycles += 1;
        self.increase_rate(settings);
    }

    /// The length of the timer's next cycle.
    pub(crate) fn draw_timer_period(&self, settings: &QcnSettings, rng: &mut Rng) -> Span {
        let whole = settings.timer.0 as f64;
        let cycle = if self.timer_cycles < settings.fast_recovery { whole } else { whole / 2.0 };
        Span(settings.apply_jitter(cycle, rng).round() as u64).max(Span(1))
    }

    fn increase_rate(&mut self, settings: &QcnSettings) {
        let first = self.byte_cycles == 1 || self.timer_cycles == 1;
        let far = self.target_rate.0 > 10 * self.current_rate.0;
        if settings.extra_fast_recovery && first && far {
            self.target_rate = BitRate(self.target_rate.0 / 8);
        } else {
            self.target_rate = BitRate(self.target_rate.0 + self.target_rate_step(settings));
        }
        self.current_rate = BitRate(u64::midpoint(self.target_rate.0, self.current_rate.0));
        if !self.is_below_line_rate() {
            (self.current_rate, self.target_rate) = (self.line, self.line);
        }
    }

    /// Growth of the target rate in this cycle, bit/s.
    fn target_rate_step(&self, settings: &QcnSettings) -> u64 {
        let cycles_after_recovery = |cycles: u32| cycles.saturating_sub(settings.fast_recovery);
        match (cycles_after_recovery(self.byte_cycles), cycles_after_recovery(self.timer_cycles)) {
            (0, 0) => 0,
            (0, _) | (_, 0) => settings.active_increase.0,
            (bytes, timer) => settings.hyper_active_increase.0.saturating_mul(u64::from(bytes.min(timer))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_engine::random_stream;

    const LINE: BitRate = BitRate::gbps(10);

    fn settings() -> QcnSettings {
        QcnSettings { jitter: 0.0, ..QcnSettings::default() }
    }

    /// Completes a cycle of the byte counter.
    fn cycle(point: &mut QcnReactionPoint, s: &QcnSettings) {
        let bytes = point.bytes_left as u32 + 1;
        point.on_bytes_sent(bytes, s, &mut random_stream(1, "test", 0));
    }

    #[test]
    fn a_cut_is_that_of_the_gain_and_at_most_half() {
        let s = settings();
        for (fb, mbps) in [(1, 9_921.875), (16, 8_750.0), (63, 5_078.125)] {
            let mut point = QcnReactionPoint::new(LINE, &s);
            point.on_cnm(fb, &s);
            assert_eq!(point.current_rate.0, (mbps * 1e6) as u64, "fb {fb}");
            assert_eq!(point.target_rate, LINE);
        }
        // cee Table I writes G_d = 0.5: read as the gain of one step it would always cut to the floor.
        let steep = QcnSettings { g_d: 0.5, ..s };
        let mut point = QcnReactionPoint::new(LINE, &steep);
        point.on_cnm(20, &steep);
        assert_eq!(point.current_rate, BitRate::gbps(5));
    }

    #[test]
    fn fast_recovery_halves_the_distance_five_times() {
        let s = settings();
        let mut point = QcnReactionPoint::new(LINE, &s);
        point.on_cnm(32, &s);
        assert_eq!(point.current_rate.0, 7_500_000_000);
        // From 7.5 towards 10 Gb/s.
        for rate in [8_750_000_000, 9_375_000_000, 9_687_500_000, 9_843_750_000, 9_921_875_000] {
            cycle(&mut point, &s);
            assert_eq!((point.current_rate.0, point.target_rate), (rate, LINE));
        }
    }

    #[test]
    fn active_and_hyper_active_increase_come_after_it() {
        let s = settings();
        let mut point = QcnReactionPoint::new(LINE, &s);
        point.on_cnm(63, &s);
        cycle(&mut point, &s);
        point.on_cnm(63, &s);
        // The second came after a cycle: the target is the rate before it, 7.5390625 Gb/s.
        let target = 7_539_062_500;
        assert_eq!(point.target_rate.0, target);
        assert_eq!(point.current_rate.0, (target as f64 * (1.0 - 63.0 / 128.0)).round() as u64);
        for _ in 0..5 {
            cycle(&mut point, &s);
            assert_eq!(point.target_rate.0, target);
        }
        // The byte counter alone is beyond five: 5 Mb/s a cycle.
        let before = point.current_rate.0;
        cycle(&mut point, &s);
        assert_eq!(point.target_rate.0, target + 5_000_000);
        assert_eq!(point.current_rate.0, (target + 5_000_000 + before) / 2);
        for _ in 0..5 {
            point.on_timer_expiry(&s);
        }
        assert_eq!(point.target_rate.0, target + 6 * 5_000_000);
        // Both are beyond it: 50 Mb/s times the smaller number of cycles beyond.
        point.on_timer_expiry(&s);
        assert_eq!(point.target_rate.0, target + 30_000_000 + 50_000_000);
        cycle(&mut point, &s);
        assert_eq!(point.target_rate.0, target + 80_000_000 + 50_000_000);
        point.on_timer_expiry(&s);
        assert_eq!(point.target_rate.0, target + 130_000_000 + 2 * 50_000_000);
    }

    #[test]
    fn a_cnm_in_the_first_byte_cycle_keeps_the_target() {
        let s = settings();
        let mut point = QcnReactionPoint::new(LINE, &s);
        point.on_cnm(32, &s);
        point.on_timer_expiry(&s);
        point.on_cnm(32, &s);
        assert_eq!(point.target_rate, LINE);
        assert_eq!(point.current_rate.0, 8_750_000_000 * 3 / 4);
    }

    #[test]
    fn extra_fast_recovery_lowers_a_distant_target() {
        let run = |extra_fast_recovery| {
            let s = QcnSettings { extra_fast_recovery, ..settings() };
            let mut point = QcnReactionPoint::new(LINE, &s);
            for _ in 0..4 {
                point.on_cnm(63, &s);
            }
            // 10 Gb/s (65/128)^4 = 665 Mb/s, each step rounded.
            assert_eq!(point.current_rate.0, 664_987_601);
            cycle(&mut point, &s);
            (point.target_rate.0, point.current_rate.0)
        };
        assert_eq!(run(true), (1_250_000_000, 957_493_800));
        assert_eq!(run(false), (10_000_000_000, 5_332_493_800));
    }

    #[test]
    fn cycles_are_half_as_long_after_fast_recovery() {
        let s = settings();
        let mut point = QcnReactionPoint::new(LINE, &s);
        let mut rng = random_stream(1, "test", 0);
        point.on_cnm(63, &s);
        assert_eq!(point.draw_timer_period(&s, &mut rng), Span::from_ms(15));
        for _ in 0..4 {
            cycle(&mut point, &s);
            point.on_timer_expiry(&s);
            assert_eq!(
                (point.bytes_left, point.draw_timer_period(&s, &mut rng)),
                (150_000, Span::from_ms(15))
            );
        }
        cycle(&mut point, &s);
        point.on_timer_expiry(&s);
        assert_eq!((point.bytes_left, point.draw_timer_period(&s, &mut rng)), (75_000, Span::from_us(7500)));
    }

    #[test]
    fn the_rate_stays_above_its_floor_and_the_limiter_ends_at_line_rate() {
        let s = settings();
        let mut point = QcnReactionPoint::new(LINE, &s);
        for _ in 0..100 {
            point.on_cnm(63, &s);
        }
        assert_eq!(point.current_rate, s.min_rate);
        for cycles in 1.. {
            cycle(&mut point, &s);
            point.on_timer_expiry(&s);
            if !point.is_below_line_rate() {
                // Hyper-active increase sums 50 Mb/s * n: 10 Gb/s after about 20 cycles of both.
                assert!((10..40).contains(&cycles), "{cycles}");
                break;
            }
        }
    }
}
