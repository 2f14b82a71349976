//! Handles communicators whose size is not a power of two: some ranks send their vector to a neighbour and
//! wait.

use super::{Part, Round};

/// The largest power of two in a communicator, and the active ranks. Among the first 2 r ranks, each odd rank
/// sends its vector to the even rank before it; rank 0 is always active (Thakur et al. 2005 §4.4, mirrored).
#[derive(Clone, Copy)]
pub(super) struct Fold {
    /// Number of active ranks: a power of two.
    pub(super) power: u32,
    /// Binary logarithm of `power`.
    pub(super) rounds: u32,
    /// Number of pairs in which one rank waits.
    rest: u32,
}

impl Fold {
    pub(super) fn of(size: u32) -> Fold {
        let rounds = size.ilog2();
        Fold { power: 1 << rounds, rounds, rest: size - (1 << rounds) }
    }

    /// Number of additional rounds before and after the operation: 0 or 1.
    pub(super) fn extra(self) -> u32 {
        u32::from(self.rest > 0)
    }

    /// The number of a rank among the active ranks; `None` for a waiting rank.
    pub(super) fn inner(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.rest {
            Some(rank - self.rest)
        } else {
            rank.is_multiple_of(2).then_some(rank / 2)
        }
    }

    /// The inverse of `inner`.
    pub(super) fn outer(self, inner: u32) -> u32 {
        if inner < self.rest { inner * 2 } else { inner + self.rest }
    }

    /// Sends the vectors of waiting ranks to their neighbours; the rank number `me` may be counted from the
    /// root.
    pub(super) fn before(self, me: u32, part: &Part, name: impl Fn(u32) -> u32, into: &mut Round) {
        if me < 2 * self.rest {
            if me % 2 == 1 {
                into.send(name(me - 1), part.bytes);
            } else {
                into.receive(name(me + 1));
            }
        }
    }

    /// Sends the result back to the waiting ranks.
    pub(super) fn after(self, me: u32, part: &Part, into: &mut Round) {
        if me < 2 * self.rest {
            if me % 2 == 1 {
                into.receive(me - 1);
            } else {
                into.send(me + 1, part.bytes);
            }
        }
    }
}
