//! The congestion point of an egress queue (IEEE 802.1Qau; IEEE 802.1Q clauses 30.2 and 32.8).
//!
//! It samples the queue once per interval of bytes and computes `Fb = -(Q_off + w Q_delta)` with `Q_off = Q - Q_eq` and `Q_delta = Q - Q_old`. A
//! negative Fb is quantised to six bits and sent to the source of the sampled frame. A larger |Fb| shortens the interval to the next sample: each
//! eighth of its range takes the interval to 1/2, 1/3 .. 1/8 of its base (150, 75, 50, 37.5, 30, 25, 21.4, 18.75 KB; the working group's pseudo code
//! rounds the last two to 21.5 and 18.5). Left out: the managed limits on how often CNMs may be sent.

use crate::settings::{MAX_QUANTIZED_FEEDBACK, QcnSettings};
use pauseframe_engine::Rng;

/// The sampler of one egress queue.
#[derive(Clone, Debug)]
pub(crate) struct CongestionPoint {
    /// Bytes until the next sample.
    bytes_left: i64,
    /// Queue length at the last sample, bytes.
    q_old: u64,
    /// Spreads the intervals.
    rng: Rng,
}

/// Feedback of a sample for the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QcnFeedback {
    /// Quantised |Fb|, 1 to 63.
    pub(crate) fb: u8,
    /// Q - `Q_eq`, bytes.
    pub(crate) q_off: i32,
    /// Q - `Q_old`, bytes.
    pub(crate) q_delta: i32,
}

impl CongestionPoint {
    pub(crate) fn new(settings: &QcnSettings, rng: Rng) -> CongestionPoint {
        CongestionPoint { bytes_left: settings.sample.0 as i64, q_old: 0, rng }
    }

    /// Counts a frame of `size` bytes that joined the queue, now `q` bytes long. Returns feedback for its source, if a sample is due and Fb is
    /// negative.
    pub(crate) fn sample_enqueued_frame(
        &mut self,
        size: u32,
        q: u64,
        settings: &QcnSettings,
    ) -> Option<QcnFeedback> {
        self.bytes_left -= i64::from(size);
        if self.bytes_left >= 0 {
            return None;
        }
        let q_off = q as i64 - settings.q_eq.0 as i64;
        let q_delta = q as i64 - self.q_old as i64;
        self.q_old = q;
        let fb = quantized_feedback(q_off, q_delta, settings);
        let interval = settings.sample.0 as f64 / f64::from(1 + fb / 8);
        self.bytes_left = settings.apply_jitter(interval, &mut self.rng).round() as i64;
        let small = |bytes: i64| bytes.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        (fb > 0).then(|| QcnFeedback { fb, q_off: small(q_off), q_delta: small(q_delta) })
    }
}

/// |Fb| in 63rds of its largest value, `Q_eq (2 w + 1)`; 0 where Fb is not negative.
fn quantized_feedback(q_off: i64, q_delta: i64, settings: &QcnSettings) -> u8 {
    let congestion = q_off as f64 + settings.w * q_delta as f64;
    let largest = settings.q_eq.0 as f64 * (2.0 * settings.w + 1.0);
    (congestion * f64::from(MAX_QUANTIZED_FEEDBACK) / largest).clamp(0.0, f64::from(MAX_QUANTIZED_FEEDBACK))
        as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_engine::random_stream;
    use pauseframe_units::Bytes;

    /// cee Table I with `Q_eq` 20 KB and no spread.
    fn settings() -> QcnSettings {
        QcnSettings { q_eq: Bytes(20_000), jitter: 0.0, ..QcnSettings::default() }
    }

    #[test]
    fn feedback_is_quantised_as_computed_by_hand() {
        let s = settings();
        // The largest |Fb| is 20 KB * 5 = 100 KB; a 63rd of it is 1587.3 bytes.
        assert_eq!(quantized_feedback(0, 0, &s), 0);
        assert_eq!(quantized_feedback(1_587, 0, &s), 0);
        assert_eq!(quantized_feedback(1_588, 0, &s), 1);
        // Q = 40 KB after 20 KB: Q_off 20 KB + 2 * 20 KB = 60 KB, 37.8 steps.
        assert_eq!(quantized_feedback(20_000, 20_000, &s), 37);
        // Above the set point but falling twice as fast: no feedback.
        assert_eq!(quantized_feedback(10_000, -5_000, &s), 0);
        assert_eq!(quantized_feedback(-20_000, 12_000, &s), 2);
        assert_eq!(quantized_feedback(100_000, 0, &s), 63);
        assert_eq!(quantized_feedback(1_000_000, 1_000_000, &s), 63);
        // With w = 3 it is 20 KB * 7 = 140 KB, and a 63rd of it 2222.2 bytes: 20 KB + 3 * 20 KB are 36 of them.
        let s = QcnSettings { w: 3.0, ..s };
        assert_eq!(quantized_feedback(2_222, 0, &s), 0);
        assert_eq!(quantized_feedback(2_223, 0, &s), 1);
        assert_eq!(quantized_feedback(20_000, 20_000, &s), 36);
    }

    /// Frames of 1500 bytes until the next sample.
    fn interval(point: &mut CongestionPoint, q: u64, s: &QcnSettings) -> (u32, Option<QcnFeedback>) {
        for frames in 1.. {
            let left = point.bytes_left;
            let feedback = point.sample_enqueued_frame(1500, q, s);
            if point.bytes_left > left - 1500 {
                return (frames, feedback);
            }
        }
        unreachable!("a sample comes")
    }

    #[test]
    fn the_interval_follows_the_feedback() {
        let s = settings();
        let mut point = CongestionPoint::new(&s, random_stream(1, "test", 0));
        // The first comes with the frame that passes 150 KB: the 101st.
        assert_eq!(interval(&mut point, 20_000, &s).0, 101);
        // That one saw Q_off 0 and Q_delta 20 KB: Fb 40 KB of 100 KB, 25 of 63; so 150 KB / 4 = 37.5 KB follow.
        let (frames, feedback) = interval(&mut point, 30_000, &s);
        assert_eq!(frames, 26);
        // Q_off 10 KB + 2 * 10 KB: 18.9 steps; 150 KB / 3 = 50 KB follow.
        assert_eq!(feedback, Some(QcnFeedback { fb: 18, q_off: 10_000, q_delta: 10_000 }));
        let (frames, feedback) = interval(&mut point, 15_000, &s);
        assert_eq!((frames, feedback), (34, None));
        // No congestion: the whole interval again.
        assert_eq!(interval(&mut point, 15_000, &s).0, 101);
    }

    #[test]
    fn the_table_of_intervals() {
        let s = settings();
        for (fb, bytes) in [
            (0, 150_000),
            (8, 75_000),
            (16, 50_000),
            (24, 37_500),
            (32, 30_000),
            (40, 25_000),
            (48, 21_429),
            (63, 18_750),
        ] {
            let mut point = CongestionPoint::new(&s, random_stream(1, "test", 0));
            point.bytes_left = 0;
            // Stationary at a queue with just this feedback.
            let q = 20_000 + (100_000u64 * fb).div_ceil(63);
            point.q_old = q;
            point.sample_enqueued_frame(1, q, &s);
            assert_eq!(point.bytes_left, bytes, "fb {fb}");
        }
    }

    #[test]
    fn intervals_are_spread_by_fifteen_per_cent() {
        let s = QcnSettings { jitter: 0.15, ..settings() };
        let mut point = CongestionPoint::new(&s, random_stream(1, "test", 0));
        let drawn: Vec<i64> = (0..2000)
            .map(|_| {
                point.bytes_left = 0;
                point.sample_enqueued_frame(1, 0, &s);
                point.bytes_left
            })
            .collect();
        let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
        assert!((127_500..128_500).contains(least) && (171_500..=172_500).contains(most), "{least} {most}");
        let mean = drawn.iter().sum::<i64>() as f64 / 2000.0;
        // The standard error of the mean is 22.5 KB / sqrt(3 * 2000) = 290 bytes; the spread is per cent of 150 KB.
        assert!((mean - 150_000.0).abs() < 4.0 * 45_000.0 / (12.0f64 * 2000.0).sqrt(), "{mean}");
    }
}
