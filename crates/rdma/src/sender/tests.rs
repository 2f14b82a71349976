//! Recoveries, wake-ups and retries of a requester, packet by packet.

use crate::cc::{ControlName, ControlParameters, Controller};
use crate::packet::{NamedPsn, Opcode, Packet, Syndrome};
use crate::queue_pair::{QueuePair, QueuePairSettings, Stats};
use crate::sender::{Cause, Failure, Sender, Verb};

use pauseframe_units::{Bytes, Span, Time};

fn settings() -> QueuePairSettings {
    QueuePairSettings {
        timeout: Span::from_us(100),
        retry_count: 3,
        line: 100_000_000_000,
        ..QueuePairSettings::default()
    }
}

/// Sends `count` packets as fast as pacing permits; their PSNs.
fn send(pair: &mut QueuePair, now: &mut Time, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| {
            *now = (*now).max(pair.deadline(*now).min(*now + Span::from_us(1)));
            pair.poll_data(*now).expect("it has packets to send").psn
        })
        .collect()
}

/// A NAK: everything before `missing` has arrived, and `arrived` out of order.
fn nak(pair: &mut QueuePair, missing: u32, arrived: u32, now: Time) {
    let packet = Packet {
        syndrome: Syndrome::SequenceError,
        selective: Some(NamedPsn::of(arrived.into())),
        ..Packet::new(Opcode::Acknowledge, missing)
    };
    pair.on_packet(&packet, false, now);
}

/// IRN: a recovery repeats what was in flight when it began. A later loss begins another recovery.
#[test]
fn a_recovery_repeats_losses_of_its_flight_only() {
    let mut pair = QueuePair::new(QueuePairSettings { selective_repeat: true, ..settings() });
    pair.send(1000 * 1024);
    let mut now = Time::ZERO;
    send(&mut pair, &mut now, 30);
    nak(&mut pair, 10, 11, now);
    assert_eq!(send(&mut pair, &mut now, 6), [10, 30, 31, 32, 33, 34]);
    // The NAKs for what came behind 20 were lost, so 20 is found late; the flight of this recovery ends at 30.
    nak(&mut pair, 20, 21, now);
    assert_eq!(send(&mut pair, &mut now, 1), [20]);
    for arrived in (22..30).chain([31]) {
        nak(&mut pair, 20, arrived, now);
    }
    assert_eq!(send(&mut pair, &mut now, 2), [35, 36]);
    nak(&mut pair, 30, 32, now);
    assert_eq!(send(&mut pair, &mut now, 2), [30, 37]);
}

/// A NAK for what was sent again says nothing new until a packet arrives that was sent later.
#[test]
fn a_repeated_packet_is_lost_if_a_later_one_arrives() {
    let mut pair = QueuePair::new(QueuePairSettings { selective_repeat: true, ..settings() });
    pair.send(1000 * 1024);
    let mut now = Time::ZERO;
    send(&mut pair, &mut now, 20);
    nak(&mut pair, 10, 11, now);
    assert_eq!(send(&mut pair, &mut now, 3), [10, 20, 21]);
    nak(&mut pair, 10, 19, now);
    nak(&mut pair, 10, 12, now);
    for arrived in 13..19 {
        nak(&mut pair, 10, arrived, now);
    }
    assert_eq!(send(&mut pair, &mut now, 2), [22, 23]);
    nak(&mut pair, 10, 20, now);
    assert_eq!(send(&mut pair, &mut now, 2), [10, 24]);
}

#[test]
fn a_requester_that_waits_for_responses_wakes_for_its_timer_only() {
    for selective_repeat in [false, true] {
        let mut pair = QueuePair::new(QueuePairSettings { selective_repeat, ..settings() });
        pair.read(100 * 1024);
        let request = pair.poll_data(Time(1000)).expect("it requests");
        assert_eq!(request.opcode, Opcode::ReadRequest);
        assert_eq!(pair.deadline(Time(1000)), Time(1000) + settings().timeout);
        assert_eq!(pair.poll_data(Time(1000) + settings().timeout / 2), None);
    }
}

/// Each expiry counts, though the packet is sent again at once and expires a timeout later to the picosecond. Timeouts below those of RoCE do not make
/// it less patient.
#[test]
fn unordered_delivery_gives_up_after_as_many_timeouts() {
    let parameters = ControlParameters { base_rtt: Span::from_us(4), ..ControlParameters::default() };
    let control = ControlName::Nscc.into();
    let short = QueuePairSettings { unordered: true, control, parameters, ..settings() };
    assert_eq!(short.patience(), QueuePairSettings::default().timeout * 4);
    let nscc = QueuePairSettings { timeout: Span::from_ms(100), ..short };
    let mut pair = QueuePair::new(nscc);
    pair.send(1024);
    let mut now = Time::ZERO;
    for sent in 1..=4 {
        assert!(pair.poll_data(now).is_some(), "{sent}");
        assert_eq!((pair.failure(), pair.deadline(now)), (None, now + nscc.timeout), "{sent}");
        now += nscc.timeout;
        pair.on_timeout(Time(now.0 - 1));
        assert_eq!(pair.stats().timeouts, sent - 1);
        pair.on_timeout(now);
        assert_eq!((pair.stats().timeouts, pair.stats().waited), (sent, nscc.timeout * u64::from(sent)));
    }
    assert_eq!(pair.failure(), Some(Failure::RetriesExhausted));
}

/// A packet of unordered delivery expires a timeout after it was sent, whatever was acknowledged meanwhile (htsim: `UecSrc::recalculateRTO`). When the
/// timer expires for one that has arrived, nothing is counted.
#[test]
fn a_packet_expires_a_timeout_after_it_was_sent() {
    let (mut pair, nscc) = unordered(3);
    let mut sent = Vec::new();
    let mut now = Time::ZERO;
    for _ in 0..3 {
        now += Span::from_us(10);
        assert!(pair.poll_data(now).is_some());
        sent.push(now);
    }
    // The first and the third have arrived, late.
    let acknowledged = Time((sent[0] + nscc.timeout).0 - 1);
    answer(&mut pair, Syndrome::Ack, 0, 1, 1, acknowledged);
    answer(&mut pair, Syndrome::Ack, 2, 1, 2, acknowledged);
    let first = pair.deadline(acknowledged);
    assert_eq!(first, sent[0] + nscc.timeout);
    pair.on_timeout(first);
    assert_eq!((pair.stats().timeouts, pair.poll_data(first)), (0, None));
    let second = pair.deadline(first);
    assert_eq!(second, sent[1] + nscc.timeout);
    pair.on_timeout(second);
    assert_eq!(pair.stats().timeouts, 1);
    assert_eq!(pair.poll_data(second).map(|packet| packet.psn), Some(1));
    assert_eq!(pair.poll_data(second), None);
    assert_eq!(pair.deadline(second), second + nscc.timeout);
}

/// A queue pair of NSCC with whole packets to send, and the settings that it has.
fn unordered(packets: u64) -> (QueuePair, QueuePairSettings) {
    let parameters = ControlParameters { base_rtt: Span::from_us(4), ..ControlParameters::default() };
    let control = ControlName::Nscc.into();
    let nscc = QueuePairSettings { unordered: true, control, parameters, ..settings() };
    let mut pair = QueuePair::new(nscc);
    pair.send(packets * 1024);
    (pair, nscc)
}

/// The answer to a packet of unordered delivery, when all before `expected` and `received` packets in all have arrived.
fn answer(pair: &mut QueuePair, syndrome: Syndrome, number: u64, expected: u32, received: u16, now: Time) {
    let selective = Some(NamedPsn::of(number));
    let packet = Packet { syndrome, selective, received, ..Packet::new(Opcode::Acknowledge, expected) };
    pair.on_packet(&packet, false, now);
}

/// Packets that have timed out and arrive before they are sent again were under way after all: they count as gone once (htsim: "don't double count").
#[test]
fn late_packets_open_no_room_in_the_window() {
    let (mut pair, nscc) = unordered(200);
    let mut now = Time::ZERO;
    let all = std::iter::from_fn(|| {
        now += Span::from_us(1);
        pair.poll_data(now)
    });
    let window = all.count() as u16;
    assert!(window > 8, "{window}");
    let expiry = now + nscc.timeout;
    pair.on_timeout(expiry);
    answer(&mut pair, Syndrome::Ack, u64::from(window) - 1, window.into(), window, expiry);
    let mut now = expiry;
    let again = std::iter::from_fn(|| {
        now += Span::from_us(1);
        pair.poll_data(now)
    });
    assert!(again.count() <= usize::from(window), "a cut window, and no packet beyond it");
}

/// After a timeout several copies may be under way: NAKs of them call for no further copy. A NAK of a packet that was sent once does.
#[test]
fn a_nak_of_a_packet_that_had_timed_out_says_nothing() {
    let (mut pair, nscc) = unordered(2);
    let sent = Time::ZERO + Span::from_us(1);
    assert_eq!(pair.poll_data(sent).map(|packet| packet.psn), Some(0));
    let second = sent + Span::from_us(1);
    assert_eq!(pair.poll_data(second).map(|packet| packet.psn), Some(1));
    pair.on_timeout(sent + nscc.timeout);
    let now = sent + nscc.timeout + Span(1);
    assert_eq!(pair.poll_data(now).map(|packet| packet.psn), Some(0));
    answer(&mut pair, Syndrome::SequenceError, 0, 0, 0, now);
    let later = now + Span(nscc.timeout.0 / 1000);
    assert_eq!((pair.poll_data(later), pair.stats().naks_received), (None, 0));
    answer(&mut pair, Syndrome::SequenceError, 1, 0, 0, later);
    let last = later + Span(nscc.timeout.0 / 1000);
    assert_eq!(pair.poll_data(last).map(|packet| packet.psn), Some(1));
    assert_eq!(pair.stats().naks_received, 1);
}

/// Karn's rule: only a packet that was sent once gives a round trip, and none that counts as lost.
#[test]
fn packets_that_count_as_lost_give_no_round_trip() {
    let settings = unordered(0).1;
    let (mut sender, mut cc, mut stats) = (Sender::new(), Controller::new(&settings), Stats::default());
    sender.post(3 * 1024, Verb::Write, settings.mtu);
    let mut now = Time::ZERO;
    let mut next = |sender: &mut Sender| {
        now += Span::from_us(1);
        sender.poll(&mut cc, &settings, &mut stats, now).map(|packet| packet.psn)
    };
    assert_eq!([0; 2].map(|_| next(&mut sender)), [Some(0), Some(1)]);
    let at = Time::ZERO + Span::from_us(10);
    let trips = |sender: &Sender| [0, 1, 2].map(|number| sender.round_trip(number, at));
    let [first, second] = [9, 8].map(|us| Some(Span::from_us(us)));
    assert_eq!(trips(&sender), [first, second, None]);
    sender.unordered.lost.insert(0, Cause::Nak);
    assert_eq!(trips(&sender), [None, second, None]);
    assert_eq!(next(&mut sender), Some(0));
    assert_eq!(trips(&sender), [None, second, None]);
}

/// Two packets that expire within one timeout are one retry.
#[test]
fn expiries_within_a_timeout_are_one_retry() {
    let (mut pair, nscc) = unordered(2);
    let mut now = Time::ZERO;
    send(&mut pair, &mut now, 1);
    let first = now;
    send(&mut pair, &mut now, 1);
    assert!(now > first);
    pair.on_timeout(first + nscc.timeout);
    pair.on_timeout(now + nscc.timeout);
    assert_eq!((pair.stats().timeouts, pair.stats().waited), (2, nscc.timeout));
}

/// Unordered delivery: whole packets in flight, headers included, up to the window and not beyond; a smaller one lets a lone packet go.
#[test]
fn unordered_packets_fill_the_window() {
    let mut settings = QueuePairSettings { unordered: true, ..settings() };
    let packet = settings.full_packet();
    for (window, count) in [(4 * packet, 4), (5 * packet - 1, 4), (packet, 1), (packet - 1, 1)] {
        settings.tx_window = Some(Bytes(window));
        let mut pair = QueuePair::new(settings);
        pair.send(100 * 1024);
        let mut now = Time::ZERO;
        send(&mut pair, &mut now, count);
        assert!(pair.poll_data(now + Span::from_us(50)).is_none(), "{window} bytes");
    }
}

/// InfiniBand 9.7.5.2.8: a requester gives up after as many RNR NAKs in a row, but 7 stands for no limit.
#[test]
fn seven_retries_for_a_receiver_that_is_not_ready_are_no_limit() {
    for (rnr_retry, fails_at) in [(0, Some(1)), (6, Some(7)), (7, None)] {
        let mut pair = QueuePair::new(QueuePairSettings { rnr_retry, ..settings() });
        pair.send(1024);
        let mut now = Time::ZERO;
        let failed = (1..=20).find(|_| {
            now += Span::from_secs(1);
            pair.poll_data(now).expect("it tries again");
            let syndrome = Syndrome::ReceiverNotReady;
            pair.on_packet(&Packet { syndrome, ..Packet::new(Opcode::Acknowledge, 0) }, false, now);
            pair.failure().is_some()
        });
        assert_eq!(failed, fails_at, "{rnr_retry}");
        assert_eq!(pair.failure(), fails_at.map(|_| Failure::RnrRetriesExhausted));
    }
}
