//! Who gives rows of ports to the paths of flows: the original of what every partition has a copy of.
//!
//! A row that is given up is used again when no packet under way names it, and not before the flow that gave it up has heard so.

use crate::switching::paths::Paths;
use pauseframe_units::{PortId, Time};

/// The paths of all flows, and what has changed since the partitions were told.
#[derive(Debug)]
pub(crate) struct Rows {
    paths: Paths,
    used: bool,
    /// Given up from these times on.
    leaving: Vec<(Time, u32)>,
    /// Rows that the partitions do not know yet.
    fresh: Vec<(u32, Vec<PortId>)>,
}

impl Rows {
    /// `used`: packets know their path; else switches look up the next hop and there are no rows.
    pub(crate) fn new(stride: usize, used: bool) -> Rows {
        Rows { paths: Paths::new(stride), used, leaving: Vec::new(), fresh: Vec::new() }
    }

    pub(crate) fn are_used(&self) -> bool {
        self.used
    }

    pub(crate) fn add(&mut self, path: Vec<PortId>) -> u32 {
        let row = self.paths.add(&path);
        self.fresh.push((row, path));
        row
    }

    pub(crate) fn is(&self, row: u32, path: &[PortId]) -> bool {
        self.paths.is(row, path)
    }

    pub(crate) fn retire(&mut self, row: u32, at: Time) {
        self.leaving.push((at, row));
    }

    /// All partitions have come to `now`: whether rows that nobody sends by any more are worth looking for among the packets.
    pub(crate) fn are_wanted(&mut self, now: Time) -> bool {
        let paths = &mut self.paths;
        self.leaving.extract_if(.., |(at, _)| *at < now).for_each(|(_, row)| paths.retire(row));
        paths.wants_rows()
    }

    /// Uses again what is not among the rows `named` by packets, of which there might be as many as `places`.
    pub(crate) fn reclaim(&mut self, named: impl Iterator<Item = u32>, places: usize) {
        self.paths.reclaim(named, places);
    }

    /// What the partitions have to be told.
    pub(crate) fn take_fresh(&mut self) -> Vec<(u32, Vec<PortId>)> {
        std::mem::take(&mut self.fresh)
    }
}
