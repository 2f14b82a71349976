//! Event queue, run loop, named random streams, trajectory fingerprint. Knows nothing of networks.

mod fingerprint;
pub mod memory;
mod queue;
mod rng;
mod run;

pub use fingerprint::Fingerprint;
pub use queue::EventQueue;
pub use rng::{Rng, mix_bits, random_stream};
pub use run::{EventTally, Model, RunCallbackDecision, RunEnding, RunLimits, RunProgress, run_events};
