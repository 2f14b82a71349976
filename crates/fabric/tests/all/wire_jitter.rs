//! Jitter between host and switch: within its bound, in order, and what it is for, no phase effects.

use crate::common::{
    MSS, config, fct, flow, jitter_to_switch, link, lossless, per_port, run, run_until, settings, star_of,
};
use crate::rdma::{NO_CONTROL, roce};
use pauseframe_fabric::{FlowSpec, HostLinkJitterSettings, Settings};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{Span, Time};

const JITTER: Span = Span::from_us(10);

/// A flow is later by what its last packet was, at most the jitter, and overtaking would show as retransmissions: a hundred
/// packets of 123 ns each within 10 us of noise would be in no order at all.
#[test]
fn packets_are_late_within_the_bound_and_in_order() {
    let wire = link(100, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    for seed in 1..=20 {
        let steady = Settings { seed, ..settings(config()) };
        let jittery = Settings { wire_jitters: jitter_to_switch(&topology, JITTER), ..steady.clone() };
        let flows = [flow(&topology, "a", "b", 100 * MSS)];
        let [exact, late] = [&steady, &jittery].map(|settings| {
            let (mut network, ending) = run(&topology, settings, &flows);
            network.flow_records(ending.now)[0]
        });
        assert_eq!((late.retransmits, late.delivered), (0, exact.delivered));
        // In order: the last packet is at least as late as the one that was made to wait longest before it.
        assert!(fct(&late) > fct(&exact), "{late:?}");
        assert!(fct(&late) <= fct(&exact) + JITTER + Span(100), "{late:?}");
    }
}

/// A host with jitter only on frames towards it, or only on frames from it.
#[test]
fn each_direction_of_a_host_has_its_own_jitter() {
    let wire = link(100, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    let host = |name| topology.find(name).unwrap();
    let own = |name, to_switch, to_host| HostLinkJitterSettings { host: host(name), to_switch, to_host };
    let flows = [flow(&topology, "a", "b", 100 * MSS)];
    let time = |wire_jitters| {
        let settings = Settings { wire_jitters, ..settings(config()) };
        let (mut network, ending) = run(&topology, &settings, &flows);
        fct(&network.flow_records(ending.now)[0])
    };
    let steady = time(vec![]);
    let late = time(vec![own("b", Span::ZERO, JITTER)]);
    assert!(late > steady && late <= steady + JITTER + Span(100), "{late:?} {steady:?}");
    // The window holds all: ACKs that are late change nothing.
    assert_eq!(time(vec![own("b", JITTER, Span::ZERO)]), steady);
}

/// A token bucket that is full lets any frame pass at once, so small and large ones take the same time through an idle link; frames behind
/// each other are as far apart as the link's rate has them.
#[test]
fn a_token_bucket_makes_all_frames_equal_and_keeps_the_rate() {
    let wire = link(1, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    // Long after time zero: what a bucket holds is counted from the moment at which a frame is made.
    let time = |wire_burst, bytes| {
        let settings = Settings { wire_burst, ..settings(config()) };
        let late = FlowSpec { start: Time::ZERO + Span::from_ms(3), ..flow(&topology, "a", "b", bytes) };
        let (mut network, ending) = run(&topology, &settings, &[late]);
        fct(&network.flow_records(ending.now)[0])
    };
    // 2000 bytes at 1 Gb/s are 16 us, through two links of 1 us.
    assert_eq!(time(2000, 100), Span::from_us(2 * (16 + 1)));
    assert_eq!(time(2000, 100), time(2000, MSS));
    assert!(time(0, 100) < time(0, MSS));
    assert_eq!(time(2000, 5 * MSS) - time(2000, 2 * MSS), time(0, 5 * MSS) - time(0, 2 * MSS));
}

/// A flow alone takes the ideal time, whether its packets are ready at once or paced.
#[test]
fn ideal_times_know_the_token_bucket() {
    let (fast, slow) = (link(10, Span::from_us(1)), link(1, Span::from_us(3)));
    for links in [[fast, fast], [fast, slow], [slow, fast]] {
        let topology = star_of(&[("a", links[0]), ("b", links[1])]);
        for transport in [lossless(config(), 500_000), roce(NO_CONTROL)] {
            for (wire_burst, bytes) in [0, 500, 2_000, 20_000].into_iter().flat_map(|burst| {
                [1, 700, 1024, 3 * 1024, 3 * MSS, 40 * MSS + 77].map(|bytes| (burst, bytes))
            }) {
                let settings = Settings { wire_burst, ..transport.clone() };
                let start = Time::ZERO + Span::from_ms(3);
                let late = FlowSpec { start, ..flow(&topology, "a", "b", bytes) };
                let (mut network, ending) = run(&topology, &settings, &[late]);
                let record = network.flow_records(ending.now)[0];
                // Frames that a bucket lets go at once are a picosecond apart.
                let expected = record.ideal..=record.ideal + Span(200);
                assert!(
                    expected.contains(&fct(&record)),
                    "{wire_burst} {bytes}: {}, {}",
                    fct(&record),
                    record.ideal
                );
            }
        }
    }
}

/// Two hosts with five flows each share a link of the hosts' rate through a short queue. Without noise one host's packets always find
/// the place that has just become free (Floyd and Jacobson 1992); with it both get their part.
#[test]
fn jitter_ends_phase_effects() {
    let wire = link(1, Span::from_us(100));
    let topology = star_of(&[("a", wire), ("b", wire), ("r", wire)]);
    let flows: Vec<FlowSpec> = (0..10)
        .map(|i| FlowSpec {
            start: Time(i * 1_037_000_000),
            ..flow(&topology, ["a", "b"][i as usize % 2], "r", u64::MAX)
        })
        .collect();
    let share_of_less = |wire_jitter: Span| {
        let tcp = TcpConfig { initial_window: 10 * MSS, ..config() };
        let settings = Settings {
            wire_jitters: jitter_to_switch(&topology, wire_jitter),
            buffer: per_port(150_000),
            ..settings(tcp)
        };
        let (mut network, ending) = run_until(&topology, &settings, &flows, Time::ZERO + Span::from_ms(1500));
        let records = network.flow_records(ending.now);
        let of = |host: usize| records.iter().skip(host).step_by(2).map(|flow| flow.delivered).sum::<u64>();
        of(0).min(of(1)) as f64 / (of(0) + of(1)) as f64
    };
    let (without, with) = (share_of_less(Span::ZERO), share_of_less(JITTER));
    assert!(without < 0.25, "{without}");
    assert!(with > 0.4, "{with}");
}
