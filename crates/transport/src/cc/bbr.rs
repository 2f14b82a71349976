//! BBR version 1 as in Linux 6.12 (`net/ipv4/tcp_bbr.c`; Cardwell et al. 2016): the window and the pacing rate follow from the largest recent delivery
//! rate and the smallest recent round-trip time. A loss only makes the flow conserve packets for a round trip.
//!
//! Arithmetic and units are the kernel's: whole packets, microseconds, rates in packets a microsecond times [`BW_UNIT`], gains of [`UNIT`].

use super::policer::Policer;
use super::windowed_max::WindowedMax;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow, DeliverySample};
use crate::recovery::RecoveryPhase;
use pauseframe_units::{Span, Time};

pub(super) const BW_UNIT: u64 = 1 << 24;
pub(super) const UNIT: u64 = 1 << 8;
/// 2/ln 2, so that the rate doubles each round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Its inverse drains in one round trip what start-up has queued.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const WINDOW_GAIN: u64 = 2 * UNIT;
/// Probes for more, drains that, and keeps the rate for six round trips.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Phases of the cycle in which it may begin; not the second.
const FIRST_PHASES: u64 = 7;
/// Round trips of the filter of rates.
const RATE_ROUNDS: u64 = 10;
const MIN_RTT_LIFETIME: Span = Span::from_secs(10);
const PROBE_RTT_TIME: Span = Span::from_ms(200);
const MIN_WINDOW: u64 = 4;
/// `TCP_INIT_CWND`
const INITIAL_WINDOW: u64 = 10;
/// Start-up ends after so many round trips in which the rate has grown by less than a quarter.
const FULL_PIPE_ROUNDS: u32 = 3;
/// Percent of the estimated rate at which a flow sends.
const PACING_PERCENT: u64 = 99;
/// Round trips of each of two filters of aggregated ACKs.
const AGGREGATION_ROUNDS: u32 = 5;
const AGGREGATION_MAX_US: u64 = 100_000;
const AGGREGATION_MAX_PACKETS: u64 = 1 << 20;
/// `GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER`
const MAX_BATCH_BYTES: u64 = 65_535 - 192;
/// Bytes a second below which a batch is one packet (`bbr_min_tso_rate`).
const MIN_BATCH_RATE: u64 = 1_200_000 / 8;

/// `bbr_rate_bytes_per_sec`
pub(super) fn bytes_per_second(rate: u64, gain: u64, mss: u64) -> u64 {
    let scaled = (u128::from(rate) * u128::from(mss) * u128::from(gain)) >> 8;
    ((scaled * u128::from(1_000_000 / 100 * PACING_PERCENT)) >> 24) as u64
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// BBR. The model is in a box, because connections have room for the largest control.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    model: Box<Model>,
}

impl Bbr {
    pub(crate) fn new() -> Bbr {
        Bbr { model: Box::default() }
    }
}

/// `struct bbr`. Windows and amounts in packets.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts; what excludes each other is `mode`")]
struct Model {
    mode: Mode,
    /// State of the random number generator.
    random: u64,
    /// Bytes a second.
    pacing_rate: u64,
    pacing_gain: u64,
    window_gain: u64,
    has_seen_rtt: bool,
    rates: WindowedMax,
    policer: Policer,
    rounds: u64,
    round_start: bool,
    /// A round trip ends with a packet that was sent when so much had been delivered.
    round_end: u64,
    /// Microseconds; `u64::MAX`: none.
    min_rtt: u64,
    min_rtt_at: Time,
    probe_rtt_end: Option<Time>,
    probe_rtt_round_done: bool,
    full_rate: u64,
    full_rounds: u32,
    is_pipe_full: bool,
    phase_index: usize,
    phase_began: Time,
    /// Phase of recovery at the ACK before.
    recovery: RecoveryPhase,
    conserves_packets: bool,
    prior_window: u64,
    restarts_after_idle: bool,
    aggregation: Aggregation,
}

/// Data acknowledged beyond what the rate explains.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    began: Time,
    acked: u64,
    largest: [u64; 2],
    index: usize,
    rounds: u32,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            mode: Mode::Startup,
            random: 0,
            pacing_rate: 0,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            has_seen_rtt: false,
            rates: WindowedMax::default(),
            policer: Policer::default(),
            rounds: 0,
            round_start: false,
            round_end: 0,
            min_rtt: u64::MAX,
            min_rtt_at: Time::ZERO,
            probe_rtt_end: None,
            probe_rtt_round_done: false,
            full_rate: 0,
            full_rounds: 0,
            is_pipe_full: false,
            phase_index: 0,
            phase_began: Time::ZERO,
            recovery: RecoveryPhase::Open,
            conserves_packets: false,
            prior_window: 0,
            restarts_after_idle: false,
            aggregation: Aggregation::default(),
        }
    }
}

fn microseconds(span: Span) -> u64 {
    span.0 / Span::from_us(1).0
}

/// Microseconds between two readings of a clock that shows whole ones.
fn microseconds_between(from: Time, to: Time) -> u64 {
    (to.0 / Span::from_us(1).0).saturating_sub(from.0 / Span::from_us(1).0)
}

fn is_recovering(phase: RecoveryPhase) -> bool {
    matches!(phase, RecoveryPhase::Recovery | RecoveryPhase::Loss)
}

impl Model {
    /// The estimated rate of the path.
    fn rate(&self) -> u64 {
        if self.policer.in_use { self.policer.rate } else { self.rates.get() }
    }

    /// `bbr_bdp`
    fn bdp(&self, rate: u64, gain: u64) -> u64 {
        if self.min_rtt == u64::MAX {
            return INITIAL_WINDOW;
        }
        ((u128::from(rate) * u128::from(self.min_rtt) * u128::from(gain)) >> 8).div_ceil(u128::from(BW_UNIT)) as u64
    }

    /// `bbr_tso_segs_goal`: packets of a batch.
    fn batch(&self, mss: u64) -> u64 {
        let smallest = if self.pacing_rate < MIN_BATCH_RATE { 1 } else { 2 };
        ((self.pacing_rate >> 10).min(MAX_BATCH_BYTES) / mss).clamp(smallest, 127)
    }

    /// `bbr_quantization_budget`: room for batches in both hosts, an even number for delayed ACKs.
    fn with_batches(&self, window: u64, mss: u64) -> u64 {
        let even = (window + 3 * self.batch(mss)).next_multiple_of(2);
        let probes = self.mode == Mode::ProbeBandwidth && self.phase_index == 0;
        even + if probes { 2 } else { 0 }
    }

    /// `bbr_inflight`
    fn flight_at(&self, gain: u64, mss: u64) -> u64 {
        self.with_batches(self.bdp(self.rates.get(), gain), mss)
    }

    /// `bbr_packets_in_net_at_edt`: packets in the network when the pacer admits the next one.
    fn in_network_at_departure(&self, in_flight: u64, sample: &DeliverySample, mss: u64) -> u64 {
        let wait = microseconds(sample.departure.saturating_since(sample.now));
        let leaving = ((u128::from(self.rate()) * u128::from(wait)) >> 24) as u64;
        let sent = if self.pacing_gain > UNIT { self.batch(mss) } else { 0 };
        (in_flight + sent).saturating_sub(leaving)
    }

    /// `bbr_init_pacing_rate_from_rtt`; a nominal millisecond without an RTT.
    fn init_pacing_rate(&mut self, window: &CongestionWindow, srtt: Option<Span>) {
        let rtt = srtt.map_or(1000, |srtt| microseconds(srtt).max(1));
        self.has_seen_rtt |= srtt.is_some();
        let mss = u64::from(window.mss);
        self.pacing_rate = bytes_per_second(window.cwnd / mss * BW_UNIT / rtt, HIGH_GAIN, mss);
    }

    fn set_pacing_rate(&mut self, window: &CongestionWindow, rate: u64, gain: u64, srtt: Option<Span>) {
        if !self.has_seen_rtt && srtt.is_some() {
            self.init_pacing_rate(window, srtt);
        }
        let rate = bytes_per_second(rate, gain, u64::from(window.mss));
        // Start-up never slows down.
        if self.is_pipe_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Remembers a window before something other than the model cuts it.
    fn save_window(&mut self, packets: u64) {
        self.prior_window = if !is_recovering(self.recovery) && self.mode != Mode::ProbeRtt {
            packets
        } else {
            self.prior_window.max(packets)
        };
    }

    fn enter_probe_bandwidth(&mut self, sample: &DeliverySample) {
        self.mode = Mode::ProbeBandwidth;
        self.phase_index = CYCLE.len() - 1 - self.random_below(FIRST_PHASES) as usize;
        self.advance_phase(sample);
    }

    fn advance_phase(&mut self, sample: &DeliverySample) {
        self.phase_index = (self.phase_index + 1) % CYCLE.len();
        self.phase_began = sample.delivered_at;
    }

    /// A number of Steele, Lea and Flood's `SplitMix64`.
    fn random_below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    /// `bbr_update_bw`
    fn update_rate(&mut self, sample: &DeliverySample, mss: u64) {
        self.round_start = false;
        let Some(interval) = sample.interval else { return };
        if sample.prior_delivered >= self.round_end {
            self.round_end = sample.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserves_packets = false;
        }
        self.watch_policer(sample, mss);
        // The kernel counts packets: a segment that is partly filled is one.
        let rate = (sample.delivered - sample.prior_delivered).div_ceil(mss) * BW_UNIT / interval;
        // A rate that the application has limited says nothing, unless it is the largest.
        if !sample.is_app_limited || rate >= self.rates.get() {
            self.rates.add(RATE_ROUNDS, self.rounds, rate);
        }
    }

    /// `bbr_lt_bw_sampling`
    fn watch_policer(&mut self, sample: &DeliverySample, mss: u64) {
        if !self.policer.in_use {
            let losses = sample.newly_lost.div_ceil(mss);
            if self.policer.measure(sample, losses, self.round_start, mss) {
                self.pacing_gain = UNIT;
            }
        } else if self.mode == Mode::ProbeBandwidth && self.policer.is_outdated(self.round_start) {
            self.policer.reset(sample, mss);
            self.enter_probe_bandwidth(sample);
        }
    }

    /// `bbr_update_ack_aggregation`
    fn update_aggregation(&mut self, window: &CongestionWindow, sample: &DeliverySample) {
        let mss = u64::from(window.mss);
        let newly = sample.newly_delivered.div_ceil(mss);
        if newly == 0 || sample.interval.is_none() {
            return;
        }
        let rate = self.rate();
        let aggregation = &mut self.aggregation;
        aggregation.rounds += u32::from(self.round_start);
        if self.round_start && aggregation.rounds >= AGGREGATION_ROUNDS {
            aggregation.rounds = 0;
            aggregation.index ^= 1;
            aggregation.largest[aggregation.index] = 0;
        }
        let span = microseconds_between(aggregation.began, sample.delivered_at);
        let mut expected = (u128::from(rate) * u128::from(span) / u128::from(BW_UNIT)) as u64;
        if aggregation.acked <= expected || aggregation.acked + newly >= AGGREGATION_MAX_PACKETS {
            (aggregation.acked, aggregation.began) = (0, sample.delivered_at);
            expected = 0;
        }
        aggregation.acked += newly;
        let extra = (aggregation.acked - expected).min(window.cwnd / mss);
        let largest = &mut aggregation.largest[aggregation.index];
        *largest = extra.max(*largest);
    }

    /// `bbr_ack_aggregation_cwnd`
    fn aggregated_packets(&self) -> u64 {
        if !self.is_pipe_full {
            return 0;
        }
        let most = (u128::from(self.rate()) * u128::from(AGGREGATION_MAX_US) / u128::from(BW_UNIT)) as u64;
        self.aggregation.largest[0].max(self.aggregation.largest[1]).min(most)
    }

    /// `bbr_is_next_cycle_phase`
    fn is_phase_over(&self, sample: &DeliverySample, mss: u64) -> bool {
        let is_long = microseconds_between(self.phase_began, sample.delivered_at) > self.min_rtt;
        if self.pacing_gain == UNIT {
            return is_long;
        }
        let in_flight = self.in_network_at_departure(sample.prior_in_flight.div_ceil(mss), sample, mss);
        if self.pacing_gain > UNIT {
            return is_long
                && (sample.newly_lost > 0 || in_flight >= self.flight_at(self.pacing_gain, mss));
        }
        is_long || in_flight <= self.flight_at(UNIT, mss)
    }

    /// `bbr_check_full_bw_reached`
    fn check_full_pipe(&mut self, sample: &DeliverySample) {
        if self.is_pipe_full || !self.round_start || sample.is_app_limited {
            return;
        }
        if self.rates.get() >= self.full_rate * 5 / 4 {
            (self.full_rate, self.full_rounds) = (self.rates.get(), 0);
            return;
        }
        self.full_rounds += 1;
        self.is_pipe_full = self.full_rounds >= FULL_PIPE_ROUNDS;
    }

    /// `bbr_check_drain`
    fn check_drained(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) {
        let mss = u64::from(window.mss);
        if self.mode == Mode::Startup && self.is_pipe_full {
            self.mode = Mode::Drain;
            window.ssthresh = self.flight_at(UNIT, mss) * mss;
        }
        if self.mode == Mode::Drain
            && self.in_network_at_departure(sample.in_flight.div_ceil(mss), sample, mss)
                <= self.flight_at(UNIT, mss)
        {
            self.enter_probe_bandwidth(sample);
        }
    }

    /// `bbr_update_min_rtt`. Enters and leaves the probe of the round-trip time; true: it is on.
    fn update_min_rtt(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) -> bool {
        let is_old = sample.ticks > self.min_rtt_at.saturating_add(MIN_RTT_LIFETIME);
        if let Some(rtt) = sample.rtt.map(microseconds)
            && (rtt < self.min_rtt || (is_old && !sample.is_ack_delayed))
        {
            (self.min_rtt, self.min_rtt_at) = (rtt, sample.ticks);
        }
        if is_old && !self.restarts_after_idle && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(window.cwnd / u64::from(window.mss));
            self.probe_rtt_end = None;
        }
        let probes = self.mode == Mode::ProbeRtt;
        if probes {
            self.probe_rtt(window, sample);
        }
        if sample.interval.is_some() && sample.delivered > sample.prior_delivered {
            self.restarts_after_idle = false;
        }
        probes
    }

    /// Four packets in flight for 200 ms and a round trip.
    fn probe_rtt(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) {
        if self.probe_rtt_end.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(window, sample);
            }
        } else if sample.in_flight <= MIN_WINDOW * u64::from(window.mss) {
            self.probe_rtt_end = Some(sample.ticks.saturating_add(PROBE_RTT_TIME));
            self.probe_rtt_round_done = false;
            self.round_end = sample.delivered;
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) {
        if self.probe_rtt_end.is_none_or(|end| sample.ticks <= end) {
            return;
        }
        self.min_rtt_at = sample.ticks;
        window.cwnd = window.cwnd.max(self.prior_window * u64::from(window.mss));
        if self.is_pipe_full {
            self.enter_probe_bandwidth(sample);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.in_use => (UNIT, WINDOW_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase_index], WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// `bbr_set_cwnd_to_recover_or_restore`: the window of `packets` after losses and changes of the phase, and whether it is final.
    fn window_in_recovery(&mut self, packets: u64, sample: &DeliverySample, mss: u64) -> (u64, bool) {
        let (before, phase) = (self.recovery, sample.phase);
        let (in_flight, newly) = (sample.in_flight.div_ceil(mss), sample.newly_delivered.div_ceil(mss));
        let mut packets = packets.saturating_sub(sample.newly_lost.div_ceil(mss)).max(1);
        if phase == RecoveryPhase::Recovery && before != RecoveryPhase::Recovery {
            self.conserves_packets = true;
            self.round_end = sample.delivered;
            packets = in_flight + newly;
        } else if is_recovering(before) && !is_recovering(phase) {
            packets = packets.max(self.prior_window);
            self.conserves_packets = false;
        }
        self.recovery = phase;
        if self.conserves_packets { (packets.max(in_flight + newly), true) } else { (packets, false) }
    }

    /// `bbr_set_cwnd`
    fn set_window(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) {
        let mss = u64::from(window.mss);
        let mut packets = window.cwnd / mss;
        let newly = sample.newly_delivered.div_ceil(mss);
        if newly > 0 {
            let (kept, is_final) = self.window_in_recovery(packets, sample, mss);
            packets = if is_final { kept } else { self.window_towards_target(kept, newly, sample, mss) };
        }
        if self.mode == Mode::ProbeRtt {
            packets = packets.min(MIN_WINDOW);
        }
        window.cwnd = packets * mss;
    }

    fn window_towards_target(&self, packets: u64, newly: u64, sample: &DeliverySample, mss: u64) -> u64 {
        let product = self.bdp(self.rate(), self.window_gain);
        let target = self.with_batches(product + self.aggregated_packets(), mss);
        let grown = if self.is_pipe_full {
            (packets + newly).min(target)
        } else if packets < target || sample.delivered < INITIAL_WINDOW * mss {
            packets + newly
        } else {
            packets
        };
        grown.max(MIN_WINDOW)
    }
}

impl CongestionAlgorithm for Bbr {
    fn increase_window(&mut self, _window: &mut CongestionWindow, _ack: &AckSample) {}

    /// Saves the window, which stays.
    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        self.model.save_window(window.cwnd / u64::from(window.mss));
        window.cwnd
    }

    fn owns_window(&self) -> bool {
        true
    }

    /// `bbr_init`
    fn on_established(&mut self, window: &CongestionWindow, sample: &DeliverySample, random: u64) {
        *self.model = Model {
            random,
            round_end: sample.delivered,
            min_rtt: sample.rtt.map_or(u64::MAX, microseconds),
            min_rtt_at: sample.ticks,
            aggregation: Aggregation { began: sample.now, ..Aggregation::default() },
            ..Model::default()
        };
        self.model.init_pacing_rate(window, sample.srtt);
        self.model.policer.reset(sample, u64::from(window.mss));
    }

    /// `bbr_main`
    fn on_delivery(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) -> bool {
        let mss = u64::from(window.mss);
        let model = &mut *self.model;
        model.update_rate(sample, mss);
        model.update_aggregation(window, sample);
        if model.mode == Mode::ProbeBandwidth && model.is_phase_over(sample, mss) {
            model.advance_phase(sample);
        }
        model.check_full_pipe(sample);
        model.check_drained(window, sample);
        let probes_rtt = model.update_min_rtt(window, sample);
        model.update_gains();
        model.set_pacing_rate(window, model.rate(), model.pacing_gain, sample.srtt);
        model.set_window(window, sample);
        probes_rtt
    }

    /// `bbr_cwnd_event`: `CA_EVENT_TX_START`
    fn on_transmission_start(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) {
        if !sample.is_app_limited {
            return;
        }
        let model = &mut *self.model;
        model.restarts_after_idle = true;
        (model.aggregation.began, model.aggregation.acked) = (sample.now, 0);
        if model.mode == Mode::ProbeBandwidth {
            model.set_pacing_rate(window, model.rate(), UNIT, sample.srtt);
        } else if model.mode == Mode::ProbeRtt {
            model.check_probe_rtt_done(window, sample);
        }
    }

    /// `bbr_set_state`: `TCP_CA_Loss`
    fn on_loss_state(&mut self, window: &CongestionWindow, sample: &DeliverySample) {
        let mss = u64::from(window.mss);
        let model = &mut *self.model;
        model.recovery = RecoveryPhase::Loss;
        model.full_rate = 0;
        model.round_start = true;
        model.watch_policer(&DeliverySample { newly_lost: mss, is_app_limited: false, ..*sample }, mss);
    }

    /// `bbr_undo_cwnd`
    fn on_undo(&mut self, window: &CongestionWindow, sample: &DeliverySample) {
        (self.model.full_rate, self.model.full_rounds) = (0, 0);
        self.model.policer.reset(sample, u64::from(window.mss));
    }

    /// `bbr_sndbuf_expand`
    fn send_buffer_windows(&self) -> u64 {
        3
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.model.pacing_rate * 8)
    }
}

#[cfg(test)]
#[path = "bbr_tests.rs"]
mod tests;
