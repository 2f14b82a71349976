//! Choices of next hops by switches.

use pauseframe_units::Span;

/// How switches choose among equal next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HopChoice {
    /// A random one for every packet.
    Spray,
    /// A random one for every flowlet: packets of a flow with gaps of at most `gap` (`LetFlow`, NSDI 2017).
    LetFlow {
        /// A longer gap begins a flowlet.
        gap: Span,
    },
    /// For every packet the one with the shortest queue of `samples` random ones and the last choice for the destination (DRILL, SIGCOMM 2017).
    Drill {
        /// Random next hops to look at.
        samples: u32,
    },
    /// For every packet the one with the shortest queue of all; a random one of equal ones (adaptive routing with fresh local queues).
    Adaptive,
}

impl HopChoice {
    /// Whether packets of a flow take several paths at once.
    pub fn spreads_packets(self) -> bool {
        !matches!(self, HopChoice::LetFlow { .. })
    }
}
