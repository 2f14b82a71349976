//! `clocks`: the order of simultaneous events.

use pauseframe_schema::choices;

choices! {
    /// How simultaneous events are ordered
    pub enum Clocks {
        /// Frames that compete for a place (docs/models/clocks.md) go in random order, and hosts have the jitter of host.wire_jitters and host.tx_jitter
        Real = "real",
        /// The smaller port goes first, and automatic jitter is zero: for closed forms and teaching
        Ideal = "ideal",
    }
}
