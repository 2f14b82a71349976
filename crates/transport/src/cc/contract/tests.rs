//! The contract over the whole registry, with random events and constants.

use super::player::{CcContractPlayer, CcContractStep, play_steps};
use super::*;
use proptest::prelude::*;

fn step() -> impl Strategy<Value = CcContractStep> {
    prop_oneof![
        12 => (1u64..4, any::<bool>(), 0u64..5_000, 0u64..3_000)
            .prop_map(|(segments, ece, rtt_us, after_us)| CcContractStep::Ack { segments, ece, rtt_us, after_us }),
        1 => Just(CcContractStep::Cut(CongestionCause::Ecn)),
        1 => Just(CcContractStep::Cut(CongestionCause::Loss)),
        1 => Just(CcContractStep::Timeout),
        1 => (0u64..2_000_000).prop_map(|us| CcContractStep::Idle { us }),
    ]
}

/// Additional rules of built-in algorithms: none reduces the window by delay, and alpha is a fraction.
fn play_built_in(config: &CongestionControlConfig, steps: &[CcContractStep]) -> Vec<CongestionWindow> {
    let mut player = CcContractPlayer::new(config);
    let mut trace = Vec::new();
    for step in steps {
        let before = player.window;
        player.play_step(*step).unwrap_or_else(|error| panic!("{config:?}: {error}"));
        if matches!(step, CcContractStep::Ack { .. }) && before.cwnd >= before.ssthresh {
            let shrunk = before.cwnd.saturating_sub(player.window.cwnd);
            assert!(
                shrunk <= u64::from(CONTRACT_MSS),
                "{config:?}: shrank by more than a segment outside slow start"
            );
        }
        if let Some(alpha) = player.cc.dctcp_alpha() {
            assert!((0.0..=1.0).contains(&alpha), "alpha {alpha}");
        }
        trace.push(player.window);
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_algorithm_keeps_the_contract(
        steps in prop::collection::vec(step(), 1..300),
        draws in prop::collection::vec(any::<u8>(), 1..12),
    ) {
        for (_, config) in CongestionControlConfig::NAMES {
            let first = play_built_in(config, &steps);
            prop_assert_eq!(first, play_steps(config, &steps).unwrap(), "the same samples give the same answers");
            play_built_in(&draw_constants(*config, &draws), &steps);
        }
    }
}

/// `tcp_vegas_cong_avoid` takes the window once a round trip, but grows like Reno while it is not open: 10 segments stay
/// over 10 ACKs, and of the 4 after a cut the first four ACKs make 5.
#[test]
fn the_window_is_open_again_five_acks_after_a_reduction() {
    let vegas = CongestionControlConfig::NAMES.iter().find(|(name, _)| *name == "vegas").unwrap().1;
    let mut player = CcContractPlayer::new(&vegas);
    let ack = CcContractStep::Ack { segments: 1, ece: false, rtt_us: 1000, after_us: 100 };
    for (segments, cut, expected) in [(10, false, 10), (8, true, 5)] {
        player.window = CongestionWindow { ssthresh: 4000, ..window_of(segments) };
        if cut {
            player.play_step(CcContractStep::Cut(CongestionCause::Loss)).unwrap();
        }
        for _ in 0..10 {
            player.play_step(ack).unwrap();
        }
        assert_eq!(player.window.cwnd, expected * 1000, "{segments}");
    }
}

#[test]
fn every_algorithm_keeps_every_rule() {
    for (name, config) in CongestionControlConfig::NAMES {
        for rule in CONTRACT_RULES {
            assert_eq!((rule.check)(config), Ok(()), "{name}: {}", rule.name);
        }
    }
}

#[test]
fn names_and_keys_are_unique_and_lower_case() {
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let mut names = Vec::new();
    for (name, config) in CongestionControlConfig::NAMES {
        assert_eq!(*name, config.name());
        assert!(plain(name) && !config.description_and_source().is_empty());
        names.push(*name);
        for (index, parameter) in config.constants().iter().enumerate() {
            let rest = parameter.key.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            assert!(
                rest.is_some_and(|rest| !rest.is_empty()),
                "{} does not begin with {name}_",
                parameter.key
            );
            assert!(plain(parameter.key) && !parameter.doc.is_empty());
            assert_eq!(config.get_constant(index), Some(parameter.default));
            names.push(parameter.key);
        }
        assert_eq!(config.get_constant(config.constants().len()), None);
        assert!(!config.clone().set_constant(config.constants().len(), ConstantValue::Flag(true)));
    }
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
