//! Two ends without a network: assignments by Linux's scheduler, reinjection, silence and loss of subflows.

use super::*;

fn end(subflows: usize) -> MultipathConnection {
    let mappings = (0..subflows).map(|_| [Arc::default(), Arc::default()]);
    MultipathConnection::new(mappings, Span::from_ms(200))
}

/// Two ends that share their mappings.
fn ends(subflows: usize) -> [MultipathConnection; 2] {
    let mappings: Vec<[Arc<MappingsOnTheWire>; 2]> =
        (0..subflows).map(|_| [Arc::default(), Arc::default()]).collect();
    let of_side = |side: usize| {
        let own = mappings.iter().map(|both| [Arc::clone(&both[side]), Arc::clone(&both[1 - side])]);
        MultipathConnection::new(own.collect::<Vec<_>>().into_iter(), Span::from_ms(200))
    };
    [of_side(0), of_side(1)]
}

/// A subflow with room and a rate in bytes per second.
fn view(room: u64, queued: u64, rate: u64) -> SubflowView {
    SubflowView {
        is_established: true,
        room,
        queued,
        pacing_rate: Some(rate),
        rto_deadline: Time::MAX,
        ..SubflowView::default()
    }
}

fn next(end: &mut MultipathConnection, now: Time) -> Option<(usize, u64)> {
    end.next_assignment(now).map(|next| (next.subflow, next.bytes))
}

/// The subflow with the shortest queue in time gets a burst, and keeps it while it has room.
#[test]
fn bursts_go_to_the_shortest_queue_in_time() {
    let mut sender = end(3);
    sender.write(200_000);
    sender.observe(0, view(1_000_000, 30_000, 1_000_000));
    sender.observe(1, view(40_000, 50_000, 2_000_000));
    sender.observe(2, SubflowView { is_established: false, ..view(1_000_000, 0, u64::MAX) });
    assert_eq!(next(&mut sender, Time::ZERO), Some((1, 40_000)), "25 ms against 30 ms");
    sender.observe(1, view(5_000, 90_000, 2_000_000));
    assert_eq!(next(&mut sender, Time::ZERO), Some((1, 5_000)), "the rest of the burst");
    sender.observe(1, view(0, 95_000, 2_000_000));
    assert_eq!(next(&mut sender, Time::ZERO), Some((0, BURST)));
    sender.observe(0, view(0, 95_428, 1_000_000));
    assert_eq!(next(&mut sender, Time::ZERO), None, "nobody has room");
    sender.observe(0, view(1_000, 95_428, 1_000_000));
    sender.observe(1, view(0, 95_000, 2_000_000));
    assert_eq!(next(&mut sender, Time::ZERO), None, "only the shortest queue in time counts, and it is full");
}

/// The rate of the choice is an average over what was queued and the burst.
#[test]
fn the_rate_is_averaged_over_bursts() {
    let mut sender = end(1);
    sender.write(1_000_000);
    sender.observe(0, view(BURST, 0, 1_000_000));
    next(&mut sender, Time::ZERO);
    assert_eq!(sender.subflows[0].average_rate, 1_000_000);
    sender.observe(0, view(BURST, BURST, 3_000_000));
    next(&mut sender, Time::ZERO);
    assert_eq!(sender.subflows[0].average_rate, 2_000_000, "as many bytes queued as in the burst");
}

#[test]
fn data_arrive_in_order_whatever_subflow_brings_them() {
    let [mut sender, mut receiver] = ends(2);
    sender.write(100_000);
    sender.observe(0, view(60_000, 0, 1));
    sender.observe(1, view(0, u64::MAX, 1));
    assert_eq!(next(&mut sender, Time::ZERO), Some((0, 60_000)));
    sender.observe(0, SubflowView { written: 60_000, ..view(0, u64::MAX, 1) });
    sender.observe(1, view(60_000, 0, 1));
    assert_eq!(next(&mut sender, Time::ZERO), Some((1, 40_000)));
    assert_eq!(receiver.observe(1, SubflowView { delivered: 30_000, ..SubflowView::default() }), 30_000);
    assert_eq!(receiver.delivered_bytes(), 0);
    assert_eq!(receiver.observe(0, SubflowView { delivered: 60_000, ..SubflowView::default() }), 60_000);
    assert_eq!(receiver.delivered_bytes(), 90_000);
    // What was sent: the first byte that a subflow still holds is the limit.
    sender.observe(0, SubflowView { written: 60_000, sent: 10_000, ..view(0, u64::MAX, 1) });
    assert_eq!(sender.sent_bytes(), 10_000);
    sender.observe(0, SubflowView { written: 60_000, sent: 60_000, acked: 60_000, ..view(0, 0, 1) });
    sender.observe(1, SubflowView { written: 40_000, sent: 40_000, acked: 0, ..view(0, 0, 1) });
    assert_eq!((sender.sent_bytes(), sender.acked_bytes()), (100_000, 60_000));
    sender.close(false);
    assert!(!sender.may_close_subflows());
    sender.observe(1, SubflowView { written: 40_000, sent: 40_000, acked: 40_000, ..view(0, 0, 1) });
    assert!(sender.may_close_subflows());
}

/// After an interval without progress the first fragment goes to a subflow that has nothing to do; it counts once at the receiver.
#[test]
fn an_idle_subflow_sends_the_first_fragment_again() {
    let [mut sender, mut receiver] = ends(2);
    sender.write(50_000);
    let deadline = Time::ZERO + Span::from_ms(300);
    sender.observe(0, SubflowView { rto_deadline: deadline, ..view(100_000, 0, 1) });
    assert_eq!(next(&mut sender, Time::ZERO), Some((0, 50_000)));
    assert_eq!(sender.deadline(), deadline, "the subflow's timer");
    let stuck = SubflowView { written: 50_000, ..view(0, 60_000, 1) };
    sender.observe(0, stuck);
    sender.observe(1, view(100_000, 0, 1));
    sender.on_timeout(Time(deadline.0 - 1));
    assert_eq!(next(&mut sender, deadline), None, "not yet");
    sender.on_timeout(deadline);
    assert_eq!(next(&mut sender, deadline), Some((1, FRAGMENT)));
    assert_eq!(sender.deadline(), deadline + Span::from_ms(200), "no timer of a subflow is pending");
    assert_eq!(receiver.observe(1, SubflowView { delivered: FRAGMENT, ..SubflowView::default() }), FRAGMENT);
    assert_eq!(
        receiver.observe(0, SubflowView { delivered: 50_000, ..SubflowView::default() }),
        50_000 - FRAGMENT
    );
    assert_eq!(receiver.delivered_bytes(), 50_000);
}

/// A subflow that is silent for more than four intervals is left alone, and another sends all that it had; a word from the peer brings it back.
#[test]
fn a_silent_subflow_becomes_stale_and_returns() {
    let mut sender = end(2);
    sender.write(50_000);
    sender.observe(0, view(100_000, 0, 1_000));
    next(&mut sender, Time::ZERO);
    let stuck = SubflowView { written: 50_000, ..view(50_000, 60_000, 1_000) };
    sender.observe(0, stuck);
    // The other one has data in flight too, so it sends no fragment.
    let busy = SubflowView { written: 5, ..view(100_000, 5, 1_000_000) };
    for round in 1..=5 {
        sender.observe(1, SubflowView { acked: round % 5, ..busy });
        let now = sender.deadline();
        sender.on_timeout(now);
        let again = next(&mut sender, now);
        assert_eq!(again, if round == 5 { Some((1, 50_000)) } else { None }, "round {round}");
    }
    assert!(sender.subflows[0].is_stale);
    sender.observe(0, SubflowView { acked: 1, ..stuck });
    assert!(!sender.subflows[0].is_stale);
    // Without another one it is never stale.
    let mut alone = end(1);
    alone.write(10);
    alone.observe(0, view(100, 0, 1));
    next(&mut alone, Time::ZERO);
    alone.observe(0, SubflowView { written: 10, ..view(100, 10, 1) });
    for _ in 0..9 {
        alone.on_timeout(alone.deadline());
    }
    assert!(!alone.subflows[0].is_stale);
}

/// What a lost subflow had goes to the others; the last one takes the connection with it, and so does the first before it is established.
#[test]
fn lost_subflows_leave_their_data_to_others() {
    let mut sender = end(2);
    sender.write(50_000);
    sender.observe(0, view(100_000, 0, 1));
    next(&mut sender, Time::ZERO);
    sender.observe(0, SubflowView { written: 50_000, acked: 20_000, ..view(0, 30_000, 1) });
    sender.observe(1, view(100_000, 0, 1));
    // A failed connection is no established one any more.
    sender.observe(
        0,
        SubflowView { is_established: false, written: 50_000, acked: 20_000, ..view(0, 30_000, 1) },
    );
    sender.lose_subflow(0, ConnectionFailure::DataTimeout);
    assert_eq!((sender.failure(), next(&mut sender, Time::ZERO)), (None, Some((1, 30_000))));
    sender.lose_subflow(1, ConnectionFailure::Reset);
    assert_eq!(sender.failure(), Some(ConnectionFailure::Reset));
    let mut first = end(2);
    first.lose_subflow(0, ConnectionFailure::SynTimeout);
    assert_eq!(first.failure(), Some(ConnectionFailure::SynTimeout));
    // One without data leaves none, and what others have in flight stays there.
    let mut spare = end(3);
    spare.write(50_000);
    spare.observe(0, view(100_000, 0, 1));
    next(&mut spare, Time::ZERO);
    spare.observe(0, SubflowView { written: 50_000, ..view(0, 30_000, 1) });
    spare.observe(1, view(100_000, 0, 1));
    spare.lose_subflow(2, ConnectionFailure::Reset);
    assert_eq!(next(&mut spare, Time::ZERO), None);
    let mut second = end(2);
    second.lose_subflow(1, ConnectionFailure::SynTimeout);
    assert_eq!(second.failure(), None);
}

#[test]
fn a_stopped_connection_drops_what_no_subflow_has() {
    let mut sender = end(1);
    sender.write(u64::MAX);
    sender.observe(0, view(10_000, 0, 1));
    assert_eq!(next(&mut sender, Time::ZERO), Some((0, 10_000)));
    sender.close(true);
    sender.observe(0, SubflowView { written: 10_000, ..view(10_000, 10_000, 1) });
    assert_eq!((next(&mut sender, Time::ZERO), sender.is_quiescent()), (None, false));
    sender
        .observe(0, SubflowView { written: 10_000, acked: 10_000, is_quiescent: true, ..view(10_000, 0, 1) });
    assert!(sender.is_quiescent() && sender.may_close_subflows());
}

/// A stop while data wait to be sent again keeps all that subflows have had: they may still arrive by the first one.
#[test]
fn a_stop_keeps_data_that_wait_to_be_sent_again() {
    let mut sender = end(2);
    sender.write(u64::MAX);
    sender.observe(0, view(50_000, 0, 1));
    sender.observe(1, view(0, u64::MAX, 1));
    assert_eq!(next(&mut sender, Time::ZERO), Some((0, 50_000)));
    let held = SubflowView { written: 50_000, sent: 50_000, ..view(0, 50_000, 1) };
    sender.observe(0, held);
    sender.requeue_unacked();
    sender.close(true);
    sender.observe(0, SubflowView { acked: 50_000, is_quiescent: true, ..held });
    assert_eq!(next(&mut sender, Time::ZERO), None);
    assert!(sender.may_close_subflows());
    assert_eq!(sender.sent_bytes(), 50_000);
}
