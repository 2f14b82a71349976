//! Contract tests of every registered marker, with default keys.

use super::{InspectedPackets, Marker, MarkerRandomStreams, MarkerState, PacketArrival, PacketDeparture};
use pauseframe_engine::{Rng, random_stream};
use pauseframe_schema::document::{Item, Place};
use pauseframe_schema::language::Language;
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::reader::Table;
use pauseframe_units::{BitRate, LineRate, PortId, Priority, Time};

fn example_markers() -> Vec<Marker> {
    static LANGUAGE: Language = Language::new(|_| {}, &[], &[]);
    let nothing = Item::table(Place::Nowhere);
    let with_defaults = |(name, _): &(&'static str, &str)| {
        let mut ledger = Ledger::new(&nothing, "", &LANGUAGE);
        Marker::read_as(name, &mut Table::root(&mut ledger)).unwrap()
    };
    Marker::NAMES.iter().map(with_defaults).collect()
}

fn initial_marker_state(marker: &Marker) -> MarkerState {
    marker.new_state(&MarkerRandomStreams::new(3, PortId(5), Priority::default()))
}

fn test_line_rate() -> LineRate {
    LineRate::new(BitRate::gbps(10))
}

/// Packets of 1500 B, one a microsecond, which find random backlogs of up to 300 packets.
fn random_packet_arrivals(seed: u64) -> impl Iterator<Item = PacketArrival> {
    let mut rng: Rng = random_stream(seed, "arrivals", 0);
    (1..2000u64).map(move |number| {
        let waiting = rng.uniform_below(300);
        PacketArrival {
            backlog: waiting * 1500,
            waiting: waiting as u32,
            rate: test_line_rate(),
            now: Time(number * 1_000_000),
        }
    })
}

#[test]
fn a_queue_that_stays_empty_is_never_marked() {
    for marker in example_markers() {
        let mut memory = initial_marker_state(&marker);
        for arrival in random_packet_arrivals(1) {
            let now = arrival.now;
            let empty = PacketArrival { backlog: 0, waiting: 0, ..arrival };
            assert!(!marker.decide_arrival_mark(&mut memory, &empty), "{}", marker.name());
            let alone = PacketDeparture {
                backlog: 1500,
                waiting: 1,
                size: 1500,
                gap: 20,
                rate: test_line_rate(),
                now,
            };
            assert!(!marker.decide_departure_mark(&mut memory, &alone), "{}", marker.name());
        }
    }
}

#[test]
fn marker_is_deterministic() {
    for marker in example_markers() {
        let answers = || {
            let mut memory = initial_marker_state(&marker);
            random_packet_arrivals(2)
                .map(|arrival| marker.decide_arrival_mark(&mut memory, &arrival))
                .collect::<Vec<bool>>()
        };
        assert_eq!(answers(), answers(), "{}", marker.name());
    }
}

/// A backlog threshold may replace calls of the marker only if the marker would give the same answers.
#[test]
fn uninspected_packets_would_not_be_marked() {
    for marker in example_markers() {
        let mut memory = initial_marker_state(&marker);
        for arrival in random_packet_arrivals(4) {
            let marked = marker.decide_arrival_mark(&mut memory, &arrival);
            match marker.inspected_packets() {
                InspectedPackets::Backlog(bytes) => {
                    assert_eq!(marked, arrival.backlog > bytes, "{}", marker.name());
                }
                InspectedPackets::Departures
                | InspectedPackets::CountedDepartures
                | InspectedPackets::AllDepartures => {
                    assert!(!marked, "{}", marker.name());
                }
                InspectedPackets::Waiting | InspectedPackets::All => {}
            }
        }
    }
}

/// A marker that ever marks must state the backlog above which it does.
#[test]
fn threshold_text_tells_if_marker_marks() {
    for marker in example_markers() {
        let mut memory = initial_marker_state(&marker);
        let marks = random_packet_arrivals(5).any(|arrival| {
            let (backlog, waiting, now) = (arrival.backlog, arrival.waiting, arrival.now);
            let departure =
                PacketDeparture { backlog, waiting, size: 1500, gap: 20, rate: test_line_rate(), now };
            marker.decide_arrival_mark(&mut memory, &arrival)
                | marker.decide_departure_mark(&mut memory, &departure)
        });
        assert_eq!(marks, marker.threshold_text().is_some(), "{}", marker.name());
    }
}

#[test]
fn each_queue_draws_other_numbers() {
    let mut drawn = std::collections::BTreeSet::new();
    for (port, code_point) in (0..100).flat_map(|port| (0..8).map(move |code_point| (port, code_point))) {
        let priority = Priority::new(code_point).expect("one of eight");
        let streams = MarkerRandomStreams::new(3, PortId(port), priority);
        drawn.insert(streams.stream("marks").next_u64());
    }
    assert_eq!(drawn.len(), 800);
}
