//! Chooses the algorithm of a collective operation: by size, or as the user requests.

use crate::application::Call;
use std::fmt;
use std::str::FromStr;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All algorithms.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// Name of the algorithm in files.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl FromStr for $name {
            type Err = ();
            fn from_str(text: &str) -> Result<$name, ()> {
                Self::ALL.iter().copied().find(|one| one.name() == text).ok_or(())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named! {
    /// A collective operation.
    Kind {
        /// Barrier: no rank continues before all have arrived.
        Barrier = "barrier",
        /// Broadcast: from one to all.
        Bcast = "bcast",
        /// Reduce: the sum to one.
        Reduce = "reduce",
        /// All-reduce: the sum to all.
        Allreduce = "allreduce",
        /// Gather: a block from each to one.
        Gather = "gather",
        /// Gather with a size per rank.
        Gatherv = "gatherv",
        /// Scatter: a block from one to each.
        Scatter = "scatter",
        /// Scatter with a size per rank.
        Scatterv = "scatterv",
        /// All-gather: a block from each to all.
        Allgather = "allgather",
        /// All-gather with a size per rank.
        Allgatherv = "allgatherv",
        /// All-to-all: a block from each to each.
        Alltoall = "alltoall",
        /// All-to-all with a size per pair.
        Alltoallv = "alltoallv",
        /// Reduce-scatter: a block of the sum to each.
        ReduceScatter = "reduce_scatter",
        /// Scan: the sum over all ranks up to this one.
        Scan = "scan",
    }
}

named! {
    /// An algorithm of a collective operation.
    Algorithm {
        /// Tokens at doubling distance.
        Dissemination = "dissemination",
        /// A binomial tree.
        Binomial = "binomial",
        /// Scatter, then allgather (van de Geijn).
        ScatterAllgather = "scatter_allgather",
        /// Exchange at doubling distance.
        RecursiveDoubling = "recursive_doubling",
        /// Exchange of halves at halving distance.
        RecursiveHalving = "recursive_halving",
        /// Reduce-scatter, then gather or allgather.
        Rabenseifner = "rabenseifner",
        /// A ring.
        Ring = "ring",
        /// Log p rounds for any p.
        Bruck = "bruck",
        /// One partner per round.
        Pairwise = "pairwise",
        /// All messages at once.
        Direct = "direct",
    }
}

/// Algorithms that the user has chosen; the others depend on the size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choices(Vec<(Kind, Algorithm)>);

impl Choices {
    /// `algorithm` always carries out `kind`; this replaces an earlier choice.
    ///
    /// # Errors
    /// The algorithms of `kind`, if `algorithm` is not one of them.
    pub fn set(&mut self, kind: Kind, algorithm: Algorithm) -> Result<(), &'static [Algorithm]> {
        let known = algorithms(kind);
        if !known.contains(&algorithm) {
            return Err(known);
        }
        self.0.retain(|&(other, _)| other != kind);
        self.0.push((kind, algorithm));
        Ok(())
    }

    /// The algorithms of `kind`.
    pub fn known(&self, kind: Kind) -> &'static [Algorithm] {
        algorithms(kind)
    }

    /// The algorithm for a call among `size` ranks: the user's choice, else the application's, else by size.
    pub fn choose(&self, call: &Call, size: u32) -> Algorithm {
        let Call { kind, bytes, .. } = *call;
        let chosen = self.0.iter().find(|&&(other, _)| other == kind).map(|&(_, algorithm)| algorithm);
        match chosen.or(call.algorithm) {
            // These two are defined for powers of two only; other sizes use the closest alternative.
            Some(Algorithm::RecursiveHalving) if !size.is_power_of_two() => Algorithm::Pairwise,
            Some(Algorithm::RecursiveDoubling) if kind == Kind::Allgather && !size.is_power_of_two() => {
                Algorithm::Bruck
            }
            Some(algorithm) => algorithm,
            None => by_size(kind, size, bytes),
        }
    }
}

/// The algorithms for an operation, starting with that for small sizes.
pub(crate) fn algorithms(kind: Kind) -> &'static [Algorithm] {
    use Algorithm::{
        Binomial, Bruck, Direct, Dissemination, Pairwise, Rabenseifner, RecursiveDoubling, RecursiveHalving,
        Ring, ScatterAllgather,
    };
    match kind {
        Kind::Barrier => &[Dissemination],
        Kind::Bcast => &[Binomial, ScatterAllgather],
        Kind::Reduce => &[Binomial, Rabenseifner],
        Kind::Allreduce => &[RecursiveDoubling, Rabenseifner, Ring, Binomial],
        Kind::Gather | Kind::Scatter => &[Binomial, Direct],
        Kind::Gatherv | Kind::Scatterv => &[Direct],
        Kind::Allgather => &[RecursiveDoubling, Bruck, Ring],
        Kind::Allgatherv => &[Ring],
        Kind::Alltoall => &[Bruck, Direct, Pairwise],
        Kind::Alltoallv => &[Pairwise, Direct],
        Kind::ReduceScatter => &[RecursiveHalving, Pairwise],
        Kind::Scan => &[RecursiveDoubling],
    }
}

/// The sizes of Thakur et al. 2005 (bcast 12 KiB and 8 ranks; reduce and allreduce 2 KiB; allgather 80 and 512 KiB in all;
/// all-to-all 256 B and 32 KiB; reduce-scatter 512 KiB in all); allreduce goes around the ring from 1 MiB on, as in Open MPI.
fn by_size(kind: Kind, size: u32, bytes: u64) -> Algorithm {
    let power = size.is_power_of_two();
    let all = bytes.saturating_mul(u64::from(size));
    match kind {
        Kind::Bcast if bytes < 12 << 10 || size < 8 => Algorithm::Binomial,
        Kind::Bcast => Algorithm::ScatterAllgather,
        Kind::Reduce if bytes > 2 << 10 => Algorithm::Rabenseifner,
        Kind::Allreduce if bytes <= 2 << 10 => Algorithm::RecursiveDoubling,
        Kind::Allreduce if bytes < 1 << 20 => Algorithm::Rabenseifner,
        Kind::Allgather if power && all < 512 << 10 => Algorithm::RecursiveDoubling,
        Kind::Allgather if !power && all < 80 << 10 => Algorithm::Bruck,
        Kind::Allreduce | Kind::Allgather | Kind::Allgatherv => Algorithm::Ring,
        Kind::Alltoall if bytes <= 256 && size >= 8 => Algorithm::Bruck,
        Kind::Alltoall if bytes <= 32 << 10 => Algorithm::Direct,
        Kind::ReduceScatter if power && all < 512 << 10 => Algorithm::RecursiveHalving,
        Kind::Alltoall | Kind::ReduceScatter => Algorithm::Pairwise,
        Kind::Barrier
        | Kind::Reduce
        | Kind::Gather
        | Kind::Gatherv
        | Kind::Scatter
        | Kind::Scatterv
        | Kind::Alltoallv
        | Kind::Scan => algorithms(kind)[0],
    }
}
