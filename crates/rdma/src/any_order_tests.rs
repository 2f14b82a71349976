//! Placement in any order: late packets are no losses, and losses are found.

use super::*;
use crate::any_order::DpOrdering;

/// The fate of a packet: lost, or late by some time.
type Fate = Option<Span>;

fn any_order(selective_repeat: bool) -> QueuePairSettings {
    QueuePairSettings { dp_ordering: DpOrdering::OooRw, selective_repeat, ..settings() }
}

/// Runs both ends; each packet, in either direction, takes 1 us and what its fate says.
fn wander(
    settings: QueuePairSettings,
    post: impl FnOnce(&mut QueuePair),
    mut fate: impl FnMut(u64, &Packet) -> Fate,
) -> [QueuePair; 2] {
    let mut ends = [QueuePair::new(settings), QueuePair::new(settings)];
    post(&mut ends[0]);
    let mut under_way = std::collections::BTreeMap::new();
    let (mut now, mut turn) = (Time::ZERO, 0);
    loop {
        for (side, end) in ends.iter_mut().enumerate() {
            while let Some(packet) = end.poll_transmit(now) {
                if let Some(late) = fate(turn, &packet) {
                    under_way.insert((now + Span::from_us(1) + late, turn), (1 - side, packet));
                }
                turn += 1;
            }
        }
        let deadline = ends[0].deadline(now).min(ends[1].deadline(now));
        let arrival = under_way.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
        now = deadline.min(arrival);
        if now == Time::MAX {
            return ends;
        }
        if arrival <= deadline {
            let (_, (side, packet)) = under_way.pop_first().expect("it was found");
            ends[side].on_packet(&packet, false, now);
        } else {
            for end in &mut ends {
                end.on_timeout(now);
            }
        }
    }
}

fn draw(n: u64, seed: u64) -> u64 {
    (n + seed * 7919).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

/// Posts 60 reads and writes; the bytes of writes and of reads.
fn post_both(source: &mut QueuePair, seed: u64) -> [u64; 2] {
    let mut expected = [0; 2];
    for n in 0..60 {
        let bytes = 1 + draw(n, seed) % 20_000;
        let is_read = draw(n + 1000, seed).is_multiple_of(2);
        expected[usize::from(is_read)] += bytes;
        if is_read { source.read(bytes) } else { source.send(bytes) }
    }
    expected
}

/// Without losses nothing is sent again, whatever overtakes what: data, responses, requests and answers.
#[test]
fn nothing_is_sent_again_because_it_was_overtaken() {
    let controls = [ControlName::None, ControlName::DcqcnPaper, ControlName::Timely, ControlName::Swift];
    for (seed, control) in (0..20).flat_map(|seed| controls.map(|control| (seed, control))) {
        let is_acked = matches!(control, ControlName::Timely | ControlName::Swift);
        let line = [25, 100, 400][seed as usize % 3] * 1_000_000_000;
        let settings = QueuePairSettings { control: control.into(), line, ..any_order(seed % 2 == 0) };
        let mut expected = [3_000_000, 0];
        let post = |source: &mut QueuePair| {
            source.send(3_000_000);
            if !is_acked {
                let [written, read] = post_both(source, seed);
                expected = [expected[0] + written, read];
            }
        };
        let ends = wander(settings, post, |turn, _| Some(Span::from_ns(draw(turn, seed) % 20_000)));
        assert_eq!([ends[1].delivered(), ends[0].delivered()], expected, "{control:?} {seed}");
        for end in ends {
            assert!(end.is_quiescent());
            let Stats { retransmits, naks_sent, timeouts, duplicates, .. } = *end.stats();
            assert_eq!((retransmits, naks_sent, timeouts, duplicates), (0, 0, 0, 0), "{control:?} {seed}");
        }
    }
}

/// Any packet may be lost or late in either direction.
#[test]
fn all_arrives_once_whatever_is_lost() {
    for (seed, selective_repeat) in (0..60u64).flat_map(|seed| [(seed, false), (seed, true)]) {
        let ooo_window = [8, 16, 64, 4096][seed as usize % 4];
        let settings =
            QueuePairSettings { ooo_window, max_reads: 1 + seed as u32 % 5, ..any_order(selective_repeat) };
        let mut expected = [0; 2];
        let [source, sink] = wander(
            settings,
            |source| expected = post_both(source, seed),
            |turn, _| {
                let late = Span::from_ns(draw(turn, seed + 1) % 3_000);
                (!draw(turn, seed).is_multiple_of(20)).then_some(late)
            },
        );
        assert_eq!(
            (source.failure(), source.acked()),
            (None, expected[0] + expected[1]),
            "{seed} {selective_repeat}"
        );
        assert_eq!([sink.delivered(), source.delivered()], expected, "{seed} {selective_repeat}");
        for end in [source, sink] {
            assert!(end.is_quiescent());
            let Stats { retransmits, retransmits_by_nak, retransmits_by_timeout, .. } = *end.stats();
            assert_eq!(u64::from(retransmits), retransmits_by_nak + retransmits_by_timeout, "{seed}");
        }
    }
}

/// A lost packet, and lost copies of it, are found before the timer expires; with selective repeat nothing else is sent again.
#[test]
fn a_lost_packet_is_sent_again_without_the_timer() {
    for (times, is_read) in (1..3).flat_map(|times| [(times, false), (times, true)]) {
        for selective_repeat in [true, false] {
            // A quarter of the window is more than what is under way in a round trip, 23 packets.
            let settings = QueuePairSettings { ooo_window: 128, ..any_order(selective_repeat) };
            let mut lost = 0;
            let post =
                |end: &mut QueuePair| if is_read { end.read(1000 * 1024) } else { end.send(1000 * 1024) };
            let [source, sink] = wander(settings, post, |_, packet| {
                let is_lost = packet.opcode.is_data() && packet.psn == 10 && lost < times;
                lost += u32::from(is_lost);
                (!is_lost).then_some(Span::ZERO)
            });
            assert_eq!((source.acked(), source.stats().timeouts), (1000 * 1024, 0), "{times} {is_read}");
            let again = source.stats().retransmits + sink.stats().retransmits;
            if selective_repeat && !is_read {
                assert_eq!((again, sink.stats().naks_sent), (times, u64::from(times)));
            }
            assert!(again >= times);
        }
    }
}

/// A packet that is late by `behind` others.
#[test]
fn half_of_the_window_beyond_a_packet_makes_it_lost() {
    for (behind, is_lost) in [(30, false), (34, true)] {
        let settings = QueuePairSettings { ooo_window: 64, ..any_order(true) };
        let packet = Span(settings.full_packet() * 8 * 1000 / 100);
        let [source, sink] = wander(
            settings,
            |source| source.send(1000 * 1024),
            |_, one| Some(if one.psn == 10 && one.opcode.is_data() { packet * behind } else { Span::ZERO }),
        );
        assert_eq!(source.acked(), 1000 * 1024);
        assert_eq!(
            (source.stats().retransmits > 0, sink.stats().naks_sent),
            (is_lost, u64::from(is_lost)),
            "{behind}"
        );
    }
}

/// The requester keeps no more in flight than the responder can keep, which drops what is beyond.
#[test]
fn the_window_bounds_what_is_in_flight_and_kept() {
    let settings = QueuePairSettings { ooo_window: 8, retry_count: 0, ..any_order(true) };
    let mut pair = QueuePair::new(settings);
    pair.send(100 * 1024);
    let sent = (0..100).filter(|step| pair.poll_data(Time(step * 1_000_000)).is_some()).count();
    assert_eq!(sent, 8);
    let mut sink = QueuePair::new(settings);
    for number in (1..20).chain([0]) {
        let packet = Packet { payload: 1024, ..Packet::new(Opcode::of_write(false, false), number) };
        sink.on_packet(&packet, false, Time::ZERO);
    }
    assert_eq!(sink.delivered(), 9 * 1024);
}

/// A SEND is placed in the next posted receive, so it keeps its order.
#[test]
fn sends_keep_their_order() {
    let settings = QueuePairSettings { uses_send: true, ..any_order(false) };
    let [source, sink] = wander(
        settings,
        |source| source.send(100 * 1024),
        |turn, _| Some(Span::from_ns(draw(turn, 1) % 3_000)),
    );
    assert_eq!(sink.delivered(), 100 * 1024);
    assert!(source.stats().retransmits > 0);
}
