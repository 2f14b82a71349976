//! HPCC (Li et al., SIGCOMM 2019), in the form of its simulator, which sets a rate and derives the window from it, or in
//! the form of the paper, which sets the window (docs/models/rdma.md lists the differences).

use super::{Acknowledgement, ControlChanges, ControlKind, ControlParameters, RateControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_units::Span;

/// Maximum number of hops in a packet's telemetry.
pub const MAX_HOPS: usize = 5;

/// Telemetry of one switch port, as the packet carries it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(Rust, packed(4))]
pub struct Hop {
    /// When the packet left (24 bits, nanoseconds), bytes in the queue (17) and bytes sent so far (20), both in units of [`Quantum`].
    stamp: u64,
    /// Line rate, kb/s.
    line: u32,
}

/// Widths of the fields of a stamp, the lowest first. Time and bytes sent wrap.
const TIME_BITS: u32 = 24;
const QUEUE_BITS: u32 = 17;
const SENT_BITS: u32 = 20;

/// The lowest `bits` bits of `value`.
const fn lowest(bits: u32, value: u64) -> u64 {
    value & ((1 << bits) - 1)
}

impl Hop {
    pub(crate) fn line(self) -> f64 {
        f64::from(self.line) * 1000.0
    }

    pub(crate) fn queue(self) -> u64 {
        lowest(QUEUE_BITS, self.stamp >> TIME_BITS)
    }

    /// Nanoseconds since the stamp of an earlier packet.
    pub(crate) fn time_since(self, before: Hop) -> u64 {
        lowest(TIME_BITS, self.stamp.wrapping_sub(before.stamp))
    }

    /// Units sent since the stamp of an earlier packet.
    pub(crate) fn sent_since(self, before: Hop) -> u64 {
        let shift = TIME_BITS + QUEUE_BITS;
        lowest(SENT_BITS, (self.stamp >> shift).wrapping_sub(before.stamp >> shift))
    }
}

/// Units of the telemetry: 128 bytes sent and 80 bytes of queue, times a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quantum {
    shift: u32,
}

impl Quantum {
    /// The units for a line rate in bits per second: the factor is the rate over 25 Gb/s, as in the scripts of the HPCC simulator.
    pub fn for_line(line: u64) -> Quantum {
        Quantum { shift: (line / 25_000_000_000).max(1).ilog2() }
    }

    /// The telemetry of a port in a packet: its line rate (kb/s), bytes in the queue, bytes sent, and time in nanoseconds.
    #[inline]
    pub fn stamp(self, line: u32, queue: u64, sent: u64, now_ns: u64) -> Hop {
        let queue = ((queue / 80) >> self.shift).min((1 << QUEUE_BITS) - 1);
        let sent = lowest(SENT_BITS, (sent / 128) >> self.shift);
        let stamp = lowest(TIME_BITS, now_ns) | queue << TIME_BITS | sent << (TIME_BITS + QUEUE_BITS);
        Hop { stamp, line }
    }

    pub(crate) fn sent_unit(self) -> u64 {
        128 << self.shift
    }

    pub(crate) fn queue_unit(self) -> u64 {
        80 << self.shift
    }
}

/// Telemetry of all switch ports that a packet has passed, up to [`MAX_HOPS`].
#[derive(Clone, Copy, Debug)]
pub struct Telemetry {
    hops: [Hop; MAX_HOPS],
    count: u8,
}

/// Bytes of the telemetry in a packet: five hops of 8 bytes and a count of 2 (HPCC simulator).
pub const TELEMETRY_BYTES: u32 = 42;

impl Telemetry {
    /// That of a packet that has passed no switch.
    pub const EMPTY: Telemetry = Telemetry { hops: [Hop { stamp: 0, line: 0 }; MAX_HOPS], count: 0 };

    /// Forgets all ports.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a port, up to the fifth.
    #[inline]
    pub fn push(&mut self, hop: Hop) {
        if let Some(place) = self.hops.get_mut(usize::from(self.count)) {
            *place = hop;
            self.count += 1;
        }
    }

    /// The ports in the order of the path.
    #[inline]
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }
}

/// Constants of HPCC.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HpccSettings {
    /// Target utilisation, eta.
    pub utilisation: f64,
    /// Additive steps before the next multiplicative one, maxStage: 5 in the paper's text, 0 in the simulator's scripts.
    pub max_stage: u32,
    /// Additive increase `W_AI`, as a rate in bits per second; not in the form of the paper.
    pub additive: u64,
    /// N of the paper's `W_AI`, `W_init` (1 - eta) / N; `None`: the form of the simulator.
    pub flows: Option<u32>,
    /// Lower bound of the rate, bits per second.
    pub minimum_rate: u64,
    /// Base round trip T, nanoseconds.
    pub base_rtt_ns: u64,
    /// Window at line rate, bytes.
    pub window: u64,
    /// Unit of the telemetry.
    pub quantum: Quantum,
}

impl HpccSettings {
    /// The constants of the paper and its scripts for a line rate in bits per second, a base round trip and a unit of telemetry.
    pub fn for_line(
        line: u64,
        max_stage: u32,
        flows: Option<u32>,
        base_rtt: Span,
        quantum: Quantum,
    ) -> HpccSettings {
        HpccSettings {
            utilisation: 0.95,
            max_stage,
            flows,
            additive: line / 2500,
            minimum_rate: line / 100,
            base_rtt_ns: base_rtt.0 / 1000,
            window: (u128::from(line) * u128::from(base_rtt.0) / 8_000_000_000_000) as u64,
            quantum,
        }
    }

    /// These constants with some of them replaced.
    #[must_use]
    pub fn with(self, changes: &ControlChanges) -> HpccSettings {
        HpccSettings {
            utilisation: changes.utilisation.unwrap_or(self.utilisation),
            additive: changes.additive.map_or(self.additive, |rate| rate.0),
            minimum_rate: changes.minimum.map_or(self.minimum_rate, |rate| rate.0),
            ..self
        }
    }
}

/// The effect of an acknowledgement on the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// The first one only stores the telemetry.
    First,
    /// Once per round trip, the reference rate follows.
    Reference,
    /// In between.
    Fast,
}

/// The state of a sender.
#[derive(Clone, Debug)]
pub struct Hpcc {
    settings: HpccSettings,
    line: u64,
    rate: u64,
    reference: u64,
    utilisation: f64,
    stage: u32,
    /// The telemetry of the last acknowledgement; empty before the first.
    last: Telemetry,
    /// Maximum number of bytes in flight: follows from the rate, or the rate from it.
    window: u64,
    /// The form of the paper: `W_c`.
    reference_window: f64,
    /// The reference rate follows at the first acknowledgement beyond this sequence number.
    update_beyond: u64,
}

impl Hpcc {
    /// A sender that starts at its line rate, bits per second.
    pub fn new(settings: HpccSettings, line: u64) -> Hpcc {
        Hpcc {
            settings,
            line,
            rate: line,
            reference: line,
            utilisation: 1.0,
            stage: 0,
            last: Telemetry::EMPTY,
            window: settings.window,
            reference_window: settings.window as f64,
            update_beyond: 0,
        }
    }

    /// A sender in the middle of a flow: rates in bits per second, the utilisation estimate, and the telemetry of one
    /// hop.
    pub fn resume(&mut self, rates: [u64; 2], utilisation: f64, stage: u32, hop: Hop, update_beyond: u64) {
        [self.reference, self.rate] = rates;
        (self.utilisation, self.stage, self.update_beyond) = (utilisation, stage, update_beyond);
        self.last = Telemetry::EMPTY;
        self.last.push(hop);
        self.set_window();
    }

    /// Makes the next acknowledgement update the reference rate.
    pub fn resume_updates(&mut self) {
        self.update_beyond = 0;
    }

    /// Bits per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Bits per second.
    pub fn reference(&self) -> u64 {
        self.reference
    }

    /// Maximum number of bytes in flight.
    pub fn window(&self) -> u64 {
        self.window
    }

    fn set_window(&mut self) {
        let (most, rate, line) = (self.settings.window, self.rate, self.line);
        let wide = || (u128::from(most) * u128::from(rate) / u128::from(line)) as u64;
        self.window = most.checked_mul(rate).map_or_else(wide, |product| product / line);
    }

    /// The smoothed utilisation of the busiest hop.
    pub fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// Additive steps since the last multiplicative one.
    pub fn stage(&self) -> u32 {
        self.stage
    }

    /// Everything up to `acked` has arrived, `next` is the next sequence number to send (bytes), and the acknowledgement brings `hops`.
    pub fn on_telemetry(&mut self, acked: u64, next: u64, now: &Telemetry) -> Update {
        let is_first = self.last.hops().is_empty();
        let busiest = self.busiest(self.last.hops(), now.hops());
        self.last = *now;
        let is_due = acked > self.update_beyond;
        if is_due {
            self.update_beyond = next;
        }
        if is_first {
            return Update::First;
        }
        if let Some((busiest, elapsed)) = busiest {
            let (period, elapsed) = (self.settings.base_rtt_ns, elapsed.min(self.settings.base_rtt_ns));
            self.utilisation =
                (self.utilisation * (period - elapsed) as f64 + busiest * elapsed as f64) / period as f64;
            self.react(is_due);
        }
        if is_due { Update::Reference } else { Update::Fast }
    }

    /// The utilisation of the busiest hop since `before`, and the nanoseconds between.
    fn busiest(&self, before: &[Hop], now: &[Hop]) -> Option<(f64, u64)> {
        let HpccSettings { window, quantum, .. } = self.settings;
        let (sent_unit, queue_unit) = (quantum.sent_unit() * 8, quantum.queue_unit());
        let (mut most, mut elapsed_most) = (f64::NEG_INFINITY, 0);
        for (before, now) in before.iter().zip(now) {
            let elapsed = now.time_since(*before);
            if elapsed == 0 {
                continue;
            }
            let rate = (now.sent_since(*before) * sent_unit) as f64 / (elapsed as f64 * 1e-9);
            let (queue, line) = (now.queue().min(before.queue()), now.line());
            let mut utilisation = rate / line;
            // Most queues are empty.
            if queue > 0 {
                utilisation += (queue * queue_unit) as f64 * self.line as f64 / line / window as f64;
            }
            if utilisation > most {
                (most, elapsed_most) = (utilisation, elapsed);
            }
        }
        (elapsed_most > 0).then_some((most, elapsed_most))
    }

    fn react(&mut self, is_due: bool) {
        if let Some(flows) = self.settings.flows {
            self.react_by_window(flows, is_due);
            return;
        }
        let HpccSettings { utilisation: wanted, max_stage, additive, minimum_rate, .. } = self.settings;
        let excess = self.utilisation / wanted;
        let (rate, stage) = if excess >= 1.0 || self.stage >= max_stage {
            // If nothing was sent since the last telemetry, the excess is 0 and the quotient is infinite.
            (((self.reference as f64 / excess) as u64).saturating_add(additive), 0)
        } else {
            (self.reference + additive, self.stage + 1)
        };
        self.rate = rate.min(self.line).max(minimum_rate.min(self.line));
        self.set_window();
        if is_due {
            (self.reference, self.stage) = (self.rate, stage);
        }
    }
}

impl Hpcc {
    /// The paper's Algorithm 1: the window is the state, and packets are paced at W / T.
    fn react_by_window(&mut self, flows: u32, is_due: bool) {
        let HpccSettings { utilisation: wanted, max_stage, minimum_rate, base_rtt_ns, window, .. } =
            self.settings;
        let most = window as f64;
        let additive = most * (1.0 - wanted) / f64::from(flows);
        let excess = self.utilisation / wanted;
        let (next, stage) = if excess >= 1.0 || self.stage >= max_stage {
            (self.reference_window / excess + additive, 0)
        } else {
            (self.reference_window + additive, self.stage + 1)
        };
        let least = most * minimum_rate.min(self.line) as f64 / self.line as f64;
        let next = next.min(most).max(least);
        self.window = next as u64;
        self.rate = ((next * 8e9 / base_rtt_ns as f64) as u64).clamp(1, self.line);
        if is_due {
            (self.reference_window, self.reference, self.stage) = (next, self.rate, stage);
        }
    }
}

impl ControlKind for Hpcc {
    type Form = ();
    const READS_TELEMETRY: bool = true;
    const HAS_WINDOW: bool = true;

    fn new((): (), settings: &QueuePairSettings) -> Hpcc {
        let ControlParameters { hpcc_max_stage, hpcc_flows, base_rtt, quantum, .. } = settings.parameters;
        let constants = HpccSettings::for_line(settings.line, hpcc_max_stage, hpcc_flows, base_rtt, quantum);
        Hpcc::new(constants.with(&settings.changes), settings.line)
    }
}

impl RateControl for Hpcc {
    fn rate(&self) -> u64 {
        self.rate()
    }

    fn own_window(&self) -> Option<u64> {
        Some(self.window())
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        if !ack.telemetry.hops().is_empty() {
            self.on_telemetry(ack.acked, ack.next, ack.telemetry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a constant utilisation u, W = W eta / u + `W_AI` has the fixed point `W_AI` / (1 - eta / u), whatever the start.
    #[test]
    fn windows_of_the_paper_meet_at_their_fixed_point() {
        let quantum = Quantum::for_line(25_000_000_000);
        let settings = HpccSettings::for_line(25_000_000_000, 0, Some(10), Span::from_us(8), quantum);
        assert_eq!(settings.window, 25_000);
        let additive = 25_000.0 * 0.05 / 10.0;
        for start in [2_500.0, 12_500.0, 25_000.0] {
            let mut state = Hpcc::new(settings, 25_000_000_000);
            (state.reference_window, state.utilisation) = (start, 1.0);
            (0..800).for_each(|_| state.react(true));
            let fixed = additive / 0.05;
            assert!((state.reference_window - fixed).abs() < 1e-3, "{}", state.reference_window);
            // Both are truncated.
            assert!(state.window().abs_diff(2_500) <= 1, "{}", state.window());
            assert!(state.rate().abs_diff(2_500_000_000) <= 1, "{}", state.rate());
        }
    }

    #[test]
    fn stamps_wrap_and_long_queues_saturate() {
        let quantum = Quantum::for_line(100_000_000_000);
        let [before, after] =
            [(0, ((1 << 20) - 1) * 512, (1 << 24) - 10), (1 << 40, (1 << 20) * 512 + 1024, (1 << 24) + 5)]
                .map(|(queue, sent, now)| quantum.stamp(100_000_000, queue, sent, now));
        assert_eq!((after.time_since(before), after.sent_since(before)), (15, 3));
        assert_eq!((before.queue(), after.queue()), (0, (1 << 17) - 1));
        assert!((after.line() - 1e11).abs() < 1.0);
    }

    fn with_stages(max_stage: u32, reference_window: f64, utilisation: f64, stage: u32) -> Hpcc {
        let line = 25_000_000_000;
        let quantum = Quantum::for_line(line);
        let settings = HpccSettings::for_line(line, max_stage, Some(10), Span::from_us(8), quantum);
        Hpcc { utilisation, stage, reference_window, ..Hpcc::new(settings, line) }
    }

    /// Algorithm 1, `ComputeWind`: the step is multiplicative if U >= eta, and additive ones count from 0 again.
    #[test]
    fn at_its_target_the_paper_counts_additive_steps_again() {
        for (utilisation, stage) in [(0.94, 4), (0.95, 0), (0.96, 0)] {
            let mut state = with_stages(5, 12_500.0, utilisation, 3);
            state.react(true);
            assert_eq!(state.stage(), stage, "{utilisation}");
        }
    }

    /// The form of the simulator: so is the step of the rate. It adds 10 Mbit/s.
    #[test]
    fn at_its_target_the_simulator_counts_additive_steps_again() {
        let line = 25_000_000_000;
        let settings = HpccSettings::for_line(line, 5, None, Span::from_us(8), Quantum::for_line(line));
        let reference = line / 2;
        for (utilisation, stage, rate) in
            [(0.475, 4, 12_510_000_000), (0.95, 0, 12_510_000_000), (1.9, 0, 6_260_000_000)]
        {
            let mut state = Hpcc { utilisation, stage: 3, reference, ..Hpcc::new(settings, line) };
            state.react(true);
            assert_eq!(
                (state.stage(), state.rate(), state.reference()),
                (stage, rate, rate),
                "{utilisation}"
            );
        }
    }

    /// A hundredth of the line, and of the window that fills it: 250 of 25,000 bytes. W eta / U + `W_AI` would be
    /// 2500 * 0.95 / 100 + 125 = 148.75 bytes.
    #[test]
    fn windows_of_the_paper_stop_at_the_minimum_rate() {
        let mut state = with_stages(0, 2500.0, 100.0, 0);
        state.react(true);
        assert_eq!((state.window(), state.rate()), (250, 250_000_000));
    }
}
