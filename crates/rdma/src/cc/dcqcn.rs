//! The reaction point of DCQCN (Zhu et al., SIGCOMM 2015, §3 and §5; constants and quirks of each preset:
//! docs/models/rdma.md).
//!
//! Rates are whole bits per second and truncated after each operation, as in the reference runs.

use super::{ControlKind, RateControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_schema::bounds::Above;
use pauseframe_schema::{choices, table};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::ops::RangeInclusive;

choices! {
    /// When a cut also lowers the target rate to the rate before the cut
    pub enum ClampTarget {
        /// At every cut (SIGCOMM 2015 §3.3)
        Always = "always",
        /// Only if the rate has increased since the last cut (`ConnectX`; forks of the HPCC simulator)
        AfterIncrease = "after_increase",
    }
}

/// Time at which a CNP takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// Each CNP cuts the rate and updates alpha at once; `alpha_interval` without a CNP lowers alpha (SIGCOMM 2015
    /// §3.3).
    AtOnce,
    /// From the first CNP on, free-running timers check for CNPs; the first CNP cuts at the first check (`ConnectX`; HPCC forks).
    Periodic {
        /// Interval of checks that may cut the rate.
        cut_interval: Span,
    },
}

/// Constants of the reaction point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DcqcnSettings {
    /// Time at which a CNP takes effect.
    pub reaction: Reaction,
    /// Interval of updates of alpha.
    pub alpha_interval: Span,
    /// The weight g of one update of alpha.
    pub gain: f64,
    /// Alpha at the first CNP.
    pub initial_alpha: f64,
    /// Interval of increases by time.
    pub rise_interval: Span,
    /// Bytes between two increases by volume; `None`: by time only.
    pub byte_counter: Option<u64>,
    /// Steps of fast recovery, F.
    pub recovery_steps: u32,
    /// Additive increase of the target rate, bits per second.
    pub additive: u64,
    /// Hyper increase of the target rate, bits per second.
    pub hyper: u64,
    /// Lower bound of the rate, bits per second.
    pub minimum_rate: u64,
    /// Condition under which a cut lowers the target rate.
    pub clamp: ClampTarget,
}

/// A named set of constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// SIGCOMM 2015: cut at each CNP, 55 us timers, 10 MB byte counter, five steps of recovery.
    Paper,
    /// Registers of NVIDIA `ConnectX` cards ("DCQCN CC parameters" and public dumps of mlxconfig), the same at every line
    /// rate. Two deviate: `RPG_BYTE_RESET` counts as off, and from 100 Gb/s on the smallest rate is 1 % of the line rate.
    ConnectX,
    /// `ConnectX` with the increase timer that gives the recovery measured on a ConnectX-5: 447 ms from half the line rate of
    /// 100 Gb/s to 95 % (openfabric-systems/simllm, paper/mlx5).
    Cx5Measured,
    /// The HPCC simulator's `dcqcn`: `ConnectX` timers, increases that scale with the line rate.
    Hpcc,
}

/// Line rate from which `ConnectX` presets keep at least 1 % of it: the register's 1 Mb/s would take 17 cuts from
/// 100 Gb/s, and one packet then 8 ms.
const FLOOR_FROM: u64 = 100_000_000_000;

impl DcqcnSettings {
    /// The constants of `preset` for a link of `line` bits per second.
    pub fn of(preset: Preset, line: u64) -> DcqcnSettings {
        const MBPS: u64 = 1_000_000;
        let connectx = DcqcnSettings {
            reaction: Reaction::Periodic { cut_interval: Span::from_us(4) },
            alpha_interval: Span::from_us(1),
            gain: 5.0 / 1024.0,
            initial_alpha: 1023.0 / 1024.0,
            rise_interval: Span::from_us(300),
            byte_counter: None,
            recovery_steps: 1,
            additive: 5 * MBPS,
            hyper: 50 * MBPS,
            // Deviates from the cards: the register is 1 Mb/s at every line rate.
            minimum_rate: if line >= FLOOR_FROM { line / 100 } else { MBPS },
            clamp: ClampTarget::AfterIncrease,
        };
        match preset {
            Preset::ConnectX => connectx,
            Preset::Cx5Measured => DcqcnSettings { rise_interval: Span::from_us(500), ..connectx },
            Preset::Hpcc => DcqcnSettings {
                gain: 1.0 / 256.0,
                initial_alpha: 1.0,
                additive: line / 25_000 * 5,
                hyper: line / 25_000 * 50,
                minimum_rate: 1000 * MBPS,
                ..connectx
            },
            Preset::Paper => DcqcnSettings {
                reaction: Reaction::AtOnce,
                alpha_interval: Span::from_us(55),
                gain: 1.0 / 256.0,
                initial_alpha: 1.0,
                rise_interval: Span::from_us(55),
                byte_counter: Some(10_000_000),
                recovery_steps: 5,
                additive: 40 * MBPS,
                // The paper gives no hyper increase, so the additive step serves for both.
                hyper: 40 * MBPS,
                minimum_rate: 10 * MBPS,
                clamp: ClampTarget::Always,
            },
        }
    }
}

const TIMES: RangeInclusive<Span> = Span(1)..=Span::from_secs(3600);
const RATES: RangeInclusive<BitRate> = BitRate(1000)..=BitRate(1_000_000_000_000);
const OF_PRESET: &str = "as rdma_control has it";

table! {
    /// Constants that replace those of a preset
    #[derive(Copy, Default)]
    pub struct DcqcnChanges {
        /// Time between two checks of DCQCN that may cut the rate; the first CNP starts them, so it cuts after this time
        #[source = "NVIDIA: RATE_REDUCE_MONITOR_PERIOD; HPCC simulator: RATE_DECREASE_INTERVAL"]
        cut_interval as "dcqcn_cut_interval": Option<Span> = optional_in(TIMES, "as rdma_control has it; dcqcn_paper: each CNP cuts at once");
        /// Time between two updates of DCQCN's alpha
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: DCE_TCP_RTT"]
        alpha_interval as "dcqcn_alpha_interval": Option<Span> = optional_in(TIMES, OF_PRESET);
        /// Weight g of one update of DCQCN's alpha
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: DCE_TCP_G"]
        gain as "dcqcn_gain": Option<f64> = optional_in(Above(0.0, 1.0, ""), OF_PRESET);
        /// DCQCN's alpha at the first CNP
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: INITIAL_ALPHA_VALUE"]
        initial_alpha as "dcqcn_initial_alpha": Option<f64> = optional_in(Above(0.0, 1.0, ""), OF_PRESET);
        /// Time between two increases of DCQCN's rate
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: RPG_TIME_RESET"]
        rise_interval as "dcqcn_rise_interval": Option<Span> = optional_in(TIMES, OF_PRESET);
        /// Bytes between two increases of DCQCN's rate
        #[source = "Zhu et al., SIGCOMM 2015"]
        byte_counter as "dcqcn_byte_counter": Option<Bytes> = optional_in(Bytes(1)..=Bytes(1_000_000_000_000), OF_PRESET);
        /// Increases of DCQCN's rate before its target rate rises, F
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: RPG_THRESHOLD"]
        recovery_steps as "dcqcn_recovery_steps": Option<u32> = optional_in(1..=1000, OF_PRESET);
        /// Additive increase of DCQCN's target rate
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: RPG_AI_RATE"]
        additive as "dcqcn_additive_increase": Option<BitRate> = optional_in(RATES, OF_PRESET);
        /// Hyper increase of DCQCN's target rate
        #[source = "IEEE 802.1Qau; NVIDIA: RPG_HAI_RATE"]
        hyper as "dcqcn_hyper_increase": Option<BitRate> = optional_in(RATES, OF_PRESET);
        /// Smallest rate of DCQCN
        #[source = "NVIDIA: RPG_MIN_RATE"]
        minimum_rate as "dcqcn_minimum_rate": Option<BitRate> = optional_in(RATES, OF_PRESET);
        /// When a cut of DCQCN also lowers the target rate to the rate before the cut
        #[source = "NVIDIA: CLAMP_TGT_RATE, CLAMP_TGT_RATE_AFTER_TIME_INC"]
        clamp as "dcqcn_clamp_target": Option<ClampTarget> = optional(OF_PRESET);
    }
    pub fn part(t);
}

impl DcqcnSettings {
    /// These settings with some constants replaced.
    #[must_use]
    pub fn with(self, changes: &DcqcnChanges) -> DcqcnSettings {
        DcqcnSettings {
            reaction: changes
                .cut_interval
                .map_or(self.reaction, |cut_interval| Reaction::Periodic { cut_interval }),
            alpha_interval: changes.alpha_interval.unwrap_or(self.alpha_interval),
            gain: changes.gain.unwrap_or(self.gain),
            initial_alpha: changes.initial_alpha.unwrap_or(self.initial_alpha),
            rise_interval: changes.rise_interval.unwrap_or(self.rise_interval),
            byte_counter: changes.byte_counter.map(|bytes| bytes.0).or(self.byte_counter),
            recovery_steps: changes.recovery_steps.unwrap_or(self.recovery_steps),
            additive: changes.additive.map_or(self.additive, |rate| rate.0),
            hyper: changes.hyper.map_or(self.hyper, |rate| rate.0),
            minimum_rate: changes.minimum_rate.map_or(self.minimum_rate, |rate| rate.0),
            clamp: changes.clamp.unwrap_or(self.clamp),
        }
    }
}

/// The action of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Updates alpha.
    Alpha,
    /// Cuts the rate if a CNP came.
    Cut,
    /// Increases the rate.
    Rise,
}

/// The state of a reaction point.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what has come since several moments")]
pub struct Dcqcn {
    settings: DcqcnSettings,
    line: u64,
    rate: u64,
    target: u64,
    alpha: f64,
    /// Expiry time of each [`Timer`].
    timers: [Option<Time>; 3],
    seen_cnp: bool,
    cnp_since_alpha: bool,
    cnp_since_cut: bool,
    rose_since_cut: bool,
    /// Increases since the last cut: by time, by volume.
    stages: [u32; 2],
    bytes: u64,
}

impl Dcqcn {
    /// A reaction point that sends at its line rate, bits per second.
    pub fn new(settings: DcqcnSettings, line: u64) -> Dcqcn {
        Dcqcn {
            settings,
            line,
            rate: line,
            target: line,
            alpha: settings.initial_alpha,
            timers: [None; 3],
            seen_cnp: false,
            cnp_since_alpha: false,
            cnp_since_cut: false,
            rose_since_cut: false,
            stages: [0; 2],
            bytes: 0,
        }
    }

    /// Bits per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Bits per second.
    pub fn target(&self) -> u64 {
        self.target
    }

    /// The estimate of congestion, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// A CNP has arrived.
    pub fn on_cnp(&mut self, now: Time) {
        let DcqcnSettings { alpha_interval, gain, .. } = self.settings;
        match self.settings.reaction {
            Reaction::AtOnce => {
                self.cut(now);
                self.alpha = if self.seen_cnp { (1.0 - gain) * self.alpha + gain } else { self.alpha };
                self.set(Timer::Alpha, now + alpha_interval);
            }
            Reaction::Periodic { cut_interval } => {
                self.cnp_since_cut = true;
                if self.seen_cnp {
                    self.cnp_since_alpha = true;
                } else {
                    // The CNP sets alpha, so the next update does not count it.
                    self.target = self.rate;
                    self.set(Timer::Alpha, now + alpha_interval);
                    // One nanosecond later, so that alpha is updated first.
                    self.set(Timer::Cut, now + cut_interval + Span::from_ns(1));
                }
            }
        }
        self.seen_cnp = true;
    }

    /// Bytes have been sent.
    pub fn count_sent(&mut self, bytes: u64) {
        let Some(period) = self.settings.byte_counter.filter(|_| self.seen_cnp) else { return };
        self.bytes += bytes;
        if self.bytes >= period {
            self.bytes -= period;
            self.rise(1);
        }
    }

    /// The next timer to expire; of several, the one started first, which has the longer interval.
    pub fn next_timer(&self) -> Option<(Time, Timer)> {
        self.next_of(&[Timer::Alpha, Timer::Cut, Timer::Rise])
    }

    /// The next timer that changes the rate. Only cuts read alpha, and a check without a CNP does nothing: a `ConnectX` has
    /// one of these each microsecond, so they wait for [`Dcqcn::on_timeout`].
    fn next_change(&self) -> Option<(Time, Timer)> {
        self.next_of(if self.cnp_since_cut { &[Timer::Cut, Timer::Rise] } else { &[Timer::Rise] })
    }

    fn next_of(&self, timers: &[Timer]) -> Option<(Time, Timer)> {
        let pending = timers.iter().filter_map(|&timer| Some((self.timers[timer as usize]?, timer)));
        pending.min_by_key(|(at, timer)| (*at, std::cmp::Reverse(self.interval(*timer))))
    }

    /// Interval of a timer.
    pub fn interval(&self, timer: Timer) -> Span {
        match (timer, self.settings.reaction) {
            (Timer::Alpha, _) => self.settings.alpha_interval,
            (Timer::Cut, Reaction::Periodic { cut_interval }) => cut_interval,
            (Timer::Cut, Reaction::AtOnce) => Span::ZERO,
            (Timer::Rise, _) => self.settings.rise_interval,
        }
    }

    /// `timer` has expired at `at`; returns false if nothing was due.
    pub fn fire(&mut self, timer: Timer, at: Time) -> bool {
        let gain = self.settings.gain;
        self.set(timer, at + self.interval(timer));
        match timer {
            Timer::Alpha => {
                let share = if std::mem::take(&mut self.cnp_since_alpha) { gain } else { 0.0 };
                self.alpha = (1.0 - gain) * self.alpha + share;
            }
            Timer::Cut => {
                if !std::mem::take(&mut self.cnp_since_cut) {
                    return false;
                }
                self.cut(at);
            }
            Timer::Rise => self.rise(0),
        }
        true
    }

    /// Handles all timers that have expired by `now`.
    pub fn on_timeout(&mut self, now: Time) {
        while let Some((at, timer)) = self.next_change().filter(|(at, _)| *at <= now) {
            self.update_alpha(at);
            self.fire(timer, at);
        }
        self.update_alpha(now);
        self.skip_to(now, Timer::Cut);
    }

    /// Updates alpha as often as was due by `now`.
    fn update_alpha(&mut self, now: Time) {
        let Some(due) = self.timers[Timer::Alpha as usize].filter(|due| *due <= now) else { return };
        self.fire(Timer::Alpha, due);
        let kept = 1.0 - self.settings.gain;
        for _ in 0..self.skip_to(now, Timer::Alpha) {
            let next = kept * self.alpha;
            if next.to_bits() == self.alpha.to_bits() {
                break;
            }
            self.alpha = next;
        }
    }

    /// Sets a timer that repeats to its first expiry after `now`; returns how many it has skipped.
    fn skip_to(&mut self, now: Time, timer: Timer) -> u64 {
        let Some(due) = self.timers[timer as usize].filter(|due| *due <= now) else { return 0 };
        let count = (now - due).0 / self.interval(timer).0 + 1;
        self.set(timer, due + self.interval(timer) * count);
        count
    }

    fn set(&mut self, timer: Timer, at: Time) {
        self.timers[timer as usize] = Some(at);
    }

    fn cut(&mut self, now: Time) {
        if self.settings.clamp == ClampTarget::Always || self.rose_since_cut {
            self.target = self.rate;
        }
        let cut = (self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64;
        self.rate = cut.max(self.settings.minimum_rate.min(self.line));
        (self.rose_since_cut, self.stages, self.bytes) = (false, [0; 2], 0);
        self.set(Timer::Rise, now + self.settings.rise_interval);
    }

    /// Applies the next increase by time (0) or by volume (1).
    fn rise(&mut self, by: usize) {
        let (stages, steps) = (self.stages, self.settings.recovery_steps);
        let most = stages[0].max(stages[1]);
        // Without a byte counter, increases by time alone lead to hyper increase.
        let least = if self.settings.byte_counter.is_some() { stages[0].min(stages[1]) } else { most };
        if most >= steps {
            let step = if least > steps { self.settings.hyper } else { self.settings.additive };
            self.target = (self.target + step).min(self.line);
        }
        self.rate = self.rate / 2 + self.target / 2;
        self.stages[by] += 1;
        self.rose_since_cut = true;
    }
}

impl ControlKind for Dcqcn {
    type Form = Preset;
    const REACTS_TO_CNPS: bool = true;

    fn new(preset: Preset, settings: &QueuePairSettings) -> Dcqcn {
        let constants = DcqcnSettings::of(preset, settings.line).with(&settings.parameters.dcqcn);
        Dcqcn::new(constants, settings.line)
    }
}

impl RateControl for Dcqcn {
    fn rate(&self) -> u64 {
        self.rate()
    }

    fn on_sent(&mut self, bytes: u64, now: Time) {
        self.on_timeout(now);
        self.count_sent(bytes);
    }

    fn on_cnp(&mut self, now: Time) {
        self.on_cnp(now);
    }

    fn deadline(&self) -> Time {
        self.next_change().map_or(Time::MAX, |(at, _)| at)
    }

    fn on_timeout(&mut self, now: Time) {
        self.on_timeout(now);
    }

    fn move_later(&mut self, by: Span) {
        self.timers.iter_mut().flatten().for_each(|timer| *timer += by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn changes_replace_the_constants_that_they_name() {
        let preset = DcqcnSettings::of(Preset::Paper, 40_000_000_000);
        assert_eq!(preset.with(&DcqcnChanges::default()), preset);
        let changes = DcqcnChanges {
            cut_interval: Some(Span::from_us(8)),
            alpha_interval: Some(Span::from_us(1)),
            gain: Some(0.5),
            initial_alpha: Some(0.25),
            rise_interval: Some(Span::from_us(2)),
            byte_counter: Some(Bytes(3)),
            recovery_steps: Some(4),
            additive: Some(BitRate(5)),
            hyper: Some(BitRate(6)),
            minimum_rate: Some(BitRate(7)),
            clamp: Some(ClampTarget::AfterIncrease),
        };
        let expected = DcqcnSettings {
            reaction: Reaction::Periodic { cut_interval: Span::from_us(8) },
            alpha_interval: Span::from_us(1),
            gain: 0.5,
            initial_alpha: 0.25,
            rise_interval: Span::from_us(2),
            byte_counter: Some(3),
            recovery_steps: 4,
            additive: 5,
            hyper: 6,
            minimum_rate: 7,
            clamp: ClampTarget::AfterIncrease,
        };
        assert_eq!(preset.with(&changes), expected);
    }

    /// Milliseconds from half the line rate to 95 % after the last CNP, by the timer alone.
    fn recovery(settings: DcqcnSettings, line: u64) -> f64 {
        let settings = DcqcnSettings { byte_counter: None, ..settings };
        let mut state = Dcqcn { rate: line / 2, target: line / 2, ..Dcqcn::new(settings, line) };
        state.set(Timer::Rise, Time::ZERO + settings.rise_interval);
        let mut now = Time::ZERO;
        while state.rate < line / 20 * 19 {
            now = state.next_timer().expect("the timer of increases runs").0;
            state.fire(Timer::Rise, now);
        }
        now.0 as f64 / 1e9
    }

    /// The target rate has to rise by 45 % of the line rate. Further steps: F of fast recovery, one by which the rate stays
    /// behind the target, and what the additive increase lacks to a hyper increase.
    fn closed_form(settings: DcqcnSettings, line: u64) -> f64 {
        let DcqcnSettings { additive, hyper, recovery_steps, rise_interval, .. } = settings;
        let [line, additive, hyper] = [line, additive, hyper].map(|rate| rate as f64);
        let steps = 0.45 * line / hyper + f64::from(recovery_steps) + 1.0 + (1.0 - additive / hyper);
        steps * rise_interval.0 as f64 / 1e9
    }

    #[test]
    fn recovery_takes_the_time_that_the_steps_imply() {
        for (rate, in_ms) in [
            (25, [68.0, 68.0, 16.0, 104.0]),
            (100, [271.0, 68.0, 62.0, 408.0]),
            (200, [541.0, 68.0, 124.0, 813.0]),
            (400, [1081.0, 68.0, 248.0, 1623.0]),
            (800, [2161.0, 68.0, 495.0, 3243.0]),
        ] {
            let line = rate * 1_000_000_000;
            let hpcc = DcqcnSettings::of(Preset::Hpcc, line);
            let simai = DcqcnSettings {
                rise_interval: Span::from_us(900),
                additive: 50_000_000,
                hyper: 100_000_000,
                ..hpcc
            };
            let [connectx, paper] =
                [Preset::ConnectX, Preset::Paper].map(|preset| DcqcnSettings::of(preset, line));
            for (settings, rounded) in [connectx, hpcc, paper, simai].into_iter().zip(in_ms) {
                let (took, expected) = (recovery(settings, line), closed_form(settings, line));
                assert!((took / expected - 1.0).abs() < 0.01, "{rate} Gb/s: {took} ms, {expected}");
                assert!((took - rounded).abs() < 0.5 + took / 100.0, "{rate} Gb/s: {took} ms, {rounded}");
            }
        }
    }

    /// Measured on a ConnectX-5 at 100 Gb/s, after an incast of two: 447 ms, +- 10 (openfabric-systems/simllm).
    #[test]
    fn the_measured_preset_recovers_as_the_card_does() {
        let line = 100_000_000_000;
        let took = recovery(DcqcnSettings::of(Preset::Cx5Measured, line), line);
        assert!((took - 447.0).abs() < 10.0, "{took} ms");
    }

    #[test]
    fn only_the_floor_of_the_registers_follows_the_line_rate() {
        for preset in [Preset::ConnectX, Preset::Cx5Measured] {
            let slow = DcqcnSettings::of(preset, 10_000_000_000);
            assert_eq!(slow.minimum_rate, 1_000_000);
            for rate in [25, 50, 99] {
                assert_eq!(DcqcnSettings::of(preset, rate * 1_000_000_000), slow);
            }
            for rate in [100, 200, 400, 800] {
                let minimum_rate = rate * 10_000_000;
                assert_eq!(
                    DcqcnSettings::of(preset, rate * 1_000_000_000),
                    DcqcnSettings { minimum_rate, ..slow }
                );
            }
        }
    }

    /// The state in which each timer was handled by itself at its time.
    fn step_to(state: &mut Dcqcn, now: Time) {
        while let Some((at, timer)) = state.next_timer().filter(|(at, _)| *at <= now) {
            state.fire(timer, at);
        }
    }

    #[test]
    fn timers_that_wait_give_the_same_rates() {
        const LINE: u64 = 100_000_000_000;
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let odd = DcqcnChanges {
            cut_interval: Some(Span::from_ns(3_001)),
            alpha_interval: Some(Span::from_ns(7_000)),
            rise_interval: Some(Span::from_ns(2_500)),
            ..DcqcnChanges::default()
        };
        let mut cuts = 0;
        for preset in [Preset::Paper, Preset::ConnectX, Preset::Cx5Measured, Preset::Hpcc] {
            for changes in [DcqcnChanges::default(), odd] {
                let settings = DcqcnSettings::of(preset, LINE).with(&changes);
                let mut waiting = Dcqcn::new(settings, LINE);
                let mut stepped = waiting.clone();
                let mut now = Time::ZERO;
                for _ in 0..2000 {
                    let most = if random.random_bool(0.02) { 5_000_000_000 } else { 9_000_000 };
                    now += Span(random.random_range(0..most));
                    // The deadline is the first moment at which the rate differs.
                    step_to(&mut stepped, now.min(Time(RateControl::deadline(&waiting).0 - 1)));
                    assert_eq!(waiting.rate(), stepped.rate());
                    RateControl::on_timeout(&mut waiting, now);
                    step_to(&mut stepped, now);
                    if random.random_bool(0.3) {
                        waiting.on_cnp(now);
                        stepped.on_cnp(now);
                    }
                    let sent = random.random_range(0..200_000);
                    waiting.count_sent(sent);
                    stepped.count_sent(sent);
                    let state =
                        |one: &Dcqcn| (one.rate, one.target, one.alpha.to_bits(), one.timers, one.stages);
                    assert_eq!(state(&waiting), state(&stepped), "{preset:?} at {now:?}");
                    cuts += u32::from(waiting.rate < LINE);
                }
            }
        }
        assert!(cuts > 8000);
    }
}
