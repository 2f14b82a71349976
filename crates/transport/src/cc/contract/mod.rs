//! What every congestion control must keep to: one contract for the built-in ones (`tests.rs`) and for plug-ins
//! (`pauseframe cc check`).

mod player;
mod wire;

#[cfg(test)]
mod tests;

use super::{AckSample, Algorithm, Congestion, CongestionControl, CongestionControlConfig, Value, Window};
use pauseframe_units::{Span, Time};
use player::{Draws, Player, play};

const MSS: u32 = 1000;
/// A large window, in segments.
const LARGE: u64 = 100;
/// Random sequences for each rule that needs them, and their steps.
const SEQUENCES: u64 = 64;
const STEPS: usize = 300;

/// An ACK of `acked` bytes.
pub(super) fn sample(acked: u64, snd_una: u64, snd_nxt: u64) -> AckSample {
    let rtt = Span::from_us(100);
    AckSample { acked, ece: false, snd_una, snd_nxt, now: Time::ZERO, rtt, srtt: rtt, open: true }
}

/// A window of so many segments of 1000 bytes, in slow start.
pub(super) fn window_of(segments: u64) -> Window {
    Window { cwnd: segments * u64::from(MSS), ssthresh: u64::MAX, mss: MSS }
}

/// A rule of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it demands, in one sentence.
    pub demand: &'static str,
    /// Whether a congestion control keeps to it.
    pub check: fn(&CongestionControlConfig) -> Result<(), String>,
}

/// The rules. A plug-in that fails in one of them panics ([`super::plugin::failure`]).
pub const RULES: &[Rule] = &[
    Rule {
        name: "window",
        demand: "Random ACKs, marks, losses, timeouts and idle times never lead to a window below one segment, to growth by \
                 more than was acknowledged, or to a cut that grows",
        check: any_sequence,
    },
    Rule {
        name: "constants",
        demand: "The same with constants from all over their ranges",
        check: any_constants,
    },
    Rule { name: "deterministic", demand: "The same events give the same windows", check: deterministic },
    Rule {
        name: "own state",
        demand: "Two connections that take turns have the windows that each has alone: nothing is kept outside of the state",
        check: own_state,
    },
    Rule { name: "loss", demand: "A loss in a window of 100 segments shrinks it", check: reacts_to_losses },
    Rule {
        name: "marks",
        demand: "ECN marks on all of a window of 100 segments shrink it",
        check: reacts_to_marks,
    },
    Rule {
        name: "once",
        demand: "Marks on every packet shrink the window at most once a window of data",
        check: wire::reduces_once_a_window,
    },
    Rule {
        name: "avoidance",
        demand: "After a cut the window grows slower than in slow start: it does not double within one round trip",
        check: avoids_congestion,
    },
    Rule {
        name: "idle",
        demand: "The same after a minute in which nothing was sent",
        check: restarts_after_idle,
    },
];

fn any_sequence(config: &CongestionControlConfig) -> Result<(), String> {
    (0..SEQUENCES).try_for_each(|seed| play(config, &Draws::new(seed).steps(STEPS)).map(drop))
}

fn any_constants(config: &CongestionControlConfig) -> Result<(), String> {
    (0..SEQUENCES).try_for_each(|seed| {
        let mut draws = Draws::new(seed);
        let other = with_constants(*config, &draws.bytes(12));
        let trouble = |error| format!("with {}: {error}", constants_of(&other));
        play(&other, &draws.steps(STEPS)).map(drop).map_err(trouble)
    })
}

fn deterministic(config: &CongestionControlConfig) -> Result<(), String> {
    let steps = Draws::new(1).steps(STEPS);
    let (first, second) = (play(config, &steps)?, play(config, &steps)?);
    match first.iter().zip(&second).position(|(one, other)| one != other) {
        None => Ok(()),
        Some(index) => Err(format!(
            "after the same {} events the window was {} bytes once and {} bytes then",
            index + 1,
            first[index].cwnd,
            second[index].cwnd
        )),
    }
}

fn own_state(config: &CongestionControlConfig) -> Result<(), String> {
    let (one, other) = (Draws::new(2).steps(STEPS), Draws::new(3).steps(STEPS));
    let alone = play(config, &one)?;
    let (mut first, mut second) = (Player::new(config), Player::new(config));
    for (index, (step, between)) in one.iter().zip(&other).enumerate() {
        second.step(*between)?;
        first.step(*step)?;
        // A copy of a connection is that connection.
        first = first.clone();
        if first.window != alone[index] {
            let (turns, alone) = (first.window.cwnd, alone[index].cwnd);
            return Err(format!(
                "after {} events the window is {turns} bytes beside another connection and {alone} bytes alone",
                index + 1
            ));
        }
    }
    Ok(())
}

fn reacts_to_losses(config: &CongestionControlConfig) -> Result<(), String> {
    let mut cc = CongestionControl::strict(config);
    let window = window_of(LARGE);
    let reduced = cc.reduced(&window, Congestion::Loss);
    if reduced < window.cwnd { Ok(()) } else { Err(format!("{} bytes became {reduced} bytes", window.cwnd)) }
}

fn reacts_to_marks(config: &CongestionControlConfig) -> Result<(), String> {
    let mut cc = CongestionControl::strict(config);
    let mut window = window_of(LARGE);
    let before = window.cwnd;
    for segment in 1..=LARGE {
        let snd_una = segment * u64::from(MSS);
        let ack = AckSample { ece: true, ..sample(u64::from(MSS), snd_una, snd_una + before) };
        cc.on_ack(&mut window, &ack);
    }
    let reduced = cc.reduced(&window, Congestion::Ecn);
    if reduced < before { Ok(()) } else { Err(format!("{before} bytes became {reduced} bytes")) }
}

fn avoids_congestion(config: &CongestionControlConfig) -> Result<(), String> {
    growth_after_a_cut(config, None)
}

fn restarts_after_idle(config: &CongestionControlConfig) -> Result<(), String> {
    growth_after_a_cut(config, Some(Span::from_secs(60)))
}

/// One window of ACKs after a loss, and after `idle`.
fn growth_after_a_cut(config: &CongestionControlConfig, idle: Option<Span>) -> Result<(), String> {
    let mut cc = CongestionControl::strict(config);
    let mut window = window_of(LARGE);
    window.ssthresh = cc.reduced(&window, Congestion::Loss);
    window.cwnd = window.ssthresh;
    let start = window.cwnd;
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut snd_una = 0;
    if let Some(idle) = idle {
        round_trip(&mut cc, &mut window, &mut snd_una, now);
        now += idle;
        cc.on_restart(idle);
    }
    let start = if idle.is_some() { window.cwnd } else { start };
    round_trip(&mut cc, &mut window, &mut snd_una, now);
    if window.cwnd < 2 * start {
        Ok(())
    } else {
        Err(format!("{start} bytes became {} bytes within one round trip", window.cwnd))
    }
}

fn round_trip(cc: &mut CongestionControl, window: &mut Window, snd_una: &mut u64, now: Time) {
    let (end, flight) = (*snd_una + window.cwnd, window.cwnd);
    while *snd_una < end {
        *snd_una += u64::from(MSS);
        let ack = AckSample { now, ..sample(u64::from(MSS), *snd_una, *snd_una + flight) };
        cc.on_ack(window, &ack);
        cc.increase(window, &ack);
    }
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

fn constants_of(config: &CongestionControlConfig) -> String {
    let value = |index| match config.get(index) {
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Count(count)) => count.to_string(),
        Some(Value::Flag(on)) => on.to_string(),
        Some(Value::Time(span)) => span.to_string(),
        None => String::new(),
    };
    let pairs =
        config.parameters().iter().enumerate().map(|(index, one)| format!("{} = {}", one.key, value(index)));
    pairs.collect::<Vec<_>>().join(", ")
}
