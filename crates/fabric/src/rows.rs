//! Assigns rows of ports to the paths of flows. Every partition has a copy of the rows.
//!
//! A retired row is reused when no packet in flight refers to it, and not before its flow has switched to another path.

use crate::switching::paths::Paths;
use pauseframe_units::{PortId, Time};

/// The paths of all flows, and the changes that partitions have not received.
#[derive(Debug)]
pub(crate) struct PathRows {
    paths: Paths,
    used: bool,
    /// Rows that retire at these times.
    leaving: Vec<(Time, u32)>,
    /// New rows that partitions have not received.
    fresh: Vec<(u32, Vec<PortId>)>,
}

impl PathRows {
    /// `used`: packets carry their path. Otherwise switches look up the next hop and rows are unused.
    pub(crate) fn new(stride: usize, used: bool) -> PathRows {
        PathRows { paths: Paths::new(stride), used, leaving: Vec::new(), fresh: Vec::new() }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.used
    }

    pub(crate) fn add_path(&mut self, path: Vec<PortId>) -> u32 {
        let row = self.paths.add_path(&path);
        self.fresh.push((row, path));
        row
    }

    pub(crate) fn row_equals_path(&self, row: u32, path: &[PortId]) -> bool {
        self.paths.row_equals_path(row, path)
    }

    pub(crate) fn retire_row(&mut self, row: u32, at: Time) {
        self.leaving.push((at, row));
    }

    /// Whether a search for unused rows pays off, after all partitions have reached `now`.
    pub(crate) fn should_reclaim(&mut self, now: Time) -> bool {
        let paths = &mut self.paths;
        self.leaving.extract_if(.., |(at, _)| *at < now).for_each(|(_, row)| paths.retire_row(row));
        paths.should_reclaim()
    }

    /// Frees retired rows that no packet refers to. `named`: rows of all packets; `places`: size of the packet pools.
    pub(crate) fn reclaim_rows(&mut self, named: impl Iterator<Item = u32>, places: usize) {
        self.paths.reclaim_rows(named, places);
    }

    /// Takes the new rows for the partitions.
    pub(crate) fn take_new_rows(&mut self) -> Vec<(u32, Vec<PortId>)> {
        std::mem::take(&mut self.fresh)
    }
}
