//! Collective operations with a root: binomial trees, and the bcast of large vectors by scatter and
//! allgather.

use super::{Part, Round, doublings};

/// The distance to the parent in the binomial tree; for the root, the size of the smallest tree that contains
/// all ranks.
fn reach(part: &Part) -> u32 {
    let me = part.relative();
    if me == 0 { part.size.next_power_of_two() } else { 1 << me.trailing_zeros() }
}

/// Receives from the parent, then sends to the children, the farthest child first; cost: log p (alpha + n
/// beta).
pub(super) fn bcast(part: &Part, round: u32, into: &mut Round) -> bool {
    downwards(part, round, into, |_, _| part.bytes)
}

/// Each child receives the blocks of its subtree; cost: log p alpha + (p - 1) n beta, where n is the block
/// size of one rank.
pub(super) fn scatter(part: &Part, round: u32, into: &mut Round) -> bool {
    downwards(part, round, into, |from, to| part.bytes * u64::from(to - from))
}

/// In round 0 a rank receives from its parent; in later rounds it sends to the child at half of the distance
/// to the parent, then at a quarter, and so on.
fn downwards(part: &Part, round: u32, into: &mut Round, bytes: impl Fn(u32, u32) -> u64) -> bool {
    let (me, reach) = (part.relative(), reach(part));
    if round == 0 {
        if me > 0 {
            into.receive(part.absolute(me - reach));
        }
        return true;
    }
    let distance = reach >> round;
    if distance == 0 {
        return false;
    }
    if me + distance < part.size {
        let last = (me + 2 * distance).min(part.size);
        into.send(part.absolute(me + distance), bytes(me + distance, last));
    }
    true
}

/// A binomial bcast in reverse: each rank receives from its children first.
pub(super) fn reduce(part: &Part, round: u32, into: &mut Round) -> bool {
    upwards(part, round, into, |_, _| part.bytes)
}

/// A reduction up the tree, then a bcast down the tree; cost: 2 log p (alpha + n beta).
pub(super) fn reduce_and_bcast(part: &Part, round: u32, into: &mut Round) -> bool {
    let up = doublings(part.size);
    if round < up {
        reduce(part, round, into);
        return true;
    }
    bcast(part, round - up, into)
}

/// A binomial scatter in reverse.
pub(super) fn gather(part: &Part, round: u32, into: &mut Round) -> bool {
    upwards(part, round, into, |from, to| part.bytes * u64::from(to - from))
}

fn upwards(part: &Part, round: u32, into: &mut Round, bytes: impl Fn(u32, u32) -> u64) -> bool {
    let (me, distance) = (part.relative(), 1 << round);
    if distance > reach(part) || distance >= part.size.next_power_of_two() {
        return false;
    }
    if me & distance != 0 {
        into.send(part.absolute(me - distance), bytes(me, (me + distance).min(part.size)));
    } else if me + distance < part.size {
        into.receive(part.absolute(me + distance));
    }
    true
}

/// A binomial scatter of the vector's blocks, then an allgather around the ring (van de Geijn); cost: (log
/// p + p - 1) alpha + 2 (p - 1)/p n beta.
pub(super) fn scatter_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    // All ranks count the same number of scatter rounds, so that they begin the ring in the same round.
    let before = doublings(part.size) + 1;
    if round < before {
        downwards(part, round, into, |from, to| part.cut(part.size, from, to));
        return true;
    }
    let step = round - before;
    if step + 1 >= part.size {
        return false;
    }
    let block = (part.relative() + part.size - step) % part.size;
    into.receive(part.down(1));
    into.send(part.up(1), part.cut(part.size, block, block + 1));
    true
}

/// All ranks send to the root at once.
pub(super) fn gather_directly(part: &Part, round: u32, into: &mut Round) -> bool {
    if round > 0 {
        return false;
    }
    if part.me == part.root {
        (1..part.size).for_each(|by| into.receive(part.up(by)));
    } else {
        into.send(part.root, part.bytes);
    }
    true
}

/// The root sends to all ranks at once.
pub(super) fn scatter_directly(part: &Part, round: u32, into: &mut Round) -> bool {
    if round > 0 {
        return false;
    }
    if part.me == part.root {
        (1..part.size).for_each(|by| into.send(part.up(by), part.block(part.up(by))));
    } else {
        into.receive(part.root);
    }
    true
}
