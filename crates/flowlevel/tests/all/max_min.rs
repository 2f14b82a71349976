//! Compares max-min rates with closed forms, with two independent methods and with the definition.

use pauseframe_flowlevel::{FlowError, Flows, MaxMin, Paths};
use pauseframe_units::PortId;
use proptest::prelude::*;

fn paths(of_flows: &[&[u32]]) -> Paths {
    of_flows.iter().map(|path| path.iter().map(|port| PortId(*port))).collect()
}

fn solve(capacity: &[f64], paths: &Paths, weights: Option<&[f64]>, caps: Option<&[f64]>) -> Vec<f64> {
    MaxMin::default().solve(capacity, Flows { paths, weights, caps }).expect("the case is valid")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn equal_flows_share_a_link() {
    assert_eq!(solve(&[9.0], &paths(&[&[0], &[0], &[0]]), None, None), [3.0; 3]);
}

#[test]
fn parking_lot() {
    // One flow crosses three links, and each link has one further flow: the link of capacity 2 gives 1 to the
    // long flow.
    let rates = solve(&[10.0, 2.0, 6.0], &paths(&[&[0, 1, 2], &[0], &[1], &[2]]), None, None);
    assert_eq!(rates, [1.0, 9.0, 1.0, 5.0]);
}

#[test]
fn what_one_link_leaves_another_gives() {
    // Five flows, all links of capacity 1: three flows share a link, the fourth gets the capacity that the
    // third leaves, and the fifth has its own link.
    let rates = solve(&[1.0; 4], &paths(&[&[0], &[0], &[0, 1], &[1], &[2]]), None, None);
    let expected = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0, 1.0];
    assert!(rates.iter().zip(expected).all(|(a, b)| close(*a, b)), "{rates:?}");
}

#[test]
fn weights_and_caps() {
    let two = paths(&[&[0], &[0]]);
    assert_eq!(solve(&[8.0], &two, Some(&[1.0, 3.0]), None), [2.0, 6.0]);
    assert_eq!(solve(&[8.0], &two, None, Some(&[1.0, f64::INFINITY])), [1.0, 7.0]);
    assert_eq!(solve(&[8.0], &two, Some(&[1.0, 3.0]), Some(&[9.0, 3.0])), [5.0, 3.0]);
    assert_eq!(solve(&[8.0], &two, None, Some(&[-0.0, 2.0])), [0.0, 2.0]);
}

#[test]
fn degenerate_flows() {
    // Flows without a link, without a link but with a cap, on a link without capacity, and crossing a link
    // twice.
    let rates = solve(
        &[0.0, 6.0],
        &paths(&[&[], &[], &[0, 1], &[1, 1], &[1]]),
        None,
        Some(&[f64::INFINITY, 4.0, 9.0, 9.0, 9.0]),
    );
    assert_eq!(rates, [f64::INFINITY, 4.0, 0.0, 2.0, 2.0]);
    assert!(solve(&[1.0], &Paths::new(), None, None).is_empty());
}

#[test]
fn mistakes_are_named() {
    let one = paths(&[&[0]]);
    let fail = |capacity: &[f64], weights: Option<&[f64]>, caps: Option<&[f64]>| {
        MaxMin::default().solve(capacity, Flows { paths: &one, weights, caps }).unwrap_err()
    };
    assert_eq!(fail(&[], None, None), FlowError::UnknownPort { flow: 0, port: 0, ports: 0 });
    assert_eq!(fail(&[-1.0], None, None), FlowError::Capacity { port: 0, value: -1.0 });
    assert_eq!(fail(&[1.0], Some(&[0.0]), None), FlowError::Weight { flow: 0, value: 0.0 });
    assert!(matches!(fail(&[1.0], None, Some(&[f64::NAN])), FlowError::Cap { flow: 0, .. }));
    let length = FlowError::Length { what: "weights", given: 2, flows: 1 };
    assert_eq!(fail(&[1.0], Some(&[1.0, 1.0]), None), length);
}

/// Progressive filling by its definition: raises all flows that are neither capped nor on a full link by the
/// largest possible step, without a heap or an index, and with new sums for each step.
fn progressive_filling(capacity: &[f64], paths: &Paths, weights: &[f64], caps: &[f64]) -> Vec<f64> {
    let mut rates = vec![0.0; paths.len()];
    let mut rising = vec![true; paths.len()];
    while rising.iter().any(|r| *r) {
        let on = |port: usize, value: &dyn Fn(usize) -> f64| -> f64 {
            let crossings = |f: usize| paths.of(f).iter().filter(|p| p.0 as usize == port).count() as f64;
            (0..paths.len()).map(|f| crossings(f) * value(f)).sum()
        };
        let slope = |f: usize| if rising[f] { weights[f] } else { 0.0 };
        let room: Vec<f64> = (0..capacity.len())
            .map(|port| match on(port, &slope) {
                0.0 => f64::INFINITY,
                slopes => (capacity[port] - on(port, &|f| rates[f])).max(0.0) / slopes,
            })
            .collect();
        let to_cap = |f: usize| if rising[f] { (caps[f] - rates[f]) / weights[f] } else { f64::INFINITY };
        let step = room.iter().copied().chain((0..paths.len()).map(to_cap)).fold(f64::INFINITY, f64::min);
        let stops: Vec<usize> = (0..paths.len())
            .filter(|f| {
                let full = paths.of(*f).iter().any(|p| room[p.0 as usize] <= step * (1.0 + 1e-12) + 1e-15);
                rising[*f] && (full || to_cap(*f) <= step * (1.0 + 1e-12))
            })
            .collect();
        for f in 0..rates.len() {
            rates[f] += step * if rising[f] { weights[f] } else { 0.0 };
        }
        for f in stops {
            rising[f] = false;
        }
    }
    rates
}

/// True if every flow is at its cap, or crosses a full link on which no other flow has a larger ratio of rate
/// to weight. This property characterises max-min fair rates (Bertsekas and Gallager, 1987, chapter 6).
fn is_max_min(capacity: &[f64], paths: &Paths, weights: &[f64], caps: &[f64], rates: &[f64]) -> bool {
    let mut used = vec![0.0; capacity.len()];
    let mut highest = vec![0.0_f64; capacity.len()];
    for f in 0..rates.len() {
        for port in paths.of(f) {
            used[port.0 as usize] += rates[f];
            highest[port.0 as usize] = highest[port.0 as usize].max(rates[f] / weights[f]);
        }
    }
    let fits = (0..capacity.len()).all(|l| used[l] <= capacity[l] * (1.0 + 1e-9));
    let bottleneck = |f: usize, l: usize| {
        used[l] >= capacity[l] * (1.0 - 1e-9) && rates[f] / weights[f] >= highest[l] * (1.0 - 1e-9)
    };
    let stopped = |f: usize| {
        rates[f] <= caps[f] * (1.0 + 1e-12)
            && (rates[f] >= caps[f] * (1.0 - 1e-9)
                || paths.of(f).iter().any(|port| bottleneck(f, port.0 as usize)))
    };
    fits && (0..rates.len()).all(stopped)
}

type Case = (Vec<f64>, Vec<Vec<u32>>, Vec<f64>, Vec<f64>);

fn cases(ports: u32, flows: usize) -> impl Strategy<Value = Case> {
    let path = prop::collection::vec(0..ports, 1..5).prop_map(|mut path| {
        path.sort_unstable();
        path.dedup();
        path
    });
    let flow = (path, 0.1..10.0, prop_oneof![3 => Just(f64::INFINITY), 1 => 0.0..2.0]);
    let capacity = prop::collection::vec(0.5..8.0, ports as usize);
    (capacity, prop::collection::vec(flow, 1..flows)).prop_map(|(capacity, flows)| {
        let paths = flows.iter().map(|flow| flow.0.clone()).collect();
        let weights = flows.iter().map(|flow| flow.1).collect();
        (capacity, paths, weights, flows.iter().map(|flow| flow.2).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn agrees_with_the_definition((capacity, ways, weights, caps) in cases(12, 30)) {
        let paths: Paths = ways.iter().map(|way| way.iter().map(|port| PortId(*port))).collect();
        let rates = solve(&capacity, &paths, Some(&weights), Some(&caps));
        let slow = progressive_filling(&capacity, &paths, &weights, &caps);
        for (fast, slow) in rates.iter().zip(&slow) {
            prop_assert!(close(*fast, *slow), "{rates:?} {slow:?}");
        }
        prop_assert!(is_max_min(&capacity, &paths, &weights, &caps, &rates), "{rates:?}");
    }

    #[test]
    fn larger_cases_are_max_min((capacity, ways, weights, caps) in cases(200, 600)) {
        let paths: Paths = ways.iter().map(|way| way.iter().map(|port| PortId(*port))).collect();
        let rates = solve(&capacity, &paths, Some(&weights), Some(&caps));
        prop_assert!(is_max_min(&capacity, &paths, &weights, &caps, &rates));
        let equal = vec![1.0; weights.len()];
        let unlimited = vec![f64::INFINITY; weights.len()];
        let rates = solve(&capacity, &paths, None, None);
        prop_assert!(is_max_min(&capacity, &paths, &equal, &unlimited, &rates));
    }

    #[test]
    fn the_order_of_flows_does_not_matter((capacity, ways, weights, caps) in cases(20, 60)) {
        let forward: Paths = ways.iter().map(|way| way.iter().map(|port| PortId(*port))).collect();
        let back: Paths = ways.iter().rev().map(|way| way.iter().map(|port| PortId(*port))).collect();
        let mirrored = |list: &[f64]| list.iter().rev().copied().collect::<Vec<f64>>();
        let mut solver = MaxMin::default();
        let flows = Flows { paths: &forward, weights: Some(&weights), caps: Some(&caps) };
        let rates = solver.solve(&capacity, flows).unwrap();
        let (weights, caps) = (mirrored(&weights), mirrored(&caps));
        let flows = Flows { paths: &back, weights: Some(&weights), caps: Some(&caps) };
        for (a, b) in rates.iter().zip(solver.solve(&capacity, flows).unwrap().iter().rev()) {
            prop_assert!(close(*a, *b));
        }
    }
}
