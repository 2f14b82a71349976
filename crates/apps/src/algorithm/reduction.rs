//! Reductions to all ranks (recursive doubling, Rabenseifner, ring), and similar algorithms for reduce,
//! reduce-scatter and scan.

use super::fold::Fold;
use super::{Part, Round, doublings};

/// Each rank exchanges the whole vector with the rank at distance 1, 2, 4 …; cost: log p (alpha + n beta).
pub(super) fn doubling(part: &Part, round: u32, into: &mut Round) -> bool {
    let fold = Fold::of(part.size);
    let extra = fold.extra();
    if round < extra {
        fold.before(part.me, part, |rank| rank, into);
    } else if round < extra + fold.rounds {
        if let Some(inner) = fold.inner(part.me) {
            swap(fold.outer(inner ^ (1 << (round - extra))), part.bytes, into);
        }
    } else if round < 2 * extra + fold.rounds {
        fold.after(part.me, part, into);
    } else {
        return false;
    }
    true
}

/// A reduce-scatter by recursive halving, then an allgather by recursive doubling; cost: 2 log p alpha + 2
/// (p - 1)/p n beta.
pub(super) fn rabenseifner(part: &Part, round: u32, into: &mut Round) -> bool {
    let fold = Fold::of(part.size);
    let (extra, rounds) = (fold.extra(), fold.rounds);
    if round < extra {
        fold.before(part.me, part, |rank| rank, into);
    } else if round < extra + 2 * rounds {
        if let Some(inner) = fold.inner(part.me) {
            let step = round - extra;
            let (distance, peer_half) =
                if step < rounds { (fold.power >> (step + 1), true) } else { (1 << (step - rounds), false) };
            let peer = inner ^ distance;
            let first = (if peer_half { peer } else { inner }) & !(distance - 1);
            swap(fold.outer(peer), part.cut(fold.power, first, first + distance), into);
        }
    } else if round < 2 * extra + 2 * rounds {
        fold.after(part.me, part, into);
    } else {
        return false;
    }
    true
}

/// Reduction to one rank: a reduce-scatter by recursive halving, then a binomial gather, counted from the
/// root.
pub(super) fn rabenseifner_reduce(part: &Part, round: u32, into: &mut Round) -> bool {
    let fold = Fold::of(part.size);
    let (extra, rounds, me) = (fold.extra(), fold.rounds, part.relative());
    if round >= extra + 2 * rounds {
        return false;
    }
    if round < extra {
        fold.before(me, part, |relative| part.absolute(relative), into);
        return true;
    }
    let Some(inner) = fold.inner(me) else { return true };
    let name = |inner: u32| part.absolute(fold.outer(inner));
    let step = round - extra;
    if step < rounds {
        let distance = fold.power >> (step + 1);
        let peer = inner ^ distance;
        let first = peer & !(distance - 1);
        swap(name(peer), part.cut(fold.power, first, first + distance), into);
    } else {
        // Ranks whose lower bits are not all zero have sent their data already.
        let distance = 1 << (step - rounds);
        if inner & (distance - 1) == 0 {
            if inner & distance != 0 {
                into.send(name(inner - distance), part.cut(fold.power, inner, inner + distance));
            } else {
                into.receive(name(inner + distance));
            }
        }
    }
    true
}

/// A reduce-scatter around the ring, then an allgather around the ring; cost: 2 (p - 1) (alpha + n/p beta).
pub(super) fn ring(part: &Part, round: u32, into: &mut Round) -> bool {
    let steps = part.size - 1;
    if round >= 2 * steps {
        return false;
    }
    let block = if round < steps { part.down(round) } else { part.up(1 + 2 * part.size - (round - steps)) };
    into.receive(part.down(1));
    into.send(part.up(1), part.cut(part.size, block, block + 1));
    true
}

/// Reduce-scatter for powers of two: each rank sends half of its remaining data to the other half of the
/// ranks.
pub(super) fn halving(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= part.size.ilog2() {
        return false;
    }
    let distance = part.size >> (round + 1);
    let peer = part.me ^ distance;
    let first = peer & !(distance - 1);
    swap(peer, (first..first + distance).map(|rank| part.block(rank)).sum(), into);
    true
}

/// Prefix sums: like recursive doubling, but without partners beyond the last rank.
pub(super) fn scan(part: &Part, round: u32, into: &mut Round) -> bool {
    if round >= doublings(part.size) {
        return false;
    }
    let peer = part.me ^ (1 << round);
    if peer < part.size {
        swap(peer, part.bytes, into);
    }
    true
}

fn swap(peer: u32, bytes: u64, into: &mut Round) {
    into.receive(peer);
    into.send(peer, bytes);
}
