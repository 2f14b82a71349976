//! NSCC as htsim has it (ultraethernet/uet-htsim 40ccb05, `uec.cpp`), which need not be what the Ultra Ethernet text says.
//!
//! Windows are whole bytes and truncated after each operation, averages whole picoseconds, as in the reference runs.

use super::{ControlKind, ControlParameters, RateControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_units::{Span, Time};

/// Constants of NSCC, which follow from the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NsccSettings {
    /// Bytes of a full packet with its headers.
    pub packet: u64,
    /// Line rate, bits per second.
    pub line: u64,
    /// Round trip of the longest path of the idle network.
    pub network_rtt: Span,
    /// Queueing delay that it aims at.
    pub target: Span,
    /// Proportional increase, bytes for each byte acknowledged and picosecond below the target.
    pub proportional: f64,
    /// Fair increase for each byte acknowledged.
    pub fair: f64,
    /// Increase once a round trip of the network.
    pub eta: f64,
    /// Fast increase for each byte acknowledged.
    pub fast: f64,
    /// Weight of a cut.
    pub gamma: f64,
    /// Weight of a new delay in the average.
    pub gain: f64,
    /// Quick adapt needs fewer bytes than the largest window over two to this power.
    pub gate: u32,
}

impl NsccSettings {
    /// The constants for packets with a payload of `mss` bytes and `packet` bytes in all, in a network of this base round trip.
    pub fn of(mss: u64, packet: u64, line: u64, network_rtt: Span, trimming: bool) -> NsccSettings {
        // The reference network: 100 Gb/s and 12 us.
        const REFERENCE: (u64, u64) = (150_000, 12_000_000);
        let bdp = bdp(network_rtt, line);
        let target = if trimming { Span((network_rtt.0 as f64 * 0.75) as u64) } else { network_rtt };
        let a = bdp as f64 / REFERENCE.0 as f64;
        let b = target.0 as f64 / REFERENCE.1 as f64;
        let mss = mss as f64;
        NsccSettings {
            packet,
            line,
            network_rtt,
            target,
            proportional: 4.0 * mss * a * b / target.0 as f64,
            fair: 5.0 * mss * a,
            eta: 0.15 * mss * a,
            fast: 0.25 * a,
            gamma: 0.8,
            gain: 0.0125,
            gate: 3,
        }
    }
}

/// Bytes of a line in a time.
fn bdp(time: Span, line: u64) -> u64 {
    (time.0 as f64 / 1e6 * line as f64 / 8e6) as u64
}

/// What an acknowledgement did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The delay is below the target: the increase is proportional to the difference.
    Proportional,
    /// Above the target without a mark: increases all flows alike.
    Fair,
    /// Above the target with a mark: cuts, at most once a round trip.
    Decrease,
    /// Below the target with a mark: nothing.
    Nothing,
    /// The window became what had arrived in the last period.
    QuickAdapt,
    /// The packets were sent before quick adapt.
    Ignore,
}

/// An acknowledgement or a NAK as NSCC sees it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it came.
    pub now: Time,
    /// Bytes that it newly acknowledges, or that were trimmed.
    pub bytes: u64,
    /// Round trip; `None` for a packet that was sent more than once.
    pub rtt: Option<Span>,
    /// With an echo of CE.
    pub marked: bool,
    /// Bytes under way behind it.
    pub in_flight: u64,
}

/// The state of a sender.
#[derive(Clone, Debug)]
pub struct Nscc {
    settings: NsccSettings,
    window: u64,
    most: u64,
    base_rtt: Span,
    average: u64,
    /// Increase that is not applied yet, bytes times window.
    increase: i64,
    /// Bytes that arrived since the last adjustment, and since the last look of quick adapt.
    received: u64,
    achieved: u64,
    ignored: u64,
    to_ignore: u64,
    /// End of the period of quick adapt; zero before the first.
    period_end: Time,
    was_trimmed: bool,
    undelayed: u64,
    is_fast: bool,
    last_cut: Time,
    last_adjusted: Time,
}

/// Below this delay, whatever the round trip, acknowledgements count as undelayed.
const UNDELAYED: Span = Span::from_us(1);

impl Nscc {
    /// A sender that starts with the window of the longest path.
    pub fn new(settings: NsccSettings) -> Nscc {
        let most = (1.5 * bdp(settings.network_rtt, settings.line) as f64) as u64;
        Nscc {
            settings,
            window: most,
            most,
            base_rtt: settings.network_rtt,
            average: 0,
            increase: 0,
            received: 0,
            achieved: 0,
            ignored: 0,
            to_ignore: 0,
            period_end: Time::ZERO,
            was_trimmed: false,
            undelayed: 0,
            is_fast: false,
            last_cut: Time::ZERO,
            last_adjusted: Time::ZERO,
        }
    }

    /// Bytes that may be under way.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The average of the queueing delay.
    pub fn average_delay(&self) -> Span {
        Span(self.average)
    }

    /// The smallest round trip so far.
    pub fn base_rtt(&self) -> Span {
        self.base_rtt
    }

    /// Packets have arrived.
    pub fn on_ack(&mut self, ack: &Sample) -> Action {
        for count in [&mut self.achieved, &mut self.received, &mut self.ignored] {
            *count += ack.bytes;
        }
        let delay = self.delay(ack);
        if let Some(action) = self.quick_adapt(ack, false, delay) {
            return action;
        }
        let action = match (ack.marked, delay >= self.settings.target) {
            (false, true) => Action::Fair,
            (false, false) => Action::Proportional,
            (true, true) => Action::Decrease,
            (true, false) => Action::Nothing,
        };
        match action {
            Action::Fair => self.add(self.settings.fair * ack.bytes as f64),
            Action::Proportional => self.increase_below_target(ack.bytes, delay),
            Action::Decrease => self.decrease(ack.now),
            _ => {}
        }
        self.keep_bounds();
        self.adjust_if_due(ack.now);
        self.keep_bounds();
        action
    }

    /// A packet was trimmed; true if quick adapt set the window.
    pub fn on_trimmed(&mut self, nak: &Sample) -> bool {
        self.ignored += nak.bytes;
        if let Some(rtt) = nak.rtt {
            self.lower_base_rtt(rtt);
        }
        // The round trip of the network stands for the delay at which switches trim.
        self.average_in(self.settings.network_rtt, true);
        self.was_trimmed = true;
        let adapted = self.quick_adapt(&Sample { marked: true, ..*nak }, true, Span::ZERO).is_some();
        if !adapted {
            self.window = self.window.saturating_sub(nak.bytes);
            self.keep_bounds();
        }
        adapted
    }

    /// Packets of so many bytes were lost without a trace.
    pub fn on_timeout(&mut self, bytes: u64) {
        self.window = self.window.saturating_sub(bytes).max(self.settings.packet);
    }

    fn delay(&mut self, ack: &Sample) -> Span {
        let Some(rtt) = ack.rtt else { return Span(self.average) };
        self.lower_base_rtt(rtt);
        let delay = Span(rtt.0 - self.base_rtt.0);
        self.average_in(delay, ack.marked);
        delay
    }

    fn lower_base_rtt(&mut self, rtt: Span) {
        if rtt < self.base_rtt {
            self.base_rtt = rtt;
            self.most = (1.5 * bdp(rtt, self.settings.line) as f64) as u64;
        }
    }

    fn average_in(&mut self, delay: Span, marked: bool) {
        let gain = self.settings.gain;
        let late = !marked && delay > self.settings.target;
        let sample = if late { gain * self.base_rtt.0 as f64 * 0.25 } else { gain * delay.0 as f64 };
        self.average = (sample + (1.0 - gain) * self.average as f64) as u64;
    }

    /// Once a period, a window far above what arrives is set to that.
    fn quick_adapt(&mut self, sample: &Sample, is_loss: bool, delay: Span) -> Option<Action> {
        let NsccSettings { target, gate, packet, .. } = self.settings;
        let mut action = None;
        if self.ignored < self.to_ignore && sample.marked {
            action = Some(Action::Ignore);
        } else if sample.now > self.period_end {
            let is_late = self.was_trimmed || is_loss || delay.0 > 4 * target.0;
            if self.period_end != Time::ZERO && is_late && self.achieved < self.most >> gate {
                self.window = self.achieved.max(packet);
                (self.to_ignore, self.ignored) = (sample.in_flight, 0);
                self.was_trimmed = false;
                action = Some(Action::QuickAdapt);
            }
            self.achieved = 0;
            self.period_end = sample.now + self.base_rtt + target;
        }
        if action.is_some() {
            (self.increase, self.received) = (0, 0);
        }
        action
    }

    fn add(&mut self, bytes: f64) {
        self.increase = (self.increase as f64 + bytes) as i64;
    }

    fn increase_below_target(&mut self, bytes: u64, delay: Span) {
        if delay < UNDELAYED {
            self.undelayed += bytes;
            if self.undelayed > self.window || self.is_fast {
                self.window = (self.window as f64 + bytes as f64 * self.settings.fast) as u64;
                self.is_fast = true;
                return;
            }
        } else {
            self.undelayed = 0;
        }
        self.is_fast = false;
        let left = (self.settings.target.0 - delay.0) as f64;
        self.add(self.settings.proportional * bytes as f64 * left);
    }

    fn decrease(&mut self, now: Time) {
        (self.is_fast, self.undelayed) = (false, 0);
        let NsccSettings { gamma, target, packet, .. } = self.settings;
        if self.average > target.0 && now.0 - self.last_cut.0 > self.base_rtt.0 {
            let over = (self.average - target.0) as f64;
            let factor = (1.0 - gamma * over / self.average as f64).max(0.5);
            self.window = ((self.window as f64 * factor) as u64).max(packet);
            self.last_cut = now;
        }
    }

    fn adjust_if_due(&mut self, now: Time) {
        let NsccSettings { packet, eta, network_rtt, .. } = self.settings;
        let elapsed = now.0 - self.last_adjusted.0;
        if self.received <= 8 * packet && elapsed <= network_rtt.0 {
            return;
        }
        self.window += self.increase as u64 / self.window;
        if elapsed >= network_rtt.0 {
            self.window = (self.window as f64 + eta) as u64;
            self.last_adjusted = now;
        }
        (self.increase, self.received) = (0, 0);
    }

    fn keep_bounds(&mut self) {
        self.window = self.window.max(self.settings.packet).min(self.most);
    }
}

/// NSCC of a queue pair.
#[derive(Clone, Debug)]
pub(crate) struct NsccControl {
    state: Nscc,
    line: u64,
}

impl ControlKind for NsccControl {
    type Form = ();
    const HAS_WINDOW: bool = true;
    const IS_UNORDERED: bool = true;

    fn new((): (), settings: &QueuePairSettings) -> NsccControl {
        let ControlParameters { base_rtt, trims, .. } = settings.parameters;
        let (mtu, line) = (u64::from(settings.mtu), settings.line);
        let constants = NsccSettings::of(mtu, settings.full_packet(), line, base_rtt, trims);
        NsccControl { state: Nscc::new(constants), line }
    }
}

impl RateControl for NsccControl {
    fn rate(&self) -> u64 {
        self.line
    }

    fn own_window(&self) -> Option<u64> {
        Some(self.state.window())
    }

    fn on_unordered_ack(&mut self, sample: &Sample) {
        self.state.on_ack(sample);
    }

    fn on_trimmed(&mut self, sample: &Sample) {
        self.state.on_trimmed(sample);
    }

    fn on_unordered_timeout(&mut self, bytes: u64) {
        self.state.on_timeout(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// htsim `multiplicative_decrease`: more than a round trip after the last cut, if the average is above the target.
    #[test]
    fn a_window_is_cut_once_in_a_round_trip() {
        let settings = NsccSettings::of(4096, 4160, 100_000_000_000, Span::from_us(12), false);
        for (after, above, is_cut) in [(1, 1, true), (0, 1, false), (1, 0, false)] {
            let mut nscc = Nscc::new(settings);
            (nscc.average, nscc.last_cut) = (settings.target.0 + above * 1_000_000, Time(5));
            let before = nscc.window;
            nscc.decrease(Time(5 + settings.network_rtt.0 + after));
            assert_eq!(nscc.window < before, is_cut, "{after} {above}");
        }
    }

    /// htsim `update_delay`: what is late without a mark counts as a quarter of the base round trip. 12 us average in as 150 ns.
    #[test]
    fn a_late_packet_without_a_mark_averages_in_as_a_quarter_of_the_round_trip() {
        let settings = NsccSettings::of(4096, 4160, 100_000_000_000, Span::from_us(12), false);
        let target = settings.target;
        for (delay, marked, average) in [
            (target, false, 150_000),
            (target + Span(80), false, 37_500),
            (target, true, 150_000),
            (target + Span(80), true, 150_001),
        ] {
            let mut nscc = Nscc::new(settings);
            let rtt = Some(settings.network_rtt + delay);
            nscc.on_ack(&Sample { now: Time(1), bytes: 1, rtt, marked, in_flight: 0 });
            assert_eq!(nscc.average_delay(), Span(average), "{delay} {marked}");
        }
    }

    /// htsim `fast_increase`: a delay of a microsecond is a delay. More than a window of undelayed bytes opens the window fast,
    /// and so does every further undelayed byte.
    #[test]
    fn a_window_of_undelayed_bytes_begins_the_fast_increase() {
        const SHORT: Span = Span(UNDELAYED.0 - 1);
        let settings = NsccSettings::of(4096, 4160, 100_000_000_000, Span::from_us(12), false);
        for (acks, fast) in [
            (&[(10_001, UNDELAYED)][..], 0),
            (&[(10_001, SHORT)], 10_001),
            (&[(10_000, SHORT)], 0),
            (&[(10_000, SHORT), (1, SHORT)], 1),
            (&[(10_000, SHORT), (1, UNDELAYED), (1, SHORT)], 0),
            (&[(10_001, SHORT), (10, SHORT)], 10_011),
            (&[(10_001, SHORT), (10, UNDELAYED), (10, SHORT)], 10_001),
        ] {
            let mut nscc = Nscc::new(NsccSettings { fast: 1.0, ..settings });
            nscc.window = 10_000;
            for (bytes, delay) in acks {
                let rtt = Some(settings.network_rtt + *delay);
                nscc.on_ack(&Sample { now: Time(1), bytes: *bytes, rtt, marked: false, in_flight: 0 });
            }
            assert_eq!(nscc.window(), 10_000 + fast, "{acks:?}");
        }
    }
}
