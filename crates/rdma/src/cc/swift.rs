//! Swift (Kumar et al., SIGCOMM 2020, Algorithm 1) with the constants of htsim's `swift.cpp`, whose authors call them
//! guesses. It has one window for the delay of the fabric; the paper's second window, for host delay, is not modelled.

use super::{Acknowledgement, ControlKind, RateControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_units::{Span, Time};

/// Constants of Swift; windows in packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwiftSettings {
    /// Additive increase per round trip.
    pub additive: f64,
    /// Multiplicative decrease.
    pub beta: f64,
    /// Maximum fraction of a decrease.
    pub most_decrease: f64,
    /// Target delay without hops.
    pub base_target: Span,
    /// Additional target delay per hop.
    pub per_hop: Span,
    /// Maximum additional target delay by flow scaling.
    pub scaling_range: Span,
    /// Window at which flow scaling adds its maximum.
    pub scaling_min: f64,
    /// Window from which flow scaling adds nothing.
    pub scaling_max: f64,
    /// Smallest window.
    pub min_window: f64,
    /// Largest window.
    pub max_window: f64,
}

impl Default for SwiftSettings {
    fn default() -> SwiftSettings {
        let base = Span::from_us(20);
        SwiftSettings {
            additive: 1.0,
            beta: 0.8,
            most_decrease: 0.5,
            base_target: base,
            per_hop: Span((base.0 as f64 / 6.55) as u64),
            scaling_range: Span(base.0 * 5),
            scaling_min: 0.1,
            scaling_max: 100.0,
            min_window: 0.001,
            max_window: 1000.0,
        }
    }
}

/// The state of a sender.
#[derive(Clone, Debug)]
pub struct Swift {
    settings: SwiftSettings,
    hops: u32,
    window: f64,
    last_rtt: Span,
    last_decrease: Time,
}

impl Swift {
    /// A sender with an initial window in packets, on a path with this number of hops.
    pub fn new(settings: SwiftSettings, hops: u32, window: f64) -> Swift {
        let window = window.clamp(settings.min_window, settings.max_window);
        Swift { settings, hops, window, last_rtt: Span::ZERO, last_decrease: Time::ZERO }
    }

    /// Packets; below 1, a packet is sent every `rtt / window`.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// The last measured round-trip time.
    pub fn rtt(&self) -> Span {
        self.last_rtt
    }

    /// The target delay of the sender.
    pub fn target(&self) -> Span {
        let SwiftSettings { scaling_min, scaling_max, scaling_range, .. } = self.settings;
        let range = scaling_range.0 as f64;
        let slope = range / (1.0 / scaling_min.sqrt() - 1.0 / scaling_max.sqrt());
        let scaled = (slope / self.window.sqrt() - slope / scaling_max.sqrt()).clamp(0.0, range);
        Span(self.settings.base_target.0 + u64::from(self.hops) * self.settings.per_hop.0 + scaled as u64)
    }

    /// Packets were acknowledged after this delay.
    pub fn on_ack(&mut self, packets: f64, delay: Span, now: Time) {
        let SwiftSettings { additive, beta, most_decrease, min_window, max_window, .. } = self.settings;
        let target = self.target();
        self.last_rtt = delay;
        if delay < target {
            self.window +=
                if self.window >= 1.0 { additive * packets / self.window } else { additive * packets };
        } else if now.0 >= self.last_decrease.0 + delay.0 {
            let over = (delay.0 - target.0) as f64 / delay.0 as f64;
            self.window *= (1.0 - beta * over).max(1.0 - most_decrease);
            self.last_decrease = now;
        }
        self.window = self.window.clamp(min_window, max_window);
    }

    /// A retransmission was necessary: at most one decrease per round trip.
    pub fn on_loss(&mut self, now: Time) {
        if now.0 >= self.last_decrease.0 + self.last_rtt.0 {
            self.window = (self.window * (1.0 - self.settings.most_decrease)).max(self.settings.min_window);
            self.last_decrease = now;
        }
    }
}

/// Swift of a queue pair.
#[derive(Clone, Debug)]
pub(crate) struct SwiftControl {
    pub(crate) state: Swift,
    mtu: u32,
    line: u64,
}

impl ControlKind for SwiftControl {
    type Form = ();
    const HAS_WINDOW: bool = true;
    const FOLLOWS_LINKS: bool = true;

    /// It begins with the window that fills the line at the target delay.
    fn new((): (), settings: &QueuePairSettings) -> SwiftControl {
        let QueuePairSettings { mtu, line, .. } = *settings;
        let (plain, links) = (SwiftSettings::default(), settings.parameters.links);
        // On longer paths the delay never comes down to htsim's target.
        let base_target = plain.base_target.max(settings.parameters.base_rtt);
        let target = (base_target.0 + u64::from(links) * plain.per_hop.0) as f64;
        let window = line as f64 / 8e12 * target / f64::from(mtu);
        // htsim's limit is meant for its own lines and packets: others need more to fill the line.
        let max_window = plain.max_window.max(2.0 * window);
        let swift = SwiftSettings { base_target, max_window, ..plain };
        SwiftControl { state: Swift::new(swift, links, window), mtu, line }
    }
}

impl RateControl for SwiftControl {
    /// Below one packet, a packet is sent every rtt / window.
    fn rate(&self) -> u64 {
        let paced = self.state.window() * f64::from(self.mtu) * 8e12 / self.state.rtt().0.max(1) as f64;
        if self.state.window() < 1.0 { (paced as u64).clamp(1, self.line) } else { self.line }
    }

    fn own_window(&self) -> Option<u64> {
        Some((self.state.window().max(1.0) * f64::from(self.mtu)) as u64)
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        if let Some(rtt) = ack.rtt {
            self.state.on_ack(ack.packets as f64, rtt, ack.now);
        }
    }

    fn on_loss(&mut self, now: Time) {
        self.state.on_loss(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::ControlParameters;

    /// 20 us of 100 Gb/s are 250,000 bytes; each hop adds a 6.55th of that (htsim `swift.cpp`), four hops 152,671 bytes.
    #[test]
    fn the_first_window_fills_the_line_at_the_target_delay() {
        for (links, bytes) in [(0, 250_000), (4, 402_671)] {
            let parameters = ControlParameters { links, ..ControlParameters::default() };
            let line = 100_000_000_000;
            let settings = QueuePairSettings { mtu: 1000, line, parameters, ..QueuePairSettings::default() };
            assert_eq!(SwiftControl::new((), &settings).own_window(), Some(bytes), "{links}");
        }
    }

    /// Flow scaling adds nothing from `scaling_max` packets on and its whole range, five times the base target,
    /// at `scaling_min` and below.
    #[test]
    fn small_windows_have_up_to_six_times_the_target_delay() {
        for (window, target) in [(1000.0, 20), (100.0, 20), (0.1, 120), (0.01, 120)] {
            let target_of = Swift::new(SwiftSettings::default(), 0, window).target();
            assert!(target_of.0.abs_diff(Span::from_us(target).0) <= 1, "{window} {target_of}");
        }
    }
}
