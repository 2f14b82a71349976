//! `clocks`: the order of simultaneous events.

use pauseframe_schema::choices;

choices! {
    /// How simultaneous events are ordered
    pub enum Clocks {
        /// Frames that compete for a place (docs/models/clocks.md) go in random order
        Real = "real",
        /// The smaller port goes first: for closed forms and teaching
        Ideal = "ideal",
    }
}
