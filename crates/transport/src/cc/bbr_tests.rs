//! BBR on a path with one bottleneck, against what its rules give by hand.

use super::*;
use crate::cc::{CongestionControl, CongestionControlConfig};
use crate::config::TcpConfig;
use crate::connection::Connection;
use crate::recovery::{PacingConfig, RecoveryConfig};
use crate::segment::{EcnCodepoint, Segment};
use std::collections::BTreeMap;
use std::sync::Arc;

const MSS: u64 = 1000;

/// A sender and a receiver, and a link with a queue between them. Segments have no headers.
struct Path {
    ends: [Connection; 2],
    now: Time,
    /// Time of a segment on the link.
    segment: Span,
    one_way: Span,
    /// Longest wait in the queue.
    buffer: Span,
    busy_until: Time,
    flying: BTreeMap<(Time, u64), (usize, Segment)>,
    count: u64,
    /// Every so many data segments one is lost; 0: none.
    loss_every: u64,
    drops: u64,
}

/// What the sender is like after an ACK.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Time,
    mode: Mode,
    phase: usize,
    gain: u64,
    pacing_rate: u64,
    /// In segments.
    flight: u64,
    delivered: u64,
    queue: Span,
}

impl Path {
    /// A link of so many bits a second.
    fn new(rate: u64, round_trip: Span, buffer: Span) -> Path {
        let config = Arc::new(TcpConfig {
            congestion_control: CongestionControlConfig::Bbr,
            mss: MSS as u32,
            initial_window: 10 * MSS,
            sack: true,
            handshake: true,
            receive_window: 1 << 30,
            recovery: RecoveryConfig {
                pacing: PacingConfig { on: true, burst: 1, ..PacingConfig::OFF },
                ..RecoveryConfig::LINUX
            },
            ..TcpConfig::PLAIN
        });
        let mut ends = [Connection::open(config.clone(), 7, 0, Time::ZERO), Connection::accept(config, 9, 0)];
        ends[0].write(u64::MAX / 2, Time::ZERO);
        Path {
            ends,
            now: Time::ZERO,
            segment: Span(MSS * 8 * Span::from_secs(1).0 / rate),
            one_way: round_trip / 2,
            buffer,
            busy_until: Time::ZERO,
            flying: BTreeMap::new(),
            count: 0,
            loss_every: 0,
            drops: 0,
        }
    }

    fn model(&self) -> &Model {
        match &self.ends[0].sender.cc {
            CongestionControl::Bbr(bbr) => &bbr.model,
            other => panic!("{other:?}"),
        }
    }

    fn poll(&mut self, end: usize) {
        while let Some((segment, _)) = self.ends[end].poll_transmit(self.now) {
            self.count += 1;
            let mut arrival = self.now + self.one_way;
            if segment.len > 0 {
                let start = self.busy_until.max(self.now);
                let lost = self.loss_every > 0 && self.count.is_multiple_of(self.loss_every);
                if start.saturating_since(self.now) > self.buffer || lost {
                    self.drops += 1;
                    continue;
                }
                self.busy_until = start + self.segment;
                arrival = self.busy_until + self.one_way;
            }
            self.flying.insert((arrival, self.count), (1 - end, segment));
        }
    }

    /// Runs until `until` and returns what is seen after each ACK.
    fn run(&mut self, until: Span) -> Vec<Seen> {
        let mut seen = Vec::new();
        self.poll(0);
        loop {
            let timer = (0..2).filter_map(|end| Some((self.ends[end].deadline()?, end))).min();
            let arrival = self.flying.keys().next().copied();
            let next = arrival.map(|key| key.0).into_iter().chain(timer.map(|timer| timer.0)).min();
            let Some(next) = next.filter(|next| *next <= Time::ZERO + until) else { return seen };
            self.now = next;
            if let Some(key) = arrival.filter(|key| key.0 == next) {
                let (end, segment) = self.flying.remove(&key).expect("just seen");
                self.ends[end].on_segment(&segment, EcnCodepoint::NotEct, next);
                if end == 0 {
                    seen.push(self.look());
                }
                self.poll(end);
            } else if let Some((_, end)) = timer {
                self.ends[end].on_timeout(next);
                self.poll(end);
            }
        }
    }

    fn look(&self) -> Seen {
        let model = self.model();
        Seen {
            at: self.now,
            mode: model.mode,
            phase: model.phase_index,
            gain: model.pacing_gain,
            pacing_rate: model.pacing_rate,
            flight: self.ends[0].flight_size() / MSS,
            delivered: self.ends[1].delivered_bytes(),
            queue: self.busy_until.saturating_since(self.now),
        }
    }
}

fn at(seen: &[Seen], time: Span) -> Seen {
    *seen.iter().find(|seen| seen.at >= Time::ZERO + time).expect("an ACK later")
}

fn runs_of<T: PartialEq + Copy>(seen: &[Seen], of: impl Fn(&Seen) -> T) -> Vec<(T, Time, Time)> {
    let mut runs: Vec<(T, Time, Time)> = Vec::new();
    for one in seen {
        match runs.last_mut() {
            Some(last) if last.0 == of(one) => last.2 = one.at,
            _ => runs.push((of(one), one.at, one.at)),
        }
    }
    runs
}

const ROUND_TRIP: Span = Span::from_ms(40);
const DEEP: Span = Span::from_secs(1);

#[test]
fn gains_are_those_of_the_paper() {
    assert!((HIGH_GAIN as f64 / UNIT as f64 - 2.0 / std::f64::consts::LN_2).abs() < 1.0 / UNIT as f64 + 1e-3);
    assert!((HIGH_GAIN * DRAIN_GAIN).abs_diff(UNIT * UNIT) < HIGH_GAIN);
    assert_eq!(CYCLE.iter().sum::<u64>(), 8 * UNIT);
}

/// 100 Mb/s times 40 ms are 500 segments: 10 double five times until the pipe is full.
#[test]
fn start_up_doubles_the_rate_each_round_trip() {
    let mut path = Path::new(100_000_000, ROUND_TRIP, DEEP);
    let seen = path.run(Span::from_secs(2));
    let round = |number: u64| *seen.iter().rev().find(|seen| seen.at < Time::ZERO + ROUND_TRIP * number).unwrap();
    // Samples of the first rounds include the pause after their last segment, so the fifth begins below two and catches up.
    let growth = (round(8).pacing_rate as f64 / round(4).pacing_rate as f64).powf(0.25);
    assert!((1.9..2.2).contains(&growth), "{growth}");
    assert!((4..9).all(|number| (round(number).mode, round(number).gain) == (Mode::Startup, 739)));
    // Full after log2(500 / 10) = 5.6 round trips and three more without growth, which a queue of 2 BDP makes longer.
    let modes = runs_of(&seen, |seen| seen.mode);
    let names: Vec<_> = modes.iter().map(|run| run.0).collect();
    assert_eq!(names, [Mode::Startup, Mode::Drain, Mode::ProbeBandwidth]);
    let full = modes[1].1.saturating_since(Time::ZERO);
    assert!((ROUND_TRIP * 9..ROUND_TRIP * 20).contains(&full), "{full}");
    let startup = seen.iter().filter(|seen| seen.mode == Mode::Startup).map(|seen| seen.flight).max();
    // 739/256 times 500 segments, and three batches of 34 (a millisecond at 99 % of 2.89 times the rate).
    assert!(startup.unwrap().abs_diff(1443 + 3 * 34) <= 2, "{startup:?}");
}

#[test]
fn drain_empties_the_queue_of_start_up() {
    let mut path = Path::new(100_000_000, ROUND_TRIP, DEEP);
    let seen = path.run(Span::from_secs(2));
    let [(_, _, filled), (_, began, ended), ..] = runs_of(&seen, |seen| seen.mode)[..] else { panic!("no drain") };
    assert!(at(&seen, filled.saturating_since(Time::ZERO)).queue > ROUND_TRIP);
    let after = seen.iter().find(|seen| seen.at > ended).unwrap();
    // A batch at 100 Mb/s is 12 segments, and three of them count as room.
    assert!(after.queue <= path.segment * 40, "{}", after.queue);
    // 1.9 BDP of queue leave at 1 - 0.34 of the rate.
    assert!(ended.saturating_since(began) < ROUND_TRIP * 5);
}

#[test]
fn probing_cycles_through_eight_phases() {
    let mut path = Path::new(100_000_000, ROUND_TRIP, DEEP);
    let seen = path.run(Span::from_secs(8));
    let steady: Vec<_> = seen.iter().copied().filter(|seen| seen.mode == Mode::ProbeBandwidth).collect();
    let phases = runs_of(&steady, |seen| seen.phase);
    assert!(phases.len() > 100);
    assert_ne!(phases[0].0, 1, "never begins with the drain");
    for pair in phases.windows(2) {
        assert_eq!(pair[1].0, (pair[0].0 + 1) % 8);
    }
    for pair in phases[2..].windows(2) {
        let lasts = pair[1].1.saturating_since(pair[0].1);
        let is_drain = pair[0].0 == 1;
        assert!(is_drain || lasts > ROUND_TRIP, "phase {} lasts {lasts}", pair[0].0);
        assert!(lasts < ROUND_TRIP + ROUND_TRIP / 2, "phase {} lasts {lasts}", pair[0].0);
    }
    for seen in steady.iter().filter(|seen| seen.at > Time::ZERO + Span::from_secs(1)) {
        assert_eq!(seen.gain, CYCLE[seen.phase]);
        // 99 % of the rate times the gain.
        let expected = 12_500_000.0 * 0.99 * seen.gain as f64 / UNIT as f64;
        assert!((seen.pacing_rate as f64 / expected - 1.0).abs() < 0.01, "{seen:?}");
    }
}

#[test]
fn every_ten_seconds_four_packets_measure_the_round_trip() {
    let mut path = Path::new(10_000_000, ROUND_TRIP, DEEP);
    let seen = path.run(Span::from_secs(33));
    let probes: Vec<_> =
        runs_of(&seen, |seen| seen.mode).into_iter().filter(|run| run.0 == Mode::ProbeRtt).collect();
    assert_eq!(probes.len(), 3, "{probes:?}");
    for pair in probes.windows(2) {
        let apart = pair[1].1.saturating_since(pair[0].2);
        assert!((Span::from_secs(10)..Span::from_ms(10_100)).contains(&apart), "{apart}");
    }
    for (_, began, ended) in probes {
        let lasts = ended.saturating_since(began);
        // 200 ms, after a round trip in which the flight shrinks, and until the next ACK.
        assert!((Span::from_ms(200)..Span::from_ms(200) + ROUND_TRIP * 4).contains(&lasts), "{lasts}");
        let quiet = seen.iter().filter(|seen| seen.at > began + ROUND_TRIP * 2 && seen.at < ended);
        assert!(quiet.clone().count() > 5 && quiet.clone().all(|seen| seen.flight <= 4));
    }
}

/// 2 % for the probes of the round trip, 1 % for pacing. A drain ends with three batches in the queue, which a probe for more adds to.
#[test]
fn a_lone_flow_reaches_the_rate_without_a_standing_queue() {
    for (rate, round_trip) in [(10_000_000, ROUND_TRIP), (1_000_000_000, Span::from_us(400))] {
        let mut path = Path::new(rate, round_trip, DEEP);
        let seconds = if rate > 100_000_000 { 2 } else { 22 };
        let seen = path.run(Span::from_secs(seconds));
        let begun = at(&seen, Span::from_secs(1));
        let last = seen.last().unwrap();
        let share = (last.delivered - begun.delivered) as f64 * 8.0 / (seconds - 1) as f64 / rate as f64;
        assert!((0.95..1.0).contains(&share), "{share}");
        assert_eq!(path.drops, 0);
        let after = seen.iter().filter(|seen| seen.at > begun.at);
        let mean = after.clone().map(|seen| seen.queue.0).sum::<u64>() / after.count() as u64;
        let batches = path.segment * (3 * path.model().batch(MSS));
        assert!(Span(mean) < round_trip / 4 + batches, "{}", Span(mean));
    }
}

/// A loss is no sign of congestion: with one of 101 segments lost the flow keeps the rate. CUBIC would have a window of 10 segments.
#[test]
fn losses_do_not_slow_it_down() {
    let mut path = Path::new(100_000_000, ROUND_TRIP, DEEP);
    path.loss_every = 101;
    let seen = path.run(Span::from_secs(9));
    let bits = (seen.last().unwrap().delivered - at(&seen, Span::from_secs(1)).delivered) * 8;
    // 8 s, of whose segments 99 % arrive at first.
    assert!(bits > 800_000_000 / 100 * 95, "{bits}");
}

/// The kernel counts packets: a flow of messages shorter than a segment has a rate too.
#[test]
fn a_partly_filled_segment_is_a_packet() {
    for (delivered, packets) in [(1, 1), (MSS, 1), (MSS + 1, 2)] {
        let sample = DeliverySample {
            delivered,
            interval: Some(1000),
            is_app_limited: true,
            newly_delivered: delivered,
            prior_in_flight: delivered,
            ..DeliverySample::QUIET
        };
        let mut model = Model::default();
        model.update_rate(&sample, MSS);
        assert_eq!(model.rate(), packets * BW_UNIT / 1000);
    }
}

/// `bbr_init_pacing_rate_from_rtt`: the first window in a round trip, or in a millisecond, times the gain of start-up.
#[test]
fn the_first_pacing_rate_is_the_window_in_a_round_trip() {
    let window = CongestionWindow { cwnd: 10 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
    for (srtt, bytes_per_second) in [(Some(Span::from_ms(40)), 250_000.0), (None, 10_000_000.0)] {
        let mut bbr = Bbr::new();
        bbr.on_established(&window, &DeliverySample { srtt, ..DeliverySample::QUIET }, 1);
        let expected = bytes_per_second * 8.0 * 0.99 * HIGH_GAIN as f64 / UNIT as f64;
        let found = bbr.pacing_rate().expect("BBR paces") as f64;
        assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        assert_eq!(bbr.model.has_seen_rtt, srtt.is_some());
    }
}

/// The first round trip replaces the nominal millisecond, though it is slower.
#[test]
fn a_nominal_round_trip_counts_until_the_first_sample() {
    let window = CongestionWindow { cwnd: 10 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
    let mut bbr = Bbr::new();
    bbr.on_established(&window, &DeliverySample::QUIET, 1);
    let nominal = bbr.model.pacing_rate;
    for (srtt, part) in [(None, 1), (Some(40), 40), (Some(20), 40)] {
        bbr.model.set_pacing_rate(&window, 0, UNIT, srtt.map(Span::from_ms));
        assert!(bbr.model.pacing_rate.abs_diff(nominal / part) <= nominal / part / 1000, "{srtt:?}");
    }
}

/// `bbr_init`: `tcp_min_rtt` is infinite before the first sample, so `bbr_bdp` gives `TCP_INIT_CWND`.
#[test]
fn before_the_first_round_trip_the_bdp_is_the_initial_window() {
    let congestion_control = CongestionControlConfig::Bbr;
    let config = TcpConfig { congestion_control, handshake: false, ..TcpConfig::PLAIN };
    let connection = Connection::open(Arc::new(config), 7, 9, Time::ZERO);
    let CongestionControl::Bbr(bbr) = &connection.sender.cc else { panic!("it has BBR") };
    assert_eq!(bbr.model.bdp(BW_UNIT, UNIT), 10);
}

/// `bbr_packets_in_net_at_edt`: a packet a microsecond is delivered until the pacer admits the next one, which counts
/// while the flight grows.
#[test]
fn packets_delivered_before_the_departure_do_not_count() {
    let mut model = Model::default();
    model.rates.add(RATE_ROUNDS, 0, BW_UNIT);
    let now = Time::ZERO + Span::from_us(100);
    for (in_flight, wait, gain, expected) in
        [(20, 0, UNIT, 20), (20, 7, UNIT, 13), (7, 7, UNIT, 0), (6, 7, UNIT, 0), (20, 7, UNIT + 1, 14)]
    {
        model.pacing_gain = gain;
        let departure = now + Span::from_us(wait);
        let sample = DeliverySample { now, departure, ..DeliverySample::QUIET };
        assert_eq!(model.in_network_at_departure(in_flight, &sample, MSS), expected, "{in_flight} {wait}");
    }
}

/// `bbr_check_full_bw_reached`: growth by a quarter or more is growth.
#[test]
fn the_rate_grows_while_it_gains_a_quarter() {
    for (rate, full_rate, full_rounds) in [(500, 500, 0), (499, 400, 1)] {
        let mut model = Model { full_rate: 400, round_start: true, ..Model::default() };
        model.rates.add(RATE_ROUNDS, 0, rate);
        model.check_full_pipe(&DeliverySample { is_app_limited: false, ..DeliverySample::QUIET });
        assert_eq!((model.full_rate, model.full_rounds), (full_rate, full_rounds), "{rate}");
    }
}

/// `bbr_is_next_cycle_phase`: the drain ends within a round trip once the flight is at most the BDP and room for batches.
/// A packet a microsecond for 100 us are 100 packets, three batches of one make them 103, and the number is even.
#[test]
fn the_drain_of_a_cycle_ends_with_the_flight_of_the_path() {
    let mut model = Model { mode: Mode::ProbeBandwidth, phase_index: 1, min_rtt: 100, ..Model::default() };
    model.rates.add(RATE_ROUNDS, 0, BW_UNIT);
    model.pacing_gain = CYCLE[1];
    for (in_flight, microseconds, is_over) in [(104, 100, true), (105, 100, false), (105, 101, true)] {
        let sample = DeliverySample {
            prior_in_flight: in_flight * MSS,
            delivered_at: Time::ZERO + Span::from_us(microseconds),
            ..DeliverySample::QUIET
        };
        assert_eq!(model.is_phase_over(&sample, MSS), is_over, "{in_flight} {microseconds}");
    }
}

/// `bbr_is_next_cycle_phase`: a probe for more lasts longer than a round trip, until it has filled the pipe and a quarter or
/// lost something. 125 packets, three batches and two more are 130, of which the batch that leaves next is one.
#[test]
fn a_probe_for_more_ends_when_it_has_filled_the_pipe_or_lost() {
    let mut model = Model { mode: Mode::ProbeBandwidth, phase_index: 0, min_rtt: 100, ..Model::default() };
    model.rates.add(RATE_ROUNDS, 0, BW_UNIT);
    model.pacing_gain = CYCLE[0];
    for (in_flight, microseconds, newly_lost, is_over) in [
        (128, 101, 0, false),
        (129, 101, 0, true),
        (128, 101, 1, true),
        (129, 100, 1, false),
        (128, 10_000, 0, false),
    ] {
        let sample = DeliverySample {
            prior_in_flight: in_flight * MSS,
            delivered_at: Time::ZERO + Span::from_us(microseconds),
            newly_lost,
            ..DeliverySample::QUIET
        };
        assert_eq!(model.is_phase_over(&sample, MSS), is_over, "{in_flight} {microseconds} {newly_lost}");
    }
}

/// `bbr_quantization_budget`: three batches of a packet make 100 packets an even 104; a probe for more has room for two more.
#[test]
fn only_a_probe_for_more_has_room_for_two_packets_more() {
    use Mode::{Drain, ProbeBandwidth, ProbeRtt, Startup};
    for (mode, phase_index, packets) in [
        (ProbeBandwidth, 0, 106),
        (ProbeBandwidth, 1, 104),
        (ProbeBandwidth, 2, 104),
        (Startup, 0, 104),
        (Drain, 0, 104),
        (ProbeRtt, 0, 104),
    ] {
        let model = Model { mode, phase_index, ..Model::default() };
        assert_eq!(model.with_batches(100, MSS), packets, "{mode:?} {phase_index}");
    }
}

/// `bbr_save_cwnd`: a window that recovery or a probe of the round trip has cut does not replace a larger one.
#[test]
fn a_cut_window_is_not_the_window_of_before() {
    use RecoveryPhase::{Cwr, Loss, Open, Recovery};
    for (recovery, mode, saved) in [
        (Open, Mode::ProbeBandwidth, 10),
        (Cwr, Mode::Startup, 10),
        (Recovery, Mode::ProbeBandwidth, 50),
        (Loss, Mode::ProbeBandwidth, 50),
        (Open, Mode::ProbeRtt, 50),
        (Loss, Mode::ProbeRtt, 50),
    ] {
        let mut model = Model { mode, recovery, prior_window: 50, ..Model::default() };
        model.save_window(10);
        assert_eq!(model.prior_window, saved, "{recovery:?} {mode:?}");
        model.save_window(60);
        assert_eq!(model.prior_window, 60);
    }
}

/// `bbr_cwnd_event`: a flow that restarts after the 200 ms of four packets gets the window of before.
#[test]
fn a_restart_after_idle_ends_a_probe_of_the_round_trip_that_is_over() {
    let end = Time::ZERO + Span::from_ms(200);
    for (late, mode, cwnd) in [(Span(0), Mode::ProbeRtt, 4), (Span(1), Mode::Startup, 50)] {
        let mut bbr = Bbr::new();
        *bbr.model = Model {
            mode: Mode::ProbeRtt,
            probe_rtt_end: Some(end),
            prior_window: 50,
            ..Model::default()
        };
        let mut window = CongestionWindow { cwnd: 4 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
        let sample = DeliverySample { ticks: end + late, is_app_limited: true, ..DeliverySample::QUIET };
        bbr.on_transmission_start(&mut window, &sample);
        assert_eq!((bbr.model.mode, window.cwnd), (mode, cwnd * MSS));
    }
}

/// `bbr_update_ack_aggregation`: what an epoch delivers beyond the rate of a packet a microsecond, at most the window. An epoch
/// ends when the rate has caught up; ACKs that deliver nothing or give no sample do not count.
#[test]
fn acks_beyond_the_rate_are_aggregated() {
    let mut model = Model::default();
    model.rates.add(RATE_ROUNDS, 0, BW_UNIT);
    let window = CongestionWindow { cwnd: 100 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
    for (at, newly, interval, [start, acked, largest]) in [
        (10, 30, Some(1), [10, 30, 30]),
        (15, 5, Some(1), [10, 35, 30]),
        (44, 0, Some(1), [10, 35, 30]),
        (99, 0, Some(1), [10, 35, 30]),
        (99, 50, None, [10, 35, 30]),
        (44, 1, Some(1), [10, 36, 30]),
        (46, 10, Some(1), [46, 10, 30]),
        (46, 21, Some(1), [46, 31, 31]),
        (46, 200, Some(1), [46, 231, 100]),
    ] {
        let sample = DeliverySample {
            delivered_at: Time::ZERO + Span::from_us(at),
            newly_delivered: newly * MSS,
            interval,
            ..DeliverySample::QUIET
        };
        model.update_aggregation(&window, &sample);
        let Aggregation { began, acked: packets, largest: filters, .. } = model.aggregation;
        let seen = [microseconds_between(Time::ZERO, began), packets, filters[0]];
        assert_eq!(seen, [start, acked, largest], "{at} {newly}");
    }
}

/// `bbr_extra_acked_win_rtts`: each of the two filters covers five round trips, of which ACKs without a sample begin none.
#[test]
fn a_filter_of_aggregated_acks_covers_five_round_trips() {
    let window = CongestionWindow { cwnd: 100 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
    for (newly, interval, counts) in [(1, Some(1), true), (0, Some(1), false), (1, None, false)] {
        let mut model = Model { round_start: true, ..Model::default() };
        let sample = DeliverySample { newly_delivered: newly * MSS, interval, ..DeliverySample::QUIET };
        let filters = [0; 11].map(|_| {
            model.update_aggregation(&window, &sample);
            model.aggregation.index
        });
        let expected = if counts { [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0] } else { [0; 11] };
        assert_eq!(filters, expected, "{newly} {interval:?}");
    }
}

/// `bbr_ack_aggregation_cwnd`: the larger filter, at most 100 ms of the rate, and nothing in start-up.
#[test]
fn aggregated_acks_add_a_tenth_of_a_second_at_most() {
    let mut model = Model::default();
    model.rates.add(RATE_ROUNDS, 0, BW_UNIT / 1000 + 1);
    model.aggregation.largest = [30, 70];
    assert_eq!(model.aggregated_packets(), 0);
    model.is_pipe_full = true;
    assert_eq!(model.aggregated_packets(), 70);
    model.aggregation.largest = [1000, 70];
    assert_eq!(model.aggregated_packets(), 100);
}

/// `bbr_sndbuf_expand`: a probe for more has a window and a quarter in flight; others hold two windows.
#[test]
fn the_send_buffer_holds_three_windows() {
    for (name, config) in CongestionControlConfig::NAMES {
        let windows = CongestionControl::new(config).send_buffer_windows();
        assert_eq!(windows, if *name == "bbr" { 3 } else { 2 }, "{name}");
    }
}

/// `bbr_update_min_rtt`: the smallest round trip is probed when it is more than ten seconds old.
#[test]
fn a_round_trip_is_old_after_ten_seconds() {
    for (age, mode) in [(MIN_RTT_LIFETIME, Mode::ProbeBandwidth), (MIN_RTT_LIFETIME + Span(1), Mode::ProbeRtt)] {
        let mut model = Model { mode: Mode::ProbeBandwidth, min_rtt: 100, ..Model::default() };
        let mut window = CongestionWindow { cwnd: 50 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
        model.update_min_rtt(&mut window, &DeliverySample { ticks: Time::ZERO + age, ..DeliverySample::QUIET });
        assert_eq!(model.mode, mode, "{age}");
    }
}

/// `bbr_check_drain`: the drain lasts while more is in flight than the path holds, 104 packets (see above), which `ssthresh` shows.
#[test]
fn the_drain_ends_with_what_the_path_holds() {
    for (in_flight, mode) in [(104, Mode::ProbeBandwidth), (105, Mode::Drain)] {
        let mut model = Model { min_rtt: 100, is_pipe_full: true, pacing_gain: UNIT, ..Model::default() };
        model.rates.add(RATE_ROUNDS, 0, BW_UNIT);
        let mut window = CongestionWindow { cwnd: 200 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
        let sample = DeliverySample { in_flight: in_flight * MSS, ..DeliverySample::QUIET };
        model.check_drained(&mut window, &sample);
        assert_eq!((model.mode, window.ssthresh), (mode, 104 * MSS), "{in_flight}");
    }
}

/// `bbr_update_bw`: a rate below the largest counts if the application has not limited it.
#[test]
fn a_rate_that_the_application_limits_counts_if_it_is_the_largest() {
    for (is_app_limited, packets, rate) in [(false, 50, 50), (true, 50, 80), (true, 80, 80), (true, 90, 90)] {
        let mut model = Model::default();
        model.rates.add(RATE_ROUNDS, 0, 80 * BW_UNIT);
        // Beyond the ten rounds that the filter remembers.
        for round in 1..=20 {
            let sample = DeliverySample {
                prior_delivered: 100 * round * MSS,
                delivered: (100 * round + packets) * MSS,
                interval: Some(1),
                is_app_limited,
                ..DeliverySample::QUIET
            };
            model.update_rate(&sample, MSS);
        }
        assert_eq!((model.rounds, model.rates.get()), (20, rate * BW_UNIT), "{is_app_limited} {packets}");
    }
}

/// `bbr_lt_bw_sampling`: the rate of a policer is in use for 48 round trips of the cycle, which then begins again.
#[test]
fn the_rate_of_a_policer_is_outdated_in_the_cycle_only() {
    for (mode, rounds, in_use) in [
        (Mode::ProbeBandwidth, 47, true),
        (Mode::ProbeBandwidth, 48, false),
        (Mode::ProbeRtt, 100, true),
        (Mode::Startup, 100, true),
    ] {
        let mut model = Model { mode, round_start: true, ..Model::default() };
        model.policer.in_use = true;
        for _ in 0..rounds {
            model.watch_policer(&DeliverySample::QUIET, MSS);
        }
        assert_eq!((model.policer.in_use, model.mode), (in_use, mode), "{rounds}");
    }
}

/// `bbr_reset_probe_bw_mode`: the cycle begins in any phase but the drain.
#[test]
fn a_cycle_begins_in_any_phase_but_the_drain() {
    let mut model = Model::default();
    let first: std::collections::BTreeSet<usize> = (0..100)
        .map(|_| {
            model.enter_probe_bandwidth(&DeliverySample::QUIET);
            model.phase_index
        })
        .collect();
    assert_eq!(first.into_iter().collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 7]);
}

/// `bbr_set_cwnd_to_recover_or_restore`: recovery begins with what is delivered and in flight, and its end restores the window of before.
#[test]
fn the_end_of_recovery_restores_the_window() {
    use RecoveryPhase::{Cwr, Loss, Open, Recovery};
    for (before, phase, window) in [
        (Open, Recovery, (4, true)),
        (Loss, Recovery, (4, true)),
        (Recovery, Open, (50, false)),
        (Loss, Open, (50, false)),
        (Recovery, Recovery, (10, false)),
        (Loss, Loss, (10, false)),
        (Open, Open, (10, false)),
        (Open, Cwr, (10, false)),
    ] {
        let mut model = Model { recovery: before, prior_window: 50, ..Model::default() };
        let (in_flight, newly_delivered) = (3 * MSS, MSS);
        let sample = DeliverySample { newly_delivered, in_flight, phase, ..DeliverySample::QUIET };
        assert_eq!(model.window_in_recovery(10, &sample, MSS), window, "{before:?} {phase:?}");
    }
}

/// `bbr_set_state`: a timeout begins a round trip, and the search for the full rate.
#[test]
fn a_timeout_begins_the_search_for_the_rate() {
    let mut bbr = Bbr::new();
    bbr.model.full_rate = 400;
    let window = CongestionWindow { cwnd: 4 * MSS, ssthresh: u64::MAX, mss: MSS as u32 };
    bbr.on_loss_state(&window, &DeliverySample::QUIET);
    let Model { recovery, full_rate, round_start, .. } = *bbr.model;
    assert_eq!((recovery, full_rate, round_start), (RecoveryPhase::Loss, 0, true));
}
