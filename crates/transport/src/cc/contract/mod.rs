//! The contract that every congestion control must fulfil, built-in (`tests.rs`) or plug-in (`pauseframe cc check`).

mod player;
mod wire;

#[cfg(test)]
mod tests;

use super::{
    AckSample, CongestionAlgorithm, CongestionCause, CongestionControl, CongestionControlConfig,
    CongestionWindow, ConstantValue,
};
use pauseframe_units::{Span, Time};
use player::{CcContractPlayer, SplitMix64, play_steps};

const CONTRACT_MSS: u32 = 1000;
/// A large window, in segments.
const LARGE_WINDOW_SEGMENTS: u64 = 100;
/// Number of random sequences for each rule that needs them.
const RANDOM_SEQUENCES: u64 = 64;
const STEPS_PER_SEQUENCE: usize = 300;

/// An ACK of `acked` bytes.
pub(super) fn ack_sample(acked: u64, snd_una: u64, snd_nxt: u64) -> AckSample {
    let rtt = Span::from_us(100);
    AckSample { acked, ece: false, snd_una, snd_nxt, now: Time::ZERO, rtt, srtt: rtt, open: true }
}

/// A window of so many segments of 1000 bytes, in slow start.
pub(super) fn window_of(segments: u64) -> CongestionWindow {
    CongestionWindow { cwnd: segments * u64::from(CONTRACT_MSS), ssthresh: u64::MAX, mss: CONTRACT_MSS }
}

/// A rule of the contract.
#[derive(Clone, Copy, Debug)]
pub struct CcContractRule {
    /// Its name.
    pub name: &'static str,
    /// The requirement in one sentence.
    pub demand: &'static str,
    /// Checks a congestion control against the rule.
    pub check: fn(&CongestionControlConfig) -> Result<(), String>,
}

/// The rules. A plug-in that fails in one of them panics ([`super::plugin::failure_from_panic`]).
pub const CONTRACT_RULES: &[CcContractRule] = &[
    CcContractRule {
        name: "window",
        demand: "Random ACKs, marks, losses, timeouts and idle times never lead to a window below one segment, to growth by \
                 more than was acknowledged, or to a cut that grows",
        check: check_random_sequences,
    },
    CcContractRule {
        name: "constants",
        demand: "The same with constants from all over their ranges",
        check: check_random_constants,
    },
    CcContractRule {
        name: "deterministic",
        demand: "The same events give the same windows",
        check: check_determinism,
    },
    CcContractRule {
        name: "own state",
        demand: "Two connections that take turns have the windows that each has alone: nothing is kept outside of the state",
        check: check_isolation,
    },
    CcContractRule {
        name: "loss",
        demand: "A loss in a window of 100 segments shrinks it",
        check: check_loss_reaction,
    },
    CcContractRule {
        name: "marks",
        demand: "ECN marks on all of a window of 100 segments shrink it",
        check: check_mark_reaction,
    },
    CcContractRule {
        name: "once",
        demand: "Marks on every packet shrink the window at most once a window of data",
        check: wire::check_one_reduction,
    },
    CcContractRule {
        name: "avoidance",
        demand: "After a cut the window grows slower than in slow start: it does not double within one round trip",
        check: check_congestion_avoidance,
    },
    CcContractRule {
        name: "idle",
        demand: "The same after a minute in which nothing was sent",
        check: check_idle_restart,
    },
];

fn check_random_sequences(config: &CongestionControlConfig) -> Result<(), String> {
    (0..RANDOM_SEQUENCES).try_for_each(|seed| {
        play_steps(config, &SplitMix64::new(seed).random_steps(STEPS_PER_SEQUENCE)).map(drop)
    })
}

fn check_random_constants(config: &CongestionControlConfig) -> Result<(), String> {
    (0..RANDOM_SEQUENCES).try_for_each(|seed| {
        let mut draws = SplitMix64::new(seed);
        let other = draw_constants(*config, &draws.random_bytes(12));
        let trouble = |error| format!("with {}: {error}", format_constants(&other));
        play_steps(&other, &draws.random_steps(STEPS_PER_SEQUENCE)).map(drop).map_err(trouble)
    })
}

fn check_determinism(config: &CongestionControlConfig) -> Result<(), String> {
    let steps = SplitMix64::new(1).random_steps(STEPS_PER_SEQUENCE);
    let (first, second) = (play_steps(config, &steps)?, play_steps(config, &steps)?);
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

fn check_isolation(config: &CongestionControlConfig) -> Result<(), String> {
    let (one, other) = (
        SplitMix64::new(2).random_steps(STEPS_PER_SEQUENCE),
        SplitMix64::new(3).random_steps(STEPS_PER_SEQUENCE),
    );
    let alone = play_steps(config, &one)?;
    let (mut first, mut second) = (CcContractPlayer::new(config), CcContractPlayer::new(config));
    for (index, (step, between)) in one.iter().zip(&other).enumerate() {
        second.play_step(*between)?;
        first.play_step(*step)?;
        // A copy of a connection must behave like the original.
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

fn check_loss_reaction(config: &CongestionControlConfig) -> Result<(), String> {
    if config.owns_window() {
        return Ok(()); // It answers delivery rates.
    }
    let mut cc = CongestionControl::new_strict(config);
    let window = window_of(LARGE_WINDOW_SEGMENTS);
    let reduced = cc.on_congestion(&window, CongestionCause::Loss);
    if reduced < window.cwnd { Ok(()) } else { Err(format!("{} bytes became {reduced} bytes", window.cwnd)) }
}

fn check_mark_reaction(config: &CongestionControlConfig) -> Result<(), String> {
    if config.owns_window() {
        return Ok(());
    }
    let mut cc = CongestionControl::new_strict(config);
    let mut window = window_of(LARGE_WINDOW_SEGMENTS);
    let before = window.cwnd;
    for segment in 1..=LARGE_WINDOW_SEGMENTS {
        let snd_una = segment * u64::from(CONTRACT_MSS);
        let ack = AckSample { ece: true, ..ack_sample(u64::from(CONTRACT_MSS), snd_una, snd_una + before) };
        cc.on_ack(&mut window, &ack);
    }
    let reduced = cc.on_congestion(&window, CongestionCause::Ecn);
    if reduced < before { Ok(()) } else { Err(format!("{before} bytes became {reduced} bytes")) }
}

fn check_congestion_avoidance(config: &CongestionControlConfig) -> Result<(), String> {
    check_regrowth(config, None)
}

fn check_idle_restart(config: &CongestionControlConfig) -> Result<(), String> {
    check_regrowth(config, Some(Span::from_secs(60)))
}

/// Checks growth during one window of ACKs after a loss and an idle time.
fn check_regrowth(config: &CongestionControlConfig, idle: Option<Span>) -> Result<(), String> {
    let mut cc = CongestionControl::new_strict(config);
    let mut window = window_of(LARGE_WINDOW_SEGMENTS);
    window.ssthresh = cc.on_congestion(&window, CongestionCause::Loss);
    window.cwnd = window.ssthresh;
    let start = window.cwnd;
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut snd_una = 0;
    if let Some(idle) = idle {
        play_round_trip(&mut cc, &mut window, &mut snd_una, now);
        now += idle;
        cc.on_idle_restart(idle);
    }
    let start = if idle.is_some() { window.cwnd } else { start };
    play_round_trip(&mut cc, &mut window, &mut snd_una, now);
    if window.cwnd < 2 * start {
        Ok(())
    } else {
        Err(format!("{start} bytes became {} bytes within one round trip", window.cwnd))
    }
}

fn play_round_trip(cc: &mut CongestionControl, window: &mut CongestionWindow, snd_una: &mut u64, now: Time) {
    let (end, flight) = (*snd_una + window.cwnd, window.cwnd);
    while *snd_una < end {
        *snd_una += u64::from(CONTRACT_MSS);
        let ack = AckSample { now, ..ack_sample(u64::from(CONTRACT_MSS), *snd_una, *snd_una + flight) };
        cc.on_ack(window, &ack);
        cc.increase_window(window, &ack);
    }
}

/// `config` with every constant drawn from its range: 0 gives the smallest, 255 the largest.
fn draw_constants(mut config: CongestionControlConfig, draws: &[u8]) -> CongestionControlConfig {
    for (index, parameter) in config.constants().iter().enumerate() {
        let share = f64::from(draws[index % draws.len()]) / 255.0;
        let between = |low: f64, high: f64| low + (high - low) * share;
        let value = match (parameter.default, parameter.range) {
            (ConstantValue::Flag(_), _) => ConstantValue::Flag(share > 0.5),
            (_, Some((ConstantValue::Number(low), ConstantValue::Number(high)))) => {
                ConstantValue::Number(between(low, high))
            }
            (_, Some((ConstantValue::Count(low), ConstantValue::Count(high)))) => {
                ConstantValue::Count(between(low.into(), high.into()) as u32)
            }
            (_, Some((ConstantValue::Time(low), ConstantValue::Time(high)))) => {
                ConstantValue::Time(Span(between(low.0 as f64, high.0 as f64) as u64))
            }
            (default, _) => default,
        };
        assert!(config.set_constant(index, value));
        assert_eq!(config.get_constant(index), Some(value));
    }
    config
}

fn format_constants(config: &CongestionControlConfig) -> String {
    let value = |index| match config.get_constant(index) {
        Some(ConstantValue::Number(number)) => number.to_string(),
        Some(ConstantValue::Count(count)) => count.to_string(),
        Some(ConstantValue::Flag(on)) => on.to_string(),
        Some(ConstantValue::Time(span)) => span.to_string(),
        None => String::new(),
    };
    let pairs =
        config.constants().iter().enumerate().map(|(index, one)| format!("{} = {}", one.key, value(index)));
    pairs.collect::<Vec<_>>().join(", ")
}
