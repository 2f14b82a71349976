//! What every congestion control must keep to; runs over the whole registry.

use super::{AckSample, Algorithm, Congestion, CongestionControl, CongestionControlConfig, Value, Window};
use pauseframe_units::{Span, Time};
use proptest::prelude::*;

const MSS: u32 = 1000;

/// An ACK of `acked` bytes, for the tests of the algorithms.
pub(super) fn sample(acked: u64, snd_una: u64, snd_nxt: u64) -> AckSample {
    let rtt = Span::from_us(100);
    AckSample { acked, ece: false, snd_una, snd_nxt, now: Time::ZERO, rtt, srtt: rtt, open: true }
}

/// A window of so many segments of 1000 bytes, in slow start.
pub(super) fn window_of(segments: u64) -> Window {
    Window { cwnd: segments * u64::from(MSS), ssthresh: u64::MAX, mss: MSS }
}

/// One thing that happens to an algorithm.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ack { segments: u64, ece: bool, rtt_us: u64, after_us: u64 },
    Cut(Congestion),
    Timeout,
    Idle { us: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1u64..4, any::<bool>(), 0u64..5_000, 0u64..3_000)
            .prop_map(|(segments, ece, rtt_us, after_us)| Step::Ack { segments, ece, rtt_us, after_us }),
        1 => Just(Step::Cut(Congestion::Ecn)),
        1 => Just(Step::Cut(Congestion::Loss)),
        1 => Just(Step::Timeout),
        1 => (0u64..2_000_000).prop_map(|us| Step::Idle { us }),
    ]
}

/// One algorithm with its window, driven as the sender does it.
struct Player {
    cc: CongestionControl,
    window: Window,
    snd_una: u64,
    now: Time,
    /// Since the last cut: ACKs until the window is open again.
    closed: u32,
}

impl Player {
    fn ack(&mut self, segments: u64, ece: bool, rtt_us: u64, after_us: u64) {
        let before = self.window;
        let acked = (segments * u64::from(MSS)).min(self.window.cwnd);
        self.snd_una += acked;
        self.now += Span::from_us(after_us);
        self.closed = self.closed.saturating_sub(1);
        let (rtt, srtt) = (Span::from_us(rtt_us), Span::from_us(rtt_us.max(50)));
        let snd_nxt = self.snd_una + self.window.cwnd;
        let ack = AckSample {
            ece,
            now: self.now,
            rtt,
            srtt,
            open: self.closed == 0,
            ..sample(acked, self.snd_una, snd_nxt)
        };
        self.cc.on_ack(&mut self.window, &ack);
        assert_eq!(self.window.cwnd, before.cwnd, "on_ack leaves cwnd alone");
        assert!(
            self.window.ssthresh == before.ssthresh || self.window.ssthresh == before.cwnd,
            "on_ack may end slow start, no more"
        );
        let before = self.window;
        self.cc.increase(&mut self.window, &ack);
        assert!(
            self.window.cwnd <= before.cwnd + acked.max(u64::from(MSS)),
            "grew by more than was delivered"
        );
        if before.cwnd >= before.ssthresh {
            assert!(self.window.cwnd >= self.window.ssthresh, "an increase went back to slow start");
            assert!(
                before.cwnd - self.window.cwnd.min(before.cwnd) <= u64::from(MSS),
                "shrank by more than a segment outside slow start"
            );
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ack { segments, ece, rtt_us, after_us } => self.ack(segments, ece, rtt_us, after_us),
            Step::Cut(cause) => {
                self.window.ssthresh = self.cc.reduced(&self.window, cause);
                self.window.cwnd = self.window.ssthresh;
                self.closed = 5;
            }
            Step::Timeout => {
                self.window.ssthresh = self.cc.reduced(&self.window, Congestion::Loss);
                self.cc.on_timeout();
                self.window.cwnd = u64::from(MSS);
                self.closed = 5;
            }
            Step::Idle { us } => {
                self.now += Span::from_us(us);
                self.cc.on_restart(Span::from_us(us));
            }
        }
    }
}

/// Plays `steps` and checks each answer. Returns the windows seen.
fn play(config: &CongestionControlConfig, steps: &[Step]) -> Vec<Window> {
    let (cc, now) = (CongestionControl::new(config), Time::ZERO);
    let mut player = Player { cc, window: window_of(10), snd_una: 0, now, closed: 0 };
    let mut trace = Vec::new();
    for step in steps {
        let before = player.window;
        player.step(*step);
        let window = player.window;
        assert!(window.cwnd >= u64::from(MSS), "{config:?}: cwnd below one segment after {step:?}");
        assert!(window.ssthresh >= u64::from(MSS));
        if matches!(step, Step::Cut(_) | Step::Timeout) {
            assert!(window.ssthresh <= before.cwnd.max(2 * u64::from(MSS)), "{config:?}: a cut that grew");
        }
        if let Some(alpha) = player.cc.alpha() {
            assert!((0.0..=1.0).contains(&alpha), "alpha {alpha}");
        }
        trace.push(window);
    }
    trace
}

/// `config` with every constant drawn from its range: 0 gives the smallest, 255 the largest.
fn with_constants(mut config: CongestionControlConfig, draws: &[u8]) -> CongestionControlConfig {
    for (index, parameter) in config.parameters().iter().enumerate() {
        let share = f64::from(draws[index % draws.len()]) / 255.0;
        let between = |low: f64, high: f64| low + (high - low) * share;
        let value = match (parameter.default, parameter.range) {
            (Value::Flag(_), _) => Value::Flag(share > 0.5),
            (_, Some((Value::Number(low), Value::Number(high)))) => Value::Number(between(low, high)),
            (_, Some((Value::Count(low), Value::Count(high)))) => {
                Value::Count(between(low.into(), high.into()) as u32)
            }
            (_, Some((Value::Time(low), Value::Time(high)))) => {
                Value::Time(Span(between(low.0 as f64, high.0 as f64) as u64))
            }
            (default, _) => default,
        };
        assert!(config.set(index, value));
        assert_eq!(config.get(index), Some(value));
    }
    config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_algorithm_keeps_the_contract(
        steps in prop::collection::vec(step(), 1..300),
        draws in prop::collection::vec(any::<u8>(), 1..12),
    ) {
        for (_, config) in CongestionControlConfig::NAMES {
            let first = play(config, &steps);
            prop_assert_eq!(first, play(config, &steps), "the same samples give the same answers");
            play(&with_constants(*config, &draws), &steps);
        }
    }
}

#[test]
fn names_and_keys_are_unique_and_lower_case() {
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let mut names = Vec::new();
    for (name, config) in CongestionControlConfig::NAMES {
        assert_eq!(*name, config.name());
        assert!(plain(name) && !config.doc().is_empty());
        names.push(*name);
        for (index, parameter) in config.parameters().iter().enumerate() {
            let rest = parameter.key.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            assert!(
                rest.is_some_and(|rest| !rest.is_empty()),
                "{} does not begin with {name}_",
                parameter.key
            );
            assert!(plain(parameter.key) && !parameter.doc.is_empty());
            assert_eq!(config.get(index), Some(parameter.default));
            names.push(parameter.key);
        }
        assert_eq!(config.get(config.parameters().len()), None);
        assert!(!config.clone().set(config.parameters().len(), Value::Flag(true)));
    }
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Every algorithm leaves slow start: a loss gives way to slower growth than doubling.
#[test]
fn growth_after_a_cut_is_slower_than_slow_start() {
    for (_, config) in CongestionControlConfig::NAMES {
        let mut cc = CongestionControl::new(config);
        let mut window = window_of(100);
        window.ssthresh = cc.reduced(&window, Congestion::Loss);
        window.cwnd = window.ssthresh;
        let start = window.cwnd;
        let mut snd_una = 0;
        while snd_una < start {
            snd_una += u64::from(MSS);
            let ack = sample(u64::from(MSS), snd_una, snd_una + start);
            cc.on_ack(&mut window, &ack);
            cc.increase(&mut window, &ack);
        }
        assert!(window.cwnd < 2 * start, "{config:?}");
    }
}
