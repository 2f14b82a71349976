//! Operations without a root and without reduction: barrier, allgather, all-to-all, and the pairwise reduce-scatter.

use super::{Part, Round, doublings};

/// A token to the rank at distance 1, 2, 4 … (Hensgen, Finkel and Manber 1988): ceil(log p) alpha.
pub(super) fn dissemination(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= doublings(part.size) {
        return false;
    }
    into.receive(part.down(1 << round));
    into.send(part.up(1 << round), 0);
    true
}

/// Blocks go around the ring: (p - 1) (alpha + n beta), n for the block of one rank.
pub(super) fn ring_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    if round + 1 >= part.size {
        return false;
    }
    into.receive(part.down(1));
    into.send(part.up(1), part.block(part.down(round)));
    true
}

/// For powers of two: the data of a rank double each round: log p alpha + (p - 1) n beta.
pub(super) fn doubling_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= part.size.ilog2() {
        return false;
    }
    let peer = part.me ^ (1 << round);
    into.receive(peer);
    into.send(peer, part.bytes << round);
    true
}

/// As many rounds as recursive doubling, for any size (Bruck et al. 1997).
pub(super) fn bruck_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= doublings(part.size) {
        return false;
    }
    let have = 1 << round;
    into.receive(part.up(have));
    into.send(part.down(have), part.bytes * u64::from(have.min(part.size - have)));
    true
}

/// Round k moves the blocks whose distance has bit k set (Bruck et al. 1997): for powers of two
/// log p (alpha + n p/2 beta).
pub(super) fn bruck_all_to_all(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= doublings(part.size) {
        return false;
    }
    let bit = 1 << round;
    let blocks = (0..part.size).filter(|distance| distance & bit != 0).count() as u64;
    into.receive(part.down(bit));
    into.send(part.up(bit), part.bytes * blocks);
    true
}

/// One partner per round: (p - 1) (alpha + n beta). For all-to-all and for reduce-scatter.
pub(super) fn pairwise(part: &Part, round: u32, into: &mut Round) -> bool {
    let step = round + 1;
    if step >= part.size {
        return false;
    }
    let (from, to) = if part.size.is_power_of_two() {
        (part.me ^ step, part.me ^ step)
    } else {
        (part.down(step), part.up(step))
    };
    into.receive(from);
    into.send(to, part.block(to));
    true
}

/// All receives and all sends of an all-to-all in one round, the next rank first.
pub(super) fn all_at_once(part: &Part, round: u32, into: &mut Round) -> bool {
    if round > 0 {
        return false;
    }
    for by in 1..part.size {
        into.receive(part.down(by));
        into.send(part.up(by), part.block(part.up(by)));
    }
    true
}
