//! Memory of steps: rounds of messages that repeat are replayed, and nobody can tell by the results.

use crate::common::*;
use crate::rdma::{NO_CONTROL, red, roce};
use pauseframe_fabric::{
    ApplicationMessage, FlowRecord, FlowSpec, Network, PauseInterval, PortPriorityReport, Settings,
    StepMemoryReport, StepMemorySettings, Workload,
};
use pauseframe_rdma::cc::ControlName;
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::{leaf_spine, star};
use pauseframe_units::{NodeId, Span, Time};
use proptest::prelude::*;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// A message of a round: from, to, bytes, and whether the receiver answers with a message of the same size.
type RoundMessage = (usize, usize, u64, bool);

/// Rounds of messages; a round begins `gap` after the last message of the one before has arrived and been sent.
#[derive(Debug)]
struct Rounds {
    hosts: Vec<NodeId>,
    left: VecDeque<(Span, Vec<RoundMessage>)>,
    next: Option<Time>,
    due: VecDeque<ApplicationMessage>,
    /// By token: the message, and whether its answer is due.
    sent: Vec<RoundMessage>,
    under_way: usize,
    seen: Vec<(u32, Time, bool)>,
}

impl Rounds {
    fn new(topology: &Topology, rounds: &[(Span, Vec<RoundMessage>)]) -> Rounds {
        Rounds {
            hosts: topology.hosts().collect(),
            left: rounds.iter().cloned().collect(),
            next: Some(Time::ZERO),
            due: VecDeque::new(),
            sent: Vec::new(),
            under_way: 0,
            seen: Vec::new(),
        }
    }

    fn send(&mut self, message: RoundMessage) {
        let (from, to, bytes, _) = message;
        let token = self.sent.len() as u32;
        self.sent.push(message);
        // Arrival and departure are both reported.
        self.under_way += 2;
        let connection = (from.min(to) * self.hosts.len() + from.max(to)) as u32;
        let (from, to) = (self.hosts[from], self.hosts[to]);
        self.due.push_back(ApplicationMessage {
            connection,
            from,
            to,
            bytes,
            token,
            notify: true,
            transport: 0,
        });
    }

    fn end_part(&mut self, token: u32, now: Time, is_sent: bool) {
        self.seen.push((token, now, is_sent));
        self.under_way -= 1;
        let (from, to, bytes, answers) = self.sent[token as usize];
        if answers && !is_sent {
            self.send((to, from, bytes, false));
        }
        if self.under_way == 0 {
            self.next = self.left.front().map(|(gap, _)| now + *gap);
        }
    }
}

impl Workload for Rounds {
    fn next_start_time(&self) -> Option<Time> {
        self.next
    }
    fn next_flow(&mut self) -> FlowSpec {
        unreachable!("it has messages only")
    }
    fn on_start_time(&mut self, _now: Time) {
        self.next = None;
        let (_, messages) = self.left.pop_front().unwrap();
        for message in messages {
            self.send(message);
        }
    }
    fn next_message(&mut self) -> Option<ApplicationMessage> {
        self.due.pop_front()
    }
    fn on_message_delivered(&mut self, token: u32, now: Time) {
        self.end_part(token, now, false);
    }
    fn on_message_sent(&mut self, token: u32, now: Time) {
        self.end_part(token, now, true);
    }
    fn has_sent_all(&self) -> bool {
        self.left.is_empty() && self.under_way == 0 && self.due.is_empty()
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// What a user can see of a run.
#[derive(PartialEq, Debug)]
struct Outcome {
    seen: Vec<(u32, Time, bool)>,
    flows: Vec<FlowRecord>,
    ports: Vec<PortPriorityReport>,
    received: Vec<Vec<u64>>,
    pauses: Vec<PauseInterval>,
    end: Time,
    hops: u64,
}

/// Replays what was equal twice.
const EQUAL: StepMemorySettings = StepMemorySettings { bound: 0.0, checks: false, seed: 1 };

fn run_rounds(
    topology: &Topology,
    settings: &Settings,
    rounds: &[(Span, Vec<RoundMessage>)],
    memory: Option<StepMemorySettings>,
) -> (Outcome, Option<StepMemoryReport>) {
    let routes = Arc::new(NextHops::shortest(topology).unwrap());
    let workload = Box::new(Rounds::new(topology, rounds));
    let mut network =
        Network::new(Arc::new(topology.clone()), routes, Arc::new(settings.clone()), vec![workload], true);
    network.enable_pause_log(100_000);
    if let Some(memory) = memory {
        network.remember_steps(memory);
    }
    let ending = proceed(&mut network, Time::ZERO + Span::from_secs(100));
    let told = network.workload(0).as_any().unwrap().downcast_ref::<Rounds>().unwrap();
    let seen = told.seen.clone();
    let mut ports = network.port_reports(ending.now);
    // Sums of floating-point numbers in another order.
    for port in &mut ports {
        port.backlog_mean = (port.backlog_mean * 1e3).round();
    }
    let outcome = Outcome {
        seen,
        ports,
        received: network.throughput_series().goodput_by_interval().map(<[u64]>::to_vec).collect(),
        pauses: network.pause_intervals().to_vec(),
        hops: network.total_packet_hops(),
        flows: network.flow_records(ending.now),
        end: ending.now,
    };
    (outcome, network.step_memory_report())
}

/// The same, with bytes received in all: a replayed message counts when it has arrived, not packet by packet.
fn in_all(mut outcome: Outcome) -> Outcome {
    let total = |workload: usize| outcome.received.iter().map(|row| row[workload]).sum();
    outcome.received = vec![vec![total(0)]];
    outcome
}

fn check_equal(
    topology: &Topology,
    settings: &Settings,
    rounds: &[(Span, Vec<RoundMessage>)],
) -> StepMemoryReport {
    // The run ends with its last message, while ACKs are still on their way: a replayed step would have them all.
    let rounds: Vec<_> = rounds.iter().cloned().chain([(GAP, vec![(0, 1, 77, false)])]).collect();
    let (simulated, _) = run_rounds(topology, settings, &rounds, None);
    let (remembered, report) = run_rounds(topology, settings, &rounds, Some(EQUAL));
    let (report, one, other) = (report.unwrap(), in_all(remembered), in_all(simulated));
    let first = one.seen.iter().zip(&other.seen).find(|(one, other)| one != other);
    assert_eq!(first, None, "{report:?}");
    assert_eq!((one.end, one.hops, &one.received), (other.end, other.hops, &other.received), "{report:?}");
    let first = one.flows.iter().zip(&other.flows).find(|(one, other)| one != other);
    assert_eq!(first, None, "{report:?}");
    let first = one.ports.iter().zip(&other.ports).find(|(one, other)| one != other);
    assert_eq!(first, None, "{report:?}");
    assert!(one == other, "numbers of rows differ: {report:?}");
    report
}

/// Everybody sends to everybody.
fn all_to_all(hosts: usize, bytes: u64) -> Vec<RoundMessage> {
    let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).map(|(from, to)| (from, to, bytes, false)).collect()
}

const GAP: Span = Span::from_us(50);

/// Everybody sends to one host: pauses, and their causes, are replayed too.
#[test]
fn pauses_are_replayed() {
    let wire = link(100, Span::from_us(1));
    let topology = leaf_spine(2, 1, 4, wire, wire).unwrap();
    let incast: Vec<_> = (1..8).map(|from| (from, 0, 400_000, false)).collect();
    let rounds = vec![(GAP, incast); 20];
    let report = check_equal(&topology, &roce(NO_CONTROL), &rounds);
    assert!(report.replayed >= 12, "{report:?}");
    let (outcome, _) = run_rounds(&topology, &roce(NO_CONTROL), &rounds, Some(EQUAL));
    assert!(outcome.pauses.len() >= 20 && outcome.pauses.iter().any(|pause| !pause.parents.is_empty()));
}

#[test]
fn equal_rounds_are_simulated_three_times_or_so() {
    let topology = star(4, link(100, Span::from_us(1))).unwrap();
    let rounds = vec![(GAP, all_to_all(4, 100_000)); 40];
    let report = check_equal(&topology, &roce(NO_CONTROL), &rounds);
    // The last step has not ended.
    assert_eq!((report.steps, report.failed), (40, 0), "{report:?}");
    assert!(report.replayed >= 30, "{report:?}");
    assert!(report.compared > 0 && report.beyond_bound == 0, "{report:?}");
}

/// A chain of answers: orders that depend on reports.
#[test]
fn answers_are_replayed_too() {
    let topology = leaf_spine(2, 2, 2, link(100, Span::from_us(1)), link(100, Span::from_us(1))).unwrap();
    let round = vec![(0, 2, 70_000, true), (1, 3, 20_000, true), (3, 0, 1_000, false)];
    let report = check_equal(&topology, &roce(NO_CONTROL), &vec![(GAP, round); 30]);
    assert!(report.replayed >= 20, "{report:?}");
}

/// A round that begins like another and goes on otherwise: the network simulates it after all.
#[test]
fn a_round_that_turns_out_different_is_simulated_from_its_begin() {
    let topology = star(3, link(100, Span::from_us(1))).unwrap();
    // The answer comes late, after the first reports have been given.
    let usual = vec![(0, 1, 50_000, true), (1, 2, 500_000, false)];
    let other = vec![(0, 1, 50_000, false), (1, 2, 500_000, false)];
    let mut rounds = vec![(GAP, usual); 12];
    rounds.insert(9, (GAP, other));
    let report = check_equal(&topology, &roce(NO_CONTROL), &rounds);
    assert!(report.failed >= 1 && report.replayed >= 4, "{report:?}");
}

/// Two rounds that begin alike, in any order: once both are known, one goes on where the other ends to agree.
#[test]
fn rounds_that_begin_alike_are_replayed() {
    let topology = star(3, link(100, Span::from_us(1))).unwrap();
    let longer = vec![(0, 1, 50_000, true), (1, 2, 500_000, false)];
    let shorter = vec![(0, 1, 50_000, false), (1, 2, 500_000, false)];
    let kind = |n: usize| if n.is_multiple_of(3) { longer.clone() } else { shorter.clone() };
    let rounds: Vec<_> = (0..60).map(|n| (GAP, kind(n))).collect();
    let report = check_equal(&topology, &roce(NO_CONTROL), &rounds);
    assert!(report.failed <= 4 && report.replayed >= 45, "{report:?}");
}

/// Everybody sends to host 0 through a marker, then others exchange messages again and again, then the first do the same as before: rates have recovered
/// meanwhile, although all that was replayed.
#[test]
fn rates_recover_while_steps_are_replayed() {
    let incast: Vec<_> = (1..5).map(|from| (from, 0, 2_000_000, false)).collect();
    let mut rounds = vec![(GAP, incast.clone())];
    rounds.extend(vec![(GAP, vec![(5, 6, 2_000_000, false)]); 100]);
    rounds.push((GAP, incast));
    rounds.push((GAP, vec![(5, 6, 77, false)]));
    let (full, with_replays, report) = ends_of_rounds(&rounds, 0.001);
    assert!(report.replayed >= 85, "{report:?}");
    assert_eq!(full[101], with_replays[101], "the incast ends as in a full run");
}

/// An incast that cuts rates is repeated, then one of its senders sends alone: at the rate at which the last replayed incast has left it.
#[test]
fn replayed_steps_leave_the_rates_that_they_cut() {
    let mut rounds = vec![(GAP, (1..5).map(|from| (from, 0, 400_000, false)).collect::<Vec<_>>()); 60];
    rounds.push((GAP, vec![(1, 0, 2_000_000, false)]));
    rounds.push((GAP, vec![(5, 6, 77, false)]));
    let (full, with_replays, report) = ends_of_rounds(&rounds, 0.02);
    assert!(report.replayed >= 20, "{report:?}");
    let took = |ends: &[Time]| (ends[60] - ends[59]).0 as f64;
    let line_rate = 2_000_000.0 * 80.0 * 1.07;
    assert!(took(&full) > 1.2 * line_rate, "{} of {line_rate}: rates are cut", took(&full));
    let ratio = took(&with_replays) / took(&full);
    assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
}

/// When each round has ended: in a full simulation, and with replays within a bound.
fn ends_of_rounds(
    rounds: &[(Span, Vec<RoundMessage>)],
    bound: f64,
) -> (Vec<Time>, Vec<Time>, StepMemoryReport) {
    let topology = star(7, link(100, Span::from_us(1))).unwrap();
    let settings = Settings { marker: red(20_000, 200_000, 0.2), ..roce(ControlName::DcqcnHpcc) };
    let ends = |outcome: &Outcome| {
        let mut last = 0;
        let of_round = |(_, messages): &(Span, Vec<RoundMessage>)| {
            last += 2 * messages.len();
            outcome.seen[..last].iter().map(|(_, at, _)| *at).max().unwrap()
        };
        rounds.iter().map(of_round).collect::<Vec<_>>()
    };
    let (full, _) = run_rounds(&topology, &settings, rounds, None);
    let memory = StepMemorySettings { bound, checks: false, seed: 1 };
    let (with_replays, report) = run_rounds(&topology, &settings, rounds, Some(memory));
    (ends(&full), ends(&with_replays), report.unwrap())
}

fn drawn_round() -> impl Strategy<Value = Vec<RoundMessage>> {
    let message = (0usize..4, 1usize..4, 1u64..200_000, any::<bool>());
    let message = message.prop_map(|(from, step, bytes, answers)| (from, (from + step) % 4, bytes, answers));
    prop::collection::vec(message, 1..6)
}

/// Two kinds of rounds in any order, with gaps of two lengths.
fn drawn_rounds() -> impl Strategy<Value = Vec<(Span, Vec<RoundMessage>)>> {
    let order = prop::collection::vec((any::<bool>(), any::<bool>()), 10..30);
    (drawn_round(), drawn_round(), order).prop_map(|(one, other, order)| {
        let gap = |is_long| if is_long { Span::from_us(300) } else { Span::from_us(30) };
        let kind = |is_first| if is_first { one.clone() } else { other.clone() };
        order.into_iter().map(|(is_long, is_first)| (gap(is_long), kind(is_first))).collect()
    })
}

fn drawn_topology() -> impl Strategy<Value = Topology> {
    let wire = link(100, Span::from_us(1));
    prop_oneof![Just(star(4, wire).unwrap()), Just(leaf_spine(2, 2, 2, wire, wire).unwrap())]
}

/// Every message is sent and arrives once, in the order of time, and no byte is missing anywhere.
fn check_messages(
    topology: &Topology,
    settings: &Settings,
    rounds: &[(Span, Vec<RoundMessage>)],
    bound: f64,
) -> [Outcome; 2] {
    let (simulated, _) = run_rounds(topology, settings, rounds, None);
    let (remembered, report) =
        run_rounds(topology, settings, rounds, Some(StepMemorySettings { bound, ..EQUAL }));
    let parts = |outcome: &Outcome| {
        let mut parts: Vec<_> = outcome.seen.iter().map(|(token, _, is_sent)| (*token, *is_sent)).collect();
        parts.sort_unstable();
        parts
    };
    assert_eq!(parts(&remembered), parts(&simulated), "{report:?}");
    assert!(remembered.seen.is_sorted_by_key(|(_, at, _)| *at));
    let bytes = |outcome: &Outcome| outcome.flows.iter().map(|flow| flow.delivered).collect::<Vec<_>>();
    assert_eq!(bytes(&remembered), bytes(&simulated));
    let [simulated, remembered] = [simulated, remembered].map(in_all);
    assert_eq!(remembered.received, simulated.received);
    [simulated, remembered]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// What results do not show (whose turn it is in a NIC, when the last ACK was sent) may differ after a replay: times by little, bytes not at all.
    #[test]
    fn every_message_arrives_once(
        topology in drawn_topology(),
        rounds in drawn_rounds(),
        control in prop_oneof![Just(NO_CONTROL), Just(ControlName::DcqcnConnectx), Just(ControlName::DcqcnPaper)],
        marks_at in prop_oneof![Just(20_000), Just(150_000), Just(1 << 40)],
        bound in prop_oneof![Just(0.0), Just(0.01)],
    ) {
        let settings = Settings { marker: step(marks_at), ..roce(control) };
        let [simulated, remembered] = check_messages(&topology, &settings, &rounds, bound);
        if control == NO_CONTROL {
            let difference = simulated.end.0.abs_diff(remembered.end.0) as f64 / simulated.end.0 as f64;
            prop_assert!(difference < 0.02, "{} against {}", remembered.end, simulated.end);
        }
    }

    /// TCP also keeps windows and the parity of delayed ACKs.
    #[test]
    fn every_message_of_tcp_arrives_once(topology in drawn_topology(), rounds in drawn_rounds(), bound in 0.0..0.1) {
        check_messages(&topology, &settings(config()), &rounds, bound);
    }

    /// A check changes nothing, and tells how often it would have replayed.
    #[test]
    fn a_check_changes_nothing(topology in drawn_topology(), rounds in drawn_rounds(), is_tcp in any::<bool>()) {
        let settings = if is_tcp { settings(config()) } else { roce(NO_CONTROL) };
        let (simulated, _) = run_rounds(&topology, &settings, &rounds, None);
        let memory = StepMemorySettings { bound: 0.001, checks: true, seed: 1 };
        let (checked, report) = run_rounds(&topology, &settings, &rounds, Some(memory));
        prop_assert_eq!(checked, simulated);
        let report = report.unwrap();
        prop_assert!(report.replayed == report.compared && report.steps <= rounds.len() as u64, "{:?}", report);
    }
}
