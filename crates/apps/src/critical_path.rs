//! The critical path of an application on a network without contention, computed from its text without running it.
//!
//! Every moment of a rank and every arrival of a message is a node; edges with weights are dependences. Sends and
//! receives pair up by their order, so wildcard receives have no static path. The longest path is exactly the time of a
//! replay: it checks the replay, and shows what limits an application on a perfect network.

use crate::algorithm::{self, Round};
use crate::application::{Application, Op, Program};
use crate::ideal::IdealNetwork;
use crate::rank::{context, part};
use crate::replay::{Fault, Options};
use pauseframe_units::{Bytes, Span};
use std::collections::BTreeMap;
use thiserror::Error;

/// The critical path without contention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CriticalPath {
    /// Time from the start of the job to the end of the last rank.
    pub length: Span,
    /// Compute time on the path.
    pub compute: Span,
    /// Network time on the path.
    pub network: Span,
    /// Messages on the path, including announcements and answers.
    pub messages: u32,
    /// The rank at the end of the path.
    pub last_rank: u32,
}

/// The reason for a missing static path.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PathError {
    /// A step whose partner depends on timing.
    #[error("{0}")]
    Dynamic(Fault),
    /// A message that is sent and not received, or vice versa.
    #[error("rank {from} sends {sends} message(s) to rank {to} with tag {tag}, which receives {receives}")]
    Unpaired {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// Tag; the number of the operation for collective ones.
        tag: i32,
        /// Messages sent.
        sends: usize,
        /// Messages received.
        receives: usize,
    },
    /// Steps that wait for each other.
    #[error("{0} moments wait for each other")]
    Cycle(usize),
    /// The order of two steps depends on timing.
    #[error("{0}")]
    Order(String),
}

type Node = u32;

/// Edges `from -> to` with their durations.
struct Edge {
    from: Node,
    to: Node,
    weight: Span,
    kind: Weight,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Order,
    Compute,
    Message,
}

/// One side of a message.
#[derive(Clone, Copy)]
struct Half {
    /// Time when the message is sent or the receive is posted.
    begin: Node,
    /// Time when the operation is complete for its side.
    end: Node,
    bytes: u64,
    /// The protocol of a send.
    protocol: Protocol,
}

/// The way in which a message leaves its sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Eager: sent at once; the sender continues at once.
    Eager,
    /// Rendezvous: announced first; the sender continues when it has left.
    Rendezvous,
    /// Asynchronous: sent at once; the sender continues when it has left.
    Asynchronous,
}

/// The matching key of messages: sender, receiver, context, tag.
type Key = (u32, u32, u32, i32);

struct Builder<'a> {
    application: &'a Application,
    options: &'a Options,
    network: IdealNetwork,
    nodes: u32,
    edges: Vec<Edge>,
    /// Sends and receives in their order.
    halves: BTreeMap<Key, [Vec<Half>; 2]>,
    numbers: Vec<i32>,
    round: Round,
    /// (rank, unit, begin, end) of computation in programs with dependences.
    computing: Vec<(u32, u16, Node, Node)>,
    /// Whether the messages of this rank follow the order of its program.
    in_turn: Vec<bool>,
}

/// Finds the critical path.
///
/// # Errors
/// If the path depends on timing, or the application cannot finish.
pub fn critical_path(
    application: &Application,
    options: &Options,
    network: IdealNetwork,
) -> Result<CriticalPath, PathError> {
    let mut builder = Builder {
        application,
        options,
        network,
        nodes: 1,
        edges: Vec::new(),
        halves: BTreeMap::new(),
        numbers: Vec::new(),
        round: Round::default(),
        computing: Vec::new(),
        in_turn: application.programs.iter().map(|program| program.order.is_none()).collect(),
    };
    let mut ends = Vec::new();
    for (rank, program) in (0..).zip(&application.programs) {
        builder.numbers = vec![0; application.comms.len()];
        ends.push(builder.rank(rank, program)?);
    }
    builder.pair()?;
    let times = Times::of(builder.nodes, &builder.edges)?;
    builder.check_order(&times)?;
    Ok(times.path_to(&ends, &builder.edges))
}

impl Builder<'_> {
    fn node(&mut self) -> Node {
        self.nodes += 1;
        self.nodes - 1
    }

    fn edge(&mut self, from: Node, to: Node, weight: Span, kind: Weight) {
        self.edges.push(Edge { from, to, weight, kind });
    }

    /// Adds a node after another.
    fn after(&mut self, from: Node, weight: Span, kind: Weight) -> Node {
        let to = self.node();
        self.edge(from, to, weight, kind);
        to
    }

    fn order(&mut self, from: Node, to: Node) {
        self.edge(from, to, Span::ZERO, Weight::Order);
    }

    /// The moment at which both have happened.
    fn join(&mut self, one: Node, other: Node) -> Node {
        let both = self.after(one, Span::ZERO, Weight::Order);
        self.order(other, both);
        both
    }

    /// Adds all steps of a rank; returns the moment of its end.
    fn rank(&mut self, rank: u32, program: &Program) -> Result<Node, PathError> {
        match &program.order {
            None => self.in_turn(rank, program),
            Some(order) => {
                let steps = program.ops.len();
                let begin: Vec<Node> = (0..steps).map(|_| self.after(0, Span::ZERO, Weight::Order)).collect();
                let mut ends = Vec::with_capacity(steps);
                for (step, &at) in begin.iter().enumerate() {
                    let end = self.step(rank, program, step, at)?;
                    if matches!(program.ops[step], Op::Compute(_)) {
                        self.computing.push((rank, order.units[step], at, end));
                    }
                    ends.push(end);
                }
                for &(earlier, later) in &order.after_end {
                    self.order(ends[earlier as usize], begin[later as usize]);
                }
                for &(earlier, later) in &order.after_start {
                    self.order(begin[earlier as usize], begin[later as usize]);
                }
                let last = self.node();
                self.order(0, last);
                for &end in &ends {
                    self.order(end, last);
                }
                Ok(last)
            }
        }
    }

    fn in_turn(&mut self, rank: u32, program: &Program) -> Result<Node, PathError> {
        let mut slots: Vec<Node> = vec![0; program.slots()];
        let mut now = 0;
        for (step, op) in program.ops.iter().enumerate() {
            match *op {
                Op::Wait(slot) => now = self.join(now, slots[slot as usize]),
                Op::WaitAll { first, count } => {
                    for &slot in program.waited(first, count) {
                        now = self.join(now, slots[slot as usize]);
                    }
                }
                Op::Send { request: Some(slot), .. }
                | Op::Receive { request: Some(slot), .. }
                | Op::Collective { request: Some(slot), .. } => {
                    slots[slot as usize] = self.step(rank, program, step, now)?;
                }
                _ => now = self.step(rank, program, step, now)?,
            }
        }
        Ok(now)
    }

    /// Adds a step; returns the moment at which it is complete.
    fn step(&mut self, rank: u32, program: &Program, step: usize, at: Node) -> Result<Node, PathError> {
        let dynamic = |reason: &str| {
            let line = program.line(step);
            PathError::Dynamic(Fault { rank, line, step: step as u32, reason: reason.to_owned() })
        };
        Ok(match program.ops[step] {
            Op::Compute(span) => self.after(at, self.options.scaled(span), Weight::Compute),
            Op::Send { to, tag, comm, bytes, .. } => {
                let asynchronous = program.order.as_ref().is_some_and(|order| order.asynchronous_sends);
                let protocol = if asynchronous { Protocol::Asynchronous } else { self.protocol(bytes) };
                self.send((rank, to, context(comm, false), tag), at, bytes, protocol)
            }
            Op::Receive { from: Some(from), tag: Some(tag), comm, .. } => {
                self.receive((from, rank, context(comm, false), tag), at)
            }
            Op::Receive { .. } => {
                return Err(dynamic("a receive from any source or with any tag has no static partner"));
            }
            Op::Collective { call, .. } => self.collective(rank, program, call, at),
            Op::Wait(_) | Op::WaitAll { .. } => at,
        })
    }

    /// The protocol for a message of this size in MPI.
    fn protocol(&self, bytes: u64) -> Protocol {
        if bytes > self.options.eager_limit { Protocol::Rendezvous } else { Protocol::Eager }
    }

    fn send(&mut self, key: Key, begin: Node, bytes: u64, protocol: Protocol) -> Node {
        let end = if protocol != Protocol::Eager && key.0 != key.1 { self.node() } else { begin };
        self.halves.entry(key).or_default()[0].push(Half { begin, end, bytes, protocol });
        end
    }

    fn receive(&mut self, key: Key, begin: Node) -> Node {
        let end = self.after(begin, Span::ZERO, Weight::Order);
        self.halves.entry(key).or_default()[1].push(Half { begin, end, bytes: 0, protocol: Protocol::Eager });
        end
    }

    fn collective(&mut self, rank: u32, program: &Program, call: u32, mut at: Node) -> Node {
        let call = &program.calls[call as usize];
        let part = part(self.application, call, rank);
        let algorithm = self.options.algorithms.choose(call, part.size);
        let number = call.number.map_or(self.numbers[call.comm as usize], |number| number as i32);
        self.numbers[call.comm as usize] += 1;
        let context = context(call.comm, true);
        let members = self.application.comms[call.comm as usize].members();
        let mut round = std::mem::take(&mut self.round);
        for turn in 0.. {
            if !algorithm::round(algorithm, call.kind, &part, turn, &mut round) {
                break;
            }
            let mut end = at;
            for &from in &round.receives {
                let done = self.receive((members[from as usize], rank, context, number), at);
                end = self.join(end, done);
            }
            for &(to, bytes) in &round.sends {
                let protocol = self.protocol(bytes);
                let done = self.send((rank, members[to as usize], context, number), at, bytes, protocol);
                if done != at {
                    end = self.join(end, done);
                }
            }
            at = end;
        }
        self.round = round;
        at
    }

    /// The n-th send under a key matches its n-th receive.
    fn pair(&mut self) -> Result<(), PathError> {
        let by_key = std::mem::take(&mut self.halves);
        for (&(from, to, context, tag), [sends, receives]) in &by_key {
            if sends.len() != receives.len() {
                let (sends, receives) = (sends.len(), receives.len());
                return Err(PathError::Unpaired { from, to, tag, sends, receives });
            }
            let mut before = None;
            for (send, receive) in sends.iter().zip(receives) {
                if from == to {
                    self.order(send.begin, receive.end);
                } else {
                    let arrival = self.transfer(send, receive);
                    // Messages under one key do not overtake each other.
                    if let Some(before) = before.replace(arrival) {
                        self.order(before, arrival);
                    }
                }
            }
            let _ = context;
        }
        self.halves = by_key;
        Ok(())
    }

    /// Edges of one message; the arrival of what matching looks at.
    fn transfer(&mut self, send: &Half, receive: &Half) -> Node {
        let header = self.options.envelope;
        let wire = |bytes: u64| self.network.rate.serialise(Bytes(bytes));
        let (small, whole) = (wire(header), wire(header + send.bytes));
        let latency = self.network.latency;
        if send.protocol != Protocol::Rendezvous {
            if send.protocol == Protocol::Asynchronous {
                self.edge(send.begin, send.end, whole, Weight::Message);
            }
            let arrival = self.after(send.begin, latency + whole, Weight::Message);
            self.order(arrival, receive.end);
            return arrival;
        }
        let arrival = self.after(send.begin, latency + small, Weight::Message);
        let met = self.join(arrival, receive.begin);
        let asked = self.after(met, latency + small, Weight::Message);
        self.edge(asked, send.end, whole, Weight::Message);
        self.edge(asked, receive.end, latency + whole, Weight::Message);
        arrival
    }

    /// In programs that go by dependences, what was taken in the order of the file must have happened in it.
    fn check_order(&self, times: &Times) -> Result<(), PathError> {
        for (&(from, to, _, tag), halves) in &self.halves {
            for (side, rank) in [(0, from), (1, to)] {
                let free = !self.in_turn[rank as usize];
                let begins = halves[side].windows(2).map(|pair| [pair[0].begin, pair[1].begin]);
                let turned = |pair: &[Node; 2]| times.at[pair[0] as usize] > times.at[pair[1] as usize];
                if free && begins.into_iter().any(|pair| turned(&pair)) {
                    let what = format!("messages from rank {from} to rank {to} with tag {tag}");
                    return Err(PathError::Order(format!("the order of {what} depends on timing")));
                }
            }
        }
        let mut computing: Vec<_> = self
            .computing
            .iter()
            .map(|&(rank, unit, begin, end)| (rank, unit, times.at[begin as usize], times.at[end as usize]))
            .collect();
        computing.sort_unstable();
        for pair in computing.windows(2) {
            let [(rank, unit, _, end), (next_rank, next_unit, begin, _)] = [pair[0], pair[1]];
            if (rank, unit) == (next_rank, next_unit) && begin < end {
                let reason = format!("rank {rank} computes two things at once on unit {unit}");
                return Err(PathError::Order(format!("{reason}: which goes first depends on timing")));
            }
        }
        Ok(())
    }
}

/// Time of each node.
struct Times {
    at: Vec<Span>,
    /// The edge that decided this time.
    by: Vec<u32>,
}

impl Times {
    /// Longest ways from node 0, in topological order (Kahn).
    fn of(nodes: u32, edges: &[Edge]) -> Result<Times, PathError> {
        let count = nodes as usize;
        let (mut first, mut needs) = (vec![0_u32; count + 1], vec![0_u32; count]);
        for edge in edges {
            first[edge.from as usize + 1] += 1;
            needs[edge.to as usize] += 1;
        }
        for node in 0..count {
            first[node + 1] += first[node];
        }
        let mut place = first.clone();
        let mut leaving = vec![0_u32; edges.len()];
        for (index, edge) in (0..).zip(edges) {
            leaving[place[edge.from as usize] as usize] = index;
            place[edge.from as usize] += 1;
        }
        let (mut at, mut by) = (vec![Span::ZERO; count], vec![u32::MAX; count]);
        let mut ready: Vec<Node> = (0..nodes).filter(|&node| needs[node as usize] == 0).collect();
        let mut left = count;
        while let Some(node) = ready.pop() {
            left -= 1;
            for &index in &leaving[first[node as usize] as usize..first[node as usize + 1] as usize] {
                let edge = &edges[index as usize];
                let (to, time) = (edge.to as usize, at[node as usize] + edge.weight);
                if time > at[to] || by[to] == u32::MAX {
                    (at[to], by[to]) = (time.max(at[to]), index);
                }
                needs[to] -= 1;
                if needs[to] == 0 {
                    ready.push(edge.to);
                }
            }
        }
        if left > 0 { Err(PathError::Cycle(left)) } else { Ok(Times { at, by }) }
    }

    fn path_to(&self, ends: &[Node], edges: &[Edge]) -> CriticalPath {
        // The lowest rank among the last.
        let last = (0..ends.len()).rev().max_by_key(|&rank| self.at[ends[rank] as usize]).unwrap_or(0);
        let mut node = ends.get(last).copied().unwrap_or(0);
        let mut path = CriticalPath {
            length: self.at[node as usize],
            compute: Span::ZERO,
            network: Span::ZERO,
            messages: 0,
            last_rank: last as u32,
        };
        while let Some(edge) = edges.get(self.by[node as usize] as usize) {
            match edge.kind {
                Weight::Compute => path.compute += edge.weight,
                Weight::Message => {
                    path.network += edge.weight;
                    path.messages += 1;
                }
                Weight::Order => {}
            }
            node = edge.from;
        }
        path
    }
}
