//! Collective operations as in MPI libraries: rounds of sends and receives.
//!
//! An algorithm is a function from (communicator size, own position, sizes, round) to the messages of that
//! round. A rank begins a round when all its messages of the previous round are complete. No state is kept
//! between rounds. The algorithms and the thresholds between them follow Thakur, Rabenseifner and Gropp,
//! "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005; the ring for large
//! reductions follows Open MPI. Costs use the alpha-beta model with p ranks, latency alpha and beta per byte.
//! The CPU time of reductions is not modelled.

mod choice;
mod exchange;
mod fold;
mod reduction;
mod rooted;

pub use choice::{Algorithm, Choices, Kind};

/// The sends and receives of one rank in one round; peers are positions in the communicator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// The sends as (receiver, bytes), in the order in which they are sent.
    pub sends: Vec<(u32, u64)>,
    /// The senders of the receives, in the order in which the receives are posted.
    pub receives: Vec<u32>,
}

impl Round {
    fn clear(&mut self) {
        self.sends.clear();
        self.receives.clear();
    }

    fn send(&mut self, to: u32, bytes: u64) {
        self.sends.push((to, bytes));
    }

    fn receive(&mut self, from: u32) {
        self.receives.push(from);
    }
}

/// The role of one rank in one collective operation.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Number of members of the communicator.
    pub size: u32,
    /// The rank's position in the communicator.
    pub me: u32,
    /// The root's position.
    pub root: u32,
    /// See [`crate::Call::bytes`].
    pub bytes: u64,
    /// See [`crate::Call::counts`].
    pub counts: &'a [u64],
}

impl Part<'_> {
    /// The position of this rank, counted from the root.
    fn relative(&self) -> u32 {
        (self.me + self.size - self.root) % self.size
    }

    /// The position in the communicator of a rank that is counted from the root.
    fn absolute(&self, relative: u32) -> u32 {
        (relative + self.root) % self.size
    }

    /// The rank `by` positions after this rank, modulo the size.
    pub(crate) fn up(&self, by: u32) -> u32 {
        (self.me + by) % self.size
    }

    /// The rank `by` positions before this rank, modulo the size.
    fn down(&self, by: u32) -> u32 {
        (self.me + self.size - by % self.size) % self.size
    }

    /// Number of bytes in the blocks `from..to` of a vector that is divided into `blocks` equal blocks.
    fn cut(&self, blocks: u32, from: u32, to: u32) -> u64 {
        let edge = |block: u32| (u128::from(self.bytes) * u128::from(block) / u128::from(blocks)) as u64;
        edge(to) - edge(from)
    }

    /// The block size of rank `of`: its own count, or else the common size.
    pub(crate) fn block(&self, of: u32) -> u64 {
        self.counts.get(of as usize).copied().unwrap_or(self.bytes)
    }
}

/// Number of rounds in which doubling distances reach all `size` ranks.
fn doublings(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

/// Writes the messages of round `round` into `into`; returns false if there is no such round. A round may be
/// empty for a rank that waits for other ranks.
pub fn round(algorithm: Algorithm, kind: Kind, part: &Part, round: u32, into: &mut Round) -> bool {
    into.clear();
    if part.size < 2 {
        return false;
    }
    match (algorithm, kind) {
        (Algorithm::Dissemination, _) => exchange::dissemination(part, round, into),
        (Algorithm::Binomial, Kind::Bcast) => rooted::bcast(part, round, into),
        (Algorithm::Binomial, Kind::Reduce) => rooted::reduce(part, round, into),
        (Algorithm::Binomial, Kind::Allreduce) => rooted::reduce_and_bcast(part, round, into),
        (Algorithm::Binomial, Kind::Gather) => rooted::gather(part, round, into),
        (Algorithm::Binomial, _) => rooted::scatter(part, round, into),
        (Algorithm::ScatterAllgather, _) => rooted::scatter_allgather(part, round, into),
        (Algorithm::Direct, Kind::Gatherv | Kind::Gather) => rooted::gather_directly(part, round, into),
        (Algorithm::Direct, Kind::Scatterv | Kind::Scatter) => rooted::scatter_directly(part, round, into),
        (Algorithm::Direct, _) => exchange::all_at_once(part, round, into),
        (Algorithm::Rabenseifner, Kind::Reduce) => reduction::rabenseifner_reduce(part, round, into),
        (Algorithm::Rabenseifner, _) => reduction::rabenseifner(part, round, into),
        (Algorithm::RecursiveDoubling, Kind::Allgather) => exchange::doubling_allgather(part, round, into),
        (Algorithm::RecursiveDoubling, Kind::Scan) => reduction::scan(part, round, into),
        (Algorithm::RecursiveDoubling, _) => reduction::doubling(part, round, into),
        (Algorithm::RecursiveHalving, _) => reduction::halving(part, round, into),
        (Algorithm::Ring, Kind::Allreduce) => reduction::ring(part, round, into),
        (Algorithm::Ring, _) => exchange::ring_allgather(part, round, into),
        (Algorithm::Bruck, Kind::Alltoall) => exchange::bruck_all_to_all(part, round, into),
        (Algorithm::Bruck, _) => exchange::bruck_allgather(part, round, into),
        (Algorithm::Pairwise, _) => exchange::pairwise(part, round, into),
    }
}
