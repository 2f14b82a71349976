//! Entropy values of packets: how they spread over equal links, and what they do about a dead one.

use crate::common::*;
use crate::hop_choice::packets_to_spines;
use crate::rdma::htsim;
use pauseframe_fabric::{
    FailedElement, FlowSpec, FlowStatus, HopChoice, ProtocolSettings, ScheduledFailure, Settings,
};
use pauseframe_rdma::{EntropyChoice, QueuePairSettings};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::leaf_spine;
use pauseframe_units::{Span, Time};

/// Payload of a full packet of [`htsim`].
const PAYLOAD: u64 = 4086;

/// Two leaves and eight spines at 100 Gb/s, whose switches trim, and NSCC.
fn sprayed(entropy: EntropyChoice, seed: u64) -> (Topology, Settings) {
    let wire = link(100, Span::from_us(1));
    let topology = leaf_spine(2, 8, 4, wire, wire).unwrap();
    let (_, mut settings) = htsim(seed, true);
    settings.hop_choice = Some(HopChoice::PacketHash);
    if let ProtocolSettings::Rdma(rdma) = &mut settings.transports[0].protocol {
        rdma.pair = QueuePairSettings { entropy, entropy_values: 64, ..rdma.pair };
    }
    (topology, settings)
}

/// A round of all 64 values gives each uplink the packets of its values, round after round; without values all packets take one.
#[test]
fn values_spread_packets_over_equal_links() {
    const ROUNDS: u64 = 50;
    for (choice, links) in [(EntropyChoice::Oblivious, 8), (EntropyChoice::None, 1)] {
        let (topology, settings) = sprayed(choice, 1);
        let (mut network, ending) =
            run(&topology, &settings, &[flow(&topology, "host0", "host4", ROUNDS * 64 * PAYLOAD)]);
        let record = network.flow_records(ending.now)[0];
        assert_eq!((record.status, record.retransmits), (FlowStatus::Finished, 0), "{choice:?}");
        let counts = packets_to_spines(&network, &topology, ending.now);
        assert_eq!(counts.iter().sum::<u64>(), ROUNDS * 64);
        assert!(counts.iter().all(|count| count % ROUNDS == 0), "{choice:?}: {counts:?}");
        assert_eq!(counts.iter().filter(|count| **count > 0).count(), links, "{choice:?}: {counts:?}");
    }
}

/// Four flows lose what they send over one dead link of eight, of which routing knows nothing: packets sent again, and the time of the last flow.
fn with_a_dead_link(choice: EntropyChoice) -> (u64, Span) {
    let (mut repeats, mut time) = (0, Span::ZERO);
    for seed in 1..=3 {
        let (topology, settings) = sprayed(choice, seed);
        let flows: Vec<FlowSpec> = (0..4)
            .map(|host| flow(&topology, &format!("host{host}"), &format!("host{}", 4 + host), 4_000_000))
            .collect();
        let mut network = build(&topology, &settings, &flows);
        let what = FailedElement::Link(port(&topology, "leaf0", "spine3").link());
        let down = Time::ZERO + Span::from_us(30);
        let failure = ScheduledFailure { is_silent: false, what, down, up: None };
        network.schedule_failures(vec![failure], Span::from_secs(1));
        let ending = proceed(&mut network, Time::ZERO + Span::from_ms(100));
        for record in network.flow_records(ending.now) {
            assert_eq!(record.status, FlowStatus::Finished, "{choice:?}: {record:?}");
            repeats += u64::from(record.retransmits);
            time = time.max(fct(&record));
        }
    }
    (repeats, time)
}

/// Spraying that learns from losses avoids a dead link: REPS keeps to values that have worked, a bitmap skips those that have not.
#[test]
fn values_that_time_out_are_avoided() {
    use EntropyChoice::{Bitmap, Mixed, Oblivious, Reps};
    let [oblivious, bitmap, reps, mixed] = [Oblivious, Bitmap, Reps, Mixed].map(with_a_dead_link);
    for (name, (repeats, time)) in [("bitmap", bitmap), ("reps", reps), ("mixed", mixed)] {
        assert!(2 * repeats < oblivious.0, "{name}: {repeats} packets sent again, oblivious {}", oblivious.0);
        assert!(time < oblivious.1, "{name}: {time}, oblivious {}", oblivious.1);
    }
}
