//! TIMELY (Mittal et al., SIGCOMM 2015, Algorithm 1), with one reaction per round trip.

use super::{Acknowledgement, ControlChanges, ControlKind, RateControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_units::Span;

/// Constants of TIMELY; times in nanoseconds, rates in bits per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimelySettings {
    /// Below this round-trip time the rate rises for any gradient.
    pub low_ns: u64,
    /// Above this round-trip time the rate falls.
    pub high_ns: u64,
    /// Unit of time of the gradient.
    pub minimum_rtt_ns: u64,
    /// Weight of the new difference between round trips.
    pub gain: f64,
    /// Multiplicative decrease.
    pub beta: f64,
    /// Additive increase.
    pub additive: u64,
    /// Increase after `hyper_after` rises.
    pub hyper: u64,
    /// Rises before the hyper increase.
    pub hyper_after: u32,
    /// Lower bound of the rate.
    pub minimum_rate: u64,
}

impl TimelySettings {
    /// The paper's constants, with the increase of 10 Mb/s at 10 Gb/s scaled by the line rate.
    pub fn for_line(line: u64) -> TimelySettings {
        TimelySettings {
            low_ns: 50_000,
            high_ns: 500_000,
            minimum_rtt_ns: 20_000,
            gain: 0.875,
            beta: 0.8,
            additive: line / 1000,
            hyper: line / 1000 * 5,
            hyper_after: 5,
            minimum_rate: line / 100,
        }
    }

    /// These constants on paths of this idle round trip, which both thresholds leave below them: longer ones raise both.
    #[must_use]
    pub fn on_path(self, base_rtt: Span) -> TimelySettings {
        let beyond = (base_rtt.0 / 1000).saturating_sub(self.low_ns);
        TimelySettings { low_ns: self.low_ns + beyond, high_ns: self.high_ns + beyond, ..self }
    }

    /// These constants with some of them replaced.
    #[must_use]
    pub fn with(self, changes: &ControlChanges) -> TimelySettings {
        TimelySettings {
            additive: changes.additive.map_or(self.additive, |rate| rate.0),
            hyper: changes.hyper.map_or(self.hyper, |rate| rate.0),
            minimum_rate: changes.minimum.map_or(self.minimum_rate, |rate| rate.0),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::BitRate;

    #[test]
    fn a_rise_adds_the_rate_that_a_file_sets() {
        let line = 100_000_000_000;
        let rates = ControlChanges {
            additive: Some(BitRate(7)),
            hyper: Some(BitRate(11)),
            minimum: Some(BitRate(1000)),
            utilisation: None,
        };
        let constants = TimelySettings::for_line(line).with(&rates);
        assert_eq!((constants.additive, constants.hyper, constants.minimum_rate), (7, 11, 1000));
        assert_eq!(
            TimelySettings::for_line(line).with(&ControlChanges::default()),
            TimelySettings::for_line(line)
        );
        let mut state = Timely::new(constants, line);
        for _ in 0..200 {
            state.on_rtt(100_000_000);
        }
        assert_eq!(state.rate(), 1000);
        for expected in [1000, 1007, 1014, 1021, 1028, 1035, 1046, 1057].into_iter().skip(1) {
            state.on_rtt(10_000);
            assert_eq!(state.rate(), expected);
        }
    }

    /// Algorithm 1, without smoothing: rate in Gb/s and rises after round trips of `first` and `second` microseconds.
    #[test]
    fn the_rate_falls_by_the_excess_or_the_gradient() {
        let line = 100_000_000_000;
        for (first, second, expected, rises) in [
            // 1 - beta (1 - high / rtt) = 1 - 0.8 (1 - 500 / 1000) = 0.6, and nothing at 500 us.
            (1000, 1000, 60, 0),
            (500, 500, 100, 1),
            // 1 - beta gradient = 1 - 0.8 (5 / 20) = 0.8; below 50 us no gradient counts.
            (45, 50, 80, 0),
            (44, 49, 100, 1),
            (100, 95, 100, 1),
            // A steep gradient leaves the smallest rate.
            (100, 400, 1, 0),
        ] {
            let mut state = Timely::new(TimelySettings { gain: 1.0, ..TimelySettings::for_line(line) }, line);
            state.on_rtt(first * 1000);
            assert_eq!(state.rate(), line, "one round trip has no gradient");
            state.on_rtt(second * 1000);
            let found = state.rate() as f64 / 1e9;
            assert!((found - f64::from(expected)).abs() < 1e-6, "{first} {second}: {found}");
            assert_eq!(state.rises(), rises, "{first} {second}");
        }
    }
}

/// The state of a sender.
#[derive(Clone, Debug)]
pub struct Timely {
    settings: TimelySettings,
    line: u64,
    rate: u64,
    last_ns: Option<u64>,
    difference: f64,
    rises: u32,
}

impl Timely {
    /// A sender that starts at its line rate, bits per second.
    pub fn new(settings: TimelySettings, line: u64) -> Timely {
        Timely { settings, line, rate: line, last_ns: None, difference: 0.0, rises: 0 }
    }

    /// Bits per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Smoothed difference between round trips, nanoseconds.
    pub fn difference(&self) -> f64 {
        self.difference
    }

    /// Rises since the last decrease.
    pub fn rises(&self) -> u32 {
        self.rises
    }

    /// Handles a measured round-trip time in nanoseconds.
    pub fn on_rtt(&mut self, rtt_ns: u64) {
        let TimelySettings { gain, beta, low_ns, high_ns, minimum_rtt_ns, .. } = self.settings;
        let Some(last) = self.last_ns.replace(rtt_ns) else { return };
        self.difference = (1.0 - gain) * self.difference + gain * (rtt_ns as f64 - last as f64);
        let gradient = self.difference / minimum_rtt_ns as f64;
        if rtt_ns < low_ns {
            self.rise();
        } else if rtt_ns > high_ns {
            self.fall(1.0 - beta * (1.0 - high_ns as f64 / rtt_ns as f64));
        } else if gradient <= 0.0 {
            self.rise();
        } else {
            self.fall((1.0 - beta * gradient).max(0.0));
        }
    }

    fn rise(&mut self) {
        let TimelySettings { additive, hyper, hyper_after, .. } = self.settings;
        let step = if self.rises < hyper_after { additive } else { hyper };
        self.rate = (self.rate + step).min(self.line);
        self.rises += 1;
    }

    fn fall(&mut self, factor: f64) {
        let floor = self.settings.minimum_rate.min(self.line);
        self.rate = ((self.rate as f64 * factor) as u64).max(floor);
        self.rises = 0;
    }
}

/// TIMELY of a queue pair, with the byte number at which the measured round trip ends.
#[derive(Clone, Debug)]
pub(crate) struct TimelyControl {
    pub(crate) state: Timely,
    update_beyond: u64,
}

impl ControlKind for TimelyControl {
    type Form = ();

    fn new((): (), settings: &QueuePairSettings) -> TimelyControl {
        let constants = TimelySettings::for_line(settings.line).with(&settings.changes);
        let constants = constants.on_path(settings.parameters.base_rtt);
        TimelyControl { state: Timely::new(constants, settings.line), update_beyond: 0 }
    }
}

impl RateControl for TimelyControl {
    fn rate(&self) -> u64 {
        self.state.rate()
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        if ack.acked <= self.update_beyond {
            return;
        }
        self.update_beyond = ack.next;
        if let Some(rtt) = ack.rtt {
            self.state.on_rtt(rtt.0 / 1000);
        }
    }
}
