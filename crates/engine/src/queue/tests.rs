use super::*;
use proptest::prelude::*;

/// Pops everything while pushing `later` events relative to the current time, and checks the order: without a lookahead buffer, with a short one and
/// with a long one.
fn drains_in_order(first: &[(u64, u64)], later: &[(u64, u64)], per_pop: usize) {
    for wanted in [0, 7, 31] {
        drains_by(wanted, first, later, per_pop);
    }
}

/// The earliest event before `end`, with a lookahead of `wanted` events.
fn take(queue: &mut EventQueue, wanted: usize, end: Time) -> Option<(Time, u64)> {
    if wanted == 0 { queue.pop_before(end) } else { queue.pop_lookahead_before(end) }
}

fn drains_by(wanted: usize, first: &[(u64, u64)], later: &[(u64, u64)], per_pop: usize) {
    let mut queue = EventQueue::new();
    let mut expected = BinaryHeap::new();
    let mut pushed = later.iter();
    let push = |queue: &mut EventQueue, expected: &mut BinaryHeap<_>, time: u64, code: u64| {
        queue.push(Time(time), code);
        expected.push(Reverse((time, code)));
    };
    for &(time, code) in first {
        push(&mut queue, &mut expected, time, code);
    }
    while let Some((time, code)) = take(&mut queue, wanted, Time::MAX) {
        assert_eq!(expected.pop(), Some(Reverse((time.0, code))));
        assert_eq!(queue.is_empty(), expected.is_empty());
        let next = expected.peek().map(|Reverse(next)| *next);
        if code % 64 == 0 {
            // Neither the lookahead nor a stop before an event removes it, even if earlier events are inserted afterwards.
            let next = next.map(|(time, _)| Time(time));
            assert_eq!(queue.next_event_time(), next);
            assert_eq!(take(&mut queue, wanted, next.unwrap_or(Time::MAX)), None);
        }
        if wanted > 0 && code % 16 < 11 {
            queue.prefetch_list_nodes::<2>();
            let is_long = queue.fill_lookahead(wanted);
            let upcoming = expected.len().min(wanted);
            assert!(
                is_long == queue.upcoming_codes([wanted - 1]).is_some() && (upcoming == wanted || !is_long)
            );
            let code = next.map(|(_, code)| code);
            assert!(queue.upcoming_codes([0]).is_none_or(|[upcoming]| Some(upcoming) == code));
        }
        for &(delay, code) in pushed.by_ref().take(per_pop) {
            push(&mut queue, &mut expected, time.0 + delay, code);
        }
    }
    assert!(expected.is_empty());
}

proptest! {
    #[test]
    fn events_leave_by_time_then_code(
        first in prop::collection::vec((0u64..3_000_000, 0u64..50), 0..60),
        later in prop::collection::vec((0u64..200_000_000, 0u64..50), 0..300),
    ) {
        drains_in_order(&first, &later, 2);
    }
}

#[test]
fn the_order_does_not_depend_on_the_width() {
    // Enough events at a steady load to make the width change several times, in both directions.
    let mut rng = crate::random_stream(3, "queue", 0);
    for scale in [300, 40_000, 400_000, 1_500_000, 80_000_000] {
        let first: Vec<_> = (0..200).map(|i| (rng.uniform_below(scale), i)).collect();
        let later: Vec<_> = (0..200_000).map(|i| (rng.uniform_below(scale), i % 977)).collect();
        drains_in_order(&first, &later, 1);
    }
}

/// Few events in bunches: sometimes all of them are in the lookahead buffer while the width changes.
#[test]
fn the_lookahead_buffer_takes_events_inserted_before_its_last() {
    let mut rng = crate::random_stream(4, "bunches", 0);
    for bunch in [2, 9, 10, 11, 12, 13, 14] {
        let first: Vec<_> = (0..bunch).map(|i| (0, i)).collect();
        let later: Vec<_> = (0..200_000)
            .map(|i| (rng.uniform_below(8).min(1) * 20_000 + rng.uniform_below(30), i % 977))
            .collect();
        drains_in_order(&first, &later, 1);
    }
}

/// Any number of events in one bucket, in any order, costs a few moves and a logarithm per event.
#[test]
fn a_crowd_in_one_instant_is_no_crush() {
    const EVENTS: u64 = 1_000_000;
    let mut rng = crate::random_stream(5, "crowd", 0);
    let shuffled: Vec<u64> = (0..EVENTS).map(|_| rng.uniform_below(1 << 40)).collect();
    let orders = [(0..EVENTS).collect(), (0..EVENTS).rev().collect(), shuffled];
    for (codes, wanted) in orders.iter().flat_map(|codes: &Vec<u64>| [(codes, 0), (codes, 11)]) {
        let mut queue = EventQueue::new();
        let mut expected: Vec<u64> = codes.clone();
        expected.sort_unstable();
        for code in codes {
            queue.push(Time(7), *code);
        }
        // Halfway through, earlier events are inserted.
        let next = |queue: &mut EventQueue| {
            queue.fill_lookahead(wanted);
            Some(take(queue, wanted, Time::MAX)?.1)
        };
        let mut seen: Vec<u64> = (0..EVENTS / 2).map(|_| next(&mut queue).unwrap()).collect();
        let reached = seen[seen.len() - 1];
        for step in 0..EVENTS / 4 {
            let code = reached + 1 + (step * 7_919) % (1 << 30);
            queue.push(Time(7), code);
            expected.push(code);
        }
        seen.extend(std::iter::from_fn(|| next(&mut queue)));
        expected.sort_unstable();
        assert!(seen == expected, "out of order");
        assert!(queue.moved < 40 * EVENTS, "{} moves", queue.moved);
    }
}

/// Delays of zero, a picosecond and a second together, most of them into a bucket that is open and full.
#[test]
fn time_scales_may_lie_far_apart() {
    let mut rng = crate::random_stream(6, "scales", 0);
    for crowd in [10, 3_000, 100_000] {
        let delay = |rng: &mut crate::Rng| {
            [0, 1, 1, 1 + rng.uniform_below(4_000), 1_000_000_000_000][rng.uniform_below(5) as usize]
        };
        let first: Vec<_> = (0..crowd).map(|i| (delay(&mut rng), i)).collect();
        let later: Vec<_> = (0..300_000).map(|i| (delay(&mut rng), i % 977)).collect();
        drains_in_order(&first, &later, 1);
    }
}

#[test]
fn the_far_future_is_reached() {
    let mut queue = EventQueue::new();
    queue.push(Time(u64::MAX), 1);
    queue.push(Time(5), 2);
    assert_eq!(queue.pop(), Some((Time(5), 2)));
    assert_eq!(queue.pop(), Some((Time(u64::MAX), 1)));
    assert_eq!(queue.pop(), None);
}

#[test]
#[should_panic(expected = "in the past")]
fn the_past_is_closed() {
    let mut queue = EventQueue::new();
    queue.push(Time(10), 0);
    queue.pop();
    queue.push(Time(9), 0);
}
