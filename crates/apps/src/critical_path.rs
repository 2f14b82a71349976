//! The critical path of an application on a network without contention, computed from the trace without
//! running it.
//!
//! Every point in time of a rank and every arrival of a message is a node of a graph; a weighted edge leads
//! from each node to the nodes that depend on it. The n-th send pairs with the n-th receive, so receives from
//! any source or with any tag have no static path. The length of the longest path is exactly the time that a
//! replay must take. The critical path checks the replay, and shows what limits an application on a perfect
//! network.

use crate::algorithm::{self, Round};
use crate::application::{Application, Op, Program};
use crate::ideal::IdealNetwork;
use crate::rank::{context, part};
use crate::replay::{Fault, Options};
use pauseframe_units::{Bytes, Span};
use std::collections::BTreeMap;
use thiserror::Error;

/// The longest path through an application without contention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CriticalPath {
    /// Time from the start to the end of the last rank.
    pub length: Span,
    /// Compute time on the path.
    pub compute: Span,
    /// Network time on the path.
    pub network: Span,
    /// Number of messages on the path, including announcements and their answers.
    pub messages: u32,
    /// The rank at the end of the path.
    pub last_rank: u32,
}

/// Reasons why an application has no static path.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PathError {
    /// The partner of a step depends on timing.
    #[error("{0}")]
    Dynamic(Fault),
    /// A message is sent but not received, or received but not sent.
    #[error("rank {from} sends {sends} message(s) to rank {to} with tag {tag}, which receives {receives}")]
    Unpaired {
        /// World rank of the sender.
        from: u32,
        /// World rank of the receiver.
        to: u32,
        /// Tag; for collective operations, the sequence number of the operation.
        tag: i32,
        /// Number of messages sent.
        sends: usize,
        /// Number of messages received.
        receives: usize,
    },
    /// Steps wait for each other in a cycle.
    #[error("{0} moments wait for each other")]
    Cycle(usize),
    /// The order of two steps depends on timing.
    #[error("{0}")]
    Order(String),
}

type Node = u32;

/// An edge `from -> to`; its weight is the time between both nodes.
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

/// One side of a message: the send or the receive.
#[derive(Clone, Copy)]
struct Half {
    /// When the message is sent, or its receive is posted.
    begin: Node,
    /// When the message is complete for this side.
    end: Node,
    bytes: u64,
    /// The protocol of a send.
    protocol: Protocol,
}

/// How a message leaves its sender, and when the sender continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// The message leaves at once, and the sender continues at once.
    Eager,
    /// The message is announced first; the sender continues when the message has left.
    Rendezvous,
    /// The message leaves at once; the sender continues when it has left.
    Asynchronous,
}

/// The key for pairing messages: sender, receiver, context, tag.
type Key = (u32, u32, u32, i32);

struct Builder<'a> {
    application: &'a Application,
    options: &'a Options,
    network: IdealNetwork,
    nodes: u32,
    edges: Vec<Edge>,
    /// Sends and receives with the same key, in their order.
    halves: BTreeMap<Key, [Vec<Half>; 2]>,
    numbers: Vec<i32>,
    round: Round,
    /// Computations of programs with dependences: (rank, unit, begin, end).
    computing: Vec<(u32, u16, Node, Node)>,
    /// For each rank, whether its messages follow the order of its program.
    in_turn: Vec<bool>,
}

/// Finds the critical path of an application.
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

    /// Adds a node at the end of a new edge from `from`.
    fn after(&mut self, from: Node, weight: Span, kind: Weight) -> Node {
        let to = self.node();
        self.edge(from, to, weight, kind);
        to
    }

    fn order(&mut self, from: Node, to: Node) {
        self.edge(from, to, Span::ZERO, Weight::Order);
    }

    /// Adds a node that follows both nodes.
    fn join(&mut self, one: Node, other: Node) -> Node {
        let both = self.after(one, Span::ZERO, Weight::Order);
        self.order(other, both);
        both
    }

    /// Adds all steps of a rank; returns the node of its end.
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

    /// Adds a step that begins at node `at`; returns the node of its completion.
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
            Op::Wait(_) | Op::WaitAll { .. } | Op::Mark => at,
        })
    }

    /// The protocol of MPI for a message of this size.
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

    /// Pairs the n-th send of a key with the n-th receive of the same key.
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
                    // Messages with the same key do not overtake each other.
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

    /// Adds the edges of one message; returns the arrival of the message or announcement that is matched.
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

    /// Checks, for programs with dependences, that messages keep the order of the file and that computations
    /// on a unit do not overlap, as the path assumes.
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

/// The time at which each node of the graph occurs.
struct Times {
    at: Vec<Span>,
    /// For each node, the edge that determined its time.
    by: Vec<u32>,
}

impl Times {
    /// Computes the longest paths from node 0 in topological order (Kahn).
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
        // Of several ranks that end last, the lowest rank.
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
