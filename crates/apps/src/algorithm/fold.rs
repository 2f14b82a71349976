//! Communicators whose size is not a power of two: some ranks pass their vector to a neighbour and wait.

use super::{Part, Round};

/// The largest power of two in a communicator, and the participating ranks. Among the first 2 r ranks the odd ones pass
/// their vector to the even one before them; rank 0 always participates (Thakur et al. 2005 §4.4, mirrored).
#[derive(Clone, Copy)]
pub(super) struct Fold {
    /// Participating ranks: a power of two.
    pub(super) power: u32,
    /// Its logarithm.
    pub(super) rounds: u32,
    /// Pairs in which one rank waits.
    rest: u32,
}

impl Fold {
    pub(super) fn of(size: u32) -> Fold {
        let rounds = size.ilog2();
        Fold { power: 1 << rounds, rounds, rest: size - (1 << rounds) }
    }

    /// Additional rounds before and after: 0 or 1.
    pub(super) fn extra(self) -> u32 {
        u32::from(self.rest > 0)
    }

    /// The number among the participating ranks; `None` for a waiting one.
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

    /// Waiting ranks pass the vector to their neighbours. `me` may be counted from the root.
    pub(super) fn before(self, me: u32, part: &Part, name: impl Fn(u32) -> u32, into: &mut Round) {
        if me < 2 * self.rest {
            if me % 2 == 1 {
                into.send(name(me - 1), part.bytes);
            } else {
                into.receive(name(me + 1));
            }
        }
    }

    /// The result returns.
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
