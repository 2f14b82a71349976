//! The quality of ports by which switches with SAI ARS or Broadcom DLB choose: load of the past and bytes queued, in eight bands.
//!
//! SAI names the inputs (past load, future load, EWMA with exponent 2, equal weights) and no formula. Here the past load is the share of the link
//! that was used, smoothed with 1/4 a sample; the future load is what is queued, as a share of what the link sends in a sampling interval; the
//! load is their mean.

use crate::settings::ArsSettings;
use pauseframe_units::{PortId, Time};
use std::collections::BTreeMap;

/// One: loads are in millionths.
const WHOLE: u64 = 1_000_000;
/// Bands of quality: the best is the highest.
const BEST_BAND: u64 = 7;
/// The smoothed load keeps 3/4 at each sample.
const KEPT: [u64; 2] = [3, 4];
/// Samples after which nothing is left of an earlier load.
const SAMPLES_MAX: u64 = 48;

/// What is seen of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortNow {
    /// Bit/s of its link.
    pub(super) rate: u64,
    /// Bytes that it has sent so far.
    pub(super) sent: u64,
    /// Bytes in its queues.
    pub(super) queued: u64,
}

/// The last sample of a port.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    sent: u64,
    past_load: u64,
    band: u64,
}

/// The samples of the ports of a switch.
#[derive(Debug, Default)]
pub(super) struct PortQualities(BTreeMap<PortId, Sample>);

impl PortQualities {
    /// The band of a port; it is looked at if the last sample is a sampling interval old.
    pub(super) fn band(
        &mut self,
        port: PortId,
        settings: &ArsSettings,
        now: Time,
        look: impl FnOnce() -> PortNow,
    ) -> u64 {
        let last = self.0.get(&port).copied();
        if let Some(last) = last.filter(|last| now.0 < last.at.0 + settings.sampling.0) {
            return last.band;
        }
        let seen = look();
        let before = last.unwrap_or(Sample { at: Time::ZERO, sent: 0, past_load: 0, band: 0 });
        let past_load = before.past_load_at(now, &seen, settings);
        let per_interval = u128::from(seen.rate) * u128::from(settings.sampling.0) / 8_000_000_000_000;
        let future_load = (u128::from(seen.queued) * u128::from(WHOLE) / per_interval.max(1)) as u64;
        let band = band_of_load(u64::midpoint(past_load, future_load.min(WHOLE)), settings);
        self.0.insert(port, Sample { at: now, sent: seen.sent, past_load, band });
        band
    }
}

impl Sample {
    /// The smoothed load, if the port has been used evenly since this sample.
    fn past_load_at(&self, now: Time, seen: &PortNow, settings: &ArsSettings) -> u64 {
        let elapsed = u128::from((now - self.at).0);
        if elapsed == 0 {
            return self.past_load;
        }
        let bits = u128::from(seen.sent - self.sent) * 8;
        let used = bits * 1_000_000_000_000 * u128::from(WHOLE) / (u128::from(seen.rate) * elapsed);
        let used = (used as u64).min(WHOLE);
        let samples = ((now - self.at).0 / settings.sampling.0).clamp(1, SAMPLES_MAX);
        let step = |load: u64, _| (KEPT[0] * load + (KEPT[1] - KEPT[0]) * used) / KEPT[1];
        (0..samples).fold(self.past_load, step)
    }
}

/// The best band below the lower limit, the worst from the upper one on, six of equal width between them.
fn band_of_load(load: u64, settings: &ArsSettings) -> u64 {
    let [low, high] = [settings.low, settings.high].map(|percent| u64::from(percent) * WHOLE / 100);
    if load < low {
        BEST_BAND
    } else if load >= high {
        0
    } else {
        BEST_BAND - 1 - (load - low) * (BEST_BAND - 1) / (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ArsMode;
    use pauseframe_units::Span;

    const SETTINGS: ArsSettings = ArsSettings {
        mode: ArsMode::PacketQuality,
        idle: Span::from_us(256),
        flow_states: 512,
        sampling: Span::from_us(16),
        low: 20,
        high: 80,
    };
    const RATE: u64 = 10_000_000_000;

    #[test]
    fn bands_divide_the_load_between_the_limits() {
        let bands = [0, 199_999, 200_000, 299_999, 300_000, 799_999, 800_000, WHOLE];
        assert_eq!(bands.map(|load| band_of_load(load, &SETTINGS)), [7, 7, 6, 6, 5, 1, 0, 0]);
    }

    /// A link that is always busy: after n samples 1 - (3/4)^n of the load is known. What is queued counts at once.
    #[test]
    fn past_load_is_smoothed_and_queued_bytes_are_not() {
        let mut qualities = PortQualities::default();
        let interval = SETTINGS.sampling.0;
        let sent_per_interval = RATE / 8 * 16 / 1_000_000;
        let mut load = 0.0;
        for sample in 1..=20 {
            let seen = PortNow { rate: RATE, sent: sent_per_interval * sample, queued: 0 };
            let band = qualities.band(PortId(1), &SETTINGS, Time(interval * sample), || seen);
            load = load * 0.75 + 0.25;
            let expected = band_of_load((load / 2.0 * 1e6) as u64, &SETTINGS);
            assert!(
                band.abs_diff(expected) <= u64::from(sample == 20),
                "sample {sample}: {band} against {expected}"
            );
        }
        // Between two samples nothing is looked at.
        qualities.band(PortId(1), &SETTINGS, Time(interval * 20 + 1), || unreachable!("too early"));
        let full = PortNow { rate: RATE, sent: 0, queued: sent_per_interval };
        assert_eq!(qualities.band(PortId(2), &SETTINGS, Time(interval), || full), 3);
        // Half of what it sends in an interval: the mean of nothing and a half.
        let half = PortNow { queued: sent_per_interval / 2, ..full };
        let expected = band_of_load(250_000, &SETTINGS);
        assert_eq!((qualities.band(PortId(3), &SETTINGS, Time(interval), || half), expected), (6, 6));
    }

    /// Used is what was sent since the last sample: of a link of which a half is used, a half, and nothing of one that has
    /// become idle.
    #[test]
    fn the_past_load_is_that_of_the_time_since_the_last_sample() {
        let mut qualities = PortQualities::default();
        let interval = SETTINGS.sampling.0;
        let half = RATE / 8 * 16 / 1_000_000 / 2;
        let mut band = |sample: u64, sent| {
            let seen = PortNow { rate: RATE, sent, queued: 0 };
            qualities.band(PortId(1), &SETTINGS, Time(interval * sample), || seen)
        };
        let busy = (1..=40).map(|sample| band(sample, half * sample)).last();
        assert_eq!(busy, Some(band_of_load(250_000, &SETTINGS)));
        let idle = (41..=80).map(|sample| band(sample, half * 40)).last();
        assert_eq!(idle, Some(BEST_BAND));
    }
}
