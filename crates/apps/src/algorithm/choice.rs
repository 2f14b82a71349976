//! Selects the algorithm for each collective operation: by message size, or as the user specifies.

use crate::application::Call;
use std::fmt;
use std::str::FromStr;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All values of this type.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// The name of this value in files.
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
    /// The kind of a collective operation.
    Kind {
        /// No rank continues before all ranks have entered.
        Barrier = "barrier",
        /// One rank sends the same data to all ranks.
        Bcast = "bcast",
        /// One rank receives the sum over all ranks.
        Reduce = "reduce",
        /// All ranks receive the sum over all ranks.
        Allreduce = "allreduce",
        /// One rank receives a block from each rank.
        Gather = "gather",
        /// A gather with a different size for each rank.
        Gatherv = "gatherv",
        /// One rank sends a different block to each rank.
        Scatter = "scatter",
        /// A scatter with a different size for each rank.
        Scatterv = "scatterv",
        /// All ranks receive a block from each rank.
        Allgather = "allgather",
        /// An allgather with a different size for each rank.
        Allgatherv = "allgatherv",
        /// Each rank sends a different block to each rank.
        Alltoall = "alltoall",
        /// An all-to-all with a different size for each pair of ranks.
        Alltoallv = "alltoallv",
        /// Each rank receives one block of the sum over all ranks.
        ReduceScatter = "reduce_scatter",
        /// Each rank receives the sum over all ranks up to itself.
        Scan = "scan",
    }
}

named! {
    /// An algorithm for a collective operation.
    Algorithm {
        /// Tokens between ranks at doubling distance.
        Dissemination = "dissemination",
        /// A binomial tree.
        Binomial = "binomial",
        /// A scatter followed by an allgather (van de Geijn).
        ScatterAllgather = "scatter_allgather",
        /// Exchange of all data between ranks at doubling distance.
        RecursiveDoubling = "recursive_doubling",
        /// Exchange of half of the data between ranks at halving distance.
        RecursiveHalving = "recursive_halving",
        /// A reduce-scatter followed by a gather or an allgather.
        Rabenseifner = "rabenseifner",
        /// Messages travel around the ring of ranks.
        Ring = "ring",
        /// About log2 p rounds for any number p of ranks.
        Bruck = "bruck",
        /// Each rank exchanges data with one partner per round.
        Pairwise = "pairwise",
        /// All messages of the operation are sent at once.
        Direct = "direct",
    }
}

/// Algorithms that the user has selected; other operations select their algorithm by size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choices(Vec<(Kind, Algorithm)>);

impl Choices {
    /// Makes `algorithm` carry out all operations of `kind`; replaces an earlier choice.
    ///
    /// # Errors
    /// The valid algorithms, if `algorithm` cannot carry out `kind`.
    pub fn set(&mut self, kind: Kind, algorithm: Algorithm) -> Result<(), &'static [Algorithm]> {
        let known = algorithms(kind);
        if !known.contains(&algorithm) {
            return Err(known);
        }
        self.0.retain(|&(other, _)| other != kind);
        self.0.push((kind, algorithm));
        Ok(())
    }

    /// The algorithms that can carry out `kind`.
    pub fn known(&self, kind: Kind) -> &'static [Algorithm] {
        algorithms(kind)
    }

    /// Selects the algorithm for a call among `size` ranks: the user's choice, else the application's choice,
    /// else by size.
    pub fn choose(&self, call: &Call, size: u32) -> Algorithm {
        let Call { kind, bytes, .. } = *call;
        let chosen = self.0.iter().find(|&&(other, _)| other == kind).map(|&(_, algorithm)| algorithm);
        match chosen.or(call.algorithm) {
            // Both algorithms require a power of two; other sizes use a similar algorithm.
            Some(Algorithm::RecursiveHalving) if !size.is_power_of_two() => Algorithm::Pairwise,
            Some(Algorithm::RecursiveDoubling) if kind == Kind::Allgather && !size.is_power_of_two() => {
                Algorithm::Bruck
            }
            Some(algorithm) => algorithm,
            None => by_size(kind, size, bytes),
        }
    }
}

/// The algorithms for an operation; the first algorithm is for small sizes.
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

/// The thresholds of Thakur et al. 2005 (bcast 12 KiB and 8 ranks; reduce and allreduce 2 KiB; allgather 80
/// and 512 KiB in total; all-to-all 256 B and 32 KiB; reduce-scatter 512 KiB in total); allreduce uses the
/// ring from 1 MiB, as in Open MPI.
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
