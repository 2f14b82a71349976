//! Compares completion times with closed forms and with a plain stepwise recomputation.

use pauseframe_flowlevel::{Arrival, FlowError, Flows, MaxMin, Paths, Source, simulate};
use pauseframe_routing::watch::{Stopped, Unwatched, Watch};
use pauseframe_units::{BitRate, Bytes, PortId, Time};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000_000;

fn flow(start: f64, bytes: u64) -> Arrival {
    Arrival {
        start: Time((start * SECOND as f64) as u64),
        size: Bytes(bytes),
        weight: 1.0,
        cap: None,
        stop: None,
    }
}

fn paths(of_flows: &[&[u32]]) -> Paths {
    of_flows.iter().map(|path| path.iter().map(|port| PortId(*port))).collect()
}

/// Flows that are completely known in advance.
struct Listed<'a> {
    paths: &'a Paths,
    arrivals: &'a [Arrival],
    order: &'a [usize],
    next: usize,
}

impl Source for Listed<'_> {
    fn next_start(&self) -> Option<Time> {
        self.order.get(self.next).map(|flow| self.arrivals[*flow].start)
    }

    fn next_flow(&mut self, path: &mut Vec<PortId>) -> Arrival {
        let flow = self.order[self.next];
        self.next += 1;
        path.extend_from_slice(self.paths.of(flow));
        self.arrivals[flow]
    }
}

/// The time at which each flow has sent all bytes, in seconds since the start of the run.
fn completion_times(capacity: &[f64], paths: &Paths, arrivals: &[Arrival]) -> Result<Vec<f64>, FlowError> {
    let mut order: Vec<usize> = (0..arrivals.len()).collect();
    order.sort_by_key(|flow| arrivals[*flow].start);
    let mut listed = Listed { paths, arrivals, order: &order, next: 0 };
    let outcome = simulate(capacity, &mut listed, None, &mut Unwatched)?;
    let mut finish = vec![f64::INFINITY; arrivals.len()];
    for (flow, at) in order.iter().zip(outcome.finish) {
        finish[*flow] = at;
    }
    Ok(finish)
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a.is_infinite() && b.is_infinite()) || (a - b).abs() <= 1e-12 * b.abs(),
            "{found:?}, expected {expected:?}"
        );
    }
}

#[test]
fn alone_and_shared() {
    // The capacity is 8 bit/s, that is a byte per second. The second flow arrives when half of the first is
    // left.
    let ends = completion_times(&[8.0], &paths(&[&[0]]), &[flow(1.0, 10)]).unwrap();
    assert_close(&ends, &[11.0]);
    let ends = completion_times(&[8.0], &paths(&[&[0], &[0]]), &[flow(0.0, 10), flow(5.0, 10)]).unwrap();
    assert_close(&ends, &[15.0, 20.0]);
}

#[test]
fn n_flows_of_growing_size_share_a_link() {
    // Processor sharing with sizes 1..n: flow i ends at the sum over j <= i of (n - j + 1).
    let n = 50;
    let arrivals: Vec<Arrival> = (1..=n).map(|size| flow(0.0, size)).collect();
    let ends = completion_times(&[8.0], &arrivals.iter().map(|_| [PortId(0)]).collect(), &arrivals).unwrap();
    let mut end = 0.0;
    let expected: Vec<f64> = (1..=n)
        .map(|i| {
            end += (n - i + 1) as f64;
            end
        })
        .collect();
    assert_close(&ends, &expected);
}

#[test]
fn weights_caps_and_closed_ways() {
    let weighted = Arrival { weight: 3.0, ..flow(0.0, 6) };
    let ends = completion_times(&[8.0], &paths(&[&[0], &[0]]), &[flow(0.0, 6), weighted]).unwrap();
    // The flow of weight 3 sends 6 of the first 8 bytes; then the other flow has sent 2 of its 6 bytes.
    assert_close(&ends, &[12.0, 8.0]);
    let capped = Arrival { cap: Some(BitRate(2)), ..flow(0.0, 1) };
    let ends = completion_times(
        &[8.0, 0.0],
        &paths(&[&[0], &[0], &[1], &[], &[0]]),
        &[capped, flow(0.0, 3), flow(0.0, 1), flow(2.0, 9), flow(3.0, 0)],
    );
    assert_close(&ends.unwrap(), &[4.0, 4.0, f64::INFINITY, 2.0, 3.0]);
}

#[test]
fn a_departure_reaches_flows_over_two_links() {
    // Flow 0 limits flow 1 to 1/2 on port 0, so flow 2 has 3/2 on port 1 (capacity 2) until flow 0 ends.
    let arrivals = [flow(0.0, 2), flow(0.0, 8), flow(0.0, 12)];
    let ends = completion_times(&[8.0, 16.0], &paths(&[&[0], &[0, 1], &[1]]), &arrivals).unwrap();
    // At 4 s both flow 1 and flow 2 have 6 bytes left; from then on both send 1 byte per second.
    assert_close(&ends, &[4.0, 10.0, 10.0]);
}

/// The same model without heaps, partial or lazy updates: all rates are computed again at every change.
fn stepwise(capacity: &[f64], paths: &Paths, arrivals: &[Arrival]) -> Vec<f64> {
    let mut left: Vec<f64> = arrivals.iter().map(|a| a.size.0 as f64 * 8.0).collect();
    let mut ends = vec![f64::INFINITY; arrivals.len()];
    let mut now = 0.0;
    loop {
        let under_way: Vec<usize> = (0..left.len())
            .filter(|f| ends[*f] == f64::INFINITY && arrivals[*f].start.as_secs_f64() <= now)
            .collect();
        let active: Paths = under_way.iter().map(|f| paths.of(*f).iter().copied()).collect();
        let weights: Vec<f64> = under_way.iter().map(|f| arrivals[*f].weight).collect();
        let flows = Flows { paths: &active, weights: Some(&weights), caps: None };
        let rates = MaxMin::default().solve(capacity, flows).expect("the case is valid");
        let starts = arrivals.iter().map(|a| a.start.as_secs_f64()).filter(|start| *start > now);
        let due = under_way.iter().zip(&rates).map(|(f, rate)| now + left[*f] / rate);
        let next = starts.chain(due).fold(f64::INFINITY, f64::min);
        if next == f64::INFINITY {
            return ends;
        }
        for (f, rate) in under_way.iter().zip(&rates) {
            left[*f] -= rate * (next - now);
            if left[*f] <= 1e-9 {
                ends[*f] = next;
            }
        }
        now = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_stepwise_recomputation(
        capacity in prop::collection::vec(1.0..20.0, 10),
        flows in prop::collection::vec(
            (prop::collection::btree_set(0_u32..10, 1..4), 0_u64..8, 1_u64..50, 0.5..2.0),
            1..40,
        ),
    ) {
        let paths: Paths = flows.iter().map(|flow| flow.0.iter().map(|port| PortId(*port))).collect();
        let arrivals: Vec<Arrival> = flows
            .iter()
            .map(|(_, start, bytes, weight)| Arrival { weight: *weight, ..flow(*start as f64, *bytes) })
            .collect();
        let found = completion_times(&capacity, &paths, &arrivals).unwrap();
        for (a, b) in found.iter().zip(stepwise(&capacity, &paths, &arrivals)) {
            prop_assert!((a - b).abs() <= 1e-9 * b.max(1.0), "{a} {b}");
        }
    }
}

#[test]
fn stopped_flows_leave_the_link_to_others() {
    // At a byte per second, two flows send 2 of their 10 bytes each until the stop at 4 s; then one flow
    // sends its other 8 bytes alone.
    let stopped = Arrival { stop: Some(Time(4 * SECOND)), ..flow(0.0, 10) };
    let ends = completion_times(&[8.0], &paths(&[&[0], &[0]]), &[stopped, flow(0.0, 10)]).unwrap();
    assert_close(&ends, &[4.0, 12.0]);
    // A stop after the flow's end changes nothing.
    let late = Arrival { stop: Some(Time(99 * SECOND)), ..flow(0.0, 10) };
    assert_close(&completion_times(&[8.0], &paths(&[&[0]]), &[late]).unwrap(), &[10.0]);
}

/// Flows in sequence, each one byte longer than the previous flow, until there are `most` flows.
struct Chain {
    most: u64,
    started: u64,
    next: Option<Time>,
}

impl Source for Chain {
    fn next_start(&self) -> Option<Time> {
        self.next
    }

    fn next_flow(&mut self, path: &mut Vec<PortId>) -> Arrival {
        path.push(PortId(0));
        self.started += 1;
        let start = self.next.take().expect("asked only then");
        Arrival { start, ..flow(0.0, self.started) }
    }

    fn ended(&mut self, flow: usize, path: &[PortId], at: f64) {
        assert_eq!((flow as u64 + 1, path), (self.started, &[PortId(0)][..]));
        self.next = (self.started < self.most).then_some(Time((at * SECOND as f64).round() as u64));
    }
}

#[test]
fn closed_loops_and_the_end_of_the_run() {
    let chain = || Chain { most: 5, started: 0, next: Some(Time(SECOND)) };
    let whole = simulate(&[8.0], &mut chain(), None, &mut Unwatched).unwrap();
    assert_close(&whole.finish, &[2.0, 4.0, 7.0, 11.0, 16.0]);
    assert_eq!((whole.end, whole.stopped, whole.left), (16.0, false, vec![0.0; 5]));
    // The fourth flow has 4 bytes and starts at 7 s, so it has 2 bytes left at 9 s.
    let cut = simulate(&[8.0], &mut chain(), Some(Time(9 * SECOND)), &mut Unwatched).unwrap();
    assert_close(&cut.finish, &[2.0, 4.0, 7.0, f64::INFINITY]);
    assert_eq!((cut.end, cut.left), (9.0, vec![0.0, 0.0, 0.0, 16.0]));
}

#[test]
fn whoever_watches_keeps_what_there_is() {
    struct Once(bool);
    impl Watch for Once {
        fn step(&mut self, _: &'static str, ended: u64, _: u64) -> Result<(), Stopped> {
            if ended == 0 || self.0 { Ok(()) } else { Err(Stopped) }
        }
    }
    let mut chain = Chain { most: 5, started: 0, next: Some(Time(SECOND)) };
    let outcome = simulate(&[8.0], &mut chain, None, &mut Once(false)).unwrap();
    assert_eq!((outcome.stopped, outcome.end), (true, 4.0));
    assert_close(&outcome.finish, &[2.0, f64::INFINITY]);
}
