//! Compares rates of flows that arrive and end with rates computed from scratch after every change.
#![expect(clippy::float_cmp, reason = "these values are exact")]

use pauseframe_flowlevel::{Flows, MaxMin, Paths, Shares};
use pauseframe_units::PortId;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Flow {
    path: Vec<PortId>,
    weight: f64,
    cap: f64,
    rate: f64,
}

fn path(ports: &[u32]) -> Vec<PortId> {
    ports.iter().map(|port| PortId(*port)).collect()
}

/// The active flows by slot.
struct Network {
    capacity: Vec<f64>,
    shares: Shares,
    flows: BTreeMap<u32, Flow>,
}

impl Network {
    fn new(capacity: Vec<f64>) -> Network {
        Network { shares: Shares::new(&capacity), capacity, flows: BTreeMap::new() }
    }

    fn add(&mut self, ports: &[u32], weight: f64, cap: f64) -> u32 {
        let path = path(ports);
        let slot = self.shares.add(&path, weight, cap);
        assert!(self.flows.insert(slot, Flow { path, weight, cap, rate: f64::NAN }).is_none());
        slot
    }

    fn remove(&mut self, slot: u32) {
        self.shares.remove(slot);
        self.flows.remove(&slot).expect("only flows under way are removed");
    }

    /// Settles the rates; returns the number of flows with a new rate.
    fn settle(&mut self) -> usize {
        let mut changed = 0;
        self.shares.settle(|slot, rate| {
            self.flows.get_mut(&slot).expect("only flows under way have rates").rate = rate;
            changed += 1;
        });
        changed
    }

    /// The largest relative difference from rates computed from scratch.
    fn error(&self) -> f64 {
        let flows = || self.flows.values();
        let paths: Paths = flows().map(|flow| flow.path.iter().copied()).collect();
        let weights: Vec<f64> = flows().map(|flow| flow.weight).collect();
        let caps: Vec<f64> = flows().map(|flow| flow.cap).collect();
        let flows = Flows { paths: &paths, weights: Some(&weights), caps: Some(&caps) };
        let rates = MaxMin::default().solve(&self.capacity, flows).expect("the flows are valid");
        let difference = |(flow, rate): (&Flow, f64)| {
            if flow.rate == rate { 0.0 } else { (flow.rate - rate).abs() / rate.max(f64::MIN_POSITIVE) }
        };
        let error = self.flows.values().zip(rates).map(difference).fold(0.0, f64::max);
        if self.flows.values().any(|flow| flow.rate.is_nan()) { f64::NAN } else { error }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Add {
        ports: Vec<u32>,
        weight: f64,
        cap: Option<f64>,
    },
    /// Removes the flow at this index among the active flows, modulo their number.
    Remove(usize),
    Settle,
}

/// Uses equal numbers on purpose, so that many ports fill at the same level.
fn change() -> impl Strategy<Value = Change> {
    let weight = prop_oneof![4 => Just(1.0), 1 => Just(2.0), 1 => 0.1..10.0];
    let cap = prop_oneof![3 => Just(None), 1 => Just(Some(1.0)), 1 => (0.0..4.0).prop_map(Some)];
    let add = (prop::collection::vec(0_u32..12, 0..5), weight, cap);
    prop_oneof![
        4 => add.prop_map(|(ports, weight, cap)| Change::Add { ports, weight, cap }),
        3 => any::<prop::sample::Index>().prop_map(|place| Change::Remove(place.index(1 << 16))),
        3 => Just(Change::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rates_are_those_of_a_solution_from_scratch(
        capacity in prop::collection::vec(prop_oneof![2 => Just(6.0), 1 => Just(0.0), 3 => 0.5..20.0], 12),
        changes in prop::collection::vec(change(), 1..120),
    ) {
        let mut network = Network::new(capacity);
        for change in changes {
            match change {
                Change::Add { ports, weight, cap } => {
                    network.add(&ports, weight, cap.unwrap_or(f64::INFINITY));
                }
                Change::Remove(place) => {
                    let slots: Vec<u32> = network.flows.keys().copied().collect();
                    if !slots.is_empty() {
                        network.remove(slots[place % slots.len()]);
                    }
                }
                Change::Settle => {
                    network.settle();
                    prop_assert!(network.error() <= 1e-9, "{}", network.error());
                }
            }
        }
        network.settle();
        prop_assert!(network.error() <= 1e-9, "{}", network.error());
    }
}

/// 1 - 0.2 - 0.3 - 0.1 and 1 - 0.3 - 0.1 - 0.2 differ in the last bit. A flow that gives way to an equal one leaves the others
/// as they are.
#[test]
fn rounding_changes_no_rate() {
    let mut network = Network::new(vec![1.0]);
    let capped = [0.2, 0.3, 0.1].map(|cap| network.add(&[0], 1.0, cap));
    let free = network.add(&[0], 1.0, f64::INFINITY);
    assert_eq!(network.settle(), 4);
    let rate = network.flows[&free].rate;
    network.remove(capped[0]);
    network.add(&[0], 1.0, 0.2);
    assert_eq!(network.settle(), 1);
    assert_eq!(network.flows[&free].rate, rate);
    // A rate that does change is reported.
    network.remove(capped[1]);
    assert_eq!(network.settle(), 1);
    assert_ne!(network.flows[&free].rate, rate);
}

/// Hosts, leaves and spines with hundreds of active flows on short and long paths: this causes deep chains of
/// bottlenecks, and rounding over ten thousand changes.
#[test]
fn nothing_drifts_over_many_changes() {
    let (hosts, leaves, spines) = (64_u32, 8, 3);
    let up = |host: u32| host;
    let down = |host: u32| hosts + host;
    let fabric =
        |leaf: u32, spine: u32, is_up: bool| 2 * hosts + 2 * (leaf * spines + spine) + u32::from(is_up);
    let mut network = Network::new(vec![10e9; (2 * hosts + 2 * leaves * spines) as usize]);
    let mut rng = Pcg64::seed_from_u64(1);
    let mut slots = Vec::new();
    for step in 0..10_000 {
        if slots.len() < 300 || rng.random_bool(0.5) {
            let [from, to] = [rng.random_range(0..hosts), rng.random_range(0..hosts)];
            let (spine, leaf) = (rng.random_range(0..spines), |host: u32| host % leaves);
            let ports = if leaf(from) == leaf(to) {
                vec![up(from), down(to)]
            } else {
                vec![up(from), fabric(leaf(from), spine, true), fabric(leaf(to), spine, false), down(to)]
            };
            let cap = if rng.random_bool(0.2) { 1e9 } else { f64::INFINITY };
            slots.push(network.add(&ports, 1.0, cap));
        } else {
            let place = rng.random_range(0..slots.len());
            network.remove(slots.swap_remove(place));
        }
        network.settle();
        if step % 50 == 0 {
            assert!(network.error() <= 1e-9, "{} at step {step}", network.error());
        }
    }
}

#[test]
fn a_change_reaches_no_further_than_its_bottlenecks() {
    // Ten flows share port 0 and continue over the wide port 2; ten other flows reach port 2 over port 1.
    let mut network = Network::new(vec![10.0, 10.0, 1000.0]);
    for _ in 0..10 {
        network.add(&[0, 2], 1.0, f64::INFINITY);
        network.add(&[1, 2], 1.0, f64::INFINITY);
    }
    assert_eq!(network.settle(), 20);
    let one = network.add(&[0, 2], 1.0, f64::INFINITY);
    assert_eq!(network.settle(), 11);
    network.remove(one);
    assert_eq!(network.settle(), 10);
    // A flow with a cap below its share takes rate from all flows or from none, depending on the free
    // capacity.
    network.add(&[2], 1.0, 5.0);
    assert_eq!(network.settle(), 1);
    network.add(&[0], 1.0, 0.5);
    assert_eq!(network.settle(), 11);
    assert!(network.error() <= 1e-12);
}

/// A port that fills where it was full before keeps its level to the last bit, though the rates that it divides are now subtracted in another order:
/// 1.3 - 0.1 - 0.2 - 0.3 and 1.3 - 0.2 - 0.3 - 0.1 differ. So a flow that comes has the same rate as one that has stayed.
#[test]
fn a_new_flow_has_the_rate_of_those_that_have_stayed() {
    let mut network = Network::new(vec![1.3]);
    let [first, _, _] = [0.1, 0.2, 0.3].map(|cap| network.add(&[0], 1.0, cap));
    let [stays, goes] = [f64::INFINITY; 2].map(|cap| network.add(&[0], 1.0, cap));
    network.settle();
    let rate = network.flows[&stays].rate;
    assert!((rate - 0.35).abs() < 1e-15, "{rate}");
    network.remove(first);
    network.remove(goes);
    let [capped, comes] = [0.1, f64::INFINITY].map(|cap| network.add(&[0], 1.0, cap));
    assert_eq!(network.settle(), 2);
    assert_eq!([capped, stays, comes].map(|slot| network.flows[&slot].rate), [0.1, rate, rate]);
}

#[test]
fn a_flow_may_go_before_it_has_a_rate() {
    let mut network = Network::new(vec![6.0, 2.0]);
    let first = network.add(&[0], 1.0, 1.0);
    network.remove(first);
    let second = network.add(&[0, 1], 1.0, f64::INFINITY);
    assert_eq!(second, first);
    network.settle();
    assert_eq!(network.flows[&second].rate, 2.0);
    network.remove(second);
    assert_eq!(network.settle(), 0);
}
