//! Collective operations without a root and without a reduction: barrier, allgather, all-to-all; also the
//! pairwise reduce-scatter.

use super::{Part, Round, doublings};

/// Sends a token to the rank at distance 1, 2, 4 … (Hensgen, Finkel and Manber 1988); cost: ceil(log p) alpha.
pub(super) fn dissemination(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= doublings(part.size) {
        return false;
    }
    into.receive(part.down(1 << round));
    into.send(part.up(1 << round), 0);
    true
}

/// Blocks travel around the ring; cost: (p - 1) (alpha + n beta), where n is the block size of one rank.
pub(super) fn ring_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    if round + 1 >= part.size {
        return false;
    }
    into.receive(part.down(1));
    into.send(part.up(1), part.block(part.down(round)));
    true
}

/// For powers of two: the data of a rank doubles in each round; cost: log p alpha + (p - 1) n beta.
pub(super) fn doubling_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= part.size.ilog2() {
        return false;
    }
    let peer = part.me ^ (1 << round);
    into.receive(peer);
    into.send(peer, part.bytes << round);
    true
}

/// Needs as many rounds as recursive doubling, for any number of ranks (Bruck et al. 1997).
pub(super) fn bruck_allgather(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= doublings(part.size) {
        return false;
    }
    let have = 1 << round;
    into.receive(part.up(have));
    into.send(part.down(have), part.bytes * u64::from(have.min(part.size - have)));
    true
}

/// Round k moves the blocks whose distance has bit k set (Bruck et al. 1997); cost for powers of two: log p
/// (alpha + n p/2 beta).
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

/// Each rank has one partner per round; cost: (p - 1) (alpha + n beta), for all-to-all and reduce-scatter.
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

/// Posts all receives and sends of an all-to-all in one round, beginning with the next rank.
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
