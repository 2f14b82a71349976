//! Class schedulers of ports.

use pauseframe_units::Priority;

/// How the ports of switches and hosts choose among priorities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// The highest priority first.
    Strict,
    /// Enhanced transmission selection: priorities in no group are strict, above all groups.
    Ets(Vec<EtsGroup>),
}

/// A bandwidth group (traffic class).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtsGroup {
    /// Its priorities.
    pub priorities: Vec<Priority>,
    /// Its share, in percent, of the bandwidth that strict priorities leave; all groups sum to 100.
    pub share: u8,
}
