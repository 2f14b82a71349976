//! The messages of one rank in one collective operation, connection by connection.

use super::layout::Branch;
use super::{Layout, Nccl, Pattern, model};
use crate::algorithm::{Kind, Part};

/// Slices of a chunk of a ring: a chunk has four steps of the buffer, a slice two (`ALLREDUCE_CHUNKSTEPS`).
const SLICES: u32 = 2;
/// Steps of the buffer in a slice of a ring (`ALLREDUCE_SLICESTEPS`). Other patterns send step by step.
const STEPS: u32 = 2;
/// A tree halves its messages down to each of these sizes while they are fewer than so many for each of its levels
/// (`calcCollChunking` in `src/enqueue.cc`).
const HALVINGS: [(u64, u64); 3] = [(8, 128 << 10), (4, 64 << 10), (1, 32 << 10)];
/// A smaller chunk is one slice (`genericOp` divides no further than a slice over 32).
const ONE_SLICE: u64 = 32 << 10;

/// What a rank sends on its connections, and what it waits for before.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) pattern: Pattern,
    pub(crate) outs: Vec<Out>,
    /// Number of incoming connections; those that carry nothing are counted in `idle`.
    pub(crate) ins: u32,
    pub(crate) idle: Vec<u32>,
}

/// An outgoing connection.
#[derive(Debug)]
pub(crate) struct Out {
    /// Position of the receiver in the communicator.
    pub(crate) to: u32,
    /// Number of the connection between the two ranks.
    pub(crate) lane: u16,
    /// The receiver's number of this incoming connection.
    pub(crate) slot: u32,
    /// Number of messages.
    pub(crate) total: u32,
    /// Messages under way at once: as many as the receiver's buffer has room for.
    pub(crate) window: u32,
    pub(crate) gate: Gate,
    sizes: Sizes,
}

/// What must have come before a message leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// Nothing: the data are the rank's own.
    Free,
    /// On this incoming connection: the slice of the step before, and everything of the loops before.
    Ring { slot: u32, slices: u32, per_loop: u32 },
    /// The message of the same number on all of these incoming connections.
    Same { first: u32, count: u32 },
}

#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// Bytes cut into equal messages.
    Equal(u64),
    /// Loops over blocks of `ranks` ranks; `place` is the sender's in the ring.
    Ring { bytes: u64, ranks: u32, place: u32, loops: u32, slices: u32 },
}

/// The part from `at` of `parts` equal parts.
fn cut(bytes: u64, parts: u32, at: u32) -> u64 {
    let edge = |part: u32| (u128::from(bytes) * u128::from(part) / u128::from(parts)) as u64;
    edge(at + 1) - edge(at)
}

impl Out {
    /// Size of a message, by its number.
    pub(crate) fn bytes(&self, message: u32) -> u64 {
        match self.sizes {
            Sizes::Equal(bytes) => cut(bytes, self.total, message),
            Sizes::Ring { bytes, ranks, place, loops, slices } => {
                let per_loop = self.total / loops;
                let (turn, within) = (message / per_loop, message % per_loop);
                let step = within / slices % ranks;
                let block = (place + ranks - step) % ranks;
                cut(cut(cut(bytes, loops, turn), ranks, block), slices, within % slices)
            }
        }
    }

    /// Messages that a connection sends again and again in the same way: a loop of a ring, or a step if a loop has more of these than there are
    /// loops.
    pub(crate) fn round(&self) -> u32 {
        match self.gate {
            Gate::Ring { slices, per_loop, .. } if self.total / per_loop < per_loop / slices => slices,
            Gate::Ring { per_loop, .. } => per_loop,
            Gate::Free | Gate::Same { .. } => 1,
        }
    }

    /// Messages behind the first `sent` that leave in the same way. Steps do so up to the end of a loop, where a ring stands still for a moment.
    pub(crate) fn left_alike(&self, sent: u32) -> u32 {
        let left = self.total - sent;
        match self.gate {
            Gate::Ring { per_loop, .. } if self.round() < per_loop => left.min(per_loop - sent % per_loop),
            _ => left,
        }
    }

    /// Whether a message may leave, given the numbers of messages that have come.
    pub(crate) fn is_open(&self, message: u32, received: &[u32]) -> bool {
        match self.gate {
            Gate::Free => true,
            Gate::Ring { slot, slices, per_loop } => {
                let (turn, within) = (message / per_loop, message % per_loop);
                let since = if within < slices { 0 } else { within - slices + 1 };
                received[slot as usize] >= turn * per_loop + since
            }
            Gate::Same { first, count } => {
                received[first as usize..(first + count) as usize].iter().all(|count| *count > message)
            }
        }
    }
}

/// Bytes of the whole vector of a call (`count` times the size of the type in nccl-tests' tables).
pub(crate) fn vector_bytes(kind: Kind, part: &Part) -> u64 {
    let ranks = u64::from(part.size);
    match kind {
        Kind::Allgather
        | Kind::ReduceScatter
        | Kind::Alltoall
        | Kind::Alltoallv
        | Kind::Gather
        | Kind::Scatter
            if part.counts.is_empty() =>
        {
            part.bytes.saturating_mul(ranks)
        }
        _ if !part.counts.is_empty() => part.counts.iter().fold(0, |sum, count| sum.saturating_add(*count)),
        _ => part.bytes,
    }
}

impl Plan {
    /// The plan of a rank.
    pub(crate) fn new(kind: Kind, part: &Part, layout: &Layout, settings: &Nccl) -> Plan {
        let bytes = vector_bytes(kind, part);
        let pattern = match kind {
            Kind::Alltoall | Kind::Alltoallv => Pattern::SendRecv,
            // A tree without slices pipelines nothing.
            Kind::Allreduce if settings.pattern.is_none() && settings.slice.is_none() => Pattern::Ring,
            Kind::Allreduce => {
                settings.pattern.unwrap_or_else(|| model::choose(settings, layout, part.size, bytes))
            }
            _ => Pattern::Ring,
        };
        match (pattern, kind) {
            (Pattern::SendRecv, _) => all_to_all(part, layout, settings),
            (Pattern::Tree, _) => trees(part, bytes, layout, settings),
            (Pattern::Ring, Kind::Bcast) => chain(part, bytes, layout, settings, true),
            (Pattern::Ring, Kind::Reduce) => chain(part, bytes, layout, settings, false),
            (Pattern::Ring, _) => ring(kind, part, bytes, layout, settings),
        }
    }
}

impl Nccl {
    /// Bytes of a step of the buffer; `None`: a block is one message.
    fn step(&self) -> Option<u64> {
        self.slice.map(|slice| (slice / u64::from(STEPS)).max(1))
    }

    /// Messages of a step each that a connection has under way.
    fn steps_in_flight(&self) -> u32 {
        self.in_flight.saturating_mul(STEPS)
    }
}

/// Number of messages of at most `most` bytes.
fn messages(bytes: u64, most: Option<u64>) -> u32 {
    most.map_or(1, |most| bytes.div_ceil(most).max(1).min(u64::from(u32::MAX)) as u32)
}

/// Reduce-scatter, all-gather, or both one after the other, around each channel's ring.
fn ring(kind: Kind, part: &Part, bytes: u64, layout: &Layout, settings: &Nccl) -> Plan {
    let (ranks, channels) = (part.size, layout.rings.len() as u32);
    let steps = if kind == Kind::Allreduce { 2 * (ranks - 1) } else { ranks - 1 };
    let out = |(channel, (order, place)): (u32, &(Vec<u32>, Vec<u32>))| {
        let bytes = cut(bytes, channels, channel);
        let chunk = settings.slice.map(|slice| slice * u64::from(SLICES));
        let loops =
            chunk.map_or(1, |chunk| bytes.div_ceil(chunk.saturating_mul(u64::from(ranks))).max(1) as u32);
        let is_whole = settings.slice.is_none() || bytes / u64::from(loops) / u64::from(ranks) <= ONE_SLICE;
        let slices = if is_whole { 1 } else { SLICES };
        let me = place[part.me as usize];
        Out {
            to: order[((me + 1) % ranks) as usize],
            lane: channel as u16,
            slot: channel,
            total: loops * steps * slices,
            window: settings.in_flight,
            gate: Gate::Ring { slot: channel, slices, per_loop: steps * slices },
            sizes: Sizes::Ring { bytes, ranks, place: me, loops, slices },
        }
    };
    let outs = (0..).zip(&layout.rings).map(out).collect();
    Plan { pattern: Pattern::Ring, outs, ins: channels, idle: Vec::new() }
}

/// From the root along each ring to its last rank (`to_all`), or along it to the root.
fn chain(part: &Part, bytes: u64, layout: &Layout, settings: &Nccl, to_all: bool) -> Plan {
    let (ranks, channels) = (part.size, layout.rings.len() as u32);
    let mut plan = Plan { pattern: Pattern::Ring, outs: Vec::new(), ins: channels, idle: Vec::new() };
    for (channel, (order, place)) in (0..).zip(&layout.rings) {
        let after_root = (place[part.me as usize] + ranks - place[part.root as usize]) % ranks;
        // The chain of a reduction begins after the root and ends with it.
        let at = if to_all { after_root } else { (after_root + ranks - 1) % ranks };
        if at == 0 {
            plan.idle.push(channel);
        }
        if at + 1 < ranks {
            let bytes = cut(bytes, channels, channel);
            let gate = if at == 0 { Gate::Free } else { Gate::Same { first: channel, count: 1 } };
            plan.outs.push(Out {
                to: order[((place[part.me as usize] + 1) % ranks) as usize],
                lane: channel as u16,
                slot: channel,
                total: messages(bytes, settings.step()),
                window: settings.steps_in_flight(),
                gate,
                sizes: Sizes::Equal(bytes),
            });
        }
    }
    plan
}

/// Incoming connections of a channel's tree: from the parent, and from up to three children.
const OF_TREE: u32 = 4;

/// Largest message of a tree. Few messages fill the levels of a tree badly, so vectors of medium size have smaller ones.
fn message_of_tree(bytes: u64, layout: &Layout, settings: &Nccl) -> Option<u64> {
    let mut message = settings.step()?;
    let depth = u64::from(layout.ranks_per_server() - 1 + layout.server_count().ilog2());
    for (of_each_level, least) in HALVINGS {
        while bytes / (layout.trees.len() as u64 * message) < depth * of_each_level && message > least {
            message /= 2;
        }
    }
    Some(message)
}

/// Up a tree and down again, in each channel.
fn trees(part: &Part, bytes: u64, layout: &Layout, settings: &Nccl) -> Plan {
    let channels = layout.trees.len() as u32;
    let most = message_of_tree(bytes, layout, settings);
    let mut plan =
        Plan { pattern: Pattern::Tree, outs: Vec::new(), ins: channels * OF_TREE, idle: Vec::new() };
    for (channel, branches) in (0..).zip(&layout.trees) {
        let Branch { parent, children } = &branches[part.me as usize];
        let (first, bytes) = (channel * OF_TREE, cut(bytes, channels, channel));
        let (total, window) = (messages(bytes, most), settings.steps_in_flight());
        let all = Gate::Same { first: first + 1, count: children.len() as u32 };
        let from_children = if children.is_empty() { Gate::Free } else { all };
        let mut push = |to: u32, slot: u32, gate: Gate| {
            let (lane, sizes) = (channel as u16, Sizes::Equal(bytes));
            plan.outs.push(Out { to, lane, slot, total, window, gate, sizes });
        };
        if let Some(parent) = parent {
            let mine = branches[*parent as usize].children.iter().position(|child| *child == part.me);
            push(*parent, first + 1 + mine.unwrap_or(0) as u32, from_children);
        }
        let down = if parent.is_some() { Gate::Same { first, count: 1 } } else { from_children };
        for child in children {
            push(*child, first, down);
        }
        if parent.is_none() {
            plan.idle.push(first);
        }
        plan.idle.extend(first + 1 + children.len() as u32..first + OF_TREE);
    }
    plan
}

/// A send to and a receive from each other rank, the nearest first.
fn all_to_all(part: &Part, layout: &Layout, settings: &Nccl) -> Plan {
    let server = layout.server_of(part.me);
    let out = |by: u32| {
        let to = part.up(by);
        let bytes = part.block(to);
        let is_near = server.contains(&to);
        let most = settings.step().map(|step| if is_near { step } else { step.min(settings.p2p_chunk) });
        Out {
            to,
            lane: 0,
            slot: part.me,
            total: messages(bytes, most),
            window: settings.steps_in_flight(),
            gate: Gate::Free,
            sizes: Sizes::Equal(bytes),
        }
    };
    let outs = (1..part.size).map(out).collect();
    Plan { pattern: Pattern::SendRecv, outs, ins: part.size, idle: vec![part.me] }
}
