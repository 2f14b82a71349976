//! What every congestion control must keep to; runs over the whole registry.

use super::{AckSample, Algorithm, Congestion, CongestionControl, CongestionControlConfig, Window};
use proptest::prelude::*;

const MSS: u32 = 1000;

/// One thing that happens to an algorithm.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ack { segments: u64, ece: bool },
    Cut(Congestion),
    Timeout,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u64..4, any::<bool>()).prop_map(|(segments, ece)| Step::Ack { segments, ece }),
        1 => Just(Step::Cut(Congestion::Ecn)),
        1 => Just(Step::Cut(Congestion::Loss)),
        1 => Just(Step::Timeout),
    ]
}

/// Plays `steps` as the sender would and checks each answer. Returns the windows seen.
fn play(config: &CongestionControlConfig, steps: &[Step]) -> Vec<Window> {
    let mut cc = CongestionControl::new(config);
    let mut window = Window { cwnd: 10 * u64::from(MSS), ssthresh: u64::MAX, mss: MSS };
    let mut snd_una = 0;
    let mut trace = Vec::new();
    for step in steps {
        let before = window;
        match *step {
            Step::Ack { segments, ece } => {
                let acked = (segments * u64::from(MSS)).min(window.cwnd);
                snd_una += acked;
                let ack = AckSample { acked, ece, snd_una, snd_nxt: snd_una + window.cwnd };
                cc.on_ack(&ack);
                assert_eq!(window, before, "on_ack only looks");
                cc.increase(&mut window, &ack);
                assert!(window.cwnd >= before.cwnd, "an increase shrank the window");
                assert!(
                    window.cwnd - before.cwnd <= acked.max(u64::from(MSS)),
                    "grew by more than was delivered"
                );
                assert_eq!(window.ssthresh, before.ssthresh, "an increase moved ssthresh");
            }
            Step::Cut(cause) => {
                window.ssthresh = cc.reduced(&window, cause);
                window.cwnd = window.ssthresh;
            }
            Step::Timeout => {
                window.ssthresh = cc.reduced(&window, Congestion::Loss);
                window.cwnd = u64::from(MSS);
            }
        }
        assert!(window.cwnd >= u64::from(MSS), "{config:?}: cwnd below one segment after {step:?}");
        assert!(window.ssthresh >= u64::from(MSS));
        if !matches!(step, Step::Ack { .. }) {
            assert!(window.ssthresh <= before.cwnd.max(2 * u64::from(MSS)), "{config:?}: a cut that grew");
        }
        if let Some(alpha) = cc.alpha() {
            assert!((0.0..=1.0).contains(&alpha), "alpha {alpha}");
        }
        trace.push(window);
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_algorithm_keeps_the_contract(steps in prop::collection::vec(step(), 1..200)) {
        for config in CongestionControlConfig::ALL {
            let first = play(config, &steps);
            prop_assert_eq!(first, play(config, &steps), "the same samples give the same answers");
        }
    }
}

#[test]
fn names_are_unique_and_lower_case() {
    let mut names: Vec<&str> =
        CongestionControlConfig::ALL.iter().map(CongestionControlConfig::name).collect();
    assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Every algorithm leaves slow start: a loss gives way to slower growth than doubling.
#[test]
fn growth_after_a_cut_is_slower_than_slow_start() {
    for config in CongestionControlConfig::ALL {
        let mut cc = CongestionControl::new(config);
        let mut window = Window { cwnd: 100 * u64::from(MSS), ssthresh: u64::MAX, mss: MSS };
        window.ssthresh = cc.reduced(&window, Congestion::Loss);
        window.cwnd = window.ssthresh;
        let start = window.cwnd;
        let mut snd_una = 0;
        while snd_una < start {
            snd_una += u64::from(MSS);
            let ack = AckSample { acked: u64::from(MSS), ece: false, snd_una, snd_nxt: snd_una + start };
            cc.on_ack(&ack);
            cc.increase(&mut window, &ack);
        }
        assert!(window.cwnd < 2 * start, "{config:?}");
    }
}
